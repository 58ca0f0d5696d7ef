//! Reads what was recorded of a live Kafka for the tests of descriptions and alterations.

use std::sync::Arc;

use super::{BrokerConfig, ConfigMap, DynamicBrokerConfig, properties};

/// What was set of each resource before it was asked: resource, name, settings.
pub(super) fn sets(recorded: &str) -> Vec<(&str, &str, ConfigMap)> {
    let sets = recorded.lines().filter_map(|line| line.strip_prefix("# set\t"));
    sets.map(|set| {
        let [resource, name, settings] = set.split('\t').collect::<Vec<_>>()[..] else { panic!("{set}") };
        let settings = settings.split(';').map(|setting| setting.split_once('=').unwrap());
        (resource, name, settings.map(|(key, value)| (key.to_owned(), value.to_owned())).collect())
    })
    .collect()
}

/// The broker that was asked.
pub(super) fn broker(recorded: &str) -> DynamicBrokerConfig {
    let started = recorded.lines().find_map(|line| line.strip_prefix("# started with\t")).unwrap();
    let properties = properties::parse(started.replace('\t', "\n").as_bytes()).unwrap();
    let sets = sets(recorded);
    let set = |name: &str| &sets.iter().find(|(r, n, _)| *r == "BROKER" && *n == name).unwrap().2;
    let fixed = BrokerConfig::read(properties).unwrap();
    let (broker, complaints) = DynamicBrokerConfig::new(Arc::new(fixed)).update(set(""), set("1"));
    assert_eq!(complaints, [""; 0]);
    broker
}
