//! CreatePartitions: more partitions for existing topics, in Kafka's order of checks.
//!
//! One thing is not as in Kafka, which answers a request for more than a batch of partitions with an unknown error and
//! creates a batch of them: here it is refused as CreateTopics refuses it.

use std::collections::BTreeMap;

use kafka_protocol::messages::create_partitions_request::CreatePartitionsTopic;
use kafka_protocol::messages::create_partitions_response::CreatePartitionsTopicResult;
use kafka_protocol::messages::{CreatePartitionsRequest, CreatePartitionsResponse, TopicName};
use rand::Rng;

use super::decision::{ApiError, Decision, MAX_RECORDS_PER_REQUEST};
use super::placement;
use crate::metadata::image::{LeaderRecoveryState, MetadataImage, PartitionRegistration};
use crate::metadata::records::VersionedRecord;
use crate::protocol::errors::ErrorCode;
use crate::types::{BrokerId, LeaderEpoch, PartitionId};

/// Decides on a CreatePartitions request. When it is too late for the request, nothing is created.
pub fn create_partitions(
    image: &MetadataImage,
    request: &CreatePartitionsRequest,
    too_late: bool,
    random: &mut dyn Rng,
) -> Decision<CreatePartitionsResponse> {
    let mut times: BTreeMap<&TopicName, usize> = BTreeMap::new();
    for topic in &request.topics {
        *times.entry(&topic.name).or_default() += 1;
    }
    if too_late && times.values().any(|times| *times == 1) {
        let error = ApiError::bare(ErrorCode::RequestTimedOut);
        let results = request.topics.iter().map(|topic| result(&topic.name, Some(&error))).collect();
        return Decision::answer(CreatePartitionsResponse::default().with_results(results));
    }
    let duplicate = ApiError::new(ErrorCode::InvalidRequest, "Duplicate topic name.");
    let mut results: Vec<_> =
        times.iter().filter(|(_, times)| **times > 1).map(|(name, _)| result(name, Some(&duplicate))).collect();

    let mut records = Vec::new();
    for topic in request.topics.iter().filter(|topic| times[&topic.name] == 1) {
        match add_partitions(image, topic, MAX_RECORDS_PER_REQUEST - records.len(), random) {
            Ok(added) => {
                records.extend(added);
                results.push(result(&topic.name, None));
            }
            Err(error) => results.push(result(&topic.name, Some(&error))),
        }
    }
    if request.validate_only {
        records.clear();
    }
    Decision { records, response: CreatePartitionsResponse::default().with_results(results) }
}

fn result(name: &TopicName, error: Option<&ApiError>) -> CreatePartitionsTopicResult {
    CreatePartitionsTopicResult::default()
        .with_name(name.clone())
        .with_error_code(error.map_or(0, |error| error.code.code()))
        .with_error_message(error.and_then(ApiError::wire_message))
}

