//! Alterations judged as Kafka judged the same ones, and what only this node has to refuse.

use std::sync::Arc;

use super::*;
use crate::config::recorded;

fn incremental(
    resource: &AlteredResource<'_>,
    existing: &ConfigMap,
    alterations: &[Alteration<'_>],
) -> Result<Changes, AlterError> {
    check_alterations(alterations)?;
    super::incremental(*resource, existing, alterations)?.check()
}

fn replace(
    resource: &AlteredResource<'_>,
    existing: &ConfigMap,
    configs: &[(&str, Option<&str>)],
) -> Result<Changes, AlterError> {
    let set = |&(name, value)| Alteration { name, operation: SET, value };
    let alterations: Vec<Alteration<'_>> = configs.iter().map(set).collect();
    check_alterations(&alterations)?;
    super::replace(*resource, existing, &alterations)?.check()
}

/// `key=value`, `key-` (delete), `key+value` (append), `key_value` (subtract).
fn parse_alteration(text: &str) -> Alteration<'_> {
    let at = text.find(['=', '-', '+', '_']).unwrap();
    let (name, rest) = text.split_at(at);
    let operation = "=-+_".find(&rest[..1]).unwrap() as i8;
    Alteration { name, operation, value: (operation != DELETE).then_some(&rest[1..]) }
}

/// Where Ottla knowingly answers otherwise.
fn differs(resource: &str, alterations: &str) -> Option<Result<(), AlterError>> {
    let refused = |name: &str| {
        Some(Err(AlterError::InvalidRequest(format!(
            "{name} cannot be changed while the broker runs: not supported yet"
        ))))
    };
    match (resource, alterations) {
        // Kafka takes what its logs cannot be made with, and logs an error when it applies it
        ("BROKER", "log.flush.interval.ms=-5") => Some(Err(AlterError::InvalidRequest(
            "Invalid value -5 for configuration flush.ms: Value must be at least 0".to_owned(),
        ))),
        ("BROKER", "log.cleaner.min.compaction.lag.ms=10;log.cleaner.max.compaction.lag.ms=5") => {
            Some(Err(AlterError::InvalidRequest(
                "conflict topic config setting min.compaction.lag.ms (10) > max.compaction.lag.ms (5)".to_owned(),
            )))
        }
        // there are no plug-ins here
        ("BROKER", "config.providers=x") => refused("config.providers"),
        _ => None,
    }
}

