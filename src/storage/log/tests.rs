//! A log as its partition uses it: appends, rolls, truncation, deletion, retention.

use std::io;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use bytes::{Bytes, BytesMut};

use super::*;
use crate::clock::ManualClock;
use crate::config::topic::CleanupPolicy;
use crate::record::batch::{RecordBatch, batches};
use crate::record::builder::RecordBatchBuilder;
use crate::record::control::{ControlRecord, EndTxnMarker};
use crate::storage::disk::OpenMode;
use crate::storage::faulty_disk::{Call, Faults, FaultyDisk};
use crate::storage::validate::{AppendOrigin, ValidatedBatch, ValidatedRecords};
use crate::types::ProducerEpoch;

mod crashes;
mod damage;
mod durability;
mod gaps;
mod indexes;
mod model;
mod reads;
mod reserved;
mod retention;
mod room;
mod transactions;

const NOW_MS: i64 = 1_000_000;

/// A partition's directory on a disk that can be told to fail.
struct Fixture {
    dir: tempfile::TempDir,
    disk: Arc<dyn Disk>,
    faults: Arc<Faults>,
    clock: Arc<ManualClock>,
    config: TopicConfig,
    backgrounds: Mutex<Vec<Background>>,
}

/// Jobs that wait hold their logs, which hold the threads that would do them: each log would keep its files open up to the end of the
/// tests.
impl Drop for Fixture {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        self.faults.room.store(-1, Ordering::Relaxed);
        self.faults.syncs_panic.store(false, Ordering::Relaxed);
        self.faults.before(|_, _| Ok(()));
        for background in self.backgrounds.lock().drain(..) {
            background.run_pending(Duration::from_secs(1_000_000));
        }
    }
}

impl Fixture {
    fn new() -> Fixture {
        Fixture::with(TopicConfig::default())
    }

    fn with(config: TopicConfig) -> Fixture {
        let (disk, faults) = FaultyDisk::with_faults();
        let dir = tempfile::tempdir().unwrap();
        Fixture { dir, disk, faults, clock: ManualClock::new(NOW_MS), config, backgrounds: Mutex::default() }
    }

    fn context(&self) -> LogContext {
        let background = Background::stepped();
        self.backgrounds.lock().push(background.clone());
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
            gaps_up_to: Offset(0),
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
            builder.append(base.wrapping_add(n), None, Some(b"value"), &[]);
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

/// All offsets that can be read.
fn offsets(log: &Log) -> Vec<i64> {
    let (mut next, end) = (log.log_start_offset().0, log.log_end_offset().0);
    let mut all = Vec::new();
    while next < end {
        let found = read(log, next, 1000, end);
        // The log may end behind a gap.
        let Some((_, last)) = found.last() else { break };
        next = last + 1;
        all.extend(found.iter().flat_map(|(first, last)| *first..=*last));
    }
    all
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
    assert_eq!(
        read.start.map(|start| (start.segment_base_offset, start.relative_position_in_segment)),
        Some((Offset(0), 0))
    );
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

/// A compacted topic with `max.compaction.lag.ms=100` and a long `segment.ms` was never compacted: its records stayed in the
/// active segment, which the cleaner leaves alone.
#[test]
fn rolls_when_records_are_due_for_compaction() {
    let compacted = CleanupPolicy { compact: true, delete: false };
    let of = |cleanup_policy, max_compaction_lag_ms| TopicConfig {
        cleanup_policy,
        max_compaction_lag_ms,
        ..Default::default()
    };
    let segments = |config: TopicConfig| {
        let fixture = Fixture::with(config);
        let log = fixture.open();
        for timestamp in [1000, 1100, 1101] {
            append(&log, batch(1, 1, timestamp));
        }
        log.segments().iter().map(|segment| segment.base_offset.0).collect::<Vec<_>>()
    };
    assert_eq!(segments(of(compacted, 100)), [0, 2]);
    assert_eq!(segments(of(compacted, 101)), [0]);
    assert_eq!(segments(of(compacted, 0)), [0]);
    assert_eq!(segments(of(CleanupPolicy { compact: false, delete: true }, 100)), [0]);
    assert_eq!(segments(TopicConfig { segment_ms: 50, ..of(compacted, 100) }), [0, 1]);
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
    // What no leader sends.
    for base in [i64::MAX - 2, -1, i64::MIN] {
        let error = log.append_as_follower(fetched(&[(base, 3)])).unwrap_err();
        assert!(matches!(error, AppendError::UnexpectedOffset { .. }), "{base}: {error}");
    }
    for offset in [-1, i64::MIN, i64::MAX] {
        let error = log.truncate_fully_and_start_at(Offset(offset)).unwrap_err();
        assert!(matches!(error, ChangeError::OutOfRange { .. }), "{offset}: {error}");
    }
    assert!(matches!(log.truncate_to(Offset(-1)), Err(ChangeError::OutOfRange { .. })));
    assert!(
        matches!(log.read(Offset(0), 10, Offset(i64::MIN), true, Wait::ForDisk), Ok(read) if read.slice.is_empty())
    );
    assert!(!log.is_offline());
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
