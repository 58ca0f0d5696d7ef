//! `LogSegment`: one stretch of a log, in a file of batches and its indexes.
//!
//! Owns the files that carry the segment's base offset in their name. Only the last segment of a log is written to, by
//! one thread at a time, under the log's lock; any number of threads read it meanwhile. What they see grows by
//! [`LogSegment::publish`], after the bytes are written.
//!
//! Indexes are hints: whatever they say is checked against the batch they point at, and a segment whose index lies is
//! read from its start until the index was built anew. What is no batch in a file that was trusted is passed over by
//! readers ([`damage`]).

mod damage;
mod last_index_entry;
mod read;
mod rebuild;

use std::fmt;
use std::io::{self, IoSlice};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;

use crate::record::batch::NO_TIMESTAMP;
use crate::storage::disk::DiskFile;
use crate::storage::file_cache::{CachedFile, Directory, FileCache};
use crate::storage::file_name::{FileKind, FileName, FileState};
use crate::storage::index_file::IndexError;
use crate::storage::log::{ReadError, Wait};
use crate::storage::offset_index::{OffsetIndex, OffsetPosition};
use crate::storage::scan::max_offset;
use crate::storage::segment::damage::Damage;
pub(super) use crate::storage::segment::last_index_entry::LastIndexEntry;
use crate::storage::segment::rebuild::Attempts;
pub(super) use crate::storage::segment::rebuild::IndexRebuild;
use crate::storage::time_index::{TimeIndex, TimestampEntry};
use crate::storage::txn_index::{self, AbortedTxn, TransactionIndex, TxnIndexError};
use crate::types::Offset;

/// Where a batch lies in its segment.
#[derive(Clone, Copy, Debug)]
pub(super) struct BatchPosition {
    pub base_offset: Offset,
    pub last_offset: Offset,
    pub position: u64,
    pub size: u64,
}

/// See the module's documentation.
pub(super) struct LogSegment {
    base_offset: Offset,
    found: FilesFound,
    files: Arc<FileCache>,
    dir: Arc<Directory>,
    log: Arc<CachedFile>,
    offset_index: OffsetIndex,
    time_index: TimeIndex,
    txn_index: Mutex<TxnIndexSlot>,
    /// Bytes that readers may see.
    size: AtomicU64,
    max_timestamp: Mutex<MaxTimestamp>,
    /// An index was caught lying, or is missing: it is not to be asked.
    distrusts_index: AtomicBool,
    /// See [`IndexRebuild`].
    rebuilds: Mutex<Attempts>,
    damage: Damage,
    /// See [`Self::reserved`].
    reserved: AtomicU64,
    /// Held while blocks are reserved or given back. Whether the segment takes no more, so that none are reserved.
    reserving_is_over: Mutex<bool>,
}

/// Most segments have no transaction index, and most of those that have are never asked for it.
enum TxnIndexSlot {
    Absent,
    OnDisk,
    Open(Box<TransactionIndex>),
}

/// The largest timestamp of a segment, and the last offset of its batch.
#[derive(Clone, Copy)]
enum MaxTimestamp {
    /// The time index's last entry tells, if it does not lie.
    NotRead,
    /// `None`: no record has one.
    Known(Option<TimestampEntry>),
}

/// Which files of a segment were found in its directory.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FilesFound {
    pub offset_index: bool,
    pub time_index: bool,
    pub txn_index: bool,
}

impl LogSegment {
    /// Makes the files of a new, empty segment; remains of an earlier one are emptied.
    pub fn create(files: &Arc<FileCache>, dir: &Arc<Directory>, base_offset: Offset) -> io::Result<LogSegment> {
        LogSegment::create_in_state(files, dir, base_offset, FileState::InUse)
    }

    /// Makes the files of a segment that compaction is about to write.
    pub fn create_cleaned(files: &Arc<FileCache>, dir: &Arc<Directory>, base_offset: Offset) -> io::Result<LogSegment> {
        LogSegment::create_in_state(files, dir, base_offset, FileState::Cleaned)
    }

