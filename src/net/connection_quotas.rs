//! `ConnectionQuotas`: the settings that limit connections, as they are at the start and as they change.
//!
//! `max.connections`, `max.connections.per.ip`, `max.connections.per.ip.overrides` and `max.connection.creation.rate`; the
//! first and the last also for a listener, with `listener.name.<name>.` before them.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::IpAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
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
    inner: Arc<Inner>,
}

/// The address of a host; blocks.
type Resolve = Box<dyn Fn(&str) -> io::Result<IpAddr> + Send + Sync>;

struct Inner {
    connections: Arc<Connections>,
    /// The listeners that are served; those of later settings may be others.
    listeners: Vec<String>,
    state: Mutex<State>,
    resolve: Resolve,
}

struct State {
    set: Set,
    /// Hosts of which the address was asked for since the settings named others.
    looked_up: BTreeSet<String>,
    /// A thread does so.
    is_looking_up: bool,
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
        ConnectionQuotas::looking_up_with(connections, config, resolve)
    }

    fn looking_up_with(
        connections: Arc<Connections>,
        config: &BrokerConfig,
        resolve: impl Fn(&str) -> io::Result<IpAddr> + Send + Sync + 'static,
    ) -> ConnectionQuotas {
        let set = Set::of(config);
        // The start has done it.
        let looked_up = set.max_connections_per_ip_overrides.keys().cloned().collect();
        let state = Mutex::new(State { set, looked_up, is_looking_up: false });
        let inner = Inner { connections, listeners: names(config), state, resolve: Box::new(resolve) };
        ConnectionQuotas { inner: Arc::new(inner) }
    }

    /// Has the limits of `config` hold from now on; that of a host which is given by its name, as soon as its address is
    /// known: a thread of its own asks for that, as a name server may take its time, and the caller has none.
    pub fn update(&self, config: &BrokerConfig) {
        let new = Set::of(config);
        let mut state = self.inner.state.lock();
        if state.set == new {
            return;
        }
        info!(
            max_connections = new.max_connections,
            per_ip = new.max_connections_per_ip,
            creation_rate = new.max_connection_creation_rate,
            "the limits on connections have changed"
        );
        if state.set.max_connections_per_ip_overrides != new.max_connections_per_ip_overrides {
            // Those of hosts that stay may be others by now. Until that is known they count.
            state.looked_up.clear();
        }
        state.set = new;
        let mut addresses = self.inner.connections.limits().host_addresses;
        addresses.retain(|host, _| state.set.max_connections_per_ip_overrides.contains_key(host));
        self.inner.put_into_force(&state.set, addresses);
        if !state.is_looking_up && state.next_host().is_some() {
            let inner = Arc::clone(&self.inner);
            let spawned = std::thread::Builder::new().name("look-up".to_owned()).spawn(move || inner.look_up_hosts());
            match spawned {
                Ok(_) => state.is_looking_up = true,
                Err(error) => warn!(%error, "max.connections.per.ip.overrides: no host can be looked up"),
            }
        }
    }
}

impl Inner {
    /// Until all hosts of the newest settings were looked up.
    fn look_up_hosts(&self) {
        loop {
            let host = {
                let mut state = self.state.lock();
                let Some(host) = state.next_host().cloned() else {
                    state.is_looking_up = false;
                    return;
                };
                state.looked_up.insert(host.clone());
                host
            };
            // Else nobody would look for any host any more.
            let found = catch_unwind(AssertUnwindSafe(|| (self.resolve)(&host)));
            let found = found.unwrap_or_else(|_| Err(io::Error::other("the look-up panicked")));
            let state = self.state.lock();
            // Else a later update has taken it out, or wants it looked up again.
            if state.looked_up.contains(&host) && state.set.max_connections_per_ip_overrides.contains_key(&host) {
                let mut addresses = self.connections.limits().host_addresses;
                match found {
                    Ok(address) => {
                        addresses.insert(host, address);
                    }
                    Err(error) => {
                        warn!(host, %error, "max.connections.per.ip.overrides: the host has no address; its limit is that of others");
                        addresses.remove(&host);
                    }
                }
                self.put_into_force(&state.set, addresses);
            }
        }
    }

    fn put_into_force(&self, set: &Set, host_addresses: BTreeMap<String, IpAddr>) {
        let before = self.connections.limits();
        let limits = limits(set, &self.listeners, host_addresses, before.protected_listener, before.max_idle);
        self.connections.set_limits(limits);
    }
}

impl State {
    /// The next one to be looked up.
    fn next_host(&self) -> Option<&String> {
        let hosts = self.set.max_connections_per_ip_overrides.keys();
        hosts.into_iter().find(|host| own_address(host).is_none() && !self.looked_up.contains(*host))
    }
}

/// That of a host which is given by it.
fn own_address(host: &str) -> Option<IpAddr> {
    host.trim().parse().ok()
}

