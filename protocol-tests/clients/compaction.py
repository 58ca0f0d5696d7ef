"""Compaction, beside Apache Kafka's: the same records are kept, and each goes on cleaning what the other has cleaned."""

import collections
import random
import subprocess

from . import interchange, machine
from .interchange import compare, table, unpack
from .java import CODECS, dump
from .suite import equal, eventually, test, within

SETTINGS = {
    "auto.create.topics.enable": "false",
    "log.initial.task.delay.ms": "300",
    "log.retention.check.interval.ms": "300",  # Kafka's cleaner waits for it, too
    "log.cleaner.backoff.ms": "200",
    "log.cleaner.dedupe.buffer.size": "4000000",
    "log.segment.delete.delay.ms": "1",
    # As old as the fixtures' records may be: their producers must be known, or their last batches go.
    "producer.id.expiration.ms": "2000000000",
}
SMALL = {"cleanup.policy": "compact", "internal.segment.bytes": 10_000, "segment.index.bytes": 4096, "index.interval.bytes": 400,
         "min.cleanable.dirty.ratio": 0.01}


def checkpoint(data):
    """{topic-partition: the offset up to which it is clean}"""
    path = data / "cleaner-offset-checkpoint"
    lines = path.read_text().splitlines()[2:] if path.exists() else []
    return {f"{topic}-{partition}": int(offset) for topic, partition, offset in map(str.split, lines)}


def bases(data, partition):
    return sorted(int(path.stem) for path in (data / partition).glob("*.log"))


def is_clean(data, *partitions):
    """All but the segment that is written to, and nothing of it is left over."""
    clean = checkpoint(data)
    for partition in partitions:
        equal(clean.get(partition), bases(data, partition)[-1], f"clean up to here: {partition}")
        left = [path.name for path in (data / partition).iterdir() if path.suffix in (".cleaned", ".swap", ".deleted")]
        equal(left, [], f"left over in {partition}")


@test(own_broker=True)
def as_kafka_did(run):
    """A directory of Kafka's before compaction; what a consumer finds afterwards is what Kafka's own cleaner had kept."""
    data = unpack(run, "compacted-before")
    topics = ["compact-0", "compact-no-tombstones-0", "compact-delete-0", "compact-txn-0"]
    def of_these(offsets):
        return {name: row for name, row in offsets.items() if name in topics}
    wanted = of_these(table((interchange.FIXTURES / "compacted-after.offsets.tsv").read_text()))
    with run.new_broker("first", data=data, settings=SETTINGS) as broker:
        eventually(lambda: is_clean(data, *topics), 30)
        compare(of_these(interchange.offsets(run, broker)), wanted, "cleaned by the broker")
        broker.stop()
    with run.kafka(data=data, settings=SETTINGS) as kafka:
        compare(of_these(interchange.offsets(run, kafka)), wanted, "Kafka after it")


@test(own_broker=True)
def compaction_tester(run):
    """Kafka's own torture test of compaction: what it has produced, beside what a consumer group gets of it."""
    segments = {"log.segment.bytes": "1048576", "log.cleaner.min.cleanable.ratio": "0.01"}
    with run.new_broker("first", settings={**SETTINGS, **segments, "offsets.topic.replication.factor": "1"}) as broker:
        options = {"messages": 120_000, "topics": 2, "duplicates": 10, "percent-deletes": 20, "compression-type": "lz4", "sleep": 2}
        words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
        command = [machine.java(), f"-Dlog4j2.configurationFile={machine.HERE}/clients/log4j2-tools.properties", "-cp", f"{machine.kafka_jars()}/*",
                   "org.apache.kafka.tools.LogCompactionTester", "--bootstrap-server", broker.bootstrap, *words]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, f"{done.stdout[-1500:]}{done.stderr[-1500:]}"
        within("0 mismatches", done.stdout)
        within("Data verification is completed", done.stdout)
        partitions = [path.name for path in broker.data.glob("log-cleaner-test-*")]
        equal(len(partitions), 2)
        eventually(lambda: is_clean(broker.data, *partitions), 30)
        broker.stop()


