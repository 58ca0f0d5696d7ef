//! What becomes of a partition when brokers come and go: its ISR, its eligible leader replicas and its leader.
//!
//! The leader stays while it is in the ISR and acceptable. Else it is elected, in this order, from the ISR in the order
//! of the replicas; from the eligible leader replicas if the ISR is empty (KIP-966); the last known leader, if nobody
//! of ISR and ELR is left; any acceptable replica, if the topic allows unclean elections. The last two may lose
//! records: the leader is then marked as recovering (KIP-704).
//!
//! With ELR, a replica that leaves an ISR of fewer than `min.insync.replicas` becomes eligible: nothing can have been
//! acknowledged without it.

use std::collections::BTreeSet;

use super::settings::ControllerSettings;
use crate::metadata::image::{
    LeaderRecoveryState, MetadataImage, NO_LEADER, NO_LEADER_CHANGE, PartitionRegistration, TopicImage,
};
use crate::metadata::records::{PartitionChangeRecord, VersionedRecord};
use crate::metadata::version::MetadataVersion;
use crate::types::{BrokerId, DirectoryId, PartitionId, TopicId};

/// A change that is being decided.
pub struct PartitionChange<'a> {
    pub topic_id: TopicId,
    pub partition_id: PartitionId,
    pub partition: &'a PartitionRegistration,
    /// The ISR as it should be.
    pub target_isr: Vec<BrokerId>,
    /// A replica that may have lost records in a crash.
    pub unclean_shutdown: Option<BrokerId>,
    /// Whether records may be lost to bring the partition back.
    pub unclean_election: bool,
    /// `min.insync.replicas`, at most the number of replicas.
    pub min_isr: usize,
    pub elr_enabled: bool,
    pub version: MetadataVersion,
    /// The directories of the replicas, where they change.
    pub directories: Option<Vec<DirectoryId>>,
}

/// Who leads, and whether the election was unclean.
struct Election {
    leader: Option<BrokerId>,
    unclean: bool,
}

