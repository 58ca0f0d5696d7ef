//! Appending: the hot path of a leader and of a follower.
//!
//! Under the lock: the producers' state is asked, offsets and epochs are put into the headers, everything is written
//! with one `pwritev`, then indexes, producers and epochs follow, and at last readers are shown the new end. Whatever
//! can be refused is refused before anything changes; a disk that fails fails the log.

use std::io::{self, IoSlice};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tracing::warn;

use crate::config::TopicConfig;
use crate::record::batch::{BatchHeader, NO_TIMESTAMP};
use crate::record::control::ControlRecord;
use crate::record::record::Records;
use crate::storage::background::Lane;
use crate::storage::disk::is_full;
use crate::storage::file_name::MAX_BASE_OFFSET;
use crate::storage::index_file::IndexError;
use crate::storage::log::{
    ActiveSegment, AppendContext, AppendError, AppendInfo, Log, LogOffsetMetadata, OPEN, ReadError, Wait, Writer,
};
use crate::storage::producer_state::{Analysis, BatchKind, EndTransactionMarker, ProducerBatch, ProducerUpdates};
use crate::storage::segment::{BatchPosition, LastIndexEntry, LogSegment, txn_io};
use crate::storage::time_index::TimestampEntry;
use crate::storage::txn_index::AbortedTxn;
use crate::storage::validate::{AppendOrigin, ValidatedRecords};
use crate::storage::{offset_index, time_index};
use crate::types::{LeaderEpoch, Offset};

/// How much may be written before the system is told to begin writing it out.
const WRITEBACK_BYTES: u64 = 8 << 20;
/// How far ahead of the end blocks are reserved. Only for segments that are written fast: each partition that did so
/// from its first byte on would take up this much of the disk.
const RESERVE_BYTES: u64 = 64 << 20;

impl Log {
    /// Appends as the leader in `leader_epoch`. For [`AppendOrigin::Client`] and [`AppendOrigin::Coordinator`] offsets
    /// and epoch are assigned here; the metadata quorum's leader has set its own.
    ///
    /// Where a segment of a compacted log is full, its last bytes and its name are put to disk before the next one begins,
    /// under the log's lock; of other logs that is done behind the append. A recovery finds a loss between two segments by
    /// the gap in the offsets, and compaction leaves such gaps, too, Kafka's at any place below the last segment. So of two
    /// segments of a compacted log the second may only be there with all of the first.
    pub fn append_as_leader(
        &self,
        mut records: ValidatedRecords,
        leader_epoch: LeaderEpoch,
        origin: AppendOrigin,
        context: AppendContext,
    ) -> Result<AppendInfo, AppendError> {
        let mut writer = self.writer.lock();
        if matches!(origin, AppendOrigin::Client | AppendOrigin::Coordinator) {
            records.assign(self.log_end_offset(), leader_epoch);
        }
        self.append(&mut writer, &records, origin, context)
    }

    /// Appends what a leader sent, with its offsets and epochs.
    pub fn append_as_follower(&self, records: ValidatedRecords) -> Result<AppendInfo, AppendError> {
        self.append(&mut self.writer.lock(), &records, AppendOrigin::Replication, AppendContext::default())
    }

    fn append(
        &self,
        writer: &mut Writer,
        records: &ValidatedRecords,
        origin: AppendOrigin,
        context: AppendContext,
    ) -> Result<AppendInfo, AppendError> {
        if self.state.load(Ordering::Acquire) != OPEN {
            return Err(AppendError::Offline);
        }
        let log_end_offset = self.log_end_offset();
        let config = self.config.load();
        let (Some(first), Some(last)) = (records.batches.first(), records.batches.last()) else {
            return Ok(self.appended(log_end_offset, log_end_offset.plus(-1), None));
        };
        let (first_offset, last_offset) = (first.header.base_offset(), last.header.last_offset());
        if first_offset < log_end_offset || last_offset < first_offset || first_offset > MAX_BASE_OFFSET {
            return Err(AppendError::UnexpectedOffset { first_offset, last_offset, log_end_offset });
        }
        if records.size_in_bytes > config.segment_bytes.max(0) as usize {
            return Err(AppendError::LargerThanSegment {
                size: records.size_in_bytes,
                segment_bytes: config.segment_bytes,
            });
        }
        let updates = match analyze(writer, records, origin, context)? {
            Analysis::Accepted(updates) => updates,
            Analysis::Duplicate(batch) => {
                let info = self.appended(batch.first_offset(), batch.last_offset, Some(batch.timestamp));
                return Ok(AppendInfo { duplicate: true, ..info });
            }
        };
        match self.write(writer, records, &config, first_offset, last_offset, updates) {
            Ok(()) => {}
            Err(WriteError::Undone(error)) => {
                self.tell_full(&error);
                return Err(AppendError::NoRoom(error));
            }
            Err(WriteError::Failed(error)) => {
                self.disk_failed(&error);
                return Err(AppendError::Io(error));
            }
        }
        Ok(self.appended(first_offset, last_offset, records.log_append_time_ms))
    }

