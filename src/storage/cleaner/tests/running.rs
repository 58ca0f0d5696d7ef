//! Cleaning while other things go on: the threads, their settings, and a log that changes under them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use bytes::Bytes;

use super::*;
use crate::clock::{ManualClock, SystemClock};
use crate::config::TopicConfig;
use crate::config::topic::CleanupPolicy;
use crate::record::builder::RecordBatchBuilder;
use crate::record::control::{ControlRecord, EndTxnMarker};
use crate::storage::background::Background;
use crate::storage::checkpoint::{CLEANER_OFFSETS, OffsetCheckpointFile};
use crate::storage::disk::{Disk, RealDisk};
use crate::storage::faulty_disk::FaultyDisk;
use crate::storage::file_cache::FileCache;
use crate::storage::log::{AppendContext, LogParams};
use crate::storage::manager::{HostedPartition, LogManagerConfig, NewLog};
use crate::storage::producer_state::ProducerStateConfig;
use crate::storage::recovery::DamagePolicy;
use crate::storage::validate::{AppendOrigin, ValidatedBatch, ValidatedRecords};
use crate::types::{DirectoryId, LeaderEpoch, ProducerEpoch, ProducerId, TopicId};

fn compacted() -> TopicConfig {
    TopicConfig {
        cleanup_policy: CleanupPolicy { compact: true, delete: false },
        segment_bytes: 4000,
        index_interval_bytes: 300,
        min_cleanable_dirty_ratio: 0.01,
        ..TopicConfig::default()
    }
}

fn write(log: &Log, builder: RecordBatchBuilder, origin: AppendOrigin) -> Offset {
    let (header, body) = builder.build_parts();
    let batch = ValidatedBatch { header, body: Bytes::copy_from_slice(&body) };
    let records = ValidatedRecords {
        size_in_bytes: batch.size_in_bytes(),
        max_timestamp: batch.header.max_timestamp(),
        log_append_time_ms: None,
        as_given: None,
        batches: vec![batch],
    };
    log.append_as_leader(records, LeaderEpoch(0), origin, AppendContext::default()).unwrap().first_offset
}

/// A batch of `count` records of `keys` keys.
fn append(log: &Log, count: i64, keys: i64) -> Offset {
    let mut builder = RecordBatchBuilder::new(Offset(0));
    let base = log.log_end_offset().0;
    for n in 0..count {
        let key = format!("key {}", (base + n) % keys);
        builder.append(1_000 + base + n, Some(key.as_bytes()), Some(&[7; 100]), &[]);
    }
    write(log, builder, AppendOrigin::Client)
}

fn fill(log: &Log, batches: usize) {
    for _ in 0..batches {
        append(log, 5, 20);
    }
    log.on_high_watermark(log.log_end_offset());
}

fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < Duration::from_secs(30), "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// One log, cleaned by hand.
struct Single {
    dir: tempfile::TempDir,
    context: LogContext,
    log: Arc<Log>,
}

impl Single {
    fn new(disk: Arc<dyn Disk>, config: TopicConfig) -> Single {
        let dir = tempfile::tempdir().unwrap();
        let background = Background::stepped();
        let context = LogContext {
            files: FileCache::new(disk.clone(), background.clone(), 50),
            disk,
            clock: ManualClock::new(1_000_000),
            background,
        };
        let log = Single::open(&context, &dir, config, false);
        Single { dir, context, log }
    }

    fn open(context: &LogContext, dir: &tempfile::TempDir, config: TopicConfig, clean_shutdown: bool) -> Arc<Log> {
        let params = LogParams {
            dir: dir.path().join("t-0"),
            topic_partition: TopicPartition::new("t", 0),
            config: Arc::new(config),
            log_start_offset: Offset(0),
            recovery_point: Offset(0),
            gaps_up_to: Offset(0),
            clean_shutdown,
            damage: DamagePolicy::KeepReadable,
            producers: ProducerStateConfig { verification_enabled: false, ..ProducerStateConfig::default() },
            progress: None,
            on_failure: None,
        };
        Log::open(context, params).unwrap().0
    }

    fn clean(&self) -> Result<CleanStats, CleanError> {
        clean_if_due(&self.log, &self.context, &mut cleaner()).expect("it is due")
    }

    fn names(&self) -> Vec<String> {
        names(&self.dir.path().join("t-0"))
    }
}

