//! OffsetCommit (key 8), versions 2 to 10: where the consumers of a group continue.
//!
//! Topics and partitions that the broker does not know are answered here, before the group is asked; what the group says
//! of the others comes behind them. Without any known partition the group is not asked at all.
//!
//! v2..4: `retention_time_ms`; v7+: static members (KIP-345); v9+: the consumer protocol, GROUP_ID_NOT_FOUND and
//! STALE_MEMBER_EPOCH (KIP-848); v10+: topics by id, UNKNOWN_TOPIC_ID.

use indexmap::IndexMap;
use indexmap::map::Entry;
use kafka_protocol::protocol::StrBytes;

use super::Call;
use crate::coordinator::group::Committer;
use crate::coordinator::group::offsets::commit::{CommitTopic, OffsetCommit};
use crate::metadata::image::MetadataImage;
use crate::net::Response;
use crate::protocol::ErrorCode;
use crate::protocol::offset_commit::{
    FIRST_TOPIC_ID_VERSION, OffsetCommitRequest, OffsetCommitResponse, OffsetCommitResponseTopic,
};
use crate::server::request::RequestError;
use crate::types::{PartitionId, TopicId, TopicName};

pub async fn handle(mut call: Call) -> Result<Response, RequestError> {
    let request = call.decode_by_hand(OffsetCommitRequest::decode)?;
    let by_id = call.header.api_version >= FIRST_TOPIC_ID_VERSION;
    let Sorted { known, mut refused } = sort(&call.broker.image(), &request, by_id);
    if known.is_empty() {
        return respond(&call, refused.into_topics());
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
    let mut next = 0;
    let mut code_of = |_: &PartitionId| {
        next += 1;
        match &codes {
            Ok(codes) => codes[next - 1],
            Err(code) => *code,
        }
    };
    let answered = known.into_iter().map(|topic| OffsetCommitResponseTopic {
        name: topic.name_in_request,
        topic_id: topic.topic_id,
        partitions: topic.partitions.iter().map(|at| (at.partition, code_of(&at.partition))).collect(),
    });
    let answered: Vec<_> = answered.collect();
    if refused.is_empty() {
        return respond(&call, answered);
    }
    for topic in answered {
        refused.merge(topic);
    }
    respond(&call, refused.into_topics())
}

fn respond(call: &Call, topics: Vec<OffsetCommitResponseTopic>) -> Result<Response, RequestError> {
    Ok(OffsetCommitResponse { throttle_time_ms: 0, topics }.encode(&call.header)?.into())
}

/// A topic of the request that exists, with those of its partitions that do.
struct KnownTopic<'a> {
    name: TopicName,
    name_in_request: StrBytes,
    topic_id: TopicId,
    partitions: Vec<&'a crate::protocol::offset_commit::OffsetCommitPartition>,
}

impl KnownTopic<'_> {
    fn to_commit(&self) -> CommitTopic<'_> {
        CommitTopic { name: &self.name, topic_id: self.topic_id, partitions: self.partitions.clone() }
    }
}

struct Sorted<'a> {
    known: Vec<KnownTopic<'a>>,
    refused: Answers,
}

/// Tells what exists from what does not.
fn sort<'a>(image: &MetadataImage, request: &'a OffsetCommitRequest, by_id: bool) -> Sorted<'a> {
    let mut sorted = Sorted {
        known: Vec::with_capacity(request.topics().len()),
        refused: Answers { by_id, topics: IndexMap::new() },
    };
    for (topic, partitions) in request.topics() {
        let found = if by_id { image.topic_by_id(topic.topic_id) } else { image.topic(&topic.name) };
        let Some(found) = found else {
            let code = if by_id { ErrorCode::UnknownTopicId } else { ErrorCode::UnknownTopicOrPartition };
            let answers = sorted.refused.topic(&topic.name, topic.topic_id);
            answers.extend(partitions.iter().map(|partition| (partition.partition, code)));
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
                let answers = sorted.refused.topic(&topic.name, found.id);
                answers.push((partition.partition, ErrorCode::UnknownTopicOrPartition));
            }
        }
        if !known.partitions.is_empty() {
            sorted.known.push(known);
        }
    }
    sorted
}

/// Answers of topics, each topic once.
struct Answers {
    by_id: bool,
    topics: IndexMap<(StrBytes, TopicId), Vec<(PartitionId, ErrorCode)>>,
}

impl Answers {
    fn is_empty(&self) -> bool {
        self.topics.is_empty()
    }

    fn topic(&mut self, name: &StrBytes, topic_id: TopicId) -> &mut Vec<(PartitionId, ErrorCode)> {
        let key = if self.by_id { (StrBytes::new(), topic_id) } else { (name.clone(), TopicId::ZERO) };
        self.topics.entry(key).or_default()
    }

    fn merge(&mut self, topic: OffsetCommitResponseTopic) {
        let key = if self.by_id { (StrBytes::new(), topic.topic_id) } else { (topic.name, TopicId::ZERO) };
        match self.topics.entry(key) {
            Entry::Occupied(mut before) => before.get_mut().extend(topic.partitions),
            Entry::Vacant(place) => {
                place.insert(topic.partitions);
            }
        }
    }

    fn into_topics(self) -> Vec<OffsetCommitResponseTopic> {
        let topics = self.topics.into_iter();
        topics.map(|((name, topic_id), partitions)| OffsetCommitResponseTopic { name, topic_id, partitions }).collect()
    }
}
