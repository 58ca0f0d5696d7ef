//! A rebalance: from the event that begins it to the generation that ends its first half, in which all have joined.
//!
//! [`GroupStep`] is one group in one step, with all that may change: its soft state changes at once, records and answers
//! go with the step.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use kafka_protocol::messages::join_group_response::JoinGroupResponseMember;
use kafka_protocol::messages::{JoinGroupResponse, SyncGroupResponse};
use tracing::{debug, info, warn};

use super::group::{ClassicGroup, InitialRebalance};
use super::state::ClassicGroupState;
use super::{ClassicTimer, Continuation};
use crate::coordinator::group::{DeferredReply, GroupTimer, Step, text};
use crate::coordinator::shard::ReplyTo;
use crate::coordinator::timers::Timers;
use crate::protocol::ErrorCode;

/// How long a rebalance in which nobody joined waits again, at least. Members may say 0, and Kafka's broker then spins.
const SHORTEST_SECOND_WAIT: Duration = Duration::from_millis(100);

/// See the module.
pub(super) struct GroupStep<'a, 's> {
    pub group: &'a mut ClassicGroup,
    pub timers: &'a mut Timers<GroupTimer>,
    pub step: &'a mut Step<'s>,
}

/// A join that failed, and with whose id it is to be tried again, if any.
pub(super) fn join_error(code: ErrorCode, member_id: &str) -> JoinGroupResponse {
    JoinGroupResponse::default().with_error_code(code.code()).with_member_id(text(member_id))
}

pub(super) fn sync_error(code: ErrorCode) -> SyncGroupResponse {
    SyncGroupResponse::default().with_error_code(code.code())
}

impl GroupStep<'_, '_> {
    pub fn reply_join(&mut self, to: ReplyTo, response: JoinGroupResponse) {
        self.step.reply(to, DeferredReply::Join(response));
    }

    pub fn reply_sync(&mut self, to: ReplyTo, response: SyncGroupResponse) {
        self.step.reply(to, DeferredReply::Sync(response));
    }

    /// Answers a member's JoinGroup, if one waits.
    pub fn complete_join_of(&mut self, member_id: &str, response: impl FnOnce() -> JoinGroupResponse) {
        if let Some(waiting) = self.group.take_awaiting_join(member_id) {
            self.reply_join(waiting, response());
        }
    }

    /// The answer to a member that is in the group as it is.
    pub fn join_response(&self, member_id: &str, members: Vec<JoinGroupResponseMember>) -> JoinGroupResponse {
        JoinGroupResponse::default()
            .with_members(members)
            .with_member_id(text(member_id))
            .with_generation_id(self.group.generation_id)
            .with_protocol_name(self.group.protocol_name().map(text))
            .with_protocol_type(self.group.protocol_type.as_deref().map(text))
            .with_leader(text(self.group.leader_id().unwrap_or_default()))
    }

    /// All members, for the leader to share the work out among.
    pub fn members_for_leader(&self) -> Vec<JoinGroupResponseMember> {
        let protocol = self.group.protocol_name().unwrap_or_default();
        let members = self.group.members().map(|member| {
            JoinGroupResponseMember::default()
                .with_member_id(text(&member.member_id))
                .with_group_instance_id(member.group_instance_id.as_deref().map(text))
                .with_metadata(member.metadata(protocol))
        });
        members.collect()
    }

    fn join_timer(&self) -> GroupTimer {
        GroupTimer::Classic(ClassicTimer::Join(self.group.group_id.clone()))
    }

    fn sync_timer(&self) -> GroupTimer {
        GroupTimer::Classic(ClassicTimer::Sync(self.group.group_id.clone()))
    }

    fn session_timer(&self, member_id: &Arc<str>) -> GroupTimer {
        GroupTimer::Classic(ClassicTimer::Session(self.group.group_id.clone(), member_id.clone()))
    }

