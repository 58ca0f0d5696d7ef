//! Gaps between segments after a crash: which of them mean that records were lost.

use super::*;
use crate::storage::file_name::{FileKind, FileName};
use crate::telemetry::LogCapture;

/// Two segments, of which the first one lacks its end: a power loss took the batch from 3 to 5, or compaction has.
fn torn(fixture: &Fixture) {
    let log = fixture.open();
    append(&log, batch(3, 10, 0));
    let whole = log.size();
    append(&log, batch(3, 10, 0));
    log.roll().unwrap();
    append(&log, batch(3, 10, 0));
    let first = FileName::new(Offset(0), FileKind::Log).path_in(&log.dir());
    drop(log);
    std::fs::File::options().write(true).open(first).unwrap().set_len(whole).unwrap();
}

fn recover(fixture: &Fixture, params: LogParams) -> (Arc<Log>, RecoveryReport) {
    Log::open(&fixture.context(), LogParams { clean_shutdown: false, ..params }).unwrap()
}

fn is_told(report: &RecoveryReport) -> bool {
    report.repairs.iter().any(|repair| repair.found.contains("are missing before it"))
}

/// What was on disk was not taken by a crash, and where a log was cleaned gaps are the rule, though its topic is not compacted any more.
/// Such a log was cut off at its first gap where others had the records, and an operator told that records were missing.
#[test]
fn only_what_may_not_have_been_on_disk_is_lost() {
    for (recovery_point, gaps_up_to, is_lost) in
        [(0, 0, true), (3, 0, true), (5, 5, true), (6, 0, false), (0, 6, false), (9, 0, false), (3, 9, false)]
    {
        for damage in [DamagePolicy::CutOff, DamagePolicy::KeepReadable] {
            let fixture = Fixture::new();
            torn(&fixture);
            let (recovery_point, gaps_up_to) = (Offset(recovery_point), Offset(gaps_up_to));
            let params = LogParams { recovery_point, gaps_up_to, damage, ..fixture.params() };
            let (log, report) = recover(&fixture, params);
            let end = if is_lost && damage.cuts_off() { 3 } else { 9 };
            let case = format!("{recovery_point} {gaps_up_to} {damage:?}: {report:?}");
            assert_eq!((log.log_end_offset(), is_told(&report)), (Offset(end), is_lost), "{case}");
        }
    }
}

/// The log ends before what a checkpoint says was on disk: then nothing below that is beyond doubt either.
#[test]
fn a_disk_that_lost_what_was_on_it_is_asked_everywhere() {
    let fixture = Fixture::new();
    torn(&fixture);
    let damage = DamagePolicy::CutOff;
    let (log, report) = recover(&fixture, LogParams { recovery_point: Offset(12), damage, ..fixture.params() });
    assert_eq!((log.log_end_offset(), is_told(&report)), (Offset(3), true), "{report:?}");
}

/// A follower has the gaps of its leader, whose log was compacted, and neither cleaned it itself nor had it on disk.
#[test]
fn gaps_that_came_with_the_batches_are_no_loss() {
    let fixture = Fixture::new();
    let follow = |log: &Log, at: &[i64]| {
        let bases: Vec<(i64, i32)> = at.iter().map(|base| (*base, 0)).collect();
        log.append_as_follower(fetched(&bases)).unwrap();
    };
    let log = fixture.open();
    follow(&log, &[0, 6]);
    log.roll().unwrap();
    drop(log);
    // Where the leader's next segment begins is where this one does.
    let dir = fixture.params().dir;
    for kind in [FileKind::Log, FileKind::OffsetIndex, FileKind::TimeIndex, FileKind::Snapshot] {
        let name = |base| FileName::new(Offset(base), kind).path_in(&dir);
        std::fs::rename(name(9), name(12)).unwrap();
    }
    let damage = DamagePolicy::CutOff;
    let (log, report) = recover(&fixture, LogParams { damage, ..fixture.params() });
    assert_eq!((log.segments().len(), is_told(&report)), (2, false), "{report:?}");
    // Below the recovery point they say nothing of what was appended since.
    let at = LogParams { recovery_point: Offset(9), damage, ..fixture.params() };
    drop(log);
    let (log, report) = recover(&fixture, at);
    assert_eq!((log.segments().len(), is_told(&report)), (1, true), "{report:?}");
}

/// A batch from which compaction has taken records says so, too.
#[test]
fn a_batch_that_lacks_records_shows_compaction() {
    for last_offset_delta in [2u8, 5] {
        let fixture = Fixture::new();
        let mut builder = RecordBatchBuilder::new(Offset(0)).leader_epoch(LeaderEpoch(0));
        (0..3).for_each(|n| builder.append(n, None, Some(b"value"), &[]));
        let mut bytes = builder.build().to_vec();
        bytes[26] = last_offset_delta;
        let crc = crc32c::crc32c(&bytes[21..]);
        bytes[17..21].copy_from_slice(&crc.to_be_bytes());
        let log = fixture.open();
        log.append_as_follower(as_given(bytes.into())).unwrap();
        append(&log, batch(3, 10, 0));
        let end = log.size();
        append(&log, batch(3, 10, 0));
        log.roll().unwrap();
        append(&log, batch(3, 10, 0));
        let first = FileName::new(Offset(0), FileKind::Log).path_in(&log.dir());
        drop(log);
        std::fs::File::options().write(true).open(first).unwrap().set_len(end).unwrap();
        for damage in [DamagePolicy::KeepReadable, DamagePolicy::CutOff] {
            let (_, report) = recover(&fixture, LogParams { damage, ..fixture.params() });
            // Of a lone replica somebody is told once too often, not once too few.
            assert_eq!(is_told(&report), last_offset_delta == 2 || !damage.cuts_off(), "{damage:?}: {report:?}");
        }
    }
}

