//! What is to be done again and again, as functions for whoever has a timer and a thread that may block.
//!
//! | job | every |
//! |---|---|
//! | [`LogManager::flush_dirty_logs`] | `log.flush.scheduler.interval.ms` |
//! | [`LogManager::checkpoint_recovery_points`] | `log.flush.offset.checkpoint.interval.ms` |
//! | [`LogManager::checkpoint_log_start_offsets`] | `log.flush.start.offset.checkpoint.interval.ms` |
//! | [`LogManager::checkpoint_high_watermarks`] | `replica.high.watermark.checkpoint.interval.ms` |
//! | [`LogManager::checkpoint_cleaner_offsets`] | each look of a cleaner thread |
//! | [`LogManager::look_for_room`] | second |
//! | [`LogManager::remove_expired_producers`] | `producer.id.expiration.check.interval.ms` |
//!
//! Retention is not among them: it depends on the high watermarks, so the replica layer has each log apply it, a compacted one on the
//! cleaner's threads.
//!
//! A disk that fails meanwhile takes its directory offline; the job goes on with the others.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tracing::{debug, warn};

use super::directory::LogDir;
use super::unopened::NotedOffsets;
use super::{LogManager, Stage};
use crate::storage::disk::is_full;
use crate::storage::known_bugs::{self, KnownBug};
use crate::storage::log::Log;
use crate::types::{Offset, TopicPartition};

impl LogManager {
    /// Flushes the logs whose `flush.ms` or `flush.messages` ask for it.
    pub fn flush_dirty_logs(&self, now_ms: i64) {
        for (partition, log) in self.logs() {
            if log.is_flush_due(now_ms)
                && let Err(error) = log.flush(log.log_end_offset())
            {
                debug!(%partition, %error, "cannot flush");
            }
        }
    }

    /// Forgets the producers that have been silent for `producer.id.expiration.ms`.
    pub fn remove_expired_producers(&self, now_ms: i64) {
        for (_, log) in self.logs() {
            log.with_producers(|producers| producers.remove_expired(now_ms));
        }
    }

    /// Notes up to where each log is on disk.
    pub fn checkpoint_recovery_points(&self) {
        for dir in self.dirs.iter().filter(|dir| dir.is_online()) {
            self.checkpoint_recovery_points_in(dir);
        }
    }

    /// Notes where logs start, if that is not at 0.
    pub fn checkpoint_log_start_offsets(&self) {
        for dir in self.dirs.iter().filter(|dir| dir.is_online()) {
            self.checkpoint_log_start_offsets_in(dir);
        }
    }

    /// Notes up to where each log is cleaned, of those that ever were.
    pub fn checkpoint_cleaner_offsets(&self) {
        for dir in self.dirs.iter().filter(|dir| dir.is_online()) {
            self.checkpoint_cleaner_offsets_in(dir);
        }
    }

    /// Notes how far the partitions are replicated. Those whose log is not here are left out.
    pub fn checkpoint_high_watermarks(&self, high_watermarks: &BTreeMap<TopicPartition, Offset>) {
        for dir in self.dirs.iter().filter(|dir| dir.is_online()) {
            self.checkpointed(dir, "high watermarks", || {
                dir.high_watermarks.write(|| {
                    self.noted_in(
                        dir,
                        |partition, noted| high_watermarks.get(partition).copied().or(noted.high_watermark),
                        |partition, log| {
                            // A copy that is being made may not reach so far.
                            Some((*high_watermarks.get(partition)?).min(log.log_end_offset()))
                        },
                    )
                })
            });
        }
    }

    /// The high watermarks noted last, of all directories.
    pub fn read_high_watermarks(&self) -> BTreeMap<TopicPartition, Offset> {
        let mut all = BTreeMap::new();
        for dir in self.dirs.iter().filter(|dir| dir.is_online()) {
            match dir.high_watermarks.read() {
                Ok(offsets) => all.extend(offsets),
                Err(error) => self.take_offline(dir, &format!("cannot read high watermarks: {error}")),
            }
        }
        all
    }

    /// Whether nothing that was noted of high watermarks is lost: each log that was open here for a while has one then.
    pub fn knows_high_watermarks(&self) -> bool {
        self.dirs.iter().all(|dir| dir.is_online() && dir.high_watermarks.is_readable())
    }

    pub(super) fn checkpoint_recovery_points_in(&self, dir: &Arc<LogDir>) -> bool {
        self.checkpointed(dir, "recovery points", || self.write_recovery_points(dir))
    }

    fn write_recovery_points(&self, dir: &LogDir) -> io::Result<()> {
        let point = |log: &Log| match known_bugs::is_back(KnownBug::CheckpointBeforeFlush) {
            true => log.log_end_offset(),
            false => log.note_recovery_point(),
        };
        dir.recovery_points.write(|| self.noted_in(dir, |_, noted| noted.recovery_point, |_, log| Some(point(log))))
    }

    pub(super) fn checkpoint_log_start_offsets_in(&self, dir: &Arc<LogDir>) -> bool {
        self.checkpointed(dir, "log start offsets", || self.write_log_start_offsets(dir))
    }

    fn write_log_start_offsets(&self, dir: &LogDir) -> io::Result<()> {
        dir.log_start_offsets.write(|| {
            self.noted_in(
                dir,
                |_, noted| noted.log_start_offset,
                |_, log| {
                    let first_segment = log.segments().first()?.base_offset;
                    let start = log.note_log_start_offset();
                    // Also where it is that of the first segment, which Kafka leaves out: until the directory is synced, a
                    // crash may bring back those before it.
                    let is_left_out = known_bugs::is_back(KnownBug::StartLeftToNames) && start <= first_segment;
                    (start.0 > 0 && !is_left_out).then_some(start)
                },
            )
        })
    }

