"""CreateTopics: partitions, assignments, settings; what is refused, in which order, and with which words."""

from bodies import create_topics, metadata, new_topic
from kafka_wire.messages import Counted
from scenario import scenario

FEW = [2, 4, 5, 7]


def described(s, *suffixes):
    """The topics as they are in the end."""
    s.call("Metadata", 12, metadata(*(s.name(x) for x in suffixes)), note="afterwards")


@scenario("2-7")
def one(s, v):
    s.call("CreateTopics", v, create_topics(new_topic(s.name())))
    s.serves()
    described(s, "t")


@scenario("2-7", cases=[1, 2, 10, 50])
def partitions(s, v, n):
    s.call("CreateTopics", v, create_topics(new_topic(s.name(), n)))
    s.serves(partitions=n)
    described(s, "t")


@scenario("2-7", cases={"partitions": (-1, 1), "replicas": (1, -1), "both": (-1, -1)})
def defaults(s, v, which):
    """-1 stands for the broker's default, from version 4 on."""
    s.call("CreateTopics", v, create_topics(new_topic(s.name(), *which)))


@scenario("2-7", cases=[0, -2, -2147483648])
def impossible_number_of_partitions(s, v, n):
    s.call("CreateTopics", v, create_topics(new_topic(s.name(), n)))


@scenario(FEW, cases=[10001, 100000, 2147483647])
def too_many_partitions(s, v, n):
    s.call("CreateTopics", v, create_topics(new_topic(s.name(), n)))
    described(s, "t")


@scenario("2-7", cases=[0, -2, 2, 3, 32767, -32768])
def impossible_replication_factor(s, v, n):
    s.call("CreateTopics", v, create_topics(new_topic(s.name(), 1, n)))


@scenario(FEW, cases={"0 and 0": (0, 0), "0 and 5": (0, 5), "-2 and 5": (-2, 5), "10001 and 5": (10001, 5)})
def impossible_numbers_of_both(s, v, which):
    s.call("CreateTopics", v, create_topics(new_topic(s.name(), *which)))


INVALID = {"empty": "", "dot": ".", "two dots": "..", "slash": "a/b", "space": "a b", "colon": "a:b", "utf8": "тема", "star": "*", "newline": "a\n",
           "three dots": "...", "comma": "a,b", "nul": "a\0", "hash": "#"}


@scenario(FEW, cases=INVALID)
def invalid_name(s, v, name):
    if name == "...":
        # a good name, though it does not look so: cleaned up for the next run
        s.call("CreateTopics", v, create_topics(new_topic(name), validate_only=True))
        return
    s.call("CreateTopics", v, create_topics(new_topic(name)))


@scenario(FEW, cases=[248, 249, 250, 255, 1000, 30000])
def length_of_name(s, v, length):
    s.call("CreateTopics", v, create_topics(new_topic(s.name_of_length(length))))


@scenario(FEW)
def invalid_name_and_more(s, v):
    """What is told of a topic that is wrong in several ways."""
    s.call("CreateTopics", v, create_topics(new_topic("a/b", 0, 0)))
    s.call("CreateTopics", v, create_topics(new_topic("a/b", 1, 1, configs={"no.such": "x"})))
    s.call("CreateTopics", v, create_topics(new_topic(s.name(), 0, 1, configs={"no.such": "x"})))
    s.call("CreateTopics", v, create_topics(new_topic(s.name(), 1, 9, configs={"retention.ms": "x"})))


@scenario("2-7")
def that_exists(s, v):
    s.topic()
    s.call("CreateTopics", v, create_topics(new_topic(s.name())))


@scenario(FEW)
def that_exists_and_more(s, v):
    """Existing, and wrong as well."""
    s.topic()
    s.call("CreateTopics", v, create_topics(new_topic(s.name(), 0)))
    s.call("CreateTopics", v, create_topics(new_topic(s.name(), 1, 7)))
    s.call("CreateTopics", v, create_topics(new_topic(s.name(), configs={"no.such": "x"})))
    s.call("CreateTopics", v, create_topics(new_topic(s.name()), validate_only=True))


@scenario("2-7")
def same_name_twice(s, v):
    s.call("CreateTopics", v, create_topics(new_topic(s.name()), new_topic(s.name()), new_topic(s.name("other"))))
    s.serves("other")
    described(s, "t", "other")


