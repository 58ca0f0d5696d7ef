//! `FileCache`: keeps few files open, however many logs there are.
//!
//! A log has three or four files per segment; a node with 100,000 partitions has no descriptors for all of them, and
//! needs none for those that nobody reads or writes. Each file is a [`CachedFile`], opened when it is used and closed
//! when others were used more lately ("second chance": a file used since it was last looked at is passed over).
//!
//! A file with bytes that are not synced yet stays open: were it closed, the system might forget that writing them
//! failed, and a later sync would succeed. If such files take up the whole cache, the oldest is synced by a helper
//! thread, to be closed afterwards; meanwhile the cache grows.

use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::{Mutex, RwLock};
use tracing::error;

use crate::storage::background::{Background, Lane};
use crate::storage::disk::{Disk, DiskFile, OpenMode, lacks_descriptor};
use crate::storage::file_name::{FileName, FileState};

/// How many files are looked at for one that is opened, in search of one to close.
const MAX_LOOKS: usize = 32;

/// A directory whose files follow when it is renamed.
pub struct Directory {
    path: RwLock<PathBuf>,
}

impl Directory {
    pub fn new(path: PathBuf) -> Arc<Directory> {
        Arc::new(Directory { path: RwLock::new(path) })
    }

    pub fn path(&self) -> PathBuf {
        self.path.read().clone()
    }

    /// Renames the directory; its files are found at the new place from then on.
    pub fn rename(&self, disk: &dyn Disk, to: &Path) -> io::Result<()> {
        let mut path = self.path.write();
        disk.rename(&path, to)?;
        *path = to.to_owned();
        Ok(())
    }
}

/// The files that are open.
pub struct FileCache {
    disk: Arc<dyn Disk>,
    background: Background,
    capacity: usize,
    open: Mutex<VecDeque<Weak<CachedFile>>>,
}

impl FileCache {
    /// `capacity`: how many files to keep open at most, unsynced ones aside.
    pub fn new(disk: Arc<dyn Disk>, background: Background, capacity: usize) -> Arc<FileCache> {
        Arc::new(FileCache { disk, background, capacity: capacity.max(1), open: Mutex::default() })
    }

    /// The file `name` in `dir`. Nothing is opened yet; `create`: whether opening makes it.
    pub fn file(self: &Arc<Self>, dir: &Arc<Directory>, name: FileName, create: bool) -> Arc<CachedFile> {
        Arc::new(CachedFile {
            cache: self.clone(),
            dir: dir.clone(),
            slot: Mutex::new(Slot { name, file: None, is_removed: false }),
            create: AtomicBool::new(create),
            used: AtomicBool::new(false),
            unsynced: AtomicBool::new(false),
            sync_failed: AtomicBool::new(false),
            sync: Mutex::new(()),
            is_sync_queued: AtomicBool::new(false),
        })
    }

    /// How many files are open.
    pub fn open_files(&self) -> usize {
        self.open.lock().iter().filter_map(Weak::upgrade).filter(|file| file.slot.lock().file.is_some()).count()
    }

    /// Enters a file that was just opened, and closes others for it.
    fn opened(&self, file: &Arc<CachedFile>) {
        let mut unsynced = None;
        let mut closed = Vec::new();
        {
            let mut open = self.open.lock();
            open.push_back(Arc::downgrade(file));
            // A few looks are enough to close as many as are opened; what they pass over comes to the end of the row.
            let mut looks = MAX_LOOKS;
            while open.len() > self.capacity && looks > 0 {
                looks -= 1;
                let Some(weak) = open.pop_front() else { break };
                let Some(candidate) = weak.upgrade() else {
                    continue;
                };
                if Arc::ptr_eq(&candidate, file) || candidate.used.swap(false, Ordering::Relaxed) {
                    open.push_back(weak);
                } else if candidate.unsynced.load(Ordering::Acquire) || candidate.sync_failed.load(Ordering::Acquire) {
                    open.push_back(weak);
                    unsynced.get_or_insert(candidate);
                } else if let Some(mut slot) = candidate.slot.try_lock() {
                    closed.extend(slot.file.take());
                } else {
                    open.push_back(weak);
                }
            }
        }
        // Closing may write; not under the lock.
        drop(closed);
        if let Some(candidate) = unsynced
            && !candidate.is_sync_queued.swap(true, Ordering::AcqRel)
        {
            self.background.run(Lane::Housekeeping, move || {
                if let Err(error) = candidate.sync() {
                    error!(path = %candidate.path().display(), %error, "cannot write records to disk");
                }
                candidate.is_sync_queued.store(false, Ordering::Release);
            });
        }
    }
}

