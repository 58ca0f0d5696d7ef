//! `meta.properties`: whose a log directory is.
//!
//! It lies in the root of each log directory and names the cluster, the node, and the directory itself. A Java
//! properties file: two comment lines, the second with the date of writing, then the keys in their order. Version 1 has
//! `node.id`; version 0, from before KRaft, has `broker.id`, and everything in it may be missing.
//!
//! [`MetaPropertiesEnsemble`] holds the files of all directories of a node and finds out whether they belong together.
//! What follows from a directory without the file, formatting it or refusing to start, is up to the caller.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;
use tracing::info;

use crate::clock::DateTime;
use crate::config::properties;
use crate::storage::disk::{Disk, is_full};
use crate::storage::partition_metadata;
use crate::types::{BrokerId, DirectoryId};

/// The file's name in a log directory.
pub const FILE_NAME: &str = "meta.properties";

/// The directory of the metadata log.
const METADATA_DIRECTORY: &str = "__cluster_metadata-0";

const MAX_SIZE: usize = 1 << 20;

const VERSION: &str = "version";
const CLUSTER_ID: &str = "cluster.id";
const BROKER_ID: &str = "broker.id";
const NODE_ID: &str = "node.id";
const DIRECTORY_ID: &str = "directory.id";

/// The generation of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetaPropertiesVersion {
    V0,
    V1,
}

/// What the file says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetaProperties {
    pub version: MetaPropertiesVersion,
    /// Always there in version 1.
    pub cluster_id: Option<String>,
    /// Always there in version 1.
    pub node_id: Option<BrokerId>,
    /// Missing in a directory that was last used before KIP-858.
    pub directory_id: Option<DirectoryId>,
}

