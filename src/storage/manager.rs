//! `LogManager`: all logs of a node, in one or several log directories.
//!
//! Owns the log directories: their lock files, clean-shutdown markers and root checkpoints, which partition lies where,
//! and which directory has failed. Its life: [`LogManager::open`] locks the directories; once the metadata says which
//! partitions belong to this node, [`LogManager::load`] opens their logs; [`LogManager::shutdown`] closes all and leaves
//! the markers. In between logs are looked up, made and deleted, and whoever has a timer calls the periodic jobs.
//!
//! A directory in which the disk fails goes offline: its logs are gone from here, look-ups answer
//! [`LogLookupError::Offline`], the rest goes on. What that means for the node, and above all when it was the last
//! directory or the one of the metadata log, is up to whoever gets the [`DirectoryFailure`]. A log that cannot be opened, though the
//! disk does what it is asked, is offline alone ([`unopened`]).
//!
//! Everything blocks, so callers are helper threads, but for [`LogManager::get`]. The map of logs is never locked while
//! a log is called or the disk is used. The metadata log is not kept here: the quorum opens it.

mod directory;
mod jobs;
mod load;
mod moving;
mod unopened;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};

use parking_lot::{Condvar, Mutex, RwLock};
use thiserror::Error;
use tracing::{debug, error, info, warn};

pub use load::{HostedPartition, LoadEvent, LoadReport};
pub use moving::{DescribedLog, FutureLog, MoveError, absolute};

use self::directory::LogDir;
use self::unopened::{NotedOffsets, StrayInPlace, Unopened};
use crate::config::BrokerConfig;
use crate::config::TopicConfig;
use crate::storage::background::Lane;
use crate::storage::cleaner::{CleanerConfig, HighWatermarks, LogCleaner, Retention};
use crate::storage::dir_lock::LockError;
use crate::storage::directory_name::{DirectoryKind, name_for};
use crate::storage::disk::{Space, concerns_file, is_full};
use crate::storage::known_bugs::{self, KnownBug};
use crate::storage::log::{DiskTrouble, Log, LogContext, LogOpenError, OnFailure};
use crate::storage::partition_metadata;
use crate::storage::producer_state::ProducerStateConfig;
use crate::storage::recovery::DamagePolicy;
use crate::storage::work_queue::in_parallel;
use crate::types::{DirectoryId, LeaderEpoch, Offset, TopicId, TopicPartition};

/// Settings of all logs of a node.
pub struct LogManagerConfig {
    /// `log.dirs`, with the id in each one's `meta.properties`. Made if they do not exist.
    pub log_dirs: Vec<(PathBuf, DirectoryId)>,
    /// Those of them that are known to be unusable, and why: they are offline from the start.
    pub unusable: BTreeMap<PathBuf, String>,
    /// `num.recovery.threads.per.data.dir`
    pub recovery_threads_per_data_dir: usize,
    /// `log.segment.delete.delay.ms`, for directories whose deletion a restart interrupted.
    pub file_delete_delay_ms: i64,
    pub producers: ProducerStateConfig,
    /// Told of each directory that goes offline. Called from any thread, perhaps under a log's lock: it may take a note
    /// and wake somebody, and must call no log.
    pub on_failure: Arc<dyn Fn(&DirectoryFailure) + Send + Sync>,
}

/// A log directory went offline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirectoryFailure {
    pub dir: PathBuf,
    pub id: DirectoryId,
    pub error: String,
    /// The partitions whose logs were open there.
    pub partitions: Vec<TopicPartition>,
    /// How many directories are left.
    pub online: usize,
}

/// Why the logs of a node cannot be managed.
#[derive(Debug, Error)]
pub enum OpenError {
    #[error(transparent)]
    Locked(LockError),
    #[error("log directory {} is given twice", .0.display())]
    Duplicate(PathBuf),
    #[error("none of the log directories can be used: {0}")]
    NoneUsable(String),
}

/// Why there is no log to be had.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum LogLookupError {
    /// UNKNOWN_TOPIC_OR_PARTITION or NOT_LEADER_OR_FOLLOWER
    #[error("this node has no log of the partition")]
    Unknown,
    /// KAFKA_STORAGE_ERROR
    #[error("the log of the partition is offline")]
    Offline,
}

