"""Encodes and decodes any message at any version, driven by the schemas in `../schemas`.

A body is a dict with the schema's field names (first letter upper case throughout). Encoding:
- a field that the body leaves out takes its default; a field that the version lacks is left out, so one body serves all versions;
- a field that no version has is a `KeyError`: a typing error in a test must not pass unseen;
- nothing is validated, since tests send broken requests: `None` is written as null even where the schema allows none, versions beyond
  the schema's are written by its newest rules, and three values go further:
  `Raw(bytes)` stands for a whole encoded field, `Counted(n, items)` is an array that claims n items,
  and the key `_tags: [(tag, bytes), ...]` of any structure adds tagged fields.

Decoding is strict (`primitives.Malformed`), and reports unknown tagged fields as `_tags` and left-over bytes as `_left`.
"""

import json
import pathlib
from functools import cache

from .primitives import Malformed, Reader, Writer, ZERO_UUID, unsigned_varint, uuid_bytes, uuid_text

SCHEMAS = pathlib.Path(__file__).resolve().parent.parent / "schemas"
NEVER = (1, 0)
NUMBERS = {"int8": "b", "int16": "h", "uint16": "H", "int32": "i", "uint32": "I", "int64": "q", "float64": "d"}


class Raw(bytes):
    """Bytes to be written in place of a field."""


class Counted:
    """An array that claims `count` elements, whatever `items` holds."""

    def __init__(self, count, items=()):
        self.count, self.items = count, items


def parse_range(text):
    """`3+`, `0-2`, `4`, `none` → (first, last)."""
    if not text or text == "none":
        return NEVER
    if text.endswith("+"):
        return int(text[:-1]), 1 << 15
    first, _, last = text.partition("-")
    return int(first), int(last or first)


def within(version, versions):
    return versions[0] <= version <= versions[1]


class Field:
    def __init__(self, spec, structs):
        self.name = spec["name"][0].upper() + spec["name"][1:]
        self.versions = parse_range(spec.get("versions", "0+"))
        self.nullable = parse_range(spec.get("nullableVersions"))
        self.tagged = parse_range(spec.get("taggedVersions"))
        self.flexible = parse_range(spec["flexibleVersions"]) if "flexibleVersions" in spec else None
        self.tag = spec.get("tag")
        kind = spec["type"]
        self.array = kind.startswith("[]")
        self.kind = kind.removeprefix("[]")
        self.struct = None
        if self.kind not in NUMBERS and self.kind not in ("bool", "string", "bytes", "records", "uuid"):
            self.struct = Struct(spec.get("fields") or structs[self.kind], structs)
            self.kind = "struct"
        self.default = self.parse_default(spec.get("default"))

    def parse_default(self, text):
        if text == "null":
            return None
        if self.array:
            return []
        if self.kind == "struct":
            return {}
        if self.kind in NUMBERS:
            return (float if self.kind == "float64" else lambda t: int(str(t), 0))(text or 0)
        if self.kind == "bool":
            return str(text).lower() == "true"
        if self.kind == "uuid":
            return ZERO_UUID
        return b"" if self.kind in ("bytes", "records") else text or ""


class Struct:
    def __init__(self, specs, structs):
        self.fields = [Field(spec, structs) for spec in specs]
        self.names = {f.name for f in self.fields} | {"_tags"}
        self.plan = cache(self.plan)

    def plan(self, version):
        """The version's fields: (in order, by tag)."""
        present = [f for f in self.fields if within(version, f.versions)]
        return (
            [f for f in present if not within(version, f.tagged)],
            {f.tag: f for f in present if within(version, f.tagged)},
        )


class Message:
    def __init__(self, spec):
        structs = {s["name"]: s["fields"] for s in spec.get("commonStructs", ())}
        self.name = spec["name"]
        self.key = spec.get("apiKey")
        self.versions = parse_range(spec["validVersions"])
        self.flexible = parse_range(spec.get("flexibleVersions"))
        self.struct = Struct(spec["fields"], structs)

    def is_flexible(self, version):
        return within(version, self.flexible)

    def encode(self, version, body) -> bytes:
        writer = Writer()
        write_struct(writer, self.struct, version, self.is_flexible(version), body)
        return bytes(writer.out)

    def decode(self, version, data) -> dict:
        reader = Reader(data)
        body = self.read(version, reader)
        if reader.left():
            body["_left"] = reader.data[reader.at :]
        return body

    def read(self, version, reader) -> dict:
        return read_struct(reader, self.struct, version, self.is_flexible(version))


@cache
def message(name) -> Message:
    """`message("FetchRequest")`, by the name of its schema file."""
    return Message(json.loads((SCHEMAS / f"{name}.json").read_text()))


@cache
def api_key(api) -> int:
    return message(api + "Request").key


def request(api, version, body, correlation_id=1, client_id="test", header_tags=()) -> bytes:
    """A request frame without its length: header and body."""
    header = {"RequestApiKey": api_key(api), "RequestApiVersion": version, "CorrelationId": correlation_id, "ClientId": client_id,
              "_tags": list(header_tags)}
    schema = message(api + "Request")
    return message("RequestHeader").encode(2 if schema.is_flexible(version) else 1, header) + schema.encode(version, body)


