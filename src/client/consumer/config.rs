//! The settings of Kafka's consumer that have a meaning here, with its defaults.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::client::config::ClientConfig;
use crate::client::error::{Error, Result};
use crate::config::java;

/// Where to begin without a position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reset {
    Earliest,
    Latest,
    /// The first record that is so old at most.
    ByDuration(Duration),
    /// Nowhere: that is an error.
    None,
}

/// How the members of a group come to their partitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupProtocol {
    Classic,
    Consumer,
}

/// How a consumer is to behave.
#[derive(Clone, Debug)]
pub struct ConsumerConfig {
    pub client: ClientConfig,
    pub group_id: Option<String>,
    pub group_instance_id: Option<String>,
    pub group_protocol: GroupProtocol,
    /// With the protocol `consumer`.
    pub remote_assignor: Option<String>,
    pub auto_commit: bool,
    pub auto_commit_interval: Duration,
    pub reset: Reset,
    pub read_committed: bool,
    pub session_timeout_ms: i32,
    pub heartbeat_interval: Duration,
    pub max_poll_interval_ms: i32,
    pub metadata_max_age: Duration,
    pub fetch_min_bytes: i32,
    pub fetch_max_bytes: i32,
    pub fetch_max_wait: Duration,
    pub max_partition_fetch_bytes: i32,
    pub max_poll_records: usize,
    pub check_crcs: bool,
    pub exclude_internal_topics: bool,
    pub auto_create_topics: bool,
}

impl ConsumerConfig {
    /// From Kafka's keys. A key that is not known means nothing here.
    pub fn new(given: BTreeMap<String, String>, client_id: &str) -> Result<ConsumerConfig> {
        let client = ClientConfig::of("Consumer", given, client_id)?;
        let int = |key: &str, default: i32, least: i64| Ok(client.number(key, default.into(), least)? as i32);
        let ms = |key: &str, default: i64| Ok(Duration::from_millis(client.number(key, default, 0)? as u64));
        let flag = |key: &str, default: bool| match client.get(key).map(str::trim) {
            None => Ok(default),
            Some(text) if text.eq_ignore_ascii_case("true") => Ok(true),
            Some(text) if text.eq_ignore_ascii_case("false") => Ok(false),
            Some(text) => Err(Error::config(format!(
                "Invalid value {text} for configuration {key}: Expected value to be either true or false"
            ))),
        };
        let one_of = |key: &str, default: &'static str, known: &[&'static str]| -> Result<&'static str> {
            let Some(text) = client.get(key).map(str::trim) else { return Ok(default) };
            known.iter().copied().find(|name| name.eq_ignore_ascii_case(text)).ok_or_else(|| {
                Error::config(format!(
                    "Invalid value {text} for configuration {key}: String must be one of: {}",
                    known.join(", ")
                ))
            })
        };
        let reset = reset(client.get("auto.offset.reset").map_or("latest", str::trim))?;
        let read_committed =
            one_of("isolation.level", "read_uncommitted", &["read_committed", "read_uncommitted"])? == "read_committed";
        let group_protocol = match client.get("group.protocol").unwrap_or("classic") {
            text if text.eq_ignore_ascii_case("consumer") => GroupProtocol::Consumer,
            text if text.eq_ignore_ascii_case("classic") => GroupProtocol::Classic,
            text => {
                return Err(Error::config(format!(
                    "Invalid value {text} for configuration group.protocol: String must be one of (case insensitive): CONSUMER, CLASSIC"
                )));
            }
        };
        if let Some(unknown) = client.get("partition.assignment.strategy").and_then(|names| unknown_assignor(names)) {
            let cause = Error::new("java.lang.ClassNotFoundException", unknown);
            let message = format!("{unknown} ClassNotFoundException exception occurred");
            let strange = Error::new("org.apache.kafka.common.KafkaException", message).caused_by(cause);
            let failed = Error::new("org.apache.kafka.common.KafkaException", "Failed to construct kafka consumer");
            return Err(failed.caused_by(strange));
        }
        let (protocol, others): (_, &[&str]) = match group_protocol {
            GroupProtocol::Classic => ("CLASSIC", &["group.remote.assignor"]),
            GroupProtocol::Consumer => {
                ("CONSUMER", &["partition.assignment.strategy", "heartbeat.interval.ms", "session.timeout.ms"])
            }
        };
        let others: Vec<&str> = others.iter().copied().filter(|key| client.get(key).is_some()).collect();
        if !others.is_empty() {
            let others = others.join(", ");
            return Err(Error::config(format!("{others} cannot be set when group.protocol={protocol}")));
        }
        let text = |key: &str| client.get(key).map(str::trim).filter(|text| !text.is_empty()).map(str::to_owned);
        Ok(ConsumerConfig {
            group_id: text("group.id"),
            group_instance_id: text("group.instance.id"),
            group_protocol,
            remote_assignor: text("group.remote.assignor"),
            auto_commit: flag("enable.auto.commit", true)?,
            auto_commit_interval: ms("auto.commit.interval.ms", 5000)?,
            reset,
            read_committed,
            session_timeout_ms: int("session.timeout.ms", 45_000, 1)?,
            heartbeat_interval: ms("heartbeat.interval.ms", 3000)?,
            max_poll_interval_ms: int("max.poll.interval.ms", 300_000, 1)?,
            metadata_max_age: ms("metadata.max.age.ms", 300_000)?,
            fetch_min_bytes: int("fetch.min.bytes", 1, 0)?,
            fetch_max_bytes: int("fetch.max.bytes", 50 << 20, 0)?,
            fetch_max_wait: ms("fetch.max.wait.ms", 500)?,
            max_partition_fetch_bytes: int("max.partition.fetch.bytes", 1 << 20, 0)?,
            max_poll_records: int("max.poll.records", 500, 1)? as usize,
            check_crcs: flag("check.crcs", true)?,
            exclude_internal_topics: flag("exclude.internal.topics", true)?,
            auto_create_topics: flag("allow.auto.create.topics", true)?,
            client,
        })
    }
}

