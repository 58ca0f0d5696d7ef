"""The vocabulary of a test, and the loop that runs them.

A test is a function with the decorator `@test`, whose name is FILE/FUNCTION. It gets a `Run`, and fails by any exception:

    @test()
    def keys(run):
        run.kcat("-P", "-t", run.topic, "-K:", input="a:1\n")
        equal(run.kcat("-C", "-e", "-t", run.topic, "-f", "%k"), "a")

Tests share one broker; one that needs its own, to stop or kill it, says `@test(own_broker=True)` and makes it with `run.new_broker`.
One about what Kafka does not have says `ottla_only=True`.
After each test, a WARN or ERROR in the log of a broker of the kind under test fails it, unless `expected_log` has a pattern for it.
"""

import dataclasses
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import time
import traceback

from . import brokers, machine
from .kafka_tools import KafkaTools

TESTS = []


@dataclasses.dataclass
class Test:
    name: str
    function: callable
    own_broker: bool
    ottla_only: bool
    expected_log: tuple


def test(own_broker=False, ottla_only=False, expected_log=(), name=None):
    def add(function):
        file = function.__module__.rsplit(".", 1)[1]
        full_name = f"{file}/{name or function.__name__}".replace("_", "-")
        TESTS.append(Test(full_name, function, own_broker, ottla_only, tuple(expected_log)))
        return function
    return add


def equal(got, wanted, what=""):
    assert got == wanted, f"{what}: got {short(got)}, not {short(wanted)}".removeprefix(": ")


def within(what, text):
    assert what in text, f"no {what!r} in {short(text)}"


def matches(pattern, text):
    found = re.search(pattern, text, re.MULTILINE)
    assert found, f"no /{pattern}/ in {short(text)}"
    return found


def short(value):
    text = repr(value)
    return text if len(text) < 1200 else f"{text[:600]} … {text[-600:]}"


def eventually(check, seconds=15):
    """Repeats `check` until it raises no AssertionError: what Kafka answers before it is true everywhere."""
    end = time.monotonic() + seconds
    while True:
        try:
            return check()
        except AssertionError:
            if time.monotonic() > end:
                raise
            time.sleep(0.1)


class Session:
    """All that the tests of one call of `protocol-tests/run` share."""

    def __init__(self, new_broker, data_set_mb, all_fixtures=False):
        self.new_broker = new_broker  # of the kind under test: (directory, settings=, data=) → a Broker that does not run yet
        self.data_set_mb = data_set_mb
        self.all_fixtures = all_fixtures
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="protocol-tests-"))
        self.tools = KafkaTools()
        self.shared = None
        self.id = f"{os.getpid():x}{int(time.time()) % 100000:x}"

    def broker(self):
        """The broker that tests share, started when the first asks for it, or anew when it has gone."""
        if self.shared is None or not self.shared.running():
            self.shared = self.new_broker(self.folder / f"shared-{time.monotonic_ns()}", settings=SHARED).start()
        return self.shared

    def close(self):
        self.tools.stop()
        if self.shared:
            self.shared.kill()
        shutil.rmtree(self.folder, ignore_errors=True)


SHARED = {
    "num.partitions": "3",
    "offsets.topic.num.partitions": "4",
    "offsets.topic.replication.factor": "1",
    # Groups that react in a fraction of a second.
    "group.initial.rebalance.delay.ms": "100",
    "group.min.session.timeout.ms": "100",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": "3000",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "200",
    "group.consumer.assignment.interval.ms": "100",
    "group.consumer.regex.refresh.interval.ms": "10000",
}


