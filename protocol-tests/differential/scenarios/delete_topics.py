"""DeleteTopics: by name, and from version 6 on by id."""

from bodies import fetch, list_offsets, metadata, produce
from kafka_wire.batches import batch
from kafka_wire.messages import Counted
from kafka_wire.primitives import ZERO_UUID
from scenario import scenario

MADE_UP = "bm8tc3VjaC10b3BpYy1pZA"


def ask(*names, timeout_ms=10000):
    return {"TopicNames": list(names), "Topics": [{"Name": name} for name in names], "TimeoutMs": timeout_ms}


def by_id(*ids):
    return {"Topics": [{"Name": None, "TopicId": i} for i in ids], "TimeoutMs": 10000}


@scenario("1-6")
def one(s, v):
    t = s.topic(partitions=2)
    s.call("DeleteTopics", v, ask(t.name))
    s.gone()
    s.call("Metadata", 12, metadata(t.name))


@scenario("1-6")
def several(s, v):
    names = [s.topic(x).name for x in ("c", "a", "b")]
    s.call("DeleteTopics", v, ask(*names))


@scenario("1-6")
def unknown(s, v):
    s.call("DeleteTopics", v, ask(s.name("unknown")))


@scenario("1-6")
def partial_failure(s, v):
    t = s.topic()
    s.call("DeleteTopics", v, ask(s.name("unknown"), t.name, "bad/name", ""))


@scenario("1-6")
def same_name_twice(s, v):
    t = s.topic()
    s.call("DeleteTopics", v, ask(t.name, t.name))


@scenario("1-6")
def unknown_name_twice(s, v):
    s.call("DeleteTopics", v, ask(s.name("x"), s.name("x")))


@scenario("1-6")
def twice_after_another(s, v):
    t = s.topic()
    s.quiet("DeleteTopics", 6, ask(t.name))
    s.gone()
    s.call("DeleteTopics", v, ask(t.name))


@scenario("1-6")
def no_topics(s, v):
    s.call("DeleteTopics", v, ask())


@scenario("1-6", cases={"empty": "", "slash": "a/b", "dot": ".", "long": "x" * 300, "utf8": "тема"})
def odd_name(s, v, name):
    s.call("DeleteTopics", v, ask(name))


@scenario([1, 3, 5, 6], cases=[0, -1, 2147483647])
def timeout(s, v, timeout_ms):
    """One that has passed already stops the deletion."""
    t = s.topic()
    s.call("DeleteTopics", v, ask(t.name, timeout_ms=timeout_ms))
    if timeout_ms > 0:
        s.gone()
    s.call("Metadata", 12, metadata(t.name))


@scenario("1-6")
def its_partitions_are_gone(s, v):
    t = s.topic()
    s.quiet("Produce", 9, produce(t, batch(b"x")))
    s.quiet("DeleteTopics", v, ask(t.name))
    s.gone()
    s.until(lambda a: a["Topics"][0]["Partitions"][0]["ErrorCode"] == 3, "ListOffsets", 7, list_offsets(t))
    s.call("Produce", 9, produce(t, batch(b"y")))
    s.call("Fetch", 11, fetch(t))
    s.call("Fetch", 13, fetch(t))


@scenario([1, 6])
def created_again_it_is_empty(s, v):
    t = s.topic()
    s.quiet("Produce", 9, produce(t, batch(b"x")))
    s.quiet("DeleteTopics", v, ask(t.name))
    s.gone()
    u = s.topic()
    s.call("ListOffsets", 7, list_offsets(u))
    s.call("Fetch", 13, fetch(t), note="by the old id")
    s.call("Produce", 13, produce(t, batch(b"x")), note="by the old id")


# --- by id


@scenario([6])
def id_of_one(s, v):
    t = s.topic()
    s.call("DeleteTopics", v, by_id(t.id))
    s.gone()


@scenario([6])
def id_unknown(s, v):
    s.call("DeleteTopics", v, by_id(s.literal(MADE_UP)))


@scenario([6])
def id_zero(s, v):
    s.call("DeleteTopics", v, by_id(ZERO_UUID))


@scenario([6])
def id_of_zero_beside_a_good_one(s, v):
    t = s.topic()
    s.call("DeleteTopics", v, by_id(ZERO_UUID, t.id))


@scenario([6])
def id_twice(s, v):
    t = s.topic()
    s.call("DeleteTopics", v, by_id(t.id, t.id))
    s.call("DeleteTopics", v, by_id(s.literal(MADE_UP), MADE_UP))


@scenario([6])
def id_and_name_in_one_entry(s, v):
    t = s.topic()
    s.call("DeleteTopics", v, {"Topics": [{"Name": t.name, "TopicId": t.id}], "TimeoutMs": 10000})
    s.call("Metadata", 12, metadata(t.name))


@scenario([6])
def bad_entry_beside_a_good_one(s, v):
    t, u = s.topic("t"), s.topic("u")
    s.call("DeleteTopics", v, {"Topics": [{"Name": t.name, "TopicId": t.id}, {"Name": u.name}], "TimeoutMs": 10000})


@scenario([6])
def name_and_id_of_one_topic(s, v):
    t = s.topic()
    s.call("DeleteTopics", v, {"Topics": [{"Name": t.name}, {"Name": None, "TopicId": t.id}], "TimeoutMs": 10000})


@scenario([6])
def names_and_ids(s, v):
    t, u = s.topic("t"), s.topic("u")
    s.call("DeleteTopics", v, {"Topics": [{"Name": t.name}, {"Name": None, "TopicId": u.id}, {"Name": s.name("none")},
                                          {"Name": None, "TopicId": s.literal(MADE_UP)}], "TimeoutMs": 10000})


@scenario([6])
def id_of_a_deleted_topic(s, v):
    t = s.topic()
    s.quiet("DeleteTopics", 6, ask(t.name))
    s.gone()
    s.call("DeleteTopics", v, by_id(t.id))


@scenario([1, 3, 4, 6], cases={"topics": {"TopicNames": None, "Topics": None}, "name": {"TopicNames": [None]}})
def null_for(s, v, what):
    s.call("DeleteTopics", v, ask() | what)


@scenario([1, 4, 6], cases=[-2, 3])
def wrong_count(s, v, count):
    s.call("DeleteTopics", v, ask() | {"TopicNames": Counted(count, []), "Topics": Counted(count, [])})


@scenario([4, 5, 6])
def unknown_tags(s, v):
    t = s.topic()
    s.call("DeleteTopics", v, ask(t.name) | {"_tags": [(3, b"x")]})


@scenario([1, 6])
def bytes_left_over(s, v):
    from kafka_wire import messages

    t = s.topic()
    s.frame(messages.request("DeleteTopics", v, ask(t.name), correlation_id=3) + b"left over")
    s.receive("DeleteTopics", v)
