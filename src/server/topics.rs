//! What the broker knows of topics by their name: which are its own, and what a topic is created with when
//! nobody says more than its name.

use kafka_protocol::messages::CreateTopicsRequest;
use kafka_protocol::messages::create_topics_request::{CreatableTopic, CreatableTopicConfig};
use kafka_protocol::protocol::StrBytes;
use tracing::{info, warn};

use super::broker::Broker;
use crate::config::BrokerConfig;
use crate::metadata::topic_name;
use crate::protocol::ErrorCode;

/// How long a client that asked for a topic waits for its creation, at most, is the controller's affair; this is what
/// the request to it says.
const CREATE_TIMEOUT_MS: i32 = 30_000;

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

/// Creates topics by the broker's defaults. What goes wrong is in the log; the client learns of it by asking again.
pub async fn auto_create(broker: &Broker, names: &[&str]) {
    let topics: Vec<CreatableTopic> = names
        .iter()
        .filter(|name| topic_name::validate(name).is_ok())
        .map(|name| creatable(&broker.config, name))
        .collect();
    if topics.is_empty() {
        return;
    }
    let request = CreateTopicsRequest::default().with_timeout_ms(CREATE_TIMEOUT_MS).with_topics(topics);
    match broker.controller.create_topics(request).await {
        Ok(response) => {
            for topic in &response.topics {
                match ErrorCode::from_code(topic.error_code) {
                    Some(ErrorCode::None) => info!(topic = topic.name.as_str(), "topic auto-created"),
                    // Another client was quicker.
                    Some(ErrorCode::TopicAlreadyExists) => {}
                    error => warn!(
                        topic = topic.name.as_str(),
                        error = error.map_or("unknown", ErrorCode::name),
                        reason = topic.error_message.as_deref().unwrap_or_default(),
                        "topic not auto-created"
                    ),
                }
            }
        }
        Err(error) => warn!(%error, "topics not auto-created"),
    }
}