/// Why a log was not made or given.
#[derive(Debug, Error)]
pub enum CreateError {
    /// KAFKA_STORAGE_ERROR
    #[error("no log directory can take {topic_partition}: {reason}")]
    Storage { topic_partition: TopicPartition, reason: String },
    /// KAFKA_STORAGE_ERROR, until there is room.
    #[error("no log directory has room for {topic_partition}: {reason}")]
    Full { topic_partition: TopicPartition, reason: String },
    /// KAFKA_STORAGE_ERROR. Was told when it was found.
    #[error("the log of {0} could not be opened when the broker started")]
    Unopened(TopicPartition),
    /// INCONSISTENT_TOPIC_ID
    #[error("{topic_partition} has topic id {found} here, not {expected}")]
    InconsistentTopicId { topic_partition: TopicPartition, expected: TopicId, found: TopicId },
    #[error("the logs are closed")]
    Closed,
}

/// What is needed to make the log of a partition.
pub struct NewLog {
    pub topic_id: TopicId,
    pub config: Arc<TopicConfig>,
    pub damage: DamagePolicy,
    /// Where the metadata wants it; anywhere if that is none of the online directories.
    pub directory: Option<DirectoryId>,
    /// Whether the partition was given to this node just now. If not, and a directory is offline, then its log is
    /// probably there, and no new one is made.
    pub is_new: bool,
}

/// A log directory, for whoever describes it.
#[derive(Clone, Debug)]
pub struct LogDirInfo {
    pub path: PathBuf,
    pub id: DirectoryId,
    pub is_online: bool,
    /// New logs are made elsewhere (KIP-1066).
    pub is_cordoned: bool,
    /// `None` if it is offline or the system does not tell.
    pub space: Option<Space>,
}

#[derive(Clone)]
struct HostedLog {
    log: Arc<Log>,
    topic_id: TopicId,
    dir: Arc<LogDir>,
}

impl HostedLog {
    /// How far it goes, of two logs of a partition: by epoch first.
    fn reach(&self) -> (Option<LeaderEpoch>, Offset) {
        (self.log.latest_epoch(), self.log.log_end_offset())
    }
}

#[derive(Default)]
struct Logs {
    open: HashMap<TopicPartition, HostedLog>,
    /// Copies in other directories, which are to take the place of those in `open`.
    future: HashMap<TopicPartition, HostedLog>,
    /// Those that were open when their directory failed.
    offline: HashSet<TopicPartition>,
    /// Those that could not be opened. Never open at the same time.
    unopened: HashMap<TopicPartition, Vec<Unopened>>,
}

impl Logs {
    fn is_offline(&self, topic_partition: &TopicPartition) -> bool {
        self.offline.contains(topic_partition) || self.unopened.contains_key(topic_partition)
    }

    /// Has this log be that of a partition from now on. Returns whether it can be: if its directory has failed meanwhile, the
    /// partition is offline.
    fn put(&mut self, topic_partition: &TopicPartition, hosted: HostedLog) -> bool {
        // A directory is marked before its logs are taken out, under this lock: a log that is on its way is not missed.
        let is_online = hosted.dir.is_online();
        match is_online {
            true => {
                self.offline.remove(topic_partition);
                self.open.insert(topic_partition.clone(), hosted);
            }
            false => {
                self.open.remove(topic_partition);
                self.offline.insert(topic_partition.clone());
            }
        }
        is_online
    }
}

/// Why a log is not that of its partition.
enum NotHosted {
    /// There is another one, which stays.
    Duplicate(HostedLog),
    /// Its directory has failed since it was opened: the partition is offline. The [`DirectoryFailure`] does not name it.
    Offline,
}

/// See the module's documentation.
pub struct LogManager {
    context: LogContext,
    config: LogManagerConfig,
    dirs: Vec<Arc<LogDir>>,
    logs: RwLock<Logs>,
    /// Held while a directory is chosen for a new log.
    placing: Mutex<()>,
    /// Logs that are to be set aside when there is room.
    strays_in_place: Mutex<Vec<StrayInPlace>>,
    /// Where logs that do not exist yet shall be made.
    preferred: Mutex<HashMap<TopicPartition, DirectoryId>>,
    /// Partitions whose log is being made, exchanged or deleted.
    busy: Mutex<HashSet<TopicPartition>>,
    not_busy: Condvar,
    producers: RwLock<ProducerStateConfig>,
    /// `num.recovery.threads.per.data.dir`
    recovery_threads: AtomicUsize,
    /// `log.segment.delete.delay.ms`, for directories whose deletion a restart interrupted.
    file_delete_delay_ms: AtomicI64,
    stage: RwLock<Stage>,
    cleaner: Mutex<Option<LogCleaner>>,
}

