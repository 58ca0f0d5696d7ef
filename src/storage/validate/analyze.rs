//! The checks on batches as wholes, the same for leaders and followers: framing, epoch, offsets, size, CRC, codec.

use bytes::Bytes;

use super::{AppendOrigin, ValidateError, ValidatedBatch, ValidatedRecords, ValidationConfig, invalid};
use crate::record::batch::{self, BatchError, NO_TIMESTAMP, RecordBatch};
use crate::types::Offset;

/// The whole batches at the start of `records`, all of them checked. What a fetch cut off is left out.
pub(super) fn whole_batches(records: Bytes, config: &ValidationConfig<'_>) -> Result<Bytes, ValidateError> {
    let mut batches = batch::batches(&records);
    let mut valid_bytes = 0;
    let mut last_offset = None;
    while let Some(batch) = batches.next() {
        let batch = batch.map_err(|error| framing(error, batches.remaining(), config))?;
        if config.origin == AppendOrigin::Replication && batch.partition_leader_epoch() > config.leader_epoch {
            // The leader answered from an epoch that this replica does not follow yet (KAFKA-18723).
            break;
        }
        check(&batch, last_offset, config)?;
        last_offset = Some(batch.last_offset());
        valid_bytes += batch.size_in_bytes();
    }
    Ok(records.slice(..valid_bytes))
}

/// The batches in `records`, which stay as they are.
pub(super) fn as_given(records: Bytes) -> ValidatedRecords {
    let mut max_timestamp = NO_TIMESTAMP;
    let batches = batch::batches(&records)
        .map_while(Result::ok)
        .map(|batch| {
            max_timestamp = max_timestamp.max(batch.max_timestamp());
            ValidatedBatch { header: batch.to_header(), body: records.slice_ref(batch.body()) }
        })
        .collect();
    ValidatedRecords {
        batches,
        size_in_bytes: records.len(),
        max_timestamp,
        log_append_time_ms: None,
        as_given: Some(records),
    }
}

fn check(
    batch: &RecordBatch<'_>,
    last_offset: Option<Offset>,
    config: &ValidationConfig<'_>,
) -> Result<(), ValidateError> {
    let partition = config.partition;
    if config.origin == AppendOrigin::RaftLeader && batch.partition_leader_epoch() != config.leader_epoch {
        return Err(invalid(format!(
            "Append from Raft leader did not set the batch epoch correctly, expected {} but the batch has {}",
            config.leader_epoch,
            batch.partition_leader_epoch()
        )));
    }
    if config.origin == AppendOrigin::Client && batch.base_offset().0 != 0 {
        return Err(base_offset(batch.base_offset().0, config));
    }
    let size = batch.size_in_bytes();
    if config.origin != AppendOrigin::Replication && size > config.max_message_bytes.max(0) as usize {
        return Err(ValidateError::TooLarge(format!(
            "The record batch size in the append to {partition} is {size} bytes which exceeds the maximum configured \
             value of {}).",
            config.max_message_bytes
        )));
    }
    if !batch.is_crc_valid() {
        return Err(ValidateError::Corrupt(format!(
            "Record is corrupt (stored crc = {}) in topic partition {partition}.",
            batch.crc()
        )));
    }
    if let Err(error) = batch.codec() {
        return Err(ValidateError::Unreadable(format!("{error} in topic partition {partition}")));
    }
    let keeps_offsets = matches!(config.origin, AppendOrigin::RaftLeader | AppendOrigin::Replication);
    if keeps_offsets && last_offset.is_some_and(|last| last >= batch.last_offset()) {
        return Err(ValidateError::OffsetsOutOfOrder(format!("Out of order offsets found in append to {partition}")));
    }
    Ok(())
}

/// `bytes` begin with what is no batch.
fn framing(error: BatchError, bytes: &[u8], config: &ValidationConfig<'_>) -> ValidateError {
    let text = format!("{error} in topic partition {}", config.partition);
    match (error, bytes.first_chunk()) {
        (BatchError::SmallerThanHeader(_), Some(offset))
            if config.origin == AppendOrigin::Client && *offset != [0; 8] =>
        {
            base_offset(i64::from_be_bytes(*offset), config)
        }
        (BatchError::OldFormat { .. }, _) if config.origin == AppendOrigin::Client => invalid(text),
        (BatchError::OldFormat { .. }, _) => ValidateError::UnsupportedForMessageFormat(text),
        (BatchError::LengthTooLarge(_), _) => ValidateError::Unreadable(text),
        (
            BatchError::SmallerThanHeader(_)
            | BatchError::LengthTooSmall(_)
            | BatchError::InvalidMagic(_)
            | BatchError::Incomplete { .. },
            _,
        ) => ValidateError::Corrupt(text),
    }
}

fn base_offset(offset: i64, config: &ValidationConfig<'_>) -> ValidateError {
    invalid(format!(
        "The baseOffset of the record batch in the append to {} should be 0, but it is {offset}",
        config.partition
    ))
}
