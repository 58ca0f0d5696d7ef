//! Making records durable, alone or for all that wait at once (group commit).
//!
//! A flush syncs what was written between the recovery point and the log's end, without any lock, so appends and reads
//! go on meanwhile. One that fails is never repeated: the log fails, and all that waited learn of it.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use thiserror::Error;
use tracing::error;

use crate::storage::background::Lane;
use crate::storage::disk::lacks_descriptor;
use crate::storage::known_bugs::{self, KnownBug};
use crate::storage::log::{CorrectCheckpoints, Log, MOVED, OPEN};
use crate::types::Offset;

/// Why records are not durable.
#[derive(Clone, Debug, Error)]
pub enum FlushError {
    /// It is final: the log has failed, or was closed.
    #[error("records could not be made durable: {0}")]
    Failed(#[source] Arc<io::Error>),
    /// They are gone: the log was truncated below them meanwhile.
    #[error("the records were truncated before they were durable")]
    Truncated,
}

impl FlushError {
    pub(super) fn offline() -> FlushError {
        FlushError::Failed(Arc::new(io::Error::other("the log is offline")))
    }
}

/// Up to where records are to be durable: those that the log held then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlushPoint {
    pub offset: Offset,
    truncations: u64,
}

pub(super) type Done = Box<dyn FnOnce(Result<(), FlushError>) + Send>;

/// Those that wait for a flush.
#[derive(Default)]
pub(in crate::storage) struct Commits {
    is_running: bool,
    waiting: Vec<(Offset, Done)>,
    /// Counts truncations: a flush that one of them overtook says nothing about what was appended since.
    truncations: u64,
    /// See [`Log::hold_recovery_point`].
    is_held: bool,
}

impl Commits {
    pub(super) fn truncations(&self) -> u64 {
        self.truncations
    }

    pub(super) fn take(&mut self, is_served: impl Fn(Offset) -> bool) -> Vec<Done> {
        let (served, waiting) = std::mem::take(&mut self.waiting).into_iter().partition(|(up_to, _)| is_served(*up_to));
        self.waiting = waiting;
        let served: Vec<(Offset, Done)> = served;
        served.into_iter().map(|(_, done)| done).collect()
    }
}

impl Log {
    /// Makes everything below `up_to` durable; waits for the disk.
    pub fn flush(&self, up_to: Offset) -> Result<(), FlushError> {
        if self.recovery_point() >= up_to.min(self.log_end_offset()) && self.state.load(Ordering::Acquire) == OPEN {
            return Ok(());
        }
        self.flush_all()
    }

    /// All below `offset` that is there now.
    pub fn flush_point(&self, offset: Offset) -> FlushPoint {
        FlushPoint { offset, truncations: self.commits.lock().truncations }
    }

    /// Makes everything below `up_to` durable and then calls `done`, from a helper thread (or at once, if that is known
    /// already). One flush of a log runs at a time and serves all that wait.
    pub fn flush_then(&self, up_to: FlushPoint, done: impl FnOnce(Result<(), FlushError>) + Send + 'static) {
        let must_start = {
            let mut commits = self.commits.lock();
            // Looked at under the lock, or the flush that is just ending, or a truncation, might be missed.
            let is_gone = commits.is_held || commits.truncations != up_to.truncations;
            if is_gone || up_to.offset > self.log_end_offset() {
                drop(commits);
                return done(Err(FlushError::Truncated));
            }
            if self.recovery_point() >= up_to.offset {
                drop(commits);
                return done(Ok(()));
            }
            commits.waiting.push((up_to.offset, Box::new(done)));
            !std::mem::replace(&mut commits.is_running, true)
        };
        if must_start {
            self.run_commit();
        }
    }

    fn run_commit(&self) {
        // The caller holds the log, so it is there; and the job has to hold it, or those that wait would not be told.
        let Some(log) = self.this.upgrade() else {
            return;
        };
        self.context.background.run(Lane::Sync, move || log.commit());
    }

