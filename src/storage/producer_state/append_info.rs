//! Checks one append against what is known of its producer (KIP-98, KIP-360, KIP-890).
//!
//! Pure: batches of one producer go in, in order, and come out as an updated entry, the transactions they began
//! and those they completed; the caller applies them once the bytes are written. Nothing here touches a log.
//!
//! A data batch from a client, by the state of its producer:
//!
//! | producer                  | epoch        | first sequence               | outcome                         |
//! |---------------------------|--------------|------------------------------|---------------------------------|
//! | any                       | older        | any                          | `InvalidProducerEpoch`          |
//! | unknown                   | any          | any                          | accepted (KIP-360)              |
//! | known                     | newer        | 0                            | accepted                        |
//! | known                     | newer        | not 0                        | `OutOfOrderSequence`            |
//! | known                     | same         | last + 1 (after MAX: 0)      | accepted                        |
//! | known                     | same         | other                        | `OutOfOrderSequence`            |
//!
//! An exact repetition of one of the last five batches is answered before any of this, see
//! [`super::ProducerStateManager::analyze`]. Batches that a follower copies are only looked at, never refused for
//! their epoch or sequence; those of a coordinator have no sequences to check.

use thiserror::Error;
use tracing::{info, warn};

use super::entry::{BatchMetadata, ProducerStateEntry};
use super::verification::VerificationStateEntry;
use crate::record::batch::{NO_SEQUENCE, increment_sequence};
use crate::storage::validate::AppendOrigin;
use crate::types::{Offset, ProducerEpoch, ProducerId};

/// Why a producer's batch is refused. Nothing was changed.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum ProducerStateError {
    #[error(
        "sequence {sequence} of producer {producer_id} in epoch {producer_epoch} at offset {offset} is out of order: the last one is {last_sequence} in epoch {current_epoch}"
    )]
    OutOfOrderSequence {
        producer_id: ProducerId,
        producer_epoch: ProducerEpoch,
        sequence: i32,
        offset: Offset,
        current_epoch: ProducerEpoch,
        last_sequence: i32,
    },
    #[error(
        "epoch {producer_epoch} of producer {producer_id} at offset {offset} is older than the last one seen, {current_epoch}"
    )]
    InvalidProducerEpoch {
        producer_id: ProducerId,
        producer_epoch: ProducerEpoch,
        offset: Offset,
        current_epoch: ProducerEpoch,
    },
    #[error("producer {producer_id} wrote outside of its transaction at offset {offset}")]
    InvalidTxnState { producer_id: ProducerId, offset: Offset },
    #[error(
        "epoch {coordinator_epoch} of the transaction coordinator of producer {producer_id} at offset {offset} is older than the last one seen, {current_epoch}"
    )]
    CoordinatorFenced { producer_id: ProducerId, offset: Offset, coordinator_epoch: i32, current_epoch: i32 },
}

/// The generation of the transaction protocol in which a marker is written (`transaction.version`, KIP-890).
/// From 2 on every transaction has a producer epoch of its own, so that a marker's epoch must be newer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct TransactionVersion(pub i16);

impl TransactionVersion {
    pub const V0: TransactionVersion = TransactionVersion(0);
    pub const V2: TransactionVersion = TransactionVersion(2);

    /// Whether every transaction has a producer epoch of its own.
    pub fn supports_epoch_bump(self) -> bool {
        self >= TransactionVersion::V2
    }
}

/// What a transaction marker says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndTransactionMarker {
    pub aborted: bool,
    pub coordinator_epoch: i32,
    /// Of the control record.
    pub timestamp: i64,
}

/// What a batch is, as far as its producer is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BatchKind {
    Data {
        transactional: bool,
    },
    /// The marker that ends a transaction. `None`: the control batch lost its record to compaction, and with it
    /// the whole transaction.
    EndTransaction(Option<EndTransactionMarker>),
}

impl BatchKind {
    /// Whether the batch's attributes have the transactional bit; markers always do.
    pub fn is_transactional(self) -> bool {
        match self {
            BatchKind::Data { transactional } => transactional,
            BatchKind::EndTransaction(_) => true,
        }
    }
}

