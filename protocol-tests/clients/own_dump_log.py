"""`kafka-dump-log` under the program's own hand, beside Kafka's, on files that are missing, damaged or none, and on odd command lines: exit
statuses and what is printed of it. What goes to standard error is not compared: Kafka's are stack traces.

Where the two differ on purpose, docs/tools.md says so.
"""

import shutil
import subprocess
import zlib
from struct import pack

from .own_tools import expect_none
from .suite import test

LOG = "00000000000000000000.log"
INDEX, TIME_INDEX, TXN_INDEX = (LOG.replace(".log", suffix) for suffix in (".index", ".timeindex", ".txnindex"))


def varint(number):
    number, text = number << 1 ^ number >> 63, b""
    while number >= 128:
        text, number = text + bytes([number & 127 | 128]), number >> 7
    return text + bytes([number])


def record(offset, key, value):
    fields = b"".join(varint(-1) if field is None else varint(len(field)) + field for field in (key, value))
    body = b"\0\0" + varint(offset) + fields + b"\0"
    return varint(len(body)) + body


def batch(*records, base=0, attributes=0, body=None, count=None):
    """Its checksum is wrong, which stops neither tool."""
    count = len(records) if count is None else count
    behind = pack(">Ihiqqqhii", 7, attributes, max(count - 1, 0), 1000 + base, 1000 + base, -1, -1, -1, count)
    behind += b"".join(records) if body is None else body
    return pack(">qiib", base, len(behind) + 5, 0, 2) + behind


def old(magic, key_size=1):
    body = bytes([magic, 0]) + (pack(">q", 5) if magic else b"") + pack(">i", key_size) + b"k" + pack(">i", 1) + b"v"
    return pack(">qiI", 0, len(body) + 4, zlib.crc32(body)) + body


def changed(data, at, by):
    return data[:at] + by + data[at + len(by):]


def cases():
    """Names, files and what stands on the command line behind them; `None` is a directory."""
    one = batch(record(0, b"k", b"v"))
    four = b"".join(batch(record(0, b"k", b"v"), base=n) for n in range(4))
    size = len(four) // 4
    logs = {
        "empty": b"", "cut": one[:-5], "cut in its header": one[:30], "zeros behind": one + bytes(200), "garbage behind": one + b"\1" * 20,
        "magic 7": changed(one, 16, b"\7") + one, "magic -1": changed(one, 16, b"\xff"), "codec 7": batch(record(0, b"k", b"v"), attributes=7),
        "no gzip": batch(attributes=1, body=b"xxxx", count=1), "length 5": changed(one, 8, pack(">i", 5)), "length 40": changed(one, 8, pack(">i", 40)),
        "more records": batch(record(0, b"k", b"v"), count=3), "fewer records": batch(record(0, b"k", b"v"), record(1, b"k", b"v"), count=1),
        "negative count": batch(record(0, b"k", b"v"), count=-1), "marker": batch(record(0, b"\0\0\0\1", pack(">hi", 0, 7)), attributes=0x30),
        "short marker": batch(record(0, b"\0\0\0\1", b"\0"), attributes=0x30), "no footer": batch(record(0, b"\0\0\0\4", b"\0\0"), attributes=0x30),
        "v0 and v1": old(0) + old(1) + one, "old key too long": old(1, 100), "magic 1": changed(one, 16, b"\1"),
    }
    for name, data in logs.items():
        yield name, {LOG: data}, ["--files", LOG]
        yield name, {LOG: data}, ["--print-data-log", "--files", LOG]
    keys = [b"", b"\0", b"\0\2", b"\0\2\0", b"\0\2\0\5g", b"\0\2\xff\xff", b"\0\2\0\1g", b"\0\3\2g", b"\0\3\0", b"\x7f\xff", None]
    values = [None, b"", b"\0", b"\0\3\0\1x", b"\0\0\xff\xff", b"\0\x63"]
    for decoder in ("offsets", "transaction-log", "share-group-state", "cluster-metadata"):
        for key in keys:
            records = [record(n, key, value) for n, value in enumerate(values)]
            yield decoder, {LOG: batch(*records)}, [f"--{decoder}-decoder", "--files", LOG]
    indexes = {
        "": b"", "good": pack(">4i", 1, size, 2, 2 * size), "zeros": bytes(40), "odd": pack(">2i", 1, size) + b"x", "wrong": pack(">2i", 1, 2 * size),
        "between": pack(">2i", 1, size + 7), "outside": pack(">2i", 1, 9999), "negative": pack(">2i", 1, -1), "back": pack(">4i", 1, size, -3, size),
    }
    times = {"": b"", "good": pack(">qiqi", 1001, 1, 1002, 2), "wrong": pack(">qi", 5, 1), "odd": b"x", "falling": pack(">qiqi", 1002, 2, 1001, 1)}
    for options in ([], ["--verify-index-only"], ["--index-sanity-check"]):
        for name, data in indexes.items():
            yield f"index {name}", {LOG: four, INDEX: data}, [*options, "--files", INDEX]
        for name, data in times.items():
            yield f"time index {name}", {LOG: four, INDEX: indexes["good"], TIME_INDEX: data}, [*options, "--files", TIME_INDEX]
        yield "no log", {INDEX: b"", TIME_INDEX: b""}, [*options, "--files", INDEX]
        yield "no index", {LOG: four, TIME_INDEX: times["good"]}, [*options, "--files", TIME_INDEX]
    yield "damage behind", {LOG: four + bytes(200), INDEX: b"", TIME_INDEX: times["good"]}, ["--files", TIME_INDEX]
    for version in (0, 1, 256, -1):
        yield f"version {version}", {TXN_INDEX: pack(">hqqqq", version, 1, 2, 3, 4)}, ["--files", TXN_INDEX]
    for suffix in (".log", ".index", ".timeindex", ".txnindex", ".snapshot", ".checkpoint", ".other", ""):
        for name in ("00000000000000000007", "00000000000000000007-0000000003", "x", "-7", "+7"):
            yield f"missing {name}{suffix}", {}, ["--files", name + suffix]
            yield f"directory {name}{suffix}", {name + suffix: None}, ["--files", name + suffix]
    for line in COMMAND_LINES.strip().splitlines():
        yield line, {LOG: four}, line.split(" ")