    fn create_in_state(
        files: &Arc<FileCache>,
        dir: &Arc<Directory>,
        base_offset: Offset,
        state: FileState,
    ) -> io::Result<LogSegment> {
        let name = |kind| FileName::new(base_offset, kind).with_state(state);
        let file = |kind| files.file(dir, name(kind), true);
        let log = file(FileKind::Log);
        let open = log.get()?;
        if open.file_len()? > 0 {
            open.set_len(0)?;
            log.written();
        }
        let offset_index = OffsetIndex::new(file(FileKind::OffsetIndex), base_offset);
        offset_index.reset()?;
        let time_index = TimeIndex::new(file(FileKind::TimeIndex), base_offset);
        time_index.reset()?;
        log.disk().remove_if_exists(&name(FileKind::TxnIndex).path_in(&dir.path()))?;
        Ok(LogSegment {
            base_offset,
            found: FilesFound { offset_index: true, time_index: true, txn_index: false },
            files: files.clone(),
            dir: dir.clone(),
            log,
            offset_index,
            time_index,
            txn_index: Mutex::new(TxnIndexSlot::Absent),
            size: AtomicU64::new(0),
            max_timestamp: Mutex::new(MaxTimestamp::Known(None)),
            distrusts_index: AtomicBool::new(false),
            rebuilds: Mutex::default(),
            damage: Damage::default(),
            reserved: AtomicU64::new(0),
            reserving_is_over: Mutex::new(false),
        })
    }

    /// A segment whose log file is there, `size` bytes long. Nothing is opened.
    pub fn existing(
        files: &Arc<FileCache>,
        dir: &Arc<Directory>,
        base_offset: Offset,
        size: u64,
        found: FilesFound,
    ) -> LogSegment {
        let file = |kind, found: bool| files.file(dir, FileName::new(base_offset, kind), !found);
        let log = file(FileKind::Log, true);
        LogSegment {
            base_offset,
            found,
            files: files.clone(),
            dir: dir.clone(),
            offset_index: OffsetIndex::existing(file(FileKind::OffsetIndex, found.offset_index), base_offset),
            time_index: TimeIndex::existing(file(FileKind::TimeIndex, found.time_index), base_offset),
            log,
            txn_index: Mutex::new(if found.txn_index { TxnIndexSlot::OnDisk } else { TxnIndexSlot::Absent }),
            size: AtomicU64::new(size),
            max_timestamp: Mutex::new(MaxTimestamp::NotRead),
            distrusts_index: AtomicBool::new(size > 0 && !(found.offset_index && found.time_index)),
            rebuilds: Mutex::default(),
            damage: Damage::default(),
            reserved: AtomicU64::new(0),
            reserving_is_over: Mutex::new(false),
        }
    }

    pub fn base_offset(&self) -> Offset {
        self.base_offset
    }

    /// Bytes that are readable.
    pub fn size(&self) -> u64 {
        self.size.load(Ordering::Acquire)
    }

    pub fn file(&self) -> io::Result<Arc<dyn DiskFile>> {
        self.log.get()
    }

    pub fn offset_index(&self) -> &OffsetIndex {
        &self.offset_index
    }

    pub fn time_index(&self) -> &TimeIndex {
        &self.time_index
    }

    pub fn had_offset_index(&self) -> bool {
        self.found.offset_index
    }

    pub fn had_time_index(&self) -> bool {
        self.found.time_index
    }

    /// Whether the indexes can be added to if the segment ends at `end`.
    pub fn has_sound_indexes(&self, end: Offset) -> io::Result<bool> {
        let last = self.check_indexes(Some(end)).and_then(|()| self.offset_index.last(Wait::ForDisk));
        match last {
            Ok(last) => Ok(!self.distrusts_index() && last.is_none_or(|last| last.offset < end)),
            Err(IndexError::Corrupt(_)) => Ok(false),
            Err(error) => Err(error.into_io()),
        }
    }

    /// Whether the indexes can be those of this segment, which ends at `end`, if that is known: all their entries ascend and lie
    /// within it.
    pub fn check_indexes(&self, end: Option<Offset>) -> Result<(), IndexError> {
        let size = self.size();
        let corrupt = |reason: &str| Err(IndexError::Corrupt(reason.to_owned()));
        let mut last: Option<OffsetPosition> = None;
        self.offset_index.try_for_each(|entry| {
            if last.is_some_and(|last| last.offset >= entry.offset || last.position >= entry.position) {
                return corrupt("its entries do not ascend");
            }
            last = Some(entry);
            Ok(())
        })?;
        if last.is_some_and(|last| u64::from(last.position) >= size) {
            return corrupt("it reaches behind the segment's end");
        }
        let mut last: Option<TimestampEntry> = None;
        self.time_index.try_for_each(|entry| {
            if last.is_some_and(|last| last.offset > entry.offset || last.timestamp >= entry.timestamp) {
                return corrupt("the entries of the time index do not ascend");
            }
            last = Some(entry);
            Ok(())
        })?;
        if size == 0 && last.is_some() {
            return corrupt("the time index of an empty segment has entries");
        }
        self.time_index.complete_last(end, Wait::ForDisk).map(drop)
    }

