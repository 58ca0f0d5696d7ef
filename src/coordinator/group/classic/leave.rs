//! LeaveGroup: members leave a classic group, or an admin client puts them out.

use kafka_protocol::messages::leave_group_request::MemberIdentity;
use kafka_protocol::messages::leave_group_response::MemberResponse;
use kafka_protocol::messages::{LeaveGroupRequest, LeaveGroupResponse};
use tracing::info;

use super::rebalance::GroupStep;
use super::state::ClassicGroupState;
use crate::coordinator::group::{Group, GroupShard, Step};
use crate::protocol::ErrorCode;

impl GroupShard {
    /// The request names those who leave in `members`, as v3+ does.
    pub fn leave_group(&mut self, step: &mut Step<'_>, request: LeaveGroupRequest) -> LeaveGroupResponse {
        match self.groups.get_mut(request.group_id.as_str()) {
            Some(Group::Classic(group)) => GroupStep { group, timers: &mut self.timers, step }.leave(request.members),
            Some(Group::Consumer(_)) => self.classic_leave_of_consumer_group(request, step),
            None => {
                let members = request.members.into_iter();
                let unknown = members.map(|member| left(member, Err(ErrorCode::UnknownMemberId)));
                LeaveGroupResponse::default().with_members(unknown.collect())
            }
        }
    }
}

fn left(member: MemberIdentity, outcome: Result<(), ErrorCode>) -> MemberResponse {
    MemberResponse::default()
        .with_member_id(member.member_id)
        .with_group_instance_id(member.group_instance_id)
        .with_error_code(outcome.err().unwrap_or(ErrorCode::None).code())
}

impl GroupStep<'_, '_> {
    fn leave(&mut self, members: Vec<MemberIdentity>) -> LeaveGroupResponse {
        let responses: Vec<MemberResponse> = members
            .into_iter()
            .map(|member| {
                let outcome = self.leave_one(&member);
                left(member, outcome)
            })
            .collect();
        if responses.iter().any(|member| member.error_code == ErrorCode::None.code()) {
            match self.group.state() {
                ClassicGroupState::Stable | ClassicGroupState::CompletingRebalance => {
                    self.prepare_rebalance(|| "members left".to_owned());
                }
                ClassicGroupState::PreparingRebalance => self.maybe_complete_join(),
                ClassicGroupState::Empty => {}
            }
        }
        LeaveGroupResponse::default().with_members(responses)
    }

    fn leave_one(&mut self, member: &MemberIdentity) -> Result<(), ErrorCode> {
        let group_instance_id = member.group_instance_id.as_deref();
        let member_id = if member.member_id.is_empty() {
            // An admin client knows a static member by its instance id.
            let static_member = group_instance_id.and_then(|instance_id| self.group.static_member_id(instance_id));
            static_member.cloned().ok_or(ErrorCode::UnknownMemberId)?
        } else {
            if !self.group.is_pending(&member.member_id) {
                self.group.validate_member(&member.member_id, group_instance_id, "leave")?;
            }
            member.member_id.as_str().into()
        };
        let reason = member.reason.as_deref().unwrap_or("not provided");
        info!(group_id = %self.group.group_id, %member_id, client_reason = reason, "a member leaves");
        self.remove_member(&member_id);
        Ok(())
    }
}
