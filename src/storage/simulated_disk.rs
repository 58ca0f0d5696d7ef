//! A disk in memory that loses what was not synced, dies and fails when it is told to, for simulations.
//!
//! Every call has a number, and every call that changes something another one:
//!
//! - [`SimulatedDisk::die_after`]: the next change but so many does not happen, and every call from then on fails.
//! - [`SimulatedDisk::fail_after`]: the next call but so many fails, once ([`Fault::Error`], `EIO`), or as all that need room
//!   do from then on ([`Fault::Full`], `ENOSPC`).
//!
//! [`SimulatedDisk::restart`] says what the next process finds:
//!
//! | crash | content of a file | names in a directory |
//! |---|---|---|
//! | the process was killed | all of it, synced or not as before | the same |
//! | the power went | what was synced, and of the changes since none, all, the first so many, or any; each write whole or in part; or the length without the content | what was synced, and of the changes since the first so many, or any |
//!
//! A sync that fails, of a file or of a directory, makes some of the changes durable and drops the others, though they can
//! still be seen: a later one succeeds and means nothing.
//!
//! Before a file is renamed to be deleted, it may let somebody else in ([`SimulatedDisk::let_in`]), as another thread would come.
//!
//! It counts what it was called for ([`Coverage`]): the [`CallSite`] names what was being done, the call, and the kind of file.

mod faults;
mod file;
mod tree;

use std::io;
use std::path::{Component, Path};
use std::sync::Arc;

use parking_lot::Mutex;
use rand::SeedableRng as _;
use rand::rngs::SmallRng;

use self::faults::Faults;
pub use self::faults::{Call, CallSite, Coverage, Fault, Hits};
use self::file::SimulatedFile;
use self::tree::{NameChange, Node, Tree, kind_of};
use crate::storage::disk::{DirEntry, Disk, DiskFile, EntryKind, FileInfo, OpenMode, Space, not_a_file};

/// How a process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Crash {
    /// What it wrote is the system's by then.
    Kill,
    PowerLoss,
}

/// See the module's documentation.
#[derive(Clone)]
pub struct SimulatedDisk {
    state: Arc<Mutex<State>>,
}

struct State {
    tree: Tree,
    faults: Faults,
    random: SmallRng,
    /// After how many renames who comes.
    other: Option<(u64, Box<dyn FnOnce() + Send>)>,
}

impl SimulatedDisk {
    pub fn new() -> SimulatedDisk {
        SimulatedDisk::with_seed(0)
    }

    /// `seed` decides what faults do.
    pub fn with_seed(seed: u64) -> SimulatedDisk {
        let random = SmallRng::seed_from_u64(seed);
        let state = State { tree: Tree::new(), faults: Faults::default(), random, other: None };
        SimulatedDisk { state: Arc::new(Mutex::new(state)) }
    }

    /// Dies after `changes` more changes; never if `None`.
    pub fn die_after(&self, changes: Option<u64>) {
        self.state.lock().faults.changes_left = changes;
    }

    /// Fails after `calls` more calls; never if `None`.
    pub fn fail_after(&self, calls: Option<(u64, Fault)>) {
        self.state.lock().faults.calls_left = calls;
    }

    /// Takes the next failure back, and a full disk has room again.
    pub fn make_room(&self) {
        let faults = &mut self.state.lock().faults;
        (faults.calls_left, faults.is_full) = (None, false);
    }

    /// Lets somebody look around, to whom nothing happens and who does not count.
    pub fn held<T>(&self, look: impl FnOnce() -> T) -> T {
        self.state.lock().faults.is_held = true;
        let seen = look();
        self.state.lock().faults.is_held = false;
        seen
    }

    /// Has `other` act after so many more renames of files that are to be deleted, before the next one; nobody if `None`. The
    /// log whose files they are is locked then.
    pub fn let_in(&self, other: Option<(u64, Box<dyn FnOnce() + Send>)>) {
        self.state.lock().other = other;
    }

    /// After how many renames comes who was let in, if that was not yet.
    pub fn awaited(&self) -> Option<u64> {
        self.state.lock().other.as_ref().map(|(left, _)| *left)
    }

