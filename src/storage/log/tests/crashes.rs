//! What the crash simulation has found, each by itself.

use std::path::Path;

use parking_lot::Mutex;

use super::*;
use crate::storage::file_name::{FileKind, FileName, FileState};
use crate::storage::leader_epochs::{self, EpochEntry};
use crate::storage::simulated_disk::{Crash, Fault, SimulatedDisk};

const DIR: &str = "/logs/t-0";

/// The log on a simulated disk, after the process or the power went: with what a checkpoint would say of the log before.
fn open(disk: &SimulatedDisk, recovery_point: i64, damage: DamagePolicy) -> (LogContext, Arc<Log>, RecoveryReport) {
    try_open(disk, recovery_point, damage).unwrap()
}

fn try_open(
    disk: &SimulatedDisk,
    recovery_point: i64,
    damage: DamagePolicy,
) -> Result<(LogContext, Arc<Log>, RecoveryReport), LogOpenError> {
    open_with(disk, |params| LogParams { recovery_point: Offset(recovery_point), damage, ..params })
}

fn open_with(
    disk: &SimulatedDisk,
    params: impl FnOnce(LogParams) -> LogParams,
) -> Result<(LogContext, Arc<Log>, RecoveryReport), LogOpenError> {
    let fixture = Fixture::with(TopicConfig { index_interval_bytes: 0, ..TopicConfig::default() });
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    let background = Background::stepped();
    let files = FileCache::new(disk.clone(), background.clone(), 8);
    let context = LogContext { files, disk, clock: fixture.clock.clone(), background };
    let params = params(LogParams { dir: DIR.into(), clean_shutdown: false, ..fixture.params() });
    let (log, report) = Log::open(&context, params)?;
    Ok((context, log, report))
}

fn disk() -> SimulatedDisk {
    let disk = SimulatedDisk::new();
    disk.create_dir_all(Path::new("/logs")).unwrap();
    disk.sync_dir(Path::new("/")).unwrap();
    disk
}

fn path(base_offset: i64, kind: FileKind) -> std::path::PathBuf {
    FileName::new(Offset(base_offset), kind).path_in(Path::new(DIR))
}

/// A node was killed and started again. What the first process had written and not synced counted as synced: the flush that
/// followed did nothing, was acknowledged, and the power loss after it took the records.
#[test]
fn what_survives_a_kill_is_synced_by_the_next_flush() {
    let first = disk();
    let (_, log, _) = open(&first, 0, DamagePolicy::KeepReadable);
    append(&log, batch(3, 10, 0));
    let second = first.restart(Crash::Kill, 1);
    let (_, log, _) = open(&second, 0, DamagePolicy::KeepReadable);
    assert_eq!(log.log_end_offset(), Offset(3));
    log.flush(Offset(3)).unwrap();
    for seed in 0..20 {
        let third = second.restart(Crash::PowerLoss, seed);
        let (_, log, report) = open(&third, 3, DamagePolicy::KeepReadable);
        assert_eq!((log.log_end_offset(), report.repairs), (Offset(3), vec![]));
        assert_eq!(read(&log, 0, 1000, 3), [(0, 2)]);
    }
}

/// The power went after a roll: the new segment was on disk and the end of the one before it not, at a batch's boundary.
/// Readers went from one to the other as if nothing had been between.
#[test]
fn the_lost_end_of_a_sealed_segment_is_noticed() {
    for damage in [DamagePolicy::KeepReadable, DamagePolicy::CutOff] {
        let first = disk();
        let (context, log, _) = open(&first, 0, damage);
        append(&log, batch(3, 10, 0));
        let kept = log.size();
        append(&log, batch(3, 10, 0));
        log.roll().unwrap();
        append(&log, batch(3, 10, 0));
        context.disk.open(&path(0, FileKind::Log), OpenMode::ReadWrite).unwrap().set_len(kept).unwrap();
        let second = first.restart(Crash::Kill, 1);
        let (_, log, report) = open(&second, 0, damage);
        assert!(report.repairs.iter().any(|repair| repair.found.contains("from 3 to 6 are missing")), "{report:?}");
        match damage {
            DamagePolicy::KeepReadable => assert_eq!(read(&log, 3, 1000, 9), [(6, 8)]),
            DamagePolicy::CutOff | DamagePolicy::CutOffKeepingCopy => assert_eq!(log.log_end_offset(), Offset(3)),
        }
        // Once is enough.
        log.flush(log.log_end_offset()).unwrap();
        let end = log.log_end_offset();
        let third = second.restart(Crash::PowerLoss, 1);
        let (_, log, report) = open(&third, end.0, damage);
        assert_eq!((log.log_end_offset(), report.repairs), (end, vec![]));
    }
}