    fn appended(&self, first_offset: Offset, last_offset: Offset, log_append_time_ms: Option<i64>) -> AppendInfo {
        AppendInfo {
            first_offset,
            last_offset,
            log_append_time_ms,
            log_start_offset: self.log_start_offset(),
            duplicate: false,
            flush_due: self.is_flush_due_below(self.log_end_offset()).then(|| self.flush_point(last_offset.plus(1))),
        }
    }

    /// All that changes something. Any error is the disk's; one for want of room leaves all as it was.
    fn write(
        &self,
        writer: &mut Writer,
        records: &ValidatedRecords,
        config: &TopicConfig,
        first_offset: Offset,
        last_offset: Offset,
        updates: ProducerUpdates,
    ) -> Result<(), WriteError> {
        writer.has_changed = true;
        // What these two leave behind is right, whether the batches follow or not.
        self.assign_epochs(records).map_err(WriteError::of)?;
        let now_ms = self.context.clock.now_ms();
        let mut segment = self.active_segment();
        if must_roll(&segment, &mut writer.active, config, records, last_offset, now_ms).map_err(WriteError::of)? {
            // Where the log ends, even if the records leave a gap: one between two segments looks like a loss.
            let end = self.log_end_offset();
            let reaches = last_offset.0 - end.0 <= i64::from(i32::MAX);
            segment = self.roll_to(writer, if reaches { end } else { first_offset }).map_err(WriteError::of)?;
        }

        // What cannot be opened for want of a descriptor is to be found out before anything is written.
        let _open = segment.file().map_err(WriteError::of)?;
        segment.max_timestamp().map_err(IndexError::into_io).map_err(WriteError::of)?;
        let start = segment.size();
        let has_producers = has_producers(records);
        let aborted = if has_producers { writer.producers.aborted_by(&updates) } else { Vec::new() };
        write_batches(&segment, records)
            .and_then(|()| self.index_aborted(&segment, &aborted))
            .map_err(|error| self.take_back(&segment, first_offset, &aborted, error))?;
        let end = start + records.size_in_bytes as u64;
        if start == 0 {
            writer.active.first_timestamp = Some(records.max_timestamp);
        }
        self.index_batches(&mut writer.active, &segment, records, config, start).map_err(WriteError::Failed)?;

        if !has_producers {
            writer.producers.update_map_end_offset(last_offset.plus(1));
        } else {
            writer.producers.apply(updates, last_offset.plus(1));
            if let Some(marker) = records.batches.iter().rev().find(|batch| batch.header.is_control()) {
                self.markers.last.store(marker.header.last_offset().0, Ordering::Release);
            }
            self.publish_first_unstable(writer);
        }
        segment.publish(end);
        self.publish_end(LogOffsetMetadata {
            message_offset: last_offset.plus(1),
            segment_base_offset: segment.base_offset(),
            relative_position_in_segment: end,
        });
        self.pace_writeback(&mut writer.active, &segment, config, end);
        Ok(())
    }

    fn index_aborted(&self, segment: &LogSegment, aborted: &[AbortedTxn]) -> io::Result<()> {
        for aborted in aborted {
            segment.append_aborted(aborted).map_err(txn_io)?;
            // The first one of a segment has made a file.
            self.has_unsynced_names.store(true, Ordering::Release);
        }
        Ok(())
    }

    /// Takes back what was written of batches and their aborted transactions: whatever part there is must not be taken for
    /// records, not by a recovery, and not by Kafka.
    fn take_back(
        &self,
        segment: &LogSegment,
        first_offset: Offset,
        aborted: &[AbortedTxn],
        error: io::Error,
    ) -> WriteError {
        let mut taken_back = segment.discard_unpublished();
        if !aborted.is_empty() && taken_back.is_ok() {
            taken_back = segment.discard_aborted(first_offset).map_err(txn_io);
        }
        match taken_back {
            Ok(()) => WriteError::of(error),
            Err(worse) => WriteError::Failed(if is_full(&error) { worse } else { error }),
        }
    }

