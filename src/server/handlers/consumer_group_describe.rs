//! ConsumerGroupDescribe (key 69), versions 0 and 1: consumer groups, their members and assignments (KIP-848).
//!
//! v1+: by which protocol a member came (KIP-1099).

use kafka_protocol::messages::consumer_group_describe_response::DescribedGroup;
use kafka_protocol::messages::{ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse};
use kafka_protocol::protocol::Encodable;

use super::Call;
use super::answer_size::AnswerSize;
use crate::coordinator::group::consumer;
use crate::net::Response;
use crate::protocol::{ApiError, ErrorCode};
use crate::server::authorized_operations;
use crate::server::request::RequestError;

pub async fn handle(mut call: Call) -> Result<Response, RequestError> {
    let request: ConsumerGroupDescribeRequest = call.decode()?;
    let enabled = consumer::is_protocol_enabled(call.broker.settings.load().current(), &call.broker.image());
    // Of an id without a group Kafka speaks first.
    let (nameless, named): (Vec<_>, Vec<_>) = request.group_ids.into_iter().partition(|group_id| group_id.is_empty());
    let mut groups = Vec::with_capacity(nameless.len() + named.len());
    let mut size = AnswerSize::default();
    for group_id in nameless.into_iter().chain(named) {
        let described = match enabled {
            false => Err(ApiError::bare(ErrorCode::UnsupportedVersion)),
            true if group_id.is_empty() => Err(ApiError::bare(ErrorCode::InvalidGroupId)),
            true => {
                let description = call
                    .broker
                    .groups
                    .run(&group_id, |shard, step| shard.describe_consumer_group(&group_id, step.image, step.config));
                description.await.unwrap_or_else(|error| Err(ApiError::bare(error.code())))
            }
        };
        let described = match described {
            Ok(group) if request.include_authorized_operations => {
                group.with_authorized_operations(authorized_operations::GROUP)
            }
            Ok(group) => group,
            Err(error) => DescribedGroup::default()
                .with_group_id(group_id)
                .with_error_code(error.code.code())
                .with_error_message(error.wire_message()),
        };
        size.grow(described.compute_size(call.header.api_version).unwrap_or(usize::MAX)).await?;
        groups.push(described);
    }
    call.encode(&ConsumerGroupDescribeResponse::default().with_groups(groups))
}
