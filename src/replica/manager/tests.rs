//! The manager over real logs in two directories, told by metadata records what is to be.

use std::path::PathBuf;
use std::time::Duration;

use super::*;
use crate::clock::ManualClock;
use crate::config::keys::{UpdateMode, broker_keys, topic_keys};
use crate::config::support::{self, Support};
use crate::metadata::records::{
    ConfigRecord, MetadataRecord, PartitionChangeRecord, PartitionRecord, RemoveTopicRecord, TopicRecord,
};
use crate::record::builder::RecordBatchBuilder;
use crate::replica::{FetchIsolation, LeaderError, OffsetSpec, PartitionAppendError, RequiredAcks};
use crate::storage::background::Background;
use crate::storage::disk::is_disk_failure;
use crate::storage::faulty_disk::{Call, Faults, FaultyDisk};
use crate::storage::file_cache::FileCache;
use crate::storage::log::{ChangeError, HandoverError, LogContext};
use crate::storage::manager::{FutureLog, LogManagerConfig};
use crate::storage::producer_state::ProducerStateConfig;
use crate::types::{BrokerId, DirectoryId, LeaderEpoch};

const NOW_MS: i64 = 1_000_000;

/// A node's directories, and the metadata that it follows.
struct Node {
    root: tempfile::TempDir,
    faults: Arc<Faults>,
    background: Background,
    logs: Arc<LogManager>,
    replicas: Arc<ReplicaManager>,
    image: MetadataImage,
}

impl Node {
    /// One that is started, with nothing there yet.
    fn new() -> Node {
        let mut node = Node::before_start(BTreeMap::new(), false);
        node.apply(Vec::new());
        node
    }

    fn before_start(high_watermarks: BTreeMap<TopicPartition, Offset>, may_miss_logs: bool) -> Node {
        Node::with_unusable(&[], high_watermarks, may_miss_logs)
    }

    /// One that cannot use some of its directories.
    fn with_unusable(
        unusable: &[&str],
        high_watermarks: BTreeMap<TopicPartition, Offset>,
        may_miss_logs: bool,
    ) -> Node {
        let root = tempfile::tempdir().unwrap();
        let (disk, faults) = FaultyDisk::with_faults();
        let background = Background::stepped();
        let files = FileCache::new(disk.clone(), background.clone(), 100);
        let context = LogContext { disk, clock: ManualClock::new(NOW_MS), files, background: background.clone() };
        let slot: Arc<std::sync::OnceLock<std::sync::Weak<ReplicaManager>>> = Arc::default();
        let replicas = slot.clone();
        let config = LogManagerConfig {
            log_dirs: ["a", "b"].map(|dir| (root.path().join(dir), DirectoryId::random())).to_vec(),
            unusable: unusable.iter().map(|dir| (root.path().join(dir), "unplugged".to_owned())).collect(),
            recovery_threads_per_data_dir: 1,
            file_delete_delay_ms: 60_000,
            producers: ProducerStateConfig::default(),
            on_failure: Arc::new(move |failure| {
                if let Some(replicas) = replicas.get().and_then(std::sync::Weak::upgrade) {
                    replicas.set_offline(&failure.partitions);
                }
            }),
        };
        let logs = LogManager::open(context, config).unwrap();
        logs.load(&|_, _| None, Arc::new(|_| {}));
        let config = Arc::new(BrokerConfig::default());
        assert_eq!(config.node_id, BrokerId(1));
        let settings: Settings = Arc::new(ArcSwap::from_pointee(DynamicBrokerConfig::new(config.clone())));
        let replicas = ReplicaManager::new(config, settings, logs.clone(), high_watermarks, may_miss_logs);
        slot.set(Arc::downgrade(&replicas)).unwrap();
        Node { root, faults, background, logs, replicas, image: MetadataImage::empty() }
    }

    /// Commits records.
    fn apply(&mut self, records: Vec<MetadataRecord>) {
        let mut delta = MetadataDelta::default();
        for record in &records {
            self.image.apply(record, &mut delta).unwrap();
        }
        self.replicas.apply(&self.image, &delta);
    }

    fn partition(&self, topic: &str, partition: i32) -> Result<Arc<Partition>, LookupError> {
        self.replicas.partition(topic, PartitionId(partition))
    }

    /// The disk fails under a partition.
    fn fail(&self, topic: &str, partition: i32) {
        self.faults.syncs_fail.store(true, Ordering::Relaxed);
        let log = self.logs.get(&TopicPartition::new(topic, partition)).unwrap();
        log.flush(log.log_end_offset()).unwrap_err();
        self.faults.syncs_fail.store(false, Ordering::Relaxed);
    }

    /// How many logs lie in each directory.
    fn placed(&self) -> [usize; 2] {
        let dirs = self.logs.log_dirs();
        [0, 1].map(|at: usize| self.logs.logs_in(dirs[at].id).len())
    }