/// The facts of a batch header that matter here. Offsets are those the log has assigned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProducerBatch {
    pub producer_id: ProducerId,
    pub producer_epoch: ProducerEpoch,
    pub base_sequence: i32,
    pub base_offset: Offset,
    pub last_offset_delta: i32,
    pub max_timestamp: i64,
    pub kind: BatchKind,
}

impl ProducerBatch {
    pub fn last_offset(&self) -> Offset {
        Offset(self.base_offset.0.saturating_add(i64::from(self.last_offset_delta)))
    }

    pub fn last_sequence(&self) -> i32 {
        match self.base_sequence {
            NO_SEQUENCE => NO_SEQUENCE,
            first => increment_sequence(first, self.last_offset_delta),
        }
    }
}

/// A transaction that its marker ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompletedTxn {
    pub producer_id: ProducerId,
    pub first_offset: Offset,
    /// Offset of the marker.
    pub last_offset: Offset,
    pub aborted: bool,
}

/// What the checks must know of a producer as it was before the append.
#[derive(Clone, Copy, Debug)]
struct Current {
    producer_epoch: ProducerEpoch,
    is_empty: bool,
    last_sequence: i32,
}

/// Gathers what the batches of one append do to one producer.
#[derive(Clone, Debug)]
pub struct ProducerAppendInfo {
    origin: AppendOrigin,
    current: Current,
    updated: ProducerStateEntry,
    verification: Option<VerificationStateEntry>,
    started: Vec<Offset>,
}

impl ProducerAppendInfo {
    /// `current`: what is known of the producer; `verification`: of the check with its coordinator, if one runs.
    pub fn new(
        current: &ProducerStateEntry,
        verification: Option<VerificationStateEntry>,
        origin: AppendOrigin,
    ) -> ProducerAppendInfo {
        let updated = current.without_batches();
        let current = Current {
            producer_epoch: current.producer_epoch,
            is_empty: current.is_empty(),
            last_sequence: current.last_sequence(),
        };
        ProducerAppendInfo { origin, current, updated, verification, started: Vec::new() }
    }

    /// The producer's state once the append is done: only the new batches are in it.
    pub fn updated(&self) -> &ProducerStateEntry {
        &self.updated
    }

    /// First offsets of the transactions that began.
    pub fn started_transactions(&self) -> &[Offset] {
        &self.started
    }

    /// Checks the next batch and takes it over. After an error this value is of no further use.
    pub fn append(
        &mut self,
        batch: &ProducerBatch,
        version: TransactionVersion,
    ) -> Result<Option<CompletedTxn>, ProducerStateError> {
        match batch.kind {
            BatchKind::Data { transactional } => self.append_data(batch, transactional).map(|()| None),
            BatchKind::EndTransaction(Some(marker)) => self.append_marker(batch, marker, version),
            BatchKind::EndTransaction(None) => Ok(None),
        }
    }

    fn append_data(&mut self, batch: &ProducerBatch, transactional: bool) -> Result<(), ProducerStateError> {
        let older = batch.producer_epoch < self.updated.producer_epoch;
        self.check_epoch(batch, older)?;
        if self.origin == AppendOrigin::Client {
            self.check_sequence(batch)?;
        }
        if self.updated.current_txn_first_offset.is_some() && !transactional {
            return Err(ProducerStateError::InvalidTxnState {
                producer_id: batch.producer_id,
                offset: batch.base_offset,
            });
        }
        self.updated.add_batch(
            batch.producer_epoch,
            BatchMetadata {
                last_sequence: batch.last_sequence(),
                last_offset: batch.last_offset(),
                offset_delta: batch.last_offset_delta,
                timestamp: batch.max_timestamp,
            },
        );
        if transactional && self.updated.current_txn_first_offset.is_none() {
            self.updated.current_txn_first_offset = Some(batch.base_offset);
            self.started.push(batch.base_offset);
        }
        Ok(())
    }

