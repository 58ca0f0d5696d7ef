"""IncrementalAlterConfigs: setting, deleting, appending, subtracting. An unknown operation is not among them: it makes Kafka's controller resign."""

from bodies import fetch, produce
from kafka_wire.batches import batch
from kafka_wire.messages import Counted
from scenario import scenario

TOPIC, BROKER, LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = range(4)
API = "IncrementalAlterConfigs"


def ask(*resources, validate_only=False):
    """resources: (type, name, [(key, operation, value), ...])."""
    return {
        "Resources": [
            {"ResourceType": kind, "ResourceName": name, "Configs": [{"Name": k, "ConfigOperation": op, "Value": v} for k, op, v in changes]}
            for kind, name, changes in resources
        ],
        "ValidateOnly": validate_only,
    }


def settings(s, kind, name, keys, expected=None):
    """Records (value, source) of the keys, once they are as expected."""

    def current(answer):
        return {c["Name"]: [c["Value"], c["ConfigSource"]] for c in answer["Results"][0]["Configs"]}

    query = {"Resources": [{"ResourceType": kind, "ResourceName": name, "ConfigurationKeys": keys}], "IncludeSynonyms": True}
    answer = s.quiet_until(lambda a: expected is None or all(current(a).get(k, [None])[0] == v for k, v in expected.items()), "DescribeConfigs", 4, query)
    s.record("settings", dict(sorted(current(answer).items())))


@scenario("0-1")
def set_and_delete(s, v):
    t = s.topic()
    s.call(API, v, ask((TOPIC, t.name, [("retention.ms", SET, "1234")])))
    settings(s, TOPIC, t.name, ["retention.ms"], {"retention.ms": "1234"})
    s.call(API, v, ask((TOPIC, t.name, [("retention.ms", DELETE, None)])))
    settings(s, TOPIC, t.name, ["retention.ms"], {"retention.ms": "-1"})


@scenario("0-1")
def several_keys(s, v):
    t = s.topic(retention_ms=1)
    s.call(API, v, ask((TOPIC, t.name, [("segment.ms", SET, "5000"), ("retention.ms", DELETE, ""), ("cleanup.policy", SET, "compact")])))
    settings(s, TOPIC, t.name, ["segment.ms", "retention.ms", "cleanup.policy"], {"segment.ms": "5000", "retention.ms": "-1", "cleanup.policy": "compact"})


@scenario("0-1")
def append_and_subtract(s, v):
    t = s.topic()
    key = "leader.replication.throttled.replicas"
    s.call(API, v, ask((TOPIC, t.name, [("cleanup.policy", APPEND, "compact")])), note="append to the default")
    settings(s, TOPIC, t.name, ["cleanup.policy"], {"cleanup.policy": "delete,compact"})
    s.call(API, v, ask((TOPIC, t.name, [("cleanup.policy", APPEND, "compact")])), note="append again")
    s.call(API, v, ask((TOPIC, t.name, [("cleanup.policy", SUBTRACT, "delete")])))
    settings(s, TOPIC, t.name, ["cleanup.policy"], {"cleanup.policy": "compact"})
    s.call(API, v, ask((TOPIC, t.name, [("cleanup.policy", SUBTRACT, "delete")])), note="subtract what is not there")
    s.call(API, v, ask((TOPIC, t.name, [(key, APPEND, "0:1")])))
    s.call(API, v, ask((TOPIC, t.name, [(key, APPEND, "1:1,2:1")])))
    settings(s, TOPIC, t.name, [key], {key: "0:1,1:1,2:1"})
    s.call(API, v, ask((TOPIC, t.name, [(key, SUBTRACT, "0:1,2:1")])))
    settings(s, TOPIC, t.name, [key], {key: "1:1"})


@scenario("0-1")
def subtract_all(s, v):
    t = s.topic()
    s.call(API, v, ask((TOPIC, t.name, [("cleanup.policy", SUBTRACT, "delete")])))
    settings(s, TOPIC, t.name, ["cleanup.policy"], {"cleanup.policy": ""})


