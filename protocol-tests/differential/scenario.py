"""Scenarios and what they can do: the vocabulary of `scenarios/*.py`.

A scenario is a function that is given a `Session`. What it sends with `call`, `receive`, … is answered by the broker, and each answer,
normalised, is a step of the transcript. Everything it does in preparation (`topic`, `quiet`) leaves no step.
"""

import importlib
import inspect
import pathlib
import time
import zlib
from dataclasses import dataclass
from typing import Callable

import normalise
from kafka_wire import messages
from kafka_wire.connection import Connection
from kafka_wire.primitives import Malformed

SCENARIOS = pathlib.Path(__file__).resolve().parent / "scenarios"
REGISTRY = []


@dataclass
class Scenario:
    name: str  # file/function[case]@vN
    run: Callable
    exclusive: bool
    settings: tuple = ()  # (name, value) of what its broker has beyond settings.properties

    @property
    def file(self):
        return self.name.split("/")[0]


def scenario(versions=None, cases=None, exclusive=False, settings=None):
    """Registers a function as one scenario for each version (`"3-13"` or a list) and each case (a dict, or a list of words); the function
    is given (session, version, case), as far as they apply. An exclusive one runs alone: it changes or sees what belongs to the broker
    as a whole. One with settings ({name: value}) gets a broker that has them, which it shares with others of the same settings."""

    def register(function):
        file = pathlib.Path(inspect.getsourcefile(function)).stem
        for version in version_list(versions):
            for label, case in case_list(cases):
                name = f"{file}/{function.__name__}" + (f"[{label}]" if cases else "") + (f"@v{version}" if versions else "")
                arguments = ([version] if versions else []) + ([case] if cases else [])
                run = lambda session, arguments=arguments: function(session, *arguments)
                REGISTRY.append(Scenario(name, run, exclusive, tuple(sorted((settings or {}).items()))))
        return function

    return register


def version_list(versions):
    if not versions:
        return [None]
    if isinstance(versions, str):
        first, last = messages.parse_range(versions)
        return range(first, last + 1)
    return versions


def case_list(cases):
    return cases.items() if isinstance(cases, dict) else [(case, case) for case in cases or [None]]


def load():
    for path in sorted(SCENARIOS.glob("*.py")):
        importlib.import_module(f"scenarios.{path.stem}")
    names = [s.name for s in REGISTRY]
    if doubles := {name for name in names if names.count(name) > 1}:
        raise SystemExit(f"two scenarios of one name: {sorted(doubles)}")
    return REGISTRY


@dataclass
class Topic:
    name: str
    id: str


