//! The node under test: its settings, its directory, and its ends.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ottla::config::BrokerConfig;
use ottla::server::node::{Node, NodeError};
use ottla::storage::disk::Disk;
use tempfile::TempDir;

use crate::client::{Client, soon};

/// A node that runs.
pub struct Broker {
    node: Node,
    data: Data,
    settings: BTreeMap<String, String>,
}

/// Where a node's data lies; removed at the end of the test.
pub struct Data {
    root: TempDir,
}

impl Data {
    pub fn new() -> Data {
        Data { root: tempfile::tempdir().expect("a temporary directory") }
    }

    /// In memory, if the machine has a place for that: for tests that make very many files and restart nothing.
    pub fn in_memory() -> Data {
        match tempfile::tempdir_in("/dev/shm") {
            Ok(root) => Data { root },
            Err(_) => Data::new(),
        }
    }

    pub fn path(&self) -> &Path {
        self.root.path()
    }

    /// What a kill at this moment would leave, or a little less: the checkpoints are as old as they may be.
    pub fn copy(&self) -> Data {
        let copy = Data::new();
        copy_directory(self.path(), copy.path());
        copy
    }
}

/// Copies files that are being written to: first the small ones that say how far the others can be trusted.
fn copy_directory(from: &Path, to: &Path) {
    let mut entries: Vec<_> = fs::read_dir(from).expect("a directory").map(|entry| entry.expect("an entry")).collect();
    let is_dir = |entry: &fs::DirEntry| entry.file_type().expect("a type").is_dir();
    entries.sort_by_key(|entry| (is_dir(entry), is_records(&entry.path()), entry.file_name()));
    for entry in entries {
        let target = to.join(entry.file_name());
        if is_dir(&entry) {
            fs::create_dir_all(&target).expect("a directory");
            copy_directory(&entry.path(), &target);
        } else if let Err(error) = fs::copy(entry.path(), &target) {
            // Files that are written anew under another name come and go.
            assert_eq!(error.kind(), std::io::ErrorKind::NotFound, "{}", entry.path().display());
        }
    }
}

/// The names of what is in a directory, ascending.
pub fn names_in(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).expect("a directory");
    let mut names: Vec<String> =
        entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("UTF-8")).collect();
    names.sort();
    names
}

fn is_records(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "log")
}

impl Broker {
    /// A node in a new directory, with these settings and otherwise those that suit a test.
    pub async fn start(settings: &[(&str, &str)]) -> Broker {
        Broker::start_in(Data::new(), settings).await
    }

    pub async fn start_in(data: Data, settings: &[(&str, &str)]) -> Broker {
        let settings = settings.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        Broker::start_with(data, settings).await
    }

    /// As [`Self::start_in`], on another disk than the machine's.
    pub async fn start_on(data: Data, settings: &[(&str, &str)], disk: Arc<dyn Disk>) -> Broker {
        Broker::try_start_on(data, settings, disk).await.unwrap_or_else(|(error, _)| panic!("a start: {error}"))
    }

    /// A node, if it starts there.
    pub async fn try_start_on(
        data: Data,
        settings: &[(&str, &str)],
        disk: Arc<dyn Disk>,
    ) -> Result<Broker, (NodeError, Data)> {
        let settings = settings.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        match soon("a start", Node::start_on(config(data.path(), &settings), disk)).await {
            Ok(node) => Ok(Broker { node, data, settings }),
            Err(error) => Err((error, data)),
        }
    }

    async fn start_with(data: Data, settings: BTreeMap<String, String>) -> Broker {
        let node = soon("a start", Node::start(config(data.path(), &settings))).await.expect("a start");
        Broker { node, data, settings }
    }

    /// Whether a node with this one's settings is kept from starting.
    pub async fn start_second(&self) -> Option<NodeError> {
        match soon("a start", Node::start(config(self.data.path(), &self.settings))).await {
            Ok(node) => {
                node.shutdown().await;
                None
            }
            Err(error) => Some(error),
        }
    }

    pub async fn client(&self) -> Client {
        Client::connect(self.node.endpoints()[0].port).await
    }

    pub fn node(&self) -> &Node {
        &self.node
    }

    /// The directory below which all of `log.dirs` lie; there is one at `data` unless the test said otherwise.
    pub fn path(&self) -> &Path {
        self.data.path()
    }

    /// The directory of a partition, in the only log directory.
    pub fn partition_dir(&self, topic: &str, partition: i32) -> PathBuf {
        self.path().join(format!("data/{topic}-{partition}"))
    }

    /// Ends the node in good order.
    pub async fn shut_down(self) -> Data {
        soon("a shutdown", self.node.shutdown()).await;
        self.data
    }

    /// Ends the node in good order and starts it again.
    pub async fn restart(self) -> Broker {
        let settings = self.settings.clone();
        let data = self.shut_down().await;
        Broker::start_with(data, settings).await
    }

    /// What a kill of this one would leave.
    pub fn node_remains(&self) -> Data {
        self.data.copy()
    }

    /// Starts another node on what a kill of this one would leave. This one goes on.
    pub async fn survivor(&self) -> Broker {
        let data = self.data.copy();
        Broker::start_with(data, self.settings.clone()).await
    }
}

/// The settings of a node whose data is at `root`. Relative paths in `log.dirs` are meant to be below it.
fn config(root: &Path, settings: &BTreeMap<String, String>) -> BrokerConfig {
    let mut given: BTreeMap<String, String> = [
        ("node.id", "1"),
        ("listeners", "PLAINTEXT://127.0.0.1:0"),
        ("log.dirs", "data"),
        // Long enough for no background job to come by unless the test wants it to.
        ("log.initial.task.delay.ms", "3600000"),
    ]
    .map(|(key, value)| (key.to_owned(), value.to_owned()))
    .into();
    given.extend(settings.clone());
    for key in ["log.dirs", "metadata.log.dir"] {
        if let Some(dirs) = given.get_mut(key) {
            let below = |dir: &str| root.join(dir).to_str().expect("UTF-8").to_owned();
            *dirs = dirs.split(',').map(below).collect::<Vec<_>>().join(",");
        }
    }
    BrokerConfig::load(given).expect("valid settings").config
}
