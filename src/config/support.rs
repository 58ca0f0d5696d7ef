//! What Ottla makes of each known key: it has effect, it has none, or it protects something and is not honoured yet.
//!
//! A key without effect is a warning when it is set to something else than its default. One that protects stops the
//! start: what was meant to be closed is never served open. Both lists are kept honest by hand: a feature that begins
//! to read a key moves it.

use std::collections::BTreeMap;

use super::broker::ConfigProblem;
use super::endpoint::{Endpoint, SecurityProtocol};
use super::keys::{ConfigKey, Values, broker_keys};
use super::ottla;
use super::synonyms::listener_key;
use super::validator::parse_voter;
use super::value::{ConfigError, ConfigValue};

/// What a key does here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Support {
    Effective,
    /// Nothing yet, or nothing that could be done without a Java machine.
    NoEffect,
    /// Guards the broker or its data, and is not honoured.
    Protects,
}

/// In the order of the alphabet.
const EFFECTIVE: &[&str] = &[
    "add.partitions.to.txn.retry.backoff.max.ms",
    "add.partitions.to.txn.retry.backoff.ms",
    "advertised.listeners",
    "auto.create.topics.enable",
    "broker.id",
    "broker.rack",
    "compression.gzip.level",
    "compression.type",
    "compression.zstd.level",
    "connections.max.idle.ms",
    "controlled.shutdown.enable",
    "controller.listener.names",
    "controller.quorum.bootstrap.servers",
    "controller.quorum.voters",
    "cordoned.log.dirs",
    "default.replication.factor",
    "delete.topic.enable",
    "fetch.max.bytes",
    "group.consumer.assignment.interval.ms",
    "group.consumer.assignors",
    "group.consumer.heartbeat.interval.ms",
    "group.consumer.max.assignment.interval.ms",
    "group.consumer.max.heartbeat.interval.ms",
    "group.consumer.max.session.timeout.ms",
    "group.consumer.max.size",
    "group.consumer.migration.policy",
    "group.consumer.min.assignment.interval.ms",
    "group.consumer.min.heartbeat.interval.ms",
    "group.consumer.min.session.timeout.ms",
    "group.consumer.regex.refresh.interval.ms",
    "group.consumer.session.timeout.ms",
    "group.coordinator.rebalance.protocols",
    "group.initial.rebalance.delay.ms",
    "group.max.session.timeout.ms",
    "group.max.size",
    "group.min.session.timeout.ms",
    "inter.broker.listener.name",
    "internal.metadata.log.segment.bytes",
    "listener.security.protocol.map",
    "listeners",
    "log.cleaner.backoff.ms",
    "log.cleaner.dedupe.buffer.size",
    "log.cleaner.delete.retention.ms",
    "log.cleaner.enable",
    "log.cleaner.io.buffer.load.factor",
    "log.cleaner.io.buffer.size",
    "log.cleaner.io.max.bytes.per.second",
    "log.cleaner.max.compaction.lag.ms",
    "log.cleaner.min.cleanable.ratio",
    "log.cleaner.min.compaction.lag.ms",
    "log.cleaner.threads",
    "log.cleanup.policy",
    "log.dir",
    "log.dirs",
    "log.flush.interval.messages",
    "log.flush.interval.ms",
    "log.flush.offset.checkpoint.interval.ms",
    "log.flush.scheduler.interval.ms",
    "log.flush.start.offset.checkpoint.interval.ms",
    "log.index.interval.bytes",
    "log.index.size.max.bytes",
    "log.initial.task.delay.ms",
    "log.message.timestamp.after.max.ms",
    "log.message.timestamp.before.max.ms",
    "log.message.timestamp.type",
    "log.preallocate",
    "log.retention.bytes",
    "log.retention.check.interval.ms",
    "log.retention.hours",
    "log.retention.minutes",
    "log.retention.ms",
    "log.roll.hours",
    "log.roll.jitter.hours",
    "log.roll.jitter.ms",
    "log.roll.ms",
    "log.segment.bytes",
    "log.segment.delete.delay.ms",
    "max.connection.creation.rate",
    "max.connections",
    "max.connections.per.ip",
    "max.connections.per.ip.overrides",
    "max.incremental.fetch.session.cache.slots",
    "max.request.partition.size.limit",
    "message.max.bytes",
    "metadata.log.dir",
    "metadata.log.max.record.bytes.between.snapshots",
    "metadata.log.max.snapshot.interval.ms",
    "metadata.log.segment.bytes",
    "metadata.log.segment.ms",
    "metadata.max.retention.bytes",
    "metadata.max.retention.ms",
    "min.insync.replicas",
    "node.id",
    "num.partitions",
    "num.recovery.threads.per.data.dir",
    "num.replica.alter.log.dirs.threads",
    "offset.metadata.max.bytes",
    "offsets.commit.timeout.ms",
    "offsets.load.buffer.size",
    "offsets.retention.check.interval.ms",
    "offsets.retention.minutes",
    "offsets.topic.compression.codec",
    "offsets.topic.num.partitions",
    "offsets.topic.replication.factor",
    "offsets.topic.segment.bytes",
    "process.roles",
    "producer.id.expiration.check.interval.ms",
    "producer.id.expiration.ms",
    "replica.high.watermark.checkpoint.interval.ms",
    "security.inter.broker.protocol",
    "socket.listen.backlog.size",
    "socket.receive.buffer.bytes",
    "socket.request.max.bytes",
    "socket.send.buffer.bytes",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms",
    "transaction.max.timeout.ms",
    "transaction.partition.verification.enable",
    "transaction.remove.expired.transaction.cleanup.interval.ms",
    "transaction.state.log.load.buffer.size",
    "transaction.state.log.min.isr",
    "transaction.state.log.num.partitions",
    "transaction.state.log.replication.factor",
    "transaction.state.log.segment.bytes",
    "transactional.id.expiration.ms",
];

