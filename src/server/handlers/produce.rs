//! Produce (key 0), versions 3 to 13: appends one batch to each partition.
//!
//! - Versions 0 to 2 are advertised, for old librdkafka looks for them (KAFKA-18659), and close the connection.
//! - v7+: zstd (KIP-110); v8+: which records were refused (KIP-467); v10+: who leads instead
//!   (KIP-951); v13+: topics by id (KIP-516).
//!
//! The append is done when this returns; only the acknowledgement may wait: with acks=all for the high watermark, with
//! `flush.messages` for the disk. acks=0 is never answered, but an error closes the connection. A partition that is
//! named twice gets the last of its records, and one answer, as in Kafka. Nothing is created here: a topic that does
//! not exist is an error.
//!
//! Records of a transaction are taken once its coordinator says that their partition is part of it; from v12 on it
//! becomes so by being written to (KIP-890). Only the first records of a transaction in a partition must wait for that.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use kafka_protocol::protocol::StrBytes;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep, timeout_at};
use tracing::{debug, info};

use crate::coordinator::transaction::coordinator::TransactionSupport;
use crate::net::{CloseReason, ConnectionContext, Reply, Response};
use crate::protocol::produce::{
    FIRST_TOPIC_ID_VERSION, ProduceRequest, ProduceResponse, ProduceResponsePartition, ProduceResponseTopic,
    RecordError,
};
use crate::protocol::{ErrorCode, RequestHeader};
use crate::record::produced::{ProducedError, produced_batch};
use crate::replica::{
    AppendError, LeaderError, LookupError, Partition, PartitionAppendError, ProducerStateError, Reached, RequiredAcks,
    ValidateError, VerificationGuard, VerifiedProducer,
};
use crate::server::broker::Broker;
use crate::server::handlers;
use crate::server::handlers::leader_hints::LeaderHints;
use crate::server::handlers::partition_errors::lookup_code;
use crate::server::request::RequestError;
use crate::server::topics::is_internal;
use crate::types::{PartitionId, ProducerEpoch, ProducerId, TopicId, TopicPartition};

/// The only client that may write to internal topics (Kafka's AdminUtils).
const ADMIN_CLIENT_ID: &str = "__admin_client";

/// A topic as the request names it: by id from v13.
#[derive(Clone, PartialEq, Eq, Hash)]
struct TopicKey {
    name: StrBytes,
    id: TopicId,
}

/// What is to be appended to one partition.
struct Entry {
    /// Index into [`Entries::topics`].
    topic: usize,
    partition: PartitionId,
    records: Option<Bytes>,
    verification: Verification,
}

/// What the coordinator of a transaction says of records.
enum Verification {
    /// Nothing: they are of no transaction, or of one that has records in the partition.
    NotNeeded,
    Verified(VerificationGuard),
    Failed {
        code: ErrorCode,
        message: Option<StrBytes>,
    },
}

/// The request, with each topic and each partition once.
struct Entries {
    topics: Vec<TopicKey>,
    entries: Vec<Entry>,
}

/// An answer that may still have to wait.
struct Answer {
    topic: usize,
    partition: ProduceResponsePartition,
    wait: Option<oneshot::Receiver<Reached>>,
}

