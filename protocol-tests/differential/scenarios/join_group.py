"""JoinGroup: how members of a classic group come together. Ids that the broker hands out first (from version 4), static members
(KIP-345, from 5), the reason (from 8), and skipping the assignment (KIP-814, from 9)."""

import time

from groups import await_state, described, enter, heartbeat, join, leave, rebalanced, subscription, sync
from kafka_wire.messages import Counted
from scenario import scenario

API = "JoinGroup"


def parked(s, group, members=2):
    """Waits until a join has arrived that waits for the others."""
    await_state(s, group, "PreparingRebalance", members=members)


@scenario("0-9")
def alone(s, v):
    g = s.name("g")
    enter(s, v, g)


@scenario("4-9")
def with_the_id_of_an_earlier_answer(s, v):
    """The id stays good after the first use."""
    g = s.name("g")
    member = enter(s, v, g)["MemberId"]
    s.call(API, v, join(g, member), note="again")
    s.call(API, v, join(g, member, protocols={"range": subscription("u")}), note="with other metadata")


@scenario("0-9", cases={"none": None, "empty": "", "dashes": "a-b-", "long": "c" * 300})
def client_id_in_the_member_id(s, v, client):
    s.call(API, v, join(s.name("g")), client_id=client)


@scenario("0-9")
def two_members(s, v):
    g = s.name("g")
    first = enter(s, v, g, conn="first")
    body = join(g)
    if v >= 4:
        body = join(g, s.call(API, v, body, conn="second")["MemberId"])
    s.send(API, v, body, conn="second")
    parked(s, g)
    s.call("Heartbeat", 4, heartbeat(g, 1, first["MemberId"]), note="of the first")
    s.send(API, v, join(g, first["MemberId"]), conn="first")
    second = s.receive(API, v, conn="second", note="second")
    s.receive(API, v, conn="first", note="first, the leader")
    s.call("Heartbeat", 4, heartbeat(g, 2, second["MemberId"]), note="before the assignment")


@scenario([0, 3, 4, 9])
def three_members_of_whom_one_does_not_return(s, v):
    """It is thrown out when the rebalance has lasted the longest of their timeouts. Version 0 has one timeout for all."""
    g = s.name("g")
    times = {"session": 1000, "rebalance": 1000}
    members = rebalanced(s, g, 2, **times)
    body = join(g, **times)
    if v >= 4:
        body = join(g, s.call(API, v, body, conn="third")["MemberId"], **times)
    s.send(API, v, body, conn="third")
    parked(s, g, 3)
    s.send(API, v, join(g, members[0].id, **times), conn="leader")
    s.receive(API, v, conn="third", note="third")
    s.receive(API, v, conn="leader", note="leader")
    s.call("Heartbeat", 4, heartbeat(g, 3, members[1].id), note="of the lost one")


@scenario([0, 5, 9])
def twice_while_waiting(s, v):
    """Only the later request of a member is answered."""
    g = s.name("g")
    members = rebalanced(s, g, 2)
    s.send(API, v, join(g, members[1].id, protocols={"range": subscription("u")}), conn="a")
    parked(s, g)
    s.send(API, v, join(g, members[1].id, protocols={"range": subscription("w")}), conn="b")
    time.sleep(0.3)  # nothing shows that the later has arrived
    s.send(API, v, join(g, members[0].id), conn="c")
    s.receive(API, v, conn="b", note="the later")
    s.receive(API, v, conn="c", note="the leader")
    s.quiet_for(0.3, conn="a", note="the earlier")


@scenario("0-9")
def leader_joins_again(s, v):
    """It may want another assignment: a new generation for all."""
    g = s.name("g")
    members = rebalanced(s, g, 2)
    s.send(API, v, join(g, members[0].id), conn="leader")
    parked(s, g)
    s.call("Heartbeat", 4, heartbeat(g, 2, members[1].id), note="of the follower")
    s.send(API, v, join(g, members[1].id), conn="follower")
    s.receive(API, v, conn="follower", note="follower")
    s.receive(API, v, conn="leader", note="leader")


@scenario("0-9")
def follower_joins_again_unchanged(s, v):
    g = s.name("g")
    members = rebalanced(s, g, 2)
    s.call(API, v, join(g, members[1].id))
    s.call("Heartbeat", 4, heartbeat(g, 2, members[0].id), note="of the leader")


@scenario([0, 4, 9])
def follower_joins_again_before_the_assignment(s, v):
    g = s.name("g")
    members = rebalanced(s, g, 2, synced=False)
    s.call(API, v, join(g, members[1].id), note="follower")
    s.call(API, v, join(g, members[0].id), note="leader")


