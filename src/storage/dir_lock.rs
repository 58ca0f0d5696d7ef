//! The `.lock` file of a log directory: one broker at a time.
//!
//! The lock is the one Kafka takes (a record lock on the whole file, as Java's `FileChannel.tryLock`), so that Kafka and
//! this broker exclude each other, too. On Linux it belongs to the open file rather than to the process: two brokers in
//! one process exclude each other as well, and nobody loses it by opening and closing the file elsewhere.
//!
//! `storage::manager` locks the directories in `log.dirs`; whoever opens a `metadata.log.dir` that is none of them locks
//! that one.

use std::fmt;
use std::io;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use thiserror::Error;

use crate::storage::disk::{Disk, DiskFile};
use crate::storage::meta_properties;

/// The file's name in a log directory.
pub const FILE_NAME: &str = ".lock";

/// Why a log directory is not ours.
#[derive(Debug, Error)]
pub enum LockError {
    #[error("log directory {} is in use by {holder}: only one broker may use it at a time (lock file {FILE_NAME})", dir.display())]
    InUse { dir: PathBuf, holder: Holder },
    #[error("cannot lock log directory {}: {source}", dir.display())]
    Io { dir: PathBuf, source: io::Error },
}

/// Who has the lock, as far as the system tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holder {
    /// A process that holds the lock as a whole, as Kafka does.
    Process(i32),
    /// Another Ottla, perhaps of this process.
    Unknown,
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Holder::Process(id) => write!(f, "a running broker, process {id}"),
            Holder::Unknown => f.write_str("a running broker"),
        }
    }
}

/// The lock, held until this is dropped. The file stays.
pub struct DirLock {
    dir: PathBuf,
    /// Of the volume on which the directory is; not of the file, which may have another one in an overlay. `None`: simulated.
    device: Option<u64>,
    _file: Arc<dyn DiskFile>,
}

impl DirLock {
    /// Locks a directory that exists, without waiting.
    pub fn acquire(disk: &dyn Disk, dir: &Path) -> Result<DirLock, LockError> {
        let io = |source| LockError::Io { dir: dir.to_path_buf(), source };
        let file = disk.open_in_place(&dir.join(FILE_NAME)).map_err(io)?;
        // A simulated disk has one user.
        if let Some(fd) = file.fd()
            && let Some(holder) = try_lock(fd).map_err(io)?
        {
            return Err(LockError::InUse { dir: dir.to_path_buf(), holder });
        }
        let device = file.fd().map(|_| device_of(dir)).transpose().map_err(io)?;
        Ok(DirLock { dir: dir.to_path_buf(), device, _file: file })
    }

    /// Whether what was locked is still there: a volume can be unmounted, or a directory emptied, under files that are open.
    /// What is made in its place then is nowhere at the next start.
    pub fn check(&self, disk: &dyn Disk) -> io::Result<()> {
        let at = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", self.dir.display()));
        if let Some(device) = self.device
            && device_of(&self.dir).map_err(at)? != device
        {
            return Err(at(io::Error::other("another volume is mounted there than at the start, or none")));
        }
        // Somebody may have removed the lock file, and nothing else.
        match disk.info(&self.dir.join(FILE_NAME)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                disk.info(&self.dir.join(meta_properties::FILE_NAME))
            }
            info => info,
        }
        .map(drop)
        .map_err(at)
    }
}

fn device_of(dir: &Path) -> io::Result<u64> {
    Ok(rustix::fs::stat(dir)?.st_dev)
}

/// `None`: the lock was taken.
#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "rustix has no locks of open file descriptions")]
fn try_lock(fd: BorrowedFd<'_>) -> io::Result<Option<Holder>> {
    use std::os::fd::AsRawFd as _;

    let mut lock = libc::flock {
        l_type: libc::F_WRLCK as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: 0,
        l_len: 0,
        l_pid: 0,
    };
    // SAFETY: the descriptor is borrowed and so open, and `lock` outlives the call, which only reads it.
    if unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_OFD_SETLK, &lock) } == 0 {
        return Ok(None);
    }
    let error = io::Error::last_os_error();
    match error.raw_os_error() {
        Some(libc::EAGAIN | libc::EACCES) => {}
        // A file system without such locks.
        Some(libc::EINVAL) => return try_process_lock(fd),
        _ => return Err(error),
    }
    // SAFETY: as above; the call writes to `lock`, which is borrowed for it alone.
    let asked = unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_OFD_GETLK, &mut lock) };
    match (asked, lock.l_pid) {
        (0, pid) if pid > 0 => Ok(Some(Holder::Process(pid))),
        _ => Ok(Some(Holder::Unknown)),
    }
}

#[cfg(not(target_os = "linux"))]
fn try_lock(fd: BorrowedFd<'_>) -> io::Result<Option<Holder>> {
    try_process_lock(fd)
}

fn try_process_lock(fd: BorrowedFd<'_>) -> io::Result<Option<Holder>> {
    use rustix::fs::{FlockOperation, fcntl_lock};
    use rustix::io::Errno;

    match fcntl_lock(fd, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(None),
        Err(Errno::AGAIN | Errno::ACCESS) => Ok(Some(Holder::Unknown)),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader};
    use std::process::{Command, Stdio};

    use super::*;
    use crate::storage::disk::{OpenMode, RealDisk};

    #[test]
    fn two_brokers_of_one_process_exclude_each_other() {
        let dir = tempfile::tempdir().unwrap();
        let disk = RealDisk::new();
        let lock = DirLock::acquire(&*disk, dir.path()).unwrap();
        let Err(error) = DirLock::acquire(&*disk, dir.path()) else { panic!("locked twice") };
        assert!(matches!(error, LockError::InUse { .. }), "{error}");
        // Somebody who just looks at the file does not lose us the lock.
        drop(std::fs::read(dir.path().join(FILE_NAME)).unwrap());
        assert!(DirLock::acquire(&*disk, dir.path()).is_err());
        drop(lock);
        DirLock::acquire(&*disk, dir.path()).unwrap();
        assert!(matches!(DirLock::acquire(&*disk, Path::new("/nonexistent")), Err(LockError::Io { .. })));
    }

    /// Set for the child process of the test below: the directory it is to lock.
    const LOCK_IN_CHILD: &str = "OTTLA_TEST_LOCK_DIR";

    /// The other process of `a_second_process_is_refused`; on its own it does nothing.
    #[test]
    fn child_process_that_locks() {
        let Ok(dir) = std::env::var(LOCK_IN_CHILD) else { return };
        // As Java does it: for the whole process.
        let file = RealDisk.open(&Path::new(&dir).join(FILE_NAME), OpenMode::Create).unwrap();
        assert_eq!(try_process_lock(file.fd().unwrap()).unwrap(), None);
        println!("locked");
        std::io::stdin().read_line(&mut String::new()).unwrap();
    }

    #[test]
    fn a_second_process_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "storage::dir_lock::tests::child_process_that_locks", "--nocapture"])
            .env(LOCK_IN_CHILD, dir.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert!(lines.any(|line| line.unwrap().ends_with("locked")), "the child did not get the lock");

        let disk = RealDisk::new();
        let Err(error) = DirLock::acquire(&*disk, dir.path()) else { panic!("locked by two processes") };
        let LockError::InUse { holder, .. } = &error else { panic!("{error}") };
        if cfg!(target_os = "linux") {
            assert_eq!(*holder, Holder::Process(child.id() as i32));
        }
        drop(child.stdin.take());
        assert!(child.wait().unwrap().success());
        DirLock::acquire(&*disk, dir.path()).unwrap();
    }
}
