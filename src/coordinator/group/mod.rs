//! The group coordinator.

pub mod records;