@scenario([0, 4, 9])
def follower_joins_again_changed_before_the_assignment(s, v):
    g = s.name("g")
    members = rebalanced(s, g, 2, synced=False)
    s.send(API, v, join(g, members[1].id, protocols={"range": subscription("u")}), conn="follower")
    parked(s, g)
    s.call("SyncGroup", 5, sync(g, 2, members[0].id, {}), note="of the leader")
    s.send(API, v, join(g, members[0].id), conn="leader")
    s.receive(API, v, conn="follower", note="follower")
    s.receive(API, v, conn="leader", note="leader")


@scenario([0, 5, 9], cases={"before": True, "after": False})
def leader_joins_again_around_the_assignment(s, v, before):
    g = s.name("g")
    (leader,) = rebalanced(s, g, synced=not before)
    s.call(API, v, join(g, leader.id))
    s.call(API, v, join(g, leader.id, protocols={"range": subscription("u")}), note="changed")


# --- what is refused


@scenario("0-9")
def empty_group_id(s, v):
    s.call(API, v, join(""))
    s.call(API, v, join("", "some member"), note="with a member")


@scenario("0-9")
def odd_group_ids(s, v):
    """Not empty is good enough."""
    for name in (" ", "a/b\u0000ü" + "x" * 400):
        s.call(API, v, join(s.name(name)))


@scenario("0-9", cases=[-1, 0, 99, 100, 1800000, 1800001, 2147483647])
def session_timeout(s, v, timeout):
    s.call(API, v, join(s.name("g"), session=timeout))


@scenario("1-9", cases=[-1, 0, 1, -2147483648])
def rebalance_timeout(s, v, timeout):
    enter(s, v, s.name("g"), rebalance=timeout)


@scenario("0-9")
def unknown_member_of_no_group(s, v):
    s.call(API, v, join(s.name("g"), "some member"))
    s.call("DescribeGroups", 6, {"Groups": [s.name("g")]})


@scenario("0-9")
def unknown_member_of_a_group(s, v):
    g = s.name("g")
    rebalanced(s, g)
    s.call(API, v, join(g, "some member"))


@scenario("0-9", cases={"no type": {"type": ""}, "no protocols": {"protocols": {}}, "neither": {"type": "", "protocols": {}}})
def nothing_in_common(s, v, how):
    s.call(API, v, join(s.name("g"), **how))
    s.call(API, v, join(s.name("g"), "some member", **how), note="with a member")


OTHERS = {"type": {"type": "connect"}, "protocol": {"protocols": {"sticky": b""}}, "no protocol": {"protocols": {}}, "no type": {"type": ""},
          "case": {"protocols": {"Range": b""}}}


@scenario("0-9", cases=OTHERS)
def other_protocol_than_the_group_has(s, v, how):
    g = s.name("g")
    rebalanced(s, g)
    s.call(API, v, join(g, **how))


@scenario([0, 5, 9], cases=OTHERS)
def known_member_with_another_protocol(s, v, how):
    g = s.name("g")
    (member,) = rebalanced(s, g)
    s.call(API, v, join(g, member.id, **how))
    s.call("Heartbeat", 4, heartbeat(g, 1, member.id), note="afterwards")


@scenario([0, 4, 9])
def other_type_in_an_empty_group(s, v):
    """One that a member left takes any."""
    g = s.name("g")
    (member,) = rebalanced(s, g)
    s.quiet("LeaveGroup", 5, leave(g, (member.id,)))
    enter(s, v, g, type="connect", protocols={"x": b"1"})
    s.record("type", described(s, g)["ProtocolType"])


@scenario("0-9", cases={"first": ["a", "b"], "last": ["b", "a"], "the only common": ["c", "b"]})
def choice_of_the_protocol(s, v, names):
    """The members vote; each for the first of its own that all know."""
    g = s.name("g")
    (leader,) = rebalanced(s, g, protocols={"a": b"1", "b": b"2"})
    how = {"protocols": {name: name.encode() for name in names}}
    body = join(g, **how)
    if v >= 4:
        body = join(g, s.quiet(API, v, body)["MemberId"], **how)
    s.send(API, v, body, conn="second")
    parked(s, g)
    s.send(API, v, join(g, leader.id, protocols={"b": b"2", "a": b"1"}), conn="leader")
    s.receive(API, v, conn="second", note="second")
    s.receive(API, v, conn="leader", note="leader")


