//! EndTxn (key 26), versions 0 to 5: a producer commits or aborts its transaction (KIP-98).
//!
//! v2+: PRODUCER_FENCED (KIP-588); v5+: every transaction has an epoch of its own, the next one is in the answer (KIP-890).
//! The answer comes when the decision is committed, and usually not before its markers are written.

use kafka_protocol::messages::{EndTxnRequest, EndTxnResponse, ProducerId as WireProducerId};

use super::Call;
use crate::coordinator::transaction::EndTransaction;
use crate::coordinator::transaction::metadata::TransactionVersion;
use crate::net::Response;
use crate::protocol::ErrorCode;
use crate::server::request::RequestError;
use crate::types::{ProducerEpoch, ProducerId};

pub async fn handle(mut call: Call) -> Result<Response, RequestError> {
    let request: EndTxnRequest = call.decode()?;
    let version = call.header.api_version;
    // v5+: KIP-890.
    let client_version = if version > 4 { TransactionVersion::V2 } else { TransactionVersion::V0 };
    let ended = if request.transactional_id.is_empty() {
        Err(ErrorCode::InvalidRequest)
    } else {
        let end = EndTransaction {
            transactional_id: request.transactional_id.as_str().into(),
            producer_id: ProducerId(request.producer_id.0),
            producer_epoch: ProducerEpoch(request.producer_epoch),
            committed: request.committed,
            client_version,
            new_producer_id: None,
        };
        call.broker.transactions.end_transaction(end).await
    };
    let (error, producer_id, producer_epoch) = match ended {
        Ok((producer_id, producer_epoch)) => (ErrorCode::None, producer_id, producer_epoch),
        Err(error) => {
            (super::transaction_errors::before_fencing(error, version < 2), ProducerId::NONE, ProducerEpoch::NONE)
        }
    };
    let mut response = EndTxnResponse::default().with_error_code(error.code());
    if version > 4 {
        response.producer_id = WireProducerId(producer_id.0);
        response.producer_epoch = producer_epoch.0;
    }
    call.encode(&response)
}
