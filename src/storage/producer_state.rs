//! The producers of a partition: idempotence, open transactions, the last stable offset (KIP-98).
//!
//! Owns [`ProducerStateManager`], which the log of a partition holds under its lock and asks before each append
//! ([`ProducerStateManager::analyze`], which changes nothing) and tells after it ([`ProducerStateManager::apply`]).
//! The state as of an offset is kept in `.snapshot` files, written when a segment is rolled and when the log is
//! closed, so that only the log behind the last one is read again after a start.
//!
//! Invariants: `ongoing` holds exactly the open transactions of `producers`; the state covers all batches below
//! `map_end_offset`. It knows nothing of segments: offsets come in, decisions go out.

mod append_info;
mod entry;
pub mod snapshot;
mod verification;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::io;
use std::path::Path;
use std::sync::Arc;

use tracing::{info, warn};

pub use append_info::{
    BatchKind, CompletedTxn, EndTransactionMarker, ProducerAppendInfo, ProducerBatch, ProducerStateError,
    TransactionVersion,
};
pub use entry::{BatchMetadata, ProducerStateEntry, RETAINED_BATCHES};
pub use verification::{VerificationGuard, VerificationStateEntry};

use self::snapshot::CorruptSnapshot;
use crate::config::BrokerConfig;
use crate::storage::disk::{Disk, DiskFile, OpenMode};
use crate::storage::file_cache::Directory;
use crate::storage::file_name::{FileKind, FileName, FileState};
use crate::storage::known_bugs::{self, KnownBug};
use crate::storage::txn_index::AbortedTxn;
use crate::storage::validate::AppendOrigin;
use crate::types::{Offset, ProducerEpoch, ProducerId};

/// How long beyond its timeout a transaction may stay open before it counts as late.
const LATE_TRANSACTION_BUFFER_MS: i64 = 5 * 60 * 1000;

/// Settings of the broker that concern producers. They may change at runtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProducerStateConfig {
    /// `producer.id.expiration.ms`
    pub expiration_ms: i64,
    /// `transaction.max.timeout.ms`
    pub max_transaction_timeout_ms: i64,
    /// `transaction.partition.verification.enable`
    pub verification_enabled: bool,
}

impl ProducerStateConfig {
    /// These settings among those of the broker.
    pub fn of(config: &BrokerConfig) -> ProducerStateConfig {
        ProducerStateConfig {
            expiration_ms: i64::from(config.producer_id_expiration_ms),
            max_transaction_timeout_ms: i64::from(config.transaction_max_timeout_ms),
            verification_enabled: config.transaction_partition_verification_enable,
        }
    }
}

impl Default for ProducerStateConfig {
    fn default() -> ProducerStateConfig {
        ProducerStateConfig {
            expiration_ms: 86_400_000,
            max_transaction_timeout_ms: 900_000,
            verification_enabled: true,
        }
    }
}

/// What an append does to the producers; see [`ProducerStateManager::analyze`].
#[derive(Clone, Debug)]
pub enum Analysis {
    /// The batch was appended before; these are its offsets and its timestamp. Nothing is to be written.
    Duplicate(BatchMetadata),
    /// The batches may be written; then the updates are to be applied.
    Accepted(ProducerUpdates),
}

