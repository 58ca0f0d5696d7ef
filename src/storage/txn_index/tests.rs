//! The index of aborted transactions: what it finds, and damage; its files beside Kafka's own.

use proptest::prelude::*;

use super::*;
use std::path::Path;

use crate::storage::background::Background;
use crate::storage::disk::RealDisk;
use crate::storage::golden;

fn txn(producer_id: i64, first: i64, last: i64, stable: i64) -> AbortedTxn {
    AbortedTxn {
        producer_id: ProducerId(producer_id),
        first_offset: Offset(first),
        last_offset: Offset(last),
        last_stable_offset: Offset(stable),
    }
}

fn open_at(dir: &Path, base_offset: i64) -> TransactionIndex {
    let files = FileCache::new(RealDisk::new(), Background::stepped(), 10);
    let log = FileName::new(Offset(base_offset), FileKind::Log);
    TransactionIndex::open(&files, &Directory::new(dir.to_path_buf()), log).unwrap()
}

fn open(dir: &tempfile::TempDir) -> TransactionIndex {
    open_at(dir.path(), 0)
}

fn collect(index: &TransactionIndex, fetch: i64, upper: i64) -> (Vec<i64>, bool) {
    let mut found = Vec::new();
    let is_complete = index.collect(Offset(fetch), Offset(upper), Wait::ForDisk, &mut found).unwrap();
    (found.iter().map(|txn| txn.producer_id.0).collect(), is_complete)
}

#[test]
fn finds_the_aborted_transactions_of_a_range() {
    let dir = tempfile::tempdir().unwrap();
    let mut index = open(&dir);
    assert!(index.is_empty() && !index.path().exists());
    assert_eq!(collect(&index, 0, 100), (vec![], false));
    for entry in [txn(0, 0, 10, 2), txn(1, 5, 15, 16), txn(2, 18, 35, 25), txn(3, 32, 50, 40)] {
        index.append(&entry).unwrap();
    }
    index.flush().unwrap();
    for index in [&index, &open(&dir)] {
        assert_eq!(collect(index, 0, 100), (vec![0, 1, 2, 3], false));
        assert_eq!(collect(index, 0, 32), (vec![0, 1, 2], true));
        assert_eq!(collect(index, 0, 35), (vec![0, 1, 2, 3], true));
        assert_eq!(collect(index, 10, 35), (vec![0, 1, 2, 3], true));
        assert_eq!(collect(index, 11, 35), (vec![1, 2, 3], true));
        assert_eq!(collect(index, 20, 41), (vec![2, 3], false));
        assert_eq!(collect(index, 51, 100), (vec![], false));
        index.sanity_check().unwrap();
    }
}

#[test]
fn markers_must_ascend() {
    let dir = tempfile::tempdir().unwrap();
    let mut index = open(&dir);
    index.append(&txn(0, 0, 10, 2)).unwrap();
    assert!(matches!(index.append(&txn(1, 5, 10, 2)), Err(TxnIndexError::Corrupt { .. })));
}

#[test]
fn truncates_to_an_offset() {
    let dir = tempfile::tempdir().unwrap();
    let mut index = open(&dir);
    for entry in [txn(0, 0, 10, 2), txn(1, 5, 15, 16), txn(2, 18, 35, 25)] {
        index.append(&entry).unwrap();
    }
    index.truncate_to(Offset(51)).unwrap();
    assert_eq!(index.all().unwrap().len(), 3);
    index.truncate_to(Offset(15)).unwrap();
    assert_eq!(open(&dir).all().unwrap(), [txn(0, 0, 10, 2)]);
    index.append(&txn(4, 11, 12, 13)).unwrap();
    index.truncate_to(Offset(0)).unwrap();
    assert!(index.is_empty() && open(&dir).is_empty());
    index.rename(FileState::Deleted).unwrap();
    assert!(dir.path().join("00000000000000000000.txnindex.deleted").exists());
    index.remove().unwrap();
    index.remove().unwrap();
    assert!(!index.path().exists());
}

