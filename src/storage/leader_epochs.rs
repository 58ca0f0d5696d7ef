//! Which leader wrote what: the first offset of each leader epoch (KIP-101, KIP-279).
//!
//! Replicas compare these to find where their logs part. [`LeaderEpochFileCache`] keeps the entries of a partition in
//! memory and in its `leader-epoch-checkpoint`: a version line (`0`), a line with the number of entries, then a line
//! `epoch start_offset` for each.
//!
//! Invariant: epochs and start offsets both ascend strictly. The file never lacks an entry, since a new one is durable
//! before [`LeaderEpochFileCache::assign`] returns; it may have too many, because truncations are written later, by
//! [`LeaderEpochFileCache::flush`]. Whoever opens a log therefore truncates the entries to the log's bounds.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use tracing::warn;

use crate::storage::checkpoint::{self, CheckpointError};
use crate::storage::disk::Disk;
use crate::storage::file_cache::Directory;
use crate::storage::known_bugs::{self, KnownBug};
use crate::types::{LeaderEpoch, Offset};

/// The file's name in a partition's directory.
pub const FILE_NAME: &str = "leader-epoch-checkpoint";

/// What an answer to "where does this epoch end" is when nobody knows.
pub const UNDEFINED_EPOCH_OFFSET: Offset = Offset(-1);

/// The first offset that was written in an epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EpochEntry {
    pub epoch: LeaderEpoch,
    pub start_offset: Offset,
}

/// Where an epoch ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EpochEnd {
    /// The epoch asked for, or the largest one before it, or [`LeaderEpoch::UNKNOWN`].
    pub epoch: LeaderEpoch,
    /// Behind the last offset written in it, or [`UNDEFINED_EPOCH_OFFSET`].
    pub end_offset: Offset,
}

impl EpochEnd {
    pub const UNDEFINED: EpochEnd = EpochEnd { epoch: LeaderEpoch::UNKNOWN, end_offset: UNDEFINED_EPOCH_OFFSET };
}

/// See the module's documentation.
pub struct LeaderEpochFileCache {
    disk: Arc<dyn Disk>,
    dir: Arc<Directory>,
    /// Ascending.
    entries: Vec<EpochEntry>,
    is_dirty: bool,
    /// An entry could not be made durable, for want of room: it must be before a batch of its epoch is written.
    is_owed: bool,
}

impl LeaderEpochFileCache {
    /// The entries in the partition's directory. A damaged file counts as none; the log then has to take the entries from its batches.
    pub fn open(disk: Arc<dyn Disk>, dir: Arc<Directory>) -> io::Result<LeaderEpochFileCache> {
        let read = checkpoint::read(&*disk, &dir.path().join(FILE_NAME), decode)?;
        let mut cache = LeaderEpochFileCache { disk, dir, entries: Vec::new(), is_dirty: false, is_owed: false };
        for entry in read.unwrap_or_default() {
            cache.insert(entry);
        }
        Ok(cache)
    }

    /// Notes that `epoch` begins at `start_offset` and makes it durable. An epoch that began already keeps its start,
    /// unless the new one is earlier; entries that contradict the new one go. Returns whether anything changed. After an
    /// error it is noted in memory only, and the next call tries again.
    pub fn assign(&mut self, epoch: LeaderEpoch, start_offset: Offset) -> io::Result<bool> {
        let changed = self.assign_unflushed(epoch, start_offset);
        if (changed || self.is_owed) && !known_bugs::is_back(KnownBug::EpochNotDurable) {
            self.is_owed = true;
            self.flush()?;
        }
        Ok(changed)
    }

    /// Whether [`Self::assign`] has nothing to do.
    pub fn is_durable(&self, epoch: LeaderEpoch, start_offset: Offset) -> bool {
        !self.is_owed && self.is_noted(EpochEntry { epoch, start_offset })
    }