/// Changes of producers, made ready by [`ProducerStateManager::analyze`].
#[derive(Clone, Debug, Default)]
pub struct ProducerUpdates {
    appends: Vec<ProducerAppendInfo>,
    completed: Vec<CompletedTxn>,
    verified: Vec<ProducerId>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Unreplicated {
    marker_offset: Offset,
}

/// See the module's documentation.
pub struct ProducerStateManager {
    disk: Arc<dyn Disk>,
    config: ProducerStateConfig,
    producers: HashMap<ProducerId, ProducerStateEntry>,
    verifications: HashMap<ProducerId, VerificationStateEntry>,
    next_guard: u64,
    /// Open transactions by their first offset.
    ongoing: BTreeMap<Offset, ProducerId>,
    /// Ended transactions by their first offset, until the high watermark has passed their marker.
    unreplicated: BTreeMap<Offset, Unreplicated>,
    dir: Arc<Directory>,
    snapshots: BTreeSet<Offset>,
    map_end_offset: Offset,
    last_snapshot_offset: Offset,
}

impl ProducerStateManager {
    /// The state of the partition in `dir`, empty until [`Self::truncate_and_reload`] has loaded a snapshot.
    pub fn open(
        disk: Arc<dyn Disk>,
        dir: Arc<Directory>,
        config: ProducerStateConfig,
    ) -> io::Result<ProducerStateManager> {
        let mut manager = ProducerStateManager {
            disk,
            config,
            producers: HashMap::new(),
            verifications: HashMap::new(),
            next_guard: 0,
            ongoing: BTreeMap::new(),
            unreplicated: BTreeMap::new(),
            dir,
            snapshots: BTreeSet::new(),
            map_end_offset: Offset(0),
            last_snapshot_offset: Offset(0),
        };
        manager.snapshots = manager.list_snapshots()?;
        Ok(manager)
    }

    // --- appends ---------------------------------------------------------------------------------------------

    /// Decides whether batches may be appended, in their order; those without a producer id are not to be passed.
    /// `guard` is that of the verification which allowed the append, if there was one (KIP-890).
    pub fn analyze(
        &self,
        batches: impl IntoIterator<Item = ProducerBatch>,
        origin: AppendOrigin,
        version: TransactionVersion,
        guard: Option<VerificationGuard>,
    ) -> Result<Analysis, ProducerStateError> {
        let mut updates = ProducerUpdates::default();
        for batch in batches {
            let known = self.producers.get(&batch.producer_id);
            if origin == AppendOrigin::Client
                && let Some(entry) = known
                && let Some(duplicate) =
                    entry.find_duplicate(batch.producer_epoch, batch.base_sequence, batch.last_sequence())
            {
                return Ok(Analysis::Duplicate(*duplicate));
            }
            if matches!(origin, AppendOrigin::Client | AppendOrigin::Coordinator) && batch.kind.is_transactional() {
                self.check_verified(&batch, guard)?;
            }
            self.prepare(&mut updates, &batch, known, origin, version)?;
        }
        Ok(Analysis::Accepted(updates))
    }

    /// Takes over the updates of batches that have been written; the log now ends at `log_end_offset`.
    pub fn apply(&mut self, updates: ProducerUpdates, log_end_offset: Offset) {
        for append in &updates.appends {
            self.update(append);
        }
        for producer_id in &updates.verified {
            self.verifications.remove(producer_id);
        }
        for txn in &updates.completed {
            self.ongoing.remove(&txn.first_offset);
            self.unreplicated.insert(txn.first_offset, Unreplicated { marker_offset: txn.last_offset });
        }
        self.map_end_offset = log_end_offset;
    }

    /// Takes over a batch that is in the log already, during recovery. Whatever it holds was accepted once, so
    /// nothing is refused. Returns an entry for the transaction index.
    pub fn replay(&mut self, batch: &ProducerBatch) -> Option<AbortedTxn> {
        let mut updates = ProducerUpdates::default();
        let known = self.producers.get(&batch.producer_id);
        let version = TransactionVersion::default();
        if let Err(error) = self.prepare(&mut updates, batch, known, AppendOrigin::Replication, version) {
            warn!(%error, "record batch in the log contradicts its producer's state");
            return None;
        }
        let aborted = self.aborted_by(&updates);
        self.apply(updates, after(batch.last_offset()));
        aborted.into_iter().next()
    }

