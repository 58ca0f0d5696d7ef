//! `meta.properties` beside Kafka's own; which directories belong to a node, and which it must not take.

use proptest::prelude::*;

use super::*;
use crate::storage::disk::RealDisk;
use crate::storage::golden;

/// 2026-11-29 13:54:58 UTC
const NOW_MS: i64 = 1_795_960_498_123;

#[test]
fn dates_are_those_of_java() {
    assert_eq!(java_date(NOW_MS), "Sun Nov 29 13:54:58 UTC 2026");
    assert_eq!(java_date(0), "Thu Jan 01 00:00:00 UTC 1970");
    assert_eq!(java_date(951_782_400_000), "Tue Feb 29 00:00:00 UTC 2000");
    assert_eq!(java_date(951_868_799_999), "Tue Feb 29 23:59:59 UTC 2000");
    assert_eq!(java_date(1_709_251_200_000), "Fri Mar 01 00:00:00 UTC 2024");
    assert_eq!(java_date(4_107_542_400_000), "Mon Mar 01 00:00:00 UTC 2100");
    assert_eq!(java_date(1_767_225_599_000), "Wed Dec 31 23:59:59 UTC 2025");
    java_date(i64::MAX);
    java_date(i64::MIN);
}

#[test]
fn files_of_kafka_are_read_and_written_to_the_byte() {
    let files = golden::files(|name| name == FILE_NAME);
    assert!(files.len() > 7, "{} files", files.len());
    for (path, bytes) in files {
        let properties = MetaProperties::decode(&bytes).unwrap_or_else(|error| panic!("{path}: {error}"));
        assert_eq!(properties.node_id, Some(BrokerId(1)));
        assert!(
            properties.directory_id.is_some() && properties.cluster_id.as_deref() == Some("5L6g3nShT-eMCtK--X86sw")
        );
        // All of them were written within these hours: the one second is searched for that gives the same bytes.
        let text = String::from_utf8(bytes).unwrap();
        let second = (0..6 * 3600).find(|second| properties.encode(1_795_953_600_000 + second * 1000) == text);
        assert!(second.is_some(), "{path}");
    }
}

#[test]
fn version_0_is_read() {
    let old = MetaProperties::decode(b"#\n#Sun Nov 29\nbroker.id=7\nversion=0\ncluster.id=abc\n").unwrap();
    assert_eq!(old.version, MetaPropertiesVersion::V0);
    assert_eq!((old.node_id, old.cluster_id.as_deref(), old.directory_id), (Some(BrokerId(7)), Some("abc"), None));
    let empty = MetaProperties::decode(b"").unwrap();
    assert_eq!((empty.node_id, empty.cluster_id.as_ref()), (None, None));
    assert_eq!(old.encode(NOW_MS), "#\n#Sun Nov 29 13:54:58 UTC 2026\nbroker.id=7\ncluster.id=abc\nversion=0\n");
}

