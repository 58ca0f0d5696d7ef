"""The codec against known bytes: python3 -m unittest discover -s protocol-tests/kafka_wire -t protocol-tests"""

import json
import unittest

from kafka_wire import batches, codecs, messages
from kafka_wire.primitives import Malformed, Reader, signed_varint, unsigned_varint, uuid_bytes, uuid_text


class Primitives(unittest.TestCase):
    def test_varints(self):
        for value, encoded in ((0, "00"), (127, "7f"), (128, "8001"), (300, "ac02"), (0xFFFFFFFF, "ffffffff0f")):
            self.assertEqual(unsigned_varint(value).hex(), encoded)
            self.assertEqual(Reader(bytes.fromhex(encoded)).unsigned_varint(), value)
        for value, encoded in ((0, "00"), (-1, "01"), (1, "02"), (-64, "7f"), (2147483647, "feffffff0f"), (-2147483648, "ffffffff0f")):
            self.assertEqual(signed_varint(value).hex(), encoded)
            self.assertEqual(Reader(bytes.fromhex(encoded)).signed_varint(), value)

    def test_malformed_varints(self):
        for encoded in ("", "80", "ffffffff1f", "ffffffffff0f"):
            with self.assertRaises(Malformed):
                Reader(bytes.fromhex(encoded)).unsigned_varint()

    def test_uuid(self):
        raw = bytes(range(16))
        self.assertEqual(uuid_text(raw), "AAECAwQFBgcICQoLDA0ODw")
        self.assertEqual(uuid_bytes(uuid_text(raw)), raw)


class Messages(unittest.TestCase):
    def test_every_schema_round_trips_its_defaults(self):
        for path in messages.SCHEMAS.glob("*.json"):
            schema = messages.message(path.stem)
            spec = json.loads(path.read_text())
            if spec["validVersions"] == "none":
                continue
            for version in range(schema.versions[0], schema.versions[1] + 1):
                encoded = schema.encode(version, {})
                try:
                    decoded = schema.decode(version, encoded)
                except Malformed as problem:
                    self.fail(f"{path.stem} v{version}: {problem}")
                self.assertEqual(schema.encode(version, decoded), encoded, f"{path.stem} v{version}")

    def test_known_requests(self):
        # as Kafka's own clients write them
        self.assertEqual(messages.request("ApiVersions", 0, {}, 7, None).hex(), "0012000000000007ffff")
        self.assertEqual(
            messages.request("Metadata", 13, {"Topics": None}, 9, "r").hex(), "0003000d0000000900017200" "00" "01" "00" "00",
        )
        body = {"Topics": [{"Name": "t"}], "AllowAutoTopicCreation": False}
        self.assertEqual(messages.request("Metadata", 4, body, 1, "c").hex(), "0003000400000001000163" "00000001000174" "00")

    def test_known_response(self):
        frame = bytes.fromhex("00000007" "0023" "00000001" "001200000004")
        self.assertEqual(messages.response("ApiVersions", 0, frame), (7, {"ErrorCode": 35, "ApiKeys": [{"ApiKey": 18, "MinVersion": 0, "MaxVersion": 4}]}))

    def test_a_field_of_no_version_is_an_error(self):
        with self.assertRaises(KeyError):
            messages.request("Metadata", 9, {"Topic": []})

    def test_decoding_is_strict(self):
        schema = messages.message("MetadataRequest")
        for data in ("", "00000001", "0000000100017400ff"[:-4], "00000001000174" "02"):
            with self.assertRaises(Malformed):
                schema.decode(4, bytes.fromhex(data))
        self.assertEqual(schema.decode(4, bytes.fromhex("ffffffff" "00" "ab"))["_left"], b"\xab")

    def test_what_tests_may_write(self):
        schema = messages.message("MetadataRequest")
        self.assertEqual(schema.encode(4, {"Topics": messages.Counted(9)}).hex(), "00000009" "01")
        self.assertEqual(schema.encode(9, {"Topics": messages.Raw(b"\xab")}).hex()[:2], "ab")
        self.assertTrue(schema.encode(9, {"Topics": None, "_tags": [(5, b"x")]}).hex().endswith("01" "05" "01" "78"))


class Batches(unittest.TestCase):
    def test_crc(self):
        self.assertEqual(codecs.crc32c(b"123456789"), 0xE3069283)

    def test_xxh32(self):
        self.assertEqual(codecs.xxh32(b""), 0x02CC5D05)
        self.assertEqual(codecs.xxh32(b"abc"), 0x32D153FF)

    def test_round_trip_of_all_codecs(self):
        for codec in range(5):
            data = batches.batch(b"a", batches.Record(b"x" * 70000, b"k", [(b"h", None)], timestamp_delta=-3), codec=codec)
            (read,) = batches.read_batches(data)
            self.assertTrue(read["crc_holds"])
            self.assertEqual(read["length"] + 12, len(data))
            self.assertEqual([r["value"] for r in read["records"]], [b"a", b"x" * 70000])
            self.assertEqual(read["records"][1]["headers"], [[b"h", None]])

    def test_incomplete_tail(self):
        data = batches.batch(b"a")
        self.assertEqual(batches.read_batches(data + data[:20])[1], {"incomplete": 20})
        self.assertEqual(batches.read_batches(data[:5]), [{"incomplete": 5}])

    def test_snappy_and_lz4_copies(self):
        self.assertEqual(codecs.unsnappy_raw(bytes.fromhex("08" "0061" "1a0100")[:2] + bytes.fromhex("61" "1a0100")), b"a" * 8)
        out = bytearray()
        codecs.unlz4_block(bytes.fromhex("1361" "0100" "10" "62"), out)
        self.assertEqual(bytes(out), b"a" * 8 + b"b")


if __name__ == "__main__":
    unittest.main()
