"""Data directories change hands between the broker and Apache Kafka: each serves what the other has written.

The fixtures under tests/golden/fixtures are directories of Kafka 4.3.1; what Kafka itself said of each once it had started on a copy
stands beside it, in the form that `franz-go offsets` prints. The leader epoch there is left out: it counts Kafka's own starts.
"""

import subprocess

from . import brokers, machine
from .java import dump
from .suite import equal, eventually, matches, test, within

FIXTURES = machine.HERE.parent / "tests/golden/fixtures"
SETTINGS = {"auto.create.topics.enable": "false"}
DYNAMIC_QUORUM = {"controller.quorum.voters": None, "controller.quorum.bootstrap.servers": "127.0.0.1:9"}  # a lone voter asks nobody


def table(text):
    """TSV → {topic-partition: {column: value}}"""
    lines = [line.split("\t") for line in text.splitlines()]
    rows = [dict(zip(lines[0], line, strict=True)) for line in lines[1:]]
    for row in rows:
        del row["leader_epoch"]
    return {f"{row['topic']}-{row['partition']}": row for row in rows}


def compare(got, wanted, what):
    equal(sorted(got), sorted(wanted), f"the partitions, {what}")
    differences = [f"{place}: {got[place]}, not {row}" for place, row in wanted.items() if got[place] != row]
    assert not differences, f"{what}:\n" + "\n".join(differences)


def unpack(run, name):
    folder = run.folder / name
    folder.mkdir()
    with open(folder / "data.tar", "wb") as tar:
        subprocess.run([machine.program("zstd"), "-q", "-d", "-c", FIXTURES / f"{name}.tar.zst"], stdout=tar, check=True)
    subprocess.run(["tar", "-C", folder, "-xf", folder / "data.tar"], check=True)
    return folder / "data"


def offsets(run, broker):
    run.use(broker)
    return table(run.franz_go("offsets"))


def fixture(run, name):
    """The broker serves the fixture as Kafka did; then Kafka, started on what the broker leaves, still does."""
    wanted = table((FIXTURES / f"{name}.offsets.tsv").read_text())
    data = unpack(run, name)
    with run.new_broker("first", data=data, settings=SETTINGS) as broker:
        compare(offsets(run, broker), wanted, "at first")
        broker.stop()
        broker.start()
        compare(offsets(run, broker), wanted, "after a restart")
        broker.stop()
    with run.kafka(data=data, settings=SETTINGS) as kafka:
        compare(offsets(run, kafka), wanted, "Kafka after it")


@test(own_broker=True)
def fixture_plain(run):
    fixture(run, "plain")


@test(own_broker=True)
def fixture_deleted_records(run):
    fixture(run, "deleted-records")


@test(own_broker=True)
def fixture_unclean(run):
    fixture(run, "unclean")


@test(own_broker=True)
def fixture_metadata(run):
    wanted = table((FIXTURES / "metadata.offsets.tsv").read_text())
    data = unpack(run, "metadata")
    with run.new_broker("first", data=data, settings=SETTINGS) as broker:
        compare(offsets(run, broker), wanted, "at first")
        has_metadata(run)
        run.create_topic("created-here", 3, retention_ms=123456)
        run.java("kafka-topics", "--delete", "--topic", "late-0")
        broker.stop()
    with run.kafka(data=data, settings=SETTINGS) as kafka:
        run.use(kafka)
        has_metadata(run)
        topics = run.java("kafka-topics", "--list").split()
        assert "created-here" in topics and "late-0" not in topics, topics
        within("retention.ms=123456", run.java("kafka-configs", "--entity-type", "topics", "--entity-name", "created-here", "--describe"))


def has_metadata(run):
    """What was configured in that directory."""
    configs = {"md-2": ["max.message.bytes=100002", "segment.ms=86400000"], "md-3": ["max.message.bytes=100003", "cleanup.policy=delete,compact"]}
    for topic, pairs in configs.items():
        printed = run.java("kafka-configs", "--entity-type", "topics", "--entity-name", topic, "--describe")
        for pair in pairs:
            within(f"  {pair} sensitive=false", printed)
    assert "segment.ms" not in run.java("kafka-configs", "--entity-type", "topics", "--entity-name", "md-3", "--describe")
    within("num.io.threads=4 sensitive=false", run.java("kafka-configs", "--entity-type", "brokers", "--entity-name", "1", "--describe"))


