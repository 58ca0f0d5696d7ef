"""Fetch sessions (KIP-227): from version 7 on a consumer tells only what changed, and is told only what did."""

from bodies import fetch, fetch_from, produce
from kafka_wire.batches import batch
from kafka_wire.primitives import ZERO_UUID
from scenario import Topic, scenario

MADE_UP = "bm8tc3VjaC10b3BpYy1pZA"
SOME = [7, 11, 12, 13, 18]


def put(s, t, partition=0, value=b"x"):
    s.quiet("Produce", 9, produce(t, batch(value), partition=partition))


def begin(s, v, *parts, conn=0):
    """Epoch 0 asks for a session."""
    return s.call("Fetch", v, fetch_from(*parts, epoch=0), conn=conn, note="begin")["SessionId"]


@scenario("7-18")
def whole_life(s, v):
    t = s.topic(partitions=3)
    put(s, t)
    session = begin(s, v, (t, 0, 0), (t, 1, 0), (t, 2, 0))
    s.call("Fetch", v, fetch_from((t, 0, 1), session=session, epoch=1), note="position moved")
    put(s, t, 2)
    s.call("Fetch", v, fetch_from(session=session, epoch=2), note="something new")
    s.call("Fetch", v, fetch_from((t, 2, 1), session=session, epoch=3), note="position moved")
    s.call("Fetch", v, fetch_from(session=session, epoch=4), note="nothing new")
    s.call("Fetch", v, fetch_from((t, 0, 0), session=session, epoch=-1), note="end")
    s.call("Fetch", v, fetch_from(session=session, epoch=5), note="afterwards")


@scenario("7-18")
def without_a_session(s, v):
    t = s.topic()
    put(s, t)
    s.call("Fetch", v, fetch(t))
    s.call("Fetch", v, fetch(t, session=0, epoch=-1))


@scenario("7-18")
def unknown_session(s, v):
    t = s.topic()
    s.call("Fetch", v, fetch(t, session=12345, epoch=1))


@scenario("7-18", cases=[0, 1, 2, 3, 7, 2147483647, -1, -2])
def epoch(s, v, epoch):
    """Next to the first is 1; 0 begins anew, -1 ends."""
    t = s.topic(partitions=2)
    put(s, t)
    session = begin(s, v, (t, 0, 0), (t, 1, 0))
    s.call("Fetch", v, fetch_from((t, 0, 0), session=session, epoch=epoch))


@scenario(SOME, cases=[0, 1, -1, -2, 5])
def session_zero(s, v, epoch):
    t = s.topic()
    s.call("Fetch", v, fetch(t, session=0, epoch=epoch))


@scenario(SOME, cases=[-1, -5])
def negative_session(s, v, session):
    t = s.topic()
    s.call("Fetch", v, fetch(t, session=session, epoch=1))


@scenario(SOME)
def same_epoch_twice(s, v):
    t = s.topic()
    put(s, t)
    session = begin(s, v, (t, 0, 0))
    s.call("Fetch", v, fetch_from(session=session, epoch=1))
    s.call("Fetch", v, fetch_from(session=session, epoch=1), note="again")
    s.call("Fetch", v, fetch_from(session=session, epoch=2), note="goes on")


@scenario(SOME)
def records_not_yet_consumed_come_again(s, v):
    t = s.topic()
    put(s, t)
    session = begin(s, v, (t, 0, 0))
    s.call("Fetch", v, fetch_from(session=session, epoch=1))
    s.call("Fetch", v, fetch_from(session=session, epoch=2))


@scenario(SOME)
def empty_session(s, v):
    s.call("Fetch", v, fetch_from(epoch=0), note="begin")


@scenario(SOME)
def partition_added(s, v):
    t, u = s.topic("t"), s.topic("u")
    put(s, t)
    put(s, u)
    session = begin(s, v, (t, 0, 1))
    s.call("Fetch", v, fetch_from((u, 0, 0), session=session, epoch=1))


