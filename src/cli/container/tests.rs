//! The conventions of the images, by what people write in compose files and what test modules set.

use super::environment::{Convention, Settings, settings};
use super::log_levels::log_levels;
use super::*;
use crate::config::BrokerConfig;

fn texts(text: &str) -> Texts {
    let pairs = text.lines().map(str::trim).filter(|line| !line.is_empty()).map(|line| line.split_once('=').unwrap());
    pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
}

fn read_as(convention: Convention, environment: &str) -> Settings {
    settings(&texts(environment), convention, None, "")
}

fn apache(environment: &str) -> Settings {
    read_as(Convention::Apache, environment)
}

/// What each node gets unless somebody says otherwise.
const ALONE: &str = "offsets.topic.replication.factor=1
    share.coordinator.state.topic.min.isr=1
    share.coordinator.state.topic.replication.factor=1
    transaction.state.log.min.isr=1
    transaction.state.log.replication.factor=1
    group.initial.rebalance.delay.ms=0";

/// What comes of it beside that, key by key; nothing else may.
#[track_caller]
fn assert_settings(found: &Settings, expected: &str) {
    assert_eq!(found.problems, [""; 0]);
    assert_eq!(found.properties, texts(&format!("{ALONE}\n{expected}")));
    // What it comes to is a node that starts.
    BrokerConfig::load(found.properties.clone()).unwrap_or_else(|problems| panic!("{problems:?}"));
}

#[test]
fn nothing_said_is_a_node_of_its_own() {
    let expected = |data: &str| {
        format!(
            "listeners=PLAINTEXT://:9092\nadvertised.listeners=PLAINTEXT://localhost:9092\nottla.advertised.auto=true\n\
             log.dirs={data}"
        )
    };
    for (convention, data) in [
        (Convention::Apache, "/tmp/kraft-combined-logs"),
        (Convention::Confluent, "/var/lib/kafka/data"),
        (Convention::Bitnami, "/bitnami/kafka/data"),
    ] {
        let found =
            read_as(convention, "PATH=/usr/bin\nKAFKA_HEAP_OPTS=-Xmx1g\nKAFKA_OPTS=-Dx=y\nHOSTNAME=k\nOTTLA_LOG=info");
        assert_settings(&found, &expected(data));
        assert_eq!(found.warnings, [""; 0]);
    }
}

#[test]
fn names_of_variables_stand_for_keys() {
    let found = apache(
        "KAFKA_LOG_RETENTION_MS=1\nKAFKA_A__B=2\nKAFKA_A___B_C=3\nKAFKA_LISTENER_NAME_TC___0_MAX_CONNECTIONS=4\nKAFKA_=5\nKAFKA=6\n\
         KAFKA_A____B=7",
    );
    for (key, value) in [
        ("log.retention.ms", "1"),
        ("a_b", "2"),
        ("a-b.c", "3"),
        ("listener.name.tc-0.max.connections", "4"),
        ("a-.b", "7"),
    ] {
        assert_eq!(found.properties.get(key).map(String::as_str), Some(value), "{key}: {found:?}");
    }
    assert!(!found.properties.contains_key(""));
}

