//! Flushes, failing disks, closing, deletion, recovery.

use super::*;

#[test]
fn flushes_are_shared() {
    let fixture = Fixture::with(TopicConfig { flush_messages: 2, ..Default::default() });
    let context = fixture.context();
    let (log, _) = Log::open(&context, fixture.params()).unwrap();
    assert_eq!(append(&log, batch(1, 1, 0)).flush_due, None);
    assert!(append(&log, batch(1, 1, 0)).flush_due.is_some());
    assert!(log.is_flush_due(NOW_MS));

    let served = Arc::new(AtomicUsize::new(0));
    let wait = |offset| {
        let served = served.clone();
        log.flush_then(log.flush_point(Offset(offset)), move |result| {
            result.unwrap();
            served.fetch_add(1, Ordering::Relaxed);
        });
    };
    (0..5).for_each(|_| wait(2));
    let syncs = fixture.faults.syncs.load(Ordering::Relaxed);
    assert_eq!(served.load(Ordering::Relaxed), 0);
    context.background.run_pending(Duration::ZERO);
    assert_eq!(served.load(Ordering::Relaxed), 5);
    assert_eq!(fixture.faults.syncs.load(Ordering::Relaxed), syncs + 1);
    assert_eq!(log.recovery_point(), Offset(2));
    // Durable already.
    wait(1);
    assert_eq!(served.load(Ordering::Relaxed), 6);
    assert_eq!(append(&log, batch(1, 1, 0)).flush_due, None);
}

#[test]
fn who_waits_for_truncated_records_learns_of_it() {
    let fixture = Fixture::new();
    let context = fixture.context();
    let (log, _) = Log::open(&context, fixture.params()).unwrap();
    append(&log, batch(1, 1, 0));
    append(&log, batch(1, 1, 0));
    let results: Arc<Mutex<Vec<Result<(), FlushError>>>> = Arc::default();
    for offset in [1, 2] {
        let results = results.clone();
        log.flush_then(log.flush_point(Offset(offset)), move |result| results.lock().push(result));
    }
    log.truncate_to(Offset(1)).unwrap();
    assert!(matches!(results.lock()[..], [Err(FlushError::Truncated)]));
    context.background.run_pending(Duration::ZERO);
    assert!(matches!(results.lock()[..], [Err(FlushError::Truncated), Ok(())]));
}

/// The append and the wait for it are two calls. A log that was truncated in between was flushed again and again, without end, as
/// it never came so far; and where others had appended as much meanwhile, it was said that the records are durable.
#[test]
fn who_comes_to_wait_for_records_that_were_truncated_meanwhile_learns_of_it() {
    for (appended_since, has_flushed) in [(0, false), (0, true), (5, false), (5, true)] {
        let fixture = Fixture::with(TopicConfig { flush_messages: 1, ..Default::default() });
        let context = fixture.context();
        let (log, _) = Log::open(&context, fixture.params()).unwrap();
        append(&log, batch(1, 1, 0));
        let point = append(&log, batch(3, 1, 0)).flush_due.unwrap();
        log.truncate_to(Offset(1)).unwrap();
        for _ in 0..appended_since {
            append(&log, batch(1, 1, 0));
        }
        if has_flushed {
            log.flush(log.log_end_offset()).unwrap();
        }
        let syncs = fixture.faults.syncs.load(Ordering::Relaxed);
        let results: Arc<Mutex<Vec<Result<(), FlushError>>>> = Arc::default();
        let heard = results.clone();
        log.flush_then(point, move |result| heard.lock().push(result));
        context.background.run_pending(Duration::ZERO);
        assert!(matches!(results.lock()[..], [Err(FlushError::Truncated)]), "{:?}", results.lock());
        assert_eq!(fixture.faults.syncs.load(Ordering::Relaxed), syncs);
    }
}