def response(api, version, frame) -> tuple[int, dict]:
    """(correlation id, body) of a response frame without its length."""
    schema = message(api + "Response")
    reader = Reader(frame)
    flexible_header = schema.is_flexible(version) and api != "ApiVersions"  # a client cannot know the version of this answer yet
    header = message("ResponseHeader").read(1 if flexible_header else 0, reader)
    body = schema.decode(version, reader.raw(reader.left()))
    if "_tags" in header:
        body["_header_tags"] = header["_tags"]
    return header["CorrelationId"], body


def write_struct(writer, struct, version, flexible, body):
    if unknown := body.keys() - struct.names:
        raise KeyError(f"no such field: {sorted(unknown)}")
    plain, by_tag = struct.plan(version)
    for field in plain:
        write_field(writer, field, version, flexible, body.get(field.name, field.default))
    if not flexible:
        return
    tagged = []
    for tag, field in sorted(by_tag.items()):
        value = body.get(field.name, field.default)
        if value != field.default:
            inner = Writer()
            # within a tagged field null is said by the value itself
            write_field(inner, field, version, True, value)
            tagged.append((tag, bytes(inner.out)))
    tagged += body.get("_tags", ())
    writer.raw(unsigned_varint(len(tagged)))
    for tag, data in tagged:
        writer.raw(unsigned_varint(tag) + unsigned_varint(len(data)) + data)


def write_field(writer, field, version, flexible, value):
    if isinstance(value, Raw):
        writer.raw(value)
        return
    if field.flexible is not None:
        flexible = within(version, field.flexible)
    if field.array:
        if value is None:
            writer.length(-1, flexible, True)
            return
        count, items = (value.count, value.items) if isinstance(value, Counted) else (len(value), value)
        writer.length(count, flexible, True)
        for item in items:
            write_value(writer, field, version, flexible, item)
        return
    if field.kind == "struct" and within(version, field.nullable):
        writer.put("b", -1 if value is None else 1)
        if value is None:
            return
    write_value(writer, field, version, flexible, value)


def write_value(writer, field, version, flexible, value):
    kind = field.kind
    if isinstance(value, Raw):
        writer.raw(value)
    elif kind == "struct":
        write_struct(writer, field.struct, version, flexible, value)
    elif kind in NUMBERS:
        writer.put(NUMBERS[kind], value)
    elif kind == "bool":
        writer.put("b", int(value))
    elif kind == "uuid":
        writer.raw(uuid_bytes(value))
    elif value is None:
        writer.length(-1, flexible, kind != "string")
    else:
        data = value.encode() if kind == "string" and isinstance(value, str) else value
        writer.length(len(data), flexible, kind != "string")
        writer.raw(data)


def read_struct(reader, struct, version, flexible):
    plain, by_tag = struct.plan(version)
    body = {field.name: read_field(reader, field, version, flexible) for field in plain}
    if not flexible:
        return body
    for field in by_tag.values():
        body[field.name] = field.default
    last = -1
    for _ in range(reader.unsigned_varint()):
        tag = reader.unsigned_varint()
        data = reader.raw(reader.unsigned_varint())
        if tag <= last:
            raise Malformed(f"tag {tag} after {last}")
        last = tag
        if tag not in by_tag:
            body.setdefault("_tags", []).append([tag, data])
            continue
        inner = Reader(data)
        body[by_tag[tag].name] = read_field(inner, by_tag[tag], version, True)
        if inner.left():
            raise Malformed(f"{inner.left()} bytes left over in tag {tag}")
    return body


def read_field(reader, field, version, flexible):
    if field.flexible is not None:
        flexible = within(version, field.flexible)
    nullable = within(version, field.nullable)
    if field.array:
        count = reader.length(flexible, True)
        if count < 0:
            return not_null(field, nullable)
        return [read_value(reader, field, version, flexible, False) for _ in range(count)]
    if field.kind == "struct" and nullable:
        mark = reader.get("b")
        if mark < 0:
            return None
    return read_value(reader, field, version, flexible, nullable)


def read_value(reader, field, version, flexible, nullable):
    kind = field.kind
    if kind == "struct":
        return read_struct(reader, field.struct, version, flexible)
    if kind in NUMBERS:
        return reader.get(NUMBERS[kind])
    if kind == "bool":
        byte = reader.raw(1)[0]
        if byte > 1:
            raise Malformed(f"{field.name}: {byte} is no bool")
        return bool(byte)
    if kind == "uuid":
        return uuid_text(reader.raw(16))
    n = reader.length(flexible, kind != "string")
    if n < 0:
        return not_null(field, nullable)
    data = reader.raw(n)
    if kind != "string":
        return data
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise Malformed(f"{field.name}: not UTF-8") from None


def not_null(field, nullable):
    if not nullable:
        raise Malformed(f"{field.name} is null")
    return None
