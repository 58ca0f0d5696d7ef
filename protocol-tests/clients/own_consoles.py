"""The console tools, those of groups and those of performance under the program's own hand, beside Kafka's: as in `own_tools.py`."""

import re
import subprocess

from . import own_tools
from .asking import fill
from .own_tools import SIDES, compare
from .suite import eventually, matches, test

FILES = {
    "lines": "one\ntwo\n\nfour",
    "keyed": "a:1\nb:2\nc:\n:4\nd:5:6\n",
    "tabs": "h1:v1,h2:v2\tkey\tvalue\n\tk2\tv2\nh:\tk3\tv3\n",
    "nulls": "NULL\tk\tNULL\nNULL:NULL\tNULL\tv\n",
    "unkeyed": "a\tb\nnone\nc\td\n",
    "bad-headers": "h1\tk\tv\n",
    "empty": "",
    "reader.properties": "parse.key=true\nkey.separator=:\n",
    "formatter.properties": "print.key=true\nkey.separator=|\n",
    "producer.properties": "acks=1\nlinger.ms=1\n",
    "consumer.properties": "auto.offset.reset=earliest\ngroup.id={t}.file\n",
    "bad.properties": "isolation.level=nonesuch\n",
}

PRODUCER = """
kafka-console-producer
kafka-console-producer --help
kafka-console-producer --version
kafka-console-producer --nonesuch
kafka-console-producer --topic
kafka-console-producer --topic {t}
kafka-console-producer --topic {t} --bootstrap-server nowhere
kafka-console-producer --topic {t} --bootstrap-server a:b
kafka-console-producer {s}
kafka-console-producer {s} --topic {t} --topic {t}
kafka-console-producer {s} --topic {t} < lines
kafka-console-producer {s} --topic {t} < empty
kafka-console-producer {s} --topic {t} --sync < lines
kafka-console-producer {s} --topic {t} --property parse.key=true --property key.separator=: < keyed
kafka-console-producer {s} --topic {t} --reader-property parse.key=true --reader-property key.separator=: < keyed
kafka-console-producer {s} --topic {t} --reader-property parse.key=true --property key.separator=: < keyed
kafka-console-producer {s} --topic {t} --reader-config {f}/reader.properties < keyed
kafka-console-producer {s} --topic {t} --reader-config {f}/nonesuch < keyed
kafka-console-producer {s} --topic {t} --reader-config {f}/reader.properties --reader-property key.separator=5 < keyed
kafka-console-producer {s} --topic {t} --reader-property parse.key=true < unkeyed
kafka-console-producer {s} --topic {t} --reader-property parse.key=true --reader-property ignore.error=true < unkeyed
kafka-console-producer {s} --topic {t} --reader-property parse.key=true --reader-property parse.headers=true < tabs
kafka-console-producer {s} --topic {t} --reader-property parse.headers=true < bad-headers
kafka-console-producer {s} --topic {t} --reader-property parse.headers=true --reader-property ignore.error=true < bad-headers
kafka-console-producer {s} --topic {t} --reader-property parse.headers=true < unkeyed
kafka-console-producer {s} --topic {t} --reader-property parse.key=true --reader-property parse.headers=true --reader-property null.marker=NULL < nulls
kafka-console-producer {s} --topic {t} --reader-property null.marker=two < lines
kafka-console-producer {s} --topic {t} --reader-property headers.delimiter=, < lines
kafka-console-producer {s} --topic {t} --reader-property headers.separator=: < lines
kafka-console-producer {s} --topic {t} --reader-property headers.key.separator= < lines
kafka-console-producer {s} --topic {t} --reader-property null.marker=: < lines
kafka-console-producer {s} --topic {t} --reader-property null.marker < lines
kafka-console-producer {s} --topic {t} --reader-property nonesuch=1 < lines
kafka-console-producer {s} --topic {t} --producer-property acks=1 < lines
kafka-console-producer {s} --topic {t} --producer-property acks=1 --producer-property linger.ms=5 --property a=b --producer.config {f}/producer.properties < lines
kafka-console-producer {s} --topic {t} --command-property acks=1 < lines
kafka-console-producer {s} --topic {t} --command-property acks=1 --producer-property acks=1 < lines
kafka-console-producer {s} --topic {t} --command-property acks < lines
kafka-console-producer {s} --topic {t} --command-property acks=7 < lines
kafka-console-producer {s} --topic {t} --command-property linger.ms=soon < lines
kafka-console-producer {s} --topic {t} --command-property nonesuch=soon < lines
kafka-console-producer {s} --topic {t} --command-property compression.type=nonesuch < lines
kafka-console-producer {s} --topic {t} --producer.config {f}/producer.properties < lines
kafka-console-producer {s} --topic {t} --command-config {f}/producer.properties < lines
kafka-console-producer {s} --topic {t} --command-config {f}/producer.properties --producer.config {f}/producer.properties < lines
kafka-console-producer {s} --topic {t} --command-config {f}/nonesuch < lines
kafka-console-producer {s} --topic {t} --compression-codec < lines
kafka-console-producer {s} --topic {t} --compression-codec zstd < lines
kafka-console-producer {s} --topic {t} --compression-codec=lz4 < lines
kafka-console-producer {s} --topic {t} --compression-codec nonesuch < lines
kafka-console-producer {s} --topic {t} --request-required-acks 0 < lines
kafka-console-producer {s} --topic {t} --request-required-acks all < lines
kafka-console-producer {s} --topic {t} --request-required-acks 7 < lines
kafka-console-producer {s} --topic {t} --batch-size 1 < lines
kafka-console-producer {s} --topic {t} --batch-size x < lines
kafka-console-producer {s} --topic {t} --batch-size -1 < lines
kafka-console-producer {s} --topic {t} --max-partition-memory-bytes 100 < lines
kafka-console-producer {s} --topic {t} --message-send-max-retries 0 < lines
kafka-console-producer {s} --topic {t} --message-send-max-retries -1 < lines
kafka-console-producer {s} --topic {t} --retry-backoff-ms 5 --timeout 3 --metadata-expiry-ms 1000 --max-memory-bytes 1000000 --socket-buffer-size 4096 < lines
kafka-console-producer {s} --topic {t} --timeout x < lines
kafka-console-producer {s} --topic {t} --timeout -1 < lines
kafka-console-producer {s} --topic {t} --request-timeout-ms 3000 < lines
kafka-console-producer {s} --topic {t} --line-reader nonesuch < lines
kafka-console-producer {s} --topic {t} --line-reader org.apache.kafka.tools.LineMessageReader < lines
kafka-console-producer {s} --topic bad,name --max-block-ms 2000 < lines
kafka-console-producer {s} --topic bad,name --max-block-ms 2000 --sync < lines
kafka-console-producer {s} --topic {t} --max-memory-bytes 100 < lines
kafka-console-producer {s} --topic {t} --command-property max.request.size=10 < keyed
kafka-console-producer {s} --topic {t} --command-property max.request.size=10 --sync < keyed
kafka-console-producer {s} --topic {t} --command-property enable.idempotence=false --command-property security.protocol=nonesuch < lines
kafka-console-producer {s} --topic {t} extra words < lines
kafka-console-consumer {s} --topic {t} --from-beginning --timeout-ms 3000 --formatter-property print.key=true --formatter-property print.headers=true
"""

