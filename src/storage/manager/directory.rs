//! `LogDir`: one log directory, its files in the root, and whether it can be used.

use std::collections::BTreeMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash as _, Hasher as _};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use parking_lot::Mutex;

use crate::storage::checkpoint::{
    CLEANER_OFFSETS, CleanShutdownFile, HIGH_WATERMARKS, LOG_START_OFFSETS, OffsetCheckpointFile, RECOVERY_POINTS,
};
use crate::storage::dir_lock::{DirLock, LockError};
use crate::storage::disk::Disk;
use crate::types::{DirectoryId, Offset, TopicPartition};

/// A log directory.
pub struct LogDir {
    disk: Arc<dyn Disk>,
    pub path: PathBuf,
    pub id: DirectoryId,
    is_online: AtomicBool,
    is_cordoned: AtomicBool,
    lock: Mutex<Option<DirLock>>,
    /// How many logs are open here, or are being made.
    pub log_count: AtomicUsize,
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
    pub fn new(disk: Arc<dyn Disk>, path: PathBuf, id: DirectoryId) -> LogDir {
        let checkpoint = |name| Checkpoint::new(OffsetCheckpointFile::new(disk.clone(), &path, name));
        LogDir {
            is_online: AtomicBool::new(true),
            is_cordoned: AtomicBool::new(false),
            lock: Mutex::new(None),
            log_count: AtomicUsize::new(0),
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
        if !self.disk.exists(&self.path).map_err(io)? {
            self.disk.create_dir_all(&self.path).map_err(io)?;
            let parent = self.path.parent().filter(|parent| !parent.as_os_str().is_empty());
            self.disk.sync_dir(parent.unwrap_or(Path::new("."))).map_err(io)?;
        }
        *self.lock.lock() = Some(DirLock::acquire(&*self.disk, &self.path)?);
        *self.previous_broker_epoch.lock() = self.marker.read_broker_epoch();
        Ok(())
    }

    pub fn is_online(&self) -> bool {
        self.is_online.load(Ordering::Acquire)
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
}

impl Checkpoint {
    fn new(file: OffsetCheckpointFile) -> Checkpoint {
        Checkpoint { file, written: Mutex::new(None) }
    }

    /// Empty if the file is missing or damaged.
    pub fn read(&self) -> io::Result<BTreeMap<TopicPartition, Offset>> {
        self.file.read()
    }

    /// Replaces the content by what `offsets` says then: of several writers the last one also looks last.
    pub fn write(&self, offsets: impl FnOnce() -> BTreeMap<TopicPartition, Offset>) -> io::Result<()> {
        let mut written = self.written.lock();
        let offsets = offsets();
        let mut hasher = DefaultHasher::new();
        offsets.hash(&mut hasher);
        let hash = hasher.finish();
        if *written != Some(hash) {
            *written = None;
            self.file.write(&offsets)?;
            *written = Some(hash);
        }
        Ok(())
    }
}
