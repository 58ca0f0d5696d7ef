"""Transactions: InitProducerId with a transactional id, AddPartitionsToTxn, AddOffsetsToTxn, EndTxn, TxnOffsetCommit, WriteTxnMarkers,
Produce within them, and what DescribeTransactions, ListTransactions and DescribeProducers tell."""

from bodies import fetch, list_offsets, produce
from groups import offsets
from scenario import scenario
from txns import (TransactionalProducer, add_offsets, add_partitions, commit_offsets, end, init, settled)


def describe(s, p, note="DescribeTransactions"):
    s.call("DescribeTransactions", 0, {"TransactionalIds": [p.name]}, note=note)


def read(s, topic, note=""):
    s.call("ListOffsets", 7, list_offsets(topic, isolation=1), note=f"stable end {note}")
    s.call("Fetch", 11, fetch(topic, isolation=1), note=f"committed {note}")


# --- InitProducerId

@scenario("0-5")
def first_id(s, v):
    name = s.name("tx")
    s.quiet_until(lambda a: not a["Coordinators"][0]["ErrorCode"], "FindCoordinator", 6, {"KeyType": 1, "CoordinatorKeys": [name]})
    s.until(settled, "InitProducerId", v, init(name))
    s.call("InitProducerId", v, init(name), note="again")


@scenario("0-5", cases=[0, -1, 1, 900000, 900001, 2147483647, -2147483648])
def timeout_of_transactions(s, v, timeout):
    name = s.name("tx")
    s.quiet_until(lambda a: not a["Coordinators"][0]["ErrorCode"], "FindCoordinator", 6, {"KeyType": 1, "CoordinatorKeys": [name]})
    s.until(settled, "InitProducerId", v, init(name, timeout_ms=timeout))


@scenario("3-5", cases={"its own": (None, None), "another epoch": (None, 7), "another id": (987654005, 0), "id without epoch": (None, -1),
                        "epoch without id": (-1, 0)})
def goes_on_from(s, v, which):
    p = TransactionalProducer(s)
    producer_id, epoch = which
    producer_id = p.id if producer_id is None else s.literal(producer_id)
    epoch = p.epoch if epoch is None else epoch
    s.call("InitProducerId", v, init(p.name, producer_id, epoch))
    s.call("InitProducerId", v, init(p.name, producer_id, epoch), note="again")
    describe(s, p)


@scenario("0-5")
def init_fences_an_open_transaction(s, v):
    t = s.topic()
    p = TransactionalProducer(s)
    p.write(t, b"a")
    s.until(settled, "InitProducerId", v, init(p.name))
    p.complete()
    s.call("Produce", 12, produce(t, p.records(b"b"), transactional_id=p.name), note="of the old one")
    s.call("EndTxn", 5, end(p.name, p.id, p.epoch), note="by the old one")
    read(s, t)
    describe(s, p)


# --- AddPartitionsToTxn

@scenario("0-5")
def partitions_are_added(s, v):
    t, u = s.topic("t", partitions=3), s.topic("u")
    p = TransactionalProducer(s)
    s.call("AddPartitionsToTxn", v, add_partitions(p.name, p.id, p.epoch, (t.name, 0), (t.name, 2), (u.name, 0)))
    s.call("AddPartitionsToTxn", v, add_partitions(p.name, p.id, p.epoch, (t.name, 0)), note="again")
    describe(s, p)


@scenario("0-5", cases={"topic": ("missing", 0), "partition": (None, 5)})
def one_does_not_exist(s, v, which):
    t = s.topic(partitions=2)
    p = TransactionalProducer(s)
    name, partition = which
    name = t.name if name is None else s.name(name)
    s.call("AddPartitionsToTxn", v, add_partitions(p.name, p.id, p.epoch, (t.name, 0), (t.name, 1), (name, partition)))
    describe(s, p)


@scenario("0-5", cases={"id": (1, 0), "epoch before": (0, -1), "epoch behind": (0, 1)})
def adds_by_another(s, v, which):
    t = s.topic()
    p = TransactionalProducer(s)
    other_id, epoch = which
    producer_id = s.literal(987654077) if other_id else p.id
    s.call("AddPartitionsToTxn", v, add_partitions(p.name, producer_id, p.epoch + epoch, (t.name, 0)))
    s.call("AddOffsetsToTxn", min(v, 4), add_offsets(p.name, producer_id, p.epoch + epoch, s.name("g")))
    s.call("EndTxn", v, end(p.name, producer_id, p.epoch + epoch))
    s.call("EndTxn", v, end(p.name, producer_id, p.epoch + epoch, commit=False), note="abort")


