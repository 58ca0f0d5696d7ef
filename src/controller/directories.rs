//! AssignReplicasToDirs: brokers tell in which of their log directories replicas lie (KIP-858), so that it is known who
//! leads no more when one of them fails. A replica that is reported in a directory that has failed already loses its
//! leadership at once.

use std::collections::BTreeSet;

use kafka_protocol::messages::assign_replicas_to_dirs_response::{DirectoryData, PartitionData, TopicData};
use kafka_protocol::messages::{AssignReplicasToDirsRequest, AssignReplicasToDirsResponse};

use super::brokers::{self, check_broker_epoch, leave_partitions};
use super::decision::{ApiError, Decision};
use super::partition_change::PartitionChange;
use super::settings::ControllerSettings;
use crate::metadata::image::MetadataImage;
use crate::metadata::records::VersionedRecord;
use crate::protocol::errors::ErrorCode;
use crate::types::{BrokerId, DirectoryId, PartitionId, TopicId};

/// Notes where replicas of a broker lie.
pub fn assign_replicas_to_dirs(
    image: &MetadataImage,
    settings: &ControllerSettings,
    request: &AssignReplicasToDirsRequest,
) -> Result<Decision<AssignReplicasToDirsResponse>, ApiError> {
    if !image.metadata_version().has_directory_assignment() {
        return Err(ApiError::new(ErrorCode::UnsupportedVersion, "Directory assignment is not supported yet."));
    }
    let broker_id = BrokerId(request.broker_id.0);
    check_broker_epoch(image, broker_id, request.broker_epoch)?;
    let broker = image.broker(broker_id).expect("its epoch was checked");

    let mut records = Vec::new();
    let mut lost: BTreeSet<(TopicId, PartitionId)> = BTreeSet::new();
    let mut directories = Vec::new();
    for directory in &request.directories {
        let directory_id = DirectoryId(directory.id);
        let mut topics = Vec::new();
        for topic in &directory.topics {
            let topic_id = TopicId(topic.topic_id);
            let mut partitions = Vec::new();
            for partition in &topic.partitions {
                let partition_id = PartitionId(partition.partition_index);
                let assigned = assign(image, settings, broker_id, directory_id, topic_id, partition_id);
                let code = match assigned {
                    Ok(record) => {
                        records.extend(record);
                        if !broker.has_online_directory(directory_id) {
                            lost.insert((topic_id, partition_id));
                        }
                        ErrorCode::None
                    }
                    Err(code) => code,
                };
                partitions
                    .push(PartitionData::default().with_partition_index(partition_id.0).with_error_code(code.code()));
            }
            topics.push(TopicData::default().with_topic_id(topic.topic_id).with_partitions(partitions));
        }
        directories.push(DirectoryData::default().with_id(directory.id).with_topics(topics));
    }
    if !lost.is_empty() {
        leave_partitions(image, settings, broker_id, &lost, &mut records);
    }
    Ok(Decision { records, response: AssignReplicasToDirsResponse::default().with_directories(directories) })
}

fn assign(
    image: &MetadataImage,
    settings: &ControllerSettings,
    broker: BrokerId,
    directory: DirectoryId,
    topic_id: TopicId,
    partition_id: PartitionId,
) -> Result<Option<VersionedRecord>, ErrorCode> {
    let topic = image.topic_by_id(topic_id).ok_or(ErrorCode::UnknownTopicId)?;
    let partition = topic.partition(partition_id).ok_or(ErrorCode::UnknownTopicOrPartition)?;
    let at = partition.replicas.iter().position(|replica| *replica == broker).ok_or(ErrorCode::NotLeaderOrFollower)?;
    let mut directories = partition.directories.clone();
    directories.resize(partition.replicas.len(), DirectoryId::MIGRATING);
    directories[at] = directory;
    let change = PartitionChange {
        directories: Some(directories),
        ..PartitionChange::of(image, settings, topic, partition_id, partition)
    };
    // It has said where the replica lies: one without a leader, as the directory that was known is gone, can be led again.
    let is_back = partition.leader.is_none()
        && image.cluster.is_active(broker)
        && image.broker(broker).is_some_and(|registration| registration.has_online_directory(directory));
    let can_lead = |candidate| candidate == broker && is_back || brokers::can_lead(image, partition, candidate);
    Ok(change.decide(can_lead))
}

/// How a response says that all of it is refused.
pub fn refused(error: &ApiError) -> AssignReplicasToDirsResponse {
    AssignReplicasToDirsResponse::default().with_error_code(error.code.code())
}
