//! `__cluster_metadata-0`: the log of the quorum, with its snapshots.
//!
//! Owns the log's directory: segments through [`Log`], snapshots beside them. Opening it gives the state that snapshot
//! and log add up to. Appends take batches whose offsets and epoch are set already. When the log and its snapshots
//! outgrow their retention, the oldest snapshots go, and with them the log's head that only they needed: the log never
//! starts behind its oldest snapshot's end (KIP-630).
//!
//! Used by one thread, the controller's driver.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use tracing::{info, warn};

use super::batch::{BatchDecodeError, MAX_BATCH_SIZE, MetadataBatch};
use super::image::MetadataImage;
use super::replay::{Replay, ReplayError};
use super::snapshot::{self, SnapshotError, SnapshotFile, SnapshotId};
use crate::config::TopicConfig;
use crate::record::batch::{BatchError, batches};
use crate::storage::disk::Disk;
use crate::storage::log::{
    AppendContext, AppendError, ChangeError, FlushError, Log, LogContext, LogOpenError, LogParams, ReadError, Wait,
};
use crate::storage::partition_metadata;
use crate::storage::producer_state::ProducerStateConfig;
use crate::storage::recovery::{DamagePolicy, RecoveryProgress, RecoveryReport};
use crate::storage::validate::{AppendOrigin, TargetCompression, ValidateError, ValidationConfig, validate};
use crate::types::{LeaderEpoch, Offset, TopicId, TopicPartition};

/// The directory's name within `metadata.log.dir`.
pub const DIRECTORY: &str = "__cluster_metadata-0";

/// Bytes read at once at start.
const READ_SIZE: usize = 4 << 20;

/// The settings of the metadata log.
#[derive(Clone, Debug)]
pub struct MetadataLogSettings {
    /// `metadata.log.segment.bytes`
    pub segment_bytes: i32,
    /// `metadata.log.segment.ms`
    pub segment_ms: i64,
    /// `metadata.max.retention.bytes`; negative: no limit.
    pub retention_bytes: i64,
    /// `metadata.max.retention.ms`; negative: no limit.
    pub retention_ms: i64,
}