@scenario("0-5")
def ids_nobody_has(s, v):
    t = s.topic()
    p = TransactionalProducer(s)
    other = p.name + "x"
    s.until(settled, "AddPartitionsToTxn", v, add_partitions(other, s.literal(987654009), 0, (t.name, 0)))
    s.until(settled, "AddOffsetsToTxn", min(v, 4), add_offsets(other, s.literal(987654009), 0, s.name("g")))
    s.until(settled, "EndTxn", v, end(other, s.literal(987654009), 0))
    s.call("AddPartitionsToTxn", v, add_partitions("", s.literal(987654009), 0, (t.name, 0)), note="no id")
    s.call("AddOffsetsToTxn", min(v, 4), add_offsets("", s.literal(987654009), 0, s.name("g")), note="no id")
    s.call("EndTxn", v, end("", s.literal(987654009), 0), note="no id")


@scenario("4-5")
def verified_only(s, v):
    t = s.topic(partitions=2)
    p = TransactionalProducer(s)
    p.add((t.name, 0))
    ask = add_partitions(p.name, p.id, p.epoch, (t.name, 0), (t.name, 1), verify=True)
    s.call("AddPartitionsToTxn", v, ask)
    s.call("AddPartitionsToTxn", v, add_partitions(p.name, p.id, p.epoch + 1, (t.name, 0), verify=True), note="another epoch")
    s.call("AddPartitionsToTxn", v, add_partitions(p.name, s.literal(987654005), p.epoch, (t.name, 0), verify=True), note="another id")
    p.end(version=4)
    p.complete()
    s.call("AddPartitionsToTxn", v, ask, note="after the end")


@scenario("4-5")
def several_transactions(s, v):
    t = s.topic()
    p, q = TransactionalProducer(s, "p"), TransactionalProducer(s, "q")
    bodies = [add_partitions(x.name, x.id, x.epoch, (t.name, 0))["Transactions"][0] for x in (p, q)]
    s.call("AddPartitionsToTxn", v, {"Transactions": bodies})
    s.call("AddPartitionsToTxn", v, {"Transactions": []}, note="none")


# --- EndTxn

@scenario("0-5", cases={"commit": True, "abort": False})
def ends(s, v, commit):
    t = s.topic(partitions=2)
    p = TransactionalProducer(s)
    if v > 4:
        p.write(t, b"a", b"b")
    else:
        p.add((t.name, 0))
        p.write(t, b"a", b"b", version=11)
    read(s, t, "before")
    s.call("EndTxn", v, end(p.name, p.id, p.epoch, commit))
    p.complete()
    read(s, t, "after")
    s.call("EndTxn", v, end(p.name, p.id, p.epoch, commit), note="again")
    s.call("EndTxn", v, end(p.name, p.id, p.epoch, not commit), note="the other way")
    s.call("EndTxn", v, end(p.name, p.id, p.epoch + 1, commit), note="in the next epoch")
    p.complete()
    s.call("EndTxn", v, end(p.name, p.id, p.epoch + 1, not commit), note="in the next epoch, the other way")
    p.complete()
    describe(s, p)


@scenario("0-5", cases={"commit": True, "abort": False})
def nothing_to_end(s, v, commit):
    p = TransactionalProducer(s)
    s.call("EndTxn", v, end(p.name, p.id, p.epoch, commit))
    p.complete()
    s.call("EndTxn", v, end(p.name, p.id, p.epoch, commit), note="again")
    p.complete()
    describe(s, p)


# --- Produce

@scenario([3, 9, 10, 11, 12, 13])
def written_without_being_added(s, v):
    t = s.topic()
    p = TransactionalProducer(s)
    s.until(settled if v > 11 else lambda a: True, "Produce", v, produce(t, p.records(b"a"), transactional_id=p.name))
    describe(s, p)


@scenario([3, 9, 11, 12, 13])
def written_after_being_added(s, v):
    t = s.topic()
    p = TransactionalProducer(s)
    p.add((t.name, 0))
    s.call("Produce", v, produce(t, p.records(b"a"), transactional_id=p.name))
    s.call("Produce", v, produce(t, p.records(b"b", sequence=1), transactional_id=p.name), note="more")
    s.call("Produce", v, produce(t, p.records(b"b", sequence=1), transactional_id=p.name), note="again")
    s.call("Produce", v, produce(t, p.records(b"c", sequence=5), transactional_id=p.name), note="out of order")
    read(s, t)


