"""ConsumerGroupHeartbeat: the whole life of a member of a consumer group (KIP-848). Version 1 brought regular expressions, and member ids
that the client makes.

An assignment follows at once (`group.consumer.assignment.interval.ms=0`), so epochs do not depend on time. Regular expressions are
resolved beside it, so there heartbeats are repeated."""

import time

from groups import beat, beaten, goes_on, heartbeat, join, joined, topic
from scenario import Topic, scenario
from scenarios.incremental_alter_configs import SET
from scenarios.incremental_alter_configs import ask as configure

API = "ConsumerGroupHeartbeat"
GROUP = 32


def described(s, group, note=""):
    s.call("ConsumerGroupDescribe", 1, {"GroupIds": [group]}, note=note)


@scenario("0-1")
def alone(s, v):
    g, t, m = s.name("g"), topic(s, partitions=3), s.name("m")
    epoch = s.call(API, v, beat(g, m, topics=[t.name]), note="joins")["MemberEpoch"]
    s.call(API, v, beat(g, m, epoch), note="again")
    s.call(API, v, beat(g, m, epoch, owned=[(t, [0, 1, 2])]), note="has all")
    s.call(API, v, beat(g, m, epoch), note="nothing new")
    described(s, g)
    s.call(API, v, beat(g, m, -1), note="leaves")
    s.call(API, v, beat(g, m, epoch), note="after it left")
    described(s, g)


@scenario([0])
def id_from_the_broker(s, v):
    """Before version 1."""
    g, t = s.name("g"), topic(s)
    member = s.call(API, v, beat(g, "", topics=[t.name]))
    s.call(API, v, beat(g, member["MemberId"], member["MemberEpoch"]))


@scenario("0-1")
def two_members(s, v):
    """The first gives back what the second is to have before that gets it."""
    g, t, first, second = s.name("g"), topic(s, partitions=4), s.name("m1"), s.name("m2")
    epoch = joined(s, g, first, [t])
    s.call(API, v, beat(g, second, topics=[t.name]), note="second joins")
    described(s, g, "while it waits")
    answer = s.call(API, v, beat(g, first, epoch), note="first, to give back")
    keeps = [{"TopicId": p["TopicId"], "Partitions": p["Partitions"]} for p in answer["Assignment"]["TopicPartitions"]]
    s.call(API, v, beat(g, second, 3), note="second, still waits")
    s.call(API, v, beat(g, first, epoch) | {"TopicPartitions": keeps}, note="first, gave back")
    answer = s.call(API, v, beat(g, second, 3), note="second, gets them")
    gets = [{"TopicId": p["TopicId"], "Partitions": p["Partitions"]} for p in answer["Assignment"]["TopicPartitions"]]
    s.call(API, v, beat(g, second, 3) | {"TopicPartitions": gets}, note="second, has them")
    described(s, g)
    s.call(API, v, beat(g, second, -1), note="second leaves")
    s.call(API, v, beat(g, first, 3), note="first, gets all back")
    described(s, g)


def shares(s, group, exact):
    """Who has what; where the assignor goes by the topics' random ids, only how many."""
    members = s.quiet("ConsumerGroupDescribe", 1, {"GroupIds": [group]})["Groups"][0]["Members"]
    has = {m["MemberId"].replace(s.prefix, "~"): sorted([t["TopicName"].replace(s.prefix, "~"), p] for t in m["Assignment"]["TopicPartitions"] for p in t["Partitions"])
           for m in members}
    parts = [str(part) for mine in has.values() for part in mine]
    s.record("each once", [len(parts), len(set(parts))])
    s.record("shares", has if exact else sorted(map(len, has.values())))


