//! Groups as the cluster tells them, and their committed offsets.

use std::collections::{BTreeMap, HashMap};

use bytes::Buf as _;
use kafka_protocol::messages::consumer_group_describe_response::Assignment;
use kafka_protocol::messages::offset_commit_request::{OffsetCommitRequestPartition, OffsetCommitRequestTopic};
use kafka_protocol::messages::offset_delete_request::{OffsetDeleteRequestPartition, OffsetDeleteRequestTopic};
use kafka_protocol::messages::offset_fetch_request::{
    OffsetFetchRequestGroup, OffsetFetchRequestTopic, OffsetFetchRequestTopics,
};
use kafka_protocol::messages::{
    ConsumerGroupDescribeRequest, ConsumerProtocolAssignment, DeleteGroupsRequest, DescribeGroupsRequest, GroupId,
    ListGroupsRequest, OffsetCommitRequest, OffsetDeleteRequest, OffsetFetchRequest, TopicName,
};
use kafka_protocol::protocol::Decodable as _;

use super::cluster::{Client, Node, Target};
use super::error::{Error, Result};
use super::partitions::by_topic;
use super::text;
use crate::config::java;
use crate::protocol::ErrorCode;
use crate::types::TopicPartition;

/// Topics have names up to here, and ids behind it, in OffsetCommit and in OffsetFetch.
const LAST_WITH_NAMES: i16 = 9;
const FIRST_OFFSET_FETCH_OF_GROUPS: i16 = 8;
const CONSUMER: &str = "consumer";

/// A group in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listing {
    pub id: String,
    pub protocol_type: String,
    /// `Stable`, …
    pub state: String,
    /// `Classic`, `Consumer`, …
    pub kind: String,
}

/// All groups of all brokers, in the order in which Java's clients hand them out; only of these states and types, if there are any.
pub async fn list(client: &Client, states: &[&str], kinds: &[&str]) -> Result<Vec<Listing>> {
    let nodes = client.nodes().await?;
    let request = ListGroupsRequest::default()
        .with_states_filter(states.iter().map(|state| text(state)).collect())
        .with_types_filter(kinds.iter().map(|kind| text(kind)).collect());
    let mut groups: Vec<Listing> = Vec::new();
    for node in nodes {
        let answer = client
            .retry("listGroups", async || {
                let answer = client.send(&Target::Node(node.id), &request).await?;
                Error::check(answer.error_code, None::<String>)?;
                Ok(answer)
            })
            .await?;
        groups.extend(answer.groups.into_iter().map(|group| Listing {
            id: group.group_id.to_string(),
            protocol_type: group.protocol_type.to_string(),
            state: group.group_state.to_string(),
            kind: capitalized(&group.group_type),
        }));
    }
    let mut order: Vec<&str> = groups.iter().map(|group| group.id.as_str()).collect();
    java::in_hash_order(&mut order);
    let place: HashMap<String, usize> = order.iter().enumerate().map(|(at, id)| ((*id).to_owned(), at)).collect();
    groups.sort_by_key(|group| place[&group.id]);
    Ok(groups)
}

fn capitalized(word: &str) -> String {
    let mut letters = word.chars();
    letters
        .next()
        .map_or_else(String::new, |first| first.to_uppercase().chain(letters.flat_map(char::to_lowercase)).collect())
}

/// A member of a group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Member {
    pub id: String,
    pub instance_id: Option<String>,
    pub client_id: String,
    pub host: String,
    pub assignment: Vec<TopicPartition>,
    /// What it is to have; nothing where the group does not tell.
    pub target: Vec<TopicPartition>,
    pub epoch: Option<i32>,
    /// Whether it speaks the protocol `consumer`, where that is told.
    pub upgraded: Option<bool>,
}

/// A group of consumers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description {
    pub id: String,
    pub state: String,
    pub assignor: String,
    pub coordinator: Node,
    pub members: Vec<Member>,
    pub epoch: Option<i32>,
    pub assignment_epoch: Option<i32>,
}