/// Where the last record of each key is.
fn last_of_keys(log: &Log) -> BTreeMap<Vec<u8>, i64> {
    let mut last = BTreeMap::new();
    for bytes in read_batches(log) {
        for record in records(&RecordBatch::parse(&bytes).unwrap()) {
            last.insert(record.key.unwrap(), record.offset);
        }
    }
    last
}

fn sized(single: &Single) -> (u64, usize) {
    (single.log.size(), single.log.segments().len())
}

#[test]
fn a_read_that_is_under_way_ends_with_what_it_began_with() {
    let single = Single::new(RealDisk::new(), compacted());
    let producer = |transactional| {
        RecordBatchBuilder::new(Offset(0)).producer(ProducerId(9), ProducerEpoch(0), 0).transactional(transactional)
    };
    let mut builder = producer(true);
    builder.append(5, Some(b"k"), Some(b"aborted"), &[]);
    write(&single.log, builder, AppendOrigin::Client);
    let mut builder = RecordBatchBuilder::new(Offset(0))
        .producer(ProducerId(9), ProducerEpoch(0), -1)
        .transactional(true)
        .control(true);
    builder.append_control(6, &ControlRecord::EndTxn(EndTxnMarker { committed: false, coordinator_epoch: 0 }));
    write(&single.log, builder, AppendOrigin::Coordinator);
    fill(&single.log, 60);
    let end = single.log.log_end_offset();

    let read = single.log.read(Offset(0), 100_000, end, true, Wait::ForDisk).unwrap();
    let (mut before, mut after) = (BytesMut::new(), BytesMut::new());
    read.slice.read_into(&mut before).unwrap();
    let told = single.log.aborted_transactions_in(&read, Offset(0), Wait::ForDisk).unwrap();
    assert_eq!(told.len(), 1);
    let size = single.log.size();
    single.clean().unwrap();
    assert!(single.log.size() < size / 2);

    let minute = Duration::from_secs(60);
    for _ in 0..3 {
        after.clear();
        read.slice.read_into(&mut after).unwrap();
        assert_eq!(before, after);
        // The new files know nothing of a transaction of which nothing is left.
        assert_eq!(single.log.aborted_transactions_in(&read, Offset(0), Wait::ForDisk).unwrap(), told);
        single.context.background.run_pending(minute);
    }
    assert!(single.names().iter().any(|name| name.ends_with("deleted")), "somebody reads them");
    drop(read);
    single.context.background.run_pending(minute);
    assert_eq!(single.names().iter().filter(|name| name.ends_with("deleted")).count(), 0);
}

#[test]
fn what_takes_a_replaced_segments_name_is_not_read_as_that() {
    let single = Single::new(RealDisk::new(), compacted());
    fill(&single.log, 60);
    let first = single.log.segments.load()[0].clone();
    single.clean().unwrap();
    fill(&single.log, 60);
    single.clean().unwrap();
    // Its files had to make room for those of the segment that took its place, which is replaced now.
    assert_eq!(first.time_index().file().get().map(drop).unwrap_err().kind(), std::io::ErrorKind::NotFound);
    single.context.background.run_pending(Duration::from_secs(60));
    assert_eq!(single.names().iter().filter(|name| name.ends_with("deleted")).count(), 0);
}

#[test]
fn a_log_that_changes_is_not_cleaned_to_the_end() {
    type Change = fn(&Log);
    let changes: [(&str, Change); 5] = [
        ("closed", |log| log.close().unwrap()),
        ("deleted", |log| drop(log.delete().unwrap())),
        ("truncated", |log| assert!(log.truncate_to(log.log_end_offset().plus(-40)).unwrap())),
        ("begun anew", |log| log.truncate_fully_and_start_at(Offset(5000)).unwrap()),
        ("to be deleted by age", |log| log.update_config(Arc::new(TopicConfig::default()))),
    ];
    for (what, change) in changes {
        let single = Single::new(RealDisk::new(), compacted());
        fill(&single.log, 100);
        let before = sized(&single);
        // So slow that it would take minutes.
        let throttler = Arc::new(Throttler::new(1000.0, single.context.clock.monotonic()));
        let buffers = CleanerBuffers { dedupe_bytes: 1 << 16, dedupe_load_factor: 0.9, io_bytes: 4096 };
        let mut slow = Cleaner::new(buffers, throttler, Arc::default());
        let result = std::thread::scope(|scope| {
            let cleaning = scope.spawn(|| clean_if_due(&single.log, &single.context, &mut slow).unwrap());
            wait_until("the cleaning runs", || single.log.cleaning.is_running());
            std::thread::sleep(Duration::from_millis(20));
            assert!(single.log.delete_old_segments(i64::MAX, single.log.log_end_offset()).unwrap() == 0);
            let began = Instant::now();
            change(&single.log);
            let result = cleaning.join().unwrap();
            assert!(began.elapsed() < Duration::from_secs(5), "{what}");
            result
        });
        assert!(matches!(result, Err(CleanError::Aborted)), "{what}: {result:?}");
        assert_eq!(single.log.cleaned_offset(), None, "{what}");
        if what == "to be deleted by age" || what == "closed" {
            assert_eq!(sized(&single), before, "{what}");
        }
        let dir = single.log.dir();
        assert!(names(&dir).iter().all(|name| !name.ends_with("cleaned")), "{what}: {:?}", names(&dir));
    }
}

