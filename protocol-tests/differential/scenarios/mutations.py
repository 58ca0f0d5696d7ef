"""Good requests, damaged: cut short at every byte, and with every byte changed. What is recorded is which damage has which outcome."""

import groups
from bodies import create_topics, fetch, list_offsets, new_topic, produce
from kafka_wire import codecs, messages
from kafka_wire.batches import Record, batch
from scenario import Topic, scenario

LONG = 0x7F7F7F7F  # stays long whichever byte of it changes, or becomes negative
MADE_UP = "bm8tc3VjaC10b3BpYy1pZA"
SETTINGS = {"Configs": [{"Name": "a", "Value": "b"}]}


def partitions(t, key, part):
    """A body with one partition of a topic."""
    return {"Topics": [{key: t.name, "Partitions": [part]}]}


def group(t):
    return "not/" + t.name


def resource(t, **more):
    return {"Resources": [{"ResourceType": 2, "ResourceName": t.name} | more], "ValidateOnly": True}


# (first, last version), the body for a topic that does not exist; none changes anything, also if a byte is another
REQUESTS = {
    "ApiVersions": ((0, 4), lambda t: {"ClientSoftwareName": "a", "ClientSoftwareVersion": "b"}),
    "Metadata": ((4, 13), lambda t: {"Topics": [{"Name": "not/" + t.name}], "AllowAutoTopicCreation": False}),
    "Fetch": ((4, 18), lambda t: fetch(t, min_bytes=0)),
    "ListOffsets": ((1, 11), list_offsets),
    "OffsetForLeaderEpoch": ((2, 4), lambda t: {"ReplicaId": -1} | partitions(t, "Topic", {"Partition": 0, "LeaderEpoch": 0})),
    "CreateTopics": ((2, 7), lambda t: create_topics(new_topic("not/" + t.name, -1, -1, {0: [1]}, {"a": "b"}), validate_only=True)),
    "DeleteTopics": ((1, 6), lambda t: {"TopicNames": [t.name], "Topics": [{"Name": t.name}], "TimeoutMs": LONG}),
    "DeleteRecords": ((0, 2), lambda t: {"TimeoutMs": LONG} | partitions(t, "Name", {"PartitionIndex": 0, "Offset": 1})),
    "CreatePartitions": ((0, 3), lambda t: {"Topics": [{"Name": t.name, "Count": 3, "Assignments": [{"BrokerIds": [1]}]}], "TimeoutMs": LONG, "ValidateOnly": True}),
    "DescribeConfigs": ((1, 4), lambda t: {"Resources": [{"ResourceType": 2, "ResourceName": t.name, "ConfigurationKeys": ["a"]}]}),
    "AlterConfigs": ((0, 2), lambda t: resource(t, **SETTINGS)),
    "DescribeCluster": ((0, 2), lambda t: {}),
    "DescribeTopicPartitions": ((0, 0), lambda t: {"Topics": [{"Name": t.name}], "Cursor": {"TopicName": "a", "PartitionIndex": 0}}),
}
# of groups that do not exist; joining ones are refused for their times, which are too long
REQUESTS |= {
    "OffsetCommit": ((2, 10), lambda t: groups.commit(group(t), (t, 0, 1, "m"), member="m", generation=LONG)),
    "OffsetFetch": ((1, 10), lambda t: groups.offsets(group(t), (t, [0]), member="m", epoch=1)),
    "JoinGroup": ((0, 9), lambda t: groups.join(group(t), "m", session=LONG, instance="i", reason="r")),
    "SyncGroup": ((0, 5), lambda t: groups.sync(group(t), 1, "m", {"m": b"x"}, instance="i")),
    "Heartbeat": ((0, 4), lambda t: groups.heartbeat(group(t), 1, "m", "i")),
    "LeaveGroup": ((0, 5), lambda t: groups.leave(group(t), ("m", "i", "r"))),
    "DescribeGroups": ((0, 6), lambda t: {"Groups": [group(t)]}),
    "ListGroups": ((0, 5), lambda t: {"StatesFilter": ["Dead"], "TypesFilter": ["nope"]}),
    "OffsetDelete": ((0, 0), lambda t: {"GroupId": group(t)} | partitions(t, "Name", {"PartitionIndex": 0})),
    "ConsumerGroupHeartbeat": ((0, 1), lambda t: groups.beat(group(t), "m", LONG, topics=["a"], owned=[(t, [0])], instance="i", SubscribedTopicRegex="a")),
    "ConsumerGroupDescribe": ((0, 1), lambda t: {"GroupIds": [group(t)]}),
}
ONLY_CUT = {
    "DeleteGroups": ((0, 2), lambda t: {"GroupsNames": [group(t)]}),
    "Produce": ((3, 13), lambda t: produce(t, batch(b"x"))),
    "InitProducerId": ((0, 5), lambda t: {"TransactionalId": None, "TransactionTimeoutMs": 60000}),
    "FindCoordinator": ((1, 6), lambda t: {"Key": "a", "KeyType": 9, "CoordinatorKeys": ["a"]}),
    "IncrementalAlterConfigs": ((0, 1), lambda t: resource(t, **SETTINGS)),
}


