//! The manager over real directories, with a disk that can be made to fail.

mod moving;
mod side_by_side;
mod unopened;
mod vanished;

use std::fs;
use std::io::{self, IoSlice};
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicI64};
use std::time::Duration;

use super::*;
use crate::clock::ManualClock;
use crate::config::topic::CleanupPolicy;
use crate::record::batch::TimestampType;
use crate::record::builder::RecordBatchBuilder;
use crate::storage::background::Background;
use crate::storage::checkpoint::{
    CLEAN_SHUTDOWN, CLEANER_OFFSETS, HIGH_WATERMARKS, LOG_START_OFFSETS, OffsetCheckpointFile, RECOVERY_POINTS,
};
use crate::storage::disk::{DirEntry, Disk, DiskFile, FileInfo, OpenMode, RealDisk};
use crate::storage::file_cache::FileCache;
use crate::storage::log::AppendContext;
use crate::storage::validate::{AppendOrigin, TargetCompression, ValidationConfig, validate};
use crate::types::{LeaderEpoch, ProducerEpoch, ProducerId};

/// A node with the log directories `a` and `b`.
struct Node {
    root: tempfile::TempDir,
    disk: Arc<FailingDisk>,
    clock: Arc<ManualClock>,
    background: Background,
    ids: [DirectoryId; 2],
    failures: Arc<Mutex<Vec<DirectoryFailure>>>,
    producers: ProducerStateConfig,
}

impl Node {
    fn new() -> Node {
        Node {
            root: tempfile::tempdir().unwrap(),
            disk: Arc::default(),
            clock: ManualClock::new(1_000_000),
            background: Background::stepped(),
            ids: [DirectoryId::random(), DirectoryId::random()],
            failures: Arc::default(),
            producers: ProducerStateConfig::default(),
        }
    }

