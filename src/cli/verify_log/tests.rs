//! Kafka's own directories, sound and damaged in every way that is known: each damage is named, and a repair leaves logs
//! that serve at least what Kafka serves of them.

mod no_files;
mod set_aside;

use std::collections::BTreeSet;
use std::fs;

use clap::Parser as _;
use proptest::prelude::*;

use super::*;
use crate::cli::{Arguments, Tool};
use crate::storage::fixture::{Fixture, context, expected, found};
use crate::storage::harm::{batches, harms, inflict};
use crate::storage::recovery::DamagePolicy;

/// The exit code and the lines that the tool prints.
fn verified(arguments: &[&str]) -> (u8, Vec<String>) {
    let arguments = Arguments::try_parse_from([&["ottla", "verify-log"], arguments].concat()).unwrap();
    let Some(Tool::VerifyLog(arguments)) = arguments.tool else { panic!("another tool") };
    let mut out = Vec::new();
    let code = verify_log(&arguments, &mut out).unwrap_or_else(|error| panic!("{error}"));
    (code, String::from_utf8(out).unwrap().lines().map(str::to_owned).collect())
}

fn data(fixture: &Fixture) -> String {
    fixture.data().to_str().unwrap().to_owned()
}

/// What is said of a file or directory whose name begins with `path`.
fn said_of<'a>(lines: &'a [String], path: &str) -> Vec<&'a str> {
    let is_of = |line: &&String| line.get(6..).is_some_and(|rest| rest.starts_with(path));
    lines.iter().filter(is_of).map(|line| line.as_str()).collect()
}

/// What is said to be done, or that would be.
fn actions<'a>(lines: &'a [String], begin: &str) -> Vec<&'a str> {
    lines.iter().filter_map(|line| line.strip_prefix(begin)).collect()
}

/// How one damage is named; in the directory that was closed, and in the one of a broker that was killed if that differs.
/// `""`: nothing is wrong, or nobody could tell.
const PARTITIONS: [(&str, &str, &str); 38] = [
    ("whole", "", ""),
    ("tail-cut", "00000000000000000072.log at 4023: 1975 bytes are no records: a batch of 2025 bytes ends behind", "="),
    ("tail-cut-in-header", "00000000000000000072.log at 4023: 30 bytes are no records", "="),
    ("tail-cut-in-length", "00000000000000000072.log at 4023: 10 bytes are no records", "="),
    ("empty-last-segment", "00000000000000000072.index at 0: entry 0 points to 2009, behind the last batch", "="),
    ("flip-last-batch", "00000000000000000072.log at 4023: 2025 bytes are no records: the checksum", "="),
    ("flip-middle-segment", "00000000000000000040.log at 0: 2370 bytes are no records: the checksum", "="),
    ("flip-first-segment", "00000000000000000000.log at 0: 1877 bytes are no records: the checksum", "="),
    ("flip-magic", "00000000000000000072.log at 4023: 2025 bytes are no records: Invalid magic", "="),
    (
        "length-too-big",
        "00000000000000000072.log at 4023: 2025 bytes are no records: record batch of length 2147483647",
        "=",
    ),
    // Left whole in the closed directory, since Kafka does not start with it.
    ("length-too-small", "", "00000000000000000072.log at 4023: 2025 bytes are no records: Record size 5"),
    ("base-offset-zero", "00000000000000000072.log at 4023: 2025 bytes are no records: offset 0 is before 92", ""),
    ("garbage-end", "00000000000000000072.log at 6048: 200 bytes are no records", "="),
    ("zeros-end", "", "00000000000000000072.log at 6048: 300 bytes are no records"),
    ("no-index", "00000000000000000000.index: missing", "="),
    ("no-active-index", "00000000000000000072.index: missing", "="),
    ("no-timeindex", "00000000000000000000.timeindex: missing", "="),
    ("empty-timeindex", "00000000000000000000.timeindex at 0: the segment's largest timestamp", "="),
    ("index-odd-size", "00000000000000000000.index at 24: 27 bytes are no whole number of entries", "="),
    ("index-garbage", "00000000000000000000.index at 8: entry 1 is negative", "="),
    ("index-of-other-segment", "00000000000000000000.index at 0: entry 0 points to 2370, where no batch begins", "="),
    ("active-index-garbage", "00000000000000000072.index at 8: entry 1 is negative", "="),
    ("no-snapshots", "00000000000000000040.snapshot: missing", "="),
    // A broker that was killed has written none at the end.
    ("no-last-snapshot", "00000000000000000102.snapshot: missing", ""),
    ("last-snapshot-corrupt", "00000000000000000102.snapshot: stored checksum", "="),
    (
        "no-txnindex",
        "00000000000000000040.txnindex at 0: the transaction of producer 1 from 40, aborted at 50, is missing",
        "=",
    ),
    ("txnindex-garbage", "00000000000000000040.txnindex at 34: 44 bytes are no whole number of entries", "="),
    ("no-leader-epoch", "leader-epoch-checkpoint: missing", "="),
    ("no-partition-metadata", "partition.metadata: missing", "="),
    ("empty-partition-dir", "partition.metadata: missing", "="),
    ("no-middle-segment", "00000000000000000040.index: an index without its segment", "="),
    ("no-first-segment", "00000000000000000000.index: an index without its segment", "="),
    // No damage, but the file of epochs did not follow; it lags behind in a broker that runs.
    ("log-start-inside", "leader-epoch-checkpoint: epoch 0 begins at 0, the log at 13", ""),
    ("leftovers", "00000000000000000000.log.cleaned: is left of a compaction that did not finish", "="),
    ("swap", "00000000000000000040.log.swap: an exchange of segments was interrupted", "="),
    // These are told of other files, see below.
    ("no-partition-dir", "", ""),
    ("log-start-past-end", "leader-epoch-checkpoint: epoch 0 begins at 0, the log at 5000", ""),
    ("recovery-point-past-end", "", ""),
];

