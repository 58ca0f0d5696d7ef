//! `DynamicBrokerConfig`: a broker's settings as they are now, what it was started with and what was set since.
//!
//! Precedence: set for this broker, set as the default of all brokers, the properties file, Kafka's default. A key
//! that is set above hides its synonyms below (`log.retention.ms` hides `log.retention.hours`).
//!
//! A change is checked before it is taken ([`DynamicBrokerConfig::check`]); what comes from the metadata log was
//! checked by whoever wrote it, perhaps a newer Kafka, so what cannot be used is left out and told.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use super::broker::BrokerConfig;
use super::java;
use super::keys::{ConfigDef, ConfigKey, UpdateMode, Values, broker_dynamic_only_keys, broker_keys};
use super::support::{self, Support};
use super::synonyms::{broker_synonyms, listener_key};
use super::value::{ConfigError, ConfigType, ConfigValue};

/// What was set of a resource: key to text.
pub type ConfigMap = BTreeMap<String, String>;

/// A broker's settings with their layers.
#[derive(Clone, Debug)]
pub struct DynamicBrokerConfig {
    pub(super) fixed: Arc<BrokerConfig>,
    /// As usable here: what this broker cannot apply is left out.
    pub(super) cluster_default: ConfigMap,
    pub(super) per_broker: ConfigMap,
    current: Arc<BrokerConfig>,
}

/// The listener keys that may also be set as the default of all brokers.
const CLUSTER_LEVEL_LISTENER_KEYS: &[&str] =
    &["max.connections", "max.connection.creation.rate", "num.network.threads"];

/// Security keys that Kafka changes at run time, listener by listener.
const SECURITY_KEYS: &[&str] = &[
    "ssl.keystore.type",
    "ssl.keystore.location",
    "ssl.keystore.password",
    "ssl.key.password",
    "ssl.truststore.type",
    "ssl.truststore.location",
    "ssl.truststore.password",
    "ssl.keystore.certificate.chain",
    "ssl.keystore.key",
    "ssl.truststore.certificates",
];

/// Keys that Kafka changes at run time and Ottla does not: taking a change of them would be a lie.
const FIXED_HERE: &[&str] = &["listeners", "listener.security.protocol.map"];

impl DynamicBrokerConfig {
    /// Nothing is set yet but by the properties file.
    pub fn new(fixed: Arc<BrokerConfig>) -> DynamicBrokerConfig {
        DynamicBrokerConfig {
            current: fixed.clone(),
            fixed,
            cluster_default: ConfigMap::new(),
            per_broker: ConfigMap::new(),
        }
    }

    /// The settings in force.
    pub fn current(&self) -> &Arc<BrokerConfig> {
        &self.current
    }

    /// What the broker was started with.
    pub fn fixed(&self) -> &Arc<BrokerConfig> {
        &self.fixed
    }

    /// What is set at run time and does nothing, a line each.
    pub fn without_effect(&self) -> Vec<String> {
        let set = self.cluster_default.iter().chain(&self.per_broker);
        set.filter_map(|(name, text)| support::without_effect(name, text)).collect()
    }

    /// How many bytes a second may be moved between log directories: set at run time only.
    pub fn replica_alter_log_dirs_io_max_bytes_per_second(&self) -> i64 {
        let key = "replica.alter.log.dirs.io.max.bytes.per.second";
        let text = self.per_broker.get(key).or_else(|| self.cluster_default.get(key));
        text.and_then(|text| java::parse_integer(java::trim(text))).unwrap_or(i64::MAX)
    }

    /// The settings once this is set: the resource BROKER with an empty name, and that of this broker. Also what
    /// could not be used, a line each.
    pub fn update(&self, cluster_default: &ConfigMap, per_broker: &ConfigMap) -> (DynamicBrokerConfig, Vec<String>) {
        let mut complaints = Vec::new();
        let mut updated = DynamicBrokerConfig {
            fixed: self.fixed.clone(),
            cluster_default: usable(cluster_default, false, &mut complaints, is_read_only),
            per_broker: usable(per_broker, true, &mut complaints, |name| self.is_fixed(name)),
            current: self.current.clone(),
        };
        let mut merged = (*updated.fixed.originals).clone();
        lay_over(&mut merged, &updated.cluster_default);
        lay_over(&mut merged, &updated.per_broker);
        if merged == *self.current.originals {
            return (updated, complaints);
        }
        clamp_assignment_intervals(&mut merged, &updated.fixed.values);
        match BrokerConfig::read(merged) {
            Ok(config) => updated.current = Arc::new(config),
            Err(error) => complaints.push(format!("dynamic settings are not applied: {error}")),
        }
        (updated, complaints)
    }