@scenario("0-1", cases={"append": APPEND, "subtract": SUBTRACT})
def list_operation_on_what_is_no_list(s, v, operation):
    t = s.topic()
    s.call(API, v, ask((TOPIC, t.name, [("retention.ms", operation, "5")])))
    s.call(API, v, ask((TOPIC, t.name, [("no.such", operation, "5")])))


@scenario("0-1", cases={"append": APPEND, "subtract": SUBTRACT, "set": SET})
def null_value(s, v, operation):
    t = s.topic()
    s.call(API, v, ask((TOPIC, t.name, [("cleanup.policy", operation, None)])))
    s.call(API, v, ask((TOPIC, t.name, [("no.such", operation, None)])))


@scenario("0-1", cases={"append": APPEND, "subtract": SUBTRACT, "set": SET, "delete": DELETE})
def empty_value(s, v, operation):
    t = s.topic()
    s.call(API, v, ask((TOPIC, t.name, [("cleanup.policy", operation, "")])))
    s.call(API, v, ask((TOPIC, t.name, [("retention.ms", operation, "")])))


@scenario("0-1")
def delete_with_a_value(s, v):
    t = s.topic(retention_ms=5)
    s.call(API, v, ask((TOPIC, t.name, [("retention.ms", DELETE, "whatever")])))
    settings(s, TOPIC, t.name, ["retention.ms"], {"retention.ms": "-1"})


@scenario("0-1")
def delete_what_is_not_set(s, v):
    t = s.topic()
    s.call(API, v, ask((TOPIC, t.name, [("retention.ms", DELETE, None)])))
    s.call(API, v, ask((TOPIC, t.name, [("no.such", DELETE, None)])))


BAD = {
    "unknown": [("no.such", SET, "1")],
    "not a number": [("retention.ms", SET, "abc")],
    "below the minimum": [("segment.bytes", SET, "10")],
    "no such policy": [("cleanup.policy", SET, "shred")],
    "appended unknown policy": [("cleanup.policy", APPEND, "shred")],
    "good and bad": [("retention.ms", SET, "5"), ("segment.bytes", SET, "x")],
    "two bad": [("retention.ms", SET, "x"), ("segment.bytes", SET, "y")],
    "broker's name": [("log.retention.ms", SET, "5")],
    "empty name": [("", SET, "5")],
    "lags the wrong way round": [("min.compaction.lag.ms", SET, "2000"), ("max.compaction.lag.ms", SET, "1000")],
    "local retention above retention": [("retention.ms", SET, "1000"), ("local.retention.ms", SET, "5000")],
    "tiers": [("remote.storage.enable", SET, "true")],
}


@scenario("0-1", cases=BAD)
def bad_settings(s, v, changes):
    """All or none, within a resource."""
    t = s.topic()
    answer = s.call(API, v, ask((TOPIC, t.name, changes)))
    taken = {} if answer["Responses"][0]["ErrorCode"] else {key: value for key, _, value in changes}
    settings(s, TOPIC, t.name, ["retention.ms", "local.retention.ms", "segment.bytes", "cleanup.policy"], taken)


@scenario("0-1", cases={"two values": [("retention.ms", SET, "1"), ("retention.ms", SET, "2")], "set and delete": [("retention.ms", SET, "1"), ("retention.ms", DELETE, None)],
                        "append twice": [("cleanup.policy", APPEND, "compact"), ("cleanup.policy", APPEND, "delete")]})
def same_key_twice(s, v, changes):
    t = s.topic()
    s.call(API, v, ask((TOPIC, t.name, changes)))


@scenario("0-1")
def no_changes(s, v):
    t = s.topic()
    s.call(API, v, ask((TOPIC, t.name, [])))
    s.call(API, v, ask((TOPIC, s.name("unknown"), [])))


@scenario("0-1")
def no_resources(s, v):
    s.call(API, v, ask())


@scenario("0-1")
def unknown_topic(s, v):
    s.call(API, v, ask((TOPIC, s.name("unknown"), [("retention.ms", SET, "1")])))
    s.call(API, v, ask((TOPIC, s.name("unknown"), [("no.such", SET, "1")])))


