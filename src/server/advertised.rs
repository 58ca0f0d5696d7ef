//! Where clients are told to come.
//!
//! By default that is what the broker registered, the same for all: `advertised.listeners`. With
//! `ottla.advertised.auto=true` each connection is told an address of this broker that works from where it came:
//!
//! | the connection came from | what is told |
//! |---|---|
//! | this machine itself (loopback, or its own address) | `localhost` |
//! | the gateway of a container's network: by a port that the engine mapped, from the machine that it runs on | what `ottla.advertised.external` says, or else `localhost` |
//! | elsewhere: another container, another machine on the network | the address that it came to, or the host of `listeners` if there is a name |
//!
//! The port is the listener's; a mapped port that is another cannot be seen from within, and must be said
//! (`ottla.advertised.external`). What cannot work: a client in a container that came by the gateway (through
//! `host.docker.internal`) is told `localhost`; and one on another machine that came through a mapped port is told the
//! container's address, which it cannot reach. For both, `advertised.listeners` or `ottla.advertised.external` must say
//! more.
//!
//! With `ottla.advertised.dynamic=true`, what was set for this broker while it runs goes before all of it.
//!
//! Whether a client can go where it was told is not seen from here, but that it does not come is:
//! [`AdvertisedAddresses::report_overdue`].

mod networks;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use tracing::info;

use crate::clock::Clock;
use crate::config::{BrokerConfig, DynamicBrokerConfig, Endpoint};
use crate::metadata::image::BrokerRegistration;
use crate::net::ConnectionContext;
use crate::replica::Settings;
use crate::types::BrokerId;
use networks::{Networks, Origin};

/// A client that was told an address has come there after so long, if it wants to.
const DUE: Duration = Duration::from_secs(15);
/// Who asks on so many connections meanwhile does not only want to know.
const OFTEN: usize = 8;
/// Clients that are waited for, and those that were missed once, at most.
const MOST: usize = 256;

/// A host and port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    pub host: String,
    pub port: u16,
}

/// Who was told an address: its own, and the name of the listener.
type Told = (IpAddr, String);

/// A client that was told an address and has done nothing since but ask.
struct Awaited {
    /// On which it asked last.
    connection: Weak<ConnectionContext>,
    /// On how many it asked.
    connections: usize,
    address: Address,
    client: String,
    since: Duration,
    last: Duration,
}

/// What this broker tells its clients of itself.
pub struct AdvertisedAddresses {
    own_id: BrokerId,
    clock: Arc<dyn Clock>,
    /// For `ottla.advertised.dynamic`.
    settings: Option<Settings>,
    automatic: Option<Automatic>,
    awaited: Mutex<BTreeMap<Told, Awaited>>,
    /// Of whom it was said before.
    missed: Mutex<BTreeMap<Told, ()>>,
}

/// For `ottla.advertised.auto`.
struct Automatic {
    config: Arc<BrokerConfig>,
    bound: Vec<Endpoint>,
    networks: Mutex<Networks>,
}

impl AdvertisedAddresses {
    /// `bound`: the listeners with the ports they got.
    pub fn new(
        config: &Arc<BrokerConfig>,
        settings: &Settings,
        bound: &[Endpoint],
        clock: Arc<dyn Clock>,
    ) -> AdvertisedAddresses {
        let automatic = config.ottla.advertised_auto.then(|| Automatic {
            config: config.clone(),
            bound: bound.to_vec(),
            networks: Mutex::new(Networks::of_this_machine()),
        });
        automatic.iter().for_each(Automatic::say_what_is_told_outside);
        AdvertisedAddresses {
            own_id: config.node_id,
            clock,
            settings: config.ottla.advertised_dynamic.then(|| settings.clone()),
            automatic,
            awaited: Mutex::default(),
            missed: Mutex::default(),
        }
    }

    /// Where a client of this connection reaches the broker; `None` if it cannot on this listener.
    pub fn of(&self, broker: &BrokerRegistration, connection: &ConnectionContext) -> Option<Address> {
        let registered = broker.listener(&connection.listener.name)?;
        let own = (broker.id == self.own_id).then(|| {
            let set =
                self.settings.as_ref().and_then(|settings| set_since(&settings.load(), &connection.listener.name));
            set.or_else(|| self.automatic.as_ref()?.address(connection))
        });
        Some(own.flatten().unwrap_or_else(|| Address { host: registered.host.clone(), port: registered.port }))
    }

    /// As [`AdvertisedAddresses::of`], for a client that asks for all brokers. It is expected to come, or to go on where it
    /// is.
    pub fn tell(&self, broker: &BrokerRegistration, connection: &Arc<ConnectionContext>) -> Option<Address> {
        let address = self.of(broker, connection)?;
        if broker.id == self.own_id {
            self.told(connection, &address, self.clock.monotonic());
        }
        Some(address)
    }

