//! Looking at the batches of segments: what is whole, what is not, and the indexes that follow from it.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use crate::storage::checkpoint::RECOVERY_POINTS;
use crate::storage::disk::{DiskFile, OpenMode, is_full};
use crate::storage::file_name::{FileKind, FileName, FileState};
use crate::storage::index_file::IndexError;
use crate::storage::known_bugs::{self, KnownBug};
use crate::storage::log::{ReadError, Wait};
use crate::storage::offset_index::OffsetPosition;
use crate::storage::recovery::{DamagePolicy, Recovery, RecoveryStep, TakenOut};
use crate::storage::scan::{Frame, FullScan, HeaderScan, ScanError};
use crate::storage::segment::{LastIndexEntry, LogSegment};
use crate::storage::time_index::TimestampEntry;
use crate::types::{LeaderEpoch, Offset};

/// Where a segment's bytes begin to be read. All before is trusted, and so are the index entries up to here.
#[derive(Clone, Copy, Debug)]
struct Start {
    position: u64,
    /// The first batch begins at this offset or behind it.
    offset: Offset,
    last_index_entry: LastIndexEntry,
    /// The last offset of the batch at `position`, by that entry.
    named: Option<Offset>,
    /// Whether the batches get index entries. Else the indexes are built anew when all is read and repaired.
    is_indexed: bool,
}

impl Start {
    /// With its first byte, where the first batch is to begin at `offset` or behind it.
    fn of_segment(offset: Offset) -> Start {
        Start { position: 0, offset, last_index_entry: LastIndexEntry::default(), named: None, is_indexed: true }
    }
}

/// What was found in a segment.
pub(super) struct Checked {
    /// Behind the last whole batch; the segment's base if there is none.
    pub(super) next_offset: Offset,
    /// Stretches that hold no whole batch.
    pub(super) damaged: Vec<Damage>,
    last_index_entry: LastIndexEntry,
    is_indexed: bool,
    /// Of the last batch that has one, here or before.
    latest_epoch: LeaderEpoch,
    /// Where the first batch is that reaches into the next segment, and the offset behind what is before it.
    pub(super) beyond: Option<(u64, Offset)>,
}

#[derive(Clone, Debug)]
pub(super) struct Damage {
    pub(super) from: u64,
    pub(super) to: u64,
    pub(super) reason: String,
}

/// What is found of a segment behind one that was cut off.
const FOLLOWS_DAMAGE: &str = "follows damage";

/// How often the progress is told, in bytes.
const PROGRESS_BYTES: u64 = 64 << 20;

/// What is copied at once.
const COPY_BYTES: usize = 1 << 20;