    /// The epochs of the batches, durable before the batches are there.
    fn assign_epochs(&self, records: &ValidatedRecords) -> io::Result<()> {
        let mut latest = None;
        for batch in &records.batches {
            let epoch = batch.header.partition_leader_epoch();
            if latest != Some(epoch) {
                self.epochs.assign(epoch, batch.header.base_offset())?;
                latest = Some(epoch);
            }
        }
        Ok(())
    }

    fn index_batches(
        &self,
        active: &mut ActiveSegment,
        segment: &LogSegment,
        records: &ValidatedRecords,
        config: &TopicConfig,
        start: u64,
    ) -> io::Result<()> {
        let mut position = start;
        for batch in &records.batches {
            let (header, size) = (&batch.header, batch.size_in_bytes() as u64);
            let last_offset = header.last_offset();
            let timestamp = TimestampEntry { timestamp: header.max_timestamp(), offset: last_offset };
            segment.observe_timestamp(timestamp).map_err(IndexError::into_io)?;
            if active.last_index_entry.is_next_due(position, config) {
                segment.append_index_entries(last_offset, position).map_err(IndexError::into_io)?;
                active.last_index_entry = LastIndexEntry::at(position);
            }
            let batch = BatchPosition { base_offset: header.base_offset(), last_offset, position, size };
            self.recent.lock().push(segment.base_offset(), batch);
            position += size;
        }
        Ok(())
    }

    /// Takes up room for so much more, or a part of it if there is not so much: what is appended next is then taken by a
    /// disk that others have filled. Waits for the file system.
    pub fn reserve_ahead(&self, bytes: u64) {
        const LEAST: u64 = 4096;
        let mut writer = self.writer.lock();
        let segment = self.active_segment();
        let size = segment.size();
        let mut part = bytes;
        while part >= LEAST && segment.reserved() < size + part / 2 {
            if segment.reserve(size + part).is_ok() {
                writer.has_changed = true;
            }
            part /= 2;
        }
    }

    /// Has what was written put to disk bit by bit, so that the final sync, or the system's own flushing, does not have
    /// to do it all at once; and blocks reserved ahead, which saves work at each write.
    fn pace_writeback(&self, active: &mut ActiveSegment, segment: &Arc<LogSegment>, config: &TopicConfig, end: u64) {
        if end - active.written_back < WRITEBACK_BYTES {
            return;
        }
        let (from, len) = (active.written_back, end - active.written_back);
        active.written_back = end;
        let reserve = (end + RESERVE_BYTES).min(config.segment_bytes.max(0) as u64);
        let reserved = segment.reserved();
        let reserve = (reserved < reserve && reserved < end + RESERVE_BYTES / 2).then_some(reserve);
        let segment = segment.clone();
        self.context.background.run_if_idle(Lane::Housekeeping, move || {
            // Both are hints: an error of the disk will show itself at the next write or sync.
            let _ = segment.start_writeback(from, len);
            if let Some(reserve) = reserve {
                let _ = segment.reserve(reserve);
            }
        });
    }
}

/// Why nothing was appended.
enum WriteError {
    /// For want of room. All is as it was.
    Undone(io::Error),
    /// Nobody knows what the disk holds.
    Failed(io::Error),
}

impl WriteError {
    fn of(error: io::Error) -> WriteError {
        match is_full(&error) {
            true => WriteError::Undone(error),
            false => WriteError::Failed(error),
        }
    }
}

fn has_producers(records: &ValidatedRecords) -> bool {
    records.batches.iter().any(|batch| batch.header.has_producer_id())
}

/// Asks the producers' state about all batches of producers.
fn analyze(
    writer: &Writer,
    records: &ValidatedRecords,
    origin: AppendOrigin,
    context: AppendContext,
) -> Result<Analysis, AppendError> {
    if !has_producers(records) {
        return Ok(Analysis::Accepted(ProducerUpdates::default()));
    }
    let batches = records.batches.iter().filter_map(|batch| producer_batch(&batch.header, &batch.body));
    Ok(writer.producers.analyze(batches, origin, context.transaction_version, context.guard)?)
}