@scenario([1], cases={"uniform": "uniform", "range": "range", "default": None})
def three_members_of_two_topics(s, v, assignor):
    g, t, u = s.name("g"), topic(s, "t", partitions=4), topic(s, "u", partitions=5)
    members = {s.name(f"m{i}"): 0 for i in range(3)}
    for m in members:
        members[m] = beaten(s, beat(g, m, topics=[t.name, u.name], ServerAssignor=assignor))["MemberEpoch"]
    for _ in range(3):
        for m in members:
            members[m] = goes_on(s, g, m, members[m])
    shares(s, g, exact=assignor == "range")


@scenario([1], cases=["uniform", "range"])
def different_subscriptions(s, v, assignor):
    g, t, u = s.name("g"), topic(s, "t", partitions=3), topic(s, "u", partitions=2)
    members = {s.name("m1"): [t.name], s.name("m2"): [u.name], s.name("m3"): [t.name, u.name]}
    epochs = {m: beaten(s, beat(g, m, topics=topics, ServerAssignor=assignor))["MemberEpoch"] for m, topics in members.items()}
    for _ in range(3):
        for m in members:
            epochs[m] = goes_on(s, g, m, epochs[m])
    shares(s, g, exact=assignor == "range")


@scenario([1], cases=["uniform", "range"])
def joins_wanting_nothing(s, v, assignor):
    """Right after another left: Kafka takes all to want the same still, so the new one gets a part of what it did not ask for."""
    g, t, first = s.name("g"), topic(s, partitions=4), "m1"
    epoch = beaten(s, beat(g, first, topics=[t.name], ServerAssignor=assignor))["MemberEpoch"]
    beaten(s, beat(g, "m2", topics=[t.name], ServerAssignor=assignor))
    beaten(s, beat(g, "m2", -1))
    s.call(API, v, beat(g, "m3", topics=[], ServerAssignor=assignor))
    goes_on(s, g, first, epoch)
    described(s, g)


@scenario([1], cases=[1, 2, 5])
def more_members_than_partitions(s, v, partitions):
    g, t = s.name("g"), topic(s, partitions=partitions)
    epochs = {}
    for i in range(4):
        epochs[s.name(f"m{i}")] = beaten(s, beat(g, s.name(f"m{i}"), topics=[t.name]))["MemberEpoch"]
        for _ in range(2):
            for m in epochs:
                epochs[m] = goes_on(s, g, m, epochs[m])
    shares(s, g, exact=partitions < 5)


@scenario([1])
def assignors_differ(s, v):
    """The one that most want; and how it changes."""
    g, t = s.name("g"), topic(s, partitions=2)
    epoch = s.call(API, v, beat(g, s.name("m1"), topics=[t.name], ServerAssignor="range"))["MemberEpoch"]
    described(s, g, "range")
    s.call(API, v, beat(g, s.name("m1"), epoch, ServerAssignor="uniform"), note="changes its mind")
    described(s, g, "uniform")
    s.call(API, v, beat(g, s.name("m2"), topics=[t.name], ServerAssignor="range"))
    s.call(API, v, beat(g, s.name("m3"), topics=[t.name], ServerAssignor="range"))
    s.record("assignor", s.quiet("ConsumerGroupDescribe", 1, {"GroupIds": [g]})["Groups"][0]["AssignorName"])


@scenario("0-1", cases={"unknown": "sticky", "empty": "", "case": "Uniform"})
def assignor(s, v, assignor):
    g, t = s.name("g"), topic(s)
    s.call(API, v, beat(g, s.name("m"), topics=[t.name], ServerAssignor=assignor))


# --- what is refused outright


