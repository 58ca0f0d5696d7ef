//! Members that speak the classic protocol in a consumer group, as while a group is moved from one to the other.
//!
//! JoinGroup is such a member's heartbeat that may change something: the answer's generation is its member epoch. It is
//! told to join again (REBALANCE_IN_PROGRESS, by Heartbeat) whenever that would bring it further, and SyncGroup gives it
//! what it owns. All of it at once: nobody waits for other members.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use kafka_protocol::messages::leave_group_response::MemberResponse;
use kafka_protocol::messages::{
    HeartbeatRequest, HeartbeatResponse, JoinGroupRequest, JoinGroupResponse, LeaveGroupRequest, LeaveGroupResponse,
    SyncGroupRequest, SyncGroupResponse,
};
use kafka_protocol::protocol::StrBytes;
use tracing::{debug, info};

use super::heartbeat::new_member_id;
use super::member::{ConsumerGroupMember, MemberState};
use super::reconciliation::OwnedPartitions;
use super::update::{MemberProtocol, Target, Update, fail_if_fenced, set_session_timer, unknown_instance};
use super::{ConsumerGroup, ConsumerTimer, migration, timeout};
use crate::coordinator::group::consumer_protocol::{PROTOCOL_TYPE, Subscription};
use crate::coordinator::group::records::{ClassicMemberMetadata, ClassicProtocol};
use crate::coordinator::group::{DeferredReply, Group, GroupShard, GroupTimer, RequestContext, Step, text};
use crate::coordinator::shard::ReplyTo;
use crate::metadata::image::MetadataImage;
use crate::protocol::{ApiError, ErrorCode};

impl GroupShard {
    /// JoinGroup to a consumer group that has members.
    pub(in crate::coordinator::group) fn classic_join_to_consumer_group(
        &mut self,
        context: &RequestContext,
        request: &JoinGroupRequest,
        reply_to: ReplyTo,
        step: &mut Step<'_>,
    ) {
        let response = self.join_consumer_group(context, request, step).unwrap_or_else(|error| {
            debug!(group_id = %request.group_id.as_str(), %error, "a classic member cannot join a consumer group");
            JoinGroupResponse::default().with_error_code(error.code.code())
        });
        step.reply(reply_to, DeferredReply::Join(response));
    }

