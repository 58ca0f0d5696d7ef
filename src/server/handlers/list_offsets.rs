//! ListOffsets (key 2), versions 1 to 11: offsets by a timestamp or by one of the special ones.
//!
//! ```text
//! -1 latest   -2 earliest   v7+: -3 of the largest timestamp (KIP-734)   v8+: -4 earliest local (KIP-405)
//! v9+: -5 latest tiered (KIP-1005)   v11+: -6 earliest not yet tiered (KIP-1023)
//! ```
//! There is no tiered storage here: -4 is the same as -2, and -5 and -6 find nothing, as in a Kafka without it.
//! v2+: isolation (KIP-98); v4+: leader epochs (KIP-320). A partition that is named twice is INVALID_REQUEST.

use std::collections::HashMap;

use indexmap::IndexMap;
use kafka_protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use kafka_protocol::messages::list_offsets_response::{ListOffsetsPartitionResponse, ListOffsetsTopicResponse};
use kafka_protocol::messages::{ListOffsetsRequest, ListOffsetsResponse, TopicName};
use tokio::task::spawn_blocking;

use super::Call;
use super::partition_errors::{lookup_code, read_code};
use crate::net::Response;
use crate::protocol::ErrorCode;
use crate::replica::{FetchIsolation, OffsetSpec, ReplicaManager, TimestampOffset};
use crate::server::request::RequestError;
use crate::types::{BrokerId, LeaderEpoch, PartitionId};

/// May ask a follower.
const DEBUGGING_REPLICA_ID: i32 = -2;

const LATEST: i64 = -1;
const EARLIEST: i64 = -2;
const MAX_TIMESTAMP: i64 = -3;
const EARLIEST_LOCAL: i64 = -4;
const LATEST_TIERED: i64 = -5;
const EARLIEST_PENDING_UPLOAD: i64 = -6;

/// What a timestamp asks for; `None`: for what this version does not know.
fn target(timestamp: i64, version: i16) -> Option<Target> {
    match timestamp {
        LATEST => Some(Target::Find(OffsetSpec::Latest)),
        EARLIEST => Some(Target::Find(OffsetSpec::Earliest)),
        MAX_TIMESTAMP if version >= 7 => Some(Target::Find(OffsetSpec::MaxTimestamp)),
        EARLIEST_LOCAL if version >= 8 => Some(Target::Find(OffsetSpec::Earliest)),
        LATEST_TIERED if version >= 9 => Some(Target::Tiered),
        EARLIEST_PENDING_UPLOAD if version >= 11 => Some(Target::Tiered),
        0.. => Some(Target::Find(OffsetSpec::Timestamp(timestamp))),
        _ => None,
    }
}

#[derive(Clone, Copy)]
enum Target {
    Find(OffsetSpec),
    /// Of records in tiered storage: there are none.
    Tiered,
}

pub async fn handle(mut call: Call) -> Result<Response, RequestError> {
    let request: ListOffsetsRequest = call.decode()?;
    let version = call.header.api_version;
    let Some(isolation) = FetchIsolation::of(BrokerId(request.replica_id.0), request.isolation_level) else {
        let fail = |partition| failed(partition, ErrorCode::UnknownServerError);
        let topics = request.topics.iter().map(|topic| {
            ListOffsetsTopicResponse::default()
                .with_name(topic.name.clone())
                .with_partitions(topic.partitions.iter().map(fail).collect())
        });
        return call.encode(&ListOffsetsResponse::default().with_topics(topics.collect()));
    };
    let by_time = request
        .topics
        .iter()
        .flat_map(|topic| &topic.partitions)
        .any(|partition| partition.timestamp >= 0 || partition.timestamp == MAX_TIMESTAMP);
    let topics = if by_time {
        // Finding a timestamp reads the log, which may have to wait for the disk.
        let replicas = call.broker.replicas.clone();
        spawn_blocking(move || list(&replicas, &request, isolation, version))
            .await
            .map_err(|_| RequestError::Cancelled)?
    } else {
        list(&call.broker.replicas, &request, isolation, version)
    };
    call.encode(&ListOffsetsResponse::default().with_topics(topics))
}

