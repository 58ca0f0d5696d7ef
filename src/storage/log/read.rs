//! Finding records: by offset for fetches, by time for ListOffsets, and the aborted transactions among them.
//!
//! Nothing here takes the log's lock. A reader loads the log's end first and the list of segments after it, so that the
//! list holds at least what the end promises; what was appended since is beyond the end that it goes by.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::BytesMut;
use tracing::{debug, info, warn};

use crate::record::batch::{BatchHeader, HEADER_SIZE, NO_TIMESTAMP};
use crate::record::record::RecordStream;
use crate::storage::background::Lane;
use crate::storage::index_file::IndexError;
use crate::storage::log::change::ignore_missing;
use crate::storage::log::{AbortedTransaction, Log, LogOffsetMetadata, LogRead, ReadError, TimestampOffset, Wait};
use crate::storage::scan::{Frame, HeaderScan};
use crate::storage::segment::{BatchPosition, IndexRebuild, LogSegment};
use crate::storage::slice::LogSlice;
use crate::storage::time_index::TimestampEntry;
use crate::storage::txn_index::AbortedTxn;
use crate::types::Offset;

impl Log {
    /// Tells where records from `start` on lie, below `upper_bound` (high watermark, last stable offset or log end) and
    /// at most `max_bytes` long; but the whole first batch, however long it is, if `min_one_batch`. Empty at the bound
    /// and above.
    pub fn read(
        &self,
        start: Offset,
        max_bytes: usize,
        upper_bound: Offset,
        min_one_batch: bool,
        wait: Wait,
    ) -> Result<LogRead, ReadError> {
        loop {
            let end = *self.end.read();
            let log_start_offset = self.log_start_offset();
            if start < log_start_offset || start > end.message_offset {
                return Err(ReadError::OutOfRange {
                    offset: start,
                    log_start_offset,
                    log_end_offset: end.message_offset,
                });
            }
            let bound = upper_bound.min(end.message_offset);
            match self.unless_exchanged(|| self.read_below(end, start, max_bytes, bound, min_one_batch, wait)) {
                // The segment was deleted since; the log's start tells.
                Err(ReadError::Io(error))
                    if error.kind() == io::ErrorKind::NotFound && self.log_start_offset() > log_start_offset => {}
                result => return result,
            }
        }
    }

    fn read_below(
        &self,
        end: LogOffsetMetadata,
        start: Offset,
        max_bytes: usize,
        upper_bound: Offset,
        min_one_batch: bool,
        wait: Wait,
    ) -> Result<LogRead, ReadError> {
        let segments = self.segments.load_full();
        let nothing =
            |segments| LogRead { slice: LogSlice::empty(), first_batch_incomplete: false, start: None, segments };
        if start >= upper_bound {
            return Ok(nothing(segments));
        }
        let Some((segment, first)) = self.find(&segments, end, start, wait)? else {
            return Ok(nothing(segments));
        };
        // Only if compaction left a gap up to the bound.
        if first.base_offset >= upper_bound {
            return Ok(nothing(segments));
        }
        let limit = match self.limit_within(&segment, end) {
            // The bound lies behind all of this segment.
            limit if upper_bound == end.message_offset => limit,
            limit => match self.find_in(&segment, upper_bound, limit, wait)? {
                Some(batch) => batch.position,
                None => limit,
            },
        };
        let wanted = if min_one_batch { max_bytes.max(first.size as usize) } else { max_bytes };
        if segment.base_offset() != end.segment_base_offset {
            let to = first.position.saturating_add(wanted as u64);
            self.watching(&segment, || segment.check_before_sending(first.position, to, wait))?;
        }
        let limit = segment.sound_until(first.position, limit);
        let len = (limit.saturating_sub(first.position) as usize).min(wanted);
        Ok(LogRead {
            slice: LogSlice::new(segment.file()?, first.position, len).of(self.this.clone()),
            first_batch_incomplete: wanted < first.size as usize,
            start: Some(LogOffsetMetadata {
                message_offset: first.base_offset,
                segment_base_offset: segment.base_offset(),
                relative_position_in_segment: first.position,
            }),
            segments,
        })
    }

