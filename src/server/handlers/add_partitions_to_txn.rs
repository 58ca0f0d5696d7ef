//! AddPartitionsToTxn (key 24), versions 0 to 5: partitions become part of a transaction (KIP-98).
//!
//! Up to v3 a client asks for one transaction; from v4 on a broker does, for several, and may only verify (KIP-890).
//! v2+: PRODUCER_FENCED (KIP-588). A transaction of which one partition does not exist is not changed at all.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use indexmap::IndexMap;
use kafka_protocol::messages::add_partitions_to_txn_request::{AddPartitionsToTxnTopic, AddPartitionsToTxnTransaction};
use kafka_protocol::messages::add_partitions_to_txn_response::{
    AddPartitionsToTxnPartitionResult, AddPartitionsToTxnResult, AddPartitionsToTxnTopicResult,
};
use kafka_protocol::messages::{AddPartitionsToTxnRequest, AddPartitionsToTxnResponse, TopicName as WireTopicName};
use kafka_protocol::protocol::StrBytes;

use super::Call;
use crate::coordinator::transaction::metadata::TransactionVersion;
use crate::net::Response;
use crate::protocol::ErrorCode;
use crate::server::request::RequestError;
use crate::types::{PartitionId, ProducerEpoch, ProducerId, TopicPartition};

pub async fn handle(mut call: Call) -> Result<Response, RequestError> {
    let request: AddPartitionsToTxnRequest = call.decode()?;
    let version = call.header.api_version;
    let transactions = if version < 4 {
        vec![
            AddPartitionsToTxnTransaction::default()
                .with_transactional_id(request.v3_and_below_transactional_id)
                .with_producer_id(request.v3_and_below_producer_id)
                .with_producer_epoch(request.v3_and_below_producer_epoch)
                .with_topics(request.v3_and_below_topics),
        ]
    } else {
        request.transactions
    };
    let mut results = Vec::with_capacity(transactions.len());
    for transaction in transactions {
        let errors = one(&call, &transaction, version).await;
        results.push((transaction, errors));
    }
    let response = AddPartitionsToTxnResponse::default();
    let response = if version < 4 {
        let topics =
            results.into_iter().next().map(|(transaction, errors)| topic_results(&transaction.topics, &errors));
        response.with_results_by_topic_v3_and_below(topics.unwrap_or_default())
    } else {
        let results = results.into_iter().map(|(transaction, errors)| {
            AddPartitionsToTxnResult::default()
                .with_topic_results(topic_results(&transaction.topics, &errors))
                .with_transactional_id(transaction.transactional_id)
        });
        response.with_results_by_transaction(results.collect())
    };
    call.encode(&response)
}

/// What becomes of each partition of a transaction.
async fn one(
    call: &Call,
    transaction: &AddPartitionsToTxnTransaction,
    version: i16,
) -> BTreeMap<TopicPartition, ErrorCode> {
    let partitions: BTreeSet<TopicPartition> = transaction
        .topics
        .iter()
        .flat_map(|topic| topic.partitions.iter().map(|id| TopicPartition::new(topic.name.as_str(), *id)))
        .collect();
    let image = call.broker.image();
    let exists =
        |partition: &TopicPartition| image.partition(&partition.topic, PartitionId(partition.partition.0)).is_some();
    if !partitions.iter().all(exists) {
        let code = |partition: &TopicPartition| {
            if exists(partition) { ErrorCode::OperationNotAttempted } else { ErrorCode::UnknownTopicOrPartition }
        };
        return partitions.iter().map(|partition| (partition.clone(), code(partition))).collect();
    }
    let all = |error: ErrorCode| -> BTreeMap<_, _> {
        let error = super::transaction_errors::before_fencing(error, version < 2);
        partitions.iter().map(|partition| (partition.clone(), error)).collect()
    };
    if transaction.transactional_id.is_empty() {
        return all(ErrorCode::InvalidRequest);
    }
    let transactional_id: Arc<str> = transaction.transactional_id.as_str().into();
    let producer_id = ProducerId(transaction.producer_id.0);
    let producer_epoch = ProducerEpoch(transaction.producer_epoch);
    let coordinator = &call.broker.transactions;
    if transaction.verify_only {
        return match coordinator.verify_partitions(&transactional_id, producer_id, producer_epoch, &partitions).await {
            Ok(errors) => errors,
            Err(error) => all(error),
        };
    }
    let client_version = if version > 3 { TransactionVersion::V2 } else { TransactionVersion::V0 };
    let added =
        coordinator.add_partitions(&transactional_id, producer_id, producer_epoch, partitions.clone(), client_version);
    all(added.await.err().unwrap_or(ErrorCode::None))
}

fn topic_results(
    topics: &[AddPartitionsToTxnTopic],
    errors: &BTreeMap<TopicPartition, ErrorCode>,
) -> Vec<AddPartitionsToTxnTopicResult> {
    let mut by_topic: IndexMap<&str, Vec<AddPartitionsToTxnPartitionResult>> =
        topics.iter().map(|topic| (topic.name.as_str(), Vec::new())).collect();
    for (partition, error) in errors {
        let result = AddPartitionsToTxnPartitionResult::default()
            .with_partition_index(partition.partition.0)
            .with_partition_error_code(error.code());
        by_topic.entry(&*partition.topic).or_default().push(result);
    }
    by_topic
        .into_iter()
        .filter(|(_, partitions)| !partitions.is_empty())
        .map(|(name, partitions)| {
            AddPartitionsToTxnTopicResult::default()
                .with_name(WireTopicName(StrBytes::from_string(name.to_owned())))
                .with_results_by_partition(partitions)
        })
        .collect()
}