/// What may be done with the logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// What is on disk is not known yet: nothing may be made, and the checkpoints on disk are worth more than ours.
    Opened,
    Loaded,
    /// The last checkpoints are written.
    Closing,
    Closed,
}

impl LogManager {
    /// Makes and locks the log directories. One that cannot be used goes offline; none may be in use by another broker.
    pub fn open(context: LogContext, config: LogManagerConfig) -> Result<Arc<LogManager>, OpenError> {
        let mut dirs: Vec<Arc<LogDir>> = Vec::new();
        for (path, id) in &config.log_dirs {
            if dirs.iter().any(|dir| dir.path == *path) {
                return Err(OpenError::Duplicate(path.clone()));
            }
            dirs.push(Arc::new(LogDir::new(&context, path.clone(), *id)));
        }
        let manager = LogManager {
            context,
            dirs,
            logs: RwLock::default(),
            placing: Mutex::default(),
            strays_in_place: Mutex::default(),
            preferred: Mutex::default(),
            busy: Mutex::default(),
            not_busy: Condvar::new(),
            producers: RwLock::new(config.producers),
            recovery_threads: AtomicUsize::new(config.recovery_threads_per_data_dir),
            file_delete_delay_ms: AtomicI64::new(config.file_delete_delay_ms),
            config,
            stage: RwLock::new(Stage::Opened),
            cleaner: Mutex::default(),
        };
        let mut last_error = String::from("there are none");
        for dir in &manager.dirs {
            if let Some(reason) = manager.config.unusable.get(&dir.path) {
                last_error.clone_from(reason);
                manager.take_offline(dir, reason);
                continue;
            }
            match dir.prepare() {
                Ok(()) => {}
                Err(error @ LockError::InUse { .. }) => return Err(OpenError::Locked(error)),
                Err(error) => {
                    last_error = error.to_string();
                    manager.take_offline(dir, &last_error);
                }
            }
        }
        match manager.dirs.iter().any(|dir| dir.is_online()) {
            true => Ok(Arc::new(manager)),
            false => Err(OpenError::NoneUsable(last_error)),
        }
    }

    /// The epoch under which this broker was registered when it was last closed in order, if that is true of all
    /// directories: no record was lost since then (KIP-966).
    pub fn previous_broker_epoch(&self) -> Option<i64> {
        let mut epochs = self.dirs.iter().map(|dir| dir.previous_broker_epoch().filter(|_| dir.is_online()));
        let first = epochs.next()??;
        epochs.all(|epoch| epoch == Some(first)).then_some(first)
    }

    /// The log of a partition. Does not block.
    pub fn get(&self, topic_partition: &TopicPartition) -> Result<Arc<Log>, LogLookupError> {
        let logs = self.logs.read();
        match logs.open.get(topic_partition) {
            Some(hosted) => Ok(hosted.log.clone()),
            None if logs.is_offline(topic_partition) => Err(LogLookupError::Offline),
            None => Err(LogLookupError::Unknown),
        }
    }

    /// The topic whose log this is.
    pub fn topic_id(&self, topic_partition: &TopicPartition) -> Option<TopicId> {
        self.logs.read().open.get(topic_partition).map(|hosted| hosted.topic_id)
    }

    /// The directory in which the log of a partition lies.
    pub fn directory_of(&self, topic_partition: &TopicPartition) -> Option<DirectoryId> {
        self.logs.read().open.get(topic_partition).map(|hosted| hosted.dir.id)
    }

    /// All logs that are open, in no order.
    pub fn logs(&self) -> Vec<(TopicPartition, Arc<Log>)> {
        self.logs.read().open.iter().map(|(partition, hosted)| (partition.clone(), hosted.log.clone())).collect()
    }

    /// The logs in one directory, ordered by partition. Copies that are being made there are among them: a partition's log
    /// lies in another directory then.
    pub fn logs_in(&self, directory: DirectoryId) -> BTreeMap<TopicPartition, Arc<Log>> {
        let logs = self.logs.read();
        let there = logs.open.iter().chain(&logs.future).filter(|(_, hosted)| hosted.dir.id == directory);
        there.map(|(partition, hosted)| (partition.clone(), hosted.log.clone())).collect()
    }

