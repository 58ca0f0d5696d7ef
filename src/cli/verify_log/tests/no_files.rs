//! What is no file where one should be: a directory, a FIFO, a link that leads nowhere, in the place of each file of a log directory.
//! Whatever it is and wherever, nothing waits for it, the node starts and the other logs serve; the tool names it, and repairs what
//! follows from the records.

use std::collections::BTreeMap;
use std::os::unix::fs::symlink;
use std::sync::Arc;

use rustix::fs::{CWD, FileType, Mode, mknodat};

use super::*;
use crate::config::TopicConfig;
use crate::storage::checkpoint::{HIGH_WATERMARKS, OffsetCheckpointFile, RECOVERY_POINTS};
use crate::storage::directory_name::DirectoryName;
use crate::storage::fixture::{Expected, context_on};
use crate::storage::manager::{
    CreateError, HostedPartition, LoadReport, LogLookupError, LogManager, LogManagerConfig, NewLog,
};
use crate::storage::partition_metadata;
use crate::storage::producer_state::ProducerStateConfig;
use crate::types::{DirectoryId, LeaderEpoch, Offset, TopicId, TopicPartition};

/// What stands there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Odd {
    Directory,
    /// With something in it.
    FullDirectory,
    Fifo,
    Socket,
    Device,
    LinkToNothing,
    LinkInACircle,
}

const ALL: [Odd; 7] =
    [Odd::Directory, Odd::FullDirectory, Odd::Fifo, Odd::Socket, Odd::Device, Odd::LinkToNothing, Odd::LinkInACircle];

impl Odd {
    /// Puts it in the place of whatever is there.
    fn stand_at(self, path: &Path) {
        match path.is_dir() {
            true => fs::remove_dir_all(path).unwrap(),
            false => drop(fs::remove_file(path)),
        }
        match self {
            Odd::Directory => fs::create_dir(path).unwrap(),
            Odd::FullDirectory => fs::create_dir_all(path.join("a-0/b")).unwrap(),
            Odd::Fifo => mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap(),
            Odd::Socket => {
                // The path of a socket is short.
                let short = tempfile::tempdir().unwrap();
                let at = short.path().join("s");
                drop(std::os::unix::net::UnixListener::bind(&at).unwrap());
                fs::rename(&at, path).unwrap();
            }
            Odd::Device => symlink("/dev/zero", path).unwrap(),
            Odd::LinkToNothing => symlink("/nowhere/at/all", path).unwrap(),
            Odd::LinkInACircle => symlink(path, path).unwrap(),
        }
    }

    fn said(self) -> &'static str {
        match self {
            Odd::Directory | Odd::FullDirectory => "is a directory, not a file",
            Odd::Fifo => "is a FIFO, not a file",
            Odd::Socket => "is a socket, not a file",
            Odd::Device => "is a device, not a file",
            Odd::LinkToNothing => "is a symbolic link to nothing, not a file",
            Odd::LinkInACircle => "is a symbolic link that leads in a circle, not a file",
        }
    }
}

/// `d` and `e`, as Kafka closed them; some of the tests as Kafka leaves them when it is killed.
struct Node {
    fixture: Fixture,
    topics: BTreeMap<TopicPartition, TopicId>,
}

impl Node {
    fn new(is_closed: bool) -> Node {
        let fixture = Fixture::unpack("damaged-root-no-bootstrap-checkpoint");
        if !is_closed {
            fs::remove_file(fixture.data().join(".kafka_cleanshutdown")).unwrap();
            fs::remove_file(fixture.data().join(RECOVERY_POINTS)).unwrap();
        }
        let disk = RealDisk::new();
        let mut topics = BTreeMap::new();
        for entry in disk.list(&fixture.data()).unwrap() {
            let name = entry.name.to_str().and_then(DirectoryName::parse);
            let id = partition_metadata::read(&*disk, &fixture.data().join(&entry.name)).ok().flatten();
            topics.extend(name.map(|name| name.topic_partition).zip(id));
        }
        Node { fixture, topics }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.fixture.data().join(name)
    }

    fn start(&self) -> (Arc<LogManager>, LoadReport) {
        let config = LogManagerConfig {
            log_dirs: vec![(self.fixture.data(), DirectoryId::random())],
            unusable: BTreeMap::new(),
            recovery_threads_per_data_dir: 1,
            file_delete_delay_ms: 0,
            producers: ProducerStateConfig::default(),
            on_failure: Arc::new(|failure| panic!("{failure:?}")),
        };
        let manager = LogManager::open(context_on(RealDisk::new()), config).unwrap();
        let assigned = |partition: &TopicPartition, _: Option<TopicId>| {
            Some(HostedPartition {
                topic_id: *self.topics.get(partition)?,
                leader_epoch: LeaderEpoch(100),
                config: Arc::new(TopicConfig::default()),
                damage: DamagePolicy::KeepReadable,
                directory: None,
            })
        };
        let report = manager.load(&assigned, Arc::new(|_| {}));
        assert!(!manager.has_offline_dirs());
        (manager, report)
    }

