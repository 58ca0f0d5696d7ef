"""Produce: acknowledgements, partial failures, and every way in which a batch can be wrong. Sequences are in idempotence.py."""

import struct
import time

from bodies import fetch, list_offsets, produce, produce_to
from kafka_wire import codecs
from kafka_wire.batches import CONTROL, DELETE_HORIZON, EPOCH_2023, LOG_APPEND_TIME, TRANSACTIONAL, Record, batch, old_message, read_batches
from kafka_wire.messages import Counted, Raw
from kafka_wire.primitives import ZERO_UUID, signed_varint, unsigned_varint
from scenario import Topic, scenario

MADE_UP = "bm8tc3VjaC10b3BpYy1pZA"
GOOD = batch(b"good")
HOUR = 3600 * 1000
FEW = [3, 8, 13]


def unknown(s, suffix="unknown"):
    return Topic(s.name(suffix), s.literal(MADE_UP))


def read_back(s, topic, partition=0, offset=0):
    s.call("Fetch", 11, fetch(topic, offset, partition), note="read back")


@scenario("3-13")
def stores(s, v):
    t = s.topic()
    s.call("Produce", v, produce(t, batch(b"first", Record(b"second", b"key", [(b"header", b"value"), (b"", None)]))))
    s.call("Produce", v, produce(t, batch(b"third")))
    read_back(s, t)


@scenario("3-13", cases={"none wanted": 0, "leader": 1, "all": -1})
def acks(s, v, acks):
    t = s.topic()
    s.send("Produce", v, produce(t, GOOD, acks=acks))
    if acks == 0:
        s.forget()
    else:
        s.receive("Produce", v)
    s.until(lambda a: a["Topics"][0]["Partitions"][0]["Offset"] == 1, "ListOffsets", 7, list_offsets(t))


@scenario("3-13", cases=[2, -2, 100, -32768])
def acks_that_do_not_exist(s, v, acks):
    t = s.topic(partitions=2)
    s.call("Produce", v, produce_to((t, 0, GOOD), (t, 1, GOOD), acks=acks))
    s.call("ListOffsets", 7, list_offsets(t))


@scenario("3-13")
def acks_that_do_not_exist_and_other_mistakes(s, v):
    t = s.topic()
    s.call("Produce", v, produce_to((t, 0, GOOD), (unknown(s), 0, GOOD), (t, 5, GOOD), (t, 0, b""), acks=7))


@scenario("3-13")
def no_topics(s, v):
    s.call("Produce", v, produce_to())


@scenario("3-13")
def no_partitions(s, v):
    t = s.topic()
    s.call("Produce", v, {"Acks": 1, "TimeoutMs": 1000, "TopicData": [{"Name": t.name, "TopicId": t.id, "PartitionData": []}]})


@scenario([3, 9, 13])
def no_topics_and_no_acks(s, v):
    s.send("Produce", v, produce_to(acks=0))
    s.forget()
    s.call("ApiVersions", 0, {}, without=["ApiKeys"])


@scenario("3-13")
def unknown_topic(s, v):
    """Produce never creates one."""
    s.call("Produce", v, produce(unknown(s), GOOD))
    s.call("Metadata", 12, {"Topics": [{"Name": s.name("unknown")}], "AllowAutoTopicCreation": False})


@scenario("3-13", cases=[1, 2, -1, 2147483647])
def unknown_partition(s, v, partition):
    t = s.topic()
    s.call("Produce", v, produce(t, GOOD, partition=partition))


@scenario("3-13")
def partial_failure(s, v):
    t, u = s.topic("t", partitions=2), s.topic("u")
    broken = batch(b"x", crc=1)
    s.call("Produce", v, produce_to((t, 0, GOOD), (t, 1, broken), (t, 9, GOOD), (unknown(s), 0, GOOD), (u, 0, GOOD)))
    read_back(s, t)
    read_back(s, t, 1)
    read_back(s, u)


@scenario("3-13")
def many_partitions_in_any_order(s, v):
    t = s.topic(partitions=6)
    s.call("Produce", v, produce_to(*((t, p, batch(b"p%d" % p)) for p in (5, 0, 3, 1))))


