"""InitProducerId without a transactional id: an id for an idempotent producer. Its sequences are in idempotence.py."""

from scenario import scenario


def plain(**more):
    return {"TransactionalId": None, "TransactionTimeoutMs": 60000} | more


@scenario("0-5")
def a_new_id(s, v):
    s.call("InitProducerId", v, plain())


@scenario("0-5")
def each_time_another(s, v):
    first = s.call("InitProducerId", v, plain())
    second = s.call("InitProducerId", v, plain())
    third = s.call("InitProducerId", v, plain(), conn=1)
    s.record("all different", len({a["ProducerId"] for a in (first, second, third)}) == 3)


@scenario("0-5", cases=[0, -1, 2147483647, 900001, -2147483648])
def timeout_does_not_matter(s, v, timeout):
    s.call("InitProducerId", v, plain(TransactionTimeoutMs=timeout))


@scenario("0-5")
def empty_transactional_id(s, v):
    s.call("InitProducerId", v, plain(TransactionalId=""))


@scenario("3-5", cases={"both": (5, 3), "id without epoch": (5, -1), "epoch without id": (-1, 3), "zero": (0, 0), "lowest": (-5, -5),
                        "highest epoch": (7, 32767)})
def with_an_id_of_its_own(s, v, which):
    producer_id, epoch = which
    s.call("InitProducerId", v, plain(ProducerId=producer_id, ProducerEpoch=epoch))


@scenario("3-5")
def epoch_bump(s, v):
    """An idempotent producer that asks with its id gets a new one, whatever its epoch."""
    mine = s.call("InitProducerId", v, plain())
    s.call("InitProducerId", v, plain(ProducerId=mine["ProducerId"], ProducerEpoch=mine["ProducerEpoch"]))


@scenario("2-5")
def unknown_tags(s, v):
    s.call("InitProducerId", v, plain(_tags=[(0, b"x")]))


@scenario("2-5")
def malformed_transactional_id(s, v):
    from kafka_wire.messages import Raw

    s.call("InitProducerId", v, plain(TransactionalId=Raw(b"\x7fabc")))


@scenario()
def many(s):
    ids = set()
    for _ in range(50):
        ids.add(s.quiet("InitProducerId", 4, plain())["ProducerId"])
    s.record("different ids", len(ids))
    s.record("ascending", sorted(ids) == sorted(ids, key=int))