    fn join_consumer_group(
        &mut self,
        context: &RequestContext,
        request: &JoinGroupRequest,
        step: &mut Step<'_>,
    ) -> Result<JoinGroupResponse, ApiError> {
        let policy = step.config.group_consumer_migration_policy;
        if !policy.upgrade && !policy.downgrade {
            return Err(ApiError::bare(ErrorCode::InconsistentGroupProtocol));
        }
        let is_unknown_member = request.member_id.is_empty();
        let member_id: Arc<str> = if is_unknown_member { new_member_id(step) } else { Arc::from(&*request.member_id) };
        let rebalance_timeout_ms = match context.api_version {
            // v0 has no such timeout.
            0 => request.session_timeout_ms,
            _ => request.rebalance_timeout_ms,
        };
        let GroupShard { groups, timers, consumer_groups, .. } = self;
        let Some(Group::Consumer(group)) = groups.get_mut(request.group_id.as_str()) else {
            unreachable!("the caller saw it");
        };
        let mut update = Update {
            group,
            topics: &mut consumer_groups.topics,
            last_image_with_new_topics: consumer_groups.last_image_with_new_topics,
            timers,
            step,
            records: Vec::new(),
        };
        update.fail_if_full(&member_id)?;
        let names = request.protocols.iter().map(|protocol| &*protocol.name);
        if !update.group.supports_classic_protocols(&request.protocol_type, names) {
            return Err(ApiError::bare(ErrorCode::InconsistentGroupProtocol));
        }
        let instance_id = request.group_instance_id.as_deref();
        // v4+: KIP-394.
        if is_unknown_member && instance_id.is_none() && context.api_version >= 4 {
            info!(group_id = %update.group.group_id(), %member_id, "a classic member is to join with this id");
            return Ok(JoinGroupResponse::default()
                .with_member_id(text(&member_id))
                .with_error_code(ErrorCode::MemberIdRequired.code()));
        }
        let nothing = OwnedPartitions::new();
        let protocol = MemberProtocol::Classic;
        let member = match instance_id {
            None => update.dynamic_member(&member_id, -1, Some(&nothing), true, protocol)?,
            Some(instance_id) => {
                update.static_member(&member_id, -1, instance_id, Some(&nothing), is_unknown_member, protocol)?
            }
        };
        let replaced = instance_id.and_then(|instance_id| update.group.static_member(instance_id)).cloned();
        let replaced =
            replaced.filter(|replaced| migration::may_downgrade_replacing(update.group, replaced, update.step));

        let Some(first) = request.protocols.first() else { unreachable!("no protocol is not a supported one") };
        let subscription = Subscription::decode(&first.metadata).map_err(|error| {
            debug!(group_id = %update.group.group_id(), %error, "a classic member's subscription cannot be read");
            ApiError::bare(ErrorCode::UnknownServerError)
        })?;
        let updated = Arc::new(ConsumerGroupMember {
            instance_id: instance_id.map(Arc::from).or_else(|| member.instance_id.clone()),
            rack_id: subscription.rack_id.as_deref().map(Arc::from).or_else(|| member.rack_id.clone()),
            rebalance_timeout_ms: match rebalance_timeout_ms {
                -1 => member.rebalance_timeout_ms,
                timeout => timeout,
            },
            subscribed_topic_names: Arc::new(subscription.topics.iter().cloned().collect()),
            // The classic protocol has none.
            subscribed_topic_regex: Some(Arc::from("")),
            client_id: Arc::from(&*context.client_id),
            client_host: Arc::from(&*context.client_host),
            classic: Some(Arc::new(ClassicMemberMetadata {
                session_timeout_ms: request.session_timeout_ms,
                supported_protocols: request.protocols.iter().map(protocol_of).collect(),
            })),
            ..(*member).clone()
        });
        let names_changed = update.write_member(&member, &updated);
        let regex_change = update.update_regexes(&member, &updated)?;
        let bump = names_changed || regex_change.is_change();
        let (group_epoch, subscription_type) = if bump || update.group.has_metadata_expired(update.step.now_ms) {
            update.update_subscription_metadata(bump, &member, &updated)
        } else {
            (update.group.group_epoch(), None)
        };
        let owned = owned_partitions(&subscription, update.step.image);

        let group_id = Arc::clone(update.group.group_id());
        let reached = match &replaced {
            Some(replaced) => {
                let stale = update.group.assignment_epoch() < group_epoch;
                let reached = if stale {
                    None
                } else {
                    let partitions = update.group.target_assignment_of(&updated);
                    let target = Target { epoch: update.group.assignment_epoch(), partitions };
                    update.reconcile(&updated, &target, bump, Some(&owned))?
                };
                let records = std::mem::take(&mut update.records);
                let joining = reached.as_ref().unwrap_or(&updated);
                migration::downgrade_replacing(group, replaced, joining, stale, records, step)?;
                reached
            }
            None => {
                let target = update.update_target_assignment(group_epoch, &member, &updated, subscription_type)?;
                let reached = update.reconcile(&updated, &target, bump, Some(&owned))?;
                let records = std::mem::take(&mut update.records);
                step.append_all(records);
                reached
            }
        };
        let updated = reached.unwrap_or(updated);
        let member_id = Arc::clone(&updated.member_id);
        timers.cancel(&GroupTimer::Consumer(ConsumerTimer::Join(Arc::clone(&group_id), Arc::clone(&member_id))));
        if replaced.is_none() {
            set_session_timer(timers, &group_id, &member_id, request.session_timeout_ms, step);
            let timer = ConsumerTimer::Sync(group_id, member_id);
            timers.set(GroupTimer::Consumer(timer), step.now + timeout(rebalance_timeout_ms));
        }
        Ok(JoinGroupResponse::default()
            .with_member_id(text(&updated.member_id))
            .with_generation_id(updated.member_epoch)
            .with_protocol_type(Some(StrBytes::from_static_str(PROTOCOL_TYPE)))
            .with_protocol_name(Some(first.name.clone())))
    }