fn list(
    replicas: &ReplicaManager,
    request: &ListOffsetsRequest,
    isolation: FetchIsolation,
    version: i16,
) -> Vec<ListOffsetsTopicResponse> {
    let mut times_named: HashMap<(&TopicName, i32), usize> = HashMap::new();
    for ListOffsetsTopic { name, partitions, .. } in &request.topics {
        for partition in partitions {
            *times_named.entry((name, partition.partition_index)).or_default() += 1;
        }
    }
    let replica_id = request.replica_id.0;
    let mut answers: IndexMap<TopicName, IndexMap<i32, ListOffsetsPartitionResponse>> = IndexMap::new();
    for ListOffsetsTopic { name, partitions, .. } in &request.topics {
        for partition in partitions {
            let answer = if times_named[&(name, partition.partition_index)] > 1 {
                failed(partition, ErrorCode::InvalidRequest)
            } else {
                match target(partition.timestamp, version) {
                    None => failed(partition, ErrorCode::UnsupportedVersion),
                    Some(target) => find(replicas, name, partition, target, isolation, replica_id, version),
                }
            };
            answers.entry(name.clone()).or_default().insert(partition.partition_index, answer);
        }
    }
    answers
        .into_iter()
        .map(|(name, partitions)| {
            ListOffsetsTopicResponse::default().with_name(name).with_partitions(partitions.into_values().collect())
        })
        .collect()
}

fn find(
    replicas: &ReplicaManager,
    topic: &str,
    wanted: &ListOffsetsPartition,
    target: Target,
    isolation: FetchIsolation,
    replica_id: i32,
    version: i16,
) -> ListOffsetsPartitionResponse {
    let partition = match replicas.partition(topic, PartitionId(wanted.partition_index)) {
        Ok(partition) => partition,
        Err(error) => return failed(wanted, lookup_code(error)),
    };
    let current_leader_epoch = (wanted.current_leader_epoch != -1).then_some(LeaderEpoch(wanted.current_leader_epoch));
    let leader_only = replica_id != DEBUGGING_REPLICA_ID;
    let spec = match target {
        Target::Find(spec) => spec,
        // Asked for the checks that come before, which are the same.
        Target::Tiered => OffsetSpec::Earliest,
    };
    match (partition.list_offset(spec, isolation, current_leader_epoch, leader_only), target) {
        (Ok(Some(offset)), Target::Find(_)) => found(wanted, offset, version),
        (Ok(None), Target::Find(_)) | (Ok(_), Target::Tiered) => failed(wanted, ErrorCode::None),
        (Err(error), _) => failed(wanted, read_code(&error)),
    }
}

fn found(wanted: &ListOffsetsPartition, found: TimestampOffset, version: i16) -> ListOffsetsPartitionResponse {
    // v4+: KIP-320.
    let leader_epoch = found.leader_epoch.filter(|_| version >= 4).unwrap_or(LeaderEpoch::UNKNOWN);
    failed(wanted, ErrorCode::None)
        .with_timestamp(found.timestamp)
        .with_offset(found.offset.0)
        .with_leader_epoch(leader_epoch.0)
}

/// An answer without an offset.
fn failed(wanted: &ListOffsetsPartition, code: ErrorCode) -> ListOffsetsPartitionResponse {
    ListOffsetsPartitionResponse::default()
        .with_partition_index(wanted.partition_index)
        .with_error_code(code.code())
        .with_timestamp(-1)
        .with_offset(-1)
        .with_leader_epoch(-1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn special_timestamps_belong_to_versions() {
        let show = |timestamp, version| match target(timestamp, version) {
            None => "unsupported",
            Some(Target::Tiered) => "tiered",
            Some(Target::Find(OffsetSpec::Latest)) => "latest",
            Some(Target::Find(OffsetSpec::Earliest)) => "earliest",
            Some(Target::Find(OffsetSpec::MaxTimestamp)) => "max timestamp",
            Some(Target::Find(OffsetSpec::Timestamp(_))) => "by time",
        };
        // timestamp, first version that knows it, what it is
        for (timestamp, since, meaning) in [
            (-1, 1, "latest"),
            (-2, 1, "earliest"),
            (-3, 7, "max timestamp"),
            (-4, 8, "earliest"),
            (-5, 9, "tiered"),
            (-6, 11, "tiered"),
            (0, 1, "by time"),
            (i64::MAX, 1, "by time"),
        ] {
            for version in 1..=11 {
                let expected = if version >= since { meaning } else { "unsupported" };
                assert_eq!(show(timestamp, version), expected, "{timestamp} in version {version}");
            }
        }
        assert_eq!([-7, i64::MIN].map(|timestamp| show(timestamp, 11)), ["unsupported"; 2]);
    }

    #[test]
    fn leader_epochs_are_told_from_version_4() {
        let wanted = ListOffsetsPartition::default().with_partition_index(3);
        let offset =
            TimestampOffset { timestamp: 7, offset: crate::types::Offset(8), leader_epoch: Some(LeaderEpoch(9)) };
        let answer = |offset, version| {
            let answer = found(&wanted, offset, version);
            assert_eq!((answer.partition_index, answer.timestamp, answer.offset), (3, 7, 8));
            answer.leader_epoch
        };
        assert_eq!([3, 4].map(|version| answer(offset, version)), [-1, 9]);
        assert_eq!(answer(TimestampOffset { leader_epoch: None, ..offset }, 4), -1);
    }
}
