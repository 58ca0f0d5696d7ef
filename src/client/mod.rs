//! A thin client of a cluster, for the command line tools: what Java's admin client does, in so much as they need it.
//!
//! - [`Client`]: nodes, connections, metadata, retries.
//! - [`connection`]: one connection, on which requests may follow each other without waiting.
//! - [`ClientConfig`]: the settings of Kafka's clients, from a properties file and options.
//! - [`Error`]: what went wrong, as the Java exception that the tools print.
//! - [`Consumer`]: records of partitions, or of topics as a member of a group.
//! - [`Producer`]: records on their way to a topic.
//! - [`topics`], [`configs`], [`partitions`], [`offsets`], [`groups`], [`transactions`], [`description`]: requests that several tools need.
//!
//! It is built on the broker's own codec: librdkafka would weigh as much as the whole rest of the program, and speaks
//! fewer of the APIs that the tools need. It knows nothing of the broker, and nothing in the broker calls it.

pub mod cluster;
pub mod config;
pub mod configs;
pub mod connection;
pub mod consumer;
pub mod description;
pub mod error;
pub mod groups;
pub mod log;
mod murmur2;
pub mod offsets;
pub mod partitions;
pub mod producer;
pub mod topics;
pub mod transactions;

pub use cluster::{Client, Node, Target};
pub use config::ClientConfig;
pub use connection::Connection;
pub use consumer::{Consumed, Consumer, ConsumerConfig};
pub use error::Error;
pub use producer::{Outgoing, Position, Producer, ProducerConfig};

use std::future::Future;
use std::time::{SystemTime, UNIX_EPOCH};

use kafka_protocol::protocol::StrBytes;

/// Runs a tool's work on this thread. Nothing of it uses another one, but for the resolution of names.
pub fn block_on<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().max_blocking_threads(4).build();
    let runtime = runtime.expect("the system lets a process have an epoll descriptor");
    let outcome = tokio::task::LocalSet::new().block_on(&runtime, work);
    runtime.shutdown_background();
    outcome
}

/// A text as the codec's messages have it.
pub fn text(text: &str) -> StrBytes {
    StrBytes::from_string(text.to_owned())
}

/// Milliseconds since 1970, as records and messages have them.
pub fn epoch_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as i64
}
