"""DeleteGroups: groups without members go, with their offsets."""

from groups import beat, beaten, committed, join, joined, leave, offsets, rebalanced, topic
from kafka_wire.messages import Counted
from scenario import scenario
from scenarios.sync_group import in_state

API = "DeleteGroups"


def ask(*groups):
    return {"GroupsNames": list(groups)}


@scenario("0-2")
def group_of_offsets(s, v):
    g, t = s.name("g"), s.topic("t", partitions=2)
    committed(s, g, (t, 0, 1), (t, 1, 2))
    s.call(API, v, ask(g))
    s.call("OffsetFetch", 9, offsets(g, every=True))
    s.call("DescribeGroups", 6, {"Groups": [g]})
    s.call(API, v, ask(g), note="again")
    committed(s, g, (t, 0, 3))
    s.call("OffsetFetch", 9, offsets(g, every=True), note="made anew")


@scenario("0-2", cases=["stable", "completing", "preparing", "empty"])
def classic_group(s, v, state):
    in_state(s, state)
    s.call(API, v, ask(s.name("g")))
    s.call("DescribeGroups", 6, {"Groups": [s.name("g")]})


@scenario("0-2")
def id_handed_out(s, v):
    g = s.name("g")
    member = s.quiet("JoinGroup", 9, join(g))["MemberId"]
    s.call(API, v, ask(g))
    s.call("JoinGroup", 9, join(g, member))


@scenario("0-2")
def generation_after_deletion(s, v):
    g = s.name("g")
    (m,) = rebalanced(s, g)
    s.quiet("LeaveGroup", 5, leave(g, (m.id,)))
    s.call(API, v, ask(g))
    s.call("JoinGroup", 3, join(g))


@scenario("0-2")
def consumer_group(s, v):
    g, t = s.name("g"), topic(s)
    epoch = joined(s, g, s.name("m"), [t])
    committed(s, g, (t, 0, 1), member=s.name("m"), generation=epoch)
    s.call(API, v, ask(g), note="with a member")
    beaten(s, beat(g, s.name("m"), -1))
    s.call(API, v, ask(g), note="empty")
    s.call("ConsumerGroupDescribe", 1, {"GroupIds": [g]})
    s.call("OffsetFetch", 9, offsets(g, every=True))
    s.call("ConsumerGroupHeartbeat", 1, beat(g, s.name("m"), topics=[t.name]), note="made anew")


@scenario("0-2")
def consumer_group_with_a_static_member_away(s, v):
    g, t = s.name("g"), topic(s)
    joined(s, g, s.name("m"), [t], instance="i")
    beaten(s, beat(g, s.name("m"), -2, instance="i"))
    s.call(API, v, ask(g))


@scenario("0-2")
def several(s, v):
    t = s.topic()
    for name in "abc":
        committed(s, s.name(name), (t, 0, 1))
    rebalanced(s, s.name("d"))
    s.call(API, v, ask(s.name("c"), s.name("d"), s.name("none"), s.name("a")))
    s.call("ListGroups", 5, {})


@scenario("0-2")
def same_group_twice(s, v):
    committed(s, s.name("g"), (s.topic(), 0, 1))
    s.call(API, v, ask(s.name("g"), s.name("g")))
    s.call(API, v, ask(s.name("x"), s.name("x")), note="unknown")


@scenario("0-2")
def empty_group_id(s, v):
    s.call(API, v, ask("\0"))


@scenario("0-2")
def no_groups(s, v):
    s.call(API, v, ask())


@scenario("0-2", cases={"groups": {"GroupsNames": None}, "group": {"GroupsNames": [None]}})
def null_for(s, v, what):
    s.call(API, v, ask() | what)


@scenario([0, 2], cases=[-2, 4])
def wrong_count(s, v, count):
    s.call(API, v, ask() | {"GroupsNames": Counted(count, [])})


@scenario([2])
def unknown_tags(s, v):
    s.call(API, v, ask(s.name("g")) | {"_tags": [(4, b"x")]})
