//! Indexes that lie or are missing: nothing is read wrongly for it, and they are built anew, at some time.

use super::*;
use crate::telemetry::LogCapture;

/// A log of one segment that was closed, whose first entries of the offset index point into the midst of batches, and the
/// index as it was.
fn closed_with_a_lie(fixture: &Fixture, batches: i64) -> (PathBuf, Vec<u8>) {
    let log = fixture.open();
    for n in 0..batches {
        append(&log, batch(2, 100, n * 10));
    }
    assert_eq!(log.segments().len(), 1);
    log.close().unwrap();
    let path = log.dir().join("00000000000000000000.index");
    let whole = std::fs::read(&path).unwrap();
    lie(&path, &whole);
    (path, whole)
}

fn lie(path: &std::path::Path, whole: &[u8]) {
    let mut bytes = whole.to_vec();
    bytes.chunks_mut(8).take(5).for_each(|entry| entry[7] ^= 1);
    std::fs::write(path, bytes).unwrap();
}

/// It was read from its start until the node was started again.
#[test]
fn a_lying_index_is_built_anew_once_its_segment_is_full() {
    let fixture = Fixture::with(TopicConfig { index_interval_bytes: 200, ..Default::default() });
    let (path, whole) = closed_with_a_lie(&fixture, 30);
    let context = fixture.context();
    let (log, _) = Log::open(&context, fixture.params()).unwrap();
    let read_all = || {
        for offset in 0..60 {
            assert_eq!(read(&log, offset, 1, 60), [(offset / 2 * 2, offset / 2 * 2 + 1)]);
        }
        context.background.run_pending(Duration::ZERO);
    };
    read_all();
    assert_ne!(std::fs::read(&path).unwrap(), whole);
    log.roll().unwrap();
    read_all();
    assert_eq!(std::fs::read(&path).unwrap(), whole);
    assert!(!log.segments.load()[0].distrusts_index());
}

/// Each reader that met the same lie had the index built: two at once, into each other.
#[test]
fn readers_beside_each_other_have_an_index_built_once() {
    let fixture = Fixture::with(TopicConfig { index_interval_bytes: 0, ..Default::default() });
    let (path, whole) = closed_with_a_lie(&fixture, 1000);
    for _ in 0..10 {
        lie(&path, &whole);
        let background = Background::new(4);
        let context = LogContext { background, ..fixture.context() };
        let (log, _) = Log::open(&context, fixture.params()).unwrap();
        log.roll().unwrap();
        let start = std::sync::Barrier::new(4);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    start.wait();
                    for offset in (0..20).chain(1990..2000) {
                        assert_eq!(read(&log, offset, 1, 2000), [(offset / 2 * 2, offset / 2 * 2 + 1)]);
                        assert_eq!(log.max_timestamp_offset().unwrap().unwrap().offset, Offset(1999));
                    }
                });
            }
        });
        let until = std::time::Instant::now() + Duration::from_secs(20);
        while log.segments.load()[0].distrusts_index() && std::time::Instant::now() < until {
            std::thread::sleep(Duration::from_millis(1));
        }
        log.close().unwrap();
        assert!(std::fs::read(&path).unwrap() == whole);
        // The empty segment behind it would be the last one.
        for entry in std::fs::read_dir(log.dir()).unwrap() {
            let path = entry.unwrap().path();
            if path.to_str().unwrap().contains("2000.") {
                std::fs::remove_file(path).unwrap();
            }
        }
    }
}

/// Whoever asked for the record with the largest timestamp got an error of the disk, for ever.
#[test]
fn the_largest_timestamp_is_found_without_an_index() {
    let config = TopicConfig { segment_bytes: 2000, index_interval_bytes: 200, ..Default::default() };
    let fixture = Fixture::with(config);
    let log = fixture.open();
    for n in 0..30 {
        append(&log, batch(2, 100, 1000 - n * 10));
    }
    log.close().unwrap();
    let path = log.dir().join("00000000000000000000.timeindex");
    let whole = std::fs::read(&path).unwrap();
    std::fs::write(&path, b"odd").unwrap();
    let context = fixture.context();
    let (log, _) = Log::open(&context, fixture.params()).unwrap();
    let max = || log.max_timestamp_offset().unwrap().map(|found| (found.timestamp, found.offset));
    assert_eq!(max(), Some((1001, Offset(1))));
    context.background.run_pending(Duration::ZERO);
    assert_eq!(std::fs::read(&path).unwrap(), whole);
    assert_eq!(max(), Some((1001, Offset(1))));
}

