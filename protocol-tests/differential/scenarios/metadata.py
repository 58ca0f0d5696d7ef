"""Metadata: topics by name and by id, all of them, automatic creation."""

from bodies import create_topics, metadata, new_topic
from kafka_wire.messages import Counted
from kafka_wire.primitives import ZERO_UUID
from scenario import scenario

MADE_UP = "bm8tc3VjaC10b3BpYy1pZA"


def without_errors(answer):
    return not any(t["ErrorCode"] for t in answer["Topics"])


@scenario("0-13")
def one_topic(s, v):
    t = s.topic()
    s.call("Metadata", v, metadata(t.name))


@scenario("0-13")
def partitions(s, v):
    t = s.topic(partitions=7)
    s.call("Metadata", v, metadata(t.name))


@scenario("0-13")
def several_in_the_order_asked(s, v):
    names = [s.topic(suffix).name for suffix in ("c", "a", "b")]
    s.call("Metadata", v, metadata(*names))


@scenario("0-13")
def same_topic_twice(s, v):
    t, u = s.topic(), s.topic("u")
    s.call("Metadata", v, metadata(t.name, u.name, t.name, t.name))


@scenario("1-13")
def no_topics(s, v):
    s.call("Metadata", v, metadata())


@scenario("0-13", exclusive=True)
def all_topics(s, v):
    """An empty list in version 0, null from version 1 on. Other scenarios have topics too, so only our own are looked at."""
    mine = {s.topic(suffix, partitions=2).name for suffix in ("a", "b", "c")}
    answer = s.call("Metadata", v, metadata() if v == 0 else {"Topics": None}, without=["Topics"])
    s.record("ours", sorted(t["Name"][-1] for t in answer["Topics"] if t["Name"] in mine))
    s.record("errors", sorted({t["ErrorCode"] for t in answer["Topics"]}))
    s.record("names twice", len(answer["Topics"]) - len({t["Name"] for t in answer["Topics"]}))


@scenario(exclusive=True)
def all_topics_never_creates(s):
    s.call("Metadata", 12, {"Topics": None, "AllowAutoTopicCreation": True}, without=["Topics"])
    s.call("Metadata", 12, metadata(s.name()))


@scenario("4-13")
def unknown_topic(s, v):
    s.call("Metadata", v, metadata(s.name("a"), s.name("b")))
    s.call("Metadata", v, metadata(s.name("a")), note="not created")


@scenario("0-13")
def unknown_topic_is_created(s, v):
    """Versions before 4 cannot say that it shall not be."""
    s.until(without_errors, "Metadata", v, metadata(s.name(), create=True))


@scenario("4-13")
def known_and_unknown(s, v):
    t = s.topic()
    s.call("Metadata", v, metadata(s.name("before"), t.name, s.name("zz")))


@scenario([0, 3, 4, 12, 13])
def several_created(s, v):
    s.until(without_errors, "Metadata", v, metadata(*(s.name(x) for x in ("x", "y", "z")), create=True))


@scenario([3, 4, 13])
def created_beside_a_known_one(s, v):
    t = s.topic("known", partitions=2)
    s.until(without_errors, "Metadata", v, metadata(s.name("new"), t.name, create=True))


@scenario([4, 13])
def same_new_topic_twice(s, v):
    s.until(without_errors, "Metadata", v, metadata(s.name(), s.name(), create=True))


INVALID = {
    "empty": "",
    "dot": ".",
    "two dots": "..",
    "slash": "a/b",
    "space": "a b",
    "colon": "a:b",
    "star": "*",
    "utf8": "тема",
    "newline": "a\n",
    "nul": "a\0b",
}


@scenario([0, 1, 4, 9, 10, 12, 13], cases=INVALID)
def invalid_name(s, v, name):
    s.call("Metadata", v, metadata(name, create=True))


@scenario([4, 9, 12, 13], cases=INVALID)
def invalid_name_not_to_be_created(s, v, name):
    s.call("Metadata", v, metadata(name))


@scenario([0, 4, 9, 13])
def invalid_beside_new_and_known(s, v):
    t = s.topic("known")
    s.until(lambda a: [x["ErrorCode"] for x in a["Topics"]].count(0) >= 2, "Metadata", v,
            metadata("bad/name", s.name("new"), "", t.name, create=True))


@scenario([1, 4, 9, 13], cases=[248, 249, 250, 1000])
def length_of_name(s, v, length):
    s.until(lambda a: length > 249 or without_errors(a), "Metadata", v, metadata(s.name_of_length(length), create=True))


@scenario([4, 13])
def colliding_names(s, v):
    """Dots and underscores are the same in metric names, so a collision is refused."""
    s.until(without_errors, "Metadata", v, metadata(s.name("a.b"), create=True))
    s.call("Metadata", v, metadata(s.name("a_b"), create=True))
    s.call("Metadata", v, metadata(s.name("a.b"), s.name("a_b")), note="afterwards")


@scenario([0, 5, 9, 10, 12, 13])
def deleted_topic(s, v):
    t = s.topic()
    s.quiet("DeleteTopics", 6, {"Topics": [{"Name": t.name}], "TimeoutMs": 10000})
    s.gone()
    if v >= 4:
        s.call("Metadata", v, metadata(t.name))
    if v >= 10:
        s.call("Metadata", v, by_id(t.id), note="by its id")


@scenario([4, 9, 13])
def created_again_after_deletion(s, v):
    t = s.topic(partitions=3)
    s.quiet("DeleteTopics", 6, {"Topics": [{"Name": t.name}], "TimeoutMs": 10000})
    s.gone()
    s.until(without_errors, "Metadata", v, metadata(t.name, create=True))


