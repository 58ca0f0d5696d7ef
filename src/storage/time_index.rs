//! The `.timeindex` of a segment: the largest timestamp up to an offset, one entry for every `index.interval.bytes`.
//!
//! | at | size | field |
//! |---|---|---|
//! | 0 | 8 | the largest timestamp of all records up to here, in milliseconds |
//! | 8 | 4 | last offset of the batch that has it, minus the segment's base offset |
//!
//! Timestamps ascend strictly: a stretch of records with none larger than before adds no entry. When a segment is rolled
//! or closed its largest timestamp is added, so that the last entry tells the age of a sealed segment. Records are deleted by
//! it, so that it is believed only if it can be right.

use std::io;
use std::sync::Arc;

use crate::record::batch::NO_TIMESTAMP;
use crate::storage::file_cache::CachedFile;
use crate::storage::index_file::{Entry, IndexError, IndexFile};
use crate::storage::log::Wait;
use crate::types::Offset;

/// Bytes of an entry.
pub const ENTRY_SIZE: usize = 12;

/// The largest timestamp up to an offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimestampEntry {
    pub timestamp: i64,
    /// Last offset of the batch that has it.
    pub offset: Offset,
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct Stored {
    timestamp: i64,
    relative_offset: i32,
}

impl Entry for Stored {
    const SIZE: usize = ENTRY_SIZE;
    type Key = i64;

    fn key(&self) -> i64 {
        self.timestamp
    }

    fn encode(&self, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(&self.timestamp.to_be_bytes());
        bytes.extend_from_slice(&self.relative_offset.to_be_bytes());
    }

    fn decode(bytes: &[u8]) -> Stored {
        Stored {
            timestamp: i64::from_be_bytes(bytes[..8].try_into().expect("eight bytes")),
            relative_offset: i32::from_be_bytes(bytes[8..12].try_into().expect("four bytes")),
        }
    }
}

/// An entry as it is stored, of whatever sign: timestamp and relative offset. `bytes` are as many as [`ENTRY_SIZE`]. For
/// those who look at damaged files.
pub fn stored_entry(bytes: &[u8]) -> (i64, i32) {
    let stored = Stored::decode(bytes);
    (stored.timestamp, stored.relative_offset)
}

/// See the module's documentation.
pub(super) struct TimeIndex {
    base_offset: Offset,
    entries: IndexFile<Stored>,
}

impl TimeIndex {
    pub fn existing(file: Arc<CachedFile>, base_offset: Offset) -> TimeIndex {
        TimeIndex { base_offset, entries: IndexFile::existing(file) }
    }

    pub fn new(file: Arc<CachedFile>, base_offset: Offset) -> TimeIndex {
        TimeIndex { base_offset, entries: IndexFile::new(file) }
    }

    pub fn file(&self) -> &Arc<CachedFile> {
        self.entries.file()
    }

    /// The entry of the largest timestamp that is at most `timestamp`.
    pub fn lookup(&self, timestamp: i64, wait: Wait) -> Result<Option<TimestampEntry>, IndexError> {
        let found = self.entries.last_where(|entry| entry.timestamp <= timestamp, |_| 0.5, wait)?;
        found.map(|(_, entry)| self.entry(entry)).transpose()
    }

    pub fn last(&self, wait: Wait) -> Result<Option<TimestampEntry>, IndexError> {
        self.entries.last(wait)?.map(|entry| self.entry(entry)).transpose()
    }

    /// As [`Self::last`], of an index that was completed: an error if it gives itself away as none of a segment that ends at
    /// `end`.
    pub fn complete_last(&self, end: Option<Offset>, wait: Wait) -> Result<Option<TimestampEntry>, IndexError> {
        let corrupt = |reason: &str| Err(IndexError::Corrupt(reason.to_owned()));
        if self.entries.has_zeros(wait)? {
            return corrupt("the time index ends in zeros");
        }
        // A single entry of zeros says no more than none.
        let says_something = |last: &TimestampEntry| last.timestamp != 0 || last.offset != self.base_offset;
        let Some(last) = self.last(wait)?.filter(says_something) else { return Ok(None) };
        if last.timestamp <= NO_TIMESTAMP || end.is_some_and(|end| last.offset >= end) {
            return corrupt("the last entry of the time index is of no record in the segment");
        }
        Ok(Some(last))
    }

    /// As [`Self::complete_last`], and beside the entry before it.
    pub fn ascending_last(&self, wait: Wait) -> Result<Option<TimestampEntry>, IndexError> {
        let Some(last) = self.complete_last(None, wait)? else { return Ok(None) };
        let before = self.entries.last_but_one(wait)?.map(|entry| self.entry(entry)).transpose()?;
        match before {
            Some(before) if before.timestamp >= last.timestamp || before.offset > last.offset => {
                Err(IndexError::Corrupt("the last entries of the time index do not ascend".to_owned()))
            }
            Some(_) | None => Ok(Some(last)),
        }
    }

    pub fn count(&self, wait: Wait) -> Result<u32, IndexError> {
        self.entries.count(wait)
    }

