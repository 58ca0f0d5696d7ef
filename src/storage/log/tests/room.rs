//! What a log does on a disk that is full, but for appends. On some file systems a new name needs room, too, as on btrfs, or on
//! ext4 where a block of the directory is full.
//!
//! All of it took the log directory offline: retention above all, on the very disk that it was to empty.

use super::*;
use crate::storage::verify::{VerifyParams, verify};

/// Ten segments of one batch each.
fn ten_segments() -> (Fixture, LogContext, Arc<Log>) {
    let fixture = Fixture::with(TopicConfig { segment_bytes: 500, file_delete_delay_ms: 50, ..Default::default() });
    let context = fixture.context();
    let (log, _) = Log::open(&context, fixture.params()).unwrap();
    for n in 0..10 {
        append(&log, batch(1, 300, n));
    }
    assert_eq!(log.segments().len(), 10);
    (fixture, context, log)
}

/// There is room again: the log goes on, also after what was put off is done, and after a restart.
fn goes_on(fixture: &Fixture, context: &LogContext, log: Arc<Log>, expected: Vec<i64>) {
    assert!(!log.is_offline());
    assert_eq!(offsets(&log), expected);
    fixture.faults.renames_lack_room.store(false, Ordering::Relaxed);
    let mut expected = expected;
    for _ in 0..3 {
        expected.push(append(&log, batch(1, 300, 0)).first_offset.0);
    }
    log.flush(log.log_end_offset()).unwrap();
    context.background.run_pending(Duration::from_millis(100));
    assert_eq!(offsets(&log), expected);
    assert!(fixture.file_names().iter().all(|name| !name.ends_with(".deleted")));
    for in_order in [false, true] {
        let (log, report) = fixture.reopen(log.clone(), in_order);
        assert_eq!((report.repairs, offsets(&log)), (vec![], expected.clone()));
    }
}

/// The marker of an abort was refused when a part of its entry in the transaction index was written. No other abort came, so that
/// the part stayed in the index of a log that was closed in order.
#[test]
fn what_is_refused_leaves_no_part_of_it_in_any_file() {
    let mut room = 0;
    loop {
        let fixture = Fixture::new();
        let log = fixture.open();
        append(&log, transactions::produced(1, 0, 0, 1, true));
        fixture.faults.room.store(room, Ordering::Relaxed);
        let marker = transactions::marker(1, 0, false);
        let refused = log.append_as_leader(marker, LeaderEpoch(3), AppendOrigin::Coordinator, Default::default());
        fixture.faults.room.store(-1, Ordering::Relaxed);
        append(&log, batch(1, 10, 0));
        log.close().unwrap();
        let (dir, log_start_offset) = (fixture.params().dir, Offset(0));
        let params = VerifyParams { dir, log_start_offset, was_closed: true, is_set_aside: false };
        assert_eq!(verify(&fixture.disk, &params, &mut ()).unwrap().findings, [], "room for {room}");
        match refused {
            Ok(_) => break,
            Err(AppendError::NoRoom(_)) => room += 1,
            Err(error) => panic!("room for {room}: {error}"),
        }
    }
    assert!(room > 100, "{room}");
}

#[test]
fn retention_deletes_where_there_is_no_room_for_names() {
    for start in [7, 10] {
        let (fixture, context, log) = ten_segments();
        match start {
            // Of all of them.
            10 => log.update_config(Arc::new(TopicConfig { retention_ms: 0, ..(*log.config()).clone() })),
            _ => assert!(log.advance_log_start_offset(Offset(start)).unwrap()),
        }
        let before = fixture.file_names().len();
        fixture.faults.renames_lack_room.store(true, Ordering::Relaxed);
        assert_eq!(log.delete_old_segments(NOW_MS, Offset(10)).unwrap(), start as usize);
        // That is what it is for: nothing waits for a delay.
        assert!(fixture.file_names().len() <= before - 3 * (start as usize - 1));
        log.update_config(Arc::new(fixture.config.clone()));
        goes_on(&fixture, &context, log, (start..10).collect());
    }
}

#[test]
fn a_log_is_truncated_where_there_is_no_room_for_names() {
    let (fixture, context, log) = ten_segments();
    fixture.faults.renames_lack_room.store(true, Ordering::Relaxed);
    assert!(log.truncate_to(Offset(4)).unwrap());
    goes_on(&fixture, &context, log, (0..4).collect());
}

#[test]
fn a_log_begins_anew_where_there_is_no_room_for_names() {
    // At the name of an old segment, of none, and behind all.
    for at in [0, 6, 10, 100] {
        let (fixture, context, log) = ten_segments();
        fixture.faults.renames_lack_room.store(true, Ordering::Relaxed);
        log.truncate_fully_and_start_at(Offset(at)).unwrap();
        assert_eq!((log.log_start_offset(), log.log_end_offset()), (Offset(at), Offset(at)));
        goes_on(&fixture, &context, log, vec![]);
    }
}

/// Where the checkpoints cannot be corrected, nothing has happened.
#[test]
fn what_cannot_be_noted_is_not_truncated() {
    for anew in [false, true] {
        let (fixture, context, log) = ten_segments();
        let is_full = fixture.faults.clone();
        log.on_shortened(Box::new(move || match is_full.renames_lack_room.load(Ordering::Relaxed) {
            true => Err(io::Error::from_raw_os_error(libc::ENOSPC)),
            false => Ok(()),
        }));
        log.advance_log_start_offset(Offset(3)).unwrap();
        log.flush(Offset(10)).unwrap();
        log.note_recovery_point();
        fixture.faults.renames_lack_room.store(true, Ordering::Relaxed);
        let refused = match anew {
            true => log.truncate_fully_and_start_at(Offset(1)),
            false => log.truncate_to(Offset(5)).map(drop),
        };
        assert!(matches!(refused, Err(ChangeError::NoRoom(_))), "{refused:?}");
        assert_eq!(log.log_start_offset(), Offset(3));
        goes_on(&fixture, &context, log, (3..10).collect());
    }
}

#[test]
fn a_roll_is_refused_and_tried_again() {
    let (fixture, context, log) = ten_segments();
    fixture.faults.room.store(0, Ordering::Relaxed);
    assert!(matches!(log.roll(), Err(ChangeError::NoRoom(_))));
    fixture.faults.room.store(-1, Ordering::Relaxed);
    assert_eq!(log.roll().unwrap(), Offset(10));
    goes_on(&fixture, &context, log, (0..10).collect());
}
