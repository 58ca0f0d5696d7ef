//! Whether the data directories can be written, and making it so.
//!
//! A volume that the engine made belongs to root, and the broker runs as [`USER`]. Started as root, the container gives
//! the directories to that user and goes on as it; started as anybody else, it says who owns what and what to do.

use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::{MetadataExt as _, chown, lchown};
use std::path::{Path, PathBuf};

/// `appuser` of Kafka's images.
pub(super) const USER: u32 = 1000;
/// Root's group, in which any user of a platform that gives out ids is.
pub(super) const GROUP: u32 = 0;

/// Directories within directories, at most: no log directory has so many.
const DEPTH: usize = 8;

/// Gives the directories and all that is in them to the user that serves; makes those that are missing.
pub(super) fn hand_over(directories: &[PathBuf]) -> io::Result<()> {
    for directory in directories {
        let named = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", directory.display()));
        fs::create_dir_all(directory).map_err(named)?;
        let found = fs::metadata(directory).map_err(named)?;
        give(directory, &found, DEPTH).map_err(named)?;
    }
    Ok(())
}

fn give(path: &Path, found: &Metadata, depth: usize) -> io::Result<()> {
    if found.is_dir() && depth > 0 {
        for entry in fs::read_dir(path)? {
            let entry = entry?;
            // Of a link, the link itself: what it leads to is not asked for.
            let found = entry.metadata()?;
            give(&entry.path(), &found, depth - 1)?;
        }
    }
    match found.uid() {
        USER => Ok(()),
        _ if found.is_symlink() => lchown(path, Some(USER), Some(GROUP)),
        _ => chown(path, Some(USER), Some(GROUP)),
    }
}

/// One sentence for each directory that this process may not write to.
pub(super) fn check(directories: &[PathBuf]) -> Result<(), Vec<String>> {
    let problems: Vec<String> = directories.iter().filter_map(|directory| problem(directory)).collect();
    if problems.is_empty() { Ok(()) } else { Err(problems) }
}

fn problem(directory: &Path) -> Option<String> {
    let error = match fs::create_dir_all(directory)
        .and_then(|()| tempfile::Builder::new().prefix(".ottla-").tempfile_in(directory))
    {
        Ok(_) => return None,
        Err(error) => error,
    };
    let (shown, user) = (directory.display(), rustix::process::geteuid().as_raw());
    // The directory itself, or the nearest above it that is there.
    let owner = directory.ancestors().find_map(|dir| Some((dir, fs::metadata(dir).ok()?)));
    Some(match (error.kind(), owner) {
        (io::ErrorKind::PermissionDenied, Some((found, metadata))) => format!(
            "{shown} cannot be written: {} belongs to user {}, and this is user {user}; start the container once as root (docker \
             run --user 0 …, or user: \"0\" in the compose file), which gives it to user {USER}, or run chown -R {user} on it",
            found.display(),
            metadata.uid()
        ),
        (io::ErrorKind::ReadOnlyFilesystem, _) => format!(
            "{shown} cannot be written: the file system is read-only; mount a volume there, or name one in KAFKA_LOG_DIRS"
        ),
        _ => format!("{shown} cannot be written: {error}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_that_can_be_written_is_made_and_left_empty() {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("a/b");
        assert_eq!(check(std::slice::from_ref(&dir)), Ok(()));
        assert_eq!(fs::read_dir(&dir).unwrap().count(), 0);
    }

    #[test]
    fn what_cannot_be_written_is_told_with_what_to_do() {
        let problems = check(&["/proc/ottla".into()]).unwrap_err();
        assert!(problems[0].starts_with("/proc/ottla cannot be written: "), "{problems:?}");
        let root = tempfile::tempdir().unwrap();
        let file = root.path().join("file");
        fs::write(&file, "").unwrap();
        assert!(check(&[file.join("dir")]).unwrap_err()[0].contains("cannot be written: "));
    }

    #[test]
    fn root_gives_all_of_it_away() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("data");
        fs::create_dir_all(dir.join("t-0")).unwrap();
        fs::write(dir.join("t-0/0.log"), "x").unwrap();
        std::os::unix::fs::symlink("/etc/passwd", dir.join("link")).unwrap();
        hand_over(std::slice::from_ref(&dir)).unwrap();
        for path in ["", "t-0", "t-0/0.log", "link"] {
            let found = fs::symlink_metadata(dir.join(path)).unwrap();
            assert_eq!((found.uid(), found.gid()), (USER, GROUP), "{path}");
        }
        assert_eq!(fs::metadata("/etc/passwd").unwrap().uid(), 0);
    }
}
