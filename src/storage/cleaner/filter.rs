//! `BatchFilter`: which batches and records of a log survive a cleaning, and what is written for them.
//!
//! | batch | kept |
//! |---|---|
//! | of an aborted transaction | nothing of it |
//! | control batch that may go (see [`CleanedTransactionMetadata`]) | until its delete horizon, which is set now if it has none (KIP-534) |
//! | other control batch | as it is |
//! | records | those that are the last of their key, or lie behind what was looked at; without a key: none |
//! | last record of a key without a value (tombstone) | until its batch's delete horizon, which is set now if it has none |
//!
//! A batch of which nothing is left goes, but for two, which stay as headers: the last one of a producer that is still
//! known, since its sequence numbers must not be forgotten, and the last one of what may be cleaned, so that the log's
//! offsets do not go back. What is left of a batch keeps offsets, epochs, sequences, codec and timestamp type; a batch
//! that keeps all its records is copied as it is.
//!
//! Pure: bytes in, bytes out. Fed with the batches of a log in order, from its start.

use std::collections::HashMap;

use bytes::Bytes;

use crate::record::batch::{BatchHeader, RecordBatch, TimestampType};
use crate::record::builder::RecordBatchBuilder;
use crate::record::compression::{Codec, Decompressor};
use crate::record::record::Records;
use crate::storage::cleaner::offset_map::{KeyHash, OffsetMap, WARM_UP};
use crate::storage::cleaner::transactions::CleanedTransactionMetadata;
use crate::storage::txn_index::AbortedTxn;
use crate::types::{Offset, ProducerEpoch, ProducerId};

/// The most that a batch may decompress to. It was accepted once; what does not fit is damage.
const MAX_DECOMPRESSED: u64 = 1 << 31;

/// The last thing that a producer wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LastRecord {
    /// `None` if that was a marker.
    pub last_data_offset: Option<Offset>,
    pub producer_epoch: ProducerEpoch,
}

/// What holds for a whole cleaning.
pub struct Round<'a> {
    pub map: &'a OffsetMap,
    /// The first offset that may not be cleaned.
    pub upper_bound: Offset,
    pub delete_retention_ms: i64,
    pub now_ms: i64,
}

/// What became of a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Filtered {
    /// Of the batch that was written, if one was.
    pub written: Option<BatchHeader>,
    /// The batch was copied as it is.
    pub is_unchanged: bool,
    pub records_read: u64,
    pub records_written: u64,
    /// Records without a key.
    pub records_without_key: u64,
    /// The entry that the cleaned segment's transaction index needs.
    pub retained_abort: Option<AbortedTxn>,
}

/// See the module's documentation.
pub struct BatchFilter {
    decompressed: Vec<u8>,
    /// What is decided by, of some records.
    seen: Vec<Seen>,
    /// Which records of the batch are kept.
    kept: Vec<bool>,
}

/// What matters of a record.
struct Seen {
    offset: Offset,
    key: Option<KeyHash>,
    has_value: bool,
}

/// What is to be done with a batch whose records do not decide it alone.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Retention {
    /// It goes, whatever it holds.
    Delete,
    /// It goes if it is empty.
    DeleteEmpty,
    /// It stays even if it is empty.
    RetainEmpty,
}

impl BatchFilter {
    pub fn new() -> BatchFilter {
        BatchFilter { decompressed: Vec::new(), seen: Vec::new(), kept: Vec::new() }
    }

    /// Gives back what a batch of more than `bytes` has taken.
    pub fn restore(&mut self, bytes: usize) {
        if self.decompressed.capacity() > 2 * bytes {
            self.decompressed = Vec::new();
        }
    }

    /// Decides about a batch and appends what is left of it to `output`. An error says why the batch cannot be read.
    pub fn filter(
        &mut self,
        round: &Round<'_>,
        transactions: &mut CleanedTransactionMetadata,
        last_records: &HashMap<ProducerId, LastRecord>,
        batch: &RecordBatch<'_>,
        output: &mut Vec<u8>,
    ) -> Result<Filtered, String> {
        let header = batch.to_header();
        let mut filtered = Filtered::default();
        let (may_go, records_go) = if header.is_control() {
            let fate = transactions.on_control_batch(&header, batch.body());
            filtered.retained_abort = fate.retained_abort;
            let is_due = header.delete_horizon_ms().is_some_and(|horizon_ms| horizon_ms <= round.now_ms);
            (fate.may_go, fate.may_go && is_due)
        } else {
            let is_aborted = transactions.on_batch(&header);
            (is_aborted, is_aborted)
        };
        let retention = retention(&header, round, last_records, records_go);
        if retention == Retention::Delete {
            return Ok(filtered);
        }

        let body = decompress(&header, batch.body(), &mut self.decompressed)?;
        self.kept.clear();
        let mut has_tombstones = false;
        let mut written = 0;
        let mut records = Records::new(&header, body);
        loop {
            self.seen.clear();
            for record in records.by_ref().take(WARM_UP) {
                let record = record.map_err(|error| error.to_string())?;
                let key = record.key.map(|key| round.map.hash(key));
                self.seen.push(Seen { offset: record.offset, key, has_value: record.value.is_some() });
            }
            if self.seen.is_empty() {
                break;
            }
            round.map.warm_up(self.seen.iter().filter_map(|record| record.key));
            for record in &self.seen {
                filtered.records_without_key += u64::from(record.key.is_none() && !header.is_control());
                let is_kept = !records_go && (header.is_control() || is_kept(round, &header, record));
                self.kept.push(is_kept);
                has_tombstones |= is_kept && !record.has_value;
                written += u64::from(is_kept);
            }
        }
        filtered.records_read = self.kept.len() as u64;
        filtered.records_written = written;

        let start = output.len();
        if written == 0 {
            if retention == Retention::RetainEmpty {
                output.extend_from_slice(empty(&header).as_bytes());
                // It was emptied before.
                filtered.is_unchanged = output[start..] == *batch.bytes();
            }
        } else {
            let sets_horizon =
                header.delete_horizon_ms().is_none() && (has_tombstones || may_go && header.is_control());
            if written == filtered.records_read && !sets_horizon {
                output.extend_from_slice(batch.bytes());
                filtered.is_unchanged = true;
            } else {
                let horizon_ms = match sets_horizon {
                    true => Some(round.now_ms.saturating_add(round.delete_retention_ms)),
                    false => header.delete_horizon_ms(),
                };
                output.extend_from_slice(&self.rebuild(&header, body_of(batch, &self.decompressed), horizon_ms)?);
            }
        }
        if output.len() > start {
            let batch = RecordBatch::parse(&output[start..]).expect("it was just written");
            filtered.written = Some(batch.to_header());
        }
        Ok(filtered)
    }

