"""`ottla dump-log` and `ottla verify-log`, on what the broker and what Apache Kafka have written.

Kafka's own dump tool, on the same files, is the measure of the first; that both brokers start on what the second has repaired, of the second.
"""

import re
import shutil
import subprocess

from . import brokers
from .interchange import FIXTURES, SETTINGS, compare, offsets, table, unpack
from .suite import equal, eventually, test, within

DECODERS = {"__consumer_offsets": "--offsets-decoder", "__transaction_state": "--transaction-log-decoder",
            "__cluster_metadata": "--cluster-metadata-decoder", "__share_group_state": "--share-group-state-decoder"}
ONE_REPLICA = {"offsets.topic.num.partitions": "2", "offsets.topic.replication.factor": "1", "transaction.state.log.num.partitions": "2",
               "transaction.state.log.replication.factor": "1", "transaction.state.log.min.isr": "1", "group.initial.rebalance.delay.ms": "0"}
SUFFIXES = (".log", ".index", ".timeindex", ".txnindex", ".snapshot", ".checkpoint")


def ottla(run, *arguments, status=0):
    """What the tool prints; standard error behind it."""
    binary = run.brokers[0].binary
    done = subprocess.run([binary, *map(str, arguments)], capture_output=True, text=True, timeout=120)
    printed = done.stdout + done.stderr
    assert done.returncode == status, f"{arguments}: exit status {done.returncode}, not {status}\n{printed[-3000:]}"
    return done.stdout, done.stderr


def findings(errors):
    """What either tool says does not fit together: a heading with its lines. There is no order among the headings."""
    blocks = []
    for line in errors.splitlines():
        if line.startswith("  ") and blocks:
            blocks[-1] += "\n" + line
        elif not re.match(r"WARNING: |SLF4J", line):
            blocks.append(line)
    return sorted(blocks)


def agree(run, data, pattern, least):
    """Both tools print the same of every file in the partitions' directories that match."""
    groups, compared = {}, 0
    for path in sorted(data.glob(f"{pattern}/*")):
        if path.suffix in SUFFIXES and path.stat().st_size:
            decoder = DECODERS.get(path.parent.name.rpartition("-")[0], "--print-data-log")
            groups.setdefault(decoder, []).append(path)
    for decoder, paths in groups.items():
        for options in ([decoder], ["--skip-record-metadata", "--max-bytes", 5000, decoder], ["--verify-index-only"]):
            arguments = [*options, "--files", ",".join(map(str, paths))]
            kafkas = run.tools("kafka-dump-log", *arguments)
            kafkas_errors = run.tools.errors()
            ours, our_errors = ottla(run, "dump-log", *arguments)
            for our_line, kafkas_line in zip(ours.splitlines(), kafkas.splitlines()):
                equal(our_line, kafkas_line, f"{options}")
            equal(len(ours), len(kafkas), f"{options}")
            equal(findings(our_errors), findings(kafkas_errors), f"{options}")
            compared += len(ours)
    assert compared > least, f"only {compared} bytes were compared"


def be_busy(run, topic):
    """Transactions, and groups of both protocols."""
    run.create_topic(topic)
    run.java("kafka-producer-perf-test", "--topic", topic, "--num-records", 2000, "--record-size", 100, "--throughput", 4000,
             "--transactional-id", topic, "--transaction-duration-ms", 100)
    for protocol in ("classic", "consumer"):
        run.java("kafka-console-consumer", "--topic", topic, "--from-beginning", "--max-messages", 1000, "--timeout-ms", 20000,
                 "--consumer-property", f"group.protocol={protocol}", "--consumer-property", f"group.id={topic}-{protocol}")


@test(own_broker=True, ottla_only=True)
def dump_log_agrees_with_kafkas(run):
    """On what the broker writes, then on what Kafka adds to it: groups and transactions, too."""
    data = run.folder / "data"
    with run.new_broker("first", data=data, settings={**SETTINGS, **ONE_REPLICA}) as broker:
        run.use(broker)
        run.franz_go("fill")
        be_busy(run, "by-ottla")
        broker.stop()
    agree(run, data, "*-*", 5_000_000)
    with run.kafka(data=data, settings={**SETTINGS, **ONE_REPLICA}) as kafka:
        run.use(kafka)
        be_busy(run, "by-kafka")
        kafka.stop()
    agree(run, data, "_*", 100_000)
    agree(run, data, "by-*", 200_000)
    ottla(run, "verify-log", data)


