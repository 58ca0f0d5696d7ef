"""Data directories change hands between the broker and Apache Kafka: each serves what the other has written.

The fixtures under tests/golden/fixtures are directories of Kafka 4.3.1; what Kafka itself said of each once it had started on a copy
stands beside it, in the form that `franz-go offsets` prints. The leader epoch there is left out: it counts Kafka's own starts. What
Kafka said of its groups stands there, too. `fixtures.py` has each of them change hands.
"""

import json
import subprocess

from . import brokers, groups, machine
from .asking import Asking
from .java import dump
from .suite import equal, eventually, test, within

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
    return table(run.franz_go("offsets", timeout=600))


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


def groups_of(broker):
    """Protocol type and type of each group, and what it has committed. States change by themselves: nobody is there any more. Groups
    of console consumers that were given no name are left out."""
    kinds = {group: (protocol_type, kind) for group, (protocol_type, _, kind) in groups.groups(broker.bootstrap).items() if is_named(group)}
    return kinds, {group: offsets for group, offsets in groups.committed(broker.bootstrap).items() if is_named(group)}


def is_named(group):
    return not group.startswith("console-consumer-")


def expected_groups(name):
    """The same, as Kafka told it of a fixture."""
    lines = [line.split("\t") for line in (FIXTURES / f"{name}.groups.tsv").read_text().splitlines()[1:]]
    kinds = {group: (protocol_type, kind) for group, protocol_type, _, kind in lines}
    offsets = {group: {} for group in kinds}
    for line in (FIXTURES / f"{name}.committed.tsv").read_text().splitlines()[1:]:
        group, partition, offset, epoch, metadata, _ = line.split("\t")
        offsets[group][partition] = (int(offset), int(epoch), metadata)
    return kinds, offsets


@test(own_broker=True)
def fixture_groups(run):
    """The broker resumes the groups of Kafka's directory, and Kafka those of the broker's."""
    for name in ["groups", "transactions"]:
        wanted = expected_groups(name)
        data = unpack(run, name)
        with run.new_broker(f"{name}-first", data=data, settings=SETTINGS) as broker:
            equal(groups_of(broker), wanted, f"{name} at first")
            broker.stop()
            broker.start()
            equal(groups_of(broker), wanted, f"{name} after a restart")
            broker.kill()
            broker.start()
            equal(groups_of(broker), wanted, f"{name} after a kill")
            broker.stop()
        with run.kafka(data=data, settings=SETTINGS) as kafka:
            eventually(lambda: equal(groups_of(kafka), wanted, f"{name}: Kafka after it"))
            kafka.stop()


OFFSETS_SETTINGS = {**SETTINGS, "offsets.topic.replication.factor": "1", "offsets.topic.num.partitions": "2", "group.initial.rebalance.delay.ms": "0"}


def commit(ask, version, group, *offsets, **fields):
    topics = [{"Name": topic, "Partitions": [{"PartitionIndex": partition, "CommittedOffset": offset, "CommittedLeaderEpoch": epoch, "CommittedMetadata": metadata}]}
              for topic, partition, offset, epoch, metadata in offsets]
    answer = ask("OffsetCommit", version, {"GroupId": group, "Topics": topics, **fields})
    assert all(partition["ErrorCode"] == 0 for topic in answer["Topics"] for partition in topic["Partitions"]), answer


def formatted(run, formatter):
    """The records of __consumer_offsets as Kafka's formatter of one kind prints them."""
    printed = run.java("kafka-console-consumer", "--topic", "__consumer_offsets", "--from-beginning", "--timeout-ms", 4000,
                       "--formatter", f"org.apache.kafka.tools.consumer.{formatter}")
    records, decoder, at = [], json.JSONDecoder(), printed.find("{")
    while at >= 0:
        record, end = decoder.raw_decode(printed, at)
        if is_named(record["key"]["data"]["group"]):
            records.append(json.dumps(record, sort_keys=True))
        at = printed.find("{", end)
    return sorted(records)


def decoded(run, data):
    """[(key, value)] of __consumer_offsets as DumpLogSegments decodes them."""
    files = sorted(path for folder in data.glob("__consumer_offsets-*") for path in folder.glob("*.log") if path.stat().st_size)
    printed = dump(run, "--offsets-decoder", "--print-data-log", files=files)
    records = []
    for line in printed.splitlines():
        if line.startswith("| offset: ") and " key: " in line:
            key, _, value = line.partition(" key: ")[2].partition(" payload: ")
            records.append((json.loads(key), value if value == "<DELETE>" else json.loads(value)))
    assert records, printed[-2000:]
    return records