const CHECKPOINTS: [&str; 3] = [
    "fault no-partition-dir-0: missing: the metadata gives this log to this directory",
    "fault log-start-offset-checkpoint: log-start-past-end-0 starts at 5000, but ends at 102",
    "fault recovery-point-offset-checkpoint: recovery-point-past-end-0 is at 5000, but ends at 102",
];

#[test]
fn each_damage_of_a_partition_is_named() {
    for (kind, was_closed) in [("clean", true), ("unclean", false)] {
        let fixture = Fixture::unpack(&format!("damaged-partitions-{kind}"));
        let (code, lines) = verified(&[&data(&fixture)]);
        assert_eq!(code, 1);
        for (topic, closed, killed) in PARTITIONS {
            let named = if was_closed || killed == "=" { closed } else { killed };
            let said = said_of(&lines, &format!("{topic}-0/"));
            match named {
                "" => assert_eq!(said, [] as [&str; 0], "{kind} {topic}"),
                named => {
                    let is_named = said.iter().any(|line| line[6..].starts_with(&format!("{topic}-0/{named}")));
                    assert!(is_named, "{kind} {topic}: {said:#?}");
                }
            }
        }
        for line in CHECKPOINTS {
            assert!(lines.iter().any(|said| said.starts_with(line)), "{kind} {line}: {lines:#?}");
        }
        // Nothing is said of what nobody damaged.
        let damaged: BTreeSet<&str> = PARTITIONS.iter().map(|(topic, ..)| *topic).collect();
        for line in lines.iter().filter(|line| line.starts_with("fault ") && line.contains("-0/")) {
            assert!(damaged.contains(line[6..].split_once("-0/").unwrap().0), "{line}");
        }
    }
}

