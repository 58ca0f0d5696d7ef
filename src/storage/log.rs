//! `Log`: the records of one partition on this node, as Kafka's segment files.
//!
//! Owns the partition's directory: segments, indexes, producer snapshots and the leader-epoch file. Its invariants:
//!
//! - `log_start_offset <= recovery_point <= log_end_offset`, and the segments cover `log_start_offset..log_end_offset`,
//!   in order, with gaps only where compaction or damage left them;
//! - bytes below `log_end_offset` are never changed, except by truncation; `log_end_offset` is published after the
//!   bytes are written, so that a reader never sees half a batch;
//! - a log that failed ([`Log::is_failed`]) takes nothing any more, since nobody can tell what the disk holds.
//!
//! One lock is held over an append, a roll, a truncation; readers take none of it: they see an immutable list of
//! segments. Called by the replica layer (partitions, the metadata log). Knows nothing of the wire, of replicas, or of
//! the high watermark but what it is handed.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use thiserror::Error;

use crate::clock::Clock;
use crate::config::TopicConfig;
use crate::storage::background::Background;
use crate::storage::disk::Disk;
use crate::storage::file_cache::FileCache;
use crate::storage::recovery::{DamagePolicy, RecoveryProgress, RecoveryReport};
use crate::storage::slice::LogSlice;
use crate::storage::validate::{AppendOrigin, ValidatedRecords};
use crate::types::{LeaderEpoch, Offset, TopicPartition};

/// What all logs of a process share.
#[derive(Clone)]
pub struct LogContext {
    pub disk: Arc<dyn Disk>,
    pub clock: Arc<dyn Clock>,
    pub files: Arc<FileCache>,
    pub background: Background,
}

/// What [`Log::open`] needs to know of one partition.
pub struct LogParams {
    /// The partition's directory; made if it does not exist.
    pub dir: PathBuf,
    pub topic_partition: TopicPartition,
    pub config: Arc<TopicConfig>,
    /// From `log-start-offset-checkpoint`; 0 if it is not there.
    pub log_start_offset: Offset,
    /// From `recovery-point-offset-checkpoint`; 0 if it is not there.
    pub recovery_point: Offset,
    /// Whether the log directory was closed in an orderly way.
    pub clean_shutdown: bool,
    /// What to do with damage that is followed by readable records.
    pub damage: DamagePolicy,
    /// `producer.id.expiration.ms`
    pub producer_id_expiration_ms: i64,
    /// Called now and then while a recovery reads.
    pub progress: Option<RecoveryProgress>,
}

/// Why a log cannot be opened. Damage is never a reason: it is repaired and reported.
#[derive(Debug, Error)]
pub enum LogOpenError {
    #[error("{path}: {source}")]
    Io { path: PathBuf, source: io::Error },
}

/// What an append did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AppendInfo {
    pub first_offset: Offset,
    pub last_offset: Offset,
    /// The time that the broker gave to the records (`message.timestamp.type=LogAppendTime`).
    pub log_append_time_ms: Option<i64>,
    pub log_start_offset: Offset,
    /// The producer had sent this batch before; nothing was written, the offsets are those of the first time.
    pub duplicate: bool,
    /// `flush.messages` asks for a flush: acknowledge only after [`Log::flush_then`] has called back.
    pub flush_due: bool,
}

/// Why an append did not happen. Nothing was written, or else the log has failed.
#[derive(Debug, Error)]
pub enum AppendError {
    /// A follower was given records that are not behind its own (UNEXPECTED: the fetcher truncates or resets).
    #[error("records from {first_offset} to {last_offset} do not follow the log's end {log_end_offset}")]
    UnexpectedOffset { first_offset: Offset, last_offset: Offset, log_end_offset: Offset },
    /// RECORD_LIST_TOO_LARGE
    #[error("{size} bytes are more than a segment holds ({segment_bytes})")]
    LargerThanSegment { size: usize, segment_bytes: i32 },
    /// The disk failed now (`ENOSPC`, `EIO`, …): the caller takes the log directory offline.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The disk failed earlier, or the log was closed or deleted: KAFKA_STORAGE_ERROR.
    #[error("the log is offline")]
    Offline,
}

