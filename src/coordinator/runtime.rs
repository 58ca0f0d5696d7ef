//! Runs the shards of one coordinator: one for each partition of its topic that this broker leads.
//!
//! Owns the shards, their timers and their waiting callers. A step runs on the caller's own task, under the shard's lock:
//! it decides, its records are appended to the partition, and take effect. What a step saw or wrote is told once it is
//! committed, so that no answer can be taken back by a change of leaders; on a lone broker that is at once. A partition
//! that this broker comes to lead is read from its start to its end first, off the async threads, while callers are told
//! that the coordinator loads.
//!
//! ```text
//! elected   ─→ Loading ─┬─→ Active ─→ resigned: Closed, callers get NOT_COORDINATOR
//!                       └─→ Failed     the log cannot be read; NOT_COORDINATOR until the topic changes: then it is read again
//! ```

mod loader;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use parking_lot::{Mutex, RwLock};
use thiserror::Error;
use tokio::runtime::Handle;
use tokio::sync::{Notify, Semaphore, oneshot};
use tokio::task::spawn_blocking;
use tokio::time::timeout;
use tracing::{debug, error, info, warn};
use uuid::Uuid;

use super::partition_for;
use super::shard::{
    Append, Appended, CoordinatorError, CoordinatorRecord, CoordinatorShard, Environment, Outcome, ReplyTo, Step,
    run_step,
};
use crate::clock::Clock;
use crate::config::BrokerConfig;
use crate::metadata::image::{MetadataDelta, MetadataHandle, MetadataImage, TopicImage};
use crate::record::batch::NO_SEQUENCE;
use crate::record::builder::RecordBatchBuilder;
use crate::record::compression::Codec;
use crate::replica::{
    AppendContext, AppendError, LeaderError, Partition, PartitionAppendError, Reached, ReplicaManager, Settings,
    TransactionMarker, VerificationGuard, VerifiedProducer,
};
use crate::types::{BrokerId, LeaderEpoch, Offset, PartitionId, TopicId};

/// Shards whose logs are read at the same time.
const PARALLEL_LOADS: usize = 4;
/// What a record takes in a batch beside its key and value, at most.
const RECORD_OVERHEAD: usize = 32;

/// A record as most are, in a batch.
const USUAL_RECORD: usize = 128;
/// Records of a batch that room is made for beforehand, at most.
const MOST_RESERVED: usize = 128;

/// What a runtime is of.
pub struct RuntimeParams<S: CoordinatorShard> {
    /// The coordinator's topic.
    pub topic: &'static str,
    pub broker_id: BrokerId,
    pub replicas: Arc<ReplicaManager>,
    pub metadata: MetadataHandle,
    pub settings: Settings,
    pub clock: Arc<dyn Clock>,
    pub new_shard: fn() -> S,
    /// Partitions that the topic will have when it is created.
    pub num_partitions: fn(&BrokerConfig) -> i32,
    /// How long an answer waits for its records to be committed.
    pub commit_timeout: fn(&BrokerConfig) -> Duration,
    /// How the records are compressed.
    pub codec: fn(&BrokerConfig) -> Codec,
    /// How much is read at once while loading, in bytes.
    pub load_buffer_size: fn(&BrokerConfig) -> usize,
    /// Does what a shard wants done once its records are committed. Called with the shard locked: it must only start it.
    pub on_effect: Box<dyn Fn(PartitionId, LeaderEpoch, S::Effect) + Send + Sync>,
}

/// Why a transaction's marker was not written.
#[derive(Debug, Error)]
pub enum MarkerError {
    #[error(transparent)]
    Coordinator(CoordinatorError),
    #[error(transparent)]
    Append(PartitionAppendError),
}

/// See the module. Cheap to clone.
pub struct Runtime<S: CoordinatorShard> {
    inner: Arc<Inner<S>>,
}

impl<S: CoordinatorShard> Clone for Runtime<S> {
    fn clone(&self) -> Self {
        Runtime { inner: self.inner.clone() }
    }
}

