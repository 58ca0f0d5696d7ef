//! What is known of one transactional id: its producer, and its transaction. Changes are pure: they give what would be.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::records::{PartitionsSchema, TransactionLogKey, TransactionLogValue, TransactionRecord};
use super::state::TransactionState;
use crate::coordinator::shard::CoordinatorRecord;
use crate::metadata::records::codec::DecodeError;
pub use crate::replica::TransactionVersion;
use crate::types::{ProducerEpoch, ProducerId, TopicPartition};

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransactionMetadata {
    pub producer_id: ProducerId,
    /// The id before the last change of ids, [`ProducerId::NONE`] before one.
    pub previous_producer_id: ProducerId,
    /// The id after this transaction, whose end exhausts the epochs of the present one.
    pub next_producer_id: ProducerId,
    pub producer_epoch: ProducerEpoch,
    /// The epoch before, for a producer that did not hear of the change. Not in the log, as in Kafka.
    pub last_producer_epoch: ProducerEpoch,
    pub timeout_ms: i32,
    pub state: TransactionState,
    /// With records of the transaction; once it is decided, those whose markers are not known to be written.
    pub partitions: BTreeSet<TopicPartition>,
    /// -1: none began.
    pub start_timestamp_ms: i64,
    pub last_update_timestamp_ms: i64,
    /// The protocol of the client that last changed it.
    pub client_version: TransactionVersion,
}

impl TransactionMetadata {
    /// A transactional id that was not used before. Its producer has no epoch yet.
    pub fn new(producer_id: ProducerId, timeout_ms: i32, now_ms: i64) -> TransactionMetadata {
        TransactionMetadata {
            producer_id,
            previous_producer_id: ProducerId::NONE,
            next_producer_id: ProducerId::NONE,
            producer_epoch: ProducerEpoch::NONE,
            last_producer_epoch: ProducerEpoch::NONE,
            timeout_ms,
            state: TransactionState::Empty,
            partitions: BTreeSet::new(),
            start_timestamp_ms: -1,
            last_update_timestamp_ms: now_ms,
            client_version: TransactionVersion::V0,
        }
    }

    /// Whether the producer's id has no epoch left. The last one is kept for fencing.
    pub fn is_epoch_exhausted(&self) -> bool {
        is_epoch_exhausted(self.producer_epoch)
    }

    /// Two-phase commits have no timeout (KIP-939).
    pub fn has_timeout(&self) -> bool {
        self.timeout_ms != i32::MAX
    }

    /// Everything but the partitions, of which there may be thousands.
    fn without_partitions(&self) -> TransactionMetadata {
        TransactionMetadata { partitions: BTreeSet::new(), ..*self }
    }

    /// The producer gets another epoch, or another id with its first epoch.
    pub fn initialized(
        &self,
        producer_id: ProducerId,
        producer_epoch: ProducerEpoch,
        last_producer_epoch: ProducerEpoch,
        timeout_ms: i32,
        now_ms: i64,
    ) -> TransactionMetadata {
        TransactionMetadata {
            producer_id,
            previous_producer_id: self.producer_id,
            producer_epoch,
            last_producer_epoch,
            timeout_ms,
            state: TransactionState::Empty,
            start_timestamp_ms: -1,
            last_update_timestamp_ms: now_ms,
            ..self.without_partitions()
        }
    }

    /// Partitions become part of the transaction, which begins if none is open.
    pub fn with_partitions(
        &self,
        added: impl IntoIterator<Item = TopicPartition>,
        client_version: TransactionVersion,
        now_ms: i64,
    ) -> TransactionMetadata {
        let begins = self.state != TransactionState::Ongoing;
        let mut partitions = self.partitions.clone();
        partitions.extend(added);
        TransactionMetadata {
            previous_producer_id: self.producer_id,
            state: TransactionState::Ongoing,
            partitions,
            start_timestamp_ms: if begins { now_ms } else { self.start_timestamp_ms },
            last_update_timestamp_ms: now_ms,
            client_version,
            ..self.without_partitions()
        }
    }

    /// The transaction's outcome is decided. From `transaction.version` 2 on the epoch grows with it.
    pub fn prepared(
        &self,
        committed: bool,
        client_version: TransactionVersion,
        next_producer_id: ProducerId,
        now_ms: i64,
    ) -> TransactionMetadata {
        let (producer_epoch, last_producer_epoch) = if client_version.supports_epoch_bump() {
            // An epoch that cannot grow is a fault of old brokers; the abort goes through all the same.
            (ProducerEpoch(self.producer_epoch.0.saturating_add(1)), self.producer_epoch)
        } else {
            (self.producer_epoch, self.last_producer_epoch)
        };
        let state = if committed { TransactionState::PrepareCommit } else { TransactionState::PrepareAbort };
        TransactionMetadata {
            previous_producer_id: self.producer_id,
            next_producer_id,
            producer_epoch,
            last_producer_epoch,
            state,
            partitions: self.partitions.clone(),
            // The abort of a transaction without partitions has no other start.
            start_timestamp_ms: if self.state == TransactionState::Ongoing { self.start_timestamp_ms } else { now_ms },
            last_update_timestamp_ms: now_ms,
            client_version,
            ..self.without_partitions()
        }
    }

