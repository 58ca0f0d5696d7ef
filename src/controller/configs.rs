//! IncrementalAlterConfigs and AlterConfigs: what is set of topics, brokers, groups and client metrics.
//!
//! A request passes two stages, each with Kafka's checks in Kafka's order. The broker that gets it refuses resources
//! that stand twice, keys that stand twice, null values, other brokers' ids; then the controller computes the new
//! values and checks them together. Resources stand for themselves: one that is refused does not hold up the others.
//!
//! One thing is not as in Kafka, whose controller falls over an operation it does not know: here it is refused.

use std::collections::{BTreeMap, BTreeSet};

use kafka_protocol::messages::alter_configs_response::AlterConfigsResourceResponse as AlterResult;
use kafka_protocol::messages::incremental_alter_configs_response::AlterConfigsResourceResponse as IncrementalResult;
use kafka_protocol::messages::{
    AlterConfigsRequest, AlterConfigsResponse, IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse,
};
use kafka_protocol::protocol::StrBytes;

use super::config_rules;
use super::decision::{ApiError, Decision, MAX_RECORDS_PER_REQUEST};
use super::settings::ControllerSettings;
use crate::config::value::ConfigType;
use crate::metadata::image::{ConfigResource, ConfigResourceType, FeaturesImage, MetadataImage};
use crate::metadata::records::{ClearElrRecord, ConfigRecord, VersionedRecord};
use crate::metadata::version::MetadataVersion;
use crate::protocol::errors::ErrorCode;

const MIN_INSYNC_REPLICAS: &str = "min.insync.replicas";
const CORDONED_LOG_DIRS: &str = "cordoned.log.dirs";
/// A longer value does not fit into the old form of a string on the wire.
const MAX_VALUE_SIZE: usize = i16::MAX as usize;

/// What to do with a key.
enum Operation {
    Set(StrBytes),
    Delete,
    /// To a list, what is not in it.
    Append(StrBytes),
    /// From a list.
    Subtract(StrBytes),
}

/// A resource of a request, in the one form that both kinds of request have.
struct Alteration<'a> {
    resource_type: i8,
    resource_name: &'a StrBytes,
    /// In the request's order.
    operations: Vec<(&'a str, Result<Operation, UnknownOperation>)>,
    /// What is not named is to be unset.
    replaces: bool,
}

struct UnknownOperation(i8);

impl Alteration<'_> {
    fn resource(&self) -> ConfigResource {
        ConfigResource { kind: ConfigResourceType(self.resource_type), name: self.resource_name.to_string() }
    }
}

/// Decides on an IncrementalAlterConfigs request (KIP-339).
pub fn incremental_alter_configs(
    image: &MetadataImage,
    settings: &ControllerSettings,
    request: &IncrementalAlterConfigsRequest,
) -> Decision<IncrementalAlterConfigsResponse> {
    let alterations: Vec<Alteration<'_>> = request
        .resources
        .iter()
        .map(|resource| Alteration {
            resource_type: resource.resource_type,
            resource_name: &resource.resource_name,
            operations: resource
                .configs
                .iter()
                .map(|config| {
                    let value = config.value.clone();
                    let operation = match (config.config_operation, value) {
                        (1, _) => Ok(Operation::Delete),
                        (0, Some(value)) => Ok(Operation::Set(value)),
                        (2, Some(value)) => Ok(Operation::Append(value)),
                        (3, Some(value)) => Ok(Operation::Subtract(value)),
                        (code, _) => Err(UnknownOperation(code)),
                    };
                    (&*config.name, operation)
                })
                .collect(),
            replaces: false,
        })
        .collect();
    // A null value weighs more than an operation nobody knows.
    let nulls: Vec<Vec<&str>> = request
        .resources
        .iter()
        .map(|resource| {
            let nulls = resource.configs.iter().filter(|config| config.config_operation != 1 && config.value.is_none());
            nulls.map(|config| &*config.name).collect()
        })
        .collect();
    let (records, outcomes) = alter(image, settings, &alterations, &nulls);
    let responses = alterations
        .iter()
        .zip(outcomes)
        .map(|(alteration, outcome)| {
            let (code, message) = on_wire(outcome);
            IncrementalResult::default()
                .with_error_code(code)
                .with_error_message(message)
                .with_resource_type(alteration.resource_type)
                .with_resource_name(alteration.resource_name.clone())
        })
        .collect();
    Decision {
        records: if request.validate_only { Vec::new() } else { records },
        response: IncrementalAlterConfigsResponse::default().with_responses(responses),
    }
}