@scenario([3, 9, 11, 12, 13], cases={"none": None, "empty": "", "of nobody": "nobody"})
def transactional_records_of(s, v, transactional_id):
    t = s.topic()
    p = TransactionalProducer(s)
    name = s.name(transactional_id) if transactional_id else transactional_id
    body = produce(t, p.records(b"a"), transactional_id=name)
    s.until(lambda a: all(x["ErrorCode"] not in (14, 15, 16, 19) for r in a["Responses"] for x in r["PartitionResponses"]), "Produce", v, body,
            seconds=2)


@scenario([9, 11, 12, 13])
def written_in_an_old_epoch(s, v):
    t = s.topic()
    p = TransactionalProducer(s)
    p.write(t, b"a")
    p.end()
    p.complete()
    s.call("Produce", v, produce(t, p.records(b"b", sequence=1, epoch=p.epoch - 1), transactional_id=p.name))
    s.call("Produce", v, produce(t, p.records(b"b", sequence=0, epoch=p.epoch + 1), transactional_id=p.name), note="one that is not there yet")
    read(s, t)


@scenario([11, 12])
def records_of_two_producers(s, v):
    from bodies import produce_to
    t = s.topic(partitions=2)
    p, q = TransactionalProducer(s, "p"), TransactionalProducer(s, "q")
    s.call("Produce", v, produce_to((t, 0, p.records(b"a")), (t, 1, q.records(b"b")), transactional_id=p.name))


# --- Offsets

@scenario("0-5", cases={"commit": True, "abort": False})
def offsets_with_a_transaction(s, v, commit):
    t, g = s.topic(partitions=2), s.name("g")
    p = TransactionalProducer(s)
    s.quiet_until(lambda a: not a["Coordinators"][0]["ErrorCode"], "FindCoordinator", 6, {"KeyType": 0, "CoordinatorKeys": [g]})
    if v < 5:
        s.until(settled, "AddOffsetsToTxn", min(v, 4), add_offsets(p.name, p.id, p.epoch, g))
    s.until(settled, "TxnOffsetCommit", v, commit_offsets(p.name, g, p.id, p.epoch, (t, 0, 5), (t, 1, 7)))
    s.call("OffsetFetch", 9, offsets(g, every=True), note="before")
    s.call("OffsetFetch", 9, offsets(g, (t, [0]), stable=True), note="before, stable")
    p.end(commit)
    p.complete()
    s.call("OffsetFetch", 9, offsets(g, every=True), note="after")
    s.call("OffsetFetch", 9, offsets(g, (t, [0]), stable=True), note="after, stable")


@scenario("0-5")
def offsets_without_being_added(s, v):
    t, g = s.topic(), s.name("g")
    p = TransactionalProducer(s)
    s.quiet_until(lambda a: not a["Coordinators"][0]["ErrorCode"], "FindCoordinator", 6, {"KeyType": 0, "CoordinatorKeys": [g]})
    s.until(settled, "TxnOffsetCommit", v, commit_offsets(p.name, g, p.id, p.epoch, (t, 0, 5)))
    s.call("TxnOffsetCommit", v, commit_offsets(p.name, g, p.id, p.epoch + 3, (t, 0, 5)), note="another epoch")
    s.call("TxnOffsetCommit", v, commit_offsets(p.name, g, s.literal(987654008), p.epoch, (t, 0, 5)), note="another id")


@scenario("0-5", cases={"no group": "", "unknown topic": "topic", "unknown partition": "partition", "nothing": "nothing"})
def offsets_of(s, v, what):
    t, g = s.topic(), s.name("g")
    p = TransactionalProducer(s)
    s.quiet_until(lambda a: not a["Coordinators"][0]["ErrorCode"], "FindCoordinator", 6, {"KeyType": 0, "CoordinatorKeys": [g]})
    if v < 5:
        s.quiet_until(settled, "AddOffsetsToTxn", 3, add_offsets(p.name, p.id, p.epoch, g))
    parts = {"": [(t, 0, 1)], "topic": [(t, 0, 1), (s.name("missing"), 0, 2)], "partition": [(t, 0, 1), (t, 9, 2)], "nothing": []}[what]
    s.until(settled, "TxnOffsetCommit", v, commit_offsets(p.name, g if what else "", p.id, p.epoch, *parts))


