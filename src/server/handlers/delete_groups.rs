//! DeleteGroups (key 42), versions 0 to 2: removes groups without members, and what they have committed (KIP-229).

use indexmap::IndexSet;
use kafka_protocol::messages::delete_groups_response::DeletableGroupResult;
use kafka_protocol::messages::{DeleteGroupsRequest, DeleteGroupsResponse};

use super::Call;
use crate::net::Response;
use crate::protocol::ErrorCode;
use crate::server::request::RequestError;

pub async fn handle(mut call: Call) -> Result<Response, RequestError> {
    let request: DeleteGroupsRequest = call.decode()?;
    let group_ids: IndexSet<_> = request.groups_names.into_iter().collect();
    let mut results = Vec::with_capacity(group_ids.len());
    for group_id in group_ids {
        let deleted = call.broker.groups.run(&group_id, |shard, step| shard.delete_group(&group_id, step)).await;
        let code = match deleted {
            Ok(Ok(())) => ErrorCode::None,
            Ok(Err(error)) => {
                call.note_refusal(&error);
                error.code
            }
            Err(error) => error.code(),
        };
        results.push(DeletableGroupResult::default().with_group_id(group_id).with_error_code(code.code()));
    }
    call.encode(&DeleteGroupsResponse::default().with_results(results))
}
