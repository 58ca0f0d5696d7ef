//! DescribeGroups (key 15), versions 0 to 6: classic groups and their members.
//!
//! A group that does not exist, or is of the consumer protocol, is `Dead`. v3+: authorized operations (KIP-430); v4+: static
//! members (KIP-345); v6+: a group that is not there is GROUP_ID_NOT_FOUND (KIP-1043).

use kafka_protocol::messages::describe_groups_response::DescribedGroup;
use kafka_protocol::messages::{DescribeGroupsRequest, DescribeGroupsResponse};
use kafka_protocol::protocol::Encodable;

use super::Call;
use super::answer_size::AnswerSize;
use crate::net::Response;
use crate::server::authorized_operations;
use crate::server::request::RequestError;

pub async fn handle(mut call: Call) -> Result<Response, RequestError> {
    let request: DescribeGroupsRequest = call.decode()?;
    let version = call.header.api_version;
    let mut groups = Vec::with_capacity(request.groups.len());
    let mut size = AnswerSize::default();
    for group_id in request.groups {
        let described = call.broker.groups.run(&group_id, |shard, _| shard.describe_group(&group_id, version)).await;
        let mut described = described.unwrap_or_else(|error| {
            DescribedGroup::default().with_group_id(group_id.clone()).with_error_code(error.code().code())
        });
        // v3+: KIP-430.
        if version >= 3 && request.include_authorized_operations && described.error_code == 0 {
            described.authorized_operations = authorized_operations::GROUP;
        }
        size.grow(described.compute_size(version).unwrap_or(usize::MAX)).await?;
        groups.push(described);
    }
    call.encode(&DescribeGroupsResponse::default().with_groups(groups))
}