pub fn handle(
    broker: &Arc<Broker>,
    connection: &Arc<ConnectionContext>,
    header: RequestHeader,
    mut body: Bytes,
) -> Result<Reply, RequestError> {
    if header.api_version < 3 {
        return Err(RequestError::Refused("Produce before version 3"));
    }
    let request = ProduceRequest::decode(&mut body, header.api_version)?;
    handlers::note_leftover(&header, &body);
    let deadline = Instant::now() + Duration::from_millis(request.timeout_ms.max(0) as u64);
    let Entries { topics, mut entries } = Entries::of(&request);
    let refusal = match transaction_of(&request, header.api_version) {
        Ok(None) => None,
        Err(refusal) => Some(refusal),
        Ok(Some(transaction)) => {
            let unverified = start_verification(broker, &header, &topics, &mut entries);
            if !unverified.is_empty() {
                // The next request of the connection may hold the records behind these.
                let (broker, connection) = (broker.clone(), connection.clone());
                return Ok(Reply::InOrder(handlers::answer(async move {
                    verify(&broker, &header, &transaction, unverified, &mut entries).await;
                    let work = Work { request, topics, entries, refusal: None, deadline };
                    match append_all(&broker, &connection, header, work)? {
                        Appended::Answered(response) => Ok(response),
                        Appended::Waiting(waiting) => waiting.await,
                        Appended::Silent => Ok(Response::empty()),
                        Appended::Failed => Ok(Response::empty().then_close(CloseReason::new(ACKS_0_FAILED))),
                    }
                })));
            }
            None
        }
    };
    let work = Work { request, topics, entries, refusal, deadline };
    Ok(match append_all(broker, connection, header, work)? {
        Appended::Answered(response) => Reply::Now(response),
        Appended::Waiting(waiting) => Reply::Parked(handlers::answer(waiting)),
        Appended::Silent => Reply::None,
        Appended::Failed => Reply::Close(CloseReason::new(ACKS_0_FAILED)),
    })
}

const ACKS_0_FAILED: &str = "produce with acks=0 failed";

/// A request that may be carried out.
struct Work {
    request: ProduceRequest,
    topics: Vec<TopicKey>,
    entries: Vec<Entry>,
    refusal: Option<Refusal>,
    deadline: Instant,
}

