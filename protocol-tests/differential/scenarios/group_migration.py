"""Members of both protocols in one group, while a fleet of consumers is moved from one to the other: a classic group becomes a consumer
group when the first member of the new protocol joins, and a classic one again when the last of those leaves. Up to then the coordinator
speaks to classic members in their own protocol, and assigns for them. `group.consumer.migration.policy` is bidirectional."""

from groups import assignment, beat, beaten, commit, committed, enter, goes_on, heartbeat, join, joined, leave, offsets, rebalanced, subscription, sync, topic
from scenario import scenario

HEARTBEAT = "ConsumerGroupHeartbeat"


def described(s, group, note=""):
    s.call("ConsumerGroupDescribe", 1, {"GroupIds": [group]}, note=note)


def classic(s, topic, count=1, assigned=None, version=3, **how):
    """A stable classic group of consumers of a topic, whose members have the partitions that `assigned` says (member's number → list)."""
    g = s.name("g")
    members = rebalanced(s, g, count, synced=False, protocols={"range": subscription(topic.name, version=version)}, **how)
    parts = {m.id: assignment((topic.name, (assigned or {}).get(i, [i]))) for i, m in enumerate(members)}
    for m in reversed(members):
        s.send("SyncGroup", 5, sync(g, m.generation, m.id, parts), m.conn)
    for m in members:
        s.quiet_receive("SyncGroup", 5, m.conn)
    return members


@scenario()
def upgrade(s):
    """The first heartbeat of the new protocol converts the group; the classic member has to join again, once it gave back what it lost."""
    g, t = s.name("g"), topic(s, partitions=2)
    committed(s, g, (t, 0, 5))
    (old,) = classic(s, t, assigned={0: [0, 1]})
    s.call(HEARTBEAT, 1, beat(g, "m", topics=[t.name]), note="joins")
    s.call("ListGroups", 5, {})
    s.call("DescribeGroups", 6, {"Groups": [g]})
    s.call("Heartbeat", 4, heartbeat(g, old.generation, old.id), note="of the classic member")
    s.call("OffsetCommit", 9, commit(g, (t, 0, 6), member=old.id, generation=old.generation), note="of the classic member")
    s.call("SyncGroup", 5, sync(g, old.generation, old.id), note="without joining again")
    answer = s.call("JoinGroup", 9, join(g, old.id, protocols={"range": subscription(t.name, version=3, OwnedPartitions=[{"Topic": t.name, "Partitions": [0]}], GenerationId=1)}))
    s.call("Heartbeat", 4, heartbeat(g, answer["GenerationId"], old.id), note="before it synced")
    s.call("SyncGroup", 5, sync(g, answer["GenerationId"], old.id))
    s.call("SyncGroup", 5, sync(g, answer["GenerationId"], old.id), note="again")
    s.call("Heartbeat", 4, heartbeat(g, answer["GenerationId"], old.id), note="of the classic member")
    s.call("Heartbeat", 4, heartbeat(g, old.generation, old.id), note="of its old generation")
    described(s, g)
    s.call("OffsetCommit", 9, commit(g, (t, 0, 7), member=old.id, generation=answer["GenerationId"]), note="of the classic member")
    s.call("OffsetCommit", 8, commit(g, (t, 0, 8), member=old.id, generation=answer["GenerationId"]), note="of the classic member")
    s.call("OffsetCommit", 8, commit(g, (t, 0, 9), member=old.id, generation=answer["GenerationId"] - 1), note="of its old generation")
    s.call("OffsetFetch", 9, offsets(g, every=True))


@scenario()
def classic_member_keeps_what_it_had(s):
    """What it has comes from the classic assignment."""
    g, t = s.name("g"), topic(s, partitions=3)
    classic(s, t, 2, assigned={0: [0, 2], 1: [1]})
    s.call(HEARTBEAT, 1, beat(g, "m", topics=[]), note="joins, wants nothing")
    described(s, g)


@scenario()
def downgrade(s):
    """The last member of the new protocol leaves."""
    g, t = s.name("g"), topic(s, partitions=2)
    (old,) = classic(s, t, assigned={0: [0, 1]})
    s.call(HEARTBEAT, 1, beat(g, "m", topics=[t.name]), note="joins")
    s.call(HEARTBEAT, 1, beat(g, "m", -1), note="leaves")
    s.call("ListGroups", 5, {})
    s.call("DescribeGroups", 6, {"Groups": [g]})
    described(s, g)
    s.call("Heartbeat", 4, heartbeat(g, old.generation, old.id), note="of the classic member")
    answer = s.call("JoinGroup", 9, join(g, old.id, protocols={"range": subscription(t.name, version=3)}))
    s.call("SyncGroup", 5, sync(g, answer["GenerationId"], old.id, {old.id: assignment((t.name, [0, 1]))}))


