//! ConsumerGroupHeartbeat: a member joins, says that it is there, tells what it wants and what it has given up, or leaves.
//!
//! | member epoch | what the member wants |
//! |---|---|
//! | 0 | to join, or to join again after it was fenced |
//! | above 0 | to stay; it says what changed, and `null` or -1 for what did not |
//! | -1 | to leave |
//! | -2 | to leave for a while: a static member, whose partitions wait for its return |

use std::sync::Arc;

use kafka_protocol::messages::consumer_group_heartbeat_response::{Assignment, TopicPartitions};
use kafka_protocol::messages::{ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse};
use kafka_protocol::protocol::StrBytes;
use tracing::info;

use super::ConsumerGroup;
use super::member::{
    ConsumerGroupMember, LEAVE_GROUP_MEMBER_EPOCH, LEAVE_GROUP_STATIC_MEMBER_EPOCH, PartitionsWithEpochs,
};
use super::reconciliation::OwnedPartitions;
use super::update::{MemberProtocol, Update, fail_if_fenced, group_config, set_session_timer, unknown_instance};
use super::{migration, new_records};
use crate::config::BrokerConfig;
use crate::coordinator::group::assignor::Assignor;
use crate::coordinator::group::records::GroupRecord;
use crate::coordinator::group::{Group, GroupShard, RequestContext, Step, text};
use crate::protocol::{ApiError, ErrorCode};
use crate::types::{PartitionId, TopicId, TopicName};

/// From this version on a member makes its own id (KIP-1082).
const CONSUMER_GENERATED_MEMBER_ID_REQUIRED_VERSION: i16 = 1;

/// Checks what can be said of a heartbeat without its group.
pub fn validate_consumer_group_heartbeat(
    request: &ConsumerGroupHeartbeatRequest,
    api_version: i16,
    config: &BrokerConfig,
) -> Result<(), ApiError> {
    let invalid = |message: &str| Err(ApiError::new(ErrorCode::InvalidRequest, message));
    // As Java trims: everything up to a space.
    let is_blank = |text: &str| text.chars().all(|c| c <= ' ');
    let is_blank_if_any = |text: &Option<StrBytes>| text.as_deref().is_some_and(is_blank);
    let epoch = request.member_epoch;
    let id_is_needed =
        api_version >= CONSUMER_GENERATED_MEMBER_ID_REQUIRED_VERSION || epoch > 0 || epoch == LEAVE_GROUP_MEMBER_EPOCH;
    if id_is_needed && is_blank(&request.member_id) {
        return invalid("MemberId can't be empty.");
    }
    if is_blank(&request.group_id) {
        return invalid("GroupId can't be empty.");
    }
    if is_blank_if_any(&request.instance_id) {
        return invalid("InstanceId can't be empty.");
    }
    if is_blank_if_any(&request.rack_id) {
        return invalid("RackId can't be empty.");
    }
    if epoch == 0 {
        if request.rebalance_timeout_ms == -1 {
            return invalid("RebalanceTimeoutMs must be provided in first request.");
        }
        if request.topic_partitions.as_ref().is_none_or(|owned| !owned.is_empty()) {
            return invalid("TopicPartitions must be empty when (re-)joining.");
        }
        if request.subscribed_topic_names.is_none() && request.subscribed_topic_regex.is_none() {
            return invalid("Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.");
        }
    } else if epoch == LEAVE_GROUP_STATIC_MEMBER_EPOCH {
        if request.instance_id.is_none() {
            return invalid("InstanceId can't be null.");
        }
    } else if epoch < LEAVE_GROUP_STATIC_MEMBER_EPOCH {
        return invalid("MemberEpoch is invalid.");
    }
    if let Some(assignor) = &request.server_assignor
        && !config.group_consumer_assignors.iter().any(|name| **name == **assignor)
    {
        let is_served =
            |assignor: &Assignor| config.group_consumer_assignors.iter().any(|name| name == assignor.name());
        let served: Vec<&str> = Assignor::ALL.into_iter().filter(is_served).map(Assignor::name).collect();
        let served = served.join(", ");
        let message = format!("ServerAssignor {} is not supported. Supported assignors: {served}.", &**assignor);
        return Err(ApiError::new(ErrorCode::UnsupportedAssignor, message));
    }
    Ok(())
}

