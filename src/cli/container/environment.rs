//! From a container's environment to the broker's settings, by the conventions of the images that people have.
//!
//! | image | variables | id of the cluster | data, where nobody says |
//! |---|---|---|---|
//! | `apache/kafka` | `KAFKA_A_B` | `CLUSTER_ID` | `/tmp/kraft-combined-logs` |
//! | `confluentinc/cp-kafka` | `KAFKA_A_B` | `CLUSTER_ID` | `/var/lib/kafka/data` |
//! | `bitnami/kafka` | `KAFKA_CFG_A_B` | `KAFKA_KRAFT_CLUSTER_ID` | `/bitnami/kafka/data` |
//!
//! `_` stands for `.`, `__` for `_`, `___` for `-`. A variable wins over a mounted `server.properties`; the defaults are
//! for what both leave out. What has no meaning here (a JVM's options, ZooKeeper) is left out, with a warning where a
//! person may have wanted something by it; what is to protect and cannot (TLS, SASL) is a problem. Pure: files, the
//! name of the machine and the clock are the caller's.

use std::collections::{BTreeMap, BTreeSet};

use super::{data, listeners, log_levels};
use crate::config::broker::ONE_REPLICA;
use crate::config::keys::broker_keys;
use crate::config::value::ConfigType;

/// Whose variables they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Convention {
    Apache,
    Confluent,
    Bitnami,
}

/// Variables by name, or settings by key.
pub(super) type Texts = BTreeMap<String, String>;

/// What the environment comes to.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Settings {
    pub properties: Texts,
    /// What is left out though somebody may have wanted something by it: one line each.
    pub warnings: Vec<String>,
    /// What stands in the way of a start: one line each.
    pub problems: Vec<String>,
}

/// Variables that begin as settings do and are none.
const NOT_SETTINGS: &[&str] = &[
    "KAFKA_ADVERTISED_HOST_NAME",
    "KAFKA_ADVERTISED_PORT",
    "KAFKA_BASE_DIR",
    "KAFKA_CERTIFICATE_PASSWORD",
    "KAFKA_CLASSPATH",
    "KAFKA_CLIENT_LISTENER_NAME",
    "KAFKA_CLIENT_PASSWORDS",
    "KAFKA_CLIENT_USERS",
    "KAFKA_CLUSTER_ID",
    "KAFKA_CONF_DIR",
    "KAFKA_CONTROLLER_PASSWORD",
    "KAFKA_CONTROLLER_USER",
    "KAFKA_CREATE_TOPICS",
    "KAFKA_CREATE_TOPICS_SEPARATOR",
    "KAFKA_DATA_DIR",
    "KAFKA_DEBUG",
    "KAFKA_ENABLE_KRAFT",
    "KAFKA_GC_LOG_OPTS",
    "KAFKA_HEAP_OPTS",
    "KAFKA_HOME",
    "KAFKA_HOST_NAME",
    "KAFKA_INTER_BROKER_PASSWORD",
    "KAFKA_INTER_BROKER_USER",
    "KAFKA_JMX_HOSTNAME",
    "KAFKA_JMX_OPTS",
    "KAFKA_JMX_PORT",
    "KAFKA_JVM_PERFORMANCE_OPTS",
    "KAFKA_KRAFT_CLUSTER_ID",
    "KAFKA_LOG4J_CMD",
    "KAFKA_LOG4J_LOGGERS",
    "KAFKA_LOG4J_OPTS",
    "KAFKA_LOG4J_ROOT_LOGLEVEL",
    "KAFKA_MOUNTED_CONF_DIR",
    "KAFKA_OPTS",
    "KAFKA_PORT",
    "KAFKA_TLS_CLIENT_AUTH",
    "KAFKA_TLS_TYPE",
    "KAFKA_TOOLS_LOG4J_LOGLEVEL",
    "KAFKA_VERSION",
    "KAFKA_VOLUME_DIR",
];

/// The same for whole families: of other programs in Confluent's images, and what Kubernetes adds for a service that is
/// called `kafka`.
const NOT_SETTINGS_BY_PREFIX: &[&str] =
    &["KAFKA_CFG_", "KAFKA_CONFLUENT_", "KAFKA_REST_", "KAFKA_PORT_", "KAFKA_SERVICE_"];

