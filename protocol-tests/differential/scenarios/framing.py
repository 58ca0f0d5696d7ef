"""Bytes below the level of requests: frames, headers, keys and versions that no client should send."""

import struct

from kafka_wire import messages
from scenario import scenario

CLIENT = {"ClientSoftwareName": "differential", "ClientSoftwareVersion": "1.0"}
# ApiVersions v0: without a body, and the same on every broker but for the list
HELLO = messages.request("ApiVersions", 0, {})
# (lowest, highest) that is served
SERVED = {
    "Produce": (3, 13),
    "Fetch": (4, 18),
    "ListOffsets": (1, 11),
    "Metadata": (0, 13),
    "FindCoordinator": (0, 6),
    "CreateTopics": (2, 7),
    "DeleteTopics": (1, 6),
    "DeleteRecords": (0, 2),
    "InitProducerId": (0, 5),
    "OffsetForLeaderEpoch": (2, 4),
    "DescribeConfigs": (1, 4),
    "AlterConfigs": (0, 2),
    "CreatePartitions": (0, 3),
    "IncrementalAlterConfigs": (0, 1),
    "DescribeCluster": (0, 2),
    "DescribeTopicPartitions": (0, 0),
}


def framed(data):
    return struct.pack(">i", len(data)) + data


def answers_still(s, conn=0, note="afterwards"):
    s.call("ApiVersions", 0, {}, conn, note, without=["ApiKeys"])


@scenario(cases={"zero": 0, "minus one": -1, "lowest": -(1 << 31), "one above the limit": 104857601, "highest": (1 << 31) - 1})
def length(s, length):
    s.raw(struct.pack(">i", length))
    s.ending()
    answers_still(s, conn="another")


@scenario(cases={"at the limit": 104857600, "1 MiB": 1 << 20})
def long_frame_that_does_not_come(s, length):
    s.raw(struct.pack(">i", length) + HELLO)
    s.quiet_for(0.5)
    answers_still(s, conn="another")


@scenario(cases={"zero": 0, "negative": -5, "too long": 104857601})
def bad_length_after_a_good_request(s, length):
    s.send("ApiVersions", 0, {})
    s.raw(struct.pack(">i", length))
    s.receive("ApiVersions", 0, without=["ApiKeys"])
    s.ending()


@scenario(cases={"2 of the length": 2, "the length alone": 4, "half the header": 9, "all but one byte": len(HELLO) + 3})
def partial_frame_and_end(s, n):
    s.raw(framed(HELLO)[:n])
    s.finish()
    s.ending()


@scenario()
def whole_frame_and_end(s):
    """A request that is complete before the client stops sending."""
    s.send("ApiVersions", 0, {})
    s.finish()
    s.receive("ApiVersions", 0, without=["ApiKeys"])
    s.ending()


@scenario()
def byte_by_byte(s):
    for byte in framed(HELLO):
        s.raw(bytes([byte]))
    s.receive("ApiVersions", 0, without=["ApiKeys"])


@scenario(cases=[1, 3, 5, 13, 17])
def split(s, at):
    data = framed(HELLO) * 2
    s.raw(data[:at])
    s.quiet_for(0.1)
    s.raw(data[at:])
    s.receive("ApiVersions", 0, without=["ApiKeys"])
    s.receive("ApiVersions", 0, without=["ApiKeys"])


@scenario(cases={f"{n} bytes": n for n in range(1, 14)})
def short_frame(s, n):
    """A frame that ends within the header; at 10 bytes the header is whole, with a null client id."""
    s.frame(bytes.fromhex("0012 0000 00000007 ffff".replace(" ", "")).ljust(14, b"\0")[:n])
    s.ending(without=n >= 10)


@scenario(cases={"HTTP": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", "zeros": bytes(64), "ones": b"\xff" * 64,
                 "TLS": bytes.fromhex("16030100c8010000c40303") + bytes(200), "text": b"hello, broker\n"})
def not_kafka(s, data):
    s.raw(data)
    s.ending()
    answers_still(s, conn="another")


@scenario(cases=[93, 94, 100, 1000, 32767, -1, -2, -32768])
def unknown_api(s, key):
    s.frame(struct.pack(">hhih", key, 0, 7, -1))
    s.ending()


@scenario(cases=[4, 5, 6, 7])
def retired_api(s, key):
    s.frame(struct.pack(">hhih", key, 0, 7, -1) + bytes(20))
    s.ending()


@scenario(cases=[52, 53, 54, 56, 58, 59, 62, 63, 67, 70, 73, 82])
def api_of_the_controller_only(s, key):
    s.frame(struct.pack(">hhih", key, 0, 7, -1) + bytes(20))
    s.ending()


@scenario(cases={f"{api} {what} v{v}": (api, v) for api, (low, high) in SERVED.items()
                 for what, v in (("below", low - 1), ("above", high + 1), ("far above", high + 100), ("lowest", -32768))})
def version_not_served(s, which):
    api, v = which
    answers_still(s, note="before")
    s.frame(struct.pack(">hhihb", messages.api_key(api), v, 7, -1, 0) + bytes(40))
    s.ending()


@scenario(cases=[0, 1, 2])
def old_produce(s, v):
    """Advertised for the sake of old clients, and not served."""
    s.frame(struct.pack(">hhih", 0, v, 7, -1) + struct.pack(">hii", -1, 1000, 0))
    s.ending()


