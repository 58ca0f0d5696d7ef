//! Groups that change their protocol while they have members (`group.consumer.migration.policy`).
//!
//! A classic group of consumers becomes a consumer group when a member of the consumer protocol joins it: generation and
//! assignments become epoch and target. A consumer group becomes a classic group when its last member of the consumer
//! protocol leaves, or when one of the classic protocol takes that member's place; what was the target is then what the
//! members have. Groups without members change without asking.

use std::collections::BTreeSet;
use std::sync::Arc;

use tracing::info;

use super::member::{ConsumerGroupMember, MemberState, PartitionsWithEpochs};
use super::topics::SubscribedTopics;
use super::update::set_session_timer;
use super::{ConsumerGroup, Continuation};
use crate::coordinator::group::assignor::TopicPartitions;
use crate::coordinator::group::classic::{ClassicGroup, ClassicGroupMember};
use crate::coordinator::group::consumer_protocol::{self, Assignment, ConsumerProtocolError, Subscription};
use crate::coordinator::group::records::{ClassicMemberMetadata, ClassicProtocol, GroupRecord};
use crate::coordinator::group::{Group, GroupShard, Step};
use crate::metadata::image::MetadataImage;
use crate::protocol::{ApiError, ErrorCode};
use crate::types::{PartitionId, TopicId, TopicName};

/// What a consumer group says of an upgrade that is not possible.
fn no_upgrade(group_id: &str, reason: &str) -> ApiError {
    info!(%group_id, reason, "a classic group cannot become a consumer group");
    let message = format!("Cannot upgrade classic group {group_id} to consumer group because {reason}.");
    ApiError::new(ErrorCode::GroupIdNotFound, message)
}

/// Makes a consumer group of a classic group with members, and the records that say so. Those who wait in the classic
/// group are told to join again. No record tells of the group until the step's records are in the log.
pub(super) fn upgrade(
    shard: &mut GroupShard,
    group_id: &str,
    step: &mut Step<'_>,
    records: &mut Vec<GroupRecord>,
) -> Result<ConsumerGroup, ApiError> {
    let Some(Group::Classic(classic)) = shard.groups.get(group_id) else { unreachable!("the caller saw it") };
    if !step.config.group_consumer_migration_policy.upgrade {
        return Err(no_upgrade(group_id, "online upgrade is disabled"));
    }
    if !classic.uses_consumer_group_protocol() {
        return Err(no_upgrade(group_id, "the group does not use the consumer embedded protocol"));
    }
    if classic.num_members() > usize::try_from(step.config.group_consumer_max_size).unwrap_or(0) {
        return Err(no_upgrade(group_id, "the group size exceeds the consumer group maximum size"));
    }
    shard.answer_classic_waiters(group_id, ErrorCode::RebalanceInProgress, step);
    let Some(Group::Classic(classic)) = shard.groups.get(group_id) else { unreachable!("it is still there") };
    let mut group = from_classic(classic, step.image)?;
    let hash = shard.consumer_groups.topics.group_hash(group.subscribed_topics(), step.image);
    group.set_group_epoch(group.group_epoch(), hash);
    records.extend(classic.tombstone_records());
    group.create_group_records(records);
    for member in group.members() {
        let session_timeout_ms = member.classic.as_ref().map_or(0, |classic| classic.session_timeout_ms);
        set_session_timer(&mut shard.timers, group.group_id(), &member.member_id, session_timeout_ms, step);
    }
    info!(%group_id, members = group.num_members(), "a classic group becomes a consumer group");
    Ok(group)
}

