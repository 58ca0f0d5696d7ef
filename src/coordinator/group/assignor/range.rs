//! `range`: every topic is cut into contiguous ranges, one for each of its subscribers in turn.
//!
//! Members are taken in the order of their instance ids, static ones first, then of their member ids, so a static member that returns
//! under a new member id gets the same ranges. When all members subscribe to the same topics and these have the same number of
//! partitions, everyone gets the same partition numbers of each (co-partitioning, for joins of streams).
//!
//! What a member had plays no part.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

use super::{AssignError, GroupAssignment, GroupSpec, MemberSpec, TopicPartitions, unless_equal};
use crate::types::{PartitionId, TopicId};

/// How far a topic has been handed out.
struct Topic {
    partitions: usize,
    subscribers: usize,
    next_subscriber: usize,
    next_partition: usize,
}

impl Topic {
    /// The range of the next subscriber: the first ones get one partition more when it does not come out even.
    fn next_range(&mut self) -> std::ops::Range<usize> {
        let extra = usize::from(self.next_subscriber < self.partitions % self.subscribers);
        let start = self.next_partition;
        self.next_partition = start + self.partitions / self.subscribers + extra;
        self.next_subscriber += 1;
        start..self.next_partition
    }
}

pub(super) fn assign(
    spec: &GroupSpec,
    partition_count: &dyn Fn(TopicId) -> Option<usize>,
) -> Result<GroupAssignment, AssignError> {
    let mut topics: BTreeMap<TopicId, Topic> = BTreeMap::new();
    for member in spec.members.values() {
        for &topic in member.subscribed.iter() {
            match topics.entry(topic) {
                Entry::Occupied(mut known) => known.get_mut().subscribers += 1,
                Entry::Vacant(new) => {
                    let partitions = partition_count(topic).ok_or(AssignError::UnknownTopic(topic))?;
                    new.insert(Topic { partitions, subscribers: 1, next_subscriber: 0, next_partition: 0 });
                }
            }
        }
    }

    let mut members: Vec<(&Arc<str>, &MemberSpec)> = spec.members.iter().collect();
    members.sort_by(|(id, member), (other_id, other)| match (&member.instance_id, &other.instance_id) {
        (Some(instance_id), Some(other)) => order_of_text(instance_id, other),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => order_of_text(id, other_id),
    });

    let mut assignment = GroupAssignment::default();
    for (id, member) in members {
        let mut target = TopicPartitions::new();
        for &topic in member.subscribed.iter() {
            let range = topics.get_mut(&topic).expect("every subscribed topic was counted").next_range();
            if !range.is_empty() {
                target.insert(topic, range.map(|partition| PartitionId(partition as i32)).collect());
            }
        }
        assignment.members.insert(Arc::clone(id), unless_equal(target, &member.assigned));
    }
    Ok(assignment)
}

/// As Java compares strings: by UTF-16 units, which is not the order of UTF-8 for characters beyond U+FFFF.
fn order_of_text(text: &str, other: &str) -> Ordering {
    if text.is_ascii() && other.is_ascii() { text.cmp(other) } else { text.encode_utf16().cmp(other.encode_utf16()) }
}
