//! Rules between the keys of a node, in the order in which Kafka applies them.
//!
//! A change of a running broker is refused with the first rule that it breaks; a start is refused with all of them. The
//! texts are Kafka's, because a client that alters a broker's settings is sent them.

use std::collections::{BTreeMap, BTreeSet};

use super::super::endpoint::{is_valid_host, parse_csv_map};
use super::super::java;
use super::super::keys::Values;
use super::super::validator::parse_voter;
use super::super::value::ConfigError;
use super::listeners::Listeners;

/// A broken rule.
#[derive(Debug)]
pub(super) struct Violation {
    /// The keys that it is about.
    pub keys: Vec<String>,
    /// Kafka's text. A rule made with Scala's `require` begins with [`REQUIREMENT`].
    pub text: String,
}

/// How Scala's `require` begins what it says.
pub(super) const REQUIREMENT: &str = "requirement failed: ";

/// What Kafka says to `log.cleaner.threads=0`, by accident.
pub(super) const DIVISION_BY_ZERO: &str = "/ by zero";

struct Rules<'a> {
    values: &'a Values,
    given: &'a BTreeMap<String, String>,
    broken: Vec<Violation>,
}

/// Every broken rule. `values` hold each key of a broker.
pub(super) fn check(values: &Values, given: &BTreeMap<String, String>) -> Vec<Violation> {
    let mut rules = Rules { values, given, broken: Vec::new() };
    rules.groups();
    rules.share_groups();
    let listeners = match Listeners::read(values, given.contains_key("listener.security.protocol.map")) {
        Ok(listeners) => Some(listeners),
        Err(ConfigError(text)) => {
            rules.violate(LISTENER_KEYS, text);
            None
        }
    };
    if let Some(listeners) = &listeners {
        rules.early_start_listeners(listeners);
    }
    rules.rebalance_protocols();
    rules.node_and_logs();
    if let Some(listeners) = &listeners {
        rules.quorum(listeners);
        rules.listeners(listeners);
    }
    rules.connections();
    rules.broken
}

/// Whether the node is its whole cluster: a controller that names no others.
pub(super) fn is_alone(values: &Values) -> bool {
    has_role(values, "controller")
        && has_role(values, "broker")
        && values.list("controller.quorum.voters").is_empty()
        && values.list("controller.quorum.bootstrap.servers").is_empty()
}

pub(super) fn has_role(values: &Values, role: &str) -> bool {
    values.list("process.roles").iter().any(|item| item == role)
}

const LISTENER_KEYS: &[&str] = &[
    "listeners",
    "advertised.listeners",
    "listener.security.protocol.map",
    "controller.listener.names",
    "controller.quorum.voters",
];

enum Order {
    AtLeast,
    AtMost,
    Less,
}
use Order::{AtLeast, AtMost, Less};

/// Of the keys of one kind of groups, by what follows `group.<kind>.`
const GROUP_TIMES: &[(&str, Order, &str)] = &[
    ("max.heartbeat.interval.ms", AtLeast, "min.heartbeat.interval.ms"),
    ("heartbeat.interval.ms", AtLeast, "min.heartbeat.interval.ms"),
    ("heartbeat.interval.ms", AtMost, "max.heartbeat.interval.ms"),
    ("max.session.timeout.ms", AtLeast, "min.session.timeout.ms"),
    ("session.timeout.ms", AtLeast, "min.session.timeout.ms"),
    ("session.timeout.ms", AtMost, "max.session.timeout.ms"),
    ("heartbeat.interval.ms", Less, "session.timeout.ms"),
    ("max.assignment.interval.ms", AtLeast, "min.assignment.interval.ms"),
    ("assignment.interval.ms", AtLeast, "min.assignment.interval.ms"),
    ("assignment.interval.ms", AtMost, "max.assignment.interval.ms"),
];

