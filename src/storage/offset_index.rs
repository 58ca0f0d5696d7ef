//! The `.index` of a segment: where batches lie in its file, one entry for every `index.interval.bytes`.
//!
//! | at | size | field |
//! |---|---|---|
//! | 0 | 4 | last offset of a batch, minus the segment's base offset |
//! | 4 | 4 | where that batch begins in the file |
//!
//! Both ascend strictly. An index may be wrong without looking so (damage, a file of another segment): whoever uses an
//! entry checks that the batch it names is there.

use std::io;
use std::sync::Arc;

use crate::storage::file_cache::CachedFile;
use crate::storage::index_file::{Entry, IndexError, IndexFile};
use crate::storage::log::Wait;
use crate::types::Offset;

/// Bytes of an entry.
pub const ENTRY_SIZE: usize = 8;

/// A batch that the index names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OffsetPosition {
    /// Of the batch's last record.
    pub offset: Offset,
    /// Where the batch begins.
    pub position: u32,
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct Stored {
    relative_offset: i32,
    position: i32,
}

impl Entry for Stored {
    const SIZE: usize = ENTRY_SIZE;
    type Key = i32;

    fn key(&self) -> i32 {
        self.relative_offset
    }

    fn encode(&self, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(&self.relative_offset.to_be_bytes());
        bytes.extend_from_slice(&self.position.to_be_bytes());
    }

    fn decode(bytes: &[u8]) -> Stored {
        let int = |at: usize| i32::from_be_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
        Stored { relative_offset: int(0), position: int(4) }
    }
}

/// An entry as it is stored, of whatever sign: relative offset and position. `bytes` are as many as [`ENTRY_SIZE`]. For
/// those who look at damaged files.
pub fn stored_entry(bytes: &[u8]) -> (i32, i32) {
    let stored = Stored::decode(bytes);
    (stored.relative_offset, stored.position)
}

/// See the module's documentation.
pub(super) struct OffsetIndex {
    base_offset: Offset,
    entries: IndexFile<Stored>,
}

impl OffsetIndex {
    pub fn existing(file: Arc<CachedFile>, base_offset: Offset) -> OffsetIndex {
        OffsetIndex { base_offset, entries: IndexFile::existing(file) }
    }

    pub fn new(file: Arc<CachedFile>, base_offset: Offset) -> OffsetIndex {
        OffsetIndex { base_offset, entries: IndexFile::new(file) }
    }

    pub fn file(&self) -> &Arc<CachedFile> {
        self.entries.file()
    }

    /// The entry of the largest offset that is at most `offset`.
    pub fn lookup(&self, offset: Offset, wait: Wait) -> Result<Option<OffsetPosition>, IndexError> {
        let target = offset.0 - self.base_offset.0;
        let found =
            self.entries.last_where(|entry| i64::from(entry.relative_offset) <= target, part_of(target), wait)?;
        found.map(|(_, entry)| self.position(entry)).transpose()
    }

    /// The first entry of a batch at `position` or behind it.
    pub fn first_at(&self, position: u64, wait: Wait) -> Result<Option<OffsetPosition>, IndexError> {
        let is_before = |entry: &Stored| i64::from(entry.position) < position as i64;
        let guess = |last: &Stored| position as f64 / f64::from(last.position);
        let next = self.entries.last_where(is_before, guess, wait)?.map_or(0, |(n, _)| n + 1);
        self.entries.get(next, wait)?.map(|entry| self.position(entry)).transpose()
    }

    pub fn last(&self, wait: Wait) -> Result<Option<OffsetPosition>, IndexError> {
        self.entries.last(wait)?.map(|entry| self.position(entry)).transpose()
    }

    pub fn count(&self, wait: Wait) -> Result<u32, IndexError> {
        self.entries.count(wait)
    }

    /// `offset` must be within `i32::MAX` of the base offset, and larger than all before.
    pub fn append(&self, offset: Offset, position: u32) -> Result<(), IndexError> {
        let relative_offset = i32::try_from(offset.0 - self.base_offset.0).expect("the segment was rolled in time");
        let position = i32::try_from(position).expect("a segment is smaller than 2 GiB");
        self.entries.append(Stored { relative_offset, position })
    }