@scenario("3-13")
def same_partition_twice(s, v):
    """Only one of the two is stored."""
    t = s.topic()
    s.call("Produce", v, produce_to((t, 0, batch(b"one")), (t, 0, batch(b"two"))))
    read_back(s, t)


@scenario([3, 8, 12, 13])
def same_topic_twice(s, v):
    t = s.topic(partitions=2)
    u = Topic(t.name, t.id)
    s.call("Produce", v, produce_to((t, 0, batch(b"one")), (u, 1, batch(b"two"))))
    s.call("Produce", v, produce_to((t, 0, batch(b"three")), (u, 0, batch(b"four"))))
    read_back(s, t)


@scenario("13-13")
def made_up_topic_id(s, v):
    t = s.topic()
    s.call("Produce", v, produce_to((t, 0, GOOD), (Topic("", s.literal(MADE_UP)), 0, GOOD), (Topic("", ZERO_UUID), 0, GOOD)))


@scenario("13-13")
def id_of_a_deleted_topic(s, v):
    t = s.topic()
    s.quiet("DeleteTopics", 6, {"Topics": [{"Name": t.name}], "TimeoutMs": 10000})
    s.gone()
    s.call("Produce", v, produce(t, GOOD))


@scenario([3, 12], cases={"empty": "", "invalid": "a b", "dot": ".", "long": "x" * 300})
def odd_topic_name(s, v, name):
    s.call("Produce", v, produce(Topic(name, ZERO_UUID), GOOD))


@scenario([3, 9, 12, 13])
def internal_topic(s, v):
    """Only the coordinators write there."""
    meta = s.quiet_until(lambda a: not a["Topics"][0]["ErrorCode"], "Metadata", 12,
                         {"Topics": [{"Name": "__consumer_offsets"}], "AllowAutoTopicCreation": True})
    s.call("Produce", v, produce(Topic("__consumer_offsets", meta["Topics"][0]["TopicId"]), GOOD))


# --- acks=0: an error can only be told by closing


WITHOUT_ACKS = {
    "unknown partition": (9, GOOD),
    "wrong crc": (0, batch(b"x", crc=1)),
    "two batches": (0, GOOD + GOOD),
    "wrong magic": (0, batch(b"x", magic=3)),
    "empty": (0, b""),
}


@scenario(FEW, cases=WITHOUT_ACKS)
def error_without_acks(s, v, which):
    partition, data = which
    t = s.topic()
    s.send("Produce", v, produce(t, data, partition=partition, acks=0))
    s.forget()
    s.ending(timeout=3)


@scenario("3-13")
def good_without_acks_then_more(s, v):
    t = s.topic()
    for value in (b"a", b"b", b"c"):
        s.send("Produce", v, produce(t, batch(value), acks=0))
    s.forget()
    s.call("Produce", v, produce(t, batch(b"d")))
    read_back(s, t)


@scenario("3-13")
def unknown_topic_without_acks(s, v):
    s.send("Produce", v, produce(unknown(s), GOOD, acks=0))
    s.forget()
    s.ending()


# --- what a batch may not be


def garbled(data, at, value):
    return data[:at] + value + data[at + len(value) :]