/// Records read: where they lie, not yet the bytes.
#[derive(Clone, Debug)]
pub struct LogRead {
    /// Whole batches from the one that holds the first wanted offset on, but the last may be cut by the byte limit.
    pub slice: LogSlice,
    /// Not even the first batch fits within the byte limit.
    pub first_batch_incomplete: bool,
    /// Where the first batch lies.
    pub position: LogPosition,
}

/// A place in the log. Two places of one segment can be compared by bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogPosition {
    pub segment_base_offset: Offset,
    pub bytes: u32,
}

/// Why records cannot be read.
#[derive(Debug, Error)]
pub enum ReadError {
    /// OFFSET_OUT_OF_RANGE
    #[error("{offset} is not within {log_start_offset}..={log_end_offset}")]
    OutOfRange { offset: Offset, log_start_offset: Offset, log_end_offset: Offset },
    /// Only from calls that must not wait for the disk: call again, waiting, from a thread that may.
    #[error("the disk must be waited for")]
    WouldBlock,
    /// The bytes on disk are no batches.
    #[error("segment {segment_base_offset} is damaged at {position}: {reason}")]
    Corrupt { segment_base_offset: Offset, position: u32, reason: String },
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Whether a call may wait for the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// It may.
    ForDisk,
    /// It must answer [`ReadError::WouldBlock`] instead: the caller is an async thread.
    Never,
}

/// A record found by time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimestampOffset {
    pub timestamp: i64,
    pub offset: Offset,
    pub leader_epoch: Option<LeaderEpoch>,
}

/// Until where records of a leader epoch go (KIP-279): `leader_epoch` is the asked one or the largest known before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EpochEndOffset {
    pub leader_epoch: LeaderEpoch,
    pub end_offset: Offset,
}

/// A transaction whose records a reader of committed records leaves out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AbortedTransaction {
    pub producer_id: crate::types::ProducerId,
    pub first_offset: Offset,
}

/// Why records are not durable. It is final: the log has failed.
#[derive(Clone, Debug, Error)]
#[error("flush failed: {0}")]
pub struct FlushError(pub Arc<io::Error>);

/// The sizes of a segment, for metrics and admin requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentInfo {
    pub base_offset: Offset,
    pub size: u32,
}

/// A partition's log. Shared by all that read, write and clean it.
pub struct Log {}

#[allow(unused_variables)]
impl Log {
    /// Opens the log in `params.dir`, or makes an empty one; after a crash, reads what may not be on disk. Long only
    /// then. The caller runs several of them side by side.
    pub fn open(context: &LogContext, params: LogParams) -> Result<(Arc<Log>, RecoveryReport), LogOpenError> {
        todo!()
    }

    pub fn topic_partition(&self) -> &TopicPartition {
        todo!()
    }

    pub fn dir(&self) -> PathBuf {
        todo!()
    }

    pub fn config(&self) -> Arc<TopicConfig> {
        todo!()
    }

    /// The first offset that may be read.
    pub fn log_start_offset(&self) -> Offset {
        todo!()
    }

    /// The offset that the next record gets.
    pub fn log_end_offset(&self) -> Offset {
        todo!()
    }

    /// Everything below is on disk; a crash recovery starts reading here.
    pub fn recovery_point(&self) -> Offset {
        todo!()
    }

    /// The first offset of the oldest transaction that is open, or was decided above the high watermark. The last
    /// stable offset is the smaller of this and the high watermark.
    pub fn first_unstable_offset(&self) -> Option<Offset> {
        todo!()
    }

    /// Bytes of all segments.
    pub fn size(&self) -> u64 {
        todo!()
    }

    pub fn segments(&self) -> Vec<SegmentInfo> {
        todo!()
    }

    /// The disk failed, or the log was closed or deleted.
    pub fn is_failed(&self) -> bool {
        todo!()
    }

    /// Appends as the leader in `leader_epoch`. For [`AppendOrigin::Client`] and [`AppendOrigin::Coordinator`] offsets
    /// and epoch are assigned here; the metadata quorum's leader has set its own.
    pub fn append_as_leader(
        &self,
        records: ValidatedRecords,
        leader_epoch: LeaderEpoch,
        origin: AppendOrigin,
    ) -> Result<AppendInfo, AppendError> {
        todo!()
    }

    /// Appends what a leader sent, with its offsets and epochs.
    pub fn append_as_follower(&self, records: ValidatedRecords) -> Result<AppendInfo, AppendError> {
        todo!()
    }

