"""The resources of the config APIs beside topics: groups, client metrics and the broker's loggers, described and altered."""

from scenario import scenario
from scenarios.alter_configs import ask as replace
from scenarios.describe_configs import ask as describe
from scenarios.incremental_alter_configs import API, APPEND, BROKER, CLIENT_METRICS, DELETE, GROUP, LOGGER, SET, SUBTRACT, TOPIC, ask


def described(s, kind, name, wait=None, v=4, **more):
    """All keys of a resource, once `wait`'s keys have its values."""

    def current(answer):
        return {c["Name"]: c["Value"] for c in answer["Results"][0]["Configs"]}

    if wait is not None:
        s.quiet_until(lambda a: all(current(a).get(k) == x for k, x in wait.items()), "DescribeConfigs", 4, describe((kind, name)))
    s.call("DescribeConfigs", v, describe((kind, name), **more))


# --- groups


@scenario("1-4", cases={"plain": {}, "synonyms": {"synonyms": True}, "documentation": {"documentation": True}})
def group(s, v, how):
    described(s, GROUP, s.name(), v=v, **how)


@scenario([1, 4])
def group_without_a_name(s, v):
    described(s, GROUP, "", v=v)
    s.call("DescribeConfigs", v, describe((GROUP, s.name(), ["consumer.session.timeout.ms", "nope"]), (GROUP, s.name(), [])))


@scenario("0-1")
def group_set_and_delete(s, v):
    s.call(API, v, ask((GROUP, s.name(), [("consumer.session.timeout.ms", SET, "50000"), ("share.auto.offset.reset", SET, "earliest")])))
    described(s, GROUP, s.name(), {"consumer.session.timeout.ms": "50000"}, synonyms=True)
    s.call(API, v, ask((GROUP, s.name(), [("consumer.session.timeout.ms", DELETE, None)])))
    described(s, GROUP, s.name(), {"consumer.session.timeout.ms": "45000"})
    s.call(API, v, ask((GROUP, s.name(), [("share.auto.offset.reset", DELETE, None), ("consumer.heartbeat.interval.ms", DELETE, None)])))


GROUP_SETTINGS = {
    "unknown": [("no.such", SET, "1")],
    "deleted unknown": [("no.such", DELETE, None)],
    "not a number": [("consumer.session.timeout.ms", SET, "abc")],
    "below the range": [("consumer.session.timeout.ms", SET, "1")],
    "above the range": [("consumer.session.timeout.ms", SET, "99999999")],
    "zero heartbeat": [("consumer.heartbeat.interval.ms", SET, "0")],
    "heartbeat above the range": [("consumer.heartbeat.interval.ms", SET, "60000")],
    "heartbeat above the session": [("consumer.session.timeout.ms", SET, "45000"), ("consumer.heartbeat.interval.ms", SET, "15000")],
    "null": [("consumer.session.timeout.ms", SET, None)],
    "empty": [("consumer.session.timeout.ms", SET, "")],
    "twice": [("consumer.session.timeout.ms", SET, "50000"), ("consumer.session.timeout.ms", SET, "51000")],
    "appended": [("share.auto.offset.reset", APPEND, "latest")],
    "subtracted": [("consumer.session.timeout.ms", SUBTRACT, "1")],
    "appended unknown": [("no.such", APPEND, "1")],
    "no such reset": [("share.auto.offset.reset", SET, "middle")],
    "reset by duration": [("share.auto.offset.reset", SET, "by_duration:PT1H")],
    "reset by a bad duration": [("share.auto.offset.reset", SET, "by_duration:1h")],
    "reset by a negative duration": [("share.auto.offset.reset", SET, "by_duration:-PT1H")],
    "isolation": [("share.isolation.level", SET, "read_committed")],
    "no such isolation": [("share.isolation.level", SET, "serializable")],
    "isolation in capitals": [("share.isolation.level", SET, "READ_COMMITTED")],
    "broker's name": [("group.consumer.session.timeout.ms", SET, "50000")],
    "replicas of streams": [("streams.num.standby.replicas", SET, "1")],
    "too many replicas of streams": [("streams.num.standby.replicas", SET, "9")],
    "streams session": [("streams.session.timeout.ms", SET, "1000")],
    "streams heartbeat": [("streams.heartbeat.interval.ms", SET, "1")],
    "share session": [("share.session.timeout.ms", SET, "1000")],
    "share heartbeat": [("share.heartbeat.interval.ms", SET, "1")],
    "share lock": [("share.record.lock.duration.ms", SET, "1")],
    "good share lock": [("share.record.lock.duration.ms", SET, "20000")],
    "share deliveries": [("share.delivery.count.limit", SET, "1")],
    "share partition locks": [("share.partition.max.record.locks", SET, "1")],
    "initial rebalance": [("streams.initial.rebalance.delay.ms", SET, "-1")],
    "assignment interval": [("consumer.assignment.interval.ms", SET, "-1")],
    "assignment interval too large": [("consumer.assignment.interval.ms", SET, "999999999")],
    "two bad": [("consumer.session.timeout.ms", SET, "1"), ("consumer.heartbeat.interval.ms", SET, "x")],
    "spaces": [("consumer.session.timeout.ms", SET, " 50000 ")],
    "nothing": [],
}


