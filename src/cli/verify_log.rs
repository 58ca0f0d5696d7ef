//! `ottla verify-log`: looks at everything in log directories, names each fault, and repairs what can be made anew.
//!
//! A line for each finding on standard output, a progress bar on standard error if that is a terminal. Without
//! `--repair` nothing is written. Exit codes: 0 no fault, or all of them repaired; 1 faults; 2 the arguments make no sense, or
//! a directory cannot be read or is in use.
//!
//! What is checked of a log is said in [`crate::storage::verify`]; here are the files in the root of the directories,
//! what the metadata says of them, and the order of it all. A repair of a log is its recovery
//! ([`crate::storage::recovery`]), told to trust nothing; so there is one way in which logs are repaired.

mod backup;
mod checkpoints;
mod metadata;
mod progress;
mod rehearsal;
mod repair;
mod root;

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use clap::Args;

use self::metadata::MetadataFound;
use self::progress::Progress;
use self::repair::Repairs;
use self::root::{LogDirectory, PartitionDirectory};
use crate::cli::server::raise_file_limit;
use crate::storage::dir_lock::{DirLock, FILE_NAME as LOCK_FILE, LockError};
use crate::storage::directory_name::{DirectoryKind, METADATA_TOPIC};
use crate::storage::disk::{Disk, EntryKind, RealDisk};
use crate::storage::meta_properties::{self, MetaProperties, MetaPropertiesEnsemble, MetaPropertiesVersion};
use crate::storage::verify::{Finding, Remedy, Severity, VerifiedLog, VerifyObserver, VerifyParams, verify};
use crate::storage::work_queue::in_parallel;
use crate::types::{LeaderEpoch, Offset, TopicPartition};

/// More threads than disks and checksums keep busy.
const MAX_THREADS: usize = 8;

/// Checks everything in log directories, and repairs what can be made anew
///
/// Reads every byte: records, indexes, snapshots, checkpoints, metadata. Names each fault with file and position.
#[derive(Args, Clone, Debug)]
pub struct VerifyLogArguments {
    /// The log directories of a node, all of them if it has several
    #[arg(required = true, value_name = "DIR")]
    pub dirs: Vec<PathBuf>,

    /// Repairs what can be cut off or made anew, keeping what it removes; refused while a broker uses a directory
    #[arg(long)]
    pub repair: bool,

    /// Says what --repair would do, and does nothing
    #[arg(long)]
    pub dry_run: bool,

    /// Where --repair keeps what it removes; by default a new directory beside DIR
    #[arg(long, value_name = "DIR", requires = "repair")]
    pub backup: Option<PathBuf>,

    /// How many logs are read at the same time
    #[arg(long, value_name = "COUNT")]
    pub threads: Option<usize>,
}