const PROTECTS: &[&str] = &[
    "alter.config.policy.class.name",
    "authorizer.class.name",
    "client.quota.callback.class",
    // values that it should fetch would be taken literally
    "config.providers",
    "connections.max.reauth.ms",
    "create.topic.policy.class.name",
    "principal.builder.class",
    "security.providers",
];

/// Families of keys that protect.
const PROTECTING_FAMILIES: &[&str] = &["sasl.", "ssl.", "quota.", "controller.quota.", "config.providers."];

/// Of those families what guards nothing: when a login or its keys are renewed, and how long that is waited for. Without
/// a listener with SASL it has no effect in Kafka either.
const PACES_LOGINS: &[&str] = &[
    "sasl.kerberos.kinit.cmd",
    "sasl.kerberos.min.time.before.relogin",
    "sasl.kerberos.ticket.renew.jitter",
    "sasl.kerberos.ticket.renew.window.factor",
    "sasl.login.connect.timeout.ms",
    "sasl.login.read.timeout.ms",
    "sasl.login.refresh.buffer.seconds",
    "sasl.login.refresh.min.period.seconds",
    "sasl.login.refresh.window.factor",
    "sasl.login.refresh.window.jitter",
    "sasl.login.retry.backoff.max.ms",
    "sasl.login.retry.backoff.ms",
    "sasl.oauthbearer.jwks.endpoint.refresh.ms",
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms",
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms",
];

/// Keys that Kafka's authorizer reads, though its table has them not. Without one they do nothing there either.
const OF_THE_AUTHORIZER: &[&str] = &["super.users", "allow.everyone.if.no.acl.found"];

/// Settings of plug-ins, which have names of their own.
const OF_PLUGINS: &[&str] = &["rsm.config.", "rlmm.config.", "metrics.", "metric.reporters."];

/// The keys that a listener may have for itself and that are read then.
const OF_LISTENERS: &[&str] = &["max.connections", "max.connection.creation.rate"];

/// What the key does here; its listener prefix does not matter.
pub fn of(key: &str) -> Support {
    if EFFECTIVE.binary_search(&key).is_ok() {
        Support::Effective
    } else if PACES_LOGINS.contains(&key) {
        Support::NoEffect
    } else if PROTECTS.contains(&key) || PROTECTING_FAMILIES.iter().any(|family| key.starts_with(family)) {
        Support::Protects
    } else {
        Support::NoEffect
    }
}

