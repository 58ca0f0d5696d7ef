//! A copy takes the place of its log: the end of a move between two log directories.
//!
//! A copy holds the same batches at the same offsets, see [`crate::storage::manager`]. What it cannot know from them is handed
//! over here: leader epochs in which nothing was written, producers whose batches are gone, verifications that run, and
//! how far the log was cleaned. All of it is on disk before the copy's directory gets the partition's name, and the log
//! takes nothing any more when it has: who comes to change it is told that it was moved ([`ChangeError::Moved`]), which is no
//! failure, and goes to the copy. What was written is durable there, so a flush of the log succeeds.
//!
//! | step | after a crash here, the next start |
//! |---|---|
//! | the copy is complete and synced | goes on with the log, and with the move |
//! | the copy has the partition's name, and perhaps took records | finds two, of which this one [continues](Log::continues) the other: finishes the move |
//! | the log's directory is renamed to `-delete` | goes on with the copy |

use std::io;
use std::path::Path;
use std::sync::atomic::Ordering;

use bytes::BytesMut;
use thiserror::Error;

use crate::record::batch::RecordBatch;
use crate::storage::directory_name::{self, DirectoryKind};
use crate::storage::disk::{is_full, is_name_taken};
use crate::storage::known_bugs::{self, KnownBug};
use crate::storage::log::flush::{Done, tell};
use crate::storage::log::{ChangeError, Log, MOVED, OPEN, ReadError, Wait, Writer};
use crate::types::Offset;

/// Why a copy did not take its log's place. The log goes on as before.
#[derive(Debug, Error)]
pub enum HandoverError {
    #[error("the log has grown, or was cut, since the copy was made")]
    Differs,
    #[error("the log is offline")]
    Offline,
    /// It was called off, or sent elsewhere, or has come to its end.
    #[error("the move has ended")]
    Ended,
    /// The copy has failed, or there is no room for what it must keep, or its name is taken.
    #[error("the copy cannot take the log's place: {0}")]
    Copy(#[source] io::Error),
}

/// Those that waited for the log's records to be durable, which they are in the copy. To be told once no lock is held.
pub struct Confirmations(Vec<Done>);

impl Confirmations {
    pub fn tell(self) {
        tell(self.0, &Ok(()));
    }
}

impl Log {
    /// Puts `copy` in the place of this log, by renaming it to `dir`. The caller has no other hand on the copy, and lets
    /// nobody append meanwhile; only retention may still come to the copy, and waits. Waits for the disk.
    pub(in crate::storage) fn hand_over_to(&self, copy: &Log, dir: &Path) -> Result<Confirmations, HandoverError> {
        let _exchange = self.exchange.lock();
        let _exchange_in_copy = copy.exchange.lock();
        let writer = self.writer.lock();
        if self.state.load(Ordering::Acquire) != OPEN {
            return Err(HandoverError::Offline);
        }
        let end = self.log_end_offset();
        if copy.log_end_offset() != end || self.cleaning.is_running() {
            return Err(HandoverError::Differs);
        }
        copy.advance_log_start_offset(self.log_start_offset()).map_err(|error| match error {
            ChangeError::OutOfRange { .. } => HandoverError::Differs,
            ChangeError::Io(error) | ChangeError::NoRoom(error) => HandoverError::Copy(error),
            ChangeError::Offline | ChangeError::Moved => HandoverError::Copy(io::Error::other("it is offline")),
        })?;
        if known_bugs::is_back(KnownBug::LogRemovedBeforeExchange) {
            let deleted = directory_name::name_for(&self.topic_partition, DirectoryKind::Deleted).to_string();
            self.rename_dir(&self.dir.path().with_file_name(deleted)).map_err(HandoverError::Copy)?;
        }
        copy.take_over(self, &writer, end, dir).map_err(|error| {
            match &error {
                error if is_full(error) => copy.tell_full(error),
                // The disk is well. Something that is no log of this node lies there.
                error if is_name_taken(error) => {}
                error => copy.disk_failed(error),
            }
            HandoverError::Copy(error)
        })?;

        let mut commits = self.commits.lock();
        self.recovery_point.fetch_max(end.0, Ordering::AcqRel);
        self.state.store(MOVED, Ordering::Release);
        Ok(Confirmations(commits.take(|_| true)))
    }

    /// Whether this log has all that the other one of the same partition has, beyond doubt: it took its place, and perhaps records since.
    /// Where both were written in the same epochs, logs that share a batch share all that is before it (KIP-101), but for what was
    /// deleted; and the last batch is compared.
    ///
    /// `is_whole`: nothing was wrong with this one when it was opened; else each batch is looked at.
    pub(in crate::storage) fn continues(&self, other: &Log, is_whole: bool) -> bool {
        let (start, end) = (self.log_start_offset().max(other.log_start_offset()), other.log_end_offset());
        let epochs_of = |log: &Log| log.epochs.lock().entries_in_range(start, end);
        let is_unknown = known_bugs::is_back(KnownBug::SupersededLogSetAside);
        if is_unknown || self.log_end_offset() < end || epochs_of(self) != epochs_of(other) {
            return false;
        }
        if end <= other.log_start_offset() {
            // There is nothing in it.
            return true;
        }
        // Without epochs batches at the same offsets may be of several leaders.
        if other.leader_epoch_at(end.plus(-1)).is_none() {
            return false;
        }
        let mut at = if is_whole || start >= end { end.plus(-1) } else { start };
        while at < end {
            let (Ok(Some(here)), Ok(Some(there))) = (self.batch_at(at), other.batch_at(at)) else { return false };
            let Ok(batch) = RecordBatch::parse(&there) else { return false };
            if here != there {
                return false;
            }
            at = batch.last_offset().plus(1);
        }
        true
    }

    /// The batch that holds this offset, or the next one, byte for byte.
    fn batch_at(&self, offset: Offset) -> Result<Option<BytesMut>, ReadError> {
        let read = self.read(offset, 1, self.log_end_offset(), true, Wait::ForDisk)?;
        let mut bytes = BytesMut::new();
        read.slice.read_into(&mut bytes)?;
        Ok((!bytes.is_empty()).then_some(bytes))
    }

    fn take_over(&self, log: &Log, of_log: &Writer, end: Offset, dir: &Path) -> io::Result<()> {
        // The last one may begin at the end, with nothing written in it yet.
        let entries = log.epochs.lock().entries_in_range(self.log_start_offset(), Offset(i64::MAX));
        self.epochs.lock().replace(entries);
        self.epochs.flush()?;
        {
            let mut writer = self.writer.lock();
            writer.producers.take_over(&of_log.producers);
            self.markers.last.store(log.markers.last.load(Ordering::Acquire), Ordering::Release);
            self.markers.settled.store(-1, Ordering::Release);
            self.publish_first_unstable(&writer);
            if let Some(snapshot) = writer.producers.take_snapshot()? {
                snapshot.sync_data()?;
            }
        }
        if let Some(offset) = log.cleaned_offset() {
            self.restore_cleaned_offset(offset);
        }
        self.config.store(log.config());
        self.has_unsynced_names.store(true, Ordering::Release);
        if !known_bugs::is_back(KnownBug::CopyNotSynced) {
            self.sync_below(end)?;
        }
        self.rename_dir(dir)
    }
}