CONSUMER = """
kafka-console-consumer
kafka-console-consumer --help
kafka-console-consumer --version
kafka-console-consumer --nonesuch
kafka-console-consumer --topic {t}
kafka-console-consumer --bootstrap-server nowhere --topic {t}
kafka-console-consumer {s}
kafka-console-consumer {s} --topic {t} --include x
kafka-console-consumer {s} --topic {t} --topic {t}
kafka-console-consumer {s} --topic {t} --from-beginning --max-messages 3
kafka-console-consumer {s} --topic {t} --from-beginning --timeout-ms 1500
kafka-console-consumer {s} --topic {t} --timeout-ms 500
kafka-console-consumer {s} --topic {t} --max-messages 0
kafka-console-consumer {s} --topic {t} --max-messages x
kafka-console-consumer {s} --topic {t} --from-beginning --max-messages -1 --timeout-ms 1500
kafka-console-consumer {s} --topic {t} --timeout-ms x
kafka-console-consumer {s} --topic {t} --partition 0 --offset 2 --max-messages 2
kafka-console-consumer {s} --topic {t} --partition 0 --offset earliest --max-messages 2
kafka-console-consumer {s} --topic {t} --partition 0 --offset EARLIEST --max-messages 1
kafka-console-consumer {s} --topic {t} --partition 0 --offset latest --timeout-ms 500
kafka-console-consumer {s} --topic {t} --partition 0 --timeout-ms 500
kafka-console-consumer {s} --topic {t} --partition 0 --from-beginning --max-messages 1
kafka-console-consumer {s} --topic {t} --partition 0 --from-beginning --offset 3 --max-messages 1
kafka-console-consumer {s} --topic {t} --partition 0 --offset -5
kafka-console-consumer {s} --topic {t} --partition 0 --offset x
kafka-console-consumer {s} --topic {t} --partition x --offset 1
kafka-console-consumer {s} --topic {t} --partition 0 --offset 999 --timeout-ms 500
kafka-console-consumer {s} --topic {t} --partition 0 --offset 999 --consumer-property auto.offset.reset=none --timeout-ms 500
kafka-console-consumer {s} --topic {t} --offset 3
kafka-console-consumer {s} --include {t}.* --partition 3
kafka-console-consumer {s} --topic {t} --partition 0 --group g
kafka-console-consumer {s} --include {t}.* --from-beginning --max-messages 3
kafka-console-consumer {s} --topic {t} --group {t} --from-beginning --max-messages 2
kafka-console-consumer {s} --topic {t} --group {t} --max-messages 2
kafka-console-consumer {s} --topic {t} --group {t} --command-property group.id={t} --max-messages 1
kafka-console-consumer {s} --topic {t} --group {t} --command-property group.id=other --max-messages 1
kafka-console-consumer {s} --topic {t} --consumer-property group.id=other --consumer.config {f}/consumer.properties
kafka-console-consumer {s} --topic {t} --consumer.config {f}/consumer.properties --max-messages 2
kafka-console-consumer {s} --topic {t} --command-config {f}/consumer.properties --max-messages 1
kafka-console-consumer {s} --topic {t} --command-config {f}/consumer.properties --consumer.config {f}/consumer.properties
kafka-console-consumer {s} --topic {t} --command-config {f}/nonesuch
kafka-console-consumer {s} --topic {t} --command-config {f}/bad.properties
kafka-console-consumer {s} --topic {t} --consumer-property group.protocol=consumer --from-beginning --max-messages 2
kafka-console-consumer {s} --topic {t} --consumer-property group.protocol=nonesuch
kafka-console-consumer {s} --topic {t} --command-property a=b --consumer-property a=b
kafka-console-consumer {s} --topic {t} --from-beginning --command-property auto.offset.reset=latest
kafka-console-consumer {s} --topic {t} --command-property auto.offset.reset=nonesuch
kafka-console-consumer {s} --topic {t} --command-property auto.offset.reset=by_duration:PT1H --max-messages 1
kafka-console-consumer {s} --topic {t} --command-property auto.offset.reset=none --timeout-ms 3000
kafka-console-consumer {s} --topic {t} --command-property max.poll.records=x
kafka-console-consumer {s} --topic {t} --command-property max.poll.records=0
kafka-console-consumer {s} --topic {t} --command-property partition.assignment.strategy=nonesuch
kafka-console-consumer {s} --topic {t} --isolation-level read_committed --from-beginning --max-messages 1
kafka-console-consumer {s} --topic {t} --isolation-level nonesuch
kafka-console-consumer {s} --topic {t} --from-beginning --max-messages 9 --property print.key=true --property key.separator=|
kafka-console-consumer {s} --topic {t} --from-beginning --max-messages 9 --formatter-property print.key=true --formatter-property print.offset=true --formatter-property print.partition=true --formatter-property print.timestamp=true --formatter-property print.headers=true --formatter-property print.epoch=true --formatter-property print.delivery=true
kafka-console-consumer {s} --topic {t} --from-beginning --max-messages 9 --formatter-property print.key=true --formatter-property null.literal=NIL --formatter-property headers.separator=; --formatter-property line.separator=X --formatter-property print.headers=true
kafka-console-consumer {s} --topic {t} --from-beginning --max-messages 2 --formatter-property print.value=false
kafka-console-consumer {s} --topic {t} --from-beginning --max-messages 2 --formatter-property print.value=nonesuch
kafka-console-consumer {s} --topic {t} --from-beginning --max-messages 2 --formatter-property nonesuch=1
kafka-console-consumer {s} --topic {t} --property a=b --formatter-property a=b
kafka-console-consumer {s} --topic {t} --from-beginning --max-messages 2 --formatter-config {f}/formatter.properties
kafka-console-consumer {s} --topic {t} --from-beginning --max-messages 2 --formatter-config {f}/formatter.properties --formatter-property key.separator=-
kafka-console-consumer {s} --topic {t} --formatter-config {f}/nonesuch
kafka-console-consumer {s} --topic {t} --from-beginning --max-messages 2 --formatter nonesuch
kafka-console-consumer {s} --topic {t} --from-beginning --max-messages 2 --formatter kafka.tools.DefaultMessageFormatter
kafka-console-consumer {s} --topic {t} --from-beginning --max-messages 2 --formatter org.apache.kafka.tools.consumer.DefaultMessageFormatter
kafka-console-consumer {s} --topic {t} --from-beginning --max-messages 2 --formatter org.apache.kafka.tools.consumer.NoOpMessageFormatter
kafka-console-consumer {s} --topic {t} --from-beginning --max-messages 2 --formatter org.apache.kafka.tools.consumer.LoggingMessageFormatter
kafka-console-consumer {s} --topic {t} --from-beginning --max-messages 2 --formatter org.apache.kafka.tools.consumer.OffsetsMessageFormatter
kafka-console-consumer {s} --topic {t} --from-beginning --max-messages 2 --key-deserializer org.apache.kafka.common.serialization.StringDeserializer --value-deserializer org.apache.kafka.common.serialization.BytesDeserializer
kafka-console-consumer {s} --topic {t} --from-beginning --max-messages 2 --value-deserializer org.apache.kafka.common.serialization.LongDeserializer
kafka-console-consumer {s} --topic {t} --from-beginning --max-messages 2 --value-deserializer org.apache.kafka.common.serialization.LongDeserializer --skip-message-on-error
kafka-console-consumer {s} --topic {t} --from-beginning --max-messages 2 --value-deserializer nonesuch
kafka-console-consumer {s} --topic {t} --from-beginning --max-messages 2 --formatter-property value.deserializer=nonesuch
kafka-console-consumer {s} --topic {t} --from-beginning --max-messages 2 --enable-systest-events
kafka-console-consumer {s} --topic bad,name --timeout-ms 1000
kafka-console-consumer {s} --topic {t} --partition 7 --offset 0 --timeout-ms 1000
kafka-console-consumer {s} --topic {t} extra words --from-beginning --max-messages 1
"""

