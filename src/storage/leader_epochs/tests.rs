//! The cache of leader epochs, rule by rule; its files beside Kafka's own.

use std::path::Path;

use proptest::prelude::*;

use super::*;
use crate::storage::disk::RealDisk;
use crate::storage::golden;

fn open(dir: &Path) -> LeaderEpochFileCache {
    LeaderEpochFileCache::open(RealDisk::new(), Directory::new(dir.to_path_buf())).unwrap()
}

struct Fixture {
    cache: LeaderEpochFileCache,
    dir: tempfile::TempDir,
}

fn fixture(entries: &[(i32, i64)]) -> Fixture {
    let dir = tempfile::tempdir().unwrap();
    let mut cache = open(dir.path());
    for (epoch, start_offset) in entries {
        cache.assign(LeaderEpoch(*epoch), Offset(*start_offset)).unwrap();
    }
    Fixture { cache, dir }
}

impl Fixture {
    fn entries(&self) -> Vec<(i32, i64)> {
        pairs(self.cache.entries())
    }

    fn on_disk(&self) -> Vec<(i32, i64)> {
        pairs(open(self.dir.path()).entries())
    }

    fn end_offset_for(&self, epoch: i32, log_end_offset: i64) -> (i32, i64) {
        let end = self.cache.end_offset_for(LeaderEpoch(epoch), Offset(log_end_offset));
        (end.epoch.0, end.end_offset.0)
    }
}

fn pairs(entries: &[EpochEntry]) -> Vec<(i32, i64)> {
    entries.iter().map(|entry| (entry.epoch.0, entry.start_offset.0)).collect()
}

#[test]
fn epochs_are_assigned_once_and_durably() {
    let mut fixture = fixture(&[(0, 0), (2, 10)]);
    assert!(!fixture.cache.assign(LeaderEpoch(2), Offset(11)).unwrap());
    assert!(!fixture.cache.assign(LeaderEpoch(-1), Offset(11)).unwrap());
    assert_eq!(fixture.entries(), [(0, 0), (2, 10)]);
    assert_eq!(fixture.on_disk(), [(0, 0), (2, 10)]);
    let text = std::fs::read_to_string(fixture.dir.path().join(FILE_NAME)).unwrap();
    assert_eq!(text, "0\n2\n0 0\n2 10\n");
}

#[test]
fn a_new_entry_removes_those_that_contradict_it() {
    // The last epoch had no records.
    let mut empty_epoch = fixture(&[(0, 0), (1, 10)]);
    assert!(empty_epoch.cache.assign(LeaderEpoch(2), Offset(10)).unwrap());
    assert_eq!(empty_epoch.entries(), [(0, 0), (2, 10)]);
    // A log that was cut.
    let mut cut = fixture(&[(1, 5), (2, 10), (3, 15)]);
    assert!(cut.cache.assign(LeaderEpoch(4), Offset(10)).unwrap());
    assert_eq!(cut.entries(), [(1, 5), (4, 10)]);
    // An epoch that goes back.
    let mut back = fixture(&[(1, 5), (3, 10)]);
    assert!(back.cache.assign(LeaderEpoch(2), Offset(20)).unwrap());
    assert_eq!(back.entries(), [(1, 5), (2, 20)]);
    // The same epoch, earlier.
    let mut earlier = fixture(&[(1, 5), (3, 10)]);
    assert!(earlier.cache.assign(LeaderEpoch(3), Offset(8)).unwrap());
    assert_eq!(earlier.entries(), [(1, 5), (3, 8)]);
}

#[test]
fn an_epoch_ends_where_the_next_begins() {
    let fixture = fixture(&[(2, 6), (4, 10), (7, 20)]);
    assert_eq!(fixture.end_offset_for(-1, 30), (-1, -1));
    // Older than all: the follower begins at the start of what is there.
    assert_eq!(fixture.end_offset_for(1, 30), (1, 6));
    assert_eq!(fixture.end_offset_for(2, 30), (2, 10));
    // Never seen here: the last one before it.
    assert_eq!(fixture.end_offset_for(3, 30), (2, 10));
    assert_eq!(fixture.end_offset_for(6, 30), (4, 20));
    assert_eq!(fixture.end_offset_for(7, 30), (7, 30));
    // Later than all: unknown here.
    assert_eq!(fixture.end_offset_for(8, 30), (-1, -1));
    assert_eq!(super::tests::fixture(&[]).end_offset_for(0, 30), (-1, -1));
}

