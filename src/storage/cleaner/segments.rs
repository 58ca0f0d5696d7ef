//! `Cleaner`: cleans one log at a time, with the memory of one thread.
//!
//! Goes through the dirty part and notes the last offset of each key; then through all segments from the log's start, group
//! by group, and writes what survives to one segment that takes the group's place. What is looked at is the list of
//! segments as it was at the start; everything that happens to the log meanwhile is found out by [`Cleaner::check`], or at
//! the exchange, and ends the cleaning. What was exchanged until then stays, and is right by itself.
//!
//! Memory: the offset map, a buffer to read and one to write. A batch that is larger than these makes them grow to its
//! size, until the segment is done.

use std::collections::HashMap;
use std::io::{self, IoSlice};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use thiserror::Error;

use crate::config::TopicConfig;
use crate::record::batch::{BatchError, RecordBatch};
use crate::record::record::Records;
use crate::storage::cleaner::filter::{BatchFilter, LastRecord, Round, decompress};
use crate::storage::cleaner::offset_map::{KeyHash, OffsetMap, WARM_UP};
use crate::storage::cleaner::to_clean::{LogFacts, LogToClean, SegmentFacts, group};
use crate::storage::cleaner::transactions::CleanedTransactionMetadata;
use crate::storage::disk::{DiskFile, is_full};
use crate::storage::index_file::IndexError;
use crate::storage::known_bugs::{self, KnownBug};
use crate::storage::log::read::find_aborted;
use crate::storage::log::{ChangeError, Log, ReadError, Wait};
use crate::storage::segment::{LastIndexEntry, LogSegment, txn_io};
use crate::storage::throttler::Throttler;
use crate::storage::time_index::TimestampEntry;
use crate::storage::{offset_index, time_index};
use crate::types::{Offset, ProducerId};

/// After how many written bytes the system is told to begin writing them out.
const WRITEBACK_BYTES: u64 = 8 << 20;

/// Why a log was not cleaned.
#[derive(Debug, Error)]
pub enum CleanError {
    /// It was closed, deleted, truncated or is no longer to be compacted; or the cleaner was stopped.
    #[error("the cleaning was aborted")]
    Aborted,
    /// The disk is full.
    #[error("no room for the cleaned segments: {0}")]
    NoRoom(io::Error),
    /// It holds what cannot be cleaned. Trying again would end the same way.
    #[error("{0}")]
    Uncleanable(String),
    /// The disk failed.
    #[error(transparent)]
    Io(io::Error),
}

/// What a cleaning did.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CleanStats {
    /// The log is clean up to here.
    pub end_offset: Offset,
    /// What [`Log::truncations`] said at its beginning.
    pub truncations: u64,
    pub map_bytes_read: u64,
    pub map_records_read: u64,
    pub map_utilization: f64,
    pub bytes_read: u64,
    pub bytes_written: u64,
    pub records_read: u64,
    pub records_written: u64,
    /// Records without a key, which a compacted log should not have. They are gone.
    pub records_without_key: u64,
    pub map_took: Duration,
    pub took: Duration,
}

/// Ends what cleaners do, soon.
#[derive(Default)]
pub struct Stop {
    is_set: Mutex<bool>,
    changed: Condvar,
}

impl Stop {
    pub fn set(&self) {
        *self.is_set.lock() = true;
        self.changed.notify_all();
    }

    /// Those that wait look around.
    pub fn wake(&self) {
        self.changed.notify_all();
    }

    pub fn is_set(&self) -> bool {
        *self.is_set.lock()
    }

    /// Waits, but not beyond the stop.
    pub fn wait(&self, duration: Duration) {
        let mut is_set = self.is_set.lock();
        if !*is_set {
            self.changed.wait_for(&mut is_set, duration);
        }
    }
}

/// The memory of a thread that cleans.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CleanerBuffers {
    pub dedupe_bytes: usize,
    pub dedupe_load_factor: f64,
    /// Of each of the two.
    pub io_bytes: usize,
}