    /// The member shows signs of life: it counts as lost when it is silent for its session timeout from now on.
    pub fn reschedule_heartbeat(&mut self, member_id: &str) {
        self.set_session(member_id, None);
    }

    /// The member counts as lost when it is silent for so long.
    pub fn expect_heartbeat(&mut self, member_id: &str, timeout: Duration) {
        self.set_session(member_id, Some(timeout));
    }

    fn set_session(&mut self, member_id: &str, timeout: Option<Duration>) {
        if let Some((timer, deadline)) = self.group.expect_heartbeat(member_id, timeout, self.step.now) {
            self.timers.set(GroupTimer::Classic(timer), deadline);
        }
    }

    /// An id that was handed out lapses unless it joins within the time.
    pub fn expect_join_of_pending(&mut self, member_id: &Arc<str>, timeout: Duration) {
        self.timers.set(self.session_timer(member_id), self.step.now + timeout);
    }

    pub fn cancel_heartbeat(&mut self, member_id: &str) {
        self.timers.cancel(&self.session_timer(&Arc::from(member_id)));
    }

    /// Removes a member, or an id that was handed out. Its JoinGroup or SyncGroup, if one waits, is told that it is
    /// unknown, so that a client that is still there joins anew.
    pub fn remove_member(&mut self, member_id: &str) {
        self.complete_join_of(member_id, || join_error(ErrorCode::UnknownMemberId, ""));
        self.cancel_heartbeat(member_id);
        let removed = self.group.remove(member_id);
        if let Some(waiting) = removed.and_then(|member| member.presence.awaiting_sync) {
            self.reply_sync(waiting, sync_error(ErrorCode::UnknownMemberId));
        }
    }

    /// Begins a rebalance, or goes on with the one that is being prepared.
    pub fn rebalance_or_complete_join(&mut self, reason: impl FnOnce() -> String) {
        match self.group.can_rebalance() {
            true => self.prepare_rebalance(reason),
            false => self.maybe_complete_join(),
        }
    }

    /// Has all members join anew. The group is not preparing a rebalance yet.
    pub fn prepare_rebalance(&mut self, reason: impl FnOnce() -> String) {
        if self.group.state() == ClassicGroupState::CompletingRebalance {
            self.reset_assignment(ErrorCode::RebalanceInProgress);
        }
        self.group.pending_sync_members.clear();
        self.timers.cancel(&self.sync_timer());

        let is_initial = self.group.is_empty();
        if is_initial {
            let delay = duration_ms(self.step.config.group_initial_rebalance_delay_ms);
            let remaining = self.group.rebalance_timeout().saturating_sub(delay);
            self.group.initial_rebalance = Some(InitialRebalance { delay, remaining, new_member_added: false });
            self.timers.set(self.join_timer(), self.step.now + delay);
        }
        info!(group_id = %self.group.group_id, state = self.group.state_name(), generation_id = self.group.generation_id,
            members = self.group.num_members(), reason = reason(), "preparing to rebalance");
        self.group.transition_to(ClassicGroupState::PreparingRebalance, self.step.now_ms);
        if is_initial {
            return;
        }
        if self.group.has_all_members_joined() {
            self.complete_join();
        } else {
            self.timers.set(self.join_timer(), self.step.now + self.group.rebalance_timeout());
        }
    }

    /// Ends the join phase if everybody is there, but for an initial rebalance, which waits for more.
    pub fn maybe_complete_join(&mut self) {
        let preparing = self.group.state() == ClassicGroupState::PreparingRebalance;
        let initial = self.group.previous_state() == ClassicGroupState::Empty;
        if preparing && !initial && self.group.has_all_members_joined() {
            self.complete_join();
        }
    }

    /// Ends the join phase if nobody is waited for any more, initial or not: somebody has gone.
    pub fn complete_join_without(&mut self) {
        if self.group.state() == ClassicGroupState::PreparingRebalance && self.group.has_all_members_joined() {
            self.complete_join();
        }
    }

