"""OffsetCommit: by those who are no members of a group, and by members of either protocol, each with the right and with wrong generations
or epochs. The retention time of versions 2 to 4, leader epochs from 6, static members from 7, errors of the consumer protocol from 9,
topics by id from 10."""

import time

from groups import await_state, commit, committed, goes_on, heartbeat, join, joined, offsets, rebalanced, topic
from kafka_wire.messages import Counted
from kafka_wire.primitives import ZERO_UUID
from scenario import Topic, scenario
from scenarios.sync_group import in_state

API = "OffsetCommit"


def fetched(s, group, *parts, note="OffsetFetch"):
    """What the group has, by a newer version than need be, so that it is the same step at all versions."""
    s.call("OffsetFetch", 9, offsets(group, *parts, every=not parts), note=note)


@scenario("2-10")
def without_a_membership(s, v):
    """A group comes to be."""
    g, t = s.name("g"), s.topic(partitions=3)
    s.call(API, v, commit(g, (t, 0, 5), (t, 1, 0), (t, 2, 9, "metadata", 3)))
    fetched(s, g)
    s.call("DescribeGroups", 6, {"Groups": [g]})
    s.call(API, v, commit(g, (t, 0, 4)), note="backwards")
    fetched(s, g)


@scenario("2-10")
def several_topics(s, v):
    g, t, u = s.name("g"), s.topic("t", partitions=2), s.topic("u")
    s.call(API, v, commit(g, (t, 1, 1), (u, 0, 2), (t, 0, 3)))
    fetched(s, g)


@scenario("2-10")
def same_partition_twice(s, v):
    g, t = s.name("g"), s.topic()
    s.call(API, v, commit(g, (t, 0, 1), (t, 0, 2)))
    fetched(s, g)


@scenario([2, 9, 10])
def nothing(s, v):
    g, t = s.name("g"), s.topic()
    s.call(API, v, commit(g))
    s.call(API, v, commit(g) | {"Topics": [{"Name": t.name, "TopicId": t.id, "Partitions": []}]}, note="no partitions")
    s.call("DescribeGroups", 6, {"Groups": [g]})


@scenario("2-10", cases=[-1, -2, -9223372036854775808, 9223372036854775807])
def offset(s, v, offset):
    g, t = s.name("g"), s.topic()
    s.call(API, v, commit(g, (t, 0, offset)))
    fetched(s, g, (t, [0]))


@scenario("6-10", cases=[0, 5, -1, -2, 2147483647])
def leader_epoch(s, v, epoch):
    g, t = s.name("g"), s.topic()
    s.call(API, v, commit(g, (t, 0, 1, "", epoch)))
    fetched(s, g, (t, [0]))


METADATA = {"null": None, "empty": "", "some": "ü\u0000x", "longest": "m" * 4096, "too long": "m" * 4097, "longest in bytes": "ü" * 2048, "too long in bytes": "ü" * 2049,
            "longest in characters": "ü" * 4096, "too long in characters": "ü" * 4097}


@scenario("2-10", cases=METADATA)
def metadata(s, v, metadata):
    """offset.metadata.max.bytes is 4096."""
    g, t = s.name("g"), s.topic(partitions=2)
    s.call(API, v, commit(g, (t, 0, 1, metadata), (t, 1, 2, "fine")))
    fetched(s, g, (t, [0, 1]))


@scenario("2-4", cases=[-1, 0, 1, 86400000, -2])
def retention(s, v, retention):
    g, t = s.name("g"), s.topic()
    s.call(API, v, commit(g, (t, 0, 1), RetentionTimeMs=retention))


@scenario("2-9")
def unknown_topic(s, v):
    g, t = s.name("g"), s.topic()
    unknown = Topic(s.name("unknown"), ZERO_UUID)
    s.call(API, v, commit(g, (unknown, 0, 1), (t, 0, 2), (unknown, 1, 3)))
    fetched(s, g)


@scenario("2-9", cases={"empty": "", "slash": "a/b", "dot": ".", "long": "x" * 300})
def odd_topic_name(s, v, name):
    s.call(API, v, commit(s.name("g"), (Topic(name, ZERO_UUID), 0, 1)))


@scenario([10])
def unknown_topic_id(s, v):
    g, t = s.name("g"), s.topic()
    unknown, nothing = Topic("x", s.literal("bm8tc3VjaC10b3BpYy1pZA")), Topic("y", ZERO_UUID)
    s.call(API, v, commit(g, (unknown, 0, 1), (t, 0, 2), (nothing, 0, 3)))
    s.call(API, v, commit(g, (unknown, 0, 1)), note="alone")
    s.call(API, v, commit(g, (nothing, 0, 1)), note="zero alone")
    fetched(s, g)