/// See the module's documentation.
pub struct Cleaner {
    map: OffsetMap,
    reader: BatchReader,
    io_bytes: usize,
    filter: BatchFilter,
    decompressed: Vec<u8>,
    /// Of some records.
    keys: Vec<(KeyHash, Offset)>,
    throttler: Arc<Throttler>,
    stop: Arc<Stop>,
}

/// The log that is cleaned, as it was when the cleaning began.
struct Target<'a> {
    log: &'a Log,
    segments: Arc<Vec<Arc<LogSegment>>>,
    last_records: HashMap<ProducerId, LastRecord>,
    truncations: u64,
}

impl Cleaner {
    pub fn new(buffers: CleanerBuffers, throttler: Arc<Throttler>, stop: Arc<Stop>) -> Cleaner {
        let io_bytes = buffers.io_bytes.max(4096);
        Cleaner {
            map: OffsetMap::new(buffers.dedupe_bytes, buffers.dedupe_load_factor),
            reader: BatchReader { buffer: Vec::new(), size: io_bytes, filled: 0 },
            io_bytes,
            filter: BatchFilter::new(),
            decompressed: Vec::new(),
            keys: Vec::new(),
            throttler,
            stop,
        }
    }

    /// Cleans what `wanted` says of `log`, which the caller has taken for it. Says up to where it came.
    /// `truncations` is [`Log::truncations_done`] of the time before `wanted` was found.
    pub fn clean(&mut self, log: &Log, wanted: &LogToClean, truncations: u64) -> Result<CleanStats, CleanError> {
        let clock = log.context.clock.clone();
        let began = clock.monotonic();
        let target = Target { log, segments: log.segments.load_full(), last_records: last_records(log), truncations };
        let mut stats = CleanStats { truncations, ..CleanStats::default() };
        let result = unless_it_panics(|| self.clean_target(&target, wanted, clock.now_ms(), &mut stats));
        stats.map_utilization = self.map.utilization();
        self.map.release();
        self.restore_buffers();
        stats.took = clock.monotonic().saturating_sub(began);
        match result {
            Ok(()) => Ok(stats),
            // Whatever was found then was perhaps not what was looked for.
            Err(_) if self.check(&target).is_err() => Err(CleanError::Aborted),
            Err(error) => Err(unless_missing(error)),
        }
    }

    fn clean_target(
        &mut self,
        target: &Target<'_>,
        wanted: &LogToClean,
        now_ms: i64,
        stats: &mut CleanStats,
    ) -> Result<(), CleanError> {
        let clock = &target.log.context.clock;
        let began = clock.monotonic();
        self.build_offset_map(target, wanted, stats)?;
        stats.map_took = clock.monotonic().saturating_sub(began);
        stats.end_offset = self.map.latest_offset().plus(1).max(wanted.first_dirty_offset);

        // What is going to be removed is on disk, perhaps, and what supersedes it not yet.
        target.log.sync_below(target.log.log_end_offset()).map_err(CleanError::Io)?;

        let config = target.log.config();
        let count = target.segments.partition_point(|segment| segment.base_offset() < stats.end_offset);
        let segments = &target.segments[..count];
        let facts =
            segments.iter().map(|segment| segment_facts(segment, Wanted { index_sizes: true, ..Wanted::default() }));
        let facts = facts.collect::<Result<Vec<_>, _>>()?;
        let mut transactions = CleanedTransactionMetadata::default();
        let mut rest = segments;
        for count in group(&facts, &config, wanted.first_uncleanable_offset) {
            let (sources, behind) = rest.split_at(count);
            rest = behind;
            self.clean_group(target, sources, wanted, now_ms, &mut transactions, stats)?;
        }
        Ok(())
    }

    /// Whether to go on.
    fn check(&self, target: &Target<'_>) -> Result<(), CleanError> {
        let log = target.log;
        let is_void = self.stop.is_set()
            || log.is_offline()
            || !log.config.load().cleanup_policy.compact
            || log.truncations() != target.truncations;
        if is_void { Err(CleanError::Aborted) } else { Ok(()) }
    }

