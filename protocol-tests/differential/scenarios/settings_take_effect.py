"""Settings of a topic that change while it is in use: what producers and consumers then see; and the life of a topic from end to end."""

import time

from bodies import fetch, list_offsets, list_offsets_of, metadata, produce
from kafka_wire import codecs
from kafka_wire.batches import Record, batch
from scenario import Topic, scenario
from scenarios.incremental_alter_configs import BROKER, DELETE, SET, TOPIC, ask, settings

HOUR = 3600 * 1000


def change(s, topic, key, value):
    """Sets a key (None: deletes it) and waits until the broker's answer shows it."""
    operation = (key, DELETE, None) if value is None else (key, SET, value)
    s.quiet("IncrementalAlterConfigs", 1, ask((TOPIC, topic.name, [operation])))
    query = {"Resources": [{"ResourceType": TOPIC, "ResourceName": topic.name, "ConfigurationKeys": [key]}]}

    def shown(answer):
        now = answer["Results"][0]["Configs"][0]
        return now["Value"] == value if value is not None else now["ConfigSource"] != 1

    s.quiet_until(shown, "DescribeConfigs", 4, query)
    time.sleep(0.2)  # Kafka shows a setting a little before its log has it


@scenario([3, 8, 13])
def policy_becomes_compact(s, v):
    t = s.topic()
    s.call("Produce", v, produce(t, batch(b"no key")))
    change(s, t, "cleanup.policy", "compact")
    s.call("Produce", v, produce(t, batch(b"no key")))
    s.call("Produce", v, produce(t, batch(Record(b"v", b"key"))))
    change(s, t, "cleanup.policy", None)
    s.call("Produce", v, produce(t, batch(b"no key")))


@scenario([3, 8, 13])
def timestamp_type(s, v):
    t = s.topic()
    s.call("Produce", v, produce(t, batch(b"a")))
    change(s, t, "message.timestamp.type", "LogAppendTime")
    s.call("Produce", v, produce(t, batch(b"b")))
    change(s, t, "message.timestamp.type", "CreateTime")
    s.call("Produce", v, produce(t, batch(b"c")))
    s.call("Fetch", 11, fetch(t))


@scenario([3, 8, 13])
def timestamp_limits(s, v):
    t = s.topic()
    early = batch(b"x", base_timestamp=int(time.time() * 1000) - 5 * HOUR)
    s.call("Produce", v, produce(t, early))
    change(s, t, "message.timestamp.before.max.ms", str(HOUR))
    s.call("Produce", v, produce(t, early))
    change(s, t, "message.timestamp.before.max.ms", None)
    s.call("Produce", v, produce(t, early))


@scenario([3, 8, 13], cases=["gzip", "snappy", "lz4", "uncompressed"])
def compression(s, v, kind):
    t = s.topic()
    data = batch(b"a" * 100, codec=codecs.LZ4)
    s.call("Produce", v, produce(t, data))
    change(s, t, "compression.type", kind)
    s.call("Produce", v, produce(t, data))
    change(s, t, "compression.type", "producer")
    s.call("Produce", v, produce(t, data))
    s.call("Fetch", 11, fetch(t))


@scenario([3, 8, 13])
def size_of_segments(s, v):
    t = s.topic(segment_bytes=2 << 20)
    large = batch(bytes(700000))
    for _ in range(2):
        s.call("Produce", v, produce(t, large))
    change(s, t, "segment.bytes", str(1 << 20))
    for _ in range(2):
        s.call("Produce", v, produce(t, large))
    s.call("ListOffsets", 7, list_offsets(t))
    s.call("Fetch", 11, fetch(t, 3, max_bytes=1))


@scenario([3, 13])
def min_insync_replicas(s, v):
    t = s.topic()
    change(s, t, "min.insync.replicas", "3")
    s.call("Produce", v, produce(t, batch(b"x"), acks=-1))


@scenario([3, 13], exclusive=True)
def size_of_messages_by_the_broker(s, v):
    """The cluster's default binds topics without a limit of their own."""
    t, own = s.topic("t"), s.topic("own", max_message_bytes=1000)
    s.quiet("IncrementalAlterConfigs", 1, ask((BROKER, "", [("message.max.bytes", SET, "300")])))
    settings(s, TOPIC, t.name, ["max.message.bytes"], {"max.message.bytes": "300"})
    time.sleep(0.2)
    for topic in (t, own):
        s.call("Produce", v, produce(topic, batch(bytes(400))))
    s.quiet("IncrementalAlterConfigs", 1, ask((BROKER, "", [("message.max.bytes", DELETE, None)])))
    settings(s, TOPIC, t.name, ["max.message.bytes"], {"max.message.bytes": "1048588"})
    time.sleep(0.2)
    s.call("Produce", v, produce(t, batch(bytes(400))))


@scenario([3, 9, 13])
def life_of_a_topic(s, v):
    t = s.topic(partitions=1, retention_ms=100000)
    s.call("Produce", v, produce(t, batch(b"a", b"b")))
    s.quiet("CreatePartitions", 3, {"Topics": [{"Name": t.name, "Count": 3, "Assignments": None}], "TimeoutMs": 10000})
    s.serves(partitions=3)
    s.call("Metadata", 12, metadata(t.name))
    s.call("Produce", v, produce(t, batch(b"c"), partition=2))
    s.call("ListOffsets", 7, list_offsets_of((t, 0, -1), (t, 1, -1), (t, 2, -1)))
    s.quiet("DeleteRecords", 2, {"Topics": [{"Name": t.name, "Partitions": [{"PartitionIndex": 0, "Offset": 1}]}], "TimeoutMs": 5000})
    s.call("Fetch", 11, fetch(t, 0))
    s.call("Fetch", 11, fetch(t, 1))
    s.quiet("DeleteTopics", 6, {"Topics": [{"Name": t.name}], "TimeoutMs": 10000})
    s.gone()
    u = s.topic()
    s.record("another id", u.id != t.id)
    s.call("Metadata", 12, metadata(u.name))
    s.call("ListOffsets", 7, list_offsets(u))
    s.call("Produce", v, produce(u, batch(b"new")))
    settings(s, TOPIC, u.name, ["retention.ms"])


@scenario([9, 13])
def created_by_metadata_then_used_at_once(s, v):
    """What a client does with a new name: asks until there is a leader, then writes."""
    answer = s.until(lambda a: not a["Topics"][0]["ErrorCode"], "Metadata", 12, metadata(s.name(), create=True))
    s.serves()
    t = Topic(s.name(), answer["Topics"][0]["TopicId"])
    s.call("Produce", v, produce(t, batch(b"first")))
    s.call("Fetch", 12, fetch(t))
