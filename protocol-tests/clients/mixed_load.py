"""A directory with a load of every kind changes hands: Ottla writes it, Kafka's tools check it, Kafka goes on with it, then Ottla, then Kafka.

`--data-set-mb` says how large it gets; 2000 takes some minutes.
"""

import collections
import json
import subprocess

from . import machine
from .data_set import CODECS
from .interchange import compare, offsets
from .java import dump
from .suite import equal, eventually, matches, test
from .tools import findings
from .transactions import producer

SETTINGS = {
    "auto.create.topics.enable": "false",
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "2",
    "log.initial.task.delay.ms": "300",
    "log.retention.check.interval.ms": "300",
    "log.cleaner.backoff.ms": "200",
    "log.segment.delete.delay.ms": "1",
}
RECORD = 1000
KEYS = 500
PARTITIONS = 2


class Load:
    def __init__(self, run):
        self.run = run
        self.share = run.session.data_set_mb * 1_000_000 // RECORD // (len(CODECS) + 3)  # records for each topic of a whole load
        self.writers = 0

    def create(self):
        for codec in CODECS:
            self.run.create_topic(f"bulk-{codec}", PARTITIONS, segment_bytes=max(1 << 20, self.share * RECORD // 8))
        self.run.create_topic("compacted", PARTITIONS, cleanup_policy="compact", segment_bytes=1 << 20, min_cleanable_dirty_ratio=0.1)
        self.run.create_topic("deleted", PARTITIONS, segment_bytes=1 << 20)
        self.run.create_topic("transactional", PARTITIONS, segment_bytes=1 << 20)

    def write(self, part):
        """`part` of a whole load."""
        self.writers += 1
        count = max(1000, int(self.share * part))
        for codec in CODECS:
            self.perf(f"bulk-{codec}", count, f"compression.type={codec}")
        self.perf("bulk-zstd", count // 10, "compression.type=zstd", transactional=True)
        self.keyed(count)
        self.perf("deleted", count, "compression.type=lz4")
        self.delete_half()
        self.transactions(count)

    def perf(self, topic, count, *properties, transactional=False):
        words = ["--transactional-id", f"perf-{self.writers}", "--transaction-duration-ms", 100] if transactional else []
        printed = eventually(lambda: self.run.tools(
            "kafka-producer-perf-test", "--topic", topic, "--num-records", count, "--record-size", RECORD, "--throughput", -1, *words,
            "--command-property", f"bootstrap.servers={self.run.bootstrap}", "acks=all", *properties, timeout=600))
        matches(rf"^{count} records sent, ", printed)

    def keyed(self, count):
        for partition in range(PARTITIONS):
            lines = [f"key-{n % KEYS}|{'v' * (RECORD - 100)}{self.writers}-{n}\n" for n in range(count // PARTITIONS)]
            lines.append(f"key-{self.writers}|\n")  # a tombstone
            self.run.kcat("-P", "-t", "compacted", "-p", partition, "-K|", "-Z", "-z", CODECS[self.writers % len(CODECS)],
                          input="".join(lines), timeout=600)

    def delete_half(self):
        ends = self.run.java("kafka-get-offsets", "--topic", "deleted")
        wanted = [{"topic": "deleted", "partition": int(partition), "offset": int(end) // 2} for _, partition, end in (line.split(":") for line in ends.split())]
        file = self.run.folder / "deletion.json"
        file.write_text(json.dumps({"partitions": wanted, "version": 1}))
        self.run.java("kafka-delete-records", "--offset-json-file", file)

    def transactions(self, count):
        """Twenty, of which each third is aborted."""
        writer = producer(self.run, f"writer-{self.writers}")
        for number in range(20):
            writer.begin_transaction()
            for n in range(count // 20):
                writer.produce("transactional", f"{self.writers}-{number}-{n}-{'t' * (RECORD - 100)}", partition=n % PARTITIONS)
                if n % 1000 == 0:
                    writer.poll(0)
            if writer.flush(120):
                raise AssertionError("not all of a transaction was acknowledged")
            if number % 3 == 0:
                writer.abort_transaction(60)
            else:
                writer.commit_transaction(60)

    def compacted(self):
        """The last value of each key, partition by partition."""
        return [self.last_values(partition) for partition in range(PARTITIONS)]

    def last_values(self, partition):
        command = [machine.program("kcat"), "-b", self.run.bootstrap, "-C", "-q", "-t", "compacted", "-p", str(partition), "-o", "beginning", "-e", "-Z",
                   "-f", "%k|%s\n"]
        last = {}
        with subprocess.Popen(command, stdout=subprocess.PIPE) as reader:
            for line in reader.stdout:
                key, _, value = line.partition(b"|")
                last[key] = value
        equal(reader.returncode, 0, "kcat's exit status")
        return dict(sorted(item for item in last.items() if item[1] != b"NULL\n"))


def files_are_sound(run, data):
    of_kind = collections.defaultdict(list)
    for path in sorted(data.glob("*/*")):
        if path.stat().st_size:
            of_kind[path.suffix].append(path)
    kinds = (".log", ".index", ".timeindex", ".txnindex")
    assert all(of_kind[kind] for kind in kinds), dict(of_kind)
    equal(complaints(run, [path for kind in kinds for path in of_kind[kind]]), [], "what Kafka's tool finds")


def complaints(run, files):
    """What Kafka's DumpLogSegments finds wrong when it reads every batch and record of logs, and holds each index against its log. That
    offsets are missing, as after compaction, is not wrong."""
    indexes = [path for path in files if path.suffix != ".log"]
    found = []
    for options, paths in ((["--deep-iteration", "--verify-index-only"], files), (["--index-sanity-check"], indexes)):
        printed = dump(run, *options, files=paths, timeout=1200) if paths else ""
        file = ""
        for line in printed.splitlines():
            file = line.removeprefix("Dumping ") if line.startswith("Dumping ") else file
            if "isvalid: false" in line:
                found.append(f"{file}: {line}")
        found += [block for block in findings(run.tools.errors()) if not block.startswith("Non-consecutive offsets")] if paths else []
    return found


@test(own_broker=True)
def changes_hands(run):
    data = run.folder / "data"
    load = Load(run)
    with run.new_broker("first", data=data, settings=SETTINGS) as broker:
        run.use(broker)
        run.franz_go("fill")
        load.create()
        load.write(1)
        keys, everything = load.compacted(), all_but_compacted(run, broker)
        broker.stop()
    files_are_sound(run, data)
    for turn, kind in enumerate(["kafka", "ottla", "kafka"]):
        last = turn == 2
        with run.kafka(f"turn-{turn}", data=data, settings=SETTINGS) if kind == "kafka" else run.new_broker(f"turn-{turn}", data=data, settings=SETTINGS) as broker:
            run.use(broker)
            eventually(lambda: compare(all_but_compacted(run, broker), everything, f"turn {turn}, {kind}"))
            equal(load.compacted(), keys, f"the last values in turn {turn}, {kind}")
            if last:
                break
            load.write(0.2)
            keys, everything = load.compacted(), all_but_compacted(run, broker)
            broker.stop()


def all_but_compacted(run, broker):
    """Offsets and digests of what the topics hold, but for what is cleaned meanwhile."""
    return {name: row for name, row in offsets(run, broker).items() if not name.startswith(("__", "compacted"))}