GROUPS = """
kafka-consumer-groups
kafka-consumer-groups --help
kafka-consumer-groups --version
kafka-consumer-groups --nonesuch
kafka-consumer-groups --list
kafka-consumer-groups --bootstrap-server nowhere --list
kafka-consumer-groups {s}
kafka-consumer-groups {s} --list --describe
kafka-consumer-groups {s} --list --group g
kafka-consumer-groups {s} --list --topic g
kafka-consumer-groups {s} --list --members
kafka-consumer-groups {s} --list --type nonesuch
kafka-consumer-groups {s} --list --type classic,nonesuch
kafka-consumer-groups {s} --list --state nonesuch
kafka-consumer-groups {s} --list --state Dead --type consumer
kafka-consumer-groups {s} --describe
kafka-consumer-groups {s} --describe --group {t}.none
kafka-consumer-groups {s} --describe --group {t}.none --members
kafka-consumer-groups {s} --describe --group {t}.none --state
kafka-consumer-groups {s} --describe --group {t}.none --state --verbose
kafka-consumer-groups {s} --describe --group {t} --group {t}.none
kafka-consumer-groups {s} --describe --group {t}
kafka-consumer-groups {s} --describe --group {t} --offsets
kafka-consumer-groups {s} --describe --group {t} --offsets --verbose
kafka-consumer-groups {s} --describe --group {t} --verbose
kafka-consumer-groups {s} --describe --group {t} --members
kafka-consumer-groups {s} --describe --group {t} --members --verbose
kafka-consumer-groups {s} --describe --group {t} --state
kafka-consumer-groups {s} --describe --group {t} --state --verbose
kafka-consumer-groups {s} --describe --group {t} --state Empty
kafka-consumer-groups {s} --describe --group {t} --state --members
kafka-consumer-groups {s} --describe --group {t} --all-groups
kafka-consumer-groups {s} --describe --group {t} --topic {t}
kafka-consumer-groups {s} --describe --group {t} --timeout x
kafka-consumer-groups {s} --describe --group {t} --timeout 5000
kafka-consumer-groups {s} --describe --group {t} --command-config {f}/nonesuch
kafka-consumer-groups {s} --describe --group {c}.consumer --members --verbose
kafka-consumer-groups {s} --describe --group {c}.consumer
kafka-consumer-groups {s} --describe --group {c}.consumer --state --verbose
kafka-consumer-groups {s} --describe --group {c}.classic --members --verbose
kafka-consumer-groups {s} --describe --group {c}.classic
kafka-consumer-groups {s} --describe --group {c}.classic --state --verbose
kafka-consumer-groups {s} --reset-offsets --to-latest --topic {t}
kafka-consumer-groups {s} --reset-offsets --group {t} --topic {t} --to-latest
kafka-consumer-groups {s} --reset-offsets --group {t} --topic {t} --to-latest --dry-run
kafka-consumer-groups {s} --reset-offsets --group {t} --topic {t} --to-latest --dry-run --execute
kafka-consumer-groups {s} --reset-offsets --group {t} --topic {t} --to-latest --to-earliest --dry-run
kafka-consumer-groups {s} --reset-offsets --group {t} --topic {t} --all-topics --to-latest --dry-run
kafka-consumer-groups {s} --reset-offsets --group {t} --all-topics --to-earliest --dry-run
kafka-consumer-groups {s} --reset-offsets --group {t} --topic {t}:0 --to-earliest --execute
kafka-consumer-groups {s} --describe --group {t}
kafka-consumer-groups {s} --reset-offsets --group {t} --topic {t}:0,1 --to-offset 3 --execute
kafka-consumer-groups {s} --reset-offsets --group {t} --topic {t}:7 --to-offset 3 --execute
kafka-consumer-groups {s} --reset-offsets --group {t} --topic {t}:x --to-offset 3 --execute
kafka-consumer-groups {s} --reset-offsets --group {t} --topic {t}:1:2 --to-offset 3 --execute
kafka-consumer-groups {s} --reset-offsets --group {t} --topic {t}.none --to-offset 3 --execute
kafka-consumer-groups {s} --reset-offsets --group {t} --topic {t} --to-offset x --execute
kafka-consumer-groups {s} --reset-offsets --group {t} --topic {t} --to-offset 99 --execute
kafka-consumer-groups {s} --reset-offsets --group {t} --topic {t} --to-offset -3 --execute
kafka-consumer-groups {s} --reset-offsets --group {t} --topic {t} --shift-by 2 --execute
kafka-consumer-groups {s} --reset-offsets --group {t} --topic {t} --shift-by -1 --execute
kafka-consumer-groups {s} --reset-offsets --group {t} --topic {t} --shift-by x --execute
kafka-consumer-groups {s} --reset-offsets --group {t}.new --topic {t} --shift-by 1 --dry-run
kafka-consumer-groups {s} --reset-offsets --group {t} --topic {t} --to-current --execute
kafka-consumer-groups {s} --reset-offsets --group {t}.new --topic {t} --to-current --dry-run
kafka-consumer-groups {s} --reset-offsets --group {t}.new --all-topics --to-current --dry-run
kafka-consumer-groups {s} --reset-offsets --group {t} --topic {t} --to-datetime 2001-01-01T00:00:00.000 --execute
kafka-consumer-groups {s} --reset-offsets --group {t} --topic {t} --to-datetime 2001-01-01T00:00:00.000Z --execute
kafka-consumer-groups {s} --reset-offsets --group {t} --topic {t} --to-datetime 2001-01-01T00:00:00.000+02:00 --execute
kafka-consumer-groups {s} --reset-offsets --group {t} --topic {t} --to-datetime 2001-01-01T00:00:00.000+0200 --dry-run
kafka-consumer-groups {s} --reset-offsets --group {t} --topic {t} --to-datetime 2001-01-01T00:00:00.000-02 --dry-run
kafka-consumer-groups {s} --reset-offsets --group {t} --topic {t} --to-datetime 2199-01-01T00:00:00.000 --execute
kafka-consumer-groups {s} --reset-offsets --group {t} --topic {t} --to-datetime 2001-01-01T00:00:00 --dry-run
kafka-consumer-groups {s} --reset-offsets --group {t} --topic {t} --to-datetime 2001-01-01 --dry-run
kafka-consumer-groups {s} --reset-offsets --group {t} --topic {t} --to-datetime soon --dry-run
kafka-consumer-groups {s} --reset-offsets --group {t} --topic {t} --by-duration PT0S --execute
kafka-consumer-groups {s} --reset-offsets --group {t} --topic {t} --by-duration P1DT1H --execute
kafka-consumer-groups {s} --reset-offsets --group {t} --topic {t} --by-duration soon --dry-run
kafka-consumer-groups {s} --reset-offsets --group {t} --topic {t} --to-offset 4 --export --dry-run
kafka-consumer-groups {s} --reset-offsets --group {t} --group {t}.two --topic {t} --to-offset 4 --export --dry-run
kafka-consumer-groups {s} --reset-offsets --group {t} --group {t}.two --topic {t} --to-offset 4 --dry-run
kafka-consumer-groups {s} --reset-offsets --group {t} --from-file {f}/one.csv --execute
kafka-consumer-groups {s} --reset-offsets --group {t} --from-file {f}/one.csv --topic {t} --dry-run
kafka-consumer-groups {s} --reset-offsets --group {t} --from-file {f}/two.csv --dry-run
kafka-consumer-groups {s} --reset-offsets --group {t} --group {t}.two --from-file {f}/two.csv --execute
kafka-consumer-groups {s} --reset-offsets --group {t} --group {t}.three --from-file {f}/two.csv --dry-run
kafka-consumer-groups {s} --reset-offsets --group {t} --from-file {f}/bad.csv --dry-run
kafka-consumer-groups {s} --reset-offsets --group {t} --from-file {f}/nonesuch --dry-run
kafka-consumer-groups {s} --reset-offsets --group {t} --from-file {f}/one.csv --to-latest --dry-run
kafka-consumer-groups {s} --reset-offsets --group {c}.classic --topic {t} --to-latest --execute
kafka-consumer-groups {s} --reset-offsets --group {c}.consumer --topic {t} --to-latest --execute
kafka-consumer-groups {s} --describe --group {t}
kafka-consumer-groups {s} --delete-offsets
kafka-consumer-groups {s} --delete-offsets --group {t}
kafka-consumer-groups {s} --delete-offsets --group {t} --topic {t}:0
kafka-consumer-groups {s} --delete-offsets --group {t} --topic {t}
kafka-consumer-groups {s} --delete-offsets --group {t} --topic {t}.none
kafka-consumer-groups {s} --delete-offsets --group {t} --topic {t}.none:0
kafka-consumer-groups {s} --delete-offsets --group {t} --topic {t}:x
kafka-consumer-groups {s} --delete-offsets --group {t}.none --topic {t}
kafka-consumer-groups {s} --delete-offsets --group {c}.classic --topic {c}
kafka-consumer-groups {s} --delete-offsets --group {c}.consumer --topic {c}
kafka-consumer-groups {s} --delete
kafka-consumer-groups {s} --delete --group {t} --topic {t}
kafka-consumer-groups {s} --delete --group {t}.none
kafka-consumer-groups {s} --delete --group {t} --group {t}.none
kafka-consumer-groups {s} --delete --group {t}.two
kafka-consumer-groups {s} --delete --group {c}.classic
kafka-consumer-groups {s} --delete --group {c}.consumer
kafka-consumer-groups {s} --validate-regex a.*b
kafka-consumer-groups --validate-regex a.*b
"""

