"""Kafka's primitive types: big-endian integers, varints, strings, bytes, arrays and uuids.

The reader is strict, as a test's reader must be: it raises `Malformed` on anything that a well-behaved peer does not send.
"""

import base64
import struct

ZERO_UUID = "A" * 22


class Malformed(Exception):
    """Bytes that are not what the schema says."""


def uuid_text(raw: bytes) -> str:
    """The 22-character form in which Kafka prints ids."""
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def uuid_bytes(text: str) -> bytes:
    raw = base64.urlsafe_b64decode(text + "==")
    if len(raw) != 16:
        raise ValueError(f"not a Kafka uuid: {text}")
    return raw


def unsigned_varint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def signed_varint(value: int) -> bytes:
    """Zigzag, for 32 and 64 bits alike."""
    return unsigned_varint(value << 1 if value >= 0 else (-value << 1) - 1)


class Writer:
    """Collects bytes. `put` takes a `struct` format without its byte order."""

    def __init__(self):
        self.out = bytearray()

    def put(self, fmt, value):
        self.out += struct.pack(">" + fmt, value)

    def raw(self, data):
        self.out += data

    def length(self, n, flexible, wide):
        """The length of a string (`wide` false: int16), bytes or an array (int32); -1 is null."""
        if flexible:
            self.raw(unsigned_varint(n + 1 & 0xFFFFFFFF))
        else:
            self.put("i" if wide else "h", n)


class Reader:
    def __init__(self, data: bytes):
        self.data = data
        self.at = 0

    def left(self):
        return len(self.data) - self.at

    def raw(self, n) -> bytes:
        if n < 0 or n > self.left():
            raise Malformed(f"{n} bytes wanted at {self.at}, {self.left()} left")
        self.at += n
        return self.data[self.at - n : self.at]

    def get(self, fmt):
        fmt = ">" + fmt
        return struct.unpack(fmt, self.raw(struct.calcsize(fmt)))[0]

    def unsigned_varint(self, bits=32) -> int:
        value = shift = 0
        while True:
            byte = self.raw(1)[0]
            value |= (byte & 0x7F) << shift
            if not byte & 0x80:
                break
            shift += 7
            if shift >= bits:
                raise Malformed("varint too long")
        if value >> bits:
            raise Malformed("varint too large")
        return value

    def signed_varint(self, bits=32) -> int:
        value = self.unsigned_varint(bits)
        return (value >> 1) ^ -(value & 1)

    def length(self, flexible, wide) -> int:
        """As `Writer.length`; -1 is null, anything below is malformed."""
        n = self.unsigned_varint() - 1 if flexible else self.get("i" if wide else "h")
        if n < -1:
            raise Malformed(f"length {n}")
        return n
