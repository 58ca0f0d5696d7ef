//! The manager over real directories, with a disk that can be made to fail.

mod checkpoints;
mod failing_disk;
mod loading;
mod moving;
mod placement;
mod side_by_side;
mod unopened;
mod vanished;

use std::fs;
use std::io::{self, IoSlice};
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::atomic::{AtomicI32, AtomicI64};
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
use failing_disk::FailingDisk;

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

    node.disk.renames_lack.store(libc::ENOSPC, Ordering::Relaxed);
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
    node.disk.renames_lack.store(0, Ordering::Relaxed);
    node.disk.room_left.store(i64::MAX, Ordering::Relaxed);
    append(&manager.get_or_create(&name, again()).unwrap(), 2);
    assert!(!node.text(&format!("a/{LOG_START_OFFSETS}")).contains("t 0"));
    assert!(!node.text(&format!("a/{RECOVERY_POINTS}")).contains("t 0 9"));
    assert_eq!(*node.failures.lock(), []);
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
