//! Changes of configurations: what CreateTopics, AlterConfigs and IncrementalAlterConfigs may set.
//!
//! Pure functions from what is set and what is asked to what is to be written, or to the error that Kafka would
//! answer. The caller has checked that the resource exists or may be created, and a topic's name; keys and values are
//! checked here.

use std::collections::HashSet;

use super::client_metrics;
use super::dynamic::{ConfigMap, DynamicBrokerConfig};
use super::group;
use super::java;
use super::keys::{ConfigDef, Values, broker_keys, topic_keys};
use super::synonyms::{check_compaction_lags, topic_values};
use super::value::{ConfigError, ConfigType};

/// A change was refused. The text is for the client.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AlterError {
    /// INVALID_CONFIG
    #[error("{0}")]
    InvalidConfig(String),
    /// INVALID_REQUEST
    #[error("{0}")]
    InvalidRequest(String),
}

impl From<ConfigError> for AlterError {
    fn from(error: ConfigError) -> AlterError {
        AlterError::InvalidConfig(error.0)
    }
}

/// One change of one key, as IncrementalAlterConfigs carries it.
#[derive(Clone, Copy, Debug)]
pub struct Alteration<'a> {
    pub name: &'a str,
    /// 0: set, 1: delete, 2: append to a list, 3: subtract from it.
    pub operation: i8,
    pub value: Option<&'a str>,
}

/// Whose configuration is changed, and what else the decision needs.
#[derive(Clone, Copy, Debug)]
pub enum AlteredResource<'a> {
    Topic {
        broker: &'a DynamicBrokerConfig,
    },
    /// The broker of this name, or (empty) the default of all.
    Broker {
        name: &'a str,
        broker: &'a DynamicBrokerConfig,
        elr_enabled: bool,
        /// Whether `metadata.version` has cordoned log directories.
        has_cordoned_log_dirs: bool,
    },
    Group {
        name: &'a str,
        broker: &'a DynamicBrokerConfig,
    },
    ClientMetrics {
        name: &'a str,
    },
}

/// What is to be written: key and new text, or `None` to delete it.
pub type Changes = Vec<(String, Option<String>)>;

/// Longest text that a value may have, in UTF-16 units.
const MAX_VALUE_LENGTH: usize = i16::MAX as usize;

/// The settings of a topic that is about to be created. Of a key that is given twice the last counts.
pub fn create_topic(configs: &[(&str, Option<&str>)], broker: &DynamicBrokerConfig) -> Result<ConfigMap, AlterError> {
    let without_value: Vec<&str> = configs.iter().filter(|(_, value)| value.is_none()).map(|(name, _)| *name).collect();
    if !without_value.is_empty() {
        let names = without_value.join(",");
        return Err(AlterError::InvalidConfig(format!("Null value not supported for topic configs: {names}")));
    }
    let given = configs.iter().filter_map(|(name, value)| Some(((*name).to_owned(), (*value)?.to_owned())));
    let proposed: ConfigMap = given.collect();
    if proposed.is_empty() {
        return Ok(proposed);
    }
    check_value_lengths(proposed.values())?;
    check_topic(&ConfigMap::new(), &proposed, broker)?;
    Ok(proposed)
}

/// Changes that can be made out; whether they may be made is for [`Proposal::check`] to say. Between the two Kafka looks
/// at a topic's name.
#[derive(Debug)]
pub struct Proposal<'a> {
    resource: AlteredResource<'a>,
    existing: &'a ConfigMap,
    changes: Changes,
}

/// What IncrementalAlterConfigs would change of a resource of which `existing` is set. The alterations have passed
/// [`check_alterations`].
pub fn incremental<'a>(
    resource: AlteredResource<'a>,
    existing: &'a ConfigMap,
    alterations: &[Alteration<'_>],
) -> Result<Proposal<'a>, AlterError> {
    if let AlteredResource::Broker { name, broker, .. } = resource {
        check_broker_name(name, broker)?;
        let proposed = alter_broker(existing, alterations)?;
        // What is taken away leaves what the broker was started with.
        let set = alterations.iter().filter(|alteration| alteration.operation != DELETE);
        let set: Vec<&str> = set.map(|alteration| alteration.name).collect();
        check_broker(name, broker, &proposed, &set)?;
    }
    let mut changes = Changes::new();
    for alteration in alterations {
        let name = alteration.name;
        let current = existing.get(name);
        let new = match (alteration.operation, alteration.value) {
            (SET, Some(value)) => Some(value.to_owned()),
            (APPEND | SUBTRACT, Some(value)) => Some(alter_list(&resource, alteration, current, value)?),
            _ => None,
        };
        if current != new.as_ref() || matches!(resource, AlteredResource::Broker { .. }) {
            changes.push((name.to_owned(), new));
        }
    }
    Proposal::new(resource, existing, changes)
}

