//! Transactions as their coordinators and the partitions' leaders tell them, and the ends that an administrator puts to them.

use kafka_protocol::messages::describe_producers_request::TopicRequest;
use kafka_protocol::messages::write_txn_markers_request::{WritableTxnMarker, WritableTxnMarkerTopic};
use kafka_protocol::messages::{
    DescribeProducersRequest, DescribeTransactionsRequest, InitProducerIdRequest, ListTransactionsRequest,
    TransactionalId, WriteTxnMarkersRequest,
};

use super::cluster::{Client, Node, Target};
use super::error::{Error, Result};
use super::partitions::{Outcomes, at_leaders, at_node, by_topic};
use super::text;
use crate::protocol::ErrorCode;
use crate::types::TopicPartition;

/// A transactional id in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listing {
    pub transactional_id: String,
    pub coordinator: i32,
    pub producer_id: i64,
    /// `Ongoing`, …
    pub state: String,
}

/// Which transactional ids a list is to have.
#[derive(Clone, Copy, Debug, Default)]
pub struct Filter<'a> {
    /// All if empty.
    pub producer_ids: &'a [i64],
    /// Only those whose transaction lasts longer; negative for all.
    pub duration_ms: Option<i64>,
    pub pattern: Option<&'a str>,
}

/// The transactional ids of all coordinators, by the coordinators' ids.
pub async fn list(client: &Client, filter: Filter<'_>) -> Result<Vec<Listing>> {
    let request = ListTransactionsRequest::default()
        .with_producer_id_filters(filter.producer_ids.iter().map(|&id| id.into()).collect())
        .with_duration_filter(filter.duration_ms.unwrap_or(-1))
        .with_transactional_id_pattern(filter.pattern.filter(|pattern| !pattern.is_empty()).map(text));
    let mut listings = Vec::new();
    for node in client.nodes().await? {
        let answer = client
            .retry("listTransactions(api=LIST_TRANSACTIONS)", async || {
                let answer = client.send(&Target::Node(node.id), &request).await?;
                list_outcome(client, &node, answer.error_code).map(|()| answer)
            })
            .await?;
        listings.extend(answer.transaction_states.iter().map(|state| Listing {
            transactional_id: state.transactional_id.to_string(),
            coordinator: node.id,
            producer_id: state.producer_id.0,
            state: state_name(&state.transaction_state),
        }));
    }
    Ok(listings)
}

fn list_outcome(client: &Client, node: &Node, code: i16) -> Result<()> {
    let Err(error) = Error::check(code, None::<String>) else { return Ok(()) };
    let broker = node.id;
    match error.code {
        Some(ErrorCode::CoordinatorLoadInProgress) => Err(error),
        Some(ErrorCode::CoordinatorNotAvailable) => Err(error.for_good().saying(format!(
            "ListTransactions request sent to broker {broker} failed because the coordinator is shutting down"
        ))),
        _ => {
            client.log_failure(
                "ListTransactionsHandler",
                format_args!(
                    "The `ListTransactions` request sent to broker {broker} failed because of an unexpected error {}",
                    error.code_name()
                ),
            );
            let message =
                format!("ListTransactions request sent to broker {broker} failed with an unexpected exception");
            Err(error.for_good().saying(message))
        }
    }
}

/// `Unknown` for a state that Kafka 4.3.1 does not know.
fn state_name(state: &str) -> String {
    const STATES: [&str; 7] =
        ["Ongoing", "PrepareAbort", "PrepareCommit", "CompleteAbort", "CompleteCommit", "Empty", "PrepareEpochFence"];
    STATES.into_iter().find(|known| *known == state).unwrap_or("Unknown").to_owned()
}

/// What a coordinator knows of a transactional id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description {
    pub coordinator: i32,
    pub state: String,
    pub producer_id: i64,
    pub producer_epoch: i16,
    pub timeout_ms: i32,
    /// Of the transaction that is open.
    pub start_time_ms: Option<i64>,
    pub partitions: Vec<TopicPartition>,
}

