//! A consumer group (KIP-848): its members, what they subscribe to, what they are to have, and what they own.
//!
//! Everything here is what records say ([`GroupShard`](crate::coordinator::group::GroupShard)'s `replay_…`), but for
//! the time of the next look at the metadata, which is soft. Counters are kept beside the members, so that a heartbeat
//! costs the same in a group of any size.
//!
//! | state | means |
//! |---|---|
//! | Empty | no members |
//! | Assigning | the group's epoch is ahead of the target assignment's |
//! | Reconciling | members are on their way to the target assignment |
//! | Stable | every member has what the target assignment gives it |

mod subscriptions;

use std::borrow::Borrow;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use tracing::error;

pub use self::subscriptions::SubscriptionCount;
use super::member::{ConsumerGroupMember, MemberState, PartitionsWithEpochs};
use super::regexes::RegexLook;
use super::topics::SubscribedTopics;
use crate::config::BrokerConfig;
use crate::coordinator::group::assignor::{Assignor, TopicPartitions};
use crate::coordinator::group::consumer_protocol::PROTOCOL_TYPE;
use crate::types::{PartitionId, TopicId, TopicName};

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConsumerGroupState {
    Empty,
    Assigning,
    Reconciling,
    Stable,
}

impl ConsumerGroupState {
    /// Kafka's name.
    pub fn name(self) -> &'static str {
        match self {
            ConsumerGroupState::Empty => "Empty",
            ConsumerGroupState::Assigning => "Assigning",
            ConsumerGroupState::Reconciling => "Reconciling",
            ConsumerGroupState::Stable => "Stable",
        }
    }
}

/// What a regular expression matched when it was last looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResolvedRegularExpression {
    pub topics: Arc<BTreeSet<TopicName>>,
    /// Offset of the metadata image that was looked at.
    pub version: i64,
    /// When, in milliseconds since 1970.
    pub timestamp_ms: i64,
}

/// See the module.
#[derive(Debug)]
pub struct ConsumerGroup {
    group_id: Arc<str>,
    group_epoch: i32,
    /// Hash of the subscribed topics' metadata as of the group's epoch.
    metadata_hash: i64,
    assignment_epoch: i32,
    /// When the target assignment was computed; 0: not known.
    assignment_timestamp_ms: i64,
    members: BTreeMap<Arc<str>, Arc<ConsumerGroupMember>>,
    target_assignment: BTreeMap<Arc<str>, Arc<TopicPartitions>>,
    resolved_regexes: BTreeMap<Arc<str>, ResolvedRegularExpression>,
    /// Whether the log holds a record that brokers before 4.1 kept the topics' metadata in.
    has_partition_metadata_record: bool,
    /// When to look at the metadata again (milliseconds since 1970), and the group epoch that says so. Soft.
    metadata_refresh_deadline: (i64, i32),
    /// When its regular expressions were looked at (milliseconds since 1970), if what that found is not in the log. Soft.
    unwritten_regex_look_ms: Option<i64>,
    /// A look at the regular expressions that takes several steps. Soft.
    regex_look: Option<Box<RegexLook>>,

    // What follows from the members and regular expressions.
    /// Member id by instance id.
    static_members: BTreeMap<Arc<str>, Arc<str>>,
    subscribed_topics: BTreeMap<TopicName, SubscriptionCount>,
    subscribed_regexes: BTreeMap<Arc<str>, usize>,
    /// How many vote for each assignor.
    server_assignors: BTreeMap<Arc<str>, usize>,
    classic_members: usize,
    /// How many members support each classic protocol.
    classic_protocols: BTreeMap<String, usize>,
    /// How many members are stable in each epoch.
    stable_members: BTreeMap<i32, usize>,
    /// The member epoch of the owner of each partition that has one. Only looked up, never walked.
    partition_epochs: HashMap<(TopicId, PartitionId), i32>,
}

impl ConsumerGroup {
    pub fn new(group_id: Arc<str>) -> ConsumerGroup {
        ConsumerGroup {
            group_id,
            // So that a new group's first change is epoch 2.
            group_epoch: 1,
            metadata_hash: 0,
            assignment_epoch: 1,
            assignment_timestamp_ms: 0,
            members: BTreeMap::new(),
            target_assignment: BTreeMap::new(),
            resolved_regexes: BTreeMap::new(),
            has_partition_metadata_record: false,
            metadata_refresh_deadline: (0, 0),
            unwritten_regex_look_ms: None,
            regex_look: None,
            static_members: BTreeMap::new(),
            subscribed_topics: BTreeMap::new(),
            subscribed_regexes: BTreeMap::new(),
            server_assignors: BTreeMap::new(),
            classic_members: 0,
            classic_protocols: BTreeMap::new(),
            stable_members: BTreeMap::new(),
            partition_epochs: HashMap::new(),
        }
    }

