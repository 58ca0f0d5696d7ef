//! The disk, as one of the three seams between the real and the simulated world.
//!
//! Everything that this broker keeps is written and read through [`Disk`] and [`DiskFile`], so that a simulation can
//! lose power at any call. What a simulation may do, and what callers must therefore expect:
//!
//! - bytes written but not synced are there after a crash, or not, or in part, in any order;
//! - a created or renamed name is there after a crash only once its directory was synced ([`Disk::sync_dir`]);
//! - a failed sync means that nothing is known of the bytes it was to make durable. It must never be tried again on
//!   the same directory: the system may have dropped the dirty pages and would report success ("fsyncgate").
//!
//! Paths are relative to the process or absolute, as the caller likes. All calls block; the caller chooses the thread.
//!
//! A name may stand for something that is no file: a directory, a FIFO, a link to nothing. To open it is `InvalidData`, as if its
//! content were damaged, and never waits. What follows from the records is made anew in its place once it was set aside;
//! where records should be, the log stays closed.

use std::ffi::OsString;
use std::fmt;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use parking_lot::Mutex;
use rustix::fs::{FallocateFlags, fallocate, fdatasync, fsync, statvfs};
use rustix::io::{Errno, ReadWriteFlags};
use tracing::warn;

use crate::storage::known_bugs::{self, KnownBug};

/// How [`Disk::open`] opens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenMode {
    /// Must exist; reading only.
    Read,
    /// Must exist; reading and writing.
    ReadWrite,
    /// Reading and writing; made if it does not exist.
    Create,
    /// Reading and writing; must not exist.
    CreateNew,
}

/// What a name stands for. A symbolic link is what it leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryKind {
    File,
    Dir,
    /// Neither: what it is, for people.
    Other(&'static str),
}

impl fmt::Display for EntryKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            EntryKind::File => "a file",
            EntryKind::Dir => "a directory",
            EntryKind::Other(what) => what,
        })
    }
}

/// What a directory tells of one of its entries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirEntry {
    pub name: OsString,
    pub kind: EntryKind,
}

impl DirEntry {
    pub fn is_file(&self) -> bool {
        self.kind == EntryKind::File
    }

    pub fn is_dir(&self) -> bool {
        self.kind == EntryKind::Dir
    }
}

/// What is known of a file without opening it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileInfo {
    pub len: u64,
    pub kind: EntryKind,
    /// Last change of the content, in milliseconds since 1970.
    pub modified_ms: i64,
}

/// Room on the volume of a directory, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    pub total: u64,
    /// What is left for this process.
    pub usable: u64,
}

/// A file system.
pub trait Disk: Send + Sync {
    /// `InvalidData` if it is no file.
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn DiskFile>>;

    /// `NotFound` if there is nothing.
    fn info(&self, path: &Path) -> io::Result<FileInfo>;

    /// The entries of a directory, in no order.
    fn list(&self, dir: &Path) -> io::Result<Vec<DirEntry>>;

    fn create_dir_all(&self, dir: &Path) -> io::Result<()>;

    /// Replaces `to` in one step if it is a file that exists.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// `NotFound` if there is nothing.
    fn remove_file(&self, path: &Path) -> io::Result<()>;

    /// With all that is in it.
    fn remove_dir_all(&self, dir: &Path) -> io::Result<()>;

    /// Makes the names in `dir` durable.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;

    fn space(&self, dir: &Path) -> io::Result<Space>;
}

/// An open file. It stays readable after its name is gone.
pub trait DiskFile: Send + Sync {
    /// Its length, in bytes.
    fn file_len(&self) -> io::Result<u64>;

    /// Reads once; less than asked for is no error, 0 is the end of the file.
    fn read_at(&self, buffer: &mut [u8], position: u64) -> io::Result<usize>;

    /// As [`DiskFile::read_at`] as far as the bytes are in memory; `None` if the first of them is not.
    fn read_cached_at(&self, buffer: &mut [u8], position: u64) -> io::Result<Option<usize>>;

