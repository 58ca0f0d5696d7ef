//! Truncation: a log that is to end earlier, or to begin anew elsewhere.
//!
//! All of it runs under the log's lock. Readers are shown the new bounds before files are touched.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::config::TopicConfig;
use crate::storage::disk::is_full;
use crate::storage::file_name::MAX_BASE_OFFSET;
use crate::storage::known_bugs::{self, KnownBug};
use crate::storage::log::change::is_half_done;
use crate::storage::log::producers::{producers_start, replay_producers};
use crate::storage::log::{ChangeError, Log, LogOffsetMetadata, ReadError, Wait, Writer};
use crate::storage::producer_state::ProducerStateManager;
use crate::storage::segment::{LogSegment, txn_io};
use crate::storage::txn_index::AbortedTxn;
use crate::types::Offset;

impl Log {
    /// Removes all records from `offset` on, and the batch that holds it as a whole. Returns whether there were any.
    pub fn truncate_to(&self, offset: Offset) -> Result<bool, ChangeError> {
        let _exchange = self.exchange.lock();
        let mut writer = self.writer.lock();
        if offset >= self.log_end_offset() {
            return Ok(false);
        }
        self.change(|| {
            if self.segments.load()[0].base_offset() > offset {
                self.start_anew(&mut writer, offset)?;
            } else {
                self.truncate(&mut writer, offset)?;
            }
            Ok(true)
        })
    }

    /// Removes all records; the next one gets `offset`.
    pub fn truncate_fully_and_start_at(&self, offset: Offset) -> Result<(), ChangeError> {
        let _exchange = self.exchange.lock();
        let mut writer = self.writer.lock();
        self.change(|| self.start_anew(&mut writer, offset))
    }

    /// Makes the log end at `offset`, which is within it. `offset` itself may be inside of a batch.
    fn truncate(&self, writer: &mut Writer, offset: Offset) -> Result<(), ChangeError> {
        let mut segments = Vec::clone(&self.segments.load());
        let removed = segments.split_off(segments.partition_point(|segment| segment.base_offset() <= offset));
        let active = segments.last().expect("the caller has looked").clone();
        let cut = active.find(offset, active.size(), Wait::ForDisk).map_err(ReadError::into_io)?;
        // The records of a batch cannot be parted.
        let end = cut.map_or(offset, |batch| batch.base_offset.min(offset));
        // What is damaged before it goes, too: it must not become a part of what is appended next.
        let position = active.without_damage_before(cut.map_or(active.size(), |batch| batch.position));

        let (old_end, old_segments) = (*self.end.read(), self.segments.load_full());
        self.publish_end(LogOffsetMetadata {
            message_offset: end,
            segment_base_offset: active.base_offset(),
            relative_position_in_segment: position,
        });
        self.recent.lock().clear();
        self.segments.store(Arc::new(segments));
        self.truncate_commits(end, true);
        let old_start = self.log_start_offset.fetch_min(end.0, Ordering::AcqRel);
        // Before anything goes: where a crash takes some of the segments and leaves others, the next start has to see to it.
        self.correct_checkpoints().inspect_err(|_| {
            self.log_start_offset.store(old_start, Ordering::Release);
            self.segments.store(old_segments);
            self.publish_end(old_end);
        })?;
        self.cut(writer, removed, &active, end, position).map_err(|error| match error {
            ChangeError::Io(error) => ChangeError::Io(is_half_done(error)),
            error => error,
        })
    }

    /// The part of a truncation from which there is no way back.
    fn cut(
        &self,
        writer: &mut Writer,
        removed: Vec<Arc<LogSegment>>,
        active: &LogSegment,
        end: Offset,
        position: u64,
    ) -> Result<(), ChangeError> {
        for part in removed.rchunks(removed_at_once(&removed, &self.config.load())) {
            self.remove_segments(writer, part.to_vec())?;
            // Else a crash might bring back a segment behind what is cut off now.
            self.context.disk.sync_dir(&self.dir.path())?;
        }
        let is_cut = position < active.size();
        if !is_cut && !active.has_sound_indexes(end)? {
            // Nobody has looked at them while it was sealed.
            active.distrust("its entries do not ascend, or reach behind the segment's end");
            active.rebuild_indexes_in_place(&self.config.load()).map_err(ReadError::into_io)?;
            active.sync_all()?;
        }
        if is_cut {
            let lacks_txn_index = active.truncate(end, position).map_err(ReadError::into_io)?;
            if active.distrusts_index() {
                active.rebuild_indexes_in_place(&self.config.load()).map_err(ReadError::into_io)?;
            }
            if lacks_txn_index {
                self.index_aborted_anew(writer, active, end)?;
            }
            // It lies below the recovery point from now on: nobody would look for what a crash brings back of it.
            if !known_bugs::is_back(KnownBug::TruncationNotSynced) {
                active.sync_all()?;
            }
        }
        active.take_more();
        active.resume_reserving();
        self.start_writing(writer, position);
        self.epochs.lock().truncate_from_end(end);
        self.flush_epochs_later();
        self.reload_producers(writer, end)
    }

