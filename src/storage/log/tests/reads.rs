//! Reading by offset and by time, beside a writer, and with indexes that are wrong.

use super::*;

#[test]
fn reads_stop_at_bounds_and_limits() {
    let fixture = Fixture::new();
    let log = fixture.open();
    for _ in 0..4 {
        append(&log, batch(5, 100, 0));
    }
    let size = log.size() as usize / 4;
    // A batch is served whole although only its last record is wanted.
    assert_eq!(read(&log, 9, 10_000, 20), [(5, 9), (10, 14), (15, 19)]);
    assert_eq!(read(&log, 0, 10_000, 10), [(0, 4), (5, 9)]);
    // A bound within a batch leaves the batch out.
    assert_eq!(read(&log, 0, 10_000, 9), [(0, 4)]);
    assert_eq!(read(&log, 5, size, 20), [(5, 9)]);
    assert_eq!(read(&log, 5, size * 2 - 1, 20), [(5, 9)]);
    assert_eq!(read(&log, 5, 1, 20), [(5, 9)]);
    assert_eq!(read(&log, 20, 10_000, 20), []);
    assert_eq!(read(&log, 15, 10_000, 15), []);

    // The part of a batch that fits is in the slice.
    let partial = log.read(Offset(5), size + 10, Offset(20), true, Wait::ForDisk).unwrap();
    assert_eq!((partial.slice.len(), partial.first_batch_incomplete), (size + 10, false));
    let partial = log.read(Offset(5), 10, Offset(20), false, Wait::ForDisk).unwrap();
    assert_eq!((partial.slice.len(), partial.first_batch_incomplete), (10, true));
    assert_eq!(partial.start.map(|start| start.relative_position_in_segment), Some(size as u64));

    for offset in [-1, 21] {
        let error = log.read(Offset(offset), 10, Offset(20), true, Wait::ForDisk).unwrap_err();
        assert!(
            matches!(error, ReadError::OutOfRange { log_start_offset: Offset(0), log_end_offset: Offset(20), .. }),
            "{error}"
        );
    }
}

#[test]
fn reads_by_index_when_the_batches_are_long_gone() {
    let fixture = Fixture::with(TopicConfig { index_interval_bytes: 300, segment_bytes: 20_000, ..Default::default() });
    let log = fixture.open();
    for _ in 0..300 {
        append(&log, batch(2, 100, 0));
    }
    assert!(log.segments().len() > 3);
    for log in [log.clone(), fixture.reopen(log, true).0] {
        for offset in 0..600 {
            let batches = read(&log, offset, 1, 600);
            assert_eq!(batches, [(offset / 2 * 2, offset / 2 * 2 + 1)]);
        }
    }
}

#[test]
fn finds_records_by_time() {
    let fixture = Fixture::with(TopicConfig { segment_bytes: 1000, index_interval_bytes: 200, ..Default::default() });
    let log = fixture.open();
    assert_eq!(log.max_timestamp_offset().unwrap(), None);
    assert_eq!(log.offset_for_timestamp(0).unwrap(), None);
    for n in 0..20 {
        append(&log, batch(3, 50, n * 10));
    }
    let check = |log: &Log| {
        let find =
            |timestamp| log.offset_for_timestamp(timestamp).unwrap().map(|found| (found.timestamp, found.offset.0));
        assert_eq!(find(-5), Some((0, 0)));
        assert_eq!(find(1), Some((1, 1)));
        assert_eq!(find(3), Some((10, 3)));
        assert_eq!(find(101), Some((101, 31)));
        assert_eq!(find(192), Some((192, 59)));
        assert_eq!(find(193), None);
        let epoch = log.offset_for_timestamp(50).unwrap().unwrap().leader_epoch;
        assert_eq!(epoch, Some(LeaderEpoch(3)));
        assert_eq!(log.max_timestamp_offset().unwrap().map(|max| (max.timestamp, max.offset.0)), Some((192, 59)));
    };
    check(&log);
    let (log, _) = fixture.reopen(log, true);
    check(&log);
    log.advance_log_start_offset(Offset(32)).unwrap();
    assert_eq!(log.offset_for_timestamp(101).unwrap().unwrap().offset, Offset(32));
}

