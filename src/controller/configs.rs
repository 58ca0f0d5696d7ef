//! IncrementalAlterConfigs and AlterConfigs: what is set of topics, brokers, groups and client metrics.
//!
//! What may be set is decided by `config::alter`; here resources are told apart, and their existence is checked. They
//! stand for themselves: one that is refused does not hold up the others. Answers are in the request's order.
//!
//! Two things are not as in Kafka, whose controller falls over an operation it does not know, and which never answers an
//! AlterConfigs in which a resource stands twice: here they are refused.

use std::collections::BTreeMap;

use kafka_protocol::messages::alter_configs_response::AlterConfigsResourceResponse as AlterResult;
use kafka_protocol::messages::incremental_alter_configs_response::AlterConfigsResourceResponse as IncrementalResult;
use kafka_protocol::messages::{
    AlterConfigsRequest, AlterConfigsResponse, IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse,
};
use kafka_protocol::protocol::StrBytes;

use super::decision::{ApiError, Decision, MAX_RECORDS_PER_REQUEST};
use super::settings::ControllerSettings;
use crate::config::alter::{self, AlterError, Alteration, AlteredResource, Changes};
use crate::config::dynamic::ConfigMap;
use crate::metadata::image::{ConfigResource, ConfigResourceType, MetadataImage};
use crate::metadata::records::{ClearElrRecord, ConfigRecord, MetadataRecord, VersionedRecord};
use crate::metadata::topic_name;
use crate::protocol::errors::ErrorCode;
use crate::types::BrokerId;

/// A resource of a request, in the one form that both kinds of request have.
struct ResourceRequest<'a> {
    kind: ConfigResourceType,
    name: &'a StrBytes,
    alterations: Vec<Alteration<'a>>,
    /// What is not named is to be deleted.
    replaces: bool,
}

/// Decides on an IncrementalAlterConfigs request (KIP-339).
pub fn incremental_alter_configs(
    image: &MetadataImage,
    settings: &ControllerSettings,
    request: &IncrementalAlterConfigsRequest,
) -> Decision<IncrementalAlterConfigsResponse> {
    let requests: Vec<ResourceRequest<'_>> = request
        .resources
        .iter()
        .map(|resource| {
            let alterations = resource.configs.iter().map(|config| Alteration {
                name: &config.name,
                operation: config.config_operation,
                value: config.value.as_deref(),
            });
            ResourceRequest {
                kind: ConfigResourceType(resource.resource_type),
                name: &resource.resource_name,
                alterations: alterations.collect(),
                replaces: false,
            }
        })
        .collect();
    let (records, outcomes) = decide_all(image, settings, &requests);
    let responses = requests.iter().zip(outcomes).map(|(request, (code, message))| {
        IncrementalResult::default()
            .with_error_code(code)
            .with_error_message(message)
            .with_resource_type(request.kind.0)
            .with_resource_name(request.name.clone())
    });
    Decision {
        response: IncrementalAlterConfigsResponse::default().with_responses(responses.collect()),
        records: if request.validate_only { Vec::new() } else { records },
    }
}

/// Decides on an AlterConfigs request, which replaces all that is set of its resources.
pub fn alter_configs(
    image: &MetadataImage,
    settings: &ControllerSettings,
    request: &AlterConfigsRequest,
) -> Decision<AlterConfigsResponse> {
    let requests: Vec<ResourceRequest<'_>> = request
        .resources
        .iter()
        .map(|resource| {
            let alterations = resource.configs.iter().map(|config| Alteration {
                name: &config.name,
                operation: alter::SET,
                value: config.value.as_deref(),
            });
            ResourceRequest {
                kind: ConfigResourceType(resource.resource_type),
                name: &resource.resource_name,
                alterations: alterations.collect(),
                replaces: true,
            }
        })
        .collect();
    let (records, outcomes) = decide_all(image, settings, &requests);
    let responses = requests.iter().zip(outcomes).map(|(request, (code, message))| {
        AlterResult::default()
            .with_error_code(code)
            .with_error_message(message)
            .with_resource_type(request.kind.0)
            .with_resource_name(request.name.clone())
    });
    Decision {
        response: AlterConfigsResponse::default().with_responses(responses.collect()),
        records: if request.validate_only { Vec::new() } else { records },
    }
}