    fn new_log(&self, partition: &TopicPartition) -> NewLog {
        NewLog {
            topic_id: self.topics[partition],
            config: Arc::new(TopicConfig::default()),
            damage: DamagePolicy::KeepReadable,
            directory: None,
            is_new: false,
        }
    }

    fn checkpoint(&self, name: &str) -> BTreeMap<TopicPartition, Offset> {
        OffsetCheckpointFile::new(RealDisk::new(), &self.fixture.data(), name).read().unwrap()
    }

    fn verified(&self, option: &[&str]) -> (u8, Vec<String>) {
        super::verified(&[option, &[&data(&self.fixture)]].concat())
    }
}

fn partition(name: &str) -> TopicPartition {
    TopicPartition::new(name, 0)
}

/// `d-0` and `e-0` have the same records.
fn whole(name: &str) -> Expected {
    expected("damaged-root-no-bootstrap-checkpoint")[&format!("{name}-0")].clone()
}

/// Files that follow from the records, or do without.
const REBUILT: [&str; 17] = [
    "d-0/00000000000000000000.index",
    "d-0/00000000000000000000.timeindex",
    "d-0/00000000000000000040.index",
    "d-0/00000000000000000040.txnindex",
    "d-0/00000000000000000040.snapshot",
    "d-0/00000000000000000072.index",
    "d-0/00000000000000000072.timeindex",
    "d-0/00000000000000000072.snapshot",
    "d-0/00000000000000000102.snapshot",
    "d-0/00000000000000000000.log.deleted",
    "d-0/00000000000000000000.index.cleaned",
    "d-0/leader-epoch-checkpoint",
    "d-0/partition.metadata",
    "recovery-point-offset-checkpoint",
    "log-start-offset-checkpoint",
    "replication-offset-checkpoint",
    ".kafka_cleanshutdown",
];

#[test]
fn what_follows_from_the_records_is_made_anew() {
    for (number, (file, odd)) in REBUILT.iter().flat_map(|file| ALL.map(|odd| (*file, odd))).enumerate() {
        let case = format!("{file} {odd:?}");
        let is_closed = number % 3 > 0;
        // As a start has it.
        let node = Node::new(is_closed);
        odd.stand_at(&node.path(file));
        let (manager, report) = node.start();
        assert_eq!(report.unopened, [], "{case}");
        for name in ["d", "e"] {
            assert_eq!(found(&manager.get(&partition(name)).unwrap()), whole(name), "{case}");
        }
        manager.checkpoint_high_watermarks(&[(partition("d"), Offset(102))].into());
        manager.shutdown(1, &[(partition("d"), Offset(102)), (partition("e"), Offset(102))].into());
        let (_, lines) = node.verified(&[]);
        // A producer snapshot inside of a log is not missed by a start, nor by Kafka's.
        let faults = lines.iter().filter(|line| line.starts_with("fault ") && !line.ends_with(".snapshot: missing"));
        let (left, faults): (Vec<&String>, Vec<&String>) = faults.partition(|line| line.contains(".set-aside: "));
        assert_eq!(faults, [] as [&String; 0], "{case}");
        // Of a partition nobody minds it.
        let is_in_root = !file.contains('/') && matches!(odd, Odd::Directory | Odd::FullDirectory);
        assert_eq!(left.len(), usize::from(is_in_root), "{case}: {left:?}");
        let (code, lines) = node.verified(&["--repair"]);
        assert_eq!(code, 0, "{case}: {lines:#?}");

        // And as a repair.
        let node = Node::new(is_closed);
        odd.stand_at(&node.path(file));
        let (code, lines) = node.verified(&[]);
        assert_eq!(code, 1, "{case}");
        let said = said_of(&lines, file);
        assert!(said.len() == 1 && said[0].starts_with("fault ") && said[0].contains(odd.said()), "{case}: {lines:#?}");
        let (_, planned) = node.verified(&["--dry-run"]);
        let (code, lines) = node.verified(&["--repair"]);
        assert_eq!(code, 0, "{case}: {lines:#?}");
        assert_eq!(actions(&planned, "would  "), actions(&lines, "done   "), "{case}");
        let (code, lines) = node.verified(&[]);
        assert_eq!(code, 0, "{case}: {lines:#?}");
        let backup = fs::read_dir(node.fixture.data().parent().unwrap()).unwrap();
        let mut backup =
            backup.map(|entry| entry.unwrap().path()).filter(|path| path.to_str().unwrap().contains("before-repair"));
        assert!(backup.next().unwrap().join(file).symlink_metadata().is_ok(), "{case}");
        let (manager, _) = node.start();
        assert_eq!(found(&manager.get(&partition("d")).unwrap()), whole("d"), "{case}");
    }
}

