//! A disk in memory that loses what was not synced, for the tests of this layer.
//!
//! After so many changes as it is told, it is dead: every call fails. [`MemoryDisk::restart`] then says what is found:
//!
//! - the process was killed: everything that was done;
//! - the power went: of each file what was last synced, or that and some or all of what was written since, or zeros in its
//!   place; of the names what was synced with their directory, and the first so many of the changes since.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, IoSlice};
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use rand::rngs::SmallRng;
use rand::{RngExt as _, SeedableRng as _};

use crate::storage::disk::{DirEntry, Disk, DiskFile, FileInfo, OpenMode, Space};

/// See the module's documentation.
#[derive(Clone)]
pub struct MemoryDisk {
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    nodes: Vec<Node>,
    names: BTreeMap<PathBuf, usize>,
    directories: BTreeSet<PathBuf>,
    durable_names: BTreeMap<PathBuf, usize>,
    /// Changes of names that no sync has made durable, in their order.
    pending: Vec<Change>,
    changes_left: Option<u64>,
    is_dead: bool,
}

#[derive(Clone, Default)]
struct Node {
    bytes: Vec<u8>,
    /// What was last synced, if anything was written since.
    durable: Option<Vec<u8>>,
    modified_ms: i64,
}

#[derive(Clone)]
enum Change {
    Create(PathBuf, usize),
    Rename(PathBuf, PathBuf),
    Remove(PathBuf),
}

impl Change {
    fn is_in(&self, dir: &Path) -> bool {
        match self {
            Change::Create(path, _) | Change::Rename(path, _) | Change::Remove(path) => path.parent() == Some(dir),
        }
    }

    fn apply(self, names: &mut BTreeMap<PathBuf, usize>) {
        match self {
            Change::Create(path, node) => drop(names.insert(path, node)),
            Change::Rename(from, to) => {
                if let Some(node) = names.remove(&from) {
                    names.insert(to, node);
                }
            }
            Change::Remove(path) => drop(names.remove(&path)),
        }
    }
}

impl MemoryDisk {
    pub fn new() -> MemoryDisk {
        MemoryDisk { state: Arc::default() }
    }

    /// Dies after `changes` more changes; never if `None`.
    pub fn die_after(&self, changes: Option<u64>) {
        self.state.lock().changes_left = changes;
    }

    pub fn is_dead(&self) -> bool {
        self.state.lock().is_dead
    }

    /// The disk as the next process finds it. This one is dead from then on.
    pub fn restart(&self, power_went: bool, seed: u64) -> MemoryDisk {
        let mut random = SmallRng::seed_from_u64(seed);
        let mut old = self.state.lock();
        old.is_dead = true;
        let mut names = if power_went { old.durable_names.clone() } else { old.names.clone() };
        if power_went {
            let kept = random.random_range(0..=old.pending.len());
            old.pending[..kept].iter().cloned().for_each(|change| change.apply(&mut names));
        }
        let mut state = State { directories: old.directories.clone(), ..State::default() };
        for (path, node) in names {
            let mut node = old.nodes[node].clone();
            if let Some(durable) = node.durable.take().filter(|_| power_went) {
                node.bytes = lose(durable, &node.bytes, &mut random);
            }
            state.names.insert(path, state.nodes.len());
            state.nodes.push(node);
        }
        state.durable_names = state.names.clone();
        MemoryDisk { state: Arc::new(Mutex::new(state)) }
    }

    /// The names in a directory.
    pub fn file_names(&self, dir: &Path) -> Vec<String> {
        let state = self.state.lock();
        let here = state.names.keys().filter(|path| path.parent() == Some(dir));
        here.map(|path| path.file_name().unwrap().to_str().unwrap().to_owned()).collect()
    }
}

/// What is found of a file that was written to since it was synced.
fn lose(durable: Vec<u8>, bytes: &[u8], random: &mut SmallRng) -> Vec<u8> {
    match random.random_range(0..4) {
        0 => durable,
        1 => bytes.to_vec(),
        // The length may have grown before the content came.
        2 => {
            let mut lost = durable;
            lost.resize(random.random_range(lost.len().min(bytes.len())..=bytes.len().max(lost.len())), 0);
            lost
        }
        _ => {
            let mut lost = durable;
            let kept = random.random_range(0..=bytes.len());
            let overwritten = kept.min(lost.len());
            lost[..overwritten].copy_from_slice(&bytes[..overwritten]);
            lost.extend_from_slice(&bytes[overwritten..kept]);
            lost
        }
    }
}

impl State {
    fn alive(&self) -> io::Result<()> {
        match self.is_dead {
            true => Err(io::Error::other("the disk is dead")),
            false => Ok(()),
        }
    }

    fn change(&mut self) -> io::Result<()> {
        self.alive()?;
        if let Some(left) = &mut self.changes_left {
            if *left == 0 {
                self.is_dead = true;
                return self.alive();
            }
            *left -= 1;
        }
        Ok(())
    }

