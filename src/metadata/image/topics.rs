//! Topics and their partitions, found by name and by id.

use std::sync::Arc;

use super::apply::ApplyError;
use super::sorted_map::SortedMap;
use crate::metadata::records::{PartitionChangeRecord, PartitionRecord, Record as _, VersionedRecord};
use crate::metadata::version::MetadataVersion;
use crate::types::{BrokerId, DirectoryId, LeaderEpoch, PartitionId, TopicId, TopicName};

/// All topics.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TopicsImage {
    by_name: SortedMap<TopicName, Arc<TopicImage>>,
    /// The name of every topic in `by_name`: one owner of each topic, so that it can be changed in place.
    names: SortedMap<TopicId, TopicName>,
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

/// How records say that there is no leader.
pub const NO_LEADER: BrokerId = BrokerId(-1);
/// How a change says that the leader stays.
pub const NO_LEADER_CHANGE: BrokerId = BrokerId(-2);
const NO_RECOVERY_STATE_CHANGE: i8 = -1;

fn leader_from_code(leader: BrokerId) -> Option<BrokerId> {
    (leader != NO_LEADER).then_some(leader)
}

fn leader_to_code(leader: Option<BrokerId>) -> BrokerId {
    leader.unwrap_or(NO_LEADER)
}

fn recovery_state(record: &'static str, code: i8) -> Result<LeaderRecoveryState, ApplyError> {
    LeaderRecoveryState::from_code(code).ok_or(ApplyError::InvalidValue {
        record,
        field: "leader recovery state",
        value: i64::from(code),
    })
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
        self.by_name.get(self.names.get(&id)?)
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
        self.names.insert(topic.id, Arc::clone(&topic.name));
        self.by_name.insert(Arc::clone(&topic.name), topic);
    }

    /// A topic to be changed; copied first if another image shares it.
    pub(super) fn topic_mut(&mut self, id: TopicId) -> Option<&mut TopicImage> {
        self.by_name.get_mut(self.names.get(&id)?).map(Arc::make_mut)
    }

    pub(super) fn remove(&mut self, id: TopicId) -> Option<Arc<TopicImage>> {
        let name = self.names.remove(&id)?;
        self.by_name.remove(&name)
    }
}

impl TopicImage {
    pub fn partition(&self, partition: PartitionId) -> Option<&Arc<PartitionRegistration>> {
        self.partitions.get(&partition)
    }
}

impl PartitionRegistration {
    pub(super) fn from_record(record: &PartitionRecord) -> Result<PartitionRegistration, ApplyError> {
        let registration = PartitionRegistration {
            replicas: record.replicas.clone(),
            directories: record.directories.clone(),
            isr: record.isr.clone(),
            removing_replicas: record.removing_replicas.clone(),
            adding_replicas: record.adding_replicas.clone(),
            elr: record.eligible_leader_replicas.clone().unwrap_or_default(),
            last_known_elr: record.last_known_elr.clone().unwrap_or_default(),
            leader: leader_from_code(record.leader),
            leader_recovery_state: recovery_state(PartitionRecord::NAME, record.leader_recovery_state)?,
            leader_epoch: record.leader_epoch,
            partition_epoch: record.partition_epoch,
        };
        registration.with_directories(record.topic_id, record.partition_id)
    }

    /// The registration after a change.
    pub(super) fn merge(&self, record: &PartitionChangeRecord) -> Result<PartitionRegistration, ApplyError> {
        fn changed<T: Clone>(new: &Option<Vec<T>>, old: &[T]) -> Vec<T> {
            new.as_deref().unwrap_or(old).to_vec()
        }
        let leader_changes = record.leader != NO_LEADER_CHANGE;
        let registration = PartitionRegistration {
            replicas: changed(&record.replicas, &self.replicas),
            directories: changed(&record.directories, &self.directories),
            isr: changed(&record.isr, &self.isr),
            removing_replicas: changed(&record.removing_replicas, &self.removing_replicas),
            adding_replicas: changed(&record.adding_replicas, &self.adding_replicas),
            elr: changed(&record.eligible_leader_replicas, &self.elr),
            last_known_elr: changed(&record.last_known_elr, &self.last_known_elr),
            leader: if leader_changes { leader_from_code(record.leader) } else { self.leader },
            leader_recovery_state: match record.leader_recovery_state {
                NO_RECOVERY_STATE_CHANGE => self.leader_recovery_state,
                code => recovery_state(PartitionChangeRecord::NAME, code)?,
            },
            leader_epoch: LeaderEpoch(self.leader_epoch.0 + i32::from(leader_changes)),
            partition_epoch: self.partition_epoch + 1,
        };
        registration.with_directories(record.topic_id, record.partition_id)
    }

    /// The record that says all of the registration.
    pub fn to_record(&self, topic_id: TopicId, partition_id: PartitionId, version: MetadataVersion) -> VersionedRecord {
        let unless_empty = |ids: &Vec<BrokerId>| (version.has_elr() && !ids.is_empty()).then(|| ids.clone());
        let record = PartitionRecord {
            partition_id,
            topic_id,
            replicas: self.replicas.clone(),
            isr: self.isr.clone(),
            removing_replicas: self.removing_replicas.clone(),
            adding_replicas: self.adding_replicas.clone(),
            leader: leader_to_code(self.leader),
            leader_recovery_state: self.leader_recovery_state.code(),
            leader_epoch: self.leader_epoch,
            partition_epoch: self.partition_epoch,
            directories: if version.has_directory_assignment() { self.directories.clone() } else { Vec::new() },
            eligible_leader_replicas: unless_empty(&self.elr),
            last_known_elr: unless_empty(&self.last_known_elr),
        };
        VersionedRecord::at(version.partition_record_version(), record)
    }

    /// Checks that each replica has a directory; records from before KIP-858 name none.
    fn with_directories(
        mut self,
        topic_id: TopicId,
        partition: PartitionId,
    ) -> Result<PartitionRegistration, ApplyError> {
        if self.directories.iter().all(|directory| *directory == DirectoryId::MIGRATING) {
            self.directories = vec![DirectoryId::MIGRATING; self.replicas.len()];
        }
        match self.directories.len() {
            count if count == self.replicas.len() => Ok(self),
            directories => {
                Err(ApplyError::DirectoryCount { topic_id, partition, directories, replicas: self.replicas.len() })
            }
        }
    }

    pub(super) fn has_elr(&self) -> bool {
        !self.elr.is_empty() || !self.last_known_elr.is_empty()
    }

    /// The log directory in which `broker` keeps this partition, if it is a replica.
    pub fn directory(&self, broker: BrokerId) -> Option<DirectoryId> {
        let at = self.replicas.iter().position(|replica| *replica == broker)?;
        Some(self.directories.get(at).copied().unwrap_or(DirectoryId::MIGRATING))
    }
}
