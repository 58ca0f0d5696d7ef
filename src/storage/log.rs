//! `Log`: the records of one partition on this node, as Kafka's segment files.
//!
//! Owns the partition's directory: segments, indexes, producer snapshots and the leader-epoch file. Its invariants:
//!
//! - `log_start_offset` and `recovery_point` are both at most `log_end_offset`. The start may be the larger one: what was
//!   deleted need not be on disk. The segments cover `log_start_offset..log_end_offset`, in order, with gaps only where
//!   compaction or damage left them;
//! - bytes below `log_end_offset` are never changed, except by truncation; `log_end_offset` is published after the
//!   bytes are written, so that a reader never sees half a batch;
//! - a log that failed ([`Log::is_failed`]) takes nothing any more, since nobody can tell what the disk holds.
//!
//! One lock is held over an append, a roll, a truncation; readers take none of it: they see an immutable list of
//! segments. A second one, taken before it, keeps those apart that take segments out of the list. Called by the replica
//! layer (partitions, the metadata log). Knows nothing of the wire, of replicas, or of the high watermark but what it is
//! handed.

pub(super) mod append;
pub(super) mod change;
pub(super) mod cleaning;
mod copying;
pub(super) mod epochs;
mod flush;
mod handover;
pub(super) mod producers;
pub(super) mod read;
mod retention;
#[cfg(test)]
mod tests;
pub(super) mod truncation;

use std::collections::VecDeque;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use arc_swap::ArcSwap;
use parking_lot::{Mutex, RwLock};
use thiserror::Error;
use tracing::{debug, error};

use crate::clock::Clock;
use crate::config::TopicConfig;
use crate::storage::background::Background;
use crate::storage::disk::Disk;
use crate::storage::file_cache::{Directory, FileCache};
use crate::storage::producer_state::{
    ProducerStateConfig, ProducerStateError, ProducerStateManager, TransactionVersion, VerificationGuard,
};
use crate::storage::recovery::{DamagePolicy, RecoveryProgress, RecoveryReport};
use crate::storage::segment::{BatchPosition, LastIndexEntry, LogSegment};
use crate::storage::slice::LogSlice;
use crate::types::{LeaderEpoch, Offset, ProducerId, TopicPartition};

pub use copying::CopyError;
pub use flush::{FlushError, FlushPoint};
pub use handover::{Confirmations, HandoverError};

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
    /// Compaction may have left gaps between segments up to here, whatever the policy is now: from `cleaner-offset-checkpoint`; 0 if
    /// it is not there.
    pub gaps_up_to: Offset,
    /// Whether the log directory was closed in an orderly way.
    pub clean_shutdown: bool,
    /// What to do with damage that is followed by readable records.
    pub damage: DamagePolicy,
    pub producers: ProducerStateConfig,
    /// Called now and then while a recovery reads.
    pub progress: Option<RecoveryProgress>,
    /// Called once, from any thread, when the disk fails under this log: its log directory goes offline. It must not call
    /// the log, whose lock may be held.
    pub on_failure: Option<OnFailure>,
}

/// See [`LogParams::on_failure`].
pub type OnFailure = Arc<dyn Fn(DiskTrouble<'_>) + Send + Sync>;

/// Why a log cannot be opened. Damage is never a reason: it is repaired and reported.
#[derive(Debug, Error)]
pub enum LogOpenError {
    #[error("cannot open the log {path}: {source}")]
    Io { path: PathBuf, source: io::Error },
}

/// What an append did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AppendInfo {
    pub first_offset: Offset,
    pub last_offset: Offset,
    /// The time that the broker gave to the records (`message.timestamp.type=LogAppendTime`). Of a duplicate, as in Kafka,
    /// the batch's largest timestamp, whoever gave it.
    pub log_append_time_ms: Option<i64>,
    pub log_start_offset: Offset,
    /// The producer had sent this batch before; nothing was written, the offsets are those of the first time.
    pub duplicate: bool,
    /// `flush.messages` asks for a flush: acknowledge only after [`Log::flush_then`] has called back.
    pub flush_due: Option<FlushPoint>,
}

/// What an append knows beside the records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AppendContext {
    /// The verification that allowed records of a transaction (KIP-890).
    pub guard: Option<VerificationGuard>,
    /// Of the marker that is written.
    pub transaction_version: TransactionVersion,
}

