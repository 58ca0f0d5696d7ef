//! The root of a log directory: whose it is, what lies in it, and its checkpoints.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::cli::verify_log::checkpoints::{Checkpoint, CheckpointKind};
use crate::cli::verify_log::{VerifyError, said};
use crate::metadata::log::DIRECTORY as METADATA_DIRECTORY;
use crate::metadata::snapshot::{self, BOOTSTRAP_FILE};
use crate::storage::checkpoint::{
    CLEAN_SHUTDOWN, CLEANER_OFFSETS, CleanShutdownFile, HIGH_WATERMARKS, LOG_START_OFFSETS, RECOVERY_POINTS,
};
use crate::storage::dir_lock::FILE_NAME as LOCK_FILE;
use crate::storage::directory_name::{DirectoryKind, DirectoryName, METADATA_TOPIC, REMOTE_INDEX_CACHE};
use crate::storage::disk::{Disk, EntryKind, is_set_aside};
use crate::storage::meta_properties::{self, MetaProperties};
use crate::storage::partition_metadata;
use crate::storage::verify::{Finding, Remedy, VerifiedLog, size_of};
use crate::types::{Offset, TopicId, TopicPartition};

/// Files of which it is said elsewhere that they are none.
const FILES: [&str; 5] =
    [meta_properties::FILE_NAME, RECOVERY_POINTS, HIGH_WATERMARKS, LOG_START_OFFSETS, CLEANER_OFFSETS];

/// A directory of a partition.
pub(super) struct PartitionDirectory {
    pub name: DirectoryName,
    pub dir_name: String,
    pub path: PathBuf,
    /// From `partition.metadata`, if that can be read.
    pub topic_id: Option<TopicId>,
}

/// A log directory.
pub(super) struct LogDirectory {
    pub path: PathBuf,
    pub number: usize,
    /// What paths begin with that are printed, if there are several directories.
    prefix: String,
    pub properties: Option<MetaProperties>,
    /// It has the marker of an orderly close.
    pub was_closed: bool,
    pub partitions: Vec<PartitionDirectory>,
    pub has_metadata_log: bool,
    pub checkpoints: BTreeMap<CheckpointKind, Checkpoint>,
    /// What has the name of a partition's directory, and is none.
    pub no_directories: BTreeMap<String, EntryKind>,
    /// Names of what nobody needs, or stands in the place of a file, and a repair takes away.
    pub unwanted: Vec<String>,
    /// Of all logs.
    pub bytes: u64,
}

impl LogDirectory {
    /// Lists a directory and reads the files in its root.
    pub fn look(
        disk: &Arc<dyn Disk>,
        path: &Path,
        number: usize,
        prefix: String,
        is_in_use: bool,
    ) -> Result<(LogDirectory, Vec<Finding>), VerifyError> {
        let io = VerifyError::at(path);
        let mut findings = Vec::new();
        let was_closed = !is_in_use && CleanShutdownFile::new(disk.clone(), path).exists().map_err(io)?;
        let properties = match MetaProperties::read(&**disk, path) {
            Ok(Some(properties)) => {
                if properties.cluster_id.is_none() {
                    let what = "does not say which cluster the logs are of: no broker starts with them then";
                    findings.push(Finding::fault(meta_properties::FILE_NAME, None, what, Remedy::None));
                }
                Some(properties)
            }
            Ok(None) => {
                let what = "missing: without it nobody knows which node and cluster the logs are of";
                findings.push(Finding::fault(meta_properties::FILE_NAME, None, what, Remedy::None));
                None
            }
            Err(error) => {
                let what = said(error, &path.join(meta_properties::FILE_NAME));
                findings.push(Finding::fault(meta_properties::FILE_NAME, None, what, Remedy::None));
                None
            }
        };
        let mut dir = LogDirectory {
            path: path.to_owned(),
            number,
            prefix,
            was_closed,
            partitions: Vec::new(),
            has_metadata_log: false,
            checkpoints: BTreeMap::new(),
            no_directories: BTreeMap::new(),
            unwanted: Vec::new(),
            bytes: 0,
            properties,
        };
        dir.list(disk, &mut findings)?;
        if dir.properties.is_none() && dir.partitions.is_empty() {
            return Err(VerifyError::NoLogDirectory(path.to_owned()));
        }
        let has_logs = dir.partitions.iter().any(|log| &*log.name.topic_partition.topic != METADATA_TOPIC);
        for kind in CheckpointKind::ALL {
            let checkpoint = Checkpoint::read(&**disk, path, kind);
            findings.extend(checkpoint.findings(was_closed && has_logs));
            dir.checkpoints.insert(kind, checkpoint);
        }
        if !was_closed && !is_in_use && has_logs && !dir.unwanted.iter().any(|name| name == CLEAN_SHUTDOWN) {
            let what = "missing: the broker did not end in order, and will look at what it had not flushed";
            findings.push(Finding::note(CLEAN_SHUTDOWN, what, Remedy::None));
        }
        match snapshot::read_bootstrap(&**disk, path) {
            _ if dir.unwanted.iter().any(|name| name == BOOTSTRAP_FILE) => {}
            Ok(None) if dir.has_metadata_log => {
                let what = "missing: it is needed for a cluster's first start only";
                findings.push(Finding::note(BOOTSTRAP_FILE, what, Remedy::None));
            }
            Ok(_) => {}
            Err(error) => {
                let what = said(error, &path.join(BOOTSTRAP_FILE));
                findings.push(Finding::fault(BOOTSTRAP_FILE, None, what, Remedy::None));
            }
        }
        Ok((dir, findings))
    }

