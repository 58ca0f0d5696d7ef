//! Indexes that were caught lying, or are missing: readers do without them until they were built anew.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::config::TopicConfig;
use crate::record::batch::NO_TIMESTAMP;
use crate::storage::file_name::{FileKind, FileName, FileState};
use crate::storage::known_bugs::{self, KnownBug};
use crate::storage::log::{ReadError, Wait};
use crate::storage::offset_index::OffsetIndex;
use crate::storage::segment::{LastIndexEntry, LogSegment, MaxTimestamp};
use crate::storage::time_index::{TimeIndex, TimestampEntry};

/// How long after a failure they are built anew again; twice as long after the next one,
const FIRST_DELAY: Duration = Duration::from_secs(60);
/// and no longer than this.
const MAX_DELAY: Duration = Duration::from_secs(60 * 60);

/// What is known of attempts to build a segment's indexes anew.
#[derive(Default)]
pub(super) struct Attempts {
    is_running: bool,
    /// One after the other.
    failures: u32,
    /// By the clock's monotonic time.
    not_before: Duration,
}

/// The right to build a segment's indexes anew: one has it at a time. One that goes unused can be had again at once; after one
/// that failed (there was no room, for one) whoever comes to read without an index a while later gets the next.
pub(in crate::storage) struct IndexRebuild {
    segment: Arc<LogSegment>,
    begun: Duration,
    /// Whether it was used and has failed.
    has_failed: Option<bool>,
    /// How many before it have.
    failures: u32,
}

impl IndexRebuild {
    /// `now`: the clock's monotonic time.
    pub fn begin(segment: &Arc<LogSegment>, now: Duration) -> Option<IndexRebuild> {
        let mut attempts = segment.rebuilds.lock();
        if attempts.is_running || now < attempts.not_before {
            return None;
        }
        attempts.is_running = true;
        Some(IndexRebuild { segment: segment.clone(), begun: now, has_failed: None, failures: attempts.failures })
    }

    pub fn segment(&self) -> &Arc<LogSegment> {
        &self.segment
    }

    /// Whether the one before it has failed.
    pub fn is_repeated(&self) -> bool {
        self.failures > 0
    }

    /// Builds them. Nobody may write to the segment meanwhile.
    pub fn run(&mut self, config: &TopicConfig) -> Result<(), ReadError> {
        self.has_failed = Some(true);
        self.segment.rebuild_indexes(config)?;
        self.has_failed = Some(false);
        Ok(())
    }
}

impl Drop for IndexRebuild {
    fn drop(&mut self) {
        let mut attempts = self.segment.rebuilds.lock();
        attempts.is_running = false;
        match self.has_failed {
            None => {}
            Some(false) => *attempts = Attempts::default(),
            Some(true) => {
                let delay = FIRST_DELAY.saturating_mul(1 << self.failures.min(16)).min(MAX_DELAY);
                attempts.failures = self.failures.saturating_add(1);
                attempts.not_before = self.begun.saturating_add(delay);
            }
        }
    }
}

impl LogSegment {
    /// Whether an index was caught lying and not built anew since.
    pub fn distrusts_index(&self) -> bool {
        self.distrusts_index.load(Ordering::Acquire)
    }

    pub fn distrust(&self, reason: &str) {
        if !self.distrusts_index.swap(true, Ordering::AcqRel) {
            tracing::warn!(path = %self.log.path().display(), reason, "index of a segment is wrong; reading without it");
        }
    }

