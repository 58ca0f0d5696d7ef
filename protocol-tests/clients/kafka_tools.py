"""Kafka's own command line tools, by their scripts' names, all in one warm JVM (see KafkaTools.java)."""

import os
import pathlib
import select
import subprocess
import tempfile
import threading
import urllib.parse

from . import machine

TOOLS = "org.apache.kafka.tools."
MAIN = {
    "kafka-acls": TOOLS + "AclCommand",
    "kafka-broker-api-versions": TOOLS + "BrokerApiVersionsCommand",
    "kafka-cluster": TOOLS + "ClusterTool",
    "kafka-configs": "kafka.admin.ConfigCommand",
    "kafka-console-consumer": TOOLS + "consumer.ConsoleConsumer",
    "kafka-console-producer": TOOLS + "ConsoleProducer",
    "kafka-consumer-groups": TOOLS + "consumer.group.ConsumerGroupCommand",
    "kafka-consumer-perf-test": TOOLS + "ConsumerPerformance",
    "kafka-delete-records": TOOLS + "DeleteRecordsCommand",
    "kafka-dump-log": TOOLS + "DumpLogSegments",
    "kafka-e2e-latency": TOOLS + "EndToEndLatency",
    "kafka-features": TOOLS + "FeatureCommand",
    "kafka-get-offsets": TOOLS + "GetOffsetShell",
    "kafka-groups": TOOLS + "GroupsCommand",
    "kafka-leader-election": TOOLS + "LeaderElectionCommand",
    "kafka-log-dirs": TOOLS + "LogDirsCommand",
    "kafka-metadata-quorum": TOOLS + "MetadataQuorumCommand",
    "kafka-producer-perf-test": TOOLS + "ProducerPerformance",
    "kafka-reassign-partitions": TOOLS + "reassign.ReassignPartitionsCommand",
    "kafka-share-groups": TOOLS + "consumer.group.ShareGroupCommand",
    "kafka-storage": "kafka.tools.StorageTool",
    "kafka-topics": TOOLS + "TopicCommand",
    "kafka-transactions": TOOLS + "TransactionsCommand",
    "kafka-verifiable-consumer": TOOLS + "VerifiableConsumer",
    "kafka-verifiable-producer": TOOLS + "VerifiableProducer",
    "move-replicas": "MoveReplicas",
}


# They end their JVM themselves, and have their last word when it ends: each call needs one of its own.
ALONE = ("kafka-verifiable-consumer", "kafka-verifiable-producer")


def java(jars):
    return [machine.java(), "-Xmx512m", "-XX:+UseSerialGC", "-Xlog:disable",
            f"-Dlog4j2.configurationFile={machine.HERE / 'clients/log4j2-tools.properties'}", "-cp", ":".join(map(str, jars))]


def alone(tool, arguments, timeout=90):
    """Exit status, standard output and standard error of a tool in a JVM of its own."""
    command = [*java(sorted(machine.kafka_jars().glob("*.jar"))), MAIN[tool], *arguments]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout)
    return done.returncode, done.stdout, done.stderr


class KafkaTools:
    """Call it with a tool's name and its arguments, one call at a time. The JVM starts with the first call."""

    def __init__(self):
        self.jvm = None
        self.turn = threading.RLock()
        self.scratch = tempfile.TemporaryDirectory(prefix="kafka-tools-")

    def __call__(self, tool, *arguments, input="", timeout=90, fails=False, all_of_it=False):
        """What the tool prints to standard output, with `all_of_it` to standard error too; `fails` expects a failure and gives both."""
        with self.turn:
            status, printed, errors = self.output(tool, arguments, input, timeout)
        if fails:
            assert status != 0, f"{tool} {arguments} was to fail, and printed {printed}"
            return printed + errors
        assert status == 0, f"{tool} {arguments}: exit status {status}\n{errors[-1500:]}{printed[-1500:]}"
        return printed + errors if all_of_it else printed

    def output(self, tool, arguments, input, timeout, fresh=True):
        folder = pathlib.Path(self.scratch.name)
        source, out, err = folder / "in", folder / "out", folder / "err"
        if isinstance(input, pathlib.Path):
            source = input
        else:
            source.write_bytes(input if isinstance(input, bytes) else input.encode())
        status = self.call([source, out, err, MAIN[tool] if fresh else "+" + MAIN[tool], *arguments], timeout)
        return status, out.read_text(errors="replace"), err.read_text(errors="replace")

    def errors(self):
        """What the last call printed to standard error."""
        return (pathlib.Path(self.scratch.name) / "err").read_text(errors="replace")

    def to_file(self, path, tool, *arguments, input=os.devnull, timeout=300):
        """The same with standard output in a file, for much of it."""
        err = pathlib.Path(self.scratch.name) / "err"
        status = self.call([input, path, err, MAIN[tool], *arguments], timeout)
        assert status == 0, f"{tool} {arguments}: exit status {status}\n{err.read_text(errors='replace')[-1500:]}"

    def call(self, words, timeout):
        if self.jvm is None:
            self.start()
        line = " ".join(urllib.parse.quote_plus(str(word)) for word in words)
        self.jvm.stdin.write(line.encode() + b"\n")
        self.jvm.stdin.flush()
        if not select.select([self.jvm.stdout], [], [], timeout)[0]:
            self.stop()
            raise AssertionError(f"not done after {timeout} s: {line}")
        answer = self.jvm.stdout.readline()
        assert answer, "the JVM of the tools ended"
        return int(answer)

    def start(self):
        jars = sorted(machine.kafka_jars().glob("*.jar"))
        tools = [jar for jar in jars if jar.name.startswith(("kafka-tools-4", "kafka_2.13-"))]
        others = [machine.java_classes(), *(jar for jar in jars if jar not in tools)]
        command = [*java(others), "KafkaTools", *tools]
        self.jvm = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)

    def stop(self):
        if self.jvm:
            self.jvm.kill()
            self.jvm.wait()
            self.jvm = None