/// What AlterConfigs would change of a resource of which `existing` is set: what is not named is deleted. The alterations
/// only set, and have passed [`check_alterations`].
pub fn replace<'a>(
    resource: AlteredResource<'a>,
    existing: &'a ConfigMap,
    alterations: &[Alteration<'_>],
) -> Result<Proposal<'a>, AlterError> {
    let given = alterations.iter().filter_map(|alteration| Some((alteration.name, alteration.value?)));
    let proposed: ConfigMap = given.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    let is_changed = |name: &str| existing.get(name) != proposed.get(name);
    if let AlteredResource::Broker { name, broker, .. } = resource {
        check_broker_name(name, broker)?;
        let changed: Vec<&str> = proposed.keys().map(String::as_str).filter(|name| is_changed(name)).collect();
        check_broker(name, broker, &proposed, &changed)?;
    }
    let is_written = |name: &str| is_changed(name) || matches!(resource, AlteredResource::Broker { .. });
    let mut changes: Changes = alterations
        .iter()
        .filter(|alteration| is_written(alteration.name))
        .map(|alteration| (alteration.name.to_owned(), alteration.value.map(str::to_owned)))
        .collect();
    changes.extend(existing.keys().filter(|name| !proposed.contains_key(*name)).map(|name| (name.clone(), None)));
    Proposal::new(resource, existing, changes)
}

impl<'a> Proposal<'a> {
    fn new(
        resource: AlteredResource<'a>,
        existing: &'a ConfigMap,
        changes: Changes,
    ) -> Result<Proposal<'a>, AlterError> {
        if let AlteredResource::Broker { name, elr_enabled, has_cordoned_log_dirs, .. } = resource {
            check_min_insync_replicas(name, elr_enabled, &changes)?;
            check_cordoned_log_dirs(has_cordoned_log_dirs, &changes)?;
        }
        check_value_lengths(changes.iter().filter_map(|(_, value)| value.as_ref()))?;
        Ok(Proposal { resource, existing, changes })
    }

    /// The changes, if what would then be set is allowed.
    pub fn check(self) -> Result<Changes, AlterError> {
        let mut proposed = self.existing.clone();
        for (name, value) in &self.changes {
            match value {
                Some(value) => proposed.insert(name.clone(), value.clone()),
                None => proposed.remove(name),
            };
        }
        match self.resource {
            AlteredResource::Topic { broker } => check_topic(self.existing, &proposed, broker)?,
            AlteredResource::Broker { .. } => {}
            AlteredResource::Group { name, broker } => group::check(name, &proposed, &broker.current().values)?,
            AlteredResource::ClientMetrics { name } => client_metrics::check(name, &proposed)?,
        }
        Ok(self.changes)
    }
}

pub const SET: i8 = 0;
pub(super) const DELETE: i8 = 1;
pub(super) const APPEND: i8 = 2;
const SUBTRACT: i8 = 3;