    /// Removes the entries of `offset` and above.
    pub fn truncate_to(&self, offset: Offset) -> Result<(), IndexError> {
        let target = offset.0 - self.base_offset.0;
        let is_kept = |entry: &Stored| i64::from(entry.relative_offset) < target;
        let kept = self.entries.last_where(is_kept, part_of(target), Wait::ForDisk)?;
        self.entries.truncate(kept.map_or(0, |(n, _)| n + 1))
    }

    /// The file of `built`, which is trimmed, has taken this one's name.
    pub fn replaced_by(&self, built: &OffsetIndex) {
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
        mut look: impl FnMut(OffsetPosition) -> Result<(), IndexError>,
    ) -> Result<(), IndexError> {
        self.entries.try_for_each(|entry| look(self.position(entry)?))
    }

    /// All entries.
    #[cfg(test)]
    pub fn all(&self) -> Result<Vec<OffsetPosition>, IndexError> {
        crate::storage::index_file::collect(|look| self.try_for_each(look))
    }

    fn position(&self, entry: Stored) -> Result<OffsetPosition, IndexError> {
        match (u32::try_from(entry.relative_offset), u32::try_from(entry.position)) {
            (Ok(relative), Ok(position)) => {
                Ok(OffsetPosition { offset: Offset(self.base_offset.0.saturating_add(relative.into())), position })
            }
            _ => Err(IndexError::Corrupt("an entry is negative".to_owned())),
        }
    }
}