    fn prepare(
        &self,
        updates: &mut ProducerUpdates,
        batch: &ProducerBatch,
        known: Option<&ProducerStateEntry>,
        origin: AppendOrigin,
        version: TransactionVersion,
    ) -> Result<(), ProducerStateError> {
        let begun = updates.appends.iter_mut().position(|append| append.updated().producer_id == batch.producer_id);
        let index = begun.unwrap_or_else(|| {
            let id = batch.producer_id;
            let unknown = ProducerStateEntry::empty(id);
            let current = known.unwrap_or(&unknown);
            if updates.appends.is_empty() {
                // Nearly always there is one.
                updates.appends.reserve_exact(1);
            }
            updates.appends.push(ProducerAppendInfo::new(current, self.verifications.get(&id).cloned(), origin));
            updates.appends.len() - 1
        });
        updates.completed.extend(updates.appends[index].append(batch, version)?);
        if batch.kind.is_transactional() && !self.outlives_marker(batch) {
            updates.verified.push(batch.producer_id);
        }
        Ok(())
    }

    /// Whether a marker leaves the verification alone: with an epoch per transaction a marker of the verification's
    /// own epoch ends the transaction before it.
    fn outlives_marker(&self, batch: &ProducerBatch) -> bool {
        let is_marker = matches!(batch.kind, BatchKind::EndTransaction(_));
        self.verifications
            .get(&batch.producer_id)
            .is_some_and(|entry| is_marker && entry.supports_epoch_bump && entry.epoch == batch.producer_epoch)
    }

    fn update(&mut self, append: &ProducerAppendInfo) {
        let updated = append.updated();
        match self.producers.get_mut(&updated.producer_id) {
            Some(entry) => entry.update(updated),
            None => {
                self.producers.insert(updated.producer_id, updated.clone());
            }
        }
        for first_offset in append.started_transactions() {
            self.ongoing.insert(*first_offset, updated.producer_id);
        }
    }

    /// The entries that these updates, which are not taken over yet, make for the transaction index of the segment in which
    /// their batches are.
    pub fn aborted_by(&self, updates: &ProducerUpdates) -> Vec<AbortedTxn> {
        if !updates.completed.iter().any(|txn| txn.aborted) {
            return Vec::new();
        }
        let begun: Vec<(Offset, ProducerId)> = updates
            .appends
            .iter()
            .flat_map(|append| append.started_transactions().iter().map(|first| (*first, append.updated().producer_id)))
            .collect();
        let mut closed = HashSet::new();
        let mut aborted = Vec::new();
        for txn in &updates.completed {
            // What stays unstable beyond the marker: the first open transaction of another producer.
            let is_open = |(first_offset, producer_id): &(Offset, ProducerId)| {
                *producer_id != txn.producer_id && !closed.contains(first_offset)
            };
            let known = self.ongoing.iter().map(|(first_offset, id)| (*first_offset, *id)).find(is_open);
            let next_open =
                begun.iter().copied().filter(is_open).chain(known).map(|(first_offset, _)| first_offset).min();
            if txn.aborted {
                aborted.push(AbortedTxn {
                    producer_id: txn.producer_id,
                    first_offset: txn.first_offset,
                    last_offset: txn.last_offset,
                    last_stable_offset: next_open.unwrap_or(after(txn.last_offset)),
                });
            }
            closed.insert(txn.first_offset);
        }
        aborted
    }

    // --- verification ----------------------------------------------------------------------------------------

    /// Begins to verify with the coordinator that a transaction is open, or joins the verification that runs.
    /// `None`: there is nothing to verify, the transaction has data here already.
    pub fn start_verification(
        &mut self,
        producer_id: ProducerId,
        epoch: ProducerEpoch,
        sequence: i32,
        supports_epoch_bump: bool,
        now_ms: i64,
    ) -> Result<Option<VerificationGuard>, ProducerStateError> {
        if self.has_ongoing_transaction(producer_id, epoch) {
            return Ok(None);
        }
        self.check_not_fenced(producer_id, epoch, self.map_end_offset)?;
        let next_guard = &mut self.next_guard;
        let entry = self.verifications.entry(producer_id).or_insert_with(|| {
            *next_guard += 1;
            let guard = VerificationGuard(*next_guard);
            VerificationStateEntry {
                timestamp_ms: now_ms,
                guard,
                lowest_sequence: sequence,
                epoch,
                supports_epoch_bump,
            }
        });
        entry.observe(sequence, epoch);
        Ok(Some(entry.guard))
    }

