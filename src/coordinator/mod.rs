//! Coordinators: who owns what in a group, and which transactions are open.
//!
//! A coordinator is a state machine for each partition of an internal topic, whose log holds all that the machine must
//! remember: a *shard*. [`group`] is the shard of `__consumer_offsets`. Shards decide, without a clock, a lock, a disk
//! or chance of their own.

pub mod group;
pub mod timers;
pub mod transaction;
