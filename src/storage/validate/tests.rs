//! Recorded answers of Apache Kafka 4.3.1 to good and bad batches, and what needs no recording.

use proptest::prelude::*;
use serde_json::Value;

use super::*;
use crate::record::batch::{HEADER_SIZE, RecordBatch};
use crate::record::builder::RecordBatchBuilder;
use crate::record::compression::decompress;
use crate::record::produced::{ProducedError, produced_batch};
use crate::record::record::Records;
use crate::types::{ProducerEpoch, ProducerId};

const ANSWERS: &str = include_str!("../../../tests/golden/record/produce-answers.jsonl");
const GOLDEN: &[u8] = include_bytes!("../../../tests/golden/record/batches.log");

fn hex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
}

fn config(partition: &TopicPartition) -> ValidationConfig<'_> {
    ValidationConfig {
        partition,
        origin: AppendOrigin::Client,
        leader_epoch: LeaderEpoch(0),
        max_message_bytes: 1_048_588,
        timestamp_type: TimestampType::CreateTime,
        timestamp_before_max_ms: i64::MAX,
        timestamp_after_max_ms: 3_600_000,
        compression: TargetCompression::Producer,
        compacted: false,
    }
}

/// The topics that the answers were recorded with.
fn config_of_topic<'a>(topic: &str, partition: &'a TopicPartition) -> ValidationConfig<'a> {
    let codec = |codec: Codec| TargetCompression::Codec { codec, level: codec.default_level() };
    let base = config(partition);
    match topic {
        "plain" => base,
        "compact" => ValidationConfig { compacted: true, ..base },
        "lat" => ValidationConfig { timestamp_type: TimestampType::LogAppendTime, ..base },
        "gzip" => ValidationConfig { compression: codec(Codec::Gzip), ..base },
        "none" => ValidationConfig { compression: codec(Codec::None), ..base },
        "lz4" => ValidationConfig { compression: codec(Codec::Lz4), ..base },
        "snappy" => ValidationConfig { compression: codec(Codec::Snappy), ..base },
        "zstd" => ValidationConfig { compression: codec(Codec::Zstd), ..base },
        "ts" => ValidationConfig { timestamp_before_max_ms: 10_000, timestamp_after_max_ms: 10_000, ..base },
        "compactts" => ValidationConfig { compacted: true, ..config_of_topic("ts", partition) },
        "latgzip" => ValidationConfig { compression: codec(Codec::Gzip), ..config_of_topic("lat", partition) },
        "small" => ValidationConfig { max_message_bytes: 200, ..base },
        "smallnone" => ValidationConfig { max_message_bytes: 200, ..config_of_topic("none", partition) },
        topic => panic!("no settings for topic {topic}"),
    }
}

struct Answer {
    code: i64,
    record_errors: Vec<(i64, String)>,
    message: Option<String>,
    stored: Option<ValidatedRecords>,
}

impl Answer {
    fn refused(code: i64, message: Option<String>) -> Answer {
        Answer { code, record_errors: Vec::new(), message, stored: None }
    }
}

/// What a produce request of `records` would be answered.
fn produce(records: Vec<u8>, version: i16, config: &ValidationConfig<'_>, now_ms: i64) -> Answer {
    if let Err(error) = produced_batch(&records, version) {
        return match error {
            ProducedError::Request(_) => Answer::refused(2, Some(error.to_string())),
            ProducedError::Corrupt(_) => Answer::refused(2, None),
            ProducedError::UnreadableRequest(_) | ProducedError::Unreadable => Answer::refused(-1, None),
            ProducedError::NoBatch
            | ProducedError::OldFormat
            | ProducedError::MoreThanOneBatch
            | ProducedError::BaseOffset => Answer::refused(87, None),
            ProducedError::ZstdBeforeVersion7 => Answer::refused(76, None),
        };
    }
    let error = match validate(records.into(), config, now_ms) {
        Ok(stored) => return Answer { stored: Some(stored), ..Answer::refused(0, None) },
        Err(error) => error,
    };
    let code = match &error {
        ValidateError::Corrupt(_) => 2,
        ValidateError::InvalidRecord { .. } => 87,
        ValidateError::InvalidTimestamp { .. } => 32,
        ValidateError::TooLarge(_) => 10,
        ValidateError::UnsupportedForMessageFormat(_) => 43,
        ValidateError::Unreadable(_) | ValidateError::OffsetsOutOfOrder(_) => -1,
    };
    let mut answer = Answer::refused(code, error.wire_message().map(str::to_owned));
    if let ValidateError::InvalidRecord { record_errors, .. } | ValidateError::InvalidTimestamp { record_errors, .. } =
        error
    {
        answer.record_errors =
            record_errors.into_iter().map(|error| (i64::from(error.batch_index), error.message)).collect();
    }
    answer
}