/// A group of consumers, of either protocol.
pub async fn describe(client: &Client, group: &str) -> Result<Description> {
    client
        .retry("describeConsumerGroups", async || {
            let coordinator = client.group_coordinator(group).await?;
            match describe_consumer(client, group, &coordinator).await {
                Err(error) if error.is(ErrorCode::GroupIdNotFound) || error.is(ErrorCode::UnsupportedVersion) => {
                    describe_classic(client, group, coordinator).await
                }
                described => described,
            }
        })
        .await
}

async fn describe_consumer(client: &Client, group: &str, coordinator: &Node) -> Result<Description> {
    let request = ConsumerGroupDescribeRequest::default().with_group_ids(vec![GroupId(text(group))]);
    let answer = client.send(&Target::GroupCoordinator(group.to_owned()), &request).await?;
    let found = answer.groups.into_iter().next().ok_or_else(|| Error::disconnected("The answer has no group."))?;
    Error::check(found.error_code, found.error_message.as_deref())?;
    let members = found.members.iter().map(|member| Member {
        id: member.member_id.to_string(),
        instance_id: member.instance_id.as_deref().map(str::to_owned),
        client_id: member.client_id.to_string(),
        host: member.client_host.to_string(),
        assignment: partitions(&member.assignment),
        target: partitions(&member.target_assignment),
        epoch: Some(member.member_epoch),
        upgraded: (member.member_type >= 0).then_some(member.member_type == 1),
    });
    Ok(Description {
        id: group.to_owned(),
        state: found.group_state.to_string(),
        assignor: found.assignor_name.to_string(),
        coordinator: coordinator.clone(),
        members: members.collect(),
        epoch: Some(found.group_epoch),
        assignment_epoch: Some(found.assignment_epoch),
    })
}

fn partitions(assignment: &Assignment) -> Vec<TopicPartition> {
    let topics = assignment.topic_partitions.iter();
    topics
        .flat_map(|topic| {
            topic.partitions.iter().map(|&partition| TopicPartition::new(topic.topic_name.as_str(), partition))
        })
        .collect()
}

async fn describe_classic(client: &Client, group: &str, coordinator: Node) -> Result<Description> {
    let request = DescribeGroupsRequest::default().with_groups(vec![GroupId(text(group))]);
    let answer = client.send(&Target::GroupCoordinator(group.to_owned()), &request).await?;
    let found = answer.groups.into_iter().next().ok_or_else(|| Error::disconnected("The answer has no group."))?;
    Error::check(found.error_code, found.error_message.as_deref())?;
    if !matches!(found.protocol_type.as_str(), "" | CONSUMER) {
        return Err(Error::illegal_argument(format!(
            "GroupId {group} is not a consumer group ({}).",
            found.protocol_type.as_str()
        )));
    }
    let members = found.members.iter().map(|member| {
        Ok(Member {
            id: member.member_id.to_string(),
            instance_id: member.group_instance_id.as_deref().map(str::to_owned),
            client_id: member.client_id.to_string(),
            host: member.client_host.to_string(),
            assignment: embedded(member.member_assignment.clone())?,
            ..Member::default()
        })
    });
    Ok(Description {
        id: group.to_owned(),
        state: found.group_state.to_string(),
        assignor: found.protocol_data.to_string(),
        coordinator,
        members: members.collect::<Result<_>>()?,
        epoch: None,
        assignment_epoch: None,
    })
}

/// `ConsumerProtocolAssignment`, behind its version; nothing for a member that has none yet.
fn embedded_assignment(mut bytes: bytes::Bytes) -> Result<ConsumerProtocolAssignment> {
    if bytes.is_empty() {
        return Ok(ConsumerProtocolAssignment::default());
    }
    let version = bytes.try_get_i16().map_err(|error| malformed(&error))?;
    ConsumerProtocolAssignment::decode(&mut bytes, version.clamp(0, 3)).map_err(|error| malformed(&error))
}

/// The partitions of an embedded assignment.
pub fn embedded(bytes: bytes::Bytes) -> Result<Vec<TopicPartition>> {
    let assignment = embedded_assignment(bytes)?;
    let topics = assignment.assigned_partitions.iter();
    let all = topics.flat_map(|topic| {
        topic.partitions.iter().map(|&partition| TopicPartition::new(topic.topic.as_str(), partition))
    });
    Ok(all.collect())
}