/// Settings of ZooKeeper's times.
const OF_ZOOKEEPER: &[&str] = &[
    "broker.id.generation.enable",
    "reserved.broker.max.id",
    "control.plane.listener.name",
    "inter.broker.protocol.version",
];

/// The settings that are lists; an entry that is empty, as a comma at the end makes one, is nobody's wish.
const LISTS: &[&str] = &[
    "advertised.listeners",
    "controller.listener.names",
    "controller.quorum.bootstrap.servers",
    "controller.quorum.voters",
    "listener.security.protocol.map",
    "listeners",
    "log.dirs",
    "process.roles",
];

/// A node of an image is for tests above all: members of a group need not wait for others.
const AT_ONCE: (&str, &str) = ("group.initial.rebalance.delay.ms", "0");

/// Variables of Ottla that are read elsewhere.
const NO_SETTINGS_OF_OTTLA: &[&str] = &["LOG", "STAY_ROOT"];

/// Reads the environment. `mounted` is what a `server.properties` says that was put into the container, if there is one; `mounts` what
/// is mounted, see [`data::place`].
pub(super) fn settings(environment: &Texts, convention: Convention, mounted: Option<&Texts>, mounts: &str) -> Settings {
    let convention = convention_of(environment, convention);
    let mut reading = Reading { environment, given: mounted.cloned().unwrap_or_default(), told: Settings::default() };
    reading.take_variables(convention);
    reading.told.warnings.extend(log_levels::log_levels(environment).warnings);
    reading.leave_out_zookeeper();
    reading.tidy_lists();
    reading.node_id();
    reading.listeners();
    reading.protection();
    reading.topics();
    reading.defaults(convention, mounted.is_some(), mounts);
    let Reading { given, mut told, .. } = reading;
    told.properties = given;
    told
}

/// Bitnami's, if the variables are; else that of the script that was called.
pub(super) fn convention_of(environment: &Texts, called: Convention) -> Convention {
    let is_bitnami = environment.keys().any(|name| name.starts_with("KAFKA_CFG_"));
    if is_bitnami { Convention::Bitnami } else { called }
}

/// Adds where the data goes, unless the settings say it. `is_a_persons`: they come from a file that somebody wrote.
pub(super) fn add_log_dirs(given: &mut Texts, convention: Convention, is_a_persons: bool, mounts: &str) {
    let own = match convention {
        Convention::Confluent => data::CONFLUENTS,
        Convention::Bitnami => data::BITNAMIS,
        // Kafka's own default.
        Convention::Apache if is_a_persons => "/tmp/kafka-logs",
        Convention::Apache => data::KAFKAS,
    };
    if !given.contains_key("log.dir") {
        given.entry("log.dirs".to_owned()).or_insert_with(|| data::place(own, mounts).to_owned());
    }
}

/// Whether nothing is no value of a setting: then an empty variable is one that nobody has set, as compose files make them.
fn needs_a_value(key: &str) -> bool {
    let takes_text = [ConfigType::String, ConfigType::List, ConfigType::Class, ConfigType::Password];
    broker_keys().get(key).is_some_and(|key| !takes_text.contains(&key.config_type))
}

/// The id that somebody wants the cluster to have.
pub(super) fn cluster_id(environment: &Texts) -> Option<&str> {
    ["CLUSTER_ID", "KAFKA_KRAFT_CLUSTER_ID", "KAFKA_CLUSTER_ID"]
        .into_iter()
        .filter_map(|name| environment.get(name))
        .map(|id| id.trim())
        .find(|id| !id.is_empty())
}

/// The setting that a variable stands for, without its prefix: `LOG_DIRS` for `log.dirs`.
fn key(variable: &str) -> String {
    let mut key = String::with_capacity(variable.len());
    let mut rest = variable;
    while let Some(at) = rest.find('_') {
        key.push_str(&rest[..at]);
        let run = rest[at..].bytes().take_while(|byte| *byte == b'_').count().min(3);
        key.push(['.', '_', '-'][run - 1]);
        rest = &rest[at + run..];
    }
    key.push_str(rest);
    key.to_lowercase()
}

struct Reading<'a> {
    environment: &'a Texts,
    given: Texts,
    told: Settings,
}

