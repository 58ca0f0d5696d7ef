"""Requests of consumer groups, and groups that are already in some state when a scenario begins. Both protocols: the classic one
(JoinGroup, SyncGroup) and the consumer protocol of KIP-848 (ConsumerGroupHeartbeat)."""

from dataclasses import dataclass

from kafka_wire import messages

MEMBER_ID_REQUIRED = 79


def subscription(*topics, version=0, **fields):
    """A member's metadata in a classic group of consumers."""
    return data("ConsumerProtocolSubscription", version, {"Topics": list(topics)} | fields)


def assignment(*parts, version=0, **fields):
    """parts: (topic, [partitions])."""
    return data("ConsumerProtocolAssignment", version, {"AssignedPartitions": [{"Topic": t, "Partitions": p} for t, p in parts]} | fields)


def data(schema, version, body):
    return version.to_bytes(2, "big") + messages.message(schema).encode(version, body)


# --- the classic protocol


def join(group, member="", instance=None, protocols=None, type="consumer", session=30000, rebalance=30000, reason=None):
    """protocols: {name: metadata}; range of one topic, unless told."""
    return {
        "GroupId": group,
        "SessionTimeoutMs": session,
        "RebalanceTimeoutMs": rebalance,
        "MemberId": member,
        "GroupInstanceId": instance,
        "ProtocolType": type,
        "Protocols": [{"Name": k, "Metadata": v} for k, v in ({"range": subscription("t")} if protocols is None else protocols).items()],
        "Reason": reason,
    }


def sync(group, generation, member, assignments=None, instance=None, type="consumer", protocol="range"):
    """assignments: {member: bytes}, of the leader."""
    return {
        "GroupId": group,
        "GenerationId": generation,
        "MemberId": member,
        "GroupInstanceId": instance,
        "ProtocolType": type,
        "ProtocolName": protocol,
        "Assignments": [{"MemberId": k, "Assignment": v} for k, v in (assignments or {}).items()],
    }


def heartbeat(group, generation, member, instance=None):
    return {"GroupId": group, "GenerationId": generation, "MemberId": member, "GroupInstanceId": instance}


def leave(group, *members):
    """members: (id[, instance[, reason]]). Before version 3 only the first leaves."""
    members = [tuple(m) + (None,) * (3 - len(m)) for m in members]
    return {
        "GroupId": group,
        "MemberId": members[0][0] if members else "",
        "Members": [{"MemberId": m, "GroupInstanceId": instance, "Reason": reason} for m, instance, reason in members],
    }


def enter(s, v, group, conn=0, **how):
    """Joins, and once more where the broker first hands out an id. Both are recorded."""
    answer = s.call("JoinGroup", v, join(group, **how), conn)
    if answer and answer["ErrorCode"] == MEMBER_ID_REQUIRED:
        answer = s.call("JoinGroup", v, join(group, answer["MemberId"], **how), conn, note="with id")
    return answer


@dataclass
class Member:
    id: str
    conn: object
    generation: int
    instance: str = None


def described(s, group):
    return s.quiet("DescribeGroups", 5, {"Groups": [group]})["Groups"][0]


def await_state(s, group, *states, members=None):
    """Waits for a classic group to be in one of the states and to have so many members."""
    s.quiet_until(lambda a: a["Groups"][0]["GroupState"] in states and members in (None, len(a["Groups"][0]["Members"])),
                  "DescribeGroups", 5, {"Groups": [group]})


def rebalanced(s, group, count=1, instances=(), synced=True, **how):
    """A classic group whose members have all joined, the first of them as leader, each with a connection of its own; stable if `synced`."""
    members = []
    for i in range(count):
        instance = instances[i] if i < len(instances) else None
        conn, member = f"member {i}", Member("", f"member {i}", 0, instance)
        if not instance:
            member.id = s.quiet("JoinGroup", 9, join(group, **how), conn)["MemberId"]
        members.append(member)
        s.send("JoinGroup", 9, join(group, member.id, instance, **how), conn)
        if i == 0:
            take(s, member)
        else:
            await_state(s, group, "PreparingRebalance", members=i + 1)
    if count > 1:
        first = members[0]
        s.send("JoinGroup", 9, join(group, first.id, first.instance, **how), first.conn)
        for member in members:
            take(s, member)
    if synced:
        for member in reversed(members):
            s.send("SyncGroup", 5, sync(group, member.generation, member.id, {m.id: assignment(("t", [i])) for i, m in enumerate(members)},
                                        protocol=next(iter(how.get("protocols") or {"range": 0})), type=how.get("type", "consumer")), member.conn)
        for member in members:
            answer = s.quiet_receive("SyncGroup", 5, member.conn)
            if answer["ErrorCode"]:
                raise RuntimeError(f"preparation: SyncGroup: {answer}")
    return members


def take(s, member):
    answer = s.quiet_receive("JoinGroup", 9, member.conn)
    if answer["ErrorCode"]:
        raise RuntimeError(f"preparation: JoinGroup: {answer}")
    member.id, member.generation = answer["MemberId"], answer["GenerationId"]


# --- the consumer protocol


