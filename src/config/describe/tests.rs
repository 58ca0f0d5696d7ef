//! Descriptions beside those that Kafka gave of the same settings.

use std::sync::Arc;

use super::*;
use crate::config::{java, properties, recorded};

fn unescape(text: &str) -> Option<String> {
    (text != "\\N").then(|| text.replace("\\t", "\t").replace("\\n", "\n").replace("\\\\", "\\"))
}

fn escape(text: Option<&str>) -> String {
    text.map_or_else(|| "\\N".to_owned(), |text| text.replace('\\', "\\\\").replace('\n', "\\n"))
}

/// The name that Kafka's admin client gives a source.
fn source_name(source: ConfigSource) -> &'static str {
    match source {
        ConfigSource::TopicConfig => "DYNAMIC_TOPIC_CONFIG",
        ConfigSource::DynamicBrokerConfig => "DYNAMIC_BROKER_CONFIG",
        ConfigSource::DynamicDefaultBrokerConfig => "DYNAMIC_DEFAULT_BROKER_CONFIG",
        ConfigSource::StaticBrokerConfig => "STATIC_BROKER_CONFIG",
        ConfigSource::DefaultConfig => "DEFAULT_CONFIG",
        ConfigSource::ClientMetricsConfig => "DYNAMIC_CLIENT_METRICS_CONFIG",
        ConfigSource::GroupConfig => "DYNAMIC_GROUP_CONFIG",
    }
}

fn line(resource: &str, name: &str, entry: &ConfigEntry) -> String {
    let synonyms: Vec<String> = entry
        .synonyms
        .iter()
        .map(|s| format!("{}={}@{}", s.name, escape(s.value.as_deref()), source_name(s.source)))
        .collect();
    [
        resource,
        name,
        &entry.name,
        &escape(entry.value.as_deref()),
        source_name(entry.source),
        if entry.sensitive { "sensitive" } else { "" },
        if entry.read_only { "read-only" } else { "" },
        &entry.config_type.map_or("UNKNOWN".to_owned(), |config_type| config_type.to_string()),
        &synonyms.join("|"),
        &format!("{:x}", java::string_hash(entry.documentation.unwrap_or_default())),
    ]
    .join("\t")
}

/// A broker with settings in every layer, two topics, groups and subscriptions, described by Apache Kafka 4.3.1.
#[test]
fn descriptions_are_those_of_kafka() {
    let recorded = include_str!("../../../tests/golden/config/describe.tsv");
    let broker = recorded::broker(recorded);
    let none = ConfigMap::new();
    let sets = recorded::sets(recorded);
    let set = |resource: &str, name: &str| {
        sets.iter().find(|(r, n, _)| *r == resource && *n == name).map_or(&none, |(_, _, set)| set)
    };
    let all = |_: &str| true;
    let described = [
        ("TOPIC", "with", topic(set("TOPIC", "with"), &broker, all)),
        ("TOPIC", "without", topic(&none, &broker, all)),
        ("BROKER", "1", super::broker(&broker, all)),
        ("BROKER", "", broker_defaults(&broker, all)),
        ("GROUP", "g", group(set("GROUP", "g"), &broker, all)),
        ("GROUP", "none", group(&none, &broker, all)),
        ("CLIENT_METRICS", "m", client_metrics(set("CLIENT_METRICS", "m"), all)),
        ("CLIENT_METRICS", "none", client_metrics(&none, all)),
    ];
    for (resource, name, mut entries) in described {
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        let actual: Vec<String> = entries.iter().map(|entry| line(resource, name, entry)).collect();
        let prefix = format!("{resource}\t{name}\t");
        let expected: Vec<&str> = recorded.lines().filter(|line| line.starts_with(&prefix)).collect();
        for (actual, expected) in actual.iter().zip(&expected) {
            assert_eq!(actual, expected);
        }
        assert_eq!(actual.len(), expected.len(), "{resource} {name}");
    }
}

#[test]
fn only_what_is_wanted_is_described() {
    let broker = DynamicBrokerConfig::new(Arc::default());
    let entries = topic(&ConfigMap::new(), &broker, |name| name == "retention.ms" || name == "nope");
    assert_eq!(entries.iter().map(|entry| entry.name.as_str()).collect::<Vec<_>>(), ["retention.ms"]);
}

#[test]
fn a_created_topic_is_told_with_texts_as_given() {
    let given = properties::parse(b"log.retention.hours=100\nlog.roll.ms=7200000").unwrap();
    let fixed = BrokerConfig::load(given).unwrap().config;
    let cluster_default = ConfigMap::from([("min.insync.replicas".to_owned(), "1".to_owned())]);
    let (broker, _) = DynamicBrokerConfig::new(fixed.into()).update(&cluster_default, &ConfigMap::new());
    let overrides = ConfigMap::from([("compression.zstd.level".to_owned(), " +7 ".to_owned())]);
    let entries = created_topic(&overrides, &broker);
    assert_eq!(entries.len(), 33);
    assert!(entries.is_sorted_by_key(|entry| entry.name.clone()));
    let entry = |name: &str| {
        let entry = entries.iter().find(|entry| entry.name == name).unwrap();
        (entry.value.as_deref().unwrap(), entry.source)
    };
    assert_eq!(entry("compression.zstd.level"), (" +7 ", ConfigSource::TopicConfig));
    assert_eq!(entry("retention.ms"), ("360000000", ConfigSource::StaticBrokerConfig));
    assert_eq!(entry("segment.ms"), ("7200000", ConfigSource::StaticBrokerConfig));
    assert_eq!(entry("min.insync.replicas"), ("1", ConfigSource::DynamicDefaultBrokerConfig));
    assert_eq!(entry("segment.jitter.ms"), ("0", ConfigSource::DefaultConfig));
}

#[test]
fn texts_are_read_back_as_recorded() {
    assert_eq!(unescape(&escape(Some("a\n\\b"))), Some("a\n\\b".to_owned()));
}