@scenario([0, 9])
def two_votes_to_one(s, v):
    g = s.name("g")
    members = rebalanced(s, g, 3, protocols={"a": b"1", "b": b"2"})
    for i, order in enumerate((["a", "b"], ["b", "a"], ["b", "a"])):
        s.send(API, v, join(g, members[i].id, protocols={name: b"" for name in order}), conn=i)
        if i == 0:
            parked(s, g, 3)
    for i in (1, 2, 0):
        s.receive(API, v, conn=i, note=f"member {i}")


def admitted(s, v, body):
    """Sends a join; where it was given an id first, once more. Kafka never answers some of them."""
    if v >= 4:
        body = body | {"MemberId": s.quiet(API, v, body)["MemberId"]}
    s.send(API, v, body)
    return s.receive(API, v, timeout=1)


@scenario([0, 9])
def same_protocol_twice(s, v):
    admitted(s, v, join(s.name("g")) | {"Protocols": [{"Name": "range", "Metadata": b"1"}, {"Name": "range", "Metadata": b"2"}]})


@scenario([0, 9])
def odd_names_of_protocols(s, v):
    enter(s, v, s.name("g"), type="ü \u0000", protocols={"": b"", "ü": b"x"})


@scenario("0-9")
def large_metadata(s, v):
    for suffix, how in {"g": {"protocols": {"range": subscription(*("t%05d" % i for i in range(12_000)))}},
                        "h": {"type": "connect", "protocols": {"range": b"m" * 100_000}}}.items():
        body = join(s.name(suffix), **how)
        if v >= 4:
            body["MemberId"] = s.quiet(API, v, body)["MemberId"]
        answer = s.call(API, v, body, without=["Members"])
        s.record("as it was sent", answer["Members"][0]["Metadata"] == body["Protocols"][0]["Metadata"])


ODD_METADATA = {
    "empty": b"", "one byte": b"1", "newer version": subscription("t", version=3)[2:].rjust(40, b"\0"), "version 9": b"\0\x09" + subscription("t")[2:],
    "negative version": b"\xff\xff" + subscription("t")[2:], "cut": subscription("t")[:-6], "more after it": subscription("t") + b"more",
    "claims more than it has": b"\0\0\x7f\xff\xff\xff", "null topics": b"\0\0\xff\xff\xff\xff\xff\xff\xff\xff", "no topics": subscription(),
}


@scenario([0, 9], cases=ODD_METADATA)
def metadata_that_is_not_of_consumers(s, v, metadata):
    """What they subscribe to is for OffsetDelete to say; to join it does not matter."""
    admitted(s, v, join(s.name("g"), protocols={"range": metadata}))


@scenario([0, 4, 9])
def full_group(s, v):
    """group.max.size is 5."""
    g = s.name("g")
    members = rebalanced(s, g, 5)
    s.call(API, v, join(g), note="sixth")
    s.call(API, v, join(g, "some member"), note="unknown")
    s.call(API, v, join(g, members[4].id), note="fifth, again")
    s.quiet("LeaveGroup", 5, leave(g, (members[4].id,)))
    s.call(API, 4, join(g), note="sixth, after one left")


@scenario([5, 9])
def full_group_of_ids_handed_out(s, v):
    """Ids count that were handed out and not used yet?"""
    g = s.name("g")
    for i in range(7):
        s.call(API, v, join(g), note=f"{i + 1}")


@scenario([4, 9])
def unused_id_lapses(s, v):
    """After the session timeout."""
    g = s.name("g")
    member = s.call(API, v, join(g, session=100))["MemberId"]
    s.call(API, v, join(g, "of another"), note="unknown meanwhile")
    time.sleep(0.5)
    s.call(API, v, join(g, member, session=100), note="lapsed")


@scenario([4, 9])
def heartbeat_with_an_unused_id(s, v):
    g = s.name("g")
    member = s.call(API, v, join(g))["MemberId"]
    s.call("Heartbeat", 4, heartbeat(g, 0, member))
    s.call("SyncGroup", 5, sync(g, 0, member))
    s.call("DescribeGroups", 6, {"Groups": [g]})
    s.call("LeaveGroup", 5, leave(g, (member,)))
    s.call(API, v, join(g, member), note="after it left")


@scenario("0-9")
def session_lapses(s, v):
    g = s.name("g")
    member = enter(s, v, g, session=300)["MemberId"]
    s.quiet("SyncGroup", 5, sync(g, 1, member))
    s.call("Heartbeat", 4, heartbeat(g, 1, member), note="in time")
    await_state(s, g, "Empty")
    s.call("Heartbeat", 4, heartbeat(g, 1, member), note="late")
    s.call(API, v, join(g, member), note="late")


