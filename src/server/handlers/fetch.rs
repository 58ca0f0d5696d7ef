//! Fetch (key 1), versions 4 to 18: records from the log, waited for if there are not enough.
//!
//! - v7+: sessions (KIP-227), see [`crate::server::fetch_session`].
//! - v9+: leader epochs fence readers of another leadership (KIP-320); v12+: a diverging log is told where (KIP-595).
//! - v13+: topics by id (KIP-516). v16+: who leads instead (KIP-951).
//!
//! The answer comes at once if `min_bytes` are there, on an error, or without a `max_wait_ms`; otherwise when enough
//! was appended, or when the time is over. Partitions are read in the order of the session; the first that has records
//! gives at least one whole batch, however small the limits are. Records leave as slices of the log's files.
//!
//! A partition that cannot be read from memory is read on a thread that may wait for the disk.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use kafka_protocol::protocol::StrBytes;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, timeout_at};
use tracing::debug;

use crate::net::{ConnectionContext, Reply, Response};
use crate::protocol::fetch::{
    AbortedTransaction, EpochEndOffset, FIRST_TOPIC_ID_VERSION, FetchPartition, FetchRecords, FetchRequest,
    FetchResponse, FetchResponsePartition, FetchResponseTopic,
};
use crate::protocol::{ErrorCode, RequestHeader};
use crate::replica::{
    FetchIsolation, LogSlice, LookupError, Partition, PartitionFetch, PartitionRead, PartitionReadError, ReadError,
    Wait,
};
use crate::server::broker::Broker;
use crate::server::fetch_session::{Answered, FetchContext, INVALID_SESSION_ID, SlotPartition};
use crate::server::handlers;
use crate::server::handlers::leader_hints::LeaderHints;
use crate::server::handlers::partition_errors::{lookup_code, read_code};
use crate::server::request::RequestError;
use crate::types::BrokerId;

/// A fetch of more partitions lets no request behind it start while it waits, as in Kafka none ever does. It takes that
/// much memory, and a connection may have many that wait.
const MAX_PARKED_PARTITIONS: usize = 1000;

/// The request's limits, as far as they hold for all partitions.
#[derive(Clone, Copy)]
struct Limits {
    /// May be negative, and is an error then wherever there is something to read.
    max_bytes: i32,
    min_bytes: usize,
    isolation: FetchIsolation,
    follower: Option<BrokerId>,
}

/// Why a partition has no records to give.
enum Failure {
    /// The metadata did not know it when the request came.
    Lookup(LookupError),
    /// It went while the request waited.
    Gone(LookupError),
    /// The session's topic was deleted, and another one has its name.
    InconsistentTopicId,
    Read(PartitionReadError),
}

/// What one partition said.
struct Outcome {
    slot: usize,
    result: Result<PartitionRead, Failure>,
}

/// A read met the disk, and must be done where that may be waited for.
struct WouldBlock;

pub fn handle(
    broker: &Arc<Broker>,
    connection: &Arc<ConnectionContext>,
    header: RequestHeader,
    mut body: Bytes,
) -> Result<Reply, RequestError> {
    let request = FetchRequest::decode(&mut body, header.api_version)?;
    handlers::note_leftover(&header, &body);
    let uses_topic_ids = header.api_version >= FIRST_TOPIC_ID_VERSION;
    let context = match broker.fetch_sessions.begin(&request, uses_topic_ids, broker.clock.now_ms()) {
        Ok(context) => context,
        Err(error_code) => {
            debug!(
                session_id = request.session_id,
                session_epoch = request.session_epoch,
                ?error_code,
                "fetch session"
            );
            let response = FetchResponse { error_code, session_id: INVALID_SESSION_ID, ..FetchResponse::default() };
            return Ok(Reply::Now(response.encode(&header)?.into()));
        }
    };
    let follower = (request.replica_id.0 >= 0).then_some(request.replica_id);
    let max_bytes = request.max_bytes.min(broker.config.fetch_max_bytes);
    let isolation = FetchIsolation::of(request.replica_id, request.isolation_level);
    let limits = Limits {
        max_bytes,
        min_bytes: request.min_bytes.min(max_bytes).max(0) as usize,
        isolation: isolation.unwrap_or(FetchIsolation::TransactionCommitted),
        follower,
    };
    let mut fetch = PendingFetch {
        broker: broker.clone(),
        connection: connection.clone(),
        header,
        uses_topic_ids,
        context,
        limits,
        has_waited: false,
    };
    let max_wait = Duration::from_millis(request.max_wait_ms.max(0) as u64);
    let collected = fetch.collect(Wait::Never);
    // As in Kafka, the level is only looked at once there is a partition to read.
    if isolation.is_none() && has_partitions(&collected) {
        return Ok(Reply::Now(refuse(&request, &fetch.header)?));
    }
    match collected {
        Ok(outcomes) if max_wait.is_zero() || fetch.is_complete(&outcomes) => Ok(Reply::Now(fetch.answer(outcomes)?)),
        _ => {
            let deadline = Instant::now() + max_wait;
            let is_incremental = fetch.context.is_incremental();
            let partitions = fetch.context.slots().lock().len();
            Ok(waiting(is_incremental, partitions, handlers::answer(async move { fetch.wait(deadline).await })))
        }
    }
}

