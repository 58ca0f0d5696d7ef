use std::io;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use bytes::{Bytes, BytesMut};

use super::*;
use crate::clock::ManualClock;
use crate::record::batch::{RecordBatch, batches};
use crate::record::builder::RecordBatchBuilder;
use crate::record::control::{ControlRecord, EndTxnMarker};
use crate::storage::faulty_disk::{Faults, FaultyDisk};
use crate::storage::validate::{AppendOrigin, ValidatedBatch, ValidatedRecords};
use crate::types::ProducerEpoch;

mod model;
mod transactions;

const NOW_MS: i64 = 1_000_000;

/// A partition's directory on a disk that can be told to fail.
struct Fixture {
    dir: tempfile::TempDir,
    disk: Arc<dyn Disk>,
    faults: Arc<Faults>,
    clock: Arc<ManualClock>,
    config: TopicConfig,
}

impl Fixture {
    fn new() -> Fixture {
        Fixture::with(TopicConfig::default())
    }

    fn with(config: TopicConfig) -> Fixture {
        let (disk, faults) = FaultyDisk::new();
        let dir = tempfile::tempdir().unwrap();
        Fixture { dir, disk, faults, clock: ManualClock::new(NOW_MS), config }
    }

    fn context(&self) -> LogContext {
        let background = Background::stepped();
        LogContext {
            files: FileCache::new(self.disk.clone(), background.clone(), 8),
            disk: self.disk.clone(),
            clock: self.clock.clone(),
            background,
        }
    }

    fn params(&self) -> LogParams {
        LogParams {
            dir: self.dir.path().join("t-0"),
            topic_partition: TopicPartition::new("t", 0),
            config: Arc::new(self.config.clone()),
            log_start_offset: Offset(0),
            recovery_point: Offset(0),
            clean_shutdown: true,
            damage: DamagePolicy::KeepReadable,
            producers: ProducerStateConfig { verification_enabled: false, ..Default::default() },
            progress: None,
            on_failure: None,
        }
    }

    fn open(&self) -> Arc<Log> {
        Log::open(&self.context(), self.params()).unwrap().0
    }

    /// Opens the log again with what its checkpoints would say, after it was closed in order or the process was killed.
    fn reopen(&self, log: Arc<Log>, in_order: bool) -> (Arc<Log>, RecoveryReport) {
        if in_order {
            log.close().unwrap();
        }
        let params = LogParams {
            log_start_offset: log.log_start_offset(),
            recovery_point: log.recovery_point(),
            clean_shutdown: in_order,
            ..self.params()
        };
        drop(log);
        Log::open(&self.context(), params).unwrap()
    }

    fn file_names(&self) -> Vec<String> {
        let mut names: Vec<String> = std::fs::read_dir(self.dir.path().join("t-0"))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }
}

fn validated(header: crate::record::batch::BatchHeader, body: Bytes) -> ValidatedRecords {
    let batch = ValidatedBatch { header, body };
    ValidatedRecords {
        size_in_bytes: batch.size_in_bytes(),
        max_timestamp: batch.header.max_timestamp(),
        log_append_time_ms: None,
        as_given: None,
        batches: vec![batch],
    }
}

/// A batch of `count` records of `size` bytes, one millisecond apart.
fn batch(count: usize, size: usize, timestamp: i64) -> ValidatedRecords {
    let mut builder = RecordBatchBuilder::new(Offset(0));
    for n in 0..count {
        builder.append(timestamp + n as i64, None, Some(&vec![n as u8; size]), &[]);
    }
    let (header, body) = builder.build_parts();
    validated(header, body)
}

/// Batches with offsets and epochs, as a follower fetches them: base offset and epoch of each, three records in it.
fn fetched(bases: &[(i64, i32)]) -> ValidatedRecords {
    let mut bytes = BytesMut::new();
    for (base, epoch) in bases {
        let mut builder = RecordBatchBuilder::new(Offset(*base)).leader_epoch(LeaderEpoch(*epoch));
        for n in 0..3 {
            builder.append(*base + n, None, Some(b"value"), &[]);
        }
        bytes.extend_from_slice(&builder.build());
    }
    as_given(bytes.freeze())
}

