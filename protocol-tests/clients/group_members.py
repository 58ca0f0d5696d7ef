"""Groups of real consumers, by the classic protocol and KIP-848: who gets which partitions when members come, go and die, and which
records they read meanwhile. The members are processes, see members.py."""

import re
import time
from concurrent.futures import ThreadPoolExecutor

from .members import SESSION_MS, Feed, Member, burst, partitions, share, wait_for_values
from .suite import SHARED, equal, eventually, short, test

CLIENTS = ["java", "confluent", "franz-go", "kcat"]
VARIANTS = [(client, protocol) for client in CLIENTS for protocol in ("classic", "consumer") if (client, protocol) != ("kcat", "consumer")]
THREADS = ThreadPoolExecutor(len(VARIANTS))  # that do not end: the members would end with the thread that has started them
RANGE = {"java": "org.apache.kafka.clients.consumer.RangeAssignor"}  # Java's name for it


def together(variants, scenario):
    """The scenario for each of the (client, protocol) at the same time: most of it is waiting."""
    done = [(variant, THREADS.submit(scenario, *variant)) for variant in variants]
    failures = [(variant, result.exception()) for variant, result in done if result.exception()]
    if len(failures) == 1:
        raise failures[0][1]
    assert not failures, "\n".join(f"{client}, {protocol}: {type(e).__name__} {e}" for (client, protocol), e in failures)


def for_each_client(scenario):
    """A test for each client, of both protocols."""
    for client in CLIENTS:
        def both(run, client=client):
            together([variant for variant in VARIANTS if variant[0] == client], lambda *variant: scenario(run, *variant))
        both.__module__ = scenario.__module__
        test(name=f"{scenario.__name__}-{client}")(both)


def describe(run, group, *what):
    """The rows of a table of kafka-consumer-groups --describe, as dictionaries."""
    printed = run.java("kafka-consumer-groups", "--describe", "--group", group, *what)
    return table(printed)


def table(printed):
    """A row for each line under the line with the names of the columns."""
    lines = [re.sub(r" +\((ID|\d+)\)", r"(\1)", line).split() for line in printed.splitlines()]
    heads = [n for n, words in enumerate(lines) if words[:1] == ["GROUP"]]
    assert heads, f"no table: {short(printed)}"
    names = lines[heads[0]]
    return [dict(zip(names, words)) for words in lines[heads[0] + 1:] if len(words) == len(names) and words != names]


def expect_state(run, group, state, members):
    def check():
        [row] = describe(run, group, "--state")
        equal((row["STATE"], row["#MEMBERS"]), (state, str(members)))
    eventually(check)


def expect_no_lag(run, group, topic, count):
    def check():
        rows = [row for row in describe(run, group) if row["TOPIC"] == topic]
        equal(sorted((int(row["PARTITION"]), row["LAG"]) for row in rows), [(partition, "0") for partition in range(count)])
        equal([row for row in rows if row["CURRENT-OFFSET"] != row["LOG-END-OFFSET"]], [])
    eventually(check)


@for_each_client
def come_and_go(run, client, protocol):
    """Members join, leave and die under load. Nothing is read twice, but for what a dead member had not committed."""
    topic = run.create_topic(f"{run.topic}-{protocol}", 6)
    group = f"{topic}-group"
    # kcat may lose what it has fetched when it is to give a partition back: it gets records in quiet times only.
    flow = Feed(run, topic, 6, "flow ") if client != "kcat" else None
    a = Member(run, client, protocol, group, "a", topics=topic)
    share([a], partitions(topic, 6))
    b = Member(run, client, protocol, group, "b", topics=topic)
    share([a, b], partitions(topic, 6))
    c = Member(run, client, protocol, group, "c", topics=topic)
    share([a, b, c], partitions(topic, 6))
    expect_state(run, group, "Stable", 3)
    values = burst(run, topic, 6, "three ")
    if not flow:
        wait_for_values([a, b, c], values)
    c.close()
    share([a, b], partitions(topic, 6))
    values += flow.end() if flow else []
    wait_for_values([a, b, c], values)

    flow = Feed(run, topic, 6, "more ") if client != "kcat" else None
    d = Member(run, client, protocol, group, "d", topics=topic)
    share([a, b, d], partitions(topic, 6))
    d.kill()
    killed = time.monotonic()
    share([a, b], partitions(topic, 6))
    assert time.monotonic() - killed < SESSION_MS / 1000 + 5, "much later than the session's end"
    values += flow.end() if flow else []
    wait_for_values([a, b, c, d], values, once=False)

    run.java("kafka-topics", "--alter", "--topic", topic, "--partitions", 9)
    share([a, b], partitions(topic, 9))
    values += burst(run, topic, 9, "nine ")
    wait_for_values([a, b, c, d], values, once=False)
    a.close()
    share([b], partitions(topic, 9))
    b.close()
    expect_state(run, group, "Empty", 0)
    expect_no_lag(run, group, topic, 9)

    e = Member(run, client, protocol, group, "e", topics=topic)
    share([e], partitions(topic, 9))
    wait_for_values([e], burst(run, topic, 9, "last "))
    e.close()


