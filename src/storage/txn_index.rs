//! The `.txnindex` file of a segment: the aborted transactions whose marker is in the segment (KIP-98).
//!
//! A reader that wants committed records only is told the aborted transactions in what it reads; they are looked up
//! here. Most segments have none, and then no file. Entries have ascending marker offsets:
//!
//! | at | size | field |
//! |---|---|---|
//! | 0 | 2 | version: 0 |
//! | 2 | 8 | producer id |
//! | 10 | 8 | first offset of the transaction |
//! | 18 | 8 | offset of its marker |
//! | 26 | 8 | last stable offset as the marker was written |
//!
//! Owns the file and nothing else; the log's lock orders appends and truncations, lookups may run beside them.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use thiserror::Error;

use crate::storage::disk::DiskFile;
use crate::storage::file_cache::{CachedFile, Directory, FileCache};
use crate::storage::file_name::{FileKind, FileName, FileState};
use crate::storage::log::Wait;
use crate::types::{Offset, ProducerId};

/// Bytes of an entry.
pub const ENTRY_SIZE: usize = 34;

/// The only version of entries there is.
pub const VERSION: i16 = 0;

/// How many entries a lookup reads at once.
const ENTRIES_PER_READ: usize = 120;

/// A transaction that was aborted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AbortedTxn {
    pub producer_id: ProducerId,
    pub first_offset: Offset,
    /// Offset of the marker.
    pub last_offset: Offset,
    /// Everything below was decided when the marker was written.
    pub last_stable_offset: Offset,
}

