//! Offsets of partitions by time.

use std::collections::BTreeMap;

use kafka_protocol::messages::ListOffsetsRequest;
use kafka_protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use kafka_protocol::protocol::{Message as _, Request as _};

use super::cluster::{Client, Target};
use super::error::{Error, Result};
use super::partitions::{Outcomes, at_leaders};
use super::text;
use crate::protocol::ApiKey;
use crate::types::TopicPartition;

/// Times that are none, as the protocol has them.
pub const LATEST: i64 = -1;
pub const EARLIEST: i64 = -2;
pub const MAX_TIMESTAMP: i64 = -3;
pub const EARLIEST_LOCAL: i64 = -4;
pub const LATEST_TIERED: i64 = -5;
pub const EARLIEST_PENDING_UPLOAD: i64 = -6;

/// The version that first knows each of these.
const fn first_version(timestamp: i64) -> i16 {
    match timestamp {
        MAX_TIMESTAMP => 7,
        EARLIEST_LOCAL => 8,
        LATEST_TIERED => 9,
        EARLIEST_PENDING_UPLOAD => 11,
        _ => 1,
    }
}

/// What a leader answers for a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listed {
    /// -1: there is none.
    pub offset: i64,
    pub timestamp: i64,
    pub leader_epoch: i32,
}

/// The offsets of partitions, each at a time of its own. `read_committed`: the latest is the last stable offset.
pub async fn list(client: &Client, wanted: &BTreeMap<TopicPartition, i64>, read_committed: bool) -> Outcomes<Listed> {
    let partitions: Vec<TopicPartition> = wanted.keys().cloned().collect();
    let asked = async |leader: i32, partitions: &[TopicPartition]| {
        ask(client, leader, partitions, wanted, read_committed).await
    };
    at_leaders(client, "listOffsets", &partitions, asked).await
}

/// Asks a leader once.
pub async fn ask(
    client: &Client,
    leader: i32,
    partitions: &[TopicPartition],
    wanted: &BTreeMap<TopicPartition, i64>,
    read_committed: bool,
) -> Result<Vec<(TopicPartition, Result<Listed>)>> {
    let connection = client.connection(&Target::Node(leader)).await?;
    let (_, highest) =
        connection.versions.of(ListOffsetsRequest::KEY).ok_or_else(|| Error::unsupported_api(ApiKey::ListOffsets))?;
    // v11 only lets clients ask for one more kind of time.
    let version = highest.min(ListOffsetsRequest::VERSIONS.max.max(11));
    let mut outcomes = Vec::new();
    let mut topics: BTreeMap<&str, Vec<ListOffsetsPartition>> = BTreeMap::new();
    for partition in partitions {
        let timestamp = wanted[partition];
        if version < first_version(timestamp) {
            let refused = Error::unsupported_version(format!(
                "The broker {leader} does not know the time {timestamp} of ListOffsets"
            ));
            outcomes.push((partition.clone(), Err(refused)));
            continue;
        }
        topics.entry(&partition.topic).or_default().push(
            ListOffsetsPartition::default().with_partition_index(partition.partition.0).with_timestamp(timestamp),
        );
    }
    if topics.is_empty() {
        return Ok(outcomes);
    }
    let topics = topics.into_iter().map(|(topic, partitions)| {
        ListOffsetsTopic::default().with_name(text(topic).into()).with_partitions(partitions)
    });
    let mut request = ListOffsetsRequest::default().with_replica_id((-1).into()).with_topics(topics.collect());
    if version >= 2 {
        request.isolation_level = i8::from(read_committed);
    }
    if version >= 10 {
        request.timeout_ms = client.config.request_timeout_ms();
    }
    let answer = async { connection.send(&request, version).await?.receive().await };
    let response = client.in_time(&connection, answer).await?;
    for topic in response.topics {
        for partition in topic.partitions {
            let listed = Error::check(partition.error_code, None::<String>).map(|()| Listed {
                offset: partition.offset,
                timestamp: partition.timestamp,
                leader_epoch: partition.leader_epoch,
            });
            outcomes.push((TopicPartition::new(topic.name.as_str(), partition.partition_index), listed));
        }
    }
    Ok(outcomes)
}
