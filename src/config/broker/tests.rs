//! Files and environments that Kafka takes or refuses, in its words; and a lone node's own defaults.

use std::collections::BTreeMap;

use super::super::properties;
use super::super::topic::{CleanupPolicy, TopicConfig};
use proptest::prelude::*;

use super::*;

fn given(text: &str) -> BTreeMap<String, String> {
    properties::parse(text.as_bytes()).unwrap()
}

fn load(text: &str) -> BrokerConfig {
    BrokerConfig::load(given(text)).unwrap().config
}

fn problems(text: &str) -> Vec<String> {
    BrokerConfig::load(given(text)).unwrap_err().iter().map(ToString::to_string).collect()
}

/// Sets of settings, and whether Kafka starts with them.
#[test]
fn what_kafka_takes_is_taken_and_what_it_refuses_is_refused_in_its_words() {
    let cases = include_str!("../../../tests/golden/config/starts.tsv");
    let base = cases.lines().next().unwrap().split_once(": ").unwrap().1.split_once("; and").unwrap().0;
    for case in cases.lines().skip(1) {
        let (settings, expected) = case.split_once('\t').unwrap();
        let mut originals: BTreeMap<String, String> = BTreeMap::new();
        for setting in base.split(';').chain(settings.split(';')).filter(|setting| !setting.is_empty()) {
            match (setting.strip_prefix('-'), setting.split_once('=')) {
                (Some(key), _) => originals.remove(key),
                (None, Some((key, value))) => originals.insert(key.to_owned(), value.to_owned()),
                (None, None) => panic!("{setting}"),
            };
        }
        let actual = match BrokerConfig::read(originals) {
            Ok(_) => "=".to_owned(),
            Err(error) => format!("!{error}"),
        };
        assert_eq!(actual, expected, "{settings}");
    }
}

#[test]
fn ottla_alone_is_a_cluster_of_one() {
    let config = BrokerConfig::default();
    assert_eq!(config.node_id, BrokerId(1));
    assert_eq!(config.process_roles, ProcessRoles { broker: true, controller: true });
    assert_eq!(config.listeners.iter().map(ToString::to_string).collect::<Vec<_>>(), ["PLAINTEXT://:9092"]);
    assert_eq!(config.advertised_listeners[0].to_string(), "PLAINTEXT://localhost:9092");
    assert!(config.advertised_controller_listeners.is_empty());
    assert_eq!(config.log_dirs, [PathBuf::from("./ottla-data")]);
    assert_eq!(config.metadata_log_dir, PathBuf::from("./ottla-data"));
    assert_eq!(config.offsets_topic_replication_factor, 1);
    assert_eq!(config.transaction_state_log_min_isr, 1);
    assert_eq!(config.topic_defaults, TopicConfig::default());
    assert_eq!(BrokerConfig::load(BTreeMap::new()).unwrap().warnings, [""; 0]);
}

#[test]
fn overrides_of_a_lone_node_keep_it_whole() {
    let config = load(
        "listeners=PLAINTEXT://0.0.0.0:0,IN://h:9999\nlistener.security.protocol.map=PLAINTEXT:PLAINTEXT,IN:PLAINTEXT,CONTROLLER:PLAINTEXT\nbroker.id=7\nlog.dir=/a,/b",
    );
    assert_eq!(config.node_id, BrokerId(7));
    assert_eq!(config.log_dirs, [PathBuf::from("/a"), PathBuf::from("/b")]);
    let advertised: Vec<String> = config.advertised_listeners.iter().map(ToString::to_string).collect();
    assert_eq!(advertised, ["PLAINTEXT://localhost:0", "IN://h:9999"]);
    assert_eq!(config.offsets_topic_replication_factor, 1);
}

