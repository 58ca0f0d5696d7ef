//! DescribeLogDirs (key 35), versions 1 to 5: what lies in which log directory, how large it is and how far behind
//! (KIP-113). v4+ tells the size of the volume (KIP-827), v5+ whether a directory is cordoned (KIP-1066).
//!
//! Without topics all replicas are described, with an empty list none. A directory that failed has KAFKA_STORAGE_ERROR.

use std::collections::HashSet;

use indexmap::IndexMap;
use kafka_protocol::messages::DescribeLogDirsRequest;
use tokio::task::spawn_blocking;
use tracing::warn;

use super::Call;
use crate::net::Response;
use crate::protocol::ErrorCode;
use crate::protocol::describe_log_dirs::{
    DescribeLogDirsResponse, LogDirPartition, LogDirResult, LogDirTopic, UNKNOWN_BYTES,
};
use crate::replica::{LogDirDescription, LogDirReplica};
use crate::server::request::RequestError;
use crate::types::TopicPartition;

pub async fn handle(mut call: Call) -> Result<Response, RequestError> {
    let request: DescribeLogDirsRequest = call.decode()?;
    let wanted: Option<HashSet<TopicPartition>> = request.topics.map(|topics| {
        let partitions = topics.iter().flat_map(|topic| {
            topic.partitions.iter().map(|partition| TopicPartition::new(topic.topic.as_str(), *partition))
        });
        partitions.collect()
    });
    let replicas = call.broker.replicas.clone();
    let described = spawn_blocking(move || replicas.describe_log_dirs(wanted.as_ref()));
    let described = described.await.map_err(|_| RequestError::Cancelled)?;
    // Before it, cordoned directories take no new replicas either, but nobody is told.
    let tells_cordoned = call.broker.image().metadata_version().has_cordoned_log_dirs();
    let results = described.into_iter().map(|dir| result(dir, tells_cordoned)).collect();
    let response = DescribeLogDirsResponse { results, ..DescribeLogDirsResponse::default() };
    Ok(response.encode(&call.header)?.into())
}

fn result(dir: LogDirDescription, tells_cordoned: bool) -> LogDirResult {
    let log_dir = dir.path.to_string_lossy().into_owned();
    let Some(online) = dir.online else {
        warn!(dir = log_dir, "cannot describe a log directory that is offline");
        return LogDirResult {
            error_code: ErrorCode::KafkaStorageError.code(),
            log_dir,
            topics: Vec::new(),
            total_bytes: UNKNOWN_BYTES,
            usable_bytes: UNKNOWN_BYTES,
            is_cordoned: false,
        };
    };
    let bytes = |bytes: u64| i64::try_from(bytes).unwrap_or(i64::MAX);
    LogDirResult {
        error_code: ErrorCode::None.code(),
        log_dir,
        topics: by_topic(online.replicas),
        total_bytes: online.space.map_or(UNKNOWN_BYTES, |space| bytes(space.total)),
        usable_bytes: online.space.map_or(UNKNOWN_BYTES, |space| bytes(space.usable)),
        is_cordoned: online.is_cordoned && tells_cordoned,
    }
}

fn by_topic(replicas: Vec<LogDirReplica>) -> Vec<LogDirTopic> {
    let mut topics: IndexMap<String, Vec<LogDirPartition>> = IndexMap::new();
    for replica in replicas {
        topics.entry(replica.topic_partition.topic.to_string()).or_default().push(LogDirPartition {
            partition_index: replica.topic_partition.partition.0,
            partition_size: i64::try_from(replica.size).unwrap_or(i64::MAX),
            offset_lag: replica.offset_lag,
            is_future_key: replica.is_future,
        });
    }
    topics.into_iter().map(|(name, partitions)| LogDirTopic { name, partitions }).collect()
}
