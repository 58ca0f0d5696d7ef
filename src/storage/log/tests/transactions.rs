//! Idempotent and transactional producers, as far as the log is concerned.

use super::*;
use crate::storage::disk::RealDisk;
use crate::storage::verify::{VerifyParams, verify};

pub(super) fn produced(
    producer: i64,
    epoch: i16,
    sequence: i32,
    count: usize,
    transactional: bool,
) -> ValidatedRecords {
    let mut builder = RecordBatchBuilder::new(Offset(0))
        .producer(ProducerId(producer), ProducerEpoch(epoch), sequence)
        .transactional(transactional);
    for n in 0..count {
        builder.append(NOW_MS + n as i64, None, Some(b"value"), &[]);
    }
    let (header, body) = builder.build_parts();
    validated(header, body)
}

pub(super) fn marker(producer: i64, epoch: i16, committed: bool) -> ValidatedRecords {
    let mut builder = RecordBatchBuilder::new(Offset(0))
        .producer(ProducerId(producer), ProducerEpoch(epoch), -1)
        .transactional(true)
        .control(true);
    builder.append_control(NOW_MS, &ControlRecord::EndTxn(EndTxnMarker { committed, coordinator_epoch: 0 }));
    let (header, body) = builder.build_parts();
    validated(header, body)
}

fn end_transaction(log: &Log, producer: i64, committed: bool) {
    let origin = AppendOrigin::Coordinator;
    log.append_as_leader(marker(producer, 0, committed), LeaderEpoch(3), origin, Default::default()).unwrap();
}

#[test]
fn repeated_batches_are_answered_and_not_written() {
    let fixture = Fixture::new();
    let log = fixture.open();
    append(&log, batch(2, 1, 0));
    let first = append(&log, produced(7, 0, 0, 3, false));
    append(&log, produced(7, 0, 3, 2, false));
    for log in [log.clone(), fixture.reopen(log, false).0] {
        let size = log.size();
        let again = append(&log, produced(7, 0, 3, 2, false));
        assert!(again.duplicate);
        assert_eq!((again.first_offset, again.last_offset), (Offset(5), Offset(6)));
        assert_eq!((log.size(), log.log_end_offset()), (size, Offset(7)));
        let gap =
            log.append_as_leader(produced(7, 0, 9, 1, false), LeaderEpoch(3), AppendOrigin::Client, Default::default());
        assert!(matches!(gap, Err(AppendError::Producer(ProducerStateError::OutOfOrderSequence { .. }))), "{gap:?}");
        assert!(!log.is_offline());
    }
    assert_eq!(first.first_offset, Offset(2));
}

/// Kafka Streams deletes what it has read of its own topics after each commit: all that is left of a producer then is a marker, or
/// less. After a crash its next records were refused as out of order, and an open transaction was known from its marker on.
#[test]
fn deleted_records_do_not_make_their_producer_unknown() {
    let cases =
        [4, 5, 6].map(|start| [false, true].map(|rolls| [false, true].map(|in_order| (start, rolls, in_order))));
    for (start, rolls, in_order) in cases.into_iter().flatten().flatten() {
        let fixture = Fixture::new();
        let log = fixture.open();
        append(&log, produced(7, 0, 0, 4, true)); // 0..3
        if rolls {
            log.roll().unwrap();
        }
        append(&log, produced(8, 0, 0, 2, true)); // 4, 5
        log.on_high_watermark(Offset(6));
        log.advance_log_start_offset(Offset(start)).unwrap();
        log.delete_old_segments(NOW_MS, Offset(6)).unwrap();
        end_transaction(&log, 7, true); // 6
        let (log, report) = fixture.reopen(log, in_order);
        assert_eq!((report.repairs, log.log_start_offset()), (vec![], Offset(start)));
        assert_eq!(append(&log, produced(7, 0, 4, 1, true)).first_offset, Offset(7));
        end_transaction(&log, 8, false); // 8
        assert!(append(&log, produced(8, 0, 0, 2, true)).duplicate);
        assert_eq!(append(&log, produced(8, 0, 2, 1, false)).first_offset, Offset(9));
        let aborted = log.aborted_transactions(Offset(start), Offset(10), Wait::ForDisk).unwrap();
        assert_eq!(aborted, [AbortedTransaction { producer_id: ProducerId(8), first_offset: Offset(4) }]);

        log.close().unwrap();
        let dir = fixture.dir.path().join("t-0");
        let params = VerifyParams { dir, log_start_offset: Offset(start), was_closed: true, is_set_aside: false };
        assert_eq!(verify(&RealDisk::new(), &params, &mut ()).unwrap().findings, []);
    }
}

