//! Heartbeat: a member is still there, and learns whether it must join again.

use kafka_protocol::messages::{HeartbeatRequest, HeartbeatResponse};

use super::rebalance::GroupStep;
use super::state::ClassicGroupState;
use crate::coordinator::group::{Group, GroupShard, Step};
use crate::protocol::ErrorCode;

impl GroupShard {
    pub fn heartbeat(&mut self, step: &mut Step<'_>, request: &HeartbeatRequest) -> HeartbeatResponse {
        let code = match self.groups.get_mut(request.group_id.as_str()) {
            Some(Group::Classic(group)) => GroupStep { group, timers: &mut self.timers, step }.heartbeat(request),
            Some(Group::Consumer(_)) => return self.classic_heartbeat_to_consumer_group(request, step),
            None => ErrorCode::UnknownMemberId,
        };
        HeartbeatResponse::default().with_error_code(code.code())
    }

    /// A member that commits offsets is still there, too.
    pub(in super::super) fn keep_classic_session(&mut self, group_id: &str, member_id: &str, step: &mut Step<'_>) {
        if let Some(Group::Classic(group)) = self.groups.get_mut(group_id)
            && matches!(group.state(), ClassicGroupState::Stable | ClassicGroupState::PreparingRebalance)
        {
            GroupStep { group, timers: &mut self.timers, step }.reschedule_heartbeat(member_id);
        }
    }
}

impl GroupStep<'_, '_> {
    fn heartbeat(&mut self, request: &HeartbeatRequest) -> ErrorCode {
        let valid = self.group.validate_member(&request.member_id, request.group_instance_id.as_deref(), "heartbeat");
        if let Err(error) = valid {
            return error;
        }
        if request.generation_id != self.group.generation_id {
            return ErrorCode::IllegalGeneration;
        }
        let answer = match self.group.state() {
            ClassicGroupState::Empty => return ErrorCode::UnknownMemberId,
            ClassicGroupState::PreparingRebalance => ErrorCode::RebalanceInProgress,
            // Members send heartbeats from the answer to their join on.
            ClassicGroupState::CompletingRebalance | ClassicGroupState::Stable => ErrorCode::None,
        };
        self.reschedule_heartbeat(&request.member_id);
        answer
    }
}
