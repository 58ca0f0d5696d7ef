//! `BrokerConfig`: the settings of this node, typed, as far as the broker uses them.
//!
//! Field names are the keys with `.` written `_`. `Default` is what `ottla` alone serves with; a properties file gets
//! Kafka's defaults for what it leaves out.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use super::endpoint::{Endpoint, SecurityProtocol};
use super::keys::{Values, broker_keys};
use super::ottla::OttlaConfig;
use super::topic::TopicConfig;
use crate::types::BrokerId;

mod listeners;
mod load;
mod rules;

pub use load::ONE_REPLICA;
pub(super) use load::retention_ms;

/// What stands in the way of a start: one line for a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigProblem {
    pub keys: Vec<String>,
    /// Names key, value and what is allowed.
    pub message: String,
}

impl fmt::Display for ConfigProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.keys.first() {
            Some(key) if !self.keys.iter().any(|key| self.message.contains(key)) => {
                write!(f, "{key}: {}", self.message)
            }
            _ => f.write_str(&self.message),
        }
    }
}

/// A configuration to start with, and what a person should know of it.
#[derive(Debug)]
pub struct Loaded {
    pub config: BrokerConfig,
    /// One line for each key that is unknown or has no effect.
    pub warnings: Vec<String>,
}

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

/// `group.consumer.migration.policy`: which groups change their protocol while they have members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConsumerGroupMigrationPolicy {
    /// From classic to consumer.
    pub upgrade: bool,
    /// From consumer to classic.
    pub downgrade: bool,
}

/// The settings of this node.
#[derive(Clone, PartialEq)]
pub struct BrokerConfig {
    /// The texts as they were given, those of all keys that `broker.id` and `node.id` stand for, and unknown ones.
    /// Descriptions are made from these.
    pub originals: Arc<BTreeMap<String, String>>,
    /// Each key's value, for those that have no field of their own.
    pub values: Arc<Values>,
    pub ottla: OttlaConfig,

    // The node and its neighbours.
    pub node_id: BrokerId,
    pub process_roles: ProcessRoles,
    pub broker_rack: Option<String>,
    /// All that are bound, those of the controller role too.
    pub listeners: Vec<Endpoint>,
    /// What clients are told; never a controller's listener.
    pub advertised_listeners: Vec<Endpoint>,
    /// What other nodes are told of the controller on this one; empty for a lone node that has no listener for it.
    pub advertised_controller_listeners: Vec<Endpoint>,
    pub listener_security_protocol_map: BTreeMap<String, SecurityProtocol>,
    /// As written. A lone node need not have any of them in `listeners`.
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
    /// `listener.name.<name>.max.connection.creation.rate`, by upper-case listener name.
    pub max_connection_creation_rate_by_listener: BTreeMap<String, i32>,
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
    /// Log directories that take no new replicas, or `*` (KIP-1066).
    pub cordoned_log_dirs: Vec<String>,
    pub num_recovery_threads_per_data_dir: i32,
    /// `None`: as many as there are log directories.
    pub num_replica_alter_log_dirs_threads: Option<i32>,
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
    pub group_coordinator_rebalance_protocols: Vec<String>,
    pub group_consumer_session_timeout_ms: i32,
    pub group_consumer_min_session_timeout_ms: i32,
    pub group_consumer_max_session_timeout_ms: i32,
    pub group_consumer_heartbeat_interval_ms: i32,
    pub group_consumer_min_heartbeat_interval_ms: i32,
    pub group_consumer_max_heartbeat_interval_ms: i32,
    pub group_consumer_max_size: i32,
    /// By name, the default first.
    pub group_consumer_assignors: Vec<String>,
    pub group_consumer_migration_policy: ConsumerGroupMigrationPolicy,
    pub group_consumer_assignment_interval_ms: i32,
    pub group_consumer_min_assignment_interval_ms: i32,
    pub group_consumer_max_assignment_interval_ms: i32,
    pub group_consumer_regex_refresh_interval_ms: i32,

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
    pub add_partitions_to_txn_retry_backoff_ms: i32,
    pub add_partitions_to_txn_retry_backoff_max_ms: i32,
}

/// What was given, without secrets.
impl fmt::Debug for BrokerConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = self.originals.iter().map(|(name, text)| {
            // of an unknown key nobody knows whether it is a secret
            let secret = broker_keys().get(name).is_none_or(|key| key.is_sensitive());
            (name, if secret { "[hidden]" } else { text.as_str() })
        });
        f.debug_map().entries(shown).finish()
    }
}

#[cfg(test)]
mod tests;
