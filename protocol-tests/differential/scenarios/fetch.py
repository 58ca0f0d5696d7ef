"""Fetch: positions, limits, waiting, and what cannot be fetched. Sessions are in fetch_sessions.py."""

import time

from bodies import fetch, fetch_from, produce
from kafka_wire import codecs
from kafka_wire.batches import Record, batch
from kafka_wire.messages import Counted
from kafka_wire.primitives import ZERO_UUID
from scenario import Topic, scenario

MADE_UP = "bm8tc3VjaC10b3BpYy1pZA"


def filled(s, suffix="t", batches=5, size=10, **settings):
    """A topic with `batches` batches of two records each: offsets 0, 2, 4, …"""
    t = s.topic(suffix, **settings)
    for i in range(batches):
        s.quiet("Produce", 9, produce(t, batch(b"%d" % i * size, Record(b"x", b"k"))))
    return t


def unknown(s):
    return Topic(s.name("unknown"), s.literal(MADE_UP))


@scenario("4-18")
def from_the_start(s, v):
    s.call("Fetch", v, fetch(filled(s)))


@scenario("4-18", cases={"inside a batch": 3, "at a batch": 4, "last": 9, "at the end": 10})
def from_offset(s, v, offset):
    """The whole batch comes, also where the offset is inside it."""
    s.call("Fetch", v, fetch(filled(s), offset))


@scenario("4-18", cases={"one past the end": 11, "far past the end": 1 << 40, "highest": (1 << 63) - 1, "minus one": -1, "minus two": -2, "lowest": -(1 << 63)})
def out_of_range(s, v, offset):
    s.call("Fetch", v, fetch(filled(s, batches=2), offset))


@scenario("4-18")
def empty_partition(s, v):
    t = s.topic()
    s.call("Fetch", v, fetch(t))
    s.call("Fetch", v, fetch(t, 1))


@scenario([4, 9, 11, 12, 13, 18])
def below_the_start_of_the_log(s, v):
    t = filled(s)
    ask = {"Topics": [{"Name": t.name, "Partitions": [{"PartitionIndex": 0, "Offset": 5}]}], "TimeoutMs": 5000}
    s.quiet("DeleteRecords", 2, ask)
    s.call("Fetch", v, fetch(t, 0))
    s.call("Fetch", v, fetch(t, 4))
    s.call("Fetch", v, fetch(t, 5))


@scenario("4-18")
def unknown_topic(s, v):
    t = filled(s, batches=1)
    s.call("Fetch", v, fetch_from((unknown(s), 0, 0), (t, 0, 0)))


@scenario("4-18", cases=[1, 5, -1, 2147483647, -2147483648])
def unknown_partition(s, v, partition):
    s.call("Fetch", v, fetch(filled(s, batches=1), partition=partition))


@scenario("13-18")
def made_up_ids(s, v):
    t = filled(s, batches=1)
    s.call("Fetch", v, fetch_from((Topic("", s.literal(MADE_UP)), 0, 0), (t, 0, 0), (Topic("", ZERO_UUID), 0, 0)))


@scenario("13-18")
def id_of_a_deleted_topic(s, v):
    t = filled(s, batches=1)
    s.quiet("DeleteTopics", 6, {"Topics": [{"Name": t.name}], "TimeoutMs": 10000})
    s.gone()
    s.call("Fetch", v, fetch(t))


@scenario([4, 11, 12], cases={"empty": "", "invalid": "a b", "long": "x" * 300})
def odd_name(s, v, name):
    s.call("Fetch", v, fetch(Topic(name, ZERO_UUID)))


@scenario("4-18")
def no_topics(s, v):
    s.call("Fetch", v, fetch_from())


@scenario("4-18")
def no_topics_but_waiting(s, v):
    s.call("Fetch", v, fetch_from(max_wait_ms=300))


@scenario("4-18")
def topic_without_partitions(s, v):
    t = s.topic()
    s.call("Fetch", v, fetch_from() | {"Topics": [{"Topic": t.name, "TopicId": t.id, "Partitions": []}]})


@scenario("4-18")
def several_partitions_and_topics(s, v):
    t, u = s.topic("t", partitions=3), filled(s, "u", 1)
    for p in range(3):
        s.quiet("Produce", 9, produce(t, batch(b"in %d" % p), partition=p))
    s.call("Fetch", v, fetch_from((t, 2, 0), (t, 0, 0), (u, 0, 0), (unknown(s), 3, 0)))


@scenario("4-18")
def partial_failure(s, v):
    t = filled(s, batches=2, partitions=2)
    s.call("Fetch", v, fetch_from((t, 0, 0), (t, 1, 0), (t, 7, 0), (t, 1, 99), (unknown(s), 0, 0)))