fn from_classic(classic: &ClassicGroup, image: &MetadataImage) -> Result<ConsumerGroup, ApiError> {
    let group_id = classic.group_id();
    let generation_id = classic.generation_id();
    let Some(protocol_name) = classic.protocol_name() else {
        // Kafka fails so, too, before the group's first generation.
        info!(%group_id, "a classic group without a protocol cannot become a consumer group yet");
        return Err(ApiError::bare(ErrorCode::UnknownServerError));
    };
    let mut group = ConsumerGroup::new(Arc::clone(group_id));
    group.set_group_epoch(generation_id, 0);
    group.set_target_assignment_metadata(generation_id, 0);
    let mut topics = SubscribedTopics::default();
    let mut owned: BTreeSet<(TopicId, PartitionId)> = BTreeSet::new();
    for classic_member in classic.members() {
        let target = assignment_of(group_id, classic_member, image)?;
        for (topic, partitions) in &target {
            if !partitions.iter().all(|partition| owned.insert((*topic, *partition))) {
                info!(%group_id, topic_id = %topic, "two members of a classic group have the same partition");
                return Err(ApiError::bare(ErrorCode::UnknownServerError));
            }
        }
        let subscription = Subscription::decode(&classic_member.metadata(protocol_name));
        let subscription = subscription.map_err(|error| malformed(group_id, &error))?;
        let mut member = ConsumerGroupMember::new(Arc::clone(&classic_member.member_id));
        member.member_epoch = generation_id;
        member.previous_member_epoch = generation_id;
        member.state = MemberState::Stable;
        member.instance_id = classic_member.group_instance_id.clone();
        member.rack_id = subscription.rack_id.as_deref().map(Arc::from);
        member.rebalance_timeout_ms = classic_member.rebalance_timeout_ms;
        member.client_id = Arc::from(&*classic_member.client_id);
        member.client_host = Arc::from(&*classic_member.client_host);
        member.subscribed_topic_names = Arc::new(subscription.topics.into_iter().collect());
        let assigned = target.iter().map(|(topic, partitions)| {
            (*topic, partitions.iter().map(|partition| (*partition, generation_id)).collect())
        });
        member.assigned = Arc::new(assigned.collect::<PartitionsWithEpochs>());
        let protocols = classic_member
            .protocols
            .iter()
            .map(|protocol| ClassicProtocol { name: protocol.name.to_string(), metadata: protocol.metadata.clone() });
        member.classic = Some(Arc::new(ClassicMemberMetadata {
            session_timeout_ms: classic_member.session_timeout_ms,
            supported_protocols: protocols.collect(),
        }));
        group.update_target_assignment(Arc::clone(&member.member_id), Arc::new(target));
        group.update_member(member, &mut topics);
    }
    Ok(group)
}

/// What a classic member has, or why that cannot be kept.
fn assignment_of(
    group_id: &str,
    member: &ClassicGroupMember,
    image: &MetadataImage,
) -> Result<TopicPartitions, ApiError> {
    if member.assignment.is_empty() {
        // It has joined and not synced yet.
        return Ok(TopicPartitions::new());
    }
    let assignment = Assignment::decode(&member.assignment).map_err(|error| malformed(group_id, &error))?;
    if assignment.user_data.is_some_and(|user_data| !user_data.is_empty()) {
        let reason = "an unsupported custom assignor is in use. Please refer to the documentation or switch to a \
                      default assignor before re-attempting the upgrade";
        return Err(no_upgrade(group_id, reason));
    }
    let topics = assignment.partitions.into_iter().filter_map(|(name, partitions)| {
        let topic = image.topic(&name)?;
        Some((topic.id, partitions.into_iter().collect::<BTreeSet<_>>()))
    });
    Ok(topics.filter(|(_, partitions)| !partitions.is_empty()).collect())
}

fn malformed(group_id: &str, error: &ConsumerProtocolError) -> ApiError {
    match error {
        ConsumerProtocolError::Schema(_) => no_upgrade(group_id, "the embedded consumer protocol is malformed"),
        ConsumerProtocolError::Malformed(_) => {
            info!(%group_id, %error, "a classic group cannot become a consumer group");
            ApiError::bare(ErrorCode::UnknownServerError)
        }
    }
}

/// Whether the group is to become a classic group when these members are gone.
pub(super) fn may_downgrade_without(
    group: &ConsumerGroup,
    members: &[Arc<ConsumerGroupMember>],
    step: &Step<'_>,
) -> bool {
    let remaining = group.num_members() - members.len();
    let leaving_classic = members.iter().filter(|member| member.uses_classic_protocol()).count();
    group.num_classic_members() - leaving_classic == remaining
        && remaining > 0
        && is_downgrade_allowed(group, remaining, step)
}

/// Whether the group is to become a classic group when a member of the classic protocol takes this one's place.
pub(super) fn may_downgrade_replacing(group: &ConsumerGroup, replaced: &ConsumerGroupMember, step: &Step<'_>) -> bool {
    group.num_classic_members() == group.num_members() - 1
        && !replaced.uses_classic_protocol()
        && is_downgrade_allowed(group, group.num_members(), step)
}

fn is_downgrade_allowed(group: &ConsumerGroup, members: usize, step: &Step<'_>) -> bool {
    let reason = if !step.config.group_consumer_migration_policy.downgrade {
        "online downgrade is disabled"
    } else if members > usize::try_from(step.config.group_max_size).unwrap_or(0) {
        "it has more members than group.max.size"
    } else {
        return true;
    };
    info!(group_id = %group.group_id(), reason, "a consumer group cannot become a classic group");
    false
}

