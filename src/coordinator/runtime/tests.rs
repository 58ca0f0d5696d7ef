//! The runtime with a shard that adds up numbers, over real logs.

use std::collections::BTreeMap;

use super::*;
use crate::clock::ManualClock;
use crate::config::dynamic::DynamicBrokerConfig;
use crate::coordinator::shard::RecordOrigin;
use crate::metadata::records::{
    MetadataRecord, PartitionChangeRecord, PartitionRecord, RemoveTopicRecord, TopicRecord,
};
use crate::record::control::ControlRecord;
use crate::storage::background::Background;
use crate::storage::disk::RealDisk;
use crate::storage::file_cache::FileCache;
use crate::storage::log::LogContext;
use crate::storage::manager::{LogManager, LogManagerConfig};
use crate::storage::producer_state::ProducerStateConfig;
use crate::types::{DirectoryId, ProducerEpoch, ProducerId, TopicId};
use arc_swap::ArcSwap;

const TOPIC: &str = "__numbers";
const LOCAL: BrokerId = BrokerId(1);
const PARTITION: PartitionId = PartitionId(0);

/// A number that is added.
#[derive(Clone, Debug, PartialEq)]
struct Number(i64);

impl CoordinatorRecord for Number {
    fn to_bytes(&self) -> (Vec<u8>, Option<Vec<u8>>) {
        (b"n".to_vec(), Some(self.0.to_be_bytes().to_vec()))
    }

    fn from_bytes(key: &[u8], value: Option<&[u8]>) -> Result<Option<Number>, String> {
        if key != b"n" {
            return Ok(None);
        }
        let bytes = value.and_then(|value| value.try_into().ok()).ok_or("eight bytes are wanted")?;
        Ok(Some(Number(i64::from_be_bytes(bytes))))
    }
}

#[derive(Default)]
struct Sum {
    sum: i64,
    /// In transactions, by producer.
    pending: BTreeMap<ProducerId, i64>,
    loaded: bool,
    images: usize,
    deleted_topics: Vec<TopicId>,
    waiting: Option<ReplyTo>,
    alarm: Option<Duration>,
    outcomes: Vec<Result<(), CoordinatorError>>,
}

impl CoordinatorShard for Sum {
    type Record = Number;
    type Deferred = i64;
    type Continuation = ();
    type Effect = i64;

    fn replay(&mut self, record: Number, origin: RecordOrigin) {
        if origin.producer_id == ProducerId::NONE {
            self.sum += record.0;
        } else {
            *self.pending.entry(origin.producer_id).or_default() += record.0;
        }
    }

    fn replay_end_transaction(&mut self, producer_id: ProducerId, committed: bool) {
        let pending = self.pending.remove(&producer_id).unwrap_or(0);
        self.sum += if committed { pending } else { 0 };
    }

    fn on_loaded(&mut self, _step: &mut Step<'_, Self>) {
        self.loaded = true;
    }

    fn on_append(&mut self, _: (), appended: Result<(), CoordinatorError>, _step: &mut Step<'_, Self>) {
        self.outcomes.push(appended);
    }

    fn next_deadline(&self) -> Option<Duration> {
        self.alarm
    }

    fn on_timer(&mut self, step: &mut Step<'_, Self>) {
        self.alarm = None;
        step.append(Number(1000));
        if let Some(to) = self.waiting.take() {
            step.reply(to, self.sum);
        }
    }

    fn on_metadata(&mut self, delta: &MetadataDelta, _step: &mut Step<'_, Self>) {
        self.images += 1;
        self.deleted_topics.extend(delta.deleted_topics.keys());
    }
}

/// A broker's logs, and the metadata that it follows.
struct Node {
    _root: tempfile::TempDir,
    replicas: Arc<ReplicaManager>,
    metadata: MetadataHandle,
    clock: Arc<ManualClock>,
    runtime: Runtime<Sum>,
}