@scenario("4-18")
def same_partition_twice(s, v):
    t = filled(s)
    s.call("Fetch", v, fetch_from((t, 0, 0), (t, 0, 4)))


@scenario([4, 7, 12, 13, 18])
def same_topic_twice(s, v):
    t = filled(s, partitions=2)
    s.call("Fetch", v, fetch_from((t, 0, 0), (Topic(t.name, t.id), 1, 0)))


# --- limits


@scenario([4, 7, 12, 13, 18], cases=[0, 1, 60, 100, 200, 250, -1, -2147483648])
def partition_max_bytes(s, v, most):
    """The first batch comes whole, however small the limit; behind it, what fits, and in part."""
    s.call("Fetch", v, fetch(filled(s), max_bytes=most))


@scenario([4, 7, 12, 13, 18], cases=[0, 1, 100, 250, -1])
def max_bytes(s, v, most):
    s.call("Fetch", v, fetch(filled(s)) | {"MaxBytes": most})


@scenario([4, 7, 13, 18], cases=[0, 1, 130, 300])
def max_bytes_over_partitions(s, v, most):
    t = s.topic(partitions=3)
    for p in range(3):
        for _ in range(3):
            s.quiet("Produce", 9, produce(t, batch(b"in %d" % p * 3), partition=p))
    s.call("Fetch", v, fetch_from((t, 0, 0), (t, 1, 0), (t, 2, 0)) | {"MaxBytes": most})


@scenario([4, 13, 18])
def first_partition_empty_then_a_batch_larger_than_the_limit(s, v):
    t = s.topic(partitions=2)
    s.quiet("Produce", 9, produce(t, batch(bytes(1000)), partition=1))
    s.call("Fetch", v, fetch_from((t, 0, 0), (t, 1, 0, {"PartitionMaxBytes": 10})))


@scenario([4, 13, 18])
def two_batches_larger_than_their_limits(s, v):
    t = s.topic(partitions=2)
    for p in (0, 1):
        s.quiet("Produce", 9, produce(t, batch(bytes(1000)), partition=p))
    s.call("Fetch", v, fetch_from((t, 0, 0, {"PartitionMaxBytes": 10}), (t, 1, 0, {"PartitionMaxBytes": 10})))
    s.call("Fetch", v, fetch_from((t, 1, 0, {"PartitionMaxBytes": 10}), (t, 0, 0, {"PartitionMaxBytes": 10})))


@scenario([4, 18])
def large_batches(s, v):
    t = s.topic()
    for i in range(3):
        s.quiet("Produce", 9, produce(t, batch(bytes(300000))))
    s.call("Fetch", v, fetch(t))
    s.call("Fetch", v, fetch(t, max_bytes=700000))


@scenario([4, 10, 18])
def across_segments(s, v):
    """One answer holds of one segment only."""
    t = s.topic(segment_bytes=1 << 20)
    for i in range(4):
        s.quiet("Produce", 9, produce(t, batch(bytes(400000))))
    for offset in range(5):
        s.call("Fetch", v, fetch(t, offset, max_bytes=10 << 20))


# --- waiting


@scenario("4-18")
def waits_for_the_first_record(s, v):
    t = s.topic()
    s.send("Fetch", v, fetch(t, max_wait_ms=5000))
    s.quiet_for(0.1)
    s.quiet("Produce", 9, produce(t, batch(b"at last")))
    s.receive("Fetch", v)


@scenario([4, 7, 13, 18])
def waits_for_enough(s, v):
    """Until there are min bytes."""
    t = s.topic()
    one = batch(b"x" * 39)  # 107 bytes
    s.send("Fetch", v, fetch(t, max_wait_ms=5000, min_bytes=2 * len(one)))
    s.quiet("Produce", 9, produce(t, one))
    s.quiet_for(0.1)
    s.quiet("Produce", 9, produce(t, one))
    s.receive("Fetch", v)


@scenario([4, 7, 13, 18])
def waits_no_longer_than_told(s, v):
    t = filled(s, batches=1)
    start = time.monotonic()
    s.call("Fetch", v, fetch(t, max_wait_ms=300, min_bytes=10000))
    s.record("waited", 0.28 < time.monotonic() - start < 3)


@scenario([4, 7, 13, 18], cases={"no wait": dict(max_wait_ms=0, min_bytes=10000), "no minimum": dict(max_wait_ms=5000, min_bytes=0),
                                 "negative minimum": dict(max_wait_ms=5000, min_bytes=-1), "negative wait": dict(max_wait_ms=-1, min_bytes=1000)})
def does_not_wait(s, v, how):
    t = filled(s, batches=1)
    start = time.monotonic()
    s.call("Fetch", v, fetch(t, 2, **how))
    s.record("at once", time.monotonic() - start < 1)