    /// How much of a segment is below the log's end.
    fn limit_within(&self, segment: &LogSegment, end: LogOffsetMetadata) -> u64 {
        // It may have been cleaned since, and be shorter than its end was.
        let size = segment.size();
        if segment.base_offset() == end.segment_base_offset { end.relative_position_in_segment.min(size) } else { size }
    }

    /// The first batch whose last offset is `offset` or larger.
    fn find(
        &self,
        segments: &[Arc<LogSegment>],
        end: LogOffsetMetadata,
        offset: Offset,
        wait: Wait,
    ) -> Result<Option<(Arc<LogSegment>, BatchPosition)>, ReadError> {
        let recent = self.recent.lock().find(offset);
        if let Some((base_offset, batch)) = recent
            && let Ok(at) = segments.binary_search_by_key(&base_offset, |segment| segment.base_offset())
            && batch.position + batch.size <= self.limit_within(&segments[at], end)
        {
            return Ok(Some((segments[at].clone(), batch)));
        }
        let first = segments.partition_point(|segment| segment.base_offset() <= offset).saturating_sub(1);
        for segment in &segments[first..] {
            if segment.base_offset() >= end.message_offset {
                break;
            }
            let limit = self.limit_within(segment, end);
            if let Some(batch) = self.find_on_disk(segment, offset, limit, wait)? {
                return Ok(Some((segment.clone(), batch)));
            }
            if segment.base_offset() != end.segment_base_offset {
                self.watching(segment, || segment.check_end(limit, limit, wait))?;
            }
        }
        Ok(None)
    }

    /// As [`Self::find`] in one segment.
    fn find_in(
        &self,
        segment: &Arc<LogSegment>,
        offset: Offset,
        limit: u64,
        wait: Wait,
    ) -> Result<Option<BatchPosition>, ReadError> {
        match self.recent.lock().find(offset) {
            Some((base_offset, batch)) if base_offset == segment.base_offset() => {
                return Ok((batch.position < limit).then_some(batch));
            }
            // The batches before it are all below.
            Some(_) | None => {}
        }
        self.find_on_disk(segment, offset, limit, wait)
    }

    fn find_on_disk(
        &self,
        segment: &Arc<LogSegment>,
        offset: Offset,
        limit: u64,
        wait: Wait,
    ) -> Result<Option<BatchPosition>, ReadError> {
        self.watching(segment, || segment.find(offset, limit, wait))
    }

    /// Does `act`. Afterwards, if an index of the segment is known to lie, a new one is made.
    pub(super) fn watching<T>(&self, segment: &Arc<LogSegment>, act: impl FnOnce() -> T) -> T {
        let done = act();
        if segment.distrusts_index() {
            self.rebuild_indexes_later(segment);
        }
        done
    }

    /// An index of the segment was caught lying.
    pub(in crate::storage) fn distrust(&self, segment: &Arc<LogSegment>, reason: &str) {
        segment.distrust(reason);
        self.rebuild_indexes_later(segment);
    }

    /// A sealed segment whose index was caught lying gets a new one. That of the last segment was checked when the log was
    /// opened, and belongs to the writer: who reads it once it is sealed comes by here again.
    fn rebuild_indexes_later(&self, segment: &Arc<LogSegment>) {
        if self.active_segment().base_offset() <= segment.base_offset() {
            return;
        }
        let Some(mut rebuild) = IndexRebuild::begin(segment, self.context.clock.monotonic()) else { return };
        let this = self.this.clone();
        self.context.background.run_if_idle(Lane::Housekeeping, move || {
            let Some(log) = this.upgrade() else { return };
            let (partition, segment) = (&log.topic_partition, rebuild.segment().base_offset());
            match (log.rebuild_indexes(&mut rebuild), rebuild.is_repeated()) {
                (Ok(()), false) => {}
                (Ok(()), true) => info!(%partition, %segment, "rebuilt the index of a segment"),
                (Err(error), false) => {
                    warn!(%partition, %segment, %error, "cannot rebuild the index of a segment; trying again later");
                }
                (Err(error), true) => debug!(%partition, %segment, %error, "cannot rebuild the index of a segment"),
            }
        });
    }

