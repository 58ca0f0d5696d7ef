//! A node on the simulated disk: what it is told to do, and how it ends and starts again.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use rand::rngs::SmallRng;
use rand::{RngExt as _, SeedableRng as _};

use crate::clock::{Clock as _, ManualClock};
use crate::config::TopicConfig;
use crate::config::topic::CleanupPolicy;
use crate::record::batch::{BatchHeader, HEADER_SIZE};
use crate::record::builder::RecordBatchBuilder;
use crate::record::control::{ControlRecord, EndTxnMarker};
use crate::storage::background::Background;
use crate::storage::checkpoint::CleanShutdownFile;
use crate::storage::cleaner;
use crate::storage::crash_simulation::model::{Doubt, Entry, Kind, PRODUCERS, Partition, Role, Written};
use crate::storage::crash_simulation::script::Step;
use crate::storage::directory_name::{DirectoryKind, DirectoryName};
use crate::storage::disk::Disk;
use crate::storage::file_cache::FileCache;
use crate::storage::file_name::{FileKind, FileName};
use crate::storage::log::{AppendContext, AppendInfo, ChangeError, HandoverError, Log, LogContext};
use crate::storage::manager::{
    CreateError, HostedPartition, LoadEvent, LogLookupError, LogManager, LogManagerConfig, NewLog,
};
use crate::storage::producer_state::ProducerStateConfig;
use crate::storage::recovery::{DamagePolicy, RecoveryReport};
use crate::storage::simulated_disk::{Crash, SimulatedDisk};
use crate::storage::validate::{AppendOrigin, ValidatedBatch, ValidatedRecords};
use crate::types::{DirectoryId, LeaderEpoch, Offset, ProducerEpoch, ProducerId, TopicId, TopicPartition};

/// The log directories; the second one only where logs are moved.
const ROOTS: [&str; 2] = ["/data", "/other"];
const DELETE_DELAY_MS: i64 = 20;

/// Why a step did not come to its end.
#[derive(Debug)]
pub enum Halt {
    /// The disk died.
    Dead,
    /// The disk failed as it was told to, or has failed before.
    Failed,
    /// What must never be.
    Violation(String),
}

pub type Outcome<T = ()> = Result<T, Halt>;

pub fn violation<T>(what: impl Into<String>) -> Outcome<T> {
    Err(Halt::Violation(what.into()))
}

/// See the module's documentation.
pub struct World {
    pub random: SmallRng,
    pub disk: SimulatedDisk,
    clock: Arc<ManualClock>,
    context: LogContext,
    manager: Option<Arc<LogManager>>,
    pub partitions: Vec<Partition>,
    logs: Vec<Option<Arc<Log>>>,
    is_made: Vec<bool>,
    /// Up to where flushes were answered.
    answered: Vec<Arc<AtomicI64>>,
    /// The largest starts that others have noted meanwhile.
    noted_starts: Vec<Arc<AtomicI64>>,
    directories: Vec<DirectoryId>,
    /// What starts have set aside, as it is of no topic that is there.
    strays: BTreeSet<PathBuf>,
    is_closing: bool,
    /// A call has failed, or there was no room, since the node was made.
    has_failed: bool,
    /// How the last process ended; `None`: in order.
    ended_by: Option<Crash>,
    is_up: bool,
    /// The start before did not come to its end.
    is_again: bool,
    /// A log was opened later: its directory gets no marker of an orderly end.
    is_reopened: bool,
    /// Makes every batch another one.
    counter: u32,
    pub says: bool,
}

impl World {
    /// A node with one partition for each role, and as many log directories.
    pub fn new(seed: u64, roles: &[Role], directories: usize) -> World {
        let mut random = SmallRng::seed_from_u64(seed);
        let disk = SimulatedDisk::with_seed(seed);
        let clock = ManualClock::new(1_000_000);
        let partitions = roles
            .iter()
            .enumerate()
            .map(|(n, role)| {
                let config = TopicConfig {
                    cleanup_policy: CleanupPolicy {
                        compact: *role == Role::Compacted,
                        delete: *role != Role::Compacted,
                    },
                    segment_bytes: random.random_range(500..2000),
                    index_interval_bytes: [0, 100, 300][random.random_range(0..3)],
                    min_cleanable_dirty_ratio: 0.0,
                    delete_retention_ms: 1000,
                    retention_ms: -1,
                    retention_bytes: if random.random_bool(0.3) { 1500 } else { -1 },
                    file_delete_delay_ms: DELETE_DELAY_MS,
                    flush_messages: if random.random_bool(0.2) { 1 } else { i64::MAX },
                    ..TopicConfig::default()
                };
                let keeps = *role == Role::Leader && random.random_bool(0.5);
                let damage = if keeps { DamagePolicy::KeepReadable } else { DamagePolicy::CutOff };
                Partition::new(TopicPartition::new("t", n as i32), *role, config, damage)
            })
            .collect::<Vec<_>>();
        World {
            context: context(&disk, &clock),
            disk,
            clock,
            manager: None,
            logs: vec![None; roles.len()],
            is_made: vec![false; roles.len()],
            answered: roles.iter().map(|_| Arc::default()).collect(),
            noted_starts: roles.iter().map(|_| Arc::default()).collect(),
            partitions,
            directories: (0..directories).map(|_| DirectoryId::random()).collect(),
            strays: BTreeSet::new(),
            is_closing: false,
            has_failed: false,
            ended_by: None,
            is_up: false,
            is_again: false,
            is_reopened: false,
            counter: 0,
            says: false,
            random,
        }
    }