    /// SyncGroup to a consumer group that has members.
    pub(in crate::coordinator::group) fn classic_sync_to_consumer_group(
        &mut self,
        request: &SyncGroupRequest,
        reply_to: ReplyTo,
        step: &mut Step<'_>,
    ) {
        let response = self.sync_with_consumer_group(request, step).unwrap_or_else(|error| {
            debug!(group_id = %request.group_id.as_str(), %error, "a classic member cannot sync with a consumer group");
            SyncGroupResponse::default().with_error_code(error.code.code())
        });
        step.reply(reply_to, DeferredReply::Sync(response));
    }

    fn sync_with_consumer_group(
        &mut self,
        request: &SyncGroupRequest,
        step: &mut Step<'_>,
    ) -> Result<SyncGroupResponse, ApiError> {
        let group = self.consumer_group(&request.group_id)?;
        let (member, classic) =
            classic_member(group, &request.member_id, request.group_instance_id.as_deref(), request.generation_id)?;
        let (member, classic) = (Arc::clone(member), Arc::clone(classic));
        let group_id = Arc::clone(group.group_id());
        let Some(protocol) = classic.supported_protocols.first() else {
            return Err(ApiError::bare(ErrorCode::UnknownServerError));
        };
        let other_type = request.protocol_type.as_deref().is_some_and(|asked| asked != PROTOCOL_TYPE);
        let other_name = request.protocol_name.as_deref().is_some_and(|asked| *asked != *protocol.name);
        if other_type || other_name {
            return Err(ApiError::bare(ErrorCode::InconsistentGroupProtocol));
        }
        // One that must give partitions up has joined already, and finishes that first.
        if group.assignment_epoch() > member.member_epoch && member.state != MemberState::UnrevokedPartitions {
            self.expect_join(&group_id, &member, step);
            return Err(ApiError::bare(ErrorCode::RebalanceInProgress));
        }
        let assigned = member.assigned.iter().map(|(topic, partitions)| (topic, partitions.keys()));
        let assignment = migration::encode_assignment(assigned, &protocol.metadata, step.image).map_err(|error| {
            debug!(%group_id, %error, "a classic member's version of the embedded protocol cannot be read");
            ApiError::bare(ErrorCode::UnknownServerError)
        })?;
        self.cancel(ConsumerTimer::Sync(Arc::clone(&group_id), Arc::clone(&member.member_id)));
        set_session_timer(&mut self.timers, &group_id, &member.member_id, classic.session_timeout_ms, step);
        Ok(SyncGroupResponse::default()
            .with_protocol_type(request.protocol_type.clone())
            .with_protocol_name(request.protocol_name.clone())
            .with_assignment(assignment))
    }

    /// Heartbeat to a consumer group.
    pub(in crate::coordinator::group) fn classic_heartbeat_to_consumer_group(
        &mut self,
        request: &HeartbeatRequest,
        step: &mut Step<'_>,
    ) -> HeartbeatResponse {
        let code = match self.heartbeat_to_consumer_group(request, step) {
            Ok(code) => code,
            Err(error) => error.code,
        };
        HeartbeatResponse::default().with_error_code(code.code())
    }

    fn heartbeat_to_consumer_group(
        &mut self,
        request: &HeartbeatRequest,
        step: &mut Step<'_>,
    ) -> Result<ErrorCode, ApiError> {
        let group = self.consumer_group(&request.group_id)?;
        let (member, classic) =
            classic_member(group, &request.member_id, request.group_instance_id.as_deref(), request.generation_id)?;
        let session_timeout_ms = classic.session_timeout_ms;
        let may_get_further = member.member_epoch < group.assignment_epoch()
            || member.state == MemberState::UnrevokedPartitions
            || (member.state == MemberState::UnreleasedPartitions && !group.waits_for_partitions(member));
        let (group_id, member) = (Arc::clone(group.group_id()), Arc::clone(member));
        set_session_timer(&mut self.timers, &group_id, &member.member_id, session_timeout_ms, step);
        if !may_get_further {
            return Ok(ErrorCode::None);
        }
        self.expect_join(&group_id, &member, step);
        Ok(ErrorCode::RebalanceInProgress)
    }