fn reset(text: &str) -> Result<Reset> {
    let invalid = || {
        Error::config(format!(
            "Invalid value {text} for configuration auto.offset.reset: Invalid value `{text}` for configuration auto.offset.reset. The value must be either 'earliest', 'latest', 'none' or of the format 'by_duration:<PnDTnHnMn.nS.>'."
        ))
    };
    match text {
        "earliest" => Ok(Reset::Earliest),
        "latest" => Ok(Reset::Latest),
        "none" => Ok(Reset::None),
        _ => {
            let duration = text.strip_prefix("by_duration:").and_then(java::duration_ms).ok_or_else(invalid)?;
            Ok(Reset::ByDuration(Duration::from_millis(u64::try_from(duration).map_err(|_| invalid())?)))
        }
    }
}

/// The first of these names that is none of Kafka's assignors.
fn unknown_assignor(names: &str) -> Option<&str> {
    const KNOWN: [&str; 4] = ["RangeAssignor", "RoundRobinAssignor", "StickyAssignor", "CooperativeStickyAssignor"];
    let known =
        |name: &&str| name.strip_prefix("org.apache.kafka.clients.consumer.").is_some_and(|name| KNOWN.contains(&name));
    names.split(',').map(str::trim).find(|name| !name.is_empty() && !known(name))
}

#[cfg(test)]
pub mod tests {
    use super::*;

    pub fn config(given: &[(&str, &str)]) -> Result<ConsumerConfig> {
        let given = given.iter().chain(&[("bootstrap.servers", "a:1")]);
        ConsumerConfig::new(given.map(|&(key, value)| (key.to_owned(), value.to_owned())).collect(), "c")
    }

    #[test]
    fn defaults_are_kafkas() {
        let config = config(&[]).unwrap();
        assert_eq!((config.reset, config.group_protocol), (Reset::Latest, GroupProtocol::Classic));
        assert!(config.auto_commit && !config.read_committed && config.group_id.is_none());
    }

    #[test]
    fn mistakes_are_told() {
        let message = |key, value| config(&[(key, value)]).unwrap_err().message().to_owned();
        assert!(message("auto.offset.reset", "x").starts_with("Invalid value x for configuration auto.offset.reset"));
        assert!(message("isolation.level", "x").ends_with("String must be one of: read_committed, read_uncommitted"));
        assert!(message("enable.auto.commit", "x").ends_with("Expected value to be either true or false"));
        assert!(config(&[("isolation.level", "READ_COMMITTED")]).unwrap().read_committed);
    }
}
