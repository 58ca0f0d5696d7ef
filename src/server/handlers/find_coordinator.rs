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
use crate::types::TopicId;

const GROUP: i8 = 0;
const TRANSACTION: i8 = 1;
const SHARE: i8 = 2;
const KEY_TYPES: [i8; 3] = [GROUP, TRANSACTION, SHARE];

pub fn handle(mut call: Call) -> Result<Response, RequestError> {
    let request: FindCoordinatorRequest = call.decode()?;
    let version = call.header.api_version;
    let response = if version >= 4 {
        let coordinators = request
            .coordinator_keys
            .iter()
            .map(|key| {
                let error = coordinator_error(request.key_type, key, version);
                // Kafka tells a reason only where the request as a whole is wrong.
                let message =
                    (!KEY_TYPES.contains(&request.key_type)).then_some(StrBytes::from_static_str(error.message()));
                Coordinator::default()
                    .with_key(key.clone())
                    .with_node_id(WireBrokerId(-1))
                    .with_port(-1)
                    .with_error_code(error.code())
                    .with_error_message(message.or(Some(StrBytes::new())))
            })
            .collect();
        FindCoordinatorResponse::default().with_coordinators(coordinators)
    } else {
        let error = coordinator_error(request.key_type, &request.key, version);
        FindCoordinatorResponse::default()
            .with_error_code(error.code())
            .with_error_message(Some(StrBytes::from_static_str(error.message())))
            .with_node_id(WireBrokerId(-1))
            .with_port(-1)
    };
    call.encode(&response)
}

/// Why there is no coordinator.
fn coordinator_error(key_type: i8, key: &str, version: i16) -> ErrorCode {
    match key_type {
        GROUP | TRANSACTION => ErrorCode::CoordinatorNotAvailable,
        SHARE if version >= 6 && is_share_key(key) => ErrorCode::CoordinatorNotAvailable,
        _ => ErrorCode::InvalidRequest,
    }
}

/// Whether `key` has the form of a share coordinator's: group, topic id and partition, with `:` between them.
fn is_share_key(key: &str) -> bool {
    let mut parts = key.split(':');
    let (group, topic_id, partition) = (parts.next(), parts.next(), parts.next());
    parts.next().is_none()
        && group.is_some_and(|group| !group.trim().is_empty())
        && topic_id.is_some_and(|id| TopicId::parse(id).is_some())
        && partition.is_some_and(|partition| partition.parse::<i32>().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_key_names_group_topic_and_partition() {
        let id = "I0Tif0YuRcapFPbiVLPaZA";
        for good in [format!("g:{id}:0"), format!("a group:{id}:2147483647"), format!("g:{id}:-1")] {
            assert!(is_share_key(&good), "{good}");
        }
        let bad = ["", ":", "g", &format!("g:{id}"), &format!(":{id}:0"), &format!(" :{id}:0"), "g:not-an-id:0"];
        for bad in bad.into_iter().chain([&*format!("g:{id}:x"), &format!("g:{id}:0:0"), &format!("g:{id}:2147483648")])
        {
            assert!(!is_share_key(bad), "{bad}");
        }
    }

    #[test]
    fn kinds_of_coordinators_are_known_by_version() {
        use ErrorCode::{CoordinatorNotAvailable as Known, InvalidRequest as Unknown};
        let share_key = "g:I0Tif0YuRcapFPbiVLPaZA:0";
        for (key_type, key, version, expected) in [
            (GROUP, "g", 0, Known),
            (TRANSACTION, "t", 1, Known),
            (SHARE, share_key, 5, Unknown),
            (SHARE, share_key, 6, Known),
            (SHARE, "g", 6, Unknown),
            (3, "g", 6, Unknown),
            (-1, "g", 6, Unknown),
        ] {
            assert_eq!(coordinator_error(key_type, key, version), expected, "{key_type} {key} in version {version}");
        }
    }
}
