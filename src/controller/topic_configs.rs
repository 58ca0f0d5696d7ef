//! The value that counts of a topic's setting, and where it comes from.
//!
//! In order: what is set of the topic, of this broker, as the cluster's default, in the properties file, and last the
//! default. Layers below the topic are asked for the key's broker synonyms.

use std::collections::BTreeMap;

use super::settings::ControllerSettings;
use crate::config::keys::{ConfigKey, topic_keys};
use crate::metadata::image::{ConfigMap, ConfigResource, MetadataImage};

/// Where a value comes from, numbered as on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConfigSource {
    DynamicTopic = 1,
    DynamicBroker = 2,
    DynamicDefaultBroker = 3,
    StaticBroker = 4,
    Default = 5,
}

/// A setting with the value that counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EffectiveConfig {
    pub name: &'static str,
    pub value: Option<String>,
    pub source: ConfigSource,
    pub is_sensitive: bool,
}

/// The layers of configuration under the topics, as one image has them.
pub struct TopicConfigs<'a> {
    image: &'a MetadataImage,
    broker: Option<&'a ConfigMap>,
    cluster: Option<&'a ConfigMap>,
    settings: &'a ControllerSettings,
}

impl<'a> TopicConfigs<'a> {
    pub fn new(image: &'a MetadataImage, settings: &'a ControllerSettings) -> TopicConfigs<'a> {
        TopicConfigs {
            image,
            broker: image.configs.get(&ConfigResource::broker(settings.node_id)).map(|configs| &**configs),
            cluster: image.configs.get(&ConfigResource::cluster()).map(|configs| &**configs),
            settings,
        }
    }

    /// All settings of a topic with the given overrides, in the order of their names. Internal ones only if they are
    /// set.
    pub fn all(&self, topic: &BTreeMap<String, String>) -> Vec<EffectiveConfig> {
        let mut configs: Vec<EffectiveConfig> = topic_keys()
            .iter()
            .filter(|key| !key.internal || topic.contains_key(key.name))
            .map(|key| self.resolve(key, topic))
            .collect();
        configs.sort_by_key(|config| config.name);
        configs
    }

    /// `min.insync.replicas` of a topic.
    pub fn min_insync_replicas(&self, topic: &str) -> usize {
        self.value(topic, "min.insync.replicas").and_then(|value| value.trim().parse().ok()).unwrap_or(1)
    }

    /// `unclean.leader.election.enable` of a topic.
    pub fn unclean_leader_election(&self, topic: &str) -> bool {
        self.value(topic, "unclean.leader.election.enable").is_some_and(|value| value.trim() == "true")
    }

    fn value(&self, topic: &str, key: &str) -> Option<String> {
        let empty = BTreeMap::new();
        let topic = self.image.configs.get(&ConfigResource::topic(topic));
        let key = topic_keys().get(key)?;
        self.resolve(key, topic.map_or(&empty, |configs| &**configs)).value
    }

    fn resolve(&self, key: &ConfigKey, topic: &BTreeMap<String, String>) -> EffectiveConfig {
        let found = |value: Option<String>, source| EffectiveConfig {
            name: key.name,
            value,
            source,
            is_sensitive: key.is_sensitive(),
        };
        if let Some(value) = topic.get(key.name) {
            return found(Some(value.clone()), ConfigSource::DynamicTopic);
        }
        let layers = [
            (self.broker, ConfigSource::DynamicBroker),
            (self.cluster, ConfigSource::DynamicDefaultBroker),
            (Some(&self.settings.static_configs), ConfigSource::StaticBroker),
        ];
        for (layer, source) in layers {
            let Some(layer) = layer else { continue };
            for synonym in &key.synonyms {
                if let Some(text) = layer.get(synonym.name) {
                    return found(Some(in_unit_of_key(text, synonym.factor)), source);
                }
            }
        }
        found(key.default_text(), ConfigSource::Default)
    }
}

/// A broker key's text in the unit of the topic's key. What is no number is left for the validator to complain about.
fn in_unit_of_key(text: &str, factor: i64) -> String {
    match text.trim().parse::<i64>() {
        Ok(number) if factor != 1 => number.saturating_mul(factor).to_string(),
        _ => text.to_owned(),
    }
}
