//! Opening a log: what is trusted, what is read, and how damage is repaired.
//!
//! | | with the clean-shutdown marker | after a crash |
//! |---|---|---|
//! | sealed segments below the recovery point | trusted; if one is empty, that is told | the same |
//! | segments from the recovery point on | as above | every byte read and checked, from the recovery point on; before it the headers |
//! | the last segment | its end is read and checked, from the last index entry on | as above |
//! | an index that is missing or cannot be right | built anew | built anew, as those of all segments that are read |
//! | producer snapshots | the last one that is whole; the log behind it is read | the same |
//! | leader epochs | the file; from the batches if there is none | the same, and from what was read, against the file if need be |
//!
//! A power loss may take the end of a sealed segment and leave the next one. Kafka does not notice. Here it counts as damage, where
//! nothing else can have left the gap:
//!
//! | a gap between two segments | |
//! |---|---|
//! | of a log that is compacted | the rule; such a log syncs a segment before it begins the next, and loses its last ones one by one |
//! | if a segment in it has the name of a deleted one, and the epochs say that the log was to start behind it | what is before it was being deleted, and goes |
//! | up to the recovery point | all of it was on disk, and no crash has taken it: compaction, or damage that was told of |
//! | up to where the log is noted to be cleaned | left from when the topic was compacted |
//! | above both, where batches leave offsets out, too, and others have the records | came from a leader whose log was compacted |
//! | any other | records are lost |
//!
//! What survived a kill is perhaps not on disk. Its names are synced before anything is built on them, or a power loss would
//! bring back a state in which what was removed since is missing; its bytes are by the next flush.
//!
//! The base offset of a batch is in no checksum. A segment ends where the records of the next one begin: a batch that says that it
//! is behind that is damaged, not what follows it. Only records that are there twice let a segment go ([`overlap`]).
//!
//! No damage keeps a log from being opened. What no longer is a whole batch with a right checksum is never served again:
//! it is cut off at the end of the log, and elsewhere treated as [`DamagePolicy`] says. Every repair is reported; whoever
//! opens the log writes the report to its own log. Only a disk that fails is an error, and records that are out of reach: what
//! stands in the place of a segment is no file, or may not be read.

mod files;
mod overlap;
mod segments;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU8};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use arc_swap::ArcSwap;
use parking_lot::{Mutex, RwLock};

use crate::storage::file_cache::Directory;
use crate::storage::file_name::{FileState, MAX_BASE_OFFSET};
use crate::storage::leader_epochs::{self, LeaderEpochFileCache};
use crate::storage::log::cleaning::Cleaning;
use crate::storage::log::epochs::LeaderEpochs;
use crate::storage::log::producers::{producers_start, replay_producers};
use crate::storage::log::truncation::removed_at_once;
use crate::storage::log::{
    ActiveSegment, Log, LogContext, LogOffsetMetadata, LogOpenError, LogParams, Markers, Noted, OPEN, ReadError, Wait,
    Writer,
};
use crate::storage::producer_state::ProducerStateManager;
use crate::storage::scan::{Frame, HeaderScan, ScanError};
use crate::storage::segment::{LastIndexEntry, LogSegment, txn_io};
use crate::storage::txn_index::AbortedTxn;
use crate::types::{LeaderEpoch, Offset, ProducerId};

/// What to do with damage that readable records follow, in the part of a log that a crash may have damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DamagePolicy {
    /// Cut the log off at the damage. Right wherever other replicas have the records: a log must stay a prefix of its
    /// leader's, and is filled up from there.
    CutOff,
    /// Cut it off, but keep a copy of what can be read behind the damage in a file beside the segment, for a person: nobody else may have
    /// it. The metadata log's policy, where what follows would make no sense without what is gone.
    CutOffKeepingCopy,
    /// Take out the damaged part and keep what follows; readers see a gap in the offsets, as after compaction. Right
    /// where nobody else has the records.
    KeepReadable,
}

