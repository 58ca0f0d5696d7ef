//! JoinGroup: a member comes into a classic group, or says that it is still there.
//!
//! | who | what happens |
//! |---|---|
//! | no id, v4+, not static | gets an id to join with (MEMBER_ID_REQUIRED, KIP-394), which lapses after its session timeout |
//! | no id, before v4, or static | a new member |
//! | no id, with the instance id of a member | takes that member's place under a new id (KIP-345) |
//! | an id that was handed out | a new member |
//! | a member | rejoins |

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use kafka_protocol::messages::JoinGroupRequest;
use tracing::{debug, info, warn};

use super::Continuation;
use super::group::ClassicGroup;
use super::member::{ClassicGroupMember, Presence, Protocol, protocols_of};
use super::rebalance::{GroupStep, duration_ms, join_error, sync_error};
use super::state::ClassicGroupState;
use crate::coordinator::group::{DeferredReply, Group, GroupShard, RequestContext, Step, text};
use crate::coordinator::shard::{CoordinatorError, ReplyTo};
use crate::protocol::ErrorCode;

/// How long a new member's JoinGroup may wait. It cannot send heartbeats yet, and that its connection broke is not seen,
/// so without a limit the members of clients that give up and try again would add up.
const NEW_MEMBER_JOIN_TIMEOUT: Duration = Duration::from_secs(5 * 60);

/// The longest id that a record can hold, in bytes.
const LONGEST_ID: usize = i16::MAX as usize;

/// What is to be undone if a static member's new id cannot be stored.
#[derive(Debug)]
pub struct StaticMemberReplacement {
    group_id: Arc<str>,
    group_instance_id: Arc<str>,
    old_member_id: Arc<str>,
    new_member_id: Arc<str>,
    old_leader_id: Option<Arc<str>>,
    old_protocols: Vec<Protocol>,
    old_rebalance_timeout_ms: i32,
    old_session_timeout_ms: i32,
    /// v9+: KIP-814.
    may_skip_assignment: bool,
    reply_to: ReplyTo,
}

/// One JoinGroup.
struct Join<'a> {
    context: &'a RequestContext,
    request: &'a JoinGroupRequest,
    protocols: Vec<Protocol>,
    rebalance_timeout_ms: i32,
    reply_to: ReplyTo,
}

impl Join<'_> {
    fn group_instance_id(&self) -> Option<&str> {
        self.request.group_instance_id.as_deref()
    }

    /// Why the client joins, in its own words (v8+, KIP-800).
    fn reason(&self) -> &str {
        self.request.reason.as_deref().filter(|reason| !reason.is_empty()).unwrap_or("not provided")
    }
}

impl GroupShard {
    /// Answers with [`DeferredReply::Join`], maybe not before other members come. The request's group id and session
    /// timeout are valid.
    pub fn join_group(
        &mut self,
        step: &mut Step<'_>,
        context: &RequestContext,
        request: JoinGroupRequest,
        reply_to: ReplyTo,
    ) {
        let group_id: &str = &request.group_id;
        let is_new_member = request.member_id.is_empty();
        let mut is_new_group = false;
        let mut replaced = None;
        match self.groups.get(group_id) {
            Some(Group::Classic(_)) => {}
            Some(found @ Group::Consumer(_)) if !found.is_empty() => {
                self.classic_join_to_consumer_group(context, &request, reply_to, step);
                return;
            }
            Some(Group::Consumer(_)) | None if !is_new_member => {
                let response = join_error(ErrorCode::UnknownMemberId, &request.member_id);
                step.reply(reply_to, DeferredReply::Join(response));
                return;
            }
            found => {
                if let Some(found) = found {
                    info!(%group_id, "an empty consumer group becomes a classic group");
                    step.append_all(found.tombstone_records());
                }
                let key: Arc<str> = group_id.into();
                let group = Group::Classic(Box::new(ClassicGroup::new(key.clone(), step.now_ms)));
                replaced = self.groups.insert(key, group);
                is_new_group = true;
            }
        }
        let Some(Group::Classic(group)) = self.groups.get_mut(group_id) else { unreachable!("it is there by now") };
        let join = Join {
            context,
            request: &request,
            protocols: protocols_of(&request.protocols),
            rebalance_timeout_ms: match context.api_version {
                // v0 has no such timeout.
                0 => request.session_timeout_ms,
                _ => request.rebalance_timeout_ms,
            },
            reply_to,
        };
        let mut group_step = GroupStep { group, timers: &mut self.timers, step };
        group_step.join(join);
        if is_new_group {
            // The group exists once the log says so.
            let group_id = group_step.group.group_id.clone();
            let record = group_step.group.first_record();
            step.append(record);
            step.then(Continuation::GroupCreated { group_id, replaced });
        }
    }