@scenario("3-5", cases={"generation": (5, "", None), "member": (-1, "nobody", None), "both": (1, "nobody", None), "instance": (1, "nobody", "i")})
def offsets_of_members_that_are_none(s, v, which):
    t, g = s.topic(), s.name("g")
    p = TransactionalProducer(s)
    s.quiet_until(lambda a: not a["Coordinators"][0]["ErrorCode"], "FindCoordinator", 6, {"KeyType": 0, "CoordinatorKeys": [g]})
    if v < 5:
        s.quiet_until(settled, "AddOffsetsToTxn", 3, add_offsets(p.name, p.id, p.epoch, g))
    generation, member, instance = which
    body = commit_offsets(p.name, g, p.id, p.epoch, (t, 0, 5), generation=generation, member=member, instance=instance)
    s.until(settled, "TxnOffsetCommit", v, body)


# --- WriteTxnMarkers

def markers(*parts):
    """parts: (producer id, epoch, commit, coordinator epoch, topics by name)."""
    return {"Markers": [{"ProducerId": i, "ProducerEpoch": e, "TransactionResult": c, "CoordinatorEpoch": ce, "TransactionVersion": tv,
                         "Topics": [{"Name": n, "PartitionIndexes": list(p)} for n, p in topics]} for i, e, c, ce, tv, topics in parts]}


@scenario("1-2", cases={"commit": True, "abort": False})
def markers_by_hand(s, v, commit):
    t = s.topic(partitions=2)
    p = TransactionalProducer(s)
    p.write(t, b"a")
    s.call("WriteTxnMarkers", v, markers((p.id, p.epoch + 1, commit, 0, 2, [(t.name, [0])])))
    read(s, t)


@scenario("1-2")
def markers_of_nobody(s, v):
    t = s.topic()
    s.call("WriteTxnMarkers", v, markers((s.literal(987654242), 0, True, 0, 0, [(t.name, [0])])))
    s.call("WriteTxnMarkers", v, markers((s.literal(987654242), 0, True, 0, 0, [(t.name, [0, 7]), (s.name("missing"), [0])])), note="no such partition")
    s.call("WriteTxnMarkers", v, markers(), note="none")


@scenario("1-2", cases={"same epoch": (0, 2), "old epoch": (-1, 2), "same epoch, old protocol": (0, 0), "old epoch, old protocol": (-1, 0)})
def markers_in(s, v, which):
    t = s.topic()
    p = TransactionalProducer(s)
    p.write(t, b"a")
    p.end()
    p.complete()
    p.write(t, b"b")
    epoch, protocol = which
    s.call("WriteTxnMarkers", v, markers((p.id, p.epoch + epoch, False, 0, protocol, [(t.name, [0])])))
    read(s, t)


# --- What describes them

@scenario()
def described(s):
    t = s.topic(partitions=3)
    p = TransactionalProducer(s)
    describe(s, p, "at first")
    p.write(t, b"a")
    describe(s, p, "open")
    s.call("DescribeProducers", 0, {"Topics": [{"Name": t.name, "PartitionIndexes": [0, 1, 9]}, {"Name": s.name("missing"), "PartitionIndexes": [0]},
                                               {"Name": "not a topic!", "PartitionIndexes": [0]}]})
    s.call("DescribeTransactions", 0, {"TransactionalIds": ["", p.name + "x", p.name]}, note="others")
    s.call("DescribeTransactions", 0, {"TransactionalIds": []}, note="none")


@scenario("0-2")
def listed(s, v):
    t = s.topic()
    p = TransactionalProducer(s)
    p.write(t, b"a")
    known = {"ProducerIdFilters": [p.id], "StateFilters": [], "DurationFilter": -1, "TransactionalIdPattern": None}
    s.call("ListTransactions", v, known)
    s.call("ListTransactions", v, known | {"StateFilters": ["Ongoing"]}, note="open ones")
    s.call("ListTransactions", v, known | {"StateFilters": ["Empty", "CompleteCommit"]}, note="others")
    s.call("ListTransactions", v, known | {"StateFilters": ["ongoing", "Nonsense"]}, note="unknown states")
    if v >= 1:
        s.call("ListTransactions", v, known | {"DurationFilter": 3600000}, note="for an hour")
        s.until(lambda a: a["TransactionStates"], "ListTransactions", v, known | {"DurationFilter": 0}, note="for a moment")
    if v >= 2:
        s.call("ListTransactions", v, known | {"TransactionalIdPattern": p.name[:-1]}, note="a part")
        s.call("ListTransactions", v, known | {"TransactionalIdPattern": p.name[:-1] + "."}, note="a pattern")
        s.call("ListTransactions", v, known | {"TransactionalIdPattern": ""}, note="an empty pattern")
        s.call("ListTransactions", v, known | {"TransactionalIdPattern": "(["}, note="no pattern")