/// Why nothing was checked, or not all.
#[derive(Debug, thiserror::Error)]
enum VerifyError {
    #[error("{}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error("{0}; --repair needs it to itself")]
    InUse(LockError),
    #[error("{} does not look like a log directory: there is neither a meta.properties nor a partition in it", .0.display())]
    NoLogDirectory(PathBuf),
    #[error("cannot write: {0}")]
    Output(#[from] io::Error),
}

impl VerifyError {
    /// For `map_err` on what concerns `path`.
    fn at(path: &Path) -> impl Fn(io::Error) -> VerifyError {
        move |source| VerifyError::Io { path: path.to_owned(), source }
    }
}

/// Checks, and repairs if that is asked for; returns the process's exit code.
pub(super) fn run(arguments: &VerifyLogArguments) -> u8 {
    raise_file_limit();
    let mut out = io::BufWriter::new(io::stdout().lock());
    let result = verify_log(arguments, &mut out).and_then(|code| {
        out.flush()?;
        Ok(code)
    });
    match result {
        Ok(code) => code,
        Err(VerifyError::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => 0,
        Err(error) => {
            let _ = out.flush();
            let _ = writeln!(io::stderr(), "ottla: {error}");
            2
        }
    }
}

/// A log that was checked.
struct CheckedLog {
    /// The number of its directory.
    dir: usize,
    /// Its directory's name in there.
    name: String,
    partition: TopicPartition,
    path: PathBuf,
    found: VerifiedLog,
}

/// Everything that was found.
struct Report {
    dirs: Vec<LogDirectory>,
    logs: Vec<CheckedLog>,
    metadata: Option<MetadataFound>,
    /// By the path that is printed, in the order of paths.
    findings: Vec<(String, Finding)>,
}

fn verify_log(arguments: &VerifyLogArguments, out: &mut dyn Write) -> Result<u8, VerifyError> {
    let disk = RealDisk::new();
    let began = Instant::now();
    let mut locks = Vec::new();
    let mut in_use = Vec::new();
    for dir in &arguments.dirs {
        disk.list(dir).map_err(VerifyError::at(dir))?;
        match lock(&*disk, dir, arguments.repair && !arguments.dry_run)? {
            Some(Ok(lock)) => locks.push(lock),
            Some(Err(error)) => in_use.push((dir.clone(), error)),
            None => {}
        }
    }
    let report = check(&disk, arguments, &in_use)?;
    print_findings(&report.findings, out)?;
    summary(&report, began, out)?;
    let faults = count(&report.findings, Severity::Fault);
    if !arguments.repair && !arguments.dry_run {
        return Ok(u8::from(faults > 0));
    }
    let repairs = Repairs::plan(&report);
    if arguments.dry_run {
        repairs.print_plan(&disk, &report, out)?;
        return Ok(u8::from(faults > 0));
    }
    if repairs.is_empty() {
        writeln!(out, "nothing that a repair could do")?;
        return Ok(u8::from(faults > 0));
    }
    out.flush()?;
    repairs.carry_out(&disk, &report, arguments.backup.as_deref(), out)?;

    // What is left is found by looking again.
    let again = check(&disk, arguments, &in_use)?;
    let left: Vec<_> = again.findings.into_iter().filter(|(_, finding)| finding.severity == Severity::Fault).collect();
    match left.len() {
        0 => writeln!(out, "no fault is left")?,
        count => {
            writeln!(out, "{count} faults are left:")?;
            print_findings(&left, out)?;
        }
    }
    Ok(u8::from(!left.is_empty()))
}

/// An error of a file in the words of a finding, which begins with the file.
fn said(error: impl fmt::Display, path: &Path) -> String {
    let (mut text, path) = (error.to_string(), path.to_string_lossy());
    while let Some(rest) = text.strip_prefix(&*path) {
        text = rest.trim_start_matches([':', ' ']).to_owned();
    }
    text
}

/// Keeps a broker from starting meanwhile. `None`: there is no lock file, so that no broker is there; for a repair one is
/// made. The inner error: a broker is there.
fn lock(disk: &dyn Disk, dir: &Path, repair: bool) -> Result<Option<Result<DirLock, LockError>>, VerifyError> {
    // What is no file is only set aside by a repair.
    let is_file = disk.info(&dir.join(LOCK_FILE)).is_ok_and(|info| info.kind == EntryKind::File);
    if !repair && !is_file {
        return Ok(None);
    }
    match DirLock::acquire(disk, dir) {
        Ok(lock) => Ok(Some(Ok(lock))),
        Err(error @ LockError::InUse { .. }) if repair => Err(VerifyError::InUse(error)),
        Err(error @ LockError::InUse { .. }) => Ok(Some(Err(error))),
        Err(LockError::Io { source, .. }) if repair => Err(VerifyError::at(dir)(source)),
        // A directory that can only be read.
        Err(LockError::Io { .. }) => Ok(None),
    }
}

/// Looks at everything.
fn check(
    disk: &Arc<dyn Disk>,
    arguments: &VerifyLogArguments,
    in_use: &[(PathBuf, LockError)],
) -> Result<Report, VerifyError> {
    let mut findings = Vec::new();
    let mut dirs = Vec::new();
    for (number, path) in arguments.dirs.iter().enumerate() {
        let is_in_use = in_use.iter().find(|(dir, _)| dir == path);
        let prefix = if arguments.dirs.len() > 1 { format!("{}/", path.display()) } else { String::new() };
        let (dir, found) = LogDirectory::look(disk, path, number, prefix, is_in_use.is_some())?;
        findings.extend(found.into_iter().map(|finding| (dir.shown(&finding.file), finding)));
        if let Some((_, error)) = is_in_use {
            let what = match error {
                LockError::InUse { holder, .. } => format!("{holder} uses this directory"),
                LockError::Io { .. } => error.to_string(),
            };
            let what = format!("{what}; what it writes meanwhile may look damaged");
            findings.push((dir.shown(LOCK_FILE), Finding::note(LOCK_FILE, what, Remedy::None)));
        }
        dirs.push(dir);
    }
    let total = dirs.iter().map(|dir| dir.bytes).sum();
    let progress = Progress::new(total);

    // The metadata first: it says what else there is to be.
    let metadata = match dirs.iter().find(|dir| dir.has_metadata_log) {
        Some(dir) => Some(MetadataFound::look(disk, dir, &progress)),
        None => {
            findings.extend(lacks_metadata(&dirs));
            None
        }
    };
    let logs = check_logs(disk, arguments, &dirs, &progress);
    progress.clear();
    if let Some(metadata) = &metadata {
        let dir = &dirs[metadata.dir];
        for finding in &metadata.findings {
            findings
                .push((dir.shown(&format!("{}/{}", crate::metadata::log::DIRECTORY, finding.file)), finding.clone()));
        }
        metadata.check_directories(&dirs, &mut findings);
    }
    for log in &logs {
        let dir = &dirs[log.dir];
        for finding in &log.found.findings {
            let file =
                if finding.file.is_empty() { log.name.clone() } else { format!("{}/{}", log.name, finding.file) };
            findings.push((dir.shown(&file), finding.clone()));
        }
    }
    for dir in &dirs {
        let ends: BTreeMap<&TopicPartition, &VerifiedLog> = logs
            .iter()
            .filter(|log| log.dir == dir.number && log.name == log.partition.to_string())
            .map(|log| (&log.partition, &log.found))
            .collect();
        findings.extend(dir.check_bounds(&ends).into_iter().map(|finding| (dir.shown(&finding.file), finding)));
    }
    check_ensemble(disk, &dirs, &logs, &mut findings);
    findings.sort_by(|(a, _), (b, _)| a.cmp(b));
    Ok(Report { dirs, logs, metadata, findings })
}

/// Logs of a node whose metadata log is in none of its directories.
fn lacks_metadata(dirs: &[LogDirectory]) -> Option<(String, Finding)> {
    let is_current = |log: &PartitionDirectory| log.name.kind == DirectoryKind::Current;
    // Before KRaft there was none.
    let is_old = |properties: &MetaProperties| {
        properties.version == MetaPropertiesVersion::V0 && properties.cluster_id.is_some()
    };
    let has_logs =
        |dir: &&LogDirectory| dir.partitions.iter().any(is_current) && !dir.properties.as_ref().is_some_and(is_old);
    let dir = dirs.iter().find(has_logs)?;
    let name = crate::metadata::log::DIRECTORY;
    let found = dirs.iter().find_map(|dir| dir.no_directories.get(name));
    let what = match found {
        Some(kind) => format!("is {kind}, not a directory: no broker starts until the metadata log is there again"),
        None => "missing: a start knows no topic then, and sets all logs aside; put it back, or give the directory that it lies in, too"
            .to_owned(),
    };
    Some((dir.shown(name), Finding::fault(name, None, what, Remedy::None)))
}

/// Whether several directories are those of one node.
fn check_ensemble(
    disk: &Arc<dyn Disk>,
    dirs: &[LogDirectory],
    logs: &[CheckedLog],
    findings: &mut Vec<(String, Finding)>,
) {
    let mut lies_in: BTreeMap<&str, &LogDirectory> = BTreeMap::new();
    for dir in dirs {
        for log in dir.partitions.iter().filter(|log| log.name.kind == DirectoryKind::Current) {
            if let Some(first) = lies_in.insert(&log.dir_name, dir) {
                let what = format!(
                    "lies in {}, too: Kafka does not start then, Ottla keeps the log that goes further; {}",
                    first.path.display(),
                    goes_further(logs, first, dir, &log.dir_name)
                );
                findings.push((dir.shown(&log.dir_name), Finding::fault(&log.dir_name, None, what, Remedy::None)));
            }
        }
    }
    let Some(first) = dirs.first().filter(|_| dirs.len() > 1) else { return };
    let metadata_dir = dirs.iter().find(|dir| dir.has_metadata_log).unwrap_or(first);
    let paths: Vec<PathBuf> = dirs.iter().map(|dir| dir.path.clone()).collect();
    let node_id = dirs.iter().find_map(|dir| dir.properties.as_ref()?.node_id);
    let ensemble = MetaPropertiesEnsemble::load(&**disk, &paths, &metadata_dir.path);
    // What is wrong with one file is said already.
    if ensemble.failed.is_empty()
        && let Some(node_id) = node_id
        && let Err(error) = ensemble.verify(None, node_id)
    {
        let file = meta_properties::FILE_NAME;
        findings.push((first.shown(file), Finding::fault(file, None, error, Remedy::None)));
    }
}

/// Which of two logs of a partition goes further, by what a start goes by.
fn goes_further(logs: &[CheckedLog], first: &LogDirectory, second: &LogDirectory, name: &str) -> String {
    let found_in = |dir: &LogDirectory| {
        let log = logs.iter().find(|log| log.dir == dir.number && log.name == name)?;
        (!log.found.is_unreadable).then_some((log.found.last_epoch, log.found.log_end_offset))
    };
    let (Some(reach), Some(other)) = (found_in(first), found_in(second)) else {
        return "which one that is cannot be told: not all of both was read".to_owned();
    };
    let further = match reach.cmp(&other) {
        Ordering::Equal => return format!("both end at {}", reach.1),
        Ordering::Greater => first,
        Ordering::Less => second,
    };
    let told = |(epoch, end): (Option<LeaderEpoch>, Offset)| match epoch {
        Some(epoch) => format!("ends at {end} in epoch {epoch}"),
        None => format!("ends at {end}"),
    };
    format!(
        "that is the one in {}: this one {}, the other {}; do not remove it",
        further.path.display(),
        told(other),
        told(reach)
    )
}

/// Looks at all logs but that of the metadata, several at the same time.
fn check_logs(
    disk: &Arc<dyn Disk>,
    arguments: &VerifyLogArguments,
    dirs: &[LogDirectory],
    progress: &Progress,
) -> Vec<CheckedLog> {
    let mut jobs = Vec::new();
    for dir in dirs {
        jobs.extend(
            dir.partitions
                .iter()
                .filter(|log| &*log.name.topic_partition.topic != METADATA_TOPIC)
                .map(|log| (dir, log)),
        );
    }
    let available = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = arguments.threads.unwrap_or(available).clamp(1, MAX_THREADS);
    let mut checked = in_parallel(vec![((), jobs)], threads, |(), (dir, log)| {
        let partition = log.name.topic_partition.clone();
        // What the checkpoints say is of another log then, if of any.
        let is_begun = log.name.kind == DirectoryKind::Future && log.topic_id.is_none();
        let is_set_aside = log.name.kind == DirectoryKind::Stray || is_begun;
        let log_start_offset = if is_set_aside { Offset(0) } else { dir.log_start_offset(&partition) };
        let params = VerifyParams {
            dir: log.path.clone(),
            log_start_offset,
            was_closed: dir.was_closed && !is_set_aside,
            is_set_aside,
        };
        let verified = verify(disk, &params, &mut Watch { progress, name: &log.dir_name });
        // A disk that fails is a fault, too, and no reason not to look at the others.
        let found = verified.unwrap_or_else(VerifiedLog::unreadable);
        CheckedLog { dir: dir.number, name: log.dir_name.clone(), partition, path: log.path.clone(), found }
    });
    checked.sort_by(|a, b| (a.dir, &a.name).cmp(&(b.dir, &b.name)));
    checked
}

/// Tells the progress what was read.
struct Watch<'a> {
    progress: &'a Progress,
    name: &'a str,
}

impl VerifyObserver for Watch<'_> {
    fn read(&mut self, bytes: u64) {
        self.progress.add(bytes, self.name);
    }
}

