//! DeleteRecords (key 21), versions 0 to 2: moves the log start offset (KIP-107). Whole segments below it are deleted;
//! the records of the segment it lies in are only no longer read.
//!
//! Offset -1 means the high watermark. Going backwards succeeds and changes nothing, as in Kafka.

use indexmap::IndexMap;
use kafka_protocol::messages::delete_records_response::{DeleteRecordsPartitionResult, DeleteRecordsTopicResult};
use kafka_protocol::messages::{DeleteRecordsRequest, DeleteRecordsResponse, TopicName};
use tokio::task::spawn_blocking;
use tracing::debug;

use super::Call;
use super::partition_errors::{leader_code, lookup_code};
use crate::net::Response;
use crate::protocol::ErrorCode;
use crate::replica::{ChangeError, DeleteRecordsError, LookupError, ReplicaManager};
use crate::server::request::RequestError;
use crate::server::topics::is_internal;
use crate::types::{Offset, PartitionId};

/// Stands for the high watermark.
const HIGH_WATERMARK: i64 = -1;

pub async fn handle(mut call: Call) -> Result<Response, RequestError> {
    let request: DeleteRecordsRequest = call.decode()?;
    let replicas = call.broker.replicas.clone();
    let topics = spawn_blocking(move || delete_all(&replicas, &request)).await.map_err(|_| RequestError::Cancelled)?;
    call.encode(&DeleteRecordsResponse::default().with_topics(topics))
}

fn delete_all(replicas: &ReplicaManager, request: &DeleteRecordsRequest) -> Vec<DeleteRecordsTopicResult> {
    // A partition that is named twice counts with its last offset.
    let mut wanted: IndexMap<&TopicName, IndexMap<i32, i64>> = IndexMap::new();
    for topic in &request.topics {
        let partitions = wanted.entry(&topic.name).or_default();
        for partition in &topic.partitions {
            partitions.insert(partition.partition_index, partition.offset);
        }
    }
    wanted
        .into_iter()
        .filter(|(_, partitions)| !partitions.is_empty())
        .map(|(name, partitions)| {
            let partitions = partitions
                .into_iter()
                .map(|(index, offset)| {
                    let result = DeleteRecordsPartitionResult::default().with_partition_index(index);
                    match delete(replicas, name, PartitionId(index), offset) {
                        Ok(low_watermark) => result.with_low_watermark(low_watermark.0),
                        Err(code) => {
                            debug!(topic = %name.as_str(), partition = index, offset, ?code, "records not deleted");
                            result.with_low_watermark(-1).with_error_code(code.code())
                        }
                    }
                })
                .collect();
            DeleteRecordsTopicResult::default().with_name(name.clone()).with_partitions(partitions)
        })
        .collect()
}

fn delete(replicas: &ReplicaManager, topic: &str, partition: PartitionId, offset: i64) -> Result<Offset, ErrorCode> {
    let found = replicas.partition(topic, partition);
    if let Err(error @ LookupError::UnknownTopicOrPartition) = found {
        return Err(lookup_code(error));
    }
    if is_internal(topic) {
        return Err(ErrorCode::InvalidTopicException);
    }
    let partition = found.map_err(lookup_code)?;
    let offset = (offset != HIGH_WATERMARK).then_some(Offset(offset));
    partition.delete_records(offset).map_err(|error| match error {
        DeleteRecordsError::Leader(error) => leader_code(error),
        DeleteRecordsError::Policy => ErrorCode::PolicyViolation,
        DeleteRecordsError::OutOfRange { .. } => ErrorCode::OffsetOutOfRange,
        DeleteRecordsError::Log(error) => match error {
            ChangeError::OutOfRange { .. } => ErrorCode::OffsetOutOfRange,
            ChangeError::NoRoom(_) | ChangeError::Io(_) | ChangeError::Offline | ChangeError::Moved => {
                ErrorCode::KafkaStorageError
            }
        },
    })
}
