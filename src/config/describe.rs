//! Descriptions of configurations, as DescribeConfigs answers them: every key of a resource with its value, where
//! that came from, and what would be used in its place.
//!
//! Pure functions; the handler copies an entry into its answer and leaves out what was not asked for. `wanted` says
//! which keys were.

use std::collections::BTreeMap;

use super::broker::BrokerConfig;
use super::dynamic::{ConfigMap, DynamicBrokerConfig};
use super::group;
use super::keys::{
    ConfigDef, ConfigKey, UpdateMode, broker_dynamic_only_keys, broker_keys, client_metrics_keys, group_keys,
    topic_keys,
};
use super::synonyms::{broker_synonyms, topic_values};
use super::value::{ConfigType, ConfigValue};

/// Where a value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConfigSource {
    TopicConfig,
    DynamicBrokerConfig,
    DynamicDefaultBrokerConfig,
    StaticBrokerConfig,
    DefaultConfig,
    ClientMetricsConfig,
    GroupConfig,
}

impl ConfigSource {
    /// The source's number in a description.
    pub fn id(self) -> i8 {
        match self {
            ConfigSource::TopicConfig => 1,
            ConfigSource::DynamicBrokerConfig => 2,
            ConfigSource::DynamicDefaultBrokerConfig => 3,
            ConfigSource::StaticBrokerConfig => 4,
            ConfigSource::DefaultConfig => 5,
            ConfigSource::ClientMetricsConfig => 7,
            ConfigSource::GroupConfig => 8,
        }
    }
}

/// One of the places where a key's value is looked for, with what was found there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigSynonym {
    pub name: String,
    /// `None` for a sensitive key.
    pub value: Option<String>,
    pub source: ConfigSource,
}

/// One key of a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigEntry {
    pub name: String,
    /// `None`: not set, or sensitive.
    pub value: Option<String>,
    pub source: ConfigSource,
    pub read_only: bool,
    pub sensitive: bool,
    /// In order of precedence; the first is the one in force.
    pub synonyms: Vec<ConfigSynonym>,
    /// `None`: an unknown key.
    pub config_type: Option<ConfigType>,
    pub documentation: Option<&'static str>,
}

/// A topic of which `overrides` are set.
pub fn topic(overrides: &ConfigMap, broker: &DynamicBrokerConfig, wanted: impl Fn(&str) -> bool) -> Vec<ConfigEntry> {
    let defaults = topic_values(&broker.current().values).unwrap_or_default();
    let mut entries = Vec::new();
    for key in topic_keys().iter().filter(|key| wanted(key.name)) {
        let given = overrides.get(key.name);
        // internal keys show only when they are set
        if key.internal && given.is_none() {
            continue;
        }
        let value = value_text(key, given, defaults.get(key.name));
        let mut synonyms = match key.synonyms.first() {
            Some(synonym) => broker_layers(synonym.name, broker, false),
            None => Vec::new(),
        };
        if given.is_some() {
            let source = ConfigSource::TopicConfig;
            synonyms.insert(0, ConfigSynonym { name: key.name.to_owned(), value: value.clone(), source });
        }
        entries.push(known(key, value, synonyms, false));
    }
    entries.extend(unknown(overrides, topic_keys(), &wanted, ConfigSource::TopicConfig));
    entries
}

/// This broker.
pub fn broker(broker: &DynamicBrokerConfig, wanted: impl Fn(&str) -> bool) -> Vec<ConfigEntry> {
    let current: &BrokerConfig = broker.current();
    let shown = broker_keys().iter().filter(|key| !key.internal && wanted(key.name));
    let mut entries: Vec<ConfigEntry> = shown
        .map(|key| broker_entry(key.name, current.values.get(key.name).map(ConfigValue::to_text), broker))
        .collect();
    for (name, text) in current.originals.iter() {
        let shown = broker_keys().get(name).is_some_and(|key| !key.internal);
        if !shown && wanted(name) {
            entries.push(broker_entry(name, Some(text.clone()), broker));
        }
    }
    entries
}