/// What stands in a message of the consumers' own protocol cannot be read, or not be written.
pub fn malformed(error: &impl std::fmt::Display) -> Error {
    Error::new("org.apache.kafka.common.protocol.types.SchemaException", error.to_string())
}

/// An offset that a group has committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Committed {
    pub offset: i64,
    pub leader_epoch: Option<i32>,
}

/// Which offsets are asked for, and by whom.
#[derive(Clone, Copy, Debug)]
pub struct OffsetFetch<'a> {
    pub group: &'a str,
    /// All, if not said.
    pub partitions: Option<&'a [TopicPartition]>,
    /// A member of the protocol `consumer`, with its epoch.
    pub member: Option<(&'a str, i32)>,
    /// Not while a transaction may still change them.
    pub stable: bool,
}

/// All that a group has committed.
pub async fn committed(client: &Client, group: &str) -> Result<BTreeMap<TopicPartition, Committed>> {
    let fetch = OffsetFetch { group, partitions: None, member: None, stable: false };
    client.retry("listConsumerGroupOffsets", async || fetch_offsets(client, fetch).await).await
}

/// Asks once for what a group has committed.
pub async fn fetch_offsets(client: &Client, fetch: OffsetFetch<'_>) -> Result<BTreeMap<TopicPartition, Committed>> {
    let target = Target::GroupCoordinator(fetch.group.to_owned());
    let connection = client.connection(&target).await?;
    let version = connection.versions.common::<OffsetFetchRequest>(LAST_WITH_NAMES)?;
    let id = GroupId(text(fetch.group));
    let topics = fetch.partitions.map(by_topic);
    let request = OffsetFetchRequest::default().with_require_stable(fetch.stable);
    let request = if version >= FIRST_OFFSET_FETCH_OF_GROUPS {
        let topics = topics.map(|topics| {
            let each = topics.into_iter().map(|(topic, partitions)| {
                OffsetFetchRequestTopics::default().with_name(TopicName(text(topic))).with_partition_indexes(partitions)
            });
            each.collect()
        });
        let mut group = OffsetFetchRequestGroup::default().with_group_id(id).with_member_epoch(-1).with_topics(topics);
        if let Some((member_id, epoch)) = fetch.member.filter(|_| version >= LAST_WITH_NAMES) {
            group = group.with_member_id(Some(text(member_id))).with_member_epoch(epoch);
        }
        request.with_groups(vec![group])
    } else {
        let topics = topics.map(|topics| {
            let each = topics.into_iter().map(|(topic, partitions)| {
                OffsetFetchRequestTopic::default().with_name(TopicName(text(topic))).with_partition_indexes(partitions)
            });
            each.collect()
        });
        request.with_group_id(id).with_topics(topics)
    };
    let answer = client.send_at_most(&target, &request, LAST_WITH_NAMES).await?;
    Error::check(answer.error_code, None::<String>)?;
    answer.groups.iter().try_for_each(|group| Error::check(group.error_code, None::<String>))?;
    // Both shapes of an answer, of which one is there.
    let of_groups = answer.groups.iter().flat_map(|group| &group.topics).flat_map(|topic| {
        topic.partitions.iter().map(|of| {
            let at = TopicPartition::new(topic.name.as_str(), of.partition_index);
            (at, of.error_code, of.committed_offset, of.committed_leader_epoch)
        })
    });
    let of_one = answer.topics.iter().flat_map(|topic| {
        topic.partitions.iter().map(|of| {
            let at = TopicPartition::new(topic.name.as_str(), of.partition_index);
            (at, of.error_code, of.committed_offset, of.committed_leader_epoch)
        })
    });
    let mut offsets = BTreeMap::new();
    for (at, code, offset, leader_epoch) in of_groups.chain(of_one) {
        Error::check(code, None::<String>)?;
        if offset >= 0 {
            let leader_epoch = (leader_epoch >= 0).then_some(leader_epoch);
            offsets.insert(at, Committed { offset, leader_epoch });
        }
    }
    Ok(offsets)
}

