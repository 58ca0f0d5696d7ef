//! `BrokerConfig`: the settings of this node, typed, as far as the broker uses them.
//!
//! Field names are the keys with `.` written `_`. `Default` is what `ottla` alone serves with; a properties file gets
//! Kafka's defaults for what it leaves out.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::endpoint::{Endpoint, SecurityProtocol};
use super::topic::TopicConfig;
use crate::types::BrokerId;

/// `process.roles`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessRoles {
    pub broker: bool,
    pub controller: bool,
}

/// One entry of `controller.quorum.voters`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuorumVoter {
    pub id: BrokerId,
    pub host: String,
    pub port: u16,
}

/// `compression.codec` of an internal topic: the codec's id, 0 (none) to 4 (zstd).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CodecId(pub i32);

/// The settings of this node.
#[derive(Clone, Debug, PartialEq)]
pub struct BrokerConfig {
    // The node and its neighbours.
    pub node_id: BrokerId,
    pub process_roles: ProcessRoles,
    pub broker_rack: Option<String>,
    /// All that are bound, those of the controller role too.
    pub listeners: Vec<Endpoint>,
    /// What clients are told; never a controller's listener.
    pub advertised_listeners: Vec<Endpoint>,
    pub listener_security_protocol_map: BTreeMap<String, SecurityProtocol>,
    /// Upper case. A lone node need not have any of them in `listeners`.
    pub controller_listener_names: Vec<String>,
    pub inter_broker_listener_name: String,
    pub controller_quorum_voters: Vec<QuorumVoter>,
    /// Host and port.
    pub controller_quorum_bootstrap_servers: Vec<(String, u16)>,
    pub controller_quorum_election_timeout_ms: i32,
    pub controller_quorum_election_backoff_max_ms: i32,
    pub controller_quorum_fetch_timeout_ms: i32,
    pub controller_quorum_append_linger_ms: i32,
    pub controller_quorum_request_timeout_ms: i32,
    pub controller_quorum_retry_backoff_ms: i32,
    pub controller_quorum_fetch_max_bytes: i32,
    pub controller_quorum_fetch_snapshot_max_bytes: i32,
    pub broker_heartbeat_interval_ms: i32,
    pub broker_session_timeout_ms: i32,
    pub initial_broker_registration_timeout_ms: i32,
    pub controlled_shutdown_enable: bool,
    pub request_timeout_ms: i32,

    // Connections.
    /// -1: leave it to the system.
    pub socket_send_buffer_bytes: i32,
    /// -1: leave it to the system.
    pub socket_receive_buffer_bytes: i32,
    pub socket_request_max_bytes: i32,
    pub socket_listen_backlog_size: i32,
    /// Negative: never.
    pub connections_max_idle_ms: i64,
    pub max_connections: i32,
    /// `listener.name.<name>.max.connections`, by upper-case listener name.
    pub max_connections_by_listener: BTreeMap<String, i32>,
    pub max_connections_per_ip: i32,
    /// Host name or address to its own limit.
    pub max_connections_per_ip_overrides: BTreeMap<String, i32>,
    pub max_connection_creation_rate: i32,
    pub num_network_threads: i32,
    pub num_io_threads: i32,
    pub background_threads: i32,
    pub queued_max_requests: i32,
    /// -1: no limit.
    pub queued_max_request_bytes: i64,
    pub max_request_partition_size_limit: i32,

    // Log directories and the logs in them.
    pub log_dirs: Vec<PathBuf>,
    pub metadata_log_dir: PathBuf,
    pub num_recovery_threads_per_data_dir: i32,
    pub log_dir_failure_timeout_ms: i64,
    pub log_flush_offset_checkpoint_interval_ms: i32,
    pub log_flush_start_offset_checkpoint_interval_ms: i32,
    pub log_flush_scheduler_interval_ms: i64,
    pub log_initial_task_delay_ms: i64,
    pub log_retention_check_interval_ms: i64,
    pub producer_id_expiration_ms: i32,
    pub producer_id_expiration_check_interval_ms: i32,
    pub log_cleaner_enable: bool,
    pub log_cleaner_threads: i32,
    pub log_cleaner_io_max_bytes_per_second: f64,
    pub log_cleaner_dedupe_buffer_size: i64,
    pub log_cleaner_io_buffer_size: i32,
    pub log_cleaner_io_buffer_load_factor: f64,
    pub log_cleaner_backoff_ms: i64,
    /// What a topic without settings of its own has.
    pub topic_defaults: TopicConfig,