#[test]
fn open_and_aborted_transactions_are_known() {
    let fixture = Fixture::with(TopicConfig { segment_bytes: 600, ..Default::default() });
    let log = fixture.open();
    append(&log, produced(1, 0, 0, 2, true)); // 0..1
    append(&log, produced(2, 0, 0, 2, true)); // 2..3
    assert_eq!(log.first_unstable_offset(), Some(Offset(0)));
    end_transaction(&log, 1, false); // 4
    // Not stable before the marker is replicated.
    assert_eq!(log.first_unstable_offset(), Some(Offset(0)));
    log.on_high_watermark(Offset(4));
    assert_eq!(log.first_unstable_offset(), Some(Offset(0)));
    log.on_high_watermark(Offset(5));
    assert_eq!(log.first_unstable_offset(), Some(Offset(2)));
    append(&log, batch(5, 20, NOW_MS)); // 5..9
    append(&log, batch(5, 20, NOW_MS)); // 10..14
    end_transaction(&log, 2, false); // 15
    append(&log, produced(1, 0, 2, 1, true)); // 16
    assert!(log.segments().len() > 1);

    let check = |log: &Log| {
        log.on_high_watermark(log.log_end_offset());
        assert_eq!(log.first_unstable_offset(), Some(Offset(16)));
        let aborted = |from, to| {
            let aborted = log.aborted_transactions(Offset(from), Offset(to), Wait::ForDisk).unwrap();
            aborted.iter().map(|txn| (txn.producer_id.0, txn.first_offset.0)).collect::<Vec<_>>()
        };
        assert_eq!(aborted(0, 16), [(1, 0), (2, 2)]);
        assert_eq!(aborted(5, 16), [(2, 2)]);
        assert_eq!(aborted(0, 2), [(1, 0)]);
        assert_eq!(aborted(16, 17), []);
    };
    check(&log);
    for in_order in [true, false, true] {
        let (log, report) = fixture.reopen(fixture.open(), in_order);
        assert_eq!(report.repairs, []);
        check(&log);
    }
    // The marker is cut off: the transaction is open again.
    let log = fixture.reopen(log, false).0;
    log.truncate_to(Offset(15)).unwrap();
    assert_eq!(log.first_unstable_offset(), Some(Offset(2)));
    assert_eq!(log.aborted_transactions(Offset(0), Offset(15), Wait::ForDisk).unwrap().len(), 1);
    end_transaction(&log, 2, true);
    log.on_high_watermark(Offset(16));
    assert_eq!(log.first_unstable_offset(), None);
}

#[test]
fn deleting_the_records_of_an_open_transaction_frees_its_head() {
    let fixture = Fixture::new();
    let log = fixture.open();
    append(&log, produced(1, 0, 0, 2, true));
    append(&log, batch(5, 1, NOW_MS));
    log.advance_log_start_offset(Offset(4)).unwrap();
    assert_eq!(log.first_unstable_offset(), Some(Offset(4)));
}

