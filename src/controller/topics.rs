//! CreateTopics: from a request to the records of new topics, in Kafka's order of checks.
//!
//! Of the request as a whole: names that stand more than once, and the metadata log's own name, are answered and left
//! out; then all partitions and records together must stay within a batch. Of each topic: its name, whether it is there
//! or collides with one that is, null configurations, configurations, assignments or numbers, placement.

use std::collections::{BTreeMap, BTreeSet};

use kafka_protocol::messages::create_topics_request::CreatableTopic;
use kafka_protocol::messages::create_topics_response::{CreatableTopicConfigs, CreatableTopicResult};
use kafka_protocol::messages::{CreateTopicsRequest, CreateTopicsResponse, TopicName};
use kafka_protocol::protocol::StrBytes;
use rand::Rng;

use super::configs;
use super::decision::{ApiError, Decision, MAX_RECORDS_PER_REQUEST};
use super::partitions::{check_manual_assignment, new_partition};
use super::placement;
use super::settings::ControllerSettings;
use crate::config::describe;
use crate::metadata::image::{ConfigResource, MetadataImage, PartitionRegistration};
use crate::metadata::records::{TopicRecord, VersionedRecord};
use crate::metadata::topic_name;
use crate::protocol::errors::ErrorCode;
use crate::types::{BrokerId, PartitionId, TopicId};

/// Decides on a CreateTopics request. `new_topic_id` gives random ids. When it is too late for the request, nothing is
/// created.
pub fn create_topics(
    image: &MetadataImage,
    settings: &ControllerSettings,
    request: &CreateTopicsRequest,
    too_late: bool,
    random: &mut dyn Rng,
    new_topic_id: &mut dyn FnMut() -> TopicId,
) -> Decision<CreateTopicsResponse> {
    let mut times: BTreeMap<&str, usize> = BTreeMap::new();
    for topic in &request.topics {
        *times.entry(&topic.name).or_default() += 1;
    }
    let effective: Vec<&CreatableTopic> = request
        .topics
        .iter()
        .filter(|topic| times[&**topic.name] == 1 && **topic.name != *topic_name::CLUSTER_METADATA)
        .collect();

    if too_late && !effective.is_empty() {
        let error = ApiError::bare(ErrorCode::RequestTimedOut);
        let results = request.topics.iter().map(|topic| failure(&topic.name, &error)).collect();
        return Decision::answer(CreateTopicsResponse::default().with_topics(results));
    }
    let mut decision = create_distinct_topics(image, settings, &effective, random, new_topic_id);
    if request.validate_only {
        decision.records.clear();
    }
    let results = &mut decision.response.topics;
    let distinct: BTreeSet<&str> = times.keys().copied().collect();
    for name in distinct.iter().filter(|name| times[**name] > 1) {
        results.push(failure(name, &ApiError::new(ErrorCode::InvalidRequest, "Duplicate topic name.")));
    }
    if times.get(topic_name::CLUSTER_METADATA) == Some(&1) {
        let message = format!("Creation of internal topic {} is prohibited.", topic_name::CLUSTER_METADATA);
        results.push(failure(topic_name::CLUSTER_METADATA, &ApiError::new(ErrorCode::InvalidRequest, message)));
    }
    decision
}

fn create_distinct_topics(
    image: &MetadataImage,
    settings: &ControllerSettings,
    topics: &[&CreatableTopic],
    random: &mut dyn Rng,
    new_topic_id: &mut dyn FnMut() -> TopicId,
) -> Decision<CreateTopicsResponse> {
    let all_fail = |error: ApiError| {
        let results = topics.iter().map(|topic| failure(&topic.name, &error)).collect();
        Decision::answer(CreateTopicsResponse::default().with_topics(results))
    };
    if total_partitions(topics, settings) > MAX_RECORDS_PER_REQUEST {
        return all_fail(ApiError::new(
            ErrorCode::PolicyViolation,
            "Excessively large number of partitions per request.",
        ));
    }
    let colliding = colliding_names(image, topics);
    let mut records = Vec::new();
    let mut results = Vec::with_capacity(topics.len());
    for topic in topics {
        match create_topic(image, settings, topic, &colliding, random, new_topic_id, &mut records) {
            Ok(result) => results.push(result),
            Err(error) => results.push(failure(&topic.name, &error)),
        }
        if records.len() > MAX_RECORDS_PER_REQUEST {
            return all_fail(ApiError::too_many_records());
        }
    }
    Decision { records, response: CreateTopicsResponse::default().with_topics(results) }
}

