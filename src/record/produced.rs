//! What a produce request may carry for a partition, before anything is known about that partition.
//!
//! Kafka looks at the records of a request twice ahead of the append: first at the first batch of every partition, where
//! bytes that are no batch fail the whole request, then, partition by partition, at the rules of the request's version.

use crate::record::batch::{self, BatchError, HEADER_SIZE, RecordBatch};
use crate::record::compression::Codec;

/// Below this size Kafka fails to read the producer id out of a batch.
const SIZE_UP_TO_PRODUCER_ID: usize = 51;

/// Why a partition of a produce request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProducedError {
    /// CORRUPT_MESSAGE for every partition of the request, with this text as the message.
    #[error("{0}")]
    Request(BatchError),
    /// UNKNOWN_SERVER_ERROR for every partition of the request.
    #[error("{0}")]
    UnreadableRequest(BatchError),
    /// CORRUPT_MESSAGE, without a message in the response, as for the ones that follow.
    #[error("{0}")]
    Corrupt(BatchError),
    /// INVALID_RECORD
    #[error("Produce requests must have at least one record batch per partition")]
    NoBatch,
    /// INVALID_RECORD
    #[error("Produce requests are only allowed to contain record batches with magic version 2")]
    OldFormat,
    /// INVALID_RECORD
    #[error("Produce requests are only allowed to contain exactly one record batch per partition")]
    MoreThanOneBatch,
    /// INVALID_RECORD
    #[error("The baseOffset of the record batch should be 0")]
    BaseOffset,
    /// UNSUPPORTED_COMPRESSION_TYPE
    #[error("Produce requests before version 7 are not allowed to use ZStandard compression")]
    ZstdBeforeVersion7,
    /// UNKNOWN_SERVER_ERROR
    #[error("unknown compression type id or unreadable batch")]
    Unreadable,
}

/// The batch in `records`, of a request of this version of Produce. Bytes behind it that are no whole batch are left
/// alone. The records of a request are checked all before any is appended, as two of the errors concern the request.
pub fn produced_batch(records: &[u8], version: i16) -> Result<RecordBatch<'_>, ProducedError> {
    let mut batches = batch::batches(records);
    let batch = match batches.next() {
        None => return Err(ProducedError::NoBatch),
        Some(Ok(batch)) => batch,
        Some(Err(error)) => return Err(first_error(error, records)),
    };
    match batch.codec() {
        Ok(Codec::Zstd) if version < 7 => return Err(ProducedError::ZstdBeforeVersion7),
        Err(_) if version < 7 => return Err(ProducedError::Unreadable),
        Ok(_) | Err(_) => {}
    }
    match batches.next() {
        None => Ok(batch),
        Some(Ok(_)) => Err(ProducedError::MoreThanOneBatch),
        Some(Err(error)) => Err(behind_error(error)),
    }
}

fn first_error(error: BatchError, records: &[u8]) -> ProducedError {
    match error {
        BatchError::LengthTooSmall(_) | BatchError::InvalidMagic(_) => ProducedError::Request(error),
        BatchError::LengthTooLarge(_) => ProducedError::UnreadableRequest(error),
        BatchError::OldFormat { .. } => ProducedError::OldFormat,
        BatchError::SmallerThanHeader(size) => match batch::batches(&records[size..]).next() {
            Some(Ok(_)) => ProducedError::MoreThanOneBatch,
            Some(Err(error)) => behind_error(error),
            None if size < SIZE_UP_TO_PRODUCER_ID => ProducedError::Unreadable,
            None if records[..8] != [0; 8] => ProducedError::BaseOffset,
            None => ProducedError::Corrupt(error),
        },
        // The iteration over batches ends before it gives this.
        BatchError::Incomplete { .. } => ProducedError::NoBatch,
    }
}

/// What stands behind the first batch.
fn behind_error(error: BatchError) -> ProducedError {
    match error {
        BatchError::LengthTooSmall(_) | BatchError::InvalidMagic(_) => ProducedError::Corrupt(error),
        BatchError::LengthTooLarge(_) => ProducedError::UnreadableRequest(error),
        BatchError::OldFormat { .. } | BatchError::SmallerThanHeader(_) => ProducedError::MoreThanOneBatch,
        BatchError::Incomplete { .. } => ProducedError::NoBatch,
    }
}

const _: () = assert!(SIZE_UP_TO_PRODUCER_ID < HEADER_SIZE);

#[cfg(test)]
mod tests;
