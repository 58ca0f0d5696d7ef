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
        // What cannot be used is told by the broker, which has the same settings.
        let (broker, _complaints) = self.broker.update(
            image.configs.of(&ConfigResource::cluster()),
            image.configs.of(&ConfigResource::broker(self.node_id())),
        );
        ControllerSettings { cluster_id: self.cluster_id.clone(), broker }
    }

    pub fn node_id(&self) -> BrokerId {
        self.broker.fixed().node_id
    }

    /// What of a topic's settings decides about its leaders.
    pub(super) fn of_topic(&self, image: &MetadataImage, topic: &str) -> LeaderSettings {
        let current = self.broker.current();
        let overrides = image.configs.get(&ConfigResource::topic(topic));
        // Most topics set other things, if anything; and all topics are asked for when a broker comes or goes.
        let concerned = |overrides: &ConfigMap| LeaderSettings::KEYS.iter().any(|key| overrides.contains_key(*key));
        match overrides.filter(|overrides| concerned(overrides)) {
            Some(overrides) => LeaderSettings::from(&TopicConfig::resolve(overrides, current).0),
            None => LeaderSettings::from(&current.topic_defaults),
        }
    }
}

/// The settings of a topic that decide about its leaders.
pub(super) struct LeaderSettings {
    pub min_insync_replicas: usize,
    pub unclean_leader_election: bool,
}

impl LeaderSettings {
    const KEYS: [&str; 2] = ["min.insync.replicas", "unclean.leader.election.enable"];
}

impl From<&TopicConfig> for LeaderSettings {
    fn from(config: &TopicConfig) -> LeaderSettings {
        LeaderSettings {
            min_insync_replicas: config.min_insync_replicas.max(0) as usize,
            unclean_leader_election: config.unclean_leader_election_enable,
        }
    }
}

impl std::fmt::Debug for ControllerSettings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Settings may hold passwords.
        f.debug_struct("ControllerSettings").field("cluster_id", &self.cluster_id).finish_non_exhaustive()
    }
}
