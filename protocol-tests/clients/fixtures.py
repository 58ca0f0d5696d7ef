"""Every directory that Apache Kafka 4.3.1 wrote (tests/golden/fixtures) changes hands: Ottla serves it as Kafka did, or better where that is
listed, and goes on with it; Kafka's DumpLogSegments finds no fault in the files; Kafka goes on with it; then Ottla again.

A start of Kafka takes seconds. So Kafka comes in for a few of the directories only, and for all with `--all-fixtures`.

What is made of the damaged ones is docs/damage.md, see `damage.py`.
"""

import collections
import dataclasses
import difflib
import json
import os
import re
import shutil

from . import damage, machine
from .interchange import DYNAMIC_QUORUM, FIXTURES, compare, has_metadata, offsets, table, unpack
from .java import dump
from .mixed_load import complaints
from .suite import equal, eventually, matches, test, within

PAGE = machine.HERE.parent / "docs/damage.md"
SETTINGS = {
    "auto.create.topics.enable": "false",
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "3",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    # Transactions that are open stay so, however old they are.
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "3600000",
    "log.segment.delete.delay.ms": "1",
}
NOT_CLEANED = {"log.cleaner.enable": "false"}
SMALL_SNAPSHOTS = {"metadata.log.max.record.bytes.between.snapshots": "500"}
HANGS = r"WARN a transaction hangs"
# Kafka set it at run time.
IO_THREADS = r"WARN num.io.threads=4 has no effect"


class Fixture:
    """`kafka`: whether Kafka takes it over even without --all-fixtures."""

    def __init__(self, settings=None, kafka=False, expected_log=()):
        self.settings, self.kafka, self.expected_log = {**SETTINGS, **(settings or {})}, kafka, tuple(expected_log)


SOUND = {
    "plain": Fixture(kafka=True),
    "compacted-before": Fixture(NOT_CLEANED),
    "compacted-after": Fixture(NOT_CLEANED),
    "compacted-twice": Fixture(NOT_CLEANED, kafka=True),
    "transactions": Fixture(expected_log=[HANGS]),
    "deleted-records": Fixture(),
    "groups": Fixture(),
    "share": Fixture(),
    "metadata": Fixture(SMALL_SNAPSHOTS, kafka=True, expected_log=[IO_THREADS]),
    "metadata-dynamic": Fixture({**DYNAMIC_QUORUM, **SMALL_SNAPSHOTS}, expected_log=[IO_THREADS]),
    "formatted": Fixture(DYNAMIC_QUORUM),
    "unclean": Fixture(kafka=True, expected_log=[HANGS]),
}


def wanted(name):
    """What Kafka serves of it; None: nothing, as it does not start or has no leaders."""
    path = FIXTURES / f"{name}.offsets.tsv"
    text = path.read_text() if path.exists() else "topic\tpartition\tleader_epoch\n"
    return table(text) if text.startswith("topic\t") else None


def is_internal(place):
    return place.startswith("__")


def compare_handed_over(got, written, what):
    """All is as the other has written it. The coordinators may have written to their topics since."""
    own = {place: row for place, row in written.items() if not is_internal(place)}
    compare({place: row for place, row in got.items() if not is_internal(place)}, own, what)
    for place in written.keys() - own.keys():
        start, end = int(got[place]["log_start"]), int(got[place]["log_end"])
        assert start == int(written[place]["log_start"]) and end >= int(written[place]["log_end"]), f"{what}: {place}: {got[place]}, not {written[place]}"


def go_on(run, broker, topic):
    """Appends to every partition; what is served then."""
    run.use(broker)
    before = offsets(run, broker)
    run.franz_go("append", topic)

    def appended():
        after = offsets(run, broker)
        for place, row in before.items():
            if not is_internal(place):
                grown = int(after[place]["log_end"]) - int(row["log_end"])
                equal((after[place]["log_start"], grown), (row["log_start"], 8), f"{place} after an append")
        return after

    # The last of them are markers, which are written when the end of the transaction is answered already.
    return eventually(appended)


def hand_over(run, broker, written, what, topic):
    """The next one serves what the last one has written, and goes on."""
    with broker:
        eventually(lambda: compare_handed_over(offsets(run, broker), written, what))
        written = go_on(run, broker, topic)
        broker.stop()
    return written


def with_kafka(run, fixture):
    return fixture.kafka is not None and (run.session.all_fixtures or fixture.kafka)