    /// The batch with the records that are kept, of which there is at least one.
    fn rebuild(&self, header: &BatchHeader, body: &[u8], horizon_ms: Option<i64>) -> Result<Bytes, String> {
        let codec = header.codec().map_err(|error| error.to_string())?;
        let mut builder = RecordBatchBuilder::new(header.base_offset())
            .compression(codec, codec.default_level())
            .leader_epoch(header.partition_leader_epoch())
            .producer(header.producer_id(), header.producer_epoch(), header.base_sequence())
            .transactional(header.is_transactional())
            .control(header.is_control());
        if header.timestamp_type() == TimestampType::LogAppendTime {
            builder = builder.log_append_time_ms(header.max_timestamp());
        }
        if let Some(horizon_ms) = horizon_ms {
            builder = builder.delete_horizon_ms(horizon_ms);
        }
        let mut records = Records::new(header, body);
        let mut next_offset = header.base_offset();
        for is_kept in &self.kept {
            let before = records.rest();
            let Some(record) = records.next() else { break };
            let record = record.map_err(|error| error.to_string())?;
            if *is_kept {
                // A client can have batches stored whose records count wrongly.
                if record.offset < next_offset || record.offset > header.last_offset() {
                    return Err(format!("the batch from {} holds offset {}", header.base_offset(), record.offset));
                }
                next_offset = record.offset.plus(1);
                let encoded = &before[..before.len() - records.rest().len()];
                builder.append_copy(header.base_timestamp(), &record, encoded);
            }
        }
        builder.set_last_offset(header.last_offset());
        Ok(builder.build())
    }
}

/// What holds for the batch as a whole.
fn retention(
    header: &BatchHeader,
    round: &Round<'_>,
    last_records: &HashMap<ProducerId, LastRecord>,
    records_go: bool,
) -> Retention {
    let is_last_of_producer = header.has_producer_id()
        && last_records.get(&header.producer_id()).is_some_and(|last| match last.last_data_offset {
            Some(offset) => header.last_offset() == offset,
            // A marker that is all there is of a producer: its epoch fences older ones.
            None => header.is_control() && header.producer_epoch() == last.producer_epoch,
        });
    if is_last_of_producer || header.last_offset().plus(1) == round.upper_bound {
        Retention::RetainEmpty
    } else if records_go {
        Retention::Delete
    } else {
        Retention::DeleteEmpty
    }
}

fn is_kept(round: &Round<'_>, header: &BatchHeader, record: &Seen) -> bool {
    if record.offset > round.map.latest_offset() {
        return true;
    }
    let Some(key) = record.key else { return false };
    let is_last = round.map.get(key).is_none_or(|last| record.offset >= last);
    let is_before_horizon = header.delete_horizon_ms().is_none_or(|horizon_ms| round.now_ms < horizon_ms);
    is_last && (record.has_value || is_before_horizon)
}

/// A batch of which only the header is left.
fn empty(header: &BatchHeader) -> BatchHeader {
    let mut builder = RecordBatchBuilder::new(header.base_offset())
        .leader_epoch(header.partition_leader_epoch())
        .producer(header.producer_id(), header.producer_epoch(), header.base_sequence())
        .transactional(header.is_transactional())
        .control(header.is_control());
    if header.timestamp_type() == TimestampType::LogAppendTime {
        builder = builder.log_append_time_ms(header.max_timestamp());
    }
    builder.set_last_offset(header.last_offset());
    let (mut built, body) = builder.build_parts();
    built.set_max_timestamp(header.timestamp_type(), header.max_timestamp(), &body);
    built
}

/// The records of a batch, decompressed into `buffer` if need be.
pub(super) fn decompress<'a>(
    header: &BatchHeader,
    body: &'a [u8],
    buffer: &'a mut Vec<u8>,
) -> Result<&'a [u8], String> {
    let codec = header.codec().map_err(|error| error.to_string())?;
    // Of a batch that was emptied nothing is compressed, whatever it says.
    if codec == Codec::None || header.record_count() == 0 {
        return Ok(body);
    }
    buffer.clear();
    let mut decompressor = Decompressor::new(codec, body, MAX_DECOMPRESSED).map_err(|error| error.to_string())?;
    while decompressor.read(buffer).map_err(|error| error.to_string())? > 0 {}
    Ok(buffer)
}

/// What [`decompress`] has returned for this batch.
fn body_of<'a>(batch: &RecordBatch<'a>, decompressed: &'a [u8]) -> &'a [u8] {
    match batch.codec() {
        Ok(Codec::None) => batch.body(),
        _ => decompressed,
    }
}

#[cfg(test)]
mod tests;
