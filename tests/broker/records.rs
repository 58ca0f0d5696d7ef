//! Batches to produce, and what a consumer reads in those it fetched.

use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use kafka_protocol::messages::fetch_response::PartitionData;
use ottla::record::batch::batches;
use ottla::record::builder::RecordBatchBuilder;
use ottla::types::{Offset, ProducerEpoch, ProducerId};

/// The time by the clock, as producers write it into their records.
pub fn now_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock").as_millis() as i64
}

/// One batch with a record for each value.
pub fn batch<V: AsRef<[u8]>>(values: &[V]) -> Bytes {
    build(RecordBatchBuilder::new(Offset(0)), now_ms(), values)
}

/// The same, with a timestamp.
pub fn batch_at<V: AsRef<[u8]>>(timestamp_ms: i64, values: &[V]) -> Bytes {
    build(RecordBatchBuilder::new(Offset(0)), timestamp_ms, values)
}

/// The same as [`batch`], each value with itself as its key.
pub fn keyed<V: AsRef<[u8]>>(values: &[V]) -> Bytes {
    let mut builder = RecordBatchBuilder::new(Offset(0));
    for value in values {
        builder.append(now_ms(), Some(value.as_ref()), Some(value.as_ref()), &[]);
    }
    builder.build()
}

/// One batch of an idempotent producer.
pub fn idempotent<V: AsRef<[u8]>>(producer_id: i64, base_sequence: i32, values: &[V]) -> Bytes {
    let builder = RecordBatchBuilder::new(Offset(0));
    build(builder.producer(ProducerId(producer_id), ProducerEpoch(0), base_sequence), now_ms(), values)
}

fn build<V: AsRef<[u8]>>(mut builder: RecordBatchBuilder, timestamp_ms: i64, values: &[V]) -> Bytes {
    for value in values {
        builder.append(timestamp_ms, None, Some(value.as_ref()), &[]);
    }
    builder.build()
}

/// A value of so many bytes.
pub fn large(size: usize) -> Vec<u8> {
    vec![b'x'; size]
}

/// Offsets and values in an answer, every one of which must be sound.
pub fn of(answer: &PartitionData) -> Vec<(i64, String)> {
    let bytes = answer.records.clone().unwrap_or_default();
    let mut found = Vec::new();
    for batch in batches(&bytes) {
        let batch = batch.expect("whole batches");
        assert!(batch.is_crc_valid(), "a damaged batch at {}", batch.base_offset());
        for record in batch.uncompressed_records().expect("no compression") {
            let record = record.expect("a record");
            let value = record.value.expect("a value");
            found.push((record.offset.0, String::from_utf8_lossy(value).into_owned()));
        }
    }
    found
}

/// The values alone.
pub fn values(answer: &PartitionData) -> Vec<String> {
    of(answer).into_iter().map(|(_, value)| value).collect()
}
