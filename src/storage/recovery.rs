//! Opening a log: what is trusted, what is read, and how damage is repaired.

use std::sync::Arc;

use crate::types::Offset;

/// What to do with damage that readable records follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DamagePolicy {
    /// Cut the log off at the damage. Right wherever other replicas have the records: a log must stay a prefix of its
    /// leader's, and is filled up from there. The metadata log's policy always.
    CutOff,
    /// Take out the damaged part and keep what follows; readers see a gap in the offsets, as after compaction. Right
    /// where nobody else has the records.
    KeepReadable,
}

/// Called with how far the recovery of a log has come.
pub type RecoveryProgress = Arc<dyn Fn(&RecoveryStep) + Send + Sync>;

/// How far the recovery of a log has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecoveryStep {
    /// Of the segment that is read.
    pub base_offset: Offset,
    pub bytes_read: u64,
    /// All that is to be read in this log.
    pub bytes_total: u64,
    pub segments_left: usize,
}

/// What opening a log found and did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecoveryReport {
    /// Bytes of records that were read to find out what is on disk.
    pub bytes_scanned: u64,
    /// Bytes that were cut off or taken out because they hold no readable records.
    pub bytes_removed: u64,
    /// What was wrong, and what was done about it, in the order it was found.
    pub repairs: Vec<Repair>,
}

/// One thing that was wrong, and what was done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repair {
    /// The name of the file, or of what is missing.
    pub file: String,
    pub found: String,
    pub done: &'static str,
}