@scenario(FEW)
def same_name_three_times_and_invalid(s, v):
    s.call("CreateTopics", v, create_topics(new_topic(s.name(), 0), new_topic(s.name(), 1), new_topic(s.name(), 2)))


@scenario("2-7", cases={"dot first": ("a.b", "a_b"), "underscore first": ("a_b", "a.b"), "mixed": ("a.b_c", "a_b.c")})
def colliding_with_one_that_exists(s, v, names):
    s.topic(names[0])
    s.call("CreateTopics", v, create_topics(new_topic(s.name(names[1]))))


@scenario(FEW)
def colliding_in_one_request(s, v):
    s.call("CreateTopics", v, create_topics(new_topic(s.name("x.y")), new_topic(s.name("x_y"))))


@scenario("2-7")
def partial_failure(s, v):
    s.topic("old")
    topics = (new_topic(s.name("good")), new_topic(s.name("old")), new_topic("bad/name"), new_topic(s.name("none"), 0),
              new_topic(s.name("settings"), configs={"retention.ms": "abc"}), new_topic(s.name("good2"), 2))
    s.call("CreateTopics", v, create_topics(*topics))
    s.serves("good")
    s.serves("good2", 2)
    described(s, "good", "good2", "none", "settings")


@scenario("2-7")
def no_topics(s, v):
    s.call("CreateTopics", v, create_topics())


@scenario("2-7")
def validate_only(s, v):
    s.call("CreateTopics", v, create_topics(new_topic(s.name(), 3, configs={"retention.ms": "1000"}), validate_only=True))
    described(s, "t")


@scenario(FEW)
def validate_only_finds_faults(s, v):
    s.topic("old")
    topics = (new_topic(s.name("good")), new_topic(s.name("old")), new_topic("bad/name"), new_topic(s.name("none"), 0),
              new_topic(s.name("many"), 1, 5), new_topic(s.name("settings"), configs={"retention.ms": "abc"}))
    s.call("CreateTopics", v, create_topics(*topics, validate_only=True))


@scenario(FEW, cases=[0, -1, -2147483648, 2147483647])
def timeout(s, v, timeout_ms):
    """One that has passed already stops the creation."""
    answer = s.call("CreateTopics", v, create_topics(new_topic(s.name()), timeout_ms=timeout_ms), without=["Topics"])
    s.record("error", [answer["Topics"][0]["ErrorCode"], answer["Topics"][0]["ErrorMessage"]])
    if timeout_ms > 0:
        s.serves()
    described(s, "t")


# --- assignments


@scenario("2-7", cases={"one": {0: [1]}, "three": {0: [1], 1: [1], 2: [1]}, "in any order": {2: [1], 0: [1], 1: [1]}})
def assigned(s, v, assignments):
    s.call("CreateTopics", v, create_topics(new_topic(s.name(), -1, -1, assignments)))
    s.serves(partitions=len(assignments))
    described(s, "t")


ASSIGNMENTS = {
    "no brokers": {0: []},
    "unknown broker": {0: [7]},
    "known and unknown": {0: [1, 7]},
    "negative broker": {0: [-1]},
    "same broker twice": {0: [1, 1]},
    "not from zero": {1: [1]},
    "a gap": {0: [1], 2: [1]},
    "negative partition": {-1: [1]},
    "same partition twice": [(0, [1]), (0, [1])],
    "of different length": {0: [1], 1: []},
    "of different length, unknown": {0: [1], 1: [1, 2]},
    "null brokers": {0: None},
}


@scenario(FEW, cases=ASSIGNMENTS)
def impossible_assignment(s, v, assignments):
    s.call("CreateTopics", v, create_topics(new_topic(s.name(), -1, -1, assignments)))
    described(s, "t")


@scenario(FEW, cases={"partitions": (1, -1), "replicas": (-1, 1), "both": (1, 1), "wrong both": (5, 5), "zero": (0, 0)})
def assignment_and_numbers(s, v, which):
    s.call("CreateTopics", v, create_topics(new_topic(s.name(), *which, {0: [1]})))


# --- settings

