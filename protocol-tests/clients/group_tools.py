"""Kafka's own tools on groups: kafka-consumer-groups in every form, kafka-groups, kafka-configs on groups, kafka-get-offsets."""

import datetime
import time

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, TopicPartition

from .asking import fill
from .confluent import admin
from .group_members import describe, expect_no_lag, expect_state, table, together
from .members import Member, partitions, share
from .suite import equal, eventually, matches, test, within

PROTOCOLS = ["classic", "consumer"]


def groups(run, *arguments, **options):
    return run.java("kafka-consumer-groups", *arguments, **options)


def filled(run, count=1, records=10, name=None):
    """A topic with as many records in each of its partitions."""
    topic = run.create_topic(name, count)
    fill(run.bootstrap, topic, count, records)
    return topic


def commit(run, group, offsets):
    """Commits {(topic, partition): offset} as a consumer without a membership does."""
    consumer = Consumer({"bootstrap.servers": run.bootstrap, "group.id": group, "log_level": 2})
    try:
        wanted = [TopicPartition(topic, partition, offset) for (topic, partition), offset in offsets.items()]
        for done in consumer.commit(offsets=wanted, asynchronous=False):
            assert not done.error, done.error
    finally:
        consumer.close()


def offsets_of(run, group):
    """What --describe says of each partition: (committed, end, lag)."""
    rows = describe(run, group, "--offsets")
    return {(row["TOPIC"], int(row["PARTITION"])): (row["CURRENT-OFFSET"], row["LOG-END-OFFSET"], row["LAG"]) for row in rows}


@test()
def lists(run):
    """--list by state and by type, of live and of empty groups, and the same by kafka-groups."""
    topic, group = filled(run), f"{run.topic}-group"
    commit(run, f"{group}-simple", {(topic, 0): 3})
    live = [Member(run, "confluent", protocol, f"{group}-{protocol}", topics=topic) for protocol in PROTOCOLS]
    for member in live:
        share([member], partitions(topic, 1))
        member.commit()
    classic, consumer, simple = f"{group}-classic", f"{group}-consumer", f"{group}-simple"

    def listed(*arguments):
        lines = [line.split() for line in groups(run, "--list", *arguments).splitlines()]
        return sorted([words[0].removeprefix(f"{group}-"), *words[1:]] for words in lines if words and words[0].startswith(group))

    def settled():
        equal(listed(), [["classic"], ["consumer"], ["simple"]])
        equal(listed("--state"), [["classic", "Stable"], ["consumer", "Stable"], ["simple", "Empty"]])
    eventually(settled)
    equal(listed("--state", "stable"), [["classic", "Stable"], ["consumer", "Stable"]])
    equal(listed("--state", "Empty,Stable"), listed("--state"))
    equal(listed("--state", "PreparingRebalance"), [])
    equal(listed("--state", "Reconciling,Assigning"), [])
    equal(listed("--type"), [["classic", "Classic"], ["consumer", "Consumer"], ["simple", "Classic"]])
    equal(listed("--type", "classic"), [["classic", "Classic"], ["simple", "Classic"]])
    equal(listed("--type", "consumer"), [["consumer", "Consumer"]])
    equal(listed("--state", "stable", "--type", "consumer"), [["consumer", "Consumer", "Stable"]])
    within("Invalid state", groups(run, "--list", "--state", "sleepy", fails=True))
    within("Invalid types", groups(run, "--list", "--type", "sleepy", fails=True))

    everything = run.java("kafka-groups", "--list")
    for name, kind, protocol in [(classic, "Classic", "consumer"), (consumer, "Consumer", "consumer"), (simple, "Classic", "")]:
        matches(rf"^{name} +{kind} *{protocol} *$", everything)
    assert classic not in run.java("kafka-groups", "--list", "--group-type", "consumer"), "a classic group among the others"
    within(classic, run.java("kafka-groups", "--list", "--consumer"))
    within(simple, run.java("kafka-groups", "--list", "--protocol", ""))

    for member in live:
        member.close()
    eventually(lambda: equal([words[1] for words in listed("--state")], ["Empty"] * 3))


