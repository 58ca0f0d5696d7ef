//! Kafka's own directories, sound and damaged: what is opened must be what Kafka opens, or better.

use proptest::prelude::*;

use super::*;
use crate::clock::ManualClock;
use crate::storage::fixture::{Expected, Fixture, context, expected, found};
use crate::storage::harm::{harms, inflict};
use crate::storage::producer_state::ProducerStateConfig;
use crate::types::TopicPartition;

/// Opens all logs of a fixture. `better` changes what Kafka makes of a directory to what this broker makes of it;
/// `None` leaves the directory out.
fn check_all(name: &str, damage: DamagePolicy, better: impl Fn(&str, Expected) -> Option<Expected>) {
    let fixture = Fixture::unpack(name);
    for (dir, kafkas) in expected(name) {
        if !fixture.data().join(&dir).exists() {
            continue;
        }
        let context = context();
        let Some(wanted) = better(&dir, kafkas) else { continue };
        let (log, report) = fixture.open(&context, &wanted.partition, damage);
        assert_eq!(found(&log), wanted, "{dir}: {report:#?}");
        // And once more, after a close in order.
        log.close().unwrap();
        let (log, report) = reopen(&fixture, &log);
        assert_eq!(found(&log), wanted, "{dir} again: {report:#?}");
        assert_eq!(report.repairs, [], "{dir} again");
    }
}

/// Opens a log again that was closed.
fn reopen(fixture: &Fixture, log: &Log) -> (Arc<Log>, RecoveryReport) {
    let params = LogParams {
        dir: log.dir(),
        topic_partition: log.topic_partition().clone(),
        config: log.config(),
        log_start_offset: log.log_start_offset(),
        recovery_point: log.recovery_point(),
        gaps_up_to: Offset(0),
        clean_shutdown: true,
        damage: DamagePolicy::KeepReadable,
        producers: Default::default(),
        progress: None,
        on_failure: None,
    };
    assert!(params.dir.starts_with(fixture.data()));
    Log::open(&context(), params).unwrap()
}

#[test]
fn sound_directories_open_as_in_kafka() {
    for name in [
        "plain",
        "deleted-records",
        "transactions",
        "compacted-before",
        "compacted-after",
        "compacted-twice",
        "groups",
        "share",
    ] {
        check_all(name, DamagePolicy::KeepReadable, |_, kafkas| Some(kafkas));
        check_indexes_are_believed(name);
    }
}

/// All of Kafka's indexes are asked how they end.
fn check_indexes_are_believed(name: &str) {
    let fixture = Fixture::unpack(name);
    for (dir, wanted) in expected(name).into_iter().filter(|(dir, _)| fixture.data().join(dir).exists()) {
        let (log, report) = fixture.open(&context(), &wanted.partition, DamagePolicy::KeepReadable);
        assert_eq!(report.repairs, [], "{dir}");
        for segment in log.segments.load().iter() {
            segment.max_timestamp().unwrap();
            segment.check_end(0, segment.size(), Wait::ForDisk).unwrap();
            assert!(!segment.distrusts_index(), "{dir}: {segment:?}");
        }
    }
}

#[test]
fn a_killed_broker_s_directory_opens_as_in_kafka() {
    for damage in [DamagePolicy::KeepReadable, DamagePolicy::CutOff] {
        check_all("unclean", damage, |_, kafkas| Some(kafkas));
    }
}

/// What readers find of the damaged topics' content when it ends at an offset; hashes are those that Kafka's consumer
/// gave for directories that end there.
fn ends_at(log_end: i64, kafkas: Expected) -> Expected {
    let (uncommitted, committed) = match log_end {
        102 => ("100 0..101 350afd488b76f83b", "90 0..101 6adcfa1f40f69256"),
        92 => ("90 0..91 ee45bb818a804e49", "80 0..91 67195f61e7d7f02f"),
        40 => ("40 0..39 7a8a388e87764e0b", "40 0..39 7a8a388e87764e0b"),
        0 => ("0 -1..-1 e3b0c44298fc1c14", "0 -1..-1 e3b0c44298fc1c14"),
        other => panic!("no hash for a log that ends at {other}"),
    };
    Expected {
        log_end,
        last_stable: log_end,
        uncommitted: uncommitted.to_owned(),
        committed: committed.to_owned(),
        ..kafkas
    }
}