PLANS = {
    "one.csv": "{t},0,2\n{t},1,5\n",
    "two.csv": "{t},{t},0,3\n{t}.two,{t},1,4\n",
    "bad.csv": "{t},0\n",
}

PERFORMANCE = """
kafka-producer-perf-test
kafka-producer-perf-test --help
kafka-producer-perf-test --nonesuch
kafka-producer-perf-test --topic {t}
kafka-producer-perf-test {s} --topic {t} --num-records 5 --throughput -1
kafka-producer-perf-test {s} --topic {t} --num-records 5 --record-size 10
kafka-producer-perf-test {s} --topic {t} --num-records x --throughput -1 --record-size 10
kafka-producer-perf-test {s} --topic {t} --num-records 5 --throughput -1 --record-size 10
kafka-producer-perf-test {s} --topic {t} --num-records 5 --throughput -1 --record-size 0
kafka-producer-perf-test {s} --topic {t} --num-records 5 --throughput -1 --record-size 10 --payload-file {f}/lines
kafka-producer-perf-test {s} --topic {t} --num-records 5 --throughput -1 --payload-file {f}/lines
kafka-producer-perf-test {s} --topic {t} --num-records 5 --throughput -1 --payload-file {f}/empty
kafka-producer-perf-test {s} --topic {t} --num-records 5 --throughput -1 --payload-file {f}/nonesuch
kafka-producer-perf-test {s} --topic {t} --num-records 5 --throughput -1 --payload-file {f}/lines --payload-delimiter o
kafka-producer-perf-test {s} --topic {t} --num-records 5 --throughput -1 --payload-monotonic
kafka-producer-perf-test {s} --topic {t} --num-records 5 --throughput -1 --payload-monotonic --record-size 1
kafka-producer-perf-test --topic {t} --num-records 5 --throughput -1 --record-size 10
kafka-producer-perf-test --topic {t} --num-records 5 --throughput -1 --record-size 10 --producer-props {b} acks=1
kafka-producer-perf-test --topic {t} --num-records 5 --throughput -1 --record-size 10 --command-property {b}
kafka-producer-perf-test --topic {t} --num-records 5 --throughput -1 --record-size 10 --command-property {b} --producer-props acks=1
kafka-producer-perf-test {s} --topic {t} --num-records 5 --throughput -1 --record-size 10 --producer.config {f}/producer.properties
kafka-producer-perf-test {s} --topic {t} --num-records 5 --throughput -1 --record-size 10 --command-config {f}/producer.properties
kafka-producer-perf-test {s} --topic {t} --num-records 5 --throughput -1 --record-size 10 --command-config {f}/producer.properties --producer.config {f}/producer.properties
kafka-producer-perf-test {s} --topic {t} --num-records 5 --throughput -1 --record-size 10 --producer-props acks
kafka-producer-perf-test {s} --topic {t} --num-records 5 --throughput -1 --record-size 10 --producer-props acks=7
kafka-producer-perf-test {s} --topic {t} --num-records 5 --throughput -1 --record-size 10 --transactional-id {t}
kafka-producer-perf-test {s} --topic {t} --num-records 5 --throughput -1 --record-size 10 --transaction-duration-ms 100
kafka-producer-perf-test {s} --topic {t} --num-records 5 --throughput -1 --record-size 10 --transaction-duration-ms 0
kafka-producer-perf-test {s} --topic {t} --num-records 5 --throughput -1 --record-size 10 --warmup-records 2
kafka-producer-perf-test {s} --topic {t} --num-records 5 --throughput -1 --record-size 10 --warmup-records 9
kafka-producer-perf-test {s} --topic {t} --num-records 5 --throughput -1 --record-size 10 --reporting-interval 1000
kafka-producer-perf-test {s} --topic {t} --num-records 5 --throughput -1 --record-size 10 --reporting-interval 0
kafka-producer-perf-test {s} --topic {t} --num-records 0 --throughput -1 --record-size 10
kafka-get-offsets {s} --topic {t}
kafka-consumer-perf-test
kafka-consumer-perf-test --help
kafka-consumer-perf-test --nonesuch
kafka-consumer-perf-test {s}
kafka-consumer-perf-test {s} --topic {t}
kafka-consumer-perf-test --topic {t} --num-records 5
kafka-consumer-perf-test {s} --topic {t} --include x --num-records 5
kafka-consumer-perf-test {s} --topic {t} --num-records 5 --messages 5
kafka-consumer-perf-test {s} --topic {t} --num-records x
kafka-consumer-perf-test {s} --topic {t} --num-records 5
kafka-consumer-perf-test {s} --topic {t} --messages 5
kafka-consumer-perf-test {s} --topic {t} --num-records 5 --hide-header
kafka-consumer-perf-test {s} --topic {t} --num-records 5 --show-detailed-stats --reporting-interval 1000
kafka-consumer-perf-test {s} --topic {t} --num-records 500 --timeout 1000
kafka-consumer-perf-test {s} --topic {t} --num-records 5 --from-latest --timeout 500
kafka-consumer-perf-test {s} --topic {t} --num-records 5 --group {t} --fetch-size 1000 --socket-buffer-size 3000
kafka-consumer-perf-test {s} --include {t}.* --num-records 5
kafka-consumer-perf-test {s} --topic {t} --num-records 5 --consumer.config {f}/consumer.properties
kafka-consumer-perf-test {s} --topic {t} --num-records 5 --command-config {f}/consumer.properties
kafka-consumer-perf-test {s} --topic {t} --num-records 5 --command-config {f}/consumer.properties --consumer.config {f}/consumer.properties
kafka-consumer-perf-test {s} --topic {t} --num-records 5 --command-property client.id=x
kafka-consumer-perf-test {s} --topic {t} --num-records 5 --command-property group.protocol=consumer
"""


