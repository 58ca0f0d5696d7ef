//! The answers are those of Apache Kafka 4.3.1 to the same bytes.

use super::*;
use crate::record::builder::RecordBatchBuilder;
use crate::types::Offset;

fn batch(codec: Codec) -> Vec<u8> {
    let mut builder = RecordBatchBuilder::new(Offset(0)).compression(codec, codec.default_level());
    builder.append(1_700_000_000_000, Some(b"k"), Some(b"v"), &[]);
    builder.build().to_vec()
}

/// A batch that says it has this length; what is beyond it is left out, or not.
fn with_length(length: i32, cut: bool) -> Vec<u8> {
    let mut bytes = batch(Codec::None);
    bytes[8..12].copy_from_slice(&length.to_be_bytes());
    if cut {
        bytes.truncate(12 + length as usize);
    }
    bytes
}

fn with_magic(magic: i8) -> Vec<u8> {
    let mut bytes = batch(Codec::None);
    bytes[16] = magic as u8;
    bytes
}

fn error(records: &[u8]) -> ProducedError {
    produced_batch(records, 9).unwrap_err()
}

#[test]
fn one_whole_batch_is_taken() {
    let one = batch(Codec::None);
    assert_eq!(produced_batch(&one, 3).unwrap().bytes(), one);
    for tail in [&[1; 5][..], &one[..40]] {
        assert_eq!(produced_batch(&[&one, tail].concat(), 9).unwrap().bytes(), one);
    }
    assert_eq!(error(&[one.clone(), one.clone()].concat()), ProducedError::MoreThanOneBatch);
    for size in 0..one.len() {
        assert_eq!(error(&one[..size]), ProducedError::NoBatch);
    }
}

#[test]
fn bytes_that_are_no_batch_fail_the_request() {
    assert_eq!(error(&with_magic(3)), ProducedError::Request(BatchError::InvalidMagic(3)));
    assert_eq!(error(&with_magic(-1)), ProducedError::Request(BatchError::InvalidMagic(-1)));
    let too_small = error(&with_length(13, false));
    assert_eq!(too_small, ProducedError::Request(BatchError::LengthTooSmall(13)));
    assert_eq!(too_small.to_string(), "Record size 13 is less than the minimum record overhead (14)");
    assert!(matches!(error(&with_length(i32::MAX, false)), ProducedError::UnreadableRequest(_)));
    assert_eq!(error(&with_length(i32::MAX - 12, false)), ProducedError::NoBatch);
}

#[test]
fn old_formats_are_refused() {
    assert_eq!(error(&with_magic(0)), ProducedError::OldFormat);
    assert_eq!(error(&with_magic(1)), ProducedError::OldFormat);
}

#[test]
fn what_follows_a_batch_is_looked_at() {
    let one = batch(Codec::None);
    let corrupt = error(&[&one[..], &[0; 20]].concat());
    assert_eq!(corrupt, ProducedError::Corrupt(BatchError::LengthTooSmall(0)));
    let mut huge = [0xff; 20];
    huge[8] = 0x7f;
    huge[16] = 2;
    assert!(matches!(error(&[&one[..], &huge].concat()), ProducedError::UnreadableRequest(_)));
    assert_eq!(error(&[&one[..], &with_magic(1)].concat()), ProducedError::MoreThanOneBatch);
}

#[test]
fn batches_smaller_than_a_header_fail_in_kafkas_various_ways() {
    for length in [14, 15, 20, 30, 38] {
        assert_eq!(error(&with_length(length, true)), ProducedError::Unreadable, "{length}");
    }
    for length in [39, 45, 48] {
        let mut bytes = with_length(length, true);
        assert!(matches!(error(&bytes), ProducedError::Corrupt(_)), "{length}");
        bytes[7] = 1;
        assert_eq!(error(&bytes), ProducedError::BaseOffset, "{length}");
    }
    // The rest of the batch is then taken for a second one.
    assert!(matches!(error(&with_length(14, false)), ProducedError::Corrupt(_)));
}

#[test]
fn zstd_came_with_version_7() {
    assert_eq!(produced_batch(&batch(Codec::Zstd), 6), Err(ProducedError::ZstdBeforeVersion7));
    assert!(produced_batch(&batch(Codec::Zstd), 7).is_ok());
    assert!(produced_batch(&batch(Codec::Lz4), 3).is_ok());
    let mut unknown = batch(Codec::None);
    unknown[22] = 5;
    assert_eq!(produced_batch(&unknown, 6), Err(ProducedError::Unreadable));
    // From version 7 on, it is the append that finds out, after the CRC.
    assert!(produced_batch(&unknown, 7).is_ok());
}