fn failure(name: &str, error: &ApiError) -> CreatableTopicResult {
    CreatableTopicResult::default()
        .with_name(TopicName(StrBytes::from_string(name.to_owned())))
        .with_error_code(error.code.code())
        .with_error_message(error.wire_message())
        .with_num_partitions(-1)
        .with_replication_factor(-1)
        .with_configs(Some(Vec::new()))
}

fn total_partitions(topics: &[&CreatableTopic], settings: &ControllerSettings) -> usize {
    topics
        .iter()
        .map(|topic| match topic.num_partitions {
            _ if !topic.assignments.is_empty() => topic.assignments.len(),
            -1 => settings.broker.current().num_partitions.max(0) as usize,
            count => count.max(0) as usize,
        })
        .fold(0, usize::saturating_add)
}

/// For each requested name that could collide: an existing topic it collides with. One pass over the topics, and only
/// if a requested name has such characters.
fn colliding_names<'a>(image: &'a MetadataImage, topics: &[&CreatableTopic]) -> BTreeMap<String, &'a str> {
    let unify = |name: &str| name.replace('.', "_");
    let wanted: BTreeSet<String> = topics
        .iter()
        .filter(|topic| topic_name::has_collision_chars(&topic.name))
        .map(|topic| unify(&topic.name))
        .collect();
    if wanted.is_empty() {
        return BTreeMap::new();
    }
    image
        .topics
        .iter()
        .filter(|topic| topic_name::has_collision_chars(&topic.name))
        .map(|topic| (unify(&topic.name), &*topic.name))
        .filter(|(unified, _)| wanted.contains(unified))
        .collect()
}

fn create_topic(
    image: &MetadataImage,
    settings: &ControllerSettings,
    topic: &CreatableTopic,
    colliding: &BTreeMap<String, &str>,
    random: &mut dyn Rng,
    new_topic_id: &mut dyn FnMut() -> TopicId,
    records: &mut Vec<VersionedRecord>,
) -> Result<CreatableTopicResult, ApiError> {
    check_name(image, &topic.name, colliding)?;
    let given: Vec<_> = topic.configs.iter().map(|config| (&*config.name, config.value.as_deref())).collect();
    let configs = configs::of_new_topic(settings, &given)?;
    let partitions = plan_partitions(image, settings, topic, random)?;

    let version = image.metadata_version();
    let id = new_topic_id();
    records.push(VersionedRecord::lowest(TopicRecord { name: topic.name.to_string(), topic_id: id }));
    let resource = ConfigResource::topic(&topic.name);
    let changes = configs.iter().map(|(name, value)| (name.clone(), Some(value.clone())));
    records.extend(configs::to_records(&resource, changes.collect()));
    records.extend(
        partitions.iter().zip(0..).map(|(partition, index)| partition.to_record(id, PartitionId(index), version)),
    );
    let described = describe::created_topic(&configs, &settings.broker).into_iter().map(|config| {
        CreatableTopicConfigs::default()
            .with_name(StrBytes::from_string(config.name))
            .with_value(config.value.map(StrBytes::from_string))
            .with_read_only(config.read_only)
            .with_config_source(config.source.id())
            .with_is_sensitive(config.sensitive)
    });
    Ok(CreatableTopicResult::default()
        .with_name(topic.name.clone())
        .with_topic_id(id.0)
        .with_error_message(None)
        .with_num_partitions(partitions.len() as i32)
        .with_replication_factor(partitions[0].replicas.len() as i16)
        .with_configs(Some(described.collect())))
}

