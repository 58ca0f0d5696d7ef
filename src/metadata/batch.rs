//! Batches of metadata records, as they stand in the log and in snapshots.
//!
//! Batches of the log carry the leader's epoch, the leader's time of append as CreateTime, and are not compressed. A
//! batch is either of control records, which concern the quorum, or of metadata records, which make up the image.

use bytes::Bytes;

use super::records::{BeginTransactionRecord, DecodeError, EndTransactionRecord, VersionedRecord};
use crate::record::batch::{HEADER_SIZE, RecordBatch};
use crate::record::builder::RecordBatchBuilder;
use crate::record::control::{ControlRecord, ControlRecordError};
use crate::record::record::{Records, RecordsError};
use crate::types::{LeaderEpoch, Offset};

/// Larger batches are not written: what a fetch of the quorum takes.
pub const MAX_BATCH_SIZE: usize = 8 << 20;
/// What stands around the value of a record, at most.
const RECORD_OVERHEAD: usize = 32;

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

/// Batches of the log, and the offset behind them.
#[derive(Debug)]
pub struct EncodedBatches {
    pub bytes: Vec<Bytes>,
    pub next_offset: Offset,
}

/// The bytes of records that count together or not at all: a batch, or if that would be too large, several in a
/// transaction (KIP-868).
pub fn encode_atomically(
    base_offset: Offset,
    epoch: LeaderEpoch,
    append_time_ms: i64,
    records: &[VersionedRecord],
) -> EncodedBatches {
    let one = encode_records(base_offset, epoch, append_time_ms, records);
    if one.len() <= MAX_BATCH_SIZE {
        return EncodedBatches { bytes: vec![one], next_offset: base_offset.plus(records.len() as i64) };
    }
    let begin = VersionedRecord::lowest(BeginTransactionRecord { name: Some("Large batch".to_owned()) });
    let end = VersionedRecord::lowest(EndTransactionRecord);
    let mut encoded = EncodedBatches { bytes: Vec::new(), next_offset: base_offset };
    let mut close = |records: &mut Vec<VersionedRecord>| {
        encoded.bytes.push(encode_records(encoded.next_offset, epoch, append_time_ms, records));
        encoded.next_offset = encoded.next_offset.plus(records.len() as i64);
        records.clear();
    };
    let mut pending = Vec::new();
    let mut size = 0;
    for record in std::iter::once(&begin).chain(records).chain([&end]) {
        let record_size = record.encode().len() + RECORD_OVERHEAD;
        if size + record_size > MAX_BATCH_SIZE - HEADER_SIZE {
            close(&mut pending);
            size = 0;
        }
        size += record_size;
        pending.push(record.clone());
    }
    close(&mut pending);
    encoded
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metadata::image::MetadataImage;
    use crate::metadata::records::{ConfigRecord, MetadataRecord};
    use crate::metadata::replay::Replay;

    fn config(at: usize, size: usize) -> VersionedRecord {
        VersionedRecord::lowest(ConfigRecord {
            resource_type: 2,
            resource_name: format!("topic-{at}"),
            name: "key".to_owned(),
            value: Some("x".repeat(size)),
        })
    }

    fn decode(bytes: &Bytes) -> MetadataBatch {
        MetadataBatch::decode(&RecordBatch::parse(bytes).unwrap()).unwrap()
    }

    #[test]
    fn what_fits_is_one_batch() {
        let records: Vec<_> = (0..3).map(|at| config(at, 10)).collect();
        let encoded = encode_atomically(Offset(5), LeaderEpoch(2), 77, &records);
        assert_eq!((encoded.bytes.len(), encoded.next_offset), (1, Offset(8)));
        let batch = decode(&encoded.bytes[0]);
        assert_eq!((batch.base_offset, batch.last_offset, batch.epoch), (Offset(5), Offset(7), LeaderEpoch(2)));
        assert_eq!((batch.append_time_ms, batch.contents), (77, BatchContents::Records(records)));
    }

    #[test]
    fn what_does_not_fit_is_a_transaction() {
        let records: Vec<_> = (0..1000).map(|at| config(at, 30_000)).collect();
        let encoded = encode_atomically(Offset(5), LeaderEpoch(2), 77, &records);
        assert_eq!((encoded.bytes.len(), encoded.next_offset), (4, Offset(1007)));
        let mut replay = Replay::new(MetadataImage::empty());
        for bytes in &encoded.bytes {
            assert!(bytes.len() <= MAX_BATCH_SIZE);
            let batch = decode(bytes);
            assert_eq!(batch.base_offset.0, (replay.image().provenance.offset.0 + 1).max(5));
            replay.apply(&batch).unwrap();
        }
        assert_eq!(replay.open_transaction(), None);
        assert_eq!(replay.image().configs.iter().count(), 1000);
        let last = decode(&encoded.bytes[3]);
        let BatchContents::Records(records) = last.contents else { panic!("{:?}", last.contents) };
        assert!(matches!(records.last().unwrap().record, MetadataRecord::EndTransaction(_)));
    }

    #[test]
    fn damage_is_named() {
        let good = encode_records(Offset(0), LeaderEpoch(1), 1, &[config(1, 10)]);
        let mut bad = good.to_vec();
        *bad.last_mut().unwrap() ^= 1;
        let error = MetadataBatch::decode(&RecordBatch::parse(&bad).unwrap()).unwrap_err();
        assert!(matches!(error, BatchDecodeError::Checksum(Offset(0))), "{error}");
        let mut builder = RecordBatchBuilder::new(Offset(3));
        builder.append(1, None, Some(&[1, 99, 0]), &[]);
        let bytes = builder.build();
        let error = MetadataBatch::decode(&RecordBatch::parse(&bytes).unwrap()).unwrap_err();
        assert_eq!(error.to_string(), "the record at offset 3: record type 99 is not known");
        let mut builder = RecordBatchBuilder::new(Offset(3));
        builder.append(1, None, None, &[]);
        let bytes = builder.build();
        let error = MetadataBatch::decode(&RecordBatch::parse(&bytes).unwrap()).unwrap_err();
        assert!(matches!(error, BatchDecodeError::NoValue(Offset(3))), "{error}");
    }
}