    /// Counts what was read or written, and waits if that was too fast.
    fn throttle(&self, target: &Target<'_>, bytes: usize) -> Result<(), CleanError> {
        let clock = &target.log.context.clock;
        self.throttler.observe(bytes, clock.monotonic());
        while let Some(delay) = self.throttler.delay(clock.monotonic()) {
            // In short steps: the log may be closed meanwhile.
            self.stop.wait(delay.min(Duration::from_millis(200)));
            self.check(target)?;
        }
        Ok(())
    }

    // --- the dirty part ----------------------------------------------------------------------------------------

    fn build_offset_map(
        &mut self,
        target: &Target<'_>,
        wanted: &LogToClean,
        stats: &mut CleanStats,
    ) -> Result<(), CleanError> {
        let (start, end) = (wanted.first_dirty_offset, wanted.first_uncleanable_offset);
        self.map.clear_for((end.0 - start.0).max(0) as u64);
        if start >= end {
            return Ok(());
        }
        let mut transactions = CleanedTransactionMetadata::default();
        transactions.add_aborted(find_aborted(&target.segments, start, end, Wait::ForDisk).map_err(unreadable)?);
        let segments = &target.segments[..];
        let first = segments.partition_point(|segment| segment.base_offset() <= start).saturating_sub(1);
        for (n, segment) in segments.iter().enumerate().skip(first).take_while(|(_, s)| s.base_offset() < end) {
            let next = segments.get(n + 1).map_or(end, |next| next.base_offset()).min(end);
            if !self.map_segment(target, segment, start, &mut transactions, stats)? {
                return Ok(());
            }
            // There may be a gap up to the next segment.
            self.map.update_latest_offset(next.plus(-1));
        }
        Ok(())
    }

    /// Returns whether all of the segment found room in the map.
    fn map_segment(
        &mut self,
        target: &Target<'_>,
        segment: &LogSegment,
        start: Offset,
        transactions: &mut CleanedTransactionMetadata,
        stats: &mut CleanStats,
    ) -> Result<bool, CleanError> {
        let file = segment.file().map_err(CleanError::Io)?;
        let size = segment.size();
        let found = segment.find(start.max(segment.base_offset()), size, Wait::ForDisk).map_err(unreadable)?;
        let Some(found) = found else { return Ok(true) };
        let mut walk = Walk::new(segment, found.position, end_of(target, segment));
        while walk.position < size {
            self.check(target)?;
            let chunk = self.reader.read(&*file, walk.position, size).map_err(CleanError::Io)?;
            let mut at = 0;
            while let Some(batch) = walk.next(&chunk[at..])? {
                at += batch.bytes().len();
                let header = batch.to_header();
                stats.map_records_read += header.record_count().max(0) as u64;
                if header.is_control() {
                    transactions.on_control_batch(&header, batch.body());
                } else if !transactions.on_batch(&header) {
                    let body = decompress(&header, batch.body(), &mut self.decompressed).map_err(|r| walk.bad(r))?;
                    let mut records = Records::new(&header, body).peekable();
                    while records.peek().is_some() {
                        self.keys.clear();
                        for record in records.by_ref().take(WARM_UP) {
                            let record = record.map_err(|error| walk.bad(error))?;
                            if let Some(key) = record.key.filter(|_| record.offset >= start) {
                                self.keys.push((self.map.hash(key), record.offset));
                            }
                        }
                        self.map.warm_up(self.keys.iter().map(|(key, _)| *key));
                        if !self.keys.iter().all(|(key, offset)| self.map.put(*key, *offset)) {
                            return Ok(false);
                        }
                    }
                }
                if header.last_offset() >= start {
                    self.map.update_latest_offset(header.last_offset());
                }
            }
            let (read, needed) = (chunk.len(), walk.needed);
            stats.map_bytes_read += at as u64;
            self.throttle(target, at)?;
            self.reader.made_progress(&walk, at, read, needed, size)?;
        }
        self.restore_buffers();
        Ok(true)
    }

