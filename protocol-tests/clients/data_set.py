"""A real data set, text lines found on this machine, goes in by one client and comes out by another: the same lines in the same order,
with every codec, after a restart, and after a kill in the middle of writing."""

import hashlib
import os
import pathlib
import subprocess
import time

from . import machine
from .suite import equal, test

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
# A kill may tear the batch that was being written; it was not acknowledged.
TORN_TAIL = r"WARN log was repaired .* are no records: a batch of \d+ bytes ends behind the \d+ that are left"
FOLDERS = ["/usr/share", "/usr/lib/python3", "/usr/include", "/var/lib/dpkg", "~/.cargo/registry/src", "~/.rustup"]


def text_files():
    """Files of text, always in the same order."""
    for folder in FOLDERS:
        for path, folders, files in os.walk(os.path.expanduser(folder)):
            folders.sort()
            for name in sorted(files):
                file = os.path.join(path, name)
                try:
                    if os.path.islink(file) or not os.path.isfile(file) or os.path.getsize(file) > 4_000_000:
                        continue
                    with open(file, "rb") as f:
                        text = f.read()
                    text.decode()
                except (OSError, UnicodeDecodeError):
                    continue
                if b"\0" not in text:
                    yield text


def write_data_set(path, size):
    """Lines that every console client takes as they are: UTF-8, not empty, without carriage returns. Gives how many there are."""
    written = count = 0
    with open(path, "wb") as out:
        while written < size:
            before = written
            for text in text_files():
                lines = [line for line in text.split(b"\n") if line and b"\r" not in line and len(line) < 100_000]
                out.write(b"".join(line + b"\n" for line in lines))
                written += sum(map(len, lines)) + len(lines)
                count += len(lines)
                if written >= size:
                    break
            assert written > before, "there is no text on this machine"
    return count


def digest(path):
    with open(path, "rb") as f:
        return hashlib.file_digest(f, "sha256").hexdigest()


class DataSet:
    """The lines, and how each client writes and reads them: topic kcat-CODEC is written by kcat and read by Kafka's console consumer,
    java-CODEC the other way round."""

    def __init__(self, run):
        self.run = run
        self.file, self.out = run.folder / "lines", run.folder / "read"
        self.count = write_data_set(self.file, run.session.data_set_mb * 1_000_000)
        self.digest = digest(self.file)

    def write(self, codec):
        self.run.create_topic(f"kcat-{codec}", segment_bytes=16_777_216)
        self.run.create_topic(f"java-{codec}", segment_bytes=16_777_216)
        self.run.kcat("-P", "-t", f"kcat-{codec}", "-p", 0, "-X", f"compression.codec={codec}", "-X", "linger.ms=20", input=self.file, timeout=300)
        self.run.java("kafka-console-producer", "--topic", f"java-{codec}", "--compression-codec", codec, "--batch-size", 100_000,
                      input=self.file, timeout=300)

    def read(self, codec, when):
        self.run.tools.to_file(self.out, "kafka-console-consumer", "--bootstrap-server", self.run.bootstrap, "--topic", f"kcat-{codec}",
                               "--partition", 0, "--offset", "earliest", "--max-messages", self.count, "--timeout-ms", 30000)
        equal(digest(self.out), self.digest, f"written by kcat with {codec}, read by Kafka's console consumer {when}")
        with open(self.out, "wb") as out:
            command = ["kcat", "-b", self.run.bootstrap, "-C", "-q", "-t", f"java-{codec}", "-p", "0", "-o", "beginning", "-e"]
            subprocess.run(command, stdout=out, check=True, timeout=300)
        equal(digest(self.out), self.digest, f"written by Kafka's console producer with {codec}, read by kcat {when}")


@test(own_broker=True, expected_log=[TORN_TAIL])
def through_every_codec(run):
    lines = DataSet(run)
    with run.new_broker() as broker:
        run.use(broker)
        for codec in CODECS:
            lines.write(codec)
            lines.read(codec, "at once")
        broker.stop()
        broker.start()
        for codec in CODECS:
            lines.read(codec, "after a restart")
        kill_in_mid_write(run, broker, lines.file)
        broker.start()
        for codec in CODECS:
            lines.read(codec, "after a kill")


def kill_in_mid_write(run, broker, file):
    """kcat writes to topics of its own when the broker dies."""
    run.create_topic("interrupted", partitions=3)
    command = ["kcat", "-b", run.bootstrap, "-P", "-t", "interrupted", "-X", "compression.codec=lz4", "-X", "message.timeout.ms=1000"]
    with open(file, "rb") as lines, subprocess.Popen(command, stdin=lines, stderr=subprocess.DEVNULL) as writer:
        try:
            end = time.monotonic() + 30
            while sum(path.stat().st_size for path in broker.data.glob("interrupted-*/*.log")) < 100_000:
                assert time.monotonic() < end, "nothing is written"
                time.sleep(0.01)
            broker.kill()
        finally:
            writer.kill()


@test(own_broker=True, expected_log=[TORN_TAIL])
def acknowledged_records_survive_a_kill(run):
    """Killed again and again while four producers write: what was acknowledged is there, in order and once."""
    acks = run.folder / "acks"
    with run.new_broker(settings={"log.flush.offset.checkpoint.interval.ms": "500"}) as broker:
        run.use(broker)
        for _ in range(4):
            size = acks.stat().st_size if acks.exists() else 0
            with subprocess.Popen([machine.go_program(), "write", run.bootstrap, acks, "killed"], stderr=subprocess.PIPE) as writer:
                try:
                    wait_for_acks(acks, size + 1_000_000, writer)
                    broker.kill()
                finally:
                    writer.kill()
            broker.start()
            run.franz_go("verify", acks, "killed")
        broker.stop()
        broker.start()
        run.franz_go("verify", acks, "killed")


def wait_for_acks(acks: pathlib.Path, size, writer):
    end = time.monotonic() + 60
    while not acks.exists() or acks.stat().st_size < size:
        assert writer.poll() is None, f"the writer gave up: {writer.stderr.read().decode()}"
        assert time.monotonic() < end, "too few records are acknowledged"
        time.sleep(0.01)