impl DamagePolicy {
    pub fn cuts_off(self) -> bool {
        self != DamagePolicy::KeepReadable
    }
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
    /// Bytes that were cut off or taken out because they hold no readable records, or, by [`DamagePolicy::CutOff`],
    /// follow such.
    pub bytes_removed: u64,
    /// What was wrong, and what was done about it, in the order it was found.
    pub repairs: Vec<Repair>,
    /// What was taken out of segments that kept their names, each time that one was written anew.
    pub taken_out: Vec<TakenOut>,
}

/// Stretches of a segment's file, in bytes, which it lacks since it was written anew.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TakenOut {
    pub base_offset: Offset,
    pub stretches: Vec<Range<u64>>,
}

/// One thing that was wrong, and what was done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repair {
    /// The name of the file, or of what is missing.
    pub file: String,
    pub found: String,
    pub done: &'static str,
}

/// A log that is being opened.
struct Recovery<'a> {
    context: &'a LogContext,
    params: &'a LogParams,
    dir: Arc<Directory>,
    segments: Vec<Arc<LogSegment>>,
    /// Segments that were being deleted when a crash came. Their files, which are empty by now, stay until the others are checked.
    deleted: BTreeSet<Offset>,
    epochs: LeaderEpochFileCache,
    /// There was no usable file of epochs: they are taken from the batches once all of those are known.
    epochs_are_lost: bool,
    /// Segments whose transaction index is to be built anew.
    lost_txn_indexes: BTreeSet<Offset>,
    /// Segments that took the place of others with a transaction index, and brought none.
    swapped: BTreeSet<Offset>,
    /// Segments without a batch of a producer that is known still: they were read from their start on, or all is too old.
    without_producers: BTreeSet<Offset>,
    /// Of the last segment.
    last_index_entry: LastIndexEntry,
    log_end_offset: Offset,
    /// Of the batches that were checked so far.
    latest_epoch: LeaderEpoch,
    /// From the checkpoint, unless the log does not reach up to it.
    recovery_point: Offset,
    /// Batches above the recovery point leave offsets out: they were compacted, here or where they come from.
    shows_compaction: bool,
    /// Where the records of segments begin that are whole, as far as that was looked for.
    starts: BTreeMap<Offset, Option<Offset>>,
    /// Offsets at which records that could not be read were taken out from between others.
    gaps: BTreeSet<Offset>,
    /// Segments that had another name.
    renamed: BTreeSet<Offset>,
    has_new_names: bool,
    report: RecoveryReport,
}

/// See [`Log::open`].
pub(super) fn open(context: &LogContext, params: LogParams) -> Result<(Arc<Log>, RecoveryReport), LogOpenError> {
    let path = params.dir.clone();
    open_log(context, params).map_err(|source| LogOpenError::Io { path, source })
}

fn open_log(context: &LogContext, params: LogParams) -> io::Result<(Arc<Log>, RecoveryReport)> {
    let has_new_names = !context.disk.exists(&params.dir)?;
    if has_new_names {
        context.disk.create_dir_all(&params.dir)?;
    }
    if has_new_names && let Some(parent) = params.dir.parent() {
        context.disk.sync_dir(parent)?;
    }
    let dir = Directory::new(params.dir.clone());
    let epochs = LeaderEpochFileCache::open(context.disk.clone(), dir.clone())?;
    let mut recovery = Recovery {
        context,
        params: &params,
        dir,
        segments: Vec::new(),
        deleted: BTreeSet::new(),
        epochs_are_lost: epochs.is_empty(),
        epochs,
        lost_txn_indexes: BTreeSet::new(),
        swapped: BTreeSet::new(),
        without_producers: BTreeSet::new(),
        last_index_entry: LastIndexEntry::default(),
        log_end_offset: Offset(0),
        latest_epoch: LeaderEpoch::UNKNOWN,
        recovery_point: params.recovery_point,
        shows_compaction: false,
        gaps: BTreeSet::new(),
        starts: BTreeMap::new(),
        renamed: BTreeSet::new(),
        has_new_names,
        report: RecoveryReport::default(),
    };
    let found = recovery.tidy_directory()?;
    recovery.load_segments(&found)?;
    recovery.check_segments()?;
    recovery.remove_deleted()?;
    let log_start_offset = recovery.settle_bounds()?;
    recovery.look_at_sealed();
    recovery.settle_epochs(log_start_offset)?;
    let producers = recovery.load_producers(log_start_offset)?;
    recovery.sync_names()?;
    Ok(recovery.finish(log_start_offset, producers))
}