    // --- a group of segments -----------------------------------------------------------------------------------

    fn clean_group(
        &mut self,
        target: &Target<'_>,
        sources: &[Arc<LogSegment>],
        wanted: &LogToClean,
        now_ms: i64,
        transactions: &mut CleanedTransactionMetadata,
        stats: &mut CleanStats,
    ) -> Result<(), CleanError> {
        self.check(target)?;
        let log = target.log;
        let base_offset = sources[0].base_offset();
        let cleaned = LogSegment::create_cleaned(&log.context.files, &log.dir, base_offset).map_err(disk_error)?;
        let cleaned = Arc::new(cleaned);
        let mut is_half_done = false;
        let result = self.clean_into(&cleaned, target, sources, wanted, now_ms, transactions, stats);
        let is_replaced = result.and_then(|is_unchanged| {
            // Nothing goes from the only segment of a group: it may stay as it is.
            if is_unchanged && sources.len() == 1 {
                return Ok(false);
            }
            let last = sources.last().expect("a group has a segment");
            cleaned.seal().map_err(IndexError::into_io).map_err(disk_error)?;
            let modified_ms = last.modified_ms().map_err(CleanError::Io)?;
            cleaned.set_modified(modified_ms).map_err(CleanError::Io)?;
            if !known_bugs::is_back(KnownBug::CleanedNotSynced) {
                cleaned.sync_all().map_err(disk_error)?;
            }
            match log.replace_segments(&cleaned, sources, target.truncations) {
                Ok(true) => Ok(true),
                Ok(false) | Err(ChangeError::Offline | ChangeError::Moved | ChangeError::OutOfRange { .. }) => {
                    Err(CleanError::Aborted)
                }
                Err(ChangeError::NoRoom(error)) => Err(CleanError::NoRoom(error)),
                Err(ChangeError::Io(error)) => {
                    // Nobody knows how far it came: what is there may be all that there is.
                    is_half_done = true;
                    Err(CleanError::Io(error))
                }
            }
        });
        if !is_half_done && !matches!(is_replaced, Ok(true)) {
            // What cannot be removed is removed by the next start.
            let _ = cleaned.remove();
        }
        is_replaced.map(drop)
    }

    /// Writes what survives of `sources`. Returns whether that is all.
    #[expect(clippy::too_many_arguments, reason = "they are what a cleaning is made of")]
    fn clean_into(
        &mut self,
        cleaned: &LogSegment,
        target: &Target<'_>,
        sources: &[Arc<LogSegment>],
        wanted: &LogToClean,
        now_ms: i64,
        transactions: &mut CleanedTransactionMetadata,
        stats: &mut CleanStats,
    ) -> Result<bool, CleanError> {
        let config = target.log.config();
        let mut writer = CleanedWriter::new(cleaned, &config);
        let mut is_unchanged = true;
        for source in sources {
            let file = source.file().map_err(CleanError::Io)?;
            let size = source.size();
            let end = end_of(target, source);
            let aborted = find_aborted(&target.segments, source.base_offset(), end, Wait::ForDisk);
            transactions.add_aborted(aborted.map_err(unreadable)?);
            let mut walk = Walk::new(source, 0, end);
            while walk.position < size {
                self.check(target)?;
                let chunk = self.reader.read(&*file, walk.position, size).map_err(CleanError::Io)?;
                let mut at = 0;
                while let Some(batch) = walk.next(&chunk[at..])? {
                    at += batch.bytes().len();
                    let round = Round {
                        map: &self.map,
                        upper_bound: wanted.first_uncleanable_offset,
                        delete_retention_ms: config.delete_retention_ms,
                        now_ms,
                    };
                    let start = writer.output.len();
                    let filtered = self
                        .filter
                        .filter(&round, transactions, &target.last_records, &batch, &mut writer.output)
                        .map_err(|reason| walk.bad(reason))?;
                    is_unchanged &= filtered.is_unchanged;
                    stats.records_read += filtered.records_read;
                    stats.records_written += filtered.records_written;
                    stats.records_without_key += filtered.records_without_key;
                    if let Some(header) = filtered.written {
                        writer.index(header.last_offset(), header.max_timestamp(), start as u64)?;
                    }
                    if let Some(aborted) = filtered.retained_abort {
                        cleaned.append_aborted(&aborted).map_err(txn_io).map_err(disk_error)?;
                    }
                    if writer.output.len() >= self.io_bytes {
                        stats.bytes_written += writer.write()? as u64;
                    }
                }
                let (read, needed) = (chunk.len(), walk.needed);
                stats.bytes_read += at as u64;
                let written = writer.write()?;
                stats.bytes_written += written as u64;
                self.throttle(target, at + written)?;
                self.reader.made_progress(&walk, at, read, needed, size)?;
            }
            self.restore_buffers();
            shrink(&mut writer.output, self.io_bytes);
        }
        Ok(is_unchanged)
    }

