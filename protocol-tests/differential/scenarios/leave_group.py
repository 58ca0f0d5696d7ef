"""LeaveGroup: members leave a group; from version 3 on several at a time, also static ones by their instance (an administrator does that),
from 5 with a reason. Members of the consumer protocol can be removed with it as well."""

from groups import await_state, beat, described, heartbeat, join, leave, rebalanced, topic
from kafka_wire.messages import Counted
from scenario import scenario

API = "LeaveGroup"


@scenario("0-5")
def alone(s, v):
    g = s.name("g")
    (m,) = rebalanced(s, g)
    s.call(API, v, leave(g, (m.id,)))
    s.call("DescribeGroups", 5, {"Groups": [g]})
    s.call(API, v, leave(g, (m.id,)), note="again")
    s.call("JoinGroup", 9, join(g, m.id), note="with the old id")


@scenario("0-5")
def one_of_two(s, v):
    g = s.name("g")
    members = rebalanced(s, g, 2)
    s.call(API, v, leave(g, (members[1].id,)))
    s.call("Heartbeat", 4, heartbeat(g, 2, members[0].id), note="of the other")
    s.call("JoinGroup", 9, join(g, members[0].id), note="the other")


@scenario([0, 3, 5])
def leader_leaves(s, v):
    g = s.name("g")
    members = rebalanced(s, g, 2)
    s.call(API, v, leave(g, (members[0].id,)))
    s.call("JoinGroup", 9, join(g, members[1].id), note="the other")


@scenario([0, 3, 5])
def completes_a_rebalance(s, v):
    """The last one for whom the others wait."""
    g = s.name("g")
    members = rebalanced(s, g, 2)
    s.send("JoinGroup", 9, join(g, members[0].id), conn="leader")
    await_state(s, g, "PreparingRebalance")
    s.call(API, v, leave(g, (members[1].id,)))
    s.receive("JoinGroup", 9, conn="leader", note="leader")


@scenario([0, 3, 5])
def while_it_waits(s, v):
    """Its own join is still parked."""
    g = s.name("g")
    members = rebalanced(s, g, 2)
    s.send("JoinGroup", 9, join(g, members[0].id), conn="leader")
    await_state(s, g, "PreparingRebalance")
    s.call(API, v, leave(g, (members[0].id,)))
    s.receive("JoinGroup", 9, conn="leader", note="leader")
    s.call("Heartbeat", 4, heartbeat(g, 2, members[1].id))


@scenario("3-5")
def several(s, v):
    g = s.name("g")
    members = rebalanced(s, g, 3, instances=[None, "j", "k"])
    s.call(API, v, leave(g, (members[0].id,), ("", "j"), ("stranger",), (members[2].id, "k"), ("", "no such")))
    s.record("state", described(s, g)["GroupState"])


@scenario("3-5")
def static_member(s, v):
    """By its instance, with or without its id."""
    g = s.name("g")
    members = rebalanced(s, g, 3, instances=["i", "j", "k"])
    s.call(API, v, leave(g, ("other", "i")), note="other id")
    s.call(API, v, leave(g, (members[0].id, "j")), note="another's id")
    s.call(API, v, leave(g, ("", "no such")), note="unknown instance")
    s.call(API, v, leave(g, ("", "i")), note="by the instance")
    s.call(API, v, leave(g, (members[1].id, "j")), note="by both")
    s.call(API, v, leave(g, (members[2].id,)), note="by the id")
    s.record("state", described(s, g)["GroupState"])
    s.call("JoinGroup", 9, join(g, instance="i"), note="comes back")


@scenario([3, 5])
def dynamic_with_an_instance(s, v):
    g = s.name("g")
    (m,) = rebalanced(s, g)
    s.call(API, v, leave(g, (m.id, "i")))
    s.call(API, v, leave(g, (m.id, "")), note="empty instance")
    s.call(API, v, leave(g, ("", None)), note="neither")


@scenario([3, 5])
def same_member_twice(s, v):
    g = s.name("g")
    (m,) = rebalanced(s, g)
    s.call(API, v, leave(g, (m.id,), (m.id,)))


@scenario("0-5")
def nobody(s, v):
    g = s.name("g")
    rebalanced(s, g)
    s.call(API, v, leave(g))
    s.call("DescribeGroups", 5, {"Groups": [g]})


@scenario("0-5")
def stranger(s, v):
    g = s.name("g")
    rebalanced(s, g)
    s.call(API, v, leave(g, ("stranger",)))


@scenario("0-5")
def unknown_group(s, v):
    s.call(API, v, leave(s.name("g"), ("m",)))
    s.call(API, v, leave(s.name("g"), ("m", "i"), ("", "j"), ("",)), note="several")


@scenario("0-5")
def empty_group_id(s, v):
    s.call(API, v, leave("", ("m",)))
    s.call(API, v, leave("", ("m",), ("n",)), note="several")


@scenario("0-5")
def unused_id(s, v):
    g = s.name("g")
    member = s.quiet("JoinGroup", 9, join(g))["MemberId"]
    s.call(API, v, leave(g, (member,)))
    s.call(API, v, leave(g, (member,)), note="again")


@scenario([5], cases={"none": None, "empty": "", "some": "because", "long": "r" * 1000})
def reason(s, v, reason):
    g = s.name("g")
    (m,) = rebalanced(s, g)
    s.call(API, v, leave(g, (m.id, None, reason)))


@scenario("0-5")
def member_of_the_consumer_protocol(s, v):
    g, t = s.name("g"), topic(s)
    for name in ("m1", "m2"):
        s.quiet("ConsumerGroupHeartbeat", 1, beat(g, s.name(name), topics=[t.name]))
    s.call(API, v, leave(g, (s.name("m1"),)))
    s.call(API, v, leave(g, (s.name("m1"),)), note="again")
    s.call(API, v, leave(g, ("stranger",)), note="stranger")
    s.call("ConsumerGroupHeartbeat", 1, beat(g, s.name("m1"), 1), note="of the one who left")


@scenario([3, 5])
def static_members_of_the_consumer_protocol(s, v):
    g, t = s.name("g"), topic(s)
    for name in ("m1", "m2"):
        s.quiet("ConsumerGroupHeartbeat", 1, beat(g, s.name(name), topics=[t.name], instance=name[1]))
    s.call(API, v, leave(g, ("", "1"), ("other", "2"), ("", "3"), ("m3",), ("",)))


@scenario("0-5", cases={"group": {"GroupId": None}, "member": {"MemberId": None}, "members": {"Members": None},
                        "a member": {"Members": [{"MemberId": None}]}})
def null_for(s, v, what):
    s.call(API, v, leave(s.name("g"), ("m",)) | what)


@scenario([3, 5], cases=[-2, 4])
def wrong_count(s, v, count):
    s.call(API, v, leave(s.name("g"), ("m",)) | {"Members": Counted(count, [])})


@scenario("4-5")
def unknown_tags(s, v):
    s.call(API, v, leave(s.name("g"), ("m",)) | {"_tags": [(4, b"x")]})
