//! TxnOffsetCommit (key 28), versions 0 to 5: offsets that are committed with a transaction (KIP-98).
//!
//! v2+: leader epochs; v3+: the member that commits (KIP-447); v4+: TRANSACTION_ABORTABLE; v5+: the group's offsets become
//! part of the transaction by this (KIP-890). Topics and partitions that the broker does not know are answered first.

use std::collections::BTreeSet;
use std::sync::Arc;

use kafka_protocol::messages::txn_offset_commit_request::TxnOffsetCommitRequestTopic;
use kafka_protocol::messages::txn_offset_commit_response::{
    TxnOffsetCommitResponsePartition, TxnOffsetCommitResponseTopic,
};
use kafka_protocol::messages::{TxnOffsetCommitRequest, TxnOffsetCommitResponse};
use kafka_protocol::protocol::StrBytes;

use super::Call;
use super::partition_answers::{GroupCodes, Refused};
use crate::coordinator::group::Committer;
use crate::coordinator::group::coordinator::OFFSETS_TOPIC;
use crate::coordinator::group::offsets::commit::{CommitTopic, OffsetCommit};
use crate::coordinator::shard::TransactionalProducer;
use crate::coordinator::transaction::coordinator::TransactionSupport;
use crate::net::Response;
use crate::protocol::ErrorCode;
use crate::protocol::offset_commit::{DEFAULT_RETENTION_TIME_MS, OffsetCommitPartition};
use crate::record::batch::NO_SEQUENCE;
use crate::replica::{VerificationGuard, VerifiedProducer};
use crate::server::request::RequestError;
use crate::types::{LeaderEpoch, Offset, PartitionId, ProducerEpoch, ProducerId, TopicId, TopicPartition};

pub async fn handle(mut call: Call) -> Result<Response, RequestError> {
    let request: TxnOffsetCommitRequest = call.decode()?;
    let version = call.header.api_version;
    let image = call.broker.image();
    let mut refused: Refused<&str> = Refused::new();
    let mut known: Vec<(&TxnOffsetCommitRequestTopic, Vec<OffsetCommitPartition>)> = Vec::new();
    for topic in &request.topics {
        let name = topic.name.as_str();
        let mut exist = Vec::new();
        for partition in &topic.partitions {
            if image.partition(name, PartitionId(partition.partition_index)).is_some() {
                exist.push(OffsetCommitPartition {
                    partition: PartitionId(partition.partition_index),
                    committed_offset: Offset(partition.committed_offset),
                    committed_leader_epoch: LeaderEpoch(partition.committed_leader_epoch),
                    committed_metadata: partition.committed_metadata.clone(),
                });
            } else {
                let partition = PartitionId(partition.partition_index);
                refused.add(name, [partition], ErrorCode::UnknownTopicOrPartition);
            }
        }
        if image.topic(name).is_none() {
            refused.add(name, [], ErrorCode::UnknownTopicOrPartition);
        } else if !exist.is_empty() {
            known.push((topic, exist));
        }
    }
    let mut codes = match known.is_empty() {
        true => GroupCodes::new(Ok(Vec::new())),
        false => GroupCodes::new(commit(&call, &request, &known).await),
    };
    let answered = known.iter().map(|(topic, partitions)| {
        (topic.name.as_str(), codes.of(partitions.iter().map(|partition| partition.partition)))
    });
    let topics = refused.followed_by(answered).into_iter().map(|(name, partitions)| {
        let partitions = partitions.into_iter().map(|(partition, code)| {
            TxnOffsetCommitResponsePartition::default()
                .with_partition_index(partition.0)
                .with_error_code(for_client(code, version).code())
        });
        TxnOffsetCommitResponseTopic::default()
            .with_name(StrBytes::from_string(name.to_owned()).into())
            .with_partitions(partitions.collect())
    });
    call.encode(&TxnOffsetCommitResponse::default().with_topics(topics.collect()))
}

/// Clients before v2 stumble over a coordinator that loads.
fn for_client(code: ErrorCode, version: i16) -> ErrorCode {
    match code {
        ErrorCode::CoordinatorLoadInProgress if version < 2 => ErrorCode::CoordinatorNotAvailable,
        code => code,
    }
}

/// A code for each partition, over all topics, or one for all.
async fn commit(
    call: &Call,
    request: &TxnOffsetCommitRequest,
    known: &[(&TxnOffsetCommitRequestTopic, Vec<OffsetCommitPartition>)],
) -> Result<Vec<ErrorCode>, ErrorCode> {
    if request.group_id.is_empty() {
        return Err(ErrorCode::InvalidGroupId);
    }
    let guard = verify(call, request).await?;
    let commit = OffsetCommit {
        group_id: &request.group_id,
        committer: Committer {
            member_id: &request.member_id,
            group_instance_id: request.group_instance_id.as_deref(),
            generation_id_or_member_epoch: request.generation_id,
            transactional: true,
            api_version: call.header.api_version,
        },
        retention_time_ms: DEFAULT_RETENTION_TIME_MS,
        topics: known
            .iter()
            .map(|(topic, partitions)| CommitTopic {
                name: topic.name.as_str(),
                topic_id: TopicId::ZERO,
                partitions: partitions.iter().collect(),
            })
            .collect(),
    };
    let producer = TransactionalProducer {
        producer_id: ProducerId(request.producer_id.0),
        producer_epoch: ProducerEpoch(request.producer_epoch),
        guard,
    };
    let committed = call
        .broker
        .groups
        .run(&request.group_id, |shard, step| shard.commit_transactional_offsets(&commit, producer, step));
    match committed.await {
        Ok(Ok(codes)) => Ok(codes),
        Ok(Err(error)) => {
            call.note_refusal(&error);
            Err(error.code)
        }
        Err(error) => Err(error.code()),
    }
}

/// Makes sure that the group's offsets are part of the transaction.
async fn verify(call: &Call, request: &TxnOffsetCommitRequest) -> Result<Option<VerificationGuard>, ErrorCode> {
    let broker = &call.broker;
    let support = TransactionSupport::of_offset_commit(call.header.api_version);
    let supports_epoch_bump = support == TransactionSupport::AddPartitions;
    if !supports_epoch_bump && !broker.settings.load().current().transaction_partition_verification_enable {
        return Ok(None);
    }
    let producer = VerifiedProducer {
        producer_id: ProducerId(request.producer_id.0),
        producer_epoch: ProducerEpoch(request.producer_epoch),
        base_sequence: NO_SEQUENCE,
        supports_epoch_bump,
    };
    let guard = broker.groups.start_verification(&request.group_id, &producer).map_err(|error| error.code())?;
    if guard.is_none() {
        return Ok(None);
    }
    let partition = TopicPartition::new(OFFSETS_TOPIC, broker.groups.partition_of(&request.group_id).0);
    let transactional_id = Arc::from(request.transactional_id.as_str());
    let errors = broker.transactions.add_or_verify(
        &transactional_id,
        producer.producer_id,
        producer.producer_epoch,
        BTreeSet::from([partition]),
        support,
    );
    match errors.await.into_values().next() {
        None => Ok(guard),
        Some(error) => Err(error),
    }
}
