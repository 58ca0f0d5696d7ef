"""SyncGroup: the leader hands in the assignment, each member gets its part. Static members from version 3, type and name of the protocol
from 5."""

from groups import assignment, await_state, heartbeat, join, leave, rebalanced, subscription, sync
from kafka_wire.messages import Counted
from scenario import scenario

API = "SyncGroup"


@scenario("0-5")
def alone(s, v):
    g = s.name("g")
    (m,) = rebalanced(s, g, synced=False)
    s.call(API, v, sync(g, 1, m.id, {m.id: assignment(("t", [0, 1]))}))
    s.call(API, v, sync(g, 1, m.id), note="again")
    s.call(API, v, sync(g, 1, m.id, {m.id: assignment(("u", [5]))}), note="again, with another assignment")


@scenario("0-5")
def followers_before_the_leader(s, v):
    g = s.name("g")
    members = rebalanced(s, g, 3, synced=False)
    for i in (1, 2):
        s.send(API, v, sync(g, 2, members[i].id), conn=i)
    s.quiet_for(0.3, conn=1, note="before the leader")
    s.call(API, v, sync(g, 2, members[0].id, {m.id: assignment(("t", [i])) for i, m in enumerate(members)}), note="leader")
    for i in (1, 2):
        s.receive(API, v, conn=i, note=f"follower {i}")


@scenario("0-5")
def followers_after_the_leader(s, v):
    g = s.name("g")
    members = rebalanced(s, g, 2, synced=False)
    s.call(API, v, sync(g, 2, members[0].id, {m.id: assignment(("t", [i])) for i, m in enumerate(members)}), note="leader")
    s.call(API, v, sync(g, 2, members[1].id), note="follower")
    s.call("Heartbeat", 4, heartbeat(g, 2, members[1].id))


@scenario([0, 3, 5])
def follower_with_an_assignment(s, v):
    """It counts for nothing."""
    g = s.name("g")
    members = rebalanced(s, g, 2, synced=False)
    s.send(API, v, sync(g, 2, members[1].id, {members[1].id: b"mine"}), conn="follower")
    s.quiet_for(0.3, conn="follower")
    s.call(API, v, sync(g, 2, members[0].id, {members[1].id: b"yours"}), note="leader, without one for itself")
    s.receive(API, v, conn="follower", note="follower")


@scenario([0, 5], cases={"nothing": {}, "a stranger": {"stranger": b"x"}, "empty": {"": b"x"}})
def leader_assigns_to(s, v, assignments):
    g = s.name("g")
    (m,) = rebalanced(s, g, synced=False)
    s.call(API, v, sync(g, 1, m.id, assignments))
    s.call("DescribeGroups", 5, {"Groups": [g]})


@scenario([0, 5])
def same_member_twice(s, v):
    g = s.name("g")
    (m,) = rebalanced(s, g, synced=False)
    s.call(API, v, sync(g, 1, m.id) | {"Assignments": [{"MemberId": m.id, "Assignment": b"1"}, {"MemberId": m.id, "Assignment": b"2"}]})


@scenario([0, 5])
def large_assignment(s, v):
    g = s.name("g")
    (m,) = rebalanced(s, g, synced=False)
    s.call(API, v, sync(g, 1, m.id, {m.id: b"a" * 200_000}))


@scenario([0, 5])
def assignment_too_large_to_store(s, v):
    """A record of the group may be as large as a batch of its topic: 1048588 bytes."""
    g = s.name("g")
    (m,) = rebalanced(s, g, synced=False)
    s.call("Heartbeat", 4, heartbeat(g, 1, m.id), note="before")
    s.call(API, v, sync(g, 1, m.id, {m.id: b"a" * 1_100_000}))
    s.call("Heartbeat", 4, heartbeat(g, 1, m.id))
    s.call("DescribeGroups", 5, {"Groups": [g]})


@scenario([0, 3, 5])
def rebalance_while_a_follower_waits(s, v):
    g = s.name("g")
    members = rebalanced(s, g, 2, synced=False)
    s.send(API, v, sync(g, 2, members[1].id), conn="follower")
    third = s.quiet("JoinGroup", 9, join(g))["MemberId"]
    s.quiet_for(0.2, conn="follower")
    s.send("JoinGroup", 9, join(g, third), conn="third")
    s.receive(API, v, conn="follower", note="follower")
    s.call(API, v, sync(g, 2, members[0].id, {}), note="leader, too late")
    s.call("Heartbeat", 4, heartbeat(g, 2, members[0].id))


@scenario([0, 3, 5])
def member_leaves_while_another_waits(s, v):
    g = s.name("g")
    members = rebalanced(s, g, 2, synced=False)
    s.send(API, v, sync(g, 2, members[1].id), conn="follower")
    s.quiet_for(0.2, conn="follower")
    s.quiet("LeaveGroup", 5, leave(g, (members[0].id,)))
    s.receive(API, v, conn="follower", note="follower")


@scenario([0, 5])
def waits_twice(s, v):
    """Only the later request is answered."""
    g = s.name("g")
    members = rebalanced(s, g, 2, synced=False)
    s.send(API, v, sync(g, 2, members[1].id), conn="a")
    s.quiet_for(0.3, conn="a", note="before")
    s.send(API, v, sync(g, 2, members[1].id), conn="b")
    s.quiet_for(0.3, conn="b", note="before")
    s.call(API, v, sync(g, 2, members[0].id, {members[1].id: b"x"}), note="leader")
    s.receive(API, v, conn="b", note="the later")
    s.quiet_for(0.3, conn="a", note="the earlier")


