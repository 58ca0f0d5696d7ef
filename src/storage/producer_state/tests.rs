//! The rules of `ProducerStateManager`, told producer by producer, and its files against those Kafka wrote.

use std::collections::BTreeSet;
use std::path::PathBuf;

use proptest::prelude::*;

use super::snapshot::CorruptSnapshot;
use super::*;
use crate::record::batch::{RecordBatch, batches};
use crate::record::control::ControlRecord;
use crate::storage::disk::RealDisk;
use crate::storage::golden;

const CLIENT: AppendOrigin = AppendOrigin::Client;
const FOLLOWER: AppendOrigin = AppendOrigin::Replication;
const V0: TransactionVersion = TransactionVersion(0);
const V2: TransactionVersion = TransactionVersion(2);

/// A partition's producers without a log: appends only move the end.
struct Partition {
    manager: ProducerStateManager,
    end: i64,
    dir: tempfile::TempDir,
}

impl Partition {
    fn new() -> Partition {
        let dir = tempfile::tempdir().unwrap();
        let config = ProducerStateConfig { verification_enabled: false, ..ProducerStateConfig::default() };
        let manager = ProducerStateManager::open(RealDisk::new(), Directory::new(dir.path().into()), config).unwrap();
        Partition { manager, end: 0, dir }
    }

