//! `TopicConfig`: the settings of one topic, typed and resolved.
//!
//! The storage layer is handed this struct and asks nothing else about configuration. `Default` gives Kafka 4.3's
//! defaults. Widths are Kafka's own (`INT` is `i32`, `LONG` is `i64`); a unit is the last word of the name.

use super::broker::BrokerConfig;
use super::dynamic::ConfigMap;
use super::keys::{Values, topic_keys};
use super::synonyms::topic_values;

/// What becomes of records that are no longer wanted (`cleanup.policy`). Neither is valid: the log then grows for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CleanupPolicy {
    /// Keep the last record of each key.
    pub compact: bool,
    /// Delete whole segments by `retention.ms` and `retention.bytes`.
    pub delete: bool,
}

/// The final compression of a topic (`compression.type`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompressionType {
    /// Keep what the producer chose.
    Producer,
    Uncompressed,
    Gzip,
    Snappy,
    Lz4,
    Zstd,
}

/// Whose clock a record's timestamp is read from (`message.timestamp.type`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimestampType {
    CreateTime,
    LogAppendTime,
}

/// The replicas whose replication is throttled (`leader.replication.throttled.replicas` and the follower's).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ThrottledReplicas {
    None,
    All,
    /// Pairs of partition and broker.
    Only(Vec<(i32, i32)>),
}

/// A topic's settings after topic overrides, dynamic and static broker settings and defaults were laid over each other.
#[derive(Clone, Debug, PartialEq)]
pub struct TopicConfig {
    pub cleanup_policy: CleanupPolicy,
    pub compression_type: CompressionType,
    /// 1..=9, or -1 for the codec's own default.
    pub compression_gzip_level: i32,
    pub compression_lz4_level: i32,
    pub compression_zstd_level: i32,
    /// How long a tombstone outlives its compaction.
    pub delete_retention_ms: i64,
    /// Between the renaming of a file to `.deleted` and its unlinking.
    pub file_delete_delay_ms: i64,
    /// fsync after this many records; `i64::MAX`: leave it to the system.
    pub flush_messages: i64,
    /// fsync after this time; `i64::MAX`: leave it to the system.
    pub flush_ms: i64,
    pub follower_replication_throttled_replicas: ThrottledReplicas,
    pub leader_replication_throttled_replicas: ThrottledReplicas,
    /// Bytes of log between two entries of the offset index.
    pub index_interval_bytes: i32,
    /// What is older must be compacted; so an active segment rolls at this age.
    pub max_compaction_lag_ms: i64,
    pub min_compaction_lag_ms: i64,
    pub min_cleanable_dirty_ratio: f64,
    /// Largest batch, as it stands in the log, that is accepted.
    pub max_message_bytes: i32,
    /// A CreateTime may be this much later than the broker's clock.
    pub message_timestamp_after_max_ms: i64,
    /// A CreateTime may be this much earlier than the broker's clock.
    pub message_timestamp_before_max_ms: i64,
    pub message_timestamp_type: TimestampType,
    pub min_insync_replicas: i32,
    pub preallocate: bool,
    /// Of one partition's log; -1: no limit.
    pub retention_bytes: i64,
    /// -1: no limit.
    pub retention_ms: i64,
    /// Size at which a segment rolls: `internal.segment.bytes` when set (tests use it to go below 1 MiB), else
    /// `segment.bytes`.
    pub segment_bytes: i32,
    /// Size of a segment's offset index (and time index) when preallocated; a full index rolls the segment.
    pub segment_index_bytes: i32,
    /// Random part taken off `segment_ms`, at most this long.
    pub segment_jitter_ms: i64,
    /// Age at which a segment rolls, but for what [`TopicConfig::max_segment_ms`] says.
    pub segment_ms: i64,
    pub unclean_leader_election_enable: bool,
    /// Tiered storage: -2 means "as `retention.bytes`".
    pub local_retention_bytes: i64,
    /// Tiered storage: -2 means "as `retention.ms`".
    pub local_retention_ms: i64,
    pub remote_storage_enable: bool,
    pub remote_log_copy_disable: bool,
    pub remote_log_delete_on_disable: bool,
}

impl TopicConfig {
    /// Age at which a segment rolls: `segment.ms`, or `max.compaction.lag.ms` if that is shorter and the log is compacted, since
    /// the active segment is never cleaned (KIP-354).
    pub fn max_segment_ms(&self) -> i64 {
        match self.cleanup_policy.compact && self.max_compaction_lag_ms > 0 {
            true => self.segment_ms.min(self.max_compaction_lag_ms),
            false => self.segment_ms,
        }
    }