    /// Ends the join phase: who has not joined is out, but for static members, and the others are the next generation.
    fn complete_join(&mut self) {
        self.timers.cancel(&self.join_timer());
        self.group.initial_rebalance = None;

        let not_rejoined = self.group.members().filter(|member| !member.is_awaiting_join() && !member.is_static());
        let not_rejoined: Vec<Arc<str>> = not_rejoined.map(|member| member.member_id.clone()).collect();
        for member_id in &not_rejoined {
            self.remove_member(member_id);
        }
        if !not_rejoined.is_empty() {
            info!(group_id = %self.group.group_id, members = ?not_rejoined, "removed members that did not join in time");
        }
        if !self.group.elect_joined_leader() && self.group.num_members() > 0 {
            // Static members alone: their sessions end, or they come.
            let wait = self.group.rebalance_timeout().max(SHORTEST_SECOND_WAIT);
            self.timers.set(self.join_timer(), self.step.now + wait);
            return;
        }
        self.group.init_next_generation(self.step.now_ms);
        if self.group.is_empty() {
            info!(group_id = %self.group.group_id, generation_id = self.group.generation_id, "the group is empty now");
            self.step.append(self.group.record());
            self.step.then(Continuation::GroupEmptied { group_id: self.group.group_id.clone() });
            return;
        }
        info!(group_id = %self.group.group_id, generation_id = self.group.generation_id,
            members = self.group.num_members(), protocol = self.group.protocol_name(), "stabilized the group");
        let mut for_leader = self.members_for_leader();
        let member_ids: Vec<Arc<str>> = self.group.members().map(|member| member.member_id.clone()).collect();
        for member_id in member_ids {
            let members = match self.group.is_leader(&member_id) {
                true => std::mem::take(&mut for_leader),
                false => Vec::new(),
            };
            let response = self.join_response(&member_id, members);
            self.complete_join_of(&member_id, || response);
            self.reschedule_heartbeat(&member_id);
            if let Some(member) = self.group.member_mut(&member_id) {
                member.presence.is_new = false;
            }
            self.group.pending_sync_members.insert(member_id);
        }
        self.timers.set(self.sync_timer(), self.step.now + self.group.rebalance_timeout());
    }

    /// The time of a join phase is up.
    pub fn on_join_timer(&mut self) {
        if self.group.state() != ClassicGroupState::PreparingRebalance {
            return;
        }
        match &mut self.group.initial_rebalance {
            Some(initial) if initial.new_member_added && !initial.remaining.is_zero() => {
                let most = duration_ms(self.step.config.group_initial_rebalance_delay_ms);
                let delay = most.min(initial.remaining);
                let remaining = initial.remaining.saturating_sub(initial.delay);
                *initial = InitialRebalance { delay, remaining, new_member_added: false };
                self.timers.set(self.join_timer(), self.step.now + delay);
            }
            _ => self.complete_join(),
        }
    }

    /// The time in which members of this generation must ask for their assignment is up.
    pub fn on_sync_timer(&mut self) {
        let waiting = matches!(self.group.state(), ClassicGroupState::CompletingRebalance | ClassicGroupState::Stable);
        if !waiting || self.group.pending_sync_members.is_empty() {
            return;
        }
        let pending: Vec<Arc<str>> = self.group.pending_sync_members.iter().cloned().collect();
        for member_id in &pending {
            self.remove_member(member_id);
        }
        self.prepare_rebalance(|| format!("removed {pending:?}, whose SyncGroup did not come in time"));
    }