/// A member that commits.
#[derive(Clone, Copy, Debug)]
pub struct Committer<'a> {
    pub member_id: &'a str,
    /// Or its epoch.
    pub generation_id: i32,
    pub instance_id: Option<&'a str>,
}

/// Commits offsets once, in the name of a member or of a group without members.
pub async fn commit_once(
    client: &Client,
    group: &str,
    committer: Option<Committer<'_>>,
    offsets: &BTreeMap<TopicPartition, i64>,
) -> Result<()> {
    let mut topics: BTreeMap<&str, Vec<OffsetCommitRequestPartition>> = BTreeMap::new();
    for (partition, offset) in offsets {
        topics.entry(&partition.topic).or_default().push(
            OffsetCommitRequestPartition::default()
                .with_partition_index(partition.partition.0)
                .with_committed_offset(*offset)
                .with_committed_leader_epoch(-1)
                .with_committed_metadata(Some(text(""))),
        );
    }
    let topics = topics.into_iter().map(|(topic, partitions)| {
        OffsetCommitRequestTopic::default().with_name(TopicName(text(topic))).with_partitions(partitions)
    });
    let mut request = OffsetCommitRequest::default().with_group_id(GroupId(text(group))).with_topics(topics.collect());
    if let Some(Committer { member_id, generation_id, instance_id }) = committer {
        request = request
            .with_generation_id_or_member_epoch(generation_id)
            .with_member_id(text(member_id))
            .with_group_instance_id(instance_id.map(text));
    }
    let target = Target::GroupCoordinator(group.to_owned());
    let answer = client.send_at_most(&target, &request, LAST_WITH_NAMES).await?;
    let mut partitions = answer.topics.iter().flat_map(|topic| &topic.partitions);
    partitions.try_for_each(|partition| Error::check(partition.error_code, None::<String>))
}

/// Commits offsets in the name of a group without members.
pub async fn commit(client: &Client, group: &str, offsets: &BTreeMap<TopicPartition, i64>) -> Result<()> {
    if offsets.is_empty() {
        return Ok(());
    }
    client.retry("alterConsumerGroupOffsets", async || commit_once(client, group, None, offsets).await).await
}

/// Deletes a group.
pub async fn delete(client: &Client, group: &str) -> Result<()> {
    let request = DeleteGroupsRequest::default().with_groups_names(vec![GroupId(text(group))]);
    let target = Target::GroupCoordinator(group.to_owned());
    client
        .retry("deleteConsumerGroups", async || {
            let answer = client.send(&target, &request).await?;
            answer.results.iter().try_for_each(|result| Error::check(result.error_code, None::<String>))
        })
        .await
}

/// Deletes committed offsets: what became of each, or why nothing was done.
pub async fn delete_offsets(
    client: &Client,
    group: &str,
    partitions: &[TopicPartition],
) -> Result<BTreeMap<TopicPartition, Result<()>>> {
    let topics = by_topic(partitions).into_iter().map(|(topic, partitions)| {
        let partitions = partitions
            .into_iter()
            .map(|partition| OffsetDeleteRequestPartition::default().with_partition_index(partition));
        OffsetDeleteRequestTopic::default().with_name(TopicName(text(topic))).with_partitions(partitions.collect())
    });
    let request = OffsetDeleteRequest::default().with_group_id(GroupId(text(group))).with_topics(topics.collect());
    let target = Target::GroupCoordinator(group.to_owned());
    client
        .retry("deleteConsumerGroupOffsets", async || {
            let answer = client.send(&target, &request).await?;
            Error::check(answer.error_code, None::<String>)?;
            let mut outcomes = BTreeMap::new();
            for topic in &answer.topics {
                for partition in &topic.partitions {
                    let at = TopicPartition::new(topic.name.as_str(), partition.partition_index);
                    outcomes.insert(at, Error::check(partition.error_code, None::<String>));
                }
            }
            Ok(outcomes)
        })
        .await
}
