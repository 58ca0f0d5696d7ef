//! The same logs cleaned by Apache Kafka 4.3.1 and by this cleaner: the fixtures hold them before and after.

use super::*;
use crate::clock::ManualClock;
use crate::config::TopicConfig;
use crate::config::topic::CleanupPolicy;
use crate::record::compression::Codec;
use crate::storage::file_name::{FileKind, FileName};
use crate::storage::fixture::{self, Fixture};
use crate::storage::log::Log;
use crate::storage::recovery::DamagePolicy;

const DAY_MS: i64 = 86_400_000;

/// The topics' settings, and when Kafka cleaned them: by the delete horizons that it set.
const TOPICS: [(&str, i64, bool, i64); 4] = [
    ("compact", DAY_MS, false, 1_796_046_837_859 - DAY_MS),
    ("compact-delete", DAY_MS, true, 1_796_046_837_887 - DAY_MS),
    ("compact-no-tombstones", 0, false, 1_795_960_437_777),
    ("compact-txn", DAY_MS, false, 1_795_960_437_800),
];

fn open(fixture: &Fixture, topic: &(&str, i64, bool, i64)) -> (LogContext, Arc<Log>) {
    let (name, delete_retention_ms, delete, now_ms) = *topic;
    let context = LogContext { clock: ManualClock::new(now_ms), ..fixture::context() };
    let partition = TopicPartition::new(name, 0);
    let mut params = fixture.params(&context, &partition, DamagePolicy::KeepReadable);
    params.config = Arc::new(TopicConfig {
        cleanup_policy: CleanupPolicy { compact: true, delete },
        delete_retention_ms,
        segment_bytes: 16384,
        segment_index_bytes: 4096,
        index_interval_bytes: 1024,
        min_cleanable_dirty_ratio: 0.01,
        retention_ms: -1,
        ..TopicConfig::default()
    });
    let (log, report) = Log::open(&context, params).unwrap();
    assert_eq!(report.repairs, []);
    (context, log)
}

fn files(fixture: &Fixture, topic: &str, kind: FileKind) -> Vec<(String, Vec<u8>)> {
    let dir = fixture.data().join(format!("{topic}-0"));
    let mut files: Vec<_> = std::fs::read_dir(&dir)
        .unwrap()
        .filter_map(|entry| FileName::parse(entry.unwrap().file_name().to_str()?))
        .filter(|name| name.kind == kind && *name == FileName::new(name.base_offset, kind))
        .map(|name| (name.to_string(), std::fs::read(name.path_in(&dir)).unwrap()))
        .collect();
    files.sort();
    files
}

/// Whatever another library's compression makes of it is left out.
fn compare(ours: &[u8], kafkas: &[u8], name: &str) {
    let parse = |bytes| batches(bytes).map(|batch| batch.unwrap()).collect::<Vec<_>>();
    let (ours, kafkas) = (parse(ours), parse(kafkas));
    assert_eq!(ours.len(), kafkas.len(), "{name}");
    for (ours, kafkas) in ours.iter().zip(&kafkas) {
        assert!(ours.is_crc_valid());
        if kafkas.codec() == Ok(Codec::None) {
            assert_eq!(ours.bytes(), kafkas.bytes(), "{name}: {ours:?} {kafkas:?}");
        }
        assert_eq!(ours.codec(), kafkas.codec());
        assert_eq!(records(ours), records(kafkas), "{name}");
        let fields = |batch: &RecordBatch<'_>| {
            (
                (batch.base_offset(), batch.last_offset(), batch.partition_leader_epoch(), batch.attributes()),
                (batch.base_timestamp(), batch.max_timestamp(), batch.record_count()),
                (batch.producer_id(), batch.producer_epoch(), batch.base_sequence()),
            )
        };
        assert_eq!(fields(ours), fields(kafkas), "{name}");
    }
}

