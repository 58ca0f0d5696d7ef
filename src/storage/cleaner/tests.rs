//! Cleaning whole logs: beside what Kafka's own cleaner kept, against a model, and while the log changes.

use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;

use super::*;
use crate::record::batch::{RecordBatch, batches};
use crate::record::record::RecordStream;
use crate::storage::log::{LogContext, Wait};

mod golden;
mod model;
mod running;

/// What a test cleans with: room for everything, at full speed.
fn cleaner() -> Cleaner {
    cleaner_with(CleanerBuffers { dedupe_bytes: 1 << 20, dedupe_load_factor: 0.9, io_bytes: 4096 })
}

fn cleaner_with(buffers: CleanerBuffers) -> Cleaner {
    Cleaner::new(buffers, Arc::new(Throttler::new(f64::MAX, Duration::ZERO)), Arc::default())
}

/// Cleans a log of which everything is replicated, if it is due.
fn clean_if_due(log: &Log, context: &LogContext, cleaner: &mut Cleaner) -> Option<Result<CleanStats, CleanError>> {
    log.on_high_watermark(log.log_end_offset());
    let truncations = log.truncations();
    let facts = log_facts(log, log.log_end_offset()).unwrap();
    let to_clean = LogToClean::of(&facts, &log.config(), context.clock.now_ms());
    to_clean.is_due(&log.config()).then(|| {
        let _running = log.cleaning.try_begin().unwrap();
        let result = cleaner.clean(log, &to_clean, truncations);
        if let Ok(stats) = &result {
            log.note_cleaned(stats.end_offset, stats.truncations);
        }
        result
    })
}

/// A record, with what of its batch belongs to it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Kept {
    offset: i64,
    timestamp: i64,
    key: Option<Vec<u8>>,
    value: Option<Vec<u8>>,
    headers: Vec<(Vec<u8>, Option<Vec<u8>>)>,
}

fn records(batch: &RecordBatch<'_>) -> Vec<Kept> {
    let mut stream = RecordStream::new(&batch.to_header(), batch.codec().unwrap(), batch.body(), 1 << 30);
    let mut buffer = Vec::new();
    let mut records = Vec::new();
    if batch.record_count() == 0 {
        return records;
    }
    while let Some(record) = stream.as_mut().unwrap().next_record(&mut buffer).unwrap() {
        records.push(Kept {
            offset: record.offset.0,
            timestamp: record.timestamp,
            key: record.key.map(<[u8]>::to_vec),
            value: record.value.map(<[u8]>::to_vec),
            headers: record.headers.iter().map(|h| (h.key.to_vec(), h.value.map(<[u8]>::to_vec))).collect(),
        });
    }
    records
}

/// All bytes of a log, as a reader gets them, batch by batch.
fn read_batches(log: &Log) -> Vec<Vec<u8>> {
    let end = log.log_end_offset();
    let mut next = log.log_start_offset();
    let mut all = Vec::new();
    while next < end {
        let read = log.read(next, 10_000, end, true, Wait::ForDisk).unwrap();
        let mut bytes = BytesMut::new();
        read.slice.read_into(&mut bytes).unwrap();
        if bytes.is_empty() {
            break;
        }
        for batch in batches(&bytes) {
            let batch = batch.unwrap();
            assert!(batch.is_crc_valid());
            if batch.last_offset() >= next {
                next = batch.last_offset().plus(1);
                all.push(batch.bytes().to_vec());
            }
        }
    }
    all
}