def change_hands(run, name):
    fixture = SOUND[name]
    data = unpack(run, name)
    special = SPECIAL.get(name, Special)(run, data)
    kafkas = complaints(run, files(data)) if name.startswith("compacted") else []  # batches that compaction emptied keep their entries
    with run.new_broker("first", data=data, settings=fixture.settings) as broker:
        compare(offsets(run, broker), wanted(name), "at first")
        special.change()
        written = go_on(run, broker, "made-first")
        broker.stop()
        broker.start()
        compare_handed_over(offsets(run, broker), written, "after a restart")
        broker.stop()
    equal(complaints(run, files(data)), kafkas, "what Kafka's tool finds, and found in Kafka's own")
    special.files()
    if not with_kafka(run, fixture):
        return
    with run.kafka(data=data, settings={**fixture.settings, **special.kafka}) as kafka:
        run.use(kafka)
        eventually(lambda: compare_handed_over(offsets(run, kafka), written, "Kafka after it"))
        special.served()
        written = go_on(run, kafka, "made-by-kafka")
        kafka.stop()
    hand_over(run, run.new_broker("second", data=data, settings=fixture.settings), written, "after Kafka", "made-again")
    special.files()


def files(data):
    return [path for path in sorted(data.glob("*-*/*")) if path.suffix in (".log", ".index", ".timeindex", ".txnindex") and path.stat().st_size
            and not path.parent.name.endswith(("-stray", "-delete"))]


class Special:
    """What is looked at in one directory only."""

    kafka = {}

    def __init__(self, run, data):
        self.run, self.data = run, data

    def change(self):
        """While the broker serves it first."""

    def files(self):
        """After the broker."""

    def served(self):
        """While Kafka serves it."""


class Metadata(Special):
    """What Ottla does not serve yet is kept for Kafka, in the log and in the snapshots that Ottla writes."""

    kafka = {"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer", "super.users": "User:ANONYMOUS"}
    IDS = {"USER_SCRAM_CREDENTIAL_RECORD": ("name", "mechanism"), "CLIENT_QUOTA_RECORD": ("entity", "key"), "ACCESS_CONTROL_ENTRY_RECORD": ("id",),
           "CONFIG_RECORD": ("resourceType", "resourceName", "name"), "FEATURE_LEVEL_RECORD": ("name",), "TOPIC_RECORD": ("topicId",)}

    def __init__(self, run, data):
        super().__init__(run, data)
        self.before, self.snapshots = self.state(), self.newest()

    def newest(self):
        return max(path.name for path in (self.data / "__cluster_metadata-0").glob("*-*.checkpoint"))

    def state(self):
        """What snapshot and log add up to by Kafka's decoder, but for what a start changes: {type: {key: record}}"""
        folder = self.data / "__cluster_metadata-0"
        snapshot = folder / self.newest()
        state = collections.defaultdict(dict)
        for path in [snapshot, *sorted(folder.glob("*.log"))]:
            for line in dump(self.run, "--cluster-metadata-decoder", "--skip-record-metadata" if path == snapshot else "--deep-iteration", files=[path]).splitlines():
                found = re.search(r'(?:offset: (\d+) .*?)?payload: (\{"type".*\})$', line) or re.search(r'()(\{"type".*\})$', line)
                if found and (path == snapshot or int(found[1]) >= int(snapshot.name.split("-")[0])):
                    self.apply(state, json.loads(found[2]))
        return dict(state)

    def apply(self, state, record):
        kind, fields = record["type"].removeprefix("REMOVE_"), record["data"]
        if kind not in self.IDS:
            return
        key = json.dumps([fields[name] for name in self.IDS[kind]])
        if record["type"] != kind or fields.get("remove") or kind == "CONFIG_RECORD" and fields["value"] is None:
            removed = state[kind].pop(key)["data"]
            if kind == "TOPIC_RECORD":
                state["CONFIG_RECORD"] = {key: record for key, record in state["CONFIG_RECORD"].items() if json.loads(key)[:2] != [2, removed["name"]]}
        else:
            state[kind][key] = record

    def change(self):
        self.run.create_topic("made-with-settings", 3, retention_ms=123456)
        self.run.java("kafka-topics", "--delete", "--topic", "late-0")
        self.forget(self.before, "late-0")

    def forget(self, state, start):
        """Topics whose name begins so."""
        names = {"TOPIC_RECORD": "name", "CONFIG_RECORD": "resourceName"}
        for kind, name in names.items():
            state[kind] = {key: record for key, record in state[kind].items() if not record["data"][name].startswith(start)}

    def files(self):
        assert self.newest() > self.snapshots, "the broker has written a snapshot"
        after = self.state()
        self.forget(after, "made-")
        for kind in self.IDS:
            assert self.before[kind], f"nothing to compare of {kind}"
            differ = [record for one, other in ((after, self.before), (self.before, after)) for key, record in one[kind].items() if other[kind].get(key) != record]
            equal(differ, [], f"{kind}, after and before")

    def served(self):
        """The same by Kafka, from Ottla's snapshot."""
        has_metadata(self.run)
        topics = self.run.java("kafka-topics", "--list").split()
        assert "made-with-settings" in topics and "late-0" not in topics, topics
        within("retention.ms=123456", self.run.java("kafka-configs", "--entity-type", "topics", "--entity-name", "made-with-settings", "--describe"))
        acls = self.run.java("kafka-acls", "--list")
        within("resourceType=TOPIC, name=md-, patternType=PREFIXED", acls)
        within("principal=User:alice, host=*, operation=READ, permissionType=ALLOW", acls)
        users = self.run.java("kafka-configs", "--describe", "--entity-type", "users")
        within("SCRAM credential configs for user-principal 'alice' are SCRAM-SHA-256=iterations=4096", users)
        assert "bob" not in users + acls, users + acls
        within("producer_byte_rate=12345.0", self.run.java("kafka-configs", "--describe", "--entity-type", "users", "--entity-type", "clients"))
        within("connection_creation_rate=50.0", self.run.java("kafka-configs", "--describe", "--entity-type", "ips"))
        within("metrics=org.apache.kafka.producer.", self.run.java("kafka-configs", "--describe", "--entity-type", "client-metrics", "--entity-name", "cm"))


