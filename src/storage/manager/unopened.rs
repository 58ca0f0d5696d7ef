//! Logs that cannot be opened, or go on, though the disk does what it is asked: each is offline alone.
//!
//! A segment's file is a directory, or a link to a volume that is missing; somebody took away the right to read it; where the
//! partition's directory should be is something else. Records may be there all the same, so that no empty log takes its place,
//! and nothing is changed: look-ups answer [`LogLookupError::Offline`](super::LogLookupError::Offline) until the next start,
//! before which somebody is to put it right. So it is with a log of which a file is not what it was any more when it is needed.
//! Meanwhile what the root checkpoints say of it stays in them. If it was to be recovered, its directory gets no marker of an
//! orderly end.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tracing::{error, info, warn};

use super::directory::LogDir;
use super::{HostedLog, LogManager};
use crate::storage::background::Lane;
use crate::storage::directory_name::{DirectoryKind, name_for};
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
    pub noted: NotedOffsets,
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
    Unopened { dir: dir.clone(), path: log.dir(), is_dir: true, clean_shutdown: false, reason, noted }
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
    pub(super) fn settle_unopened(&self, found: Vec<(TopicPartition, bool, Unopened)>) -> Vec<TopicPartition> {
        let mut partitions = Vec::new();
        for (partition, is_copy, mut found) in found {
            let Unopened { dir, path, reason, .. } = &found;
            if !dir.is_online() {
                continue;
            }
            if is_copy && self.get(&partition).is_ok() {
                error!(%partition, path = %path.display(), %reason, "the copy of a log that was being moved cannot be opened and is left alone: \
                    the move ends");
                continue;
            }
            error!(%partition, path = %path.display(), %reason, "the partition's log cannot be opened: it is offline until this is put right and \
                the broker started again");
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
            if let Err(error) = taken_away {
                warn!(%partition, path = %path.display(), %error, "cannot remove what is left of a deleted log");
                done = false;
            }
        }
        done
    }
}
