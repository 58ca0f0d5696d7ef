//! InitProducerId (key 22), versions 0 to 5: an id for an idempotent producer (KIP-98).
//!
//! v3+: the id and epoch the producer has, to be bumped (KIP-360); both or neither. A producer without a transactional
//! id gets a new id at epoch 0 whatever it had. With one, the transaction coordinator would decide; there is none yet,
//! and the answer is COORDINATOR_NOT_AVAILABLE, which clients retry.

use kafka_protocol::messages::{InitProducerIdRequest, InitProducerIdResponse, ProducerId as WireProducerId};
use tracing::warn;

use super::Call;
use crate::net::Response;
use crate::protocol::ErrorCode;
use crate::server::request::RequestError;

pub async fn handle(mut call: Call) -> Result<Response, RequestError> {
    let request: InitProducerIdRequest = call.decode()?;
    let refused = InitProducerIdResponse::default().with_producer_id(WireProducerId(-1)).with_producer_epoch(-1);
    if (request.producer_id.0 == -1) != (request.producer_epoch == -1) {
        return call.encode(&refused.with_error_code(ErrorCode::InvalidRequest.code()));
    }
    match &request.transactional_id {
        Some(id) if id.is_empty() => {
            return call.encode(&refused.with_error_code(ErrorCode::InvalidRequest.code()));
        }
        Some(_) => {
            return call.encode(&refused.with_error_code(ErrorCode::CoordinatorNotAvailable.code()));
        }
        None => {}
    }
    match call.broker.transactions.new_producer_id().await {
        Ok(id) => call
            .encode(&InitProducerIdResponse::default().with_producer_id(WireProducerId(id.0)).with_producer_epoch(0)),
        Err(error) => {
            warn!(%error, "no producer id");
            call.encode(&refused.with_error_code(ErrorCode::CoordinatorLoadInProgress.code()))
        }
    }
}
