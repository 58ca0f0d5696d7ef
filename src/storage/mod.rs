//! The log on disk.

pub mod validate;
