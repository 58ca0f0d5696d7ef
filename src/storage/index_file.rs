//! The common part of the offset index and the time index: a file of entries of one size, ascending by their key.
//!
//! The entries of a segment that is being written collect in memory and go to the file in pages of 4 KiB; those of a
//! sealed segment are all in the file. Lookups read single pages of the file through the page cache. They do not map it:
//! a mapping would turn a read error of the disk into a signal that kills the process, could not say that it would have
//! to wait for the disk, and 100,000 partitions would need more of them than a process may have.
//!
//! Kafka fills the file of the active segment with zeros up to `segment.index.bytes` and cuts them off when it rolls or
//! closes in order; a file left by a crash still has them. As entries ascend strictly, zeros behind the first one are
//! none.
//!
//! One writer at a time (the log's lock), any number of readers beside it.

use std::io;
use std::sync::Arc;

use parking_lot::RwLock;
use thiserror::Error;

use crate::storage::disk::{DiskFile, is_full};
use crate::storage::file_cache::CachedFile;
use crate::storage::log::Wait;

/// Why an index gives no answer.
#[derive(Debug, Error)]
pub enum IndexError {
    #[error("the disk must be waited for")]
    WouldBlock,
    /// To be built anew; until then the segment is read from its start.
    #[error("{0}")]
    Corrupt(String),
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl IndexError {
    /// An index that is only written to fails only with the disk; if it is damaged nevertheless, so is the disk.
    pub fn into_io(self) -> io::Error {
        match self {
            IndexError::Io(error) => error,
            error => io::Error::other(error),
        }
    }
}

/// An entry of an index.
pub(super) trait Entry: Copy + PartialEq {
    const SIZE: usize;
    /// Ascends strictly from entry to entry.
    type Key: Ord + Copy;

    fn key(&self) -> Self::Key;
    fn encode(&self, bytes: &mut Vec<u8>);
    /// `bytes` are as many as `SIZE`.
    fn decode(bytes: &[u8]) -> Self;
}

/// What a search reads of the file at once.
const PAGE_SIZE: usize = 4096;

/// See the module's documentation.
pub(super) struct IndexFile<E: Entry> {
    file: Arc<CachedFile>,
    state: RwLock<State<E>>,
}

struct State<E> {
    /// Entries in the file; `None` until it was looked at.
    on_file: Option<u32>,
    /// The entries behind them.
    tail: Vec<E>,
    /// The last entry of all.
    last: Option<E>,
    /// The file has zeros behind those.
    has_zeros: bool,
}

impl<E> State<E> {
    fn of_file(on_file: Option<u32>, last: Option<E>) -> State<E> {
        State { on_file, tail: Vec::new(), last, has_zeros: false }
    }
}

impl<E: Entry> IndexFile<E> {
    /// An index that is on disk; it is looked at when it is first used.
    pub fn existing(file: Arc<CachedFile>) -> IndexFile<E> {
        IndexFile { file, state: RwLock::new(State::of_file(None, None)) }
    }

    /// An index without entries. Its file is made, or emptied, by [`IndexFile::reset`].
    pub fn new(file: Arc<CachedFile>) -> IndexFile<E> {
        IndexFile { file, state: RwLock::new(State::of_file(Some(0), None)) }
    }

    pub fn file(&self) -> &Arc<CachedFile> {
        &self.file
    }

    /// Removes all entries, in memory and on file.
    pub fn reset(&self) -> io::Result<()> {
        let file = self.file.get()?;
        if file.file_len()? > 0 {
            file.set_len(0)?;
            // Or no sync would come by here if nothing follows, and a power loss might bring them back.
            self.file.written();
        }
        *self.state.write() = State::of_file(Some(0), None);
        Ok(())
    }

    /// The file that `built` has written has taken this one's name.
    pub fn replaced_by(&self, built: &IndexFile<E>) {
        let built = built.state.read();
        assert!(built.tail.is_empty(), "it was written out");
        let mut state = self.state.write();
        self.file.reopen();
        *state = State::of_file(built.on_file, built.last);
    }

