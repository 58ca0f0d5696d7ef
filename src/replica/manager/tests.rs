//! The manager over real logs in two directories, told by metadata records what is to be.

mod directories;
mod moves;
mod settings;

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