#[test]
fn keeps_what_kafka_keeps() {
    let after = Fixture::unpack("compacted-after");
    for topic in &TOPICS {
        let before = Fixture::unpack_only("compacted-before", &format!("{}-0", topic.0));
        let modified = |fixture: &Fixture, file: &str| {
            std::fs::metadata(fixture.data().join(format!("{}-0/{file}", topic.0))).unwrap().modified().unwrap()
        };
        let mtimes: Vec<_> = files(&before, topic.0, FileKind::Log)
            .into_iter()
            .map(|(name, _)| (modified(&before, &name), name))
            .collect();
        let (context, log) = open(&before, topic);
        let stats = clean_if_due(&log, &context, &mut cleaner()).unwrap().unwrap();
        assert!(stats.records_written < stats.records_read, "{stats:?}");
        let expected = crate::storage::checkpoint::OffsetCheckpointFile::new(
            context.disk.clone(),
            &after.data(),
            crate::storage::checkpoint::CLEANER_OFFSETS,
        );
        assert_eq!(log.cleaned_offset(), expected.read().unwrap().get(log.topic_partition()).copied());
        assert!(clean_if_due(&log, &context, &mut cleaner()).is_none(), "Kafka would clean it again");

        for kind in [FileKind::Log, FileKind::OffsetIndex, FileKind::TimeIndex, FileKind::TxnIndex] {
            let (ours, kafkas) = (files(&before, topic.0, kind), files(&after, topic.0, kind));
            let names = |files: &[(String, Vec<u8>)]| files.iter().map(|file| file.0.clone()).collect::<Vec<_>>();
            // Kafka leaves a file for an index without entries.
            let kafkas: Vec<_> = kafkas.into_iter().filter(|f| kind != FileKind::TxnIndex || !f.1.is_empty()).collect();
            assert_eq!(names(&ours), names(&kafkas));
            for ((name, ours), (_, kafkas)) in ours.iter().zip(&kafkas) {
                match kind {
                    FileKind::Log => compare(ours, kafkas, &format!("{} {name}", topic.0)),
                    FileKind::TxnIndex => assert_eq!(ours, kafkas, "{} {name}", topic.0),
                    // Positions depend on the compression.
                    _ => assert_eq!(ours.len(), kafkas.len(), "{} {name}", topic.0),
                }
            }
        }
        for (mtime, name) in mtimes {
            let age = modified(&before, &name).duration_since(mtime).unwrap_or_else(|error| error.duration());
            assert!(age < Duration::from_millis(1), "{name} is as old as what it replaces");
        }

        // And so does a consumer see it, now and after a restart.
        let kafkas = fixture::expected("compacted-after");
        let expected = &kafkas[&format!("{}-0", topic.0)];
        let found = fixture::found(&log);
        assert_eq!((&found.uncommitted, &found.committed), (&expected.uncommitted, &expected.committed));
        assert_eq!(
            (found.max_timestamp, found.max_timestamp_offset),
            (expected.max_timestamp, expected.max_timestamp_offset)
        );
        log.close().unwrap();
        drop(log);
        let (_, log) = open(&before, topic);
        assert_eq!(fixture::found(&log), found);
    }
}

#[test]
fn a_log_that_kafka_cleaned_is_clean() {
    for (name, minutes) in [("compacted-after", 0), ("compacted-twice", 1)] {
        for topic in &TOPICS {
            let fixture = Fixture::unpack_only(name, &format!("{}-0", topic.0));
            // Kafka's second pass was later, and so are its horizons.
            let (context, log) = open(&fixture, &(topic.0, topic.1, topic.2, topic.3 + minutes * 60_000 - 20_000));
            let before = fixture::found(&log);
            log.restore_cleaned_offset(Offset(0));
            clean_if_due(&log, &context, &mut cleaner()).unwrap().unwrap();
            read_batches(&log);
            if topic.1 > 0 {
                assert_eq!(fixture::found(&log), before, "{name} {}", topic.0);
            }
        }
    }
}
