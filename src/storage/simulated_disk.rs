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
//! A sync that fails makes some of the changes durable and drops the others, though they can still be read: a later one
//! succeeds and means nothing.
//!
//! It counts what it was called for ([`Coverage`]): the [`CallSite`] names what was being done, the call, and the kind of file.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io::{self, IoSlice};
use std::os::fd::BorrowedFd;
use std::path::{Component, Path};
use std::sync::Arc;

use parking_lot::Mutex;
use rand::rngs::SmallRng;
use rand::{RngExt as _, SeedableRng as _};

use crate::storage::directory_name::{DirectoryKind, DirectoryName};
use crate::storage::disk::{DirEntry, Disk, DiskFile, FileInfo, OpenMode, Space};
use crate::storage::file_name::FileName;

/// How a process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Crash {
    /// What it wrote is the system's by then.
    Kill,
    PowerLoss,
}

/// How a call fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// `EIO`, once.
    Error,
    /// `ENOSPC`, until [`SimulatedDisk::make_room`].
    Full,
}

/// What is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Call {
    Open,
    Info,
    List,
    Len,
    Read,
    // What changes something:
    Create,
    CreateDir,
    Write,
    SetLen,
    SetModified,
    Sync,
    SyncDir,
    Rename,
    Remove,
    RemoveDir,
}

impl Call {
    pub fn is_change(self) -> bool {
        self >= Call::Create
    }

    /// Whether a full disk can refuse it. The blocks for what was written may be sought only when it is written out.
    pub fn needs_room(self) -> bool {
        matches!(self, Call::Create | Call::CreateDir | Call::Write | Call::SetLen | Call::Sync | Call::Rename)
    }
}

/// A kind of call: where a crash or a fault may come.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CallSite {
    /// What was being done, as the simulation says it.
    pub activity: &'static str,
    pub call: Call,
    /// The kind of file, by its name.
    pub file: String,
}

impl fmt::Display for CallSite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:<24} {:<12} {}", self.activity, format!("{:?}", self.call), self.file)
    }
}

/// How often something happened at a call site.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hits {
    pub passed: u64,
    pub killed: u64,
    pub power_lost: u64,
    pub errors: u64,
    pub full: u64,
}

/// What happened, by call site.
#[derive(Clone, Debug, Default)]
pub struct Coverage {
    pub sites: BTreeMap<CallSite, Hits>,
}

impl Coverage {
    pub fn add(&mut self, other: &Coverage) {
        for (site, hits) in &other.sites {
            let all = self.sites.entry(site.clone()).or_default();
            all.passed += hits.passed;
            all.killed += hits.killed;
            all.power_lost += hits.power_lost;
            all.errors += hits.errors;
            all.full += hits.full;
        }
    }
}

/// See the module's documentation.
#[derive(Clone)]
pub struct SimulatedDisk {
    state: Arc<Mutex<State>>,
}

struct State {
    /// The first one is the root directory.
    nodes: Vec<Node>,
    /// Numbers changes of names.
    next_change: u64,
    changes_left: Option<u64>,
    calls_left: Option<(u64, Fault)>,
    is_full: bool,
    is_dead: bool,
    is_held: bool,
    /// Nobody knows any more what is on disk, and what only seems so.
    has_failed_to_sync: bool,
    trace: Option<Vec<CallSite>>,
    died_at: Option<CallSite>,
    failed_at: Option<CallSite>,
    activity: &'static str,
    coverage: Coverage,
    random: SmallRng,
}

#[derive(Clone)]
enum Node {
    File(FileNode),
    Dir(DirNode),
}

#[derive(Clone, Default)]
struct FileNode {
    /// What its last name says of it.
    kind: String,
    bytes: Vec<u8>,
    durable: Vec<u8>,
    /// What happened to `durable` since.
    pending: Vec<FileChange>,
    modified_ms: i64,
}

#[derive(Clone)]
enum FileChange {
    Write(u64, Vec<u8>),
    SetLen(u64),
}

#[derive(Clone, Default)]
struct DirNode {
    kind: String,
    names: BTreeMap<String, usize>,
    durable: BTreeMap<String, usize>,
    /// What happened to `durable` since, numbered.
    pending: Vec<(u64, NameChange)>,
}

#[derive(Clone)]
enum NameChange {
    Insert(String, usize),
    Rename(String, String, usize),
    Remove(String),
}

