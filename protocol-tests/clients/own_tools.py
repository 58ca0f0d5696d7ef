"""The program under the names of Kafka's tools, beside Kafka's own on the same broker: what they print, to both streams, and exit statuses.

A command line has `{t}` for a topic of its side's own, `{c}` for the beginning of names that are for both, `{f}` for a folder, `{s}` for the connection, and ` < FILE` for standard input. Of a
stack trace the heads count, of a usage the options: their explanations are in our own words.
"""

import json
import os
import pathlib
import re
import shlex
import subprocess
import time

from confluent_kafka import Consumer, Producer

from .asking import fill
from .kafka_tools import ALONE, alone
from .suite import short, test

SIDES = ("ottlas", "kafkas")  # names of topics are the same width

FILES = {
    "delete.json": {"partitions": [{"topic": "{t}", "partition": 0, "offset": 3}, {"topic": "{t}", "partition": 1, "offset": -1}], "version": 1},
    "beyond.json": {"partitions": [{"topic": "{t}", "partition": 0, "offset": 50}]},
    "twice.json": {"partitions": [{"topic": "{t}", "partition": 0, "offset": 3}, {"topic": "{t}", "partition": 0, "offset": 4}]},
    "other-version.json": {"partitions": [], "version": 2},
    "election.json": {"partitions": [{"topic": "{t}", "partition": 0}, {"topic": "{t}", "partition": 1}]},
    "move.json": {"topics": [{"topic": "{t}"}], "version": 1},
    "plan.json": {"version": 1, "partitions": [{"topic": "{t}", "partition": 0, "replicas": [1]}, {"topic": "{t}", "partition": 1, "replicas": [1]}]},
    "stranger.json": {"version": 1, "partitions": [{"topic": "{t}", "partition": 0, "replicas": [4711]}]},
    "empty.json": {"version": 1, "partitions": []},
}

TOPICS = """
kafka-topics
kafka-topics --help
kafka-topics --version
kafka-topics --list
kafka-topics --list --describe {s}
kafka-topics --nonesuch
kafka-topics --topic
kafka-topics -lx
kafka-topics {s} --create
kafka-topics --bootstrap-server nowhere --list
kafka-topics --bootstrap-server host:port --list
kafka-topics {s} --list --topic {t}
kafka-topics {s} --create --topic {t} --partitions 2 --config retention.ms=3600000 --config cleanup.policy=compact,delete
kafka-topics {s} --create --topic {t}
kafka-topics {s} --create --topic {t} --if-not-exists
kafka-topics {s} --create --topic {t}.x --replica-assignment 1,1
kafka-topics {s} --create --topic {t}.y --replica-assignment 1:1
kafka-topics {s} --create --topic {t}.y --replica-assignment 1,1:2
kafka-topics {s} --create --topic {t}.y --replica-assignment 1,x
kafka-topics {s} --create --topic {t}.y --replica-assignment 7
kafka-topics {s} --create --topic {t}.y --replica-assignment 1 --partitions 1
kafka-topics {s} --create --topic {t}.y --replication-factor 7
kafka-topics {s} --create --topic {t}.y --replication-factor 0
kafka-topics {s} --create --topic {t}.y --partitions 0
kafka-topics {s} --create --topic {t}.y --partitions many
kafka-topics {s} --create --topic {t}.y --topic {t}.z
kafka-topics {s} --create --topic bad,name
kafka-topics {s} --create --topic {t}.y --config nonesuch=1
kafka-topics {s} --create --topic {t}.y --config retention.ms=soon
kafka-topics {s} --create --topic {t}.y --config retention.ms
kafka-topics {s} --create --topic {t}.y --if-exists
kafka-topics {s} --list --topic {c}.*
kafka-topics {s} --list --exclude-internal --topic __.*|{c}
kafka-topics {s} --list --topic {t}.*
kafka-topics {s} --list --topic [
kafka-topics {s} --list --partitions 3
kafka-topics {s} --describe --topic {t}
kafka-topics {s} --describe --topic {c}.* --partition-size-limit-per-response 1
kafka-topics {s} --describe --topic {t}.x --topics-with-overrides
kafka-topics {s} --describe --topic {t} --under-replicated-partitions
kafka-topics {s} --describe --topic {t} --unavailable-partitions
kafka-topics {s} --describe --topic {t} --under-min-isr-partitions
kafka-topics {s} --describe --topic {t} --at-min-isr-partitions
kafka-topics {s} --describe --topic {t} --at-min-isr-partitions --topics-with-overrides
kafka-topics {s} --describe --topic {t}.none
kafka-topics {s} --describe --topic {t}.none --if-exists
kafka-topics {s} --describe --if-exists
kafka-topics {s} --describe --topic-id AAAAAAAAAAAAAAAAAAAABB
kafka-topics {s} --alter --topic {t}
kafka-topics {s} --alter --topic {t} --partitions 1
kafka-topics {s} --alter --topic {t} --partitions 3
kafka-topics {s} --alter --topic {t}.x --partitions 3 --replica-assignment 1,1,1
kafka-topics {s} --alter --topic {t}.none --partitions 3
kafka-topics {s} --alter --topic {t}.none --partitions 3 --if-exists
kafka-topics {s} --alter --topic {t} --partitions 5 --delete-config retention.ms
kafka-topics {s} --delete --topic {t}.none
kafka-topics {s} --delete --topic {t}.none --if-exists
kafka-topics {s} --delete --topic {t}.x
"""

