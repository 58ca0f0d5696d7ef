"""Makes the answers of two brokers comparable: what each run or each broker must choose for itself is replaced by a word, and what has no
order in Kafka is given one. Everything else is compared as it came.

| what | becomes |
|---|---|
| the scenario's prefix of topic names, in names and messages | `~` |
| the broker's own host and port | `<host>`, `<port>` |
| the cluster's id | `<cluster-id>` |
| a topic's id | `<id of ~t>`, or `<some id>` if no answer told whose it is; the zero id and made-up ones stay |
| a group's member id that the broker made | `<member 1>`, after the client's or instance's name if it has one, in the order of appearance |
| a producer's id | `<pid 1>`, in the order of appearance; -1 and made-up ones stay |
| a time close to now; one within three days of now in a message | `<now>`; `<now+60 min>` |
| a throttle time, a fetch session's id, the epoch of the finalized features | `<throttled>`, `<session>`, `<epoch>`; 0 stays |
| records | the batches' fields and records; of a compressed batch not its size |
| a log directory; the bytes of its volume | `<dir>/data`; `<bytes>` |
| a setting that is an address or a path (`PLACES`) | `<place>` |
| the description of a setting | `<text>` |
| bytes | hexadecimal; size and hash of long ones, and of long metadata of offsets |
| a member's metadata and assignment in a classic group (`CONSUMER_PROTOCOL`) | the fields of the consumer protocol, if that is what they are |
| a list of the groups or the configurable resources of the whole broker | those of the scenario, and brokers |
| a list that comes out of a hash map (`UNORDERED`) | an object, by the key named there |
"""

import hashlib
import re
import time

from kafka_wire import messages
from kafka_wire.batches import CODEC_BITS, read_batches
from kafka_wire.primitives import Malformed, ZERO_UUID

NOW_MS = 10 * 60 * 1000
TIMES = {"LogAppendTimeMs", "Timestamp", "TransactionStartTimeMs", "LastTimestamp", "base_timestamp", "max_timestamp", "MaxTimestamp"}
# (api, field) → the fields by which its elements are told apart, whichever the version has
UNORDERED = {
    ("ApiVersions", "ApiKeys"): ("ApiKey",),
    ("ApiVersions", "SupportedFeatures"): ("Name",),
    ("ApiVersions", "FinalizedFeatures"): ("Name",),
    ("Metadata", "Topics"): ("Name", "TopicId"),
    ("Produce", "Responses"): ("Name", "TopicId"),
    ("Produce", "PartitionResponses"): ("Index",),
    ("ListOffsets", "Topics"): ("Name",),
    ("ListOffsets", "Partitions"): ("PartitionIndex",),
    ("CreatePartitions", "Results"): ("Name",),
    ("DeleteTopics", "Responses"): ("Name", "TopicId"),
    ("DescribeConfigs", "Configs"): ("Name",),
    ("JoinGroup", "Members"): ("MemberId",),
    ("DescribeGroups", "Groups"): ("GroupId",),
    ("DescribeGroups", "Members"): ("MemberId",),
    ("ListGroups", "Groups"): ("GroupId",),
    ("ListConfigResources", "ConfigResources"): ("ResourceName",),
    ("DeleteGroups", "Results"): ("GroupId",),
    ("ConsumerGroupDescribe", "Groups"): ("GroupId",),
    ("ConsumerGroupDescribe", "Members"): ("MemberId",),
    ("ConsumerGroupDescribe", "TopicPartitions"): ("TopicName",),
    ("ConsumerGroupHeartbeat", "TopicPartitions"): ("TopicId",),
    ("OffsetFetch", "Topics"): ("Name", "TopicId"),
    ("OffsetFetch", "Partitions"): ("PartitionIndex",),
    ("AddPartitionsToTxn", "ResultsByTransaction"): ("TransactionalId",),
    ("AddPartitionsToTxn", "TopicResults"): ("Name",),
    ("AddPartitionsToTxn", "ResultsByTopicV3AndBelow"): ("Name",),
    ("AddPartitionsToTxn", "ResultsByPartition"): ("PartitionIndex",),
    ("WriteTxnMarkers", "Topics"): ("Name",),
    ("WriteTxnMarkers", "Partitions"): ("PartitionIndex",),
    ("DescribeTransactions", "Topics"): ("Topic",),
    ("DeleteRecords", "Topics"): ("Name",),
    ("DeleteRecords", "Partitions"): ("PartitionIndex",),
    ("DescribeLogDirs", "Topics"): ("Name",),
    ("DescribeLogDirs", "Partitions"): ("PartitionIndex",),
    ("AlterReplicaLogDirs", "Results"): ("TopicName",),
    ("AlterReplicaLogDirs", "Partitions"): ("PartitionIndex",),
}
# simple values in no order
SETS = {("ConsumerGroupHeartbeat", "Partitions"), ("ConsumerGroupDescribe", "Partitions"), ("ConsumerGroupDescribe", "SubscribedTopicNames"),
        ("DescribeTransactions", "Partitions")}