#[test]
fn an_image_of_kafka_as_testcontainers_starts_it() {
    let found = apache(
        "CLUSTER_ID=4L6g3nShT-eMCtK--X86sw
         KAFKA_NODE_ID=1
         KAFKA_PROCESS_ROLES=broker,controller
         KAFKA_LISTENERS=PLAINTEXT://0.0.0.0:9092,BROKER://0.0.0.0:9093,CONTROLLER://0.0.0.0:9094,TC-0://0.0.0.0:19092
         KAFKA_ADVERTISED_LISTENERS=PLAINTEXT://localhost:49153,BROKER://c0ffee:9093,TC-0://broker:19092,
         KAFKA_LISTENER_SECURITY_PROTOCOL_MAP=BROKER:PLAINTEXT,PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,TC-0:PLAINTEXT
         KAFKA_INTER_BROKER_LISTENER_NAME=BROKER
         KAFKA_CONTROLLER_LISTENER_NAMES=CONTROLLER
         KAFKA_CONTROLLER_QUORUM_VOTERS=1@localhost:9094
         KAFKA_LOG_FLUSH_INTERVAL_MESSAGES=9223372036854775807
         KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS=0",
    );
    assert_settings(
        &found,
        "ottla.cluster.id=4L6g3nShT-eMCtK--X86sw
         node.id=1
         process.roles=broker,controller
         listeners=PLAINTEXT://0.0.0.0:9092,BROKER://0.0.0.0:9093,CONTROLLER://0.0.0.0:9094,TC-0://0.0.0.0:19092
         advertised.listeners=PLAINTEXT://localhost:49153,BROKER://c0ffee:9093,TC-0://broker:19092
         listener.security.protocol.map=BROKER:PLAINTEXT,PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,TC-0:PLAINTEXT
         inter.broker.listener.name=BROKER
         controller.listener.names=CONTROLLER
         controller.quorum.voters=1@localhost:9094
         log.flush.interval.messages=9223372036854775807
         group.initial.rebalance.delay.ms=0
         log.dirs=/tmp/kraft-combined-logs",
    );
    assert_eq!(found.warnings, [""; 0]);
}

#[test]
fn zookeepers_times_are_forgiven() {
    let found = read_as(
        Convention::Confluent,
        "KAFKA_BROKER_ID=7
         KAFKA_ZOOKEEPER_CONNECT=zookeeper:2181
         KAFKA_ZOOKEEPER_CONNECTION_TIMEOUT_MS=18000
         KAFKA_LISTENERS=PLAINTEXT://0.0.0.0:9093,BROKER://0.0.0.0:9092
         KAFKA_ADVERTISED_LISTENERS=PLAINTEXT://localhost:49153,BROKER://c0ffee:9092
         KAFKA_LISTENER_SECURITY_PROTOCOL_MAP=BROKER:PLAINTEXT,PLAINTEXT:PLAINTEXT
         KAFKA_INTER_BROKER_LISTENER_NAME=BROKER",
    );
    assert_settings(
        &found,
        "broker.id=7
         listeners=PLAINTEXT://0.0.0.0:9093,BROKER://0.0.0.0:9092
         advertised.listeners=PLAINTEXT://localhost:49153,BROKER://c0ffee:9092
         listener.security.protocol.map=BROKER:PLAINTEXT,PLAINTEXT:PLAINTEXT
         inter.broker.listener.name=BROKER
         ottla.advertised.dynamic=true
         log.dirs=/var/lib/kafka/data",
    );
    let [warning] = &found.warnings[..] else { panic!("{:?}", found.warnings) };
    assert!(
        warning.starts_with("zookeeper.connect, zookeeper.connection.timeout.ms: there is no ZooKeeper"),
        "{warning}"
    );

    let found =
        apache("KAFKA_BROKER_ID=-1\nKAFKA_ADVERTISED_HOST_NAME=10.0.0.1\nKAFKA_ADVERTISED_PORT=29092\nKAFKA_PORT=9093");
    assert_eq!(found.properties["advertised.listeners"], "PLAINTEXT://10.0.0.1:29092");
    assert_eq!(found.properties["listeners"], "PLAINTEXT://:9093");
    assert!(!found.properties.contains_key("broker.id") && !found.properties.contains_key("ottla.advertised.auto"));
}

