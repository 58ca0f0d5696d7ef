//! Dynamic configurations, per resource.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::sorted_map::SortedMap;
use crate::config::ConfigMap;

/// A kind of resource that has configurations, numbered as on the wire. Kinds that this version does not know are
/// kept as they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConfigResourceType(pub i8);

impl ConfigResourceType {
    pub const TOPIC: ConfigResourceType = ConfigResourceType(2);
    pub const BROKER: ConfigResourceType = ConfigResourceType(4);
    pub const BROKER_LOGGER: ConfigResourceType = ConfigResourceType(8);
    pub const CLIENT_METRICS: ConfigResourceType = ConfigResourceType(16);
    pub const GROUP: ConfigResourceType = ConfigResourceType(32);

    /// Kafka's name of the kind, as its messages print it.
    pub fn name(self) -> &'static str {
        match self.0 {
            2 => "TOPIC",
            4 => "BROKER",
            8 => "BROKER_LOGGER",
            16 => "CLIENT_METRICS",
            32 => "GROUP",
            _ => "UNKNOWN",
        }
    }
}

/// Whose configurations: a topic by name, a broker by id (empty: the cluster's default), and so on.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConfigResource {
    pub kind: ConfigResourceType,
    pub name: String,
}

impl ConfigResource {
    pub fn topic(name: &str) -> ConfigResource {
        ConfigResource { kind: ConfigResourceType::TOPIC, name: name.to_owned() }
    }

    pub fn broker(id: crate::types::BrokerId) -> ConfigResource {
        ConfigResource { kind: ConfigResourceType::BROKER, name: id.to_string() }
    }

    /// The dynamic defaults of all brokers.
    pub fn cluster() -> ConfigResource {
        ConfigResource { kind: ConfigResourceType::BROKER, name: String::new() }
    }
}

impl std::fmt::Display for ConfigResource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ConfigResource(type={}, name='{}')", self.kind.name(), self.name)
    }
}

/// What was set, of every resource. A resource of which nothing is set has no entry.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ConfigsImage {
    by_resource: SortedMap<ConfigResource, Arc<ConfigMap>>,
}

impl ConfigsImage {
    /// What is set of a resource, if anything.
    pub fn get(&self, resource: &ConfigResource) -> Option<&Arc<ConfigMap>> {
        self.by_resource.get(resource)
    }

    /// All that is set of a resource.
    pub fn of(&self, resource: &ConfigResource) -> &ConfigMap {
        static NOTHING: ConfigMap = ConfigMap::new();
        self.get(resource).map_or(&NOTHING, |configs| &**configs)
    }

    /// One value that is set.
    pub fn value(&self, resource: &ConfigResource, key: &str) -> Option<&str> {
        self.get(resource)?.get(key).map(String::as_str)
    }

    pub fn iter(&self) -> impl Iterator<Item = (&ConfigResource, &Arc<ConfigMap>)> {
        self.by_resource.iter()
    }

    pub(super) fn set(&mut self, resource: ConfigResource, key: String, value: String) {
        match self.by_resource.get_mut(&resource) {
            Some(configs) => {
                Arc::make_mut(configs).insert(key, value);
            }
            None => {
                self.by_resource.insert(resource, Arc::new(BTreeMap::from([(key, value)])));
            }
        }
    }

    pub(super) fn unset(&mut self, resource: &ConfigResource, key: &str) {
        let Some(configs) = self.by_resource.get_mut(resource) else { return };
        let configs = Arc::make_mut(configs);
        configs.remove(key);
        if configs.is_empty() {
            self.by_resource.remove(resource);
        }
    }

    pub(super) fn remove_resource(&mut self, resource: &ConfigResource) -> bool {
        self.by_resource.remove(resource).is_some()
    }
}
