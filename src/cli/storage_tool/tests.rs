//! What is formatted, and with which words.

use super::*;
use crate::config::properties;
use crate::metadata::snapshot::{self, SnapshotId};
use crate::types::{LeaderEpoch, Offset};

/// A node's configuration with two directories; with voters, or without.
fn config(root: &Path, voters: &str) -> BrokerConfig {
    let text = format!(
        "node.id=3\nprocess.roles=broker,controller\ncontroller.listener.names=C\nlisteners=PLAINTEXT://:1,C://:2\n\
        listener.security.protocol.map=C:PLAINTEXT,PLAINTEXT:PLAINTEXT\n{voters}\n\
        log.dirs={0}/a,{0}/b\nmetadata.log.dir={0}/b\n",
        root.display()
    );
    BrokerConfig::load(properties::parse(text.as_bytes()).unwrap()).unwrap().config
}

const VOTERS: &str = "controller.quorum.voters=3@localhost:2";

/// The lines that are printed, or what is said instead.
fn format(config: &BrokerConfig, more: &[&str]) -> Result<Vec<String>, String> {
    let words = ["format", "-c", "x", "-t", "any word"].iter().chain(more).map(|word| (*word).to_owned());
    let arguments = Arguments::parse(&GRAMMAR, &words.collect::<Vec<_>>()).unwrap();
    let mut lines = Vec::new();
    let format = Format { config, unstable: false, arguments: &arguments, now_ms: 7 };
    match format.run(&*RealDisk::new(), &mut |line| lines.push(line)) {
        Ok(()) => Ok(lines),
        Err(Failure::Terse(message)) => Err(message),
        Err(Failure::Uncaught(error)) => Err(error.to_string()),
    }
}

#[test]
fn directories_are_formatted_once() {
    let root = tempfile::tempdir().unwrap();
    let disk = RealDisk::new();
    let config = config(root.path(), VOTERS);
    let lines = format(&config, &[]).unwrap();
    assert!(lines[0].starts_with(
        "Bootstrap metadata: BootstrapMetadata(records=[ApiMessageAndVersion(FeatureLevelRecord(name='metadata.version', featureLevel=30) at version 0), "
    ));
    assert!(lines[0].ends_with("], metadataVersionLevel=30, source=format command)"));
    let mut formatted = lines[1..].to_vec();
    formatted.sort();
    let shown = |name: &str| root.path().join(name).display().to_string();
    assert_eq!(
        formatted,
        [
            format!("Formatting data directory {} with metadata.version 4.3-IV0.", shown("a")),
            format!("Formatting metadata directory {} with metadata.version 4.3-IV0.", shown("b")),
        ]
    );
    for dir in ["a", "b"] {
        let found = MetaProperties::read(&*disk, &root.path().join(dir)).unwrap().unwrap();
        assert_eq!(found.cluster_id.as_deref(), Some("any word"));
        let records = snapshot::read_bootstrap(&*disk, &root.path().join(dir)).unwrap().unwrap();
        assert_eq!(records, crate::controller::features::bootstrap_records());
    }
    assert!(format(&config, &[]).unwrap_err().contains("is already formatted. Use --ignore-formatted"));
    assert_eq!(format(&config, &["-g"]).unwrap(), ["All of the log directories are already formatted."]);
    let other = format(&config, &["-g", "-t", "another"]).unwrap_err();
    assert!(other.starts_with("java.lang.RuntimeException: Invalid cluster.id in: "), "{other}");
}

#[test]
fn dynamic_voters_stand_in_the_first_snapshot() {
    let root = tempfile::tempdir().unwrap();
    let voters = "3@h:2:JEXY6aqzQY-32P5TStzaFg,4@i:2:MvDxzVmcRsaTz33bUuRU6A";
    let lines = format(&config(root.path(), ""), &["-I", voters]).unwrap();
    let metadata = format!("Formatting dynamic metadata voter directory {}/b with", root.path().display());
    assert!(lines.iter().any(|line| line.starts_with(&metadata)), "{lines:?}");
    let disk = RealDisk::new();
    let own = MetaProperties::read(&*disk, &root.path().join("b")).unwrap().unwrap();
    assert_eq!(own.directory_id.unwrap().to_string(), "JEXY6aqzQY-32P5TStzaFg");
    let first = SnapshotId { end_offset: Offset(0), epoch: LeaderEpoch(0) };
    let replay = snapshot::read(&*disk, &root.path().join("b/__cluster_metadata-0"), first).unwrap();
    assert_eq!(replay.kraft_version(), 1);
    let ids: Vec<i32> = replay.voters().into_iter().flatten().map(|voter| voter.id.0).collect();
    assert_eq!(ids, [3, 4]);

    let root = tempfile::tempdir().unwrap();
    let alone = format(&config(root.path(), ""), &["--standalone"]).unwrap();
    assert!(alone.iter().any(|line| line.contains("dynamic metadata voter directory")));
    let root = tempfile::tempdir().unwrap();
    let none = format(&config(root.path(), ""), &["-N"]).unwrap();
    assert!(none.iter().any(|line| line.contains("Formatting metadata directory")));
    assert!(!root.path().join("b/__cluster_metadata-0").exists());
}