/// Brokers before Kafka 1.1 made such segments (KAFKA-6264): of three batches in front of a gap that no index can bridge, and three behind
/// it. What was behind it was taken for damage.
fn outgrown(fixture: &Fixture) -> Vec<i64> {
    let far = i64::from(i32::MAX) + 1000;
    let bases = |from: i64| [from, from + 3, from + 6];
    let follow = |log: &Log, from| {
        let batches = bases(from).map(|base| (base, 0));
        log.append_as_follower(fetched(&batches)).unwrap();
    };
    let log = fixture.open();
    follow(&log, 0);
    follow(&log, far);
    log.roll().unwrap();
    follow(&log, far + 9);
    let segments = log.segments();
    assert_eq!(segments.len(), 3, "{segments:?}");
    let [first, second] = [0, 1].map(|n| FileName::new(segments[n].base_offset, FileKind::Log).path_in(&log.dir()));
    log.close().unwrap();
    let both = [std::fs::read(&first).unwrap(), std::fs::read(&second).unwrap()].concat();
    std::fs::write(&first, both).unwrap();
    for kind in ["log", "index", "timeindex"] {
        std::fs::remove_file(second.with_extension(kind)).unwrap();
    }
    [0, far, far + 9].into_iter().flat_map(bases).collect()
}

#[test]
fn offsets_that_no_index_can_name_are_read_and_kept() {
    for (clean_shutdown, recovery_point, damage, lacks_indexes, compact) in [
        (true, true, DamagePolicy::KeepReadable, false, false),
        (true, true, DamagePolicy::KeepReadable, true, false),
        (false, false, DamagePolicy::KeepReadable, false, false),
        (false, true, DamagePolicy::KeepReadable, true, false),
        (false, false, DamagePolicy::CutOff, false, false),
        (false, true, DamagePolicy::CutOff, false, false),
        (false, false, DamagePolicy::KeepReadable, false, true),
        (false, false, DamagePolicy::CutOff, false, true),
        (false, true, DamagePolicy::CutOff, true, true),
    ] {
        let case = format!("{clean_shutdown} {recovery_point} {damage:?} {lacks_indexes} {compact}");
        let cleanup_policy = CleanupPolicy { compact, delete: true };
        let fixture = Fixture::with(TopicConfig { index_interval_bytes: 1, cleanup_policy, ..TopicConfig::default() });
        let bases = outgrown(&fixture);
        let end = bases.last().unwrap() + 3;
        if lacks_indexes {
            std::fs::remove_file(fixture.params().dir.join(format!("{:020}.index", 0))).unwrap();
        }
        let recovery_point = Offset(if recovery_point { end } else { 0 });
        let mut params = LogParams { clean_shutdown, recovery_point, damage, ..fixture.params() };
        for again in [false, true] {
            let capture = LogCapture::start();
            let context = fixture.context();
            let (log, report) = Log::open(&context, params).unwrap();
            let repairs = usize::from(lacks_indexes && !again);
            assert_eq!((report.repairs.len(), report.bytes_removed), (repairs, 0), "{case}: {report:?}");
            assert_eq!((log.log_end_offset(), log.segments().len()), (Offset(end), 2), "{case}");
            for _ in 0..2 {
                for base in &bases {
                    for offset in *base..base + 3 {
                        assert_eq!(read(&log, offset, 1, end), [(*base, base + 2)], "{case}");
                        // Their times are their offsets.
                        let found = log.offset_for_timestamp(offset).unwrap().map(|found| found.offset);
                        assert_eq!(found, Some(Offset(offset)), "{case}");
                    }
                }
                assert_eq!(log.max_timestamp_offset().unwrap().unwrap().offset, Offset(end - 1), "{case}");
                context.background.run_pending(Duration::ZERO);
            }
            // By how old its last record is the segment stays.
            let config = TopicConfig { retention_ms: 1000, ..TopicConfig::default() };
            log.update_config(Arc::new(config));
            assert_eq!(log.delete_old_segments(bases[5] + 1002, Offset(end)).unwrap(), 0, "{case}");
            log.close().unwrap();
            let told = capture.take().into_iter().filter(|event| event.level <= tracing::Level::WARN);
            assert_eq!(told.map(|event| event.text).collect::<Vec<_>>(), [] as [String; 0], "{case}");
            params = LogParams { recovery_point: Offset(end), ..fixture.params() };
        }
    }
}