/// A file that is open while it is used.
pub struct CachedFile {
    cache: Arc<FileCache>,
    dir: Arc<Directory>,
    slot: Mutex<Slot>,
    create: AtomicBool,
    used: AtomicBool,
    /// Written to since the last sync.
    unsynced: AtomicBool,
    /// A sync failed: nobody knows any more what is on disk.
    sync_failed: AtomicBool,
    /// Held during a sync.
    sync: Mutex<()>,
    is_sync_queued: AtomicBool,
}

struct Slot {
    name: FileName,
    file: Option<Arc<dyn DiskFile>>,
    is_removed: bool,
}

impl CachedFile {
    /// The open file. Whoever keeps what is returned keeps it open.
    pub fn get(self: &Arc<Self>) -> io::Result<Arc<dyn DiskFile>> {
        let file = {
            let mut slot = self.slot.lock();
            if let Some(file) = &slot.file {
                self.used.store(true, Ordering::Relaxed);
                return Ok(file.clone());
            }
            // Its name may be that of another file by now.
            if slot.is_removed {
                return Err(io::ErrorKind::NotFound.into());
            }
            let mode = if self.create.load(Ordering::Relaxed) { OpenMode::Create } else { OpenMode::ReadWrite };
            // Held meanwhile: once the directory has another name, that of another log may be at its path.
            let dir = self.dir.path.read();
            let file = self.cache.disk.open(&slot.name.path_in(&dir), mode)?;
            drop(dir);
            // Once it is there, its disappearance is an error.
            self.create.store(false, Ordering::Relaxed);
            slot.file = Some(file.clone());
            file
        };
        self.cache.opened(self);
        Ok(file)
    }

    /// Another file has taken this one's name: the next use opens it.
    pub fn reopen(&self) {
        self.slot.lock().file = None;
    }

    /// The name that it has now.
    pub fn name(&self) -> FileName {
        self.slot.lock().name
    }

    pub fn path(&self) -> PathBuf {
        self.slot.lock().name.path_in(&self.dir.path.read())
    }

    pub fn disk(&self) -> &Arc<dyn Disk> {
        &self.cache.disk
    }

    /// To be called after each write. Called before it as well, the file stays open until it is synced.
    pub fn written(&self) {
        self.unsynced.store(true, Ordering::Release);
    }

    /// Makes all that was written durable. After an error every later call is an error, too.
    pub fn sync(self: &Arc<Self>) -> io::Result<()> {
        // Whoever finds nothing left to sync must not return before the one that does it.
        let _one_at_a_time = self.sync.lock();
        if self.sync_failed.load(Ordering::Acquire) {
            return Err(io::Error::other("an earlier sync of this file failed"));
        }
        if !self.unsynced.swap(false, Ordering::AcqRel) {
            return Ok(());
        }
        // Without a descriptor nothing was tried.
        let file = self.get().inspect_err(|error| {
            if lacks_descriptor(error) {
                self.unsynced.store(true, Ordering::Release);
            }
        });
        match file.and_then(|file| file.sync_data()) {
            Err(error) if lacks_descriptor(&error) => Err(error),
            Err(_) if self.slot.lock().is_removed => Ok(()),
            result => result.inspect_err(|_| self.sync_failed.store(true, Ordering::Release)),
        }
    }