/// The exchange itself looks again: a segment may be truncated between the last look of the cleaning and then.
#[test]
fn what_was_cleaned_of_a_truncated_log_is_not_put_in_place() {
    let single = Single::new(RealDisk::new(), compacted());
    fill(&single.log, 60);
    let truncations = single.log.truncations();
    let sources = Vec::clone(&single.log.segments.load());
    let cleaned = || {
        let cleaned =
            crate::storage::segment::LogSegment::create_cleaned(&single.context.files, &single.log.dir, Offset(0));
        Arc::new(cleaned.unwrap())
    };
    assert!(
        !single.log.replace_segments(&cleaned(), &sources, truncations).unwrap(),
        "the active segment is among them"
    );
    assert!(!single.log.replace_segments(&cleaned(), &[sources[0].clone(), sources[2].clone()], truncations).unwrap());
    let end = single.log.log_end_offset();
    single.log.truncate_to(end.plus(-1)).unwrap();
    assert!(!single.log.replace_segments(&cleaned(), &sources[..2], truncations).unwrap());
    assert!(single.log.replace_segments(&cleaned(), &sources[..2], single.log.truncations()).unwrap());
    assert_eq!(single.log.segments.load()[0].size(), 0);
    single.log.close().unwrap();
    assert!(!single.log.replace_segments(&cleaned(), &sources[3..4], single.log.truncations()).unwrap());
}

#[test]
fn a_full_disk_costs_only_the_cleaning() {
    let (disk, faults) = FaultyDisk::with_faults();
    let single = Single::new(disk, compacted());
    fill(&single.log, 60);
    let before = last_of_keys(&single.log);
    // Some of the cleaned bytes fit.
    faults.room.store(1500, Ordering::Relaxed);
    let result = single.clean();
    assert!(matches!(result, Err(CleanError::NoRoom(_))), "{result:?}");
    assert!(single.names().iter().all(|name| !name.ends_with("cleaned")));
    end_badly(&single.log, result.unwrap_err());
    assert!(!single.log.is_offline());
    // Groups that were done stay done.
    assert_eq!(last_of_keys(&single.log), before);
    faults.room.store(-1, Ordering::Relaxed);
    fill(&single.log, 1);
    assert!(single.clean().unwrap().records_written < 40);
}

/// The exchange of segments needs new names, and on some file systems room for them. Whichever of them cannot be had, the log goes on,
/// and another cleaning does what this one could not.
#[test]
fn an_exchange_for_which_there_is_no_room_takes_nothing_offline() {
    let mut refused = 0;
    for left in 0..100 {
        let (disk, faults) = FaultyDisk::with_faults();
        let single = Single::new(disk, compacted());
        fill(&single.log, 60);
        let before = last_of_keys(&single.log);
        faults.renames_left.store(left, Ordering::Relaxed);
        let result = single.clean();
        assert!(!single.log.is_offline(), "{left}: {result:?}");
        assert_eq!(last_of_keys(&single.log), before, "{left}");
        let was_enough = faults.renames_left.load(Ordering::Relaxed) >= 0;
        refused += usize::from(matches!(result, Err(CleanError::NoRoom(_))));
        assert!(single.names().iter().all(|name| !name.ends_with("cleaned")), "{:?}", single.names());

        faults.renames_left.store(i64::MAX, Ordering::Relaxed);
        fill(&single.log, 3);
        let before = last_of_keys(&single.log);
        single.clean().unwrap();
        assert_eq!(last_of_keys(&single.log), before, "{left}");
        let swaps = |name: &String| name.ends_with("swap");
        assert!(!single.names().iter().any(swaps), "{left}: {:?}", single.names());
        if was_enough {
            assert!(left > 10 && refused > 0, "{left}, {refused}");
            return;
        }
    }
    panic!("that many renames are not needed");
}