@test(own_broker=True, ottla_only=True)
def verify_log(run):
    """A directory is sound while it is served, after a kill, and after an end in order; damage is found and repaired."""
    often = {"log.initial.task.delay.ms": "500", "log.flush.start.offset.checkpoint.interval.ms": "500"}
    with run.new_broker("first", settings={**SETTINGS, **often}) as broker:
        run.use(broker)
        run.franz_go("fill")
        written = offsets(run, broker)
        checkpoint = broker.data / "log-start-offset-checkpoint"  # the kill is not to come before
        eventually(lambda: within("filled-deleted 0 ", checkpoint.read_text() if checkpoint.exists() else ""))
        within(".lock: ", ottla(run, "verify-log", broker.data)[0])
        within("in use", ottla(run, "verify-log", "--repair", broker.data, status=2)[1])
        broker.kill()
        within(".kafka_cleanshutdown: missing", ottla(run, "verify-log", broker.data)[0])
        broker.start()
        broker.stop()
        within(": 0 faults, 0 notes", ottla(run, "verify-log", broker.data)[0])

        log = sorted(broker.data.glob("filled-0/*.log"))[-1]
        with open(log, "ab") as file:
            file.write(b"\x17" * 1000)
        log.with_suffix(".index").write_bytes(b"\x17" * 800)
        said, _ = ottla(run, "verify-log", broker.data, status=1)
        within(f"fault filled-0/{log.name} at {log.stat().st_size - 1000}: 1000 bytes are no records", said)
        within(f"fault filled-0/{log.stem}.index at 8: entry 1 does not ascend", said)
        within("no fault is left", ottla(run, "verify-log", "--repair", broker.data)[0])
        equal([path.name for path in sorted(broker.directory.glob("data.before-repair-*/filled-0/*.log.bytes-*"))],
              [f"{log.name}.bytes-{log.stat().st_size}-{log.stat().st_size + 1000}"])
        broker.start()
        compare(offsets(run, broker), written, "after the repair")
        broker.stop()


# What a repair does not bring back, and what these tests take away.
LOST_LOG = r"WARN the partition's log is not there: .* partition=(no|empty)-partition-dir-0"
NO_LOG_STARTS = r"WARN checkpoint is missing.*/log-start-offset-checkpoint"
# Nobody has the records of a segment that is gone: told at each start after which the log is looked at.
LOST_SEGMENT = r"WARN log was repaired partition=no-middle-segment-0 .* are missing before it .*kept it"


def repaired(run, name):
    """What a repair leaves of a damaged directory is served by the broker and by Kafka, at least as much as Kafka serves without it."""
    kafkas = table((FIXTURES / f"{name}.offsets.tsv").read_text())
    data = unpack(run, name)
    broker = run.new_broker("first", data=data, settings=SETTINGS)
    ottla(run, "verify-log", "--repair", data, status=1)  # of what cannot be repaired, see below
    shutil.rmtree(data / "empty-partition-dir-0")
    (data / "log-start-offset-checkpoint").unlink()
    brokers.copy_data(data, run.folder / "copy")
    with run.kafka(data=run.folder / "copy", settings=SETTINGS) as kafka:
        by_kafka = offsets(run, kafka)
        kafka.stop()
    with broker:
        by_ottla = offsets(run, broker)
        broker.stop()
    compare(by_ottla, by_kafka, "the broker, as Kafka")

    def count(row):
        return int(row["uncommitted"].split()[0])

    lost = {place: (row, by_kafka[place]) for place, row in kafkas.items() if count(by_kafka[place]) < count(row)}
    assert not lost, lost
    # each has what can be read: all 100 records, or 90 where a batch is damaged, or those of the segments that are there
    few = {"empty-partition-dir-0", "no-partition-dir-0", "no-first-segment-0", "no-middle-segment-0", "empty-last-segment-0"}
    short = {place: row for place, row in by_kafka.items() if count(row) < 90 and place not in few and not place.startswith("__")}
    assert not short, short


@test(own_broker=True, ottla_only=True, expected_log=[LOST_LOG, NO_LOG_STARTS])
def repair_after_an_end_in_order(run):
    repaired(run, "damaged-partitions-clean")


@test(own_broker=True, ottla_only=True, expected_log=[LOST_LOG, LOST_SEGMENT])
def repair_after_a_kill(run):
    repaired(run, "damaged-partitions-unclean")
