//! Produce (key 0), versions 3 to 13: appends one batch to each partition.
//!
//! - Versions 0 to 2 are advertised, for old librdkafka looks for them (KAFKA-18659), and close the connection.
//! - v4+: KAFKA_STORAGE_ERROR; v7+: zstd (KIP-110); v8+: which records were refused (KIP-467); v10+: who leads instead
//!   (KIP-951); v13+: topics by id (KIP-516).
//!
//! The append is done when this returns; only the acknowledgement may wait: with acks=all for the high watermark, with
//! `flush.messages` for the disk. acks=0 is never answered, but an error closes the connection. A partition that is
//! named twice gets the last of its records, and one answer, as in Kafka. Nothing is created here: a topic that does
//! not exist is an error.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use kafka_protocol::protocol::StrBytes;
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};
use tracing::{debug, info};

use crate::net::{CloseReason, ConnectionContext, Reply, Response};
use crate::protocol::produce::{
    FIRST_TOPIC_ID_VERSION, ProduceRequest, ProduceResponse, ProduceResponsePartition, ProduceResponseTopic,
    RecordError,
};
use crate::protocol::{ErrorCode, RequestHeader};
use crate::record::produced::{ProducedError, produced_batch};
use crate::replica::{
    AppendError, LeaderError, LookupError, Partition, PartitionAppendError, ProducerStateError, Reached, RequiredAcks,
    ValidateError,
};
use crate::server::broker::Broker;
use crate::server::handlers;
use crate::server::handlers::leader_hints::LeaderHints;
use crate::server::handlers::partition_errors::lookup_code;
use crate::server::request::RequestError;
use crate::server::topics::is_internal;
use crate::types::{PartitionId, TopicId};

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
    let Entries { topics, entries } = Entries::of(&request);
    let refusal = refuse_all(&request, header.api_version);
    let answers: Vec<Answer> = entries
        .into_iter()
        .map(|entry| append(broker, &header, &request, &topics[entry.topic], entry, refusal.as_ref()))
        .collect();

    if request.acks == 0 {
        let error = answers.iter().map(|answer| answer.partition.error_code).find(|&code| code != ErrorCode::None);
        return Ok(match error {
            Some(error) => {
                info!(client = header.client_id(), %connection, ?error,
                    "closing the connection: a produce request with acks=0 failed");
                Reply::Close(CloseReason::new("produce with acks=0 failed"))
            }
            None => Reply::None,
        });
    }
    if answers.iter().all(|answer| answer.wait.is_none()) {
        return Ok(Reply::Now(respond(broker, connection, &header, topics, answers)?));
    }
    let (broker, connection) = (broker.clone(), connection.clone());
    Ok(Reply::Parked(handlers::answer(async move {
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
                let entry = Entry { topic, partition: partition.partition, records: partition.records.clone() };
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

fn refuse_all(request: &ProduceRequest, version: i16) -> Option<Refusal> {
    let mut transactional = false;
    for records in
        request.topics().flat_map(|(_, partitions)| partitions).filter_map(|partition| partition.records.as_ref())
    {
        match produced_batch(records, version) {
            Ok(batch) => transactional |= batch.is_transactional(),
            Err(ProducedError::Request(error)) => {
                let message = Some(StrBytes::from_string(error.to_string()));
                return Some(Refusal { code: ErrorCode::CorruptMessage, message });
            }
            Err(ProducedError::UnreadableRequest(_)) => {
                return Some(Refusal { code: ErrorCode::UnknownServerError, message: None });
            }
            Err(_) => {}
        }
    }
    let code = match (transactional, &request.transactional_id) {
        (false, _) => return None,
        (true, None) => ErrorCode::TransactionalIdAuthorizationFailed,
        // Kafka's answer while the coordinator cannot be asked whether the partition is part of the transaction.
        (true, Some(_)) => ErrorCode::NotEnoughReplicas,
    };
    Some(Refusal { code, message: None })
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
    let found = if header.api_version >= FIRST_TOPIC_ID_VERSION {
        broker.replicas.partition_by_id(topic.id, entry.partition)
    } else {
        broker.replicas.partition(&topic.name, entry.partition)
    };
    if let Err(error @ (LookupError::UnknownTopicId | LookupError::UnknownTopicOrPartition)) = found {
        return failed(answer, lookup_code(error));
    }
    let records = match check_records(header.api_version, entry.records) {
        Ok(records) => records,
        Err(code) => return failed(answer, code),
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
    match partition.append(records, acks, broker.clock.now_ms()) {
        Ok(appended) => {
            answer.partition.base_offset = appended.info.first_offset;
            answer.partition.log_append_time_ms = appended.info.log_append_time_ms.unwrap_or(-1);
            answer.partition.log_start_offset = appended.info.log_start_offset;
            answer.wait = appended.wait;
            answer
        }
        Err(error) => {
            let code = describe_failure(&mut answer.partition, &partition, &error, header.api_version);
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
    version: i16,
) -> ErrorCode {
    let (code, tells_log_start) = match error {
        PartitionAppendError::Leader(error) => match error {
            LeaderError::NotLeaderOrFollower => (ErrorCode::NotLeaderOrFollower, false),
            LeaderError::FencedLeaderEpoch => (ErrorCode::FencedLeaderEpoch, true),
            LeaderError::UnknownLeaderEpoch => (ErrorCode::UnknownLeaderEpoch, true),
            LeaderError::Offline => (storage_error(version), false),
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
            AppendError::Io(_) | AppendError::Offline => (storage_error(version), false),
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

/// v4+: KAFKA_STORAGE_ERROR; older clients refresh their metadata upon the other.
fn storage_error(version: i16) -> ErrorCode {
    if version < 4 { ErrorCode::NotLeaderOrFollower } else { ErrorCode::KafkaStorageError }
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
        let mut hints = LeaderHints::new(&image, &connection.listener.name, true);
        for mut answer in answers {
            let topic = &mut response.topics[answer.topic];
            if is_misdirected(&answer) {
                answer.partition.current_leader = hints.of(&topic.name, topic.topic_id, answer.partition.partition);
            }
            topic.partitions.push(answer.partition);
        }
        response.node_endpoints = hints.into_endpoints();
    } else {
        for answer in answers {
            response.topics[answer.topic].partitions.push(answer.partition);
        }
    }
    Ok(response.encode(header)?.into())
}

#[cfg(test)]
mod tests;
