//! Reads a coordinator's log into a shard.
//!
//! Everything up to the log's end is read, committed or not: answers wait until it is. Records are applied in their
//! order, transactions' with who wrote them, and their markers.

use std::time::Duration;

use bytes::BytesMut;
use thiserror::Error;
use tracing::{debug, info, warn};

use crate::clock::Clock;
use crate::coordinator::shard::{CoordinatorRecord, CoordinatorShard, RecordOrigin};
use crate::record::batch::{BatchError, RecordBatch, batches};
use crate::record::control::ControlRecord;
use crate::record::record::{Record, RecordStream, RecordStreamError};
use crate::replica::{FetchIsolation, Partition, PartitionFetch, PartitionReadError, Wait};
use crate::types::Offset;

/// How often a load that takes long says how far it is.
const PROGRESS_EVERY: Duration = Duration::from_secs(5);
/// More than a batch of the log can hold decompressed: appending checked it, and a file may be damaged since.
const MAX_DECOMPRESSED: u64 = 1 << 30;

/// What was read.
pub struct Loaded {
    pub records: u64,
    /// Those of kinds that are not known here, which were passed over.
    pub unknown: u64,
    pub bytes: u64,
    /// Behind the last record.
    pub end: Offset,
    pub took: Duration,
}

/// Why a log was not read to its end.
#[derive(Debug, Error)]
pub enum LoadError {
    #[error("the shard is not needed any more")]
    NotWanted,
    #[error(transparent)]
    Read(#[from] PartitionReadError),
    #[error("the disk failed: {0}")]
    Io(#[from] std::io::Error),
    #[error("a batch is damaged: {0}")]
    Batch(#[from] BatchError),
    #[error("the batch at offset {0} has a wrong checksum")]
    Checksum(Offset),
    #[error("the records of the batch at offset {at} are damaged: {error}")]
    Records { at: Offset, error: RecordStreamError },
    #[error("the record at offset {offset} cannot be read: {error}")]
    Record { offset: Offset, error: String },
}

/// Reads the log of `partition` into `shard`, as long as it is wanted. Blocks.
pub fn load<S: CoordinatorShard>(
    partition: &Partition,
    buffer_size: usize,
    clock: &dyn Clock,
    is_wanted: &dyn Fn() -> bool,
    shard: &mut S,
) -> Result<Loaded, LoadError> {
    let begun = clock.monotonic();
    let mut said = begun;
    let mut loaded =
        Loaded { records: 0, unknown: 0, bytes: 0, end: partition.log_start_offset(), took: Duration::ZERO };
    let mut buffer = BytesMut::new();
    loop {
        // It may grow meanwhile: clients named `__admin_client` may produce to internal topics.
        let log_end_offset = partition.log_end_offset();
        if loaded.end >= log_end_offset {
            break;
        }
        if !is_wanted() {
            return Err(LoadError::NotWanted);
        }
        let fetch = PartitionFetch {
            fetch_offset: loaded.end,
            max_bytes: i32::try_from(buffer_size).unwrap_or(i32::MAX),
            min_one_batch: true,
            isolation: FetchIsolation::LogEnd,
            follower: None,
            current_leader_epoch: None,
            last_fetched_epoch: None,
        };
        let read = partition.read(&fetch, Wait::ForDisk)?;
        buffer.clear();
        read.records.read_into(&mut buffer)?;
        let before = loaded.end;
        for batch in batches(&buffer) {
            let batch = batch?;
            replay(&batch, shard, &mut loaded)?;
            loaded.end = loaded.end.max(batch.last_offset().plus(1));
        }
        if loaded.end == before {
            // Compaction may have left nothing between here and the end.
            loaded.end = log_end_offset;
        }
        loaded.bytes += buffer.len() as u64;
        let now = clock.monotonic();
        if now.saturating_sub(said) >= PROGRESS_EVERY {
            said = now;
            info!(partition = %partition.topic_partition(), offset = %loaded.end, end = %log_end_offset,
                records = loaded.records, "loading coordinator");
        }
    }
    loaded.took = clock.monotonic() - begun;
    if loaded.unknown > 0 {
        warn!(partition = %partition.topic_partition(), records = loaded.unknown,
            "records of unknown kinds were passed over: a newer broker wrote them");
    }
    Ok(loaded)
}

fn replay<S: CoordinatorShard>(batch: &RecordBatch<'_>, shard: &mut S, loaded: &mut Loaded) -> Result<(), LoadError> {
    let at = batch.base_offset();
    if !batch.is_crc_valid() {
        return Err(LoadError::Checksum(at));
    }
    if batch.is_control() {
        for record in batch.uncompressed_records().into_iter().flatten() {
            let record = record.map_err(|error| LoadError::Records { at, error: error.into() })?;
            loaded.records += 1;
            let marker = ControlRecord::parse(record.key.unwrap_or_default(), record.value.unwrap_or_default());
            match marker {
                Ok(ControlRecord::EndTxn(marker)) => {
                    shard.replay_end_transaction(batch.producer_id(), marker.committed);
                }
                Ok(_) => {}
                Err(error) => return Err(LoadError::Record { offset: record.offset, error: error.to_string() }),
            }
        }
        return Ok(());
    }
    let mut replay_record = |record: Record<'_>| {
        loaded.records += 1;
        let Some(key) = record.key else {
            return Err(LoadError::Record { offset: record.offset, error: "it has no key".to_owned() });
        };
        match S::Record::from_bytes(key, record.value) {
            Ok(Some(decoded)) => {
                shard.replay(decoded, RecordOrigin { offset: record.offset, producer_id: batch.producer_id() });
                Ok(())
            }
            Ok(None) => {
                debug!(offset = %record.offset, "a coordinator's record of an unknown kind is passed over");
                loaded.unknown += 1;
                Ok(())
            }
            Err(error) => Err(LoadError::Record { offset: record.offset, error }),
        }
    };
    if let Some(records) = batch.uncompressed_records() {
        for record in records {
            replay_record(record.map_err(|error| LoadError::Records { at, error: error.into() })?)?;
        }
        return Ok(());
    }
    let codec = batch.codec().map_err(|error| LoadError::Record { offset: at, error: error.to_string() })?;
    let failed = |error| LoadError::Records { at, error };
    let mut stream = RecordStream::new(&batch.to_header(), codec, batch.body(), MAX_DECOMPRESSED).map_err(failed)?;
    let mut bytes = Vec::new();
    while let Some(record) = stream.next_record(&mut bytes).map_err(failed)? {
        replay_record(record)?;
    }
    Ok(())
}
