//! What a repair does, and in which order.
//!
//! A log is repaired by its recovery, as after a crash and with nothing trusted: it cuts off or takes out what is no
//! records, and makes indexes, snapshots and epochs anew. That is rehearsed first ([`crate::cli::verify_log::rehearsal`]), so
//! that a dry run says what a repair does, and what is going to change is copied: files as they are, of segments that stay the
//! stretches that go. Copies of what did not change in the end are removed again. What stands in the place of a file and is none is
//! moved there first.
//!
//! What cannot be repaired is told, and the rest is done.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::cli::verify_log::backup::Backup;
use crate::cli::verify_log::checkpoints::CheckpointKind;
use crate::cli::verify_log::progress::Progress;
use crate::cli::verify_log::rehearsal::{Change, RehearsalDisk};
use crate::cli::verify_log::root::LogDirectory;
use crate::cli::verify_log::{CheckedLog, Report, VerifyError};
use crate::clock::{Clock as _, SystemClock};
use crate::config::TopicConfig;
use crate::metadata::log::DIRECTORY as METADATA_DIRECTORY;
use crate::storage::background::Background;
use crate::storage::checkpoint::OffsetCheckpointFile;
use crate::storage::directory_name::DirectoryKind;
use crate::storage::disk::Disk;
use crate::storage::file_cache::FileCache;
use crate::storage::log::{Log, LogContext, LogParams};
use crate::storage::partition_metadata;
use crate::storage::producer_state::ProducerStateConfig;
use crate::storage::recovery::{DamagePolicy, RecoveryReport};
use crate::storage::verify::{Finding, Remedy, Severity, VerifiedLog};
use crate::types::{Offset, TopicId, TopicPartition};

/// Files that a repair has open at the same time.
const OPEN_FILES: usize = 100;
/// What is said of something that is moved to the backup as it is.
const TAKEN_AWAY: &str = "moved to the backup";

/// A log to be repaired.
struct LogRepair<'a> {
    dir: &'a LogDirectory,
    name: String,
    path: PathBuf,
    partition: TopicPartition,
    found: &'a VerifiedLog,
    findings: Vec<&'a Finding>,
    policy: DamagePolicy,
    /// A gap in the offsets is no sign of records that are missing.
    is_compacted: bool,
    /// Nor is one before this, in any log.
    gaps_up_to: Offset,
}

/// What a recovery has done, or would do.
struct Recovered {
    said: Vec<String>,
    report: RecoveryReport,
    log_end_offset: Offset,
}

/// Where logs end once they are repaired, by their paths.
type Ends = BTreeMap<PathBuf, Offset>;

