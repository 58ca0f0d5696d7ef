//! ListTransactions (key 66), versions 0 to 2: the transactions that this broker coordinates (KIP-664).
//!
//! v1+: how long they are open (KIP-994); v2+: a regular expression for the whole transactional id (KIP-1152).

use std::collections::BTreeSet;

use indexmap::IndexSet;
use kafka_protocol::messages::list_transactions_response::TransactionState as WireState;
use kafka_protocol::messages::{
    ListTransactionsRequest, ListTransactionsResponse, ProducerId as WireProducerId, TransactionalId,
};
use kafka_protocol::protocol::StrBytes;
use regex::RegexBuilder;

use super::Call;
use crate::coordinator::shard::CoordinatorError;
use crate::coordinator::transaction::TransactionFilter;
use crate::coordinator::transaction::state::TransactionState;
use crate::net::Response;
use crate::protocol::ErrorCode;
use crate::server::request::RequestError;
use crate::types::ProducerId;

/// Memory that a compiled pattern may take, in bytes.
const PATTERN_SIZE_LIMIT: usize = 1 << 20;

pub async fn handle(mut call: Call) -> Result<Response, RequestError> {
    let request: ListTransactionsRequest = call.decode()?;
    let response = ListTransactionsResponse::default();
    let pattern = request.transactional_id_pattern.as_deref().filter(|pattern| !pattern.is_empty());
    let compile = |pattern: &str| RegexBuilder::new(pattern).size_limit(PATTERN_SIZE_LIMIT).build();
    // First as it is: `a)|(b` is no expression, and would be one between the brackets.
    let pattern = pattern.map(|pattern| compile(pattern).and_then(|_| compile(&format!("^(?:{pattern})$"))));
    let Ok(pattern) = pattern.transpose() else {
        return call.encode(&response.with_error_code(ErrorCode::InvalidRegularExpression.code()));
    };
    let (mut states, mut unknown) = (BTreeSet::new(), Vec::new());
    let distinct: IndexSet<&StrBytes> = request.state_filters.iter().collect();
    for name in distinct {
        match TransactionState::from_name(name) {
            Some(state) => {
                states.insert(state);
            }
            None => unknown.push(name.clone()),
        }
    }
    let filter = TransactionFilter {
        producer_ids: request.producer_id_filters.iter().map(|id| ProducerId(id.0)).collect(),
        states: (!request.state_filters.is_empty()).then_some(states),
        duration_ms: request.duration_filter,
        pattern,
    };
    let mut listed = Vec::new();
    for of_shard in call.broker.transactions.run_all(|shard, step| shard.list(&filter, step.now_ms)).await {
        match of_shard {
            Ok(transactions) => listed.extend(transactions),
            Err(CoordinatorError::NotCoordinator) => {}
            Err(error) => return call.encode(&response.with_error_code(error.code().code())),
        }
    }
    let listed = listed.into_iter().map(|(transactional_id, producer_id, state)| {
        WireState::default()
            .with_transactional_id(TransactionalId(StrBytes::from_string(transactional_id.to_string())))
            .with_producer_id(WireProducerId(producer_id.0))
            .with_transaction_state(StrBytes::from_static_str(state.name()))
    });
    call.encode(&response.with_unknown_state_filters(unknown).with_transaction_states(listed.collect()))
}
