"""Names in the requests of groups that are no text, or odd text: groups, members, instances, protocols, metadata."""

from groups import beat, commit, heartbeat, join, leave, offsets
from kafka_wire.primitives import ZERO_UUID
from scenario import Topic, scenario
from scenarios.encodings import NOT_TEXT, TEXT

ODD = NOT_TEXT | TEXT


def raw(s, name):
    """A name of the scenario's own that ends in these bytes."""
    return s.prefix.encode() + (name if isinstance(name, bytes) else name.encode())


@scenario([0, 5, 9], cases=ODD)
def classic_group(s, v, name):
    s.call("JoinGroup", v, join(raw(s, name)))
    s.call("ListGroups", 5, {})
    s.call("DescribeGroups", 6, {"Groups": [raw(s, name)]})
    s.call("DeleteGroups", 2, {"GroupsNames": [raw(s, name)]})


@scenario([5, 9], cases=ODD)
def instance(s, v, name):
    g = s.name("g")
    member = s.call("JoinGroup", v, join(g, instance=raw(s, name)))["MemberId"]
    s.call("Heartbeat", 4, heartbeat(g, 1, member, raw(s, name)))
    s.call("LeaveGroup", 5, leave(g, ("", raw(s, name))))


@scenario([0, 9], cases=ODD)
def protocol(s, v, name):
    g = s.name("g")
    body = join(g, instance="i" if v >= 5 else None, type=raw(s, name), protocols={raw(s, name): b"x"})
    s.call("JoinGroup", v, body)
    s.call("ListGroups", 5, {})


@scenario([0, 9], cases=ODD)
def client_id(s, v, name):
    s.call("JoinGroup", v, join(s.name("g")), client_id=raw(s, name))


@scenario([2, 8, 9], cases=ODD)
def metadata(s, v, text):
    g, t = s.name("g"), s.topic()
    s.call("OffsetCommit", v, commit(g, (t, 0, 1, text)))
    s.call("OffsetFetch", 9, offsets(g, (t, [0])))


@scenario([2, 9], cases=ODD)
def committed_group(s, v, name):
    t = s.topic()
    s.call("OffsetCommit", v, commit(raw(s, name), (t, 0, 1)))
    s.call("OffsetFetch", 9, offsets(raw(s, name), every=True))
    s.call("OffsetFetch", 7, offsets(raw(s, name), (t, [0])))


@scenario([2, 9], cases=ODD)
def topic(s, v, name):
    odd = Topic(raw(s, name), ZERO_UUID)
    s.call("OffsetCommit", v, commit(s.name("g"), (odd, 0, 1)))
    s.call("OffsetFetch", 9, offsets(s.name("g"), (odd, [0])))
    s.call("OffsetDelete", 0, {"GroupId": s.name("g"), "Topics": [{"Name": raw(s, name), "Partitions": [{"PartitionIndex": 0}]}]})


@scenario([1], cases=ODD)
def consumer_group(s, v, name):
    s.call("ConsumerGroupHeartbeat", v, beat(raw(s, name), raw(s, name), topics=[raw(s, name)], instance=raw(s, name), RackId=raw(s, name)))
    s.call("ConsumerGroupDescribe", 1, {"GroupIds": [raw(s, name)]})
    s.call("ConsumerGroupHeartbeat", v, beat(raw(s, name), raw(s, name), -1))


@scenario([1], cases=ODD)
def assignor(s, v, name):
    s.call("ConsumerGroupHeartbeat", v, beat(s.name("g"), "m", topics=[], ServerAssignor=name))


@scenario([1], cases=ODD)
def expression(s, v, name):
    s.call("ConsumerGroupHeartbeat", v, beat(s.name("g"), "m", topics=[], SubscribedTopicRegex=raw(s, name)))
    s.call("ConsumerGroupDescribe", 1, {"GroupIds": [s.name("g")]})
