//! Blocks that are reserved ahead of the end of a segment: by a job, which may come when the segment takes no more. What it reserved
//! then stayed until the segment was deleted.

use std::os::unix::fs::MetadataExt;

use super::*;

const SEGMENT_BYTES: i32 = 16 << 20;

fn fixture(preallocate: bool) -> Fixture {
    Fixture::with(TopicConfig { segment_bytes: SEGMENT_BYTES, preallocate, ..Default::default() })
}

/// What each segment takes up on disk beyond its size.
fn surplus(log: &Log) -> Vec<u64> {
    let taken = |base_offset: Offset| {
        let metadata = std::fs::metadata(log.dir().join(format!("{base_offset:020}.log"))).unwrap();
        (metadata.blocks() * 512).saturating_sub(metadata.len().next_multiple_of(4096))
    };
    log.segments().iter().map(|segment| taken(segment.base_offset)).collect()
}

/// Enough to have blocks reserved.
fn append_much(log: &Log) {
    for _ in 0..9 {
        append(log, batch(1, 1 << 20, 0));
    }
}

#[test]
fn a_job_that_comes_late_reserves_nothing_for_a_sealed_segment() {
    for preallocate in [true, false] {
        let fixture = fixture(preallocate);
        let context = fixture.context();
        let (log, _) = Log::open(&context, fixture.params()).unwrap();
        append_much(&log);
        log.roll().unwrap();
        append_much(&log);
        for _ in 0..3 {
            log.roll().unwrap();
            append(&log, batch(1, 1, 0));
        }
        context.background.run_pending(Duration::ZERO);
        let (last, sealed) = { surplus(&log) }.split_last().map(|(last, sealed)| (*last, sealed.to_vec())).unwrap();
        assert_eq!(sealed, [0; 4]);
        assert_eq!(last > 1 << 20, preallocate);
        log.close().unwrap();
        assert_eq!(surplus(&log), [0; 5]);
    }
}

#[test]
fn a_job_that_comes_after_the_end_reserves_nothing() {
    for preallocate in [true, false] {
        let fixture = fixture(preallocate);
        let context = fixture.context();
        let (log, _) = Log::open(&context, fixture.params()).unwrap();
        append(&log, batch(1, 1, 0));
        log.roll().unwrap();
        append_much(&log);
        log.close().unwrap();
        context.background.run_pending(Duration::ZERO);
        assert_eq!(surplus(&log), [0; 2]);
    }
}

#[test]
fn what_was_reserved_is_given_back_by_a_roll_and_reserved_again_after_a_truncation() {
    let fixture = fixture(false);
    let context = fixture.context();
    let (log, _) = Log::open(&context, fixture.params()).unwrap();
    append_much(&log);
    context.background.run_pending(Duration::ZERO);
    assert!(surplus(&log)[0] > 1 << 20);
    log.roll().unwrap();
    assert_eq!(surplus(&log), [0, 0]);
    append(&log, batch(1, 1, 0));
    assert!(log.truncate_to(Offset(1)).unwrap());
    append_much(&log);
    context.background.run_pending(Duration::ZERO);
    assert!(surplus(&log)[0] > 1 << 20);
}