fn as_given(bytes: Bytes) -> ValidatedRecords {
    let parsed: Vec<RecordBatch<'_>> = batches(&bytes).map(|batch| batch.unwrap()).collect();
    ValidatedRecords {
        size_in_bytes: bytes.len(),
        max_timestamp: parsed.iter().map(|batch| batch.max_timestamp()).max().unwrap_or(-1),
        log_append_time_ms: None,
        batches: parsed
            .iter()
            .map(|batch| ValidatedBatch { header: batch.to_header(), body: bytes.slice_ref(batch.body()) })
            .collect(),
        as_given: Some(bytes.clone()),
    }
}

fn append(log: &Log, records: ValidatedRecords) -> AppendInfo {
    log.append_as_leader(records, LeaderEpoch(3), AppendOrigin::Client, AppendContext::default()).unwrap()
}

fn bytes_of(slice: &LogSlice) -> BytesMut {
    let mut bytes = BytesMut::new();
    slice.read_into(&mut bytes).unwrap();
    bytes
}

/// Base and last offsets of the batches that one read brings.
fn read(log: &Log, start: i64, max_bytes: usize, upper_bound: i64) -> Vec<(i64, i64)> {
    let read = log.read(Offset(start), max_bytes, Offset(upper_bound), true, Wait::ForDisk).unwrap();
    batches(&bytes_of(&read.slice))
        .map(|batch| batch.unwrap())
        .map(|b| (b.base_offset().0, b.last_offset().0))
        .collect()
}

#[test]
fn a_leader_assigns_offsets_and_epochs() {
    let fixture = Fixture::new();
    let log = fixture.open();
    let info = append(&log, batch(3, 10, 100));
    assert_eq!((info.first_offset, info.last_offset), (Offset(0), Offset(2)));
    let info = append(&log, batch(2, 10, 200));
    assert_eq!((info.first_offset, info.last_offset), (Offset(3), Offset(4)));
    assert_eq!(log.log_end_offset(), Offset(5));

    let read = log.read(Offset(0), 10_000, Offset(5), true, Wait::Never).unwrap();
    let bytes = bytes_of(&read.slice);
    let parsed: Vec<RecordBatch<'_>> = batches(&bytes).map(|batch| batch.unwrap()).collect();
    assert_eq!(parsed.len(), 2);
    for batch in &parsed {
        assert!(batch.is_crc_valid());
        assert_eq!(batch.partition_leader_epoch(), LeaderEpoch(3));
    }
    assert_eq!(parsed[1].base_offset(), Offset(3));
    assert_eq!(log.latest_epoch(), Some(LeaderEpoch(3)));
    assert_eq!(log.leader_epoch_at(Offset(4)), Some(LeaderEpoch(3)));
    assert_eq!(read.position, Some(LogPosition { segment_base_offset: Offset(0), bytes: 0 }));
}

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
    assert_eq!(partial.position.map(|position| position.bytes), Some(size as u64));

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
fn rolls_by_size_time_index_and_offset() {
    let config = TopicConfig { segment_bytes: 1000, segment_ms: 500, index_interval_bytes: 0, ..Default::default() };
    let fixture = Fixture::with(TopicConfig { segment_index_bytes: 36, ..config });
    let log = fixture.open();
    let bases = |log: &Log| log.segments().iter().map(|segment| segment.base_offset.0).collect::<Vec<_>>();
    append(&log, batch(1, 400, 100));
    append(&log, batch(1, 400, 100));
    assert_eq!(bases(&log), [0]);
    append(&log, batch(1, 400, 100));
    assert_eq!(bases(&log), [0, 2]);
    // Not yet 500 ms by the records' time; then more than that.
    append(&log, batch(1, 1, 600));
    assert_eq!(bases(&log), [0, 2]);
    append(&log, batch(1, 1, 601));
    assert_eq!(bases(&log), [0, 2, 4]);
    // Four entries fill the offset index; the time index has only one, as the time stands still.
    for _ in 0..4 {
        append(&log, batch(1, 1, 601));
    }
    assert_eq!(bases(&log), [0, 2, 4]);
    append(&log, batch(1, 1, 601));
    assert_eq!(bases(&log), [0, 2, 4, 9]);
    // The relative offset would not fit into the index.
    log.update_config(Arc::new(TopicConfig { segment_ms: i64::MAX, ..(*log.config()).clone() }));
    let far = 9 + i64::from(i32::MAX);
    log.append_as_follower(fetched(&[(far - 2, 3)])).unwrap();
    assert_eq!(bases(&log), [0, 2, 4, 9]);
    log.append_as_follower(fetched(&[(far + 1, 3)])).unwrap();
    assert_eq!(bases(&log), [0, 2, 4, 9, far + 1]);

    assert_eq!(log.roll().unwrap(), Offset(far + 4));
    assert_eq!(log.roll().unwrap(), Offset(far + 4));
    assert_eq!(bases(&log).last(), Some(&(far + 4)));
    let (log, report) = fixture.reopen(log, true);
    assert_eq!((log.log_end_offset(), report.repairs.len()), (Offset(far + 4), 0));
    assert_eq!(read(&log, far, 1000, far + 4), [(far - 2, far)]);
}