/// The directory is not what Kafka made of it: it threw the partition's directory away, which is not for a log to do.
fn is_decided_elsewhere(dir: &str) -> bool {
    ["no-partition-metadata-0", "no-partition-dir-0", "empty-partition-dir-0"].contains(&dir)
}

#[test]
fn damage_in_a_directory_that_was_closed() {
    for damage in [DamagePolicy::KeepReadable, DamagePolicy::CutOff] {
        check_all("damaged-partitions-clean", damage, |dir, kafkas| match dir {
            _ if is_decided_elsewhere(dir) => None,
            // Kafka loses the whole last segment to one unreadable batch, or serves it.
            "tail-cut-0"
            | "tail-cut-in-header-0"
            | "tail-cut-in-length-0"
            | "length-too-big-0"
            | "base-offset-zero-0"
            | "flip-last-batch-0"
            | "flip-magic-0" => Some(ends_at(92, kafkas)),
            // There it seeks the log's end by an index entry that is wrong.
            "active-index-garbage-0" => Some(ends_at(102, kafkas)),
            // Kafka deletes the transaction index and shows the aborted records.
            "swap-0" => Some(ends_at(102, kafkas)),
            // Nobody looks into sealed segments then; see below.
            "flip-first-segment-0" | "flip-middle-segment-0" => None,
            _ => Some(kafkas),
        });
    }
}

#[test]
fn damage_after_a_crash() {
    check_all("damaged-partitions-unclean", DamagePolicy::CutOff, |dir, kafkas| match dir {
        _ if is_decided_elsewhere(dir) => None,
        // Kafka does not notice, and its consumers stop there.
        "flip-magic-0" => Some(ends_at(92, kafkas)),
        // Kafka serves what is behind it as if nothing had been there. The other replicas have all of it.
        "no-middle-segment-0" => {
            let cut = ends_at(40, kafkas);
            Some(Expected { max_timestamp: 1_795_935_603_900, max_timestamp_offset: 39, ..cut })
        }
        _ => Some(kafkas),
    });
}

/// As above, where nobody else has the records: what follows the damage stays.
#[test]
fn damage_after_a_crash_of_the_only_replica() {
    let name = "damaged-partitions-unclean";
    let (whole, _) =
        Fixture::unpack(name).open(&context(), &TopicPartition::new("whole", 0), DamagePolicy::KeepReadable);
    whole.advance_log_start_offset(Offset(10)).unwrap();
    let from_10 = found(&whole);
    // Of the marker at 61, whose time is the broker's.
    let max_timestamp = 1_795_961_565_434;
    check_all(name, DamagePolicy::KeepReadable, |dir, kafkas| match dir {
        _ if is_decided_elsewhere(dir) => None,
        "flip-magic-0" => Some(ends_at(92, kafkas)),
        // The damaged batch is the one whose transaction was aborted,
        "flip-middle-segment-0" => Some(Expected {
            uncommitted: "90 0..101 6adcfa1f40f69256".to_owned(),
            max_timestamp,
            max_timestamp_offset: 61,
            ..ends_at(102, kafkas)
        }),
        // and here the first one.
        "flip-first-segment-0" => Some(Expected {
            uncommitted: from_10.uncommitted.clone(),
            committed: from_10.committed.clone(),
            max_timestamp,
            max_timestamp_offset: 61,
            ..ends_at(102, kafkas)
        }),
        _ => Some(kafkas),
    });
}

#[test]
fn damage_with_which_kafka_does_not_start() {
    for (name, log_end) in [
        ("damaged-fatal-base-offset-zero-unclean", 92),
        ("damaged-fatal-length-too-small-clean", 92),
        ("damaged-fatal-zeros-end-clean", 102),
    ] {
        let fixture = Fixture::unpack(name);
        for damage in [DamagePolicy::KeepReadable, DamagePolicy::CutOff] {
            let (log, report) = fixture.open(&context(), &TopicPartition::new("d", 0), damage);
            let found = found(&log);
            assert_eq!(found, ends_at(log_end, found.clone()), "{name}: {report:#?}");
            log.close().unwrap();
        }
    }
}

