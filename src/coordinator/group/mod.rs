//! The group coordinator.

pub mod assignor;
pub mod records;