class Share(Special):
    """Share groups are where they were."""

    def served(self):
        equal(self.run.java("kafka-share-groups", "--list").split(), ["share-1", "share-2"])
        described = self.run.java("kafka-share-groups", "--describe", "--all-groups", "--offsets")
        starts = [tuple(line.split()[:4]) for line in described.splitlines() if line.startswith("share-")]
        equal(sorted(starts), [("share-1", "s", "0", "23"), ("share-1", "s", "1", "30"), ("share-2", "s", "0", "23"), ("share-2", "s", "1", "0")])


class Formatted(Special):
    """It keeps the identity that Kafka's tool gave it."""

    def served(self):
        cluster_id = matches(r"^cluster.id=(\S+)", (self.data / "meta.properties").read_text())[1]
        within(f"Cluster ID: {cluster_id}\n", self.run.tools("kafka-cluster", "cluster-id", "--bootstrap-server", self.run.bootstrap))


SPECIAL = {"formatted": Formatted, "metadata": Metadata, "metadata-dynamic": Metadata, "share": Share}

for NAME in SOUND:
    test(own_broker=True, expected_log=SOUND[NAME].expected_log, name=NAME)(lambda run, name=NAME: change_hands(run, name))


class Damaged:
    """One of the damaged directories: which kinds of damage are in which of its partitions, and whether Kafka closed it in order."""

    def __init__(self, name, damages, closed=True, kafka=False):  # kafka: whether it comes in for this one always; None: never, as it reads less
        self.name, self.damages, self.closed, self.kafka = name, damages, closed, kafka
        self.column = 0 if closed else 1

    def reason(self, place):
        """Why Ottla serves something else of a partition than Kafka."""
        found = self.damages.get(place) or self.damages.get("")
        return found.better[self.column] if found else ""

    def left(self):
        """The files that are still damaged when Ottla has served it."""
        left = {place: found.left[self.column].split() for place, found in self.damages.items()}
        return sorted(f"{place}/{file}".lstrip("/") for place, files in left.items() for file in files)


def partitions(end):
    """What is damaged beside the rest; the others have directories of their own."""
    return {f"{kind}-0": found for kind, found in damage.PARTITIONS.items() if damage.FATAL.get(kind) != end}


DAMAGED = {one.name: one for one in [
    Damaged("damaged-partitions-clean", partitions("clean")),
    Damaged("damaged-partitions-unclean", partitions("unclean"), closed=False, kafka=True),
    Damaged("damaged-sealed-clean", {f"{kind}-0": found for kind, found in damage.SEALED.items()}, kafka=None),
    *(Damaged(f"damaged-fatal-{kind}-{end}", {"d-0": damage.PARTITIONS[kind]}, closed=end == "clean") for kind, end in damage.FATAL.items()),
    *(Damaged(f"damaged-root-{kind}", {"": found}) for kind, found in damage.ROOT.items()),
]}
OUTCOMES = {}  # of this run, by the directory's name


@dataclasses.dataclass
class Outcome:
    """What Ottla made of a damaged directory."""

    refusal: str  # why it did not start; "": it did
    served: dict
    told: list  # the lines of WARN and ERROR of its log, and why it ended


