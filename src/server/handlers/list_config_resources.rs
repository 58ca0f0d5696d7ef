//! ListConfigResources (key 74), versions 0 and 1: the resources that can have settings, or have some.
//!
//! Groups and client metrics are listed if they have settings of their own; topics and brokers, with their loggers,
//! always. v0 knows client metrics alone (KIP-714); v1+: the other types, and a choice among them (KIP-1142).

use kafka_protocol::messages::list_config_resources_response::ConfigResource;
use kafka_protocol::messages::{ListConfigResourcesRequest, ListConfigResourcesResponse};
use kafka_protocol::protocol::StrBytes;

use super::Call;
use crate::metadata::image::{ConfigResourceType, MetadataImage};
use crate::net::Response;
use crate::protocol::ErrorCode;
use crate::server::request::RequestError;

/// Not a type of the metadata log.
const BROKER_LOGGER: ConfigResourceType = ConfigResourceType(8);

/// In Kafka's order of the answer.
const TYPES: [ConfigResourceType; 5] = [
    ConfigResourceType::GROUP,
    ConfigResourceType::CLIENT_METRICS,
    BROKER_LOGGER,
    ConfigResourceType::BROKER,
    ConfigResourceType::TOPIC,
];

pub fn handle(mut call: Call) -> Result<Response, RequestError> {
    let request: ListConfigResourcesRequest = call.decode()?;
    let supported: &[ConfigResourceType] =
        if call.header.api_version == 0 { &[ConfigResourceType::CLIENT_METRICS] } else { &TYPES };
    let asked =
        |kind: &&ConfigResourceType| request.resource_types.is_empty() || request.resource_types.contains(&kind.0);
    if request.resource_types.iter().any(|kind| !supported.contains(&ConfigResourceType(*kind))) {
        let response = ListConfigResourcesResponse::default().with_error_code(ErrorCode::UnsupportedVersion.code());
        return call.encode(&response);
    }
    let image = call.broker.image();
    let listener = &call.connection.listener.name;
    let resources = supported.iter().filter(asked).flat_map(|kind| {
        let names = names(&image, listener, *kind).into_iter();
        names.map(|name| {
            ConfigResource::default().with_resource_name(StrBytes::from_string(name)).with_resource_type(kind.0)
        })
    });
    call.encode(&ListConfigResourcesResponse::default().with_config_resources(resources.collect()))
}

fn names(image: &MetadataImage, listener: &str, kind: ConfigResourceType) -> Vec<String> {
    match kind {
        ConfigResourceType::TOPIC => image.topics.iter().map(|topic| topic.name.to_string()).collect(),
        ConfigResourceType::BROKER | BROKER_LOGGER => {
            let brokers = image.cluster.unfenced().filter(|broker| broker.listener(listener).is_some());
            brokers.map(|broker| broker.id.to_string()).collect()
        }
        _ => {
            let configured =
                image.configs.iter().filter(|(resource, configs)| resource.kind == kind && !configs.is_empty());
            configured.map(|(resource, _)| resource.name.clone()).collect()
        }
    }
}
