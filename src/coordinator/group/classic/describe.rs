//! The group as DescribeGroups tells it.

use kafka_protocol::messages::describe_groups_response::{DescribedGroup, DescribedGroupMember};

use super::group::ClassicGroup;
use super::state::ClassicGroupState;
use crate::coordinator::group::text;

impl ClassicGroup {
    /// With its protocol, and what members said for it, if the group is stable: before, it may change.
    pub fn describe(&self) -> DescribedGroup {
        let protocol = self.protocol_name().filter(|_| self.state() == ClassicGroupState::Stable);
        let members = self.members().map(|member| {
            DescribedGroupMember::default()
                .with_member_id(text(&member.member_id))
                .with_group_instance_id(member.group_instance_id.as_deref().map(text))
                .with_client_id(text(&member.client_id))
                .with_client_host(text(&member.client_host))
                .with_member_metadata(protocol.map(|protocol| member.metadata(protocol)).unwrap_or_default())
                .with_member_assignment(member.assignment.clone())
        });
        DescribedGroup::default()
            .with_group_id(text(self.group_id()).into())
            .with_group_state(text(self.state_name()))
            .with_protocol_type(text(self.protocol_type()))
            .with_protocol_data(text(protocol.unwrap_or_default()))
            .with_members(members.collect())
    }
}