TWO = batch(b"one", b"two")
INVALID = {
    "crc": batch(b"x", crc=0xDEADBEEF),
    "flipped record byte": garbled(TWO, len(TWO) - 2, b"\xff"),
    "magic 3": batch(b"x", magic=3),
    "magic -1": batch(b"x", magic=-1),
    "magic 0 in a new batch": batch(b"x", magic=0),
    "magic 1 in a new batch": batch(b"x", magic=1),
    "message of format 0": old_message(0, b"x"),
    "message of format 1": old_message(1, b"x"),
    "length 0": batch(b"x", length=0),
    "length -1": batch(b"x", length=-1),
    "length lowest": batch(b"x", length=-(1 << 31)),
    "length one short": batch(b"x", length=len(batch(b"x")) - 13),
    "length one long": batch(b"x", length=len(batch(b"x")) - 11),
    "length highest": batch(b"x", length=(1 << 31) - 1),
    "length of a bare header": batch(b"x", length=49),
    "length below the header": batch(b"x", length=48),
    "length 13": batch(b"x", length=13),
    "length 14": batch(b"x", length=14),
    "no bytes": b"",
    "one byte": b"\0",
    "11 bytes": GOOD[:11],
    "12 bytes": GOOD[:12],
    "16 bytes": GOOD[:16],
    "17 bytes": GOOD[:17],
    "60 bytes": GOOD[:60],
    "header alone": GOOD[:61],
    "cut by one byte": GOOD[:-1],
    "zeros": bytes(100),
    "ones": b"\xff" * 100,
    "text": b"this is not a record batch, not even nearly, but long enough to be one of them",
    "no records": batch(payload=b"", last_offset_delta=0),
    "no records and offset -1": batch(payload=b"", last_offset_delta=-1),
    "no records, counted one": batch(payload=b"", count=1, last_offset_delta=0),
    "count 0": batch(b"x", count=0),
    "count -1": batch(b"x", count=-1),
    "count lowest": batch(b"x", count=-(1 << 31)),
    "count one low": batch(b"x", b"y", count=1),
    "count one high": batch(b"x", b"y", count=3),
    "count highest": batch(b"x", count=(1 << 31) - 1),
    "last offset delta one low": batch(b"x", b"y", last_offset_delta=0),
    "last offset delta one high": batch(b"x", b"y", last_offset_delta=2),
    "last offset delta negative": batch(b"x", last_offset_delta=-1),
    "count and last offset delta agree, records do not": batch(b"x", b"y", count=5, last_offset_delta=4),
    "base offset 1": batch(b"x", base_offset=1),
    "base offset -1": batch(b"x", base_offset=-1),
    "base offset highest": batch(b"x", base_offset=(1 << 63) - 1),
    "leader epoch set": batch(b"x", leader_epoch=77),
    "leader epoch lowest": batch(b"x", leader_epoch=-(1 << 31)),
    "two batches": GOOD + GOOD,
    "two batches, the second broken": GOOD + batch(b"x", crc=1),
    "two batches, the first broken": batch(b"x", crc=1) + GOOD,
    "three batches": GOOD * 3,
    "batch and half of one": GOOD + GOOD[:30],
    "batch and garbage": GOOD + b"garbage",
    "batch and one byte": GOOD + b"\0",
    "batch and twelve zeros": GOOD + bytes(12),
    "batch and 61 zeros": GOOD + bytes(61),
    "garbage and batch": b"garbage" + GOOD,
    "old and new": old_message(1, b"x") + GOOD,
    "new and old": GOOD + old_message(1, b"x"),
    "bytes after the last record": batch(b"x", trailing=b"more"),
    "one byte after the last record": batch(b"x", trailing=b"\0"),
    "record longer than the batch": batch(Record(b"x", length=1000)),
    "record shorter than its fields": batch(Record(b"x" * 20, length=10)),
    "record one longer than its fields": batch(Record(b"x", length=8), trailing=b"\0"),
    "record length negative": batch(Record(b"x", length=-1)),
    "record length zero": batch(Record(b"x", length=0)),
    "offset deltas descending": batch(Record(offset_delta=1), Record(offset_delta=0)),
    "offset deltas with a gap": batch(Record(offset_delta=0), Record(offset_delta=2), last_offset_delta=2),
    "offset deltas with a gap and count": batch(Record(offset_delta=0), Record(offset_delta=2), last_offset_delta=2, count=3),
    "offset delta wrong inside": batch(Record(offset_delta=0), Record(offset_delta=5), Record(offset_delta=2)),
    "offset delta negative": batch(Record(offset_delta=-1)),
    "offset deltas twice the same": batch(Record(offset_delta=0), Record(offset_delta=0)),
    "record attributes set": batch(Record(attributes=-1)),
    "key length below null": batch(payload=b"\x0e" + b"\0\0\0" + b"\x03" + b"\x02x" + b"\0"),
    "value length below null": batch(payload=b"\x0c" + b"\0\0\0" + b"\x01" + b"\x05" + b"\0"),
    "value longer than the record": batch(payload=b"\x0e" + b"\0\0\0" + b"\x01" + signed_varint(50) + b"x" + b"\0"),
    "header count negative": batch(payload=b"\x0e" + b"\0\0\0" + b"\x01" + b"\x02x" + b"\x01"),
    "header count too high": batch(payload=b"\x0e" + b"\0\0\0" + b"\x01" + b"\x02x" + b"\x14"),
    "header count bomb": batch(payload=b"\x16" + b"\0\0\0" + b"\x01" + b"\x02x" + b"\xfe\xff\xff\xff\x0f"),
    "header with a null key": batch(Record(headers=[(None, b"x")])),
    "header with a null value": batch(Record(headers=[(b"k", None)])),
    "header key not utf8": batch(Record(headers=[(b"\xff\xfe", b"x")])),
    "same header twice": batch(Record(headers=[(b"k", b"1"), (b"k", b"2")])),
    "null key and null value": batch(Record(None, None)),
    "empty key and empty value": batch(Record(b"", b"")),
    "control batch": batch(Record(b"\0\0\0\0\0\0", b"\0\0\0\1"), attributes=CONTROL),
    "control batch of a transaction": batch(Record(b"\0\0\0\0\0\0", b"\0\0\0\1"), attributes=CONTROL | TRANSACTIONAL, producer_id=1, producer_epoch=0),
    "transactional without a producer": batch(b"x", attributes=TRANSACTIONAL),
    "log append time": batch(b"x", attributes=LOG_APPEND_TIME),
    "delete horizon": batch(b"x", attributes=DELETE_HORIZON),
    "unknown attribute bits": batch(b"x", attributes=0x7F80),
    "sign bit of the attributes": batch(b"x", attributes=-0x8000),
    "codec 5": batch(b"x", payload=b"x" * 20, attributes=5, count=1, last_offset_delta=0),
    "codec 6": batch(b"x", payload=b"x" * 20, attributes=6, count=1, last_offset_delta=0),
    "codec 7": batch(b"x", payload=b"x" * 20, attributes=7, count=1, last_offset_delta=0),
    "producer id -2": batch(b"x", producer_id=-2),
    "producer epoch without an id": batch(b"x", producer_epoch=3),
    "sequence without an id": batch(b"x", base_sequence=3),
    "max timestamp too low": batch(Record(timestamp_delta=5), max_timestamp=EPOCH_2023),
    "max timestamp too high": batch(b"x", max_timestamp=EPOCH_2023 + 50),
    "max timestamp negative": batch(b"x", max_timestamp=-1),
    "no timestamp": batch(b"x", base_timestamp=-1),
    "negative timestamp": batch(b"x", base_timestamp=-5),
    "timestamp zero": batch(b"x", base_timestamp=0),
    "negative timestamp delta": batch(Record(timestamp_delta=-100)),
    "timestamp overflow": batch(Record(timestamp_delta=(1 << 62)), base_timestamp=(1 << 62), max_timestamp=-(1 << 63)),
    "highest base timestamp": batch(b"x", base_timestamp=(1 << 63) - 1),
}