#[test]
fn rolls_by_the_clock_where_records_have_no_time() {
    let fixture = Fixture::with(TopicConfig { segment_ms: 500, ..Default::default() });
    let log = fixture.open();
    append(&log, batch(1, 1, -1));
    fixture.clock.advance(Duration::from_millis(500));
    append(&log, batch(1, 1, -1));
    assert_eq!(log.segments().len(), 1);
    fixture.clock.advance(Duration::from_millis(1));
    append(&log, batch(1, 1, -1));
    assert_eq!(log.segments().len(), 2);
}

#[test]
fn refuses_what_does_not_fit() {
    let fixture = Fixture::with(TopicConfig { segment_bytes: 500, ..Default::default() });
    let log = fixture.open();
    let too_large = log.append_as_leader(batch(1, 500, 0), LeaderEpoch(0), AppendOrigin::Client, Default::default());
    assert!(matches!(too_large, Err(AppendError::LargerThanSegment { segment_bytes: 500, .. })));
    append(&log, batch(3, 1, 0));
    let behind = log.append_as_follower(fetched(&[(2, 3)]));
    assert!(matches!(
        behind,
        Err(AppendError::UnexpectedOffset {
            first_offset: Offset(2),
            last_offset: Offset(4),
            log_end_offset: Offset(3)
        })
    ));
    assert_eq!(log.log_end_offset(), Offset(3));
    let nothing = log.append_as_follower(as_given(Bytes::new())).unwrap();
    assert_eq!((nothing.first_offset, nothing.last_offset), (Offset(3), Offset(2)));
}

#[test]
fn a_follower_takes_offsets_and_epochs_as_they_come() {
    let fixture = Fixture::new();
    let log = fixture.open();
    log.truncate_fully_and_start_at(Offset(100)).unwrap();
    log.append_as_follower(fetched(&[(100, 5), (103, 5), (110, 7)])).unwrap();
    assert_eq!((log.log_start_offset(), log.log_end_offset()), (Offset(100), Offset(113)));
    assert_eq!(read(&log, 106, 1000, 113), [(110, 112)]);
    assert_eq!(log.leader_epoch_at(Offset(105)), Some(LeaderEpoch(5)));
    assert_eq!(log.latest_epoch(), Some(LeaderEpoch(7)));
    let end = |epoch| log.end_offset_for_epoch(LeaderEpoch(epoch)).map(|end| (end.leader_epoch.0, end.end_offset.0));
    assert_eq!(end(5), Some((5, 110)));
    assert_eq!(end(6), Some((5, 110)));
    assert_eq!(end(7), Some((7, 113)));
    assert_eq!(end(8), None);
    for in_order in [true, false] {
        let (log, report) = fixture.reopen(fixture.reopen(log.clone(), in_order).0, in_order);
        assert_eq!(report.repairs, []);
        assert_eq!((log.log_start_offset(), log.log_end_offset()), (Offset(100), Offset(113)));
        assert_eq!(log.leader_epoch_at(Offset(105)), Some(LeaderEpoch(5)));
    }
}

