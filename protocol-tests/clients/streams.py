"""Kafka Streams with exactly-once semantics: an application that counts words (../streams/WordCount.java)."""

import collections
import itertools
import subprocess
import threading
import time

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

from . import machine
from .brokers import die_with_parent
from .suite import equal, matches, test, within
from .transactions import TORN_TAIL

PARTITIONS = 2
WORDS = [f"word-{number}" for number in range(40)]


class Feed:
    """Lines of words, written one by one, until it is ended."""

    def __init__(self, bootstrap):
        self.written = collections.Counter()
        self.ended = threading.Event()
        self.producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 5, "log_level": 2})
        self.thread = threading.Thread(target=self.write, daemon=True)
        self.thread.start()

    def write(self):
        for number in itertools.count():
            words = [WORDS[number * step % len(WORDS)] for step in (1, 3, 7)]
            self.written.update(words)
            self.producer.produce("lines", " ".join(words), partition=number % PARTITIONS)
            self.producer.poll(0)
            if self.ended.wait(0.005):
                return

    def end(self):
        self.ended.set()
        self.thread.join(60)
        assert not self.thread.is_alive() and self.producer.flush(60) == 0, "not all lines were written"


class WordCount:
    def __init__(self, run):
        self.log, self.state = run.folder / "word-count.log", run.folder / "state"
        self.command = [
            machine.java(), "-Xmx192m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto",
            f"-Dlog4j2.configurationFile={machine.HERE / 'clients/log4j2-tools.properties'}",
            "-cp", machine.streams_class_path(), "WordCount", run.bootstrap, self.state,
        ]
        self.process = None
        run.at_end(self.kill)

    def start(self):
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(list(map(str, self.command)), stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                            preexec_fn=die_with_parent)

    def running(self):
        return self.process is not None and self.process.poll() is None

    def kill(self):
        if self.running():
            self.process.kill()
            self.process.wait()

    def stop(self):
        """SIGTERM: it ends in order. (A JVM that a signal ends says so by its status.)"""
        self.process.terminate()
        equal(self.process.wait(30), 143, "exit status of the application")


class Reader:
    """What has come out so far, as a reader of committed records sees it."""

    def __init__(self, run):
        self.consumer = Consumer({"bootstrap.servers": run.bootstrap, "group.id": "unused", "enable.auto.commit": False,
                                  "fetch.wait.max.ms": 50, "isolation.level": "read_committed", "reconnect.backoff.max.ms": 200,
                                  "log_level": 2})
        self.consumer.assign([TopicPartition("counts", partition, 0) for partition in range(PARTITIONS)])
        self.counts = collections.defaultdict(list)
        run.at_end(self.consumer.close)

    def total(self):
        return sum(map(len, self.counts.values()))

    def read(self):
        """What comes in a moment, and whether there is more."""
        messages = self.consumer.consume(500, 0.2)
        for message in messages:
            if message.error() is None:
                self.counts[message.key().decode()].append(int(message.value()))
            else:
                assert message.error().code() in (KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN), message.error()
        return len(messages) == 500

    def read_until(self, enough, seconds, why):
        end = time.monotonic() + seconds
        while self.total() < enough:
            self.read()
            assert time.monotonic() < end, f"{self.total()} of {enough} counts have come, {why()}"

    def read_new(self, count, seconds, why):
        """Reads what there is, and on until so many more have come."""
        while self.read():
            pass
        self.read_until(self.total() + count, seconds, why)


@test(own_broker=True, expected_log=[TORN_TAIL])
def words_are_counted_exactly_once(run):
    """The application is killed three times and the broker once, in the midst of their work: each occurrence of each word is counted
    once, in its order."""
    settings = {"group.min.session.timeout.ms": 1000, "group.initial.rebalance.delay.ms": 0, "offsets.topic.num.partitions": 4,
                "transaction.state.log.num.partitions": 4, "transaction.abort.timed.out.transaction.cleanup.interval.ms": 200}
    with run.new_broker(settings=settings) as broker:
        run.use(broker)
        run.create_topic("lines", PARTITIONS)
        run.create_topic("counts", PARTITIONS)
        application, reader = WordCount(run), Reader(run)
        why = lambda: f"and the application says\n{application.log.read_text()[-3000:]}"
        application.start()
        feed = Feed(run.bootstrap)
        # A lone Kafka that is killed may complete a transaction without its markers: then the application waits for ever.
        victims = ["application", *(["broker"] if broker.kind != "kafka" else []), "application", "application"]
        for victim in victims:
            # It is at work again, with a transaction every 100 ms.
            reader.read_new(500, 120, why)
            if victim == "broker":
                broker.kill()
                broker.start()
            else:
                application.kill()
                application.start()
        reader.read_new(500, 120, why)
        feed.end()
        wanted = {word: list(range(1, count + 1)) for word, count in feed.written.items()}
        reader.read_until(sum(feed.written.values()), 120, why)
        application.stop()
        equal(dict(reader.counts), wanted, "the counts of each word")
        internal(run)


def internal(run):
    """The topics that Streams made for itself are as it wants them, and are purged."""
    configs = {topic: run.java("kafka-configs", "--entity-type", "topics", "--entity-name", topic, "--describe")
               for topic in ["word-count-words-repartition", "word-count-so-far-changelog"]}
    within("cleanup.policy=delete ", configs["word-count-words-repartition"])
    within("retention.ms=-1 ", configs["word-count-words-repartition"])
    within("cleanup.policy=compact ", configs["word-count-so-far-changelog"])
    for partition in range(PARTITIONS):
        earliest = run.java("kafka-get-offsets", "--topic-partitions", f"word-count-words-repartition:{partition}", "--time", "earliest")
        assert int(matches(rf":{partition}:(\d+)", earliest)[1]) > 0, "what was counted is not deleted"
