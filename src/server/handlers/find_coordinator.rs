//! FindCoordinator (key 10), versions 0 to 6: which broker coordinates a group, a transactional id or a share group.
//!
//! v1+: `key_type` (KIP-98); v4+: several keys at once (KIP-699); v6+: share groups (KIP-932). A coordinator's topic is
//! created by the first request that needs it, and serves when that is answered; Kafka has the client ask again.
//! Share groups have no coordinator yet: COORDINATOR_NOT_AVAILABLE, which clients retry.

use kafka_protocol::messages::find_coordinator_response::Coordinator;
use kafka_protocol::messages::{BrokerId as WireBrokerId, FindCoordinatorRequest, FindCoordinatorResponse};
use kafka_protocol::protocol::StrBytes;

use super::Call;
use crate::coordinator::group::coordinator::OFFSETS_TOPIC;
use crate::coordinator::transaction::coordinator::TRANSACTION_TOPIC;
use crate::net::{ConnectionContext, Response};
use crate::protocol::ErrorCode;
use crate::server::broker::Broker;
use crate::server::request::RequestError;
use crate::server::topics::auto_create;
use crate::types::{PartitionId, TopicId};

const GROUP: i8 = 0;
const TRANSACTION: i8 = 1;
const SHARE: i8 = 2;

/// Where a coordinator is.
#[derive(Debug, PartialEq, Eq)]
struct Location {
    node_id: i32,
    host: String,
    port: i32,
}

pub async fn handle(mut call: Call) -> Result<Response, RequestError> {
    let request: FindCoordinatorRequest = call.decode()?;
    let version = call.header.api_version;
    let (broker, connection) = (&*call.broker, &*call.connection);
    create_topic(broker, &request, version).await;
    let response = if version >= 4 {
        let mut coordinators = Vec::with_capacity(request.coordinator_keys.len());
        for key in &request.coordinator_keys {
            let found = find(broker, connection, request.key_type, key, version);
            let (location, error) = parts(found);
            // Kafka tells a reason only where the request as a whole is wrong.
            let message = if error == ErrorCode::InvalidRequest && !is_known(request.key_type) {
                StrBytes::from_static_str(error.message())
            } else {
                StrBytes::new()
            };
            coordinators.push(
                Coordinator::default()
                    .with_key(key.clone())
                    .with_node_id(WireBrokerId(location.node_id))
                    .with_host(StrBytes::from_string(location.host))
                    .with_port(location.port)
                    .with_error_code(error.code())
                    .with_error_message(Some(message)),
            );
        }
        FindCoordinatorResponse::default().with_coordinators(coordinators)
    } else {
        let (location, error) = parts(find(broker, connection, request.key_type, &request.key, version));
        FindCoordinatorResponse::default()
            .with_error_code(error.code())
            .with_error_message(Some(StrBytes::from_static_str(error.message())))
            .with_node_id(WireBrokerId(location.node_id))
            .with_host(StrBytes::from_string(location.host))
            .with_port(location.port)
    };
    call.encode(&response)
}

fn parts(found: Result<Location, ErrorCode>) -> (Location, ErrorCode) {
    match found {
        Ok(location) => (location, ErrorCode::None),
        Err(error) => (Location { node_id: -1, host: String::new(), port: -1 }, error),
    }
}

fn is_known(key_type: i8) -> bool {
    [GROUP, TRANSACTION, SHARE].contains(&key_type)
}

fn find(
    broker: &Broker,
    connection: &ConnectionContext,
    key_type: i8,
    key: &str,
    version: i16,
) -> Result<Location, ErrorCode> {
    check(key_type, key, version)?;
    match key_type {
        GROUP | TRANSACTION => {
            let topic = topic_of(key_type);
            let partition = match key_type {
                GROUP => broker.groups.partition_of(key),
                _ => broker.transactions.partition_of(key),
            };
            locate(broker, connection, topic, partition).ok_or(ErrorCode::CoordinatorNotAvailable)
        }
        _ => Err(ErrorCode::CoordinatorNotAvailable),
    }
}

fn topic_of(key_type: i8) -> &'static str {
    if key_type == GROUP { OFFSETS_TOPIC } else { TRANSACTION_TOPIC }
}

/// The first request that needs a coordinator creates its topic.
async fn create_topic(broker: &Broker, request: &FindCoordinatorRequest, version: i16) {
    let asks = version < 4 || !request.coordinator_keys.is_empty();
    if asks
        && matches!(request.key_type, GROUP | TRANSACTION)
        && broker.image().topic(topic_of(request.key_type)).is_none()
    {
        auto_create(broker, &[topic_of(request.key_type)]).await;
    }
}

/// The leader of a coordinator's partition.
fn locate(broker: &Broker, connection: &ConnectionContext, topic: &str, partition: PartitionId) -> Option<Location> {
    let image = broker.image();
    let leader = image.broker(image.partition(topic, partition)?.leader?)?;
    let address = broker.addresses.of(leader, connection).filter(|_| !leader.fenced)?;
    Some(Location { node_id: leader.id.0, host: address.host, port: i32::from(address.port) })
}

/// Whether there can be a coordinator of such a key.
fn check(key_type: i8, key: &str, version: i16) -> Result<(), ErrorCode> {
    match key_type {
        GROUP | TRANSACTION => Ok(()),
        SHARE if version >= 6 && is_share_key(key) => Ok(()),
        _ => Err(ErrorCode::InvalidRequest),
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
        let (known, unknown) = (Ok(()), Err(ErrorCode::InvalidRequest));
        let share_key = "g:I0Tif0YuRcapFPbiVLPaZA:0";
        for (key_type, key, version, expected) in [
            (GROUP, "g", 0, known),
            (TRANSACTION, "t", 1, known),
            (SHARE, share_key, 5, unknown),
            (SHARE, share_key, 6, known),
            (SHARE, "g", 6, unknown),
            (3, "g", 6, unknown),
            (-1, "g", 6, unknown),
        ] {
            assert_eq!(check(key_type, key, version), expected, "{key_type} {key} in version {version}");
        }
    }
}
