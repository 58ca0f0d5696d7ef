//! Moving logs from one log directory to another, and what lies where.
//!
//! A move begins with a second, empty log of the partition, in a directory named `-future` ([`LogManager::create_future`]).
//! Whoever moves it copies batches until both are alike, and lets [`LogManager::replace_with_future`] exchange them, see
//! [`crate::storage::log::HandoverError`]. A move that is no longer wanted ends with [`LogManager::remove_future`]. A future
//! log that is found at a start is opened as such, for the move to go on.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use thiserror::Error;
use tracing::{error, info, warn};

use super::directory::LogDir;
use super::{Busy, HostedLog, LogManager, NewLog, Stage};
use crate::clock::Clock;
use crate::storage::directory_name::{DirectoryKind, MAX_LENGTH, name_for, untruncated_length};
use crate::storage::disk::{concerns_file, is_full};
use crate::storage::log::{Confirmations, HandoverError, Log, LogOpenError};
use crate::storage::recovery::DamagePolicy;
use crate::types::{DirectoryId, Offset, TopicId, TopicPartition};

/// How many wishes for logs that do not exist yet are kept.
const MAX_PREFERENCES: usize = 10_000;

/// Why a log is not moved.
#[derive(Debug, Error)]
pub enum MoveError {
    /// INVALID_TOPIC_EXCEPTION
    #[error("the name of a future log would be too long")]
    NameTooLong,
    /// LOG_DIR_NOT_FOUND
    #[error("there is no log directory {}", .0.display())]
    UnknownDir(PathBuf),
    /// KAFKA_STORAGE_ERROR
    #[error("{0}")]
    Storage(String),
    /// REPLICA_NOT_AVAILABLE
    #[error("there is no log of the partition here")]
    NoLog,
    #[error("the logs are closed")]
    Closed,
}

/// A log that is being moved.
#[derive(Clone)]
pub struct FutureLog {
    /// Where it is now.
    pub current: Arc<Log>,
    /// Where it will be.
    pub future: Arc<Log>,
    pub topic_id: TopicId,
    /// The id of the directory it will be in.
    pub directory: DirectoryId,
}

impl FutureLog {
    pub fn is_same(&self, other: &FutureLog) -> bool {
        Arc::ptr_eq(&self.current, &other.current) && Arc::ptr_eq(&self.future, &other.future)
    }
}

/// A log that has taken the place of another one, which is still to be removed. Its directory has the partition's name until
/// then, so nobody else may make, move or delete a log of the partition.
pub struct Exchange<'a> {
    busy: Busy<'a>,
    current: HostedLog,
    future: HostedLog,
    confirmations: Confirmations,
}

impl Exchange<'_> {
    /// The log that counts from now on.
    pub fn log(&self) -> Arc<Log> {
        self.future.log.clone()
    }
}

/// A log as an administrator sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DescribedLog {
    pub topic_partition: TopicPartition,
    /// Bytes of its segments.
    pub size: u64,
    pub log_end_offset: Offset,
    pub is_future: bool,
}

impl LogManager {
    pub fn clock(&self) -> Arc<dyn Clock> {
        self.context.clock.clone()
    }

    /// Whether a directory of this absolute path can take logs.
    pub fn check_dir(&self, path: &str) -> Result<DirectoryId, MoveError> {
        let dir = self.dir_at(path)?;
        match dir.is_online() {
            true => Ok(dir.id),
            false => Err(MoveError::Storage(format!("log directory {path} is offline"))),
        }
    }

    /// Whether the future log of a partition could have a name.
    pub fn check_name(&self, topic_partition: &TopicPartition) -> Result<(), MoveError> {
        match untruncated_length(topic_partition, DirectoryKind::Future) > MAX_LENGTH {
            true => Err(MoveError::NameTooLong),
            false => Ok(()),
        }
    }

    /// Takes over `cordoned.log.dirs`: these directories, or all (`*`), take no new logs.
    pub fn update_cordoned(&self, cordoned: &[String]) {
        for dir in &self.dirs {
            let is_named = |name: &String| name == "*" || absolute(Path::new(name)) == absolute(&dir.path);
            dir.set_cordoned(cordoned.iter().any(is_named));
        }
    }

    /// The directories that can be used and take no new logs.
    pub fn cordoned_dirs(&self) -> Vec<DirectoryId> {
        self.dirs.iter().filter(|dir| dir.is_online() && dir.is_cordoned()).map(|dir| dir.id).collect()
    }

    pub fn is_cordoned(&self, directory: DirectoryId) -> bool {
        self.dirs.iter().any(|dir| dir.id == directory && dir.is_cordoned())
    }

