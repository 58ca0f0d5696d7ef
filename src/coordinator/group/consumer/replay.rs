//! What the records of consumer groups say, applied.
//!
//! Records of another kind than their group, and tombstones that leave something behind, are passed over with a word in
//! the log; Kafka would not load such a log at all.

use std::sync::Arc;

use tracing::error;

use super::group::ResolvedRegularExpression;
use super::member::{ConsumerGroupMember, LEAVE_GROUP_MEMBER_EPOCH, MemberState};
use super::topics::SubscribedTopics;
use super::{ConsumerGroup, ConsumerTimer};
use crate::coordinator::group::assignor::TopicPartitions;
use crate::coordinator::group::records::*;
use crate::coordinator::group::{Group, GroupShard};
use crate::types::{PartitionId, TopicName};

impl GroupShard {
    /// The consumer group that a record is of, made if `create` (the record is no tombstone).
    fn consumer_group_of_record(
        &mut self,
        group_id: &str,
        record: &str,
        create: bool,
    ) -> Option<(&mut ConsumerGroup, &mut SubscribedTopics)> {
        let replaceable = match self.groups.get(group_id) {
            None => true,
            // It only holds offsets and no record tells of it: the offsets stood before the group in the log.
            Some(Group::Classic(group)) => group.is_simple(),
            Some(Group::Consumer(_)) => false,
        };
        if replaceable && create {
            let group_id: Arc<str> = Arc::from(group_id);
            let group = Group::Consumer(Box::new(ConsumerGroup::new(Arc::clone(&group_id))));
            self.groups.insert(group_id, group);
        }
        match self.groups.get_mut(group_id) {
            Some(Group::Consumer(group)) => Some((group, &mut self.consumer_groups.topics)),
            Some(Group::Classic(group)) if create || !group.is_simple() => {
                Group::unexpected(group_id, record);
                None
            }
            _ => None,
        }
    }

    pub(in crate::coordinator::group) fn replay_consumer_group_metadata(
        &mut self,
        key: ConsumerGroupMetadataKey,
        value: Option<ConsumerGroupMetadataValue>,
    ) {
        let group_id = key.group_id.as_str();
        let Some((group, _)) = self.consumer_group_of_record(group_id, "ConsumerGroupMetadata", value.is_some()) else {
            return;
        };
        match value {
            Some(value) => group.set_group_epoch(value.epoch, value.metadata_hash),
            None => {
                if !group.is_empty() || group.has_target_assignments() || group.assignment_epoch() != -1 {
                    error!(%group_id, members = group.num_members(), "a consumer group ends before its parts do");
                }
                self.forget_consumer_group(group_id);
            }
        }
    }

    pub(in crate::coordinator::group) fn replay_consumer_group_partition_metadata(
        &mut self,
        key: ConsumerGroupPartitionMetadataKey,
        value: Option<ConsumerGroupPartitionMetadataValue>,
    ) {
        let there = value.is_some();
        if let Some((group, _)) = self.consumer_group_of_record(&key.group_id, "ConsumerGroupPartitionMetadata", there)
        {
            // What it says stands in the group's metadata hash today; the next change of the group removes it.
            group.set_has_partition_metadata_record(there);
        }
    }

    pub(in crate::coordinator::group) fn replay_consumer_group_member_metadata(
        &mut self,
        key: ConsumerGroupMemberMetadataKey,
        value: Option<ConsumerGroupMemberMetadataValue>,
    ) {
        let (group_id, member_id) = (key.group_id.as_str(), key.member_id.as_str());
        let Some((group, topics)) =
            self.consumer_group_of_record(group_id, "ConsumerGroupMemberMetadata", value.is_some())
        else {
            return;
        };
        match value {
            Some(value) => {
                let mut member = member_or_new(group, member_id);
                member.apply_metadata(value);
                group.update_member(member, topics);
            }
            None => {
                let Some(member) = group.member(member_id) else { return };
                if member.member_epoch != LEAVE_GROUP_MEMBER_EPOCH || group.target_assignment(member_id).is_some() {
                    error!(%group_id, %member_id, "a member ends before its assignment does");
                }
                let (group_id, member_id) = (Arc::clone(group.group_id()), Arc::clone(&member.member_id));
                group.remove_member(&member_id, topics);
                self.cancel_timers_of(&group_id, &member_id);
            }
        }
    }

    pub(in crate::coordinator::group) fn replay_consumer_group_target_assignment_metadata(
        &mut self,
        key: ConsumerGroupTargetAssignmentMetadataKey,
        value: Option<ConsumerGroupTargetAssignmentMetadataValue>,
    ) {
        let group_id = key.group_id.as_str();
        let Some((group, _)) =
            self.consumer_group_of_record(group_id, "ConsumerGroupTargetAssignmentMetadata", value.is_some())
        else {
            return;
        };
        match value {
            Some(value) => group.set_target_assignment_metadata(value.assignment_epoch, value.assignment_timestamp),
            None => {
                if group.has_target_assignments() {
                    error!(%group_id, "a target assignment ends before its members' parts do");
                }
                group.set_target_assignment_metadata(-1, 0);
            }
        }
    }