/// Those to begin with.
pub(super) async fn connection_limits(config: &BrokerConfig) -> Result<ConnectionLimits, BindError> {
    let set = Set::of(config);
    let mut host_addresses = BTreeMap::new();
    for host in set.max_connections_per_ip_overrides.keys().filter(|host| own_address(host).is_none()) {
        let ip = look_up(host, "max.connections.per.ip.overrides").await.map_err(|source| unknown(host, source))?;
        host_addresses.insert(host.clone(), ip);
    }
    let listeners = names(config);
    // A controller's listener is nobody's but the controller's.
    let of_brokers = listeners.iter().filter(|name| !config.controller_listener_names.contains(name)).count();
    let protected_listener =
        listeners.iter().position(|name| *name == config.inter_broker_listener_name).filter(|_| of_brokers > 1);
    let max_idle = u64::try_from(config.connections_max_idle_ms).ok().map(Duration::from_millis);
    Ok(limits(&set, &listeners, host_addresses, protected_listener, max_idle))
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
    set: &Set,
    listeners: &[String],
    host_addresses: BTreeMap<String, IpAddr>,
    protected_listener: Option<usize>,
    max_idle: Option<Duration>,
) -> ConnectionLimits {
    let rate = |value: i32| u32::try_from(value).unwrap_or(0);
    let of_listener = |name: &String| ListenerLimits {
        connections: limit(*set.max_connections_by_listener.get(name).unwrap_or(&set.max_connections)),
        creation_rate: rate(
            *set.max_connection_creation_rate_by_listener.get(name).unwrap_or(&set.max_connection_creation_rate),
        ),
    };
    let of_host = |(host, value): (&String, &i32)| {
        let address = own_address(host).or_else(|| host_addresses.get(host).copied());
        address.map(|address| (address, limit(*value)))
    };
    ConnectionLimits {
        total: limit(set.max_connections).min(descriptors_for_connections()),
        by_listener: listeners.iter().map(of_listener).collect(),
        per_ip: limit(set.max_connections_per_ip),
        per_ip_overrides: set.max_connections_per_ip_overrides.iter().filter_map(of_host).collect(),
        host_addresses,
        creation_rate: rate(set.max_connection_creation_rate),
        protected_listener,
        max_idle,
    }
}

/// How many connections leave enough of the system's limit of descriptors for the files of the logs: without those, a flood
/// of connections would look like a disk that fails.
fn descriptors_for_connections() -> usize {
    getrlimit(Resource::Nofile).current.map_or(usize::MAX, |limit| limit as usize / 8 * 5)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Instant;

    use super::*;

    fn config(overrides: &[(&str, i32)]) -> BrokerConfig {
        let overrides = overrides.iter().map(|(host, limit)| ((*host).to_owned(), *limit));
        BrokerConfig { max_connections_per_ip_overrides: overrides.collect(), ..BrokerConfig::default() }
    }

    fn address(last: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, last])
    }

    fn eventually(connections: &Connections, expected: &[(IpAddr, usize)]) {
        let until = Instant::now() + Duration::from_secs(30);
        while connections.limits().per_ip_overrides != expected.iter().copied().collect() {
            assert!(Instant::now() < until, "{:?}", connections.limits().per_ip_overrides);
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// The caller is the controller's thread: it waited for a name server that did not answer, and all changes of the
    /// cluster with it.
    #[tokio::test]
    async fn a_name_server_that_does_not_answer_holds_nothing_up() {
        let connections = Connections::new(connection_limits(&config(&[])).await.unwrap());
        let (asked, was_asked) = mpsc::channel();
        let (answer, answers) = mpsc::channel();
        let answers = Mutex::new(answers);
        let resolve = move |host: &str| {
            asked.send(host.to_owned()).unwrap();
            answers.lock().recv().unwrap()
        };
        let quotas = ConnectionQuotas::looking_up_with(connections.clone(), &config(&[]), resolve);
        let held = |expected: &[(IpAddr, usize)]| {
            assert_eq!(connections.limits().per_ip_overrides, expected.iter().copied().collect());
        };

        quotas.update(&config(&[("slow", 5), ("10.0.0.1", 7)]));
        held(&[(address(1), 7)]);
        assert_eq!(was_asked.recv().unwrap(), "slow");
        // What comes meanwhile holds at once, and what was asked for before it no longer counts.
        quotas.update(&BrokerConfig { max_connections_per_ip: 3, ..config(&[("other", 6), ("10.0.0.1", 8)]) });
        held(&[(address(1), 8)]);
        assert_eq!(connections.limits().per_ip, 3);
        answer.send(Ok(address(9))).unwrap();
        assert_eq!(was_asked.recv().unwrap(), "other");
        held(&[(address(1), 8)]);
        answer.send(Ok(address(2))).unwrap();
        eventually(&connections, &[(address(1), 8), (address(2), 6)]);

        // A host that stays keeps its address until another one is known; one without an address has the limit of others.
        quotas.update(&config(&[("other", 4), ("nowhere", 1)]));
        held(&[(address(2), 4)]);
        assert_eq!(was_asked.recv().unwrap(), "nowhere");
        answer.send(Err(io::ErrorKind::NotFound.into())).unwrap();
        assert_eq!(was_asked.recv().unwrap(), "other");
        held(&[(address(2), 4)]);
        answer.send(Ok(address(3))).unwrap();
        eventually(&connections, &[(address(3), 4)]);
        // Nothing is asked for where the hosts are the same.
        quotas.update(&BrokerConfig { max_connections: 9, ..config(&[("other", 4), ("nowhere", 1)]) });
        held(&[(address(3), 4)]);
        assert!(was_asked.try_recv().is_err());
    }

    /// Nobody looked for the hosts that were left, nor for those of later settings.
    #[tokio::test]
    async fn a_look_up_that_panics_is_one_that_fails() {
        let connections = Connections::new(connection_limits(&config(&[])).await.unwrap());
        let resolve = |host: &str| match host {
            "odd" => panic!("on purpose"),
            _ => Ok(address(host.len() as u8)),
        };
        let quotas = ConnectionQuotas::looking_up_with(connections.clone(), &config(&[]), resolve);
        quotas.update(&config(&[("odd", 5), ("other", 6)]));
        eventually(&connections, &[(address(5), 6)]);
        quotas.update(&config(&[("odd", 5), ("third", 7), ("fourth", 8)]));
        eventually(&connections, &[(address(5), 7), (address(6), 8)]);
    }
}
