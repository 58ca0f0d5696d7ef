//! `LogSlice`: bytes of a segment that a fetch will send, before they are read.
//!
//! A slice keeps its file open: it stays readable when the segment is deleted meanwhile. Only a truncation, which on a
//! leader never reaches below what consumers may read, can take the bytes away; reading then says so.

use std::fmt;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Weak};

use bytes::BytesMut;

use crate::storage::disk::{DiskFile, is_disk_failure};
use crate::storage::log::Log;

/// A range of a segment's file.
#[derive(Clone)]
pub struct LogSlice {
    /// `None` in the slice that is empty for want of a segment.
    file: Option<Arc<dyn DiskFile>>,
    position: u64,
    len: usize,
    /// To be told when the disk fails under the file.
    log: Weak<Log>,
}

impl LogSlice {
    pub(crate) fn new(file: Arc<dyn DiskFile>, position: u64, len: usize) -> LogSlice {
        LogSlice { file: Some(file), position, len, log: Weak::new() }
    }

    pub fn empty() -> LogSlice {
        LogSlice { file: None, position: 0, len: 0, log: Weak::new() }
    }

    /// The log of which it is, which fails with the disk when the slice is read.
    pub(crate) fn of(self, log: Weak<Log>) -> LogSlice {
        LogSlice { log, ..self }
    }

    /// The bytes could not be read, or sent. If it is the disk's fault, its log directory goes offline.
    pub fn note_failure(&self, error: &io::Error) {
        if is_disk_failure(error)
            && let Some(log) = self.log.upgrade()
        {
            log.disk_failed(error);
        }
    }

    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Where the slice starts in its file; for `sendfile`.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// The first `len` bytes of it.
    pub fn truncated(mut self, len: usize) -> LogSlice {
        self.len = self.len.min(len);
        self
    }

    /// Leaves out the first `len` bytes of it.
    pub fn advance(&mut self, len: usize) {
        let len = len.min(self.len);
        self.position += len as u64;
        self.len -= len;
    }

    /// The file's descriptor, to `sendfile` from; `None` where there is none.
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.file.as_ref()?.fd()
    }

    /// Reads the slice into `buffer`, which has its length; may wait for the disk.
    pub fn read(&self, buffer: &mut [u8]) -> io::Result<()> {
        assert_eq!(buffer.len(), self.len, "the buffer is as long as the slice");
        match &self.file {
            Some(file) => file.read_exact_at(buffer, self.position).inspect_err(|error| self.note_failure(error)),
            None => Ok(()),
        }
    }

    /// Reads the slice into `buffer`, which has its length, if that needs no waiting for the disk; returns whether it
    /// did.
    pub fn read_cached(&self, buffer: &mut [u8]) -> io::Result<bool> {
        assert_eq!(buffer.len(), self.len, "the buffer is as long as the slice");
        match &self.file {
            Some(file) => file.read_exact_cached_at(buffer, self.position),
            None => Ok(true),
        }
    }

    /// Appends all bytes of the slice to `buffer`; may wait for the disk.
    pub fn read_into(&self, buffer: &mut BytesMut) -> io::Result<()> {
        let start = buffer.len();
        buffer.resize(start + self.len, 0);
        self.read(&mut buffer[start..]).inspect_err(|_| buffer.truncate(start))
    }

    /// Whether the slice can probably be sent without waiting for the disk: its first and last byte are in memory.
    pub fn is_cached(&self) -> io::Result<bool> {
        let Some(file) = &self.file else { return Ok(true) };
        if self.len == 0 {
            return Ok(true);
        }
        let mut byte = [0];
        for position in [self.position + self.len as u64 - 1, self.position] {
            if file.read_cached_at(&mut byte, position)?.is_none() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Brings the slice into memory by reading it; for a thread that may wait.
    pub fn read_ahead(&self) -> io::Result<()> {
        let Some(file) = &self.file else { return Ok(()) };
        let mut buffer = vec![0; self.len.min(256 << 10)];
        let mut done = 0;
        while done < self.len {
            let part = buffer.len().min(self.len - done);
            let read = file.read_at(&mut buffer[..part], self.position + done as u64);
            match read.inspect_err(|error| self.note_failure(error))? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                n => done += n,
            }
        }
        Ok(())
    }
}

impl fmt::Debug for LogSlice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LogSlice").field("position", &self.position).field("len", &self.len).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::disk::{OpenMode, RealDisk};

    #[test]
    fn reads_after_the_file_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        let disk = RealDisk::new();
        let path = dir.path().join("0.log");
        let file = disk.open(&path, OpenMode::Create).unwrap();
        file.write_all_at(b"0123456789", 0).unwrap();
        let slice = LogSlice::new(file, 3, 4);
        disk.remove_file(&path).unwrap();

        let mut buffer = BytesMut::from(&b"x"[..]);
        slice.read_into(&mut buffer).unwrap();
        assert!(slice.is_cached().unwrap());
        assert_eq!(&buffer[..], b"x3456");
        let mut cached = [0; 4];
        assert!(slice.read_cached(&mut cached).unwrap());
        assert_eq!(&cached, b"3456");
        assert!(slice.fd().is_some());
        slice.read_ahead().unwrap();
        assert_eq!(slice.clone().truncated(2).len(), 2);
    }

    #[test]
    fn says_when_the_bytes_were_truncated_away() {
        let dir = tempfile::tempdir().unwrap();
        let file = RealDisk::new().open(&dir.path().join("0.log"), OpenMode::Create).unwrap();
        file.write_all_at(b"0123456789", 0).unwrap();
        let slice = LogSlice::new(file.clone(), 3, 4);
        file.set_len(5).unwrap();

        let mut buffer = BytesMut::new();
        assert_eq!(slice.read_into(&mut buffer).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        assert_eq!(slice.read_cached(&mut [0; 4]).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        assert!(slice.read_ahead().is_err());
        assert!(buffer.is_empty());
    }
}