    /// Looks at the file if that was not done yet.
    fn load(&self, wait: Wait) -> Result<(), IndexError> {
        if self.state.read().on_file.is_some() {
            return Ok(());
        }
        let file = self.file.get()?;
        let len = file.file_len()?;
        if len % E::SIZE as u64 != 0 || len / E::SIZE as u64 > u64::from(u32::MAX) {
            return Err(IndexError::Corrupt(format!("{len} bytes are no whole number of entries of {}", E::SIZE)));
        }
        let in_file = (len / E::SIZE as u64) as u32;
        let (count, last) = whole_entries::<E>(&*file, in_file, wait)?;
        let mut state = self.state.write();
        if state.on_file.is_none() {
            *state = State { has_zeros: count < in_file, ..State::of_file(Some(count), last) };
        }
        Ok(())
    }

    /// How many entries there are.
    pub fn count(&self, wait: Wait) -> Result<u32, IndexError> {
        self.load(wait)?;
        let state = self.state.read();
        Ok(state.on_file.unwrap_or(0) + state.tail.len() as u32)
    }

    pub fn last(&self, wait: Wait) -> Result<Option<E>, IndexError> {
        self.load(wait)?;
        Ok(self.state.read().last)
    }

    /// The one before the last entry.
    pub fn last_but_one(&self, wait: Wait) -> Result<Option<E>, IndexError> {
        match self.count(wait)?.checked_sub(2) {
            Some(n) => self.get(n, wait),
            None => Ok(None),
        }
    }

    /// Whether zeros were found behind the entries, which [`Self::trim`] leaves none of.
    pub fn has_zeros(&self, wait: Wait) -> Result<bool, IndexError> {
        self.load(wait)?;
        Ok(self.state.read().has_zeros)
    }

    /// Adds an entry, whose key is larger than all before: asserted, as only a broken log could try anything else.
    pub fn append(&self, entry: E) -> Result<(), IndexError> {
        self.load(Wait::ForDisk)?;
        let full = {
            let mut state = self.state.write();
            assert!(state.last.is_none_or(|last| last.key() < entry.key()), "index entries ascend");
            state.tail.push(entry);
            state.last = Some(entry);
            state.tail.len() * E::SIZE >= PAGE_SIZE
        };
        match if full { self.write_out() } else { Ok(()) } {
            // They stay in memory until there is room.
            Err(error) if is_full(&error) => Ok(()),
            written => Ok(written?),
        }
    }

    /// Writes the entries that are only in memory to the file; not durable before the file is synced.
    pub fn write_out(&self) -> io::Result<()> {
        let (at, bytes) = {
            let state = self.state.read();
            if state.tail.is_empty() {
                return Ok(());
            }
            let mut bytes = Vec::with_capacity(state.tail.len() * E::SIZE);
            state.tail.iter().for_each(|entry| entry.encode(&mut bytes));
            (u64::from(state.on_file.unwrap_or(0)), bytes)
        };
        // Readers look into the tail meanwhile; only this thread changes it.
        self.file.get()?.write_all_at(&bytes, at * E::SIZE as u64)?;
        self.file.written();
        let mut state = self.state.write();
        state.on_file = Some(at as u32 + state.tail.len() as u32);
        state.tail = Vec::new();
        Ok(())
    }

    /// Writes everything out and cuts off what a crash or a truncation left behind the last entry: the segment takes
    /// no more, or the log is closed.
    pub fn trim(&self) -> Result<(), IndexError> {
        self.load(Wait::ForDisk)?;
        self.write_out()?;
        let len = u64::from(self.state.read().on_file.unwrap_or(0)) * E::SIZE as u64;
        let file = self.file.get()?;
        if file.file_len()? != len {
            file.set_len(len)?;
            self.file.written();
        }
        self.state.write().has_zeros = false;
        Ok(())
    }