    /// Whether a transaction of this producer in this epoch has data here and no marker yet.
    pub fn has_ongoing_transaction(&self, producer_id: ProducerId, epoch: ProducerEpoch) -> bool {
        self.producers
            .get(&producer_id)
            .is_some_and(|entry| entry.current_txn_first_offset.is_some() && entry.producer_epoch == epoch)
    }

    fn check_verified(
        &self,
        batch: &ProducerBatch,
        guard: Option<VerificationGuard>,
    ) -> Result<(), ProducerStateError> {
        if self.has_ongoing_transaction(batch.producer_id, batch.producer_epoch) {
            return Ok(());
        }
        self.check_not_fenced(batch.producer_id, batch.producer_epoch, batch.base_offset)?;
        let is_data = matches!(batch.kind, BatchKind::Data { .. });
        let current = self.verifications.get(&batch.producer_id).map(|entry| entry.guard);
        if self.config.verification_enabled && is_data && (guard.is_none() || guard != current) {
            return Err(ProducerStateError::InvalidTxnState {
                producer_id: batch.producer_id,
                offset: batch.base_offset,
            });
        }
        Ok(())
    }

    fn check_not_fenced(
        &self,
        producer_id: ProducerId,
        epoch: ProducerEpoch,
        offset: Offset,
    ) -> Result<(), ProducerStateError> {
        match self.producers.get(&producer_id) {
            Some(entry) if epoch < entry.producer_epoch => Err(ProducerStateError::InvalidProducerEpoch {
                producer_id,
                producer_epoch: epoch,
                offset,
                current_epoch: entry.producer_epoch,
            }),
            _ => Ok(()),
        }
    }

    // --- what is known ---------------------------------------------------------------------------------------

    /// The earliest offset of a transaction that is open, or ended by a marker which the high watermark has not
    /// passed. The last stable offset stops there.
    pub fn first_unstable_offset(&self) -> Option<Offset> {
        let undecided = self.first_undecided_offset();
        let unreplicated = self.unreplicated.first_key_value().map(|(offset, _)| *offset);
        undecided.into_iter().chain(unreplicated).min()
    }

    /// The earliest offset of an open transaction.
    pub fn first_undecided_offset(&self) -> Option<Offset> {
        self.ongoing.first_key_value().map(|(offset, _)| *offset)
    }

    /// Who has a transaction open.
    pub fn undecided(&self) -> impl Iterator<Item = ProducerId> {
        self.ongoing.values().copied()
    }

    /// Transactions that have been open for longer than any may, so that they probably hang, the oldest first.
    pub fn late_transactions(&self, now_ms: i64) -> impl Iterator<Item = &ProducerStateEntry> {
        let limit = self.config.max_transaction_timeout_ms.saturating_add(LATE_TRANSACTION_BUFFER_MS);
        self.ongoing
            .values()
            .filter_map(|producer_id| self.producers.get(producer_id))
            .filter(move |entry| entry.last_timestamp > 0 && now_ms.saturating_sub(entry.last_timestamp) > limit)
    }

    pub fn entry(&self, producer_id: ProducerId) -> Option<&ProducerStateEntry> {
        self.producers.get(&producer_id)
    }

    /// All producers, ordered by id.
    pub fn active_producers(&self) -> Vec<&ProducerStateEntry> {
        let mut entries: Vec<_> = self.producers.values().collect();
        entries.sort_unstable_by_key(|entry| entry.producer_id);
        entries
    }

