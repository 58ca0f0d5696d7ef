//! Where the data goes if nobody says, whether that can be written, and making it so.
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

/// Of a file's mode.
const GROUP_WRITES: u32 = 0o020;

/// Directories within directories, at most: no log directory has so many.
const DEPTH: usize = 8;

/// Where the images have their data.
pub(super) const KAFKAS: &str = "/tmp/kraft-combined-logs";
pub(super) const CONFLUENTS: &str = "/var/lib/kafka/data";
pub(super) const BITNAMIS: &str = "/bitnami/kafka/data";

/// Where the data goes if nobody says: to the image's own place, or to another image's if somebody has mounted a volume there and not
/// here. `mounts` is the text of `/proc/self/mountinfo`.
pub(super) fn place<'a>(own: &'a str, mounts: &str) -> &'a str {
    let places = [own, KAFKAS, BITNAMIS, CONFLUENTS];
    places.into_iter().find(|place| is_kept(Path::new(place), mounts)).unwrap_or(own)
}

/// Whether somebody has mounted something there that outlives the container: no memory, and no volume that the engine made up for
/// this one container, whose name is 64 digits.
fn is_kept(path: &Path, mounts: &str) -> bool {
    let mut nearest = ("/", "/", "");
    for mount in mounts.lines() {
        let mut fields = mount.split(' ').skip(3);
        let (Some(root), Some(point)) = (fields.next(), fields.next()) else { continue };
        let kind = fields.skip_while(|field| *field != "-").nth(1).unwrap_or_default();
        // A later one hides what is there.
        if path.starts_with(point) && point.len() >= nearest.1.len() {
            nearest = (root, point, kind);
        }
    }
    let (root, point, kind) = nearest;
    let is_made_up = |name: &str| name.len() == 64 && name.bytes().all(|byte| byte.is_ascii_hexdigit());
    point != "/" && !["tmpfs", "ramfs"].contains(&kind) && !root.split('/').any(is_made_up)
}

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
        (io::ErrorKind::PermissionDenied, Some((found, metadata)))
            if metadata.gid() == GROUP && metadata.mode() & GROUP_WRITES != 0 =>
        {
            format!(
                "{shown} cannot be written: {} belongs to group {GROUP}, in which this user {user} is not; run the container as \
                 {user}:{GROUP} (docker run --user {user}:{GROUP} …, or user: \"{user}:{GROUP}\" in the compose file)",
                found.display()
            )
        }
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
    fn what_is_mounted_is_where_the_data_goes() {
        const ROOT: &str = "601 438 0:64 / / rw,relatime master:188 - overlay overlay rw,lowerdir=/x\n602 601 0:67 / /proc rw - proc proc rw\n";
        let made_up = "0123456789abcdef".repeat(4);
        let volume = |name: &str, point: &str| {
            format!("620 601 254:0 /var/lib/docker/volumes/{name}/_data {point} rw master:1 - ext4 /dev/vda rw\n")
        };
        let at = |own, mounts: &[String]| place(own, &format!("{ROOT}{}", mounts.concat()));
        assert_eq!(at(KAFKAS, &[]), KAFKAS);
        assert_eq!(at(KAFKAS, &[volume("data", CONFLUENTS)]), CONFLUENTS);
        assert_eq!(at(KAFKAS, &[volume("data", "/var/lib/kafka")]), CONFLUENTS);
        assert_eq!(at(KAFKAS, &[volume("data", "/bitnami"), volume(&made_up, CONFLUENTS)]), BITNAMIS);
        assert_eq!(at(BITNAMIS, &[volume("data", "/bitnami/kafka"), volume("other", CONFLUENTS)]), BITNAMIS);
        assert_eq!(at(CONFLUENTS, &[volume("data", KAFKAS), volume(&made_up, CONFLUENTS)]), KAFKAS);
        // The engine makes one for each container, which is gone with it.
        assert_eq!(at(KAFKAS, &[volume(&made_up, CONFLUENTS)]), KAFKAS);
        assert_eq!(
            at(KAFKAS, &[volume("data", "/var/lib/kafka/database"), volume("etc", "/mnt/shared/config")]),
            KAFKAS
        );
        let memory = |point: &str| format!("630 601 0:70 / {point} rw,nosuid - tmpfs tmpfs rw\n");
        assert_eq!(at(KAFKAS, &[memory("/tmp"), volume("data", CONFLUENTS)]), CONFLUENTS);
        assert_eq!(at(KAFKAS, &[volume("data", CONFLUENTS), memory(CONFLUENTS)]), KAFKAS);
        assert_eq!(place(KAFKAS, "no such\nfile"), KAFKAS);
    }

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
