//! Kafka's own directories: the sound ones are found sound. (What is said of damaged ones is tested with the tool.) And
//! damage at random: it never ends the check, and whatever it does to the records is seen.

use proptest::prelude::*;

use super::*;
use crate::storage::checkpoint::{CleanShutdownFile, LOG_START_OFFSETS, OffsetCheckpointFile};
use crate::storage::directory_name::DirectoryName;
use crate::storage::disk::RealDisk;
use crate::storage::fixture::Fixture;

/// What is found in each partition of a fixture, by directory.
fn found(name: &str) -> BTreeMap<String, VerifiedLog> {
    let fixture = Fixture::unpack(name);
    let disk = RealDisk::new();
    let starts = OffsetCheckpointFile::new(disk.clone(), &fixture.data(), LOG_START_OFFSETS).read().unwrap();
    let was_closed = CleanShutdownFile::new(disk.clone(), &fixture.data()).exists().unwrap();
    let mut found = BTreeMap::new();
    for entry in disk.list(&fixture.data()).unwrap().into_iter().filter(|entry| entry.is_dir()) {
        let dir = entry.name.to_str().unwrap().to_owned();
        let Some(parsed) = DirectoryName::parse(&dir) else { continue };
        let params = VerifyParams {
            dir: fixture.data().join(&dir),
            log_start_offset: starts.get(&parsed.topic_partition).copied().unwrap_or_default(),
            was_closed,
            is_set_aside: false,
        };
        found.insert(dir, verify(&disk, &params, &mut ()).unwrap());
    }
    found
}

#[test]
fn sound_logs_have_no_faults() {
    for name in [
        "plain",
        "transactions",
        "compacted-before",
        "compacted-after",
        "compacted-twice",
        "deleted-records",
        "groups",
        "share",
        "metadata",
        "metadata-dynamic",
        "unclean",
    ] {
        for (dir, log) in found(name) {
            let faults: Vec<&Finding> =
                log.findings.iter().filter(|finding| finding.severity == Severity::Fault).collect();
            assert_eq!(faults, [] as [&Finding; 0], "{name} {dir}");
        }
    }
}

#[test]
fn all_records_are_looked_into() {
    let plain = &found("plain")["plain-0"];
    assert_eq!((plain.segments, plain.batches, plain.records), (4, 49, 1000));
    assert_eq!((plain.first_offset, plain.log_end_offset), (Some(Offset(0)), Offset(1000)));
    assert_eq!(plain.last_epoch, Some(LeaderEpoch(2)));
}

/// The records of a batch in a segment are written anew with a right checksum: what is wrong in them is seen, too.
#[test]
fn a_right_checksum_is_not_all() {
    let fixture = Fixture::unpack_only("damaged-partitions-clean", "whole-0");
    let dir = fixture.data().join("whole-0");
    let path = dir.join("00000000000000000000.log");
    let sound = std::fs::read(&path).unwrap();
    let disk = RealDisk::new();
    let verified = || {
        let params =
            VerifyParams { dir: dir.clone(), log_start_offset: Offset(0), was_closed: true, is_set_aside: false };
        verify(&disk, &params, &mut ()).unwrap().findings
    };
    assert_eq!(verified(), []);
    // The count of records, one too many.
    let mut bytes = sound.clone();
    bytes[60] += 1;
    let size = RecordBatch::parse(&bytes).unwrap().bytes().len();
    let crc = crc32c::crc32c(&bytes[21..size]).to_be_bytes();
    bytes[17..21].copy_from_slice(&crc);
    std::fs::write(&path, bytes).unwrap();
    let findings = verified();
    let [finding] = &findings[..] else { panic!("{findings:#?}") };
    assert_eq!((finding.position, finding.remedy), (Some(0), Remedy::None));
    assert!(finding.what.contains("has a right checksum, but record 10: "), "{finding:?}");
    // A leader epoch that was never.
    let mut bytes = sound;
    bytes[size + 15] = 9;
    std::fs::write(&path, bytes).unwrap();
    let findings = verified();
    assert!(findings.iter().any(|finding| finding.what.contains("says epoch 0 for offset")), "{findings:#?}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 30, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_flipped_byte_of_a_log_or_snapshot_is_seen(
        file in any::<prop::sample::Index>(),
        at in any::<prop::sample::Index>(),
        bits in 1..=255u8,
    ) {
        let fixture = Fixture::unpack_only("damaged-partitions-clean", "whole-0");
        let dir = fixture.data().join("whole-0");
        let mut files: Vec<PathBuf> = std::fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().path()).collect();
        files.sort();
        let path = &files[file.index(files.len())];
        let mut bytes = std::fs::read(path).unwrap();
        let at = at.index(bytes.len());
        bytes[at] ^= bits;
        std::fs::write(path, &bytes).unwrap();

        let disk = RealDisk::new();
        let params = VerifyParams { dir, log_start_offset: Offset(0), was_closed: true, is_set_aside: false };
        let found = verify(&disk, &params, &mut ()).unwrap();
        // The offset that an index or a transaction's entry names may be another one that is right, too, and the file of the
        // topic id is not looked at here. Everything in a log and a snapshot is covered.
        let extension = path.extension().and_then(|extension| extension.to_str());
        if matches!(extension, Some("log" | "snapshot")) {
            let name = path.file_name().unwrap().to_str().unwrap();
            let is_seen = found.findings.iter().any(|finding| {
                finding.file == name || finding.file == leader_epochs::FILE_NAME || finding.file.ends_with("index")
            });
            prop_assert!(is_seen, "{name} at {at}: {:?}", found.findings);
        }
    }
}