/// A segment was read without an index until the node was started again.
#[test]
fn what_could_not_be_built_anew_is_tried_again() {
    let fixture = Fixture::with(TopicConfig { index_interval_bytes: 200, ..Default::default() });
    let (path, whole) = closed_with_a_lie(&fixture, 30);
    let lying = std::fs::read(&path).unwrap();
    let context = fixture.context();
    let (log, _) = Log::open(&context, fixture.params()).unwrap();
    log.roll().unwrap();
    let read_all = || {
        for offset in 0..60 {
            assert_eq!(read(&log, offset, 1, 60), [(offset / 2 * 2, offset / 2 * 2 + 1)]);
        }
        context.background.run_pending(Duration::ZERO);
    };
    context.background.run_pending(Duration::ZERO);
    let capture = LogCapture::start();
    fixture.faults.room.store(0, Ordering::Relaxed);
    let names = fixture.file_names();
    // Once, after a minute, two, four and so on.
    for seconds in 0..8 * 60 {
        read_all();
        assert_eq!(std::fs::read(&path).unwrap(), lying, "{seconds}");
        fixture.clock.advance(Duration::from_secs(1));
    }
    assert_eq!(fixture.file_names(), names);
    let told = |level| {
        let events = capture.take().into_iter().filter(|event| event.level <= level);
        events.map(|event| event.text).filter(|text| text.contains("cannot rebuild")).collect::<Vec<_>>()
    };
    assert_eq!(told(tracing::Level::WARN).len(), 1);
    assert!(!log.is_offline());

    fixture.faults.room.store(-1, Ordering::Relaxed);
    fixture.clock.advance(Duration::from_secs(16 * 60));
    read_all();
    assert_eq!(std::fs::read(&path).unwrap(), whole);
    assert_eq!(fixture.file_names(), names);
    assert!(!log.segments.load()[0].distrusts_index());
    assert!(told(tracing::Level::WARN).is_empty());
}

/// A start that was interrupted while it built a missing index left a part of it, which the next one believed.
#[test]
fn a_missing_index_is_there_when_it_is_whole() {
    let config = TopicConfig { index_interval_bytes: 100, segment_bytes: 3000, ..Default::default() };
    let fixture = Fixture::with(config);
    let log = fixture.open();
    for n in 0..60 {
        append(&log, batch(2, 100, n * 10));
    }
    log.close().unwrap();
    let path = |extension: &str| log.dir().join(format!("{:020}.{extension}", 0));
    let whole = [std::fs::read(path("index")).unwrap(), std::fs::read(path("timeindex")).unwrap()];
    for missing in ["index", "timeindex"] {
        std::fs::remove_file(path(missing)).unwrap();
        // The start ends when the index is to be put in its place.
        fixture.faults.before(|call, path| match call == Call::Sync && path.to_string_lossy().ends_with(".tmp") {
            true => Err(io::Error::from_raw_os_error(libc::EIO)),
            false => Ok(()),
        });
        let recovery_point = Offset(120);
        let params = || LogParams { recovery_point, clean_shutdown: false, ..fixture.params() };
        assert!(Log::open(&fixture.context(), params()).is_err());
        assert!(!path(missing).exists());
        fixture.faults.before(|_, _| Ok(()));
        // What a kill would leave.
        std::fs::write(path("index.tmp"), b"odd").unwrap();
        let (log, report) = Log::open(&fixture.context(), params()).unwrap();
        assert_eq!(report.repairs.len(), 1);
        assert_eq!([std::fs::read(path("index")).unwrap(), std::fs::read(path("timeindex")).unwrap()], whole);
        assert!(!path("index.tmp").exists());
        log.close().unwrap();

        // With no room for it the log is opened nevertheless.
        std::fs::remove_file(path(missing)).unwrap();
        fixture.faults.room.store(0, Ordering::Relaxed);
        let context = fixture.context();
        let (log, report) = Log::open(&context, fixture.params()).unwrap();
        assert_eq!(report.repairs[0].done, "there is no room for it; a later read builds it anew");
        let read_all = || (0..120).for_each(|offset| assert_eq!(read(&log, offset, 1, 120)[0].0, offset / 2 * 2));
        read_all();
        fixture.faults.room.store(-1, Ordering::Relaxed);
        context.background.run_pending(Duration::ZERO);
        assert_eq!([std::fs::read(path("index")).unwrap(), std::fs::read(path("timeindex")).unwrap()], whole);
        read_all();
        log.close().unwrap();
    }
}

/// A log of full segments of ten batches of two records each, closed in order. The second batch of each segment is its latest, or
/// the last one.
fn closed_with_times(fixture: &Fixture, is_last_latest: bool) -> Arc<Log> {
    let log = fixture.open();
    for n in 0..50 {
        let peak = if !is_last_latest && n % 10 == 1 { 100 } else { 0 };
        append(&log, batch(2, 100, n * 10 + peak));
        if n % 10 == 9 && n < 49 {
            log.roll().unwrap();
        }
    }
    log.close().unwrap();
    log
}