COMMAND_LINES = f"""
--deep-iteration
--files
--files {LOG} --files {LOG}
--files {LOG},
--files ,{LOG}
--files {LOG},nope.log,{LOG}
--files {LOG},nope,{LOG}
--files ,
-files {LOG} --print
--files={LOG} --print-data-log=no --deep-iteration --deep-iteration
--files {LOG} --nonesuch
--files {LOG} something else
--files {LOG} -- --nonesuch
--files {LOG} --max-bytes
--files {LOG} --max-bytes x
--files {LOG} --max-bytes -1
--files {LOG} --max-bytes 0
--files {LOG} --max-bytes 100
--files {LOG} --max-bytes 1 --max-bytes 2
--files nope --max-bytes x
--files {LOG} --max-message-size x
--files {LOG} --key-decoder-class
--files {LOG} --value-decoder-class nonesuch
--files {LOG} --value-decoder-class kafka.serializer.StringDecoder
--files {LOG} --value-decoder-class org.apache.kafka.tools.api.LongDecoder
--files {LOG} --offsets-decoder --key-decoder-class nonesuch
--files {LOG} --skip-record-metadata --print-data-log
--version
--help --version
"""


@test(ottla_only=True)
def odd_files_and_command_lines(run):
    folder, binary = run.folder / "d", run.session.broker().binary
    differences = []
    for name, files, words in cases():
        seen = []
        for side in ("ottla's", "kafka's"):
            # Kafka's makes an index that is not there.
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            for file, data in files.items():
                if data is None:
                    (folder / file).mkdir()
                else:
                    (folder / file).write_bytes(data)
            arguments = list(words)
            for at, word in enumerate(words):
                before = "--files=" if word.startswith("--files=") else ""
                if before or (at and words[at - 1] in ("--files", "-files")):
                    named = word.removeprefix(before).split(",")
                    arguments[at] = before + ",".join(f"{folder}/{file}" if file else "" for file in named)
            if side == "kafka's":
                status, printed, _ = run.tools.output("kafka-dump-log", arguments, "", 90, fresh=False)
            else:
                done = subprocess.run([binary, "kafka-dump-log", *arguments], stdin=subprocess.DEVNULL, capture_output=True, timeout=90)
                status, printed = done.returncode, done.stdout.decode(errors="replace")
            seen.append(f"exit status {status}\n{printed}")
        if seen[0] != seen[1]:
            differences.append(f"{name}: {' '.join(words)}\nottla: {seen[0]}\nkafka: {seen[1]}")
    expect_none(differences)
