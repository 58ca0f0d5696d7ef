//! The broker's loggers as a resource, BROKER_LOGGER (KIP-412): they are described and changed where they are, and the
//! controller does not hear of it.

use kafka_protocol::messages::describe_configs_response::DescribeConfigsResourceResult;
use kafka_protocol::messages::incremental_alter_configs_request::AlterConfigsResource;
use kafka_protocol::protocol::StrBytes;
use tracing::warn;

use crate::config::alter::Alteration;
use crate::config::loggers;
use crate::protocol::ApiError;
use crate::telemetry::{log_levels, set_log_level};
use crate::types::BrokerId;

/// `config_source` of a logger's level.
const DYNAMIC_BROKER_LOGGER_CONFIG: i8 = 6;

/// Every wanted logger with the level in force.
pub fn describe(wanted: impl Fn(&str) -> bool) -> Vec<DescribeConfigsResourceResult> {
    let levels = log_levels().into_iter().filter(|(name, _)| wanted(name));
    levels
        .map(|(name, level)| {
            DescribeConfigsResourceResult::default()
                .with_name(StrBytes::from_string(name))
                .with_value(Some(StrBytes::from_static_str(level.name())))
                .with_config_source(DYNAMIC_BROKER_LOGGER_CONFIG)
        })
        .collect()
}

/// Changes levels, or only checks the request.
pub fn alter(this_broker: BrokerId, resource: &AlterConfigsResource, validate_only: bool) -> Result<(), ApiError> {
    let alterations: Vec<Alteration<'_>> = resource
        .configs
        .iter()
        .map(|config| Alteration {
            name: &config.name,
            operation: config.config_operation,
            value: config.value.as_deref(),
        })
        .collect();
    let known = log_levels();
    let exists = |logger: &str| known.contains_key(logger);
    let changes = loggers::alter(&resource.resource_name, this_broker, exists, &alterations)?;
    if validate_only {
        return Ok(());
    }
    for (logger, level) in changes {
        let done = set_log_level(logger, level);
        warn!(logger, level = level.map(|level| level.name()), done, "log level changed");
    }
    Ok(())
}