#[test]
fn bitnamis_variables_are_told_by_their_prefix() {
    let environment = "KAFKA_ENABLE_KRAFT=yes
         KAFKA_KRAFT_CLUSTER_ID=4L6g3nShT-eMCtK--X86sw
         KAFKA_CFG_NODE_ID=0
         KAFKA_BROKER_ID=0
         KAFKA_CFG_PROCESS_ROLES=controller,broker
         KAFKA_CFG_CONTROLLER_QUORUM_VOTERS=0@kafka:9093
         KAFKA_CFG_LISTENERS=PLAINTEXT://:9092,CONTROLLER://:9093,EXTERNAL://:9094
         KAFKA_CFG_ADVERTISED_LISTENERS=PLAINTEXT://kafka:9092,EXTERNAL://localhost:24392
         KAFKA_CFG_LISTENER_SECURITY_PROTOCOL_MAP=CONTROLLER:PLAINTEXT,EXTERNAL:PLAINTEXT,PLAINTEXT:PLAINTEXT
         KAFKA_CFG_CONTROLLER_LISTENER_NAMES=CONTROLLER
         KAFKA_NUM_PARTITIONS=3
         KAFKA_ZOOKEEPER_PROTOCOL=PLAINTEXT
         ALLOW_PLAINTEXT_LISTENER=yes";
    let found = apache(environment);
    assert_settings(
        &found,
        "ottla.cluster.id=4L6g3nShT-eMCtK--X86sw
         node.id=0
         process.roles=controller,broker
         controller.quorum.voters=0@kafka:9093
         listeners=PLAINTEXT://:9092,CONTROLLER://:9093,EXTERNAL://:9094
         advertised.listeners=PLAINTEXT://kafka:9092,EXTERNAL://localhost:24392
         listener.security.protocol.map=CONTROLLER:PLAINTEXT,EXTERNAL:PLAINTEXT,PLAINTEXT:PLAINTEXT
         controller.listener.names=CONTROLLER
         log.dirs=/bitnami/kafka/data",
    );
    assert_eq!(found.warnings.len(), 1);
    assert!(found.warnings[0].starts_with("KAFKA_NUM_PARTITIONS: not read beside KAFKA_CFG_*"), "{:?}", found.warnings);
    assert_eq!(apache("KAFKA_CFG_NUM_PARTITIONS=2\nKAFKA_BROKER_ID=4").properties["node.id"], "4");
}

#[test]
fn a_variable_wins_over_a_mounted_file_and_that_over_the_defaults() {
    let mounted = texts("num.partitions=4\nnode.id=3\nlog.dir=/data");
    let found = settings(&texts("KAFKA_NUM_PARTITIONS=5"), Convention::Apache, Some(&mounted), "");
    assert_settings(
        &found,
        "num.partitions=5\nnode.id=3\nlog.dir=/data\nlisteners=PLAINTEXT://:9092\n\
         advertised.listeners=PLAINTEXT://localhost:9092\nottla.advertised.auto=true",
    );
    let found = settings(&texts(""), Convention::Apache, Some(&mounted), "");
    assert_eq!(found.properties["num.partitions"], "4");
    for (key, value) in texts(ALONE) {
        assert_eq!(apache("KAFKA_PROCESS_ROLES=broker,controller").properties[&key], value);
        let variable = format!("KAFKA_{}=3", key.to_uppercase().replace('.', "_"));
        assert_eq!(apache(&variable).properties[&key], "3", "{variable}");
    }
}

#[test]
fn listeners_are_derived_from_what_is_advertised_and_the_controller_gets_one() {
    let found = apache(
        "KAFKA_PROCESS_ROLES=broker,controller
         KAFKA_NODE_ID=5
         KAFKA_CONTROLLER_QUORUM_VOTERS=5@kafka:29093
         KAFKA_CONTROLLER_LISTENER_NAMES=CTRL
         KAFKA_LISTENER_SECURITY_PROTOCOL_MAP=PLAINTEXT:PLAINTEXT,HOST:PLAINTEXT
         KAFKA_ADVERTISED_LISTENERS=PLAINTEXT://kafka:29092,HOST://localhost:9092",
    );
    assert_eq!(found.properties["listeners"], "PLAINTEXT://0.0.0.0:29092,HOST://0.0.0.0:9092,CTRL://:29093");
    assert_eq!(found.properties["listener.security.protocol.map"], "PLAINTEXT:PLAINTEXT,HOST:PLAINTEXT,CTRL:PLAINTEXT");
    BrokerConfig::load(found.properties).unwrap();
    // The port of the voters is taken: the system picks one.
    let found = apache(
        "KAFKA_PROCESS_ROLES=broker,controller\nKAFKA_NODE_ID=1\nKAFKA_LISTENERS=PLAINTEXT://:9092\n\
        KAFKA_CONTROLLER_LISTENER_NAMES=CONTROLLER\nKAFKA_CONTROLLER_QUORUM_VOTERS=1@localhost:9092",
    );
    assert_eq!(found.properties["listeners"], "PLAINTEXT://:9092,CONTROLLER://:0");
    assert_eq!(found.properties["advertised.listeners"], "PLAINTEXT://localhost:9092");
}