    pub fn group_id(&self) -> &Arc<str> {
        &self.group_id
    }

    pub fn state(&self) -> ConsumerGroupState {
        if self.members.is_empty() {
            ConsumerGroupState::Empty
        } else if self.group_epoch > self.assignment_epoch {
            ConsumerGroupState::Assigning
        } else if self.stable_members.get(&self.assignment_epoch) == Some(&self.members.len()) {
            ConsumerGroupState::Stable
        } else {
            ConsumerGroupState::Reconciling
        }
    }

    pub fn state_name(&self) -> &'static str {
        self.state().name()
    }

    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    pub fn group_epoch(&self) -> i32 {
        self.group_epoch
    }

    /// The group epoch of the target assignment.
    pub fn assignment_epoch(&self) -> i32 {
        self.assignment_epoch
    }

    pub fn assignment_timestamp_ms(&self) -> i64 {
        self.assignment_timestamp_ms
    }

    pub fn metadata_hash(&self) -> i64 {
        self.metadata_hash
    }

    /// All members, in the order of their ids.
    pub fn members(&self) -> impl Iterator<Item = &Arc<ConsumerGroupMember>> {
        self.members.values()
    }

    pub fn num_members(&self) -> usize {
        self.members.len()
    }

    pub fn member(&self, member_id: &str) -> Option<&Arc<ConsumerGroupMember>> {
        self.members.get(member_id)
    }

    /// The member that has this instance id.
    pub fn static_member(&self, instance_id: &str) -> Option<&Arc<ConsumerGroupMember>> {
        self.members.get(self.static_members.get(instance_id)?)
    }

    pub fn is_subscribed_to_topic(&self, topic: &str) -> bool {
        self.subscribed_topics.contains_key(topic)
    }

    pub fn subscribed_topics(&self) -> &BTreeMap<TopicName, SubscriptionCount> {
        &self.subscribed_topics
    }

    /// What a member is to have.
    pub fn target_assignment(&self, member_id: &str) -> Option<&Arc<TopicPartitions>> {
        self.target_assignment.get(member_id)
    }

    /// What a member is to have, if need be by the id that its instance had before.
    pub(super) fn target_assignment_of(&self, member: &ConsumerGroupMember) -> Arc<TopicPartitions> {
        let member_id = match &member.instance_id {
            None => Some(&member.member_id),
            Some(instance_id) => self.static_members.get(instance_id),
        };
        member_id.and_then(|member_id| self.target_assignment.get(member_id)).cloned().unwrap_or_default()
    }

    pub fn resolved_regex(&self, regex: &str) -> Option<&ResolvedRegularExpression> {
        self.resolved_regexes.get(regex)
    }

    pub fn resolved_regexes(&self) -> &BTreeMap<Arc<str>, ResolvedRegularExpression> {
        &self.resolved_regexes
    }

    /// How many members subscribe by each regular expression.
    pub fn subscribed_regexes(&self) -> &BTreeMap<Arc<str>, usize> {
        &self.subscribed_regexes
    }

    pub(super) fn subscribers_of_regex(&self, regex: &str) -> usize {
        self.subscribed_regexes.get(regex).copied().unwrap_or(0)
    }

    /// When its regular expressions were last looked at, and the offset of the image: all of them at once.
    pub(super) fn last_regex_refresh(&self) -> Option<(i64, i64)> {
        self.resolved_regexes.values().next().map(|resolved| (resolved.timestamp_ms, resolved.version))
    }

    pub(super) fn has_partition_metadata_record(&self) -> bool {
        self.has_partition_metadata_record
    }

    /// The assignor that most members vote for, if any votes, with a member in the place of another.
    pub(super) fn preferred_assignor(
        &self,
        old: Option<&ConsumerGroupMember>,
        new: Option<&ConsumerGroupMember>,
    ) -> Option<Arc<str>> {
        let vote = |member: Option<&ConsumerGroupMember>| member.and_then(|member| member.server_assignor.clone());
        let mut votes = self.server_assignors.clone();
        if let Some(name) = vote(old) {
            decrement(&mut votes, &name);
        }
        if let Some(name) = vote(new) {
            *votes.entry(name).or_default() += 1;
        }
        // A tie goes to the first in Kafka's order of its assignors.
        let rank = |name: &str| Assignor::ALL.iter().position(|assignor| assignor.name() == name);
        votes
            .into_iter()
            .max_by_key(|(name, votes)| (*votes, std::cmp::Reverse(rank(name).unwrap_or(usize::MAX))))
            .map(|(name, _)| name)
    }

    /// The assignor's name, as descriptions show it.
    pub fn assignor_name(&self, config: &BrokerConfig) -> String {
        match self.preferred_assignor(None, None) {
            Some(name) => name.to_string(),
            None => default_assignor(config).name().to_owned(),
        }
    }

    /// The member epoch of a partition's owner.
    pub(super) fn partition_epoch(&self, topic: TopicId, partition: PartitionId) -> Option<i32> {
        self.partition_epochs.get(&(topic, partition)).copied()
    }

    /// Whether a member in state UnreleasedPartitions must go on waiting.
    pub(super) fn waits_for_partitions(&self, member: &ConsumerGroupMember) -> bool {
        if member.state != MemberState::UnreleasedPartitions {
            return false;
        }
        let Some(target) = self.target_assignment.get(&member.member_id) else { return false };
        target.iter().any(|(topic, partitions)| {
            let assigned = member.assigned.get(topic);
            partitions.iter().any(|partition| {
                !assigned.is_some_and(|assigned| assigned.contains_key(partition))
                    && self.partition_epoch(*topic, *partition).is_some()
            })
        })
    }

    /// Whether a classic member with these protocols has one that all other classic members have too.
    pub fn supports_classic_protocols<'a>(
        &self,
        protocol_type: &str,
        mut protocols: impl Iterator<Item = &'a str>,
    ) -> bool {
        protocol_type == PROTOCOL_TYPE
            && if self.is_empty() {
                protocols.next().is_some()
            } else {
                protocols.any(|name| self.classic_protocols.get(name).copied().unwrap_or(0) == self.classic_members)
            }
    }

    pub fn num_classic_members(&self) -> usize {
        self.classic_members
    }

    // Soft state.

    pub(super) fn has_metadata_expired(&self, now_ms: i64) -> bool {
        let (deadline_ms, epoch) = self.metadata_refresh_deadline;
        // A deadline of an epoch that never came (its records were not appended) says nothing.
        now_ms >= deadline_ms || self.group_epoch < epoch
    }

    pub(super) fn set_metadata_refresh_deadline(&mut self, deadline_ms: i64, group_epoch: i32) {
        self.metadata_refresh_deadline = (deadline_ms, group_epoch);
    }

    pub(super) fn request_metadata_refresh(&mut self) {
        self.metadata_refresh_deadline = (0, 0);
    }

    pub(super) fn unwritten_regex_look_ms(&self) -> Option<i64> {
        self.unwritten_regex_look_ms
    }

    pub(super) fn set_unwritten_regex_look(&mut self, now_ms: i64) {
        self.unwritten_regex_look_ms = Some(now_ms);
    }

    /// The look that is under way; `None` between two.
    pub(super) fn take_regex_look(&mut self) -> Option<Box<RegexLook>> {
        self.regex_look.take()
    }

    pub(super) fn put_regex_look(&mut self, look: Box<RegexLook>) {
        self.regex_look = Some(look);
    }

    // What records change.

    pub(super) fn set_group_epoch(&mut self, epoch: i32, metadata_hash: i64) {
        self.group_epoch = epoch;
        self.metadata_hash = metadata_hash;
    }

    pub(super) fn set_target_assignment_metadata(&mut self, epoch: i32, timestamp_ms: i64) {
        self.assignment_epoch = epoch;
        self.assignment_timestamp_ms = timestamp_ms;
    }

    pub(super) fn set_has_partition_metadata_record(&mut self, there: bool) {
        self.has_partition_metadata_record = there;
    }

    pub(super) fn update_target_assignment(&mut self, member_id: Arc<str>, partitions: Arc<TopicPartitions>) {
        self.target_assignment.insert(member_id, partitions);
    }

    pub(super) fn remove_target_assignment(&mut self, member_id: &str) {
        self.target_assignment.remove(member_id);
    }

    pub(super) fn has_target_assignments(&self) -> bool {
        !self.target_assignment.is_empty()
    }

    /// Puts a member in the place of the one with its id.
    pub(super) fn update_member(&mut self, new: ConsumerGroupMember, topics: &mut SubscribedTopics) {
        let new = Arc::new(new);
        let old = self.members.insert(Arc::clone(&new.member_id), Arc::clone(&new));
        self.recount(old.as_deref(), Some(&new), topics);
        if let Some(old) = old.filter(|old| old.instance_id != new.instance_id) {
            self.forget_instance(&old);
        }
        if let Some(instance_id) = &new.instance_id {
            self.static_members.insert(Arc::clone(instance_id), Arc::clone(&new.member_id));
        }
    }

    pub(super) fn remove_member(&mut self, member_id: &str, topics: &mut SubscribedTopics) {
        let Some(old) = self.members.remove(member_id) else { return };
        self.recount(Some(&old), None, topics);
        self.forget_instance(&old);
    }

    /// The member's instance id leads to it no more.
    fn forget_instance(&mut self, member: &ConsumerGroupMember) {
        if let Some(instance_id) = &member.instance_id
            && self.static_members.get(instance_id) == Some(&member.member_id)
        {
            self.static_members.remove(instance_id);
        }
    }

    /// All that follows from a member, of another one in its place.
    fn recount(
        &mut self,
        old: Option<&ConsumerGroupMember>,
        new: Option<&ConsumerGroupMember>,
        topics: &mut SubscribedTopics,
    ) {
        let same_names = matches!((old, new), (Some(old), Some(new))
            if old.subscribed_topic_names == new.subscribed_topic_names);
        // First what is new: a topic that stays subscribed to is never forgotten in between.
        if let Some(new) = new {
            if !same_names {
                for name in new.subscribed_topic_names.iter() {
                    self.count_topic(name, topics, |count| count.by_name += 1);
                }
            }
            if let Some(regex) = new.regex() {
                *self.subscribed_regexes.entry(Arc::clone(regex)).or_default() += 1;
            }
            if let Some(name) = &new.server_assignor {
                *self.server_assignors.entry(Arc::clone(name)).or_default() += 1;
            }
            if let Some(classic) = &new.classic {
                self.classic_members += 1;
                for protocol in &classic.supported_protocols {
                    *self.classic_protocols.entry(protocol.name.clone()).or_default() += 1;
                }
            }
            if new.state == MemberState::Stable {
                *self.stable_members.entry(new.member_epoch).or_default() += 1;
            }
        }
        if let Some(old) = old {
            if !same_names {
                for name in old.subscribed_topic_names.iter() {
                    self.count_topic(name, topics, |count| count.by_name = count.by_name.saturating_sub(1));
                }
            }
            if let Some(regex) = old.regex() {
                decrement(&mut self.subscribed_regexes, regex);
            }
            if let Some(name) = &old.server_assignor {
                decrement(&mut self.server_assignors, name);
            }
            if let Some(classic) = &old.classic {
                self.classic_members -= 1;
                for protocol in &classic.supported_protocols {
                    decrement(&mut self.classic_protocols, &protocol.name);
                }
            }
            if old.state == MemberState::Stable {
                decrement(&mut self.stable_members, &old.member_epoch);
            }
        }
        let same_partitions = matches!((old, new), (Some(old), Some(new))
            if old.member_epoch == new.member_epoch
                && Arc::ptr_eq(&old.assigned, &new.assigned)
                && Arc::ptr_eq(&old.pending_revocation, &new.pending_revocation));
        if same_partitions {
            return;
        }
        if let Some(old) = old {
            self.release(&old.assigned, old.member_epoch);
            self.release(&old.pending_revocation, old.member_epoch);
        }
        if let Some(new) = new {
            self.own(&new.assigned, new.member_epoch);
            self.own(&new.pending_revocation, new.member_epoch);
        }
    }

    fn release(&mut self, partitions: &PartitionsWithEpochs, member_epoch: i32) {
        for (topic, partitions) in partitions {
            for partition in partitions.keys() {
                // Another member may own it by now, in a later epoch.
                if self.partition_epochs.get(&(*topic, *partition)) == Some(&member_epoch) {
                    self.partition_epochs.remove(&(*topic, *partition));
                }
            }
        }
    }

    fn own(&mut self, partitions: &PartitionsWithEpochs, member_epoch: i32) {
        for (topic, partitions) in partitions {
            for partition in partitions.keys() {
                let owner = self.partition_epochs.entry((*topic, *partition)).or_insert(i32::MIN);
                if *owner >= member_epoch {
                    // Kafka cannot load such a log at all.
                    error!(group_id = %self.group_id, topic_id = %topic, %partition, epoch = member_epoch,
                        owner_epoch = *owner, "records give a partition to two members");
                }
                *owner = (*owner).max(member_epoch);
            }
        }
    }
}

/// The first of `group.consumer.assignors`.
pub(super) fn default_assignor(config: &BrokerConfig) -> Assignor {
    config.group_consumer_assignors.iter().find_map(|name| Assignor::parse(name)).unwrap_or(Assignor::Uniform)
}

/// One less; none is no entry.
fn decrement<K: Ord + Borrow<Q>, Q: Ord + ?Sized>(counts: &mut BTreeMap<K, usize>, key: &Q) {
    if let Some(count) = counts.get_mut(key) {
        *count -= 1;
        if *count == 0 {
            counts.remove(key);
        }
    }
}