#[test]
fn damage_with_which_kafka_does_not_start_is_named() {
    for (name, named) in [
        ("base-offset-zero-unclean", "fault d-0/00000000000000000072.log at 4023: 2025 bytes are no records: offset 0"),
        (
            "length-too-small-clean",
            "fault d-0/00000000000000000072.log at 4023: 2025 bytes are no records: Record size 5",
        ),
        ("zeros-end-clean", "fault d-0/00000000000000000072.log at 6048: 300 bytes are no records"),
    ] {
        let fixture = Fixture::unpack(&format!("damaged-fatal-{name}"));
        let (code, lines) = verified(&[&data(&fixture)]);
        assert_eq!(code, 1);
        assert!(lines.iter().any(|line| line.starts_with(named)), "{name}: {lines:#?}");
        let (code, lines) = verified(&["--repair", &data(&fixture)]);
        assert_eq!(code, 0, "{name}: {lines:#?}");
    }
}

/// How damage to the files of a whole directory is named.
const DIRECTORIES: [(&str, &str); 17] = [
    ("empty-leader-epoch", "fault d-0/leader-epoch-checkpoint: has no entries"),
    ("leader-epoch-corrupt", "fault d-0/leader-epoch-checkpoint: 2 entries expected, 1 found"),
    ("empty-partition-metadata", "fault d-0/partition.metadata: partition metadata is malformed"),
    (
        "partition-metadata-other-id",
        "fault d-0/partition.metadata: topic id BBBBBBBBBBBBBBBBBBBBBA is not in the metadata",
    ),
    ("no-root-checkpoints", "fault recovery-point-offset-checkpoint: missing"),
    ("recovery-checkpoint-corrupt", "fault recovery-point-offset-checkpoint: malformed line"),
    ("replication-checkpoint-corrupt", "fault replication-offset-checkpoint: not UTF-8"),
    ("no-meta-properties", "fault meta.properties: missing"),
    // One directory alone has nothing that could disagree.
    ("other-cluster-id", ""),
    ("other-node-id", "fault meta.properties: node.id is 9, the metadata knows only 1"),
    ("other-directory-id", "fault meta.properties: directory.id is BBBBBBBBBBBBBBBBBBBBBA, but the metadata gives"),
    ("metadata-tail-cut", "fault __cluster_metadata-0/00000000000000000000.log at 2933: 67 bytes are no records"),
    ("metadata-flip", "fault __cluster_metadata-0/00000000000000000000.log at 707: 315 bytes are no records"),
    ("no-quorum-state", "fault __cluster_metadata-0/quorum-state: missing"),
    ("no-bootstrap-checkpoint", "note  bootstrap.checkpoint: missing"),
    ("foreign-directory", "fault not-a-partition: is no partition's directory"),
    ("foreign-directory-without-dash", "fault lostfound: is no partition's directory"),
];

#[test]
fn each_damage_of_the_directory_is_named_and_repaired_if_that_can_be() {
    for (name, named) in DIRECTORIES {
        let fixture = Fixture::unpack(&format!("damaged-root-{name}"));
        let (code, lines) = verified(&[&data(&fixture)]);
        assert_eq!(code == 1, named.starts_with("fault"), "{name}: {lines:#?}");
        if name == "other-directory-id" {
            let has = |part: &str| lines.iter().any(|line| line.contains(part));
            assert!(has("with Kafka they stay without a leader, Ottla tells the controller"), "{lines:#?}");
        }
        match named {
            "" => assert_eq!(lines.len(), 1, "{name}: {lines:#?}"),
            named => assert!(lines.iter().any(|line| line.starts_with(named)), "{name}: {lines:#?}"),
        }
        let is_curable = [
            "empty-leader-epoch",
            "leader-epoch-corrupt",
            "empty-partition-metadata",
            "recovery-checkpoint-corrupt",
            "replication-checkpoint-corrupt",
            "metadata-tail-cut",
        ]
        .contains(&name);
        let (after, lines) = verified(&["--repair", &data(&fixture)]);
        assert_eq!(after, if is_curable { 0 } else { code }, "{name}: {lines:#?}");
    }
}

#[test]
fn sound_directories_are_sound() {
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
        "formatted",
        "unclean",
    ] {
        let fixture = Fixture::unpack(name);
        let (code, lines) = verified(&[&data(&fixture)]);
        assert_eq!(code, 0, "{name}: {lines:#?}");
        assert!(lines.last().unwrap().contains(": 0 faults, "), "{name}: {lines:#?}");
    }
}