    /// Writes once; may write less than given.
    fn write_vectored_at(&self, buffers: &[IoSlice<'_>], position: u64) -> io::Result<usize>;

    /// Makes the content durable, and the length as far as it is needed to read it.
    fn sync_data(&self) -> io::Result<()>;

    /// Makes content and attributes durable.
    fn sync_all(&self) -> io::Result<()>;

    fn set_len(&self, len: u64) -> io::Result<()>;

    /// Sets when the content was last changed, in milliseconds since 1970.
    fn set_modified(&self, modified_ms: i64) -> io::Result<()>;

    /// Reserves blocks up to `len` without changing the length. A hint: a file system that cannot is no error.
    fn reserve(&self, _len: u64) -> io::Result<()> {
        Ok(())
    }

    /// Starts writing out these bytes without waiting. A hint, which makes nothing durable.
    fn start_writeback(&self, _position: u64, _len: u64) -> io::Result<()> {
        Ok(())
    }

    /// For `sendfile`; `None` where there is no such thing.
    fn fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

impl dyn DiskFile + '_ {
    /// Fills `buffer`; `UnexpectedEof` if the file ends before.
    pub fn read_exact_at(&self, mut buffer: &mut [u8], mut position: u64) -> io::Result<()> {
        while !buffer.is_empty() {
            match self.read_at(buffer, position)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                n => {
                    buffer = &mut buffer[n..];
                    position += n as u64;
                }
            }
        }
        Ok(())
    }

    /// As [`Self::read_exact_at`] if that needs no waiting for the disk; returns whether it did.
    pub fn read_exact_cached_at(&self, mut buffer: &mut [u8], mut position: u64) -> io::Result<bool> {
        while !buffer.is_empty() {
            match self.read_cached_at(buffer, position)? {
                Some(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Some(n) => {
                    buffer = &mut buffer[n..];
                    position += n as u64;
                }
                None => return Ok(false),
            }
        }
        Ok(true)
    }

    /// Reads until `buffer` is full or the file ends; returns how much was read.
    pub fn read_up_to(&self, buffer: &mut [u8], position: u64) -> io::Result<usize> {
        let mut done = 0;
        while done < buffer.len() {
            match self.read_at(&mut buffer[done..], position + done as u64)? {
                0 => break,
                n => done += n,
            }
        }
        Ok(done)
    }

    pub fn write_all_at(&self, bytes: &[u8], position: u64) -> io::Result<()> {
        self.write_all_vectored_at(&mut [IoSlice::new(bytes)], position)
    }

    /// Writes all of `buffers` one after the other, in as few calls as the system allows. After an error any part of
    /// them may have been written.
    pub fn write_all_vectored_at(&self, mut buffers: &mut [IoSlice<'_>], mut position: u64) -> io::Result<()> {
        IoSlice::advance_slices(&mut buffers, 0);
        while !buffers.is_empty() {
            let batch = &buffers[..buffers.len().min(MAX_IO_SLICES)];
            match self.write_vectored_at(batch, position)? {
                0 => return Err(io::ErrorKind::WriteZero.into()),
                n => {
                    position += n as u64;
                    IoSlice::advance_slices(&mut buffers, n);
                }
            }
        }
        Ok(())
    }
}

impl dyn Disk + '_ {
    /// Whether there is a file or directory of this name.
    pub fn exists(&self, path: &Path) -> io::Result<bool> {
        match self.info(path) {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// A whole small file. One that is longer than `limit` bytes is `InvalidData`: nothing that this is used for gets
    /// that long unless it is damaged.
    pub fn read_file(&self, path: &Path, limit: usize) -> io::Result<Vec<u8>> {
        let file = self.open(path, OpenMode::Read)?;
        let len = usize::try_from(file.file_len()?).unwrap_or(usize::MAX);
        if len > limit {
            return Err(io::Error::new(io::ErrorKind::InvalidData, format!("{} has {len} bytes", path.display())));
        }
        let mut bytes = vec![0; len];
        let read = file.read_up_to(&mut bytes, 0)?;
        bytes.truncate(read);
        Ok(bytes)
    }

    /// Replaces the content of `path` in one step: after a crash it is the old or the new one. Durable on return. What stands there
    /// and is no file is set aside.
    pub fn write_file_atomically(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let temporary = with_suffix(path, ".tmp");
        let file = self.open_in_place(&temporary)?;
        file.set_len(0)?;
        file.write_all_at(bytes, 0)?;
        file.sync_data()?;
        match self.rename(&temporary, path) {
            // Whatever else is no file makes room by itself.
            Err(error) if error.kind() == io::ErrorKind::IsADirectory => {
                self.make_room(path)?;
                self.rename(&temporary, path)?;
            }
            renamed => renamed?,
        }
        if known_bugs::is_back(KnownBug::RenameNotSynced) {
            return Ok(());
        }
        match path.parent() {
            Some(dir) if !dir.as_os_str().is_empty() => self.sync_dir(dir),
            _ => self.sync_dir(Path::new(".")),
        }
    }

    /// Opens a file, or makes it; what stands there and is none is set aside.
    pub fn open_in_place(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        match self.open(path, OpenMode::Create) {
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                self.make_room(path)?;
                self.open(path, OpenMode::Create)
            }
            opened => opened,
        }
    }

    /// Gives something that stands in the place of a file a name that nobody looks at, for a person to look at; returns that.
    pub fn set_aside(&self, path: &Path) -> io::Result<PathBuf> {
        let mut aside = with_suffix(path, SET_ASIDE);
        let mut number = 1;
        while self.exists(&aside)? {
            number += 1;
            aside = with_suffix(path, &format!("{SET_ASIDE}-{number}"));
        }
        self.rename(path, &aside)?;
        Ok(aside)
    }

    fn make_room(&self, path: &Path) -> io::Result<()> {
        let aside = self.set_aside(path)?;
        warn!(path = %path.display(), to = %aside.display(), "what stands in the place of a file is none: it is set aside");
        Ok(())
    }

    /// Removes a file if it is there; returns whether it was.
    pub fn remove_if_exists(&self, path: &Path) -> io::Result<bool> {
        match self.remove_file(path) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }
}

/// What there was too little of for what was asked: nothing that a disk must be given up for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shortage {
    /// For what was to be written.
    Room,
    /// In the process or the system, for its file. Nothing was done, and the disk is well.
    Descriptors,
}

impl Shortage {
    pub fn of(error: &io::Error) -> Option<Shortage> {
        match (error.kind(), error.raw_os_error()) {
            (io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded, _) => Some(Shortage::Room),
            (_, Some(libc::EMFILE | libc::ENFILE)) => Some(Shortage::Descriptors),
            _ => None,
        }
    }
}

/// Whether there was too little of something.
pub fn is_full(error: &io::Error) -> bool {
    Shortage::of(error).is_some()
}

/// Whether it was descriptors.
pub fn lacks_descriptor(error: &io::Error) -> bool {
    Shortage::of(error) == Some(Shortage::Descriptors)
}

/// Whether the disk itself has failed, and not what was asked of it: its directory is to be given up.
pub fn is_disk_failure(error: &io::Error) -> bool {
    let failures = [libc::EIO, libc::ENXIO, libc::ENODEV, libc::ESTALE];
    error.raw_os_error().is_some_and(|code| failures.contains(&code))
}

/// Whether an error concerns the one file that something was asked of, and not the disk: it is none, or not there, or may not be opened.
/// What lies beside it is none the worse.
pub fn concerns_file(error: &io::Error) -> bool {
    use io::ErrorKind::*;
    let is_known = matches!(
        error.kind(),
        NotFound
            | PermissionDenied
            | AlreadyExists
            | InvalidData
            | InvalidInput
            | InvalidFilename
            | UnexpectedEof
            | NotADirectory
            | IsADirectory
            | DirectoryNotEmpty
            | ResourceBusy
            | CrossesDevices
    );
    is_known || error.raw_os_error() == Some(libc::ELOOP)
}

/// Whether something was not renamed because another thing has the new name already.
pub fn is_name_taken(error: &io::Error) -> bool {
    use io::ErrorKind::{AlreadyExists, DirectoryNotEmpty, NotADirectory};
    matches!(error.kind(), AlreadyExists | DirectoryNotEmpty | NotADirectory)
}

/// `path` with `suffix` at the end of its name: `a/b.log` and `.deleted` give `a/b.log.deleted`.
pub fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

/// Behind the name of what was set aside.
pub const SET_ASIDE: &str = ".set-aside";

/// Whether a name was given by `set_aside`.
pub fn is_set_aside(name: &str) -> bool {
    let number = name.rsplit_once('-').map_or("", |(_, number)| number);
    let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    name.ends_with(SET_ASIDE) || is_number && name[..name.len() - number.len() - 1].ends_with(SET_ASIDE)
}

/// The error of opening what is no file.
pub fn not_a_file(path: &Path, kind: EntryKind) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("{} is {kind}, not a file", path.display()))
}

