//! The other processes of this very program, as `/proc` has them; also where the program is emulated.

use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use crate::storage::dir_lock;

/// Another process of this program.
#[derive(Debug)]
pub(in crate::cli) struct OtherProcess {
    pub id: i32,
    /// User and group, if this process may not look into it. Then it may be any program.
    pub hidden_owner: Option<(u32, u32)>,
}

impl OtherProcess {
    /// Inodes of its sockets, as it opened them.
    pub fn sockets(&self) -> impl Iterator<Item = u64> {
        self.open_files()
            .filter_map(|target| target.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok())
    }

    /// The log directories that it has locked, as this process can reach them.
    pub fn log_dirs(&self) -> impl Iterator<Item = PathBuf> {
        // In a container of its own it has a root of its own.
        let root = PathBuf::from(format!("/proc/{}/root", self.id));
        self.open_files().filter(|target| target.file_name().is_some_and(|name| name == dir_lock::FILE_NAME)).map(
            move |lock| {
                let dir = lock.parent().unwrap_or(&lock);
                root.join(dir.strip_prefix("/").unwrap_or(dir))
            },
        )
    }

    /// What the links to them say. Each is read when it is asked for, since a broker has thousands.
    fn open_files(&self) -> impl Iterator<Item = PathBuf> {
        let links = fs::read_dir(format!("/proc/{}/fd", self.id)).into_iter().flatten().flatten();
        links.filter_map(|link| fs::read_link(link.path()).ok())
    }
}

/// The other processes of this program, and those that this one may not look into.
pub(in crate::cli) fn processes() -> Vec<OtherProcess> {
    let (Ok(own), Ok(entries)) = (fs::read_link("/proc/self/exe"), fs::read_dir("/proc")) else { return Vec::new() };
    let own_id = std::process::id() as i32;
    let ids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let ids: Vec<i32> = ids.filter(|id| *id != own_id).collect();
    let those = |runs: fn(&Path, &Path) -> io::Result<bool>| -> Vec<OtherProcess> {
        ids.iter().filter_map(|&id| look_into(id, &own, runs)).collect()
    };
    let found = those(runs);
    let is_told = found.iter().any(|process| process.hidden_owner.is_none());
    if is_told { found } else { those(runs_under_an_emulator) }
}

fn runs(process: &Path, program: &Path) -> io::Result<bool> {
    Ok(fs::read_link(process.join("exe"))? == program)
}

/// Where the machine is of another architecture than this program, what a process executes is the emulator, which has the
/// program in its memory.
fn runs_under_an_emulator(process: &Path, program: &Path) -> io::Result<bool> {
    let emulator = fs::read_link(process.join("exe"))?;
    let maps = fs::read(process.join("maps"))?;
    let names = |line: &[u8]| line.ends_with(program.as_os_str().as_bytes());
    Ok(emulator != program && maps.split(|byte| *byte == b'\n').any(names))
}

fn look_into(id: i32, own: &Path, runs: fn(&Path, &Path) -> io::Result<bool>) -> Option<OtherProcess> {
    let process = PathBuf::from(format!("/proc/{id}"));
    match runs(&process, own) {
        Ok(true) => Some(OtherProcess { id, hidden_owner: None }),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            let owner = fs::metadata(&process).ok()?;
            Some(OtherProcess { id, hidden_owner: Some((owner.uid(), owner.gid())) })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_told_from_others_under_an_emulator_too() {
        let program = std::env::current_exe().unwrap();
        let own = Path::new("/proc/self");
        assert!(runs(own, &program).unwrap());
        assert!(!runs(own, Path::new("/usr/bin/ottla")).unwrap());
        assert!(!runs_under_an_emulator(own, &program).unwrap());

        let process = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("/usr/bin/qemu-aarch64-static", process.path().join("exe")).unwrap();
        let maps = |path: &str| {
            format!(
                "00200000-003a5000 r--p 00000000 fe:00 4711      {path}\n7f0000000000-7f0000001000 rw-p 00000000 00:00 0\n"
            )
        };
        for (mapped, is_ours) in
            [("/usr/bin/ottla", true), ("/usr/bin/bash", false), ("/usr/bin/ottla-of-others", false)]
        {
            fs::write(process.path().join("maps"), maps(mapped)).unwrap();
            assert_eq!(
                runs_under_an_emulator(process.path(), Path::new("/usr/bin/ottla")).unwrap(),
                is_ours,
                "{mapped}"
            );
        }
        assert!(!runs(process.path(), Path::new("/usr/bin/ottla")).unwrap());
    }
}
