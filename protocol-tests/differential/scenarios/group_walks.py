"""Random walks through groups: what members might do in any order, right and wrong, drawn from a seed; each answer in short. They
compare reconciliation, fencing and assignment as wholes, where the other files have one case each.

Members of a consumer group are always answered at once, so nothing depends on time; nor on chance, since members name themselves. One
member never leaves, so that the group stays a consumer group."""

import random

from groups import beat, commit, heartbeat, join, leave, offsets, subscription, sync, topic
from kafka_wire import messages
from scenario import scenario

BEAT = "ConsumerGroupHeartbeat"


class Walk:
    def __init__(self, s, seed, topics, assignor):
        self.s, self.random, self.topics, self.assignor, self.group = s, random.Random(seed), topics, assignor, s.name("g")
        self.names = {t.id: t.name[len(s.prefix):] for t in topics}
        self.epochs, self.previous, self.assigned = {}, {}, {}
        self.generations = {}

    def note(self, label, outcome):
        self.s.record(label, outcome)

    def short(self, given):
        if given is None:
            return "-"
        parts = {self.names[t["TopicId"]]: sorted(t["Partitions"]) for t in given["TopicPartitions"]}
        return " ".join(f"{name}{partitions}" for name, partitions in sorted(parts.items())) or "none"

    def beat(self, member, epoch, how, owned=None, **more):
        body = beat(self.group, member, epoch, **more)
        if epoch != 0 and owned is not None:
            body["TopicPartitions"] = [{"TopicId": t.id, "Partitions": p} for t, p in owned]
        answer = self.s.quiet(BEAT, 1, body)
        said = "" if owned is None else " has " + " ".join(f"{self.names[t.id]}{sorted(p)}" for t, p in owned)
        self.note(f"{member} {how}{said}", [answer["ErrorCode"], answer["MemberEpoch"], self.short(answer["Assignment"])])
        if not answer["ErrorCode"] and epoch >= 0:
            if answer["MemberEpoch"] != self.epochs.get(member):
                self.previous[member] = self.epochs.get(member, 0)
            self.epochs[member] = answer["MemberEpoch"]
            if answer["Assignment"] is not None:
                given = {t["TopicId"]: t["Partitions"] for t in answer["Assignment"]["TopicPartitions"]}
                self.assigned[member] = [(t, sorted(given[t.id])) for t in self.topics if t.id in given]

    def wanted(self):
        return [t.name for t in self.topics if self.random.random() < 0.8]

    def instance(self, member):
        return {"instance": "i" + member} if member.startswith("s") else {}

    def step(self, member):
        epoch, chance = self.epochs.get(member), self.random.random()
        has, static = self.assigned.get(member, []), self.instance(member)
        if epoch is None or chance < 0.08:
            self.assigned[member] = []
            # Whoever wants nothing may be given something: see consumer_group_heartbeat/joins_wanting_nothing.
            self.beat(member, 0, "joins", topics=self.wanted() or [self.topics[0].name], ServerAssignor=self.assignor, **static)
        elif chance < 0.35:
            self.beat(member, epoch, "goes on", **static)
        elif chance < 0.65:
            self.beat(member, epoch, "goes on", has, **static)
        elif chance < 0.72:
            part = [(t, self.random.sample(p, self.random.randint(0, len(p)))) for t, p in has]
            self.beat(member, epoch, "goes on", [(t, p) for t, p in part if p], **static)
        elif chance < 0.80:
            self.beat(member, epoch, "wants others", topics=self.wanted(), **static)
        elif chance < 0.86:
            self.beat(member, self.previous.get(member, 0) or 1, "falls back", has, **static)
        elif chance < 0.90:
            self.beat(member, epoch + 1, "runs ahead", has, **static)
        elif chance < 0.94 and static:
            self.beat(member, -2, "leaves for a while", **static)
        else:
            self.beat(member, -1, "leaves", **static)
            self.epochs.pop(member, None)

    def commit(self):
        member = self.random.choice(sorted(self.epochs))
        t = self.random.choice(self.topics)
        epoch, partition = self.epochs[member] - self.random.choice((0, 0, 1, 2, -1)), self.random.randrange(3)
        answer = self.s.quiet("OffsetCommit", 9, commit(self.group, (t, partition, 1), member=member, generation=epoch))
        self.note(f"{member} commits {self.names[t.id]}{partition} at {epoch - self.epochs[member]}", answer["Topics"][0]["Partitions"][0]["ErrorCode"])

    def fetch(self):
        member = self.random.choice(sorted(self.epochs))
        epoch = self.epochs[member] - self.random.choice((0, 0, 1))
        answer = self.s.quiet("OffsetFetch", 9, offsets(self.group, every=True, member=member, epoch=epoch))
        self.note(f"{member} fetches at {epoch - self.epochs[member]}", answer["Groups"][0]["ErrorCode"])

    # --- members of the classic protocol

    def classic(self, member):
        chance, generation = self.random.random(), self.generations.get(member)
        if generation is None or chance < 0.25:
            owned = [{"Topic": t.name, "Partitions": p} for t, p in self.assigned.get(member, [])]
            metadata = subscription(*self.wanted() or [self.topics[0].name], version=self.random.choice((1, 2, 3)), OwnedPartitions=owned, GenerationId=generation or -1)
            answer = self.s.quiet("JoinGroup", 9, join(self.group, member, protocols={"range": metadata}))
            self.note(f"{member} joins", [answer["ErrorCode"], answer["GenerationId"]])
            if not answer["ErrorCode"]:
                self.generations[member] = answer["GenerationId"]
        elif chance < 0.60:
            answer = self.s.quiet("SyncGroup", 5, sync(self.group, generation, member))
            given = self.unpacked(answer["Assignment"])
            self.note(f"{member} syncs", [answer["ErrorCode"], {name: sorted(p) for name, p in sorted(given.items())}])
            if not answer["ErrorCode"]:
                self.assigned[member] = [(t, given[self.names[t.id]]) for t in self.topics if self.names[t.id] in given]
        elif chance < 0.85:
            answer = self.s.quiet("Heartbeat", 4, heartbeat(self.group, generation - self.random.choice((0, 0, 0, 1)), member))
            self.note(f"{member} beats", answer["ErrorCode"])
        elif chance < 0.93:
            answer = self.s.quiet("OffsetCommit", 9, commit(self.group, (self.topics[0], 0, 1), member=member, generation=generation - self.random.choice((0, 1))))
            self.note(f"{member} commits", answer["Topics"][0]["Partitions"][0]["ErrorCode"])
        else:
            answer = self.s.quiet("LeaveGroup", 5, leave(self.group, (member,)))
            self.note(f"{member} leaves", answer["Members"][0]["ErrorCode"])
            del self.generations[member]
            self.assigned.pop(member, None)

    def unpacked(self, data):
        if not data:
            return {}
        body = messages.message("ConsumerProtocolAssignment").decode(int.from_bytes(data[:2], "big"), data[2:])
        return {t["Topic"][len(self.s.prefix):]: t["Partitions"] for t in body["AssignedPartitions"]}

    def described(self):
        self.s.call("ConsumerGroupDescribe", 1, {"GroupIds": [self.group]})