    /// One flush for all that wait; those that come meanwhile wait for the next one.
    fn commit(&self) {
        let panicking = Panicking(self);
        let result = self.flush_all();
        let (durable, failed, goes_on) = {
            let mut commits = self.commits.lock();
            let recovery_point = self.recovery_point();
            // Also after an error: closing the log has made them durable, perhaps.
            let durable = commits.take(|up_to| up_to <= recovery_point);
            let failed = if result.is_err() { commits.take(|_| true) } else { Vec::new() };
            commits.is_running = !commits.waiting.is_empty();
            (durable, failed, commits.is_running)
        };
        // Queued again, not looped, so that a busy log does not keep a thread from the others.
        if goes_on {
            self.run_commit();
        }
        std::mem::forget(panicking);
        tell(durable, &Ok(()));
        tell(failed, &result);
    }

    /// Makes all that is below the log's end now durable. Of a log that was moved it is, in the copy.
    pub(super) fn flush_all(&self) -> Result<(), FlushError> {
        match self.state.load(Ordering::Acquire) {
            OPEN => {}
            MOVED => return Ok(()),
            _ => return Err(FlushError::offline()),
        }
        self.sync_below(self.log_end_offset()).or_else(|error| {
            match lacks_descriptor(&error) {
                true => self.tell_full(&error),
                false => self.disk_failed(&error),
            }
            // Moved meanwhile: its files may be gone.
            match self.is_moved() {
                true => Ok(()),
                false => Err(FlushError::Failed(Arc::new(error))),
            }
        })
    }

    /// Makes all that is below `end` durable, as far as there is so much.
    pub(in crate::storage) fn sync_below(&self, end: Offset) -> io::Result<()> {
        let truncations = self.commits.lock().truncations;
        let end = end.min(self.log_end_offset());
        // Loaded after the end was: it is within.
        let segments = self.segments.load_full();
        let from = self.recovery_point();
        // One that ends there may have been repaired, or given another transaction index, since.
        let first = segments.partition_point(|segment| segment.base_offset() < from).saturating_sub(1);
        let (active, sealed) = segments[first..].split_last().expect("a log has a segment");
        for segment in sealed.iter().filter(|segment| segment.base_offset() < end) {
            if !known_bugs::is_back(KnownBug::SealedSegmentNotSynced) {
                segment.sync_all()?;
            }
        }
        if active.base_offset() < end {
            active.sync_log()?;
        }
        self.sync_new_names()?;
        self.last_flush_ms.store(self.context.clock.now_ms(), Ordering::Relaxed);
        self.raise_recovery_point(end, truncations);
        Ok(())
    }

    /// The recovery point, for a checkpoint that is about to be written.
    pub(in crate::storage) fn note_recovery_point(&self) -> Offset {
        let recovery_point = self.recovery_point();
        self.noted.recovery_point.fetch_max(recovery_point.0, Ordering::AcqRel);
        // A truncation from here on corrects what is written; one that came before did not know of it.
        recovery_point.min(self.recovery_point())
    }

    /// The log start offset, for a checkpoint that is about to be written.
    pub(in crate::storage) fn note_log_start_offset(&self) -> Offset {
        let log_start_offset = self.log_start_offset();
        self.noted.log_start_offset.fetch_max(log_start_offset.0, Ordering::AcqRel);
        log_start_offset.min(self.log_start_offset())
    }

    /// Says how to correct the checkpoints.
    pub(in crate::storage) fn on_shortened(&self, correct: CorrectCheckpoints) {
        let _ = self.noted.correct.set(correct);
    }

    /// Whether a checkpoint says that more is on disk, or that less is readable, than is.
    pub(in crate::storage) fn is_noted_wrong(&self) -> bool {
        self.recovery_point().0 < self.noted.recovery_point.load(Ordering::Acquire)
            || self.log_start_offset().0 < self.noted.log_start_offset.load(Ordering::Acquire)
    }