class Keyed:
    """Keyed records in a topic, and what must be left of them."""

    def __init__(self, run, topic, seed):
        self.run, self.topic, self.random = run, topic, random.Random(seed)
        self.last = {}  # key → value, None behind a tombstone
        self.sent = 0

    def write(self, count, codec):
        lines = ["dead|alive\n", "dead|\n"] if self.sent == 0 else []  # of this key nothing comes any more
        for _ in range(count):
            key = f"k{self.random.randrange(150)}"
            value = None if self.random.random() < 0.1 else f"{self.sent}-" + "v" * self.random.randrange(100)
            self.last[key] = value
            lines.append(f"{key}|{value or ''}\n")
            self.sent += 1
        self.run.kcat("-P", "-t", self.topic, "-p", 0, "-K", "|", "-Z", "-z", codec, "-X", "enable.idempotence=true",
                      "-X", "batch.num.messages=40", input="".join(lines))

    def check(self):
        """A reader from the start ends with the last value of each key. Returns how many records it got."""
        found, count = {}, 0
        for line in self.run.kcat("-C", "-q", "-t", self.topic, "-p", 0, "-o", "beginning", "-e", "-Z", "-f", "%k|%s\n").splitlines():
            key, _, value = line.partition("|")
            found[key] = None if value == "NULL" else value
            count += 1
        alive = {key: value for key, value in found.items() if value is not None}
        equal(alive, {key: value for key, value in self.last.items() if value is not None})
        return count


def dumped(run, data, partition):
    """Kafka's own tool reads the partition's files and finds nothing wrong. Returns how often each key is in the clean part, and the
    keys of the tombstones there."""
    files = sorted(path for path in (data / partition).iterdir() if path.suffix in (".log", ".index", ".timeindex") and path.stat().st_size)
    printed = dump(run, "--deep-iteration", "--print-data-log", files=files)
    for complaint in ("Found", "Mismatches", "not sorted", "not a valid", "corrupt", "isvalid: false"):
        assert complaint not in printed, printed[-2000:]
    clean = checkpoint(data)[partition]
    keys, tombstones = collections.Counter(), set()
    for line in printed.splitlines():
        if line.startswith("| offset: ") and int(line.split()[2]) < clean:
            key = line.split(" key: ")[1].split(" payload: ")[0]
            keys[key] += 1
            if " valueSize: -1 " in line:
                tombstones.add(key)
    return keys, tombstones


@test(own_broker=True)
def cleaned_by_turns(run):
    """The broker cleans, Kafka's tools read it, Kafka starts on it, writes on and cleans; then the broker again."""
    data = run.folder / "data"
    topics = {}
    with run.new_broker("first", data=data, settings=SETTINGS) as broker:
        run.use(broker)
        for name, extra in {"kept": {}, "gone": {"delete.retention.ms": 0}, "both": {"cleanup.policy": "compact,delete"}}.items():
            configs = [f"--config={key}={value}" for key, value in {**SMALL, **extra}.items()]
            run.java("kafka-topics", "--create", "--topic", name, *configs)
            topics[name] = Keyed(run, name, name)
        for round, codec in enumerate([*CODECS, "none"]):
            for topic in topics.values():
                topic.write(400, codec)
        partitions = [f"{name}-0" for name in topics]
        eventually(lambda: is_clean(data, *partitions), 30)
        for topic in topics.values():
            assert topic.check() < topic.sent / 2, f"{topic.topic} is not compacted"
        before = interchange.offsets(run, broker)
        broker.stop()
    for partition in partitions:
        keys, _ = dumped(run, data, partition)
        assert keys and max(keys.values()) == 1, f"keys that are twice in the clean part of {partition}: {keys.most_common(3)}"
    with run.kafka(data=data, settings=SETTINGS) as kafka:
        compare(interchange.offsets(run, kafka), before, "Kafka after the broker")
        for topic in topics.values():
            eventually(lambda: topic.write(400, "lz4"))
            topic.write(400, "none")
        eventually(lambda: is_clean(data, *partitions), 60)
        for topic in topics.values():
            topic.check()
        before = interchange.offsets(run, kafka)
        kafka.stop()
    with run.new_broker("second", data=data, settings=SETTINGS) as broker:
        compare(interchange.offsets(run, broker), before, "the broker after Kafka")
        for topic in topics.values():
            topic.write(400, "zstd")
            topic.write(400, "none")
        eventually(lambda: is_clean(data, *partitions), 30)
        for topic in topics.values():
            topic.check()
        broker.stop()
    for partition in partitions:
        keys, tombstones = dumped(run, data, partition)
        assert keys and max(keys.values()) == 1, f"{partition}: {keys.most_common(3)}"
        equal("dead" in tombstones, partition != "gone-0", f"whether the tombstone is there in {partition}")