/// Decides on an AlterConfigs request, which replaces all that is set of its resources.
pub fn alter_configs(
    image: &MetadataImage,
    settings: &ControllerSettings,
    request: &AlterConfigsRequest,
) -> Decision<AlterConfigsResponse> {
    let alterations: Vec<Alteration<'_>> = request
        .resources
        .iter()
        .map(|resource| Alteration {
            resource_type: resource.resource_type,
            resource_name: &resource.resource_name,
            operations: resource
                .configs
                .iter()
                .filter_map(|config| Some((&*config.name, Ok(Operation::Set(config.value.clone()?)))))
                .collect(),
            replaces: true,
        })
        .collect();
    let nulls: Vec<Vec<&str>> = request
        .resources
        .iter()
        .map(|resource| {
            resource.configs.iter().filter(|config| config.value.is_none()).map(|config| &*config.name).collect()
        })
        .collect();
    let (records, outcomes) = alter(image, settings, &alterations, &nulls);
    let responses = alterations
        .iter()
        .zip(outcomes)
        .map(|(alteration, outcome)| {
            let (code, message) = on_wire(outcome);
            AlterResult::default()
                .with_error_code(code)
                .with_error_message(message)
                .with_resource_type(alteration.resource_type)
                .with_resource_name(alteration.resource_name.clone())
        })
        .collect();
    Decision {
        records: if request.validate_only { Vec::new() } else { records },
        response: AlterConfigsResponse::default().with_responses(responses),
    }
}

fn on_wire(outcome: Result<(), ApiError>) -> (i16, Option<StrBytes>) {
    match outcome {
        Ok(()) => (0, None),
        Err(error) => (error.code as i16, error.wire_message()),
    }
}