    /// Keeps the first `count` entries.
    pub fn truncate(&self, count: u32) -> Result<(), IndexError> {
        self.load(Wait::ForDisk)?;
        let on_file = self.state.read().on_file.unwrap_or(0);
        if count >= on_file {
            let mut state = self.state.write();
            state.tail.truncate((count - on_file) as usize);
            if let Some(last) = state.tail.last() {
                state.last = Some(*last);
                return Ok(());
            }
        }
        let kept = count.min(on_file);
        let file = self.file.get()?;
        let last = match kept.checked_sub(1) {
            Some(n) => Some(read_entry(&*file, n, Wait::ForDisk)?),
            None => None,
        };
        let mut state = self.state.write();
        *state = State::of_file(Some(kept), last);
        file.set_len(u64::from(kept) * E::SIZE as u64)?;
        self.file.written();
        Ok(())
    }

    /// The last entry of those for which `is_before` holds, and its number; they must come before all others. `guess`
    /// says where that might be, from the last entry: as a part of all, between 0 and 1.
    pub fn last_where(
        &self,
        is_before: impl Fn(&E) -> bool,
        guess: impl Fn(&E) -> f64,
        wait: Wait,
    ) -> Result<Option<(u32, E)>, IndexError> {
        self.load(wait)?;
        let (on_file, guess) = {
            let state = self.state.read();
            let on_file = state.on_file.unwrap_or(0);
            if let Some(n) = state.tail.partition_point(&is_before).checked_sub(1) {
                return Ok(Some((on_file + n as u32, state.tail[n])));
            }
            let count = f64::from(on_file) + state.tail.len() as f64;
            (on_file, state.last.map_or(0.0, |last| guess(&last) * count))
        };
        if on_file == 0 {
            return Ok(None);
        }
        // A cast from a number out of range, or from none, gives one in range.
        search(&*self.file.get()?, on_file, is_before, guess as u32, wait)
    }

    /// Entry number `n`, if there are so many.
    pub fn get(&self, n: u32, wait: Wait) -> Result<Option<E>, IndexError> {
        self.load(wait)?;
        let on_file = {
            let state = self.state.read();
            let on_file = state.on_file.unwrap_or(0);
            if let Some(in_tail) = n.checked_sub(on_file) {
                return Ok(state.tail.get(in_tail as usize).copied());
            }
            on_file
        };
        debug_assert!(n < on_file);
        read_entry(&*self.file.get()?, n, wait).map(Some)
    }