BAD = {
    "empty group": {"GroupId": ""}, "empty member": {"MemberId": ""}, "empty instance": {"InstanceId": ""}, "empty rack": {"RackId": ""}, "no rebalance timeout": {"RebalanceTimeoutMs": -1},
    "zero rebalance timeout": {"RebalanceTimeoutMs": 0}, "negative rebalance timeout": {"RebalanceTimeoutMs": -5}, "no partitions": {"TopicPartitions": None}, "no names": {"SubscribedTopicNames": None},
    "epoch -2": {"MemberEpoch": -2}, "epoch -3": {"MemberEpoch": -3}, "epoch -1": {"MemberEpoch": -1}, "lowest epoch": {"MemberEpoch": -2147483648}, "epoch 1": {"MemberEpoch": 1},
    "epoch -2 static": {"MemberEpoch": -2, "InstanceId": "i"}, "empty member and epoch 1": {"MemberId": "", "MemberEpoch": 1}, "empty member and epoch -1": {"MemberId": "", "MemberEpoch": -1},
    "space as group": {"GroupId": " "}, "space as member": {"MemberId": " "}, "long member": {"MemberId": "m" * 300}, "odd member": {"MemberId": "ü/ \u0000"}, "long instance": {"InstanceId": "i" * 300},
    "regex and names": {"SubscribedTopicRegex": "x.*"}, "no regex and no names": {"SubscribedTopicNames": None, "SubscribedTopicRegex": None},
    "null group": {"GroupId": None}, "null member": {"MemberId": None}, "tags": {"_tags": [(4, b"x")]},
}


@scenario("0-1", cases=BAD)
def first_heartbeat(s, v, change):
    g = s.name("g")
    s.call(API, v, beat(g, s.name("m"), topics=[]) | change)


@scenario("0-1")
def partitions_in_the_first(s, v):
    g, t = s.name("g"), topic(s)
    s.call(API, v, beat(g, s.name("m"), topics=[t.name], owned=[(t, [0])]))
    s.call(API, v, beat(g, s.name("m"), topics=[t.name], owned=[(t, [])]), note="none of a topic")


@scenario("0-1", cases={"none": [], "empty": [""], "odd": ["a/b"], "unknown": ["no.such.topic"], "twice": ["no.such.topic", "no.such.topic"], "internal": ["__consumer_offsets"], "long": ["x" * 300]})
def subscribed(s, v, names):
    g, m = s.name("g"), s.name("m")
    s.call(API, v, beat(g, m, topics=names))
    described(s, g)


@scenario("0-1")
def full_group(s, v):
    """group.consumer.max.size is 5."""
    g, t = s.name("g"), topic(s, partitions=2)
    for i in range(5):
        beaten(s, beat(g, s.name(f"m{i}"), topics=[t.name]))
    s.call(API, v, beat(g, s.name("m5"), topics=[t.name]), note="sixth")
    s.call(API, v, beat(g, s.name("m5"), topics=[t.name], instance="i"), note="sixth, static")
    s.call(API, v, beat(g, s.name("m4"), topics=[t.name]), note="fifth, again")
    s.call("JoinGroup", 9, join(g), note="classic")


# --- epochs


@scenario("0-1", cases=[1, 2, 3, 7, 2147483647])
def epoch(s, v, epoch):
    """Of a member that is at 2."""
    g, t, m = s.name("g"), topic(s), s.name("m")
    s.record("epoch", joined(s, g, m, [t]))
    s.call(API, v, beat(g, m, epoch))


@scenario("0-1")
def previous_epoch(s, v):
    """The answer may have got lost: it is repeated, if the member has not got more than it was to have."""
    g, t, m = s.name("g"), topic(s, partitions=2), s.name("m")
    old = joined(s, g, m, [t])
    u = s.topic("u")
    new = s.call(API, v, beat(g, m, old, topics=[t.name, u.name]), note="wants more")["MemberEpoch"]
    s.record("went on", new != old)
    s.call(API, v, beat(g, m, old, owned=[(t, [0, 1])]), note="previous, with what it had")
    s.call(API, v, beat(g, m, old, owned=[(t, [0])]), note="previous, with less")
    s.call(API, v, beat(g, m, old, owned=[]), note="previous, with nothing")
    s.call(API, v, beat(g, m, old), note="previous, not said")
    s.call(API, v, beat(g, m, old, owned=[(t, [0, 1]), (u, [0])]), note="previous, with all")
    s.call(API, v, beat(g, m, old, owned=[(t, [0, 1, 2])]), note="previous, with more")
    s.call(API, v, beat(g, m, old - 1, owned=[]), note="before the previous")
    s.call(API, v, beat(g, m, new, owned=[(t, [0, 1]), (u, [0])]), note="right")


