//! Coordinators: who owns what in a group, and which transactions are open.
//!
//! A coordinator is a state machine for each partition of an internal topic, whose log holds all that the machine must
//! remember: a *shard* ([`shard`]). [`group`] is the shard of `__consumer_offsets`. Shards decide, without a clock, a
//! lock, a disk or chance of their own; the runtime gives them the time, appends their records and lets answers go once
//! what they say is committed.

pub mod group;
pub mod shard;
pub mod timers;
pub mod transaction;