@scenario([3, 7, 8, 9, 12, 13], cases=INVALID)
def records(s, v, data):
    t = s.topic()
    s.call("Produce", v, produce(t, data))
    read_back(s, t)


# --- compression


def squeezed(codec, **more):
    return batch(b"one" * 50, Record(b"two", b"key"), codec=codec, **more)


CODECS = {"gzip": codecs.GZIP, "snappy": codecs.SNAPPY, "lz4": codecs.LZ4, "zstd": codecs.ZSTD}


@scenario("3-13", cases=CODECS)
def compressed(s, v, codec):
    t = s.topic()
    s.call("Produce", v, produce(t, squeezed(codec)))
    read_back(s, t)


WRONG_IN_COMPRESSED = {
    "bad data": lambda c: batch(b"x", payload=b"this is no compressed data", attributes=c, count=1, last_offset_delta=0),
    "no data": lambda c: batch(payload=b"", attributes=c, count=1, last_offset_delta=0),
    "cut": lambda c: batch(b"x", payload=codecs.compress(c, Record(b"x" * 100).encode(0))[:-20], attributes=c, count=1, last_offset_delta=0),
    "garbage behind": lambda c: batch(b"x", payload=codecs.compress(c, Record(b"x").encode(0)) + b"garbage", attributes=c, count=1, last_offset_delta=0),
    "no records": lambda c: batch(codec=c, last_offset_delta=0, count=0),
    "counted one high": lambda c: batch(b"x", b"y", codec=c, count=3),
    "counted one high, last offset too": lambda c: batch(b"x", b"y", codec=c, count=3, last_offset_delta=2),
    "counted one low": lambda c: batch(b"x", b"y", codec=c, count=1, last_offset_delta=0),
    "bytes after the last record": lambda c: batch(b"x", codec=c, trailing=b"more"),
    "record longer than the data": lambda c: batch(Record(b"x", length=1000), codec=c),
    "record shorter than its fields": lambda c: batch(Record(b"x" * 20, length=10), codec=c),
    "offset deltas wrong": lambda c: batch(Record(offset_delta=0), Record(offset_delta=5), Record(offset_delta=2), codec=c),
    "offset deltas from one": lambda c: batch(Record(offset_delta=1), Record(offset_delta=2), codec=c),
    "record attributes set": lambda c: batch(Record(attributes=3), codec=c),
    "crc": lambda c: batch(b"x", codec=c, crc=5),
    "null key": lambda c: batch(Record(b"x", None), codec=c),
    "negative header count": lambda c: batch(codec=c, count=1, last_offset_delta=0, trailing=b"\x0e" + b"\0\0\0" + b"\x01" + b"\x02x" + b"\x01"),
    "two batches": lambda c: batch(b"x", codec=c) + batch(b"y", codec=c),
    "uncompressed beside it": lambda c: batch(b"x", codec=c) + GOOD,
    "a batch inside": lambda c: batch(b"x", payload=codecs.compress(c, GOOD), attributes=c, count=1, last_offset_delta=0),
}