@scenario("0-1")
def joins_again(s, v):
    """Epoch 0 of a known member: fenced or not, it gets all anew."""
    g, t, m = s.name("g"), topic(s, partitions=2), s.name("m")
    epoch = joined(s, g, m, [t])
    s.call(API, v, beat(g, m, topics=[t.name]))
    s.call(API, v, beat(g, m, epoch, owned=[(t, [0, 1])]), note="goes on")
    s.call(API, v, beat(g, m, topics=[]), note="with another subscription")


@scenario("0-1")
def unknown_member(s, v):
    g, t = s.name("g"), topic(s)
    s.call(API, v, beat(g, s.name("m"), 5), note="of no group")
    joined(s, g, s.name("m"), [t])
    s.call(API, v, beat(g, s.name("other"), 2), note="of a group")
    s.call(API, v, beat(g, s.name("other"), -1), note="leaves")
    s.call(API, v, beat(g, s.name("other"), -2, instance="i"), note="leaves, static")
    s.call(API, v, beat(g, "stranger", 2, instance="i"), note="of an unknown instance")


@scenario("0-1")
def unknown_group_left(s, v):
    s.call(API, v, beat(s.name("g"), "m", -1))
    s.call(API, v, beat(s.name("g"), "m", -2, instance="i"), note="static")
    described(s, s.name("g"))


@scenario("0-1")
def partitions_that_are_not_its(s, v):
    g, t, u = s.name("g"), topic(s, "t", partitions=2), topic(s, "u")
    m = s.name("m")
    epoch = joined(s, g, m, [t])
    unknown = Topic("x", s.literal("bm8tc3VjaC10b3BpYy1pZA"))
    s.call(API, v, beat(g, m, epoch, owned=[(u, [0])]), note="another topic")
    s.call(API, v, beat(g, m, epoch, owned=[(unknown, [0])]), note="no topic")
    s.call(API, v, beat(g, m, epoch, owned=[(t, [9, -1])]), note="no partition")
    s.call(API, v, beat(g, m, epoch, owned=[]), note="none")
    s.call(API, v, beat(g, m, epoch), note="not said")


# --- changes


@scenario("0-1")
def other_topics(s, v):
    g, t, u, m = s.name("g"), topic(s, "t", partitions=2), topic(s, "u"), s.name("m")
    epoch = joined(s, g, m, [t])
    s.call(API, v, beat(g, m, epoch, topics=[u.name]), note="another topic")
    s.call(API, v, beat(g, m, epoch, owned=[]), note="gave back")
    s.call(API, v, beat(g, m, 3), note="has it?")
    described(s, g)
    s.call(API, v, beat(g, m, 3, topics=[u.name]), note="the same again")
    s.call(API, v, beat(g, m, 3, topics=[]), note="nothing")
    described(s, g)


@scenario([1])
def other_rack_and_timeout(s, v):
    g, t, m = s.name("g"), topic(s), s.name("m")
    epoch = joined(s, g, m, [t], RackId="a")
    described(s, g)
    s.call(API, v, beat(g, m, epoch, RackId="b"))
    described(s, g)
    s.call(API, v, beat(g, m, epoch, rebalance=1))


@scenario([1])
def other_client(s, v):
    """Its id and address are the last ones known."""
    g, t, m = s.name("g"), topic(s), s.name("m")
    epoch = joined(s, g, m, [t])
    s.call(API, v, beat(g, m, epoch), client_id="other")
    s.call(API, v, beat(g, m, epoch), client_id=None)
    described(s, g)