/// The dynamic defaults of all brokers: only what is set.
pub fn broker_defaults(broker: &DynamicBrokerConfig, wanted: impl Fn(&str) -> bool) -> Vec<ConfigEntry> {
    let set = broker.cluster_default.iter().filter(|(name, _)| wanted(name));
    set.map(|(name, text)| {
        let mut entry = broker_entry(name, Some(text.clone()), broker);
        entry.synonyms.retain(|synonym| synonym.source == ConfigSource::DynamicDefaultBrokerConfig);
        entry.source = entry.synonyms.first().map_or(ConfigSource::DefaultConfig, |synonym| synonym.source);
        entry
    })
    .collect()
}

/// A group of which `overrides` are set.
pub fn group(overrides: &ConfigMap, broker: &DynamicBrokerConfig, wanted: impl Fn(&str) -> bool) -> Vec<ConfigEntry> {
    let defaults = group::default_values(&broker.current().values);
    let mut entries = Vec::new();
    for key in group_keys().iter().filter(|key| wanted(key.name)) {
        let given = overrides.get(key.name);
        let value = value_text(key, given, defaults.get(key.name));
        let mut synonyms = match key.synonyms.first() {
            Some(synonym) => broker_layers(synonym.name, broker, false),
            None => key
                .default_text()
                .map(|text| ConfigSynonym {
                    name: key.name.to_owned(),
                    value: Some(text),
                    source: ConfigSource::DefaultConfig,
                })
                .into_iter()
                .collect(),
        };
        if given.is_some() {
            let source = ConfigSource::GroupConfig;
            synonyms.insert(0, ConfigSynonym { name: key.name.to_owned(), value: value.clone(), source });
        }
        entries.push(known(key, value, synonyms, false));
    }
    entries.extend(unknown(overrides, group_keys(), &wanted, ConfigSource::GroupConfig));
    entries
}

/// A subscription to client metrics of which `overrides` are set.
pub fn client_metrics(overrides: &ConfigMap, wanted: impl Fn(&str) -> bool) -> Vec<ConfigEntry> {
    let entry = |key: &'static ConfigKey| {
        let given = overrides.get(key.name);
        let default = key.default.as_ref().and_then(Option::as_ref);
        let value = value_text(key, given, default);
        let synonyms = given.map(|_| ConfigSynonym {
            name: key.name.to_owned(),
            value: value.clone(),
            source: ConfigSource::ClientMetricsConfig,
        });
        known(key, value, synonyms.into_iter().collect(), false)
    };
    client_metrics_keys().iter().filter(|key| wanted(key.name)).map(entry).collect()
}

/// A topic just created, as CreateTopics answers it: sorted by name, without synonyms and documentation, and with
/// texts as they were given.
pub fn created_topic(overrides: &ConfigMap, broker: &DynamicBrokerConfig) -> Vec<ConfigEntry> {
    let mut entries = BTreeMap::new();
    for key in topic_keys().iter() {
        let given = overrides.get(key.name);
        if key.internal && given.is_none() {
            continue;
        }
        let layers: [(&ConfigMap, ConfigSource); 3] = [
            (&broker.per_broker, ConfigSource::DynamicBrokerConfig),
            (&broker.cluster_default, ConfigSource::DynamicDefaultBrokerConfig),
            (&broker.fixed.originals, ConfigSource::StaticBrokerConfig),
        ];
        let set = layers.into_iter().find_map(|(layer, source)| {
            key.synonyms.iter().find_map(|synonym| {
                let text = layer.get(synonym.name)?;
                match synonym.factor {
                    1 => Some((text.clone(), source)),
                    factor => Some(((text.trim().parse::<i64>().ok()? * factor).to_string(), source)),
                }
            })
        });
        let (value, source) = match (given, set) {
            (Some(text), _) => (Some(text.clone()), ConfigSource::TopicConfig),
            (None, Some((text, source))) => (Some(text), source),
            (None, None) => (key.default_text(), ConfigSource::DefaultConfig),
        };
        let mut entry = known(key, value, Vec::new(), false);
        entry.source = source;
        entry.documentation = None;
        entries.insert(key.name, entry);
    }
    entries.into_values().collect()
}