/// With the marker nobody reads sealed segments. A batch in one whose checksum is wrong is served as it is, as Kafka
/// does; the consumer sees it.
#[test]
fn damage_in_sealed_segments_of_a_directory_that_was_closed() {
    let fixture = Fixture::unpack("damaged-partitions-clean");
    for (topic, at) in [("flip-first-segment", 0), ("flip-middle-segment", 40)] {
        let partition = TopicPartition::new(topic, 0);
        let (log, _) = fixture.open(&context(), &partition, DamagePolicy::KeepReadable);
        assert_eq!(log.log_end_offset(), Offset(102));
        let read = log.read(Offset(at), 1, Offset(102), true, Wait::ForDisk).unwrap();
        let mut bytes = bytes::BytesMut::new();
        read.slice.read_into(&mut bytes).unwrap();
        let batch = crate::record::batch::RecordBatch::parse(&bytes).unwrap();
        assert_eq!(batch.base_offset(), Offset(at));
        assert!(!batch.is_crc_valid());
    }
}

/// Kafka loses what it knows of the producers, and so accepts what they sent before once more.
#[test]
fn producers_survive_the_loss_of_their_snapshots() {
    for name in ["damaged-partitions-clean", "damaged-partitions-unclean"] {
        let fixture = Fixture::unpack(name);
        let producers = |topic| {
            let (log, _) = fixture.open(&context(), &TopicPartition::new(topic, 0), DamagePolicy::KeepReadable);
            // Ids and the markers' times differ from topic to topic.
            log.with_producers(|producers| {
                let entries = producers.active_producers().into_iter();
                entries
                    .map(|entry| (entry.producer_epoch, entry.last_sequence(), entry.last_data_offset()))
                    .collect::<Vec<_>>()
            })
        };
        let whole = producers("whole");
        assert!(!whole.is_empty());
        for topic in ["no-snapshots", "no-last-snapshot", "last-snapshot-corrupt"] {
            assert_eq!(producers(topic), whole, "{topic}");
        }
    }
}

/// All that follows from the batches is built anew with Kafka's bytes.
#[test]
fn rebuilt_files_are_kafkas() {
    let fixture = Fixture::unpack("damaged-partitions-unclean");
    for topic in ["whole", "swap"] {
        let partition = TopicPartition::new(topic, 0);
        let dir = fixture.data().join(partition.to_string());
        let content = |name: &str| std::fs::read(dir.join(name)).ok();
        let names =
            ["000.index", "000.timeindex", "040.index", "040.timeindex", "040.txnindex", "072.index", "072.timeindex"];
        let names = names.map(|name| format!("00000000000000000{name}"));
        let kafkas = names.clone().map(|name| content(&name).or_else(|| content(&(name + ".swap"))).unwrap());
        for name in names.iter().filter(|name| !name.contains("72")) {
            let swap = name.clone() + ".swap";
            let path = if dir.join(name).exists() { dir.join(name) } else { dir.join(swap) };
            std::fs::write(path, b"").unwrap();
        }
        let context = context();
        let mut params = fixture.params(&context, &partition, DamagePolicy::CutOff);
        params.config = Arc::new(crate::config::TopicConfig { index_interval_bytes: 1024, ..Default::default() });
        Log::open(&context, params).unwrap();
        for (name, kafkas) in names.iter().zip(&kafkas) {
            let ours = content(name).unwrap();
            // Kafka's active indexes have zeros behind their entries.
            assert_eq!(ours[..], kafkas[..ours.len()], "{topic} {name}");
            assert!(!ours.is_empty() && kafkas[ours.len()..].iter().all(|byte| *byte == 0), "{topic} {name}");
        }
    }
}

