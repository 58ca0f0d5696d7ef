"""The usual requests, as bodies that serve every version: a topic stands in them by name and by id."""


def by_topic(parts):
    """[(topic, partition's element), ...] → [(topic, [elements])], neighbours of one topic together."""
    out = []
    for topic, part in parts:
        if not out or out[-1][0] is not topic:
            out.append((topic, []))
        out[-1][1].append(part)
    return out


def produce(topic, *records, partition=0, **rest):
    """One partition; `records` are batches, or one None."""
    data = None if records == (None,) else b"".join(records)
    return produce_to((topic, partition, data), **rest)


def produce_to(*parts, acks=-1, timeout_ms=5000, transactional_id=None):
    """parts: (topic, partition, records)."""
    parts = by_topic((t, {"Index": p, "Records": data}) for t, p, data in parts)
    return {
        "TransactionalId": transactional_id,
        "Acks": acks,
        "TimeoutMs": timeout_ms,
        "TopicData": [{"Name": t.name, "TopicId": t.id, "PartitionData": elements} for t, elements in parts],
    }


def fetch(topic, offset=0, partition=0, max_bytes=1 << 20, leader_epoch=-1, **rest):
    """One partition."""
    return fetch_from((topic, partition, offset, {"PartitionMaxBytes": max_bytes, "CurrentLeaderEpoch": leader_epoch}), **rest)


def fetch_from(*parts, max_wait_ms=0, min_bytes=1, max_bytes=50 << 20, isolation=0, session=0, epoch=-1, forgotten=(), **more):
    """parts: (topic, partition, offset[, more fields])."""
    parts = by_topic((t, {"Partition": p, "FetchOffset": offset, "PartitionMaxBytes": 1 << 20} | (extra[0] if extra else {}))
                     for t, p, offset, *extra in parts)
    return {
        "MaxWaitMs": max_wait_ms,
        "MinBytes": min_bytes,
        "MaxBytes": max_bytes,
        "IsolationLevel": isolation,
        "SessionId": session,
        "SessionEpoch": epoch,
        "Topics": [{"Topic": t.name, "TopicId": t.id, "Partitions": elements} for t, elements in parts],
        "ForgottenTopicsData": [{"Topic": t.name, "TopicId": t.id, "Partitions": list(partitions)} for t, partitions in forgotten],
    } | more


def list_offsets(topic, timestamp=-1, partition=0, leader_epoch=-1, **rest):
    return list_offsets_of((topic, partition, timestamp, leader_epoch), **rest)


def list_offsets_of(*parts, replica_id=-1, isolation=0):
    """parts: (topic, partition, timestamp[, leader epoch])."""
    parts = by_topic((t, {"PartitionIndex": p, "Timestamp": at, "CurrentLeaderEpoch": epoch[0] if epoch else -1}) for t, p, at, *epoch in parts)
    return {
        "ReplicaId": replica_id,
        "IsolationLevel": isolation,
        "TimeoutMs": 1000,
        "Topics": [{"Name": t.name, "Partitions": elements} for t, elements in parts],
    }


def metadata(*names, create=False, **more):
    return {"Topics": [{"Name": name} for name in names], "AllowAutoTopicCreation": create} | more


def new_topic(name, partitions=1, replication=1, assignments=(), configs=()):
    """assignments: {partition: brokers} or pairs; configs: {name: value} or pairs."""
    return {
        "Name": name,
        "NumPartitions": partitions,
        "ReplicationFactor": replication,
        "Assignments": [{"PartitionIndex": p, "BrokerIds": brokers} for p, brokers in pairs(assignments)],
        "Configs": [{"Name": key, "Value": value} for key, value in pairs(configs)],
    }


def create_topics(*topics, validate_only=False, timeout_ms=10000):
    return {"Topics": list(topics), "TimeoutMs": timeout_ms, "ValidateOnly": validate_only}


def pairs(values):
    return values.items() if isinstance(values, dict) else values
