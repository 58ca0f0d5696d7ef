//! DescribeProducers (key 61), version 0: the idempotent producers that wrote to partitions led here (KIP-664).

use kafka_protocol::messages::describe_producers_response::{PartitionResponse, ProducerState, TopicResponse};
use kafka_protocol::messages::{DescribeProducersRequest, DescribeProducersResponse, ProducerId as WireProducerId};
use kafka_protocol::protocol::Encodable;

use super::Call;
use super::answer_size::AnswerSize;
use super::partition_errors::lookup_code;
use crate::metadata::topic_name;
use crate::net::Response;
use crate::protocol::{ApiError, ErrorCode};
use crate::replica::{LeaderError, ProducerStateEntry};
use crate::server::broker::Broker;
use crate::server::request::RequestError;
use crate::types::PartitionId;

pub async fn handle(mut call: Call) -> Result<Response, RequestError> {
    let request: DescribeProducersRequest = call.decode()?;
    let image = call.broker.image();
    let mut size = AnswerSize::default();
    let mut topics = Vec::with_capacity(request.topics.len());
    for topic in request.topics {
        let refusal = match topic_name::validate(&topic.name) {
            Err(error) => Some(ApiError::new(ErrorCode::InvalidTopicException, error.to_string())),
            Ok(()) if image.topic(&topic.name).is_none() => {
                Some(ApiError::with_default_message(ErrorCode::UnknownTopicOrPartition))
            }
            Ok(()) => None,
        };
        let mut partitions = Vec::with_capacity(topic.partition_indexes.len());
        for index in topic.partition_indexes {
            let partition = match &refusal {
                Some(error) => PartitionResponse::default()
                    .with_partition_index(index)
                    .with_error_code(error.code.code())
                    .with_error_message(error.wire_message()),
                None => describe(&call.broker, &topic.name, index),
            };
            size.grow(partition.compute_size(call.header.api_version).unwrap_or(usize::MAX)).await?;
            partitions.push(partition);
        }
        topics.push(TopicResponse::default().with_partitions(partitions).with_name(topic.name));
    }
    call.encode(&DescribeProducersResponse::default().with_topics(topics))
}

fn describe(broker: &Broker, topic: &str, index: i32) -> PartitionResponse {
    let response = PartitionResponse::default().with_partition_index(index);
    let producers = match broker.replicas.partition(topic, PartitionId(index)) {
        Err(error) => Err(lookup_code(error)),
        Ok(partition) => partition.active_producers().map_err(|error| match error {
            LeaderError::Offline => ErrorCode::KafkaStorageError,
            LeaderError::NotLeaderOrFollower | LeaderError::FencedLeaderEpoch | LeaderError::UnknownLeaderEpoch => {
                ErrorCode::NotLeaderOrFollower
            }
        }),
    };
    match producers {
        Ok(producers) => response.with_active_producers(producers.iter().map(state).collect()),
        Err(error) => response.with_error_code(error.code()),
    }
}

fn state(producer: &ProducerStateEntry) -> ProducerState {
    ProducerState::default()
        .with_producer_id(WireProducerId(producer.producer_id.0))
        .with_producer_epoch(i32::from(producer.producer_epoch.0))
        .with_last_sequence(producer.last_sequence())
        .with_last_timestamp(producer.last_timestamp)
        .with_coordinator_epoch(producer.coordinator_epoch)
        .with_current_txn_start_offset(producer.current_txn_first_offset.map_or(-1, |offset| offset.0))
}