@scenario()
def downgrade_by_session(s):
    """The same when it is thrown out by an administrator (LeaveGroup)."""
    g, t = s.name("g"), topic(s, partitions=2)
    (old,) = classic(s, t, assigned={0: [0, 1]})
    beaten(s, beat(g, "m", topics=[t.name]))
    s.call("LeaveGroup", 5, leave(g, ("m",)))
    s.call("ListGroups", 5, {})
    s.call("Heartbeat", 4, heartbeat(g, old.generation, old.id), note="of the classic member")


@scenario()
def last_classic_member_leaves(s):
    g, t = s.name("g"), topic(s, partitions=2)
    (old,) = classic(s, t, assigned={0: [0, 1]})
    beaten(s, beat(g, "m", topics=[t.name]))
    s.call("LeaveGroup", 5, leave(g, (old.id,)))
    s.call("ListGroups", 5, {})
    s.record("epoch", goes_on(s, g, "m", 2))
    described(s, g)
    beaten(s, beat(g, "m", -1))
    s.call("ListGroups", 5, {}, note="empty")


@scenario(cases={"range": "range", "consumer protocol v0": 0, "unknown assignor": "mine"})
def classic_joins_a_consumer_group(s, how):
    """A new member of a group that is not empty: it gets an id first, and a generation that is its epoch."""
    g, t = s.name("g"), topic(s, partitions=2)
    epoch = joined(s, g, "a", [t])
    protocols = {"range" if how == 0 else how: subscription(t.name, version=0 if how == 0 else 3)}
    name = next(iter(protocols))
    answer = s.call("JoinGroup", 9, join(g, protocols=protocols))
    member = answer["MemberId"]
    answer = s.call("JoinGroup", 9, join(g, member, protocols=protocols), note="with id")
    s.call("SyncGroup", 5, sync(g, answer["GenerationId"], member, protocol=name))
    goes_on(s, g, "a", epoch)
    s.call("Heartbeat", 4, heartbeat(g, answer["GenerationId"], member), note="once there is something for it")
    answer = s.call("JoinGroup", 9, join(g, member, protocols=protocols), note="again")
    s.call("SyncGroup", 5, sync(g, answer["GenerationId"], member, protocol=name))
    s.call("Heartbeat", 4, heartbeat(g, answer["GenerationId"], member), note="settled")
    described(s, g)
    s.call("LeaveGroup", 5, leave(g, (member,)))
    s.call("Heartbeat", 4, heartbeat(g, answer["GenerationId"], member), note="after it left")


@scenario([0, 3, 4, 9])
def old_classic_joins_a_consumer_group(s, v):
    g, t = s.name("g"), topic(s, partitions=2)
    joined(s, g, "a", [t])
    enter(s, v, g, protocols={"range": subscription(t.name, version=1)})


REFUSED = {
    "type": {"type": "connect", "protocols": {"x": b"\0\0"}}, "no protocols": {"protocols": {}}, "no type": {"type": ""}, "empty metadata": {"protocols": {"range": b""}},
    "odd metadata": {"protocols": {"range": b"\0\3xx"}}, "odd second": {"protocols": {"range": subscription("t"), "sticky": b"x"}}, "user data": {"protocols": {"range": subscription("t", UserData=b"mine")}},
    "unknown member": {"member": "stranger"}, "session": {"session": 99}, "session above the highest": {"session": 1800001}, "newer version": {"protocols": {"range": b"\0\x09" + subscription("t", version=3)[2:]}},
    "no topics": {"protocols": {"range": subscription()}},
}


@scenario(cases=REFUSED)
def classic_join_of_a_consumer_group(s, how):
    g, t = s.name("g"), topic(s)
    joined(s, g, "a", [t])
    answer = s.call("JoinGroup", 9, join(g, **how))
    if answer and answer["ErrorCode"] == 79:
        s.call("JoinGroup", 9, join(g, **({"member": answer["MemberId"]} | how)), note="with id")


@scenario()
def classic_joins_an_empty_consumer_group(s):
    """That makes it a classic one."""
    g, t = s.name("g"), topic(s)
    epoch = joined(s, g, "a", [t])
    committed(s, g, (t, 0, 5), member="a", generation=epoch)
    beaten(s, beat(g, "a", -1))
    enter(s, 9, g, protocols={"range": subscription(t.name)})
    s.call("ListGroups", 5, {})
    s.call("OffsetFetch", 9, offsets(g, every=True))


@scenario(cases={"with offsets": True, "never joined": False})
def consumer_joins_an_empty_classic_group(s, with_offsets):
    g, t = s.name("g"), topic(s)
    if with_offsets:
        committed(s, g, (t, 0, 5))
    else:
        s.quiet("JoinGroup", 9, join(g))
    s.call(HEARTBEAT, 1, beat(g, "m", topics=[t.name]))
    s.call("ListGroups", 5, {})
    s.call("OffsetFetch", 9, offsets(g, every=True))


