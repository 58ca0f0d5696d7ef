//! AddOffsetsToTxn (key 25), versions 0 to 4: the offsets of a group become part of a transaction, that is the group's
//! partition of `__consumer_offsets` (KIP-98). v2+: PRODUCER_FENCED (KIP-588).

use std::collections::BTreeSet;
use std::sync::Arc;

use kafka_protocol::messages::{AddOffsetsToTxnRequest, AddOffsetsToTxnResponse};

use super::Call;
use crate::coordinator::group::coordinator::OFFSETS_TOPIC;
use crate::coordinator::transaction::metadata::TransactionVersion;
use crate::net::Response;
use crate::protocol::ErrorCode;
use crate::server::request::RequestError;
use crate::types::{ProducerEpoch, ProducerId, TopicPartition};

pub async fn handle(mut call: Call) -> Result<Response, RequestError> {
    let request: AddOffsetsToTxnRequest = call.decode()?;
    let version = call.header.api_version;
    let added = if request.transactional_id.is_empty() {
        Err(ErrorCode::InvalidRequest)
    } else {
        let partition = TopicPartition::new(OFFSETS_TOPIC, call.broker.groups.partition_of(&request.group_id).0);
        let transactional_id = Arc::from(request.transactional_id.as_str());
        let added = call.broker.transactions.add_partitions(
            &transactional_id,
            ProducerId(request.producer_id.0),
            ProducerEpoch(request.producer_epoch),
            BTreeSet::from([partition]),
            // Clients with an epoch for each transaction do not send this.
            TransactionVersion::V0,
        );
        added.await
    };
    let error = added.err().unwrap_or(ErrorCode::None);
    let error = super::transaction_errors::before_fencing(error, version < 2);
    call.encode(&AddOffsetsToTxnResponse::default().with_error_code(error.code()))
}
