//! The files and directories of a simulated disk: what they hold, what of it is durable, and what a power loss leaves.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Component, Path};

use rand::RngExt as _;
use rand::rngs::SmallRng;

use crate::storage::directory_name::{DirectoryKind, DirectoryName};
use crate::storage::file_name::FileName;

#[derive(Clone)]
pub enum Node {
    File(FileNode),
    Dir(DirNode),
}

#[derive(Clone, Default)]
pub struct FileNode {
    /// What its last name says of it.
    pub kind: String,
    pub bytes: Vec<u8>,
    durable: Vec<u8>,
    /// What happened to `durable` since.
    pub pending: Vec<FileChange>,
    pub modified_ms: i64,
}

#[derive(Clone)]
pub enum FileChange {
    Write(u64, Vec<u8>),
    SetLen(u64),
}

#[derive(Clone, Default)]
pub struct DirNode {
    pub kind: String,
    pub names: BTreeMap<String, usize>,
    durable: BTreeMap<String, usize>,
    /// What happened to `durable` since, numbered.
    pending: Vec<(u64, NameChange)>,
}

#[derive(Clone)]
pub enum NameChange {
    Insert(String, usize),
    Rename(String, String, usize),
    Remove(String),
}

impl Node {
    pub fn file(kind: String) -> Node {
        Node::File(FileNode { kind, ..FileNode::default() })
    }

    pub fn dir(kind: String) -> Node {
        Node::Dir(DirNode { kind, ..DirNode::default() })
    }
}

impl FileChange {
    pub fn apply(&self, bytes: &mut Vec<u8>) {
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
    pub fn torn(&self, random: &mut SmallRng) -> FileChange {
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
pub enum NameLoss {
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

    pub fn sync(&mut self) {
        if !self.pending.is_empty() {
            let FileNode { durable, pending, .. } = self;
            pending.drain(..).for_each(|change| change.apply(durable));
        }
    }

    /// Some of it is on disk, and the rest will never be.
    pub fn fail_to_sync(&mut self, random: &mut SmallRng) {
        for change in std::mem::take(&mut self.pending) {
            if random.random_bool(0.5) {
                change.apply(&mut self.durable);
            }
        }
    }
}

impl DirNode {
    /// What its names are now is durable.
    pub fn sync(&mut self) {
        let DirNode { durable, pending, .. } = self;
        pending.drain(..).for_each(|(_, change)| change.apply(durable));
    }

    /// As of a file: the names are as they were changed, but on disk some never will be.
    pub fn fail_to_sync(&mut self, random: &mut SmallRng) {
        for (_, change) in std::mem::take(&mut self.pending) {
            if random.random_bool(0.5) {
                change.apply(&mut self.durable);
            }
        }
    }

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
pub fn kind_of(name: &str) -> String {
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

/// All files and directories, by number.
#[derive(Clone)]
pub struct Tree {
    /// The first one is the root directory.
    pub nodes: Vec<Node>,
    /// Numbers changes of names.
    next_change: u64,
}

impl Tree {
    pub fn new() -> Tree {
        Tree { nodes: vec![Node::dir("/".to_owned())], next_change: 0 }
    }

    /// The power goes: leaves what is durable, and some of the rest.
    pub fn lose(&mut self, random: &mut SmallRng) {
        let loss = match random.random_range(0..3) {
            0 => NameLoss::Before(random.random_range(0..=self.next_change)),
            1 => NameLoss::InOrder,
            _ => NameLoss::Any,
        };
        for node in &mut self.nodes {
            match node {
                Node::File(file) => file.lose(random),
                Node::Dir(dir) => dir.lose(loss, random),
            }
        }
    }

    /// Files without a name, or that nobody has open any more, take no room; the others are what their names say. Numbers of
    /// nodes stay.
    pub fn forget_unreachable(&mut self) {
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

    pub fn resolve(&self, path: &Path) -> io::Result<usize> {
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
    pub fn resolve_parent(&self, path: &Path) -> io::Result<(usize, String)> {
        let name = path.file_name().and_then(|name| name.to_str()).ok_or(io::ErrorKind::InvalidInput)?;
        let parent = self.resolve(path.parent().unwrap_or(Path::new("/")))?;
        match &self.nodes[parent] {
            Node::Dir(_) => Ok((parent, name.to_owned())),
            Node::File(_) => Err(io::ErrorKind::NotADirectory.into()),
        }
    }

    pub fn dir(&mut self, node: usize) -> &mut DirNode {
        match &mut self.nodes[node] {
            Node::Dir(dir) => dir,
            Node::File(_) => panic!("it is a file"),
        }
    }

    pub fn file(&mut self, node: usize) -> &mut FileNode {
        match &mut self.nodes[node] {
            Node::File(file) => file,
            Node::Dir(_) => panic!("it is a directory"),
        }
    }

    /// Adds a file or directory under a name in `parent`; returns its number.
    pub fn insert(&mut self, parent: usize, name: String, node: Node) -> usize {
        let number = self.nodes.len();
        self.nodes.push(node);
        self.change_name(parent, NameChange::Insert(name, number));
        number
    }

    pub fn change_name(&mut self, dir: usize, change: NameChange) {
        let number = self.next_change;
        self.next_change += 1;
        let dir = self.dir(dir);
        change.apply(&mut dir.names);
        dir.pending.push((number, change));
    }

    pub fn remove_tree(&mut self, node: usize) {
        let names: Vec<(String, usize)> = match &self.nodes[node] {
            Node::Dir(dir) => dir.names.iter().map(|(name, node)| (name.clone(), *node)).collect(),
            Node::File(_) => return,
        };
        for (name, child) in names {
            self.remove_tree(child);
            self.change_name(node, NameChange::Remove(name));
        }
    }

    pub fn kind(&self, node: usize) -> String {
        match &self.nodes[node] {
            Node::File(file) => file.kind.clone(),
            Node::Dir(dir) => dir.kind.clone(),
        }
    }
}