GOOD_SETTINGS = {
    "none": {},
    "one": {"retention.ms": "60000"},
    "several": {"retention.ms": "-1", "cleanup.policy": "compact,delete", "segment.bytes": "2000000", "compression.type": "lz4"},
    "with spaces": {"retention.ms": " 60000 "},
    "same as the default": {"max.message.bytes": "1048588"},
    "empty policy": {"cleanup.policy": ""},
    "policy twice": {"cleanup.policy": "compact,compact"},
    "policy with spaces": {"cleanup.policy": " compact , delete "},
    "boolean in capitals": {"unclean.leader.election.enable": "TRUE"},
    "double": {"min.cleanable.dirty.ratio": "0.25"},
    "int as double": {"min.cleanable.dirty.ratio": "1"},
    "throttled replicas": {"leader.replication.throttled.replicas": "*"},
    "throttled replicas listed": {"follower.replication.throttled.replicas": "0:1,1:1"},
    "timestamp type": {"message.timestamp.type": "LogAppendTime"},
    "level of compression": {"compression.gzip.level": "9", "compression.zstd.level": "-5", "compression.lz4.level": "17"},
}


@scenario("2-7", cases=GOOD_SETTINGS)
def settings(s, v, configs):
    """From version 5 on the answer tells all of them."""
    answer = s.call("CreateTopics", v, create_topics(new_topic(s.name(), configs=configs)), without=["Topics"])
    topic = answer["Topics"][0]
    s.record("error", [topic["ErrorCode"], topic["ErrorMessage"]])
    if v >= 5:
        s.record("settings", {c["Name"]: [c["Value"], c["ConfigSource"]] for c in topic["Configs"] or [] if c["ConfigSource"] != 5})


@scenario([5, 6, 7])
def all_settings_are_told(s, v):
    s.call("CreateTopics", v, create_topics(new_topic(s.name(), configs={"retention.ms": "5"})))


BAD_SETTINGS = {
    "unknown": {"no.such.setting": "1"},
    "unknown and bad": {"no.such.setting": "1", "retention.ms": "x"},
    "two bad": {"retention.bytes": "x", "retention.ms": "y"},
    "not a number": {"retention.ms": "abc"},
    "empty number": {"retention.ms": ""},
    "null": {"retention.ms": None},
    "two null": {"retention.ms": None, "cleanup.policy": None},
    "null and unknown": {"retention.ms": None, "no.such": "x"},
    "unknown null": {"no.such": None},
    "fraction": {"retention.ms": "1.5"},
    "too large for a long": {"retention.ms": "9223372036854775808"},
    "too large for an int": {"segment.bytes": "2147483648"},
    "below the minimum": {"retention.ms": "-2"},
    "segment too small": {"segment.bytes": "1024"},
    "segment one too small": {"segment.bytes": "1048575"},
    "negative size": {"max.message.bytes": "-1"},
    "no such policy": {"cleanup.policy": "shred"},
    "one of the policies": {"cleanup.policy": "delete,shred"},
    "policy in capitals": {"cleanup.policy": "DELETE"},
    "no such codec": {"compression.type": "rar"},
    "codec in capitals": {"compression.type": "GZIP"},
    "no boolean": {"preallocate": "yes"},
    "ratio above one": {"min.cleanable.dirty.ratio": "1.5"},
    "ratio not a number": {"min.cleanable.dirty.ratio": "half"},
    "no such timestamp type": {"message.timestamp.type": "Whenever"},
    "no replicas": {"min.insync.replicas": "0"},
    "throttled replicas": {"leader.replication.throttled.replicas": "all"},
    "gzip level 10": {"compression.gzip.level": "10"},
    "gzip level -2": {"compression.gzip.level": "-2"},
    "lz4 level 0": {"compression.lz4.level": "0"},
    "zstd level 23": {"compression.zstd.level": "23"},
    "lags the wrong way round": {"min.compaction.lag.ms": "2000", "max.compaction.lag.ms": "1000"},
    "local retention without tiers": {"local.retention.ms": "1000"},
    "local retention above retention": {"local.retention.ms": "100000", "retention.ms": "1000"},
    "tiers without the system": {"remote.storage.enable": "true"},
    "empty name": {"": "x"},
    "broker's name of it": {"log.retention.ms": "1000"},
    "retired": {"message.format.version": "3.0"},
    "retired difference": {"message.timestamp.difference.max.ms": "1000"},
    "name in capitals": {"Retention.MS": "1000"},
    "name with a space": {"retention.ms ": "1000"},
    "flush zero": {"flush.messages": "0"},
    "index interval negative": {"index.interval.bytes": "-1"},
    "segment index too small": {"segment.index.bytes": "3"},
    "segment ms zero": {"segment.ms": "0"},
    "internal segment bytes": {"internal.segment.bytes": "1000"},
}


