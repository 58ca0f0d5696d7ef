//! Looks at every byte of a log without changing any: what is wrong, where, and what [`crate::storage::recovery`] would do
//! about it.
//!
//! | file | what is checked |
//! |---|---|
//! | `.log` | each batch whole and with its checksum, offsets ascending and in front of the next segment's, leader epochs never falling, the records within (decompressed), the largest timestamp |
//! | `.index` | entries ascend, each names a batch that begins there |
//! | `.timeindex` | entries ascend, each names a batch of that timestamp, none before it is later; that of a sealed segment is complete |
//! | `.txnindex` | each entry names a marker that aborts; no aborted transaction is missing |
//! | `.snapshot` | its checksum, its offsets; none is missing that a start would want |
//! | `leader-epoch-checkpoint` | ascends, and agrees with the batches |
//! | others | what an interrupted deletion or compaction left |
//! | all of them | that they are files, and may be read |
//!
//! A *fault* is what a broker that wrote everything and closed in order would not leave; a *note* is worth knowing and no
//! damage, as what a deletion has not removed yet. Memory does not depend on the size of the log, but for what one batch
//! and the indexes of one segment take, and the producers of the log.

mod indexes;
mod segment;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::record::batch::RecordBatch;
use crate::storage::checkpoint;
use crate::storage::disk::{DirEntry, Disk, OpenMode};
use crate::storage::file_cache::Directory;
use crate::storage::file_name::{FileKind, FileName, FileState};
use crate::storage::leader_epochs::{self, EpochEntry};
use crate::storage::producer_state::snapshot;
use crate::storage::producer_state::{ProducerStateConfig, ProducerStateManager};
use crate::storage::scan::start_of_records;
use crate::types::{LeaderEpoch, Offset};

/// As a checkpoint of epochs is small.
const MAX_EPOCHS_SIZE: usize = 64 << 20;
/// 46 bytes for each producer.
const MAX_SNAPSHOT_SIZE: usize = 1 << 30;
/// How many findings of one kind a file may have before the rest are only counted.
const MAX_FINDINGS: usize = 100;

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    Fault,
    Note,
}

/// What a repair does about a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remedy {
    /// The end of the log is removed: it holds no readable records.
    CutOff,
    /// A stretch that holds no readable records is removed; or, where other replicas have the records, all behind it.
    TakeOut,
    /// It follows from the batches, and is made anew.
    Rebuild,
    /// It is of no use to anybody.
    Remove,
    /// What was interrupted is brought to its end.
    Complete,
    /// The entry is brought within the log's bounds, or the line that cannot be read dropped.
    Correct,
    /// Nothing: it cannot be known what is right, or a start deals with it.
    None,
}

/// Something that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    pub severity: Severity,
    /// Name of the file, or of what is missing.
    pub file: String,
    /// Where in it, in bytes.
    pub position: Option<u64>,
    pub what: String,
    pub remedy: Remedy,
}

impl Finding {
    pub fn fault(
        file: impl ToString,
        position: impl Into<Option<u64>>,
        what: impl ToString,
        remedy: Remedy,
    ) -> Finding {
        let (file, position, what) = (file.to_string(), position.into(), what.to_string());
        Finding { severity: Severity::Fault, file, position, what, remedy }
    }

    pub fn note(file: impl ToString, what: impl ToString, remedy: Remedy) -> Finding {
        Finding { severity: Severity::Note, ..Finding::fault(file, None, what, remedy) }
    }
}

/// A stretch of a segment's file that holds no whole batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DamagedStretch {
    /// The segment.
    pub base_offset: Offset,
    pub from: u64,
    pub to: u64,
    /// Readable batches of the same segment follow it.
    pub is_followed: bool,
}

/// What a look at a log found.
#[derive(Clone, Debug, Default)]
pub struct VerifiedLog {
    pub findings: Vec<Finding>,
    pub damaged: Vec<DamagedStretch>,
    /// Not all of it could be read: nothing is known of the rest, nor of where the log ends.
    pub is_unreadable: bool,
    /// Names of files, none of them of records, for which something else stands there.
    pub no_files: Vec<String>,
    /// Where the first segment begins; `None`: there is none.
    pub first_offset: Option<Offset>,
    /// Behind the last whole batch.
    pub log_end_offset: Offset,
    /// Of the last batch that has one.
    pub last_epoch: Option<LeaderEpoch>,
    pub segments: u64,
    pub batches: u64,
    pub records: u64,
    pub bytes: u64,
}

