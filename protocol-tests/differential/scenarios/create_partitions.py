"""CreatePartitions: a topic's new number of partitions."""

from bodies import metadata, produce
from kafka_wire.batches import batch
from kafka_wire.messages import Counted
from scenario import scenario


def ask(*topics, validate_only=False, timeout_ms=10000):
    """topics: (name, count[, assignments])."""
    return {
        "Topics": [{"Name": name, "Count": count, "Assignments": [{"BrokerIds": ids} for ids in more[0]] if more and more[0] is not None else None}
                   for name, count, *more in topics],
        "TimeoutMs": timeout_ms,
        "ValidateOnly": validate_only,
    }


def described(s, n, suffix="t"):
    s.until(lambda a: len(a["Topics"][0]["Partitions"]) == n, "Metadata", 12, metadata(s.name(suffix)), note="afterwards")


@scenario("0-3", cases=[2, 3, 10])
def more(s, v, n):
    t = s.topic()
    s.call("CreatePartitions", v, ask((t.name, n)))
    described(s, n)


@scenario("0-3")
def serve_at_last(s, v):
    t = s.topic()
    s.quiet("CreatePartitions", v, ask((t.name, 2)))
    s.serves(partitions=2)
    s.call("Produce", 9, produce(t, batch(b"x"), partition=1))


@scenario("0-3", cases=[3, 2, 1, 0, -1, -2147483648])
def not_more(s, v, n):
    t = s.topic(partitions=3)
    s.call("CreatePartitions", v, ask((t.name, n)))


@scenario([0, 3], cases=[10001, 2147483647])
def too_many(s, v, n):
    t = s.topic()
    s.call("CreatePartitions", v, ask((t.name, n), validate_only=True))


@scenario("0-3")
def unknown_topic(s, v):
    s.call("CreatePartitions", v, ask((s.name("unknown"), 3)))


@scenario("0-3", cases={"empty": "", "slash": "a/b", "long": "x" * 300})
def odd_name(s, v, name):
    s.call("CreatePartitions", v, ask((name, 3)))


@scenario("0-3")
def partial_failure(s, v):
    t, u = s.topic("t"), s.topic("u", partitions=3)
    s.call("CreatePartitions", v, ask((s.name("unknown"), 2), (t.name, 4), (u.name, 3), ("", 1)))
    described(s, 4)


@scenario("0-3")
def same_topic_twice(s, v):
    t, u = s.topic("t"), s.topic("u")
    s.call("CreatePartitions", v, ask((t.name, 2), (u.name, 2), (t.name, 3)))
    described(s, 2, "u")
    s.call("Metadata", 12, metadata(t.name))


@scenario("0-3")
def no_topics(s, v):
    s.call("CreatePartitions", v, ask())


@scenario("0-3")
def validate_only(s, v):
    t = s.topic()
    s.call("CreatePartitions", v, ask((t.name, 5), (s.name("unknown"), 2), validate_only=True))
    s.call("Metadata", 12, metadata(t.name))


@scenario("0-3")
def validate_only_finds_faults(s, v):
    t = s.topic(partitions=3)
    s.call("CreatePartitions", v, ask((t.name, 2), validate_only=True))
    s.call("CreatePartitions", v, ask((t.name, 5, [[9], [1]]), validate_only=True))


ASSIGNMENTS = {
    "one each": [[1], [1]],
    "empty list": [],
    "too few": [[1]],
    "too many": [[1], [1], [1]],
    "no brokers": [[], []],
    "unknown broker": [[1], [7]],
    "negative broker": [[-1], [1]],
    "same broker twice": [[1, 1], [1, 1]],
    "more replicas than before": [[1, 2], [1, 2]],
    "of different length": [[1], []],
}


@scenario("0-3", cases=ASSIGNMENTS)
def assigned(s, v, assignments):
    """Two new partitions."""
    t = s.topic()
    answer = s.call("CreatePartitions", v, ask((t.name, 3, assignments)))
    described(s, 1 if answer["Results"][0]["ErrorCode"] else 3)


@scenario([0, 3])
def assigned_null_brokers(s, v):
    t = s.topic()
    s.call("CreatePartitions", v, ask((t.name, 3, [None, None])))


@scenario([0, 3], cases={"fewer and assigned": (2, [[1]]), "same and assigned": (3, [[1]]), "same and nothing assigned": (3, [])})
def wrong_number_and_assignment(s, v, which):
    t = s.topic(partitions=3)
    s.call("CreatePartitions", v, ask((t.name, *which)))


@scenario([0, 3], cases=[0, -1, 2147483647])
def timeout(s, v, timeout_ms):
    t = s.topic()
    s.call("CreatePartitions", v, ask((t.name, 2), timeout_ms=timeout_ms))
    described(s, 2 if timeout_ms > 0 else 1)


@scenario("0-3", cases={"topics": {"Topics": None}, "name": {"Topics": [{"Name": None, "Count": 2, "Assignments": None}]}})
def null_for(s, v, what):
    s.call("CreatePartitions", v, ask() | what)


@scenario([0, 2, 3], cases=[-2, 3])
def wrong_count(s, v, count):
    s.call("CreatePartitions", v, ask() | {"Topics": Counted(count, [])})


@scenario([2, 3])
def unknown_tags(s, v):
    t = s.topic()
    s.call("CreatePartitions", v, ask((t.name, 2)) | {"_tags": [(3, b"x")]})


@scenario([0, 3])
def of_an_internal_topic(s, v):
    s.quiet_until(lambda a: not a["Topics"][0]["ErrorCode"], "Metadata", 12,
                  {"Topics": [{"Name": "__consumer_offsets"}], "AllowAutoTopicCreation": True})
    s.call("CreatePartitions", v, ask(("__consumer_offsets", 6), validate_only=True))


@scenario([0, 3])
def after_the_topic_is_deleted(s, v):
    t = s.topic()
    s.quiet("DeleteTopics", 6, {"Topics": [{"Name": t.name}], "TimeoutMs": 10000})
    s.gone()
    s.call("CreatePartitions", v, ask((t.name, 2)))


@scenario([0, 3])
def one_step_after_another(s, v):
    t = s.topic()
    for n in (2, 3, 3, 5, 4):
        s.call("CreatePartitions", v, ask((t.name, n)))
    described(s, 5)
