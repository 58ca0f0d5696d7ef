//! Finding things in a segment: batches by offset, the largest timestamp, aborted transactions.

use crate::record::batch::NO_TIMESTAMP;
use crate::storage::index_file::IndexError;
use crate::storage::log::{ReadError, Wait};
use crate::storage::scan::{Frame, HeaderScan, ScanError};
use crate::storage::segment::damage::names;
use crate::storage::segment::{BatchPosition, LogSegment, MaxTimestamp};
use crate::storage::time_index::TimestampEntry;
use crate::storage::txn_index::AbortedTxn;
use crate::types::Offset;

impl LogSegment {
    /// The first batch whose last offset is `offset` or larger, among the first `end` bytes.
    pub fn find(&self, offset: Offset, end: u64, wait: Wait) -> Result<Option<BatchPosition>, ReadError> {
        let file = self.log.get()?;
        let from = |position| self.readable(&*file, position, end, wait);
        if self.distrusts_index() {
            return from(0).find(offset);
        }
        let entry = match self.offset_index.lookup(offset, wait) {
            Ok(entry) => entry,
            Err(IndexError::Corrupt(reason)) => {
                self.distrust(&reason);
                None
            }
            Err(error) => return Err(self.index_damaged(error)),
        };
        let Some(entry) = entry.filter(|entry| u64::from(entry.position) < end) else {
            return from(0).find(offset);
        };
        // The entry names the last offset of the batch at its position. A batch that begins later, or none at all,
        // gives an index away that belongs to something else.
        let mut batches = from(entry.position.into());
        match batches.first() {
            Ok(Some((position, frame))) if names(&frame, entry.offset) => match frame.last_offset() >= offset {
                true => Ok(Some(batch_position(position, &frame))),
                false => batches.find(offset),
            },
            Ok(_) | Err(ScanError::Damaged { .. }) => {
                let found = from(0).find(offset)?;
                // Else the entry is right, and what it names is not.
                if !self.is_damaged_at(entry.position.into()) {
                    self.distrust("an entry of the offset index points to nothing");
                }
                Ok(found)
            }
            Err(error) => Err(self.damaged(error)),
        }
    }

    /// The largest timestamp and the last offset of its batch, as far as the index, or what was appended, tells.
    pub fn max_timestamp(&self) -> Result<Option<TimestampEntry>, IndexError> {
        if let MaxTimestamp::Known(known) = *self.max_timestamp.lock() {
            return Ok(known);
        }
        let as_index_error = |error| match error {
            ReadError::Io(error) => IndexError::Io(error),
            error => IndexError::Corrupt(error.to_string()),
        };
        let max = match self.last_by_time(Wait::ForDisk).map_err(as_index_error)? {
            // Either no record has a timestamp, or the index was lost or lies.
            None if self.size() > 0 => {
                let found = self.find_max_timestamp().map_err(as_index_error)?;
                let is_missing = found.is_some_and(|max| max.timestamp > 0) && self.trusted_below().is_some();
                if is_missing && !self.may_outgrow_indexes() {
                    self.distrust("the time index has no entries");
                }
                found
            }
            last => last,
        };
        let mut known = self.max_timestamp.lock();
        // Unless something was appended meanwhile.
        if let MaxTimestamp::NotRead = *known {
            *known = MaxTimestamp::Known(max);
        }
        Ok(max)
    }

    /// The time index's last entry; none if it lies, or does not tell of all records.
    pub(super) fn last_by_time(&self, wait: Wait) -> Result<Option<TimestampEntry>, ReadError> {
        if self.distrusts_index() || self.may_outgrow_indexes() {
            return Ok(None);
        }
        let reason = match self.time_index.ascending_last(wait) {
            Ok(Some(last)) => {
                let is_within = self.trusted_below().is_none_or(|next| last.offset < next);
                // Or it is the name of the next segment that is wrong.
                if is_within || self.holds(last.offset, wait)? {
                    return Ok(Some(last));
                }
                "the last entry of the time index is of no record in the segment".to_owned()
            }
            Ok(None) => return Ok(None),
            Err(IndexError::Corrupt(reason)) => reason,
            Err(error) => return Err(self.index_damaged(error)),
        };
        self.distrust(&reason);
        Ok(None)
    }

    /// Whether there is a batch with this offset.
    fn holds(&self, offset: Offset, wait: Wait) -> Result<bool, ReadError> {
        let batch = self.find(offset, self.size(), wait)?;
        Ok(batch.is_some_and(|batch| batch.base_offset <= offset))
    }

    /// The largest timestamp by the time index, and by the batches behind its last entry.
    pub fn find_max_timestamp(&self) -> Result<Option<TimestampEntry>, ReadError> {
        let end = self.size();
        let mut max = self.last_by_time(Wait::ForDisk)?;
        let from = match max {
            Some(entry) => self.find(entry.offset, end, Wait::ForDisk)?.map_or(end, |batch| batch.position),
            None => 0,
        };
        let file = self.log.get()?;
        let mut batches = self.readable(&*file, from, end, Wait::ForDisk);
        while let Some((_, frame)) = batches.next()? {
            if frame.last_offset() >= self.base_offset
                && frame.max_timestamp() > max.map_or(NO_TIMESTAMP, |max| max.timestamp)
            {
                max = Some(TimestampEntry { timestamp: frame.max_timestamp(), offset: frame.last_offset() });
            }
        }
        Ok(max)
    }

    /// The header of the first batch.
    pub fn first_frame(&self, wait: Wait) -> Result<Option<Frame>, ReadError> {
        let size = self.size();
        if size == 0 {
            return Ok(None);
        }
        let file = self.log.get()?;
        let mut scan = HeaderScan::new(&*file, self.base_offset, 0, size, self.base_offset, wait);
        Ok(scan.next().map_err(|error| self.damaged(error))?.map(|(_, frame)| frame))
    }

    /// Adds the aborted transactions of this segment that overlap `start..end` to `found`; returns whether later
    /// segments can have no more.
    pub fn collect_aborted(
        &self,
        start: Offset,
        end: Offset,
        wait: Wait,
        found: &mut Vec<AbortedTxn>,
    ) -> Result<bool, ReadError> {
        // A clone, so that the file is not read under the lock.
        let index = self.with_txn_index(false, |index| Ok(index.map(|index| index.clone())));
        match index.map_err(|error| self.txn_damaged(error))? {
            Some(index) => index.collect(start, end, wait, found).map_err(|error| self.txn_damaged(error)),
            None => Ok(false),
        }
    }

    /// Only where no batches can be read instead.
    pub fn index_damaged(&self, error: IndexError) -> ReadError {
        match error {
            IndexError::WouldBlock => ReadError::WouldBlock,
            IndexError::Corrupt(reason) => ReadError::Corrupt {
                segment_base_offset: self.base_offset,
                position: 0,
                reason: format!("index: {reason}"),
            },
            IndexError::Io(error) => ReadError::Io(error),
        }
    }

    pub fn damaged(&self, error: ScanError) -> ReadError {
        match error {
            ScanError::WouldBlock => ReadError::WouldBlock,
            ScanError::Damaged { position, reason } => {
                ReadError::Corrupt { segment_base_offset: self.base_offset, position, reason }
            }
            ScanError::Io(error) => ReadError::Io(error),
        }
    }
}

pub(super) fn batch_position(position: u64, frame: &Frame) -> BatchPosition {
    BatchPosition {
        base_offset: frame.base_offset(),
        last_offset: frame.last_offset(),
        position,
        size: frame.size() as u64,
    }
}
