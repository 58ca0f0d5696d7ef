//! Batches on their way to a partition, in their order.

use std::collections::VecDeque;

use bytes::Bytes;
use tokio::time::Instant;

use super::{Outgoing, ProducerConfig};
use crate::record::builder::RecordBatchBuilder;
use crate::record::record::Header;
use crate::types::{Offset, ProducerEpoch, ProducerId};

/// What a record needs at most beside its key, value and headers.
const RECORD_OVERHEAD: usize = 36;

/// Bytes of a record, a little more than it will have.
pub fn size_of<T>(record: &Outgoing<T>) -> usize {
    let bytes = |data: &Option<Vec<u8>>| data.as_ref().map_or(0, Vec::len);
    let headers = record.headers.iter().map(|(key, value)| key.len() + bytes(value) + 10);
    RECORD_OVERHEAD + bytes(&record.key) + bytes(&record.value) + headers.sum::<usize>()
}

/// What Java's producer holds a record alone to be at most, with all that a batch has around it.
pub fn largest_size_of<T>(record: &Outgoing<T>) -> usize {
    const BATCH_OVERHEAD: usize = 61;
    const RECORD_OVERHEAD: usize = 21;
    let varint = |number: usize| (1..).find(|bytes| number < 1 << (7 * bytes - 1) || *bytes == 5).unwrap_or(5);
    let sized = |data: &Option<Vec<u8>>| data.as_ref().map_or(1, |data| varint(data.len()) + data.len());
    let headers = record.headers.iter().map(|(key, value)| varint(key.len()) + key.len() + sized(value));
    let headers = varint(record.headers.len()) + headers.sum::<usize>();
    BATCH_OVERHEAD + RECORD_OVERHEAD + sized(&record.key) + sized(&record.value) + headers
}

/// Records that go together.
pub struct Batch<T> {
    /// As they came, so that a batch can be built anew for another producer id.
    records: Vec<(i64, Outgoing<T>)>,
    size: usize,
    pub created: Instant,
    pub tries: u32,
    /// It must not be sent sooner.
    pub not_before: Instant,
    /// The sequence of the first record, once it was sent by an idempotent producer.
    pub sequence: Option<i32>,
}

impl<T> Batch<T> {
    fn new(now: Instant) -> Batch<T> {
        Batch { records: Vec::new(), size: 0, created: now, tries: 0, not_before: now, sequence: None }
    }

    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// Bytes of the records before compression.
    pub fn size(&self) -> usize {
        self.size
    }

    pub fn receipts(self) -> impl Iterator<Item = T> {
        self.records.into_iter().map(|(_, record)| record.receipt)
    }

    /// The batch as it goes over the wire.
    pub fn encode(&self, config: &ProducerConfig, producer: Option<(ProducerId, ProducerEpoch)>) -> Bytes {
        let mut builder = RecordBatchBuilder::new(Offset(0)).compression(config.codec, config.compression_level);
        if let (Some((id, epoch)), Some(sequence)) = (producer, self.sequence) {
            builder = builder.producer(id, epoch, sequence).transactional(config.transactional_id.is_some());
        }
        for (timestamp, record) in &self.records {
            let headers: Vec<Header<'_>> = record
                .headers
                .iter()
                .map(|(key, value)| Header { key: key.as_bytes(), value: value.as_deref() })
                .collect();
            builder.append(*timestamp, record.key.as_deref(), record.value.as_deref(), &headers);
        }
        builder.build()
    }
}

/// The batches of one partition.
pub struct Queue<T> {
    /// The last one may still grow.
    pub waiting: VecDeque<Batch<T>>,
    pub in_flight: usize,
    /// One has failed: the next goes when all have come back.
    pub halted: bool,
    /// Of the next record that is sent for the first time.
    pub next_sequence: i32,
    /// The coordinator knows that the transaction has it.
    pub in_transaction: bool,
}

impl<T> Default for Queue<T> {
    fn default() -> Queue<T> {
        Queue { waiting: VecDeque::new(), in_flight: 0, halted: false, next_sequence: 0, in_transaction: false }
    }
}

impl<T> Queue<T> {
    /// Puts a record into the last batch, or into a new one.
    pub fn push(&mut self, record: Outgoing<T>, timestamp: i64, batch_size: usize, now: Instant) {
        let size = size_of(&record);
        let fits = |batch: &Batch<T>| batch.sequence.is_none() && batch.tries == 0 && batch.size + size <= batch_size;
        if !self.waiting.back().is_some_and(fits) {
            self.waiting.push_back(Batch::new(now));
        }
        let batch = self.waiting.back_mut().expect("there is one");
        batch.size += size;
        batch.records.push((timestamp, record));
    }

