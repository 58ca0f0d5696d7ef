//! The group coordinator of this broker: finds the shard of a group.
//!
//! A group lives in the partition of `__consumer_offsets` that its id hashes to, and is coordinated by that partition's
//! leader.

use std::sync::Arc;
use std::time::Duration;

use super::{DeferredReply, GroupShard, Step};
use crate::clock::Clock;
use crate::coordinator::runtime::{MarkerError, Runtime, RuntimeParams};
use crate::coordinator::shard::{CoordinatorError, ReplyTo};
use crate::metadata::image::{MetadataDelta, MetadataHandle, MetadataImage};
use crate::record::compression::Codec;
use crate::replica::{ReplicaManager, Settings, TransactionMarker, VerificationGuard, VerifiedProducer};
use crate::types::{BrokerId, PartitionId};

/// The topic of groups and their offsets.
pub const OFFSETS_TOPIC: &str = "__consumer_offsets";

/// See the module. Cheap to clone.
#[derive(Clone)]
pub struct GroupCoordinator {
    runtime: Runtime<GroupShard>,
}

impl GroupCoordinator {
    /// To be called on an async runtime.
    pub fn new(
        broker_id: BrokerId,
        replicas: Arc<ReplicaManager>,
        metadata: MetadataHandle,
        settings: Settings,
        clock: Arc<dyn Clock>,
    ) -> GroupCoordinator {
        let runtime = Runtime::new(RuntimeParams {
            topic: OFFSETS_TOPIC,
            broker_id,
            replicas,
            metadata,
            settings,
            clock,
            new_shard: GroupShard::default,
            num_partitions: |config| config.offsets_topic_num_partitions,
            commit_timeout: |config| Duration::from_millis(config.offsets_commit_timeout_ms.max(0) as u64),
            codec: |config| {
                let id = u8::try_from(config.offsets_topic_compression_codec.0).ok();
                id.and_then(|id| Codec::from_id(id).ok()).unwrap_or(Codec::None)
            },
            load_buffer_size: |config| config.offsets_load_buffer_size.max(1) as usize,
            on_effect: Box::new(|_, _, effect| match effect {}),
        });
        GroupCoordinator { runtime }
    }

    /// The partition that the group lives in.
    pub fn partition_of(&self, group_id: &str) -> PartitionId {
        self.runtime.partition_of(group_id)
    }

    /// Runs a step of the group's shard, and gives its answer once everything it saw and wrote is committed.
    pub async fn run<T>(
        &self,
        group_id: &str,
        op: impl FnOnce(&mut GroupShard, &mut Step<'_>) -> T,
    ) -> Result<T, CoordinatorError> {
        self.runtime.run(self.partition_of(group_id), op).await
    }

    /// Runs a step whose answer comes with a later one.
    pub async fn run_deferred(
        &self,
        group_id: &str,
        op: impl FnOnce(&mut GroupShard, &mut Step<'_>, ReplyTo),
    ) -> Result<DeferredReply, CoordinatorError> {
        self.runtime.run_deferred(self.partition_of(group_id), op).await
    }

    /// Runs a step of every shard that is here, in the order of their partitions.
    pub async fn run_all<T>(
        &self,
        op: impl FnMut(&mut GroupShard, &mut Step<'_>) -> T,
    ) -> Vec<Result<T, CoordinatorError>> {
        self.runtime.run_all(op).await
    }

    /// Writes the marker of a transaction into a partition of the offsets' topic; the transaction's offsets are
    /// committed by it, or forgotten.
    pub async fn end_transaction(&self, partition: PartitionId, marker: &TransactionMarker) -> Result<(), MarkerError> {
        self.runtime.end_transaction(partition, marker).await
    }

    /// Begins to verify that a producer's transaction may commit offsets of the group.
    pub fn start_verification(
        &self,
        group_id: &str,
        producer: &VerifiedProducer,
    ) -> Result<Option<VerificationGuard>, CoordinatorError> {
        self.runtime.start_verification(self.partition_of(group_id), producer)
    }

    /// Takes over what the controller decided.
    pub fn apply(&self, image: &Arc<MetadataImage>, delta: &MetadataDelta) {
        self.runtime.apply(image, delta);
    }
}
