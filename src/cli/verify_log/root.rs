//! The root of a log directory: whose it is, what lies in it, and its checkpoints.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::cli::verify_log::VerifyError;
use crate::cli::verify_log::checkpoints::{Checkpoint, CheckpointKind};
use crate::metadata::log::DIRECTORY as METADATA_DIRECTORY;
use crate::metadata::snapshot::{self, BOOTSTRAP_FILE};
use crate::storage::checkpoint::{CLEAN_SHUTDOWN, CleanShutdownFile};
use crate::storage::directory_name::{DirectoryKind, DirectoryName, METADATA_TOPIC, REMOTE_INDEX_CACHE};
use crate::storage::disk::Disk;
use crate::storage::meta_properties::{self, MetaProperties};
use crate::storage::partition_metadata;
use crate::storage::verify::{Finding, Remedy, VerifiedLog, size_of};
use crate::types::{Offset, TopicId, TopicPartition};

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
        let was_closed = !is_in_use && CleanShutdownFile::new(disk.clone(), path).exists().map_err(&io)?;
        let properties = match MetaProperties::read(&**disk, path) {
            Ok(Some(properties)) => Some(properties),
            Ok(None) => {
                let what = "missing: without it nobody knows which node and cluster the logs are of";
                findings.push(Finding::fault(meta_properties::FILE_NAME, None, what, Remedy::None));
                None
            }
            Err(error) => {
                findings.push(Finding::fault(meta_properties::FILE_NAME, None, error, Remedy::None));
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
            bytes: 0,
            properties,
        };
        dir.list(disk, &mut findings)?;
        if dir.properties.is_none() && dir.partitions.is_empty() {
            return Err(VerifyError::NoLogDirectory(path.to_owned()));
        }
        let has_logs = dir.partitions.iter().any(|log| &*log.name.topic_partition.topic != METADATA_TOPIC);
        for kind in CheckpointKind::ALL {
            let checkpoint = Checkpoint::read(&**disk, path, kind).map_err(&io)?;
            findings.extend(checkpoint.findings(was_closed && has_logs));
            dir.checkpoints.insert(kind, checkpoint);
        }
        if !was_closed && !is_in_use && has_logs {
            let what = "missing: the broker did not end in order, and will look at what it had not flushed";
            findings.push(Finding::note(CLEAN_SHUTDOWN, what, Remedy::None));
        }
        match snapshot::read_bootstrap(&**disk, path) {
            Ok(None) if dir.has_metadata_log => {
                let what = "missing: it is needed for a cluster's first start only";
                findings.push(Finding::note(BOOTSTRAP_FILE, what, Remedy::None));
            }
            Ok(_) => {}
            Err(error) => findings.push(Finding::fault(BOOTSTRAP_FILE, None, error, Remedy::None)),
        }
        Ok((dir, findings))
    }

    fn list(&mut self, disk: &Arc<dyn Disk>, findings: &mut Vec<Finding>) -> Result<(), VerifyError> {
        let io = VerifyError::at(&self.path);
        let mut entries = disk.list(&self.path).map_err(&io)?;
        entries.retain(|entry| entry.is_dir);
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        for entry in entries {
            let path = self.path.join(&entry.name);
            let shown = entry.name.to_string_lossy().into_owned();
            let Some(name) = entry.name.to_str().and_then(DirectoryName::parse) else {
                if shown != REMOTE_INDEX_CACHE {
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
                    let what = "was set aside, as the metadata does not give it to this node";
                    findings.push(Finding::note(&shown, what, Remedy::None));
                }
            }
            self.bytes += size_of(&**disk, &path).map_err(VerifyError::at(&path))?;
            let file = format!("{shown}/{}", partition_metadata::FILE_NAME);
            let topic_id = match partition_metadata::read(&**disk, &path) {
                Ok(Some(topic_id)) => Some(topic_id),
                // A metadata log that was formatted and never opened has none yet.
                Ok(None) if shown == METADATA_DIRECTORY && size_of(&**disk, &path).is_ok_and(|size| size == 0) => None,
                Ok(None) => {
                    findings.push(Finding::fault(file, None, "missing", Remedy::Rebuild));
                    None
                }
                Err(partition_metadata::PartitionMetadataError::Io(source)) => {
                    return Err(VerifyError::Io { path, source });
                }
                Err(error) => {
                    findings.push(Finding::fault(file, None, error, Remedy::Rebuild));
                    None
                }
            };
            self.has_metadata_log |= shown == METADATA_DIRECTORY;
            self.partitions.push(PartitionDirectory { name, dir_name: shown, path, topic_id });
        }
        Ok(())
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
