//! Where a repair keeps what it removes: files as they are, of segments that stay the stretches that go.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::cli::verify_log::VerifyError;
use crate::cli::verify_log::rehearsal::Change;
use crate::cli::verify_log::root::LogDirectory;
use crate::storage::disk::{Disk, OpenMode, with_suffix};
use crate::storage::file_name::{FileKind, FileName, FileState};
use crate::storage::recovery::RecoveryReport;

/// What is copied at once.
const COPY_BYTES: usize = 1 << 20;

/// Where a directory's files are kept before they change. Made with the first of them.
pub(super) struct Backup {
    disk: Arc<dyn Disk>,
    source: PathBuf,
    pub path: PathBuf,
}

impl Backup {
    pub fn new(disk: &Arc<dyn Disk>, dir: &LogDirectory, wanted: Option<&Path>, dirs: usize, now_ms: i64) -> Backup {
        let source = dir.path.clone();
        let path = match wanted {
            // Several directories may hold files of one name.
            Some(path) if dirs > 1 => path.join(dir.number.to_string()),
            Some(path) => path.to_owned(),
            None => {
                let absolute = fs::canonicalize(&source).unwrap_or_else(|_| source.clone());
                let name = absolute.file_name().unwrap_or_default().to_string_lossy().into_owned();
                absolute.with_file_name(format!("{name}.before-repair-{}", now_ms / 1000))
            }
        };
        Backup { disk: disk.clone(), source, path }
    }

    /// The place of a file of the directory, whose folder is there then.
    fn place(&self, path: &Path) -> Result<PathBuf, VerifyError> {
        let place = self.path.join(path.strip_prefix(&self.source).unwrap_or(path));
        if let Some(folder) = place.parent() {
            let made: Vec<&Path> = folder.ancestors().take_while(|folder| !folder.exists()).collect();
            fs::create_dir_all(folder).map_err(VerifyError::at(folder))?;
            made.into_iter().try_for_each(|made| self.sync_name(made))?;
        }
        Ok(place)
    }

    /// Makes a name durable: what stands under it is of no use if a power loss takes that.
    fn sync_name(&self, path: &Path) -> Result<(), VerifyError> {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        self.disk.sync_dir(folder).map_err(VerifyError::at(folder))
    }

    /// Moves something here that is no file of the log's, or no file at all.
    pub fn take_away(&self, path: &Path) -> Result<(), VerifyError> {
        let place = self.place(path)?;
        let moved = match fs::rename(path, &place) {
            Err(error) if error.kind() == io::ErrorKind::CrossesDevices => {
                copy_tree(path, &place).and_then(|()| match path.symlink_metadata()?.is_dir() {
                    true => fs::remove_dir_all(path),
                    false => fs::remove_file(path),
                })
            }
            renamed => renamed,
        };
        moved.map_err(VerifyError::at(path))?;
        self.sync_name(&place)?;
        self.sync_name(path)
    }

    /// Copies a file, if it is there; what stands there and is none is moved. Durable on return.
    pub fn keep_file(&self, path: &Path) -> Result<Option<PathBuf>, VerifyError> {
        match (path.metadata(), path.symlink_metadata()) {
            (Ok(metadata), _) if metadata.is_file() => {}
            (_, Err(_)) => return Ok(None),
            (_, Ok(_)) => return self.take_away(path).map(|()| None),
        }
        let place = self.place(path)?;
        fs::copy(path, &place).map_err(VerifyError::at(path))?;
        fs::File::open(&place).and_then(|file| file.sync_all()).map_err(VerifyError::at(&place))?;
        self.sync_name(&place)?;
        Ok(Some(place))
    }

    /// Keeps what a recovery of the log is going to change: returns the files that are kept whole, and their copies.
    pub fn keep_log(
        &self,
        changes: &[Change],
        report: &RecoveryReport,
    ) -> Result<Vec<(PathBuf, PathBuf)>, VerifyError> {
        let mut kept = Vec::new();
        for change in changes {
            let (Change::Whole(path) | Change::CutOff { path, .. }) = change;
            let name = path.file_name().and_then(|name| FileName::parse(name.to_str()?));
            let is_segment = name.is_some_and(|name| name.kind == FileKind::Log && name.state == FileState::InUse);
            // Whoever was written anew twice has lost stretches of what was not there at first.
            let mut rewritten =
                report.taken_out.iter().filter(|taken| Some(taken.base_offset) == name.map(|name| name.base_offset));
            match (change, rewritten.next(), rewritten.next()) {
                (Change::CutOff { from, to, .. }, None, _) if is_segment => self.keep_stretch(path, *from, *to)?,
                (Change::Whole(_), Some(taken), None) if is_segment => {
                    for stretch in &taken.stretches {
                        self.keep_stretch(path, stretch.start, stretch.end)?;
                    }
                }
                _ => kept.extend(self.keep_file(path)?.map(|copy| (path.clone(), copy))),
            }
        }
        Ok(kept)
    }