    pub fn has_offline_dirs(&self) -> bool {
        self.dirs.iter().any(|dir| !dir.is_online())
    }

    /// All log directories, in the order of the setting.
    pub fn log_dirs(&self) -> Vec<LogDirInfo> {
        let describe = |dir: &Arc<LogDir>| {
            let is_online = dir.is_online();
            let space = is_online.then(|| self.context.disk.space(&dir.path).ok()).flatten();
            LogDirInfo { path: dir.path.clone(), id: dir.id, is_online, is_cordoned: dir.is_cordoned(), space }
        };
        self.dirs.iter().map(describe).collect()
    }

    /// The log of a partition; makes it if there is none, in the directory with the fewest. Its topic id is on disk
    /// before this returns.
    pub fn get_or_create(
        self: &Arc<Self>,
        topic_partition: &TopicPartition,
        new: NewLog,
    ) -> Result<Arc<Log>, CreateError> {
        let _busy = self.exclusively(topic_partition);
        let stage = self.stage.read();
        match *stage {
            Stage::Opened => panic!("logs are made once those on disk are known"),
            Stage::Loaded => {}
            Stage::Closing | Stage::Closed => return Err(CreateError::Closed),
        }
        if let Some(hosted) = self.logs.read().open.get(topic_partition) {
            return match hosted.topic_id == new.topic_id {
                true => Ok(hosted.log.clone()),
                false => Err(CreateError::InconsistentTopicId {
                    topic_partition: topic_partition.clone(),
                    expected: new.topic_id,
                    found: hosted.topic_id,
                }),
            };
        }
        if self.logs.read().unopened.contains_key(topic_partition) {
            return self.open_with_room(topic_partition, &new);
        }
        let storage = |reason| CreateError::Storage { topic_partition: topic_partition.clone(), reason };
        if !new.is_new && self.has_offline_dirs() {
            return Err(storage("a log directory is offline, and its log may be there".to_owned()));
        }
        let mut reason = String::from("all are offline");
        let mut full: Vec<DirectoryId> = Vec::new();
        let wanted = self.wanted_dir(topic_partition, new.directory);
        while let Some(dir) = self.place(wanted, &full) {
            match self.create_in(&dir, topic_partition, &new) {
                Ok(Some(log)) => return Ok(log),
                Ok(None) => reason = format!("{} has failed", dir.path.display()),
                Err(error) => {
                    reason = error.to_string();
                    let LogOpenError::Io { source, .. } = &error;
                    if is_full(source) {
                        dir.log_count.fetch_sub(1, Ordering::Relaxed);
                        dir.tell_full(source);
                        full.push(dir.id);
                        continue;
                    }
                    if concerns_file(source) && dir.check().is_ok() {
                        // Something has the name, perhaps: no reason to give up what lies beside it.
                        dir.log_count.fetch_sub(1, Ordering::Relaxed);
                        return Err(storage(reason));
                    }
                    self.take_offline(&dir, &reason);
                }
            }
            if wanted == Some(dir.id) {
                break;
            }
        }
        match full.is_empty() {
            true => Err(storage(reason)),
            false => Err(CreateError::Full { topic_partition: topic_partition.clone(), reason }),
        }
    }

    /// Finds the directory for a new log, and counts it there: many may be made at the same time.
    fn place(&self, wanted: Option<DirectoryId>, full: &[DirectoryId]) -> Option<Arc<LogDir>> {
        let _one_at_a_time = self.placing.lock();
        let online = || self.dirs.iter().filter(|dir| dir.is_online() && !full.contains(&dir.id));
        let given = online().find(|dir| Some(dir.id) == wanted);
        let open = online().filter(|dir| !dir.is_cordoned());
        let fewest = open.min_by_key(|dir| dir.log_count.load(Ordering::Relaxed));
        // The controller places nothing on a broker of which all are cordoned; what it gave before, or was told to give,
        // must lie somewhere.
        let dir = given.or(fewest).or_else(|| online().next())?;
        dir.log_count.fetch_add(1, Ordering::Relaxed);
        Some(dir.clone())
    }