impl VerifiedLog {
    /// Of a log that cannot be looked at.
    pub fn unreadable(error: io::Error) -> VerifiedLog {
        let findings = vec![Finding::fault("", None, format!("cannot be read: {error}"), Remedy::None)];
        VerifiedLog { findings, is_unreadable: true, ..VerifiedLog::default() }
    }
}

/// What is known of a log beforehand.
#[derive(Clone, Debug)]
pub struct VerifyParams {
    pub dir: PathBuf,
    /// From `log-start-offset-checkpoint`; 0 if it is not there.
    pub log_start_offset: Offset,
    /// The log directory has the marker of an orderly close. Without it, files that are written last may lack.
    pub was_closed: bool,
    /// No start opens it: it was set aside, perhaps while it was in use, or is a copy that was only begun. What a start goes by may lack.
    pub is_set_aside: bool,
}

/// Who wants to hear of what is read.
pub trait VerifyObserver {
    /// So many more bytes were read.
    fn read(&mut self, _bytes: u64) {}

    /// A whole batch with a right checksum and readable records, in the order of the log.
    fn batch(&mut self, _batch: &RecordBatch<'_>) {}
}

/// For those who do not.
impl VerifyObserver for () {}

/// Looks at the log in a directory. An error only if the directory itself cannot be read.
pub fn verify(
    disk: &Arc<dyn Disk>,
    params: &VerifyParams,
    observer: &mut dyn VerifyObserver,
) -> io::Result<VerifiedLog> {
    let dir = Directory::new(params.dir.clone());
    let producers = ProducerStateManager::open(disk.clone(), dir, ProducerStateConfig::default())?;
    let mut check = LogCheck {
        disk: &**disk,
        params,
        observer,
        producers,
        epochs: Vec::new(),
        epochs_are_known: false,
        epochs_disagree: false,
        found: VerifiedLog::default(),
    };
    check.log()?;
    Ok(check.found)
}

/// A log that is looked at.
struct LogCheck<'a> {
    disk: &'a dyn Disk,
    params: &'a VerifyParams,
    observer: &'a mut dyn VerifyObserver,
    /// The producers as the batches so far have them.
    producers: ProducerStateManager,
    epochs: Vec<EpochEntry>,
    /// The file could be read.
    epochs_are_known: bool,
    /// That was said once.
    epochs_disagree: bool,
    found: VerifiedLog,
}

/// The files of a segment beside its log.
#[derive(Clone, Copy, Debug, Default)]
struct SegmentFiles {
    offset_index: bool,
    time_index: bool,
    txn_index: bool,
}