    fn dir_at(&self, path: &str) -> Result<&Arc<LogDir>, MoveError> {
        let found = self.dirs.iter().find(|dir| absolute(&dir.path).as_os_str() == path);
        found.ok_or_else(|| MoveError::UnknownDir(PathBuf::from(path)))
    }

    /// Notes where the log of a partition shall be made that is not there yet.
    pub fn prefer_dir(&self, topic_partition: &TopicPartition, directory: DirectoryId) {
        let mut preferred = self.preferred.lock();
        if preferred.len() < MAX_PREFERENCES || preferred.contains_key(topic_partition) {
            preferred.insert(topic_partition.clone(), directory);
        }
    }

    /// All future logs, in no order.
    pub fn futures(&self) -> Vec<(TopicPartition, Arc<Log>)> {
        let logs = self.logs.read();
        logs.future.iter().map(|(partition, hosted)| (partition.clone(), hosted.log.clone())).collect()
    }

    /// The move of a partition's log, if there is one. Both logs are of the same topic.
    pub fn future(&self, topic_partition: &TopicPartition) -> Option<FutureLog> {
        let logs = self.logs.read();
        let (current, future) = (logs.open.get(topic_partition)?, logs.future.get(topic_partition)?);
        Some(FutureLog {
            current: current.log.clone(),
            future: future.log.clone(),
            topic_id: current.topic_id,
            directory: future.dir.id,
        })
    }

    /// All logs in a directory, by partition.
    pub fn describe(&self, directory: DirectoryId) -> Vec<DescribedLog> {
        let mut all: Vec<DescribedLog> = {
            let logs = self.logs.read();
            let kinds = [(&logs.open, false), (&logs.future, true)];
            let described = kinds.into_iter().flat_map(|(logs, is_future)| {
                let there = logs.iter().filter(|(_, hosted)| hosted.dir.id == directory);
                there.map(move |(partition, hosted)| DescribedLog {
                    topic_partition: partition.clone(),
                    size: hosted.log.size(),
                    log_end_offset: hosted.log.log_end_offset(),
                    is_future,
                })
            });
            described.collect()
        };
        all.sort_by(|a, b| a.topic_partition.cmp(&b.topic_partition));
        all
    }

    /// Begins to move a log to the directory of this path, or goes on with it. `Ok(None)`: it is there already, and a move
    /// elsewhere has ended.
    pub fn create_future(
        self: &Arc<Self>,
        topic_partition: &TopicPartition,
        path: &str,
    ) -> Result<Option<FutureLog>, MoveError> {
        self.check_name(topic_partition)?;
        let dir = self.dir_at(path)?;
        let _busy = self.exclusively(topic_partition);
        let stage = self.stage.read();
        if *stage != Stage::Loaded {
            return Err(MoveError::Closed);
        }
        let (current, future, is_offline) = {
            let logs = self.logs.read();
            let (current, future) = (logs.open.get(topic_partition), logs.future.get(topic_partition));
            (current.cloned(), future.cloned(), logs.is_offline(topic_partition))
        };
        let Some(current) = current else {
            return Err(match is_offline {
                true => MoveError::Storage("the log is offline".to_owned()),
                false => MoveError::NoLog,
            });
        };
        match future {
            Some(future) if Arc::ptr_eq(&future.dir, dir) => {}
            Some(_) => self.drop_future(topic_partition),
            None => {}
        }
        if Arc::ptr_eq(&current.dir, dir) {
            return Ok(None);
        }
        if self.future(topic_partition).is_none() {
            // Its future log may lie there.
            if self.has_offline_dirs() {
                return Err(MoveError::Storage("a log directory is offline, and a future log may be there".to_owned()));
            }
            dir.log_count.fetch_add(1, Ordering::Relaxed);
            if let Err(error) = self.create_future_in(dir, topic_partition, &current) {
                dir.log_count.fetch_sub(1, Ordering::Relaxed);
                let LogOpenError::Io { source, .. } = &error;
                match is_full(source) {
                    true => dir.tell_full(source),
                    false if concerns_file(source) && dir.check().is_ok() => {}
                    false => self.take_offline(dir, &error.to_string()),
                }
                return Err(MoveError::Storage(error.to_string()));
            }
        }
        self.future(topic_partition).map(Some).ok_or_else(|| MoveError::Storage("the log directory failed".to_owned()))
    }

    fn create_future_in(
        self: &Arc<Self>,
        dir: &Arc<LogDir>,
        topic_partition: &TopicPartition,
        current: &HostedLog,
    ) -> Result<(), LogOpenError> {
        let new = NewLog {
            topic_id: current.topic_id,
            config: current.log.config(),
            damage: DamagePolicy::CutOff,
            directory: Some(dir.id),
            is_new: true,
        };
        let log_start_offset = current.log.log_start_offset();
        let hosted = self.make_log(dir, DirectoryKind::Future, topic_partition, &new, log_start_offset)?;
        info!(partition = %topic_partition, dir = %hosted.log.dir().display(), "created future log");
        self.host_future(topic_partition, hosted);
        Ok(())
    }