impl<'a> PartitionChange<'a> {
    /// A change of a partition in which nothing is to change yet.
    pub fn of(
        image: &MetadataImage,
        settings: &ControllerSettings,
        topic: &TopicImage,
        partition_id: PartitionId,
        partition: &'a PartitionRegistration,
    ) -> PartitionChange<'a> {
        let replicas = topic.partitions.values().next().map_or(0, |partition| partition.replicas.len());
        let config = settings.of_topic(image, &topic.name);
        PartitionChange {
            topic_id: topic.id,
            partition_id,
            partition,
            target_isr: partition.isr.clone(),
            unclean_shutdown: None,
            unclean_election: config.unclean_leader_election,
            min_isr: config.min_insync_replicas.min(replicas),
            elr_enabled: image.elr_enabled(),
            version: image.metadata_version(),
            directories: None,
        }
    }

    /// The record of the change, if there is one. `acceptable` says whether a broker could lead this partition now.
    pub fn decide(self, acceptable: impl Fn(BrokerId) -> bool) -> Option<VersionedRecord> {
        let mut record = PartitionChangeRecord {
            topic_id: self.topic_id,
            partition_id: self.partition_id,
            ..PartitionChangeRecord::default()
        };
        record.directories = self.directories.clone().filter(|directories| *directories != self.partition.directories);
        let mut isr = self.target_isr.clone();
        let mut elr = self.target_elr();

        let Election { leader, unclean } = self.elect(&isr, &elr, acceptable);
        if leader != self.partition.leader {
            record.leader = leader.unwrap_or(NO_LEADER);
            if let Some(leader) = leader.filter(|leader| elr.contains(leader)) {
                isr = vec![leader];
                elr.retain(|replica| *replica != leader);
            }
            if unclean {
                isr = leader.into_iter().collect();
                elr.clear();
                record.isr = Some(isr.clone());
                if self.partition.leader_recovery_state != LeaderRecoveryState::Recovering {
                    record.leader_recovery_state = LeaderRecoveryState::Recovering.code();
                }
            }
        }
        if elr != self.partition.elr {
            record.eligible_leader_replicas = Some(elr);
        }
        // Without ELR a partition keeps its last in-sync replica, even while that one is down.
        if record.isr.is_none() && isr != self.partition.isr && (!isr.is_empty() || self.elr_enabled) {
            record.isr = Some(isr);
        }
        if self.version.bumps_leader_epoch_on_isr_shrink()
            && record.leader == NO_LEADER_CHANGE
            && record.isr.as_ref().is_some_and(|isr| self.partition.isr.iter().any(|replica| !isr.contains(replica)))
        {
            record.leader = self.partition.leader.unwrap_or(NO_LEADER);
        }
        if self.elr_enabled {
            if record.leader == NO_LEADER && self.partition.last_known_elr.is_empty() {
                record.last_known_elr = Some(vec![self.partition.leader.unwrap_or(NO_LEADER)]);
            } else if record.leader.0 >= 0 && !self.partition.last_known_elr.is_empty() {
                record.last_known_elr = Some(Vec::new());
            }
        }

        let nothing =
            PartitionChangeRecord { topic_id: self.topic_id, partition_id: self.partition_id, ..Default::default() };
        (record != nothing).then(|| VersionedRecord::at(self.version.partition_change_record_version(), record))
    }

    fn target_elr(&self) -> Vec<BrokerId> {
        if !self.elr_enabled || self.target_isr.len() >= self.min_isr {
            return Vec::new();
        }
        let eligible: BTreeSet<BrokerId> = self.partition.elr.iter().chain(&self.partition.isr).copied().collect();
        eligible
            .into_iter()
            .filter(|replica| !self.target_isr.contains(replica) && self.unclean_shutdown != Some(*replica))
            .collect()
    }

    fn elect(&self, isr: &[BrokerId], elr: &[BrokerId], acceptable: impl Fn(BrokerId) -> bool) -> Election {
        let valid = |replica: &BrokerId| {
            (isr.contains(replica) || (isr.is_empty() && elr.contains(replica))) && acceptable(*replica)
        };
        let current = self.partition.leader.filter(|leader| valid(leader));
        let clean = current.or_else(|| self.partition.replicas.iter().copied().find(|replica| valid(replica)));
        if clean.is_some() {
            return Election { leader: clean, unclean: false };
        }
        if self.elr_enabled
            && isr.is_empty()
            && elr.is_empty()
            && let [last_known] = self.partition.last_known_elr[..]
            && acceptable(last_known)
        {
            return Election { leader: Some(last_known), unclean: true };
        }
        let any = self.partition.replicas.iter().copied().find(|replica| self.unclean_election && acceptable(*replica));
        Election { leader: any, unclean: any.is_some() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metadata::records::MetadataRecord;
    use crate::types::LeaderEpoch;

    fn ids(ids: &[i32]) -> Vec<BrokerId> {
        ids.iter().copied().map(BrokerId).collect()
    }

    fn partition(replicas: &[i32], isr: &[i32], elr: &[i32], leader: Option<i32>) -> PartitionRegistration {
        PartitionRegistration {
            replicas: ids(replicas),
            directories: vec![DirectoryId::MIGRATING; replicas.len()],
            isr: ids(isr),
            removing_replicas: Vec::new(),
            adding_replicas: Vec::new(),
            elr: ids(elr),
            last_known_elr: Vec::new(),
            leader: leader.map(BrokerId),
            leader_recovery_state: LeaderRecoveryState::Recovered,
            leader_epoch: LeaderEpoch(3),
            partition_epoch: 5,
        }
    }

    fn change<'a>(partition: &'a PartitionRegistration, target_isr: &[i32], min_isr: usize) -> PartitionChange<'a> {
        PartitionChange {
            topic_id: TopicId::METADATA,
            partition_id: PartitionId(0),
            partition,
            target_isr: ids(target_isr),
            unclean_shutdown: None,
            unclean_election: false,
            min_isr,
            elr_enabled: true,
            version: MetadataVersion::LATEST,
            directories: None,
        }
    }

    fn decide(change: PartitionChange<'_>, alive: &[i32]) -> Option<PartitionChangeRecord> {
        change.decide(|broker| alive.contains(&broker.0)).map(|record| match record.record {
            MetadataRecord::PartitionChange(record) => record,
            other => panic!("{other:?}"),
        })
    }

    fn record() -> PartitionChangeRecord {
        PartitionChangeRecord {
            topic_id: TopicId::METADATA,
            partition_id: PartitionId(0),
            ..PartitionChangeRecord::default()
        }
    }

    #[test]
    fn the_only_replica_goes_and_comes_back() {
        // A clean shutdown, as Kafka 4.3.1 records it.
        let up = partition(&[1], &[1], &[], Some(1));
        let gone = decide(change(&up, &[], 1), &[]).unwrap();
        let expected = PartitionChangeRecord {
            isr: Some(vec![]),
            leader: NO_LEADER,
            eligible_leader_replicas: Some(ids(&[1])),
            last_known_elr: Some(ids(&[1])),
            ..record()
        };
        assert_eq!(gone, expected);

        let down = PartitionRegistration { last_known_elr: ids(&[1]), ..partition(&[1], &[], &[1], None) };
        let back = decide(change(&down, &[], 1), &[1]).unwrap();
        let expected = PartitionChangeRecord {
            isr: Some(ids(&[1])),
            leader: BrokerId(1),
            eligible_leader_replicas: Some(vec![]),
            last_known_elr: Some(vec![]),
            ..record()
        };
        assert_eq!(back, expected);
    }

    #[test]
    fn after_a_crash_the_last_known_leader_recovers() {
        let up = partition(&[1], &[1], &[], Some(1));
        let crashed = PartitionChange { unclean_shutdown: Some(BrokerId(1)), ..change(&up, &[], 1) };
        let gone = decide(crashed, &[]).unwrap();
        let expected =
            PartitionChangeRecord { isr: Some(vec![]), leader: NO_LEADER, last_known_elr: Some(ids(&[1])), ..record() };
        assert_eq!(gone, expected);

        let down = PartitionRegistration { last_known_elr: ids(&[1]), ..partition(&[1], &[], &[], None) };
        let back = decide(change(&down, &[], 1), &[1]).unwrap();
        let expected = PartitionChangeRecord {
            isr: Some(ids(&[1])),
            leader: BrokerId(1),
            leader_recovery_state: 1,
            last_known_elr: Some(vec![]),
            ..record()
        };
        assert_eq!(back, expected);
    }

    #[test]
    fn the_leader_moves_within_the_isr() {
        let up = partition(&[1, 2, 3], &[1, 3], &[], Some(1));
        let moved = decide(change(&up, &[3], 1), &[2, 3]).unwrap();
        assert_eq!(moved, PartitionChangeRecord { isr: Some(ids(&[3])), leader: BrokerId(3), ..record() });
        assert_eq!(decide(change(&up, &[1, 3], 1), &[1, 2, 3]), None);
    }

    #[test]
    fn below_min_isr_who_leaves_becomes_eligible() {
        let up = partition(&[1, 2, 3], &[1, 2], &[], Some(1));
        let shrunk = decide(change(&up, &[1], 2), &[1]).unwrap();
        let expected =
            PartitionChangeRecord { isr: Some(ids(&[1])), eligible_leader_replicas: Some(ids(&[2])), ..record() };
        assert_eq!(shrunk, expected);
    }

    #[test]
    fn without_elr_the_last_isr_stays_and_unclean_is_a_choice() {
        let up = partition(&[1, 2], &[1], &[], Some(1));
        let off = |change| PartitionChange { elr_enabled: false, version: MetadataVersion(21), ..change };
        let gone = decide(off(change(&up, &[], 1)), &[2]).unwrap();
        assert_eq!(gone, PartitionChangeRecord { leader: NO_LEADER, ..record() });
        let unclean = PartitionChange { unclean_election: true, ..off(change(&up, &[], 1)) };
        let elected = decide(unclean, &[2]).unwrap();
        let expected =
            PartitionChangeRecord { isr: Some(ids(&[2])), leader: BrokerId(2), leader_recovery_state: 1, ..record() };
        assert_eq!(elected, expected);
    }
}