impl FileChange {
    fn apply(&self, bytes: &mut Vec<u8>) {
        match self {
            FileChange::Write(position, written) => {
                let (at, end) = (*position as usize, *position as usize + written.len());
                if bytes.len() < end {
                    bytes.resize(end, 0);
                }
                bytes[at..end].copy_from_slice(written);
            }
            FileChange::SetLen(len) => bytes.resize(*len as usize, 0),
        }
    }

    /// A part of it.
    fn torn(&self, random: &mut SmallRng) -> FileChange {
        match self {
            FileChange::Write(position, bytes) => {
                let (from, to) = (random.random_range(0..=bytes.len()), random.random_range(0..=bytes.len()));
                // Mostly the end is missing; now and then the beginning.
                let from = if random.random_bool(0.7) { 0 } else { from.min(to) };
                FileChange::Write(position + from as u64, bytes[from..to].to_vec())
            }
            FileChange::SetLen(len) => FileChange::SetLen(*len),
        }
    }
}

impl NameChange {
    fn apply(&self, names: &mut BTreeMap<String, usize>) {
        match self {
            NameChange::Insert(name, node) => drop(names.insert(name.clone(), *node)),
            NameChange::Rename(from, to, node) => {
                names.remove(from);
                names.insert(to.clone(), *node);
            }
            NameChange::Remove(name) => drop(names.remove(name)),
        }
    }
}

/// How a power loss treats changes of names.
#[derive(Clone, Copy)]
enum NameLoss {
    /// The file system has a journal: what came before this change, wherever.
    Before(u64),
    /// Each directory for itself, in order.
    InOrder,
    Any,
}

impl FileNode {
    /// What is left of it when the power goes.
    fn lose(&mut self, random: &mut SmallRng) {
        let mut bytes = std::mem::take(&mut self.durable);
        let pending = std::mem::take(&mut self.pending);
        if !pending.is_empty() {
            match random.random_range(0..6) {
                0 => {}
                1 => bytes = std::mem::take(&mut self.bytes),
                2 => {
                    let kept = random.random_range(0..pending.len());
                    pending[..kept].iter().for_each(|change| change.apply(&mut bytes));
                    pending[kept].torn(random).apply(&mut bytes);
                }
                // The length has grown before the content came.
                3 => {
                    let len = bytes.len().max(random.random_range(0..=self.bytes.len()));
                    bytes.resize(len, 0);
                }
                4 => {
                    for change in pending.iter().filter(|_| random.random_bool(0.5)).collect::<Vec<_>>() {
                        change.apply(&mut bytes);
                    }
                }
                _ => {
                    for change in &pending {
                        match random.random_range(0..4) {
                            0 => {}
                            1 => change.torn(random).apply(&mut bytes),
                            _ => change.apply(&mut bytes),
                        }
                    }
                }
            }
        }
        self.bytes.clone_from(&bytes);
        self.durable = bytes;
    }

    fn sync(&mut self) {
        if !self.pending.is_empty() {
            let FileNode { durable, pending, .. } = self;
            pending.drain(..).for_each(|change| change.apply(durable));
        }
    }

    /// Some of it is on disk, and the rest will never be.
    fn fail_to_sync(&mut self, random: &mut SmallRng) {
        for change in std::mem::take(&mut self.pending) {
            if random.random_bool(0.5) {
                change.apply(&mut self.durable);
            }
        }
    }
}

impl DirNode {
    fn lose(&mut self, loss: NameLoss, random: &mut SmallRng) {
        let pending = std::mem::take(&mut self.pending);
        let kept = random.random_range(0..=pending.len());
        for (n, (number, change)) in pending.iter().enumerate() {
            let is_kept = match loss {
                NameLoss::Before(limit) => *number < limit,
                NameLoss::InOrder => n < kept,
                NameLoss::Any => random.random_bool(0.5),
            };
            if is_kept {
                change.apply(&mut self.durable);
            }
        }
        self.names.clone_from(&self.durable);
    }
}

/// What a name says of the kind of file or directory, without numbers.
fn kind_of(name: &str) -> String {
    let (bare, suffix) = match name.strip_suffix(".tmp").or_else(|| name.strip_suffix(".part")) {
        Some(bare) => (bare, &name[bare.len()..]),
        None => (name, ""),
    };
    if let Some(file) = FileName::parse(bare) {
        return format!("*{}{suffix}", &file.to_string()[20..]);
    }
    if let Some(dir) = DirectoryName::parse(bare) {
        return match dir.kind {
            DirectoryKind::Current => "TOPIC-N".to_owned(),
            kind => format!("TOPIC-N {kind:?}"),
        };
    }
    if bare.ends_with(".checkpoint") && bare.starts_with(|c: char| c.is_ascii_digit()) {
        return format!("*.checkpoint{suffix}");
    }
    name.to_owned()
}

