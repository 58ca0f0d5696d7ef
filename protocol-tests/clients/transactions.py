"""Transactions: confluent-kafka's producer, Kafka's own copier of messages with exactly-once semantics, and kafka-transactions."""

import json
import random
import re
import subprocess
import time

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from kafka_wire.batches import TRANSACTIONAL, batch

from . import machine
from .asking import Asking
from .interchange import SETTINGS, compare, expected_groups, groups_of, offsets, table, unpack, FIXTURES
from .java import dump
from .suite import equal, eventually, matches, test, within

# What a kill leaves behind.
TORN_TAIL = r"WARN log was repaired .* are no records: a batch of \d+ bytes ends behind the \d+ that are left"


def producer(run, transactional_id, **config):
    config = {key.replace("_", "."): value for key, value in config.items()}
    made = Producer({"bootstrap.servers": run.bootstrap, "transactional.id": transactional_id, "linger.ms": 5, **config})
    made.init_transactions(30)
    return made


def read(bootstrap, topic, partition=0, committed=True):
    """The values between the start of a partition and its end, as a reader of the isolation level sees them."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "unused", "enable.auto.commit": False, "fetch.wait.max.ms": 50,
                         "isolation.level": "read_committed" if committed else "read_uncommitted", "enable.partition.eof": True})
    try:
        consumer.assign([TopicPartition(topic, partition, 0)])
        values, end = [], time.monotonic() + 60
        while time.monotonic() < end:
            for message in consumer.consume(10_000, 0.5):
                if message.error() is None:
                    values.append((message.value() or b"").decode())
                elif message.error().code() == KafkaError._PARTITION_EOF:
                    return values
                else:
                    raise AssertionError(message.error())
        raise AssertionError(f"{topic}-{partition}: no end after {len(values)} messages")
    finally:
        consumer.close()


@test()
def commit_and_abort(run):
    run.create_topic(partitions=2)
    writer = producer(run, run.topic)
    for number, commit in [(1, True), (2, False), (3, True)]:
        writer.begin_transaction()
        for partition in (0, 1):
            writer.produce(run.topic, f"{number}", partition=partition)
        writer.flush(20)
        if commit:
            writer.commit_transaction(20)
        else:
            writer.abort_transaction(20)
    for partition in (0, 1):
        equal(read(run.bootstrap, run.topic, partition), ["1", "3"], "committed")
        equal(read(run.bootstrap, run.topic, partition, committed=False), ["1", "2", "3"], "all")


@test()
def open_transactions_hide_what_is_behind_them(run):
    run.create_topic()
    writer = producer(run, run.topic)
    writer.begin_transaction()
    writer.produce(run.topic, "hidden", partition=0)
    writer.flush(20)
    run.kcat("-P", "-t", run.topic, "-p", 0, input="behind\n")
    equal(read(run.bootstrap, run.topic), [], "while it is open")
    equal(read(run.bootstrap, run.topic, committed=False), ["hidden", "behind"], "uncommitted")
    writer.commit_transaction(20)
    equal(read(run.bootstrap, run.topic), ["hidden", "behind"], "after the commit")


@test()
def another_instance_fences(run):
    run.create_topic()
    old = producer(run, run.topic)
    old.begin_transaction()
    old.produce(run.topic, "of the old one", partition=0)
    old.flush(20)
    new = producer(run, run.topic)
    new.begin_transaction()
    new.produce(run.topic, "of the new one", partition=0)
    new.commit_transaction(20)
    try:
        old.commit_transaction(20)
    except KafkaException as e:
        assert e.args[0].fatal() or e.args[0].code() == KafkaError._FENCED, e
    else:
        raise AssertionError("the old instance committed")
    equal(read(run.bootstrap, run.topic), ["of the new one"], "committed")


@test(own_broker=True, expected_log=[TORN_TAIL])
def outlive_the_broker(run):
    """A transaction that is open when the broker is killed goes on after it; one whose producer is gone times out."""
    broker = run.new_broker(settings={"transaction.abort.timed.out.transaction.cleanup.interval.ms": 500})
    with broker:
        run.use(broker)
        run.create_topic()
        writer = producer(run, "goes-on")
        writer.begin_transaction()
        writer.produce(run.topic, "before", partition=0)
        writer.flush(20)
        gone = producer(run, "gone", transaction_timeout_ms=4000)
        gone.begin_transaction()
        gone.produce(run.topic, "of one that is gone", partition=0)
        gone.flush(20)
        broker.kill()
        broker.start()
        writer.produce(run.topic, "after", partition=0)
        writer.commit_transaction(60)
        eventually(lambda: equal(read(run.bootstrap, run.topic), ["before", "after"]), seconds=30)
        del gone


class Copier:
    """Kafka's TransactionalMessageCopier, from one topic to the next; killed now and then, and begun anew."""

    def __init__(self, run, stage):
        self.log = run.folder / f"copier-{stage}.log"
        self.command = [
            machine.java(), "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
            f"-Dlog4j2.configurationFile={machine.HERE / 'clients/log4j2-tools.properties'}", "-cp", f"{machine.kafka_jars()}/*",
            "org.apache.kafka.tools.TransactionalMessageCopier", "--broker-list", run.bootstrap,
            "--input-topic", f"stage-{stage}", "--input-partition", "0", "--output-topic", f"stage-{stage + 1}",
            "--consumer-group", f"copier-{stage}", "--transactional-id", f"copier-{stage}", "--transaction-size", "100",
            "--transaction-timeout", "5000", "--enable-random-aborts", "--use-group-metadata", "--group-mode",
        ]
        self.process = None
        run.at_end(self.kill)

    def start(self):
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(list(map(str, self.command)), stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def kill(self):
        if self.process and self.process.poll() is None:
            self.process.kill()
            self.process.wait()


@test(own_broker=True, expected_log=[TORN_TAIL])
def copied_over_three_stages_with_kills(run):
    """Copiers and the broker are killed while they work: what comes out is what went in, once."""
    count, chance = 6000, random.Random(7)
    settings = {"group.min.session.timeout.ms": 1000, "group.initial.rebalance.delay.ms": 0,
                "transaction.abort.timed.out.transaction.cleanup.interval.ms": 500}
    with run.new_broker(settings=settings) as broker:
        run.use(broker)
        for stage in range(4):
            run.create_topic(f"stage-{stage}")
        run.kcat("-P", "-t", "stage-0", "-p", 0, input="".join(f"{number}\n" for number in range(count)))
        copiers = [Copier(run, stage) for stage in range(3)]
        end = time.monotonic() + 150
        kills = 0
        while True:
            for copier in copiers:
                if copier.process is None or copier.process.poll() is not None:
                    copier.start()
            time.sleep(3 if kills < 5 else 5)
            arrived = len(read(run.bootstrap, "stage-3"))
            if arrived >= count:
                break
            assert time.monotonic() < end, f"{arrived} of {count} have arrived: {[c.log.read_text()[-400:] for c in copiers]}"
            if kills < 5:
                kills += 1
                if kills == 3:
                    broker.kill()
                    broker.start()
                else:
                    chance.choice(copiers).kill()
        for copier in copiers:
            copier.kill()
        for stage in range(1, 4):
            equal(read(run.bootstrap, f"stage-{stage}"), [str(number) for number in range(count)], f"stage {stage}")


# --- kafka-transactions


@test(own_broker=True)
def as_kafka_transactions_shows_them(run):
    with run.new_broker() as broker:
        run.use(broker)
        run.create_topic(partitions=2)
        writer = producer(run, "shown")
        writer.begin_transaction()
        writer.produce(run.topic, "1", partition=1)
        writer.flush(20)
        listed = run.java("kafka-transactions", "list")
        producer_id = matches(r"^shown\s+1\s+(\d+)\s+Ongoing", listed)[1]
        for filter, is_listed in {
            ("--transactional-id-pattern", "sho"): False,  # it is to match all of it
            ("--transactional-id-pattern", "sh.*n"): True,
            ("--duration-filter", "0"): True,
            ("--duration-filter", "-1"): True,
            ("--duration-filter", "3600000"): False,
            ("--duration-filter", "3600000", "--transactional-id-pattern", "shown"): False,
        }.items():
            equal("shown" in run.java("kafka-transactions", "list", *filter), is_listed, f"{filter}")
        within("INVALID_REGULAR_EXPRESSION", run.java("kafka-transactions", "list", "--transactional-id-pattern", "(", fails=True))
        described = run.java("kafka-transactions", "describe", "--transactional-id", "shown")
        matches(rf"^1\s+shown\s+{producer_id}\s+0\s+Ongoing\s+60000\s+\S+\s+\S+\s+{run.topic}-1", described)
        for of_broker in [(), ("--broker-id", 1)]:
            producers = run.java("kafka-transactions", "describe-producers", "--topic", run.topic, "--partition", 1, *of_broker)
            matches(rf"^{producer_id}\s+0\s+-1\s+0\s+\d+\s+0", producers)
        equal(run.java("kafka-transactions", "describe-producers", "--topic", run.topic, "--partition", 0).count(producer_id), 0, "of another partition")
        hanging = run.java("kafka-transactions", "find-hanging", "--broker-id", 1, "--max-transaction-timeout", 0)
        assert run.topic not in hanging, "a transaction that its coordinator knows does not hang"
        writer.commit_transaction(20)
        eventually(lambda: matches(rf"^shown\s+1\s+{producer_id}\s+CompleteCommit", run.java("kafka-transactions", "list")))
        run.java("kafka-transactions", "forceTerminateTransaction", "--transactionalId", "shown")
        eventually(lambda: matches(rf"^shown\s+1\s+{producer_id}\s+(CompleteAbort|Empty)", run.java("kafka-transactions", "list")))


def hang(run, topic, partition, producer_id, epoch, text):
    """Records of a transaction that no coordinator knows, as brokers took them that did not verify: it stays open."""
    records = batch(text, producer_id=producer_id, producer_epoch=epoch, base_sequence=0, attributes=TRANSACTIONAL)
    body = {"TransactionalId": "of-long-ago", "Acks": -1, "TimeoutMs": 5000,
            "TopicData": [{"Name": topic, "PartitionData": [{"Index": partition, "Records": records}]}]}
    answer = Asking(run.bootstrap)("Produce", 9, body)["Responses"][0]["PartitionResponses"][0]
    equal(answer["ErrorCode"], 0, "Produce")
    return answer["BaseOffset"]


@test(own_broker=True, expected_log=["WARN a transaction hangs"])
def hanging_ones_are_found_and_aborted(run):
    """By each of the tool's ways to look for them, and by both of its ways to end them."""
    with run.new_broker(settings={"transaction.partition.verification.enable": "false"}) as broker:
        run.use(broker)
        run.create_topic("hung", 3)
        run.kcat("-P", "-t", "hung", "-p", 0, input="before\n")
        start = {partition: hang(run, "hung", partition, 1000 + partition, 5, b"hangs") for partition in (0, 1)}
        run.kcat("-P", "-t", "hung", "-p", 0, input="behind\n")
        run.kcat("-P", "-t", "hung", "-p", 1, input="behind\n")
        equal(read(run.bootstrap, "hung", 0), ["before"], "what is behind it waits")
        for where, found in {("--broker-id", 1): [0, 1], ("--topic", "hung"): [0, 1], ("--topic", "hung", "--partition", 1): [1],
                             ("--topic", "hung", "--partition", 2): [], ("--broker-id", 1, "--topic", "hung", "--partition", 0): [0]}.items():
            printed = eventually(lambda: run.java("kafka-transactions", "find-hanging", *where))
            rows = re.findall(r"^hung\s+(\d)\s+(\d+)\s+5\s+(-?\d+)\s+(\d+)\s", printed, re.MULTILINE)
            equal(sorted((int(row[0]), int(row[1]), int(row[3])) for row in rows),
                  [(partition, 1000 + partition, start[partition]) for partition in found], f"{where}: {printed}")
        run.java("kafka-transactions", "abort", "--topic", "hung", "--partition", 0, "--start-offset", start[0] + 1, fails=True)
        run.java("kafka-transactions", "abort", "--topic", "hung", "--partition", 0, "--start-offset", start[0])
        equal(read(run.bootstrap, "hung", 0), ["before", "behind"], "after the abort")
        equal(read(run.bootstrap, "hung", 1), [], "the other still hangs")
        run.java("kafka-transactions", "abort", "--topic", "hung", "--partition", 1,
                 "--producer-id", 1001, "--producer-epoch", 5, "--coordinator-epoch", 0)
        equal(read(run.bootstrap, "hung", 1), ["behind"], "after the abort of the old way")
        equal("hung" in run.java("kafka-transactions", "find-hanging", "--broker-id", 1), False, "nothing hangs any more")


# --- Kafka's directory

# What committed readers see once the open transactions are aborted: as Kafka has it when it ends them.
ENDED = {"txn-0": "98 0..196 35346c7620c80b16", "txn-1": "27 0..67 c5a115f16c28f08a"}
STATES = {"tx-1": "CompleteCommit", "tx-2": "CompleteAbort", "tx-3": "CompleteCommit", "tx-open": "Ongoing", "tx-open-offsets": "Ongoing"}


def states(run):
    """{transactional id: (producer id, state)}, as kafka-transactions lists them."""
    rows = re.findall(r"^(\S+)\s+1\s+(\d+)\s+(\w+)\s*$", run.java("kafka-transactions", "list"), re.MULTILINE)
    return {name: (int(producer_id), state) for name, producer_id, state in rows}


def decoded(run, data):
    """{transactional id: its last state}, as Kafka's decoder reads __transaction_state."""
    files = sorted(path for folder in data.glob("__transaction_state-*") for path in folder.glob("*.log") if path.stat().st_size)
    last = {}
    for line in dump(run, "--transaction-log-decoder", "--print-data-log", files=files).splitlines():
        if found := re.search(r" key: (\{.*\}) payload: (\{.*\})$", line):
            last[json.loads(found[1])["data"]["transactionalId"]] = json.loads(found[2])["data"]
    return last


@test(own_broker=True, expected_log=["WARN a transaction hangs"])
def fixture_transactions(run):
    """The broker takes over the transactions of a directory that Kafka has left; then Kafka does again."""
    wanted, groups_wanted = table((FIXTURES / "transactions.offsets.tsv").read_text()), expected_groups("transactions")
    data = unpack(run, "transactions")
    cleanup = "transaction.abort.timed.out.transaction.cleanup.interval.ms"
    with run.new_broker("first", data=data, settings={**SETTINGS, cleanup: 3_600_000}) as broker:
        compare(offsets(run, broker), wanted, "at first")
        found = states(run)
        equal({name: state for name, (_, state) in found.items()}, STATES)
        described = run.java("kafka-transactions", "describe", "--transactional-id", "tx-open")
        matches(r"^1\s+tx-open\s+14\s+0\s+Ongoing\s+900000\s+\S+\s+\d+\s+txn-0,txn-1", described)
        producers = run.java("kafka-transactions", "describe-producers", "--topic", "txn", "--partition", 0)
        matches(rf"^14\s+0\s+-1\s+3\s+\d+\s+{wanted['txn-0']['last_stable']}\s*$", producers)
        broker.stop()
    with run.new_broker("second", data=data, settings={**SETTINGS, cleanup: 200}) as broker:
        run.use(broker)
        # They began long ago, and time out.
        ended = {name: state.replace("Ongoing", "CompleteAbort") for name, state in STATES.items()}
        eventually(lambda: equal({name: state for name, (_, state) in states(run).items()}, ended))
        now = offsets(run, broker)
        for partition, committed in ENDED.items():
            equal(now[partition]["committed"], committed, f"{partition}, committed")
            equal(now[partition]["uncommitted"], wanted[partition]["uncommitted"], f"{partition}, all")
            equal(now[partition]["last_stable"], now[partition]["log_end"], f"the last stable offset of {partition}")
        equal(groups_of(broker), groups_wanted, "the offsets that were committed")
        ask = Asking(broker.bootstrap)
        # A producer that has not noticed goes on; one whose transaction was aborted may not.
        records = batch(b"goes on", producer_id=1, producer_epoch=13, base_sequence=0, attributes=TRANSACTIONAL, base_timestamp=time.time_ns() // 10**6)
        topic_id = ask("Metadata", 12, {"Topics": [{"Name": "txn"}]})["Topics"][0]["TopicId"]
        produce = {"TransactionalId": "tx-1", "Acks": -1, "TimeoutMs": 5000,
                   "TopicData": [{"Name": "txn", "TopicId": topic_id, "PartitionData": [{"Index": 1, "Records": records}]}]}
        equal(ask("Produce", 12, produce)["Responses"][0]["PartitionResponses"][0]["ErrorCode"], 0, "Produce")
        answer = ask("EndTxn", 5, {"TransactionalId": "tx-1", "ProducerId": 1, "ProducerEpoch": 13, "Committed": True})
        equal((answer["ErrorCode"], answer["ProducerId"], answer["ProducerEpoch"]), (0, 1, 14), "EndTxn")
        answer = ask("EndTxn", 5, {"TransactionalId": "tx-open", "ProducerId": 14, "ProducerEpoch": 0, "Committed": True})
        equal(answer["ErrorCode"], INVALID_TXN_STATE, "EndTxn of the one that timed out")
        for name in ["tx-2", "tx-open"]:
            write_one(run, name)
        after = read(run.bootstrap, "txn", 1)[-3:]
        equal(after, ["goes on", "by tx-2", "by tx-open"])
        found = states(run)
        broker.stop()
    last = decoded(run, data)
    equal({name: (value["producerId"], STATUS[value["transactionStatus"]]) for name, value in last.items()}, found, "what Kafka's decoder reads")
    equal(last["tx-1"]["producerEpoch"], 14)
    with run.kafka(data=data, settings=SETTINGS) as kafka:
        run.use(kafka)
        eventually(lambda: equal(states(run), found, "Kafka after it"))
        write_one(run, "tx-3")
        equal(read(run.bootstrap, "txn", 1)[-4:], [*after, "by tx-3"])
        kafka.stop()


INVALID_TXN_STATE = 48
STATUS = {0: "Empty", 1: "Ongoing", 2: "PrepareCommit", 3: "PrepareAbort", 4: "CompleteCommit", 5: "CompleteAbort"}


def write_one(run, name):
    """A new instance of a producer takes over, and commits a record."""
    writer = producer(run, name)
    writer.begin_transaction()
    writer.produce("txn", f"by {name}", partition=1)
    writer.commit_transaction(30)