/// One transactional id.
pub async fn describe(client: &Client, id: &str) -> Result<Description> {
    let request = DescribeTransactionsRequest::default().with_transactional_ids(vec![TransactionalId(text(id))]);
    client
        .retry("describeTransactions(api=DESCRIBE_TRANSACTIONS)", async || {
            let coordinator = coordinator(client, id).await?;
            let answer = client.send(&Target::Node(coordinator), &request).await?;
            let found = answer.transaction_states.into_iter().next();
            let found = found.ok_or_else(|| Error::disconnected("The answer has no transactional id."))?;
            coordinator_outcome(found.error_code, |error| {
                let begin = format!("DescribeTransactions request for transactionalId `{id}` failed");
                match error.code {
                    Some(ErrorCode::TransactionalIdAuthorizationFailed) => {
                        format!("{begin} due to authorization failure")
                    }
                    Some(ErrorCode::TransactionalIdNotFound) => format!("{begin} because the ID could not be found"),
                    _ => format!("{begin} due to unexpected error"),
                }
            })?;
            let topics = found.topics.iter();
            let partitions = topics.flat_map(|topic| {
                topic.partitions.iter().map(|&partition| TopicPartition::new(topic.topic.as_str(), partition))
            });
            Ok(Description {
                coordinator,
                state: state_name(&found.transaction_state),
                producer_id: found.producer_id.0,
                producer_epoch: found.producer_epoch,
                timeout_ms: found.transaction_timeout_ms,
                start_time_ms: Some(found.transaction_start_time_ms).filter(|&ms| ms >= 0),
                partitions: partitions.collect(),
            })
        })
        .await
}

/// Ends the transaction of a transactional id, if there is one, and fences its producer.
pub async fn force_terminate(client: &Client, id: &str) -> Result<()> {
    let request = InitProducerIdRequest::default()
        .with_transactional_id(Some(TransactionalId(text(id))))
        .with_transaction_timeout_ms(client.config.request_timeout_ms())
        .with_producer_id((-1).into())
        .with_producer_epoch(-1);
    client
        .retry("fenceProducer(api=INIT_PRODUCER_ID)", async || {
            let coordinator = coordinator(client, id).await?;
            let answer = client.send(&Target::Node(coordinator), &request).await?;
            coordinator_outcome(answer.error_code, |error| {
                let begin = format!("InitProducerId request for transactionalId `{id}` failed due to");
                match error.code {
                    Some(ErrorCode::ClusterAuthorizationFailed) => format!("{begin} cluster authorization failure"),
                    Some(ErrorCode::TransactionalIdAuthorizationFailed) => {
                        format!("{begin} transactional ID authorization failure")
                    }
                    _ => format!("{begin} unexpected error"),
                }
            })
        })
        .await
}

async fn coordinator(client: &Client, id: &str) -> Result<i32> {
    let found = client.transaction_coordinator(id).await.map_err(|error| match error.code {
        None | Some(ErrorCode::CoordinatorNotAvailable | ErrorCode::CoordinatorLoadInProgress) => error,
        code => {
            let key = format!("CoordinatorKey(idValue='{id}', type=TRANSACTION)");
            let message = match code {
                Some(ErrorCode::TransactionalIdAuthorizationFailed) => {
                    format!("FindCoordinator request for transactionalId `{key}` failed due to authorization failure")
                }
                _ => format!("FindCoordinator request for key `{key}` failed due to an unexpected error"),
            };
            error.for_good().saying(message)
        }
    });
    Ok(found?.id)
}

