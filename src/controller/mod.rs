//! The controller: decides what becomes of the cluster's metadata.
//!
//! Each request is decided by a pure function of the image, the request, the time and randomness handed in; it gives
//! records to append and the response. `driver` is the shell around them. Others hold a [`ControllerHandle`].

pub mod brokers;
pub mod configs;
pub mod decision;
pub mod directories;
mod driver;
pub mod feature_updates;
pub mod features;
mod handle;
mod partition_change;
pub mod partitions;
pub mod placement;
pub mod producer_ids;
mod refusal;
pub mod settings;
pub mod start;
pub mod topic_deletion;
pub mod topics;

pub use driver::DriverError;
pub use handle::{ControllerError, ControllerHandle, Publisher};

#[cfg(test)]
mod tests;