OFFSETS = """
kafka-get-offsets
kafka-get-offsets --nonesuch
kafka-get-offsets --bootstrap-server nowhere
kafka-get-offsets {s} --topic {t}
kafka-get-offsets {s} --topic {t} --time earliest
kafka-get-offsets {s} --topic {t} --time -2
kafka-get-offsets {s} --topic {t} --time max-timestamp
kafka-get-offsets {s} --topic {t} --time earliest-local
kafka-get-offsets {s} --topic {t} --time latest-tiered
kafka-get-offsets {s} --topic {t} --time earliest-pending-upload
kafka-get-offsets {s} --topic {t} --time 1
kafka-get-offsets {s} --topic {t} --time 4000000000000
kafka-get-offsets {s} --topic {t} --time soon
kafka-get-offsets {s} --topic {t} --partitions 1,7
kafka-get-offsets {s} --topic {t} --partitions x
kafka-get-offsets {s} --topic {t}.none
kafka-get-offsets {s} --topic-partitions {t}:1,{t}:0-1,{t}x
kafka-get-offsets {s} --topic-partitions {t}:x
kafka-get-offsets {s} --topic-partitions {t} --topic {t}
kafka-get-offsets {s} --exclude-internal-topics --topic {t}
kafka-delete-records
kafka-delete-records {s} --offset-json-file {f}/none.json
kafka-delete-records {s} --offset-json-file {f}/twice.json
kafka-delete-records {s} --offset-json-file {f}/other-version.json
kafka-delete-records {s} --offset-json-file {f}/beyond.json
kafka-delete-records {s} --offset-json-file {f}/delete.json
kafka-get-offsets {s} --topic {t} --time earliest
kafka-log-dirs
kafka-log-dirs {s} --describe --topic-list {t}
kafka-log-dirs {s} --describe --broker-list 1,7
"""

