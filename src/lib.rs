//! Ottla: a broker that speaks Kafka's wire protocol.
//!
//! The layers and their order are described in ARCHITECTURE.md and held by `tests/layers.rs`.
//!
//! Nothing here is `unsafe` but a few system calls of the storage layer that no safe wrapper exists for.

#![deny(unsafe_code)]

#[forbid(unsafe_code)]
pub mod cli;
#[forbid(unsafe_code)]
pub mod client;
#[forbid(unsafe_code)]
pub mod clock;
#[forbid(unsafe_code)]
pub mod config;
#[forbid(unsafe_code)]
pub mod controller;
#[forbid(unsafe_code)]
pub mod coordinator;
#[forbid(unsafe_code)]
pub mod metadata;
#[forbid(unsafe_code)]
pub mod net;
#[forbid(unsafe_code)]
pub mod protocol;
#[forbid(unsafe_code)]
pub mod quorum;
#[forbid(unsafe_code)]
pub mod record;
#[forbid(unsafe_code)]
pub mod replica;
#[forbid(unsafe_code)]
pub mod security;
#[forbid(unsafe_code)]
pub mod server;
pub mod storage;
#[forbid(unsafe_code)]
pub mod telemetry;
#[forbid(unsafe_code)]
pub mod types;
