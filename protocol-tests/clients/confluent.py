"""confluent-kafka for Python: a librdkafka of 2026, its admin client, idempotent producer and an assigned consumer."""

import time

from confluent_kafka import (OFFSET_BEGINNING, OFFSET_END, TIMESTAMP_CREATE_TIME, Consumer, IsolationLevel, KafkaError,
                             KafkaException, Producer, TopicCollection, TopicPartition)
from confluent_kafka.admin import (AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewPartitions, NewTopic,
                                   OffsetSpec, ResourceType)

from .suite import equal, eventually, matches, test

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]


def admin(run):
    """The test's admin client. It lives as long as the test: a client that goes away ends its calls."""
    if not hasattr(run, "confluent_admin"):
        run.confluent_admin = AdminClient({"bootstrap.servers": run.bootstrap, "log_level": 3})
    return run.confluent_admin


def done(futures):
    """Waits for the one future of an admin call."""
    [future] = futures.values()
    return future.result(15)


def refused(futures):
    """The error code that the call must end with."""
    [future] = futures.values()
    try:
        future.result(15)
    except KafkaException as e:
        return e.args[0].code()
    raise AssertionError("it was not refused")


def create(run, partitions=1, **config):
    config = {key.replace("_", "."): str(value) for key, value in config.items()}
    done(admin(run).create_topics([NewTopic(run.topic, partitions, 1, config=config)]))
    eventually(lambda: equal(run.topic in admin(run).list_topics(timeout=10).topics, True))


def producer(run, **config):
    return Producer({"bootstrap.servers": run.bootstrap, "linger.ms": 10, **{k.replace("_", "."): v for k, v in config.items()}})


def send(to, topic, partition, values, **fields):
    """Produces, waits, and gives the delivered messages in the order of their reports."""
    reports = []
    for value in values:
        to.produce(topic, value, partition=partition, on_delivery=lambda error, message: reports.append((error, message)), **fields)
        to.poll(0)
    equal(to.flush(30), 0, "messages without a report")
    errors = [error for error, _ in reports if error]
    assert not errors, errors[:3]
    return [message for _, message in reports]


def read(run, partition, count, offset=OFFSET_BEGINNING, **config):
    """`count` messages of a partition that is assigned, not subscribed to."""
    config = {"bootstrap.servers": run.bootstrap, "group.id": "unused", "enable.auto.commit": False, "fetch.wait.max.ms": 100,
              **{k.replace("_", "."): v for k, v in config.items()}}
    consumer = Consumer(config)
    try:
        consumer.assign([TopicPartition(run.topic, partition, offset)])
        got, end = [], time.monotonic() + 20
        while len(got) < count and time.monotonic() < end:
            for message in consumer.consume(10_000, 0.2):
                assert not message.error(), message.error()
                got.append(message)
        equal(len(got), count, "messages read")
        return got
    finally:
        consumer.close()


@test()
def admin_topics(run):
    client = admin(run)
    done(client.create_topics([NewTopic(run.topic, 3, 1, config={"retention.ms": "7200000"})]))
    equal(refused(client.create_topics([NewTopic(run.topic, 3, 1)])), KafkaError.TOPIC_ALREADY_EXISTS)
    equal(refused(client.create_topics([NewTopic(run.topic + "!", 3, 1)])), KafkaError.TOPIC_EXCEPTION)
    equal(refused(client.create_topics([NewTopic(run.topic + "-2", 3, 7)])), KafkaError.INVALID_REPLICATION_FACTOR)
    done(client.create_topics([NewTopic(run.topic + "-3", 3, 1)], validate_only=True))
    topic = eventually(lambda: done(client.describe_topics(TopicCollection([run.topic]))))
    equal([(p.id, p.leader.id, [r.id for r in p.replicas], [r.id for r in p.isr]) for p in topic.partitions], [(n, 1, [1], [1]) for n in range(3)])
    assert len(str(topic.topic_id)) == 22, topic.topic_id
    names = client.list_topics(timeout=10).topics
    assert run.topic in names and run.topic + "-3" not in names, names
    done(client.create_partitions([NewPartitions(run.topic, 4)]))
    eventually(lambda: equal(len(client.list_topics(run.topic, timeout=10).topics[run.topic].partitions), 4))
    equal(refused(client.create_partitions([NewPartitions(run.topic, 2)])), KafkaError.INVALID_PARTITIONS)
    done(client.delete_topics([run.topic]))
    eventually(lambda: equal(run.topic in client.list_topics(timeout=10).topics, False))
    equal(refused(client.delete_topics([run.topic])), KafkaError.UNKNOWN_TOPIC_OR_PART)


