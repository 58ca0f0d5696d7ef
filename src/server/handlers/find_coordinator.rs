//! FindCoordinator (key 10), versions 0 to 6: which broker coordinates a group, a transactional id or a share group.
//!
//! v1+: `key_type` (KIP-98); v4+: several keys at once (KIP-699); v6+: share groups (KIP-932). This broker has no
//! coordinators yet: every valid key is COORDINATOR_NOT_AVAILABLE, which clients retry.

use kafka_protocol::messages::find_coordinator_response::Coordinator;
use kafka_protocol::messages::{BrokerId as WireBrokerId, FindCoordinatorRequest, FindCoordinatorResponse};
use kafka_protocol::protocol::StrBytes;

use super::Call;
use crate::net::Response;
use crate::protocol::ErrorCode;
use crate::server::request::RequestError;

const GROUP: i8 = 0;
const TRANSACTION: i8 = 1;
const SHARE: i8 = 2;

pub fn handle(mut call: Call) -> Result<Response, RequestError> {
    let request: FindCoordinatorRequest = call.decode()?;
    let version = call.header.api_version;
    let Some(error) = coordinator_error(request.key_type, version) else {
        return Err(RequestError::Refused("FindCoordinator with an unknown key type"));
    };
    let response = if version >= 4 {
        let coordinators = request
            .coordinator_keys
            .iter()
            .map(|key| {
                Coordinator::default()
                    .with_key(key.clone())
                    .with_node_id(WireBrokerId(-1))
                    .with_port(-1)
                    .with_error_code(error.code())
            })
            .collect();
        FindCoordinatorResponse::default().with_coordinators(coordinators)
    } else {
        FindCoordinatorResponse::default()
            .with_error_code(error.code())
            .with_error_message(Some(StrBytes::from_static_str(error.message())))
            .with_node_id(WireBrokerId(-1))
            .with_port(-1)
    };
    call.encode(&response)
}

/// Why there is no coordinator; `None` for a type of key that does not exist.
fn coordinator_error(key_type: i8, version: i16) -> Option<ErrorCode> {
    match key_type {
        SHARE if version < 6 => Some(ErrorCode::InvalidRequest),
        GROUP | TRANSACTION | SHARE => Some(ErrorCode::CoordinatorNotAvailable),
        _ => None,
    }
}