# --- by id


def by_id(*ids, create=False):
    return {"Topics": [{"TopicId": i, "Name": None} for i in ids], "AllowAutoTopicCreation": create}


@scenario("10-13")
def topic_by_id(s, v):
    t = s.topic(partitions=2)
    s.call("Metadata", v, by_id(t.id))


@scenario("10-13")
def unknown_id(s, v):
    s.call("Metadata", v, by_id(s.literal(MADE_UP)))
    s.call("Metadata", v, by_id(s.literal(MADE_UP), create=True), note="to be created")


@scenario("10-13")
def zero_id_and_no_name(s, v):
    s.call("Metadata", v, by_id(ZERO_UUID))


@scenario("10-13")
def several_ids(s, v):
    a, b = s.topic("a"), s.topic("b")
    s.call("Metadata", v, by_id(b.id, s.literal(MADE_UP), a.id))


@scenario("10-13")
def same_id_twice(s, v):
    t = s.topic()
    s.call("Metadata", v, by_id(t.id, t.id))


@scenario("10-13")
def id_and_name(s, v):
    t = s.topic()
    s.call("Metadata", v, {"Topics": [{"TopicId": t.id, "Name": t.name}], "AllowAutoTopicCreation": False})


@scenario("10-13")
def id_and_another_name(s, v):
    t, u = s.topic("t"), s.topic("u")
    s.call("Metadata", v, {"Topics": [{"TopicId": t.id, "Name": u.name}], "AllowAutoTopicCreation": False})


@scenario("10-13")
def ids_and_names_in_one_request(s, v):
    t, u = s.topic("t"), s.topic("u")
    s.call("Metadata", v, {"Topics": [{"TopicId": t.id, "Name": None}, {"Name": u.name}], "AllowAutoTopicCreation": False})
    s.call("Metadata", v, {"Topics": [{"Name": u.name}, {"TopicId": t.id, "Name": None}], "AllowAutoTopicCreation": False})


@scenario("10-13")
def unknown_id_beside_unknown_name(s, v):
    ask = [{"TopicId": s.literal(MADE_UP), "Name": None}, {"Name": s.name("never")}]
    s.call("Metadata", v, {"Topics": ask, "AllowAutoTopicCreation": True})


# --- odd bodies


@scenario("0-9")
def null_name(s, v):
    """Not to be said before version 10."""
    s.call("Metadata", v, {"Topics": [{"Name": None}]})


@scenario([0, 9])
def null_topics_where_the_version_has_none(s, v):
    s.call("Metadata", v, {"Topics": None}, without=["Topics"])


@scenario([1, 8, 9, 13], cases=[-2, -100, 3, 1000000])
def wrong_count(s, v, count):
    """Fewer topics than claimed, or a negative number of them."""
    s.call("Metadata", v, {"Topics": Counted(count, [{"Name": s.name()}])}, without=["Topics"])


@scenario("8-13")
def authorized_operations(s, v):
    """Without an authorizer: everything that there is to do."""
    t = s.topic()
    s.call("Metadata", v, metadata(t.name, IncludeClusterAuthorizedOperations=True, IncludeTopicAuthorizedOperations=True))


@scenario("8-13")
def authorized_operations_of_unknown_topic(s, v):
    s.call("Metadata", v, metadata(s.name(), IncludeTopicAuthorizedOperations=True))


@scenario("9-13")
def unknown_tags(s, v):
    t = s.topic()
    s.call("Metadata", v, {"Topics": [{"Name": t.name, "_tags": [(3, b"x")]}], "_tags": [(0, b""), (200, b"yy")]}, header_tags=[(1, b"z")])


@scenario([9, 13])
def tag_twice(s, v):
    t = s.topic()
    s.call("Metadata", v, metadata(t.name, _tags=[(5, b"x"), (5, b"y")]))


@scenario([0, 1, 4, 8, 9, 13])
def bytes_left_over(s, v):
    """Real clients leave some."""
    from kafka_wire import messages

    t = s.topic()
    s.frame(messages.request("Metadata", v, metadata(t.name), correlation_id=77) + b"\0\0\0left over")
    s.receive("Metadata", v)


@scenario()
def librdkafka_all_topics_in_13(s):
    """It writes the null array with a length of four bytes: one is read, two are flags, then comes the number of tags, and the rest is over."""
    s.frame(bytes.fromhex("0003000d000000090001720000000000000000"))
    s.receive("Metadata", 13, without=["Topics"])


@scenario([5, 9, 13], cases=[100])
def many_topics(s, v, n):
    names = [s.name(f"t{i:03}") for i in range(n)]
    s.quiet("CreateTopics", 7, create_topics(*(new_topic(name) for name in names)))
    for i in (0, n - 1):
        s.serves(f"t{i:03}")
    s.until(without_errors, "Metadata", v, metadata(*reversed(names)))


@scenario([1, 9, 13])
def internal_topic(s, v):
    """Created with the broker's own settings, and marked as internal."""
    s.until(without_errors, "Metadata", v, metadata("__consumer_offsets", create=True))


@scenario([4, 13])
def internal_topic_of_transactions(s, v):
    s.until(without_errors, "Metadata", v, metadata("__transaction_state", create=True))


@scenario([4, 13])
def topic_of_the_metadata_log(s, v):
    s.call("Metadata", v, metadata("__cluster_metadata"))
