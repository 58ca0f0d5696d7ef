"""UpdateFeatures: the levels of the cluster's features, and what a broker does at other levels than it started with. All on a broker of
their own, whose levels are restored after each scenario."""

from bodies import produce
from kafka_wire.messages import Counted, Raw
from scenario import scenario
from scenarios.incremental_alter_configs import API as ALTER, BROKER, DELETE, SET, ask
from txns import TransactionalProducer, end

API = "UpdateFeatures"
UPGRADE, SAFE, UNSAFE = 1, 2, 3
CLIENT = {"ClientSoftwareName": "differential", "ClientSoftwareVersion": "1.0"}
NEW_CLUSTER = {"metadata.version": 30, "eligible.leader.replicas.version": 1, "group.version": 1, "share.version": 1, "streams.version": 1,
               "transaction.version": 2}
OWN = {"background.threads": "9"}
FOR_GOOD = {"background.threads": "8"}  # of a broker whose levels are not restored


def body(*updates, validate_only=False, **more):
    """updates: (feature, level, type of the upgrade[, allow downgrade])."""
    keys = ("Feature", "MaxVersionLevel", "UpgradeType", "AllowDowngrade")
    return {"TimeoutMs": 60000, "FeatureUpdates": [dict(zip(keys, update)) for update in updates], "ValidateOnly": validate_only, **more}


def levels(s):
    answer = s.quiet("ApiVersions", 4, CLIENT)
    return {feature["Name"]: feature["MaxVersionLevel"] for feature in answer["FinalizedFeatures"]}


def shown(s, wanted):
    """Records the features that the broker shows, once they are at these levels."""
    wanted = {name: level for name, level in (NEW_CLUSTER | wanted).items() if level}
    holds = lambda a: {f["Name"]: f["MaxVersionLevel"] for f in a["FinalizedFeatures"]} == wanted
    s.until(holds, "ApiVersions", 4, CLIENT, without=("ApiKeys",))


def restore(s):
    """All levels as in a new cluster, on all sides."""
    now = levels(s)
    if now != NEW_CLUSTER:
        updates = [(name, level, UPGRADE) for name, level in NEW_CLUSTER.items() if now.get(name, 0) < level]
        answer = s.quiet(API, 2, body(*updates))
        if answer["ErrorCode"]:
            raise RuntimeError(f"not restored: {answer}")
        s.quiet_until(lambda a: len(a["FinalizedFeatures"]) == len(NEW_CLUSTER), "ApiVersions", 4, CLIENT)
    s.quiet(ALTER, 1, ask((BROKER, "", [("min.insync.replicas", SET, "1")])))


