//! SyncGroup (key 14), versions 0 to 5: the leader of a generation gives the assignments, and each member gets its own.
//!
//! v3+: static members (KIP-345); v5+: which protocol the client believes the group to use (KIP-559), in the request,
//! where it must be told, and in the answer.

use kafka_protocol::messages::{SyncGroupRequest, SyncGroupResponse};

use super::Call;
use crate::coordinator::group::DeferredReply;
use crate::net::Response;
use crate::protocol::ErrorCode;
use crate::server::request::RequestError;

pub async fn handle(mut call: Call) -> Result<Response, RequestError> {
    let request: SyncGroupRequest = call.decode()?;
    let response = sync(&call, request).await.unwrap_or_else(|code| {
        // Nothing else is said beside an error.
        SyncGroupResponse::default().with_error_code(code.code())
    });
    call.encode(&response)
}

async fn sync(call: &Call, request: SyncGroupRequest) -> Result<SyncGroupResponse, ErrorCode> {
    if call.header.api_version >= 5 && (request.protocol_type.is_none() || request.protocol_name.is_none()) {
        return Err(ErrorCode::InconsistentGroupProtocol);
    }
    if request.group_id.is_empty() {
        return Err(ErrorCode::InvalidGroupId);
    }
    let group_id = request.group_id.0.clone();
    let synced = call.broker.groups.run_deferred(&group_id, |shard, step, reply_to| {
        shard.sync_group(step, request, reply_to);
    });
    match synced.await {
        Ok(DeferredReply::Sync(response)) => Ok(response),
        Ok(DeferredReply::Join(_)) => unreachable!("a sync is answered as one"),
        Err(error) => Err(error.code()),
    }
}