/// What a coordinator answers: some of it passes, all else is final, with a message of its own.
fn coordinator_outcome(code: i16, message: impl FnOnce(&Error) -> String) -> Result<()> {
    Error::check(code, None::<String>).map_err(|error| match error.code {
        Some(
            ErrorCode::CoordinatorLoadInProgress
            | ErrorCode::CoordinatorNotAvailable
            | ErrorCode::NotCoordinator
            | ErrorCode::ConcurrentTransactions,
        ) => error,
        _ => {
            let message = message(&error);
            error.for_good().saying(message)
        }
    })
}

/// A producer that a partition remembers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Producer {
    pub id: i64,
    pub epoch: i32,
    pub last_sequence: i32,
    pub last_timestamp: i64,
    pub coordinator_epoch: Option<i32>,
    /// Of the transaction that is open.
    pub transaction_start: Option<i64>,
}

/// The producers of partitions, as the leaders know them, or as `broker` does.
pub async fn producers(client: &Client, partitions: &[TopicPartition], broker: Option<i32>) -> Outcomes<Vec<Producer>> {
    let ask = async |node: i32, partitions: &[TopicPartition]| {
        let topics = by_topic(partitions).into_iter().map(|(topic, partitions)| {
            TopicRequest::default().with_name(text(topic).into()).with_partition_indexes(partitions)
        });
        let request = DescribeProducersRequest::default().with_topics(topics.collect());
        let answer = client.send(&Target::Node(node), &request).await?;
        let mut outcomes = Vec::new();
        for topic in answer.topics {
            for partition in topic.partitions {
                let at = TopicPartition::new(topic.name.as_str(), partition.partition_index);
                let outcome = Error::check(partition.error_code, partition.error_message.as_deref())
                    .map_err(|error| producers_fault(client, &at, broker, error))
                    .map(|()| {
                        let each = partition.active_producers.iter().map(|producer| Producer {
                            id: producer.producer_id.0,
                            epoch: producer.producer_epoch,
                            last_sequence: producer.last_sequence,
                            last_timestamp: producer.last_timestamp,
                            coordinator_epoch: Some(producer.coordinator_epoch).filter(|&epoch| epoch >= 0),
                            transaction_start: Some(producer.current_txn_start_offset).filter(|&offset| offset >= 0),
                        });
                        each.collect()
                    });
                outcomes.push((at, outcome));
            }
        }
        Ok(outcomes)
    };
    match broker {
        Some(broker) => at_node(client, "describeProducers(api=DESCRIBE_PRODUCERS)", broker, partitions, ask).await,
        None => at_leaders(client, "describeProducers(api=METADATA)", partitions, ask).await,
    }
}

fn producers_fault(client: &Client, at: &TopicPartition, broker: Option<i32>, error: Error) -> Error {
    let begin = format!("Failed to describe active producers for partition {at}");
    let (logged, message) = match (error.code, broker) {
        (Some(ErrorCode::UnknownTopicOrPartition), _) | (Some(ErrorCode::NotLeaderOrFollower), None) => return error,
        (Some(ErrorCode::NotLeaderOrFollower), Some(broker)) => (
            format!(
                "Not leader error in `DescribeProducers` response for partition {at} for brokerId {broker} set in options"
            ),
            format!("{begin} on brokerId {broker}"),
        ),
        (Some(ErrorCode::InvalidTopicException), _) => (
            format!("Invalid topic in `DescribeProducers` response for partition {at}"),
            format!("Failed to fetch metadata for partition {at} due to invalid topic error: {}", error.message()),
        ),
        (Some(ErrorCode::TopicAuthorizationFailed), _) => (
            format!("Authorization failed in `DescribeProducers` response for partition {at}"),
            format!("{begin} due to authorization failure on topic `{}`", &*at.topic),
        ),
        _ => (
            format!("Unexpected error in `DescribeProducers` response for partition {at}"),
            format!("{begin} due to unexpected error"),
        ),
    };
    client.log_failure("DescribeProducersHandler", format_args!("{logged}"));
    error.for_good().saying(message)
}