/// The reply to a fetch that waits.
fn waiting(is_incremental: bool, partitions: usize, answer: BoxFuture<'static, Response>) -> Reply {
    // The session's next request goes on from this answer.
    if is_incremental || partitions > MAX_PARKED_PARTITIONS { Reply::InOrder(answer) } else { Reply::Parked(answer) }
}

/// Whether any of the partitions exists.
fn has_partitions(collected: &Result<Vec<Outcome>, WouldBlock>) -> bool {
    let is_unknown = |outcome: &Outcome| {
        matches!(
            outcome.result,
            Err(Failure::Lookup(LookupError::UnknownTopicId | LookupError::UnknownTopicOrPartition))
        )
    };
    collected.as_ref().is_ok_and(|outcomes| !outcomes.iter().all(is_unknown)) || collected.is_err()
}

/// UNKNOWN_SERVER_ERROR for the request, and before v13 for each of its partitions.
fn refuse(request: &FetchRequest, header: &RequestHeader) -> Result<Response, RequestError> {
    let error_code = ErrorCode::UnknownServerError;
    let mut response =
        FetchResponse::<LogSlice> { error_code, session_id: request.session_id, ..FetchResponse::default() };
    if header.api_version < FIRST_TOPIC_ID_VERSION {
        let failed = |partition: &FetchPartition| FetchResponsePartition {
            aborted_transactions: Some(Vec::new()),
            ..FetchResponsePartition::error(partition.partition, error_code)
        };
        response.topics = request
            .topics()
            .map(|(topic, partitions)| FetchResponseTopic {
                name: topic.name.clone(),
                topic_id: topic.topic_id,
                partitions: partitions.iter().map(failed).collect(),
            })
            .collect();
    }
    Ok(response.encode(header)?.into())
}

/// A partition to be looked at.
struct Candidate {
    slot: usize,
    partition: Result<(Arc<Partition>, PartitionFetch), Failure>,
}

/// A fetch on its way.
struct PendingFetch {
    broker: Arc<Broker>,
    connection: Arc<ConnectionContext>,
    header: RequestHeader,
    uses_topic_ids: bool,
    context: FetchContext,
    limits: Limits,
    has_waited: bool,
}

impl PendingFetch {
    /// Reads what is ready until it is enough or the time is over.
    async fn wait(mut self, deadline: Instant) -> Result<Response, RequestError> {
        let ready = self.context.slots().lock().ready.clone();
        loop {
            let outcomes = match self.collect(Wait::Never) {
                Ok(outcomes) => outcomes,
                Err(WouldBlock) => {
                    let (fetch, collected) = spawn_blocking(move || {
                        let collected = self.collect(Wait::ForDisk);
                        (self, collected)
                    })
                    .await
                    .map_err(|_| RequestError::Cancelled)?;
                    self = fetch;
                    // Nothing blocks a read that may wait.
                    collected.unwrap_or_default()
                }
            };
            if self.is_complete(&outcomes) || Instant::now() >= deadline {
                return self.answer(outcomes);
            }
            // At the end of the time there is one more look, for what nobody was woken for.
            let _ = timeout_at(deadline, ready.changed()).await;
            self.has_waited = true;
            if self.is_superseded() {
                // What it was woken for may be meant for the one that came after it.
                ready.wake();
                return self.answer(Vec::new());
            }
        }
    }

    /// Whether the client has gone on to the session's next request, by another connection.
    fn is_superseded(&self) -> bool {
        match &self.context {
            FetchContext::Incremental { epoch, slots, .. } => slots.lock().is_beyond(*epoch),
            FetchContext::Sessionless(_) | FetchContext::Full(_) => false,
        }
    }