@scenario([0, 9])
def no_assignment_in_time(s, v):
    """A leader that does not sync within the rebalance timeout is thrown out."""
    g = s.name("g")
    member = enter(s, v, g, session=1000 if v == 0 else 30000, rebalance=1000)["MemberId"]
    s.call("Heartbeat", 4, heartbeat(g, 1, member), note="meanwhile")
    await_state(s, g, "Empty", "PreparingRebalance", members=0)
    s.call("Heartbeat", 4, heartbeat(g, 1, member), note="afterwards")


# --- static members (KIP-345)


@scenario("5-9")
def static_member(s, v):
    g = s.name("g")
    s.call(API, v, join(g, instance="i"))
    s.call("DescribeGroups", 6, {"Groups": [g]})


@scenario("5-9")
def static_with_a_made_up_id(s, v):
    g = s.name("g")
    s.call(API, v, join(g, "made up", instance="i"))
    rebalanced(s, g, instances=["i"])
    s.call(API, v, join(g, "made up", instance="i"), note="fenced")
    s.call(API, v, join(g, "made up", instance="k"), note="unknown instance")


@scenario("5-9")
def static_returns(s, v):
    """A leader that returns without its id: a new id, in the same generation, if nothing changed. Before version 9 it learns that
    another is leader, its former self, so that it does not assign; from 9 on it is told to skip the assignment (KIP-814)."""
    g = s.name("g")
    (old,) = rebalanced(s, g, instances=["i"])
    new = s.call(API, v, join(g, instance="i"))["MemberId"]
    s.call("Heartbeat", 4, heartbeat(g, 1, old.id, "i"), note="of the old")
    s.call("Heartbeat", 4, heartbeat(g, 1, old.id), note="of the old, no instance")
    s.call("Heartbeat", 4, heartbeat(g, 1, new, "i"), note="of the new")
    s.call("SyncGroup", 5, sync(g, 1, old.id, instance="i"), note="of the old")
    s.call("SyncGroup", 5, sync(g, 1, new, instance="i"), note="of the new")
    s.call(API, v, join(g, old.id, instance="i"), note="of the old")


@scenario("5-9")
def static_follower_returns(s, v):
    g = s.name("g")
    members = rebalanced(s, g, 2, instances=["i", "j"])
    new = s.call(API, v, join(g, instance="j"))["MemberId"]
    s.call("Heartbeat", 4, heartbeat(g, 2, members[0].id, "i"), note="of the leader")
    s.call("Heartbeat", 4, heartbeat(g, 2, members[1].id, "j"), note="of the old")
    s.call("SyncGroup", 5, sync(g, 2, new, instance="j"), note="of the new")


@scenario("5-9")
def static_leader_returns(s, v):
    g = s.name("g")
    members = rebalanced(s, g, 2, instances=["i", "j"])
    new = s.call(API, v, join(g, instance="i"))["MemberId"]
    s.call("Heartbeat", 4, heartbeat(g, 2, members[1].id, "j"), note="of the follower")
    s.call("SyncGroup", 5, sync(g, 2, new, instance="i"), note="of the new")
    s.send(API, v, join(g, new, instance="i"), conn="leader")
    parked(s, g)
    s.send(API, v, join(g, members[1].id, instance="j"), conn="follower")
    s.receive(API, v, conn="follower", note="follower, next generation")
    s.receive(API, v, conn="leader", note="leader, next generation")


@scenario("5-9")
def static_returns_changed(s, v):
    """Other metadata for the same protocol does not begin a rebalance; another protocol does."""
    g = s.name("g")
    both = {"a": b"1", "b": b"2"}
    members = rebalanced(s, g, 2, instances=["i", "j"], protocols=both)
    new = s.call(API, v, join(g, instance="j", protocols={"a": b"3", "b": b"4"}), note="other metadata")["MemberId"]
    s.call("DescribeGroups", 6, {"Groups": [g]})
    s.send(API, v, join(g, new, instance="j", protocols={"b": b"2"}), conn="j")
    parked(s, g)
    s.send(API, v, join(g, members[0].id, instance="i", protocols=both), conn="i")
    s.receive(API, v, conn="j", note="other protocol")
    s.receive(API, v, conn="i", note="leader")