impl SimulatedDisk {
    pub fn new() -> SimulatedDisk {
        SimulatedDisk::with_seed(0)
    }

    /// `seed` decides what faults do.
    pub fn with_seed(seed: u64) -> SimulatedDisk {
        let state = State {
            nodes: vec![Node::Dir(DirNode { kind: "/".to_owned(), ..DirNode::default() })],
            next_change: 0,
            changes_left: None,
            calls_left: None,
            is_full: false,
            is_dead: false,
            is_held: false,
            has_failed_to_sync: false,
            trace: None,
            died_at: None,
            failed_at: None,
            activity: "",
            coverage: Coverage::default(),
            random: SmallRng::seed_from_u64(seed),
        };
        SimulatedDisk { state: Arc::new(Mutex::new(state)) }
    }

    /// Dies after `changes` more changes; never if `None`.
    pub fn die_after(&self, changes: Option<u64>) {
        self.state.lock().changes_left = changes;
    }

    /// Fails after `calls` more calls; never if `None`.
    pub fn fail_after(&self, calls: Option<(u64, Fault)>) {
        self.state.lock().calls_left = calls;
    }

    /// Takes the next failure back, and a full disk has room again.
    pub fn make_room(&self) {
        let mut state = self.state.lock();
        (state.calls_left, state.is_full) = (None, false);
    }

    /// Lets somebody look around, to whom nothing happens and who does not count.
    pub fn hold(&self, is_held: bool) {
        self.state.lock().is_held = is_held;
    }

    pub fn is_dead(&self) -> bool {
        self.state.lock().is_dead
    }

    /// The call that failed as it was told to.
    pub fn failed_at(&self) -> Option<CallSite> {
        self.state.lock().failed_at.clone()
    }

    /// A sync has failed: what can be read is perhaps not on disk, and never will be. Only a power loss shows it.
    pub fn has_failed_to_sync(&self) -> bool {
        self.state.lock().has_failed_to_sync
    }

    /// Takes down every call from now on.
    pub fn begin_trace(&self) {
        self.state.lock().trace = Some(Vec::new());
    }

    pub fn take_trace(&self) -> Vec<CallSite> {
        self.state.lock().trace.take().unwrap_or_default()
    }

    /// Says what is being done from now on.
    pub fn set_activity(&self, activity: &'static str) {
        self.state.lock().activity = activity;
    }

    /// What was called since this disk was made.
    pub fn coverage(&self) -> Coverage {
        self.state.lock().coverage.clone()
    }

    /// The disk as the next process finds it. This one is dead from then on.
    pub fn restart(&self, crash: Crash, seed: u64) -> SimulatedDisk {
        let mut random = SmallRng::seed_from_u64(seed);
        let mut old = self.state.lock();
        let died = old.is_dead;
        if let Some(site) = old.died_at.take() {
            let hits = old.coverage.sites.entry(site).or_default();
            match crash {
                Crash::Kill => hits.killed += 1,
                Crash::PowerLoss => hits.power_lost += 1,
            }
        }
        old.is_dead = true;
        let mut nodes = old.nodes.clone();
        if crash == Crash::PowerLoss {
            let loss = match random.random_range(0..3) {
                0 => NameLoss::Before(random.random_range(0..=old.next_change)),
                1 => NameLoss::InOrder,
                _ => NameLoss::Any,
            };
            for node in &mut nodes {
                match node {
                    Node::File(file) => file.lose(&mut random),
                    Node::Dir(dir) => dir.lose(loss, &mut random),
                }
            }
        }
        let mut state = State {
            nodes,
            next_change: old.next_change,
            // What was to come still comes, if the process ended before.
            changes_left: old.changes_left.filter(|_| !died),
            calls_left: old.calls_left.filter(|_| !died),
            is_full: false,
            is_dead: false,
            is_held: false,
            has_failed_to_sync: false,
            trace: old.trace.take(),
            died_at: None,
            failed_at: None,
            activity: "",
            coverage: std::mem::take(&mut old.coverage),
            random,
        };
        state.forget_unreachable();
        SimulatedDisk { state: Arc::new(Mutex::new(state)) }
    }

    /// The names in a directory.
    pub fn file_names(&self, dir: &Path) -> Vec<String> {
        let state = self.state.lock();
        match state.resolve(dir).map(|node| &state.nodes[node]) {
            Ok(Node::Dir(dir)) => dir.names.keys().cloned().collect(),
            _ => Vec::new(),
        }
    }
}

