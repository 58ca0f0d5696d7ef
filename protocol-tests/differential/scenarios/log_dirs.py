"""DescribeLogDirs and AlterReplicaLogDirs, on a broker with one log directory and on one with two; and who leads what then."""

from bodies import create_topics, fetch, list_offsets_of, new_topic, produce
from kafka_wire.batches import batch
from scenario import scenario
from scenarios.incremental_alter_configs import API as ALTER_CONFIGS, BROKER, DELETE, SET, ask as alter_configs

TWO = {"log.dirs": "{dir}/data,{dir}/data-2"}
LATEST = 5


def describe(*parts):
    """parts: (name, partitions)."""
    return {"Topics": [{"Topic": name, "Partitions": list(partitions)} for name, partitions in parts]}


def alter(path, *parts):
    return {"Dirs": [{"Path": path, "Topics": [{"Name": name, "Partitions": list(partitions)} for name, partitions in parts]}]}


def filled(s, suffix="t", partitions=1, batches=3, **settings):
    t = s.topic(suffix, partitions=partitions, **settings)
    for p in range(partitions):
        for i in range(batches * (p + 1)):
            s.quiet("Produce", 9, produce(t, batch(b"x" * 100), partition=p))
    return t


def where(s, t, partition=0):
    """(path, is future) of each replica of a partition."""
    answer = s.quiet("DescribeLogDirs", LATEST, describe((t.name, [partition])))
    return [(d["LogDir"], p["IsFutureKey"]) for d in answer["Results"] for topic in d["Topics"] for p in topic["Partitions"]]


def paths(s):
    return [d["LogDir"] for d in s.quiet("DescribeLogDirs", LATEST, {"Topics": []})["Results"]]


def other(s, t, partition=0):
    (here, _), = where(s, t, partition)
    return next(path for path in paths(s) if path != here)


@scenario("1-5")
def sizes(s, v):
    t = filled(s, partitions=3)
    s.call("DescribeLogDirs", v, describe((t.name, [0, 1, 2])))
    s.call("DescribeLogDirs", v, describe((t.name, [1])), note="one")


@scenario("1-5", cases={
    "no topics": lambda s, t: {"Topics": []},
    "no partitions": lambda s, t: describe((t.name, [])),
    "unknown topic": lambda s, t: describe((s.name("u"), [0])),
    "unknown partition": lambda s, t: describe((t.name, [0, 7, -1])),
    "partition twice": lambda s, t: describe((t.name, [0, 0])),
    "topic twice": lambda s, t: describe((t.name, [0]), (t.name, [0])),
    "empty name": lambda s, t: describe(("", [0])),
})
def asked(s, v, body):
    t = filled(s)
    s.call("DescribeLogDirs", v, body(s, t))


@scenario("1-2", cases={
    "where it is": lambda s, t, here: alter(here, (t.name, [0])),
    "no such directory": lambda s, t, here: alter("/no/such/dir", (t.name, [0])),
    "slash at the end": lambda s, t, here: alter(here + "/", (t.name, [0])),
    "relative": lambda s, t, here: alter("data", (t.name, [0])),
    "empty path": lambda s, t, here: alter("", (t.name, [0])),
    "unknown topic": lambda s, t, here: alter(here, (s.name("u"), [0])),
    "unknown partition": lambda s, t, here: alter(here, (t.name, [7])),
    "negative partition": lambda s, t, here: alter(here, (t.name, [-1])),
    "empty name": lambda s, t, here: alter(here, ("", [0])),
    "too long a name": lambda s, t, here: alter(here, (s.name_of_length(215), [0])),
    "longest name": lambda s, t, here: alter(here, (s.name_of_length(213), [0])),
    "too long and no such directory": lambda s, t, here: alter("/no/such/dir", (s.name_of_length(215), [0])),
    "some of each": lambda s, t, here: alter(here, (t.name, [0, 7]), (s.name("u"), [0])),
    "partition twice": lambda s, t, here: alter(here, (t.name, [0, 0])),
    "no partitions": lambda s, t, here: alter(here, (t.name, [])),
    "no topics": lambda s, t, here: alter(here),
    "nothing": lambda s, t, here: {"Dirs": []},
})
def one_directory(s, v, body):
    t = filled(s)
    s.call("AlterReplicaLogDirs", v, body(s, t, paths(s)[0]))
    s.call("DescribeLogDirs", LATEST, describe((t.name, [0])))