    /// The same directories, for a process that comes after one that died.
    fn reborn(self) -> Node {
        // Those that wait hold what a process would give free with its end.
        self.background.run_pending(Duration::ZERO);
        Node { root: self.root, ids: self.ids, producers: self.producers, ..Node::new() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    fn try_open(&self) -> Result<Arc<LogManager>, OpenError> {
        let disk: Arc<dyn Disk> = self.disk.clone();
        let files = FileCache::new(disk.clone(), self.background.clone(), 100);
        let context = LogContext { disk, clock: self.clock.clone(), files, background: self.background.clone() };
        let failures = self.failures.clone();
        let config = LogManagerConfig {
            log_dirs: vec![(self.path("a"), self.ids[0]), (self.path("b"), self.ids[1])],
            unusable: BTreeMap::new(),
            recovery_threads_per_data_dir: 2,
            file_delete_delay_ms: 60_000,
            producers: self.producers,
            on_failure: Arc::new(move |failure| failures.lock().push(failure.clone())),
        };
        LogManager::open(context, config)
    }

    fn open(&self) -> Arc<LogManager> {
        self.try_open().unwrap()
    }

    /// Opened with all its logs.
    fn start(&self) -> (Arc<LogManager>, LoadReport) {
        let manager = self.open();
        let report = manager.load(&|_, _| Some(hosted()), Arc::new(|_| {}));
        (manager, report)
    }

    fn files(&self, dir: &str) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(self.path(dir))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    fn text(&self, path: &str) -> String {
        fs::read_to_string(self.path(path)).unwrap()
    }
}

fn hosted() -> HostedPartition {
    HostedPartition {
        topic_id: TopicId(uuid::Uuid::from_u128(7)),
        leader_epoch: LeaderEpoch(0),
        config: Arc::default(),
        damage: DamagePolicy::KeepReadable,
        directory: None,
    }
}

fn new_log(topic_id: TopicId) -> NewLog {
    let HostedPartition { config, damage, .. } = hosted();
    NewLog { topic_id, config, damage, directory: None, is_new: true }
}

fn partition(topic: &str, n: i32) -> TopicPartition {
    TopicPartition::new(topic, n)
}

fn append(log: &Log, count: usize) {
    append_batch(log, count, RecordBatchBuilder::new(Offset(0)));
}

fn append_batch(log: &Log, count: usize, mut builder: RecordBatchBuilder) {
    (0..count).for_each(|n| builder.append(1_000_000, None, Some(format!("record {n}").as_bytes()), &[]));
    append_built(log, builder);
}

fn append_built(log: &Log, builder: RecordBatchBuilder) {
    let name = log.topic_partition().clone();
    let settings = ValidationConfig {
        partition: &name,
        origin: AppendOrigin::Client,
        leader_epoch: LeaderEpoch(0),
        max_message_bytes: 1 << 20,
        timestamp_type: TimestampType::CreateTime,
        timestamp_before_max_ms: i64::MAX,
        timestamp_after_max_ms: i64::MAX,
        compression: TargetCompression::Producer,
        compacted: false,
    };
    let records = validate(builder.build(), &settings, 1_000_000).unwrap();
    log.append_as_leader(records, LeaderEpoch(0), AppendOrigin::Client, AppendContext::default()).unwrap();
}

#[test]
fn a_second_broker_is_refused_until_the_first_is_gone() {
    let node = Node::new();
    let first = node.open();
    let Err(OpenError::Locked(error)) = node.try_open() else { panic!("two managers for one directory") };
    assert!(error.to_string().contains("in use by a running broker"), "{error}");
    first.shutdown(1, &BTreeMap::new());
    node.open();
}

#[test]
fn partitions_go_where_the_fewest_are() {
    let node = Node::new();
    let (manager, _) = node.start();
    let id = TopicId::random();
    for n in 0..4 {
        manager.get_or_create(&partition("t", n), new_log(id)).unwrap();
    }
    assert_eq!(manager.logs_in(node.ids[0]).len(), 2);
    assert_eq!(manager.logs_in(node.ids[1]).len(), 2);
    // Where the metadata wants it, as far as that is here.
    for n in 4..7 {
        manager.get_or_create(&partition("t", n), NewLog { directory: Some(node.ids[1]), ..new_log(id) }).unwrap();
        assert_eq!(manager.directory_of(&partition("t", n)), Some(node.ids[1]));
    }
    manager.get_or_create(&partition("t", 7), NewLog { directory: Some(DirectoryId::LOST), ..new_log(id) }).unwrap();
    assert_eq!(manager.directory_of(&partition("t", 7)), Some(node.ids[0]));
    assert_eq!(node.text("b/t-4/partition.metadata"), format!("version: 0\ntopic_id: {id}"));
}

#[test]
fn partitions_that_are_made_at_the_same_time_are_spread_as_well() {
    let node = Node::new();
    let (manager, _) = node.start();
    let id = TopicId::random();
    std::thread::scope(|scope| {
        for n in 0..16 {
            let manager = &manager;
            scope.spawn(move || manager.get_or_create(&partition("t", n), new_log(id)).unwrap());
        }
    });
    assert_eq!(node.ids.map(|dir| manager.logs_in(dir).len()), [8, 8]);
    // And it is known how many there are after a start, too.
    manager.shutdown(1, &BTreeMap::new());
    drop(manager);
    let (manager, _) = node.start();
    manager.delete(&manager.logs_in(node.ids[1]).into_keys().take(4).collect::<Vec<_>>());
    for n in 16..20 {
        manager.get_or_create(&partition("t", n), new_log(id)).unwrap();
        assert_eq!(manager.directory_of(&partition("t", n)), Some(node.ids[1]));
    }
}

#[test]
fn a_log_is_made_once_and_for_one_topic() {
    let node = Node::new();
    let (manager, _) = node.start();
    let (id, other_id) = (TopicId::random(), TopicId::random());
    let name = partition("t", 0);
    assert_eq!(manager.get(&name).err(), Some(LogLookupError::Unknown));
    let made: Vec<Arc<Log>> = std::thread::scope(|scope| {
        let threads: Vec<_> =
            (0..4).map(|_| scope.spawn(|| manager.get_or_create(&name, new_log(id)).unwrap())).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(made.iter().all(|log| Arc::ptr_eq(log, &made[0])));
    assert_eq!(manager.topic_id(&name), Some(id));
    assert!(matches!(
        manager.get_or_create(&name, new_log(other_id)),
        Err(CreateError::InconsistentTopicId { expected, found, .. }) if expected == other_id && found == id
    ));
    manager.shutdown(1, &BTreeMap::new());
    assert!(matches!(manager.get_or_create(&name, new_log(id)), Err(CreateError::Closed)));
}

#[test]
fn a_clean_shutdown_leaves_checkpoints_and_markers() {
    let node = Node::new();
    let (manager, report) = node.start();
    assert_eq!(report.loaded, 0);
    assert_eq!(manager.previous_broker_epoch(), None);
    let id = TopicId::random();
    let log = manager.get_or_create(&partition("t", 0), new_log(id)).unwrap();
    append(&log, 7);
    let other = manager.get_or_create(&partition("u", 3), new_log(TopicId::random())).unwrap();
    append(&other, 5);
    assert!(other.advance_log_start_offset(Offset(2)).unwrap());
    assert!(!node.path("a").join(CLEAN_SHUTDOWN).exists());

    let high_watermarks: BTreeMap<_, _> =
        [(partition("t", 0), Offset(6)), (partition("u", 3), Offset(5)), (partition("elsewhere", 0), Offset(1))].into();
    drop((log, other));
    manager.shutdown(57, &high_watermarks);
    assert_eq!(node.text("a/.kafka_cleanshutdown"), r#"{"version":0,"brokerEpoch":57}"#);
    assert_eq!(node.text(&format!("a/{RECOVERY_POINTS}")), "0\n1\nt 0 7\n");
    assert_eq!(node.text(&format!("b/{RECOVERY_POINTS}")), "0\n1\nu 3 5\n");
    assert_eq!(node.text(&format!("b/{LOG_START_OFFSETS}")), "0\n1\nu 3 2\n");
    assert_eq!(node.text(&format!("a/{LOG_START_OFFSETS}")), "0\n0\n");
    assert_eq!(node.text(&format!("a/{HIGH_WATERMARKS}")), "0\n1\nt 0 6\n");

    // A start that dies while it loads must not be taken for a clean end.
    let manager = node.open();
    assert_eq!(manager.previous_broker_epoch(), Some(57));
    assert_eq!(manager.read_high_watermarks().get(&partition("t", 0)), Some(&Offset(6)));
    let events = Arc::new(Mutex::new(Vec::new()));
    let seen = events.clone();
    let report = manager.load(
        &|_, _| Some(hosted()),
        Arc::new(move |event| {
            if let LoadEvent::Loaded { partition, loaded, total, .. } = event {
                seen.lock().push((partition.clone(), loaded, total));
            }
        }),
    );
    assert_eq!((report.loaded, report.unclean), (2, vec![]));
    assert_eq!(events.lock().len(), 2);
    assert!(events.lock().iter().any(|(_, loaded, total)| (*loaded, *total) == (2, 2)));
    assert!(!node.path("a").join(CLEAN_SHUTDOWN).exists());
    assert_eq!(manager.get(&partition("t", 0)).unwrap().log_end_offset(), Offset(7));
    assert_eq!(manager.get(&partition("u", 3)).unwrap().log_start_offset(), Offset(2));
    assert_eq!(manager.topic_id(&partition("t", 0)), Some(id));
}

#[test]
fn after_a_crash_the_logs_are_recovered() {
    let node = Node::new();
    let (manager, _) = node.start();
    let log = manager.get_or_create(&partition("t", 0), new_log(TopicId::random())).unwrap();
    append(&log, 7);
    drop(log);
    drop(manager);
    let (manager, report) = node.start();
    assert_eq!((report.loaded, report.unclean), (1, vec![node.path("a")]));
    assert_eq!(manager.get(&partition("t", 0)).unwrap().log_end_offset(), Offset(7));
    // All was recovered, so this end is a clean one.
    manager.shutdown(-1, &BTreeMap::new());
    assert!(node.path("a").join(CLEAN_SHUTDOWN).exists());
    assert_eq!(node.open().previous_broker_epoch(), Some(-1));
}

/// A start that fails before the logs are loaded, because a port is taken for example.
#[test]
fn a_start_that_comes_to_nothing_changes_nothing() {
    let node = Node::new();
    let (manager, _) = node.start();
    let log = manager.get_or_create(&partition("t", 0), new_log(TopicId::random())).unwrap();
    append(&log, 7);
    log.advance_log_start_offset(Offset(3)).unwrap();
    drop(log);
    manager.shutdown(9, &[(partition("t", 0), Offset(7))].into());
    let before = [CLEAN_SHUTDOWN, RECOVERY_POINTS, LOG_START_OFFSETS, HIGH_WATERMARKS]
        .map(|name| node.text(&format!("a/{name}")));
    let manager = node.open();
    manager.checkpoint_recovery_points();
    manager.checkpoint_log_start_offsets();
    manager.checkpoint_high_watermarks(&BTreeMap::new());
    manager.shutdown(-1, &BTreeMap::new());
    manager.checkpoint_log_start_offsets();
    let after = [CLEAN_SHUTDOWN, RECOVERY_POINTS, LOG_START_OFFSETS, HIGH_WATERMARKS]
        .map(|name| node.text(&format!("a/{name}")));
    assert_eq!(before, after);
}

#[test]
fn what_is_no_log_of_this_node_does_not_stop_the_start() {
    let node = Node::new();
    let (manager, _) = node.start();
    let (mine, gone) = (TopicId::random(), TopicId::random());
    manager.get_or_create(&partition("mine-too", 0), NewLog { directory: Some(node.ids[0]), ..new_log(mine) }).unwrap();
    manager.get_or_create(&partition("gone", 0), NewLog { directory: Some(node.ids[0]), ..new_log(gone) }).unwrap();
    manager.shutdown(1, &BTreeMap::new());
    let unique = "0123456789abcdef0123456789abcdef";
    for name in [
        "lost+found",
        "no-partition",
        "remote-log-index-cache",
        "__cluster_metadata-0",
        "empty-0",
        &format!("deleted-0.{unique}-delete"),
        &format!("stray-0.{unique}-stray"),
        &format!("moving-0.{unique}-future"),
    ] {
        fs::create_dir(node.path("a").join(name)).unwrap();
    }
    fs::write(node.path("a/file-0"), "not a directory").unwrap();
    fs::create_dir(node.path("a/damaged-7")).unwrap();
    fs::write(node.path("a/damaged-7/partition.metadata"), "\0\0").unwrap();

    let manager = node.open();
    let report = manager.load(&|_, topic_id| (topic_id == Some(mine)).then(hosted), Arc::new(|_| {}));
    assert_eq!(report.loaded, 1);
    let mut foreign = report.foreign;
    foreign.sort();
    assert_eq!(foreign, [node.path("a/lost+found"), node.path("a/no-partition")]);
    assert_eq!(report.strays.len(), 3);
    let names = node.files("a");
    for topic in ["gone-0.", "empty-0.", "damaged-7."] {
        assert!(names.iter().any(|name| name.starts_with(topic) && name.ends_with("-stray")), "{names:?}");
    }
    assert!(!names.iter().any(|name| ["gone-0", "empty-0", "damaged-7"].contains(&name.as_str())), "{names:?}");
    assert!(manager.get(&partition("mine-too", 0)).is_ok());
    assert!(node.failures.lock().is_empty());

    node.background.run_pending(Duration::from_secs(59));
    assert!(node.path(&format!("a/deleted-0.{unique}-delete")).exists());
    node.background.run_pending(Duration::from_secs(2));
    assert!(!node.path(&format!("a/deleted-0.{unique}-delete")).exists());
    // Nothing was in it.
    assert!(!node.files("a").iter().any(|name| name.starts_with("moving-0.")));
}

/// A topic is deleted and made again under its name. The new log must not start where the old one did.
/// A file of 50 bytes was lost, and with it all records were out of reach.
#[test]
fn a_log_that_lacks_its_topic_id_is_that_of_the_topic_of_its_name_where_nobody_else_has_it() {
    let id = TopicId::random();
    let lost = |text: Option<&str>| {
        let node = Node::new();
        let (manager, _) = node.start();
        let log = manager.get_or_create(&partition("t", 0), NewLog { directory: Some(node.ids[0]), ..new_log(id) });
        append(&log.unwrap(), 3);
        manager.shutdown(1, &BTreeMap::new());
        match text {
            Some(text) => fs::write(node.path("a/t-0/partition.metadata"), text).unwrap(),
            None => fs::remove_file(node.path("a/t-0/partition.metadata")).unwrap(),
        }
        node.reborn()
    };
    let hosted = HostedPartition { topic_id: id, ..hosted() };
    for text in [None, Some(""), Some("version: 0\ntopic_id: ?")] {
        let node = lost(text);
        let manager = node.open();
        let repairs: Arc<Mutex<Vec<String>>> = Arc::default();
        let told = repairs.clone();
        let events = move |event: LoadEvent<'_>| {
            if let LoadEvent::Loaded { report, .. } = event {
                told.lock().extend(report.repairs.iter().map(|repair| repair.file.clone()));
            }
        };
        let report =
            manager.load(&|_, id| id.is_none().then(|| hosted.clone()).or(Some(hosted.clone())), Arc::new(events));
        assert_eq!((report.loaded, report.strays), (1, vec![]));
        assert_eq!(manager.get(&partition("t", 0)).unwrap().log_end_offset(), Offset(3));
        assert_eq!(manager.topic_id(&partition("t", 0)), Some(id));
        assert_eq!(node.text("a/t-0/partition.metadata"), format!("version: 0\ntopic_id: {id}"));
        assert_eq!(*repairs.lock(), ["partition.metadata"]);
    }
    // Others have it; the log is of a later time than the topic, so of another one; the metadata does not know it.
    let others = HostedPartition { damage: DamagePolicy::CutOff, ..hosted.clone() };
    let newer = HostedPartition { leader_epoch: LeaderEpoch(-1), ..hosted.clone() };
    for assigned in [Some(others), Some(newer), None] {
        let node = lost(None);
        let manager = node.open();
        let report = manager.load(&|_, _| assigned.clone(), Arc::new(|_| {}));
        assert_eq!((report.loaded, report.strays.len()), (0, 1));
        assert!(report.strays[0].join("00000000000000000000.log").exists());
    }
}

/// It was told of each time that it was read.
#[test]
fn a_checkpoint_that_cannot_be_read_is_replaced() {
    let node = Node::new();
    let (manager, _) = node.start();
    let log = manager
        .get_or_create(&partition("t", 0), NewLog { directory: Some(node.ids[0]), ..new_log(TopicId::random()) });
    append(&log.unwrap(), 3);
    manager.shutdown(1, &BTreeMap::new());
    let whole = node.text(&format!("a/{RECOVERY_POINTS}"));
    assert!(whole.contains("t 0 3"), "{whole}");
    fs::write(node.path(&format!("a/{RECOVERY_POINTS}")), "0\n5\nt 0 x\n").unwrap();
    let node = node.reborn();
    let (manager, _) = node.start();
    assert_eq!(manager.get(&partition("t", 0)).unwrap().log_end_offset(), Offset(3));
    assert_eq!(node.text(&format!("a/{RECOVERY_POINTS}")), whole);
}

/// That of a log that is not compacted stayed for ever, and `verify-log` called it a fault each time.
#[test]
fn what_is_noted_of_cleaning_behind_a_logs_end_is_forgotten() {
    for compact in [false, true] {
        let node = Node::new();
        let load = |manager: &Arc<LogManager>| {
            let cleanup_policy = CleanupPolicy { compact, delete: !compact };
            let config = Arc::new(TopicConfig { cleanup_policy, ..TopicConfig::default() });
            manager.load(&|_, _| Some(HostedPartition { config: config.clone(), ..hosted() }), Arc::new(|_| {}));
        };
        let manager = node.open();
        load(&manager);
        for n in 0..2 {
            append(&manager.get_or_create(&partition("t", n), new_log(hosted().topic_id)).unwrap(), 5);
        }
        manager.shutdown(1, &BTreeMap::new());
        let noted = [(partition("t", 0), Offset(i64::MAX)), (partition("t", 1), Offset(5))];
        for dir in ["a", "b"] {
            let file = OffsetCheckpointFile::new(node.disk.clone(), &node.path(dir), CLEANER_OFFSETS);
            let here = noted.iter().filter(|(partition, _)| node.path(dir).join(partition.to_string()).exists());
            file.write(&here.cloned().collect()).unwrap();
        }
        let manager = node.open();
        load(&manager);
        assert_eq!(manager.get(&partition("t", 0)).unwrap().cleaned_offset(), None);
        assert_eq!(manager.get(&partition("t", 1)).unwrap().cleaned_offset(), Some(Offset(5)));
        let left = [node.text(&format!("a/{CLEANER_OFFSETS}")), node.text(&format!("b/{CLEANER_OFFSETS}"))];
        assert!(left.contains(&"0\n0\n".to_owned()) && left.contains(&"0\n1\nt 1 5\n".to_owned()), "{left:?}");
    }
}

/// On some file systems a new name needs room, too. A topic that was deleted to make some took its log directory offline.
#[test]
fn a_topic_is_deleted_where_there_is_no_room_for_another_name() {
    let node = Node::new();
    let (manager, _) = node.start();
    let (name, other) = (partition("t", 0), partition("u", 0));
    for name in [&name, &other] {
        let log = manager.get_or_create(name, NewLog { directory: Some(node.ids[0]), ..new_log(TopicId::random()) });
        append(&log.unwrap(), 9);
    }
    let log = manager.get(&name).unwrap();
    log.flush(Offset(9)).unwrap();
    assert!(log.advance_log_start_offset(Offset(4)).unwrap());
    manager.checkpoint_recovery_points();
    manager.checkpoint_log_start_offsets();
    drop(log);

    node.disk.renames_lack_room.store(true, Ordering::Relaxed);
    node.disk.room_left.store(0, Ordering::Relaxed);
    assert!(manager.delete(std::slice::from_ref(&name)).is_empty());
    assert!(!manager.has_offline_dirs());
    assert_eq!(manager.get(&name).err(), Some(LogLookupError::Unknown));
    assert!(node.files("a").iter().all(|file| !file.starts_with("t-0")), "{:?}", node.files("a"));
    assert_eq!(manager.get(&other).unwrap().log_end_offset(), Offset(9));
    let again = || NewLog { directory: Some(node.ids[0]), ..new_log(TopicId::random()) };
    assert!(matches!(manager.get_or_create(&name, again()), Err(CreateError::Full { .. })));
    assert!(!manager.has_offline_dirs());

    // The next topic of this name inherits nothing, though nobody has written the checkpoints since.
    node.disk.renames_lack_room.store(false, Ordering::Relaxed);
    node.disk.room_left.store(i64::MAX, Ordering::Relaxed);
    append(&manager.get_or_create(&name, again()).unwrap(), 2);
    assert!(!node.text(&format!("a/{LOG_START_OFFSETS}")).contains("t 0"));
    assert!(!node.text(&format!("a/{RECOVERY_POINTS}")).contains("t 0 9"));
    assert_eq!(*node.failures.lock(), []);
}

#[test]
fn a_deleted_log_leaves_no_offsets_behind() {
    let node = Node::new();
    let (manager, _) = node.start();
    let name = partition("t", 0);
    let log = manager.get_or_create(&name, new_log(TopicId::random())).unwrap();
    append(&log, 9);
    log.flush(Offset(9)).unwrap();
    assert!(log.advance_log_start_offset(Offset(4)).unwrap());
    manager.checkpoint_recovery_points();
    manager.checkpoint_log_start_offsets();
    assert_eq!(node.text(&format!("a/{LOG_START_OFFSETS}")), "0\n1\nt 0 4\n");
    drop(log);

    assert!(manager.delete(&[name.clone(), partition("unknown", 1)]).is_empty());
    assert_eq!(manager.get(&name).err(), Some(LogLookupError::Unknown));
    assert_eq!(node.text(&format!("a/{LOG_START_OFFSETS}")), "0\n0\n");
    assert_eq!(node.text(&format!("a/{RECOVERY_POINTS}")), "0\n0\n");
    assert!(node.files("a").iter().any(|name| name.starts_with("t-0.") && name.ends_with("-delete")));

    let log = manager.get_or_create(&name, new_log(TopicId::random())).unwrap();
    assert_eq!((log.log_start_offset(), log.log_end_offset()), (Offset(0), Offset(0)));
    node.background.run_pending(Duration::from_secs(61));
    let names = node.files("a");
    assert!(names.contains(&"t-0".into()) && !names.iter().any(|name| name.ends_with("-delete")), "{names:?}");
}

#[test]
fn the_jobs_flush_and_checkpoint() {
    let node = Node::new();
    let (manager, _) = node.start();
    let config = TopicConfig { flush_ms: 10, segment_bytes: 200, ..TopicConfig::default() };
    let new = NewLog { config: Arc::new(config), ..new_log(TopicId::random()) };
    let log = manager.get_or_create(&partition("t", 0), new).unwrap();
    (0..6).for_each(|_| append(&log, 5));
    manager.flush_dirty_logs(2_000_000);
    assert_eq!(log.recovery_point(), Offset(30));
    manager.checkpoint_recovery_points();
    assert_eq!(node.text(&format!("a/{RECOVERY_POINTS}")), "0\n1\nt 0 30\n");

    manager.checkpoint_high_watermarks(&[(partition("t", 0), Offset(30))].into());
    assert_eq!(manager.read_high_watermarks(), [(partition("t", 0), Offset(30))].into());
    manager.remove_expired_producers(2_000_000);
}

#[test]
fn changed_settings_of_producers_reach_logs_that_are_open() {
    let node = Node::new();
    let (manager, _) = node.start();
    let log = manager.get_or_create(&partition("t", 0), new_log(TopicId::random())).unwrap();
    let producer = ProducerId(7);
    append_batch(&log, 1, RecordBatchBuilder::new(Offset(0)).producer(producer, ProducerEpoch(0), 0));
    let is_remembered = || log.with_producers(|producers| producers.entry(producer).is_some());
    manager.remove_expired_producers(2_000_000);
    assert!(is_remembered());
    manager.update_producers(ProducerStateConfig { expiration_ms: 1000, ..ProducerStateConfig::default() });
    manager.remove_expired_producers(2_000_000);
    assert!(!is_remembered());
}

#[test]
fn unchanged_checkpoints_are_not_written_again() {
    let node = Node::new();
    let (manager, _) = node.start();
    manager.get_or_create(&partition("t", 0), new_log(TopicId::random())).unwrap();
    let path = node.path("a").join(RECOVERY_POINTS);
    manager.checkpoint_recovery_points();
    fs::write(&path, "as it was").unwrap();
    manager.checkpoint_recovery_points();
    assert_eq!(fs::read_to_string(&path).unwrap(), "as it was");
}

#[test]
fn a_directory_that_cannot_be_used_does_not_stop_the_other() {
    let node = Node::new();
    fs::write(node.path("b"), "a file").unwrap();
    let (manager, _) = node.start();
    assert_eq!(node.failures.lock().len(), 1);
    assert_eq!(node.failures.lock()[0].dir, node.path("b"));
    assert!(manager.has_offline_dirs());
    let online: Vec<bool> = manager.log_dirs().iter().map(|dir| dir.is_online).collect();
    assert_eq!(online, [true, false]);
    assert!(manager.log_dirs()[0].space.unwrap().usable > 0);
    assert_eq!(manager.previous_broker_epoch(), None);

    // A log that was not made just now may lie in the directory that is offline.
    let old = NewLog { is_new: false, ..new_log(TopicId::random()) };
    assert!(matches!(manager.get_or_create(&partition("t", 0), old), Err(CreateError::Storage { .. })));
    manager.get_or_create(&partition("t", 1), new_log(TopicId::random())).unwrap();
    assert_eq!(manager.delete(&[partition("u", 0)]), [partition("u", 0)]);
    manager.shutdown(1, &BTreeMap::new());

    fs::rename(node.path("a"), node.path("c")).unwrap();
    fs::write(node.path("a"), "a file, too").unwrap();
    assert!(matches!(node.try_open(), Err(OpenError::NoneUsable(_))));
}

#[test]
fn a_disk_that_fails_takes_its_logs_offline_and_nothing_else() {
    let node = Node::new();
    let (manager, _) = node.start();
    let id = TopicId::random();
    let logs: Vec<Arc<Log>> = (0..4).map(|n| manager.get_or_create(&partition("t", n), new_log(id)).unwrap()).collect();
    logs.iter().for_each(|log| append(log, 3));

    node.disk.fail_below(&node.path("a"));
    logs[0].flush(Offset(3)).unwrap_err();
    assert_eq!(manager.get(&partition("t", 0)).err(), Some(LogLookupError::Offline));
    assert_eq!(manager.get(&partition("t", 2)).err(), Some(LogLookupError::Offline));
    assert!(manager.get(&partition("t", 1)).is_ok() && manager.get(&partition("t", 3)).is_ok());
    let failures = node.failures.lock().clone();
    assert_eq!(failures.len(), 1);
    assert_eq!((&failures[0].dir, failures[0].id, failures[0].online), (&node.path("a"), node.ids[0], 1));
    let mut partitions = failures[0].partitions.clone();
    partitions.sort();
    assert_eq!(partitions, [partition("t", 0), partition("t", 2)]);

    // The rest goes on, and new logs are made there.
    append(&logs[1], 1);
    logs[1].flush(Offset(4)).unwrap();
    manager.get_or_create(&partition("u", 0), new_log(TopicId::random())).unwrap();
    assert_eq!(manager.directory_of(&partition("u", 0)), Some(node.ids[1]));
    manager.checkpoint_recovery_points();
    assert_eq!(node.failures.lock().len(), 1);

    drop(logs);
    manager.shutdown(5, &BTreeMap::new());
    assert!(node.path("b").join(CLEAN_SHUTDOWN).exists());
    assert!(!node.path("a").join(CLEAN_SHUTDOWN).exists());
}

#[test]
fn the_next_directory_is_tried_when_one_fails() {
    let node = Node::new();
    let (manager, _) = node.start();
    node.disk.fail_below(&node.path("a"));
    manager.get_or_create(&partition("t", 0), new_log(TopicId::random())).unwrap();
    assert_eq!(manager.directory_of(&partition("t", 0)), Some(node.ids[1]));
    assert_eq!(node.failures.lock().len(), 1);
    node.disk.fail_below(node.root.path());
    let error = manager.get_or_create(&partition("t", 1), new_log(TopicId::random())).err().unwrap();
    assert!(matches!(&error, CreateError::Storage { reason, .. } if reason.contains("Input/output error")), "{error}");
    assert_eq!(node.failures.lock()[1].online, 0);
    assert_eq!(manager.get(&partition("t", 0)).err(), Some(LogLookupError::Offline));
}

/// A log whose directory failed while it was made was given out as if it were well: it took records in a directory that
/// this node had given up.
#[test]
fn a_log_is_made_elsewhere_if_its_directory_fails_meanwhile() {
    for wanted in [None, Some(0)] {
        let node = Node::new();
        let (manager, _) = node.start();
        let id = TopicId::random();
        let in_a = manager.get_or_create(&partition("t", 0), new_log(id)).unwrap();
        manager.get_or_create(&partition("t", 1), new_log(id)).unwrap();
        let path = node.path("a/t-2");
        node.disk.before_open(move |opened| {
            if opened.starts_with(&path) {
                in_a.disk_failed(&io::Error::from_raw_os_error(libc::EIO));
            }
        });
        let directory = wanted.map(|at: usize| node.ids[at]);
        let made = manager.get_or_create(&partition("t", 2), NewLog { directory, ..new_log(id) });
        assert_eq!(node.failures.lock().iter().map(|failure| &failure.dir).collect::<Vec<_>>(), [&node.path("a")]);
        match wanted {
            None => {
                append(&made.unwrap(), 3);
                assert_eq!(manager.directory_of(&partition("t", 2)), Some(node.ids[1]));
            }
            Some(_) => {
                assert!(matches!(made, Err(CreateError::Storage { .. })));
                assert_eq!(manager.get(&partition("t", 2)).err(), Some(LogLookupError::Offline));
            }
        }
    }
}

#[test]
fn a_log_that_cannot_be_closed_leaves_no_marker() {
    let node = Node::new();
    let (manager, _) = node.start();
    let log = manager.get_or_create(&partition("t", 0), new_log(TopicId::random())).unwrap();
    append(&log, 3);
    node.disk.fail_syncs_left.store(0, Ordering::SeqCst);
    manager.shutdown(5, &BTreeMap::new());
    node.disk.fail_syncs_left.store(i64::MAX, Ordering::SeqCst);
    assert!(!node.path("a").join(CLEAN_SHUTDOWN).exists());
}

/// The real disk, until it is told to fail.
struct FailingDisk {
    failing: Arc<RwLock<Option<PathBuf>>>,
    /// Syncs that still succeed.
    fail_syncs_left: Arc<AtomicI64>,
    /// Changes that still succeed; below zero it has died.
    changes_left: Arc<AtomicI64>,
    /// Directories and files that can still be made or written to; then it is full.
    room_left: Arc<AtomicI64>,
    /// What comes before a file is opened.
    before_open: Mutex<Option<BeforeOpen>>,
    /// Nothing gets another name, for want of room.
    renames_lack_room: AtomicBool,
}

type BeforeOpen = Arc<dyn Fn(&Path) + Send + Sync>;

impl Default for FailingDisk {
    fn default() -> FailingDisk {
        let never = || Arc::new(AtomicI64::new(i64::MAX));
        FailingDisk {
            failing: Arc::default(),
            fail_syncs_left: never(),
            changes_left: never(),
            room_left: never(),
            before_open: Mutex::default(),
            renames_lack_room: AtomicBool::default(),
        }
    }
}

impl FailingDisk {
    fn fail_below(&self, dir: &Path) {
        *self.failing.write() = Some(dir.to_path_buf());
    }

    fn before_open(&self, act: impl Fn(&Path) + Send + Sync + 'static) {
        *self.before_open.lock() = Some(Arc::new(act));
    }

    fn check(&self, path: &Path) -> io::Result<()> {
        check(&self.failing, path)
    }

    fn check_change(&self, path: &Path) -> io::Result<()> {
        check_change(&self.changes_left)?;
        self.check(path)
    }
}

fn check_change(changes_left: &AtomicI64) -> io::Result<()> {
    match changes_left.fetch_sub(1, Ordering::Relaxed) > 0 {
        true => Ok(()),
        false => Err(io::Error::other("the process has died")),
    }
}

fn check_room(room_left: &AtomicI64) -> io::Result<()> {
    match room_left.fetch_sub(1, Ordering::Relaxed) > 0 {
        true => Ok(()),
        false => Err(io::Error::from_raw_os_error(libc::ENOSPC)),
    }
}

fn check(failing: &RwLock<Option<PathBuf>>, path: &Path) -> io::Result<()> {
    match failing.read().as_ref().is_some_and(|dir| path.starts_with(dir)) {
        true => Err(io::Error::from_raw_os_error(libc::EIO)),
        false => Ok(()),
    }
}

impl Disk for FailingDisk {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn DiskFile>> {
        let before_open = self.before_open.lock().clone();
        before_open.iter().for_each(|act| act(path));
        self.check(path)?;
        if matches!(mode, OpenMode::Create | OpenMode::CreateNew) {
            self.check_change(path)?;
            check_room(&self.room_left)?;
        }
        let file = RealDisk.open(path, mode)?;
        let (failing, syncs_left) = (self.failing.clone(), self.fail_syncs_left.clone());
        let (changes_left, room_left) = (self.changes_left.clone(), self.room_left.clone());
        Ok(Arc::new(FailingFile { file, path: path.to_path_buf(), failing, syncs_left, changes_left, room_left }))
    }

    fn info(&self, path: &Path) -> io::Result<FileInfo> {
        self.check(path).and_then(|()| RealDisk.info(path))
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<DirEntry>> {
        self.check(dir).and_then(|()| RealDisk.list(dir))
    }

    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        self.check_change(dir).and_then(|()| check_room(&self.room_left)).and_then(|()| RealDisk.create_dir_all(dir))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        if self.renames_lack_room.load(Ordering::Relaxed) {
            return Err(io::Error::from_raw_os_error(libc::ENOSPC));
        }
        self.check_change(from).and_then(|()| RealDisk.rename(from, to))
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.check_change(path).and_then(|()| RealDisk.remove_file(path))
    }

    fn remove_dir_all(&self, dir: &Path) -> io::Result<()> {
        self.check_change(dir).and_then(|()| RealDisk.remove_dir_all(dir))
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.check(dir).and_then(|()| RealDisk.sync_dir(dir))
    }

    fn space(&self, dir: &Path) -> io::Result<Space> {
        RealDisk.space(dir)
    }
}

struct FailingFile {
    file: Arc<dyn DiskFile>,
    path: PathBuf,
    failing: Arc<RwLock<Option<PathBuf>>>,
    syncs_left: Arc<AtomicI64>,
    changes_left: Arc<AtomicI64>,
    room_left: Arc<AtomicI64>,
}

impl FailingFile {
    fn check(&self) -> io::Result<()> {
        check(&self.failing, &self.path)
    }

    fn check_change(&self) -> io::Result<()> {
        check_change(&self.changes_left)?;
        self.check()
    }

    fn check_sync(&self) -> io::Result<()> {
        if self.changes_left.load(Ordering::Relaxed) < 0 {
            return Err(io::Error::other("the process has died"));
        }
        match self.syncs_left.fetch_sub(1, Ordering::SeqCst) > 0 {
            true => self.check(),
            false => Err(io::Error::other("the disk does not sync")),
        }
    }
}

impl DiskFile for FailingFile {
    fn file_len(&self) -> io::Result<u64> {
        self.check().and_then(|()| self.file.file_len())
    }

    fn read_at(&self, buffer: &mut [u8], position: u64) -> io::Result<usize> {
        self.check().and_then(|()| self.file.read_at(buffer, position))
    }

    fn read_cached_at(&self, buffer: &mut [u8], position: u64) -> io::Result<Option<usize>> {
        self.check().and_then(|()| self.file.read_cached_at(buffer, position))
    }

    fn write_vectored_at(&self, buffers: &[IoSlice<'_>], position: u64) -> io::Result<usize> {
        self.check_change()?;
        check_room(&self.room_left)?;
        self.file.write_vectored_at(buffers, position)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.check_sync().and_then(|()| self.file.sync_data())
    }

    fn sync_all(&self) -> io::Result<()> {
        self.check_sync().and_then(|()| self.file.sync_all())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.check_change().and_then(|()| self.file.set_len(len))
    }

    fn set_modified(&self, modified_ms: i64) -> io::Result<()> {
        self.check().and_then(|()| self.file.set_modified(modified_ms))
    }

    fn reserve(&self, len: u64) -> io::Result<()> {
        self.check().and_then(|()| self.file.reserve(len))
    }

    fn start_writeback(&self, position: u64, len: u64) -> io::Result<()> {
        self.check().and_then(|()| self.file.start_writeback(position, len))
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.file.fd()
    }
}

#[test]
fn logs_are_loaded_by_as_many_threads_as_are_set() {
    let node = Node::new();
    let (manager, _) = node.start();
    for n in 0..12 {
        manager.get_or_create(&partition("t", n), new_log(TopicId(uuid::Uuid::from_u128(7)))).unwrap();
    }
    manager.shutdown(-1, &BTreeMap::new());
    for threads in [1, 3] {
        let manager = node.open();
        manager.update(&BrokerConfig { num_recovery_threads_per_data_dir: threads, ..BrokerConfig::default() });
        let (at_once, most) = (AtomicUsize::new(0), Arc::new(AtomicUsize::new(0)));
        let seen = most.clone();
        manager.load(
            &|_, _| Some(hosted()),
            Arc::new(move |event| {
                if let LoadEvent::Loaded { .. } = event {
                    seen.fetch_max(at_once.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
                    std::thread::sleep(Duration::from_millis(50));
                    at_once.fetch_sub(1, Ordering::Relaxed);
                }
            }),
        );
        let most = most.load(Ordering::Relaxed);
        // Of two directories.
        assert_eq!(most > 2, threads > 1, "{threads}: {most}");
        manager.shutdown(-1, &BTreeMap::new());
    }
}