@test(ottla_only=True)
def what_is_answered_is_true(run):
    """Kafka answers before its own broker has learnt of the change; here the next request sees it."""
    client, to = admin(run), producer(run, enable_idempotence=True, linger_ms=0)
    for n in range(20):
        name = f"{run.topic}-{n}"
        resource = ConfigResource(ResourceType.TOPIC, name)
        done(client.create_topics([NewTopic(name, 8, 1)]))
        equal(len(client.list_topics(name, timeout=10).topics[name].partitions), 8)
        equal([done(client.list_offsets({TopicPartition(name, p): OffsetSpec.latest()})).offset for p in range(8)], [0] * 8)
        send(to, name, 7, [b"first", b"second"])
        change = ConfigEntry("retention.ms", str(n), incremental_operation=AlterConfigOpType.SET)
        done(client.incremental_alter_configs([ConfigResource(ResourceType.TOPIC, name, incremental_configs=[change])]))
        equal(done(client.describe_configs([resource]))["retention.ms"].value, str(n))
        done(client.create_partitions([NewPartitions(name, 9)]))
        equal(len(client.list_topics(name, timeout=10).topics[name].partitions), 9)
        done(client.delete_topics([name]))
        equal(name in client.list_topics(timeout=10).topics, False)


@test()
def admin_configs(run):
    create(run, cleanup_policy="compact")
    client = admin(run)

    def resource(*changes):
        entries = [ConfigEntry(name, value, incremental_operation=operation) for name, value, operation in changes]
        return ConfigResource(ResourceType.TOPIC, run.topic, incremental_configs=entries)

    def described():
        return done(client.describe_configs([ConfigResource(ResourceType.TOPIC, run.topic)]))

    equal(described()["cleanup.policy"].value, "compact")
    done(client.incremental_alter_configs([resource(("cleanup.policy", "delete", AlterConfigOpType.APPEND),
                                                    ("retention.ms", "60000", AlterConfigOpType.SET))]))
    eventually(lambda: equal((described()["cleanup.policy"].value, described()["retention.ms"].value), ("compact,delete", "60000")))
    entry = described()["retention.ms"]
    equal((entry.is_default, entry.is_read_only, entry.is_sensitive), (False, False, False))
    done(client.incremental_alter_configs([resource(("cleanup.policy", "compact", AlterConfigOpType.SUBTRACT),
                                                    ("retention.ms", None, AlterConfigOpType.DELETE))]))
    eventually(lambda: equal((described()["cleanup.policy"].value, described()["retention.ms"].value), ("delete", "604800000")))
    equal(described()["retention.ms"].is_default, True)
    equal(refused(client.incremental_alter_configs([resource(("retention.ms", "soon", AlterConfigOpType.SET))])), KafkaError.INVALID_CONFIG)
    done(client.alter_configs([ConfigResource(ResourceType.TOPIC, run.topic, set_config={"segment.bytes": "1048576"})]))
    eventually(lambda: equal((described()["segment.bytes"].value, described()["cleanup.policy"].value), ("1048576", "delete")))
    broker = done(client.describe_configs([ConfigResource(ResourceType.BROKER, "1")]))
    equal((broker["node.id"].value, broker["node.id"].is_read_only), ("1", True))


@test()
def admin_cluster(run):
    cluster = admin(run).describe_cluster().result(15)
    matches(r"^[\w-]{22}$", cluster.cluster_id)
    equal([(node.id, f"{node.host}:{node.port}") for node in cluster.nodes], [(1, run.bootstrap)])
    equal(cluster.controller.id, 1)


@test()
def admin_offsets(run):
    create(run)
    begun = int(time.time() * 1000)
    send(producer(run), run.topic, 0, [b"0", b"1"])
    send(producer(run), run.topic, 0, [b"2"], timestamp=begun + 60_000)
    send(producer(run), run.topic, 0, [b"3"], timestamp=begun + 30_000)
    client, partition = admin(run), TopicPartition(run.topic, 0)
    for spec, offset in [(OffsetSpec.earliest(), 0), (OffsetSpec.latest(), 4), (OffsetSpec.max_timestamp(), 2),
                         (OffsetSpec.for_timestamp(begun + 20_000), 2), (OffsetSpec.for_timestamp(0), 0),
                         (OffsetSpec.for_timestamp(begun + 90_000), -1)]:
        for level in [IsolationLevel.READ_UNCOMMITTED, IsolationLevel.READ_COMMITTED]:
            equal(done(client.list_offsets({partition: spec}, isolation_level=level)).offset, offset, str(spec))
    equal(done(client.delete_records([TopicPartition(run.topic, 0, 1)])).low_watermark, 1)
    equal(done(client.list_offsets({partition: OffsetSpec.earliest()})).offset, 1)
    equal(refused(client.delete_records([TopicPartition(run.topic, 0, 9)])), KafkaError.OFFSET_OUT_OF_RANGE)