/// Alterations, and what Apache Kafka 4.3.1 answers.
#[test]
fn alterations_are_judged_as_kafka_judges_them() {
    let recorded = include_str!("../../../tests/golden/config/alter.tsv");
    let broker = recorded::broker(recorded);
    let sets = recorded::sets(recorded);
    let mut failures = Vec::new();
    for case in recorded.lines().filter(|line| !line.starts_with('#')) {
        let [resource, name, alterations, error, message] = case.split('\t').collect::<Vec<_>>()[..] else {
            panic!("{case}")
        };
        let expected = match error {
            "NONE" => Ok(()),
            "INVALID_CONFIG" => Err(AlterError::InvalidConfig(message.to_owned())),
            "INVALID_REQUEST" => Err(AlterError::InvalidRequest(message.to_owned())),
            // about the topic itself, which is not this module's to judge
            "UNKNOWN_TOPIC_OR_PARTITION" | "INVALID_TOPIC_EXCEPTION" => continue,
            _ => panic!("{error}"),
        };
        if resource == "TOPIC" && name.is_empty() {
            continue;
        }
        let existing = sets.iter().find(|(r, n, _)| *r == resource && *n == name).map(|(_, _, set)| set.clone());
        let parsed: Vec<Alteration<'_>> = alterations.split(';').map(parse_alteration).collect();
        let altered = match resource {
            "TOPIC" => AlteredResource::Topic { broker: &broker },
            "BROKER" => {
                AlteredResource::Broker { name, broker: &broker, elr_enabled: true, has_cordoned_log_dirs: true }
            }
            "GROUP" => AlteredResource::Group { name, broker: &broker },
            _ => AlteredResource::ClientMetrics { name },
        };
        let actual = incremental(&altered, &existing.unwrap_or_default(), &parsed).map(|_| ());
        let expected = differs(resource, alterations).unwrap_or(expected);
        if actual != expected {
            failures.push(format!("{resource} {name:?} {alterations}\n  got      {actual:?}\n  expected {expected:?}"));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

fn lone_broker() -> DynamicBrokerConfig {
    DynamicBrokerConfig::new(Arc::default())
}

fn map(entries: &[(&str, &str)]) -> ConfigMap {
    entries.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

#[test]
fn changes_are_what_is_written() {
    let broker = lone_broker();
    let topic = AlteredResource::Topic { broker: &broker };
    let existing = map(&[("cleanup.policy", "compact"), ("retention.ms", "5")]);
    let alterations = ["retention.ms=5", "cleanup.policy+delete", "segment.ms=9", "flush.ms-"].map(parse_alteration);
    assert_eq!(
        incremental(&topic, &existing, &alterations).unwrap(),
        [
            ("cleanup.policy".to_owned(), Some("compact,delete".to_owned())),
            ("segment.ms".to_owned(), Some("9".to_owned())),
        ],
        "what is as it was is not written"
    );
    assert_eq!(
        replace(&topic, &existing, &[("segment.ms", Some("9")), ("retention.ms", Some("5"))]).unwrap(),
        [("segment.ms".to_owned(), Some("9".to_owned())), ("cleanup.policy".to_owned(), None)]
    );
    // a list without a value of its own starts from the default
    let alteration = [parse_alteration("cleanup.policy_delete")];
    assert_eq!(
        incremental(&topic, &ConfigMap::new(), &alteration).unwrap(),
        [("cleanup.policy".to_owned(), Some(String::new()))]
    );
}

#[test]
fn alterations_without_sense_are_refused() {
    let broker = lone_broker();
    let topic = AlteredResource::Topic { broker: &broker };
    let set = |operation, value| [Alteration { name: "retention.ms", operation, value }];
    let refusal = |alterations: &[Alteration<'_>]| incremental(&topic, &ConfigMap::new(), alterations).unwrap_err();
    assert_eq!(
        refusal(&set(SET, None)),
        AlterError::InvalidRequest("Null value not supported for : retention.ms".to_owned())
    );
    assert_eq!(refusal(&set(4, Some("1"))), AlterError::InvalidRequest("Unknown operations type 4".to_owned()));
    assert_eq!(refusal(&set(-1, Some("1"))), AlterError::InvalidRequest("Unknown operations type -1".to_owned()));
    let long = "1".repeat(40_000);
    assert!(refusal(&set(SET, Some(&long))).to_string().contains("exceeds the maximum value size"));
    let other = AlteredResource::Broker { name: "2", broker: &broker, elr_enabled: true, has_cordoned_log_dirs: true };
    assert_eq!(
        incremental(&other, &ConfigMap::new(), &[]).unwrap_err(),
        AlterError::InvalidRequest("Unexpected broker id, expected 1, but received 2".to_owned())
    );
    let word = AlteredResource::Broker { name: "x", broker: &broker, elr_enabled: true, has_cordoned_log_dirs: true };
    assert_eq!(
        replace(&word, &ConfigMap::new(), &[]).unwrap_err(),
        AlterError::InvalidRequest("Node id must be an integer, but it is: x".to_owned())
    );
}

#[test]
fn log_directories_are_cordoned_once_the_controller_can_know() {
    let broker = lone_broker();
    let alter = |has_cordoned_log_dirs, text| {
        let resource = AlteredResource::Broker { name: "1", broker: &broker, elr_enabled: true, has_cordoned_log_dirs };
        incremental(&resource, &ConfigMap::new(), &[parse_alteration(text)]).map_err(|error| error.to_string())
    };
    assert!(alter(true, "cordoned.log.dirs=*").is_ok());
    let refused =
        "The cordoned.log.dirs configuration value cannot be set because it requires metadata.version >= 4.3-IV0";
    for text in ["cordoned.log.dirs=*", "cordoned.log.dirs="] {
        assert_eq!(alter(false, text).unwrap_err(), refused);
    }
    assert!(alter(false, "log.retention.ms=5").is_ok());
}

#[test]
fn a_created_topic_is_checked_like_an_altered_one() {
    let broker = lone_broker();
    assert_eq!(
        create_topic(&[("retention.ms", Some("1")), ("retention.ms", Some("2"))], &broker).unwrap(),
        map(&[("retention.ms", "2")])
    );
    let refusal = |configs: &[(&str, Option<&str>)]| create_topic(configs, &broker).unwrap_err().to_string();
    assert_eq!(refusal(&[("a", None), ("b", None)]), "Null value not supported for topic configs: a,b");
    assert_eq!(refusal(&[("nope", Some("1"))]), "Unknown topic config name: nope");
    assert_eq!(
        refusal(&[("min.insync.replicas", Some("0"))]),
        "Invalid value 0 for configuration min.insync.replicas: Value must be at least 1"
    );
}

#[test]
fn protection_cannot_be_promised_at_run_time() {
    let broker = lone_broker();
    let resource =
        AlteredResource::Broker { name: "1", broker: &broker, elr_enabled: true, has_cordoned_log_dirs: true };
    for text in ["listeners=PLAINTEXT://:1", "listener.name.plaintext.ssl.keystore.location=/x"] {
        let error = incremental(&resource, &ConfigMap::new(), &[parse_alteration(text)]).unwrap_err();
        assert!(error.to_string().contains("not supported yet"), "{error}");
    }
    // librdkafka's tests set it on any broker, and without SASL it promises nothing
    for text in ["listeners-", "sasl.kerberos.min.time.before.relogin=58000"] {
        assert!(incremental(&resource, &ConfigMap::new(), &[parse_alteration(text)]).is_ok(), "{text}");
    }
}

#[test]
fn what_is_set_dynamically_is_in_force_and_what_is_unusable_is_told() {
    let broker = lone_broker();
    let (broker, complaints) = broker.update(
        &map(&[
            ("log.retention.ms", "7000"),
            ("log.dirs", "/x"),
            ("num.partitions", "9"),
            ("listeners", "PLAINTEXT://:1"),
        ]),
        &map(&[("message.max.bytes", "5"), ("log.segment.bytes", "x"), ("unknown", "1")]),
    );
    let current = broker.current();
    assert_eq!((current.topic_defaults.retention_ms, current.topic_defaults.max_message_bytes), (7000, 5));
    assert_eq!((current.num_partitions, current.topic_defaults.segment_bytes), (1, 1 << 30));
    assert_eq!(complaints.len(), 4, "{complaints:?}");
    // taken away again
    let (broker, complaints) = broker.update(&ConfigMap::new(), &ConfigMap::new());
    assert_eq!(**broker.current(), **broker.fixed());
    assert_eq!(complaints, [""; 0]);
    // together they would leave no thread enough memory: the settings before stay in force
    let (broker, complaints) =
        broker.update(&map(&[("log.cleaner.threads", "1000"), ("message.max.bytes", "5")]), &ConfigMap::new());
    assert_eq!(broker.current().topic_defaults.max_message_bytes, 1_048_588);
    assert_eq!(complaints.len(), 1);
}
