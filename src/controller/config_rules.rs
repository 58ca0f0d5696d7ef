//! Whether configurations of a resource are acceptable, as a whole: names, values, and what they say together.

use std::collections::BTreeMap;

use super::decision::ApiError;
use super::settings::ControllerSettings;
use crate::config::keys::{
    ConfigDef, UpdateMode, broker_dynamic_only_keys, broker_keys, client_metrics_keys, group_keys, topic_keys,
};
use crate::metadata::image::{ConfigResourceType, MetadataImage};
use crate::metadata::topic_name;
use crate::protocol::errors::ErrorCode;

/// The keys a kind of resource has; `None` where they are not known by name.
pub(super) fn keys_of(kind: ConfigResourceType) -> Option<&'static ConfigDef> {
    match kind {
        ConfigResourceType::TOPIC => Some(topic_keys()),
        ConfigResourceType::BROKER => Some(broker_keys()),
        ConfigResourceType::GROUP => Some(group_keys()),
        ConfigResourceType::CLIENT_METRICS => Some(client_metrics_keys()),
        _ => None,
    }
}

/// Checks a resource's name and all that would be set of it.
pub(super) fn validate(
    settings: &ControllerSettings,
    kind: ConfigResourceType,
    name: &str,
    configs: &BTreeMap<String, String>,
) -> Result<(), ApiError> {
    let invalid_request = |message: &str| Err(ApiError::new(ErrorCode::InvalidRequest, message));
    match kind {
        ConfigResourceType::TOPIC => {
            if name.is_empty() {
                return invalid_request("Default topic resources are not allowed.");
            }
            topic_name::validate(name)
                .map_err(|error| ApiError::new(ErrorCode::InvalidTopicException, error.to_string()))?;
            validate_topic_configs(settings, configs)
        }
        ConfigResourceType::BROKER => match name.parse::<i32>() {
            _ if name.is_empty() => Ok(()),
            Err(_) => invalid_request("Unable to parse broker name as a base 10 number."),
            Ok(..0) => invalid_request("Invalid negative broker ID."),
            Ok(_) => Ok(()),
        },
        ConfigResourceType::CLIENT_METRICS => {
            if name.is_empty() {
                return invalid_request("Subscription name can't be empty");
            }
            if let Some(unknown) = configs.keys().find(|key| !client_metrics_keys().contains(key)) {
                return Err(ApiError::new(
                    ErrorCode::InvalidRequest,
                    format!("Unknown client metrics configuration: {unknown}"),
                ));
            }
            parse(client_metrics_keys(), configs)
        }
        ConfigResourceType::GROUP => {
            if name.is_empty() {
                return invalid_request("Default group resources are not allowed.");
            }
            if let Some(unknown) = configs.keys().find(|key| !group_keys().contains(key)) {
                return Err(ApiError::new(ErrorCode::InvalidConfig, format!("Unknown group config name: {unknown}")));
            }
            parse(group_keys(), configs)
        }
        other => Err(ApiError::new(ErrorCode::InvalidRequest, format!("Unknown resource type {}", other.name()))),
    }
}

/// Checks all that would be set of a topic.
pub(super) fn validate_topic_configs(
    _settings: &ControllerSettings,
    configs: &BTreeMap<String, String>,
) -> Result<(), ApiError> {
    if let Some(unknown) = configs.keys().find(|key| !topic_keys().contains(key)) {
        return Err(ApiError::new(ErrorCode::InvalidConfig, format!("Unknown topic config name: {unknown}")));
    }
    parse(topic_keys(), configs)
}

/// Checks all that would be set of a broker, or as the default of all brokers.
pub(super) fn validate_broker_configs(configs: &BTreeMap<String, String>, of_one_broker: bool) -> Result<(), ApiError> {
    let invalid = |message: String| Err(ApiError::new(ErrorCode::InvalidRequest, message));
    let dynamic = |key: &&String| {
        broker_dynamic_only_keys().contains(key)
            || broker_keys().get(key).is_some_and(|key| key.update_mode != UpdateMode::ReadOnly)
    };
    let fixed: Vec<&String> =
        configs.keys().filter(|key| broker_keys().contains(key)).filter(|key| !dynamic(key)).collect();
    if !fixed.is_empty() {
        return invalid(format!("Cannot update these configs dynamically: {}", set_of(&fixed)));
    }
    let per_broker: Vec<&String> = configs
        .keys()
        .filter(|key| broker_keys().get(key).is_some_and(|key| key.update_mode == UpdateMode::PerBroker))
        .collect();
    if !of_one_broker && !per_broker.is_empty() {
        return invalid(format!(
            "Cannot update these configs at default cluster level, broker id must be specified: {}",
            set_of(&per_broker)
        ));
    }
    for (name, text) in configs {
        let Some(key) = broker_keys().get(name).or(broker_dynamic_only_keys().get(name)) else { continue };
        key.parse(Some(text)).or_else(|error| invalid(error.to_string()).map(|()| None))?;
    }
    Ok(())
}

/// Names as Scala prints a set of them.
fn set_of(names: &[&String]) -> String {
    format!("Set({})", names.iter().map(|name| name.as_str()).collect::<Vec<_>>().join(", "))
}

fn parse(keys: &ConfigDef, configs: &BTreeMap<String, String>) -> Result<(), ApiError> {
    match keys.parse(|key| configs.get(key).map(String::as_str)) {
        Ok(_) => Ok(()),
        Err(error) => Err(ApiError::new(ErrorCode::InvalidConfig, error.to_string())),
    }
}

/// Whether the resource exists of which something is to be set.
pub(super) fn check_existence(image: &MetadataImage, kind: ConfigResourceType, name: &str) -> Result<(), ApiError> {
    match kind {
        ConfigResourceType::TOPIC if image.topic(name).is_none() => {
            Err(ApiError::new(ErrorCode::UnknownTopicOrPartition, format!("The topic '{name}' does not exist.")))
        }
        ConfigResourceType::BROKER if !name.is_empty() => {
            let known = name.parse().is_ok_and(|id| {
                let id = crate::types::BrokerId(id);
                image.broker(id).is_some() || image.cluster.controllers.contains_key(&id)
            });
            if known {
                return Ok(());
            }
            Err(ApiError::new(ErrorCode::BrokerIdNotRegistered, format!("No node with id {name} found.")))
        }
        _ => Ok(()),
    }
}
