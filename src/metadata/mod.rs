//! The cluster's metadata: what is true of brokers, topics, partitions and configurations, and how it is kept.
//!
//! [`records`] are the KIP-631 records, [`image`] is the state they add up to, `log` is `__cluster_metadata-0` where
//! they stand in order, and `snapshot` the checkpoints that replace the log's head (KIP-630). Only the controller's
//! driver appends and applies; everybody else reads the published [`image::MetadataImage`] through a
//! [`image::MetadataHandle`].

pub mod batch;
#[cfg(test)]
pub(crate) mod fixtures;
pub mod image;
pub mod log;
pub mod records;
pub mod replay;
pub mod snapshot;
pub mod topic_name;
pub mod version;