/// Keys of topics that are without effect; all others are honoured.
const TOPIC_WITHOUT_EFFECT: &[&str] = &[
    "compression.lz4.level",
    "follower.replication.throttled.replicas",
    "leader.replication.throttled.replicas",
    "local.retention.bytes",
    "local.retention.ms",
    "remote.log.copy.disable",
    "remote.log.delete.on.disable",
    "remote.storage.enable",
    "unclean.leader.election.enable",
];

/// What a topic's key does here.
pub fn of_topic(key: &str) -> Support {
    if TOPIC_WITHOUT_EFFECT.contains(&key) { Support::NoEffect } else { Support::Effective }
}

/// What a key does here that can only be set at run time.
pub fn of_dynamic_only(key: &str) -> Support {
    // There is no replication to throttle.
    if key == "replica.alter.log.dirs.io.max.bytes.per.second" { Support::Effective } else { Support::NoEffect }
}

/// Families of keys without effect that are no warning: of what is not there and has no clients, but set in the
/// `server.properties` that come with Kafka.
const QUIET_FAMILIES: &[&str] = &["share.coordinator."];

/// What else is to be said of a key.
pub fn remark(key: &str) -> Option<&'static str> {
    match key {
        "controller.listener.names" => Some("its port is not opened, as a cluster of one has nobody to talk to there"),
        "controller.quorum.bootstrap.servers" => Some("used by `kafka-storage`; a cluster of one asks nobody"),
        "group.coordinator.rebalance.protocols" => Some("`streams` and `share` are ignored"),
        "leader.replication.throttled.rate" | "follower.replication.throttled.rate" => {
            Some("there is nothing to replicate")
        }
        "listeners" | "listener.security.protocol.map" => Some("a change at run time is refused"),
        "max.connections" | "max.connection.creation.rate" => Some("for a listener, too"),
        "remote.storage.enable" => Some("`true` is refused, as long as `remote.log.storage.system.enable` is `false`"),
        "offsets.topic.replication.factor"
        | "transaction.state.log.replication.factor"
        | "transaction.state.log.min.isr" => Some("`1` without `process.roles`"),
        _ => None,
    }
}

#[derive(Default)]
pub(super) struct Findings {
    pub problems: Vec<ConfigProblem>,
    pub warnings: Vec<String>,
}

/// Checks what was given for keys that are unknown, without effect, or needed for protection.
pub(super) fn check(given: &BTreeMap<String, String>, values: &Values, bound: &[Endpoint]) -> Findings {
    let mut findings = Findings::default();
    for (name, text) in given {
        match listener_override(name) {
            Some(key) => findings.judge(name, key, key.parse(Some(text)).ok().flatten().as_ref()),
            None => match broker_keys().get(name) {
                Some(key) => findings.judge(name, key, values.get(name)),
                None => findings.judge_unknown(name),
            },
        }
    }
    for endpoint in bound.iter().filter(|endpoint| endpoint.security_protocol != SecurityProtocol::Plaintext) {
        findings.refuse(
            "listeners",
            format!(
                "listeners={endpoint} asks for {}, which is not supported yet; it is not served as PLAINTEXT instead",
                endpoint.security_protocol
            ),
        );
    }
    if given.contains_key("zookeeper.connect") && !given.contains_key("process.roles") {
        findings.refuse(
            "zookeeper.connect",
            "zookeeper.connect is set and process.roles is not: there is no ZooKeeper mode, as in Kafka 4".to_owned(),
        );
    }
    findings.refuse_more_than_one_node(values);
    findings
}

/// Why a setting of a running broker does nothing, if so. Unknown keys are free to be set.
pub(super) fn without_effect(name: &str, text: &str) -> Option<String> {
    let key = listener_override(name).or_else(|| broker_keys().get(name))?;
    let mut findings = Findings::default();
    findings.judge(name, key, key.parse(Some(text)).ok().flatten().as_ref());
    match findings.problems.is_empty() {
        true => findings.warnings.pop(),
        false => Some(format!("{name} protects the broker and is not supported yet")),
    }
}

