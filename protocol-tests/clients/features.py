"""kafka-features: the levels of the cluster's features, up and down at run time, and what hangs on them."""

import re

from . import brokers, machine
from .interchange import SETTINGS
from .java import dump
from .suite import equal, eventually, matches, test, within
from .transactions import decoded

NEW_CLUSTER = {"eligible.leader.replicas.version": "1", "group.version": "1", "kraft.version": "0", "metadata.version": "4.3-IV0",
               "share.version": "1", "streams.version": "1", "transaction.version": "2"}
SUPPORTED = {"eligible.leader.replicas.version": ("0", "1"), "group.version": ("0", "1"), "kraft.version": ("0", "1"),
             "metadata.version": ("3.3-IV3", "4.3-IV0"), "share.version": ("0", "1"), "streams.version": ("0", "1"),
             "transaction.version": ("0", "2")}


def features(run):
    """{feature: level}, as the tool describes them."""
    rows = re.findall(r"^Feature: (\S+)\s+SupportedMinVersion: (\S+)\s+SupportedMaxVersion: (\S+)\s+FinalizedVersionLevel: (\S+)\s+Epoch: (\d+)\s*$",
                      run.java("kafka-features", "describe"), re.MULTILINE)
    equal({name: (least, most) for name, least, most, _, _ in rows}, SUPPORTED, "supported")
    return {name: level for name, _, _, level, _ in rows}


def are(run, **levels):
    """Underscores stand for dots; what is not named is as in a new cluster."""
    wanted = NEW_CLUSTER | {name.replace("_", "."): str(level) for name, level in levels.items()}
    eventually(lambda: equal(features(run), wanted))


@test(own_broker=True)
def up_and_down(run):
    """What the tool does, it says; levels outlive restarts and kills."""
    with run.new_broker() as broker:
        run.use(broker)
        are(run)
        tool = lambda *arguments, **options: run.java("kafka-features", *arguments, **options)
        within("transaction.version was downgraded to 1.", tool("downgrade", "--feature", "transaction.version=1"))
        are(run, transaction_version=1)
        within("can be upgraded to 2", tool("upgrade", "--feature", "transaction.version=2", "--dry-run"))
        are(run, transaction_version=1)
        within("streams.version was disabled.", tool("disable", "--feature", "streams.version"))
        tool("disable", "--feature", "group.version", "--feature", "share.version", "--unsafe")
        are(run, transaction_version=1, streams_version=0, group_version=0, share_version=0)
        within("Can't downgrade", tool("upgrade", "--feature", "metadata.version=29", fails=True))
        within("might delete metadata information", tool("downgrade", "--feature", "metadata.version=29", fails=True))
        within("not supported in this version", tool("downgrade", "--feature", "metadata.version=29", "--unsafe", fails=True))
        within("only supports versions 0-2", tool("upgrade", "--feature", "transaction.version=3", fails=True))
        broker.stop()
        broker.start()
        are(run, transaction_version=1, streams_version=0, group_version=0, share_version=0)
        tool("upgrade", "--feature", "transaction.version=2", "--feature", "streams.version=1", "--feature", "share.version=1")
        broker.kill()
        broker.start()
        are(run, group_version=0)
        within("kraft.version was upgraded to 1.", tool("upgrade", "--release-version", "4.3"))
        are(run, kraft_version=1)
        within("Can't downgrade", tool("disable", "--feature", "kraft.version", fails=True))


@test(own_broker=True)
def groups_of_consumers(run):
    """Without group.version there is none of the new protocol, and the classic one goes on."""
    with run.new_broker(settings={"group.initial.rebalance.delay.ms": 0}) as broker:
        run.use(broker)
        run.create_topic()
        run.kcat("-P", "-t", run.topic, "-p", 0, input="a\n")
        consume = lambda protocol, **options: run.java(
            "kafka-console-consumer", "--topic", run.topic, "--from-beginning", "--max-messages", 1, "--timeout-ms", 20000,
            "--group", f"by-{protocol}", "--command-property", f"group.protocol={protocol}", **options)
        run.java("kafka-features", "disable", "--feature", "group.version")
        within("UnsupportedVersion", consume("consumer", all_of_it=True))
        equal(consume("classic"), "a\n")
        run.java("kafka-features", "upgrade", "--feature", "group.version=1")
        equal(consume("consumer"), "a\n")