/// A thread's cleaner goes from log to log, however its work on the one before has ended.
#[test]
fn nothing_of_a_log_gets_into_the_next() {
    let of_next = |cleaner: &mut Cleaner| {
        let next = Single::new(RealDisk::new(), compacted());
        fill(&next.log, 60);
        clean_if_due(&next.log, &next.context, cleaner).unwrap().unwrap();
        read_batches(&next.log)
    };
    let expected = of_next(&mut cleaner());

    let mut used = cleaner();
    let damaged = Single::new(RealDisk::new(), compacted());
    for _ in 0..10 {
        append(&damaged.log, 5, 1000);
    }
    fill(&damaged.log, 60);
    clean_if_due(&damaged.log, &damaged.context, &mut used).unwrap().unwrap();
    // In what is clean already, so that it is met when some of it is written again.
    let path = damaged.dir.path().join("t-0/00000000000000000000.log");
    let mut bytes = std::fs::read(&path).unwrap();
    let last = batches(&bytes).map(|batch| batch.unwrap().bytes().len()).last().unwrap();
    assert!(bytes.len() > last, "there are batches before the damaged one");
    *bytes.last_mut().unwrap() ^= 1;
    std::fs::write(&path, bytes).unwrap();
    fill(&damaged.log, 60);
    let result = clean_if_due(&damaged.log, &damaged.context, &mut used).unwrap();
    assert!(matches!(result, Err(CleanError::Uncleanable(_))), "{result:?}");
    assert!(of_next(&mut used) == expected);

    let (disk, faults) = FaultyDisk::with_faults();
    let full = Single::new(disk, compacted());
    fill(&full.log, 60);
    for room in [0, 100, 1500] {
        faults.room.store(room, Ordering::Relaxed);
        let result = clean_if_due(&full.log, &full.context, &mut used).unwrap();
        assert!(matches!(result, Err(CleanError::NoRoom(_))), "{result:?}");
        assert!(of_next(&mut used) == expected, "{room}");
    }
    faults.room.store(-1, Ordering::Relaxed);
    clean_if_due(&full.log, &full.context, &mut used).unwrap().unwrap();
    assert!(read_batches(&full.log) == expected);
}

/// Readers get past a segment that was cut short; to write it anew would make the loss look like one of compaction.
#[test]
fn a_log_that_was_cut_short_is_set_aside() {
    let single = Single::new(RealDisk::new(), compacted());
    fill(&single.log, 60);
    let path = single.dir.path().join("t-0/00000000000000000000.log");
    let bytes = std::fs::read(&path).unwrap();
    single.log.close().unwrap();
    std::fs::write(&path, &bytes[..bytes.len() - 20]).unwrap();
    let log = Single::open(&single.context, &single.dir, compacted(), true);
    let left = read_batches(&log);
    for _ in 0..2 {
        let result = clean_if_due(&log, &single.context, &mut cleaner()).unwrap();
        assert!(matches!(result, Err(CleanError::Uncleanable(_))), "{result:?}");
        assert!(read_batches(&log) == left);
    }
}

/// No checksum covers a base offset. To merge what says that it lies in the next segment hid that segment's batches, and an
/// index in which offsets fall ended the only thread.
#[test]
fn batches_that_reach_into_the_next_segment_or_behind_the_log_are_set_aside() {
    for index_interval_bytes in [0, 1 << 20] {
        let config = TopicConfig { index_interval_bytes, ..compacted() };
        let single = Single::new(RealDisk::new(), config);
        fill(&single.log, 60);
        let before = read_batches(&single.log);
        let bases: Vec<Offset> = single.log.segments().iter().map(|segment| segment.base_offset).collect();
        let path = single.dir.path().join("t-0/00000000000000000000.log");
        let whole = std::fs::read(&path).unwrap();
        let mut last = 0;
        while let Ok(batch) = RecordBatch::parse(&whole[last..])
            && last + batch.bytes().len() < whole.len()
        {
            last += batch.bytes().len();
        }
        for offset in [bases[1].0 - 4, bases[1].0, bases[1].0 + 1, bases[2].0, single.log.log_end_offset().0 + 1000] {
            let bytes = [&whole[..last], &offset.to_be_bytes(), &whole[last + 8..]].concat();
            std::fs::write(&path, bytes).unwrap();
            let result = single.clean();
            assert!(matches!(result, Err(CleanError::Uncleanable(_))), "{offset}: {result:?}");
        }
        std::fs::write(&path, &whole).unwrap();
        assert!(read_batches(&single.log) == before);
        single.clean().unwrap();
    }
}

