//! DeleteTopics: by name or by id, in Kafka's order of checks.
//!
//! First what is wrong with an entry in itself (neither or both of name and id), then names and ids that stand more
//! than once, then ids and names that nobody knows, then a name and an id of the same topic; the rest is deleted.

use std::collections::{BTreeMap, BTreeSet};

use kafka_protocol::messages::delete_topics_response::DeletableTopicResult;
use kafka_protocol::messages::{DeleteTopicsRequest, DeleteTopicsResponse, TopicName};
use kafka_protocol::protocol::StrBytes;

use super::decision::{ApiError, Decision, MAX_RECORDS_PER_REQUEST};
use super::settings::ControllerSettings;
use crate::metadata::image::MetadataImage;
use crate::metadata::records::{RemoveTopicRecord, VersionedRecord};
use crate::protocol::errors::ErrorCode;
use crate::types::TopicId;

/// Decides on a DeleteTopics request. When it is too late for the request, nothing is deleted.
pub fn delete_topics(
    image: &MetadataImage,
    settings: &ControllerSettings,
    request: &DeleteTopicsRequest,
    api_version: i16,
    too_late: bool,
) -> Decision<DeleteTopicsResponse> {
    if !settings.broker.current().delete_topic_enable {
        // v3+: the error has a code of its own.
        let error = match api_version {
            ..3 => ApiError::new(ErrorCode::InvalidRequest, "Topic deletion is disabled."),
            _ => ApiError::bare(ErrorCode::TopicDeletionDisabled),
        };
        return refuse_all(request, &error);
    }

    let mut results = Vec::new();
    let mut names: BTreeMap<&str, usize> = BTreeMap::new();
    let mut ids: BTreeMap<TopicId, usize> = BTreeMap::new();
    for name in &request.topic_names {
        *names.entry(name).or_default() += 1;
    }
    for topic in &request.topics {
        let id = TopicId(topic.topic_id);
        match &topic.name {
            None if id == TopicId::ZERO => results.push(failure(
                None,
                TopicId::ZERO,
                &ApiError::new(ErrorCode::InvalidRequest, "Neither topic name nor id were specified."),
            )),
            None => *ids.entry(id).or_default() += 1,
            Some(name) if id == TopicId::ZERO => *names.entry(name).or_default() += 1,
            Some(name) => results.push(failure(
                Some(name),
                id,
                &ApiError::new(ErrorCode::InvalidRequest, "You may not specify both topic name and topic id."),
            )),
        }
    }
    let distinct = names.values().chain(ids.values()).any(|times| *times == 1);
    if too_late && distinct {
        return refuse_all(request, &ApiError::bare(ErrorCode::RequestTimedOut));
    }
    for name in names.iter().filter(|(_, times)| **times > 1).map(|(name, _)| name) {
        let error = ApiError::new(ErrorCode::InvalidRequest, "Duplicate topic name.");
        results.push(failure(Some(name), TopicId::ZERO, &error));
    }
    for id in ids.iter().filter(|(_, times)| **times > 1).map(|(id, _)| id) {
        let error = ApiError::new(ErrorCode::InvalidRequest, "Duplicate topic id.");
        results.push(failure(None, *id, &error));
    }

    let duplicate_ids: BTreeSet<TopicId> = ids.iter().filter(|(_, times)| **times > 1).map(|(id, _)| *id).collect();
    let mut to_delete: BTreeMap<TopicId, &str> = BTreeMap::new();
    for id in ids.iter().filter(|(_, times)| **times == 1).map(|(id, _)| id) {
        match image.topic_by_id(*id) {
            Some(topic) => {
                to_delete.insert(*id, &topic.name);
            }
            None => results.push(failure(None, *id, &ApiError::with_default_message(ErrorCode::UnknownTopicId))),
        }
    }
    for name in names.iter().filter(|(_, times)| **times == 1).map(|(name, _)| *name) {
        let Some(topic) = image.topic(name) else {
            let error = ApiError::with_default_message(ErrorCode::UnknownTopicOrPartition);
            results.push(failure(Some(name), TopicId::ZERO, &error));
            continue;
        };
        if duplicate_ids.contains(&topic.id) || to_delete.insert(topic.id, &topic.name).is_some() {
            to_delete.remove(&topic.id);
            let error = ApiError::new(
                ErrorCode::InvalidRequest,
                "The provided topic name maps to an ID that was already supplied.",
            );
            results.push(failure(Some(name), topic.id, &error));
        }
    }
    if to_delete.len() > MAX_RECORDS_PER_REQUEST {
        return refuse_all(request, &ApiError::too_many_records());
    }

    let records = to_delete.keys().map(|id| VersionedRecord::lowest(RemoveTopicRecord { topic_id: *id })).collect();
    results.extend(to_delete.iter().map(|(id, name)| result(Some(name), *id)));
    Decision { records, response: DeleteTopicsResponse::default().with_responses(results) }
}

fn refuse_all(request: &DeleteTopicsRequest, error: &ApiError) -> Decision<DeleteTopicsResponse> {
    let by_name = request.topic_names.iter().map(|name| failure(Some(name), TopicId::ZERO, error));
    let others = request
        .topics
        .iter()
        .map(|topic| failure(topic.name.as_ref().map(|name| &***name), TopicId(topic.topic_id), error));
    Decision::answer(DeleteTopicsResponse::default().with_responses(by_name.chain(others).collect()))
}

fn result(name: Option<&str>, id: TopicId) -> DeletableTopicResult {
    DeletableTopicResult::default()
        .with_name(name.map(|name| TopicName(StrBytes::from_string(name.to_owned()))))
        .with_topic_id(id.0)
        .with_error_message(None)
}

fn failure(name: Option<&str>, id: TopicId, error: &ApiError) -> DeletableTopicResult {
    result(name, id).with_error_code(error.code.code()).with_error_message(error.wire_message())
}
