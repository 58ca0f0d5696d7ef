#!/usr/bin/env python3
"""Damages the requests of messages.jsonl and prints lines "KEY VERSION HEX" for Read.java to judge.

usage: mutate.py COUNT < messages.jsonl

For tests/golden/mutated.txt.zst: a line for each way in which bytes can be wrong or odd, lengths and counts above all.
"""
import json
import random
import sys

LONGEST = 120


def damage(rng, body):
    body = bytearray(body) or bytearray(1)
    for _ in range(rng.randrange(1, 4)):
        at = rng.randrange(len(body))
        pick = rng.randrange(9)
        if pick == 0:
            body[at] = rng.choice([0, 0x80, 0xFF, rng.randrange(256)])
        elif pick == 1:
            body = body[: max(at, 1)]
        elif pick == 2:
            body.insert(at, rng.randrange(256))
        elif pick == 3 and len(body) > 1:
            del body[at]
        elif pick == 4:
            body[at : at + 2] = b"\xff\xff"
        elif pick == 5:
            body[at : at + 4] = b"\xff\xff\xff\xfe"
        elif pick == 6:
            body[at] = (body[at] + 1) % 256
        elif pick == 7:
            body[-1] = rng.randrange(4)
            body += bytes(rng.randrange(5) for _ in range(rng.randrange(6)))
        else:
            body[at:at] = b"\xff\xff\xff\xff" + bytes([rng.randrange(16)])
    return bytes(body)


def main():
    rng = random.Random(433)
    seeds = {}
    for line in sys.stdin:
        message = json.loads(line)
        if message["kind"] == "request" and len(message["hex"]) <= 2 * LONGEST:
            seeds.setdefault((message["api_key"], message["version"]), []).append(bytes.fromhex(message["hex"]))
    for _ in range(int(sys.argv[1])):
        (key, version), bodies = rng.choice(list(seeds.items()))
        print(key, version, damage(rng, rng.choice(bodies)).hex())


main()