/// The number of records in `COUNT FIRST..LAST HASH`.
fn records(read: &str) -> u64 {
    read.split(' ').next().unwrap().parse().unwrap()
}

#[test]
fn a_repair_leaves_logs_that_serve_at_least_what_kafka_serves() {
    for kind in ["clean", "unclean"] {
        let name = format!("damaged-partitions-{kind}");
        let fixture = Fixture::unpack(&name);
        let (_, before) = verified(&[&data(&fixture)]);
        let (_, planned) = verified(&["--dry-run", &data(&fixture)]);
        assert_eq!(
            verified(&[&data(&fixture)]).1[..before.len() - 1],
            before[..before.len() - 1],
            "a dry run does nothing"
        );
        let (code, lines) = verified(&["--repair", &data(&fixture)]);
        assert_eq!(code, 1);
        assert_eq!(actions(&planned, "would  "), actions(&lines, "done   "));
        let (_, after) = verified(&[&data(&fixture)]);
        let left: Vec<&str> =
            after.iter().filter(|line| line.starts_with("fault ")).map(|line| line.as_str()).collect();
        // What a repair cannot know, or leaves to a person.
        let is_expected = |line: &&&str| {
            [
                "empty-partition-dir-0",
                "no-partition-dir-0",
                "log-start-offset-checkpoint",
                "log-start-past-end-0/leader-epoch",
            ]
            .iter()
            .any(|start| line[6..].starts_with(start))
        };
        assert_eq!(left.iter().filter(is_expected).count(), left.len(), "{left:#?}");

        // What went is kept.
        let backup = lines.iter().find_map(|line| line.strip_prefix("what was removed or replaced is in ")).unwrap();
        let kept = |name: &str| fs::read(Path::new(backup).join(name)).unwrap();
        assert_eq!(kept("tail-cut-0/00000000000000000072.log.bytes-4023-5998").len(), 1975);
        assert_eq!(kept("flip-middle-segment-0/00000000000000000040.log.bytes-0-2370").len(), 2370);
        assert_eq!(kept("index-odd-size-0/00000000000000000000.index").len(), 27);
        assert!(!Path::new(backup).join("whole-0").exists(), "nothing was done to it");

        for (dir, kafkas) in expected(&name) {
            if !fixture.data().join(&dir).join("00000000000000000000.log").exists()
                || dir.starts_with("log-start-past-end")
            {
                continue;
            }
            let (log, report) = fixture.open(&context(), &kafkas.partition, DamagePolicy::KeepReadable);
            // Records that are nowhere any more leave a gap for good, which is told at each start.
            let mended: Vec<_> = report.repairs.iter().filter(|repair| !repair.done.starts_with("kept it")).collect();
            assert!(mended.is_empty(), "{dir}: {mended:?}");
            let ours = found(&log);
            assert!(records(&ours.uncommitted) >= records(&kafkas.uncommitted), "{dir}: {ours:?}, Kafka: {kafkas:?}");
            log.close().unwrap();
        }
    }
}

/// With the metadata of a partition of several replicas what follows damage comes from the others.
#[test]
fn metadata_with_readable_records_behind_damage_is_not_cut_off() {
    let fixture = Fixture::unpack("damaged-partitions-clean");
    let path = fixture.data().join("__cluster_metadata-0/00000000000000000000.log");
    let mut bytes = fs::read(&path).unwrap();
    bytes[1000] ^= 1;
    fs::write(&path, &bytes).unwrap();
    let (_, lines) = verified(&["--repair", &data(&fixture)]);
    assert_eq!(fs::read(&path).unwrap(), bytes);
    let said = said_of(&lines, "__cluster_metadata-0/00000000000000000000.log");
    assert!(said[0].ends_with("take the directory of another controller, or a backup"), "{said:#?}");

    // Its torn end is.
    let fixture = Fixture::unpack("damaged-partitions-clean");
    let path = fixture.data().join("__cluster_metadata-0/00000000000000000000.log");
    fs::write(&path, &fs::read(&path).unwrap()[..5000]).unwrap();
    let (_, lines) = verified(&["--repair", &data(&fixture)]);
    assert!(
        lines.iter().any(|line| line.starts_with("done   __cluster_metadata-0/00000000000000000000.log: ")),
        "{lines:#?}"
    );
    assert!(fs::metadata(&path).unwrap().len() < 5000);
}