    fn say(&self, what: impl std::fmt::Display) {
        if self.says {
            println!("{what}");
        }
    }

    // --- life ----------------------------------------------------------------------------------------------------

    /// Starts the node, and checks what it has found.
    pub fn start(&mut self) -> Outcome {
        self.disk.set_activity(match self.ended_by {
            None => "start",
            Some(Crash::Kill) => "start after a kill",
            Some(Crash::PowerLoss) => "start after a power loss",
        });
        self.is_closing = false;
        self.context = context(&self.disk, &self.clock);
        let config = LogManagerConfig {
            log_dirs: ROOTS.iter().map(PathBuf::from).zip(self.directories.iter().copied()).collect(),
            unusable: BTreeMap::new(),
            recovery_threads_per_data_dir: 1,
            file_delete_delay_ms: DELETE_DELAY_MS,
            producers: ProducerStateConfig { verification_enabled: false, ..ProducerStateConfig::default() },
            on_failure: match self.says {
                true => Arc::new(|failure| println!("  {failure:?}")),
                false => Arc::new(|_| {}),
            },
        };
        let manager = LogManager::open(self.context.clone(), config);
        let manager = manager.map_err(|error| self.halt(error))?;
        let hosted = self.partitions.iter().map(|partition| {
            let hosted = HostedPartition {
                topic_id: partition.topic_id,
                leader_epoch: LeaderEpoch(i32::MAX),
                config: partition.config.clone(),
                damage: partition.damage,
                directory: None,
            };
            (partition.topic_partition.clone(), hosted)
        });
        let hosted: BTreeMap<_, _> = hosted.collect();
        let assigned = move |partition: &TopicPartition, topic_id: Option<TopicId>| {
            hosted.get(partition).filter(|hosted| topic_id.is_none_or(|id| id == hosted.topic_id)).cloned()
        };
        let reports: Arc<Mutex<BTreeMap<TopicPartition, RecoveryReport>>> = Arc::default();
        let told = reports.clone();
        let events = move |event: LoadEvent<'_>| {
            if let LoadEvent::Loaded { partition, report, .. } = event {
                // Of a log and its copy both.
                told.lock().entry(partition.clone()).or_default().repairs.extend(report.repairs.iter().cloned());
            }
        };
        // Of a topic that was made anew, or was not made to its end.
        self.strays.extend(manager.load(&assigned, Arc::new(events)).strays);
        self.manager = Some(manager.clone());
        for n in 0..self.partitions.len() {
            match manager.get(&self.partitions[n].topic_partition) {
                Ok(log) => {
                    self.logs[n] = Some(log);
                    self.is_made[n] = true;
                    let report = reports.lock().remove(&self.partitions[n].topic_partition).unwrap_or_default();
                    self.check_start(n, &report)?;
                }
                Err(LogLookupError::Offline) => return Err(self.halt("offline")),
                Err(LogLookupError::Unknown) if self.disk.is_dead() || manager.has_offline_dirs() => {
                    return Err(self.halt("offline"));
                }
                Err(LogLookupError::Unknown) if self.is_made[n] => return violation(format!("log {n} is gone")),
                Err(LogLookupError::Unknown) => self.make(n)?,
            }
        }
        match self.disk.is_dead() || manager.has_offline_dirs() {
            true => Err(self.halt("offline")),
            false => {
                self.is_up = true;
                self.check_directories()
            }
        }
    }

    /// Each log lies in one directory, and nothing was set aside.
    fn check_directories(&mut self) -> Outcome {
        if self.has_failed || self.disk.failed_at().is_some() {
            return Ok(());
        }
        let mut names = Vec::new();
        for root in &ROOTS[..self.directories.len()] {
            let entries = self.disk.held(|| self.disk.list(Path::new(root)));
            let entries = entries.map_err(|error| Halt::Violation(error.to_string()))?;
            for entry in entries {
                let Some(name) = entry.name.to_str().and_then(DirectoryName::parse) else { continue };
                let path = Path::new(root).join(&entry.name);
                if name.kind == DirectoryKind::Stray && !self.strays.contains(&path) {
                    return violation(format!("{} was set aside", path.display()));
                }
                names.push(name);
            }
        }
        for partition in &self.partitions {
            let is_it = |name: &&DirectoryName| {
                name.kind == DirectoryKind::Current && name.topic_partition == partition.topic_partition
            };
            let count = names.iter().filter(is_it).count();
            if count != 1 {
                return violation(format!("{} lies in {count} directories", partition.topic_partition));
            }
        }
        Ok(())
    }

    fn check_start(&mut self, n: usize, report: &RecoveryReport) -> Outcome {
        let log = self.log(n)?;
        self.say(format_args!(
            "  {n}: {}..{} recovery point {} {:?} {:?}",
            log.log_start_offset(),
            log.log_end_offset(),
            log.recovery_point(),
            log.segments().iter().map(|s| (s.base_offset.0, s.size)).collect::<Vec<_>>(),
            report.repairs.iter().map(|r| format!("{}: {}: {}", r.file, r.found, r.done)).collect::<Vec<_>>()
        ));
        if self.disk.is_dead() || log.is_offline() {
            return Err(self.halt("offline"));
        }
        let ended_by = self.ended_by;
        let (partition, random) = (&mut self.partitions[n], &mut self.random);
        let result = self.disk.held(|| partition.check_start(&log, report, ended_by, self.is_again, random));
        result.map_err(|what| Halt::Violation(format!("partition {n} ({:?}): {what}", self.partitions[n].role)))?;
        self.begin_epoch(n);
        Ok(())
    }

    pub fn has_several_directories(&self) -> bool {
        self.directories.len() > 1
    }

    /// What is written where other records were is of another leader: copies go by that.
    fn begin_epoch(&mut self, n: usize) {
        if self.has_several_directories() {
            self.partitions[n].epoch.0 += 1;
        }
    }

    fn make(&mut self, n: usize) -> Outcome {
        self.partitions[n].start_anew(0);
        self.partitions[n].doubts.clear();
        self.disk.set_activity("make a partition");
        let new = NewLog {
            topic_id: self.partitions[n].topic_id,
            config: self.partitions[n].config.clone(),
            damage: self.partitions[n].damage,
            directory: None,
            is_new: true,
        };
        let made = self.manager()?.get_or_create(&self.partitions[n].topic_partition, new);
        self.logs[n] = Some(made.map_err(|error| self.halt(error))?);
        self.is_made[n] = true;
        Ok(())
    }

    /// The process ends; what is there afterwards is found by the next one.
    pub fn crash(&mut self, crash: Crash) {
        self.collect_promises();
        self.has_failed |= self.disk.failed_at().is_some();
        self.say(format_args!("{crash:?}"));
        let seed = self.random.random();
        self.end(crash, seed);
        // What a power loss took before a start that did not come to its end is still missing.
        self.ended_by = self.ended_by.filter(|_| !self.is_up).max(Some(crash));
        self.is_again = !self.is_up;
        (self.is_up, self.is_reopened) = (false, false);
    }

    fn end(&mut self, crash: Crash, seed: u64) {
        self.disk = self.disk.restart(crash, seed);
        // They hold the logs; all of them fail.
        self.context.background.run_pending(Duration::from_secs(1));
        self.logs.iter_mut().for_each(|log| *log = None);
        self.manager = None;
    }

    fn restart(&mut self) -> Outcome {
        self.close()?;
        self.start()
    }

    fn restart_without_indexes(&mut self, n: usize) -> Outcome {
        let dir = self.log(n)?.dir();
        self.close()?;
        let removed = self.disk.held(|| {
            let entries = self.disk.list(&dir)?;
            let names = entries.iter().filter_map(|entry| FileName::parse(entry.name.to_str()?));
            let is_index = |name: &FileName| matches!(name.kind, FileKind::OffsetIndex | FileKind::TimeIndex);
            names.filter(is_index).try_for_each(|name| self.disk.remove_file(&name.path_in(&dir)))?;
            self.disk.sync_dir(&dir)
        });
        removed.map_err(|error| Halt::Violation(error.to_string()))?;
        // The start reports what it repairs.
        self.ended_by = Some(Crash::Kill);
        self.start()
    }

    /// Ends in order, and makes sure that nothing depends on power from then on.
    pub fn close(&mut self) -> Outcome {
        let end = |partition: &Partition| (partition.topic_partition.clone(), Offset(partition.end));
        let high_watermarks = self.partitions.iter().map(end).collect();
        let manager = self.manager()?;
        let dirs: Vec<Option<PathBuf>> = self.logs.iter().map(|log| Some(log.as_ref()?.dir())).collect();
        self.is_closing = true;
        manager.shutdown(1, &high_watermarks);
        if self.disk.is_dead() || manager.has_offline_dirs() || self.disk.failed_at().is_some() {
            return Err(self.halt("cannot be closed"));
        }
        let disk: Arc<dyn Disk> = Arc::new(self.disk.clone());
        for root in &ROOTS[..self.directories.len()] {
            let marker = CleanShutdownFile::new(disk.clone(), Path::new(root));
            if !self.is_reopened && !self.disk.held(|| marker.exists()).unwrap_or(false) {
                return violation(format!("there is no marker in {root} after an orderly end"));
            }
        }
        for (n, (partition, dir)) in self.partitions.iter_mut().zip(dirs).enumerate() {
            (partition.durable, partition.durable_start) = (partition.end, partition.start);
            let verified = dir.map_or(Ok(()), |dir| self.disk.held(|| partition.verify(&disk, dir)));
            verified.map_err(|what| Halt::Violation(format!("partition {n}: {what}")))?;
        }
        let crash = if self.random.random_bool(0.5) { Crash::Kill } else { Crash::PowerLoss };
        let seed = self.random.random();
        self.say(format_args!("closed, then {crash:?}"));
        self.end(crash, seed);
        // Without a marker the next one goes over what is there as after a kill.
        self.ended_by = self.is_reopened.then_some(Crash::Kill);
        (self.is_up, self.is_again, self.is_reopened) = (false, false, false);
        Ok(())
    }

    /// What a call that failed means.
    fn halt(&self, error: impl std::fmt::Display) -> Halt {
        if self.disk.is_dead() {
            return Halt::Dead;
        }
        if let Some(site) = self.disk.failed_at()
            && let Err(what) = self.check_online()
        {
            return Halt::Violation(format!("{error}: there was no room at {site}, and {what}"));
        }
        match self.disk.failed_at() {
            Some(site) => {
                self.say(format_args!("  {error}; failed at {site}"));
                Halt::Failed
            }
            None => Halt::Violation(format!("for no reason: {error}")),
        }
    }

    /// A disk without room is no reason to give it up, but where a sync is refused, after which nobody knows what is on disk; or
    /// at a start, which needs some.
    fn check_online(&self) -> Result<(), String> {
        if !self.disk.lacks_but_room() || !self.is_up {
            return Ok(());
        }
        let failed = self.logs.iter().flatten().find(|log| log.is_failed());
        match (failed, &self.manager) {
            (Some(log), _) => Err(format!("the log {} has failed", log.topic_partition())),
            (None, Some(manager)) if manager.has_offline_dirs() => Err("the directory is offline".to_owned()),
            (None, _) => Ok(()),
        }
    }

    /// There is room again, and the node goes on as if nothing had been. Not if it was being closed, nor if a sync was refused,
    /// or the start.
    pub fn recover(&mut self) -> Outcome<bool> {
        if !self.is_up {
            return self.reopen();
        }
        let is_closed = self.logs.iter().flatten().any(|log| log.is_offline());
        if !self.disk.lacks_but_room() || !self.is_up || self.disk.is_dead() || is_closed {
            return Ok(false);
        }
        self.has_failed = true;
        self.disk.recover();
        self.say("there is room again");
        for n in 0..self.partitions.len() {
            // One whose topic was made anew when there was none.
            if self.logs[n].is_none() {
                self.make(n)?;
            }
        }
        Ok(true)
    }

    /// There is room again for logs that could not be opened without.
    fn reopen(&mut self) -> Outcome<bool> {
        let Some(manager) = self.manager.clone() else { return Ok(false) };
        if !self.disk.lacks_but_room() || self.disk.is_dead() || manager.has_offline_dirs() || self.is_closing {
            return Ok(false);
        }
        self.has_failed = true;
        self.disk.recover();
        self.clock.advance(Duration::from_secs(5));
        manager.look_for_room();
        self.say("there is room again to open what is there");
        for n in 0..self.partitions.len() {
            let found = manager.get(&self.partitions[n].topic_partition);
            match found {
                // Looked at when it was opened.
                Ok(_) if self.logs[n].is_some() => continue,
                Err(LogLookupError::Unknown) if self.is_made[n] => return violation(format!("log {n} is gone")),
                Err(LogLookupError::Unknown) => self.make(n)?,
                Ok(_) | Err(LogLookupError::Offline) => {
                    let partition = &self.partitions[n];
                    let new = NewLog {
                        topic_id: partition.topic_id,
                        config: partition.config.clone(),
                        damage: partition.damage,
                        directory: None,
                        is_new: false,
                    };
                    let opened = manager.get_or_create(&partition.topic_partition, new);
                    if let Err(CreateError::Unopened(_)) = opened {
                        // Of two logs the next start has to say which one counts.
                        self.crash(Crash::PowerLoss);
                        return self.start().map(|()| true);
                    }
                    self.logs[n] = Some(opened.map_err(|error| self.halt(error))?);
                    self.is_made[n] = true;
                    // What it repaired is told to the log only.
                    (self.is_again, self.is_reopened) = (true, true);
                    self.check_start(n, &RecoveryReport::default())?;
                }
            }
        }
        self.is_up = true;
        Ok(true)
    }

    /// A change was refused. What was refused for want of room has not begun.
    fn refused(&mut self, n: usize, error: ChangeError) -> Halt {
        if let ChangeError::NoRoom(_) = error {
            self.partitions[n].doubts.pop();
        }
        self.halt(error)
    }

    fn manager(&self) -> Outcome<Arc<LogManager>> {
        self.manager.clone().ok_or_else(|| self.halt("the node is down"))
    }

    fn log(&self, n: usize) -> Outcome<Arc<Log>> {
        self.logs[n].clone().ok_or_else(|| self.halt("the node is down"))
    }

    /// What was promised since: answers of flushes, and recovery points.
    fn collect_promises(&mut self) {
        for (n, partition) in self.partitions.iter_mut().enumerate() {
            let answered = self.answered[n].swap(0, Ordering::Relaxed);
            let recovery_point = self.logs[n].as_ref().map_or(0, |log| log.recovery_point().0);
            // Of one that was beginning anew they say nothing of the records that were going, and may be back.
            if !partition.doubts.iter().any(|doubt| matches!(doubt, Doubt::StartAnew(_))) {
                partition.durable = partition.durable.max(answered).max(recovery_point).min(partition.end);
            }
            let noted = self.noted_starts[n].swap(0, Ordering::Relaxed);
            if noted <= partition.start_at_most() {
                partition.durable_start = partition.durable_start.max(noted);
            }
        }
    }

    /// Has others come in during the next step, after so many renames by which a file is deleted.
    pub fn let_in(&self, after: u64) -> Option<u64> {
        self.disk.let_in(self.others().map(|others| (after, others)));
        Some(after)
    }

    /// After how many more renames they come, if they did not. They no longer do by themselves.
    pub fn still_awaited(&self) -> Option<u64> {
        let left = self.disk.awaited();
        self.disk.let_in(None);
        left
    }

    /// What other threads do at any time: flushes and checkpoints.
    fn others(&self) -> Option<Box<dyn FnOnce() + Send>> {
        let (manager, disk) = (self.manager.clone()?, self.disk.clone());
        let logs = self.logs.iter().zip(&self.answered).zip(&self.noted_starts);
        let logs = logs.filter_map(|((log, answered), noted)| Some((log.clone()?, answered.clone(), noted.clone())));
        let logs: Vec<_> = logs.collect();
        Some(Box::new(move || {
            for (log, answered, _) in &logs {
                let end = log.log_end_offset();
                if log.flush(end).is_ok() {
                    answered.fetch_max(end.0, Ordering::Relaxed);
                }
            }
            manager.checkpoint_recovery_points();
            let starts: Vec<_> = logs.iter().map(|(log, ..)| log.log_start_offset().0).collect();
            manager.checkpoint_log_start_offsets();
            if !disk.is_dead() && disk.failed_at().is_none() && !manager.has_offline_dirs() {
                logs.iter().zip(starts).for_each(|((.., noted), start)| noted.store(start, Ordering::Relaxed));
            }
        }))
    }

    // --- steps ---------------------------------------------------------------------------------------------------

    /// Does a step, and sees whether the log is where it should be.
    pub fn step(&mut self, step: Step) -> Outcome {
        self.say(format_args!("{step:?}"));
        self.disk.set_activity(step.name());
        self.act(step)?;
        if self.disk.is_dead() {
            return Err(Halt::Dead);
        }
        if self.disk.failed_at().is_some() && self.logs.iter().flatten().any(|log| log.is_offline()) {
            return Err(self.halt("a log is offline"));
        }
        self.collect_promises();
        for partition in &mut self.partitions {
            partition.largest_start = partition.largest_start.max(partition.start);
        }
        for (n, partition) in self.partitions.iter().enumerate() {
            let Some(log) = &self.logs[n] else { continue };
            let found = (log.log_start_offset().0, log.log_end_offset().0);
            if found != (partition.start, partition.end) {
                let wanted = (partition.start, partition.end);
                return violation(format!("partition {n} goes from {} to {}, not {wanted:?}", found.0, found.1));
            }
            if log.is_offline() {
                return violation(format!("partition {n} is offline"));
            }
        }
        Ok(())
    }

    fn act(&mut self, step: Step) -> Outcome {
        match step {
            Step::Append { partition, who, count, transactional } => self.append(partition, who, count, transactional),
            Step::EndTransaction { partition, who, committed } => self.end_transaction(partition, who, committed),
            Step::Retry { partition, who } => self.retry(partition, who),
            Step::Roll { partition } => self.open_log(partition)?.roll().map(drop).map_err(|error| self.halt(error)),
            Step::Flush { partition } => {
                let log = self.open_log(partition)?;
                log.flush(log.log_end_offset()).map_err(|error| self.halt(error))?;
                self.partitions[partition].durable = log.log_end_offset().0;
                Ok(())
            }
            Step::FlushLater { partition } => {
                let log = self.open_log(partition)?;
                self.flush_later(partition, &log);
                Ok(())
            }
            Step::Retention { partition } => self.retention(partition),
            Step::DeleteRecords { partition, left } => self.delete_records(partition, left),
            Step::Truncate { partition, batches } => self.truncate(partition, batches),
            Step::StartAnew { partition, ahead } => self.start_anew(partition, ahead),
            Step::NewEpoch { partition } => {
                let log = self.open_log(partition)?;
                let epoch = self.partitions[partition].epoch.0 + 1;
                self.partitions[partition].epoch.0 = epoch;
                let assigned = log.assign_epoch(self.partitions[partition].epoch, log.log_end_offset());
                assigned.map_err(|error| self.halt(error))
            }
            Step::Clean { partition } => {
                let log = self.open_log(partition)?;
                self.partitions[partition].cleaned_to = self.partitions[partition].end;
                cleaner::clean_now(&log, log.log_end_offset());
                Ok(())
            }
            Step::DistrustIndexes { partition } => {
                let log = self.open_log(partition)?;
                let segments = log.segments.load_full();
                let sealed = segments.split_last().map_or(&[][..], |(_, sealed)| sealed);
                sealed.iter().for_each(|segment| log.distrust(segment, "so it is told"));
                Ok(())
            }
            Step::Recreate { partition } => self.recreate(partition),
            Step::Move { partition } => self.begin_move(partition),
            Step::Copy { partition } => self.copy(partition),
            Step::HandOver { partition, meanwhile } => self.hand_over(partition, meanwhile),
            Step::CallOff { partition } => {
                self.manager()?.remove_future(&self.partitions[partition].topic_partition);
                Ok(())
            }
            Step::CheckpointRecoveryPoints => {
                self.manager()?.checkpoint_recovery_points();
                self.checkpointed()
            }
            Step::CheckpointStarts => {
                self.manager()?.checkpoint_log_start_offsets();
                self.checkpointed()?;
                self.partitions.iter_mut().for_each(|partition| partition.durable_start = partition.start);
                Ok(())
            }
            Step::CheckpointOthers => {
                let end = |partition: &Partition| (partition.topic_partition.clone(), Offset(partition.end));
                self.manager()?.checkpoint_high_watermarks(&self.partitions.iter().map(end).collect());
                self.manager()?.checkpoint_cleaner_offsets();
                self.checkpointed()
            }
            Step::Background { ms } => {
                self.clock.advance(Duration::from_millis(ms));
                self.context.background.run_pending(Duration::from_millis(ms));
                Ok(())
            }
            Step::Restart => self.restart(),
            Step::RestartWithoutIndexes { partition } => self.restart_without_indexes(partition),
            Step::Kill | Step::PowerLoss => {
                let is_kill = step == Step::Kill && self.can_be_killed();
                self.crash(if is_kill { Crash::Kill } else { Crash::PowerLoss });
                self.start()
            }
        }
    }

    fn checkpointed(&self) -> Outcome {
        let is_refused = self.disk.failed_at().is_some();
        match self.disk.is_dead() || is_refused || self.manager()?.has_offline_dirs() {
            true => Err(self.halt("a checkpoint was not written")),
            false => Ok(()),
        }
    }

    /// A log that takes records.
    fn open_log(&self, n: usize) -> Outcome<Arc<Log>> {
        let log = self.log(n)?;
        // The partitions of a directory that is offline take nothing.
        match log.is_offline() || self.manager()?.has_offline_dirs() {
            true => Err(self.halt("the log is offline")),
            false => Ok(log),
        }
    }

    fn flush_later(&self, n: usize, log: &Log) {
        let answered = self.answered[n].clone();
        let up_to = log.log_end_offset();
        log.flush_then(log.flush_point(up_to), move |result| {
            if result.is_ok() {
                answered.fetch_max(up_to.0, Ordering::Relaxed);
            }
        });
    }

    fn append(&mut self, n: usize, who: usize, count: i32, transactional: bool) -> Outcome {
        let partition = &self.partitions[n];
        let producer = Some(who).filter(|who| *who < PRODUCERS);
        let view = producer.map(|producer| partition.producers[producer]);
        let transactional = producer.is_some() && (transactional || view.is_some_and(|view| view.open_since.is_some()));
        let mut builder = RecordBatchBuilder::new(Offset(0));
        let base_sequence = view.map_or(-1, |view| view.last_sequence + 1);
        if producer.is_some() {
            builder =
                builder.producer(ProducerId(who as i64), ProducerEpoch(0), base_sequence).transactional(transactional);
        }
        let is_compacted = partition.role == Role::Compacted;
        let mut entries = Vec::new();
        for _ in 0..count {
            self.counter += 1;
            let key = vec![self.random.random_range(0..6)];
            let is_tombstone = is_compacted && self.random.random_bool(0.1);
            let value = [&self.counter.to_be_bytes()[..], &vec![7; self.random.random_range(0..50)]].concat();
            let value = Some(value).filter(|_| !is_tombstone);
            let timestamp = self.clock.now_ms() - self.random.random_range(0..10);
            builder.append(timestamp, Some(&key), value.as_deref(), &[]);
            entries.push(Entry { timestamp, key, value });
        }
        let last_sequence = if producer.is_some() { base_sequence + count - 1 } else { -1 };
        self.write(n, builder, producer, last_sequence, Kind::Data { transactional }, entries)
    }

    fn end_transaction(&mut self, n: usize, who: usize, committed: bool) -> Outcome {
        if self.partitions[n].producers[who].open_since.is_none() {
            return Ok(());
        }
        let mut builder = RecordBatchBuilder::new(Offset(0))
            .producer(ProducerId(who as i64), ProducerEpoch(0), -1)
            .transactional(true)
            .control(true);
        let timestamp = self.clock.now_ms();
        builder.append_control(timestamp, &ControlRecord::EndTxn(EndTxnMarker { committed, coordinator_epoch: 0 }));
        let entries = vec![Entry { timestamp, key: Vec::new(), value: None }];
        self.write(n, builder, Some(who), -1, Kind::Marker { committed }, entries)
    }

    fn write(
        &mut self,
        n: usize,
        builder: RecordBatchBuilder,
        producer: Option<usize>,
        last_sequence: i32,
        kind: Kind,
        entries: Vec<Entry>,
    ) -> Outcome {
        let log = self.open_log(n)?;
        let (mut header, body) = builder.build_parts();
        let partition = &mut self.partitions[n];
        let given = header;
        header.set_base_offset(Offset(partition.end));
        header.set_partition_leader_epoch(partition.epoch);
        let written = Written {
            base: partition.end,
            last: header.last_offset().0,
            epoch: partition.epoch,
            bytes: [header.as_bytes(), &body[..]].concat(),
            producer,
            last_sequence,
            kind,
            entries,
        };
        partition.doubts.push(Doubt::Append(written.clone()));
        let appended = match partition.role {
            Role::Follower => log.append_as_follower(records(header, body, true)),
            Role::Leader | Role::Compacted => {
                let origin = match kind {
                    Kind::Data { .. } => AppendOrigin::Client,
                    Kind::Marker { .. } => AppendOrigin::Coordinator,
                };
                log.append_as_leader(records(given, body, false), partition.epoch, origin, AppendContext::default())
            }
        };
        let info = appended.map_err(|error| self.halt(error))?;
        let partition = &mut self.partitions[n];
        partition.doubts.pop();
        if (info.first_offset.0, info.last_offset.0, info.duplicate) != (written.base, written.last, false) {
            return violation(format!("appended as {info:?}"));
        }
        partition.append(written);
        log.on_high_watermark(log.log_end_offset());
        if info.flush_due.is_some() {
            self.flush_later(n, &log);
        }
        Ok(())
    }

    /// Sends a producer's last batch again: the log must know it.
    fn retry(&mut self, n: usize, who: usize) -> Outcome {
        let log = self.open_log(n)?;
        let partition = &self.partitions[n];
        let is_last = |batch: &&Written| {
            batch.producer == Some(who) && matches!(batch.kind, Kind::Data { .. }) && batch.base >= partition.start
        };
        let Some(last) = partition.written.iter().rev().find(is_last) else { return Ok(()) };
        if partition.role == Role::Follower || last.last_sequence != partition.producers[who].last_sequence {
            return Ok(());
        }
        let header: [u8; HEADER_SIZE] = last.bytes[..HEADER_SIZE].try_into().expect("a batch has a header");
        let header = BatchHeader::from_bytes(header).map_err(|error| Halt::Violation(error.to_string()))?;
        let records = records(header, Bytes::copy_from_slice(&last.bytes[HEADER_SIZE..]), false);
        let appended = log.append_as_leader(records, partition.epoch, AppendOrigin::Client, AppendContext::default());
        let AppendInfo { last_offset, duplicate, .. } = appended.map_err(|error| self.halt(error))?;
        match duplicate && last_offset.0 == last.last {
            true => Ok(()),
            false => violation(format!("a batch that is at {} was appended again, at {last_offset}", last.last)),
        }
    }

    fn retention(&mut self, n: usize) -> Outcome {
        let log = self.open_log(n)?;
        let end = self.partitions[n].end;
        self.partitions[n].doubts.push(Doubt::DeleteRecords(end));
        let deleted = log.delete_old_segments(self.clock.now_ms(), Offset(end));
        deleted.map_err(|error| self.halt(error))?;
        let partition = &mut self.partitions[n];
        partition.doubts.pop();
        let start = log.log_start_offset().0;
        if start < partition.start {
            return violation(format!("retention moves the start back from {} to {start}", partition.start));
        }
        partition.start = start;
        Ok(())
    }

    fn delete_records(&mut self, n: usize, left: usize) -> Outcome {
        let log = self.open_log(n)?;
        let partition = &mut self.partitions[n];
        let kept = partition.written.len().saturating_sub(left);
        let to = partition.written.get(kept).map_or(partition.end, |batch| batch.base);
        if to <= partition.start {
            return Ok(());
        }
        partition.doubts.push(Doubt::DeleteRecords(to));
        log.advance_log_start_offset(Offset(to)).map_err(|error| self.halt(error))?;
        let partition = &mut self.partitions[n];
        partition.doubts.pop();
        partition.start = to;
        Ok(())
    }

    fn truncate(&mut self, n: usize, batches: usize) -> Outcome {
        let log = self.open_log(n)?;
        let partition = &mut self.partitions[n];
        let kept = partition.written.len().saturating_sub(batches);
        let Some(to) = partition.written.get(kept).map(|batch| batch.base) else { return Ok(()) };
        // A follower is never told to go below what is replicated, and so neither below what was cleaned or deleted.
        if to < partition.start.max(partition.cleaned_to).max(partition.durable_start) {
            return Ok(());
        }
        partition.doubts.push(Doubt::Truncate(to));
        self.answered[n].store(0, Ordering::Relaxed);
        log.truncate_to(Offset(to)).map_err(|error| self.refused(n, error))?;
        let partition = &mut self.partitions[n];
        partition.doubts.pop();
        partition.truncate(to);
        self.begin_epoch(n);
        let partition = &mut self.partitions[n];
        let taken_over = self.disk.held(|| partition.take_over_producers(&log));
        taken_over.map_err(|what| Halt::Violation(format!("after a truncation {what}")))
    }

    fn start_anew(&mut self, n: usize, ahead: i64) -> Outcome {
        let log = self.open_log(n)?;
        let partition = &mut self.partitions[n];
        let at = (partition.end + ahead - 3).max(0);
        partition.doubts.push(Doubt::StartAnew(at));
        self.answered[n].store(0, Ordering::Relaxed);
        log.truncate_fully_and_start_at(Offset(at)).map_err(|error| self.refused(n, error))?;
        let partition = &mut self.partitions[n];
        partition.doubts.pop();
        partition.start_anew(at);
        self.begin_epoch(n);
        Ok(())
    }

    fn recreate(&mut self, n: usize) -> Outcome {
        let manager = self.manager()?;
        if manager.has_offline_dirs() {
            return Err(self.halt("offline"));
        }
        self.logs[n] = None;
        // From here on that is what the metadata says.
        self.partitions[n].recreate();
        self.answered[n] = Arc::default();
        self.is_made[n] = false;
        let failed = manager.delete(&[self.partitions[n].topic_partition.clone()]);
        if self.disk.is_dead() || !failed.is_empty() {
            return Err(self.halt("cannot be deleted"));
        }
        self.make(n)
    }

    /// Begins to move a log to the other directory, or goes on with it.
    fn begin_move(&mut self, n: usize) -> Outcome {
        let (log, manager) = (self.open_log(n)?, self.manager()?);
        let to = ROOTS.iter().find(|root| !log.dir().starts_with(root)).expect("there are two");
        let made = manager.create_future(&self.partitions[n].topic_partition, to);
        made.map(drop).map_err(|error| self.halt(error))
    }

    /// Copies all that is there, if the log is being moved.
    fn copy(&mut self, n: usize) -> Outcome {
        let (log, manager) = (self.open_log(n)?, self.manager()?);
        let Some(moved) = manager.future(&self.partitions[n].topic_partition) else { return Ok(()) };
        log.pause_cleaning(true);
        let copied = moved.future.align_with(&log).and_then(|()| {
            while moved.future.copy_from(&log)? > 0 {}
            moved.future.follow_log_start(&log).map(drop)
        });
        copied.map_err(|error| self.halt(error))
    }

    /// Copies what is left, and has the copy take the log's place. `meanwhile`: it takes records before the log is gone.
    fn hand_over(&mut self, n: usize, meanwhile: bool) -> Outcome {
        self.copy(n)?;
        let manager = self.manager()?;
        let name = self.partitions[n].topic_partition.clone();
        let Some(moved) = manager.future(&name) else { return Ok(()) };
        let exchange = match manager.replace_with_future(&name, &moved) {
            // The log ends behind a gap, which there is nothing to copy of: the move waits for the next records.
            Err(HandoverError::Differs) if moved.current.segments().last().is_some_and(|last| last.size == 0) => {
                return Ok(());
            }
            exchanged => exchanged.map_err(|error| self.halt(error))?,
        };
        let log = exchange.log();
        self.logs[n] = Some(log.clone());
        log.on_high_watermark(log.log_end_offset());
        // Records that had been deleted may have come back by a crash; the copy begins where it did.
        let partition = &mut self.partitions[n];
        partition.start = log.log_start_offset().0.clamp(partition.start, partition.largest_start.max(partition.start));
        let regained = self.disk.held(|| partition.regain(&log));
        if !self.disk.is_dead() {
            regained.map_err(|what| Halt::Violation(format!("partition {n} after a move: {what}")))?;
        }
        let appended = if meanwhile { self.append(n, 2, 2, false) } else { Ok(()) };
        manager.finish_exchange(exchange);
        appended
    }

    /// After the disk has failed: what is there can still be read, and is what it was.
    pub fn check_reads(&mut self) -> Outcome {
        if self.disk.is_dead() {
            // It died in the same step.
            return Ok(());
        }
        for (n, partition) in self.partitions.iter().enumerate() {
            let Some(log) = &self.logs[n] else { continue };
            if let Err(what) = self.disk.held(|| partition.check_reads(log)) {
                return violation(format!("partition {n} after a failure: {what}"));
            }
        }
        Ok(())
    }

    /// Whether it is known what a killed process leaves. After a sync has failed nobody does.
    pub fn can_be_killed(&self) -> bool {
        !self.disk.has_failed_to_sync()
    }
}

fn context(disk: &SimulatedDisk, clock: &Arc<ManualClock>) -> LogContext {
    let background = Background::stepped();
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    LogContext { files: FileCache::new(disk.clone(), background.clone(), 1000), disk, clock: clock.clone(), background }
}

fn records(header: BatchHeader, body: Bytes, as_given: bool) -> ValidatedRecords {
    let given = Bytes::from([header.as_bytes(), &body[..]].concat());
    ValidatedRecords {
        size_in_bytes: given.len(),
        max_timestamp: header.max_timestamp(),
        log_append_time_ms: None,
        as_given: as_given.then_some(given),
        batches: vec![ValidatedBatch { header, body }],
    }
}