/// Whatever an index says: a fetch from each offset, and a search for each time, finds what it finds in the undamaged log.
#[test]
fn each_offset_and_time_is_found_by_itself() {
    for name in ["damaged-partitions-clean", "damaged-partitions-unclean"] {
        let fixture = Fixture::unpack(name);
        let answers = |topic: &str| {
            let (log, _) = fixture.open(&context(), &TopicPartition::new(topic, 0), DamagePolicy::KeepReadable);
            let offsets = (0..102).map(|offset| {
                let read = log.read(Offset(offset), 1, Offset(102), true, Wait::ForDisk).unwrap();
                let mut bytes = bytes::BytesMut::new();
                read.slice.read_into(&mut bytes).unwrap();
                let batch = crate::record::batch::RecordBatch::parse(&bytes).unwrap();
                (batch.base_offset().0, batch.last_offset().0)
            });
            let offsets: Vec<_> = offsets.collect();
            assert!(offsets.iter().zip(0..).all(|((base, last), offset)| (*base..=*last).contains(&offset)), "{topic}");
            let first = 1_795_935_600_000;
            let times = (-1..105).map(|n| log.offset_for_timestamp(first + n * 100).unwrap().map(|found| found.offset));
            (offsets, times.collect::<Vec<_>>())
        };
        let whole = answers("whole");
        assert!(whole.1.iter().flatten().count() > 100);
        for topic in [
            "no-index",
            "no-active-index",
            "no-timeindex",
            "empty-timeindex",
            "index-odd-size",
            "index-garbage",
            "index-of-other-segment",
            "active-index-garbage",
            "swap",
        ] {
            assert_eq!(answers(topic), whole, "{name} {topic}");
        }
    }
}

/// A log that does not reach up to its recovery point was not only hit by a crash: nothing below the point is trusted
/// then.
#[test]
fn all_is_read_when_the_log_ends_before_its_recovery_point() {
    let fixture = Fixture::unpack_only("damaged-partitions-unclean", "flip-first-segment-0");
    let context = context();
    let mut params =
        fixture.params(&context, &TopicPartition::new("flip-first-segment", 0), DamagePolicy::KeepReadable);
    params.recovery_point = Offset(5000);
    let (log, report) = Log::open(&context, params).unwrap();
    let files: Vec<&str> = report.repairs.iter().map(|repair| &*repair.file).collect();
    assert_eq!(files, ["recovery-point-offset-checkpoint", "00000000000000000000.log"], "{report:?}");
    let found = found(&log);
    assert!(found.uncommitted.starts_with("90 10..101 "), "{found:?}");
    assert_eq!(log.recovery_point(), Offset(102));
}

/// A truncation or the next crash would miss them, and `verify-log` does: also where all producers, or those of some segments, have
/// expired.
#[test]
fn producer_snapshots_are_made_anew_for_each_segment() {
    let day = ProducerStateConfig::default().expiration_ms;
    // The largest timestamp of the first segment is the second of these less a day.
    for now_ms in [1_795_935_000_000, 1_795_935_603_900 + day, 1_795_935_603_900 + 10 * day] {
        for (name, topic, wanted) in [
            ("damaged-partitions-clean", "no-snapshots", &[40, 72, 102][..]),
            ("damaged-partitions-unclean", "no-snapshots", &[40, 72, 102]),
            ("damaged-partitions-unclean", "empty-last-segment", &[40, 72]),
        ] {
            let dir = format!("{topic}-0");
            let fixture = Fixture::unpack_only(name, &dir);
            let context = LogContext { clock: ManualClock::new(now_ms), ..context() };
            let (log, report) = fixture.open(&context, &TopicPartition::new(topic, 0), DamagePolicy::KeepReadable);
            log.close().unwrap();
            let is_told = report.repairs.iter().any(|repair| repair.file == "producer snapshots");
            assert_eq!(is_told, name.ends_with("-clean"), "{now_ms}: {report:?}");
            let mut names: Vec<String> = std::fs::read_dir(fixture.data().join(dir))
                .unwrap()
                .map(|entry| entry.unwrap().file_name().into_string().unwrap())
                .filter(|name| name.ends_with(".snapshot"))
                .collect();
            names.sort();
            let wanted: Vec<String> = wanted.iter().map(|offset| format!("{offset:020}.snapshot")).collect();
            assert_eq!(names, wanted, "{name} {topic} {now_ms}");
        }
    }
}