    /// `None`: the directory failed when the log was made.
    fn create_in(
        self: &Arc<Self>,
        dir: &Arc<LogDir>,
        topic_partition: &TopicPartition,
        new: &NewLog,
    ) -> Result<Option<Arc<Log>>, LogOpenError> {
        let hosted = self.make_log(dir, DirectoryKind::Current, topic_partition, new, Offset(0))?;
        let log = hosted.log.clone();
        if self.host(topic_partition, hosted).is_err() {
            return Ok(None);
        }
        debug!(partition = %topic_partition, dir = %dir.path.display(), "created log");
        Ok(Some(log))
    }

    /// Makes a log, its directory first. Where there is no room nothing is left of it.
    fn make_log(
        self: &Arc<Self>,
        dir: &Arc<LogDir>,
        kind: DirectoryKind,
        topic_partition: &TopicPartition,
        new: &NewLog,
        log_start_offset: Offset,
    ) -> Result<HostedLog, LogOpenError> {
        let path = dir.path.join(name_for(topic_partition, kind).to_string());
        if dir.has_stale_checkpoints.load(Ordering::Relaxed) && !self.checkpoint_in(dir) {
            let source = io::Error::new(io::ErrorKind::StorageFull, "no room for checkpoints without what was deleted");
            return Err(LogOpenError::Io { path, source });
        }
        // Else it would be the new log's.
        self.set_strays_aside(Some(&path)).map_err(|source| LogOpenError::Io { path: path.clone(), source })?;
        let disk = &*self.context.disk;
        let made = dir
            .check()
            .and_then(|()| disk.create_dir_all(&path))
            .and_then(|()| partition_metadata::write(disk, &path, new.topic_id));
        made.and_then(|()| disk.sync_dir(&dir.path)).map_err(|source| {
            self.discard_if_full(&path, &source);
            LogOpenError::Io { path: path.clone(), source }
        })?;
        let noted = NotedOffsets { log_start_offset: Some(log_start_offset), ..NotedOffsets::default() };
        let params = self.log_params(dir, path.clone(), topic_partition, new.config.clone(), new.damage, noted);
        let (log, report) = Log::open(&self.context, params).inspect_err(|error| {
            let LogOpenError::Io { source, .. } = error;
            self.discard_if_full(&path, source);
        })?;
        self.follow_truncations(&log, dir);
        load::warn_of_repairs(topic_partition, &report);
        Ok(HostedLog { log, topic_id: new.topic_id, dir: dir.clone() })
    }

    /// Removes what was made of a new log for which there was no room.
    fn discard_if_full(&self, path: &Path, error: &io::Error) {
        if is_full(error)
            && let Err(error) = self.context.disk.remove_dir_all(path)
        {
            warn!(path = %path.display(), %error, "cannot remove what was made of a log");
        }
    }

    /// Tells of directories that were full and have room again. To be called every second or so. Returns whether one has.
    pub fn look_for_room(&self) -> bool {
        let regained: Vec<_> = self.dirs.iter().filter(|dir| dir.is_online() && dir.has_regained_room()).collect();
        if !regained.is_empty() {
            // What fails is told, and tried again.
            let _ = self.set_strays_aside(None);
        }
        !regained.is_empty()
    }

    /// Enters a log.
    fn host(&self, topic_partition: &TopicPartition, hosted: HostedLog) -> Result<(), NotHosted> {
        let mut logs = self.logs.write();
        if let Some(other) = logs.open.get(topic_partition) {
            return Err(NotHosted::Duplicate(other.clone()));
        }
        logs.put(topic_partition, hosted).then_some(()).ok_or(NotHosted::Offline)
    }

    /// Deletes the logs of partitions: their directories are renamed, and removed after `file.delete.delay.ms`. Returns
    /// those that cannot be deleted because they are, or may be, in a directory that is offline.
    pub fn delete(&self, topic_partitions: &[TopicPartition]) -> Vec<TopicPartition> {
        let mut failed = Vec::new();
        let mut changed: Vec<Arc<LogDir>> = Vec::new();
        for topic_partition in topic_partitions {
            let _busy = self.exclusively(topic_partition);
            self.drop_future(topic_partition);
            let unopened = self.logs.write().unopened.remove(topic_partition);
            if let Some(unopened) = unopened {
                if !self.delete_unopened(topic_partition, &unopened) {
                    failed.push(topic_partition.clone());
                }
                changed.extend(unopened.into_iter().map(|unopened| unopened.dir));
                continue;
            }
            let removed = self.logs.write().open.remove(topic_partition);
            let Some(hosted) = removed else {
                if self.has_offline_dirs() {
                    failed.push(topic_partition.clone());
                }
                continue;
            };
            if !self.remove_log(topic_partition, &hosted) {
                failed.push(topic_partition.clone());
            }
            if !changed.iter().any(|dir| Arc::ptr_eq(dir, &hosted.dir)) {
                changed.push(hosted.dir);
            }
        }
        // A topic of the same name must not inherit these offsets.
        for dir in changed.iter().filter(|dir| dir.is_online()) {
            self.checkpoint_in(dir);
        }
        failed
    }