@test()
def describes(run):
    """--describe of a live group in every form: offsets and lag, members, their assignments, the state."""
    def scenario(client, protocol):
        topic = filled(run, 3, 10, f"{run.topic}-{protocol}")
        idle = filled(run, 1, 4, f"{run.topic}-{protocol}-idle")
        group = f"{topic}-group"
        commit(run, group, {(idle, 0): 1})
        member = Member(run, client, protocol, group, "watcher", topics=topic, instance="here")
        share([member], partitions(topic, 3))
        eventually(lambda: equal(len(member.records), 30))
        member.commit()
        run.kcat("-P", "-t", topic, "-p", 1, input="more\nand more\n")
        eventually(lambda: equal(len(member.records), 32))

        found = {(row["TOPIC"], row["PARTITION"]): row for row in describe(run, group)}
        equal(sorted(found), sorted([(topic, "0"), (topic, "1"), (topic, "2"), (idle, "0")]))
        equal([found[topic, "1"][k] for k in ("CURRENT-OFFSET", "LOG-END-OFFSET", "LAG", "HOST", "CLIENT-ID")], ["10", "12", "2", "/127.0.0.1", "watcher"])
        equal([found[topic, "2"][k] for k in ("CURRENT-OFFSET", "LOG-END-OFFSET", "LAG")], ["10", "10", "0"])
        equal([found[idle, "0"][k] for k in ("CURRENT-OFFSET", "LOG-END-OFFSET", "LAG", "CONSUMER-ID", "HOST", "CLIENT-ID")], ["1", "4", "3", "-", "-", "-"])
        equal(found, {(row["TOPIC"], row["PARTITION"]): {k: v for k, v in row.items() if k != "LEADER-EPOCH"} for row in describe(run, group, "--offsets", "--verbose")})

        [row] = describe(run, group, "--members")
        equal([row[k] for k in ("GROUP", "HOST", "CLIENT-ID", "#PARTITIONS")], [group, "/127.0.0.1", "watcher", "3"])
        equal(row["CONSUMER-ID"], found[topic, "1"]["CONSUMER-ID"])
        verbose = groups(run, "--describe", "--group", group, "--members", "--verbose")
        [row] = table(verbose)
        equal((row["GROUP-INSTANCE-ID"], row["CURRENT-ASSIGNMENT"]), ("here", f"{topic}:0,1,2"))
        if protocol == "consumer":
            equal((row["TARGET-ASSIGNMENT"], row["CURRENT-EPOCH"]), (f"{topic}:0,1,2", row["TARGET-EPOCH"]))
        [row] = describe(run, group, "--state")
        equal([row[k] for k in ("COORDINATOR(ID)", "STATE", "#MEMBERS", "ASSIGNMENT-STRATEGY")],
              [f"{run.bootstrap}(1)", "Stable", "1", "range" if protocol == "classic" else "uniform"])
        [row] = describe(run, group, "--state", "--verbose")
        equal(row["STATE"], "Stable")

        refuses_while_active(group, topic)
        member.close()
        member.kill()

    def refuses_while_active(group, topic):
        within("current state is Stable", groups(run, "--reset-offsets", "--group", group, "--topic", topic, "--to-earliest", "--execute"))
        within("GroupNotEmptyException", groups(run, "--delete", "--group", group))
        within("subscribed", groups(run, "--delete-offsets", "--group", group, "--topic", topic))
        equal(offsets_of(run, group)[topic, 0], ("10", "10", "0"))

    together([("confluent", protocol) for protocol in PROTOCOLS], scenario)


@test()
def describes_many(run):
    """--describe of empty groups, of several, of all, and of none."""
    topic, group = filled(run, 2), f"{run.topic}-group"
    one, two = f"{group}-one", f"{group}-two"
    commit(run, one, {(topic, 0): 3, (topic, 1): 10})
    commit(run, two, {(topic, 0): 0})
    idle = f"Consumer group '{one}' has no active members."
    within(idle, groups(run, "--describe", "--group", one, all_of_it=True))
    equal(offsets_of(run, one), {(topic, 0): ("3", "10", "7"), (topic, 1): ("10", "10", "0")})
    [row] = describe(run, two, "--offsets")
    equal((row["GROUP"], row["LAG"], row["CLIENT-ID"]), (two, "10", "-"))
    within(idle, groups(run, "--describe", "--group", one, "--members", all_of_it=True))
    expect_state(run, one, "Empty", 0)
    both = groups(run, "--describe", "--group", one, "--group", two)
    equal({row["GROUP"] for part in both.split("\n\n") if "GROUP" in part for row in table(part)}, {one, two})
    everything = groups(run, "--describe", "--all-groups", "--state")
    within(one, everything)
    within(two, everything)
    within(one, groups(run, "--describe", "--all-groups", "--offsets"))
    within("GroupIdNotFoundException", groups(run, "--describe", "--group", f"{group}-none"))