@scenario("2-10", cases=[1, 7, -1, 2147483647])
def unknown_partition(s, v, partition):
    g, t = s.name("g"), s.topic()
    s.call(API, v, commit(g, (t, partition, 1), (t, 0, 2)))
    fetched(s, g)


@scenario("2-10")
def deleted_topic(s, v):
    g, t = s.name("g"), s.topic()
    committed(s, g, (t, 0, 1))
    s.quiet("DeleteTopics", 6, {"Topics": [{"Name": t.name}], "TimeoutMs": 10000})
    s.gone()
    s.call(API, v, commit(g, (t, 0, 2)))


@scenario("2-10")
def internal_topic(s, v):
    s.call(API, v, commit(s.name("g"), (Topic("__consumer_offsets", ZERO_UUID), 0, 1)))


@scenario("2-10")
def empty_group_id(s, v):
    """There may be a group of that name."""
    t = s.topic()
    s.call(API, v, commit("", (t, 0, 1)))
    s.call(API, v, commit("", (t, 0, 1), member="m", generation=1), note="of a member")
    s.call("OffsetFetch", 9, offsets("", (t, [0])))
    s.quiet("OffsetDelete", 0, {"GroupId": "", "Topics": [{"Name": t.name, "Partitions": [{"PartitionIndex": 0}]}]})


# --- unknown groups


@scenario("2-10", cases={"generation": {"generation": 1}, "generation 0": {"generation": 0}, "member": {"member": "m"}, "both": {"member": "m", "generation": 1},
                         "far below": {"member": "m", "generation": -5}, "instance": {"instance": "i"}})
def of_an_unknown_group(s, v, how):
    g, t = s.name("g"), s.topic()
    s.call(API, v, commit(g, (t, 0, 1), **how))
    s.call("DescribeGroups", 6, {"Groups": [g]})


# --- members of a classic group


@scenario("2-10")
def member_of_a_classic_group(s, v):
    g, t = s.name("g"), s.topic()
    (m,) = rebalanced(s, g)
    for generation in (1, 0, 2, -1):
        s.call(API, v, commit(g, (t, 0, generation), member=m.id, generation=generation), note=f"generation {generation}")
    s.call(API, v, commit(g, (t, 0, 7), member="m", generation=1), note="of a stranger")
    s.call(API, v, commit(g, (t, 0, 7), member="", generation=1), note="of nobody")
    s.call(API, v, commit(g, (t, 0, 7), member="", generation=-1), note="of nobody in no generation")
    s.call(API, v, commit(g, (t, 0, 7), member="m", generation=-1), note="of a stranger in no generation")
    fetched(s, g)


@scenario("2-10", cases=["completing", "preparing", "empty"])
def classic_group_in(s, v, state):
    g, t = s.name("g"), s.topic()
    m = in_state(s, state)
    s.call(API, v, commit(g, (t, 0, 1), member=m.id, generation=1))
    s.call(API, v, commit(g, (t, 0, 2), member=m.id, generation=2), note="other generation")
    s.call(API, v, commit(g, (t, 0, 3), member="m", generation=1), note="of a stranger")
    s.call(API, v, commit(g, (t, 0, 4)), note="of nobody")
    fetched(s, g)


@scenario("2-10")
def unused_id(s, v):
    g, t = s.name("g"), s.topic()
    member = s.quiet("JoinGroup", 9, join(g))["MemberId"]
    s.call(API, v, commit(g, (t, 0, 1), member=member, generation=0))
    s.call(API, v, commit(g, (t, 0, 1), member=member, generation=-1), note="in no generation")


@scenario("7-10")
def static_member_of_a_classic_group(s, v):
    g, t = s.name("g"), s.topic()
    (m,) = rebalanced(s, g, instances=["i"])
    s.call(API, v, commit(g, (t, 0, 1), member=m.id, generation=1, instance="i"))
    s.call(API, v, commit(g, (t, 0, 2), member=m.id, generation=1), note="without the instance")
    s.call(API, v, commit(g, (t, 0, 3), member=m.id, generation=1, instance="k"), note="unknown instance")
    s.call(API, v, commit(g, (t, 0, 4), member="other", generation=1, instance="i"), note="other id")
    s.call(API, v, commit(g, (t, 0, 5), member="", generation=1, instance="i"), note="no id")
    s.call(API, v, commit(g, (t, 0, 6), member="other", generation=7, instance="i"), note="other id and generation")
    s.call(API, v, commit(g, (t, 0, 7), member=m.id, generation=7, instance="i"), note="other generation")
    s.call(API, v, commit(g, (t, 0, 8), instance="i"), note="instance alone")
    fetched(s, g)