    /// Gives the file another state, and so another name. That it is not there is no error.
    pub fn rename(&self, state: FileState) -> io::Result<()> {
        let mut slot = self.slot.lock();
        if slot.is_removed {
            return Ok(());
        }
        let dir = self.dir.path.read();
        let renamed = slot.name.with_state(state);
        match self.cache.disk.rename(&slot.name.path_in(&dir), &renamed.path_in(&dir)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => slot.name = renamed,
        }
        Ok(())
    }

    /// Removes the file. That it is not there is no error. Whoever holds it open can still read it.
    pub fn remove(&self) -> io::Result<()> {
        let mut slot = self.slot.lock();
        // Its name may be that of another file by now.
        if std::mem::replace(&mut slot.is_removed, true) {
            return Ok(());
        }
        self.unsynced.store(false, Ordering::Release);
        let file = slot.file.take();
        // Held meanwhile, as above.
        let dir = self.dir.path.read();
        let result = self.cache.disk.remove_if_exists(&slot.name.path_in(&dir));
        drop((dir, slot));
        // The last one to close a removed file waits for its blocks to be freed.
        drop(file);
        result.map(drop)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::storage::disk::RealDisk;
    use crate::storage::file_name::FileKind;
    use crate::types::Offset;

    struct Fixture {
        dir: Arc<Directory>,
        cache: Arc<FileCache>,
        background: Background,
        _temporary: tempfile::TempDir,
    }

    fn fixture(capacity: usize) -> Fixture {
        let temporary = tempfile::tempdir().unwrap();
        let background = Background::stepped();
        let cache = FileCache::new(RealDisk::new(), background.clone(), capacity);
        Fixture { dir: Directory::new(temporary.path().join("t-0")), cache, background, _temporary: temporary }
    }

    impl Fixture {
        fn file(&self, n: i64) -> Arc<CachedFile> {
            std::fs::create_dir_all(self.dir.path()).unwrap();
            self.cache.file(&self.dir, FileName::new(Offset(n), FileKind::Log), true)
        }
    }

    #[test]
    fn closes_what_was_not_used_lately() {
        let fixture = fixture(3);
        let files: Vec<_> = (0..4).map(|n| fixture.file(n)).collect();
        for file in &files[..3] {
            file.get().unwrap();
        }
        files[0].get().unwrap();
        files[3].get().unwrap();
        assert_eq!(fixture.cache.open_files(), 3);
        assert!(files[0].slot.lock().file.is_some());
        assert!(files[1].slot.lock().file.is_none());
        files[1].get().unwrap();
        assert_eq!(fixture.cache.open_files(), 3);
    }

    #[test]
    fn unsynced_files_stay_open_until_they_are_synced() {
        let fixture = fixture(2);
        let files: Vec<_> = (0..4).map(|n| fixture.file(n)).collect();
        for file in &files {
            file.get().unwrap().write_all_at(b"x", 0).unwrap();
            file.written();
        }
        assert_eq!(fixture.cache.open_files(), 4);
        fixture.background.run_pending(Duration::ZERO);
        assert!(files.iter().any(|file| !file.unsynced.load(Ordering::Relaxed)));
        for file in &files {
            file.sync().unwrap();
        }
        let another = fixture.file(5);
        another.get().unwrap();
        assert_eq!(fixture.cache.open_files(), 2);
    }

    #[test]
    fn files_follow_their_directory_and_their_name() {
        let fixture = fixture(1);
        let file = fixture.file(0);
        file.get().unwrap().write_all_at(b"abc", 0).unwrap();
        fixture.file(1).get().unwrap();
        let renamed = fixture.dir.path().with_file_name("t-0.x-delete");
        fixture.dir.rename(&RealDisk, &renamed).unwrap();
        file.rename(FileState::Deleted).unwrap();
        assert_eq!(file.path(), renamed.join("00000000000000000000.log.deleted"));

        let open = file.get().unwrap();
        file.remove().unwrap();
        file.remove().unwrap();
        let mut back = [0; 3];
        open.read_exact_at(&mut back, 0).unwrap();
        assert_eq!(&back, b"abc");
        assert_eq!(file.get().err().unwrap().kind(), io::ErrorKind::NotFound);
    }
}
