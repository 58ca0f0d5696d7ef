//! The log on disk: Kafka's segment files, what is derived from them, and how they come back after a crash.
//!
//! Owns every byte under the log directories, all of it through [`disk::Disk`]. Everything here is synchronous and
//! blocks; the caller chooses the thread. Knows record batches and nothing of the wire, of replication or of requests.

pub mod background;
pub mod checkpoint;
pub mod cleaner;
#[cfg(test)]
mod crash_simulation;
pub mod dir_lock;
pub mod directory_name;
pub mod disk;
#[cfg(test)]
pub(crate) mod faulty_disk;
pub mod file_cache;
pub mod file_name;
#[cfg(test)]
pub(crate) mod fixture;
#[cfg(test)]
mod golden;
#[cfg(test)]
pub(crate) mod harm;
mod index_file;
mod known_bugs;
pub mod leader_epochs;
pub mod log;
pub mod manager;
pub mod meta_properties;
pub mod offset_index;
pub mod partition_metadata;
pub mod producer_state;
pub mod recovery;
pub mod retention;
mod scan;
mod segment;
#[cfg(test)]
pub(crate) mod simulated_disk;
pub mod slice;
pub mod throttler;
pub mod time_index;
pub mod txn_index;
pub mod validate;
pub mod verify;
pub mod work_queue;
