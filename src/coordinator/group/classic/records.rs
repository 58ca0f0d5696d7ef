//! The record of a classic group: `GroupMetadata`, one for each generation, with all members and assignments.
//!
//! | written | says |
//! |---|---|
//! | when a join creates the group | generation 0, no protocol, no members |
//! | when the leader's SyncGroup arrives | the generation, its members and their assignments |
//! | when a static member comes back under another id | the same generation |
//! | when the last member is gone | the generation, no members |
//! | when the group is deleted | a tombstone |
//!
//! So a group that is read from the log is Stable or Empty.

use std::sync::Arc;

use bytes::Bytes;

use super::group::ClassicGroup;
use super::member::ClassicGroupMember;
use crate::coordinator::group::records::{GroupMetadataKey, GroupMetadataValue, GroupRecord};

/// Removes the group.
pub(super) fn tombstone(group_id: &str) -> GroupRecord {
    GroupRecord::GroupMetadata(GroupMetadataKey { group: group_id.to_owned() }, None)
}

impl ClassicGroup {
    /// The group as it is.
    pub fn record(&self) -> GroupRecord {
        self.record_with(|member| member.assignment.clone())
    }

    /// The group with other assignments than those that its members have.
    pub(super) fn record_with(&self, assignment: impl Fn(&ClassicGroupMember) -> Bytes) -> GroupRecord {
        let protocol = self.protocol_name();
        let members = self.members().map(|member| member.to_record(protocol, assignment(member)));
        self.to_record(GroupMetadataValue {
            protocol_type: self.protocol_type().to_owned(),
            generation: self.generation_id(),
            protocol: protocol.map(str::to_owned),
            leader: self.leader_id().map(str::to_owned),
            members: members.collect(),
            ..GroupMetadataValue::default()
        })
    }

    /// The group before its first generation.
    pub(super) fn first_record(&self) -> GroupRecord {
        self.to_record(GroupMetadataValue { protocol: None, leader: None, ..GroupMetadataValue::default() })
    }

    fn to_record(&self, value: GroupMetadataValue) -> GroupRecord {
        let key = GroupMetadataKey { group: self.group_id().to_string() };
        let current_state_timestamp = self.current_state_timestamp().unwrap_or(-1);
        GroupRecord::GroupMetadata(key, Some(GroupMetadataValue { current_state_timestamp, ..value }))
    }

    pub(super) fn from_record(group_id: Arc<str>, value: GroupMetadataValue) -> ClassicGroup {
        let protocol = value.protocol.as_deref().unwrap_or_default();
        let members = value.members.into_iter();
        let members =
            members.map(|member| ClassicGroupMember::from_record(member, &value.protocol_type, protocol)).collect();
        ClassicGroup::loaded(
            group_id,
            value.generation,
            value.protocol_type,
            value.protocol,
            value.leader,
            Some(value.current_state_timestamp).filter(|timestamp| *timestamp != -1),
            members,
        )
    }
}
