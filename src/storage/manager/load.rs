//! Opening the logs that are on disk.
//!
//! Each directory is listed once; its logs are opened side by side, several threads to a directory. What lies there
//! besides the logs of this node's partitions:
//!
//! | directory | what becomes of it |
//! |---|---|
//! | a partition without, or with an unreadable, topic id | the log of the topic of that name, if there is no other replica; else renamed |
//! | | to `-stray` |
//! | a partition that the metadata does not give to this node | renamed to `-stray` |
//! | `-stray` | left, with a warning |
//! | `-delete` | removed after `log.segment.delete.delay.ms` |
//! | `-future` without a topic id | removed, as `-delete`: nothing is in it yet |
//! | `-future` | opened, for the move to another directory to go on; as the partition's log if there is no other and the
//! | | metadata names its directory, or no directory is missing that might have it |
//! | a partition for the second time | see [`LogManager::settle_duplicates`] |
//! | `-future` beside the partition itself | removed, if it goes no further; else renamed to `-stray` |
//! | a partition whose log cannot be opened, or that is no directory | stays offline, see [`super::unopened`] |
//! | what is to be renamed, and there is no room for that | stays as it is until there is, and is not used |
//! | the metadata log, `remote-log-index-cache` | left |
//! | anything else | left, with a warning |

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tracing::{debug, error, info, warn};

use super::directory::LogDir;
use super::unopened::{NotedOffsets, StrayInPlace, Unopened};
use super::{HostedLog, LogLookupError, LogManager, NotHosted, Stage};
use crate::config::TopicConfig;
use crate::storage::directory_name::{DirectoryKind, DirectoryName, METADATA_TOPIC, REMOTE_INDEX_CACHE, name_for};
use crate::storage::disk::{concerns_file, is_full};
use crate::storage::file_cache::Directory;
use crate::storage::leader_epochs::LeaderEpochFileCache;
use crate::storage::log::{Log, LogOpenError, LogParams};
use crate::storage::partition_metadata::{self, PartitionMetadataError};
use crate::storage::recovery::{DamagePolicy, RecoveryReport, RecoveryStep, Repair};
use crate::storage::work_queue::in_parallel;
use crate::types::{DirectoryId, LeaderEpoch, Offset, TopicId, TopicPartition};

/// What the metadata says of a partition that is given to this node.
#[derive(Clone)]
pub struct HostedPartition {
    pub topic_id: TopicId,
    /// The newest one of the partition.
    pub leader_epoch: LeaderEpoch,
    pub config: Arc<TopicConfig>,
    pub damage: DamagePolicy,
    /// Where the metadata says that it lies.
    pub directory: Option<DirectoryId>,
}

/// How far loading has come.
#[derive(Clone, Copy, Debug)]
pub enum LoadEvent<'a> {
    /// A directory was listed.
    Began { dir: &'a Path, logs: usize, clean_shutdown: bool },
    /// A log is being recovered, and that takes long.
    Recovering { partition: &'a TopicPartition, step: &'a RecoveryStep },
    /// A log is open.
    Loaded { partition: &'a TopicPartition, report: &'a RecoveryReport, loaded: usize, total: usize },
}

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LoadReport {
    pub loaded: usize,
    /// Directories that became stray now.
    pub strays: Vec<PathBuf>,
    /// Partitions whose log could not be opened.
    pub unopened: Vec<TopicPartition>,
    /// Directories that belong to nobody known.
    pub foreign: Vec<PathBuf>,
    /// Log directories that were not closed in order.
    pub unclean: Vec<PathBuf>,
    pub took: Duration,
}

/// What is shared by the threads that load.
struct Loading<'a> {
    assigned: &'a (dyn Fn(&TopicPartition, Option<TopicId>) -> Option<HostedPartition> + Sync),
    events: Arc<dyn Fn(LoadEvent<'_>) + Send + Sync>,
    report: Mutex<LoadReport>,
    duplicates: Mutex<BTreeMap<TopicPartition, Duplicates>>,
    /// Logs that were repaired, by their directory.
    repaired: Mutex<BTreeMap<TopicPartition, Vec<DirectoryId>>>,
    /// Where the metadata wants the partitions of future logs.
    futures: Mutex<Vec<(TopicPartition, Option<DirectoryId>)>>,
    /// What could not be opened; `true`: a copy.
    unopened: Mutex<Vec<(TopicPartition, bool, Unopened)>>,
    total: usize,
    loaded: AtomicUsize,
}

