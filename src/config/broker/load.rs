//! From texts to a [`BrokerConfig`]: at the start, with every problem told at once, and for changes at run time.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::super::keys::{Values, broker_keys};
use super::super::ottla::{OttlaConfig, is_auto};
use super::super::support;
use super::super::synonyms::topic_values;
use super::super::topic::TopicConfig;
use super::super::validator::{parse_bootstrap_server, parse_voter};
use super::super::value::{ConfigError, ConfigType, ConfigValue};
use super::listeners::Listeners;
use super::rules::{self, REQUIREMENT};
use super::{BrokerConfig, CodecId, ConfigProblem, ConsumerGroupMigrationPolicy, Loaded, ProcessRoles, QuorumVoter};
use crate::types::BrokerId;

impl BrokerConfig {
    /// Reads what was given (a properties file and overrides, or nothing) and checks it as Kafka would.
    ///
    /// Without `process.roles`, which Kafka demands, the node is a cluster of its own: it gets what
    /// [`standalone_defaults`] says for all that was not given.
    pub fn load(given: BTreeMap<String, String>) -> Result<Loaded, Vec<ConfigProblem>> {
        let mut problems = Vec::new();
        let originals = with_node_id_synonyms(standalone_defaults(&given));
        let (values, mut wrong) = parse_all(&originals, &mut problems);
        for (key, text) in &given {
            if let Some(Err(ConfigError(message))) = support::parse_listener_override(key, text) {
                problems.push(ConfigProblem { keys: vec![key.clone()], message });
                wrong.insert(key.clone());
            }
        }
        for violation in rules::check(&values, &originals) {
            if !violation.keys.iter().any(|key| wrong.contains(key)) {
                let message = match violation.text.as_str() {
                    rules::DIVISION_BY_ZERO => "at least one is needed",
                    text => text.strip_prefix(REQUIREMENT).unwrap_or(text),
                };
                problems.push(ConfigProblem { message: message.to_owned(), keys: violation.keys });
            }
        }
        let listeners = Listeners::read(&values, originals.contains_key("listener.security.protocol.map"));
        let bound = listeners.as_ref().map_or(&[][..], |listeners| &listeners.bound);
        let support = support::check(&given, &values, bound);
        problems
            .extend(support.problems.into_iter().filter(|problem| !problem.keys.iter().any(|key| wrong.contains(key))));
        let ottla = OttlaConfig::read(&given).unwrap_or_else(|ConfigError(message)| {
            problems.push(ConfigProblem { keys: Vec::new(), message });
            OttlaConfig::default()
        });
        let topic_defaults = topic_values(&values).unwrap_or_else(|ConfigError(message)| {
            problems.push(ConfigProblem { keys: Vec::new(), message });
            Values::default()
        });
        match listeners {
            Ok(listeners) if problems.is_empty() => {
                let config = typed(Arc::new(originals), Arc::new(values), ottla, listeners, &topic_defaults);
                Ok(Loaded { config, warnings: support.warnings })
            }
            _ => Err(problems),
        }
    }

    /// Kafka's judgement of a whole set of settings: the first thing that is wrong with it, in Kafka's words.
    pub(in super::super) fn read(originals: BTreeMap<String, String>) -> Result<BrokerConfig, ConfigError> {
        let originals = with_node_id_synonyms(originals);
        let values = broker_keys().parse(|name| originals.get(name).map(String::as_str))?;
        if let Some(violation) = rules::check(&values, &originals).into_iter().next() {
            return Err(ConfigError(violation.text));
        }
        let listeners = Listeners::read(&values, originals.contains_key("listener.security.protocol.map"))?;
        let topic = topic_values(&values)?;
        let ottla = OttlaConfig::read(&originals)?;
        Ok(typed(Arc::new(originals), Arc::new(values), ottla, listeners, &topic))
    }
}

/// What `ottla` serves with when it is told nothing.
impl Default for BrokerConfig {
    fn default() -> BrokerConfig {
        match BrokerConfig::load(BTreeMap::new()) {
            Ok(loaded) => loaded.config,
            Err(problems) => panic!("the standalone defaults must be valid: {problems:?}"),
        }
    }
}

/// One node cannot hold three replicas of its internal topics.
pub const ONE_REPLICA: [(&str, &str); 5] = [
    ("offsets.topic.replication.factor", "1"),
    ("transaction.state.log.replication.factor", "1"),
    ("transaction.state.log.min.isr", "1"),
    ("share.coordinator.state.topic.replication.factor", "1"),
    ("share.coordinator.state.topic.min.isr", "1"),
];