@scenario("0-1", cases=GROUP_SETTINGS)
def group_settings(s, v, changes):
    s.call(API, v, ask((GROUP, s.name(), changes), validate_only=True))


@scenario([0, 1])
def group_settings_of_no_group(s, v):
    s.call(API, v, ask((GROUP, "", [("consumer.session.timeout.ms", SET, "50000")])))
    s.call(API, v, ask((GROUP, "", [])))
    s.call(API, v, ask((GROUP, "", [("no.such", SET, "50000")])))


@scenario("0-2")
def group_replaced(s, v):
    name = s.name()
    s.quiet(API, 1, ask((GROUP, name, [("consumer.session.timeout.ms", SET, "50000")])))
    s.call("AlterConfigs", v, replace((GROUP, name, {"consumer.heartbeat.interval.ms": "6000"})))
    described(s, GROUP, name, {"consumer.heartbeat.interval.ms": "6000"})
    s.call("AlterConfigs", v, replace((GROUP, name, {"no.such": "6000"}), (GROUP, "", {}), (GROUP, s.name("other"), {"consumer.heartbeat.interval.ms": "1"})))
    s.call("AlterConfigs", v, replace((GROUP, name, {})))
    described(s, GROUP, name, {"consumer.heartbeat.interval.ms": "5000"})


# --- client metrics


@scenario("1-4", cases={"plain": {}, "synonyms": {"synonyms": True}, "documentation": {"documentation": True}})
def client_metrics(s, v, how):
    described(s, CLIENT_METRICS, s.name(), v=v, **how)


@scenario("0-1")
def client_metrics_set_and_delete(s, v):
    s.call(API, v, ask((CLIENT_METRICS, s.name(), [("interval.ms", SET, "1000"), ("metrics", SET, "a,b"), ("match", SET, "client_id=.*,client_source_port=1")])))
    described(s, CLIENT_METRICS, s.name(), {"interval.ms": "1000"}, synonyms=True)
    s.call(API, v, ask((CLIENT_METRICS, s.name(), [("interval.ms", DELETE, None), ("metrics", DELETE, None), ("match", DELETE, None)])))
    described(s, CLIENT_METRICS, s.name(), {"interval.ms": "300000"})


METRICS_SETTINGS = {
    "unknown": [("no.such", SET, "1")],
    "not a number": [("interval.ms", SET, "x")],
    "lowest": [("interval.ms", SET, "100")],
    "too low": [("interval.ms", SET, "99")],
    "highest": [("interval.ms", SET, "3600000")],
    "too high": [("interval.ms", SET, "3600001")],
    "all": [("metrics", SET, "*")],
    "none": [("metrics", SET, "")],
    "spaces": [("metrics", SET, " a , b ")],
    "twice": [("metrics", SET, "a,a")],
    "appended": [("metrics", APPEND, "a")],
    "subtracted": [("metrics", SUBTRACT, "a")],
    "no such pattern": [("match", SET, "color=red")],
    "no pattern": [("match", SET, "client_id")],
    "empty pattern": [("match", SET, "")],
    "bad pattern": [("match", SET, "client_id=*")],
    "pattern with two": [("match", SET, "client_id=a=b")],
    "pattern twice": [("match", SET, "client_id=a,client_id=b")],
    "all patterns": [("match", SET, "client_instance_id=a,client_id=b,client_software_name=c,client_software_version=d,client_source_address=e,client_source_port=f")],
    "null": [("match", SET, None)],
    "nothing": [],
}


@scenario("0-1", cases=METRICS_SETTINGS)
def client_metrics_settings(s, v, changes):
    s.call(API, v, ask((CLIENT_METRICS, s.name(), changes), validate_only=True))


@scenario([0, 1])
def client_metrics_settings_of_no_name(s, v):
    s.call(API, v, ask((CLIENT_METRICS, "", [("interval.ms", SET, "1000")])))
    s.call(API, v, ask((CLIENT_METRICS, "", [])))
    s.call(API, v, ask((CLIENT_METRICS, "", [("no.such", SET, "1000")])))


@scenario("0-2")
def client_metrics_replaced(s, v):
    name = s.name()
    s.quiet(API, 1, ask((CLIENT_METRICS, name, [("interval.ms", SET, "1000")])))
    s.call("AlterConfigs", v, replace((CLIENT_METRICS, name, {"metrics": "x"})))
    described(s, CLIENT_METRICS, name, {"interval.ms": "300000"})
    s.call("AlterConfigs", v, replace((CLIENT_METRICS, name, {"no.such": "6000"}), (CLIENT_METRICS, "", {})))
    s.call("AlterConfigs", v, replace((CLIENT_METRICS, name, {})))


# --- loggers: of these only the root goes by one name in both brokers


@scenario("1-4", cases={"plain": {}, "synonyms": {"synonyms": True}, "documentation": {"documentation": True}}, exclusive=True)
def root_logger(s, v, how):
    s.call("DescribeConfigs", v, describe((LOGGER, "1", ["root", "no.such"]), **how))