#[test]
fn addresses_are_found_out_for_each_client_unless_somebody_says_them() {
    let auto = |environment: &str| apache(environment).properties.get("ottla.advertised.auto").cloned();
    assert_eq!(auto("KAFKA_LISTENERS=PLAINTEXT://0.0.0.0:9092").as_deref(), Some("true"));
    assert_eq!(auto("KAFKA_ADVERTISED_LISTENERS=PLAINTEXT://kafka:9092"), None);
    assert_eq!(auto("OTTLA_ADVERTISED_AUTO=false").as_deref(), Some("false"));
    // A name that was given to a listener is what it is called.
    let found = apache(
        "KAFKA_LISTENERS=PLAINTEXT://kafka:9092,OUT://:29092\nKAFKA_LISTENER_SECURITY_PROTOCOL_MAP=PLAINTEXT:PLAINTEXT,OUT:PLAINTEXT",
    );
    assert_eq!(found.properties["advertised.listeners"], "PLAINTEXT://kafka:9092,OUT://localhost:29092");
    let found = apache("KAFKA_ADVERTISED_PORT=29092");
    assert_eq!(found.properties["ottla.advertised.external"], ":29092");
    assert_eq!(found.properties["ottla.advertised.auto"], "true");
    let found = apache("OTTLA_ADVERTISED_EXTERNAL=PLAINTEXT://h:1\nKAFKA_ADVERTISED_PORT=2");
    assert_eq!(found.properties["ottla.advertised.external"], "PLAINTEXT://h:1");
}

#[test]
fn what_is_to_protect_stops_the_start_with_one_sentence() {
    let found = apache(
        "KAFKA_LISTENERS=SECURE://:9093,CONTROLLER://:9094
         KAFKA_ADVERTISED_LISTENERS=SECURE://localhost:9093
         KAFKA_LISTENER_SECURITY_PROTOCOL_MAP=SECURE:SASL_SSL,CONTROLLER:PLAINTEXT
         KAFKA_SSL_KEYSTORE_FILENAME=kafka.p12
         KAFKA_SSL_KEY_CREDENTIALS=cred
         KAFKA_LISTENER_NAME_SECURE_PLAIN_SASL_JAAS_CONFIG=secret
         KAFKA_SASL_ENABLED_MECHANISMS=PLAIN",
    );
    let [problem] = &found.problems[..] else { panic!("{:?}", found.problems) };
    assert!(problem.starts_with("listener SECURE://:9093 asks for SASL_SSL: "), "{problem}");
    assert!(problem.contains("KAFKA_LISTENER_SECURITY_PROTOCOL_MAP"), "{problem}");
    // Without such a listener they do nothing in Kafka either.
    let found =
        apache("KAFKA_SSL_KEYSTORE_FILENAME=kafka.p12\nKAFKA_SASL_ENABLED_MECHANISMS=PLAIN\nKAFKA_CLIENT_USERS=a");
    assert_eq!(found.problems, [""; 0]);
    assert_eq!(found.warnings.len(), 2, "{:?}", found.warnings);
    assert!(BrokerConfig::load(found.properties).unwrap().warnings.is_empty());
    assert_eq!(apache("KAFKA_SSL_ENDPOINT_IDENTIFICATION_ALGORITHM=").warnings, [""; 0]);
    // An authorizer does something without TLS too: the rules of the settings refuse it.
    let found = apache("KAFKA_AUTHORIZER_CLASS_NAME=org.apache.kafka.metadata.authorizer.StandardAuthorizer");
    assert!(BrokerConfig::load(found.properties).is_err());
    let found = apache("KAFKA_ADVERTISED_LISTENERS=PLAINTEXT://_{HOSTNAME_COMMAND}:9092");
    assert!(found.problems[0].contains("commands"), "{:?}", found.problems);
}

