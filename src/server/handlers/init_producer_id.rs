//! InitProducerId (key 22), versions 0 to 5: an id and epoch for an idempotent or transactional producer (KIP-98).
//!
//! v3+: the id and epoch the producer has, to be bumped (KIP-360); both or neither. v4+: PRODUCER_FENCED (KIP-588). A
//! producer without a transactional id gets a new id at epoch 0 whatever it had. (v6, two-phase commit of KIP-939, is
//! not stable in Kafka 4.3, which does not advertise it.)

use std::sync::Arc;

use kafka_protocol::messages::{InitProducerIdRequest, InitProducerIdResponse, ProducerId as WireProducerId};
use tracing::warn;

use super::Call;
use crate::net::Response;
use crate::protocol::ErrorCode;
use crate::server::request::RequestError;
use crate::types::{ProducerEpoch, ProducerId};

pub async fn handle(mut call: Call) -> Result<Response, RequestError> {
    let request: InitProducerIdRequest = call.decode()?;
    let expected = match (ProducerId(request.producer_id.0), ProducerEpoch(request.producer_epoch)) {
        (ProducerId::NONE, ProducerEpoch::NONE) => Ok(None),
        (ProducerId::NONE, _) | (_, ProducerEpoch::NONE) => Err(ErrorCode::InvalidRequest),
        expected => Ok(Some(expected)),
    };
    let initialized = match (&request.transactional_id, expected) {
        (_, Err(error)) => Err(error),
        (None, Ok(_)) => match call.broker.transactions.new_producer_id().await {
            Ok(producer_id) => Ok((producer_id, ProducerEpoch(0))),
            Err(error) => {
                warn!(%error, "no producer id");
                Err(ErrorCode::CoordinatorLoadInProgress)
            }
        },
        (Some(transactional_id), Ok(_)) if transactional_id.is_empty() => Err(ErrorCode::InvalidRequest),
        (Some(_), Ok(_)) if !call.is_timeout_valid(request.transaction_timeout_ms) => {
            Err(ErrorCode::InvalidTransactionTimeout)
        }
        (Some(transactional_id), Ok(expected)) => {
            let transactional_id: Arc<str> = transactional_id.as_str().into();
            let timeout_ms = request.transaction_timeout_ms;
            call.broker.transactions.init_producer_id(&transactional_id, timeout_ms, expected).await
        }
    };
    let (error, producer_id, producer_epoch) = match initialized {
        Ok((producer_id, producer_epoch)) => (ErrorCode::None, producer_id, producer_epoch),
        Err(error) => {
            let error = super::transaction_errors::before_fencing(error, call.header.api_version < 4);
            (error, ProducerId::NONE, ProducerEpoch::NONE)
        }
    };
    call.encode(
        &InitProducerIdResponse::default()
            .with_error_code(error.code())
            .with_producer_id(WireProducerId(producer_id.0))
            .with_producer_epoch(producer_epoch.0),
    )
}

impl Call {
    /// Whether a transaction may be open for that long.
    fn is_timeout_valid(&self, timeout_ms: i32) -> bool {
        (1..=self.broker.settings.load().current().transaction_max_timeout_ms).contains(&timeout_ms)
    }
}
