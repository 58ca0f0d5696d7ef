//! `LogDir`: one log directory, its files in the root, and whether it can be used.

use std::collections::BTreeMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash as _, Hasher as _};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use parking_lot::Mutex;
use tracing::{debug, error, info};

use crate::clock::Clock;
use crate::storage::checkpoint::{
    CLEANER_OFFSETS, CleanShutdownFile, HIGH_WATERMARKS, LOG_START_OFFSETS, OffsetCheckpointFile, RECOVERY_POINTS,
};
use crate::storage::dir_lock::{DirLock, LockError};
use crate::storage::disk::{Disk, Shortage, is_disk_failure, is_full};
use crate::storage::log::LogContext;
use crate::types::{DirectoryId, Offset, TopicPartition};

/// What is told of a directory without room is not told more often than this.
const TELL_INTERVAL_MS: i64 = 60_000;
/// A directory has room again when nothing was refused for so long,
const QUIET_MS: i64 = 2_000;
/// and so much is free.
const MIN_ROOM_BYTES: u64 = 1 << 20;

/// Whether a directory lacks room, or descriptors for its files.
struct Fullness {
    lacks: Option<Shortage>,
    /// When something was refused last.
    refused_ms: i64,
    told_ms: i64,
    is_told: bool,
}

impl Default for Fullness {
    fn default() -> Fullness {
        Fullness { lacks: None, refused_ms: 0, told_ms: i64::MIN, is_told: false }
    }
}

/// A log directory.
pub struct LogDir {
    disk: Arc<dyn Disk>,
    pub path: PathBuf,
    pub id: DirectoryId,
    is_online: AtomicBool,
    is_cordoned: AtomicBool,
    full: Mutex<Fullness>,
    clock: Arc<dyn Clock>,
    lock: Mutex<Option<DirLock>>,
    /// How many logs are open here, or are being made.
    pub log_count: AtomicUsize,
    /// The checkpoints may name logs that are gone.
    pub has_stale_checkpoints: AtomicBool,
    pub recovery_points: Checkpoint,
    pub log_start_offsets: Checkpoint,
    pub high_watermarks: Checkpoint,
    pub cleaner_offsets: Checkpoint,
    marker: CleanShutdownFile,
    previous_broker_epoch: Mutex<Option<i64>>,
    /// What is on disk needs no recovery once all logs are closed: all have been opened, and none failed to close.
    is_clean: AtomicBool,
}

impl LogDir {
    pub fn new(context: &LogContext, path: PathBuf, id: DirectoryId) -> LogDir {
        let disk = context.disk.clone();
        let checkpoint = |name| Checkpoint::new(OffsetCheckpointFile::new(disk.clone(), &path, name));
        LogDir {
            is_online: AtomicBool::new(true),
            is_cordoned: AtomicBool::new(false),
            full: Mutex::default(),
            clock: context.clock.clone(),
            lock: Mutex::new(None),
            log_count: AtomicUsize::new(0),
            has_stale_checkpoints: AtomicBool::new(false),
            recovery_points: checkpoint(RECOVERY_POINTS),
            log_start_offsets: checkpoint(LOG_START_OFFSETS),
            high_watermarks: checkpoint(HIGH_WATERMARKS),
            cleaner_offsets: checkpoint(CLEANER_OFFSETS),
            marker: CleanShutdownFile::new(disk.clone(), &path),
            previous_broker_epoch: Mutex::new(None),
            is_clean: AtomicBool::new(false),
            id,
            disk,
            path,
        }
    }

    /// Makes the directory if it is not there, locks it, and reads its marker.
    pub fn prepare(&self) -> Result<(), LockError> {
        let io = |source| LockError::Io { dir: self.path.clone(), source };
        let exists = self.disk.exists(&self.path).map_err(io)?;
        if !exists {
            self.disk.create_dir_all(&self.path).map_err(io)?;
        }
        let parent = self.path.parent().filter(|parent| !parent.as_os_str().is_empty());
        match self.disk.sync_dir(parent.unwrap_or(Path::new("."))) {
            // Whoever made it was killed, perhaps, before its name was on disk. But what is above it need not be ours.
            Err(error) if exists && !is_disk_failure(&error) => {
                debug!(dir = %self.path.display(), %error, "cannot sync the directory above")
            }
            result => result.map_err(io)?,
        }
        *self.lock.lock() = Some(DirLock::acquire(&*self.disk, &self.path)?);
        *self.previous_broker_epoch.lock() = self.marker.read_broker_epoch();
        Ok(())
    }

    /// Whether it is still there. `Ok` as well when it is not in use (any more).
    pub fn check(&self) -> io::Result<()> {
        self.lock.lock().as_ref().map_or(Ok(()), |lock| lock.check(&*self.disk))
    }

    pub fn is_online(&self) -> bool {
        self.is_online.load(Ordering::Acquire)
    }

    /// There was no room for something. Told to the operator once until there is, and once a minute at most.
    pub fn tell_full(&self, error: &io::Error) {
        let now_ms = self.clock.now_ms();
        let mut full = self.full.lock();
        let Some(shortage) = Shortage::of(error) else { return };
        full.refused_ms = now_ms;
        if full.lacks.replace(shortage) == Some(shortage) || now_ms.saturating_sub(full.told_ms) < TELL_INTERVAL_MS {
            return;
        }
        full.told_ms = now_ms;
        full.is_told = true;
        let dir = self.path.display();
        match shortage {
            Shortage::Room => {
                error!(%dir, %error, "log directory is full: records are refused until there is room; what is \
                there can be read and deleted")
            }
            Shortage::Descriptors => {
                error!(%dir, %error, "no file can be opened (ulimit -n): records are refused until one can be");
            }
        }
    }