#[test]
fn snapshots_are_written_with_each_segment_and_go_with_it() {
    let fixture = Fixture::with(TopicConfig { segment_bytes: 400, retention_ms: -1, ..Default::default() });
    let context = fixture.context();
    let (log, _) = Log::open(&context, fixture.params()).unwrap();
    for n in 0..4 {
        append(&log, produced(1, 0, n * 20, 20, false));
    }
    let snapshots = || fixture.file_names().into_iter().filter(|name| name.contains(".snapshot")).collect::<Vec<_>>();
    let name = |offset: i64| format!("{offset:020}.snapshot");
    assert_eq!(snapshots(), [name(20), name(40), name(60)]);
    log.advance_log_start_offset(Offset(45)).unwrap();
    log.delete_old_segments(NOW_MS, Offset(80)).unwrap();
    assert_eq!(snapshots(), [name(20) + ".deleted", name(40), name(60)]);
    context.background.run_pending(Duration::from_secs(60));
    assert_eq!(snapshots(), [name(40), name(60)]);
    log.close().unwrap();
    assert_eq!(snapshots(), [name(40), name(60), name(80)]);
}

/// A reader that is far behind was told, with each read, of every transaction that was aborted up to the last stable
/// offset, and the thread that may not wait read them from the disk.
#[test]
fn a_reader_is_told_of_the_aborted_transactions_in_what_it_reads() {
    let fixture = Fixture::with(TopicConfig { index_interval_bytes: 300, segment_bytes: 6000, ..Default::default() });
    let log = fixture.open();
    for producer in 0..50 {
        append(&log, produced(producer, 0, 0, 1, true));
        end_transaction(&log, producer, false);
    }
    let end = log.log_end_offset();
    assert!(log.segments().len() > 1);
    let told = |log: &Log, start: i64, max_bytes: usize, wait: Wait| {
        let read = log.read(Offset(start), max_bytes, end, true, Wait::ForDisk).unwrap();
        let aborted = log.aborted_transactions_in(&read, Offset(start), wait)?;
        Ok::<_, ReadError>(aborted.iter().map(|txn| txn.first_offset.0).collect::<Vec<_>>())
    };
    let check = |log: &Log| {
        for start in (0..end.0).step_by(2) {
            let of_one_batch = told(log, start, 1, Wait::ForDisk).unwrap();
            assert_eq!(of_one_batch[0], start);
            assert!(of_one_batch.len() <= 6, "{start}: {of_one_batch:?}");
        }
        // Up to the end of the segment.
        let rest = told(log, 60, 1 << 20, Wait::ForDisk).unwrap();
        assert!(rest.len() >= 8 && rest.iter().zip(30..).all(|(first, n)| *first == 2 * n), "{rest:?}");
    };
    check(&log);
    fixture.faults.is_cold.store(true, Ordering::Relaxed);
    assert!(matches!(told(&log, 0, 1, Wait::Never), Err(ReadError::WouldBlock)));
    fixture.faults.is_cold.store(false, Ordering::Relaxed);
    assert_eq!(told(&log, 0, 1, Wait::Never).unwrap()[0], 0);

    // An index that names offsets that are too low would hide aborted transactions, if it were believed.
    let (log, _) = fixture.reopen(log, true);
    check(&log);
    log.close().unwrap();
    drop(log);
    let path = fixture.params().dir.join("00000000000000000000.index");
    let lie = std::fs::read(&path)
        .unwrap()
        .chunks(8)
        .enumerate()
        .flat_map(|(n, entry)| [&[0, 0, 0, n as u8], &entry[4..]].concat())
        .collect::<Vec<u8>>();
    std::fs::write(&path, lie).unwrap();
    let (log, _) = Log::open(&fixture.context(), LogParams { clean_shutdown: true, ..fixture.params() }).unwrap();
    let read = log.read(Offset(0), 3000, end, true, Wait::ForDisk).unwrap();
    let last = batches(&bytes_of(&read.slice)).filter_map(Result::ok).last().unwrap().last_offset().0;
    let told = told(&log, 0, 3000, Wait::ForDisk).unwrap();
    assert!(last > 10 && told.iter().copied().eq((0..told.len() as i64).map(|n| 2 * n)));
    assert!(told.last().unwrap() + 2 >= last, "{last}: {told:?}");
}