@scenario([7, 8, 13], cases={f"{what}, {name}": make(codec) for name, codec in CODECS.items() for what, make in WRONG_IN_COMPRESSED.items()})
def compressed_records(s, v, data):
    t = s.topic()
    s.call("Produce", v, produce(t, data))
    read_back(s, t)


@scenario([9, 13], cases=["gzip", "snappy", "lz4", "zstd", "uncompressed", "producer"])
def topic_compresses(s, v, kind):
    """The topic's own codec; whatever the client sent is compressed anew, if it differs."""
    t = s.topic(compression_type=kind)
    s.call("Produce", v, produce(t, batch(b"one" * 50, b"two" * 50)))
    s.call("Produce", v, produce(t, squeezed(codecs.GZIP)))
    s.call("Produce", v, produce(t, squeezed(codecs.LZ4)))
    if kind != "zstd":
        read_back(s, t)
        return
    # what a zstd encoder wrote we cannot read
    answer = s.call("Fetch", 11, fetch(t), without=["Responses"])
    for stored in read_batches(answer["Responses"][0]["Partitions"][0]["Records"]):
        s.record("stored", {key: stored[key] for key in ("attributes", "count", "crc_holds", "max_timestamp")})


WRONG_ON_A_COMPRESSING_TOPIC = ["count one high", "count one low", "offset delta wrong inside", "offset deltas with a gap", "bytes after the last record",
                                "two batches", "leader epoch set", "base offset 1", "max timestamp too high", "max timestamp too low", "record attributes set",
                                "unknown attribute bits", "log append time", "no records", "negative timestamp delta", "header count bomb",
                                "record shorter than its fields", "delete horizon", "same header twice"]


@scenario([8, 13], cases={name: INVALID[name] for name in WRONG_ON_A_COMPRESSING_TOPIC})
def records_on_a_compressing_topic(s, v, data):
    t = s.topic(compression_type="gzip")
    s.call("Produce", v, produce(t, data))
    read_back(s, t)


