"""AlterConfigs, the older way: what a resource is told replaces all that was set on it."""

from kafka_wire.messages import Counted
from scenario import scenario
from scenarios.incremental_alter_configs import BROKER, TOPIC, settings

API = "AlterConfigs"


def ask(*resources, validate_only=False):
    """resources: (type, name, {key: value} or pairs)."""
    return {
        "Resources": [
            {"ResourceType": kind, "ResourceName": name,
             "Configs": [{"Name": k, "Value": v} for k, v in (values.items() if isinstance(values, dict) else values)]}
            for kind, name, values in resources
        ],
        "ValidateOnly": validate_only,
    }


@scenario("0-2")
def replaces_all(s, v):
    t = s.topic(retention_ms=1, segment_ms=2)
    s.call(API, v, ask((TOPIC, t.name, {"retention.ms": "5", "cleanup.policy": "compact"})))
    settings(s, TOPIC, t.name, ["retention.ms", "segment.ms", "cleanup.policy"], {"retention.ms": "5", "segment.ms": "604800000", "cleanup.policy": "compact"})


@scenario("0-2")
def nothing_deletes_all(s, v):
    t = s.topic(retention_ms=1, segment_ms=2)
    s.call(API, v, ask((TOPIC, t.name, {})))
    settings(s, TOPIC, t.name, ["retention.ms", "segment.ms"], {"retention.ms": "-1", "segment.ms": "604800000"})


@scenario("0-2", cases={"unknown": {"no.such": "1"}, "not a number": {"retention.ms": "x"}, "good and bad": {"retention.ms": "5", "segment.bytes": "x"},
                        "null": {"retention.ms": None}, "empty": {"retention.ms": ""}, "empty name": {"": "1"}, "broker's name": {"log.retention.ms": "1"},
                        "null of unknown": {"no.such": None}, "below the minimum": {"segment.bytes": "1"}})
def bad_settings(s, v, values):
    t = s.topic(segment_ms=2000)
    s.call(API, v, ask((TOPIC, t.name, values)))
    settings(s, TOPIC, t.name, ["retention.ms", "segment.ms"])


@scenario("0-2")
def same_key_twice(s, v):
    t = s.topic()
    s.call(API, v, ask((TOPIC, t.name, [("retention.ms", "1"), ("retention.ms", "2")])))
    settings(s, TOPIC, t.name, ["retention.ms"])


@scenario("0-2")
def same_resource_twice(s, v):
    """Kafka fails within and never answers."""
    t = s.topic()
    s.send(API, v, ask((TOPIC, t.name, {"retention.ms": "1"}), (TOPIC, t.name, {"retention.ms": "2"})))
    s.receive(API, v, timeout=1)
    settings(s, TOPIC, t.name, ["retention.ms"])


@scenario("0-2")
def unknown_topic(s, v):
    s.call(API, v, ask((TOPIC, s.name("unknown"), {"retention.ms": "1"})))


@scenario("0-2")
def partial_failure(s, v):
    t, u = s.topic("t"), s.topic("u")
    s.call(API, v, ask((TOPIC, t.name, {"retention.ms": "77"}), (TOPIC, s.name("none"), {}), (TOPIC, u.name, {"retention.ms": "x"}), (TOPIC, "bad/name", {})))
    settings(s, TOPIC, t.name, ["retention.ms"], {"retention.ms": "77"})


@scenario("0-2")
def no_resources(s, v):
    s.call(API, v, ask())


@scenario("0-2")
def validate_only(s, v):
    t = s.topic(retention_ms=4)
    s.call(API, v, ask((TOPIC, t.name, {"segment.ms": "1"}), validate_only=True))
    s.call(API, v, ask((TOPIC, t.name, {"segment.ms": "x"}), validate_only=True))
    settings(s, TOPIC, t.name, ["retention.ms", "segment.ms"])


@scenario("0-2", cases=[0, 1, 3, 64, 127, -1])
def unknown_type(s, v, kind):
    s.call(API, v, ask((kind, s.name(), {"retention.ms": "1"})))


@scenario("0-2", cases={"another": "2", "not a number": "abc"})
def wrong_broker(s, v, name):
    s.call(API, v, ask((BROKER, name, {"log.cleaner.threads": "1"}), validate_only=True))


@scenario("0-2", cases={"read-only": {"num.partitions": "5"}, "unknown": {"no.such": "1"}, "not a number": {"num.io.threads": "x"}}, exclusive=True)
def bad_broker_settings(s, v, values):
    for name in ("1", ""):
        s.call(API, v, ask((BROKER, name, values), validate_only=True), note=f"broker '{name}'")


@scenario("0-2", exclusive=True)
def cluster_wide_default(s, v):
    """With eligible leader replicas on, the cluster's min.insync.replicas has to stay."""
    s.call(API, v, ask((BROKER, "", {"log.retention.bytes": "5000000"})))
    s.call(API, v, ask((BROKER, "", {"log.retention.bytes": "5000000", "min.insync.replicas": "1"})))
    settings(s, BROKER, "", ["log.retention.bytes"], {"log.retention.bytes": "5000000"})
    s.call(API, v, ask((BROKER, "", {})))
    s.call(API, v, ask((BROKER, "", {"min.insync.replicas": "1"})))
    settings(s, BROKER, "1", ["log.retention.bytes"], {"log.retention.bytes": "-1"})


@scenario("0-2", cases={"resources": {"Resources": None}, "name": {"Resources": [{"ResourceType": TOPIC, "ResourceName": None, "Configs": []}]},
                        "settings": {"Resources": [{"ResourceType": TOPIC, "ResourceName": "x", "Configs": None}]}})
def null_for(s, v, what):
    s.call(API, v, ask() | what)


@scenario([0, 2], cases=[-2, 4])
def wrong_count(s, v, count):
    s.call(API, v, ask() | {"Resources": Counted(count, [])})


@scenario([2])
def unknown_tags(s, v):
    t = s.topic()
    s.call(API, v, ask((TOPIC, t.name, {"retention.ms": "5"})) | {"_tags": [(4, b"x")]})