@test(own_broker=True)
def groups_change_hands(run):
    """Groups that the broker has written: Kafka's tools decode them, Kafka resumes them and goes on, and then the broker does."""
    data = run.folder / "data"
    with run.new_broker("first", data=data, settings=OFFSETS_SETTINGS) as broker:
        run.use(broker)
        topic = run.create_topic("t", 2)
        run.kcat("-P", "-t", topic, "-p", 0, input="a\nb\nc\n")
        ask = Asking(broker.bootstrap)
        ask("FindCoordinator", 4, {"KeyType": 0, "CoordinatorKeys": ["simple"]})
        commit(ask, 9, "simple", (topic, 0, 3, 7, "noted"), (topic, 1, 5, -1, None))
        commit(ask, 4, "of old", (topic, 0, 4, -1, "kept for a day"), RetentionTimeMs=86_400_000)
        commit(ask, 9, "deleted", (topic, 0, 1, -1, ""))
        commit(ask, 9, "forgetful", (topic, 0, 1, -1, ""), (topic, 1, 2, -1, ""))
        equal(ask("DeleteGroups", 2, {"GroupsNames": ["deleted"]})["Results"][0]["ErrorCode"], 0)
        forget = {"GroupId": "forgetful", "Topics": [{"Name": topic, "Partitions": [{"PartitionIndex": 0}]}]}
        equal(ask("OffsetDelete", 0, forget)["Topics"][0]["Partitions"][0]["ErrorCode"], 0)
        for protocol in ["classic", "consumer"]:
            run.java("kafka-console-consumer", "--topic", topic, "--group", f"by {protocol}", "--from-beginning", "--max-messages", 3,
                     "--timeout-ms", 20000, "--command-property", f"group.protocol={protocol}")
        wanted = groups_of(broker)
        equal(sorted(wanted[0]), ["by classic", "by consumer", "forgetful", "of old", "simple"])
        equal(wanted[1]["simple"], {f"{topic}-0": (3, 7, "noted"), f"{topic}-1": (5, -1, "")})
        equal(wanted[1]["forgetful"], {f"{topic}-1": (2, -1, "")})
        equal({group: wanted[1][group].get(f"{topic}-0", ())[:1] for group in ["by classic", "by consumer"]}, {"by classic": (3,), "by consumer": (3,)})
        by_formatter = {name: formatted(run, name) for name in ["OffsetsMessageFormatter", "GroupMetadataMessageFormatter"]}
        keys = {name: [json.loads(record)["key"]["data"] for record in records] for name, records in by_formatter.items()}
        said = {(key["group"], key["topic"], key["partition"]) for key in keys["OffsetsMessageFormatter"]}
        assert said >= {("simple", topic, 0), ("simple", topic, 1), ("of old", topic, 0), ("by classic", topic, 0), ("by consumer", topic, 0)}, said
        within("by classic", {key["group"] for key in keys["GroupMetadataMessageFormatter"]})
        broker.stop()
    records = decoded(run, data)
    values = {(key["data"]["group"], key["data"]["partition"]): value for key, value in records if key["type"] == "1"}
    equal(values["deleted", 0], "<DELETE>")
    equal(values["forgetful", 0], "<DELETE>")
    simple = values["simple", 0]
    equal((simple["version"], simple["data"]["offset"], simple["data"]["leaderEpoch"], simple["data"]["metadata"]), ("4", 3, 7, "noted"))
    assert simple["data"]["topicId"], simple
    of_old = values["of old", 0]
    equal((of_old["version"], of_old["data"]["expireTimestamp"] - of_old["data"]["commitTimestamp"]), ("1", 86_400_000))
    with run.kafka(data=data, settings=OFFSETS_SETTINGS) as kafka:
        run.use(kafka)
        eventually(lambda: equal(groups_of(kafka), wanted, "Kafka after the broker"))
        equal({name: formatted(run, name) for name in by_formatter}, by_formatter, "the formatters on either")
        commit(Asking(kafka.bootstrap), 9, "simple", (topic, 1, 6, 1, "by Kafka"))
        printed = run.java("kafka-console-consumer", "--topic", topic, "--group", "by consumer", "--timeout-ms", 5000, "--command-property", "group.protocol=consumer")
        equal(printed, "", "nothing is read twice")
        wanted = groups_of(kafka)
        kafka.stop()
    with run.new_broker("second", data=data, settings=OFFSETS_SETTINGS) as broker:
        run.use(broker)
        equal(groups_of(broker), wanted, "the broker after Kafka")
        equal(wanted[1]["simple"][f"{topic}-1"], (6, 1, "by Kafka"))
        printed = run.java("kafka-console-consumer", "--topic", topic, "--group", "by classic", "--timeout-ms", 5000)
        equal(printed, "", "nothing is read twice")
        broker.stop()
