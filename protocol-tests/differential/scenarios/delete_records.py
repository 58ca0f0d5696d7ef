"""DeleteRecords: moves the start of a log."""

import time

from bodies import fetch, list_offsets_of, produce
from kafka_wire.batches import batch
from kafka_wire.messages import Counted
from scenario import scenario


def ask(*parts, timeout_ms=5000):
    """parts: (name, partition, offset); neighbours of one name together."""
    topics = []
    for name, partition, offset in parts:
        if not topics or topics[-1]["Name"] != name:
            topics.append({"Name": name, "Partitions": []})
        topics[-1]["Partitions"].append({"PartitionIndex": partition, "Offset": offset})
    return {"Topics": topics, "TimeoutMs": timeout_ms}


def filled(s, suffix="t", batches=5, **settings):
    t = s.topic(suffix, **settings)
    for i in range(batches):
        s.quiet("Produce", 9, produce(t, batch(b"a", b"b")))
    return t


def bounds(s, t):
    s.call("ListOffsets", 7, list_offsets_of((t, 0, -2)), note="start")
    s.call("ListOffsets", 7, list_offsets_of((t, 0, -1)), note="end")


@scenario("0-2", cases={"start": 0, "inside a batch": 3, "at a batch": 4, "last": 9, "end": 10, "all": -1})
def up_to(s, v, offset):
    t = filled(s)
    s.call("DeleteRecords", v, ask((t.name, 0, offset)))
    bounds(s, t)
    s.call("Fetch", 11, fetch(t, max(offset, 0)))


@scenario("0-2", cases={"past the end": 11, "far": 1 << 50, "minus two": -2, "lowest": -(1 << 63), "highest": (1 << 63) - 1})
def out_of_range(s, v, offset):
    t = filled(s)
    s.call("DeleteRecords", v, ask((t.name, 0, offset)))
    bounds(s, t)


@scenario("0-2", cases=[0, -1, 1])
def of_an_empty_partition(s, v, offset):
    t = s.topic()
    s.call("DeleteRecords", v, ask((t.name, 0, offset)))
    bounds(s, t)


@scenario("0-2")
def backwards(s, v):
    """Succeeds, and changes nothing."""
    t = filled(s)
    s.call("DeleteRecords", v, ask((t.name, 0, 6)))
    s.call("DeleteRecords", v, ask((t.name, 0, 2)))
    s.call("DeleteRecords", v, ask((t.name, 0, 6)))
    bounds(s, t)


@scenario("0-2")
def all_then_more(s, v):
    t = filled(s, batches=2)
    s.call("DeleteRecords", v, ask((t.name, 0, -1)))
    s.quiet("Produce", 9, produce(t, batch(b"later")))
    s.call("Fetch", 11, fetch(t, 4))
    s.call("DeleteRecords", v, ask((t.name, 0, -1)))
    bounds(s, t)


@scenario("0-2")
def unknown_topic(s, v):
    s.call("DeleteRecords", v, ask((s.name("unknown"), 0, 0)))


@scenario("0-2", cases=[1, -1, 2147483647])
def unknown_partition(s, v, partition):
    t = filled(s)
    s.call("DeleteRecords", v, ask((t.name, partition, 0)))


@scenario("0-2")
def partial_failure(s, v):
    t, u = filled(s, "t", partitions=2), filled(s, "u", 1)
    s.call("DeleteRecords", v, ask((t.name, 0, 4), (t.name, 1, 5), (t.name, 7, 0), (s.name("unknown"), 0, 0), (u.name, 0, 1), (u.name, 1, 1)))


@scenario("0-2")
def same_partition_twice(s, v):
    t = filled(s)
    s.call("DeleteRecords", v, ask((t.name, 0, 2), (t.name, 0, 6)))
    bounds(s, t)


@scenario("0-2")
def same_topic_twice(s, v):
    t = filled(s, partitions=2)
    body = {"Topics": [{"Name": t.name, "Partitions": [{"PartitionIndex": 0, "Offset": 2}]},
                       {"Name": t.name, "Partitions": [{"PartitionIndex": 1, "Offset": 0}]}], "TimeoutMs": 5000}
    s.call("DeleteRecords", v, body)


@scenario("0-2")
def no_topics(s, v):
    s.call("DeleteRecords", v, ask())


@scenario("0-2")
def topic_without_partitions(s, v):
    t = filled(s)
    s.call("DeleteRecords", v, {"Topics": [{"Name": t.name, "Partitions": []}], "TimeoutMs": 1000})


@scenario("0-2")
def compacted_topic(s, v):
    """Only what may be deleted may be deleted."""
    t = s.topic(cleanup_policy="compact")
    s.call("DeleteRecords", v, ask((t.name, 0, 0)))


@scenario("0-2")
def compacted_and_deleted_topic(s, v):
    t = s.topic(cleanup_policy="compact,delete")
    s.call("DeleteRecords", v, ask((t.name, 0, 0)))


@scenario("0-2")
def internal_topic(s, v):
    s.quiet_until(lambda a: not a["Topics"][0]["ErrorCode"], "Metadata", 12,
                  {"Topics": [{"Name": "__consumer_offsets"}], "AllowAutoTopicCreation": True})
    s.call("DeleteRecords", v, ask(("__consumer_offsets", 0, 0)))


@scenario("0-2", cases={"empty": "", "invalid": "a b", "dot": "."})
def odd_name(s, v, name):
    s.call("DeleteRecords", v, ask((name, 0, 0)))


@scenario([0, 2], cases=[0, -1, 1])
def timeout(s, v, timeout_ms):
    t = filled(s)
    s.call("DeleteRecords", v, ask((t.name, 0, 3), timeout_ms=timeout_ms))


@scenario([0, 2])
def over_segments(s, v):
    t = s.topic(segment_bytes=1 << 20)
    for _ in range(6):
        s.quiet("Produce", 9, produce(t, batch(bytes(400000))))
    s.call("DeleteRecords", v, ask((t.name, 0, 3)))
    bounds(s, t)
    s.call("Fetch", 11, fetch(t, 3, max_bytes=1))


@scenario([0, 2])
def wait_below_the_new_start(s, v):
    """Whether a fetch that waits below the new start is told at once."""
    t = filled(s)
    s.send("Fetch", 11, fetch(t, 2, max_wait_ms=1500, min_bytes=100000))
    s.quiet_for(0.1)
    start = time.monotonic()
    s.call("DeleteRecords", v, ask((t.name, 0, 8)), conn=1)
    s.receive("Fetch", 11)
    s.record("at once", time.monotonic() - start < 0.7)


@scenario("0-2", cases={"topics": {"Topics": None}, "name": {"Topics": [{"Name": None, "Partitions": []}]},
                        "partitions": {"Topics": [{"Name": "x", "Partitions": None}]}})
def null_for(s, v, what):
    s.call("DeleteRecords", v, ask() | what)


@scenario("0-2", cases=[-2, 4])
def wrong_count(s, v, count):
    s.call("DeleteRecords", v, ask() | {"Topics": Counted(count, [])})


@scenario([2])
def unknown_tags(s, v):
    t = filled(s)
    s.call("DeleteRecords", v, ask((t.name, 0, 1)) | {"_tags": [(1, b"x")]})


@scenario([0, 2])
def after_the_topic_is_deleted(s, v):
    t = filled(s)
    s.quiet("DeleteTopics", 6, {"Topics": [{"Name": t.name}], "TimeoutMs": 10000})
    s.gone()
    s.call("DeleteRecords", v, ask((t.name, 0, 1)))