@scenario([2, 9, 10])
def keeps_the_session(s, v):
    """A commit is as good as a heartbeat, in a stable group."""
    g, t = s.name("g"), s.topic()
    (m,) = rebalanced(s, g, session=700)
    for i in range(6):
        time.sleep(0.2)
        s.call(API, v, commit(g, (t, 0, i), member=m.id, generation=1))
    s.call("Heartbeat", 4, heartbeat(g, 1, m.id))
    await_state(s, g, "Empty")
    s.call(API, v, commit(g, (t, 0, 9), member=m.id, generation=1), note="late")
    s.call("Heartbeat", 4, heartbeat(g, 1, m.id), note="late")


@scenario([2, 9, 10])
def group_of_another_type(s, v):
    """The coordinator keeps offsets for any."""
    g, t = s.name("g"), s.topic()
    (m,) = rebalanced(s, g, type="connect", protocols={"x": b""})
    s.call(API, v, commit(g, (t, 0, 1), member=m.id, generation=1))
    s.call(API, v, commit(g, (t, 0, 1)), note="of nobody")


# --- members of a consumer group


@scenario("2-10")
def member_of_a_consumer_group(s, v):
    """Its epoch stands in the place of the generation; before version 9 there is no error for a stale one."""
    g, t = s.name("g"), topic(s)
    m = s.name("m")
    epoch = joined(s, g, m, [t])
    for change, word in ((0, "right"), (-1, "older"), (1, "newer")):
        s.call(API, v, commit(g, (t, 0, change), member=m, generation=epoch + change), note=f"{word} epoch")
    s.call(API, v, commit(g, (t, 0, 5), member=m, generation=0), note="epoch 0")
    s.call(API, v, commit(g, (t, 0, 6), member=m, generation=-1), note="epoch -1")
    s.call(API, v, commit(g, (t, 0, 7), member="stranger", generation=epoch), note="of a stranger")
    s.call(API, v, commit(g, (t, 0, 7), member="", generation=epoch), note="of nobody")
    s.call(API, v, commit(g, (t, 0, 8), member="", generation=-1), note="of nobody, no epoch")
    s.call(API, v, commit(g, (t, 0, 8), member="stranger", generation=-1), note="of a stranger, no epoch")
    fetched(s, g)


@scenario("7-10")
def static_member_of_a_consumer_group(s, v):
    g, t = s.name("g"), topic(s)
    m = s.name("m")
    epoch = joined(s, g, m, [t], instance="i")
    s.call(API, v, commit(g, (t, 0, 1), member=m, generation=epoch, instance="i"))
    s.call(API, v, commit(g, (t, 0, 2), member=m, generation=epoch), note="without the instance")
    s.call(API, v, commit(g, (t, 0, 3), member=m, generation=epoch, instance="k"), note="unknown instance")
    s.call(API, v, commit(g, (t, 0, 4), member="other", generation=epoch, instance="i"), note="other id")
    fetched(s, g)


@scenario("2-10")
def empty_consumer_group(s, v):
    g, t = s.name("g"), topic(s)
    m = s.name("m")
    epoch = joined(s, g, m, [t])
    s.quiet("ConsumerGroupHeartbeat", 1, {"GroupId": g, "MemberId": m, "MemberEpoch": -1})
    s.call(API, v, commit(g, (t, 0, 1), member=m, generation=epoch))
    s.call(API, v, commit(g, (t, 0, 2)), note="of nobody")
    fetched(s, g)


@scenario("9-10")
def partition_of_another_member(s, v):
    """An older epoch is good for what the member already had then (KIP-1251), and only for that."""
    g, t = s.name("g"), topic(s, partitions=2)
    first, second = s.name("m1"), s.name("m2")
    old = joined(s, g, first, [t])
    joined(s, g, second, [t])
    new = goes_on(s, g, first, old)
    goes_on(s, g, second, new)
    s.record("epochs", [old, new])
    for epoch in (old, new):
        for partition in (0, 1):
            s.call(API, v, commit(g, (t, partition, 1), member=first, generation=epoch), note=f"epoch {'old' if epoch == old else 'new'}, partition {partition}")
    s.call(API, v, commit(g, (t, 0, 2), (t, 1, 2), member=first, generation=old), note="both at the old epoch")
    fetched(s, g)


# --- encoding


@scenario("2-10", cases={"group": {"GroupId": None}, "member": {"MemberId": None}, "topics": {"Topics": None}, "name": {"Topics": [{"Name": None, "Partitions": []}]},
                         "partitions": {"Topics": [{"Name": "x", "Partitions": None}]}})
def null_for(s, v, what):
    s.call(API, v, commit(s.name("g")) | what)


@scenario([2, 10], cases=[-2, 4])
def wrong_count(s, v, count):
    s.call(API, v, commit(s.name("g")) | {"Topics": Counted(count, [])})


@scenario("8-10")
def unknown_tags(s, v):
    s.call(API, v, commit(s.name("g")) | {"_tags": [(4, b"x")]})
