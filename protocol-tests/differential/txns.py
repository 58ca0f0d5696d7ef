"""The usual requests of transactional producers, and one that a scenario can lead through its transactions."""

from bodies import produce
from kafka_wire.batches import batch

CONCURRENT = 51
PASSING = (14, 15, 16, CONCURRENT)  # the coordinator loads, is not there, is elsewhere, or writes the markers of the transaction before


def settled(answer):
    """Whether an answer is one that stays: Kafka writes markers after it has answered EndTxn."""
    codes = [answer.get("ErrorCode", 0)]
    for result in answer.get("ResultsByTransaction", []):
        codes += [p["PartitionErrorCode"] for t in result["TopicResults"] for p in t["ResultsByPartition"]]
    for topic in answer.get("ResultsByTopicV3AndBelow", []):
        codes += [p["PartitionErrorCode"] for p in topic["ResultsByPartition"]]
    for topic in answer.get("Topics", []):
        codes += [p["ErrorCode"] for p in topic.get("Partitions", [])]
    for topic in answer.get("Responses", []):
        codes += [p["ErrorCode"] for p in topic.get("PartitionResponses", [])]
    return not any(code in PASSING for code in codes)


def init(transactional_id, producer_id=-1, epoch=-1, timeout_ms=60000):
    return {"TransactionalId": transactional_id, "TransactionTimeoutMs": timeout_ms, "ProducerId": producer_id, "ProducerEpoch": epoch}


def by_name(parts):
    topics = []
    for name, partition in parts:
        if not topics or topics[-1]["Name"] != name:
            topics.append({"Name": name, "Partitions": []})
        topics[-1]["Partitions"].append(partition)
    return topics


def add_partitions(transactional_id, producer_id, epoch, *parts, verify=False):
    """parts: (name, partition)."""
    topics = by_name(parts)
    return {
        "V3AndBelowTransactionalId": transactional_id, "V3AndBelowProducerId": producer_id, "V3AndBelowProducerEpoch": epoch,
        "V3AndBelowTopics": topics,
        "Transactions": [{"TransactionalId": transactional_id, "ProducerId": producer_id, "ProducerEpoch": epoch, "VerifyOnly": verify,
                          "Topics": topics}],
    }


def add_offsets(transactional_id, producer_id, epoch, group):
    return {"TransactionalId": transactional_id, "ProducerId": producer_id, "ProducerEpoch": epoch, "GroupId": group}


def end(transactional_id, producer_id, epoch, commit=True):
    return {"TransactionalId": transactional_id, "ProducerId": producer_id, "ProducerEpoch": epoch, "Committed": commit}


def commit_offsets(transactional_id, group, producer_id, epoch, *parts, generation=-1, member="", instance=None):
    """parts: (topic, partition, offset)."""
    topics = []
    for topic, partition, offset in parts:
        topics.append({"Name": topic.name if hasattr(topic, "name") else topic, "Partitions": [
            {"PartitionIndex": partition, "CommittedOffset": offset, "CommittedLeaderEpoch": -1, "CommittedMetadata": "m"}]})
    return {"TransactionalId": transactional_id, "GroupId": group, "ProducerId": producer_id, "ProducerEpoch": epoch,
            "GenerationId": generation, "MemberId": member, "GroupInstanceId": instance, "Topics": topics}


class TransactionalProducer:
    """Leads a transactional id through its transactions; what it does in preparation leaves no trace."""

    def __init__(self, s, name="tx"):
        self.s, self.name = s, s.name(name)
        s.quiet_until(lambda a: not a["Coordinators"][0]["ErrorCode"], "FindCoordinator", 6, {"KeyType": 1, "CoordinatorKeys": [self.name]})
        answer = s.quiet_until(settled, "InitProducerId", 5, init(self.name))
        self.id, self.epoch = answer["ProducerId"], answer["ProducerEpoch"]
        self.sequence = 0

    def records(self, *values, sequence=None, epoch=None):
        sequence = self.sequence if sequence is None else sequence
        return batch(*values, producer_id=self.id, producer_epoch=self.epoch if epoch is None else epoch, base_sequence=sequence,
                     attributes=0x10)

    def write(self, topic, *values, version=12, partition=0):
        """Begins a transaction by writing, as clients with transaction.version 2 do."""
        body = produce(topic, self.records(*values), partition=partition, transactional_id=self.name)
        self.s.quiet_until(settled, "Produce", version, body)
        self.sequence += len(values)

    def add(self, *parts, version=3):
        self.s.quiet_until(settled, "AddPartitionsToTxn", version, add_partitions(self.name, self.id, self.epoch, *parts))

    def end(self, commit=True, version=5):
        answer = self.s.quiet_until(settled, "EndTxn", version, end(self.name, self.id, self.epoch, commit))
        if version > 4 and not answer["ErrorCode"]:
            self.id, self.epoch, self.sequence = answer["ProducerId"], answer["ProducerEpoch"], 0

    def state(self):
        return self.s.quiet("DescribeTransactions", 0, {"TransactionalIds": [self.name]})["TransactionStates"][0]["TransactionState"]

    def complete(self):
        """Waits until the markers are written."""
        self.s.quiet_until(lambda a: not a["TransactionStates"][0]["TransactionState"].startswith("Prepare"), "DescribeTransactions", 0,
                           {"TransactionalIds": [self.name]})
