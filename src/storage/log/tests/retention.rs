//! What appends notice of a retention that goes on beside them: nothing. It held the log's lock over the ages of all segments and
//! the renames of all that went, which for ten thousand of them took more than a second.

use std::sync::atomic::AtomicBool;
use std::time::Instant;

use parking_lot::Mutex;

use super::*;
use crate::storage::faulty_disk::Call;

/// A log of so many segments of one record each, as it is when it was opened and nothing is known of their ages, and its context.
fn opened_anew(segments: i64, config: TopicConfig) -> (Fixture, LogContext, Arc<Log>) {
    let fixture = Fixture::with(TopicConfig { segment_bytes: 500, ..config });
    let (context, params) = (fixture.context(), fixture.params());
    std::fs::create_dir(&params.dir).unwrap();
    for n in 0..segments - 1 {
        let mut builder = RecordBatchBuilder::new(Offset(n)).leader_epoch(LeaderEpoch(3));
        builder.append(n, None, Some(&[0; 300]), &[]);
        let write =
            |kind: &str, bytes: &[u8]| std::fs::write(params.dir.join(format!("{n:020}.{kind}")), bytes).unwrap();
        write("log", &builder.build());
        write("index", &[]);
        write("timeindex", &[&n.to_be_bytes()[..], &[0; 4]].concat());
    }
    std::fs::write(params.dir.join("leader-epoch-checkpoint"), "0\n1\n3 0\n").unwrap();
    let on_failure: OnFailure = Arc::new(|trouble| panic!("{trouble:?}"));
    let params = LogParams { recovery_point: Offset(segments - 1), on_failure: Some(on_failure.clone()), ..params };
    let log = Log::open(&context, params).unwrap().0;
    append(&log, batch(1, 300, segments - 1));
    log.close().unwrap();
    let (context, params) = (fixture.context(), fixture.params());
    let params = LogParams { recovery_point: Offset(segments), on_failure: Some(on_failure), ..params };
    let (log, report) = Log::open(&context, params).unwrap();
    assert_eq!(report.repairs, []);
    (fixture, context, log)
}

/// Appends to the log within each call of the disk that a retention makes, from its own thread: whatever lock is held then would be
/// told. Returns what was.
fn append_meanwhile(fixture: &Fixture, log: &Arc<Log>) -> Arc<Mutex<Vec<String>>> {
    let (log, is_appending) = (Arc::downgrade(log), AtomicBool::new(false));
    // What is appended leads to more calls.
    let left = AtomicUsize::new(100);
    let held = Arc::new(Mutex::new(Vec::new()));
    let told = held.clone();
    fixture.faults.before(move |call, path| {
        let Some(log) = log.upgrade() else { return Ok(()) };
        if left.load(Ordering::Relaxed) == 0 || is_appending.swap(true, Ordering::Relaxed) {
            return Ok(());
        }
        left.fetch_sub(1, Ordering::Relaxed);
        match log.writer.is_locked() || log.epochs.is_locked() {
            true => told.lock().push(format!("{call:?} of {}", path.display())),
            false => drop(append(&log, batch(1, 300, NOW_MS))),
        }
        is_appending.store(false, Ordering::Relaxed);
        Ok(())
    });
    held
}

#[test]
fn no_lock_is_held_over_a_call_of_the_disk() {
    let config = TopicConfig { retention_ms: 1000, file_delete_delay_ms: 50, ..Default::default() };
    let (fixture, context, log) = opened_anew(20, config);
    let held = append_meanwhile(&fixture, &log);
    assert_eq!(log.delete_old_segments(NOW_MS, Offset(15)).unwrap(), 15);
    context.background.run_pending(Duration::from_millis(100));
    // The head of a segment goes by DeleteRecords, which only notes where the log starts.
    assert!(log.advance_log_start_offset(Offset(18)).unwrap());
    context.background.run_pending(Duration::ZERO);
    fixture.faults.before(|_, _| Ok(()));
    assert_eq!(*held.lock(), Vec::<String>::new());

    let end = log.log_end_offset();
    assert!(end > Offset(20 + 15), "nothing was appended meanwhile");
    for in_order in [false, true] {
        let (log, report) = fixture.reopen(log.clone(), in_order);
        assert_eq!((log.log_start_offset(), log.log_end_offset(), report.repairs), (Offset(18), end, vec![]));
        assert!((18..end.0).all(|offset| read(&log, offset, 1, end.0) == [(offset, offset)]));
    }
}