    /// Reads the partitions that changed since the last look and those that had something then.
    fn collect(&mut self, wait: Wait) -> Result<Vec<Outcome>, WouldBlock> {
        // The session is not locked while a disk may be waited for.
        let candidates = self.candidates();
        let mut left = self.limits.max_bytes;
        let mut min_one_batch = true;
        let mut outcomes = Vec::with_capacity(candidates.len());
        for Candidate { slot, partition } in candidates {
            let result = match partition {
                Err(failure) => Err(failure),
                Ok((partition, fetch)) => {
                    let fetch = PartitionFetch { max_bytes: left.min(fetch.max_bytes), min_one_batch, ..fetch };
                    match partition.read(&fetch, wait) {
                        Err(PartitionReadError::Log(ReadError::WouldBlock)) => return Err(WouldBlock),
                        result => result.map_err(Failure::Read),
                    }
                }
            };
            if let Ok(read) = &result {
                left = left.saturating_sub(read.records.len() as i32).max(0);
                // The first partition with records has gone beyond the limits if it had to; the others may not.
                min_one_batch &= read.records.is_empty();
            }
            outcomes.push(Outcome { slot, result });
        }
        Ok(outcomes)
    }

    /// The partitions to look at, each being watched from now on, so that nothing is missed between that look and the
    /// next.
    fn candidates(&self) -> Vec<Candidate> {
        let mut slots = self.context.slots().lock();
        let ready = slots.ready.clone();
        let candidates = slots.candidates();
        let candidate = |slot| {
            let wanted = slots.get_mut(slot)?;
            let partition = self.find(wanted).map(|partition| {
                wanted.resolved = Some(partition.topic_partition().topic.clone());
                if !wanted.watch.as_ref().is_some_and(|watch| watch.is_of(&partition)) {
                    wanted.watch = Some(partition.watch(ready.clone(), slot));
                }
                let fetch = PartitionFetch {
                    fetch_offset: wanted.fetch_offset,
                    max_bytes: wanted.max_bytes,
                    min_one_batch: false,
                    isolation: self.limits.isolation,
                    follower: self.limits.follower,
                    current_leader_epoch: wanted.current_leader_epoch,
                    last_fetched_epoch: wanted.last_fetched_epoch,
                };
                (partition, fetch)
            });
            if partition.is_err() {
                wanted.watch = None;
            }
            Some(Candidate { slot, partition })
        };
        candidates.into_iter().filter_map(candidate).collect()
    }

    /// The partition; a topic that was once found by its id is known by its name from then on, as in Kafka.
    fn find(&self, wanted: &SlotPartition) -> Result<Arc<Partition>, Failure> {
        let replicas = &self.broker.replicas;
        let found = if self.uses_topic_ids {
            replicas.partition_by_id(wanted.topic_id, wanted.partition)
        } else {
            replicas.partition(&wanted.topic, wanted.partition)
        };
        found.map_err(|error| match (error, &wanted.resolved) {
            (LookupError::UnknownTopicId, Some(name)) => match replicas.partition(name, wanted.partition) {
                Ok(_) => Failure::InconsistentTopicId,
                Err(error) => self.lookup_failure(wanted, error),
            },
            _ => self.lookup_failure(wanted, error),
        })
    }

    fn lookup_failure(&self, wanted: &SlotPartition, error: LookupError) -> Failure {
        let was_there = self.has_waited && wanted.watch.is_some();
        if was_there { Failure::Gone(error) } else { Failure::Lookup(error) }
    }

    /// Whether there is no reason to wait any longer.
    fn is_complete(&self, outcomes: &[Outcome]) -> bool {
        let mut bytes = 0;
        let mut unknown = 0;
        for outcome in outcomes {
            match &outcome.result {
                Ok(read) if read.diverging_epoch.is_some() => return true,
                Ok(read) => bytes += read.records.len(),
                Err(Failure::Lookup(LookupError::UnknownTopicId | LookupError::UnknownTopicOrPartition)) => {
                    unknown += 1
                }
                Err(_) => return true,
            }
        }
        // Partitions that do not exist do not end a wait for those that do.
        bytes >= self.limits.min_bytes || unknown == self.context.slots().lock().len()
    }

