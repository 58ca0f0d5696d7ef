//! `ConnectionQuotas`: the settings that limit connections, as they are at the start and as they change.
//!
//! `max.connections`, `max.connections.per.ip`, `max.connections.per.ip.overrides` and `max.connection.creation.rate`; the
//! first and the last also for a listener, with `listener.name.<name>.` before them.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rustix::process::{Resource, getrlimit};
use tracing::{info, warn};

use super::connections::{ConnectionLimits, Connections, ListenerLimits};
use super::host::{look_up, resolve};
use super::socket_server::BindError;
use crate::config::BrokerConfig;

/// The limits on the connections of a [`SocketServer`](super::SocketServer).
pub struct ConnectionQuotas {
    connections: Arc<Connections>,
    /// The listeners that are served; those of later settings may be others.
    listeners: Vec<String>,
    set: Mutex<Set>,
}

/// What is set, as far as it may change.
#[derive(Clone, PartialEq)]
struct Set {
    max_connections: i32,
    max_connections_by_listener: BTreeMap<String, i32>,
    max_connections_per_ip: i32,
    max_connections_per_ip_overrides: BTreeMap<String, i32>,
    max_connection_creation_rate: i32,
    max_connection_creation_rate_by_listener: BTreeMap<String, i32>,
}

impl Set {
    fn of(config: &BrokerConfig) -> Set {
        Set {
            max_connections: config.max_connections,
            max_connections_by_listener: config.max_connections_by_listener.clone(),
            max_connections_per_ip: config.max_connections_per_ip,
            max_connections_per_ip_overrides: config.max_connections_per_ip_overrides.clone(),
            max_connection_creation_rate: config.max_connection_creation_rate,
            max_connection_creation_rate_by_listener: config.max_connection_creation_rate_by_listener.clone(),
        }
    }
}

impl ConnectionQuotas {
    /// Of connections that have the limits of `config`.
    pub(super) fn new(connections: Arc<Connections>, config: &BrokerConfig) -> ConnectionQuotas {
        ConnectionQuotas { connections, listeners: names(config), set: Mutex::new(Set::of(config)) }
    }

    /// Has the limits of `config` hold from now on. Looks for the addresses of new hosts, which may take its time.
    pub fn update(&self, config: &BrokerConfig) {
        let new = Set::of(config);
        let mut set = self.set.lock();
        if *set == new {
            return;
        }
        let before = self.connections.limits();
        let per_ip_overrides = if new.max_connections_per_ip_overrides == set.max_connections_per_ip_overrides {
            before.per_ip_overrides.clone()
        } else {
            let known = |(host, value): (&String, &i32)| match resolve(host) {
                Ok(ip) => Some((ip, limit(*value))),
                Err(error) => {
                    warn!(host, %error, "max.connections.per.ip.overrides: the host has no address; its limit is that of others");
                    None
                }
            };
            new.max_connections_per_ip_overrides.iter().filter_map(known).collect()
        };
        info!(
            max_connections = new.max_connections,
            per_ip = new.max_connections_per_ip,
            creation_rate = new.max_connection_creation_rate,
            "the limits on connections have changed"
        );
        self.connections.set_limits(limits(
            config,
            &self.listeners,
            per_ip_overrides,
            before.protected_listener,
            before.max_idle,
        ));
        *set = new;
    }
}

/// Those to begin with.
pub(super) async fn connection_limits(config: &BrokerConfig) -> Result<ConnectionLimits, BindError> {
    let mut per_ip_overrides = HashMap::new();
    for (host, value) in &config.max_connections_per_ip_overrides {
        let ip = look_up(host, "max.connections.per.ip.overrides").await.map_err(|source| unknown(host, source))?;
        per_ip_overrides.insert(ip, limit(*value));
    }
    let listeners = names(config);
    // A controller's listener is nobody's but the controller's.
    let of_brokers = listeners.iter().filter(|name| !config.controller_listener_names.contains(name)).count();
    let protected_listener =
        listeners.iter().position(|name| *name == config.inter_broker_listener_name).filter(|_| of_brokers > 1);
    let max_idle = u64::try_from(config.connections_max_idle_ms).ok().map(Duration::from_millis);
    Ok(limits(config, &listeners, per_ip_overrides, protected_listener, max_idle))
}

fn names(config: &BrokerConfig) -> Vec<String> {
    config.listeners.iter().map(|endpoint| endpoint.listener_name.clone()).collect()
}

fn unknown(host: &str, source: io::Error) -> BindError {
    BindError::Override { host: host.to_owned(), source }
}

fn limit(value: i32) -> usize {
    usize::try_from(value).unwrap_or(0)
}

fn limits(
    config: &BrokerConfig,
    listeners: &[String],
    per_ip_overrides: HashMap<IpAddr, usize>,
    protected_listener: Option<usize>,
    max_idle: Option<Duration>,
) -> ConnectionLimits {
    let rate = |value: i32| u32::try_from(value).unwrap_or(0);
    let of_listener = |name: &String| ListenerLimits {
        connections: limit(*config.max_connections_by_listener.get(name).unwrap_or(&config.max_connections)),
        creation_rate: rate(
            *config.max_connection_creation_rate_by_listener.get(name).unwrap_or(&config.max_connection_creation_rate),
        ),
    };
    ConnectionLimits {
        total: limit(config.max_connections).min(descriptors_for_connections()),
        by_listener: listeners.iter().map(of_listener).collect(),
        per_ip: limit(config.max_connections_per_ip),
        per_ip_overrides,
        creation_rate: rate(config.max_connection_creation_rate),
        protected_listener,
        max_idle,
    }
}

/// How many connections leave enough of the system's limit of descriptors for the files of the logs: without those, a flood
/// of connections would look like a disk that fails.
fn descriptors_for_connections() -> usize {
    getrlimit(Resource::Nofile).current.map_or(usize::MAX, |limit| limit as usize / 8 * 5)
}
