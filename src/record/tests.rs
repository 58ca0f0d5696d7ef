//! Batches that Apache Kafka 4.3.1 wrote, against what its DumpLogSegments prints of them, and back to the same bytes.

use std::fmt::Write as _;

use bytes::Bytes;
use proptest::prelude::*;

use super::batch::{RecordBatch, TimestampType, batches};
use super::builder::RecordBatchBuilder;
use super::compression::{Codec, decompress};
use super::control::ControlRecord;
use super::record::{Header, Record, RecordStream, Records};
use crate::types::{LeaderEpoch, Offset, ProducerEpoch, ProducerId};

const LOG: &[u8] = include_bytes!("../../tests/golden/record/batches.log");
const DUMP: &str = include_str!("../../tests/golden/record/batches.dump");

fn body_of(batch: &RecordBatch<'_>) -> Bytes {
    decompress(batch.codec().unwrap(), &Bytes::copy_from_slice(batch.body()), 1 << 20).unwrap()
}

fn dump(log: &[u8]) -> String {
    let mut text = String::new();
    let mut position = 0;
    for batch in batches(log) {
        let batch = batch.unwrap();
        dump_batch(&mut text, &batch, position);
        position += batch.size_in_bytes();
        let body = body_of(&batch);
        for (index, record) in Records::new(&batch.to_header(), &body).enumerate() {
            dump_record(&mut text, &batch, index as i32, &record.unwrap());
        }
    }
    text
}

