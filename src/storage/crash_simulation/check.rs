//! What must hold of a log that was opened, beside what was written to it.
//!
//! - Each batch found is one that was written, byte for byte, at its place; compaction may take records out, below where it
//!   has come.
//! - What was flushed is there, from the log's start on. After a kill everything is.
//! - What is missing in the middle was reported; where other replicas have the records, nothing is.
//! - The log does not begin before what a checkpoint says, nor behind what was asked for.
//! - Producers, epochs, aborted transactions, places and times are those of the batches found; no index is believed that lies.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::Arc;

use bytes::BytesMut;
use rand::RngExt as _;
use rand::rngs::SmallRng;

use crate::record::batch::{RecordBatch, batches};
use crate::storage::crash_simulation::model::{
    Doubt, Entry, Kind, PRODUCERS, Partition, ProducerView, Role, UNKNOWN, Written, producers_after,
};
use crate::storage::disk::Disk;
use crate::storage::index_file::IndexError;
use crate::storage::log::{Log, Wait};
use crate::storage::recovery::{DamagePolicy, RecoveryReport};
use crate::storage::simulated_disk::Crash;
use crate::storage::verify::{Severity, VerifyParams, verify};
use crate::types::{Offset, ProducerId};

type Check<T = ()> = Result<T, String>;

/// A batch that was read.
struct Found {
    base: i64,
    last: i64,
    bytes: Vec<u8>,
    is_control: bool,
    /// By offset.
    entries: BTreeMap<i64, Entry>,
}

fn ensure(holds: bool, what: impl FnOnce() -> String) -> Check {
    if holds { Ok(()) } else { Err(what()) }
}

impl Partition {
    /// Checks a log that was just opened, and takes it as it is from then on.
    pub fn check_start(
        &mut self,
        log: &Log,
        report: &RecoveryReport,
        ended_by: Option<Crash>,
        is_again: bool,
        random: &mut SmallRng,
    ) -> Check {
        let (start, end) = (log.log_start_offset().0, log.log_end_offset().0);
        let max_bytes = if random.random_bool(0.5) { 1 } else { 100_000 };
        let found = read(log, max_bytes)?;
        self.settle_doubts(&found, start, end);
        if ended_by == Some(Crash::PowerLoss) {
            self.settle_ghosts(&found);
        }
        self.check_bounds(log, ended_by, report)?;
        let is_kept = self.compare(&found, start, end, ended_by)?;
        if self.role != Role::Compacted {
            self.check_gaps(&found, start, end, is_again || !report.repairs.is_empty())?;
        }
        let mut kept = is_kept.iter();
        let gone = self.written.extract_if(.., |_| !*kept.next().expect("there is one for each batch"));
        let gone: Vec<Written> = gone.collect();
        if ended_by == Some(Crash::PowerLoss) {
            self.ghosts.clear();
            self.lost.extend(gone);
        } else {
            self.ghosts.extend(gone);
        }

        log.on_high_watermark(log.log_end_offset());
        let new_gaps = gaps(&found, start, end);
        self.gaps.extend(new_gaps);
        self.check_producers(log)?;
        self.check_epochs(log, &found)?;
        self.check_committed(log, &found)?;
        check_indexes(log)?;
        check_places(log, &found, random)?;
        check_times(log, &found, random)?;
        self.gaps = gaps(&found, start, end);
        (self.start, self.end, self.durable) = (start, end, self.durable.min(end));
        self.durable_start = self.durable_start.min(start);
        self.doubts.clear();
        Ok(())
    }

    /// Takes what was being appended for written if it is there.
    fn settle_doubts(&mut self, found: &[Found], start: i64, end: i64) {
        let doubts = self.doubts.clone();
        for doubt in doubts {
            let Doubt::Append(batch) = doubt else { continue };
            let is_there = found.iter().any(|f| f.base == batch.base && f.bytes == batch.bytes);
            let is_known = self.written.iter().any(|w| w.base == batch.base);
            if is_there && !is_known && batch.base >= start && batch.base < end {
                self.written.push(batch);
            } else if !is_there {
                self.ghosts.push(batch);
            }
        }
    }