#[test]
fn a_file_has_kafkas_defaults_for_what_it_leaves_out() {
    let config = load(
        "process.roles=broker,controller\nnode.id=3\ncontroller.quorum.voters=3@localhost:19093\n\
         controller.listener.names=CONTROLLER\nlisteners=PLAINTEXT://:9092,CONTROLLER://:19093\n",
    );
    assert_eq!(config.log_dirs, [PathBuf::from("/tmp/kafka-logs")]);
    assert_eq!(config.offsets_topic_replication_factor, 3);
    // the machine's name is not this layer's to know
    assert_eq!(config.advertised_listeners[0].to_string(), "PLAINTEXT://:9092");
    assert_eq!(config.advertised_controller_listeners[0].to_string(), "CONTROLLER://localhost:19093");
    assert_eq!(config.controller_quorum_voters[0].port, 19093);
}

#[test]
fn every_problem_is_told_at_once_with_key_value_and_what_is_allowed() {
    let problems = problems(
        "num.partitions=many\nlog.segment.bytes=5\nlisteners=PLAINTEXT\nlog.retention.ms=0\nauto.create.topics.enable=ja\n\
         compression.type=brotli\nlistener.name.plaintext.max.connections=x\nauthorizer.class.name=A",
    );
    assert_eq!(
        problems,
        [
            "Invalid value brotli for configuration compression.type: String must be one of: uncompressed, zstd, lz4, snappy, gzip, producer",
            "Invalid value many for configuration num.partitions: Not a number of type INT (allowed: INT [1,...])",
            "Invalid value 5 for configuration log.segment.bytes: Value must be at least 1048576 (allowed: INT [1048576,...])",
            "Invalid value ja for configuration auto.create.topics.enable: Expected value to be either true or false",
            "Invalid value x for configuration listener.name.plaintext.max.connections: Not a number of type INT",
            "listeners: Unable to parse a listener name from PLAINTEXT",
            "log.retention.ms must be unlimited (-1) or, greater than or equal to 1",
            "authorizer.class.name=A protects the broker and is not supported yet; remove it to start without",
        ]
    );
}

#[test]
fn a_key_that_cannot_be_read_is_not_blamed_twice() {
    assert_eq!(problems("log.cleaner.threads=x").len(), 1);
    let any = "Invalid value x for configuration log.retention.bytes: Not a number of type LONG";
    assert_eq!(problems("log.retention.bytes=x"), [any]);
    assert_eq!(problems("log.cleaner.threads=0"), ["log.cleaner.threads: at least one is needed"]);
    assert_eq!(problems("node.id=x").len(), 2, "Kafka has it under both of its names");
    assert_eq!(problems("process.roles=zk\nnode.id=1\ncontroller.listener.names=C").len(), 1);
}

/// Kafka finds these only when it makes its log manager.
#[test]
fn defaults_that_no_topic_could_have_stop_the_start() {
    assert_eq!(
        problems("log.flush.interval.ms=-5"),
        ["Invalid value -5 for configuration flush.ms: Value must be at least 0"]
    );
    assert_eq!(
        problems("log.cleaner.min.compaction.lag.ms=10\nlog.cleaner.max.compaction.lag.ms=5"),
        ["conflict topic config setting min.compaction.lag.ms (10) > max.compaction.lag.ms (5)"]
    );
}

#[test]
fn topics_get_the_broker_settings_in_their_own_units() {
    let topic = load("log.retention.hours=2\nlog.roll.hours=1\nlog.roll.jitter.ms=5\nlog.cleanup.policy=compact,delete\nmessage.max.bytes=7\nlog.flush.scheduler.interval.ms=9").topic_defaults;
    assert_eq!(topic.retention_ms, 7_200_000);
    assert_eq!(topic.segment_ms, 3_600_000);
    assert_eq!(topic.segment_jitter_ms, 5);
    assert_eq!(topic.cleanup_policy, CleanupPolicy { compact: true, delete: true });
    assert_eq!(topic.max_message_bytes, 7);
    assert_eq!(topic.flush_ms, 9);
    assert_eq!(load("log.retention.minutes=-3").topic_defaults.retention_ms, -1);
    assert_eq!(load("log.retention.ms=5\nlog.retention.minutes=9").topic_defaults.retention_ms, 5);
}

