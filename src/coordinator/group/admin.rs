//! ListGroups and DescribeGroups: what the shard tells of its groups.

use std::collections::BTreeSet;

use kafka_protocol::messages::describe_groups_response::DescribedGroup;
use kafka_protocol::protocol::StrBytes;

use super::{Group, GroupShard, GroupType, text};
use crate::protocol::ErrorCode;

/// Which groups are to be listed.
#[derive(Clone, Debug, Default)]
pub struct ListFilter {
    /// In lower case. `None`: in any.
    states: Option<BTreeSet<String>>,
    /// `None`: of any.
    types: Option<BTreeSet<GroupType>>,
}

/// A group as ListGroups tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedGroup {
    pub group_id: String,
    pub protocol_type: String,
    pub state: &'static str,
    pub group_type: GroupType,
}

impl ListFilter {
    /// By names as a client gives them, in any case. Nothing is of a state or type that is not known; no names at all
    /// ask for all.
    pub fn new<'a>(
        states: impl ExactSizeIterator<Item = &'a str>,
        types: impl ExactSizeIterator<Item = &'a str>,
    ) -> ListFilter {
        ListFilter {
            states: (states.len() > 0).then(|| states.map(|state| state.to_lowercase().trim().to_owned()).collect()),
            types: (types.len() > 0).then(|| types.filter_map(GroupType::parse).collect()),
        }
    }

    fn matches(&self, group: &Group) -> bool {
        self.states.as_ref().is_none_or(|states| states.contains(&group.state_name().to_ascii_lowercase()))
            && self.types.as_ref().is_none_or(|types| types.contains(&group.group_type()))
    }
}

impl GroupShard {
    pub fn list_groups(&self, filter: &ListFilter) -> Vec<ListedGroup> {
        let listed = self.groups.iter().filter(|(_, group)| filter.matches(group));
        listed
            .map(|(group_id, group)| ListedGroup {
                group_id: group_id.to_string(),
                protocol_type: group.protocol_type().to_owned(),
                state: group.state_name(),
                group_type: group.group_type(),
            })
            .collect()
    }

    /// Describes a classic group. What is no such group is told to be dead, which is an error from v6 on (KIP-1043).
    pub fn describe_group(&self, group_id: &str, api_version: i16) -> DescribedGroup {
        let message = match self.groups.get(group_id) {
            Some(Group::Classic(group)) => return group.describe(),
            Some(Group::Consumer(_)) => format!("Group {group_id} is not a classic group."),
            None => format!("Group {group_id} not found."),
        };
        let dead = DescribedGroup::default()
            .with_group_id(text(group_id).into())
            .with_group_state(StrBytes::from_static_str("Dead"));
        if api_version < 6 {
            return dead;
        }
        dead.with_error_code(ErrorCode::GroupIdNotFound.code()).with_error_message(Some(StrBytes::from_string(message)))
    }
}