    /// Adds an entry if the timestamp is larger than all before, and is one at all.
    pub fn append_if_larger(&self, entry: TimestampEntry) -> Result<(), IndexError> {
        let last = self.entries.last(Wait::ForDisk)?.map_or(NO_TIMESTAMP, |last| last.timestamp);
        if entry.timestamp <= last {
            return Ok(());
        }
        let relative_offset =
            i32::try_from(entry.offset.0 - self.base_offset.0).expect("the segment was rolled in time");
        self.entries.append(Stored { timestamp: entry.timestamp, relative_offset })
    }

    /// Removes the entries of `offset` and above.
    pub fn truncate_to(&self, offset: Offset) -> Result<(), IndexError> {
        let target = offset.0 - self.base_offset.0;
        // Offsets ascend with the timestamps.
        let is_kept = |entry: &Stored| i64::from(entry.relative_offset) < target;
        let kept = self.entries.last_where(is_kept, |_| 1.0, Wait::ForDisk)?;
        self.entries.truncate(kept.map_or(0, |(n, _)| n + 1))
    }

    /// The file of `built`, which is trimmed, has taken this one's name.
    pub fn replaced_by(&self, built: &TimeIndex) {
        self.entries.replaced_by(&built.entries);
    }

    pub fn reset(&self) -> io::Result<()> {
        self.entries.reset()
    }

    pub fn trim(&self) -> Result<(), IndexError> {
        self.entries.trim()
    }

    /// Shows all entries to `look`, until that fails.
    pub fn try_for_each(
        &self,
        mut look: impl FnMut(TimestampEntry) -> Result<(), IndexError>,
    ) -> Result<(), IndexError> {
        self.entries.try_for_each(|entry| look(self.entry(entry)?))
    }

    /// All entries.
    #[cfg(test)]
    pub fn all(&self) -> Result<Vec<TimestampEntry>, IndexError> {
        crate::storage::index_file::collect(|look| self.try_for_each(look))
    }

    fn entry(&self, entry: Stored) -> Result<TimestampEntry, IndexError> {
        match u32::try_from(entry.relative_offset) {
            Ok(relative) => {
                let offset = Offset(self.base_offset.0.saturating_add(relative.into()));
                Ok(TimestampEntry { timestamp: entry.timestamp, offset })
            }
            Err(_) => Err(IndexError::Corrupt("an entry is negative".to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::background::Background;
    use crate::storage::disk::RealDisk;
    use crate::storage::file_cache::{Directory, FileCache};
    use crate::storage::file_name::{FileKind, FileName};

    const BASE: Offset = Offset(1000);

    fn index(dir: &tempfile::TempDir) -> TimeIndex {
        let cache = FileCache::new(RealDisk::new(), Background::stepped(), 10);
        let name = FileName::new(BASE, FileKind::TimeIndex);
        let index = TimeIndex::new(cache.file(&Directory::new(dir.path().to_owned()), name, true), BASE);
        index.reset().unwrap();
        index
    }

    fn entry(timestamp: i64, delta: i64) -> TimestampEntry {
        TimestampEntry { timestamp, offset: BASE.plus(delta) }
    }

    #[test]
    fn only_larger_timestamps_are_added() {
        let dir = tempfile::tempdir().unwrap();
        let index = index(&dir);
        index.append_if_larger(entry(NO_TIMESTAMP, 0)).unwrap();
        assert_eq!(index.count(Wait::ForDisk).unwrap(), 0);
        for (timestamp, delta) in [(50, 1), (50, 2), (40, 3), (60, 4)] {
            index.append_if_larger(entry(timestamp, delta)).unwrap();
        }
        assert_eq!(index.all().unwrap(), [entry(50, 1), entry(60, 4)]);
        assert_eq!(index.lookup(49, Wait::ForDisk).unwrap(), None);
        assert_eq!(index.lookup(59, Wait::ForDisk).unwrap(), Some(entry(50, 1)));
        assert_eq!(index.lookup(i64::MAX, Wait::ForDisk).unwrap(), Some(entry(60, 4)));
    }

    #[test]
    fn has_kafkas_bytes_and_truncates_by_offset() {
        let dir = tempfile::tempdir().unwrap();
        let index = index(&dir);
        for n in 0..1000 {
            index.append_if_larger(entry(1_700_000_000_000 + n, n)).unwrap();
        }
        index.truncate_to(BASE.plus(400)).unwrap();
        assert_eq!(index.last(Wait::ForDisk).unwrap(), Some(entry(1_700_000_000_399, 399)));
        index.truncate_to(BASE.plus(2)).unwrap();
        index.trim().unwrap();
        let file = index.file().get().unwrap();
        let mut bytes = vec![0; file.file_len().unwrap() as usize];
        file.read_exact_at(&mut bytes, 0).unwrap();
        assert_eq!(
            bytes,
            [0, 0, 1, 0x8b, 0xcf, 0xe5, 0x68, 0, 0, 0, 0, 0, 0, 0, 1, 0x8b, 0xcf, 0xe5, 0x68, 1, 0, 0, 0, 1]
        );
    }
}
