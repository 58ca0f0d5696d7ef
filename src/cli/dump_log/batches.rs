//! The batches of a log file as `kafka-dump-log` sees them: by their sizes alone.
//!
//! Unlike a scan of the storage layer this shows what is there: a wrong checksum or a strange magic are printed, not
//! refused. What does not look like a batch ends the walk.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::cli::dump_log::DumpError;
use crate::record::batch::{HEADER_SIZE, LOG_OVERHEAD, RecordBatch};
use crate::storage::disk::{Disk, DiskFile, OpenMode};

/// Up to and with the magic: what every format has.
const SIZE_UP_TO_MAGIC: u64 = 17;
const MAGIC_AT: usize = 16;
/// The length that the smallest message of any format has.
const MIN_LENGTH: i32 = 14;
const LENGTH_AT: usize = 8;
/// What the length of a batch without records says.
const EMPTY_LENGTH: i32 = (HEADER_SIZE - LOG_OVERHEAD) as i32;
/// Bytes of a batch are asked for in such pieces: a length is not believed before they are there.
const READ_SIZE: usize = 1 << 20;

/// A log file that is read.
pub(super) struct LogFile {
    path: PathBuf,
    file: Arc<dyn DiskFile>,
    len: u64,
}

/// Walks over the batches of a stretch of a file.
pub(super) struct Batches<'a> {
    log: &'a LogFile,
    position: u64,
    end: u64,
    bytes: Vec<u8>,
}

/// A batch, and where it stands.
pub(super) struct FoundBatch<'a> {
    pub position: u64,
    /// As stored; below 2 the bytes are of an old format.
    pub magic: i8,
    /// With what its length says.
    pub size: u64,
    /// Of the batch, but for the magic, which is 2, if it was that or larger. At least a header, then, even if the length
    /// says less.
    pub bytes: &'a [u8],
}

impl LogFile {
    pub fn open(disk: &dyn Disk, path: &Path) -> Result<LogFile, DumpError> {
        let file = disk.open(path, OpenMode::Read).map_err(DumpError::reading(path))?;
        let len = file.file_len().map_err(DumpError::reading(path))?;
        Ok(LogFile { path: path.to_owned(), file, len })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn len(&self) -> u64 {
        self.len
    }

    /// The batches from `position` on that end within `size` bytes.
    pub fn batches(&self, position: u64, size: u64) -> Batches<'_> {
        Batches { log: self, position, end: self.len.min(position.saturating_add(size)), bytes: Vec::new() }
    }
}

impl Batches<'_> {
    /// Where the next batch begins, or would.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// The next batch; `None` where what is left is too short for one.
    pub fn next(&mut self) -> Result<Option<FoundBatch<'_>>, DumpError> {
        let position = self.position;
        let Some((magic, size)) = self.header()? else {
            return Ok(None);
        };
        self.read(position, size.max(header_size(magic)))?;
        self.position += size;
        if magic >= 2 {
            // The checksum does not cover it; what can be read of the batch is to be read.
            self.bytes[MAGIC_AT] = 2;
        }
        if size < header_size(magic) {
            self.bytes[LENGTH_AT..LENGTH_AT + 4].copy_from_slice(&EMPTY_LENGTH.to_be_bytes());
        }
        Ok(Some(FoundBatch { position, magic, size, bytes: &self.bytes }))
    }

    /// Passes over batches that end before `offset`. Returns the magic and the last offset of the batch that is next then.
    pub fn seek(&mut self, offset: i64) -> Result<Option<i64>, DumpError> {
        loop {
            let position = self.position;
            let Some((magic, size)) = self.header()? else {
                return Ok(None);
            };
            self.read(position, size.min(HEADER_SIZE as u64).max(header_size(magic)))?;
            let last_offset = last_offset(magic, &self.bytes);
            if last_offset >= offset {
                return Ok(Some(last_offset));
            }
            self.position += size;
        }
    }

    /// Passes over all that are left.
    pub fn pass(&mut self) -> Result<(), DumpError> {
        while let Some((_, size)) = self.header()? {
            self.position += size;
        }
        Ok(())
    }

    /// Magic and size of the batch at the current position, if a whole one stands there.
    fn header(&mut self) -> Result<Option<(i8, u64)>, DumpError> {
        let room = self.end.saturating_sub(self.position);
        if room <= SIZE_UP_TO_MAGIC {
            return Ok(None);
        }
        let mut header = [0; SIZE_UP_TO_MAGIC as usize];
        let path = &self.log.path;
        self.log.file.read_exact_at(&mut header, self.position).map_err(DumpError::reading(path))?;
        let length = i32::from_be_bytes(header[8..12].try_into().expect("four bytes"));
        if length < MIN_LENGTH {
            let reason = format!("at {} a record size of {length} is too small for any record", self.position);
            return Err(DumpError::damaged(path, reason));
        }
        let size = LOG_OVERHEAD as u64 + u64::from(length.unsigned_abs());
        Ok((size <= room).then_some((header[MAGIC_AT] as i8, size)))
    }

    fn read(&mut self, position: u64, size: u64) -> Result<(), DumpError> {
        self.bytes.clear();
        while (self.bytes.len() as u64) < size {
            let done = self.bytes.len();
            let part = READ_SIZE.min(size as usize - done);
            self.bytes.resize(done + part, 0);
            let read = self.log.file.read_exact_at(&mut self.bytes[done..], position + done as u64);
            read.map_err(DumpError::reading(&self.log.path))?;
        }
        Ok(())
    }
}

impl<'a> FoundBatch<'a> {
    /// Whether its length has room for a header.
    pub fn has_header(&self) -> bool {
        self.size >= header_size(self.magic)
    }

    /// The view of a batch of the current format, or of one that calls itself newer.
    pub fn view(&self, path: &Path) -> Result<RecordBatch<'a>, DumpError> {
        RecordBatch::parse(self.bytes)
            .map_err(|error| DumpError::damaged(path, format!("at {}: {error}", self.position)))
    }
}

/// Kafka reads the header of a batch whether or not the batch's length has room for it.
fn header_size(magic: i8) -> u64 {
    if magic < 2 { 0 } else { HEADER_SIZE as u64 }
}

/// Of the batch in `bytes`, which may be cut off behind its header. In an old format it is the first field.
fn last_offset(magic: i8, bytes: &[u8]) -> i64 {
    let base = i64::from_be_bytes(bytes[..8].try_into().expect("eight bytes"));
    match bytes.get(23..27) {
        Some(delta) if magic >= 2 => {
            base.wrapping_add(i32::from_be_bytes(delta.try_into().expect("four bytes")).into())
        }
        _ => base,
    }
}