    // Topics.
    pub auto_create_topics_enable: bool,
    pub delete_topic_enable: bool,
    pub num_partitions: i32,
    pub default_replication_factor: i32,
    pub auto_leader_rebalance_enable: bool,
    pub leader_imbalance_check_interval_seconds: i64,
    pub unclean_leader_election_interval_ms: i64,

    // Fetch, replication.
    pub fetch_max_bytes: i32,
    pub max_incremental_fetch_session_cache_slots: i32,
    pub num_replica_fetchers: i32,
    pub replica_fetch_backoff_ms: i32,
    pub replica_fetch_max_bytes: i32,
    pub replica_fetch_min_bytes: i32,
    pub replica_fetch_response_max_bytes: i32,
    pub replica_fetch_wait_max_ms: i32,
    pub replica_high_watermark_checkpoint_interval_ms: i64,
    pub replica_lag_time_max_ms: i64,
    pub replica_socket_receive_buffer_bytes: i32,
    pub replica_socket_timeout_ms: i32,

    // The metadata log.
    pub metadata_log_segment_bytes: i32,
    pub metadata_log_segment_ms: i64,
    pub metadata_log_max_record_bytes_between_snapshots: i64,
    pub metadata_log_max_snapshot_interval_ms: i64,
    pub metadata_max_retention_bytes: i64,
    pub metadata_max_retention_ms: i64,
    pub metadata_max_idle_interval_ms: i32,

    // Groups.
    pub offset_metadata_max_bytes: i32,
    pub offsets_commit_timeout_ms: i32,
    pub offsets_load_buffer_size: i32,
    pub offsets_retention_check_interval_ms: i64,
    pub offsets_retention_minutes: i32,
    pub offsets_topic_compression_codec: CodecId,
    pub offsets_topic_num_partitions: i32,
    pub offsets_topic_replication_factor: i16,
    pub offsets_topic_segment_bytes: i32,
    pub group_initial_rebalance_delay_ms: i32,
    pub group_max_session_timeout_ms: i32,
    pub group_min_session_timeout_ms: i32,
    pub group_max_size: i32,

    // Transactions.
    pub transaction_abort_timed_out_transaction_cleanup_interval_ms: i32,
    pub transaction_max_timeout_ms: i32,
    pub transaction_partition_verification_enable: bool,
    pub transaction_remove_expired_transaction_cleanup_interval_ms: i32,
    pub transaction_state_log_load_buffer_size: i32,
    pub transaction_state_log_min_isr: i32,
    pub transaction_state_log_num_partitions: i32,
    pub transaction_state_log_replication_factor: i16,
    pub transaction_state_log_segment_bytes: i32,
    pub transactional_id_expiration_ms: i32,
}