@scenario("0-1", cases={"empty": "", "slash": "a/b", "long": "x" * 300})
def odd_topic_name(s, v, name):
    s.call(API, v, ask((TOPIC, name, [("retention.ms", SET, "1")])))


@scenario("0-1")
def partial_failure(s, v):
    t, u = s.topic("t"), s.topic("u")
    change = [("retention.ms", SET, "77")]
    s.call(API, v, ask((TOPIC, t.name, change), (TOPIC, s.name("none"), change), (TOPIC, u.name, [("retention.ms", SET, "x")]), (TOPIC, "bad/name", change)))
    settings(s, TOPIC, t.name, ["retention.ms"], {"retention.ms": "77"})
    settings(s, TOPIC, u.name, ["retention.ms"])


@scenario("0-1")
def same_resource_twice(s, v):
    t, u = s.topic("t"), s.topic("u")
    s.call(API, v, ask((TOPIC, t.name, [("retention.ms", SET, "1")]), (TOPIC, u.name, [("retention.ms", SET, "9")]), (TOPIC, t.name, [("segment.ms", SET, "2")])))
    settings(s, TOPIC, u.name, ["retention.ms"], {"retention.ms": "9"})
    settings(s, TOPIC, t.name, ["retention.ms", "segment.ms"])


@scenario("0-1")
def validate_only(s, v):
    t = s.topic()
    s.call(API, v, ask((TOPIC, t.name, [("retention.ms", SET, "1")]), validate_only=True))
    s.call(API, v, ask((TOPIC, t.name, [("retention.ms", SET, "x")]), validate_only=True))
    s.call(API, v, ask((TOPIC, s.name("none"), [("retention.ms", SET, "1")]), validate_only=True))
    settings(s, TOPIC, t.name, ["retention.ms"])


@scenario("0-1", cases=[0, 1, 3, 64, 127, -1])
def unknown_type(s, v, kind):
    s.call(API, v, ask((kind, s.name(), [("retention.ms", SET, "1")])))


@scenario("0-1", cases={"another": "2", "not a number": "abc", "negative": "-1", "too large": "99999999999"})
def wrong_broker(s, v, name):
    s.call(API, v, ask((BROKER, name, [("log.cleaner.threads", SET, "1")]), validate_only=True))


@scenario("0-1", cases={"read-only": ("num.partitions", "5"), "unknown": ("no.such", "1"), "not a number": ("num.io.threads", "x"),
                        "zero threads": ("num.io.threads", "0"), "listeners": ("listeners", "PLAINTEXT://:1"), "node.id": ("node.id", "3"),
                        "of a topic": ("retention.ms", "5"), "too many threads": ("num.io.threads", "100")}, exclusive=True)
def bad_broker_settings(s, v, setting):
    key, value = setting
    for name in ("1", ""):
        s.call(API, v, ask((BROKER, name, [(key, SET, value)]), validate_only=True), note=f"broker '{name}'")


@scenario("0-1", exclusive=True)
def cluster_wide_default(s, v):
    """The default of topics follows."""
    t = s.topic()
    s.call(API, v, ask((BROKER, "", [("message.max.bytes", SET, "2000000")])))
    settings(s, BROKER, "", ["message.max.bytes"], {"message.max.bytes": "2000000"})
    settings(s, BROKER, "1", ["message.max.bytes"], {"message.max.bytes": "2000000"})
    settings(s, TOPIC, t.name, ["max.message.bytes"], {"max.message.bytes": "2000000"})
    s.call("DescribeConfigs", 4, {"Resources": [{"ResourceType": TOPIC, "ResourceName": t.name, "ConfigurationKeys": ["max.message.bytes"]}], "IncludeSynonyms": True})
    s.call(API, v, ask((BROKER, "", [("message.max.bytes", DELETE, None)])))
    settings(s, TOPIC, t.name, ["max.message.bytes"], {"max.message.bytes": "1048588"})


