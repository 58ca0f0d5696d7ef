//! What compaction and its log know of each other: how far the log is cleaned, whether it is being cleaned now, and the
//! exchange of segments for cleaned ones.
//!
//! A cleaning reads sealed segments and writes `.cleaned` files beside them, without any lock. Whatever happens to the
//! log meanwhile is noticed when the result is to be put in place: if the log was closed or truncated, or a segment is
//! gone, then nothing is replaced. The exchange itself is safe at each step:
//!
//! | step | after a crash here, the next start |
//! |---|---|
//! | cleaned files written and synced | removes `.cleaned` |
//! | renamed to `.swap`, the last of them last; directory synced | removes `.cleaned` and `.swap` as long as one `.cleaned` is there, else completes the exchange |
//! | replaced segments renamed to `.deleted`; directory synced | completes the exchange |
//! | `.swap` renamed to the final names; directory synced | removes `.deleted` |
//! | `.deleted` removed after `file.delete.delay.ms`, when nobody reads them | |
//!
//! Where there is no room for the first names, nothing is exchanged. Later ones can be done without: segments that are replaced
//! are removed at once then, and the cleaned one is used under its `.swap` names, until there is room for the final ones.
//!
//! Appends go on all the while: they only wait for the moment in which the list of segments is exchanged.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use tracing::error;

use crate::storage::disk::is_full;
use crate::storage::file_name::{FileName, FileState};
use crate::storage::known_bugs::{self, KnownBug};
use crate::storage::log::change::{is_half_done, remove_files};
use crate::storage::log::{ChangeError, Log, OPEN, ReadError};
use crate::storage::segment::LogSegment;
use crate::types::Offset;

/// How long the removal of a segment is put off, at least, because somebody reads it.
const READ_DELAY: Duration = Duration::from_secs(1);

/// See the module's documentation.
pub(in crate::storage) struct Cleaning {
    /// Everything below was cleaned; -1: nothing ever was.
    cleaned_offset: AtomicI64,
    is_running: AtomicBool,
    /// How many exchanges have begun.
    exchanges: AtomicU64,
    /// The log is being moved to another directory: it is not to be cleaned.
    pub is_paused: AtomicBool,
    /// It cannot be cleaned; somebody was told.
    pub is_uncleanable: AtomicBool,
    /// There was no room for the cleaned segments; somebody was told.
    pub lacks_room: AtomicBool,
}

impl Cleaning {
    pub fn new() -> Cleaning {
        Cleaning {
            cleaned_offset: AtomicI64::new(-1),
            is_running: AtomicBool::new(false),
            exchanges: AtomicU64::new(0),
            is_paused: AtomicBool::new(false),
            is_uncleanable: AtomicBool::new(false),
            lacks_room: AtomicBool::new(false),
        }
    }

    /// Up to where the log was cleaned.
    pub fn cleaned_offset(&self) -> Option<Offset> {
        Some(Offset(self.cleaned_offset.load(Ordering::Acquire))).filter(|offset| offset.0 >= 0)
    }

    pub fn set_cleaned_offset(&self, offset: Offset) {
        self.cleaned_offset.store(offset.0, Ordering::Release);
    }

    /// The log now ends at `offset`.
    pub(super) fn truncate(&self, offset: Offset) {
        self.cleaned_offset.fetch_min(offset.0, Ordering::AcqRel);
    }

    /// Takes the log for a cleaning; only one gets it.
    pub fn try_begin(&self) -> Option<Running<'_>> {
        let is_free = self.is_running.compare_exchange(false, true, Ordering::SeqCst, Ordering::SeqCst).is_ok();
        is_free.then(|| Running(self))
    }

    pub fn is_running(&self) -> bool {
        self.is_running.load(Ordering::Acquire)
    }
}

/// A cleaning that runs; it ends with its drop.
pub(in crate::storage) struct Running<'a>(&'a Cleaning);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.is_running.store(false, Ordering::Release);
    }
}