def transact(run):
    """A Java producer commits several transactions. The epoch it ends with."""
    run.java("kafka-producer-perf-test", "--topic", run.topic, "--num-records", 60, "--record-size", 10, "--throughput", 100,
             "--transactional-id", "followed", "--transaction-duration-ms", 50, "--command-property", f"bootstrap.servers={run.bootstrap}")
    described = lambda: matches(r"^1\s+followed\s+(\d+)\s+(\d+)\s+CompleteCommit", run.java(
        "kafka-transactions", "describe", "--transactional-id", "followed"))
    return int(eventually(described)[2])


@test(own_broker=True)
def producers_follow_transaction_version(run):
    """At 2 each transaction has an epoch of its own; at 0 and 1 only each instance of a producer has. At 0 what is recorded of them
    is as brokers before 4.0 wrote it."""
    with run.new_broker() as broker:
        run.use(broker)
        run.create_topic()
        first = transact(run)
        assert first >= 2, f"at 2: epoch {first}"
        for level in (1, 0):
            before = transact(run)
            run.java("kafka-features", "downgrade", "--feature", f"transaction.version={level}")
            are(run, transaction_version=level)
            epoch = transact(run)
            equal(epoch, before + 1, f"the epoch at {level}, of the next instance")
        last = transact(run)
        broker.stop()
        equal(versions(run, broker.data)[-1], "0", "the version of what is recorded")
        broker.start()
        run.java("kafka-features", "upgrade", "--feature", "transaction.version=2")
        are(run, transaction_version=2)
        epoch = transact(run)
        assert epoch >= last + 2, f"at 2 again: epoch {epoch} after {last}"
        broker.stop()
        recorded = decoded(run, broker.data)["followed"]
        equal((recorded["producerEpoch"], recorded["clientTransactionVersion"]), (epoch, 2))
        equal(versions(run, broker.data)[-1], "1", "the version of what is recorded")


def versions(run, data):
    """Of the values in the transaction log's one partition that has any, in their order."""
    files = [path for path in data.glob("__transaction_state-*/*.log") if path.stat().st_size]
    return re.findall(r' payload: \{"version":"(\d)"', dump(run, "--transaction-log-decoder", "--print-data-log", files=files))


@test(own_broker=True)
def cluster_of_an_older_release(run):
    """A directory formatted for 3.6 is upgraded, with the voters of the quorum on record; then Kafka serves it, and the broker again."""
    data = run.folder / "data"
    properties = run.new_broker("first", data=data, settings=SETTINGS).write_properties()
    machine.run([machine.java(), "-cp", f"{machine.kafka_jars()}/*", "kafka.tools.StorageTool", "format", "-t", brokers.CLUSTER_ID,
                 "-c", properties, "--release-version", "3.6"])
    old = {name: 0 for name in ["transaction_version", "group_version", "share_version", "streams_version", "eligible_leader_replicas_version"]}
    with run.new_broker("second", data=data, settings=SETTINGS) as broker:
        run.use(broker)
        are(run, metadata_version="3.6-IV2", **old)
        run.create_topic("before", 2)
        run.kcat("-P", "-t", "before", "-p", 1, input="x\n")
        run.java("kafka-features", "upgrade", "--feature", "metadata.version=22")
        are(run, metadata_version="4.0-IV0", **old)
        run.java("kafka-features", "downgrade", "--feature", "metadata.version=17")
        run.java("kafka-features", "upgrade", "--release-version", "4.3")
        are(run, kraft_version=1)
        run.create_topic("after", 2)
        run.kcat("-P", "-t", "after", "-p", 1, input="y\n")
        serves(run)
        broker.kill()
        broker.start()
        serves(run)
        broker.stop()
    printed = dump(run, "--cluster-metadata-decoder", files=sorted((data / "__cluster_metadata-0").glob("*.log")))
    registrations = re.findall(r'"REGISTER_BROKER_RECORD","version":(\d),"data":\{.*?"logDirs":\[("[^"]+")\]', printed)
    assert registrations, "no registration names the log directory"
    within('"REGISTER_CONTROLLER_RECORD"', printed)
    matches(r"KRaftVersion .*1", printed)
    matches(r"KRaftVoters .*\"voterId\":1", printed)
    with run.kafka(data=data, settings=SETTINGS) as kafka:
        run.use(kafka)
        are(run, kraft_version=1)
        serves(run)
        kafka.stop()
    with run.new_broker("third", data=data, settings=SETTINGS) as broker:
        run.use(broker)
        are(run, kraft_version=1)
        serves(run)


def serves(run):
    equal(run.kcat("-C", "-q", "-t", "before", "-o", "beginning", "-e"), "x\n")
    equal(run.kcat("-C", "-q", "-t", "after", "-o", "beginning", "-e"), "y\n")