struct Inner<S: CoordinatorShard> {
    params: RuntimeParams<S>,
    /// Where loads run, whoever finds that one is due.
    tasks: Handle,
    loads: Arc<Semaphore>,
    /// As the topic has them when they are first needed: more partitions would take the ids away from their records.
    num_partitions: OnceLock<i32>,
    shards: RwLock<HashMap<PartitionId, Arc<Mutex<Hosted<S>>>>>,
    /// The newest image that [`Runtime::apply`] was given: what is published is behind it until everybody has taken it
    /// over. Locked after a shard, never before one.
    image: Mutex<Arc<MetadataImage>>,
    /// Locked after a shard, never before one.
    deadlines: Mutex<Deadlines>,
    /// There is a deadline before the timers wake.
    earlier: Notify,
    refusals: OnceAMinute,
    failed_timers: OnceAMinute,
    next_reply: AtomicU64,
}

/// When each shard's next timer is due.
#[derive(Default)]
struct Deadlines {
    queue: BTreeSet<(Duration, PartitionId)>,
    /// When the timers look at the queue next; `None`: they do so now.
    wake: Option<Duration>,
}

/// A shard in one of its states.
struct Hosted<S: CoordinatorShard> {
    partition_id: PartitionId,
    leader_epoch: LeaderEpoch,
    state: State<S>,
}

enum State<S: CoordinatorShard> {
    Loading {
        /// Topics that were deleted meanwhile, of which the shard is to hear.
        deleted_topics: BTreeMap<TopicId, Arc<TopicImage>>,
    },
    Active(Box<Active<S>>),
    Failed,
    Closed,
}

impl<S: CoordinatorShard> State<S> {
    fn loading() -> State<S> {
        State::Loading { deleted_topics: BTreeMap::new() }
    }
}

struct Active<S: CoordinatorShard> {
    shard: S,
    partition: Arc<Partition>,
    /// Behind the last record that the shard's state contains.
    last_written: Offset,
    waiting: HashMap<ReplyTo, oneshot::Sender<Result<S::Deferred, CoordinatorError>>>,
    /// As it stands in [`Inner::deadlines`].
    deadline: Option<Duration>,
}

/// What a caller that waits is told at last.
type Deferred<S> = Result<<S as CoordinatorShard>::Deferred, CoordinatorError>;

/// What a step leads to once it is committed.
struct Consequences<S: CoordinatorShard> {
    replies: Vec<(oneshot::Sender<Deferred<S>>, Deferred<S>)>,
    effects: Vec<S::Effect>,
    partition_id: PartitionId,
    leader_epoch: LeaderEpoch,
}

/// The place of a caller that waits. It is given up when the caller is gone, or is told otherwise: a shard may never
/// answer some of those that ask it, as a group does not answer the earlier of two joins of one member.
struct Place<'a, S: CoordinatorShard> {
    hosted: &'a Mutex<Hosted<S>>,
    reply_to: ReplyTo,
}

impl<S: CoordinatorShard> Drop for Place<'_, S> {
    fn drop(&mut self) {
        if let State::Active(active) = &mut self.hosted.lock().state {
            active.waiting.remove(&self.reply_to);
        }
    }
}

/// What an answer waits for; `None`: nothing.
type Commitment = Option<oneshot::Receiver<Reached>>;

impl<S: CoordinatorShard> Runtime<S> {
    /// To be called on an async runtime, which outlives it. Timers end with the last handle.
    pub fn new(params: RuntimeParams<S>) -> Runtime<S> {
        let inner = Arc::new(Inner {
            image: Mutex::new(params.metadata.load()),
            params,
            tasks: Handle::current(),
            loads: Arc::new(Semaphore::new(PARALLEL_LOADS)),
            num_partitions: OnceLock::new(),
            shards: RwLock::default(),
            deadlines: Mutex::default(),
            earlier: Notify::new(),
            refusals: OnceAMinute::default(),
            failed_timers: OnceAMinute::default(),
            next_reply: AtomicU64::new(0),
        });
        inner.tasks.spawn(run_timers(Arc::downgrade(&inner)));
        Runtime { inner }
    }

    /// The partition of the coordinator's topic that a group or transactional id lives in.
    pub fn partition_of(&self, id: &str) -> PartitionId {
        self.inner.partition_of(id)
    }

