"""Compares transcripts field by field, and knows which differences are accepted (`differences.toml`)."""

import json
import re
import tomllib
from dataclasses import dataclass

ABSENT = "<absent>"


def differences(expected, actual, path=""):
    """(path, expected, actual) of each leaf that differs."""
    if isinstance(expected, dict) and isinstance(actual, dict):
        for key in expected | actual:
            yield from differences(expected.get(key, ABSENT), actual.get(key, ABSENT), f"{path}.{key}" if path else key)
    elif isinstance(expected, list) and isinstance(actual, list):
        for i in range(max(len(expected), len(actual))):
            pair = [side[i] if i < len(side) else ABSENT for side in (expected, actual)]
            yield from differences(*pair, f"{path}[{i}]")
    elif expected != actual or type(expected) is not type(actual):
        yield path, expected, actual


def transcript_differences(expected, actual):
    """As `differences`, of two lists of [label, outcome] steps; the path starts with the step's number and label."""
    for i in range(max(len(expected), len(actual))):
        (label, want), (other, got) = [side[i] if i < len(side) else [ABSENT, ABSENT] for side in (expected, actual)]
        if label != other:
            yield f"{i + 1}", label, other
            return
        yield from differences(want, got, f"{i + 1} {label}")


def show(value):
    return json.dumps(value, ensure_ascii=False)


@dataclass
class Accepted:
    """A difference that is meant: where (two patterns, each matching in full), why, and what the broker under test says there instead."""

    scenario: str
    path: str
    reason: str
    ottla: object = None
    used: bool = False

    def covers(self, name, path, actual):
        if not re.fullmatch(self.scenario, name) or not re.fullmatch(self.path, path):
            return False
        return self.ottla is None or self.ottla == actual


def load_accepted(file):
    return [Accepted(**entry) for entry in tomllib.loads(file.read_text()).get("difference", [])]
