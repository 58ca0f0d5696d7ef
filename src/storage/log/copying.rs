//! Copying a log into another directory, batch by batch, while both may be used.
//!
//! The copy is written as a follower writes what its leader sends: batches stay as they are, at their offsets. Where the
//! log was cut since, by a leader's epoch or a crash, the copy is cut too; where retention was faster, it starts anew.

use thiserror::Error;

use crate::record::batch::TimestampType;
use crate::storage::log::{AppendError, ChangeError, Log, ReadError, Wait};
use crate::storage::validate::{AppendOrigin, TargetCompression, ValidateError, ValidationConfig, validate};
use crate::types::{LeaderEpoch, Offset};

/// What is read and written at once, unless a batch is larger.
const CHUNK_BYTES: usize = 1 << 20;

/// Why nothing was copied.
#[derive(Debug, Error)]
pub enum CopyError {
    #[error("the log cannot be read: {0}")]
    Read(#[from] ReadError),
    #[error("the log is damaged: {0}")]
    Invalid(#[from] ValidateError),
    #[error("the copy cannot be written: {0}")]
    Append(#[from] AppendError),
    #[error("the copy cannot be changed: {0}")]
    Change(#[from] ChangeError),
}

impl Log {
    /// Cuts this copy of `source` off where the two part. If nothing that it has is in `source` it starts anew.
    pub fn align_with(&self, source: &Log) -> Result<(), CopyError> {
        while let Some(epoch) = self.latest_epoch() {
            let log_end_offset = self.log_end_offset();
            let Some(end) = source.end_offset_for_epoch(epoch) else {
                self.truncate_fully_and_start_at(source.log_start_offset())?;
                break;
            };
            let common = if end.leader_epoch == epoch {
                end.end_offset
            } else {
                let own = self.end_offset_for_epoch(end.leader_epoch);
                own.map_or(source.log_start_offset(), |own| own.end_offset.min(end.end_offset))
            };
            if common >= log_end_offset {
                break;
            }
            self.truncate_to(common)?;
        }
        // Without an epoch there is only this to go by.
        self.truncate_to(source.log_end_offset())?;
        // Nothing that it has is in the source any more. What it knows of producers by that, the source may not know:
        // a transaction that was open there, and of which no marker is to come.
        let start = source.log_start_offset();
        if self.log_end_offset() <= start && self.segments()[0].base_offset < start {
            self.truncate_fully_and_start_at(start)?;
        }
        Ok(())
    }

    /// Appends the next batches of `source` to this copy of it. Returns how many bytes that were; 0: there are no more.
    pub fn copy_from(&self, source: &Log) -> Result<usize, CopyError> {
        let from = self.log_end_offset();
        let segment_bytes = self.config().segment_bytes.max(0) as usize;
        let read = source.read(from, CHUNK_BYTES.min(segment_bytes), source.log_end_offset(), true, Wait::ForDisk)?;
        if read.slice.is_empty() {
            return Ok(0);
        }
        let mut bytes = vec![0; read.slice.len()];
        read.slice.read(&mut bytes).map_err(ReadError::Io)?;
        let settings = ValidationConfig {
            partition: source.topic_partition(),
            origin: AppendOrigin::Replication,
            leader_epoch: LeaderEpoch(i32::MAX),
            max_message_bytes: i32::MAX,
            timestamp_type: TimestampType::CreateTime,
            timestamp_before_max_ms: i64::MAX,
            timestamp_after_max_ms: i64::MAX,
            compression: TargetCompression::Producer,
            compacted: false,
        };
        let records = validate(bytes.into(), &settings, self.context.clock.now_ms())?;
        let Some(first) = records.batches.first().map(|batch| batch.header.base_offset()) else {
            let (segment_base_offset, position) =
                read.start.map_or((from, 0), |at| (at.segment_base_offset, at.relative_position_in_segment));
            let reason = "no whole batch was read".to_owned();
            return Err(ReadError::Corrupt { segment_base_offset, position, reason }.into());
        };
        // The log may start in the midst of a batch, which is copied as a whole.
        let is_empty = self.segments().iter().all(|segment| segment.size == 0);
        if is_empty && first < from {
            self.truncate_fully_and_start_at(first)?;
        }
        let copied = records.size_in_bytes;
        self.append_as_follower(records)?;
        Ok(copied)
    }

    /// Lets this copy start where `source` does. Segments before that go with the next retention.
    pub fn follow_log_start(&self, source: &Log) -> Result<bool, CopyError> {
        let to: Offset = source.log_start_offset().min(self.log_end_offset());
        Ok(self.advance_log_start_offset(to)?)
    }
}