# what members of a classic group tell each other → the schema it has in consumer groups
CONSUMER_PROTOCOL = {
    ("JoinGroup", "Metadata"): "ConsumerProtocolSubscription",
    ("SyncGroup", "Assignment"): "ConsumerProtocolAssignment",
    ("DescribeGroups", "MemberMetadata"): "ConsumerProtocolSubscription",
    ("DescribeGroups", "MemberAssignment"): "ConsumerProtocolAssignment",
}
# settings whose value is an address or a path
PLACES = {"listeners", "advertised.listeners", "controller.quorum.voters", "log.dir", "log.dirs", "metadata.log.dir"}
ORDERED_UP_TO = {("Metadata", "Topics"): 4}  # as asked


def learn(session, answer):
    """Remembers which id is whose."""
    for element in structures(answer):
        topic_id, name = element.get("TopicId"), element.get("Name") or element.get("TopicName")
        if topic_id and name and topic_id != ZERO_UUID:
            session.topic_ids[topic_id] = name
        for member_id in filter(None, (element.get("MemberId"), element.get("Leader"))):
            learn_member(session, member_id)


def learn_member(session, member_id):
    """A member id that the broker made is the client's or instance's name and a random uuid, or such an uuid alone."""
    made = re.fullmatch(r"(.*-)?(?:[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|(?<!.)[\w-]{22})", member_id, re.DOTALL)
    if made and member_id not in session.literals and member_id not in session.member_ids:
        session.member_ids[member_id] = f"{made[1] or ''}<member {len(session.member_ids) + 1}>"


def structures(value):
    if isinstance(value, dict):
        yield value
        value = value.values()
    if not isinstance(value, (str, bytes)) and hasattr(value, "__iter__"):
        for inner in value:
            yield from structures(inner)


def answer(session, api, body):
    return Normaliser(session, api).value(body)


def time_in_text(number):
    """A time near now, or as far below as there are numbers, to ten minutes."""
    for word, base in (("now", 0), ("now - max", -(1 << 63) + 1)):
        minutes = round((number - base - time.time() * 1000) / 600_000) * 10
        if abs(minutes) < 60 * 24 * 3:
            return f"<{word}{minutes:+} min>"
    return str(number)


def hexadecimal(data):
    if len(data) <= 200:
        return data.hex()
    return f"<{len(data)} bytes, sha256 {hashlib.sha256(data).hexdigest()[:16]}>"