/// What comes of a request.
enum Appended {
    Answered(Response),
    Waiting(BoxFuture<'static, Result<Response, RequestError>>),
    /// acks=0
    Silent,
    /// With acks=0, which has no other way to say so than to end the connection.
    Failed,
}

/// Appends to each partition.
fn append_all(
    broker: &Arc<Broker>,
    connection: &Arc<ConnectionContext>,
    header: RequestHeader,
    work: Work,
) -> Result<Appended, RequestError> {
    let Work { request, topics, entries, refusal, deadline } = work;
    let answers: Vec<Answer> = entries
        .into_iter()
        .map(|entry| append(broker, &header, &request, &topics[entry.topic], entry, refusal.as_ref()))
        .collect();

    if request.acks == 0 {
        let error = answers.iter().map(|answer| answer.partition.error_code).find(|&code| code != ErrorCode::None);
        let Some(error) = error else { return Ok(Appended::Silent) };
        info!(client = header.client_id(), %connection, ?error,
            "closing the connection: a produce request with acks=0 failed");
        return Ok(Appended::Failed);
    }
    if answers.iter().all(|answer| answer.wait.is_none()) {
        return Ok(Appended::Answered(respond(broker, connection, &header, topics, answers)?));
    }
    let (broker, connection) = (broker.clone(), connection.clone());
    Ok(Appended::Waiting(Box::pin(async move {
        let mut answers = answers;
        for answer in &mut answers {
            acknowledged(answer, deadline).await;
        }
        respond(&broker, &connection, &header, topics, answers)
    })))
}

impl Entries {
    fn of(request: &ProduceRequest) -> Entries {
        let mut topics = Vec::with_capacity(request.topics().len());
        let mut entries: Vec<Entry> = Vec::with_capacity(request.partition_count());
        // One partition, the usual case, needs no look for a second entry of the same.
        let single = request.partition_count() <= 1;
        let mut topic_index = HashMap::new();
        let mut entry_index = HashMap::new();
        for (topic, partitions) in request.topics().filter(|(_, partitions)| !partitions.is_empty()) {
            let key = TopicKey { name: topic.name.clone(), id: topic.topic_id };
            let topic = if single {
                topics.push(key);
                topics.len() - 1
            } else {
                *topic_index.entry(key).or_insert_with_key(|key| {
                    topics.push(key.clone());
                    topics.len() - 1
                })
            };
            for partition in partitions {
                let entry = Entry {
                    topic,
                    partition: partition.partition,
                    records: partition.records.clone(),
                    verification: Verification::NotNeeded,
                };
                if single {
                    entries.push(entry);
                    continue;
                }
                let at = *entry_index.entry((topic, partition.partition)).or_insert(entries.len());
                match entries.get_mut(at) {
                    Some(earlier) => *earlier = entry,
                    None => entries.push(entry),
                }
            }
        }
        Entries { topics, entries }
    }
}

/// The error of every partition, where the request is wrong as a whole.
struct Refusal {
    code: ErrorCode,
    message: Option<StrBytes>,
}

/// The transaction that a request's records belong to.
struct Transaction {
    transactional_id: Arc<str>,
    producer_id: ProducerId,
    producer_epoch: ProducerEpoch,
}

/// Looks over all records before any is taken.
fn transaction_of(request: &ProduceRequest, version: i16) -> Result<Option<Transaction>, Refusal> {
    let mut producers: Vec<(ProducerId, ProducerEpoch)> = Vec::new();
    for records in
        request.topics().flat_map(|(_, partitions)| partitions).filter_map(|partition| partition.records.as_ref())
    {
        match produced_batch(records, version) {
            Ok(batch) if batch.is_transactional() => {
                let producer = (batch.producer_id(), batch.producer_epoch());
                // A second one is all there is to know.
                if producers.len() < 2 && !producers.contains(&producer) {
                    producers.push(producer);
                }
            }
            Ok(_) => {}
            Err(ProducedError::Request(error)) => {
                let message = Some(StrBytes::from_string(error.to_string()));
                return Err(Refusal { code: ErrorCode::CorruptMessage, message });
            }
            Err(ProducedError::UnreadableRequest(_)) => {
                return Err(Refusal { code: ErrorCode::UnknownServerError, message: None });
            }
            Err(_) => {}
        }
    }
    let refused = |code| Err(Refusal { code, message: None });
    let two_producers = "Transactional records contained more than one producer ID";
    match (&producers[..], &request.transactional_id) {
        ([], _) => Ok(None),
        (_, None) => refused(ErrorCode::TransactionalIdAuthorizationFailed),
        ([(producer_id, producer_epoch)], Some(transactional_id)) => Ok(Some(Transaction {
            transactional_id: transactional_id.as_str().into(),
            producer_id: *producer_id,
            producer_epoch: *producer_epoch,
        })),
        (_, Some(_)) => Err(Refusal {
            code: ErrorCode::InvalidProducerIdMapping,
            message: Some(StrBytes::from_static_str(two_producers)),
        }),
    }
}

/// Finds the entries that the transaction's coordinator must be asked about, by their places.
fn start_verification(
    broker: &Broker,
    header: &RequestHeader,
    topics: &[TopicKey],
    entries: &mut [Entry],
) -> Vec<(usize, TopicPartition)> {
    let support = TransactionSupport::of_produce(header.api_version);
    let supports_epoch_bump = support == TransactionSupport::AddPartitions;
    if !supports_epoch_bump && !broker.settings.load().current().transaction_partition_verification_enable {
        return Vec::new();
    }
    let mut unverified = Vec::new();
    for (at, entry) in entries.iter_mut().enumerate() {
        let Some(Ok(batch)) = entry.records.as_ref().map(|records| produced_batch(records, header.api_version)) else {
            continue;
        };
        // An error of the lookup is told when the records would be appended.
        let Ok(partition) = find(broker, header, &topics[entry.topic], entry.partition) else { continue };
        if !batch.is_transactional() {
            continue;
        }
        let producer = VerifiedProducer {
            producer_id: batch.producer_id(),
            producer_epoch: batch.producer_epoch(),
            base_sequence: batch.base_sequence(),
            supports_epoch_bump,
        };
        match partition.start_verification(&producer, broker.clock.now_ms()) {
            Ok(None) => {}
            Ok(Some(guard)) => {
                entry.verification = Verification::Verified(guard);
                unverified.push((at, partition.topic_partition().clone()));
            }
            Err(error) => {
                let mut answer = ProduceResponsePartition::error(entry.partition, ErrorCode::None);
                let code = describe_failure(&mut answer, &partition, &error);
                entry.verification = Verification::Failed { code, message: None };
            }
        }
    }
    unverified
}

/// Asks the transaction's coordinator, and notes of each entry what it says.
async fn verify(
    broker: &Broker,
    header: &RequestHeader,
    transaction: &Transaction,
    unverified: Vec<(usize, TopicPartition)>,
    entries: &mut [Entry],
) {
    let support = TransactionSupport::of_produce(header.api_version);
    let partitions: BTreeSet<TopicPartition> = unverified.iter().map(|(_, partition)| partition.clone()).collect();
    let settings = broker.settings.load().current().clone();
    let millis = |ms: i32| Duration::from_millis(ms.max(0) as u64);
    let give_up =
        Instant::now() + millis(settings.add_partitions_to_txn_retry_backoff_max_ms.min(settings.request_timeout_ms));
    let errors = loop {
        let Transaction { transactional_id, producer_id, producer_epoch } = transaction;
        let asked = broker.transactions.add_or_verify(
            transactional_id,
            *producer_id,
            *producer_epoch,
            partitions.clone(),
            support,
        );
        let errors = asked.await;
        // The markers of the transaction before are being written: sooner done than the client asks again.
        let is_passing = support == TransactionSupport::AddPartitions
            && errors.values().any(|error| *error == ErrorCode::ConcurrentTransactions);
        if !is_passing || Instant::now() >= give_up {
            break errors;
        }
        sleep(millis(settings.add_partitions_to_txn_retry_backoff_ms)).await;
    };
    for (at, partition) in unverified {
        if let Some(error) = errors.get(&partition) {
            entries[at].verification = unverifiable(*error, support);
        }
    }
}

/// The coordinator's error in the words of Produce, as old clients know them.
fn unverifiable(error: ErrorCode, support: TransactionSupport) -> Verification {
    let failed = |code, message: String| Verification::Failed { code, message: Some(StrBytes::from_string(message)) };
    match error {
        ErrorCode::InvalidTxnState => failed(error, "Partition was not added to the transaction".to_owned()),
        ErrorCode::ConcurrentTransactions if support == TransactionSupport::AddPartitions => {
            Verification::Failed { code: error, message: None }
        }
        ErrorCode::NetworkException
        | ErrorCode::CoordinatorLoadInProgress
        | ErrorCode::CoordinatorNotAvailable
        | ErrorCode::NotCoordinator
        | ErrorCode::ConcurrentTransactions => {
            let text = "Unable to verify the partition has been added to the transaction. Underlying error: ";
            failed(ErrorCode::NotEnoughReplicas, format!("{text}{}", error.name()))
        }
        code => Verification::Failed { code, message: None },
    }
}

fn find(
    broker: &Broker,
    header: &RequestHeader,
    topic: &TopicKey,
    partition: PartitionId,
) -> Result<Arc<Partition>, LookupError> {
    if header.api_version >= FIRST_TOPIC_ID_VERSION {
        broker.replicas.partition_by_id(topic.id, partition)
    } else {
        broker.replicas.partition(&topic.name, partition)
    }
}

/// Appends to one partition; every error becomes part of the answer.
fn append(
    broker: &Broker,
    header: &RequestHeader,
    request: &ProduceRequest,
    topic: &TopicKey,
    entry: Entry,
    refusal: Option<&Refusal>,
) -> Answer {
    let mut answer = Answer {
        topic: entry.topic,
        partition: ProduceResponsePartition::error(entry.partition, ErrorCode::None),
        wait: None,
    };
    let failed = |mut answer: Answer, code: ErrorCode| {
        debug!(topic = %topic.name, id = %topic.id, partition = %entry.partition, ?code, client = header.client_id(),
            "produce failed");
        answer.partition.error_code = code;
        answer
    };
    if let Some(refusal) = refusal {
        answer.partition.error_message = refusal.message.clone();
        return failed(answer, refusal.code);
    }
    let found = find(broker, header, topic, entry.partition);
    if let Err(error @ (LookupError::UnknownTopicId | LookupError::UnknownTopicOrPartition)) = found {
        return failed(answer, lookup_code(error));
    }
    let records = match check_records(header.api_version, entry.records) {
        Ok(records) => records,
        Err(code) => return failed(answer, code),
    };
    let guard = match entry.verification {
        Verification::NotNeeded => None,
        Verification::Verified(guard) => Some(guard),
        Verification::Failed { code, message } => {
            answer.partition.error_message = message;
            return failed(answer, code);
        }
    };
    let acks = match request.acks {
        0 | 1 => RequiredAcks::Leader,
        -1 => RequiredAcks::AllInSync,
        _ => return failed(answer, ErrorCode::InvalidRequiredAcks),
    };
    let partition = match found {
        Ok(partition) => partition,
        Err(error) => return failed(answer, lookup_code(error)),
    };
    if is_internal(&partition.topic_partition().topic) && header.client_id() != ADMIN_CLIENT_ID {
        return failed(answer, ErrorCode::InvalidTopicException);
    }
    match partition.append_verified(records, acks, guard, broker.clock.now_ms()) {
        Ok(appended) => {
            answer.partition.base_offset = appended.info.first_offset;
            answer.partition.log_append_time_ms = appended.info.log_append_time_ms.unwrap_or(-1);
            answer.partition.log_start_offset = appended.info.log_start_offset;
            answer.wait = appended.wait;
            answer
        }
        Err(error) => {
            let code = describe_failure(&mut answer.partition, &partition, &error);
            failed(answer, code)
        }
    }
}

/// Kafka's checks by the version of the request.
fn check_records(version: i16, records: Option<Bytes>) -> Result<Bytes, ErrorCode> {
    // Kafka never answers a request with null records, nor does anything else with it.
    let records = records.ok_or(ErrorCode::InvalidRecord)?;
    match produced_batch(&records, version) {
        Ok(_) => Ok(records),
        Err(error) => Err(match error {
            ProducedError::Request(_) | ProducedError::Corrupt(_) => ErrorCode::CorruptMessage,
            ProducedError::UnreadableRequest(_) | ProducedError::Unreadable => ErrorCode::UnknownServerError,
            ProducedError::NoBatch
            | ProducedError::OldFormat
            | ProducedError::MoreThanOneBatch
            | ProducedError::BaseOffset => ErrorCode::InvalidRecord,
            ProducedError::ZstdBeforeVersion7 => ErrorCode::UnsupportedCompressionType,
        }),
    }
}

/// Fills in what Kafka tells besides the code: the faulty records, and the log start offset upon errors that are not
/// part of the normal life of a producer.
fn describe_failure(
    answer: &mut ProduceResponsePartition,
    partition: &Partition,
    error: &PartitionAppendError,
) -> ErrorCode {
    let (code, tells_log_start) = match error {
        PartitionAppendError::Leader(error) => match error {
            LeaderError::NotLeaderOrFollower => (ErrorCode::NotLeaderOrFollower, false),
            LeaderError::FencedLeaderEpoch => (ErrorCode::FencedLeaderEpoch, true),
            LeaderError::UnknownLeaderEpoch => (ErrorCode::UnknownLeaderEpoch, true),
            LeaderError::Offline => (ErrorCode::KafkaStorageError, false),
        },
        PartitionAppendError::NotEnoughReplicas { .. } => (ErrorCode::NotEnoughReplicas, true),
        PartitionAppendError::Invalid(error) => match error {
            ValidateError::Corrupt(_) => (ErrorCode::CorruptMessage, false),
            ValidateError::TooLarge(_) => (ErrorCode::MessageTooLarge, false),
            ValidateError::InvalidRecord { .. } => (ErrorCode::InvalidRecord, true),
            ValidateError::InvalidTimestamp { .. } => (ErrorCode::InvalidTimestamp, true),
            ValidateError::UnsupportedForMessageFormat(_) => (ErrorCode::UnsupportedForMessageFormat, true),
            ValidateError::Unreadable(_) | ValidateError::OffsetsOutOfOrder(_) => (ErrorCode::UnknownServerError, true),
        },
        PartitionAppendError::Log(error) => match error {
            AppendError::LargerThanSegment { .. } => (ErrorCode::RecordListTooLarge, false),
            AppendError::NoRoom(_) | AppendError::Io(_) | AppendError::Offline => (ErrorCode::KafkaStorageError, false),
            AppendError::UnexpectedOffset { .. } => (ErrorCode::UnknownServerError, true),
            AppendError::Producer(error) => (producer_code(error), true),
        },
    };
    if tells_log_start {
        answer.log_start_offset = partition.log_start_offset();
    }
    if let PartitionAppendError::Invalid(error) = error {
        answer.error_message = error.wire_message().map(|message| StrBytes::from_string(message.to_owned()));
        if let ValidateError::InvalidRecord { record_errors, .. }
        | ValidateError::InvalidTimestamp { record_errors, .. } = error
        {
            answer.record_errors = record_errors
                .iter()
                .map(|error| RecordError {
                    batch_index: error.batch_index,
                    message: Some(StrBytes::from_string(error.message.clone())),
                })
                .collect();
        }
    }
    code
}

fn producer_code(error: &ProducerStateError) -> ErrorCode {
    match error {
        ProducerStateError::OutOfOrderSequence { .. } => ErrorCode::OutOfOrderSequenceNumber,
        ProducerStateError::InvalidProducerEpoch { .. } => ErrorCode::InvalidProducerEpoch,
        ProducerStateError::InvalidTxnState { .. } => ErrorCode::InvalidTxnState,
        ProducerStateError::CoordinatorFenced { .. } => ErrorCode::TransactionCoordinatorFenced,
    }
}

/// Waits for what the acknowledgement needs.
async fn acknowledged(answer: &mut Answer, deadline: Instant) {
    let Some(wait) = answer.wait.take() else { return };
    // With an error, too, the records are where the answer says, as in Kafka.
    answer.partition.error_code = match timeout_at(deadline, wait).await {
        Ok(Ok(Reached::Yes)) => ErrorCode::None,
        Ok(Ok(Reached::Never) | Err(_)) => ErrorCode::NotLeaderOrFollower,
        Err(_) => ErrorCode::RequestTimedOut,
    };
}

fn respond(
    broker: &Broker,
    connection: &ConnectionContext,
    header: &RequestHeader,
    topics: Vec<TopicKey>,
    answers: Vec<Answer>,
) -> Result<Response, RequestError> {
    let mut response = ProduceResponse {
        topics: topics
            .into_iter()
            .map(|key| ProduceResponseTopic { name: key.name, topic_id: key.id, partitions: Vec::new() })
            .collect(),
        ..ProduceResponse::default()
    };
    let is_misdirected = |answer: &Answer| answer.partition.error_code == ErrorCode::NotLeaderOrFollower;
    if header.api_version >= 10 && answers.iter().any(is_misdirected) {
        let image = broker.image();
        let mut hints = LeaderHints::new(&image, true);
        for mut answer in answers {
            let topic = &mut response.topics[answer.topic];
            if is_misdirected(&answer) {
                answer.partition.current_leader = hints.of(&topic.name, topic.topic_id, answer.partition.partition);
            }
            topic.partitions.push(answer.partition);
        }
        response.node_endpoints = hints.into_endpoints(|leader| broker.addresses.of(leader, connection));
    } else {
        for answer in answers {
            response.topics[answer.topic].partitions.push(answer.partition);
        }
    }
    Ok(response.encode(header)?.into())
}

#[cfg(test)]
mod tests;