#[test]
fn truncates_to_an_offset() {
    let fixture = Fixture::with(TopicConfig { segment_bytes: 1000, index_interval_bytes: 100, ..Default::default() });
    let log = fixture.open();
    log.append_as_follower(fetched(&[(0, 1), (3, 1), (6, 2)])).unwrap();
    for base in 3..40 {
        log.append_as_follower(fetched(&[(base * 3, 2)])).unwrap();
    }
    assert!(log.segments().len() > 3);
    let before = log.segments();
    log.flush(log.log_end_offset()).unwrap();
    assert!(!log.truncate_to(Offset(120)).unwrap());
    assert!(log.truncate_to(Offset(30)).unwrap());
    assert_eq!((log.log_end_offset(), log.recovery_point()), (Offset(30), Offset(30)));
    assert!(log.segments().len() < before.len());
    assert_eq!(read(&log, 29, 1000, 30), [(27, 29)]);
    // A batch is not parted: what holds the offset goes as a whole.
    assert!(log.truncate_to(Offset(28)).unwrap());
    assert_eq!(log.log_end_offset(), Offset(27));
    log.append_as_follower(fetched(&[(27, 4)])).unwrap();
    assert_eq!(log.max_timestamp_offset().unwrap().unwrap().timestamp, 29);
    log.truncate_to(Offset(3)).unwrap();
    assert_eq!(log.latest_epoch(), Some(LeaderEpoch(1)));
    assert_eq!(log.max_timestamp_offset().unwrap().unwrap().timestamp, 2);
    let (log, report) = fixture.reopen(log, true);
    assert_eq!((log.log_end_offset(), report.repairs), (Offset(3), vec![]));
    // Below all there is.
    log.truncate_fully_and_start_at(Offset(50)).unwrap();
    log.truncate_to(Offset(40)).unwrap();
    assert_eq!((log.log_start_offset(), log.log_end_offset()), (Offset(40), Offset(40)));
}

#[test]
fn truncated_and_deleted_segments_leave_no_files() {
    let fixture = Fixture::with(TopicConfig { segment_bytes: 500, file_delete_delay_ms: 50, ..Default::default() });
    let context = fixture.context();
    let (log, _) = Log::open(&context, fixture.params()).unwrap();
    for _ in 0..10 {
        append(&log, batch(1, 300, 0));
    }
    let slice = log.read(Offset(9), 1000, Offset(10), true, Wait::ForDisk).unwrap().slice;
    log.truncate_to(Offset(2)).unwrap();
    let deleted = |names: &[String]| names.iter().filter(|name| name.ends_with(".deleted")).count();
    assert_eq!(deleted(&fixture.file_names()), 7 * 4);
    context.background.run_pending(Duration::from_millis(49));
    assert_eq!(deleted(&fixture.file_names()), 7 * 4);
    context.background.run_pending(Duration::from_millis(1));
    assert_eq!(fixture.file_names().iter().filter(|name| name.ends_with(".log")).count(), 3);
    assert_eq!(deleted(&fixture.file_names()), 0);
    // What was being read still is.
    assert_eq!(batches(&bytes_of(&slice)).next().unwrap().unwrap().base_offset(), Offset(9));
}

#[test]
fn the_start_moves_and_segments_before_it_go() {
    let config = TopicConfig { segment_bytes: 500, retention_ms: -1, ..Default::default() };
    let fixture = Fixture::with(config);
    let log = fixture.open();
    for _ in 0..6 {
        append(&log, batch(1, 300, 0));
    }
    assert!(log.advance_log_start_offset(Offset(3)).unwrap());
    assert!(!log.advance_log_start_offset(Offset(2)).unwrap());
    assert!(matches!(log.advance_log_start_offset(Offset(7)), Err(ChangeError::OutOfRange { .. })));
    assert!(matches!(log.read(Offset(2), 1, Offset(6), true, Wait::ForDisk), Err(ReadError::OutOfRange { .. })));
    assert_eq!(log.delete_old_segments(NOW_MS, Offset(6)).unwrap(), 3);
    assert_eq!(log.segments()[0].base_offset, Offset(3));
    assert_eq!(read(&log, 3, 1, 6), [(3, 3)]);
    assert_eq!(log.leader_epoch_at(Offset(3)), Some(LeaderEpoch(3)));
    let (log, _) = fixture.reopen(log, false);
    assert_eq!((log.log_start_offset(), log.log_end_offset()), (Offset(3), Offset(6)));
}