    /// Writes the answer, and notes what was told.
    fn answer(self, outcomes: Vec<Outcome>) -> Result<Response, RequestError> {
        let mut response = FetchResponse::default();
        let version = self.header.api_version;
        let incremental = self.context.is_incremental();
        let image = self.broker.image();
        let mut hints = LeaderHints::new(&image, version >= 16);
        {
            let mut slots = self.context.slots().lock();
            if let FetchContext::Incremental { id, epoch, .. } = self.context {
                response.session_id = id;
                if slots.is_beyond(epoch) {
                    response.error_code = ErrorCode::InvalidFetchSessionEpoch;
                    return Ok(response.encode(&self.header)?.into());
                }
            }
            let mut stay = Vec::new();
            for outcome in in_order_of_answer(outcomes) {
                let slot = outcome.slot;
                let stays_ready = match &outcome.result {
                    Ok(read) => read.has_more || read.diverging_epoch.is_some(),
                    Err(_) => true,
                };
                if stays_ready {
                    stay.push(slot);
                }
                let Some(wanted) = slots.get(slot) else { continue };
                let partition = answer_partition(wanted, outcome, version, &mut hints);
                let answered = Answered {
                    has_records: !partition.records.is_empty(),
                    high_watermark: partition.high_watermark,
                    log_start_offset: partition.log_start_offset,
                    must_tell: partition.diverging_epoch.is_some(),
                    is_error: partition.error_code != ErrorCode::None,
                };
                let topic = (wanted.topic.clone(), wanted.topic_id);
                if slots.answered(slot, &answered) || !incremental {
                    push(&mut response, topic, partition);
                }
            }
            slots.settle(stay);
        }
        if let FetchContext::Full(slots) = &self.context {
            let now_ms = self.broker.clock.now_ms();
            let privileged = self.limits.follower.is_some();
            response.session_id =
                self.broker.fetch_sessions.create(slots.clone(), self.uses_topic_ids, privileged, now_ms);
        }
        // Followers find leaders in the metadata.
        if self.limits.follower.is_none() {
            response.node_endpoints = hints.into_endpoints(|leader| self.broker.addresses.of(leader, &self.connection));
        }
        Ok(response.encode(&self.header)?.into())
    }
}

/// As Kafka answers: what could be read, then partitions of unknown topic ids, then other partitions that do not exist.
fn in_order_of_answer(mut outcomes: Vec<Outcome>) -> Vec<Outcome> {
    outcomes.sort_by_key(|outcome| match &outcome.result {
        Err(Failure::Lookup(LookupError::UnknownTopicId)) => 1,
        Err(Failure::Lookup(LookupError::UnknownTopicOrPartition)) => 2,
        _ => 0,
    });
    outcomes
}

/// Adds a partition to the topic at the end of the response, or to a new one.
fn push(
    response: &mut FetchResponse<LogSlice>,
    (topic, topic_id): (crate::types::TopicName, crate::types::TopicId),
    partition: FetchResponsePartition<LogSlice>,
) {
    match response.topics.last_mut() {
        Some(last) if last.topic_id == topic_id && last.name.as_str() == &*topic => last.partitions.push(partition),
        _ => response.topics.push(FetchResponseTopic {
            name: StrBytes::from_string(topic.to_string()),
            topic_id,
            partitions: vec![partition],
        }),
    }
}

fn answer_partition(
    wanted: &SlotPartition,
    outcome: Outcome,
    version: i16,
    hints: &mut LeaderHints<'_>,
) -> FetchResponsePartition<LogSlice> {
    let read = match outcome.result {
        Ok(read) => read,
        Err(failure) => {
            if let Failure::Lookup(LookupError::UnknownTopicId | LookupError::UnknownTopicOrPartition) = failure {
                let answer = FetchResponsePartition::error(wanted.partition, error_code(&failure));
                return FetchResponsePartition { aborted_transactions: Some(Vec::new()), ..answer };
            }
            let error_code = match error_code(&failure) {
                // v6+: KAFKA_STORAGE_ERROR; older clients refresh their metadata upon this.
                ErrorCode::KafkaStorageError if version < 6 => ErrorCode::NotLeaderOrFollower,
                code => code,
            };
            let mut answer = FetchResponsePartition::error(wanted.partition, error_code);
            if matches!(error_code, ErrorCode::NotLeaderOrFollower | ErrorCode::FencedLeaderEpoch) {
                answer.current_leader = hints.of(&wanted.topic, wanted.topic_id, wanted.partition);
            }
            return answer;
        }
    };
    let length = read.records.len();
    FetchResponsePartition {
        partition: wanted.partition,
        error_code: ErrorCode::None,
        high_watermark: read.high_watermark,
        last_stable_offset: read.last_stable_offset,
        log_start_offset: read.log_start_offset,
        aborted_transactions: read.aborted_transactions.map(|aborted| {
            aborted
                .into_iter()
                .map(|aborted| AbortedTransaction {
                    producer_id: aborted.producer_id,
                    first_offset: aborted.first_offset,
                })
                .collect()
        }),
        preferred_read_replica: BrokerId(-1),
        records: if length == 0 { FetchRecords::Empty } else { FetchRecords::File { slice: read.records, length } },
        diverging_epoch: read
            .diverging_epoch
            .map(|end| EpochEndOffset { epoch: end.leader_epoch, end_offset: end.end_offset }),
        current_leader: None,
        snapshot_id: None,
    }
}

fn error_code(failure: &Failure) -> ErrorCode {
    match failure {
        Failure::Lookup(error) | Failure::Gone(error) => lookup_code(*error),
        Failure::InconsistentTopicId => ErrorCode::InconsistentTopicId,
        Failure::Read(error) => read_code(error),
    }
}

#[cfg(test)]
mod tests;
