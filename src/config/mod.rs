//! Every setting of the broker: where its value comes from, what it may be, and what it is now.
//!
//! The rest of the broker is handed typed structs ([`BrokerConfig`], [`TopicConfig`]); texts and keys stay in here. This
//! layer knows nothing of the wire, and of files nothing but the text of a properties file.

pub mod broker;
pub mod endpoint;
mod java;
pub mod keys;
pub mod properties;
pub mod support;
mod synonyms;
pub mod topic;
pub mod validator;
pub mod value;

pub use broker::{BrokerConfig, ConfigProblem, Loaded};
pub use endpoint::{Endpoint, SecurityProtocol};
pub use topic::TopicConfig;