/// The index of a segment that ends where the log is flushed to was not synced, and nobody looked at it again: a time that is
/// in the segment was not found.
#[test]
fn the_indexes_of_a_segment_that_was_flushed_and_then_sealed_are_looked_at() {
    for seed in 0..20 {
        let first = disk();
        let (_, log, _) = open(&first, 0, DamagePolicy::KeepReadable);
        (0..4).for_each(|n| {
            append(&log, batch(1, 10, 100 * n));
        });
        log.flush(Offset(4)).unwrap();
        log.roll().unwrap();
        // Killed before a job could sync what the roll has left; and then the power goes.
        let second = first.restart(Crash::Kill, seed);
        let (_, log, _) = open(&second, 4, DamagePolicy::KeepReadable);
        append(&log, batch(1, 10, 1000));
        log.flush(Offset(5)).unwrap();
        let third = second.restart(Crash::PowerLoss, seed);
        let (_, log, _) = open(&third, 5, DamagePolicy::KeepReadable);
        assert_eq!(log.offset_for_timestamp(250).unwrap().map(|found| found.offset), Some(Offset(3)));
    }
}

/// Records were deleted, and the epochs cut to the new start; that start was not noted when the node was killed. The records
/// that were back had no epoch.
#[test]
fn records_that_come_back_before_the_start_have_their_epoch() {
    let first = disk();
    let (context, log, _) = open(&first, 0, DamagePolicy::KeepReadable);
    append(&log, batch(3, 10, 0));
    log.assign_epoch(LeaderEpoch(5), Offset(3)).unwrap();
    log.append_as_leader(batch(3, 10, 0), LeaderEpoch(5), AppendOrigin::Client, AppendContext::default()).unwrap();
    log.advance_log_start_offset(Offset(4)).unwrap();
    context.background.run_pending(Duration::ZERO);
    let second = first.restart(Crash::Kill, 1);
    let (_, log, _) = open(&second, 0, DamagePolicy::KeepReadable);
    assert_eq!(log.log_start_offset(), Offset(0));
    let epochs = [0, 2, 3, 5].map(|offset| log.leader_epoch_at(Offset(offset)).map(|epoch| epoch.0));
    assert_eq!(epochs, [Some(3), Some(3), Some(5), Some(5)]);
}

/// A follower was killed while it truncated, and had appended what its new leader sent; then the power went. Of the old
/// records those were back that no new one had overwritten, and stood behind the new ones as if they belonged there.
#[test]
fn old_records_behind_those_of_a_later_epoch_are_cut_off() {
    let first = disk();
    let (context, log, _) = open(&first, 0, DamagePolicy::CutOff);
    log.append_as_follower(fetched(&[(0, 1), (3, 1), (6, 1)])).unwrap();
    // The second batch anew, in a later epoch, where the first one of the old ones stood.
    let size = log.size() / 3;
    let newer = fetched(&[(3, 2)]).as_given.unwrap();
    context.disk.open(&path(0, FileKind::Log), OpenMode::ReadWrite).unwrap().write_all_at(&newer, size).unwrap();
    let second = first.restart(Crash::Kill, 1);
    let (_, log, report) = open(&second, 0, DamagePolicy::CutOff);
    assert_eq!(log.log_end_offset(), Offset(6), "{report:?}");
    assert!(report.repairs[0].found.contains("has epoch 1, those before it 2"), "{report:?}");
}