    fn dir_of(&self, topic: &str, partition: i32) -> Option<PathBuf> {
        self.logs.get(&TopicPartition::new(topic, partition)).ok().map(|log| log.dir())
    }
}

fn id(topic: u128) -> TopicId {
    TopicId(uuid::Uuid::from_u128(topic))
}

fn topic(name: &str, topic: u128) -> MetadataRecord {
    TopicRecord { name: name.to_owned(), topic_id: id(topic) }.into()
}

fn partition(topic: u128, partition: i32) -> MetadataRecord {
    partition_on(topic, partition, 1)
}

fn partition_on(topic: u128, partition: i32, broker: i32) -> MetadataRecord {
    PartitionRecord {
        partition_id: PartitionId(partition),
        topic_id: id(topic),
        replicas: vec![BrokerId(broker)],
        isr: vec![BrokerId(broker)],
        leader: BrokerId(broker),
        leader_epoch: LeaderEpoch(0),
        partition_epoch: 0,
        ..PartitionRecord::default()
    }
    .into()
}

fn set(kind: ConfigResourceType, resource: &str, name: &str, value: Option<&str>) -> MetadataRecord {
    ConfigRecord {
        resource_type: kind.0,
        resource_name: resource.to_owned(),
        name: name.to_owned(),
        value: value.map(str::to_owned),
    }
    .into()
}

fn append(partition: &Arc<Partition>, size: usize) -> Result<Offset, PartitionAppendError> {
    let mut builder = RecordBatchBuilder::new(Offset(0));
    builder.append(NOW_MS, None, Some(&vec![b'x'; size]), &[]);
    partition.append(builder.build(), RequiredAcks::AllInSync, NOW_MS).map(|appended| appended.info.first_offset)
}