impl Node {
    fn new() -> Node {
        let root = tempfile::tempdir().unwrap();
        let clock = ManualClock::new(1_000_000);
        let disk = RealDisk::new();
        let background = Background::new(1);
        let files = FileCache::new(disk.clone(), background.clone(), 100);
        let logs = LogManager::open(
            LogContext { disk, clock: clock.clone(), files, background },
            LogManagerConfig {
                log_dirs: vec![(root.path().join("a"), DirectoryId::random())],
                unusable: BTreeMap::new(),
                recovery_threads_per_data_dir: 1,
                file_delete_delay_ms: 60_000,
                // Batches of transactions are written here without a coordinator of transactions to ask.
                producers: ProducerStateConfig { verification_enabled: false, ..ProducerStateConfig::default() },
                on_failure: Arc::new(|_| {}),
            },
        )
        .unwrap();
        logs.load(&|_, _| None, Arc::new(|_| {}));
        let config = Arc::new(BrokerConfig::default());
        let settings: Settings = Arc::new(ArcSwap::from_pointee(DynamicBrokerConfig::new(config.clone())));
        let replicas = ReplicaManager::new(config, settings.clone(), logs, BTreeMap::new(), false);
        let metadata = MetadataHandle::new(Arc::new(MetadataImage::empty()));
        let runtime = Node::runtime(&replicas, &metadata, &settings, &clock);
        let node = Node { _root: root, replicas, metadata, clock, runtime };
        node.apply(vec![]);
        node
    }

    fn runtime(
        replicas: &Arc<ReplicaManager>,
        metadata: &MetadataHandle,
        settings: &Settings,
        clock: &Arc<ManualClock>,
    ) -> Runtime<Sum> {
        Runtime::new(RuntimeParams {
            topic: TOPIC,
            broker_id: LOCAL,
            replicas: replicas.clone(),
            metadata: metadata.clone(),
            settings: settings.clone(),
            clock: clock.clone(),
            new_shard: Sum::default,
            num_partitions: |_| 1,
            commit_timeout: |_| Duration::from_secs(5),
            codec: |_| Codec::None,
            load_buffer_size: |_| 100,
            on_effect: Box::new(|_, _, _| {}),
        })
    }

    /// Commits records and publishes.
    fn apply(&self, records: Vec<MetadataRecord>) {
        let mut image = (*self.metadata.load()).clone();
        let mut delta = MetadataDelta::default();
        for record in &records {
            image.apply(record, &mut delta).unwrap();
        }
        let image = Arc::new(image);
        self.replicas.apply(&image, &delta);
        self.runtime.apply(&image, &delta);
        self.metadata.publish(image);
    }

    fn create_topic(&self) {
        self.apply(vec![
            TopicRecord { name: TOPIC.to_owned(), topic_id: topic_id() }.into(),
            PartitionRecord {
                partition_id: PARTITION,
                topic_id: topic_id(),
                replicas: vec![LOCAL],
                isr: vec![LOCAL],
                leader: LOCAL,
                directories: vec![DirectoryId::ZERO],
                ..PartitionRecord::default()
            }
            .into(),
        ]);
    }

    fn elect(&self, leader: BrokerId) {
        self.apply(vec![
            PartitionChangeRecord {
                partition_id: PARTITION,
                topic_id: topic_id(),
                leader,
                ..PartitionChangeRecord::default()
            }
            .into(),
        ]);
    }

    async fn add(&self, number: i64) -> Result<i64, CoordinatorError> {
        let add = |shard: &mut Sum, step: &mut Step<'_, Sum>| {
            step.append(Number(number));
            shard.sum
        };
        self.runtime.run(PARTITION, add).await
    }

    /// The sum, once the shard answers.
    async fn sum(&self) -> i64 {
        loop {
            match self.runtime.run(PARTITION, |shard, _| shard.sum).await {
                Ok(sum) => return sum,
                Err(CoordinatorError::LoadInProgress) => tokio::task::yield_now().await,
                Err(error) => panic!("{error}"),
            }
        }
    }
}

fn topic_id() -> TopicId {
    TopicId(Uuid::from_u128(7))
}