    fn reopen(&self) -> ProducerStateManager {
        let dir = Directory::new(self.dir.path().into());
        ProducerStateManager::open(RealDisk::new(), dir, ProducerStateConfig::default()).unwrap()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn try_append(
        &mut self,
        batch: ProducerBatch,
        origin: AppendOrigin,
        version: TransactionVersion,
        guard: Option<VerificationGuard>,
    ) -> Result<Outcome, ProducerStateError> {
        match self.manager.analyze([batch], origin, version, guard)? {
            Analysis::Duplicate(batch) => Ok(Outcome::Duplicate(batch.first_offset().0, batch.last_offset.0)),
            Analysis::Accepted(updates) => {
                self.end = batch.last_offset().0 + 1;
                let aborted = self.manager.aborted_by(&updates);
                self.manager.apply(updates, Offset(self.end));
                Ok(Outcome::Appended(aborted))
            }
        }
    }

    /// A client's batch of `count` records.
    fn produce(&mut self, id: i64, epoch: i16, sequence: i32, count: i32) -> Result<Outcome, ProducerStateError> {
        self.try_append(self.data(id, epoch, sequence, count, false), CLIENT, V0, None)
    }

    fn produce_in_txn(
        &mut self,
        id: i64,
        epoch: i16,
        sequence: i32,
        count: i32,
    ) -> Result<Outcome, ProducerStateError> {
        self.try_append(self.data(id, epoch, sequence, count, true), CLIENT, V0, None)
    }

    fn end_txn(&mut self, id: i64, epoch: i16, aborted: bool) -> Result<Outcome, ProducerStateError> {
        self.try_append(self.marker(id, epoch, aborted, 0), AppendOrigin::Coordinator, V0, None)
    }

    fn data(&self, id: i64, epoch: i16, sequence: i32, count: i32, transactional: bool) -> ProducerBatch {
        ProducerBatch {
            producer_id: ProducerId(id),
            producer_epoch: ProducerEpoch(epoch),
            base_sequence: sequence,
            base_offset: Offset(self.end),
            last_offset_delta: count - 1,
            max_timestamp: 1000,
            kind: BatchKind::Data { transactional },
        }
    }

    fn marker(&self, id: i64, epoch: i16, aborted: bool, coordinator_epoch: i32) -> ProducerBatch {
        let marker = EndTransactionMarker { aborted, coordinator_epoch, timestamp: 2000 };
        let kind = BatchKind::EndTransaction(Some(marker));
        ProducerBatch { kind, ..self.data(id, epoch, -1, 1, true) }
    }
}

#[derive(Debug, PartialEq)]
enum Outcome {
    Appended(Vec<AbortedTxn>),
    Duplicate(i64, i64),
}

fn appended() -> Result<Outcome, ProducerStateError> {
    Ok(Outcome::Appended(Vec::new()))
}

fn is_out_of_order(result: Result<Outcome, ProducerStateError>) -> bool {
    matches!(result, Err(ProducerStateError::OutOfOrderSequence { .. }))
}

fn is_fenced(result: Result<Outcome, ProducerStateError>) -> bool {
    matches!(result, Err(ProducerStateError::InvalidProducerEpoch { .. }))
}

fn is_invalid_txn_state(result: Result<Outcome, ProducerStateError>) -> bool {
    matches!(result, Err(ProducerStateError::InvalidTxnState { .. }))
}

fn aborted(producer_id: i64, first: i64, last: i64, stable: i64) -> AbortedTxn {
    AbortedTxn {
        producer_id: ProducerId(producer_id),
        first_offset: Offset(first),
        last_offset: Offset(last),
        last_stable_offset: Offset(stable),
    }
}

#[test]
fn sequences_must_follow_each_other() {
    let mut partition = Partition::new();
    assert_eq!(partition.produce(1, 0, 0, 10), appended());
    assert_eq!(partition.produce(1, 0, 10, 5), appended());
    assert!(is_out_of_order(partition.produce(1, 0, 16, 1)));
    assert!(is_out_of_order(partition.produce(1, 0, 14, 1)));
    assert_eq!(partition.produce(1, 0, 15, 1), appended());
    assert_eq!(partition.end, 16);
}

#[test]
fn one_of_the_last_five_batches_is_answered_with_its_offsets() {
    let mut partition = Partition::new();
    for n in 0..6 {
        assert_eq!(partition.produce(1, 0, n * 2, 2), appended());
    }
    assert_eq!(partition.produce(1, 0, 2, 2), Ok(Outcome::Duplicate(2, 3)));
    assert_eq!(partition.produce(1, 0, 10, 2), Ok(Outcome::Duplicate(10, 11)));
    // Not the same range, or too long ago.
    assert!(is_out_of_order(partition.produce(1, 0, 2, 4)));
    assert!(is_out_of_order(partition.produce(1, 0, 0, 2)));
}

#[test]
fn an_unknown_producer_may_begin_anywhere() {
    let mut partition = Partition::new();
    assert_eq!(partition.produce(7, 3, 500, 1), appended());
    assert!(is_out_of_order(partition.produce(7, 3, 500 + 2, 1)));
    assert_eq!(partition.produce(7, 3, 501, 1), appended());
}

#[test]
fn a_new_epoch_begins_at_zero_and_fences_the_old_one() {
    let mut partition = Partition::new();
    partition.produce(1, 0, 0, 3).unwrap();
    assert!(is_out_of_order(partition.produce(1, 1, 3, 1)));
    assert_eq!(partition.produce(1, 1, 0, 1), appended());
    assert!(is_fenced(partition.produce(1, 0, 3, 1)));
    // The same sequences in another epoch are no duplicates.
    assert_eq!(partition.produce(1, 2, 0, 1), appended());
}

#[test]
fn sequences_wrap() {
    let mut partition = Partition::new();
    assert_eq!(partition.produce(1, 0, i32::MAX - 1, 2), appended());
    assert_eq!(partition.produce(1, 0, 0, 1), appended());
    assert_eq!(partition.produce(1, 0, i32::MAX - 1, 2), Ok(Outcome::Duplicate(0, 1)));

    assert_eq!(partition.produce(2, 0, i32::MAX, 3), appended());
    assert!(is_out_of_order(partition.produce(2, 0, 0, 1)));
    assert_eq!(partition.produce(2, 0, 2, 1), appended());
}

#[test]
fn two_batches_of_one_append_are_checked_against_each_other() {
    let mut partition = Partition::new();
    partition.produce(1, 0, 0, 1).unwrap();
    let first = partition.data(1, 0, 1, 2, false);
    let gap = ProducerBatch { base_sequence: 4, base_offset: Offset(3), ..first };
    assert!(matches!(
        partition.manager.analyze([first, gap], CLIENT, V0, None),
        Err(ProducerStateError::OutOfOrderSequence { last_sequence: 2, .. })
    ));
    let next = ProducerBatch { base_sequence: 3, ..gap };
    let Ok(Analysis::Accepted(updates)) = partition.manager.analyze([first, next], CLIENT, V0, None) else { panic!() };
    partition.manager.apply(updates, Offset(5));
    assert_eq!(partition.manager.entry(ProducerId(1)).unwrap().batches().len(), 3);
    assert_eq!(partition.manager.entry(ProducerId(1)).unwrap().last_sequence(), 4);
}

#[test]
fn an_analysis_changes_nothing() {
    let mut partition = Partition::new();
    partition.produce(1, 0, 0, 1).unwrap();
    let before = partition.manager.entry(ProducerId(1)).cloned();
    let batch = partition.data(1, 0, 1, 1, true);
    assert!(partition.manager.analyze([batch], CLIENT, V0, None).is_ok());
    assert_eq!(partition.manager.entry(ProducerId(1)).cloned(), before);
    assert_eq!(partition.manager.first_unstable_offset(), None);
}

#[test]
fn followers_take_what_the_leader_took() {
    let mut partition = Partition::new();
    partition.produce(1, 5, 0, 1).unwrap();
    let gap = partition.data(1, 5, 9, 1, false);
    assert_eq!(partition.try_append(gap, FOLLOWER, V0, None), appended());
    let old_epoch = partition.data(1, 4, 0, 1, false);
    assert_eq!(partition.try_append(old_epoch, FOLLOWER, V0, None), appended());
    let repeated = partition.data(1, 4, 0, 1, false);
    assert_eq!(partition.try_append(repeated, FOLLOWER, V0, None), appended());
}

#[test]
fn transactions_hold_back_the_last_stable_offset_until_their_marker_is_replicated() {
    let mut partition = Partition::new();
    partition.produce_in_txn(1, 0, 0, 5).unwrap(); // 0..4
    partition.produce_in_txn(2, 0, 0, 5).unwrap(); // 5..9
    assert_eq!(partition.manager.first_unstable_offset(), Some(Offset(0)));

    // Producer 1 aborts at 10. Producer 2 is still open, so nothing from 5 on is stable.
    assert_eq!(partition.end_txn(1, 0, true), Ok(Outcome::Appended(vec![aborted(1, 0, 10, 5)])));
    assert_eq!(partition.manager.first_undecided_offset(), Some(Offset(5)));
    assert_eq!(partition.manager.first_unstable_offset(), Some(Offset(0)));
    partition.manager.on_high_watermark_updated(Offset(10));
    assert_eq!(partition.manager.first_unstable_offset(), Some(Offset(0)));
    partition.manager.on_high_watermark_updated(Offset(11));
    assert_eq!(partition.manager.first_unstable_offset(), Some(Offset(5)));

    // Producer 2 commits at 11: no entry for the index.
    assert_eq!(partition.end_txn(2, 0, false), appended());
    assert_eq!(partition.manager.first_undecided_offset(), None);
    partition.manager.on_high_watermark_updated(Offset(12));
    assert_eq!(partition.manager.first_unstable_offset(), None);

    // With nobody else open, everything up to the marker is stable.
    partition.produce_in_txn(1, 0, 5, 1).unwrap(); // 12
    assert_eq!(partition.end_txn(1, 0, true), Ok(Outcome::Appended(vec![aborted(1, 12, 13, 14)])));
}

#[test]
fn markers_of_empty_transactions_leave_no_trace() {
    let mut partition = Partition::new();
    assert_eq!(partition.end_txn(1, 0, true), appended());
    assert_eq!(partition.manager.first_unstable_offset(), None);
    let emptied = ProducerBatch { kind: BatchKind::EndTransaction(None), ..partition.marker(1, 0, true, 0) };
    assert_eq!(partition.try_append(emptied, FOLLOWER, V0, None), appended());
}

#[test]
fn a_plain_batch_within_a_transaction_is_refused() {
    let mut partition = Partition::new();
    partition.produce_in_txn(1, 0, 0, 1).unwrap();
    assert!(is_invalid_txn_state(partition.produce(1, 0, 1, 1)));
    assert_eq!(partition.produce_in_txn(1, 0, 1, 1), appended());
}

#[test]
fn an_old_coordinator_is_fenced() {
    let mut partition = Partition::new();
    partition.produce_in_txn(1, 0, 0, 1).unwrap();
    let marker = partition.marker(1, 0, false, 7);
    partition.try_append(marker, AppendOrigin::Coordinator, V0, None).unwrap();
    partition.produce_in_txn(1, 0, 1, 1).unwrap();
    let zombie = partition.marker(1, 0, true, 6);
    let fenced = partition.try_append(zombie, AppendOrigin::Coordinator, V0, None);
    assert!(matches!(
        fenced,
        Err(ProducerStateError::CoordinatorFenced { coordinator_epoch: 6, current_epoch: 7, .. })
    ));
    assert_eq!(partition.manager.first_undecided_offset(), Some(Offset(2)));
    assert!(matches!(partition.try_append(zombie, FOLLOWER, V0, None), Ok(Outcome::Appended(txns)) if txns.len() == 1));
}

#[test]
fn markers_bump_the_epoch_from_transaction_version_2_on() {
    let mut partition = Partition::new();
    let coordinator = AppendOrigin::Coordinator;
    partition.produce_in_txn(1, 3, 0, 1).unwrap();
    let same_epoch = partition.marker(1, 3, true, 0);
    assert!(is_fenced(partition.try_append(same_epoch, coordinator, V2, None)));
    let bumped = partition.marker(1, 4, true, 0);
    assert_eq!(partition.try_append(bumped, coordinator, V2, None), Ok(Outcome::Appended(vec![aborted(1, 0, 1, 2)])));
    // The coordinator did not hear of it and tries again.
    let again = partition.marker(1, 4, true, 0);
    assert_eq!(partition.try_append(again, coordinator, V2, None), appended());
    let older = partition.marker(1, 3, true, 0);
    assert!(is_fenced(partition.try_append(older, coordinator, V2, None)));

    // The last epoch there is cannot be bumped.
    partition.produce_in_txn(2, i16::MAX, 0, 1).unwrap();
    let last = partition.marker(2, i16::MAX, false, 0);
    assert_eq!(partition.try_append(last, coordinator, V2, None), appended());
    assert_eq!(partition.manager.first_undecided_offset(), None);
}

#[test]
fn after_a_bumped_marker_sequences_start_again() {
    let mut partition = Partition::new();
    partition.produce_in_txn(1, 0, 0, 3).unwrap();
    let marker = partition.marker(1, 1, false, 0);
    partition.try_append(marker, AppendOrigin::Coordinator, V2, None).unwrap();
    assert!(is_fenced(partition.produce_in_txn(1, 0, 3, 1)));
    assert!(is_out_of_order(partition.produce_in_txn(1, 1, 3, 1)));
    assert_eq!(partition.produce_in_txn(1, 1, 0, 1), appended());
}

#[test]
fn a_transaction_begins_only_with_its_verification() {
    let mut partition = Partition::new();
    partition.manager.set_config(ProducerStateConfig::default());
    let (id, epoch) = (ProducerId(1), ProducerEpoch(0));
    assert!(is_invalid_txn_state(partition.produce_in_txn(1, 0, 0, 1)));

    let guard = partition.manager.start_verification(id, epoch, 0, false, 0).unwrap();
    assert_eq!(partition.manager.start_verification(id, epoch, 0, false, 0).unwrap(), guard);
    let batch = partition.data(1, 0, 0, 1, true);
    assert_eq!(partition.try_append(batch, CLIENT, V0, guard), appended());

    // Now the transaction is open here, and nothing more is asked.
    assert_eq!(partition.manager.start_verification(id, epoch, 1, false, 0).unwrap(), None);
    assert_eq!(partition.produce_in_txn(1, 0, 1, 1), appended());

    // A marker between verification and append makes the guard void.
    partition.end_txn(1, 0, false).unwrap();
    let guard = partition.manager.start_verification(id, epoch, 2, false, 0).unwrap();
    partition.end_txn(1, 0, false).unwrap();
    let late = partition.data(1, 0, 2, 1, true);
    assert!(is_invalid_txn_state(partition.try_append(late, CLIENT, V0, guard)));
    assert!(partition.manager.start_verification(id, ProducerEpoch(-1), 0, false, 0).is_err());
}

#[test]
fn verification_lets_the_lowest_sequence_go_first() {
    let mut partition = Partition::new();
    partition.manager.set_config(ProducerStateConfig::default());
    let (id, epoch) = (ProducerId(1), ProducerEpoch(0));
    partition.manager.start_verification(id, epoch, 5, false, 0).unwrap();
    let guard = partition.manager.start_verification(id, epoch, 0, false, 0).unwrap();
    let second = partition.data(1, 0, 5, 1, true);
    assert!(is_out_of_order(partition.try_append(second, CLIENT, V0, guard)));
    let first = partition.data(1, 0, 0, 5, true);
    assert_eq!(partition.try_append(first, CLIENT, V0, guard), appended());

    // With an epoch per transaction, a producer that has no batches here begins at 0.
    let guard = partition.manager.start_verification(ProducerId(2), epoch, 4, true, 0).unwrap();
    let not_first = partition.data(2, 0, 4, 1, true);
    assert!(is_out_of_order(partition.try_append(not_first, CLIENT, V0, guard)));
}

#[test]
fn silent_producers_are_forgotten_unless_a_transaction_is_open() {
    let mut partition = Partition::new();
    let day = 86_400_000;
    partition.produce(1, 0, 0, 1).unwrap(); // at 1000
    partition.produce_in_txn(2, 0, 0, 1).unwrap();
    partition.manager.remove_expired(1000 + day - 1);
    assert_eq!(partition.manager.active_producers().len(), 2);
    partition.manager.remove_expired(1000 + day);
    assert_eq!(partition.manager.active_producers().len(), 1);
    assert!(partition.manager.entry(ProducerId(2)).is_some());

    assert_eq!(partition.manager.late_transactions(1000 + 900_000 + 300_000).count(), 0);
    assert_eq!(partition.manager.late_transactions(1000 + 900_000 + 300_001).count(), 1);
}

#[test]
fn snapshots_bring_the_state_back() {
    let mut partition = Partition::new();
    for n in 0..3 {
        partition.produce(1, 0, n, 1).unwrap();
    }
    partition.produce_in_txn(2, 4, 0, 2).unwrap(); // 3, 4
    partition.manager.take_snapshot().unwrap().unwrap().sync_data().unwrap();
    let path = partition.path("00000000000000000005.snapshot");
    assert!(path.exists());
    assert!(partition.manager.take_snapshot().unwrap().is_none());
    partition.end_txn(2, 4, true).unwrap(); // 5
    partition.manager.take_snapshot().unwrap().unwrap();

    let open = || partition.reopen();
    let mut restored = open();
    restored.truncate_and_reload(Offset(0), Offset(9), 2000).unwrap();
    assert_eq!(restored.map_end_offset(), Offset(6));
    assert_eq!(restored.first_undecided_offset(), None);
    // Only the last batch is kept.
    assert_eq!(restored.entry(ProducerId(1)).unwrap().batches().len(), 1);
    assert_eq!(restored.entry(ProducerId(1)).unwrap().last_sequence(), 2);

    // The log was cut to 5: the later snapshot goes, the transaction is open again.
    restored.truncate_and_reload(Offset(0), Offset(5), 2000).unwrap();
    assert_eq!(restored.map_end_offset(), Offset(5));
    assert_eq!(restored.first_undecided_offset(), Some(Offset(3)));
    assert_eq!(restored.latest_snapshot_offset(), Some(Offset(5)));
    assert!(!partition.path("00000000000000000006.snapshot").exists());

    // Damage: without a usable snapshot the state begins at the log's start.
    std::fs::write(&path, b"\0\x01rubbish").unwrap();
    let mut restored = open();
    restored.truncate_and_reload(Offset(0), Offset(9), 2000).unwrap();
    assert_eq!(restored.map_end_offset(), Offset(0));
    assert!(restored.is_empty() && !path.exists());
}

#[test]
fn expired_producers_are_not_loaded() {
    let mut partition = Partition::new();
    partition.produce(1, 0, 0, 1).unwrap();
    partition.manager.take_snapshot().unwrap();
    let mut restored = partition.reopen();
    restored.truncate_and_reload(Offset(0), Offset(2), 1000 + 86_400_000).unwrap();
    assert_eq!((restored.active_producers().len(), restored.map_end_offset()), (0, Offset(1)));
}

#[test]
fn stray_snapshots_go_but_the_one_of_the_last_shutdown_stays() {
    let mut partition = Partition::new();
    for offset in [5, 10, 13, 20, 33, 40] {
        partition.manager.update_map_end_offset(Offset(offset));
        partition.manager.take_snapshot().unwrap().unwrap();
    }
    std::fs::write(partition.path("7.snapshot"), b"").unwrap();
    std::fs::write(partition.path("00000000000000000007.snapshot.deleted"), b"").unwrap();
    let segments: BTreeSet<Offset> = [0, 10, 20].map(Offset).into();
    partition.manager.remove_stray_snapshots(&segments).unwrap();
    assert_eq!(partition.manager.snapshots, [10, 20, 40].map(Offset).into());
    assert!(!partition.path("00000000000000000033.snapshot").exists());

    let segments: BTreeSet<Offset> = [0, 10, 50].map(Offset).into();
    partition.manager.remove_stray_snapshots(&segments).unwrap();
    assert_eq!(partition.manager.snapshots, [10].map(Offset).into());

    partition.manager.delete_snapshots_before(Offset(10)).unwrap();
    assert_eq!(partition.manager.snapshots, [10].map(Offset).into());
    partition.manager.truncate_fully_and_start_at(Offset(100)).unwrap();
    assert_eq!(partition.manager.snapshots, BTreeSet::new());
    assert_eq!(partition.manager.map_end_offset(), Offset(100));
}

#[test]
fn replaying_a_log_gives_the_same_state_and_index_as_writing_it() {
    let mut written = Partition::new();
    let mut log = Vec::new();
    let mut index = Vec::new();
    let mut append = |partition: &mut Partition, batch: ProducerBatch, origin| {
        log.push(batch);
        match partition.try_append(batch, origin, V0, None).unwrap() {
            Outcome::Appended(txns) => index.extend(txns),
            Outcome::Duplicate(..) => panic!("nothing was sent twice"),
        }
    };
    for (id, sequence) in [(1, 0), (2, 0), (1, 3), (3, 0), (2, 3)] {
        let batch = written.data(id, 0, sequence, 3, id != 3);
        append(&mut written, batch, CLIENT);
    }
    for (id, aborted) in [(2, true), (1, true)] {
        let marker = written.marker(id, 0, aborted, 1);
        append(&mut written, marker, AppendOrigin::Coordinator);
    }

    let mut replayed = Partition::new();
    let replayed_index: Vec<AbortedTxn> = log.iter().filter_map(|batch| replayed.manager.replay(batch)).collect();
    assert_eq!(replayed_index, index);
    assert_eq!(replayed_index, [aborted(2, 3, 15, 0), aborted(1, 0, 16, 17)]);
    assert_eq!(replayed.manager.active_producers(), written.manager.active_producers());
    assert_eq!(replayed.manager.map_end_offset(), written.manager.map_end_offset());
    assert_eq!(replayed.manager.first_unstable_offset(), written.manager.first_unstable_offset());
}

#[test]
fn nonsense_in_the_log_does_not_stop_a_replay() {
    let mut partition = Partition::new();
    let open = partition.data(1, 0, 0, 1, true);
    assert_eq!(partition.manager.replay(&open), None);
    let plain = ProducerBatch { base_offset: Offset(1), ..partition.data(1, 0, 1, 1, false) };
    assert_eq!(partition.manager.replay(&plain), None);
    let end = ProducerBatch { base_offset: Offset(i64::MAX), ..partition.marker(1, -5, true, i32::MIN) };
    assert!(partition.manager.replay(&end).is_some());
    let twisted =
        ProducerBatch { last_offset_delta: i32::MIN, base_sequence: i32::MAX, ..partition.data(4, 0, 0, 1, false) };
    assert_eq!(partition.manager.replay(&twisted), None);
}

#[test]
fn snapshots_of_kafka_are_read_and_written_to_the_byte() {
    let files = golden::files(|name| name.ends_with(".snapshot"));
    assert!(files.len() > 40, "{} snapshots", files.len());
    let mut producers = 0;
    for (path, bytes) in files {
        let entries = snapshot::decode(&bytes).unwrap_or_else(|error| panic!("{path}: {error}"));
        producers += entries.len();
        assert_eq!(snapshot::encode(entries.iter()), bytes, "{path}");
    }
    assert!(producers > 100, "{producers} producers");
}

#[test]
fn a_snapshot_of_kafka_means_what_kafka_says() {
    let bytes = golden::file("transactions/txn-0/00000000000000000082.snapshot");
    let entries = snapshot::decode(&bytes).unwrap();
    assert_eq!(entries.len(), 7);
    let open = &entries[1];
    assert_eq!((open.producer_id.0, open.producer_epoch.0, open.coordinator_epoch), (1, 4, 0));
    assert_eq!(open.current_txn_first_offset, Some(Offset(77)));
    let batch =
        BatchMetadata { last_sequence: 4, last_offset: Offset(81), offset_delta: 4, timestamp: 1_795_935_704_400 };
    assert_eq!(open.batches(), [batch]);
    // A producer whose last batch was a marker.
    assert!(entries[2].is_empty());
    assert_eq!(entries[2].last_timestamp, 1_795_960_506_539);
    assert_eq!(entries[2].current_txn_first_offset, None);
}

#[test]
fn damaged_snapshots_are_told_apart() {
    let bytes = golden::file("transactions/txn-0/00000000000000000082.snapshot");
    assert_eq!(snapshot::decode(&bytes[..9]), Err(CorruptSnapshot::TooShort(9)));
    assert!(matches!(snapshot::decode(&bytes[..bytes.len() - 1]), Err(CorruptSnapshot::WrongSize { count: 7, .. })));
    let mut flipped = bytes.clone();
    flipped[30] ^= 1;
    assert!(matches!(snapshot::decode(&flipped), Err(CorruptSnapshot::WrongChecksum { .. })));
    let mut other_version = bytes.clone();
    other_version[1] = 2;
    assert_eq!(snapshot::decode(&other_version), Err(CorruptSnapshot::UnknownVersion(2)));
    // A count that would need gigabytes.
    let mut huge = bytes.clone();
    huge[6..10].copy_from_slice(&i32::MAX.to_be_bytes());
    assert!(matches!(snapshot::decode(&huge), Err(CorruptSnapshot::WrongSize { .. })));
}

/// All of such a file was read before anything in it was looked at: up to 1 GiB for each of 2000 partitions.
#[test]
fn of_a_damaged_snapshot_little_is_read() {
    let bytes = golden::file("transactions/txn-0/00000000000000000082.snapshot");
    let read = |bytes: &[u8], len: usize| {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("snapshot");
        std::fs::write(&path, bytes).unwrap();
        let file = std::fs::File::options().write(true).open(&path).unwrap();
        file.set_len(len as u64).unwrap();
        snapshot::read(&*RealDisk::new().open(&path, OpenMode::Read).unwrap()).unwrap()
    };
    assert_eq!(read(&bytes, bytes.len()), snapshot::decode(&bytes));
    for len in [0, 9, 10, bytes.len() - 1, bytes.len() + 1, 200_000] {
        let mut same = bytes.clone();
        same.resize(len, 0);
        assert_eq!(read(&same, len), snapshot::decode(&same), "{len}");
    }
    // What is behind the entries counts, but is not looked at: longer than what is read at once, and as a file.
    let mut with_more = bytes.clone();
    with_more.resize(200_000, 7);
    let crc = crc32c::crc32c(&with_more[6..]);
    with_more[2..6].copy_from_slice(&crc.to_be_bytes());
    assert_eq!(read(&with_more, with_more.len()), snapshot::decode(&bytes));
    assert_eq!(read(&bytes, (1 << 30) + 1), Err(CorruptSnapshot::TooLong));
    let started = std::time::Instant::now();
    let mut other_version = bytes.clone();
    other_version[1] = 2;
    assert_eq!(read(&other_version, 1 << 30), Err(CorruptSnapshot::UnknownVersion(2)));
    assert!(started.elapsed() < std::time::Duration::from_millis(100), "{:?}", started.elapsed());
}

/// Reads whole partitions that Kafka wrote and compares with the snapshots and transaction indexes beside them.
#[test]
fn replaying_logs_of_kafka_gives_its_snapshots_and_indexes() {
    for (directory, segments) in [
        ("transactions/txn-0", &[0, 82, 167][..]),
        ("transactions/txn-1", &[0]),
        ("transactions/__consumer_offsets-2", &[0]),
    ] {
        let mut partition = Partition::new();
        let mut snapshots = 0;
        for base_offset in segments {
            let file = |extension: &str| golden::file(&format!("{directory}/{base_offset:020}.{extension}"));
            let mut index = Vec::new();
            for batch in batches(&file("log")).map(Result::unwrap) {
                let snapshot = golden::root().join(directory).join(format!("{:020}.snapshot", batch.base_offset().0));
                if snapshot.exists() {
                    snapshots += 1;
                    let state = snapshot::encode(partition.manager.active_producers().into_iter());
                    assert_eq!(state, std::fs::read(&snapshot).unwrap(), "{}", snapshot.display());
                }
                let Some(batch) = producer_batch(&batch) else {
                    partition.manager.update_map_end_offset(batch.last_offset().plus(1));
                    continue;
                };
                index.extend(partition.manager.replay(&batch));
            }
            let index: Vec<u8> = index.iter().flat_map(AbortedTxn::encode).collect();
            assert_eq!(index, file("txnindex"), "{directory} {base_offset}");
        }
        // The one of the clean shutdown.
        let end = partition.manager.map_end_offset();
        let state = snapshot::encode(partition.manager.active_producers().into_iter());
        assert_eq!(state, golden::file(&format!("{directory}/{:020}.snapshot", end.0)), "{directory}");
        assert_eq!(snapshots, segments.len() - 1, "{directory}");
    }
}

fn producer_batch(batch: &RecordBatch<'_>) -> Option<ProducerBatch> {
    if !batch.has_producer_id() {
        return None;
    }
    let marker = || {
        let record = batch.uncompressed_records()?.next()?.unwrap();
        let Ok(ControlRecord::EndTxn(marker)) = ControlRecord::parse(record.key?, record.value?) else { panic!() };
        let (aborted, coordinator_epoch) = (!marker.committed, marker.coordinator_epoch);
        Some(EndTransactionMarker { aborted, coordinator_epoch, timestamp: record.timestamp })
    };
    Some(ProducerBatch {
        producer_id: batch.producer_id(),
        producer_epoch: batch.producer_epoch(),
        base_sequence: batch.base_sequence(),
        base_offset: batch.base_offset(),
        last_offset_delta: batch.last_offset_delta(),
        max_timestamp: batch.max_timestamp(),
        kind: match batch.is_control() {
            true => BatchKind::EndTransaction(marker()),
            false => BatchKind::Data { transactional: batch.is_transactional() },
        },
    })
}

fn any_entry() -> impl Strategy<Value = ProducerStateEntry> {
    let batch = proptest::option::of((any::<i32>(), 0..i64::MAX, any::<i32>()));
    let txn = proptest::option::of(0..i64::MAX);
    (any::<i64>(), any::<i16>(), any::<i32>(), any::<i64>(), txn, batch).prop_map(
        |(id, epoch, coordinator_epoch, timestamp, txn, batch)| {
            let mut entry = ProducerStateEntry::empty(ProducerId(id));
            entry.producer_epoch = ProducerEpoch(epoch);
            entry.coordinator_epoch = coordinator_epoch;
            entry.last_timestamp = timestamp;
            entry.current_txn_first_offset = txn.map(Offset);
            if let Some((last_sequence, last_offset, offset_delta)) = batch {
                entry.remember(BatchMetadata {
                    last_sequence,
                    last_offset: Offset(last_offset),
                    offset_delta,
                    timestamp,
                });
            }
            entry
        },
    )
}

proptest! {
    #[test]
    fn snapshots_round_trip(entries in proptest::collection::vec(any_entry(), 0..20)) {
        prop_assert_eq!(snapshot::decode(&snapshot::encode(entries.iter())), Ok(entries));
    }

    #[test]
    fn any_bytes_are_a_snapshot_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = snapshot::decode(&bytes);
    }