/// Where a log began anew further on, those who waited for its old records were told that they are durable.
#[test]
fn who_waits_for_records_of_a_log_that_begins_anew_learns_of_it() {
    for at in [0, 1, 2, 100] {
        let fixture = Fixture::new();
        let context = fixture.context();
        let (log, _) = Log::open(&context, fixture.params()).unwrap();
        append(&log, batch(2, 1, 0));
        let results: Arc<Mutex<Vec<Result<(), FlushError>>>> = Arc::default();
        let heard = results.clone();
        log.flush_then(log.flush_point(Offset(2)), move |result| heard.lock().push(result));
        log.truncate_fully_and_start_at(Offset(at)).unwrap();
        context.background.run_pending(Duration::ZERO);
        assert!(matches!(results.lock()[..], [Err(FlushError::Truncated)]), "{at}: {:?}", results.lock());
    }
}

/// After a panic in a flush nobody who waits for one of this log heard of it any more.
#[test]
fn a_flush_that_panics_fails_the_log_and_tells_who_waits() {
    let fixture = Fixture::new();
    let context = fixture.context();
    let (log, _) = Log::open(&context, fixture.params()).unwrap();
    append(&log, batch(2, 1, 0));
    let results: Arc<Mutex<Vec<Result<(), FlushError>>>> = Arc::default();
    let wait = |offset| {
        let heard = results.clone();
        log.flush_then(log.flush_point(Offset(offset)), move |result| heard.lock().push(result));
    };
    [1, 2].into_iter().for_each(wait);
    fixture.faults.syncs_panic.store(true, Ordering::Relaxed);
    let flushed =
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| context.background.run_pending(Duration::ZERO)));
    assert!(flushed.is_err());
    assert!(matches!(results.lock()[..], [Err(FlushError::Failed(_)), Err(FlushError::Failed(_))]));
    assert!(log.is_failed());
    fixture.faults.syncs_panic.store(false, Ordering::Relaxed);
    wait(2);
    context.background.run_pending(Duration::ZERO);
    assert!(matches!(results.lock()[2..], [Err(FlushError::Failed(_))]));
}

/// One of those that waited for a flush kept the others from hearing of it.
#[test]
fn who_panics_on_hearing_of_a_flush_keeps_nobody_from_it() {
    let fixture = Fixture::new();
    let context = fixture.context();
    let (log, _) = Log::open(&context, fixture.params()).unwrap();
    append(&log, batch(1, 1, 0));
    let served = Arc::new(AtomicUsize::new(0));
    for panics in [false, true, false] {
        let served = served.clone();
        log.flush_then(log.flush_point(Offset(1)), move |_| {
            assert!(!panics, "on purpose");
            served.fetch_add(1, Ordering::Relaxed);
        });
    }
    context.background.run_pending(Duration::ZERO);
    assert_eq!(served.load(Ordering::Relaxed), 2);
    assert!(!log.is_offline());
}

#[test]
fn closing_serves_who_waits_for_a_flush() {
    let fixture = Fixture::new();
    let context = fixture.context();
    let (log, _) = Log::open(&context, fixture.params()).unwrap();
    append(&log, batch(1, 1, 0));
    let served = Arc::new(AtomicUsize::new(0));
    let seen = served.clone();
    log.flush_then(log.flush_point(Offset(1)), move |result| {
        result.unwrap();
        seen.fetch_add(1, Ordering::Relaxed);
    });
    log.close().unwrap();
    context.background.run_pending(Duration::ZERO);
    assert_eq!(served.load(Ordering::Relaxed), 1);
}