    /// As [`Self::assign`], durable only after [`Self::flush`]: for recovery, which finds many.
    pub fn assign_unflushed(&mut self, epoch: LeaderEpoch, start_offset: Offset) -> bool {
        let changed = self.insert(EpochEntry { epoch, start_offset });
        self.is_dirty |= changed;
        changed
    }

    /// Whether there is nothing to note.
    fn is_noted(&self, entry: EpochEntry) -> bool {
        let is_known = |latest: EpochEntry| entry.epoch == latest.epoch && entry.start_offset >= latest.start_offset;
        // Batches from before there were epochs have -1.
        entry.epoch.0 < 0 || entry.start_offset.0 < 0 || self.latest().is_some_and(is_known)
    }

    fn insert(&mut self, entry: EpochEntry) -> bool {
        if self.is_noted(entry) {
            return false;
        }
        let kept = self
            .entries
            .iter()
            .take_while(|old| old.epoch < entry.epoch && old.start_offset < entry.start_offset)
            .count();
        // Epochs in which nothing was written make room without a word.
        let removed = &self.entries[kept..];
        if removed.len() > 1 || removed.first().is_some_and(|old| old.start_offset != entry.start_offset) {
            warn!(dir = %self.dir.path().display(), ?entry, ?removed, "new leader epoch replaces conflicting entries");
        }
        self.entries.truncate(kept);
        self.entries.push(entry);
        true
    }

