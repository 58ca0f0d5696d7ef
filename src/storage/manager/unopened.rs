//! Logs that cannot be opened, or go on, though the disk does what it is asked: each is offline alone.
//!
//! A segment's file is a directory, or a link to a volume that is missing; somebody took away the right to read it; where the
//! partition's directory should be is something else. Records may be there all the same, so that no empty log takes its place,
//! and nothing is changed: look-ups answer [`LogLookupError::Offline`](super::LogLookupError::Offline) until the next start,
//! before which somebody is to put it right. So it is with a log of which a file is not what it was any more when it is needed.
//! Meanwhile what the root checkpoints say of it stays in them. If it was to be recovered, its directory gets no marker of an
//! orderly end.
//!
//! So it is for the time being with a log that cannot be opened for want of room, as a recovery may have to write: the rest is served,
//! which is what makes room, and the log is opened when there is some ([`LogManager::get_or_create`]). A log that is to be set aside, and
//! cannot be renamed, stays where it is until then, and no log of its name is made before.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tracing::{error, info, warn};

use super::directory::LogDir;
use super::{CreateError, HostedLog, LogManager, NewLog, Stage};
use crate::storage::background::Lane;
use crate::storage::directory_name::{DirectoryKind, name_for};
use crate::storage::disk::{concerns_file, is_full};
use crate::storage::log::{Log, LogOpenError};
use crate::storage::partition_metadata;
use crate::types::{DirectoryId, Offset, TopicPartition};

/// What the root checkpoints say of a log.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct NotedOffsets {
    pub recovery_point: Option<Offset>,
    pub log_start_offset: Option<Offset>,
    pub cleaned_offset: Option<Offset>,
    pub high_watermark: Option<Offset>,
}

/// A log that is on disk, or what stands in its place.
pub(super) struct Unopened {
    pub dir: Arc<LogDir>,
    pub path: PathBuf,
    pub is_dir: bool,
    /// Its directory was closed in order.
    pub clean_shutdown: bool,
    pub reason: String,
    /// It is opened as soon as there is room.
    pub lacks_room: bool,
    pub noted: NotedOffsets,
}

/// A log that is none of this node's, under the name that it has.
pub(super) struct StrayInPlace {
    pub dir: Arc<LogDir>,
    pub partition: TopicPartition,
    pub path: PathBuf,
}

/// A log that was open, as it is given up.
fn unopened(hosted: &HostedLog, reason: String) -> Unopened {
    let HostedLog { log, dir, .. } = hosted;
    let noted = NotedOffsets {
        recovery_point: Some(log.recovery_point()),
        log_start_offset: Some(log.log_start_offset()),
        cleaned_offset: log.cleaned_offset(),
        high_watermark: None,
    };
    Unopened {
        dir: dir.clone(),
        path: log.dir(),
        is_dir: true,
        clean_shutdown: false,
        reason,
        lacks_room: false,
        noted,
    }
}

impl LogManager {
    /// A file of a log could not be used while the log was open. Perhaps under its lock: it is not called.
    pub(super) fn take_log_offline(&self, partition: &TopicPartition, dir: &Arc<LogDir>, reason: &str) {
        let mut logs = self.logs.write();
        let lies_here = |hosted: Option<&HostedLog>| hosted.is_some_and(|hosted| Arc::ptr_eq(&hosted.dir, dir));
        let failed = if lies_here(logs.open.get(partition)) {
            let failed = logs.open.remove(partition);
            let given_up = failed.iter().map(|failed| unopened(failed, reason.to_owned()));
            logs.unopened.entry(partition.clone()).or_default().extend(given_up);
            drop(logs);
            error!(%partition, dir = %dir.path.display(), %reason, "the partition's log failed: it is offline until this is put right and the \
                broker started again");
            failed
        } else if lies_here(logs.future.get(partition)) {
            let failed = logs.future.remove(partition);
            drop(logs);
            self.end_pause(partition);
            error!(%partition, dir = %dir.path.display(), %reason, "the copy of a log that was being moved failed: the move ends");
            failed
        } else {
            return;
        };
        dir.log_count.fetch_sub(1, Ordering::Relaxed);
        dir.set_unclean();
        // Closing files may wait for the disk.
        self.context.background.run(Lane::Housekeeping, move || drop(failed));
    }

