//! A partition that this broker leads: its log, its high watermark, and who waits for either.
//!
//! Owns the order of things on the leader: a request is checked against the leader epoch, records are appended, and
//! only then does the high watermark advance and everybody hear of it. Invariants: log start ≤ high watermark ≤ log
//! end; the high watermark never goes back within a leader epoch; where `flush.messages` makes a flush due it waits for
//! the disk, so that with a value of 1 nobody reads, or is told of, what a crash could take back.
//!
//! Handlers reach it through the [`super::ReplicaManager`]. It knows nothing of the wire.

mod transactions;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use arc_swap::ArcSwap;
use bytes::Bytes;
use parking_lot::RwLock;
use thiserror::Error;
use tokio::sync::oneshot;

pub use self::transactions::{TransactionMarker, VerifiedProducer};
use super::ready_set::ReadySet;
use super::waiters::{OffsetWaiters, Reached};
use super::watchers::Watchers;
use crate::config::TopicConfig;
use crate::config::topic::{self, CompressionType};
use crate::metadata::image::PartitionRegistration;
use crate::record::batch::TimestampType;
use crate::record::compression::Codec;
use crate::storage::disk::is_disk_failure;
use crate::storage::log::{
    self, AppendContext, AppendError, AppendInfo, ChangeError, EpochEndOffset, FlushError, FlushPoint, Log, ReadError,
    TimestampOffset, Wait,
};
use crate::storage::manager::{LogLookupError, LogManager};
use crate::storage::producer_state::VerificationGuard;
use crate::storage::slice::LogSlice;
use crate::storage::validate::{self, AppendOrigin, TargetCompression, ValidateError, ValidationConfig};
use crate::types::{BrokerId, LeaderEpoch, Offset, TopicPartition};

/// This broker does not lead the partition, or not in the epoch that the request names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum LeaderError {
    #[error("this broker is not the leader")]
    NotLeaderOrFollower,
    #[error("the request is of an older leader epoch")]
    FencedLeaderEpoch,
    #[error("the request is of a newer leader epoch")]
    UnknownLeaderEpoch,
    /// The log directory failed.
    #[error("the partition's log directory is offline")]
    Offline,
}