impl Default for BrokerConfig {
    fn default() -> BrokerConfig {
        let plaintext = |host: &str| Endpoint {
            listener_name: "PLAINTEXT".to_owned(),
            security_protocol: SecurityProtocol::Plaintext,
            host: host.to_owned(),
            port: 9092,
        };
        BrokerConfig {
            node_id: BrokerId(1),
            process_roles: ProcessRoles { broker: true, controller: true },
            broker_rack: None,
            listeners: vec![plaintext("")],
            advertised_listeners: vec![plaintext("localhost")],
            listener_security_protocol_map: ["PLAINTEXT", "CONTROLLER"]
                .map(|name| (name.to_owned(), SecurityProtocol::Plaintext))
                .into(),
            controller_listener_names: vec!["CONTROLLER".to_owned()],
            inter_broker_listener_name: "PLAINTEXT".to_owned(),
            controller_quorum_voters: Vec::new(),
            controller_quorum_bootstrap_servers: Vec::new(),
            controller_quorum_election_timeout_ms: 1000,
            controller_quorum_election_backoff_max_ms: 1000,
            controller_quorum_fetch_timeout_ms: 2000,
            controller_quorum_append_linger_ms: 25,
            controller_quorum_request_timeout_ms: 2000,
            controller_quorum_retry_backoff_ms: 20,
            controller_quorum_fetch_max_bytes: 1 << 20,
            controller_quorum_fetch_snapshot_max_bytes: 1 << 20,
            broker_heartbeat_interval_ms: 2000,
            broker_session_timeout_ms: 9000,
            initial_broker_registration_timeout_ms: 60_000,
            controlled_shutdown_enable: true,
            request_timeout_ms: 30_000,
            socket_send_buffer_bytes: 100 << 10,
            socket_receive_buffer_bytes: 100 << 10,
            socket_request_max_bytes: 100 << 20,
            socket_listen_backlog_size: 50,
            connections_max_idle_ms: 600_000,
            max_connections: i32::MAX,
            max_connections_by_listener: BTreeMap::new(),
            max_connections_per_ip: i32::MAX,
            max_connections_per_ip_overrides: BTreeMap::new(),
            max_connection_creation_rate: i32::MAX,
            num_network_threads: 3,
            num_io_threads: 8,
            background_threads: 10,
            queued_max_requests: 500,
            queued_max_request_bytes: -1,
            max_request_partition_size_limit: 2000,
            log_dirs: vec!["./ottla-data".into()],
            metadata_log_dir: "./ottla-data".into(),
            num_recovery_threads_per_data_dir: 2,
            log_dir_failure_timeout_ms: 30_000,
            log_flush_offset_checkpoint_interval_ms: 60_000,
            log_flush_start_offset_checkpoint_interval_ms: 60_000,
            log_flush_scheduler_interval_ms: i64::MAX,
            log_initial_task_delay_ms: 30_000,
            log_retention_check_interval_ms: 300_000,
            producer_id_expiration_ms: 86_400_000,
            producer_id_expiration_check_interval_ms: 600_000,
            log_cleaner_enable: true,
            log_cleaner_threads: 1,
            log_cleaner_io_max_bytes_per_second: f64::MAX,
            log_cleaner_dedupe_buffer_size: 128 << 20,
            log_cleaner_io_buffer_size: 512 << 10,
            log_cleaner_io_buffer_load_factor: 0.9,
            log_cleaner_backoff_ms: 15_000,
            topic_defaults: TopicConfig::default(),
            auto_create_topics_enable: true,
            delete_topic_enable: true,
            num_partitions: 1,
            default_replication_factor: 1,
            auto_leader_rebalance_enable: true,
            leader_imbalance_check_interval_seconds: 300,
            unclean_leader_election_interval_ms: 300_000,
            fetch_max_bytes: 55 << 20,
            max_incremental_fetch_session_cache_slots: 1000,
            num_replica_fetchers: 1,
            replica_fetch_backoff_ms: 1000,
            replica_fetch_max_bytes: 1 << 20,
            replica_fetch_min_bytes: 1,
            replica_fetch_response_max_bytes: 10 << 20,
            replica_fetch_wait_max_ms: 500,
            replica_high_watermark_checkpoint_interval_ms: 5000,
            replica_lag_time_max_ms: 30_000,
            replica_socket_receive_buffer_bytes: 64 << 10,
            replica_socket_timeout_ms: 30_000,
            metadata_log_segment_bytes: 1 << 30,
            metadata_log_segment_ms: 604_800_000,
            metadata_log_max_record_bytes_between_snapshots: 20 << 20,
            metadata_log_max_snapshot_interval_ms: 3_600_000,
            metadata_max_retention_bytes: 100 << 20,
            metadata_max_retention_ms: 604_800_000,
            metadata_max_idle_interval_ms: 500,
            offset_metadata_max_bytes: 4096,
            offsets_commit_timeout_ms: 5000,
            offsets_load_buffer_size: 5 << 20,
            offsets_retention_check_interval_ms: 600_000,
            offsets_retention_minutes: 7 * 24 * 60,
            offsets_topic_compression_codec: CodecId(0),
            offsets_topic_num_partitions: 50,
            offsets_topic_replication_factor: 1,
            offsets_topic_segment_bytes: 100 << 20,
            group_initial_rebalance_delay_ms: 3000,
            group_max_session_timeout_ms: 1_800_000,
            group_min_session_timeout_ms: 6000,
            group_max_size: i32::MAX,
            transaction_abort_timed_out_transaction_cleanup_interval_ms: 10_000,
            transaction_max_timeout_ms: 900_000,
            transaction_partition_verification_enable: true,
            transaction_remove_expired_transaction_cleanup_interval_ms: 3_600_000,
            transaction_state_log_load_buffer_size: 5 << 20,
            transaction_state_log_min_isr: 1,
            transaction_state_log_num_partitions: 50,
            transaction_state_log_replication_factor: 1,
            transaction_state_log_segment_bytes: 100 << 20,
            transactional_id_expiration_ms: 604_800_000,
        }
    }
}