/// What is checked first, whatever the resource is.
pub fn check_alterations(alterations: &[Alteration<'_>]) -> Result<(), AlterError> {
    let mut names = HashSet::new();
    if !alterations.iter().all(|alteration| names.insert(alteration.name)) {
        return Err(AlterError::InvalidRequest("Error due to duplicate config keys".to_owned()));
    }
    let without_value: Vec<&str> = alterations
        .iter()
        .filter(|alteration| alteration.operation != DELETE && alteration.value.is_none())
        .map(|alteration| alteration.name)
        .collect();
    if !without_value.is_empty() {
        let names = without_value.join(", ");
        return Err(AlterError::InvalidRequest(format!("Null value not supported for : {names}")));
    }
    // Kafka says so for brokers; its controller fails over an unknown operation on a topic
    match alterations.iter().find(|alteration| !(SET..=SUBTRACT).contains(&alteration.operation)) {
        Some(alteration) => {
            Err(AlterError::InvalidRequest(format!("Unknown operations type {}", alteration.operation)))
        }
        None => Ok(()),
    }
}

/// Appends to or subtracts from what is set, or else the default.
fn alter_list(
    resource: &AlteredResource<'_>,
    alteration: &Alteration<'_>,
    current: Option<&String>,
    value: &str,
) -> Result<String, AlterError> {
    let def = match resource {
        AlteredResource::Topic { .. } => topic_keys(),
        AlteredResource::Broker { .. } => broker_keys(),
        // Kafka's controller does not know the types of the others
        AlteredResource::Group { .. } | AlteredResource::ClientMetrics { .. } => return Err(not_a_list(alteration)),
    };
    let Some(default) = list_default(def, alteration.name) else { return Err(not_a_list(alteration)) };
    let current = current.map_or(default.as_str(), String::as_str);
    Ok(alter_items(current, value, alteration.operation))
}

fn alter_items(current: &str, value: &str, operation: i8) -> String {
    let mut items: Vec<&str> = current.split(',').filter(|item| !item.is_empty()).collect();
    for item in value.split(',') {
        match (items.iter().position(|present| *present == item), operation) {
            (None, APPEND) => items.push(item),
            (Some(index), SUBTRACT) => {
                items.remove(index);
            }
            _ => {}
        }
    }
    items.join(",")
}

fn not_a_list(alteration: &Alteration<'_>) -> AlterError {
    let operation = if alteration.operation == APPEND { "APPEND" } else { "SUBTRACT" };
    let name = alteration.name;
    AlterError::InvalidConfig(format!("Can't {operation} to key {name} because its type is not LIST."))
}

/// The default of a key that is a list, as text.
fn list_default(def: &ConfigDef, name: &str) -> Option<String> {
    let key = def.get(name).filter(|key| key.config_type == ConfigType::List)?;
    Some(key.default_text().unwrap_or_default())
}

fn check_value_lengths<'a>(mut values: impl Iterator<Item = &'a String>) -> Result<(), AlterError> {
    if values.any(|value| value.encode_utf16().count() > MAX_VALUE_LENGTH) {
        return Err(AlterError::InvalidConfig(
            "The configuration value cannot be added because it exceeds the maximum value size of 32767 bytes."
                .to_owned(),
        ));
    }
    Ok(())
}

/// With eligible leader replicas (KIP-966) the cluster's minimum must be one number that every broker agrees on.
fn check_min_insync_replicas(name: &str, elr_enabled: bool, changes: &Changes) -> Result<(), AlterError> {
    const KEY: &str = "min.insync.replicas";
    let change = changes.iter().find(|(key, _)| key == KEY).filter(|_| elr_enabled);
    match change {
        Some(_) if !name.is_empty() => {
            Err(AlterError::InvalidConfig(format!("Broker-level {KEY} cannot be altered while ELR is enabled.")))
        }
        Some((_, None)) => {
            Err(AlterError::InvalidConfig(format!("Cluster-level {KEY} cannot be removed while ELR is enabled.")))
        }
        _ => Ok(()),
    }
}

/// Before the controller can be told of them, log directories are only cordoned at a start (KIP-1066).
fn check_cordoned_log_dirs(has_cordoned_log_dirs: bool, changes: &Changes) -> Result<(), AlterError> {
    const KEY: &str = "cordoned.log.dirs";
    match changes.iter().any(|(key, _)| key == KEY) && !has_cordoned_log_dirs {
        true => Err(AlterError::InvalidConfig(format!(
            "The {KEY} configuration value cannot be set because it requires metadata.version >= 4.3-IV0"
        ))),
        false => Ok(()),
    }
}

/// Checks all that is to be set of a topic.
fn check_topic(existing: &ConfigMap, proposed: &ConfigMap, broker: &DynamicBrokerConfig) -> Result<(), AlterError> {
    check_names("topic config name", proposed, topic_keys(), proposed.len())?;
    let mut values = topic_values(&broker.current().values)?;
    for key in topic_keys().iter() {
        if let Some(text) = proposed.get(key.name) {
            values.set(key.name, key.parse(Some(text))?);
        }
    }
    check_compaction_lags(&values)?;
    check_tiered_storage(existing, &values, broker)
}

/// Names the first unknown key that Kafka would come upon, in a map of so many entries.
pub(super) fn check_names(what: &str, proposed: &ConfigMap, def: &ConfigDef, entries: usize) -> Result<(), AlterError> {
    let mut unknown: Vec<&str> = proposed.keys().map(String::as_str).filter(|name| !def.contains(name)).collect();
    java::hash_order(&mut unknown, java::grown_table(entries));
    match unknown.first() {
        Some(name) => Err(AlterError::InvalidConfig(format!("Unknown {what}: {name}"))),
        None => Ok(()),
    }
}