/// Why a partition cannot be led, whatever the controller decided. Its log has failed.
#[derive(Debug, Error)]
pub enum PartitionApplyError {
    #[error(transparent)]
    Epoch(#[from] ChangeError),
    #[error(transparent)]
    Flush(#[from] FlushError),
}

/// Why records were not appended.
#[derive(Debug, Error)]
pub enum PartitionAppendError {
    #[error(transparent)]
    Leader(#[from] LeaderError),
    #[error("{in_sync} replicas are in sync, {min_insync_replicas} are needed")]
    NotEnoughReplicas { in_sync: usize, min_insync_replicas: usize },
    #[error(transparent)]
    Invalid(#[from] ValidateError),
    #[error(transparent)]
    Log(#[from] AppendError),
}

/// Why nothing was read.
#[derive(Debug, Error)]
pub enum PartitionReadError {
    #[error(transparent)]
    Leader(#[from] LeaderError),
    #[error(transparent)]
    Log(#[from] ReadError),
    /// As in Kafka, an error only where there is something to read.
    #[error("a negative number of bytes is wanted")]
    NegativeSize,
}

/// What an append must reach before it is acknowledged (`acks`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequiredAcks {
    /// 0 and 1.
    Leader,
    /// -1
    AllInSync,
}

/// What an append did, and what its acknowledgement still waits for.
#[derive(Debug)]
pub struct Appended {
    pub info: AppendInfo,
    /// `None`: it may be acknowledged now.
    pub wait: Option<oneshot::Receiver<Reached>>,
}

/// Up to where a reader may see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FetchIsolation {
    /// Followers and debugging consumers.
    LogEnd,
    /// `read_uncommitted`
    HighWatermark,
    /// `read_committed`
    TransactionCommitted,
}

impl FetchIsolation {
    /// Consumers call themselves so.
    const CONSUMER: BrokerId = BrokerId(-1);

    /// What a request may see, by its `replica_id` and `isolation_level`. `None`: a consumer's level that does not exist.
    pub fn of(replica_id: BrokerId, isolation_level: i8) -> Option<FetchIsolation> {
        match (replica_id, isolation_level) {
            (FetchIsolation::CONSUMER, 0) => Some(FetchIsolation::HighWatermark),
            (FetchIsolation::CONSUMER, 1) => Some(FetchIsolation::TransactionCommitted),
            (FetchIsolation::CONSUMER, _) => None,
            _ => Some(FetchIsolation::LogEnd),
        }
    }
}

/// What is wanted of one partition.
#[derive(Clone, Copy, Debug)]
pub struct PartitionFetch {
    pub fetch_offset: Offset,
    pub max_bytes: i32,
    /// Return the first batch even if it is larger than `max_bytes`.
    pub min_one_batch: bool,
    pub isolation: FetchIsolation,
    /// The broker that replicates, if it is one that fetches.
    pub follower: Option<BrokerId>,
    pub current_leader_epoch: Option<LeaderEpoch>,
    pub last_fetched_epoch: Option<LeaderEpoch>,
}

/// What is there of it. The offsets were all taken before the read.
#[derive(Debug)]
pub struct PartitionRead {
    pub records: LogSlice,
    pub high_watermark: Offset,
    pub last_stable_offset: Offset,
    pub log_start_offset: Offset,
    /// The fetcher's log and this one part ways: nothing was read.
    pub diverging_epoch: Option<EpochEndOffset>,
    /// `None` unless the isolation is [`FetchIsolation::TransactionCommitted`].
    pub aborted_transactions: Option<Vec<log::AbortedTransaction>>,
    /// There is more to read from `fetch_offset` on than nothing, whether or not it fitted.
    pub has_more: bool,
}

/// A target of ListOffsets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OffsetSpec {
    Earliest,
    Latest,
    /// KIP-734
    MaxTimestamp,
    /// The first record with this timestamp or a later one.
    Timestamp(i64),
}

/// What the controller decided, as far as this broker acts on it.
#[derive(Clone, Copy, Debug)]
struct Leadership {
    is_leader: bool,
    leader_epoch: LeaderEpoch,
    replicas: usize,
    in_sync: usize,
}

/// See the module.
pub struct Partition {
    topic_partition: TopicPartition,
    /// Replaced when it was moved to another log directory. That is done under the leadership's lock, from before the old
    /// one says that it was moved until the new one is here.
    log: ArcSwap<Log>,
    /// Held for reading over an append, so that no append outlives the leadership it was checked against.
    leadership: RwLock<Leadership>,
    high_watermark: AtomicI64,
    offline: AtomicBool,
    watchers: Watchers,
    waiters: OffsetWaiters,
}

impl Partition {
    /// A partition that nobody leads yet, see [`Self::apply`].
    pub fn new(log: Arc<Log>, high_watermark: Offset) -> Partition {
        let within = high_watermark.clamp(log.log_start_offset(), log.log_end_offset());
        // A recovery does not know which of the transactions that it read are decided for all replicas.
        log.on_high_watermark(within);
        Partition {
            topic_partition: log.topic_partition().clone(),
            log: ArcSwap::new(log),
            leadership: RwLock::new(Leadership {
                is_leader: false,
                leader_epoch: LeaderEpoch::UNKNOWN,
                replicas: 0,
                in_sync: 0,
            }),
            high_watermark: AtomicI64::new(within.0),
            offline: AtomicBool::new(false),
            watchers: Watchers::default(),
            waiters: OffsetWaiters::default(),
        }
    }

    pub fn topic_partition(&self) -> &TopicPartition {
        &self.topic_partition
    }

    pub fn update_config(&self, config: Arc<TopicConfig>) {
        // A copy that takes over now would have the settings of before.
        let _no_move = self.leadership.read();
        self.log.load().update_config(config);
    }

    pub fn high_watermark(&self) -> Offset {
        Offset(self.high_watermark.load(Ordering::SeqCst))
    }

    /// Records of open transactions begin here; `read_committed` stops at it.
    pub fn last_stable_offset(&self) -> Offset {
        let high_watermark = self.high_watermark();
        self.log.load().first_unstable_offset().map_or(high_watermark, |unstable| unstable.min(high_watermark))
    }

    pub fn log_start_offset(&self) -> Offset {
        self.log.load().log_start_offset()
    }

    pub fn log_end_offset(&self) -> Offset {
        self.log.load().log_end_offset()
    }

    /// The largest batch that may be appended (`max.message.bytes`).
    pub fn max_message_bytes(&self) -> i32 {
        self.log.load().config().max_message_bytes
    }

    /// Takes over the controller's decision: leads, in a new epoch perhaps, or leads no more. Waits for the disk, as far
    /// as a new epoch needs it.
    pub fn apply(
        self: &Arc<Self>,
        registration: &PartitionRegistration,
        local: BrokerId,
    ) -> Result<(), PartitionApplyError> {
        let mut leadership = self.leadership.write();
        let is_leader = registration.leader == Some(local);
        let new_epoch = registration.leader_epoch != leadership.leader_epoch;
        let log = self.log.load_full();
        if is_leader && new_epoch {
            log.assign_epoch(registration.leader_epoch, log.log_end_offset())?;
        }
        *leadership = Leadership {
            is_leader,
            leader_epoch: registration.leader_epoch,
            replicas: registration.replicas.len(),
            in_sync: registration.isr.len(),
        };
        drop(leadership);
        if is_leader {
            // The only replica in sync, or one that was elected among those in sync and holds all they acknowledged.
            let log_end_offset = log.log_end_offset();
            if !log.is_flush_due_below(log_end_offset) {
                self.advance_high_watermark(log_end_offset);
            } else if new_epoch {
                // What an earlier leadership or process left: known to be on disk before anybody reads it.
                log.flush(log_end_offset)?;
                self.advance_high_watermark(log_end_offset);
            } else {
                self.flush_then_advance(&log, log.flush_point(log_end_offset));
            }
        } else {
            self.waiters.fail_all();
        }
        if new_epoch {
            self.watchers.notify();
        }
        Ok(())
    }

    fn check_leader(
        &self,
        leadership: &Leadership,
        current_leader_epoch: Option<LeaderEpoch>,
        require_leader: bool,
    ) -> Result<(), LeaderError> {
        if self.offline.load(Ordering::SeqCst) {
            return Err(LeaderError::Offline);
        }
        match current_leader_epoch {
            Some(epoch) if epoch < leadership.leader_epoch => return Err(LeaderError::FencedLeaderEpoch),
            Some(epoch) if epoch > leadership.leader_epoch => return Err(LeaderError::UnknownLeaderEpoch),
            _ => {}
        }
        if require_leader && !leadership.is_leader {
            return Err(LeaderError::NotLeaderOrFollower);
        }
        Ok(())
    }

    /// Appends the records of a producer, into the page cache. Waits for the disk where a compacted log begins a segment, before
    /// which the last one must be on disk (see [`Log::append_as_leader`]); for a log that was just opened, where what decides
    /// about a new segment is not in memory; and where there was no room for the leader's epoch until now.
    pub fn append(
        self: &Arc<Self>,
        records: Bytes,
        acks: RequiredAcks,
        now_ms: i64,
    ) -> Result<Appended, PartitionAppendError> {
        self.append_verified(records, acks, None, now_ms)
    }

    /// As [`Self::append`], for records of a transaction that was verified (see [`Self::start_verification`]).
    pub fn append_verified(
        self: &Arc<Self>,
        records: Bytes,
        acks: RequiredAcks,
        guard: Option<VerificationGuard>,
        now_ms: i64,
    ) -> Result<Appended, PartitionAppendError> {
        let context = AppendContext { guard, ..AppendContext::default() };
        self.append_from(AppendOrigin::Client, records, acks, context, now_ms)
    }

    /// Appends one batch of a coordinator, to be acknowledged by all replicas in sync.
    pub fn append_as_coordinator(
        self: &Arc<Self>,
        records: Bytes,
        context: AppendContext,
        now_ms: i64,
    ) -> Result<Appended, PartitionAppendError> {
        self.append_from(AppendOrigin::Coordinator, records, RequiredAcks::AllInSync, context, now_ms)
    }

    fn append_from(
        self: &Arc<Self>,
        origin: AppendOrigin,
        records: Bytes,
        acks: RequiredAcks,
        context: AppendContext,
        now_ms: i64,
    ) -> Result<Appended, PartitionAppendError> {
        let leadership = self.leadership.read();
        self.check_leader(&leadership, None, true)?;
        let log = self.log.load();
        let config = log.config();
        if acks == RequiredAcks::AllInSync {
            // Kafka's rule since 4.0: no more than all replicas can be asked for.
            let min_insync_replicas = (config.min_insync_replicas.max(1) as usize).min(leadership.replicas);
            if leadership.in_sync < min_insync_replicas {
                return Err(PartitionAppendError::NotEnoughReplicas {
                    in_sync: leadership.in_sync,
                    min_insync_replicas,
                });
            }
        }
        let validation = validation_config(&self.topic_partition, &config, origin, leadership.leader_epoch);
        let validated = validate::validate(records, &validation, now_ms)?;
        let info = log.append_as_leader(validated, leadership.leader_epoch, origin, context).inspect_err(|error| {
            if let AppendError::Io(_) | AppendError::Offline = error {
                self.set_offline();
            }
        })?;
        drop(leadership);

        // Only up to this batch: what others have appended behind it may have to wait for the disk.
        let next = info.last_offset.plus(1);
        match info.flush_due {
            Some(point) => self.flush_then_advance(&log, point),
            None => self.advance_high_watermark(next),
        }
        let must_wait = info.flush_due.is_some() || acks == RequiredAcks::AllInSync;
        let wait = if must_wait { self.committed(next) } else { None };
        Ok(Appended { info, wait })
    }

    /// A wait for everything below `offset` to be committed; `None`: it is.
    pub fn committed(&self, offset: Offset) -> Option<oneshot::Receiver<Reached>> {
        (self.high_watermark() < offset).then(|| self.wait_for(offset))
    }

    /// A wait for the high watermark to reach `offset`.
    fn wait_for(&self, offset: Offset) -> oneshot::Receiver<Reached> {
        let receiver = self.waiters.register(offset);
        // It may have been reached, or become impossible, before the registration.
        self.waiters.reached(self.high_watermark());
        if self.offline.load(Ordering::SeqCst) || !self.leadership.read().is_leader {
            self.waiters.fail_all();
        }
        receiver
    }

    /// Lets the high watermark follow once the disk confirms; one flush serves all that are asked for meanwhile.
    fn flush_then_advance(self: &Arc<Self>, log: &Log, up_to: FlushPoint) {
        let partition = self.clone();
        log.flush_then(up_to, move |outcome| match outcome {
            Ok(()) => partition.advance_high_watermark(up_to.offset),
            Err(FlushError::Failed(_)) => partition.set_offline(),
            // By another leadership, whose followers do not have them.
            Err(FlushError::Truncated) => partition.waiters.fail_all(),
        });
    }

    fn advance_high_watermark(&self, to: Offset) {
        let before = self.high_watermark.fetch_max(to.0, Ordering::SeqCst);
        if before < to.0 {
            self.log.load().on_high_watermark(to);
            self.waiters.reached(to);
            self.watchers.notify();
        }
    }

    /// Changes the log that there is. Where the one to which the change went was moved away, it waits for the new one.
    pub(super) fn change<T>(&self, act: impl Fn(&Log) -> Result<T, ChangeError>) -> Result<T, ChangeError> {
        loop {
            let log = self.log.load_full();
            match act(&log) {
                Err(ChangeError::Moved) if !Arc::ptr_eq(&log, &self.settled_log()) => {}
                Err(error @ (ChangeError::Io(_) | ChangeError::Offline | ChangeError::Moved)) => {
                    self.set_offline();
                    return Err(error);
                }
                result => return result,
            }
        }
    }

    /// Reads the log that there is. A disk that fails under it fails its directory, as in Kafka; but the files of a log that
    /// was moved away meanwhile may be gone, and the new one has all that it had.
    fn reading<T>(&self, act: impl Fn(&Log) -> Result<T, PartitionReadError>) -> Result<T, PartitionReadError> {
        loop {
            let log = self.log.load_full();
            match act(&log) {
                Err(PartitionReadError::Log(ReadError::Io(_))) if !Arc::ptr_eq(&log, &self.log.load()) => {}
                Err(PartitionReadError::Log(ReadError::Io(error))) if is_disk_failure(&error) => {
                    log.disk_failed(&error);
                    if log.is_failed() {
                        self.set_offline();
                    }
                    return Err(ReadError::Io(error).into());
                }
                result => return result,
            }
        }
    }

    /// The log, once nobody is about to put another one in its place. Not for those that hold the leadership.
    fn settled_log(&self) -> Arc<Log> {
        let _no_move = self.leadership.read();
        self.log.load_full()
    }

    /// Has `replace` put another log in the place of this partition's, while nobody appends. Readers wait, too.
    pub(super) fn replace_log<E>(&self, replace: impl FnOnce(&Log) -> Result<Arc<Log>, E>) -> Result<(), E> {
        let _no_appends = self.leadership.write();
        let log = replace(&self.log.load())?;
        self.log.store(log.clone());
        log.on_high_watermark(self.high_watermark());
        Ok(())
    }

    /// The log, for whoever moves it.
    pub(super) fn log(&self) -> Arc<Log> {
        self.log.load_full()
    }

    /// Nothing more comes from this partition on this broker: its log failed, which takes its directory offline and is
    /// told by that.
    pub fn set_offline(&self) {
        self.offline.store(true, Ordering::SeqCst);
        self.waiters.fail_all();
        self.watchers.notify();
    }

    /// Its directory has failed if `logs` says so. If not, whatever it was offline for concerned one that it has left: to be
    /// called when that may be.
    pub(super) fn follow_directory(&self, logs: &LogManager) {
        if matches!(logs.get(&self.topic_partition), Err(LogLookupError::Offline)) {
            self.set_offline();
        }
        // Looked at again: whoever moves it does this in the other order.
        if logs.get(&self.topic_partition).is_ok() {
            self.offline.store(false, Ordering::SeqCst);
        }
    }

    /// The partition was deleted or moved away: it is led no more, and its log may be removed. Waits for appends that
    /// are under way.
    pub fn stop(&self) {
        self.leadership.write().is_leader = false;
        self.waiters.fail_all();
        self.watchers.notify();
    }

    /// Tells where the wanted records lie.
    pub fn read(&self, fetch: &PartitionFetch, wait: Wait) -> Result<PartitionRead, PartitionReadError> {
        // Not held: the read may wait for the disk, and a change of leadership would have to wait for it, and appends
        // for that.
        let leadership = *self.leadership.read();
        self.check_leader(&leadership, fetch.current_leader_epoch, true)?;
        if fetch.follower.is_some() {
            // Nobody but this broker holds the partition: whoever says so knows of an assignment that is not here yet.
            return Err(match fetch.current_leader_epoch {
                Some(_) => LeaderError::UnknownLeaderEpoch.into(),
                None => LeaderError::NotLeaderOrFollower.into(),
            });
        }
        self.reading(|log| self.read_from(log, fetch, wait))
    }

    fn read_from(&self, log: &Log, fetch: &PartitionFetch, wait: Wait) -> Result<PartitionRead, PartitionReadError> {
        let high_watermark = self.high_watermark();
        let last_stable_offset = self.last_stable_offset();
        let log_start_offset = log.log_start_offset();
        let log_end_offset = log.log_end_offset();
        let upper_bound = match fetch.isolation {
            FetchIsolation::LogEnd => log_end_offset,
            FetchIsolation::HighWatermark => high_watermark,
            FetchIsolation::TransactionCommitted => last_stable_offset,
        };
        let committed = fetch.isolation == FetchIsolation::TransactionCommitted;
        let mut read = PartitionRead {
            records: LogSlice::empty(),
            high_watermark,
            last_stable_offset,
            log_start_offset,
            diverging_epoch: None,
            aborted_transactions: committed.then(Vec::new),
            has_more: false,
        };
        if let Some(last_fetched_epoch) = fetch.last_fetched_epoch {
            read.diverging_epoch = diverging_epoch(log, fetch, last_fetched_epoch, log_start_offset, log_end_offset)?;
            if read.diverging_epoch.is_some() {
                return Ok(read);
            }
        }
        let max_bytes = fetch.max_bytes.max(0) as usize;
        let found = log.read(fetch.fetch_offset, max_bytes, upper_bound, fetch.min_one_batch, wait)?;
        if fetch.max_bytes < 0 && fetch.fetch_offset < log_end_offset {
            return Err(PartitionReadError::NegativeSize);
        }
        read.has_more = fetch.fetch_offset < upper_bound;
        // A part of a first batch helps no client since Fetch v3.
        if found.first_batch_incomplete {
            return Ok(read);
        }
        if committed && !found.slice.is_empty() {
            read.aborted_transactions = Some(log.aborted_transactions_in(&found, fetch.fetch_offset, wait)?);
        }
        read.records = found.slice;
        Ok(read)
    }

    /// Where an epoch ends (OffsetForLeaderEpoch).
    pub fn end_offset_for_epoch(
        &self,
        current_leader_epoch: Option<LeaderEpoch>,
        leader_epoch: LeaderEpoch,
    ) -> Result<Option<EpochEndOffset>, LeaderError> {
        let leadership = self.leadership.read();
        self.check_leader(&leadership, current_leader_epoch, true)?;
        Ok(self.log.load().end_offset_for_epoch(leader_epoch))
    }

    /// Finds an offset (ListOffsets); by timestamp it reads the log, which may wait for the disk. What is not visible at
    /// `isolation` does not count.
    pub fn list_offset(
        &self,
        spec: OffsetSpec,
        isolation: FetchIsolation,
        current_leader_epoch: Option<LeaderEpoch>,
        fetch_only_leader: bool,
    ) -> Result<Option<TimestampOffset>, PartitionReadError> {
        let leadership = *self.leadership.read();
        self.check_leader(&leadership, current_leader_epoch, fetch_only_leader)?;
        self.reading(|log| self.find_offset(log, spec, isolation, leadership.leader_epoch))
    }

    fn find_offset(
        &self,
        log: &Log,
        spec: OffsetSpec,
        isolation: FetchIsolation,
        leader_epoch: LeaderEpoch,
    ) -> Result<Option<TimestampOffset>, PartitionReadError> {
        let last_fetchable = match isolation {
            FetchIsolation::LogEnd => log.log_end_offset(),
            FetchIsolation::HighWatermark => self.high_watermark(),
            FetchIsolation::TransactionCommitted => self.last_stable_offset(),
        };
        let found = match spec {
            OffsetSpec::Latest => {
                return Ok(Some(TimestampOffset {
                    timestamp: -1,
                    offset: last_fetchable,
                    leader_epoch: Some(leader_epoch),
                }));
            }
            OffsetSpec::Earliest => {
                let offset = log.log_start_offset();
                let leader_epoch = log.leader_epoch_at(offset);
                return Ok(Some(TimestampOffset { timestamp: -1, offset, leader_epoch }));
            }
            OffsetSpec::MaxTimestamp => log.max_timestamp_offset()?,
            OffsetSpec::Timestamp(timestamp) => log.offset_for_timestamp(timestamp)?,
        };
        Ok(found.filter(|found| found.offset < last_fetchable))
    }

    /// Deletes the records below `offset`, or below the high watermark without one. Returns the low watermark. Waits
    /// for the disk.
    pub fn delete_records(&self, offset: Option<Offset>) -> Result<Offset, DeleteRecordsError> {
        // Not held over the change, which waits for the disk. What is below the high watermark may go, whoever leads.
        let leadership = *self.leadership.read();
        self.check_leader(&leadership, None, true)?;
        let policy = self.log.load().config().cleanup_policy;
        if policy.compact && !policy.delete {
            return Err(DeleteRecordsError::Policy);
        }
        let high_watermark = self.high_watermark();
        let offset = offset.unwrap_or(high_watermark);
        if offset < Offset(0) || offset > high_watermark {
            return Err(DeleteRecordsError::OutOfRange { offset, high_watermark });
        }
        if self.change(|log| log.advance_log_start_offset(offset))? {
            self.watchers.note();
        }
        Ok(self.log_start_offset())
    }

    /// Marks `slot` of `ready` at every change, for as long as the returned watch lives.
    pub fn watch(self: &Arc<Self>, ready: Arc<ReadySet>, slot: usize) -> Watch {
        Watch { id: self.watchers.add(ready, slot), partition: self.clone() }
    }

    /// Applies retention; deletes files, so it may wait for the disk.
    pub fn delete_old_segments(&self, now_ms: i64) {
        match self.change(|log| log.delete_old_segments(now_ms, self.high_watermark())) {
            // What is wrong was told where it was found.
            Ok(0) | Err(_) => {}
            Ok(_) => self.watchers.note(),
        }
    }
}

/// Why no records were deleted.
#[derive(Debug, Error)]
pub enum DeleteRecordsError {
    #[error(transparent)]
    Leader(#[from] LeaderError),
    #[error("the topic's cleanup.policy does not delete")]
    Policy,
    #[error("{offset} is not within 0..={high_watermark}")]
    OutOfRange { offset: Offset, high_watermark: Offset },
    #[error(transparent)]
    Log(#[from] ChangeError),
}

/// A registration with a partition's watchers; ends with its drop.
pub struct Watch {
    id: u64,
    partition: Arc<Partition>,
}

impl Watch {
    /// Whether it is this very partition that is watched, not one of an earlier topic of the same name.
    pub fn is_of(&self, partition: &Arc<Partition>) -> bool {
        Arc::ptr_eq(&self.partition, partition)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.partition.watchers.remove(self.id);
    }
}

/// Where this log and that of a fetcher, whose last record is of `last_fetched_epoch`, part ways (KIP-595).
fn diverging_epoch(
    log: &Log,
    fetch: &PartitionFetch,
    last_fetched_epoch: LeaderEpoch,
    log_start_offset: Offset,
    log_end_offset: Offset,
) -> Result<Option<EpochEndOffset>, ReadError> {
    let out_of_range = || ReadError::OutOfRange { offset: fetch.fetch_offset, log_start_offset, log_end_offset };
    let end = log.end_offset_for_epoch(last_fetched_epoch).ok_or_else(out_of_range)?;
    if fetch.fetch_offset < log_start_offset {
        return Err(out_of_range());
    }
    let diverges = end.leader_epoch < last_fetched_epoch || end.end_offset < fetch.fetch_offset;
    Ok(diverges.then_some(end))
}

fn validation_config<'a>(
    partition: &'a TopicPartition,
    config: &TopicConfig,
    origin: AppendOrigin,
    leader_epoch: LeaderEpoch,
) -> ValidationConfig<'a> {
    let codec = |codec, level| TargetCompression::Codec { codec, level };
    ValidationConfig {
        partition,
        origin,
        leader_epoch,
        max_message_bytes: config.max_message_bytes,
        timestamp_type: match config.message_timestamp_type {
            topic::TimestampType::CreateTime => TimestampType::CreateTime,
            topic::TimestampType::LogAppendTime => TimestampType::LogAppendTime,
        },
        timestamp_before_max_ms: config.message_timestamp_before_max_ms,
        timestamp_after_max_ms: config.message_timestamp_after_max_ms,
        compression: match config.compression_type {
            CompressionType::Producer => TargetCompression::Producer,
            CompressionType::Uncompressed => codec(Codec::None, 0),
            CompressionType::Gzip => codec(Codec::Gzip, config.compression_gzip_level),
            CompressionType::Snappy => codec(Codec::Snappy, 0),
            CompressionType::Lz4 => codec(Codec::Lz4, config.compression_lz4_level),
            CompressionType::Zstd => codec(Codec::Zstd, config.compression_zstd_level),
        },
        compacted: config.cleanup_policy.compact,
    }
}

#[cfg(test)]
mod tests;
