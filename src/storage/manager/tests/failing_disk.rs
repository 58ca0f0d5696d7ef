//! The real disk, until it is told to fail.

use super::*;

/// The real disk, until it is told to fail.
pub(super) struct FailingDisk {
    pub(super) failing: Arc<RwLock<Option<PathBuf>>>,
    /// Syncs that still succeed.
    pub(super) fail_syncs_left: Arc<AtomicI64>,
    /// Changes that still succeed; below zero it has died.
    pub(super) changes_left: Arc<AtomicI64>,
    /// Directories and files that can still be made or written to; then it is full.
    pub(super) room_left: Arc<AtomicI64>,
    /// What comes before a file is opened.
    pub(super) before_open: Mutex<Option<BeforeOpen>>,
    /// The error of the system that nothing gets another name for, if not 0.
    pub(super) renames_lack: AtomicI32,
}

pub(super) type BeforeOpen = Arc<dyn Fn(&Path) + Send + Sync>;

impl Default for FailingDisk {
    fn default() -> FailingDisk {
        let never = || Arc::new(AtomicI64::new(i64::MAX));
        FailingDisk {
            failing: Arc::default(),
            fail_syncs_left: never(),
            changes_left: never(),
            room_left: never(),
            before_open: Mutex::default(),
            renames_lack: AtomicI32::default(),
        }
    }
}

impl FailingDisk {
    pub(super) fn fail_below(&self, dir: &Path) {
        *self.failing.write() = Some(dir.to_path_buf());
    }

    pub(super) fn before_open(&self, act: impl Fn(&Path) + Send + Sync + 'static) {
        *self.before_open.lock() = Some(Arc::new(act));
    }

    pub(super) fn check(&self, path: &Path) -> io::Result<()> {
        check(&self.failing, path)
    }

    pub(super) fn check_change(&self, path: &Path) -> io::Result<()> {
        check_change(&self.changes_left)?;
        self.check(path)
    }
}

fn check_change(changes_left: &AtomicI64) -> io::Result<()> {
    match changes_left.fetch_sub(1, Ordering::Relaxed) > 0 {
        true => Ok(()),
        false => Err(io::Error::other("the process has died")),
    }
}

fn check_room(room_left: &AtomicI64) -> io::Result<()> {
    match room_left.fetch_sub(1, Ordering::Relaxed) > 0 {
        true => Ok(()),
        false => Err(io::Error::from_raw_os_error(libc::ENOSPC)),
    }
}

fn check(failing: &RwLock<Option<PathBuf>>, path: &Path) -> io::Result<()> {
    match failing.read().as_ref().is_some_and(|dir| path.starts_with(dir)) {
        true => Err(io::Error::from_raw_os_error(libc::EIO)),
        false => Ok(()),
    }
}

impl Disk for FailingDisk {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn DiskFile>> {
        let before_open = self.before_open.lock().clone();
        before_open.iter().for_each(|act| act(path));
        self.check(path)?;
        if matches!(mode, OpenMode::Create | OpenMode::CreateNew) {
            self.check_change(path)?;
            check_room(&self.room_left)?;
        }
        let file = RealDisk.open(path, mode)?;
        let (failing, syncs_left) = (self.failing.clone(), self.fail_syncs_left.clone());
        let (changes_left, room_left) = (self.changes_left.clone(), self.room_left.clone());
        Ok(Arc::new(FailingFile { file, path: path.to_path_buf(), failing, syncs_left, changes_left, room_left }))
    }

    fn info(&self, path: &Path) -> io::Result<FileInfo> {
        self.check(path).and_then(|()| RealDisk.info(path))
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<DirEntry>> {
        self.check(dir).and_then(|()| RealDisk.list(dir))
    }

    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        self.check_change(dir).and_then(|()| check_room(&self.room_left)).and_then(|()| RealDisk.create_dir_all(dir))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        match self.renames_lack.load(Ordering::Relaxed) {
            0 => {}
            code => return Err(io::Error::from_raw_os_error(code)),
        }
        self.check_change(from).and_then(|()| RealDisk.rename(from, to))
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.check_change(path).and_then(|()| RealDisk.remove_file(path))
    }

    fn remove_dir_all(&self, dir: &Path) -> io::Result<()> {
        self.check_change(dir).and_then(|()| RealDisk.remove_dir_all(dir))
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.check(dir).and_then(|()| RealDisk.sync_dir(dir))
    }

    fn space(&self, dir: &Path) -> io::Result<Space> {
        RealDisk.space(dir)
    }
}

pub(super) struct FailingFile {
    pub(super) file: Arc<dyn DiskFile>,
    path: PathBuf,
    pub(super) failing: Arc<RwLock<Option<PathBuf>>>,
    pub(super) syncs_left: Arc<AtomicI64>,
    pub(super) changes_left: Arc<AtomicI64>,
    pub(super) room_left: Arc<AtomicI64>,
}

impl FailingFile {
    fn check(&self) -> io::Result<()> {
        check(&self.failing, &self.path)
    }

    fn check_change(&self) -> io::Result<()> {
        check_change(&self.changes_left)?;
        self.check()
    }

    fn check_sync(&self) -> io::Result<()> {
        if self.changes_left.load(Ordering::Relaxed) < 0 {
            return Err(io::Error::other("the process has died"));
        }
        match self.syncs_left.fetch_sub(1, Ordering::SeqCst) > 0 {
            true => self.check(),
            false => Err(io::Error::other("the disk does not sync")),
        }
    }
}

impl DiskFile for FailingFile {
    fn file_len(&self) -> io::Result<u64> {
        self.check().and_then(|()| self.file.file_len())
    }

    fn read_at(&self, buffer: &mut [u8], position: u64) -> io::Result<usize> {
        self.check().and_then(|()| self.file.read_at(buffer, position))
    }

    fn read_cached_at(&self, buffer: &mut [u8], position: u64) -> io::Result<Option<usize>> {
        self.check().and_then(|()| self.file.read_cached_at(buffer, position))
    }

    fn write_vectored_at(&self, buffers: &[IoSlice<'_>], position: u64) -> io::Result<usize> {
        self.check_change()?;
        check_room(&self.room_left)?;
        self.file.write_vectored_at(buffers, position)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.check_sync().and_then(|()| self.file.sync_data())
    }

    fn sync_all(&self) -> io::Result<()> {
        self.check_sync().and_then(|()| self.file.sync_all())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.check_change().and_then(|()| self.file.set_len(len))
    }

    fn set_modified(&self, modified_ms: i64) -> io::Result<()> {
        self.check().and_then(|()| self.file.set_modified(modified_ms))
    }

    fn reserve(&self, len: u64) -> io::Result<()> {
        self.check().and_then(|()| self.file.reserve(len))
    }

    fn start_writeback(&self, position: u64, len: u64) -> io::Result<()> {
        self.check().and_then(|()| self.file.start_writeback(position, len))
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.file.fd()
    }
}
