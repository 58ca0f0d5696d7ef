//! A disk for tests that has so much room, and fails where it is told to.

use std::collections::BTreeMap;
use std::io::{self, IoSlice};
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use ottla::storage::disk::{DirEntry, Disk, DiskFile, FileInfo, OpenMode, RealDisk, Space};

/// The machine's file system, of which only so much may be used, and parts of which fail.
#[derive(Clone, Default)]
pub struct FaultyDisk {
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    /// No limit: `None`.
    limit: Option<u64>,
    used: u64,
    /// Bytes that each file takes up.
    files: BTreeMap<PathBuf, Arc<Mutex<u64>>>,
    /// Whatever is done below these fails.
    failing: Vec<PathBuf>,
}

impl State {
    /// Lets a file take up so much more, if there is room; returns how much it may.
    fn grant(&mut self, wanted: u64) -> u64 {
        let room = self.limit.map_or(u64::MAX, |limit| limit.saturating_sub(self.used));
        let granted = wanted.min(room);
        self.used += granted;
        granted
    }

    fn removed(&mut self, path: &Path) {
        if let Some(file) = self.files.remove(path) {
            self.used -= *file.lock().unwrap();
        }
    }

    fn check(&self, path: &Path) -> io::Result<()> {
        match self.failing.iter().any(|dir| path.starts_with(dir)) {
            true => Err(io::Error::from_raw_os_error(5)),
            false => Ok(()),
        }
    }

    fn below(&self, dir: &Path) -> Vec<PathBuf> {
        self.files.keys().filter(|path| path.starts_with(dir)).cloned().collect()
    }
}

fn full() -> io::Error {
    io::Error::from_raw_os_error(28)
}

impl FaultyDisk {
    /// A disk on which the files in `dir` take up what they take.
    pub fn with(dir: &Path) -> FaultyDisk {
        let disk = FaultyDisk::default();
        disk.count(dir);
        disk
    }

    fn count(&self, dir: &Path) {
        for entry in std::fs::read_dir(dir).expect("a directory") {
            let path = entry.expect("an entry").path();
            match path.is_dir() {
                true => self.count(&path),
                // What is opened is counted.
                false => drop(self.open(&path, OpenMode::Read).expect("a file")),
            }
        }
    }

    /// Every call for what is in this directory fails from now on (`EIO`).
    pub fn fail(&self, dir: &Path) {
        self.state.lock().unwrap().failing.push(dir.to_owned());
    }

    fn check(&self, path: &Path) -> io::Result<()> {
        self.state.lock().unwrap().check(path)
    }

    fn has_no_room(&self) -> bool {
        let state = self.state.lock().unwrap();
        state.limit.is_some_and(|limit| state.used >= limit)
    }

    /// Leaves so much room.
    pub fn leave(&self, room: u64) {
        let mut state = self.state.lock().unwrap();
        state.limit = Some(state.used + room);
    }
}

impl Disk for FaultyDisk {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn DiskFile>> {
        self.check(path)?;
        if self.has_no_room() && matches!(mode, OpenMode::Create | OpenMode::CreateNew) && !path.exists() {
            return Err(full());
        }
        let file = RealDisk::new().open(path, mode)?;
        let mut state = self.state.lock().unwrap();
        let allocated = match state.files.get(path) {
            Some(allocated) => allocated.clone(),
            None => {
                let len = file.file_len()?;
                state.used += len;
                let allocated = Arc::new(Mutex::new(len));
                state.files.insert(path.to_owned(), allocated.clone());
                allocated
            }
        };
        Ok(Arc::new(FaultyFile { path: path.to_owned(), file, allocated, state: self.state.clone() }))
    }