#[test]
fn a_cleaning_that_panics_costs_that_log_alone() {
    let (disk, faults) = FaultyDisk::with_faults();
    let broken = Single::new(disk, compacted());
    let sound = Single::new(RealDisk::new(), compacted());
    fill(&broken.log, 60);
    fill(&sound.log, 60);
    let mut cleaner = cleaner();
    faults.syncs_panic.store(true, Ordering::Relaxed);
    let result = clean_if_due(&broken.log, &broken.context, &mut cleaner).unwrap();
    assert!(matches!(result, Err(CleanError::Uncleanable(_))), "{result:?}");
    clean_if_due(&sound.log, &sound.context, &mut cleaner).unwrap().unwrap();
}

#[test]
fn a_disk_that_fails_takes_the_log_offline() {
    let (disk, faults) = FaultyDisk::with_faults();
    let single = Single::new(disk, compacted());
    fill(&single.log, 60);
    faults.reads_fail.store(true, Ordering::Relaxed);
    let result = single.clean();
    assert!(matches!(result, Err(CleanError::Io(_))), "{result:?}");
    end_badly(&single.log, result.unwrap_err());
    assert!(single.log.is_offline());
}

#[test]
fn batches_larger_than_the_buffers_make_them_grow() {
    let config = TopicConfig { segment_bytes: 100_000, ..compacted() };
    let single = Single::new(RealDisk::new(), config);
    for codec in [crate::record::compression::Codec::None, crate::record::compression::Codec::Zstd] {
        let mut builder = RecordBatchBuilder::new(Offset(0)).compression(codec, 3);
        let value: Vec<u8> = (0..30_000_u32).map(|n| ((n * n) >> 3) as u8).collect();
        builder.append(1, Some(b"large"), Some(&value), &[]);
        builder.append(1, Some(b"other"), Some(&value), &[]);
        write(&single.log, builder, AppendOrigin::Client);
    }
    single.log.roll().unwrap();
    single.log.on_high_watermark(single.log.log_end_offset());
    let mut cleaner = cleaner();
    let stats = clean_if_due(&single.log, &single.context, &mut cleaner).unwrap().unwrap();
    assert_eq!((stats.records_read, stats.records_written), (4, 2));
    let kept = read_batches(&single.log);
    assert_eq!(kept.iter().map(|b| RecordBatch::parse(b).unwrap().base_offset().0).collect::<Vec<_>>(), [2]);
}

#[test]
fn damage_and_old_formats_are_set_aside() {
    let single = Single::new(RealDisk::new(), compacted());
    fill(&single.log, 60);
    let path = single.dir.path().join("t-0/00000000000000000000.log");
    let whole = std::fs::read(&path).unwrap();
    let damage: [(&str, Vec<u8>); 4] = [
        ("checksum", [&whole[..200], &[whole[200] ^ 1], &whole[201..]].concat()),
        ("format v1", [&whole[..16], &[1], &whole[17..]].concat()),
        ("ends behind", [&whole[..8], &10_000_i32.to_be_bytes(), &whole[12..]].concat()),
        ("Invalid magic", [&whole[..16], &[9], &whole[17..]].concat()),
    ];
    for (reason, bytes) in damage {
        std::fs::write(&path, bytes).unwrap();
        match single.clean() {
            Err(CleanError::Uncleanable(text)) => assert!(text.contains(reason) || text.contains("damaged"), "{text}"),
            result => panic!("{reason}: {result:?}"),
        }
        assert!(single.names().iter().all(|name| !name.ends_with("cleaned")));
    }
    std::fs::write(&path, &whole).unwrap();
    single.clean().unwrap();
}