CONFIGS = """
kafka-configs
kafka-configs --version
kafka-configs --describe --topic {t}
kafka-configs {s} --describe --alter
kafka-configs {s} --describe
kafka-configs {s} --describe --entity-type tables
kafka-configs {s} --describe --topic {t} --broker 1
kafka-configs {s} --describe --topic {t} --entity-name x
kafka-configs {s} --describe --broker x
kafka-configs {s} --describe --broker-logger 1 --add-config x=y
kafka-configs {s} --describe --entity-type topics --entity-default
kafka-configs {s} --alter --topic {t}
kafka-configs {s} --alter --entity-type brokers --add-config a=b
kafka-configs {s} --alter --topic {t} --add-config a
kafka-configs {s} --alter --topic {t} --add-config a,b=c
kafka-configs {s} --alter --topic {t} --add-config a/b=c
kafka-configs {s} --alter --topic {t} --add-config nonesuch=1
kafka-configs {s} --alter --topic {t} --add-config retention.ms=soon
kafka-configs {s} --alter --topic {t}.none --add-config retention.ms=1
kafka-configs {s} --alter --topic {t} --add-config cleanup.policy=[compact,delete],max.message.bytes=2000
kafka-configs {s} --alter --topic {t} --delete-config max.message.bytes,segment.bytes
kafka-configs {s} --describe --topic {t}
kafka-configs {s} --describe --topic {t} --all
kafka-configs {s} --describe --topic {t}.none
kafka-configs {s} --describe --topic bad,name
kafka-configs {s} --describe --entity-type brokers --entity-name 1 --all
kafka-configs {s} --describe --broker 7
kafka-configs {s} --describe --entity-type brokers
kafka-configs {s} --describe --broker-defaults
kafka-configs {s} --alter --broker 1 --add-config log.dirs=/elsewhere
kafka-configs {s} --alter --broker 1 --add-config background.threads=9
kafka-configs {s} --alter --broker 1 --delete-config background.threads
kafka-configs {s} --describe --broker-logger 1
kafka-configs {s} --alter --broker-logger 1 --add-config nonesuch=INFO
kafka-configs {s} --alter --group {t} --add-config consumer.session.timeout.ms=46000
kafka-configs {s} --describe --group {t}
kafka-configs {s} --alter --group {t} --delete-config consumer.session.timeout.ms
kafka-configs {s} --describe --group {t}
kafka-configs {s} --describe --client-metrics {t}
kafka-configs {s} --describe --user {t}
kafka-configs {s} --alter --user {t} --add-config nonesuch=1
kafka-configs {s} --alter --client {t} --add-config nonesuch=1
kafka-configs {s} --alter --user {t} --add-config producer_byte_rate=1024
kafka-configs {s} --alter --ip nonesuch.invalid --add-config connection_creation_rate=1
"""

CLUSTER = """
kafka-broker-api-versions
kafka-broker-api-versions {s}
kafka-cluster cluster-id {s}
kafka-cluster cluster-id --bootstrap-s nowhere
kafka-cluster list-endpoints {s}
kafka-cluster list-endpoints {s} --include-fenced-brokers
kafka-features
kafka-features describe
kafka-features {s}
kafka-features {s} describe
kafka-features {s} describe --node-id 1
kafka-features {s} describe x
kafka-features {s} upgrade
kafka-features {s} upgrade --feature x
kafka-features {s} upgrade --feature x=y
kafka-features {s} upgrade --feature metadata.version=9999
kafka-features {s} upgrade --metadata nonesuch
kafka-features {s} downgrade --feature group.version=9 --dry-run
kafka-features {s} disable --feature nonesuch
kafka-features version-mapping
kafka-features version-mapping --release-version 4.0
kafka-features version-mapping --release-version 9.9
kafka-features feature-dependencies --feature eligible.leader.replicas.version=1 --feature metadata.version=25
kafka-features feature-dependencies --feature nonesuch=1
kafka-metadata-quorum
kafka-metadata-quorum describe
kafka-metadata-quorum {s} describe
kafka-metadata-quorum {s} describe --status
kafka-metadata-quorum {s} describe --status --replication
kafka-metadata-quorum {s} describe --replication
kafka-metadata-quorum {s} add-controller
kafka-leader-election
kafka-leader-election {s} --election-type preferred
kafka-leader-election {s} --election-type nonesuch --all-topic-partitions
kafka-leader-election {s} --election-type preferred --topic {t}
kafka-leader-election {s} --election-type preferred --topic {t} --partition 0
kafka-leader-election {s} --election-type preferred --topic {t}.none --partition 0
kafka-leader-election {s} --election-type unclean --path-to-json-file {f}/election.json
kafka-leader-election {s} --election-type unclean --path-to-json-file {f}/move.json
kafka-reassign-partitions
kafka-reassign-partitions {s}
kafka-reassign-partitions {s} --execute
kafka-reassign-partitions {s} --list --broker-list 1
kafka-reassign-partitions {s} --list
kafka-reassign-partitions {s} --generate --topics-to-move-json-file {f}/move.json --broker-list 1
kafka-reassign-partitions {s} --generate --topics-to-move-json-file {f}/move.json --broker-list 1,1
kafka-reassign-partitions {s} --execute --reassignment-json-file {f}/stranger.json
kafka-reassign-partitions {s} --execute --reassignment-json-file {f}/empty.json
kafka-reassign-partitions {s} --execute --reassignment-json-file {f}/other-version.json
kafka-reassign-partitions {s} --execute --reassignment-json-file {f}/plan.json
kafka-reassign-partitions {s} --verify --reassignment-json-file {f}/plan.json
kafka-reassign-partitions {s} --cancel --reassignment-json-file {f}/plan.json
"""