    /// Builds both indexes anew from the batches: beside those in use, which they replace when they are on disk, so that a start
    /// finds either, but no part of one. The directory is to be synced afterwards. Only for a segment that takes no more, and by
    /// one at a time.
    pub fn rebuild_indexes(&self, config: &TopicConfig) -> Result<(), ReadError> {
        if known_bugs::is_back(KnownBug::IndexRebuiltInPlace) {
            self.rebuild_indexes_in_place(config)?;
            return self.seal().map_err(|error| self.index_damaged(error));
        }
        let file = |kind| {
            let name = FileName::new(self.base_offset, kind).with_state(FileState::Temporary);
            self.files.file(&self.dir, name, true)
        };
        let offset_index = OffsetIndex::new(file(FileKind::OffsetIndex), self.base_offset);
        let time_index = TimeIndex::new(file(FileKind::TimeIndex), self.base_offset);
        // Until both are there they may contradict each other.
        self.distrusts_index.store(true, Ordering::Release);
        let built = self.build_indexes(&offset_index, &time_index, config);
        let put_in_place = built.and_then(|max| self.put_in_place(&offset_index, &time_index).map(|()| max));
        let max = put_in_place.inspect_err(|_| {
            let files = [offset_index.file(), time_index.file()];
            for file in files.into_iter().filter(|file| file.name().state == FileState::Temporary) {
                // What cannot be removed is removed by the next start.
                let _ = file.remove();
            }
        })?;
        self.trust_indexes(max);
        Ok(())
    }

    /// As [`Self::rebuild_indexes`], without room for others: for the last segment, whose indexes no start believes after a crash.
    pub fn rebuild_indexes_in_place(&self, config: &TopicConfig) -> Result<(), ReadError> {
        self.distrusts_index.store(true, Ordering::Release);
        let max = self.build_indexes(&self.offset_index, &self.time_index, config)?;
        self.trust_indexes(max);
        Ok(())
    }

    fn trust_indexes(&self, max: Option<TimestampEntry>) {
        *self.max_timestamp.lock() = MaxTimestamp::Known(max);
        self.distrusts_index.store(false, Ordering::Release);
    }

    /// Returns the largest timestamp.
    fn build_indexes(
        &self,
        offset_index: &OffsetIndex,
        time_index: &TimeIndex,
        config: &TopicConfig,
    ) -> Result<Option<TimestampEntry>, ReadError> {
        let damaged = |error| self.index_damaged(error);
        offset_index.reset()?;
        time_index.reset()?;
        let file = self.log.get()?;
        let mut batches = self.readable(&*file, 0, self.size(), Wait::ForDisk);
        let mut last_entry = LastIndexEntry::default();
        let mut max: Option<TimestampEntry> = None;
        while let Some((position, frame)) = batches.next()? {
            let offset = frame.last_offset();
            // In a file with a wrong name.
            if offset < self.base_offset {
                continue;
            }
            if frame.max_timestamp() > max.map_or(NO_TIMESTAMP, |max| max.timestamp) {
                max = Some(TimestampEntry { timestamp: frame.max_timestamp(), offset });
            }
            if last_entry.is_next_due(position, config) && self.can_index(offset) {
                if position <= i32::MAX as u64 {
                    offset_index.append(offset, position as u32).map_err(damaged)?;
                }
                max.map_or(Ok(()), |max| time_index.append_if_larger(max)).map_err(damaged)?;
                last_entry = LastIndexEntry::at(position);
            }
        }
        let last = max.filter(|max| self.can_index(max.offset));
        last.map_or(Ok(()), |last| time_index.append_if_larger(last)).map_err(damaged)?;
        Ok(max)
    }

    fn put_in_place(&self, offset_index: &OffsetIndex, time_index: &TimeIndex) -> Result<(), ReadError> {
        offset_index.trim().and_then(|()| time_index.trim()).map_err(|error| self.index_damaged(error))?;
        for file in [offset_index.file(), time_index.file()] {
            // Be it empty: an earlier attempt may have left something in it.
            file.written();
            if !known_bugs::is_back(KnownBug::RebuiltIndexNotSynced) {
                file.sync()?;
            }
        }
        offset_index.file().rename(self.offset_index.file().name().state)?;
        self.offset_index.replaced_by(offset_index);
        time_index.file().rename(self.time_index.file().name().state)?;
        self.time_index.replaced_by(time_index);
        Ok(())
    }
}