/// Appends, reads from anywhere and cleanings side by side: whoever reads sees offsets grow, whole batches, and at the end
/// the last value of each key.
#[test]
fn appends_and_reads_go_on() {
    let single = Single::new(RealDisk::new(), TopicConfig { file_delete_delay_ms: 1, ..compacted() });
    fill(&single.log, 10);
    let is_over = AtomicBool::new(false);
    let log = &*single.log;
    std::thread::scope(|scope| {
        for reader in 0..2_i64 {
            let is_over = &is_over;
            scope.spawn(move || {
                let mut from = 0;
                while !is_over.load(Ordering::Relaxed) {
                    let end = log.log_end_offset();
                    from = (from * 31 + 7 + reader) % end.0;
                    let mut next = Offset(from);
                    while next < end {
                        let read = log.read(next, 3000, end, true, Wait::ForDisk).unwrap();
                        let mut bytes = BytesMut::new();
                        read.slice.read_into(&mut bytes).unwrap();
                        let before = next;
                        for batch in batches(&bytes) {
                            let batch = batch.unwrap();
                            assert!(batch.is_crc_valid() && batch.last_offset() >= next);
                            next = batch.last_offset().plus(1);
                        }
                        if next == before {
                            break;
                        }
                    }
                    assert!(log.offset_for_timestamp(1_000 + from).unwrap().is_some());
                }
            });
        }
        scope.spawn(|| {
            for _ in 0..400 {
                append(log, 5, 20);
                log.on_high_watermark(log.log_end_offset());
            }
            is_over.store(true, Ordering::Relaxed);
        });
        let mut cleanings = 0;
        while !is_over.load(Ordering::Relaxed) {
            if let Some(result) = clean_if_due(log, &single.context, &mut cleaner()) {
                result.unwrap();
                cleanings += 1;
            }
            single.context.background.run_pending(Duration::from_millis(2));
        }
        assert!(cleanings > 0);
    });
    let end = log.log_end_offset().0;
    assert_eq!(last_of_keys(log).into_values().collect::<std::collections::BTreeSet<_>>(), (end - 20..end).collect());
}

// --- threads -----------------------------------------------------------------------------------------------------------

/// A node's logs.
struct Node {
    root: tempfile::TempDir,
    logs: Arc<LogManager>,
}

impl Node {
    fn start(root: tempfile::TempDir) -> Node {
        let (disk, background) = (RealDisk::new(), Background::new(1));
        let files = FileCache::new(disk.clone(), background.clone(), 100);
        let context = LogContext { disk, clock: SystemClock::new(), files, background };
        let config = LogManagerConfig {
            log_dirs: vec![(root.path().join("data"), DirectoryId::random())],
            unusable: BTreeMap::new(),
            recovery_threads_per_data_dir: 1,
            file_delete_delay_ms: 0,
            producers: ProducerStateConfig::default(),
            on_failure: Arc::new(|failure| panic!("{failure:?}")),
        };
        let logs = LogManager::open(context, config).unwrap();
        let hosted = HostedPartition {
            topic_id: TopicId::random(),
            leader_epoch: LeaderEpoch(0),
            config: Arc::new(compacted()),
            damage: DamagePolicy::KeepReadable,
            directory: None,
        };
        logs.load(&|_, _| Some(hosted.clone()), Arc::new(|_| {}));
        Node { root, logs }
    }

    fn create(&self, topic: &str, config: TopicConfig) -> Arc<Log> {
        let new = NewLog {
            topic_id: TopicId::random(),
            config: Arc::new(config),
            damage: DamagePolicy::KeepReadable,
            directory: None,
            is_new: true,
        };
        self.logs.get_or_create(&TopicPartition::new(topic, 0), new).unwrap()
    }

    fn data(&self) -> PathBuf {
        self.root.path().join("data")
    }

    /// All is replicated.
    fn start_cleaner(&self, config: CleanerConfig) {
        let logs = Arc::downgrade(&self.logs);
        let all = move |partition: &TopicPartition| Some(logs.upgrade()?.get(partition).ok()?.log_end_offset());
        let logs = Arc::downgrade(&self.logs);
        let retention = move |now_ms: i64| {
            let Some(logs) = logs.upgrade() else { return };
            for (_, log) in logs.logs().into_iter().filter(|(_, log)| logs.is_cleaned(log)) {
                log.delete_old_segments(now_ms, log.log_end_offset()).unwrap();
            }
        };
        self.logs.start_cleaner(config, Arc::new(all), Arc::new(retention));
    }