#[test]
fn what_is_missing_or_wrong_is_named() {
    let error = |text: &str| MetaProperties::decode(text.as_bytes()).unwrap_err().to_string();
    assert_eq!(error("version=1\ncluster.id=a\n"), "node.id is missing");
    assert_eq!(error("version=1\nnode.id=1\n"), "cluster.id is missing");
    assert_eq!(error("version=2\n"), r#"version has the invalid value "2""#);
    assert_eq!(error("version=1\nnode.id=x\n"), r#"node.id has the invalid value "x""#);
    assert_eq!(error("directory.id=abc\n"), r#"directory.id has the invalid value "abc""#);
    assert!(error("cluster.id=\\u12").contains("escape"));
}

#[test]
fn values_are_escaped_as_java_does() {
    assert_eq!(
        properties::escape(" a b=c:d#e!f\\g\th\u{e9}\u{1F600}"),
        "\\ a b\\=c\\:d\\#e\\!f\\\\g\\th\\u00E9\\uD83D\\uDE00"
    );
}

#[test]
fn a_new_node_formats_its_directories() {
    let root = tempfile::tempdir().unwrap();
    let dirs = [root.path().join("a"), root.path().join("b/c")];
    let disk = RealDisk::new();
    let mut ensemble = MetaPropertiesEnsemble::load(&*disk, &dirs, &dirs[0]);
    assert_eq!(ensemble.unformatted, dirs);
    assert_eq!(ensemble.verify(None, BrokerId(3)), Ok(None));
    ensemble.format(&*disk, "cluster", BrokerId(3), NOW_MS);
    assert!(ensemble.unformatted.is_empty() && ensemble.failed.is_empty());

    let again = MetaPropertiesEnsemble::load(&*disk, &dirs, &dirs[0]);
    assert_eq!(again.formatted, ensemble.formatted);
    assert_eq!(again.directory_ids().len(), 2);
    assert_eq!(again.verify(None, BrokerId(3)), Ok(Some("cluster".into())));
    assert!(matches!(
        again.verify(Some("other"), BrokerId(3)),
        Err(EnsembleError::ClusterId { found, .. }) if found == "cluster"
    ));
    assert!(matches!(again.verify(None, BrokerId(4)), Err(EnsembleError::NodeId { found: BrokerId(3), .. })));
}

#[test]
fn old_files_are_completed_and_the_rest_is_kept() {
    let root = tempfile::tempdir().unwrap();
    let disk = RealDisk::new();
    let dir = root.path();
    std::fs::write(dir.join(FILE_NAME), "version=0\nbroker.id=3\ncluster.id=cluster\n").unwrap();
    let mut ensemble = MetaPropertiesEnsemble::load(&*disk, &[], dir);
    ensemble.format(&*disk, "cluster", BrokerId(3), NOW_MS);
    let completed = MetaProperties::read(&*disk, dir).unwrap().unwrap();
    assert_eq!((completed.version, completed.node_id), (MetaPropertiesVersion::V1, Some(BrokerId(3))));
    let id = completed.directory_id.unwrap();
    // Nothing left to do: the id stays.
    let mut again = MetaPropertiesEnsemble::load(&*disk, &[], dir);
    again.format(&*disk, "cluster", BrokerId(3), NOW_MS + 1000);
    assert_eq!(MetaProperties::read(&*disk, dir).unwrap().unwrap().directory_id, Some(id));
    assert!(std::fs::read_to_string(dir.join(FILE_NAME)).unwrap().contains("13:54:58"));
}

#[test]
fn directories_that_do_not_belong_together_are_refused() {
    let root = tempfile::tempdir().unwrap();
    let disk = RealDisk::new();
    let dirs = [root.path().join("a"), root.path().join("b")];
    let id = DirectoryId::random();
    for dir in &dirs {
        std::fs::create_dir(dir).unwrap();
        MetaProperties::new("cluster", BrokerId(1), id).write(&*disk, dir, NOW_MS).unwrap();
    }
    let verify = |metadata: &Path| MetaPropertiesEnsemble::load(&*disk, &dirs, metadata).verify(None, BrokerId(1));
    assert!(matches!(verify(&dirs[0]), Err(EnsembleError::DuplicateDirectoryId { .. })));
    MetaProperties::new("cluster", BrokerId(1), DirectoryId::LOST).write(&*disk, &dirs[1], NOW_MS).unwrap();
    assert!(matches!(verify(&dirs[0]), Err(EnsembleError::ReservedDirectoryId { .. })));

    // One that cannot be read goes offline, unless the metadata log is there.
    std::fs::write(dirs[1].join(FILE_NAME), "version=9").unwrap();
    assert_eq!(verify(&dirs[0]), Ok(Some("cluster".into())));
    assert!(matches!(verify(&dirs[1]), Err(EnsembleError::MetadataLogDir { .. })));

    std::fs::create_dir(dirs[1].join(METADATA_DIRECTORY)).unwrap();
    assert!(
        matches!(verify(&dirs[0]), Err(EnsembleError::MetadataElsewhere { found, .. }) if found.starts_with(&dirs[1]))
    );
}

/// The file was lost, the directory formatted anew under another id, and the broker served none of the partitions that it
/// held, without a word: they were assigned to the directory that it had been.
#[test]
fn a_directory_that_lost_its_file_is_not_formatted() {
    let root = tempfile::tempdir().unwrap();
    let disk = RealDisk::new();
    let dirs = [root.path().join("a"), root.path().join("b")];
    let verify = || MetaPropertiesEnsemble::load(&*disk, &dirs, &dirs[0]).verify(None, BrokerId(1));
    // What else lies in a directory, a file system's own as well, makes it no broker's.
    std::fs::create_dir_all(dirs[0].join("lost+found")).unwrap();
    assert_eq!(verify(), Ok(None));

    for (dir, log) in [(&dirs[0], METADATA_DIRECTORY), (&dirs[1], "t-0")] {
        let path = dir.join(log);
        std::fs::create_dir_all(&path).unwrap();
        std::fs::write(path.join(partition_metadata::FILE_NAME), "").unwrap();
        for text in [None, Some(""), Some("what was this\n")] {
            if let Some(text) = text {
                std::fs::write(dir.join(FILE_NAME), text).unwrap();
            }
            let lost = EnsembleError::NotNew { dir: dir.clone(), found: log.to_owned(), has_file: text.is_some() };
            assert_eq!(verify(), Err(lost), "{text:?}");
        }
        MetaProperties::new("cluster", BrokerId(1), DirectoryId::random()).write(&*disk, dir, NOW_MS).unwrap();
        assert_eq!(verify(), Ok(Some("cluster".into())));
    }
}

proptest! {
    #[test]
    fn files_round_trip(cluster_id in "\\PC{0,20}", node_id: i32, id: u128, now_ms in 0..4_000_000_000_000i64) {
        let properties = MetaProperties::new(&cluster_id, BrokerId(node_id), DirectoryId(uuid::Uuid::from_u128(id)));
        prop_assert_eq!(MetaProperties::decode(properties.encode(now_ms).as_bytes()).unwrap(), properties);
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
        let _ = MetaProperties::decode(&bytes);
    }
}