    /// No producer is known, and no transaction waits for replication.
    pub fn is_empty(&self) -> bool {
        self.producers.is_empty() && self.unreplicated.is_empty()
    }

    /// All batches below this offset have been taken over.
    pub fn map_end_offset(&self) -> Offset {
        self.map_end_offset
    }

    /// Takes over what another log of the same records knows of its producers, up to the same offset. That one may have lost
    /// records: what is open by those that are here stays so.
    pub fn take_over(&mut self, other: &ProducerStateManager) {
        let producers = std::mem::replace(&mut self.producers, other.producers.clone());
        let ongoing = std::mem::replace(&mut self.ongoing, other.ongoing.clone());
        self.config = other.config;
        self.verifications = other.verifications.clone();
        self.next_guard = other.next_guard;
        self.unreplicated = other.unreplicated.clone();
        self.map_end_offset = other.map_end_offset;
        for (first_offset, producer_id) in ongoing {
            let Some(own) = producers.get(&producer_id) else { continue };
            let entry = self.producers.entry(producer_id).or_insert_with(|| own.clone());
            let is_known = self.ongoing.get(&first_offset) == Some(&producer_id)
                || entry.current_txn_first_offset.is_some_and(|known| known < first_offset)
                || entry.producer_epoch > own.producer_epoch;
            if is_known {
                continue;
            }
            warn!(%producer_id, %first_offset, "the log has lost a transaction that is open by its copy: it stays open");
            if let Some(known) = entry.current_txn_first_offset.replace(first_offset) {
                self.ongoing.remove(&known);
            }
            self.ongoing.insert(first_offset, producer_id);
        }
        // A snapshot that was written there knows less.
        if !self.producers.is_empty() && self.last_snapshot_offset == self.map_end_offset {
            self.last_snapshot_offset = Offset(self.map_end_offset.0 - 1);
        }
    }

    // --- the log moves ---------------------------------------------------------------------------------------

    pub fn config(&self) -> ProducerStateConfig {
        self.config
    }

    pub fn set_config(&mut self, config: ProducerStateConfig) {
        self.config = config;
    }

    /// The log's end moved by batches that concern no producer.
    pub fn update_map_end_offset(&mut self, offset: Offset) {
        self.map_end_offset = offset;
    }

    /// Transactions whose marker is below the high watermark are stable.
    pub fn on_high_watermark_updated(&mut self, high_watermark: Offset) {
        self.unreplicated.retain(|_, txn| txn.marker_offset >= high_watermark);
    }

    pub fn on_log_start_offset_incremented(&mut self, log_start_offset: Offset) {
        self.on_high_watermark_updated(log_start_offset);
        self.map_end_offset = self.map_end_offset.max(log_start_offset);
        self.last_snapshot_offset = self.latest_snapshot_offset().unwrap_or(log_start_offset);
    }

    /// Forgets producers that have been silent for `producer.id.expiration.ms` and have no transaction open.
    pub fn remove_expired(&mut self, now_ms: i64) {
        let expiration_ms = self.config.expiration_ms;
        self.producers.retain(|_, entry| !is_expired(entry, now_ms, expiration_ms));
        self.verifications.retain(|_, entry| now_ms.saturating_sub(entry.timestamp_ms) < expiration_ms);
    }

    // --- snapshots -------------------------------------------------------------------------------------------

    /// Writes the state to a snapshot at [`Self::map_end_offset`] unless one was written there. Returns the file if it
    /// is still to be synced, which is a helper thread's work where somebody waits.
    pub fn take_snapshot(&mut self) -> io::Result<Option<Arc<dyn DiskFile>>> {
        if self.map_end_offset <= self.last_snapshot_offset {
            return Ok(None);
        }
        let offset = self.map_end_offset;
        let bytes = snapshot::encode(self.active_producers().into_iter());
        let path = snapshot_name(offset).path_in(&self.dir.path());
        let file = self.disk.open(&path, OpenMode::Create)?;
        file.set_len(0)?;
        if let Err(error) = file.write_all_at(&bytes, 0) {
            // A part of one would only be in the way, and take up room.
            let _ = self.disk.remove_file(&path);
            return Err(error);
        }
        self.snapshots.insert(offset);
        self.last_snapshot_offset = offset;
        info!(%offset, producers = self.producers.len(), "wrote producer snapshot");
        Ok(Some(file))
    }

