//! What the transaction coordinator decides. The state of a transactional id changes by records alone; what is not in
//! the log is which markers are still to be written, and who waits for the end of a transaction.
//!
//! Errors and the order of the checks are Kafka's (`TransactionCoordinator`). Where Kafka has a transition *pending*, a
//! transaction is decided and its markers are being written.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use tracing::{debug, info};

use super::metadata::{
    TransactionMetadata, TransactionUpdate, TransactionVersion, is_epoch_exhausted, log_value_version,
};
use super::state::TransactionState;
use crate::coordinator::shard::{CoordinatorError, CoordinatorShard, RecordOrigin, ReplyTo};
use crate::coordinator::timers::Timers;
use crate::metadata::image::{FeaturesImage, MetadataDelta};
use crate::protocol::ErrorCode;
use crate::types::{ProducerEpoch, ProducerId, TopicPartition};

/// A step of this shard.
pub type Step<'a> = crate::coordinator::shard::Step<'a, TransactionShard>;

/// How long the end of a transaction may wait for its markers before its producer is told. It is decided by then; a
/// producer that goes on before they are written is sent away with CONCURRENT_TRANSACTIONS and tries again.
const MARKERS_WAIT: Duration = Duration::from_millis(100);

/// A decision needs a new producer id: to be asked again with one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProducerIdNeeded;

/// What InitProducerId comes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Initialized {
    Producer(ProducerId, ProducerEpoch),
    Refused(ErrorCode),
    NeedsProducerId,
}

/// How a producer, or the coordinator itself, ends a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndTransaction {
    pub transactional_id: Arc<str>,
    pub producer_id: ProducerId,
    pub producer_epoch: ProducerEpoch,
    pub committed: bool,
    /// Of the request; the cluster's for the coordinator's own.
    pub client_version: TransactionVersion,
    /// To be used if the producer's epochs are exhausted.
    pub new_producer_id: Option<ProducerId>,
}

/// What the end of a transaction comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndedTransaction {
    /// With the id and epoch to go on with; none before `transaction.version` 2.
    Ended(ProducerId, ProducerEpoch),
    Refused(ErrorCode),
    NeedsProducerId,
}

/// The answer to the check whether partitions are part of a transaction.
pub type Verification = Result<BTreeMap<TopicPartition, ErrorCode>, ErrorCode>;

/// Markers that end a decided transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MarkersToWrite {
    pub transactional_id: Arc<str>,
    pub producer_id: ProducerId,
    pub producer_epoch: ProducerEpoch,
    pub committed: bool,
    pub transaction_version: TransactionVersion,
    pub partitions: BTreeSet<TopicPartition>,
}

/// What is to be done once decisions are committed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TransactionEffect {
    WriteMarkers(MarkersToWrite),
    /// The transaction took longer than its producer asked for.
    Abort(EndTransaction),
}

/// Which transactions ListTransactions wants.
#[derive(Clone, Debug, Default)]
pub struct TransactionFilter {
    /// Empty: all.
    pub producer_ids: BTreeSet<ProducerId>,
    /// `None`: all.
    pub states: Option<BTreeSet<TransactionState>>,
    /// Open for longer than this; negative: all.
    pub duration_ms: i64,
    /// The transactional id as a whole matches.
    pub pattern: Option<regex::Regex>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Timer {
    /// Looks for transactions that took too long.
    Abort,
    /// Looks for transactional ids that are not used any more.
    Expiration,
    /// Tells the producer of the end of its transaction, though its markers are not written.
    Reply(Arc<str>),
}

/// A producer that waits for the markers of its transaction.
#[derive(Debug)]
struct Waiting {
    reply_to: ReplyTo,
    answer: EndedTransaction,
}

/// See the module.
#[derive(Debug, Default)]
pub struct TransactionShard {
    transactions: BTreeMap<Arc<str>, TransactionMetadata>,
    waiting: BTreeMap<Arc<str>, Waiting>,
    timers: Timers<Timer>,
}

impl CoordinatorShard for TransactionShard {
    type Record = TransactionUpdate;
    type Deferred = EndedTransaction;
    type Continuation = Infallible;
    type Effect = TransactionEffect;