@scenario("0-1", exclusive=True)
def min_insync_replicas(s, v):
    """With eligible leader replicas on, it is a matter of the whole cluster."""
    t = s.topic()
    for name in ("", "1"):
        for change in (DELETE, None), (SET, "2"), (SET, "0"), (SET, "1"):
            s.call(API, v, ask((BROKER, name, [("min.insync.replicas", *change)])), note=f"broker '{name}' {change}")
    settings(s, BROKER, "", ["min.insync.replicas"], {"min.insync.replicas": "1"})
    settings(s, TOPIC, t.name, ["min.insync.replicas"], {"min.insync.replicas": "1"})


@scenario("0-1", exclusive=True)
def one_broker(s, v):
    """Stands above the cluster's default."""
    t = s.topic()
    s.call(API, v, ask((BROKER, "1", [("log.segment.bytes", SET, "3000000")])))
    settings(s, BROKER, "1", ["log.segment.bytes"], {"log.segment.bytes": "3000000"})
    settings(s, TOPIC, t.name, ["segment.bytes"], {"segment.bytes": "3000000"})
    s.call(API, v, ask((BROKER, "", [("log.segment.bytes", SET, "4000000")])))
    settings(s, BROKER, "", ["log.segment.bytes"], {"log.segment.bytes": "4000000"})
    s.call("DescribeConfigs", 4, {"Resources": [{"ResourceType": BROKER, "ResourceName": "1", "ConfigurationKeys": ["log.segment.bytes"]}], "IncludeSynonyms": True})
    s.call(API, v, ask((BROKER, "1", [("log.segment.bytes", DELETE, None)])))
    settings(s, TOPIC, t.name, ["segment.bytes"], {"segment.bytes": "4000000"})
    s.call(API, v, ask((BROKER, "", [("log.segment.bytes", DELETE, None)])))
    settings(s, TOPIC, t.name, ["segment.bytes"], {"segment.bytes": "1073741824"})


@scenario("0-1")
def limit_of_size_takes_effect(s, v):
    t = s.topic()
    s.quiet(API, v, ask((TOPIC, t.name, [("max.message.bytes", SET, "100")])))
    settings(s, TOPIC, t.name, ["max.message.bytes"], {"max.message.bytes": "100"})
    s.until(lambda a: a["Responses"][0]["PartitionResponses"][0]["ErrorCode"] == 10, "Produce", 9, produce(t, batch(bytes(200))), without=["Responses"])
    s.quiet(API, v, ask((TOPIC, t.name, [("max.message.bytes", DELETE, None)])))
    s.until(lambda a: a["Responses"][0]["PartitionResponses"][0]["ErrorCode"] == 0, "Produce", 9, produce(t, batch(bytes(200))), without=["Responses"])


@scenario("0-1")
def compression_takes_effect(s, v):
    t = s.topic()
    s.quiet(API, v, ask((TOPIC, t.name, [("compression.type", SET, "gzip")])))
    settings(s, TOPIC, t.name, ["compression.type"], {"compression.type": "gzip"})
    s.quiet("Produce", 9, produce(t, batch(b"squeezed")))
    s.call("Fetch", 11, fetch(t))


@scenario("0-1", cases={"resources": {"Resources": None}, "name": {"Resources": [{"ResourceType": TOPIC, "ResourceName": None, "Configs": []}]},
                        "changes": {"Resources": [{"ResourceType": TOPIC, "ResourceName": "x", "Configs": None}]},
                        "key": {"Resources": [{"ResourceType": TOPIC, "ResourceName": "x", "Configs": [{"Name": None, "ConfigOperation": 0, "Value": "1"}]}]}})
def null_for(s, v, what):
    s.call(API, v, ask() | what)


@scenario("0-1", cases=[-2, 4])
def wrong_count(s, v, count):
    s.call(API, v, ask() | {"Resources": Counted(count, [])})


@scenario([1])
def unknown_tags(s, v):
    t = s.topic()
    s.call(API, v, ask((TOPIC, t.name, [("retention.ms", SET, "5")])) | {"_tags": [(4, b"x")]})