@test()
def resets_offsets(run):
    """--reset-offsets to everything it can be told."""
    topic, group = filled(run, 2, 10), f"{run.topic}-group"
    other = filled(run, 1, 5, f"{run.topic}-other")
    time.sleep(0.01)
    middle = time.time()
    time.sleep(0.01)
    fill(run.bootstrap, topic, 2)
    start = {(topic, 0): 15, (topic, 1): 15, (other, 0): 2}
    commit(run, group, start)

    def reset(*arguments, how="--execute", scope=("--topic", topic)):
        """What the tool says it has set, or would set: {(topic, partition): offset}."""
        rows = table(groups(run, "--reset-offsets", "--group", group, *scope, *arguments, how))
        equal({row["GROUP"] for row in rows} - {group}, set())
        return {(row["TOPIC"], int(row["PARTITION"])): int(row["NEW-OFFSET"]) for row in rows}

    def committed():
        [found] = [asked.result(15) for asked in admin(run).list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)]).values()]
        return {(place.topic, place.partition): place.offset for place in found.topic_partitions}

    def resets(wanted, *arguments, scope=("--topic", topic)):
        """Says so when asked only, does so when told."""
        before = committed()
        wanted = {(topic, partition): offset for partition, offset in wanted.items()}
        equal(reset(*arguments, how="--dry-run", scope=scope), wanted, f"dry run of {arguments}")
        equal(committed(), before, "after a dry run")
        equal(reset(*arguments, scope=scope), wanted, str(arguments))
        equal(committed(), before | wanted, f"committed by {arguments}")

    moment = datetime.datetime.fromtimestamp(middle, datetime.timezone.utc)
    resets({0: 0, 1: 0}, "--to-earliest")
    resets({0: 20, 1: 20}, "--to-latest")
    resets({0: 7, 1: 7}, "--to-offset", 7)
    resets({0: 20, 1: 20}, "--to-offset", 99)
    resets({0: 13, 1: 13}, "--shift-by", -7)
    resets({0: 16, 1: 16}, "--shift-by", 3)
    resets({0: 20, 1: 20}, "--shift-by", 1000)
    resets({0: 0, 1: 0}, "--shift-by", -1000)
    resets({0: 10, 1: 10}, "--to-datetime", moment.strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3])
    resets({0: 0, 1: 0}, "--by-duration", "PT1H")
    resets({0: 20, 1: 20}, "--by-duration", "PT0S")
    resets({1: 4}, "--to-offset", 4, scope=("--topic", f"{topic}:1"))
    resets({0: 4, 1: 4}, "--to-offset", 4, scope=("--topic", f"{topic}:0,1"))
    resets({0: 4, 1: 4}, "--to-current")
    equal(committed()[other, 0], 2, "the other topic")
    equal(reset("--to-latest", scope=("--all-topics",)), {(topic, 0): 20, (topic, 1): 20, (other, 0): 5})
    equal(reset("--to-offset", 1, scope=("--topic", topic, "--topic", other)), {(topic, 0): 1, (topic, 1): 1, (other, 0): 1})
    equal(reset("--shift-by", 1, scope=("--all-topics",)), {(topic, 0): 2, (topic, 1): 2, (other, 0): 2})

    plan = run.folder / "plan.csv"
    plan.write_text(groups(run, "--reset-offsets", "--group", group, "--all-topics", "--to-offset", 3, "--dry-run", "--export"))
    equal(sorted(plan.read_text().split()), sorted(f'"{t}",{p},3' for t, p in start))
    equal(committed(), dict.fromkeys(start, 2), "after an export")
    equal(reset("--from-file", plan, scope=()), dict.fromkeys(start, 3))
    equal(committed(), dict.fromkeys(start, 3))
    plan.write_text(f"{topic},0,5\n{other},0,4\n")
    equal(reset("--from-file", plan, scope=()), {(topic, 0): 5, (other, 0): 4})

    newcomer = f"{group}-new"
    groups(run, "--reset-offsets", "--group", newcomer, "--topic", topic, "--to-offset", 6, "--execute")
    equal(offsets_of(run, newcomer), {(topic, 0): ("6", "20", "14"), (topic, 1): ("6", "20", "14")})
    everybody = groups(run, "--reset-offsets", "--all-groups", "--topic", topic, "--to-earliest", "--dry-run", "--timeout", 20000)
    for name in (group, newcomer):
        matches(rf"^{name} +{topic} +0 +0 *$", everybody)
    within("do not exist", groups(run, "--reset-offsets", "--group", group, "--topic", f"{topic}:9", "--to-earliest", "--dry-run"))