@test()
def every_codec_idempotent(run):
    create(run)
    values = []
    for codec in CODECS:
        part = [f"{codec} {n} {'abc' * (n % 50)}".encode() for n in range(4000)]
        reports = send(producer(run, compression_type=codec, enable_idempotence=True), run.topic, 0, part)
        equal([m.offset() for m in reports], list(range(len(values), len(values) + len(part))), f"offsets acknowledged, {codec}")
        values += part
    got = read(run, 0, len(values))
    equal([m.offset() for m in got], list(range(len(values))))
    assert [m.value() for m in got] == values, "other values"


@test()
def all_of_a_record(run):
    create(run)
    headers = [("a", b"1"), ("a", b"2"), ("null", None), ("empty", b"")]
    to = producer(run)
    send(to, run.topic, 0, [b"value"], key=b"key", headers=headers, timestamp=1234567890123)
    send(to, run.topic, 0, [None], key=b"")
    send(to, run.topic, 0, [b""], key=None)
    first, second, third = read(run, 0, 3)
    equal((first.key(), first.value(), first.headers(), first.timestamp()), (b"key", b"value", headers, (TIMESTAMP_CREATE_TIME, 1234567890123)))
    equal((second.key(), second.value(), second.headers()), (b"", None, None))
    equal((third.key(), third.value()), (None, b""))


@test()
def consumer_seeks_and_positions(run):
    create(run, 2)
    send(producer(run), run.topic, 0, [str(n).encode() for n in range(100)])
    equal([m.value() for m in read(run, 0, 3, 97)], [b"97", b"98", b"99"])
    consumer = Consumer({"bootstrap.servers": run.bootstrap, "group.id": "unused", "enable.auto.commit": False, "enable.partition.eof": True})
    try:
        equal(consumer.get_watermark_offsets(TopicPartition(run.topic, 0), 10), (0, 100))
        equal(consumer.get_watermark_offsets(TopicPartition(run.topic, 1), 10), (0, 0))
        consumer.assign([TopicPartition(run.topic, 0, 100), TopicPartition(run.topic, 1, OFFSET_END)])
        ends = [consumer.poll(10).error().code() for _ in range(2)]
        equal(ends, [KafkaError._PARTITION_EOF] * 2)
        consumer.seek(TopicPartition(run.topic, 0, 50))
        equal(consumer.poll(10).offset(), 50)
        stamp = consumer.poll(10).timestamp()[1]
        [found] = consumer.offsets_for_times([TopicPartition(run.topic, 0, stamp)], 10)
        assert 0 <= found.offset <= 51, found
    finally:
        consumer.close()


@test()
def fetch_limits(run):
    """A message larger than every limit still comes, and small limits lose nothing."""
    create(run)
    values = [bytes([n % 251]) * (n * 7919 % 60_000) for n in range(60)] + [b"z" * 700_000]
    send(producer(run), run.topic, 0, values)
    got = read(run, 0, len(values), fetch_message_max_bytes=1000, fetch_max_bytes=1_048_576, receive_message_max_bytes=2_000_000)
    assert [m.value() for m in got] == values, "other values"


@test()
def errors_of_produce(run):
    create(run, max_message_bytes=10_000)
    errors = []
    to = producer(run)
    to.produce(run.topic, b"x" * 20_000, partition=0, on_delivery=lambda error, _: errors.append(error.code()))
    to.flush(20)
    equal(errors, [KafkaError.MSG_SIZE_TOO_LARGE])
    unkeyed = {"cleanup.policy": "compact"}
    done(admin(run).create_topics([NewTopic(run.topic + "-compacted", 1, 1, config=unkeyed)]))
    to.produce(run.topic + "-compacted", b"no key", on_delivery=lambda error, _: errors.append(error.code()))
    to.flush(20)
    equal(errors[1:], [KafkaError.INVALID_RECORD])
