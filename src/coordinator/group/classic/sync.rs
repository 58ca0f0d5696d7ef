//! SyncGroup: the leader gives the assignments of a generation, and each member gets its own.
//!
//! Members wait for the leader's; once it is in the log all are answered, and the group is Stable.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use kafka_protocol::messages::SyncGroupRequest;
use kafka_protocol::messages::SyncGroupResponse;
use tracing::{debug, info};

use super::Continuation;
use super::rebalance::{GroupStep, sync_error};
use super::state::ClassicGroupState;
use crate::coordinator::group::{DeferredReply, Group, GroupShard, Step, text};
use crate::coordinator::shard::{CoordinatorError, ReplyTo};
use crate::protocol::ErrorCode;

/// Assignments that take effect once they are in the log.
#[derive(Debug)]
pub struct StoredAssignment {
    pub(super) group_id: Arc<str>,
    generation_id: i32,
    /// By member id, for members of the group.
    assignments: HashMap<Arc<str>, Bytes>,
}

impl GroupShard {
    /// Answers with [`DeferredReply::Sync`], maybe not before the leader's assignments come.
    pub fn sync_group(&mut self, step: &mut Step<'_>, request: SyncGroupRequest, reply_to: ReplyTo) {
        match self.groups.get_mut(request.group_id.as_str()) {
            Some(Group::Classic(group)) if !group.is_empty() => {
                GroupStep { group, timers: &mut self.timers, step }.sync(&request, reply_to);
            }
            Some(Group::Consumer(group)) if !group.is_empty() => {
                self.classic_sync_to_consumer_group(&request, reply_to, step);
            }
            Some(Group::Classic(_) | Group::Consumer(_)) | None => {
                step.reply(reply_to, DeferredReply::Sync(sync_error(ErrorCode::UnknownMemberId)));
            }
        }
    }
}

impl GroupStep<'_, '_> {
    fn sync(&mut self, request: &SyncGroupRequest, reply_to: ReplyTo) {
        if let Err(error) = self.validate_sync(request) {
            self.reply_sync(reply_to, sync_error(error));
            return;
        }
        let member_id = &request.member_id;
        match self.group.state() {
            ClassicGroupState::Empty => {
                self.reply_sync(reply_to, sync_error(ErrorCode::UnknownMemberId));
            }
            ClassicGroupState::PreparingRebalance => {
                self.reply_sync(reply_to, sync_error(ErrorCode::RebalanceInProgress));
            }
            ClassicGroupState::CompletingRebalance => {
                if let Some(member) = self.group.member_mut(member_id) {
                    member.presence.awaiting_sync = Some(reply_to);
                }
                self.remove_pending_sync(member_id);
                if self.group.is_leader(member_id) {
                    self.store_assignments(request);
                }
            }
            ClassicGroupState::Stable => {
                self.remove_pending_sync(member_id);
                let assignment = self.group.member(member_id).map(|member| member.assignment.clone());
                let response = SyncGroupResponse::default()
                    .with_protocol_type(self.group.protocol_type.as_deref().map(text))
                    .with_protocol_name(self.group.protocol_name().map(text))
                    .with_assignment(assignment.unwrap_or_default());
                self.reply_sync(reply_to, response);
            }
        }
    }

    fn validate_sync(&self, request: &SyncGroupRequest) -> Result<(), ErrorCode> {
        self.group.validate_member(&request.member_id, request.group_instance_id.as_deref(), "sync")?;
        if request.generation_id != self.group.generation_id {
            return Err(ErrorCode::IllegalGeneration);
        }
        // v5+: KIP-559. What either side does not say is not compared.
        let differ = |asked: Option<&str>, known: Option<&str>| asked.zip(known).is_some_and(|(a, b)| a != b);
        if differ(request.protocol_type.as_deref(), self.group.protocol_type.as_deref())
            || differ(request.protocol_name.as_deref(), self.group.protocol_name())
        {
            return Err(ErrorCode::InconsistentGroupProtocol);
        }
        Ok(())
    }

    fn store_assignments(&mut self, request: &SyncGroupRequest) {
        info!(group_id = %self.group.group_id, generation_id = self.group.generation_id, leader = %request.member_id,
            members = self.group.num_members(), static_members = self.group.num_static_members(),
            "the leader's assignments are here");
        let mut assignments = HashMap::with_capacity(self.group.num_members());
        for assignment in &request.assignments {
            // Nothing is kept for those who are not in the group. Of two for one member the last counts.
            if let Some(member) = self.group.member(&assignment.member_id) {
                // In memory of its own: the request's bytes are part of a larger buffer.
                assignments.insert(member.member_id.clone(), Bytes::copy_from_slice(&assignment.assignment));
            }
        }
        let forgotten = self.group.num_members() - assignments.len();
        if forgotten > 0 {
            debug!(group_id = %self.group.group_id, members = forgotten, "the leader assigned nothing to some members");
        }
        let assigned = |member_id: &str| assignments.get(member_id).cloned().unwrap_or_default();
        self.step.append(self.group.record_with(|member| assigned(&member.member_id)));
        self.step.then(Continuation::AssignmentStored(StoredAssignment {
            group_id: self.group.group_id.clone(),
            generation_id: self.group.generation_id,
            assignments,
        }));
    }

    /// The assignments of a generation are in the log, or they are not.
    pub(super) fn on_assignment_stored(&mut self, stored: &StoredAssignment, appended: Result<(), CoordinatorError>) {
        let awaited = self.group.state() == ClassicGroupState::CompletingRebalance
            && self.group.generation_id == stored.generation_id;
        if !awaited {
            return;
        }
        match appended {
            Ok(()) => {
                self.group.set_assignments(|member_id| stored.assignments.get(member_id).cloned().unwrap_or_default());
                self.propagate_assignment(ErrorCode::None);
                self.group.transition_to(ClassicGroupState::Stable, self.step.now_ms);
            }
            Err(error) => {
                info!(group_id = %self.group.group_id, %error, "a group's assignments were not written");
                self.reset_assignment(error.code());
                self.prepare_rebalance(|| format!("the assignments were not written: {error}"));
            }
        }
    }
}
