"""ListOffsets: by time and by the special timestamps -1 (latest), -2 (earliest), -3 (that of the highest timestamp), -4 to -6 (tiers)."""

import time

from bodies import list_offsets, list_offsets_of, produce
from kafka_wire import codecs
from kafka_wire.batches import EPOCH_2023, Record, batch
from kafka_wire.messages import Counted
from scenario import Topic, scenario

T = EPOCH_2023


def unknown(s):
    return Topic(s.name("unknown"), None)


def timed(s, *times, codec=0, **settings):
    """A topic with a batch per list of times."""
    t = s.topic(**settings)
    for group in times:
        time.sleep(0.003)  # so that times of the broker's differ
        records = [Record(b"v%d" % i, timestamp_delta=at) for i, at in enumerate(group)]
        s.quiet("Produce", 9, produce(t, batch(*records, codec=codec, max_timestamp=T + max(group))))
    return t


SPECIAL = {"latest": -1, "earliest": -2, "highest timestamp": -3, "earliest local": -4, "latest tiered": -5, "earliest pending upload": -6,
           "unknown -7": -7, "lowest": -(1 << 63)}


@scenario("1-11", cases=SPECIAL)
def special(s, v, timestamp):
    s.call("ListOffsets", v, list_offsets(timed(s, [0, 50, 20], [30, 40]), timestamp))


@scenario("1-11", cases=SPECIAL)
def special_of_an_empty_partition(s, v, timestamp):
    s.call("ListOffsets", v, list_offsets(s.topic(), timestamp))


@scenario([1, 7, 8, 9, 11], cases=SPECIAL)
def special_after_deleted_records(s, v, timestamp):
    t = timed(s, [0, 50], [30], [40])
    s.quiet("DeleteRecords", 2, {"Topics": [{"Name": t.name, "Partitions": [{"PartitionIndex": 0, "Offset": 3}]}], "TimeoutMs": 5000})
    s.call("ListOffsets", v, list_offsets(t, timestamp))


@scenario([1, 7, 8, 11], cases=SPECIAL)
def special_after_all_is_deleted(s, v, timestamp):
    t = timed(s, [0, 50], [30])
    s.quiet("DeleteRecords", 2, {"Topics": [{"Name": t.name, "Partitions": [{"PartitionIndex": 0, "Offset": -1}]}], "TimeoutMs": 5000})
    s.call("ListOffsets", v, list_offsets(t, timestamp))


TIMES = {"zero": 0, "one": 1, "before the first": T - 1, "the first": T, "between": T + 15, "inside a batch": T + 20, "of the second batch": T + 60,
         "the last": T + 90, "past the last": T + 91, "far future": 1 << 62, "highest": (1 << 63) - 1}


@scenario("1-11", cases=TIMES)
def by_time(s, v, timestamp):
    s.call("ListOffsets", v, list_offsets(timed(s, [0, 10, 20], [60, 70], [80, 90]), timestamp))


@scenario([1, 4, 7, 11], cases=TIMES)
def by_time_in_compressed_batches(s, v, timestamp):
    s.call("ListOffsets", v, list_offsets(timed(s, [0, 10, 20], [60, 70], [80, 90], codec=codecs.GZIP), timestamp))


@scenario([1, 7, 11], cases=[0, 5, 10, 20, 30, 40, 60, 61])
def by_time_out_of_order(s, v, at):
    """The first offset whose timestamp is not below the one asked for."""
    s.call("ListOffsets", v, list_offsets(timed(s, [30, 10, 20], [5, 60], [40]), T + at))


@scenario([1, 7, 11], cases=[0, 10, 20, 30])
def by_time_with_times_twice(s, v, at):
    s.call("ListOffsets", v, list_offsets(timed(s, [10, 10], [10, 20], [20]), T + at))


@scenario([7, 11], cases={"within a batch": [[0, 50, 50, 20]], "over batches": [[0, 50], [50, 10], [50]], "in the first": [[90, 5], [20], [30]],
                          "in the last": [[0], [10], [20]], "single": [[7]]})
def highest_timestamp(s, v, times):
    """The first record that has it."""
    s.call("ListOffsets", v, list_offsets(timed(s, *times), -3))


@scenario([7, 11], cases={"gzip": codecs.GZIP, "lz4": codecs.LZ4, "zstd": codecs.ZSTD})
def highest_timestamp_in_compressed_batches(s, v, codec):
    s.call("ListOffsets", v, list_offsets(timed(s, [0, 50, 20], [30], codec=codec), -3))


@scenario([7, 11])
def highest_timestamp_of_records_without_one(s, v):
    t = s.topic()
    s.quiet("Produce", 9, produce(t, batch(b"x", base_timestamp=-1)))
    s.call("ListOffsets", v, list_offsets(t, -3))
    s.call("ListOffsets", v, list_offsets(t, 0))


@scenario([1, 7, 11])
def log_append_time(s, v):
    t = timed(s, [0, 10], [20], message_timestamp_type="LogAppendTime")
    s.call("ListOffsets", v, list_offsets(t, T + 500))
    s.call("ListOffsets", v, list_offsets(t, -1))
    if v >= 7:
        s.call("ListOffsets", v, list_offsets(t, -3))


