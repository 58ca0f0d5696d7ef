//! DescribeCluster (key 60), versions 0 to 2: the cluster's id and brokers (KIP-700).
//!
//! - v1+: `endpoint_type` (KIP-919). This is a broker's listener, so controllers (2) are MISMATCHED_ENDPOINT_TYPE.
//! - v2+: fenced brokers, if they are asked for (KIP-1073).

use kafka_protocol::messages::describe_cluster_response::DescribeClusterBroker;
use kafka_protocol::messages::{BrokerId as WireBrokerId, DescribeClusterRequest, DescribeClusterResponse};
use kafka_protocol::protocol::StrBytes;

use super::{Call, metadata};
use crate::net::Response;
use crate::protocol::ErrorCode;
use crate::server::authorized_operations;
use crate::server::request::RequestError;

/// `endpoint_type` of a broker's listener.
const BROKERS: i8 = 1;
/// `endpoint_type` of a controller's listener.
const CONTROLLERS: i8 = 2;

pub fn handle(mut call: Call) -> Result<Response, RequestError> {
    let request: DescribeClusterRequest = call.decode()?;
    let response = DescribeClusterResponse::default()
        .with_endpoint_type(BROKERS)
        .with_cluster_authorized_operations(authorized_operations::NOT_REQUESTED);
    if request.endpoint_type != BROKERS {
        let (code, message) = if request.endpoint_type == CONTROLLERS {
            let message =
                "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type CONTROLLER";
            (ErrorCode::MismatchedEndpointType, message.to_owned())
        } else {
            (ErrorCode::UnsupportedEndpointType, format!("Unsupported endpoint type {}", request.endpoint_type))
        };
        let refused = response.with_error_code(code.code()).with_error_message(Some(StrBytes::from_string(message)));
        return call.encode(&refused);
    }
    let image = call.broker.image();
    let brokers = image
        .cluster
        .brokers
        .values()
        .filter(|broker| !broker.fenced || request.include_fenced_brokers)
        .filter_map(|broker| {
            let address = call.broker.addresses.of(broker, &call.connection)?;
            Some(
                DescribeClusterBroker::default()
                    .with_broker_id(WireBrokerId(broker.id.0))
                    .with_host(StrBytes::from_string(address.host))
                    .with_port(i32::from(address.port))
                    .with_rack(broker.rack.clone().map(StrBytes::from_string))
                    .with_is_fenced(broker.fenced),
            )
        })
        .collect();
    let response = response
        .with_cluster_id(StrBytes::from_string(call.broker.cluster_id.clone()))
        .with_controller_id(WireBrokerId(metadata::any_alive_broker(&image).map_or(-1, |id| id.0)))
        .with_brokers(brokers);
    let response = if request.include_cluster_authorized_operations {
        response.with_cluster_authorized_operations(authorized_operations::CLUSTER)
    } else {
        response
    };
    call.encode(&response)
}
