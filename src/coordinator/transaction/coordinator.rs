//! The transaction coordinator of this broker: finds the shard of a transactional id, gives it producer ids, and writes
//! the markers that end its transactions.
//!
//! Markers are written by a task of their own, however the client fares that ended the transaction, and until all are:
//! a partition without a leader is tried again; only one whose topic is gone is passed over.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::{sleep, timeout};
use tracing::{error, info, warn};

use super::metadata::TransactionVersion;
use super::producer_ids::{ProducerIdError, ProducerIds};
use super::{
    EndTransaction, EndedTransaction, Initialized, MarkersToWrite, ProducerIdNeeded, Step, TransactionEffect,
    TransactionShard, Verification,
};
use crate::clock::Clock;
use crate::controller::ControllerHandle;
use crate::coordinator::group::coordinator::{GroupCoordinator, OFFSETS_TOPIC};
use crate::coordinator::runtime::{MarkerError, Runtime, RuntimeParams};
use crate::coordinator::shard::CoordinatorError;
use crate::metadata::image::{MetadataDelta, MetadataImage};
use crate::protocol::ErrorCode;
use crate::record::compression::Codec;
use crate::replica::{
    AppendError, LookupError, PartitionAppendError, ProducerStateError, Reached, ReplicaManager, Settings,
    TransactionMarker,
};
use crate::types::{BrokerId, LeaderEpoch, PartitionId, ProducerEpoch, ProducerId, TopicPartition};

/// The topic of transactions.
pub const TRANSACTION_TOPIC: &str = "__transaction_state";

/// Between two tries to write the markers that are missing.
const MARKER_RETRY: Duration = Duration::from_millis(100);
/// How long a marker may take to be committed before it is written again, which does no harm.
const MARKER_COMMIT_TIMEOUT: Duration = Duration::from_secs(30);

/// Who coordinates transactions beside the coordinator itself.
pub struct TransactionCoordinatorParams {
    pub broker_id: BrokerId,
    pub replicas: Arc<ReplicaManager>,
    pub groups: GroupCoordinator,
    pub controller: ControllerHandle,
    pub settings: Settings,
    pub clock: Arc<dyn Clock>,
}

/// See the module. Cheap to clone.
#[derive(Clone)]
pub struct TransactionCoordinator {
    inner: Arc<Inner>,
}

struct Inner {
    params: TransactionCoordinatorParams,
    runtime: Runtime<TransactionShard>,
    producer_ids: ProducerIds,
}

/// What the check of a producer's transaction is for: which errors its client knows, and what may be done for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransactionSupport {
    /// Clients that know no abortable error.
    Default,
    /// TRANSACTION_ABORTABLE is known.
    AbortableError,
    /// Partitions become part of the transaction by being written to (`transaction.version` 2).
    AddPartitions,
}

impl TransactionSupport {
    /// By the version of a Produce request.
    pub fn of_produce(version: i16) -> TransactionSupport {
        match version {
            12.. => TransactionSupport::AddPartitions,
            11 => TransactionSupport::AbortableError,
            _ => TransactionSupport::Default,
        }
    }

    /// By the version of a TxnOffsetCommit request.
    pub fn of_offset_commit(version: i16) -> TransactionSupport {
        match version {
            5.. => TransactionSupport::AddPartitions,
            4 => TransactionSupport::AbortableError,
            _ => TransactionSupport::Default,
        }
    }
}

impl TransactionCoordinator {
    /// To be called on an async runtime.
    pub fn new(params: TransactionCoordinatorParams) -> TransactionCoordinator {
        let inner = Arc::new_cyclic(|inner: &Weak<Inner>| {
            let weak = inner.clone();
            let tasks = tokio::runtime::Handle::current();
            let on_effect = move |_: PartitionId, epoch: LeaderEpoch, effect: TransactionEffect| {
                if let Some(inner) = weak.upgrade() {
                    tasks.spawn(async move { inner.carry_out(effect, epoch).await });
                }
            };
            let runtime = Runtime::new(RuntimeParams {
                topic: TRANSACTION_TOPIC,
                broker_id: params.broker_id,
                replicas: params.replicas.clone(),
                metadata: params.controller.metadata().clone(),
                settings: params.settings.clone(),
                clock: params.clock.clone(),
                new_shard: TransactionShard::default,
                num_partitions: |config| config.transaction_state_log_num_partitions,
                commit_timeout: |config| Duration::from_millis(config.request_timeout_ms.max(0) as u64),
                codec: |_| Codec::None,
                load_buffer_size: |config| config.transaction_state_log_load_buffer_size.max(1) as usize,
                on_effect: Box::new(on_effect),
            });
            let producer_ids = ProducerIds::new(params.broker_id, params.controller.clone());
            Inner { params, runtime, producer_ids }
        });
        TransactionCoordinator { inner }
    }

