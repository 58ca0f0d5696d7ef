//! Record batches of message format v2, the only format that Kafka 4 writes: reading, checking, building, compressing.
//!
//! Owns the bytes between a batch's base offset and its last record, whether they came from a client, a peer or a file,
//! and trusts none of them. Knows nothing of files, of the wire protocol around a batch, or of what a log accepts
//! (`storage::validate` decides that).

pub mod batch;
pub mod builder;
pub mod compression;
pub mod control;
pub mod produced;
#[expect(clippy::module_inception, reason = "a record is what the module is about, and a file of its own")]
pub mod record;

#[cfg(test)]
mod tests;
