//! What a coordinator's state machine is to its runtime, and one step of it.
//!
//! A shard owns the state that the records of one partition add up to. It is told of one thing at a time, with the time
//! and the metadata beside it, and decides: records to be appended, answers to be given, timers to be set. Its *hard*
//! state changes by [`CoordinatorShard::replay`] alone, once a record is in the log, so that a shard which only read
//! the log is in the same state as the one that wrote it. What a record does not say (who waits for a rebalance, when a
//! session ends) is *soft* state and changes at once.
//!
//! ```text
//! request ─→ op(shard, step) ─→ records ─→ append ─┬─ done ──→ replay, or on_append(Ok)  ─→ answers, once committed
//! timer   ─→ on_timer                              └─ failed ─→ nothing, or on_append(Err) ─→ errors
//! ```

use std::time::Duration;

use thiserror::Error;
use uuid::Uuid;

use crate::config::BrokerConfig;
use crate::metadata::image::{MetadataDelta, MetadataImage};
use crate::protocol::ErrorCode;
use crate::replica::VerificationGuard;
use crate::types::{Offset, ProducerEpoch, ProducerId};

/// Why a shard's answer is none, or cannot be told.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CoordinatorError {
    #[error("this broker does not coordinate it")]
    NotCoordinator,
    #[error("the coordinator reads its log")]
    LoadInProgress,
    /// The records are not there yet, or cannot be written now: to be tried again.
    #[error("the coordinator is not available: {0}")]
    NotAvailable(String),
    /// The records cannot be written at all.
    #[error("the coordinator's records were refused: {0}")]
    Refused(String),
}

impl CoordinatorError {
    pub fn code(&self) -> ErrorCode {
        match self {
            CoordinatorError::NotCoordinator => ErrorCode::NotCoordinator,
            CoordinatorError::LoadInProgress => ErrorCode::CoordinatorLoadInProgress,
            CoordinatorError::NotAvailable(_) => ErrorCode::CoordinatorNotAvailable,
            CoordinatorError::Refused(_) => ErrorCode::UnknownServerError,
        }
    }
}

/// Where a record stands in the log, and who wrote its batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordOrigin {
    pub offset: Offset,
    /// [`ProducerId::NONE`] outside of transactions.
    pub producer_id: ProducerId,
}

/// Whose transaction records belong to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransactionalProducer {
    pub producer_id: ProducerId,
    pub producer_epoch: ProducerEpoch,
    /// Of the verification with the transaction's coordinator; `None`: the transaction has records here already, or
    /// nothing is verified.
    pub guard: Option<VerificationGuard>,
}

/// Names a caller that is answered later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReplyTo(pub u64);

/// A record that a shard writes and reads.
pub trait CoordinatorRecord: Send + Sized + 'static {
    /// Key and value as they stand in the log.
    fn to_bytes(&self) -> (Vec<u8>, Option<Vec<u8>>);

    /// `Ok(None)`: a kind of record that is not known, to be passed over.
    fn from_bytes(key: &[u8], value: Option<&[u8]>) -> Result<Option<Self>, String>;
}

