"""DescribeTopicPartitions: topics in the order of their names, page by page."""

from bodies import create_topics, metadata, new_topic
from kafka_wire.messages import Counted, Raw
from scenario import scenario

V = 0


def ask(*names, limit=2000, cursor=None):
    """cursor: (topic, partition)."""
    return {
        "Topics": [{"Name": name} for name in names],
        "ResponsePartitionLimit": limit,
        "Cursor": cursor and {"TopicName": cursor[0], "PartitionIndex": cursor[1]},
    }


def call(s, body, **more):
    return s.call("DescribeTopicPartitions", V, body, **more)


@scenario()
def one(s):
    call(s, ask(s.topic(partitions=3).name))


@scenario()
def in_the_order_of_names(s):
    names = [s.topic(x).name for x in ("c", "a", "b")]
    call(s, ask(*names))


@scenario()
def same_topic_twice(s):
    t = s.topic()
    call(s, ask(t.name, t.name))


@scenario()
def unknown(s):
    t = s.topic("known")
    call(s, ask(s.name("zz"), t.name, s.name("aa")))


@scenario(cases={"empty": "", "slash": "a/b", "dot": ".", "long": "x" * 300, "utf8": "тема"})
def odd_name(s, name):
    t = s.topic()
    call(s, ask(name, t.name))


@scenario(exclusive=True)
def all_topics(s):
    mine = [s.topic(x, partitions=2).name for x in ("a", "b")]
    answer = call(s, ask(limit=2000), without=["Topics", "NextCursor"])
    names = [t["Name"] for t in answer["Topics"]]
    s.record("sorted", names == sorted(names))
    answer = call(s, ask(cursor=(mine[0], 1), limit=3), without=["Topics", "NextCursor"])
    s.record("first of the page", [answer["Topics"][0]["Name"].replace(s.prefix, "~"), [p["PartitionIndex"] for p in answer["Topics"][0]["Partitions"]]])


@scenario(cases=[1, 2, 3, 4, 5, 6, 7, 2000, 0, -1, -2147483648, 2147483647])
def limit(s, n):
    names = [s.topic(x, partitions=3).name for x in ("a", "b")]
    call(s, ask(*names, limit=n))


@scenario(cases=[1, 2, 4, 5])
def page_by_page(s, n):
    names = [s.topic(x, partitions=3).name for x in ("a", "b", "c")]
    cursor = None
    for _ in range(12):
        answer = call(s, ask(*names, limit=n, cursor=cursor))
        if not answer["NextCursor"]:
            break
        cursor = (answer["NextCursor"]["TopicName"], answer["NextCursor"]["PartitionIndex"])


CURSORS = {
    "first": ("a", 0),
    "in the middle": ("a", 2),
    "second topic": ("b", 1),
    "past the last partition": ("a", 3),
    "far past": ("a", 1000),
    "past the last of the last": ("b", 3),
    "negative": ("a", -1),
    "lowest": ("b", -2147483648),
    "topic between": ("aa", 1),
    "topic before": ("A", 0),
    "topic behind": ("z", 0),
    "no topic": ("", 0),
}


@scenario(cases=CURSORS)
def cursor(s, where):
    names = [s.topic(x, partitions=3).name for x in ("a", "b")]
    topic = s.name(where[0]) if where[0] else ""
    call(s, ask(*names, cursor=(topic, where[1])))


@scenario(cases={"not asked for": "b", "unknown": "u", "invalid": "x/y"})
def cursor_at_a_topic(s, which):
    a, _ = s.topic("a", partitions=2), s.topic("b", partitions=2)
    call(s, ask(a.name, cursor=(s.name(which), 0)))


@scenario()
def unknown_topics_count_too(s):
    t = s.topic("m", partitions=3)
    call(s, ask(s.name("a"), s.name("b"), t.name, s.name("z"), limit=1))
    call(s, ask(s.name("a"), s.name("b"), t.name, s.name("z"), limit=3))


@scenario()
def deleted_topic(s):
    t = s.topic()
    s.quiet("DeleteTopics", 6, {"Topics": [{"Name": t.name}], "TimeoutMs": 10000})
    s.gone()
    call(s, ask(t.name))


@scenario()
def never_creates(s):
    call(s, ask(s.name()))
    s.call("Metadata", 12, metadata(s.name()))


@scenario()
def many_partitions(s):
    t = s.topic(partitions=40)
    answer = call(s, ask(t.name, limit=25), without=["Topics"])
    s.record("partitions", [p["PartitionIndex"] for p in answer["Topics"][0]["Partitions"]])


@scenario()
def many_topics(s):
    names = [s.name(f"t{i:02}") for i in range(30)]
    s.quiet("CreateTopics", 7, create_topics(*(new_topic(n) for n in names)))
    for i in range(30):
        s.serves(f"t{i:02}")
    answer = call(s, ask(*reversed(names), limit=20), without=["Topics"])
    s.record("topics", [t["Name"][-2:] for t in answer["Topics"]])


@scenario()
def internal_topic(s):
    s.quiet_until(lambda a: not a["Topics"][0]["ErrorCode"], "Metadata", 12,
                  {"Topics": [{"Name": "__consumer_offsets"}], "AllowAutoTopicCreation": True})
    s.quiet_until(lambda a: not any(p["ErrorCode"] for p in a["Topics"][0]["Partitions"]), "DescribeTopicPartitions", 0, ask("__consumer_offsets"))
    call(s, ask("__consumer_offsets"))


@scenario(cases={"topics": {"Topics": None}, "name": {"Topics": [{"Name": None}]}, "cursor's topic": {"Cursor": {"TopicName": None, "PartitionIndex": 0}}})
def null_for(s, what):
    call(s, ask() | what)


@scenario(cases=[-2, 4, 1000000])
def wrong_count(s, count):
    call(s, ask() | {"Topics": Counted(count, [])})


@scenario(cases={"0": b"\x00", "2": b"\x02", "-2": b"\xfe", "127": b"\x7f"})
def cursor_mark(s, mark):
    """-1 says that there is no cursor; anything else, that there is."""
    t = s.topic()
    name = t.name.encode()
    call(s, ask(t.name) | {"Cursor": Raw(mark + bytes([len(name) + 1]) + name + b"\0\0\0\0" + b"\0")})


@scenario()
def unknown_tags(s):
    t = s.topic()
    call(s, ask(t.name, cursor=(t.name, 0)) | {"_tags": [(4, b"x")]}, header_tags=[(1, b"y")])


@scenario()
def bytes_left_over(s):
    from kafka_wire import messages

    t = s.topic()
    s.frame(messages.request("DescribeTopicPartitions", V, ask(t.name), correlation_id=3) + b"left over")
    s.receive("DescribeTopicPartitions", V)
