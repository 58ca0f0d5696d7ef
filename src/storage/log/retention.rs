//! Deletes segments that retention has no use for, while appends go on.
//!
//! There may be thousands of them, so the log's lock is held for as long only as it takes to move the bounds, to exchange
//! the list of segments, and to roll where all of them go. Before that, without it, as many ages are looked at as are
//! needed; after it names and files go. In between, as all the while, nobody else takes segments out of the list: an
//! append may lengthen the last one, which then stays, or begin others.
//!
//! | step | lock | after a crash here, the next start |
//! |---|---|---|
//! | it is known how many of the first segments may go | | finds them all |
//! | the log starts behind them, they are no longer in the list | the log's | finds them all |
//! | the name of what follows is on disk, and the epochs, which start there too | | finds them all; retention takes them again |
//! | their files have the names of deleted ones | | finds any of them; by the epochs, and the names in a gap, it knows that those before it were being deleted |
//! | the names are on disk, and the files are removed after `file.delete.delay.ms` | | removes them |

use std::io;
use std::sync::Arc;

use crate::storage::disk::is_full;
use crate::storage::log::change::GivenUp;
use crate::storage::log::{ChangeError, Log, Writer};
use crate::storage::retention::{self, SegmentExtent};
use crate::storage::segment::LogSegment;
use crate::types::Offset;

impl Log {
    /// Removes the segments that retention by time, by size or the log's start have no use for; returns how many. None
    /// while the log is being cleaned: the work of that would be lost. Nor does a cleaning begin meanwhile: it would look
    /// for files that go. Waits for the disk; appends do not.
    pub fn delete_old_segments(&self, now_ms: i64, high_watermark: Offset) -> Result<usize, ChangeError> {
        let Some(_running) = self.cleaning.try_begin() else { return Ok(0) };
        let _exchange = self.exchange.lock();
        self.change(|| {
            let (segments, log_end_offset) = {
                // So that the one is the end of the other.
                let _writer = self.writer.lock();
                (self.segments.load_full(), self.log_end_offset())
            };
            let count = self.count_deletable(&segments, log_end_offset, now_ms, high_watermark)?;
            if count == 0 {
                return Ok(0);
            }
            let deleted = self.take_out(&segments[..count], log_end_offset)?;
            // A crash may keep the new names of some and the old ones of others, and no name of a segment that was just begun.
            let synced = self.sync_new_names().and_then(|()| match deleted.len() {
                0 | 1 => Ok(()),
                _ => self.epochs.flush(),
            });
            match synced {
                // No reason not to delete.
                Err(error) if is_full(&error) => self.tell_full(&error),
                synced => synced?,
            }
            let count = deleted.len();
            self.give_up_all(deleted)?;
            Ok(count)
        })
    }

    /// How many of the first segments retention, or the log's start, has no use for.
    fn count_deletable(
        &self,
        segments: &[Arc<LogSegment>],
        log_end_offset: Offset,
        now_ms: i64,
        high_watermark: Offset,
    ) -> io::Result<usize> {
        let ends = segments[1..].iter().map(|next| next.base_offset()).chain([log_end_offset]);
        let extent = |(segment, end_offset): (&Arc<LogSegment>, Offset)| SegmentExtent {
            base_offset: segment.base_offset(),
            end_offset,
            size: segment.size(),
        };
        let extents: Vec<_> = segments.iter().zip(ends).map(extent).collect();
        let largest_timestamp_ms = |n: usize| self.watching(&segments[n], || segments[n].largest_timestamp_ms());
        let (start, config) = (self.log_start_offset(), self.config.load());
        retention::deletable(&extents, start, high_watermark, &config, now_ms, largest_timestamp_ms)
    }

    /// Has the log start behind `old`, its first segments, and takes them out of the list: all but the last of them, if that is written
    /// to and the log does not end at `log_end_offset` any more, or if there is no room for another one to write to.
    fn take_out(&self, old: &[Arc<LogSegment>], log_end_offset: Offset) -> Result<Vec<GivenUp>, ChangeError> {
        let mut writer = self.writer.lock();
        // An append may have failed meanwhile.
        if self.is_offline() {
            return Err(ChangeError::Offline);
        }
        let (last, before) = old.split_last().expect("there are some to delete");
        // What was looked at of one that was written to is true no longer. It may have been rolled since.
        let is_longer = self.log_end_offset() != log_end_offset && self.was_written_to(last, log_end_offset);
        let old = match is_longer || !self.begin_behind(&mut writer, last)? {
            true => before,
            false => old,
        };
        if old.is_empty() {
            return Ok(Vec::new());
        }
        let kept = self.segments.load()[old.len()..].to_vec();
        // Readers first lose the offsets, then the segments.
        self.advance(&mut writer, kept[0].base_offset())?;
        self.segments.store(Arc::new(kept));
        Ok(GivenUp::with_snapshots(&mut writer, old.to_vec()))
    }

    /// Whether this segment was the last one when the log ended at `log_end_offset`.
    fn was_written_to(&self, segment: &LogSegment, log_end_offset: Offset) -> bool {
        let segments = self.segments.load();
        let behind = segments.partition_point(|other| other.base_offset() <= segment.base_offset());
        segments.get(behind).is_none_or(|next| next.base_offset() > log_end_offset)
    }

    /// Begins another segment if `old` is written to. Returns whether there is one behind it now.
    fn begin_behind(&self, writer: &mut Writer, old: &LogSegment) -> io::Result<bool> {
        if self.active_segment().base_offset() != old.base_offset() {
            return Ok(true);
        }
        match self.roll_to(writer, self.log_end_offset()) {
            // The others are a beginning. The last one has no index entries that would have to be kept.
            Err(error) if is_full(&error) => {
                self.tell_full(&error);
                match self.replace_last(writer) {
                    Err(error) if is_full(&error) => Ok(false),
                    replaced => replaced.map(|_| true),
                }
            }
            rolled => rolled.map(|_| true),
        }
    }
}