/// Why the metadata log cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum MetadataLogError {
    #[error("{path}: {source}")]
    Io { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Open(#[from] LogOpenError),
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error(transparent)]
    Change(#[from] ChangeError),
    #[error(transparent)]
    Snapshot(#[from] SnapshotError),
    #[error(
        "the metadata log starts at offset {log_start_offset}, and no snapshot of what was before it can be read: the \
         directory is not complete"
    )]
    NoSnapshot { log_start_offset: Offset },
    #[error("metadata log: {0}")]
    Batch(#[from] BatchError),
    #[error("metadata log: {0}")]
    Decode(#[from] BatchDecodeError),
    #[error("metadata log: {0}")]
    Replay(#[from] ReplayError),
    #[error("the directory holds metadata of topic id {0}, not of the quorum")]
    OtherTopic(TopicId),
}

/// Why a batch was not appended. The log has failed then; it takes nothing any more.
#[derive(Debug, thiserror::Error)]
pub enum MetadataAppendError {
    #[error(transparent)]
    Append(#[from] AppendError),
    #[error(transparent)]
    Flush(#[from] FlushError),
    #[error("the controller made a batch that its log refuses: {0:?}")]
    Invalid(ValidateError),
}

/// Room that is kept behind the end of the log.
const KEPT_BYTES: u64 = 256 << 10;

/// The metadata log and its snapshots.
pub struct MetadataLog {
    log: Arc<Log>,
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    topic_partition: TopicPartition,
    settings: MetadataLogSettings,
    /// With their sizes in bytes.
    snapshots: BTreeMap<SnapshotId, u64>,
}

/// What opening the log found.
pub struct Opened {
    pub log: MetadataLog,
    /// What snapshot and log add up to.
    pub replay: Replay,
    pub report: RecoveryReport,
    /// Bytes of the log behind the newest snapshot.
    pub bytes_since_snapshot: u64,
}

impl MetadataLog {
    /// Opens the log in `log_dir`, or makes an empty one. The log is read from the newest snapshot on, whether it was
    /// closed or not: nothing in it is taken on trust.
    pub fn open(
        context: &LogContext,
        log_dir: &Path,
        settings: MetadataLogSettings,
        progress: Option<RecoveryProgress>,
    ) -> Result<Opened, MetadataLogError> {
        let dir = log_dir.join(DIRECTORY);
        let topic_partition = TopicPartition::new("__cluster_metadata", 0);
        let disk = Arc::clone(&context.disk);
        let config = TopicConfig {
            segment_bytes: settings.segment_bytes,
            segment_ms: settings.segment_ms,
            // Snapshots decide what goes, see `clean`.
            retention_ms: -1,
            retention_bytes: -1,
            max_message_bytes: MAX_BATCH_SIZE as i32,
            ..TopicConfig::default()
        };
        let params = LogParams {
            dir: dir.clone(),
            topic_partition: topic_partition.clone(),
            config: Arc::new(config),
            log_start_offset: Offset(0),
            recovery_point: Offset(0),
            gaps_up_to: Offset(0),
            clean_shutdown: false,
            damage: DamagePolicy::CutOffKeepingCopy,
            producers: ProducerStateConfig::default(),
            progress,
            on_failure: None,
        };
        let (log, report) = Log::open(context, params)?;
        let io = |source| MetadataLogError::Io { path: dir.clone(), source };
        // Who made the directory was killed, perhaps, before its name was on disk.
        disk.sync_dir(log_dir).map_err(io)?;
        match partition_metadata::read(&*disk, &dir) {
            Ok(Some(TopicId::METADATA)) => {}
            Ok(Some(other)) => return Err(MetadataLogError::OtherTopic(other)),
            Ok(None) => partition_metadata::write(&*disk, &dir, TopicId::METADATA).map_err(io)?,
            Err(error) => return Err(io(io::Error::new(io::ErrorKind::InvalidData, error.to_string()))),
        }
        let mut opened = MetadataLog { log, disk, dir, topic_partition, settings, snapshots: BTreeMap::new() };
        opened.find_snapshots()?;
        let replay = opened.load_newest_snapshot()?;
        let (replay, bytes_since_snapshot) = opened.read_tail(replay)?;
        Ok(Opened { log: opened, replay, report, bytes_since_snapshot })
    }

    /// Lists the snapshots, and removes leftovers and those from before the log's start.
    fn find_snapshots(&mut self) -> Result<(), MetadataLogError> {
        let io = |source| MetadataLogError::Io { path: self.dir.clone(), source };
        let mut unneeded = Vec::new();
        let mut snapshots = BTreeMap::new();
        for entry in self.disk.list(&self.dir).map_err(io)? {
            let Some(name) = entry.name.to_str() else { continue };
            match SnapshotFile::parse(name) {
                None => {}
                Some(SnapshotFile::Complete(id)) if id.end_offset >= self.log.log_start_offset() => {
                    snapshots.insert(id, self.disk.info(&self.dir.join(name)).map_err(io)?.len);
                }
                Some(SnapshotFile::Complete(_) | SnapshotFile::Leftover) => unneeded.push(self.dir.join(name)),
            }
        }
        if self.log.log_start_offset() > Offset(0) && snapshots.is_empty() {
            return Err(MetadataLogError::NoSnapshot { log_start_offset: self.log.log_start_offset() });
        }
        for path in unneeded {
            self.disk.remove_if_exists(&path).map_err(io)?;
            info!(path = %path.display(), "removed an unneeded metadata snapshot");
        }
        self.snapshots = snapshots;
        Ok(())
    }

    /// The newest snapshot that can be read, or the empty state if the log reaches back to its first record.
    fn load_newest_snapshot(&mut self) -> Result<Replay, MetadataLogError> {
        for id in self.snapshots.keys().rev().copied().collect::<Vec<_>>() {
            match snapshot::read(&*self.disk, &self.dir, id) {
                Ok(replay) => {
                    if id.end_offset > self.log.log_end_offset() {
                        // The log was lost, or a follower went down between fetching a snapshot and starting over.
                        warn!(snapshot = %id, log_end_offset = %self.log.log_end_offset(), "metadata log ends before its snapshot, starting it there");
                        self.log.truncate_fully_and_start_at(id.end_offset)?;
                    }
                    return Ok(replay);
                }
                // An older one, or the log itself, may do as well.
                Err(error) => {
                    warn!(%error, "cannot read a metadata snapshot");
                    self.snapshots.remove(&id);
                }
            }
        }
        match self.log.log_start_offset() {
            Offset(0) => Ok(Replay::new(MetadataImage::empty())),
            log_start_offset => Err(MetadataLogError::NoSnapshot { log_start_offset }),
        }
    }

    /// Takes in the log from the end of `replay` on.
    fn read_tail(&self, mut replay: Replay) -> Result<(Replay, u64), MetadataLogError> {
        let mut next = replay.image().provenance.offset.plus(1);
        let end = self.log.log_end_offset();
        let mut total = 0;
        while next < end {
            let read = self.log.read(next, READ_SIZE, end, true, Wait::ForDisk)?;
            let mut buffer = BytesMut::new();
            read.slice.read_into(&mut buffer).map_err(ReadError::Io)?;
            let start = next;
            let corrupt = |reason| {
                MetadataLogError::Read(ReadError::Corrupt {
                    segment_base_offset: read.start.map_or(start, |at| at.segment_base_offset),
                    position: read.start.map_or(0, |at| at.relative_position_in_segment),
                    reason,
                })
            };
            for batch in batches(&buffer) {
                let batch = batch?;
                // A snapshot may end within a batch that another node wrote.
                if batch.last_offset() < next {
                    continue;
                }
                if batch.base_offset() > next {
                    // Readers of other logs go on behind what is damaged. Here the rest would mean something else.
                    return Err(corrupt(format!("the records from {next} to {} are missing", batch.base_offset())));
                }
                replay.apply(&MetadataBatch::decode(&batch)?)?;
                next = batch.last_offset().plus(1);
                total += batch.size_in_bytes() as u64;
            }
            if next == start {
                return Err(corrupt("no batch where one should be".to_owned()));
            }
        }
        Ok((replay, total))
    }

    /// The offset that the next record gets.
    pub fn log_end_offset(&self) -> Offset {
        self.log.log_end_offset()
    }

    pub fn log_start_offset(&self) -> Offset {
        self.log.log_start_offset()
    }

    /// The epoch of the last record.
    pub fn last_epoch(&self) -> LeaderEpoch {
        let of_snapshot = self.snapshots.last_key_value().map(|(id, _)| id.epoch);
        let of_log = self.log.latest_epoch();
        of_log.max(of_snapshot).unwrap_or(LeaderEpoch(0))
    }

    /// Where the log and its snapshots lie.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The disk they lie on.
    pub fn disk(&self) -> &Arc<dyn Disk> {
        &self.disk
    }

    /// Appends whole batches that carry their offsets and the epoch. Durable only after [`MetadataLog::flush`].
    pub fn append(&mut self, batches: Bytes, epoch: LeaderEpoch, now_ms: i64) -> Result<(), MetadataAppendError> {
        let defaults = TopicConfig::default();
        let config = ValidationConfig {
            partition: &self.topic_partition,
            origin: AppendOrigin::RaftLeader,
            leader_epoch: epoch,
            max_message_bytes: MAX_BATCH_SIZE as i32,
            timestamp_type: crate::record::batch::TimestampType::CreateTime,
            timestamp_before_max_ms: defaults.message_timestamp_before_max_ms,
            timestamp_after_max_ms: defaults.message_timestamp_after_max_ms,
            compression: TargetCompression::Producer,
            compacted: false,
        };
        let records = validate(batches, &config, now_ms).map_err(MetadataAppendError::Invalid)?;
        self.log.append_as_leader(records, epoch, AppendOrigin::RaftLeader, AppendContext::default())?;
        Ok(())
    }

    /// Keeps room for the records to come, so that a disk which is full of others still takes the deletion of a topic.
    pub fn keep_room(&self) {
        self.log.reserve_ahead(KEPT_BYTES);
    }

    /// Removes what was appended from `start` on, none of which is committed.
    pub fn take_back(&mut self, start: Offset) -> Result<(), ChangeError> {
        self.log.truncate_to(start).map(drop)
    }

    /// Makes everything appended durable.
    pub fn flush(&mut self) -> Result<(), FlushError> {
        self.log.flush(self.log.log_end_offset())
    }

    /// Notes a snapshot that was written.
    pub fn snapshot_written(&mut self, id: SnapshotId, size: u64) {
        self.snapshots.insert(id, size);
    }

    /// Removes the oldest snapshots that retention has no use for, and the log's head before the oldest that stays.
    /// The newest snapshot always stays.
    pub fn clean(&mut self, now_ms: i64) -> Result<(), MetadataLogError> {
        let log_size = self.log.size();
        let mut snapshots_size: u64 = self.snapshots.values().sum();
        let mut keep_from = None;
        let ids: Vec<SnapshotId> = self.snapshots.keys().copied().collect();
        for pair in ids.windows(2) {
            let too_large =
                self.settings.retention_bytes >= 0 && log_size + snapshots_size > self.settings.retention_bytes as u64;
            if !too_large && !self.is_expired(pair[0], now_ms) {
                break;
            }
            snapshots_size -= self.snapshots[&pair[0]];
            keep_from = Some(pair[1]);
        }
        let Some(oldest) = keep_from else { return Ok(()) };
        self.log.advance_log_start_offset(oldest.end_offset)?;
        self.log.delete_old_segments(now_ms, self.log.log_end_offset())?;
        for id in ids.into_iter().filter(|id| *id < oldest) {
            let path = self.dir.join(id.file_name());
            self.disk.remove_if_exists(&path).map_err(|source| MetadataLogError::Io { path, source })?;
            self.snapshots.remove(&id);
            info!(snapshot = %id, "removed an old metadata snapshot");
        }
        Ok(())
    }

    /// Whether what the snapshot contains is older than the retention allows. Its header says so.
    fn is_expired(&self, id: SnapshotId, now_ms: i64) -> bool {
        if self.settings.retention_ms < 0 {
            return false;
        }
        match snapshot::read_log_time_ms(&*self.disk, &self.dir, id) {
            Ok(time_ms) => now_ms - time_ms > self.settings.retention_ms,
            Err(error) => {
                warn!(%error, "cannot read a metadata snapshot");
                true
            }
        }
    }

    /// Flushes and closes the log.
    pub fn close(&mut self) -> Result<(), FlushError> {
        self.log.close()
    }
}

#[cfg(test)]
mod tests;