fn check_tiered_storage(existing: &ConfigMap, values: &Values, broker: &DynamicBrokerConfig) -> Result<(), AlterError> {
    let invalid = |text: &str| Err(AlterError::InvalidConfig(text.to_owned()));
    if !values.boolean("remote.storage.enable") {
        let was_enabled = existing.get("remote.storage.enable").is_some_and(|text| text.eq_ignore_ascii_case("true"));
        if was_enabled && !values.boolean("remote.log.delete.on.disable") {
            return invalid(
                "It is invalid to disable remote storage without deleting remote data. If you want to keep the remote data \
                 and turn to read only, please set `remote.storage.enable=true,remote.log.copy.disable=true`. If you want to \
                 disable remote storage and delete all remote data, please set \
                 `remote.storage.enable=false,remote.log.delete.on.disable=true`.",
            );
        }
        return Ok(());
    }
    if !broker.current().values.boolean("remote.log.storage.system.enable") {
        return invalid(
            "Tiered Storage functionality is disabled in the broker. Topic cannot be configured with remote log storage.",
        );
    }
    let policy = values.list("cleanup.policy");
    if !policy.is_empty() && policy != ["delete"] {
        return invalid(
            "Remote log storage only supports topics with cleanup.policy=delete or cleanup.policy being an empty list.",
        );
    }
    let copies = !values.boolean("remote.log.copy.disable");
    for unit in ["bytes", "ms"] {
        let (name, local_name) = (format!("retention.{unit}"), format!("local.retention.{unit}"));
        let (total, local) = (values.long(&name), values.long(&local_name));
        if local == -2 {
            continue;
        }
        // a size below -1 is no limit either, a time cannot be below
        if total > -1 && local == -1 {
            let reason = format!("Value must not be -1 as {name} value is set as {total}.");
            return Err(ConfigError::invalid(&local_name, local, &reason).into());
        }
        if total > -1 && local > total {
            let reason = format!("Value must not be more than {name} property value: {total}");
            return Err(ConfigError::invalid(&local_name, local, &reason).into());
        }
        if !copies && local != total {
            return invalid(&format!(
                "When `remote.log.copy.disable` is set to true, the `{local_name}` and `{name}` must be set to the identical \
                 value because there will be no more logs copied to the remote storage."
            ));
        }
    }
    Ok(())
}

fn check_broker_name(name: &str, broker: &DynamicBrokerConfig) -> Result<(), AlterError> {
    if name.is_empty() {
        return Ok(());
    }
    let Some(id) = java::parse_integer::<i32>(name) else {
        return Err(AlterError::InvalidRequest(format!("Node id must be an integer, but it is: {name}")));
    };
    let expected = broker.fixed.node_id.0;
    if id != expected {
        return Err(AlterError::InvalidRequest(format!(
            "Unexpected broker id, expected {expected}, but received {name}"
        )));
    }
    Ok(())
}

fn check_broker(
    name: &str,
    broker: &DynamicBrokerConfig,
    proposed: &ConfigMap,
    changed: &[&str],
) -> Result<(), AlterError> {
    let checked = broker.check(proposed, !name.is_empty()).and_then(|()| broker.check_support(changed));
    checked.map_err(|ConfigError(text)| AlterError::InvalidRequest(text))
}

/// What would be set of a broker, by the rules of the broker itself; the controller's follow.
fn alter_broker(existing: &ConfigMap, alterations: &[Alteration<'_>]) -> Result<ConfigMap, AlterError> {
    let mut proposed = existing.clone();
    for &Alteration { name, operation, value } in alterations {
        let value = value.unwrap_or_default();
        match operation {
            SET => {
                proposed.insert(name.to_owned(), value.to_owned());
            }
            DELETE => {
                proposed.remove(name);
            }
            _ => {
                let Some(key) = broker_keys().get(name) else {
                    return Err(AlterError::InvalidConfig(format!("Unknown config name: {name}")));
                };
                if key.config_type != ConfigType::List {
                    let operation = if operation == APPEND { "append" } else { "subtract" };
                    return Err(AlterError::InvalidConfig(format!(
                        "Config value {operation} is not allowed for config key: {name}"
                    )));
                }
                let current = proposed.get(name).cloned().or_else(|| key.default_text()).unwrap_or_default();
                proposed.insert(name.to_owned(), alter_items(&current, value, operation));
            }
        }
    }
    Ok(proposed)
}

#[cfg(test)]
mod tests;