    fn replay(&mut self, record: TransactionUpdate, _origin: RecordOrigin) {
        match record.metadata {
            Some(metadata) => self.transactions.insert(record.transactional_id, metadata),
            None => self.transactions.remove(&record.transactional_id),
        };
    }

    fn replay_end_transaction(&mut self, _producer_id: ProducerId, _committed: bool) {
        // No transaction writes to this topic.
    }

    fn on_loaded(&mut self, step: &mut Step<'_>) {
        for (transactional_id, transaction) in &self.transactions {
            if transaction.state.is_prepared() {
                step.effect(markers(transactional_id, transaction));
            }
        }
        self.schedule(step);
    }

    fn on_append(&mut self, continuation: Infallible, _: Result<(), CoordinatorError>, _: &mut Step<'_>) {
        match continuation {}
    }

    fn next_deadline(&self) -> Option<Duration> {
        self.timers.next_deadline()
    }

    fn on_timer(&mut self, step: &mut Step<'_>) {
        match self.timers.pop_due(step.now) {
            None => {}
            Some(Timer::Abort) => {
                self.abort_timed_out(step);
                self.schedule(step);
            }
            Some(Timer::Expiration) => {
                self.expire(step);
                self.schedule(step);
            }
            Some(Timer::Reply(transactional_id)) => self.answer(&transactional_id, step),
        }
    }

    fn on_metadata(&mut self, _delta: &MetadataDelta, _step: &mut Step<'_>) {}
}

/// The level of `transaction.version` that the cluster has.
fn cluster_version(step: &Step<'_>) -> TransactionVersion {
    TransactionVersion(step.image.features.level(FeaturesImage::TRANSACTION_VERSION))
}

fn update(transactional_id: &Arc<str>, metadata: Option<TransactionMetadata>, step: &mut Step<'_>) {
    let value_version = log_value_version(cluster_version(step));
    step.append(TransactionUpdate { transactional_id: transactional_id.clone(), metadata, value_version });
}

fn markers(transactional_id: &Arc<str>, transaction: &TransactionMetadata) -> TransactionEffect {
    TransactionEffect::WriteMarkers(MarkersToWrite {
        transactional_id: transactional_id.clone(),
        producer_id: transaction.producer_id,
        producer_epoch: transaction.producer_epoch,
        committed: transaction.state == TransactionState::PrepareCommit,
        transaction_version: transaction.client_version,
        partitions: transaction.partitions.clone(),
    })
}

impl TransactionShard {
    fn schedule(&mut self, step: &Step<'_>) {
        let after = |ms: i32| step.now + Duration::from_millis(ms.max(1) as u64);
        let config = step.config;
        let abort = after(config.transaction_abort_timed_out_transaction_cleanup_interval_ms);
        let expiration = after(config.transaction_remove_expired_transaction_cleanup_interval_ms);
        self.timers.set_if_absent(Timer::Abort, abort);
        self.timers.set_if_absent(Timer::Expiration, expiration);
    }

    /// A producer begins, or goes on after an error (InitProducerId). `expected` is what it takes itself for.
    /// `new_producer_id` is used where one is needed.
    pub fn init_producer_id(
        &mut self,
        step: &mut Step<'_>,
        transactional_id: &Arc<str>,
        timeout_ms: i32,
        expected: Option<(ProducerId, ProducerEpoch)>,
        new_producer_id: Option<ProducerId>,
    ) -> Initialized {
        let created;
        let transaction = match self.transactions.get(transactional_id) {
            Some(transaction) => transaction,
            None => {
                let Some(producer_id) = new_producer_id else { return Initialized::NeedsProducerId };
                created = TransactionMetadata::new(producer_id, timeout_ms, step.now_ms);
                &created
            }
        };
        if transaction.state.is_prepared() {
            return Initialized::Refused(ErrorCode::ConcurrentTransactions);
        }
        if !expected.is_none_or(|expected| is_valid_expectation(transaction, expected)) {
            return Initialized::Refused(ErrorCode::ProducerFenced);
        }
        if transaction.state == TransactionState::Ongoing {
            return self.fence(step, transactional_id, new_producer_id);
        }
        let expected_epoch = expected.map(|(_, epoch)| epoch);
        let rotate =
            transaction.is_epoch_exhausted() && expected_epoch.is_none_or(|epoch| epoch == transaction.producer_epoch);
        let (producer_id, epoch, last_epoch) = if rotate {
            let Some(producer_id) = new_producer_id else { return Initialized::NeedsProducerId };
            let last = if expected.is_some() { transaction.producer_epoch } else { ProducerEpoch::NONE };
            (producer_id, ProducerEpoch(0), last)
        } else {
            match next_epoch(transaction, expected_epoch) {
                Ok((epoch, last_epoch)) => (transaction.producer_id, epoch, last_epoch),
                Err(error) => return Initialized::Refused(error),
            }
        };
        let initialized = transaction.initialized(producer_id, epoch, last_epoch, timeout_ms, step.now_ms);
        info!(transactional_id = &**transactional_id, %producer_id, producer_epoch = %epoch, "producer initialized");
        update(transactional_id, Some(initialized), step);
        Initialized::Producer(producer_id, epoch)
    }