/// Why the file of a directory cannot be used.
#[derive(Debug, Error)]
pub enum MetaPropertiesError {
    #[error(transparent)]
    Syntax(#[from] properties::PropertiesError),
    #[error("{key} is missing")]
    Missing { key: &'static str },
    #[error("{key} has the invalid value {value:?}")]
    InvalidValue { key: &'static str, value: String },
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl MetaProperties {
    /// What a directory is formatted with.
    pub fn new(cluster_id: &str, node_id: BrokerId, directory_id: DirectoryId) -> MetaProperties {
        MetaProperties {
            version: MetaPropertiesVersion::V1,
            cluster_id: Some(cluster_id.to_owned()),
            node_id: Some(node_id),
            directory_id: Some(directory_id),
        }
    }

    /// The content of the file, written at `now_ms`.
    pub fn encode(&self, now_ms: i64) -> String {
        let (version, id_key) = match self.version {
            MetaPropertiesVersion::V0 => (0, BROKER_ID),
            MetaPropertiesVersion::V1 => (1, NODE_ID),
        };
        let mut entries = vec![(VERSION, version.to_string())];
        entries.extend(self.cluster_id.clone().map(|id| (CLUSTER_ID, id)));
        entries.extend(self.node_id.map(|id| (id_key, id.to_string())));
        entries.extend(self.directory_id.map(|id| (DIRECTORY_ID, id.to_string())));
        entries.sort();
        let mut text = format!("#\n#{}\n", java_date(now_ms));
        for (key, value) in entries {
            writeln!(text, "{key}={}", properties::escape(&value)).expect("writing to a string succeeds");
        }
        text
    }

    pub fn decode(bytes: &[u8]) -> Result<MetaProperties, MetaPropertiesError> {
        let entries = properties::parse(bytes)?;
        let get = |key: &str| entries.get(key).cloned();
        let invalid = |key, value| MetaPropertiesError::InvalidValue { key, value };
        let version = match get(VERSION) {
            None => MetaPropertiesVersion::V0,
            Some(text) => match text.trim() {
                "0" => MetaPropertiesVersion::V0,
                "1" => MetaPropertiesVersion::V1,
                _ => return Err(invalid(VERSION, text)),
            },
        };
        let id_key = match version {
            MetaPropertiesVersion::V0 => BROKER_ID,
            MetaPropertiesVersion::V1 => NODE_ID,
        };
        let node_id = match get(id_key) {
            Some(text) => Some(BrokerId(text.trim().parse().map_err(|_| invalid(id_key, text.clone()))?)),
            None => None,
        };
        let directory_id = match get(DIRECTORY_ID) {
            Some(text) => Some(DirectoryId::parse(&text).ok_or_else(|| invalid(DIRECTORY_ID, text.clone()))?),
            None => None,
        };
        let cluster_id = get(CLUSTER_ID);
        if version == MetaPropertiesVersion::V1 {
            node_id.ok_or(MetaPropertiesError::Missing { key: NODE_ID })?;
            cluster_id.as_ref().ok_or(MetaPropertiesError::Missing { key: CLUSTER_ID })?;
        }
        Ok(MetaProperties { version, cluster_id, node_id, directory_id })
    }

    /// The file of `log_dir`; `None` if there is none.
    pub fn read(disk: &dyn Disk, log_dir: &Path) -> Result<Option<MetaProperties>, MetaPropertiesError> {
        match disk.read_file(&log_dir.join(FILE_NAME), MAX_SIZE) {
            Ok(bytes) => MetaProperties::decode(&bytes).map(Some),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Makes this the file of `log_dir`. Durable on return.
    pub fn write(&self, disk: &dyn Disk, log_dir: &Path, now_ms: i64) -> io::Result<()> {
        disk.write_file_atomically(&log_dir.join(FILE_NAME), self.encode(now_ms).as_bytes())
    }
}

/// A cluster id for a new cluster.
pub fn random_cluster_id() -> String {
    // The same text form as that of all ids.
    DirectoryId::random().to_string()
}

/// A time as `java.util.Date.toString` prints it where the time zone is UTC: `Sun Nov 29 13:54:58 UTC 2026`.
fn java_date(ms: i64) -> String {
    const DAYS: [&str; 7] = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];
    const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let DateTime { year, month, day, weekday, hour, minute, second, .. } = DateTime::utc(ms);
    let (weekday, month) = (DAYS[weekday as usize], MONTHS[month as usize - 1]);
    format!("{weekday} {month} {day:02} {hour:02}:{minute:02}:{second:02} UTC {year}")
}

/// Why the directories of a node do not belong together, or not to it. The start stops.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum EnsembleError {
    #[error("log directory {} belongs to cluster {found}, not to {expected}", dir.display())]
    ClusterId { dir: PathBuf, expected: String, found: String },
    #[error("log directory {} belongs to node {found}, not to {expected}: if it was moved here, node.id must be {found}; if this is a new node, it needs an empty directory", dir.display())]
    NodeId { dir: PathBuf, expected: BrokerId, found: BrokerId },
    #[error("log directories {} and {} have the same directory id {id}", first.display(), second.display())]
    DuplicateDirectoryId { first: PathBuf, second: PathBuf, id: DirectoryId },
    #[error("log directory {} has the reserved directory id {id}", dir.display())]
    ReservedDirectoryId { dir: PathBuf, id: DirectoryId },
    #[error("cannot read or write {FILE_NAME} of the metadata log directory {}: {reason}", dir.display())]
    MetadataLogDir { dir: PathBuf, reason: String, is_full: bool },
    #[error("log directory {} holds {found}, but {} says whose it is: put the file back, or take the logs away", dir.display(), no_file(*has_file))]
    NotNew { dir: PathBuf, found: String, has_file: bool },
    #[error("{} is outside of the metadata log directory {}: was metadata.log.dir changed?", found.display(), metadata_log_dir.display())]
    MetadataElsewhere { found: PathBuf, metadata_log_dir: PathBuf },
}

fn no_file(has_file: bool) -> String {
    match has_file {
        true => format!("nothing in its {FILE_NAME}"),
        false => format!("no {FILE_NAME} that"),
    }
}

impl EnsembleError {
    /// Whether it is for want of room.
    pub fn is_full(&self) -> bool {
        matches!(self, EnsembleError::MetadataLogDir { is_full: true, .. })
    }
}

impl MetaPropertiesError {
    pub fn is_full(&self) -> bool {
        matches!(self, MetaPropertiesError::Io(error) if is_full(error))
    }
}

/// The files of all log directories of a node.
#[derive(Debug, Default)]
pub struct MetaPropertiesEnsemble {
    /// Those that have one.
    pub formatted: BTreeMap<PathBuf, MetaProperties>,
    /// Those without, whether or not the directory itself exists.
    pub unformatted: Vec<PathBuf>,
    /// Those that cannot be read.
    pub failed: BTreeMap<PathBuf, MetaPropertiesError>,
    metadata_log_dir: PathBuf,
    /// A directory that lost its file, or what stood in it: none names its cluster, and in it is what only a broker makes.
    not_new: Option<(PathBuf, String)>,
    /// A metadata log where it should not be.
    metadata_elsewhere: Option<PathBuf>,
}

impl MetaPropertiesEnsemble {
    /// `metadata_log_dir` may be one of the others or not.
    pub fn load(disk: &dyn Disk, log_dirs: &[PathBuf], metadata_log_dir: &Path) -> MetaPropertiesEnsemble {
        let metadata_log_dir = metadata_log_dir.to_path_buf();
        let mut ensemble = MetaPropertiesEnsemble { metadata_log_dir: metadata_log_dir.clone(), ..Default::default() };
        for dir in log_dirs.iter().chain(Some(&metadata_log_dir)).collect::<BTreeSet<_>>() {
            match MetaProperties::read(disk, dir) {
                Ok(Some(found)) => drop(ensemble.formatted.insert(dir.clone(), found)),
                Ok(None) => ensemble.unformatted.push(dir.clone()),
                Err(error) => drop(ensemble.failed.insert(dir.clone(), error)),
            }
            let names_no_cluster = ensemble.formatted.get(dir).is_none_or(|found| found.cluster_id.is_none());
            if ensemble.not_new.is_none() && names_no_cluster && !ensemble.failed.contains_key(dir) {
                ensemble.not_new = sign_of_use(disk, dir).map(|found| (dir.clone(), found));
            }
            let metadata_log = dir.join(METADATA_DIRECTORY);
            if *dir != metadata_log_dir && disk.exists(&metadata_log).unwrap_or(false) {
                ensemble.metadata_elsewhere = Some(metadata_log);
            }
        }
        ensemble
    }

    /// Without its metadata log a node cannot go on.
    pub fn check_metadata_log_dir(&self) -> Result<(), EnsembleError> {
        let dir = self.metadata_log_dir.clone();
        match self.failed.get(&dir) {
            Some(error) => {
                Err(EnsembleError::MetadataLogDir { dir, reason: error.to_string(), is_full: error.is_full() })
            }
            None => Ok(()),
        }
    }

    /// Checks that all directories are those of one node, and of the expected one as far as that is known. Returns the
    /// cluster id, if any file has one. A directory that cannot be read is not an error by itself: it is offline.
    pub fn verify(
        &self,
        expected_cluster_id: Option<&str>,
        expected_node_id: BrokerId,
    ) -> Result<Option<String>, EnsembleError> {
        self.check_metadata_log_dir()?;
        // Under a new id nothing that is assigned to this directory would be found in it.
        if let Some((dir, found)) = self.not_new.clone() {
            let has_file = self.formatted.contains_key(&dir);
            return Err(EnsembleError::NotNew { dir, found, has_file });
        }
        if let Some(found) = self.metadata_elsewhere.clone() {
            return Err(EnsembleError::MetadataElsewhere { found, metadata_log_dir: self.metadata_log_dir.clone() });
        }
        let mut cluster_id = expected_cluster_id.map(str::to_owned);
        let mut seen: BTreeMap<DirectoryId, &PathBuf> = BTreeMap::new();
        for (dir, properties) in &self.formatted {
            if let Some(found) = &properties.cluster_id {
                let expected = cluster_id.get_or_insert_with(|| found.clone());
                if found != expected {
                    let (expected, found) = (expected.clone(), found.clone());
                    return Err(EnsembleError::ClusterId { dir: dir.clone(), expected, found });
                }
            }
            if let Some(found) = properties.node_id
                && found != expected_node_id
            {
                return Err(EnsembleError::NodeId { dir: dir.clone(), expected: expected_node_id, found });
            }
            let Some(id) = properties.directory_id else { continue };
            if [DirectoryId::UNASSIGNED, DirectoryId::LOST, DirectoryId::MIGRATING].contains(&id) {
                return Err(EnsembleError::ReservedDirectoryId { dir: dir.clone(), id });
            }
            if let Some(first) = seen.insert(id, dir) {
                return Err(EnsembleError::DuplicateDirectoryId { first: first.clone(), second: dir.clone(), id });
            }
        }
        Ok(cluster_id)
    }

    /// Formats the directories that have no file, making those that do not exist, and completes the files without a
    /// directory id or of version 0. A directory where that fails counts as failed from then on.
    pub fn format(&mut self, disk: &dyn Disk, cluster_id: &str, node_id: BrokerId, now_ms: i64) {
        let complete = |old: &MetaProperties| MetaProperties {
            directory_id: old.directory_id.or_else(|| Some(DirectoryId::random())),
            ..MetaProperties::new(cluster_id, node_id, DirectoryId::UNASSIGNED)
        };
        let changed: Vec<(PathBuf, MetaProperties)> = self
            .formatted
            .iter()
            .filter(|(_, old)| old.directory_id.is_none() || old.version == MetaPropertiesVersion::V0)
            .map(|(dir, old)| (dir.clone(), complete(old)))
            .chain(std::mem::take(&mut self.unformatted).into_iter().map(|dir| {
                let properties = MetaProperties::new(cluster_id, node_id, DirectoryId::random());
                (dir, properties)
            }))
            .collect();
        for (dir, properties) in changed {
            self.write(disk, dir, properties, now_ms);
        }
    }

    /// Formats one directory that has no file, under an id that was chosen for it.
    pub fn format_directory(&mut self, disk: &dyn Disk, dir: &Path, properties: MetaProperties, now_ms: i64) {
        self.unformatted.retain(|unformatted| unformatted != dir);
        self.write(disk, dir.to_owned(), properties, now_ms);
    }

    fn write(&mut self, disk: &dyn Disk, dir: PathBuf, properties: MetaProperties, now_ms: i64) {
        let written = disk.create_dir_all(&dir).and_then(|()| properties.write(disk, &dir, now_ms));
        match written {
            Ok(()) => {
                info!(dir = %dir.display(), directory_id = ?properties.directory_id, "formatted log directory");
                self.formatted.insert(dir, properties);
            }
            Err(error) => {
                self.formatted.remove(&dir);
                self.failed.insert(dir, error.into());
            }
        }
    }

    /// The ids of the directories that have one.
    pub fn directory_ids(&self) -> BTreeMap<PathBuf, DirectoryId> {
        self.formatted.iter().filter_map(|(dir, found)| Some((dir.clone(), found.directory_id?))).collect()
    }
}

/// The name of what shows that a broker has used a directory: a log, of the metadata or of a partition. A directory that
/// cannot be listed shows nothing.
fn sign_of_use(disk: &dyn Disk, dir: &Path) -> Option<String> {
    let is_log = |name: &OsString| {
        let partition_metadata = dir.join(name).join(partition_metadata::FILE_NAME);
        name == METADATA_DIRECTORY || disk.exists(&partition_metadata).unwrap_or(false)
    };
    let entries = disk.list(dir).ok()?;
    let logs = entries.into_iter().map(|entry| entry.name).filter(is_log);
    let named = logs.map(|name| name.to_string_lossy().into_owned());
    // A log of somebody's rather than one of the broker's own.
    named.min_by_key(|name| (name.starts_with("__"), name.clone()))
}

#[cfg(test)]
mod tests;
