"""Starts and stops the brokers: Apache Kafka from Maven's jars, and a binary under test. Both get `settings.properties`."""

import contextlib
import os
import pathlib
import shutil
import socket
import subprocess
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "ottla-differential"
CLUSTER_ID = "b3R0bGEtZGlmZmVyZW50aQ"


def free_ports(first):
    """Two ports: `first` and the one after it, or any two if None."""
    if first:
        return first, first + 1
    with socket.create_server(("127.0.0.1", 0)) as a, socket.create_server(("127.0.0.1", 0)) as b:
        return a.getsockname()[1], b.getsockname()[1]


@contextlib.contextmanager
def kafka(first_port=None, keep=None, more=()):
    """An Apache Kafka on a fresh directory: yields its (host, port)."""
    with directory(keep) as path:
        properties, port = write_settings(path, first_port, more)
        java = [str(pathlib.Path(os.environ["JAVA_HOME"], "bin/java")) if "JAVA_HOME" in os.environ else "java"]
        java += ["-Xmx512m", "-Xms256m", f"-Dlog4j2.configurationFile={HERE / 'log4j2.properties'}", "-cp", f"{jars()}/*"]
        format_storage = [*java, "kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", str(properties)]
        subprocess.run(format_storage, check=True, stdout=subprocess.DEVNULL)
        with process([*java, "kafka.Kafka", str(properties)], path / "broker.log") as broker:
            wait(broker, path, lambda: "Kafka Server started" in (path / "broker.log").read_text())
            yield "127.0.0.1", port


@contextlib.contextmanager
def binary(program, first_port=None, keep=None, more=()):
    """The broker under test on a fresh directory: yields its (host, port)."""
    with directory(keep) as path:
        properties, _ = write_settings(path, first_port, more)
        ready = path / "ready"
        with process([program, str(properties), "--ready-file", str(ready)], path / "broker.log") as broker:
            wait(broker, path, lambda: ready.exists() and ready.read_text().strip())
            host, _, port = ready.read_text().split()[0].rpartition(":")
            yield host, int(port)


def jars():
    libs = CACHE / "libs"
    pom = (HERE / "pom.xml").read_text()
    stamp = CACHE / "pom.xml"
    if not stamp.exists() or stamp.read_text() != pom:
        shutil.rmtree(libs, ignore_errors=True)
        fetch = ["mvn", "-q", "-B", "-f", str(HERE / "pom.xml"), "dependency:copy-dependencies", f"-DoutputDirectory={libs}"]
        subprocess.run(fetch, check=True)
        stamp.write_text(pom)
    return libs


@contextlib.contextmanager
def directory(keep):
    if keep:
        path = pathlib.Path(keep).resolve()
        path.mkdir(parents=True)
        yield path
        return
    with tempfile.TemporaryDirectory(prefix="differential-") as path:
        yield pathlib.Path(path)


def write_settings(path, first_port, more):
    port, controller_port = free_ports(first_port)
    text = (HERE / "settings.properties").read_text() + "".join(f"{name}={value}\n" for name, value in more)
    for name, value in {"port": port, "controller_port": controller_port, "dir": path}.items():
        text = text.replace("{%s}" % name, str(value))
    properties = path / "server.properties"
    properties.write_text(text)
    return properties, port


@contextlib.contextmanager
def process(command, log):
    with open(log, "wb") as out:
        child = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
    try:
        yield child
    finally:
        child.terminate()
        try:
            child.wait(30)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()


def wait(broker, path, is_ready, seconds=60):
    end = time.monotonic() + seconds
    while not is_ready():
        if broker.poll() is not None or time.monotonic() > end:
            raise SystemExit(f"the broker did not start:\n{(path / 'broker.log').read_text()[-3000:]}")
        time.sleep(0.05)
