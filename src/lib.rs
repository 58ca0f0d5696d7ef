//! Ottla: a broker that speaks Kafka's wire protocol.
//!
//! The layers, each of which imports only those above it in this list, are described in ARCHITECTURE.md and
//! held by `tests/layers.rs`.

pub mod cli;
pub mod clock;
pub mod config;
pub mod controller;
pub mod metadata;
pub mod net;
pub mod protocol;
pub mod quorum;
pub mod record;
pub mod replica;
pub mod server;
pub mod storage;
pub mod telemetry;
pub mod types;