@scenario([1])
def more_partitions(s, v):
    """How many epochs that takes is chance."""
    g, t, m = s.name("g"), topic(s), s.name("m")
    epoch = joined(s, g, m, [t])
    s.quiet("CreatePartitions", 3, {"Topics": [{"Name": t.name, "Count": 3, "Assignments": None}], "TimeoutMs": 10000})
    new = s.quiet_until(lambda a: a["MemberEpoch"] != epoch, API, v, beat(g, m, epoch))["MemberEpoch"]
    s.serves(partitions=3)
    s.record("epoch", "higher" if goes_on(s, g, m, new) > epoch else "the same")
    shares(s, g, exact=True)


@scenario([1])
def topic_that_comes(s, v):
    g, m = s.name("g"), s.name("m")
    epoch = s.call(API, v, beat(g, m, topics=[s.name("t")]))["MemberEpoch"]
    s.call(API, v, beat(g, m, epoch))
    s.topic()
    s.until(lambda a: a["MemberEpoch"] != epoch, API, v, beat(g, m, epoch))
    described(s, g)


@scenario([1])
def topic_that_goes(s, v):
    g, t, u, m = s.name("g"), topic(s, "t"), topic(s, "u"), s.name("m")
    epoch = joined(s, g, m, [t, u])
    s.quiet("DeleteTopics", 6, {"Topics": [{"Name": t.name}], "TimeoutMs": 10000})
    s.gone()
    s.until(lambda a: a["Assignment"] is not None, API, v, beat(g, m, epoch))
    s.call(API, v, beat(g, m, epoch, owned=[(u, [0])]), note="gave back")
    described(s, g)


# --- time


def short_lived(s, group, **settings):
    changes = [(name.replace("_", "."), SET, str(value)) for name, value in settings.items()]
    s.quiet("IncrementalAlterConfigs", 1, configure((GROUP, group, changes)))
    s.quiet_until(lambda a: all(c["Value"] == str(settings[c["Name"].replace(".", "_")]) for c in a["Results"][0]["Configs"]), "DescribeConfigs", 4,
                  {"Resources": [{"ResourceType": GROUP, "ResourceName": group, "ConfigurationKeys": [name.replace("_", ".") for name in settings]}]})


@scenario("0-1")
def session_lapses(s, v):
    g, t = s.name("g"), topic(s, partitions=2)
    short_lived(s, g, consumer_session_timeout_ms=600, consumer_heartbeat_interval_ms=200)
    s.call(API, v, beat(g, s.name("m1"), topics=[t.name]))
    epoch = joined(s, g, s.name("m2"), [t])
    end = time.monotonic() + 10
    while epoch == 3 and time.monotonic() < end:
        time.sleep(0.1)
        epoch = beaten(s, beat(g, s.name("m2"), epoch))["MemberEpoch"]
    s.call(API, v, beat(g, s.name("m1"), 2), note="late")
    s.call(API, v, beat(g, s.name("m2"), epoch), note="of the other")
    described(s, g)


@scenario([1])
def partitions_not_given_back(s, v):
    """Within its rebalance timeout; then it is thrown out."""
    g, t, first, second = s.name("g"), topic(s, partitions=2), s.name("m1"), s.name("m2")
    epoch = joined(s, g, first, [t], rebalance=600)
    s.call(API, v, beat(g, second, topics=[t.name]), note="second")
    s.call(API, v, beat(g, first, epoch), note="first, to give back")
    s.until(lambda a: a["ErrorCode"], API, v, beat(g, first, epoch), note="first, did not")
    s.until(lambda a: a["Assignment"] is not None and a["Assignment"]["TopicPartitions"], API, v, beat(g, second, 3), note="second")
    described(s, g)


@scenario([1])
def heartbeat_interval_of_the_group(s, v):
    g, t = s.name("g"), topic(s)
    short_lived(s, g, consumer_heartbeat_interval_ms=700)
    s.call(API, v, beat(g, s.name("m"), topics=[t.name]))


