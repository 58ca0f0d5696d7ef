//! A batch's header: what makes it one, and what may be changed without a new checksum.

use super::*;
use crate::record::builder::RecordBatchBuilder;

fn batch_of_one() -> Vec<u8> {
    let mut builder = RecordBatchBuilder::new(Offset(0));
    builder.append(1_700_000_000_000, Some(b"k"), Some(b"v"), &[]);
    builder.build().to_vec()
}

fn with_length(length: i32) -> Vec<u8> {
    let mut bytes = batch_of_one();
    bytes[LENGTH..LENGTH + 4].copy_from_slice(&length.to_be_bytes());
    bytes
}

#[test]
fn sizes_and_magic_are_checked_in_kafkas_order() {
    let bytes = batch_of_one();
    let size = bytes.len();
    assert_eq!(RecordBatch::parse(&bytes).unwrap().bytes(), bytes);
    for available in 0..size {
        let error = RecordBatch::parse(&bytes[..available]).unwrap_err();
        assert!(matches!(error, BatchError::Incomplete { needed, .. } if needed > available), "{error}");
    }
    for length in [i32::MIN, -1, 0, 13] {
        assert_eq!(RecordBatch::parse(&with_length(length)), Err(BatchError::LengthTooSmall(length)));
    }
    for length in [14, 30, 48] {
        let error = BatchError::SmallerThanHeader(length as usize + 12);
        assert_eq!(RecordBatch::parse(&with_length(length)), Err(error));
    }
    assert_eq!(RecordBatch::parse(&with_length(49)).unwrap().body(), b"");
    assert!(matches!(RecordBatch::parse(&with_length(i32::MAX - 12)), Err(BatchError::Incomplete { .. })));
    assert_eq!(RecordBatch::parse(&with_length(i32::MAX - 11)), Err(BatchError::LengthTooLarge(i32::MAX - 11)));
    for (magic, error) in [
        (0, BatchError::OldFormat { magic: 0, size }),
        (1, BatchError::OldFormat { magic: 1, size }),
        (3, BatchError::InvalidMagic(3)),
        (-1, BatchError::InvalidMagic(-1)),
    ] {
        let mut bytes = batch_of_one();
        bytes[MAGIC_AT] = magic as u8;
        assert_eq!(RecordBatch::parse(&bytes), Err(error));
    }
}

#[test]
fn iteration_ends_at_a_cut_and_after_an_error() {
    let one = batch_of_one();
    let mut bytes = [one.clone(), one.clone(), one[..40].to_vec()].concat();
    let mut iterator = batches(&bytes);
    assert_eq!(iterator.by_ref().filter(Result::is_ok).count(), 2);
    assert_eq!(iterator.remaining(), &one[..40]);

    bytes[one.len() + MAGIC_AT] = 9;
    let found: Vec<_> = batches(&bytes).collect();
    assert_eq!(found.len(), 2);
    assert_eq!(found[1], Err(BatchError::InvalidMagic(9)));
    assert!(batches(&[]).next().is_none());
}

#[test]
fn offset_and_epoch_need_no_new_crc() {
    let bytes = batch_of_one();
    let batch = RecordBatch::parse(&bytes).unwrap();
    let mut header = batch.to_header();
    header.set_base_offset(Offset(77));
    header.set_partition_leader_epoch(LeaderEpoch(5));
    let patched = [header.as_bytes(), batch.body()].concat();
    let patched = RecordBatch::parse(&patched).unwrap();
    assert!(patched.is_crc_valid());
    assert_eq!((patched.base_offset(), patched.last_offset()), (Offset(77), Offset(77)));
    assert_eq!(patched.partition_leader_epoch(), LeaderEpoch(5));
    assert_eq!(BatchHeader::from_bytes(*header.as_bytes()), Ok(header));
}

#[test]
fn a_new_max_timestamp_brings_a_new_crc_and_clean_attributes() {
    let bytes = batch_of_one();
    let batch = RecordBatch::parse(&bytes).unwrap();
    let mut header = batch.to_header();
    // Bits without a meaning are kept as long as nothing changes, as in Kafka.
    header.put(ATTRIBUTES, (0x7f80u16 as i16 | TRANSACTIONAL_BIT).to_be_bytes());
    let before = header;
    header.set_max_timestamp(TimestampType::CreateTime, batch.max_timestamp(), batch.body());
    assert_eq!(header, before);

    header.set_max_timestamp(TimestampType::LogAppendTime, 42, batch.body());
    let patched = [header.as_bytes(), batch.body()].concat();
    let patched = RecordBatch::parse(&patched).unwrap();
    assert!(patched.is_crc_valid());
    assert_eq!(patched.attributes(), TIMESTAMP_TYPE_BIT | TRANSACTIONAL_BIT);
    assert_eq!((patched.timestamp_type(), patched.max_timestamp()), (TimestampType::LogAppendTime, 42));
}

#[test]
fn the_crc_covers_what_follows_it() {
    let bytes = batch_of_one();
    for at in ATTRIBUTES..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1;
        assert!(!RecordBatch::parse(&damaged).unwrap().is_crc_valid(), "byte {at}");
    }
}

#[test]
fn sequences_wrap_to_zero() {
    assert_eq!(increment_sequence(5, 3), 8);
    assert_eq!(increment_sequence(i32::MAX, 1), 0);
    assert_eq!(increment_sequence(i32::MAX - 1, 4), 2);
    assert_eq!(decrement_sequence(8, 3), 5);
    assert_eq!(decrement_sequence(0, 1), i32::MAX);
    assert_eq!(decrement_sequence(2, 4), i32::MAX - 1);
    let mut builder = RecordBatchBuilder::new(Offset(0)).producer(ProducerId(1), ProducerEpoch(0), i32::MAX - 1);
    for _ in 0..4 {
        builder.append(0, None, None, &[]);
    }
    assert_eq!(RecordBatch::parse(&builder.build()).unwrap().last_sequence(), 1);
}