/// What a batch says about its producer; `None` if it has none. `body` is only looked at in control batches.
pub(in crate::storage) fn producer_batch(header: &BatchHeader, body: &[u8]) -> Option<ProducerBatch> {
    if !header.has_producer_id() {
        return None;
    }
    let kind = match header.is_control() {
        false => BatchKind::Data { transactional: header.is_transactional() },
        true => BatchKind::EndTransaction(end_transaction(header, body)),
    };
    Some(ProducerBatch {
        producer_id: header.producer_id(),
        producer_epoch: header.producer_epoch(),
        base_sequence: header.base_sequence(),
        base_offset: header.base_offset(),
        last_offset_delta: header.last_offset_delta(),
        max_timestamp: header.max_timestamp(),
        kind,
    })
}

/// The marker in a control batch, which is its only record.
fn end_transaction(header: &BatchHeader, body: &[u8]) -> Option<EndTransactionMarker> {
    let record = Records::new(header, body).next()?.ok()?;
    match ControlRecord::parse(record.key?, record.value?) {
        Ok(ControlRecord::EndTxn(marker)) => Some(EndTransactionMarker {
            aborted: !marker.committed,
            coordinator_epoch: marker.coordinator_epoch,
            timestamp: record.timestamp,
        }),
        Ok(_) | Err(_) => None,
    }
}

fn write_batches(segment: &LogSegment, records: &ValidatedRecords) -> io::Result<()> {
    if let Some(bytes) = &records.as_given {
        return segment.write(&mut [IoSlice::new(bytes)]);
    }
    if let [batch] = &records.batches[..] {
        return segment.write(&mut [IoSlice::new(batch.header.as_bytes()), IoSlice::new(&batch.body)]);
    }
    let slices = records.batches.iter().flat_map(|batch| [&batch.header.as_bytes()[..], &batch.body[..]]);
    segment.write(&mut slices.map(IoSlice::new).collect::<Vec<_>>())
}

fn must_roll(
    segment: &LogSegment,
    active: &mut ActiveSegment,
    config: &TopicConfig,
    records: &ValidatedRecords,
    last_offset: Offset,
    now_ms: i64,
) -> io::Result<bool> {
    let size = segment.size();
    let index_bytes = config.segment_index_bytes.max(0) as usize;
    let is_full = |count: u32, entry_size: usize, spare: usize| count as usize + spare >= index_bytes / entry_size;
    let offset_entries = segment.offset_index().count(Wait::ForDisk).map_err(IndexError::into_io)?;
    let time_entries = segment.time_index().count(Wait::ForDisk).map_err(IndexError::into_io)?;
    Ok(size + records.size_in_bytes as u64 > config.segment_bytes.max(0) as u64
        || size > 0 && is_old(segment, active, config, records.max_timestamp, now_ms)?
        || size > 0 && is_full(offset_entries, offset_index::ENTRY_SIZE, 0)
        // One is kept for the entry that sealing adds.
        || size > 0 && is_full(time_entries, time_index::ENTRY_SIZE, 1)
        || last_offset.0 - segment.base_offset().0 > i64::from(i32::MAX))
}

/// Whether a segment's time is over ([`TopicConfig::max_segment_ms`]): by the records' time if the first one has any that can be read, else by the clock.
fn is_old(
    segment: &LogSegment,
    active: &mut ActiveSegment,
    config: &TopicConfig,
    max_timestamp: i64,
    now_ms: i64,
) -> io::Result<bool> {
    let first_timestamp = match active.first_timestamp {
        Some(timestamp) => timestamp,
        None => {
            let timestamp = match segment.first_frame(Wait::ForDisk) {
                Ok(first) => first.map_or(NO_TIMESTAMP, |frame| frame.max_timestamp()),
                // What was damaged long ago is for its readers to learn. It is no reason to refuse new records, and still
                // less to give up the directory: the disk answers.
                Err(error @ ReadError::Corrupt { .. }) => {
                    warn!(%error, "the age of a segment is not known");
                    NO_TIMESTAMP
                }
                Err(error) => return Err(error.into_io()),
            };
            *active.first_timestamp.insert(timestamp)
        }
    };
    let waited_ms = match first_timestamp {
        0.. => max_timestamp.saturating_sub(first_timestamp),
        _ => now_ms.saturating_sub(active.created_ms),
    };
    Ok(waited_ms > config.max_segment_ms().saturating_sub(active.roll_jitter_ms))
}