#[test]
fn topics_are_asked_for_by_a_variable() {
    let topics = |environment: &str| apache(environment).properties.get("ottla.test.topics").cloned();
    assert_eq!(topics("KAFKA_CREATE_TOPICS=orders:3:1,events:1:1:compact").unwrap(), "orders:3:1,events:1:1:compact");
    assert_eq!(topics("KAFKA_CREATE_TOPICS=orders;events\nKAFKA_CREATE_TOPICS_SEPARATOR=;").unwrap(), "orders,events");
    assert_eq!(topics("OTTLA_TEST_TOPICS=a").unwrap(), "a");
    assert_eq!(topics("KAFKA_CREATE_TOPICS="), None);
}

#[test]
fn kubernetes_variables_of_a_service_named_kafka_are_not_settings() {
    let found = apache(
        "KAFKA_PORT=tcp://10.0.0.1:9092\nKAFKA_SERVICE_HOST=10.0.0.1\nKAFKA_SERVICE_PORT=9092\nKAFKA_PORT_9092_TCP=tcp://10.0.0.1:9092",
    );
    assert_eq!(found.properties["listeners"], "PLAINTEXT://:9092");
    assert!(BrokerConfig::load(found.properties).unwrap().warnings.is_empty());
}

#[test]
fn what_nobody_knows_is_a_warning_of_the_broker() {
    let found = apache("KAFKA_CONFLUENT_SUPPORT_METRICS_ENABLE=false\nKAFKA_MADE_UP=1\nKAFKA_NUM_IO_THREADS=3");
    let warnings = BrokerConfig::load(found.properties).unwrap().warnings;
    assert_eq!(warnings, ["made.up is not a setting of Kafka 4.3 and is ignored", "num.io.threads=3 has no effect"]);
}

#[test]
fn own_names_need_ports_that_are_listened_on() {
    let given =
        texts("listeners=A://:29092,B://:9093\nadvertised.listeners=A://kafka:9092,B://localhost:49153,C://x:1");
    let told = listeners::unreachable(&given, |host| host == "kafka");
    let [sentence] = &told[..] else { panic!("{told:?}") };
    assert!(
        sentence.contains("kafka:9092, which is this container") && sentence.contains("say kafka:29092"),
        "{sentence}"
    );
    assert!(listeners::unreachable(&given, |_| false).is_empty());
}

#[test]
fn what_is_misspelt_is_told_and_what_is_empty_is_nothing() {
    for (variable, told) in [
        ("OTTLA_ADVERTISED_EXTERNL=:1", "OTTLA_ADVERTISED_EXTERNL: there is no such variable of Ottla; it is left out"),
        ("KAFKA_ADVERTISED_PORT=abc", "KAFKA_ADVERTISED_PORT=abc: no port; it is left out"),
        ("KAFKA_ADVERTISED_PORT=0", "KAFKA_ADVERTISED_PORT=0: no port; it is left out"),
    ] {
        let found = apache(variable);
        assert_eq!(found.warnings, [told]);
        assert_eq!(found.properties, apache("").properties);
    }
    let quiet = "OTTLA_LOG=x\nOTTLA_STAY_ROOT=true\nOTTLA_SERVICE_HOST=h\nOTTLA_PORT=tcp://h:1\nOTTLA_PORT_9092_TCP=x\n\
        KAFKA_NUM_PARTITIONS=\nKAFKA_LOG_RETENTION_MS= \nKAFKA_AUTO_CREATE_TOPICS_ENABLE=";
    assert_eq!(apache(quiet), apache(""));
    assert_eq!(
        apache("KAFKA_SSL_ENDPOINT_IDENTIFICATION_ALGORITHM=\nKAFKA_COMPRESSION_TYPE=").properties["compression.type"],
        ""
    );
}

