"""Heartbeat: a member of a classic group says that it lives, and learns whether it has to join again. Static members from version 3."""

import time

from groups import await_state, heartbeat, join, leave, rebalanced, sync
from scenario import scenario
from scenarios.sync_group import in_state

API = "Heartbeat"


@scenario("0-4", cases=["stable", "completing", "preparing"])
def in_each_state(s, v, state):
    m = in_state(s, state)
    s.call(API, v, heartbeat(s.name("g"), m.generation, m.id))
    for generation in (0, 2, -1):
        s.call(API, v, heartbeat(s.name("g"), generation, m.id), note=f"generation {generation}")
    s.call(API, v, heartbeat(s.name("g"), m.generation, "m"), note="of a stranger")
    s.call(API, v, heartbeat(s.name("g"), m.generation, ""), note="of nobody")


@scenario("0-4")
def empty_group(s, v):
    m = in_state(s, "empty")
    s.call(API, v, heartbeat(s.name("g"), m.generation, m.id))
    s.call(API, v, heartbeat(s.name("g"), -1, ""), note="of nobody")


@scenario("0-4")
def unknown_group(s, v):
    s.call(API, v, heartbeat(s.name("g"), 1, "m"))
    s.call(API, v, heartbeat(s.name("g"), -1, ""), note="of nobody")


@scenario("0-4")
def empty_group_id(s, v):
    s.call(API, v, heartbeat("", 1, "m"))


@scenario("0-4")
def after_leaving(s, v):
    g = s.name("g")
    members = rebalanced(s, g, 2)
    s.quiet("LeaveGroup", 5, leave(g, (members[1].id,)))
    s.call(API, v, heartbeat(g, 2, members[1].id))
    s.call(API, v, heartbeat(g, 2, members[0].id), note="of the other")


@scenario("3-4")
def static_member(s, v):
    g = s.name("g")
    (m,) = rebalanced(s, g, instances=["i"])
    s.call(API, v, heartbeat(g, 1, m.id, "i"))
    s.call(API, v, heartbeat(g, 1, m.id), note="without the instance")
    s.call(API, v, heartbeat(g, 1, m.id, "k"), note="unknown instance")
    s.call(API, v, heartbeat(g, 1, "other", "i"), note="other id")
    s.call(API, v, heartbeat(g, 1, "", "i"), note="no id")
    s.call(API, v, heartbeat(g, 7, "other", "i"), note="other id and generation")
    s.call(API, v, heartbeat(g, 7, m.id, "i"), note="other generation")
    s.call(API, v, heartbeat(g, 1, m.id, ""), note="empty instance")


@scenario([3, 4])
def static_member_in_a_rebalance(s, v):
    g = s.name("g")
    members = rebalanced(s, g, 2, instances=["i", "j"])
    s.send("JoinGroup", 9, join(g, members[0].id, "i"), conn="joins")
    await_state(s, g, "PreparingRebalance")
    s.call(API, v, heartbeat(g, 2, members[1].id, "j"))
    s.call(API, v, heartbeat(g, 2, "other", "j"), note="other id")


@scenario([0, 4])
def keeps_the_session(s, v):
    g = s.name("g")
    member = s.quiet("JoinGroup", 3, join(g, session=600))["MemberId"]
    s.quiet("SyncGroup", 3, sync(g, 1, member))
    for _ in range(6):
        time.sleep(0.2)
        s.call(API, v, heartbeat(g, 1, member))
    await_state(s, g, "Empty")
    s.call(API, v, heartbeat(g, 1, member), note="late")


@scenario([0, 4])
def session_of_one_of_two(s, v):
    """Its partitions are for the others: they have to join again."""
    g = s.name("g")
    first = s.quiet("JoinGroup", 3, join(g, session=30000))["MemberId"]
    s.send("JoinGroup", 3, join(g, session=300), conn="second")
    await_state(s, g, "PreparingRebalance", members=2)
    s.quiet("JoinGroup", 3, join(g, first, session=30000))
    second = s.quiet_receive("JoinGroup", 3, "second")["MemberId"]
    s.quiet("SyncGroup", 3, sync(g, 2, first))
    await_state(s, g, "PreparingRebalance", members=1)
    s.call(API, v, heartbeat(g, 2, first))
    s.call(API, v, heartbeat(g, 2, second), note="late")


@scenario("0-4", cases={"group": {"GroupId": None}, "member": {"MemberId": None}})
def null_for(s, v, what):
    s.call(API, v, heartbeat(s.name("g"), 1, "m") | what)


@scenario([4])
def unknown_tags(s, v):
    s.call(API, v, heartbeat(s.name("g"), 1, "m") | {"_tags": [(4, b"x")]})
