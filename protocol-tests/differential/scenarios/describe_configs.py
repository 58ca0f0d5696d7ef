"""DescribeConfigs: settings of topics and of the broker, their sources and synonyms."""

from kafka_wire.messages import Counted
from scenario import scenario

TOPIC, BROKER, LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32


def ask(*resources, synonyms=False, documentation=False):
    """resources: (type, name[, keys])."""
    return {
        "Resources": [{"ResourceType": kind, "ResourceName": name, "ConfigurationKeys": keys[0] if keys else None} for kind, name, *keys in resources],
        "IncludeSynonyms": synonyms,
        "IncludeDocumentation": documentation,
    }


@scenario("1-4")
def topic(s, v):
    t = s.topic()
    s.call("DescribeConfigs", v, ask((TOPIC, t.name)))


@scenario("1-4")
def topic_with_settings(s, v):
    t = s.topic(retention_ms=1000, cleanup_policy="compact", compression_type="gzip", max_message_bytes=5000, min_insync_replicas=2)
    keys = ["retention.ms", "cleanup.policy", "compression.type", "max.message.bytes", "min.insync.replicas", "segment.ms"]
    s.call("DescribeConfigs", v, ask((TOPIC, t.name, keys)))


@scenario("1-4")
def topic_with_synonyms(s, v):
    t = s.topic(retention_ms=1000, max_message_bytes=5000)
    s.call("DescribeConfigs", v, ask((TOPIC, t.name), synonyms=True))


@scenario([3, 4])
def topic_with_documentation(s, v):
    t = s.topic()
    s.call("DescribeConfigs", v, ask((TOPIC, t.name, ["retention.ms", "cleanup.policy", "unclean.leader.election.enable"]), documentation=True))


@scenario("1-4", exclusive=True)
def broker(s, v):
    s.call("DescribeConfigs", v, ask((BROKER, "1")))


@scenario([1, 4], exclusive=True)
def broker_with_synonyms(s, v):
    s.call("DescribeConfigs", v, ask((BROKER, "1"), synonyms=True))


@scenario([4])
def broker_with_documentation(s, v):
    s.call("DescribeConfigs", v, ask((BROKER, "1", ["log.retention.ms", "num.partitions", "node.id", "ssl.keystore.password"]), documentation=True))


@scenario("1-4", exclusive=True)
def cluster_wide(s, v):
    """Only what was set at run time; here nothing."""
    s.call("DescribeConfigs", v, ask((BROKER, "")))


KEYS = {"one": ["retention.ms"], "two": ["segment.bytes", "retention.ms"], "none": [], "unknown": ["no.such"], "known and unknown": ["no.such", "retention.ms"],
        "twice": ["retention.ms", "retention.ms"], "empty": [""], "of a broker": ["log.retention.ms"]}


@scenario("1-4", cases=KEYS)
def keys_of_a_topic(s, v, keys):
    t = s.topic()
    s.call("DescribeConfigs", v, ask((TOPIC, t.name, keys)))


@scenario("1-4", cases={"one": ["log.retention.ms"], "static": ["node.id", "num.partitions", "log.retention.ms"], "unknown": ["no.such"],
                        "of a topic": ["retention.ms"], "password": ["ssl.key.password"], "place": ["log.dirs", "listeners"], "none": []})
def keys_of_the_broker(s, v, keys):
    s.call("DescribeConfigs", v, ask((BROKER, "1", keys), synonyms=True))


@scenario("1-4", cases={"another broker": "2", "not a number": "abc", "negative": "-1", "too large": "99999999999", "space": " 1"})
def wrong_broker(s, v, name):
    s.call("DescribeConfigs", v, ask((BROKER, name, ["num.partitions"])))


@scenario("1-4")
def unknown_topic(s, v):
    s.call("DescribeConfigs", v, ask((TOPIC, s.name("unknown"))))


@scenario("1-4", cases={"empty": "", "slash": "a/b", "dot": ".", "long": "x" * 300})
def odd_topic_name(s, v, name):
    s.call("DescribeConfigs", v, ask((TOPIC, name)))


@scenario("1-4", cases=[0, 1, 3, 5, 64, 127, -1, -128])
def unknown_type(s, v, kind):
    s.call("DescribeConfigs", v, ask((kind, s.name())))


@scenario([1, 4], cases={"empty": "", "another broker": "2", "not a number": "abc"})
def loggers_of(s, v, name):
    s.call("DescribeConfigs", v, ask((LOGGER, name)))


@scenario([1, 4], cases=[""])
def client_metrics_without_a_name(s, v, name):
    s.call("DescribeConfigs", v, ask((CLIENT_METRICS, name)))


@scenario([1, 4])
def client_metrics_unknown(s, v):
    s.call("DescribeConfigs", v, ask((CLIENT_METRICS, s.name())))


@scenario("1-4")
def several_resources(s, v):
    t, u = s.topic("t"), s.topic("u", retention_ms=7)
    keys = ["retention.ms"]
    s.call("DescribeConfigs", v, ask((TOPIC, u.name, keys), (TOPIC, s.name("none"), keys), (BROKER, "1", ["num.partitions"]), (BROKER, "7", []),
                                     (TOPIC, t.name, keys)))


@scenario("1-4")
def same_resource_twice(s, v):
    t = s.topic()
    s.call("DescribeConfigs", v, ask((TOPIC, t.name, ["retention.ms"]), (TOPIC, t.name, ["segment.ms"])))


@scenario("1-4")
def no_resources(s, v):
    s.call("DescribeConfigs", v, ask())


@scenario("1-4")
def internal_topic(s, v):
    s.quiet_until(lambda a: not a["Topics"][0]["ErrorCode"], "Metadata", 12,
                  {"Topics": [{"Name": "__consumer_offsets"}], "AllowAutoTopicCreation": True})
    s.call("DescribeConfigs", v, ask((TOPIC, "__consumer_offsets"), synonyms=True))


@scenario("1-4")
def deleted_topic(s, v):
    t = s.topic()
    s.quiet("DeleteTopics", 6, {"Topics": [{"Name": t.name}], "TimeoutMs": 10000})
    s.gone()
    s.call("DescribeConfigs", v, ask((TOPIC, t.name)))


@scenario("1-4")
def automatically_created_topic(s, v):
    s.quiet_until(lambda a: not a["Topics"][0]["ErrorCode"], "Metadata", 12, {"Topics": [{"Name": s.name()}], "AllowAutoTopicCreation": True})
    s.call("DescribeConfigs", v, ask((TOPIC, s.name(), ["retention.ms", "cleanup.policy"]), synonyms=True))


@scenario("1-4", cases={"resources": {"Resources": None}, "name": {"Resources": [{"ResourceType": TOPIC, "ResourceName": None}]},
                        "key": {"Resources": [{"ResourceType": TOPIC, "ResourceName": "x", "ConfigurationKeys": [None]}]}})
def null_for(s, v, what):
    s.call("DescribeConfigs", v, ask() | what)


@scenario([1, 4], cases=[-2, 4])
def wrong_count(s, v, count):
    s.call("DescribeConfigs", v, ask() | {"Resources": Counted(count, [])})


@scenario([4])
def unknown_tags(s, v):
    t = s.topic()
    s.call("DescribeConfigs", v, ask((TOPIC, t.name, ["retention.ms"])) | {"_tags": [(4, b"x")]})