    /// An id for a producer without transactions.
    pub async fn new_producer_id(&self) -> Result<ProducerId, ProducerIdError> {
        self.inner.producer_ids.next().await
    }

    /// The partition of the coordinator's topic that a transactional id lives in.
    pub fn partition_of(&self, transactional_id: &str) -> PartitionId {
        self.inner.runtime.partition_of(transactional_id)
    }

    /// Takes over what the controller decided.
    pub fn apply(&self, image: &Arc<MetadataImage>, delta: &MetadataDelta) {
        self.inner.runtime.apply(image, delta);
    }

    /// Runs a step of the transactional id's shard, and gives its answer once everything it saw and wrote is committed.
    pub async fn run<T>(
        &self,
        transactional_id: &str,
        op: impl FnOnce(&mut TransactionShard, &mut Step<'_>) -> T,
    ) -> Result<T, CoordinatorError> {
        self.inner.runtime.run(self.partition_of(transactional_id), op).await
    }

    /// Runs a step of every shard that is here, in the order of their partitions.
    pub async fn run_all<T>(
        &self,
        op: impl FnMut(&mut TransactionShard, &mut Step<'_>) -> T,
    ) -> Vec<Result<T, CoordinatorError>> {
        self.inner.runtime.run_all(op).await
    }

    /// A transactional producer begins or goes on (InitProducerId).
    pub async fn init_producer_id(
        &self,
        transactional_id: &Arc<str>,
        timeout_ms: i32,
        expected: Option<(ProducerId, ProducerEpoch)>,
    ) -> Result<(ProducerId, ProducerEpoch), ErrorCode> {
        let mut new_producer_id = None;
        loop {
            let op = |shard: &mut TransactionShard, step: &mut Step<'_>| {
                shard.init_producer_id(step, transactional_id, timeout_ms, expected, new_producer_id)
            };
            match self.run(transactional_id, op).await.map_err(|error| error.code())? {
                Initialized::Producer(producer_id, producer_epoch) => return Ok((producer_id, producer_epoch)),
                Initialized::Refused(error) => return Err(error),
                Initialized::NeedsProducerId => new_producer_id = Some(self.inner.next_producer_id().await?),
            }
        }
    }

    /// Partitions become part of a producer's transaction.
    pub async fn add_partitions(
        &self,
        transactional_id: &Arc<str>,
        producer_id: ProducerId,
        producer_epoch: ProducerEpoch,
        partitions: BTreeSet<TopicPartition>,
        client_version: TransactionVersion,
    ) -> Result<(), ErrorCode> {
        let op = |shard: &mut TransactionShard, step: &mut Step<'_>| {
            shard.add_partitions(step, transactional_id, producer_id, producer_epoch, partitions, client_version)
        };
        self.run(transactional_id, op).await.map_err(|error| error.code())?
    }

