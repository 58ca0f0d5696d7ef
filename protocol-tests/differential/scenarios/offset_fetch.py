"""OffsetFetch: what a group has committed, for some partitions or all of them. Errors of the whole group from version 2, leader epochs
from 5, `require stable` from 7, several groups from 8, members of consumer groups from 9, topics by id from 10."""

from groups import committed, join, joined, offsets, rebalanced, topic
from kafka_wire.messages import Counted
from kafka_wire.primitives import ZERO_UUID
from scenario import Topic, scenario

API = "OffsetFetch"


@scenario("1-10")
def some(s, v):
    g, t, u = s.name("g"), s.topic("t", partitions=3), s.topic("u")
    committed(s, g, (t, 0, 5), (t, 1, 7, "metadata", 4), (u, 0, 0, None))
    s.call(API, v, offsets(g, (t, [0, 1]), (u, [0])))
    s.call(API, v, offsets(g, (t, [1])), note="one")
    s.call(API, v, offsets(g, (t, [2, 0])), note="one has none")


@scenario("1-10")
def all_of_them(s, v):
    """Null asks for all, from version 2 on."""
    g, t, u = s.name("g"), s.topic("t", partitions=3), s.topic("u")
    committed(s, g, (t, 0, 5), (t, 2, 7, "metadata", 4), (u, 0, 0))
    s.call(API, v, offsets(g, every=True))


@scenario("1-10")
def none_at_all(s, v):
    g, t = s.name("g"), s.topic()
    committed(s, g, (t, 0, 1))
    s.call(API, v, offsets(g))
    s.call(API, v, offsets(g, (t, [])), note="no partitions")


@scenario("1-10")
def unknown_group(s, v):
    g, t = s.name("g"), s.topic()
    s.call(API, v, offsets(g, (t, [0, 5])))
    s.call(API, v, offsets(g), note="nothing")
    if v >= 2:
        s.call(API, v, offsets(g, every=True), note="all")


@scenario("1-10")
def empty_group_id(s, v):
    t = s.topic()
    s.call(API, v, offsets("", (t, [0])))
    if v >= 2:
        s.call(API, v, offsets("", every=True), note="all", without=["Topics"] if v < 8 else ["Groups"])


@scenario("1-10")
def group_without_offsets(s, v):
    g, t = s.name("g"), s.topic()
    rebalanced(s, g)
    s.call(API, v, offsets(g, (t, [0])))
    if v >= 2:
        s.call(API, v, offsets(g, every=True), note="all")


@scenario("1-9")
def unknown_topic(s, v):
    g, t = s.name("g"), s.topic()
    committed(s, g, (t, 0, 1))
    s.call(API, v, offsets(g, (Topic(s.name("unknown"), ZERO_UUID), [0, 1]), (t, [0, 9])))
    s.call(API, v, offsets(g, (Topic("", ZERO_UUID), [0]), (Topic("a/b", ZERO_UUID), [-1])), note="odd names")


@scenario([10])
def unknown_topic_id(s, v):
    g, t = s.name("g"), s.topic()
    committed(s, g, (t, 0, 1))
    unknown, zero = Topic("x", s.literal("bm8tc3VjaC10b3BpYy1pZA")), Topic("y", ZERO_UUID)
    s.call(API, v, offsets(g, (unknown, [0, 1]), (t, [0]), (zero, [0])))
    s.call(API, v, offsets(g, (unknown, [0])), note="alone")
    s.call(API, v, offsets(s.name("other"), (unknown, [0]), (t, [0])), note="of an unknown group")


@scenario("1-10")
def same_partition_twice(s, v):
    g, t = s.name("g"), s.topic()
    committed(s, g, (t, 0, 1))
    s.call(API, v, offsets(g, (t, [0, 0])))
    s.call(API, v, offsets(g, (t, [0]), (t, [0])), note="same topic twice")


@scenario("1-10")
def deleted_topic(s, v):
    """The offsets of a topic go with it."""
    g, t, u = s.name("g"), s.topic("t"), s.topic("u")
    committed(s, g, (t, 0, 1), (u, 0, 2))
    s.quiet("DeleteTopics", 6, {"Topics": [{"Name": t.name}], "TimeoutMs": 10000})
    s.gone()

    def only_one(answer):
        return len(answer["Groups"][0]["Topics"]) == 1

    s.quiet_until(only_one, API, 9, offsets(g, every=True))
    s.call(API, v, offsets(g, (t, [0]), (u, [0])))
    if v >= 2:
        s.call(API, v, offsets(g, every=True), note="all")


@scenario([9, 10])
def recreated_topic(s, v):
    g, t = s.name("g"), s.topic()
    committed(s, g, (t, 0, 5))
    s.quiet("DeleteTopics", 6, {"Topics": [{"Name": t.name}], "TimeoutMs": 10000})
    s.gone()
    s.quiet_until(lambda a: not a["Groups"][0]["Topics"], API, 9, offsets(g, every=True))
    new = s.topic()
    s.call(API, v, offsets(g, (new, [0])))
    committed(s, g, (new, 0, 6))
    s.call(API, v, offsets(g, (new, [0])), note="after a commit")