#[test]
fn a_failed_flush_is_final() {
    let fixture = Fixture::new();
    let context = fixture.context();
    let failures = Arc::new(AtomicUsize::new(0));
    let counted = failures.clone();
    let on_failure: OnFailure = Arc::new(move |_: DiskTrouble<'_>| {
        counted.fetch_add(1, Ordering::Relaxed);
    });
    let (log, _) = Log::open(&context, LogParams { on_failure: Some(on_failure), ..fixture.params() }).unwrap();
    append(&log, batch(1, 1, 0));
    fixture.faults.syncs_fail.store(true, Ordering::Relaxed);
    let failed: Arc<AtomicUsize> = Arc::default();
    let seen = failed.clone();
    log.flush_then(log.flush_point(Offset(1)), move |result| {
        assert!(matches!(result, Err(FlushError::Failed(_))));
        seen.fetch_add(1, Ordering::Relaxed);
    });
    context.background.run_pending(Duration::ZERO);
    assert_eq!(failed.load(Ordering::Relaxed), 1);

    // Even though the disk seems to work again.
    fixture.faults.syncs_fail.store(false, Ordering::Relaxed);
    assert!(log.is_offline());
    assert!(log.flush(Offset(1)).is_err());
    let refused = log.append_as_leader(batch(1, 1, 0), LeaderEpoch(3), AppendOrigin::Client, Default::default());
    assert!(matches!(refused, Err(AppendError::Offline)));
    assert!(matches!(log.truncate_to(Offset(0)), Err(ChangeError::Offline)));
    assert!(log.close().is_err());
    assert_eq!(log.recovery_point(), Offset(0));
    assert_eq!(failures.load(Ordering::Relaxed), 1);
}

#[test]
fn a_full_disk_refuses_records_and_leaves_no_half_batch() {
    let fixture = Fixture::new();
    let log = fixture.open();
    append(&log, batch(1, 100, 0));
    let size = log.size();
    fixture.faults.room.store(50, Ordering::Relaxed);
    let full = log.append_as_leader(batch(1, 100, 0), LeaderEpoch(3), AppendOrigin::Client, Default::default());
    assert!(matches!(full, Err(AppendError::NoRoom(error)) if error.kind() == io::ErrorKind::StorageFull));
    assert!(!log.is_offline());
    assert_eq!(log.log_end_offset(), Offset(1));
    assert_eq!(read(&log, 0, 1000, 1), [(0, 0)]);
    assert_eq!(std::fs::metadata(log.dir().join("00000000000000000000.log")).unwrap().len(), size);
    fixture.faults.room.store(-1, Ordering::Relaxed);
    let (log, report) = fixture.reopen(log, false);
    assert_eq!((log.log_end_offset(), report.repairs), (Offset(1), vec![]));
    append(&log, batch(1, 100, 0));
}

