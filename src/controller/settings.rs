//! What the controller is told of its own node's configuration.

use std::collections::BTreeMap;

use crate::types::BrokerId;

/// The part of the node's configuration that decisions depend on.
#[derive(Clone, Debug)]
pub struct ControllerSettings {
    pub cluster_id: String,
    pub node_id: BrokerId,
    /// `default.replication.factor`
    pub default_replication_factor: i16,
    /// `num.partitions`
    pub num_partitions: i32,
    /// `delete.topic.enable`
    pub delete_topic_enable: bool,
    /// The node's properties as they were given: keys and texts. The lowest layer under the dynamic configurations.
    pub static_configs: BTreeMap<String, String>,
}
