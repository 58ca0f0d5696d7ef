//! Batches of metadata records, as they stand in the log and in snapshots.
//!
//! Batches of the log carry the leader's epoch, the leader's time of append as CreateTime, and are not compressed. A
//! batch is either of control records, which concern the quorum, or of metadata records, which make up the image.

use bytes::Bytes;

use super::records::{DecodeError, VersionedRecord};
use crate::record::batch::RecordBatch;
use crate::record::builder::RecordBatchBuilder;
use crate::record::control::{ControlRecord, ControlRecordError};
use crate::record::record::{Records, RecordsError};
use crate::types::{LeaderEpoch, Offset};

/// A batch, decoded.
#[derive(Clone, Debug, PartialEq)]
pub struct MetadataBatch {
    pub base_offset: Offset,
    pub last_offset: Offset,
    pub epoch: LeaderEpoch,
    /// When it was appended.
    pub append_time_ms: i64,
    pub contents: BatchContents,
}

/// What a batch holds, record by record in the order of offsets.
#[derive(Clone, Debug, PartialEq)]
pub enum BatchContents {
    Control(Vec<ControlRecord>),
    Records(Vec<VersionedRecord>),
}

/// Why a batch cannot be decoded.
#[derive(Debug, thiserror::Error)]
pub enum BatchDecodeError {
    #[error("the checksum of the batch at offset {0} does not fit")]
    Checksum(Offset),
    #[error("the batch at offset {0} is compressed, which metadata never is")]
    Compressed(Offset),
    #[error("the batch at offset {offset}: {source}")]
    Records { offset: Offset, source: RecordsError },
    #[error("the record at offset {offset}: {source}")]
    Record { offset: Offset, source: DecodeError },
    #[error("the control record at offset {offset}: {source}")]
    Control { offset: Offset, source: ControlRecordError },
    #[error("the record at offset {0} has no value")]
    NoValue(Offset),
}

impl MetadataBatch {
    pub fn decode(batch: &RecordBatch<'_>) -> Result<MetadataBatch, BatchDecodeError> {
        let base_offset = batch.base_offset();
        if !batch.is_crc_valid() {
            return Err(BatchDecodeError::Checksum(base_offset));
        }
        let records = batch.uncompressed_records().ok_or(BatchDecodeError::Compressed(base_offset))?;
        let contents = match batch.is_control() {
            true => BatchContents::Control(decode_each(base_offset, records, |record_offset, key, value| {
                ControlRecord::parse(key.unwrap_or_default(), value)
                    .map_err(|source| BatchDecodeError::Control { offset: record_offset, source })
            })?),
            false => BatchContents::Records(decode_each(base_offset, records, |record_offset, _, value| {
                VersionedRecord::decode(value)
                    .map_err(|source| BatchDecodeError::Record { offset: record_offset, source })
            })?),
        };
        Ok(MetadataBatch {
            base_offset,
            last_offset: batch.last_offset(),
            epoch: batch.partition_leader_epoch(),
            append_time_ms: batch.max_timestamp(),
            contents,
        })
    }
}

fn decode_each<T>(
    base_offset: Offset,
    records: Records<'_>,
    decode: impl Fn(Offset, Option<&[u8]>, &[u8]) -> Result<T, BatchDecodeError>,
) -> Result<Vec<T>, BatchDecodeError> {
    records
        .map(|record| {
            let record = record.map_err(|source| BatchDecodeError::Records { offset: base_offset, source })?;
            let value = record.value.ok_or(BatchDecodeError::NoValue(record.offset))?;
            decode(record.offset, record.key, value)
        })
        .collect()
}

/// The bytes of a batch of metadata records.
pub fn encode_records(
    base_offset: Offset,
    epoch: LeaderEpoch,
    append_time_ms: i64,
    records: &[VersionedRecord],
) -> Bytes {
    let mut builder = RecordBatchBuilder::new(base_offset).leader_epoch(epoch);
    for record in records {
        builder.append(append_time_ms, None, Some(&record.encode()), &[]);
    }
    builder.build()
}

/// The bytes of a batch of control records.
pub fn encode_control(
    base_offset: Offset,
    epoch: LeaderEpoch,
    append_time_ms: i64,
    records: &[ControlRecord],
) -> Bytes {
    let mut builder = RecordBatchBuilder::new(base_offset).leader_epoch(epoch).control(true);
    for record in records {
        builder.append_control(append_time_ms, record);
    }
    builder.build()
}
