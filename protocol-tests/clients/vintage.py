"""Clients of 2016 to 2019: kafka-python 1.4.7, Sarama 1.24.1, and a librdkafka told that its broker is old."""

import time

import kafka
from kafka.admin import KafkaAdminClient, NewPartitions, NewTopic
from kafka.errors import TopicAlreadyExistsError, UnknownTopicOrPartitionError

from .suite import equal, eventually, test

KAFKA_PYTHON_CODECS = [None, "gzip"]  # those that need no package of their own


def read(run, partition, count, **config):
    consumer = kafka.KafkaConsumer(bootstrap_servers=run.bootstrap, group_id=None, enable_auto_commit=False, **config)
    try:
        place = kafka.TopicPartition(run.topic, partition)
        consumer.assign([place])
        consumer.seek_to_beginning(place)
        got, end = [], time.monotonic() + 20
        while len(got) < count and time.monotonic() < end:
            for records in consumer.poll(200).values():
                got += records
        equal(len(got), count, "records read")
        return got
    finally:
        consumer.close()


@test()
def kafka_python_produces_and_consumes(run):
    sent = []
    for codec in KAFKA_PYTHON_CODECS:
        producer = kafka.KafkaProducer(bootstrap_servers=run.bootstrap, compression_type=codec, linger_ms=5, acks="all")
        for n in range(2000):
            record = f"{codec} {n}".encode()
            sent.append(record)
            producer.send(run.topic, record, key=b"k", partition=0, headers=[("h", b"v")], timestamp_ms=1_500_000_000_000 + n)
        producer.flush(30)
        producer.close()
    got = read(run, 0, len(sent))
    equal([r.offset for r in got], list(range(len(sent))))
    assert [r.value for r in got] == sent, "other values"
    equal((got[7].key, got[7].headers, got[7].timestamp, got[7].timestamp_type), (b"k", [("h", b"v")], 1_500_000_000_007, 0))


@test()
def kafka_python_as_of_1_0(run):
    """Without ApiVersions: the versions that a broker of 2017 had."""
    producer = kafka.KafkaProducer(bootstrap_servers=run.bootstrap, api_version=(1, 0, 0), acks=1)
    for n in range(100):
        producer.send(run.topic, str(n).encode(), partition=1)
    producer.flush(30)
    producer.close()
    got = read(run, 1, 100, api_version=(1, 0, 0))
    equal([r.value for r in got], [str(n).encode() for n in range(100)])


@test()
def kafka_python_asks_for_offsets(run):
    producer = kafka.KafkaProducer(bootstrap_servers=run.bootstrap)
    for n in range(10):
        producer.send(run.topic, b"x", partition=0, timestamp_ms=1_500_000_000_000 + 1000 * n).get(20)
    producer.close()
    place = kafka.TopicPartition(run.topic, 0)
    consumer = kafka.KafkaConsumer(bootstrap_servers=run.bootstrap)
    try:
        equal((consumer.beginning_offsets([place]), consumer.end_offsets([place])), ({place: 0}, {place: 10}))
        found = consumer.offsets_for_times({place: 1_500_000_004_500})[place]
        equal((found.offset, found.timestamp), (5, 1_500_000_005_000))
        equal(consumer.partitions_for_topic(run.topic), {0, 1, 2})
        assert run.topic in consumer.topics(), "the topic is not listed"
    finally:
        consumer.close()


@test()
def kafka_python_admin(run):
    admin = KafkaAdminClient(bootstrap_servers=run.bootstrap)
    try:
        admin.create_topics([NewTopic(run.topic, 2, 1, topic_configs={"retention.ms": "60000"})])
        eventually(lambda: equal(partitions(run), {0, 1}))
        try:
            admin.create_topics([NewTopic(run.topic, 2, 1)])
            raise AssertionError("it was created twice")
        except TopicAlreadyExistsError:
            pass
        admin.create_partitions({run.topic: NewPartitions(3)})
        eventually(lambda: equal(partitions(run), {0, 1, 2}))
        admin.delete_topics([run.topic])
        try:
            eventually(lambda: admin.delete_topics([run.topic]) and equal("deleted", "unknown"))
        except UnknownTopicOrPartitionError:
            pass
    finally:
        admin.close()


def partitions(run):
    consumer = kafka.KafkaConsumer(bootstrap_servers=run.bootstrap)
    try:
        return consumer.partitions_for_topic(run.topic)
    finally:
        consumer.close()


@test()
def librdkafka_without_api_versions(run):
    old = ["-X", "api.version.request=false", "-X", "broker.version.fallback=0.11.0"]
    lines = "".join(f"{n}\n" for n in range(1000))
    run.kcat("-P", "-t", run.topic, "-p", 0, "-z", "gzip", *old, input=lines)
    equal(run.kcat("-C", "-q", "-t", run.topic, "-o", "beginning", "-e", *old), lines)


@test()
def sarama(run):
    """Over the generations of the protocol that Sarama of 2019 knows and Kafka still serves."""
    for version in ["0.11.0.0", "1.0.0", "2.1.0", "2.3.0"]:
        run.franz_go("sarama", f"{run.topic}-{version}", version)
