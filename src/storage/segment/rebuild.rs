//! Indexes that were caught lying: readers do without them until they were built anew.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::record::batch::NO_TIMESTAMP;
use crate::storage::log::{ReadError, Wait};
use crate::storage::segment::{LogSegment, MaxTimestamp};
use crate::storage::time_index::TimestampEntry;

/// The right to build a segment's indexes anew: one has it at a time. One that goes unused can be had again, one that
/// failed cannot, as it would fail again at each read.
pub(in crate::storage) struct IndexRebuild {
    segment: Arc<LogSegment>,
    has_failed: bool,
}

impl IndexRebuild {
    pub fn begin(segment: &Arc<LogSegment>) -> Option<IndexRebuild> {
        let had_one = segment.has_rebuild.swap(true, Ordering::AcqRel);
        (!had_one).then(|| IndexRebuild { segment: segment.clone(), has_failed: false })
    }

    pub fn segment(&self) -> &Arc<LogSegment> {
        &self.segment
    }

    /// Builds them. Nobody may write to the segment meanwhile.
    pub fn run(&mut self, interval: u64) -> Result<(), ReadError> {
        let built = self.segment.rebuild_indexes(interval);
        self.has_failed = built.is_err();
        built
    }
}

impl Drop for IndexRebuild {
    fn drop(&mut self) {
        self.segment.has_rebuild.store(self.has_failed, Ordering::Release);
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

    /// Builds both indexes anew from the batches. Only for a segment that takes no more, and by one at a time.
    pub fn rebuild_indexes(&self, interval: u64) -> Result<(), ReadError> {
        let end = self.size();
        let file = self.log.get()?;
        let damaged = |error| self.index_damaged(error);
        // Half an index knows of no largest timestamp, for one.
        self.distrusts_index.store(true, Ordering::Release);
        self.offset_index.reset()?;
        self.time_index.reset()?;
        let mut batches = self.readable(&*file, 0, end, Wait::ForDisk);
        let mut indexed_at = 0;
        let mut max: Option<TimestampEntry> = None;
        while let Some((position, frame)) = batches.next()? {
            let offset = frame.last_offset();
            // An index counts from the segment's name, be it a wrong one.
            if !(0..=i64::from(i32::MAX)).contains(&offset.0.saturating_sub(self.base_offset.0)) {
                continue;
            }
            if frame.max_timestamp() > max.map_or(NO_TIMESTAMP, |max| max.timestamp) {
                max = Some(TimestampEntry { timestamp: frame.max_timestamp(), offset });
            }
            if position - indexed_at > interval {
                if position <= i32::MAX as u64 {
                    self.offset_index.append(offset, position as u32).map_err(damaged)?;
                }
                max.map_or(Ok(()), |max| self.time_index.append_if_larger(max)).map_err(damaged)?;
                indexed_at = position;
            }
        }
        max.map_or(Ok(()), |max| self.time_index.append_if_larger(max)).map_err(damaged)?;
        self.offset_index.trim().map_err(damaged)?;
        self.time_index.trim().map_err(damaged)?;
        *self.max_timestamp.lock() = MaxTimestamp::Known(max);
        self.distrusts_index.store(false, Ordering::Release);
        Ok(())
    }
}
