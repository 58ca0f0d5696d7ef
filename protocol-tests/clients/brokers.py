"""Starts, stops and kills brokers: the binary under test, and Apache Kafka, on the same settings and the same directory layout.

A broker's directory holds `server.properties`, `broker.log` (of all its starts) and `data`. Whoever starts one ends it: use `with`.
"""

import ctypes
import os
import pathlib
import random
import re
import shutil
import signal
import socket
import subprocess
import time

from . import machine

CLUSTER_ID = "b3R0bGEtY2xpZW50cy0wMQ"
LIBC = ctypes.CDLL(None)
LOUD = re.compile(r"^\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}\] (WARN|ERROR) |panicked at|^(ottla: |SLF4J|Exception in)")


def free_port():
    """A port nobody listens on. Not one of those that outgoing connections take, lest one of them comes first."""
    first, last = map(int, os.environ.get("OTTLA_TEST_PORTS", "26000-31999").split("-"))
    while True:
        port = random.randint(first, last)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
                return port
            except OSError:
                continue


def die_with_parent():
    """In the child: should the tests be killed, the broker does not outlive them."""
    PR_SET_PDEATHSIG = 1
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


class Broker:
    """One node on 127.0.0.1. `settings` come on top of those every node needs; None takes one away."""

    kind = ""
    checks_log = False  # is every WARN and ERROR in its log a failure?
    ready_seconds = 90

    def __init__(self, directory, settings=None, data=None):
        self.directory = pathlib.Path(directory)
        self.directory.mkdir(parents=True, exist_ok=True)
        self.data = pathlib.Path(data) if data else self.directory / "data"
        self.settings = dict(settings or {})
        self.log = self.directory / "broker.log"
        self.port = self.controller_port = free_port()
        while self.controller_port == self.port:
            self.controller_port = free_port()
        self.host = "127.0.0.1"
        self.process = None
        self.checked = 0  # how much of the log has been looked at

    @property
    def bootstrap(self):
        return f"{self.host}:{self.port}"

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        self.kill()

    def properties(self):
        return {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@127.0.0.1:{self.controller_port}",
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:{self.controller_port}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{self.port}",
            "controller.listener.names": "CONTROLLER",
            "log.dirs": str(self.data),
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            **self.settings,
        }

    def write_properties(self):
        path = self.directory / "server.properties"
        pairs = [(key, value) for key, value in self.properties().items() if value is not None]
        path.write_text("".join(f"{key}={value}\n" for key, value in pairs))
        return path

    def start(self):
        assert not self.running(), "it runs already"
        properties = self.write_properties()
        self.prepare(properties)
        self.started_at = self.log.stat().st_size if self.log.exists() else 0
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(self.command(properties), stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                            start_new_session=True, preexec_fn=die_with_parent)
        end = time.monotonic() + self.ready_seconds
        while not self.is_ready():
            if self.process.poll() is not None or time.monotonic() > end:
                self.kill()
                raise AssertionError(f"{self.kind} did not start:\n{self.tail()}")
            time.sleep(0.02)
        return self

    def running(self):
        return self.process is not None and self.process.poll() is None

    def stop(self):
        """SIGTERM, as an operator does; it must end by itself and well."""
        self.process.send_signal(signal.SIGTERM)
        try:
            status = self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"{self.kind} does not end on SIGTERM:\n{self.tail()}") from None
        assert status in self.good_ends, f"{self.kind} ended with status {status}:\n{self.tail()}"

    def kill(self):
        if self.running():
            self.process.kill()
            self.process.wait()

    def tail(self):
        return self.log.read_bytes()[-3000:].decode(errors="replace") if self.log.exists() else ""

    def new_loud_lines(self, expected=()):
        """The WARN and ERROR lines since the last call, and why it ended, that none of the `expected` patterns matches."""
        if not self.checks_log or not self.log.exists():
            return []
        with open(self.log, "rb") as log:
            log.seek(self.checked)
            text = log.read()
        whole = text[:text.rfind(b"\n") + 1]
        self.checked += len(whole)
        lines = [line for line in whole.decode(errors="replace").splitlines() if LOUD.search(line)]
        return [line for line in lines if not any(re.search(pattern, line) for pattern in expected)]


class Ottla(Broker):
    kind = "ottla"
    checks_log = True
    good_ends = (0,)

    def __init__(self, binary, *arguments, **options):
        super().__init__(*arguments, **options)
        self.binary = binary
        self.ready = self.directory / "ready"
        self.left = ()  # files that are damaged, and that it does not mend

    def prepare(self, _properties):
        self.ready.unlink(missing_ok=True)

    def command(self, properties):
        return [self.binary, str(properties), "--ready-file", str(self.ready)]

    def is_ready(self):
        return self.ready.exists() and self.ready.read_text().endswith("\n")

    def stop(self):
        """What it leaves then is without a fault, but where the test says otherwise."""
        super().stop()
        directories = self.settings.get("log.dirs", str(self.data)).split(",")
        done = subprocess.run([self.binary, "verify-log", *directories], capture_output=True, text=True, timeout=300)
        faults = re.findall(r"^fault (\S+?):? ", done.stdout, re.MULTILINE)
        assert sorted(set(faults)) == sorted(self.left) and done.returncode == bool(faults), f"verify-log after an end in order:\n{done.stdout}{done.stderr}"


class Kafka(Broker):
    kind = "kafka"
    good_ends = (0, 143)

    def java(self):
        heap = os.environ.get("KAFKA_HEAP_OPTS", "-Xmx512m -Xms256m").split()
        log4j = machine.HERE / "clients/log4j2.properties"
        return [machine.java(), *heap, f"-Dlog4j2.configurationFile={log4j}", "-cp", f"{machine.kafka_jars()}/*"]

    def prepare(self, properties):
        if not (self.data / "meta.properties").exists():
            machine.run([*self.java(), "kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", properties])

    def command(self, properties):
        collector = ["-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-XX:InitiatingHeapOccupancyPercent=35"]
        return [*self.java()[:-2], *collector, *self.java()[-2:], "kafka.Kafka", str(properties)]

    def is_ready(self):
        with open(self.log, "rb") as log:
            log.seek(self.started_at)
            return b"Kafka Server started" in log.read()


class Running(Broker):
    """A broker that somebody else runs: nothing but its address is known."""

    kind = "running"

    def __init__(self, bootstrap):
        self.host, _, self.port = bootstrap.rpartition(":")
        self.log = pathlib.Path(os.devnull)

    def start(self):
        return self

    def running(self):
        return True

    def stop(self):
        pass

    kill = stop


def copy_data(source, target):
    """A data directory as it lies there, without the lock."""
    shutil.copytree(source, target, ignore=shutil.ignore_patterns(".lock"))