/// Adds what makes a node a cluster of its own, unless `given` has `process.roles`.
///
/// Clients are told `localhost` for a listener
/// without an address, where Kafka would tell the machine's name: that name often means nothing outside of a
/// container.
fn standalone_defaults(given: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let mut all = given.clone();
    if given.contains_key("process.roles") {
        // Who has the addresses found out for each client need not say one, as long as there is some.
        if is_auto(given).unwrap_or(false) {
            advertise_localhost(&mut all);
        }
        return all;
    }
    let mut add = |key: &str, value: &str| {
        all.entry(key.to_owned()).or_insert_with(|| value.to_owned());
    };
    add("process.roles", "broker,controller");
    add("controller.listener.names", "CONTROLLER");
    ONE_REPLICA.iter().for_each(|(key, value)| add(key, value));
    if !given.contains_key("broker.id") {
        add("node.id", "1");
    }
    if !given.contains_key("log.dir") {
        add("log.dirs", "./ottla-data");
    }
    advertise_localhost(&mut all);
    all
}

/// Adds `advertised.listeners` if it is missing: each listener of a broker, and `localhost` for one without an address.
fn advertise_localhost(all: &mut BTreeMap<String, String>) {
    let controllers = all.get("controller.listener.names").map(|names| names.to_uppercase()).unwrap_or_default();
    let listeners = all.get("listeners").map_or("PLAINTEXT://:9092", String::as_str);
    let advertised: Vec<String> = listeners
        .split(',')
        .map(str::trim)
        .filter(|listener| {
            let name = listener.split(':').next().unwrap_or_default().to_uppercase();
            !controllers.split(',').any(|controller| controller.trim() == name)
        })
        .map(|listener| {
            let any = ["://0.0.0.0:", "://[::]:", "://:"].into_iter().find(|any| listener.contains(any));
            any.map_or_else(|| listener.to_owned(), |any| listener.replacen(any, "://localhost:", 1))
        })
        .collect();
    all.entry("advertised.listeners".to_owned()).or_insert_with(|| advertised.join(","));
}

/// `broker.id` and `node.id` stand for each other.
fn with_node_id_synonyms(mut originals: BTreeMap<String, String>) -> BTreeMap<String, String> {
    match (originals.get("broker.id").cloned(), originals.get("node.id").cloned()) {
        (Some(id), None) => originals.insert("node.id".to_owned(), id),
        (None, Some(id)) => originals.insert("broker.id".to_owned(), id),
        _ => None,
    };
    originals
}

/// Values of all keys, and which of them could not be read: these have their default, so that the rest can be judged.
fn parse_all(originals: &BTreeMap<String, String>, problems: &mut Vec<ConfigProblem>) -> (Values, BTreeSet<String>) {
    let (mut values, mut wrong) = (Values::default(), BTreeSet::new());
    for key in broker_keys().iter() {
        let text = originals.get(key.name).map(String::as_str);
        let value = key.parse(text).unwrap_or_else(|ConfigError(mut message)| {
            let is_number =
                matches!(key.config_type, ConfigType::Int | ConfigType::Short | ConfigType::Long | ConfigType::Double);
            if is_number {
                let allowed = key.validator.to_string();
                if !allowed.is_empty() {
                    message += &format!(" (allowed: {} {allowed})", key.config_type);
                }
            }
            problems.push(ConfigProblem { keys: vec![key.name.to_owned()], message });
            wrong.insert(key.name.to_owned());
            match (&key.default, key.name) {
                (Some(default), _) => default.clone(),
                // the keys without a default
                (None, "node.id") => Some(ConfigValue::Int(1)),
                (None, "process.roles") => Some(ConfigValue::List(vec!["broker".to_owned(), "controller".to_owned()])),
                (None, _) => Some(ConfigValue::List(vec!["CONTROLLER".to_owned()])),
            }
        });
        values.set(key.name, value);
    }
    // as a pair they would be blamed for each other
    if wrong.contains("node.id") || wrong.contains("broker.id") {
        wrong.extend(["node.id".to_owned(), "broker.id".to_owned()]);
    }
    (values, wrong)
}

