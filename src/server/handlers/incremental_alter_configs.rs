//! IncrementalAlterConfigs (key 44), versions 0 and 1: changes single settings (KIP-339).
//!
//! Levels of loggers are changed here (KIP-412). The rest is forwarded to the controller, whose `configs` has the
//! rules; when it is answered, the settings are in force.

use std::collections::HashMap;

use kafka_protocol::messages::incremental_alter_configs_request::AlterConfigsResource;
use kafka_protocol::messages::incremental_alter_configs_response::AlterConfigsResourceResponse;
use kafka_protocol::messages::{IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse};

use super::Call;
use crate::metadata::image::ConfigResourceType;
use crate::net::Response;
use crate::protocol::{ApiError, ErrorCode};
use crate::server::loggers;
use crate::server::request::RequestError;
use crate::types::BrokerId;

pub async fn handle(mut call: Call) -> Result<Response, RequestError> {
    let mut request: IncrementalAlterConfigsRequest = call.decode()?;
    let of_loggers = alter_loggers(call.broker.config.node_id, &request);
    if of_loggers.iter().any(Option::is_some) {
        request.resources.retain(|resource| !is_logger(resource));
    }
    let from_controller = match request.resources.is_empty() {
        true => IncrementalAlterConfigsResponse::default(),
        false => call.broker.controller.incremental_alter_configs(request).await?,
    };
    call.broker.tell_cordoned().await;
    let mut from_controller = from_controller.responses.into_iter();
    let responses = of_loggers.into_iter().filter_map(|of_logger| of_logger.or_else(|| from_controller.next()));
    let response = IncrementalAlterConfigsResponse::default().with_responses(responses.collect());
    call.encode(&response)
}

fn is_logger(resource: &AlterConfigsResource) -> bool {
    ConfigResourceType(resource.resource_type) == ConfigResourceType::BROKER_LOGGER
}

/// For each resource, in order: the answer if it is a logger's.
fn alter_loggers(
    this_broker: BrokerId,
    request: &IncrementalAlterConfigsRequest,
) -> Vec<Option<AlterConfigsResourceResponse>> {
    let mut times: HashMap<&str, usize> = HashMap::new();
    for resource in request.resources.iter().filter(|resource| is_logger(resource)) {
        *times.entry(&resource.resource_name).or_default() += 1;
    }
    let alter = |resource: &AlterConfigsResource| {
        let outcome = if times[&*resource.resource_name] > 1 {
            Err(ApiError::new(ErrorCode::InvalidRequest, "Each resource must appear at most once."))
        } else {
            loggers::alter(this_broker, resource, request.validate_only)
        };
        let response = AlterConfigsResourceResponse::default()
            .with_resource_type(resource.resource_type)
            .with_resource_name(resource.resource_name.clone());
        match outcome {
            Ok(()) => response.with_error_message(None),
            Err(error) => response.with_error_code(error.code.code()).with_error_message(error.wire_message()),
        }
    };
    request.resources.iter().map(|resource| is_logger(resource).then(|| alter(resource))).collect()
}

#[cfg(test)]
mod tests {
    use kafka_protocol::protocol::StrBytes;

    use super::*;

    #[test]
    fn loggers_are_answered_here_and_once_each() {
        let resource = |kind: ConfigResourceType, name: &'static str| {
            AlterConfigsResource::default()
                .with_resource_type(kind.0)
                .with_resource_name(StrBytes::from_static_str(name))
        };
        let logger = |name| resource(ConfigResourceType::BROKER_LOGGER, name);
        let resources =
            vec![logger("1"), resource(ConfigResourceType::BROKER, "2"), logger("2"), logger("3"), logger("2")];
        let request = IncrementalAlterConfigsRequest::default().with_resources(resources);
        let messages: Vec<Option<String>> = alter_loggers(BrokerId(1), &request)
            .into_iter()
            .map(|response| {
                response.map(|response| response.error_message.map_or("fine".to_owned(), |text| text.to_string()))
            })
            .collect();
        let twice = "Each resource must appear at most once.";
        let other = "Unexpected node id. Expected 1, but received 3";
        assert_eq!(
            messages.iter().map(Option::as_deref).collect::<Vec<_>>(),
            [Some("fine"), None, Some(twice), Some(other), Some(twice)]
        );
    }
}
