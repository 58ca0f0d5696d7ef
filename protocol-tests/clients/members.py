"""Members of groups as processes, one way for all clients, and a feed of records for them.

Each client has a program that joins a group and goes on until it is told to end: GroupMember.java, confluent_member.py and
../franz-go/member.go; kcat -G is its own. They are called with words KEY=VALUE:

    bootstrap  group  protocol=classic|consumer  id (the client's)  session (its timeout, ms)
    topics=A,B or pattern=^REGEX  [instance (of a static member)]  [assignor]

They print a line for each event (`assigned T:P…`, `revoked T:P…`, `lost T:P…`, `record TOPIC PARTITION OFFSET VALUE`, `committed`,
`error …`, `closed`), obey the lines `commit` and `close` of standard input, and leave the group with a commit when it is closed.
On revocation they commit what they have printed.
"""

import collections
import re
import subprocess
import threading
import time

from confluent_kafka import Producer

from . import machine
from .brokers import die_with_parent
from .suite import equal, eventually, short

SESSION_MS = 3000
KCAT_REBALANCE = re.compile(r"% Group .* rebalanced \(memberid .*\): (assigned|revoked)(?: incrementally)?: ?(.*)")


class Member:
    """A member of `group`, of the client's own process. Ended with the test at the latest."""

    def __init__(self, run, client, protocol, group, name="member", **options):
        self.name = f"{name} ({client}, {protocol})"
        self.client = client
        self.assignment = set()  # of "topic:partition"
        self.changes = []  # of the assignment: the words of each
        self.records = []  # (topic, partition, offset, value)
        self.commits = 0
        self.errors = []
        words = {"bootstrap": run.bootstrap, "group": group, "protocol": protocol, "id": name, "session": SESSION_MS, **options}
        command = self.kcat(words) if client == "kcat" else [*PROGRAMS[client](run), *(f"{key}={value}" for key, value in words.items())]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                        cwd=machine.HERE, preexec_fn=die_with_parent)
        run.at_end(self.kill)
        self.readers = [threading.Thread(target=self.read, args=(stream,), daemon=True)
                        for stream in (self.process.stdout, self.process.stderr)]
        for reader in self.readers:
            reader.start()

    def kcat(self, words):
        config = {
            "client.id": words["id"], "session.timeout.ms": words["session"], "heartbeat.interval.ms": 200,
            "auto.offset.reset": "earliest", "topic.metadata.refresh.interval.ms": 500, "fetch.wait.max.ms": 100,
            "auto.commit.interval.ms": 200,
        }
        if "instance" in words:
            config["group.instance.id"] = words["instance"]
        if "assignor" in words:
            config["partition.assignment.strategy"] = words["assignor"]
        topics = words["topics"].split(",") if "topics" in words else [words["pattern"]]
        pairs = [word for key, value in config.items() for word in ("-X", f"{key}={value}")]
        return [machine.program("kcat"), "-b", words["bootstrap"], *pairs, "-E", "-u", "-f", r"record %t %p %o %s\n", "-G", words["group"], *topics]

    def read(self, stream):
        for line in stream:
            kind, _, rest = line.strip().partition(" ")
            if found := KCAT_REBALANCE.match(line):
                kind, rest = found[1], re.sub(r" \[(\d+)\],?", r":\1", found[2])
            words = rest.split()
            if kind == "record":
                self.records.append((words[0], int(words[1]), int(words[2]), " ".join(words[3:])))
            elif kind in ("assigned", "revoked", "lost"):
                self.assignment = self.assignment | set(words) if kind == "assigned" else self.assignment - set(words)
                self.changes.append((kind, words))
            elif kind == "committed":
                self.commits += 1
            elif kind == "error" or stream is self.process.stderr and not line.startswith("%"):
                self.errors.append(line.strip())

    def tell(self, command):
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()

    def commit(self):
        before = self.commits
        self.tell("commit")
        eventually(lambda: self.expect(self.commits > before, "has not committed"))

    def close(self, seconds=40):
        """It leaves the group, well."""
        if self.client == "kcat":
            self.process.terminate()
        else:
            self.tell("close")
        status = self.process.wait(seconds)
        for reader in self.readers:
            reader.join(5)
        self.expect(status == 0, f"ended with status {status}")

    def kill(self):
        self.process.kill()
        self.process.wait()

    def expect(self, condition, what):
        assert condition, f"{self.name} {what}; it has {sorted(self.assignment)} after {short(self.changes[-8:])}, said {short(self.errors)}"

    def said(self, *words):
        """Is there one of the words in its errors?"""
        errors = " ".join(self.errors).lower().replace("_", "")
        return any(word in errors for word in words)

    def values(self):
        return [value for _, _, _, value in self.records]