    fn node(&self, path: &Path) -> io::Result<usize> {
        self.names.get(path).copied().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn name(&mut self, change: Change) {
        change.clone().apply(&mut self.names);
        self.pending.push(change);
    }
}

impl Disk for MemoryDisk {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn DiskFile>> {
        let mut state = self.state.lock();
        state.alive()?;
        let node = match (state.names.get(path).copied(), mode) {
            (Some(_), OpenMode::CreateNew) => return Err(io::ErrorKind::AlreadyExists.into()),
            (Some(node), _) => node,
            (None, OpenMode::Read | OpenMode::ReadWrite) => return Err(io::ErrorKind::NotFound.into()),
            (None, OpenMode::Create | OpenMode::CreateNew) => {
                state.change()?;
                let node = state.nodes.len();
                state.nodes.push(Node::default());
                state.name(Change::Create(path.to_path_buf(), node));
                node
            }
        };
        Ok(Arc::new(MemoryFile { state: self.state.clone(), node }))
    }

    fn info(&self, path: &Path) -> io::Result<FileInfo> {
        let state = self.state.lock();
        state.alive()?;
        if state.directories.contains(path) {
            return Ok(FileInfo { len: 0, is_dir: true, modified_ms: 0 });
        }
        let node = &state.nodes[state.node(path)?];
        Ok(FileInfo { len: node.bytes.len() as u64, is_dir: false, modified_ms: node.modified_ms })
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<DirEntry>> {
        self.state.lock().alive()?;
        Ok(self.file_names(dir).into_iter().map(|name| DirEntry { name: name.into(), is_dir: false }).collect())
    }

    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        let mut state = self.state.lock();
        state.alive()?;
        state.directories.insert(dir.to_path_buf());
        Ok(())
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.state.lock();
        state.node(from)?;
        state.change()?;
        state.name(Change::Rename(from.to_path_buf(), to.to_path_buf()));
        Ok(())
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        let mut state = self.state.lock();
        state.node(path)?;
        state.change()?;
        state.name(Change::Remove(path.to_path_buf()));
        Ok(())
    }

    fn remove_dir_all(&self, dir: &Path) -> io::Result<()> {
        for name in self.file_names(dir) {
            self.remove_file(&dir.join(name))?;
        }
        Ok(())
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        let mut state = self.state.lock();
        state.change()?;
        let State { pending, durable_names, .. } = &mut *state;
        pending.extract_if(.., |change| change.is_in(dir)).for_each(|change| change.apply(durable_names));
        Ok(())
    }

    fn space(&self, _dir: &Path) -> io::Result<Space> {
        Ok(Space { total: 1 << 40, usable: 1 << 39 })
    }
}

struct MemoryFile {
    state: Arc<Mutex<State>>,
    node: usize,
}

impl MemoryFile {
    fn write<T>(&self, act: impl FnOnce(&mut Vec<u8>) -> T) -> io::Result<T> {
        let mut state = self.state.lock();
        state.change()?;
        let node = &mut state.nodes[self.node];
        if node.durable.is_none() {
            node.durable = Some(node.bytes.clone());
        }
        Ok(act(&mut node.bytes))
    }
}

impl DiskFile for MemoryFile {
    fn file_len(&self) -> io::Result<u64> {
        let state = self.state.lock();
        state.alive()?;
        Ok(state.nodes[self.node].bytes.len() as u64)
    }

    fn read_at(&self, buffer: &mut [u8], position: u64) -> io::Result<usize> {
        let state = self.state.lock();
        state.alive()?;
        let bytes = &state.nodes[self.node].bytes;
        let rest = bytes.get(position as usize..).unwrap_or_default();
        let n = rest.len().min(buffer.len());
        buffer[..n].copy_from_slice(&rest[..n]);
        Ok(n)
    }

    fn read_cached_at(&self, buffer: &mut [u8], position: u64) -> io::Result<Option<usize>> {
        self.read_at(buffer, position).map(Some)
    }

    fn write_vectored_at(&self, buffers: &[IoSlice<'_>], position: u64) -> io::Result<usize> {
        self.write(|bytes| {
            let mut at = position as usize;
            for buffer in buffers {
                bytes.resize(bytes.len().max(at + buffer.len()), 0);
                bytes[at..at + buffer.len()].copy_from_slice(buffer);
                at += buffer.len();
            }
            at - position as usize
        })
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut state = self.state.lock();
        state.change()?;
        state.nodes[self.node].durable = None;
        Ok(())
    }

    fn sync_all(&self) -> io::Result<()> {
        self.sync_data()
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.write(|bytes| bytes.resize(len as usize, 0))
    }

    fn set_modified(&self, modified_ms: i64) -> io::Result<()> {
        let mut state = self.state.lock();
        state.change()?;
        state.nodes[self.node].modified_ms = modified_ms;
        Ok(())
    }

    fn reserve(&self, _len: u64) -> io::Result<()> {
        Ok(())
    }

    fn start_writeback(&self, _position: u64, _len: u64) -> io::Result<()> {
        Ok(())
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}