/// The records of all that is accepted, and what became of each resource, in the order of the request.
fn decide_all(
    image: &MetadataImage,
    settings: &ControllerSettings,
    requests: &[ResourceRequest<'_>],
) -> (Vec<VersionedRecord>, Vec<(i16, Option<StrBytes>)>) {
    let mut times: BTreeMap<(i8, &str), usize> = BTreeMap::new();
    for request in requests {
        *times.entry((request.kind.0, request.name)).or_default() += 1;
    }
    let mut records = Vec::new();
    let mut outcomes: Vec<Result<(), ApiError>> = requests
        .iter()
        .map(|request| {
            if times[&(request.kind.0, &**request.name)] > 1 {
                return Err(ApiError::new(ErrorCode::InvalidRequest, "Each resource must appear at most once."));
            }
            records.extend(decide(image, settings, request)?);
            Ok(())
        })
        .collect();
    if image.elr_enabled() {
        let clear: Vec<_> = records.iter().filter_map(clear_elr).collect();
        records.extend(clear);
    }
    if records.len() > MAX_RECORDS_PER_REQUEST {
        records.clear();
        for outcome in outcomes.iter_mut().filter(|outcome| outcome.is_ok()) {
            *outcome = Err(ApiError::too_many_records());
        }
    }
    let on_wire = |outcome| match outcome {
        Ok(()) => (0, None),
        Err(error @ ApiError { code, .. }) => (code.code(), error.wire_message()),
    };
    (records, outcomes.into_iter().map(on_wire).collect())
}

/// The records for one resource.
fn decide(
    image: &MetadataImage,
    settings: &ControllerSettings,
    request: &ResourceRequest<'_>,
) -> Result<Vec<VersionedRecord>, ApiError> {
    alter::check_alterations(&request.alterations)?;
    let broker = &settings.broker;
    let name: &str = request.name;
    let altered = match request.kind {
        ConfigResourceType::TOPIC => AlteredResource::Topic { broker },
        ConfigResourceType::BROKER => AlteredResource::Broker {
            name,
            broker,
            elr_enabled: image.elr_enabled(),
            has_cordoned_log_dirs: image.metadata_version().has_cordoned_log_dirs(),
        },
        ConfigResourceType::GROUP => AlteredResource::Group { name, broker },
        ConfigResourceType::CLIENT_METRICS => AlteredResource::ClientMetrics { name },
        // A broker's loggers are the broker's own affair; nothing of them is recorded.
        kind => {
            return Err(ApiError::new(ErrorCode::InvalidRequest, format!("Unknown resource type {}", kind.0)));
        }
    };
    let resource = ConfigResource { kind: request.kind, name: name.to_owned() };
    let existing = image.configs.of(&resource);
    let proposal = match request.replaces {
        true => alter::replace(altered, existing, &request.alterations)?,
        false => alter::incremental(altered, existing, &request.alterations)?,
    };
    check_topic_name(request.kind, name)?;
    let changes = proposal.check()?;
    check_existence(image, request.kind, name)?;
    Ok(to_records(&resource, changes))
}

impl From<AlterError> for ApiError {
    fn from(error: AlterError) -> ApiError {
        match error {
            AlterError::InvalidConfig(message) => ApiError::new(ErrorCode::InvalidConfig, message),
            AlterError::InvalidRequest(message) => ApiError::new(ErrorCode::InvalidRequest, message),
        }
    }
}

fn check_topic_name(kind: ConfigResourceType, name: &str) -> Result<(), ApiError> {
    if kind != ConfigResourceType::TOPIC {
        return Ok(());
    }
    if name.is_empty() {
        return Err(ApiError::new(ErrorCode::InvalidRequest, "Default topic resources are not allowed."));
    }
    topic_name::validate(name).map_err(|error| ApiError::new(ErrorCode::InvalidTopicException, error.to_string()))
}

/// Whether the resource is there of which something is to be set. Groups and client metrics need not be.
fn check_existence(image: &MetadataImage, kind: ConfigResourceType, name: &str) -> Result<(), ApiError> {
    match kind {
        ConfigResourceType::TOPIC if image.topic(name).is_none() => {
            Err(ApiError::new(ErrorCode::UnknownTopicOrPartition, format!("The topic '{name}' does not exist.")))
        }
        ConfigResourceType::BROKER if !name.is_empty() => {
            let known = |id| image.broker(id).is_some() || image.cluster.controllers.contains_key(&id);
            match name.parse().map(BrokerId) {
                Ok(id) if known(id) => Ok(()),
                _ => Err(ApiError::new(ErrorCode::BrokerIdNotRegistered, format!("No node with id {name} found."))),
            }
        }
        _ => Ok(()),
    }
}

/// Records of what is to be written of a resource.
pub(super) fn to_records(resource: &ConfigResource, changes: Changes) -> Vec<VersionedRecord> {
    changes
        .into_iter()
        .map(|(name, value)| {
            VersionedRecord::lowest(ConfigRecord {
                resource_type: resource.kind.0,
                resource_name: resource.name.clone(),
                name,
                value,
            })
        })
        .collect()
}

/// A changed `min.insync.replicas` makes the eligible leader replicas meaningless (KIP-966): the record that says so.
fn clear_elr(record: &VersionedRecord) -> Option<VersionedRecord> {
    match &record.record {
        MetadataRecord::Config(config) if config.name == "min.insync.replicas" => {
            let of_topic = config.resource_type == ConfigResourceType::TOPIC.0;
            let topic_name = if of_topic { config.resource_name.clone() } else { String::new() };
            Some(VersionedRecord::lowest(ClearElrRecord { topic_name }))
        }
        _ => None,
    }
}

/// What is to be set of a topic that is being created.
pub(super) fn of_new_topic(
    settings: &ControllerSettings,
    configs: &[(&str, Option<&str>)],
) -> Result<ConfigMap, ApiError> {
    Ok(alter::create_topic(configs, &settings.broker)?)
}
