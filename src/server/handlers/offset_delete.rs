//! OffsetDelete (key 47), version 0: a group forgets where it continues, of topics that none of its members consumes
//! (KIP-496).
//!
//! Topics and partitions that the broker does not know are answered first, as in OffsetCommit; but the group is asked in
//! any case, and what it says of the request as a whole is then all that is said.

use kafka_protocol::messages::offset_delete_response::{OffsetDeleteResponsePartition, OffsetDeleteResponseTopic};
use kafka_protocol::messages::{OffsetDeleteRequest, OffsetDeleteResponse, TopicName};

use super::Call;
use super::partition_answers::Refused;
use crate::coordinator::group::offsets::delete::DeleteTopic;
use crate::net::Response;
use crate::protocol::ErrorCode;
use crate::server::request::RequestError;
use crate::types::PartitionId;

pub async fn handle(mut call: Call) -> Result<Response, RequestError> {
    let request: OffsetDeleteRequest = call.decode()?;
    let image = call.broker.image();
    let mut refused: Refused<&TopicName> = Refused::new();
    let mut known = Vec::new();
    for topic in &request.topics {
        let partitions = topic.partitions.iter().map(|partition| PartitionId(partition.partition_index));
        let exists = |partition: &PartitionId| image.partition(&topic.name, *partition).is_some();
        let (existing, missing): (Vec<_>, Vec<_>) = partitions.partition(exists);
        if image.topic(&topic.name).is_none() || !missing.is_empty() {
            refused.add(&topic.name, missing, ErrorCode::UnknownTopicOrPartition);
        }
        if !existing.is_empty() {
            known.push((&topic.name, DeleteTopic { name: &topic.name, partitions: existing }));
        }
    }
    let codes = match delete(&call, &request.group_id, known.iter().map(|(_, topic)| topic)).await {
        Ok(codes) => codes,
        Err(code) => return call.encode(&OffsetDeleteResponse::default().with_error_code(code.code())),
    };
    let answered = known
        .iter()
        .zip(codes)
        .map(|((name, topic), code)| (*name, topic.partitions.iter().map(|partition| (*partition, code)).collect()));
    let topics = refused.followed_by(answered).into_iter().map(|(name, partitions)| {
        let partitions = partitions.into_iter().map(|(partition, code)| {
            OffsetDeleteResponsePartition::default().with_partition_index(partition.0).with_error_code(code.code())
        });
        OffsetDeleteResponseTopic::default().with_name(name.clone()).with_partitions(partitions.collect())
    });
    call.encode(&OffsetDeleteResponse::default().with_topics(topics.collect()))
}

async fn delete<'a>(
    call: &Call,
    group_id: &str,
    topics: impl Iterator<Item = &'a DeleteTopic<'a>>,
) -> Result<Vec<ErrorCode>, ErrorCode> {
    if group_id.is_empty() {
        return Err(ErrorCode::InvalidGroupId);
    }
    let topics: Vec<_> = topics.collect();
    match call.broker.groups.run(group_id, |shard, step| shard.delete_offsets(group_id, &topics, step)).await {
        Ok(Ok(codes)) => Ok(codes),
        Ok(Err(error)) => {
            call.note_refusal(&error);
            Err(error.code)
        }
        Err(error) => Err(error.code()),
    }
}
