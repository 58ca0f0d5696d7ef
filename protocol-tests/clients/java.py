"""Apache Kafka 4.3.1's own command line tools, and so the Java admin client, producer and consumer."""

import time

from .suite import equal, eventually, matches, test, within

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]


def produce(run, text, *arguments):
    run.java("kafka-console-producer", "--topic", run.topic, *arguments, input=text)


def consume(run, count, *arguments, partition=0, offset="earliest"):
    return run.java("kafka-console-consumer", "--topic", run.topic, "--partition", partition, "--offset", offset,
                    "--max-messages", count, "--timeout-ms", 20000, *arguments)


def get_offsets(run, *arguments):
    return run.java("kafka-get-offsets", "--topic", run.topic, *arguments)


def configs(run, *arguments):
    return run.java("kafka-configs", "--entity-type", "topics", "--entity-name", run.topic, *arguments)


@test()
def topics(run):
    def on_topic(*arguments, **options):
        return run.java("kafka-topics", *arguments, "--topic", run.topic, **options)

    on_topic("--create", "--partitions", 2, "--config", "retention.ms=3600000")
    described = eventually(lambda: matches("(?s).*Partition: 1.*", on_topic("--describe"))).group()
    matches(rf"Topic: {run.topic}\tTopicId: [\w-]{{22}}\tPartitionCount: 2\tReplicationFactor: 1\tConfigs: .*retention.ms=3600000", described)
    matches(r"Partition: 0\tLeader: 1\tReplicas: 1\tIsr: 1\tElr: \tLastKnownElr: ", described)
    within("already exists", on_topic("--create", fails=True))
    on_topic("--create", "--if-not-exists")
    on_topic("--alter", "--partitions", 5)
    eventually(lambda: within("PartitionCount: 5", on_topic("--describe")))
    within("already has 5 partition", on_topic("--alter", "--partitions", 5, fails=True))
    assert run.topic in run.java("kafka-topics", "--list").split(), "the topic is not listed"
    on_topic("--delete")
    eventually(lambda: within("does not exist", on_topic("--describe", fails=True)))
    assert run.topic not in run.java("kafka-topics", "--list").split(), "the topic is still listed"


@test()
def topics_refused(run):
    def create(*arguments):
        return run.java("kafka-topics", "--create", "--topic", *arguments, fails=True)

    within("Topic name is invalid", create("what?"))
    within("InvalidReplicationFactorException", create(run.topic, "--replication-factor", 2))
    within("greater than 0", create(run.topic, "--partitions", 0))
    within("retention.ms", create(run.topic, "--config", "retention.ms=often"))
    within("no.such.config", create(run.topic, "--config", "no.such.config=1"))
    assert run.topic not in run.java("kafka-topics", "--list").split(), "the topic exists"


@test()
def topic_configs(run):
    run.create_topic(cleanup_policy="compact")

    def altered():
        return configs(run, "--describe")

    eventually(lambda: within("cleanup.policy=compact sensitive=false", altered()))
    configs(run, "--alter", "--add-config", "max.message.bytes=2000,segment.bytes=2097152", "--delete-config", "cleanup.policy")
    eventually(lambda: within("max.message.bytes=2000 sensitive=false", altered()))
    within("segment.bytes=2097152", altered())
    assert "cleanup.policy" not in altered(), altered()
    everything = configs(run, "--describe", "--all")
    within("max.message.bytes=2000 sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:max.message.bytes=2000, DEFAULT_CONFIG:message.max.bytes=1048588}",
           everything)
    within("  cleanup.policy=delete sensitive=false synonyms={DEFAULT_CONFIG:log.cleanup.policy=delete}", everything)
    within("segment.bytes", configs_fail(run, "segment.bytes=soon"))
    within("no.such.config", configs_fail(run, "no.such.config=1"))
    # the setting has effect
    said = run.kcat("-P", "-t", run.topic, "-p", 0, input="x" * 3000 + "\n", fails=True)
    matches("(?i)message size too large", said)


def configs_fail(run, pair):
    return run.java("kafka-configs", "--entity-type", "topics", "--entity-name", run.topic, "--alter", "--add-config", pair, fails=True)


@test()
def console_every_codec(run):
    run.create_topic()
    sent = ""
    for codec in CODECS:
        text = "".join(f"{codec} {n} and some more\n" for n in range(2000))
        produce(run, text, "--compression-codec", codec)
        sent += text
    equal(consume(run, 10_000), sent)


@test()
def console_old_and_new_guarantees(run):
    run.create_topic()
    produce(run, "0\n1\n", "--producer-property", "acks=0", "--producer-property", "enable.idempotence=false")
    eventually(lambda: within(f"{run.topic}:0:2", get_offsets(run)))
    produce(run, "2\n3\n", "--producer-property", "acks=1", "--producer-property", "enable.idempotence=false")
    produce(run, "4\n5\n", "--producer-property", "acks=all", "--producer-property", "enable.idempotence=true")
    equal(consume(run, 6), "0\n1\n2\n3\n4\n5\n")


