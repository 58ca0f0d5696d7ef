//! The uniform assignment of a group whose members subscribe to different topics.
//!
//! 1. Everyone keeps what it has, but for topics that it no longer subscribes to.
//! 2. Topic by topic, those with the most partitions for each subscriber first, partitions that nobody has go to the subscribers with the
//!    fewest partitions.
//! 3. Topic by topic, partitions move from the subscribers with the most to those with the fewest, until these differ by one at most.
//!    This is repeated until a whole round moves nothing, or a limit of rounds.
//!
//! Where subscriptions overlap without being equal the result is near to balance and not always balanced: with members A (topic 1),
//! B (topics 1 and 2) and C (topic 2), 9, 10 and 11 partitions look balanced topic by topic.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::super::iteration_order::topic_sort_key;
use super::super::{AssignError, GroupAssignment, GroupSpec, MemberSpec, TopicPartitions, unless_equal};
use super::balancer::Balancer;
use crate::config::java;
use crate::types::{PartitionId, TopicId};

/// As Kafka's: a round roughly halves what is missing to balance.
const MAX_ROUNDS: usize = 16;

/// A subscribed topic.
struct Topic {
    id: TopicId,
    /// Indices of members, ascending.
    subscribers: Vec<usize>,
    /// The index of the member that gets it, for each partition.
    owners: Vec<Option<usize>>,
}

impl Topic {
    /// Where it comes in the order of topics: by partitions for each subscriber, descending; then by subscribers; then by id.
    fn order(&self, other: &Topic) -> std::cmp::Ordering {
        let partitions_per_subscriber = |topic: &Topic| topic.owners.len() as f64 / topic.subscribers.len() as f64;
        partitions_per_subscriber(other)
            .total_cmp(&partitions_per_subscriber(self))
            .then_with(|| self.subscribers.len().cmp(&other.subscribers.len()))
            .then_with(|| topic_sort_key(self.id).cmp(&topic_sort_key(other.id)))
    }
}

pub(super) fn assign(
    spec: &GroupSpec,
    partition_count: &dyn Fn(TopicId) -> Option<usize>,
) -> Result<GroupAssignment, AssignError> {
    let mut members: Vec<(&Arc<str>, &MemberSpec)> = spec.members.iter().collect();
    java::sort_by_hash(&mut members, java::grown_table(spec.members.len()), |(id, _)| java::string_hash(id));

    let mut topics = subscribed_topics(&members, partition_count)?;
    // How many partitions each member has.
    let mut sizes = vec![0; members.len()];
    keep(&members, &mut topics, &mut sizes);

    let mut topics: Vec<Topic> = topics.into_values().collect();
    topics.sort_by(Topic::order);
    for topic in &mut topics {
        assign_remaining(topic, &mut sizes);
    }
    balance(&mut topics, &mut sizes);

    let mut targets = vec![TopicPartitions::new(); members.len()];
    for topic in &topics {
        for (partition, owner) in topic.owners.iter().enumerate() {
            let owner = owner.expect("a subscribed topic has a subscriber to take its partitions");
            targets[owner].entry(topic.id).or_default().insert(PartitionId(partition as i32));
        }
    }
    let targets = targets.into_iter().zip(members);
    let finish = |(target, (id, member)): (_, (&Arc<str>, &MemberSpec))| {
        (Arc::clone(id), unless_equal(target, &member.assigned))
    };
    Ok(GroupAssignment { members: targets.map(finish).collect() })
}

fn subscribed_topics(
    members: &[(&Arc<str>, &MemberSpec)],
    partition_count: &dyn Fn(TopicId) -> Option<usize>,
) -> Result<BTreeMap<TopicId, Topic>, AssignError> {
    let mut topics: BTreeMap<TopicId, Topic> = BTreeMap::new();
    for (at, (_, member)) in members.iter().enumerate() {
        for &id in member.subscribed.iter() {
            if let Some(topic) = topics.get_mut(&id) {
                topic.subscribers.push(at);
                continue;
            }
            let count = partition_count(id).ok_or(AssignError::UnknownTopic(id))?;
            topics.insert(id, Topic { id, subscribers: vec![at], owners: vec![None; count] });
        }
    }
    Ok(topics)
}

