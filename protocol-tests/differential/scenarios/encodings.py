"""Values that the wire can hold and clients do not send: strings that are no text, odd booleans, varints longer than needed, odd tags."""

from bodies import create_topics, fetch, list_offsets, metadata, new_topic, produce
from kafka_wire import messages
from kafka_wire.batches import EPOCH_2023, Record, batch
from kafka_wire.messages import Raw
from kafka_wire.primitives import unsigned_varint
from scenario import Topic, scenario

NOT_TEXT = {
    "lone continuation": b"a\x80b",
    "cut sequence": b"ab\xc3",
    "overlong": b"\xc0\xaf",
    "surrogate": b"\xed\xa0\x80",
    "beyond unicode": b"\xf5\x80\x80\x80",
    "ones": b"\xff\xff\xff",
    "mixed": b"a\xffb\xfec",
    "three of four": b"\xf0\x9f\x98x",
}
TEXT = {"emoji": "\U0001f600", "combining": "e\u0301", "zero": "\0", "byte order mark": "\ufeffa", "right to left": "\u202ea"}


@scenario([4, 9, 13], cases=NOT_TEXT)
def topic_name_that_is_no_text(s, v, name):
    s.call("Metadata", v, metadata(name))


@scenario([4, 13], cases=TEXT)
def odd_text_as_topic_name(s, v, name):
    s.call("Metadata", v, metadata(name))


@scenario([2, 7], cases=NOT_TEXT | TEXT)
def new_topic_name_that_is_no_text(s, v, name):
    s.call("CreateTopics", v, create_topics(new_topic(name), validate_only=True))


@scenario([2, 7], cases=NOT_TEXT | TEXT)
def setting_that_is_no_text(s, v, text):
    s.call("CreateTopics", v, create_topics(new_topic(s.name("a"), configs={text: "1"}), validate_only=True))
    s.call("CreateTopics", v, create_topics(new_topic(s.name("b"), configs={"retention.ms": text}), validate_only=True))


@scenario([3, 9, 12], cases=NOT_TEXT)
def produce_to_no_text(s, v, name):
    s.call("Produce", v, produce(Topic(name, None), batch(b"x")))


@scenario([4, 12], cases=NOT_TEXT)
def fetch_from_no_text(s, v, name):
    s.call("Fetch", v, fetch(Topic(name, None)))


@scenario([1, 11], cases=NOT_TEXT)
def list_offsets_of_no_text(s, v, name):
    s.call("ListOffsets", v, list_offsets(Topic(name, None)))


@scenario([1, 6], cases=NOT_TEXT)
def delete_no_text(s, v, name):
    s.call("DeleteTopics", v, {"TopicNames": [name], "Topics": [{"Name": name}], "TimeoutMs": 1000})


@scenario([1, 4], cases=NOT_TEXT)
def describe_no_text(s, v, name):
    s.call("DescribeConfigs", v, {"Resources": [{"ResourceType": 2, "ResourceName": name}]})
    s.call("DescribeConfigs", v, {"Resources": [{"ResourceType": 4, "ResourceName": name}]})


@scenario([3, 4], cases=NOT_TEXT)
def software_that_is_no_text(s, v, name):
    s.call("ApiVersions", v, {"ClientSoftwareName": name, "ClientSoftwareVersion": "1"}, without=["ApiKeys", "SupportedFeatures", "FinalizedFeatures"])


# --- lengths of strings


@scenario([9, 13], cases=[32766, 32767, 32768, 40000, 65536])
def length_of_compact_string(s, v, n):
    """A string has 32767 bytes at most, however its length is written."""
    answer = s.call("Metadata", v, metadata("x" * n), without=["Topics"])
    s.record("error", answer and answer["Topics"][0]["ErrorCode"])


@scenario([3, 8], cases=[-1, -2, -100, -32768])
def negative_length_of_nullable_string(s, v, n):
    t = s.topic()
    s.call("Produce", v, produce(t, batch(b"x")) | {"TransactionalId": Raw(n.to_bytes(2, "big", signed=True))})


@scenario([4, 8], cases=[-1, -2, -32768])
def negative_length_of_string(s, v, n):
    s.call("Metadata", v, {"Topics": [Raw(n.to_bytes(2, "big", signed=True))]})


@scenario([1, 8], cases=[-1, -2, -2147483648])
def negative_length_of_nullable_array(s, v, n):
    s.call("Metadata", v, {"Topics": Raw(n.to_bytes(4, "big", signed=True)), "AllowAutoTopicCreation": False}, without=["Topics"])


@scenario([4, 11], cases=[-1, -2, -2147483648])
def negative_length_of_array(s, v, n):
    s.call("Fetch", v, fetch(Topic("x", None)) | {"Topics": Raw(n.to_bytes(4, "big", signed=True))})


# --- booleans


@scenario([4, 8, 13], cases=[2, 127, -1, -128])
def odd_boolean(s, v, byte):
    """Anything but zero is true."""
    s.until(lambda a: not a["Topics"][0]["ErrorCode"], "Metadata", v, {"Topics": [{"Name": s.name()}], "AllowAutoTopicCreation": byte})


@scenario([2, 7], cases=[2, -1])
def odd_boolean_in_create_topics(s, v, byte):
    s.call("CreateTopics", v, create_topics(new_topic(s.name()), validate_only=byte), without=["Topics"])
    s.call("Metadata", 12, metadata(s.name()))


# --- varints


def padded(value, size):
    """A varint in more bytes than it needs."""
    out = bytearray(unsigned_varint(value))
    while len(out) < size:
        out[-1] |= 0x80
        out.append(0)
    return bytes(out)