class Session:
    """One run of one scenario: its connections, its names, its transcript."""

    def __init__(self, address, run, name):
        self.address = address
        # names are unique per run and per scenario, and all of one length
        digits = "0123456789abcdefghijklmnopqrstuvwxyz"
        number, text = zlib.crc32(name.encode()), ""
        for _ in range(7):
            number, digit = divmod(number, 36)
            text += digits[digit]
        self.prefix = f"{run}-{text}-"
        version = name.rpartition("@v")[2]
        self.version = int(version) if version.lstrip("-").isdigit() else None
        self.steps = []
        self.connections = {}
        self.correlation_id = 0
        self.waiting = {}  # connection → correlation ids sent and not yet answered
        self.topic_ids = {}
        self.producer_ids = {}
        self.member_ids = {}  # of groups, as the broker made them → the words that stand for them
        self.literals = set()  # ids that the scenario made up: they are compared as they are

    # --- names and preparation

    def name(self, suffix="t"):
        return self.prefix + suffix

    def name_of_length(self, length):
        return self.prefix + "n" * (length - len(self.prefix))

    def literal(self, value):
        """Marks a made-up id, so that it is compared as it is."""
        self.literals.add(value)
        return value

    def topic(self, suffix="t", partitions=1, **configs):
        """A topic that serves. Dots in the names of its settings are underscores here."""
        name = self.name(suffix)
        settings = [{"Name": key.replace("_", "."), "Value": str(value)} for key, value in configs.items()]
        body = {"Topics": [{"Name": name, "NumPartitions": partitions, "ReplicationFactor": 1, "Configs": settings}], "TimeoutMs": 10000}
        answer = self.quiet("CreateTopics", 7, body)
        created = answer["Topics"][0]
        if created["ErrorCode"]:
            raise RuntimeError(f"topic {suffix}: {created}")
        self.serves(suffix, partitions)
        return Topic(name, created["TopicId"])

    def serves(self, suffix="t", partitions=1):
        """Waits until all partitions of a topic have a leader that answers."""
        query = {
            "ReplicaId": -1,
            "Topics": [{"Name": self.name(suffix), "Partitions": [{"PartitionIndex": p, "Timestamp": -1} for p in range(partitions)]}],
        }
        self.quiet_until(lambda a: not any(p["ErrorCode"] for p in a["Topics"][0]["Partitions"]), "ListOffsets", 7, query)
        # and is in the metadata, of which we learn its id
        ask = {"Topics": [{"Name": self.name(suffix)}], "AllowAutoTopicCreation": False}
        self.quiet_until(lambda a: not a["Topics"][0]["ErrorCode"], "Metadata", 12, ask)

    def gone(self, suffix="t"):
        """Waits until a topic is no longer known."""
        ask = {"Topics": [{"Name": self.name(suffix)}], "AllowAutoTopicCreation": False}
        self.quiet_until(lambda a: a["Topics"][0]["ErrorCode"] == 3, "Metadata", 12, ask)

    def quiet(self, api, version, body, conn="quiet"):
        """A call on a connection of its own that leaves no step."""
        self.send(api, version, body, conn)
        return self.quiet_receive(api, version, conn)

    def quiet_receive(self, api, version, conn):
        """The answer to what was sent, which leaves no step."""
        frame = self.connection(conn).receive()
        if frame is None:
            raise RuntimeError(f"preparation: {api} v{version}: closed")
        if self.waiting.get(conn):
            self.waiting[conn].pop(0)
        _, answer = messages.response(api, version, frame)
        normalise.learn(self, answer)
        return answer

    def quiet_until(self, holds, api, version, body, seconds=15):
        end = time.monotonic() + seconds
        while not holds(answer := self.quiet(api, version, body)):
            if time.monotonic() > end:
                raise RuntimeError(f"preparation: {api} v{version} stays {answer}")
            time.sleep(0.02)
        return answer

    # --- what is recorded

    def call(self, api, version, body, conn=0, note="", without=(), **header):
        """Sends a request and records its answer, but for the top fields `without`. Returns the decoded answer, None where none came."""
        self.send(api, version, body, conn, **header)
        return self.receive(api, version, conn, note, without)

    def until(self, holds, api, version, body, conn=0, note="", without=(), seconds=10):
        """Repeats a call until its answer holds, and records the last one."""
        end = time.monotonic() + seconds
        while True:
            answer = self.call(api, version, body, conn, note, without)
            if answer is None or holds(answer) or time.monotonic() > end:
                return answer
            self.steps.pop()
            time.sleep(0.02)

    def send(self, api, version, body, conn=0, **header):
        """Sends a request, whose answer `receive` records; for pipelining, and where there is no answer."""
        self.correlation_id += 1
        frame = messages.request(api, version, body, self.correlation_id, **header)
        self.waiting.setdefault(conn, []).append(self.correlation_id)
        self.connection(conn).send(frame)

    def receive(self, api, version, conn=0, note="", without=(), timeout=None):
        label = self.label(api, version, note)
        try:
            frame = self.connection(conn).receive(timeout)
        except TimeoutError:
            self.record(label, "silent")
            return None
        if frame is None:
            self.record(label, "closed")
            return None
        expected = self.waiting[conn].pop(0) if self.waiting.get(conn) else None
        try:
            correlation_id, answer = messages.response(api, version, frame)
        except Malformed as problem:
            self.record(label, {"malformed": str(problem), "frame": frame.hex()})
            return None
        normalise.learn(self, answer)
        normal = normalise.answer(self, api, {key: value for key, value in answer.items() if key not in without})
        if expected is not None and correlation_id != expected:
            normal["_correlation"] = correlation_id - expected
        self.record(label, normal)
        return answer

    def label(self, api, version, note):
        """Of a step. The scenario's own version goes without saying, so that transcripts of versions that behave alike are alike."""
        return " ".join(filter(None, [api, f"v{version}" if version != self.version else "", note]))

    def raw(self, data, conn=0):
        """Sends bytes as they are, length and all."""
        self.connection(conn).send_bytes(data)

    def frame(self, data, conn=0):
        """Sends bytes as one frame."""
        self.connection(conn).send(data)

    def ending(self, conn=0, note="", timeout=2.0, without=False):
        """Records what becomes of a connection: closed, silent, or the next frame (`without` its bytes)."""
        label = "ending" + (f" {note}" if note else "")
        try:
            frame = self.connection(conn).receive(timeout)
            self.record(label, "closed" if frame is None else {"frame": "…" if without else frame.hex()})
        except TimeoutError:
            self.record(label, "silent")

    def probe(self, frame, api, version, timeout=5.0):
        """What becomes of a frame, in a word: `closed`, `silent`, `malformed`, or the answer's error codes. Leaves no step: for scenarios
        that send many and record them together."""
        connection = self.connection("probe")
        connection.send(frame)
        try:
            answer = connection.receive(timeout)
        except TimeoutError:
            outcome = "silent"
        else:
            outcome = "closed" if answer is None else self.error_codes(api, version, answer)
        if outcome in ("closed", "silent"):
            self.connections.pop("probe").close()
        return outcome

    def error_codes(self, api, version, frame):
        try:
            answer = messages.response(api, version, frame)[1]
        except Malformed as problem:
            return f"malformed: {problem}"
        # each once: of how many topics a damaged request speaks is chance
        codes = dict.fromkeys(str(part["ErrorCode"]) for part in normalise.structures(answer) if "ErrorCode" in part)
        return "errors " + " ".join(codes)

    def quiet_for(self, seconds, conn=0, note=""):
        """Records whether nothing comes for so long."""
        self.record(f"quiet {note}".strip(), self.connection(conn).is_quiet(seconds))

    def finish(self, conn=0):
        """Half-closes a connection."""
        self.connection(conn).finish()

    def forget(self, conn=0):
        """The answers to what was sent on this connection will not come (acks=0)."""
        self.waiting.pop(conn, None)

    def record(self, label, outcome):
        self.steps.append([label, outcome])

    # ---

    def connection(self, conn):
        if conn not in self.connections:
            self.connections[conn] = Connection(*self.address)
        return self.connections[conn]

    def close(self):
        for connection in self.connections.values():
            connection.close()


