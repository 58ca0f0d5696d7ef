//! What changes a log other than appends: epochs, the start, rolling, closing, deletion.
//!
//! All of it runs under the log's lock; [truncation](super::truncation) does, too. Retention, which may take long, has
//! [a way of its own](super::retention). Readers are shown a change before files are touched: first the bounds, then the
//! list of segments.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tracing::error;

use crate::storage::background::Lane;
use crate::storage::directory_name::{self, DirectoryKind};
use crate::storage::disk::{Disk, DiskFile, is_full, lacks_descriptor};
use crate::storage::file_cache::Directory;
use crate::storage::file_name::{FileKind, FileName, FileState};
use crate::storage::index_file::IndexError;
use crate::storage::known_bugs::{self, KnownBug};
use crate::storage::log::{
    ActiveSegment, CLOSED, ChangeError, FlushError, Log, LogOffsetMetadata, MOVED, OPEN, Writer,
};
use crate::storage::partition_metadata;
use crate::storage::segment::LogSegment;
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

    pub(super) fn create_segment(&self, base_offset: Offset) -> io::Result<Arc<LogSegment>> {
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
    pub(super) fn start_writing(&self, writer: &mut Writer, size: u64) {
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

    pub(super) fn remove_segments(&self, writer: &mut Writer, removed: Vec<Arc<LogSegment>>) -> io::Result<()> {
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
                // There is no name that tells a start of it: what is given up next must not go before it.
                let removed = segment.remove().and_then(|()| self.context.disk.sync_dir(&self.dir.path()));
                removed.map_err(is_half_done)
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
            // As long as some of them may come back, the names of the others tell that they were being deleted.
            let synced = ignore_missing(disk.sync_dir(&dir.path()));
            let removed = synced.and_then(|()| removed.iter().try_for_each(|segment| segment.remove()));
            let removed = removed.and_then(|()| remove_files(&*disk, &dir, &snapshots));
            if let Err(error) = removed {
                // The next start of the node tries again.
                error!(%error, "cannot remove the files of deleted segments");
            }
        });
    }

    /// The epochs' file may have too many entries, so it need not be written at once.
    pub(super) fn flush_epochs_later(&self) {
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