/// Several segments were being deleted; the power went, and of their names those in the middle were gone and the first not.
/// That is no loss of records.
#[test]
fn an_interrupted_deletion_of_several_segments_is_completed() {
    let first = disk();
    let (context, log, _) = open(&first, 0, DamagePolicy::CutOff);
    for _ in 0..3 {
        append(&log, batch(3, 10, 0));
        log.roll().unwrap();
    }
    append(&log, batch(3, 10, 0));
    log.flush(Offset(12)).unwrap();
    log.advance_log_start_offset(Offset(6)).unwrap();
    let kept = [FileKind::Log, FileKind::OffsetIndex, FileKind::TimeIndex].map(|kind| path(0, kind));
    assert_eq!(log.delete_old_segments(NOW_MS, Offset(12)).unwrap(), 2);
    for name in &kept {
        let deleted = crate::storage::disk::with_suffix(name, ".deleted");
        context.disk.rename(&deleted, name).unwrap();
    }
    let second = first.restart(Crash::Kill, 1);
    let (_, log, report) = open(&second, 0, DamagePolicy::CutOff);
    assert_eq!((log.log_start_offset(), log.log_end_offset()), (Offset(6), Offset(12)), "{report:?}");
    assert!(report.repairs.iter().any(|repair| repair.found.contains("was being deleted")), "{report:?}");
}

/// The same where all of it was flushed, and lies below the recovery point: nobody looked for gaps there, and records that were
/// deleted were missing from between others.
#[test]
fn an_interrupted_deletion_of_flushed_segments_is_completed() {
    let mut completed = 0;
    for at in 0..30 {
        for seed in 0..20 {
            let first = disk();
            let (context, log, _) = open(&first, 0, DamagePolicy::CutOff);
            for _ in 0..4 {
                append(&log, batch(3, 10, 0));
                log.roll().unwrap();
            }
            append(&log, batch(3, 10, 0));
            log.flush(Offset(15)).unwrap();
            context.background.run_pending(Duration::from_secs(1));
            log.advance_log_start_offset(Offset(13)).unwrap();
            first.die_after(Some(at));
            let _ = log.delete_old_segments(NOW_MS, Offset(15));
            let second = first.restart(Crash::PowerLoss, seed);
            second.die_after(None);
            let (_, log, report) = open(&second, 15, DamagePolicy::CutOff);
            let start = log.log_start_offset().0;
            assert_eq!(offsets(&log), (start..15).collect::<Vec<_>>(), "{at}, {seed}: {:?}", log.segments());
            assert!(start <= 12 && log.log_end_offset() == Offset(15));
            completed += usize::from(report.repairs.iter().any(|repair| repair.found.contains("was being deleted")));
        }
    }
    assert!(completed > 10, "{completed}");
}

/// All records of a log were deleted, and it was begun anew behind them. A power loss took the name of the new segment and left the
/// names of the deleted ones: the log began at its first offset again.
#[test]
fn a_segment_has_its_name_before_those_before_it_lose_theirs() {
    for seed in 0..60 {
        let first = disk();
        let (context, log, _) = open(&first, 0, DamagePolicy::KeepReadable);
        append(&log, batch(3, 10, 0));
        log.flush(Offset(3)).unwrap();
        log.advance_log_start_offset(Offset(3)).unwrap();
        // The epochs are on disk then.
        context.background.run_pending(Duration::from_secs(1));
        log.roll().unwrap();
        assert_eq!(log.delete_old_segments(NOW_MS, Offset(3)).unwrap(), 1);
        let (_, log, report) = open(&first.restart(Crash::PowerLoss, seed), 0, DamagePolicy::KeepReadable);
        assert_eq!(log.log_end_offset(), Offset(3), "{seed}: {report:?}");
    }
}