    fn append_marker(
        &mut self,
        batch: &ProducerBatch,
        marker: EndTransactionMarker,
        version: TransactionVersion,
    ) -> Result<Option<CompletedTxn>, ProducerStateError> {
        self.check_epoch(batch, self.is_stale_marker(batch.producer_epoch, version))?;
        self.check_coordinator_epoch(batch, marker.coordinator_epoch)?;
        // A marker without data before it leaves no trace in the last stable offset or the transaction index.
        let completed = self.updated.current_txn_first_offset.map(|first_offset| CompletedTxn {
            producer_id: batch.producer_id,
            first_offset,
            last_offset: batch.base_offset,
            aborted: marker.aborted,
        });
        self.updated.end_transaction(batch.producer_epoch, marker.coordinator_epoch, marker.timestamp);
        Ok(completed)
    }

    fn is_stale_marker(&self, epoch: ProducerEpoch, version: TransactionVersion) -> bool {
        let current = self.updated.producer_epoch;
        if !version.supports_epoch_bump() {
            return epoch < current;
        }
        // KIP-890: the coordinator bumps the epoch before it writes the marker. The same epoch again is the retry of
        // a marker that was written already, or an epoch that could not be bumped further.
        let repeated = epoch == current && (self.updated.current_txn_first_offset.is_none() || epoch.0 == i16::MAX);
        epoch <= current && !repeated
    }

    fn check_epoch(&self, batch: &ProducerBatch, stale: bool) -> Result<(), ProducerStateError> {
        if !stale {
            return Ok(());
        }
        let current_epoch = self.updated.producer_epoch;
        if self.origin == AppendOrigin::Replication {
            warn!(producer_id = %batch.producer_id, offset = %batch.base_offset, epoch = %batch.producer_epoch, %current_epoch, "replicated batch has an old producer epoch");
            return Ok(());
        }
        Err(ProducerStateError::InvalidProducerEpoch {
            producer_id: batch.producer_id,
            producer_epoch: batch.producer_epoch,
            offset: batch.base_offset,
            current_epoch,
        })
    }

    fn check_sequence(&self, batch: &ProducerBatch) -> Result<(), ProducerStateError> {
        let sequence = batch.base_sequence;
        let out_of_order = |last_sequence| {
            Err(ProducerStateError::OutOfOrderSequence {
                producer_id: batch.producer_id,
                producer_epoch: batch.producer_epoch,
                sequence,
                offset: batch.base_offset,
                current_epoch: self.updated.producer_epoch,
                last_sequence,
            })
        };
        if let Some(verification) = &self.verification {
            // KIP-890: in the protocol with an epoch per transaction a producer without batches starts at 0, and a
            // batch whose predecessor is still to be retried must wait for it.
            if verification.supports_epoch_bump && sequence != 0 && self.current.is_empty {
                return out_of_order(NO_SEQUENCE);
            }
            if sequence > verification.lowest_sequence {
                return out_of_order(verification.lowest_sequence);
            }
        }
        if batch.producer_epoch != self.updated.producer_epoch {
            return match sequence != 0 && self.updated.producer_epoch != ProducerEpoch::NONE {
                true => out_of_order(self.current.last_sequence),
                false => Ok(()),
            };
        }
        let last_sequence = if !self.updated.is_empty() {
            self.updated.last_sequence()
        } else if batch.producer_epoch == self.current.producer_epoch {
            self.current.last_sequence
        } else {
            NO_SEQUENCE
        };
        // Without a current epoch nothing is known of the producer, perhaps because its records were deleted.
        let in_sequence =
            i64::from(sequence) == i64::from(last_sequence) + 1 || (sequence == 0 && last_sequence == i32::MAX);
        if self.current.producer_epoch == ProducerEpoch::NONE || in_sequence {
            return Ok(());
        }
        out_of_order(last_sequence)
    }

    fn check_coordinator_epoch(&self, batch: &ProducerBatch, coordinator_epoch: i32) -> Result<(), ProducerStateError> {
        let current_epoch = self.updated.coordinator_epoch;
        if current_epoch <= coordinator_epoch {
            return Ok(());
        }
        if self.origin == AppendOrigin::Replication {
            info!(producer_id = %batch.producer_id, offset = %batch.base_offset, coordinator_epoch, current_epoch, "replicated marker has an old coordinator epoch");
            return Ok(());
        }
        Err(ProducerStateError::CoordinatorFenced {
            producer_id: batch.producer_id,
            offset: batch.base_offset,
            coordinator_epoch,
            current_epoch,
        })
    }
}
