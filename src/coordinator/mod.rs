//! Coordinators: who owns what in a group, and which transactions are open.
//!
//! A coordinator is a state machine for each partition of an internal topic, whose log holds all that the machine must
//! remember: a *shard* ([`shard`]). [`group`] is the shard of `__consumer_offsets`. Shards decide, without a clock, a
//! lock, a disk or chance of their own; the [`runtime`] gives them the time, appends their records and lets answers go
//! once what they say is committed.

pub mod group;
pub mod runtime;
pub mod shard;
pub mod share;
pub mod timers;
pub mod transaction;

use crate::config::java;
use crate::types::PartitionId;

/// The partition of a coordinator's topic that a group or transactional id lives in.
pub fn partition_for(id: &str, partition_count: i32) -> PartitionId {
    let hash = java::string_hash(id) as i32;
    // Java has no positive counterpart of the smallest int; Kafka takes 0.
    let positive = hash.checked_abs().unwrap_or(0);
    PartitionId(positive % partition_count.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_lie_where_kafka_puts_them() {
        let java_hash = |text| java::string_hash(text) as i32;
        // Partitions that Kafka 4.3.1 gives for its default of 50.
        assert_eq!(java_hash("polygenelubricants"), i32::MIN);
        assert_eq!(partition_for("polygenelubricants", 50), PartitionId(0));
        assert_eq!(partition_for("", 50), PartitionId(0));
        assert_eq!(java_hash("group"), 98629247);
        assert_eq!(java_hash("member"), -1_077_769_574);
        assert_eq!(partition_for("group", 50), PartitionId(47));
        // Two units in UTF-16.
        assert_eq!(java_hash("\u{1f980}"), 31 * 0xd83e + 0xdd80);
        assert_eq!(partition_for("a", 1), PartitionId(0));
    }
}
