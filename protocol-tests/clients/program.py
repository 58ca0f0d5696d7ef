"""The program as its user meets it: arguments, addresses, signals, refusals."""

import contextlib
import os
import signal
import subprocess
import time

from . import brokers
from .suite import equal, matches, test, within

ANY_PORT = ["--override", "listeners=PLAINTEXT://127.0.0.1:0"]


@contextlib.contextmanager
def ottla(run, *arguments, environment=None):
    """The program in an empty working directory; its output is in `output` there."""
    with open(run.folder / "output", "wb") as output:
        process = subprocess.Popen([run.new_broker("unused").binary, *map(str, arguments)], cwd=run.folder, stdin=subprocess.DEVNULL,
                                   stdout=output, stderr=output, env={**os.environ, **(environment or {})}, preexec_fn=brokers.die_with_parent)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def output(run):
    return (run.folder / "output").read_text()


def wait_for(check, process):
    end = time.monotonic() + 30
    while not check():
        assert process.poll() is None, f"it ended with status {process.returncode}"
        assert time.monotonic() < end, "it does not happen"
        time.sleep(0.02)


def refused(run, *arguments):
    """It does not start: what it says."""
    with ottla(run, *arguments) as process:
        status = process.wait(30)
    assert status not in (0, -signal.SIGABRT, 101), f"exit status {status}"
    return output(run)


def use(run, ready):
    run.bootstrap = ready.read_text().splitlines()[0]


@test(own_broker=True, ottla_only=True)
def ephemeral(run):
    """A temporary directory that is gone in the end, a free port, a file and a line that say which."""
    temporary, ready = run.folder / "tmp", run.folder / "ready"
    temporary.mkdir()
    with ottla(run, "--ephemeral", *ANY_PORT, "--ready-file", ready, environment={"TMPDIR": str(temporary)}) as process:
        wait_for(ready.exists, process)
        use(run, ready)
        within(run.bootstrap, output(run))
        run.kcat("-P", "-t", "a", input="x\n")
        equal(run.kcat("-C", "-q", "-t", "a", "-o", "beginning", "-e"), "x\n")
        equal(len(list(temporary.iterdir())), 1)
        process.send_signal(signal.SIGINT)
        equal(process.wait(30), 0, "exit status after SIGINT")
    equal(list(temporary.iterdir()), [], "left behind")
    assert not ready.exists(), "the ready file is still there"
    assert not (run.folder / "ottla-data").exists(), "it wrote to ottla-data"


@test(own_broker=True, ottla_only=True)
def default_directory(run):
    """Without a word about it, data is in ./ottla-data, and found again."""
    ready = run.folder / "ready"
    for text in ["one\n", "two\n"]:
        with ottla(run, *ANY_PORT, "--ready-file", ready) as process:
            wait_for(ready.exists, process)
            use(run, ready)
            run.kcat("-P", "-t", "kept", "-p", 0, input=text)
            process.send_signal(signal.SIGTERM)
            equal(process.wait(30), 0, "exit status after SIGTERM")
    assert (run.folder / "ottla-data" / "kept-0").is_dir(), os.listdir(run.folder)
    with ottla(run, *ANY_PORT, "--ready-file", ready) as process:
        wait_for(ready.exists, process)
        use(run, ready)
        equal(run.kcat("-C", "-q", "-t", "kept", "-o", "beginning", "-e"), "one\ntwo\n")


@test(own_broker=True, ottla_only=True)
def directory_in_use(run):
    with run.new_broker("first") as first:
        run.use(first)
        run.kcat("-P", "-t", "a", input="x\n")
        said = refused(run, *ANY_PORT, "--override", f"log.dirs={first.data}")
        matches("(?i)lock|in use|another", said)
        equal(run.kcat("-C", "-q", "-t", "a", "-o", "beginning", "-e"), "x\n")


@test(own_broker=True, ottla_only=True)
def port_in_use(run):
    with run.new_broker("first") as first:
        said = refused(run, "--ephemeral", "--override", f"listeners=PLAINTEXT://127.0.0.1:{first.port}")
        within(str(first.port), said)


@test(own_broker=True, ottla_only=True)
def settings_refused(run):
    """A bad value is named with its key; what would protect and is not honoured stops the start."""
    for key, value in [("num.partitions", "many"), ("log.segment.bytes", "1"), ("log.cleanup.policy", "burn"), ("listeners", "PLAINTEXT://x:y:z")]:
        said = refused(run, "--ephemeral", *ANY_PORT, "--override", f"{key}={value}")
        within(key, said)
        within(value, said)
    for pair in ["listeners=SSL://127.0.0.1:0", "listeners=SASL_PLAINTEXT://127.0.0.1:0",
                 "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer"]:
        within(pair.split("=")[1].split(":")[0], refused(run, "--ephemeral", *ANY_PORT, "--override", pair))
    said = refused(run, run.folder / "no-such.properties")
    within("no-such.properties", said)


@test(own_broker=True, ottla_only=True, expected_log=["no.such.key"])
def unknown_key_warns(run):
    with run.new_broker(settings={"no.such.key": "1"}) as broker:
        matches(r" WARN .*no\.such\.key", broker.tail())