/// What is in front of a gap is not thrown away unless everything says that it was being deleted: epochs may have begun anew, there
/// are names of deleted segments also behind what was cut off, and in what was compacted.
#[test]
fn what_is_before_a_gap_is_kept_unless_it_was_being_deleted() {
    let cases = [false, true].into_iter().flat_map(|name| [0, 6, 7].map(|epoch| (name, epoch, 0)));
    for (has_name, epoch_start, gaps_up_to) in cases.chain([(true, 6, 6), (true, 6, 5)]) {
        for recovery_point in [0, 9] {
            let first = disk();
            let (context, log, _) = open(&first, 0, DamagePolicy::KeepReadable);
            for _ in 0..2 {
                append(&log, batch(3, 10, 0));
                log.roll().unwrap();
            }
            append(&log, batch(3, 10, 0));
            log.flush(Offset(9)).unwrap();
            let deleted = crate::storage::disk::with_suffix(&path(3, FileKind::Log), ".deleted");
            context.disk.rename(&path(3, FileKind::Log), &deleted).unwrap();
            if !has_name {
                context.disk.remove_file(&deleted).unwrap();
            }
            let epoch = log.latest_epoch().unwrap();
            let text = leader_epochs::encode(&[EpochEntry { epoch, start_offset: Offset(epoch_start) }]);
            context
                .disk
                .write_file_atomically(&Path::new(DIR).join(leader_epochs::FILE_NAME), text.as_bytes())
                .unwrap();
            let second = first.restart(Crash::Kill, 1);
            let params = |params| LogParams {
                recovery_point: Offset(recovery_point),
                gaps_up_to: Offset(gaps_up_to),
                damage: DamagePolicy::KeepReadable,
                ..params
            };
            let (context, log, report) = open_with(&second, params).unwrap();
            let was_deleted = has_name && epoch_start >= 6 && gaps_up_to < 6;
            let expected = if was_deleted { vec![6, 7, 8] } else { vec![0, 1, 2, 6, 7, 8] };
            let case = format!("{has_name} {epoch_start} {gaps_up_to} {recovery_point}: {report:?}");
            assert_eq!(offsets(&log), expected, "{case}");
            assert!(!context.disk.exists(&deleted).unwrap(), "{case}");
        }
    }
}

/// A log of four segments was truncated, or a start had found damage in the second one. A crash took one of the segments behind that,
/// and left the next. Where compaction leaves gaps nobody noticed this one.
#[test]
fn a_compacted_log_loses_its_last_segments_from_the_end_on() {
    let compacted = |params| {
        let cleanup_policy = CleanupPolicy { compact: true, delete: false };
        let config = Arc::new(TopicConfig { cleanup_policy, ..TopicConfig::default() });
        LogParams { config, damage: DamagePolicy::CutOff, ..params }
    };
    let mut died = 0;
    for (is_damaged, at, seed) in
        [false, true].into_iter().flat_map(|is| (0..40).flat_map(move |at| (0..15).map(move |seed| (is, at, seed))))
    {
        let first = disk();
        let (context, log, _) = open_with(&first, compacted).unwrap();
        for _ in 0..3 {
            append(&log, batch(3, 10, 0));
            log.roll().unwrap();
        }
        append(&log, batch(3, 10, 0));
        log.flush(Offset(12)).unwrap();
        context.background.run_pending(Duration::from_secs(1));
        let second = match is_damaged {
            false => {
                first.die_after(Some(at));
                let _ = log.truncate_to(Offset(2));
                first.clone()
            }
            true => {
                context
                    .disk
                    .open(&path(3, FileKind::Log), OpenMode::ReadWrite)
                    .unwrap()
                    .write_all_at(&[9], 90)
                    .unwrap();
                let second = first.restart(Crash::Kill, seed);
                second.die_after(Some(at));
                drop(open_with(&second, compacted));
                second
            }
        };
        died += usize::from(second.is_dead());
        let crash = if seed == 0 { Crash::Kill } else { Crash::PowerLoss };
        let third = second.restart(crash, seed);
        third.die_after(None);
        let (_, log, _) = open_with(&third, compacted).unwrap();
        let found = offsets(&log);
        let end = log.log_end_offset().0;
        assert_eq!(found, (0..end).collect::<Vec<_>>(), "{is_damaged}, {at}, {seed}: {:?}", log.segments());
    }
    assert!(died > 300, "{died}");
}