    fn info(&self, path: &Path) -> io::Result<FileInfo> {
        self.check(path)?;
        RealDisk::new().info(path)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<DirEntry>> {
        self.check(dir)?;
        RealDisk::new().list(dir)
    }

    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        self.check(dir)?;
        if self.has_no_room() && !dir.exists() {
            return Err(full());
        }
        RealDisk::new().create_dir_all(dir)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.state.lock().unwrap();
        state.check(from)?;
        RealDisk::new().rename(from, to)?;
        state.removed(to);
        for path in state.below(from) {
            let file = state.files.remove(&path).unwrap();
            let new = to.join(path.strip_prefix(from).unwrap());
            state.files.insert(if path == from { to.to_owned() } else { new }, file);
        }
        Ok(())
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        let mut state = self.state.lock().unwrap();
        state.check(path)?;
        RealDisk::new().remove_file(path)?;
        state.removed(path);
        Ok(())
    }

    fn remove_dir_all(&self, dir: &Path) -> io::Result<()> {
        let mut state = self.state.lock().unwrap();
        state.check(dir)?;
        RealDisk::new().remove_dir_all(dir)?;
        for path in state.below(dir) {
            state.removed(&path);
        }
        Ok(())
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.check(dir)?;
        RealDisk::new().sync_dir(dir)
    }

    fn space(&self, dir: &Path) -> io::Result<Space> {
        self.check(dir)?;
        let state = self.state.lock().unwrap();
        let total = state.limit.unwrap_or(1 << 40);
        Ok(Space { total, usable: total.saturating_sub(state.used) })
    }
}

struct FaultyFile {
    /// When it was opened.
    path: PathBuf,
    file: Arc<dyn DiskFile>,
    allocated: Arc<Mutex<u64>>,
    state: Arc<Mutex<State>>,
}

impl FaultyFile {
    fn check(&self) -> io::Result<()> {
        self.state.lock().unwrap().check(&self.path)
    }

    /// Takes up the first `end` bytes, as far as there is room; returns up to where.
    fn allocate(&self, end: u64) -> u64 {
        let mut state = self.state.lock().unwrap();
        let mut allocated = self.allocated.lock().unwrap();
        if end > *allocated {
            let wanted = end - *allocated;
            *allocated += state.grant(wanted);
        }
        end.min(*allocated)
    }
}

impl DiskFile for FaultyFile {
    fn file_len(&self) -> io::Result<u64> {
        self.check()?;
        self.file.file_len()
    }

    fn read_at(&self, buffer: &mut [u8], position: u64) -> io::Result<usize> {
        self.check()?;
        self.file.read_at(buffer, position)
    }

    fn read_cached_at(&self, buffer: &mut [u8], position: u64) -> io::Result<Option<usize>> {
        self.check()?;
        self.file.read_cached_at(buffer, position)
    }

    fn write_vectored_at(&self, buffers: &[IoSlice<'_>], position: u64) -> io::Result<usize> {
        self.check()?;
        let bytes: Vec<u8> = buffers.iter().flat_map(|slice| slice.iter().copied()).collect();
        let room = self.allocate(position + bytes.len() as u64).saturating_sub(position) as usize;
        match room {
            0 if !bytes.is_empty() => Err(full()),
            room => self.file.write_vectored_at(&[IoSlice::new(&bytes[..room.min(bytes.len())])], position),
        }
    }

    fn sync_data(&self) -> io::Result<()> {
        self.check()?;
        self.file.sync_data()
    }

    fn sync_all(&self) -> io::Result<()> {
        self.check()?;
        self.file.sync_all()
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.check()?;
        self.file.set_len(len)?;
        let mut state = self.state.lock().unwrap();
        let mut allocated = self.allocated.lock().unwrap();
        state.used = state.used - *allocated + len;
        *allocated = len;
        Ok(())
    }

    fn set_modified(&self, modified_ms: i64) -> io::Result<()> {
        self.check()?;
        self.file.set_modified(modified_ms)
    }

    fn reserve(&self, len: u64) -> io::Result<()> {
        self.check()?;
        let before = *self.allocated.lock().unwrap();
        if self.allocate(len) < len {
            let mut state = self.state.lock().unwrap();
            let mut allocated = self.allocated.lock().unwrap();
            state.used -= *allocated - before;
            *allocated = before;
            return Err(full());
        }
        Ok(())
    }

    fn start_writeback(&self, position: u64, len: u64) -> io::Result<()> {
        self.check()?;
        self.file.start_writeback(position, len)
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.file.fd()
    }
}
