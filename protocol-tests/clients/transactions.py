"""Transactions: confluent-kafka's producer, Kafka's own copier of messages with exactly-once semantics, and kafka-transactions."""

import random
import re
import subprocess
import time

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from . import machine
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
                    values.append(message.value().decode())
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
        equal(run.java("kafka-transactions", "list", "--transactional-id-pattern", "sho").count("shown"), 0, "a pattern of a part")
        within("shown", run.java("kafka-transactions", "list", "--transactional-id-pattern", "sh.*n"))
        within("shown", run.java("kafka-transactions", "list", "--duration-filter", "0"))
        described = run.java("kafka-transactions", "describe", "--transactional-id", "shown")
        matches(rf"^1\s+shown\s+{producer_id}\s+0\s+Ongoing\s+60000\s+\S+\s+\S+\s+{run.topic}-1", described)
        producers = run.java("kafka-transactions", "describe-producers", "--topic", run.topic, "--partition", 1)
        matches(rf"^{producer_id}\s+0\s+-1\s+0\s+\d+\s+0", producers)
        hanging = run.java("kafka-transactions", "find-hanging", "--broker-id", 1, "--max-transaction-timeout", 0)
        assert run.topic not in hanging, "a transaction that its coordinator knows does not hang"
        writer.commit_transaction(20)
        matches(rf"^shown\s+1\s+{producer_id}\s+CompleteCommit", run.java("kafka-transactions", "list"))
        run.java("kafka-transactions", "forceTerminateTransaction", "--transactionalId", "shown")
        assert re.search(rf"^shown\s+1\s+{producer_id}\s+(CompleteAbort|Empty)", run.java("kafka-transactions", "list"), re.MULTILINE)
