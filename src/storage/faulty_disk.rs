//! A disk that fails when it is told to, for the tests of this layer.

use std::io::{self, IoSlice};
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

use parking_lot::Mutex;

use crate::storage::disk::{DirEntry, Disk, DiskFile, FileInfo, OpenMode, RealDisk, Space};

/// A call of the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    Read,
    Sync,
    SyncDir,
    Rename,
}

/// What is to happen before a call to a path; an error is its answer.
type Before = Arc<dyn Fn(Call, &Path) -> io::Result<()> + Send + Sync>;

/// What goes wrong.
#[derive(Default)]
pub struct Faults {
    /// Bytes that can still be written; then `ENOSPC`, after a part of the write. Negative: no limit.
    pub room: AtomicI64,
    pub syncs_fail: AtomicBool,
    pub syncs_panic: AtomicBool,
    /// Nothing gets another name, for want of room,
    pub renames_lack_room: AtomicBool,
    /// or nothing after so many more.
    pub renames_left: AtomicI64,
    pub reads_fail: AtomicBool,
    /// Reads that must not wait find nothing in memory.
    pub is_cold: AtomicBool,
    /// How many syncs of files there were.
    pub syncs: AtomicU64,
    before: Mutex<Option<Before>>,
}

impl Faults {
    /// Has `act` come before each call of these kinds. Of a file it is told the path by which that was opened.
    pub fn before(&self, act: impl Fn(Call, &Path) -> io::Result<()> + Send + Sync + 'static) {
        *self.before.lock() = Some(Arc::new(act));
    }

    fn come_before(&self, call: Call, path: &Path) -> io::Result<()> {
        let before = self.before.lock().clone();
        before.map_or(Ok(()), |before| before(call, path))
    }
}

/// The machine's file system, with faults.
pub struct FaultyDisk {
    faults: Arc<Faults>,
}

impl FaultyDisk {
    pub fn with_faults() -> (Arc<dyn Disk>, Arc<Faults>) {
        let faults =
            Arc::new(Faults { room: AtomicI64::new(-1), renames_left: AtomicI64::new(i64::MAX), ..Faults::default() });
        (Arc::new(FaultyDisk { faults: faults.clone() }), faults)
    }
}

impl Disk for FaultyDisk {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn DiskFile>> {
        let (file, path) = (RealDisk.open(path, mode)?, path.to_path_buf());
        Ok(Arc::new(FaultyFile { file, path, faults: self.faults.clone() }))
    }

    fn info(&self, path: &Path) -> io::Result<FileInfo> {
        RealDisk.info(path)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<DirEntry>> {
        RealDisk.list(dir)
    }

    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        RealDisk.create_dir_all(dir)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.faults.come_before(Call::Rename, from)?;
        let lacks_room = self.faults.renames_left.fetch_sub(1, Ordering::Relaxed) <= 0;
        match lacks_room || self.faults.renames_lack_room.load(Ordering::Relaxed) {
            true => Err(io::Error::from_raw_os_error(libc::ENOSPC)),
            false => RealDisk.rename(from, to),
        }
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        RealDisk.remove_file(path)
    }

    fn remove_dir_all(&self, dir: &Path) -> io::Result<()> {
        RealDisk.remove_dir_all(dir)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.faults.come_before(Call::SyncDir, dir)?;
        RealDisk.sync_dir(dir)
    }

    fn space(&self, dir: &Path) -> io::Result<Space> {
        RealDisk.space(dir)
    }
}

struct FaultyFile {
    file: Arc<dyn DiskFile>,
    path: PathBuf,
    faults: Arc<Faults>,
}

impl DiskFile for FaultyFile {
    fn file_len(&self) -> io::Result<u64> {
        self.file.file_len()
    }

    fn read_at(&self, buffer: &mut [u8], position: u64) -> io::Result<usize> {
        self.faults.come_before(Call::Read, &self.path)?;
        match self.faults.reads_fail.load(Ordering::Relaxed) {
            true => Err(io::Error::from_raw_os_error(libc::EIO)),
            false => self.file.read_at(buffer, position),
        }
    }

    fn read_cached_at(&self, buffer: &mut [u8], position: u64) -> io::Result<Option<usize>> {
        match self.faults.is_cold.load(Ordering::Relaxed) {
            true => Ok(None),
            false => self.file.read_cached_at(buffer, position),
        }
    }

    fn write_vectored_at(&self, buffers: &[IoSlice<'_>], position: u64) -> io::Result<usize> {
        let room = self.faults.room.load(Ordering::Relaxed);
        if room < 0 {
            return self.file.write_vectored_at(buffers, position);
        }
        let bytes = buffers.iter().flat_map(|slice| slice.iter().copied()).take(room as usize).collect::<Vec<u8>>();
        if bytes.is_empty() {
            return Err(io::Error::from_raw_os_error(libc::ENOSPC));
        }
        let written = self.file.write_vectored_at(&[IoSlice::new(&bytes)], position)?;
        self.faults.room.fetch_sub(written as i64, Ordering::Relaxed);
        Ok(written)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.faults.syncs.fetch_add(1, Ordering::Relaxed);
        self.faults.come_before(Call::Sync, &self.path)?;
        assert!(!self.faults.syncs_panic.load(Ordering::Relaxed), "on purpose");
        match self.faults.syncs_fail.load(Ordering::Relaxed) {
            true => Err(io::Error::from_raw_os_error(libc::EIO)),
            false => self.file.sync_data(),
        }
    }

    fn sync_all(&self) -> io::Result<()> {
        self.sync_data()
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    fn set_modified(&self, modified_ms: i64) -> io::Result<()> {
        self.file.set_modified(modified_ms)
    }

    fn reserve(&self, len: u64) -> io::Result<()> {
        self.file.reserve(len)
    }

    fn start_writeback(&self, position: u64, len: u64) -> io::Result<()> {
        self.file.start_writeback(position, len)
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.file.fd()
    }
}