    /// Enters a future log.
    pub(super) fn host_future(&self, topic_partition: &TopicPartition, hosted: HostedLog) {
        let mut logs = self.logs.write();
        // As with the others, one that is on its way while its directory fails is not missed.
        if !hosted.dir.is_online() {
            return;
        }
        let other = logs.future.insert(topic_partition.clone(), hosted);
        drop(logs);
        // Of a move that had ended, whose directory could not be renamed any more.
        if let Some(other) = other {
            self.remove_log(topic_partition, &other);
        }
    }

    /// Ends the move of a log; what was copied is deleted.
    pub fn remove_future(&self, topic_partition: &TopicPartition) {
        let _busy = self.exclusively(topic_partition);
        self.drop_future(topic_partition);
    }

    pub(super) fn drop_future(&self, topic_partition: &TopicPartition) {
        let Some(future) = self.logs.write().future.remove(topic_partition) else { return };
        self.end_pause(topic_partition);
        self.remove_log(topic_partition, &future);
        self.checkpoint_in(&future.dir);
    }

    /// Lets compaction go on.
    pub(super) fn end_pause(&self, topic_partition: &TopicPartition) {
        if let Ok(log) = self.get(topic_partition) {
            log.pause_cleaning(false);
        }
    }

    /// Puts the future log of a move in the place of the current one, which it must be like; the caller lets nobody append,
    /// until it has taken the new one over. Then it calls [`Self::finish_exchange`].
    pub fn replace_with_future(
        &self,
        topic_partition: &TopicPartition,
        moved: &FutureLog,
    ) -> Result<Exchange<'_>, HandoverError> {
        let busy = self.exclusively(topic_partition);
        if !self.future(topic_partition).is_some_and(|logs| logs.is_same(moved)) {
            return Err(HandoverError::Ended);
        }
        let (current, future) = {
            let logs = self.logs.read();
            let both = logs.open.get(topic_partition).cloned().zip(logs.future.get(topic_partition).cloned());
            both.ok_or(HandoverError::Ended)?
        };
        // Else a crash might bring deleted records back. Mostly noted already, so that nobody waits for it.
        let start = current.log.log_start_offset().min(future.log.log_end_offset());
        if future.log.advance_log_start_offset(start).is_ok() && future.dir.is_online() {
            self.checkpoint_log_start_offsets_in(&future.dir);
        }
        let path = future.dir.path.join(name_for(topic_partition, DirectoryKind::Current).to_string());
        let confirmations = current.log.hand_over_to(&future.log, &path)?;
        {
            let mut logs = self.logs.write();
            logs.future.remove(topic_partition);
            logs.put(topic_partition, future.clone());
        }
        info!(partition = %topic_partition, from = %current.dir.path.display(), to = %future.dir.path.display(),
            log_end_offset = %future.log.log_end_offset(), "moved log");
        Ok(Exchange { busy, current, future, confirmations })
    }

    /// Removes the log that was replaced. Waits for the disk.
    pub fn finish_exchange(&self, exchange: Exchange<'_>) {
        let Exchange { busy, current, future, confirmations } = exchange;
        confirmations.tell();
        // First what tells a recovery where to begin in the new directory.
        self.checkpoint_in(&future.dir);
        self.remove_log(&busy.topic_partition, &current);
        self.checkpoint_in(&current.dir);
    }

    /// Of the logs of one partition, which a move has left that was interrupted at its end, keeps the one that goes further,
    /// or of those that are alike the one of which nothing was lost, or the one that the metadata names. Another one is deleted if it
    /// has nothing that this one has not, as the move would have done, and set aside else. Where the directory of the one to be kept has
    /// failed meanwhile, the partition is offline, and the next start decides. `repaired`: where the log of the partition was not what
    /// it should be.
    pub(super) fn settle_duplicates(
        &self,
        topic_partition: &TopicPartition,
        mut logs: Vec<HostedLog>,
        named: Option<DirectoryId>,
        repaired: &[DirectoryId],
    ) {
        let is_whole = |hosted: &HostedLog| !repaired.contains(&hosted.dir.id);
        let rank = |&at: &usize| (logs[at].reach(), is_whole(&logs[at]), Some(logs[at].dir.id) == named);
        let Some(at) = (0..logs.len()).max_by_key(rank) else { return };
        let kept = logs.swap_remove(at);
        let is_online = self.logs.write().put(topic_partition, kept.clone());
        for other in logs {
            let (kept_dir, other_dir) = (kept.log.dir(), other.log.dir());
            if !is_online || !other.dir.is_online() {
                warn!(partition = %topic_partition, kept = %kept_dir.display(), other = %other_dir.display(),
                    "a partition has two logs, and a log directory has failed: the next start looks at them again");
                self.leave_alone(&other);
                continue;
            }
            match kept.log.continues(&other.log, is_whole(&kept)) {
                true => {
                    info!(partition = %topic_partition, kept = %kept_dir.display(), other = %other_dir.display(),
                        "a move between log directories was interrupted at its end, and is finished: the log that was moved goes");
                    self.remove_superseded(topic_partition, &kept, &other);
                }
                false => {
                    let are_alike = kept.reach() == other.reach();
                    warn!(partition = %topic_partition, kept = %kept_dir.display(), other = %other_dir.display(), are_alike,
                        "a partition has two logs: a move between log directories was interrupted");
                    match are_alike {
                        true => self.remove_superseded(topic_partition, &kept, &other),
                        false => self.set_log_aside(topic_partition, &other),
                    }
                }
            }
        }
    }

    /// Removes a log that another one has taken the place of, once that does not depend on power any more.
    fn remove_superseded(&self, topic_partition: &TopicPartition, kept: &HostedLog, other: &HostedLog) {
        match kept.log.flush(other.log.log_end_offset()) {
            Ok(()) => {
                self.remove_log(topic_partition, other);
            }
            // It stays, and the next start comes upon the two again.
            Err(error) => {
                warn!(partition = %topic_partition, %error, other = %other.log.dir().display(),
                    "the log that takes the place of another one cannot be flushed: the other one stays");
                self.leave_alone(other);
            }
        }
    }

    /// A log that is not used now.
    fn leave_alone(&self, other: &HostedLog) {
        other.dir.log_count.fetch_sub(1, Ordering::Relaxed);
        if other.dir.is_online() {
            // It will get a marker of an orderly end. If this fails it goes offline, and is told.
            let _ = other.log.close();
        }
    }

    /// Ends a move to the directory in which the log lies, which nobody began.
    pub(super) fn settle_future_beside(&self, topic_partition: &TopicPartition) {
        let (current, future) = {
            let mut logs = self.logs.write();
            let Some(current) = logs.open.get(topic_partition).cloned() else { return };
            let Some(future) = logs.future.remove(topic_partition) else { return };
            (current, future)
        };
        let goes_further = future.reach() > current.reach();
        warn!(partition = %topic_partition, copy = %future.log.dir().display(), goes_further,
            "a copy of a log lies beside it, where no move leads: it is not used");
        match goes_further {
            true => self.set_log_aside(topic_partition, &future),
            false => {
                self.remove_log(topic_partition, &future);
            }
        }
    }

    /// Of two logs of a partition the one that is not used, but may have records that the other one lacks.
    fn set_log_aside(&self, topic_partition: &TopicPartition, other: &HostedLog) {
        other.dir.log_count.fetch_sub(1, Ordering::Relaxed);
        match other.log.set_aside() {
            Ok(stray) => {
                error!(partition = %topic_partition, path = %stray.display(), "the log that is not used is set aside")
            }
            // It stays, and the next start comes upon the two again.
            Err(error) if is_full(&error) => other.dir.tell_full(&error),
            Err(error) => self.take_offline(&other.dir, &error.to_string()),
        }
    }

    /// Makes a future log the current one, where there is none.
    pub(super) fn promote_abandoned(self: &Arc<Self>, topic_partition: &TopicPartition) {
        let Some(future) = self.logs.write().future.remove(topic_partition) else { return };
        let path = future.dir.path.join(name_for(topic_partition, DirectoryKind::Current).to_string());
        warn!(partition = %topic_partition, dir = %future.log.dir().display(), "the log that was being moved is gone; its copy takes its place");
        match future.log.rename_dir(&path) {
            Ok(()) => drop(self.host(topic_partition, future)),
            // Under the name that it has, which the next start comes upon again.
            Err(error) if is_full(&error) => {
                future.dir.tell_full(&error);
                drop(self.host(topic_partition, future));
            }
            Err(error) => self.take_offline(&future.dir, &error.to_string()),
        }
    }

    /// The directory that a wish or the metadata names for a new log.
    pub(super) fn wanted_dir(
        &self,
        topic_partition: &TopicPartition,
        named: Option<DirectoryId>,
    ) -> Option<DirectoryId> {
        self.preferred.lock().remove(topic_partition).or(named)
    }
}

/// A path as Java makes it absolute: behind the working directory, without what does not count between names.
pub fn absolute(path: &Path) -> PathBuf {
    let base = if path.is_absolute() { PathBuf::from("/") } else { std::env::current_dir().unwrap_or_default() };
    let text = path.to_string_lossy();
    let names = text.split('/').filter(|name| !name.is_empty());
    names.fold(base, |base, name| base.join(name))
}