    pub(in crate::coordinator::group) fn replay_consumer_group_target_assignment_member(
        &mut self,
        key: ConsumerGroupTargetAssignmentMemberKey,
        value: Option<ConsumerGroupTargetAssignmentMemberValue>,
    ) {
        let Some((group, _)) =
            self.consumer_group_of_record(&key.group_id, "ConsumerGroupTargetAssignmentMember", value.is_some())
        else {
            return;
        };
        match value {
            Some(value) => {
                let member_id = group.member(&key.member_id).map(|member| Arc::clone(&member.member_id));
                let member_id = member_id.unwrap_or_else(|| Arc::from(key.member_id));
                group.update_target_assignment(member_id, Arc::new(target_from_record(value)));
            }
            None => group.remove_target_assignment(&key.member_id),
        }
    }

    pub(in crate::coordinator::group) fn replay_consumer_group_current_member_assignment(
        &mut self,
        key: ConsumerGroupCurrentMemberAssignmentKey,
        value: Option<ConsumerGroupCurrentMemberAssignmentValue>,
    ) {
        let Some((group, topics)) =
            self.consumer_group_of_record(&key.group_id, "ConsumerGroupCurrentMemberAssignment", value.is_some())
        else {
            return;
        };
        let before = group.member(&key.member_id).map(|member| (member.state, member.member_epoch));
        let member = match value {
            Some(value) => {
                let mut member = member_or_new(group, &key.member_id);
                member.apply_assignment(&value);
                member
            }
            None => {
                let Some(member) = group.member(&key.member_id) else { return };
                let mut member = (**member).clone();
                member.member_epoch = LEAVE_GROUP_MEMBER_EPOCH;
                member.previous_member_epoch = LEAVE_GROUP_MEMBER_EPOCH;
                member.assigned = Arc::default();
                member.pending_revocation = Arc::default();
                member
            }
        };
        let (group_id, member_id) = (Arc::clone(group.group_id()), Arc::clone(&member.member_id));
        let after = (member.state, member.member_epoch);
        group.update_member(member, topics);
        if let Some((MemberState::UnrevokedPartitions, epoch)) = before.filter(|before| *before != after) {
            self.cancel(ConsumerTimer::Rebalance(group_id, member_id, epoch));
        }
    }

    pub(in crate::coordinator::group) fn replay_consumer_group_regular_expression(
        &mut self,
        key: ConsumerGroupRegularExpressionKey,
        value: Option<ConsumerGroupRegularExpressionValue>,
    ) {
        let Some((group, topics)) =
            self.consumer_group_of_record(&key.group_id, "ConsumerGroupRegularExpression", value.is_some())
        else {
            return;
        };
        match value {
            Some(value) => {
                let resolved = ResolvedRegularExpression {
                    topics: Arc::new(value.topics.into_iter().map(TopicName::from).collect()),
                    version: value.version,
                    timestamp_ms: value.timestamp,
                };
                group.update_resolved_regex(Arc::from(key.regular_expression), resolved, topics);
            }
            None => group.remove_resolved_regex(&key.regular_expression, topics),
        }
    }

    fn cancel_timers_of(&mut self, group_id: &Arc<str>, member_id: &Arc<str>) {
        self.cancel(ConsumerTimer::Session(Arc::clone(group_id), Arc::clone(member_id)));
        self.cancel(ConsumerTimer::Join(Arc::clone(group_id), Arc::clone(member_id)));
        self.cancel(ConsumerTimer::Sync(Arc::clone(group_id), Arc::clone(member_id)));
    }

    /// Removes a consumer group from memory, with all that was kept of it elsewhere.
    pub(super) fn forget_consumer_group(&mut self, group_id: &str) {
        match self.groups.remove(group_id) {
            Some(Group::Consumer(group)) => {
                for topic in group.subscribed_topics().keys() {
                    self.consumer_groups.topics.unsubscribe(group.group_id(), topic);
                }
                for member in group.members() {
                    self.cancel_timers_of(group.group_id(), &member.member_id);
                    let (group_id, member_id) = (Arc::clone(group.group_id()), Arc::clone(&member.member_id));
                    self.cancel(ConsumerTimer::Rebalance(group_id, member_id, member.member_epoch));
                }
            }
            Some(other) => {
                self.groups.insert(Arc::from(group_id), other);
            }
            None => {}
        }
    }
}

fn member_or_new(group: &ConsumerGroup, member_id: &str) -> ConsumerGroupMember {
    match group.member(member_id) {
        Some(member) => (**member).clone(),
        None => ConsumerGroupMember::new(Arc::from(member_id)),
    }
}

fn target_from_record(value: ConsumerGroupTargetAssignmentMemberValue) -> TopicPartitions {
    let topics = value.topic_partitions.into_iter().filter(|topic| !topic.partitions.is_empty());
    topics.map(|topic| (topic.topic_id, topic.partitions.into_iter().map(PartitionId).collect())).collect()
}