@scenario([0, 5])
def leader_does_not_come(s, v):
    """Followers that wait are told to join again once the rebalance timeout is over."""
    g = s.name("g")
    members = rebalanced(s, g, 2, synced=False, rebalance=1000)
    s.send(API, v, sync(g, 2, members[1].id), conn="follower")
    s.receive(API, v, conn="follower", note="follower")
    s.call("Heartbeat", 4, heartbeat(g, 2, members[0].id), note="of the leader")
    s.call("Heartbeat", 4, heartbeat(g, 2, members[1].id), note="of the follower")


# --- what is refused


@scenario("0-5")
def unknown_group(s, v):
    s.call(API, v, sync(s.name("g"), 1, "m"))
    s.call(API, v, sync(s.name("g"), -1, ""), note="no member")


@scenario("0-5")
def empty_group_id(s, v):
    s.call(API, v, sync("", 1, "m"))


@scenario("0-5", cases=["stable", "completing", "preparing", "empty"])
def unknown_member(s, v, state):
    in_state(s, state)
    s.call(API, v, sync(s.name("g"), 1, "m"))
    s.call(API, v, sync(s.name("g"), 1, ""), note="empty")


@scenario("0-5", cases=[0, 2, -1, 2147483647, -2147483648])
def wrong_generation(s, v, generation):
    g = s.name("g")
    (m,) = rebalanced(s, g)
    s.call(API, v, sync(g, generation, m.id))


@scenario("0-5", cases=["completing", "preparing"])
def wrong_generation_in(s, v, state):
    m = in_state(s, state)
    s.call(API, v, sync(s.name("g"), m.generation + 1, m.id))
    s.call(API, v, sync(s.name("g"), m.generation, m.id), note="right generation")


def in_state(s, state):
    g = s.name("g")
    (m,) = rebalanced(s, g, synced=state != "completing")
    if state == "preparing":
        s.send("JoinGroup", 3, join(g), conn="joins")
        await_state(s, g, "PreparingRebalance", members=2)
    if state == "empty":
        s.quiet("LeaveGroup", 5, leave(g, (m.id,)))
    return m


@scenario([5], cases={"type": {"type": "connect"}, "name": {"protocol": "sticky"}, "no type": {"type": None}, "no name": {"protocol": None},
                      "neither": {"type": None, "protocol": None}, "empty type": {"type": ""}, "empty name": {"protocol": ""}})
def other_protocol(s, v, how):
    g = s.name("g")
    (m,) = rebalanced(s, g, synced=False)
    s.call(API, v, sync(g, 1, m.id, {m.id: b"x"}, **how), note="before")
    s.call(API, v, sync(g, 1, m.id, {m.id: b"x"}))
    s.call(API, v, sync(g, 1, m.id, **how), note="after")
    s.call(API, v, sync(g, 7, m.id, **how), note="and of another generation")
    s.call(API, v, sync(g, 1, "m", **how), note="and of a stranger")


# --- static members


@scenario("3-5")
def static_member(s, v):
    g = s.name("g")
    (m,) = rebalanced(s, g, instances=["i"], synced=False)
    s.call(API, v, sync(g, 1, m.id, {m.id: b"x"}, instance="k"), note="unknown instance")
    s.call(API, v, sync(g, 1, "other", {m.id: b"x"}, instance="i"), note="other id")
    s.call(API, v, sync(g, 1, "", {m.id: b"x"}, instance="i"), note="no id")
    s.call(API, v, sync(g, 9, "other", {m.id: b"x"}, instance="i"), note="other id and generation")
    s.call(API, v, sync(g, 1, m.id, {m.id: b"x"}, instance="i"))
    s.call(API, v, sync(g, 1, m.id), note="no instance")


@scenario([3, 5])
def dynamic_with_an_instance(s, v):
    g = s.name("g")
    (m,) = rebalanced(s, g)
    s.call(API, v, sync(g, 1, m.id, instance="i"))


@scenario([4, 5])
def through_a_rebalance(s, v):
    """A second member comes, both get their parts."""
    g = s.name("g")
    (first,) = rebalanced(s, g)
    second = s.quiet("JoinGroup", 9, join(g))["MemberId"]
    s.send("JoinGroup", 9, join(g, second, protocols={"range": subscription("t", version=3, GenerationId=1)}), conn=2)
    await_state(s, g, "PreparingRebalance", members=2)
    s.send("JoinGroup", 9, join(g, first.id), conn=1)
    s.quiet_receive("JoinGroup", 9, 2)
    s.receive("JoinGroup", 9, conn=1, note="leader")
    s.send(API, v, sync(g, 2, second), conn=2)
    s.call(API, v, sync(g, 2, first.id, {first.id: assignment(("t", [0])), second: assignment(("t", [1]), version=3)}), note="leader", conn=1)
    s.receive(API, v, conn=2, note="follower")


# --- encoding


@scenario("0-5", cases={"group": {"GroupId": None}, "member": {"MemberId": None}, "assignments": {"Assignments": None},
                        "assignment": {"Assignments": [{"MemberId": "m", "Assignment": None}]}})
def null_for(s, v, what):
    s.call(API, v, sync(s.name("g"), 1, "m") | what)


@scenario([0, 5], cases=[-2, 4])
def wrong_count(s, v, count):
    s.call(API, v, sync(s.name("g"), 1, "m") | {"Assignments": Counted(count, [])})


@scenario("4-5")
def unknown_tags(s, v):
    s.call(API, v, sync(s.name("g"), 1, "m") | {"_tags": [(4, b"x")]})
