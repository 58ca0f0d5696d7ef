//! Heartbeat (key 12), versions 0 to 4: a member of a classic group is still there, and learns whether it must join
//! again.
//!
//! v3+: static members (KIP-345). While the group is being read from the log every heartbeat is good: the sessions begin
//! anew after it.

use kafka_protocol::messages::HeartbeatResponse;

use super::Call;
use crate::coordinator::shard::CoordinatorError;
use crate::net::Response;
use crate::protocol::{ErrorCode, heartbeat};
use crate::server::request::RequestError;

pub async fn handle(mut call: Call) -> Result<Response, RequestError> {
    let request = call.decode_by_hand(heartbeat::decode)?;
    let failed = |code: ErrorCode| HeartbeatResponse::default().with_error_code(code.code());
    if request.group_id.is_empty() {
        return Ok(heartbeat::encode_response(&call.header, &failed(ErrorCode::InvalidGroupId)).into());
    }
    let beat = call.broker.groups.run(&request.group_id, |shard, step| shard.heartbeat(step, &request)).await;
    let response = match beat {
        Ok(response) => response,
        Err(CoordinatorError::LoadInProgress) => HeartbeatResponse::default(),
        Err(error) => failed(error.code()),
    };
    Ok(heartbeat::encode_response(&call.header, &response).into())
}