/// The records of all that is accepted, and what became of each resource, in the order of the request.
fn alter(
    image: &MetadataImage,
    settings: &ControllerSettings,
    alterations: &[Alteration<'_>],
    nulls: &[Vec<&str>],
) -> (Vec<VersionedRecord>, Vec<Result<(), ApiError>>) {
    let mut times: BTreeMap<(i8, &str), usize> = BTreeMap::new();
    for alteration in alterations {
        *times.entry((alteration.resource_type, alteration.resource_name)).or_default() += 1;
    }
    let mut records = Vec::new();
    let mut outcomes = Vec::with_capacity(alterations.len());
    let mut handed_on = Vec::with_capacity(alterations.len());
    for (alteration, nulls) in alterations.iter().zip(nulls) {
        let outcome = if times[&(alteration.resource_type, &**alteration.resource_name)] > 1 {
            Err(ApiError::new(ErrorCode::InvalidRequest, "Each resource must appear at most once."))
        } else {
            check_as_broker(image, settings, alteration, nulls)
        };
        handed_on.push(outcome.is_ok());
        outcomes.push(outcome.and_then(|()| {
            records.extend(decide_as_controller(image, settings, alteration)?);
            Ok(())
        }));
    }
    if elr_enabled(image) {
        let clear = clear_elr_records(&records);
        records.extend(clear);
    }
    if records.len() > MAX_RECORDS_PER_REQUEST {
        records.clear();
        for (outcome, handed_on) in outcomes.iter_mut().zip(handed_on) {
            if handed_on {
                *outcome = Err(ApiError::too_many_records());
            }
        }
    }
    (records, outcomes)
}

/// The checks of the broker that got the request.
fn check_as_broker(
    image: &MetadataImage,
    settings: &ControllerSettings,
    alteration: &Alteration<'_>,
    nulls: &[&str],
) -> Result<(), ApiError> {
    let invalid = |message: String| Err(ApiError::new(ErrorCode::InvalidRequest, message));
    let names: BTreeSet<&str> =
        alteration.operations.iter().map(|(name, _)| *name).chain(nulls.iter().copied()).collect();
    let count = match alteration.replaces {
        true => alteration.operations.len() + nulls.len(),
        false => alteration.operations.len(),
    };
    if names.len() < count {
        return invalid("Error due to duplicate config keys".to_owned());
    }
    if !nulls.is_empty() {
        return invalid(format!("Null value not supported for : {}", nulls.join(", ")));
    }
    match ConfigResourceType(alteration.resource_type) {
        ConfigResourceType::BROKER => {
            if !alteration.resource_name.is_empty() {
                check_is_this_broker(settings, alteration.resource_name)?;
            }
            if let Some(UnknownOperation(code)) = unknown_operation(alteration) {
                return invalid(format!("Unknown operations type {code}"));
            }
            let resource = alteration.resource();
            let configs = new_values(image, &resource, alteration)?;
            super::config_rules::validate_broker_configs(&configs, !resource.name.is_empty())
        }
        ConfigResourceType::BROKER_LOGGER if !alteration.replaces => check_logger(settings, alteration),
        ConfigResourceType::TOPIC | ConfigResourceType::CLIENT_METRICS | ConfigResourceType::GROUP => Ok(()),
        ConfigResourceType(code) => invalid(format!("Unknown resource type {code}")),
    }
}

fn check_is_this_broker(settings: &ControllerSettings, name: &str) -> Result<(), ApiError> {
    let id: i32 = name.parse().map_err(|_| {
        ApiError::new(ErrorCode::InvalidRequest, format!("Node id must be an integer, but it is: {name}"))
    })?;
    if id != settings.node_id.0 {
        return Err(ApiError::new(
            ErrorCode::InvalidRequest,
            format!("Unexpected broker id, expected {}, but received {name}", settings.node_id),
        ));
    }
    Ok(())
}

fn unknown_operation<'a>(alteration: &'a Alteration<'_>) -> Option<&'a UnknownOperation> {
    alteration.operations.iter().find_map(|(_, operation)| operation.as_ref().err())
}

/// Loggers are not recorded. This broker has none that Kafka's tools could know by name.
fn check_logger(settings: &ControllerSettings, alteration: &Alteration<'_>) -> Result<(), ApiError> {
    check_is_this_broker(settings, alteration.resource_name)?;
    let Some((name, operation)) = alteration.operations.first() else { return Ok(()) };
    let refused = |operation: &str| {
        let message = format!("{operation} operation is not allowed for the BROKER_LOGGER resource");
        Err(ApiError::new(ErrorCode::InvalidRequest, message))
    };
    match operation {
        Ok(Operation::Set(_) | Operation::Delete) => {
            Err(ApiError::new(ErrorCode::InvalidConfig, format!("Logger {name} does not exist!")))
        }
        Ok(Operation::Append(_)) => refused("APPEND"),
        Ok(Operation::Subtract(_)) => refused("SUBTRACT"),
        Err(UnknownOperation(code)) => Err(ApiError::new(
            ErrorCode::InvalidRequest,
            format!("Unknown operation type {code} is not allowed for the BROKER_LOGGER resource"),
        )),
    }
}

/// All values of the resource once it is altered.
fn new_values(
    image: &MetadataImage,
    resource: &ConfigResource,
    alteration: &Alteration<'_>,
) -> Result<BTreeMap<String, String>, ApiError> {
    let mut values = match image.configs.get(resource) {
        Some(configs) if !alteration.replaces => BTreeMap::clone(configs),
        _ => BTreeMap::new(),
    };
    for (name, operation) in &alteration.operations {
        let value = match operation {
            Ok(operation) => new_value(resource.kind, name, values.get(*name), operation)?,
            Err(UnknownOperation(code)) => return Err(refuse_operation(*code)),
        };
        match value {
            Some(value) => values.insert((*name).to_owned(), value),
            None => values.remove(*name),
        };
    }
    Ok(values)
}

fn refuse_operation(code: i8) -> ApiError {
    ApiError::new(ErrorCode::InvalidRequest, format!("Unknown operations type {code}"))
}

fn new_value(
    kind: ConfigResourceType,
    key: &str,
    current: Option<&String>,
    operation: &Operation,
) -> Result<Option<String>, ApiError> {
    let (verb, values) = match operation {
        Operation::Set(value) => return Ok(Some(value.to_string())),
        Operation::Delete => return Ok(None),
        Operation::Append(values) => ("APPEND", values),
        Operation::Subtract(values) => ("SUBTRACT", values),
    };
    let key_definition = config_rules::keys_of(kind).and_then(|keys| keys.get(key));
    let Some(definition) = key_definition.filter(|definition| definition.config_type == ConfigType::List) else {
        return Err(ApiError::new(
            ErrorCode::InvalidConfig,
            format!("Can't {verb} to key {key} because its type is not LIST."),
        ));
    };
    // An empty list in the default counts as one, as an unset one does.
    let old = current.cloned().or_else(|| definition.default_text()).unwrap_or_default();
    let mut list: Vec<&str> = old.split(',').filter(|part| !part.is_empty()).collect();
    for value in values.split(',') {
        match operation {
            Operation::Append(_) if !list.contains(&value) => list.push(value),
            Operation::Subtract(_) => {
                if let Some(at) = list.iter().position(|other| *other == value) {
                    list.remove(at);
                }
            }
            _ => {}
        }
    }
    Ok(Some(list.join(",")))
}

/// The controller's part: the records for one resource.
fn decide_as_controller(
    image: &MetadataImage,
    settings: &ControllerSettings,
    alteration: &Alteration<'_>,
) -> Result<Vec<VersionedRecord>, ApiError> {
    let resource = alteration.resource();
    if resource.kind == ConfigResourceType::BROKER_LOGGER {
        return Ok(Vec::new());
    }
    let values = new_values(image, &resource, alteration)?;
    let empty = BTreeMap::new();
    let current = image.configs.get(&resource).map_or(&empty, |configs| &**configs);

    // What is named in the request, then what it leaves out.
    let named = alteration.operations.iter().map(|(name, _)| (*name, values.get(*name)));
    let left_out = current.keys().filter(|key| !values.contains_key(*key)).map(|key| (key.as_str(), None));
    let mut changes: Vec<(&str, Option<&String>)> = named
        // Brokers reload a value even when it is set to what it was.
        .filter(|(name, value)| current.get(*name) != *value || resource.kind == ConfigResourceType::BROKER)
        .collect();
    let more: Vec<_> = left_out.filter(|(key, _)| !changes.iter().any(|(name, _)| name == key)).collect();
    changes.extend(more);

    for (name, value) in &changes {
        check_change(image, &resource, name, value.map(String::as_str))?;
    }
    config_rules::validate(settings, resource.kind, &resource.name, &values)?;
    config_rules::check_existence(image, resource.kind, &resource.name)?;
    Ok(changes
        .into_iter()
        .map(|(name, value)| {
            VersionedRecord::lowest(ConfigRecord {
                resource_type: resource.kind.0,
                resource_name: resource.name.clone(),
                name: name.to_owned(),
                value: value.cloned(),
            })
        })
        .collect())
}

/// Changes that are not allowed whatever the value.
fn check_change(
    image: &MetadataImage,
    resource: &ConfigResource,
    name: &str,
    value: Option<&str>,
) -> Result<(), ApiError> {
    let invalid = |message: String| Err(ApiError::new(ErrorCode::InvalidConfig, message));
    let of_broker = resource.kind == ConfigResourceType::BROKER;
    if of_broker && name == MIN_INSYNC_REPLICAS && elr_enabled(image) {
        if !resource.name.is_empty() {
            return invalid(format!("Broker-level {name} cannot be altered while ELR is enabled."));
        }
        if value.is_none() {
            return invalid(format!("Cluster-level {name} cannot be removed while ELR is enabled."));
        }
    }
    if of_broker
        && name == CORDONED_LOG_DIRS
        && !MetadataVersion(image.features.metadata_version).has_cordoned_log_dirs()
    {
        return invalid(format!(
            "The {name} configuration value cannot be set because it requires metadata.version >= 4.3-IV0"
        ));
    }
    // Java counts UTF-16 units.
    if value.is_some_and(|value| value.encode_utf16().count() > MAX_VALUE_SIZE) {
        return invalid(format!(
            "The configuration value cannot be added because it exceeds the maximum value size of {MAX_VALUE_SIZE} bytes."
        ));
    }
    Ok(())
}

fn elr_enabled(image: &MetadataImage) -> bool {
    image.features.level(FeaturesImage::ELIGIBLE_LEADER_REPLICAS) > 0
}

/// A changed `min.insync.replicas` makes the eligible leader replicas meaningless (KIP-966).
fn clear_elr_records(records: &[VersionedRecord]) -> Vec<VersionedRecord> {
    records
        .iter()
        .filter_map(|record| match &record.record {
            crate::metadata::records::MetadataRecord::Config(config) if config.name == MIN_INSYNC_REPLICAS => {
                let of_topic = config.resource_type == ConfigResourceType::TOPIC.0;
                let topic_name = if of_topic { config.resource_name.clone() } else { String::new() };
                Some(VersionedRecord::lowest(ClearElrRecord { topic_name }))
            }
            _ => None,
        })
        .collect()
}

/// Checks the configurations of a topic that is being created, and clears nobody's ELR: it has none.
pub(super) fn validate_new_topic(
    image: &MetadataImage,
    settings: &ControllerSettings,
    topic: &str,
    configs: &BTreeMap<String, String>,
) -> Result<(), ApiError> {
    let resource = ConfigResource::topic(topic);
    for (name, value) in configs {
        check_change(image, &resource, name, Some(value))?;
    }
    config_rules::validate(settings, resource.kind, topic, configs)
}

#[cfg(test)]
mod tests;
