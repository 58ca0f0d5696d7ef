"""ListGroups: all groups of the broker, of which only the scenario's own are looked at. Filter by state from version 4, by type from 5."""

from groups import beat, beaten, committed, join, joined, rebalanced, subscription
from kafka_wire.messages import Counted
from scenario import scenario
from scenarios.describe_groups import ask as describe

API = "ListGroups"


def every_kind(s):
    """One group of each."""
    t = s.topic()
    s.quiet("JoinGroup", 9, join(s.name("handed-out")))
    committed(s, s.name("offsets"), (t, 0, 1))
    rebalanced(s, s.name("stable"))
    rebalanced(s, s.name("connect"), type="connect", protocols={"x": b""})
    rebalanced(s, s.name("completing"), synced=False)
    members = rebalanced(s, s.name("preparing"), 2)
    s.send("JoinGroup", 9, join(s.name("preparing"), members[0].id), conn="joins")
    s.quiet_until(lambda a: a["Groups"][0]["GroupState"] == "PreparingRebalance", "DescribeGroups", 5, describe(s.name("preparing")))
    joined(s, s.name("new-stable"), s.name("m"), [t])
    joined(s, s.name("new-empty"), s.name("m"), [t])
    beaten(s, beat(s.name("new-empty"), s.name("m"), -1))
    epoch = joined(s, s.name("reconciling"), s.name("m"), [t])
    beaten(s, beat(s.name("reconciling"), s.name("m"), epoch, topics=[]))
    rebalanced(s, s.name("both"), protocols={"range": subscription(t.name, version=3)})
    beaten(s, beat(s.name("both"), s.name("m"), topics=[t.name]))


@scenario("0-5")
def all_of_them(s, v):
    every_kind(s)
    s.call(API, v, {})


STATES = {"stable": ["Stable"], "empty": ["Empty"], "preparing": ["PreparingRebalance"], "completing": ["CompletingRebalance"], "dead": ["Dead"], "reconciling": ["Reconciling"],
          "assigning": ["Assigning"], "two": ["Empty", "Stable"], "small": ["stable"], "capitals": ["STABLE", "EMPTY"], "unknown": ["Nope"], "unknown and known": ["Nope", "Empty"],
          "twice": ["Stable", "Stable"], "empty name": [""], "spaces": [" Stable "], "unknown state": ["Unknown"], "spelt otherwise": ["preparing_rebalance"], "not ready": ["NotReady"]}


@scenario("4-5", cases=STATES)
def states(s, v, states):
    every_kind(s)
    s.call(API, v, {"StatesFilter": states})


TYPES = {"classic": ["classic"], "consumer": ["consumer"], "both": ["classic", "consumer"], "capitals": ["CLASSIC"], "mixed": ["Consumer"], "unknown": ["nope"], "unknown and known": ["nope", "classic"],
         "share": ["share"], "streams": ["streams"], "empty name": [""], "unknown type": ["unknown"], "twice": ["classic", "classic"]}


@scenario([5], cases=TYPES)
def types(s, v, types):
    every_kind(s)
    s.call(API, v, {"TypesFilter": types})


@scenario([5])
def states_and_types(s, v):
    every_kind(s)
    s.call(API, v, {"TypesFilter": ["consumer"], "StatesFilter": ["stable"]})
    s.call(API, v, {"TypesFilter": ["classic"], "StatesFilter": ["Empty", "Reconciling"]})


@scenario("0-5")
def after_deletion(s, v):
    committed(s, s.name("g"), (s.topic(), 0, 1))
    s.call(API, v, {})
    s.quiet("DeleteGroups", 2, {"GroupsNames": [s.name("g")]})
    s.call(API, v, {}, note="afterwards")


@scenario("0-5")
def unknown_member_makes_no_group(s, v):
    s.quiet("JoinGroup", 9, join(s.name("a"), "stranger"))
    s.quiet("JoinGroup", 9, join(s.name("b"), type=""))
    s.quiet("JoinGroup", 9, join(s.name("c"), session=1))
    s.quiet("ConsumerGroupHeartbeat", 1, beat(s.name("d"), "m", 1))
    s.quiet("OffsetCommit", 9, {"GroupId": s.name("e"), "GenerationIdOrMemberEpoch": 1, "Topics": []})
    s.quiet("OffsetCommit", 9, {"GroupId": s.name("f"), "Topics": []})
    s.quiet("ConsumerGroupHeartbeat", 1, beat(s.name("h"), "m", topics=["x"], ServerAssignor="nope"))
    s.quiet("ConsumerGroupHeartbeat", 1, beat(s.name("i"), "m", topics=[], SubscribedTopicRegex="("))
    s.call(API, v, {})


@scenario("4-5", cases={"states": {"StatesFilter": None}, "state": {"StatesFilter": [None]}})
def null_for(s, v, what):
    s.call(API, v, what)


@scenario([5], cases={"types": {"TypesFilter": None}, "type": {"TypesFilter": [None]}})
def null_type_for(s, v, what):
    s.call(API, v, what)


@scenario([4, 5], cases=[-2, 4])
def wrong_count(s, v, count):
    s.call(API, v, {"StatesFilter": Counted(count, [])})


@scenario("3-5")
def unknown_tags(s, v):
    s.call(API, v, {"_tags": [(4, b"x")]})
