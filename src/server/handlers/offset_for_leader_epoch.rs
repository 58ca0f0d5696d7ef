//! OffsetForLeaderEpoch (key 23), versions 2 to 4: where a leader epoch ends in this log (KIP-101, KIP-279, KIP-320),
//! for followers and consumers that look for the point their logs part ways.

use kafka_protocol::messages::offset_for_leader_epoch_request::OffsetForLeaderPartition;
use kafka_protocol::messages::offset_for_leader_epoch_response::{EpochEndOffset, OffsetForLeaderTopicResult};
use kafka_protocol::messages::{OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse};

use super::Call;
use super::partition_errors::{leader_code, lookup_code};
use crate::net::Response;
use crate::replica::ReplicaManager;
use crate::server::request::RequestError;
use crate::types::{LeaderEpoch, PartitionId};

pub fn handle(mut call: Call) -> Result<Response, RequestError> {
    let request: OffsetForLeaderEpochRequest = call.decode()?;
    let replicas = &call.broker.replicas;
    let topics = request
        .topics
        .iter()
        .map(|topic| {
            let partitions =
                topic.partitions.iter().map(|partition| end_offset(replicas, &topic.topic, partition)).collect();
            OffsetForLeaderTopicResult::default().with_topic(topic.topic.clone()).with_partitions(partitions)
        })
        .collect();
    call.encode(&OffsetForLeaderEpochResponse::default().with_topics(topics))
}

fn end_offset(replicas: &ReplicaManager, topic: &str, wanted: &OffsetForLeaderPartition) -> EpochEndOffset {
    let answer = EpochEndOffset::default().with_partition(wanted.partition).with_leader_epoch(-1).with_end_offset(-1);
    let partition = match replicas.partition(topic, PartitionId(wanted.partition)) {
        Ok(partition) => partition,
        Err(error) => return answer.with_error_code(lookup_code(error).code()),
    };
    let current_leader_epoch = (wanted.current_leader_epoch != -1).then_some(LeaderEpoch(wanted.current_leader_epoch));
    match partition.end_offset_for_epoch(current_leader_epoch, LeaderEpoch(wanted.leader_epoch)) {
        Ok(Some(end)) => answer.with_leader_epoch(end.leader_epoch.0).with_end_offset(end.end_offset.0),
        Ok(None) => answer,
        Err(error) => answer.with_error_code(leader_code(error).code()),
    }
}