    /// Makes the last snapshot durable, if there is one.
    pub fn sync_latest_snapshot(&self) -> io::Result<()> {
        let Some(offset) = self.latest_snapshot_offset() else { return Ok(()) };
        match self.disk.open(&snapshot_name(offset).path_in(&self.dir.path()), OpenMode::ReadWrite) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            file => file?.sync_data(),
        }
    }

    pub fn latest_snapshot_offset(&self) -> Option<Offset> {
        self.snapshots.last().copied()
    }

    /// Cuts the state down to `start_offset..=log_end_offset`: snapshots outside go, and unless the state ends there already
    /// it is loaded from the last one left. The log from [`Self::map_end_offset`] on must then be replayed. It starts where
    /// the segment does that has the log's start, and not later: deleted records are no reason to refuse their producer's
    /// next ones. (Kafka does so only for segments that it recovers after a crash.)
    pub fn truncate_and_reload(&mut self, start_offset: Offset, log_end_offset: Offset, now_ms: i64) -> io::Result<()> {
        let is_trusted = known_bugs::is_back(KnownBug::SnapshotTrustedAfterTruncation);
        let outside = |offset: &Offset| !is_trusted && (*offset > log_end_offset || *offset < start_offset);
        for offset in self.snapshots.iter().copied().filter(outside).collect::<Vec<_>>() {
            self.delete_snapshot(offset)?;
        }
        if log_end_offset == self.map_end_offset {
            self.on_log_start_offset_incremented(start_offset);
            return Ok(());
        }
        self.forget_producers();
        self.load_latest_snapshot(start_offset, now_ms)
    }

    /// Loads the last snapshot at or before `offset`, and touches no file. The log from [`Self::map_end_offset`] on must
    /// then be replayed.
    pub fn load_as_of(&mut self, offset: Offset, start_offset: Offset, now_ms: i64) -> io::Result<()> {
        self.forget_producers();
        self.map_end_offset = start_offset;
        for snapshot in self.snapshots.range(..=offset).rev().copied().collect::<Vec<_>>() {
            if let Ok(entries) = self.read_snapshot(&snapshot_name(snapshot).path_in(&self.dir.path()))? {
                self.load_entries(entries, now_ms);
                self.map_end_offset = snapshot.max(start_offset);
                break;
            }
        }
        Ok(())
    }

    /// Forgets everything, snapshots included; the log starts anew at `offset`.
    pub fn truncate_fully_and_start_at(&mut self, offset: Offset) -> io::Result<()> {
        self.forget_producers();
        self.delete_snapshots_before(Offset(i64::MAX))?;
        self.last_snapshot_offset = Offset(0);
        self.map_end_offset = offset;
        Ok(())
    }

    /// Deletes snapshots that belong to no segment, but for the newest if it lies behind all segments: the one of
    /// the last clean shutdown.
    pub fn remove_stray_snapshots(&mut self, segment_base_offsets: &BTreeSet<Offset>) -> io::Result<()> {
        self.snapshots = self.list_snapshots()?;
        let stray: Vec<Offset> = self.snapshots.difference(segment_base_offsets).copied().collect();
        let Some((latest, older)) = stray.split_last() else { return Ok(()) };
        for offset in older {
            self.delete_snapshot(*offset)?;
        }
        if segment_base_offsets.last().is_some_and(|last| latest < last) {
            self.delete_snapshot(*latest)?;
        }
        Ok(())
    }

