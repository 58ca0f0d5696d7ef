//! What the controller knows of its own node: whose it is, and its settings, with what was set dynamically.

use std::sync::Arc;

use crate::config::dynamic::{ConfigMap, DynamicBrokerConfig};
use crate::config::{BrokerConfig, TopicConfig};
use crate::metadata::image::{ConfigResource, MetadataImage};
use crate::types::BrokerId;

/// The node's settings, as far as decisions depend on them.
#[derive(Clone)]
pub struct ControllerSettings {
    pub cluster_id: String,
    pub broker: DynamicBrokerConfig,
}

impl ControllerSettings {
    /// The settings that the node was started with.
    pub fn new(cluster_id: String, config: Arc<BrokerConfig>) -> ControllerSettings {
        ControllerSettings { cluster_id, broker: DynamicBrokerConfig::new(config) }
    }

    /// The settings with what the image has set of this broker and of all.
    pub fn updated(&self, image: &MetadataImage) -> ControllerSettings {
        let empty = ConfigMap::new();
        let set = |resource: &ConfigResource| image.configs.get(resource).map_or(&empty, |configs| &**configs);
        // What cannot be used is told by the broker, which has the same settings.
        let (broker, _complaints) =
            self.broker.update(set(&ConfigResource::cluster()), set(&ConfigResource::broker(self.node_id())));
        ControllerSettings { cluster_id: self.cluster_id.clone(), broker }
    }

    pub fn node_id(&self) -> BrokerId {
        self.broker.fixed().node_id
    }

    /// The settings of a topic, from all layers.
    pub(super) fn of_topic(&self, image: &MetadataImage, topic: &str) -> TopicConfig {
        let current = self.broker.current();
        match image.configs.get(&ConfigResource::topic(topic)) {
            Some(overrides) => TopicConfig::resolve(overrides, current).0,
            None => current.topic_defaults.clone(),
        }
    }
}

impl std::fmt::Debug for ControllerSettings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Settings may hold passwords.
        f.debug_struct("ControllerSettings").field("cluster_id", &self.cluster_id).finish_non_exhaustive()
    }
}
