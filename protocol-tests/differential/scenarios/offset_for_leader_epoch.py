"""OffsetForLeaderEpoch: where an epoch ends. On one broker that never restarts there is epoch 0 alone."""

from bodies import produce
from kafka_wire.batches import batch
from kafka_wire.messages import Counted
from scenario import scenario


def ask(*parts, replica_id=-1):
    """parts: (name, partition, current epoch, epoch)."""
    return {
        "ReplicaId": replica_id,
        "Topics": [{"Topic": name, "Partitions": [{"Partition": p, "CurrentLeaderEpoch": current, "LeaderEpoch": epoch}]}
                   for name, p, current, epoch in parts],
    }


def filled(s, n=3, **settings):
    t = s.topic(**settings)
    for _ in range(n):
        s.quiet("Produce", 9, produce(t, batch(b"a", b"b")))
    return t.name


@scenario("2-4", cases=[0, 1, 5, -1, -2, 2147483647, -2147483648])
def epoch(s, v, epoch):
    s.call("OffsetForLeaderEpoch", v, ask((filled(s), 0, -1, epoch)))


@scenario("2-4", cases=[0, 1, -1, 7])
def epoch_of_an_empty_partition(s, v, epoch):
    s.call("OffsetForLeaderEpoch", v, ask((filled(s, 0), 0, -1, epoch)))


@scenario("2-4", cases=[0, 1, 9, -2, -2147483648])
def current_epoch(s, v, current):
    s.call("OffsetForLeaderEpoch", v, ask((filled(s), 0, current, 0)))


@scenario("2-4")
def unknown_topic(s, v):
    s.call("OffsetForLeaderEpoch", v, ask((s.name("unknown"), 0, -1, 0)))


@scenario("2-4", cases=[1, -1, 2147483647])
def unknown_partition(s, v, partition):
    s.call("OffsetForLeaderEpoch", v, ask((filled(s), partition, -1, 0)))


@scenario("2-4")
def partial_failure(s, v):
    name = filled(s)
    s.call("OffsetForLeaderEpoch", v, ask((s.name("unknown"), 0, -1, 0), (name, 0, -1, 0)))


@scenario("2-4")
def several_partitions(s, v):
    name = filled(s, partitions=4)
    parts = [{"Partition": p, "CurrentLeaderEpoch": c, "LeaderEpoch": e} for p, c, e in ((3, -1, 0), (0, 0, 0), (9, -1, 0), (1, 5, 0), (0, -1, 4))]
    s.call("OffsetForLeaderEpoch", v, {"ReplicaId": -1, "Topics": [{"Topic": name, "Partitions": parts}]})


@scenario("2-4")
def same_topic_twice(s, v):
    name = filled(s, partitions=2)
    s.call("OffsetForLeaderEpoch", v, ask((name, 0, -1, 0), (name, 1, -1, 0)))


@scenario("2-4")
def no_topics(s, v):
    s.call("OffsetForLeaderEpoch", v, ask())


@scenario("2-4")
def after_deleted_records(s, v):
    name = filled(s)
    s.quiet("DeleteRecords", 2, {"Topics": [{"Name": name, "Partitions": [{"PartitionIndex": 0, "Offset": 3}]}], "TimeoutMs": 5000})
    s.call("OffsetForLeaderEpoch", v, ask((name, 0, -1, 0)))


@scenario([3, 4], cases=[-2, 1, 5, -3])
def replica_id(s, v, replica):
    s.call("OffsetForLeaderEpoch", v, ask((filled(s), 0, -1, 0), replica_id=replica))


@scenario("2-4", cases={"empty": "", "invalid": "a b"})
def odd_name(s, v, name):
    s.call("OffsetForLeaderEpoch", v, ask((name, 0, -1, 0)))


@scenario("2-4", cases={"topics": {"Topics": None}, "name": {"Topics": [{"Topic": None, "Partitions": []}]},
                        "partitions": {"Topics": [{"Topic": "x", "Partitions": None}]}})
def null_for(s, v, what):
    s.call("OffsetForLeaderEpoch", v, ask() | what)


@scenario("2-4", cases=[-2, 4])
def wrong_count(s, v, count):
    s.call("OffsetForLeaderEpoch", v, ask() | {"Topics": Counted(count, [])})


@scenario([4])
def unknown_tags(s, v):
    s.call("OffsetForLeaderEpoch", v, ask((filled(s), 0, -1, 0)) | {"_tags": [(8, b"x")]})