/// Of the metadata log what is cut off is kept, if some of it can be read: topics may be in it.
#[test]
fn readable_records_that_are_cut_off_are_kept_where_that_is_wanted() {
    let dir = "flip-middle-segment-0";
    for (topic, damage, kept) in [
        (
            "flip-middle-segment",
            DamagePolicy::CutOffKeepingCopy,
            &[("40.log.cut-off-at-0", 7305), ("72.log.cut-off-at-0", 6048)][..],
        ),
        ("flip-middle-segment", DamagePolicy::CutOff, &[]),
        ("tail-cut", DamagePolicy::CutOffKeepingCopy, &[]),
    ] {
        let dir = dir.replace("flip-middle-segment", topic);
        let fixture = Fixture::unpack_only("damaged-partitions-unclean", &dir);
        let (log, report) = fixture.open(&context(), &TopicPartition::new(topic, 0), damage);
        let mut copies: Vec<(String, u64)> = std::fs::read_dir(fixture.data().join(dir))
            .unwrap()
            .map(|entry| entry.unwrap())
            .map(|entry| (entry.file_name().into_string().unwrap(), entry.metadata().unwrap().len()))
            .filter(|(name, _)| name.contains("cut-off"))
            .collect();
        copies.sort();
        let wanted: Vec<(String, u64)> =
            kept.iter().map(|(name, len)| (format!("{}{name}", "0".repeat(18)), *len)).collect();
        assert_eq!(copies, wanted, "{topic}");
        let told = report.repairs.iter().filter(|repair| repair.file.contains("cut-off")).count();
        assert_eq!(told, kept.len(), "{report:?}");
        let (again, report) = reopen(&fixture, &log);
        assert_eq!((again.log_end_offset(), report.repairs), (log.log_end_offset(), vec![]), "{topic}");
    }
}

/// Everything that can be read, by single fetches; whether something could not.
fn read_what_is_left(log: &Log) -> (Vec<(i64, Vec<u8>)>, bool) {
    let (mut found, mut is_damaged) = (Vec::new(), false);
    let (mut next, end) = (log.log_start_offset(), log.log_end_offset());
    while next < end {
        match log.read(next, 1, end, true, Wait::ForDisk) {
            Ok(read) if read.slice.is_empty() => break,
            Ok(read) => {
                let mut bytes = bytes::BytesMut::new();
                read.slice.read_into(&mut bytes).unwrap();
                match crate::record::batch::RecordBatch::parse(&bytes) {
                    Ok(batch) if batch.is_crc_valid() => {
                        found.push((batch.base_offset().0, bytes.to_vec()));
                        next = batch.last_offset().plus(1);
                    }
                    Ok(_) | Err(_) => {
                        is_damaged = true;
                        next = next.plus(1);
                    }
                }
            }
            // Of damage least of all: readers go on behind it.
            Err(error) => panic!("{error}"),
        }
    }
    (found, is_damaged)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever is done to a log's files, it opens, serves nothing that was not written, and takes records again. After
    /// a crash it serves all that it has.
    #[test]
    fn any_damage_is_survived(
        harms in harms(),
        clean in any::<bool>(),
        keep in any::<bool>(),
    ) {
        let name = if clean { "damaged-partitions-clean" } else { "damaged-partitions-unclean" };
        let fixture = Fixture::unpack_only(name, "whole-0");
        let partition = TopicPartition::new("whole", 0);
        let damage = if keep { DamagePolicy::KeepReadable } else { DamagePolicy::CutOff };
        let (log, _) = fixture.open(&context(), &partition, damage);
        let (written, _) = read_what_is_left(&log);
        drop(log);

        let fixture = Fixture::unpack_only(name, "whole-0");
        inflict(&fixture.data().join("whole-0"), &harms);
        let (log, _) = fixture.open(&context(), &partition, damage);
        let (left, is_damaged) = read_what_is_left(&log);
        for (offset, bytes) in &left {
            // The magic, the base offset and the epoch are outside of the checksum.
            let is_written = written.iter().any(|(_, written)| written[17..] == bytes[17..]);
            prop_assert!(is_written, "a batch at {offset} was never written");
        }
        prop_assert!(clean || !is_damaged, "damage is served after a crash");
        if !clean {
            let _ = log.offset_for_timestamp(1_795_935_600_000).unwrap();
            let _ = log.max_timestamp_offset().unwrap();
            let _ = log.aborted_transactions(log.log_start_offset(), log.log_end_offset(), Wait::ForDisk).unwrap();
        }
        let end = log.log_end_offset();
        log.roll().unwrap();
        prop_assert_eq!(log.log_end_offset(), end);
        log.close().unwrap();
        let (again, report) = reopen(&fixture, &log);
        prop_assert_eq!(again.log_end_offset(), end);
        prop_assert!(report.bytes_removed == 0, "{:?}", report);
    }
}
