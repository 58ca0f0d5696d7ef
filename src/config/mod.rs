//! Every setting of the broker: where its value comes from, what it may be, and what it is now.
//!
//! The rest of the broker is handed typed structs ([`BrokerConfig`], [`TopicConfig`]); texts and keys stay in here.
//! This layer knows nothing of the wire, and of files nothing but the text of a properties file.

pub mod alter;
pub mod broker;
mod client_metrics;
pub mod describe;
pub mod dynamic;
pub mod endpoint;
mod group;
pub mod java;
pub mod keys;
pub mod loggers;
pub mod ottla;
pub mod properties;
#[cfg(test)]
mod recorded;
pub mod support;
mod synonyms;
pub mod topic;
pub mod validator;
pub mod value;

pub use broker::{BrokerConfig, ConfigProblem, ConsumerGroupMigrationPolicy, Loaded};
pub use dynamic::{ConfigMap, DynamicBrokerConfig};
pub use endpoint::{Endpoint, SecurityProtocol};
pub use group::ConsumerGroupConfig;
pub use java::{double_text, in_hash_order};
pub use ottla::OttlaConfig;
pub use topic::TopicConfig;