    /// What a killed process had cut off may be there again, if nothing that was promised takes its place.
    fn settle_ghosts(&mut self, found: &[Found]) {
        let kept_below = self.kept_below();
        for ghost in std::mem::take(&mut self.ghosts) {
            let is_there = found.iter().any(|f| f.base == ghost.base && f.bytes == ghost.bytes);
            if is_there && ghost.base >= kept_below {
                self.written.retain(|batch| batch.last < ghost.base || batch.base > ghost.last);
                let at = self.written.partition_point(|batch| batch.base < ghost.base);
                self.written.insert(at, ghost);
            }
        }
    }

    /// A copy has taken the log's place, which may have what the log had lost.
    pub fn regain(&mut self, log: &Log) -> Check {
        let found = read(log, 100_000)?;
        for batch in std::mem::take(&mut self.lost) {
            let is_there = found.iter().any(|found| found.base == batch.base && found.bytes == batch.bytes);
            let at = self.written.partition_point(|written| written.base < batch.base);
            if is_there && self.written.get(at).is_none_or(|next| next.base > batch.last) {
                self.written.insert(at, batch);
                // A transaction may be open again.
                self.producers = std::array::from_fn(|who| view_of(log, who));
            }
        }
        Ok(())
    }

    fn check_bounds(&self, log: &Log, ended_by: Option<Crash>, report: &RecoveryReport) -> Check {
        let (start, end) = (log.log_start_offset().0, log.log_end_offset().0);
        let noted = self.doubts.iter().fold(self.durable_start, |noted, doubt| match doubt {
            Doubt::StartAnew(_) => 0,
            Doubt::Append(_) | Doubt::Truncate(_) | Doubt::DeleteRecords(_) => noted,
        });
        ensure(start >= noted, || format!("it starts at {start}, and was noted to start at {noted}"))?;
        match ended_by {
            None => {
                ensure((start, end) == (self.start, self.end), || {
                    format!("it goes from {start} to {end}, and was closed as {}..{}", self.start, self.end)
                })?;
                ensure(report.repairs.is_empty(), || format!("after an orderly end: {:?}", report.repairs))
            }
            Some(Crash::Kill) if !self.may_be_cut() => {
                ensure(end >= self.end, || format!("it ends at {end}, and had {}", self.end))?;
                ensure(start <= self.start_at_most(), || format!("it starts at {start}, and did at {}", self.start))
            }
            Some(_) => {
                // What was never on disk may be missing at the beginning as well.
                let limit = self.start_at_most().max(self.kept_below());
                ensure(start <= limit, || format!("it starts at {start}, behind {limit}"))?;
                // A start that is kept by nothing but the first segment's name.
                ensure(end >= self.kept_below(), || {
                    format!("it ends at {end}, flushed was up to {}", self.kept_below())
                })
            }
        }
    }

    fn may_be_cut(&self) -> bool {
        self.doubts.iter().any(|doubt| matches!(doubt, Doubt::Truncate(_) | Doubt::StartAnew(_)))
    }

    /// For each batch that was written, whether it is there, or as good as that.
    fn compare(&self, found: &[Found], start: i64, end: i64, ended_by: Option<Crash>) -> Check<Vec<bool>> {
        let by_base: HashMap<i64, &Found> = found.iter().map(|batch| (batch.base, batch)).collect();
        let is_kill = ended_by != Some(Crash::PowerLoss) && !self.may_be_cut();
        let mut all: BTreeMap<i64, &Entry> = BTreeMap::new();
        let mut kept = Vec::new();
        for batch in &self.written {
            for (offset, entry) in (batch.base..).zip(&batch.entries) {
                all.insert(offset, entry);
            }
            let is_there = match self.role {
                Role::Compacted => batch.last < end,
                Role::Leader | Role::Follower => by_base.contains_key(&batch.base),
            };
            // What lies before the start is remembered: producers are known by it.
            let is_deleted = batch.last < start;
            let must_be_there = !is_deleted && (is_kill || batch.last < self.kept_below());
            ensure(is_there || !must_be_there, || {
                format!("the batch from {} to {} is gone; flushed was up to {}", batch.base, batch.last, self.durable)
            })?;
            kept.push(is_there || is_deleted);
        }
        match self.role {
            Role::Leader | Role::Follower => {
                let written: HashMap<i64, &Written> = self.written.iter().map(|batch| (batch.base, batch)).collect();
                for batch in found {
                    let Some(as_written) = written.get(&batch.base) else {
                        return Err(format!("nobody wrote a batch at {}", batch.base));
                    };
                    ensure(as_written.bytes == batch.bytes, || format!("the batch at {} is another", batch.base))?;
                }
            }
            Role::Compacted => self.compare_records(found, &all, end)?,
        }
        Ok(kept)
    }