impl GroupShard {
    /// Answers a heartbeat that [`validate_consumer_group_heartbeat`] let pass.
    pub fn consumer_group_heartbeat(
        &mut self,
        context: &RequestContext,
        request: &ConsumerGroupHeartbeatRequest,
        step: &mut Step<'_>,
    ) -> Result<ConsumerGroupHeartbeatResponse, ApiError> {
        match request.member_epoch {
            LEAVE_GROUP_MEMBER_EPOCH | LEAVE_GROUP_STATIC_MEMBER_EPOCH => self.consumer_group_leave(request, step),
            _ => self.consumer_group_keep(context, request, step),
        }
    }

    fn consumer_group_keep(
        &mut self,
        context: &RequestContext,
        request: &ConsumerGroupHeartbeatRequest,
        step: &mut Step<'_>,
    ) -> Result<ConsumerGroupHeartbeatResponse, ApiError> {
        let join = request.member_epoch == 0;
        let mut records = Vec::new();
        // A group that no record tells of yet.
        let mut unwritten = self.consumer_group_to_be(&request.group_id, join, step, &mut records)?;
        let fresh_member_id = request.member_id.is_empty().then(|| new_member_id(step));
        let GroupShard { groups, timers, consumer_groups, .. } = self;
        let group = match (&mut unwritten, groups.get_mut(request.group_id.as_str())) {
            (Some(group), _) => &mut **group,
            (None, Some(Group::Consumer(group))) => &mut **group,
            (None, _) => unreachable!("it was looked up just now"),
        };
        let mut update = Update {
            group,
            topics: &mut consumer_groups.topics,
            last_image_with_new_topics: consumer_groups.last_image_with_new_topics,
            timers,
            step,
            records,
        };
        update.fail_if_full(&request.member_id)?;
        let member_id: Arc<str> = match (fresh_member_id, update.group.member(&request.member_id)) {
            (Some(id), _) => id,
            (None, Some(member)) => Arc::clone(&member.member_id),
            (None, None) => Arc::from(&*request.member_id),
        };
        let owned = request.topic_partitions.as_ref().map(|owned| {
            let partitions = |partitions: &[i32]| partitions.iter().copied().map(PartitionId).collect();
            owned.iter().map(|topic| (TopicId(topic.topic_id), partitions(&topic.partitions))).collect()
        });
        let owned: Option<&OwnedPartitions> = owned.as_ref();
        let protocol = MemberProtocol::Consumer;
        let member = match request.instance_id.as_deref() {
            None => update.dynamic_member(&member_id, request.member_epoch, owned, join, protocol)?,
            Some(instance_id) => {
                update.static_member(&member_id, request.member_epoch, instance_id, owned, join, protocol)?
            }
        };

        let changed = changed_member(&member, context, request);
        let updated = changed.as_ref().unwrap_or(&member);
        let names_changed = changed.is_some() && update.write_member(&member, updated);
        let regex_change = update.update_regexes(&member, updated)?;
        let subscription_changed = names_changed || regex_change.is_change();
        let bump = names_changed || regex_change == super::update::RegexChange::ChangedAndResolved;
        let (group_epoch, subscription_type) = if bump || update.group.has_metadata_expired(update.step.now_ms) {
            update.update_subscription_metadata(bump, &member, updated)
        } else {
            (update.group.group_epoch(), None)
        };
        let reached = if update.group.assignment_epoch() >= group_epoch
            && !subscription_changed
            && updated.is_reconciled_to(update.group.assignment_epoch())
        {
            None
        } else {
            let target = update.update_target_assignment(group_epoch, &member, updated, subscription_type)?;
            update.reconcile(updated, &target, subscription_changed, owned)?
        };
        let updated = reached.as_ref().unwrap_or(updated);

        let group_id = Arc::clone(update.group.group_id());
        let config = group_config(&group_id, update.step);
        set_session_timer(update.timers, &group_id, &member_id, config.session_timeout_ms, update.step);
        let records = std::mem::take(&mut update.records);

        let mut response = ConsumerGroupHeartbeatResponse::default()
            .with_member_id(Some(match request.member_id.is_empty() {
                false => request.member_id.clone(),
                true => text(&updated.member_id),
            }))
            .with_member_epoch(updated.member_epoch)
            .with_heartbeat_interval_ms(config.heartbeat_interval_ms);
        let subscribes = request.subscribed_topic_names.is_some() || request.subscribed_topic_regex.is_some();
        let is_full_request = request.rebalance_timeout_ms != -1 && subscribes && request.topic_partitions.is_some();
        if join || is_full_request || member.assigned != updated.assigned {
            response.assignment = Some(assignment(&updated.assigned));
        }
        step.append_all(records);
        Ok(response)
    }