#[test]
fn features_have_the_levels_that_are_asked_for() {
    let root = tempfile::tempdir().unwrap();
    let lines = format(&config(root.path(), VOTERS), &["-r", "4.0", "-f", "group.version=0"]).unwrap();
    let features = "records=[ApiMessageAndVersion(FeatureLevelRecord(name='metadata.version', featureLevel=25) at version 0), ApiMessageAndVersion(FeatureLevelRecord(name='eligible.leader.replicas.version', featureLevel=0) at version 0)";
    assert!(!lines[0].contains(features) && !lines[0].contains("group.version"), "{}", lines[0]);
    assert!(lines[0].contains("(name='transaction.version', featureLevel=2)"));
}

#[test]
fn what_cannot_be_is_said() {
    let root = tempfile::tempdir().unwrap();
    let fixed = config(root.path(), VOTERS);
    let dynamic = config(root.path(), "");
    for (config, more, reason) in [
        (&fixed, &["-I", "3@h:2:JEXY6aqzQY-32P5TStzaFg"][..], "You cannot specify controller.quorum.voters and"),
        (&fixed, &["-f", "kraft.version=1"], "Cannot set kraft.version to 1 unless controller.quorum.voters is empty"),
        (&dynamic, &["-s", "-f", "kraft.version=0"], "Cannot set kraft.version to 0 if controller.quorum.voters is"),
        (&dynamic, &[], "Because controller.quorum.voters is not set on this controller"),
        (&dynamic, &["-I", "x"], "java.lang.IllegalArgumentException: No @ found in dynamic voter string."),
        (&fixed, &["-r", "9.9"], "Unknown metadata.version '9.9'. Supported metadata.version are: 3.3-IV3, "),
        (&fixed, &["-r", "4.0", "-f", "metadata.version=25"], "Use --release-version instead of --feature"),
        (&fixed, &["-f", "metadata.version=31"], "metadata.version 4.4-IV0 is not yet stable."),
        (&fixed, &["-f", "metadata.version=99"], "java.lang.IllegalArgumentException: No MetadataVersion with"),
        (&fixed, &["-f", "x=1"], "Unsupported feature: x. Supported features are: eligible.leader.replicas.version, "),
        (&fixed, &["-f", "group.version=9"], "java.lang.IllegalArgumentException: No feature:group.version with"),
        (
            &fixed,
            &["-r", "3.9", "-f", "eligible.leader.replicas.version=1"],
            "java.lang.IllegalArgumentException: eligible.leader.replicas.version could not be set to 1 because",
        ),
        (&fixed, &["-f", "x"], "java.lang.RuntimeException: Can't parse feature=level string x"),
        (&fixed, &["-r", "3.4", "-S", "SCRAM-SHA-256=[name=a,password=b]"], "SCRAM is only supported in"),
        (&fixed, &["-S", "x"], "Failed to find equals sign in SCRAM argument 'x'"),
    ] {
        let error = format(config, more).unwrap_err();
        assert!(error.starts_with(reason), "{more:?}: {error}");
    }
    assert!(!root.path().join("a").exists());
}

#[test]
fn lists_have_their_titles() {
    assert_eq!(list(["One", "Many"], &[]), "");
    assert_eq!(list(["One", "Many"], &["a".to_owned()]), "One:\n  a\n\n");
    assert_eq!(list(["One", "Many"], &["a".to_owned(), "b".to_owned()]), "Many:\n  a\n  b\n\n");
}

/// Without `process.roles`, as in the files of ZooKeeper's times: there is no other controller to be told of.
#[test]
fn a_node_that_is_a_cluster_of_its_own_needs_no_voters() {
    let root = tempfile::tempdir().unwrap();
    let text = format!("broker.id=7\nlog.dirs={0}/a\n", root.path().display());
    let config = BrokerConfig::load(properties::parse(text.as_bytes()).unwrap()).unwrap().config;
    let lines = format(&config, &[]).unwrap();
    assert!(lines[0].contains("metadataVersionLevel=30"), "{lines:?}");
    let found = MetaProperties::read(&*RealDisk::new(), &root.path().join("a")).unwrap().unwrap();
    assert_eq!(found.cluster_id.as_deref(), Some("any word"));
    let other = tempfile::tempdir().unwrap();
    let text = format!("log.dirs={}/a\n", other.path().display());
    let config = BrokerConfig::load(properties::parse(text.as_bytes()).unwrap()).unwrap().config;
    assert!(format(&config, &["--standalone"]).unwrap_err().contains("No controller listeners found."));
}