#[test]
fn what_is_no_log_directory_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let verify_of = |path: &str| {
        let arguments = Arguments::try_parse_from(["ottla", "verify-log", path]).unwrap();
        let Some(Tool::VerifyLog(arguments)) = arguments.tool else { panic!("another tool") };
        verify_log(&arguments, &mut Vec::new())
    };
    assert!(matches!(verify_of("/nowhere"), Err(VerifyError::Io { .. })));
    assert!(matches!(verify_of(dir.path().to_str().unwrap()), Err(VerifyError::NoLogDirectory(_))));
    assert!(Arguments::try_parse_from(["ottla", "verify-log"]).is_err());
    assert!(Arguments::try_parse_from(["ottla", "verify-log", "a", "--backup", "b"]).is_err());
}

#[test]
fn a_directory_in_use_is_not_repaired() {
    let fixture = Fixture::unpack_only("damaged-partitions-clean", "whole-0");
    let disk = RealDisk::new();
    let lock = DirLock::acquire(&*disk, &fixture.data()).unwrap();
    let dir = data(&fixture);
    let arguments = Arguments::try_parse_from(["ottla", "verify-log", "--repair", &dir]).unwrap();
    let Some(Tool::VerifyLog(arguments)) = arguments.tool else { panic!("another tool") };
    assert!(matches!(verify_log(&arguments, &mut Vec::new()), Err(VerifyError::InUse(_))));
    // To look is allowed.
    let (_, lines) = verified(&[&dir]);
    assert!(lines.iter().any(|line| line.starts_with("note  .lock: ")), "{lines:#?}");
    drop(lock);
    assert!(said_of(&verified(&[&dir]).1, ".lock").is_empty());
}

/// Directories of one node agree; a log lies in one of them only.
#[test]
fn several_directories_are_held_against_each_other() {
    let fixture = Fixture::unpack("damaged-root-no-bootstrap-checkpoint");
    let first = fixture.data();
    let second = first.with_file_name("second");
    fs::create_dir_all(second.join("d-0")).unwrap();
    for name in ["d-0", "e-0"] {
        fs::create_dir_all(second.join(name)).unwrap();
        for entry in fs::read_dir(first.join(name)).unwrap() {
            let path = entry.unwrap().path();
            fs::copy(&path, second.join(name).join(path.file_name().unwrap())).unwrap();
        }
    }
    fs::remove_dir_all(first.join("e-0")).unwrap();
    let text = fs::read_to_string(first.join("meta.properties")).unwrap();
    let cluster = text.lines().find(|line| line.starts_with("cluster.id=")).unwrap();
    let directory = text.lines().find(|line| line.starts_with("directory.id=")).unwrap();
    let other = text
        .replace(cluster, "cluster.id=BBBBBBBBBBBBBBBBBBBBBA")
        .replace(directory, "directory.id=CCCCCCCCCCCCCCCCCCCCCA");
    fs::write(second.join("meta.properties"), other).unwrap();
    let (code, lines) = verified(&[first.to_str().unwrap(), second.to_str().unwrap()]);
    assert_eq!(code, 1);
    let has = |part: &str| lines.iter().any(|line| line.contains(part));
    assert!(has("second/d-0: lies in "), "{lines:#?}");
    assert!(has("; both end at 102"), "{lines:#?}");
    assert!(has("belongs to cluster BBBBBBBBBBBBBBBBBBBBBA, not to "), "{lines:#?}");
    // It lies in the other directory, which is what a move leaves of which nobody was told.
    assert!(!has("data/e-0: missing"), "{lines:#?}");
    let moved = |line: &String| {
        line.starts_with("note  ")
            && line.contains("second/meta.properties: 2 logs here, d-0 the first, are given to another directory")
    };
    assert!(lines.iter().any(moved), "{lines:#?}");
    // Whoever removes one of two logs is told which one has more.
    let last = |dir: &Path| dir.join("d-0/00000000000000000072.log");
    let whole = fs::read(last(&first)).unwrap();
    for (shorter, longer) in [(&first, &second), (&second, &first)] {
        fs::write(last(longer), &whole).unwrap();
        fs::write(last(shorter), &whole[..whole.len() - 1]).unwrap();
        let (_, lines) = verified(&[first.to_str().unwrap(), second.to_str().unwrap()]);
        let expected = format!("Ottla keeps the log that goes further; that is the one in {}: ", longer.display());
        assert!(lines.iter().any(|line| line.contains(&expected)), "{lines:#?}");
        assert!(!lines.iter().any(|line| line.contains("no broker starts then, remove")), "{lines:#?}");
    }
    fs::write(last(&second), &whole).unwrap();
    fs::remove_dir_all(second.join("e-0")).unwrap();
    let (_, lines) = verified(&[first.to_str().unwrap(), second.to_str().unwrap()]);
    let missing = "data/e-0: missing: the metadata gives this log to this directory";
    assert!(lines.iter().any(|line| line.starts_with("fault ") && line.contains(missing)), "{lines:#?}");
}