impl Recovery<'_> {
    /// Checks what is not trusted, repairs it, and finds the log's end.
    pub(super) fn check_segments(&mut self) -> io::Result<()> {
        self.check_from_recovery_point()?;
        if self.params.clean_shutdown || self.log_end_offset >= self.recovery_point || self.segments.is_empty() {
            return Ok(());
        }
        // What was on disk is not there any more: then what is left was not only hit by a crash, and is not trusted either.
        let found = format!("it is at {}, and the log ends at {}", self.recovery_point, self.log_end_offset);
        self.repaired(RECOVERY_POINTS, found, "read all of the log");
        self.recovery_point = Offset(0);
        self.latest_epoch = LeaderEpoch::UNKNOWN;
        self.check_from_recovery_point()?;
        // They stay below the recovery point in the checkpoint, where the next start trusts what was made anew here.
        let sealed = self.segments.split_last().map_or(&[][..], |(_, sealed)| sealed);
        sealed.iter().try_for_each(|segment| segment.sync_all())
    }

    fn check_from_recovery_point(&mut self) -> io::Result<()> {
        self.finish_deletion()?;
        let mut first_unflushed = self.first_unflushed();
        self.log_end_offset = Offset(0);
        for n in 0..first_unflushed.min(self.segments.len()) {
            self.check_trusted(n)?;
        }
        let total: u64 = self.segments[first_unflushed..].iter().map(|segment| segment.size()).sum();
        let mut n = first_unflushed;
        while n < self.segments.len() {
            let cut_off = self.check_unflushed(n, total)?;
            n += 1;
            self.settle_overlap(n)?;
            if n == self.segments.len() {
                break;
            }
            let first = FileName::new(self.segments[n].base_offset(), FileKind::Log);
            let has_gap = self.ends_before(first.base_offset);
            if has_gap && self.was_to_start_behind(n) {
                self.delete_before(n)?;
                (n, first_unflushed) = (0, 0);
                continue;
            }
            let has_gap = has_gap && self.lacks_records_before(first.base_offset);
            let what = format!("records from {} to {} are missing before it", self.log_end_offset, first.base_offset);
            let found = match cut_off {
                true => FOLLOWS_DAMAGE,
                false if has_gap => &what,
                false => continue,
            };
            match self.params.damage {
                DamagePolicy::CutOff | DamagePolicy::CutOffKeepingCopy => self.remove_from(n, found)?,
                DamagePolicy::KeepReadable => self.repaired(first, found, "kept it: readers see a gap in the offsets"),
            }
        }
        if !self.params.clean_shutdown && !known_bugs::is_back(KnownBug::SurvivorsCountAsSynced) {
            self.distrust_survivors(first_unflushed)?;
        }
        Ok(())
    }

    /// Removes segment `n`, if there is one, and all behind it.
    fn remove_from(&mut self, n: usize, found: &str) -> io::Result<()> {
        let removed = self.segments.split_off(n);
        let Some(first) = removed.first() else { return Ok(()) };
        let name = FileName::new(first.base_offset(), FileKind::Log);
        self.repaired(name, found, "deleted, and all segments behind it");
        for segment in &removed {
            self.keep_copy(segment, 0)?;
        }
        self.remove_segments(removed)
    }

    /// Below the recovery point all was on disk, and nobody looks for gaps; but retention may have been interrupted there.
    fn finish_deletion(&mut self) -> io::Result<()> {
        if self.deleted.is_empty() || !self.shows_losses() {
            return Ok(());
        }
        for n in (1..self.segments.len().min(self.first_unflushed() + 1)).rev() {
            if self.was_to_start_behind(n) && self.ends_early(n - 1)? {
                return self.delete_before(n);
            }
        }
        Ok(())
    }

    /// Whether the log was to start at segment `n` or behind it: what is missing before it has the name of a deleted segment, and the
    /// epochs start there. Neither would do alone: what follows is cut off with such names, too, compaction leaves them, and epochs
    /// may have begun anew.
    fn was_to_start_behind(&self, n: usize) -> bool {
        let (before, next) = (self.segments[n - 1].base_offset(), self.segments[n].base_offset());
        next > self.params.gaps_up_to
            && self.deleted.range(before.plus(1)..next).next().is_some()
            && self.epochs.earliest().is_some_and(|earliest| earliest.start_offset >= next)
    }

    /// Whether a trusted segment ends before the next one begins.
    fn ends_early(&self, n: usize) -> io::Result<bool> {
        let (segment, next) = (&self.segments[n], self.segments[n + 1].base_offset());
        match segment.find(next.plus(-1), segment.size(), Wait::ForDisk) {
            Ok(last) => Ok(last.is_none()),
            Err(ReadError::Corrupt { .. }) => Ok(false),
            Err(error) => Err(error.into_io()),
        }
    }

    /// Completes what retention had begun.
    fn delete_before(&mut self, n: usize) -> io::Result<()> {
        let first = FileName::new(self.segments[n].base_offset(), FileKind::Log);
        self.repaired(first, "what was before it was being deleted", "deleted the rest of it");
        let removed = self.segments.drain(..n).collect();
        self.lost_txn_indexes.retain(|base_offset| *base_offset >= first.base_offset);
        self.remove_segments(removed)
    }

    /// Whether the segment that begins at `next` begins behind the log's end so far, in a log that is not compacted.
    fn ends_before(&self, next: Offset) -> bool {
        self.shows_losses() && self.log_end_offset < next
    }

    /// Whether a gap between segments may come from a crash. Compaction leaves gaps, too. Logs that are compacted do not begin a
    /// segment before the last one is synced, and lose none before the one behind it is gone.
    fn shows_losses(&self) -> bool {
        !self.params.config.cleanup_policy.compact
            && !self.params.clean_shutdown
            && !known_bugs::is_back(KnownBug::GapNotNoticed)
    }

    /// Whether the gap between the log's end so far and the segment that begins at `next` means that records were lost: the power
    /// went before the end of the segment before it was synced, and the new segment was on disk already.
    fn lacks_records_before(&self, next: Offset) -> bool {
        // Where nobody else has the records, what was taken out leaves gaps, too; and a log is not cut off there.
        let shows_compaction = self.shows_compaction && self.params.damage.cuts_off();
        next > self.sound_up_to() && !shows_compaction
    }

    /// Before this, gaps between segments are no news: all of it was on disk, so that no crash has taken anything, or compaction
    /// has come so far, in a log that was compacted before its policy was another.
    fn sound_up_to(&self) -> Offset {
        self.recovery_point.max(self.params.gaps_up_to)
    }

    /// What a process that was killed has written is there, but perhaps only in the system's memory.
    fn distrust_survivors(&mut self, first_unflushed: usize) -> io::Result<()> {
        for segment in &self.segments[first_unflushed.min(self.segments.len())..] {
            segment.written_by_others();
        }
        if self.params.config.cleanup_policy.compact
            && let Some((_, sealed)) = self.segments.split_last()
        {
            // See `lacks_records_before`.
            sealed[first_unflushed.min(sealed.len())..].iter().try_for_each(|segment| segment.sync_all())?;
        }
        Ok(())
    }

    /// The number of the first segment that may hold what is not on disk. The last one is never trusted blindly.
    fn first_unflushed(&self) -> usize {
        let last = self.segments.len().saturating_sub(1);
        if self.params.clean_shutdown {
            return last;
        }
        // One that ends there is on disk, but its indexes are not: they are synced when it is sealed, and what follows.
        let recovery_point = self.recovery_point;
        let holds = self.segments.partition_point(|segment| segment.base_offset() < recovery_point).saturating_sub(1);
        holds.min(last)
    }

    /// A sealed segment that was flushed: only its missing indexes are built anew.
    fn check_trusted(&mut self, n: usize) -> io::Result<()> {
        let segment = self.segments[n].clone();
        let missing =
            [(!segment.had_offset_index(), FileKind::OffsetIndex), (!segment.had_time_index(), FileKind::TimeIndex)];
        if segment.size() == 0 || missing.iter().all(|(missing, _)| !missing) {
            return Ok(());
        }
        self.has_new_names = true;
        // A wrong name makes no damage of its records: they can be read.
        let floor = Offset(0);
        self.without_producers.insert(segment.base_offset());
        // Indexes that are there are believed by the next start, if this one does not come to its end.
        let start = Start { is_indexed: false, ..Start::of_segment(floor) };
        let checked = self.scan(&segment, start, 0, DamagePolicy::KeepReadable)?;
        // It was not touched by a crash: whatever is damaged, what follows is none the worse for it.
        self.repair(&segment, floor, checked, DamagePolicy::KeepReadable)?;
        let done = match segment.rebuild_indexes(&self.params.config) {
            Ok(()) => "built it anew",
            // A segment can be read without.
            Err(ReadError::Io(error)) if is_full(&error) => "there is no room for it; a later read builds it anew",
            Err(error) => return Err(error.into_io()),
        };
        for (_, kind) in missing.iter().filter(|(missing, _)| *missing) {
            self.repaired(FileName::new(segment.base_offset(), *kind), "missing", done);
        }
        if !self.params.clean_shutdown {
            // Whatever took these files may have taken that one; nobody can tell that it is missing.
            self.lost_txn_indexes.insert(segment.base_offset());
        }
        // It is below the recovery point: no flush comes by here any more, and the next start trusts what it finds.
        segment.sync_all()
    }

    /// A segment that a crash may have left half written, or the last one. Returns whether it was cut off so that what
    /// follows has to go.
    fn check_unflushed(&mut self, n: usize, total: u64) -> io::Result<bool> {
        let segment = self.segments[n].clone();
        let is_last = n + 1 == self.segments.len();
        // What is before it is not served from here once more.
        let floor = self.log_end_offset.max(segment.base_offset());
        if is_last && !self.params.clean_shutdown {
            // What was reserved behind its end is room for the start, on a disk that is full otherwise.
            unless_full(segment.discard_unpublished())?;
        }
        let start = match self.params.clean_shutdown || known_bugs::is_back(KnownBug::IndexTrustedAfterCrash) {
            true => self.start_by_index(&segment, floor)?,
            false => self.start_by_headers(&segment, floor)?,
        };
        let next = self.segments.get(n + 1).map(|next| next.base_offset());
        if !self.params.clean_shutdown && next.is_none_or(|next| next > self.recovery_point) {
            self.lost_txn_indexes.insert(segment.base_offset());
        }
        let mut checked = self.scan(&segment, start, total, self.params.damage)?;
        if let Some(kind) = names_what_is_behind(&segment, &checked)? {
            // What is appended next would have to be named behind it.
            let file = FileName::new(segment.base_offset(), kind);
            self.repaired(file, "its last entry names an offset behind the segment's end", "built the indexes anew");
            let start = self.start_over(&segment, floor)?;
            checked = self.scan(&segment, start, 0, self.params.damage)?;
        }
        self.weigh_overlap(n, &mut checked)?;
        let is_cut_off = !checked.damaged.is_empty() && self.params.damage.cuts_off();
        if is_cut_off && self.params.config.cleanup_policy.compact {
            // Before it is: if a crash came in between, nobody would notice the gap.
            self.remove_from(n + 1, FOLLOWS_DAMAGE)?;
        }
        self.log_end_offset = checked.next_offset;
        self.latest_epoch = checked.latest_epoch;
        self.last_index_entry = checked.last_index_entry;
        self.repair(&segment, floor, checked, self.params.damage)?;
        if !is_last || !self.params.clean_shutdown {
            // The indexes of the last segment go on being written to; what a crash left behind them must not stay.
            let sealed = segment.seal().map_err(IndexError::into_io);
            match is_last {
                // Its entries are in memory until there is room, as those of any last segment; behind them is nothing.
                true => unless_full(sealed)?,
                false => sealed?,
            }
        }
        Ok(is_cut_off)
    }

    /// Where the segments behind this one begin in the list.
    pub(super) fn behind(&self, segment: &LogSegment) -> usize {
        self.segments.partition_point(|other| other.base_offset() <= segment.base_offset())
    }

    fn next_base_offset(&self, segment: &LogSegment) -> Option<Offset> {
        self.segments.get(self.behind(segment)).map(|next| next.base_offset())
    }

    /// The whole segment is to be read.
    fn start_over(&mut self, segment: &LogSegment, floor: Offset) -> io::Result<Start> {
        segment.reset_indexes().map_err(ReadError::into_io)?;
        // Until one is met.
        self.without_producers.insert(segment.base_offset());
        Ok(Start::of_segment(floor))
    }

    /// After an orderly end all but the stretch behind the last index entry was looked at when it was appended.
    fn start_by_index(&mut self, segment: &Arc<LogSegment>, floor: Offset) -> io::Result<Start> {
        let start = match self.last_indexed(segment) {
            Ok(Some(start)) if !names_a_batch(segment, start)? => {
                Some((FileKind::OffsetIndex, "its last entry points to no batch".to_owned()))
            }
            Ok(Some(_)) if lacks_times(segment)? => Some((FileKind::TimeIndex, "it has no entries".to_owned())),
            Ok(Some(start)) => return Ok(start),
            Ok(None) => None,
            Err(IndexError::Corrupt(reason)) => Some((FileKind::OffsetIndex, reason)),
            Err(IndexError::Io(error)) => return Err(error),
            Err(IndexError::WouldBlock) => unreachable!("it was told to wait"),
        };
        if let Some((kind, reason)) = start {
            self.repaired(FileName::new(segment.base_offset(), kind), reason, "built the indexes anew");
        }
        self.start_over(segment, floor)
    }

    /// Where the last index entry points; `None`: an empty segment has no indexes.
    fn last_indexed(&self, segment: &LogSegment) -> Result<Option<Start>, IndexError> {
        if !segment.had_offset_index() || !segment.had_time_index() {
            let is_missed = segment.size() > 0;
            return if is_missed { Err(IndexError::Corrupt("missing".to_owned())) } else { Ok(None) };
        }
        segment.check_indexes(None)?;
        let offset = segment.base_offset();
        let last = segment.offset_index().last(Wait::ForDisk)?;
        // The last entry of the time index was made when the log was closed: it covers everything.
        let from_entry = |entry: OffsetPosition| {
            let position = entry.position.into();
            let last_index_entry = LastIndexEntry::at(position);
            Start { position, last_index_entry, named: Some(entry.offset), ..Start::of_segment(offset) }
        };
        Ok(Some(last.map_or(Start::of_segment(offset), from_entry)))
    }

    /// After a crash the batches below the recovery point are on disk, but of the indexes beside them perhaps only a part, with
    /// holes: a segment's are synced when it is sealed. They are made anew, by the headers alone as far as those are trusted.
    fn start_by_headers(&mut self, segment: &Arc<LogSegment>, floor: Offset) -> io::Result<Start> {
        let mut start = self.start_over(segment, floor)?;
        let latest_epoch = self.latest_epoch;
        let file = segment.file()?;
        let limit = self.limit_of(segment, self.params.damage)?;
        let scan = HeaderScan::new(&*file, segment.base_offset(), 0, segment.size(), floor, Wait::ForDisk);
        let mut scan = scan.before(self.next_base_offset(segment).max(limit));
        loop {
            match scan.next() {
                Ok(Some((position, frame))) if frame.last_offset() < self.recovery_point => {
                    self.index(segment, position, &frame, &mut start.last_index_entry)?;
                    self.note(segment, &frame);
                    self.latest_epoch = self.latest_epoch.max(frame.leader_epoch());
                    start.position = position + frame.size() as u64;
                    start.offset = frame.last_offset().plus(1);
                }
                Ok(_) => return Ok(start),
                // Perhaps it was a header before that lied: nothing here is trusted then.
                Err(ScanError::Damaged { .. }) => {
                    self.latest_epoch = latest_epoch;
                    return self.start_over(segment, floor);
                }
                Err(error) => return Err(error.into_io()),
            }
        }
    }

    /// Takes a batch into the segment's indexes.
    fn index(&self, segment: &LogSegment, position: u64, frame: &Frame, last: &mut LastIndexEntry) -> io::Result<()> {
        let last_offset = frame.last_offset();
        let entry = TimestampEntry { timestamp: frame.max_timestamp(), offset: last_offset };
        segment.observe_timestamp(entry).map_err(IndexError::into_io)?;
        let is_due = last.is_next_due(position, &self.params.config);
        if is_due && last_named(segment)?.is_none_or(|named| named < last_offset) {
            segment.append_index_entries(last_offset, position).map_err(IndexError::into_io)?;
            *last = LastIndexEntry::at(position);
        }
        Ok(())
    }

    /// Takes a batch into the epochs, and notes whether it is a producer's.
    fn note(&mut self, segment: &LogSegment, frame: &Frame) {
        if frame.has_producer_id() {
            self.without_producers.remove(&segment.base_offset());
        }
        if !self.epochs_are_lost {
            self.observe_epoch(frame);
        }
    }

    /// Reads every byte from `start` on; adds index entries, epochs and timestamps on the way.
    fn scan(
        &mut self,
        segment: &Arc<LogSegment>,
        start: Start,
        total: u64,
        policy: DamagePolicy,
    ) -> io::Result<Checked> {
        let file = segment.file()?;
        let (base_offset, end) = (segment.base_offset(), segment.size());
        let mut checked = Checked {
            next_offset: start.offset,
            damaged: Vec::new(),
            last_index_entry: start.last_index_entry,
            is_indexed: start.is_indexed,
            latest_epoch: self.latest_epoch,
            beyond: None,
        };
        let (next, limit) = (self.next_base_offset(segment), self.limit_of(segment, policy)?);
        let mut scan = FullScan::new(&*file, base_offset, start.position, end, start.offset).before(next, limit);
        let mut told = start.position;
        loop {
            match scan.next() {
                // A truncation that was not on disk, and what was appended since only in part.
                Ok(Some((position, frame)))
                    if policy.cuts_off()
                        && frame.leader_epoch().0 >= 0
                        && frame.leader_epoch() < checked.latest_epoch =>
                {
                    let (epoch, before) = (frame.leader_epoch(), checked.latest_epoch);
                    let reason =
                        format!("the batch from {} has epoch {epoch}, those before it {before}", frame.base_offset());
                    checked.damaged.push(Damage { from: position, to: end, reason });
                    break;
                }
                Ok(Some((position, frame))) => {
                    let follows_damage = checked.damaged.last().is_some_and(|damage| damage.to == position);
                    let leaves_out =
                        frame.base_offset() > checked.next_offset && !follows_damage || frame.lacks_records();
                    self.shows_compaction |=
                        leaves_out && matches!(frame, Frame::Batch(_)) && frame.base_offset() >= self.sound_up_to();
                    checked.latest_epoch = checked.latest_epoch.max(frame.leader_epoch());
                    if checked.is_indexed {
                        self.index(segment, position, &frame, &mut checked.last_index_entry)?;
                    }
                    self.note(segment, &frame);
                    if checked.beyond.is_none() && limit.is_some_and(|limit| frame.last_offset() >= limit) {
                        checked.beyond = Some((position, checked.next_offset));
                    }
                    checked.next_offset = frame.last_offset().plus(1);
                }
                Ok(None) => break,
                Err(ScanError::Damaged { position, reason }) => {
                    let next = match policy {
                        DamagePolicy::CutOff | DamagePolicy::CutOffKeepingCopy => None,
                        DamagePolicy::KeepReadable => scan.skip_damage().map_err(ScanError::into_io)?,
                    };
                    checked.damaged.push(Damage { from: position, to: next.unwrap_or(end), reason });
                    if next.is_none() {
                        break;
                    }
                    self.gaps.insert(checked.next_offset);
                }
                Err(error) => return Err(error.into_io()),
            }
            if scan.position() - told >= PROGRESS_BYTES {
                self.report.bytes_scanned += scan.position() - told;
                told = scan.position();
                self.tell_progress(segment, total);
            }
        }
        self.report.bytes_scanned += scan.position() - told;
        // After a clean end there is the end of the last segment to look at only, which is nobody's news.
        if total > 0 && !self.params.clean_shutdown {
            self.tell_progress(segment, total);
        }
        Ok(checked)
    }

    fn tell_progress(&self, segment: &LogSegment, bytes_total: u64) {
        if let Some(progress) = &self.params.progress {
            let base_offset = segment.base_offset();
            let left = self.segments.iter().filter(|segment| segment.base_offset() > base_offset).count();
            progress(&RecoveryStep {
                base_offset,
                bytes_read: self.report.bytes_scanned,
                bytes_total,
                segments_left: left,
            });
        }
    }

    /// Removes what is damaged: by cutting it off if nothing follows that is to stay, else by writing the segment
    /// without it.
    fn repair(
        &mut self,
        segment: &Arc<LogSegment>,
        floor: Offset,
        checked: Checked,
        policy: DamagePolicy,
    ) -> io::Result<()> {
        let size = segment.size();
        let Some(last) = checked.damaged.last() else {
            return Ok(());
        };
        let name = FileName::new(segment.base_offset(), FileKind::Log);
        let is_tail = checked.damaged.len() == 1 && last.to == size;
        for damage in &checked.damaged {
            let found =
                format!("{} bytes at {} are no records: {}", damage.to - damage.from, damage.from, damage.reason);
            self.report.bytes_removed += damage.to - damage.from;
            self.repaired(name, found, if is_tail { "cut them off" } else { "took them out" });
        }
        self.lost_txn_indexes.insert(segment.base_offset());
        if is_tail {
            self.keep_copy(segment, last.from)?;
            segment.cut_off(checked.next_offset, last.from).map_err(ReadError::into_io)?;
            if checked.is_indexed && segment.distrusts_index() {
                segment.rebuild_indexes_in_place(&self.params.config).map_err(ReadError::into_io)?;
            }
            // It may lie below the recovery point from now on, where nobody would look for what comes back.
            return segment.sync_all();
        }
        assert!(policy == DamagePolicy::KeepReadable, "cutting off leaves one stretch, at the end");
        self.write_without(segment, &checked.damaged)?;
        if checked.is_indexed {
            let start = self.start_over(segment, floor)?;
            self.last_index_entry = self.scan(segment, start, 0, policy)?.last_index_entry;
        }
        Ok(())
    }

    /// Keeps what is about to be cut off from `from` on, if that is wanted and a batch can be read in it.
    fn keep_copy(&mut self, segment: &LogSegment, from: u64) -> io::Result<()> {
        let (file, base_offset, size) = (segment.file()?, segment.base_offset(), segment.size());
        let mut scan = FullScan::new(&*file, base_offset, from, size, base_offset);
        let is_wanted = self.params.damage == DamagePolicy::CutOffKeepingCopy
            && match scan.next() {
                Ok(frame) => frame.is_some(),
                Err(ScanError::Damaged { .. }) => scan.skip_damage().map_err(ScanError::into_io)?.is_some(),
                Err(error) => return Err(error.into_io()),
            };
        if !is_wanted {
            return Ok(());
        }
        let name = format!("{}.cut-off-at-{from}", FileName::new(base_offset, FileKind::Log));
        let copy = self.context.disk.open(&self.dir.path().join(&name), OpenMode::Create)?;
        copy.set_len(0)?;
        self.copy_range(&*file, from..size, &*copy, 0)?;
        copy.sync_data()?;
        self.has_new_names = true;
        self.repaired(
            name,
            "records that can be read were cut off",
            "kept all that was cut off in it, for a person to look at",
        );
        self.context.disk.sync_dir(&self.dir.path())
    }

    /// Copies a stretch of a file to a position in another; returns where it ends there.
    fn copy_range(&self, source: &dyn DiskFile, range: Range<u64>, target: &dyn DiskFile, to: u64) -> io::Result<u64> {
        let mut buffer = vec![0; COPY_BYTES];
        let (mut at, mut written) = (range.start, to);
        while at < range.end {
            let part = buffer.len().min((range.end - at) as usize);
            source.read_exact_at(&mut buffer[..part], at)?;
            target.write_all_at(&buffer[..part], written)?;
            at += part as u64;
            written += part as u64;
        }
        Ok(written)
    }

    /// Replaces a segment's file by one without the damaged stretches.
    fn write_without(&mut self, segment: &Arc<LogSegment>, damaged: &[Damage]) -> io::Result<()> {
        if !self.renamed.contains(&segment.base_offset()) {
            let stretches = damaged.iter().map(|damage| damage.from..damage.to).collect();
            self.report.taken_out.push(TakenOut { base_offset: segment.base_offset(), stretches });
        }
        let dir = self.dir.path();
        let name = FileName::new(segment.base_offset(), FileKind::Log);
        let cleaned = name.with_state(FileState::Cleaned).path_in(&dir);
        let (source, target) = (segment.file()?, self.context.disk.open(&cleaned, OpenMode::Create)?);
        target.set_len(0)?;
        let ends = damaged.iter().map(|damage| damage.from).chain([segment.size()]);
        let starts = [0].into_iter().chain(damaged.iter().map(|damage| damage.to));
        let mut written = 0;
        for (start, end) in starts.zip(ends) {
            written = self.copy_range(&*source, start..end, &*target, written)?;
        }
        target.sync_data()?;
        self.context.disk.rename(&cleaned, &name.path_in(&dir))?;
        self.has_new_names = true;
        segment.replaced(written);
        Ok(())
    }
}

