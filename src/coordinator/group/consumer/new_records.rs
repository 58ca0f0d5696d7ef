//! The records of a consumer group, as they are written.

use std::sync::Arc;

use super::group::{ConsumerGroup, ResolvedRegularExpression};
use super::member::{ConsumerGroupMember, PartitionsWithEpochs};
use crate::coordinator::group::assignor::TopicPartitions;
use crate::coordinator::group::records::*;

pub(super) fn group_epoch(group_id: &str, epoch: i32, metadata_hash: i64) -> GroupRecord {
    let key = ConsumerGroupMetadataKey { group_id: group_id.to_owned() };
    GroupRecord::ConsumerGroupMetadata(key, Some(ConsumerGroupMetadataValue { epoch, metadata_hash }))
}

pub(super) fn group_epoch_tombstone(group_id: &str) -> GroupRecord {
    GroupRecord::ConsumerGroupMetadata(ConsumerGroupMetadataKey { group_id: group_id.to_owned() }, None)
}

/// Of a record that only brokers before 4.1 write.
pub(super) fn partition_metadata_tombstone(group_id: &str) -> GroupRecord {
    let key = ConsumerGroupPartitionMetadataKey { group_id: group_id.to_owned() };
    GroupRecord::ConsumerGroupPartitionMetadata(key, None)
}

fn member_key(group_id: &str, member_id: &str) -> ConsumerGroupMemberMetadataKey {
    ConsumerGroupMemberMetadataKey { group_id: group_id.to_owned(), member_id: member_id.to_owned() }
}

pub(super) fn member(group_id: &str, member: &ConsumerGroupMember) -> GroupRecord {
    let text = |text: &Option<Arc<str>>| text.as_deref().map(str::to_owned);
    let value = ConsumerGroupMemberMetadataValue {
        instance_id: text(&member.instance_id),
        rack_id: text(&member.rack_id),
        client_id: member.client_id.to_string(),
        client_host: member.client_host.to_string(),
        subscribed_topic_names: member.subscribed_topic_names.iter().map(|name| name.to_string()).collect(),
        subscribed_topic_regex: text(&member.subscribed_topic_regex),
        rebalance_timeout_ms: member.rebalance_timeout_ms,
        server_assignor: text(&member.server_assignor),
        classic_member_metadata: member.classic.as_deref().cloned(),
    };
    GroupRecord::ConsumerGroupMemberMetadata(member_key(group_id, &member.member_id), Some(value))
}

pub(super) fn member_tombstone(group_id: &str, member_id: &str) -> GroupRecord {
    GroupRecord::ConsumerGroupMemberMetadata(member_key(group_id, member_id), None)
}

pub(super) fn target_assignment_epoch(group_id: &str, epoch: i32, timestamp_ms: i64) -> GroupRecord {
    let key = ConsumerGroupTargetAssignmentMetadataKey { group_id: group_id.to_owned() };
    let value =
        ConsumerGroupTargetAssignmentMetadataValue { assignment_epoch: epoch, assignment_timestamp: timestamp_ms };
    GroupRecord::ConsumerGroupTargetAssignmentMetadata(key, Some(value))
}

pub(super) fn target_assignment_epoch_tombstone(group_id: &str) -> GroupRecord {
    let key = ConsumerGroupTargetAssignmentMetadataKey { group_id: group_id.to_owned() };
    GroupRecord::ConsumerGroupTargetAssignmentMetadata(key, None)
}

fn target_key(group_id: &str, member_id: &str) -> ConsumerGroupTargetAssignmentMemberKey {
    ConsumerGroupTargetAssignmentMemberKey { group_id: group_id.to_owned(), member_id: member_id.to_owned() }
}

pub(super) fn target_assignment(group_id: &str, member_id: &str, partitions: &TopicPartitions) -> GroupRecord {
    let topics = partitions.iter().map(|(topic_id, partitions)| TopicPartition {
        topic_id: *topic_id,
        partitions: partitions.iter().map(|partition| partition.0).collect(),
    });
    let value = ConsumerGroupTargetAssignmentMemberValue { topic_partitions: topics.collect() };
    GroupRecord::ConsumerGroupTargetAssignmentMember(target_key(group_id, member_id), Some(value))
}

pub(super) fn target_assignment_tombstone(group_id: &str, member_id: &str) -> GroupRecord {
    GroupRecord::ConsumerGroupTargetAssignmentMember(target_key(group_id, member_id), None)
}

fn current_key(group_id: &str, member_id: &str) -> ConsumerGroupCurrentMemberAssignmentKey {
    ConsumerGroupCurrentMemberAssignmentKey { group_id: group_id.to_owned(), member_id: member_id.to_owned() }
}