/// The group becomes a classic group as these members go, and those who stay meet again.
pub(super) fn downgrade_without(
    shard: &GroupShard,
    group_id: &str,
    leaving: &[Arc<ConsumerGroupMember>],
    step: &mut Step<'_>,
) -> Result<(), ApiError> {
    let group = shard.consumer_group(group_id)?;
    let mut records = Vec::new();
    group.create_tombstones(&mut records, None);
    let leaving: BTreeSet<&str> = leaving.iter().map(|member| &*member.member_id).collect();
    let staying = group.members().filter(|member| !leaving.contains(&*member.member_id));
    let staying = staying.map(|member| (&**member, &member.member_id)).collect();
    let reason = format!("Downgrade group {group_id} from consumer to classic for member leaving.");
    downgrade(group, staying, Some(reason), records, step)
}

/// The group becomes a classic group as a static member of the classic protocol takes the place of the last member of
/// the consumer protocol. `records` say so already, and the tombstones are of the member that joins.
pub(super) fn downgrade_replacing(
    group: &ConsumerGroup,
    replaced: &ConsumerGroupMember,
    joining: &ConsumerGroupMember,
    rebalance: bool,
    mut records: Vec<GroupRecord>,
    step: &mut Step<'_>,
) -> Result<(), ApiError> {
    group.create_tombstones(&mut records, Some((&replaced.member_id, &joining.member_id)));
    let others = group.members().filter(|member| member.instance_id != joining.instance_id);
    let mut members: Vec<_> = others.map(|member| (&**member, &member.member_id)).collect();
    members.push((joining, &replaced.member_id));
    let reason = rebalance
        .then(|| format!("Downgrade group {} from consumer to classic with stale assignment.", group.group_id()));
    downgrade(group, members, reason, records, step)
}

/// `members`: those of the classic group, each with the id under which it has a target.
fn downgrade(
    group: &ConsumerGroup,
    members: Vec<(&ConsumerGroupMember, &Arc<str>)>,
    rebalance: Option<String>,
    mut records: Vec<GroupRecord>,
    step: &mut Step<'_>,
) -> Result<(), ApiError> {
    let group_id = group.group_id();
    let classic_members = members.iter().filter_map(|(member, _)| ClassicGroupMember::from_consumer_group(member));
    let classic = ClassicGroup::of_consumers(Arc::clone(group_id), group.group_epoch(), classic_members, step.now_ms);
    let Some(mut classic) = classic else {
        info!(%group_id, "the classic members of a consumer group have no protocol in common");
        return Err(ApiError::bare(ErrorCode::UnknownServerError));
    };
    let protocol_name = classic.protocol_name().unwrap_or_default().to_owned();
    for (member, target_id) in members {
        let target = group.target_assignment(target_id).cloned().unwrap_or_default();
        let metadata = classic.member(&member.member_id).map(|member| member.metadata(&protocol_name));
        let assignment = metadata.map_or(Ok(Default::default()), |metadata| {
            encode_assignment(target.iter().map(|(id, partitions)| (id, partitions.iter())), &metadata, step.image)
        });
        let assignment = assignment.map_err(|error| {
            info!(%group_id, %error, "a consumer group cannot become a classic group");
            let message = format!("Cannot downgrade the classic group {group_id}: {error}.");
            ApiError::new(ErrorCode::GroupIdNotFound, message)
        })?;
        classic.set_assignment(&member.member_id, assignment);
    }
    records.push(classic.record());
    step.append_all(records);
    step.then(Continuation::Downgraded { classic: Box::new(classic), rebalance });
    Ok(())
}

/// Partitions as the embedded protocol tells them, in the version that a member's own metadata is in. Topics that are
/// gone are left out.
pub(super) fn encode_assignment<'a, P: Iterator<Item = &'a PartitionId>>(
    partitions: impl Iterator<Item = (&'a TopicId, P)>,
    metadata: &bytes::Bytes,
    image: &MetadataImage,
) -> Result<bytes::Bytes, ConsumerProtocolError> {
    let topics = partitions.filter_map(|(topic, partitions)| {
        let topic = image.topic_by_id(*topic)?;
        Some((TopicName::clone(&topic.name), partitions.copied().collect()))
    });
    let assignment = Assignment { partitions: topics.collect(), user_data: None };
    assignment.encode(consumer_protocol::version(metadata)?)
}
