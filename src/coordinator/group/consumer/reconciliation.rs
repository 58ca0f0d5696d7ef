//! How a member gets from what it has to what it is to have: first it gives up, then its epoch advances, then it gets.
//!
//! A member stays in its epoch as long as it owns anything that its target does not have. In the target's epoch it gets
//! what no other member owns, and waits for the rest. So no partition is ever owned by two.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::group::ResolvedRegularExpression;
use super::member::{ConsumerGroupMember, MemberState, PartitionsWithEpochs};
use crate::coordinator::group::assignor::TopicPartitions;
use crate::metadata::image::MetadataImage;
use crate::protocol::{ApiError, ErrorCode};
use crate::types::{PartitionId, TopicId};

/// What a member says that it owns.
pub type OwnedPartitions = Vec<(TopicId, Vec<PartitionId>)>;

/// What one step of a member's way depends on.
pub(super) struct Reconciliation<'a> {
    pub member: &'a ConsumerGroupMember,
    pub image: &'a MetadataImage,
    /// Epoch of the target.
    pub assignment_epoch: i32,
    pub target: &'a TopicPartitions,
    pub subscription_changed: bool,
    pub resolved_regexes: &'a BTreeMap<Arc<str>, ResolvedRegularExpression>,
    /// Whether any member owns a partition.
    pub is_owned: &'a dyn Fn(TopicId, PartitionId) -> bool,
    /// `None`: the member did not say.
    pub owned: Option<&'a OwnedPartitions>,
}

impl Reconciliation<'_> {
    /// The member one step further; `None`: it stays as it is.
    pub fn next(&self) -> Result<Option<ConsumerGroupMember>, ApiError> {
        let member = self.member;
        let next = match member.state {
            MemberState::Stable => {
                if member.member_epoch != self.assignment_epoch {
                    Some(self.towards_target(member.member_epoch))
                } else if self.subscription_changed {
                    self.without_unsubscribed()
                } else {
                    None
                }
            }
            MemberState::UnrevokedPartitions => {
                if !self.owns_any(&member.pending_revocation) {
                    Some(self.towards_target(member.member_epoch))
                } else if self.subscription_changed {
                    self.without_unsubscribed()
                } else {
                    None
                }
            }
            MemberState::UnreleasedPartitions => Some(self.towards_target(member.member_epoch)),
            MemberState::Unknown => {
                if self.owned.is_none_or(|owned| !owned.is_empty()) {
                    return Err(ApiError::new(
                        ErrorCode::FencedMemberEpoch,
                        "The consumer group member is in a unknown state. The member must abandon all its partitions \
                         and rejoin.",
                    ));
                }
                Some(self.towards_target(self.assignment_epoch))
            }
        };
        Ok(next.filter(|next| next != member))
    }

    /// Whether the member still has any of these. It has them all if it does not say.
    fn owns_any(&self, partitions: &PartitionsWithEpochs) -> bool {
        let Some(owned) = self.owned else { return true };
        owned.iter().any(|(topic, owned)| {
            partitions.get(topic).is_some_and(|partitions| owned.iter().any(|one| partitions.contains_key(one)))
        })
    }

    fn is_subscribed(&self, topic: TopicId) -> bool {
        let Some(topic) = self.image.topic_by_id(topic) else { return false };
        if self.member.subscribed_topic_names.contains(&topic.name) {
            return true;
        }
        // An expression that is not resolved yet matches nothing, to be on the safe side.
        let resolved = self.member.regex().and_then(|regex| self.resolved_regexes.get(regex));
        resolved.is_some_and(|resolved| resolved.topics.contains(&topic.name))
    }

    /// Takes away what the member no longer subscribes to, without waiting for a new target.
    fn without_unsubscribed(&self) -> Option<ConsumerGroupMember> {
        let member = self.member;
        let (assigned, gone): (PartitionsWithEpochs, PartitionsWithEpochs) = member
            .assigned
            .iter()
            .map(|(topic, partitions)| (*topic, partitions.clone()))
            .partition(|(topic, _)| self.is_subscribed(*topic));
        if gone.is_empty() {
            return None;
        }
        let mut pending_revocation = (*member.pending_revocation).clone();
        for (topic, partitions) in gone {
            pending_revocation.entry(topic).or_default().extend(partitions);
        }
        let mut next = member.clone();
        next.set_epoch(member.member_epoch);
        next.assigned = Arc::new(assigned);
        if self.owns_any(&pending_revocation) {
            next.state = MemberState::UnrevokedPartitions;
            next.pending_revocation = Arc::new(pending_revocation);
        }
        Some(next)
    }

    fn towards_target(&self, member_epoch: i32) -> ConsumerGroupMember {
        let member = self.member;
        let mut assigned = PartitionsWithEpochs::new();
        let mut pending_revocation = PartitionsWithEpochs::new();
        let mut pending_assignment: Vec<(TopicId, PartitionId)> = Vec::new();
        let mut unreleased = false;
        let topics: BTreeSet<TopicId> = self.target.keys().chain(member.assigned.keys()).copied().collect();
        for topic in topics {
            let target = self.target.get(&topic).filter(|_| self.is_subscribed(topic));
            let in_target = |partition: &PartitionId| target.is_some_and(|target| target.contains(partition));
            let has = member.assigned.get(&topic);
            for (partition, epoch) in has.into_iter().flatten() {
                let kept_or_not = if in_target(partition) { &mut assigned } else { &mut pending_revocation };
                kept_or_not.entry(topic).or_default().insert(*partition, *epoch);
            }
            let revoked = member.pending_revocation.get(&topic);
            for partition in target.into_iter().flatten() {
                if has.is_some_and(|has| has.contains_key(partition)) {
                    continue;
                }
                // What the member itself gives up is free for itself.
                let own = revoked.is_some_and(|revoked| revoked.contains_key(partition));
                if own || !(self.is_owned)(topic, *partition) {
                    pending_assignment.push((topic, *partition));
                } else {
                    unreleased = true;
                }
            }
        }
        let mut next = member.clone();
        if self.owns_any(&pending_revocation) && !pending_revocation.is_empty() {
            next.state = MemberState::UnrevokedPartitions;
            next.set_epoch(member_epoch);
            next.pending_revocation = Arc::new(pending_revocation);
        } else {
            for (topic, partition) in pending_assignment {
                assigned.entry(topic).or_default().insert(partition, self.assignment_epoch);
            }
            next.state = if unreleased { MemberState::UnreleasedPartitions } else { MemberState::Stable };
            next.set_epoch(self.assignment_epoch);
            next.pending_revocation = Arc::default();
        }
        next.assigned = if assigned == *member.assigned { Arc::clone(&member.assigned) } else { Arc::new(assigned) };
        next
    }
}