/// See the module.
pub trait CoordinatorShard: Send + Sized + 'static {
    type Record: CoordinatorRecord;
    /// An answer that is given later than the call that asks for it.
    type Deferred: Send + 'static;
    /// What else takes effect with a step's records, or does not if they cannot be appended.
    type Continuation: Send + 'static;
    /// What others are to do once a step's records are committed.
    type Effect: Send + 'static;

    /// Applies a record that is in the log.
    fn replay(&mut self, record: Self::Record, origin: RecordOrigin);

    /// Applies the end of a transaction whose records were replayed. The producer's epoch is its transaction coordinator's
    /// affair.
    fn replay_end_transaction(&mut self, producer_id: ProducerId, committed: bool);

    /// The log is read to its end: from here on the shard answers.
    fn on_loaded(&mut self, step: &mut Step<'_, Self>);

    /// Called once a step's records are appended, or are not, in the place of [`Self::replay`], if the step gave a
    /// continuation.
    fn on_append(
        &mut self,
        continuation: Self::Continuation,
        appended: Result<(), CoordinatorError>,
        step: &mut Step<'_, Self>,
    );

    /// When [`Self::on_timer`] is to be called next.
    fn next_deadline(&self) -> Option<Duration>;

    /// One timer is due: the first. Called again while there are more.
    fn on_timer(&mut self, step: &mut Step<'_, Self>);

    /// The cluster's metadata changed; `step.image` is the new one.
    fn on_metadata(&mut self, delta: &MetadataDelta, step: &mut Step<'_, Self>);
}

/// What a shard is told beside the event itself.
pub struct Environment<'a> {
    /// Of [`Clock::monotonic`](crate::clock::Clock::monotonic): what timers count.
    pub now: Duration,
    /// Milliseconds since 1970: what records and clients say.
    pub now_ms: i64,
    pub image: &'a MetadataImage,
    /// The broker's settings in force.
    pub config: &'a BrokerConfig,
    /// What a batch may take in the log, in bytes; `None`: that cannot be told from its records.
    pub batch_limit: Option<usize>,
    pub new_uuid: &'a mut dyn FnMut() -> Uuid,
}

/// A step under way: what the shard is told, and what it has decided so far.
pub struct Step<'a, S: CoordinatorShard> {
    pub now: Duration,
    pub now_ms: i64,
    pub image: &'a MetadataImage,
    pub config: &'a BrokerConfig,
    /// A step whose records are larger than this, in bytes, need not make them all: they are refused.
    pub batch_limit: Option<usize>,
    new_uuid: &'a mut dyn FnMut() -> Uuid,
    records: Vec<S::Record>,
    divisible: bool,
    producer: Option<TransactionalProducer>,
    continuation: Option<S::Continuation>,
    replies: Vec<(ReplyTo, S::Deferred)>,
    effects: Vec<S::Effect>,
}

impl<'a, S: CoordinatorShard> Step<'a, S> {
    fn new<'b>(environment: &'b mut Environment<'_>) -> Step<'b, S> {
        Step {
            now: environment.now,
            now_ms: environment.now_ms,
            image: environment.image,
            config: environment.config,
            batch_limit: environment.batch_limit,
            new_uuid: environment.new_uuid,
            records: Vec::new(),
            divisible: false,
            producer: None,
            continuation: None,
            replies: Vec::new(),
            effects: Vec::new(),
        }
    }

    /// A random id.
    pub fn new_uuid(&mut self) -> Uuid {
        (self.new_uuid)()
    }

    /// Has a record appended when the step ends. All of a step's records stand in one batch, all or none.
    pub fn append(&mut self, record: impl Into<S::Record>) {
        self.records.push(record.into());
    }

    pub fn append_all(&mut self, records: impl IntoIterator<Item = S::Record>) {
        self.records.extend(records);
    }

    /// The step's records do not hang together: they may be split into several batches.
    pub fn allow_several_batches(&mut self) {
        self.divisible = true;
    }

    /// The step's records belong to a producer's transaction.
    pub fn within_transaction(&mut self, producer: TransactionalProducer) {
        self.producer = Some(producer);
    }

    /// Has [`CoordinatorShard::on_append`] called when the step's records are appended, even if there are none, in the
    /// place of a replay.
    pub fn then(&mut self, continuation: impl Into<S::Continuation>) {
        assert!(self.continuation.is_none(), "a step has one continuation");
        self.continuation = Some(continuation.into());
    }

    /// Answers a caller of an earlier step, or this one's, once the step's records are committed. If they cannot be
    /// appended, the caller gets that error instead.
    pub fn reply(&mut self, to: ReplyTo, reply: S::Deferred) {
        self.replies.push((to, reply));
    }

    /// Has others do something once the step's records are committed; not if they cannot be appended.
    pub fn effect(&mut self, effect: S::Effect) {
        self.effects.push(effect);
    }
}

/// Records of one step, to be appended.
pub struct Append<'a, R> {
    pub records: &'a [R],
    /// Whether they may stand in several batches.
    pub divisible: bool,
    /// Whose transaction they are part of.
    pub producer: Option<TransactionalProducer>,
}