/// Where the records should be: nobody goes on without them, as they may be on a volume that is not there. The others serve.
const RECORDS: [&str; 4] = [
    "d-0/00000000000000000000.log",
    "d-0/00000000000000000040.log",
    "d-0/00000000000000000072.log",
    "d-0/00000000000000000040.log.swap",
];

#[test]
fn a_log_whose_records_are_out_of_reach_is_offline_alone() {
    for (number, (file, odd)) in RECORDS.iter().flat_map(|file| ALL.map(|odd| (*file, odd))).enumerate() {
        let case = format!("{file} {odd:?}");
        let is_closed = number % 3 > 0;
        let node = Node::new(is_closed);
        let kept = node.path("kept");
        let had_file = fs::rename(node.path(file), &kept).is_ok();
        odd.stand_at(&node.path(file));
        let before = names(&node.path("d-0"));
        let (code, lines) = node.verified(&["--repair"]);
        assert_eq!(code, 1, "{case}");
        let said = said_of(&lines, file);
        let is_said = |line: &&str| line.contains(odd.said()) && line.contains("cannot be opened until");
        assert!(said.iter().any(is_said), "{case}: {lines:#?}");
        assert!(actions(&lines, "done   ").iter().all(|line| line.starts_with("recovery-point")), "{case}: {lines:#?}");

        let (manager, report) = node.start();
        assert_eq!(report.unopened, [partition("d")], "{case}");
        assert_eq!(manager.get(&partition("d")).err(), Some(LogLookupError::Offline), "{case}");
        let error = manager.get_or_create(&partition("d"), node.new_log(&partition("d"))).err().unwrap();
        assert!(matches!(error, CreateError::Unopened(_)), "{case}: {error}");
        assert_eq!(found(&manager.get(&partition("e")).unwrap()), whole("e"), "{case}");
        assert_eq!(names(&node.path("d-0")), before, "{case}: nothing was touched");
        manager.checkpoint_recovery_points();
        manager.shutdown(1, &[(partition("e"), Offset(102))].into());
        // What is known of it stays known, and what was to be recovered still is.
        assert_eq!(node.checkpoint(HIGH_WATERMARKS)[&partition("d")], Offset(102), "{case}");
        if is_closed {
            assert_eq!(node.checkpoint(RECOVERY_POINTS)[&partition("d")], Offset(102), "{case}");
        }
        assert_eq!(node.path(".kafka_cleanshutdown").exists(), is_closed, "{case}");

        // Put right, it is as before.
        match node.path(file).is_dir() {
            true => fs::remove_dir_all(node.path(file)).unwrap(),
            false => fs::remove_file(node.path(file)).unwrap(),
        }
        if had_file {
            fs::rename(&kept, node.path(file)).unwrap();
        }
        let (manager, report) = node.start();
        assert_eq!(report.unopened, [], "{case}");
        assert_eq!(found(&manager.get(&partition("d")).unwrap()), whole("d"), "{case}");
    }
}