    /// An offset of each log in a directory that has one, and of those that could not be opened the one that was noted; `None`:
    /// the directory has failed meanwhile, and its logs are not known any more. What was noted of them is to stay.
    fn noted_in(
        &self,
        dir: &LogDir,
        unopened: impl Fn(&TopicPartition, &NotedOffsets) -> Option<Offset>,
        offset: impl Fn(&TopicPartition, &Log) -> Option<Offset>,
    ) -> Option<BTreeMap<TopicPartition, Offset>> {
        let logs = self.logs_in(dir.id).into_iter();
        let noted = logs.filter_map(|(partition, log)| offset(&partition, &log).map(|offset| (partition, offset)));
        let kept = self.unopened_in(dir.id).into_iter();
        let kept = kept.filter_map(|(partition, noted)| unopened(&partition, &noted).map(|offset| (partition, offset)));
        let noted = kept.chain(noted).collect();
        dir.is_online().then_some(noted)
    }

    /// Has a log correct its checkpoints when it was truncated below what they say.
    pub(super) fn follow_truncations(self: &Arc<Self>, log: &Log, dir: &Arc<LogDir>) {
        let (manager, dir) = (Arc::downgrade(self), dir.clone());
        log.on_shortened(Box::new(move || {
            let Some(manager) = manager.upgrade().filter(|_| dir.is_online()) else { return Ok(()) };
            manager.write_recovery_points(&dir)?;
            manager.write_log_start_offsets(&dir)
        }));
    }

    pub(super) fn checkpoint_cleaner_offsets_in(&self, dir: &Arc<LogDir>) -> bool {
        self.checkpointed(dir, "cleaner offsets", || {
            dir.cleaner_offsets
                .write(|| self.noted_in(dir, |_, noted| noted.cleaned_offset, |_, log| log.cleaned_offset()))
        })
    }

    /// Logs were taken out of a directory: a log of the same name must not inherit their offsets. Where there is no room for
    /// that now, no log is made there before it is done. Returns whether it is.
    pub(super) fn checkpoint_in(&self, dir: &Arc<LogDir>) -> bool {
        let all = [
            self.checkpoint_recovery_points_in(dir),
            self.checkpoint_log_start_offsets_in(dir),
            self.checkpoint_cleaner_offsets_in(dir),
        ];
        let are_written = all.iter().all(|is_written| *is_written);
        dir.has_stale_checkpoints.store(!are_written, Ordering::Relaxed);
        are_written
    }

    /// Corrects the checkpoints after a start: a deletion may have been interrupted, and a topic of the same name must not
    /// inherit its offsets; nor may a truncation that was not noted.
    pub(super) fn correct_checkpoints(&self, dir: &Arc<LogDir>) {
        if known_bugs::is_back(KnownBug::StaleCheckpointsKept) {
            return;
        }
        let logs = self.logs_in(dir.id);
        let unopened = self.unopened_in(dir.id);
        if !dir.is_online() {
            // Its logs are gone from here, not from it.
            return;
        }
        let checkpoints = [&dir.recovery_points, &dir.log_start_offsets, &dir.cleaner_offsets];
        let has_damaged = checkpoints.iter().any(|checkpoint| checkpoint.is_damaged());
        if has_damaged || logs.values().any(|log| log.is_noted_wrong()) {
            self.checkpoint_recovery_points_in(dir);
            self.checkpoint_log_start_offsets_in(dir);
        }
        if has_damaged {
            self.checkpoint_cleaner_offsets_in(dir);
            return;
        }
        for checkpoint in checkpoints {
            self.checkpointed(dir, "offsets without those of deleted logs", || {
                let mut offsets = checkpoint.read()?;
                let noted = offsets.len();
                // Where no cleaning is known of, what was noted of one was nothing to go by.
                let is_cleaner = std::ptr::eq(checkpoint, &dir.cleaner_offsets);
                let is_used = |log: &Arc<Log>| !is_cleaner || log.cleaned_offset().is_some();
                offsets.retain(|partition, _| match logs.get(partition) {
                    Some(log) => is_used(log),
                    None => unopened.contains_key(partition),
                });
                match offsets.len() < noted {
                    true => checkpoint.write(|| Some(offsets)),
                    false => Ok(()),
                }
            });
        }
    }

    /// Returns whether it was written.
    fn checkpointed(&self, dir: &Arc<LogDir>, what: &str, write: impl FnOnce() -> io::Result<()>) -> bool {
        // Whoever makes logs holds it already, and a shutdown may wait for it.
        let stage = self.stage.read_recursive();
        // The logs of one that is offline are not known any more: what was noted of them stays.
        if !matches!(*stage, Stage::Loaded | Stage::Closing) || !dir.is_online() {
            return false;
        }
        let Err(error) = dir.check().and_then(|()| write()) else { return true };
        if is_full(&error) {
            // The old one stays, and the next occasion comes.
            debug!(dir = %dir.path.display(), %error, what, "no room for a checkpoint");
            dir.tell_full(&error);
        } else {
            warn!(dir = %dir.path.display(), %error, what, "cannot write checkpoint");
            self.take_offline(dir, &format!("cannot write {what}: {error}"));
        }
        false
    }
}