#[test]
fn retention_by_time_takes_everything_and_starts_a_new_segment() {
    let fixture = Fixture::with(TopicConfig { segment_bytes: 500, retention_ms: 1000, ..Default::default() });
    let log = fixture.open();
    for n in 0..4 {
        append(&log, batch(1, 300, NOW_MS + n * 100));
    }
    assert_eq!(log.delete_old_segments(NOW_MS + 1100, Offset(4)).unwrap(), 1);
    assert_eq!(log.delete_old_segments(NOW_MS + 5000, Offset(2)).unwrap(), 1);
    assert_eq!(log.log_start_offset(), Offset(2));
    assert_eq!(log.delete_old_segments(NOW_MS + 5000, Offset(4)).unwrap(), 2);
    assert_eq!((log.log_start_offset(), log.log_end_offset()), (Offset(4), Offset(4)));
    assert_eq!(log.segments(), [SegmentInfo { base_offset: Offset(4), size: 0 }]);
    assert_eq!(log.delete_old_segments(NOW_MS + 9000, Offset(4)).unwrap(), 0);
    assert_eq!(append(&log, batch(1, 1, NOW_MS)).first_offset, Offset(4));
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
fn flushes_are_shared() {
    let fixture = Fixture::with(TopicConfig { flush_messages: 2, ..Default::default() });
    let context = fixture.context();
    let (log, _) = Log::open(&context, fixture.params()).unwrap();
    assert!(!append(&log, batch(1, 1, 0)).flush_due);
    assert!(append(&log, batch(1, 1, 0)).flush_due);
    assert!(log.is_flush_due(NOW_MS));

    let served = Arc::new(AtomicUsize::new(0));
    let wait = |offset| {
        let served = served.clone();
        log.flush_then(Offset(offset), move |result| {
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
    assert!(!append(&log, batch(1, 1, 0)).flush_due);
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
        log.flush_then(Offset(offset), move |result| results.lock().push(result));
    }
    log.truncate_to(Offset(1)).unwrap();
    assert!(matches!(results.lock()[..], [Err(FlushError::Truncated)]));
    context.background.run_pending(Duration::ZERO);
    assert!(matches!(results.lock()[..], [Err(FlushError::Truncated), Ok(())]));
}

#[test]
fn a_failed_flush_is_final() {
    let fixture = Fixture::new();
    let context = fixture.context();
    let failures = Arc::new(AtomicUsize::new(0));
    let counted = failures.clone();
    let on_failure: OnFailure = Arc::new(move |_: &io::Error| drop(counted.fetch_add(1, Ordering::Relaxed)));
    let (log, _) = Log::open(&context, LogParams { on_failure: Some(on_failure), ..fixture.params() }).unwrap();
    append(&log, batch(1, 1, 0));
    fixture.faults.syncs_fail.store(true, Ordering::Relaxed);
    let failed: Arc<AtomicUsize> = Arc::default();
    let seen = failed.clone();
    log.flush_then(Offset(1), move |result| {
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
fn a_full_disk_fails_the_log_and_leaves_no_half_batch() {
    let fixture = Fixture::new();
    let log = fixture.open();
    append(&log, batch(1, 100, 0));
    let size = log.size();
    fixture.faults.room.store(50, Ordering::Relaxed);
    let full = log.append_as_leader(batch(1, 100, 0), LeaderEpoch(3), AppendOrigin::Client, Default::default());
    assert!(matches!(full, Err(AppendError::Io(error)) if error.kind() == io::ErrorKind::StorageFull));
    assert!(log.is_offline());
    assert_eq!(log.log_end_offset(), Offset(1));
    assert_eq!(read(&log, 0, 1000, 1), [(0, 0)]);
    assert_eq!(std::fs::metadata(log.dir().join("00000000000000000000.log")).unwrap().len(), size);
    fixture.faults.room.store(-1, Ordering::Relaxed);
    let (log, report) = fixture.reopen(log, false);
    assert_eq!((log.log_end_offset(), report.repairs), (Offset(1), vec![]));
    append(&log, batch(1, 100, 0));
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
                log.flush_then(log.log_end_offset(), |result| result.unwrap());
            }
        }
    });
    log.close().unwrap();
}