    /// LeaveGroup to a consumer group; members of either protocol may be named.
    pub(in crate::coordinator::group) fn classic_leave_of_consumer_group(
        &mut self,
        request: LeaveGroupRequest,
        step: &mut Step<'_>,
    ) -> LeaveGroupResponse {
        let group_id = request.group_id.as_str();
        let Ok(group) = self.consumer_group(group_id) else { unreachable!("the caller saw it") };
        let mut leaving: Vec<Arc<ConsumerGroupMember>> = Vec::new();
        // A request may name a member more than once.
        let mut named: BTreeSet<Arc<str>> = BTreeSet::new();
        let mut members = Vec::with_capacity(request.members.len());
        for identity in request.members {
            let found = match identity.group_instance_id.as_deref() {
                None => group.known_member(&identity.member_id),
                Some(instance_id) => {
                    let member = group.static_member(instance_id).ok_or_else(|| unknown_instance(instance_id));
                    // An admin client knows a static member by its instance id alone.
                    member.and_then(|member| match identity.member_id.is_empty() {
                        true => Ok(member),
                        false => fail_if_fenced(member, &identity.member_id, instance_id).map(|()| member),
                    })
                }
            };
            let code = match found {
                Ok(member) => {
                    let reason = identity.reason.as_deref().unwrap_or("not provided");
                    info!(%group_id, member_id = %member.member_id, client_reason = reason, "member leaves");
                    if named.insert(Arc::clone(&member.member_id)) {
                        leaving.push(Arc::clone(member));
                    }
                    ErrorCode::None
                }
                Err(error) => error.code,
            };
            members.push(
                MemberResponse::default()
                    .with_member_id(identity.member_id)
                    .with_group_instance_id(identity.group_instance_id)
                    .with_error_code(code.code()),
            );
        }
        match self.fence_consumer_group_members(group_id, &leaving, step) {
            Ok(()) => LeaveGroupResponse::default().with_members(members),
            Err(error) => LeaveGroupResponse::default().with_error_code(error.code.code()),
        }
    }

    /// The member was told to join again, and has its rebalance timeout to do so.
    fn expect_join(&mut self, group_id: &Arc<str>, member: &ConsumerGroupMember, step: &Step<'_>) {
        let timer = ConsumerTimer::Join(Arc::clone(group_id), Arc::clone(&member.member_id));
        self.timers.set_if_absent(GroupTimer::Consumer(timer), step.now + timeout(member.rebalance_timeout_ms));
    }
}

/// A member that must be there, of the classic protocol and in this generation.
fn classic_member<'g>(
    group: &'g ConsumerGroup,
    member_id: &str,
    instance_id: Option<&str>,
    generation_id: i32,
) -> Result<(&'g Arc<ConsumerGroupMember>, &'g Arc<ClassicMemberMetadata>), ApiError> {
    let member = match instance_id {
        None => group.known_member(member_id)?,
        Some(instance_id) => {
            let member = group.static_member(instance_id).ok_or_else(|| unknown_instance(instance_id))?;
            fail_if_fenced(member, member_id, instance_id)?;
            member
        }
    };
    let Some(classic) = &member.classic else {
        let message = format!("Member {member_id} does not use the classic protocol.");
        return Err(ApiError::new(ErrorCode::UnknownMemberId, message));
    };
    if member.member_epoch != generation_id {
        return Err(ApiError::bare(ErrorCode::IllegalGeneration));
    }
    Ok((member, classic))
}

fn protocol_of(protocol: &kafka_protocol::messages::join_group_request::JoinGroupRequestProtocol) -> ClassicProtocol {
    // In memory of its own: the request's bytes are part of a larger buffer.
    ClassicProtocol { name: protocol.name.to_string(), metadata: Bytes::copy_from_slice(&protocol.metadata) }
}

/// What a classic member says that it owns.
fn owned_partitions(subscription: &Subscription, image: &MetadataImage) -> OwnedPartitions {
    let topics = subscription.owned_partitions.iter();
    topics.filter_map(|(name, partitions)| Some((image.topic(name)?.id, partitions.clone()))).collect()
}
