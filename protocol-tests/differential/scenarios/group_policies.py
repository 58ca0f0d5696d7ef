"""What settings of the broker forbid groups: conversions between the protocols (`group.consumer.migration.policy`), and protocols
altogether (`group.coordinator.rebalance.protocols`)."""

from groups import beat, beaten, commit, committed, heartbeat, join, joined, leave, offsets, rebalanced, topic
from scenario import scenario
from scenarios.group_migration import HEARTBEAT, classic


def of_each_policy(function):
    """A scenario on a broker of each policy."""
    for policy in ("disabled", "upgrade", "downgrade", "BIDIRECTIONAL"):
        scenario(cases=[policy], settings={"group.consumer.migration.policy": policy})(function)
    return function


@of_each_policy
def conversions(s, policy):
    """All of them, as far as they are let."""
    t = topic(s)
    (old,) = classic(s, t)
    s.call(HEARTBEAT, 1, beat(s.name("g"), "m", topics=[]), note="joins a classic group")
    s.call("Heartbeat", 4, heartbeat(s.name("g"), 1, old.id), note="of the classic member")
    s.call(HEARTBEAT, 1, beat(s.name("g"), "m", -1), note="leaves it")
    s.call("ListGroups", 5, {})
    s.call("Heartbeat", 4, heartbeat(s.name("g"), 1, old.id), note="of the classic member")
    g = s.name("h")
    s.call(HEARTBEAT, 1, beat(g, "m", topics=[]), note="makes a consumer group")
    answer = s.call("JoinGroup", 9, join(g), note="joins it")
    if answer["ErrorCode"] == 79:
        s.call("JoinGroup", 9, join(g, answer["MemberId"]), note="joins it with its id")
    s.call("JoinGroup", 3, join(g), note="joins it by an old version")
    s.call(HEARTBEAT, 1, beat(g, "m", -1), note="leaves it")
    s.call("ListGroups", 5, {})
    s.send("JoinGroup", 3, join(g), conn="rest")
    s.receive("JoinGroup", 3, conn="rest", note="joins the rest", timeout=1)
    s.call("ListGroups", 5, {}, note="in the end")


@of_each_policy
def empty_groups(s, policy):
    t = s.topic()
    committed(s, s.name("g"), (t, 0, 1))
    s.call(HEARTBEAT, 1, beat(s.name("g"), "m", topics=[]), note="joins a group of offsets")
    s.call(HEARTBEAT, 1, beat(s.name("g"), "m", -1))
    s.call("JoinGroup", 3, join(s.name("g")), note="joins an empty consumer group")
    s.call("ListGroups", 5, {})


@scenario(settings={"group.coordinator.rebalance.protocols": "classic"})
def classic_only(s):
    g, t = s.name("g"), s.topic()
    s.call(HEARTBEAT, 1, beat(g, "m", topics=[t.name]))
    s.call(HEARTBEAT, 1, beat(g, "", topics=[t.name]), note="that is wrong as well")
    s.call("ConsumerGroupDescribe", 1, {"GroupIds": [g, ""]})
    s.call("ApiVersions", 2, {}, without=["ApiKeys"])
    s.call("JoinGroup", 3, join(g))
    s.call("ListGroups", 5, {"TypesFilter": ["consumer"]})


OLD_RETENTION = {"offsets.retention.check.interval.ms": "100"}


@scenario("2-4", settings=OLD_RETENTION)
def offsets_that_expire(s, v):
    """With the time that old versions can name; the group goes with the last of them."""
    g, t = s.name("g"), s.topic(partitions=2)
    s.call("OffsetCommit", v, commit(g, (t, 0, 1), RetentionTimeMs=300))
    s.call("OffsetCommit", v, commit(g, (t, 1, 2), RetentionTimeMs=-1))
    s.quiet_until(lambda a: len(a["Groups"][0]["Topics"][0]["Partitions"]) == 1, "OffsetFetch", 9, offsets(g, every=True))
    s.call("OffsetFetch", 9, offsets(g, every=True))
    s.call("OffsetCommit", v, commit(g, (t, 1, 3), RetentionTimeMs=0))
    s.quiet_until(lambda a: a["Groups"][0]["ErrorCode"] == 69, "DescribeGroups", 6, {"Groups": [g]})
    s.call("DescribeGroups", 6, {"Groups": [g]})


@scenario("2-4", settings=OLD_RETENTION)
def offsets_of_members_expire(s, v):
    """But not of the topics that they read."""
    g, t, u = s.name("g"), s.topic("t"), s.topic("u")
    (m,) = classic(s, t, instances=["i"])  # one to whom an id is handed out first may find its empty group gone
    s.call("OffsetCommit", v, commit(g, (t, 0, 1), (u, 0, 2), member=m.id, generation=1, RetentionTimeMs=300))
    s.quiet_until(lambda a: len(a["Groups"][0]["Topics"]) == 1, "OffsetFetch", 9, offsets(g, every=True))
    s.call("OffsetFetch", 9, offsets(g, every=True))
    s.call("DescribeGroups", 5, {"Groups": [g]})


@scenario([4], settings=OLD_RETENTION)
def groups_without_offsets_go(s, v):
    g, t = s.name("g"), topic(s)
    (m,) = rebalanced(s, g, instances=["i"])
    s.quiet("LeaveGroup", 5, leave(g, (m.id,)))
    s.quiet_until(lambda a: a["Groups"][0]["ErrorCode"] == 69, "DescribeGroups", 6, {"Groups": [g]})
    h = s.name("h")
    joined(s, h, "m", [t])
    beaten(s, beat(h, "m", -1))
    s.quiet_until(lambda a: a["Groups"][0]["ErrorCode"] == 69, "ConsumerGroupDescribe", 1, {"GroupIds": [h]})
    s.call("ListGroups", 5, {})
