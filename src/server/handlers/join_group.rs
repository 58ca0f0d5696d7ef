//! JoinGroup (key 11), versions 0 to 9: a member comes into a classic group, and waits for the others.
//!
//! v1+: a timeout for rebalances; v4+: a new member is given its id first, and joins with it (KIP-394); v5+: static
//! members (KIP-345); v7+: the protocol type in the answer (KIP-559); v8+: why the client joins (KIP-800); v9+: a static
//! leader may be told not to assign anew (KIP-814).

use kafka_protocol::messages::{JoinGroupRequest, JoinGroupResponse};
use kafka_protocol::protocol::StrBytes;

use super::Call;
use crate::coordinator::group::DeferredReply;
use crate::net::Response;
use crate::protocol::ErrorCode;
use crate::server::request::RequestError;

pub async fn handle(mut call: Call) -> Result<Response, RequestError> {
    let request: JoinGroupRequest = call.decode()?;
    let mut response = join(&call, request).await;
    // Below v7 there is no null, and from then on no empty name.
    let name = response.protocol_name.take().filter(|name| !name.is_empty());
    response.protocol_name = if call.header.api_version < 7 { Some(name.unwrap_or_default()) } else { name };
    call.encode(&response)
}

async fn join(call: &Call, request: JoinGroupRequest) -> JoinGroupResponse {
    let group_id = request.group_id.0.clone();
    if let Err(code) = check(call, &request) {
        return failed(code, request.member_id);
    }
    let context = call.request_context();
    let joined = call.broker.groups.run_deferred(&group_id, |shard, step, reply_to| {
        shard.join_group(step, &context, request, reply_to);
    });
    match joined.await {
        Ok(DeferredReply::Join(response)) => response,
        Ok(DeferredReply::Sync(_)) => unreachable!("a join is answered as one"),
        Err(error) => failed(error.code(), StrBytes::default()),
    }
}

fn check(call: &Call, request: &JoinGroupRequest) -> Result<(), ErrorCode> {
    if request.group_id.is_empty() {
        return Err(ErrorCode::InvalidGroupId);
    }
    let settings = call.broker.settings.load();
    let config = settings.current();
    let allowed = config.group_min_session_timeout_ms..=config.group_max_session_timeout_ms;
    match allowed.contains(&request.session_timeout_ms) {
        true => Ok(()),
        false => Err(ErrorCode::InvalidSessionTimeout),
    }
}

fn failed(code: ErrorCode, member_id: StrBytes) -> JoinGroupResponse {
    JoinGroupResponse::default().with_error_code(code.code()).with_member_id(member_id)
}