/// The disk is full after each possible number of bytes, in the midst of batches, indexes, snapshots, epochs and transaction
/// indexes, and has room again: what was refused is taken then, and the log is the one of a disk that was never full, after
/// a crash, too.
#[test]
fn a_disk_that_was_full_at_any_byte_leaves_no_trace() {
    let config = TopicConfig { segment_bytes: 700, index_interval_bytes: 0, ..TopicConfig::default() };
    let steps = || {
        let mut steps: Vec<ValidatedRecords> = Vec::new();
        for round in 0..6 {
            steps.push(batch(2, 60, NOW_MS + round));
            for producer in [1, 2] {
                steps.push(transactions::produced(producer, 0, round as i32, 1, true));
            }
            steps.push(transactions::marker(1, 0, round % 2 == 0));
            steps.push(transactions::marker(2, 0, false));
        }
        steps
    };
    let kept = |log: &Log| {
        log.on_high_watermark(log.log_end_offset());
        let (mut records, mut aborted) = (BytesMut::new(), Vec::new());
        let mut next = Offset(0);
        while next < log.log_end_offset() {
            let read = log.read(next, 1 << 20, log.log_end_offset(), true, Wait::ForDisk).unwrap();
            aborted.extend(log.aborted_transactions_in(&read, next, Wait::ForDisk).unwrap());
            let part = bytes_of(&read.slice);
            next = batches(&part).last().unwrap().unwrap().last_offset().plus(1);
            records.extend_from_slice(&part);
        }
        let producers: Vec<_> =
            log.with_producers(|producers| producers.active_producers().into_iter().cloned().collect());
        (records, aborted, producers, log.first_unstable_offset(), log.latest_epoch())
    };
    let write = |fixture: &Fixture, log: &Log, room: Option<i64>| {
        let mut refusals = 0;
        fixture.faults.room.store(room.unwrap_or(-1), Ordering::Relaxed);
        log.assign_epoch(LeaderEpoch(3), Offset(0)).unwrap();
        for records in steps() {
            let origin = match records.batches[0].header.is_control() {
                true => AppendOrigin::Coordinator,
                false => AppendOrigin::Client,
            };
            loop {
                match log.append_as_leader(records.clone(), LeaderEpoch(3), origin, Default::default()) {
                    Ok(_) => break,
                    Err(AppendError::NoRoom(_)) => {
                        refusals += 1;
                        assert!(!log.is_offline());
                        // What is refused once is refused as long as there is no room.
                        if refusals > 1 {
                            fixture.faults.room.store(-1, Ordering::Relaxed);
                        }
                    }
                    Err(error) => panic!("{room:?}: {error}"),
                }
            }
        }
        fixture.faults.room.store(-1, Ordering::Relaxed);
        refusals
    };
    let expected = {
        let fixture = Fixture::with(config.clone());
        let log = fixture.open();
        write(&fixture, &log, None);
        kept(&log)
    };
    assert!(expected.1.len() > 3);
    let mut room = 0;
    loop {
        let fixture = Fixture::with(config.clone());
        let log = fixture.open();
        let refusals = write(&fixture, &log, Some(room));
        assert!(kept(&log) == expected, "room for {room}");
        let (log, report) = fixture.reopen(log, false);
        assert_eq!(report.repairs, [], "room for {room}");
        assert!(kept(&log) == expected, "room for {room}, after a crash");
        if refusals == 0 {
            break;
        }
        room += 13;
    }
    assert!(room > 3000, "{room}");
}

/// The age of the active segment is in its first batch. That batch was damaged, and the next append took this for a failing
/// disk: the directory went offline, and with the only one the broker, again after each start.
#[test]
fn damage_in_the_active_segment_keeps_nothing_from_being_appended() {
    // A start in good order looks only at what is behind the last entry of the index.
    let fixture = Fixture::with(TopicConfig { index_interval_bytes: 0, ..Default::default() });
    let log = fixture.open();
    for _ in 0..4 {
        append(&log, batch(1, 100, 0));
    }
    log.close().unwrap();
    let path = log.dir().join("00000000000000000000.log");
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[8] ^= 0xff;
    std::fs::write(&path, bytes).unwrap();

    let params = LogParams { recovery_point: Offset(4), ..fixture.params() };
    let (log, _) = Log::open(&fixture.context(), params).unwrap();
    let result = log.active_segment().first_frame(Wait::ForDisk);
    assert!(matches!(result, Err(ReadError::Corrupt { .. })), "{result:?}");
    append(&log, batch(1, 100, 0));
    assert!(!log.is_offline());
    assert_eq!(log.log_end_offset(), Offset(5));
}

#[test]
fn a_read_error_is_no_damage() {
    let fixture = Fixture::with(TopicConfig { index_interval_bytes: 100, ..Default::default() });
    let log = fixture.open();
    for _ in 0..100 {
        append(&log, batch(1, 100, 0));
    }
    fixture.faults.reads_fail.store(true, Ordering::Relaxed);
    let result = log.read(Offset(5), 1, Offset(100), true, Wait::ForDisk);
    assert!(matches!(result, Err(ReadError::Io(_))), "{result:?}");
    log.close().unwrap();
    // A disk that cannot be read does not make the log shorter.
    let opened = Log::open(&fixture.context(), LogParams { clean_shutdown: false, ..fixture.params() });
    assert!(opened.is_err());
    fixture.faults.reads_fail.store(false, Ordering::Relaxed);
    let (log, report) = Log::open(&fixture.context(), LogParams { clean_shutdown: false, ..fixture.params() }).unwrap();
    assert_eq!((log.log_end_offset(), report.repairs), (Offset(100), vec![]));
}