#[test]
fn what_is_appended_to_while_ages_are_looked_at_stays() {
    // Rolled before the append it is what it was, and goes.
    for (segment_bytes, deleted) in [(500, 5), (100_000, 4)] {
        let config = TopicConfig { retention_ms: 1000, ..Default::default() };
        let (fixture, _, log) = opened_anew(5, config.clone());
        log.update_config(Arc::new(TopicConfig { segment_bytes, ..config }));
        let (appending, seen) = (Arc::downgrade(&log), AtomicBool::new(false));
        fixture.faults.before(move |call, path| {
            // That of the last one is known. It is as old as before, but not replicated as a whole.
            let is_before = path.to_string_lossy().ends_with("03.timeindex");
            if call == Call::Read && is_before && !seen.swap(true, Ordering::Relaxed) {
                append(&appending.upgrade().unwrap(), batch(1, 300, 0));
            }
            Ok(())
        });
        assert_eq!(log.delete_old_segments(NOW_MS, Offset(5)).unwrap(), deleted);
        assert_eq!((log.log_start_offset(), log.log_end_offset()), (Offset(deleted as i64), Offset(6)));
        assert_eq!(log.segments().len(), 1);
        assert!((deleted as i64..6).all(|offset| read(&log, offset, 1, 6) == [(offset, offset)]));
    }
}

#[test]
fn ages_are_looked_at_as_far_as_they_are_needed() {
    for (retention_ms, looked_at, deleted) in [(-1, 0, 0), (NOW_MS + 1, 1, 0), (NOW_MS - 5, 6, 5)] {
        let (fixture, _, log) = opened_anew(20, TopicConfig { retention_ms, ..Default::default() });
        let read = Arc::new(Mutex::new(std::collections::BTreeSet::new()));
        let note = read.clone();
        fixture.faults.before(move |call, path| {
            if call == Call::Read && path.extension().is_some_and(|kind| kind == "timeindex") {
                note.lock().insert(path.to_owned());
            }
            Ok(())
        });
        assert_eq!(log.delete_old_segments(NOW_MS, Offset(20)).unwrap(), deleted);
        assert_eq!(read.lock().len(), looked_at, "{retention_ms}");
    }
}

/// Prints how long appends wait at most while a retention looks at ten thousand segments and, the second time, deletes them. On the
/// machine's own disk; `cargo test --lib -- --ignored --nocapture longest_append`.
#[test]
#[ignore = "it measures"]
fn longest_append_beside_retention() {
    for retention_ms in [i64::MAX, 1000] {
        let (_fixture, _context, log) = opened_anew(10_000, TopicConfig { retention_ms, ..Default::default() });
        // No roll waits for the directory in which names go.
        log.update_config(Arc::new(TopicConfig { segment_bytes: i32::MAX, retention_ms, ..Default::default() }));
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let appending = scope.spawn(|| {
                let (mut longest, mut appends) = (Duration::ZERO, 0);
                while !is_over.load(Ordering::Relaxed) {
                    let begun = Instant::now();
                    append(&log, batch(1, 1, NOW_MS));
                    longest = longest.max(begun.elapsed());
                    appends += 1;
                    std::thread::sleep(Duration::from_micros(100));
                }
                (longest, appends)
            });
            std::thread::sleep(Duration::from_millis(100));
            let begun = Instant::now();
            let deleted = log.delete_old_segments(NOW_MS, Offset(10_000)).unwrap();
            let took = begun.elapsed();
            is_over.store(true, Ordering::Relaxed);
            let (longest, appends) = appending.join().unwrap();
            println!("{deleted} of 10,000 segments deleted in {took:?}; longest of {appends} appends {longest:?}");
        });
    }
}