@scenario()
def consumer_joins_a_left_classic_group(s):
    g, t = s.name("g"), topic(s)
    (m,) = classic(s, t)
    s.quiet("LeaveGroup", 5, leave(g, (m.id,)))
    s.call(HEARTBEAT, 1, beat(g, "m", topics=[t.name]))
    described(s, g)


NOT_FOR_UPGRADE = {"type": {"type": "connect"}, "odd metadata": {"protocols": {"x": b"mine"}}, "odd assignment": {"assignment": b"x"}, "user data": {"protocols": {"range": subscription("t", UserData=b"u")}},
                   "user data in the assignment": {"assignment": assignment(("t", [0]), UserData=b"u")}, "empty assignment": {"assignment": b""}, "unknown topic": {"protocols": {"range": subscription("nope")}},
                   "claims too much": {"assignment": b"\0\0\x7f\xff\xff\xff"}}


@scenario(cases=NOT_FOR_UPGRADE)
def consumer_joins_a_classic_group(s, how):
    g, t = s.name("g"), topic(s)
    how = dict(how)
    parts = how.pop("assignment", assignment((t.name, [0])))
    (m,) = rebalanced(s, g, synced=False, **how)
    s.quiet("SyncGroup", 5, sync(g, 1, m.id, {m.id: parts}, type=how.get("type", "consumer"), protocol=next(iter(how.get("protocols", {"range": 0})))))
    s.send(HEARTBEAT, 1, beat(g, "m", topics=[t.name]))
    s.receive(HEARTBEAT, 1, timeout=1)
    s.call("ListGroups", 5, {})


@scenario(cases=["preparing", "completing"])
def consumer_joins_in_a_rebalance(s, state):
    g, t = s.name("g"), topic(s, partitions=2)
    protocols = {"range": subscription(t.name, version=3)}
    if state == "completing":
        members = rebalanced(s, g, 2, synced=False, protocols=protocols)
        s.send("SyncGroup", 5, sync(g, 2, members[1].id), conn="waits")
        s.quiet_for(0.3, conn="waits")
    else:
        members = rebalanced(s, g, 2, protocols=protocols)
        s.send("JoinGroup", 9, join(g, members[0].id, protocols=protocols), conn="waits")
        s.quiet_until(lambda a: a["Groups"][0]["GroupState"] == "PreparingRebalance", "DescribeGroups", 5, {"Groups": [g]})
    s.call(HEARTBEAT, 1, beat(g, "m", topics=[]))
    s.receive("SyncGroup" if state == "completing" else "JoinGroup", 5 if state == "completing" else 9, conn="waits", note="that waited")
    s.call("Heartbeat", 4, heartbeat(g, members[0].generation, members[0].id), note="of the first")
    s.call("Heartbeat", 4, heartbeat(g, members[1].generation, members[1].id), note="of the second")
    s.call("ListGroups", 5, {})


@scenario()
def static_member_moves_on(s):
    """A classic static member that comes back with the new protocol takes over."""
    g, t = s.name("g"), topic(s, partitions=2)
    members = classic(s, t, 2, instances=["i", "j"])
    s.call(HEARTBEAT, 1, beat(g, "m", topics=[t.name], instance="i"), note="takes the place of i")
    described(s, g)
    s.call("Heartbeat", 4, heartbeat(g, members[0].generation, members[0].id, "i"), note="of its old self")
    s.call("Heartbeat", 4, heartbeat(g, members[1].generation, members[1].id, "j"), note="of the other")


@scenario(cases={"while it is there": False, "after it left for a while": True})
def static_member_moves_back(s, left):
    g, t = s.name("g"), topic(s, partitions=2)
    protocols = {"range": subscription(t.name, version=3)}
    joined(s, g, "a", [t], instance="i")
    if left:
        s.call(HEARTBEAT, 1, beat(g, "a", -2, instance="i"))
    answer = s.call("JoinGroup", 9, join(g, instance="i", protocols=protocols))
    if answer["ErrorCode"] == 0:
        s.call("SyncGroup", 5, sync(g, answer["GenerationId"], answer["MemberId"], instance="i"))
    s.call("ListGroups", 5, {})
    s.call("DescribeGroups", 6, {"Groups": [g]})
    s.call(HEARTBEAT, 1, beat(g, "a", 2, instance="i"), note="of its old self")