@scenario("5-9")
def static_returns_with_fewer_protocols(s, v):
    g = s.name("g")
    both = {"a": b"1", "b": b"2"}
    members = rebalanced(s, g, 2, instances=["i", "j"], protocols=both)
    s.send(API, v, join(g, instance="j", protocols={"b": b"2"}), conn="j")
    parked(s, g)
    s.send(API, v, join(g, members[0].id, instance="i", protocols=both), conn="i")
    s.receive(API, v, conn="j", note="follower")
    s.receive(API, v, conn="i", note="leader")


@scenario([5, 9])
def static_returns_with_another_protocol(s, v):
    g = s.name("g")
    rebalanced(s, g, 2, instances=["i", "j"])
    s.call(API, v, join(g, instance="j", protocols={"sticky": b""}))


@scenario([5, 9])
def static_returns_while_its_old_self_waits(s, v):
    """The parked join of the old one is fenced."""
    g = s.name("g")
    members = rebalanced(s, g, 2, instances=["i", "j"])
    s.send(API, v, join(g, members[0].id, instance="i"), conn="leader")
    parked(s, g)
    s.send(API, v, join(g, instance="i"), conn="new leader")
    s.receive(API, v, conn="leader", note="old self")
    s.send(API, v, join(g, members[1].id, instance="j"), conn="follower")
    s.receive(API, v, conn="follower", note="follower")
    s.receive(API, v, conn="new leader", note="new self")


@scenario([5, 9])
def static_returns_before_the_assignment(s, v):
    g = s.name("g")
    members = rebalanced(s, g, 2, instances=["i", "j"], synced=False)
    s.send("SyncGroup", 5, sync(g, 2, members[1].id, instance="j"), conn="sync")
    s.send(API, v, join(g, instance="j"), conn="new")
    parked(s, g)
    s.send(API, v, join(g, members[0].id, instance="i"), conn="leader")
    s.receive(API, v, conn="new", note="new self")
    s.receive(API, v, conn="leader", note="leader")
    s.receive("SyncGroup", 5, conn="sync", note="of the old")


@scenario([5, 9])
def static_member_sessions(s, v):
    """A static member that does not come back within its session leaves like any other."""
    g = s.name("g")
    s.call(API, v, join(g, instance="i", session=300))
    await_state(s, g, "Empty")
    s.call(API, v, join(g, instance="i", session=300), note="later")


@scenario([5, 9], cases={"empty": "", "long": "i" * 250, "odd": "a b/ü", "dots": ".."})
def instance_names(s, v, instance):
    s.call(API, v, join(s.name("g"), instance=instance))


@scenario([5, 9])
def same_instance_in_two_groups(s, v):
    for suffix in "gh":
        s.call(API, v, join(s.name(suffix), instance="i"))


@scenario([5, 9])
def dynamic_becomes_static(s, v):
    g = s.name("g")
    (member,) = rebalanced(s, g)
    s.call(API, v, join(g, member.id, instance="i"))


@scenario([5, 9])
def static_forgets_its_instance(s, v):
    g = s.name("g")
    (member,) = rebalanced(s, g, instances=["i"])
    s.call(API, v, join(g, member.id))
    s.call("DescribeGroups", 6, {"Groups": [g]})


@scenario([5, 9])
def id_of_another_instance(s, v):
    g = s.name("g")
    members = rebalanced(s, g, 2, instances=["i", "j"])
    s.call(API, v, join(g, members[0].id, instance="j"))
    s.call("Heartbeat", 4, heartbeat(g, 2, members[0].id, "j"))
    s.call("SyncGroup", 5, sync(g, 2, members[0].id, instance="j"))


# --- encoding


@scenario("8-9", cases={"none": None, "empty": "", "some": "because", "long": "r" * 1000})
def reason(s, v, reason):
    enter(s, v, s.name("g"), reason=reason)


@scenario("0-9", cases={"group": {"GroupId": None}, "member": {"MemberId": None}, "type": {"ProtocolType": None}, "protocols": {"Protocols": None},
                        "metadata": {"Protocols": [{"Name": "range", "Metadata": None}]}, "name": {"Protocols": [{"Name": None, "Metadata": b""}]}})
def null_for(s, v, what):
    s.call(API, v, join(s.name("g")) | what)


@scenario([0, 9], cases=[-2, 4])
def wrong_count(s, v, count):
    s.call(API, v, join(s.name("g")) | {"Protocols": Counted(count, [])})


@scenario("6-9")
def unknown_tags(s, v):
    s.call(API, v, join(s.name("g")) | {"_tags": [(4, b"x")]})