@scenario([1])
def assignment_interval_of_the_group(s, v):
    """Within the interval after an assignment there is no other; the member gets it later."""
    g, t = s.name("g"), topic(s, partitions=2)
    short_lived(s, g, consumer_assignment_interval_ms=4000)
    epoch = joined(s, g, s.name("m1"), [t])
    s.call(API, v, beat(g, s.name("m2"), topics=[t.name]), note="second, too soon")
    described(s, g, "meanwhile")
    s.until(lambda a: a["Assignment"] is not None and len(a["Assignment"]["TopicPartitions"][0]["Partitions"]) == 1, API, v, beat(g, s.name("m1"), epoch), note="first")
    described(s, g)


# --- static members


@scenario("0-1")
def static_member(s, v):
    g, t, m = s.name("g"), topic(s, partitions=2), s.name("m")
    epoch = s.call(API, v, beat(g, m, topics=[t.name], instance="i"), note="joins")["MemberEpoch"]
    s.call(API, v, beat(g, m, epoch, owned=[(t, [0, 1])], instance="i"), note="has all")
    s.call(API, v, beat(g, m, epoch), note="without the instance")
    s.call(API, v, beat(g, m, epoch, instance="k"), note="unknown instance")
    s.call(API, v, beat(g, s.name("n"), epoch, instance="i"), note="other id")
    s.call(API, v, beat(g, s.name("n"), topics=[t.name], instance="i"), note="joins under another id")
    described(s, g)
    s.call(API, v, beat(g, m, -2, instance="i"), note="leaves for a while")
    described(s, g, "meanwhile")
    s.call(API, v, beat(g, m, epoch, instance="i"), note="heartbeat meanwhile")
    s.call(API, v, beat(g, s.name("n"), topics=[t.name], instance="i"), note="comes back under another id")
    described(s, g, "afterwards")
    s.call(API, v, beat(g, m, epoch, instance="i"), note="of its old self")
    s.call(API, v, beat(g, s.name("n"), -1, instance="i"), note="leaves for good")
    described(s, g, "in the end")


@scenario([1])
def static_returns_with_the_same_id(s, v):
    g, t, m = s.name("g"), topic(s, partitions=2), s.name("m")
    epoch = joined(s, g, m, [t], instance="i")
    s.call(API, v, beat(g, m, -2, instance="i"), note="leaves for a while")
    s.call(API, v, beat(g, m, topics=[t.name], instance="i"), note="comes back")
    s.call(API, v, beat(g, m, epoch, instance="i"), note="goes on")
    s.call(API, v, beat(g, m, topics=[t.name], instance="i"), note="joins without having left")


@scenario([1])
def static_returns_with_another_subscription(s, v):
    g, t, u, m = s.name("g"), topic(s, "t"), topic(s, "u"), s.name("m")
    joined(s, g, m, [t], instance="i")
    s.call(API, v, beat(g, m, -2, instance="i"), note="leaves for a while")
    s.call(API, v, beat(g, s.name("n"), topics=[u.name], instance="i"), note="comes back")
    described(s, g)


@scenario([1])
def static_keeps_its_partitions(s, v):
    """Nobody gets them while it is away, and when it returns they are its again."""
    g, t = s.name("g"), topic(s, partitions=2)
    epochs = {s.name("m1"): joined(s, g, s.name("m1"), [t], instance="i")}
    epochs[s.name("m2")] = beaten(s, beat(g, s.name("m2"), topics=[t.name]))["MemberEpoch"]
    for _ in range(3):
        for m in epochs:
            epochs[m] = goes_on(s, g, m, epochs[m])
    s.call(API, v, beat(g, s.name("m1"), -2, instance="i"), note="leaves for a while")
    s.call(API, v, beat(g, s.name("m2"), epochs[s.name("m2")]), note="the other")
    s.call(API, v, beat(g, s.name("m3"), topics=[t.name], instance="i"), note="comes back")
    s.call(API, v, beat(g, s.name("m2"), epochs[s.name("m2")]), note="the other")