impl State {
    /// Files without a name, or that nobody has open any more, take no room; the others are what their names say. Numbers of
    /// nodes stay.
    fn forget_unreachable(&mut self) {
        let mut reached = BTreeSet::from([0]);
        let mut waiting = vec![0];
        while let Some(node) = waiting.pop() {
            let Node::Dir(dir) = &self.nodes[node] else { continue };
            let now: Vec<(usize, String)> = dir.names.iter().map(|(name, node)| (*node, kind_of(name))).collect();
            let changed = dir.pending.iter().filter_map(|(_, change)| match change {
                NameChange::Insert(_, node) | NameChange::Rename(_, _, node) => Some(node),
                NameChange::Remove(_) => None,
            });
            let named = dir.names.values().chain(dir.durable.values()).chain(changed);
            waiting.extend(named.copied().filter(|node| reached.insert(*node)));
            for (node, kind) in now {
                match &mut self.nodes[node] {
                    Node::File(file) => file.kind = kind,
                    Node::Dir(dir) => dir.kind = kind,
                }
            }
        }
        for (number, node) in self.nodes.iter_mut().enumerate() {
            if !reached.contains(&number) {
                *node = Node::File(FileNode::default());
            }
        }
    }

    fn resolve(&self, path: &Path) -> io::Result<usize> {
        let mut node = 0;
        for component in path.components() {
            let Component::Normal(name) = component else { continue };
            let name = name.to_str().ok_or(io::ErrorKind::InvalidInput)?;
            match &self.nodes[node] {
                Node::Dir(dir) => node = *dir.names.get(name).ok_or(io::ErrorKind::NotFound)?,
                Node::File(_) => return Err(io::ErrorKind::NotADirectory.into()),
            }
        }
        Ok(node)
    }

    /// The directory in which `path` is, or would be, and its name there.
    fn resolve_parent(&self, path: &Path) -> io::Result<(usize, String)> {
        let name = path.file_name().and_then(|name| name.to_str()).ok_or(io::ErrorKind::InvalidInput)?;
        let parent = self.resolve(path.parent().unwrap_or(Path::new("/")))?;
        match &self.nodes[parent] {
            Node::Dir(_) => Ok((parent, name.to_owned())),
            Node::File(_) => Err(io::ErrorKind::NotADirectory.into()),
        }
    }

    fn dir(&mut self, node: usize) -> &mut DirNode {
        match &mut self.nodes[node] {
            Node::Dir(dir) => dir,
            Node::File(_) => panic!("it is a file"),
        }
    }

    fn file(&mut self, node: usize) -> &mut FileNode {
        match &mut self.nodes[node] {
            Node::File(file) => file,
            Node::Dir(_) => panic!("it is a directory"),
        }
    }

    /// Counts a call, and lets it fail if it is to. What fails has changed nothing.
    fn call(&mut self, call: Call, kind: &str) -> io::Result<()> {
        let dead = || io::Error::other("the disk is dead");
        if self.is_dead {
            return Err(dead());
        }
        if self.is_held {
            return Ok(());
        }
        let site = CallSite { activity: self.activity, call, file: kind.to_owned() };
        if let Some(trace) = &mut self.trace {
            trace.push(site.clone());
        }
        if call.is_change() {
            if self.changes_left == Some(0) {
                self.is_dead = true;
                self.died_at = Some(site);
                return Err(dead());
            }
            self.changes_left = self.changes_left.map(|left| left - 1);
        }
        let hits = self.coverage.sites.entry(site.clone()).or_default();
        hits.passed += 1;
        if let Some((left, fault)) = self.calls_left {
            match (left, fault) {
                (0, Fault::Error) => {
                    self.calls_left = None;
                    hits.errors += 1;
                    self.failed_at = Some(site);
                    return Err(io::Error::from_raw_os_error(libc::EIO));
                }
                (0, Fault::Full) if call.needs_room() => {
                    (self.calls_left, self.is_full) = (None, true);
                    self.failed_at = Some(site);
                }
                (0, Fault::Full) => {}
                (_, fault) => self.calls_left = Some((left - 1, fault)),
            }
        }
        if self.is_full && call.needs_room() {
            hits.full += 1;
            return Err(io::Error::from_raw_os_error(libc::ENOSPC));
        }
        Ok(())
    }