    /// The settings of a topic of which `overrides` are set. What cannot be used (a newer Kafka may have written it)
    /// is left out and told, a line each.
    pub fn resolve(overrides: &ConfigMap, broker: &BrokerConfig) -> (TopicConfig, Vec<String>) {
        if overrides.is_empty() {
            return (broker.topic_defaults.clone(), Vec::new());
        }
        let mut complaints = Vec::new();
        let mut values = match topic_values(&broker.values) {
            Ok(values) => values,
            Err(error) => {
                complaints.push(error.to_string());
                return (broker.topic_defaults.clone(), complaints);
            }
        };
        for (name, text) in overrides {
            match topic_keys().get(name).map(|key| (key.name, key.parse(Some(text)))) {
                Some((name, Ok(value))) => values.set(name, value),
                Some((_, Err(error))) => complaints.push(error.to_string()),
                None => complaints.push(format!("Unknown topic config name: {name}")),
            }
        }
        (TopicConfig::from_values(&values), complaints)
    }

    /// From the values of all of a topic's keys.
    pub(super) fn from_values(v: &Values) -> TopicConfig {
        let policy = v.list("cleanup.policy");
        TopicConfig {
            cleanup_policy: CleanupPolicy {
                compact: policy.iter().any(|word| word == "compact"),
                delete: policy.iter().any(|word| word == "delete"),
            },
            compression_type: match v.string("compression.type") {
                "uncompressed" => CompressionType::Uncompressed,
                "gzip" => CompressionType::Gzip,
                "snappy" => CompressionType::Snappy,
                "lz4" => CompressionType::Lz4,
                "zstd" => CompressionType::Zstd,
                _ => CompressionType::Producer,
            },
            compression_gzip_level: v.int("compression.gzip.level"),
            compression_lz4_level: v.int("compression.lz4.level"),
            compression_zstd_level: v.int("compression.zstd.level"),
            delete_retention_ms: v.long("delete.retention.ms"),
            file_delete_delay_ms: v.long("file.delete.delay.ms"),
            flush_messages: v.long("flush.messages"),
            flush_ms: v.long("flush.ms"),
            follower_replication_throttled_replicas: ThrottledReplicas::read(
                v.list("follower.replication.throttled.replicas"),
            ),
            leader_replication_throttled_replicas: ThrottledReplicas::read(
                v.list("leader.replication.throttled.replicas"),
            ),
            index_interval_bytes: v.int("index.interval.bytes"),
            max_compaction_lag_ms: v.long("max.compaction.lag.ms"),
            min_compaction_lag_ms: v.long("min.compaction.lag.ms"),
            min_cleanable_dirty_ratio: v.double("min.cleanable.dirty.ratio"),
            max_message_bytes: v.int("max.message.bytes"),
            message_timestamp_after_max_ms: v.long("message.timestamp.after.max.ms"),
            message_timestamp_before_max_ms: v.long("message.timestamp.before.max.ms"),
            message_timestamp_type: match v.string("message.timestamp.type") {
                "LogAppendTime" => TimestampType::LogAppendTime,
                _ => TimestampType::CreateTime,
            },
            min_insync_replicas: v.int("min.insync.replicas"),
            preallocate: v.boolean("preallocate"),
            retention_bytes: v.long("retention.bytes"),
            retention_ms: v.long("retention.ms"),
            segment_bytes: v.optional_int("internal.segment.bytes").unwrap_or_else(|| v.int("segment.bytes")),
            segment_index_bytes: v.int("segment.index.bytes"),
            segment_jitter_ms: v.long("segment.jitter.ms"),
            segment_ms: v.long("segment.ms"),
            unclean_leader_election_enable: v.boolean("unclean.leader.election.enable"),
            local_retention_bytes: v.long("local.retention.bytes"),
            local_retention_ms: v.long("local.retention.ms"),
            remote_storage_enable: v.boolean("remote.storage.enable"),
            remote_log_copy_disable: v.boolean("remote.log.copy.disable"),
            remote_log_delete_on_disable: v.boolean("remote.log.delete.on.disable"),
        }
    }
}