def stamped(text, *more):
    text = own_tools.plain(text, *more)
    text = re.sub(r"CreateTime:\d+", "CreateTime:…", text)
    text = re.sub(r"console-consumer-\d+", "console-consumer-…", text)
    text = re.sub(r"((?:Valid (?:types|states) are|takes .* options|Detected group ids): )(.*)", lambda found: found[1] + ", ".join(sorted(found[2].split(", "))), text)  # by the hashes of this JVM
    text = re.sub(r"FetchPosition\{offset=(\d+), .*\}\}", r"\1", text)
    text = re.sub(r"(?m)^com\.fasterxml\..*\n? at \[Source: .*\n?", "", text)  # how it found out that there is a group in each line
    # Partitions come by the hashes of their topics' names, which differ from side to side.
    text = re.sub(r'(?m)(^"?TOPIC.*[\d"]\n?){2,}', lambda found: "\n".join(sorted(found[0].splitlines())) + "\n", text)
    text = re.sub(r"(?m)(^Warn: Partition .*\n\n?){2,}", lambda found: "".join(sorted(found[0].splitlines(True))), text)
    text = re.sub(r"nextAllowedTryMs=-?\d+|deadlineMs=\d+|timed out at \d+", "…", text)
    text = re.sub(r"perf-consumer-\d+", "perf-consumer-…", text)
    return text.rstrip()


