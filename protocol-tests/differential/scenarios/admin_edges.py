"""Edges of the topic APIs: limits of a request as a whole, several faults at once, all documentation."""

from bodies import create_topics, metadata, new_topic
from scenario import scenario
from scenarios.create_partitions import ask as more_partitions
from scenarios.describe_configs import BROKER, TOPIC, ask as describe
from scenarios.incremental_alter_configs import API, SET, ask as alter


@scenario([2, 7], cases=[9998, 9999, 10000, 10001])
def most_partitions(s, v, n):
    answer = s.call("CreateTopics", v, create_topics(new_topic(s.name(), n), validate_only=True), without=["Topics"])
    s.record("error", [answer["Topics"][0]["ErrorCode"], answer["Topics"][0]["ErrorMessage"]])


@scenario([2, 7], cases={"5000 and 5000": (5000, 5000), "5000 and 5001": (5000, 5001), "5000, 5000 and 1": (5000, 5000, 1), "10000 and 0": (10000, 0),
                         "10001 and bad": (10001, -5), "1 and 10000": (1, 10000)})
def most_partitions_of_several(s, v, counts):
    topics = [new_topic(s.name(str(i)), n) for i, n in enumerate(counts)]
    answer = s.call("CreateTopics", v, create_topics(*topics, validate_only=True), without=["Topics"])
    s.record("errors", sorted([t["Name"][-1], t["ErrorCode"], t["ErrorMessage"]] for t in answer["Topics"]))


@scenario([2, 7], cases={"and none": (10001, 0), "10002": (10002,), "9999 and 2": (9999, 2), "20000": (20000,)})
def most_partitions_more(s, v, counts):
    names = [s.topic(str(i)).name for i in range(len(counts))]
    s.call("CreatePartitions", min(v, 3), more_partitions(*zip(names, counts), validate_only=True))


@scenario([2, 7], cases=[32767])
def long_value(s, v, length):
    s.call("CreateTopics", v, create_topics(new_topic(s.name(), configs={"leader.replication.throttled.replicas": "0:1," * (length // 4 - 1) + "0:1"}), validate_only=True), without=["Topics"])
    s.call("CreateTopics", v, create_topics(new_topic(s.name(), configs={"k" * 1000: "x"})))


@scenario([2, 5, 7])
def internal_names(s, v):
    names = ("__consumer_offsets", "__transaction_state", "__share_group_state", "__cluster_metadata")
    for name in names:
        # the first ones may be there already
        answer = s.call("CreateTopics", v, create_topics(new_topic(name), new_topic(s.name()), validate_only=True), without=["Topics"])
        s.record(name, [[t["Name"].replace(s.prefix, "~"), t["ErrorCode"], t["ErrorMessage"]] for t in answer["Topics"] if t["Name"] not in names[:3]])


@scenario([2, 5, 7])
def faults_together(s, v):
    s.topic("old.x")
    s.call("CreateTopics", v, create_topics(new_topic("a/b"), new_topic("a/b")), note="invalid twice")
    s.call("CreateTopics", v, create_topics(new_topic(s.name("old.x")), new_topic(s.name("old.x"))), note="existing twice")
    s.call("CreateTopics", v, create_topics(new_topic(s.name("old_x")), new_topic(s.name("old_x"), 0)), note="colliding twice")
    s.call("CreateTopics", v, create_topics(new_topic(s.name("old_x"), 0, 9, configs={"no": "x"})), note="colliding and bad")
    s.call("CreateTopics", v, create_topics(new_topic(""), new_topic(""), new_topic(s.name("p.q")), new_topic(s.name("p_q")), new_topic(s.name("p_q"))), note="empty twice")
    s.call("CreateTopics", v, create_topics(new_topic(s.name("r"), 0, 0, {0: [1]}, configs={"retention.ms": None})), note="assigned and null")
    s.call("CreateTopics", v, create_topics(new_topic(s.name("r"), -1, -1, {0: [1], 1: [2]}, configs={"retention.ms": "x"})), note="assigned badly and bad")
    s.call("CreateTopics", v, create_topics(new_topic(s.name("v.x"), 0), new_topic(s.name("v_x")), validate_only=True), note="refused and colliding")


@scenario([2, 7], cases=[0, -1])
def late_and_validate_only(s, v, timeout_ms):
    t = s.topic("old")
    s.call("CreateTopics", v, create_topics(new_topic(s.name()), new_topic(t.name), new_topic("a/b"), validate_only=True, timeout_ms=timeout_ms))
    s.call("CreateTopics", v, create_topics(timeout_ms=timeout_ms), note="nothing")
    s.call("CreatePartitions", min(v, 3), more_partitions((t.name, 5), ("none", 3), validate_only=True, timeout_ms=timeout_ms))
    s.call("DeleteTopics", min(v, 6), {"TopicNames": [], "Topics": [], "TimeoutMs": timeout_ms})


@scenario([2, 7])
def case_of_names(s, v):
    s.topic("abc")
    s.call("CreateTopics", v, create_topics(new_topic(s.name("ABC"))), without=["Topics"])
    s.call("CreateTopics", v, create_topics(new_topic(s.name("a..b")), new_topic(s.name("a__b"))), note="two dots")


@scenario([3, 4])
def documentation_of_topics(s, v):
    s.call("DescribeConfigs", v, describe((TOPIC, s.topic().name), documentation=True, synonyms=True))


@scenario([3, 4], exclusive=True)
def documentation_of_the_broker(s, v):
    s.call("DescribeConfigs", v, describe((BROKER, "1"), documentation=True, synonyms=True))


@scenario([1, 4], cases=["+1", "01", " 1", "1 ", "", "-0", "1.0"])
def names_of_the_broker(s, v, name):
    s.call("DescribeConfigs", v, describe((BROKER, name, ["node.id"])))
    s.call(API, 1, alter((BROKER, name, [("log.cleaner.threads", SET, "1")]), validate_only=True))


@scenario([1, 4])
def topic_names_to_describe(s, v):
    for name in (".", "..", "a b", "x" * 249, "x" * 250, "тема"):
        s.call("DescribeConfigs", v, describe((TOPIC, name)))


@scenario([1, 6])
def delete_several_ways(s, v):
    t = s.topic("t")
    names = [s.name("none"), t.name, t.name, s.name("none"), "", "a/b"]
    s.call("DeleteTopics", v, {"TopicNames": names, "Topics": [{"Name": n} for n in names], "TimeoutMs": 10000})
    s.call("Metadata", 12, metadata(t.name))