    /// Gives back what a large batch has taken.
    fn restore_buffers(&mut self) {
        self.reader.size = self.io_bytes;
        shrink(&mut self.reader.buffer, self.io_bytes);
        shrink(&mut self.decompressed, self.io_bytes);
        self.filter.restore(self.io_bytes);
    }
}

fn shrink(buffer: &mut Vec<u8>, io_bytes: usize) {
    if buffer.capacity() > 2 * io_bytes {
        *buffer = Vec::new();
    }
}

/// Reads a segment's file, a stretch at a time.
struct BatchReader {
    buffer: Vec<u8>,
    size: usize,
    filled: usize,
}

impl BatchReader {
    /// What is at `position`: as much as fits in the buffer, or up to `end`.
    fn read(&mut self, file: &dyn DiskFile, position: u64, end: u64) -> io::Result<&[u8]> {
        let wanted = self.size.min(usize::try_from(end - position).unwrap_or(usize::MAX));
        if self.buffer.len() < wanted {
            self.buffer.resize(wanted, 0);
        }
        self.filled = file.read_up_to(&mut self.buffer[..wanted], position)?;
        Ok(&self.buffer[..self.filled])
    }

    /// Sees to it that the next read brings more if this one did not hold a whole batch.
    fn made_progress(
        &mut self,
        walk: &Walk<'_>,
        consumed: usize,
        read: usize,
        needed: usize,
        end: u64,
    ) -> Result<(), CleanError> {
        if consumed > 0 {
            return Ok(());
        }
        let room = end - walk.position;
        if needed as u64 > room || (read as u64) < room.min(self.size as u64) {
            return Err(walk.bad(format!("a batch of {needed} bytes ends behind the {room} that are left")));
        }
        self.size = self.size.max(needed);
        Ok(())
    }
}

/// The way through a segment's batches.
struct Walk<'a> {
    segment: &'a LogSegment,
    /// Of the next batch.
    position: u64,
    next_offset: Offset,
    /// Where the next segment begins, or the log ends.
    end: Offset,
    /// How many bytes the batch has that was cut off.
    needed: usize,
}

impl<'a> Walk<'a> {
    fn new(segment: &'a LogSegment, position: u64, end: Offset) -> Walk<'a> {
        Walk { segment, position, next_offset: segment.base_offset(), end, needed: 0 }
    }

    /// The batch at the start of `bytes`, if all of it is there. What is damaged is not cleaned: it would come out of it
    /// with a right checksum, and a base offset, which no checksum covers, could hide batches behind it.
    fn next<'b>(&mut self, bytes: &'b [u8]) -> Result<Option<RecordBatch<'b>>, CleanError> {
        if bytes.is_empty() {
            return Ok(None);
        }
        let batch = match RecordBatch::parse(bytes) {
            Ok(batch) => batch,
            Err(BatchError::Incomplete { needed, .. }) => {
                self.needed = needed;
                return Ok(None);
            }
            Err(error) => return Err(self.bad(error)),
        };
        if !batch.is_crc_valid() {
            return Err(self.bad("the checksum is wrong"));
        }
        let (base, last) = (batch.base_offset(), batch.last_offset());
        let is_in_order = base >= self.next_offset && last >= base && last < self.end;
        if !is_in_order || last.0 - self.segment.base_offset().0 > i64::from(i32::MAX) {
            return Err(self.bad(format!("offsets from {base} to {last} cannot stand there")));
        }
        self.next_offset = last.plus(1);
        self.position += batch.bytes().len() as u64;
        Ok(Some(batch))
    }

    fn bad(&self, reason: impl std::fmt::Display) -> CleanError {
        let base_offset = self.segment.base_offset();
        CleanError::Uncleanable(format!("segment {base_offset} near byte {}: {reason}", self.position))
    }
}