/// Everything that is to be done.
pub(super) struct Repairs<'a> {
    logs: Vec<LogRepair<'a>>,
    /// Missing or unreadable `partition.metadata`, and the id that belongs there.
    topic_ids: Vec<(&'a LogDirectory, String, TopicId)>,
    checkpoints: Vec<(&'a LogDirectory, CheckpointKind)>,
    /// What is only to be taken away.
    unwanted: Vec<(&'a LogDirectory, &'a str)>,
}

impl<'a> Repairs<'a> {
    pub fn plan(report: &'a Report) -> Repairs<'a> {
        let mut repairs =
            Repairs { logs: Vec::new(), topic_ids: Vec::new(), checkpoints: Vec::new(), unwanted: Vec::new() };
        for log in &report.logs {
            let dir = &report.dirs[log.dir];
            let is_current = dir
                .partitions
                .iter()
                .any(|known| known.dir_name == log.name && known.name.kind == DirectoryKind::Current);
            let findings: Vec<&Finding> = log.found.findings.iter().filter(|finding| is_curable(finding)).collect();
            let has_reason = findings.iter().any(|finding| is_reason(finding));
            // What is no log of this node any more is for a person to look at.
            if has_reason && is_current && log.found.first_offset.is_some() && !log.found.is_unreadable {
                repairs.logs.push(LogRepair {
                    dir,
                    name: log.name.clone(),
                    path: log.path.clone(),
                    partition: log.partition.clone(),
                    found: &log.found,
                    findings,
                    policy: policy(report, log),
                    is_compacted: is_compacted(report, log),
                    gaps_up_to: gaps_up_to(dir, &log.partition, &log.found),
                });
            }
        }
        if let Some(metadata) = &report.metadata {
            let findings: Vec<&Finding> = metadata.findings.iter().filter(|finding| is_curable(finding)).collect();
            if findings.iter().any(|finding| is_reason(finding)) && !metadata.log.is_unreadable {
                let dir = &report.dirs[metadata.dir];
                let partition = TopicPartition::new(crate::storage::directory_name::METADATA_TOPIC, 0);
                repairs.logs.push(LogRepair {
                    dir,
                    name: METADATA_DIRECTORY.to_owned(),
                    path: metadata.path.clone(),
                    gaps_up_to: gaps_up_to(dir, &partition, &metadata.log),
                    partition,
                    found: &metadata.log,
                    findings,
                    policy: DamagePolicy::CutOff,
                    is_compacted: false,
                });
            }
        }
        for dir in &report.dirs {
            repairs.plan_directory(report, dir);
        }
        repairs
    }

    fn plan_directory(&mut self, report: &'a Report, dir: &'a LogDirectory) {
        self.unwanted.extend(dir.unwanted.iter().map(|name| (dir, name.as_str())));
        let node_id = dir.properties.as_ref().and_then(|properties| properties.node_id);
        for log in dir.partitions.iter().filter(|log| log.topic_id.is_none() && log.name.kind == DirectoryKind::Current)
        {
            let topic_id = report.metadata.as_ref().zip(node_id);
            let topic_id = topic_id.and_then(|(metadata, node_id)| metadata.topic_id_of(log, node_id));
            let logs = report.logs.iter().map(|checked| (&checked.path, &checked.found));
            let metadata_log = report.metadata.iter().map(|metadata| (&metadata.path, &metadata.log));
            let has_log =
                logs.chain(metadata_log).any(|(path, found)| *path == log.path && found.first_offset.is_some());
            if let Some(topic_id) = topic_id.filter(|_| has_log) {
                self.topic_ids.push((dir, log.dir_name.clone(), topic_id));
            }
        }
        for kind in CheckpointKind::ALL {
            let file = dir.shown(kind.file_name());
            let is_wrong = report.findings.iter().any(|(path, finding)| *path == file && is_reason(finding));
            if is_wrong {
                self.checkpoints.push((dir, kind));
            }
        }
    }

    pub fn is_empty(&self) -> bool {
        self.logs.is_empty() && self.topic_ids.is_empty() && self.checkpoints.is_empty() && self.unwanted.is_empty()
    }

    /// The checkpoints to be corrected: those that were wrong, and those that name what went with the repair of a log.
    fn checkpoints(&self, report: &'a Report, ends: &Ends) -> Vec<(&'a LogDirectory, CheckpointKind)> {
        let mut checkpoints = self.checkpoints.clone();
        for log in logs_of_checkpoints(report) {
            let dir = &report.dirs[log.dir];
            for kind in CheckpointKind::ALL.into_iter().filter(|kind| *kind != CheckpointKind::LogStart) {
                let is_behind =
                    dir.offset(kind, &log.partition).zip(ends.get(&log.path)).is_some_and(|(at, end)| at > *end);
                let known = checkpoints.iter().any(|(of, known)| of.number == log.dir && *known == kind);
                if is_behind && !known {
                    checkpoints.push((dir, kind));
                }
            }
        }
        checkpoints
    }

    /// Says what would be done.
    pub fn print_plan(&self, disk: &Arc<dyn Disk>, report: &Report, out: &mut dyn Write) -> Result<(), VerifyError> {
        let progress = Arc::new(Progress::new(self.logs.iter().map(|log| log.found.bytes).sum()));
        let mut ends = Ends::new();
        for log in &self.logs {
            let rehearsed = rehearse(disk, log, progress.clone());
            progress.clear();
            match rehearsed {
                Ok((recovered, _)) => {
                    ends.insert(log.path.clone(), recovered.log_end_offset);
                    for said in log.taken_away().chain(recovered.said) {
                        writeln!(out, "would  {}", log.dir.shown(&format!("{}/{said}", log.name)))?;
                    }
                }
                Err(error) => writeln!(out, "would  fail: {error}")?,
            }
        }
        for (dir, name) in &self.unwanted {
            writeln!(out, "would  {}: {TAKEN_AWAY}", dir.shown(name))?;
        }
        for (dir, name, topic_id) in &self.topic_ids {
            let file = dir.shown(&format!("{name}/{}", partition_metadata::FILE_NAME));
            writeln!(out, "would  {file}: made anew with topic id {topic_id}")?;
        }
        for (dir, kind) in self.checkpoints(report, &ends) {
            let entries = corrected(report, &ends, dir, kind).len();
            writeln!(out, "would  {}: corrected, {entries} entries", dir.shown(kind.file_name()))?;
        }
        if self.is_empty() {
            writeln!(out, "would  do nothing")?;
        }
        Ok(())
    }

    /// Does it. `backup`: where to keep what goes, if that is not to be beside each directory.
    pub fn carry_out(
        &self,
        disk: &Arc<dyn Disk>,
        report: &Report,
        backup: Option<&Path>,
        out: &mut dyn Write,
    ) -> Result<(), VerifyError> {
        let now_ms = SystemClock::new().now_ms();
        let mut backups = BTreeMap::new();
        for dir in &report.dirs {
            backups.insert(dir.number, Backup::new(disk, dir, backup, report.dirs.len(), now_ms));
        }
        let sizes: u64 = self.logs.iter().map(|log| log.found.bytes).sum();
        // Each is read twice.
        let progress = Arc::new(Progress::new(2 * sizes));
        let mut ends = Ends::new();
        for log in &self.logs {
            let done = log.carry_out(disk, &backups[&log.dir.number], &progress);
            progress.clear();
            let done = done.map(|(done, end)| {
                ends.insert(log.path.clone(), end);
                done
            });
            let done = done.map(|done| done.into_iter().map(|done| format!("{}/{done}", log.name)).collect());
            tell(log.dir, done, out)?;
        }
        for (dir, name) in &self.unwanted {
            let done = backups[&dir.number].take_away(&dir.path.join(name));
            tell(dir, done.map(|()| vec![format!("{name}: {TAKEN_AWAY}")]), out)?;
        }
        for (dir, name, topic_id) in &self.topic_ids {
            let path = dir.path.join(name);
            let done = backups[&dir.number].keep_file(&path.join(partition_metadata::FILE_NAME)).and_then(|_| {
                partition_metadata::write(&**disk, &path, *topic_id).map_err(VerifyError::at(&path))?;
                Ok(vec![format!("{name}/{}: made anew with topic id {topic_id}", partition_metadata::FILE_NAME)])
            });
            tell(dir, done, out)?;
        }
        for (dir, kind) in self.checkpoints(report, &ends) {
            let path = dir.path.join(kind.file_name());
            let done = backups[&dir.number].keep_file(&path).and_then(|_| {
                let offsets = corrected(report, &ends, dir, kind);
                let file = OffsetCheckpointFile::new(disk.clone(), &dir.path, kind.file_name());
                file.write(&offsets).map_err(VerifyError::at(&path))?;
                Ok(vec![format!("{}: corrected, {} entries", kind.file_name(), offsets.len())])
            });
            tell(dir, done, out)?;
        }
        for backup in backups.values().filter(|backup| backup.path.exists()) {
            writeln!(out, "what was removed or replaced is in {}", backup.path.display())?;
        }
        Ok(())
    }
}

impl LogRepair<'_> {
    /// What is said of the things that go first.
    fn taken_away(&self) -> impl Iterator<Item = String> {
        self.found.no_files.iter().map(|file| format!("{file}: {TAKEN_AWAY}"))
    }

    /// Returns what was done, and where the log ends now.
    fn carry_out(
        &self,
        disk: &Arc<dyn Disk>,
        backup: &Backup,
        progress: &Arc<Progress>,
    ) -> Result<(Vec<String>, Offset), VerifyError> {
        let (rehearsed, changes) = rehearse(disk, self, progress.clone())?;
        for file in &self.found.no_files {
            backup.take_away(&self.path.join(file))?;
        }
        let kept = backup.keep_log(&changes, &rehearsed.report)?;
        let recovered = recover(disk, self, progress.clone()).map_err(VerifyError::at(&self.path))?;
        backup.forget_unchanged(&kept)?;
        Ok((self.taken_away().chain(recovered.said).collect(), recovered.log_end_offset))
    }
}

/// Says what was done in a directory, or that it could not be.
fn tell(dir: &LogDirectory, done: Result<Vec<String>, VerifyError>, out: &mut dyn Write) -> Result<(), VerifyError> {
    match done {
        Err(error @ VerifyError::Output(_)) => return Err(error),
        Err(error) => writeln!(out, "failed {error}")?,
        Ok(done) => {
            for done in done {
                writeln!(out, "done   {}", dir.shown(&done))?;
            }
        }
    }
    Ok(())
}

fn is_curable(finding: &Finding) -> bool {
    finding.remedy != Remedy::None
}

/// A note is no reason to touch a log.
fn is_reason(finding: &Finding) -> bool {
    is_curable(finding) && finding.severity == Severity::Fault
}

/// As the broker has it: what only this node has is kept, and what others have, too, comes from them.
fn policy(report: &Report, log: &CheckedLog) -> DamagePolicy {
    let factor = report.metadata.as_ref();
    let factor = factor.and_then(|metadata| metadata.replication_factor(&log.partition.topic, log.partition.partition));
    if factor.is_some_and(|factor| factor > 1) { DamagePolicy::CutOff } else { DamagePolicy::KeepReadable }
}

/// Whether compaction may have left gaps anywhere in a log. Where that is not known it counts as compacted: a gap that is left
/// does no harm, and a log that is cut off at one does. A start knows, and looks again.
fn is_compacted(report: &Report, log: &CheckedLog) -> bool {
    let node_id = report.dirs[log.dir].properties.as_ref().and_then(|properties| properties.node_id);
    let known = report.metadata.as_ref().and_then(|metadata| metadata.is_compacted(&log.partition.topic, node_id));
    known.unwrap_or(true)
}

/// Up to where gaps are no sign of records that are missing, whatever the policy is: what was on disk did not go by a crash, and
/// compaction has left some before the topic's policy was another.
fn gaps_up_to(dir: &LogDirectory, partition: &TopicPartition, found: &VerifiedLog) -> Offset {
    if dir.was_closed {
        return found.log_end_offset;
    }
    let noted = [CheckpointKind::RecoveryPoint, CheckpointKind::Cleaner].map(|kind| dir.offset(kind, partition));
    noted.into_iter().flatten().max().unwrap_or_default()
}

/// Logs that checkpoints speak of, and whose end is known.
fn logs_of_checkpoints(report: &Report) -> impl Iterator<Item = &CheckedLog> {
    let is_named = |log: &&CheckedLog| log.name == log.partition.to_string();
    report.logs.iter().filter(is_named).filter(|log| log.found.first_offset.is_some() && !log.found.is_unreadable)
}

/// The entries that a checkpoint should have.
fn corrected(
    report: &Report,
    ends: &Ends,
    dir: &LogDirectory,
    kind: CheckpointKind,
) -> BTreeMap<TopicPartition, Offset> {
    let checkpoint = &dir.checkpoints[&kind];
    let mut offsets = checkpoint.offsets.clone();
    for log in logs_of_checkpoints(report).filter(|log| log.dir == dir.number) {
        let end = ends.get(&log.path).copied().unwrap_or(log.found.log_end_offset);
        if kind == CheckpointKind::RecoveryPoint && !checkpoint.exists {
            // The broker ended in order, and so had flushed everything.
            offsets.insert(log.partition.clone(), end);
        } else if kind == CheckpointKind::Cleaner && offsets.get(&log.partition).is_some_and(|offset| *offset > end) {
            // Not up to the end: nothing says that any of it was cleaned.
            offsets.remove(&log.partition);
        } else if kind != CheckpointKind::LogStart
            && let Some(offset) = offsets.get_mut(&log.partition)
        {
            *offset = Offset(offset.0.clamp(0, end.0));
        }
    }
    offsets.retain(|_, offset| offset.0 >= 0);
    offsets
}

/// What a repair of the log would do, and what it would change.
fn rehearse(
    disk: &Arc<dyn Disk>,
    log: &LogRepair<'_>,
    progress: Arc<Progress>,
) -> Result<(Recovered, Vec<Change>), VerifyError> {
    let gone = log.found.no_files.iter().map(|file| log.path.join(file));
    let rehearsal = Arc::new(RehearsalDisk::new(disk.clone(), gone));
    let on: Arc<dyn Disk> = rehearsal.clone();
    let rehearsed = recover(&on, log, progress).and_then(|recovered| Ok((recovered, rehearsal.changes()?)));
    rehearsed.map_err(VerifyError::at(&log.path))
}

/// Jobs of the log are run here and now: files that are written are synced then, so that they can be closed for others.
fn context(disk: &Arc<dyn Disk>) -> LogContext {
    let background = Background::prompt();
    LogContext {
        files: FileCache::new(disk.clone(), background.clone(), OPEN_FILES),
        disk: disk.clone(),
        clock: SystemClock::new(),
        background,
    }
}

/// Has the log recovered, with nothing trusted, and closes it.
fn recover(disk: &Arc<dyn Disk>, log: &LogRepair<'_>, progress: Arc<Progress>) -> io::Result<Recovered> {
    let context = context(disk);
    let start = log.dir.log_start_offset(&log.partition);
    let mut config = TopicConfig::default();
    config.cleanup_policy.compact = log.is_compacted;
    let (name, told) = (log.name.clone(), AtomicU64::new(0));
    let params = LogParams {
        dir: log.path.clone(),
        topic_partition: log.partition.clone(),
        config: Arc::new(config),
        // A log that would start behind its end lost records: a broker empties it, a repair does not.
        log_start_offset: if start > log.found.log_end_offset { Offset(0) } else { start },
        recovery_point: Offset(0),
        gaps_up_to: log.gaps_up_to,
        clean_shutdown: false,
        damage: log.policy,
        // Who expired is for the broker to say.
        producers: ProducerStateConfig { expiration_ms: i64::MAX, ..ProducerStateConfig::default() },
        progress: Some(Arc::new(move |step| {
            let before = told.swap(step.bytes_read, Ordering::Relaxed);
            progress.add(step.bytes_read.saturating_sub(before), &name);
        })),
        on_failure: None,
    };
    let (opened, report) = Log::open(&context, params).map_err(io::Error::other)?;
    let log_end_offset = opened.log_end_offset();
    opened.close().map_err(io::Error::other)?;
    context.background.run_pending(Duration::MAX);
    let mut done: Vec<String> =
        report.repairs.iter().map(|repair| format!("{}: {}: {}", repair.file, repair.found, repair.done)).collect();
    // A recovery does not speak of what it makes anew in any case.
    let is_told = |finding: &&&Finding| {
        report.repairs.iter().any(|repair| repair.file == finding.file)
            || finding.remedy == Remedy::Remove && log.found.no_files.contains(&finding.file)
    };
    for finding in log.findings.iter().filter(|finding| !is_told(finding)) {
        let what = match finding.remedy {
            Remedy::Rebuild => "made anew",
            Remedy::Remove => "removed",
            Remedy::Complete => "put in its place",
            Remedy::Correct => "corrected",
            Remedy::CutOff | Remedy::TakeOut => "taken out",
            Remedy::None => continue,
        };
        done.push(format!("{}: {what}", finding.file));
    }
    Ok(Recovered { said: done, report, log_end_offset })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::cli::verify_log::{VerifyLogArguments, check};
    use crate::storage::disk::RealDisk;
    use crate::storage::file_cache::Directory;
    use crate::storage::file_name::{FileKind, FileName};
    use crate::storage::fixture::Fixture;
    use crate::storage::verify::{VerifyParams, verify};

    /// A partition of several replicas is cut off at the damage; all that goes is kept.
    #[test]
    fn what_is_cut_off_is_kept() {
        let fixture = Fixture::unpack_only("damaged-partitions-clean", "flip-middle-segment-0");
        let disk = RealDisk::new();
        let (dir, _) = LogDirectory::look(&disk, &fixture.data(), 0, String::new(), false).unwrap();
        let path = fixture.data().join("flip-middle-segment-0");
        let params =
            VerifyParams { dir: path.clone(), log_start_offset: Offset(0), was_closed: true, is_set_aside: false };
        let found = verify(&disk, &params, &mut ()).unwrap();
        let log = LogRepair {
            dir: &dir,
            name: "flip-middle-segment-0".to_owned(),
            path: path.clone(),
            partition: TopicPartition::new("flip-middle-segment", 0),
            findings: found.findings.iter().collect(),
            found: &found,
            policy: DamagePolicy::CutOff,
            is_compacted: false,
            gaps_up_to: Offset(0),
        };
        let content = |offset: i64| fs::read(path.join(format!("{offset:020}.log"))).unwrap();
        let (damaged, behind) = (content(40), content(72));
        let backup = Backup::new(&disk, &dir, None, 1, 7000);
        let (rehearsed, changes) = rehearse(&disk, &log, Arc::new(Progress::new(0))).unwrap();
        assert_eq!(content(72), behind, "nothing was done yet");
        let kept = backup.keep_log(&changes, &rehearsed.report).unwrap();
        let recovered = recover(&disk, &log, Arc::new(Progress::new(0))).unwrap();
        let done = recovered.said;
        assert_eq!(rehearsed.said, done);
        assert_eq!((rehearsed.log_end_offset, recovered.log_end_offset), (Offset(40), Offset(40)));
        backup.forget_unchanged(&kept).unwrap();

        assert_eq!(verify(&disk, &params, &mut ()).unwrap().log_end_offset, Offset(40));
        assert!(
            !path.join("00000000000000000072.log").exists() && !path.join("00000000000000000072.log.deleted").exists()
        );
        assert!(done.iter().any(|done| done.starts_with("00000000000000000072.log: follows damage")), "{done:#?}");
        let kept = fixture.data().with_file_name("data.before-repair-7").join("flip-middle-segment-0");
        let stretch = format!("00000000000000000040.log.bytes-0-{}", damaged.len());
        assert_eq!(fs::read(kept.join(stretch)).unwrap(), damaged);
        assert_eq!(fs::read(kept.join("00000000000000000072.log")).unwrap(), behind);
        assert!(!kept.join("00000000000000000000.log").exists());
    }

    fn look(disk: &Arc<dyn Disk>, dir: PathBuf) -> Report {
        let arguments =
            VerifyLogArguments { dirs: vec![dir], repair: true, dry_run: false, backup: None, threads: None };
        check(disk, &arguments, &[]).unwrap()
    }

    /// Compaction has left gaps between segments: nothing is missing there, and what follows stays.
    #[test]
    fn a_gap_in_a_compacted_log_is_no_reason_to_cut_it_off() {
        let fixture = Fixture::unpack("compacted-twice");
        let disk = RealDisk::new();
        let dir = fixture.data().join("compact-0");
        fs::remove_file(dir.join("00000000000000000315.timeindex")).unwrap();
        let content = |offset: i64| fs::read(dir.join(format!("{offset:020}.log"))).unwrap();
        let before = [0, 315, 502].map(content);

        let report = look(&disk, fixture.data());
        let metadata = report.metadata.as_ref().unwrap();
        let known = ["compact", "compact-delete", "no-such-topic"].map(|topic| metadata.is_compacted(topic, None));
        assert_eq!(known, [Some(true), Some(true), None]);
        let mut repairs = Repairs::plan(&report);
        assert_eq!(repairs.logs.len(), 1);
        repairs.logs[0].policy = DamagePolicy::CutOff;
        let progress = || Arc::new(Progress::new(0));
        // Nor once the topic is not compacted any more: all of it was on disk; and what was not shows where it comes from.
        repairs.logs[0].is_compacted = false;
        assert_eq!(repairs.logs[0].gaps_up_to, repairs.logs[0].found.log_end_offset);
        for gaps_up_to in [repairs.logs[0].gaps_up_to, Offset(502), Offset(0)] {
            repairs.logs[0].gaps_up_to = gaps_up_to;
            let said = rehearse(&disk, &repairs.logs[0], progress()).unwrap().0.said;
            assert!(!said.iter().any(|said| said.contains("missing before")), "{gaps_up_to}: {said:#?}");
        }

        repairs.logs[0].is_compacted = Repairs::plan(&report).logs[0].is_compacted;
        let mut out = Vec::new();
        repairs.carry_out(&disk, &report, None, &mut out).unwrap();
        let out = String::from_utf8(out).unwrap();
        assert!(out.starts_with("done   compact-0/00000000000000000315.timeindex: "), "{out}");
        assert!(!out.contains("gap"), "{out}");
        assert_eq!([0, 315, 502].map(content), before);
        let left = look(&disk, fixture.data()).findings;
        assert!(!left.iter().any(|(_, finding)| finding.severity == Severity::Fault));
    }

    /// One of which nobody knows what it is, as a topic without settings of its own is what the node's file says. And gaps that are left
    /// from when a topic was compacted are no loss now.
    #[test]
    fn a_log_that_may_have_been_compacted_counts_as_such() {
        let fixture = Fixture::unpack("damaged-partitions-clean");
        let disk = RealDisk::new();
        let mut report = look(&disk, fixture.data());
        let at = report.logs.iter().position(|log| log.name == "whole-0").unwrap();
        let partition = report.logs[at].partition.clone();
        let known = report.metadata.as_ref().unwrap().is_compacted(&partition.topic, None);
        assert_eq!(is_compacted(&report, &report.logs[at]), known != Some(false));
        let up_to = |report: &Report| gaps_up_to(&report.dirs[0], &partition, &report.logs[at].found);
        assert_eq!(up_to(&report), report.logs[at].found.log_end_offset);
        report.dirs[0].was_closed = false;
        let mut note = |kind, offset| {
            report.dirs[0].checkpoints.get_mut(&kind).unwrap().offsets.insert(partition.clone(), Offset(offset));
            up_to(&report)
        };
        assert_eq!(note(CheckpointKind::RecoveryPoint, 30), Offset(30));
        assert_eq!(note(CheckpointKind::Cleaner, 40), Offset(40));
        report.metadata = None;
        assert!(is_compacted(&report, &report.logs[at]));
    }

    /// Records of several replicas that were appended since the last checkpoint, of which a power loss took the end of a segment: the
    /// others have them.
    #[test]
    fn what_follows_records_that_a_crash_took_is_cut_off() {
        let fixture = Fixture::unpack_only("damaged-partitions-clean", "whole-0");
        let disk = RealDisk::new();
        let path = fixture.data().join("whole-0");
        let segment = path.join("00000000000000000040.log");
        let bytes = fs::read(&segment).unwrap();
        let last = crate::record::batch::batches(&bytes).last().unwrap().unwrap().bytes().len();
        fs::File::options().write(true).open(&segment).unwrap().set_len((bytes.len() - last) as u64).unwrap();
        // A reason to repair it.
        fs::remove_file(path.join("00000000000000000000.timeindex")).unwrap();
        let report = look(&disk, fixture.data());
        let mut repairs = Repairs::plan(&report);
        let log = repairs.logs.iter_mut().find(|log| log.name == "whole-0").unwrap();
        (log.policy, log.is_compacted) = (DamagePolicy::CutOff, false);
        let mut missing = |up_to| {
            log.gaps_up_to = Offset(up_to);
            let said = rehearse(&disk, log, Arc::new(Progress::new(0))).unwrap().0.said;
            said.iter().any(|said| said.contains("are missing before it: deleted"))
        };
        assert_eq!([40, 71, 72].map(&mut missing), [true, true, false]);
        log.is_compacted = true;
        log.gaps_up_to = Offset(0);
        let said = rehearse(&disk, log, Arc::new(Progress::new(0))).unwrap().0.said;
        assert!(!said.iter().any(|said| said.contains("missing")), "{said:#?}");
    }

    /// What the checkpoints say of it goes with what is cut off, in the same repair; and a dry run says so.
    #[test]
    fn checkpoints_follow_a_log_that_is_cut_off_in_its_middle() {
        let fixture = Fixture::unpack_only("damaged-partitions-clean", "flip-middle-segment-0");
        let disk = RealDisk::new();
        let report = look(&disk, fixture.data());
        let partition = TopicPartition::new("flip-middle-segment", 0);
        assert_eq!(report.dirs[0].offset(CheckpointKind::HighWatermark, &partition), Some(Offset(102)));
        let mut repairs = Repairs::plan(&report);
        let log = repairs.logs.iter_mut().find(|log| log.partition == partition).unwrap();
        log.policy = DamagePolicy::CutOff;
        let (mut planned, mut out) = (Vec::new(), Vec::new());
        repairs.print_plan(&disk, &report, &mut planned).unwrap();
        repairs.carry_out(&disk, &report, None, &mut out).unwrap();
        let lines = |out: Vec<u8>, begin: &str| -> Vec<String> {
            let out = String::from_utf8(out).unwrap();
            out.lines().filter_map(|line| Some(line.strip_prefix(begin)?.to_owned())).collect()
        };
        let done = lines(out, "done   ");
        assert_eq!(lines(planned, "would  "), done);
        assert!(done.iter().any(|done| done.starts_with("replication-offset-checkpoint: corrected")), "{done:#?}");

        let again = look(&disk, fixture.data());
        assert_eq!(again.dirs[0].offset(CheckpointKind::HighWatermark, &partition), Some(Offset(40)));
        assert_eq!(again.dirs[0].offset(CheckpointKind::RecoveryPoint, &partition), Some(Offset(40)));
        let left: Vec<_> =
            again.findings.iter().filter(|(_, finding)| finding.what.contains("but ends at 40")).collect();
        assert!(left.is_empty(), "{left:?}");
    }

    /// However many files of a log are written, few are open at the same time, and of what is rehearsed one.
    #[test]
    fn a_log_of_many_segments_takes_few_descriptors() {
        let dir = tempfile::tempdir().unwrap();
        let rehearsal = Arc::new(RehearsalDisk::new(RealDisk::new(), []));
        for disk in [RealDisk::new(), rehearsal.clone() as Arc<dyn Disk>] {
            let context = context(&disk);
            let log_dir = Directory::new(dir.path().to_owned());
            let file = |n| context.files.file(&log_dir, FileName::new(Offset(n), FileKind::OffsetIndex), true);
            let files: Vec<_> = (0..5 * OPEN_FILES as i64).map(file).collect();
            for (n, file) in files.iter().enumerate() {
                file.written();
                file.get().unwrap().write_all_at(&n.to_be_bytes(), 0).unwrap();
                file.written();
            }
            assert!(context.files.open_files() < 2 * OPEN_FILES, "{} are open", context.files.open_files());
            for (n, file) in files.iter().enumerate() {
                let mut back = [0; 8];
                file.get().unwrap().read_exact_at(&mut back, 0).unwrap();
                assert_eq!(back, n.to_be_bytes());
            }
        }
        assert_eq!(rehearsal.spill_files(), 1);
    }
}
