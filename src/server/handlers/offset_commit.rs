//! OffsetCommit (key 8), versions 2 to 10: where the consumers of a group continue.
//!
//! Topics and partitions that the broker does not know are answered here, before the group is asked; what the group says
//! of the others comes behind them. Without any known partition the group is not asked at all.
//!
//! v2..4: `retention_time_ms`; v7+: static members (KIP-345); v9+: the consumer protocol, GROUP_ID_NOT_FOUND and
//! STALE_MEMBER_EPOCH (KIP-848); v10+: topics by id, UNKNOWN_TOPIC_ID.

use kafka_protocol::protocol::StrBytes;

use super::Call;
use super::partition_answers::{GroupCodes, PartitionCodes, Refused};
use crate::coordinator::group::Committer;
use crate::coordinator::group::offsets::commit::{CommitTopic, OffsetCommit};
use crate::metadata::image::MetadataImage;
use crate::net::Response;
use crate::protocol::ErrorCode;
use crate::protocol::offset_commit::{
    FIRST_TOPIC_ID_VERSION, OffsetCommitPartition, OffsetCommitRequest, OffsetCommitResponse, OffsetCommitResponseTopic,
};
use crate::server::request::RequestError;
use crate::types::{TopicId, TopicName};

pub async fn handle(mut call: Call) -> Result<Response, RequestError> {
    let request = call.decode_by_hand(OffsetCommitRequest::decode)?;
    let by_id = call.header.api_version >= FIRST_TOPIC_ID_VERSION;
    let Sorted { known, refused } = sort(&call.broker.image(), &request, by_id);
    if known.is_empty() {
        return respond(&call, refused.followed_by([]));
    }
    let commit = OffsetCommit {
        group_id: &request.group_id,
        committer: Committer {
            member_id: &request.member_id,
            group_instance_id: request.group_instance_id.as_deref(),
            generation_id_or_member_epoch: request.generation_id_or_member_epoch,
            transactional: false,
            api_version: call.header.api_version,
        },
        retention_time_ms: request.retention_time_ms,
        topics: known.iter().map(KnownTopic::to_commit).collect(),
    };
    let outcome = call.broker.groups.run(&request.group_id, |shard, step| shard.commit_offsets(&commit, step)).await;
    let codes = match outcome {
        Ok(Ok(codes)) => Ok(codes),
        Ok(Err(error)) => {
            call.note_refusal(&error);
            Err(error.code)
        }
        Err(error) => Err(error.code()),
    };
    let mut codes = GroupCodes::new(codes);
    let answered = known.into_iter().map(|topic| {
        let of_topic = codes.of(topic.partitions.iter().map(|partition| partition.partition));
        (topic_in_request(by_id, topic.name_in_request, topic.topic_id), of_topic)
    });
    respond(&call, refused.followed_by(answered))
}

fn respond(call: &Call, topics: Vec<(TopicInRequest, PartitionCodes)>) -> Result<Response, RequestError> {
    let topics = topics.into_iter();
    let topics = topics.map(|((name, topic_id), partitions)| OffsetCommitResponseTopic { name, topic_id, partitions });
    Ok(OffsetCommitResponse { throttle_time_ms: 0, topics: topics.collect() }.encode(&call.header)?.into())
}

/// What the request's version names a topic by; the other is empty.
type TopicInRequest = (StrBytes, TopicId);

fn topic_in_request(by_id: bool, name: StrBytes, topic_id: TopicId) -> TopicInRequest {
    if by_id { (StrBytes::new(), topic_id) } else { (name, TopicId::ZERO) }
}

/// A topic of the request that exists, with those of its partitions that do.
struct KnownTopic<'a> {
    name: TopicName,
    name_in_request: StrBytes,
    topic_id: TopicId,
    partitions: Vec<&'a OffsetCommitPartition>,
}

impl KnownTopic<'_> {
    fn to_commit(&self) -> CommitTopic<'_> {
        CommitTopic { name: &self.name, topic_id: self.topic_id, partitions: self.partitions.clone() }
    }
}

struct Sorted<'a> {
    known: Vec<KnownTopic<'a>>,
    refused: Refused<TopicInRequest>,
}

/// Tells what exists from what does not.
fn sort<'a>(image: &MetadataImage, request: &'a OffsetCommitRequest, by_id: bool) -> Sorted<'a> {
    let mut sorted = Sorted { known: Vec::with_capacity(request.topics().len()), refused: Refused::new() };
    for (topic, partitions) in request.topics() {
        let found = if by_id { image.topic_by_id(topic.topic_id) } else { image.topic(&topic.name) };
        let Some(found) = found else {
            let code = if by_id { ErrorCode::UnknownTopicId } else { ErrorCode::UnknownTopicOrPartition };
            let topic = topic_in_request(by_id, topic.name.clone(), topic.topic_id);
            sorted.refused.add(topic, partitions.iter().map(|partition| partition.partition), code);
            continue;
        };
        let mut known = KnownTopic {
            name: found.name.clone(),
            name_in_request: topic.name.clone(),
            topic_id: found.id,
            partitions: Vec::with_capacity(partitions.len()),
        };
        for partition in partitions {
            if found.partition(partition.partition).is_some() {
                known.partitions.push(partition);
            } else {
                let topic = topic_in_request(by_id, topic.name.clone(), found.id);
                sorted.refused.add(topic, [partition.partition], ErrorCode::UnknownTopicOrPartition);
            }
        }
        if !known.partitions.is_empty() {
            sorted.known.push(known);
        }
    }
    sorted
}
