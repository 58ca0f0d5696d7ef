"""FindCoordinator: of a group (key type 0), a transaction (1), a share partition (2). What it finds; who coordinates is for other files."""

from scenario import scenario


def found(answer):
    if "Coordinators" in answer:
        return not any(c["ErrorCode"] == 15 for c in answer["Coordinators"])
    return answer["ErrorCode"] != 15


@scenario("0-6")
def of_a_group(s, v):
    s.until(found, "FindCoordinator", v, {"Key": s.name("group"), "CoordinatorKeys": [s.name("group")]}, seconds=2)


@scenario("1-6")
def of_a_transaction(s, v):
    s.until(found, "FindCoordinator", v, {"Key": s.name("tx"), "KeyType": 1, "CoordinatorKeys": [s.name("tx")]}, seconds=2)


@scenario("4-6")
def of_several_groups(s, v):
    s.until(found, "FindCoordinator", v, {"CoordinatorKeys": [s.name("b"), s.name("a"), s.name("c")]}, seconds=2)


@scenario("4-6")
def no_keys(s, v):
    s.call("FindCoordinator", v, {"CoordinatorKeys": []})


@scenario("4-6")
def same_key_twice(s, v):
    s.until(found, "FindCoordinator", v, {"CoordinatorKeys": [s.name("g"), s.name("g")]}, seconds=2)


@scenario("0-6")
def empty_key(s, v):
    s.until(found, "FindCoordinator", v, {"Key": "", "CoordinatorKeys": [""]}, seconds=2)


@scenario("1-6", cases=[3, 4, -1, 127])
def unknown_key_type(s, v, kind):
    s.call("FindCoordinator", v, {"Key": s.name("x"), "KeyType": kind, "CoordinatorKeys": [s.name("x"), s.name("y")]})


@scenario("1-5")
def share_type_at_an_old_version(s, v):
    """Version 6 brought it."""
    s.call("FindCoordinator", v, {"Key": "g:bm8tc3VjaC10b3BpYy1pZA:0", "KeyType": 2, "CoordinatorKeys": ["g:bm8tc3VjaC10b3BpYy1pZA:0"]})


SHARE_KEYS = {
    "no colon": "abc",
    "empty": "",
    "one colon": "g:bm8tc3VjaC10b3BpYy1pZA",
    "no group": ":bm8tc3VjaC10b3BpYy1pZA:0",
    "id not an id": "g:notanid:0",
    "partition not a number": "g:bm8tc3VjaC10b3BpYy1pZA:x",
    "negative partition": "g:bm8tc3VjaC10b3BpYy1pZA:-1",
    "four parts": "g:bm8tc3VjaC10b3BpYy1pZA:0:1",
}


@scenario([6], cases=SHARE_KEYS)
def malformed_share_key(s, v, key):
    s.call("FindCoordinator", v, {"KeyType": 2, "CoordinatorKeys": [key]})


@scenario("0-3")
def null_key(s, v):
    s.call("FindCoordinator", v, {"Key": None})


@scenario("4-6")
def null_keys(s, v):
    s.call("FindCoordinator", v, {"CoordinatorKeys": None})
    s.call("FindCoordinator", v, {"CoordinatorKeys": [None]}, conn=1)


@scenario("3-6")
def unknown_tags(s, v):
    s.call("FindCoordinator", v, {"Key": "x", "KeyType": 9, "CoordinatorKeys": ["x"], "_tags": [(4, b"abc")]})