/// Which transaction of a partition is to be aborted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Abort {
    pub partition: TopicPartition,
    pub producer_id: i64,
    pub producer_epoch: i16,
    pub coordinator_epoch: i32,
}

/// As Java's `AbortTransactionSpec` prints itself.
impl std::fmt::Display for Abort {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "AbortTransactionSpec(topicPartition={}, producerId={}, producerEpoch={}, coordinatorEpoch={})",
            self.partition, self.producer_id, self.producer_epoch, self.coordinator_epoch
        )
    }
}

/// Writes the marker that aborts a transaction, past its coordinator.
pub async fn abort(client: &Client, abort: &Abort) -> Result<()> {
    let topic = WritableTxnMarkerTopic::default()
        .with_name(text(&abort.partition.topic).into())
        .with_partition_indexes(vec![abort.partition.partition.0]);
    let marker = WritableTxnMarker::default()
        .with_producer_id(abort.producer_id.into())
        .with_producer_epoch(abort.producer_epoch)
        .with_coordinator_epoch(abort.coordinator_epoch)
        .with_transaction_result(false)
        .with_topics(vec![topic]);
    let request = WriteTxnMarkersRequest::default().with_markers(vec![marker]);
    let ask = async |leader: i32, _: &[TopicPartition]| {
        let answer = client.send(&Target::Node(leader), &request).await?;
        let mut answered = answer.markers.iter().filter(|marker| marker.producer_id.0 == abort.producer_id);
        let mut answered = answered.next().into_iter().flat_map(|marker| &marker.topics).flat_map(|topic| {
            topic.partitions.iter().map(|partition| {
                (TopicPartition::new(topic.name.as_str(), partition.partition_index), partition.error_code)
            })
        });
        let outcome = match answered.find(|(partition, _)| *partition == abort.partition) {
            Some((_, code)) => Error::check(code, None::<String>).map_err(|error| abort_fault(client, abort, error)),
            None => Err(Error::new(
                "org.apache.kafka.common.KafkaException",
                "The response of WriteTxnMarkers does not tell of the partition",
            )),
        };
        Ok(vec![(abort.partition.clone(), outcome)])
    };
    let partitions = std::slice::from_ref(&abort.partition);
    let mut outcomes = at_leaders(client, "abortTransaction(api=METADATA)", partitions, ask).await;
    outcomes.remove(&abort.partition).unwrap_or(Ok(()))
}

fn abort_fault(client: &Client, abort: &Abort, error: Error) -> Error {
    use ErrorCode::{
        BrokerNotAvailable, ClusterAuthorizationFailed, InvalidProducerEpoch, NotLeaderOrFollower, ReplicaNotAvailable,
        TransactionCoordinatorFenced, UnknownTopicOrPartition,
    };
    let begin = format!("WriteTxnMarkers request with {abort} failed");
    let (logged, message) = match error.code {
        Some(NotLeaderOrFollower | ReplicaNotAvailable | BrokerNotAvailable | UnknownTopicOrPartition) => return error,
        Some(ClusterAuthorizationFailed) => {
            ("failed cluster authorization".to_owned(), format!("{begin} due to cluster authorization error"))
        }
        Some(InvalidProducerEpoch) => {
            ("failed due to an invalid producer epoch".to_owned(), format!("{begin} due an invalid producer epoch"))
        }
        Some(TransactionCoordinatorFenced) => (
            "failed because the coordinator epoch is fenced".to_owned(),
            format!(
                "{begin} since the provided coordinator epoch {} has been fenced by the active coordinator",
                abort.coordinator_epoch
            ),
        ),
        _ => (
            format!("failed due to an unexpected error {}", error.code_name()),
            format!("{begin} due to unexpected error: {}", error.message()),
        ),
    };
    client.log_failure(
        "AbortTransactionHandler",
        format_args!("WriteTxnMarkers request for abort spec {abort} {logged}"),
    );
    error.for_good().saying(message)
}