    /// The group that a join created is in the log, or it is not: then all that was decided about it is void.
    pub(super) fn on_group_created(
        &mut self,
        group_id: &Arc<str>,
        replaced: Option<Group>,
        appended: Result<(), CoordinatorError>,
    ) {
        let Err(error) = appended else { return };
        info!(%group_id, %error, "the record of a new group was not written: the group is not created");
        // The one whose join made it gets the error, and nobody else can have joined.
        self.remove_classic_group(group_id);
        if let Some(replaced) = replaced {
            self.groups.insert(group_id.clone(), replaced);
        }
    }
}

impl GroupStep<'_, '_> {
    fn join(&mut self, join: Join<'_>) {
        let member_id = join.request.member_id.clone();
        let is_new_member = member_id.is_empty();
        let protocol_names = join.protocols.iter().map(|protocol| &*protocol.name);
        if !self.accepts(&member_id) {
            self.remove_member(&member_id);
            self.reply_join(join.reply_to, join_error(ErrorCode::GroupMaxSizeReached, ""));
        } else if !self.group.supports_protocols(&join.request.protocol_type, protocol_names) {
            self.reply_join(join.reply_to, join_error(ErrorCode::InconsistentGroupProtocol, &member_id));
        } else if is_new_member {
            self.join_new_member(join);
        } else if self.group.is_pending(&member_id) {
            if join.group_instance_id().is_some() {
                // Ids are handed out to dynamic members alone.
                debug!(group_id = %self.group.group_id, %member_id, "a static member joins with the id of a dynamic one");
                self.reply_join(join.reply_to, join_error(ErrorCode::UnknownServerError, ""));
                return;
            }
            self.add_member(join, member_id.as_str().into());
        } else {
            self.join_existing_member(join);
        }
    }

    /// Whether the group's size allows the member.
    fn accepts(&self, member_id: &str) -> bool {
        let max_size = usize::try_from(self.step.config.group_max_size).unwrap_or(0);
        match self.group.state() {
            ClassicGroupState::Empty => true,
            // Those who joined count, not the members: the limit may have become lower than the group is large, and the
            // last ones to join again are then put out.
            ClassicGroupState::PreparingRebalance => {
                self.group.member(member_id).is_some_and(ClassicGroupMember::is_awaiting_join)
                    || self.group.num_awaiting_join() < max_size
            }
            ClassicGroupState::CompletingRebalance | ClassicGroupState::Stable => {
                self.group.member(member_id).is_some() || self.group.num_members() < max_size
            }
        }
    }