impl LogCheck<'_> {
    fn log(&mut self) -> io::Result<()> {
        let (segments, snapshots) = self.list()?;
        self.read_epochs()?;
        self.found.first_offset = segments.keys().next().copied();
        self.found.segments = segments.len() as u64;
        let Some(first) = self.found.first_offset else {
            self.found.log_end_offset = self.params.log_start_offset;
            let is_expected = self.params.was_closed || self.disk.list(&self.params.dir)?.is_empty();
            if is_expected && !self.params.is_set_aside && !self.found.is_unreadable {
                let what = "there is no segment";
                self.found.findings.push(Finding::fault("", None, what, Remedy::None));
            }
            return self.check_snapshots(&snapshots, &[]);
        };
        self.found.log_end_offset = first;
        let last = segments.keys().next_back().copied();
        for (base_offset, files) in &segments {
            if *base_offset < self.found.log_end_offset {
                let what =
                    format!("begins at {base_offset}, but the segment before ends at {}", self.found.log_end_offset);
                let name = FileName::new(*base_offset, FileKind::Log);
                self.found.findings.push(Finding::fault(name, None, what, Remedy::TakeOut));
            }
            // One without batches says where the log ends as well.
            self.found.log_end_offset = self.found.log_end_offset.max(*base_offset);
            let behind = segments.range(base_offset.plus(1)..).map(|(base_offset, _)| *base_offset);
            let limit = self.first_record(behind);
            if let Err(error) = self.segment(*base_offset, *files, Some(*base_offset) == last, limit) {
                // A bad block, or a file that a running broker has removed: the others can be looked at.
                self.unreadable(FileName::new(*base_offset, FileKind::Log), &error);
            }
        }
        self.check_epochs(first);
        let bases: Vec<Offset> = segments.into_keys().collect();
        self.check_snapshots(&snapshots, &bases)
    }

    /// Where the records of these segments begin, of the first one that can be read and has any.
    fn first_record(&self, segments: impl Iterator<Item = Offset>) -> Option<Offset> {
        let first_of = |base_offset: Offset| {
            let path = FileName::new(base_offset, FileKind::Log).path_in(&self.params.dir);
            let file = self.disk.open(&path, OpenMode::Read).ok()?;
            let size = file.file_len().ok()?;
            // What cannot be read is told when it is its turn.
            start_of_records(&*file, base_offset, size).ok()?
        };
        segments.filter_map(first_of).next()
    }

    /// The segments, and the offsets of producer snapshots.
    fn list(&mut self) -> io::Result<(BTreeMap<Offset, SegmentFiles>, Vec<Offset>)> {
        let entries = self.disk.list(&self.params.dir)?;
        let out_of_reach = self.check_kinds(&entries);
        let files = entries.iter().filter(|entry| entry.is_file());
        let mut names: Vec<FileName> =
            files.filter_map(|entry| entry.name.to_str()).filter_map(FileName::parse).collect();
        names.sort();
        let mut segments = BTreeMap::<Offset, SegmentFiles>::new();
        let in_use = |kind| move |name: &&FileName| name.state == FileState::InUse && name.kind == kind;
        for name in names.iter().filter(in_use(FileKind::Log)) {
            segments.insert(name.base_offset, SegmentFiles::default());
        }
        // A segment that is about to be put in its place brings or keeps its indexes.
        let swapped: Vec<Offset> = names
            .iter()
            .filter(|name| name.state == FileState::Swap && name.kind == FileKind::Log)
            .map(|name| name.base_offset)
            .collect();
        // Nor are those of a segment that is out of reach without one.
        let swapped: Vec<Offset> = swapped.into_iter().chain(out_of_reach).collect();
        let mut snapshots = Vec::new();
        for name in &names {
            match (name.state, name.kind, segments.get_mut(&name.base_offset)) {
                (FileState::Swap, ..) => {
                    let what = "an exchange of segments was interrupted";
                    self.found.findings.push(Finding::fault(name, None, what, Remedy::Complete));
                }
                (FileState::Deleted | FileState::Cleaned | FileState::Temporary, ..)
                | (FileState::InUse, FileKind::Log, _) => {}
                (FileState::InUse, FileKind::Snapshot, _) => snapshots.push(name.base_offset),
                (FileState::InUse, FileKind::OffsetIndex, Some(files)) => files.offset_index = true,
                (FileState::InUse, FileKind::TimeIndex, Some(files)) => files.time_index = true,
                (FileState::InUse, FileKind::TxnIndex, Some(files)) => files.txn_index = true,
                (FileState::InUse, FileKind::OffsetIndex | FileKind::TimeIndex | FileKind::TxnIndex, None) => {
                    if !swapped.contains(&name.base_offset) {
                        let what = "an index without its segment";
                        self.found.findings.push(Finding::fault(name, None, what, Remedy::Remove));
                    }
                }
            }
        }
        for (state, what) in [
            (FileState::Deleted, "waits for its deletion"),
            (FileState::Cleaned, "is left of a compaction that did not finish"),
            (FileState::Temporary, "is an index that was being built anew"),
        ] {
            let mut left = names.iter().filter(|name| name.state == state);
            if let Some(first) = left.next() {
                let more = left.count();
                let what = if more > 0 { format!("{what}, and {more} more files") } else { what.to_owned() };
                self.found.findings.push(Finding::note(first, what, Remedy::Remove));
            }
        }
        Ok((segments, snapshots))
    }

    /// Names what is no file, though it has the name of one. Returns the segments whose records are out of reach for that.
    fn check_kinds(&mut self, entries: &[DirEntry]) -> Vec<Offset> {
        let mut out_of_reach = Vec::new();
        for entry in entries.iter().filter(|entry| !entry.is_file()) {
            let Some(text) = entry.name.to_str() else { continue };
            let name = FileName::parse(text);
            let (what, remedy) = match name {
                Some(name) if name.holds_records() => {
                    out_of_reach.push(name.base_offset);
                    self.found.is_unreadable = true;
                    let what = "the log cannot be opened until the segment's file is there again";
                    (format!("is {}, not a file: {what}", entry.kind), Remedy::None)
                }
                Some(name) if name.state != FileState::InUse => {
                    (format!("is {}, not a file", entry.kind), Remedy::Remove)
                }
                None if text != leader_epochs::FILE_NAME => continue,
                _ => (format!("is {}, not a file", entry.kind), Remedy::Rebuild),
            };
            if remedy != Remedy::None {
                self.found.no_files.push(text.to_owned());
            }
            self.found.findings.push(Finding::fault(text, None, what, remedy));
        }
        out_of_reach
    }

    /// Says that a file is there, and cannot be read.
    fn unreadable(&mut self, file: impl ToString, error: &io::Error) {
        let file = file.to_string();
        if !self.says(&file) {
            // The file is named already.
            let (error, path) = (error.to_string(), self.params.dir.join(&file));
            let error = error.strip_prefix(&format!("{}: ", path.display())).unwrap_or(&error);
            let what = format!("cannot be read: {error}");
            self.found.findings.push(Finding::fault(file, None, what, Remedy::None));
        }
        self.found.is_unreadable = true;
    }

    fn read_epochs(&mut self) -> io::Result<()> {
        let name = leader_epochs::FILE_NAME;
        let bytes = match self.disk.read_file(&self.params.dir.join(name), MAX_EPOCHS_SIZE) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                // Told when there is a batch that should be in it.
                return Ok(());
            }
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                if !self.says(name) {
                    self.found.findings.push(Finding::fault(name, None, error, Remedy::Rebuild));
                }
                return Ok(());
            }
            Err(error) => {
                self.unreadable(name, &error);
                return Ok(());
            }
        };
        let text = str::from_utf8(&bytes).map_err(|_| checkpoint::CheckpointError::NotText);
        match text.and_then(leader_epochs::decode) {
            Ok(entries) => {
                let falls = |pair: &&[EpochEntry]| {
                    pair[0].epoch >= pair[1].epoch || pair[0].start_offset >= pair[1].start_offset
                };
                if let Some(pair) = entries.windows(2).find(falls) {
                    let (before, after) = (pair[0], pair[1]);
                    let what = format!(
                        "epoch {} at {} follows epoch {} at {}",
                        after.epoch, after.start_offset, before.epoch, before.start_offset
                    );
                    self.found.findings.push(Finding::fault(name, None, what, Remedy::Rebuild));
                } else {
                    self.epochs = entries;
                    self.epochs_are_known = true;
                }
            }
            Err(error) => self.found.findings.push(Finding::fault(name, None, error, Remedy::Rebuild)),
        }
        Ok(())
    }

    /// What the file of epochs says of where the log begins and ends.
    fn check_epochs(&mut self, first_offset: Offset) {
        let start = first_offset.max(self.params.log_start_offset);
        let end = self.found.log_end_offset;
        let name = leader_epochs::FILE_NAME;
        if self.found.last_epoch.is_some() && self.epochs.is_empty() && !self.says(name) {
            let what = if self.epochs_are_known { "has no entries" } else { "missing" };
            self.found.findings.push(Finding::fault(name, None, what, Remedy::Rebuild));
        }
        // Both are brought within the log's bounds by every start, and lag behind while the broker runs.
        if !self.params.was_closed || self.found.is_unreadable {
            return;
        }
        let early = self.epochs.first().filter(|entry| entry.start_offset < start).copied();
        let late = self.epochs.last().filter(|entry| entry.start_offset > end).copied();
        if let Some(entry) = early {
            let what = format!("epoch {} begins at {}, the log at {start}", entry.epoch, entry.start_offset);
            self.found.findings.push(Finding::fault(name, None, what, Remedy::Correct));
        }
        if let Some(entry) = late {
            let what = format!("epoch {} begins at {}, the log ends at {end}", entry.epoch, entry.start_offset);
            self.found.findings.push(Finding::fault(name, None, what, Remedy::Correct));
        }
    }

    /// Whether there is a finding of a file already.
    fn says(&self, file: &str) -> bool {
        self.found.findings.iter().any(|finding| finding.file == file)
    }

    fn check_snapshots(&mut self, snapshots: &[Offset], bases: &[Offset]) -> io::Result<()> {
        let end = self.found.log_end_offset;
        for offset in snapshots {
            let name = FileName::new(*offset, FileKind::Snapshot);
            let path = name.path_in(&self.params.dir);
            let wrong = match self.disk.read_file(&path, MAX_SNAPSHOT_SIZE) {
                Ok(bytes) => snapshot_fault(&bytes, *offset, if self.found.is_unreadable { *offset } else { end }),
                Err(error) if error.kind() == io::ErrorKind::InvalidData => Some(error.to_string()),
                Err(error) => {
                    self.unreadable(name, &error);
                    continue;
                }
            };
            if let Some(what) = wrong {
                let is_behind = *offset > end && !self.found.is_unreadable;
                let remedy = if is_behind { Remedy::Remove } else { Remedy::Rebuild };
                self.found.findings.push(Finding::fault(name, None, what, remedy));
            }
        }
        if self.params.is_set_aside {
            return Ok(());
        }
        // Those at or before the log's start go with the records there.
        let start = self.params.log_start_offset;
        let is_wanted = |base: &Offset| *base <= end && *base > start;
        let mut missing: Vec<Offset> = bases.iter().skip(1).copied().filter(is_wanted).collect();
        // The one at the end is written when the log is closed; a damaged end never was one.
        let ends_in_damage =
            self.found.damaged.iter().any(|damage| !damage.is_followed && Some(&damage.base_offset) == bases.last());
        let ends_there = !ends_in_damage && !self.found.is_unreadable;
        if bases.first().is_some_and(|first| start.max(*first) < end) && self.params.was_closed && ends_there {
            missing.push(end);
        }
        let is_there = |offset: &Offset| snapshots.contains(offset) || self.says(&snapshot_name(*offset));
        missing.retain(|offset| !is_there(offset));
        missing.dedup();
        for offset in missing {
            let name = FileName::new(offset, FileKind::Snapshot);
            self.found.findings.push(Finding::fault(name, None, "missing", Remedy::Rebuild));
        }
        Ok(())
    }
}