#[test]
fn recovery_reads_from_the_recovery_point_only() {
    let fixture =
        Fixture::with(TopicConfig { segment_bytes: 100_000, index_interval_bytes: 1000, ..Default::default() });
    let context = fixture.context();
    let (log, _) = Log::open(&context, fixture.params()).unwrap();
    for n in 0..250 {
        append(&log, batch(1, 1000, n));
    }
    log.flush(Offset(250)).unwrap();
    context.background.run_pending(Duration::ZERO);
    let size = log.size();
    for n in 250..260 {
        append(&log, batch(1, 1000, n));
    }
    let steps: Arc<Mutex<Vec<crate::storage::recovery::RecoveryStep>>> = Arc::default();
    let told = steps.clone();
    // The indexes' entries for it were not all written out: that is made up for.
    let params = LogParams {
        recovery_point: log.recovery_point(),
        clean_shutdown: false,
        progress: Some(Arc::new(move |step: &_| told.lock().push(step.clone()))),
        ..fixture.params()
    };
    let tail = log.segments().last().unwrap().size;
    drop(log);
    let (log, report) = Log::open(&fixture.context(), params).unwrap();
    assert_eq!((log.log_end_offset(), log.recovery_point()), (Offset(260), Offset(250)));
    assert!(report.bytes_scanned <= tail && report.bytes_scanned < size / 2, "{report:?}");
    assert_eq!(report.repairs, []);
    let last = steps.lock().last().unwrap().clone();
    assert_eq!((last.bytes_read, last.bytes_total, last.segments_left), (report.bytes_scanned, tail, 0));
    for offset in [0, 100, 249, 259] {
        assert_eq!(read(&log, offset, 1, 260), [(offset, offset)]);
        assert_eq!(log.offset_for_timestamp(offset).unwrap().unwrap().offset, Offset(offset));
    }
}

#[test]
fn a_closed_log_is_read_but_not_written() {
    let fixture = Fixture::new();
    let log = fixture.open();
    append(&log, batch(3, 1, 0));
    log.close().unwrap();
    assert_eq!(log.recovery_point(), Offset(3));
    assert_eq!(read(&log, 0, 100, 3), [(0, 2)]);
    let refused = log.append_as_leader(batch(1, 1, 0), LeaderEpoch(3), AppendOrigin::Client, Default::default());
    assert!(matches!(refused, Err(AppendError::Offline)));
    // An idle log changes nothing when it is opened and closed, not even the times of its files.
    let names = fixture.file_names();
    let modified =
        |name: &String| std::fs::metadata(fixture.dir.path().join("t-0").join(name)).unwrap().modified().unwrap();
    let times: Vec<_> = names.iter().map(modified).collect();
    let (log, _) = fixture.reopen(log, true);
    log.close().unwrap();
    assert_eq!(fixture.file_names(), names);
    assert_eq!(names.iter().map(modified).collect::<Vec<_>>(), times);
}

#[test]
fn a_deleted_log_goes_after_a_while() {
    let fixture = Fixture::with(TopicConfig { file_delete_delay_ms: 100, ..Default::default() });
    let context = fixture.context();
    let (log, _) = Log::open(&context, fixture.params()).unwrap();
    append(&log, batch(3, 1, 0));
    let slice = log.read(Offset(0), 100, Offset(3), true, Wait::ForDisk).unwrap().slice;
    let dir = log.delete().unwrap();
    assert!(dir.file_name().unwrap().to_str().unwrap().starts_with("t-0."));
    assert!(dir.exists() && !fixture.dir.path().join("t-0").exists());
    assert!(log.is_offline());
    // The name is free for a new log.
    let again = fixture.open();
    assert_eq!(again.log_end_offset(), Offset(0));
    context.background.run_pending(Duration::from_millis(100));
    assert!(!dir.exists());
    assert_eq!(bytes_of(&slice).len(), slice.len());
}

