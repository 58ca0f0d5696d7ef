//! What a partition has to do with transactions beside records: their markers, and the check that a producer's
//! transaction is open before its first records are taken (KIP-98, KIP-890).

use std::sync::Arc;

use super::{Appended, LeaderError, Partition, PartitionAppendError};
use crate::record::batch::NO_SEQUENCE;
use crate::record::builder::RecordBatchBuilder;
use crate::record::control::{ControlRecord, EndTxnMarker};
use crate::storage::log::{AppendContext, AppendError};
use crate::storage::producer_state::{ProducerStateEntry, TransactionVersion, VerificationGuard};
use crate::types::{Offset, ProducerEpoch, ProducerId};

/// How a producer's transaction ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransactionMarker {
    pub producer_id: ProducerId,
    pub producer_epoch: ProducerEpoch,
    pub committed: bool,
    /// Leader epoch of the partition of `__transaction_state` that decided.
    pub coordinator_epoch: i32,
    /// The generation of the protocol that the transaction was in.
    pub transaction_version: TransactionVersion,
}

/// Who is to be verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VerifiedProducer {
    pub producer_id: ProducerId,
    pub producer_epoch: ProducerEpoch,
    /// First sequence number of the batch.
    pub base_sequence: i32,
    /// Whether the client has an epoch for each transaction (`transaction.version` 2).
    pub supports_epoch_bump: bool,
}

impl Partition {
    /// Ends a producer's transaction here.
    pub fn append_marker(
        self: &Arc<Self>,
        marker: &TransactionMarker,
        now_ms: i64,
    ) -> Result<Appended, PartitionAppendError> {
        let mut batch = RecordBatchBuilder::new(Offset(0))
            .producer(marker.producer_id, marker.producer_epoch, NO_SEQUENCE)
            .transactional(true)
            .control(true);
        let end = EndTxnMarker { committed: marker.committed, coordinator_epoch: marker.coordinator_epoch };
        batch.append_control(now_ms, &ControlRecord::EndTxn(end));
        let context = AppendContext { transaction_version: marker.transaction_version, ..AppendContext::default() };
        self.append_as_coordinator(batch.build(), context, now_ms)
    }

    /// Begins to verify that a producer's transaction is open. The guard goes with the append that the verification
    /// allows; `Ok(None)`: the transaction has records here, so that there is nothing to verify.
    pub fn start_verification(
        &self,
        producer: &VerifiedProducer,
        now_ms: i64,
    ) -> Result<Option<VerificationGuard>, PartitionAppendError> {
        let leadership = self.leadership.read();
        self.check_leader(&leadership, None, true)?;
        let started = self.log.load().with_producers(|producers| {
            producers.start_verification(
                producer.producer_id,
                producer.producer_epoch,
                producer.base_sequence,
                producer.supports_epoch_bump,
                now_ms,
            )
        });
        Ok(started.map_err(AppendError::Producer)?)
    }

    /// Whether the producer's transaction has records here and no marker yet.
    pub fn has_ongoing_transaction(&self, producer_id: ProducerId, producer_epoch: ProducerEpoch) -> bool {
        self.log.load().with_producers(|producers| producers.has_ongoing_transaction(producer_id, producer_epoch))
    }

    /// Transactions that have been open here for longer than any may.
    pub fn late_transactions(&self, now_ms: i64) -> Vec<ProducerStateEntry> {
        self.log.load().with_producers(|producers| producers.late_transactions(now_ms).cloned().collect())
    }

    /// The producers that wrote here and are remembered, by their ids.
    pub fn active_producers(&self) -> Result<Vec<ProducerStateEntry>, LeaderError> {
        let leadership = self.leadership.read();
        self.check_leader(&leadership, None, true)?;
        Ok(self.log.load().with_producers(|producers| producers.active_producers().into_iter().cloned().collect()))
    }
}
