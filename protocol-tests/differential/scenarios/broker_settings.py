"""Settings of the broker that can be changed while it runs: each is set for the one broker or for all, described, and taken back."""

from scenario import scenario
from scenarios.describe_configs import ask as describe
from scenarios.incremental_alter_configs import API, APPEND, BROKER, DELETE, SET, SUBTRACT, ask

GOOD = {
    "background.threads": "12", "compression.type": "gzip", "log.cleaner.backoff.ms": "20000", "log.cleaner.threads": "2", "log.cleanup.policy": "compact,delete",
    "log.cleaner.delete.retention.ms": "5", "log.cleaner.min.cleanable.ratio": "0.25", "log.index.interval.bytes": "5000", "log.index.size.max.bytes": "5000000",
    "log.flush.interval.messages": "10", "log.flush.interval.ms": "10000", "log.message.timestamp.type": "LogAppendTime", "log.message.timestamp.after.max.ms": "5000000",
    "log.preallocate": "true", "log.retention.bytes": "100000000", "log.retention.ms": "100000000", "log.roll.ms": "1000000", "log.roll.jitter.ms": "5",
    "log.segment.bytes": "2000000", "log.segment.delete.delay.ms": "1000", "max.connections": "500", "max.connections.per.ip": "400", "message.max.bytes": "900000",
    "num.io.threads": "12", "num.network.threads": "4", "num.recovery.threads.per.data.dir": "3", "num.replica.fetchers": "2", "unclean.leader.election.enable": "true",
    "max.connection.creation.rate": "1000", "producer.id.expiration.ms": "90000000", "transaction.partition.verification.enable": "false",
    "leader.replication.throttled.rate": "1000000", "follower.replication.throttled.rate": "1000000", "replica.alter.log.dirs.io.max.bytes.per.second": "1000000",
    "max.connections.per.ip.overrides": "127.0.0.9:5", "no.such.setting": "x", "log.retention.minutes": "5", "log.local.retention.ms": "1000",
    "listener.name.plaintext.max.connections": "700", "listener.name.plaintext.num.network.threads": "4", "remote.log.manager.copy.max.bytes.per.second": "5000000",
    "group.consumer.session.timeout.ms": "50000", "group.coordinator.rebalance.protocols": "classic,consumer", "log.message.timestamp.before.max.ms": "5000000",
    "log.cleaner.min.compaction.lag.ms": "5", "log.cleaner.max.compaction.lag.ms": "500000", "log.cleaner.io.max.bytes.per.second": "5000000",
    "log.cleaner.io.buffer.size": "600000", "log.cleaner.dedupe.buffer.size": "130000000", "log.cleaner.io.buffer.load.factor": "0.8",
    "transaction.max.timeout.ms": "100000", "queued.max.requests": "5", "auto.create.topics.enable": "false", "log.retention.hours": "7", "offsets.retention.minutes": "7",
    "socket.send.buffer.bytes": "5000", "default.replication.factor": "1", "controller.quorum.election.timeout.ms": "5", "max.incremental.fetch.session.cache.slots": "7",
    "fetch.max.bytes": "500000", "connections.max.idle.ms": "60000", "ssl.keystore.location": "/x", "listener.name.plaintext.ssl.keystore.location": "/x",
    "principal.builder.class": "x", "metric.reporters": "", "cordoned.log.dirs": "", "log.dirs": "/x", "advertised.listeners": "PLAINTEXT://h:1", "sasl.jaas.config": "x",
    "listener.name.plaintext.sasl.enabled.mechanisms": "PLAIN", "config.providers": "x", "group.share.max.size": "300", "share.coordinator.append.linger.ms": "7",
}


def described(s, name, keys):
    """One broker's description may lag behind the answer to its change, so it is asked until it does not."""
    s.call("DescribeConfigs", 4, describe((BROKER, name, keys), synonyms=True))


@scenario([1], cases=list(GOOD), exclusive=True)
def of_one_broker(s, v, key):
    answer = s.call(API, v, ask((BROKER, "1", [(key, SET, GOOD[key])])))
    if not answer["Responses"][0]["ErrorCode"]:
        s.quiet_until(lambda a: any(x["Source"] == 2 for c in a["Results"][0]["Configs"] for x in c["Synonyms"]), "DescribeConfigs", 4, describe((BROKER, "1", [key]), synonyms=True))
        described(s, "1", [key])
        s.quiet(API, v, ask((BROKER, "1", [(key, DELETE, None)])))
        s.quiet_until(lambda a: not any(x["Source"] == 2 for c in a["Results"][0]["Configs"] for x in c["Synonyms"]), "DescribeConfigs", 4, describe((BROKER, "1", [key]), synonyms=True))
    described(s, "1", [key])