/// Whether a record of so many bytes is taken.
fn takes(partition: &Arc<Partition>, size: usize) -> bool {
    match append(partition, size) {
        Ok(_) => true,
        Err(PartitionAppendError::Invalid(_)) => false,
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn what_the_metadata_names_is_served_when_it_is_applied() {
    let mut node = Node::new();
    node.apply(vec![topic("t", 1), partition(1, 0), partition(1, 1), topic("u", 2), partition_on(2, 0, 7)]);
    for n in 0..2 {
        let partition = node.partition("t", n).unwrap();
        assert_eq!(partition.topic_partition(), &TopicPartition::new("t", n));
        assert_eq!(append(&partition, 10).unwrap(), Offset(0));
        let by_id = node.replicas.partition_by_id(id(1), PartitionId(n)).unwrap();
        assert!(Arc::ptr_eq(&by_id, &partition));
    }
    let refused = |found: Result<Arc<Partition>, LookupError>| found.map(drop).unwrap_err();
    for n in [-1, 2, i32::MIN, i32::MAX] {
        assert_eq!(refused(node.partition("t", n)), LookupError::UnknownTopicOrPartition);
        assert_eq!(refused(node.replicas.partition_by_id(id(1), PartitionId(n))), LookupError::UnknownTopicOrPartition);
    }
    assert_eq!(refused(node.partition("nowhere", 0)), LookupError::UnknownTopicOrPartition);
    assert_eq!(refused(node.replicas.partition_by_id(id(9), PartitionId(0))), LookupError::UnknownTopicId);
    assert_eq!(refused(node.partition("u", 0)), LookupError::NotHere);
    assert_eq!(node.dir_of("u", 0), None);
    assert_eq!(node.replicas.online().len(), 2);
    assert_eq!(node.placed(), [1, 1]);
}

#[test]
fn a_topic_that_grows_keeps_the_partitions_it_has() {
    let mut node = Node::new();
    node.apply(vec![topic("t", 1), partition(1, 0)]);
    let before = node.partition("t", 0).unwrap();
    append(&before, 10).unwrap();
    node.apply((1..20).map(|n| partition(1, n)).collect());
    assert!(Arc::ptr_eq(&before, &node.partition("t", 0).unwrap()));
    for n in 0..20 {
        let partition = node.partition("t", n).unwrap();
        assert_eq!(partition.topic_partition(), &TopicPartition::new("t", n), "each in its place");
        assert_eq!(append(&partition, 10).unwrap(), Offset(i64::from(n == 0)));
    }
    assert_eq!(node.placed(), [10, 10]);
}

#[test]
fn a_deleted_topic_is_gone_and_one_of_its_name_is_another() {
    let mut node = Node::new();
    node.apply(vec![topic("t", 1), partition(1, 0), topic("other", 2), partition(2, 0)]);
    let old = node.partition("t", 0).unwrap();
    append(&old, 10).unwrap();
    let old_dir = node.dir_of("t", 0).unwrap();
    node.apply(vec![RemoveTopicRecord { topic_id: id(1) }.into()]);
    assert_eq!(node.partition("t", 0).map(drop), Err(LookupError::UnknownTopicOrPartition));
    assert_eq!(node.replicas.partition_by_id(id(1), PartitionId(0)).map(drop), Err(LookupError::UnknownTopicId));
    // Who holds it still is told that it is led elsewhere, not that a disk has failed.
    let refused = append(&old, 10).unwrap_err();
    assert!(matches!(refused, PartitionAppendError::Leader(LeaderError::NotLeaderOrFollower)), "{refused}");
    assert!(!old_dir.exists());
    let parent = old_dir.parent().unwrap();
    let renamed = || {
        std::fs::read_dir(parent)
            .unwrap()
            .any(|entry| entry.unwrap().file_name().to_string_lossy().ends_with("-delete"))
    };
    assert!(renamed());
    node.background.run_pending(Duration::from_secs(61));
    assert!(!renamed());
    assert!(append(&node.partition("other", 0).unwrap(), 10).is_ok());

    node.apply(vec![topic("t", 3), partition(3, 0)]);
    assert_eq!(append(&node.partition("t", 0).unwrap(), 10).unwrap(), Offset(0));
}

/// All in one go, as it happens when requests wait for the controller.
#[test]
fn a_topic_may_be_made_anew_within_one_change() {
    let mut node = Node::new();
    node.apply(vec![topic("t", 1), partition(1, 0), partition(1, 1)]);
    append(&node.partition("t", 0).unwrap(), 10).unwrap();
    let remove = |topic| RemoveTopicRecord { topic_id: id(topic) }.into();
    // One that comes and goes unseen, too.
    node.apply(vec![remove(1), topic("t", 2), partition(2, 0), remove(2), topic("t", 3), partition(3, 0)]);
    assert_eq!(append(&node.partition("t", 0).unwrap(), 10).unwrap(), Offset(0));
    assert_eq!(node.partition("t", 1).map(drop), Err(LookupError::UnknownTopicOrPartition));
    assert!(node.replicas.partition_by_id(id(3), PartitionId(0)).is_ok());
    for gone in [1, 2] {
        let found = node.replicas.partition_by_id(id(gone), PartitionId(0));
        assert_eq!(found.map(drop), Err(LookupError::UnknownTopicId));
    }
    assert_eq!(node.placed().iter().sum::<usize>(), 1);
}

#[test]
fn leaderships_are_handed_on() {
    let mut node = Node::new();
    node.apply(vec![topic("t", 1), partition(1, 0)]);
    let partition = node.partition("t", 0).unwrap();
    let change = |leader: i32| {
        vec![
            PartitionChangeRecord {
                partition_id: PartitionId(0),
                topic_id: id(1),
                leader: BrokerId(leader),
                ..PartitionChangeRecord::default()
            }
            .into(),
        ]
    };
    node.apply(change(-1));
    let refused = append(&partition, 10).unwrap_err();
    assert!(matches!(refused, PartitionAppendError::Leader(LeaderError::NotLeaderOrFollower)), "{refused}");
    node.apply(change(1));
    append(&partition, 10).unwrap();
    let found = partition.list_offset(OffsetSpec::Latest, FetchIsolation::HighWatermark, None, true).unwrap().unwrap();
    assert_eq!((found.offset, found.leader_epoch), (Offset(1), Some(LeaderEpoch(2))));
}

#[test]
fn settings_of_topics_and_brokers_reach_the_partitions() {
    let (of_topic, of_broker) = (ConfigResourceType::TOPIC, ConfigResourceType::BROKER);
    let mut node = Node::new();
    let own = |value| set(of_topic, "own", "max.message.bytes", value);
    node.apply(vec![topic("own", 1), own(Some("2000")), partition(1, 0), topic("default", 2), partition(2, 0)]);
    let partitions = ["own", "default"].map(|topic| node.partition(topic, 0).unwrap());
    let limits = || partitions.each_ref().map(|partition| [1000, 3000, 5000].map(|size| takes(partition, size)));
    assert_eq!(limits(), [[true, false, false], [true, true, true]], "from its creation on");
    let broker = |broker, value| set(of_broker, broker, "message.max.bytes", value);
    node.apply(vec![broker("", Some("500"))]);
    assert_eq!(limits(), [[true, false, false], [false, false, false]]);
    node.apply(vec![broker("1", Some("4000")), broker("2", Some("1"))]);
    assert_eq!(limits(), [[true, false, false], [true, true, false]], "this broker's own before those of all");
    node.apply(vec![own(Some("10000")), broker("1", None)]);
    assert_eq!(limits(), [[true, true, true], [false, false, false]], "both kinds at once");
    assert_eq!(node.replicas.settings.load().current().topic_defaults.max_message_bytes, 500);
    node.apply(vec![own(None), broker("", None)]);
    assert_eq!(limits(), [[true, true, true]; 2]);
    // Neither of these is ours.
    node.apply(vec![set(of_topic, "nowhere", "max.message.bytes", Some("1")), broker("7", Some("1"))]);
    assert_eq!(limits(), [[true, true, true]; 2]);
}

/// Each default of topics that may change while the broker runs, with another value than it has.
const DYNAMIC_DEFAULTS: &[(&str, &str)] = &[
    ("compression.gzip.level", "3"),
    ("compression.type", "lz4"),
    ("compression.zstd.level", "7"),
    ("log.cleaner.delete.retention.ms", "7"),
    ("log.cleaner.max.compaction.lag.ms", "7"),
    ("log.cleaner.min.cleanable.ratio", "0.7"),
    ("log.cleaner.min.compaction.lag.ms", "7"),
    ("log.cleanup.policy", "compact"),
    ("log.flush.interval.messages", "7"),
    ("log.flush.interval.ms", "7"),
    ("log.index.interval.bytes", "7"),
    ("log.index.size.max.bytes", "7"),
    ("log.message.timestamp.after.max.ms", "7"),
    ("log.message.timestamp.before.max.ms", "7"),
    ("log.message.timestamp.type", "LogAppendTime"),
    ("log.preallocate", "true"),
    ("log.retention.bytes", "7"),
    ("log.retention.ms", "7"),
    ("log.roll.jitter.ms", "7"),
    ("log.roll.ms", "7"),
    ("log.segment.bytes", "1048577"),
    ("log.segment.delete.delay.ms", "7"),
    ("message.max.bytes", "7"),
    ("min.insync.replicas", "7"),
];

#[test]
fn each_default_that_changes_reaches_the_logs() {
    let is_dynamic = |name: &&str| {
        let key = broker_keys().get(name).unwrap();
        key.update_mode != UpdateMode::ReadOnly && support::of(name) == Support::Effective
    };
    let synonyms = topic_keys().iter().filter_map(|key| Some(key.synonyms.first()?.name));
    let dynamic: BTreeSet<&str> = synonyms.filter(is_dynamic).collect();
    assert_eq!(dynamic, DYNAMIC_DEFAULTS.iter().map(|(name, _)| *name).collect());

    let mut node = Node::new();
    node.apply(vec![topic("t", 1), partition(1, 0)]);
    let config = |node: &Node| format!("{:?}", node.logs.get(&TopicPartition::new("t", 0)).unwrap().config());
    let before = config(&node);
    for (name, value) in DYNAMIC_DEFAULTS {
        for broker in ["", "1"] {
            node.apply(vec![set(ConfigResourceType::BROKER, broker, name, Some(value))]);
            assert_ne!(config(&node), before, "{name}");
            node.apply(vec![set(ConfigResourceType::BROKER, broker, name, None)]);
            assert_eq!(config(&node), before, "{name}");
        }
    }
}

#[test]
fn a_setting_that_cannot_be_used_leaves_the_others() {
    let mut node = Node::new();
    let set = |name, value| set(ConfigResourceType::TOPIC, "t", name, Some(value));
    node.apply(vec![topic("t", 1), partition(1, 0)]);
    node.apply(vec![set("max.message.bytes", "2000"), set("retention.ms", "soon"), set("made.up", "1")]);
    let partition = node.partition("t", 0).unwrap();
    assert_eq!([1000, 3000].map(|size| takes(&partition, size)), [true, false]);
}

#[test]
fn high_watermarks_come_from_the_checkpoint_and_go_there() {
    let noted = BTreeMap::from([(TopicPartition::new("t", 0), Offset(77)), (TopicPartition::new("u", 0), Offset(5))]);
    let mut node = Node::before_start(noted, false);
    node.apply(vec![topic("t", 1), partition(1, 0), topic("v", 2), partition(2, 0)]);
    // The topic of that name is another one by now.
    assert_eq!(node.partition("t", 0).unwrap().high_watermark(), Offset(0));
    append(&node.partition("v", 0).unwrap(), 10).unwrap();
    let expected = [(TopicPartition::new("t", 0), Offset(0)), (TopicPartition::new("v", 0), Offset(1))];
    assert_eq!(node.replicas.high_watermarks(), expected.into());
}

#[test]
fn a_directory_that_fails_takes_its_partitions_offline_and_no_others() {
    let mut node = Node::new();
    let mut records = vec![topic("t", 1)];
    records.extend((0..4).map(|n| partition(1, n)));
    node.apply(records);
    let failing: Vec<i32> =
        (0..4).filter(|n| node.dir_of("t", *n).unwrap().starts_with(node.root.path().join("a"))).collect();
    assert_eq!(failing.len(), 2);
    let held: Vec<_> = (0..4).map(|n| node.partition("t", n).unwrap()).collect();

    append(&held[failing[0] as usize], 10).unwrap();
    node.fail("t", failing[0]);
    for n in 0..4 {
        match append(&held[n as usize], 10) {
            Err(PartitionAppendError::Leader(LeaderError::Offline)) => assert!(failing.contains(&n)),
            other => assert!(!failing.contains(&n) && other.is_ok(), "{n}: {other:?}"),
        }
        // The look-up still gives it: it is the partition that says so.
        assert!(Arc::ptr_eq(&node.partition("t", n).unwrap(), &held[n as usize]));
    }
    // What the controller then decides cannot bring it back; new ones go where there is room.
    node.apply(vec![topic("u", 2), partition(2, 0), partition(1, 4)]);
    for (topic, n) in [("u", 0), ("t", 4)] {
        assert!(node.dir_of(topic, n).unwrap().starts_with(node.root.path().join("b")));
        append(&node.partition(topic, n).unwrap(), 10).unwrap();
    }
    // Its topic can be deleted, and be made anew, in spite of it.
    node.apply(vec![RemoveTopicRecord { topic_id: id(1) }.into()]);
    node.apply(vec![topic("t", 3), partition(3, 0)]);
    append(&node.partition("t", 0).unwrap(), 10).unwrap();
}

/// One that failed while partitions came told those alone that were here before: the others went on taking records in a
/// directory that was given up.
#[test]
fn a_directory_that_fails_while_partitions_come_takes_them_offline_too() {
    let mut node = Node::new();
    let (logs, a, failed) = (node.logs.clone(), node.root.path().join("a"), AtomicBool::new(false));
    // At the first epoch of one of them, when there are logs for all.
    node.faults.before(move |call, path| {
        let is_of_epochs = call == Call::Sync && path.to_string_lossy().contains("leader-epoch-checkpoint");
        if !is_of_epochs || !path.starts_with(&a) || failed.swap(true, Ordering::Relaxed) {
            return Ok(());
        }
        while logs.logs().len() < 6 {
            std::thread::yield_now();
        }
        Err(std::io::Error::from_raw_os_error(libc::EIO))
    });
    let mut records = vec![topic("t", 1)];
    records.extend((0..6).map(|n| partition(1, n)));
    node.apply(records);
    let is_here = |n| node.dir_of("t", n).is_some();
    assert_eq!((0..6).filter(|n| is_here(*n)).count(), 3);
    for n in 0..6 {
        match append(&node.partition("t", n).unwrap(), 10) {
            Err(PartitionAppendError::Leader(LeaderError::Offline)) => assert!(!is_here(n)),
            other => assert!(is_here(n) && other.is_ok(), "{n}: {other:?}"),
        }
    }
}

/// Whatever came in the way of reading a log that was to be moved took the directory offline in which it served, with all
/// that lay there.
#[test]
fn a_log_that_cannot_be_copied_goes_on_unless_it_is_the_disk_that_fails() {
    use std::io::{Error, ErrorKind};
    let errors: [fn() -> Error; 5] = [
        || Error::from_raw_os_error(libc::EMFILE),
        || ErrorKind::NotFound.into(),
        || ErrorKind::UnexpectedEof.into(),
        || ErrorKind::InvalidData.into(),
        || Error::from_raw_os_error(libc::EIO),
    ];
    for error in errors {
        let mut node = Node::new();
        node.apply(vec![topic("t", 1), partition(1, 0)]);
        let moved = node.partition("t", 0).unwrap();
        append(&moved, 10).unwrap();
        let (name, b) = (moved.topic_partition(), node.root.path().join("b").to_str().unwrap().to_owned());
        let has_failed = Arc::new(AtomicBool::new(false));
        let (path, seen) = (node.dir_of("t", 0).unwrap(), has_failed.clone());
        node.faults.before(move |call, file| {
            if call == Call::Read && file.starts_with(&path) && !seen.swap(true, Ordering::SeqCst) {
                return Err(error());
            }
            Ok(())
        });
        node.replicas.alter_replica_log_dir(name, &b).unwrap();
        while !has_failed.load(Ordering::SeqCst) {
            std::thread::yield_now();
        }
        let directory = node.logs.directory_of(name);
        if is_disk_failure(&error()) {
            while node.logs.get(name).is_ok() {
                std::thread::yield_now();
            }
            continue;
        }
        // It has ended, or will in a moment, and can be sent again.
        while node.logs.directory_of(name) == directory {
            node.replicas.alter_replica_log_dir(name, &b).unwrap();
            append(&moved, 10).unwrap();
            std::thread::yield_now();
        }
        node.replicas.stop_moves();
        assert!(!node.logs.has_offline_dirs());
    }
}

/// A directory that failed while it took a partition over did not know it yet, so that nobody told the partition.
#[test]
fn a_directory_that_fails_while_a_partition_moves_there_takes_it_offline() {
    let mut node = Node::new();
    node.apply(vec![topic("t", 1), partition(1, 0)]);
    node.apply(vec![topic("u", 2), partition(2, 0)]);
    let moved = node.partition("t", 0).unwrap();
    append(&moved, 10).unwrap();
    let (b, log, failed) = (
        node.root.path().join("b"),
        node.logs.get(&TopicPartition::new("u", 0)).unwrap(),
        Arc::new(AtomicBool::new(false)),
    );
    let (path, seen) = (b.clone(), failed.clone());
    node.faults.before(move |call, dir| {
        if call == Call::SyncDir && *dir == path && path.join("t-0").exists() && !seen.swap(true, Ordering::SeqCst) {
            log.disk_failed(&std::io::Error::from_raw_os_error(libc::EIO));
        }
        Ok(())
    });
    node.replicas.alter_replica_log_dir(moved.topic_partition(), b.to_str().unwrap()).unwrap();
    while !failed.load(Ordering::SeqCst) {
        std::thread::yield_now();
    }
    node.replicas.stop_moves();
    assert_eq!(node.logs.get(moved.topic_partition()).err(), Some(LogLookupError::Offline));
    let refused = append(&moved, 10).unwrap_err();
    assert!(matches!(refused, PartitionAppendError::Leader(LeaderError::Offline)), "{refused}");
}

/// Moves go on while the partition serves, on threads of their own.
#[test]
fn a_partition_serves_while_it_moves() {
    let mut node = Node::new();
    node.apply(vec![topic("t", 1), partition(1, 0)]);
    let moved = node.partition("t", 0).unwrap();
    for _ in 0..200 {
        append(&moved, 1000).unwrap();
    }
    let name = TopicPartition::new("t", 0);
    let path_of = |node: &Node, at: usize| node.logs.log_dirs()[at].path.to_str().unwrap().to_owned();
    let directory = |node: &Node, at: usize| node.logs.log_dirs()[at].id;
    for round in 0..4 {
        let from = node.logs.directory_of(&name).unwrap();
        let to = usize::from(from == directory(&node, 0));
        node.replicas.alter_replica_log_dir(&name, &path_of(&node, to)).unwrap();
        let deadline = std::time::Instant::now() + Duration::from_secs(60);
        let mut appended = 0;
        while node.logs.directory_of(&name) == Some(from) {
            assert!(std::time::Instant::now() < deadline, "it does not move");
            append(&moved, 10).unwrap();
            appended += 1;
            // Nothing that was acknowledged may be missing, and nobody is refused.
            moved.delete_records(Some(Offset(round))).unwrap();
            moved.delete_old_segments(NOW_MS);
        }
        append(&moved, 10).unwrap();
        assert!(appended > 0);
        assert!(Arc::ptr_eq(&moved, &node.partition("t", 0).unwrap()));
        let end = moved.log_end_offset();
        assert_eq!((moved.high_watermark(), node.logs.get(&name).unwrap().log_end_offset()), (end, end));
        // The old one goes last of all.
        while node.logs.future(&name).is_some() || node.placed()[1 - to] > 0 {
            std::thread::yield_now();
        }
        assert_eq!(moved.log_start_offset(), Offset(round));
    }
    node.replicas.stop_moves();
    assert_eq!(node.placed().iter().sum::<usize>(), 1);
    // Of each of the new places the controller is to be told, the last one counts.
    let told = futures_util::FutureExt::now_or_never(node.replicas.assignments().take(9)).unwrap();
    let now = node.logs.directory_of(&name).unwrap();
    assert_eq!(told, [((id(1), PartitionId(0)), now)]);
    assert!(futures_util::FutureExt::now_or_never(node.replicas.assignments().take(9)).is_none());
}

/// Begins to move `t-0` of a node to the other directory, and copies all of it.
fn copied(node: &Node) -> FutureLog {
    let name = TopicPartition::new("t", 0);
    let from = node.logs.directory_of(&name).unwrap();
    let to = node.logs.log_dirs().into_iter().find(|dir| dir.id != from).unwrap();
    let logs = node.logs.create_future(&name, to.path.to_str().unwrap()).unwrap().unwrap();
    while logs.future.copy_from(&logs.current).unwrap() > 0 {}
    logs
}

/// Retention, or whoever changes a log, may come just when the log has been handed over and the partition does not have
/// the new one yet. It took the old one, which refuses, for failed: the partition was offline until a restart.
#[test]
fn who_comes_to_a_log_that_was_handed_over_waits_for_the_new_one() {
    let mut node = Node::new();
    node.apply(vec![topic("t", 1), partition(1, 0)]);
    let moved = node.partition("t", 0).unwrap();
    for _ in 0..3 {
        append(&moved, 10).unwrap();
    }
    let logs = copied(&node);
    let (refused_in, refused) = std::sync::mpsc::channel();
    let changer = std::thread::scope(|scope| {
        let mut changer = None;
        let mut exchange = None;
        let exchanged = moved.replace_log(|_| {
            exchange = Some(node.logs.replace_with_future(moved.topic_partition(), &logs)?);
            changer = Some(scope.spawn(|| {
                moved.change(|log| {
                    log.advance_log_start_offset(Offset(2)).inspect_err(|error| {
                        refused_in.send(matches!(error, ChangeError::Moved)).unwrap();
                    })
                })
            }));
            // It has met the old one, and can only go on to the new one.
            assert!(refused.recv().unwrap());
            Ok::<_, HandoverError>(logs.future.clone())
        });
        exchanged.unwrap();
        node.logs.finish_exchange(exchange.unwrap());
        changer.unwrap().join().unwrap()
    });
    assert!(changer.unwrap());
    assert_eq!((moved.log_start_offset(), logs.current.log_start_offset()), (Offset(2), Offset(0)));
    // Once it is done, nobody who still holds the old one takes it for failed, either: what it had is durable.
    assert!(matches!(logs.current.delete_old_segments(NOW_MS, Offset(3)), Err(ChangeError::Moved)));
    assert!(logs.current.is_moved() && !logs.current.is_failed());
    logs.current.flush(Offset(3)).unwrap();
    logs.current.close().unwrap();
    logs.current.disk_failed(&std::io::Error::from_raw_os_error(5));
    assert_eq!(node.logs.log_dirs().iter().filter(|dir| dir.is_online).count(), 2);
    append(&moved, 10).unwrap();
    assert_eq!(moved.delete_records(Some(Offset(3))).unwrap(), Offset(3));
}

/// What is left of the log by then is in the new directory. The partition was offline until a restart.
#[test]
fn a_directory_that_fails_while_a_log_leaves_it_for_good_takes_nothing_with_it() {
    for is_told_late in [false, true] {
        let mut node = Node::new();
        node.apply(vec![topic("t", 1), partition(1, 0), partition(1, 1), partition(1, 2)]);
        let moved = node.partition("t", 0).unwrap();
        append(&moved, 10).unwrap();
        let name = moved.topic_partition().clone();
        let left = node.logs.directory_of(&name).unwrap();
        let other = (1..3).find(|n| node.logs.directory_of(&TopicPartition::new("t", *n)) == Some(left)).unwrap();
        append(&node.partition("t", other).unwrap(), 10).unwrap();
        let logs = copied(&node);
        let mut exchange = None;
        let exchanged = moved.replace_log(|_| {
            if !is_told_late {
                node.replicas.partition("t", PartitionId(0)).unwrap().set_offline();
            }
            exchange = Some(node.logs.replace_with_future(&name, &logs)?);
            node.fail("t", other);
            moved.follow_directory(&node.logs);
            Ok::<_, HandoverError>(logs.future.clone())
        });
        exchanged.unwrap();
        node.logs.finish_exchange(exchange.unwrap());
        node.replicas.set_offline(std::slice::from_ref(&name));
        assert_eq!(node.logs.log_dirs().iter().filter(|dir| dir.is_online).count(), 1);
        append(&node.partition("t", other).unwrap(), 10).unwrap_err();
        append(&moved, 10).unwrap();
        assert_eq!(node.logs.get(&name).unwrap().log_end_offset(), Offset(2));
    }
}

#[test]
fn what_lies_where_is_told() {
    let mut node = Node::new();
    node.apply(vec![topic("t", 1), partition(1, 0), partition(1, 1), partition(1, 2)]);
    for n in 0..3 {
        for _ in 0..=n {
            append(&node.partition("t", n).unwrap(), 100).unwrap();
        }
    }
    let described = node.replicas.describe_log_dirs(None);
    let all: Vec<_> = described.iter().flat_map(|dir| dir.online.as_ref().unwrap().replicas.clone()).collect();
    assert_eq!(all.len(), 3);
    for replica in &all {
        let log = node.logs.get(&replica.topic_partition).unwrap();
        assert_eq!((replica.size, replica.offset_lag, replica.is_future), (log.size(), 0, false));
        assert!(log.size() > 0);
    }
    let wanted = std::collections::HashSet::from([TopicPartition::new("t", 1), TopicPartition::new("u", 0)]);
    let some = node.replicas.describe_log_dirs(Some(&wanted));
    assert_eq!(some.iter().map(|dir| dir.online.as_ref().unwrap().replicas.len()).sum::<usize>(), 1);
    node.faults.syncs_fail.store(true, Ordering::Relaxed);
    node.logs.get(&TopicPartition::new("t", 0)).unwrap().flush(Offset(1)).unwrap_err();
    let online = node.replicas.describe_log_dirs(None).iter().filter(|dir| dir.online.is_some()).count();
    assert_eq!(online, 1);
}

#[test]
fn without_a_directory_to_lie_in_a_partition_is_offline() {
    let mut node = Node::new();
    node.apply(vec![topic("t", 1), partition(1, 0), partition(1, 1)]);
    for n in 0..2 {
        append(&node.partition("t", n).unwrap(), 10).unwrap();
        node.fail("t", n);
    }
    node.apply(vec![topic("u", 2), partition(2, 0)]);
    assert_eq!(node.partition("u", 0).map(drop), Err(LookupError::Offline));
    assert_eq!(node.replicas.high_watermarks().len(), 2, "those that were online once");
}

/// Where a directory is empty that should hold logs, what the metadata knows of from before is not made anew.
#[test]
fn a_log_that_may_be_elsewhere_is_not_replaced() {
    for may_miss_logs in [true, false] {
        let mut node = Node::before_start(BTreeMap::new(), may_miss_logs);
        node.apply(vec![topic("t", 1), partition(1, 0)]);
        let expected = if may_miss_logs { Err(LookupError::Offline) } else { Ok(()) };
        assert_eq!(node.partition("t", 0).map(drop), expected);
        node.apply(vec![topic("u", 2), partition(2, 0), partition(1, 1)]);
        assert_eq!(node.partition("t", 0).map(drop), expected);
        for (topic, n) in [("u", 0), ("t", 1)] {
            append(&node.partition(topic, n).unwrap(), 10).unwrap();
        }
    }
}

/// Once there was room again, every partition of a topic that had lacked it was made anew, those too whose log was in a
/// directory that was missing: they were led from offset 0, and what they had held was given up.
#[test]
fn room_brings_back_what_lacked_it_and_nothing_else() {
    let lost = |may_miss_logs: bool| {
        let unusable: &[&str] = if may_miss_logs { &[] } else { &["b"] };
        Node::with_unusable(unusable, BTreeMap::new(), may_miss_logs)
    };
    for mut node in [lost(false), lost(true)] {
        let state = |node: &Node, topic, n| node.partition(topic, n).map(drop);
        // The metadata knows this one from before, and no directory that is here has it.
        node.apply(vec![topic("t", 1), partition(1, 0)]);
        node.faults.room.store(0, Ordering::Relaxed);
        node.apply(vec![
            partition(1, 1),
            partition(1, 2),
            topic("u", 2),
            partition(2, 0),
            topic("v", 3),
            partition(3, 0),
        ]);
        node.apply(vec![RemoveTopicRecord { topic_id: id(3) }.into()]);
        for _ in 0..2 {
            node.replicas.retry_for_room();
            for (topic, n) in [("t", 0), ("t", 1), ("t", 2), ("u", 0)] {
                assert_eq!(state(&node, topic, n), Err(LookupError::Offline));
            }
        }
        node.faults.room.store(-1, Ordering::Relaxed);
        for _ in 0..2 {
            node.replicas.retry_for_room();
            assert_eq!(state(&node, "t", 0), Err(LookupError::Offline));
            assert_eq!(state(&node, "v", 0), Err(LookupError::UnknownTopicOrPartition));
            for (topic, n) in [("t", 1), ("t", 2), ("u", 0)] {
                append(&node.partition(topic, n).unwrap(), 10).unwrap();
            }
        }
    }
    // What lacked room at the start, and is nowhere else, is made when there is some; but not once it may be elsewhere.
    for fails in [false, true] {
        let mut node = Node::before_start(BTreeMap::new(), false);
        node.faults.room.store(0, Ordering::Relaxed);
        node.apply(vec![topic("t", 1), partition(1, 0)]);
        node.faults.room.store(-1, Ordering::Relaxed);
        if fails {
            node.apply(vec![topic("u", 2), partition(2, 0)]);
            append(&node.partition("u", 0).unwrap(), 10).unwrap();
            node.fail("u", 0);
        }
        node.replicas.retry_for_room();
        let expected = if fails { Err(LookupError::Offline) } else { Ok(()) };
        assert_eq!(node.partition("t", 0).map(drop), expected);
    }
}

#[test]
fn a_transaction_that_hangs_is_told_once() {
    use crate::replica::{TransactionMarker, TransactionVersion, VerifiedProducer};
    use crate::types::{ProducerEpoch, ProducerId};
    let mut node = Node::new();
    node.apply(vec![topic("t", 1), partition(1, 0)]);
    let written = node.partition("t", 0).unwrap();
    let (producer_id, producer_epoch) = (ProducerId(7), ProducerEpoch(0));
    let producer = VerifiedProducer { producer_id, producer_epoch, base_sequence: 0, supports_epoch_bump: false };
    let guard = written.start_verification(&producer, NOW_MS).unwrap();
    let mut batch = RecordBatchBuilder::new(Offset(0)).producer(producer_id, producer_epoch, 0).transactional(true);
    batch.append(NOW_MS, None, Some(b"v"), &[]);
    written.append_verified(batch.build(), RequiredAcks::Leader, guard, NOW_MS).unwrap();

    let hour = 3_600_000;
    assert_eq!(node.replicas.report_late_transactions(NOW_MS + 60_000), BTreeSet::new());
    assert_eq!(node.replicas.report_late_transactions(NOW_MS + hour), BTreeSet::from([producer_id]));
    assert_eq!(node.replicas.report_late_transactions(NOW_MS + 2 * hour), BTreeSet::new());
    let marker = TransactionMarker {
        producer_id,
        producer_epoch,
        committed: false,
        coordinator_epoch: 0,
        transaction_version: TransactionVersion::V0,
    };
    written.append_marker(&marker, NOW_MS + 2 * hour).unwrap();
    assert_eq!(node.replicas.report_late_transactions(NOW_MS + 4 * hour), BTreeSet::new());
}