class Normaliser:
    def __init__(self, session, api):
        self.session, self.api = session, api

    def value(self, value, name=None):
        if isinstance(value, dict):
            if self.api == "ListGroups" and "Groups" in value:
                value = value | {"Groups": [g for g in value["Groups"] if g["GroupId"].startswith(self.session.prefix)]}
            if self.api == "ListConfigResources" and "ConfigResources" in value:
                own = [r for r in value["ConfigResources"] if r["ResourceName"].startswith(self.session.prefix) or r["ResourceName"].isdigit()]
                value = value | {"ConfigResources": own}
            if value.get("Name") in PLACES and value.get("Value"):
                value = value | {"Value": "<place>"}
            return {key: self.value(inner, key) for key, inner in value.items()}
        if isinstance(value, list):
            return self.list(value, name)
        if isinstance(value, bytes):
            if name == "Records":
                return self.records(value)
            return self.consumer_protocol(value, CONSUMER_PROTOCOL.get((self.api, name)))
        if isinstance(value, str):
            return self.text(value, name)
        if isinstance(value, int) and not isinstance(value, bool):
            return self.number(value, name)
        return value

    def list(self, elements, name):
        if (self.api, name) in SETS:
            return sorted(self.value(e, name) for e in elements)
        keys = UNORDERED.get((self.api, name))
        if keys is None or len(elements) <= ORDERED_UP_TO.get((self.api, name), 0):
            return [self.value(e, name) for e in elements]
        named = []
        for element in elements:
            key = next(k for k in keys if element.get(k) is not None)
            normal = self.value(element)
            named.append((str(normal.pop(key)), normal))
        if len(dict(named)) < len(named):
            return sorted(named, key=repr)  # the same key twice: nothing must get lost
        return dict(sorted(named))

    def text(self, value, name):
        session = self.session
        if name == "Metadata" and len(value) > 200:
            return f"<{len(value)} characters, sha256 {hashlib.sha256(value.encode()).hexdigest()[:16]}>"
        if name == "LogDir":
            return re.sub(r".*/(data(-2)?)$", r"<dir>/\1", value)
        if name == "Documentation":
            return "<text>" if value else value
        if name == "Host" and value in (session.address[0], "localhost"):
            return "<host>"
        if name == "ClusterId":
            return "<cluster-id>" if len(value) == 22 else value
        if name in ("TopicId", "TopicIds"):
            return self.topic_id(value)
        for topic_id in re.findall(r"[\w-]{22}", value):
            if topic_id in session.topic_ids:
                value = value.replace(topic_id, self.topic_id(topic_id))
        for member_id, word in session.member_ids.items():
            value = value.replace(member_id, word)
        return re.sub(r"-?\d{13,}", lambda found: time_in_text(int(found[0])), value.replace(session.prefix, "~"))

    def topic_id(self, value):
        session = self.session
        if value == ZERO_UUID or value in session.literals:
            return value
        return f"<id of {session.topic_ids[value].replace(session.prefix, '~')}>" if value in session.topic_ids else "<some id>"

    def number(self, value, name):
        if name in ("TotalBytes", "UsableBytes") and value > 0:
            return "<bytes>"
        if name == "Port" and value == self.session.address[1]:
            return "<port>"
        if name == "ThrottleTimeMs" and value > 0:
            return "<throttled>"
        if name == "SessionId" and value > 0:
            return "<session>"
        if name == "FinalizedFeaturesEpoch" and value >= 0:
            return "<epoch>"
        if name in TIMES and abs(value - time.time() * 1000) < NOW_MS:
            return "<now>"
        if name in ("ProducerId", "producer_id") and value >= 0 and value not in self.session.literals:
            known = self.session.producer_ids
            return known.setdefault(value, f"<pid {len(known) + 1}>")
        return value

    def consumer_protocol(self, data, schema):
        if not schema or len(data) < 10:
            return hexadecimal(data)
        version = int.from_bytes(data[:2], "big")
        try:
            return {"_version": version} | self.value(messages.message(schema).decode(version, data[2:]))
        except Malformed:
            return hexadecimal(data)

    def records(self, data):
        try:
            batches = read_batches(data)
        except Malformed as problem:
            return {"malformed": str(problem), "bytes": hexadecimal(data)}
        for batch in batches:
            if batch.get("attributes", 0) & CODEC_BITS:
                del batch["length"]
                batch.pop("payload", None)
        return self.value(batches)