    /// Aborts the open transaction of an earlier instance, whose epoch then is an old one.
    fn fence(
        &mut self,
        step: &mut Step<'_>,
        transactional_id: &Arc<str>,
        new_producer_id: Option<ProducerId>,
    ) -> Initialized {
        match self.abort_ongoing(step, transactional_id, new_producer_id) {
            // The producer asks again, and by then the abort is complete.
            Ok(()) => Initialized::Refused(ErrorCode::ConcurrentTransactions),
            Err(ProducerIdNeeded) => Initialized::NeedsProducerId,
        }
    }

    /// Decides that an ongoing transaction is aborted, by the coordinator.
    fn abort_ongoing(
        &mut self,
        step: &mut Step<'_>,
        transactional_id: &Arc<str>,
        new_producer_id: Option<ProducerId>,
    ) -> Result<(), ProducerIdNeeded> {
        let Some(transaction) = self.transactions.get(transactional_id) else { return Ok(()) };
        let version = cluster_version(step);
        let prepared = if version.supports_epoch_bump() {
            let next_producer_id = next_producer_id(transaction, new_producer_id)?;
            transaction.prepared(false, version, next_producer_id, step.now_ms)
        } else {
            // The epoch alone fences. It is never given to anybody.
            let fenced = TransactionMetadata {
                producer_epoch: ProducerEpoch(transaction.producer_epoch.0.saturating_add(1)),
                last_producer_epoch: ProducerEpoch::NONE,
                ..transaction.clone()
            };
            fenced.prepared(false, TransactionVersion::V0, ProducerId::NONE, step.now_ms)
        };
        step.effect(markers(transactional_id, &prepared));
        update(transactional_id, Some(prepared), step);
        Ok(())
    }

    /// Partitions become part of a transaction (AddPartitionsToTxn, AddOffsetsToTxn, or the first records of a client
    /// with `transaction.version` 2).
    pub fn add_partitions(
        &mut self,
        step: &mut Step<'_>,
        transactional_id: &Arc<str>,
        producer_id: ProducerId,
        producer_epoch: ProducerEpoch,
        partitions: BTreeSet<TopicPartition>,
        client_version: TransactionVersion,
    ) -> Result<(), ErrorCode> {
        let Some(transaction) = self.transactions.get(transactional_id) else {
            return Err(ErrorCode::InvalidProducerIdMapping);
        };
        if transaction.state.is_prepared() {
            return Err(ErrorCode::ConcurrentTransactions);
        }
        if transaction.producer_id != producer_id {
            return Err(ErrorCode::InvalidProducerIdMapping);
        }
        if transaction.producer_epoch != producer_epoch {
            return Err(ErrorCode::ProducerFenced);
        }
        if transaction.state == TransactionState::Ongoing && partitions.is_subset(&transaction.partitions) {
            return Ok(());
        }
        let ongoing = transaction.with_partitions(partitions, client_version, step.now_ms);
        update(transactional_id, Some(ongoing), step);
        Ok(())
    }