    /// Deletes the snapshots below `offset`.
    pub fn delete_snapshots_before(&mut self, offset: Offset) -> io::Result<()> {
        for snapshot in self.snapshots.range(..offset).copied().collect::<Vec<_>>() {
            self.delete_snapshot(snapshot)?;
        }
        Ok(())
    }

    /// Takes the snapshot at a deleted segment's base offset out of the books. The caller renames and deletes the
    /// file together with the segment's other files.
    pub fn remove_snapshot(&mut self, offset: Offset) -> Option<FileName> {
        self.snapshots.remove(&offset).then(|| snapshot_name(offset))
    }

    fn forget_producers(&mut self) {
        self.producers.clear();
        self.ongoing.clear();
        // A log is only cut at or above the high watermark, so nothing of this is still to be replicated.
        self.unreplicated.clear();
    }

    fn load_latest_snapshot(&mut self, start_offset: Offset, now_ms: i64) -> io::Result<()> {
        while let Some(offset) = self.latest_snapshot_offset() {
            let path = snapshot_name(offset).path_in(&self.dir.path());
            match self.read_snapshot(&path)? {
                Ok(entries) => {
                    self.load_entries(entries, now_ms);
                    self.last_snapshot_offset = offset;
                    self.map_end_offset = offset;
                    return Ok(());
                }
                Err(error) => {
                    warn!(path = %path.display(), %error, "producer snapshot is corrupt and deleted");
                    self.delete_snapshot(offset)?;
                }
            }
        }
        self.last_snapshot_offset = start_offset;
        self.map_end_offset = start_offset;
        Ok(())
    }

    /// The outer error is the disk's, the inner one says that the file is of no use.
    fn read_snapshot(&self, path: &Path) -> io::Result<Result<Vec<ProducerStateEntry>, CorruptSnapshot>> {
        match self.disk.open(path, OpenMode::Read).and_then(|file| snapshot::read(&*file)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Err(CorruptSnapshot::Missing)),
            Err(error) if error.kind() == io::ErrorKind::InvalidData => Ok(Err(CorruptSnapshot::NotAFile)),
            read => read,
        }
    }

    fn load_entries(&mut self, entries: Vec<ProducerStateEntry>, now_ms: i64) {
        for entry in entries {
            if is_expired(&entry, now_ms, self.config.expiration_ms) {
                continue;
            }
            if let Some(first_offset) = entry.current_txn_first_offset {
                self.ongoing.insert(first_offset, entry.producer_id);
            }
            self.producers.insert(entry.producer_id, entry);
        }
    }

    fn list_snapshots(&self) -> io::Result<BTreeSet<Offset>> {
        let entries = self.disk.list(&self.dir.path())?;
        let names =
            entries.iter().filter(|entry| entry.is_file()).filter_map(|entry| FileName::parse(entry.name.to_str()?));
        let is_snapshot = |name: &FileName| name.kind == FileKind::Snapshot && name.state == FileState::InUse;
        Ok(names.filter(is_snapshot).map(|name| name.base_offset).collect())
    }

    fn delete_snapshot(&mut self, offset: Offset) -> io::Result<()> {
        if let Some(name) = self.remove_snapshot(offset) {
            self.disk.remove_if_exists(&name.path_in(&self.dir.path()))?;
        }
        Ok(())
    }
}

fn snapshot_name(offset: Offset) -> FileName {
    FileName::new(offset, FileKind::Snapshot)
}

/// The offset behind `offset`, which came from a file and may be any.
fn after(offset: Offset) -> Offset {
    Offset(offset.0.saturating_add(1))
}

/// Whether a producer may be forgotten: silent for too long, by the time of its records, and no transaction open.
fn is_expired(entry: &ProducerStateEntry, now_ms: i64, expiration_ms: i64) -> bool {
    entry.current_txn_first_offset.is_none() && now_ms.saturating_sub(entry.last_timestamp) >= expiration_ms
}

#[cfg(test)]
mod tests;
