"""OffsetDelete: committed offsets of some partitions go, unless the group still reads the topic."""

from groups import beat, beaten, committed, join, joined, leave, offsets, rebalanced, subscription, topic
from kafka_wire.messages import Counted
from kafka_wire.primitives import ZERO_UUID
from scenario import Topic, scenario
from scenarios.join_group import ODD_METADATA

API = "OffsetDelete"


def ask(group, *parts):
    return {"GroupId": group, "Topics": [{"Name": t.name, "Partitions": [{"PartitionIndex": p} for p in partitions]} for t, partitions in parts]}


def left(s, group):
    s.call("OffsetFetch", 9, offsets(group, every=True), note="left")


@scenario([0])
def group_of_offsets(s, v):
    g, t, u = s.name("g"), s.topic("t", partitions=2), s.topic("u")
    committed(s, g, (t, 0, 1), (t, 1, 2), (u, 0, 3))
    s.call(API, v, ask(g, (t, [1]), (u, [0])))
    left(s, g)
    s.call(API, v, ask(g, (t, [1])), note="again")
    s.call(API, v, ask(g, (t, [0])), note="the last")
    left(s, g)
    s.call("DescribeGroups", 6, {"Groups": [g]})


@scenario([0])
def unknown_partitions(s, v):
    g, t = s.name("g"), s.topic()
    committed(s, g, (t, 0, 1))
    s.call(API, v, ask(g, (t, [7, -1, 0]), (Topic(s.name("unknown"), ZERO_UUID), [0]), (Topic("a/b", ZERO_UUID), [0]), (Topic("", ZERO_UUID), [0])))
    left(s, g)


@scenario([0])
def deleted_topic(s, v):
    g, t = s.name("g"), s.topic()
    committed(s, g, (t, 0, 1))
    s.quiet("DeleteTopics", 6, {"Topics": [{"Name": t.name}], "TimeoutMs": 10000})
    s.gone()
    s.call(API, v, ask(g, (t, [0])))


@scenario([0])
def same_partition_twice(s, v):
    g, t = s.name("g"), s.topic("t", partitions=2)
    committed(s, g, (t, 0, 1), (t, 1, 1))
    s.call(API, v, ask(g, (t, [0, 0])))
    left(s, g)


@scenario([0])
def nothing(s, v):
    g, t = s.name("g"), s.topic()
    committed(s, g, (t, 0, 1))
    s.call(API, v, ask(g))
    s.call(API, v, ask(g, (t, [])), note="no partitions")


@scenario([0])
def unknown_group(s, v):
    g, t = s.name("g"), s.topic()
    s.call(API, v, ask(g, (t, [0])))
    s.call(API, v, ask("\0", (t, [0])), note="odd")
    s.call(API, v, ask(g, (Topic(s.name("unknown"), ZERO_UUID), [0])), note="unknown topic")
    s.call(API, v, ask(g), note="nothing")


@scenario([0], cases=["stable", "completing", "preparing", "empty"])
def topics_of_a_classic_group(s, v, state):
    g, t, u = s.name("g"), s.topic("t"), s.topic("u")
    committed(s, g, (t, 0, 1), (u, 0, 2))
    (m,) = rebalanced(s, g, synced=state != "completing", protocols={"range": subscription(t.name)})
    if state == "preparing":
        s.send("JoinGroup", 3, join(g, protocols={"range": subscription(t.name)}), conn="joins")
        s.quiet_until(lambda a: a["Groups"][0]["GroupState"] == "PreparingRebalance", "DescribeGroups", 5, {"Groups": [g]})
    if state == "empty":
        s.quiet("LeaveGroup", 5, leave(g, (m.id,)))
    s.call(API, v, ask(g, (t, [0]), (u, [0])))
    left(s, g)


@scenario([0])
def topics_of_another_type(s, v):
    """What they read is not known."""
    g, t = s.name("g"), s.topic("t")
    committed(s, g, (t, 0, 1))
    rebalanced(s, g, type="connect", protocols={"range": subscription(t.name)})
    s.call(API, v, ask(g, (t, [0])))
    left(s, g)


ODD = {name: data for name, data in ODD_METADATA.items() if "claims" not in name and "null" not in name}


@scenario([0], cases=ODD)
def odd_metadata(s, v, metadata):
    g, t = s.name("g"), s.topic("t")
    committed(s, g, (t, 0, 1))
    rebalanced(s, g, protocols={"range": metadata})
    s.call(API, v, ask(g, (t, [0])))


@scenario([0])
def one_of_two_reads_it(s, v):
    g, t, u = s.name("g"), s.topic("t"), s.topic("u")
    committed(s, g, (t, 0, 1), (u, 0, 2))
    rebalanced(s, g, 2, protocols={"range": subscription(t.name, version=1), "sticky": subscription(u.name)})
    s.call(API, v, ask(g, (t, [0]), (u, [0])))
    left(s, g)


@scenario([0])
def topics_of_a_consumer_group(s, v):
    g, t, u = s.name("g"), topic(s, "t"), topic(s, "u")
    committed(s, g, (t, 0, 1), (u, 0, 2))
    joined(s, g, s.name("m"), [t])
    s.call(API, v, ask(g, (t, [0]), (u, [0])))
    left(s, g)
    beaten(s, beat(g, s.name("m"), -1))
    s.call(API, v, ask(g, (t, [0])), note="empty")
    left(s, g)


@scenario([0])
def topics_of_an_expression(s, v):
    g, t = s.name("g"), topic(s, "t")
    committed(s, g, (t, 0, 1))
    epoch = beaten(s, beat(g, s.name("m"), SubscribedTopicRegex=s.prefix + "t"))["MemberEpoch"]
    s.quiet_until(lambda a: a["Assignment"] is not None and a["Assignment"]["TopicPartitions"], "ConsumerGroupHeartbeat", 1, beat(g, s.name("m"), epoch))
    s.call(API, v, ask(g, (t, [0])))


@scenario([0], cases={"group": {"GroupId": None}, "topics": {"Topics": None}, "name": {"Topics": [{"Name": None, "Partitions": []}]}, "partitions": {"Topics": [{"Name": "x", "Partitions": None}]}})
def null_for(s, v, what):
    s.call(API, v, ask(s.name("g")) | what)


@scenario([0], cases=[-2, 4])
def wrong_count(s, v, count):
    s.call(API, v, ask(s.name("g")) | {"Topics": Counted(count, [])})
