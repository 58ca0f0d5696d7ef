//! What changes a log other than appends: epochs, the start, truncation, rolling, closing, deletion.
//!
//! All of it runs under the log's lock; retention, which may take long, has [a way of its own](super::retention). Readers
//! are shown a change before files are touched: first the bounds, then the list of segments.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tracing::error;

use crate::record::batch::HEADER_SIZE;
use crate::storage::background::Lane;
use crate::storage::directory_name::{self, DirectoryKind};
use crate::storage::disk::{Disk, DiskFile, is_full, lacks_descriptor};
use crate::storage::file_cache::Directory;
use crate::storage::file_name::{FileKind, FileName, FileState, MAX_BASE_OFFSET};
use crate::storage::index_file::IndexError;
use crate::storage::known_bugs::{self, KnownBug};
use crate::storage::log::append::producer_batch;
use crate::storage::log::{
    ActiveSegment, CLOSED, ChangeError, FlushError, Log, LogOffsetMetadata, MOVED, OPEN, ReadError, Wait, Writer,
};
use crate::storage::partition_metadata;
use crate::storage::producer_state::ProducerStateManager;
use crate::storage::scan::Frame;
use crate::storage::segment::{LogSegment, txn_io};
use crate::storage::txn_index::AbortedTxn;
use crate::types::{LeaderEpoch, Offset};

/// How long the removal of a deleted log is put off because somebody is at work in its directory,
const RETRY_DELAY: Duration = Duration::from_millis(200);
/// and how often it is tried.
const MAX_REMOVALS: u32 = 10;

impl Log {
    /// Notes that `epoch` begins at `start_offset`: this node leads from there on, or follows who does. Durable on
    /// return, or, if there is no room, before the first batch of the epoch is written.
    pub fn assign_epoch(&self, epoch: LeaderEpoch, start_offset: Offset) -> Result<(), ChangeError> {
        self.change(|| match self.epochs.assign(epoch, start_offset) {
            Err(error) if is_full(&error) => {
                self.tell_full(&error);
                Ok(())
            }
            assigned => Ok(assigned.map(drop)?),
        })
    }

    /// Makes `to` the first readable offset (DeleteRecords, or a follower copying its leader). Never moves back; returns
    /// whether it moved. The caller keeps it at or below the high watermark.
    pub fn advance_log_start_offset(&self, to: Offset) -> Result<bool, ChangeError> {
        let mut writer = self.writer.lock();
        self.change(|| self.advance(&mut writer, to))
    }

    pub(super) fn advance(&self, writer: &mut Writer, to: Offset) -> Result<bool, ChangeError> {
        let log_end_offset = self.log_end_offset();
        if to > log_end_offset {
            return Err(ChangeError::OutOfRange { offset: to, log_end_offset });
        }
        if to <= self.log_start_offset() {
            return Ok(false);
        }
        self.log_start_offset.store(to.0, Ordering::Release);
        self.epochs.lock().truncate_from_start(to);
        self.flush_epochs_later();
        writer.producers.on_log_start_offset_incremented(to);
        self.publish_first_unstable(writer);
        Ok(true)
    }

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

    /// Starts a new segment unless the last one is empty. Returns the last one's base offset.
    pub fn roll(&self) -> Result<Offset, ChangeError> {
        let mut writer = self.writer.lock();
        self.change(|| {
            let active = self.active_segment();
            if active.size() == 0 && active.base_offset() == self.log_end_offset() {
                return Ok(active.base_offset());
            }
            Ok(self.roll_to(&mut writer, self.log_end_offset())?.base_offset())
        })
    }

    /// Flushes, trims and closes. Takes nothing afterwards, but can still be read. Once all logs of a directory were
    /// closed the clean-shutdown marker may be written.
    pub fn close(&self) -> Result<(), FlushError> {
        let _exchange = self.exchange.lock();
        let mut writer = self.writer.lock();
        match self.state.load(Ordering::Acquire) {
            OPEN => {}
            CLOSED | MOVED => return Ok(()),
            _ => return Err(FlushError::offline()),
        }
        let result = self.close_files(&mut writer);
        match &result {
            Ok(()) => {}
            // The records are on disk; what is missing beside them the next start makes anew.
            Err(error) if is_full(error) => self.tell_full(error),
            Err(error) => self.disk_failed(error),
        }
        self.state.store(CLOSED, Ordering::Release);
        result.map_err(|error| FlushError::Failed(Arc::new(error)))
    }