/// 100,000 partitions must not need as many descriptors. Files with unsynced bytes stay open, but not for long.
#[test]
fn many_logs_share_few_descriptors() {
    let fixture = Fixture::new();
    let context = fixture.context();
    let logs: Vec<Arc<Log>> = (0..100)
        .map(|n| {
            let topic_partition = TopicPartition::new("many", n);
            let dir = fixture.dir.path().join(topic_partition.to_string());
            Log::open(&context, LogParams { dir, topic_partition, ..fixture.params() }).unwrap().0
        })
        .collect();
    for round in 0..3 {
        for log in &logs {
            append(log, batch(1, 100, 0));
            assert_eq!(read(log, round, 100, round + 1), [(round, round)]);
            context.background.run_pending(Duration::ZERO);
            // The cache of these tests holds 8.
            assert!(context.files.open_files() <= 10, "{} files are open", context.files.open_files());
        }
    }
    for log in &logs {
        log.close().unwrap();
    }
}

/// What the cache learns from a sync of its own, nobody waits for; the log learns of it at the next one.
#[test]
fn a_sync_that_fails_in_the_background_fails_the_next_flush() {
    let fixture = Fixture::new();
    let context = fixture.context();
    let (log, _) = Log::open(&context, fixture.params()).unwrap();
    append(&log, batch(1, 100, 0));
    fixture.faults.syncs_fail.store(true, Ordering::Relaxed);
    let others: Vec<_> = (1..20)
        .map(|n| {
            let name = crate::storage::file_name::FileName::new(Offset(n), crate::storage::file_name::FileKind::Log);
            context.files.file(&Directory::new(fixture.dir.path().to_owned()), name, true)
        })
        .collect();
    others.iter().for_each(|file| drop(file.get().unwrap()));
    context.background.run_pending(Duration::ZERO);
    fixture.faults.syncs_fail.store(false, Ordering::Relaxed);
    assert!(!log.is_offline());
    assert!(matches!(log.flush(Offset(1)), Err(FlushError::Failed(_))));
    assert!(log.is_offline());
}

/// An entry of the index may name an offset behind its batch: an older Kafka made one for several batches at once, and after
/// a power loss the index may be that of what was there before. The batches up to it were indexed again, and that panicked.
#[test]
fn an_index_that_names_what_comes_later_is_no_panic() {
    let config = TopicConfig { index_interval_bytes: 100, ..TopicConfig::default() };
    for (named, repairs) in [(44_i32, 0), (10_000, 1)] {
        let fixture = Fixture::with(config.clone());
        let log = fixture.open();
        for n in 0..10 {
            append(&log, batch(5, 50, NOW_MS + n));
        }
        log.close().unwrap();
        let path = fixture.dir.path().join("t-0/00000000000000000000.index");
        let mut entry = std::fs::read(&path).unwrap()[..8].to_vec();
        entry[..4].copy_from_slice(&named.to_be_bytes());
        std::fs::write(&path, entry).unwrap();

        let (log, report) = fixture.reopen(log, true);
        assert_eq!(report.repairs.len(), repairs, "{:?}", report.repairs);
        assert_eq!(log.log_end_offset(), Offset(50));
        for n in 0..10 {
            append(&log, batch(5, 50, NOW_MS + 100 + n));
        }
        for from in 0..100 {
            let read = log.read(Offset(from), 1, Offset(100), true, Wait::ForDisk).unwrap();
            let bytes = bytes_of(&read.slice);
            assert_eq!(batches(&bytes).next().unwrap().unwrap().base_offset(), Offset(from / 5 * 5));
        }
    }
}