    /// Checks the whole of what is to be set, for this broker or (`per_broker` false) as the default of all.
    pub(super) fn check(&self, proposed: &ConfigMap, per_broker: bool) -> Result<(), ConfigError> {
        let proposed: ConfigMap = proposed
            .iter()
            .filter(|(name, _)| !name.starts_with("config.providers"))
            .map(|(name, text)| (name.clone(), text.clone()))
            .collect();
        check_names("Cannot update these configs dynamically", &proposed, |name| {
            if per_broker { self.is_fixed(name) } else { is_read_only(name) }
        })?;
        check_names(
            "These security configs can be dynamically updated only per-listener using the listener prefix",
            &proposed,
            |name| SECURITY_KEYS.contains(&name),
        )?;
        check_types(&proposed)?;
        if !per_broker {
            check_names(
                "Cannot update these configs at default cluster level, broker id must be specified",
                &proposed,
                is_per_broker,
            )?;
        }
        let mut merged = (*self.fixed.originals).clone();
        if per_broker {
            lay_over(&mut merged, &self.cluster_default);
            lay_over(&mut merged, &proposed);
        } else {
            lay_over(&mut merged, &proposed);
            lay_over(&mut merged, &self.per_broker);
        }
        self.check_reconfiguration(&BrokerConfig::read(merged)?).map_err(|error| {
            ConfigError(format!("Invalid value {EXCEPTION}: {error} for configuration Invalid dynamic configuration"))
        })
    }

    /// Whether it cannot be changed for this broker while it runs.
    fn is_fixed(&self, name: &str) -> bool {
        is_read_only(name) && !(name == "advertised.listeners" && self.fixed.ottla.advertised_dynamic)
    }

    /// Refuses what Kafka would do and Ottla cannot. For what is changed only: a cluster may have it set already.
    pub(super) fn check_support(&self, changed: &[&str]) -> Result<(), ConfigError> {
        for name in changed {
            let key = listener_key(name).unwrap_or(name);
            if support::of(key) == Support::Protects || FIXED_HERE.contains(&key) {
                return Err(ConfigError(format!("{name} cannot be changed while the broker runs: not supported yet")));
            }
        }
        Ok(())
    }

    /// Steps that would be too large, and rules between what is and what is to be.
    fn check_reconfiguration(&self, new: &BrokerConfig) -> Result<(), ConfigError> {
        let (old, new) = (&*self.current, new);
        let mut names: HashSet<&str> = old.originals.keys().map(String::as_str).collect();
        names.extend(new.originals.keys().map(String::as_str));
        let changed: Vec<&str> =
            names.into_iter().filter(|name| old.originals.get(*name) != new.originals.get(*name)).collect();
        let touches = |keys: &[&str]| keys.iter().any(|key| changed.contains(key));

        if touches(&["metric.reporters"]) && !only_known_reporters(new) {
            return Err(ConfigError(format!(
                "Validation of dynamic config update of Set({}) failed with class class kafka.server.DynamicMetricsReporters",
                changed.join(", ")
            )));
        }
        for listener in
            new.listeners.iter().filter(|listener| !new.controller_listener_names.contains(&listener.listener_name))
        {
            check_connection_limits(old, new, &listener.listener_name)?;
            check_network_threads(old, new, &listener.listener_name)?;
        }
        const POOLS: &[&str] =
            &["background.threads", "num.io.threads", "num.replica.fetchers", "num.recovery.threads.per.data.dir"];
        if touches(POOLS) {
            check_thread_counts(POOLS, &old.values, &new.values)?;
        }
        if changed.iter().any(|name| is_topic_default(name)) {
            check_local_retention(&new.values)?;
        }
        const REMOTE_POOLS: &[&str] = &[
            "remote.log.reader.threads",
            "remote.log.manager.copier.thread.pool.size",
            "remote.log.manager.expiration.thread.pool.size",
            "remote.log.manager.follower.thread.pool.size",
        ];
        if touches(REMOTE_POOLS) {
            check_thread_counts(REMOTE_POOLS, &old.values, &new.values)?;
        }
        if touches(CLEANER_KEYS) {
            check_cleaner_threads(old.log_cleaner_threads, new.log_cleaner_threads)?;
        }
        Ok(())
    }
}

