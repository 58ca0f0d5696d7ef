"""One member of a group, by confluent-kafka. members.py says what it is called with, what it prints and what it obeys."""

import queue
import sys
import threading

from confluent_kafka import Consumer, KafkaError, KafkaException


def say(*words):
    print(*words, flush=True)


def config(options):
    classic = options["protocol"] == "classic"
    found = {
        "bootstrap.servers": options["bootstrap"],
        "group.id": options["group"],
        "group.protocol": options["protocol"],
        "client.id": options["id"],
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
        "topic.metadata.refresh.interval.ms": 500,
        "fetch.wait.max.ms": 100,
        "log_level": 2,
    }
    if classic:
        found |= {"session.timeout.ms": options["session"], "heartbeat.interval.ms": 200}
    if "instance" in options:
        found["group.instance.id"] = options["instance"]
    if "assignor" in options:
        found["partition.assignment.strategy" if classic else "group.remote.assignor"] = options["assignor"]
    return found


def names(partitions):
    return " ".join(f"{p.topic}:{p.partition}" for p in partitions)


def commit(consumer):
    try:
        consumer.commit(asynchronous=False)
    except KafkaException as e:
        if e.args[0].code() != KafkaError._NO_OFFSET:  # nothing new to commit
            raise


def revoked(consumer, partitions):
    commit(consumer)
    say("revoked", names(partitions))


def commands():
    lines = queue.SimpleQueue()

    def read():
        for line in sys.stdin:
            lines.put(line.strip())
        lines.put("close")

    threading.Thread(target=read, daemon=True).start()
    return lines


def main():
    options = dict(argument.split("=", 1) for argument in sys.argv[1:])
    consumer = Consumer(config(options))
    consumer.subscribe(options["topics"].split(",") if "topics" in options else [options["pattern"]],
                       on_assign=lambda _, partitions: say("assigned", names(partitions)), on_revoke=revoked,
                       on_lost=lambda _, partitions: say("lost", names(partitions)))
    lines, status = commands(), 0
    while True:
        message = consumer.poll(0.05)
        if message is not None and message.error():
            say("error", message.error().name(), message.error().str())
            if message.error().fatal():
                status = 1
                break
        elif message is not None:
            say("record", message.topic(), message.partition(), message.offset(), message.value().decode())
        try:
            command = lines.get_nowait()
        except queue.Empty:
            continue
        if command == "commit":
            commit(consumer)
            say("committed")
        elif command == "close":
            break
    consumer.close()
    say("closed")
    return status


if __name__ == "__main__":
    sys.exit(main())