@scenario("1-10", cases=[True, False])
def require_stable(s, v, stable):
    g, t = s.name("g"), s.topic()
    committed(s, g, (t, 0, 1))
    s.call(API, v, offsets(g, (t, [0]), stable=stable))


# --- several groups


def of_groups(*bodies):
    return bodies[0] | {"Groups": [group for body in bodies for group in body["Groups"]]}


@scenario("8-10")
def several_groups(s, v):
    t, u = s.topic("t"), s.topic("u", partitions=2)
    names = [s.name(suffix) for suffix in "abcd"]
    committed(s, names[0], (t, 0, 1))
    committed(s, names[1], (u, 1, 2), (t, 0, 3))
    s.call(API, v, of_groups(offsets(names[1], (u, [0, 1])), offsets(names[0], every=True), offsets(names[2], (t, [0])), offsets(names[3], every=True)))


@scenario("8-10")
def same_group_twice(s, v):
    g, t = s.name("g"), s.topic("t", partitions=2)
    committed(s, g, (t, 0, 1), (t, 1, 2))
    s.call(API, v, of_groups(offsets(g, (t, [0])), offsets(g, (t, [1]))))


@scenario("8-10")
def no_groups(s, v):
    s.call(API, v, offsets("x") | {"Groups": []})


# --- members


@scenario("9-10")
def member_of_a_consumer_group(s, v):
    """It is told when its epoch is not the group's."""
    g, t, m = s.name("g"), topic(s), s.name("m")
    epoch = joined(s, g, m, [t])
    committed(s, g, (t, 0, 1), member=m, generation=epoch)
    for member, at, word in ((m, epoch, "right"), (m, epoch - 1, "older epoch"), (m, epoch + 1, "newer epoch"), (m, -1, "no epoch"), (m, 0, "epoch 0"), ("stranger", epoch, "stranger"),
                             (None, epoch, "null id"), ("", epoch, "empty id"), (None, -1, "nobody"), ("", -1, "empty id, no epoch"), ("stranger", -1, "stranger, no epoch")):
        s.call(API, v, offsets(g, (t, [0]), member=member, epoch=at), note=word)
    s.call(API, v, offsets(g, every=True, member=m, epoch=epoch), note="all")
    s.call(API, v, offsets(g, every=True, member=m, epoch=epoch + 1), note="all, newer epoch")


@scenario("9-10")
def member_of_a_classic_group(s, v):
    g, t = s.name("g"), s.topic()
    (m,) = rebalanced(s, g)
    committed(s, g, (t, 0, 1), member=m.id, generation=1)
    for member, at, word in ((m.id, 1, "right"), (m.id, 7, "other generation"), (m.id, -1, "no generation"), ("stranger", 1, "stranger"), (None, -1, "nobody"), (None, 1, "null id")):
        s.call(API, v, offsets(g, (t, [0]), member=member, epoch=at), note=word)


@scenario("9-10")
def member_of_an_unknown_group(s, v):
    g, t = s.name("g"), s.topic()
    s.call(API, v, offsets(g, (t, [0]), member="m", epoch=1))
    s.call(API, v, offsets(g, every=True, member="m", epoch=1), note="all")
    s.call(API, v, offsets(g, (t, [0]), member="m", epoch=-1), note="no epoch")


@scenario("8-8")
def member_of_a_consumer_group_unknown_to_the_version(s, v):
    g, t, m = s.name("g"), topic(s), s.name("m")
    epoch = joined(s, g, m, [t])
    committed(s, g, (t, 0, 1), member=m, generation=epoch)
    s.call(API, v, offsets(g, (t, [0]), member="stranger", epoch=99))


@scenario("1-10")
def unused_id(s, v):
    g, t = s.name("g"), s.topic()
    s.quiet("JoinGroup", 9, join(g))
    s.call(API, v, offsets(g, (t, [0])))


# --- encoding


@scenario("1-7", cases={"group": {"GroupId": None}, "topics": {"Topics": None}, "name": {"Topics": [{"Name": None, "PartitionIndexes": []}]},
                        "partitions": {"Topics": [{"Name": "x", "PartitionIndexes": None}]}})
def null_for(s, v, what):
    s.call(API, v, offsets(s.name("g")) | what)


@scenario("8-10", cases={"groups": {"Groups": None}, "group": {"Groups": [{"GroupId": None, "Topics": []}]}, "topics": {"Groups": [{"GroupId": "x", "Topics": None}]},
                         "name": {"Groups": [{"GroupId": "x", "Topics": [{"Name": None, "PartitionIndexes": []}]}]},
                         "partitions": {"Groups": [{"GroupId": "x", "Topics": [{"Name": "x", "PartitionIndexes": None}]}]}})
def null_in_a_batch_for(s, v, what):
    s.call(API, v, offsets(s.name("g")) | what)


@scenario([1, 7], cases=[-2, 4])
def wrong_count(s, v, count):
    s.call(API, v, offsets(s.name("g")) | {"Topics": Counted(count, [])})


@scenario([8, 10], cases=[-2, 4])
def wrong_count_of_groups(s, v, count):
    s.call(API, v, offsets(s.name("g")) | {"Groups": Counted(count, [])})


@scenario("6-10")
def unknown_tags(s, v):
    s.call(API, v, offsets(s.name("g")) | {"_tags": [(4, b"x")]})