    fn change_name(&mut self, dir: usize, change: NameChange) {
        let number = self.next_change;
        self.next_change += 1;
        let dir = self.dir(dir);
        change.apply(&mut dir.names);
        dir.pending.push((number, change));
    }

    fn remove_tree(&mut self, node: usize) {
        let names: Vec<(String, usize)> = match &self.nodes[node] {
            Node::Dir(dir) => dir.names.iter().map(|(name, node)| (name.clone(), *node)).collect(),
            Node::File(_) => return,
        };
        for (name, child) in names {
            self.remove_tree(child);
            self.change_name(node, NameChange::Remove(name));
        }
    }

    fn kind(&self, node: usize) -> String {
        match &self.nodes[node] {
            Node::File(file) => file.kind.clone(),
            Node::Dir(dir) => dir.kind.clone(),
        }
    }
}

impl Disk for SimulatedDisk {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn DiskFile>> {
        let mut state = self.state.lock();
        let (parent, name) = state.resolve_parent(path)?;
        let kind = kind_of(&name);
        let node = match (state.dir(parent).names.get(&name).copied(), mode) {
            (Some(_), OpenMode::CreateNew) => return Err(io::ErrorKind::AlreadyExists.into()),
            (Some(node), _) => {
                state.call(Call::Open, &kind)?;
                node
            }
            (None, OpenMode::Read | OpenMode::ReadWrite) => {
                state.call(Call::Open, &kind)?;
                return Err(io::ErrorKind::NotFound.into());
            }
            (None, OpenMode::Create | OpenMode::CreateNew) => {
                state.call(Call::Create, &kind)?;
                let node = state.nodes.len();
                state.nodes.push(Node::File(FileNode { kind, ..FileNode::default() }));
                state.change_name(parent, NameChange::Insert(name, node));
                node
            }
        };
        match &state.nodes[node] {
            Node::File(_) => Ok(Arc::new(SimulatedFile { state: self.state.clone(), node })),
            Node::Dir(_) => Err(io::ErrorKind::IsADirectory.into()),
        }
    }

    fn info(&self, path: &Path) -> io::Result<FileInfo> {
        let mut state = self.state.lock();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or("/");
        state.call(Call::Info, &kind_of(name))?;
        let node = state.resolve(path)?;
        Ok(match &state.nodes[node] {
            Node::File(file) => FileInfo { len: file.bytes.len() as u64, is_dir: false, modified_ms: file.modified_ms },
            Node::Dir(_) => FileInfo { len: 0, is_dir: true, modified_ms: 0 },
        })
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<DirEntry>> {
        let mut state = self.state.lock();
        let node = state.resolve(dir)?;
        let kind = state.kind(node);
        state.call(Call::List, &kind)?;
        let Node::Dir(dir) = &state.nodes[node] else { return Err(io::ErrorKind::NotADirectory.into()) };
        let is_dir = |node: &usize| matches!(state.nodes[*node], Node::Dir(_));
        Ok(dir.names.iter().map(|(name, node)| DirEntry { name: name.into(), is_dir: is_dir(node) }).collect())
    }

    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        let mut state = self.state.lock();
        let mut node = 0;
        for component in dir.components() {
            let Component::Normal(name) = component else { continue };
            let name = name.to_str().ok_or(io::ErrorKind::InvalidInput)?;
            let Node::Dir(parent) = &state.nodes[node] else { return Err(io::ErrorKind::NotADirectory.into()) };
            node = match parent.names.get(name) {
                Some(child) => *child,
                None => {
                    let kind = kind_of(name);
                    state.call(Call::CreateDir, &kind)?;
                    let child = state.nodes.len();
                    state.nodes.push(Node::Dir(DirNode { kind, ..DirNode::default() }));
                    state.change_name(node, NameChange::Insert(name.to_owned(), child));
                    child
                }
            };
        }
        Ok(())
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.state.lock();
        let (parent, from) = state.resolve_parent(from)?;
        let (to_parent, to) = state.resolve_parent(to)?;
        assert_eq!(parent, to_parent, "nothing is moved from one directory to another");
        state.call(Call::Rename, &format!("{} -> {}", kind_of(&from), kind_of(&to)))?;
        let node = *state.dir(parent).names.get(&from).ok_or(io::ErrorKind::NotFound)?;
        let kind = kind_of(&to);
        state.change_name(parent, NameChange::Rename(from, to, node));
        match &mut state.nodes[node] {
            Node::File(file) => file.kind = kind,
            Node::Dir(dir) => dir.kind = kind,
        }
        Ok(())
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        let mut state = self.state.lock();
        let (parent, name) = state.resolve_parent(path)?;
        if !state.dir(parent).names.contains_key(&name) {
            return Err(if state.is_dead {
                io::Error::other("the disk is dead")
            } else {
                io::ErrorKind::NotFound.into()
            });
        }
        state.call(Call::Remove, &kind_of(&name))?;
        state.change_name(parent, NameChange::Remove(name));
        Ok(())
    }