def moves(member):
    """The changes of its assignment that did change something."""
    return [change for change in member.changes if change[1]]


@for_each_client
def static_members(run, client, protocol):
    """A static member that comes back in time has its partitions again, and the others notice nothing. One that does not is gone."""
    topic = run.create_topic(f"{run.topic}-{protocol}", 4)
    group = f"{topic}-group"
    session = SESSION_MS if client == "confluent" else 40_000  # a JVM takes its time on a busy machine
    run.java("kafka-configs", "--alter", "--entity-type", "groups", "--entity-name", group, "--add-config", f"consumer.session.timeout.ms={session}")

    def join(name, instance):
        return Member(run, client, protocol, group, name, topics=topic, instance=instance, session=session)

    a, b = join("a", "one"), join("b", "two")
    share([a, b], partitions(topic, 4))
    held, b_changes = a.assignment, moves(b)
    if protocol == "classic":
        ends = [Member.close, Member.kill]
    else:  # killed, it keeps its instance id till its session ends; and franz-go's farewell lacks the instance id, so that brokers refuse it
        ends = [Member.close] if client != "franz-go" else []
    for end in ends:
        end(a)
        a = join("a", "one")
        eventually(lambda: a.expect(a.assignment == held, f"has not got {held} again"), 40)
        equal(moves(b), b_changes, "changes for the other member")
    expect_state(run, group, "Stable", 2)

    double = join("double", "two")
    if protocol == "classic":  # the newcomer fences the older one
        share([a, double], partitions(topic, 4))
        if client != "kcat":  # it does not say
            eventually(lambda: b.expect(b.said("fenced"), "was not fenced"))
    else:  # it is refused while the older one lives
        eventually(lambda: double.expect(double.said("unreleased", "still used"), "was not refused"), 40)
        share([a, b], partitions(topic, 4))
        double, b = b, double
    b.kill()
    a.kill()
    if client == "confluent":
        share([double], partitions(topic, 4))


@test()
def regular_expressions(run):
    """Topics that match are taken when they come, and given back when they go."""
    def scenario(client, protocol):
        base = f"{run.topic}-{client}-{protocol}"
        one, two = run.create_topic(f"{base}-1", 2), run.create_topic(f"{base}-2", 2)
        run.create_topic(f"{base}-other", 2)
        member = Member(run, client, protocol, base, pattern=f"^{base}-[0-9]+$")
        share([member], partitions(one, 2) + partitions(two, 2))
        three = run.create_topic(f"{base}-3", 1)
        share([member], partitions(one, 2) + partitions(two, 2) + partitions(three, 1))
        if client in ("confluent", "franz-go"):  # the Java consumer and kcat stumble over a topic that is deleted, with Kafka too
            run.java("kafka-topics", "--delete", "--topic", one)
            share([member], partitions(two, 2) + partitions(three, 1))
        member.close()

    together(VARIANTS, scenario)