@scenario("0-1", cases=["DEBUG", "WARN", "ERROR", "FATAL", "TRACE", "INFO"], exclusive=True)
def level_of_root(s, v, level):
    s.call(API, v, ask((LOGGER, "1", [("root", SET, level)])))
    s.call("DescribeConfigs", 4, describe((LOGGER, "1", ["root"])))
    s.call(API, v, ask((LOGGER, "1", [("root", SET, "INFO")])))
    s.call("DescribeConfigs", 4, describe((LOGGER, "1", ["root"])))


LEVELS = {
    "lower case": [("root", SET, "debug")],
    "no such": [("root", SET, "LOUD")],
    "off": [("root", SET, "OFF")],
    "all": [("root", SET, "ALL")],
    "empty": [("root", SET, "")],
    "null": [("root", SET, None)],
    "deleted root": [("root", DELETE, None)],
    "deleted unknown": [("no.such", DELETE, None)],
    "unknown": [("no.such", SET, "DEBUG")],
    "unknown and its level": [("no.such", SET, "LOUD")],
    "without a name": [("", SET, "DEBUG")],
    "appended": [("root", APPEND, "DEBUG")],
    "subtracted": [("root", SUBTRACT, "DEBUG")],
    "appended unknown": [("no.such", APPEND, "DEBUG")],
    "twice": [("root", SET, "DEBUG"), ("root", SET, "INFO")],
    "good and bad": [("root", SET, "DEBUG"), ("no.such", SET, "INFO")],
    "two bad": [("no.such", SET, "INFO"), ("root", SET, "x")],
    "nothing": [],
}


@scenario("0-1", cases=LEVELS, exclusive=True)
def levels(s, v, changes):
    s.call(API, v, ask((LOGGER, "1", changes)))
    s.call("DescribeConfigs", 4, describe((LOGGER, "1", ["root"])))


@scenario("0-1", exclusive=True)
def levels_validate_only(s, v):
    s.call(API, v, ask((LOGGER, "1", [("root", SET, "ERROR")]), validate_only=True))
    s.call(API, v, ask((LOGGER, "1", [("root", SET, "x")]), validate_only=True))
    s.call("DescribeConfigs", 4, describe((LOGGER, "1", ["root"])))


@scenario("0-1", cases={"another": "2", "not a number": "abc", "none": "", "plus": "+1", "zeros": "01", "too large": "99999999999", "space": " 1"})
def levels_of(s, v, name):
    s.call(API, v, ask((LOGGER, name, [("root", SET, "INFO")])))
    s.call(API, v, ask((LOGGER, name, [])))


@scenario("0-1")
def levels_beside_others(s, v):
    t = s.topic()
    info = [("root", SET, "INFO")]
    s.call(API, v, ask((TOPIC, t.name, [("retention.ms", SET, "5")]), (LOGGER, "1", info), (BROKER, "7", []), (LOGGER, "2", info), (TOPIC, s.name("none"), [])))
    s.call(API, v, ask((LOGGER, "1", info), (TOPIC, t.name, []), (LOGGER, "1", info)))


@scenario("0-2")
def levels_replaced(s, v):
    s.call("AlterConfigs", v, replace((LOGGER, "1", {"root": "INFO"})))
    s.call("AlterConfigs", v, replace((LOGGER, "x", {}), (LOGGER, "1", {"root": None})))


# --- what is wrong with several things at once


@scenario("0-1", cases={"unknown type": (0, "x"), "another broker": (BROKER, "2"), "unknown topic": (TOPIC, "no-such-topic"), "bad topic": (TOPIC, "a/b"), "no topic": (TOPIC, "")})
def twice_null_and_wrong(s, v, resource):
    kind, name = resource
    s.call(API, v, ask((kind, name, [("a", SET, "1"), ("a", SET, None)])), note="twice and null")
    s.call(API, v, ask((kind, name, [("a", SET, None), ("b", SET, None), ("retention.ms", SET, "1")])), note="null")
    s.call(API, v, ask((kind, name, [("a", SET, "1")])), note="unknown key")
    s.call(API, v, ask((kind, name, [("retention.ms", APPEND, "1")])), note="no list")
    s.call(API, v, ask((kind, name, [("retention.ms", SET, "x" * 32767)])), note="long")
    s.call(API, v, ask((kind, name, [])), note="nothing")


@scenario("0-2", cases={"unknown type": (0, "x"), "another broker": (BROKER, "2"), "unknown topic": (TOPIC, "no-such-topic"), "bad topic": (TOPIC, "a/b"), "no topic": (TOPIC, "")})
def replaced_twice_null_and_wrong(s, v, resource):
    kind, name = resource
    s.call("AlterConfigs", v, replace((kind, name, [("a", "1"), ("a", None)])), note="twice and null")
    s.call("AlterConfigs", v, replace((kind, name, [("a", None), ("b", None), ("retention.ms", "1")])), note="null")
    s.call("AlterConfigs", v, replace((kind, name, [("a", "1")])), note="unknown key")
    s.call("AlterConfigs", v, replace((kind, name, [])), note="nothing")
