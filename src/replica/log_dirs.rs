//! What administrators ask and tell of log directories (KIP-113): what lies where, and to move it.

use std::collections::HashSet;
use std::path::PathBuf;

use thiserror::Error;

use super::{LookupError, ReplicaManager};
use crate::storage::disk::Space;
use crate::storage::manager::{LogDirInfo, MoveError, absolute};
use crate::types::{DirectoryId, TopicId, TopicPartition};

/// A log directory and the replicas in it.
#[derive(Clone, Debug)]
pub struct LogDirDescription {
    /// Absolute.
    pub path: PathBuf,
    /// `None`: the directory is offline.
    pub online: Option<OnlineLogDir>,
}

/// What is known of a directory that serves.
#[derive(Clone, Debug)]
pub struct OnlineLogDir {
    /// Of the volume; `None` if the system does not tell.
    pub space: Option<Space>,
    /// It takes no new replicas (KIP-1066).
    pub is_cordoned: bool,
    /// By partition.
    pub replicas: Vec<LogDirReplica>,
}

/// A replica in a log directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogDirReplica {
    pub topic_partition: TopicPartition,
    /// Bytes of its segments.
    pub size: u64,
    /// How far it is behind the high watermark, or a copy that is being made behind its log; -1: not known.
    pub offset_lag: i64,
    pub is_future: bool,
}

/// Why a replica is not moved.
#[derive(Debug, Error)]
pub enum AlterLogDirError {
    #[error(transparent)]
    Move(#[from] MoveError),
    /// INVALID_REPLICA_ASSIGNMENT
    #[error("log directory {0} is cordoned")]
    Cordoned(String),
    #[error(transparent)]
    Lookup(#[from] LookupError),
}

impl ReplicaManager {
    /// All log directories, in the order of the setting, with those replicas that are asked for, or all.
    pub fn describe_log_dirs(&self, wanted: Option<&HashSet<TopicPartition>>) -> Vec<LogDirDescription> {
        let mut seen = HashSet::new();
        let dirs = self.logs().log_dirs().into_iter();
        let described = dirs.filter(|dir| seen.insert(dir.path.clone())).map(|dir| {
            let online = dir.is_online.then(|| self.describe_log_dir(&dir, wanted));
            LogDirDescription { path: absolute(&dir.path), online }
        });
        described.collect()
    }

    fn describe_log_dir(&self, dir: &LogDirInfo, wanted: Option<&HashSet<TopicPartition>>) -> OnlineLogDir {
        let logs = self.logs().describe(dir.id).into_iter();
        let replicas =
            logs.filter(|log| wanted.is_none_or(|wanted| wanted.contains(&log.topic_partition))).map(|log| {
                let partition = self.partition(&log.topic_partition.topic, log.topic_partition.partition);
                let offset_lag = match partition {
                    Ok(partition) if log.is_future => partition.log_end_offset().0 - log.log_end_offset.0,
                    Ok(partition) => (partition.high_watermark().0 - log.log_end_offset.0).max(0),
                    Err(_) => -1,
                };
                let (topic_partition, size, is_future) = (log.topic_partition, log.size, log.is_future);
                LogDirReplica { topic_partition, size, offset_lag, is_future }
            });
        OnlineLogDir { space: dir.space, is_cordoned: dir.is_cordoned, replicas: replicas.collect() }
    }

    /// Those log directories that take no new replicas (KIP-1066).
    pub fn cordoned_log_dirs(&self) -> Vec<DirectoryId> {
        self.logs().cordoned_dirs()
    }

    /// Moves a replica to the log directory of this absolute path, or has it made there once it is given to this broker.
    /// Returns when the move has begun. Waits for the disk.
    pub fn alter_replica_log_dir(&self, topic_partition: &TopicPartition, path: &str) -> Result<(), AlterLogDirError> {
        self.logs().check_name(topic_partition)?;
        let directory = self.logs().check_dir(path)?;
        if self.logs().is_cordoned(directory) {
            return Err(AlterLogDirError::Cordoned(path.to_owned()));
        }
        let partition = match self.partition(&topic_partition.topic, topic_partition.partition) {
            Ok(partition) => partition,
            Err(error) => {
                if !matches!(error, LookupError::Offline) {
                    self.logs().prefer_dir(topic_partition, directory);
                }
                return Err(error.into());
            }
        };
        if let Some(logs) = self.logs().create_future(topic_partition, path)? {
            self.moves().start(partition, logs);
        }
        Ok(())
    }

    /// Goes on with the moves that a stop has interrupted.
    pub(super) fn resume_moves(&self) {
        for (topic_partition, _) in self.logs().futures() {
            let partition = self.partition(&topic_partition.topic, topic_partition.partition);
            if let (Ok(partition), Some(logs)) = (partition, self.logs().future(&topic_partition)) {
                self.moves().start(partition, logs);
            }
        }
    }

    /// Notes where a replica lies, if that is not where the metadata says.
    pub(super) fn check_directory(&self, topic: TopicId, name: &TopicPartition, named: Option<DirectoryId>) {
        let Some(actual) = self.logs().directory_of(name) else { return };
        if named != Some(actual) && named != Some(DirectoryId::MIGRATING) {
            self.assignments().add(topic, name.partition, actual);
        }
    }
}
