"""Kafka's wire protocol for tests, in the standard library only.

Written from the message schemas (`../schemas`) and the protocol documents, and sharing no code with the broker under test: where the two
disagree, one of them is wrong.

- `primitives`: the reader and writer of Kafka's primitive types
- `messages`:   encodes and decodes any message at any version, driven by the schemas
- `batches`:    record batches, sound and deliberately broken ones
- `codecs`:     the four compression formats, as far as tests need them
- `connection`: a blocking connection that sends and receives frames
"""