    /// Shows all entries to `look`, until that fails. A damaged file may be of any length: no more than a page of it is held.
    pub fn try_for_each(&self, mut look: impl FnMut(E) -> Result<(), IndexError>) -> Result<(), IndexError> {
        self.load(Wait::ForDisk)?;
        let (on_file, tail) = {
            let state = self.state.read();
            (state.on_file.unwrap_or(0), state.tail.clone())
        };
        let file = self.file.get()?;
        let per_page = (PAGE_SIZE / E::SIZE) as u32;
        let mut buffer = [0; PAGE_SIZE];
        let mut next = 0;
        while next < on_file {
            let count = (on_file - next).min(per_page);
            let page = &mut buffer[..count as usize * E::SIZE];
            read(&*file, page, u64::from(next) * E::SIZE as u64, Wait::ForDisk)?;
            page.chunks_exact(E::SIZE).map(E::decode).try_for_each(&mut look)?;
            next += count;
        }
        tail.into_iter().try_for_each(look)
    }
}

/// How many of the first `count` entries are not Kafka's zeros, and the last one of them.
fn whole_entries<E: Entry>(file: &dyn DiskFile, count: u32, wait: Wait) -> Result<(u32, Option<E>), IndexError> {
    let Some(last) = count.checked_sub(1) else {
        return Ok((0, None));
    };
    let zero = E::decode(&[0; 16][..E::SIZE]);
    let last = read_entry::<E>(file, last, wait)?;
    if last != zero || count == 1 {
        return Ok((count, Some(last)));
    }
    // Entries, then zeros. The first entry may well be zero itself.
    let (mut low, mut high) = (1, count);
    while low < high {
        let middle = low + (high - low) / 2;
        match read_entry::<E>(file, middle, wait)? == zero {
            true => high = middle,
            false => low = middle + 1,
        }
    }
    let last = read_entry::<E>(file, low - 1, wait)?;
    // A file of nothing but zeros has no entry: one that says so little is not missed.
    Ok(if last == zero { (0, None) } else { (low, Some(last)) })
}

/// The last of `count` entries for which `is_before` holds. Keys grow evenly, mostly, so that the page around the `guess`
/// or the next one has it.
fn search<E: Entry>(
    file: &dyn DiskFile,
    count: u32,
    is_before: impl Fn(&E) -> bool,
    guess: u32,
    wait: Wait,
) -> Result<Option<(u32, E)>, IndexError> {
    let per_page = (PAGE_SIZE / E::SIZE) as u32;
    let pages = count.div_ceil(per_page);
    // The entry is in these pages, or it is `found`.
    let (mut low, mut high) = (0, pages);
    let mut found = None;
    let mut page = (guess / per_page).min(pages - 1);
    let mut is_near = true;
    let mut buffer = [0; PAGE_SIZE];
    while low < high {
        let first = page * per_page;
        let len = (count - first).min(per_page) as usize;
        let bytes = &mut buffer[..len * E::SIZE];
        read(file, bytes, u64::from(first) * E::SIZE as u64, wait)?;
        let entry = |n: usize| E::decode(&bytes[n * E::SIZE..][..E::SIZE]);
        if !is_before(&entry(0)) {
            high = page;
        } else if is_before(&entry(len - 1)) {
            found = Some((first + len as u32 - 1, entry(len - 1)));
            low = page + 1;
        } else {
            let (mut low, mut high) = (1, len - 1);
            while low < high {
                let middle = low + (high - low) / 2;
                match is_before(&entry(middle)) {
                    true => low = middle + 1,
                    false => high = middle,
                }
            }
            return Ok(Some((first + low as u32 - 1, entry(low - 1))));
        }
        page = match std::mem::replace(&mut is_near, false) {
            true if page >= low => high.saturating_sub(1),
            true => low,
            false => low + (high - low) / 2,
        };
    }
    Ok(found)
}

fn read_entry<E: Entry>(file: &dyn DiskFile, n: u32, wait: Wait) -> Result<E, IndexError> {
    let mut bytes = [0; 16];
    read(file, &mut bytes[..E::SIZE], u64::from(n) * E::SIZE as u64, wait)?;
    Ok(E::decode(&bytes[..E::SIZE]))
}

fn read(file: &dyn DiskFile, buffer: &mut [u8], position: u64, wait: Wait) -> Result<(), IndexError> {
    let read = match wait {
        Wait::ForDisk => file.read_exact_at(buffer, position).map(|()| true),
        Wait::Never => file.read_exact_cached_at(buffer, position),
    };
    match read {
        Ok(true) => Ok(()),
        Ok(false) => Err(IndexError::WouldBlock),
        // Truncated since it was looked at.
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
            Err(IndexError::Corrupt("the index is shorter than it was".to_owned()))
        }
        Err(error) => Err(error.into()),
    }
}

/// All that a `try_for_each` shows.
#[cfg(test)]
pub fn collect<T>(
    show: impl FnOnce(&mut dyn FnMut(T) -> Result<(), IndexError>) -> Result<(), IndexError>,
) -> Result<Vec<T>, IndexError> {
    let mut all = Vec::new();
    show(&mut |entry| {
        all.push(entry);
        Ok(())
    })?;
    Ok(all)
}