@test()
def console_everything_printed(run):
    run.create_topic()
    read = ["--reader-property", "parse.key=true", "--reader-property", "parse.headers=true", "--reader-property", "null.marker=NULL"]
    produce(run, "h1:v1,h2:v2\tkey\tvalue\nh:\tk\tNULL\n", *read)
    shown = [f"print.{what}=true" for what in ("timestamp", "key", "offset", "partition", "headers")]
    printed = consume(run, 2, *[word for pair in shown for word in ("--formatter-property", pair)])
    matches(r"^CreateTime:\d{13}\tPartition:0\tOffset:0\th1:v1,h2:v2\tkey\tvalue$", printed)
    matches(r"^CreateTime:\d{13}\tPartition:0\tOffset:1\th:\tk\tnull$", printed)


@test()
def console_offsets(run):
    run.create_topic(partitions=2)
    run.kcat("-P", "-t", run.topic, "-p", 1, input="0\n1\n2\n3\n")
    equal(consume(run, 2, partition=1, offset=2), "2\n3\n")
    equal(consume(run, 4, partition=1), "0\n1\n2\n3\n")
    begun = time.monotonic()
    run.java("kafka-console-consumer", "--topic", run.topic, "--partition", 0, "--offset", "latest", "--timeout-ms", 1500)
    assert time.monotonic() - begun < 12, "a read without an answer took too long"


@test()
def log_append_time(run):
    run.create_topic(message_timestamp_type="LogAppendTime")
    before = int(time.time() * 1000)
    run.kcat("-P", "-t", run.topic, "-p", 0, "-z", "lz4", input="a\nb\n")
    printed = consume(run, 2, "--formatter-property", "print.timestamp=true")
    stamps = [int(stamp) for stamp in matches(r"^LogAppendTime:(\d+)\ta\nLogAppendTime:(\d+)\tb$", printed).groups()]
    assert all(before <= stamp <= time.time() * 1000 for stamp in stamps), stamps


@test()
def topic_compression(run):
    """The broker keeps what the topic says, and a consumer reads the same."""
    for codec in ["gzip", "uncompressed", "producer"]:
        topic = f"{run.topic}-{codec}"
        run.create_topic(topic, compression_type=codec)
        for sent in CODECS:
            run.kcat("-P", "-t", topic, "-p", 0, "-X", f"compression.codec={sent}", "-X", "linger.ms=20", input=f"{sent} {'x' * 200}\n" * 20)
        wanted = "".join(f"{sent} {'x' * 200}\n" * 20 for sent in CODECS)
        printed = run.java("kafka-console-consumer", "--topic", topic, "--partition", 0, "--offset", "earliest",
                           "--max-messages", 100, "--timeout-ms", 20000)
        equal(printed, wanted, codec)


@test()
def offsets_of_every_kind(run):
    run.create_topic(partitions=2)
    run.kcat("-P", "-t", run.topic, "-p", 1, input="0\n1\n2\n")
    time.sleep(0.05)
    middle = int(time.time() * 1000)
    time.sleep(0.05)
    run.kcat("-P", "-t", run.topic, "-p", 1, input="3\n")
    equal(get_offsets(run), f"{run.topic}:0:0\n{run.topic}:1:4\n")
    for when, first, second in [("latest", "0", "4"), ("earliest", "0", "0"), ("max-timestamp", None, "3"), ("earliest-local", "0", "0"),
                                (middle, None, "3"), (0, None, "0")]:
        empty = f"{run.topic}:0:{first}\n" if first else ""
        got = get_offsets(run, "--time", when)
        assert got in (f"{empty}{run.topic}:1:{second}\n", f"{run.topic}:0:\n{run.topic}:1:{second}\n"), f"{when}: {got}"
    equal(get_offsets(run, "--partitions", 1), f"{run.topic}:1:4\n")


@test()
def delete_records(run):
    run.create_topic()
    run.kcat("-P", "-t", run.topic, "-p", 0, "-X", "batch.num.messages=3", input="".join(f"{n}\n" for n in range(10)))

    def delete(offset, **options):
        file = run.folder / "delete.json"
        file.write_text('{"version": 1, "partitions": [{"topic": "%s", "partition": 0, "offset": %d}]}' % (run.topic, offset))
        return run.java("kafka-delete-records", "--offset-json-file", file, **options)

    within("low_watermark: 4", delete(4))
    equal(get_offsets(run, "--time", "earliest"), f"{run.topic}:0:4\n")
    equal(consume(run, 6), "4\n5\n6\n7\n8\n9\n")
    within("OffsetOutOfRange", delete(11).replace(" ", ""))
    within("low_watermark: 10", delete(-1))
    equal(get_offsets(run, "--time", "earliest"), f"{run.topic}:0:10\n")
    run.kcat("-P", "-t", run.topic, "-p", 0, input="10\n")
    equal(consume(run, 1, offset=10), "10\n")


