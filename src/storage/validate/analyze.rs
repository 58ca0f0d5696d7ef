//! The checks on batches as wholes, the same for leaders and followers: framing, epoch, offsets, size, CRC.

use bytes::Bytes;

use super::{AppendOrigin, RecordBatch, ValidateError, ValidatedBatch, ValidatedRecords, ValidationConfig};
use crate::record::batch::{self, BatchError, HEADER_SIZE, NO_TIMESTAMP};

/// The whole batches at the start of what was given.
pub(super) struct WholeBatches {
    bytes: Bytes,
    origin: AppendOrigin,
}

impl WholeBatches {
    pub(super) fn accept(self, _now_ms: i64) -> ValidatedRecords {
        let mut max_timestamp = NO_TIMESTAMP;
        let batches = batch::batches(&self.bytes)
            .flatten()
            .map(|batch| {
                max_timestamp = max_timestamp.max(batch.max_timestamp());
                validated(&self.bytes, &batch)
            })
            .collect();
        let keeps_offsets = matches!(self.origin, AppendOrigin::RaftLeader | AppendOrigin::Replication);
        ValidatedRecords {
            batches,
            size_in_bytes: self.bytes.len(),
            max_timestamp,
            log_append_time_ms: None,
            as_given: keeps_offsets.then_some(self.bytes),
        }
    }
}

/// `batch`, which lies in `bytes`, without a copy of its body.
pub(super) fn validated(bytes: &Bytes, batch: &RecordBatch<'_>) -> ValidatedBatch {
    ValidatedBatch { header: batch.to_header(), body: bytes.slice_ref(&batch.bytes()[HEADER_SIZE..]) }
}

pub(super) fn whole_batches(records: Bytes, config: &ValidationConfig<'_>) -> Result<WholeBatches, ValidateError> {
    let partition = config.partition;
    let mut valid_bytes = 0;
    let mut last_offset = None;
    for batch in batch::batches(&records) {
        let batch = batch.map_err(|error| framing(error, config))?;
        match config.origin {
            AppendOrigin::RaftLeader if batch.partition_leader_epoch() != config.leader_epoch => {
                return Err(invalid(format!(
                    "Append from Raft leader did not set the batch epoch correctly, expected {} but the batch has {}",
                    config.leader_epoch,
                    batch.partition_leader_epoch()
                )));
            }
            AppendOrigin::Client if batch.base_offset().0 != 0 => {
                return Err(invalid(format!(
                    "The baseOffset of the record batch in the append to {partition} should be 0, but it is {}",
                    batch.base_offset()
                )));
            }
            // A fetch may bring batches of a leader that this replica does not follow yet (KAFKA-18723).
            AppendOrigin::Replication if batch.partition_leader_epoch() > config.leader_epoch => break,
            AppendOrigin::RaftLeader | AppendOrigin::Client | AppendOrigin::Replication | AppendOrigin::Coordinator => {}
        }
        let size = batch.size_in_bytes();
        if config.origin != AppendOrigin::Replication && size > config.max_message_bytes.max(0) as usize {
            return Err(ValidateError::TooLarge(format!(
                "The record batch size in the append to {partition} is {size} bytes which exceeds the maximum configured value of {}).",
                config.max_message_bytes
            )));
        }
        if !batch.is_crc_valid() {
            return Err(ValidateError::Corrupt(format!(
                "Record is corrupt (stored crc = {}) in topic partition {partition}.",
                batch.crc()
            )));
        }
        let keeps_offsets = matches!(config.origin, AppendOrigin::RaftLeader | AppendOrigin::Replication);
        if keeps_offsets && last_offset.is_some_and(|last| last >= batch.last_offset()) {
            return Err(ValidateError::OffsetsOutOfOrder(format!("Out of order offsets found in append to {partition}")));
        }
        last_offset = Some(batch.last_offset());
        valid_bytes += size;
    }
    Ok(WholeBatches { bytes: records.slice(..valid_bytes), origin: config.origin })
}

pub(super) fn invalid(message: String) -> ValidateError {
    ValidateError::InvalidRecord { message, record_errors: Vec::new() }
}

fn framing(error: BatchError, config: &ValidationConfig<'_>) -> ValidateError {
    ValidateError::Corrupt(format!("{error} in topic partition {}", config.partition))
}