REFUSED = {
    "unknown": [("no.such.feature", 1, UPGRADE)],
    "unknown at 0": [("no.such.feature", 0, UPGRADE)],
    "unknown at 0 down": [("no.such.feature", 0, SAFE)],
    "unknown below": [("no.such.feature", -1, SAFE)],
    "no name": [("", 1, UPGRADE)],
    "no name at 0": [("", 0, UNSAFE)],
    "type 0": [("group.version", 1, 0)],
    "type 4": [("group.version", 1, 4)],
    "type -1": [("no.such.feature", -1, -1)],
    "negative": [("group.version", -1, SAFE)],
    "lowest": [("group.version", -32768, UPGRADE)],
    "too high": [("group.version", 2, UPGRADE)],
    "highest": [("transaction.version", 32767, UPGRADE)],
    "down by an upgrade": [("transaction.version", 1, UPGRADE)],
    "off by an upgrade": [("group.version", 0, UPGRADE)],
    "allowed to go down": [("group.version", 0, UPGRADE, True)],
    "too high and down": [("transaction.version", 3, SAFE)],
    "metadata too high": [("metadata.version", 31, UPGRADE)],
    "metadata too low": [("metadata.version", 6, SAFE)],
    "metadata off": [("metadata.version", 0, UNSAFE)],
    "metadata below": [("metadata.version", -1, UNSAFE)],
    "metadata down by an upgrade": [("metadata.version", 29, UPGRADE)],
    "metadata down": [("metadata.version", 29, SAFE)],
    "metadata down unsafely": [("metadata.version", 29, UNSAFE)],
    "metadata far down": [("metadata.version", 7, SAFE)],
    "metadata far down unsafely": [("metadata.version", 7, UNSAFE)],
    "kraft too high": [("kraft.version", 2, UPGRADE)],
    "kraft below": [("kraft.version", -1, SAFE)],
    "second": [("group.version", 1, UPGRADE), ("transaction.version", 7, UPGRADE)],
    "first": [("transaction.version", 7, UPGRADE), ("group.version", 1, UPGRADE)],
    "both": [("transaction.version", 7, UPGRADE), ("group.version", 7, UPGRADE)],
    "many": [(f"feature-{number}", 1, UPGRADE) for number in range(40)],
    "many of the known": [(name, 99, UPGRADE) for name in ["kraft.version", "metadata.version", "group.version", "share.version"]],
    "last word": [("group.version", 1, UPGRADE), ("group.version", 2, UPGRADE)],
    "elr without metadata": [("eligible.leader.replicas.version", 1, UPGRADE), ("metadata.version", 22, SAFE)],
    "long name": [("n" * 1000, 1, UPGRADE)],
    "percent": [("%s%d", 1, UPGRADE)],
    "utf8": [("ключ", 1, UPGRADE)],
}
NOTHING_NEW = {
    "none": [],
    "same": [("group.version", 1, UPGRADE)],
    "same by a downgrade": [("group.version", 1, SAFE)],
    "same unsafely": [("group.version", 1, UNSAFE)],
    "metadata": [("metadata.version", 30, UPGRADE)],
    "metadata by a downgrade": [("metadata.version", 30, SAFE)],
    "kraft": [("kraft.version", 0, UPGRADE)],
    "kraft by a downgrade": [("kraft.version", 0, SAFE)],
    "twice": [("group.version", 1, UPGRADE), ("group.version", 1, SAFE)],
    "last word": [("group.version", 2, UPGRADE), ("group.version", 1, UPGRADE)],
    "several": [("streams.version", 1, UPGRADE), ("group.version", 1, UPGRADE), ("transaction.version", 2, UPGRADE), ("share.version", 1, SAFE)],
    "elr": [("eligible.leader.replicas.version", 1, UPGRADE)],
}


@scenario("0-2", cases=REFUSED, exclusive=True, settings=OWN)
def refused(s, v, updates):
    s.call(API, v, body(*updates))
    shown(s, {})


@scenario("1-2", cases=REFUSED, exclusive=True, settings=OWN)
def refused_when_only_checked(s, v, updates):
    s.call(API, v, body(*updates, validate_only=True))


@scenario("1-2", cases={"safe": SAFE, "unsafe": UNSAFE}, exclusive=True, settings=OWN)
def voters_on_record_by_a_downgrade(s, v, kind):
    s.call(API, v, body(("kraft.version", 1, kind)))
    shown(s, {})


@scenario("0-2", cases=NOTHING_NEW, exclusive=True, settings=OWN)
def nothing_new(s, v, updates):
    s.call(API, v, body(*updates))
    shown(s, {})


CHANGES = {
    "groups off": [("group.version", 0, SAFE)],
    "groups off unsafely": [("group.version", 0, UNSAFE)],
    "transactions 1": [("transaction.version", 1, SAFE)],
    "transactions off": [("transaction.version", 0, SAFE)],
    "share off": [("share.version", 0, SAFE)],
    "streams off": [("streams.version", 0, SAFE)],
    "elr off": [("eligible.leader.replicas.version", 0, SAFE)],
    "all off": [(name, 0, SAFE) for name in NEW_CLUSTER if name != "metadata.version"],
    "last word": [("group.version", 1, SAFE), ("group.version", 0, SAFE)],
}