/// Everyone keeps what it has and subscribes to, if it exists and nobody else has it already.
fn keep(members: &[(&Arc<str>, &MemberSpec)], topics: &mut BTreeMap<TopicId, Topic>, sizes: &mut [usize]) {
    for (at, (_, member)) in members.iter().enumerate() {
        for (id, partitions) in member.assigned.iter().filter(|(id, _)| member.subscribed.contains(id)) {
            let topic = topics.get_mut(id).expect("every subscribed topic was counted");
            for partition in partitions {
                let owner = usize::try_from(partition.0).ok().and_then(|partition| topic.owners.get_mut(partition));
                if let Some(owner @ None) = owner {
                    *owner = Some(at);
                    sizes[at] += 1;
                }
            }
        }
    }
}

/// Gives the partitions that nobody has to the subscribers with the fewest partitions.
fn assign_remaining(topic: &mut Topic, sizes: &mut [usize]) {
    let mut free = topic.owners.iter_mut().filter(|owner| owner.is_none()).peekable();
    if free.peek().is_none() {
        return;
    }
    let mut balancer = Balancer::new(&topic.subscribers, sizes);
    for owner in free {
        let member = balancer.next_least_loaded(sizes);
        *owner = Some(member);
        sizes[member] += 1;
    }
}

/// Moves partitions until a round over all topics finds nothing to move.
fn balance(topics: &mut [Topic], sizes: &mut [usize]) {
    let mut movable: Vec<&mut Topic> = topics.iter_mut().filter(|topic| topic.subscribers.len() >= 2).collect();
    // The topic at which something moved last: back there, a whole round has moved nothing. Before anything moved it is the first one.
    let mut last_moved = None;
    for _ in 0..MAX_ROUNDS {
        for (at, topic) in movable.iter_mut().enumerate() {
            if last_moved == Some(at) {
                return;
            }
            if balance_topic(topic, sizes) || last_moved.is_none() {
                last_moved = Some(at);
            }
        }
    }
}

/// Moves partitions of one topic. False if it needed no move.
fn balance_topic(topic: &mut Topic, sizes: &mut [usize]) -> bool {
    let mut balancer = Balancer::new(&topic.subscribers, sizes);
    if balancer.imbalance(sizes) <= 1 {
        return false;
    }
    // What each subscriber owned at first, ascending: it gives from the end, and does not give on what it was just given.
    let mut owned: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (partition, owner) in topic.owners.iter().enumerate() {
        let owner = owner.expect("partitions are balanced once all are assigned");
        owned.entry(owner).or_default().push(partition);
    }
    let mut moved = false;
    while !balancer.is_balanced() {
        let Some((giver, partition)) = next_to_give(&mut balancer, &mut owned, sizes) else {
            break;
        };
        let taker = balancer.next_least_loaded(sizes);
        if balancer.is_balanced() {
            break;
        }
        topic.owners[partition] = Some(taker);
        sizes[giver] -= 1;
        sizes[taker] += 1;
        moved = true;
    }
    moved
}

/// The subscriber with the most partitions among those that own any of this topic, and the partition it gives.
fn next_to_give(
    balancer: &mut Balancer,
    owned: &mut BTreeMap<usize, Vec<usize>>,
    sizes: &[usize],
) -> Option<(usize, usize)> {
    loop {
        let giver = balancer.next_most_loaded(sizes)?;
        match owned.get_mut(&giver).and_then(Vec::pop) {
            Some(partition) => return Some((giver, partition)),
            None => balancer.exclude_most_loaded(),
        }
    }
}