@scenario(cases={"while it is there": False, "after it left for a while": True})
def static_member_moves_back_beside_another(s, left):
    g, t, u = s.name("g"), topic(s, "t"), topic(s, "u")
    protocols = {"range": subscription(t.name, version=3)}
    joined(s, g, "a", [t], instance="i")
    joined(s, g, "b", [u])
    if left:
        s.call(HEARTBEAT, 1, beat(g, "a", -2, instance="i"))
    answer = s.call("JoinGroup", 9, join(g, instance="i", protocols=protocols))
    if answer["ErrorCode"] == 0:
        s.call("SyncGroup", 5, sync(g, answer["GenerationId"], answer["MemberId"], instance="i"))
    described(s, g)
    s.call(HEARTBEAT, 1, beat(g, "a", 3, instance="i"), note="of its old self")


@scenario()
def static_classic_member_of_a_consumer_group(s):
    g, t = s.name("g"), topic(s, partitions=2)
    protocols = {"range": subscription(t.name, version=3)}
    joined(s, g, "a", [t])
    first = s.call("JoinGroup", 9, join(g, instance="i", protocols=protocols), note="joins")
    s.call("SyncGroup", 5, sync(g, first["GenerationId"], first["MemberId"], instance="i"))
    s.call("SyncGroup", 5, sync(g, first["GenerationId"], first["MemberId"], instance="k"), note="unknown instance")
    s.call("SyncGroup", 5, sync(g, first["GenerationId"], "other", instance="i"), note="other id")
    s.call("SyncGroup", 5, sync(g, first["GenerationId"] + 1, first["MemberId"], instance="i"), note="other generation")
    s.call("SyncGroup", 5, sync(g, first["GenerationId"], first["MemberId"], instance="i", protocol="sticky"), note="other protocol")
    s.call("SyncGroup", 5, sync(g, first["GenerationId"], first["MemberId"], instance="i", type="connect"), note="other type")
    second = s.call("JoinGroup", 9, join(g, instance="i", protocols=protocols), note="comes back")
    s.call("Heartbeat", 4, heartbeat(g, first["GenerationId"], first["MemberId"], "i"), note="of its old self")
    s.call("Heartbeat", 4, heartbeat(g, second["GenerationId"], second["MemberId"], "i"), note="of its new self")
    s.call("Heartbeat", 4, heartbeat(g, second["GenerationId"] + 1, second["MemberId"], "i"), note="other generation")
    s.call("LeaveGroup", 5, leave(g, ("", "i")))
    s.call("Heartbeat", 4, heartbeat(g, second["GenerationId"], second["MemberId"], "i"), note="after it left")


@scenario()
def session_of_a_classic_member(s):
    """Its own session timeout counts, as it told it."""
    g, t = s.name("g"), topic(s, partitions=2)
    (old,) = classic(s, t, session=600, assigned={0: [0, 1]})
    beaten(s, beat(g, "m", topics=[t.name]))
    s.quiet_until(lambda a: len(a["Groups"][0]["Members"]) == 1, "ConsumerGroupDescribe", 1, {"GroupIds": [g]})
    s.call("Heartbeat", 4, heartbeat(g, old.generation, old.id), note="late")
    described(s, g)


@scenario()
def full_group(s):
    """group.consumer.max.size counts members of both."""
    g, t = s.name("g"), topic(s, partitions=4)
    classic(s, t, 4)
    s.call(HEARTBEAT, 1, beat(g, "m1", topics=[t.name]))
    s.call(HEARTBEAT, 1, beat(g, "m2", topics=[t.name]))
    s.call("JoinGroup", 9, join(g, protocols={"range": subscription(t.name, version=3)}))


@scenario()
def partitions_that_do_not_exist(s):
    """Among those that the classic leader assigned."""
    g, t = s.name("g"), topic(s, partitions=2)
    classic(s, t, assigned={0: [0, 1, 2, 3]})
    s.call(HEARTBEAT, 1, beat(g, "m", topics=[t.name]))
    s.call("ListGroups", 5, {})


@scenario()
def full_classic_group(s):
    g, t = s.name("g"), topic(s, partitions=2)
    classic(s, t, 5)
    s.call(HEARTBEAT, 1, beat(g, "m1", topics=[t.name]))
    s.call("ListGroups", 5, {})


@scenario()
def consumer_beat_of_a_classic_member(s):
    g, t = s.name("g"), topic(s)
    (old,) = classic(s, t)
    s.call(HEARTBEAT, 1, beat(g, old.id, 1), note="in a classic group")
    s.call(HEARTBEAT, 1, beat(g, old.id, -1), note="leaves a classic group")
    s.call("ConsumerGroupDescribe", 1, {"GroupIds": [g]})
    s.call(HEARTBEAT, 1, beat(g, "m", topics=[]), note="another converts it")
    s.call(HEARTBEAT, 1, beat(g, old.id, 1), note="in a consumer group")
    s.call(HEARTBEAT, 1, beat(g, old.id, topics=[t.name]), note="joins under its classic id")
    described(s, g)