    /// Sees to it that there is a consumer group, if the member joins; `Some`: one that no record tells of yet.
    fn consumer_group_to_be(
        &mut self,
        group_id: &str,
        join: bool,
        step: &mut Step<'_>,
        records: &mut Vec<GroupRecord>,
    ) -> Result<Option<Box<ConsumerGroup>>, ApiError> {
        let new = || Ok(Some(Box::new(ConsumerGroup::new(Arc::from(group_id)))));
        match self.groups.get(group_id) {
            None if join => new(),
            None => {
                let message = format!("Consumer group {group_id} not found.");
                Err(ApiError::new(ErrorCode::GroupIdNotFound, message))
            }
            Some(Group::Consumer(_)) => Ok(None),
            Some(group @ Group::Classic(_)) if join && group.is_empty() => {
                info!(%group_id, "an empty classic group becomes a consumer group");
                records.extend(group.tombstone_records());
                new()
            }
            Some(Group::Classic(_)) if join => {
                let group = migration::upgrade(self, group_id, step, records)?;
                Ok(Some(Box::new(group)))
            }
            Some(Group::Classic(_)) => {
                let message = format!("Group {group_id} is not a consumer group.");
                Err(ApiError::new(ErrorCode::GroupIdNotFound, message))
            }
        }
    }

    fn consumer_group_leave(
        &mut self,
        request: &ConsumerGroupHeartbeatRequest,
        step: &mut Step<'_>,
    ) -> Result<ConsumerGroupHeartbeatResponse, ApiError> {
        let group = self.consumer_group(&request.group_id)?;
        let response = ConsumerGroupHeartbeatResponse::default()
            .with_member_id(Some(request.member_id.clone()))
            .with_member_epoch(request.member_epoch);
        let group_id = group.group_id();
        let member = match request.instance_id.as_deref() {
            None => {
                let member = group.known_member(&request.member_id)?;
                info!(%group_id, member_id = %member.member_id, "member leaves");
                member
            }
            Some(instance_id) => {
                let member = group.static_member(instance_id).ok_or_else(|| unknown_instance(instance_id))?;
                fail_if_fenced(member, &request.member_id, instance_id)?;
                if request.member_epoch == LEAVE_GROUP_STATIC_MEMBER_EPOCH {
                    info!(%group_id, member_id = %member.member_id, %instance_id, "static member leaves for a while");
                    step.append(new_records::current_assignment(group_id, &away(member)));
                    return Ok(response);
                }
                info!(%group_id, member_id = %member.member_id, %instance_id, "static member leaves");
                member
            }
        };
        let leaving = vec![Arc::clone(member)];
        self.fence_consumer_group_members(&request.group_id, &leaving, step)?;
        Ok(response)
    }

