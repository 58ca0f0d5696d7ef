"""Idempotent producers: sequences per producer and partition, duplicates, gaps, epochs."""

from bodies import fetch, list_offsets, produce, produce_to
from kafka_wire import codecs
from kafka_wire.batches import batch
from scenario import scenario

VERSIONS = [3, 8, 9, 11, 13]


def producer(s):
    return s.quiet_until(lambda a: a["ErrorCode"] != 14, "InitProducerId", 4, {"TransactionalId": None, "TransactionTimeoutMs": 60000})["ProducerId"]


class Sender:
    """Sends batches of `n` records at a sequence, and records the answer."""

    def __init__(self, s, v, topic=None, producer_id=None):
        self.s, self.v = s, v
        self.topic = topic or s.topic()
        self.id = producer(s) if producer_id is None else s.literal(producer_id)

    def put(self, sequence, n=1, epoch=0, partition=0, note="", **more):
        data = batch(*[b"v%d" % (sequence + i) for i in range(n)], producer_id=self.id, producer_epoch=epoch, base_sequence=sequence, **more)
        self.s.call("Produce", self.v, produce(self.topic, data, partition=partition), note=note or f"at {sequence} of epoch {epoch}")

    def end(self):
        self.s.call("ListOffsets", 7, list_offsets(self.topic), note="end")


@scenario("3-13")
def in_order(s, v):
    p = Sender(s, v)
    p.put(0, 2)
    p.put(2, 3)
    p.put(5)
    s.call("Fetch", 11, fetch(p.topic))


@scenario("3-13")
def duplicate(s, v):
    """Answered as the first time, and not stored again."""
    p = Sender(s, v)
    p.put(0, 2)
    p.put(0, 2)
    p.put(2)
    p.put(2)
    p.put(0, 2)
    p.end()


@scenario(VERSIONS)
def duplicates_of_the_last_five(s, v):
    """Five batches are remembered; what is older is out of order."""
    p = Sender(s, v)
    for i in range(7):
        p.put(i)
    for i in (6, 5, 4, 3, 2, 1, 0):
        p.put(i, note=f"again {i}")
    p.put(7)
    p.end()


@scenario(VERSIONS, cases={"shorter": (0, 2), "longer": (0, 5), "within": (1, 1), "overlapping": (2, 2), "tail": (2, 1)})
def not_quite_a_duplicate(s, v, which):
    p = Sender(s, v)
    p.put(0, 3)
    p.put(*which)
    p.end()


@scenario(VERSIONS, cases=[1, 2, 5, 1000, 2147483647])
def gap(s, v, sequence):
    p = Sender(s, v)
    p.put(0)
    p.put(sequence + 1 if sequence < 2147483647 else sequence)
    p.put(1)
    p.end()


@scenario(VERSIONS, cases=[1, 5, 2147483647])
def first_sequence_other_than_zero(s, v, sequence):
    """Taken, of a producer that the partition does not know."""
    p = Sender(s, v)
    p.put(sequence)
    p.put(sequence + 1 if sequence < 2147483647 else 0)
    p.end()


@scenario(VERSIONS, cases=[-1, -2, -2147483648])
def negative_sequence(s, v, sequence):
    p = Sender(s, v)
    data = batch(b"x", producer_id=p.id, producer_epoch=0, base_sequence=sequence)
    s.call("Produce", v, produce(p.topic, data))
    p.put(0)


@scenario(VERSIONS, cases=[-1, -2, -32768])
def negative_epoch(s, v, epoch):
    p = Sender(s, v)
    p.put(0, epoch=epoch)
    p.put(0)


@scenario(VERSIONS)
def sequence_wraps(s, v):
    """After the highest comes 0."""
    p = Sender(s, v)
    highest = 2147483647
    p.put(highest - 1, 2)
    p.put(0, 2)
    p.put(2)
    p.end()


@scenario(VERSIONS)
def sequence_wraps_within_a_batch(s, v):
    p = Sender(s, v)
    p.put(2147483646, 4)
    p.put(2)
    p.put(2147483646, 4, note="again")
    p.end()


@scenario(VERSIONS)
def new_epoch(s, v):
    """Begins at 0 again."""
    p = Sender(s, v)
    p.put(0, 2)
    p.put(0, epoch=1)
    p.put(1, epoch=1)
    p.put(2, epoch=0, note="the old epoch")
    p.put(0, 2, epoch=0, note="the old epoch, a duplicate")
    p.end()


@scenario(VERSIONS, cases=[1, 2, 7])
def new_epoch_at_another_sequence(s, v, sequence):
    p = Sender(s, v)
    p.put(0, 2)
    p.put(sequence, epoch=1)
    p.put(0, epoch=1)
    p.end()


@scenario(VERSIONS)
def epoch_skipped(s, v):
    p = Sender(s, v)
    p.put(0)
    p.put(0, epoch=5)
    p.put(0, epoch=3)
    p.put(1, epoch=5)
    p.end()


@scenario(VERSIONS)
def highest_epoch(s, v):
    p = Sender(s, v)
    p.put(0, epoch=32767)
    p.put(1, epoch=32767)
    p.put(0, epoch=32766)


@scenario(VERSIONS)
def made_up_producer(s, v):
    """No one asks where an id comes from."""
    p = Sender(s, v, producer_id=999999)
    p.put(0, epoch=4)
    p.put(1, epoch=4)
    p.put(1, epoch=4)
    p.put(5, epoch=4)
    p.end()