@scenario([9, 13], cases=[2, 3, 4, 5, 6, 10])
def padded_varints(s, v, size):
    name = s.name().encode()
    topic = (bytes(16) if v >= 10 else b"") + padded(len(name) + 1, size) + name + b"\0"
    s.call("Metadata", v, {"Topics": Raw(padded(2, size) + topic), "AllowAutoTopicCreation": False})


@scenario([9, 13], cases={"too large": b"\xff\xff\xff\xff\x7f", "just too large": b"\xff\xff\xff\xff\x1f", "largest": b"\xff\xff\xff\xff\x0f",
                          "highest positive": b"\xff\xff\xff\xff\x07", "six bytes": b"\x82\x80\x80\x80\x80\x00", "no end": b"\x80" * 12})
def odd_count(s, v, count):
    s.call("Metadata", v, {"Topics": Raw(count), "AllowAutoTopicCreation": False}, without=["Topics"])


# --- tags


def tags(*pairs):
    return unsigned_varint(len(pairs)) + b"".join(unsigned_varint(t) + unsigned_varint(len(d)) + d for t, d in pairs)


TAGS = {
    "none": tags(),
    "one": tags((7, b"abc")),
    "descending": tags((9, b"a"), (3, b"b")),
    "twice": tags((7, b"a"), (7, b"b")),
    "empty": tags((7, b"")),
    "highest": b"\x01\xff\xff\xff\xff\x0f\x00",
    "beyond the highest": b"\x01\xff\xff\xff\xff\x1f\x00",
    "many": tags(*((i, b"x") for i in range(500))),
    "negative count": b"\xff\xff\xff\xff\x0f",
    "lowest count": b"\x80\x80\x80\x80\x08",
    "count without tags": b"\x03",
    "negative size": b"\x01\x07\xff\xff\xff\xff\x0f",
    "size past the end": b"\x01\x07\x20abc",
    "huge size": b"\x01\x07\xff\xff\xff\xff\x07abc",
    "padded count": b"\x80\x80\x00",
    "six bytes of count": b"\x80\x80\x80\x80\x80\x00",
    "missing": b"",
}


def raw_request(api, v, body, section):
    """A request whose last tag section is replaced."""
    frame = messages.request(api, v, body, 5)
    assert frame.endswith(b"\0")
    return frame[:-1] + section


@scenario(cases=TAGS)
def tags_of_describe_cluster(s, section):
    s.frame(raw_request("DescribeCluster", 2, {}, section))
    s.receive("DescribeCluster", 2)


@scenario(cases=TAGS)
def tags_of_metadata(s, section):
    s.frame(raw_request("Metadata", 13, metadata(s.name()), section))
    s.receive("Metadata", 13)


FETCH_TAGS = {
    "null cluster": tags((0, b"\0")),
    "cluster": tags((0, b"\x02a")),
    "cluster twice": tags((0, b"\x02a"), (0, b"\x02b")),
    "cluster with a byte more": tags((0, b"\x02a\0")),
    "cluster with a byte less": tags((0, b"\x05ab")),
    "replica": tags((1, b"\xff\xff\xff\xff" + b"\xff" * 8 + b"\0")),
    "replica cut": tags((1, b"\xff\xff\xff\xff")),
    "replica empty": tags((1, b"")),
    "replica with a byte more": tags((1, b"\xff\xff\xff\xff" + b"\xff" * 8 + b"\0\0")),
    "both": tags((0, b"\0"), (1, b"\xff\xff\xff\xff" + b"\xff" * 8 + b"\0")),
    "both in the wrong order": tags((1, b"\xff\xff\xff\xff" + b"\xff" * 8 + b"\0"), (0, b"\0")),
    "unknown between": tags((0, b"\0"), (5, b"zz"), (1, b"\xff\xff\xff\xff" + b"\xff" * 8 + b"\0")),
}


@scenario([15, 18], cases=FETCH_TAGS)
def known_tags_of_fetch(s, v, section):
    t = s.topic()
    s.frame(raw_request("Fetch", v, fetch(t), section))
    s.receive("Fetch", v)


# --- sums over a request


@scenario([2, 7], cases={"within": (4000, 4000), "beyond": (6000, 6000), "at the limit": (5000, 5000), "one beyond": (5000, 5001)})
def partitions_of_a_request(s, v, counts):
    topics = [new_topic(s.name(f"t{i}"), n) for i, n in enumerate(counts)]
    answer = s.call("CreateTopics", v, create_topics(*topics, validate_only=True), without=["Topics"])
    s.record("errors", [[t["ErrorCode"], t["ErrorMessage"]] for t in answer["Topics"]])


@scenario([4, 12, 18])
def fetch_of_many_partitions(s, v):
    t = s.topic(partitions=60)
    for p in (0, 30, 59):
        s.quiet("Produce", 9, produce(t, batch(b"in %d" % p), partition=p))
    body = fetch(t)
    body["Topics"][0]["Partitions"] = [{"Partition": p, "FetchOffset": 0, "PartitionMaxBytes": 1000} for p in reversed(range(60))]
    s.call("Fetch", v, body)


@scenario([4, 13])
def longest_wait(s, v):
    t = s.topic()
    s.quiet("Produce", 9, produce(t, batch(b"x")))
    s.call("Fetch", v, fetch(t, max_wait_ms=2147483647))


@scenario([3, 13])
def many_records(s, v):
    """In one batch; then a search inside it."""
    t = s.topic()
    s.call("Produce", v, produce(t, batch(*(Record(b"v%d" % i, timestamp_delta=i) for i in range(3000)))))
    for at in (0, 1500, 2999, 3000):
        s.call("ListOffsets", 7, list_offsets(t, EPOCH_2023 + at))
    s.call("Fetch", 11, fetch(t, 1500), without=["Responses"])