    fn before_deletion(&self) {
        let other = {
            let mut state = self.state.lock();
            match &mut state.other {
                Some((0, _)) => state.other.take(),
                Some((left, _)) => {
                    *left -= 1;
                    None
                }
                None => None,
            }
        };
        if let Some((_, act)) = other {
            act();
        }
    }

    pub fn is_dead(&self) -> bool {
        self.state.lock().faults.is_dead
    }

    /// The call that failed as it was told to.
    pub fn failed_at(&self) -> Option<CallSite> {
        self.state.lock().faults.failed_at.clone()
    }

    /// Nothing but room was ever missing, and for no sync.
    pub fn lacks_but_room(&self) -> bool {
        let faults = &self.state.lock().faults;
        faults.failed_at.is_some() && !faults.has_failed && !faults.has_failed_to_sync
    }

    /// A full disk has room again, and forgets that it had none.
    pub fn recover(&self) {
        let faults = &mut self.state.lock().faults;
        (faults.calls_left, faults.is_full, faults.failed_at) = (None, false, None);
    }

    /// A sync has failed: what can be read is perhaps not on disk, and never will be. Only a power loss shows it.
    pub fn has_failed_to_sync(&self) -> bool {
        self.state.lock().faults.has_failed_to_sync
    }

    /// Takes down every call from now on.
    pub fn begin_trace(&self) {
        self.state.lock().faults.trace = Some(Vec::new());
    }

    pub fn take_trace(&self) -> Vec<CallSite> {
        self.state.lock().faults.trace.take().unwrap_or_default()
    }

    /// Says what is being done from now on.
    pub fn set_activity(&self, activity: &'static str) {
        self.state.lock().faults.activity = activity;
    }

    /// What was called since this disk was made.
    pub fn coverage(&self) -> Coverage {
        self.state.lock().faults.coverage.clone()
    }

    /// The disk as the next process finds it. This one is dead from then on.
    pub fn restart(&self, crash: Crash, seed: u64) -> SimulatedDisk {
        let mut random = SmallRng::seed_from_u64(seed);
        let mut old = self.state.lock();
        let faults = old.faults.restart(crash);
        let mut tree = old.tree.clone();
        if crash == Crash::PowerLoss {
            tree.lose(&mut random);
        }
        tree.forget_unreachable();
        SimulatedDisk { state: Arc::new(Mutex::new(State { tree, faults, random, other: None })) }
    }

    /// The names in a directory.
    pub fn file_names(&self, dir: &Path) -> Vec<String> {
        let state = self.state.lock();
        match state.tree.resolve(dir).map(|node| &state.tree.nodes[node]) {
            Ok(Node::Dir(dir)) => dir.names.keys().cloned().collect(),
            _ => Vec::new(),
        }
    }
}

fn is_deletion(to: &Path) -> bool {
    to.extension().is_some_and(|extension| extension == "deleted")
}

impl Disk for SimulatedDisk {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn DiskFile>> {
        let mut state = self.state.lock();
        let (parent, name) = state.tree.resolve_parent(path)?;
        let kind = kind_of(&name);
        let node = match (state.tree.dir(parent).names.get(&name).copied(), mode) {
            (Some(_), OpenMode::CreateNew) => return Err(io::ErrorKind::AlreadyExists.into()),
            (Some(node), _) => {
                state.faults.call(Call::Open, &kind)?;
                node
            }
            (None, OpenMode::Read | OpenMode::ReadWrite) => {
                state.faults.call(Call::Open, &kind)?;
                return Err(io::ErrorKind::NotFound.into());
            }
            (None, OpenMode::Create | OpenMode::CreateNew) => {
                state.faults.call(Call::Create, &kind)?;
                state.tree.insert(parent, name, Node::file(kind))
            }
        };
        match &state.tree.nodes[node] {
            Node::File(_) => Ok(Arc::new(SimulatedFile { state: self.state.clone(), node })),
            Node::Dir(_) => Err(not_a_file(path, EntryKind::Dir)),
        }
    }