/// What a stored batch says, with its records decompressed; for batches that the broker compressed, of which sizes
/// and checksum depend on the compressor.
fn content(bytes: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let batch = RecordBatch::parse(bytes).unwrap();
    assert!(batch.is_crc_valid());
    let mut header = batch.to_header().as_bytes().to_vec();
    header[8..12].fill(0);
    header[17..21].fill(0);
    let body = decompress(batch.codec().unwrap(), &Bytes::copy_from_slice(batch.body()), 1 << 20).unwrap();
    (header, body.to_vec())
}

fn check_answer(line: &str) {
    let recorded: Value = serde_json::from_str(line).unwrap();
    let text = |field: &str| recorded[field].as_str().unwrap();
    let topic = text("topic");
    let partition = TopicPartition::new(topic, 0);
    let config = config_of_topic(topic, &partition);
    let version = recorded["version"].as_i64().unwrap() as i16;
    let records = hex(text("records"));
    let case = format!("{} to {topic}: {}", text("name"), text("records"));

    let answer = produce(records.clone(), version, &config, recorded["now"].as_i64().unwrap());
    assert_eq!(answer.code, recorded["code"].as_i64().unwrap(), "{case}");
    assert_eq!(answer.message.as_deref(), recorded["message"].as_str(), "{case}");
    let expected: Vec<_> = recorded["errors"]
        .as_array()
        .unwrap()
        .iter()
        .map(|error| (error[0].as_i64().unwrap(), error[1].as_str().unwrap().to_owned()))
        .collect();
    assert_eq!(answer.record_errors, expected, "{case}");

    let Some(mut stored) = answer.stored else { return };
    let expected = hex(text("stored"));
    let expected_header = RecordBatch::parse(&expected).unwrap().to_header();
    let next = stored.assign(expected_header.base_offset(), LeaderEpoch(0));
    assert_eq!(next, expected_header.last_offset().plus(1), "{case}");
    assert_eq!(stored.batches.len(), 1, "{case}");
    let batch = &stored.batches[0];
    let bytes = [&batch.header.as_bytes()[..], &batch.body].concat();
    assert_eq!(stored.size_in_bytes, bytes.len());
    assert_eq!(stored.max_timestamp, expected_header.max_timestamp(), "{case}");
    let rebuilt_compressed = expected_header.codec() != Ok(Codec::None)
        && expected[HEADER_SIZE..] != records[HEADER_SIZE..expected.len().min(records.len())];
    if rebuilt_compressed {
        assert_eq!(content(&bytes), content(&expected), "{case}");
    } else {
        assert_eq!(bytes, expected, "{case}");
    }
}

#[test]
fn answers_are_kafkas() {
    let mut answers = 0;
    for line in ANSWERS.lines() {
        check_answer(line);
        answers += 1;
    }
    assert!(answers > 600);
}

fn records_of(count: i64) -> RecordBatchBuilder {
    let mut builder = RecordBatchBuilder::new(Offset(0));
    for number in 0..count {
        builder.append(1000 + number, Some(b"key"), Some(b"value"), &[]);
    }
    builder
}

fn ordinary(builder: RecordBatchBuilder) -> Result<ValidatedRecords, ValidateError> {
    let partition = TopicPartition::new("t", 0);
    validate(builder.build(), &config(&partition), 1000)
}