TRANSACTIONS = """
kafka-transactions
kafka-transactions --help
kafka-transactions --version
kafka-transactions list
kafka-transactions {s}
kafka-transactions {s} nonesuch
kafka-transactions {s} list x
kafka-transactions {s} list --nonesuch
kafka-transactions --bootstrap-server nowhere list
kafka-transactions {s} --command-config {f}/none list
kafka-transactions {s} list --transactional-id-pattern {t}.*
kafka-transactions {s} list --transactional-id-pattern {t}x.*
kafka-transactions {s} list --transactional-id-pattern [
kafka-transactions {s} list --duration-filter -1 --transactional-id-pattern {t}
kafka-transactions {s} list --duration-filter 3600000
kafka-transactions {s} list --duration-filter soon
kafka-transactions {s} list --help
kafka-transactions {s} describe
kafka-transactions {s} describe --help
kafka-transactions {s} describe --transactional-id {t}.none
kafka-transactions {s} describe --transactional-id {t}
kafka-transactions {s} describe --transactional-id={t}.done
kafka-transactions {s} describe-producers
kafka-transactions {s} describe-producers --help
kafka-transactions {s} describe-producers --topic {t} --partition x
kafka-transactions {s} describe-producers --topic {t} --partition 0
kafka-transactions {s} describe-producers --topic {t} --partition 1 --broker-id 1
kafka-transactions {q} describe-producers --topic {t}.none --partition 0 --broker-id 7
kafka-transactions {s} find-hanging
kafka-transactions {s} find-hanging --help
kafka-transactions {s} find-hanging --broker-id 1 --partition 0
kafka-transactions {s} find-hanging --topic {t}.none
kafka-transactions {s} find-hanging --topic {t} --max-transaction-timeout long
kafka-transactions {s} find-hanging --topic {t} --max-transaction-timeout -1
kafka-transactions {s} find-hanging --topic {t} --partition 1 --max-transaction-timeout -1
kafka-transactions {s} find-hanging --broker-id 1
kafka-transactions {s} abort
kafka-transactions {s} abort --help
kafka-transactions {s} abort --topic {t} --partition 0
kafka-transactions {s} abort --topic {t} --partition 0 --start-offset 4711
kafka-transactions {s} abort --topic {t} --partition 0 --start-offset 12
kafka-transactions {s} describe-producers --topic {t} --partition 0
kafka-transactions {s} abort --topic {t} --partition 0 --producer-id 4711
kafka-transactions {s} abort --topic {t} --partition 0 --producer-id 4711 --producer-epoch 70000
kafka-transactions {s} abort --topic {t} --partition 0 --producer-id 4711 --producer-epoch 1
kafka-transactions {s} abort --topic {t} --partition 1 --producer-id 4711 --producer-epoch 1 --coordinator-epoch -1
kafka-transactions {s} forceTerminateTransaction
kafka-transactions {s} forceTerminateTransaction --help
kafka-transactions {s} forceTerminateTransaction --transactionalId {t}
kafka-transactions {s} describe --transactional-id {t}
kafka-transactions {s} describe-producers --topic {t} --partition 0
"""