    /// The consumer group of this id.
    pub(super) fn consumer_group(&self, group_id: &str) -> Result<&ConsumerGroup, ApiError> {
        match self.groups.get(group_id) {
            Some(Group::Consumer(group)) => Ok(group),
            Some(Group::Classic(_)) => {
                let message = format!("Group {group_id} is not a consumer group.");
                Err(ApiError::new(ErrorCode::GroupIdNotFound, message))
            }
            None => Err(ApiError::new(ErrorCode::GroupIdNotFound, format!("Group {group_id} not found."))),
        }
    }
}

/// An id for a member that did not make one: Kafka's text of a random uuid, and not like an option of its tools.
pub(super) fn new_member_id(step: &mut Step<'_>) -> Arc<str> {
    loop {
        let id = TopicId(step.new_uuid()).to_string();
        if !id.starts_with('-') {
            return id.into();
        }
    }
}

/// A static member that is away: what it owns counts from epoch 0, so that it may commit it when it is back.
fn away(member: &ConsumerGroupMember) -> ConsumerGroupMember {
    let assigned = member.assigned.iter().map(|(topic, partitions)| {
        let partitions = partitions.keys().map(|partition| (*partition, 0)).collect();
        (*topic, partitions)
    });
    ConsumerGroupMember {
        member_epoch: LEAVE_GROUP_STATIC_MEMBER_EPOCH,
        assigned: Arc::new(assigned.collect()),
        pending_revocation: Arc::default(),
        ..member.clone()
    }
}

/// The member as the request has it; `None`: it says nothing new.
fn changed_member(
    member: &ConsumerGroupMember,
    context: &RequestContext,
    request: &ConsumerGroupHeartbeatRequest,
) -> Option<Arc<ConsumerGroupMember>> {
    fn differs(new: &Option<StrBytes>, old: &Option<Arc<str>>) -> bool {
        new.is_some() && new.as_deref() != old.as_deref()
    }
    let names_differ = request.subscribed_topic_names.as_ref().is_some_and(|names| {
        let known = &member.subscribed_topic_names;
        // The same names may come twice.
        names.iter().any(|name| !known.contains(name.as_str()))
            || names.iter().map(|name| name.as_str()).collect::<std::collections::BTreeSet<_>>().len() != known.len()
    });
    let timeout = request.rebalance_timeout_ms;
    let changed = names_differ
        || differs(&request.instance_id, &member.instance_id)
        || differs(&request.rack_id, &member.rack_id)
        || differs(&request.server_assignor, &member.server_assignor)
        || differs(&request.subscribed_topic_regex, &member.subscribed_topic_regex)
        || (timeout != -1 && timeout != member.rebalance_timeout_ms)
        || context.client_id != *member.client_id
        || context.client_host != *member.client_host
        || member.classic.is_some();
    if !changed {
        return None;
    }
    let or = |new: &Option<StrBytes>, old: &Option<Arc<str>>| new.as_deref().map(Arc::from).or_else(|| old.clone());
    Some(Arc::new(ConsumerGroupMember {
        instance_id: or(&request.instance_id, &member.instance_id),
        rack_id: or(&request.rack_id, &member.rack_id),
        rebalance_timeout_ms: if timeout == -1 { member.rebalance_timeout_ms } else { timeout },
        server_assignor: or(&request.server_assignor, &member.server_assignor),
        subscribed_topic_names: match &request.subscribed_topic_names {
            Some(names) if names_differ => Arc::new(names.iter().map(|name| TopicName::from(name.as_str())).collect()),
            _ => Arc::clone(&member.subscribed_topic_names),
        },
        subscribed_topic_regex: or(&request.subscribed_topic_regex, &member.subscribed_topic_regex),
        client_id: Arc::from(&*context.client_id),
        client_host: Arc::from(&*context.client_host),
        classic: None,
        ..member.clone()
    }))
}

/// What a member is told to own.
fn assignment(assigned: &PartitionsWithEpochs) -> Assignment {
    let topics = assigned.iter().map(|(topic, partitions)| {
        TopicPartitions::default()
            .with_topic_id(topic.0)
            .with_partitions(partitions.keys().map(|partition| partition.0).collect())
    });
    Assignment::default().with_topic_partitions(topics.collect())
}