    /// Copies a part of a file, under a name that says which.
    fn keep_stretch(&self, path: &Path, from: u64, to: u64) -> Result<(), VerifyError> {
        let place = self.place(path)?;
        let place = with_suffix(&place, &format!(".bytes-{from}-{to}"));
        let io = VerifyError::at(path);
        let source = self.disk.open(path, OpenMode::Read).map_err(&io)?;
        let mut target = fs::File::create(&place).map_err(VerifyError::at(&place))?;
        let mut buffer = vec![0; COPY_BYTES];
        let mut at = from;
        while at < to {
            let part = buffer.len().min((to - at) as usize);
            source.read_exact_at(&mut buffer[..part], at).map_err(&io)?;
            target.write_all(&buffer[..part]).map_err(VerifyError::at(&place))?;
            at += part as u64;
        }
        target.sync_all().map_err(VerifyError::at(&place))?;
        self.sync_name(&place)
    }

    /// Removes the copies of files that are as they were.
    pub fn forget_unchanged(&self, kept: &[(PathBuf, PathBuf)]) -> Result<(), VerifyError> {
        for (path, copy) in kept {
            if is_same(&*self.disk, path, copy).unwrap_or(false) {
                fs::remove_file(copy).map_err(VerifyError::at(copy))?;
            }
        }
        // Folders that are empty now; the others stay.
        for folder in kept.iter().filter_map(|(_, copy)| copy.parent()) {
            let _ = fs::remove_dir(folder);
        }
        let _ = fs::remove_dir(&self.path);
        Ok(())
    }
}

/// Copies whatever it is to another volume. A FIFO, a socket, a device hold nothing.
fn copy_tree(from: &Path, to: &Path) -> io::Result<()> {
    let kind = from.symlink_metadata()?.file_type();
    if kind.is_symlink() {
        return std::os::unix::fs::symlink(fs::read_link(from)?, to);
    }
    if kind.is_file() {
        fs::copy(from, to)?;
        return fs::File::open(to)?.sync_all();
    }
    if kind.is_dir() {
        fs::create_dir_all(to)?;
        for entry in fs::read_dir(from)? {
            let name = entry?.file_name();
            copy_tree(&from.join(&name), &to.join(&name))?;
        }
    }
    Ok(())
}

/// Whether two files hold the same.
fn is_same(disk: &dyn Disk, path: &Path, copy: &Path) -> io::Result<bool> {
    let len = disk.info(path)?.len;
    if disk.info(copy)?.len != len {
        return Ok(false);
    }
    let (now, then) = (disk.open(path, OpenMode::Read)?, disk.open(copy, OpenMode::Read)?);
    let (mut buffer, mut other) = (vec![0; COPY_BYTES], vec![0; COPY_BYTES]);
    let mut at = 0;
    while at < len {
        let part = buffer.len().min((len - at) as usize);
        now.read_exact_at(&mut buffer[..part], at)?;
        then.read_exact_at(&mut other[..part], at)?;
        if buffer[..part] != other[..part] {
            return Ok(false);
        }
        at += part as u64;
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::atomic::{AtomicU64, Ordering};

    use parking_lot::Mutex;

    use super::*;
    use crate::storage::faulty_disk::{Call, FaultyDisk};
    use crate::storage::fixture::Fixture;

    /// Before the repair goes on the copies have names that a power loss does not take; and a copy is forgotten only if it
    /// is that of what is still there.
    #[test]
    fn the_backup_is_durable_and_compared_in_parts() {
        let fixture = Fixture::unpack_only("damaged-partitions-clean", "whole-0");
        let (disk, faults) = FaultyDisk::with_faults();
        let (dir, _) = LogDirectory::look(&disk, &fixture.data(), 0, String::new(), false).unwrap();
        let wanted = fixture.data().with_file_name("some").join("where");
        let backup = Backup::new(&disk, &dir, Some(&wanted), 1, 0);
        let synced: Arc<Mutex<BTreeSet<PathBuf>>> = Arc::default();
        let reads = Arc::new(AtomicU64::new(0));
        let (note, count) = (synced.clone(), reads.clone());
        faults.before(move |call, path| {
            match call {
                Call::SyncDir => drop(note.lock().insert(path.to_owned())),
                Call::Read => drop(count.fetch_add(1, Ordering::Relaxed)),
                Call::Sync | Call::Rename => {}
            }
            Ok(())
        });
        let path = |name: &str| fixture.data().join("whole-0").join(name);
        let large = vec![7; 2 * COPY_BYTES + 1];
        let names = ["same", "changed", "longer", "gone"];
        names.iter().for_each(|name| fs::write(path(name), &large).unwrap());
        let keep = |name: &&str| (path(name), backup.keep_file(&path(name)).unwrap().unwrap());
        let kept: Vec<_> = names.iter().map(keep).collect();
        let expected =
            [wanted.parent().unwrap().parent().unwrap(), wanted.parent().unwrap(), &wanted, &wanted.join("whole-0")];
        assert_eq!(*synced.lock(), expected.into_iter().map(Path::to_owned).collect());
        backup.take_away(&path("partition.metadata")).unwrap();
        assert!(synced.lock().contains(&fixture.data().join("whole-0")));

        let mut changed = large.clone();
        *changed.last_mut().unwrap() = 8;
        fs::write(path("changed"), &changed).unwrap();
        fs::write(path("longer"), [&large[..], b"x"].concat()).unwrap();
        fs::remove_file(path("gone")).unwrap();
        reads.store(0, Ordering::Relaxed);
        backup.forget_unchanged(&kept).unwrap();
        let left: Vec<bool> = kept.iter().map(|(_, copy)| copy.exists()).collect();
        assert_eq!(left, [false, true, true, true]);
        assert_eq!(reads.load(Ordering::Relaxed), 12, "three parts, of two files, of two of them");
    }
}