    fn told(&self, connection: &Arc<ConnectionContext>, address: &Address, now: Duration) {
        // On this machine itself, every name of it works.
        if connection.is_at_work() || connection.peer.ip().is_loopback() {
            return;
        }
        let key = (connection.peer.ip(), connection.listener.name.clone());
        let this = Arc::downgrade(connection);
        let mut awaited = self.awaited.lock();
        if let Some(again) = awaited.get_mut(&key) {
            again.last = now;
            if !again.connection.ptr_eq(&this) {
                again.connection = this;
                again.connections += 1;
            }
        } else if awaited.len() < MOST {
            let client = match connection.client() {
                Some(client) => format!("{} {}", client.software_name, client.software_version),
                None => "a client".to_owned(),
            };
            let (connection, address) = (this, address.clone());
            awaited.insert(key, Awaited { connection, connections: 1, address, client, since: now, last: now });
        }
    }

    /// A client asks for more than addresses: it has found its way, and so will others of its kind.
    pub fn arrived(&self, connection: &ConnectionContext) {
        self.awaited.lock().remove(&(connection.peer.ip(), connection.listener.name.clone()));
    }

    /// Says of clients that were told an address long ago, and still hold the connection on which they asked or have asked again and
    /// again, that they have not come. To be called now and then.
    pub fn report_overdue(&self) {
        for sentence in self.overdue(self.clock.monotonic()) {
            info!("{sentence}");
        }
    }

    fn overdue(&self, now: Duration) -> Vec<String> {
        let mut sentences = Vec::new();
        let mut awaited = self.awaited.lock();
        awaited.retain(|key, client| {
            let (waited, quiet) = (now.saturating_sub(client.since), now.saturating_sub(client.last));
            let is_gone = client.connection.strong_count() == 0;
            // It only wanted to know, even if now and then.
            if is_gone && (quiet >= DUE || waited >= 2 * DUE && client.connections < OFTEN) {
                return false;
            }
            if waited < DUE || is_gone && client.connections < OFTEN {
                return true;
            }
            let mut missed = self.missed.lock();
            if missed.len() < MOST && missed.insert(key.clone(), ()).is_none() {
                let Awaited { address: Address { host, port }, client, .. } = client;
                let (peer, listener) = key;
                sentences.push(format!(
                    "{client} at {peer} was told to come to {host}:{port} (listener {listener}), and has not within {} s: if it \
                     cannot connect, that address does not lead here from where it is, and advertised.listeners must say one that does",
                    DUE.as_secs()
                ));
            }
            false
        });
        sentences
    }
}

/// What was set of the listener since the start.
fn set_since(settings: &DynamicBrokerConfig, listener: &str) -> Option<Address> {
    let (first, now) = (&settings.fixed().advertised_listeners, &settings.current().advertised_listeners);
    let endpoint = now.iter().find(|endpoint| endpoint.listener_name == listener).filter(|_| first != now)?;
    Some(Address { host: endpoint.host.clone(), port: endpoint.port })
}

impl Automatic {
    /// What nobody can see from within to be right.
    fn say_what_is_told_outside(&self) {
        for endpoint in &self.bound {
            let Address { host, port } = self.address_for(Origin::Gateway, endpoint, IpAddr::from([0, 0, 0, 0]));
            info!(listener = endpoint.listener_name, "clients that come by a mapped port are told {host}:{port}");
        }
    }

    fn address(&self, connection: &ConnectionContext) -> Option<Address> {
        let endpoint = self.bound.iter().find(|endpoint| endpoint.listener_name == connection.listener.name)?;
        let (peer, local) = (connection.peer.ip().to_canonical(), connection.local.ip().to_canonical());
        let origin = self.origin(peer, local);
        Some(self.address_for(origin, endpoint, local))
    }

    fn origin(&self, peer: IpAddr, local: IpAddr) -> Origin {
        let mut networks = self.networks.lock();
        if !local.is_loopback() && !networks.know(local) {
            // A container can be connected to one more network while it runs.
            *networks = Networks::of_this_machine();
        }
        networks.origin(peer, local)
    }

    fn address_for(&self, origin: Origin, endpoint: &Endpoint, local: IpAddr) -> Address {
        let port = endpoint.port;
        match origin {
            Origin::Here => Address { host: "localhost".to_owned(), port },
            Origin::Gateway => {
                let entries = &self.config.ottla.advertised_external;
                let own = entries.iter().find(|entry| entry.listener.as_ref() == Some(&endpoint.listener_name));
                let entry = own.or_else(|| entries.iter().find(|entry| entry.listener.is_none()));
                Address {
                    host: entry.and_then(|entry| entry.host.clone()).unwrap_or_else(|| "localhost".to_owned()),
                    port: entry.and_then(|entry| entry.port).unwrap_or(port),
                }
            }
            Origin::Network => {
                let named = endpoint.host.trim();
                let is_name = !named.is_empty() && named.parse::<IpAddr>().is_err();
                Address { host: if is_name { named.to_owned() } else { local.to_string() }, port }
            }
        }
    }
}

#[cfg(test)]
mod tests;