@test(own_broker=True)
def fixture_formatted(run):
    """A directory that Kafka's tool formatted, for a dynamic quorum, and that no broker has started on yet."""
    data = unpack(run, "formatted")
    cluster_id = matches(r"^cluster.id=(\S+)", (data / "meta.properties").read_text())[1]
    settings = {**SETTINGS, **DYNAMIC_QUORUM}
    with run.new_broker("first", data=data, settings=settings) as broker:
        run.use(broker)
        within(f"Cluster ID: {cluster_id}\n", run.tools("kafka-cluster", "cluster-id", "--bootstrap-server", run.bootstrap))
        run.create_topic("first")
        run.kcat("-P", "-t", "first", "-p", 0, input="a\nb\n")
        broker.stop()
        broker.start()
        equal(run.kcat("-C", "-q", "-t", "first", "-o", "beginning", "-e"), "a\nb\n")
        broker.stop()
    with run.kafka(data=data, settings=settings) as kafka:
        run.use(kafka)
        equal(run.kcat("-C", "-q", "-t", "first", "-o", "beginning", "-e"), "a\nb\n")


@test(own_broker=True)
def kafka_goes_on(run):
    """Kafka starts on a directory that the broker has written, reads the same and writes on; then the broker does."""
    data = run.folder / "data"
    with run.new_broker("first", data=data, settings=SETTINGS) as broker:
        run.use(broker)
        run.franz_go("fill")
        written = offsets(run, broker)
        equal(len(written), 10)
        broker.stop()
        indexes_are_sound(run, data)
    with run.kafka(data=data, settings=SETTINGS) as kafka:
        compare(offsets(run, kafka), written, "Kafka after the broker")
        eventually(lambda: run.kcat("-P", "-t", "filled", "-p", 0, "-z", "lz4", "-X", "enable.idempotence=true", input="one\nmore\n" * 500))
        run.create_topic("by-kafka", 2)
        run.kcat("-P", "-t", "by-kafka", "-p", 1, input="x\n")
        written = offsets(run, kafka)
        kafka.stop()
    with run.new_broker("second", data=data, settings=SETTINGS) as broker:
        compare(offsets(run, broker), written, "the broker after Kafka")
        equal(run.kcat("-C", "-q", "-t", "filled", "-p", 0, "-o", -2, "-e"), "one\nmore\n")
        broker.stop()


@test(own_broker=True)
def kafka_recovers(run):
    """Kafka recovers what the broker has left behind when it was killed, and the broker itself recovers the same."""
    data = run.folder / "data"
    settings = {**SETTINGS, "log.initial.task.delay.ms": "500", "log.flush.start.offset.checkpoint.interval.ms": "500"}
    with run.new_broker("first", data=data, settings=settings) as broker:
        run.use(broker)
        run.franz_go("fill")
        written = offsets(run, broker)
        checkpoint = data / "log-start-offset-checkpoint"  # log start offsets are kept by this file alone, from time to time
        eventually(lambda: within("filled-deleted 0 ", checkpoint.read_text() if checkpoint.exists() else ""))
        broker.kill()
    brokers.copy_data(data, run.folder / "copy")
    with run.kafka(data=run.folder / "copy", settings=SETTINGS) as kafka:
        compare(offsets(run, kafka), written, "Kafka after a kill")
        kafka.kill()
    with run.new_broker("second", data=data, settings=SETTINGS) as broker:
        compare(offsets(run, broker), written, "the broker after a kill")
        broker.stop()
    with run.new_broker("third", data=run.folder / "copy", settings=SETTINGS) as broker:
        compare(offsets(run, broker), written, "the broker after Kafka was killed too")
        broker.stop()


def indexes_are_sound(run, data):
    """DumpLogSegments holds each index against its log."""
    files = [path for path in sorted(data.glob("filled*/*")) if path.suffix in (".index", ".timeindex") and path.stat().st_size]
    assert files, "no index has an entry"
    printed = dump(run, files=files)
    for complaint in ("Found", "Mismatches", "not sorted", "not a valid", "corrupt"):
        assert complaint not in printed, printed[-2000:]
    entries = sum(line.startswith("offset: ") for line in printed.splitlines())
    assert entries > 100, f"{entries} index entries for some megabytes:\n{printed[:2000]}"
