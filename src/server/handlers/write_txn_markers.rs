//! WriteTxnMarkers (key 27), versions 1 and 2: a transaction coordinator, or an administrator, ends transactions in the
//! partitions that are led here (KIP-98, KIP-664).
//!
//! v2+: the protocol of the transaction (KIP-1228).

use futures_util::future::join_all;
use indexmap::IndexMap;
use kafka_protocol::messages::write_txn_markers_response::{
    WritableTxnMarkerPartitionResult, WritableTxnMarkerResult, WritableTxnMarkerTopicResult,
};
use kafka_protocol::messages::{ProducerId as WireProducerId, WriteTxnMarkersResponse};

use super::Call;
use crate::net::Response;
use crate::protocol::{ErrorCode, write_txn_markers};
use crate::replica::{TransactionMarker, TransactionVersion};
use crate::server::request::RequestError;
use crate::types::TopicPartition;

pub async fn handle(mut call: Call) -> Result<Response, RequestError> {
    let markers = call.decode_by_hand(write_txn_markers::decode)?;
    // A producer that is named twice has one answer.
    let mut results: IndexMap<i64, IndexMap<TopicPartition, ErrorCode>> = IndexMap::new();
    for marker in markers {
        let end = TransactionMarker {
            producer_id: marker.producer_id,
            producer_epoch: marker.producer_epoch,
            committed: marker.committed,
            coordinator_epoch: marker.coordinator_epoch,
            transaction_version: TransactionVersion(i16::from(marker.transaction_version)),
        };
        let partitions: Vec<TopicPartition> = marker
            .topics
            .iter()
            .flat_map(|(name, ids)| ids.iter().map(|id| TopicPartition::new(name.as_str(), id.0)))
            .collect();
        let written =
            join_all(partitions.iter().map(|partition| call.broker.transactions.write_marker(partition, &end))).await;
        let of_producer = results.entry(marker.producer_id.0).or_default();
        for (partition, outcome) in partitions.into_iter().zip(written) {
            of_producer.insert(partition, outcome.err().unwrap_or(ErrorCode::None));
        }
    }
    let markers = results.into_iter().map(|(producer_id, partitions)| {
        let mut topics: IndexMap<String, Vec<WritableTxnMarkerPartitionResult>> = IndexMap::new();
        for (partition, error) in partitions {
            topics.entry(partition.topic.to_string()).or_default().push(
                WritableTxnMarkerPartitionResult::default()
                    .with_partition_index(partition.partition.0)
                    .with_error_code(error.code()),
            );
        }
        let topics = topics.into_iter().map(|(name, partitions)| {
            WritableTxnMarkerTopicResult::default()
                .with_name(kafka_protocol::protocol::StrBytes::from_string(name).into())
                .with_partitions(partitions)
        });
        WritableTxnMarkerResult::default().with_producer_id(WireProducerId(producer_id)).with_topics(topics.collect())
    });
    call.encode(&WriteTxnMarkersResponse::default().with_markers(markers.collect()))
}
