//! The transaction coordinator's shard: the transactional ids of one partition of `__transaction_state` (KIP-98, KIP-890).
//!
//! Owns what is known of each transactional id ([`metadata`]) and decides ([`shard`]): who is the producer, what belongs
//! to its transaction, how it ends. A decision is in the log before anybody hears of it; then the markers are written by
//! [`coordinator`], and when all are, the log says so too. Pure: see [`crate::coordinator::shard`].

pub mod coordinator;
pub mod metadata;
pub mod producer_ids;
pub mod records;
mod shard;
#[cfg(test)]
mod simulation;
pub mod state;

pub use self::shard::{
    EndTransaction, EndedTransaction, Initialized, MarkersToWrite, ProducerIdNeeded, Step, TransactionEffect,
    TransactionFilter, TransactionShard, Verification,
};
