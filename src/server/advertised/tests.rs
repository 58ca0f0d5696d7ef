//! Which address a client is told, and when it is told of that a client does not come.

use std::net::SocketAddr;

use arc_swap::ArcSwap;

use super::*;
use crate::clock::SystemClock;
use crate::config::SecurityProtocol;
use crate::net::{ClientInformation, ListenerInfo};

fn connection(id: u64, peer: &str) -> Arc<ConnectionContext> {
    let info = ListenerInfo { name: "PLAINTEXT".to_owned(), security_protocol: SecurityProtocol::Plaintext };
    let local = SocketAddr::from(([172, 29, 1, 5], 9092));
    let connection =
        ConnectionContext::new(id, Arc::new(info), SocketAddr::from((peer.parse::<IpAddr>().unwrap(), 5)), local);
    connection.set_client(ClientInformation { software_name: "client".to_owned(), software_version: "1".to_owned() });
    Arc::new(connection)
}

fn automatic(external: &str) -> Automatic {
    let given = [("ottla.advertised.auto", "true"), ("ottla.advertised.external", external)];
    let given = given.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
    let config = Arc::new(BrokerConfig::load(given).unwrap().config);
    Automatic { config, bound: Vec::new(), networks: Mutex::default() }
}

#[test]
fn the_address_goes_by_where_the_connection_came_from() {
    let endpoint = |name: &str, host: &str| Endpoint {
        listener_name: name.to_owned(),
        security_protocol: SecurityProtocol::Plaintext,
        host: host.to_owned(),
        port: 9092,
    };
    let local = "172.29.1.5".parse().unwrap();
    for (external, origin, name, host, expected) in [
        ("", Origin::Here, "PLAINTEXT", "", "localhost:9092"),
        ("", Origin::Gateway, "PLAINTEXT", "", "localhost:9092"),
        ("", Origin::Network, "PLAINTEXT", "", "172.29.1.5:9092"),
        ("", Origin::Network, "PLAINTEXT", "0.0.0.0", "172.29.1.5:9092"),
        ("", Origin::Network, "PLAINTEXT", "kafka", "kafka:9092"),
        ("", Origin::Gateway, "PLAINTEXT", "kafka", "localhost:9092"),
        (":29092", Origin::Gateway, "PLAINTEXT", "", "localhost:29092"),
        (":29092", Origin::Here, "PLAINTEXT", "", "localhost:9092"),
        (":29092", Origin::Network, "PLAINTEXT", "", "172.29.1.5:9092"),
        ("OUT://h:1,:2", Origin::Gateway, "OUT", "", "h:1"),
        ("OUT://h:1,:2", Origin::Gateway, "PLAINTEXT", "", "localhost:2"),
        ("OUT://h", Origin::Gateway, "OUT", "", "h:9092"),
        ("OUT://h", Origin::Gateway, "PLAINTEXT", "", "localhost:9092"),
    ] {
        let Address { host, port } = automatic(external).address_for(origin, &endpoint(name, host), local);
        assert_eq!(format!("{host}:{port}"), expected, "{external} {origin:?} {name}");
    }
}

#[test]
fn a_client_that_does_not_come_is_told_of_once() {
    let config = Arc::new(BrokerConfig::default());
    let settings: Settings = Arc::new(ArcSwap::from_pointee(DynamicBrokerConfig::new(config.clone())));
    let addresses = AdvertisedAddresses::new(&config, &settings, &[], SystemClock::new());
    let address = Address { host: "kafka".to_owned(), port: 9092 };
    let seconds = Duration::from_secs;
    let (lost, found, curious) = (connection(1, "10.0.0.1"), connection(2, "10.0.0.2"), connection(3, "10.0.0.3"));
    for connection in [&lost, &found, &curious] {
        addresses.told(connection, &address, seconds(0));
    }
    // On this machine every name works.
    addresses.told(&connection(4, "127.0.0.1"), &address, seconds(0));
    addresses.arrived(&connection(5, "10.0.0.2"));
    drop(curious);
    assert_eq!(addresses.overdue(seconds(14)), [""; 0]);
    let sentences = addresses.overdue(seconds(15));
    let [sentence] = &sentences[..] else { panic!("{sentences:?}") };
    assert!(
        sentence.starts_with("client 1 at 10.0.0.1 was told to come to kafka:9092 (listener PLAINTEXT)"),
        "{sentence}"
    );
    addresses.told(&lost, &address, seconds(20));
    assert_eq!(addresses.overdue(seconds(60)), [""; 0]);
    // Some clients close each connection on which they have asked, and begin again.
    for n in 0..20u8 {
        let (often, now_and_then) = (connection(20, "10.0.0.4"), connection(21, "10.0.0.5"));
        addresses.told(&often, &address, seconds(60) + Duration::from_millis(900) * u32::from(n));
        if n % 5 == 0 {
            addresses.told(&now_and_then, &address, seconds(60 + u64::from(n)));
        }
    }
    assert_eq!(addresses.overdue(seconds(74)), [""; 0]);
    assert!(addresses.overdue(seconds(78))[0].starts_with("client 1 at 10.0.0.4 was told to come to kafka:9092"));
    assert_eq!(addresses.overdue(seconds(95)), [""; 0]);
    assert!(addresses.awaited.lock().is_empty());
    // One that is at work is not waited for.
    assert!(found.set_at_work() && !found.set_at_work());
    addresses.told(&found, &address, seconds(100));
    assert_eq!(addresses.overdue(seconds(140)), [""; 0]);
}

#[test]
fn what_is_set_while_it_runs_goes_before_the_rest() {
    let given = |dynamic: &str| {
        let pairs = [
            ("ottla.advertised.dynamic", dynamic),
            ("listeners", "PLAINTEXT://:9092,BROKER://:9093"),
            ("listener.security.protocol.map", "PLAINTEXT:PLAINTEXT,BROKER:PLAINTEXT"),
        ];
        pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).into()
    };
    let set =
        [("advertised.listeners".to_owned(), "PLAINTEXT://127.0.0.1:49153,BROKER://localhost:9093".to_owned())].into();
    let changed = |dynamic: &str| {
        let config = Arc::new(BrokerConfig::load(given(dynamic)).unwrap().config);
        DynamicBrokerConfig::new(config).update(&Default::default(), &set)
    };
    let (settings, complaints) = changed("true");
    assert_eq!(complaints, [""; 0]);
    assert_eq!(set_since(&settings, "PLAINTEXT"), Some(Address { host: "127.0.0.1".to_owned(), port: 49153 }));
    assert_eq!(set_since(&settings, "OTHER"), None);
    // Kafka 4 does not let it be changed, and that is what holds unless somebody says otherwise.
    let (settings, complaints) = changed("false");
    assert_eq!(complaints.len(), 1, "{complaints:?}");
    assert_eq!(set_since(&settings, "PLAINTEXT"), None);
}