    fn checkpoint(&self) -> BTreeMap<TopicPartition, Offset> {
        OffsetCheckpointFile::new(RealDisk::new(), &self.data(), CLEANER_OFFSETS).read().unwrap()
    }
}

fn config() -> CleanerConfig {
    CleanerConfig {
        enabled: true,
        threads: 2,
        dedupe_buffer_bytes: 4 << 20,
        dedupe_load_factor: 0.9,
        io_buffer_bytes: 64 << 10,
        io_max_bytes_per_second: f64::MAX,
        backoff_ms: 10,
    }
}

fn active_base(log: &Log) -> Offset {
    log.segments().last().unwrap().base_offset
}

#[test]
fn threads_clean_what_is_due_and_note_how_far() {
    let node = Node::start(tempfile::tempdir().unwrap());
    let (a, b) = (node.create("a", compacted()), node.create("b", compacted()));
    let deleted = node.create("deleted", TopicConfig { segment_bytes: 4000, ..TopicConfig::default() });
    let damaged = node.create("damaged", compacted());
    for log in [&a, &b, &deleted, &damaged] {
        fill(log, 60);
    }
    let path = node.data().join("damaged-0/00000000000000000000.log");
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[300] ^= 1;
    std::fs::write(&path, bytes).unwrap();

    node.start_cleaner(config());
    for log in [&a, &b] {
        wait_until("it is cleaned", || log.cleaned_offset() == Some(active_base(log)));
    }
    // One that cannot be cleaned does not keep the others from it, nor from its readers.
    wait_until("it is set aside", || damaged.cleaning.is_uncleanable.load(Ordering::Relaxed));
    assert_eq!((deleted.cleaned_offset(), damaged.cleaned_offset()), (None, None));
    assert!(!damaged.is_offline());
    let noted = || BTreeMap::from([&a, &b].map(|log| (log.topic_partition().clone(), active_base(log))));
    wait_until("it is noted", || node.checkpoint() == noted());
    // And again, when there is more.
    fill(&a, 60);
    wait_until("more is noted", || node.checkpoint() == noted());

    // A deleted topic's offsets are not for the next one of its name.
    node.logs.delete(&[TopicPartition::new("b", 0)]);
    assert_eq!(node.checkpoint().into_keys().collect::<Vec<_>>(), [TopicPartition::new("a", 0)]);
    let cleaned = a.cleaned_offset();
    drop((a, b, deleted, damaged));
    let Node { root, logs } = node;
    logs.shutdown(1, &BTreeMap::new());
    drop(logs);
    let node = Node::start(root);
    assert_eq!(node.logs.get(&TopicPartition::new("a", 0)).unwrap().cleaned_offset(), cleaned);
    node.logs.shutdown(1, &BTreeMap::new());
}

/// Retention came to compacted logs by `log.retention.check.interval.ms` alone, and passed over one that was being cleaned just then.
#[test]
fn retention_follows_each_look_of_a_thread() {
    let node = Node::start(tempfile::tempdir().unwrap());
    let policy = |compact, delete| CleanupPolicy { compact, delete };
    let with = |cleanup_policy| TopicConfig { cleanup_policy, retention_ms: 1, file_delete_delay_ms: 0, ..compacted() };
    let (both, compacted, deleted) = (
        node.create("both", with(policy(true, true))),
        node.create("compacted", with(policy(true, false))),
        node.create("deleted", with(policy(false, true))),
    );
    for log in [&both, &compacted, &deleted] {
        fill(log, 60);
        assert!(!node.logs.is_cleaned(log), "there is no cleaner yet");
    }
    assert!(compacted.advance_log_start_offset(active_base(&compacted)).unwrap());
    // Its threads wait for long once they have nothing to clean.
    node.start_cleaner(CleanerConfig { threads: 1, backoff_ms: 1000, ..config() });
    assert_eq!([&both, &compacted, &deleted].map(|log| node.logs.is_cleaned(log)), [true, true, false]);
    let end = both.log_end_offset();
    wait_until("all of it is deleted", || both.log_start_offset() == end);
    wait_until("what is before the start is deleted", || compacted.segments().len() == 1);
    assert_eq!(deleted.log_start_offset(), Offset(0));
    // Again, though there is nothing to clean.
    append(&both, 1, 1);
    wait_until("what came since is deleted", || both.log_start_offset() == end.plus(1));
    both.cleaning.is_uncleanable.store(true, Ordering::Relaxed);
    assert!(!node.logs.is_cleaned(&both), "others must see to it");
    node.logs.shutdown(1, &BTreeMap::new());
}