/// Writes a cleaned segment and its indexes.
struct CleanedWriter<'a> {
    segment: &'a LogSegment,
    /// What is to be written yet. It is this segment's alone: when a cleaning ends early, it goes with it.
    output: Vec<u8>,
    config: &'a TopicConfig,
    last_index_entry: LastIndexEntry,
    written_back: u64,
}

impl<'a> CleanedWriter<'a> {
    fn new(segment: &'a LogSegment, config: &'a TopicConfig) -> CleanedWriter<'a> {
        let last_index_entry = LastIndexEntry::default();
        CleanedWriter { segment, output: Vec::new(), config, last_index_entry, written_back: 0 }
    }

    /// Notes a batch that stands at `at` in what is going to be written.
    fn index(&mut self, last_offset: Offset, timestamp: i64, at: u64) -> Result<(), CleanError> {
        let entry = TimestampEntry { timestamp, offset: last_offset };
        self.segment.observe_timestamp(entry).map_err(IndexError::into_io).map_err(disk_error)?;
        let position = self.segment.size() + at;
        if self.last_index_entry.is_next_due(position, self.config) {
            self.segment
                .append_index_entries(last_offset, position)
                .map_err(IndexError::into_io)
                .map_err(disk_error)?;
            self.last_index_entry = LastIndexEntry::at(position);
        }
        Ok(())
    }

    /// Writes and empties the output; returns its size.
    fn write(&mut self) -> Result<usize, CleanError> {
        let written = self.output.len();
        if written == 0 {
            return Ok(0);
        }
        self.segment.write(&mut [IoSlice::new(&self.output)]).map_err(disk_error)?;
        let end = self.segment.size() + written as u64;
        self.segment.publish(end);
        self.output.clear();
        if end - self.written_back >= WRITEBACK_BYTES {
            // A hint.
            let _ = self.segment.start_writeback(self.written_back, end - self.written_back);
            self.written_back = end;
        }
        Ok(written)
    }
}

/// Where the offsets of a source end.
fn end_of(target: &Target<'_>, source: &LogSegment) -> Offset {
    let next = target.segments.partition_point(|segment| segment.base_offset() <= source.base_offset());
    target.segments.get(next).map_or(target.log.log_end_offset(), |next| next.base_offset())
}

fn last_records(log: &Log) -> HashMap<ProducerId, LastRecord> {
    log.with_producers(|producers| {
        let last = |entry: &&crate::storage::producer_state::ProducerStateEntry| {
            let last_data_offset = Some(entry.last_data_offset()).filter(|offset| offset.0 >= 0);
            (entry.producer_id, LastRecord { last_data_offset, producer_epoch: entry.producer_epoch })
        };
        producers.active_producers().iter().map(last).collect()
    })
}

/// What there is to know of a log, to choose by. [`CleanError::Aborted`]: it has changed meanwhile.
pub fn log_facts(log: &Log, high_watermark: Offset) -> Result<LogFacts, CleanError> {
    let segments = log.segments.load_full();
    unless_it_panics(|| facts_of(log, &segments, high_watermark)).map_err(|error| match &error {
        _ if log.is_offline() => CleanError::Aborted,
        CleanError::Io(io) if is_missing(io) && !Arc::ptr_eq(&segments, &log.segments.load_full()) => {
            CleanError::Aborted
        }
        _ => unless_missing(error),
    })
}

