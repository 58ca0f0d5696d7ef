"""kcat: librdkafka 2.0 from the command line. What people type, and what they must see."""

import json
import subprocess
import time

from . import machine
from .suite import equal, eventually, matches, short, test, within

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]


def lines(first, last):
    return "".join(f"{n}\n" for n in range(first, last + 1))


def produce(run, *arguments, **options):
    return run.kcat("-P", "-t", run.topic, *arguments, **options)


def read(run, *arguments, **options):
    """All of the topic, to its end."""
    return run.kcat("-C", "-q", "-t", run.topic, "-o", "beginning", "-e", *arguments, **options)


@test()
def metadata(run):
    produce(run, "-p", 0, input="x\n")
    listing = run.kcat("-L")
    matches(rf"^Metadata for all topics \(from broker (-1|1): {run.bootstrap}/(bootstrap|1)\):", listing)
    within(" 1 brokers:\n", listing)
    within(f"  broker 1 at {run.bootstrap} (controller)\n", listing)
    within(f'  topic "{run.topic}" with 3 partitions:\n', listing)
    for partition in range(3):
        within(f"    partition {partition}, leader 1, replicas: 1, isrs: 1\n", run.kcat("-L", "-t", run.topic))
    found = json.loads(run.kcat("-L", "-J", "-t", run.topic))
    equal(found["controllerid"], 1)
    equal(found["brokers"], [{"id": 1, "name": run.bootstrap}])
    equal([p["partition"] for p in found["topics"][0]["partitions"]], [0, 1, 2])


@test()
def metadata_creates_the_topic(run):
    run.kcat("-L", "-t", run.topic)
    eventually(lambda: within("with 3 partitions:", run.kcat("-L", "-t", run.topic)))


@test()
def unknown_topic_is_not_created(run):
    said = read(run, "-X", "allow.auto.create.topics=false", fails=True)
    matches("(?i)unknown topic", said)
    assert run.topic not in run.kcat("-L"), "the topic exists"


@test()
def every_codec(run):
    sent = ""
    for codec in CODECS:
        text = "".join(f"{codec} {n} some words that compress well\n" for n in range(5000))
        produce(run, "-p", 0, "-X", f"compression.codec={codec}", "-X", "linger.ms=50", input=text)
        sent += text
    equal(read(run), sent)


@test()
def every_acks(run):
    for acks in ["0", "1", "all"]:
        produce(run, "-p", 1, "-X", f"acks={acks}", input=lines(1, 100))
        produce(run, "-p", 1, "-X", f"acks={acks}", "-X", "compression.codec=lz4", input=lines(101, 200))
    equal(read(run, "-p", 1), lines(1, 200) * 3)


@test()
def idempotent(run):
    for _ in range(2):
        produce(run, "-p", 0, "-X", "enable.idempotence=true", "-X", "batch.num.messages=10", input=lines(1, 3000))
    equal(read(run), lines(1, 3000) * 2)


@test()
def keys_and_null_keys(run):
    produce(run, "-p", 0, "-K:", input="a:1\nb:2\n:3\n4\n")
    equal(read(run, "-f", "%k|%K|%s|%S\n"), "a|1|1|1\nb|1|2|1\n|0|3|1\n|-1|4|1\n")


@test()
def a_key_keeps_its_partition(run):
    for value in ["one", "two"]:
        produce(run, "-K:", input="".join(f"key{n}:{value}\n" for n in range(60)))
    places = read(run, "-f", "%k %p\n").splitlines()
    equal((len(places), len(set(places))), (120, 60))
    equal({place.split()[1] for place in places}, {"0", "1", "2"})


@test()
def headers(run):
    produce(run, "-p", 0, "-H", "one=1", "-H", "two=zwei", "-H", "empty=", "-H", "one=again", input="x\n")
    equal(read(run, "-f", "%h|%s\n"), "one=1,two=zwei,empty=,one=again|x\n")


@test()
def tombstones(run):
    produce(run, "-p", 0, "-K:", "-Z", input="k1:\nk2:v\n")
    equal(read(run, "-Z", "-f", "%k %s %S\n"), "k1 NULL -1\nk2 v 1\n")


