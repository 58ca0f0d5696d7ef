//! The indexes of a segment beside a walk over its batches: each takes the batches in order and keeps its place.
//!
//! One finding for each file: the first entry that is wrong, and how many are. The whole file is built anew, after all.

use std::io;
use std::path::Path;

use crate::record::batch::{BatchHeader, NO_TIMESTAMP};
use crate::record::control::ControlRecord;
use crate::record::record::Records;
use crate::storage::disk::Disk;
use crate::storage::file_name::FileName;
use crate::storage::scan::Frame;
use crate::storage::txn_index::{self, AbortedTxn};
use crate::storage::verify::{Finding, Remedy};
use crate::storage::{offset_index, time_index};
use crate::types::Offset;

/// Kafka maps an index with 31 bits.
const MAX_INDEX_SIZE: usize = i32::MAX as usize;

/// What is wrong in a file.
struct Wrong {
    file: FileName,
    first: Option<(Option<u64>, String)>,
    count: u64,
}

impl Wrong {
    fn new(file: FileName) -> Wrong {
        Wrong { file, first: None, count: 0 }
    }

    fn add(&mut self, position: impl Into<Option<u64>>, what: impl FnOnce() -> String) {
        self.count += 1;
        if self.first.is_none() {
            self.first = Some((position.into(), what()));
        }
    }

    fn finding(self) -> Option<Finding> {
        let (position, mut what) = self.first?;
        if self.count > 1 {
            what += &format!(" (the first of {} such)", self.count);
        }
        Some(Finding::fault(self.file, position, what, Remedy::Rebuild))
    }
}

/// The file's bytes, of which the last entry may be cut off, and what is wrong with it as a whole; none if it is not there.
pub(super) type Bytes = (Vec<u8>, Option<String>);

pub(super) fn read(disk: &dyn Disk, dir: &Path, name: FileName, exists: bool) -> io::Result<Bytes> {
    if !exists {
        return Ok((Vec::new(), None));
    }
    match disk.read_file(&name.path_in(dir), MAX_INDEX_SIZE) {
        Ok(bytes) => Ok((bytes, None)),
        Err(error) if error.kind() == io::ErrorKind::InvalidData => Ok((Vec::new(), Some(error.to_string()))),
        Err(error) => Err(error),
    }
}

/// Decodes entries, up to the zeros that Kafka fills an active index with, and to the first that does not ascend.
fn entries<T: PartialEq + Copy>(
    bytes: &[u8],
    size: usize,
    decode: impl Fn(&[u8]) -> T,
    ascends: impl Fn(&T, &T) -> bool,
    is_possible: impl Fn(&T) -> bool,
    wrong: &mut Wrong,
) -> Vec<T> {
    let rest = bytes.len() % size;
    if rest > 0 {
        wrong.add((bytes.len() - rest) as u64, || {
            format!("{} bytes are no whole number of entries of {size}", bytes.len())
        });
    }
    let zero = decode(&vec![0; size]);
    let mut entries: Vec<T> = bytes.chunks_exact(size).map(decode).collect();
    if entries.len() > 1 {
        let used = entries.iter().rposition(|entry| *entry != zero).map_or(0, |last| last + 1);
        entries.truncate(used);
    }
    let negative = entries.iter().position(|entry| !is_possible(entry));
    let falls = entries.windows(2).position(|pair| !ascends(&pair[0], &pair[1])).map(|at| at + 1);
    if let Some(at) = negative.into_iter().chain(falls).min() {
        wrong.add((at * size) as u64, || match Some(at) == negative {
            true => format!("entry {at} is negative"),
            false => format!("entry {at} does not ascend"),
        });
        entries.truncate(at);
    }
    entries
}

/// `.index`
pub(super) struct OffsetIndexCheck {
    base_offset: Offset,
    exists: bool,
    /// Relative offset and position.
    entries: Vec<(i32, i32)>,
    next: usize,
    /// What the last entry that was passed names: no batch of another entry may begin before it ends.
    named: Offset,
    wrong: Wrong,
}

impl OffsetIndexCheck {
    pub fn new(name: FileName, (bytes, unreadable): Bytes, exists: bool) -> OffsetIndexCheck {
        let mut wrong = Wrong::new(name);
        if let Some(what) = unreadable {
            wrong.add(None, || what);
        }
        let entries = entries(
            &bytes,
            offset_index::ENTRY_SIZE,
            offset_index::stored_entry,
            |a, b| a.0 < b.0 && a.1 < b.1,
            |entry| entry.0 >= 0 && entry.1 >= 0,
            &mut wrong,
        );
        OffsetIndexCheck { base_offset: name.base_offset, exists, entries, next: 0, named: Offset(-1), wrong }
    }