/// A disk that does not give a file back is a fault like another; the rest is looked at.
#[test]
fn what_cannot_be_read_is_named() {
    let fixture = Fixture::unpack("damaged-root-no-bootstrap-checkpoint");
    let log = fixture.data().join("d-0/00000000000000000040.log");
    fs::remove_file(&log).unwrap();
    fs::create_dir(fixture.data().join("d-0/x")).unwrap();
    // A link that leads nowhere, as there is no bad block at hand.
    std::os::unix::fs::symlink("/nowhere", &log).unwrap();
    let (code, lines) = verified(&[&data(&fixture)]);
    assert_eq!(code, 1);
    assert!(
        lines.iter().any(|line| line.starts_with("fault d-0/00000000000000000040.log: is a symbolic link to nothing")),
        "{lines:#?}"
    );
    assert!(said_of(&lines, "e-0").is_empty());
}

/// All whole batches in the files below a directory.
fn batches_below(dir: &Path) -> BTreeSet<Vec<u8>> {
    let mut found = BTreeSet::new();
    for entry in fs::read_dir(dir).into_iter().flatten() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => found.extend(batches_below(&path)),
            false => found.extend(batches(&fs::read(&path).unwrap()).into_values()),
        }
    }
    found
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 30, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever was done to a log's files: a dry run does nothing and says what a repair does, in its words; and no
    /// batch that could be read before is neither in the log nor in the backup then.
    #[test]
    fn a_repair_does_what_was_announced_and_keeps_what_goes(
        harms in harms(),
        clean in any::<bool>(),
    ) {
        let name = if clean { "damaged-partitions-clean" } else { "damaged-partitions-unclean" };
        let fixture = Fixture::unpack_only(name, "whole-0");
        let dir = fixture.data().join("whole-0");
        for entry in fs::read_dir(fixture.data()).unwrap().map(|entry| entry.unwrap().path()) {
            if entry.is_dir() && entry != dir {
                fs::remove_dir_all(entry).unwrap();
            }
        }
        inflict(&dir, &harms);
        let before = batches_below(&fixture.data());
        let (_, planned) = verified(&["--dry-run", &data(&fixture)]);
        prop_assert_eq!(&batches_below(&fixture.data()), &before);
        let (_, lines) = verified(&["--repair", &data(&fixture)]);
        prop_assert_eq!(actions(&planned, "would  "), if actions(&lines, "done   ").is_empty() {
            vec!["do nothing"]
        } else {
            actions(&lines, "done   ")
        });
        let after = batches_below(fixture.data().parent().unwrap());
        let lost = before.iter().filter(|batch| !after.contains(*batch)).count();
        prop_assert_eq!(lost, 0, "{:#?}", lines);
    }
}