SNAPPY_BOMB = bytes.fromhex("00000000000000000000004a0000000502fe539cc200020000000000000000000000000000000000000000ffffffffffffffffffffffffffff0000000182534e41"
                            "50505900000000010000000100000005ffffffff0f")
BOMBS = {
    "records count": bytes.fromhex("00000000000000000000003100000005020ed87f0400000000000000000000000000000000000000000000ffffffffffffffffffffffffffff7fffffff"),
    "snappy": SNAPPY_BOMB,
    "gzip of a record": batch(Record(bytes(3 << 20)), codec=codecs.GZIP),
    "gzip of zeros": batch(b"x", payload=codecs.compress(codecs.GZIP, bytes(20 << 20)), attributes=codecs.GZIP, count=1, last_offset_delta=0),
}


@scenario([8, 13], cases=BOMBS)
def bomb(s, v, data):
    t = s.topic()
    s.call("Produce", v, produce(t, data))
    read_back(s, t, offset=1)


# --- settings of the topic


@scenario([3, 8, 9, 13])
def larger_than_allowed(s, v):
    t = s.topic(max_message_bytes=200)
    s.call("Produce", v, produce(t, batch(bytes(132))))
    s.call("Produce", v, produce(t, batch(bytes(200))))
    s.call("Produce", v, produce(t, batch(bytes(1000), codec=codecs.GZIP)), note="small by compression")
    s.call("ListOffsets", 7, list_offsets(t))


@scenario([3, 13], cases=[-1, 0, 1])
def at_the_limit_of_size(s, v, above):
    """The limit is that of the whole batch."""
    data = batch(bytes(100))
    t = s.topic(max_message_bytes=len(data) - above)
    s.call("Produce", v, produce(t, data))


@scenario([3, 13], cases=[0, 1])
def at_the_default_limit(s, v, above):
    """1048588 bytes."""
    t = s.topic()
    empty = len(batch(bytes(1000000))) - 1000000
    s.call("Produce", v, produce(t, batch(bytes(1048588 - empty + above))))


@scenario([8, 13])
def several_records_larger_than_allowed(s, v):
    t = s.topic(max_message_bytes=300)
    s.call("Produce", v, produce(t, batch(*[bytes(50)] * 10)))


@scenario([3, 8, 9, 13])
def compacted_topic(s, v):
    """Each record needs a key there."""
    t = s.topic(cleanup_policy="compact")
    s.call("Produce", v, produce(t, batch(Record(b"v", b"key"))))
    s.call("Produce", v, produce(t, batch(Record(b"v", None))))
    s.call("Produce", v, produce(t, batch(Record(b"v", b""))), note="empty key")
    s.call("Produce", v, produce(t, batch(Record(b"v", b"k"), Record(b"v", None), Record(b"w", b"k"), Record(b"x", None))))
    s.call("Produce", v, produce(t, batch(Record(b"v", None), Record(b"v", b"k"), codec=codecs.GZIP)))
    s.call("Produce", v, produce(t, batch(Record(None, b"k"))), note="tombstone")
    read_back(s, t)


@scenario([8, 13])
def compacted_and_deleted_topic(s, v):
    t = s.topic(cleanup_policy="compact,delete")
    s.call("Produce", v, produce(t, batch(Record(b"v", None))))


@scenario([8, 13])
def two_faults_in_one_batch(s, v):
    """Which of them is told."""
    t = s.topic(cleanup_policy="compact", max_message_bytes=300, message_timestamp_after_max_ms=1000)
    future = int(time.time() * 1000) + HOUR
    s.call("Produce", v, produce(t, batch(Record(b"v"), base_timestamp=future)), note="no key, too late")
    s.call("Produce", v, produce(t, batch(Record(bytes(400)), crc=1)), note="too large, crc")
    s.call("Produce", v, produce(t, batch(Record(b"v"), crc=1)), note="no key, crc")
    s.call("Produce", v, produce(t, batch(Record(bytes(400)))), note="no key, too large")
    s.call("Produce", v, produce(t, batch(Record(b"v"), base_offset=5)), note="no key, base offset")
    s.call("Produce", v, produce(t, batch(Record(b"v"), attributes=CONTROL)), note="no key, control")
    s.call("Produce", v, produce(t, batch(Record(b"v"), codec=codecs.ZSTD)), note="no key, zstd")