/// `IOV_MAX`: more slices in one call are refused.
const MAX_IO_SLICES: usize = 1024;

/// The machine's file system.
#[derive(Clone, Copy, Debug, Default)]
pub struct RealDisk;

impl RealDisk {
    #[expect(clippy::new_ret_no_self, reason = "it is never used but behind the seam")]
    pub fn new() -> Arc<dyn Disk> {
        Arc::new(RealDisk)
    }
}

impl Disk for RealDisk {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn DiskFile>> {
        let mut options = OpenOptions::new();
        options.read(true);
        match mode {
            OpenMode::Read => &mut options,
            OpenMode::ReadWrite => options.write(true),
            OpenMode::Create => options.write(true).create(true).truncate(false),
            OpenMode::CreateNew => options.write(true).create_new(true),
        };
        // A FIFO would be waited for, and a terminal taken over.
        options.custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY);
        let file = options.open(path).map_err(|error| not_opened(path, error))?;
        match kind_of(file.metadata()) {
            EntryKind::File => Ok(Arc::new(RealFile(file))),
            kind => Err(not_a_file(path, kind)),
        }
    }

    fn info(&self, path: &Path) -> io::Result<FileInfo> {
        let metadata = match fs::metadata(path) {
            Err(error) if error.raw_os_error() == Some(libc::ELOOP) => {
                return Ok(FileInfo { len: 0, kind: kind_of(Err(error)), modified_ms: 0 });
            }
            metadata => metadata?,
        };
        let modified_ms = metadata.modified()?.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as i64);
        Ok(FileInfo { len: metadata.len(), kind: kind_of(Ok(metadata)), modified_ms })
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<DirEntry>> {
        fs::read_dir(dir)?
            .map(|entry| {
                let entry = entry?;
                let kind = match entry.file_type()? {
                    kind if kind.is_dir() => EntryKind::Dir,
                    kind if kind.is_file() => EntryKind::File,
                    // A partition's directory may lie elsewhere behind a symbolic link.
                    _ => kind_of(fs::metadata(entry.path())),
                };
                Ok(DirEntry { name: entry.file_name(), kind })
            })
            .collect()
    }

    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        fs::create_dir_all(dir)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn remove_dir_all(&self, dir: &Path) -> io::Result<()> {
        fs::remove_dir_all(dir)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        match File::open(dir) {
            Err(error) if lacks_descriptor(&error) => {
                let mut spare = SPARE.lock();
                spare.take();
                let synced = File::open(dir).and_then(|dir| Ok(fsync(dir)?));
                *spare = File::open("/dev/null").ok();
                synced
            }
            opened => {
                let dir = opened?;
                let mut spare = SPARE.lock();
                if spare.is_none() {
                    *spare = File::open("/dev/null").ok();
                }
                drop(spare);
                Ok(fsync(dir)?)
            }
        }
    }

    fn space(&self, dir: &Path) -> io::Result<Space> {
        let volume = statvfs(dir)?;
        Ok(Space {
            total: volume.f_blocks.saturating_mul(volume.f_frsize),
            usable: volume.f_bavail.saturating_mul(volume.f_frsize),
        })
    }
}