/// Where in an index the relative offset `target` might be, given its last entry.
fn part_of(target: i64) -> impl Fn(&Stored) -> f64 {
    move |last| target as f64 / f64::from(last.relative_offset.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::background::Background;
    use crate::storage::disk::RealDisk;
    use crate::storage::file_cache::{Directory, FileCache};
    use crate::storage::file_name::{FileKind, FileName};

    const BASE: Offset = Offset(1000);

    fn file(dir: &tempfile::TempDir) -> Arc<CachedFile> {
        let cache = FileCache::new(RealDisk::new(), Background::stepped(), 10);
        cache.file(&Directory::new(dir.path().to_owned()), FileName::new(BASE, FileKind::OffsetIndex), true)
    }

    fn filled(file: Arc<CachedFile>, count: u32) -> OffsetIndex {
        let index = OffsetIndex::new(file, BASE);
        index.reset().unwrap();
        for n in 0..count {
            index.append(BASE.plus(i64::from(n) * 10 + 9), n * 100).unwrap();
        }
        index
    }

    fn check_lookups(index: &OffsetIndex, count: u32) {
        assert_eq!(index.count(Wait::ForDisk).unwrap(), count);
        assert_eq!(index.lookup(BASE.plus(8), Wait::ForDisk).unwrap(), None);
        assert_eq!(index.lookup(Offset(0), Wait::ForDisk).unwrap(), None);
        for n in 0..count {
            let entry = OffsetPosition { offset: BASE.plus(i64::from(n) * 10 + 9), position: n * 100 };
            assert_eq!(index.lookup(entry.offset, Wait::ForDisk).unwrap(), Some(entry));
            assert_eq!(index.lookup(entry.offset.plus(9), Wait::Never).unwrap(), Some(entry));
        }
        assert_eq!(index.last(Wait::Never).unwrap().map(|last| last.position), count.checked_sub(1).map(|n| n * 100));
        assert_eq!(index.all().unwrap().len(), count as usize);
    }

    #[test]
    fn finds_entries_in_memory_and_on_file() {
        for count in [0, 1, 2, 511, 512, 513, 1500] {
            let dir = tempfile::tempdir().unwrap();
            let file = file(&dir);
            let index = filled(file.clone(), count);
            check_lookups(&index, count);
            index.trim().unwrap();
            check_lookups(&index, count);
            check_lookups(&OffsetIndex::existing(file.clone(), BASE), count);
            assert_eq!(file.get().unwrap().file_len().unwrap(), u64::from(count) * 8);
        }
    }

    #[test]
    fn has_kafkas_bytes() {
        let dir = tempfile::tempdir().unwrap();
        let file = file(&dir);
        filled(file.clone(), 2).trim().unwrap();
        let mut bytes = [0; 16];
        file.get().unwrap().read_exact_at(&mut bytes, 0).unwrap();
        assert_eq!(bytes, [0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 19, 0, 0, 0, 100]);
    }

    #[test]
    fn truncates_by_offset() {
        for count in [3u32, 600, 1100] {
            for keep in [0, 1, 2, 3, 512, 513, 600] {
                let dir = tempfile::tempdir().unwrap();
                let file = file(&dir);
                let index = filled(file.clone(), count);
                let kept = keep.min(count);
                // The entry of the offset itself goes, that of the offset before stays.
                index.truncate_to(BASE.plus(i64::from(keep) * 10 + 9)).unwrap();
                check_lookups(&index, kept);
                index.append(BASE.plus(i64::from(kept) * 10 + 9), kept * 100).unwrap();
                check_lookups(&index, kept + 1);
                index.trim().unwrap();
                check_lookups(&OffsetIndex::existing(file, BASE), kept + 1);
            }
        }
    }

    #[test]
    fn finds_entries_however_unevenly_the_offsets_grow() {
        for power in [1, 2, 3] {
            let dir = tempfile::tempdir().unwrap();
            let index = OffsetIndex::new(file(&dir), BASE);
            index.reset().unwrap();
            let offset = |n: i64| BASE.plus(n.pow(power) / 1_000_i64.pow(power - 1) + n);
            for n in 0..5000 {
                index.append(offset(n), n as u32).unwrap();
            }
            index.trim().unwrap();
            for n in 0..5000 {
                let entry = OffsetPosition { offset: offset(n), position: n as u32 };
                assert_eq!(index.lookup(entry.offset, Wait::ForDisk).unwrap(), Some(entry));
                assert_eq!(index.lookup(offset(n + 1).plus(-1), Wait::ForDisk).unwrap(), Some(entry));
            }
            assert_eq!(index.lookup(BASE.plus(-1), Wait::ForDisk).unwrap(), None);
        }
    }

    #[test]
    fn zeros_behind_the_entries_are_none() {
        for count in [0, 1, 2, 600] {
            let dir = tempfile::tempdir().unwrap();
            let file = file(&dir);
            filled(file.clone(), count).trim().unwrap();
            file.get().unwrap().set_len(10 << 20).unwrap();
            let index = OffsetIndex::existing(file.clone(), BASE);
            check_lookups(&index, count);
            index.append(BASE.plus(i64::from(count) * 10 + 9), count * 100).unwrap();
            check_lookups(&index, count + 1);
            index.trim().unwrap();
            assert_eq!(file.get().unwrap().file_len().unwrap(), u64::from(count + 1) * 8);
        }
    }

    /// All of it was read into memory.
    #[test]
    fn a_file_of_any_length_is_looked_through_page_by_page() {
        let dir = tempfile::tempdir().unwrap();
        let index = OffsetIndex::existing(file(&dir), BASE);
        let open = index.file().get().unwrap();
        open.write_all_at(&[0, 0, 0, 9, 0, 0, 0, 1], (24 << 30) - 8).unwrap();
        let mut count = 0;
        let looked = index.try_for_each(|_| {
            count += 1;
            if count == 1000 { Err(IndexError::Corrupt("enough".to_owned())) } else { Ok(()) }
        });
        assert!(matches!(looked, Err(IndexError::Corrupt(_))) && count == 1000);
        let index = filled(file(&dir), 2000);
        let all = index.all().unwrap();
        assert_eq!(all.len(), 2000);
        assert_eq!(all[1999], OffsetPosition { offset: BASE.plus(19_999), position: 199_900 });
    }

    #[test]
    fn says_what_is_damaged() {
        let dir = tempfile::tempdir().unwrap();
        let file = file(&dir);
        file.get().unwrap().write_all_at(&[0xff; 12], 0).unwrap();
        let index = OffsetIndex::existing(file.clone(), BASE);
        assert!(matches!(index.lookup(BASE, Wait::ForDisk), Err(IndexError::Corrupt(_))));
        file.get().unwrap().set_len(8).unwrap();
        assert!(matches!(index.lookup(BASE, Wait::ForDisk), Err(IndexError::Corrupt(_))));
    }
}