/// Whether the key is a known one with `listener.name.<listener>.` (and perhaps a SASL mechanism) before it, and if so
/// whether its value is valid.
pub(super) fn parse_listener_override(name: &str, text: &str) -> Option<Result<(), ConfigError>> {
    let key = listener_override(name)?;
    let value = ConfigValue::parse(name, text, key.config_type);
    Some(value.and_then(|value| key.validator.check(name, Some(&value))))
}

fn listener_override(name: &str) -> Option<&'static ConfigKey> {
    let base = listener_key(name)?;
    let keys = broker_keys();
    keys.get(base).or_else(|| keys.get(base.split_once('.')?.1))
}

impl Findings {
    fn refuse(&mut self, key: &str, message: String) {
        self.problems.push(ConfigProblem { keys: vec![key.to_owned()], message });
    }

    /// `name` is `key`'s, with or without a prefix.
    fn judge(&mut self, name: &str, key: &ConfigKey, value: Option<&ConfigValue>) {
        if key.default.as_ref().is_some_and(|default| default.as_ref() == value) {
            return;
        }
        let shown = value.map(ConfigValue::to_text).unwrap_or_default();
        match of(key.name) {
            Support::Effective if name == key.name || OF_LISTENERS.contains(&key.name) => {}
            Support::Protects => self.refuse(
                name,
                format!("{name}={shown} protects the broker and is not supported yet; remove it to start without"),
            ),
            Support::NoEffect if QUIET_FAMILIES.iter().any(|family| key.name.starts_with(family)) => {}
            Support::Effective | Support::NoEffect => self.warnings.push(format!("{name}={shown} has no effect")),
        }
    }

    fn judge_unknown(&mut self, name: &str) {
        if ottla::KEYS.contains(&name) {
            return;
        }
        if name.starts_with("ottla.") {
            self.warnings.push(format!("{name} is not a setting of Ottla and is ignored"));
        } else if of(name) == Support::Protects {
            self.refuse(
                name,
                format!("{name} protects the broker and is not supported yet; remove it to start without"),
            );
        } else if OF_THE_AUTHORIZER.contains(&name) || OF_PLUGINS.iter().any(|family| name.starts_with(family)) {
            self.warnings.push(format!("{name} has no effect"));
        } else {
            self.warnings.push(format!("{name} is not a setting of Kafka 4.3 and is ignored"));
        }
    }

