//! What the broker knows of topics by their name: which are its own, and what a topic is created with when
//! nobody says more than its name.

use kafka_protocol::messages::create_topics_request::{CreatableTopic, CreatableTopicConfig};
use kafka_protocol::protocol::StrBytes;

use crate::config::BrokerConfig;

/// Topics that clients may read and not write.
pub const INTERNAL: [&str; 3] = ["__consumer_offsets", "__transaction_state", "__share_group_state"];

/// Whether the topic is one of the broker's own.
pub fn is_internal(topic: &str) -> bool {
    INTERNAL.contains(&topic)
}

/// A topic to be created by the broker's own defaults; its own topics have settings of their own.
pub fn creatable(config: &BrokerConfig, name: &str) -> CreatableTopic {
    let topic = CreatableTopic::default().with_name(StrBytes::from_string(name.to_owned()).into());
    match name {
        "__consumer_offsets" => topic
            .with_num_partitions(config.offsets_topic_num_partitions)
            .with_replication_factor(config.offsets_topic_replication_factor)
            .with_configs(settings(&[
                ("cleanup.policy", "compact"),
                ("compression.type", "producer"),
                ("segment.bytes", &config.offsets_topic_segment_bytes.to_string()),
            ])),
        "__transaction_state" => topic
            .with_num_partitions(config.transaction_state_log_num_partitions)
            .with_replication_factor(config.transaction_state_log_replication_factor)
            .with_configs(settings(&[
                ("unclean.leader.election.enable", "false"),
                ("compression.type", "uncompressed"),
                ("cleanup.policy", "compact"),
                ("min.insync.replicas", &config.transaction_state_log_min_isr.to_string()),
                ("segment.bytes", &config.transaction_state_log_segment_bytes.to_string()),
            ])),
        _ => topic.with_num_partitions(-1).with_replication_factor(-1),
    }
}

fn settings(pairs: &[(&str, &str)]) -> Vec<CreatableTopicConfig> {
    pairs
        .iter()
        .map(|(name, value)| {
            CreatableTopicConfig::default()
                .with_name(StrBytes::from_string((*name).to_owned()))
                .with_value(Some(StrBytes::from_string((*value).to_owned())))
        })
        .collect()
}