def walk(s, seed, topics, assignor, members, classic=(), steps=60):
    w = Walk(s, seed, topics, assignor)
    w.beat("a", 0, "joins", topics=[t.name for t in topics], ServerAssignor=assignor)
    for _ in range(steps):
        kind = w.random.random()
        if kind < 0.06:
            w.commit()
        elif kind < 0.10:
            w.fetch()
        elif kind < 0.30:
            w.beat("a", w.epochs["a"], "goes on", w.assigned["a"])
        elif classic and kind < 0.60:
            w.classic(w.random.choice(classic))
        else:
            w.step(w.random.choice(members))
    w.described()


@scenario(cases=list(range(12)))
def uniform(s, seed):
    walk(s, seed, [topic(s, partitions=3 + seed % 5)], "uniform", ["b", "c", "d"])


@scenario(cases=list(range(12)))
def range_of_two_topics(s, seed):
    walk(s, 100 + seed, [topic(s, "t", partitions=3 + seed % 5), topic(s, "u", partitions=3)], "range", ["b", "c", "d"])


@scenario(cases=list(range(12)))
def static_members(s, seed):
    walk(s, 200 + seed, [topic(s, partitions=3 + seed % 5)], "uniform", ["b", "sb", "sc"])


@scenario(cases=list(range(12)))
def both_protocols(s, seed):
    walk(s, 300 + seed, [topic(s, partitions=3 + seed % 5)], "uniform", ["b", "c"], classic=["x", "y"])