#[test]
fn a_volume_is_where_the_data_goes() {
    const VOLUME: &str = "9 8 254:0 /volumes/data/_data /var/lib/kafka/data rw - ext4 /dev/vda rw";
    let dirs = |environment: &str| settings(&texts(environment), Convention::Apache, None, VOLUME).properties;
    assert_eq!(dirs("KAFKA_BROKER_ID=1")["log.dirs"], "/var/lib/kafka/data");
    assert_eq!(dirs("KAFKA_CFG_NODE_ID=1")["log.dirs"], "/var/lib/kafka/data");
    assert_eq!(dirs("KAFKA_LOG_DIRS=/data")["log.dirs"], "/data");
    assert_eq!(dirs("KAFKA_LOG_DIR=/data").get("log.dirs"), None);
}

#[test]
fn the_file_is_read_back() {
    let settings = texts("a.b=x # y: \\z\nlog.dirs=/a,/b\nl___n=PLAINTEXT://:9092");
    assert_eq!(properties::parse(text(&settings).as_bytes()).unwrap(), settings);
    assert_eq!(directories(&texts("log.dirs=/a, /b\nmetadata.log.dir=/m")), ["/a", "/b", "/m"].map(PathBuf::from));
}

#[test]
fn log4js_variables_say_what_is_logged() {
    for (environment, directives) in [
        ("KAFKA_LOG4J_ROOT_LOGLEVEL=DEBUG", "debug"),
        ("KAFKA_LOG4J_ROOT_LOGLEVEL= warn ", "warn"),
        ("KAFKA_LOG4J_ROOT_LOGLEVEL=ALL", "trace"),
        ("KAFKA_LOG4J_ROOT_LOGLEVEL=FATAL", "off"),
        ("KAFKA_LOG4J_ROOT_LOGLEVEL=", ""),
        ("KAFKA_LOG4J_LOGGERS=kafka=WARN, org.apache.kafka = INFO,", "ottla=info"),
        (
            "KAFKA_LOG4J_ROOT_LOGLEVEL=ERROR\nKAFKA_LOG4J_LOGGERS=ottla.net.connection=TRACE,ottla::storage=OFF",
            "error,ottla::net::connection=trace,ottla::storage=off",
        ),
        ("KAFKA_TOOLS_LOG4J_LOGLEVEL=DEBUG", ""),
    ] {
        let found = apache(environment);
        assert_eq!((found.warnings, found.problems), (vec![], vec![]), "{environment}");
        assert!(!found.properties.keys().any(|key| key.contains("log4j")), "{environment}");
        let found = log_levels(&texts(environment)).directives;
        assert_eq!(found, directives, "{environment}");
        assert!(found.is_empty() || found.parse::<tracing_subscriber::filter::Targets>().is_ok(), "{found}");
    }
    for (environment, directives, warning) in [
        ("KAFKA_LOG4J_ROOT_LOGLEVEL=LOUD", "", "KAFKA_LOG4J_ROOT_LOGLEVEL=LOUD: no such level; there are OFF, "),
        ("KAFKA_LOG4J_ROOT_LOGLEVEL=INFO, stdout", "", "KAFKA_LOG4J_ROOT_LOGLEVEL=INFO, stdout: no such level; "),
        ("KAFKA_LOG4J_LOGGERS=kafka=LOUD,ottla=WARN", "ottla=warn", "KAFKA_LOG4J_LOGGERS: kafka=LOUD: no such level; "),
        ("KAFKA_LOG4J_LOGGERS=kafka", "", "KAFKA_LOG4J_LOGGERS: kafka: no such level; "),
        (
            "KAFKA_LOG4J_LOGGERS=kafka.controller=WARN,kafka=ERROR,state.change.logger=TRACE",
            "ottla=error",
            "KAFKA_LOG4J_LOGGERS: kafka.controller, state.change.logger: loggers of Java classes, ",
        ),
        ("KAFKA_LOG4J_OPTS=-Dlog4j.configuration=file:/x", "", "KAFKA_LOG4J_OPTS: not read, there is no log4j; "),
    ] {
        let found = apache(environment);
        assert_eq!(found.problems, [""; 0], "{environment}");
        let [told] = &found.warnings[..] else { panic!("{environment}: {:?}", found.warnings) };
        assert!(told.starts_with(warning), "{environment}: {told}");
        assert_eq!(log_levels(&texts(environment)).directives, directives, "{environment}");
    }
}