#[test]
fn the_body_is_not_copied() {
    let partition = TopicPartition::new("t", 0);
    for codec in Codec::ALL {
        let frame = records_of(20).compression(codec, codec.default_level()).build();
        for timestamp_type in [TimestampType::CreateTime, TimestampType::LogAppendTime] {
            let config = ValidationConfig { timestamp_type, ..config(&partition) };
            let validated = validate(frame.clone(), &config, 5000).unwrap();
            let [batch] = &validated.batches[..] else { panic!("one batch") };
            assert_eq!(batch.body.as_ptr(), frame[HEADER_SIZE..].as_ptr(), "{codec}");
            let stored = [&batch.header.as_bytes()[..], &batch.body].concat();
            assert!(RecordBatch::parse(&stored).unwrap().is_crc_valid());
            let append_time = (timestamp_type == TimestampType::LogAppendTime).then_some(5000);
            assert_eq!(validated.log_append_time_ms, append_time);
            assert_eq!(validated.max_timestamp, append_time.unwrap_or(1019));
        }
    }
}

#[test]
fn a_rebuilt_batch_keeps_its_producer() {
    let partition = TopicPartition::new("t", 0);
    for target in Codec::ALL {
        let compression = TargetCompression::Codec { codec: target, level: target.default_level() };
        let config = ValidationConfig { compression, ..config(&partition) };
        for source in Codec::ALL {
            let frame = records_of(20)
                .compression(source, source.default_level())
                .producer(ProducerId(7), ProducerEpoch(3), 40)
                .transactional(true)
                .build();
            let mut validated = validate(frame.clone(), &config, 1000).unwrap();
            assert_eq!(validated.assign(Offset(100), LeaderEpoch(9)), Offset(120));
            let batch = &validated.batches[0];
            let header = batch.header;
            assert_eq!(header.codec(), Ok(target));
            assert_eq!((header.producer_id().0, header.producer_epoch().0, header.base_sequence()), (7, 3, 40));
            assert!(header.is_transactional());
            assert_eq!(header.partition_leader_epoch(), LeaderEpoch(9));
            let body = decompress(target, &batch.body, 1 << 20).unwrap();
            let offsets: Vec<_> = Records::new(&header, &body).map(|record| record.unwrap().offset.0).collect();
            assert_eq!(offsets, (100..120).collect::<Vec<_>>());
        }
    }
}

#[test]
fn coordinators_write_control_batches_as_they_are() {
    let partition = TopicPartition::new("__transaction_state", 0);
    let marker = crate::record::control::EndTxnMarker { committed: true, coordinator_epoch: 2 };
    let mut builder = RecordBatchBuilder::new(Offset(0))
        .producer(ProducerId(7), ProducerEpoch(0), -1)
        .transactional(true)
        .control(true);
    builder.append_control(1000, &crate::record::control::ControlRecord::EndTxn(marker));
    let frame = builder.build();
    let compression = TargetCompression::Codec { codec: Codec::Gzip, level: -1 };
    let config = ValidationConfig { origin: AppendOrigin::Coordinator, compression, ..config(&partition) };
    let validated = validate(frame.clone(), &config, 1000).unwrap();
    assert_eq!(validated.batches[0].header.as_bytes()[..], frame[..HEADER_SIZE]);
    assert_eq!(validated.batches[0].body, frame[HEADER_SIZE..]);

    let config = ValidationConfig { origin: AppendOrigin::Client, ..config };
    assert!(matches!(validate(frame, &config, 1000), Err(ValidateError::InvalidRecord { .. })));
}

fn batch_at(offset: i64, epoch: i32) -> Vec<u8> {
    let mut builder = RecordBatchBuilder::new(Offset(offset)).leader_epoch(LeaderEpoch(epoch));
    builder.append(offset, Some(b"k"), None, &[]);
    builder.append(offset + 1, Some(b"k"), None, &[]);
    builder.build().to_vec()
}