    /// Tells which of the partitions are part of a transaction (AddPartitionsToTxn that only verifies).
    pub fn verify_partitions(
        &self,
        transactional_id: &str,
        producer_id: ProducerId,
        producer_epoch: ProducerEpoch,
        partitions: &BTreeSet<TopicPartition>,
    ) -> Verification {
        let transaction = self.transactions.get(transactional_id).ok_or(ErrorCode::InvalidProducerIdMapping)?;
        if transaction.producer_id != producer_id {
            return Err(ErrorCode::InvalidProducerIdMapping);
        }
        if transaction.producer_epoch != producer_epoch {
            return Err(ErrorCode::ProducerFenced);
        }
        if transaction.state.is_prepared() {
            return Err(ErrorCode::ConcurrentTransactions);
        }
        let verified = |partition: &TopicPartition| {
            let part = transaction.partitions.contains(partition);
            (partition.clone(), if part { ErrorCode::None } else { ErrorCode::TransactionAbortable })
        };
        Ok(partitions.iter().map(verified).collect())
    }

    /// A producer ends its transaction (EndTxn). It is answered when the markers are written, if that does not take long.
    pub fn end_transaction(&mut self, step: &mut Step<'_>, end: &EndTransaction, reply_to: ReplyTo) {
        match self.decide_end(step, end) {
            Ok(prepared) => {
                let answer = if end.client_version.supports_epoch_bump() {
                    let (producer_id, producer_epoch) = prepared.producer_afterwards();
                    EndedTransaction::Ended(producer_id, producer_epoch)
                } else {
                    EndedTransaction::Ended(ProducerId::NONE, ProducerEpoch::NONE)
                };
                step.effect(markers(&end.transactional_id, &prepared));
                update(&end.transactional_id, Some(prepared), step);
                // An earlier one belongs to a transaction that is complete, so there is none.
                self.waiting.insert(end.transactional_id.clone(), Waiting { reply_to, answer });
                self.timers.set(Timer::Reply(end.transactional_id.clone()), step.now + MARKERS_WAIT);
            }
            Err(answer) => step.reply(reply_to, answer),
        }
    }

    /// The decided transaction, or what is answered instead.
    fn decide_end(&self, step: &Step<'_>, end: &EndTransaction) -> Result<TransactionMetadata, EndedTransaction> {
        let refused = |error| Err(EndedTransaction::Refused(error));
        let Some(transaction) = self.transactions.get(&end.transactional_id) else {
            return refused(ErrorCode::InvalidProducerIdMapping);
        };
        if end.client_version.supports_epoch_bump() {
            return decide_end_v2(transaction, step.now_ms, end);
        }
        if transaction.producer_id != end.producer_id {
            return refused(ErrorCode::InvalidProducerIdMapping);
        }
        if transaction.producer_epoch != end.producer_epoch {
            return refused(ErrorCode::ProducerFenced);
        }
        let done = Err(EndedTransaction::Ended(ProducerId::NONE, ProducerEpoch::NONE));
        match (transaction.state, end.committed) {
            (state, _) if state.is_prepared() => refused(ErrorCode::ConcurrentTransactions),
            (TransactionState::Ongoing, _) => {
                Ok(transaction.prepared(end.committed, TransactionVersion::V0, ProducerId::NONE, step.now_ms))
            }
            (TransactionState::CompleteCommit, true) | (TransactionState::CompleteAbort, false) => done,
            (state, _) => refused(invalid_end(end, state)),
        }
    }

    /// The coordinator ends a transaction that took too long. `Ok(false)`: there is nothing to end any more.
    pub fn abort_if_timed_out(&mut self, step: &mut Step<'_>, end: &EndTransaction) -> Result<bool, ProducerIdNeeded> {
        let is_same = self.transactions.get(&end.transactional_id).is_some_and(|transaction| {
            transaction.producer_id == end.producer_id
                && transaction.producer_epoch == end.producer_epoch
                && transaction.state == TransactionState::Ongoing
        });
        if is_same {
            self.abort_ongoing(step, &end.transactional_id, end.new_producer_id)?;
        }
        Ok(is_same)
    }

