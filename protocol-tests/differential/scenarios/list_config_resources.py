"""ListConfigResources: what can have settings, and has some if it is a group or client metrics. Of the whole broker's only the scenario's
own are looked at, and the brokers. Types are asked for from version 1."""

from kafka_wire.messages import Counted
from scenario import scenario
from scenarios.incremental_alter_configs import API as ALTER, BROKER, CLIENT_METRICS, DELETE, GROUP, LOGGER, SET, TOPIC, ask

API = "ListConfigResources"


def some_of_each(s):
    s.topic("t")
    group = [("consumer.session.timeout.ms", SET, "50000")]
    metrics = [("interval.ms", SET, "1000")]
    s.quiet(ALTER, 1, ask((GROUP, s.name("g"), group), (CLIENT_METRICS, s.name("m"), metrics), (GROUP, s.name("gone"), group), (CLIENT_METRICS, s.name("gone"), metrics)))
    s.quiet(ALTER, 1, ask((GROUP, s.name("gone"), [("consumer.session.timeout.ms", DELETE, None)]), (CLIENT_METRICS, s.name("gone"), [("interval.ms", DELETE, None)])))


def listed(s, v, types):
    """Once the broker knows of all that was changed."""
    wanted = {s.name("m"): 1} | ({s.name("g"): 1, s.name("t"): 1} if v > 0 else {})
    if types:
        kinds = {s.name("m"): CLIENT_METRICS, s.name("g"): GROUP, s.name("t"): TOPIC}
        wanted = [name for name in wanted if kinds[name] in types]

    def holds(answer):
        names = [resource["ResourceName"] for resource in answer["ConfigResources"]]
        return answer["ErrorCode"] != 0 or (all(name in names for name in wanted) and s.name("gone") not in names)

    s.until(holds, API, v, {"ResourceTypes": types} if v > 0 else {})


@scenario("0-1")
def all_types(s, v):
    some_of_each(s)
    listed(s, v, [])


TYPES = {"topics": [TOPIC], "brokers": [BROKER], "loggers": [LOGGER], "metrics": [CLIENT_METRICS], "groups": [GROUP], "two": [GROUP, TOPIC], "twice": [GROUP, GROUP],
         "unknown": [1], "zero": [0], "negative": [-1], "unknown and known": [GROUP, 64]}


@scenario([1], cases=TYPES)
def types(s, v, types):
    some_of_each(s)
    listed(s, v, types)


@scenario([1])
def null_types(s, v):
    s.call(API, v, {"ResourceTypes": None})


@scenario([1])
def more_types_than_there_are(s, v):
    s.call(API, v, {"ResourceTypes": Counted(5, [GROUP])})