/// What was appended: a batch of the first records.
pub struct Appended {
    pub first: Offset,
    /// How many; all of them, unless they are divisible.
    pub count: usize,
}

/// Appends one batch.
pub type AppendFn<'a, R> = dyn FnMut(Append<'_, R>) -> Result<Appended, CoordinatorError> + 'a;

/// An answer to a caller that was told to wait.
pub type DeferredReply<S> = (ReplyTo, Result<<S as CoordinatorShard>::Deferred, CoordinatorError>);

/// What comes of a step.
pub struct Outcome<S: CoordinatorShard, T> {
    /// What the step itself answers, unless its records could not be appended.
    pub answer: Result<T, CoordinatorError>,
    /// Answers to callers that were told to wait.
    pub replies: Vec<DeferredReply<S>>,
    /// To be done once everything is committed.
    pub effects: Vec<S::Effect>,
}

/// Runs a step to its end: decides, appends, and lets what was appended take effect.
pub fn run_step<S: CoordinatorShard, T>(
    shard: &mut S,
    environment: &mut Environment<'_>,
    append: &mut AppendFn<'_, S::Record>,
    op: impl FnOnce(&mut S, &mut Step<'_, S>) -> T,
) -> Outcome<S, T> {
    let mut replies = Vec::new();
    let mut effects = Vec::new();
    let mut step = Step::new(environment);
    let answer = op(shard, &mut step);
    let mut continuation = step.continuation.take();
    let appended = take_effect(shard, append, step, continuation.is_some(), &mut replies, &mut effects);
    // A continuation may decide again, and give another.
    let mut outcome = appended.clone();
    while let Some(next) = continuation.take() {
        let mut step = Step::new(environment);
        shard.on_append(next, outcome, &mut step);
        continuation = step.continuation.take();
        outcome = take_effect(shard, append, step, continuation.is_some(), &mut replies, &mut effects);
    }
    Outcome { answer: appended.map(|()| answer), replies, effects }
}

fn take_effect<S: CoordinatorShard>(
    shard: &mut S,
    append: &mut AppendFn<'_, S::Record>,
    step: Step<'_, S>,
    continued: bool,
    all_replies: &mut Vec<DeferredReply<S>>,
    all_effects: &mut Vec<S::Effect>,
) -> Result<(), CoordinatorError> {
    let Step { records, divisible, producer, replies, effects, .. } = step;
    let outcome = append_and_replay(shard, append, records, divisible, producer, continued);
    all_replies.extend(replies.into_iter().map(|(to, reply)| (to, outcome.clone().map(|()| reply))));
    outcome?;
    all_effects.extend(effects);
    Ok(())
}

/// Appends records batch by batch, and applies what is in the log before the next one is.
fn append_and_replay<S: CoordinatorShard>(
    shard: &mut S,
    append: &mut AppendFn<'_, S::Record>,
    records: Vec<S::Record>,
    divisible: bool,
    producer: Option<TransactionalProducer>,
    continued: bool,
) -> Result<(), CoordinatorError> {
    let producer_id = producer.map_or(ProducerId::NONE, |producer| producer.producer_id);
    let mut left = records;
    while !left.is_empty() {
        let Appended { first, count } = append(Append { records: &left, divisible, producer })?;
        let behind = left.split_off(count);
        let appended = std::mem::replace(&mut left, behind);
        if continued {
            continue;
        }
        for (at, record) in appended.into_iter().enumerate() {
            shard.replay(record, RecordOrigin { offset: first.plus(at as i64), producer_id });
        }
    }
    Ok(())
}

/// A shard with a log in memory and a clock that is moved by hand, for tests.
#[cfg(test)]
pub mod harness {
    use std::sync::Arc;

    use super::*;

    /// See the module.
    pub struct Harness<S: CoordinatorShard> {
        pub shard: S,
        pub now: Duration,
        pub image: MetadataImage,
        pub config: Arc<BrokerConfig>,
        /// Everything appended so far, as bytes.
        pub log: Vec<(Vec<u8>, Option<Vec<u8>>)>,
        /// How many records of the log the test has looked at, see [`Self::take_records`].
        taken: usize,
        /// Answers to callers that waited.
        pub replies: Vec<(ReplyTo, Result<S::Deferred, CoordinatorError>)>,
        /// What others were told to do.
        pub effects: Vec<S::Effect>,
        pub batch_limit: Option<usize>,
        /// What the next appends end in.
        pub append_error: Option<CoordinatorError>,
        uuids: u128,
    }

    /// Wall-clock time of the harness's start.
    pub const START_MS: i64 = 1_700_000_000_000;

    impl<S: CoordinatorShard> Harness<S> {
        pub fn new(shard: S, image: MetadataImage, config: BrokerConfig) -> Harness<S> {
            let mut harness = Harness {
                shard,
                now: Duration::ZERO,
                image,
                config: Arc::new(config),
                log: Vec::new(),
                taken: 0,
                replies: Vec::new(),
                effects: Vec::new(),
                batch_limit: None,
                append_error: None,
                uuids: 0,
            };
            harness.step(|shard, step| shard.on_loaded(step)).expect("nothing is appended by loading");
            harness
        }

        /// Runs a step. Uuids count from 1.
        pub fn step<T>(&mut self, op: impl FnOnce(&mut S, &mut Step<'_, S>) -> T) -> Result<T, CoordinatorError> {
            let uuids = &mut self.uuids;
            let mut new_uuid = || {
                *uuids += 1;
                Uuid::from_u128(*uuids)
            };
            let mut environment = Environment {
                now: self.now,
                now_ms: START_MS + self.now.as_millis() as i64,
                image: &self.image,
                config: &self.config,
                batch_limit: self.batch_limit,
                new_uuid: &mut new_uuid,
            };
            let (log, error) = (&mut self.log, &self.append_error);
            let mut append = |append: Append<'_, S::Record>| {
                if let Some(error) = error {
                    return Err(error.clone());
                }
                let first = Offset(log.len() as i64);
                log.extend(append.records.iter().map(CoordinatorRecord::to_bytes));
                Ok(Appended { first, count: append.records.len() })
            };
            let outcome = run_step(&mut self.shard, &mut environment, &mut append, op);
            self.replies.extend(outcome.replies);
            self.effects.extend(outcome.effects);
            outcome.answer
        }

        /// Lets time pass; timers fire at their time.
        pub fn advance(&mut self, by: Duration) {
            let end = self.now + by;
            while let Some(deadline) = self.shard.next_deadline().filter(|deadline| *deadline <= end) {
                self.now = self.now.max(deadline);
                // An error is the harness's own, set by the test.
                let _ = self.step(|shard, step| shard.on_timer(step));
            }
            self.now = end;
        }

        /// The records appended since the last call.
        pub fn take_records(&mut self) -> Vec<S::Record> {
            let new = &self.log[self.taken..];
            let records = new.iter().map(|(key, value)| {
                S::Record::from_bytes(key, value.as_deref()).expect("own records are sound").expect("and known")
            });
            let records = records.collect();
            self.taken = self.log.len();
            records
        }

        /// Another shard that reads this one's log, as after a failover, at the same time.
        pub fn reload(&mut self, mut fresh: S) {
            for (offset, (key, value)) in self.log.iter().enumerate() {
                let record = S::Record::from_bytes(key, value.as_deref()).expect("own records are sound");
                let origin = RecordOrigin { offset: Offset(offset as i64), producer_id: ProducerId::NONE };
                fresh.replay(record.expect("and known"), origin);
            }
            self.shard = fresh;
            self.step(|shard, step| shard.on_loaded(step)).expect("loading succeeds");
        }

        /// Changes the metadata, and tells the shard.
        pub fn set_image(&mut self, image: MetadataImage) {
            let delta = MetadataDelta::between(&self.image, &image);
            self.image = image;
            self.step(|shard, step| shard.on_metadata(&delta, step)).expect("nothing fails");
        }
    }
}