fn count(findings: &[(String, Finding)], severity: Severity) -> usize {
    findings.iter().filter(|(_, finding)| finding.severity == severity).count()
}

/// A line for each.
fn print_findings(findings: &[(String, Finding)], out: &mut dyn Write) -> Result<(), VerifyError> {
    for (path, finding) in findings {
        let severity = match finding.severity {
            Severity::Fault => "fault",
            Severity::Note => "note ",
        };
        let at = finding.position.map_or(String::new(), |position| format!(" at {position}"));
        // What was read from a damaged file is no text to be trusted.
        let what: String = finding.what.chars().map(|char| if char.is_control() { ' ' } else { char }).collect();
        writeln!(out, "{severity} {path}{at}: {what}")?;
    }
    Ok(())
}

fn summary(report: &Report, began: Instant, out: &mut dyn Write) -> Result<(), VerifyError> {
    let metadata = report.metadata.iter().map(|metadata| &metadata.log);
    let logs: Vec<&VerifiedLog> = report.logs.iter().map(|log| &log.found).chain(metadata).collect();
    let sum = |of: fn(&VerifiedLog) -> u64| logs.iter().map(|log| of(log)).sum::<u64>();
    writeln!(
        out,
        "{} logs, {} segments, {} batches, {} records, {} in {:.1} s: {} faults, {} notes",
        logs.len(),
        sum(|log| log.segments),
        sum(|log| log.batches),
        sum(|log| log.records),
        progress::size(sum(|log| log.bytes)),
        began.elapsed().as_secs_f64(),
        count(&report.findings, Severity::Fault),
        count(&report.findings, Severity::Note),
    )?;
    Ok(())
}

#[cfg(test)]
mod tests;
