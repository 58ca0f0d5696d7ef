//! What a partition remembers of one producer id.
//!
//! Owns [`ProducerStateEntry`] and its last batches. Knows no log, file or clock; [`super::append_info`] decides
//! what may be added. Invariant: at most [`RETAINED_BATCHES`] batches, oldest first, all of `producer_epoch`.

use crate::record::batch::{NO_SEQUENCE, NO_TIMESTAMP, decrement_sequence};
use crate::types::{Offset, ProducerEpoch, ProducerId};

/// How many of a producer's last batches are recognised when they arrive again. The protocol's promise: clients
/// keep at most five requests in flight.
pub const RETAINED_BATCHES: usize = 5;

/// One batch that was appended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BatchMetadata {
    pub last_sequence: i32,
    pub last_offset: Offset,
    /// Last offset minus first offset.
    pub offset_delta: i32,
    pub timestamp: i64,
}

impl BatchMetadata {
    pub fn first_sequence(&self) -> i32 {
        decrement_sequence(self.last_sequence, self.offset_delta)
    }

    pub fn first_offset(&self) -> Offset {
        Offset(self.last_offset.0.saturating_sub(i64::from(self.offset_delta)))
    }
}

/// The state of a producer id in a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProducerStateEntry {
    pub producer_id: ProducerId,
    /// [`ProducerEpoch::NONE`] while nothing was appended.
    pub producer_epoch: ProducerEpoch,
    /// Of the last transaction marker; -1 before the first.
    pub coordinator_epoch: i32,
    pub last_timestamp: i64,
    /// First offset of the transaction that is open, if one is.
    pub current_txn_first_offset: Option<Offset>,
    batches: [BatchMetadata; RETAINED_BATCHES],
    batch_count: u8,
}

impl ProducerStateEntry {
    /// A producer that was never seen.
    pub fn empty(producer_id: ProducerId) -> ProducerStateEntry {
        ProducerStateEntry {
            producer_id,
            producer_epoch: ProducerEpoch::NONE,
            coordinator_epoch: -1,
            last_timestamp: NO_TIMESTAMP,
            current_txn_first_offset: None,
            batches: Default::default(),
            batch_count: 0,
        }
    }

    /// The remembered batches, oldest first.
    pub fn batches(&self) -> &[BatchMetadata] {
        &self.batches[..usize::from(self.batch_count)]
    }

    pub fn is_empty(&self) -> bool {
        self.batch_count == 0
    }

    pub fn first_sequence(&self) -> i32 {
        self.batches().first().map_or(NO_SEQUENCE, BatchMetadata::first_sequence)
    }

    pub fn last_sequence(&self) -> i32 {
        self.batches().last().map_or(NO_SEQUENCE, |batch| batch.last_sequence)
    }

    /// Offset of the last record that was no control record; -1 if none is remembered.
    pub fn last_data_offset(&self) -> Offset {
        self.batches().last().map_or(Offset(-1), |batch| batch.last_offset)
    }

    /// Offset delta of the last remembered batch; 0 if there is none.
    pub fn last_offset_delta(&self) -> i32 {
        self.batches().last().map_or(0, |batch| batch.offset_delta)
    }

    /// The remembered batch with exactly these sequence numbers, written in this epoch.
    pub fn find_duplicate(
        &self,
        epoch: ProducerEpoch,
        first_sequence: i32,
        last_sequence: i32,
    ) -> Option<&BatchMetadata> {
        if epoch != self.producer_epoch {
            return None;
        }
        self.batches()
            .iter()
            .find(|batch| batch.first_sequence() == first_sequence && batch.last_sequence == last_sequence)
    }

    /// Adds a batch written in `epoch`; batches of another epoch are forgotten.
    pub fn add_batch(&mut self, epoch: ProducerEpoch, batch: BatchMetadata) {
        self.set_epoch(epoch);
        self.remember(batch);
        self.last_timestamp = batch.timestamp;
    }

    /// Takes over a marker: the transaction is over.
    pub fn end_transaction(&mut self, epoch: ProducerEpoch, coordinator_epoch: i32, timestamp: i64) {
        self.set_epoch(epoch);
        self.coordinator_epoch = coordinator_epoch;
        self.current_txn_first_offset = None;
        self.last_timestamp = timestamp;
    }

    /// Takes over what `next` learnt since it was made as this entry's copy without batches.
    pub fn update(&mut self, next: &ProducerStateEntry) {
        self.set_epoch(next.producer_epoch);
        for batch in next.batches() {
            self.remember(*batch);
        }
        self.coordinator_epoch = next.coordinator_epoch;
        self.current_txn_first_offset = next.current_txn_first_offset;
        self.last_timestamp = next.last_timestamp;
    }

    /// This entry without its batches, to gather those of one append.
    pub fn without_batches(&self) -> ProducerStateEntry {
        ProducerStateEntry { batches: Default::default(), batch_count: 0, ..*self }
    }

    fn set_epoch(&mut self, epoch: ProducerEpoch) {
        if self.producer_epoch != epoch {
            self.batch_count = 0;
            self.producer_epoch = epoch;
        }
    }

    pub(super) fn remember(&mut self, batch: BatchMetadata) {
        if usize::from(self.batch_count) == RETAINED_BATCHES {
            self.batches.copy_within(1.., 0);
            self.batch_count -= 1;
        }
        self.batches[usize::from(self.batch_count)] = batch;
        self.batch_count += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_the_last_five_batches_of_an_epoch() {
        let mut entry = ProducerStateEntry::empty(ProducerId(1));
        for n in 0..7 {
            let batch = BatchMetadata {
                last_sequence: n,
                last_offset: Offset(10 + i64::from(n)),
                offset_delta: 0,
                timestamp: 5,
            };
            entry.add_batch(ProducerEpoch(0), batch);
        }
        assert_eq!(entry.first_sequence(), 2);
        assert_eq!(entry.last_sequence(), 6);
        assert_eq!(entry.find_duplicate(ProducerEpoch(0), 1, 1), None);
        assert_eq!(entry.find_duplicate(ProducerEpoch(0), 2, 2).unwrap().last_offset, Offset(12));
        assert_eq!(entry.find_duplicate(ProducerEpoch(0), 2, 3), None);
        assert_eq!(entry.find_duplicate(ProducerEpoch(1), 2, 2), None);

        let batch = BatchMetadata { last_sequence: 0, last_offset: Offset(20), offset_delta: 0, timestamp: 6 };
        entry.add_batch(ProducerEpoch(1), batch);
        assert_eq!(entry.batches(), [batch]);
    }
}