@scenario(cases={api: api for api in SERVED})
def empty_body(s, api):
    low, high = SERVED[api]
    for v in range(low, high + 1):
        tags = b"\0" if messages.message(api + "Request").is_flexible(v) else b""
        s.frame(struct.pack(">hhih", messages.api_key(api), v, 7, -1) + tags, conn=v)
        s.ending(conn=v, note=f"v{v}")


@scenario(cases={api: api for api in SERVED})
def body_of_ones(s, api):
    """Every count and length at its largest or below zero."""
    low, high = SERVED[api]
    for v in range(low, high + 1):
        tags = b"\0" if messages.message(api + "Request").is_flexible(v) else b""
        s.frame(struct.pack(">hhih", messages.api_key(api), v, 7, -1) + tags + b"\xff" * 60, conn=v)
        s.receive(api, v, conn=v, without=["Topics"])


# each claims far more elements than there are bytes
COUNT_BOMBS = {
    "Metadata v1": "0003000100000000ffff7fffffff",
    "Metadata v12": "0003000c00000000ffff00ffffffff0f",
    "Produce v9": "0000000900000000ffff0000ffff00000000ffffffff0f",
    "Produce v3": "0000000300000000ffffffffffff000000007fffffff",
    "Fetch v4": "0001000400000000ffffffffffff00000000000000007fffffff007fffffff",
    "CreateTopics v7": "0013000700000000ffff00ffffffff0f",
    "header tags": "0012000300000000ffffffffffff0f",
    "varint of six bytes": "0003000c00000000ffff00ffffffffff0f",
    "varint of eleven bytes": "0003000c00000000ffff00ffffffffffffffffffff0f",
}


@scenario(cases=COUNT_BOMBS)
def count_bomb(s, text):
    s.frame(bytes.fromhex(text))
    s.ending()
    answers_still(s, conn="another")


CLIENT_IDS = {
    "length minus two": struct.pack(">h", -2),
    "lowest length": struct.pack(">h", -32768),
    "longer than the frame": struct.pack(">h", 100) + b"abc",
    "not utf8": struct.pack(">h", 3) + b"\xff\xfe\xfd",
    "zero bytes": struct.pack(">h", 3) + b"\0\0\0",
    "longest": struct.pack(">h", 32767) + b"c" * 32767,
}


@scenario(cases=CLIENT_IDS)
def client_id(s, field):
    s.frame(struct.pack(">hhi", 18, 0, 1) + field)
    s.receive("ApiVersions", 0, without=["ApiKeys"])
    answers_still(s, conn="another")


@scenario(cases=[0, -1, 2147483647, -2147483648])
def correlation_id(s, number):
    s.frame(struct.pack(">hhih", 18, 0, number, -1))
    s.waiting[0] = [number]
    s.receive("ApiVersions", 0, without=["ApiKeys"])


@scenario()
def same_correlation_id_twice(s):
    s.raw(framed(HELLO) * 2)
    s.receive("ApiVersions", 0, without=["ApiKeys"])
    s.receive("ApiVersions", 0, without=["ApiKeys"])


@scenario()
def bad_request_after_good_ones(s):
    """What came before is still answered; what comes after is not."""
    s.raw(framed(HELLO) * 3 + framed(struct.pack(">hhih", 99, 0, 7, -1)) + framed(HELLO))
    for _ in range(4):
        s.receive("ApiVersions", 0, without=["ApiKeys"])


@scenario()
def many_pipelined(s):
    s.raw(framed(HELLO) * 200)
    for _ in range(200):
        s.connection(0).receive()
    answers_still(s)


@scenario()
def order_of_answers(s):
    """A long poll holds back what is asked behind it on the same connection, and on no other."""
    t = s.topic()
    fetch = {"MaxWaitMs": 600, "MinBytes": 1, "Topics": [{"Topic": t.name, "Partitions": [{"Partition": 0, "PartitionMaxBytes": 1000}]}]}
    s.send("Fetch", 4, fetch)
    s.send("ApiVersions", 0, {})
    answers_still(s, conn="another", note="meanwhile")
    s.quiet_for(0.2)
    s.receive("Fetch", 4)
    s.receive("ApiVersions", 0, without=["ApiKeys"])


HEADER_TAGS = {
    "unknown": b"\x01\x07\x02ab",
    "two": b"\x02\x07\x00\x09\x01x",
    "twice the same": b"\x02\x07\x00\x07\x01x",
    "descending": b"\x02\x09\x00\x07\x01x",
    "high number": b"\x01\xff\xff\xff\xff\x0f\x00",
    "longer than the frame": b"\x01\x07\x7fab",
    "more claimed than there are": b"\x05\x07\x00",
    "negative count": b"\xff\xff\xff\xff\x0f",
    "overlong zero": b"\x80\x80\x00",
    "overlong varint": b"\x80\x80\x80\x80\x80\x80\x00",
}


@scenario(cases=HEADER_TAGS)
def header_tags(s, tags):
    s.frame(struct.pack(">hhih", 60, 0, 1, -1) + tags + b"\x00\x00")
    s.receive("DescribeCluster", 0)


@scenario()
def connect_and_leave(s):
    for n in range(20):
        s.connection(n).close()
    answers_still(s, conn="another")


@scenario()
def leave_before_the_answer(s):
    for n in range(5):
        s.send("Metadata", 12, {"Topics": []}, conn=n)
        s.connection(n).close()
    answers_still(s, conn="another")