    /// When the first batch is to go; `None` if there is none, or it has to wait for others to come back.
    pub fn due(&self, config: &ProducerConfig, flushing: bool) -> Option<Instant> {
        let first = self.waiting.front()?;
        if self.halted {
            return None;
        }
        let full = self.waiting.len() > 1 || first.size >= config.batch_size;
        let ready = if full || flushing || first.tries > 0 { first.created } else { first.created + config.linger };
        Some(ready.max(first.not_before))
    }

    /// Takes a batch back that is to be sent once more, to its old place.
    pub fn give_back(&mut self, batch: Batch<T>) {
        let earlier = |other: &Batch<T>| match (other.sequence, batch.sequence) {
            // Sequences of one partition in flight lie close together: what wraps around is far away.
            (Some(other), Some(own)) => other.wrapping_sub(own) < 0,
            _ => other.created < batch.created && other.tries > 0,
        };
        let place = self.waiting.iter().take_while(|other| earlier(other)).count();
        self.waiting.insert(place, batch);
        self.halted = self.in_flight > 0;
    }

    /// Gives the first batch its sequence, if it has none yet.
    pub fn number_first(&mut self) {
        let Some(first) = self.waiting.front_mut() else { return };
        if first.sequence.is_none() {
            first.sequence = Some(self.next_sequence);
            self.next_sequence =
                crate::record::batch::increment_sequence(self.next_sequence, first.records.len() as i32);
        }
    }

    /// Numbers begin anew, for another producer id or epoch.
    pub fn renumber(&mut self) {
        self.next_sequence = 0;
        for batch in &mut self.waiting {
            batch.sequence = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::time::Duration;

    use super::*;
    use crate::record::batch::RecordBatch;

    fn config() -> ProducerConfig {
        let given = BTreeMap::from([("bootstrap.servers".to_owned(), "a:1".to_owned())]);
        ProducerConfig::new(given, "c").unwrap()
    }

    fn record(value: &str) -> Outgoing<u32> {
        Outgoing { value: Some(value.as_bytes().to_vec()), ..Default::default() }
    }

    #[test]
    fn batches_fill_up_and_wait_for_more() {
        let (config, now) = (config(), Instant::now());
        let mut queue = Queue::default();
        queue.push(record("a"), 1, 100, now);
        queue.push(record("b"), 2, 100, now);
        assert_eq!(queue.waiting.len(), 1);
        assert_eq!(queue.due(&config, false), Some(now + config.linger));
        assert_eq!(queue.due(&config, true), Some(now));
        queue.push(record("c"), 3, 100, now);
        assert_eq!(queue.waiting.len(), 2);
        assert_eq!(queue.due(&config, false), Some(now), "another one stands behind it");
        queue.number_first();
        let bytes = queue.waiting[0].encode(&config, Some((ProducerId(7), ProducerEpoch(0))));
        let batch = RecordBatch::parse(&bytes).unwrap();
        assert!(batch.is_crc_valid());
        assert_eq!((batch.record_count(), batch.base_sequence(), batch.base_timestamp()), (2, 0, 1));
    }

    #[test]
    fn what_comes_back_goes_to_its_old_place() {
        let (config, now) = (config(), Instant::now());
        let mut queue = Queue::default();
        for value in ["a", "b", "c"] {
            queue.push(record(value), 0, 1, now);
        }
        let mut taken = Vec::new();
        for _ in 0..2 {
            queue.number_first();
            let mut batch = queue.waiting.pop_front().unwrap();
            batch.tries += 1;
            queue.in_flight += 1;
            taken.push(batch);
        }
        queue.in_flight -= 1;
        queue.give_back(taken.remove(0));
        assert_eq!(queue.due(&config, false), None, "the other one is still on its way");
        queue.in_flight -= 1;
        queue.give_back(taken.remove(0));
        assert!(queue.due(&config, false).is_some());
        let sequences: Vec<_> = queue.waiting.iter().map(|batch| batch.sequence).collect();
        assert_eq!(sequences, [Some(0), Some(1), None]);
        // Nothing more is put into a batch that has been sent.
        queue.push(record("d"), 0, 1 << 20, now + Duration::from_millis(1));
        assert_eq!(queue.waiting.iter().map(Batch::len).collect::<Vec<_>>(), [1, 1, 2]);
    }
}
