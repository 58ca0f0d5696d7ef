//! The leader epochs of a log that is in use. To put them on disk takes a while, for which no append is to wait: they are noted under
//! one lock, and written under another, which an append takes only for an epoch that is new to it.

use std::io;

use parking_lot::{Mutex, MutexGuard};

use crate::storage::leader_epochs::LeaderEpochFileCache;
use crate::types::{LeaderEpoch, Offset};

/// See the module's documentation.
pub(in crate::storage) struct LeaderEpochs {
    noted: Mutex<LeaderEpochFileCache>,
    /// Held while the file is written; before the other one.
    file: Mutex<()>,
}

impl LeaderEpochs {
    pub fn new(noted: LeaderEpochFileCache) -> LeaderEpochs {
        LeaderEpochs { noted: Mutex::new(noted), file: Mutex::default() }
    }

    /// What is noted. To be looked at and changed, not to be written.
    pub fn lock(&self) -> MutexGuard<'_, LeaderEpochFileCache> {
        self.noted.lock()
    }

    /// As [`LeaderEpochFileCache::assign`].
    pub fn assign(&self, epoch: LeaderEpoch, start_offset: Offset) -> io::Result<bool> {
        if self.lock().is_durable(epoch, start_offset) {
            return Ok(false);
        }
        let _file = self.keep_file();
        // Who comes with a batch of this epoch meanwhile must wait.
        self.lock().assign(epoch, start_offset)
    }

    /// As [`LeaderEpochFileCache::flush`], with what is noted now.
    pub fn flush(&self) -> io::Result<()> {
        let _file = self.keep_file();
        let Some(text) = self.lock().begin_flush() else { return Ok(()) };
        let written = text.write();
        self.lock().end_flush(written.is_ok());
        written
    }

    /// Keeps all from writing the file.
    pub fn keep_file(&self) -> MutexGuard<'_, ()> {
        self.file.lock()
    }

    /// Whether an append of a known epoch would have to wait.
    #[cfg(test)]
    pub fn is_locked(&self) -> bool {
        self.noted.is_locked()
    }
}