    /// Something was refused, and there was no room since.
    pub fn is_full(&self) -> bool {
        self.full.lock().lacks.is_some()
    }

    /// Whether there is room again, now, for the first time since it was full.
    pub fn has_regained_room(&self) -> bool {
        let now_ms = self.clock.now_ms();
        let mut full = self.full.lock();
        let Some(shortage) = full.lacks else { return false };
        if now_ms.saturating_sub(full.refused_ms) < QUIET_MS {
            return false;
        }
        let usable = self.disk.space(&self.path).map_or(u64::MAX, |space| space.usable);
        let lacks_still = match shortage {
            Shortage::Room => usable < MIN_ROOM_BYTES,
            Shortage::Descriptors => self.disk.list(&self.path).is_err_and(|error| is_full(&error)),
        };
        if lacks_still {
            return false;
        }
        full.lacks = None;
        if std::mem::take(&mut full.is_told) {
            match shortage {
                Shortage::Room => info!(dir = %self.path.display(), usable, "log directory has room again"),
                Shortage::Descriptors => info!(dir = %self.path.display(), "files can be opened again"),
            }
        }
        true
    }

    /// It takes no new logs but those that are wanted there.
    pub fn is_cordoned(&self) -> bool {
        self.is_cordoned.load(Ordering::Relaxed)
    }

    pub fn set_cordoned(&self, cordoned: bool) {
        self.is_cordoned.store(cordoned, Ordering::Relaxed);
    }

    /// Returns whether it was online.
    pub fn set_offline(&self) -> bool {
        self.is_online.swap(false, Ordering::AcqRel)
    }

    pub fn unlock(&self) {
        self.lock.lock().take();
    }

    pub fn previous_broker_epoch(&self) -> Option<i64> {
        *self.previous_broker_epoch.lock()
    }

    /// Of the checkpoints that whoever closes a directory in order leaves, those that are not there, and what is lost with each.
    pub fn missing_checkpoints(&self) -> io::Result<Vec<(PathBuf, &'static str)>> {
        let kept = [
            (&self.recovery_points, "how far the logs are on disk"),
            (&self.log_start_offsets, "which records were deleted: they can be read again"),
        ];
        let mut missing = Vec::new();
        for (checkpoint, lost) in kept {
            if !checkpoint.file.exists()? {
                missing.push((checkpoint.file.path().to_owned(), lost));
            }
        }
        Ok(missing)
    }

    /// Removes the marker, as the logs are about to change; returns whether there was one.
    pub fn take_marker(&self) -> io::Result<bool> {
        let was_clean = self.marker.exists()?;
        self.marker.delete()?;
        Ok(was_clean)
    }

    /// All logs were opened, and recovered where that was needed.
    pub fn set_recovered(&self) {
        self.is_clean.store(true, Ordering::Relaxed);
    }

    /// Some log could not be closed in order.
    pub fn set_unclean(&self) {
        self.is_clean.store(false, Ordering::Relaxed);
    }

    /// Writes the marker, if it would be true.
    pub fn mark_clean(&self, broker_epoch: i64) -> io::Result<()> {
        match self.is_clean.load(Ordering::Relaxed) {
            true => self.marker.write(broker_epoch),
            false => Ok(()),
        }
    }
}

/// A checkpoint file that is written only when its content changes.
pub struct Checkpoint {
    file: OffsetCheckpointFile,
    /// Hash of what was written last. Held while writing, so that writers follow each other.
    written: Mutex<Option<u64>>,
    /// It is there, and could not be read.
    is_damaged: AtomicBool,
}

impl Checkpoint {
    fn new(file: OffsetCheckpointFile) -> Checkpoint {
        Checkpoint { file, written: Mutex::new(None), is_damaged: AtomicBool::new(false) }
    }

    /// Empty if the file is missing or damaged.
    pub fn read(&self) -> io::Result<BTreeMap<TopicPartition, Offset>> {
        let offsets = self.file.read_if_readable()?;
        self.is_damaged.store(offsets.is_none() && self.file.exists()?, Ordering::Relaxed);
        Ok(offsets.unwrap_or_default())
    }

    /// Whether it is there and can be read.
    pub fn is_readable(&self) -> bool {
        matches!(self.file.read_if_readable(), Ok(Some(_)))
    }

    /// Whether the last read found it damaged, and nothing was written since.
    pub fn is_damaged(&self) -> bool {
        self.is_damaged.load(Ordering::Relaxed)
    }

    /// Replaces the content by what `offsets` says then: of several writers the last one also looks last. `None`: it stays.
    pub fn write(&self, offsets: impl FnOnce() -> Option<BTreeMap<TopicPartition, Offset>>) -> io::Result<()> {
        let mut written = self.written.lock();
        let Some(offsets) = offsets() else { return Ok(()) };
        let mut hasher = DefaultHasher::new();
        offsets.hash(&mut hasher);
        let hash = hasher.finish();
        if *written != Some(hash) {
            *written = None;
            self.file.write(&offsets)?;
            *written = Some(hash);
            self.is_damaged.store(false, Ordering::Relaxed);
        }
        Ok(())
    }
}
