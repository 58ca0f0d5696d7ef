"""DescribeGroups: classic groups in each state. Authorized operations from version 3, instances from 4, errors of unknown groups from 6."""

from groups import await_state, beat, beaten, committed, join, joined, leave, rebalanced, subscription, sync, topic
from kafka_wire.messages import Counted
from scenario import scenario

API = "DescribeGroups"


def ask(*groups, operations=False):
    return {"Groups": list(groups), "IncludeAuthorizedOperations": operations}


@scenario("0-6")
def each_state(s, v):
    g = s.name("g")
    member = s.quiet("JoinGroup", 9, join(g))["MemberId"]
    s.call(API, v, ask(g), note="id handed out")
    s.quiet("JoinGroup", 9, join(g, member, protocols={"a": b"1", "b": b"2"}))
    s.call(API, v, ask(g), note="completing")
    s.quiet("SyncGroup", 5, sync(g, 1, member, {member: b"mine"}, protocol="a"))
    s.call(API, v, ask(g), note="stable")
    s.send("JoinGroup", 3, join(g, protocols={"b": b"3"}), conn="second")
    await_state(s, g, "PreparingRebalance", members=2)
    s.quiet("LeaveGroup", 5, leave(g, (member,)))
    second = s.quiet_receive("JoinGroup", 3, "second")["MemberId"]
    s.call(API, v, ask(g), note="after the first left")
    s.quiet("LeaveGroup", 5, leave(g, (second,)))
    s.call(API, v, ask(g), note="empty")
    s.quiet("DeleteGroups", 2, {"GroupsNames": [g]})
    s.call(API, v, ask(g), note="deleted")


@scenario("0-6")
def preparing(s, v):
    """Who has not joined again is still a member."""
    g = s.name("g")
    members = rebalanced(s, g, 2)
    s.send("JoinGroup", 9, join(g, members[0].id), conn="joins")
    await_state(s, g, "PreparingRebalance")
    s.call(API, v, ask(g))


@scenario("0-6")
def static_members(s, v):
    g = s.name("g")
    rebalanced(s, g, 2, instances=["i", "j"])
    s.call(API, v, ask(g))


@scenario("0-6", cases={"none": None, "empty": "", "odd": "ü/ x", "long": "c" * 200})
def client_ids(s, v, client):
    g = s.name("g")
    s.send("JoinGroup", 3, join(g), conn="quiet", client_id=client)
    s.quiet_receive("JoinGroup", 3, "quiet")
    s.call(API, v, ask(g))


@scenario("0-6")
def group_of_offsets(s, v):
    g = s.name("g")
    committed(s, g, (s.topic(), 0, 1))
    s.call(API, v, ask(g))


@scenario("0-6", cases={"connect": "connect", "odd": "ü x"})
def other_types(s, v, kind):
    g = s.name("g")
    rebalanced(s, g, type=kind, protocols={"x": b"\0\1"})
    s.call(API, v, ask(g))


@scenario("0-6")
def unknown_group(s, v):
    s.call(API, v, ask(s.name("g")))


@scenario("0-6")
def empty_group_id(s, v):
    s.call(API, v, ask("\0"))
    committed(s, "", (s.topic(), 0, 1))
    s.call(API, v, ask("", s.name("g")))


@scenario("3-6")
def authorized_operations(s, v):
    """Of all groups, known or not."""
    rebalanced(s, s.name("g"))
    s.call(API, v, ask(s.name("g"), s.name("none"), operations=True))


@scenario("0-6")
def several(s, v):
    for name in "abc":
        rebalanced(s, s.name(name))
    s.call(API, v, ask(s.name("c"), s.name("none"), s.name("a"), s.name("b")))


@scenario("0-6")
def same_group_twice(s, v):
    rebalanced(s, s.name("g"))
    s.call(API, v, ask(s.name("g"), s.name("g")))


@scenario("0-6")
def no_groups(s, v):
    s.call(API, v, ask())


@scenario("0-6")
def consumer_group(s, v):
    g, t = s.name("g"), topic(s)
    joined(s, g, s.name("m"), [t])
    s.call(API, v, ask(g))
    beaten(s, beat(g, s.name("m"), -1))
    s.call(API, v, ask(g), note="empty")


@scenario("0-6")
def both_protocols(s, v):
    """A group with members of either, each with a topic of its own."""
    g, t, u = s.name("g"), topic(s, "t"), topic(s, "u")
    rebalanced(s, g, protocols={"range": subscription(t.name, version=3)})
    beaten(s, beat(g, "m", topics=[u.name]))
    s.call(API, v, ask(g))


@scenario("0-6", cases={"groups": {"Groups": None}, "group": {"Groups": [None]}})
def null_for(s, v, what):
    s.call(API, v, ask() | what)


@scenario([0, 6], cases=[-2, 4])
def wrong_count(s, v, count):
    s.call(API, v, ask() | {"Groups": Counted(count, [])})


@scenario("5-6")
def unknown_tags(s, v):
    s.call(API, v, ask(s.name("g")) | {"_tags": [(4, b"x")]})
