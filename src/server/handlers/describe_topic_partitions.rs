//! DescribeTopicPartitions (key 75), version 0: topics page by page, with their eligible leader replicas (KIP-966).
//!
//! Topics are described in alphabetical order until `response_partition_limit` partitions are (at least 1, at most
//! `max.request.partition.size.limit`); `next_cursor` then says where to go on. No topics: all of them.

use std::collections::BTreeSet;

use kafka_protocol::messages::describe_topic_partitions_response::{
    Cursor, DescribeTopicPartitionsResponsePartition, DescribeTopicPartitionsResponseTopic,
};
use kafka_protocol::messages::{
    BrokerId as WireBrokerId, DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse,
};
use kafka_protocol::protocol::StrBytes;

use super::{Call, metadata::offline_replicas};
use crate::metadata::image::{MetadataImage, PartitionRegistration};
use crate::metadata::topic_name;
use crate::net::Response;
use crate::protocol::{ApiError, ErrorCode};
use crate::server::authorized_operations;
use crate::server::request::{FailableRequest, RequestError};
use crate::server::topics::is_internal;
use crate::types::{BrokerId, PartitionId};

pub fn handle(mut call: Call) -> Result<Response, RequestError> {
    let request: DescribeTopicPartitionsRequest = call.decode()?;
    let response = describe(&call, &request);
    call.answer(&request, response)
}

impl FailableRequest for DescribeTopicPartitionsRequest {
    fn error_response(&self, error: &ApiError, _version: i16) -> DescribeTopicPartitionsResponse {
        let refused = self.topics.iter().map(|topic| {
            DescribeTopicPartitionsResponseTopic::default()
                .with_name(Some(topic.name.clone()))
                .with_error_code(error.code.code())
        });
        DescribeTopicPartitionsResponse::default().with_topics(refused.collect())
    }
}

fn describe(
    call: &Call,
    request: &DescribeTopicPartitionsRequest,
) -> Result<DescribeTopicPartitionsResponse, RequestError> {
    let image = call.broker.image();
    let cursor = request.cursor.as_ref();
    let all = request.topics.is_empty();
    let names: BTreeSet<&str> = if all {
        image.topics.iter().map(|topic| &*topic.name).collect()
    } else {
        request.topics.iter().map(|topic| topic.name.as_str()).collect()
    };
    if let Some(cursor) = cursor
        && ((!all && !names.contains(cursor.topic_name.as_str())) || cursor.partition_index < 0)
    {
        return Err(RequestError::Failed(ApiError::bare(ErrorCode::InvalidRequest)));
    }
    let first = cursor.map_or("", |cursor| cursor.topic_name.as_str());
    // Kafka fails when it looks for what may be done to a topic without a name.
    if names.range(first..).next().is_some_and(|name| name.is_empty()) {
        return Err(RequestError::Failed(ApiError::bare(ErrorCode::UnknownServerError)));
    }
    let limit = request.response_partition_limit.min(call.broker.config.max_request_partition_size_limit).max(1);
    let mut page = Page {
        image: &image,
        listener: &call.connection.listener.name,
        left: limit as usize,
        response: DescribeTopicPartitionsResponse::default(),
    };
    for name in names.range(first..) {
        let start = match cursor {
            Some(cursor) if cursor.topic_name.as_str() == *name => cursor.partition_index as usize,
            _ => 0,
        };
        if !page.describe(name, start, all) {
            break;
        }
    }
    Ok(page.response)
}

struct Page<'a> {
    image: &'a MetadataImage,
    listener: &'a str,
    left: usize,
    response: DescribeTopicPartitionsResponse,
}

impl Page<'_> {
    /// Adds a topic from partition `start` on; returns whether there is room for another.
    fn describe(&mut self, name: &str, start: usize, ignore_unknown: bool) -> bool {
        if self.left == 0 {
            self.set_cursor(name, 0);
            return false;
        }
        let answer = DescribeTopicPartitionsResponseTopic::default()
            .with_name(Some(StrBytes::from_string(name.to_owned()).into()))
            .with_is_internal(is_internal(name))
            .with_topic_authorized_operations(authorized_operations::TOPIC);
        let Some(topic) = self.image.topic(name) else {
            if !ignore_unknown {
                let error = if topic_name::validate(name).is_ok() {
                    ErrorCode::UnknownTopicOrPartition
                } else {
                    ErrorCode::InvalidTopicException
                };
                self.response.topics.push(answer.with_error_code(error.code()));
            }
            return true;
        };
        let end = topic.partitions.len().min(start.saturating_add(self.left));
        let partitions: Vec<_> = (start..end)
            .filter_map(|index| {
                let index = PartitionId(index as i32);
                Some(self.partition(index, topic.partition(index)?))
            })
            .collect();
        self.left -= partitions.len();
        self.response.topics.push(answer.with_topic_id(topic.id.0).with_partitions(partitions));
        if end < topic.partitions.len() {
            self.set_cursor(name, end as i32);
            return false;
        }
        true
    }

    fn partition(
        &self,
        index: PartitionId,
        partition: &PartitionRegistration,
    ) -> DescribeTopicPartitionsResponsePartition {
        let wire = |ids: &[BrokerId]| ids.iter().map(|id| WireBrokerId(id.0)).collect::<Vec<_>>();
        let leader = partition
            .leader
            .and_then(|id| self.image.broker(id))
            .filter(|broker| !broker.fenced && broker.listener(self.listener).is_some());
        DescribeTopicPartitionsResponsePartition::default()
            .with_partition_index(index.0)
            .with_leader_id(WireBrokerId(leader.map_or(-1, |broker| broker.id.0)))
            .with_leader_epoch(partition.leader_epoch.0)
            .with_replica_nodes(wire(&partition.replicas))
            .with_isr_nodes(wire(&partition.isr))
            .with_eligible_leader_replicas(Some(wire(&partition.elr)))
            .with_last_known_elr(Some(wire(&partition.last_known_elr)))
            .with_offline_replicas(offline_replicas(self.image, self.listener, partition))
    }

    fn set_cursor(&mut self, topic: &str, partition_index: i32) {
        let topic_name = StrBytes::from_string(topic.to_owned()).into();
        self.response.next_cursor =
            Some(Cursor::default().with_topic_name(topic_name).with_partition_index(partition_index));
    }
}