/// A log began anew. A crash left some of its old segments, below the recovery point, where nobody saw the gap behind them: they had
/// been flushed, or somebody flushed the log while they were given other names, and noted that all was on disk up to its new beginning.
#[test]
fn what_is_left_of_a_log_that_begins_anew_is_not_taken_for_flushed() {
    let mut died = 0;
    let runs = (0..30).flat_map(|at| (0..6).flat_map(move |after| (0..5).map(move |seed| (at, after, seed))));
    for ((at, after, seed), to) in runs.flat_map(|run| [5, 9, 12].map(|to| (run, to))) {
        let first = disk();
        let (context, log, _) = open(&first, 0, DamagePolicy::CutOff);
        for _ in 0..3 {
            append(&log, batch(3, 10, 0));
            log.roll().unwrap();
        }
        context.background.run_pending(Duration::from_secs(1));
        log.flush(Offset(9)).unwrap();
        let noted = Arc::new(AtomicI64::new(log.note_recovery_point().0));
        let (noting, correcting) = (Arc::downgrade(&log), noted.clone());
        log.on_shortened(Box::new(move || {
            let recovery_point = noting.upgrade().map_or(0, |log| log.recovery_point().0);
            correcting.store(recovery_point, Ordering::Relaxed);
            Ok(())
        }));
        let (others, noting) = (noted.clone(), log.clone());
        let flush = move || {
            if noting.flush(noting.log_end_offset()).is_ok() {
                others.store(noting.note_recovery_point().0, Ordering::Relaxed);
            }
        };
        first.let_in(Some((after, Box::new(flush))));
        first.die_after(Some(at));
        let _ = log.truncate_fully_and_start_at(Offset(to));
        first.let_in(None);
        died += usize::from(first.is_dead());
        let second = first.restart(if seed == 0 { Crash::Kill } else { Crash::PowerLoss }, seed);
        second.die_after(None);
        let (_, log, _) = open(&second, noted.load(Ordering::Relaxed), DamagePolicy::CutOff);
        let (start, end) = (log.log_start_offset().0, log.log_end_offset().0);
        assert_eq!(
            offsets(&log),
            (start..end).collect::<Vec<_>>(),
            "{at}, {after}, {seed}, {to}: {:?}",
            log.segments()
        );
    }
    assert!(died > 500, "{died}");
}

/// A log could not begin anew before its start, as there was no room for the files of a new segment. The power loss brought the first of
/// them back, and the log ended there: all that was behind it went, though it had been flushed.
#[test]
fn what_could_not_begin_anew_does_not_come_back_as_a_beginning() {
    let mut refused = 0;
    for (at, seed) in (0..20).flat_map(|at| (0..20).map(move |seed| (at, seed))) {
        let first = disk();
        let (_, log, _) = open(&first, 0, DamagePolicy::CutOff);
        log.truncate_fully_and_start_at(Offset(5)).unwrap();
        append(&log, batch(3, 10, 0));
        log.flush(Offset(8)).unwrap();
        first.fail_after(Some((at, Fault::Full)));
        if !matches!(log.truncate_fully_and_start_at(Offset(2)), Err(ChangeError::NoRoom(_))) {
            continue;
        }
        refused += 1;
        first.make_room();
        let second = first.restart(Crash::PowerLoss, seed);
        let (_, log, report) = open(&second, log.recovery_point().0, DamagePolicy::CutOff);
        assert_eq!((offsets(&log), log.log_end_offset()), (vec![5, 6, 7], Offset(8)), "{at}, {seed}: {report:?}");
    }
    assert!(refused > 30, "{refused}");
}