def measured(text, *more):
    """Numbers of what is measured."""
    text = stamped(text, *more)
    text = re.sub(r"\d\d\d\d-\d\d-\d\d \d\d:\d\d:\d\d:\d\d\d", "TIME", text)
    text = re.sub(r"(?m)^(TIME, TIME, \S+, \S+, \d+,).*", r"\1 …", text)
    return re.sub(r"(?<![\w.-])-?\d+\.\d+|(?<![\w.-])\d+(?= ms )", "…", text)


def filled(run, partitions):
    """A topic for each side and one for both, with ten records in each partition."""
    for name in (*SIDES, "common"):
        fill(run.bootstrap, run.create_topic(f"{run.topic}-{name}", partitions), partitions)


@test(ottla_only=True)
def console_producer(run):
    for side in SIDES:
        run.create_topic(f"{run.topic}-{side}")
    compare(run, PRODUCER, FILES, stamped)


@test(ottla_only=True)
def console_consumer(run):
    with_all = "h:1,g:2\ta\tone\nN\tb\ttwo\nx:\tc\tthree\nh:N\tN\tfour\nN\td\tN\n" + "".join(f"N\tk\t{n}\n" for n in range(10))
    for side in SIDES:
        topic = run.create_topic(f"{run.topic}-{side}")
        run.java("kafka-console-producer", "--topic", topic, "--reader-property", "parse.key=true", "--reader-property", "parse.headers=true",
                 "--reader-property", "null.marker=N", input=with_all)
    compare(run, CONSUMER, FILES, stamped)