@scenario([7, 11])
def wrong_max_timestamp_in_a_batch(s, v):
    """What the batch claims decides which batch is looked into."""
    t = s.topic()
    s.quiet("Produce", 9, produce(t, batch(b"a", max_timestamp=T + 1000)))
    s.quiet("Produce", 9, produce(t, batch(Record(b"b", timestamp_delta=500), max_timestamp=T)))
    for at in (-3, T, T + 1, T + 400, T + 800):
        s.call("ListOffsets", v, list_offsets(t, at))


@scenario([1, 7, 11])
def over_segments(s, v):
    t = s.topic(segment_bytes=1 << 20)
    for i in range(4):
        s.quiet("Produce", 9, produce(t, batch(bytes(400000), base_timestamp=T + 10 * i)))
    for at in (-1, -2, T, T + 5, T + 20, T + 25, T + 30, T + 31):
        s.call("ListOffsets", v, list_offsets(t, at))


# --- what cannot be answered


@scenario("1-11")
def unknown_topic(s, v):
    s.call("ListOffsets", v, list_offsets(unknown(s)))


@scenario("1-11", cases=[1, -1, 2147483647])
def unknown_partition(s, v, partition):
    s.call("ListOffsets", v, list_offsets(s.topic(), partition=partition))


@scenario("1-11")
def partial_failure(s, v):
    t, u = timed(s, [0]), s.topic("u", partitions=2)
    s.call("ListOffsets", v, list_offsets_of((u, 1, -1), (u, 5, -1), (u, 0, -2), (unknown(s), 0, -1), (t, 0, T)))


@scenario("1-11")
def same_partition_twice(s, v):
    t = timed(s, [0], [10])
    s.call("ListOffsets", v, list_offsets_of((t, 0, -1), (t, 0, -2)))


@scenario([1, 6, 11])
def same_partition_twice_beside_another(s, v):
    t = timed(s, [0], [10], partitions=2)
    s.call("ListOffsets", v, list_offsets_of((t, 0, -1), (t, 1, -1), (t, 0, -1)))


@scenario([1, 6, 11])
def same_topic_twice(s, v):
    t = timed(s, [0], [10], partitions=2)
    s.call("ListOffsets", v, list_offsets_of((t, 0, -1), (Topic(t.name, t.id), 1, -1)))


@scenario([1, 6, 11], cases={"empty": "", "invalid": "a b", "long": "x" * 300})
def odd_name(s, v, name):
    s.call("ListOffsets", v, list_offsets(Topic(name, None)))


@scenario("1-11")
def no_topics(s, v):
    s.call("ListOffsets", v, list_offsets_of())


@scenario([1, 6, 11])
def topic_without_partitions(s, v):
    t = s.topic()
    s.call("ListOffsets", v, list_offsets_of() | {"Topics": [{"Name": t.name, "Partitions": []}]})


@scenario("4-11", cases={"right": 0, "newer": 1, "far": 1000, "none": -1, "negative": -5})
def leader_epoch(s, v, epoch):
    s.call("ListOffsets", v, list_offsets(timed(s, [0]), leader_epoch=epoch))


@scenario([4, 7, 11])
def wrong_leader_epoch_and_bad_timestamp(s, v):
    s.call("ListOffsets", v, list_offsets(timed(s, [0]), -77, leader_epoch=8))


@scenario("2-11", cases={"committed": 1, "unknown": 2, "negative": -1})
def isolation(s, v, isolation):
    t = timed(s, [0, 10])
    s.call("ListOffsets", v, list_offsets(t, -1, isolation=isolation))
    s.call("ListOffsets", v, list_offsets(t, T + 5, isolation=isolation))


@scenario([1, 4, 7, 11], cases={"the broker itself": 1, "another": 2, "debugging": -2, "lowest": -2147483648})
def replica_id(s, v, replica):
    s.call("ListOffsets", v, list_offsets(timed(s, [0]), replica_id=replica))


@scenario([10, 11], cases=[0, -1, 1])
def timeout(s, v, timeout_ms):
    s.call("ListOffsets", v, list_offsets(timed(s, [0])) | {"TimeoutMs": timeout_ms})


@scenario([1, 5, 6, 11], cases={"topics": {"Topics": None}, "name": {"Topics": [{"Name": None, "Partitions": []}]},
                               "partitions": {"Topics": [{"Name": "x", "Partitions": None}]}})
def null_for(s, v, what):
    s.call("ListOffsets", v, list_offsets_of() | what)


@scenario([1, 6, 11], cases=[-2, 4, 1000000])
def wrong_count(s, v, count):
    body = list_offsets(s.topic())
    s.call("ListOffsets", v, body | {"Topics": Counted(count, body["Topics"])})


@scenario("6-11")
def unknown_tags(s, v):
    body = list_offsets(s.topic())
    body["_tags"] = [(3, b"x")]
    body["Topics"][0]["Partitions"][0]["_tags"] = [(9, b"yy")]
    s.call("ListOffsets", v, body)


@scenario([1, 6, 11])
def bytes_left_over(s, v):
    from kafka_wire import messages

    s.frame(messages.request("ListOffsets", v, list_offsets(s.topic()), correlation_id=3) + b"left over")
    s.receive("ListOffsets", v)


@scenario([1, 6, 11])
def many_partitions(s, v):
    t = s.topic(partitions=20)
    s.call("ListOffsets", v, list_offsets_of(*((t, p, -1) for p in range(19, -1, -1))))
