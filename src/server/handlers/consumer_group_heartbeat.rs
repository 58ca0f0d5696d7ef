//! ConsumerGroupHeartbeat (key 68), versions 0 and 1: a member of a consumer group joins, stays or leaves, and learns
//! what it is to consume (KIP-848).
//!
//! v1+: regular expressions, and members make their own ids (KIP-1082).

use kafka_protocol::messages::{ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse};

use super::Call;
use crate::coordinator::group::consumer::{self, validate_consumer_group_heartbeat};
use crate::net::Response;
use crate::protocol::{ApiError, ErrorCode, consumer_group_heartbeat};
use crate::server::request::RequestError;

pub async fn handle(mut call: Call) -> Result<Response, RequestError> {
    let request = call.decode_by_hand(consumer_group_heartbeat::decode)?;
    let response = heartbeat(&call, &request).await.unwrap_or_else(|error| {
        call.note_refusal(&error);
        ConsumerGroupHeartbeatResponse::default()
            .with_error_code(error.code.code())
            .with_error_message(error.wire_message())
    });
    Ok(consumer_group_heartbeat::encode_response(&call.header, &response)?.into())
}

async fn heartbeat(
    call: &Call,
    request: &ConsumerGroupHeartbeatRequest,
) -> Result<ConsumerGroupHeartbeatResponse, ApiError> {
    let settings = call.broker.settings.load();
    let config = settings.current();
    if !consumer::is_protocol_enabled(config, &call.broker.image()) {
        return Err(ApiError::bare(ErrorCode::UnsupportedVersion));
    }
    validate_consumer_group_heartbeat(request, call.header.api_version, config)?;
    let context = call.request_context();
    let answer = call
        .broker
        .groups
        .run(&request.group_id, |shard, step| shard.consumer_group_heartbeat(&context, request, step));
    answer.await.unwrap_or_else(|error| Err(ApiError::bare(error.code())))
}