    /// A session may have ended.
    pub fn on_session_timer(&mut self, member_id: &Arc<str>) {
        if self.group.is_pending(member_id) {
            info!(group_id = %self.group.group_id, %member_id, "a member id that was handed out has lapsed");
            self.group.remove(member_id);
            self.complete_join_without();
            return;
        }
        let (now, timer) = (self.step.now, self.session_timer(member_id));
        let Some(member) = self.group.member_mut(member_id) else { return };
        let presence = &mut member.presence;
        if presence.session_deadline > now {
            presence.timer = Some(presence.session_deadline);
            self.timers.set(timer, presence.session_deadline);
            return;
        }
        presence.timer = None;
        if self.group.member(member_id).is_some_and(|member| member.has_satisfied_heartbeat()) {
            // Its session begins anew when it is answered.
            return;
        }
        info!(group_id = %self.group.group_id, %member_id, "a member was silent for its session timeout: removed");
        self.remove_member(member_id);
        match self.group.state() {
            ClassicGroupState::Stable | ClassicGroupState::CompletingRebalance => {
                self.prepare_rebalance(|| format!("removed {member_id}, which was silent for its session timeout"));
            }
            ClassicGroupState::PreparingRebalance => self.complete_join_without(),
            ClassicGroupState::Empty => {}
        }
    }

    /// Takes the assignments back, and has the members that wait for them join again.
    pub fn reset_assignment(&mut self, error: ErrorCode) {
        self.group.set_assignments(|_| Bytes::new());
        self.propagate_assignment(error);
    }

    /// Answers the members that wait for their assignment.
    pub fn propagate_assignment(&mut self, error: ErrorCode) {
        let (mut protocol_type, mut protocol_name) = (None, None);
        if error == ErrorCode::None {
            protocol_type = self.group.protocol_type.as_deref().map(text);
            protocol_name = self.group.protocol_name().map(text);
        }
        let waiting = self.group.members().filter(|member| member.is_awaiting_sync());
        let waiting: Vec<(Arc<str>, Bytes)> =
            waiting.map(|member| (member.member_id.clone(), member.assignment.clone())).collect();
        for (member_id, assignment) in waiting {
            if assignment.is_empty() && error == ErrorCode::None {
                debug!(group_id = %self.group.group_id, %member_id, "the leader assigned nothing to a member");
            }
            let reply_to = self.group.member_mut(&member_id).and_then(|member| member.presence.awaiting_sync.take());
            let Some(reply_to) = reply_to else { continue };
            let response = SyncGroupResponse::default()
                .with_protocol_type(protocol_type.clone())
                .with_protocol_name(protocol_name.clone())
                .with_assignment(assignment)
                .with_error_code(error.code());
            self.reply_sync(reply_to, response);
            // A session that ended while the member waited was passed over: it begins anew here.
            self.reschedule_heartbeat(&member_id);
        }
    }

    /// Answers all that wait, and leaves the group as it is.
    pub fn answer_waiters(&mut self, error: ErrorCode) {
        let member_ids: Vec<Arc<str>> = self.group.members().map(|member| member.member_id.clone()).collect();
        for member_id in member_ids {
            self.complete_join_of(&member_id, || join_error(error, &member_id));
            let waiting = self.group.member_mut(&member_id).and_then(|member| member.presence.awaiting_sync.take());
            if let Some(waiting) = waiting {
                self.reply_sync(waiting, sync_error(error));
            }
        }
    }

    /// The member has asked for its assignment.
    pub fn remove_pending_sync(&mut self, member_id: &str) {
        self.group.pending_sync_members.remove(member_id);
        if self.group.pending_sync_members.is_empty() {
            self.timers.cancel(&self.sync_timer());
        }
    }

    /// Sets the sessions of a group that has none yet.
    pub fn schedule_sessions(&mut self) {
        let member_ids: Vec<Arc<str>> = self.group.members().map(|member| member.member_id.clone()).collect();
        for member_id in member_ids {
            self.reschedule_heartbeat(&member_id);
        }
    }

    /// What became of the record of an empty group.
    pub fn warn_not_stored(&self, error: &dyn std::fmt::Display) {
        // Should the broker fail before the next rebalance, the last generation comes back, whose members are gone.
        warn!(group_id = %self.group.group_id, %error, "the record of an empty group was not written");
    }
}

pub(super) fn duration_ms(ms: i32) -> Duration {
    Duration::from_millis(u64::try_from(ms).unwrap_or(0))
}