@scenario(FEW, cases=BAD_SETTINGS)
def bad_settings(s, v, configs):
    s.call("CreateTopics", v, create_topics(new_topic(s.name(), configs=configs)))


@scenario(FEW, cases={"same value": [("retention.ms", "1"), ("retention.ms", "1")], "other values": [("retention.ms", "1"), ("retention.ms", "2")],
                      "the first bad": [("retention.ms", "x"), ("retention.ms", "2")]})
def setting_twice(s, v, configs):
    answer = s.call("CreateTopics", v, create_topics(new_topic(s.name(), configs=configs)), without=["Topics"])
    topic = answer["Topics"][0]
    s.record("error", [topic["ErrorCode"], topic["ErrorMessage"]])
    if v >= 5:
        s.record("settings", {c["Name"]: [c["Value"], c["ConfigSource"]] for c in topic["Configs"] or [] if c["ConfigSource"] == 1})


@scenario(FEW)
def topic_of_the_metadata_log(s, v):
    s.call("CreateTopics", v, create_topics(new_topic("__cluster_metadata")))
    s.call("CreateTopics", v, create_topics(new_topic("__cluster_metadata"), new_topic(s.name())), note="beside another")


@scenario(FEW, cases={"topics": {"Topics": None}, "name": {"Topics": [{"Name": None}]}, "assignments": {"Topics": [{"Name": "x", "Assignments": None}]},
                      "settings": {"Topics": [{"Name": "x", "Configs": None}]},
                      "setting's name": {"Topics": [{"Name": "x", "NumPartitions": 1, "ReplicationFactor": 1, "Configs": [{"Name": None, "Value": "1"}]}]}})
def null_for(s, v, what):
    s.call("CreateTopics", v, create_topics() | what)


@scenario(FEW, cases=[-2, 3, 1000000])
def wrong_count(s, v, count):
    s.call("CreateTopics", v, create_topics() | {"Topics": Counted(count, [new_topic(s.name())])})


@scenario([5, 6, 7])
def unknown_tags(s, v):
    topic = new_topic(s.name(), configs={"retention.ms": "5"})
    topic["_tags"] = [(1, b"x")]
    topic["Configs"][0]["_tags"] = [(2, b"")]
    s.call("CreateTopics", v, create_topics(topic) | {"_tags": [(3, b"zz")]}, without=["Topics"])
    s.serves()


@scenario(FEW)
def bytes_left_over(s, v):
    from kafka_wire import messages

    s.frame(messages.request("CreateTopics", v, create_topics(new_topic(s.name()), validate_only=True), correlation_id=3) + b"left over")
    s.receive("CreateTopics", v, without=["Topics"])


@scenario(FEW)
def many_in_one_request(s, v):
    s.call("CreateTopics", v, create_topics(*(new_topic(s.name(f"t{i:02}")) for i in range(30))), without=["Topics"])
    s.serves("t29")
    s.serves("t00")


@scenario([2, 7])
def created_again_after_deletion(s, v):
    t = s.topic()
    s.quiet("DeleteTopics", 6, {"Topics": [{"Name": t.name}], "TimeoutMs": 10000})
    s.gone()
    answer = s.call("CreateTopics", v, create_topics(new_topic(s.name())), without=["Topics"])
    s.record("error", answer["Topics"][0]["ErrorCode"])
    if v >= 7:
        s.record("another id", answer["Topics"][0]["TopicId"] != t.id)
    s.serves()


@scenario([2, 7])
def pipelined(s, v):
    """In the order sent."""
    s.send("CreateTopics", v, create_topics(new_topic(s.name())))
    s.send("CreateTopics", v, create_topics(new_topic(s.name())))
    s.receive("CreateTopics", v, without=["Topics"])
    s.receive("CreateTopics", v)