#[test]
fn replicated_batches_stay_as_they_came() {
    let partition = TopicPartition::new("t", 0);
    let config = ValidationConfig {
        origin: AppendOrigin::Replication,
        leader_epoch: LeaderEpoch(4),
        // Not for followers: the leader has decided.
        max_message_bytes: 10,
        ..config(&partition)
    };
    let whole = [batch_at(10, 3), batch_at(12, 4)].concat();
    // A fetch may end within a batch.
    let fetched = Bytes::from([&whole[..], &batch_at(14, 4)[..30]].concat());
    let validated = validate(fetched, &config, 0).unwrap();
    assert_eq!(validated.as_given.as_deref(), Some(&whole[..]));
    assert_eq!((validated.size_in_bytes, validated.max_timestamp), (whole.len(), 13));
    let offsets: Vec<_> = validated.batches.iter().map(|batch| batch.header.base_offset().0).collect();
    assert_eq!(offsets, [10, 12]);

    // Batches of an epoch that is not followed yet are left for later.
    let newer = Bytes::from([batch_at(10, 4), batch_at(12, 5), batch_at(14, 4)].concat());
    assert_eq!(validate(newer, &config, 0).unwrap().batches.len(), 1);

    let back = Bytes::from([batch_at(10, 4), batch_at(10, 4)].concat());
    assert!(matches!(validate(back, &config, 0), Err(ValidateError::OffsetsOutOfOrder(_))));
    let mut damaged = whole.clone();
    *damaged.last_mut().unwrap() ^= 1;
    assert!(matches!(validate(damaged.into(), &config, 0), Err(ValidateError::Corrupt(_))));
    let mut old = whole;
    old[16] = 1;
    assert!(matches!(validate(old.into(), &config, 0), Err(ValidateError::UnsupportedForMessageFormat(_))));
}

#[test]
fn the_raft_leader_sets_offsets_and_epoch_itself() {
    let partition = TopicPartition::new("__cluster_metadata", 0);
    let config =
        ValidationConfig { origin: AppendOrigin::RaftLeader, leader_epoch: LeaderEpoch(4), ..config(&partition) };
    let whole = Bytes::from([batch_at(10, 4), batch_at(12, 4)].concat());
    assert_eq!(validate(whole.clone(), &config, 0).unwrap().as_given, Some(whole));
    let mixed = Bytes::from([batch_at(10, 4), batch_at(12, 3)].concat());
    assert!(matches!(validate(mixed, &config, 0), Err(ValidateError::InvalidRecord { .. })));
    let config = ValidationConfig { max_message_bytes: 50, ..config };
    assert!(matches!(validate(batch_at(10, 4).into(), &config, 0), Err(ValidateError::TooLarge(_))));
}

#[test]
#[should_panic(expected = "replicated batches keep their offsets")]
fn replicated_offsets_cannot_be_assigned() {
    let partition = TopicPartition::new("t", 0);
    let config = ValidationConfig { origin: AppendOrigin::Replication, ..config(&partition) };
    validate(batch_at(10, 0).into(), &config, 0).unwrap().assign(Offset(0), LeaderEpoch(0));
}

#[test]
fn nothing_is_nothing() {
    let partition = TopicPartition::new("t", 0);
    for origin in [AppendOrigin::Client, AppendOrigin::Coordinator, AppendOrigin::RaftLeader, AppendOrigin::Replication]
    {
        let config = ValidationConfig { origin, ..config(&partition) };
        let validated = validate(Bytes::new(), &config, 0).unwrap();
        assert_eq!((validated.batches.len(), validated.size_in_bytes, validated.max_timestamp), (0, 0, -1));
    }
}

#[test]
fn refused_records_are_counted_beyond_those_listed() {
    let partition = TopicPartition::new("t", 0);
    let mut builder = RecordBatchBuilder::new(Offset(0)).compression(Codec::Lz4, 9);
    for _ in 0..12_000 {
        builder.append(0, None, None, &[]);
    }
    let config = ValidationConfig { compacted: true, ..config(&partition) };
    let Err(ValidateError::InvalidRecord { message, record_errors }) = validate(builder.build(), &config, 0) else {
        panic!("records without a key on a compacted topic")
    };
    assert_eq!(record_errors.len(), 10_000);
    assert!(message.contains("12000 record errors in total"), "{message}");
}