const EXCEPTION: &str = "org.apache.kafka.common.config.ConfigException";

const CLEANER_KEYS: &[&str] = &[
    "log.cleaner.threads",
    "log.cleaner.dedupe.buffer.size",
    "log.cleaner.io.buffer.load.factor",
    "log.cleaner.io.buffer.size",
    "message.max.bytes",
    "log.cleaner.io.max.bytes.per.second",
    "log.cleaner.backoff.ms",
];

/// Puts `above` over `below`, where it hides its synonyms.
pub(super) fn lay_over(below: &mut ConfigMap, above: &ConfigMap) {
    for (name, text) in above {
        for synonym in broker_synonyms(name, false) {
            below.remove(synonym);
        }
        below.insert(name.clone(), text.clone());
    }
}

/// Leaves out what this broker cannot apply.
fn usable(
    set: &ConfigMap,
    per_broker: bool,
    complaints: &mut Vec<String>,
    is_fixed: impl Fn(&str) -> bool,
) -> ConfigMap {
    let mut usable = set.clone();
    usable.retain(|name, text| {
        let single = ConfigMap::from([(name.clone(), text.clone())]);
        let complaint = if let Err(error) = check_types(&single) {
            error.to_string()
        } else if is_fixed(name) {
            "it cannot be changed while the broker runs".to_owned()
        } else if SECURITY_KEYS.contains(&name.as_str()) {
            "it can only be set with a listener's prefix".to_owned()
        } else if !per_broker && is_per_broker(name) {
            "it can only be set for one broker".to_owned()
        } else {
            return true;
        };
        complaints.push(format!("dynamic setting {name} is ignored: {complaint}"));
        false
    });
    usable
}

/// Whether it is a key of a broker and cannot be changed while it runs. Unknown keys can be set freely.
fn is_read_only(name: &str) -> bool {
    broker_keys().get(name).is_some_and(|key| key.update_mode == UpdateMode::ReadOnly)
}

/// Whether it can be set for one broker only.
fn is_per_broker(name: &str) -> bool {
    match listener_key(name) {
        Some(key) => !CLUSTER_LEVEL_LISTENER_KEYS.contains(&key),
        None => broker_keys().get(name).is_some_and(|key| key.update_mode == UpdateMode::PerBroker),
    }
}

fn check_names(problem: &str, set: &ConfigMap, is_wrong: impl Fn(&str) -> bool) -> Result<(), ConfigError> {
    let mut wrong: Vec<&str> = set.keys().map(String::as_str).filter(|name| is_wrong(name)).collect();
    if wrong.is_empty() {
        return Ok(());
    }
    java::hash_order(&mut wrong, java::grown_table(set.len()));
    Err(ConfigError(format!("{problem}: {}", java::list_text(&wrong))))
}

/// Each value must be of its key's type, the listener prefix aside.
fn check_types(set: &ConfigMap) -> Result<(), ConfigError> {
    let mut base: BTreeMap<&str, &str> = BTreeMap::new();
    for (name, text) in set {
        base.insert(listener_key(name).unwrap_or(name), text);
    }
    let dynamic = |def: &'static ConfigDef| def.iter().filter(move |key| !is_read_only(key.name));
    for key in dynamic(broker_dynamic_only_keys()).chain(dynamic(broker_keys())) {
        if let Some(text) = base.get(key.name) {
            key.parse(Some(text))?;
            check_class(key, text)?;
        }
    }
    Ok(())
}

/// There are no classes here but those that the defaults name.
fn check_class(key: &ConfigKey, text: &str) -> Result<(), ConfigError> {
    let name = java::trim(text);
    if key.config_type != ConfigType::Class || key.default_text().as_deref() == Some(name) {
        return Ok(());
    }
    Err(ConfigError::invalid(key.name, text, &format!("Class {text} could not be found.")))
}

fn is_topic_default(name: &str) -> bool {
    name == "cordoned.log.dirs"
        || super::keys::topic_keys().iter().any(|key| key.synonyms.first().is_some_and(|synonym| synonym.name == name))
}

/// There are no plug-ins, so the default's is the only reporter that can be named.
fn only_known_reporters(config: &BrokerConfig) -> bool {
    let reporters = config.values.list("metric.reporters");
    reporters.iter().all(|name| name == "org.apache.kafka.common.metrics.JmxReporter")
}