/// What a disk may make of the end of a time index, of a segment of 20 offsets, so that it cannot be right.
fn lies(whole: &[u8]) -> Vec<(&'static str, Vec<u8>)> {
    let last = whole.len() - 12;
    let with = |change: &dyn Fn(&mut [u8])| {
        let mut bytes = whole.to_vec();
        change(&mut bytes[last..]);
        bytes
    };
    let and = |entry: [u8; 12]| [whole, &entry].concat();
    let mut lies = vec![
        ("no entries", Vec::new()),
        ("nothing but zeros", vec![0; whole.len()]),
        ("a last entry of zeros", with(&|entry| entry.fill(0))),
        ("zeros behind", [whole, &[0; 24]].concat()),
        ("garbage behind", and([0xa5; 12])),
        ("garbage of high bits behind", and([0x5a; 12])),
        ("an odd end", [whole, b"odd"].concat()),
        ("a negative time", with(&|entry| entry[0] |= 0x80)),
        ("a negative offset", with(&|entry| entry[8] |= 0x80)),
        ("an offset behind the segment", with(&|entry| entry[11] = 20)),
    ];
    if whole.len() > 12 {
        let before = whole[last - 12..last].to_vec();
        lies.push(("the time before", with(&|entry| entry[..8].copy_from_slice(&before[..8]))));
        lies.push((
            "an offset below the one before",
            with(&|entry| entry[8..].copy_from_slice(&[0, 0, 0, before[11] - 1])),
        ));
    }
    lies
}

/// It was believed: for ListOffsets, and for how old a segment is. By a timestamp that is too small records were deleted that were
/// to stay, by one that is too large they stayed for ever, as in Kafka.
#[test]
fn the_last_entry_of_a_time_index_is_believed_if_it_can_be_right() {
    for is_last_latest in [true, false] {
        for liar in [0, 20, 60, 80] {
            let config = TopicConfig { index_interval_bytes: 200, retention_ms: 1000, ..Default::default() };
            let fixture = Fixture::with(config);
            let dir = closed_with_times(&fixture, is_last_latest).dir();
            let path = dir.join(format!("{liar:020}.timeindex"));
            let whole = std::fs::read(&path).unwrap();
            for (what, lie) in lies(&whole) {
                let what = format!("{is_last_latest} {liar} {what}");
                std::fs::write(&path, &lie).unwrap();
                let context = fixture.context();
                let capture = LogCapture::start();
                let (log, report) = Log::open(&context, fixture.params()).unwrap();
                let max = if is_last_latest { (491, Offset(99)) } else { (511, Offset(83)) };
                let found = log.max_timestamp_offset().unwrap().map(|found| (found.timestamp, found.offset));
                assert_eq!(found, Some(max), "{what}");
                for at in 0..50 {
                    let found = log.offset_for_timestamp(at * 10 + 1).unwrap().unwrap();
                    assert!(found.timestamp > at * 10 && found.offset <= Offset(at * 2 + 1), "{what}: {at} {found:?}");
                }
                assert_eq!(log.offset_for_timestamp(max.0 + 1).unwrap(), None, "{what}");
                // The last segment is seen to by the start.
                let told = capture.take().iter().filter(|event| event.level <= tracing::Level::WARN).count();
                assert_eq!(
                    (told, report.repairs.len()),
                    if liar == 80 { (0, 1) } else { (1, 0) },
                    "{what}: {report:?}"
                );
                context.background.run_pending(Duration::ZERO);
                log.close().unwrap();
                assert_eq!(std::fs::read(&path).unwrap(), whole, "{what}");
                let (log, report) = Log::open(&fixture.context(), fixture.params()).unwrap();
                log.max_timestamp_offset().unwrap();
                assert_eq!((capture.take().len(), report.repairs), (0, vec![]), "{what}");
                log.close().unwrap();

                // By their age the segments go one by one, when it is time.
                std::fs::write(&path, &lie).unwrap();
                let context = fixture.context();
                let (log, _) = Log::open(&context, fixture.params()).unwrap();
                let latest = |segment: i64| segment * 100 + if is_last_latest { 91 } else { 111 };
                for segment in 0..4 {
                    assert_eq!(log.delete_old_segments(latest(segment) + 1000, Offset(100)).unwrap(), 0, "{what}");
                    assert_eq!(log.segments()[0].base_offset.0, segment * 20, "{what}");
                    assert_eq!(log.delete_old_segments(latest(segment) + 1001, Offset(100)).unwrap(), 1, "{what}");
                }
                log.close().unwrap();
                context.background.run_pending(Duration::from_secs(100));
                std::fs::remove_dir_all(&dir).unwrap();
                closed_with_times(&fixture, is_last_latest);
            }
        }
    }
}

/// Records without a time have no entries in a time index, which lacks nothing then.
#[test]
fn a_time_index_of_records_without_a_time_has_no_entries() {
    for timestamp in [crate::record::batch::NO_TIMESTAMP, 0] {
        let fixture = Fixture::with(TopicConfig { index_interval_bytes: 200, ..Default::default() });
        let log = fixture.open();
        for n in 0..20 {
            append(&log, batch(1, 100, timestamp));
            if n == 9 {
                log.roll().unwrap();
            }
        }
        log.close().unwrap();
        let capture = LogCapture::start();
        for _ in 0..2 {
            let (log, report) = Log::open(&fixture.context(), fixture.params()).unwrap();
            assert_eq!(report.repairs, []);
            log.max_timestamp_offset().unwrap();
            log.offset_for_timestamp(0).unwrap();
            log.close().unwrap();
        }
        assert!(capture.take().iter().all(|event| event.level > tracing::Level::WARN));
    }
}
