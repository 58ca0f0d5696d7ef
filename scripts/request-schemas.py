#!/usr/bin/env python3
"""Prints src/protocol/schema/requests.rs from Kafka's message schemas.

usage: scripts/request-schemas.py DIRECTORY_OF_JSON | rustfmt > src/protocol/schema/requests.rs

DIRECTORY_OF_JSON holds a NAMERequest.json for each API, in Kafka's schema language (its comments removed).
tests/golden_corpus.rs holds the table to the schemas it has copies of.
"""
import json
import pathlib
import re
import sys

FIXED = {"bool": 1, "int8": 1, "int16": 2, "uint16": 2, "int32": 4, "int64": 8, "float64": 8, "uuid": 16}
HAND_WRITTEN = {"ProduceRequest", "FetchRequest"}


def snake(name):
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def versions(text):
    match = re.fullmatch(r"(\d+)(\+|-(\d+))?", text)
    low = int(match[1])
    if match[2] == "+":
        return "ALWAYS" if low == 0 else f"since({low})"
    return f"between({low}, {match[3] or low})"


def kind(type_name, field, commons):
    if type_name.startswith("[]"):
        return f"Array(&{kind(type_name[2:], field, commons)})"
    if type_name in FIXED:
        return f"Fixed({FIXED[type_name]})"
    if type_name == "string":
        return "String"
    if type_name in ("bytes", "records"):
        return "Bytes"
    return f"Struct(&[{fields(field.get('fields') or commons[type_name], commons)}])"


def fields(schema, commons):
    out = []
    for field in schema:
        text = f'field("{snake(field["name"])}", {kind(field["type"], field, commons)}, {versions(field["versions"])})'
        if "nullableVersions" in field:
            text += f".nullable({versions(field['nullableVersions'])})"
        if "tag" in field:
            text += f".tagged({field['tag']}, {versions(field['taggedVersions'])})"
        out.append(text)
    return ", ".join(out)


def main():
    print("//! The layout of every request of Kafka 4.3.1 but Produce and Fetch, ascending by API key.")
    print("//!")
    print("//! Written by scripts/request-schemas.py; not to be edited.")
    print()
    print("use super::Kind::{Array, Bytes, Fixed, String, Struct};")
    print("use super::{ALWAYS, RequestSchema, between, field, request, since};")
    print("use crate::protocol::versions::ApiKey;")
    print()
    print("pub const REQUESTS: &[RequestSchema] = &[")
    schemas = [json.loads(path.read_text()) for path in pathlib.Path(sys.argv[1]).glob("*Request.json")]
    for schema in sorted(schemas, key=lambda schema: schema["apiKey"]):
        if schema["validVersions"] == "none" or schema["name"] in HAND_WRITTEN:
            continue
        commons = {common["name"]: common["fields"] for common in schema.get("commonStructs", [])}
        name = schema["name"].removesuffix("Request")
        print(f"request(ApiKey::{name}, &[{fields(schema['fields'], commons)}]),")
    print("];")


main()