    fn join_new_member(&mut self, join: Join<'_>) {
        let prefix = join.group_instance_id().unwrap_or(&join.context.client_id);
        let new_member_id: Arc<str> = format!("{prefix}-{}", self.step.new_uuid()).into();
        if new_member_id.len() > LONGEST_ID {
            debug!(group_id = %self.group.group_id, "a client or instance id is too long to make a member id of");
            self.reply_join(join.reply_to, join_error(ErrorCode::UnknownServerError, ""));
            return;
        }
        if let Some(group_instance_id) = join.group_instance_id() {
            let group_instance_id: Arc<str> = group_instance_id.into();
            match self.group.static_member_id(&group_instance_id).cloned() {
                Some(old_member_id) => {
                    info!(group_id = %self.group.group_id, %group_instance_id, %old_member_id, %new_member_id,
                        "a static member joins again under another id");
                    self.replace_static_member(join, group_instance_id, old_member_id, new_member_id);
                }
                None => self.add_member(join, new_member_id),
            }
        } else if join.context.api_version >= 4 {
            // v4+: KIP-394. A client that gives up before it knows its id leaves no member behind.
            debug!(group_id = %self.group.group_id, %new_member_id, "a member is to join with the id it is given");
            self.group.add_pending(new_member_id.clone());
            self.expect_join_of_pending(&new_member_id, duration_ms(join.request.session_timeout_ms));
            self.reply_join(join.reply_to, join_error(ErrorCode::MemberIdRequired, &new_member_id));
        } else {
            self.add_member(join, new_member_id);
        }
    }

    fn join_existing_member(&mut self, join: Join<'_>) {
        let member_id = join.request.member_id.clone();
        if let Err(error) = self.group.validate_member(&member_id, join.group_instance_id(), "join") {
            self.reply_join(join.reply_to, join_error(error, &member_id));
            return;
        }
        let unchanged = self.group.member(&member_id).is_some_and(|member| member.protocols == join.protocols);
        let is_leader = self.group.is_leader(&member_id);
        match self.group.state() {
            // The answer to its last join may have been lost.
            ClassicGroupState::CompletingRebalance if unchanged => {
                let members = if is_leader { self.members_for_leader() } else { Vec::new() };
                self.reply_join(join.reply_to, self.join_response(&member_id, members));
            }
            // The leader asks for a rebalance by joining: what the work is may have changed.
            ClassicGroupState::Stable if unchanged && !is_leader => {
                self.reply_join(join.reply_to, self.join_response(&member_id, Vec::new()));
            }
            ClassicGroupState::PreparingRebalance
            | ClassicGroupState::CompletingRebalance
            | ClassicGroupState::Stable => {
                self.update_member(&member_id, &join);
                let rejoined = || format!("member {member_id} joins again; client reason: {}", join.reason());
                self.rebalance_or_complete_join(rejoined);
            }
            ClassicGroupState::Empty => {
                self.reply_join(join.reply_to, join_error(ErrorCode::UnknownMemberId, &member_id));
            }
        }
    }

    fn update_member(&mut self, member_id: &str, join: &Join<'_>) {
        let protocols = join.protocols.clone();
        let session_timeout_ms = join.request.session_timeout_ms;
        self.group.update_member(
            member_id,
            protocols,
            join.rebalance_timeout_ms,
            session_timeout_ms,
            Some(join.reply_to),
        );
    }

    fn add_member(&mut self, join: Join<'_>, member_id: Arc<str>) {
        if let Some(initial) = &mut self.group.initial_rebalance {
            initial.new_member_added = true;
        }
        let reason = format!("new member {member_id}; client reason: {}", join.reason());
        self.group.add(ClassicGroupMember {
            member_id: member_id.clone(),
            group_instance_id: join.group_instance_id().map(Arc::from),
            client_id: join.context.client_id.clone(),
            client_host: join.context.client_host.clone(),
            rebalance_timeout_ms: join.rebalance_timeout_ms,
            session_timeout_ms: join.request.session_timeout_ms,
            protocol_type: join.request.protocol_type.to_string(),
            protocols: join.protocols,
            assignment: Bytes::new(),
            presence: Presence { is_new: true, awaiting_join: Some(join.reply_to), ..Presence::default() },
        });
        self.expect_heartbeat(&member_id, NEW_MEMBER_JOIN_TIMEOUT);
        self.rebalance_or_complete_join(|| reason);
    }