GROUPS = """
kafka-groups
kafka-groups --help
kafka-groups --version
kafka-groups --list
kafka-groups --bootstrap-server nowhere --list
kafka-groups {s}
kafka-groups {s} --nonesuch
kafka-groups {s} --list --command-config {f}/none
kafka-groups {s} --list
kafka-groups {s} --list --group-type Classic
kafka-groups {s} --list --group-type consumer
kafka-groups {s} --list --group-type classic --protocol consumer
kafka-groups {s} --list --group-type nonesuch
kafka-groups {s} --list --group-type share --group-type classic
kafka-groups {s} --list --protocol consumer
kafka-groups {s} --list --protocol nonesuch
kafka-groups {s} --list --consumer
kafka-groups {s} --list --share
kafka-groups {s} --list --streams
kafka-groups {s} --list --streams --consumer
kafka-groups {s} --list --share --protocol share
kafka-groups {s} --list --consumer --group-type consumer
"""

VERIFIABLE = """
kafka-verifiable-producer
kafka-verifiable-producer --topic x
kafka-verifiable-producer {s} --topic x --acks 2
kafka-verifiable-producer {s} --topic x --command-config /none
kafka-verifiable-producer --bootstrap-server nowhere --topic x
kafka-verifiable-producer {s} --topic {t}.v --max-messages 3 --value-prefix 7 --repeating-keys 2 --acks 1
kafka-verifiable-producer {s} --topic {t}.v --max-messages 2 --throughput 100 --message-create-time 5 --acks 0
kafka-verifiable-consumer
kafka-verifiable-consumer {s} --topic x --group-id g --group-protocol z
kafka-verifiable-consumer {s} --topic x --group-id g --group-protocol consumer --session-timeout 6000
kafka-verifiable-consumer {s} --topic {t}.v --group-id {t} --max-messages 2 --verbose
kafka-verifiable-consumer {s} --topic {t}.v --group-id {t} --max-messages 1
kafka-verifiable-consumer {s} --topic {t}.v --group-id {t}.c --group-protocol consumer --max-messages 3 --enable-autocommit
kafka-verifiable-consumer {s} --topic {t}.v --group-id {t}.n --reset-policy none
kafka-e2e-latency
kafka-e2e-latency --help
kafka-e2e-latency a b
kafka-e2e-latency {s} --nonesuch
kafka-e2e-latency {s}
kafka-e2e-latency {s} --topic x --num-records 0 --producer-acks all --record-size 1
kafka-e2e-latency {s} --topic x --num-records 1 --producer-acks 0 --record-size 1
kafka-e2e-latency {s} --topic x --num-records x --producer-acks all --record-size 1
kafka-e2e-latency {s} --topic bad,name --num-records 1 --producer-acks all --record-size 1
kafka-e2e-latency {s} --topic {t}.e --num-records 2 --producer-acks 1 --record-size 10 --num-headers 2 --record-header-size -1
kafka-e2e-latency {b} {t}.e 1 all 5
"""


def without_frames(text):
    """Nor what a tool says when Exit.exit does not end the process, but its call (see KafkaTools.java)."""
    text = re.sub(r"(?m)^\t(at |\.\.\. \d+ more).*\n?", "", text)
    return re.sub(r"(^|(?<=\n))[^\n]*\nKafkaTools\$Ended\s*$", "", text)


def usage(text):
    """The options of a usage's table, and what stands before it."""
    found = re.search(r"(?m)^Option( \(\* = required\))? +Description", text)
    if not found:
        return text
    head, lines = text[:found.start()], text[found.start():].splitlines()
    width = lines[0].index("Description")
    return head + "\n".join(line[:width].rstrip() for line in lines if line[:width].strip())


def arguments(text):
    """Errors of argparse4j without the blanks that make their lines full."""
    def in_one_line(found):
        return re.sub(r"-- (?=[a-z])", "--", " ".join(found.group().split()))
    return re.sub(r"(?m)^[a-z0-9-]+(\.sh)?: +error:.*(\n.+)*", in_one_line, text)


def help_texts(text):
    """The help of argparse4j without what explains an argument, or what the tool is for."""
    if not re.match(r"usage: .*\n( .*\n)*\n", text) or "\noptional arguments:\n" not in text:
        return text
    kept, in_usage = [], True
    for line in text.splitlines():
        in_usage = in_usage and line != ""
        if in_usage or line.endswith(":") and not line.startswith(" "):
            kept.append(line)
        elif re.match(r" {2,4}[-a-zA-Z]", line):  # a name may reach into the column of the explanations
            if line.strip().startswith("-") or len(line) - len(line.lstrip()) == 4 or line.strip() == "COMMAND":
                kept.append(line if len(line) < 26 or line[24] != " " else line[:25].rstrip())
    return "\n".join(kept)