def plain(line, data):
    """A line of the log without what differs from run to run."""
    line = re.sub(r"^\[[^]]*\] | \(ottla::[a-z_:]+\)$", "", line).replace(f"{data}/", "").replace(str(data), "DIR")
    return re.sub(r"\.[0-9a-f]{32}-stray", ".…-stray", line)


def outcome(run, name, broker):
    """Starts the broker, if it does start."""
    try:
        broker.start()
    except AssertionError:
        pass
    served = offsets(run, broker) if broker.running() else {}
    told = [plain(line, broker.data) for line in broker.new_loud_lines()]
    refusal = "" if broker.running() else told[-1].removeprefix("ottla: ")
    assert broker.running() or refusal, broker.tail()
    OUTCOMES[name] = Outcome(refusal, served, sorted(told))
    return OUTCOMES[name]


def is_worse(ours, kafkas):
    """Whether Kafka's readers get something that Ottla's do not; but for what was aborted, which Kafka may show."""
    def count(row, level):
        return int(row[level].split()[0])

    return count(ours, "uncommitted") < count(kafkas, "uncommitted") or count(ours, "committed") < min(count(kafkas, "committed"), 90)


def compare_with_kafka(directory, found):
    """Every row is Kafka's, or a reason says why not; every reason is needed."""
    kafkas = wanted(directory.name)
    if kafkas is None or found.refusal:
        whole = directory.damages.get("") or directory.damages["d-0"]
        equal(bool(found.refusal), kafkas is None and not whole.better[directory.column], "whether Ottla starts, against what damage.py says")
        return
    equal(sorted(found.served), sorted(kafkas), "the partitions")
    for place, row in kafkas.items():
        ours = found.served[place]
        same = comparable(ours) == comparable(row)
        assert same != bool(directory.reason(place)), f"{place}: {ours}, Kafka: {row}; the reason: {directory.reason(place)!r}"
        assert not is_worse(ours, row), f"{place} is worse: {ours}, Kafka: {row}"


def comparable(row):
    """Clients say in their own words why they cannot read on."""
    return {name: re.sub(r"( [0-9a-f]{16})? then .*", " then fails", value) for name, value in row.items()}


def damaged(run, name):
    directory = DAMAGED[name]
    data = unpack(run, name)
    broker = run.new_broker("first", data=data, settings=SETTINGS)
    broker.left = directory.left()
    found = outcome(run, name, broker)
    compare_with_kafka(directory, found)
    if found.refusal:
        return
    written = go_on(run, broker, "made-first")
    broker.stop()
    broker.start()
    compare_handed_over(offsets(run, broker), written, "after a restart")
    broker.stop()
    broker.new_loud_lines()  # the damage that is left is told at each start
    left = {data / os.path.splitext(path)[0] for path in directory.left()}  # segments: their files are held against each other
    equal(complaints(run, [path for path in files(data) if path.with_suffix("") not in left]), [], "what Kafka's tool finds")
    if not with_kafka(run, directory):
        return
    foreign = [path.name for path in data.iterdir() if path.name in directory.left()]
    for path in foreign:
        shutil.rmtree(data / path)  # Kafka does not start beside them
    with run.kafka(data=data, settings=SETTINGS) as kafka:
        run.use(kafka)
        eventually(lambda: compare_handed_over(offsets(run, kafka), written, "Kafka after it"))
        written = go_on(run, kafka, "made-by-kafka")
        kafka.stop()
    second = run.new_broker("second", data=data, settings=SETTINGS)
    second.left = [path for path in directory.left() if path not in foreign]
    hand_over(run, second, written, "after Kafka", "made-again")
    second.new_loud_lines()


for NAME in DAMAGED:
    test(own_broker=True, ottla_only=True, name=NAME)(lambda run, name=NAME: damaged(run, name))


@test(own_broker=True, ottla_only=True)
def damage_page(run):
    """docs/damage.md says what Ottla did."""
    for name in DAMAGED:
        if name not in OUTCOMES:  # only this test is run
            broker = run.new_broker(name, data=unpack(run, name), settings=SETTINGS)
            outcome(run, name, broker)
            broker.kill()
    page = damage.page({name: (wanted(name), OUTCOMES[name]) for name in DAMAGED})
    if "UPDATE_DOCS" in os.environ:
        PAGE.write_text(page)
    differences = difflib.unified_diff(PAGE.read_text().splitlines(), page.splitlines(), "docs/damage.md", "what Ottla did", lineterm="", n=0)
    assert PAGE.read_text() == page, "UPDATE_DOCS=1 protocol-tests/run --only fixtures/damage-page\n" + "\n".join(differences)