    fn info(&self, path: &Path) -> io::Result<FileInfo> {
        let mut state = self.state.lock();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or("/");
        state.faults.call(Call::Info, &kind_of(name))?;
        let node = state.tree.resolve(path)?;
        Ok(match &state.tree.nodes[node] {
            Node::File(file) => {
                FileInfo { len: file.bytes.len() as u64, kind: EntryKind::File, modified_ms: file.modified_ms }
            }
            Node::Dir(_) => FileInfo { len: 0, kind: EntryKind::Dir, modified_ms: 0 },
        })
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<DirEntry>> {
        let mut state = self.state.lock();
        let node = state.tree.resolve(dir)?;
        let kind = state.tree.kind(node);
        state.faults.call(Call::List, &kind)?;
        let Node::Dir(dir) = &state.tree.nodes[node] else { return Err(io::ErrorKind::NotADirectory.into()) };
        let kind = |node: &usize| match state.tree.nodes[*node] {
            Node::File(_) => EntryKind::File,
            Node::Dir(_) => EntryKind::Dir,
        };
        Ok(dir.names.iter().map(|(name, node)| DirEntry { name: name.into(), kind: kind(node) }).collect())
    }

    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        let mut state = self.state.lock();
        let mut node = 0;
        for component in dir.components() {
            let Component::Normal(name) = component else { continue };
            let name = name.to_str().ok_or(io::ErrorKind::InvalidInput)?;
            let Node::Dir(parent) = &state.tree.nodes[node] else { return Err(io::ErrorKind::NotADirectory.into()) };
            node = match parent.names.get(name) {
                Some(child) => *child,
                None => {
                    let kind = kind_of(name);
                    state.faults.call(Call::CreateDir, &kind)?;
                    state.tree.insert(node, name.to_owned(), Node::dir(kind))
                }
            };
        }
        Ok(())
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        if is_deletion(to) {
            self.before_deletion();
        }
        let mut state = self.state.lock();
        let (parent, from) = state.tree.resolve_parent(from)?;
        let (to_parent, to) = state.tree.resolve_parent(to)?;
        assert_eq!(parent, to_parent, "nothing is moved from one directory to another");
        state.faults.call(Call::Rename, &format!("{} -> {}", kind_of(&from), kind_of(&to)))?;
        let node = *state.tree.dir(parent).names.get(&from).ok_or(io::ErrorKind::NotFound)?;
        let kind = kind_of(&to);
        state.tree.change_name(parent, NameChange::Rename(from, to, node));
        match &mut state.tree.nodes[node] {
            Node::File(file) => file.kind = kind,
            Node::Dir(dir) => dir.kind = kind,
        }
        Ok(())
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        let mut state = self.state.lock();
        let (parent, name) = state.tree.resolve_parent(path)?;
        if !state.tree.dir(parent).names.contains_key(&name) {
            return Err(if state.faults.is_dead { faults::dead() } else { io::ErrorKind::NotFound.into() });
        }
        state.faults.call(Call::Remove, &kind_of(&name))?;
        state.tree.change_name(parent, NameChange::Remove(name));
        Ok(())
    }

    fn remove_dir_all(&self, dir: &Path) -> io::Result<()> {
        let mut state = self.state.lock();
        let node = state.tree.resolve(dir)?;
        let (parent, name) = state.tree.resolve_parent(dir)?;
        state.faults.call(Call::RemoveDir, &kind_of(&name))?;
        state.tree.remove_tree(node);
        state.tree.change_name(parent, NameChange::Remove(name));
        Ok(())
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        let mut state = self.state.lock();
        let node = state.tree.resolve(dir)?;
        let kind = state.tree.kind(node);
        let was_dead = state.faults.is_dead;
        let result = state.faults.call(Call::SyncDir, &kind);
        let State { tree, random, faults, .. } = &mut *state;
        match &result {
            Ok(()) => tree.dir(node).sync(),
            Err(_) if !was_dead && !faults.is_dead => {
                tree.dir(node).fail_to_sync(random);
                faults.has_failed_to_sync = true;
            }
            Err(_) => {}
        }
        result
    }

    fn space(&self, _dir: &Path) -> io::Result<Space> {
        let usable = if self.state.lock().faults.is_full { 0 } else { 1 << 39 };
        Ok(Space { total: 1 << 40, usable })
    }
}