def directories(text):
    """The JSON of kafka-log-dirs with its partitions in order: they come by the hashes of their names."""
    def in_order(found):
        described = json.loads(found.group())
        for broker in described["brokers"]:
            for directory in broker["logDirs"]:
                directory["partitions"].sort(key=lambda partition: partition["partition"])
        return json.dumps(described, separators=(",", ":"))
    return re.sub(r'(?m)^\{.*"logDirs":.*$', in_order, text)


def transaction_tables(text):
    """The tables of kafka-transactions without widths, which follow names, and without what differs from call to call."""
    header, _, rows = text.partition("\n")
    if not re.match(r"(TransactionalId|CoordinatorId|ProducerId|Topic) *\t", header):
        return text
    names = header.split()
    changing = {"ProducerId", "LastTimestamp", "CurrentTransactionStartTimeMs", "TransactionDurationMs"}
    table = [[name + " " if name in changing and cell.strip().isdigit() else cell.strip() for name, cell in zip(names, row.split("\t"))] for row in rows.splitlines()]
    for row in table:
        row[-1] = ",".join(sorted(row[-1].split(",")))  # by the hashes of names
    return "\n".join([" ".join(names), *sorted("|".join(row) for row in table)])


def events(text):
    """Lines of JSON with their members in order, and latencies, without what differs from call to call."""
    lines = []
    for line in text.split("\n"):
        if line.startswith('{"timestamp":'):
            event = json.loads(line)
            del event["timestamp"]
            event.pop("avg_throughput", None)
            line = json.dumps(event, sort_keys=True)
        line = re.sub(r"^(\d+\t|Avg latency: )[\d.]+", r"\1…", line)
        lines.append(re.sub(r"(th = )\d+", r"\1…", line) if line.startswith("Percentiles:") else line)
    return "\n".join(lines)


def plain(text, topic, folder):
    text = transaction_tables(text.replace('Exception in thread "main" ', ""))
    text = events(directories(help_texts(usage(arguments(without_frames(text))))))
    text = text.replace(topic, "TOPIC").replace(str(folder), "FOLDER")
    text = re.sub(r"\[\d{4}-\d\d-\d\d [\d:]{8},\d{3}\]", "[TIME]", text)
    text = re.sub(r"TopicId: [\w-]{22}", "TopicId: ID", text)
    text = re.sub(r"^(1 +\t\S+ +\t)\d+ *\t0 +\t\d+ +\t\d+ +", r"\1…", text, flags=re.M)  # the quorum goes on
    text = re.sub(r"^(HighWatermark:|MaxFollowerLagTimeMs:) +\d+", r"\1 …", text, flags=re.M)
    text = re.sub(r"Epoch: \d+", "Epoch: …", text)
    text = re.sub(r"adminclient-\d+", "adminclient-…", text)
    text = re.sub(r"(?m)(^partition: .*\n)+", lambda found: "".join(sorted(found.group().splitlines(True))), text)  # by the hash of a name
    return text.rstrip()


def differing(line, ours, kafkas):
    """What is not alike of two outcomes of a command line, {what: value}."""
    return [f"{line}\n  {what}, ours:   {short(ours.get(what))}\n  {what}, Kafka's: {short(kafkas.get(what))}"
            for what in sorted({*ours, *kafkas}) if ours.get(what) != kafkas.get(what)]


def expect_none(differences):
    assert not differences, f"{len(differences)} differ\n" + "\n".join(differences)