@scenario([1], cases=list(GOOD), exclusive=True)
def of_all_brokers(s, v, key):
    answer = s.call(API, v, ask((BROKER, "", [(key, SET, GOOD[key])])))
    if not answer["Responses"][0]["ErrorCode"]:
        s.quiet_until(lambda a: a["Results"][0]["Configs"], "DescribeConfigs", 4, describe((BROKER, "", [key]), synonyms=True))
        described(s, "", [key])
        described(s, "1", [key])
        s.quiet(API, v, ask((BROKER, "", [(key, DELETE, None)])))
        s.quiet_until(lambda a: not a["Results"][0]["Configs"], "DescribeConfigs", 4, describe((BROKER, "", [key]), synonyms=True))
    described(s, "1", [key])


BAD = {
    "log.retention.ms": ["0", "-2", "x", "", " 5 "], "log.segment.bytes": ["1000", "1048576", "x"], "log.cleanup.policy": ["shred", "", "delete,delete"], "compression.type": ["rar", ""],
    "log.cleaner.threads": ["0", "5", "-1"], "num.network.threads": ["0", "1", "7", "6"], "num.io.threads": ["3", "4", "16", "17"], "background.threads": ["4", "21"],
    "num.replica.fetchers": ["0", "3"], "num.recovery.threads.per.data.dir": ["0", "1", "5"], "message.max.bytes": ["-1", "0"], "unclean.leader.election.enable": ["yes", "TRUE"],
    "log.message.timestamp.type": ["Whenever"], "log.cleaner.min.cleanable.ratio": ["1.5", "-0.1"], "log.flush.interval.messages": ["0"], "log.local.retention.ms": ["-1", "-3", "99999999999"],
    "log.local.retention.bytes": ["-1", "5"], "max.connections": ["-1", "0"], "max.connections.per.ip": ["-1", "0"], "max.connections.per.ip.overrides": ["x", "a:b", ""],
    "listener.name.plaintext.max.connections": ["x", "-1"], "listener.name.nope.max.connections": ["5"], "log.cleaner.io.buffer.load.factor": ["2"], "log.cleaner.dedupe.buffer.size": ["5"],
    "log.index.interval.bytes": ["-1"], "log.index.size.max.bytes": ["3"], "log.roll.ms": ["0"], "log.preallocate": ["2"], "leader.replication.throttled.rate": ["-1", "x"],
    "metric.reporters": ["x.Y"], "transaction.partition.verification.enable": ["x"], "producer.id.expiration.ms": ["0"], "min.insync.replicas": ["0", "x"],
    "group.consumer.assignment.interval.ms": ["-1", "99999999"], "cordoned.log.dirs": ["/nope", "*"],
}


@scenario([1], cases={f"{key}={value}": (key, value) for key, values in BAD.items() for value in values}, exclusive=True)
def checked(s, v, setting):
    key, value = setting
    for name in ("1", ""):
        s.call(API, v, ask((BROKER, name, [(key, SET, value)]), validate_only=True), note=f"broker '{name}'")


LISTS = {
    "append to a list": [("log.cleanup.policy", APPEND, "compact")],
    "subtract from a list": [("log.cleanup.policy", SUBTRACT, "delete")],
    "append to a number": [("log.retention.ms", APPEND, "1")],
    "append to what is unknown": [("no.such", APPEND, "1")],
    "append to a listener's list": [("listener.name.plaintext.sasl.enabled.mechanisms", APPEND, "PLAIN")],
    "append to a static list": [("log.dirs", APPEND, "/x")],
    "delete a static setting": [("num.partitions", DELETE, None)],
    "delete what is unknown": [("no.such", DELETE, None)],
    "delete a listener": [("listeners", DELETE, None)],
    "two static ones": [("num.partitions", SET, "1"), ("node.id", SET, "1"), ("broker.rack", SET, "1")],
    "two of one broker only": [("listeners", SET, "PLAINTEXT://:1"), ("ssl.keystore.type", SET, "x"), ("listener.name.plaintext.ssl.keystore.type", SET, "x")],
    "static and bad": [("num.partitions", SET, "1"), ("log.retention.ms", SET, "x")],
    "bad and static": [("log.retention.ms", SET, "x"), ("num.partitions", SET, "1")],
    "two bad": [("log.retention.ms", SET, "x"), ("log.segment.bytes", SET, "y")],
    "nothing": [],
}


@scenario("0-1", cases=LISTS, exclusive=True)
def several(s, v, changes):
    for name in ("1", ""):
        s.call(API, v, ask((BROKER, name, changes), validate_only=True), note=f"broker '{name}'")