/// The indexes of a segment were emptied, to be built anew, and got no entry. Nobody knew that there was something to sync, and a
/// power loss after an orderly end brought the old entries back.
#[test]
fn what_was_emptied_is_synced() {
    for seed in 0..20 {
        let first = disk();
        let (context, log, _) = open(&first, 0, DamagePolicy::CutOff);
        (0..3).for_each(|_| {
            append(&log, batch(3, 10, 0));
        });
        log.roll().unwrap();
        context.background.run_pending(Duration::from_secs(1));
        log.segments.load()[0].distrust("so it is told");
        log.truncate_to(Offset(3)).unwrap();
        log.close().unwrap();
        let second = first.restart(Crash::PowerLoss, seed);
        let closed = |params| LogParams { recovery_point: Offset(3), clean_shutdown: true, ..params };
        let (_, log, report) = open_with(&second, closed).unwrap();
        assert_eq!((report.repairs, log.log_end_offset()), (vec![], Offset(3)), "seed {seed}");
    }
}

/// The last thing before an orderly end was a roll. Its snapshot of the producers was not synced, and the power loss after
/// that end took it.
#[test]
fn closing_syncs_the_snapshot_of_a_roll() {
    for seed in 0..20 {
        let first = disk();
        let (_, log, _) = open(&first, 0, DamagePolicy::KeepReadable);
        append(&log, batch(3, 10, 0));
        log.roll().unwrap();
        log.close().unwrap();
        let second = first.restart(Crash::PowerLoss, seed);
        let disk: Arc<dyn Disk> = Arc::new(second.clone());
        let snapshot = disk.read_file(&path(3, FileKind::Snapshot), 1000).unwrap();
        crate::storage::producer_state::snapshot::decode(&snapshot).unwrap();
    }
}

/// The log was started anew just where its last segment began. A power loss brought back the snapshot there, and with it a
/// transaction of which the log had nothing.
#[test]
fn the_producers_of_before_do_not_come_back_to_a_log_that_was_started_anew() {
    for (seed, is_written_to) in (0..20).flat_map(|seed| [(seed, false), (seed, true)]) {
        let first = disk();
        let (_, log, _) = open(&first, 0, DamagePolicy::CutOff);
        append(&log, transactions::produced(7, 0, 0, 1, true));
        log.roll().unwrap();
        log.close().unwrap();
        let (_, log, _) = open(&first, 1, DamagePolicy::CutOff);
        assert!(log.with_producers(|producers| producers.entry(ProducerId(7)).is_some()));
        log.truncate_fully_and_start_at(Offset(1)).unwrap();
        if is_written_to {
            append(&log, batch(3, 10, 0));
        }
        let second = first.restart(Crash::PowerLoss, seed);
        let (_, log, _) = open(&second, 0, DamagePolicy::CutOff);
        assert_eq!(log.log_start_offset(), Offset(1));
        assert!(log.with_producers(|producers| producers.is_empty()), "with seed {seed}");
    }
}

/// A truncation below what a checkpoint calls flushed must correct it before anything is appended: a crash could tear that,
/// and nobody would look. And where a new segment takes the place of all, before there is one: a power loss may bring back old
/// ones that reach beyond it.
#[test]
fn a_truncation_has_the_checkpoints_corrected() {
    let (context, log, _) = open(&disk(), 0, DamagePolicy::CutOff);
    (0..3).for_each(|_| {
        append(&log, batch(3, 10, 0));
    });
    let corrected: Arc<Mutex<Vec<bool>>> = Arc::default();
    let seen = corrected.clone();
    log.on_shortened(Box::new(move || {
        seen.lock().push(context.disk.exists(&path(2, FileKind::Log))?);
        Ok(())
    }));
    log.flush(Offset(6)).unwrap();
    assert_eq!(log.note_recovery_point(), Offset(9));
    log.truncate_to(Offset(6)).unwrap();
    assert_eq!(*corrected.lock(), [false]);
    assert!(log.is_noted_wrong());
    log.truncate_fully_and_start_at(Offset(2)).unwrap();
    assert_eq!(*corrected.lock(), [false, false]);
}