/// Why an index cannot be used; the segment's recovery builds it anew.
#[derive(Debug, Error)]
pub enum TxnIndexError {
    #[error("transaction index has an entry of unknown version {version} at byte {position}")]
    UnknownVersion { version: i16, position: u64 },
    #[error("transaction index is corrupt at byte {position}: {reason}")]
    Corrupt { position: u64, reason: &'static str },
    /// Only from calls that must not wait for the disk.
    #[error("the disk must be waited for")]
    WouldBlock,
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl AbortedTxn {
    pub fn encode(&self) -> [u8; ENTRY_SIZE] {
        let mut bytes = [0; ENTRY_SIZE];
        bytes[..2].copy_from_slice(&VERSION.to_be_bytes());
        let fields = [self.producer_id.0, self.first_offset.0, self.last_offset.0, self.last_stable_offset.0];
        for (field, place) in fields.iter().zip(bytes[2..].chunks_exact_mut(8)) {
            place.copy_from_slice(&field.to_be_bytes());
        }
        bytes
    }

    /// `Err`: the version, if it is not known.
    pub fn decode(bytes: &[u8; ENTRY_SIZE]) -> Result<AbortedTxn, i16> {
        match stored_version(bytes) {
            VERSION => Ok(AbortedTxn::stored(bytes)),
            version => Err(version),
        }
    }

    /// As the bytes say, whatever version they claim to be of.
    pub fn stored(bytes: &[u8; ENTRY_SIZE]) -> AbortedTxn {
        let long = |at: usize| i64::from_be_bytes(bytes[at..at + 8].try_into().expect("8 bytes"));
        AbortedTxn {
            producer_id: ProducerId(long(2)),
            first_offset: Offset(long(10)),
            last_offset: Offset(long(18)),
            last_stable_offset: Offset(long(26)),
        }
    }
}

/// The version that an entry claims to be of.
pub fn stored_version(bytes: &[u8; ENTRY_SIZE]) -> i16 {
    i16::from_be_bytes([bytes[0], bytes[1]])
}

/// See the module's documentation. A clone looks up what was there when it was made.
#[derive(Clone)]
pub struct TransactionIndex {
    file: Arc<CachedFile>,
    base_offset: Offset,
    /// Bytes of whole entries; what a crash left behind them is overwritten.
    len: u64,
    /// Marker offset of the last entry appended by this process.
    last_offset: Option<Offset>,
}

impl TransactionIndex {
    /// The index of the segment in `dir` whose log file has this name. The file is made by the first append.
    pub fn open(files: &Arc<FileCache>, dir: &Arc<Directory>, log: FileName) -> io::Result<TransactionIndex> {
        let base_offset = log.base_offset;
        let file = files.file(dir, FileName { kind: FileKind::TxnIndex, ..log }, true);
        let len = match file.disk().info(&file.path()) {
            Ok(info) => info.len - info.len % ENTRY_SIZE as u64,
            Err(error) if error.kind() == io::ErrorKind::NotFound => 0,
            Err(error) => return Err(error),
        };
        Ok(TransactionIndex { file, base_offset, len, last_offset: None })
    }

    pub fn path(&self) -> PathBuf {
        self.file.path()
    }

    pub fn state(&self) -> FileState {
        self.file.name().state
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Adds a transaction whose marker was just written. Not durable before [`Self::flush`]. Leaves nothing of it where it fails.
    pub fn append(&mut self, aborted: &AbortedTxn) -> Result<(), TxnIndexError> {
        if self.last_offset.is_some_and(|last| last >= aborted.last_offset) {
            return Err(TxnIndexError::Corrupt { position: self.len, reason: "offsets of markers do not ascend" });
        }
        let file = self.file.get()?;
        if let Err(error) = file.write_all_at(&aborted.encode(), self.len) {
            // A part of an entry is damage, for Kafka and for a look at the files, if nothing is appended over it.
            let _ = file.set_len(self.len);
            self.file.written();
            return Err(error.into());
        }
        self.file.written();
        self.len += ENTRY_SIZE as u64;
        self.last_offset = Some(aborted.last_offset);
        Ok(())
    }

    /// Makes the entries durable. If the file is new its name is durable once the directory was synced.
    pub fn flush(&self) -> io::Result<()> {
        self.file.sync()
    }

    /// Removes the transactions whose marker is at or above `offset`.
    pub fn truncate_to(&mut self, offset: Offset) -> Result<(), TxnIndexError> {
        let Some(file) = self.reader()? else { return Ok(()) };
        let position = self.first_at_or_above(&*file, offset, Wait::ForDisk)?;
        if position < self.len {
            self.cut(position)?;
        }
        Ok(())
    }

    /// Adds those aborted transactions to `found` that overlap offsets `fetch_offset` up to, without, `upper_bound`.
    /// Returns whether the search is over: if not, the next segment's index may have more.
    pub fn collect(
        &self,
        fetch_offset: Offset,
        upper_bound: Offset,
        wait: Wait,
        found: &mut Vec<AbortedTxn>,
    ) -> Result<bool, TxnIndexError> {
        let Some(file) = self.reader()? else { return Ok(false) };
        let start = self.first_at_or_above(&*file, fetch_offset, wait)?;
        let mut is_complete = false;
        self.scan(&*file, start, wait, |_, txn| {
            if txn.first_offset < upper_bound {
                found.push(*txn);
            }
            is_complete = txn.last_stable_offset >= upper_bound;
            Ok(!is_complete)
        })?;
        Ok(is_complete)
    }

    /// All entries, in order.
    pub fn all(&self) -> Result<Vec<AbortedTxn>, TxnIndexError> {
        let mut all = Vec::new();
        if let Some(file) = self.reader()? {
            self.scan(&*file, 0, Wait::ForDisk, |_, txn| {
                all.push(*txn);
                Ok(true)
            })?;
        }
        Ok(all)
    }

    /// Looks for obvious damage: entries of another version or of another segment.
    pub fn sanity_check(&self) -> Result<(), TxnIndexError> {
        let Some(file) = self.reader()? else { return Ok(()) };
        let base_offset = self.base_offset;
        self.scan(&*file, 0, Wait::ForDisk, |position, txn| match txn.last_offset < base_offset {
            true => Err(TxnIndexError::Corrupt { position, reason: "a marker lies before the segment" }),
            false => Ok(true),
        })
    }

    /// Gives the file another state, as the rest of its segment. That it is not there is no error.
    pub fn rename(&self, state: FileState) -> io::Result<()> {
        self.file.rename(state)
    }

    /// Removes the file. That it is not there is no error.
    pub fn remove(&self) -> io::Result<()> {
        self.file.remove()
    }

    fn reader(&self) -> io::Result<Option<Arc<dyn DiskFile>>> {
        match self.len {
            0 => Ok(None),
            _ => self.file.get().map(Some),
        }
    }

    fn cut(&mut self, len: u64) -> io::Result<()> {
        self.file.get()?.set_len(len)?;
        self.file.written();
        self.len = len;
        self.last_offset = None;
        Ok(())
    }

    /// Position of the first entry whose marker is at or above `offset`.
    fn first_at_or_above(&self, file: &dyn DiskFile, offset: Offset, wait: Wait) -> Result<u64, TxnIndexError> {
        let (mut low, mut high) = (0, self.len / ENTRY_SIZE as u64);
        while low < high {
            let middle = low + (high - low) / 2;
            let position = middle * ENTRY_SIZE as u64;
            let mut bytes = [0; ENTRY_SIZE];
            read(file, &mut bytes, position, wait)?;
            match decode_at(&bytes, position)?.last_offset < offset {
                true => low = middle + 1,
                false => high = middle,
            }
        }
        Ok(low * ENTRY_SIZE as u64)
    }

    /// Hands the entries from `position` on to `visit` for as long as it returns true.
    fn scan(
        &self,
        file: &dyn DiskFile,
        mut position: u64,
        wait: Wait,
        mut visit: impl FnMut(u64, &AbortedTxn) -> Result<bool, TxnIndexError>,
    ) -> Result<(), TxnIndexError> {
        let mut buffer = [0; ENTRY_SIZE * ENTRIES_PER_READ];
        while position < self.len {
            let wanted = (self.len - position).min(buffer.len() as u64) as usize;
            read(file, &mut buffer[..wanted], position, wait)?;
            for bytes in buffer[..wanted].as_chunks::<ENTRY_SIZE>().0 {
                if !visit(position, &decode_at(bytes, position)?)? {
                    return Ok(());
                }
                position += ENTRY_SIZE as u64;
            }
        }
        Ok(())
    }
}

fn read(file: &dyn DiskFile, buffer: &mut [u8], position: u64, wait: Wait) -> Result<(), TxnIndexError> {
    match wait {
        Wait::ForDisk => Ok(file.read_exact_at(buffer, position)?),
        Wait::Never if file.read_exact_cached_at(buffer, position)? => Ok(()),
        Wait::Never => Err(TxnIndexError::WouldBlock),
    }
}

fn decode_at(bytes: &[u8; ENTRY_SIZE], position: u64) -> Result<AbortedTxn, TxnIndexError> {
    AbortedTxn::decode(bytes).map_err(|version| TxnIndexError::UnknownVersion { version, position })
}

#[cfg(test)]
mod tests;