fn check_thread_counts(pools: &[&str], old: &Values, new: &Values) -> Result<(), ConfigError> {
    let mut pools = pools.to_vec();
    // the order in which Kafka comes upon them
    java::hash_order(&mut pools, java::grown_table(broker_keys().iter().count()));
    pools.iter().try_for_each(|name| check_thread_count(name, old.int(name), new.int(name)))
}

/// A pool grows to the double at most, and shrinks to the half.
fn check_thread_count(name: &str, old: i32, new: i32) -> Result<(), ConfigError> {
    let problem = format!("Dynamic thread count update validation failed for {name}={new}");
    if new < old / 2 {
        return Err(ConfigError(format!("{problem}, value should be at least half the current value {old}")));
    }
    if i64::from(new) > i64::from(old) * 2 {
        return Err(ConfigError(format!("{problem}, value should not be greater than double the current value {old}")));
    }
    Ok(())
}

/// A listener cannot be told to let nobody in.
fn check_connection_limits(old: &BrokerConfig, new: &BrokerConfig, listener: &str) -> Result<(), ConfigError> {
    let limits = ["max.connections", "max.connection.creation.rate"];
    if limits.iter().all(|key| listener_int(old, listener, key) == listener_int(new, listener, key)) {
        return Ok(());
    }
    match limits.into_iter().map(|key| (key, listener_int(new, listener, key))).find(|(_, limit)| *limit <= 0) {
        Some((key, limit)) => Err(ConfigError(format!("Invalid {key} {limit}"))),
        None => Ok(()),
    }
}

fn check_network_threads(old: &BrokerConfig, new: &BrokerConfig, listener: &str) -> Result<(), ConfigError> {
    let threads = |config| listener_int(config, listener, "num.network.threads");
    check_thread_count("num.network.threads", threads(old), threads(new))
}

/// A number that a listener may have for itself.
fn listener_int(config: &BrokerConfig, listener: &str, key: &str) -> i32 {
    let name = format!("listener.name.{}.{key}", listener.to_lowercase());
    let own = config.originals.get(&name).and_then(|text| ConfigValue::parse(&name, text, ConfigType::Int).ok());
    match own {
        Some(ConfigValue::Int(number)) => number,
        _ => config.values.int(key),
    }
}

fn check_cleaner_threads(old: i32, new: i32) -> Result<(), ConfigError> {
    let problem = if new < 1 {
        "Log cleaner threads should be at least 1".to_owned()
    } else if new < old / 2 {
        format!("Log cleaner threads cannot be reduced to less than half the current value {old}")
    } else if i64::from(new) > i64::from(old) * 2 {
        format!("Log cleaner threads cannot be increased to more than double the current value {old}")
    } else {
        return Ok(());
    };
    Err(ConfigError(problem))
}

/// What is kept on this disk cannot be more than what is kept at all.
fn check_local_retention(new: &Values) -> Result<(), ConfigError> {
    let time = (new, "log.retention.ms", super::broker::retention_ms(new), "log.local.retention.ms");
    let size = (new, "log.retention.bytes", new.long("log.retention.bytes"), "log.local.retention.bytes");
    for (values, name, total, local_name) in [time, size] {
        let local = values.long(local_name);
        if total == -1 || local == -2 {
            continue;
        }
        if local == -1 {
            let reason = format!("Value must not be -1 as {name} value is set as {total}.");
            return Err(ConfigError::invalid(local_name, local, &reason));
        }
        if local > total {
            let reason = format!("Value must not be more than {name} property value: {total}");
            return Err(ConfigError::invalid(local_name, local, &reason));
        }
    }
    Ok(())
}

/// Intervals that were set dynamically are moved into their bounds, which may have changed since.
fn clamp_assignment_intervals(merged: &mut ConfigMap, fixed: &Values) {
    for kind in ["consumer", "share", "streams"] {
        let bound = |end: &str| fixed.int(&format!("group.{kind}.{end}.assignment.interval.ms"));
        let Some(text) = merged.get_mut(&format!("group.{kind}.assignment.interval.ms")) else { continue };
        if let Some(ms) = java::parse_integer::<i32>(java::trim(text)) {
            *text = ms.max(bound("min")).min(bound("max")).to_string();
        }
    }
}