fn facts_of(log: &Log, segments: &[Arc<LogSegment>], high_watermark: Offset) -> Result<LogFacts, CleanError> {
    let config = log.config();
    let wants_largest = config.min_compaction_lag_ms > 0;
    let wants_first = config.max_compaction_lag_ms < log.context.clock.now_ms();
    let dirty = log.cleaned_offset().unwrap_or_default();
    let active = segments.len() - 1;
    let facts = segments.iter().enumerate().map(|(n, segment)| {
        let is_dirty = n < active && segments[n + 1].base_offset() > dirty;
        let wanted = Wanted {
            largest_timestamp: wants_largest && is_dirty,
            first_timestamp: wants_first && is_dirty,
            index_sizes: false,
        };
        segment_facts(segment, wanted)
    });
    let segments = facts.collect::<Result<Vec<_>, _>>()?;
    Ok(LogFacts {
        log_start_offset: log.log_start_offset(),
        log_end_offset: log.log_end_offset(),
        last_stable_offset: log.first_unstable_offset().map_or(high_watermark, |first| first.min(high_watermark)),
        cleaned_offset: log.cleaned_offset(),
        segments,
    })
}

/// Which facts are looked up; the others are zero.
#[derive(Clone, Copy, Default)]
struct Wanted {
    largest_timestamp: bool,
    first_timestamp: bool,
    index_sizes: bool,
}

fn segment_facts(segment: &LogSegment, wanted: Wanted) -> Result<SegmentFacts, CleanError> {
    type Count = fn(&LogSegment) -> Result<u32, IndexError>;
    let index_size = |count: Count, entry_size: usize| match wanted.index_sizes.then(|| count(segment)) {
        None => Ok(0),
        Some(Ok(count)) => Ok(u64::from(count) * entry_size as u64),
        // It is built anew.
        Some(Err(IndexError::Corrupt(_))) => Ok(0),
        Some(Err(error)) => Err(CleanError::Io(error.into_io())),
    };
    let largest_timestamp_ms = match wanted.largest_timestamp {
        false => 0,
        true => segment.largest_timestamp_ms().map_err(CleanError::Io)?,
    };
    let first = match wanted.first_timestamp {
        true => segment.first_frame(Wait::ForDisk).map_err(unreadable)?,
        false => None,
    };
    Ok(SegmentFacts {
        base_offset: segment.base_offset(),
        size: segment.size(),
        largest_timestamp_ms,
        first_timestamp_ms: first.map(|frame| frame.max_timestamp()),
        offset_index_size: index_size(|segment| segment.offset_index().count(Wait::ForDisk), offset_index::ENTRY_SIZE)?,
        time_index_size: index_size(|segment| segment.time_index().count(Wait::ForDisk), time_index::ENTRY_SIZE)?,
    })
}

/// A log that breaks an invariant is set aside; the thread has other logs to clean.
fn unless_it_panics<T>(work: impl FnOnce() -> Result<T, CleanError>) -> Result<T, CleanError> {
    let broken =
        |_| Err(CleanError::Uncleanable("an invariant does not hold; see what was told just before".to_owned()));
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(broken)
}

fn is_missing(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound
}

/// That a file is not there, though nobody has removed it here, is no failure of the disk.
fn unless_missing(error: CleanError) -> CleanError {
    match error {
        CleanError::Io(error) if is_missing(&error) => CleanError::Uncleanable(format!("a file is missing: {error}")),
        error => error,
    }
}

fn unreadable(error: ReadError) -> CleanError {
    match error {
        ReadError::Io(error) => CleanError::Io(error),
        error => CleanError::Uncleanable(error.to_string()),
    }
}

/// An error of writing: a full disk is no broken one.
fn disk_error(error: io::Error) -> CleanError {
    match is_full(&error) {
        true => CleanError::NoRoom(error),
        false => CleanError::Io(error),
    }
}