impl Log {
    /// Keeps compaction from the log, or lets it go on. Returns whether it is at work, and must be waited for.
    pub fn pause_cleaning(&self, paused: bool) -> bool {
        self.cleaning.is_paused.store(paused, Ordering::SeqCst);
        self.cleaning.is_running.load(Ordering::SeqCst)
    }

    /// Up to where compaction came; `None` if it never took place.
    pub fn cleaned_offset(&self) -> Option<Offset> {
        self.cleaning.cleaned_offset()
    }

    /// What the checkpoint says of where compaction came.
    pub(in crate::storage) fn restore_cleaned_offset(&self, offset: Offset) {
        self.cleaning.set_cleaned_offset(offset);
    }

    /// Notes up to where the log is clean, unless it was truncated below meanwhile.
    pub(in crate::storage) fn note_cleaned(&self, offset: Offset, truncations: u64) {
        let commits = self.commits.lock();
        if commits.truncations() == truncations {
            self.cleaning.set_cleaned_offset(offset);
        }
    }

    /// Does `act`, and again if a file is missing and segments were exchanged since: the files of one that was replaced
    /// twice over make room for others.
    pub(super) fn unless_exchanged<T>(&self, act: impl Fn() -> Result<T, ReadError>) -> Result<T, ReadError> {
        loop {
            let exchanges = self.cleaning.exchanges.load(Ordering::Acquire);
            match act() {
                Err(ReadError::Io(error))
                    if error.kind() == io::ErrorKind::NotFound
                        && self.cleaning.exchanges.load(Ordering::Acquire) != exchanges => {}
                result => return result,
            }
        }
    }

    /// How often the log was truncated. A cleaning that spans a truncation is void.
    pub(in crate::storage) fn truncations(&self) -> u64 {
        self.commits.lock().truncations()
    }

    /// As [`Self::truncations`], but not in the midst of one: that is waited for.
    pub(in crate::storage) fn truncations_done(&self) -> u64 {
        let _exchange = self.exchange.lock();
        self.truncations()
    }

    /// Puts `cleaned`, which was written from `sources` and is on disk, in their place. Returns false, and changes
    /// nothing, if the log has changed since `truncations` was read so that this would be wrong.
    pub(in crate::storage) fn replace_segments(
        &self,
        cleaned: &Arc<LogSegment>,
        sources: &[Arc<LogSegment>],
        truncations: u64,
    ) -> Result<bool, ChangeError> {
        // Nobody else removes segments meanwhile; a roll may add some.
        let _exchange = self.exchange.lock();
        if self.state.load(Ordering::Acquire) != OPEN || self.truncations() != truncations {
            return Ok(false);
        }
        let segments = self.segments.load_full();
        let Some(first) = segments.iter().position(|segment| Arc::ptr_eq(segment, &sources[0])) else {
            return Ok(false);
        };
        let are_there = segments[first..].iter().zip(sources).filter(|(a, b)| Arc::ptr_eq(a, b)).count();
        if are_there != sources.len() || first + sources.len() >= segments.len() {
            return Ok(false);
        }
        self.exchange_files(cleaned, sources, first).map_err(|error| self.refused(error))?;
        Ok(true)
    }

