"""Several log directories: what lies where, by `kafka-log-dirs`, and replicas that are moved by the Java admin client while they serve,
while the broker is restarted, and while it changes hands with Apache Kafka.
"""

import json

from .suite import equal, eventually, test, within


def settings(run):
    return {"log.dirs": f"{run.folder / 'a'},{run.folder / 'b'}", "metadata.log.dir": str(run.folder / "a"), "log.segment.bytes": "1048576"}


def described(run):
    """{directory's name: {partition: (size, lag, is future)}}"""
    printed = run.java("kafka-log-dirs", "--describe")
    (broker,) = json.loads(next(line for line in printed.splitlines() if line.startswith("{")))["brokers"]
    there = {}
    for directory in broker["logDirs"]:
        equal(directory["error"], None)
        there[directory["logDir"].rpartition("/")[2]] = {
            p["partition"]: (p["size"], p["offsetLag"], p["isFuture"]) for p in directory["partitions"]}
    return there


def place(run, partition):
    """The directory where its log is, whether or not a copy is being made elsewhere."""
    names = [name for name, there in described(run).items() if partition in there and not there[partition][2]]
    equal(len(names), 1, "directories")  # for a moment Kafka has two
    return names[0]


def other(name):
    return {"a": "b", "b": "a"}[name]


def fill(run, megabytes):
    """Values that are known, as many as that; returns their number."""
    count = megabytes * 100
    run.kcat("-P", "-t", run.topic, "-p", "0", input="".join(f"{n:010} {'x' * 10_000}\n" for n in range(count)), timeout=120)
    return count


def numbers(run):
    return [int(line) for line in run.kcat("-C", "-e", "-o", "beginning", "-t", run.topic, "-p", "0", "-f", "%o\n", timeout=120).split()]


def move(run, how, to, *partitions):
    return run.java("move-replicas", how, str(run.folder / to), run.topic, *map(str, partitions or [0]))


@test(own_broker=True)
def sizes(run):
    """Each partition's size is that of its segments' files."""
    with run.new_broker(data=run.folder / "a", settings=settings(run)) as broker:
        run.use(broker)
        run.create_topic(run.topic, 4)
        for p in range(4):
            run.kcat("-P", "-t", run.topic, "-p", p, input=f"{'v' * 1000}\n" * (p + 1))
        there = described(run)
        equal(sorted(len([p for p in partitions if p.startswith(run.topic)]) for partitions in there.values()), [2, 2])
        for name, partitions in there.items():
            for partition, (size, lag, is_future) in partitions.items():
                files = (run.folder / name / partition).glob("*.log")
                equal((size, lag, is_future), (sum(file.stat().st_size for file in files), 0, False), partition)


@test(own_broker=True)
def moved_while_it_serves(run):
    with run.new_broker(data=run.folder / "a", settings=settings(run)) as broker:
        run.use(broker)
        run.create_topic(run.topic, 1)
        count = fill(run, 20)
        for _ in range(2):
            to = other(place(run, f"{run.topic}-0"))
            move(run, "finish", to)
            equal(place(run, f"{run.topic}-0"), to)
            run.kcat("-P", "-t", run.topic, "-p", "0", input="behind\n")
            count += 1
            equal(numbers(run), list(range(count)))
        broker.stop()
        broker.start()
        equal(place(run, f"{run.topic}-0"), to)
        equal(numbers(run), list(range(count)))


def throttled(run, rate):
    name = "replica.alter.log.dirs.io.max.bytes.per.second"
    change = ["--delete-config", name] if rate is None else ["--add-config", f"{name}={rate}"]
    run.java("kafka-configs", "--entity-type", "brokers", "--entity-name", "1", "--alter", *change)


def changes_hands(run, first, second):
    """A move that one broker begins goes on when it starts again, and when the other one does."""
    with first as broker:
        run.use(broker)
        run.create_topic(run.topic, 1)
        count = fill(run, 20)
        source = place(run, f"{run.topic}-0")
        to = other(source)
        throttled(run, 1_000_000)
        within(str(run.folder / to), move(run, "start", to))
        eventually(lambda: equal(len(list((run.folder / to).glob(f"{run.topic}-0.*-future"))), 1))
        broker.stop()
        broker.start()
        run.use(broker)
        equal(described(run)[to][f"{run.topic}-0"][2], True)
        equal(described(run)[source][f"{run.topic}-0"][2], False)
        broker.stop()
    with second as broker:
        run.use(broker)
        throttled(run, None)
        eventually(lambda: equal(place(run, f"{run.topic}-0"), to), 60)
        equal(numbers(run), list(range(count)))
        run.kcat("-P", "-t", run.topic, "-p", "0", input="behind\n")
        broker.stop()
        broker.start()
        run.use(broker)
        equal(place(run, f"{run.topic}-0"), to)
        equal(numbers(run), list(range(count + 1)))
        broker.stop()
    return count + 1, to


@test(own_broker=True)
def a_move_goes_on_under_kafka(run):
    of_both = settings(run)
    changes_hands(run, run.new_broker("first", data=run.folder / "a", settings=of_both), run.kafka(data=run.folder / "a", settings=of_both))


@test(own_broker=True)
def a_move_that_kafka_began_goes_on(run):
    of_both = settings(run)
    count, to = changes_hands(run, run.kafka(data=run.folder / "a", settings=of_both), run.new_broker("second", data=run.folder / "a", settings=of_both))
    # And Kafka finds it where the metadata says.
    with run.kafka("third", data=run.folder / "a", settings=of_both) as kafka:
        run.use(kafka)
        equal(place(run, f"{run.topic}-0"), to)
        equal(numbers(run), list(range(count)))