fn add_partitions(
    image: &MetadataImage,
    request: &CreatePartitionsTopic,
    room: usize,
    random: &mut dyn Rng,
) -> Result<Vec<VersionedRecord>, ApiError> {
    let topic = image.topic(&request.name).ok_or_else(|| ApiError::bare(ErrorCode::UnknownTopicOrPartition))?;
    let existing = topic.partitions.len();
    let wanted = usize::try_from(request.count).unwrap_or(0);
    let invalid = |message: String| Err(ApiError::new(ErrorCode::InvalidPartitions, message));
    if wanted == existing && request.count >= 0 {
        return invalid(format!("Topic already has {existing} partition(s)."));
    }
    if wanted < existing {
        return invalid(format!(
            "The topic {} currently has {existing} partition(s); {} would not be an increase.",
            request.name.0, request.count
        ));
    }
    let additional = wanted - existing;
    if let Some(assignments) = request.assignments.as_ref().filter(|assignments| assignments.len() != additional) {
        return Err(ApiError::new(
            ErrorCode::InvalidReplicaAssignment,
            format!(
                "Attempted to add {additional} additional partition(s), but only {} assignment(s) were specified.",
                assignments.len()
            ),
        ));
    }
    if additional > room {
        return Err(ApiError::new(ErrorCode::PolicyViolation, "Excessively large number of partitions per request."));
    }
    let replicas = topic.partitions.values().next().map_or(0, |partition| partition.replicas.len());
    let placements = match &request.assignments {
        Some(assignments) => assignments
            .iter()
            .map(|assignment| {
                let brokers: Vec<_> = assignment.broker_ids.iter().map(|broker| BrokerId(broker.0)).collect();
                check_manual_assignment(image, &brokers, Some(replicas)).map(|()| brokers)
            })
            .collect::<Result<Vec<_>, ApiError>>()?,
        None => placement::place(&image.cluster, additional, replicas as i16, random)
            .map_err(|error| ApiError::new(ErrorCode::InvalidReplicationFactor, error.to_string()))?,
    };
    let version = image.metadata_version();
    placements
        .into_iter()
        .zip(existing as i32..)
        .map(|(brokers, index)| match new_partition(image, brokers) {
            Some(partition) => Ok(partition.to_record(topic.id, PartitionId(index), version)),
            None if request.assignments.is_some() => Err(ApiError::new(
                ErrorCode::InvalidReplicaAssignment,
                format!(
                    "All brokers specified in the manual partition assignment for partition {index} are fenced or in \
                     controlled shutdown."
                ),
            )),
            None => Err(ApiError::new(
                ErrorCode::InvalidReplicationFactor,
                format!(
                    "Unable to replicate the partition {replicas} time(s): All brokers are currently fenced or in \
                     controlled shutdown."
                ),
            )),
        })
        .collect()
}

/// A new partition on the given brokers: those that serve are in sync, the first of them leads. `None`: none serves.
pub(super) fn new_partition(image: &MetadataImage, brokers: Vec<BrokerId>) -> Option<PartitionRegistration> {
    let isr: Vec<BrokerId> = brokers.iter().copied().filter(|broker| image.cluster.is_active(*broker)).collect();
    let version = image.metadata_version();
    let leader = *isr.first()?;
    Some(PartitionRegistration {
        directories: brokers
            .iter()
            .map(|broker| match version.has_directory_assignment() {
                true => placement::default_directory(&image.cluster, *broker),
                false => crate::types::DirectoryId::MIGRATING,
            })
            .collect(),
        replicas: brokers,
        isr,
        removing_replicas: Vec::new(),
        adding_replicas: Vec::new(),
        elr: Vec::new(),
        last_known_elr: Vec::new(),
        leader: Some(leader),
        leader_recovery_state: LeaderRecoveryState::Recovered,
        leader_epoch: LeaderEpoch(0),
        partition_epoch: 0,
    })
}

/// Checks the brokers of one partition that the client has chosen itself.
pub(super) fn check_manual_assignment(
    image: &MetadataImage,
    brokers: &[BrokerId],
    replication_factor: Option<usize>,
) -> Result<(), ApiError> {
    let invalid = |message: String| Err(ApiError::new(ErrorCode::InvalidReplicaAssignment, message));
    if brokers.is_empty() {
        return invalid("The manual partition assignment includes an empty replica list.".to_owned());
    }
    let mut sorted = brokers.to_vec();
    sorted.sort();
    for (at, broker) in sorted.iter().enumerate() {
        if image.broker(*broker).is_none() {
            return invalid(format!(
                "The manual partition assignment includes broker {broker}, but no such broker is registered."
            ));
        }
        if at > 0 && sorted[at - 1] == *broker {
            return invalid(format!("The manual partition assignment includes the broker {broker} more than once."));
        }
    }
    match replication_factor {
        Some(expected) if expected != brokers.len() => invalid(format!(
            "The manual partition assignment includes a partition with {} replica(s), but this is not consistent with \
             previous partitions, which have {expected} replica(s).",
            brokers.len()
        )),
        _ => Ok(()),
    }
}