    fn close_files(&self, writer: &mut Writer) -> io::Result<()> {
        if !writer.has_changed {
            self.finish_exchanges()?;
            // Segments may have been deleted nevertheless.
            if !known_bugs::is_back(KnownBug::DeletedNamesNotSynced) {
                self.sync_new_names()?;
            }
            return self.epochs.flush();
        }
        let active = self.active_segment();
        let mut lacking = None;
        let mut unless_full = |result: io::Result<()>| match result {
            Err(error) if is_full(&error) => {
                lacking = Some(error);
                Ok(())
            }
            result => result,
        };
        unless_full(self.finish_exchanges())?;
        unless_full(active.seal().map_err(IndexError::into_io))?;
        active.end_reserving()?;
        let snapshot = writer.producers.take_snapshot().and_then(|snapshot| match snapshot {
            Some(snapshot) => snapshot.sync_data(),
            // That of a roll, which nobody may have come to sync.
            None => writer.producers.sync_latest_snapshot(),
        });
        unless_full(snapshot)?;
        unless_full(self.epochs.flush())?;
        self.has_unsynced_names.store(true, Ordering::Release);
        self.sync_below(self.log_end_offset())?;
        active.sync_all()?;
        lacking.map_or(Ok(()), Err)
    }

    /// Takes the log out of use and renames its directory to `topic-partition.uuid-delete`; `file.delete.delay.ms` later
    /// its files are removed. Reads that are under way finish. Returns the new directory.
    pub fn delete(&self) -> io::Result<PathBuf> {
        let deleted = match self.close_as(DirectoryKind::Deleted) {
            Err(error) if is_full(&error) => {
                self.tell_full(&error);
                return self.remove_now();
            }
            deleted => deleted?,
        };
        let delay = Duration::from_millis(self.config.load().file_delete_delay_ms.max(0) as u64);
        self.remove_dir_later(deleted.clone(), delay, MAX_REMOVALS);
        Ok(deleted)
    }