/// The override, or else the default; an override that cannot be read is shown as it is.
fn value_text(key: &ConfigKey, given: Option<&String>, default: Option<&ConfigValue>) -> Option<String> {
    match given {
        Some(text) => match key.parse(Some(text)) {
            Ok(value) => value.as_ref().map(ConfigValue::to_text),
            Err(_) => Some(text.clone()),
        },
        None => default.map(ConfigValue::to_text),
    }
}

fn known(key: &'static ConfigKey, value: Option<String>, synonyms: Vec<ConfigSynonym>, read_only: bool) -> ConfigEntry {
    ConfigEntry {
        name: key.name.to_owned(),
        value,
        source: synonyms.first().map_or(ConfigSource::DefaultConfig, |synonym| synonym.source),
        read_only,
        sensitive: key.is_sensitive(),
        synonyms,
        config_type: Some(key.config_type),
        documentation: Some(&key.documentation),
    }
}

/// Keys that are set though this version does not know them. They might be secrets.
fn unknown(
    overrides: &ConfigMap,
    def: &'static ConfigDef,
    wanted: &impl Fn(&str) -> bool,
    source: ConfigSource,
) -> Vec<ConfigEntry> {
    let names = overrides.keys().filter(|name| !def.contains(name) && wanted(name));
    names
        .map(|name| ConfigEntry {
            name: name.clone(),
            value: None,
            source,
            read_only: false,
            sensitive: true,
            synonyms: vec![ConfigSynonym { name: name.clone(), value: None, source }],
            config_type: None,
            documentation: None,
        })
        .collect()
}

fn broker_entry(name: &str, value: Option<String>, broker: &DynamicBrokerConfig) -> ConfigEntry {
    let config_type = type_of(name);
    let sensitive = is_sensitive(config_type);
    let key = broker_keys().get(name);
    let is_dynamic =
        broker_dynamic_only_keys().contains(name) || key.is_some_and(|key| key.update_mode != UpdateMode::ReadOnly);
    let synonyms = broker_layers(name, broker, true);
    ConfigEntry {
        name: name.to_owned(),
        value: value.filter(|_| !sensitive),
        source: synonyms.first().map_or(ConfigSource::DefaultConfig, |synonym| synonym.source),
        read_only: !is_dynamic,
        sensitive,
        synonyms,
        config_type,
        documentation: key.map(|key| key.documentation.as_str()),
    }
}

/// The type of a broker's key, with or without a listener's prefix.
fn type_of(name: &str) -> Option<ConfigType> {
    let exact = |name: &str| broker_keys().get(name).or_else(|| broker_dynamic_only_keys().get(name));
    let key = exact(name).or_else(|| broker_synonyms(name, true).into_iter().find_map(|name| broker_keys().get(name)));
    key.map(|key| key.config_type)
}

/// A key of unknown type might be a secret.
fn is_sensitive(config_type: Option<ConfigType>) -> bool {
    matches!(config_type, None | Some(ConfigType::Password))
}

/// What each layer says of a broker's key and its synonyms. Kafka leaves out what stands before the key's own name.
fn broker_layers(name: &str, broker: &DynamicBrokerConfig, match_listener: bool) -> Vec<ConfigSynonym> {
    let names = broker_synonyms(name, match_listener);
    let sensitive = is_sensitive(type_of(name));
    let mut synonyms = Vec::new();
    let layers: [(&ConfigMap, ConfigSource); 3] = [
        (&broker.per_broker, ConfigSource::DynamicBrokerConfig),
        (&broker.cluster_default, ConfigSource::DynamicDefaultBrokerConfig),
        (&broker.fixed.originals, ConfigSource::StaticBrokerConfig),
    ];
    let mut add = |name: &str, text: String, source| {
        let value = Some(text).filter(|_| !sensitive);
        synonyms.push(ConfigSynonym { name: name.to_owned(), value, source });
    };
    for (layer, source) in layers {
        for name in &names {
            if let Some(text) = layer.get(*name) {
                add(name, text.clone(), source);
            }
        }
    }
    for name in &names {
        if let Some(text) = broker_keys().get(name).and_then(ConfigKey::default_text) {
            add(name, text, ConfigSource::DefaultConfig);
        }
    }
    let own = synonyms.iter().position(|synonym| synonym.name == name).unwrap_or(synonyms.len());
    synonyms.split_off(own)
}

#[cfg(test)]
mod tests;