    fn remove_dir_all(&self, dir: &Path) -> io::Result<()> {
        let mut state = self.state.lock();
        let node = state.resolve(dir)?;
        let (parent, name) = state.resolve_parent(dir)?;
        state.call(Call::RemoveDir, &kind_of(&name))?;
        state.remove_tree(node);
        state.change_name(parent, NameChange::Remove(name));
        Ok(())
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        let mut state = self.state.lock();
        let node = state.resolve(dir)?;
        let kind = state.kind(node);
        let result = state.call(Call::SyncDir, &kind);
        let DirNode { durable, pending, .. } = state.dir(node);
        if result.is_ok() {
            pending.drain(..).for_each(|(_, change)| change.apply(durable));
        }
        result
    }

    fn space(&self, _dir: &Path) -> io::Result<Space> {
        let usable = if self.state.lock().is_full { 0 } else { 1 << 39 };
        Ok(Space { total: 1 << 40, usable })
    }
}

struct SimulatedFile {
    state: Arc<Mutex<State>>,
    node: usize,
}

impl SimulatedFile {
    fn change(&self, call: Call, change: FileChange) -> io::Result<()> {
        let mut state = self.state.lock();
        let kind = state.kind(self.node);
        let was_dead = state.is_dead;
        let result = state.call(call, &kind);
        // What dies or fails in a write may have written a part of it.
        let torn = (result.is_err() && !was_dead).then(|| change.torn(&mut state.random));
        let file = state.file(self.node);
        match (&result, torn) {
            (Ok(()), _) => {
                change.apply(&mut file.bytes);
                file.pending.push(change);
            }
            (Err(_), Some(torn @ FileChange::Write(..))) => {
                torn.apply(&mut file.bytes);
                file.pending.push(torn);
            }
            (Err(_), _) => {}
        }
        result
    }
}

impl DiskFile for SimulatedFile {
    fn file_len(&self) -> io::Result<u64> {
        let mut state = self.state.lock();
        let kind = state.kind(self.node);
        state.call(Call::Len, &kind)?;
        Ok(state.file(self.node).bytes.len() as u64)
    }

    fn read_at(&self, buffer: &mut [u8], position: u64) -> io::Result<usize> {
        let mut state = self.state.lock();
        let kind = state.kind(self.node);
        state.call(Call::Read, &kind)?;
        let rest = state.file(self.node).bytes.get(position as usize..).unwrap_or_default();
        let n = rest.len().min(buffer.len());
        buffer[..n].copy_from_slice(&rest[..n]);
        Ok(n)
    }

    fn read_cached_at(&self, buffer: &mut [u8], position: u64) -> io::Result<Option<usize>> {
        self.read_at(buffer, position).map(Some)
    }

    fn write_vectored_at(&self, buffers: &[IoSlice<'_>], position: u64) -> io::Result<usize> {
        let bytes = buffers.iter().flat_map(|buffer| buffer.iter().copied()).collect::<Vec<u8>>();
        let written = bytes.len();
        self.change(Call::Write, FileChange::Write(position, bytes))?;
        Ok(written)
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut state = self.state.lock();
        let kind = state.kind(self.node);
        let was_dead = state.is_dead;
        let result = state.call(Call::Sync, &kind);
        let State { nodes, random, is_dead, has_failed_to_sync, .. } = &mut *state;
        let Node::File(file) = &mut nodes[self.node] else { panic!("it is a directory") };
        match &result {
            Ok(()) => file.sync(),
            Err(_) if !was_dead && !*is_dead => {
                file.fail_to_sync(random);
                *has_failed_to_sync = true;
            }
            Err(_) => {}
        }
        result
    }

    fn sync_all(&self) -> io::Result<()> {
        self.sync_data()
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.change(Call::SetLen, FileChange::SetLen(len))
    }

    fn set_modified(&self, modified_ms: i64) -> io::Result<()> {
        let mut state = self.state.lock();
        let kind = state.kind(self.node);
        state.call(Call::SetModified, &kind)?;
        state.file(self.node).modified_ms = modified_ms;
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