    /// Removes the directory of the deleted log. Whoever is at work in it ends soon, as the log is closed, but may make a file
    /// until then: a cleaning is waited for, and a directory in which something appeared is removed again.
    fn remove_dir_later(&self, path: PathBuf, delay: Duration, tries: u32) {
        let (this, disk) = (self.this.clone(), self.context.disk.clone());
        self.context.background.run_after(delay, move || {
            let log = this.upgrade();
            if let Some(log) = log.as_ref().filter(|log| log.cleaning.is_running()) {
                return log.remove_dir_later(path, RETRY_DELAY, tries);
            }
            let Err(error) = disk.remove_dir_all(&path) else { return };
            let is_gone = error.kind() == io::ErrorKind::NotFound && disk.exists(&path).is_ok_and(|exists| !exists);
            let is_changing = matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::DirectoryNotEmpty);
            match log {
                _ if is_gone => {}
                Some(log) if is_changing && tries > 1 => log.remove_dir_later(path, RETRY_DELAY, tries - 1),
                // The next start of the node tries again.
                _ => error!(dir = %path.display(), %error, "cannot remove the directory of a deleted partition"),
            }
        });
    }

    /// Removes the directory of a log that was closed: there is no room for another name. What says whose it is goes last, so
    /// that what a crash leaves is not taken for a log of a topic of the same name.
    fn remove_now(&self) -> io::Result<PathBuf> {
        let (disk, dir) = (&self.context.disk, self.dir.path());
        // Who writes them would make files.
        let _epochs = self.epochs.keep_file();
        for entry in disk.list(&dir)? {
            if entry.name != partition_metadata::FILE_NAME {
                ignore_missing(disk.remove_file(&dir.join(&entry.name)))?;
            }
        }
        disk.sync_dir(&dir)?;
        let mut tries = 1..=MAX_REMOVALS;
        while let Err(error) = disk.remove_dir_all(&dir) {
            let is_changing = matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::DirectoryNotEmpty);
            if !is_changing || tries.next().is_none() {
                return Err(error);
            }
            // A cleaning finds out soon that the log is closed.
            std::thread::sleep(RETRY_DELAY);
        }
        if let Some(parent) = dir.parent() {
            disk.sync_dir(parent)?;
        }
        Ok(dir)
    }

    /// Takes the log out of use and renames its directory to `topic-partition.uuid-stray`, for a person to look at.
    pub fn set_aside(&self) -> io::Result<PathBuf> {
        self.close_as(DirectoryKind::Stray)
    }

    fn close_as(&self, kind: DirectoryKind) -> io::Result<PathBuf> {
        let _exchange = self.exchange.lock();
        let _writer = self.writer.lock();
        if !self.is_moved() {
            self.state.store(CLOSED, Ordering::Release);
        }
        let name = directory_name::name_for(&self.topic_partition, kind).to_string();
        let renamed = self.dir.path().with_file_name(name);
        self.rename_dir(&renamed)?;
        Ok(renamed)
    }

    /// Gives the directory another name. Durable on return.
    pub(in crate::storage) fn rename_dir(&self, to: &Path) -> io::Result<()> {
        {
            // Whoever writes them has looked up the directory: another partition of this name may be there next.
            let _epochs = self.epochs.keep_file();
            self.dir.rename(&*self.context.disk, to)?;
        }
        match to.parent() {
            Some(parent) => self.context.disk.sync_dir(parent),
            None => Ok(()),
        }
    }

    // --- the parts, under the lock ---------------------------------------------------------------------------------

    /// Runs `act` unless the log is offline; an error of the disk in it takes it there. Where there is no room, `act` leaves
    /// the log as it was, or calls the error another one ([`is_half_done`]).
    pub(super) fn change<T>(&self, act: impl FnOnce() -> Result<T, ChangeError>) -> Result<T, ChangeError> {
        match self.state.load(Ordering::Acquire) {
            OPEN => {}
            MOVED => return Err(ChangeError::Moved),
            _ => return Err(ChangeError::Offline),
        }
        act().map_err(|error| match error {
            ChangeError::Io(error) => self.refused(error),
            error => error,
        })
    }

    /// An error of the disk in a change: if it has no room the log is what it was, else it has failed.
    pub(super) fn refused(&self, error: io::Error) -> ChangeError {
        if is_full(&error) && !known_bugs::is_back(KnownBug::NoRoomFails) {
            self.tell_full(&error);
            return ChangeError::NoRoom(error);
        }
        self.disk_failed(&error);
        ChangeError::Io(error)
    }

    /// Seals the last segment and adds a new one for records from `offset` on.
    pub(super) fn roll_to(&self, writer: &mut Writer, offset: Offset) -> io::Result<Arc<LogSegment>> {
        let base_offset = offset.max(self.log_end_offset());
        let old = self.active_segment();
        if old.base_offset() == base_offset {
            return Ok(old);
        }
        old.seal().map_err(IndexError::into_io)?;
        old.end_reserving()?;
        self.roll_from(writer, &old, base_offset).inspect_err(|_| old.resume_reserving())
    }

    fn roll_from(&self, writer: &mut Writer, old: &LogSegment, base_offset: Offset) -> io::Result<Arc<LogSegment>> {
        if self.config.load().cleanup_policy.compact {
            // Else a power loss might take its end and leave what follows. Recovery would not know that gap from one that
            // compaction has made.
            old.sync_all().and_then(|()| self.sync_new_names()).map_err(is_half_done)?;
        }
        let new = self.create_segment(base_offset)?;
        writer.producers.update_map_end_offset(base_offset);
        let snapshot = writer.producers.take_snapshot().inspect_err(|_| self.discard_segment(base_offset))?;
        Ok(self.begin_segment(writer, new, snapshot))
    }

    /// As [`Self::roll_to`], for a last segment that is about to be deleted, on a disk that is full: it is not completed,
    /// and the producers' state may be missing until the next roll or close. After a crash before that it is what the
    /// batches left tell.
    pub(super) fn replace_last(&self, writer: &mut Writer) -> io::Result<Arc<LogSegment>> {
        let base_offset = self.log_end_offset();
        let old = self.active_segment();
        old.end_reserving()?;
        let new = self.create_segment(base_offset).inspect_err(|_| old.resume_reserving())?;
        writer.producers.update_map_end_offset(base_offset);
        let snapshot = writer.producers.take_snapshot().unwrap_or_default();
        Ok(self.begin_segment(writer, new, snapshot))
    }

    fn create_segment(&self, base_offset: Offset) -> io::Result<Arc<LogSegment>> {
        let created = LogSegment::create(&self.context.files, &self.dir, base_offset);
        created.map(Arc::new).inspect_err(|_| self.discard_segment(base_offset))
    }

    /// Removes what was made of a segment that did not come to be. What is left does no harm: it is empty.
    fn discard_segment(&self, base_offset: Offset) {
        for kind in [FileKind::Log, FileKind::OffsetIndex, FileKind::TimeIndex] {
            let path = FileName::new(base_offset, kind).path_in(&self.dir.path());
            let _ = self.context.disk.remove_if_exists(&path);
        }
    }

    /// Has a new segment written to from now on.
    fn begin_segment(
        &self,
        writer: &mut Writer,
        new: Arc<LogSegment>,
        snapshot: Option<Arc<dyn DiskFile>>,
    ) -> Arc<LogSegment> {
        let base_offset = new.base_offset();
        self.start_writing(writer, 0);
        self.has_unsynced_names.store(true, Ordering::Release);

        let mut segments = Vec::clone(&self.segments.load());
        segments.push(new.clone());
        self.segments.store(Arc::new(segments));
        self.publish_end(LogOffsetMetadata {
            message_offset: self.log_end_offset(),
            segment_base_offset: base_offset,
            relative_position_in_segment: 0,
        });
        self.finish_roll_later(new.clone(), snapshot);
        new
    }

    /// The last segment, `size` bytes long, is written to from now on.
    fn start_writing(&self, writer: &mut Writer, size: u64) {
        writer.has_changed = true;
        writer.active = ActiveSegment::new(self.context.clock.now_ms(), &self.config.load(), size);
    }

    /// What a roll leaves for a thread that may wait for the disk.
    fn finish_roll_later(&self, new: Arc<LogSegment>, snapshot: Option<Arc<dyn DiskFile>>) {
        let this = self.this.clone();
        self.context.background.run(Lane::Housekeeping, move || {
            let Some(log) = this.upgrade().filter(|log| !log.is_offline()) else {
                return;
            };
            match log.finish_roll(&new, snapshot) {
                Ok(()) => {}
                Err(error) if lacks_descriptor(&error) => log.tell_full(&error),
                Err(error) => log.disk_failed(&error),
            }
        });
    }

    fn finish_roll(&self, new: &LogSegment, snapshot: Option<Arc<dyn DiskFile>>) -> io::Result<()> {
        let config = self.config.load();
        if config.preallocate {
            // A hint: a disk too full for it may yet take the records.
            let _ = new.reserve(config.segment_bytes.max(0) as u64);
        }
        match snapshot.map_or(Ok(()), |snapshot| snapshot.sync_data()) {
            // A start can do without.
            Err(error) if is_full(&error) => self.tell_full(&error),
            synced => synced?,
        }
        ignore_missing(self.sync_below(new.base_offset()))
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
        if !removed.is_empty() {
            self.remove_segments(writer, removed)?;
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
        active.end_before(None);
        active.resume_reserving();
        self.start_writing(writer, position);
        self.epochs.lock().truncate_from_end(end);
        self.flush_epochs_later();
        self.reload_producers(writer, end)
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

    fn start_anew(&self, writer: &mut Writer, offset: Offset) -> Result<(), ChangeError> {
        if !(Offset(0)..=MAX_BASE_OFFSET).contains(&offset) {
            return Err(ChangeError::OutOfRange { offset, log_end_offset: self.log_end_offset() });
        }
        // Before there is a segment at `offset`: a crash may bring back old ones beside it, and they may reach beyond.
        self.truncate_commits(offset, false);
        let log_start_offset = Offset(self.log_start_offset.fetch_min(offset.0, Ordering::AcqRel));
        let mut removed = Vec::clone(&self.segments.load());
        let same = removed.iter().position(|segment| segment.base_offset() == offset).map(|at| removed.remove(at));
        let made = self.correct_checkpoints().and_then(|()| match &same {
            // It has the name of the new one. Nobody asks for what is in it, so that it is emptied.
            Some(_) => LogSegment::create(&self.context.files, &self.dir, offset).map(Arc::new).map_err(is_half_done),
            None => self.create_segment(offset),
        });
        let new = made.inspect_err(|_| {
            // Nothing is gone yet.
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
        // A flush of what was there before may have ended meanwhile.
        self.truncate_commits(offset, false);
        self.start_writing(writer, 0);
        if is_emptied {
            // Else a crash might bring back a part of what was in it, behind what is appended.
            new.written_by_others();
            new.sync_all()?;
        }
        self.remove_segments(writer, removed)?;
        self.context.disk.sync_dir(&self.dir.path())?;
        self.epochs.lock().clear();
        match self.epochs.flush() {
            // Written before the first batch is.
            Err(error) if is_full(&error) => self.tell_full(&error),
            flushed => flushed?,
        }
        writer.producers.truncate_fully_and_start_at(offset)?;
        self.publish_first_unstable(writer);
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

    fn remove_segments(&self, writer: &mut Writer, removed: Vec<Arc<LogSegment>>) -> io::Result<()> {
        self.give_up_all(GivenUp::with_snapshots(writer, removed))
    }

    /// Renames the files of segments that are no longer in the list, and removes them after `file.delete.delay.ms`. Where
    /// there is no room for the new names, removes them now, as a full disk needs it most.
    pub(super) fn give_up_all(&self, removed: Vec<GivenUp>) -> io::Result<()> {
        let (mut segments, mut snapshots) = (Vec::new(), Vec::new());
        for GivenUp { segment, snapshot } in removed {
            self.give_up(&segment)?;
            segments.push(segment);
            if let Some(name) = snapshot {
                snapshots.extend(self.give_up_snapshot(name)?);
            }
        }
        // Behind the renames: a flush that comes in between would sync some of them, and leave nothing to do for the rest.
        self.has_unsynced_names.store(true, Ordering::Release);
        self.remove_later(segments, snapshots);
        Ok(())
    }

    /// Gives the files of a segment the names of deleted ones, or removes them if there is no room for that.
    pub(super) fn give_up(&self, segment: &LogSegment) -> io::Result<()> {
        match segment.rename(FileState::Deleted) {
            Err(error) if is_full(&error) && !known_bugs::is_back(KnownBug::NoRoomFails) => {
                self.tell_full(&error);
                segment.remove().map_err(is_half_done)
            }
            renamed => renamed,
        }
    }

    /// As [`Self::give_up`], a producer snapshot. Returns the name that is to be removed later.
    pub(super) fn give_up_snapshot(&self, name: FileName) -> io::Result<Option<FileName>> {
        let (disk, dir) = (&self.context.disk, self.dir.path());
        let deleted = name.with_state(FileState::Deleted);
        match ignore_missing(disk.rename(&name.path_in(&dir), &deleted.path_in(&dir))) {
            Err(error) if is_full(&error) => {
                disk.remove_if_exists(&name.path_in(&dir)).map_err(is_half_done)?;
                Ok(None)
            }
            renamed => renamed.map(|()| Some(deleted)),
        }
    }

    fn remove_later(&self, removed: Vec<Arc<LogSegment>>, snapshots: Vec<FileName>) {
        if removed.is_empty() {
            return;
        }
        let delay = Duration::from_millis(self.config.load().file_delete_delay_ms.max(0) as u64);
        let (disk, dir) = (self.context.disk.clone(), self.dir.clone());
        self.context.background.run_after(delay, move || {
            let removed = removed.iter().try_for_each(|segment| segment.remove());
            let removed = removed.and_then(|()| remove_files(&*disk, &dir, &snapshots));
            if let Err(error) = removed {
                // The next start of the node tries again.
                error!(%error, "cannot remove the files of deleted segments");
            }
        });
    }

    /// The epochs' file may have too many entries, so it need not be written at once.
    fn flush_epochs_later(&self) {
        let this = self.this.clone();
        self.context.background.run(Lane::Housekeeping, move || {
            let Some(log) = this.upgrade().filter(|log| !log.is_offline()) else {
                return;
            };
            match ignore_missing(log.epochs.flush()) {
                Ok(()) => {}
                // Tried again with the next change, or when the log is closed.
                Err(error) if is_full(&error) => log.tell_full(&error),
                Err(error) => log.disk_failed(&error),
            }
        });
    }
}

/// From where on batches say who their producers are: the beginning of the segment in which the log starts.
pub(in crate::storage) fn producers_start(segments: &[Arc<LogSegment>], log_start_offset: Offset) -> Offset {
    let first = segments.partition_point(|segment| segment.base_offset() <= log_start_offset).saturating_sub(1);
    segments.get(first).map_or(log_start_offset, |segment| segment.base_offset().min(log_start_offset))
}

/// A segment that is no longer in the list, and whose files are to go.
pub(super) struct GivenUp {
    segment: Arc<LogSegment>,
    /// That of the producers at its base offset, of which they know no longer.
    snapshot: Option<FileName>,
}

impl GivenUp {
    pub fn with_snapshots(writer: &mut Writer, removed: Vec<Arc<LogSegment>>) -> Vec<GivenUp> {
        let given_up = |segment: Arc<LogSegment>| {
            let snapshot = writer.producers.remove_snapshot(segment.base_offset());
            GivenUp { segment, snapshot }
        };
        removed.into_iter().map(given_up).collect()
    }
}

/// Takes over the producers' batches from where their state ends up to `end`. `on_aborted` is told of the aborted
/// transactions, with the segment in which their marker stands.
pub(in crate::storage) fn replay_producers(
    segments: &[Arc<LogSegment>],
    producers: &mut ProducerStateManager,
    end: Offset,
    mut on_aborted: impl FnMut(&LogSegment, &AbortedTxn) -> io::Result<()>,
) -> Result<(), ReadError> {
    let from = producers.map_end_offset();
    let first = segments.partition_point(|segment| segment.base_offset() <= from).saturating_sub(1);
    for segment in segments[first..].iter().filter(|segment| segment.base_offset() < end) {
        let size = segment.size();
        let Some(start) = segment.find(producers.map_end_offset(), size, Wait::ForDisk)? else {
            continue;
        };
        let file = segment.file()?;
        let mut batches = segment.readable(&*file, start.position, size, Wait::ForDisk);
        while let Some((position, frame)) = batches.next()? {
            if frame.base_offset() >= end {
                break;
            }
            if let Frame::Batch(header) = &frame
                && header.has_producer_id()
            {
                let body = match header.is_control() {
                    true => read_body(&*file, position, frame.size())?,
                    false => Vec::new(),
                };
                if let Some(aborted) = producer_batch(header, &body).and_then(|batch| producers.replay(&batch)) {
                    on_aborted(segment, &aborted)?;
                }
            }
            producers.update_map_end_offset(frame.last_offset().plus(1));
        }
    }
    producers.update_map_end_offset(end);
    Ok(())
}

/// A marker is a few bytes; whatever is longer is none.
const MAX_MARKER_SIZE: usize = 4096;

fn read_body(file: &dyn DiskFile, position: u64, size: usize) -> io::Result<Vec<u8>> {
    let mut body = vec![0; (size - HEADER_SIZE).min(MAX_MARKER_SIZE)];
    file.read_exact_at(&mut body, position + HEADER_SIZE as u64)?;
    Ok(body)
}

/// An error that comes when it is too late to leave all as it was: be it for want of room, the log fails.
pub(super) fn is_half_done(error: io::Error) -> io::Error {
    match is_full(&error) {
        true => io::Error::other(error),
        false => error,
    }
}

/// Removes files of a directory, by the name that it has now.
pub(super) fn remove_files(disk: &dyn Disk, dir: &Directory, names: &[FileName]) -> io::Result<()> {
    names.iter().try_for_each(|name| ignore_missing(disk.remove_file(&name.path_in(&dir.path()))))
}

/// For files that may be deleted meanwhile.
pub(in crate::storage) fn ignore_missing(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}
