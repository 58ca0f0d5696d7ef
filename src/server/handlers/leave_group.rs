//! LeaveGroup (key 13), versions 0 to 5: members leave a classic group, or an admin client puts them out.
//!
//! v3+: several members at once, static ones by their instance id (KIP-345); v5+: why (KIP-800). Before, the one member's
//! error is that of the request.

use kafka_protocol::messages::leave_group_request::MemberIdentity;
use kafka_protocol::messages::{LeaveGroupRequest, LeaveGroupResponse};

use super::Call;
use crate::net::Response;
use crate::protocol::ErrorCode;
use crate::server::request::RequestError;

pub async fn handle(mut call: Call) -> Result<Response, RequestError> {
    let mut request: LeaveGroupRequest = call.decode()?;
    let of_one = call.header.api_version < 3;
    if of_one {
        request.members = vec![MemberIdentity::default().with_member_id(std::mem::take(&mut request.member_id))];
    }
    let mut response = leave(&call, request).await.unwrap_or_else(|code| {
        // Nothing is said of the members beside an error of the request.
        LeaveGroupResponse::default().with_error_code(code.code())
    });
    if of_one && let Some(member) = std::mem::take(&mut response.members).first() {
        response.error_code = member.error_code;
    }
    call.encode(&response)
}

async fn leave(call: &Call, request: LeaveGroupRequest) -> Result<LeaveGroupResponse, ErrorCode> {
    if request.group_id.is_empty() {
        return Err(ErrorCode::InvalidGroupId);
    }
    let group_id = request.group_id.0.clone();
    let left = call.broker.groups.run(&group_id, |shard, step| shard.leave_group(step, request));
    left.await.map_err(|error| error.code())
}
