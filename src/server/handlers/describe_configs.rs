//! DescribeConfigs (key 32), versions 1 to 4: the settings of topics, brokers, loggers, groups and client metrics.
//!
//! v1+: synonyms (KIP-226); v3+: types and documentation (KIP-569). What is set and where it comes from is `config`'s to
//! say; this copies it into the answer, without what was not asked for.

use kafka_protocol::messages::describe_configs_request::DescribeConfigsResource;
use kafka_protocol::messages::describe_configs_response::{
    DescribeConfigsResourceResult, DescribeConfigsResult, DescribeConfigsSynonym,
};
use kafka_protocol::messages::{DescribeConfigsRequest, DescribeConfigsResponse};
use kafka_protocol::protocol::StrBytes;

use super::Call;
use crate::config::describe::{self, ConfigEntry};
use crate::metadata::image::{ConfigResource, ConfigResourceType, MetadataImage};
use crate::metadata::topic_name;
use crate::net::Response;
use crate::protocol::{ApiError, ErrorCode};
use crate::server::broker::Broker;
use crate::server::loggers;
use crate::server::request::{FailableRequest, RequestError};

pub fn handle(mut call: Call) -> Result<Response, RequestError> {
    let request: DescribeConfigsRequest = call.decode()?;
    let response = describe_all(&call.broker, &request);
    call.answer(&request, response)
}

impl FailableRequest for DescribeConfigsRequest {
    fn error_response(&self, error: &ApiError, _version: i16) -> DescribeConfigsResponse {
        // The cause goes to the log only.
        let error = ApiError::with_default_message(error.code);
        let results = self.resources.iter().map(|resource| refused(resource, &error));
        DescribeConfigsResponse::default().with_results(results.collect())
    }
}

fn describe_all(broker: &Broker, request: &DescribeConfigsRequest) -> Result<DescribeConfigsResponse, RequestError> {
    if let Some(unknown) = request.resources.iter().find(|resource| kind_of(resource).is_none()) {
        let message = format!("Unexpected resource type UNKNOWN for resource {}", unknown.resource_name);
        return Err(RequestError::Failed(invalid_request(message)));
    }
    let image = broker.image();
    let results = request
        .resources
        .iter()
        .map(|resource| match describe(broker, &image, resource, request) {
            Ok(configs) => DescribeConfigsResult::default()
                .with_resource_type(resource.resource_type)
                .with_resource_name(resource.resource_name.clone())
                .with_configs(configs),
            Err(error) => refused(resource, &error),
        })
        .collect();
    Ok(DescribeConfigsResponse::default().with_results(results))
}

fn refused(resource: &DescribeConfigsResource, error: &ApiError) -> DescribeConfigsResult {
    DescribeConfigsResult::default()
        .with_error_code(error.code.code())
        .with_error_message(error.wire_message())
        .with_resource_type(resource.resource_type)
        .with_resource_name(resource.resource_name.clone())
}

fn invalid_request(message: String) -> ApiError {
    ApiError::new(ErrorCode::InvalidRequest, message)
}

/// The kinds of resource that can be described.
fn kind_of(resource: &DescribeConfigsResource) -> Option<ConfigResourceType> {
    let kind = ConfigResourceType(resource.resource_type);
    let known = [
        ConfigResourceType::TOPIC,
        ConfigResourceType::BROKER,
        ConfigResourceType::BROKER_LOGGER,
        ConfigResourceType::CLIENT_METRICS,
        ConfigResourceType::GROUP,
    ];
    known.contains(&kind).then_some(kind)
}

fn describe(
    broker: &Broker,
    image: &MetadataImage,
    resource: &DescribeConfigsResource,
    request: &DescribeConfigsRequest,
) -> Result<Vec<DescribeConfigsResourceResult>, ApiError> {
    let name = resource.resource_name.as_str();
    let kind = ConfigResourceType(resource.resource_type);
    let wanted = |key: &str| {
        // An empty list means all, as null does.
        let keys = resource.configuration_keys.as_ref().filter(|keys| !keys.is_empty());
        keys.is_none_or(|keys| keys.iter().any(|wanted| wanted.as_str() == key))
    };
    let overrides = || image.configs.of(&ConfigResource { kind, name: name.to_owned() });
    let settings = broker.settings.load();
    let entries = match kind {
        ConfigResourceType::TOPIC => {
            if let Err(reason) = topic_name::validate(name) {
                return Err(ApiError::new(ErrorCode::InvalidTopicException, reason.to_string()));
            }
            if image.topic(name).is_none() {
                return Err(ApiError::new(ErrorCode::UnknownTopicOrPartition, ""));
            }
            describe::topic(overrides(), &settings, wanted)
        }
        ConfigResourceType::BROKER if name.is_empty() => describe::broker_defaults(&settings, wanted),
        ConfigResourceType::BROKER => {
            check_broker_id(broker, name, " or empty string,")?;
            describe::broker(&settings, wanted)
        }
        ConfigResourceType::BROKER_LOGGER => {
            if name.is_empty() {
                return Err(invalid_request("Broker id must not be empty".to_owned()));
            }
            check_broker_id(broker, name, "")?;
            return Ok(loggers::describe(wanted));
        }
        ConfigResourceType::CLIENT_METRICS if name.is_empty() => {
            return Err(invalid_request("Client metrics subscription name must not be empty".to_owned()));
        }
        ConfigResourceType::CLIENT_METRICS => describe::client_metrics(overrides(), wanted),
        ConfigResourceType::GROUP if name.is_empty() => {
            return Err(invalid_request("Group name must not be empty".to_owned()));
        }
        ConfigResourceType::GROUP => describe::group(overrides(), &settings, wanted),
        // The request has been refused.
        _ => return Err(invalid_request("Unsupported resource type: UNKNOWN".to_owned())),
    };
    Ok(entries.into_iter().map(|entry| answer(entry, request)).collect())
}

/// A broker describes itself only. `or_else` stands in Kafka's message where a name may also be empty.
fn check_broker_id(broker: &Broker, name: &str, or_else: &str) -> Result<(), ApiError> {
    let own = broker.config.node_id;
    let id: i32 =
        name.parse().map_err(|_| invalid_request(format!("Broker id must be an integer, but it is: {name}")))?;
    if id == own.0 {
        return Ok(());
    }
    Err(invalid_request(format!("Unexpected broker id, expected {own}{or_else} but received {name}")))
}

fn answer(entry: ConfigEntry, request: &DescribeConfigsRequest) -> DescribeConfigsResourceResult {
    let synonyms = match request.include_synonyms {
        true => entry
            .synonyms
            .into_iter()
            .map(|synonym| {
                DescribeConfigsSynonym::default()
                    .with_name(StrBytes::from_string(synonym.name))
                    .with_value(synonym.value.map(StrBytes::from_string))
                    .with_source(synonym.source.id())
            })
            .collect(),
        false => Vec::new(),
    };
    let documentation = entry.documentation.filter(|_| request.include_documentation);
    DescribeConfigsResourceResult::default()
        .with_name(StrBytes::from_string(entry.name))
        .with_value(entry.value.map(StrBytes::from_string))
        .with_read_only(entry.read_only)
        .with_config_source(entry.source.id())
        .with_is_sensitive(entry.sensitive)
        .with_synonyms(synonyms)
        .with_config_type(entry.config_type.map_or(0, |config_type| config_type.id()))
        .with_documentation(documentation.map(StrBytes::from_static_str))
}