def members(run):
    """Of a group of either protocol, in the topic that is for both sides; and groups without, one for each side."""
    topic = f"{run.topic}-common"
    for protocol in ("classic", "consumer"):
        command = [run.session.broker().binary, "kafka-console-consumer", "--bootstrap-server", run.bootstrap, "--topic", topic, "--from-beginning",
                   "--consumer-property", f"group.protocol={protocol}", "--group", f"{topic}.{protocol}", "--consumer-property", f"client.id={protocol}",
                   "--consumer-property", "auto.commit.interval.ms=500"]
        member = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        run.at_end(lambda member=member: (member.kill(), member.wait()))
        for _ in range(20):
            assert member.stdout.readline()
    for side in SIDES:
        topic = f"{run.topic}-{side}"
        run.java("kafka-console-consumer", "--topic", topic, "--group", topic, "--from-beginning", "--max-messages", 20, "--timeout-ms", 30000)

    def committed():
        for protocol in ("classic", "consumer"):
            matches(rf"-common +1 +10 +10 +0 ", run.java("kafka-consumer-groups", "--describe", "--group", f"{run.topic}-common.{protocol}"))
    eventually(committed)


@test(ottla_only=True)
def consumer_groups(run):
    filled(run, 2)
    members(run)
    compare(run, GROUPS, {**FILES, **PLANS}, stamped)


@test(ottla_only=True)
def performance(run):
    filled(run, 1)
    compare(run, PERFORMANCE.replace("{b}", f"bootstrap.servers={run.bootstrap}"), FILES, measured)