#[tokio::test(flavor = "multi_thread")]
async fn records_take_effect_and_outlive_the_shard() {
    let node = Node::new();
    assert_eq!(node.add(1).await, Err(CoordinatorError::NotCoordinator));
    node.create_topic();
    // The answer is of before the record took effect.
    assert_eq!(node.add(3).await, Ok(0));
    assert_eq!(node.add(4).await, Ok(3));
    assert!(node.runtime.run(PARTITION, |shard, _| shard.loaded).await.unwrap());

    node.elect(BrokerId(2));
    assert_eq!(node.add(1).await, Err(CoordinatorError::NotCoordinator));
    node.elect(LOCAL);
    assert_eq!(node.sum().await, 7);
    assert_eq!(node.add(1).await, Ok(7));

    node.apply(vec![RemoveTopicRecord { topic_id: topic_id() }.into()]);
    assert_eq!(node.add(1).await, Err(CoordinatorError::NotCoordinator));
    assert!(node.runtime.inner.shards.read().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shard_reads_compressed_batches_and_transactions() {
    let node = Node::new();
    node.create_topic();
    let partition = node.replicas.partition(TOPIC, PARTITION).unwrap();
    let (key, value) = Number(5).to_bytes();
    let mut batch = RecordBatchBuilder::new(Offset(0)).compression(Codec::Zstd, 3);
    batch.append(0, Some(&key), value.as_deref(), &[]);
    batch.append(0, Some(b"of another kind"), value.as_deref(), &[]);
    partition.append_as_coordinator(batch.build(), AppendContext::default(), 0).unwrap();
    for (producer, committed) in [(1, true), (2, false), (3, true)] {
        let producer = ProducerId(producer);
        let mut batch = RecordBatchBuilder::new(Offset(0)).producer(producer, ProducerEpoch(0), 0).transactional(true);
        batch.append(0, Some(&key), value.as_deref(), &[]);
        partition.append_as_coordinator(batch.build(), AppendContext::default(), 0).unwrap();
        if producer == ProducerId(3) {
            continue;
        }
        let mut marker = RecordBatchBuilder::new(Offset(0))
            .producer(producer, ProducerEpoch(0), crate::record::batch::NO_SEQUENCE)
            .transactional(true)
            .control(true);
        let end = crate::record::control::EndTxnMarker { committed, coordinator_epoch: 0 };
        marker.append_control(0, &ControlRecord::EndTxn(end));
        partition.append_as_coordinator(marker.build(), AppendContext::default(), 0).unwrap();
    }
    node.elect(BrokerId(2));
    node.elect(LOCAL);
    assert_eq!(node.sum().await, 10);
    let pending = node.runtime.run(PARTITION, |shard, _| shard.pending.clone()).await.unwrap();
    assert_eq!(pending, BTreeMap::from([(ProducerId(3), 5)]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shard_whose_log_cannot_be_read_does_not_answer() {
    let node = Node::new();
    node.create_topic();
    let partition = node.replicas.partition(TOPIC, PARTITION).unwrap();
    let mut batch = RecordBatchBuilder::new(Offset(0));
    batch.append(0, Some(b"n"), Some(b"short"), &[]);
    partition.append_as_coordinator(batch.build(), AppendContext::default(), 0).unwrap();
    node.elect(BrokerId(2));
    node.elect(LOCAL);
    let error = loop {
        match node.add(1).await {
            Err(CoordinatorError::LoadInProgress) => tokio::task::yield_now().await,
            other => break other,
        }
    };
    assert_eq!(error, Err(CoordinatorError::NotCoordinator));
}

#[tokio::test(flavor = "multi_thread")]
async fn callers_that_wait_are_answered_by_a_later_step_or_the_end_of_the_shard() {
    let node = Node::new();
    node.create_topic();
    let runtime = node.runtime.clone();
    let wait = move |alarm: Option<Duration>| {
        let runtime = runtime.clone();
        async move {
            let op = |shard: &mut Sum, _: &mut Step<'_, Sum>, to| {
                shard.waiting = Some(to);
                shard.alarm = alarm;
            };
            runtime.run_deferred(PARTITION, op).await
        }
    };
    node.add(2).await.unwrap();
    let waiting = tokio::spawn(wait(Some(Duration::from_secs(60))));
    while node.runtime.inner.deadlines.lock().queue.is_empty() {
        tokio::task::yield_now().await;
    }
    node.clock.advance(Duration::from_secs(61));
    assert_eq!(waiting.await.unwrap(), Ok(2));
    assert_eq!(node.sum().await, 1002);
    assert!(node.runtime.inner.deadlines.lock().queue.is_empty());

    // One that gives up leaves nothing behind.
    let waiting = tokio::spawn(wait(None));
    let callers = || {
        let hosted = node.runtime.inner.hosted(PARTITION).unwrap();
        let mut hosted = hosted.lock();
        node.runtime.inner.active(&mut hosted).unwrap().waiting.len()
    };
    while callers() == 0 {
        tokio::task::yield_now().await;
    }
    waiting.abort();
    assert!(waiting.await.is_err_and(|error| error.is_cancelled()));
    assert_eq!(callers(), 0);

    let waiting = tokio::spawn(wait(Some(Duration::from_secs(600))));
    while node.runtime.inner.deadlines.lock().queue.is_empty() {
        tokio::task::yield_now().await;
    }
    node.elect(BrokerId(2));
    assert_eq!(waiting.await.unwrap(), Err(CoordinatorError::NotCoordinator));
    assert!(node.runtime.inner.deadlines.lock().queue.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_appended_takes_no_effect() {
    let node = Node::new();
    node.create_topic();
    let too_many = |_: &mut Sum, step: &mut Step<'_, Sum>| step.append_all((0..100_000).map(|_| Number(1)));
    assert!(matches!(node.runtime.run(PARTITION, too_many).await, Err(CoordinatorError::Refused(_))));
    assert_eq!(node.sum().await, 0);
    // Unless they may be split.
    let divided = |shard: &mut Sum, step: &mut Step<'_, Sum>| {
        too_many(shard, step);
        step.allow_several_batches();
    };
    node.runtime.run(PARTITION, divided).await.unwrap();
    assert_eq!(node.sum().await, 100_000);

    // A continuation hears of it, in the place of a replay.
    let continued = |shard: &mut Sum, step: &mut Step<'_, Sum>| {
        too_many(shard, step);
        step.then(());
    };
    assert!(node.runtime.run(PARTITION, continued).await.is_err());
    let one = |_: &mut Sum, step: &mut Step<'_, Sum>| {
        step.append(Number(1));
        step.then(());
    };
    node.runtime.run(PARTITION, one).await.unwrap();
    let outcomes = node.runtime.run(PARTITION, |shard, _| shard.outcomes.clone()).await.unwrap();
    assert!(matches!(outcomes[..], [Err(CoordinatorError::Refused(_)), Ok(())]));
    assert_eq!(node.sum().await, 100_000);
}

#[tokio::test(flavor = "multi_thread")]
async fn shards_hear_of_the_metadata() {
    let node = Node::new();
    node.create_topic();
    let images = node.runtime.run(PARTITION, |shard, _| shard.images).await.unwrap();
    node.apply(vec![TopicRecord { name: "another".to_owned(), topic_id: TopicId(Uuid::from_u128(8)) }.into()]);
    assert_eq!(node.runtime.run(PARTITION, |shard, _| shard.images).await, Ok(images + 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shard_hears_of_topics_that_were_deleted_while_it_was_loaded() {
    // Their offsets would stay until they expire: the image of the loaded shard knows nothing of them.
    let node = Node::new();
    let another = TopicId(Uuid::from_u128(8));
    node.apply(vec![TopicRecord { name: "another".to_owned(), topic_id: another }.into()]);
    node.create_topic();
    node.add(3).await.unwrap();
    let inner = &node.runtime.inner;
    let (partition, end) = {
        let hosted = inner.hosted(PARTITION).unwrap();
        let mut hosted = hosted.lock();
        let State::Active(active) = std::mem::replace(&mut hosted.state, State::loading()) else { unreachable!() };
        (active.partition.clone(), active.last_written)
    };
    node.apply(vec![RemoveTopicRecord { topic_id: another }.into()]);
    assert_eq!(node.add(1).await, Err(CoordinatorError::LoadInProgress));
    inner.activate(&inner.hosted(PARTITION).unwrap(), Sum::default(), partition, end);
    let heard = node.runtime.run(PARTITION, |shard, _| (shard.loaded, shard.deleted_topics.clone())).await;
    assert_eq!(heard, Ok((true, vec![another])));
}

#[test]
fn what_goes_wrong_again_and_again_is_told_once_a_minute() {
    let told = OnceAMinute::default();
    let due = [0, 1, 59, 60, 61, 121].map(|second| told.is_due(Duration::from_secs(second)));
    assert_eq!(due, [true, false, false, true, false, true]);
}
