//! ListGroups (key 16), versions 0 to 5: the groups that this broker coordinates.
//!
//! v4+: states, and a filter by them (KIP-518); v5+: types, and a filter by them (KIP-848). The filters do not mind the
//! case; nothing is of a state or type that is not known.

use kafka_protocol::messages::list_groups_response::ListedGroup;
use kafka_protocol::messages::{ListGroupsRequest, ListGroupsResponse};
use kafka_protocol::protocol::StrBytes;

use super::Call;
use crate::coordinator::group::admin::ListFilter;
use crate::coordinator::shard::CoordinatorError;
use crate::net::Response;
use crate::server::request::RequestError;

pub async fn handle(mut call: Call) -> Result<Response, RequestError> {
    let request: ListGroupsRequest = call.decode()?;
    let states = request.states_filter.iter().map(|state| &**state);
    let types = request.types_filter.iter().map(|group_type| &**group_type);
    let filter = ListFilter::new(states, types);
    let mut groups = Vec::new();
    for listed in call.broker.groups.run_all(|shard, _| shard.list_groups(&filter)).await {
        match listed {
            Ok(listed) => groups.extend(listed),
            // Somebody else's by now.
            Err(CoordinatorError::NotCoordinator) => {}
            Err(error) => return call.encode(&ListGroupsResponse::default().with_error_code(error.code().code())),
        }
    }
    let groups = groups.into_iter().map(|group| {
        ListedGroup::default()
            .with_group_id(StrBytes::from_string(group.group_id).into())
            .with_protocol_type(StrBytes::from_string(group.protocol_type))
            .with_group_state(StrBytes::from_static_str(group.state))
            .with_group_type(StrBytes::from_static_str(group.group_type.name()))
    });
    call.encode(&ListGroupsResponse::default().with_groups(groups.collect()))
}