def request(s, which):
    api, v, body = which
    return messages.request(api, v, body(Topic(s.name(), s.literal(MADE_UP))), 7, "c")


def versions(requests):
    return {f"{api} v{v}": (api, v, body) for api, ((low, high), body) in requests.items() for v in range(low, high + 1)}


def landmarks(requests):
    """The first, the first flexible and the last version of each."""
    out = {}
    for api, ((low, high), body) in requests.items():
        flexible = messages.message(api + "Request").flexible[0]
        for v in sorted({low, high, *([flexible] if low <= flexible <= high else [])}):
            out[f"{api} v{v}"] = (api, v, body)
    return out


def tally(s, damaged, api, v):
    """damaged: (what, frame). Records outcome → what had it; the run of numbers 3, 4, 5 as `3-5`."""
    outcomes = {}
    for what, frame in damaged:
        outcomes.setdefault(s.probe(frame, api, v), []).append(what)
    s.record("outcomes", {outcome: spans(which) for outcome, which in sorted(outcomes.items())})


def spans(numbers):
    out = []
    for n in numbers:
        if out and out[-1][1] == n - 1:
            out[-1][1] = n
        else:
            out.append([n, n])
    return " ".join(f"{a}-{b}" if a < b else str(a) for a, b in out)


@scenario(cases=versions(REQUESTS | ONLY_CUT))
def cut_short(s, which):
    api, v, _ = which
    frame = request(s, which)
    tally(s, ((n, frame[:n]) for n in range(len(frame) + 1)), api, v)


@scenario(cases=versions(REQUESTS | ONLY_CUT))
def longer_than_needed(s, which):
    """Zeros, and ones, behind the request."""
    api, v, _ = which
    frame = request(s, which)
    tally(s, ((n, frame + bytes(n)) for n in (1, 2, 3, 4, 8, 100)), api, v)
    tally(s, ((n, frame + b"\xff" * n) for n in (1, 2, 3, 4, 8, 100)), api, v)


def changed(frame, start, byte):
    for at in range(start, len(frame)):
        if frame[at] != byte:
            yield at, frame[:at] + bytes([byte]) + frame[at + 1 :]


@scenario(cases={f"{byte:02x}, {name}": (byte, *request) for byte in (0x00, 0x01, 0x7F, 0x80, 0xFF) for name, request in landmarks(REQUESTS).items()})
def byte_changed(s, which):
    """Behind the correlation id."""
    byte, *which = which
    api, v, _ = which
    tally(s, changed(request(s, which), 8, byte), api, v)


RECORDS = (Record(b"value", b"key", [(b"h", b"v")]), Record(b"two"))
STORED = codecs.gzip(b"".join(record.encode(i) for i, record in enumerate(RECORDS)), level=0)
BATCHES = {
    "plain": batch(*RECORDS),
    "gzip": batch(*RECORDS, payload=STORED, codec=codecs.GZIP),
    "snappy": batch(*RECORDS, codec=codecs.SNAPPY),
    "lz4": batch(*RECORDS, codec=codecs.LZ4),
    "zstd": batch(*RECORDS, codec=codecs.ZSTD),
}


@scenario([8, 13], cases={f"{byte:02x}, {name}": (byte, data) for byte in (0x00, 0x7F, 0x80, 0xFF) for name, data in BATCHES.items()})
def byte_of_a_batch_changed(s, v, which):
    """Outside of the bytes that the checksum covers, the change itself is found; inside, the checksum finds it."""
    byte, data = which
    t = s.topic()
    damaged = ((at, messages.request("Produce", v, produce(t, bad))) for at, bad in changed(data, 0, byte))
    tally(s, damaged, "Produce", v)


def with_crc(data):
    """The batch with a checksum that holds."""
    return data[:17] + codecs.crc32c(data[21:]).to_bytes(4, "big") + data[21:]


@scenario([8, 13], cases={f"{byte:02x}, {name}": (byte, data) for byte in (0x00, 0x01, 0x7F, 0x80, 0xFF) for name, data in BATCHES.items()})
def byte_of_a_batch_changed_and_checksum_renewed(s, v, which):
    byte, data = which
    t = s.topic()
    start = 43 if byte == 0x7F else 21  # a sequence or an id of a producer there would make the others depend on it
    damaged = ((at, messages.request("Produce", v, produce(t, with_crc(bad)))) for at, bad in changed(data, start, byte) if not 43 <= at < 57)
    tally(s, damaged, "Produce", v)


@scenario([8, 13], cases=BATCHES)
def batch_cut_short(s, v, data):
    """With the length in its header as it was, then as it is, with a checksum that holds."""
    t = s.topic()
    tally(s, ((n, messages.request("Produce", v, produce(t, data[:n]))) for n in range(len(data) + 1)), "Produce", v)

    def shortened(n):
        return with_crc(data[:8] + (n - 12).to_bytes(4, "big") + data[12:n])

    tally(s, ((n, messages.request("Produce", v, produce(t, shortened(n)))) for n in range(61, len(data) + 1)), "Produce", v)