@scenario("0-2", cases=CHANGES, exclusive=True, settings=OWN)
def down_and_up(s, v, updates):
    """Version 0 cannot say that it goes down."""
    s.call(API, v, body(*updates))
    shown(s, {name: level for name, level, _ in updates} if v > 0 else {})
    s.call(API, v, body(*[(name, NEW_CLUSTER[name], UPGRADE) for name in dict.fromkeys(name for name, _, _ in updates)]), note="up")
    shown(s, {})
    restore(s)


@scenario("1-2", cases=CHANGES | {"kraft": [("kraft.version", 1, UPGRADE)]}, exclusive=True, settings=OWN)
def only_checked(s, v, updates):
    s.call(API, v, body(*updates, validate_only=True))
    shown(s, {})


@scenario("1-2", exclusive=True, settings=OWN)
def one_is_refused(s, v):
    """None holds then."""
    s.call(API, v, body(("group.version", 0, SAFE), ("transaction.version", 3, UPGRADE), ("share.version", 0, SAFE)))
    shown(s, {})


@scenario("0-2", exclusive=True, settings=OWN)
def null_updates(s, v):
    s.call(API, v, body() | {"FeatureUpdates": None})


@scenario("0-2", exclusive=True, settings=OWN)
def more_updates_than_there_are(s, v):
    s.call(API, v, body() | {"FeatureUpdates": Counted(9, [{"Feature": "group.version", "MaxVersionLevel": 1, "UpgradeType": 1}])})


@scenario("0-2", exclusive=True, settings=OWN)
def null_name(s, v):
    s.call(API, v, body((None, 1, UPGRADE)))


@scenario("0-2", cases={"zero": 0, "negative": -1, "lowest": -(2**31)}, exclusive=True, settings=OWN)
def timeout(s, v, timeout):
    s.call(API, v, body(("group.version", 1, UPGRADE)) | {"TimeoutMs": timeout})


@scenario("0-2", exclusive=True, settings=OWN)
def unknown_tags(s, v):
    s.call(API, v, body() | {"_tags": [(0, b"x"), (99, b"")]})


@scenario("0-2", exclusive=True, settings=OWN)
def truncated(s, v):
    s.call(API, v, {"TimeoutMs": 1, "FeatureUpdates": Raw(b"\x02\x05ab")})


# --- what other levels bring about


@scenario([2], exclusive=True, settings=OWN)
def without_the_protocol_of_groups(s, v):
    heartbeat = {"GroupId": s.name("g"), "MemberId": "m" * 22, "MemberEpoch": 0, "RebalanceTimeoutMs": 60000,
                 "SubscribedTopicNames": [s.name("t")], "TopicPartitions": []}
    s.topic("t")
    s.quiet_until(lambda a: not a["Coordinators"][0]["ErrorCode"], "FindCoordinator", 6, {"KeyType": 0, "CoordinatorKeys": [s.name("g")]})
    s.call(API, v, body(("group.version", 0, SAFE)))
    shown(s, {"group.version": 0})
    s.call("ConsumerGroupHeartbeat", 1, heartbeat)
    s.call("ConsumerGroupHeartbeat", 0, heartbeat)
    s.call("ConsumerGroupDescribe", 1, {"GroupIds": [s.name("g"), "", s.name("h")]})
    s.call("ConsumerGroupDescribe", 0, {"GroupIds": []}, note="nothing")
    s.call("ListGroups", 5, {"StatesFilter": [], "TypesFilter": []})
    s.call(API, v, body(("group.version", 1, UPGRADE)), note="up")
    shown(s, {})
    s.call("ConsumerGroupHeartbeat", 1, heartbeat, note="again")
    restore(s)