@scenario(SOME)
def partition_forgotten(s, v):
    t = s.topic(partitions=2)
    put(s, t, 0)
    put(s, t, 1)
    session = begin(s, v, (t, 0, 0), (t, 1, 0))
    s.call("Fetch", v, fetch_from(session=session, epoch=1, forgotten=[(t, [0])]), note="forget 0")
    s.call("Fetch", v, fetch_from(session=session, epoch=2), note="without it")
    s.call("Fetch", v, fetch_from((t, 0, 0), session=session, epoch=3), note="again")


@scenario(SOME)
def forgotten_and_asked_for_at_once(s, v):
    t = s.topic()
    put(s, t)
    session = begin(s, v, (t, 0, 0))
    s.call("Fetch", v, fetch_from((t, 0, 0), session=session, epoch=1, forgotten=[(t, [0])]))
    s.call("Fetch", v, fetch_from(session=session, epoch=2))


@scenario(SOME)
def all_forgotten(s, v):
    """A session without partitions ends."""
    t = s.topic()
    put(s, t)
    session = begin(s, v, (t, 0, 0))
    s.call("Fetch", v, fetch_from(session=session, epoch=1, forgotten=[(t, [0])]))
    s.call("Fetch", v, fetch_from((t, 0, 0), session=session, epoch=2))


@scenario(SOME)
def what_was_never_there_forgotten(s, v):
    t = s.topic()
    put(s, t)
    session = begin(s, v, (t, 0, 0))
    other = Topic(s.name("other"), s.literal(MADE_UP))
    s.call("Fetch", v, fetch_from(session=session, epoch=1, forgotten=[(t, [5]), (other, [0])]))


@scenario(SOME)
def forgotten_without_a_session(s, v):
    t = s.topic()
    put(s, t)
    s.call("Fetch", v, fetch_from((t, 0, 0), forgotten=[(t, [0])]))


@scenario(SOME)
def error_within_a_session(s, v):
    """Told each time, until it is mended."""
    t = s.topic(partitions=2)
    put(s, t)
    session = begin(s, v, (t, 0, 99), (t, 1, 0))
    s.call("Fetch", v, fetch_from(session=session, epoch=1), note="still")
    s.call("Fetch", v, fetch_from((t, 0, 0), session=session, epoch=2), note="mended")


@scenario(SOME)
def unknown_partition_within_a_session(s, v):
    t = s.topic()
    session = begin(s, v, (t, 0, 0), (t, 8, 0))
    s.call("Fetch", v, fetch_from(session=session, epoch=1))


@scenario(SOME)
def unknown_topic_within_a_session(s, v):
    t = s.topic()
    put(s, t)
    other = Topic(s.name("other"), s.literal(MADE_UP))
    session = begin(s, v, (other, 0, 0), (t, 0, 0))
    s.call("Fetch", v, fetch_from(session=session, epoch=1))


@scenario(SOME)
def topic_deleted_within_a_session(s, v):
    t, u = s.topic("t"), s.topic("u")
    put(s, u)
    session = begin(s, v, (t, 0, 0), (u, 0, 0))
    s.quiet("DeleteTopics", 6, {"Topics": [{"Name": t.name}], "TimeoutMs": 10000})
    s.gone()
    s.call("Fetch", v, fetch_from(session=session, epoch=1))


@scenario([7, 12, 13, 18])
def topic_created_anew_within_a_session(s, v):
    t = s.topic()
    put(s, t, value=b"old")
    session = begin(s, v, (t, 0, 0))
    s.quiet("DeleteTopics", 6, {"Topics": [{"Name": t.name}], "TimeoutMs": 10000})
    s.gone()
    u = s.topic()
    put(s, u, value=b"new")
    s.call("Fetch", v, fetch_from(session=session, epoch=1))


@scenario(SOME)
def high_watermark_alone_is_news(s, v):
    """And so is a start of the log that moved."""
    t = s.topic()
    for _ in range(3):
        put(s, t)
    session = begin(s, v, (t, 0, 3))
    s.call("Fetch", v, fetch_from(session=session, epoch=1), note="nothing")
    s.quiet("DeleteRecords", 2, {"Topics": [{"Name": t.name, "Partitions": [{"PartitionIndex": 0, "Offset": 2}]}], "TimeoutMs": 5000})
    s.call("Fetch", v, fetch_from(session=session, epoch=2), note="the start")