@scenario(VERSIONS)
def partitions_are_apart(s, v):
    p = Sender(s, v, s.topic(partitions=2))
    p.put(0)
    p.put(1)
    p.put(0, partition=1)
    p.put(2, partition=1)
    p.put(1, partition=1)


@scenario(VERSIONS)
def topics_are_apart(s, v):
    p = Sender(s, v, s.topic("a"))
    q = Sender(s, v, s.topic("b"), p.id)
    p.put(0)
    q.put(0)
    p.put(1)
    q.put(3)


@scenario(VERSIONS)
def producers_are_apart(s, v):
    p = Sender(s, v)
    q = Sender(s, v, p.topic)
    for i in range(3):
        p.put(i)
        q.put(i)
    p.put(1, note="p again")
    q.put(4, note="q with a gap")
    p.end()


@scenario(VERSIONS)
def beside_a_plain_producer(s, v):
    p = Sender(s, v)
    p.put(0)
    s.call("Produce", v, produce(p.topic, batch(b"plain")))
    p.put(1)
    p.put(0, note="again")
    p.end()


@scenario(VERSIONS)
def compressed(s, v):
    p = Sender(s, v)
    p.put(0, 3, codec=codecs.GZIP)
    p.put(0, 3, codec=codecs.GZIP)
    p.put(4, codec=codecs.GZIP)
    p.put(3, codec=codecs.GZIP)
    p.end()


@scenario(VERSIONS)
def compressing_topic(s, v):
    p = Sender(s, v, s.topic(compression_type="gzip"))
    p.put(0, 3)
    p.put(0, 3)
    p.put(3)
    s.call("Fetch", 11, fetch(p.topic))


@scenario(VERSIONS)
def duplicate_with_log_append_time(s, v):
    """The first time stands in both answers."""
    p = Sender(s, v, s.topic(message_timestamp_type="LogAppendTime"))
    p.put(0)
    p.put(0)


@scenario(VERSIONS)
def invalid_batch_uses_no_sequence(s, v):
    p = Sender(s, v)
    p.put(0)
    p.put(1, crc=1)
    p.put(1)
    p.put(2, base_offset=5)
    p.put(2)


@scenario(VERSIONS)
def out_of_order_and_otherwise_wrong(s, v):
    p = Sender(s, v, s.topic(cleanup_policy="compact", max_message_bytes=200))
    p.put(5)
    p.put(7, 30)
    p.put(7, crc=1)


@scenario(VERSIONS)
def duplicate_after_deleted_records(s, v):
    p = Sender(s, v)
    p.put(0)
    p.put(1)
    s.quiet("DeleteRecords", 2, {"Topics": [{"Name": p.topic.name, "Partitions": [{"PartitionIndex": 0, "Offset": -1}]}], "TimeoutMs": 5000})
    p.put(1)
    p.put(2)
    p.put(4)


@scenario(VERSIONS, cases=[0, 1, -1])
def pipelined(s, v, acks):
    """Five in flight, as clients have them."""
    t, me = s.topic(), producer(s)
    for i in range(5):
        s.send("Produce", v, produce(t, batch(b"%d" % i, producer_id=me, producer_epoch=0, base_sequence=i), acks=acks))
    if acks == 0:
        s.forget()
    else:
        for _ in range(5):
            s.receive("Produce", v)
    s.until(lambda a: a["Topics"][0]["Partitions"][0]["Offset"] == 5, "ListOffsets", 7, list_offsets(t))


@scenario([3, 13])
def pipelined_with_a_gap(s, v):
    t, me = s.topic(), producer(s)
    for i in (0, 2, 1, 2, 3):
        s.send("Produce", v, produce(t, batch(b"%d" % i, producer_id=me, producer_epoch=0, base_sequence=i)))
    for _ in range(5):
        s.receive("Produce", v)


@scenario([3, 13])
def gap_without_acks(s, v):
    t, me = s.topic(), producer(s)
    for i in (0, 5):
        s.send("Produce", v, produce(t, batch(b"%d" % i, producer_id=me, producer_epoch=0, base_sequence=i), acks=0))
    s.forget()
    s.ending()


@scenario([3, 13])
def duplicate_without_acks(s, v):
    t, me = s.topic(), producer(s)
    for i in (0, 0, 1):
        s.send("Produce", v, produce(t, batch(b"%d" % i, producer_id=me, producer_epoch=0, base_sequence=i), acks=0))
    s.forget()
    s.call("ApiVersions", 0, {}, without=["ApiKeys"])


@scenario(VERSIONS)
def several_partitions_in_one_request(s, v):
    t, me = s.topic(partitions=3), producer(s)

    def at(sequence):
        return batch(b"x", producer_id=me, producer_epoch=0, base_sequence=sequence)

    s.call("Produce", v, produce_to((t, 0, at(0)), (t, 1, at(0)), (t, 2, at(0))))
    s.call("Produce", v, produce_to((t, 0, at(1)), (t, 1, at(0)), (t, 2, at(3))))


@scenario(VERSIONS)
def records_of_a_batch_counted_wrong(s, v):
    """Sequences follow the last offset delta."""
    p = Sender(s, v)
    p.put(0, 2, count=2)
    p.put(2, 1, last_offset_delta=3, count=4)
    p.put(2)
    p.put(6)
    p.end()
