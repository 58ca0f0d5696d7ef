//! Which keys stand for each other: a broker's that give a topic's its default, and a broker's of which one comes
//! first.

use super::keys::{Values, topic_keys};
use super::value::{ConfigError, ConfigType, ConfigValue};

/// The names under which a broker's key may have been set, in order of precedence; those below it are used in its
/// place.
///
/// `match_listener`: also that `listener.name.x.key` stands above `key`, and so for keys of a SASL mechanism.
pub(super) fn broker_synonyms(name: &str, match_listener: bool) -> Vec<&str> {
    const ROLL: &[&str] = &["log.roll.ms", "log.roll.hours"];
    const ROLL_JITTER: &[&str] = &["log.roll.jitter.ms", "log.roll.jitter.hours"];
    const RETENTION: &[&str] = &["log.retention.ms", "log.retention.minutes", "log.retention.hours"];
    const FLUSH: &[&str] = &["log.flush.interval.ms", "log.flush.scheduler.interval.ms"];
    for family in [ROLL, ROLL_JITTER, RETENTION] {
        if family.contains(&name) {
            return family.to_vec();
        }
    }
    if name == FLUSH[0] {
        return FLUSH.to_vec();
    }
    if let Some(base) = listener_key(name).filter(|_| match_listener) {
        const MECHANISM_KEYS: &[&str] = &[
            "sasl.jaas.config",
            "sasl.login.callback.handler.class",
            "sasl.login.class",
            "sasl.server.callback.handler.class",
            "connections.max.reauth.ms",
        ];
        let mechanism_key = MECHANISM_KEYS.iter().find(|key| base.ends_with(**key));
        return vec![name, mechanism_key.copied().unwrap_or(base)];
    }
    vec![name]
}

/// The key within `listener.name.<listener>.<key>`.
pub(super) fn listener_key(name: &str) -> Option<&str> {
    let (_listener, key) = name.strip_prefix("listener.name.")?.split_once('.')?;
    Some(key)
}

/// The values that a topic without overrides has, taken from those of the broker.
pub(super) fn topic_values(broker: &Values) -> Result<Values, ConfigError> {
    let mut values = Values::default();
    for key in topic_keys().iter() {
        let set = key.synonyms.iter().find_map(|synonym| Some((broker.get(synonym.name)?, synonym.factor)));
        let value = match set {
            Some((value, factor)) => Some(in_unit_of(value, factor, key.config_type)),
            None => key.default.clone().flatten(),
        };
        // any negative time means that there is no limit
        let value = match value {
            Some(ConfigValue::Long(ms)) if key.name == "retention.ms" => Some(ConfigValue::Long(ms.max(-1))),
            value => value,
        };
        key.validator.check(key.name, value.as_ref())?;
        values.set(key.name, value);
    }
    check_compaction_lags(&values)?;
    Ok(values)
}

/// The only rule between two keys of every topic.
pub(super) fn check_compaction_lags(topic: &Values) -> Result<(), ConfigError> {
    let (min_ms, max_ms) = (topic.long("min.compaction.lag.ms"), topic.long("max.compaction.lag.ms"));
    if min_ms > max_ms {
        return Err(ConfigError(format!(
            "conflict topic config setting min.compaction.lag.ms ({min_ms}) > max.compaction.lag.ms ({max_ms})"
        )));
    }
    Ok(())
}

fn in_unit_of(value: &ConfigValue, factor: i64, config_type: ConfigType) -> ConfigValue {
    match (value, config_type) {
        (ConfigValue::Int(number), ConfigType::Long) => ConfigValue::Long(i64::from(*number) * factor),
        (value, _) => value.clone(),
    }
}