def play(scenario, address, run):
    """Runs a scenario; its transcript, and the exception that ended it early."""
    session = Session(address, run, scenario.name)
    problem = None
    try:
        scenario.run(session)
    except Exception as error:
        problem = error
        session.record("stopped", f"{type(error).__name__}: {error}".replace(session.prefix, "~"))
    finally:
        session.close()
    return session.steps, problem


def warm_up(address):
    """A broker that has just started first has to fetch a block of producer ids, and to create the topics of its coordinators."""
    session = Session(address, "warm", "warm-up")
    session.quiet_until(lambda a: a["ErrorCode"] != 14, "InitProducerId", 4, {"TransactionalId": None, "TransactionTimeoutMs": 1000})
    internal = {"Topics": [{"Name": name} for name in ("__consumer_offsets", "__transaction_state")], "AllowAutoTopicCreation": True}
    session.quiet_until(lambda a: not any(t["ErrorCode"] for t in a["Topics"]), "Metadata", 12, internal)
    # and to load its groups: some group of each partition
    for group in "abcdefghijklmnop" if serves_groups(session) else "":
        body = {"GroupId": group, "GenerationId": 1, "MemberId": "m"}
        session.quiet_until(lambda a: a["ErrorCode"] == 25, "Heartbeat", 4, body)
    session.close()


def serves_groups(session):
    return any(api["ApiKey"] == messages.api_key("Heartbeat") for api in session.quiet("ApiVersions", 2, {})["ApiKeys"])