/// A crash left part of an entry. Kafka appends behind it, and every entry after it is then misread.
#[test]
fn half_an_entry_is_overwritten() {
    let dir = tempfile::tempdir().unwrap();
    let mut index = open(&dir);
    index.append(&txn(0, 0, 10, 2)).unwrap();
    let mut bytes = std::fs::read(index.path()).unwrap();
    bytes.extend([0; 10]);
    std::fs::write(index.path(), bytes).unwrap();
    let mut index = open(&dir);
    assert_eq!(index.all().unwrap().len(), 1);
    index.append(&txn(1, 5, 15, 16)).unwrap();
    assert_eq!(open(&dir).all().unwrap(), [txn(0, 0, 10, 2), txn(1, 5, 15, 16)]);
}

#[test]
fn damage_is_noticed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("00000000000000000007.txnindex");
    std::fs::write(&path, txn(0, 0, 6, 7).encode()).unwrap();
    let index = open_at(dir.path(), 7);
    assert!(matches!(index.sanity_check(), Err(TxnIndexError::Corrupt { position: 0, .. })));
    std::fs::write(&path, [1; ENTRY_SIZE]).unwrap();
    assert!(matches!(index.all(), Err(TxnIndexError::UnknownVersion { version: 0x0101, position: 0 })));
    // The file lost entries behind our back.
    std::fs::write(&path, []).unwrap();
    assert!(matches!(index.all(), Err(TxnIndexError::Io(_))));
}

#[test]
fn indexes_of_kafka_are_read_and_written_to_the_byte() {
    let files = golden::files(|name| name.ends_with(".txnindex"));
    assert!(files.len() > 8, "{} indexes", files.len());
    for (path, bytes) in files {
        let at = Path::new(&path);
        let base_offset = at.file_stem().unwrap().to_str().unwrap().parse().unwrap();
        let index = open_at(at.parent().unwrap(), base_offset);
        index.sanity_check().unwrap();
        let encoded: Vec<u8> = index.all().unwrap().iter().flat_map(AbortedTxn::encode).collect();
        assert_eq!(encoded, bytes, "{path}");
    }
    let index = open_at(&golden::root().join("transactions/txn-0"), 0);
    let expected = [txn(1, 5, 20, 10), txn(2, 28, 39, 40), txn(2, 46, 57, 58), txn(1, 59, 74, 64)];
    assert_eq!(index.all().unwrap(), expected);
}

proptest! {
    #[test]
    fn entries_round_trip(id: i64, first: i64, last: i64, stable: i64) {
        let entry = txn(id, first, last, stable);
        prop_assert_eq!(AbortedTxn::decode(&entry.encode()), Ok(entry));
    }

    /// Against the plain reading of the definition, on indexes long enough for more than one read.
    #[test]
    fn lookups_agree_with_a_full_scan(lengths in proptest::collection::vec((1..9i64, 0..20i64), 0..300), fetch in 0..900i64, span in 1..300i64) {
        let dir = tempfile::tempdir().unwrap();
        let mut index = open(&dir);
        let (mut end, mut stable, mut entries) = (0, 0, Vec::new());
        for (n, (length, open_for)) in lengths.iter().enumerate() {
            end += length;
            stable = stable.max(end - open_for).min(end + 1);
            entries.push(txn(n as i64, (end - length - open_for).max(0), end, stable));
        }
        let bytes: Vec<u8> = entries.iter().flat_map(AbortedTxn::encode).collect();
        std::fs::write(index.path(), bytes).unwrap();
        index = open(&dir);
        let upper = fetch + span;
        let until = entries.iter().position(|txn| txn.last_stable_offset.0 >= upper).map_or(entries.len(), |last| last + 1);
        let expected: Vec<i64> = entries[..until]
            .iter()
            .filter(|txn| txn.last_offset.0 >= fetch && txn.first_offset.0 < upper)
            .map(|txn| txn.producer_id.0)
            .collect();
        prop_assert_eq!(collect(&index, fetch, upper).0, expected);
    }
}