    /// Deletes a log that is entered nowhere any more. If that fails, the directory goes offline.
    fn remove_log(&self, topic_partition: &TopicPartition, hosted: &HostedLog) -> bool {
        hosted.dir.log_count.fetch_sub(1, Ordering::Relaxed);
        match hosted.log.delete() {
            Ok(renamed) => {
                info!(partition = %topic_partition, dir = %renamed.display(), "log is to be deleted");
                true
            }
            Err(error) => {
                self.take_offline(&hosted.dir, &error.to_string());
                false
            }
        }
    }

    /// Keeps others from making, moving or deleting the same log until the guard is dropped.
    fn exclusively(&self, topic_partition: &TopicPartition) -> Busy<'_> {
        let mut busy = self.busy.lock();
        while busy.contains(topic_partition) {
            self.not_busy.wait(&mut busy);
        }
        busy.insert(topic_partition.clone());
        Busy { manager: self, topic_partition: topic_partition.clone() }
    }

    /// What a log in `dir` calls when the disk fails under it, or one of its files is not what it was.
    fn failure_handler(self: &Arc<Self>, partition: &TopicPartition, dir: &Arc<LogDir>) -> OnFailure {
        let (manager, partition, dir) = (Arc::downgrade(self), partition.clone(), dir.clone());
        Arc::new(move |trouble| match trouble {
            DiskTrouble::Failed(error) => {
                let Some(manager) = manager.upgrade() else { return };
                match concerns_file(error).then(|| dir.check()) {
                    Some(Ok(())) => manager.take_log_offline(&partition, &dir, &error.to_string()),
                    Some(Err(gone)) => manager.take_offline(&dir, &gone.to_string()),
                    None => manager.take_offline(&dir, &error.to_string()),
                }
            }
            DiskTrouble::Full(error) => dir.tell_full(error),
        })
    }

    /// The disk failed in a directory. Only the first call for a directory does anything.
    fn take_offline(&self, dir: &Arc<LogDir>, error: &str) {
        if !dir.set_offline() {
            return;
        }
        let taken = {
            let mut logs = self.logs.write();
            let taken: Vec<_> = logs.open.extract_if(|_, hosted| Arc::ptr_eq(&hosted.dir, dir)).collect();
            logs.offline.extend(taken.iter().map(|(partition, _)| partition.clone()));
            let copies: Vec<_> = logs.future.extract_if(|_, hosted| Arc::ptr_eq(&hosted.dir, dir)).collect();
            (taken, copies)
        };
        let (taken, copies) = taken;
        // Nobody copies there any more; the logs go on where they are.
        copies.iter().for_each(|(partition, _)| self.end_pause(partition));
        let partitions: Vec<TopicPartition> = taken.iter().map(|(partition, _)| partition.clone()).collect();
        let online = self.dirs.iter().filter(|dir| dir.is_online()).count();
        error!(dir = %dir.path.display(), %error, partitions = partitions.len(), online, "log directory is offline");
        // Closing files may wait for the disk, and the lock of a log may be held here.
        let freed = dir.clone();
        self.context.background.run(Lane::Housekeeping, move || {
            drop((taken, copies));
            freed.unlock();
        });
        (self.config.on_failure)(&DirectoryFailure {
            dir: dir.path.clone(),
            id: dir.id,
            error: error.to_owned(),
            partitions,
            online,
        });
    }

    /// What all logs share.
    pub(super) fn context(&self) -> &LogContext {
        &self.context
    }

    /// Starts compaction. `high_watermarks` is asked for each log before it is cleaned, `retention` called after each look.
    pub fn start_cleaner(
        self: &Arc<Self>,
        config: CleanerConfig,
        high_watermarks: HighWatermarks,
        retention: Retention,
    ) {
        *self.cleaner.lock() = Some(LogCleaner::start(self, config, high_watermarks, retention));
    }

    /// Whether the cleaner looks after this log, and applies retention to it. Not after one that it cannot clean, which in Kafka then has
    /// no retention.
    pub fn is_cleaned(&self, log: &Log) -> bool {
        self.cleaner.lock().as_ref().is_some_and(|cleaner| cleaner.looks_after(log))
    }

    /// Takes over changed settings of compaction.
    pub fn update_cleaner(&self, config: CleanerConfig) {
        if let Some(cleaner) = &*self.cleaner.lock() {
            cleaner.update(config, self.context.clock.monotonic());
        }
    }

    /// Takes over what has changed of the broker's settings, but for the defaults of topics: those are each log's.
    pub fn update(&self, config: &BrokerConfig) {
        self.recovery_threads.store(recovery_threads(config), Ordering::Relaxed);
        self.file_delete_delay_ms.store(config.topic_defaults.file_delete_delay_ms, Ordering::Relaxed);
        self.update_producers(ProducerStateConfig::of(config));
        self.update_cleaner(CleanerConfig::of(config));
        self.update_cordoned(&config.cordoned_log_dirs);
    }

    /// Takes over changed settings of producers.
    pub fn update_producers(&self, config: ProducerStateConfig) {
        if std::mem::replace(&mut *self.producers.write(), config) == config {
            return;
        }
        for (_, log) in self.logs().into_iter().chain(self.futures()) {
            log.with_producers(|producers| producers.set_config(config));
        }
    }

    /// Flushes and closes all logs, writes the root checkpoints and then the clean-shutdown markers, and gives the
    /// directories free. Before [`LogManager::load`] was done nothing is written. `broker_epoch`: -1 if this broker was
    /// never registered. Nothing can be made or deleted afterwards.
    pub fn shutdown(&self, broker_epoch: i64, high_watermarks: &BTreeMap<TopicPartition, Offset>) {
        // Its threads use the logs.
        let cleaner = self.cleaner.lock().take();
        if let Some(cleaner) = cleaner {
            cleaner.shutdown();
        }
        let stage = std::mem::replace(&mut *self.stage.write(), Stage::Closing);
        if known_bugs::is_back(KnownBug::MarkerBeforeFlush) {
            self.dirs.iter().for_each(|dir| drop(dir.mark_clean(broker_epoch)));
        }
        self.close_all();
        if stage == Stage::Loaded {
            self.checkpoint_high_watermarks(high_watermarks);
            for dir in self.dirs.iter().filter(|dir| dir.is_online()) {
                self.checkpoint_in(dir);
                // One of the checkpoints may have failed.
                if dir.is_online()
                    && let Err(error) = dir.mark_clean(broker_epoch)
                {
                    warn!(dir = %dir.path.display(), %error, "cannot write clean shutdown marker");
                }
            }
        }
        // From here on a checkpoint would be empty.
        *self.stage.write() = Stage::Closed;
        {
            let mut logs = self.logs.write();
            logs.open.clear();
            logs.future.clear();
        }
        self.dirs.iter().for_each(|dir| dir.unlock());
        info!("closed all logs");
    }

    fn close_all(&self) {
        let queues = self
            .dirs
            .iter()
            .filter(|dir| dir.is_online())
            .map(|dir| (dir.clone(), self.logs_in(dir.id).into_iter().collect()))
            .collect::<Vec<(Arc<LogDir>, Vec<(TopicPartition, Arc<Log>)>)>>();
        let threads = self.recovery_threads.load(Ordering::Relaxed);
        in_parallel(queues, threads, |dir, (partition, log)| {
            if let Err(error) = log.close() {
                warn!(%partition, %error, "log could not be closed");
                dir.set_unclean();
            }
        });
    }
}

/// `num.recovery.threads.per.data.dir`
pub fn recovery_threads(config: &BrokerConfig) -> usize {
    config.num_recovery_threads_per_data_dir.max(1) as usize
}

struct Busy<'a> {
    manager: &'a LogManager,
    topic_partition: TopicPartition,
}

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.manager.busy.lock().remove(&self.topic_partition);
        self.manager.not_busy.notify_all();
    }
}

#[cfg(test)]
mod tests;