fn timestamp_name(batch: &RecordBatch<'_>) -> &'static str {
    match batch.timestamp_type() {
        TimestampType::CreateTime => "CreateTime",
        TimestampType::LogAppendTime => "LogAppendTime",
    }
}

fn dump_batch(text: &mut String, batch: &RecordBatch<'_>, position: usize) {
    let horizon = batch.delete_horizon_ms().map_or("OptionalLong.empty".to_owned(), |ms| format!("OptionalLong[{ms}]"));
    writeln!(
        text,
        "baseOffset: {} lastOffset: {} count: {} baseSequence: {} lastSequence: {} producerId: {} producerEpoch: {} \
         partitionLeaderEpoch: {} isTransactional: {} isControl: {} deleteHorizonMs: {horizon} position: {position} \
         {}: {} size: {} magic: {} compresscodec: {} crc: {} isvalid: {}",
        batch.base_offset(),
        batch.last_offset(),
        batch.record_count(),
        batch.base_sequence(),
        batch.last_sequence(),
        batch.producer_id(),
        batch.producer_epoch(),
        batch.partition_leader_epoch(),
        batch.is_transactional(),
        batch.is_control(),
        timestamp_name(batch),
        batch.max_timestamp(),
        batch.size_in_bytes(),
        batch.magic(),
        batch.codec().unwrap(),
        batch.crc(),
        batch.is_crc_valid(),
    )
    .unwrap();
}

fn dump_record(text: &mut String, batch: &RecordBatch<'_>, index: i32, record: &Record<'_>) {
    let size = |bytes: Option<&[u8]>| bytes.map_or(-1, |bytes| bytes.len() as i64);
    let names: Vec<_> = record.headers.iter().map(|header| String::from_utf8_lossy(header.key).into_owned()).collect();
    let sequence = if batch.base_sequence() < 0 {
        -1
    } else {
        let delta = (record.offset.0 - batch.base_offset().0) as i32;
        super::batch::increment_sequence(batch.base_sequence(), delta)
    };
    assert!(index <= batch.last_offset_delta());
    write!(
        text,
        "| offset: {} {}: {} keySize: {} valueSize: {} sequence: {sequence} headerKeys: [{}]",
        record.offset,
        timestamp_name(batch),
        record.timestamp,
        size(record.key),
        size(record.value),
        names.join(","),
    )
    .unwrap();
    if batch.is_control() {
        dump_control_record(text, &ControlRecord::parse(record.key.unwrap(), record.value.unwrap()).unwrap());
    } else {
        for (name, part) in [("key", record.key), ("payload", record.value)] {
            if let Some(part) = part {
                write!(text, " {name}: {}", String::from_utf8_lossy(part)).unwrap();
            }
        }
    }
    text.push('\n');
}

fn dump_control_record(text: &mut String, record: &ControlRecord) {
    match record {
        ControlRecord::EndTxn(marker) => {
            let name = if marker.committed { "COMMIT" } else { "ABORT" };
            write!(text, " endTxnMarker: {name} coordinatorEpoch: {}", marker.coordinator_epoch)
        }
        ControlRecord::LeaderChange(change) => {
            let voters = |ids: &[crate::types::BrokerId]| {
                ids.iter().map(|id| format!(r#"{{"voterId":{id}}}"#)).collect::<Vec<_>>().join(",")
            };
            write!(
                text,
                r#" LeaderChange: {{"version":0,"leaderId":{},"voters":[{}],"grantingVoters":[{}]}}"#,
                change.leader_id,
                voters(&change.voters),
                voters(&change.granting_voters),
            )
        }
        ControlRecord::SnapshotHeader { last_contained_log_timestamp: time } => {
            write!(text, r#" SnapshotHeader {{"version":0,"lastContainedLogTimestamp":{time}}}"#)
        }
        ControlRecord::SnapshotFooter => write!(text, r#" SnapshotFooter {{"version":0}}"#),
        ControlRecord::KRaftVersion { kraft_version } => {
            write!(text, r#" KRaftVersion {{"version":0,"kRaftVersion":{kraft_version}}}"#)
        }
        ControlRecord::KRaftVoters(voters) => {
            let voters: Vec<_> = voters
                .iter()
                .map(|voter| {
                    let endpoints: Vec<_> = voter
                        .endpoints
                        .iter()
                        .map(|end| format!(r#"{{"name":"{}","host":"{}","port":{}}}"#, end.name, end.host, end.port))
                        .collect();
                    format!(
                        r#"{{"voterId":{},"voterDirectoryId":"{}","endpoints":[{}],"kRaftVersionFeature":{{"minSupportedVersion":{},"maxSupportedVersion":{}}}}}"#,
                        voter.id,
                        voter.directory_id,
                        endpoints.join(","),
                        voter.min_kraft_version,
                        voter.max_kraft_version,
                    )
                })
                .collect();
            write!(text, r#" KRaftVoters {{"version":0,"voters":[{}]}}"#, voters.join(","))
        }
        ControlRecord::Unknown { id, .. } => panic!("no such control record in the dump: {id}"),
    }
    .unwrap();
}

#[test]
fn kafkas_batches_read_as_kafka_dumps_them() {
    let ours = dump(LOG);
    for (ours, theirs) in ours.lines().zip(DUMP.lines()) {
        assert_eq!(ours, theirs.trim_end_matches('\r'));
    }
    assert_eq!(ours, DUMP);
}

/// The builder for a batch that is like `batch`, without its records.
fn builder_like(batch: &RecordBatch<'_>) -> RecordBatchBuilder {
    let mut builder = RecordBatchBuilder::new(batch.base_offset())
        .leader_epoch(batch.partition_leader_epoch())
        .producer(batch.producer_id(), batch.producer_epoch(), batch.base_sequence())
        .transactional(batch.is_transactional())
        .control(batch.is_control());
    if batch.timestamp_type() == TimestampType::LogAppendTime {
        builder = builder.log_append_time_ms(batch.max_timestamp());
    }
    if let Some(horizon) = batch.delete_horizon_ms() {
        builder = builder.delete_horizon_ms(horizon);
    }
    builder
}

#[test]
fn batches_are_built_to_kafkas_bytes() {
    let mut compared = 0;
    for batch in batches(LOG) {
        let batch = batch.unwrap();
        // The time of creation is not kept in batches of LogAppendTime; compressors differ; an empty batch is not built.
        if batch.codec() != Ok(Codec::None)
            || batch.timestamp_type() == TimestampType::LogAppendTime
            || batch.record_count() == 0
        {
            continue;
        }
        let mut builder = builder_like(&batch);
        for record in batch.uncompressed_records().unwrap() {
            let record = record.unwrap();
            if batch.is_control() {
                let control = ControlRecord::parse(record.key.unwrap(), record.value.unwrap()).unwrap();
                builder.append_control(record.timestamp, &control);
            } else {
                let headers: Vec<_> = record.headers.iter().collect();
                builder.append_at(record.offset, record.timestamp, record.key, record.value, headers.iter().copied());
            }
        }
        builder.set_last_offset(batch.last_offset());
        assert_eq!(builder.build(), batch.bytes(), "{batch:?}");
        compared += 1;
    }
    assert_eq!(compared, 14);
}

#[derive(Clone, Debug, PartialEq)]
struct OwnedRecord {
    gap: u8,
    timestamp: i64,
    key: Option<Vec<u8>>,
    value: Option<Vec<u8>>,
    headers: Vec<(Vec<u8>, Option<Vec<u8>>)>,
}

fn owned_record() -> impl Strategy<Value = OwnedRecord> {
    let bytes = || prop::collection::vec(any::<u8>(), 0..200);
    let repetitive = (any::<u8>(), 0..3000usize).prop_map(|(byte, size)| vec![byte; size]);
    (
        0..3u8,
        prop_oneof![Just(0), Just(-1), Just(i64::MAX), 1_700_000_000_000..1_700_000_100_000i64],
        prop::option::of(bytes()),
        prop::option::of(prop_oneof![bytes(), repetitive]),
        prop::collection::vec((bytes(), prop::option::of(bytes())), 0..4),
    )
        .prop_map(|(gap, timestamp, key, value, headers)| OwnedRecord { gap, timestamp, key, value, headers })
}

fn assert_same(read: &Record<'_>, written: &OwnedRecord, log_append_time: Option<i64>) {
    assert_eq!(read.timestamp, log_append_time.unwrap_or(written.timestamp));
    assert_eq!(read.key, written.key.as_deref());
    assert_eq!(read.value, written.value.as_deref());
    assert_eq!(read.headers.len(), written.headers.len());
    for (read, (key, value)) in read.headers.iter().zip(&written.headers) {
        assert_eq!((read.key, read.value), (key.as_slice(), value.as_deref()));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    /// What is built reads back, whole and as a stream, in every codec.
    #[test]
    fn built_batches_read_back(
        records in prop::collection::vec(owned_record(), 1..80),
        codec in prop::sample::select(Codec::ALL.to_vec()),
        log_append_time in prop::option::of(0..i64::MAX),
        base_offset in 0..1i64 << 62,
        producer in any::<(i64, i16, i32)>(),
        epoch in any::<i32>(),
        transactional in any::<bool>(),
    ) {
        let mut builder = RecordBatchBuilder::new(Offset(base_offset))
            .compression(codec, codec.default_level())
            .leader_epoch(LeaderEpoch(epoch))
            .producer(ProducerId(producer.0), ProducerEpoch(producer.1), producer.2)
            .transactional(transactional);
        if let Some(time) = log_append_time {
            builder = builder.log_append_time_ms(time);
        }
        let mut offset = base_offset;
        let mut offsets = Vec::new();
        for record in &records {
            offset += i64::from(record.gap);
            let headers: Vec<_> =
                record.headers.iter().map(|(key, value)| Header { key, value: value.as_deref() }).collect();
            let (key, value) = (record.key.as_deref(), record.value.as_deref());
            builder.append_at(Offset(offset), record.timestamp, key, value, headers.into_iter());
            offsets.push(offset);
            offset += 1;
        }
        let bytes = builder.build();

        let batch = RecordBatch::parse(&bytes).unwrap();
        prop_assert!(batch.is_crc_valid());
        prop_assert_eq!(batch.size_in_bytes(), bytes.len());
        prop_assert_eq!(batch.codec(), Ok(codec));
        prop_assert_eq!(batch.base_offset(), Offset(base_offset));
        prop_assert_eq!(batch.last_offset(), Offset(offset - 1));
        prop_assert_eq!(batch.record_count() as usize, records.len());
        prop_assert_eq!(batch.partition_leader_epoch(), LeaderEpoch(epoch));
        prop_assert_eq!((batch.producer_id().0, batch.producer_epoch().0, batch.base_sequence()), producer);
        prop_assert_eq!(batch.is_transactional(), transactional);
        let max_timestamp = records.iter().map(|record| record.timestamp).max().unwrap();
        prop_assert_eq!(batch.max_timestamp(), log_append_time.unwrap_or(max_timestamp));

        let body = decompress(codec, &bytes.slice_ref(batch.body()), 64 << 20).unwrap();
        let read: Result<Vec<_>, _> = Records::new(&batch.to_header(), &body).collect();
        let read = read.unwrap();
        prop_assert_eq!(read.len(), records.len());
        let mut strict = RecordStream::new(&batch.to_header(), codec, batch.body(), 64 << 20).unwrap();
        let mut skim = RecordStream::new(&batch.to_header(), codec, batch.body(), 64 << 20).unwrap();
        let mut buffer = Vec::new();
        for ((read, written), offset) in read.iter().zip(&records).zip(&offsets) {
            prop_assert_eq!(read.offset.0, *offset);
            assert_same(read, written, log_append_time);
            prop_assert_eq!(&strict.next_record(&mut buffer).unwrap().unwrap(), read);
            let skimmed = skim.next_skim().unwrap().unwrap();
            prop_assert_eq!((skimmed.offset, skimmed.timestamp), (read.offset, read.timestamp));
            prop_assert_eq!(skimmed.key_size, read.key.map_or(-1, |key| key.len() as i32));
            prop_assert_eq!(skimmed.value_size, read.value.map_or(-1, |value| value.len() as i32));
        }
        prop_assert_eq!(strict.next_record(&mut buffer), Ok(None));
        prop_assert_eq!(skim.next_skim(), Ok(None));
    }

    /// Any bytes at all can be looked at.
    #[test]
    fn damaged_batches_never_panic(
        start in 0..LOG.len() - 1,
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..8),
    ) {
        let mut bytes = LOG[start..].to_vec();
        for (index, byte) in &damage {
            let at = index.index(bytes.len().min(400));
            bytes[at] = *byte;
        }
        for batch in batches(&bytes).flatten() {
            let header = batch.to_header();
            let _ = (header.last_offset(), header.last_sequence(), batch.is_crc_valid(), format!("{batch:?}"));
            let Ok(codec) = batch.codec() else { continue };
            for record in Records::new(&header, batch.body()).flatten() {
                let _ = record.headers.iter().count();
                let _ = ControlRecord::parse(record.key.unwrap_or_default(), record.value.unwrap_or_default());
            }
            let mut buffer = Vec::new();
            if let Ok(mut stream) = RecordStream::new(&header, codec, batch.body(), 1 << 22) {
                while let Ok(Some(_)) = stream.next_record(&mut buffer) {}
            }
            if let Ok(mut stream) = RecordStream::new(&header, codec, batch.body(), 1 << 22) {
                while let Ok(Some(_)) = stream.next_skim() {}
            }
        }
    }
}
