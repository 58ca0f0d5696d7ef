//! What the broker knows of topics by their name: which are its own, and what a topic is created with when
//! nobody says more than its name.

use std::collections::BTreeMap;
use std::time::Duration;

use kafka_protocol::messages::CreateTopicsRequest;
use kafka_protocol::messages::create_topics_request::{CreatableTopic, CreatableTopicConfig};
use kafka_protocol::protocol::StrBytes;
use parking_lot::Mutex;
use thiserror::Error;
use tracing::{debug, info, warn};

use super::broker::Broker;
use crate::config::BrokerConfig;
use crate::config::ottla::TEST_TOPICS_TOLD;
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
                    error if broker.refused_topics.is_news(&topic.name, broker.clock.monotonic()) => {
                        warn!(
                            topic = topic.name.as_str(),
                            error = error.map_or("unknown", ErrorCode::name),
                            reason = topic.error_message.as_deref().unwrap_or_default(),
                            hint = hint(&topic.name),
                            "topic not auto-created"
                        );
                    }
                    error => debug!(topic = topic.name.as_str(), ?error, "topic not auto-created"),
                }
            }
        }
        Err(error) => warn!(%error, "topics not auto-created"),
    }
}

/// Creates what `ottla.test.topics` names, unless it is there: whoever finds the broker finds them. Fails if one of them
/// cannot be, whatever is tried: a test that waits for it would not learn why.
pub async fn create_test_topics(broker: &Broker) -> Result<(), TestTopicsError> {
    let wanted: Vec<CreatableTopic> = broker
        .config
        .ottla
        .test_topics
        .iter()
        .map(|topic| {
            let policy = topic.cleanup_policy.as_deref().map(|policy| settings(&[("cleanup.policy", policy)]));
            CreatableTopic::default()
                .with_name(StrBytes::from_string(topic.name.clone()).into())
                .with_num_partitions(topic.partitions)
                .with_replication_factor(topic.replication_factor)
                .with_configs(policy.unwrap_or_default())
        })
        .collect();
    if wanted.is_empty() {
        return Ok(());
    }
    let request = CreateTopicsRequest::default().with_timeout_ms(CREATE_TIMEOUT_MS).with_topics(wanted);
    let response = match broker.controller.create_topics(request).await {
        Ok(response) => response,
        Err(error) => {
            warn!(%error, "the topics of {TEST_TOPICS_TOLD} were not created");
            return Ok(());
        }
    };
    let mut impossible = Vec::new();
    for topic in &response.topics {
        let reason = topic.error_message.as_deref().unwrap_or_default();
        match ErrorCode::from_code(topic.error_code) {
            Some(ErrorCode::None) => {}
            Some(ErrorCode::TopicAlreadyExists) => tell_other_partitions(broker, &topic.name),
            Some(ErrorCode::InvalidReplicationFactor) => impossible.push(format!(
                "{}: {reason} This node is the only one: write 1 for the replicas, or leave them out",
                topic.name.as_str()
            )),
            Some(
                ErrorCode::InvalidTopicException
                | ErrorCode::InvalidPartitions
                | ErrorCode::InvalidConfig
                | ErrorCode::InvalidRequest
                | ErrorCode::PolicyViolation,
            ) => impossible.push(format!("{}: {reason}", topic.name.as_str())),
            // For want of room, say. What is there is to be served.
            error => warn!(
                topic = topic.name.as_str(),
                error = error.map_or("unknown", ErrorCode::name),
                reason,
                "a topic of {TEST_TOPICS_TOLD} was not created"
            ),
        }
    }
    if impossible.is_empty() { Ok(()) } else { Err(TestTopicsError(impossible.join("; "))) }
}

/// A topic of `ottla.test.topics` that cannot be.
#[derive(Debug, Error)]
#[error("{TEST_TOPICS_TOLD}: {0}")]
pub struct TestTopicsError(String);

/// Says that a topic is there, but not as it was wished for.
fn tell_other_partitions(broker: &Broker, topic: &str) {
    let wanted = broker.config.ottla.test_topics.iter().find(|wanted| wanted.name == topic);
    let wanted = wanted.map_or(-1, |wanted| wanted.partitions);
    let partitions = broker.image().topic(topic).map_or(0, |topic| topic.partitions.len());
    if wanted > 0 && partitions != wanted as usize {
        warn!(topic, partitions, wanted, "a topic of {TEST_TOPICS_TOLD} is there, with other partitions");
    }
}

/// What an operator may do about it.
fn hint(topic: &str) -> &'static str {
    match topic {
        "__consumer_offsets" => "consumer groups need it: on one node set offsets.topic.replication.factor=1",
        "__transaction_state" => {
            "transactions need it: on one node set transaction.state.log.replication.factor=1 and \
             transaction.state.log.min.isr=1"
        }
        _ => "",
    }
}

/// Topics that could not be created, and when that was last told: clients ask again and again.
#[derive(Default)]
pub struct RefusedTopics {
    told: Mutex<BTreeMap<String, Duration>>,
}

impl RefusedTopics {
    /// Between two times that the same topic is told.
    const EVERY: Duration = Duration::from_secs(60);
    /// Topics that are remembered, at most.
    const MOST: usize = 1000;

    /// Whether it is to be told now.
    fn is_news(&self, topic: &str, now: Duration) -> bool {
        let mut told = self.told.lock();
        if told.len() >= RefusedTopics::MOST {
            told.retain(|_, at| now.saturating_sub(*at) < RefusedTopics::EVERY);
        }
        if told.get(topic).is_some_and(|at| now.saturating_sub(*at) < RefusedTopics::EVERY) {
            return false;
        }
        if told.len() < RefusedTopics::MOST {
            told.insert(topic.to_owned(), now);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_topic_that_is_refused_again_and_again_is_told_once_a_minute() {
        let refused = RefusedTopics::default();
        let seconds = Duration::from_secs;
        assert!(refused.is_news("a", seconds(0)));
        assert!(!refused.is_news("a", seconds(59)));
        assert!(refused.is_news("b", seconds(59)));
        assert!(refused.is_news("a", seconds(60)));
        for topic in 0..2 * RefusedTopics::MOST {
            refused.is_news(&topic.to_string(), seconds(61));
        }
        assert_eq!(refused.told.lock().len(), RefusedTopics::MOST);
    }
}
