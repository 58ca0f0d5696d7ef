//! Topics and their partitions, found by name and by id.

use std::sync::Arc;

use super::sorted_map::SortedMap;
use crate::types::{BrokerId, DirectoryId, LeaderEpoch, PartitionId, TopicId, TopicName};

/// All topics. Both maps hold the same topics.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TopicsImage {
    by_name: SortedMap<TopicName, Arc<TopicImage>>,
    by_id: SortedMap<TopicId, Arc<TopicImage>>,
}

/// A topic: its identity and its partitions, numbered from 0 without gaps.
#[derive(Clone, Debug, PartialEq)]
pub struct TopicImage {
    pub name: TopicName,
    pub id: TopicId,
    pub partitions: SortedMap<PartitionId, Arc<PartitionRegistration>>,
}

/// What the controller has decided about a partition (KIP-631's PartitionRecord).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionRegistration {
    /// Brokers that hold the partition, the preferred leader first.
    pub replicas: Vec<BrokerId>,
    /// The log directory of each of `replicas`, in their order (KIP-858).
    pub directories: Vec<DirectoryId>,
    pub isr: Vec<BrokerId>,
    pub removing_replicas: Vec<BrokerId>,
    pub adding_replicas: Vec<BrokerId>,
    /// Replicas outside the ISR that are known to hold everything up to the high watermark (KIP-966).
    pub elr: Vec<BrokerId>,
    /// The last known leader, kept for unclean recovery (KIP-966).
    pub last_known_elr: Vec<BrokerId>,
    /// `None`: the partition is offline.
    pub leader: Option<BrokerId>,
    pub leader_recovery_state: LeaderRecoveryState,
    /// Grows with every change of the leader.
    pub leader_epoch: LeaderEpoch,
    /// Grows with every change of the partition.
    pub partition_epoch: i32,
}

/// Whether the leader still has to recover from an unclean election (KIP-704).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LeaderRecoveryState {
    #[default]
    Recovered,
    Recovering,
}

impl LeaderRecoveryState {
    pub fn from_code(code: i8) -> Option<LeaderRecoveryState> {
        match code {
            0 => Some(LeaderRecoveryState::Recovered),
            1 => Some(LeaderRecoveryState::Recovering),
            _ => None,
        }
    }

    pub fn code(self) -> i8 {
        match self {
            LeaderRecoveryState::Recovered => 0,
            LeaderRecoveryState::Recovering => 1,
        }
    }
}

impl TopicsImage {
    pub fn len(&self) -> usize {
        self.by_name.len()
    }

    pub fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    pub fn by_name(&self, name: &str) -> Option<&Arc<TopicImage>> {
        self.by_name.get(name)
    }

    pub fn by_id(&self, id: TopicId) -> Option<&Arc<TopicImage>> {
        self.by_id.get(&id)
    }

    /// All topics in the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<TopicImage>> {
        self.by_name.values()
    }

    /// Topics named `name` or behind it, in the order of their names.
    pub fn from_name(&self, name: &str) -> impl Iterator<Item = &Arc<TopicImage>> {
        self.by_name.range_from(name).map(|(_, topic)| topic)
    }

    pub(super) fn insert(&mut self, topic: Arc<TopicImage>) {
        self.by_id.insert(topic.id, Arc::clone(&topic));
        self.by_name.insert(Arc::clone(&topic.name), topic);
    }

    pub(super) fn remove(&mut self, id: TopicId) -> Option<Arc<TopicImage>> {
        let topic = self.by_id.remove(&id)?;
        self.by_name.remove(&topic.name);
        Some(topic)
    }
}

impl TopicImage {
    pub fn partition(&self, partition: PartitionId) -> Option<&Arc<PartitionRegistration>> {
        self.partitions.get(&partition)
    }
}

impl PartitionRegistration {
    /// The log directory in which `broker` keeps this partition, if it is a replica.
    pub fn directory(&self, broker: BrokerId) -> Option<DirectoryId> {
        let at = self.replicas.iter().position(|replica| *replica == broker)?;
        Some(self.directories.get(at).copied().unwrap_or(DirectoryId::MIGRATING))
    }

    pub fn is_replica(&self, broker: BrokerId) -> bool {
        self.replicas.contains(&broker)
    }
}