    /// The log was truncated. What is appended from here on may be torn by a crash: no checkpoint may call it flushed, nor
    /// deleted.
    pub(super) fn correct_checkpoints(&self) -> io::Result<()> {
        match self.noted.correct.get() {
            Some(correct) if self.is_noted_wrong() && !known_bugs::is_back(KnownBug::RecoveryPointNotLowered) => {
                correct()
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Makes the names of new files durable, and that those of deleted ones are gone. After an error every later call is an
    /// error, too: nobody knows any more which names are on disk.
    pub(in crate::storage) fn sync_new_names(&self) -> io::Result<()> {
        // Whoever finds nothing left to sync must not return before the one that does it.
        let mut has_failed = self.sync_names.lock();
        if *has_failed {
            return Err(io::Error::other("an earlier sync of the directory failed"));
        }
        if !self.has_unsynced_names.swap(false, Ordering::AcqRel) || known_bugs::is_back(KnownBug::NewNamesNotSynced) {
            return Ok(());
        }
        let sync = || self.context.disk.sync_dir(&self.dir.path());
        let synced = match known_bugs::is_back(KnownBug::FailedSyncRepeated) {
            true => sync().or_else(|_| sync()),
            false => sync(),
        };
        synced.inspect_err(|error| match error.kind() {
            // It was given another name just then, or is deleted. Nothing was synced.
            io::ErrorKind::NotFound => self.has_unsynced_names.store(true, Ordering::Release),
            _ if lacks_descriptor(error) => self.has_unsynced_names.store(true, Ordering::Release),
            _ => *has_failed = true,
        })
    }

    /// The log now ends at `log_end_offset`: what was durable above it no longer is, and who waits for more waits in vain. So
    /// does everybody if nothing `is_left` of what was there.
    pub(super) fn truncate_commits(&self, log_end_offset: Offset, is_left: bool) {
        let in_vain = {
            let mut commits = self.commits.lock();
            commits.truncations += 1;
            self.recovery_point.fetch_min(log_end_offset.0, Ordering::AcqRel);
            self.cleaning.truncate(log_end_offset);
            commits.take(|up_to| up_to > log_end_offset || !is_left)
        };
        tell(in_vain, &Err(FlushError::Truncated));
    }

    /// Keeps the recovery point where it is until what is returned goes. The log begins anew, and what was in it goes: a crash may
    /// leave some of that before the new beginning, and below the recovery point nobody would notice the gap. Nobody begins to
    /// wait for a flush meanwhile.
    pub(super) fn hold_recovery_point(&self) -> HeldRecoveryPoint<'_> {
        self.commits.lock().is_held = true;
        HeldRecoveryPoint(self)
    }

    /// Everything below `offset` is durable, as of a time when there had been so many truncations.
    pub(super) fn raise_recovery_point(&self, offset: Offset, truncations: u64) {
        let commits = self.commits.lock();
        if commits.truncations == truncations && !commits.is_held {
            self.recovery_point.fetch_max(offset.0, Ordering::AcqRel);
        }
    }

    /// `flush.messages` or `flush.ms` ask for a flush at this time.
    pub fn is_flush_due(&self, now_ms: i64) -> bool {
        let log_end_offset = self.log_end_offset();
        let since_ms = now_ms.saturating_sub(self.last_flush_ms.load(Ordering::Relaxed));
        let by_time = log_end_offset > self.recovery_point() && since_ms >= self.config.load().flush_ms;
        by_time || self.is_flush_due_below(log_end_offset)
    }

    /// `flush.messages` asks for a flush once records up to, without, `offset` are there.
    pub fn is_flush_due_below(&self, offset: Offset) -> bool {
        let unflushed = offset.0 - self.recovery_point().0;
        unflushed > 0 && unflushed >= self.config.load().flush_messages
    }
}

/// See [`Log::hold_recovery_point`].
pub(super) struct HeldRecoveryPoint<'a>(&'a Log);

impl Drop for HeldRecoveryPoint<'_> {
    fn drop(&mut self) {
        let mut commits = self.0.commits.lock();
        commits.is_held = false;
        commits.truncations += 1;
    }
}

/// Tells all of them, also if one panics.
pub(super) fn tell(waiting: Vec<Done>, result: &Result<(), FlushError>) {
    for done in waiting {
        if catch_unwind(AssertUnwindSafe(|| done(result.clone()))).is_err() {
            error!("one that waited for a flush has panicked");
        }
    }
}

/// Dropped by a flush that panics: nobody knows what it did. Whoever waits is not to wait for ever.
struct Panicking<'a>(&'a Log);

impl Drop for Panicking<'_> {
    fn drop(&mut self) {
        let error = Arc::new(io::Error::other("a flush has panicked"));
        self.0.disk_failed(&error);
        let waiting = {
            let mut commits = self.0.commits.lock();
            commits.is_running = false;
            commits.take(|_| true)
        };
        tell(waiting, &Err(FlushError::Failed(error)));
    }
}