    /// Markers are written, or not needed any more, since their partitions are gone.
    pub fn markers_written(&mut self, step: &mut Step<'_>, markers: &MarkersToWrite, partitions: &[TopicPartition]) {
        let Some(transaction) = self.transactions.get_mut(&markers.transactional_id) else { return };
        let is_same = transaction.state.is_prepared()
            && transaction.producer_id == markers.producer_id
            && transaction.producer_epoch == markers.producer_epoch;
        if !is_same {
            return;
        }
        for partition in partitions {
            transaction.partitions.remove(partition);
        }
        if transaction.partitions.is_empty() {
            let completed = transaction.completed(step.now_ms);
            update(&markers.transactional_id, Some(completed), step);
            self.answer(&markers.transactional_id, step);
        }
    }

    /// Tells the producer, if it waits.
    fn answer(&mut self, transactional_id: &Arc<str>, step: &mut Step<'_>) {
        if let Some(Waiting { reply_to, answer }) = self.waiting.remove(transactional_id) {
            self.timers.cancel(&Timer::Reply(transactional_id.clone()));
            step.reply(reply_to, answer);
        }
    }

    fn abort_timed_out(&mut self, step: &mut Step<'_>) {
        let version = cluster_version(step);
        for (transactional_id, transaction) in &self.transactions {
            let deadline = transaction.start_timestamp_ms.saturating_add(i64::from(transaction.timeout_ms));
            if transaction.state == TransactionState::Ongoing && transaction.has_timeout() && deadline < step.now_ms {
                step.effect(TransactionEffect::Abort(EndTransaction {
                    transactional_id: transactional_id.clone(),
                    producer_id: transaction.producer_id,
                    producer_epoch: transaction.producer_epoch,
                    committed: false,
                    client_version: version,
                    new_producer_id: None,
                }));
            }
        }
    }

    fn expire(&mut self, step: &mut Step<'_>) {
        let before = step.now_ms.saturating_sub(i64::from(step.config.transactional_id_expiration_ms));
        let expired: Vec<Arc<str>> = self
            .transactions
            .iter()
            .filter(|(_, transaction)| transaction.state.may_expire() && transaction.last_update_timestamp_ms <= before)
            .map(|(transactional_id, _)| transactional_id.clone())
            .collect();
        step.allow_several_batches();
        for transactional_id in &expired {
            update(transactional_id, None, step);
        }
    }

    /// What is known of a transactional id.
    pub fn transaction(&self, transactional_id: &str) -> Option<&TransactionMetadata> {
        self.transactions.get(transactional_id)
    }