@scenario("3-13")
def log_append_time(s, v):
    """The broker's time stands in the answer and in the batch."""
    t = s.topic(message_timestamp_type="LogAppendTime")
    s.call("Produce", v, produce(t, batch(b"x", Record(timestamp_delta=5))))
    read_back(s, t)


@scenario([3, 8, 13], cases={"compressed": codecs.GZIP, "plain": 0})
def log_append_time_of(s, v, codec):
    t = s.topic(message_timestamp_type="LogAppendTime")
    s.call("Produce", v, produce(t, batch(b"x", Record(timestamp_delta=-5), codec=codec, base_timestamp=-1)))
    s.call("Produce", v, produce(t, batch(b"x", codec=codec, base_timestamp=(1 << 62))), note="far in the future")
    read_back(s, t)


@scenario([3, 8, 13])
def log_append_time_and_compression(s, v):
    t = s.topic(message_timestamp_type="LogAppendTime", compression_type="gzip")
    s.call("Produce", v, produce(t, batch(b"x", b"y")))
    read_back(s, t)


@scenario([3, 8, 13], cases={"an hour and more": HOUR + 60000, "half an hour": HOUR // 2, "two days": 48 * HOUR})
def timestamp_in_the_future(s, v, ahead):
    t = s.topic()
    s.call("Produce", v, produce(t, batch(Record(b"x"), Record(b"y", timestamp_delta=ahead), base_timestamp=int(time.time() * 1000))))


@scenario([3, 8, 13])
def timestamp_limits_of_the_topic(s, v):
    t = s.topic(message_timestamp_before_max_ms=HOUR, message_timestamp_after_max_ms=HOUR)
    now = int(time.time() * 1000)
    s.call("Produce", v, produce(t, batch(b"x", base_timestamp=now)), note="now")
    s.call("Produce", v, produce(t, batch(b"x", b"y", Record(timestamp_delta=-2 * HOUR), base_timestamp=now)), note="the third too early")
    s.call("Produce", v, produce(t, batch(Record(timestamp_delta=-2 * HOUR), Record(timestamp_delta=2 * HOUR), base_timestamp=now)), note="both")
    s.call("Produce", v, produce(t, batch(b"x", base_timestamp=-1)), note="no timestamp")
    s.call("Produce", v, produce(t, batch(b"x", codec=codecs.GZIP, base_timestamp=now - 3 * HOUR)), note="compressed")
    s.call("ListOffsets", 7, list_offsets(t))


@scenario([3, 8, 13])
def many_bad_records_in_one_batch(s, v):
    """The answer names them."""
    t = s.topic(cleanup_policy="compact")
    s.call("Produce", v, produce(t, batch(*[Record(b"v")] * 20)))


@scenario([3, 9, 13], cases=[1, 2, 3])
def min_insync_replicas(s, v, least):
    """More than there are replicas counts as all of them."""
    t = s.topic(min_insync_replicas=least)
    s.call("Produce", v, produce(t, GOOD))
    s.call("Produce", v, produce(t, GOOD, acks=1))


@scenario([3, 9, 13], cases=[0, -1, 1, 2147483647, -2147483648])
def timeout(s, v, timeout_ms):
    t = s.topic()
    s.call("Produce", v, produce(t, GOOD, timeout_ms=timeout_ms))


@scenario([3, 13])
def across_segments(s, v):
    """Batches that are larger together than a segment."""
    t = s.topic(segment_bytes=1 << 20)
    for _ in range(4):
        s.call("Produce", v, produce(t, batch(bytes(400000))))
    s.call("Fetch", 11, fetch(t, 3, max_bytes=100))
    s.call("ListOffsets", 7, list_offsets(t, -2))


@scenario([3, 13])
def batch_larger_than_a_segment(s, v):
    t = s.topic(segment_bytes=1 << 20, max_message_bytes=3 << 20)
    s.call("Produce", v, produce(t, batch(bytes(2 << 20))))


# --- transactional flags, without transactions


@scenario("3-13")
def transactional_batch_without_transactional_id(s, v):
    t = s.topic()
    s.call("Produce", v, produce(t, batch(b"x", attributes=TRANSACTIONAL, producer_id=s.literal(7), producer_epoch=0, base_sequence=0)))
    read_back(s, t)


@scenario("3-13")
def transactional_id_with_a_plain_batch(s, v):
    t = s.topic()
    s.call("Produce", v, produce(t, GOOD, transactional_id="some-id"))
    read_back(s, t)


@scenario([3, 9, 13])
def empty_transactional_id(s, v):
    t = s.topic()
    s.call("Produce", v, produce(t, GOOD, transactional_id=""))


# --- odd bodies


@scenario([3, 8, 9, 12, 13], cases={"topics": {"TopicData": None}, "name": {"TopicData": [{"Name": None, "PartitionData": []}]},
                                    "partitions": {"TopicData": [{"Name": "x", "PartitionData": None}]}})
def null_for(s, v, what):
    s.call("Produce", v, {"Acks": 1, "TimeoutMs": 100} | what)


@scenario([3, 8, 9, 13], cases=[-2, 5, 1000000])
def wrong_count_of_topics(s, v, count):
    t = s.topic()
    body = produce(t, GOOD)
    s.call("Produce", v, body | {"TopicData": Counted(count, body["TopicData"])})


@scenario([3, 8, 9, 13], cases=[50, 5000, 1 << 30])
def records_longer_than_the_request(s, v, n):
    t = s.topic()
    prefix = unsigned_varint(n + 1) if v >= 9 else struct.pack(">i", n)
    body = produce(t, GOOD)
    body["TopicData"][0]["PartitionData"][0]["Records"] = Raw(prefix + GOOD[:20])
    s.call("Produce", v, body)


@scenario([3, 9, 13])
def null_records(s, v):
    """Kafka fails within and never answers."""
    t = s.topic()
    s.send("Produce", v, produce(t, None))
    s.receive("Produce", v, timeout=1)


@scenario("9-13")
def unknown_tags(s, v):
    t = s.topic()
    body = produce(t, GOOD)
    body["_tags"] = [(0, b"x")]
    body["TopicData"][0]["_tags"] = [(1, b"")]
    body["TopicData"][0]["PartitionData"][0]["_tags"] = [(2, b"abc"), (2, b"again")]
    s.call("Produce", v, body, header_tags=[(3, b"y")])


@scenario([3, 8, 9, 13])
def bytes_left_over(s, v):
    from kafka_wire import messages

    t = s.topic()
    s.frame(messages.request("Produce", v, produce(t, GOOD), correlation_id=5) + b"left over")
    s.receive("Produce", v)
    read_back(s, t)


# --- pipelining


@scenario("3-13")
def pipelined(s, v):
    """Stored in the order sent."""
    t = s.topic()
    for i in range(20):
        s.send("Produce", v, produce(t, batch(b"%d" % i)))
    for _ in range(20):
        s.receive("Produce", v)
    read_back(s, t)


@scenario([3, 9, 13])
def pipelined_good_and_bad(s, v):
    t = s.topic()
    for data in (GOOD, batch(b"x", crc=1), GOOD, b"", GOOD):
        s.send("Produce", v, produce(t, data))
    for _ in range(5):
        s.receive("Produce", v)


@scenario([3, 13])
def pipelined_with_and_without_acks(s, v):
    t = s.topic()
    for acks in (0, 1, 0, -1):
        s.send("Produce", v, produce(t, GOOD, acks=acks))
    ids = s.waiting[0]
    s.waiting[0] = [ids[1], ids[3]]
    s.receive("Produce", v)
    s.receive("Produce", v)


@scenario([3, 13])
def two_connections(s, v):
    t = s.topic()
    for i in range(6):
        s.call("Produce", v, produce(t, batch(b"%d" % i)), conn=i % 2)
    read_back(s, t)
