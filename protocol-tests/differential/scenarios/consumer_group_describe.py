"""ConsumerGroupDescribe: groups of the consumer protocol in each state. Version 1 brought the type of each member."""

from groups import beat, beaten, committed, join, joined, learnt, rebalanced, subscription, topic
from kafka_wire.messages import Counted
from scenario import scenario

API = "ConsumerGroupDescribe"


def ask(*groups, operations=False):
    return {"GroupIds": list(groups), "IncludeAuthorizedOperations": operations}


@scenario("0-1", cases={"plain": False, "with operations": True})
def each_state(s, v, operations):
    g, t = s.name("g"), topic(s, "t", partitions=2)
    epoch = joined(s, g, s.name("m1"), [t], RackId="r", instance="i")
    s.call(API, v, ask(g, operations=operations), note="stable")
    beaten(s, beat(g, s.name("m2"), topics=[t.name]))
    s.call(API, v, ask(g, operations=operations), note="reconciling")
    beaten(s, beat(g, s.name("m2"), -1))
    beaten(s, beat(g, s.name("m1"), epoch, instance="i"))
    beaten(s, beat(g, s.name("m1"), -1, instance="i"))
    s.call(API, v, ask(g, operations=operations), note="empty")


@scenario("0-1", cases={"plain": False, "with operations": True})
def unknown_group(s, v, operations):
    s.call(API, v, ask(s.name("g"), operations=operations))


@scenario("0-1")
def empty_group_id(s, v):
    committed(s, "", (s.topic(), 0, 1))
    s.call(API, v, ask(""))
    s.call(API, v, ask("", s.name("g")))


@scenario("0-1")
def classic_groups(s, v):
    for suffix in ("stable", "empty", "offsets", "connect"):
        g = s.name(suffix)
        if suffix == "offsets":
            committed(s, g, (s.topic(), 0, 1))
        elif suffix == "empty":
            s.quiet("JoinGroup", 9, join(g))
        else:
            rebalanced(s, g, type="consumer" if suffix == "stable" else suffix)
        s.call(API, v, ask(g), note=suffix)


@scenario("0-1")
def several(s, v):
    t = s.topic()
    for name in "abc":
        learnt(s, s.name(name), t)
        joined(s, s.name(name), s.name("m"), [t])
    s.call(API, v, ask(s.name("c"), s.name("none"), s.name("a"), "", s.name("b")))


@scenario("0-1")
def same_group_twice(s, v):
    joined(s, s.name("g"), s.name("m"), [topic(s)])
    s.call(API, v, ask(s.name("g"), s.name("g")))
    s.call(API, v, ask(s.name("x"), s.name("x")), note="unknown")


@scenario("0-1")
def no_groups(s, v):
    s.call(API, v, ask())


@scenario("0-1")
def deleted_topic(s, v):
    """What is assigned of it is no longer told."""
    g, t, u = s.name("g"), topic(s, "t"), topic(s, "u")
    joined(s, g, s.name("m"), [t, u])
    s.quiet("DeleteTopics", 6, {"Topics": [{"Name": t.name}], "TimeoutMs": 10000})
    s.gone()
    s.until(lambda a: len(a["Groups"][0]["Members"][0]["Assignment"]["TopicPartitions"]) == 1, API, v, ask(g))


@scenario("0-1")
def both_protocols(s, v):
    """A group with members of either, each with a topic of its own."""
    g, t, u = s.name("g"), topic(s, "t"), topic(s, "u")
    rebalanced(s, g, protocols={"range": subscription(t.name, version=3)})
    beaten(s, beat(g, "m", topics=[u.name]))
    s.call(API, v, ask(g))


@scenario("0-1", cases={"groups": {"GroupIds": None}, "group": {"GroupIds": [None]}})
def null_for(s, v, what):
    s.call(API, v, ask() | what)


@scenario([0, 1], cases=[-2, 4])
def wrong_count(s, v, count):
    s.call(API, v, ask() | {"GroupIds": Counted(count, [])})


@scenario("0-1")
def unknown_tags(s, v):
    s.call(API, v, ask(s.name("g")) | {"_tags": [(4, b"x")]})