@scenario([1])
def static_away_too_long(s, v):
    g, t = s.name("g"), topic(s)
    short_lived(s, g, consumer_session_timeout_ms=600, consumer_heartbeat_interval_ms=200)
    joined(s, g, s.name("m"), [t], instance="i")
    s.call(API, v, beat(g, s.name("m"), -2, instance="i"), note="leaves for a while")
    s.quiet_until(lambda a: a["Groups"][0]["GroupState"] == "Empty", "ConsumerGroupDescribe", 1, {"GroupIds": [g]})
    s.call(API, v, beat(g, s.name("n"), topics=[t.name], instance="i"), note="comes back")


@scenario([1])
def static_forgets_its_instance(s, v):
    g, t, m = s.name("g"), topic(s), s.name("m")
    joined(s, g, m, [t], instance="i")
    s.call(API, v, beat(g, m, topics=[t.name]), note="joins")
    s.call(API, v, beat(g, m, -1), note="leaves")
    described(s, g)


@scenario([1])
def dynamic_becomes_static(s, v):
    g, t, m = s.name("g"), topic(s), s.name("m")
    epoch = joined(s, g, m, [t])
    s.call(API, v, beat(g, m, epoch, instance="i"))
    s.call(API, v, beat(g, m, -2, instance="i"), note="leaves for a while")
    s.call(API, v, beat(g, m, topics=[t.name], instance="i"), note="joins")
    described(s, g)


# --- regular expressions


def resolved(answer):
    return answer["Assignment"] is not None and answer["Assignment"]["TopicPartitions"]


@scenario([1])
def regex(s, v):
    g, m = s.name("g"), s.name("m")
    topic(s, "a1"), topic(s, "a2"), topic(s, "b1")
    expression = s.prefix + "a.*"
    epoch = s.call(API, v, beat(g, m, SubscribedTopicRegex=expression), note="joins")["MemberEpoch"]
    s.until(resolved, API, v, beat(g, m, epoch), note="resolved")
    described(s, g)
    s.until(lambda a: a["MemberEpoch"] > epoch, API, v, beat(g, m, epoch + 1, SubscribedTopicRegex=s.prefix + "b.", topics=[]), note="another")


@scenario([1])
def regex_and_names(s, v):
    g, m = s.name("g"), s.name("m")
    b = topic(s, "b1")
    topic(s, "a1")
    epoch = s.call(API, v, beat(g, m, topics=[b.name], SubscribedTopicRegex=s.prefix + "a.*"), note="joins")["MemberEpoch"]
    s.until(lambda a: a["MemberEpoch"] != epoch, API, v, beat(g, m, epoch), note="resolved")
    described(s, g)


@scenario([1])
def regex_of_two_members(s, v):
    g = s.name("g")
    topic(s, "a1", partitions=2)
    expression = s.prefix + "a1"
    epoch = beaten(s, beat(g, s.name("m1"), SubscribedTopicRegex=expression))["MemberEpoch"]
    s.quiet_until(resolved, API, v, beat(g, s.name("m1"), epoch))
    s.call(API, v, beat(g, s.name("m2"), SubscribedTopicRegex=expression), note="the same")
    described(s, g)


@scenario([1])
def regex_dropped(s, v):
    g, m, t = s.name("g"), s.name("m"), topic(s, "a1")
    epoch = beaten(s, beat(g, m, SubscribedTopicRegex=s.prefix + "a1"))["MemberEpoch"]
    epoch = s.quiet_until(resolved, API, v, beat(g, m, epoch))["MemberEpoch"]
    s.call(API, v, beat(g, m, epoch, owned=[(t, [0])], SubscribedTopicRegex=""), note="empty")
    described(s, g)