def java_program(run):
    return [machine.java(), "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto",
            f"-Dlog4j2.configurationFile={machine.HERE / 'clients/log4j2-tools.properties'}",
            "-cp", f"{machine.java_classes()}:{machine.kafka_jars()}/*", "GroupMember"]


PROGRAMS = {
    "java": java_program,
    "confluent": lambda run: [machine.python(), machine.HERE / "clients/confluent_member.py"],
    "franz-go": lambda run: [machine.go_program(), "member", run.bootstrap],
}


def share(members, wanted, seconds=60):
    """Waits until the members hold the wanted partitions between them, each its part, as even as can be."""
    def check():
        held = collections.Counter(partition for member in members for partition in member.assignment)
        sizes = sorted(len(member.assignment) for member in members)
        for member in members:
            member.expect(member.process.poll() is None, "has ended")
        assert set(held) == set(wanted) and max(held.values(), default=1) == 1 and sizes[-1] - sizes[0] <= 1, (
            f"{len(wanted)} partitions are shared as " + "; ".join(f"{m.name} {sorted(m.assignment)} said {short(m.errors)}" for m in members))
    eventually(check, seconds)


def partitions(topic, count):
    return [f"{topic}:{number}" for number in range(count)]


class Feed:
    """Produces to all partitions of a topic, about 200 records a second, from its start to its end."""

    def __init__(self, run, topic, partitions, prefix=""):
        self.topic, self.partitions, self.prefix = topic, partitions, prefix
        self.values = []  # delivered
        self.failed = []
        self.producer = Producer({"bootstrap.servers": run.bootstrap, "linger.ms": 5, "enable.idempotence": True, "log_level": 2})
        self.ending = threading.Event()
        self.thread = threading.Thread(target=self.go, daemon=True)
        run.at_end(self.ending.set)
        self.thread.start()

    def go(self):
        number = 0
        while not self.ending.wait(0.005):
            value = f"{self.prefix}{number}"
            self.producer.produce(self.topic, value, partition=number % self.partitions, on_delivery=lambda error, message: self.report(error, message))
            self.producer.poll(0)
            number += 1

    def report(self, error, message):
        if error:
            self.failed.append(error)
        else:
            self.values.append(message.value().decode())

    def end(self):
        """Every value that the broker has taken."""
        self.ending.set()
        self.thread.join()
        equal(self.producer.flush(30), 0, "records without a report")
        equal(self.failed, [], "records refused")
        return self.values


def wait_for_values(members, values, once=True, seconds=40):
    """Waits until the members have read all the values between them; `once`: none of them twice."""
    def read():
        return collections.Counter(value for member in members for value in member.values())

    def check():
        missing = set(values) - set(read())
        assert not missing, f"{len(missing)} of {len(values)} values have not been read: {short(sorted(missing))}; " + "; ".join(
            f"{m.name} {sorted(m.assignment)} {len(m.records)} records, said {short(m.errors)}" for m in members)
    eventually(check, seconds)
    if once:
        time.sleep(0.2)
        twice = {value: [m.name for m in members if value in m.values()] for value, count in read().items() if count > 1}
        assert not twice, f"{len(twice)} of {len(values)} values have been read twice: {short(twice)}"
    equal(set(read()) - set(values), set(), "values that nobody has sent")


def burst(run, topic, partitions, prefix, seconds=0.2):
    """Some records, and their values."""
    feed = Feed(run, topic, partitions, prefix)
    time.sleep(seconds)
    return feed.end()