    /// The transactions that a filter lets through, by their ids.
    pub fn list(&self, filter: &TransactionFilter, now_ms: i64) -> Vec<(Arc<str>, ProducerId, TransactionState)> {
        let wanted = |(transactional_id, transaction): &(&Arc<str>, &TransactionMetadata)| {
            (filter.producer_ids.is_empty() || filter.producer_ids.contains(&transaction.producer_id))
                && filter.states.as_ref().is_none_or(|states| states.contains(&transaction.state))
                && (filter.duration_ms < 0
                    || now_ms.saturating_sub(transaction.start_timestamp_ms) > filter.duration_ms)
                && filter.pattern.as_ref().is_none_or(|pattern| pattern.is_match(transactional_id))
        };
        self.transactions
            .iter()
            .filter(wanted)
            .map(|(transactional_id, transaction)| {
                (transactional_id.clone(), transaction.producer_id, transaction.state)
            })
            .collect()
    }
}

/// Whether a producer may go on from the id and epoch that it takes for its own.
fn is_valid_expectation(transaction: &TransactionMetadata, expected: (ProducerId, ProducerEpoch)) -> bool {
    let (producer_id, epoch) = expected;
    // Nothing was known of it: it goes on after UNKNOWN_PRODUCER_ID.
    transaction.producer_epoch == ProducerEpoch::NONE
        || producer_id == transaction.producer_id
        // It did not hear of the change of ids that its last epoch led to.
        || (producer_id == transaction.previous_producer_id && is_epoch_exhausted(epoch))
}

/// The epoch that an initialized producer gets, and the one before.
fn next_epoch(
    transaction: &TransactionMetadata,
    expected: Option<ProducerEpoch>,
) -> Result<(ProducerEpoch, ProducerEpoch), ErrorCode> {
    let current = transaction.producer_epoch;
    if transaction.is_epoch_exhausted() {
        // Kafka stumbles here: the epoch that is expected is another one, and this one cannot grow.
        return Err(ErrorCode::UnknownServerError);
    }
    let bumped = ProducerEpoch(current.0 + 1);
    match expected {
        None => Ok((bumped, ProducerEpoch::NONE)),
        Some(expected) if current == ProducerEpoch::NONE || expected == current => Ok((bumped, current)),
        // A retry of a request that succeeded: nobody else was initialized, or the last epoch would not be known.
        Some(expected) if expected == transaction.last_producer_epoch => Ok((current, transaction.last_producer_epoch)),
        Some(_) => Err(ErrorCode::ProducerFenced),
    }
}

/// The id that the producer has after the transaction, if the end of this one takes its last epoch.
fn next_producer_id(
    transaction: &TransactionMetadata,
    new_producer_id: Option<ProducerId>,
) -> Result<ProducerId, ProducerIdNeeded> {
    if transaction.is_epoch_exhausted() { new_producer_id.ok_or(ProducerIdNeeded) } else { Ok(ProducerId::NONE) }
}

fn invalid_end(end: &EndTransaction, state: TransactionState) -> ErrorCode {
    debug!(
        transactional_id = &*end.transactional_id,
        state = state.name(),
        committed = end.committed,
        "a producer ends a transaction that is in another state"
    );
    ErrorCode::InvalidTxnState
}

/// The end of a transaction whose client has an epoch for each of them.
///
/// | state | abort again | abort | commit again | commit |
/// |---|---|---|---|---|
/// | `Empty` | PRODUCER_FENCED | done, new epoch | PRODUCER_FENCED | INVALID_TXN_STATE |
/// | `CompleteAbort` | done before | done, new epoch | INVALID_TXN_STATE | INVALID_TXN_STATE |
/// | `CompleteCommit` | INVALID_TXN_STATE | done, new epoch | done before | INVALID_TXN_STATE |
///
/// *again*: with the epoch before, by a producer that did not hear of the first answer.
fn decide_end_v2(
    transaction: &TransactionMetadata,
    now_ms: i64,
    end: &EndTransaction,
) -> Result<TransactionMetadata, EndedTransaction> {
    let refused = |error| Err(EndedTransaction::Refused(error));
    if transaction.state.is_prepared() {
        return refused(ErrorCode::ConcurrentTransactions);
    }
    let again_after_rotation = transaction.previous_producer_id == end.producer_id
        && end.producer_epoch.0 == i16::MAX - 1
        && transaction.producer_epoch == ProducerEpoch(0);
    let again_after_bump = i32::from(transaction.producer_epoch.0) == i32::from(end.producer_epoch.0) + 1;
    if transaction.producer_id != end.producer_id && !again_after_rotation {
        return refused(ErrorCode::InvalidProducerIdMapping);
    }
    let is_complete = matches!(transaction.state, TransactionState::CompleteCommit | TransactionState::CompleteAbort);
    let is_again = again_after_bump || again_after_rotation;
    if end.producer_epoch != transaction.producer_epoch && !(is_complete && is_again) {
        return refused(ErrorCode::ProducerFenced);
    }
    let done = Err(EndedTransaction::Ended(transaction.producer_id, transaction.producer_epoch));
    match (transaction.state, end.committed) {
        (TransactionState::CompleteCommit, true) | (TransactionState::CompleteAbort, false) if is_again => return done,
        (TransactionState::Ongoing, _) => {}
        (TransactionState::Empty, false) => {}
        (TransactionState::CompleteCommit | TransactionState::CompleteAbort, false) if !is_again => {}
        (state, _) => return refused(invalid_end(end, state)),
    }
    match next_producer_id(transaction, end.new_producer_id) {
        Ok(next_producer_id) => Ok(transaction.prepared(end.committed, end.client_version, next_producer_id, now_ms)),
        Err(ProducerIdNeeded) => Err(EndedTransaction::NeedsProducerId),
    }
}

#[cfg(test)]
mod tests;