const SHARE_GROUP_BOUNDS: &[(&str, &str)] = &[
    ("group.share.max.delivery.count.limit", "group.share.delivery.count.limit"),
    ("group.share.delivery.count.limit", "group.share.min.delivery.count.limit"),
    ("group.share.max.partition.max.record.locks", "group.share.partition.max.record.locks"),
    ("group.share.partition.max.record.locks", "group.share.min.partition.max.record.locks"),
    ("group.share.record.lock.duration.ms", "group.share.min.record.lock.duration.ms"),
    ("group.share.max.record.lock.duration.ms", "group.share.record.lock.duration.ms"),
    ("group.share.max.share.sessions", "group.share.max.size"),
];

impl Rules<'_> {
    fn violate(&mut self, keys: &[&str], text: impl Into<String>) {
        let keys = keys.iter().map(|key| (*key).to_owned()).collect();
        self.broken.push(Violation { keys, text: text.into() });
    }

    fn require(&mut self, holds: bool, keys: &[&str], text: impl Into<String>) {
        if !holds {
            self.violate(keys, format!("{REQUIREMENT}{}", text.into()));
        }
    }

    fn groups(&mut self) {
        let values = self.values;
        self.assignors("group.consumer.assignors", &["uniform", "range"]);
        self.assignors("group.share.assignors", &["simple"]);
        for kind in ["consumer", "share", "streams"] {
            for (left, order, right) in GROUP_TIMES {
                let (left, right) = (format!("group.{kind}.{left}"), format!("group.{kind}.{right}"));
                let (a, b) = (values.int(&left), values.int(&right));
                let (holds, relation) = match order {
                    AtLeast => (a >= b, "greater than or equal to"),
                    AtMost => (a <= b, "less than or equal to"),
                    Less => (a < b, "less than"),
                };
                if !holds {
                    self.violate(&[&left, &right], format!("{left} must be {relation} {right}"));
                }
            }
        }
        let (standby, max_standby) = ("group.streams.num.standby.replicas", "group.streams.max.standby.replicas");
        if values.int(standby) > values.int(max_standby) {
            self.violate(&[standby, max_standby], format!("{standby} must be less than or equal to {max_standby}"));
        }
    }

    /// Assignors of Kafka's own go by a short name or by their class; there are no others here.
    fn assignors(&mut self, key: &str, known: &[&str]) {
        let values = self.values;
        for name in values.list(key) {
            let short = name.strip_prefix("org.apache.kafka.coordinator.group.assignor.").unwrap_or(name);
            let short = short.strip_suffix("Assignor").map_or_else(|| short.to_owned(), str::to_lowercase);
            if !known.contains(&short.as_str()) {
                self.violate(&[key], format!("Class {name} cannot be found"));
            }
        }
    }

    fn share_groups(&mut self) {
        let values = self.values;
        for (left, right) in SHARE_GROUP_BOUNDS {
            if values.int(left) < values.int(right) {
                self.violate(&[left, right], format!("{left} must be greater than or equal to {right}"));
            }
        }
    }

    fn early_start_listeners(&mut self, listeners: &Listeners) {
        let bound = listeners.bound_names();
        for name in self.values.optional_list("early.start.listeners").unwrap_or_default() {
            let name = java::trim(name);
            if !name.is_empty() && !bound.contains(name) {
                self.violate(
                    &["early.start.listeners"],
                    format!(
                        "early.start.listeners contains listener {name}, but this is not contained in listeners or \
                         controller.listener.names"
                    ),
                );
            }
        }
    }

    fn rebalance_protocols(&mut self) {
        const KEY: &[&str] = &["group.coordinator.rebalance.protocols"];
        if !self.values.list(KEY[0]).iter().any(|protocol| protocol == "classic") {
            self.violate(KEY, "Disabling the 'classic' protocol is not supported.");
        }
    }

    fn node_and_logs(&mut self) {
        let v = self.values;
        if v.int("node.id") != v.int("broker.id") {
            self.violate(&["node.id", "broker.id"], "You must set `node.id` to the same value as `broker.id`.");
        }
        self.require(
            v.optional_long("log.roll.ms").is_none_or(|ms| ms >= 1),
            &["log.roll.ms"],
            "log.roll.ms must be greater than or equal to 1",
        );
        self.require(
            v.optional_long("log.roll.jitter.ms").is_none_or(|ms| ms >= 0),
            &["log.roll.jitter.ms"],
            "log.roll.jitter.ms must be greater than or equal to 0",
        );
        let retention_ms = super::load::retention_ms(v);
        self.require(
            retention_ms >= 1 || retention_ms == -1,
            &["log.retention.ms", "log.retention.minutes", "log.retention.hours"],
            "log.retention.ms must be unlimited (-1) or, greater than or equal to 1",
        );
        let threads = i64::from(v.int("log.cleaner.threads"));
        if threads == 0 {
            self.violate(&["log.cleaner.threads"], DIVISION_BY_ZERO);
        } else {
            self.require(
                v.long("log.cleaner.dedupe.buffer.size") / threads > 1024 * 1024,
                &["log.cleaner.dedupe.buffer.size", "log.cleaner.threads"],
                "log.cleaner.dedupe.buffer.size must be at least 1MB per cleaner thread.",
            );
        }
        let wait_max_ms = v.int("replica.fetch.wait.max.ms");
        self.require(
            wait_max_ms <= v.int("replica.socket.timeout.ms"),
            &["replica.socket.timeout.ms", "replica.fetch.wait.max.ms"],
            "replica.socket.timeout.ms should always be at least replica.fetch.wait.max.ms to prevent unnecessary socket timeouts",
        );
        self.require(
            i64::from(wait_max_ms) <= v.long("replica.lag.time.max.ms"),
            &["replica.fetch.wait.max.ms", "replica.lag.time.max.ms"],
            "replica.fetch.wait.max.ms should always be less than or equal to replica.lag.time.max.ms to prevent frequent changes in ISR",
        );
    }

    fn quorum(&mut self, listeners: &Listeners) {
        const QUORUM: &[&str] = &["controller.quorum.voters", "controller.quorum.bootstrap.servers", "process.roles"];
        let v = self.values;
        if is_alone(v) {
            return; // Kafka would want to be told of voters; a lone node needs none
        }
        let voters: BTreeSet<i32> =
            v.list("controller.quorum.voters").iter().filter_map(|entry| Some(parse_voter(entry).ok()?.0)).collect();
        let node_id = v.int("node.id");
        if voters.is_empty() && v.list("controller.quorum.bootstrap.servers").is_empty() {
            self.violate(
                QUORUM,
                "If using process.roles, either controller.quorum.bootstrap.servers must contain the set of bootstrap \
                 controllers or controller.quorum.voters must contain a parseable set of controllers.",
            );
        }
        let is_controller = has_role(v, "controller");
        if !is_controller {
            self.require(
                !voters.contains(&node_id),
                QUORUM,
                format!(
                    "If process.roles contains just the 'broker' role, the node id {node_id} must not be included in the \
                     set of voters controller.quorum.voters={}",
                    scala_set(&voters)
                ),
            );
            self.require(
                !listeners.controller_names.is_empty(),
                LISTENER_KEYS,
                "controller.listener.names must contain at least one value when running KRaft with just the broker role",
            );
            self.require(
                listeners.bound_controllers().next().is_none(),
                LISTENER_KEYS,
                "controller.listener.names must not contain a value appearing in the 'listeners' configuration when running \
                 KRaft with just the broker role",
            );
            for name in listeners.controller_names.iter().filter(|name| !listeners.protocols.contains_key(*name)) {
                self.violate(
                    LISTENER_KEYS,
                    format!(
                        "Controller listener with name {name} defined in controller.listener.names not found in \
                         listener.security.protocol.map  (an explicit security mapping for each controller listener is \
                         required if listener.security.protocol.map is non-empty, or if there are security protocols other \
                         than PLAINTEXT in use)"
                    ),
                );
            }
            self.require(
                !v.boolean("controller.quorum.auto.join.enable"),
                &["controller.quorum.auto.join.enable", "process.roles"],
                "controller.quorum.auto.join.enable is only supported when process.roles contains the 'controller' role.",
            );
            return;
        }
        if !has_role(v, "broker") {
            self.require(
                listeners.advertised_controller().len() == listeners.bound.len(),
                LISTENER_KEYS,
                "The listeners config must only contain KRaft controller listeners from controller.listener.names when \
                 process.roles=controller",
            );
            if let (Some(_), Ok((name, _))) =
                (v.optional_string("inter.broker.listener.name"), self.inter_broker(listeners))
            {
                self.require(
                    !listeners.controller_names.contains(&name),
                    &["inter.broker.listener.name"],
                    "controller.listener.names must not contain an explicitly set inter.broker.listener.name configuration \
                     value when process.roles=controller'",
                );
            }
        }
        self.require(
            voters.is_empty() || voters.contains(&node_id),
            QUORUM,
            format!(
                "If process.roles contains the 'controller' role, the node id {node_id} must be included in the set of \
                 voters controller.quorum.voters={}",
                scala_set(&voters)
            ),
        );
        self.require(
            !listeners.advertised_controller().is_empty(),
            LISTENER_KEYS,
            "controller.listener.names must contain at least one value appearing in the 'listeners' configuration when \
             running the KRaft controller role",
        );
        let bound = listeners.bound_names();
        self.require(
            listeners.controller_names.iter().all(|name| bound.contains(name.as_str())),
            LISTENER_KEYS,
            "controller.listener.names must only contain values appearing in the 'listeners' configuration when running the \
             KRaft controller role",
        );
    }

    fn inter_broker(&self, listeners: &Listeners) -> Result<(String, super::SecurityProtocol), ConfigError> {
        listeners.inter_broker(self.values, self.given.contains_key("security.inter.broker.protocol"))
    }

    fn listeners(&mut self, listeners: &Listeners) {
        const INTER_BROKER: &[&str] = &["inter.broker.listener.name", "security.inter.broker.protocol"];
        let v = self.values;
        let advertised = listeners.advertised_broker();
        let mut advertised_names: Vec<&str> = advertised.iter().map(|e| e.listener_name.as_str()).collect();
        let inter_broker = self.inter_broker(listeners);
        if let Err(ConfigError(text)) = &inter_broker {
            self.violate(INTER_BROKER, text.clone());
        }
        if has_role(v, "broker") {
            self.require(
                !advertised_names.is_empty(),
                LISTENER_KEYS,
                "There must be at least one broker advertised listener. Perhaps all listeners appear in \
                 controller.listener.names?",
            );
            if let Ok((name, _)) = &inter_broker {
                let options = advertised_names.join(",");
                self.require(
                    advertised_names.contains(&name.as_str()),
                    INTER_BROKER,
                    format!(
                        "inter.broker.listener.name must be a listener name defined in advertised.listeners. The valid \
                         options based on currently configured listeners are {options}"
                    ),
                );
            }
            let bound = listeners.bound_names();
            let all_bound = advertised_names.iter().all(|name| bound.contains(name));
            let mut bound: Vec<&str> = listeners.bound.iter().map(|e| e.listener_name.as_str()).collect();
            scala_set_order(&mut bound);
            scala_set_order(&mut advertised_names);
            self.require(
                all_bound,
                LISTENER_KEYS,
                format!(
                    "advertised.listeners listener names must be equal to or a subset of the ones defined in listeners. \
                     Found {}. The valid options based on the current configuration are {}",
                    advertised_names.join(","),
                    bound.join(",")
                ),
            );
            self.cordoned_log_dirs();
        }
        for endpoints in [advertised, listeners.advertised_controller()] {
            self.require(
                endpoints.iter().all(|endpoint| endpoint.host != "0.0.0.0"),
                LISTENER_KEYS,
                "advertised.listeners cannot use the nonroutable meta-address 0.0.0.0. Use a routable IP address.",
            );
        }
    }

    fn cordoned_log_dirs(&mut self) {
        const KEYS: &[&str] = &["cordoned.log.dirs", "log.dirs", "log.dir"];
        let v = self.values;
        let cordoned = v.list("cordoned.log.dirs");
        if cordoned.iter().any(|dir| dir == "*") {
            self.require(
                cordoned.len() == 1,
                KEYS,
                "When cordoned.log.dirs is set to *, it must not contain other values",
            );
            return;
        }
        let log_dirs = v.optional_list("log.dirs").unwrap_or_else(|| v.list("log.dir"));
        let missing: Vec<&str> = cordoned.iter().filter(|dir| !log_dirs.contains(dir)).map(String::as_str).collect();
        self.require(
            missing.is_empty(),
            KEYS,
            format!(
                "All entries in cordoned.log.dirs must be present in log.dirs or log.dir. Missing entries : {}",
                missing.join(", ")
            ),
        );
    }

    fn connections(&mut self) {
        const PER_IP: &[&str] = &["max.connections.per.ip", "max.connections.per.ip.overrides"];
        let v = self.values;
        let queued = v.long("queued.max.request.bytes");
        self.require(
            queued <= 0 || queued >= v.int("socket.request.max.bytes").into(),
            &["queued.max.request.bytes", "socket.request.max.bytes"],
            "queued.max.request.bytes must be larger or equal to socket.request.max.bytes",
        );
        match per_ip_overrides(v) {
            Err(ConfigError(text)) => self.violate(PER_IP, text),
            Ok(overrides) => {
                self.require(
                    v.int("max.connections.per.ip") != 0 || !overrides.is_empty(),
                    PER_IP,
                    "max.connections.per.ip can be set to zero only if max.connections.per.ip.overrides property is set.",
                );
                let invalid: Vec<&str> =
                    overrides.keys().filter(|address| !is_valid_host(address)).map(String::as_str).collect();
                if !invalid.is_empty() {
                    self.violate(
                        PER_IP,
                        format!("max.connections.per.ip.overrides contains invalid addresses : {}", invalid.join(",")),
                    );
                }
            }
        }
        let (delay_ms, idle_ms) =
            (v.int("connection.failed.authentication.delay.ms"), v.long("connections.max.idle.ms"));
        self.require(
            idle_ms < 0 || i64::from(delay_ms) < idle_ms,
            &["connection.failed.authentication.delay.ms", "connections.max.idle.ms"],
            format!(
                "connection.failed.authentication.delay.ms={delay_ms} should always be less than \
                 connections.max.idle.ms={idle_ms} to prevent failed authentication responses from timing out"
            ),
        );
    }
}

/// `max.connections.per.ip.overrides` by address.
pub(super) fn per_ip_overrides(values: &Values) -> Result<BTreeMap<String, i32>, ConfigError> {
    const KEY: &str = "max.connections.per.ip.overrides";
    parse_csv_map(KEY, values.string(KEY))?
        .into_iter()
        .map(|(address, limit)| match java::parse_integer(&limit) {
            Some(number) => Ok((address, number)),
            None => Err(ConfigError(format!("For input string: \"{limit}\""))),
        })
        .collect()
}

fn scala_set(ids: &BTreeSet<i32>) -> String {
    let ids: Vec<String> = ids.iter().map(i32::to_string).collect();
    format!("Set({})", ids.join(", "))
}

/// Small sets keep the order of insertion; that of larger ones is not worth repeating.
fn scala_set_order(names: &mut Vec<&str>) {
    let mut seen = BTreeSet::new();
    names.retain(|name| seen.insert(*name));
}