    fn rebuild_indexes(&self, rebuild: &mut IndexRebuild) -> Result<(), ReadError> {
        // Nobody truncates, replaces or deletes the segment meanwhile, or closes the log.
        let _exchange = self.exchange.lock();
        let segments = self.segments.load();
        let is_sealed = segments.iter().rev().skip(1).any(|segment| Arc::ptr_eq(segment, rebuild.segment()));
        if !is_sealed || self.is_offline() || !rebuild.segment().distrusts_index() {
            return Ok(());
        }
        rebuild.run(&self.config.load())?;
        self.has_unsynced_names.store(true, Ordering::Release);
        // Else a power loss brings back the ones that lie.
        ignore_missing(self.sync_new_names()).map_err(|error| {
            self.disk_failed(&error);
            ReadError::Io(error)
        })
    }

    // --- by time -----------------------------------------------------------------------------------------------

    /// The first record whose timestamp is `timestamp` or later.
    pub fn offset_for_timestamp(&self, timestamp: i64) -> Result<Option<TimestampOffset>, ReadError> {
        self.unless_exchanged(|| self.find_timestamp(timestamp))
    }

    fn find_timestamp(&self, timestamp: i64) -> Result<Option<TimestampOffset>, ReadError> {
        let end = *self.end.read();
        let log_start_offset = self.log_start_offset();
        for segment in self.segments.load().iter().filter(|segment| segment.base_offset() < end.message_offset) {
            let limit = self.limit_within(segment, end);
            // The last entry of a sealed segment's index is the largest timestamp in it.
            match self.watching(segment, || segment.max_timestamp()) {
                Ok(max) if max.map_or(NO_TIMESTAMP, |max| max.timestamp) < timestamp => continue,
                Ok(_) => {}
                Err(error) => return Err(segment.index_damaged(error)),
            }
            let from = self.position_before(segment, timestamp, log_start_offset, limit)?;
            let is_wanted = |record: (i64, Offset)| record.0 >= timestamp && record.1 >= log_start_offset;
            let batch_qualifies =
                |frame: &Frame| frame.max_timestamp() >= timestamp && frame.last_offset() >= log_start_offset;
            if let Some(found) = self.first_record(segment, end, from, batch_qualifies, is_wanted)? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// Where to begin looking for `timestamp`: all before is earlier.
    fn position_before(
        &self,
        segment: &Arc<LogSegment>,
        timestamp: i64,
        log_start_offset: Offset,
        limit: u64,
    ) -> Result<u64, ReadError> {
        if segment.distrusts_index() {
            self.rebuild_indexes_later(segment);
            return Ok(0);
        }
        let entry = match segment.time_index().lookup(timestamp, Wait::ForDisk) {
            Ok(entry) => entry,
            Err(IndexError::Corrupt(reason)) => {
                self.distrust(segment, &reason);
                None
            }
            Err(error) => return Err(segment.index_damaged(error)),
        };
        let from = entry.map_or(Offset(0), |entry| entry.offset).max(log_start_offset);
        let Some(batch) = self.find_on_disk(segment, from, limit, Wait::ForDisk)? else {
            return Ok(0);
        };
        if segment.distrusts_index() {
            return Ok(0);
        }
        // An entry names a batch that has exactly its timestamp. If not, the index is that of something else.
        if let Some(entry) = entry
            && entry.offset >= log_start_offset
            && !is_named(segment, entry, batch)?
        {
            self.distrust(segment, "an entry of the time index names another timestamp");
            return Ok(0);
        }
        Ok(batch.position)
    }

    /// The first record of those with the largest timestamp (KIP-734), the first of all if none has one. `None`: there is no
    /// record.
    pub fn max_timestamp_offset(&self) -> Result<Option<TimestampOffset>, ReadError> {
        self.unless_exchanged(|| self.find_max_timestamp())
    }

    fn find_max_timestamp(&self) -> Result<Option<TimestampOffset>, ReadError> {
        let end = *self.end.read();
        let mut largest: Option<(Arc<LogSegment>, TimestampEntry)> = None;
        for segment in self.segments.load().iter().filter(|segment| segment.base_offset() < end.message_offset) {
            let max = self.watching(segment, || segment.max_timestamp());
            let max = max.map_err(|error| segment.index_damaged(error))?;
            if let Some(max) = max
                && largest.as_ref().is_none_or(|(_, entry)| max.timestamp > entry.timestamp)
            {
                largest = Some((segment.clone(), max));
            }
        }
        let Some((segment, entry)) = largest else {
            let segments = self.segments.load();
            let Some(first) = segments.iter().find(|segment| segment.base_offset() < end.message_offset) else {
                return Ok(None);
            };
            return self.first_record(first, end, 0, |_| true, |_| true);
        };
        let limit = self.limit_within(&segment, end);
        let found = self.find_on_disk(&segment, entry.offset, limit, Wait::ForDisk)?;
        let batch_qualifies = |frame: &Frame| frame.max_timestamp() == entry.timestamp;
        // As in Kafka it may lie before the log's start, in a segment that is not deleted yet.
        let is_wanted = |record: (i64, Offset)| record.0 == entry.timestamp;
        let from = found.map_or(0, |batch| batch.position);
        match self.first_record(&segment, end, from, batch_qualifies, is_wanted)? {
            // In a segment with a wrong name the entry has another offset than its record.
            None if from > 0 => self.first_record(&segment, end, 0, batch_qualifies, is_wanted),
            found => Ok(found),
        }
    }

    /// The first wanted record, by timestamp and offset, in the batches that qualify.
    fn first_record(
        &self,
        segment: &LogSegment,
        end: LogOffsetMetadata,
        from: u64,
        batch_qualifies: impl Fn(&Frame) -> bool,
        is_wanted: impl Fn((i64, Offset)) -> bool,
    ) -> Result<Option<TimestampOffset>, ReadError> {
        let file = segment.file()?;
        let limit = self.limit_within(segment, end);
        let mut batches = segment.readable(&*file, from, limit, Wait::ForDisk);
        while let Some((position, frame)) = batches.next()? {
            if !batch_qualifies(&frame) {
                continue;
            }
            let found = match &frame {
                Frame::Batch(header) => {
                    let body = LogSlice::new(file.clone(), position + HEADER_SIZE as u64, frame.size() - HEADER_SIZE);
                    first_in_batch(header, body, &is_wanted).map_err(|error| error.in_segment(segment, position))?
                }
                // Its messages may be compressed; the time of all is known.
                Frame::Old(_) => Some((frame.max_timestamp(), frame.last_offset())).filter(|record| is_wanted(*record)),
            };
            if let Some((timestamp, offset)) = found {
                let leader_epoch = Some(frame.leader_epoch()).filter(|epoch| epoch.0 >= 0);
                return Ok(Some(TimestampOffset { timestamp, offset, leader_epoch }));
            }
        }
        Ok(None)
    }

    // --- transactions ------------------------------------------------------------------------------------------

    /// The aborted transactions that a reader of `read`, which was read from `start` on, has to know. As in Kafka it may
    /// be told of some that begin behind it, up to the next batch that is indexed.
    pub fn aborted_transactions_in(
        &self,
        read: &LogRead,
        start: Offset,
        wait: Wait,
    ) -> Result<Vec<AbortedTransaction>, ReadError> {
        match self.aborted_among(&read.segments, read, start, wait) {
            // A segment was deleted, and its files are gone.
            Err(ReadError::Io(error)) if error.kind() == io::ErrorKind::NotFound => {
                self.aborted_among(&self.segments.load(), read, start, wait)
            }
            result => result,
        }
    }

    fn aborted_among(
        &self,
        segments: &[Arc<LogSegment>],
        read: &LogRead,
        start: Offset,
        wait: Wait,
    ) -> Result<Vec<AbortedTransaction>, ReadError> {
        let Some(first_batch) = read.start else { return Ok(Vec::new()) };
        let first = segments.partition_point(|segment| segment.base_offset() < first_batch.segment_base_offset);
        if !segments[first..].iter().any(|segment| segment.has_txn_index()) {
            return Ok(Vec::new());
        }
        let end = match segments.get(first) {
            Some(segment) if segment.base_offset() == first_batch.segment_base_offset => {
                self.indexed_behind(segment, first_batch.relative_position_in_segment + read.slice.len() as u64, wait)?
            }
            // It was deleted meanwhile.
            Some(_) | None => None,
        };
        let next = || segments.get(first + 1).map_or(self.log_end_offset(), |next| next.base_offset());
        collect_aborted(segments, start, end.unwrap_or_else(next), wait)
    }

    /// The last offset of the first batch at `position` or behind it that is indexed.
    fn indexed_behind(
        &self,
        segment: &Arc<LogSegment>,
        position: u64,
        wait: Wait,
    ) -> Result<Option<Offset>, ReadError> {
        let entry = match segment.offset_index().first_at(position, wait) {
            Ok(Some(entry)) if !segment.distrusts_index() => entry,
            Ok(_) | Err(IndexError::Corrupt(_)) => return Ok(None),
            Err(error) => return Err(segment.index_damaged(error)),
        };
        // If the entry lied, aborted records would be taken for committed ones.
        let batch = self.find_on_disk(segment, entry.offset, segment.size(), wait)?;
        let is_named = batch.is_some_and(|batch| batch.position >= position && batch.last_offset >= entry.offset);
        Ok(is_named.then_some(entry.offset))
    }

    /// The aborted transactions that touch `start..end`.
    pub fn aborted_transactions(
        &self,
        start: Offset,
        end: Offset,
        wait: Wait,
    ) -> Result<Vec<AbortedTransaction>, ReadError> {
        collect_aborted(&self.segments.load(), start, end, wait)
    }
}

fn collect_aborted(
    segments: &[Arc<LogSegment>],
    start: Offset,
    end: Offset,
    wait: Wait,
) -> Result<Vec<AbortedTransaction>, ReadError> {
    let aborted = |txn: AbortedTxn| AbortedTransaction { producer_id: txn.producer_id, first_offset: txn.first_offset };
    Ok(find_aborted(segments, start, end, wait)?.into_iter().map(aborted).collect())
}

/// What the transaction indexes of `segments` say of `start..end`.
pub(in crate::storage) fn find_aborted(
    segments: &[Arc<LogSegment>],
    start: Offset,
    end: Offset,
    wait: Wait,
) -> Result<Vec<AbortedTxn>, ReadError> {
    let first = segments.partition_point(|segment| segment.base_offset() <= start).saturating_sub(1);
    let mut found = Vec::new();
    for segment in segments.get(first..).unwrap_or_default() {
        if segment.collect_aborted(start, end, wait, &mut found)? {
            break;
        }
    }
    Ok(found)
}

/// Whether `batch` is what the entry says of it.
fn is_named(segment: &LogSegment, entry: TimestampEntry, batch: BatchPosition) -> Result<bool, ReadError> {
    if batch.base_offset > entry.offset {
        // Compaction removed the batch after the entry was made: as good as named, since none before it is later.
        return Ok(true);
    }
    let file = segment.file()?;
    let end = batch.position + batch.size;
    let mut scan =
        HeaderScan::new(&*file, segment.base_offset(), batch.position, end, batch.base_offset, Wait::ForDisk);
    let frame = scan.next().map_err(|error| segment.damaged(error))?;
    Ok(frame.is_some_and(|(_, frame)| frame.max_timestamp() >= entry.timestamp))
}

enum RecordsError {
    Io(io::Error),
    Corrupt(String),
}

impl RecordsError {
    fn in_segment(self, segment: &LogSegment, position: u64) -> ReadError {
        match self {
            RecordsError::Io(error) => ReadError::Io(error),
            RecordsError::Corrupt(reason) => {
                ReadError::Corrupt { segment_base_offset: segment.base_offset(), position, reason }
            }
        }
    }
}

/// The most that a batch may decompress to here. It was accepted once; what does not fit is damage.
const MAX_DECOMPRESSED: u64 = 1 << 31;

/// Timestamp and offset of the first wanted record of a batch.
fn first_in_batch(
    header: &BatchHeader,
    body: LogSlice,
    is_wanted: impl Fn((i64, Offset)) -> bool,
) -> Result<Option<(i64, Offset)>, RecordsError> {
    let corrupt = |error: &dyn std::fmt::Display| RecordsError::Corrupt(error.to_string());
    let mut bytes = BytesMut::with_capacity(body.len());
    body.read_into(&mut bytes).map_err(RecordsError::Io)?;
    let codec = header.codec().map_err(|error| corrupt(&error))?;
    let mut stream = RecordStream::new(header, codec, &bytes, MAX_DECOMPRESSED).map_err(|error| corrupt(&error))?;
    while let Some(record) = stream.next_skim().map_err(|error| corrupt(&error))? {
        if is_wanted((record.timestamp, record.offset)) {
            return Ok(Some((record.timestamp, record.offset)));
        }
    }
    Ok(None)
}
