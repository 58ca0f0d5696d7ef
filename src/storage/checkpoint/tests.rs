//! Checkpoints and markers beside Kafka's own, and damaged ones.

use proptest::prelude::*;

use super::*;
use crate::storage::disk::RealDisk;
use crate::storage::golden;

fn offsets(text: &str) -> Result<Vec<(TopicPartition, Offset)>, CheckpointError> {
    decode_offsets(text)
}

#[test]
fn checkpoints_of_kafka_are_read_and_written_to_the_byte() {
    let names = [RECOVERY_POINTS, HIGH_WATERMARKS, LOG_START_OFFSETS, CLEANER_OFFSETS];
    let files = golden::files(|name| names.contains(&name));
    let mut entries = 0;
    for (path, bytes) in &files {
        let text = str::from_utf8(bytes).unwrap();
        let read = offsets(text).unwrap_or_else(|error| panic!("{path}: {error}"));
        entries += read.len();
        // A file that was made but never written.
        if !text.is_empty() {
            assert_eq!(encode_offsets(read.iter().map(|(partition, offset)| (partition, *offset))), text, "{path}");
        }
    }
    assert!(files.len() > 20 && entries > 100, "{} files, {entries} entries", files.len());
}

#[test]
fn markers_of_kafka_are_read_and_written_to_the_byte() {
    let files = golden::files(|name| name == CLEAN_SHUTDOWN);
    assert!(files.len() > 4);
    for (path, bytes) in files {
        let epoch = decode_broker_epoch(&bytes).expect(&path);
        assert_eq!(encode_broker_epoch(epoch).as_bytes(), bytes, "{path}");
    }
}

#[test]
fn malformed_checkpoints_are_told_apart() {
    assert_eq!(offsets(""), Ok(vec![]));
    assert_eq!(offsets("0\n"), Ok(vec![]));
    assert_eq!(offsets("0\n0\n"), Ok(vec![]));
    let one = vec![(TopicPartition::new("a-b", 3), Offset(17))];
    assert_eq!(offsets("0\n1\na-b 3 17\n"), Ok(one.clone()));
    // Without the last line end, with other blanks: Kafka takes it.
    assert_eq!(offsets("0\n1\na-b\t3   17"), Ok(one));
    assert_eq!(offsets("1\n0\n"), Err(CheckpointError::UnknownVersion("1".into())));
    assert_eq!(offsets("\0\0\0"), Err(CheckpointError::UnknownVersion("\0\0\0".into())));
    assert_eq!(offsets("0\nx\n"), Err(CheckpointError::MalformedLine("x".into())));
    assert_eq!(offsets("0\n-1\n"), Err(CheckpointError::MalformedLine("-1".into())));
    assert_eq!(offsets("0\n1\na 1\n"), Err(CheckpointError::MalformedLine("a 1".into())));
    assert_eq!(offsets("0\n1\na 1 2 3\n"), Err(CheckpointError::MalformedLine("a 1 2 3".into())));
    assert_eq!(
        offsets("0\n1\na 1 9223372036854775808\n"),
        Err(CheckpointError::MalformedLine("a 1 9223372036854775808".into()))
    );
    assert_eq!(
        offsets("0\n4000000000\na 1 2\n"),
        Err(CheckpointError::WrongCount { expected: 4_000_000_000, found: 1 })
    );
}

#[test]
fn a_file_is_replaced_and_a_damaged_one_counts_as_absent() {
    let dir = tempfile::tempdir().unwrap();
    let checkpoint = OffsetCheckpointFile::new(RealDisk::new(), dir.path(), RECOVERY_POINTS);
    assert!(checkpoint.read().unwrap().is_empty());
    let first: BTreeMap<_, _> =
        [(TopicPartition::new("t", 10), Offset(1)), (TopicPartition::new("t", 9), Offset(2))].into();
    checkpoint.write(&first).unwrap();
    assert_eq!(checkpoint.read().unwrap(), first);
    let path = dir.path().join(RECOVERY_POINTS);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "0\n2\nt 9 2\nt 10 1\n");
    assert!(!dir.path().join("recovery-point-offset-checkpoint.tmp").exists());
    for damage in [&b"0\n3\nt 9 2\n"[..], b"\xff\xfe", b"0\n1\nt 9"] {
        std::fs::write(&path, damage).unwrap();
        assert!(checkpoint.read().unwrap().is_empty());
    }
    // Nor is something else in its place; it makes room for what is written.
    std::fs::remove_file(&path).unwrap();
    std::fs::create_dir_all(path.join("x")).unwrap();
    assert!(checkpoint.read().unwrap().is_empty());
    std::fs::create_dir(dir.path().join("recovery-point-offset-checkpoint.tmp")).unwrap();
    checkpoint.write(&first).unwrap();
    assert_eq!(checkpoint.read().unwrap(), first);
    assert!(dir.path().join("recovery-point-offset-checkpoint.set-aside/x").exists());
    // What cannot be asked for is not the same as a damaged file.
    let below = OffsetCheckpointFile::new(RealDisk::new(), &path, RECOVERY_POINTS);
    assert!(below.read().is_err());
}

#[test]
fn a_marker_that_is_no_file_is_none() {
    let dir = tempfile::tempdir().unwrap();
    let marker = CleanShutdownFile::new(RealDisk::new(), dir.path());
    std::fs::create_dir_all(dir.path().join(CLEAN_SHUTDOWN).join("x")).unwrap();
    assert!(!marker.exists().unwrap());
    assert_eq!(marker.read_broker_epoch(), None);
    marker.delete().unwrap();
    marker.write(57).unwrap();
    assert!(marker.exists().unwrap());
    assert!(dir.path().join(".kafka_cleanshutdown.set-aside/x").exists());
    marker.delete().unwrap();
    assert!(!marker.exists().unwrap());
}

#[test]
fn the_clean_shutdown_marker_comes_and_goes() {
    let dir = tempfile::tempdir().unwrap();
    let marker = CleanShutdownFile::new(RealDisk::new(), dir.path());
    assert!(!marker.exists().unwrap());
    assert_eq!(marker.read_broker_epoch(), None);
    marker.write(57).unwrap();
    assert_eq!(std::fs::read_to_string(dir.path().join(CLEAN_SHUTDOWN)).unwrap(), r#"{"version":0,"brokerEpoch":57}"#);
    assert_eq!(marker.read_broker_epoch(), Some(57));
    marker.write(-1).unwrap();
    assert_eq!(marker.read_broker_epoch(), Some(-1));
    // Before KIP-966 the file was empty; it counts all the same.
    std::fs::write(dir.path().join(CLEAN_SHUTDOWN), b"").unwrap();
    assert!(marker.exists().unwrap());
    assert_eq!(marker.read_broker_epoch(), None);
    marker.delete().unwrap();
    marker.delete().unwrap();
    assert!(!marker.exists().unwrap());
}

proptest! {
    #[test]
    fn offsets_round_trip(entries in proptest::collection::vec(("[a-zA-Z0-9._-]{1,20}", 0..i32::MAX, any::<i64>()), 0..20)) {
        let entries: Vec<_> = entries
            .into_iter()
            .map(|(topic, partition, offset)| (TopicPartition::new(topic, partition), Offset(offset)))
            .collect();
        let text = encode_offsets(entries.iter().map(|(partition, offset)| (partition, *offset)));
        prop_assert_eq!(decode_offsets(&text), Ok(entries));
    }

    #[test]
    fn any_text_is_a_checkpoint_or_refused(text in "(0\n)?[0-9]{0,3}\n(\\PC{0,20}\n){0,3}") {
        let _ = decode_offsets(&text);
    }
}