    fn compare_records(&self, found: &[Found], written: &BTreeMap<i64, &Entry>, end: i64) -> Check {
        let mut there: BTreeMap<i64, &Entry> = BTreeMap::new();
        for batch in found.iter().filter(|batch| !batch.is_control) {
            for (offset, entry) in &batch.entries {
                ensure(written.get(offset) == Some(&entry), || format!("the record at {offset} is another"))?;
                there.insert(*offset, entry);
            }
        }
        let mut last_of_key: BTreeMap<&[u8], (i64, &Entry)> = BTreeMap::new();
        for (n, batch) in self.written.iter().enumerate().filter(|(_, batch)| batch.last < end) {
            let Kind::Data { transactional } = batch.kind else { continue };
            let is_committed = !transactional || Partition::is_committed(&self.written, n) == Some(true);
            for (offset, entry) in (batch.base..).zip(&batch.entries) {
                if is_committed {
                    last_of_key.insert(&entry.key, (offset, entry));
                }
                if offset >= self.cleaned_to {
                    ensure(there.contains_key(&offset), || format!("the record at {offset} is gone, and {end} not"))?;
                }
            }
        }
        for (key, (offset, entry)) in last_of_key {
            let is_there = there.contains_key(&offset) || entry.value.is_none();
            ensure(is_there, || format!("the last value of {key:?}, at {offset}, is gone"))?;
        }
        Ok(())
    }

    /// `is_told`: or was by a start that did not come to its end.
    fn check_gaps(&self, found: &[Found], start: i64, end: i64, is_told: bool) -> Check {
        for (from, to) in gaps(found, start, end) {
            let is_known = self.gaps.iter().any(|known| known.0 == from || known.0 < from && to <= known.1);
            let may_be = self.damage == DamagePolicy::KeepReadable && is_told;
            ensure(is_known || may_be, || format!("nobody was told that {from}..{to} is missing"))?;
        }
        Ok(())
    }

    fn check_producers(&mut self, log: &Log) -> Check {
        let first_segment = log.segments()[0].base_offset.0;
        let start = log.log_start_offset().0.max(first_segment);
        let end = log.log_end_offset().0;
        // Those who wrote before the log's start may be forgotten: that many of the batches are not looked at. Of the
        // segment in which the log starts they may also be lost.
        let (segment, bases) = batches_before_start(log)?;
        let is_there = |batch: &&Written| {
            self.role == Role::Compacted || !(segment..start).contains(&batch.base) || bases.contains(&batch.base)
        };
        let surviving: Vec<&Written> = self.written.iter().filter(|batch| batch.last < end).filter(is_there).collect();
        let forgotten = surviving.iter().filter(|batch| batch.base < start).count();
        let possible: Vec<[ProducerView; PRODUCERS]> =
            (0..=forgotten).map(|from| producers_after(surviving[from..].iter().copied())).collect();
        for who in 0..PRODUCERS {
            let view = view_of(log, who);
            // What follows a lost marker contradicts it, and is passed over.
            let is_possible = possible.iter().any(|views| views[who] == view) || !self.gaps.is_empty();
            ensure(is_possible, || format!("producer {who} is {view:?}, by the batches {:?}", possible[0][who]))?;
            self.producers[who] = view;
        }
        let unstable = self.producers.iter().filter_map(|view| view.open_since).min().map(|first| first.max(start));
        let found = log.first_unstable_offset().map(|offset| offset.0);
        ensure(found == unstable, || format!("the first unstable offset is {found:?}, not {unstable:?}"))
    }

    /// After a truncation: the producers are what the log says of them, and that follows from the batches.
    pub fn take_over_producers(&mut self, log: &Log) -> Check {
        log.on_high_watermark(log.log_end_offset());
        self.check_producers(log)
    }