fn names(dir: &Path) -> BTreeSet<String> {
    fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn a_partition_that_is_no_directory_is_offline_alone() {
    let others = ALL.into_iter().filter(|odd| !matches!(odd, Odd::Directory | Odd::FullDirectory)).map(Some);
    for odd in others.chain([None]) {
        let node = Node::new(true);
        match odd {
            Some(odd) => odd.stand_at(&node.path("d-0")),
            None => {
                fs::remove_dir_all(node.path("d-0")).unwrap();
                fs::write(node.path("d-0"), "a file").unwrap();
            }
        }
        // Not every file with such a name is in the place of a partition.
        fs::write(node.path("backup-2025"), "somebody's").unwrap();
        let (code, lines) = node.verified(&["--repair"]);
        assert_eq!(code, 1);
        let said = odd.map_or("is a file", Odd::said).trim_end_matches(", not a file");
        assert!(said_of(&lines, "d-0")[0].contains(&format!("{said}, not a directory")), "{odd:?}: {lines:#?}");
        assert_eq!(said_of(&lines, "backup-2025"), [] as [&str; 0]);
        let (manager, report) = node.start();
        assert_eq!(report.unopened, [partition("d")], "{odd:?}");
        assert_eq!(manager.get(&partition("d")).err(), Some(LogLookupError::Offline), "{odd:?}");
        assert_eq!(found(&manager.get(&partition("e")).unwrap()), whole("e"), "{odd:?}");

        // The topic can be deleted all the same, and one of its name made.
        assert_eq!(manager.delete(&[partition("d")]), [], "{odd:?}");
        assert_eq!(manager.get(&partition("d")).err(), Some(LogLookupError::Unknown), "{odd:?}");
        let log = manager.get_or_create(&partition("d"), node.new_log(&partition("d"))).unwrap();
        assert_eq!(log.log_end_offset(), Offset(0));
        assert!(node.path("d-0.set-aside").symlink_metadata().is_ok());
    }
}

/// The copy of a move lies in another directory than the log. One beside it took the node down, as it could not take the log's name.
#[test]
fn a_copy_beside_the_log_itself_is_not_used() {
    let copy = "d-0.0123456789abcdef0123456789abcdef-future";
    for goes_further in [false, true] {
        let node = Node::new(true);
        fs::create_dir(node.path(copy)).unwrap();
        for name in names(&node.path("d-0")) {
            fs::copy(node.path("d-0").join(&name), node.path(copy).join(&name)).unwrap();
        }
        if goes_further {
            for kind in ["log", "index", "timeindex", "snapshot"] {
                fs::remove_file(node.path("d-0").join(format!("00000000000000000072.{kind}"))).unwrap();
            }
            fs::remove_file(node.path("d-0/00000000000000000102.snapshot")).unwrap();
        }
        let (code, lines) = node.verified(&[]);
        assert_eq!(code, 1);
        let said = said_of(&lines, &format!("{copy}: "));
        assert!(said.len() == 1 && said[0].contains("is a copy of d-0 beside it"), "{lines:#?}");

        let (manager, _) = node.start();
        let end = if goes_further { 72 } else { 102 };
        assert_eq!(manager.get(&partition("d")).unwrap().log_end_offset(), Offset(end));
        assert!(manager.future(&partition("d")).is_none());
        let left: Vec<String> =
            names(&node.fixture.data()).into_iter().filter(|name| name.starts_with("d-0.")).collect();
        let kind = if goes_further { "-stray" } else { "-delete" };
        assert!(left.len() == 1 && left[0].ends_with(kind), "{left:?}");
    }
    let node = Node::new(true);
    fs::create_dir(node.path(copy)).unwrap();
    fs::copy(node.path("d-0/partition.metadata"), node.path(copy).join("partition.metadata")).unwrap();
    let (_, lines) = node.verified(&["--repair"]);
    assert!(actions(&lines, "done   ").contains(&&*format!("{copy}: moved to the backup")), "{lines:#?}");
    assert_eq!(node.verified(&[]).0, 0);
}

/// The metadata log is missing, and with it all topics; what says whose the directory is is empty. Neither was a fault.
#[test]
fn what_says_whose_the_logs_are_is_missed() {
    let node = Node::new(true);
    fs::rename(node.path("__cluster_metadata-0"), node.fixture.data().with_file_name("elsewhere")).unwrap();
    let (code, lines) = node.verified(&["--repair"]);
    assert_eq!(code, 1);
    assert!(said_of(&lines, "__cluster_metadata-0: missing").len() == 1, "{lines:#?}");
    symlink("/nowhere", node.path("__cluster_metadata-0")).unwrap();
    let (_, lines) = node.verified(&[]);
    assert_eq!(said_of(&lines, "__cluster_metadata-0: is a symbolic link to nothing, not a directory").len(), 1);

    for (content, said) in
        [(None, "is a directory, not a file"), (Some(""), "does not say which cluster the logs are of")]
    {
        let node = Node::new(true);
        match content {
            Some(content) => fs::write(node.path("meta.properties"), content).unwrap(),
            None => Odd::Directory.stand_at(&node.path("meta.properties")),
        }
        let (code, lines) = node.verified(&[]);
        assert_eq!(code, 1);
        assert!(said_of(&lines, "meta.properties: ")[0].contains(said), "{lines:#?}");
    }
}

/// What is odd in the metadata log's directory.
#[test]
fn the_metadata_log_is_looked_at_whatever_lies_there() {
    for odd in ALL {
        for (file, is_repaired) in [
            ("00000000000000000000.index", true),
            ("leader-epoch-checkpoint", true),
            ("partition.metadata", true),
            ("quorum-state", false),
            ("00000000000000000000.log", false),
        ] {
            let node = Node::new(true);
            let file = format!("__cluster_metadata-0/{file}");
            odd.stand_at(&node.path(&file));
            let (code, lines) = node.verified(&["--repair"]);
            assert_eq!(code == 0, is_repaired, "{file} {odd:?}: {lines:#?}");
            assert!(said_of(&lines, &file)[0].contains(odd.said()), "{file} {odd:?}: {lines:#?}");
            assert!(said_of(&lines, "e-0").is_empty(), "{file} {odd:?}");
        }
    }
}