EXPRESSIONS = {"unclosed": "(", "class": "[a", "star": "*", "empty": "", "space": " ", "look-ahead": "(?=a)b", "look-behind": "(?<=a)b", "back-reference": "(a)\\1", "possessive": "a*+", "name": "(?P<n>a)",
               "java name": "(?<n>a)", "property": "\\p{Greek}", "java property": "\\p{IsGreek}", "bad property": "\\p{Nope}", "quote": "\\Qa.b\\E", "many": "a{1001}", "repeat": "a{2,1}", "case": "(?i)A", "bad flag": "(?x)a",
               "atomic": "(?>a)", "any byte": "\\C", "null": "\u0000", "anchors": "^a$", "begin": "\\Aa\\z", "capital z": "a\\Z", "unknown escape": "\\y", "hex": "\\x{10FFFF}", "too high": "\\x{110000}", "octal": "\\012",
               "posix": "[[:alpha:]]", "bad posix": "[[:nope:]]", "intersection": "[a-c&&b]", "range": "[b-a]", "trailing": "a\\", "lazy": "a+?", "long": "a" * 2000, "ungreedy": "(?U)a*", "umlaut": "ü+", "nested": "(" * 1001 + ")" * 1001}


@scenario([1], cases=EXPRESSIONS)
def expression(s, v, expression):
    """RE2's, not Java's."""
    s.call(API, v, beat(s.name("g"), s.name("m"), topics=[], SubscribedTopicRegex=expression))


MATCHES = {"part": "{}a", "whole": "{}ab", "alternatives": "{}x|{}ab", "alternative part": "{}a|{}x", "class": "{}[ab]+", "case": "(?i){}AB", "dot": ".*", "quote": "\\Q{}\\Eab", "word": "{}\\w\\w", "anchors": "^{}ab$",
           "multi-line": "(?m)^{}ab$", "non-greedy": "{}a.*?", "count": "{}[a-b]{{2}}", "negated class": "{}[^c][^c]", "ascii class": "{}[[:alpha:]]+", "property": "{}\\pL+"}


@scenario([1], cases=MATCHES)
def what_it_matches(s, v, expression):
    """The whole name has to match."""
    if expression == ".*":
        expression = "{}.*"
    g, m = s.name("g"), s.name("m")
    topic(s, "ab"), topic(s, "ac")
    epoch = beaten(s, beat(g, m, topics=[], SubscribedTopicRegex=expression.replace("{{", "{").replace("}}", "}").replace("{}", s.prefix)))["MemberEpoch"]
    answer, end = None, time.monotonic() + 3
    while time.monotonic() < end and not (answer and resolved(answer)):
        answer = beaten(s, beat(g, m, epoch) | {"SubscribedTopicNames": None})
        epoch = answer["MemberEpoch"]
        time.sleep(0.05)
        group = s.quiet("ConsumerGroupDescribe", 1, {"GroupIds": [g]})["Groups"][0]
        if group["GroupEpoch"] == group["AssignmentEpoch"] == epoch and epoch > 2:
            break
    target = s.quiet("ConsumerGroupDescribe", 1, {"GroupIds": [g]})["Groups"][0]["Members"][0]["TargetAssignment"]["TopicPartitions"]
    s.record("topics", sorted(t["TopicName"].replace(s.prefix, "~") for t in target))


@scenario([1])
def heartbeat_of_the_classic_protocol(s, v):
    """A member of the consumer protocol that sends classic requests."""
    g, t, m = s.name("g"), topic(s), s.name("m")
    epoch = joined(s, g, m, [t])
    s.call("Heartbeat", 4, heartbeat(g, epoch, m))
    s.call("SyncGroup", 5, {"GroupId": g, "GenerationId": epoch, "MemberId": m, "ProtocolType": "consumer", "ProtocolName": "range"})
    s.call("JoinGroup", 9, join(g, m), note="with its id")
    s.call("Heartbeat", 4, heartbeat(g, epoch, "stranger"), note="of a stranger")