    fn check_epochs(&mut self, log: &Log, found: &[Found]) -> Check {
        for batch in found {
            let offset = batch.base.max(log.log_start_offset().0);
            let is_within = |written: &&Written| written.base <= offset && offset <= written.last;
            let Some(written) = self.written.iter().find(is_within) else { continue };
            let epoch = log.leader_epoch_at(Offset(offset));
            ensure(epoch == Some(written.epoch), || {
                format!("{offset} is said to be of epoch {epoch:?}, not {}", written.epoch)
            })?;
        }
        self.epoch = self.epoch.max(log.latest_epoch().unwrap_or(self.epoch));
        Ok(())
    }

    /// A reader of committed records gets those, and no others.
    fn check_committed(&self, log: &Log, found: &[Found]) -> Check {
        let (start, end) = (log.log_start_offset(), log.log_end_offset());
        let bound = log.first_unstable_offset().unwrap_or(end);
        let mut expected: Vec<i64> = Vec::new();
        for batch in found.iter().filter(|batch| !batch.is_control) {
            let is_within = |written: &Written| written.base <= batch.base && batch.base <= written.last;
            let Some(n) = self.written.iter().position(is_within) else { continue };
            let is_transactional = self.written[n].kind == Kind::Data { transactional: true };
            if !is_transactional || Partition::is_committed(&self.written, n) == Some(true) {
                let offsets = batch.entries.keys().copied();
                expected.extend(offsets.filter(|offset| *offset >= start.0 && *offset < bound.0));
            }
        }
        let committed = read_committed(log, bound)?;
        ensure(committed == expected, || format!("committed are {committed:?}, not {expected:?}"))
    }

    /// After a failure of the disk: everything that was acknowledged can be read.
    pub fn check_reads(&self, log: &Log) -> Check {
        let found = match read(log, 100_000) {
            // What is in it is on its way out.
            Err(_) if self.doubts.iter().any(|doubt| matches!(doubt, Doubt::StartAnew(_))) => return Ok(()),
            found => found?,
        };
        for batch in &found {
            let is_known = match self.role {
                Role::Compacted => self.written.iter().any(|w| w.base <= batch.base && batch.last <= w.last),
                _ => self.written.iter().any(|w| w.base == batch.base && w.bytes == batch.bytes),
            };
            ensure(is_known, || format!("nobody was told of the batch at {}", batch.base))?;
        }
        let is_cut = !self.doubts.iter().all(|doubt| matches!(doubt, Doubt::Append(_)));
        if !is_cut {
            let end = log.log_end_offset().0;
            ensure(end == self.end, || format!("it ends at {end}, not {}", self.end))?;
            let is_there = |batch: &Written| found.iter().any(|found| found.base == batch.base);
            let lost = self.written.iter().find(|batch| batch.base >= self.start && !is_there(batch));
            let lost = lost.filter(|_| self.role != Role::Compacted && self.gaps.is_empty());
            ensure(lost.is_none(), || format!("the batch at {:?} cannot be read", lost.map(|batch| batch.base)))?;
        }
        Ok(())
    }

    /// Looks at every byte of a log that was closed in order.
    pub fn verify(&self, disk: &Arc<dyn Disk>, dir: PathBuf) -> Check {
        let params = VerifyParams { dir, log_start_offset: Offset(self.start), was_closed: true, is_set_aside: false };
        let verified = verify(disk, &params, &mut ()).map_err(|error| error.to_string())?;
        let is_fault = |finding: &&crate::storage::verify::Finding| {
            // A snapshot less makes a start slower, and no more. One that says what is wrong would be something else.
            let is_unusable_snapshot = finding.file.ends_with(".snapshot") && !finding.what.contains("offset");
            // Of what lies before the log's start not all is remembered.
            let is_deleted = finding.file.ends_with(".txnindex") && self.start > 0 && !finding.what.contains("entries")
                || finding.what == "has no entries" && self.start == self.end;
            // Zeros that a torn index begins with may be an entry, and as such say nothing.
            let is_nothing =
                finding.file.ends_with(".timeindex") && finding.what.starts_with("entry 0 says 0 for offset 0,");
            finding.severity == Severity::Fault && !is_unusable_snapshot && !is_deleted && !is_nothing
        };
        let fault = verified.findings.iter().find(is_fault);
        ensure(fault.is_none(), || format!("{fault:?}"))
    }
}