class Run:
    """One run of one test: what it works with."""

    def __init__(self, session, test):
        self.session, self.test = session, test
        self.topic = f"{test.name.replace('/', '-')}-{session.id}"
        self.folder = session.folder / test.name.replace("/", "-")
        self.folder.mkdir(parents=True)
        self.tools = session.tools
        self.brokers = []  # that this test has made
        self.ends = []  # what to call when the test has ended
        self.bootstrap = None if test.own_broker else session.broker().bootstrap

    def new_broker(self, name="broker", **options):
        """A broker of the kind under test. It is ended with the test at the latest."""
        broker = self.session.new_broker(self.folder / name, **options)
        self.brokers.append(broker)
        return broker

    def at_end(self, call):
        self.ends.append(call)

    def kafka(self, name="kafka", **options):
        broker = brokers.Kafka(self.folder / name, **options)
        self.brokers.append(broker)
        return broker

    def use(self, broker):
        self.bootstrap = broker.bootstrap

    def kcat(self, *arguments, input="", timeout=60, fails=False):
        """What kcat prints to standard output; `fails` expects a failure and gives standard error."""
        if not isinstance(input, (bytes, pathlib.Path)):
            input = input.encode()
        command = [machine.program("kcat"), "-b", self.bootstrap, *map(str, arguments)]
        source = {"stdin": open(input, "rb")} if isinstance(input, pathlib.Path) else {"input": input}
        done = subprocess.run(command, capture_output=True, timeout=timeout, **source)
        errors = done.stderr.decode(errors="replace")
        if fails:
            assert done.returncode, f"{command} was to fail, and printed {short(done.stdout)}"
            return errors
        assert done.returncode == 0, f"{command}: exit status {done.returncode}\n{errors[-1500:]}"
        return done.stdout.decode()

    def java(self, tool, *arguments, **options):
        """What one of Kafka's tools prints; --bootstrap-server comes by itself."""
        return self.tools(tool, "--bootstrap-server", self.bootstrap, *arguments, **options)

    def franz_go(self, command, *arguments, timeout=90):
        done = subprocess.run([machine.go_program(), command, self.bootstrap, *map(str, arguments)],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout)
        assert done.returncode == 0, f"franz-go {command}: {done.stderr[-1500:]}{done.stdout[-1500:]}"
        return done.stdout

    def create_topic(self, name=None, partitions=1, **configs):
        """By Kafka's tool. Underscores in the names of configs stand for dots."""
        pairs = [f"--config={key.replace('_', '.')}={value}" for key, value in configs.items()]
        self.java("kafka-topics", "--create", "--topic", name or self.topic, "--partitions", partitions, *pairs)
        return name or self.topic

    def loud_lines(self):
        own = [line for broker in self.brokers for line in broker.new_loud_lines(self.test.expected_log)]
        shared = self.session.shared.new_loud_lines(self.test.expected_log) if self.session.shared else []
        return own + shared


def where(error):
    """The lines of the tests that led to it."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if "/clients/" in frame.filename and "site-packages" not in frame.filename]
    return "\n".join(f"  {pathlib.Path(frame.filename).name}:{frame.lineno}: {frame.line}" for frame in ours[1:])


def run_test(session, test):
    """None if it passes, or why not."""
    run, why = None, None
    try:
        run = Run(session, test)
        test.function(run)
    except subprocess.TimeoutExpired as e:
        why = f"not done after {e.timeout:.0f} s: {e.cmd}"
    except AssertionError as e:
        why = f"{e}\n{where(e)}"
    except Exception as e:
        why = f"{type(e).__name__}: {e}\n{where(e)}"
    for call in run.ends if run else []:
        call()
    for broker in run.brokers if run else []:
        broker.kill()
    loud = run.loud_lines() if run else []
    if loud and not why:
        why = "unexpected in the broker's log:\n" + "\n".join(loud[:10])
    if run:
        if why:
            for broker in run.brokers:
                why += f"\nthe end of {broker.log}:\n{broker.tail()[-1500:]}"
        shutil.rmtree(run.folder, ignore_errors=True)
    if not why and session.shared and not session.shared.running():
        why = f"the broker has ended:\n{session.shared.tail()}"
    return why


def skip_reason(test, kind):
    if test.own_broker and kind == "running":
        return "it starts brokers of its own"
    if test.ottla_only and kind != "ottla":
        return "it is about Ottla alone"
    return None


def run_all(session, only, kind):
    """Runs the tests whose name matches `only`, and says how many passed and failed."""
    passed, failed, skipped, begun = 0, 0, 0, time.monotonic()
    for test in TESTS:
        if not re.search(only, test.name):
            continue
        if reason := skip_reason(test, kind):
            print(f"SKIP {test.name}: {reason}", flush=True)
            skipped += 1
            continue
        start = time.monotonic()
        why = run_test(session, test)
        seconds = f"({time.monotonic() - start:.1f} s)"
        if why:
            failed += 1
            print(f"FAIL {test.name} {seconds}\n     " + why.strip().replace("\n", "\n     "), flush=True)
        else:
            passed += 1
            print(f"PASS {test.name} {seconds}", flush=True)
    if not only and session.shared and kind != "running":  # what the shared broker says at its end counts too
        try:
            session.shared.stop()
            loud = session.shared.new_loud_lines()
            assert not loud, "\n".join(loud)
            passed += 1
            print("PASS clean-stop", flush=True)
        except AssertionError as e:
            failed += 1
            print(f"FAIL clean-stop: {e}", flush=True)
    print(f"after {time.monotonic() - begun:.0f} s")
    print(f"{passed} passed, {failed} failed, {skipped} skipped" if skipped else f"{passed} passed, {failed} failed")
    return failed == 0 and passed > 0