@scenario([4, 7, 13, 18], cases={"out of range": (0, 99), "unknown partition": (5, 0)})
def error_ends_the_wait(s, v, which):
    partition, offset = which
    t = filled(s, batches=1, partitions=2)
    start = time.monotonic()
    s.call("Fetch", v, fetch_from((t, 1, 0), (t, partition, offset), max_wait_ms=1500))
    s.record("at once", time.monotonic() - start < 1)


@scenario([4, 12, 18])
def unknown_topic_ends_the_wait(s, v):
    t = s.topic()
    start = time.monotonic()
    s.call("Fetch", v, fetch_from((t, 0, 0), (unknown(s), 0, 0), max_wait_ms=1500))
    s.record("at once", time.monotonic() - start < 1)


@scenario([4, 13, 18])
def waits_on_several_partitions(s, v):
    t, u = s.topic("t", partitions=2), s.topic("u")
    s.send("Fetch", v, fetch_from((t, 0, 0), (t, 1, 0), (u, 0, 0), max_wait_ms=5000))
    s.quiet_for(0.1)
    s.quiet("Produce", 9, produce(u, batch(b"in u")))
    s.receive("Fetch", v)


@scenario([4, 13, 18])
def two_wait_for_one_record(s, v):
    t = s.topic()
    for conn in (0, 1):
        s.send("Fetch", v, fetch(t, max_wait_ms=5000), conn=conn)
    s.quiet_for(0.1)
    s.quiet("Produce", 9, produce(t, batch(b"for both")))
    for conn in (0, 1):
        s.receive("Fetch", v, conn=conn)


@scenario([4, 13, 18])
def topic_deleted_while_waiting(s, v):
    t = s.topic()
    s.send("Fetch", v, fetch(t, max_wait_ms=3000))
    s.quiet_for(0.1)
    s.quiet("DeleteTopics", 6, {"Topics": [{"Name": t.name}], "TimeoutMs": 10000})
    s.receive("Fetch", v)


@scenario([4, 13])
def connection_lost_while_waiting(s, v):
    t = s.topic()
    s.send("Fetch", v, fetch(t, max_wait_ms=2000))
    s.connection(0).close()
    s.call("Fetch", v, fetch(t), conn=1)


# --- isolation, epochs, replicas, racks


@scenario("4-18")
def read_committed(s, v):
    """Nothing is aborted where there are no transactions."""
    s.call("Fetch", v, fetch(filled(s, batches=2), isolation=1))


@scenario([4, 7, 12, 18], cases=[2, -1, 127])
def isolation_that_does_not_exist(s, v, isolation):
    s.call("Fetch", v, fetch(filled(s, batches=2), isolation=isolation))


@scenario("9-18", cases={"right": 0, "newer": 1, "much newer": 1000, "none": -1, "negative": -2})
def leader_epoch(s, v, epoch):
    s.call("Fetch", v, fetch(filled(s, batches=2), leader_epoch=epoch))


@scenario("12-18", cases={"right": 0, "newer": 1, "none": -1, "negative": -2, "far": 5})
def last_fetched_epoch(s, v, epoch):
    t = filled(s, batches=2)
    s.call("Fetch", v, fetch_from((t, 0, 2, {"LastFetchedEpoch": epoch})))
    s.call("Fetch", v, fetch_from((t, 0, 50, {"LastFetchedEpoch": epoch})), note="past the end")


@scenario([9, 12, 18])
def wrong_epoch_beside_a_good_partition(s, v):
    t = filled(s, batches=1, partitions=2)
    s.call("Fetch", v, fetch_from((t, 0, 0), (t, 1, 0, {"CurrentLeaderEpoch": 9})))


@scenario([9, 12, 18])
def wrong_epoch_and_wrong_offset(s, v):
    t = filled(s, batches=1)
    s.call("Fetch", v, fetch_from((t, 0, 77, {"CurrentLeaderEpoch": 9})))


@scenario("4-14", cases={"the broker itself": 1, "another": 2, "the debugging one": -2, "lowest": -2147483648})
def replica_id(s, v, replica):
    s.call("Fetch", v, fetch(filled(s, batches=1), ReplicaId=replica))


@scenario("15-18", cases={"the broker itself": (1, 0), "another": (2, 0), "the debugging one": (-2, -1), "none, with an epoch": (-1, 5)})
def replica_state(s, v, which):
    s.call("Fetch", v, fetch(filled(s, batches=1), ReplicaState={"ReplicaId": which[0], "ReplicaEpoch": which[1]}))


@scenario([5, 11, 18], cases=[0, 5, 1 << 40])
def follower_log_start_offset(s, v, offset):
    """Of no meaning to a consumer."""
    s.call("Fetch", v, fetch_from((filled(s, batches=1), 0, 0, {"LogStartOffset": offset})))