@scenario([2], cases={"0": (0, [(11, 4), (9, 4)]), "1": (1, [(11, 4), (12, 5), (12, 4), (9, 5)])}, exclusive=True, settings=OWN)
def transactions(s, v, case):
    """At 1 nothing but the version of the coordinator's records is another: a producer may go on as at 2."""
    level, versions = case
    topic = s.topic("t")
    s.call(API, v, body(("transaction.version", level, SAFE)))
    shown(s, {"transaction.version": level})
    producer = TransactionalProducer(s)
    for number, (produced, ended) in enumerate(versions):
        if produced < 12:
            s.call("AddPartitionsToTxn", 3, {
                "V3AndBelowTransactionalId": producer.name, "V3AndBelowProducerId": producer.id, "V3AndBelowProducerEpoch": producer.epoch,
                "V3AndBelowTopics": [{"Name": topic.name, "Partitions": [0]}]}, note=f"{number}")
        records = producer.records(b"a")
        s.call("Produce", produced, produce(topic, records, acks=-1, transactional_id=producer.name), note=f"{number}")
        answer = s.until(lambda a: a["ErrorCode"] != 51, "EndTxn", ended, end(producer.name, producer.id, producer.epoch), note=f"{number}")
        s.until(lambda a: a["TransactionStates"][0]["TransactionState"] not in ("PrepareCommit", "PrepareAbort"),
                "DescribeTransactions", 0, {"TransactionalIds": [producer.name]}, note=f"{number}")
        producer.sequence += 1
        if answer and ended == 5 and not answer["ErrorCode"]:
            producer.id, producer.epoch, producer.sequence = answer["ProducerId"], answer["ProducerEpoch"], 0
    restore(s)


@scenario([2], exclusive=True, settings=OWN)
def transactions_of_a_producer_ahead(s, v):
    """One that goes on as at 2 while the cluster is at 0. In Kafka the coordinator fails within, and then is busy with it for good."""
    topic = s.topic("t")
    s.call(API, v, body(("transaction.version", 0, SAFE)))
    shown(s, {"transaction.version": 0})
    producer = TransactionalProducer(s)
    s.call("Produce", 12, produce(topic, producer.records(b"a"), acks=-1, transactional_id=producer.name))
    s.call("EndTxn", 5, end(producer.name, producer.id, producer.epoch))
    restore(s)


@scenario([2], exclusive=True, settings=OWN)
def eligible_leader_replicas(s, v):
    """While they are on, one min.insync.replicas holds for all brokers."""
    of_broker = ask((BROKER, "1", [("min.insync.replicas", SET, "2")]))
    describe = {"Resources": [{"ResourceType": BROKER, "ResourceName": name, "ConfigurationKeys": ["min.insync.replicas"]} for name in ("1", "")],
                "IncludeSynonyms": True}
    value = lambda expected: lambda a: [result["Configs"][0]["Value"] if result["Configs"] else None for result in a["Results"]] == expected
    s.call(ALTER, 1, of_broker, note="while they are on")
    s.call(API, v, body(("eligible.leader.replicas.version", 0, SAFE)))
    shown(s, {"eligible.leader.replicas.version": 0})
    s.call(ALTER, 1, of_broker)
    s.call(ALTER, 1, ask((BROKER, "", [("min.insync.replicas", DELETE, None)])), note="of all")
    s.until(value(["2", None]), "DescribeConfigs", 4, describe)
    s.call(API, v, body(("eligible.leader.replicas.version", 1, UPGRADE)), note="on")
    shown(s, {})
    s.until(value(["1", "1"]), "DescribeConfigs", 4, describe, note="afterwards")
    restore(s)


@scenario([2], exclusive=True, settings=FOR_GOOD)
def voters_on_record(s, v):
    """kraft.version does not sink."""
    s.call(API, v, body(("kraft.version", 1, UPGRADE), ("group.version", 0, SAFE)))
    shown(s, {"kraft.version": 1, "group.version": 0})
    s.call(API, v, body(("kraft.version", 1, UPGRADE)), note="again")
    s.call(API, v, body(("kraft.version", 1, SAFE)), note="again by a downgrade")
    s.call(API, v, body(("kraft.version", 0, UPGRADE)), note="down by an upgrade")
    s.call(API, v, body(("kraft.version", 0, SAFE)), note="down")
    s.call(API, v, body(("kraft.version", 0, UNSAFE)), note="down unsafely")
    s.call(API, v, body(("kraft.version", 2, UPGRADE)), note="too high")
    s.call(API, v, body(("group.version", 1, UPGRADE)), note="another")
    shown(s, {"kraft.version": 1})