#[test]
fn debug_output_hides_secrets() {
    let text = format!("{:?}", load("delegation.token.secret.key=hunter2\nsome.password=hunter2\nlog.dirs=/data"));
    assert!(!text.contains("hunter2") && text.contains("/data"), "{text}");
}

/// The file that comes with Kafka, without its comments.
#[test]
fn kafkas_own_file_starts() {
    let loaded = BrokerConfig::load(given(
        "process.roles=broker,controller\nnode.id=1\ncontroller.quorum.bootstrap.servers=localhost:9093\n\
         listeners=PLAINTEXT://:9092,CONTROLLER://:9093\ninter.broker.listener.name=PLAINTEXT\n\
         advertised.listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093\n\
         controller.listener.names=CONTROLLER\n\
         listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL\n\
         num.network.threads=3\nnum.io.threads=8\nsocket.send.buffer.bytes=102400\nsocket.receive.buffer.bytes=102400\n\
         socket.request.max.bytes=104857600\nlog.dirs=/tmp/kraft-combined-logs\nnum.partitions=1\n\
         num.recovery.threads.per.data.dir=1\noffsets.topic.replication.factor=1\n\
         share.coordinator.state.topic.replication.factor=1\nshare.coordinator.state.topic.min.isr=1\n\
         transaction.state.log.replication.factor=1\ntransaction.state.log.min.isr=1\nlog.retention.hours=168\n\
         log.segment.bytes=1073741824\nlog.retention.check.interval.ms=300000\n",
    ))
    .unwrap();
    assert_eq!(loaded.config.advertised_listeners.len(), 1);
    assert_eq!(loaded.config.advertised_controller_listeners[0].to_string(), "CONTROLLER://localhost:9093");
    assert_eq!(loaded.warnings, [] as [&str; 0]);
}

/// What Testcontainers' Java module tells a broker.
#[test]
fn the_environment_of_testcontainers_starts() {
    let loaded = BrokerConfig::load(given(
        "node.id=1\nprocess.roles=broker,controller\n\
         listeners=PLAINTEXT://0.0.0.0:9092,BROKER://0.0.0.0:9093,CONTROLLER://0.0.0.0:9094\n\
         advertised.listeners=PLAINTEXT://localhost:32768,BROKER://4f1c:9093\n\
         listener.security.protocol.map=BROKER:PLAINTEXT,PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT\n\
         inter.broker.listener.name=BROKER\ncontroller.listener.names=CONTROLLER\n\
         controller.quorum.voters=1@localhost:9094\noffsets.topic.replication.factor=1\noffsets.topic.num.partitions=1\n\
         transaction.state.log.replication.factor=1\ntransaction.state.log.min.isr=1\n\
         log.flush.interval.messages=9223372036854775807\ngroup.initial.rebalance.delay.ms=0\n",
    ));
    let config = loaded.unwrap().config;
    assert_eq!(config.inter_broker_listener_name, "BROKER");
    assert_eq!(config.advertised_controller_listeners[0].to_string(), "CONTROLLER://localhost:9094");
}

proptest! {
    /// Whatever is given, the answer is a configuration or a list of problems.
    #[test]
    fn nothing_panics(entries in proptest::collection::btree_map(
        proptest::sample::select(broker_keys().iter().map(|key| key.name.to_owned()).collect::<Vec<_>>()),
        prop_oneof![
            "[ -~]{0,12}",
            any::<i64>().prop_map(|number| number.to_string()),
            (-2i64..70_000).prop_map(|number| number.to_string()),
            Just("PLAINTEXT://:9092,CONTROLLER://:9093".to_owned()),
            Just("1@[::1]:9,2@h:70000".to_owned()),
            Just(String::new()),
        ],
        0..6,
    )) {
        let _ = BrokerConfig::load(entries.clone());
        let broker = crate::config::DynamicBrokerConfig::new(Arc::default());
        let (broker, _) = broker.update(&entries, &entries);
        prop_assert!(broker.current().node_id.0 == 1);
    }
}