    /// Runs a step of the shard of `partition`, and gives its answer once everything it saw and wrote is committed.
    pub async fn run<T>(
        &self,
        partition: PartitionId,
        op: impl FnOnce(&mut S, &mut Step<'_, S>) -> T,
    ) -> Result<T, CoordinatorError> {
        let hosted = self.inner.hosted(partition)?;
        let (answer, commitment) = self.inner.step(&hosted, op)?;
        self.inner.committed(commitment).await?;
        Ok(answer)
    }

    /// Runs a step whose answer comes with a later one: the shard keeps the name that `op` is given, and
    /// [replies](Step::reply) to it.
    pub async fn run_deferred(
        &self,
        partition: PartitionId,
        op: impl FnOnce(&mut S, &mut Step<'_, S>, ReplyTo),
    ) -> Result<S::Deferred, CoordinatorError> {
        let hosted = self.inner.hosted(partition)?;
        let reply_to = ReplyTo(self.inner.next_reply.fetch_add(1, Ordering::Relaxed));
        let (sender, receiver) = oneshot::channel();
        {
            let mut hosted = hosted.lock();
            self.inner.active(&mut hosted)?.waiting.insert(reply_to, sender);
        }
        let place = Place { hosted: &hosted, reply_to };
        self.inner.step(&hosted, |shard, step| op(shard, step, reply_to))?;
        // The sender goes with the shard.
        let reply = receiver.await.unwrap_or(Err(CoordinatorError::NotCoordinator));
        std::mem::forget(place);
        reply
    }

    /// Writes the marker that ends a producer's transaction in `partition`, and lets the shard know. Gives the answer
    /// once the marker is committed.
    pub async fn end_transaction(&self, partition: PartitionId, marker: &TransactionMarker) -> Result<(), MarkerError> {
        let hosted = self.inner.hosted(partition).map_err(MarkerError::Coordinator)?;
        let commitment = {
            let mut hosted = hosted.lock();
            let active = self.inner.active(&mut hosted).map_err(MarkerError::Coordinator)?;
            let now_ms = self.inner.params.clock.now_ms();
            let appended = active.partition.append_marker(marker, now_ms).map_err(MarkerError::Append)?;
            active.last_written = appended.info.last_offset.plus(1);
            active.shard.replay_end_transaction(marker.producer_id, marker.committed);
            active.partition.committed(active.last_written)
        };
        self.inner.committed(commitment).await.map_err(MarkerError::Coordinator)
    }

    /// Begins to verify that a producer has a transaction open that `partition` is part of (KIP-890). `Ok(None)`: it has
    /// records there.
    pub fn start_verification(
        &self,
        partition: PartitionId,
        producer: &VerifiedProducer,
    ) -> Result<Option<VerificationGuard>, CoordinatorError> {
        let hosted = self.inner.hosted(partition)?;
        let mut hosted = hosted.lock();
        let active = self.inner.active(&mut hosted)?;
        active.partition.start_verification(producer, self.inner.params.clock.now_ms()).map_err(append_error)
    }

    /// Runs a step of each shard that is here, in the order of their partitions. A shard that does not answer gives its
    /// error.
    pub async fn run_all<T>(
        &self,
        mut op: impl FnMut(&mut S, &mut Step<'_, S>) -> T,
    ) -> Vec<Result<T, CoordinatorError>> {
        let mut partitions: Vec<PartitionId> = self.inner.shards.read().keys().copied().collect();
        partitions.sort_unstable();
        let mut answers = Vec::with_capacity(partitions.len());
        for partition in partitions {
            answers.push(self.run(partition, &mut op).await);
        }
        answers
    }

    /// Takes over what the controller decided: shards of partitions that this broker leads from now on are loaded,
    /// others closed, and those that go on hear of the change. Called by the controller's thread.
    pub fn apply(&self, image: &Arc<MetadataImage>, delta: &MetadataDelta) {
        *self.inner.image.lock() = image.clone();
        let topic = self.inner.params.topic;
        if delta.deleted_topics.values().any(|deleted| &*deleted.name == topic) {
            self.inner.keep_only(|_| false);
        }
        if let Some(of_coordinator) = image.topic(topic)
            && (delta.created_topics.contains(&of_coordinator.id)
                || delta.changed_topics.contains_key(&of_coordinator.id))
        {
            let broker_id = self.inner.params.broker_id;
            let led = |id: PartitionId| {
                of_coordinator.partition(id).filter(|registration| registration.leader == Some(broker_id))
            };
            self.inner.keep_only(|id| led(id).is_some());
            for (id, registration) in of_coordinator.partitions.iter() {
                if registration.leader == Some(broker_id) {
                    self.elected(*id, registration.leader_epoch);
                }
            }
        }
        let shards: Vec<_> = self.inner.shards.read().values().cloned().collect();
        for hosted in shards {
            self.inner.on_metadata(&mut hosted.lock(), image, delta);
        }
    }

    fn elected(&self, id: PartitionId, leader_epoch: LeaderEpoch) {
        let inner = &self.inner;
        let known = inner.shards.read().get(&id).cloned();
        if let Some(hosted) = known {
            let mut hosted = hosted.lock();
            let goes_on = matches!(hosted.state, State::Active(_) | State::Loading { .. });
            if goes_on {
                // Nobody else led it meanwhile, or it would have been closed.
                hosted.leader_epoch = leader_epoch;
                return;
            }
        }
        let hosted = Arc::new(Mutex::new(Hosted { partition_id: id, leader_epoch, state: State::loading() }));
        inner.shards.write().insert(id, hosted.clone());
        let partition = match inner.params.replicas.partition(inner.params.topic, id) {
            Ok(partition) => partition,
            Err(error) => {
                warn!(topic = inner.params.topic, partition = %id, %error, "a coordinator's partition is not there");
                hosted.lock().state = State::Failed;
                return;
            }
        };
        if partition.log_start_offset() == partition.log_end_offset() {
            let start = partition.log_end_offset();
            inner.activate(&hosted, (inner.params.new_shard)(), partition, start);
            return;
        }
        let inner = inner.clone();
        let loads = inner.loads.clone();
        inner.tasks.clone().spawn(async move {
            let Ok(_permit) = loads.acquire().await else { return };
            let loaded = hosted.clone();
            let loading = spawn_blocking(move || inner.load(&loaded, partition));
            if loading.await.is_err() {
                error!("reading a coordinator's log ended by a panic");
                hosted.lock().state = State::Failed;
            }
        });
    }
}

impl<S: CoordinatorShard> Inner<S> {
    fn partition_of(&self, id: &str) -> PartitionId {
        let RuntimeParams { topic, metadata, settings, num_partitions, .. } = &self.params;
        let count = self.num_partitions.get().copied().unwrap_or_else(|| match metadata.load().topic(topic) {
            Some(topic) => *self.num_partitions.get_or_init(|| topic.partitions.len() as i32),
            None => num_partitions(settings.load().current()),
        });
        partition_for(id, count)
    }

    fn hosted(&self, partition: PartitionId) -> Result<Arc<Mutex<Hosted<S>>>, CoordinatorError> {
        self.shards.read().get(&partition).cloned().ok_or(CoordinatorError::NotCoordinator)
    }

    fn active<'a>(&self, hosted: &'a mut Hosted<S>) -> Result<&'a mut Active<S>, CoordinatorError> {
        match &mut hosted.state {
            State::Active(active) => Ok(active),
            State::Loading { .. } => Err(CoordinatorError::LoadInProgress),
            State::Failed | State::Closed => Err(CoordinatorError::NotCoordinator),
        }
    }

    /// Runs a step; what is returned beside the answer is what it must wait for.
    fn step<T>(
        self: &Arc<Self>,
        hosted: &Mutex<Hosted<S>>,
        op: impl FnOnce(&mut S, &mut Step<'_, S>) -> T,
    ) -> Result<(T, Commitment), CoordinatorError> {
        let mut hosted = hosted.lock();
        // With the shard locked: it never sees an image older than the last change that it was told of.
        let image = self.image.lock().clone();
        self.step_locked(&mut hosted, &image, op)
    }

    fn step_locked<T>(
        self: &Arc<Self>,
        hosted: &mut Hosted<S>,
        image: &Arc<MetadataImage>,
        op: impl FnOnce(&mut S, &mut Step<'_, S>) -> T,
    ) -> Result<(T, Commitment), CoordinatorError> {
        let settings = self.params.settings.load();
        let config = settings.current();
        let now_ms = self.params.clock.now_ms();
        let (partition_id, leader_epoch) = (hosted.partition_id, hosted.leader_epoch);
        let active = self.active(hosted)?;

        let (partition, last_written) = (&active.partition, &mut active.last_written);
        let codec = (self.params.codec)(config);
        let mut append = |append: Append<'_, S::Record>| {
            let appended = write(partition, &append, codec, now_ms)?;
            *last_written = appended.first.plus(appended.count as i64);
            Ok(appended)
        };
        let mut environment = Environment {
            now: self.params.clock.monotonic(),
            now_ms,
            image,
            config,
            batch_limit: (codec == Codec::None).then(|| partition.max_message_bytes().max(0) as usize),
            new_uuid: &mut Uuid::new_v4,
        };
        let Outcome { answer, replies, effects } = run_step(&mut active.shard, &mut environment, &mut append, op);
        if !replies.is_empty() || !effects.is_empty() {
            let replies = replies.into_iter().filter_map(|(to, reply)| Some((active.waiting.remove(&to)?, reply)));
            let consequences = Consequences { replies: replies.collect(), effects, partition_id, leader_epoch };
            self.deliver(consequences, active.partition.committed(active.last_written));
        }
        self.move_deadline(partition_id, active);
        let answer = answer.inspect_err(|error| {
            // Clients can bring it about as often as they like, with more metadata than a batch can hold.
            match error {
                CoordinatorError::Refused(_) if self.refusals.is_due(self.params.clock.monotonic()) => {
                    warn!(topic = self.params.topic, partition = %partition_id, %error,
                        "a coordinator's records were refused");
                }
                error => debug!(topic = self.params.topic, partition = %partition_id, %error,
                    "a coordinator's records were not written"),
            }
        })?;
        Ok((answer, active.partition.committed(active.last_written)))
    }

    /// Lets a step's consequences happen once it is committed.
    fn deliver(self: &Arc<Self>, consequences: Consequences<S>, commitment: Commitment) {
        let Consequences { replies, effects, partition_id, leader_epoch } = consequences;
        let answer = |replies: Vec<(oneshot::Sender<Deferred<S>>, Deferred<S>)>, committed: Result<(), _>| {
            for (sender, reply) in replies {
                // Nobody may be there any more.
                let _ = sender.send(committed.clone().and(reply));
            }
        };
        let Some(mut commitment) = commitment else {
            answer(replies, Ok(()));
            effects.into_iter().for_each(|effect| (self.params.on_effect)(partition_id, leader_epoch, effect));
            return;
        };
        let (inner, limit) = (self.clone(), self.commit_timeout());
        self.tasks.spawn(async move {
            let in_time = timeout(limit, &mut commitment).await;
            answer(replies, committed(&in_time));
            // Callers are told that it takes too long; it is committed all the same, and then the effects are due.
            let reached = match in_time {
                Ok(reached) => reached,
                Err(_) => commitment.await,
            };
            if reached == Ok(Reached::Yes) {
                effects.into_iter().for_each(|effect| (inner.params.on_effect)(partition_id, leader_epoch, effect));
            }
        });
    }

    fn commit_timeout(&self) -> Duration {
        (self.params.commit_timeout)(self.params.settings.load().current())
    }

    /// Waits until what a step saw and wrote is committed.
    fn committed(&self, commitment: Commitment) -> impl Future<Output = Result<(), CoordinatorError>> + Send + use<S> {
        let limit = self.commit_timeout();
        async move {
            let Some(commitment) = commitment else { return Ok(()) };
            committed(&timeout(limit, commitment).await)
        }
    }

    /// Takes over when the shard wants to be called next.
    fn move_deadline(&self, id: PartitionId, active: &mut Active<S>) {
        let deadline = active.shard.next_deadline();
        if deadline == active.deadline {
            return;
        }
        let mut deadlines = self.deadlines.lock();
        if let Some(before) = active.deadline {
            deadlines.queue.remove(&(before, id));
        }
        if let Some(deadline) = deadline {
            deadlines.queue.insert((deadline, id));
            // One that moves away, as with every heartbeat, wakes nobody.
            if deadlines.wake.is_some_and(|wake| deadline < wake) {
                deadlines.wake = None;
                self.earlier.notify_one();
            }
        }
        active.deadline = deadline;
    }

    fn activate(
        self: &Arc<Self>,
        hosted: &Mutex<Hosted<S>>,
        shard: S,
        partition: Arc<Partition>,
        last_written: Offset,
    ) {
        let mut hosted = hosted.lock();
        let State::Loading { deleted_topics } = &mut hosted.state else { return };
        let deleted_topics = std::mem::take(deleted_topics);
        let active = Active { shard, partition, last_written, waiting: HashMap::new(), deadline: None };
        hosted.state = State::Active(Box::new(active));
        let image = self.image.lock().clone();
        // Nobody waits for it; what it appends is tried again by the shard's own timers.
        if let Err(error) = self.step_locked(&mut hosted, &image, |shard, step| shard.on_loaded(step)) {
            warn!(topic = self.params.topic, %error, "a coordinator's first step failed");
        }
        if !deleted_topics.is_empty() {
            let delta = MetadataDelta { deleted_topics, ..MetadataDelta::default() };
            self.on_metadata(&mut hosted, &image, &delta);
        }
    }

    /// Lets a shard hear of a change: at once, or what the image will not tell it when it is loaded.
    fn on_metadata(self: &Arc<Self>, hosted: &mut Hosted<S>, image: &Arc<MetadataImage>, delta: &MetadataDelta) {
        if let State::Loading { deleted_topics } = &mut hosted.state {
            deleted_topics.extend(delta.deleted_topics.clone());
            return;
        }
        match self.step_locked(hosted, image, |shard, step| shard.on_metadata(delta, step)) {
            // Who does not serve need not hear.
            Ok(_) | Err(CoordinatorError::NotCoordinator) => {}
            Err(error) => warn!(topic = self.params.topic, partition = %hosted.partition_id, %error,
                "what follows from a change of topics was not written"),
        }
    }

    /// Reads the shard's log; blocks.
    fn load(self: &Arc<Self>, hosted: &Mutex<Hosted<S>>, partition: Arc<Partition>) {
        let mut shard = (self.params.new_shard)();
        let buffer_size = (self.params.load_buffer_size)(self.params.settings.load().current());
        let is_wanted = || matches!(hosted.lock().state, State::Loading { .. });
        let topic_partition = partition.topic_partition().clone();
        match loader::load(&partition, buffer_size, &*self.params.clock, &is_wanted, &mut shard) {
            Ok(loaded) => {
                info!(partition = %topic_partition, records = loaded.records, bytes = loaded.bytes, took = ?loaded.took,
                    "coordinator loaded");
                self.activate(hosted, shard, partition, loaded.end);
            }
            Err(loader::LoadError::NotWanted) => {}
            Err(error) => {
                error!(partition = %topic_partition, %error, "a coordinator's log cannot be read: its groups or \
                    transactions are not served");
                let mut hosted = hosted.lock();
                if matches!(hosted.state, State::Loading { .. }) {
                    hosted.state = State::Failed;
                }
            }
        }
    }

    /// Closes the shards of all other partitions.
    fn keep_only(&self, keep: impl Fn(PartitionId) -> bool) {
        let closed: Vec<_> = self.shards.write().extract_if(|id, _| !keep(*id)).collect();
        for (id, hosted) in closed {
            let mut hosted = hosted.lock();
            if let State::Active(active) = std::mem::replace(&mut hosted.state, State::Closed)
                && let Some(deadline) = active.deadline
            {
                self.deadlines.lock().queue.remove(&(deadline, id));
            }
            info!(topic = self.params.topic, partition = %id, epoch = %hosted.leader_epoch, "coordinator resigned");
        }
    }

    /// Takes a shard out of service whose state may be half changed.
    fn fail(&self, id: PartitionId) {
        if let Ok(hosted) = self.hosted(id) {
            hosted.lock().state = State::Failed;
        }
        self.deadlines.lock().queue.retain(|(_, other)| *other != id);
    }

    /// Lets all timers of a shard fire that are due.
    fn fire(self: &Arc<Self>, id: PartitionId) {
        let Ok(hosted) = self.hosted(id) else {
            self.deadlines.lock().queue.retain(|(_, other)| *other != id);
            return;
        };
        loop {
            let now = self.params.clock.monotonic();
            {
                let mut hosted = hosted.lock();
                let Ok(active) = self.active(&mut hosted) else { return };
                if active.shard.next_deadline().is_none_or(|deadline| deadline > now) {
                    return;
                }
            }
            if let Err(error) = self.step(&hosted, |shard, step| shard.on_timer(step))
                && self.failed_timers.is_due(now)
            {
                warn!(topic = self.params.topic, partition = %id, %error, "a coordinator's timer failed");
            }
        }
    }
}

/// What the end of a wait for a commitment means to whoever waits.
fn committed(
    waited: &Result<Result<Reached, oneshot::error::RecvError>, tokio::time::error::Elapsed>,
) -> Result<(), CoordinatorError> {
    match waited {
        Ok(Ok(Reached::Yes)) => Ok(()),
        Ok(Ok(Reached::Never) | Err(_)) => Err(CoordinatorError::NotCoordinator),
        Err(_) => Err(CoordinatorError::NotAvailable("the records are not committed yet".to_owned())),
    }
}

/// What may go wrong again and again is told once a minute.
#[derive(Default)]
struct OnceAMinute {
    told: Mutex<Option<Duration>>,
}

impl OnceAMinute {
    /// Whether it is to be told now.
    fn is_due(&self, now: Duration) -> bool {
        let mut told = self.told.lock();
        let due = told.is_none_or(|told| now.saturating_sub(told) >= Duration::from_secs(60));
        if due {
            *told = Some(now);
        }
        due
    }
}

/// Calls shards when their timers are due, until the runtime is gone.
async fn run_timers<S: CoordinatorShard>(runtime: Weak<Inner<S>>) {
    /// So that the end of the runtime is noticed, and a clock that runs otherwise than the system's.
    const LONGEST_SLEEP: Duration = Duration::from_secs(1);
    loop {
        let Some(inner) = runtime.upgrade() else { return };
        let now = inner.params.clock.monotonic();
        let (due, sleep) = {
            let mut deadlines = inner.deadlines.lock();
            let first = deadlines.queue.first().copied();
            let due = first.filter(|(deadline, _)| *deadline <= now);
            let sleep = first.map_or(LONGEST_SLEEP, |(deadline, _)| deadline.saturating_sub(now).min(LONGEST_SLEEP));
            deadlines.wake = if due.is_none() { Some(now + sleep) } else { None };
            (due, sleep)
        };
        let Some((_, id)) = due else {
            let _ = timeout(sleep, inner.earlier.notified()).await;
            continue;
        };
        // It may write, and go through all that the shard knows.
        let fired = inner.clone();
        let firing = spawn_blocking(move || fired.fire(id));
        if firing.await.is_err() {
            error!(topic = inner.params.topic, partition = %id,
                "a coordinator's timer ended by a panic: its groups or transactions are not served any more");
            inner.fail(id);
        }
    }
}

/// Appends one batch of as many records as may stand in it: all, or if they are divisible those that fit.
fn write<R: CoordinatorRecord>(
    partition: &Arc<Partition>,
    append: &Append<'_, R>,
    codec: Codec,
    now_ms: i64,
) -> Result<Appended, CoordinatorError> {
    let usual_size = append.records.len().min(MOST_RESERVED) * USUAL_RECORD;
    let mut builder = RecordBatchBuilder::new(Offset(0)).compression(codec, codec.default_level()).reserve(usual_size);
    if let Some(producer) = append.producer {
        builder = builder.producer(producer.producer_id, producer.producer_epoch, NO_SEQUENCE).transactional(true);
    }
    let limit = partition.max_message_bytes().max(0) as usize;
    let mut count = 0;
    for record in append.records {
        let (key, value) = record.to_bytes();
        let size = RECORD_OVERHEAD + key.len() + value.as_ref().map_or(0, Vec::len);
        if append.divisible && count > 0 && builder.size_in_bytes() + size > limit {
            break;
        }
        builder.append(now_ms, Some(&key), value.as_deref(), &[]);
        count += 1;
    }
    let context =
        AppendContext { guard: append.producer.and_then(|producer| producer.guard), ..AppendContext::default() };
    let appended = partition.append_as_coordinator(builder.build(), context, now_ms).map_err(append_error)?;
    Ok(Appended { first: appended.info.first_offset, count })
}

/// What a failed append means to who asked, as Kafka has it.
fn append_error(error: PartitionAppendError) -> CoordinatorError {
    match error {
        PartitionAppendError::Leader(
            LeaderError::NotLeaderOrFollower
            | LeaderError::FencedLeaderEpoch
            | LeaderError::UnknownLeaderEpoch
            | LeaderError::Offline,
        )
        | PartitionAppendError::Log(AppendError::NoRoom(_) | AppendError::Io(_) | AppendError::Offline) => {
            CoordinatorError::NotCoordinator
        }
        PartitionAppendError::NotEnoughReplicas { .. } => CoordinatorError::NotAvailable(error.to_string()),
        PartitionAppendError::Invalid(_) | PartitionAppendError::Log(_) => CoordinatorError::Refused(error.to_string()),
    }
}

#[cfg(test)]
mod tests;