@scenario(SOME)
def waits_within_a_session(s, v):
    t = s.topic(partitions=2)
    session = begin(s, v, (t, 0, 0), (t, 1, 0))
    s.send("Fetch", v, fetch_from(session=session, epoch=1, max_wait_ms=5000))
    s.quiet_for(0.1)
    put(s, t, 1)
    s.receive("Fetch", v)


@scenario(SOME)
def order_of_partitions(s, v):
    """What answered last comes last the next time."""
    t = s.topic(partitions=3)
    for p in range(3):
        put(s, t, p)
    session = begin(s, v, (t, 0, 0), (t, 1, 0), (t, 2, 0))
    for epoch in (1, 2, 3):
        s.call("Fetch", v, fetch_from(session=session, epoch=epoch) | {"MaxBytes": 1})


@scenario(SOME)
def session_on_another_connection(s, v):
    t = s.topic()
    put(s, t)
    session = begin(s, v, (t, 0, 0))
    s.call("Fetch", v, fetch_from(session=session, epoch=1), conn=1)


@scenario(SOME)
def session_kept_by_nobody_else(s, v):
    t = s.topic()
    put(s, t)
    a, b = begin(s, v, (t, 0, 0)), begin(s, v, (t, 0, 0), conn=1)
    s.record("two sessions", a != b)


@scenario(cases={"12 then 13": (12, 13), "13 then 12": (13, 12), "7 then 12": (7, 12), "12 then 7": (12, 7), "13 then 18": (13, 18)})
def version_changes_within_a_session(s, versions):
    """Names do not become ids."""
    first, second = versions
    t = s.topic()
    put(s, t)
    session = begin(s, first, (t, 0, 0))
    s.call("Fetch", second, fetch_from(session=session, epoch=1))
    s.call("Fetch", second, fetch_from((t, 0, 0), session=session, epoch=1), note="with a partition")
    s.call("Fetch", first, fetch_from(session=session, epoch=1), note="back")


@scenario([13, 18])
def zero_id_within_a_session(s, v):
    t = s.topic()
    put(s, t)
    session = begin(s, v, (t, 0, 0))
    s.call("Fetch", v, fetch_from((Topic("", ZERO_UUID), 0, 0), session=session, epoch=1))


@scenario([9, 11, 12, 13, 18])
def leader_epoch_within_a_session(s, v):
    t = s.topic()
    put(s, t)
    session = begin(s, v, (t, 0, 0, {"CurrentLeaderEpoch": 0}))
    s.call("Fetch", v, fetch_from((t, 0, 0, {"CurrentLeaderEpoch": 5}), session=session, epoch=1))
    s.call("Fetch", v, fetch_from((t, 0, 0, {"CurrentLeaderEpoch": 0}), session=session, epoch=2))


@scenario(SOME)
def limits_change_within_a_session(s, v):
    t = s.topic()
    for _ in range(3):
        put(s, t)
    session = begin(s, v, (t, 0, 0, {"PartitionMaxBytes": 1}))
    s.call("Fetch", v, fetch_from((t, 0, 0, {"PartitionMaxBytes": 10000}), session=session, epoch=1))


@scenario([7, 13, 18], exclusive=True)
def more_sessions_than_there_are_slots(s, v):
    """Of 1000 by default: who comes too late goes without."""
    t = s.topic()
    ids = []
    for _ in range(1100):
        ids.append(s.quiet("Fetch", v, fetch_from((t, 0, 0), epoch=0))["SessionId"])
    for session in filter(None, ids):
        s.quiet("Fetch", v, fetch_from(session=session, epoch=-1))
    s.record("without one", ids.count(0) > 0)
    s.record("different ones", len(set(ids)) - (0 in ids) == len(ids) - ids.count(0))