def compare(run, lines, files=FILES, plain=plain):
    """`files` are JSON, or text as it stands; `plain` makes two outputs comparable."""
    sides = {}
    for side in SIDES:
        topic, folder = f"{run.topic}-{side}", run.folder / side
        folder.mkdir()
        for name, content in files.items():
            text = content if isinstance(content, str) else json.dumps(content)
            (folder / name).write_text(text.replace("{t}", topic))
        (folder / "quick.properties").write_text("request.timeout.ms=1000\ndefault.api.timeout.ms=1500\n")
        sides[side] = topic, folder
    binary = run.session.broker().binary

    def outcome(side, line):
        topic, folder = sides[side]
        line, _, source = line.partition(" < ")
        line = line.replace("{q}", "{s} --command-config {f}/quick.properties").replace("{s}", f"--bootstrap-server {run.bootstrap}").replace("{b}", run.bootstrap)
        words = [word.format(t=topic, f=folder, c=f"{run.topic}-common") for word in shlex.split(line)]
        source = folder / source if source else pathlib.Path(os.devnull)
        if side == "kafkas" and words[0] in ALONE:
            status, out, errors = alone(words[0], words[1:])
        elif side == "kafkas":
            status, out, errors = run.tools.output(words[0], words[1:], source, 90, fresh=False)
        else:
            # The other side keeps its warnings back, too.
            environment = {**os.environ, "OTTLA_LOG": "error"}
            done = subprocess.run([binary, *words], stdin=source.open(), capture_output=True, text=True, errors="replace", timeout=90, env=environment)
            status, out, errors = done.returncode, done.stdout, done.stderr
        return {"status": status, "output": plain(out, topic, folder), "errors": plain(errors, topic, folder)}

    differences = []
    for line in filter(None, lines.splitlines()):
        ours, kafkas = outcome("ottlas", line), outcome("kafkas", line)
        differences += differing(line, ours, kafkas)
    expect_none(differences)


def filled(run):
    for side in SIDES:
        fill(run.bootstrap, run.create_topic(f"{run.topic}-{side}", 2), 2)


@test(ottla_only=True)
def topics(run):
    for name in ("", ".one", ".two", ".three"):
        run.create_topic(f"{run.topic}-common{name}", 2)
    compare(run, TOPICS)


@test(ottla_only=True)
def offsets(run):
    filled(run)
    compare(run, OFFSETS)


@test(ottla_only=True, expected_log=["WARN background.threads=9 has no effect"])
def configs(run):
    filled(run)
    compare(run, CONFIGS)


@test(ottla_only=True)
def cluster(run):
    filled(run)
    compare(run, CLUSTER)


@test(ottla_only=True)
def transactions(run):
    """On each side one that is open and one that has ended."""
    filled(run)
    producers = []
    for side in SIDES:
        topic = f"{run.topic}-{side}"
        for ends in (True, False):
            producer = Producer({"bootstrap.servers": run.bootstrap, "transactional.id": topic + (".done" if ends else ""), "transaction.timeout.ms": 60000})
            producer.init_transactions(30)
            producer.begin_transaction()
            for partition in range(2):
                producer.produce(topic, b"x", partition=partition)
            producer.flush(30)
            if ends:
                producer.commit_transaction(30)
            producers.append(producer)
    compare(run, TRANSACTIONS)


@test(ottla_only=True)
def groups(run):
    filled(run)
    for number, protocol in enumerate(("classic", "classic", "consumer")):
        consumer = Consumer({"bootstrap.servers": run.bootstrap, "group.id": f"{run.topic}-{number}", "group.protocol": protocol, "auto.offset.reset": "earliest", "enable.auto.commit": False})
        consumer.subscribe([f"{run.topic}-{SIDES[0]}"])
        assert consumer.consume(1, timeout=30), f"no record for a group of the protocol {protocol}"
        consumer.commit(asynchronous=False)
        consumer.close()
    compare(run, GROUPS)


@test(ottla_only=True)
def verifiable(run):
    for side in SIDES:
        run.create_topic(f"{run.topic}-{side}.v", 1)
    compare(run, VERIFIABLE)


@test(ottla_only=True)
def starts_at_once(run):
    """A health check may call a tool every second."""
    command = [run.session.broker().binary, "kafka-topics", "--bootstrap-server", run.bootstrap, "--list"]
    times = []
    for _ in range(10):
        begun = time.monotonic()
        subprocess.run(command, check=True, capture_output=True, timeout=30)
        times.append(time.monotonic() - begun)
    assert sorted(times)[len(times) // 2] < 0.25, f"too slow: {times}"