impl Recovery<'_> {
    fn repaired(&mut self, file: impl ToString, found: impl ToString, done: &'static str) {
        self.report.repairs.push(Repair { file: file.to_string(), found: found.to_string(), done });
    }

    /// Sees to it that there is a segment, and that the log does not end before it starts. Returns its start.
    fn settle_bounds(&mut self) -> io::Result<Offset> {
        let wanted = self.params.log_start_offset;
        let wanted = if (Offset(0)..=MAX_BASE_OFFSET).contains(&wanted) { wanted } else { Offset(0) };
        if !self.segments.is_empty() && self.log_end_offset < wanted {
            let end = self.log_end_offset;
            if self.segments.iter().any(|segment| segment.size() > 0) {
                self.repaired(
                    "log-start-offset-checkpoint",
                    format!("the log starts at {wanted} and ends at {end}"),
                    "deleted all segments: their records had been deleted",
                );
            }
            let removed = std::mem::take(&mut self.segments);
            self.remove_segments(removed)?;
            self.epochs.clear();
        }
        if self.segments.is_empty() {
            let segment = LogSegment::create(&self.context.files, &self.dir, wanted)?;
            self.segments.push(Arc::new(segment));
            self.log_end_offset = wanted;
            self.last_index_entry = LastIndexEntry::default();
            self.lost_txn_indexes.clear();
            self.has_new_names = true;
        }
        Ok(wanted.max(self.segments[0].base_offset()))
    }

    /// Tells of segments that were emptied, which perhaps nobody reads. What is only shorter than it was is told of by who reads it:
    /// on a cold disk it would take long to open the indexes of all segments.
    fn look_at_sealed(&self) {
        for (segment, next) in self.segments.iter().zip(&self.segments[1..]) {
            segment.end_before(next.base_offset(), self.log_end_offset);
            if segment.size() == 0 && !segment.distrusts_index() {
                // What keeps it from being looked at keeps its readers from it, who tell.
                let _ = segment.check_end(0, 0, Wait::ForDisk);
            }
        }
        self.segments.last().expect("there is a segment").take_more();
    }

    /// Renames the files of segments that are none of the log's any more, and has them removed later.
    fn remove_segments(&mut self, removed: Vec<Arc<LogSegment>>) -> io::Result<()> {
        for part in removed.rchunks(removed_at_once(&removed, &self.params.config)) {
            for segment in part {
                self.report.bytes_removed += segment.size();
                segment.rename(FileState::Deleted)?;
            }
            // Else a crash might bring back a segment behind what ends before it now.
            self.context.disk.sync_dir(&self.dir.path())?;
        }
        self.has_new_names = true;
        let delay = Duration::from_millis(self.params.config.file_delete_delay_ms.max(0) as u64);
        self.context.background.run_after(delay, move || {
            // What cannot be removed now is removed by the next start.
            removed.iter().for_each(|segment| drop(segment.remove()));
        });
        Ok(())
    }

    fn settle_epochs(&mut self, log_start_offset: Offset) -> io::Result<()> {
        let earliest = self.epochs.earliest().map(|entry| entry.start_offset);
        if let Some(earliest) = earliest.filter(|earliest| !self.epochs_are_lost && *earliest > log_start_offset) {
            // The log was to start there, but that was not noted.
            let known = self.epochs.entries().to_vec();
            self.epochs.clear();
            self.epochs_from_batches(earliest)?;
            for entry in known {
                self.epochs.assign_unflushed(entry.epoch, entry.start_offset);
            }
        }
        if self.epochs_are_lost && self.log_end_offset > log_start_offset {
            self.epochs.clear();
            self.epochs_from_batches(self.log_end_offset)?;
            if !self.epochs.is_empty() {
                self.repaired(
                    leader_epochs::FILE_NAME,
                    "missing, empty or damaged",
                    "took the epochs from the batches",
                );
            }
        }
        self.epochs.truncate_from_end(self.log_end_offset);
        self.epochs.truncate_from_start(log_start_offset);
        self.epochs.flush()
    }

    /// Up to `end`. Epochs never fall, so a segment is walked over only if the one behind it begins in another epoch. A trusted segment
    /// may turn out to be damaged: what cannot be read there has no epoch.
    fn epochs_from_batches(&mut self, end: Offset) -> io::Result<()> {
        let first_epoch = |segment: &Arc<LogSegment>| match segment.first_frame(Wait::ForDisk) {
            Ok(frame) => Ok(frame.map(|frame| frame.leader_epoch())),
            Err(ReadError::Corrupt { .. }) => Ok(None),
            Err(error) => Err(error.into_io()),
        };
        for n in 0..self.segments.len() {
            let segment = self.segments[n].clone();
            if segment.base_offset() >= end {
                break;
            }
            let next = self.segments.get(n + 1).map(first_epoch).transpose()?.flatten();
            let file = segment.file()?;
            let base_offset = segment.base_offset();
            let behind = self.segments.get(n + 1).map(|next| next.base_offset());
            let scan = HeaderScan::new(&*file, base_offset, 0, segment.size(), base_offset, Wait::ForDisk);
            let mut scan = scan.before(behind);
            loop {
                match scan.next() {
                    Ok(Some((_, frame))) => {
                        if frame.base_offset() >= end {
                            break;
                        }
                        self.observe_epoch(&frame);
                        if next == Some(frame.leader_epoch()) {
                            break;
                        }
                    }
                    Ok(None) | Err(ScanError::Damaged { .. }) => break,
                    Err(error) => return Err(segment.damaged(error).into_io()),
                }
            }
        }
        Ok(())
    }

    fn observe_epoch(&mut self, frame: &Frame) {
        let epoch = frame.leader_epoch();
        // A power loss may bring back batches that were cut off before the later epoch began, and was synced. Nobody would
        // notice that they are not those of the leader.
        if epoch.0 >= 0 && self.epochs.epoch_for_offset(frame.base_offset()).is_some_and(|noted| noted > epoch) {
            self.epochs.truncate_from_end(frame.base_offset());
        }
        if epoch.0 >= 0 && self.epochs.latest_epoch().is_none_or(|latest| epoch > latest) {
            self.epochs.assign_unflushed(epoch, frame.base_offset());
        }
    }

    /// What a start after a crash has made and removed is on disk when it ends.
    fn sync_names(&mut self) -> io::Result<()> {
        if self.has_new_names && !self.params.clean_shutdown {
            self.context.disk.sync_dir(&self.dir.path())?;
            self.has_new_names = false;
        }
        Ok(())
    }

    fn load_producers(&mut self, log_start_offset: Offset) -> io::Result<ProducerStateManager> {
        let now_ms = self.context.clock.now_ms();
        let disk = self.context.disk.clone();
        let mut producers = ProducerStateManager::open(disk, self.dir.clone(), self.params.producers)?;
        let base_offsets: BTreeSet<Offset> = self.segments.iter().map(|segment| segment.base_offset()).collect();
        producers.remove_stray_snapshots(&base_offsets)?;
        let start = producers_start(&self.segments, log_start_offset);
        self.index_swapped(start, now_ms)?;
        let end = self.log_end_offset;

        // A transaction index can only be built by someone who knows the producers before its segment.
        let from = self.lost_txn_indexes.first().copied();
        producers.truncate_and_reload(start, from.unwrap_or(end), now_ms)?;
        if producers.latest_snapshot_offset().is_none() {
            // What was written by producers that are not known any more is not read again.
            let lost =
                from.map_or(self.segments.len(), |from| self.segments.partition_point(|s| s.base_offset() < from));
            let expired = self.first_unexpired(now_ms).min(lost);
            self.without_producers.extend(self.segments[..expired].iter().map(|segment| segment.base_offset()));
        }
        let rolled = self.segments.last().map_or(start, |last| last.base_offset().max(start));
        let lacks_snapshots = from.is_none() && producers.map_end_offset() < rolled;
        if lacks_snapshots {
            let found = format!("none that is whole from {rolled} on");
            self.repaired("producer snapshots", found, "rebuilt the producers' state from the batches");
        }
        let makes_snapshots = from.is_some() || lacks_snapshots;
        // Files that are made anew have a new name, too.
        self.has_new_names |= makes_snapshots;
        let undecided = self.replay(&mut producers, makes_snapshots)?;
        if !undecided.is_empty() {
            let ids = undecided.iter().map(|id| id.to_string()).collect::<Vec<_>>().join(", ");
            let found = format!(
                "transactions of producers {ids} were open where records were taken out, perhaps with their markers"
            );
            self.repaired(
                "transactions",
                found,
                "left them open; the next marker decides, and may count aborted records as committed",
            );
        }
        producers.remove_expired(now_ms);
        Ok(producers)
    }

    /// Builds the transaction index of swapped segments, by producers of its own: the markers that ended the transactions
    /// before it may not be in such a segment any more, and they would be taken for open.
    fn index_swapped(&self, start: Offset, now_ms: i64) -> io::Result<()> {
        for base_offset in self.swapped.difference(&self.lost_txn_indexes) {
            let next = self.segments.iter().map(|segment| segment.base_offset()).find(|next| next > base_offset);
            let (disk, dir) = (self.context.disk.clone(), self.dir.clone());
            let mut producers = ProducerStateManager::open(disk, dir, self.params.producers)?;
            producers.load_as_of(*base_offset, start, now_ms)?;
            let end = next.unwrap_or(self.log_end_offset);
            let index = |segment: &LogSegment, aborted: &AbortedTxn| match segment.base_offset() == *base_offset {
                true => segment.append_aborted(aborted).map_err(txn_io),
                false => Ok(()),
            };
            match replay_producers(&self.segments, &mut producers, end, index) {
                Err(ReadError::Corrupt { .. }) => {}
                result => result.map_err(ReadError::into_io)?,
            }
        }
        Ok(())
    }

    /// Reads the producers' batches up to the log's end, writes a snapshot at each segment on the way, as a roll does, if
    /// that is wanted, and completes the transaction indexes that were lost. Returns whose transactions were open where there
    /// are gaps.
    fn replay(&self, producers: &mut ProducerStateManager, makes_snapshots: bool) -> io::Result<BTreeSet<ProducerId>> {
        let is_lost = |segment: &LogSegment| self.lost_txn_indexes.contains(&segment.base_offset());
        let mut has_changed = false;
        for segment in self.segments.iter().filter(|segment| is_lost(segment)) {
            has_changed |= segment.has_txn_index();
            segment.reset_txn_index()?;
        }
        // To go from header to header once more takes a third of the time of a recovery.
        let has_producers = |segment: &&Arc<LogSegment>| !self.without_producers.contains(&segment.base_offset());
        let segments: Vec<_> = self.segments.iter().filter(has_producers).cloned().collect();
        let bases: BTreeSet<Offset> = self.segments[1..].iter().map(|segment| segment.base_offset()).collect();
        let mut ends: BTreeSet<Offset> = self.gaps.union(&bases).copied().collect();
        ends.insert(self.log_end_offset);
        let mut undecided = BTreeSet::new();
        for end in ends.range(..=self.log_end_offset).copied() {
            if end <= producers.map_end_offset() {
                continue;
            }
            let replayed = replay_producers(&segments, producers, end, |segment, aborted| match is_lost(segment) {
                true => segment.append_aborted(aborted).map_err(txn_io),
                false => Ok(()),
            });
            match replayed {
                // A trusted segment that cannot be read has cost the producers in it, and no more.
                Err(ReadError::Corrupt { .. }) => producers.update_map_end_offset(end),
                result => result.map_err(ReadError::into_io)?,
            }
            if self.gaps.contains(&end) {
                undecided.extend(producers.undecided());
            }
            if bases.contains(&end) && makes_snapshots {
                producers.take_snapshot()?;
            }
        }
        // What is made anew of it may lie below the recovery point, where it was on disk.
        for segment in self.segments.iter().filter(|segment| is_lost(segment) && segment.has_txn_index()) {
            has_changed = true;
            segment.sync_txn_index()?;
        }
        if has_changed {
            self.context.disk.sync_dir(&self.dir.path())?;
        }
        Ok(undecided)
    }

    /// How many segments are in front of the first one that is young enough to hold a producer that is not expired.
    fn first_unexpired(&self, now_ms: i64) -> usize {
        let horizon_ms = now_ms.saturating_sub(self.params.producers.expiration_ms);
        let is_young = |segment: &Arc<LogSegment>| match segment.max_timestamp() {
            Ok(Some(max)) => max.timestamp > horizon_ms,
            Ok(None) | Err(_) => true,
        };
        let first = self.segments.iter().position(|segment| is_young(segment) && segment.size() > 0);
        first.unwrap_or(self.segments.len())
    }

    fn finish(self, log_start_offset: Offset, producers: ProducerStateManager) -> (Arc<Log>, RecoveryReport) {
        let end = self.log_end_offset;
        let active = self.segments.last().expect("there is a segment");
        let size = active.size();
        let now_ms = self.context.clock.now_ms();
        let is_clean = self.params.clean_shutdown && self.report.repairs.is_empty() && !self.has_new_names;
        let recovery_point = match self.params.clean_shutdown {
            true => end,
            false => Offset(self.params.recovery_point.0.clamp(0, end.0)),
        };
        let first_unstable = producers.first_unstable_offset().map_or(-1, |first| first.max(log_start_offset).0);
        let mut active_state = ActiveSegment::new(now_ms, &self.params.config, size);
        active_state.last_index_entry = self.last_index_entry;
        let end = LogOffsetMetadata {
            message_offset: end,
            segment_base_offset: active.base_offset(),
            relative_position_in_segment: size,
        };
        let log = Arc::new_cyclic(|this| Log {
            this: this.clone(),
            context: self.context.clone(),
            topic_partition: self.params.topic_partition.clone(),
            dir: self.dir,
            config: ArcSwap::new(self.params.config.clone()),
            state: AtomicU8::new(OPEN),
            on_failure: self.params.on_failure.clone(),
            writer: Mutex::new(Writer { producers, active: active_state, has_changed: !is_clean }),
            segments: ArcSwap::from_pointee(self.segments),
            end: RwLock::new(end),
            log_end_offset: AtomicI64::new(end.message_offset.0),
            log_start_offset: AtomicI64::new(log_start_offset.0),
            recovery_point: AtomicI64::new(recovery_point.0),
            first_unstable_offset: AtomicI64::new(first_unstable),
            markers: Markers { last: AtomicI64::new(end.message_offset.0), settled: AtomicI64::new(-1) },
            epochs: LeaderEpochs::new(self.epochs),
            recent: Mutex::default(),
            commits: Mutex::default(),
            last_flush_ms: AtomicI64::new(now_ms),
            has_unsynced_names: AtomicBool::new(self.has_new_names),
            sync_names: Mutex::new(false),
            cleaning: Cleaning::new(),
            exchange: Mutex::new(()),
            replaced: Mutex::default(),
            noted: Noted {
                recovery_point: AtomicI64::new(self.params.recovery_point.0),
                log_start_offset: AtomicI64::new(self.params.log_start_offset.0),
                correct: OnceLock::new(),
            },
        });
        (log, self.report)
    }
}