fn check_name(image: &MetadataImage, name: &str, colliding: &BTreeMap<String, &str>) -> Result<(), ApiError> {
    let invalid = |message: String| Err(ApiError::new(ErrorCode::InvalidTopicException, message));
    // That it exists weighs more than anything else that is wrong with a name.
    if image.topic(name).is_some() {
        return Err(ApiError::new(ErrorCode::TopicAlreadyExists, format!("Topic '{name}' already exists.")));
    }
    // And a collision more than an invalid name, as Kafka looks at both and keeps the last.
    if let Some(other) = colliding.get(&name.replace('.', "_")).filter(|_| topic_name::has_collision_chars(name)) {
        return invalid(format!("Topic '{name}' collides with existing topic: {other}"));
    }
    topic_name::validate(name).or_else(|error| invalid(error.to_string()))
}

fn plan_partitions(
    image: &MetadataImage,
    settings: &ControllerSettings,
    topic: &CreatableTopic,
    random: &mut dyn Rng,
) -> Result<Vec<PartitionRegistration>, ApiError> {
    if !topic.assignments.is_empty() {
        return plan_manual_assignment(image, topic);
    }
    if topic.replication_factor < -1 || topic.replication_factor == 0 {
        return Err(ApiError::new(
            ErrorCode::InvalidReplicationFactor,
            "Replication factor must be larger than 0, or -1 to use the default value.",
        ));
    }
    if topic.num_partitions < -1 || topic.num_partitions == 0 {
        return Err(ApiError::new(
            ErrorCode::InvalidPartitions,
            "Number of partitions was set to an invalid non-positive value.",
        ));
    }
    let count =
        if topic.num_partitions == -1 { settings.broker.current().num_partitions } else { topic.num_partitions };
    let replicas = match topic.replication_factor {
        -1 => settings.broker.current().default_replication_factor as i16,
        factor => factor,
    };
    let unable = |reason: String| {
        ApiError::new(
            ErrorCode::InvalidReplicationFactor,
            format!("Unable to replicate the partition {replicas} time(s): {reason}"),
        )
    };
    placement::place(&image.cluster, count.max(0) as usize, replicas, random)
        .map_err(|error| unable(error.to_string()))?
        .into_iter()
        .map(|brokers| {
            new_partition(image, brokers)
                .ok_or_else(|| unable("All brokers are currently fenced or in controlled shutdown.".to_owned()))
        })
        .collect()
}

fn plan_manual_assignment(
    image: &MetadataImage,
    topic: &CreatableTopic,
) -> Result<Vec<PartitionRegistration>, ApiError> {
    if topic.replication_factor != -1 {
        return Err(ApiError::new(
            ErrorCode::InvalidRequest,
            "A manual partition assignment was specified, but replication factor was not set to -1.",
        ));
    }
    if topic.num_partitions != -1 {
        return Err(ApiError::new(
            ErrorCode::InvalidRequest,
            "A manual partition assignment was specified, but numPartitions was not set to -1.",
        ));
    }
    let invalid = |message: String| ApiError::new(ErrorCode::InvalidReplicaAssignment, message);
    let mut partitions: BTreeMap<i32, PartitionRegistration> = BTreeMap::new();
    let mut replication_factor = None;
    for assignment in &topic.assignments {
        let index = assignment.partition_index;
        if partitions.contains_key(&index) {
            return Err(invalid(format!("Found multiple manual partition assignments for partition {index}")));
        }
        let brokers: Vec<BrokerId> = assignment.broker_ids.iter().map(|broker| BrokerId(broker.0)).collect();
        check_manual_assignment(image, &brokers, replication_factor)?;
        replication_factor = Some(brokers.len());
        let partition = new_partition(image, brokers).ok_or_else(|| {
            invalid(format!(
                "All brokers specified in the manual partition assignment for partition {index} are fenced or in \
                 controlled shutdown."
            ))
        })?;
        partitions.insert(index, partition);
    }
    if !partitions.keys().copied().eq(0..partitions.len() as i32) {
        return Err(invalid("partitions should be a consecutive 0-based integer sequence".to_owned()));
    }
    Ok(partitions.into_values().collect())
}
