"""The four compression formats of record batches, as far as tests need them, and CRC-32C.

Compressors write the simplest valid form (snappy, lz4 and zstd store their data as literals); what matters is that a broker must be able to
read it. Decompressors read all of gzip, snappy and lz4; of zstd only stored blocks, since the standard library has no zstd.
"""

import struct
import zlib

from .primitives import Malformed, Reader, unsigned_varint

NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)
XERIAL = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
MASK = 0xFFFFFFFF


def crc_table():
    for n in range(256):
        for _ in range(8):
            n = n >> 1 ^ (0x82F63B78 if n & 1 else 0)
        yield n


CRC_TABLE = tuple(crc_table())


def crc32c(data) -> int:
    crc, table = MASK, CRC_TABLE
    for byte in data:
        crc = crc >> 8 ^ table[(crc ^ byte) & 0xFF]
    return crc ^ MASK


def compress(codec, data) -> bytes:
    return COMPRESSORS[codec](data)


def decompress(codec, data) -> bytes:
    """Raises `Malformed`, also for what it cannot read."""
    try:
        return DECOMPRESSORS[codec](data)
    except (KeyError, IndexError, struct.error, zlib.error) as error:
        raise Malformed(f"codec {codec}: {error!r}") from None


def gzip(data, level=-1):
    """At level 0 the bytes are the same whatever the machine's zlib."""
    squeeze = zlib.compressobj(level, wbits=31)
    return squeeze.compress(data) + squeeze.flush()


def snappy_raw(data):
    out = bytearray(unsigned_varint(len(data)))
    for at in range(0, len(data), 60):
        piece = data[at : at + 60]
        out += bytes([(len(piece) - 1) << 2]) + piece
    return bytes(out)


def snappy(data):
    """In the framing that Kafka's clients use."""
    blocks = [snappy_raw(data[at : at + 32768]) for at in range(0, len(data), 32768)]
    return XERIAL + b"".join(struct.pack(">i", len(block)) + block for block in blocks)


def lz4(data):
    descriptor = b"\x60\x40"  # version 1, independent blocks; blocks of 64 KiB
    out = b"\x04\x22\x4d\x18" + descriptor + bytes([xxh32(descriptor) >> 8 & 0xFF])
    for at in range(0, len(data), 65536):
        piece = data[at : at + 65536]
        out += struct.pack("<I", len(piece) | 1 << 31) + piece
    return out + bytes(4)


def zstd(data):
    out = b"\x28\xb5\x2f\xfd" + b"\xa0" + struct.pack("<I", len(data))  # single segment, 4-byte content size
    pieces = [data[at : at + 65536] for at in range(0, len(data), 65536)] or [b""]
    for i, piece in enumerate(pieces):
        header = len(piece) << 3 | (i == len(pieces) - 1)
        out += struct.pack("<I", header)[:3] + piece
    return out


def gunzip(data):
    return zlib.decompress(data, wbits=31)


def unsnappy(data):
    if not data.startswith(XERIAL[:8]):
        return unsnappy_raw(data)
    out, reader = b"", Reader(data[len(XERIAL) :])
    while reader.left():
        out += unsnappy_raw(reader.raw(reader.get("i")))
    return out


def copy_back(out, distance, length):
    if not 0 < distance <= len(out):
        raise Malformed(f"distance {distance} at {len(out)}")
    for _ in range(length):
        out.append(out[-distance])


def unsnappy_raw(data):
    reader, out = Reader(data), bytearray()
    size = reader.unsigned_varint()
    while reader.left():
        tag = reader.raw(1)[0]
        kind, upper = tag & 3, tag >> 2
        if kind == 0:
            length = upper if upper < 60 else int.from_bytes(reader.raw(upper - 59), "little")
            out += reader.raw(length + 1)
        elif kind == 1:
            copy_back(out, (tag & 0xE0) << 3 | reader.raw(1)[0], (upper & 7) + 4)
        else:
            copy_back(out, int.from_bytes(reader.raw(2 if kind == 2 else 4), "little"), upper + 1)
    if len(out) != size:
        raise Malformed(f"snappy: {len(out)} bytes, {size} promised")
    return bytes(out)


def unlz4(data):
    reader = Reader(data)
    if reader.raw(4) != b"\x04\x22\x4d\x18":
        raise Malformed("lz4 magic")
    flags = reader.raw(2)[0]
    if flags & 0x08:
        reader.raw(8)
    reader.raw(1)
    out = bytearray()
    while size := int.from_bytes(reader.raw(4), "little"):
        block = reader.raw(size & 0x7FFFFFFF)
        if flags & 0x10:
            reader.raw(4)
        if size >> 31:
            out += block
        else:
            unlz4_block(block, out)
    return bytes(out)


def unlz4_block(block, out):
    reader = Reader(block)

    def length(nibble):
        n = nibble
        while nibble == 15:
            more = reader.raw(1)[0]
            n += more
            if more != 255:
                break
        return n

    while reader.left():
        token = reader.raw(1)[0]
        out += reader.raw(length(token >> 4))
        if reader.left():
            distance = int.from_bytes(reader.raw(2), "little")
            copy_back(out, distance, length(token & 15) + 4)


def unzstd(data):
    reader = Reader(data)
    if reader.raw(4) != b"\x28\xb5\x2f\xfd":
        raise Malformed("zstd magic")
    flags = reader.raw(1)[0]
    single = flags >> 5 & 1
    reader.raw((not single) + (0, 1, 2, 4)[flags & 3] + (single, 2, 4, 8)[flags >> 6])
    out, last = b"", False
    while not last:
        header = int.from_bytes(reader.raw(3), "little")
        last, kind, size = header & 1, header >> 1 & 3, header >> 3
        if kind > 1:
            raise Malformed("zstd: a compressed block")
        out += reader.raw(size) if kind == 0 else reader.raw(1) * size
    return out


def rotl(value, bits):
    return (value << bits | value >> 32 - bits) & MASK


def xxh32(data) -> int:
    """Of less than 16 bytes, seed 0: enough for an lz4 frame descriptor."""
    assert len(data) < 16
    value, at = (374761393 + len(data)) & MASK, 0
    while at + 4 <= len(data):
        value = rotl((value + int.from_bytes(data[at : at + 4], "little") * 3266489917) & MASK, 17) * 668265263 & MASK
        at += 4
    for byte in data[at:]:
        value = rotl((value + byte * 374761393) & MASK, 11) * 2654435761 & MASK
    value = (value ^ value >> 15) * 2246822519 & MASK
    value = (value ^ value >> 13) * 3266489917 & MASK
    return value ^ value >> 16


COMPRESSORS = {NONE: bytes, GZIP: gzip, SNAPPY: snappy, LZ4: lz4, ZSTD: zstd}
DECOMPRESSORS = {NONE: bytes, GZIP: gunzip, SNAPPY: unsnappy, LZ4: unlz4, ZSTD: unzstd}
