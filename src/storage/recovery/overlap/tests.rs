//! One wrong bit in the base offset of a batch, which no checksum covers, once had all that followed it deleted as
//! "begins before the segment in front of it ends", as had a segment whose name did not fit: sound records went for one lie.
//! Here each batch of a log lies by each bit, and files have each other's names.

use std::fs;
use std::path::Path;

use proptest::prelude::*;

use crate::record::batch::RecordBatch;
use crate::record::builder::RecordBatchBuilder;
use crate::storage::fixture::context;
use crate::storage::log::{Log, LogParams, Wait};
use crate::storage::recovery::{DamagePolicy, RecoveryReport};
use crate::types::{Offset, TopicPartition};
use std::sync::Arc;

/// Records in a batch, batches in a segment, segments.
const SHAPE: [i64; 3] = [5, 4, 4];
const IN_SEGMENT: i64 = SHAPE[0] * SHAPE[1];
const END: i64 = IN_SEGMENT * SHAPE[2];

fn batch(base: i64) -> Vec<u8> {
    let mut builder = RecordBatchBuilder::new(Offset(base));
    for n in 0..SHAPE[0] {
        builder.append(1000 + base + n, None, Some(format!("value {}", base + n).as_bytes()), &[]);
    }
    builder.build().to_vec()
}

/// The batches of each segment.
fn segments() -> Vec<(i64, Vec<Vec<u8>>)> {
    let batches = |base: i64| (0..SHAPE[1]).map(|n| batch(base + n * SHAPE[0])).collect();
    (0..SHAPE[2]).map(|n| (n * IN_SEGMENT, batches(n * IN_SEGMENT))).collect()
}

fn write(dir: &Path, segments: &[(i64, Vec<Vec<u8>>)]) {
    for (name, batches) in segments {
        fs::write(dir.join(format!("{name:020}.log")), batches.concat()).unwrap();
    }
}

fn open(dir: &Path, damage: DamagePolicy, recovery_point: i64) -> (Arc<Log>, RecoveryReport) {
    let context = context();
    let params = LogParams {
        dir: dir.to_owned(),
        topic_partition: TopicPartition::new("d", 0),
        config: Default::default(),
        log_start_offset: Offset(0),
        recovery_point: Offset(recovery_point),
        gaps_up_to: Offset(0),
        clean_shutdown: false,
        damage,
        producers: Default::default(),
        progress: None,
        on_failure: None,
    };
    Log::open(&context, params).unwrap()
}

/// The base offsets of the batches that are served, in order, and the log's end.
fn served(log: &Log) -> (Vec<i64>, i64) {
    let (mut found, mut next, end) = (Vec::new(), log.log_start_offset(), log.log_end_offset());
    while next < end {
        let read = log.read(next, 1, end, true, Wait::ForDisk).unwrap();
        if read.slice.is_empty() {
            break;
        }
        let mut bytes = bytes::BytesMut::new();
        read.slice.read_into(&mut bytes).unwrap();
        let batch = RecordBatch::parse(&bytes).unwrap();
        assert!(batch.is_crc_valid() && batch.base_offset() >= next, "torn, or served twice");
        found.push(batch.base_offset().0);
        next = batch.last_offset().plus(1);
    }
    (found, end.0)
}

fn all_but(missing: &[i64]) -> Vec<i64> {
    (0..END).step_by(SHAPE[0] as usize).filter(|base| !missing.contains(base)).collect()
}

/// What a log serves after `change`, twice: after a crash, and once more.
fn after(
    change: impl FnOnce(&mut Vec<(i64, Vec<Vec<u8>>)>),
    damage: DamagePolicy,
    recovery_point: i64,
) -> (Vec<i64>, i64, RecoveryReport) {
    let dir = tempfile::tempdir().unwrap();
    let mut segments = segments();
    change(&mut segments);
    write(dir.path(), &segments);
    let (log, report) = open(dir.path(), damage, recovery_point);
    let (found, end) = served(&log);
    log.close().unwrap();
    drop(log);
    let (again, _) = open(dir.path(), damage, 0);
    assert_eq!(served(&again), (found.clone(), end), "{report:#?}");
    (found, end, report)
}

fn lie(batch: &mut [u8], base: i64) {
    batch[..8].copy_from_slice(&base.to_be_bytes());
}

/// Every bit of every batch's base offset: that batch goes at most, and the log ends where it ended.
#[test]
fn a_batch_that_lies_about_its_offset_costs_no_other() {
    let last = END - SHAPE[0];
    // The batches of the first segment, of one in the middle, and the last one of all.
    for base in [0, 5, 10, 15, 20, 25, 30, 35, last] {
        for bit in 0..64 {
            let wrong = (base as u64 ^ (1 << bit)) as i64;
            let (segment, n) = ((base / IN_SEGMENT) as usize, (base % IN_SEGMENT / SHAPE[0]) as usize);
            let change = |segments: &mut Vec<(i64, Vec<Vec<u8>>)>| lie(&mut segments[segment].1[n], wrong);
            // Nobody can tell that the last one of all is too high.
            if base == last && wrong > base && wrong < base + i64::from(i32::MAX) - IN_SEGMENT {
                continue;
            }
            let (found, end, report) = after(change, DamagePolicy::KeepReadable, 0);
            assert_eq!(found, all_but(&[base]), "{base} -> {wrong}: {report:#?}");
            assert_eq!(end, if base == last { last } else { END }, "{base} -> {wrong}");
            assert!(report.bytes_removed > 0 && !report.repairs.is_empty());
        }
    }
}