    /// Tells which of the partitions are part of a producer's transaction.
    pub async fn verify_partitions(
        &self,
        transactional_id: &str,
        producer_id: ProducerId,
        producer_epoch: ProducerEpoch,
        partitions: &BTreeSet<TopicPartition>,
    ) -> Verification {
        let op = |shard: &mut TransactionShard, _: &mut Step<'_>| {
            shard.verify_partitions(transactional_id, producer_id, producer_epoch, partitions)
        };
        self.run(transactional_id, op).await.map_err(|error| error.code())?
    }

    /// Makes sure that partitions which are to be written to are part of the producer's transaction. Gives an error for
    /// each that is not, in the words of its client.
    pub async fn add_or_verify(
        &self,
        transactional_id: &Arc<str>,
        producer_id: ProducerId,
        producer_epoch: ProducerEpoch,
        partitions: BTreeSet<TopicPartition>,
        support: TransactionSupport,
    ) -> BTreeMap<TopicPartition, ErrorCode> {
        let for_client = |error| match error {
            ErrorCode::ProducerFenced => ErrorCode::InvalidProducerEpoch,
            ErrorCode::TransactionAbortable if support == TransactionSupport::Default => ErrorCode::InvalidTxnState,
            error => error,
        };
        let all = |error: ErrorCode, partitions: BTreeSet<TopicPartition>| {
            partitions.into_iter().map(|partition| (partition, for_client(error))).collect()
        };
        if transactional_id.is_empty() {
            return all(ErrorCode::InvalidRequest, partitions);
        }
        if support == TransactionSupport::AddPartitions {
            let added = self.add_partitions(
                transactional_id,
                producer_id,
                producer_epoch,
                partitions.clone(),
                TransactionVersion::V2,
            );
            return match added.await {
                Ok(()) => BTreeMap::new(),
                Err(error) => all(error, partitions),
            };
        }
        match self.verify_partitions(transactional_id, producer_id, producer_epoch, &partitions).await {
            Ok(verified) => verified
                .into_iter()
                .filter(|(_, error)| *error != ErrorCode::None)
                .map(|(partition, error)| (partition, for_client(error)))
                .collect(),
            Err(error) => all(error, partitions),
        }
    }

    /// A producer ends its transaction. With the id and epoch it goes on with; none before `transaction.version` 2.
    pub async fn end_transaction(&self, mut end: EndTransaction) -> Result<(ProducerId, ProducerEpoch), ErrorCode> {
        let partition = self.partition_of(&end.transactional_id);
        loop {
            let op = |shard: &mut TransactionShard, step: &mut Step<'_>, reply_to| {
                shard.end_transaction(step, &end, reply_to);
            };
            match self.inner.runtime.run_deferred(partition, op).await.map_err(|error| error.code())? {
                EndedTransaction::Ended(producer_id, producer_epoch) => return Ok((producer_id, producer_epoch)),
                EndedTransaction::Refused(error) => return Err(error),
                EndedTransaction::NeedsProducerId => end.new_producer_id = Some(self.inner.next_producer_id().await?),
            }
        }
    }

    /// Writes the marker of a transaction into a partition that this broker leads (WriteTxnMarkers). Waits until it is
    /// committed.
    pub async fn write_marker(&self, partition: &TopicPartition, marker: &TransactionMarker) -> Result<(), ErrorCode> {
        match self.inner.write_marker(partition, marker).await {
            Ok(()) => Ok(()),
            Err(error) => Err(error.code()),
        }
    }
}