impl ThrottledReplicas {
    fn read(items: &[String]) -> ThrottledReplicas {
        let replicas: Vec<(i32, i32)> = items
            .iter()
            .filter_map(|item| {
                let (partition, broker) = item.trim().split_once(':')?;
                Some((partition.parse().ok()?, broker.parse().ok()?))
            })
            .collect();
        match items {
            _ if items.iter().any(|item| item.trim() == "*") => ThrottledReplicas::All,
            _ if replicas.is_empty() => ThrottledReplicas::None,
            _ => ThrottledReplicas::Only(replicas),
        }
    }
}

impl Default for TopicConfig {
    fn default() -> TopicConfig {
        const DAY_MS: i64 = 24 * 60 * 60 * 1000;
        TopicConfig {
            cleanup_policy: CleanupPolicy { compact: false, delete: true },
            compression_type: CompressionType::Producer,
            compression_gzip_level: -1,
            compression_lz4_level: 9,
            compression_zstd_level: 3,
            delete_retention_ms: DAY_MS,
            file_delete_delay_ms: 60_000,
            flush_messages: i64::MAX,
            flush_ms: i64::MAX,
            follower_replication_throttled_replicas: ThrottledReplicas::None,
            leader_replication_throttled_replicas: ThrottledReplicas::None,
            index_interval_bytes: 4096,
            max_compaction_lag_ms: i64::MAX,
            min_compaction_lag_ms: 0,
            min_cleanable_dirty_ratio: 0.5,
            max_message_bytes: 1_048_588,
            message_timestamp_after_max_ms: 60 * 60 * 1000,
            message_timestamp_before_max_ms: i64::MAX,
            message_timestamp_type: TimestampType::CreateTime,
            min_insync_replicas: 1,
            preallocate: false,
            retention_bytes: -1,
            retention_ms: 7 * DAY_MS,
            segment_bytes: 1 << 30,
            segment_index_bytes: 10 << 20,
            segment_jitter_ms: 0,
            segment_ms: 7 * DAY_MS,
            unclean_leader_election_enable: false,
            local_retention_bytes: -2,
            local_retention_ms: -2,
            remote_storage_enable: false,
            remote_log_copy_disable: false,
            remote_log_delete_on_disable: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolve(overrides: &[(&str, &str)]) -> (TopicConfig, Vec<String>) {
        let overrides = overrides.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        TopicConfig::resolve(&overrides, &BrokerConfig::default())
    }

    #[test]
    fn nothing_set_gives_the_defaults() {
        assert_eq!(resolve(&[]), (TopicConfig::default(), Vec::new()));
        assert_eq!(TopicConfig::from_values(&topic_keys().parse(|_| None).unwrap()), TopicConfig::default());
    }

    #[test]
    fn overrides_are_read() {
        let (config, complaints) = resolve(&[
            ("cleanup.policy", "compact, delete"),
            ("compression.type", "zstd"),
            ("internal.segment.bytes", "512"),
            ("leader.replication.throttled.replicas", "0:1, 2:3"),
            ("follower.replication.throttled.replicas", "*"),
            ("message.timestamp.type", "LogAppendTime"),
            ("min.cleanable.dirty.ratio", "1e-1"),
            ("segment.bytes", "2097152"),
        ]);
        assert_eq!(complaints, [""; 0]);
        assert_eq!(config.cleanup_policy, CleanupPolicy { compact: true, delete: true });
        assert_eq!(config.compression_type, CompressionType::Zstd);
        assert_eq!(config.segment_bytes, 512, "the internal key is above the other");
        assert_eq!(config.leader_replication_throttled_replicas, ThrottledReplicas::Only(vec![(0, 1), (2, 3)]));
        assert_eq!(config.follower_replication_throttled_replicas, ThrottledReplicas::All);
        assert_eq!(config.message_timestamp_type, TimestampType::LogAppendTime);
        assert_eq!(config.min_cleanable_dirty_ratio, 0.1);
        let neither = resolve(&[("cleanup.policy", "")]).0.cleanup_policy;
        assert_eq!(neither, CleanupPolicy { compact: false, delete: false });
    }

    #[test]
    fn what_cannot_be_used_is_told_and_the_rest_is_used() {
        let (config, complaints) = resolve(&[("retention.ms", "x"), ("from.the.future", "1"), ("flush.messages", "1")]);
        assert_eq!((config.retention_ms, config.flush_messages), (604_800_000, 1));
        assert_eq!(complaints.len(), 2);
    }
}