#[test]
fn epochs_are_found_by_offset_and_by_neighbour() {
    let Fixture { cache, .. } = fixture(&[(2, 6), (4, 10), (7, 20)]);
    let epoch_for = |offset| cache.epoch_for_offset(Offset(offset)).map(|epoch| epoch.0);
    assert_eq!([5, 6, 9, 10, 20, 99].map(epoch_for), [None, Some(2), Some(2), Some(4), Some(7), Some(7)]);
    let epoch = |entry: Option<EpochEntry>| entry.map(|entry| entry.epoch.0);
    assert_eq!([2, 3, 7, 9].map(|of| epoch(cache.previous(LeaderEpoch(of)))), [None, Some(2), Some(4), Some(7)]);
    assert_eq!([1, 2, 3, 7].map(|of| epoch(cache.next(LeaderEpoch(of)))), [Some(2), Some(4), Some(4), None]);
    assert_eq!((epoch(cache.earliest()), epoch(cache.latest())), (Some(2), Some(7)));
    assert_eq!(cache.latest_epoch(), Some(LeaderEpoch(7)));
    assert_eq!(cache.get(LeaderEpoch(4)).unwrap().start_offset, Offset(10));
    assert_eq!(cache.get(LeaderEpoch(5)), None);
}

#[test]
fn the_end_is_cut_in_memory_first() {
    let mut fixture = fixture(&[(2, 6), (3, 8), (4, 11)]);
    assert!(!fixture.cache.truncate_from_end(Offset(12)));
    assert!(fixture.cache.truncate_from_end(Offset(11)));
    assert_eq!(fixture.entries(), [(2, 6), (3, 8)]);
    assert_eq!(fixture.on_disk(), [(2, 6), (3, 8), (4, 11)]);
    fixture.cache.flush().unwrap();
    assert_eq!(fixture.on_disk(), [(2, 6), (3, 8)]);
    assert!(!fixture.cache.truncate_from_end(Offset(-1)));
    assert!(fixture.cache.truncate_from_end(Offset(7)));
    assert_eq!(fixture.entries(), [(2, 6)]);
}

#[test]
fn the_head_is_cut_and_the_first_epoch_begins_later() {
    let start_at = |offset| {
        let mut fixture = fixture(&[(2, 6), (3, 8), (4, 11)]);
        fixture.cache.truncate_from_start(Offset(offset));
        fixture.cache.flush().unwrap();
        assert_eq!(fixture.entries(), fixture.on_disk());
        fixture.entries()
    };
    assert_eq!(start_at(1), [(2, 6), (3, 8), (4, 11)]);
    assert_eq!(start_at(6), [(2, 6), (3, 8), (4, 11)]);
    assert_eq!(start_at(7), [(2, 7), (3, 8), (4, 11)]);
    assert_eq!(start_at(8), [(3, 8), (4, 11)]);
    assert_eq!(start_at(9), [(3, 9), (4, 11)]);
    assert_eq!(start_at(16), [(4, 16)]);
}

#[test]
fn a_range_has_its_own_entries() {
    let fixture = fixture(&[(2, 6), (3, 8), (4, 11)]);
    let range = |start, end| pairs(&fixture.cache.entries_in_range(Offset(start), Offset(end)));
    assert_eq!(range(0, 100), [(2, 6), (3, 8), (4, 11)]);
    assert_eq!(range(7, 11), [(2, 7), (3, 8)]);
    assert_eq!(range(9, 10), [(3, 9)]);
}

#[test]
fn a_damaged_file_counts_as_absent() {
    let fixture = fixture(&[(2, 6), (3, 8)]);
    for damage in ["0\n3\n2 6\n", "0\n1\n2 -6\n", "0\n1\n2 6 1\n", "\0\0\0\0"] {
        std::fs::write(fixture.dir.path().join(FILE_NAME), damage).unwrap();
        assert_eq!(fixture.on_disk(), []);
    }
    // Entries that contradict each other: the later ones count.
    std::fs::write(fixture.dir.path().join(FILE_NAME), "0\n3\n2 6\n1 8\n3 7\n").unwrap();
    assert_eq!(fixture.on_disk(), [(3, 7)]);
}

#[test]
fn files_of_kafka_are_read_and_written_to_the_byte() {
    let files = golden::files(|name| name == FILE_NAME);
    assert!(files.len() > 20, "{} files", files.len());
    for (path, bytes) in &files {
        let text = str::from_utf8(bytes).unwrap();
        let entries = decode(text).unwrap_or_else(|error| panic!("{path}: {error}"));
        assert_eq!(encode(&entries), text, "{path}");
        let cache = open(Path::new(path).parent().unwrap());
        assert_eq!(cache.entries(), entries, "{path}");
    }
}

proptest! {
    #[test]
    fn entries_ascend_whatever_happens(steps in proptest::collection::vec((0..4u8, 0..8i32, 0..30i64), 1..40)) {
        let mut cache = fixture(&[]).cache;
        for (step, epoch, offset) in steps {
            match step {
                0 => drop(cache.truncate_from_end(Offset(offset))),
                1 => drop(cache.truncate_from_start(Offset(offset))),
                _ => drop(cache.assign_unflushed(LeaderEpoch(epoch), Offset(offset))),
            }
            let entries = cache.entries();
            prop_assert!(entries.is_sorted_by(|a, b| a.epoch < b.epoch && a.start_offset < b.start_offset), "{entries:?}");
            prop_assert_eq!(decode(&encode(entries)), Ok(entries.to_vec()));
        }
    }
}