    /// A batch begins at `position`.
    pub fn batch(&mut self, position: u64, frame: &Frame) {
        while let Some((relative, at)) = self.entries.get(self.next).filter(|(_, at)| (*at as u64) <= position).copied()
        {
            let number = self.next;
            self.next += 1;
            let offset = self.base_offset.plus(relative.into());
            let file_position = (number * offset_index::ENTRY_SIZE) as u64;
            if (at as u64) < position {
                self.wrong.add(file_position, || format!("entry {number} points to {at}, where no batch begins"));
            } else if offset < frame.last_offset() {
                let last = frame.last_offset();
                self.wrong.add(file_position, || {
                    format!("entry {number} says {offset} for the batch at {at}, which ends at {last}")
                });
            } else if self.named >= frame.base_offset() {
                // Older brokers named the last of several batches; but not beyond the next entry's.
                let (named, base) = (self.named, frame.base_offset());
                self.wrong.add(file_position.saturating_sub(offset_index::ENTRY_SIZE as u64), || {
                    format!("the entry before entry {number} says {named}, which is not before {base}")
                });
            } else {
                self.named = offset;
            }
        }
    }

    /// Entries that point in there are no worse than it.
    pub fn damage(&mut self, from: u64, to: u64) {
        while let Some((_, at)) = self.entries.get(self.next).copied()
            && (at as u64) < to
        {
            let number = self.next;
            if (at as u64) < from {
                let file_position = (number * offset_index::ENTRY_SIZE) as u64;
                self.wrong.add(file_position, || format!("entry {number} points to {at}, where no batch begins"));
            }
            self.next += 1;
        }
    }

    pub fn finish(mut self, size: u64, is_damaged: bool) -> Option<Finding> {
        if !self.exists {
            return (size > 0).then(|| Finding::fault(self.wrong.file, None, "missing", Remedy::Rebuild));
        }
        for (number, (_, at)) in self.entries.iter().enumerate().skip(self.next) {
            if is_damaged && *at as u64 >= size {
                continue;
            }
            self.wrong.add((number * offset_index::ENTRY_SIZE) as u64, || {
                format!("entry {number} points to {at}, behind the last batch")
            });
        }
        self.wrong.finding()
    }
}

/// `.timeindex`
pub(super) struct TimeIndexCheck {
    base_offset: Offset,
    exists: bool,
    /// Timestamp and relative offset.
    entries: Vec<(i64, i32)>,
    next: usize,
    /// Of the batches so far.
    max_timestamp: i64,
    wrong: Wrong,
}

impl TimeIndexCheck {
    pub fn new(name: FileName, (bytes, unreadable): Bytes, exists: bool) -> TimeIndexCheck {
        let mut wrong = Wrong::new(name);
        if let Some(what) = unreadable {
            wrong.add(None, || what);
        }
        let entries = entries(
            &bytes,
            time_index::ENTRY_SIZE,
            time_index::stored_entry,
            |a, b| a.0 < b.0 && a.1 <= b.1,
            |entry| entry.1 >= 0,
            &mut wrong,
        );
        let base_offset = name.base_offset;
        TimeIndexCheck { base_offset, exists, entries, next: 0, max_timestamp: NO_TIMESTAMP, wrong }
    }

    pub fn batch(&mut self, frame: &Frame) {
        let before = self.max_timestamp;
        self.max_timestamp = before.max(frame.max_timestamp());
        while let Some((timestamp, relative)) = self.entries.get(self.next).copied() {
            let offset = self.base_offset.plus(relative.into());
            if offset > frame.last_offset() {
                break;
            }
            let number = self.next;
            self.next += 1;
            let position = (number * time_index::ENTRY_SIZE) as u64;
            if offset < frame.base_offset() {
                self.wrong.add(position, || format!("entry {number} names offset {offset}, which is in no batch"));
            } else if timestamp != frame.max_timestamp() {
                let found = frame.max_timestamp();
                self.wrong.add(position, || {
                    format!("entry {number} says {timestamp} for offset {offset}, whose batch says {found}")
                });
            } else if timestamp < before {
                self.wrong.add(position, || {
                    format!(
                        "entry {number} says that nothing up to {offset} is later than {timestamp}, but {before} is"
                    )
                });
            }
        }
    }

    /// `is_sealed`: the segment's largest timestamp is to be the last entry.
    pub fn finish(mut self, size: u64, is_sealed: bool, is_damaged: bool) -> Option<Finding> {
        if !self.exists {
            return (size > 0).then(|| Finding::fault(self.wrong.file, None, "missing", Remedy::Rebuild));
        }
        if is_damaged {
            // What it says of damaged batches cannot be told.
            return self.wrong.finding();
        }
        for (number, (_, relative)) in self.entries.iter().enumerate().skip(self.next) {
            let offset = self.base_offset.plus((*relative).into());
            self.wrong.add((number * time_index::ENTRY_SIZE) as u64, || {
                format!("entry {number} names offset {offset}, behind the last batch")
            });
        }
        let last = self.entries.last().map_or(NO_TIMESTAMP, |entry| entry.0);
        if is_sealed && self.max_timestamp > last && self.wrong.first.is_none() {
            let max = self.max_timestamp;
            let end = (self.entries.len() * time_index::ENTRY_SIZE) as u64;
            self.wrong.add(end, || format!("the segment's largest timestamp, {max}, is missing"));
        }
        self.wrong.finding()
    }
}