@scenario("1-2", settings=TWO)
def moved(s, v):
    t = filled(s, batches=20)
    to = other(s, t)
    s.call("AlterReplicaLogDirs", v, alter(to, (t.name, [0])))
    s.quiet_until(lambda _: where(s, t) == [(to, False)], "Metadata", 12, {"Topics": [], "AllowAutoTopicCreation": False})
    s.call("Fetch", 11, fetch(t))
    s.call("Produce", 9, produce(t, batch(b"behind")))
    for note, timestamp in (("start", -2), ("end", -1)):
        s.call("ListOffsets", 7, list_offsets_of((t, 0, timestamp)), note=note)
    s.call("DeleteRecords", 2, {"Topics": [{"Name": t.name, "Partitions": [{"PartitionIndex": 0, "Offset": 7}]}], "TimeoutMs": 5000})
    s.call("Fetch", 11, fetch(t, 7))
    s.call("OffsetForLeaderEpoch", 4, {"ReplicaId": -1, "Topics": [{"Topic": t.name, "Partitions": [
        {"Partition": 0, "CurrentLeaderEpoch": -1, "LeaderEpoch": 0}]}]})
    s.call("Metadata", 12, {"Topics": [{"Name": t.name}], "AllowAutoTopicCreation": False})


@scenario("1-2", settings=TWO, cases={
    "no such directory": lambda s, t, to: alter("/no/such/dir", (t.name, [0])),
    "unknown topic": lambda s, t, to: alter(to, (s.name("u"), [0])),
    "twice": lambda s, t, to: {"Dirs": alter("/no/such/dir", (t.name, [0]))["Dirs"] + alter(paths(s)[0], (t.name, [7]))["Dirs"]},
})
def refused(s, v, body):
    t = filled(s)
    s.call("AlterReplicaLogDirs", v, body(s, t, other(s, t)))


@scenario("1-2", settings=TWO)
def preferred_before_it_exists(s, v):
    """A topic is made where it was wished for."""
    name = s.name("later")
    for to in paths(s):
        answer = s.call("AlterReplicaLogDirs", v, alter(to, (name, [0, 1, 2])))
    t = s.topic("later", partitions=3)
    for p in range(3):
        assert where(s, t, p) == [(to, False)], where(s, t, p)


@scenario("1-2", settings=TWO)
def there_and_back(s, v):
    t = filled(s, batches=20)
    (first, _), = where(s, t)
    second = other(s, t)
    for to in (second, first, second):
        s.call("AlterReplicaLogDirs", v, alter(to, (t.name, [0])))
        s.quiet_until(lambda _: where(s, t) == [(to, False)], "Metadata", 12, {"Topics": [], "AllowAutoTopicCreation": False})
        s.quiet("Produce", 9, produce(t, batch(b"x")))
    s.call("Fetch", 11, fetch(t))


@scenario([2], settings={**TWO, "cordoned.log.dirs": "{dir}/data-2"})
def cordoned(s, v):
    t = filled(s, partitions=3)
    s.call("DescribeLogDirs", LATEST, describe((t.name, [0, 1, 2])))
    s.call("AlterReplicaLogDirs", v, alter(paths(s)[1], (t.name, [0])))


@scenario([7], settings=TWO, exclusive=True)
def cordoned_while_it_runs(s, v):
    """A directory takes nothing new, then none does; what is said where replicas go is heard all the same."""

    def cordon(value, note):
        change = [("cordoned.log.dirs", SET if value is not None else DELETE, value)]
        s.call(ALTER_CONFIGS, 1, alter_configs((BROKER, "1", change)), note=note)
        one, both = paths(s)
        wanted = {None: [], one: [one], both: [both], "*": [one, both], f"{both},{one}": [one, both]}[value]
        describe_all = {"Topics": []}
        s.quiet_until(lambda a: [d["LogDir"] for d in a["Results"] if d["IsCordoned"]] == wanted, "DescribeLogDirs", LATEST, describe_all)
        s.call("DescribeLogDirs", LATEST, describe_all, note=note)
        # Kafka's controller hears of it later.
        refused = len(wanted) == 2
        check = create_topics(new_topic(s.name("check")), validate_only=True)
        s.until(lambda a: (a["Topics"][0]["ErrorCode"] != 0) == refused, "CreateTopics", v, check, note=note)

    one, both = paths(s)
    cordon(both, "the second")
    t = filled(s, partitions=4)
    s.call("DescribeLogDirs", LATEST, describe((t.name, [0, 1, 2, 3])))
    s.call("AlterReplicaLogDirs", 2, alter(both, (t.name, [0])))
    cordon(f"{both},{one}", "both")
    s.call("CreatePartitions", 3, {"Topics": [{"Name": t.name, "Count": 6, "Assignments": None}], "TimeoutMs": 5000, "ValidateOnly": False})
    s.call("CreateTopics", v, create_topics(new_topic(s.name("assigned"), -1, -1, assignments={0: [1]})))
    s.until(lambda a: any(d["Topics"] for d in a["Results"]), "DescribeLogDirs", LATEST, describe((s.name("assigned"), [0])))
    cordon("*", "all")
    cordon(one, "the first")
    cordon(None, "none")