/// A roll that failed had made the next segment's file, and removed it; records went on in the one before. The power loss brought
/// the empty file back, the log ended there, and the next records got offsets that others had.
#[test]
fn a_segment_that_was_given_up_does_not_come_back() {
    for damage in [DamagePolicy::KeepReadable, DamagePolicy::CutOff] {
        let first = disk();
        let (context, log, _) = open(&first, 0, damage);
        append(&log, batch(3, 10, 0));
        append(&log, batch(3, 10, 0));
        context.disk.open(&path(3, FileKind::Log), OpenMode::Create).unwrap();
        let second = first.restart(Crash::Kill, 1);
        let (_, log, report) = open(&second, 0, damage);
        assert_eq!((log.log_end_offset(), log.segments().len()), (Offset(6), 1), "{report:?}");
        assert_eq!(append(&log, batch(1, 10, 0)).first_offset, Offset(6));
    }
}

/// Compaction had put a segment in the place of another when its process was killed, and none of the new names was on disk. The
/// start removed the old one; the power loss took the new one.
#[test]
fn what_a_kill_had_renamed_is_on_disk_before_anything_is_removed() {
    for seed in 0..30 {
        let first = disk();
        let (context, log, _) = open(&first, 0, DamagePolicy::KeepReadable);
        append(&log, batch(3, 10, 0));
        log.flush(Offset(3)).unwrap();
        let (in_place, cleaned) = (path(0, FileKind::Log), path(0, FileKind::Log).with_extension("log.cleaned"));
        let file = context.disk.open(&cleaned, OpenMode::Create).unwrap();
        file.write_all_at(&context.disk.read_file(&in_place, 1000).unwrap(), 0).unwrap();
        file.sync_data().unwrap();
        context.disk.sync_dir(Path::new(DIR)).unwrap();
        context.disk.rename(&in_place, &in_place.with_extension("log.deleted")).unwrap();
        context.disk.rename(&cleaned, &in_place).unwrap();
        let second = first.restart(Crash::Kill, seed);
        let _ = open(&second, 3, DamagePolicy::KeepReadable);
        let third = second.restart(Crash::PowerLoss, seed);
        let (_, log, report) = open(&third, 3, DamagePolicy::KeepReadable);
        assert_eq!(log.log_end_offset(), Offset(3), "seed {seed}: {report:?}");
    }
}

/// The end of a log was cut off, which was not on disk, and the next epoch noted, which was. The power loss brought the end back, as
/// if it were of the new epoch: no follower would have cut it off.
#[test]
fn what_comes_back_is_of_the_epoch_that_its_batches_say() {
    let first = disk();
    let (context, log, _) = open(&first, 0, DamagePolicy::CutOff);
    append(&log, batch(3, 10, 0));
    append(&log, batch(3, 10, 0));
    log.flush(Offset(6)).unwrap();
    let text = leader_epochs::encode(&[
        EpochEntry { epoch: LeaderEpoch(3), start_offset: Offset(0) },
        EpochEntry { epoch: LeaderEpoch(4), start_offset: Offset(3) },
    ]);
    context.disk.write_file_atomically(&Path::new(DIR).join(leader_epochs::FILE_NAME), text.as_bytes()).unwrap();
    let second = first.restart(Crash::Kill, 1);
    let (_, log, report) = open(&second, 3, DamagePolicy::CutOff);
    assert_eq!(log.log_end_offset(), Offset(6), "{report:?}");
    assert_eq!([0, 3, 5].map(|offset| log.leader_epoch_at(Offset(offset))), [Some(LeaderEpoch(3)); 3]);
}

