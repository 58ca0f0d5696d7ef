#!/usr/bin/env python3
"""Prints random messages as Kafka's JSON, for Write.java to serialise: a line {"api", "kind", "version", "json"} each.

usage: generate.py DIRECTORY_OF_SCHEMAS KEY:FIRST-LAST...

For tests/golden/messages.jsonl.zst. Every version of every API named gets a few requests and responses: one with everything empty, the others random, with
nulls where they are allowed, text and arrays long enough for two-byte lengths, and tagged fields now and then.
"""
import base64
import json
import pathlib
import random
import re
import sys

SAMPLES = 5


def contains(versions, version):
    if versions == "none":
        return False
    match = re.fullmatch(r"(\d+)(\+|-(\d+))?", versions)
    low = int(match[1])
    high = 32767 if match[2] == "+" else int(match[3] or low)
    return low <= version <= high


def lower_camel(name):
    return name[0].lower() + name[1:]


class Generator:
    def __init__(self, rng, request, version, empty, commons):
        self.rng, self.request, self.version, self.empty, self.commons = rng, request, version, empty, commons

    def integer(self, bits, signed=True):
        low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
        if self.empty:
            return 0
        pick = self.rng.randrange(4)
        return [0 if not signed else -1, self.rng.randint(0, 100), self.rng.randint(low, high), high][pick]

    def text(self):
        if self.empty:
            return ""
        length = self.rng.choice([1, 3, 12, 12, 12, 12, 130])
        return "".join(self.rng.choice("abcxyz019._-é漢") for _ in range(length))

    def value(self, type_name, field):
        if type_name.startswith("[]"):
            count = 0 if self.empty else self.rng.choice([0, 1, 2, 2, 3, 130 if type_name in ('[]int32', '[]string') and self.rng.random() < 0.1 else 4])
            if field.get("fields") and any(f.get("mapKey") for f in field["fields"]):
                count = min(count, 3)
            return [self.value(type_name[2:], field) for _ in range(count)]
        simple = {
            "bool": lambda: not self.empty and self.rng.random() < 0.5,
            "int8": lambda: self.integer(8),
            "int16": lambda: self.integer(16),
            "uint16": lambda: self.integer(16, signed=False),
            "int32": lambda: self.integer(32),
            "int64": lambda: self.integer(64),
            "float64": lambda: 0.0 if self.empty else self.rng.choice([0.5, -3.25, 1e300]),
            "uuid": lambda: self.uuid(),
            "string": lambda: self.text(),
            "bytes": lambda: self.bytes(),
            "records": lambda: self.bytes(),
        }
        if type_name in simple:
            return simple[type_name]()
        return self.struct(field.get("fields") or self.commons[type_name])

    def bytes(self):
        length = 0 if self.empty else self.rng.choice([0, 1, 61, 200, 700])
        first = self.rng.randrange(256)
        return base64.b64encode(bytes((first + at) % 256 for at in range(length))).decode()

    def uuid(self):
        return base64.urlsafe_b64encode(bytes(16) if self.empty else self.rng.randbytes(16)).decode().rstrip("=")

    def struct(self, fields):
        out = {}
        for field in fields:
            tagged = contains(field.get("taggedVersions", "none"), self.version)
            if not contains(field["versions"], self.version) or (tagged and (self.empty or self.rng.random() < 0.4)):
                continue
            if field["name"] == "ErrorCode":
                out["errorCode"] = 0 if self.empty else self.rng.randint(-1, 133)
                continue
            # A broker answers with empty records, never with null ones.
            nullable = (field["name"] != "Records" or self.request) and contains(field.get("nullableVersions", "none"), self.version)
            if nullable and (self.empty or self.rng.random() < 0.3):
                out[lower_camel(field["name"])] = None
            else:
                out[lower_camel(field["name"])] = self.value(field["type"], field)
        return out


def main():
    directory = pathlib.Path(sys.argv[1])
    schemas = {}
    for path in directory.glob("*.json"):
        schema = json.loads(path.read_text())
        if schema["type"] in ("request", "response"):
            schemas[schema["apiKey"], schema["type"]] = schema
    rng = random.Random(431)
    for argument in sys.argv[2:]:
        key, first, last = map(int, re.fullmatch(r"(\d+):(\d+)-(\d+)", argument).groups())
        for kind in ("request", "response"):
            schema = schemas[key, kind]
            commons = {common["name"]: common["fields"] for common in schema.get("commonStructs", [])}
            for version in range(first, last + 1):
                for sample in range(SAMPLES):
                    message = Generator(rng, kind == "request", version, sample == 0, commons).struct(schema["fields"])
                    line = {"api_key": key, "kind": kind, "version": version, "json": message}
                    print(json.dumps(line, separators=(",", ":"), ensure_ascii=False))


main()