/// What can be done without for the time being.
fn unless_full(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if is_full(&error) => Ok(()),
        result => result,
    }
}

/// Whether there is a batch where an index entry says, and the one that it says.
fn names_a_batch(segment: &LogSegment, start: Start) -> io::Result<bool> {
    let Some(named) = start.named else {
        return Ok(true);
    };
    let file = segment.file()?;
    let mut scan = FullScan::new(&*file, segment.base_offset(), start.position, segment.size(), start.offset);
    match scan.next() {
        // An entry that an older Kafka made for several batches at once names the last offset of all of them.
        Ok(frame) => Ok(frame.is_some_and(|(_, frame)| frame.last_offset() <= named)),
        Err(ScanError::Damaged { .. }) => Ok(false),
        Err(error) => Err(error.into_io()),
    }
}

/// Whether there are timestamps of which the time index, which was completed when the log was closed, knows nothing.
fn lacks_times(segment: &LogSegment) -> io::Result<bool> {
    let last = segment.time_index().complete_last(None, Wait::ForDisk).map_err(IndexError::into_io)?;
    Ok(last.is_none() && segment.max_timestamp().map_err(IndexError::into_io)?.is_some_and(|max| max.timestamp > 0))
}

/// The index whose last entry names an offset behind what was found in the segment.
fn names_what_is_behind(segment: &LogSegment, checked: &Checked) -> io::Result<Option<FileKind>> {
    if last_named(segment)?.is_some_and(|named| named >= checked.next_offset) {
        return Ok(Some(FileKind::OffsetIndex));
    }
    let last = segment.time_index().last(Wait::ForDisk).map_err(IndexError::into_io)?;
    // Of damage at the end it may name what was there.
    let is_behind = checked.damaged.is_empty() && last.is_some_and(|last| last.offset >= checked.next_offset);
    Ok(is_behind.then_some(FileKind::TimeIndex))
}

/// The offset that the last entry of the offset index names. That of an index from before a power loss, or of an older
/// Kafka's, may be behind the batch at its position.
fn last_named(segment: &LogSegment) -> io::Result<Option<Offset>> {
    let last = segment.offset_index().last(Wait::ForDisk).map_err(IndexError::into_io)?;
    Ok(last.map(|entry| entry.offset))
}