@test()
def json_envelope(run):
    before = int(time.time() * 1000)
    produce(run, "-p", 0, "-K:", "-H", "h=v", input="k:v\n")
    got = json.loads(read(run, "-J"))
    stamp = got.pop("ts")
    assert before <= stamp <= time.time() * 1000, f"{stamp} is not the time of producing"
    got.pop("broker", None)
    equal(got, {"topic": run.topic, "partition": 0, "offset": 0, "tstype": "create", "headers": ["h", "v"], "key": "k", "payload": "v"})


@test()
def large_messages(run):
    produce(run, "-p", 0, input="x" * 900_000 + "\n" + "y" * 900_000 + "\n")
    equal(read(run, "-f", "%S\n"), "900000\n900000\n")
    said = produce(run, "-p", 0, "-X", "message.max.bytes=5000000", input="x" * 1_100_000 + "\n", fails=True)
    matches("(?i)message size too large", said)


@test()
def offsets(run):
    produce(run, "-p", 0, input=lines(0, 9))

    def consume(*arguments):
        return run.kcat("-C", "-q", "-t", run.topic, "-p", 0, "-e", *arguments)

    equal(consume("-o", "beginning"), lines(0, 9))
    equal(consume("-o", 7, "-f", "%o %s\n"), "7 7\n8 8\n9 9\n")
    equal(consume("-o", -2), lines(8, 9))
    equal(consume("-o", "end"), "")
    equal(consume("-o", "beginning", "-c", 3), lines(0, 2))
    equal(consume("-o", 500, "-X", "auto.offset.reset=earliest"), lines(0, 9))
    equal(consume("-o", 500, "-X", "auto.offset.reset=latest"), "")


@test()
def offsets_by_time(run):
    produce(run, "-p", 0, input="1\n2\n")
    time.sleep(0.05)
    middle = int(time.time() * 1000)
    time.sleep(0.05)
    produce(run, "-p", 0, input="3\n4\n")
    equal(run.kcat("-C", "-q", "-t", run.topic, "-p", 0, "-e", "-o", f"s@{middle}"), "3\n4\n")
    equal(run.kcat("-C", "-q", "-t", run.topic, "-p", 0, "-e", "-o", "s@0", "-o", f"e@{middle}"), "1\n2\n")
    for when, offset in [(0, 0), (middle, 2), (-2, 0), (-1, 4), (99999999999999, -1)]:
        equal(run.kcat("-Q", "-t", f"{run.topic}:0:{when}"), f"{run.topic} [0] offset {offset}\n")


@test()
def a_waiting_consumer_is_woken(run):
    produce(run, "-p", 0, input="before\n")
    command = [machine.program("kcat"), "-b", run.bootstrap, "-C", "-q", "-u", "-t", run.topic, "-p", "0", "-o", "end", "-c", "3",
               "-X", "fetch.wait.max.ms=20000", "-f", "%o %s\n"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as consumer:
        try:
            time.sleep(1.5)  # it waits at the end of the partition by now
            begun = time.monotonic()
            produce(run, "-p", 0, input="a\nb\nc\n")
            got, _ = consumer.communicate(timeout=15)
        finally:
            consumer.kill()
    equal(got, "1 a\n2 b\n3 c\n")
    assert time.monotonic() - begun < 10, "it came with the end of the wait only"


@test()
def many_partitions_at_once(run):
    run.create_topic(partitions=60)
    sent = [f"{n} {'x' * (n % 300)}" for n in range(12000)]
    produce(run, "-K", " ", "-X", "compression.codec=lz4", input="".join(f"{line}\n" for line in sent))
    got = read(run, "-f", "%k %s\n").splitlines()
    equal(len(got), len(sent))
    assert sorted(got) == sorted(sent), short(set(got) ^ set(sent))


@test()
def a_message_may_span_lines(run):
    produce(run, "-p", 0, "-D", "|", input="one\ntwo|three")
    equal(read(run, "-D", "|"), "one\ntwo|three|")