    fn replace_static_member(
        &mut self,
        join: Join<'_>,
        group_instance_id: Arc<str>,
        old_member_id: Arc<str>,
        new_member_id: Arc<str>,
    ) {
        let old_leader_id = self.group.leader_id.clone();
        self.give_static_member_another_id(&group_instance_id, &old_member_id, &new_member_id);
        let member = self.group.member(&new_member_id).expect("it was put there");
        let replacement = StaticMemberReplacement {
            group_id: self.group.group_id.clone(),
            group_instance_id,
            old_member_id,
            new_member_id: new_member_id.clone(),
            old_leader_id,
            old_protocols: member.protocols.clone(),
            old_rebalance_timeout_ms: member.rebalance_timeout_ms,
            old_session_timeout_ms: member.session_timeout_ms,
            may_skip_assignment: join.context.api_version >= 9,
            reply_to: join.reply_to,
        };
        self.update_member(&new_member_id, &join);
        match self.group.state() {
            ClassicGroupState::Stable if self.group.select_protocol() == self.group.protocol_name => {
                // All stay as they are, only the new id is to be remembered.
                self.step.append(self.group.record());
                self.step.then(Continuation::StaticMemberReplaced(Box::new(replacement)));
            }
            // The leader may already be sharing the work out among ids of which one is void now.
            ClassicGroupState::Stable | ClassicGroupState::CompletingRebalance => {
                let rejoined =
                    || format!("static member {new_member_id} joins again; client reason: {}", join.reason());
                self.prepare_rebalance(rejoined);
            }
            ClassicGroupState::PreparingRebalance => self.maybe_complete_join(),
            ClassicGroupState::Empty => {}
        }
    }

    /// Callers of the old id are fenced.
    fn give_static_member_another_id(
        &mut self,
        group_instance_id: &Arc<str>,
        old_member_id: &Arc<str>,
        new_member_id: &Arc<str>,
    ) {
        self.cancel_heartbeat(old_member_id);
        let presence = self.group.replace_static_member(group_instance_id, old_member_id, new_member_id.clone());
        if let Some(waiting) = presence.awaiting_join {
            let fenced = join_error(ErrorCode::FencedInstanceId, old_member_id).with_protocol_name(None);
            self.reply_join(waiting, fenced);
        }
        if let Some(waiting) = presence.awaiting_sync {
            self.reply_sync(waiting, sync_error(ErrorCode::FencedInstanceId));
        }
        self.reschedule_heartbeat(new_member_id);
    }

    /// A static member's new id is in the log, or it is not.
    pub(super) fn on_static_member_replaced(
        &mut self,
        replacement: StaticMemberReplacement,
        appended: Result<(), CoordinatorError>,
    ) {
        let StaticMemberReplacement { new_member_id, old_member_id, reply_to, .. } = &replacement;
        if let Err(error) = &appended {
            warn!(group_id = %self.group.group_id, %old_member_id, %new_member_id, %error,
                "a static member's new id was not written: it keeps the old one");
            let response = self
                .join_response("", Vec::new())
                .with_leader(text(replacement.old_leader_id.as_deref().unwrap_or_default()))
                .with_error_code(error.code().code());
            self.group.update_member(
                new_member_id,
                replacement.old_protocols.clone(),
                replacement.old_rebalance_timeout_ms,
                replacement.old_session_timeout_ms,
                None,
            );
            self.give_static_member_another_id(&replacement.group_instance_id, new_member_id, old_member_id);
            self.reply_join(*reply_to, response);
            return;
        }
        let is_leader = self.group.is_leader(new_member_id);
        let response = if replacement.may_skip_assignment {
            // v9+: KIP-814. The leader gets all it needs to watch the metadata, and is told not to assign anew.
            let members = if is_leader { self.members_for_leader() } else { Vec::new() };
            self.join_response(new_member_id, members).with_skip_assignment(is_leader)
        } else {
            // A leader that is told another's id leads does not assign anew either.
            let leader_id = replacement.old_leader_id.as_deref().unwrap_or_default();
            self.join_response(new_member_id, Vec::new()).with_leader(text(leader_id))
        };
        self.complete_join_of(new_member_id, || response);
    }
}

impl StaticMemberReplacement {
    pub(super) fn group_id(&self) -> &Arc<str> {
        &self.group_id
    }
}