/// `.txnindex`
pub(super) struct TxnIndexCheck {
    entries: Vec<AbortedTxn>,
    next: usize,
    wrong: Wrong,
}

impl TxnIndexCheck {
    pub fn new(name: FileName, (bytes, unreadable): Bytes) -> TxnIndexCheck {
        let mut wrong = Wrong::new(name);
        if let Some(what) = unreadable {
            wrong.add(None, || what);
        }
        let (whole, rest) = bytes.as_chunks::<{ txn_index::ENTRY_SIZE }>();
        if !rest.is_empty() {
            wrong.add((bytes.len() - rest.len()) as u64, || {
                format!("{} bytes are no whole number of entries of {}", bytes.len(), txn_index::ENTRY_SIZE)
            });
        }
        let mut entries: Vec<AbortedTxn> = Vec::with_capacity(whole.len());
        for (number, entry) in whole.iter().enumerate() {
            let position = (number * txn_index::ENTRY_SIZE) as u64;
            match AbortedTxn::decode(entry) {
                Err(version) => wrong.add(position, || format!("entry {number} is of the unknown version {version}")),
                Ok(txn) if entries.last().is_some_and(|last| last.last_offset >= txn.last_offset) => {
                    wrong.add(position, || format!("entry {number} does not ascend"));
                }
                Ok(txn) if txn.last_offset < name.base_offset || txn.first_offset > txn.last_offset => {
                    wrong.add(position, || format!("entry {number} is of no marker of this segment"));
                }
                Ok(txn) => {
                    entries.push(txn);
                    continue;
                }
            }
            break;
        }
        TxnIndexCheck { entries, next: 0, wrong }
    }

    /// `aborted`: the transaction that the batch aborts, as far as that follows from the batches before. One that began before the
    /// log's start may be told otherwise, or not at all: a broker that started meanwhile had not read where it began.
    pub fn batch(&mut self, header: &BatchHeader, body: &[u8], aborted: Option<&AbortedTxn>, log_start_offset: Offset) {
        let mut is_indexed = false;
        while let Some(entry) = self.entries.get(self.next).copied() {
            if entry.last_offset > header.last_offset() {
                break;
            }
            let number = self.next;
            self.next += 1;
            // Compaction may have removed the marker; but what is there must be one.
            if entry.last_offset < header.base_offset() {
                continue;
            }
            let position = (number * txn_index::ENTRY_SIZE) as u64;
            if header.producer_id() != entry.producer_id || !aborts(header, body) {
                self.wrong.add(position, || {
                    format!(
                        "entry {number} says that {} aborts a transaction of producer {}, which it does not",
                        entry.last_offset, entry.producer_id
                    )
                });
            } else if let Some(aborted) = aborted
                && entry.first_offset > aborted.first_offset
                && aborted.first_offset >= log_start_offset
            {
                self.wrong.add(position, || {
                    format!(
                        "entry {number} says that a transaction began at {}; it began at {}",
                        entry.first_offset, aborted.first_offset
                    )
                });
            }
            is_indexed = true;
        }
        if let Some(aborted) = aborted
            && !is_indexed
            && aborted.first_offset >= log_start_offset
        {
            let position = (self.next * txn_index::ENTRY_SIZE) as u64;
            self.wrong.add(position, || {
                format!(
                    "the transaction of producer {} from {}, aborted at {}, is missing",
                    aborted.producer_id, aborted.first_offset, aborted.last_offset
                )
            });
        }
    }

    pub fn finish(mut self, is_damaged: bool) -> Option<Finding> {
        if !is_damaged && let Some(entry) = self.entries.get(self.next) {
            let position = (self.next * txn_index::ENTRY_SIZE) as u64;
            self.wrong.add(position, || format!("an entry names {}, behind the last batch", entry.last_offset));
        }
        self.wrong.finding()
    }
}

/// Whether a batch is a marker that aborts.
fn aborts(header: &BatchHeader, body: &[u8]) -> bool {
    if !header.is_control() {
        return false;
    }
    let record = Records::new(header, body).next().and_then(Result::ok);
    let parsed = record.and_then(|record| ControlRecord::parse(record.key?, record.value?).ok());
    matches!(parsed, Some(ControlRecord::EndTxn(marker)) if !marker.committed)
}