@test()
def deletes(run):
    """--delete of groups, --delete-offsets of topics and partitions."""
    topic, group = filled(run, 2), f"{run.topic}-group"
    other = filled(run, 1, 5, f"{run.topic}-other")
    commit(run, group, {(topic, 0): 3, (topic, 1): 4, (other, 0): 2})
    commit(run, f"{group}-2", {(topic, 0): 3})
    matches(rf"^{topic} +1 +Successful", groups(run, "--delete-offsets", "--group", group, "--topic", f"{topic}:1"))
    equal(offsets_of(run, group), {(topic, 0): ("3", "10", "7"), (other, 0): ("2", "5", "3")})
    groups(run, "--delete-offsets", "--group", group, "--topic", topic)
    equal(offsets_of(run, group), {(other, 0): ("2", "5", "3")})
    within("does not exist", groups(run, "--delete-offsets", "--group", f"{group}-none", "--topic", topic))
    said = groups(run, "--delete", "--group", group, "--group", f"{group}-2")
    within("was successful", said)
    left = groups(run, "--list").split()
    equal([name for name in left if name.startswith(group)], [])
    within("GroupIdNotFoundException", groups(run, "--delete", "--group", group))
    commit(run, group, {(topic, 1): 1})  # it can be made again, and knows nothing of before
    equal(offsets_of(run, group), {(topic, 1): ("1", "10", "9")})
    run.java("kafka-topics", "--delete", "--topic", topic)  # and its offsets go with their topic
    eventually(lambda: within("has no active members", groups(run, "--describe", "--group", group, all_of_it=True)))


@test()
def validates_regular_expressions(run):
    within("is valid", groups(run, "--validate-regex", "^orders-[0-9]+$"))
    within("is invalid: missing closing )", groups(run, "--validate-regex", "orders-("))


@test()
def console_consumer(run):
    """A group of the console consumer goes on where it stopped, by both protocols."""
    for protocol in PROTOCOLS:
        topic = filled(run, 1, 10, f"{run.topic}-{protocol}")

        def read(count):
            return run.java("kafka-console-consumer", "--topic", topic, "--group", f"{topic}-group", "--from-beginning", "--max-messages", count,
                            "--timeout-ms", 30000, "--command-property", f"group.protocol={protocol}").split()

        equal(read(7), [str(n) for n in range(7)])
        equal(read(3), ["7", "8", "9"])
        expect_no_lag(run, f"{topic}-group", topic, 1)


@test()
def configs_of_groups(run):
    """kafka-configs on groups: set, shown, used by the group's members, taken away."""
    group = f"{run.topic}-group"

    def configs(*arguments, **options):
        return run.java("kafka-configs", "--entity-type", "groups", "--entity-name", group, *arguments, **options)

    configs("--alter", "--add-config", "consumer.session.timeout.ms=1500,consumer.heartbeat.interval.ms=150")
    described = eventually(lambda: matches("(?s).*consumer.session.timeout.ms=1500.*", configs("--describe"))).group()
    within("consumer.heartbeat.interval.ms=150", described)
    within("consumer.session.timeout.ms=1500", configs("--describe", "--all"))
    within("consumer.session.timeout.ms", configs("--alter", "--add-config", "consumer.session.timeout.ms=999", fails=True))  # less than the broker lets be
    within("Unknown", configs("--alter", "--add-config", "no.such.config=1", fails=True))

    topic = filled(run, 2)
    kept, killed = (Member(run, "confluent", "consumer", group, name, topics=topic) for name in ("kept", "killed"))
    share([kept, killed], partitions(topic, 2))
    killed.kill()
    begun = time.monotonic()
    share([kept], partitions(topic, 2))
    assert time.monotonic() - begun < 2.8, "not the group's session timeout"
    kept.close()

    configs("--alter", "--delete-config", "consumer.session.timeout.ms,consumer.heartbeat.interval.ms")
    eventually(lambda: equal("consumer.session.timeout.ms=1500" in configs("--describe"), False))


@test()
def offsets_of_topics(run):
    """kafka-get-offsets knows the internal topic too, and its partitions by pattern."""
    topic, group = filled(run, 3, 7), f"{run.topic}-group"
    commit(run, group, {(topic, 0): 1})
    equal(run.java("kafka-get-offsets", "--topic", topic), "".join(f"{topic}:{p}:7\n" for p in range(3)))
    equal(run.java("kafka-get-offsets", "--topic-partitions", f"{topic}:1-3,{topic}:0", "--time", "earliest"), "".join(f"{topic}:{p}:0\n" for p in range(3)))
    ends = [line.split(":") for line in run.java("kafka-get-offsets", "--topic", "__consumer_offsets").split()]
    equal([int(words[1]) for words in ends], list(range(len(ends))))
    assert sum(int(words[2]) for words in ends) > 0, ends
    equal(run.java("kafka-get-offsets", "--topic", "__consumer_offsets", "--exclude-internal-topics", fails=True) != "", True)
