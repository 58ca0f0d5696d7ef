//! The order in which Kafka visits members, topics and partitions.
//!
//! Kafka's assignors walk over Java's hash tables, and the order of those shows in the result: which members get one partition more,
//! which partitions a member with too many gives up. Java's hashes are fixed, so its order is a function of the keys and of the size of
//! the table; it is computed here, to come to the same assignment. Where two keys share a slot Kafka goes by age and we go by key.
//!
//! The sizes are those of Java 17; from Java 19 on a set copied from exactly 12, 24, 48… elements has half the size.

use crate::types::{PartitionId, TopicId};

/// How many slots a `java.util.HashMap` has after so many insertions.
pub(in crate::coordinator::group) fn grown_table(entries: usize) -> usize {
    let mut slots = 16;
    while entries > slots / 4 * 3 {
        slots *= 2;
    }
    slots
}

/// How many slots a `java.util.HashSet` has that was made as a copy of so many elements.
pub(super) fn copied_table(elements: usize) -> usize {
    // Exact: a third more, cut off, plus one. Java does it in floats, which agree far beyond any number of partitions.
    (elements * 4 / 3 + 1).next_power_of_two().max(16)
}

/// The slot of a hash in a table of `slots` (a power of two).
fn slot(hash: i32, slots: usize) -> usize {
    let hash = hash as u32;
    (hash ^ (hash >> 16)) as usize & (slots - 1)
}

/// Sorts keys, given in ascending order, as a table of `slots` has them.
pub(in crate::coordinator::group) fn sort<T>(keys: &mut [T], slots: usize, hash: impl Fn(&T) -> i32) {
    keys.sort_by_cached_key(|key| slot(hash(key), slots));
}

/// `Uuid.hashCode`.
pub(super) fn hash_of_topic(topic: TopicId) -> i32 {
    let (high, low) = topic.0.as_u64_pair();
    let both = high ^ low;
    (both >> 32) as i32 ^ both as i32
}

/// `Integer.hashCode`.
pub(super) fn hash_of_partition(partition: PartitionId) -> i32 {
    partition.0
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
    fn tables_grow_as_javas() {
        // Seen in OpenJDK 17.
        let grown: Vec<_> = [0, 1, 12, 13, 24, 25, 48, 49].map(grown_table).to_vec();
        assert_eq!(grown, [16, 16, 16, 32, 32, 64, 64, 128]);
        let copied: Vec<_> = [1, 11, 12, 13, 23, 24, 25, 48, 49].map(copied_table).to_vec();
        assert_eq!(copied, [16, 16, 32, 32, 32, 64, 64, 128, 128]);
    }

    #[test]
    fn hashes_are_javas() {
        assert_eq!(hash_of_topic(TopicId::METADATA), 1);
    }

    #[test]
    fn partitions_beyond_the_table_wrap() {
        let mut partitions = [1, 5, 18, 33].map(PartitionId);
        sort(&mut partitions, 16, |&partition| hash_of_partition(partition));
        assert_eq!(partitions, [1, 33, 18, 5].map(PartitionId));
    }
}
