//! What becomes of a sender's batches: they are delivered, sent once more, or given up.

use std::collections::HashMap;

use kafka_protocol::messages::produce_response::PartitionProduceResponse;
use tokio::time::Instant;

use super::super::Position;
use super::super::batch::Batch;
use super::{Returned, Sender};
use crate::client::error::Error;
use crate::protocol::ErrorCode;

impl<T: 'static> Sender<T> {
    pub(super) fn settle(&mut self, returned: Returned<T>) {
        if let Some(count) = self.per_node.get_mut(&returned.node) {
            *count = count.saturating_sub(1);
        }
        let answers: HashMap<usize, PartitionProduceResponse> = match &returned.answer {
            Ok(Some(answer)) => answer
                .responses
                .iter()
                .flat_map(|topic| &topic.partition_responses)
                .map(|partition| (partition.index as usize, partition.clone()))
                .collect(),
            _ => HashMap::new(),
        };
        for (index, batch) in returned.batches {
            let outcome = match (&returned.answer, answers.get(&index)) {
                (Err(error), _) => Err(error.clone()),
                (Ok(None), _) => Ok(-1),
                (Ok(Some(_)), Some(partition)) => match ErrorCode::from_code(partition.error_code) {
                    // The first attempt had arrived.
                    Some(ErrorCode::DuplicateSequenceNumber) => Ok(partition.base_offset),
                    _ => Error::check(
                        partition.error_code,
                        partition.error_message.as_deref().filter(|text| !text.is_empty()),
                    )
                    .map(|()| partition.base_offset),
                },
                (Ok(Some(_)), None) => Err(Error::disconnected("The answer has nothing of the partition.")),
            };
            self.queues[index].in_flight -= 1;
            match outcome {
                Ok(base_offset) => self.delivered(index, batch, base_offset),
                Err(error) => self.failed(index, batch, error),
            }
            let queue = &mut self.queues[index];
            queue.halted &= queue.in_flight > 0;
        }
    }

    fn delivered(&mut self, index: usize, batch: Batch<T>, base_offset: i64) {
        self.buffered -= batch.size();
        for (place, receipt) in batch.receipts().enumerate() {
            let offset = if base_offset < 0 { -1 } else { base_offset + place as i64 };
            (self.deliver)(receipt, Ok(Position { partition: index as i32, offset }));
        }
    }

    fn failed(&mut self, index: usize, mut batch: Batch<T>, error: Error) {
        // One before it is still to be sent once more, and then this one fits.
        let out_of_turn = error.is(ErrorCode::OutOfOrderSequenceNumber)
            && (self.queues[index].halted || self.queues[index].in_flight > 0);
        let again = (error.is_retriable() || out_of_turn)
            && batch.tries <= self.config.retries
            && batch.created.elapsed() < self.config.delivery_timeout;
        if again {
            self.stale = true;
            self.warn(format_args!(
                "Got error produce response on topic-partition {}-{index}, retrying ({} attempts left). Error: {}",
                self.topic,
                self.config.retries.saturating_sub(batch.tries),
                error.code.map_or("NETWORK_EXCEPTION", ErrorCode::name)
            ));
            batch.not_before = Instant::now() + self.config.client.retry_backoff;
            return self.queues[index].give_back(batch);
        }
        self.give_up(batch, error);
    }

    fn give_up(&mut self, batch: Batch<T>, error: Error) {
        // Whoever waits for its sequence would wait for ever.
        self.broken |= batch.sequence.is_some() && self.config.transactional_id.is_none();
        self.buffered -= batch.size();
        for receipt in batch.receipts() {
            (self.deliver)(receipt, Err(error.clone()));
        }
    }

    /// Gives up what has waited for too long.
    pub(super) fn expire(&mut self) {
        for index in 0..self.queues.len() {
            while self.queues[index]
                .waiting
                .front()
                .is_some_and(|first| first.created.elapsed() >= self.config.delivery_timeout)
            {
                let Some(batch) = self.queues[index].waiting.pop_front() else { break };
                let error = Error::timeout(format!(
                    "Expiring {} record(s) for {}-{index}:{} ms has passed since batch creation",
                    batch.len(),
                    self.topic,
                    batch.created.elapsed().as_millis()
                ));
                self.give_up(batch, error);
            }
        }
    }

    /// Nothing can be sent for now, or ever.
    pub(super) fn postpone_all(&mut self, error: &Error) {
        let all: Vec<usize> = (0..self.queues.len()).collect();
        self.postpone(&all, error);
    }

    pub(super) fn postpone(&mut self, partitions: &[usize], error: &Error) {
        self.stale = true;
        let not_before = Instant::now() + self.config.client.retry_backoff;
        for &index in partitions {
            if error.is_retriable() || error.is(ErrorCode::RequestTimedOut) {
                for batch in &mut self.queues[index].waiting {
                    batch.not_before = not_before;
                }
                continue;
            }
            while let Some(batch) = self.queues[index].waiting.pop_front() {
                self.give_up(batch, error.clone());
            }
        }
    }
}
