//! Snapshots against those that Apache Kafka 4.3.1 wrote, and images against the logs they stand for.

use super::*;
use crate::metadata::fixtures;
use crate::storage::disk::RealDisk;

/// The image of a fixture's log: its segments, from the newest snapshot at or before the log's start on.
fn replay_log(name: &str, up_to: Offset, dir: &Path) -> MetadataImage {
    let files = fixtures::files(name);
    let segments: Vec<(&String, &Vec<u8>)> =
        files.iter().filter(|(path, _)| path.starts_with("__cluster_metadata-0/") && path.ends_with(".log")).collect();
    let start = batches(segments[0].1).next().unwrap().unwrap().base_offset();
    let mut replay = snapshots(name)
        .into_iter()
        .filter(|id| id.end_offset == start && start.0 > 0)
        .map(|id| read(&RealDisk, dir, id).unwrap())
        .next()
        .unwrap_or_else(|| Replay::new(MetadataImage::empty()));
    for (_, bytes) in segments {
        for batch in batches(bytes) {
            let batch = MetadataBatch::decode(&batch.unwrap()).unwrap();
            if batch.base_offset < up_to {
                assert!(batch.last_offset < up_to, "a snapshot ends at a batch's end");
                replay.apply(&batch).unwrap();
            }
        }
    }
    replay.into_image()
}

fn snapshots(name: &str) -> Vec<SnapshotId> {
    fixtures::files(name)
        .keys()
        .filter_map(|path| path.strip_prefix("__cluster_metadata-0/"))
        .filter_map(|file| match SnapshotFile::parse(file) {
            Some(SnapshotFile::Complete(id)) => Some(id),
            _ => None,
        })
        .collect()
}

#[test]
fn a_snapshot_is_the_log_before_it() {
    for name in ["metadata", "metadata-dynamic"] {
        let root = tempfile::tempdir().unwrap();
        fixtures::unpack(name, root.path());
        let dir = root.path().join("__cluster_metadata-0");
        let ids = snapshots(name);
        assert!(ids.len() >= 6, "{name}: {ids:?}");
        for id in ids {
            let of_log = replay_log(name, id.end_offset, &dir);
            let of_snapshot = read(&RealDisk, &dir, id).unwrap();
            assert_eq!(of_snapshot.image(), &of_log, "{name}: {id}");
            let dynamic = name == "metadata-dynamic";
            assert_eq!(of_snapshot.kraft_version(), i16::from(dynamic));
            assert_eq!(of_snapshot.voters().is_some(), dynamic);

            // And written anew it is read as the same.
            let quorum = SnapshotQuorum {
                kraft_version: of_snapshot.kraft_version(),
                voters: of_snapshot.voters().map(<[Voter]>::to_vec),
            };
            let copy = tempfile::tempdir().unwrap();
            let size = write(&RealDisk, copy.path(), id, of_snapshot.image(), &quorum, 7).unwrap();
            assert_eq!(size, std::fs::metadata(copy.path().join(id.file_name())).unwrap().len());
            let again = read(&RealDisk, copy.path(), id).unwrap();
            assert_eq!(again.voters(), of_snapshot.voters());
            assert_eq!(again.into_image(), of_snapshot.into_image());
        }
    }
}

#[test]
fn the_bootstrap_records_are_those_of_a_formatted_directory() {
    let root = tempfile::tempdir().unwrap();
    fixtures::unpack("formatted", root.path());
    let records = read_bootstrap(&RealDisk, root.path()).unwrap().unwrap();
    assert_eq!(records.len(), 6);
    let copy = tempfile::tempdir().unwrap();
    assert_eq!(read_bootstrap(&RealDisk, copy.path()).unwrap(), None);
    write_bootstrap(&RealDisk, copy.path(), &records, 7).unwrap();
    assert_eq!(read_bootstrap(&RealDisk, copy.path()).unwrap(), Some(records));
    let size = |root: &tempfile::TempDir| std::fs::metadata(root.path().join(BOOTSTRAP_FILE)).unwrap().len();
    assert_eq!(size(&copy), size(&root));
}

#[test]
fn what_is_not_whole_is_refused() {
    let root = tempfile::tempdir().unwrap();
    fixtures::unpack("metadata", root.path());
    let dir = root.path().join("__cluster_metadata-0");
    let id = snapshots("metadata")[0];
    let path = dir.join(id.file_name());
    let whole = std::fs::read(&path).unwrap();
    let reason = |bytes: &[u8]| {
        std::fs::write(&path, bytes).unwrap();
        read(&RealDisk, &dir, id).unwrap_err().to_string()
    };
    assert!(reason(&[]).ends_with("it does not start with a header"));
    assert!(reason(&whole[..whole.len() - 1]).ends_with("the last batch is cut off"));
    assert!(reason(&whole[..whole.len() - 75]).ends_with("it does not end with a footer"));
    let mut flipped = whole.clone();
    flipped[200] ^= 1;
    assert!(reason(&flipped).ends_with("the checksum of the batch at offset 1 does not fit"));
}

#[test]
fn a_large_image_takes_several_batches() {
    use crate::metadata::records::{ConfigRecord, MetadataRecord};

    let mut image = MetadataImage::empty();
    for at in 0..300 {
        let record = MetadataRecord::from(ConfigRecord {
            resource_type: 2,
            resource_name: format!("topic-{at}"),
            name: "key".to_owned(),
            value: Some("x".repeat(10_000)),
        });
        image.apply(&record, &mut Default::default()).unwrap();
    }
    let dir = tempfile::tempdir().unwrap();
    let id = SnapshotId { end_offset: Offset(0), epoch: LeaderEpoch(3) };
    write(&RealDisk, dir.path(), id, &image, &SnapshotQuorum::default(), 1).unwrap();
    let bytes = std::fs::read(dir.path().join(id.file_name())).unwrap();
    assert_eq!(batches(&bytes).count(), 5);
    assert_eq!(read(&RealDisk, dir.path(), id).unwrap().image().configs, image.configs);
}

#[test]
fn file_names() {
    let id = SnapshotId { end_offset: Offset(397), epoch: LeaderEpoch(1) };
    assert_eq!(id.file_name(), "00000000000000000397-0000000001.checkpoint");
    assert_eq!(SnapshotFile::parse(&id.file_name()), Some(SnapshotFile::Complete(id)));
    let leftover = Some(SnapshotFile::Leftover);
    assert_eq!(SnapshotFile::parse("00000000000000000397-0000000001-12345.checkpoint.part"), leftover);
    assert_eq!(SnapshotFile::parse("00000000000000000397-0000000001.checkpoint.deleted"), leftover);
    for name in ["00000000000000000397.log", "a-b.checkpoint", "397-1.checkpoint", "quorum-state", "-.checkpoint"] {
        assert_eq!(SnapshotFile::parse(name), None, "{name}");
    }
}
