//! DescribeTransactions (key 65), version 0: the state of transactional ids (KIP-664).

use indexmap::IndexMap;
use kafka_protocol::messages::describe_transactions_response::{TopicData, TransactionState};
use kafka_protocol::messages::{
    DescribeTransactionsRequest, DescribeTransactionsResponse, ProducerId as WireProducerId,
};
use kafka_protocol::protocol::{Encodable, StrBytes};

use super::Call;
use super::answer_size::AnswerSize;
use crate::coordinator::transaction::metadata::TransactionMetadata;
use crate::net::Response;
use crate::protocol::ErrorCode;
use crate::server::request::RequestError;

pub async fn handle(mut call: Call) -> Result<Response, RequestError> {
    let request: DescribeTransactionsRequest = call.decode()?;
    let mut states = Vec::with_capacity(request.transactional_ids.len());
    let mut size = AnswerSize::default();
    for transactional_id in request.transactional_ids {
        let state = TransactionState::default().with_transactional_id(transactional_id.clone());
        let found = if transactional_id.is_empty() {
            Err(ErrorCode::InvalidRequest)
        } else {
            let look = |shard: &mut crate::coordinator::transaction::TransactionShard,
                        _: &mut crate::coordinator::transaction::Step<'_>| {
                shard.transaction(&transactional_id).cloned()
            };
            match call.broker.transactions.run(&transactional_id, look).await {
                Ok(found) => found.ok_or(ErrorCode::TransactionalIdNotFound),
                Err(error) => Err(error.code()),
            }
        };
        let state = match found {
            Ok(transaction) => describe(state, &transaction),
            Err(error) => state.with_error_code(error.code()),
        };
        size.grow(state.compute_size(call.header.api_version).unwrap_or(usize::MAX)).await?;
        states.push(state);
    }
    call.encode(&DescribeTransactionsResponse::default().with_transaction_states(states))
}

fn describe(state: TransactionState, transaction: &TransactionMetadata) -> TransactionState {
    let mut topics: IndexMap<&str, Vec<i32>> = IndexMap::new();
    for partition in &transaction.partitions {
        topics.entry(&*partition.topic).or_default().push(partition.partition.0);
    }
    let topics = topics.into_iter().map(|(name, partitions)| {
        TopicData::default().with_topic(StrBytes::from_string(name.to_owned()).into()).with_partitions(partitions)
    });
    state
        .with_transaction_state(StrBytes::from_static_str(transaction.state.name()))
        .with_transaction_timeout_ms(transaction.timeout_ms)
        .with_transaction_start_time_ms(transaction.start_timestamp_ms)
        .with_producer_id(WireProducerId(transaction.producer_id.0))
        .with_producer_epoch(transaction.producer_epoch.0)
        .with_topics(topics.collect())
}