/// Where others have the records the log ends in front of the lie, never behind it.
#[test]
fn a_lie_is_where_a_log_of_several_replicas_is_cut_off() {
    for (segment, n, high) in [(0, 3, 1 << 20), (0, 3, 32), (1, 1, 1 << 20), (1, 0, 16), (2, 3, 64)] {
        let base = segment as i64 * IN_SEGMENT + n as i64 * SHAPE[0];
        let change = |segments: &mut Vec<(i64, Vec<Vec<u8>>)>| lie(&mut segments[segment].1[n], base + high);
        let (found, end, report) = after(change, DamagePolicy::CutOff, 0);
        assert_eq!((found.last().copied(), end), (Some(base - SHAPE[0]), base), "{report:#?}");
    }
}

/// The recovery point lies within the segment: before it only headers are read.
#[test]
fn a_header_that_is_trusted_may_lie() {
    for rp in 1..=IN_SEGMENT {
        let change = |segments: &mut Vec<(i64, Vec<Vec<u8>>)>| lie(&mut segments[0].1[1], 5 + 8);
        let (found, end, report) = after(change, DamagePolicy::KeepReadable, rp);
        assert_eq!((found, end), (all_but(&[5]), END), "{rp}: {report:#?}");
    }
}

/// Two batches in a row that lie alike bear each other out; what follows them is more.
#[test]
fn several_batches_that_lie_cost_no_others() {
    for high in [1 << 20, 1 << 30, 64] {
        let change = |segments: &mut Vec<(i64, Vec<Vec<u8>>)>| {
            lie(&mut segments[0].1[2], 10 + high);
            lie(&mut segments[0].1[3], 15 + high);
        };
        let (found, end, report) = after(change, DamagePolicy::KeepReadable, 0);
        assert_eq!((found, end), (all_but(&[10, 15]), END), "{report:#?}");
    }
}

/// A segment's file was renamed; its records tell where it belongs.
#[test]
fn a_segment_is_named_by_its_records() {
    for damage in [DamagePolicy::KeepReadable, DamagePolicy::CutOff] {
        for name in [17, 18, 19, 21, 22, 24, 25, 30] {
            let rename = |segments: &mut Vec<(i64, Vec<Vec<u8>>)>| segments[1].0 = name;
            let (found, end, report) = after(rename, damage, 0);
            assert_eq!((found, end), (all_but(&[]), END), "{name}: {report:#?}");
            assert_eq!(report.bytes_removed, 0, "{report:#?}");
            let told = &report.repairs.iter().find(|repair| repair.done == "named it by them").unwrap().file;
            assert_eq!(*told, format!("{name:020}.log"));
        }
    }
}

/// Only records that are there twice go.
#[test]
fn what_is_there_twice_goes_once() {
    type Change = fn(&mut Vec<(i64, Vec<Vec<u8>>)>);
    let cases: [(Change, &[i64]); 4] = [
        // A copy in the middle of what it is a copy of, one of all before it, one that goes on.
        (|segments| segments.push((30, segments[1].1.clone())), &[]),
        (|segments| segments.push((5, segments[0].1[1..3].to_vec())), &[]),
        (
            |segments| {
                let mut batches = segments[0].1[2..].to_vec();
                batches.extend(segments.remove(1).1);
                segments.push((10, batches));
            },
            &[],
        ),
        (|segments| segments.push((30, Vec::new())), &[]),
    ];
    for (change, missing) in cases {
        let (found, end, report) = after(change, DamagePolicy::KeepReadable, 0);
        assert_eq!((found, end), (all_but(missing), END), "{report:#?}");
        assert!(!report.repairs.is_empty());
    }
}

/// A follower's segment that was cut off and given up comes back behind what was written since.
#[test]
fn a_segment_that_was_given_up_goes() {
    let change = |segments: &mut Vec<(i64, Vec<Vec<u8>>)>| {
        let more = segments[1].1.clone();
        segments[0].1.extend(more);
    };
    for damage in [DamagePolicy::KeepReadable, DamagePolicy::CutOff] {
        let (found, end, report) = after(change, damage, 0);
        assert_eq!((found, end), (all_but(&[]), END), "{report:#?}");
        assert!(report.repairs.iter().any(|repair| repair.done == "deleted"), "{report:#?}");
    }
}

/// The end of a segment and the start of the next one bear each other out: the name of the file is what tells.
#[test]
fn two_lies_that_fit_each_other() {
    let change = |segments: &mut Vec<(i64, Vec<Vec<u8>>)>| {
        lie(&mut segments[1].1[3], 35 ^ 4);
        lie(&mut segments[2].1[0], 40 ^ 8);
    };
    let (found, end, report) = after(change, DamagePolicy::KeepReadable, 0);
    assert_eq!((found, end), (all_but(&[35, 40]), END), "{report:#?}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    /// Bits of several batches, in different segments: no other goes.
    #[test]
    fn lies_in_several_segments_cost_no_others(lies in prop::collection::btree_map(0..SHAPE[2], (0..SHAPE[1], 0..63u32), 1..4)) {
        let mut missing = Vec::new();
        let change = |segments: &mut Vec<(i64, Vec<Vec<u8>>)>| {
            for (segment, (n, bit)) in &lies {
                let base = segment * IN_SEGMENT + n * SHAPE[0];
                if base != END - SHAPE[0] {
                    missing.push(base);
                    lie(&mut segments[*segment as usize].1[*n as usize], base ^ (1 << bit));
                }
            }
        };
        let (found, end, report) = after(change, DamagePolicy::KeepReadable, 0);
        prop_assert_eq!((found, end), (all_but(&missing), END), "{:#?}", report);
    }
}
