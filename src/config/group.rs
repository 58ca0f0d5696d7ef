//! The settings of a consumer, share or streams group.

use super::alter::{AlterError, check_names};
use super::broker::BrokerConfig;
use super::dynamic::ConfigMap;
use super::java;
use super::keys::{Values, group_keys};
use super::value::ConfigError;

/// What a consumer group's coordinator asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConsumerGroupConfig {
    pub session_timeout_ms: i32,
    pub heartbeat_interval_ms: i32,
    pub assignment_interval_ms: i32,
}

impl ConsumerGroupConfig {
    /// From what is set of the group, within the broker's bounds: they may have changed since it was set.
    pub fn of(set: &ConfigMap, broker: &BrokerConfig) -> ConsumerGroupConfig {
        let value = |key: &str, default: i32, min: i32, max: i32| {
            let set = set.get(key).and_then(|text| java::parse_integer::<i32>(java::trim(text)));
            // Not `clamp`: with bounds that cross, Kafka's minimum wins only over what is below it.
            set.map_or(default, |value| if value < min { min } else { value.min(max) })
        };
        ConsumerGroupConfig {
            session_timeout_ms: value(
                "consumer.session.timeout.ms",
                broker.group_consumer_session_timeout_ms,
                broker.group_consumer_min_session_timeout_ms,
                broker.group_consumer_max_session_timeout_ms,
            ),
            heartbeat_interval_ms: value(
                "consumer.heartbeat.interval.ms",
                broker.group_consumer_heartbeat_interval_ms,
                broker.group_consumer_min_heartbeat_interval_ms,
                broker.group_consumer_max_heartbeat_interval_ms,
            ),
            assignment_interval_ms: value(
                "consumer.assignment.interval.ms",
                broker.group_consumer_assignment_interval_ms,
                broker.group_consumer_min_assignment_interval_ms,
                broker.group_consumer_max_assignment_interval_ms,
            ),
        }
    }
}

/// The bounds that the broker sets, in Kafka's order: key, whether below or above, and the broker's key.
const BOUNDS: &[(&str, bool, &str)] = &[
    ("consumer.heartbeat.interval.ms", false, "group.consumer.min.heartbeat.interval.ms"),
    ("consumer.heartbeat.interval.ms", true, "group.consumer.max.heartbeat.interval.ms"),
    ("consumer.session.timeout.ms", false, "group.consumer.min.session.timeout.ms"),
    ("consumer.session.timeout.ms", true, "group.consumer.max.session.timeout.ms"),
    ("consumer.assignment.interval.ms", false, "group.consumer.min.assignment.interval.ms"),
    ("consumer.assignment.interval.ms", true, "group.consumer.max.assignment.interval.ms"),
    ("share.heartbeat.interval.ms", false, "group.share.min.heartbeat.interval.ms"),
    ("share.heartbeat.interval.ms", true, "group.share.max.heartbeat.interval.ms"),
    ("share.session.timeout.ms", false, "group.share.min.session.timeout.ms"),
    ("share.session.timeout.ms", true, "group.share.max.session.timeout.ms"),
    ("share.record.lock.duration.ms", false, "group.share.min.record.lock.duration.ms"),
    ("share.record.lock.duration.ms", true, "group.share.max.record.lock.duration.ms"),
    ("share.delivery.count.limit", false, "group.share.min.delivery.count.limit"),
    ("share.delivery.count.limit", true, "group.share.max.delivery.count.limit"),
    ("share.partition.max.record.locks", false, "group.share.min.partition.max.record.locks"),
    ("share.partition.max.record.locks", true, "group.share.max.partition.max.record.locks"),
    ("share.assignment.interval.ms", false, "group.share.min.assignment.interval.ms"),
    ("share.assignment.interval.ms", true, "group.share.max.assignment.interval.ms"),
    ("streams.heartbeat.interval.ms", false, "group.streams.min.heartbeat.interval.ms"),
    ("streams.heartbeat.interval.ms", true, "group.streams.max.heartbeat.interval.ms"),
    ("streams.session.timeout.ms", false, "group.streams.min.session.timeout.ms"),
    ("streams.session.timeout.ms", true, "group.streams.max.session.timeout.ms"),
    ("streams.num.standby.replicas", true, "group.streams.max.standby.replicas"),
    ("streams.assignment.interval.ms", false, "group.streams.min.assignment.interval.ms"),
    ("streams.assignment.interval.ms", true, "group.streams.max.assignment.interval.ms"),
];

/// The values that a group without settings of its own has.
pub(super) fn default_values(broker: &Values) -> Values {
    let mut values = Values::default();
    for key in group_keys().iter() {
        let set = key.synonyms.first().and_then(|synonym| broker.get(synonym.name)).cloned();
        values.set(key.name, set.or_else(|| key.default.clone().flatten()));
    }
    values
}

/// The keys whose defaults Kafka puts under what is set before it looks at the names.
fn is_laid_under(name: &str) -> bool {
    const WITHOUT: &[&str] = &["share.auto.offset.reset", "share.isolation.level", "share.renew.acknowledge.enable"];
    !WITHOUT.contains(&name) && !name.ends_with(".assignment.interval.ms")
}

/// Checks all that is to be set of a group.
pub(super) fn check(name: &str, proposed: &ConfigMap, broker: &Values) -> Result<(), AlterError> {
    if name.is_empty() {
        return Err(AlterError::InvalidRequest("Default group resources are not allowed.".to_owned()));
    }
    let with_defaults = group_keys().iter().filter(|key| is_laid_under(key.name) && !proposed.contains_key(key.name));
    check_names("group config name", proposed, group_keys(), proposed.len() + with_defaults.count())?;
    let mut values = default_values(broker);
    for key in group_keys().iter() {
        if let Some(text) = proposed.get(key.name) {
            values.set(key.name, key.parse(Some(text))?);
        }
    }
    for &(key, above, bound) in BOUNDS {
        let (value, limit) = (values.int(key), broker.int(bound));
        if above && value > limit {
            return Err(ConfigError(format!("{key} must be less than or equal to {bound}")).into());
        }
        if !above && value < limit {
            return Err(ConfigError(format!("{key} must be greater than or equal to {bound}")).into());
        }
    }
    for kind in ["consumer", "share", "streams"] {
        let (session, heartbeat) = (format!("{kind}.session.timeout.ms"), format!("{kind}.heartbeat.interval.ms"));
        if values.int(&session) <= values.int(&heartbeat) {
            return Err(ConfigError(format!("{session} must be greater than {heartbeat}")).into());
        }
    }
    Ok(())
}