    /// All markers are written. The producer goes on with its next id, if the present one has no epoch left.
    pub fn completed(&self, now_ms: i64) -> TransactionMetadata {
        let (producer_id, producer_epoch) = self.producer_afterwards();
        let state = if self.state == TransactionState::PrepareCommit {
            TransactionState::CompleteCommit
        } else {
            TransactionState::CompleteAbort
        };
        TransactionMetadata {
            producer_id,
            previous_producer_id: self.producer_id,
            next_producer_id: ProducerId::NONE,
            producer_epoch,
            state,
            last_update_timestamp_ms: now_ms,
            ..self.without_partitions()
        }
    }

    /// Id and epoch of the producer once a decided transaction is complete.
    pub fn producer_afterwards(&self) -> (ProducerId, ProducerEpoch) {
        if self.client_version.supports_epoch_bump() && self.next_producer_id != ProducerId::NONE {
            (self.next_producer_id, ProducerEpoch(0))
        } else {
            (self.producer_id, self.producer_epoch)
        }
    }
}

/// The version in which values of the log are written in a cluster of this `transaction.version`.
pub fn log_value_version(version: TransactionVersion) -> i16 {
    i16::from(version > TransactionVersion::V0)
}

/// See [`TransactionMetadata::is_epoch_exhausted`].
pub fn is_epoch_exhausted(epoch: ProducerEpoch) -> bool {
    epoch.0 >= i16::MAX - 1
}

/// A record of `__transaction_state`: what is known of a transactional id from here on; nothing: it is forgotten.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransactionUpdate {
    pub transactional_id: Arc<str>,
    pub metadata: Option<TransactionMetadata>,
    /// The version in which the value is written.
    pub value_version: i16,
}

impl CoordinatorRecord for TransactionUpdate {
    fn to_bytes(&self) -> (Vec<u8>, Option<Vec<u8>>) {
        let key = TransactionLogKey { transactional_id: self.transactional_id.to_string() };
        let value = self.metadata.as_ref().map(|metadata| to_value(metadata, self.value_version));
        let record = TransactionRecord::TransactionLog(key, value);
        record.encode(self.value_version).expect("the value holds what its version can say")
    }

    fn from_bytes(key: &[u8], value: Option<&[u8]>) -> Result<Option<TransactionUpdate>, String> {
        let (record, value_version) = match TransactionRecord::decode(key, value) {
            Ok(decoded) => decoded,
            // Of a newer Kafka: passed over, as Kafka does.
            Err(DecodeError::UnknownType(_) | DecodeError::UnknownVersion { .. }) => return Ok(None),
            Err(error) => return Err(error.to_string()),
        };
        let TransactionRecord::TransactionLog(key, value) = record;
        let metadata = value.map(from_value).transpose()?;
        Ok(Some(TransactionUpdate { transactional_id: key.transactional_id.into(), metadata, value_version }))
    }
}

fn to_value(metadata: &TransactionMetadata, version: i16) -> TransactionLogValue {
    let mut topics: Vec<PartitionsSchema> = Vec::new();
    for partition in &metadata.partitions {
        match topics.last_mut().filter(|topic| *topic.topic == *partition.topic) {
            Some(topic) => topic.partition_ids.push(partition.partition.0),
            None => topics.push(PartitionsSchema {
                topic: partition.topic.to_string(),
                partition_ids: vec![partition.partition.0],
            }),
        }
    }
    let value = TransactionLogValue {
        producer_id: metadata.producer_id.0,
        producer_epoch: metadata.producer_epoch.0,
        transaction_timeout_ms: metadata.timeout_ms,
        transaction_status: metadata.state.id(),
        transaction_partitions: (metadata.state != TransactionState::Empty).then_some(topics),
        transaction_last_update_timestamp_ms: metadata.last_update_timestamp_ms,
        transaction_start_timestamp_ms: metadata.start_timestamp_ms,
        ..TransactionLogValue::default()
    };
    if version == 0 {
        return value;
    }
    TransactionLogValue {
        previous_producer_id: metadata.previous_producer_id.0,
        next_producer_id: metadata.next_producer_id.0,
        client_transaction_version: metadata.client_version.0,
        ..value
    }
}

fn from_value(value: TransactionLogValue) -> Result<TransactionMetadata, String> {
    let state = TransactionState::from_id(value.transaction_status)
        .ok_or_else(|| format!("the transaction's state {} is not known", value.transaction_status))?;
    let topics = if state == TransactionState::Empty { None } else { value.transaction_partitions };
    let partitions = topics
        .into_iter()
        .flatten()
        .flat_map(|topic| {
            let name: Arc<str> = topic.topic.into();
            topic.partition_ids.into_iter().map(move |id| TopicPartition::new(name.clone(), id))
        })
        .collect();
    Ok(TransactionMetadata {
        producer_id: ProducerId(value.producer_id),
        previous_producer_id: ProducerId(value.previous_producer_id),
        next_producer_id: ProducerId(value.next_producer_id),
        producer_epoch: ProducerEpoch(value.producer_epoch),
        last_producer_epoch: ProducerEpoch::NONE,
        timeout_ms: value.transaction_timeout_ms,
        state,
        partitions,
        start_timestamp_ms: value.transaction_start_timestamp_ms,
        last_update_timestamp_ms: value.transaction_last_update_timestamp_ms,
        client_version: TransactionVersion(value.client_transaction_version),
    })
}
