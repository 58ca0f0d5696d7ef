//! The order in which Kafka visits members, topics and partitions.
//!
//! Kafka's assignors walk over Java's hash tables, and the order of those shows in the result: which members get one partition more,
//! which partitions a member with too many gives up. Java's hashes are fixed, so its order is a function of the keys and of the size of
//! the table ([`sort_by_hash`](crate::config::java::sort_by_hash)). Here are the hashes of what is walked over. Where two keys share a slot
//! Kafka goes by age and we go by key.
//!
//! The sizes are those of Java 17; from Java 19 on a set copied from exactly 12, 24, 48… elements has half the size.

use crate::types::{PartitionId, TopicId};

/// `Uuid.hashCode`.
pub(super) fn hash_of_topic(topic: TopicId) -> u32 {
    let (high, low) = topic.0.as_u64_pair();
    let both = high ^ low;
    (both >> 32) as u32 ^ both as u32
}

/// `Integer.hashCode`.
pub(super) fn hash_of_partition(partition: PartitionId) -> u32 {
    partition.0 as u32
}

/// A key that sorts as `Uuid.compareTo` does: two signed halves.
pub(super) fn topic_sort_key(topic: TopicId) -> (i64, i64) {
    let (high, low) = topic.0.as_u64_pair();
    (high as i64, low as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_javas() {
        assert_eq!(hash_of_topic(TopicId::METADATA), 1);
    }
}
