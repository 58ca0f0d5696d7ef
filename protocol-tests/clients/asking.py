"""Questions in raw frames, for what no client asks, or not so exactly."""

import time

from kafka_wire import messages
from kafka_wire.batches import Record, batch
from kafka_wire.connection import Connection

NOT_LED_YET = (3, 5, 6)  # UNKNOWN_TOPIC_OR_PARTITION, LEADER_NOT_AVAILABLE, NOT_LEADER_OR_FOLLOWER: of a topic just made


class Asking:
    def __init__(self, bootstrap):
        host, _, port = bootstrap.rpartition(":")
        self.connection, self.correlation_id = Connection(host, int(port), timeout=30), 0

    def __call__(self, api, version, body):
        self.correlation_id += 1
        self.connection.send(messages.request(api, version, body, self.correlation_id))
        return messages.response(api, version, self.connection.receive())[1]


def fill(bootstrap, topic, partitions=1, records=10):
    """Produces the values 0, 1, … to each partition, in one batch and of one time: clients cut batches and take times as it happens."""
    ask = Asking(bootstrap)
    whole = batch(*(Record(str(n).encode()) for n in range(records)), base_timestamp=time.time_ns() // 10**6)
    left = set(range(partitions))
    for _ in range(300):
        data = [{"Index": partition, "Records": whole} for partition in sorted(left)]
        answer = ask("Produce", 9, {"TransactionalId": None, "Acks": -1, "TimeoutMs": 30000, "TopicData": [{"Name": topic, "PartitionData": data}]})
        codes = {partition["Index"]: partition["ErrorCode"] for partition in answer["Responses"][0]["PartitionResponses"]}
        assert set(codes.values()) <= {0, *NOT_LED_YET}, codes
        left -= {partition for partition, code in codes.items() if code == 0}
        if not left:
            return
        time.sleep(0.1)
    raise AssertionError(f"{topic}: nobody leads {sorted(left)}")