fn view_of(log: &Log, who: usize) -> ProducerView {
    log.with_producers(|producers| {
        producers.entry(ProducerId(who as i64)).map_or(UNKNOWN, |entry| ProducerView {
            last_sequence: entry.last_sequence(),
            open_since: entry.current_txn_first_offset.map(|offset| offset.0),
        })
    })
}

/// Where the segment begins in which the log starts, and the base offsets of the batches that it has.
fn batches_before_start(log: &Log) -> Check<(i64, BTreeSet<i64>)> {
    let segments = log.segments.load();
    let starts = segments.partition_point(|segment| segment.base_offset() <= log.log_start_offset());
    let segment = &segments[starts.saturating_sub(1)];
    let file = segment.file().map_err(|error| error.to_string())?;
    let mut walk = segment.readable(&*file, 0, segment.size(), Wait::ForDisk);
    let mut bases = BTreeSet::new();
    while let Some((_, frame)) = walk.next().map_err(|error| error.to_string())? {
        bases.insert(frame.base_offset().0);
    }
    Ok((segment.base_offset().0, bases))
}

/// Offsets that no batch has, from and up to.
fn gaps(found: &[Found], start: i64, end: i64) -> Vec<(i64, i64)> {
    let mut gaps = Vec::new();
    let mut next = start;
    for (base, behind) in found.iter().map(|batch| (batch.base, batch.last + 1)).chain([(end, end)]) {
        if base > next {
            gaps.push((next, base));
        }
        next = next.max(behind);
    }
    gaps
}

/// All batches, as a consumer gets them.
fn read(log: &Log, max_bytes: usize) -> Check<Vec<Found>> {
    let end = log.log_end_offset();
    let mut next = log.log_start_offset();
    let mut all = Vec::new();
    while next < end {
        let read = log.read(next, max_bytes, end, true, Wait::ForDisk).map_err(|error| error.to_string())?;
        let mut bytes = BytesMut::new();
        read.slice.read_into(&mut bytes).map_err(|error| error.to_string())?;
        let before = next;
        for batch in batches(&bytes) {
            let batch = batch.map_err(|error| format!("served at {next}: {error}"))?;
            ensure(batch.is_crc_valid(), || format!("a torn batch is served at {next}"))?;
            ensure(batch.last_offset() >= next, || format!("{} is served again, at {next}", batch.base_offset()))?;
            next = batch.last_offset().plus(1);
            all.push(found(&batch)?);
        }
        if next == before {
            break;
        }
    }
    Ok(all)
}

fn found(batch: &RecordBatch<'_>) -> Check<Found> {
    let mut entries = BTreeMap::new();
    for record in batch.uncompressed_records().ok_or("it is compressed")? {
        let record = record.map_err(|error| error.to_string())?;
        let entry = Entry {
            timestamp: record.timestamp,
            key: record.key.unwrap_or_default().to_vec(),
            value: record.value.map(<[u8]>::to_vec),
        };
        entries.insert(record.offset.0, entry);
    }
    Ok(Found {
        base: batch.base_offset().0,
        last: batch.last_offset().0,
        bytes: batch.bytes().to_vec(),
        is_control: batch.is_control(),
        entries,
    })
}

/// The offsets of what a reader of committed records below `bound` is given.
fn read_committed(log: &Log, bound: Offset) -> Check<Vec<i64>> {
    let mut next = log.log_start_offset();
    let start = next.0;
    let mut all = Vec::new();
    while next < bound {
        let read = log.read(next, 300, bound, true, Wait::ForDisk).map_err(|error| error.to_string())?;
        let mut bytes = BytesMut::new();
        read.slice.read_into(&mut bytes).map_err(|error| error.to_string())?;
        let told = log.aborted_transactions_in(&read, next, Wait::ForDisk).map_err(|error| error.to_string())?;
        let mut aborted: HashMap<i64, Vec<i64>> = HashMap::new();
        for txn in &told {
            aborted.entry(txn.producer_id.0).or_default().push(txn.first_offset.0);
        }
        aborted.values_mut().for_each(|firsts| firsts.sort_unstable_by(|a, b| b.cmp(a)));
        let before = next;
        for batch in batches(&bytes) {
            let batch = batch.map_err(|error| error.to_string())?;
            next = batch.last_offset().plus(1);
            let firsts = aborted.get_mut(&batch.producer_id().0);
            let current = firsts.filter(|firsts| firsts.last().is_some_and(|first| *first <= batch.last_offset().0));
            if batch.is_control() {
                let marker = batch.uncompressed_records().ok_or("it is compressed")?.next();
                if let (Some(firsts), Some(Ok(record))) = (current, marker)
                    && record.key == Some(&[0, 0, 0, 0])
                {
                    firsts.pop();
                }
                continue;
            }
            if !(batch.is_transactional() && current.is_some()) {
                let offsets = found(&batch)?.entries.into_keys();
                all.extend(offsets.filter(|offset| *offset >= start && *offset < bound.0));
            }
        }
        if next == before {
            break;
        }
    }
    Ok(all)
}