    /// Whatever a client sends, the sequences of each producer that reach the log are without gaps or repetitions.
    #[test]
    fn no_client_gets_a_gap_into_the_log(steps in proptest::collection::vec((0..3i64, 0..12i32, 1..4i32), 1..60)) {
        let mut partition = Partition::new();
        let mut next = [None::<i32>; 3];
        for (id, sequence, count) in steps {
            if let Ok(Outcome::Appended(_)) = partition.produce(id, 0, sequence, count) {
                let expected = &mut next[id as usize];
                prop_assert!(expected.is_none_or(|expected| expected == sequence));
                *expected = Some(sequence + count);
            }
        }
    }
}

/// A log had lost the beginning of a transaction, or all of it, when its copy took its place, which had the records: they were read as
/// committed. What the log alone knows is kept: its records may be deleted.
#[test]
fn what_is_open_in_a_copy_stays_open_when_it_takes_its_log_s_place() {
    for begins_later in [false, true] {
        let (mut log, mut copy) = (Partition::new(), Partition::new());
        log.produce_in_txn(3, 0, 0, 2).unwrap();
        log.produce_in_txn(2, 0, 0, 1).unwrap();
        (log.end, copy.end) = (8, 5);
        copy.produce_in_txn(2, 0, 0, 1).unwrap();
        copy.produce_in_txn(1, 0, 0, 2).unwrap();
        if begins_later {
            for partition in [&mut log, &mut copy] {
                partition.try_append(partition.data(1, 0, 2, 1, true), FOLLOWER, V0, None).unwrap();
            }
        }
        copy.manager.take_over(&log.manager);
        let open = |id| copy.manager.entry(ProducerId(id)).unwrap().current_txn_first_offset;
        assert_eq!([1, 2, 3].map(open), [Some(Offset(6)), Some(Offset(2)), Some(Offset(0))]);
        assert_eq!(copy.manager.entry(ProducerId(1)).unwrap().last_sequence(), if begins_later { 2 } else { 1 });
        let mut ids: Vec<i64> = copy.manager.ongoing.values().map(|id| id.0).collect();
        ids.sort_unstable();
        assert_eq!(ids, [1, 2, 3]);
    }
}