#[test]
fn settings_change_while_threads_run() {
    let node = Node::start(tempfile::tempdir().unwrap());
    let log = node.create("a", compacted());
    fill(&log, 60);
    // Nothing, for hours.
    let slow = CleanerConfig { io_max_bytes_per_second: 1.0, backoff_ms: 10_000_000, ..config() };
    node.start_cleaner(slow);
    wait_until("the cleaning runs", || log.cleaning.is_running());
    let fast = CleanerConfig { io_max_bytes_per_second: f64::MAX, ..slow };
    node.logs.update_cleaner(fast);
    wait_until("it is cleaned", || log.cleaned_offset() == Some(active_base(&log)));
    // Threads that sleep wake up for a shorter sleep.
    fill(&log, 60);
    node.logs.update_cleaner(config());
    wait_until("it is cleaned again", || log.cleaned_offset() == Some(active_base(&log)));
    // Other threads take their place.
    node.logs.update_cleaner(CleanerConfig { threads: 1, dedupe_buffer_bytes: 2 << 20, ..config() });
    fill(&log, 60);
    wait_until("it is cleaned by others", || log.cleaned_offset() == Some(active_base(&log)));
    // None at all.
    node.logs.update_cleaner(CleanerConfig { threads: 0, ..config() });
    wait_until("nobody is at it", || !log.cleaning.is_running());
    let began = Instant::now();
    node.logs.shutdown(1, &BTreeMap::new());
    assert!(began.elapsed() < Duration::from_secs(5));
}

/// The memory is for one set of threads.
#[test]
fn threads_begin_when_those_before_them_have_ended() {
    let node = Node::start(tempfile::tempdir().unwrap());
    fill(&node.create("a", compacted()), 60);
    let (looking, most, may_look) =
        (Arc::new(AtomicI64::new(0)), Arc::new(AtomicI64::new(0)), Arc::new(AtomicBool::new(false)));
    let high_watermarks: HighWatermarks = {
        let (looking, most, may_look) = (looking.clone(), most.clone(), may_look.clone());
        Arc::new(move |_| {
            most.fetch_max(looking.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            while !may_look.load(Ordering::SeqCst) {
                std::thread::sleep(Duration::from_millis(1));
            }
            looking.fetch_sub(1, Ordering::SeqCst);
            None
        })
    };
    let config = CleanerConfig { threads: 1, ..config() };
    let cleaner = LogCleaner::start(&node.logs, config, high_watermarks, Arc::new(|_| {}));
    wait_until("it looks", || looking.load(Ordering::SeqCst) == 1);
    for n in 1..4 {
        let dedupe_buffer_bytes = config.dedupe_buffer_bytes + n * 1000;
        cleaner.update(CleanerConfig { dedupe_buffer_bytes, ..config }, Duration::ZERO);
    }
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!(most.load(Ordering::SeqCst), 1);
    may_look.store(true, Ordering::SeqCst);
    cleaner.shutdown();
    assert_eq!(looking.load(Ordering::SeqCst), 0);
    node.logs.shutdown(1, &BTreeMap::new());
}

#[test]
fn a_node_that_stops_does_not_wait_for_a_cleaning() {
    let node = Node::start(tempfile::tempdir().unwrap());
    let log = node.create("a", compacted());
    fill(&log, 60);
    node.start_cleaner(CleanerConfig { io_max_bytes_per_second: 1.0, ..config() });
    wait_until("the cleaning runs", || log.cleaning.is_running());
    let began = Instant::now();
    node.logs.shutdown(1, &BTreeMap::new());
    assert!(began.elapsed() < Duration::from_secs(5));
    assert!(names(&node.data().join("a-0")).iter().all(|name| !name.ends_with("cleaned")));
}

#[test]
fn without_the_setting_nothing_is_cleaned() {
    let node = Node::start(tempfile::tempdir().unwrap());
    let log = node.create("a", compacted());
    fill(&log, 60);
    node.start_cleaner(CleanerConfig { enabled: false, ..config() });
    node.logs.update_cleaner(CleanerConfig { threads: 1, ..config() });
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!(log.cleaned_offset(), None);
    node.logs.shutdown(1, &BTreeMap::new());
}