    fn list(&mut self, disk: &Arc<dyn Disk>, findings: &mut Vec<Finding>) -> Result<(), VerifyError> {
        let mut entries = disk.list(&self.path).map_err(VerifyError::at(&self.path))?;
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        for entry in entries {
            let path = self.path.join(&entry.name);
            let shown = entry.name.to_string_lossy().into_owned();
            let name = entry.name.to_str().and_then(DirectoryName::parse);
            if !entry.is_file() && [CLEAN_SHUTDOWN, LOCK_FILE, BOOTSTRAP_FILE].contains(&&*shown) {
                let what = format!("is {}, not a file", entry.kind);
                findings.push(Finding::fault(&shown, None, what, Remedy::Remove));
                self.unwanted.push(shown);
                continue;
            }
            if !entry.is_dir() {
                if name.is_some_and(|name| name.kind == DirectoryKind::Current) {
                    self.no_directories.insert(shown, entry.kind);
                }
                continue;
            }
            let Some(name) = name else {
                if is_set_aside(&shown) {
                    let what = "stood in the place of a file, and was set aside: Kafka does not start with it";
                    findings.push(Finding::fault(&shown, None, what, Remedy::Remove));
                    self.unwanted.push(shown);
                } else if !FILES.contains(&&*shown) && shown != REMOTE_INDEX_CACHE {
                    let what = "is no partition's directory: Kafka does not start with it";
                    findings.push(Finding::fault(shown, None, what, Remedy::None));
                }
                continue;
            };
            match name.kind {
                DirectoryKind::Current | DirectoryKind::Future => {}
                DirectoryKind::Deleted => {
                    findings.push(Finding::note(shown, "waits for its deletion", Remedy::None));
                    continue;
                }
                DirectoryKind::Stray => {
                    let what =
                        "was set aside, as the metadata does not give it to this node, or another one took its place";
                    findings.push(Finding::note(&shown, what, Remedy::None));
                }
            }
            // What cannot be looked at is told when it is looked into.
            self.bytes += size_of(&**disk, &path).unwrap_or(0);
            let file = format!("{shown}/{}", partition_metadata::FILE_NAME);
            let topic_id = match partition_metadata::read(&**disk, &path) {
                Ok(Some(topic_id)) => Some(topic_id),
                // A metadata log that was formatted and never opened has none yet.
                Ok(None) if shown == METADATA_DIRECTORY && size_of(&**disk, &path).is_ok_and(|size| size == 0) => None,
                Ok(None) if name.kind == DirectoryKind::Future => {
                    let what = "is a copy that was only begun: a start removes it, and begins anew";
                    findings.push(Finding::note(&shown, what, Remedy::None));
                    None
                }
                // That may be why.
                Ok(None) if name.kind == DirectoryKind::Stray => None,
                Ok(None) => {
                    findings.push(Finding::fault(file, None, "missing", Remedy::Rebuild));
                    None
                }
                Err(error @ partition_metadata::PartitionMetadataError::Io(_)) => {
                    let error = said(error, &path.join(partition_metadata::FILE_NAME));
                    let what = format!("cannot be read: {error}");
                    findings.push(Finding::fault(file, None, what, Remedy::None));
                    None
                }
                Err(error) => {
                    let what = said(error, &path.join(partition_metadata::FILE_NAME));
                    findings.push(Finding::fault(file, None, what, Remedy::Rebuild));
                    None
                }
            };
            self.has_metadata_log |= shown == METADATA_DIRECTORY;
            self.partitions.push(PartitionDirectory { name, dir_name: shown, path, topic_id });
        }
        self.check_futures(findings);
        Ok(())
    }

    /// A move leads to another directory: what lies beside the log itself is of no move.
    fn check_futures(&mut self, findings: &mut Vec<Finding>) {
        for copy in self.partitions.iter().filter(|log| log.name.kind == DirectoryKind::Future) {
            let current = copy.name.topic_partition.to_string();
            if self.partitions.iter().any(|log| log.dir_name == current) {
                let what = format!("is a copy of {current} beside it, where no move leads: a start does not use it");
                findings.push(Finding::fault(&copy.dir_name, None, what, Remedy::Remove));
                self.unwanted.push(copy.dir_name.clone());
            }
        }
    }

    /// A path in this directory as it is printed.
    pub fn shown(&self, file: &str) -> String {
        format!("{}{file}", self.prefix)
    }

    pub fn offset(&self, kind: CheckpointKind, partition: &TopicPartition) -> Option<Offset> {
        self.checkpoints.get(&kind)?.offsets.get(partition).copied()
    }

    pub fn log_start_offset(&self, partition: &TopicPartition) -> Offset {
        self.offset(CheckpointKind::LogStart, partition).unwrap_or_default()
    }

    /// Whether the checkpoints lie within the logs.
    pub fn check_bounds(&self, logs: &BTreeMap<&TopicPartition, &VerifiedLog>) -> Vec<Finding> {
        let bounded = |checkpoint: &Checkpoint| checkpoint.check_bounds(logs);
        self.checkpoints.values().flat_map(bounded).collect()
    }
}