/// Why a file was not opened: because of what is in its place, if something is, and otherwise what the system says. A full disk
/// that refuses a new name has nothing in its place.
fn not_opened(path: &Path, error: io::Error) -> io::Error {
    let in_place = match error.kind() {
        io::ErrorKind::AlreadyExists => None,
        _ if !leads_nowhere(&error) => fs::metadata(path).ok().map(|there| kind_of(Ok(there))),
        _ => path.is_symlink().then(|| kind_of(fs::metadata(path))),
    };
    match in_place {
        Some(kind) if !matches!(kind, EntryKind::File | EntryKind::Other(UNKNOWN)) => not_a_file(path, kind),
        // Which file it is is all that whoever has to put it right wants to know.
        _ if error.kind() == io::ErrorKind::PermissionDenied => {
            io::Error::new(error.kind(), format!("{}: {error}", path.display()))
        }
        _ => error,
    }
}

/// Of a symbolic link, or because there is nothing.
fn leads_nowhere(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(libc::ELOOP)
}

/// A descriptor to give up for one that syncs a directory, of which there is one table in a process: what could not be made durable
/// for want of one would cost the log its place.
static SPARE: Mutex<Option<File>> = Mutex::new(None);

/// What nobody can say.
const UNKNOWN: &str = "something that cannot be looked at";