/// Of an index that nobody had synced a power loss left a page, with a hole before it. What it says below the recovery point was
/// believed.
#[test]
fn an_index_with_holes_is_not_believed() {
    let first = disk();
    let (context, log, _) = open(&first, 0, DamagePolicy::KeepReadable);
    (0..4).for_each(|_| {
        append(&log, batch(3, 10, 0));
    });
    log.close().unwrap();
    let index = context.disk.read_file(&path(0, FileKind::OffsetIndex), 1 << 20).unwrap();
    let second = first.restart(Crash::Kill, 1);
    let holed = [&[0; 8], &index[8..]].concat();
    second.open(&path(0, FileKind::OffsetIndex), OpenMode::Create).unwrap().write_all_at(&holed, 0).unwrap();
    let (context, log, _) = open(&second, 12, DamagePolicy::KeepReadable);
    log.close().unwrap();
    let entries = context.disk.read_file(&path(0, FileKind::OffsetIndex), 1 << 20).unwrap();
    let positions: Vec<&[u8]> = entries.chunks(8).map(|entry| &entry[4..]).collect();
    assert!(positions.iter().all(|position| *position != [0; 4]) && !positions.is_empty(), "{entries:?}");
}

/// A truncation took one of two segments away when the process was killed. The one behind it stayed, below the recovery point, where
/// nobody looked for what was missing before it.
#[test]
fn a_truncation_lowers_the_recovery_point_before_it_removes_anything() {
    let (context, log, _) = open(&disk(), 0, DamagePolicy::CutOff);
    for _ in 0..3 {
        append(&log, batch(3, 10, 0));
        log.roll().unwrap();
    }
    log.flush(Offset(9)).unwrap();
    log.note_recovery_point();
    let there: Arc<Mutex<Vec<bool>>> = Arc::default();
    let seen = there.clone();
    log.on_shortened(Box::new(move || {
        let mut seen = seen.lock();
        for base_offset in [3, 6] {
            seen.push(context.disk.exists(&path(base_offset, FileKind::Log))?);
        }
        Ok(())
    }));
    log.truncate_to(Offset(2)).unwrap();
    assert_eq!(*there.lock(), [true, true]);
}

/// A start completed an exchange of segments, and the power went: the new segment had its place, and one that it replaces was back
/// beside it. Below the recovery point nobody looks whether segments overlap.
#[test]
fn an_exchange_that_a_start_completes_does_not_end_with_the_same_offsets_twice() {
    let first = disk();
    let (context, log, _) = open(&first, 0, DamagePolicy::KeepReadable);
    for _ in 0..3 {
        append(&log, batch(3, 10, 0));
        log.roll().unwrap();
    }
    log.flush(Offset(9)).unwrap();
    context.background.run_pending(Duration::from_secs(1));
    let content = |disk: &dyn Disk, base_offset| disk.read_file(&path(base_offset, FileKind::Log), 1 << 20).unwrap();
    let cleaned = [content(&*context.disk, 0), content(&*context.disk, 3)].concat();
    for (kind, bytes) in [(FileKind::Log, &cleaned[..]), (FileKind::OffsetIndex, &[]), (FileKind::TimeIndex, &[])] {
        let swap = FileName::new(Offset(0), kind).with_state(FileState::Swap).path_in(Path::new(DIR));
        let file = context.disk.open(&swap, OpenMode::Create).unwrap();
        file.write_all_at(bytes, 0).unwrap();
        file.sync_data().unwrap();
    }
    context.disk.sync_dir(Path::new(DIR)).unwrap();

    let mut died = 0;
    for at in 0..30 {
        for seed in 0..40 {
            let second = first.restart(Crash::Kill, seed);
            second.die_after(Some(at));
            let opened = try_open(&second, 9, DamagePolicy::KeepReadable);
            if !second.is_dead() {
                opened.unwrap();
                continue;
            }
            died += 1;
            let third = second.restart(Crash::PowerLoss, seed);
            let (context, log, _) = open(&third, 9, DamagePolicy::KeepReadable);
            let bytes: Vec<u8> =
                log.segments().iter().flat_map(|segment| content(&*context.disk, segment.base_offset.0)).collect();
            let found: Vec<_> = batches(&bytes).map(|batch| batch.unwrap().base_offset().0).collect();
            assert_eq!(found, [0, 3, 6], "after {at} changes, seed {seed}: {:?}", log.segments());
        }
    }
    assert!(died > 100, "{died}");
}
