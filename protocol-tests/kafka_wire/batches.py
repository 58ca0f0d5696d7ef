"""Record batches of format 2, sound and deliberately broken, message sets of formats 0 and 1, and a reader for what a broker sends.

Byte table of a batch: baseOffset 0, batchLength 8, partitionLeaderEpoch 12, magic 16, crc 17 (CRC-32C of 21..end), attributes 21,
lastOffsetDelta 23, baseTimestamp 27, maxTimestamp 35, producerId 43, producerEpoch 51, baseSequence 53, recordsCount 57, records 61.
"""

import struct
import zlib
from dataclasses import dataclass, field

from .codecs import NONE, compress, crc32c, decompress
from .primitives import Malformed, Reader, signed_varint

HEADER = 61
EPOCH_2023 = 1_700_000_000_000  # a fixed time for records, so that recordings repeat
CODEC_BITS, LOG_APPEND_TIME, TRANSACTIONAL, CONTROL, DELETE_HORIZON = 0x07, 0x08, 0x10, 0x20, 0x40


@dataclass
class Record:
    """`None` for a delta means: the record's place in the batch (offset), 0 (timestamp)."""

    value: bytes | None = b"v"
    key: bytes | None = None
    headers: list = field(default_factory=list)
    offset_delta: int | None = None
    timestamp_delta: int = 0
    attributes: int = 0
    length: int | None = None  # what the record claims

    def encode(self, place) -> bytes:
        out = struct.pack(">b", self.attributes)
        out += signed_varint(self.timestamp_delta)
        out += signed_varint(place if self.offset_delta is None else self.offset_delta)
        out += varint_bytes(self.key) + varint_bytes(self.value) + signed_varint(len(self.headers))
        for key, value in self.headers:
            out += varint_bytes(key) + varint_bytes(value)
        return signed_varint(len(out) if self.length is None else self.length) + out


def varint_bytes(data) -> bytes:
    return signed_varint(-1) if data is None else signed_varint(len(data)) + data


def batch(
    *records,
    codec=NONE,
    attributes=0,
    base_offset=0,
    leader_epoch=-1,
    magic=2,
    base_timestamp=EPOCH_2023,
    max_timestamp=None,
    last_offset_delta=None,
    producer_id=-1,
    producer_epoch=-1,
    base_sequence=-1,
    count=None,
    length=None,
    crc=None,
    payload=None,
    trailing=b"",
) -> bytes:
    """A batch. `records` are `Record`s, or bytes for a value alone; the rest overrides what a sound batch of them would say. `payload` replaces
    the (compressed) records, `trailing` is added to the records before compression."""
    records = [Record(value=r) if isinstance(r, bytes) else r for r in records]
    if payload is None:
        payload = compress(codec, b"".join(r.encode(i) for i, r in enumerate(records)) + trailing)
    if max_timestamp is None:
        max_timestamp = base_timestamp + max((r.timestamp_delta for r in records), default=0)
    if last_offset_delta is None:
        last_offset_delta = len(records) - 1
    body = struct.pack(
        ">hiqqqhii",
        codec | attributes,
        last_offset_delta,
        base_timestamp,
        max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        len(records) if count is None else count,
    )
    body += payload
    if crc is None:
        crc = crc32c(body)
    if length is None:
        length = 9 + len(body)
    return struct.pack(">qiibI", base_offset, length, leader_epoch, magic, crc) + body


def old_message(magic, value, key=None, offset=0, timestamp=EPOCH_2023, attributes=0) -> bytes:
    """A message of format 0 or 1, as a message set of one."""
    body = struct.pack(">bb", magic, attributes) + (struct.pack(">q", timestamp) if magic else b"")
    for data in (key, value):
        body += struct.pack(">i", -1 if data is None else len(data)) + (data or b"")
    body = struct.pack(">I", zlib.crc32(body)) + body
    return struct.pack(">qi", offset, len(body)) + body


def read_batches(data) -> list[dict]:
    """What a broker sent in a records field; an incomplete batch at the end is `{"incomplete": bytes}`. Raises `Malformed`."""
    out, at = [], 0
    while at < len(data):
        if len(data) - at < 12:
            out.append({"incomplete": len(data) - at})
            break
        length = struct.unpack_from(">i", data, at + 8)[0]
        if length < 5:
            raise Malformed(f"batch length {length}")
        if at + 12 + length > len(data):
            out.append({"incomplete": len(data) - at})
            break
        out.append(read_batch(data[at : at + 12 + length]))
        at += 12 + length
    return out


def read_batch(data) -> dict:
    magic = data[16]
    if magic != 2 or len(data) < HEADER:
        raise Malformed(f"batch of {len(data)} bytes, magic {magic}")
    base_offset, length, leader_epoch, _, crc = struct.unpack_from(">qiibI", data)
    names = ("attributes", "last_offset_delta", "base_timestamp", "max_timestamp", "producer_id", "producer_epoch", "base_sequence", "count")
    header = dict(zip(names, struct.unpack_from(">hiqqqhii", data, 21)))
    out = {"base_offset": base_offset, "length": length, "leader_epoch": leader_epoch, "crc_holds": crc == crc32c(data[21:])} | header
    codec = header["attributes"] & CODEC_BITS
    try:
        payload = decompress(codec, data[HEADER:])
        out["records"] = read_records(payload, header["count"])
    except Malformed as problem:
        out["payload"] = data[HEADER:]
        out["unreadable"] = str(problem)
    return out


def read_records(payload, count) -> list[dict]:
    reader, out = Reader(payload), []
    while reader.left() and len(out) < count:
        inner = Reader(reader.raw(reader.signed_varint()))
        record = {"attributes": inner.raw(1)[0], "timestamp_delta": inner.signed_varint(64), "offset_delta": inner.signed_varint()}
        record["key"] = read_varint_bytes(inner)
        record["value"] = read_varint_bytes(inner)
        record["headers"] = [[read_varint_bytes(inner), read_varint_bytes(inner)] for _ in range(inner.signed_varint())]
        if inner.left():
            raise Malformed("a record longer than its fields")
        out.append(record)
    if reader.left() or len(out) != count:
        raise Malformed(f"{len(out)} records of {count}, {reader.left()} bytes left")
    return out


def read_varint_bytes(reader):
    n = reader.signed_varint()
    return None if n < 0 else reader.raw(n)