    /// A node that ran alone although it belongs to a cluster would elect itself and diverge from it.
    fn refuse_more_than_one_node(&mut self, values: &Values) {
        let roles = values.list("process.roles");
        for role in ["broker", "controller"] {
            if !roles.iter().any(|item| item == role) {
                self.refuse(
                    "process.roles",
                    format!("process.roles={} lacks {role}: a node of one role is not supported yet", roles.join(",")),
                );
            }
        }
        let voters = values.list("controller.quorum.voters");
        let is_other = |entry: &&String| parse_voter(entry).is_ok_and(|(id, ..)| id != values.int("node.id"));
        let others = voters.iter().filter(is_other).count();
        if others > 0 {
            self.refuse(
                "controller.quorum.voters",
                format!(
                    "controller.quorum.voters={} names other nodes: a quorum is not supported yet",
                    voters.join(",")
                ),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::BrokerConfig;
    use crate::config::keys::topic_keys;

    fn load(text: &str) -> Result<Vec<String>, Vec<String>> {
        match BrokerConfig::load(crate::config::properties::parse(text.as_bytes()).unwrap()) {
            Ok(loaded) => Ok(loaded.warnings),
            Err(problems) => Err(problems.iter().map(ToString::to_string).collect()),
        }
    }

    #[test]
    fn the_lists_name_known_keys_in_order() {
        assert!(EFFECTIVE.is_sorted());
        for key in EFFECTIVE.iter().chain(PROTECTS).chain(PACES_LOGINS) {
            assert!(broker_keys().contains(key), "{key}");
        }
        for key in TOPIC_WITHOUT_EFFECT {
            assert!(topic_keys().contains(key), "{key}");
        }
        // The default of what does nothing does nothing, and the reverse.
        for key in topic_keys().iter() {
            for synonym in &key.synonyms {
                assert_eq!(of(synonym.name), of_topic(key.name), "{} and {}", key.name, synonym.name);
            }
        }
    }

    #[test]
    fn of_a_change_it_is_told_that_it_does_nothing() {
        let told = |name: &str, text: &str| without_effect(name, text);
        assert_eq!(told("num.io.threads", "16").unwrap(), "num.io.threads=16 has no effect");
        assert_eq!(told("num.io.threads", "8"), None, "the default");
        let name = "listener.name.plaintext.num.network.threads";
        assert_eq!(told(name, "4").unwrap(), format!("{name}=4 has no effect"));
        assert_eq!(told("compression.lz4.level", "12").unwrap(), "compression.lz4.level=12 has no effect");
        for name in
            ["max.connections", "listener.name.x.max.connections", "listener.name.x.max.connection.creation.rate"]
        {
            assert_eq!(told(name, "7"), None);
        }
        assert!(told("listener.name.x.max.connections.per.ip", "7").is_some());
        assert_eq!(told("somebody.elses", "7"), None);
        let secret = told("listener.name.x.ssl.key.password", "secret").unwrap();
        assert_eq!(secret, "listener.name.x.ssl.key.password protects the broker and is not supported yet");
    }

    #[test]
    fn what_protects_stops_the_start() {
        for text in [
            "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "listeners=SASL_PLAINTEXT://:9092\nsecurity.inter.broker.protocol=SASL_PLAINTEXT",
            "listeners=IN://:9092\ninter.broker.listener.name=IN\nlistener.security.protocol.map=IN:SSL,CONTROLLER:PLAINTEXT",
            "ssl.client.auth=required",
            "sasl.enabled.mechanisms=PLAIN",
            "listener.name.plaintext.plain.sasl.jaas.config=x required;",
            "listener.name.plaintext.ssl.client.auth=required",
            "quota.window.num=5",
            "client.quota.callback.class=com.example.Quotas",
            "config.providers=file",
            "create.topic.policy.class.name=com.example.Policy",
            "alter.config.policy.class.name=com.example.Policy",
            "principal.builder.class=com.example.Builder",
            "connections.max.reauth.ms=10",
            "zookeeper.connect=localhost:2181\nbroker.id=0",
            "process.roles=broker\nnode.id=2\ncontroller.quorum.voters=1@h:9093\ncontroller.listener.names=CONTROLLER",
        ] {
            let problems = load(text).unwrap_err();
            assert!(
                problems
                    .iter()
                    .any(|problem| problem.contains("not supported yet") || problem.contains("no ZooKeeper")),
                "{text}: {problems:?}"
            );
        }
    }

    #[test]
    fn a_secret_is_never_shown() {
        let problems =
            load("ssl.keystore.password=hunter2\nlistener.name.x.plain.sasl.jaas.config=hunter2").unwrap_err();
        assert_eq!(problems.len(), 2);
        assert!(!problems.concat().contains("hunter2"), "{problems:?}");
        let warnings = load("delegation.token.secret.key=hunter2\nunknown.secret=hunter2").unwrap();
        assert_eq!(warnings.len(), 2);
        assert!(!warnings.concat().contains("hunter2"), "{warnings:?}");
    }

    #[test]
    fn what_has_no_effect_warns_once_unless_it_is_the_default() {
        let warnings = load(
            "num.io.threads=16\nnum.network.threads=3\nmetric.reporters=com.example.R\nlog.retention.hours=1\n\
             inter.broker.protocol.version=3.9\nsuper.users=User:a\nlistener.name.plaintext.num.network.threads=5\n\
             sasl.login.refresh.buffer.seconds=9",
        );
        assert_eq!(
            warnings.unwrap(),
            [
                "inter.broker.protocol.version is not a setting of Kafka 4.3 and is ignored",
                "listener.name.plaintext.num.network.threads=5 has no effect",
                "metric.reporters=com.example.R has no effect",
                "num.io.threads=16 has no effect",
                "sasl.login.refresh.buffer.seconds=9 has no effect",
                "super.users has no effect",
            ]
        );
    }
}