    /// All entries, ascending.
    pub fn entries(&self) -> &[EpochEntry] {
        &self.entries
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub fn earliest(&self) -> Option<EpochEntry> {
        self.entries.first().copied()
    }

    pub fn latest(&self) -> Option<EpochEntry> {
        self.entries.last().copied()
    }

    /// The last epoch in which something was, or may have been, written.
    pub fn latest_epoch(&self) -> Option<LeaderEpoch> {
        self.latest().map(|entry| entry.epoch)
    }

    pub fn get(&self, epoch: LeaderEpoch) -> Option<EpochEntry> {
        let index = self.entries.binary_search_by_key(&epoch, |entry| entry.epoch).ok()?;
        Some(self.entries[index])
    }

    /// The entry before `epoch`, whether or not that has one.
    pub fn previous(&self, epoch: LeaderEpoch) -> Option<EpochEntry> {
        self.entries[..self.entries.partition_point(|entry| entry.epoch < epoch)].last().copied()
    }

    /// The entry after `epoch`, whether or not that has one.
    pub fn next(&self, epoch: LeaderEpoch) -> Option<EpochEntry> {
        self.entries.get(self.entries.partition_point(|entry| entry.epoch <= epoch)).copied()
    }

    /// The epoch in which the record at `offset` was written.
    pub fn epoch_for_offset(&self, offset: Offset) -> Option<LeaderEpoch> {
        self.entries[..self.entries.partition_point(|entry| entry.start_offset <= offset)]
            .last()
            .map(|entry| entry.epoch)
    }

    /// Where `requested` ends, or the largest epoch before it that was written in.
    pub fn end_offset_for(&self, requested: LeaderEpoch, log_end_offset: Offset) -> EpochEnd {
        if requested == LeaderEpoch::UNKNOWN {
            return EpochEnd::UNDEFINED;
        }
        if self.latest_epoch() == Some(requested) {
            return EpochEnd { epoch: requested, end_offset: log_end_offset };
        }
        // An epoch later than all: the replica asked does not know of it yet.
        let Some(next) = self.next(requested) else { return EpochEnd::UNDEFINED };
        // Nothing as early is left: the answer makes the follower begin at this log's start.
        let found = self.get(requested).or_else(|| self.previous(requested));
        EpochEnd { epoch: found.map_or(requested, |entry| entry.epoch), end_offset: next.start_offset }
    }

    /// The entries of offsets `start_offset` up to, without, `end_offset`, the first one starting at `start_offset`.
    pub fn entries_in_range(&self, start_offset: Offset, end_offset: Offset) -> Vec<EpochEntry> {
        let mut entries = self.entries.clone();
        if start_offset.0 >= 0 {
            truncate_from_start(&mut entries, start_offset);
        }
        truncate_from_end(&mut entries, end_offset);
        entries
    }

    /// The log was cut: removes the epochs that start at or above `end_offset`. Returns whether [`Self::flush`] is due.
    pub fn truncate_from_end(&mut self, end_offset: Offset) -> bool {
        self.is_dirty |= truncate_from_end(&mut self.entries, end_offset);
        self.is_dirty
    }

    /// The log's head went: the epoch of `start_offset` begins there now, those before go. Returns whether
    /// [`Self::flush`] is due.
    pub fn truncate_from_start(&mut self, start_offset: Offset) -> bool {
        self.is_dirty |= truncate_from_start(&mut self.entries, start_offset);
        self.is_dirty
    }

    /// Takes over the entries of another replica of the same log. [`Self::flush`] is due.
    pub fn replace(&mut self, entries: Vec<EpochEntry>) {
        self.is_dirty |= self.entries != entries;
        self.entries = entries;
    }

    /// Removes all entries. [`Self::flush`] is due.
    pub fn clear(&mut self) {
        self.is_dirty = true;
        self.entries.clear();
    }

    /// Writes the file if it differs from what is in memory. Durable on return.
    pub fn flush(&mut self) -> io::Result<()> {
        let Some(text) = self.begin_flush() else { return Ok(()) };
        let written = text.write();
        self.end_flush(written.is_ok());
        written
    }

    /// What [`Self::flush`] has to write, for who lets others note epochs meanwhile: [`Self::end_flush`] is to follow, and nobody else is
    /// to write in between.
    pub fn begin_flush(&mut self) -> Option<EpochFileText> {
        if !std::mem::take(&mut self.is_dirty) {
            self.is_owed = false;
            return None;
        }
        let path = self.dir.path().join(FILE_NAME);
        Some(EpochFileText { disk: self.disk.clone(), path, text: encode(&self.entries) })
    }

    pub fn end_flush(&mut self, is_written: bool) {
        match is_written {
            true => self.is_owed = false,
            false => self.is_dirty = true,
        }
    }
}

/// What is to be in the file.
pub struct EpochFileText {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    text: String,
}

impl EpochFileText {
    /// Durable on return.
    pub fn write(&self) -> io::Result<()> {
        self.disk.write_file_atomically(&self.path, self.text.as_bytes())
    }
}

fn truncate_from_end(entries: &mut Vec<EpochEntry>, end_offset: Offset) -> bool {
    let kept = entries.partition_point(|entry| entry.start_offset < end_offset);
    let changed = end_offset.0 >= 0 && kept < entries.len();
    if changed {
        entries.truncate(kept);
    }
    changed
}

fn truncate_from_start(entries: &mut Vec<EpochEntry>, start_offset: Offset) -> bool {
    let before = entries.partition_point(|entry| entry.start_offset <= start_offset);
    let Some(last) = before.checked_sub(1) else { return false };
    let changed = last > 0 || entries[last].start_offset != start_offset;
    entries[last].start_offset = start_offset;
    entries.drain(..last);
    changed
}

/// The text of the file.
pub fn encode(entries: &[EpochEntry]) -> String {
    checkpoint::encode(entries.iter().map(|entry| format!("{} {}", entry.epoch, entry.start_offset)))
}

/// The entries in the text of the file, in its order.
pub fn decode(text: &str) -> Result<Vec<EpochEntry>, CheckpointError> {
    checkpoint::decode(text, |fields| {
        let [epoch, start_offset] = *fields else { return None };
        let entry =
            EpochEntry { epoch: LeaderEpoch(epoch.parse().ok()?), start_offset: Offset(start_offset.parse().ok()?) };
        (entry.epoch.0 >= 0 && entry.start_offset.0 >= 0).then_some(entry)
    })
}

#[cfg(test)]
mod tests;