    /// After an error for want of room nothing was exchanged.
    fn exchange_files(&self, cleaned: &Arc<LogSegment>, sources: &[Arc<LogSegment>], first: usize) -> io::Result<()> {
        let (disk, dir) = (&self.context.disk, self.dir.path());
        self.finish_exchanges()?;
        self.cleaning.exchanges.fetch_add(1, Ordering::AcqRel);
        if known_bugs::is_back(KnownBug::SourcesBeforeSwap) {
            sources.iter().try_for_each(|segment| segment.rename(FileState::Deleted))?;
        }
        if let Err(error) = cleaned.rename(FileState::Swap) {
            // It must not look complete: first goes what has its new name already.
            cleaned
                .remove_log()
                .and_then(|()| disk.sync_dir(&dir))
                .and_then(|()| cleaned.remove())
                .map_err(is_half_done)?;
            return Err(error);
        }
        disk.sync_dir(&dir).map_err(is_half_done)?;

        // Nobody begins to read, or to sync, what is given up now.
        let snapshots = {
            let mut writer = self.writer.lock();
            // First this, as it tells places in the replaced files.
            self.recent.lock().clear();
            let mut segments = Vec::clone(&self.segments.load());
            segments.splice(first..first + sources.len(), [cleaned.clone()]);
            self.segments.store(Arc::new(segments));
            let gone =
                sources[1..].iter().filter_map(|segment| writer.producers.remove_snapshot(segment.base_offset()));
            gone.collect::<Vec<_>>()
        };
        // Whoever has looked at the list before finds out.
        self.cleaning.exchanges.fetch_add(1, Ordering::AcqRel);
        self.forget_replaced(sources);
        sources.iter().try_for_each(|segment| self.give_up(segment))?;
        disk.sync_dir(&dir).map_err(is_half_done)?;
        self.finish_exchanges().or_else(|error| match is_full(&error) {
            // It can be used as it is. The next exchange, a closed log or the next start completes this one.
            true => {
                self.tell_full(&error);
                Ok(())
            }
            false => Err(error),
        })?;
        let mut deleted = Vec::new();
        for name in snapshots {
            deleted.extend(self.give_up_snapshot(name)?);
        }
        disk.sync_dir(&dir).map_err(is_half_done)?;
        let delay = Duration::from_millis(self.config.load().file_delete_delay_ms.max(0) as u64);
        self.remove_replaced_later(sources.to_vec(), deleted, delay);
        Ok(())
    }

    /// Gives segments their final names that have been put in place and did not get them for want of room. Durable on return.
    pub(super) fn finish_exchanges(&self) -> io::Result<()> {
        let segments = self.segments.load();
        let mut unfinished = segments.iter().filter(|segment| segment.is_swap()).peekable();
        if unfinished.peek().is_none() {
            return Ok(());
        }
        unfinished.try_for_each(|segment| segment.rename(FileState::InUse))?;
        self.context.disk.sync_dir(&self.dir.path()).map_err(is_half_done)
    }

    /// Removes what an earlier exchange has left under the names that these segments get now.
    fn forget_replaced(&self, sources: &[Arc<LogSegment>]) {
        let mut replaced = self.replaced.lock();
        replaced.retain(|old| {
            let Some(old) = old.upgrade() else { return false };
            let is_in_the_way = sources.iter().any(|segment| segment.base_offset() == old.base_offset());
            if is_in_the_way && let Err(error) = old.remove() {
                error!(partition = %self.topic_partition, %error, "cannot remove the files of a replaced segment");
            }
            !is_in_the_way
        });
        replaced.extend(sources.iter().map(Arc::downgrade));
    }

    fn remove_replaced_later(&self, mut segments: Vec<Arc<LogSegment>>, snapshots: Vec<FileName>, delay: Duration) {
        let (this, disk, dir) = (self.this.clone(), self.context.disk.clone(), self.dir.clone());
        self.context.background.run_after(delay, move || {
            let read = segments.extract_if(.., |segment| Arc::strong_count(segment) > 1);
            let read: Vec<_> = read.collect();
            let removed = segments.iter().try_for_each(|segment| segment.remove());
            let removed = removed.and_then(|()| remove_files(&*disk, &dir, &snapshots));
            if let Err(error) = removed {
                // The next start of the node tries again.
                error!(%error, "cannot remove the files of replaced segments");
            }
            if !read.is_empty()
                && let Some(log) = this.upgrade()
            {
                log.remove_replaced_later(read, Vec::new(), delay.max(READ_DELAY));
            }
        });
    }
}