/// All that the indexes say is so.
fn check_indexes(log: &Log) -> Check {
    for segment in log.segments.load().iter() {
        let base_offset = segment.base_offset();
        let file = segment.file().map_err(|error| error.to_string())?;
        let mut walk = segment.readable(&*file, 0, segment.size(), Wait::ForDisk);
        let (mut at, mut times, mut max) = (BTreeMap::new(), BTreeMap::new(), None);
        while let Some((position, frame)) = walk.next().map_err(|error| error.to_string())? {
            at.insert(position, frame.last_offset());
            times.insert(frame.last_offset(), frame.max_timestamp());
            max = max.max(Some(frame.max_timestamp()));
        }
        let lies = |what: String| Err(IndexError::Corrupt(what));
        let checked = match segment.distrusts_index() {
            true => Ok(()),
            false => segment
                .offset_index()
                .try_for_each(|entry| match at.get(&entry.position.into()) == Some(&entry.offset) {
                    true => Ok(()),
                    false => lies(format!("{entry:?}")),
                })
                .and_then(|()| {
                    segment.time_index().try_for_each(|entry| {
                        match times.get(&entry.offset) == Some(&entry.timestamp) {
                            true => Ok(()),
                            false => lies(format!("{entry:?}")),
                        }
                    })
                }),
        };
        checked.map_err(|what| format!("an index of the segment {base_offset} says {what}"))?;
        let found = segment.max_timestamp().map_err(|error| error.to_string())?.map(|max| max.timestamp);
        ensure(found == max, || format!("the segment {base_offset} is said to go up to {found:?}, not {max:?}"))?;
    }
    Ok(())
}

/// Reading from anywhere begins where it should, by the indexes.
fn check_places(log: &Log, found: &[Found], random: &mut SmallRng) -> Check {
    let (start, end) = (log.log_start_offset().0, log.log_end_offset().0);
    for _ in 0..3 {
        let from = random.random_range(start..=end);
        let expected = found.iter().map(|batch| batch.last).find(|last| *last >= from);
        let read = log.read(Offset(from), 1, Offset(end), true, Wait::ForDisk).map_err(|error| error.to_string())?;
        let mut bytes = BytesMut::new();
        read.slice.read_into(&mut bytes).map_err(|error| error.to_string())?;
        let first = batches(&bytes).next().and_then(Result::ok).map(|batch| batch.last_offset().0);
        ensure(first == expected, || format!("from {from} on {first:?} is read, not {expected:?}"))?;
    }
    Ok(())
}

/// Looking for a time finds the first record of it, by the indexes.
fn check_times(log: &Log, found: &[Found], random: &mut SmallRng) -> Check {
    let start = log.log_start_offset().0;
    let records = || found.iter().flat_map(|batch| &batch.entries).filter(|(offset, _)| **offset >= start);
    let times: Vec<i64> = records().map(|(_, entry)| entry.timestamp).collect();
    for _ in 0..2 {
        let wanted = if times.is_empty() { 5 } else { times[random.random_range(0..times.len())] };
        let wanted = wanted + random.random_range(0..2);
        let expected = records().find(|(_, entry)| entry.timestamp >= wanted).map(|(offset, _)| *offset);
        let found = log.offset_for_timestamp(wanted).map_err(|error| error.to_string())?;
        let found = found.map(|found| found.offset.0);
        ensure(found == expected, || format!("the time {wanted} is at {found:?}, not {expected:?}"))?;
    }
    Ok(())
}
