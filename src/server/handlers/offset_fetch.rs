//! OffsetFetch (key 9), versions 1 to 10: the offsets that groups have committed.
//!
//! A group that does not exist has committed nothing; that is no error.
//!
//! v2+: all topics, by naming none; v7+: `require_stable` (KIP-447); v8+: several groups (KIP-709); v9+: members of the
//! consumer protocol say who they are, and at which epoch (KIP-848); v10+: topics by id, UNKNOWN_TOPIC_ID.

use std::sync::Arc;

use kafka_protocol::protocol::StrBytes;

use super::Call;
use super::answer_size::{AnswerSize, MAX_ANSWER, TOO_LARGE};
use crate::coordinator::group::offsets::fetch::OffsetFetchError;
use crate::coordinator::group::{GroupShard, Step};
use crate::metadata::image::MetadataImage;
use crate::net::Response;
use crate::protocol::ErrorCode;
use crate::protocol::offset_fetch::{
    FIRST_TOPIC_ID_VERSION, OffsetFetchGroup, OffsetFetchRequest, OffsetFetchResponse, OffsetFetchResponseGroup,
    OffsetFetchResponseTopic,
};
use crate::server::request::RequestError;
use crate::types::TopicId;

pub async fn handle(mut call: Call) -> Result<Response, RequestError> {
    let request = call.decode_by_hand(OffsetFetchRequest::decode)?;
    let mut groups = Vec::with_capacity(request.groups.len());
    let mut size = AnswerSize::default();
    for group in request.groups {
        let group = fetch(&call, group, request.require_stable).await?;
        size.grow(group.topics.iter().map(OffsetFetchResponseTopic::approximate_size).sum()).await?;
        groups.push(group);
    }
    Ok(OffsetFetchResponse { throttle_time_ms: 0, groups }.encode(&call.header)?.into())
}

async fn fetch(
    call: &Call,
    mut group: OffsetFetchGroup,
    require_stable: bool,
) -> Result<OffsetFetchResponseGroup, RequestError> {
    let version = call.header.api_version;
    let by_id = version >= FIRST_TOPIC_ID_VERSION;
    let image = call.broker.image();
    let unknown = if by_id { name_topics(&image, &mut group) } else { Vec::new() };
    let op = |shard: &mut GroupShard, _: &mut Step<'_>| shard.fetch_offsets(&group, require_stable, MAX_ANSWER);
    let code = match call.broker.groups.run(&group.group_id, op).await {
        Ok(Ok(mut topics)) => {
            if by_id && group.topics.is_none() {
                identify_topics(&image, &mut topics);
            }
            topics.extend(unknown);
            return Ok(OffsetFetchResponseGroup { group_id: group.group_id, topics, error_code: ErrorCode::None });
        }
        Ok(Err(OffsetFetchError::TooLarge)) => return Err(TOO_LARGE),
        Ok(Err(OffsetFetchError::Refused(error))) => {
            call.note_refusal(&error);
            error.code
        }
        // Old consumers do not know how to retry COORDINATOR_NOT_AVAILABLE here.
        Err(error) => match error.code() {
            ErrorCode::CoordinatorNotAvailable => ErrorCode::NotCoordinator,
            code => code,
        },
    };
    Ok(OffsetFetchResponseGroup::error(&group, code, version))
}

/// Gives the topics of a group their names. Those whose ids are not known are taken out, and answered.
fn name_topics(image: &MetadataImage, group: &mut OffsetFetchGroup) -> Vec<OffsetFetchResponseTopic> {
    let Some(topics) = &mut group.topics else { return Vec::new() };
    let mut unknown = Vec::new();
    topics.retain_mut(|topic| match image.topic_by_id(topic.topic_id) {
        Some(found) => {
            topic.name = text(&found.name);
            true
        }
        None => {
            unknown.push(OffsetFetchResponseTopic::error(topic, ErrorCode::UnknownTopicId));
            false
        }
    });
    unknown
}

/// Gives topics their ids. Those that do not exist any more cannot be told.
fn identify_topics(image: &MetadataImage, topics: &mut Vec<OffsetFetchResponseTopic>) {
    topics.retain_mut(|topic| {
        topic.topic_id = image.topic(&topic.name).map_or(TopicId::ZERO, |found| found.id);
        topic.topic_id != TopicId::ZERO
    });
}

fn text(name: &Arc<str>) -> StrBytes {
    StrBytes::from_string(name.to_string())
}
