//! Batches in the building, read back.

use super::*;
use crate::record::batch::RecordBatch;

#[test]
fn parts_are_the_batch() {
    let mut builder = RecordBatchBuilder::new(Offset(3)).compression(Codec::Zstd, 3);
    for number in 0..50 {
        builder.append(number, Some(b"key"), Some(&[7; 100]), &[Header { key: b"h", value: None }]);
    }
    assert_eq!(builder.record_count(), 50);
    let uncompressed = builder.size_in_bytes();
    let (header, body) = builder.clone().build_parts();
    let whole = builder.build();
    assert_eq!([header.as_bytes(), &body[..]].concat(), whole);
    assert!(whole.len() < uncompressed / 10);
    assert_eq!(RecordBatch::parse(&whole).unwrap().last_offset(), Offset(52));
}

#[test]
fn a_batch_may_end_behind_its_last_record() {
    let mut builder = RecordBatchBuilder::new(Offset(10));
    builder.append_at(Offset(12), 5, None, Some(b"v"), [].into_iter());
    builder.set_last_offset(Offset(19));
    let bytes = builder.build();
    let batch = RecordBatch::parse(&bytes).unwrap();
    assert_eq!((batch.base_offset(), batch.last_offset(), batch.record_count()), (Offset(10), Offset(19), 1));
    let record = batch.uncompressed_records().unwrap().next().unwrap().unwrap();
    assert_eq!(record.offset, Offset(12));
}

#[test]
#[should_panic(expected = "offsets grow")]
fn offsets_must_grow() {
    let mut builder = RecordBatchBuilder::new(Offset(10));
    builder.append_at(Offset(12), 5, None, None, [].into_iter());
    builder.append_at(Offset(12), 5, None, None, [].into_iter());
}
