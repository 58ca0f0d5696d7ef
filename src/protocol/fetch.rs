//! Fetch (key 1), by hand: the request is read in a few allocations however many partitions it has, and the records of
//! the response are spliced in between its bytes, as [`Frame`]'s chunks, without being copied or even read.
//!
//! ```text
//! request   v4..14: replica_id i32 · max_wait_ms i32 · min_bytes i32 · max_bytes i32 · isolation_level i8
//!           v7+: session_id i32 · session_epoch i32
//!           [topics: topic string (v13+: topic_id uuid)
//!            [partitions: partition i32 · v9+: current_leader_epoch i32 · fetch_offset i64
//!             · v12+: last_fetched_epoch i32 · v5+: log_start_offset i64 · partition_max_bytes i32
//!             · v17+: tag 0 replica_directory_id uuid · v18+: tag 1 high_watermark i64]]
//!           v7+: [forgotten_topics_data: topic string (v13+: topic_id uuid) · [partitions i32]]
//!           v11+: rack_id string
//!           v12+: tag 0 cluster_id nullable string · v15+: tag 1 replica_state (replica_id i32 · replica_epoch i64)
//! response  throttle_time_ms i32 · v7+: error_code i16 · session_id i32
//!           [responses: topic string (v13+: topic_id uuid)
//!            [partitions: partition_index i32 · error_code i16 · high_watermark i64 · last_stable_offset i64
//!             · v5+: log_start_offset i64 · [aborted_transactions: producer_id i64 · first_offset i64]
//!             · v11+: preferred_read_replica i32 · records bytes
//!             · v12+: tag 0 diverging_epoch (epoch i32 · end_offset i64) · tag 1 current_leader (leader_id i32
//!               · leader_epoch i32) · tag 2 snapshot_id (end_offset i64 · epoch i32)]]
//!           v16+: tag 0 [node_endpoints: node_id i32 · host string · port i32 · rack nullable string]
//! ```
//! Flexible from v12 (KIP-482). v7 has sessions (KIP-227), v9 and v12 leader epochs (KIP-320, KIP-595), v11 fetching
//! from followers (KIP-392), v13 topic ids (KIP-516), v15 the replica's epoch (KIP-903), v16 leader hints (KIP-951),
//! v17 directory ids (KIP-853), v18 the follower's high watermark (KIP-1166).

mod request;
mod response;

pub use request::{FetchPartition, FetchRequest, FetchTopic, ForgottenTopic};
pub use response::{
    AbortedTransaction, EpochEndOffset, FetchRecords, FetchResponse, FetchResponsePartition, FetchResponseTopic,
    SnapshotId,
};

pub use super::leader::{LeaderIdAndEpoch, NodeEndpoint};

/// First version that names topics by their id.
pub const FIRST_TOPIC_ID_VERSION: i16 = 13;

#[cfg(test)]
mod tests;
