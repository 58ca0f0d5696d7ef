//! AlterReplicaLogDirs (key 34), versions 1 and 2: moves replicas of this broker to other log directories (KIP-113). The
//! answer comes when the moves have begun; DescribeLogDirs tells of their progress.
//!
//! A replica that is not here yet has REPLICA_NOT_AVAILABLE, and is made in that directory once it is given to this broker.

use indexmap::IndexMap;
use kafka_protocol::messages::alter_replica_log_dirs_response::{
    AlterReplicaLogDirPartitionResult, AlterReplicaLogDirTopicResult,
};
use kafka_protocol::messages::{AlterReplicaLogDirsRequest, AlterReplicaLogDirsResponse};
use kafka_protocol::protocol::StrBytes;
use tokio::task::spawn_blocking;
use tracing::warn;

use super::Call;
use crate::net::Response;
use crate::protocol::ErrorCode;
use crate::replica::{AlterLogDirError, LookupError, MoveError, ReplicaManager};
use crate::server::request::RequestError;
use crate::types::TopicPartition;

pub async fn handle(mut call: Call) -> Result<Response, RequestError> {
    let request: AlterReplicaLogDirsRequest = call.decode()?;
    // A partition that is named twice goes where it was sent last.
    let mut wanted: IndexMap<TopicPartition, String> = IndexMap::new();
    for dir in &request.dirs {
        for topic in &dir.topics {
            for partition in &topic.partitions {
                wanted.insert(TopicPartition::new(topic.name.as_str(), *partition), dir.path.to_string());
            }
        }
    }
    let image = call.broker.image();
    let replicas = call.broker.replicas.clone();
    let altered = spawn_blocking(move || {
        let alter = |(partition, path): (TopicPartition, String)| {
            let exists =
                image.topic(&partition.topic).is_some_and(|topic| topic.partition(partition.partition).is_some());
            let code = alter(&replicas, &partition, &path, exists);
            (partition, code)
        };
        wanted.into_iter().map(alter).collect::<Vec<_>>()
    });
    let mut topics: IndexMap<String, Vec<AlterReplicaLogDirPartitionResult>> = IndexMap::new();
    for (partition, code) in altered.await.map_err(|_| RequestError::Cancelled)? {
        topics.entry(partition.topic.to_string()).or_default().push(
            AlterReplicaLogDirPartitionResult::default()
                .with_partition_index(partition.partition.0)
                .with_error_code(code.code()),
        );
    }
    let results = topics.into_iter().map(|(name, partitions)| {
        AlterReplicaLogDirTopicResult::default()
            .with_topic_name(StrBytes::from_string(name).into())
            .with_partitions(partitions)
    });
    call.encode(&AlterReplicaLogDirsResponse::default().with_results(results.collect()))
}

fn alter(replicas: &ReplicaManager, partition: &TopicPartition, path: &str, exists: bool) -> ErrorCode {
    let Err(error) = replicas.alter_replica_log_dir(partition, path) else { return ErrorCode::None };
    warn!(%partition, path, %error, "the replica is not moved");
    match error {
        AlterLogDirError::Cordoned(_) => ErrorCode::InvalidReplicaAssignment,
        AlterLogDirError::Lookup(error) => match error {
            LookupError::Offline => ErrorCode::KafkaStorageError,
            LookupError::UnknownTopicId | LookupError::UnknownTopicOrPartition | LookupError::NotHere if exists => {
                ErrorCode::ReplicaNotAvailable
            }
            LookupError::UnknownTopicId | LookupError::UnknownTopicOrPartition | LookupError::NotHere => {
                ErrorCode::UnknownTopicOrPartition
            }
        },
        AlterLogDirError::Move(error) => match error {
            MoveError::NameTooLong => ErrorCode::InvalidTopicException,
            MoveError::UnknownDir(_) => ErrorCode::LogDirNotFound,
            MoveError::Storage(_) => ErrorCode::KafkaStorageError,
            MoveError::NoLog => ErrorCode::ReplicaNotAvailable,
            MoveError::Closed => ErrorCode::UnknownServerError,
        },
    }
}