/// What something is whose attributes were asked for, and links followed.
fn kind_of(found: io::Result<Metadata>) -> EntryKind {
    let kind = match found {
        Ok(metadata) => metadata.file_type(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return EntryKind::Other("a symbolic link to nothing"),
        Err(error) if error.raw_os_error() == Some(libc::ELOOP) => {
            return EntryKind::Other("a symbolic link that leads in a circle");
        }
        Err(_) => return EntryKind::Other(UNKNOWN),
    };
    match kind {
        kind if kind.is_file() => EntryKind::File,
        kind if kind.is_dir() => EntryKind::Dir,
        kind if kind.is_fifo() => EntryKind::Other("a FIFO"),
        kind if kind.is_socket() => EntryKind::Other("a socket"),
        kind if kind.is_block_device() || kind.is_char_device() => EntryKind::Other("a device"),
        _ => EntryKind::Other(UNKNOWN),
    }
}

struct RealFile(File);

impl DiskFile for RealFile {
    fn file_len(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn read_at(&self, buffer: &mut [u8], position: u64) -> io::Result<usize> {
        retry(|| rustix::io::pread(&self.0, &mut *buffer, position))
    }

    fn read_cached_at(&self, buffer: &mut [u8], position: u64) -> io::Result<Option<usize>> {
        #[cfg(target_os = "linux")]
        {
            let read = retry(|| {
                rustix::io::preadv2(&self.0, &mut [IoSliceMut::new(buffer)], position, ReadWriteFlags::NOWAIT)
            });
            match read {
                Ok(n) => Ok(Some(n)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
                // A file system without RWF_NOWAIT, or a system without the call, as emulators are: the only way to know is
                // to read.
                Err(error) if matches!(error.raw_os_error(), Some(libc::EOPNOTSUPP | libc::ENOSYS)) => {
                    self.read_at(buffer, position).map(Some)
                }
                Err(error) => Err(error),
            }
        }
        #[cfg(not(target_os = "linux"))]
        self.read_at(buffer, position).map(Some)
    }

    fn write_vectored_at(&self, buffers: &[IoSlice<'_>], position: u64) -> io::Result<usize> {
        retry(|| rustix::io::pwritev(&self.0, buffers, position))
    }

    fn sync_data(&self) -> io::Result<()> {
        // Not through `retry`: an interrupted sync is a failed one.
        Ok(fdatasync(&self.0)?)
    }

    fn sync_all(&self) -> io::Result<()> {
        Ok(fsync(&self.0)?)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }

    fn set_modified(&self, modified_ms: i64) -> io::Result<()> {
        self.0.set_modified(UNIX_EPOCH + Duration::from_millis(modified_ms.max(0) as u64))
    }

    fn reserve(&self, len: u64) -> io::Result<()> {
        match fallocate(&self.0, FallocateFlags::KEEP_SIZE, 0, len) {
            Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    #[cfg(target_os = "linux")]
    #[expect(unsafe_code, reason = "rustix has no sync_file_range")]
    fn start_writeback(&self, position: u64, len: u64) -> io::Result<()> {
        use std::os::fd::AsRawFd as _;
        // SAFETY: the descriptor is open for as long as `self.0` is, and the call takes no pointers.
        let result = unsafe {
            libc::sync_file_range(
                self.0.as_raw_fd(),
                position as libc::off64_t,
                len as libc::off64_t,
                libc::SYNC_FILE_RANGE_WRITE,
            )
        };
        match result {
            0 => Ok(()),
            _ => match io::Error::last_os_error() {
                error if matches!(error.raw_os_error(), Some(libc::ESPIPE | libc::ENOSYS)) => Ok(()),
                error => Err(error),
            },
        }
    }

    #[cfg(not(target_os = "linux"))]
    fn start_writeback(&self, _position: u64, _len: u64) -> io::Result<()> {
        Ok(())
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.0.as_fd())
    }
}

/// Repeats a system call that a signal interrupted before it did anything.
fn retry<T>(mut call: impl FnMut() -> rustix::io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(Errno::INTR) => {}
            result => return Ok(result?),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_and_reads_many_slices() {
        let dir = tempfile::tempdir().unwrap();
        let disk = RealDisk::new();
        let file = disk.open(&dir.path().join("a.log"), OpenMode::CreateNew).unwrap();
        let bytes: Vec<u8> = (0..5000u32).map(|n| n as u8).collect();
        let mut slices: Vec<IoSlice<'_>> = bytes.chunks(2).map(IoSlice::new).collect();
        file.write_all_vectored_at(&mut slices, 7).unwrap();
        assert_eq!(file.file_len().unwrap(), 5007);

        let mut back = vec![1; 5007];
        file.read_exact_at(&mut back, 0).unwrap();
        assert_eq!(back[..7], [0; 7]);
        assert_eq!(back[7..], bytes);
        assert_eq!(file.read_up_to(&mut back, 5000).unwrap(), 7);
        assert_eq!(file.read_exact_at(&mut back, 1).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        assert!(file.read_cached_at(&mut back, 0).unwrap().is_some());
    }

    /// A disk without room for a new name was once taken for a link to nothing, which took the log's directory offline.
    #[test]
    fn what_is_in_the_place_of_a_file_is_told_and_else_the_error_as_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::write(at("file"), "").unwrap();
        fs::create_dir(at("directory")).unwrap();
        std::os::unix::fs::symlink("nowhere", at("dangling")).unwrap();
        std::os::unix::fs::symlink("circle", at("circle")).unwrap();
        std::os::unix::fs::symlink("file", at("link")).unwrap();
        let told = |name: &str, code: i32| match not_opened(&at(name), io::Error::from_raw_os_error(code)) {
            error if error.raw_os_error() == Some(code) => "as it is".to_owned(),
            error => error.to_string(),
        };
        for code in [libc::ENOSPC, libc::EDQUOT, libc::EMFILE, libc::ENFILE, libc::EROFS, libc::EIO, libc::ENAMETOOLONG]
        {
            for name in ["none", "none/below", "file", "link", "dangling", "circle"] {
                assert_eq!(told(name, code), "as it is", "{name} {code}");
            }
            assert!(told("directory", code).ends_with("is a directory, not a file"));
        }
        assert_eq!(told("none", libc::ENOENT), "as it is");
        assert!(told("dangling", libc::ENOENT).ends_with("is a symbolic link to nothing, not a file"));
        assert!(told("circle", libc::ELOOP).ends_with("is a symbolic link that leads in a circle, not a file"));
        assert!(told("file", libc::EACCES).starts_with(at("file").to_str().unwrap()));
    }

    #[test]
    fn hints_change_no_length() {
        let dir = tempfile::tempdir().unwrap();
        let disk = RealDisk::new();
        let file = disk.open(&dir.path().join("a.log"), OpenMode::Create).unwrap();
        file.write_all_at(b"abc", 0).unwrap();
        file.reserve(1 << 20).unwrap();
        file.start_writeback(0, 3).unwrap();
        file.sync_data().unwrap();
        assert_eq!(file.file_len().unwrap(), 3);
    }

    #[test]
    fn replaces_files_and_keeps_removed_ones_readable() {
        let dir = tempfile::tempdir().unwrap();
        let disk = RealDisk::new();
        let path = dir.path().join("checkpoint");
        assert!(!disk.exists(&path).unwrap());
        disk.write_file_atomically(&path, b"first, and longer").unwrap();
        disk.write_file_atomically(&path, b"second").unwrap();
        assert_eq!(disk.read_file(&path, 100).unwrap(), b"second");
        assert_eq!(disk.read_file(&path, 5).unwrap_err().kind(), io::ErrorKind::InvalidData);
        assert_eq!(disk.list(dir.path()).unwrap(), [DirEntry { name: "checkpoint".into(), kind: EntryKind::File }]);

        let file = disk.open(&path, OpenMode::Read).unwrap();
        assert!(disk.remove_if_exists(&path).unwrap());
        assert!(!disk.remove_if_exists(&path).unwrap());
        let mut back = [0; 6];
        file.read_exact_at(&mut back, 0).unwrap();
        assert_eq!(&back, b"second");
        assert!(disk.space(dir.path()).unwrap().usable > 0);
    }
}