/// Beyond what is ever useful, a batch is refused by its size, as one of its parts will be taken.
#[test]
fn decompression_is_bounded() {
    let zstd = |blocks: usize| {
        let mut body = hex("28b52ffd0038");
        for _ in 0..blocks {
            body.extend(hex("02001000"));
        }
        let mut frame = records_of(1).build()[..HEADER_SIZE].to_vec();
        frame.extend(body);
        let length = frame.len() as i32 - 12;
        frame[8..12].copy_from_slice(&length.to_be_bytes());
        frame[22] = Codec::Zstd.id();
        let crc = crc32c::crc32c(&frame[21..]);
        frame[17..21].copy_from_slice(&crc.to_be_bytes());
        Bytes::from(frame)
    };
    let partition = TopicPartition::new("t", 0);
    let config = config(&partition);
    // The zeros read as records of no size; where they end, so does the batch.
    assert!(matches!(validate(zstd(10), &config, 0), Err(ValidateError::InvalidRecord { .. })));

    // A value of 70 MB that takes a few kilobytes to send is more than gzip could do.
    let mut builder = RecordBatchBuilder::new(Offset(0)).compression(Codec::Zstd, 3);
    builder.append(0, None, Some(&vec![0; 70 << 20]), &[]);
    let frame = builder.build();
    assert!(frame.len() < 20_000);
    assert!(matches!(validate(frame.clone(), &config, 0), Err(ValidateError::TooLarge(_))));
    let rebuild = ValidationConfig { compression: TargetCompression::Codec { codec: Codec::Gzip, level: 1 }, ..config };
    assert!(matches!(validate(frame, &rebuild, 0), Err(ValidateError::TooLarge(_))));
}

#[test]
fn only_record_errors_bring_a_message() {
    assert!(ordinary(records_of(3)).is_ok());
    let late = ordinary({
        let mut builder = records_of(1);
        builder.append(1 << 50, None, None, &[]);
        builder
    });
    assert!(late.unwrap_err().wire_message().is_some());
    let control = ordinary(records_of(1).control(true)).unwrap_err();
    assert_eq!(control.wire_message(), None);
    assert_eq!(control.to_string(), "Clients are not allowed to write control records in topic partition t-0");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Whatever is accepted can be read back, and nothing panics.
    #[test]
    fn damaged_batches_are_refused_or_sound(
        start in 0..GOLDEN.len() - 1,
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        with_crc in any::<bool>(),
        origin in prop::sample::select(vec![
            AppendOrigin::Client, AppendOrigin::Coordinator, AppendOrigin::RaftLeader, AppendOrigin::Replication,
        ]),
        target in prop::option::of(prop::sample::select(Codec::ALL.to_vec())),
        timestamp_type in prop::sample::select(vec![TimestampType::CreateTime, TimestampType::LogAppendTime]),
    ) {
        // One of the golden batches, damaged.
        let batches: Vec<_> = crate::record::batch::batches(GOLDEN).flatten().collect();
        let batch = batches[start % batches.len()];
        let mut bytes = batch.bytes().to_vec();
        if origin == AppendOrigin::Client {
            bytes[..8].fill(0);
        }
        for (index, byte) in damage {
            let at = index.index(bytes.len());
            bytes[at] = byte;
        }
        if with_crc {
            let crc = crc32c::crc32c(&bytes[21..]);
            bytes[17..21].copy_from_slice(&crc.to_be_bytes());
        }
        let partition = TopicPartition::new("t", 0);
        let compression = match target {
            Some(codec) => TargetCompression::Codec { codec, level: codec.default_level() },
            None => TargetCompression::Producer,
        };
        let config = ValidationConfig { origin, compression, timestamp_type, ..config(&partition) };
        let Ok(validated) = validate(bytes.into(), &config, 1_800_000_000_000) else { return Ok(()) };
        for batch in &validated.batches {
            let stored = [&batch.header.as_bytes()[..], &batch.body].concat();
            let stored = RecordBatch::parse(&stored).unwrap();
            prop_assert!(stored.is_crc_valid());
            prop_assert_eq!(stored.size_in_bytes(), batch.size_in_bytes());
            if origin == AppendOrigin::Client {
                prop_assert_eq!(stored.last_offset_delta() + 1, stored.record_count());
                prop_assert!(!stored.is_control());
            }
        }
    }
}