pub(super) fn current_assignment(group_id: &str, member: &ConsumerGroupMember) -> GroupRecord {
    let value = ConsumerGroupCurrentMemberAssignmentValue {
        member_epoch: member.member_epoch,
        previous_member_epoch: member.previous_member_epoch,
        state: member.state.code(),
        assigned_partitions: current_partitions(&member.assigned),
        partitions_pending_revocation: current_partitions(&member.pending_revocation),
    };
    GroupRecord::ConsumerGroupCurrentMemberAssignment(current_key(group_id, &member.member_id), Some(value))
}

fn current_partitions(all: &PartitionsWithEpochs) -> Vec<ConsumerGroupCurrentMemberAssignmentTopicPartitions> {
    let topics = all.iter().map(|(topic_id, partitions)| ConsumerGroupCurrentMemberAssignmentTopicPartitions {
        topic_id: *topic_id,
        partitions: partitions.keys().map(|partition| partition.0).collect(),
        assignment_epochs: Some(partitions.values().copied().collect()),
    });
    topics.collect()
}

pub(super) fn current_assignment_tombstone(group_id: &str, member_id: &str) -> GroupRecord {
    GroupRecord::ConsumerGroupCurrentMemberAssignment(current_key(group_id, member_id), None)
}

fn regex_key(group_id: &str, regex: &str) -> ConsumerGroupRegularExpressionKey {
    ConsumerGroupRegularExpressionKey { group_id: group_id.to_owned(), regular_expression: regex.to_owned() }
}

pub(super) fn regex(group_id: &str, regex: &str, resolved: &ResolvedRegularExpression) -> GroupRecord {
    let value = ConsumerGroupRegularExpressionValue {
        topics: resolved.topics.iter().map(|name| name.to_string()).collect(),
        version: resolved.version,
        timestamp: resolved.timestamp_ms,
    };
    GroupRecord::ConsumerGroupRegularExpression(regex_key(group_id, regex), Some(value))
}

pub(super) fn regex_tombstone(group_id: &str, regex: &str) -> GroupRecord {
    GroupRecord::ConsumerGroupRegularExpression(regex_key(group_id, regex), None)
}

/// What removes a member, in the order in which a reader must meet it.
pub(super) fn remove_member(records: &mut Vec<GroupRecord>, group_id: &str, member_id: &str) {
    records.push(current_assignment_tombstone(group_id, member_id));
    records.push(target_assignment_tombstone(group_id, member_id));
    records.push(member_tombstone(group_id, member_id));
}

impl ConsumerGroup {
    /// The records that remove the group, without its offsets.
    pub fn tombstone_records(&self) -> Vec<GroupRecord> {
        let mut records = Vec::new();
        self.create_tombstones(&mut records, None);
        records
    }

    /// What removes the group from the log, with one member's id in the place of another's whose records have replaced it just before.
    pub(super) fn create_tombstones(&self, records: &mut Vec<GroupRecord>, replaced: Option<(&str, &str)>) {
        let group_id = &**self.group_id();
        let ids: Vec<&str> = self
            .members()
            .map(|member| match replaced {
                Some((leaving, joining)) if *member.member_id == *leaving => joining,
                _ => &*member.member_id,
            })
            .collect();
        records.extend(ids.iter().map(|id| current_assignment_tombstone(group_id, id)));
        records.extend(ids.iter().map(|id| target_assignment_tombstone(group_id, id)));
        records.push(target_assignment_epoch_tombstone(group_id));
        records.extend(ids.iter().map(|id| member_tombstone(group_id, id)));
        records.extend(self.resolved_regexes().keys().map(|regex| regex_tombstone(group_id, regex)));
        records.push(partition_metadata_tombstone(group_id));
        records.push(group_epoch_tombstone(group_id));
    }

    /// What a log must say for the group to be as it is: of one that was a classic group until now.
    pub(super) fn create_group_records(&self, records: &mut Vec<GroupRecord>) {
        let group_id = &**self.group_id();
        records.extend(self.members().map(|one| member(group_id, one)));
        records.push(group_epoch(group_id, self.group_epoch(), self.metadata_hash()));
        for member in self.members() {
            let target = self.target_assignment(&member.member_id).cloned().unwrap_or_default();
            records.push(target_assignment(group_id, &member.member_id, &target));
        }
        records.push(target_assignment_epoch(group_id, self.assignment_epoch(), self.assignment_timestamp_ms()));
        records.extend(self.members().map(|member| current_assignment(group_id, member)));
    }
}
