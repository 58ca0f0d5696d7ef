//! Bugs that the crash simulation has to find: a test puts one of them back, for its own thread.
//!
//! Outside of tests [`is_back`] is a constant, and what asks it is compiled away.

/// A bug, by what is not done as it should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KnownBug {
    /// A file that is replaced in one step: its directory is not synced after the rename.
    RenameNotSynced,
    /// A flush does not sync the directory, so that new segments have no name.
    NewNamesNotSynced,
    /// A log that was not written to is closed without a sync, though segments were deleted.
    DeletedNamesNotSynced,
    /// Where a log starts is not noted if its first segment says it, though those before it may come back.
    StartLeftToNames,
    /// A log fails where there is no room for what is not an append, and nothing is deleted without room for another name.
    NoRoomFails,
    /// When the sync of a directory has failed, it is synced again.
    FailedSyncRepeated,
    /// A flush syncs the last segment only.
    SealedSegmentNotSynced,
    /// The recovery point is checkpointed before what is below it was flushed.
    CheckpointBeforeFlush,
    /// The clean-shutdown marker is written before the logs are flushed.
    MarkerBeforeFlush,
    /// The clean-shutdown marker is removed, but may come back.
    MarkerRemovalNotSynced,
    /// What a truncation cut off may come back.
    TruncationNotSynced,
    /// After a truncation the checkpoint of the recovery point stays as it was.
    RecoveryPointNotLowered,
    /// Compaction gives up the old segments before the new one has its place.
    SourcesBeforeSwap,
    /// Compaction puts a segment in place that is not on disk.
    CleanedNotSynced,
    /// Producer snapshots survive the truncation of what they know of.
    SnapshotTrustedAfterTruncation,
    /// An index that lies is built anew in its place, entry by entry.
    IndexRebuiltInPlace,
    /// An index that was built anew takes the place of the old one before it is on disk.
    RebuiltIndexNotSynced,
    /// After a crash the last entry of an index is believed.
    IndexTrustedAfterCrash,
    /// What a killed process has written, and not synced, counts as synced.
    SurvivorsCountAsSynced,
    /// That the end of a sealed segment is missing goes unnoticed.
    GapNotNoticed,
    /// Where an epoch begins is not on disk before its records are.
    EpochNotDurable,
    /// A copy takes its log's place before it is on disk.
    CopyNotSynced,
    /// A log is removed before its copy has its name.
    LogRemovedBeforeExchange,
    /// Of a log and the copy that took its place and some records, a start does not know that they are of one move.
    SupersededLogSetAside,
    /// Offsets of a deleted topic wait for the next one of its name.
    StaleCheckpointsKept,
}

#[cfg(test)]
thread_local! {
    static BACK: std::cell::Cell<Option<KnownBug>> = const { std::cell::Cell::new(None) };
}

/// Whether the bug was put back.
#[cfg(test)]
pub(super) fn is_back(bug: KnownBug) -> bool {
    BACK.get() == Some(bug)
}

#[cfg(not(test))]
#[inline(always)]
pub(super) const fn is_back(_bug: KnownBug) -> bool {
    false
}

/// Puts a bug back, or none, for this thread.
#[cfg(test)]
pub(super) fn put_back(bug: Option<KnownBug>) {
    BACK.set(bug);
}