/// Why an append did not happen. Nothing was written, or else the log has failed.
#[derive(Debug, Error)]
pub enum AppendError {
    /// A follower was given records that are not behind its own (UNEXPECTED: the fetcher truncates or resets).
    #[error("records from {first_offset} to {last_offset} do not follow the log's end {log_end_offset}")]
    UnexpectedOffset { first_offset: Offset, last_offset: Offset, log_end_offset: Offset },
    /// The producer's sequence, epoch or transaction forbids it.
    #[error(transparent)]
    Producer(#[from] ProducerStateError),
    /// RECORD_LIST_TOO_LARGE
    #[error("{size} bytes are more than a segment holds ({segment_bytes})")]
    LargerThanSegment { size: usize, segment_bytes: i32 },
    /// There is no room: KAFKA_STORAGE_ERROR. Nothing was written, and the log takes records again once there is.
    #[error("the disk is full: {0}")]
    NoRoom(#[source] io::Error),
    /// The disk failed now: the caller takes the log directory offline.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The disk failed earlier, or the log was closed or deleted: KAFKA_STORAGE_ERROR.
    #[error("the log is offline")]
    Offline,
}

/// What a log tells of its disk.
#[derive(Clone, Copy, Debug)]
pub enum DiskTrouble<'a> {
    /// The log has failed.
    Failed(&'a io::Error),
    /// Something was not written for want of room. The log goes on.
    Full(&'a io::Error),
}

/// Why the log could not be changed.
#[derive(Debug, Error)]
pub enum ChangeError {
    /// OFFSET_OUT_OF_RANGE
    #[error("{offset} is behind the log's end {log_end_offset}, or no offset")]
    OutOfRange { offset: Offset, log_end_offset: Offset },
    /// There is no room: KAFKA_STORAGE_ERROR. The log is what it was, and goes on.
    #[error("the disk is full: {0}")]
    NoRoom(#[source] io::Error),
    /// The disk failed now: the caller takes the log directory offline.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The disk failed earlier, or the log was closed or deleted: KAFKA_STORAGE_ERROR.
    #[error("the log is offline")]
    Offline,
    /// No failure: a copy in another log directory has taken the log's place, and is to be asked instead.
    #[error("the log was moved to another log directory")]
    Moved,
}

/// Records read: where they lie, not yet the bytes.
#[derive(Clone, Debug)]
pub struct LogRead {
    /// Whole batches from the one that holds the first wanted offset on, but the last may be cut by the byte limit.
    pub slice: LogSlice,
    /// Not even the first batch fits within the byte limit.
    pub first_batch_incomplete: bool,
    /// The first batch; `None` if there is none below the bound.
    pub start: Option<LogOffsetMetadata>,
    /// The segments as they were then. Compaction may replace them, and what it writes knows nothing of the aborted
    /// transactions that it took out.
    segments: Arc<Vec<Arc<LogSegment>>>,
}

/// An offset, and where its batch lies or will. Two places of one segment can be compared by bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogOffsetMetadata {
    pub message_offset: Offset,
    pub segment_base_offset: Offset,
    pub relative_position_in_segment: u64,
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
    Corrupt { segment_base_offset: Offset, position: u64, reason: String },
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl ReadError {
    /// For who reads what it has looked at before, or is in the midst of a change: that it cannot be read is the disk's
    /// fault, then.
    pub fn into_io(self) -> io::Error {
        match self {
            ReadError::Io(error) => error,
            error => io::Error::new(io::ErrorKind::InvalidData, error),
        }
    }
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
    pub producer_id: ProducerId,
    pub first_offset: Offset,
}

/// The sizes of a segment, for metrics and admin requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentInfo {
    pub base_offset: Offset,
    pub size: u64,
}

/// A partition's log. Shared by all that read, write and clean it.
pub struct Log {
    /// For jobs that outlive a call.
    pub(super) this: Weak<Log>,
    pub(super) context: LogContext,
    pub(super) topic_partition: TopicPartition,
    pub(super) dir: Arc<Directory>,
    pub(super) config: ArcSwap<TopicConfig>,
    pub(super) state: AtomicU8,
    pub(super) on_failure: Option<OnFailure>,
    pub(super) writer: Mutex<Writer>,
    /// In order, never empty; the last one is written to.
    pub(super) segments: ArcSwap<Vec<Arc<LogSegment>>>,
    pub(super) end: RwLock<LogOffsetMetadata>,
    /// `end.offset`, for those who need nothing else.
    pub(super) log_end_offset: AtomicI64,
    pub(super) log_start_offset: AtomicI64,
    pub(super) recovery_point: AtomicI64,
    /// -1: none.
    pub(super) first_unstable_offset: AtomicI64,
    pub(super) markers: Markers,
    pub(super) epochs: epochs::LeaderEpochs,
    pub(super) recent: Mutex<RecentBatches>,
    pub(super) commits: Mutex<flush::Commits>,
    pub(super) last_flush_ms: AtomicI64,
    /// Files were made or renamed since the directory was synced.
    pub(super) has_unsynced_names: AtomicBool,
    /// Held while the directory is synced. Whether that has failed.
    pub(super) sync_names: Mutex<bool>,
    pub(super) cleaning: cleaning::Cleaning,
    /// Held by whoever takes segments out of the list; before [`Log::writer`].
    pub(super) exchange: Mutex<()>,
    /// Segments that compaction has replaced and that may still have files.
    pub(super) replaced: Mutex<Vec<Weak<LogSegment>>>,
    pub(super) noted: Noted,
}

/// What the checkpoints may say of a log.
#[derive(Default)]
pub(in crate::storage) struct Noted {
    /// The largest that were written.
    pub(super) recovery_point: AtomicI64,
    pub(super) log_start_offset: AtomicI64,
    /// Writes them anew.
    pub(super) correct: OnceLock<CorrectCheckpoints>,
}

/// Writes the checkpoints in which a log is noted, with what it says now. Called under the log's lock.
pub(in crate::storage) type CorrectCheckpoints = Box<dyn Fn() -> io::Result<()> + Send + Sync>;

/// What only the one that changes the log may touch.
pub(in crate::storage) struct Writer {
    pub(super) producers: ProducerStateManager,
    /// Of the last segment.
    pub(super) active: ActiveSegment,
    /// Something was written since the log was closed in order.
    pub(super) has_changed: bool,
}

/// What decides when the last segment gets index entries, is written out and is rolled.
pub(in crate::storage) struct ActiveSegment {
    pub(super) created_ms: i64,
    pub(super) roll_jitter_ms: i64,
    /// The largest timestamp in the first batch; `None`: not read yet, or there is no batch.
    pub(super) first_timestamp: Option<i64>,
    pub(super) last_index_entry: LastIndexEntry,
    /// Bytes that the system was told to write out.
    pub(super) written_back: u64,
}

impl ActiveSegment {
    pub(super) fn new(now_ms: i64, config: &TopicConfig, size: u64) -> ActiveSegment {
        let jitter_ms = config.segment_jitter_ms.min(config.segment_ms).max(0);
        ActiveSegment {
            created_ms: now_ms,
            roll_jitter_ms: if jitter_ms > 0 { rand::random_range(0..jitter_ms) } else { 0 },
            first_timestamp: None,
            last_index_entry: LastIndexEntry::at(size),
            written_back: size,
        }
    }
}

/// Lets the high watermark rise without a lock while no transaction waits for it.
pub(in crate::storage) struct Markers {
    /// Offset of the last transaction marker.
    pub(super) last: AtomicI64,
    /// The producer state knows of this high watermark.
    pub(super) settled: AtomicI64,
}

/// Where the last batches lie: a consumer at the end of the log needs neither index nor file to be told.
#[derive(Default)]
pub(in crate::storage) struct RecentBatches {
    pub(super) batches: VecDeque<(Offset, BatchPosition)>,
}

impl RecentBatches {
    const MAX: usize = 32;

    fn push(&mut self, segment_base_offset: Offset, batch: BatchPosition) {
        if self.batches.len() == Self::MAX {
            self.batches.pop_front();
        }
        self.batches.push_back((segment_base_offset, batch));
    }

    /// The first batch whose last offset is `offset` or larger, with its segment, if it is one of these.
    fn find(&self, offset: Offset) -> Option<(Offset, BatchPosition)> {
        // What is before the oldest is not known here.
        let (_, oldest) = self.batches.front()?;
        if offset < oldest.base_offset {
            return None;
        }
        let at = self.batches.partition_point(|(_, batch)| batch.last_offset < offset);
        self.batches.get(at).copied()
    }

    fn clear(&mut self) {
        self.batches.clear();
    }
}

pub(super) const OPEN: u8 = 0;
pub(super) const FAILED: u8 = 1;
pub(super) const CLOSED: u8 = 2;
/// A copy has taken its place. It stays so, whatever else happens to it.
pub(super) const MOVED: u8 = 3;

impl Log {
    /// Opens the log in `params.dir`, or makes an empty one; after a crash, reads what may not be on disk. Long only
    /// then. The caller runs several of them side by side.
    pub fn open(context: &LogContext, params: LogParams) -> Result<(Arc<Log>, RecoveryReport), LogOpenError> {
        crate::storage::recovery::open(context, params)
    }

    pub fn topic_partition(&self) -> &TopicPartition {
        &self.topic_partition
    }

    /// The partition's directory.
    pub fn dir(&self) -> PathBuf {
        self.dir.path()
    }

    pub fn config(&self) -> Arc<TopicConfig> {
        self.config.load_full()
    }

    /// Takes over changed settings.
    pub fn update_config(&self, config: Arc<TopicConfig>) {
        self.config.store(config);
    }

    /// The first offset that may be read.
    pub fn log_start_offset(&self) -> Offset {
        Offset(self.log_start_offset.load(Ordering::Acquire))
    }

    /// The offset that the next record gets.
    pub fn log_end_offset(&self) -> Offset {
        Offset(self.log_end_offset.load(Ordering::Acquire))
    }

    /// Everything below is on disk; a crash recovery starts reading here.
    pub fn recovery_point(&self) -> Offset {
        Offset(self.recovery_point.load(Ordering::Acquire))
    }

    /// The first offset of the oldest transaction that is open, or was decided above the high watermark. The last
    /// stable offset is the smaller of this and the high watermark.
    pub fn first_unstable_offset(&self) -> Option<Offset> {
        let offset = self.first_unstable_offset.load(Ordering::Acquire);
        (offset >= 0).then_some(Offset(offset))
    }

    /// Bytes of all segments.
    pub fn size(&self) -> u64 {
        self.segments.load().iter().map(|segment| segment.size()).sum()
    }

    pub fn segments(&self) -> Vec<SegmentInfo> {
        let info = |segment: &Arc<LogSegment>| SegmentInfo { base_offset: segment.base_offset(), size: segment.size() };
        self.segments.load().iter().map(info).collect()
    }

    /// It takes nothing any more: the disk failed, or the log was closed, deleted or moved.
    pub fn is_offline(&self) -> bool {
        self.state.load(Ordering::Acquire) != OPEN
    }

    /// The disk failed under it.
    pub fn is_failed(&self) -> bool {
        self.state.load(Ordering::Acquire) == FAILED
    }

    /// A copy has taken its place, and holds all that it held.
    pub fn is_moved(&self) -> bool {
        self.state.load(Ordering::Acquire) == MOVED
    }

    /// The epoch in which the leader wrote (or would write) the record at `offset`.
    pub fn leader_epoch_at(&self, offset: Offset) -> Option<LeaderEpoch> {
        self.epochs.lock().epoch_for_offset(offset)
    }

    /// The last epoch that is known here.
    pub fn latest_epoch(&self) -> Option<LeaderEpoch> {
        self.epochs.lock().latest_epoch()
    }

    /// Where `epoch`, or the largest known one before it, ends. `None`: that is not known here.
    pub fn end_offset_for_epoch(&self, epoch: LeaderEpoch) -> Option<EpochEndOffset> {
        let end = self.epochs.lock().end_offset_for(epoch, self.log_end_offset());
        let known = end.end_offset.0 >= 0;
        known.then_some(EpochEndOffset { leader_epoch: end.epoch, end_offset: end.end_offset })
    }

    /// Asks or tells the producers' state, under the log's lock: describe producers, verify transactions.
    pub fn with_producers<T>(&self, act: impl FnOnce(&mut ProducerStateManager) -> T) -> T {
        act(&mut self.writer.lock().producers)
    }

    /// Tells the log how far its records are replicated; a transaction decided below it is stable.
    pub fn on_high_watermark(&self, high_watermark: Offset) {
        if self.markers.settled.load(Ordering::Acquire) > self.markers.last.load(Ordering::Acquire) {
            return;
        }
        let mut writer = self.writer.lock();
        writer.producers.on_high_watermark_updated(high_watermark);
        self.markers.settled.store(high_watermark.0, Ordering::Release);
        self.publish_first_unstable(&writer);
    }

    fn publish_first_unstable(&self, writer: &Writer) {
        let log_start_offset = self.log_start_offset();
        let first = writer.producers.first_unstable_offset().map_or(-1, |first| first.max(log_start_offset).0);
        self.first_unstable_offset.store(first, Ordering::Release);
    }

    fn publish_end(&self, end: LogOffsetMetadata) {
        *self.end.write() = end;
        self.log_end_offset.store(end.message_offset.0, Ordering::Release);
    }

    fn active_segment(&self) -> Arc<LogSegment> {
        self.segments.load().last().expect("a log has a segment").clone()
    }

    /// The disk failed under it, as whoever used it was told: nothing is taken any more.
    pub fn disk_failed(&self, error: &io::Error) {
        if self.state.compare_exchange(OPEN, FAILED, Ordering::AcqRel, Ordering::Acquire).is_ok() {
            match &self.on_failure {
                Some(on_failure) => on_failure(DiskTrouble::Failed(error)),
                None => error!(dir = %self.dir().display(), %error, "log failed and is offline"),
            }
        }
    }

    /// There was no room for something; the log goes on.
    fn tell_full(&self, error: &io::Error) {
        match &self.on_failure {
            Some(on_failure) => on_failure(DiskTrouble::Full(error)),
            None => debug!(dir = %self.dir().display(), %error, "no room"),
        }
    }
}