/// All logs of a partition that has several.
struct Duplicates {
    logs: Vec<HostedLog>,
    /// The directory that the metadata names.
    named: Option<DirectoryId>,
}

/// A log to be opened.
struct Job {
    path: PathBuf,
    partition: TopicPartition,
    noted: NotedOffsets,
    clean_shutdown: bool,
    is_future: bool,
}

/// What is in a directory.
#[derive(Default)]
struct Listed {
    clean_shutdown: bool,
    /// The logs to be opened.
    jobs: Vec<Job>,
    /// What is called like a log and is no directory.
    no_directories: Vec<(TopicPartition, Unopened)>,
    /// Directories that are none of a partition.
    foreign: Vec<PathBuf>,
}

impl LogManager {
    /// Opens all logs of this node. `assigned` says what the metadata knows of a partition, by its topic's id, or by its name if the
    /// id is not known; `None` if it is not given to this node; `events` is called from several threads. To be called once.
    pub fn load(
        self: &Arc<Self>,
        assigned: &(dyn Fn(&TopicPartition, Option<TopicId>) -> Option<HostedPartition> + Sync),
        events: Arc<dyn Fn(LoadEvent<'_>) + Send + Sync>,
    ) -> LoadReport {
        assert_eq!(*self.stage.read(), Stage::Opened, "logs are loaded once");
        let began = self.context.clock.monotonic();
        let mut report = LoadReport::default();
        let mut no_directories = Vec::new();
        let mut queues = Vec::new();
        for dir in self.dirs.iter().filter(|dir| dir.is_online()) {
            match self.list(dir) {
                Ok(listed) => {
                    let clean_shutdown = listed.clean_shutdown || listed.jobs.is_empty();
                    if !clean_shutdown {
                        report.unclean.push(dir.path.clone());
                    }
                    report.foreign.extend(listed.foreign);
                    no_directories
                        .extend(listed.no_directories.into_iter().map(|(partition, log)| (partition, false, log)));
                    events(LoadEvent::Began { dir: &dir.path, logs: listed.jobs.len(), clean_shutdown });
                    queues.push((dir.clone(), listed.jobs));
                }
                Err(error) => self.take_offline(dir, &error.to_string()),
            }
        }
        let loading = Loading {
            assigned,
            events,
            report: Mutex::new(report),
            duplicates: Mutex::default(),
            repaired: Mutex::default(),
            futures: Mutex::default(),
            unopened: Mutex::default(),
            total: queues.iter().map(|(_, jobs)| jobs.len()).sum(),
            loaded: AtomicUsize::new(0),
        };
        let dirs: Vec<Arc<LogDir>> = queues.iter().map(|(dir, _)| dir.clone()).collect();
        let threads = self.recovery_threads.load(Ordering::Relaxed);
        in_parallel(queues, threads, |dir, job| {
            if dir.is_online() {
                self.load_one(dir, job, &loading);
            }
        });
        let mut repaired = loading.repaired.into_inner();
        for (partition, Duplicates { logs, named }) in loading.duplicates.into_inner() {
            self.settle_duplicates(&partition, logs, named, &repaired.remove(&partition).unwrap_or_default());
        }
        // Else whoever is asked for the partition would make an empty log.
        let is_wanted = |(partition, ..): &(TopicPartition, bool, Unopened)| assigned(partition, None).is_some();
        let unopened = loading.unopened.into_inner().into_iter().chain(no_directories.into_iter().filter(is_wanted));
        let unopened = self.settle_unopened(unopened.collect());
        self.settle_futures(loading.futures.into_inner());
        dirs.iter().filter(|dir| dir.is_online()).for_each(|dir| dir.set_recovered());
        self.keep_unclean();
        *self.stage.write() = Stage::Loaded;
        dirs.iter().filter(|dir| dir.is_online()).for_each(|dir| self.correct_checkpoints(dir));
        let mut report = loading.report.into_inner();
        report.loaded = loading.loaded.into_inner();
        report.unopened = unopened;
        report.took = self.context.clock.monotonic().saturating_sub(began);
        report
    }

    /// Future logs without a current one take its place, unless that may lie in a directory that is missing, or cannot be opened.
    /// Those that lie beside it are of no use: a move leads to another directory.
    fn settle_futures(self: &Arc<Self>, futures: Vec<(TopicPartition, Option<DirectoryId>)>) {
        for (partition, named) in futures {
            let directory = self.logs.read().future.get(&partition).map(|hosted| hosted.dir.id);
            if directory.is_some() && directory == self.directory_of(&partition) {
                self.settle_future_beside(&partition);
                continue;
            }
            let is_wanted = named.is_some() && directory == named;
            let is_gone = matches!(self.get(&partition), Err(LogLookupError::Unknown));
            if is_gone && (is_wanted || !self.has_offline_dirs()) {
                self.promote_abandoned(&partition);
            }
        }
    }

    /// Sorts what is in a directory.
    fn list(self: &Arc<Self>, dir: &Arc<LogDir>) -> io::Result<Listed> {
        // If this process dies while it loads, the next one must recover.
        let clean_shutdown = dir.take_marker()?;
        if !clean_shutdown {
            // Who made or renamed the directory of a log was killed, perhaps, before that was on disk.
            self.context.disk.sync_dir(&dir.path)?;
        }
        let recovery_points = dir.recovery_points.read()?;
        let log_start_offsets = dir.log_start_offsets.read()?;
        let cleaned_offsets = dir.cleaner_offsets.read()?;
        let noted_of = |partition: &TopicPartition| NotedOffsets {
            recovery_point: recovery_points.get(partition).copied(),
            log_start_offset: log_start_offsets.get(partition).copied(),
            cleaned_offset: cleaned_offsets.get(partition).copied(),
            high_watermark: None,
        };
        let mut listed = Listed { clean_shutdown, ..Listed::default() };
        for entry in self.context.disk.list(&dir.path)? {
            let path = dir.path.join(&entry.name);
            let name = entry.name.to_str().and_then(DirectoryName::parse);
            if !entry.is_dir() {
                if let Some(DirectoryName { topic_partition, kind: DirectoryKind::Current }) = name {
                    let reason = format!("{} is {}, not a directory", path.display(), entry.kind);
                    let noted = noted_of(&topic_partition);
                    let unopened = Unopened {
                        dir: dir.clone(),
                        path,
                        is_dir: false,
                        clean_shutdown,
                        reason,
                        lacks_room: false,
                        noted,
                    };
                    listed.no_directories.push((topic_partition, unopened));
                }
                continue;
            }
            let Some(name) = name else {
                if entry.name != REMOTE_INDEX_CACHE {
                    warn!(path = %path.display(), "directory is none of a partition and left alone");
                    listed.foreign.push(path);
                }
                continue;
            };
            let partition = name.topic_partition;
            match name.kind {
                DirectoryKind::Current if &*partition.topic == METADATA_TOPIC => {}
                DirectoryKind::Current | DirectoryKind::Future => listed.jobs.push(Job {
                    noted: noted_of(&partition),
                    path,
                    partition,
                    clean_shutdown,
                    is_future: name.kind == DirectoryKind::Future,
                }),
                DirectoryKind::Deleted => self.remove_later(path),
                DirectoryKind::Stray => warn!(path = %path.display(), "stray log is left for a person to look at"),
            }
        }
        listed.jobs.sort_by(|a, b| a.partition.cmp(&b.partition));
        if clean_shutdown && !listed.jobs.is_empty() {
            for (checkpoint, lost) in dir.missing_checkpoints()? {
                warn!(path = %checkpoint.display(), lost, "checkpoint is missing, though the directory was closed in order");
            }
        }
        Ok(listed)
    }

    fn load_one(self: &Arc<Self>, dir: &Arc<LogDir>, job: Job, loading: &Loading<'_>) {
        let Job { path, partition, .. } = &job;
        let (topic_id, lacks_id) = match partition_metadata::read(&*self.context.disk, path) {
            Ok(Some(topic_id)) => (topic_id, None),
            // A copy of which nothing was written yet.
            Ok(None) if job.is_future => return self.discard(dir, &job, loading),
            Err(PartitionMetadataError::Io(error)) => return self.not_loaded(dir, &job, &error, loading),
            unknown => {
                let found = unknown.err().map_or_else(|| "missing".to_owned(), |error| error.to_string());
                match self.give_topic_id(&job, loading) {
                    Ok(Some(topic_id)) => (topic_id, Some(found)),
                    Ok(None) => {
                        return self.set_aside(dir, &job, &format!("its topic id is not known: {found}"), loading);
                    }
                    Err(error) => return self.not_loaded(dir, &job, &error, loading),
                }
            }
        };
        let Some(hosted) = (loading.assigned)(partition, Some(topic_id)) else {
            let reason = format!("topic id {topic_id} is not given to this node");
            return self.set_aside(dir, &job, &reason, loading);
        };
        let (events, recovering) = (loading.events.clone(), partition.clone());
        // What a copy lacks is copied again: with a gap it would take the place of a log that has the records.
        let damage = if job.is_future { DamagePolicy::CutOff } else { hosted.damage };
        let params = LogParams {
            clean_shutdown: job.clean_shutdown,
            progress: Some(Arc::new(move |step| events(LoadEvent::Recovering { partition: &recovering, step }))),
            ..self.log_params(dir, path.clone(), partition, hosted.config, damage, job.noted)
        };
        let (log, mut report) = match Log::open(&self.context, params) {
            Ok(opened) => opened,
            Err(LogOpenError::Io { source, .. }) => return self.not_loaded(dir, &job, &source, loading),
        };
        if let Some(found) = lacks_id {
            let done = "gave it the id of the topic of this name: nobody else has its records";
            report.repairs.push(Repair { file: partition_metadata::FILE_NAME.to_owned(), found, done });
        }
        self.take_in(dir, job.noted, &log, &report);
        if !report.repairs.is_empty() {
            loading.repaired.lock().entry(partition.clone()).or_default().push(dir.id);
        }
        let opened = HostedLog { log, topic_id, dir: dir.clone() };
        if job.is_future {
            info!(%partition, path = %path.display(), log_end_offset = %opened.log.log_end_offset(), "a move of the log goes on");
            self.host_future(partition, opened);
            loading.futures.lock().push((partition.clone(), hosted.directory));
        } else if let Err(NotHosted::Duplicate(first)) = self.host(partition, opened.clone()) {
            let mut duplicates = loading.duplicates.lock();
            let new = || Duplicates { logs: vec![first], named: hosted.directory };
            duplicates.entry(partition.clone()).or_insert_with(new).logs.push(opened);
        }
        let loaded = loading.loaded.fetch_add(1, Ordering::Relaxed) + 1;
        (loading.events)(LoadEvent::Loaded { partition, report: &report, loaded, total: loading.total });
    }

    /// What the log of a partition is opened with, of which nothing is trusted but what was noted.
    pub(super) fn log_params(
        self: &Arc<Self>,
        dir: &Arc<LogDir>,
        path: PathBuf,
        topic_partition: &TopicPartition,
        config: Arc<TopicConfig>,
        damage: DamagePolicy,
        noted: NotedOffsets,
    ) -> LogParams {
        LogParams {
            dir: path,
            topic_partition: topic_partition.clone(),
            config,
            log_start_offset: noted.log_start_offset.unwrap_or_default(),
            recovery_point: noted.recovery_point.unwrap_or_default(),
            gaps_up_to: noted.cleaned_offset.unwrap_or_default(),
            clean_shutdown: false,
            damage,
            producers: *self.producers.read(),
            progress: None,
            on_failure: Some(self.failure_handler(topic_partition, dir)),
        }
    }

    /// What a log is given that was just opened, and what is told of it.
    pub(super) fn take_in(
        self: &Arc<Self>,
        dir: &Arc<LogDir>,
        noted: NotedOffsets,
        log: &Arc<Log>,
        report: &RecoveryReport,
    ) {
        let partition = log.topic_partition();
        let log_end_offset = log.log_end_offset();
        if let Some(cleaned) = noted.cleaned_offset {
            match (Offset(0)..=log_end_offset).contains(&cleaned) {
                true => log.restore_cleaned_offset(cleaned),
                false if log.config().cleanup_policy.compact => {
                    warn!(%partition, %cleaned, %log_end_offset, "the log is not clean as far as was noted; cleaning all of it");
                }
                // Nobody goes by it, and the next checkpoint is without it.
                false => debug!(%partition, %cleaned, "the log was never cleaned so far"),
            }
        }
        self.follow_truncations(log, dir);
        warn_of_repairs(partition, report);
        let on_disk = noted.recovery_point.unwrap_or_default();
        if log_end_offset < on_disk {
            warn!(%partition, %log_end_offset, %on_disk, "the log ends before what was on disk: records are lost");
        }
        dir.log_count.fetch_add(1, Ordering::Relaxed);
    }

    /// Whose log it is where the file that says so is missing or damaged: that of the topic of this name, if there is no other replica to
    /// get the records from, and no epoch in it tells that it is older than the topic.
    fn give_topic_id(&self, job: &Job, loading: &Loading<'_>) -> io::Result<Option<TopicId>> {
        let hosted = (loading.assigned)(&job.partition, None);
        let Some(hosted) = hosted.filter(|hosted| hosted.damage == DamagePolicy::KeepReadable && !job.is_future) else {
            return Ok(None);
        };
        let epochs = LeaderEpochFileCache::open(self.context.disk.clone(), Directory::new(job.path.clone()))?;
        if epochs.latest_epoch().is_some_and(|latest| latest > hosted.leader_epoch) {
            return Ok(None);
        }
        match partition_metadata::write(&*self.context.disk, &job.path, hosted.topic_id) {
            // The next start comes upon it again.
            Err(error) if is_full(&error) => {}
            written => written?,
        }
        Ok(Some(hosted.topic_id))
    }

    /// Renames a log that is not this node's, so that nobody takes it for one, and nobody's records are lost.
    fn set_aside(&self, dir: &Arc<LogDir>, job: &Job, reason: &str, loading: &Loading<'_>) {
        let stray = dir.path.join(name_for(&job.partition, DirectoryKind::Stray).to_string());
        match self.context.disk.rename(&job.path, &stray) {
            Ok(()) => {
                error!(partition = %job.partition, path = %stray.display(), %reason, "log is stray and set aside");
                loading.report.lock().strays.push(stray);
            }
            Err(error) if is_full(&error) => {
                error!(partition = %job.partition, path = %job.path.display(), %reason, "log is stray, and there is no room to set it aside: it \
                    stays where it is until there is");
                dir.tell_full(&error);
                let (partition, path) = (job.partition.clone(), job.path.clone());
                self.set_aside_later(StrayInPlace { dir: dir.clone(), partition, path });
            }
            Err(error) => self.not_loaded(dir, job, &error, loading),
        }
    }

    /// Removes the directory of a copy that was only begun; its log is elsewhere.
    fn discard(&self, dir: &Arc<LogDir>, job: &Job, loading: &Loading<'_>) {
        let deleted = dir.path.join(name_for(&job.partition, DirectoryKind::Deleted).to_string());
        match self.context.disk.rename(&job.path, &deleted) {
            Ok(()) => self.remove_later(deleted),
            // No name is needed to remove it at once.
            Err(error) if is_full(&error) => self.remove_later(job.path.clone()),
            Err(error) => self.not_loaded(dir, job, &error, loading),
        }
    }

    /// A log cannot be opened: it is offline, or its whole directory if that has failed.
    fn not_loaded(&self, dir: &Arc<LogDir>, job: &Job, error: &io::Error, loading: &Loading<'_>) {
        let reason = match error.to_string() {
            text if text.contains(&*job.path.to_string_lossy()) => text,
            text => format!("{}: {text}", job.path.display()),
        };
        let lacks_room = is_full(error);
        if lacks_room {
            dir.tell_full(error);
        } else if !concerns_file(error) {
            return self.take_offline(dir, &reason);
        }
        let unopened = Unopened {
            dir: dir.clone(),
            path: job.path.clone(),
            is_dir: true,
            // What was begun without room is not as it was closed.
            clean_shutdown: job.clean_shutdown && !lacks_room,
            reason,
            lacks_room,
            noted: job.noted,
        };
        loading.unopened.lock().push((job.partition.clone(), job.is_future, unopened));
    }

    pub(super) fn remove_later(&self, path: PathBuf) {
        info!(path = %path.display(), "deletion of a log goes on");
        let disk = self.context.disk.clone();
        let delay = Duration::from_millis(self.file_delete_delay_ms.load(Ordering::Relaxed).max(0) as u64);
        self.context.background.run_after(delay, move || {
            if let Err(error) = disk.remove_dir_all(&path) {
                error!(path = %path.display(), %error, "cannot remove deleted log");
            }
        });
    }
}

/// A repair may mean that records are gone: somebody should know.
pub(super) fn warn_of_repairs(partition: &TopicPartition, report: &RecoveryReport) {
    for repair in &report.repairs {
        warn!(%partition, file = %repair.file, found = %repair.found, done = repair.done, "log was repaired");
    }
}