    fn start_anew(&self, writer: &mut Writer, offset: Offset) -> Result<(), ChangeError> {
        if !(Offset(0)..=MAX_BASE_OFFSET).contains(&offset) {
            return Err(ChangeError::OutOfRange { offset, log_end_offset: self.log_end_offset() });
        }
        // Before there is a segment at `offset`: a crash may bring back old ones beside it, and they may reach beyond.
        let _held = self.hold_recovery_point();
        self.truncate_commits(offset, false);
        // Nor does a start look for gaps below the recovery point, which what goes leaves.
        self.recovery_point.fetch_min(self.segments.load()[0].base_offset().0, Ordering::AcqRel);
        let log_start_offset = Offset(self.log_start_offset.fetch_min(offset.0, Ordering::AcqRel));
        let mut removed = Vec::clone(&self.segments.load());
        let same = removed.iter().position(|segment| segment.base_offset() == offset).map(|at| removed.remove(at));
        let made = self.correct_checkpoints().and_then(|()| match &same {
            // It has the name of the new one. Nobody asks for what is in it, so that it is emptied.
            Some(_) => LogSegment::create(&self.context.files, &self.dir, offset).map(Arc::new).map_err(is_half_done),
            None => self.create_segment(offset),
        });
        let new = made.inspect_err(|_| {
            // Nothing is gone yet. Nor is what was made of the new segment to come back with a crash: the log would end there.
            self.has_unsynced_names.store(true, Ordering::Release);
            let _ = self.sync_new_names();
            self.log_start_offset.store(log_start_offset.0, Ordering::Release);
        })?;
        self.begin_anew(writer, new, removed, same.is_some()).map_err(is_half_done)?;
        Ok(())
    }

    /// From here on there is no way back.
    fn begin_anew(
        &self,
        writer: &mut Writer,
        new: Arc<LogSegment>,
        removed: Vec<Arc<LogSegment>>,
        is_emptied: bool,
    ) -> io::Result<()> {
        let offset = new.base_offset();
        self.publish_end(LogOffsetMetadata {
            message_offset: offset,
            segment_base_offset: offset,
            relative_position_in_segment: 0,
        });
        self.log_start_offset.store(offset.0, Ordering::Release);
        self.recent.lock().clear();
        self.segments.store(Arc::new(vec![new.clone()]));
        self.start_writing(writer, 0);
        if is_emptied {
            // Else a crash might bring back a part of what was in it, behind what is appended.
            new.written_by_others();
            new.sync_all()?;
        }
        self.remove_segments(writer, removed)?;
        writer.producers.truncate_fully_and_start_at(offset)?;
        // Also the snapshots are to be gone for good: one at `offset` would tell of what was there before.
        self.context.disk.sync_dir(&self.dir.path())?;
        self.epochs.lock().clear();
        match self.epochs.flush() {
            // Written before the first batch is.
            Err(error) if is_full(&error) => self.tell_full(&error),
            flushed => flushed?,
        }
        self.publish_first_unstable(writer);
        Ok(())
    }

    /// Builds the transaction index of the last segment, which has none, from its batches.
    fn index_aborted_anew(&self, writer: &Writer, active: &LogSegment, end: Offset) -> Result<(), ChangeError> {
        let (disk, dir) = (self.context.disk.clone(), self.dir.clone());
        let mut producers = ProducerStateManager::open(disk, dir, writer.producers.config())?;
        let start = producers_start(&self.segments.load(), self.log_start_offset());
        producers.load_as_of(active.base_offset(), start, self.context.clock.now_ms())?;
        let index = |segment: &LogSegment, aborted: &AbortedTxn| match segment.base_offset() == active.base_offset() {
            true => segment.append_aborted(aborted).map_err(txn_io),
            false => Ok(()),
        };
        replay_producers(&self.segments.load(), &mut producers, end, index).map_err(ReadError::into_io)?;
        self.context.disk.sync_dir(&self.dir.path())?;
        Ok(())
    }

    /// The producers as of the log's new end.
    fn reload_producers(&self, writer: &mut Writer, end: Offset) -> Result<(), ChangeError> {
        let now_ms = self.context.clock.now_ms();
        let segments = self.segments.load();
        let start = producers_start(&segments, self.log_start_offset());
        writer.producers.truncate_and_reload(start, end, now_ms)?;
        replay_producers(&segments, &mut writer.producers, end, |_, _| Ok(())).map_err(ReadError::into_io)?;
        self.markers.last.store(end.0, Ordering::Release);
        // What was replicated before is to be told anew: the markers below it were just replayed.
        self.markers.settled.store(-1, Ordering::Release);
        self.publish_first_unstable(writer);
        Ok(())
    }
}

/// How many of the last segments of a log are removed at once, from the last one on. If the log is compacted they go one by one:
/// nobody would notice that a crash has taken one and left another behind it.
pub(in crate::storage) fn removed_at_once(removed: &[Arc<LogSegment>], config: &TopicConfig) -> usize {
    if config.cleanup_policy.compact { 1 } else { removed.len().max(1) }
}