@scenario("11-18", cases={"empty": "", "some": "rack-1"})
def rack(s, v, rack):
    s.call("Fetch", v, fetch(filled(s, batches=1), RackId=rack))


@scenario("12-18", cases={"right": None, "wrong": "a-cluster-of-another-"})
def cluster_id(s, v, cluster):
    if cluster is None:
        cluster = s.quiet("Metadata", 10, {"Topics": []})["ClusterId"]
    s.call("Fetch", v, fetch(filled(s, batches=1), ClusterId=cluster))


@scenario([17, 18])
def replica_directory(s, v):
    s.call("Fetch", v, fetch_from((filled(s, batches=1), 0, 0, {"ReplicaDirectoryId": s.literal(MADE_UP)})))


@scenario([18])
def high_watermark_of_a_replica(s, v):
    s.call("Fetch", v, fetch_from((filled(s, batches=1), 0, 0, {"HighWatermark": 1})))


# --- codecs


@scenario("4-18")
def zstd(s, v):
    """Before version 10 a client cannot be expected to read it."""
    t = s.topic()
    s.quiet("Produce", 9, produce(t, batch(b"plain")))
    s.quiet("Produce", 9, produce(t, batch(b"squeezed", codec=codecs.ZSTD)))
    s.call("Fetch", v, fetch(t))
    s.call("Fetch", v, fetch(t, 1))


@scenario("4-18")
def topic_with_zstd(s, v):
    t = s.topic(compression_type="zstd")
    s.call("Fetch", v, fetch(t))


@scenario([4, 13, 18], cases={"gzip": codecs.GZIP, "snappy": codecs.SNAPPY, "lz4": codecs.LZ4})
def compressed(s, v, codec):
    """Stays as it is, also where the offset is inside the batch."""
    t = s.topic()
    for _ in range(2):
        s.quiet("Produce", 9, produce(t, batch(b"a", b"b", b"c", codec=codec)))
    s.call("Fetch", v, fetch(t, 1))
    s.call("Fetch", v, fetch(t, 5))


# --- odd bodies


@scenario([4, 7, 11, 12, 13, 18], cases={"topics": {"Topics": None}, "forgotten": {"ForgottenTopicsData": None}, "rack": {"RackId": None},
                                        "topic": {"Topics": [{"Topic": None, "Partitions": []}]},
                                        "partitions": {"Topics": [{"Topic": "x", "Partitions": None}]}})
def null_for(s, v, what):
    s.call("Fetch", v, fetch_from() | what)


@scenario([4, 11, 12, 18], cases=[-2, 5, 1000000])
def wrong_count(s, v, count):
    t = s.topic()
    body = fetch(t)
    s.call("Fetch", v, body | {"Topics": Counted(count, body["Topics"])})


@scenario("12-18")
def unknown_tags(s, v):
    t = filled(s, batches=1)
    body = fetch(t)
    body["_tags"] = [(90, b"x")]
    body["Topics"][0]["_tags"] = [(91, b"")]
    body["Topics"][0]["Partitions"][0]["_tags"] = [(92, b"abc")]
    s.call("Fetch", v, body, header_tags=[(3, b"y")])


@scenario([12, 18])
def known_tag_of_wrong_size(s, v):
    """The cluster's id, a tagged field, longer than what it holds."""
    t = filled(s, batches=1)
    s.call("Fetch", v, fetch(t) | {"_tags": [(0, b"\x00\x00\x00")]})
    s.call("Fetch", v, fetch(t) | {"_tags": [(0, b"")]}, conn=1)


@scenario([4, 11, 12, 18])
def bytes_left_over(s, v):
    from kafka_wire import messages

    t = filled(s, batches=1)
    s.frame(messages.request("Fetch", v, fetch(t), correlation_id=9) + b"left over")
    s.receive("Fetch", v)


@scenario([4, 11, 13, 18])
def pipelined(s, v):
    t = filled(s)
    for offset in (0, 8, 4, 99, 2):
        s.send("Fetch", v, fetch(t, offset, max_bytes=100))
    for _ in range(5):
        s.receive("Fetch", v)


@scenario([4, 13])
def high_watermark_and_start_move(s, v):
    t = filled(s, batches=3)
    s.call("Fetch", v, fetch(t, 6))
    s.quiet("Produce", 9, produce(t, batch(b"more")))
    s.call("Fetch", v, fetch(t, 6))
    s.quiet("DeleteRecords", 2, {"Topics": [{"Name": t.name, "Partitions": [{"PartitionIndex": 0, "Offset": -1}]}], "TimeoutMs": 5000})
    s.call("Fetch", v, fetch(t, 7))