    /// The inner error says why the transaction index cannot be right.
    pub fn check_txn_index(&self) -> io::Result<Result<(), String>> {
        let path = FileName::new(self.base_offset, FileKind::TxnIndex).path_in(&self.dir.path());
        let len = self.log.disk().info(&path)?.len;
        if len % txn_index::ENTRY_SIZE as u64 != 0 {
            return Ok(Err(format!("{len} bytes are no whole number of entries")));
        }
        match self.with_txn_index(false, |index| index.map_or(Ok(()), |index| index.sanity_check())) {
            Err(TxnIndexError::Io(error)) => Err(error),
            Err(error) => Ok(Err(error.to_string())),
            Ok(()) => Ok(Ok(())),
        }
    }

    // --- writing, under the log's lock ---------------------------------------------------------------------------

    /// Writes behind what is readable; [`Self::publish`] then makes it so. After an error the bytes behind the
    /// readable ones are undefined.
    pub fn write(&self, buffers: &mut [IoSlice<'_>]) -> io::Result<()> {
        let file = self.log.get()?;
        self.log.written();
        let result = file.write_all_vectored_at(buffers, self.size());
        self.log.written();
        result
    }

    /// Lets readers see the first `size` bytes.
    pub fn publish(&self, size: u64) {
        self.size.store(size, Ordering::Release);
    }

    /// Cuts off what is behind the readable bytes: what a failed write has left, and blocks that were reserved.
    pub fn discard_unpublished(&self) -> io::Result<()> {
        let _reserving = self.reserving_is_over.lock();
        self.give_back(self.size())
    }

    /// Notes a batch's timestamp.
    pub fn observe_timestamp(&self, entry: TimestampEntry) -> Result<(), IndexError> {
        if entry.offset < self.base_offset {
            return Ok(());
        }
        let known = self.max_timestamp()?;
        if known.is_none_or(|known| entry.timestamp > known.timestamp) && entry.timestamp > NO_TIMESTAMP {
            *self.max_timestamp.lock() = MaxTimestamp::Known(Some(entry));
        }
        Ok(())
    }

    /// Adds entries to both indexes for the batch at `position` that ends at `last_offset`.
    pub fn append_index_entries(&self, last_offset: Offset, position: u64) -> Result<(), IndexError> {
        if !self.can_index(last_offset) {
            return Ok(());
        }
        // A file that is longer than this was not written by a broker; its end is found by walking.
        if position <= i32::MAX as u64 {
            self.offset_index.append(last_offset, position as u32)?;
        }
        self.append_max_timestamp()
    }

    /// An index counts from the segment's name, which may be a wrong one, and no further than [`max_offset`].
    pub(super) fn can_index(&self, offset: Offset) -> bool {
        (self.base_offset..=max_offset(self.base_offset)).contains(&offset)
    }

    fn append_max_timestamp(&self) -> Result<(), IndexError> {
        match self.max_timestamp()? {
            Some(entry) if self.can_index(entry.offset) => self.time_index.append_if_larger(entry),
            Some(_) | None => Ok(()),
        }
    }

    /// The segment takes no more, or the log is closed: completes and trims the indexes.
    pub fn seal(&self) -> Result<(), IndexError> {
        self.append_max_timestamp()?;
        self.offset_index.trim()?;
        self.time_index.trim()
    }

    /// No more is reserved, and given back is what was behind the end of the file.
    pub fn end_reserving(&self) -> io::Result<()> {
        let mut is_over = self.reserving_is_over.lock();
        *is_over = true;
        match self.reserved() > self.size() {
            true => self.give_back(self.size()),
            false => Ok(()),
        }
    }

    /// It is written to again, or still.
    pub fn resume_reserving(&self) {
        *self.reserving_is_over.lock() = false;
    }

    /// Cuts the file off, and with it what is reserved.
    fn give_back(&self, size: u64) -> io::Result<()> {
        self.log.get()?.set_len(size)?;
        self.reserved.store(0, Ordering::Release);
        Ok(())
    }

    pub fn append_aborted(&self, aborted: &AbortedTxn) -> Result<(), TxnIndexError> {
        self.with_txn_index(true, |index| index.map_or(Ok(()), |index| index.append(aborted)))
    }

    /// Removes the aborted transactions whose marker is at or above `offset`.
    pub fn discard_aborted(&self, offset: Offset) -> Result<(), TxnIndexError> {
        self.with_txn_index(false, |index| index.map_or(Ok(()), |index| index.truncate_to(offset)))
    }

    /// Removes everything from `position`, where the batch that begins at `offset` or the first behind it stands. Indexes that
    /// lie are left to be built anew. Returns whether the transaction index is to be: it was damaged, and is gone.
    pub fn truncate(&self, offset: Offset, position: u64) -> Result<bool, ReadError> {
        if !self.distrusts_index() {
            match self.truncate_indexes(offset, position) {
                Err(IndexError::Corrupt(reason)) => self.distrust(&reason),
                truncated => truncated.map_err(|error| self.index_damaged(error))?,
            }
        }
        let txn_index = self.with_txn_index(false, |index| index.map_or(Ok(()), |index| index.truncate_to(offset)));
        let lacks_txn_index = match txn_index.map_err(|error| self.txn_damaged(error)) {
            Err(error @ ReadError::Corrupt { .. }) => {
                tracing::warn!(path = %self.log.path().display(), %error, "a transaction index is wrong; making it anew");
                self.reset_txn_index()?;
                true
            }
            truncated => {
                truncated?;
                false
            }
        };
        self.damage.forget(|| -> io::Result<()> {
            let _reserving = self.reserving_is_over.lock();
            self.publish(position);
            self.give_back(position)?;
            self.log.written();
            Ok(())
        })?;
        let max_timestamp = self.find_max_timestamp()?;
        *self.max_timestamp.lock() = MaxTimestamp::Known(max_timestamp);
        Ok(lacks_txn_index)
    }

    fn truncate_indexes(&self, offset: Offset, position: u64) -> Result<(), IndexError> {
        // Of what is damaged behind the last batch that stays there may be entries of lower offsets.
        let entry = self.offset_index.first_at(position, Wait::ForDisk)?;
        let first_indexed = entry.map_or(offset, |entry| entry.offset.min(offset));
        self.offset_index.truncate_to(first_indexed)?;
        self.time_index.truncate_to(first_indexed)
    }

    /// As [`Self::truncate`], but for the transaction index: for a recovery, which builds that anew.
    pub fn cut_off(&self, offset: Offset, position: u64) -> Result<(), ReadError> {
        self.reset_txn_index()?;
        self.truncate(offset, position).map(drop)
    }

    /// The log file was replaced by one of this size.
    pub fn replaced(&self, size: u64) {
        self.damage.forget(|| {
            self.log.reopen();
            self.publish(size);
        });
    }

    /// Empties the indexes, to be built anew.
    pub fn reset_indexes(&self) -> Result<(), ReadError> {
        self.offset_index.reset()?;
        self.time_index.reset()?;
        *self.max_timestamp.lock() = MaxTimestamp::Known(None);
        self.distrusts_index.store(false, Ordering::Release);
        Ok(())
    }

    /// Removes the transaction index, to build it anew.
    pub fn reset_txn_index(&self) -> io::Result<()> {
        let removed = self.with_txn_index(false, |index| index.map_or(Ok(()), |index| Ok(index.remove()?)));
        *self.txn_index.lock() = TxnIndexSlot::Absent;
        removed.map_err(txn_io)
    }

    // --- durability --------------------------------------------------------------------------------------------

    /// Makes the batches durable, and the aborted transactions in them. The other indexes of a segment that is written to
    /// are not: recovery checks and completes them.
    pub fn sync_log(&self) -> io::Result<()> {
        self.log.sync()?;
        self.sync_txn_index()
    }

    pub fn sync_txn_index(&self) -> io::Result<()> {
        self.with_txn_index(false, |index| index.map_or(Ok(()), |index| Ok(index.flush()?))).map_err(txn_io)
    }

    /// Makes everything durable.
    pub fn sync_all(&self) -> io::Result<()> {
        self.log.sync()?;
        self.offset_index.file().sync()?;
        self.time_index.file().sync()?;
        self.sync_txn_index()
    }

    /// Somebody else has written to the files, and perhaps did not sync them.
    pub fn written_by_others(&self) {
        for file in [&self.log, self.offset_index.file(), self.time_index.file()] {
            file.written();
        }
    }

    /// Starts writing out a stretch.
    pub fn start_writeback(&self, position: u64, len: u64) -> io::Result<()> {
        self.log.get()?.start_writeback(position, len)
    }

    /// Reserves blocks for so many bytes, counted from the start of the file, as long as the segment is written to: a job may come
    /// late.
    pub fn reserve(&self, len: u64) -> io::Result<()> {
        let is_over = self.reserving_is_over.lock();
        if !*is_over {
            self.log.get()?.reserve(len)?;
            self.reserved.fetch_max(len, Ordering::AcqRel);
        }
        Ok(())
    }

    /// How many bytes blocks are reserved for, counted from the start of the file.
    pub fn reserved(&self) -> u64 {
        self.reserved.load(Ordering::Acquire)
    }

    /// Renames all files.
    pub fn rename(&self, state: FileState) -> io::Result<()> {
        // Found by the log's name, if it was not used yet.
        self.with_txn_index(false, |_| Ok(())).map_err(txn_io)?;
        self.log.rename(state)?;
        self.offset_index.file().rename(state)?;
        self.time_index.file().rename(state)?;
        self.with_txn_index(false, |index| index.map_or(Ok(()), |index| Ok(index.rename(state)?))).map_err(txn_io)
    }

    /// Whether it was put in the place of others, and has not got their names yet: not all of them.
    pub fn is_swap(&self) -> bool {
        let is_swap = |file: &Arc<CachedFile>| file.name().state == FileState::Swap;
        let has_txn_index = match &*self.txn_index.lock() {
            TxnIndexSlot::Open(index) => index.state() == FileState::Swap,
            TxnIndexSlot::Absent | TxnIndexSlot::OnDisk => false,
        };
        has_txn_index || [&self.log, self.offset_index.file(), self.time_index.file()].into_iter().any(is_swap)
    }

    /// Removes the file with the batches.
    pub fn remove_log(&self) -> io::Result<()> {
        self.log.remove()
    }

    /// Removes all files.
    pub fn remove(&self) -> io::Result<()> {
        self.log.remove()?;
        self.offset_index.file().remove()?;
        self.time_index.file().remove()?;
        self.with_txn_index(false, |index| index.map_or(Ok(()), |index| Ok(index.remove()?))).map_err(txn_io)
    }

    /// Makes the files as old as those that they replace.
    pub fn set_modified(&self, modified_ms: i64) -> io::Result<()> {
        for file in [&self.log, self.offset_index.file(), self.time_index.file()] {
            file.get()?.set_modified(modified_ms)?;
        }
        Ok(())
    }

    /// When the log file was last written to, in milliseconds since 1970.
    pub fn modified_ms(&self) -> io::Result<i64> {
        Ok(self.log.disk().info(&self.log.path())?.modified_ms)
    }

    /// The largest timestamp of its records, or when it was last written to, if they have none: how old it is.
    pub fn largest_timestamp_ms(&self) -> io::Result<i64> {
        match self.max_timestamp() {
            Ok(Some(max)) => Ok(max.timestamp),
            Ok(None) | Err(IndexError::Corrupt(_)) => self.modified_ms(),
            Err(error) => Err(error.into_io()),
        }
    }

    /// Whether a transaction may have been aborted by a marker in this segment.
    pub fn has_txn_index(&self) -> bool {
        !matches!(*self.txn_index.lock(), TxnIndexSlot::Absent)
    }

    fn with_txn_index<T>(
        &self,
        create: bool,
        act: impl FnOnce(Option<&mut TransactionIndex>) -> Result<T, TxnIndexError>,
    ) -> Result<T, TxnIndexError> {
        let mut slot = self.txn_index.lock();
        if matches!(*slot, TxnIndexSlot::Absent) && !create {
            return act(None);
        }
        if !matches!(*slot, TxnIndexSlot::Open(_)) {
            let index = TransactionIndex::open(&self.files, &self.dir, self.log.name())?;
            *slot = TxnIndexSlot::Open(Box::new(index));
        }
        match &mut *slot {
            TxnIndexSlot::Open(index) => act(Some(index)),
            TxnIndexSlot::Absent | TxnIndexSlot::OnDisk => unreachable!("it was just opened"),
        }
    }

    fn txn_damaged(&self, error: TxnIndexError) -> ReadError {
        match error {
            TxnIndexError::WouldBlock => ReadError::WouldBlock,
            TxnIndexError::Io(error) => ReadError::Io(error),
            TxnIndexError::Corrupt { position, .. } | TxnIndexError::UnknownVersion { position, .. } => {
                ReadError::Corrupt { segment_base_offset: self.base_offset, position, reason: error.to_string() }
            }
        }
    }
}

impl fmt::Debug for LogSegment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LogSegment").field("base_offset", &self.base_offset.0).finish_non_exhaustive()
    }
}

/// As an error of the disk, where an index that is only written to cannot be found damaged.
pub(super) fn txn_io(error: TxnIndexError) -> io::Error {
    match error {
        TxnIndexError::Io(error) => error,
        error => io::Error::new(io::ErrorKind::InvalidData, error),
    }
}
