//! Who owns what, as the clients see it and as the coordinator does.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::{Partitions, World};
use crate::coordinator::group::Group;
use crate::types::{PartitionId, TopicId};

/// As the clients see it.
#[derive(Default)]
pub(super) struct Owners {
    /// The member ids of those who have not given up, be it that they are dead.
    by_partition: BTreeMap<(TopicId, PartitionId), String>,
    /// The clients that got them in the latest generations, by the classic protocol.
    by_generation: BTreeMap<i32, HashMap<(TopicId, PartitionId), usize>>,
}

impl Owners {
    pub(super) fn take(
        &mut self,
        partitions: impl IntoIterator<Item = (TopicId, PartitionId)>,
        member_id: &str,
        world: &World,
    ) {
        for partition in partitions {
            let before = self.by_partition.insert(partition, member_id.to_owned());
            let Some(other) = before.filter(|other| other != member_id) else { continue };
            // The one before may be dead, or not know yet that it is out. But the coordinator does know, or it must not give the
            // partition away. A static member of the classic protocol that misses a rebalance stays all the same.
            let is_member = match world.group() {
                None => false,
                Some(Group::Classic(group)) => group.member(&other).is_some_and(|member| !member.is_static()),
                Some(Group::Consumer(group)) => group
                    .member(&other)
                    .is_some_and(|member| !member.uses_classic_protocol() || member.instance_id.is_none()),
            };
            assert!(!is_member, "{member_id} gets {}-{}, which {other} owns", partition.0, partition.1);
        }
    }

    pub(super) fn give_up(&mut self, partitions: impl IntoIterator<Item = (TopicId, PartitionId)>, member_id: &str) {
        for partition in partitions {
            if self.by_partition.get(&partition).is_some_and(|owner| owner == member_id) {
                self.by_partition.remove(&partition);
            }
        }
    }

    /// The group became a classic group, whose members have what was their target, and meet at once because it may not be what they
    /// own.
    pub(super) fn on_downgrade(&mut self) {
        self.by_partition.clear();
    }

    /// The group was removed, and begins anew.
    pub(super) fn on_first_generation(&mut self) {
        self.by_generation.clear();
    }

    /// In a generation, a partition is with one client.
    pub(super) fn take_in_generation(&mut self, generation_id: i32, partitions: &Partitions, client: usize) {
        let owners = self.by_generation.entry(generation_id).or_default();
        for (topic, partition) in partitions {
            let other = *owners.entry((*topic, *partition)).or_insert(client);
            assert_eq!(other, client, "both own {topic}-{partition} in generation {generation_id}");
        }
        while self.by_generation.len() > 8 {
            self.by_generation.pop_first();
        }
    }
}

/// As the coordinator of a consumer group sees it: no partition is with two members, be it to keep or to give up, nor in two
/// targets.
pub(super) fn check(world: &World) {
    let Some(Group::Consumer(group)) = world.group() else { return };
    let mut owners: BTreeMap<(TopicId, PartitionId), &str> = BTreeMap::new();
    let mut targets = BTreeSet::new();
    for member in group.members() {
        for (topic, partitions) in member.assigned.iter().chain(member.pending_revocation.iter()) {
            for partition in partitions.keys() {
                let other = owners.insert((*topic, *partition), &member.member_id);
                assert_eq!(other, None, "{} and another own {topic}-{partition}", member.member_id);
            }
        }
        let target = group.target_assignment(&member.member_id);
        for (topic, partitions) in target.into_iter().flat_map(|target| target.iter()) {
            for partition in partitions {
                assert!(targets.insert((*topic, *partition)), "{topic}-{partition} is in two targets");
            }
        }
    }
}