#[test]
fn a_lying_index_is_not_believed_and_built_anew() {
    let config = TopicConfig { segment_bytes: 2000, index_interval_bytes: 200, ..Default::default() };
    let fixture = Fixture::with(config);
    let log = fixture.open();
    for n in 0..30 {
        append(&log, batch(2, 100, n * 10));
    }
    let dir = log.dir();
    let first = log.segments()[0].base_offset;
    log.close().unwrap();
    let path = |offset: Offset, extension: &str| dir.join(format!("{:020}.{extension}", offset.0));
    let whole = std::fs::read(path(first, "index")).unwrap();
    let whole_time = std::fs::read(path(first, "timeindex")).unwrap();
    for (extension, lie) in [
        // Into the midst of batches, behind the batches that are meant, and no index at all.
        ("index", whole.chunks(8).flat_map(|entry| [&entry[..7], &[entry[7] ^ 1]].concat()).collect()),
        ("index", whole.chunks(8).flat_map(|entry| [&[0, 0, 0, entry[3] - 2], &entry[4..]].concat()).collect()),
        ("index", b"odd".to_vec()),
        (
            "timeindex",
            whole_time.chunks(12).flat_map(|entry| [&entry[..7], &[entry[7] + 25], &entry[8..]].concat()).collect(),
        ),
        ("timeindex", b"odd".to_vec()),
    ] {
        std::fs::write(path(first, extension), &lie).unwrap();
        let context = fixture.context();
        let (log, _) = Log::open(&context, fixture.params()).unwrap();
        for offset in 0..60 {
            let found = read(&log, offset, 1, 60);
            assert_eq!(found, [(offset / 2 * 2, offset / 2 * 2 + 1)], "{extension} {lie:?}");
        }
        for n in 0..30 {
            let found = log.offset_for_timestamp(n * 10).unwrap().unwrap();
            assert_eq!((found.timestamp, found.offset), (n * 10, Offset(n * 2)), "{extension} {lie:?}");
        }
        context.background.run_pending(Duration::ZERO);
        assert_eq!(std::fs::read(path(first, "index")).unwrap(), whole, "{extension} {lie:?}");
        assert_eq!(std::fs::read(path(first, "timeindex")).unwrap(), whole_time, "{extension} {lie:?}");
    }
}

#[test]
fn a_reader_that_must_not_wait_is_told() {
    let fixture = Fixture::with(TopicConfig { index_interval_bytes: 100, ..Default::default() });
    let log = fixture.open();
    for _ in 0..100 {
        append(&log, batch(1, 100, 0));
    }
    fixture.faults.is_cold.store(true, Ordering::Relaxed);
    // The last batches are known by heart.
    assert!(log.read(Offset(95), 1, Offset(100), true, Wait::Never).is_ok());
    let cold = log.read(Offset(5), 1, Offset(100), true, Wait::Never);
    assert!(matches!(cold, Err(ReadError::WouldBlock)), "{cold:?}");
    assert!(log.read(Offset(5), 1, Offset(100), true, Wait::ForDisk).is_ok());
}

#[test]
fn readers_beside_a_writer_see_whole_batches_only() {
    let config = TopicConfig { segment_bytes: 100_000, index_interval_bytes: 500, ..Default::default() };
    let fixture = Fixture::with(config);
    let background = Background::new(1);
    let context = LogContext {
        files: FileCache::new(fixture.disk.clone(), background.clone(), 4),
        background,
        ..fixture.context()
    };
    let (log, _) = Log::open(&context, fixture.params()).unwrap();
    std::thread::scope(|scope| {
        for reader in 0..3usize {
            let log = &log;
            scope.spawn(move || {
                let mut next = 0;
                while next < 3000 {
                    let end = log.log_end_offset();
                    let read = log.read(Offset(next), 5000 * (reader + 1), end, true, Wait::ForDisk).unwrap();
                    let bytes = bytes_of(&read.slice);
                    for batch in batches(&bytes) {
                        let batch = batch.unwrap();
                        assert!(batch.is_crc_valid());
                        assert_eq!(batch.base_offset(), Offset(next));
                        assert!(batch.last_offset() < end);
                        next = batch.last_offset().0 + 1;
                    }
                }
            });
        }
        for n in 0..1000 {
            append(&log, batch(3, 100 + n % 50, n as i64));
            if n % 100 == 0 {
                log.flush_then(log.flush_point(log.log_end_offset()), |result| result.unwrap());
            }
        }
    });
    log.close().unwrap();
}
