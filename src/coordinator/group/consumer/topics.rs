//! Which groups subscribe to a topic, and the hash by which a group sees that its topics have changed.
//!
//! ```text
//! hash of a topic   XXH3-64 of   0x00, topic id (two int64), name, number of partitions int32,
//!                                for each partition: its index int32, and the racks of its replicas, sorted, each as
//!                                its length int32 and itself
//! hash of a group   XXH3-64 of   the hashes of its existing topics int64, by name; 0 if there are none
//! ```
//! Integers are little-endian, and a string is its UTF-16 units, two bytes each, and their number (int32): Kafka's
//! hashing library has it so. The hash stands in the group's records, so another broker must come to the same.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use twox_hash::XxHash3_64;

use super::group::SubscriptionCount;
use crate::metadata::image::{MetadataDelta, MetadataImage, TopicImage};
use crate::types::TopicName;

/// See the module.
#[derive(Debug, Default)]
pub struct SubscribedTopics {
    groups: BTreeMap<TopicName, BTreeSet<Arc<str>>>,
    /// Hashes that were needed once and still hold.
    hashes: BTreeMap<TopicName, u64>,
}

impl SubscribedTopics {
    pub(super) fn subscribe(&mut self, group_id: &Arc<str>, topic: &TopicName) {
        self.groups.entry(Arc::clone(topic)).or_default().insert(Arc::clone(group_id));
    }

    pub(super) fn unsubscribe(&mut self, group_id: &Arc<str>, topic: &TopicName) {
        let Some(groups) = self.groups.get_mut(topic) else { return };
        groups.remove(group_id);
        if groups.is_empty() {
            self.groups.remove(topic);
            self.hashes.remove(topic);
        }
    }

    /// The groups whose topics changed; their hashes are forgotten.
    pub(super) fn on_metadata(&mut self, delta: &MetadataDelta, image: &MetadataImage) -> BTreeSet<Arc<str>> {
        let changed = delta.created_topics.iter().chain(delta.changed_topics.keys());
        let changed = changed.filter_map(|id| image.topic_by_id(*id));
        let mut affected = BTreeSet::new();
        for topic in changed.chain(delta.deleted_topics.values()) {
            self.hashes.remove(&topic.name);
            affected.extend(self.groups.get(&topic.name).into_iter().flatten().cloned());
        }
        affected
    }

    /// The hash of a group that subscribes to these topics.
    pub(super) fn group_hash(&mut self, topics: &BTreeMap<TopicName, SubscriptionCount>, image: &MetadataImage) -> i64 {
        let mut bytes = Vec::with_capacity(topics.len() * 8);
        for name in topics.keys() {
            let Some(topic) = image.topic(name) else { continue };
            let hash = *self.hashes.entry(Arc::clone(name)).or_insert_with(|| topic_hash(topic, image));
            bytes.extend(hash.to_le_bytes());
        }
        if bytes.is_empty() { 0 } else { XxHash3_64::oneshot(&bytes) as i64 }
    }
}

fn topic_hash(topic: &TopicImage, image: &MetadataImage) -> u64 {
    let mut bytes = vec![0u8];
    let (high, low) = topic.id.0.as_u64_pair();
    bytes.extend(high.to_le_bytes());
    bytes.extend(low.to_le_bytes());
    put_string(&mut bytes, &topic.name);
    bytes.extend((topic.partitions.len() as i32).to_le_bytes());
    for (partition, registration) in topic.partitions.iter() {
        bytes.extend(partition.0.to_le_bytes());
        let brokers = registration.replicas.iter().filter_map(|replica| image.broker(*replica));
        let mut racks: Vec<&str> = brokers.filter_map(|broker| broker.rack.as_deref()).collect();
        racks.sort_by(|a, b| a.encode_utf16().cmp(b.encode_utf16()));
        for rack in racks {
            bytes.extend((rack.encode_utf16().count() as i32).to_le_bytes());
            put_string(&mut bytes, rack);
        }
    }
    XxHash3_64::oneshot(&bytes)
}

fn put_string(bytes: &mut Vec<u8>, text: &str) {
    let units = bytes.len();
    bytes.extend(text.encode_utf16().flat_map(u16::to_le_bytes));
    let units = (bytes.len() - units) / 2;
    bytes.extend((units as i32).to_le_bytes());
}