    /// Enters logs that could not be opened; `true`: the copy of a move. Tells of each. Returns the partitions that are offline.
    pub(super) fn settle_unopened(&self, mut all: Vec<(TopicPartition, bool, Unopened)>) -> Vec<TopicPartition> {
        let mut partitions = Vec::new();
        all.sort_by_key(|(_, is_copy, _)| *is_copy);
        for (partition, is_copy, mut found) in all {
            let Unopened { dir, path, reason, .. } = &found;
            if !dir.is_online() {
                continue;
            }
            let waits_for_room = || {
                let logs = self.logs.read();
                logs.unopened.get(&partition).is_some_and(|found| found.iter().all(|found| found.lacks_room))
            };
            if is_copy && (self.get(&partition).is_ok() || waits_for_room()) {
                error!(%partition, path = %path.display(), %reason, "the copy of a log that was being moved cannot be opened and is left alone: \
                    the move ends");
                continue;
            }
            if found.lacks_room {
                error!(%partition, path = %path.display(), %reason, "there is no room to open the partition's log: it is offline until there is");
            } else {
                error!(%partition, path = %path.display(), %reason, "the partition's log cannot be opened: it is offline until this is put \
                    right and the broker started again");
            }
            found.noted.high_watermark = match dir.high_watermarks.read() {
                Ok(noted) => noted.get(&partition).copied(),
                Err(error) => {
                    self.take_offline(dir, &format!("cannot read high watermarks: {error}"));
                    continue;
                }
            };
            let mut all = vec![found];
            // A move was interrupted at its end, and which of both goes further is not known.
            let other = self.logs.write().open.remove(&partition);
            if let Some(other) = other {
                other.dir.log_count.fetch_sub(1, Ordering::Relaxed);
                all.push(unopened(&other, "there is another log of the partition".to_owned()));
            }
            self.logs.write().unopened.entry(partition.clone()).or_default().extend(all);
            partitions.push(partition);
        }
        partitions
    }

    /// As [`LogManager::get_or_create`] for a log that is there, and for which there was no room when it was its turn: none is made.
    pub fn open_if_unopened(
        self: &Arc<Self>,
        topic_partition: &TopicPartition,
        new: &NewLog,
    ) -> Result<Option<Arc<Log>>, CreateError> {
        let _busy = self.exclusively(topic_partition);
        let stage = self.stage.read();
        let is_unopened = *stage == Stage::Loaded && self.logs.read().unopened.contains_key(topic_partition);
        is_unopened.then(|| self.open_with_room(topic_partition, new)).transpose()
    }

    /// Opens a log for which there was no room when it was its turn. The caller keeps others from the partition.
    pub(super) fn open_with_room(
        self: &Arc<Self>,
        topic_partition: &TopicPartition,
        new: &NewLog,
    ) -> Result<Arc<Log>, CreateError> {
        let unopened = || CreateError::Unopened(topic_partition.clone());
        let (dir, path, noted) = {
            let logs = self.logs.read();
            match logs.unopened.get(topic_partition).map(Vec::as_slice) {
                // Of several it is not known which one counts.
                Some([found]) if found.lacks_room && found.dir.is_online() => {
                    (found.dir.clone(), found.path.clone(), found.noted)
                }
                _ => return Err(unopened()),
            }
        };
        let full = |reason: String| CreateError::Full { topic_partition: topic_partition.clone(), reason };
        if dir.is_full() {
            return Err(full("there was no room to open the log".to_owned()));
        }
        match partition_metadata::read(&*self.context.disk, &path) {
            Ok(Some(id)) if id == new.topic_id => {}
            // It was given its topic's id, and for that there was no room either.
            Ok(None) => match partition_metadata::write(&*self.context.disk, &path, new.topic_id) {
                Ok(()) => {}
                Err(error) if is_full(&error) => return Err(full(error.to_string())),
                Err(_) => return Err(unopened()),
            },
            _ => return Err(unopened()),
        }
        // Who tried before has begun to change it: it is none that was closed in order.
        let params = self.log_params(&dir, path, topic_partition, new.config.clone(), new.damage, noted);
        let (log, report) = match Log::open(&self.context, params) {
            Ok(opened) => opened,
            Err(LogOpenError::Io { source, .. }) if is_full(&source) => {
                dir.tell_full(&source);
                return Err(full(source.to_string()));
            }
            Err(error @ LogOpenError::Io { .. }) => {
                let LogOpenError::Io { source, .. } = &error;
                match concerns_file(source) {
                    true => {
                        let mut logs = self.logs.write();
                        if let Some(found) = logs.unopened.get_mut(topic_partition) {
                            found.iter_mut().for_each(|log| log.lacks_room = false);
                        }
                        error!(partition = %topic_partition, %error, "the partition's log cannot be opened: it is offline until this is put \
                        right and the broker started again")
                    }
                    false => self.take_offline(&dir, &error.to_string()),
                }
                return Err(unopened());
            }
        };
        self.take_in(&dir, noted, &log, &report);
        info!(partition = %topic_partition, path = %log.dir().display(), "there is room to open the partition's log");
        let mut logs = self.logs.write();
        logs.unopened.remove(topic_partition);
        match logs.put(topic_partition, HostedLog { log: log.clone(), topic_id: new.topic_id, dir }) {
            true => Ok(log),
            false => Err(unopened()),
        }
    }