def beat(group, member="", epoch=0, topics=None, owned=None, instance=None, rebalance=None, **more):
    """A ConsumerGroupHeartbeat. The first (epoch 0) says everything. owned: {topic: [partitions]}, as pairs of Topic and list."""
    if epoch == 0:
        topics, owned = topics if topics is not None or "SubscribedTopicRegex" in more else [], owned or ()
        rebalance = 30000 if rebalance is None else rebalance
    return {
        "GroupId": group,
        "MemberId": member,
        "MemberEpoch": epoch,
        "InstanceId": instance,
        "RebalanceTimeoutMs": -1 if rebalance is None else rebalance,
        "SubscribedTopicNames": topics,
        "TopicPartitions": None if owned is None else [{"TopicId": t.id, "Partitions": p} for t, p in owned],
    } | more


def topic(s, suffix="t", group="g", **how):
    """A topic of which the group's coordinator has learnt already: what it learns later begins another epoch. The group must not exist yet."""
    made = s.topic(suffix, **how)
    learnt(s, s.name(group), made)
    return made


def learnt(s, group, *topics):
    body = beat(group, "probe", topics=[t.name for t in topics])
    answer = beaten(s, body)
    while answer["Assignment"] is None or len(answer["Assignment"]["TopicPartitions"]) < len(topics):
        answer = beaten(s, beat(group, "probe", answer["MemberEpoch"]))
    beaten(s, beat(group, "probe", -1))
    s.quiet("DeleteGroups", 2, {"GroupsNames": [group]})


def joined(s, group, member, topics, instance=None, conn="quiet", **more):
    """A member of a consumer group, once it has its partitions; its epoch. `member` is its id, made up as clients do."""
    body = beat(group, member, topics=[t.name for t in topics], instance=instance, **more)
    answer = beaten(s, body, conn)
    epoch = answer["MemberEpoch"]
    for _ in range(100):
        if answer["Assignment"] is not None:
            owned = [{"TopicId": t["TopicId"], "Partitions": t["Partitions"]} for t in answer["Assignment"]["TopicPartitions"]]
            answer = beaten(s, beat(group, member, epoch, instance=instance) | {"TopicPartitions": owned}, conn)
        elif answer["MemberEpoch"] == epoch:
            return epoch
        else:
            answer = beaten(s, beat(group, member, answer["MemberEpoch"], instance=instance), conn)
        epoch = answer["MemberEpoch"]
    raise RuntimeError(f"preparation: ConsumerGroupHeartbeat does not settle: {answer}")


def goes_on(s, group, member, epoch):
    """A member that says what it has until nothing more comes; its epoch then."""
    for _ in range(5):
        answer = beaten(s, beat(group, member, epoch))  # what is still to come
        while answer["Assignment"] is not None or answer["MemberEpoch"] != epoch:
            epoch, owned = answer["MemberEpoch"], None
            if answer["Assignment"] is not None:
                owned = [{"TopicId": t["TopicId"], "Partitions": t["Partitions"]} for t in answer["Assignment"]["TopicPartitions"]]
            answer = beaten(s, beat(group, member, epoch) | {"TopicPartitions": owned})
    return epoch


def beaten(s, body, conn="quiet"):
    answer = s.quiet("ConsumerGroupHeartbeat", 1, body, conn)
    if answer["ErrorCode"]:
        raise RuntimeError(f"preparation: ConsumerGroupHeartbeat: {answer}")
    return answer


# --- offsets


def commit(group, *parts, member="", generation=-1, instance=None, **more):
    """parts: (topic, partition, offset[, metadata[, leader epoch]])."""
    topics = []
    for topic, partition, offset, *rest in parts:
        if not topics or topics[-1]["Name"] != topic.name:
            topics.append({"Name": topic.name, "TopicId": topic.id, "Partitions": []})
        metadata, epoch = (list(rest) + ["", -1][len(rest):])
        topics[-1]["Partitions"].append(
            {"PartitionIndex": partition, "CommittedOffset": offset, "CommittedLeaderEpoch": epoch, "CommittedMetadata": metadata})
    return {"GroupId": group, "GenerationIdOrMemberEpoch": generation, "MemberId": member, "GroupInstanceId": instance, "Topics": topics} | more


def offsets(group, *parts, every=False, member=None, epoch=-1, stable=False):
    """An OffsetFetch. parts: (topic, [partitions]); `every` asks for all that the group has."""
    topics = None if every else [{"Name": t.name, "PartitionIndexes": p} for t, p in parts]
    by_id = None if every else [{"Name": t.name, "TopicId": t.id, "PartitionIndexes": p} for t, p in parts]
    return {
        "GroupId": group,
        "Topics": topics,
        "Groups": [{"GroupId": group, "MemberId": member, "MemberEpoch": epoch, "Topics": by_id}],
        "RequireStable": stable,
    }


def committed(s, group, *parts, **how):
    """Commits in preparation, as one who is no member of the group unless told otherwise."""
    answer = s.quiet("OffsetCommit", 9, commit(group, *parts, **how))
    if failed := [p for t in answer["Topics"] for p in t["Partitions"] if p["ErrorCode"]]:
        raise RuntimeError(f"preparation: OffsetCommit: {failed}")
