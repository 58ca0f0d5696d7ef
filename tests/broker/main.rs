//! A whole node in this process, on a port of its own and in a directory of its own, spoken to in raw frames: what clients may rely
//! on across all layers. One file per theme.
//!
//! Nothing here asserts how long something takes, for machines are slow and shared: what is expected is waited for.

mod broker;
mod client;
mod disk;
mod records;

mod deletion;
mod durability;
mod full_disk;
mod idempotence;
mod log_dirs;
mod long_poll;
mod node;
mod offsets;
mod pipelining;
mod sessions;
mod settings;
mod topics;