@test(own_broker=True)
def restarts_of_the_broker(run):
    """Committed offsets survive kill -9 and a clean restart; members that live on carry on."""
    session = 30_000  # longer than the broker is away
    broker = run.new_broker(settings=SHARED | {"group.consumer.session.timeout.ms": session}).start()
    run.use(broker)
    count = 2
    topics = {variant: run.create_topic("-".join(variant), count) for variant in VARIANTS}
    members = {}

    def read(client, protocol):
        topic = topics[client, protocol]
        member = members[client, protocol] = Member(run, client, protocol, f"{topic}-group", topics=topic, session=session)
        share([member], partitions(topic, count))
        wait_for_values([member], burst(run, topic, count, "first "))
        if client != "kcat":  # it commits by itself
            member.commit()
        expect_no_lag(run, f"{topic}-group", topic, count)

    def read_on(client, protocol):
        topic, member = topics[client, protocol], members[client, protocol]
        expect_no_lag(run, f"{topic}-group", topic, count)
        read_before = member.values()
        wait_for_values([member], read_before + burst(run, topic, count, "second "))
        member.close()

    def resume(client, protocol):
        topic = topics[client, protocol]
        member = Member(run, client, protocol, f"{topic}-group", topics=topic)
        share([member], partitions(topic, count))
        wait_for_values([member], burst(run, topic, count, "third "))
        member.close()

    together(VARIANTS, read)
    broker.kill()
    broker.start()
    together(VARIANTS, read_on)
    broker.stop()
    broker.start()
    for topic in topics.values():
        expect_no_lag(run, f"{topic}-group", topic, count)
    together(VARIANTS, resume)
    equal(sorted(run.java("kafka-consumer-groups", "--list").split()), sorted(f"{topic}-group" for topic in topics.values()))


@test()
def upgrade_and_downgrade(run):
    """A group moves to KIP-848 and back, member by member, and reads everything once."""
    def type_is(group, wanted):
        eventually(lambda: equal([t for t in ("Classic", "Consumer") if group in run.java("kafka-consumer-groups", "--list", "--type", t)], [wanted]))

    def scenario(client, _):
        topic = run.create_topic(f"{run.topic}-{client}", 6)
        group, all_of_it = f"{topic}-group", partitions(topic, 6)
        feed = Feed(run, topic, 6)
        everybody = []

        def join(name, protocol):
            everybody.append(Member(run, client, protocol, group, name, topics=topic))
            return everybody[-1]

        a, b = join("a", "classic"), join("b", "classic")
        share([a, b], all_of_it)
        type_is(group, "Classic")
        a.close()
        new_a = join("new a", "consumer")
        share([b, new_a], all_of_it)
        type_is(group, "Consumer")
        b.close()
        new_b = join("new b", "consumer")
        share([new_a, new_b], all_of_it)
        c = join("c", "classic")
        share([new_a, new_b, c], all_of_it)
        type_is(group, "Consumer")
        new_a.close()
        share([new_b, c], all_of_it)
        new_b.close()
        share([c], all_of_it)
        type_is(group, "Classic")
        wait_for_values(everybody, feed.end())
        c.close()
        expect_no_lag(run, group, topic, 6)

    together([(client, "both") for client in CLIENTS if client != "kcat"], scenario)


@test()
def many_clients_in_one_group(run):
    """Clients of all kinds share the partitions of a group."""
    def scenario(_, protocol):
        topic = run.create_topic(f"{run.topic}-{protocol}", 8)
        group = f"{topic}-group"
        feed = Feed(run, topic, 8)
        members = []
        for client in [client for client, its_protocol in VARIANTS if its_protocol == protocol]:
            assignor = RANGE.get(client, "range") if protocol == "classic" else "range"
            members.append(Member(run, client, protocol, group, client, topics=topic, assignor=assignor))
        share(members, partitions(topic, 8))
        rows = describe(run, group, "--members")
        equal(sorted((row["CLIENT-ID"], row["#PARTITIONS"]) for row in rows), sorted((m.client, str(len(m.assignment))) for m in members))
        wait_for_values(members, feed.end())
        for member in members:
            member.close()
        expect_no_lag(run, group, topic, 8)

    together([("all", "classic"), ("all", "consumer")], scenario)