/// Why a marker is not written.
#[derive(Debug, thiserror::Error)]
enum WriteError {
    #[error(transparent)]
    Lookup(#[from] LookupError),
    #[error(transparent)]
    Append(#[from] PartitionAppendError),
    #[error(transparent)]
    Coordinator(#[from] CoordinatorError),
    #[error("the marker is not committed yet")]
    NotCommitted,
}

impl WriteError {
    fn code(&self) -> ErrorCode {
        match self {
            WriteError::Lookup(LookupError::UnknownTopicId | LookupError::UnknownTopicOrPartition) => {
                ErrorCode::UnknownTopicOrPartition
            }
            WriteError::Lookup(LookupError::NotHere) => ErrorCode::NotLeaderOrFollower,
            WriteError::Lookup(LookupError::Offline) => ErrorCode::KafkaStorageError,
            WriteError::Append(error) => match error {
                PartitionAppendError::Leader(_) => ErrorCode::NotLeaderOrFollower,
                PartitionAppendError::NotEnoughReplicas { .. } => ErrorCode::NotEnoughReplicas,
                PartitionAppendError::Log(AppendError::NoRoom(_) | AppendError::Io(_) | AppendError::Offline) => {
                    ErrorCode::KafkaStorageError
                }
                PartitionAppendError::Log(AppendError::Producer(error)) => match error {
                    ProducerStateError::CoordinatorFenced { .. } => ErrorCode::TransactionCoordinatorFenced,
                    ProducerStateError::InvalidProducerEpoch { .. } => ErrorCode::InvalidProducerEpoch,
                    _ => ErrorCode::UnknownServerError,
                },
                PartitionAppendError::Log(_) | PartitionAppendError::Invalid(_) => ErrorCode::UnknownServerError,
            },
            // Of the offsets' topic: for the one who waits for the marker it is a partition like any other.
            WriteError::Coordinator(CoordinatorError::NotAvailable(_)) => ErrorCode::RequestTimedOut,
            WriteError::Coordinator(_) => ErrorCode::NotLeaderOrFollower,
            WriteError::NotCommitted => ErrorCode::RequestTimedOut,
        }
    }
}

impl Inner {
    async fn next_producer_id(&self) -> Result<ProducerId, ErrorCode> {
        self.producer_ids.next().await.map_err(|error| {
            warn!(%error, "no producer id");
            ErrorCode::CoordinatorLoadInProgress
        })
    }

    async fn carry_out(&self, effect: TransactionEffect, coordinator_epoch: LeaderEpoch) {
        match effect {
            TransactionEffect::WriteMarkers(markers) => self.write_markers(markers, coordinator_epoch).await,
            TransactionEffect::Abort(end) => self.abort(end).await,
        }
    }

    /// Aborts a transaction that took too long.
    async fn abort(&self, mut end: EndTransaction) {
        let partition = self.runtime.partition_of(&end.transactional_id);
        loop {
            let op = |shard: &mut TransactionShard, step: &mut Step<'_>| shard.abort_if_timed_out(step, &end);
            match self.runtime.run(partition, op).await {
                Ok(Ok(true)) => {
                    info!(transactional_id = &*end.transactional_id, producer_id = %end.producer_id,
                        "transaction timed out: aborted");
                }
                Ok(Ok(false)) => {}
                Ok(Err(ProducerIdNeeded)) => match self.next_producer_id().await {
                    Ok(producer_id) => {
                        end.new_producer_id = Some(producer_id);
                        continue;
                    }
                    // The next look at timed out transactions finds it again.
                    Err(_) => return,
                },
                Err(error) => {
                    warn!(transactional_id = &*end.transactional_id, %error, "a timed out transaction is not aborted yet");
                }
            }
            return;
        }
    }

    /// Writes all markers of a decided transaction, however long that takes, and has that written down.
    async fn write_markers(&self, markers: MarkersToWrite, coordinator_epoch: LeaderEpoch) {
        let marker = TransactionMarker {
            producer_id: markers.producer_id,
            producer_epoch: markers.producer_epoch,
            committed: markers.committed,
            coordinator_epoch: coordinator_epoch.0,
            transaction_version: markers.transaction_version,
        };
        let home = self.runtime.partition_of(&markers.transactional_id);
        let mut left = markers.partitions.clone();
        let mut told = false;
        loop {
            let mut written = Vec::new();
            let outcomes = join_all(left.iter().map(|partition| self.write_marker(partition, &marker))).await;
            for (partition, outcome) in left.iter().zip(outcomes) {
                match outcome {
                    Ok(()) => written.push(partition.clone()),
                    Err(error) => match error.code() {
                        ErrorCode::UnknownTopicOrPartition => {
                            info!(transactional_id = &*markers.transactional_id, %partition,
                                "a partition of a transaction is gone: it gets no marker");
                            written.push(partition.clone());
                        }
                        // Whoever coordinates now writes its own.
                        ErrorCode::TransactionCoordinatorFenced => return,
                        ErrorCode::InvalidProducerEpoch => {
                            warn!(transactional_id = &*markers.transactional_id, %partition, %error,
                                "a partition has seen a later transaction of the producer: it gets no marker");
                            written.push(partition.clone());
                        }
                        code if code.retriable() && !told => {
                            told = true;
                            info!(transactional_id = &*markers.transactional_id, %partition, %error,
                                "a transaction's marker cannot be written yet");
                        }
                        code if code.retriable() || told => {}
                        _ => {
                            told = true;
                            error!(transactional_id = &*markers.transactional_id, %partition, %error,
                                "a transaction's marker cannot be written: it is tried again");
                        }
                    },
                }
            }
            let op = |shard: &mut TransactionShard, step: &mut Step<'_>| {
                shard.markers_written(step, &markers, &written);
            };
            match self.runtime.run(home, op).await {
                Ok(()) => {
                    for partition in &written {
                        left.remove(partition);
                    }
                    if left.is_empty() {
                        return;
                    }
                }
                // The next coordinator reads that it is decided.
                Err(CoordinatorError::NotCoordinator | CoordinatorError::LoadInProgress) => return,
                Err(error) => {
                    warn!(transactional_id = &*markers.transactional_id, %error, "the end of a transaction is not written yet");
                }
            }
            sleep(MARKER_RETRY).await;
        }
    }

    async fn write_marker(&self, partition: &TopicPartition, marker: &TransactionMarker) -> Result<(), WriteError> {
        if &*partition.topic == OFFSETS_TOPIC {
            return self.params.groups.end_transaction(partition.partition, marker).await.map_err(
                |error| match error {
                    MarkerError::Coordinator(error) => error.into(),
                    MarkerError::Append(error) => error.into(),
                },
            );
        }
        let partition = self.params.replicas.partition(&partition.topic, partition.partition)?;
        let appended = partition.append_marker(marker, self.params.clock.now_ms())?;
        let Some(committed) = appended.wait else { return Ok(()) };
        match timeout(MARKER_COMMIT_TIMEOUT, committed).await {
            Ok(Ok(Reached::Yes)) => Ok(()),
            Ok(Ok(Reached::Never) | Err(_)) | Err(_) => Err(WriteError::NotCommitted),
        }
    }
}