impl Reading<'_> {
    fn warn(&mut self, warning: impl Into<String>) {
        self.told.warnings.push(warning.into());
    }

    fn variable(&self, name: &str) -> Option<&str> {
        self.environment.get(name).map(|value| value.trim()).filter(|value| !value.is_empty())
    }

    fn take_variables(&mut self, convention: Convention) {
        let prefix = if convention == Convention::Bitnami { "KAFKA_CFG_" } else { "KAFKA_" };
        let mut passed_over = Vec::new();
        for (name, value) in self.environment {
            if let Some(own) = name.strip_prefix("OTTLA_").filter(|own| !NO_SETTINGS_OF_OTTLA.contains(own)) {
                let setting = format!("ottla.{}", key(own));
                if crate::config::ottla::KEYS.contains(&setting.as_str()) {
                    self.given.insert(setting, value.clone());
                } else if !["PORT", "SERVICE_"].iter().any(|family| own.starts_with(family)) {
                    // Those are what Kubernetes adds for a service of that name.
                    self.told.warnings.push(format!("{name}: there is no such variable of Ottla; it is left out"));
                }
                continue;
            }
            let is_setting = !NOT_SETTINGS.contains(&name.as_str())
                && (convention == Convention::Bitnami
                    || !NOT_SETTINGS_BY_PREFIX.iter().any(|family| name.starts_with(family)));
            match name.strip_prefix(prefix).filter(|rest| !rest.is_empty()) {
                Some(rest) if is_setting && !(value.trim().is_empty() && needs_a_value(&key(rest))) => {
                    self.given.insert(key(rest), value.clone());
                }
                // Beside KAFKA_CFG_NODE_ID, KAFKA_NODE_ID is nobody's.
                None if convention == Convention::Bitnami && is_setting => {
                    let known = name.strip_prefix("KAFKA_").map(key);
                    if known.is_some_and(|key| broker_keys().contains(&key)) {
                        passed_over.push(name.as_str());
                    }
                }
                _ => {}
            }
        }
        passed_over.retain(|name| !["KAFKA_BROKER_ID", "KAFKA_NODE_ID"].contains(name));
        if !passed_over.is_empty() {
            let names = passed_over.join(", ");
            self.warn(format!(
                "{names}: not read beside KAFKA_CFG_*, as in Bitnami's image; write KAFKA_CFG_ for KAFKA_"
            ));
        }
        if convention == Convention::Bitnami && !self.given.contains_key("node.id") {
            for name in ["KAFKA_NODE_ID", "KAFKA_BROKER_ID"] {
                if let Some(id) = self.variable(name).map(str::to_owned) {
                    self.given.insert("node.id".to_owned(), id);
                    break;
                }
            }
        }
    }

    fn leave_out_zookeeper(&mut self) {
        let found: Vec<String> = self
            .given
            .keys()
            .filter(|key| key.starts_with("zookeeper.") || OF_ZOOKEEPER.contains(&key.as_str()))
            .cloned()
            .collect();
        found.iter().for_each(|key| drop(self.given.remove(key)));
        if found.iter().any(|key| key.starts_with("zookeeper.")) && !self.given.contains_key("process.roles") {
            // Which could be done in those times, and a test module does.
            self.given.entry("ottla.advertised.dynamic".to_owned()).or_insert_with(|| "true".to_owned());
            self.warn(format!(
                "{}: there is no ZooKeeper, as in Kafka 4; this node is a cluster of its own",
                found.join(", ")
            ));
        } else if !found.is_empty() {
            self.warn(format!("{}: left out, there is no ZooKeeper, as in Kafka 4", found.join(", ")));
        }
    }

    fn tidy_lists(&mut self) {
        for list in LISTS {
            let Some(text) = self.given.get(*list) else { continue };
            let entries: Vec<&str> = text.split(',').map(str::trim).filter(|entry| !entry.is_empty()).collect();
            let tidy = entries.join(",");
            if tidy.is_empty() {
                self.given.remove(*list);
            } else {
                self.given.insert((*list).to_owned(), tidy);
            }
        }
    }

    /// `broker.id=-1` had ZooKeeper make one up.
    fn node_id(&mut self) {
        for key in ["node.id", "broker.id"] {
            let Some(text) = self.given.get(key).map(|text| text.trim().to_owned()) else { continue };
            if text.is_empty() || text == "-1" || text.eq_ignore_ascii_case("auto") {
                self.given.remove(key);
                self.warn(format!(
                    "{key}={text}: nobody gives out ids, as in Kafka 4; the node's is 1 unless node.id says"
                ));
            }
        }
        let (node, broker) = (self.given.get("node.id").cloned(), self.given.get("broker.id").cloned());
        if let (Some(node), Some(broker)) = (&node, &broker)
            && node.trim() != broker.trim()
        {
            self.given.remove("broker.id");
            self.warn(format!("broker.id={broker}: left out, node.id={node} says who this is"));
        }
    }

    fn listeners(&mut self) {
        let outcome = listeners::complete(&self.given, |name| self.variable(name));
        self.given.extend(outcome.settings);
        self.told.warnings.extend(outcome.warnings);
        self.told.problems.extend(outcome.problems);
    }

    /// TLS and SASL are not served yet. A listener that asks for them is a problem; without one, their settings do nothing
    /// in Kafka either.
    fn protection(&mut self) {
        let protected = listeners::protected(&self.given);
        for (listener, protocol) in &protected {
            self.told.problems.push(format!(
                "listener {listener} asks for {protocol}: TLS and SASL are not supported yet, and what was meant to be closed is \
                 not served openly; say PLAINTEXT for it in KAFKA_LISTENER_SECURITY_PROTOCOL_MAP to serve without"
            ));
        }
        let is_inert = |key: &str| {
            let key =
                key.strip_prefix("listener.name.").and_then(|rest| rest.split_once('.')).map_or(key, |(_, key)| key);
            [
                "ssl.",
                "sasl.",
                "plain.sasl.",
                "scram-sha-256.sasl.",
                "scram-sha-512.sasl.",
                "oauthbearer.sasl.",
                "gssapi.sasl.",
            ]
            .iter()
            .any(|family| key.starts_with(family))
        };
        let inert: BTreeSet<String> = self.given.keys().filter(|key| is_inert(key)).cloned().collect();
        inert.iter().for_each(|key| drop(self.given.remove(key)));
        let wanted = inert.iter().any(|key| !["ssl.endpoint.identification.algorithm"].contains(&key.as_str()));
        if wanted && protected.is_empty() {
            let keys: Vec<String> = inert.into_iter().collect();
            self.warn(format!("{}: no listener asks for TLS or SASL, so nothing comes of it", keys.join(", ")));
        }
        let users = ["KAFKA_CLIENT_USERS", "KAFKA_INTER_BROKER_USER", "KAFKA_CONTROLLER_USER", "KAFKA_TLS_TYPE"];
        let users: Vec<&str> = users.into_iter().filter(|name| self.environment.contains_key(*name)).collect();
        if !users.is_empty() && protected.is_empty() {
            self.warn(format!("{}: no listener asks for TLS or SASL, so nothing comes of it", users.join(", ")));
        }
    }

    /// `orders:3:1,events:1:1:compact`
    fn topics(&mut self) {
        let Some(topics) = self.variable("KAFKA_CREATE_TOPICS").map(str::to_owned) else { return };
        let separator = self.environment.get("KAFKA_CREATE_TOPICS_SEPARATOR").filter(|separator| !separator.is_empty());
        let topics = match separator {
            // As it is often written in a file of YAML.
            Some(separator) => topics.replace(&separator.replace("$'\\n'", "\n").replace("\\n", "\n"), ","),
            None => topics,
        };
        self.given.entry("ottla.test.topics".to_owned()).or_insert(topics);
    }

    fn defaults(&mut self, convention: Convention, is_mounted: bool, mounts: &str) {
        for (key, value) in ONE_REPLICA.into_iter().chain([AT_ONCE]) {
            self.given.entry(key.to_owned()).or_insert_with(|| value.to_owned());
        }
        add_log_dirs(&mut self.given, convention, is_mounted, mounts);
        if let Some(id) = cluster_id(self.environment).map(str::to_owned) {
            self.given.entry("ottla.cluster.id".to_owned()).or_insert(id);
        }
    }
}
