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

    /// The largest timestamp and the last offset of its batch: as the index says, if that can be so, or else as the batches do.
    pub fn max_timestamp(&self) -> Result<Option<TimestampEntry>, IndexError> {
        if let MaxTimestamp::Known(known) = *self.max_timestamp.lock() {
            return Ok(known);
        }
        let max = self.max_timestamp_on_disk().map_err(|error| match error {
            ReadError::Io(error) => IndexError::Io(error),
            error => IndexError::Corrupt(error.to_string()),
        })?;
        let mut known = self.max_timestamp.lock();
        // Unless something was appended meanwhile.
        if let MaxTimestamp::NotRead = *known {
            *known = MaxTimestamp::Known(max);
        }
        Ok(max)
    }

    /// Of a segment whose time index is complete, if it is right.
    fn max_timestamp_on_disk(&self) -> Result<Option<TimestampEntry>, ReadError> {
        if self.size() == 0 {
            return Ok(None);
        }
        match self.last_by_time()? {
            Some((entry, batch)) if self.is_largest(entry, batch)? => return Ok(Some(entry)),
            Some(_) => self.distrust("the last entry of the time index is not the largest timestamp"),
            // Either no record has a timestamp, or the index was lost or lies.
            None => {}
        }
        self.find_max_timestamp()
    }

    /// Whether the time index's last entry can be that of the largest timestamp. Kafka believes it as it is: by one that is too
    /// small it deletes records before their time.
    pub fn has_right_max_timestamp(&self) -> Result<bool, ReadError> {
        match self.named_last_by_time()? {
            Ok(None) => Ok(self.find_max_timestamp()?.is_none()),
            Ok(Some((entry, batch))) => self.is_largest(entry, batch),
            // If what it names is damaged it is not wrong.
            Err(_) => Ok(self.is_damaged()),
        }
    }

    /// The time index's last entry, with the batch that it names; none if it lies.
    fn last_by_time(&self) -> Result<Option<(TimestampEntry, BatchPosition)>, ReadError> {
        if self.distrusts_index() {
            return Ok(None);
        }
        self.named_last_by_time().map(|last| {
            last.unwrap_or_else(|reason| {
                // As above. But nothing that can be read has its timestamp.
                if !self.is_damaged() {
                    self.distrust(&reason);
                }
                None
            })
        })
    }

    /// As [`Self::last_by_time`]; the inner error says why it lies.
    fn named_last_by_time(&self) -> Result<Result<Option<(TimestampEntry, BatchPosition)>, String>, ReadError> {
        let entry = match self.time_index.last(Wait::ForDisk) {
            Ok(Some(entry)) => entry,
            Ok(None) => return Ok(Ok(None)),
            Err(IndexError::Corrupt(reason)) => return Ok(Err(reason)),
            Err(error) => return Err(self.index_damaged(error)),
        };
        let end = self.size();
        if let Some(batch) = self.find(entry.offset, end, Wait::ForDisk)? {
            let file = self.log.get()?;
            let named = self.readable(&*file, batch.position, end, Wait::ForDisk).next()?;
            if named.is_some_and(|(_, frame)| names(&frame, entry.offset) && frame.max_timestamp() == entry.timestamp) {
                return Ok(Ok(Some((entry, batch))));
            }
        }
        Ok(Err("the last entry of the time index names another timestamp".to_owned()))
    }

    /// Whether the last batches are no later than the entry, which names `batch`: a time index that was cut short says too little.
    /// Timestamps ascend, mostly, so that those are enough.
    fn is_largest(&self, entry: TimestampEntry, batch: BatchPosition) -> Result<bool, ReadError> {
        let (file, end) = (self.log.get()?, self.size());
        let from = |position| self.readable(&*file, position, end, Wait::ForDisk);
        let last = match self.offset_index.last(Wait::ForDisk) {
            Err(IndexError::Corrupt(_)) => None,
            last => last.map_err(|error| self.index_damaged(error))?,
        };
        let mut batches = from(batch.position);
        if let Some(last) = last.filter(|last| (batch.position + 1..end).contains(&last.position.into())) {
            batches = from(last.position.into());
            match batches.first() {
                Ok(Some((_, frame))) if names(&frame, last.offset) => {
                    if frame.max_timestamp() > entry.timestamp {
                        return Ok(false);
                    }
                }
                // Who reads there finds out what is wrong.
                Ok(_) | Err(ScanError::Damaged { .. }) => return Ok(true),
                Err(error) => return Err(self.damaged(error)),
            }
        }
        while let Some((_, frame)) = batches.next()? {
            if frame.max_timestamp() > entry.timestamp {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The largest timestamp by the time index, and by the batches behind its last entry.
    pub fn find_max_timestamp(&self) -> Result<Option<TimestampEntry>, ReadError> {
        let (mut max, from) = match self.last_by_time()? {
            Some((entry, batch)) => (Some(entry), batch.position),
            None => (None, 0),
        };
        let file = self.log.get()?;
        let mut batches = self.readable(&*file, from, self.size(), Wait::ForDisk);
        while let Some((_, frame)) = batches.next()? {
            if frame.max_timestamp() > max.map_or(NO_TIMESTAMP, |max| max.timestamp) {
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
