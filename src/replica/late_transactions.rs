//! Transactions that hang: their partitions hold back every reader of committed records, and nobody ends them.
//!
//! One that has been open for longer than any may is told in the log, once, with what an operator needs to find and end
//! it (`kafka-transactions find-hanging`, `abort`).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use parking_lot::Mutex;
use tracing::warn;

use super::partition::Partition;
use crate::types::{Offset, ProducerId, TopicPartition};

/// An open transaction in a partition.
type Open = (ProducerId, TopicPartition, Offset);

/// What was told already.
#[derive(Default)]
pub struct LateTransactions {
    told: Mutex<BTreeSet<Open>>,
}

impl LateTransactions {
    /// Looks for transactions that hang in these partitions. Gives those that were told just now.
    pub fn look(&self, partitions: &[Arc<Partition>], now_ms: i64) -> BTreeSet<ProducerId> {
        let mut open = BTreeSet::new();
        let mut last_timestamps = BTreeMap::new();
        for partition in partitions {
            for entry in partition.late_transactions(now_ms) {
                let first = entry.current_txn_first_offset.unwrap_or(Offset(-1));
                open.insert((entry.producer_id, partition.topic_partition().clone(), first));
                let last: &mut i64 = last_timestamps.entry(entry.producer_id).or_default();
                *last = entry.last_timestamp.max(*last);
            }
        }
        let mut told = self.told.lock();
        let mut news: BTreeMap<ProducerId, Vec<String>> = BTreeMap::new();
        for (producer_id, partition, first) in open.difference(&told) {
            news.entry(*producer_id).or_default().push(format!("{partition} from offset {first}"));
        }
        for (producer_id, partitions) in &news {
            let age_seconds = last_timestamps.get(producer_id).map_or(0, |last| (now_ms - last) / 1000);
            warn!(%producer_id, age_seconds, partitions = partitions.join(", "),
                "a transaction hangs: readers of committed records wait for it");
        }
        // What has ended meanwhile is forgotten.
        *told = open;
        news.into_keys().collect()
    }
}
