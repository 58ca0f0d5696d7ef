//! The uniform assignment of a group whose members all subscribe to the same topics.
//!
//! Everyone may keep up to its quota of what it has: the number of partitions over the number of members, and one more for as many
//! members as it does not come out even by. Those who have the one more already come first, so nothing moves that need not. What nobody
//! has, and what was beyond a quota, then goes to the members below theirs, in order.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::super::iteration_order::{hash_of_partition, hash_of_topic};
use super::super::{AssignError, GroupAssignment, GroupSpec, MemberSpec, TopicPartitions};
use crate::config::java;
use crate::types::{PartitionId, TopicId};

/// What is known of a partition while quotas are filled.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Owner {
    /// In nobody's target.
    Nobody,
    /// In the target of a member that has not been looked at yet.
    Member,
    /// Dealt with: kept by its owner, or given up by it.
    Seen,
}

/// A member's target in the making.
struct Target<'a> {
    id: &'a Arc<str>,
    member: &'a MemberSpec,
    /// A copy of the old target, once something changes in it.
    changed: Option<TopicPartitions>,
    /// How many more partitions it is to get.
    remaining_quota: usize,
}

impl Target<'_> {
    fn change(&mut self) -> &mut TopicPartitions {
        self.changed.get_or_insert_with(|| TopicPartitions::clone(&self.member.assigned))
    }

    fn remove(&mut self, topic: TopicId, partition: PartitionId) {
        let partitions = self.change();
        if let Some(of_topic) = partitions.get_mut(&topic) {
            of_topic.remove(&partition);
            if of_topic.is_empty() {
                partitions.remove(&topic);
            }
        }
    }
}

pub(super) fn assign(
    spec: &GroupSpec,
    partition_count: &dyn Fn(TopicId) -> Option<usize>,
) -> Result<GroupAssignment, AssignError> {
    let Some(first) = spec.members.values().next() else {
        return Ok(GroupAssignment::default());
    };
    let mut owners: BTreeMap<TopicId, Vec<Owner>> = BTreeMap::new();
    let mut partitions = 0;
    for &topic in first.subscribed.iter() {
        let count = partition_count(topic).ok_or(AssignError::UnknownTopic(topic))?;
        owners.insert(topic, vec![Owner::Nobody; count]);
        partitions += count;
    }

    let mut members: Vec<(&Arc<str>, &MemberSpec)> = spec.members.iter().collect();
    java::sort_by_hash(&mut members, java::grown_table(spec.members.len()), |(id, _)| java::string_hash(id));
    for (_, member) in &members {
        for (topic, of_topic) in member.assigned.iter() {
            for &partition in of_topic {
                if let Some(owner) = owner_of(&mut owners, *topic, partition) {
                    *owner = Owner::Member;
                }
            }
        }
    }
    let mut unassigned = unassigned_partitions(&owners);

    let quota = partitions / members.len();
    // How many of the members still to come get one partition beyond the quota.
    let mut extras = partitions % members.len();
    let mut targets = Vec::with_capacity(members.len());
    for (at, &(id, member)) in members.iter().enumerate() {
        let mut target = Target { id, member, changed: None, remaining_quota: quota + usize::from(extras > 0) };
        keep_up_to_quota(&mut target, &mut owners, &mut unassigned);
        if extras > 0 {
            // The extra partition is left to a member that has it already, as long as enough members come after this one.
            if target.remaining_quota > 0 && members.len() - at > extras {
                target.remaining_quota -= 1;
            } else {
                extras -= 1;
            }
        }
        targets.push(target);
    }

    let mut unassigned = unassigned.into_iter();
    for target in targets.iter_mut().filter(|target| target.remaining_quota > 0) {
        for (topic, partition) in unassigned.by_ref().take(target.remaining_quota) {
            target.change().entry(topic).or_default().insert(partition);
        }
    }
    assert!(unassigned.next().is_none(), "the quotas add up to the number of partitions");

    let finish = |target: Target<'_>| {
        let partitions = target.changed.map_or_else(|| Arc::clone(&target.member.assigned), Arc::new);
        (Arc::clone(target.id), partitions)
    };
    Ok(GroupAssignment { members: targets.into_iter().map(finish).collect() })
}

/// The state of a partition, if its topic is subscribed to and has it.
fn owner_of(owners: &mut BTreeMap<TopicId, Vec<Owner>>, topic: TopicId, partition: PartitionId) -> Option<&mut Owner> {
    owners.get_mut(&topic)?.get_mut(usize::try_from(partition.0).ok()?)
}

fn unassigned_partitions(owners: &BTreeMap<TopicId, Vec<Owner>>) -> Vec<(TopicId, PartitionId)> {
    let mut topics: Vec<(&TopicId, &Vec<Owner>)> = owners.iter().collect();
    java::sort_by_hash(&mut topics, java::copied_set(owners.len()), |(topic, _)| hash_of_topic(**topic));
    let mut unassigned = Vec::new();
    for (topic, of_topic) in topics {
        let free = of_topic.iter().enumerate().filter(|(_, owner)| **owner == Owner::Nobody);
        unassigned.extend(free.map(|(partition, _)| (*topic, PartitionId(partition as i32))));
    }
    unassigned
}

/// Lets a member keep what it has up to its quota; the rest is unassigned. What is no longer subscribed to, or does not exist, or has
/// another owner already, it loses.
fn keep_up_to_quota(
    target: &mut Target<'_>,
    owners: &mut BTreeMap<TopicId, Vec<Owner>>,
    unassigned: &mut Vec<(TopicId, PartitionId)>,
) {
    let assigned = Arc::clone(&target.member.assigned);
    let mut topics: Vec<_> = assigned.iter().collect();
    java::sort_by_hash(&mut topics, java::grown_table(assigned.len()), |(topic, _)| hash_of_topic(**topic));
    for (&topic, of_topic) in topics {
        let mut partitions: Vec<PartitionId> = of_topic.iter().copied().collect();
        if partitions.len() > target.remaining_quota {
            let slots = java::copied_set(partitions.len());
            java::sort_by_hash(&mut partitions, slots, |&partition| hash_of_partition(partition));
        }
        for partition in partitions {
            match owner_of(owners, topic, partition) {
                Some(owner @ Owner::Member) => {
                    *owner = Owner::Seen;
                    if target.remaining_quota > 0 {
                        target.remaining_quota -= 1;
                    } else {
                        target.remove(topic, partition);
                        unassigned.push((topic, partition));
                    }
                }
                Some(Owner::Seen | Owner::Nobody) | None => target.remove(topic, partition),
            }
        }
    }
}