    /// A log is to be set aside, and there is no room for its other name.
    pub(super) fn set_aside_later(&self, stray: StrayInPlace) {
        self.strays_in_place.lock().push(stray);
    }

    /// Sets logs aside that could not be so far: all of them, or those that have this path. An error if there is no room still.
    pub(super) fn set_strays_aside(&self, at: Option<&Path>) -> io::Result<()> {
        let mut strays = self.strays_in_place.lock();
        let mut result = Ok(());
        strays.retain(|stray| {
            let is_meant = at.map_or_else(|| !stray.dir.is_full(), |path| *path == stray.path);
            if !is_meant || !stray.dir.is_online() {
                return true;
            }
            let aside = stray.dir.path.join(name_for(&stray.partition, DirectoryKind::Stray).to_string());
            match self.context.disk.rename(&stray.path, &aside) {
                Ok(()) => {
                    info!(partition = %stray.partition, path = %aside.display(), "stray log is set aside, as there is room again");
                    false
                }
                // Somebody has taken it away.
                Err(error) if error.kind() == io::ErrorKind::NotFound => false,
                Err(error) => {
                    warn!(partition = %stray.partition, path = %stray.path.display(), %error, "cannot set a stray log aside");
                    result = Err(error);
                    true
                }
            }
        });
        result
    }

    /// What needs recovery still must not look as if it had been closed in order.
    pub(super) fn keep_unclean(&self) {
        let logs = self.logs.read();
        logs.unopened.values().flatten().filter(|log| !log.clean_shutdown).for_each(|log| log.dir.set_unclean());
    }

    /// What was noted of the logs in a directory that could not be opened.
    pub(super) fn unopened_in(&self, directory: DirectoryId) -> BTreeMap<TopicPartition, NotedOffsets> {
        let logs = self.logs.read();
        let all =
            logs.unopened.iter().flat_map(|(partition, unopened)| unopened.iter().map(move |log| (partition, log)));
        all.filter(|(_, log)| log.dir.id == directory).map(|(partition, log)| (partition.clone(), log.noted)).collect()
    }

    /// The partition is deleted. Returns whether all of it could be taken away.
    pub(super) fn delete_unopened(&self, partition: &TopicPartition, unopened: &[Unopened]) -> bool {
        let mut done = true;
        for Unopened { dir, path, is_dir, .. } in unopened {
            let disk = &*self.context.disk;
            let deleted = dir.path.join(name_for(partition, DirectoryKind::Deleted).to_string());
            let taken_away = match is_dir {
                true => disk.rename(path, &deleted).map(|()| self.remove_later(deleted)),
                false => disk.set_aside(path).map(
                    |aside| info!(%partition, path = %aside.display(), "what stood in the place of a log is set aside"),
                ),
            };
            let taken_away = match taken_away {
                // No name is needed to remove it at once.
                Err(error) if is_full(&error) && *is_dir => disk.remove_dir_all(path),
                taken_away => taken_away,
            };
            if let Err(error) = taken_away {
                warn!(%partition, path = %path.display(), %error, "cannot remove what is left of a deleted log");
                done = false;
            }
        }
        done
    }
}
