//! Values by group, topic and partition, of which no level is ever empty.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::small_map::SmallMap;
use crate::types::{PartitionId, TopicName};

/// Of one group.
pub type ByTopic<V> = SmallMap<TopicName, SmallMap<PartitionId, V>>;

#[derive(Clone, Debug)]
pub struct ByPartition<V> {
    groups: BTreeMap<Arc<str>, ByTopic<V>>,
}

impl<V> Default for ByPartition<V> {
    fn default() -> Self {
        ByPartition { groups: BTreeMap::new() }
    }
}

impl<V> ByPartition<V> {
    pub fn group(&self, group: &str) -> Option<&ByTopic<V>> {
        self.groups.get(group)
    }

    pub fn get(&self, group: &str, topic: &str, partition: PartitionId) -> Option<&V> {
        self.groups.get(group)?.get(topic)?.get(&partition)
    }

    pub fn get_mut(&mut self, group: &str, topic: &str, partition: PartitionId) -> Option<&mut V> {
        self.groups.get_mut(group)?.get_mut(topic)?.get_mut(&partition)
    }

    /// `name` gives the topic's name if the group has nothing of the topic yet.
    pub fn insert(
        &mut self,
        group: &Arc<str>,
        topic: &str,
        partition: PartitionId,
        value: V,
        name: impl FnOnce() -> TopicName,
    ) {
        let topics = self.groups.entry(group.clone()).or_default();
        match topics.get_mut(topic) {
            Some(partitions) => {
                partitions.insert(partition, value);
            }
            None => {
                let mut partitions = SmallMap::default();
                partitions.insert(partition, value);
                topics.insert(name(), partitions);
            }
        }
    }

    pub fn remove(&mut self, group: &str, topic: &str, partition: PartitionId) -> Option<V> {
        let topics = self.groups.get_mut(group)?;
        let partitions = topics.get_mut(topic)?;
        let removed = partitions.remove(&partition);
        if partitions.is_empty() {
            topics.remove(topic);
            if topics.is_empty() {
                self.groups.remove(group);
            }
        }
        removed
    }

    /// Everything, in the order of groups, topics and partitions.
    pub fn iter(&self) -> impl Iterator<Item = (&Arc<str>, &TopicName, PartitionId, &V)> {
        self.groups.iter().flat_map(|(group, topics)| {
            topics.iter().flat_map(move |(topic, partitions)| {
                partitions.iter().map(move |(partition, value)| (group, topic, *partition, value))
            })
        })
    }

    /// All of a topic, in the order of groups and partitions.
    pub fn of_topic(&self, topic: &str) -> impl Iterator<Item = (&Arc<str>, PartitionId, &V)> {
        self.groups.iter().flat_map(move |(group, topics)| {
            let partitions = topics.get(topic).into_iter().flat_map(|partitions| partitions.iter());
            partitions.map(move |(partition, value)| (group, *partition, value))
        })
    }
}
