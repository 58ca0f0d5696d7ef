//! What a log accepts: the checks on record batches before an append, and the changes that the broker makes to them.
//!
//! Everything here is pure and runs outside of the log's lock. It takes what a produce request, a coordinator, the Raft
//! leader or a fetched response carries, and gives batches whose header is an owned copy and whose body is a slice of
//! the given bytes. Only a change of codec builds a new body.
//!
//! A produce request is first looked at by `record::produced`, which knows what each version of it may carry.
//!
//! What the log still has to do, under its lock:
//! - for [`AppendOrigin::Client`] and [`AppendOrigin::Coordinator`]: call [`ValidatedRecords::assign`] with its log end
//!   offset and its leader epoch (neither is covered by the CRC), then write header and body of each batch in order;
//! - for [`AppendOrigin::RaftLeader`] and [`AppendOrigin::Replication`]: offsets and epochs stand as they came. The log
//!   checks that the first base offset is not below its end, and writes [`ValidatedRecords::as_given`] in one piece;
//! - in either case: the size against `segment.bytes`, producer state, epoch cache, indexes.

use bytes::Bytes;

use crate::record::batch::{BatchHeader, TimestampType};
use crate::record::compression::Codec;
use crate::types::{LeaderEpoch, Offset, TopicPartition};

/// Who appends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AppendOrigin {
    /// A produce request: nothing is trusted, offsets are assigned.
    Client,
    /// A coordinator of this broker: offsets are assigned, control batches are allowed.
    Coordinator,
    /// The leader of the metadata quorum: offsets and epoch are already set.
    RaftLeader,
    /// A follower's fetch: offsets and epochs are the leader's.
    Replication,
}

/// `compression.type` of a topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TargetCompression {
    /// What the producer sent stays.
    Producer,
    /// Everything is stored in this codec, new bodies at this level.
    Codec { codec: Codec, level: i32 },
}

/// What a partition accepts.
#[derive(Clone, Copy, Debug)]
pub struct ValidationConfig<'a> {
    /// For the messages of errors.
    pub partition: &'a TopicPartition,
    pub origin: AppendOrigin,
    /// The epoch under which the caller leads or follows. [`AppendOrigin::RaftLeader`]: batches must carry it;
    /// [`AppendOrigin::Replication`]: batches of a higher one, and all behind them, are left out. Not used otherwise.
    pub leader_epoch: LeaderEpoch,
    /// `max.message.bytes`, of a whole batch.
    pub max_message_bytes: i32,
    /// `message.timestamp.type`
    pub timestamp_type: TimestampType,
    /// `message.timestamp.before.max.ms`
    pub timestamp_before_max_ms: i64,
    /// `message.timestamp.after.max.ms`
    pub timestamp_after_max_ms: i64,
    /// `compression.type`
    pub compression: TargetCompression,
    /// Whether `cleanup.policy` has `compact`: every record then needs a key.
    pub compacted: bool,
}

/// A batch that the log may write.
#[derive(Clone, Debug)]
pub struct ValidatedBatch {
    /// With its final CRC, timestamps and codec.
    pub header: BatchHeader,
    /// What follows the header.
    pub body: Bytes,
}

impl ValidatedBatch {
    pub fn size_in_bytes(&self) -> usize {
        self.header.as_bytes().len() + self.body.len()
    }
}

/// Batches that the log may write, in order.
#[derive(Clone, Debug)]
pub struct ValidatedRecords {
    /// Empty if nothing in the given bytes was a whole batch. Exactly one for `Client` and `Coordinator`.
    pub batches: Vec<ValidatedBatch>,
    /// The same batches as one piece, where they were not to be changed (`RaftLeader`, `Replication`).
    pub as_given: Option<Bytes>,
    /// Sum over the batches.
    pub size_in_bytes: usize,
    /// Largest timestamp in the batches, or -1.
    pub max_timestamp: i64,
    /// The time that the broker gave to the records, if the topic is set to do so; goes into the produce response.
    pub log_append_time_ms: Option<i64>,
}

impl ValidatedRecords {
    /// Gives the batches their offsets from `first` on and the epoch of the leader; returns the offset behind the last.
    pub fn assign(&mut self, first: Offset, leader_epoch: LeaderEpoch) -> Offset {
        assert!(self.as_given.is_none(), "replicated batches keep their offsets");
        let mut next = first;
        for batch in &mut self.batches {
            batch.header.set_base_offset(next);
            batch.header.set_partition_leader_epoch(leader_epoch);
            next = batch.header.last_offset().plus(1);
        }
        next
    }
}

/// What is wrong with one record of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordError {
    /// Index of the record in its batch.
    pub batch_index: i32,
    pub message: String,
}

/// Why records were not accepted. Each variant is one Kafka error; the text is for the log, except as
/// [`ValidateError::wire_message`] says.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ValidateError {
    /// CORRUPT_MESSAGE: sizes, magic or CRC.
    #[error("{0}")]
    Corrupt(String),
    /// INVALID_RECORD; `record_errors` says which records, unless it is the batch as a whole.
    #[error("{message}")]
    InvalidRecord { message: String, record_errors: Vec<RecordError> },
    /// INVALID_TIMESTAMP
    #[error("{message}")]
    InvalidTimestamp { message: String, record_errors: Vec<RecordError> },
    /// MESSAGE_TOO_LARGE
    #[error("{0}")]
    TooLarge(String),
    /// UNSUPPORTED_FOR_MESSAGE_FORMAT
    #[error("{0}")]
    UnsupportedForMessageFormat(String),
    /// UNKNOWN_SERVER_ERROR, as Kafka answers what its own decompressors stumble over.
    #[error("{0}")]
    Unreadable(String),
    /// A leader's batches whose offsets do not grow.
    #[error("{0}")]
    OffsetsOutOfOrder(String),
}

impl ValidateError {
    /// The message that belongs into the produce response (v8+). Kafka sends one only with record errors.
    pub fn wire_message(&self) -> Option<&str> {
        match self {
            ValidateError::InvalidRecord { message, record_errors }
            | ValidateError::InvalidTimestamp { message, record_errors } => {
                (!record_errors.is_empty()).then_some(message.as_str())
            }
            ValidateError::Corrupt(_)
            | ValidateError::TooLarge(_)
            | ValidateError::UnsupportedForMessageFormat(_)
            | ValidateError::Unreadable(_)
            | ValidateError::OffsetsOutOfOrder(_) => None,
        }
    }
}

/// Checks `records` for an append under `config` at `now_ms`.
pub fn validate(records: Bytes, config: &ValidationConfig<'_>, now_ms: i64) -> Result<ValidatedRecords, ValidateError> {
    let records = analyze::whole_batches(records, config)?;
    match config.origin {
        AppendOrigin::Client | AppendOrigin::Coordinator => leader::validate_batch(records, config, now_ms),
        AppendOrigin::RaftLeader | AppendOrigin::Replication => Ok(analyze::as_given(records)),
    }
}

fn invalid(message: String) -> ValidateError {
    ValidateError::InvalidRecord { message, record_errors: Vec::new() }
}

mod analyze;
mod leader;

#[cfg(test)]
mod tests;