/// What `log.retention.ms`, `.minutes` and `.hours` come to; -1: no limit.
pub(in super::super) fn retention_ms(v: &Values) -> i64 {
    let ms = v
        .optional_long("log.retention.ms")
        .or_else(|| Some(i64::from(v.optional_int("log.retention.minutes")?) * 60_000))
        .unwrap_or_else(|| i64::from(v.int("log.retention.hours")) * 3_600_000);
    ms.max(-1)
}

fn migration_policy(text: &str) -> ConsumerGroupMigrationPolicy {
    let is = |policies: &[&str]| policies.iter().any(|policy| policy.eq_ignore_ascii_case(text));
    ConsumerGroupMigrationPolicy {
        upgrade: is(&["upgrade", "bidirectional"]),
        downgrade: is(&["downgrade", "bidirectional"]),
    }
}

fn typed(
    originals: Arc<BTreeMap<String, String>>,
    values: Arc<Values>,
    ottla: OttlaConfig,
    listeners: Listeners,
    topic_defaults: &Values,
) -> BrokerConfig {
    let v = &*values;
    let voters = v.list("controller.quorum.voters").iter().filter_map(|entry| parse_voter(entry).ok());
    let servers = v.list("controller.quorum.bootstrap.servers").iter();
    let inter_broker = listeners.inter_broker(v, originals.contains_key("security.inter.broker.protocol"));
    let log_dirs = v.optional_list("log.dirs").unwrap_or_else(|| v.list("log.dir"));
    let max_connections_by_listener = listeners.own_ints(&originals, "max.connections");
    let max_connection_creation_rate_by_listener = listeners.own_ints(&originals, "max.connection.creation.rate");
    BrokerConfig {
        node_id: BrokerId(v.int("node.id")),
        process_roles: ProcessRoles {
            broker: rules::has_role(v, "broker"),
            controller: rules::has_role(v, "controller"),
        },
        broker_rack: v.optional_string("broker.rack").map(str::to_owned),
        advertised_listeners: listeners.advertised_broker(),
        advertised_controller_listeners: listeners.advertised_controller(),
        listeners: listeners.bound,
        listener_security_protocol_map: listeners.protocols,
        controller_listener_names: listeners.controller_names,
        inter_broker_listener_name: inter_broker.map(|(name, _)| name).unwrap_or_default(),
        controller_quorum_voters: voters.map(|(id, host, port)| QuorumVoter { id: BrokerId(id), host, port }).collect(),
        controller_quorum_bootstrap_servers: servers.filter_map(|entry| parse_bootstrap_server(entry).ok()).collect(),
        controller_quorum_election_timeout_ms: v.int("controller.quorum.election.timeout.ms"),
        controller_quorum_election_backoff_max_ms: v.int("controller.quorum.election.backoff.max.ms"),
        controller_quorum_fetch_timeout_ms: v.int("controller.quorum.fetch.timeout.ms"),
        controller_quorum_append_linger_ms: v.int("controller.quorum.append.linger.ms"),
        controller_quorum_request_timeout_ms: v.int("controller.quorum.request.timeout.ms"),
        controller_quorum_retry_backoff_ms: v.int("controller.quorum.retry.backoff.ms"),
        controller_quorum_fetch_max_bytes: v.int("controller.quorum.fetch.max.bytes"),
        controller_quorum_fetch_snapshot_max_bytes: v.int("controller.quorum.fetch.snapshot.max.bytes"),
        broker_heartbeat_interval_ms: v.int("broker.heartbeat.interval.ms"),
        broker_session_timeout_ms: v.int("broker.session.timeout.ms"),
        initial_broker_registration_timeout_ms: v.int("initial.broker.registration.timeout.ms"),
        controlled_shutdown_enable: v.boolean("controlled.shutdown.enable"),
        request_timeout_ms: v.int("request.timeout.ms"),

        socket_send_buffer_bytes: v.int("socket.send.buffer.bytes"),
        socket_receive_buffer_bytes: v.int("socket.receive.buffer.bytes"),
        socket_request_max_bytes: v.int("socket.request.max.bytes"),
        socket_listen_backlog_size: v.int("socket.listen.backlog.size"),
        connections_max_idle_ms: v.long("connections.max.idle.ms"),
        max_connections: v.int("max.connections"),
        max_connections_by_listener,
        max_connections_per_ip: v.int("max.connections.per.ip"),
        max_connections_per_ip_overrides: rules::per_ip_overrides(v).unwrap_or_default(),
        max_connection_creation_rate: v.int("max.connection.creation.rate"),
        max_connection_creation_rate_by_listener,
        num_network_threads: v.int("num.network.threads"),
        num_io_threads: v.int("num.io.threads"),
        background_threads: v.int("background.threads"),
        queued_max_requests: v.int("queued.max.requests"),
        queued_max_request_bytes: v.long("queued.max.request.bytes"),
        max_request_partition_size_limit: v.int("max.request.partition.size.limit"),

        metadata_log_dir: v.optional_string("metadata.log.dir").unwrap_or(&log_dirs[0]).into(),
        log_dirs: log_dirs.iter().map(Into::into).collect(),
        cordoned_log_dirs: v.list("cordoned.log.dirs").to_vec(),
        num_recovery_threads_per_data_dir: v.int("num.recovery.threads.per.data.dir"),
        num_replica_alter_log_dirs_threads: v.optional_int("num.replica.alter.log.dirs.threads"),
        log_dir_failure_timeout_ms: v.long("log.dir.failure.timeout.ms"),
        log_flush_offset_checkpoint_interval_ms: v.int("log.flush.offset.checkpoint.interval.ms"),
        log_flush_start_offset_checkpoint_interval_ms: v.int("log.flush.start.offset.checkpoint.interval.ms"),
        log_flush_scheduler_interval_ms: v.long("log.flush.scheduler.interval.ms"),
        log_initial_task_delay_ms: v.long("log.initial.task.delay.ms"),
        log_retention_check_interval_ms: v.long("log.retention.check.interval.ms"),
        producer_id_expiration_ms: v.int("producer.id.expiration.ms"),
        producer_id_expiration_check_interval_ms: v.int("producer.id.expiration.check.interval.ms"),
        log_cleaner_enable: v.boolean("log.cleaner.enable"),
        log_cleaner_threads: v.int("log.cleaner.threads"),
        log_cleaner_io_max_bytes_per_second: v.double("log.cleaner.io.max.bytes.per.second"),
        log_cleaner_dedupe_buffer_size: v.long("log.cleaner.dedupe.buffer.size"),
        log_cleaner_io_buffer_size: v.int("log.cleaner.io.buffer.size"),
        log_cleaner_io_buffer_load_factor: v.double("log.cleaner.io.buffer.load.factor"),
        log_cleaner_backoff_ms: v.long("log.cleaner.backoff.ms"),
        topic_defaults: TopicConfig::from_values(topic_defaults),

        auto_create_topics_enable: v.boolean("auto.create.topics.enable"),
        delete_topic_enable: v.boolean("delete.topic.enable"),
        num_partitions: v.int("num.partitions"),
        default_replication_factor: v.int("default.replication.factor"),
        auto_leader_rebalance_enable: v.boolean("auto.leader.rebalance.enable"),
        leader_imbalance_check_interval_seconds: v.long("leader.imbalance.check.interval.seconds"),
        unclean_leader_election_interval_ms: v.long("unclean.leader.election.interval.ms"),

        fetch_max_bytes: v.int("fetch.max.bytes"),
        max_incremental_fetch_session_cache_slots: v.int("max.incremental.fetch.session.cache.slots"),
        num_replica_fetchers: v.int("num.replica.fetchers"),
        replica_fetch_backoff_ms: v.int("replica.fetch.backoff.ms"),
        replica_fetch_max_bytes: v.int("replica.fetch.max.bytes"),
        replica_fetch_min_bytes: v.int("replica.fetch.min.bytes"),
        replica_fetch_response_max_bytes: v.int("replica.fetch.response.max.bytes"),
        replica_fetch_wait_max_ms: v.int("replica.fetch.wait.max.ms"),
        replica_high_watermark_checkpoint_interval_ms: v.long("replica.high.watermark.checkpoint.interval.ms"),
        replica_lag_time_max_ms: v.long("replica.lag.time.max.ms"),
        replica_socket_receive_buffer_bytes: v.int("replica.socket.receive.buffer.bytes"),
        replica_socket_timeout_ms: v.int("replica.socket.timeout.ms"),

        metadata_log_segment_bytes: v
            .optional_int("internal.metadata.log.segment.bytes")
            .unwrap_or_else(|| v.int("metadata.log.segment.bytes")),
        metadata_log_segment_ms: v.long("metadata.log.segment.ms"),
        metadata_log_max_record_bytes_between_snapshots: v.long("metadata.log.max.record.bytes.between.snapshots"),
        metadata_log_max_snapshot_interval_ms: v.long("metadata.log.max.snapshot.interval.ms"),
        metadata_max_retention_bytes: v.long("metadata.max.retention.bytes"),
        metadata_max_retention_ms: v.long("metadata.max.retention.ms"),
        metadata_max_idle_interval_ms: v.int("metadata.max.idle.interval.ms"),

        offset_metadata_max_bytes: v.int("offset.metadata.max.bytes"),
        offsets_commit_timeout_ms: v.int("offsets.commit.timeout.ms"),
        offsets_load_buffer_size: v.int("offsets.load.buffer.size"),
        offsets_retention_check_interval_ms: v.long("offsets.retention.check.interval.ms"),
        offsets_retention_minutes: v.int("offsets.retention.minutes"),
        offsets_topic_compression_codec: CodecId(v.int("offsets.topic.compression.codec")),
        offsets_topic_num_partitions: v.int("offsets.topic.num.partitions"),
        offsets_topic_replication_factor: v.short("offsets.topic.replication.factor"),
        offsets_topic_segment_bytes: v.int("offsets.topic.segment.bytes"),
        group_initial_rebalance_delay_ms: v.int("group.initial.rebalance.delay.ms"),
        group_max_session_timeout_ms: v.int("group.max.session.timeout.ms"),
        group_min_session_timeout_ms: v.int("group.min.session.timeout.ms"),
        group_max_size: v.int("group.max.size"),
        group_coordinator_rebalance_protocols: v.list("group.coordinator.rebalance.protocols").to_vec(),
        group_consumer_session_timeout_ms: v.int("group.consumer.session.timeout.ms"),
        group_consumer_min_session_timeout_ms: v.int("group.consumer.min.session.timeout.ms"),
        group_consumer_max_session_timeout_ms: v.int("group.consumer.max.session.timeout.ms"),
        group_consumer_heartbeat_interval_ms: v.int("group.consumer.heartbeat.interval.ms"),
        group_consumer_min_heartbeat_interval_ms: v.int("group.consumer.min.heartbeat.interval.ms"),
        group_consumer_max_heartbeat_interval_ms: v.int("group.consumer.max.heartbeat.interval.ms"),
        group_consumer_max_size: v.int("group.consumer.max.size"),
        group_consumer_assignors: v.list("group.consumer.assignors").to_vec(),
        group_consumer_migration_policy: migration_policy(v.string("group.consumer.migration.policy")),
        group_consumer_assignment_interval_ms: v.int("group.consumer.assignment.interval.ms"),
        group_consumer_min_assignment_interval_ms: v.int("group.consumer.min.assignment.interval.ms"),
        group_consumer_max_assignment_interval_ms: v.int("group.consumer.max.assignment.interval.ms"),
        group_consumer_regex_refresh_interval_ms: v.int("group.consumer.regex.refresh.interval.ms"),

        transaction_abort_timed_out_transaction_cleanup_interval_ms: v
            .int("transaction.abort.timed.out.transaction.cleanup.interval.ms"),
        transaction_max_timeout_ms: v.int("transaction.max.timeout.ms"),
        transaction_partition_verification_enable: v.boolean("transaction.partition.verification.enable"),
        transaction_remove_expired_transaction_cleanup_interval_ms: v
            .int("transaction.remove.expired.transaction.cleanup.interval.ms"),
        transaction_state_log_load_buffer_size: v.int("transaction.state.log.load.buffer.size"),
        transaction_state_log_min_isr: v.int("transaction.state.log.min.isr"),
        transaction_state_log_num_partitions: v.int("transaction.state.log.num.partitions"),
        transaction_state_log_replication_factor: v.short("transaction.state.log.replication.factor"),
        transaction_state_log_segment_bytes: v.int("transaction.state.log.segment.bytes"),
        transactional_id_expiration_ms: v.int("transactional.id.expiration.ms"),
        add_partitions_to_txn_retry_backoff_ms: v.int("add.partitions.to.txn.retry.backoff.ms"),
        add_partitions_to_txn_retry_backoff_max_ms: v.int("add.partitions.to.txn.retry.backoff.max.ms"),

        originals,
        values,
        ottla,
    }
}