fn snapshot_name(offset: Offset) -> String {
    FileName::new(offset, FileKind::Snapshot).to_string()
}

/// What is wrong with a producer snapshot, if anything is.
fn snapshot_fault(bytes: &[u8], offset: Offset, log_end_offset: Offset) -> Option<String> {
    let entries = match snapshot::decode(bytes) {
        Ok(entries) => entries,
        Err(error) => return Some(error.to_string()),
    };
    if offset > log_end_offset {
        return Some(format!("is of offset {offset}, the log ends at {log_end_offset}"));
    }
    let is_late = |of: Option<Offset>| of.is_some_and(|of| of >= offset);
    let late = entries.iter().find(|entry| {
        is_late(entry.current_txn_first_offset) || is_late(entry.batches().last().map(|batch| batch.last_offset))
    });
    late.map(|entry| format!("producer {} has offsets behind the snapshot's", entry.producer_id))
}

/// Bytes of the records in a directory: what [`verify`] will read.
pub fn size_of(disk: &dyn Disk, dir: &Path) -> io::Result<u64> {
    let mut bytes = 0;
    for entry in disk.list(dir)? {
        let name = entry.name.to_str().and_then(FileName::parse);
        if name.is_some_and(|name| name.kind == FileKind::Log && name.state == FileState::InUse) {
            // What cannot be looked at is told when it is read.
            bytes += disk.info(&dir.join(&entry.name)).map_or(0, |info| info.len);
        }
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests;