@test()
def broker_api_versions(run):
    printed = run.java("kafka-broker-api-versions")
    matches(rf"^{run.bootstrap} \(id: 1 rack: null isFenced: false\) -> \($", printed)
    # versions that clients of 2026 rely on, and the oldest that are served
    for api, key, first, last in [("Produce", 0, 0, 13), ("Fetch", 1, 4, 18), ("ListOffsets", 2, 1, 11), ("Metadata", 3, 0, 13),
                                  ("ApiVersions", 18, 0, 4), ("CreateTopics", 19, 2, 7), ("DeleteTopics", 20, 1, 6), ("DeleteRecords", 21, 0, 2),
                                  ("InitProducerId", 22, 0, 6), ("OffsetForLeaderEpoch", 23, 2, 4), ("DescribeConfigs", 32, 1, 4),
                                  ("AlterConfigs", 33, 0, 2), ("CreatePartitions", 37, 0, 3), ("IncrementalAlterConfigs", 44, 0, 1),
                                  ("DescribeCluster", 60, 0, 2), ("DescribeTopicPartitions", 75, 0, 0)]:
        got = matches(rf"^\t{api}\({key}\): (\d+)(?: to (\d+))? ", printed)
        served = int(got[1]), int(got[2] or got[1])
        assert served[0] == first and last - 1 <= served[1] <= last, f"{api}: {served}, not {(first, last)}"


@test()
def cluster_id(run):
    printed = run.tools("kafka-cluster", "cluster-id", "--bootstrap-server", run.bootstrap)
    matches(r"^Cluster ID: [\w-]{22}$", printed)


@test()
def producer_perf_test(run):
    run.create_topic(partitions=3)
    for acks, extra in [("1", "enable.idempotence=false"), ("all", "compression.type=zstd")]:
        printed = run.tools("kafka-producer-perf-test", "--topic", run.topic, "--num-records", 50_000, "--record-size", 200, "--throughput", -1,
                            "--command-property", f"bootstrap.servers={run.bootstrap}", f"acks={acks}", extra)
        matches(r"^50000 records sent, ", printed)
    ends = [int(line.rsplit(":", 1)[1]) for line in get_offsets(run).splitlines()]
    equal((len(ends), sum(ends)), (3, 100_000))


@test(own_broker=True)
def dump_log(run):
    """Kafka's DumpLogSegments reads what the broker has written, after a clean end."""
    broker = run.new_broker()
    with broker:
        run.use(broker)
        run.create_topic("dumped", 1, segment_bytes=1048576, index_interval_bytes=1000)
        for codec in CODECS:
            run.kcat("-P", "-t", "dumped", "-p", 0, "-K:", "-H", "h=v", "-X", f"compression.codec={codec}",
                     "-X", "batch.num.messages=500", input="".join(f"{codec}{n}:{str(n) * 100}\n" for n in range(3000)))
        run.java("kafka-configs", "--entity-type", "topics", "--entity-name", "dumped", "--alter", "--add-config", "retention.ms=7200000")
        broker.stop()
    log_files = sorted((broker.data / "dumped-0").glob("*.log"))
    assert len(log_files) > 1, f"one segment only: {log_files}"
    printed = dump(run, "--deep-iteration", "--print-data-log", files=log_files)
    records = [line for line in printed.splitlines() if line.startswith("| offset: ")]
    equal(len(records), 15_000)
    for codec in CODECS:
        within(f"compresscodec: {codec} ", printed)
        within(f"headerKeys: [h] key: {codec}2999 payload: {'2999' * 100}", printed)
    assert "isvalid: false" not in printed
    others = sorted(path for path in (broker.data / "dumped-0").iterdir() if path.suffix in (".index", ".timeindex", ".snapshot"))
    printed = dump(run, "--index-sanity-check", files=others)
    assert "Mismatches" not in printed and "not sorted" not in printed and "should be" not in printed, printed[-1500:]
    metadata = sorted((broker.data / "__cluster_metadata-0").glob("*.log"))
    printed = dump(run, "--cluster-metadata-decoder", files=metadata)
    for record in ['"type":"FEATURE_LEVEL_RECORD"', '"type":"REGISTER_BROKER_RECORD"', '"type":"TOPIC_RECORD","version":0,"data":{"name":"dumped"',
                   '"type":"PARTITION_RECORD"', '"resourceName":"dumped","name":"segment.bytes","value":"1048576"',
                   '"resourceName":"dumped","name":"retention.ms","value":"7200000"', "LeaderChange"]:
        within(record, printed)


def dump(run, *arguments, files, **options):
    return run.tools("kafka-dump-log", *arguments, "--files", ",".join(map(str, files)), **options)
