"""ApiVersions, which a client sends first and at a version of its own choosing."""

from kafka_wire.messages import Raw
from scenario import scenario

WHAT_IS_SERVED = ("ApiKeys", "SupportedFeatures", "FinalizedFeatures")
CLIENT = {"ClientSoftwareName": "differential", "ClientSoftwareVersion": "1.0"}


@scenario("0-4")
def answers(s, v):
    s.call("ApiVersions", v, CLIENT)


@scenario("0-4")
def again_on_the_same_connection(s, v):
    s.call("ApiVersions", v, CLIENT, without=WHAT_IS_SERVED)
    s.call("ApiVersions", 4 - v, CLIENT, without=WHAT_IS_SERVED)


@scenario("0-4", cases={"null": None, "empty": "", "long": "c" * 1000, "utf8": "ключ"})
def client_id(s, v, client_id):
    s.call("ApiVersions", v, CLIENT, client_id=client_id, without=WHAT_IS_SERVED)


@scenario([5, 6, 99, 32767])
def too_new(s, v):
    """Answered in version 0, so that the client can start over."""
    s.send("ApiVersions", v, CLIENT)
    s.receive("ApiVersions", 0)
    s.call("ApiVersions", 4, CLIENT, without=WHAT_IS_SERVED)


@scenario([-1, -32768])
def negative_version(s, v):
    s.send("ApiVersions", v, CLIENT)
    s.receive("ApiVersions", 0)


@scenario([5, 99])
def too_new_with_an_empty_body(s, v):
    s.frame(bytes([0, 18, 0, v, 0, 0, 0, 7, 255, 255, 0]))
    s.receive("ApiVersions", 0)


@scenario([5, 99])
def too_new_without_header_tags(s, v):
    s.frame(bytes([0, 18, 0, v, 0, 0, 0, 7, 255, 255]))
    s.ending()


SOFTWARE_NAMES = {
    "empty": "",
    "plain": "a",
    "dots and dashes": "a.b-c.d",
    "ends with dash": "abc-",
    "starts with dot": ".abc",
    "starts with dash": "-abc",
    "digits": "123",
    "inner space": "a b",
    "underscore": "a_b",
    "slash": "a/b",
    "utf8": "имя",
    "newline": "a\n",
    "long": "x" * 5000,
}


@scenario([3, 4], cases=SOFTWARE_NAMES)
def software_name(s, v, name):
    s.call("ApiVersions", v, CLIENT | {"ClientSoftwareName": name}, without=WHAT_IS_SERVED)
    s.call("ApiVersions", v, CLIENT, note="afterwards", without=WHAT_IS_SERVED)


@scenario([3, 4], cases=SOFTWARE_NAMES)
def software_version(s, v, version):
    s.call("ApiVersions", v, CLIENT | {"ClientSoftwareVersion": version}, without=WHAT_IS_SERVED)
    s.call("ApiVersions", v, CLIENT, note="afterwards", without=WHAT_IS_SERVED)


@scenario([3, 4], cases=["ClientSoftwareName", "ClientSoftwareVersion"])
def null_for_a_string(s, v, field):
    s.call("ApiVersions", v, CLIENT | {field: None}, without=WHAT_IS_SERVED)


@scenario([3, 4])
def leftover_bytes(s, v):
    s.call("ApiVersions", v, CLIENT | {"ClientSoftwareVersion": Raw(b"\x021" + b"\x00" + b"left over")}, without=WHAT_IS_SERVED)


@scenario([0, 1, 2])
def body_where_none_is_expected(s, v):
    s.call("ApiVersions", v, {"_tags": []}, without=WHAT_IS_SERVED)
    s.frame(bytes([0, 18, 0, v, 0, 0, 0, 9, 0, 1, 99]) + b"left over")
    s.receive("ApiVersions", v, without=WHAT_IS_SERVED)


@scenario([3, 4])
def unknown_tags(s, v):
    s.call("ApiVersions", v, CLIENT | {"_tags": [(0, b"x"), (9, b""), (1000000, b"abc")]}, header_tags=[(5, b"header")], without=WHAT_IS_SERVED)


@scenario([3, 4])
def tags_out_of_order(s, v):
    s.call("ApiVersions", v, CLIENT | {"_tags": [(9, b"x"), (3, b"")]}, without=WHAT_IS_SERVED)


@scenario([3, 4])
def unknown_tag_twice(s, v):
    s.call("ApiVersions", v, CLIENT | {"_tags": [(9, b"x"), (9, b"y")]}, without=WHAT_IS_SERVED)


@scenario([3, 4])
def tag_longer_than_the_frame(s, v):
    s.call("ApiVersions", v, CLIENT | {"ClientSoftwareVersion": Raw(b"\x021" + b"\x01\x05\x7fab")}, without=WHAT_IS_SERVED)


@scenario([3, 4])
def body_missing(s, v):
    s.frame(bytes([0, 18, 0, v, 0, 0, 0, 7, 255, 255, 0]))
    s.ending()


@scenario([3, 4])
def truncated_body(s, v):
    s.frame(bytes([0, 18, 0, v, 0, 0, 0, 7, 255, 255, 0]) + b"\x20abc")
    s.ending()


@scenario()
def pipelined_at_all_versions(s):
    for v in range(5):
        s.send("ApiVersions", v, CLIENT)
    for v in range(5):
        s.receive("ApiVersions", v, without=WHAT_IS_SERVED)