    /// Tells where records from `start` on lie, below `upper_bound` (high watermark, last stable offset or log end)
    /// and at most `max_bytes` long, or longer by as much as the first batch is if `min_one_batch`. Empty at the
    /// bound.
    pub fn read(
        &self,
        start: Offset,
        max_bytes: usize,
        upper_bound: Offset,
        min_one_batch: bool,
        wait: Wait,
    ) -> Result<LogRead, ReadError> {
        todo!()
    }

    /// The first record whose timestamp is `timestamp` or later.
    pub fn offset_for_timestamp(&self, timestamp: i64) -> Result<Option<TimestampOffset>, ReadError> {
        todo!()
    }

    /// The first record of those with the largest timestamp (KIP-734). `None`: there is no record.
    pub fn max_timestamp_offset(&self) -> Result<Option<TimestampOffset>, ReadError> {
        todo!()
    }

    /// The epoch in which the leader wrote (or would write) the record at `offset`.
    pub fn leader_epoch_at(&self, offset: Offset) -> Option<LeaderEpoch> {
        todo!()
    }

    /// The last epoch that is known here.
    pub fn latest_epoch(&self) -> Option<LeaderEpoch> {
        todo!()
    }

    /// This node became leader (or learnt of a leader) in `epoch`, which starts at the log's end. Durable on return.
    pub fn assign_epoch(&self, epoch: LeaderEpoch, start_offset: Offset) -> Result<(), AppendError> {
        todo!()
    }

    /// Where `epoch`, or the largest known one before it, ends. `None`: it is older than all that is known.
    pub fn end_offset_for_epoch(&self, epoch: LeaderEpoch) -> Option<EpochEndOffset> {
        todo!()
    }

    /// The aborted transactions that touch `start..end`.
    pub fn aborted_transactions(&self, start: Offset, end: Offset) -> Result<Vec<AbortedTransaction>, ReadError> {
        todo!()
    }

    /// Tells the log how far its records are replicated; a transaction decided below it is stable.
    pub fn on_high_watermark(&self, high_watermark: Offset) {
        todo!()
    }

    /// Makes `to` the first readable offset (DeleteRecords, or a follower copying its leader). Never moves back;
    /// returns whether it moved. The caller keeps it at or below the high watermark.
    pub fn advance_log_start_offset(&self, to: Offset) -> Result<bool, AppendError> {
        todo!()
    }

    /// Removes all records from `offset` on. Returns whether there were any.
    pub fn truncate_to(&self, offset: Offset) -> Result<bool, AppendError> {
        todo!()
    }

    /// Removes all records; the next one gets `offset`.
    pub fn truncate_fully_and_start_at(&self, offset: Offset) -> Result<(), AppendError> {
        todo!()
    }

    /// Starts a new segment. Returns its base offset.
    pub fn roll(&self) -> Result<Offset, AppendError> {
        todo!()
    }

    /// Makes everything below `up_to` durable; waits for the disk.
    pub fn flush(&self, up_to: Offset) -> Result<(), FlushError> {
        todo!()
    }

    /// Makes everything below `up_to` durable and then calls `done`, from a helper thread (or at once, if it is
    /// durable already). One flush of a log runs at a time and serves all that wait (group commit).
    pub fn flush_then(self: &Arc<Self>, up_to: Offset, done: impl FnOnce(Result<(), FlushError>) + Send + 'static) {
        todo!()
    }

    /// `flush.messages` or `flush.ms` ask for a flush at this time.
    pub fn is_flush_due(&self, now_ms: i64) -> bool {
        todo!()
    }

    /// Removes the segments that retention by time, by size or the log start offset have no use for; returns how many.
    pub fn delete_old_segments(&self, now_ms: i64, high_watermark: Offset) -> Result<usize, AppendError> {
        todo!()
    }

    /// Takes over changed settings.
    pub fn update_config(&self, config: Arc<TopicConfig>) {
        todo!()
    }

    /// Flushes, trims and closes; a clean-shutdown marker may be written once all logs were closed. Takes nothing
    /// afterwards.
    pub fn close(&self) -> Result<(), FlushError> {
        todo!()
    }

    /// Renames the directory to `topic-partition.uuid-delete` and has it removed after `file.delete.delay.ms`. Reads
    /// that are under way still finish.
    pub fn delete(self: &Arc<Self>) -> io::Result<()> {
        todo!()
    }
}
