//! OffsetCommit and TxnOffsetCommit, as far as the group is concerned.

use super::super::records::{GroupRecord, OffsetCommitKey, OffsetCommitValue};
use super::super::{CommitScope, Committer, GroupShard, Step};
use crate::coordinator::shard::TransactionalProducer;
use crate::protocol::offset_commit::{DEFAULT_RETENTION_TIME_MS, OffsetCommitPartition};
use crate::protocol::{ApiError, ErrorCode};
use crate::types::TopicId;

/// What a record takes at least beside its names and metadata: versions, lengths, partition, offset, epoch, timestamp.
const SMALLEST_RECORD: usize = 34;

/// Offsets to be committed. Their topics and partitions exist, as far as the broker knows.
#[derive(Debug)]
pub struct OffsetCommit<'a> {
    pub group_id: &'a str,
    pub committer: Committer<'a>,
    /// -1: as the broker's settings say.
    pub retention_time_ms: i64,
    pub topics: Vec<CommitTopic<'a>>,
}

/// A topic of an [`OffsetCommit`].
#[derive(Debug)]
pub struct CommitTopic<'a> {
    pub name: &'a str,
    /// Zero: not known. Of no use in transactional commits.
    pub topic_id: TopicId,
    pub partitions: Vec<&'a OffsetCommitPartition>,
}

impl GroupShard {
    /// Commits offsets. Gives a code for each partition, over all topics; an error is of the request as a whole.
    pub fn commit_offsets(
        &mut self,
        commit: &OffsetCommit<'_>,
        step: &mut Step<'_>,
    ) -> Result<Vec<ErrorCode>, ApiError> {
        let scope = self.validate_offset_commit(commit)?;
        let expire_timestamp = match commit.retention_time_ms {
            DEFAULT_RETENTION_TIME_MS => -1,
            retention_time_ms => step.now_ms.wrapping_add(retention_time_ms),
        };
        let (codes, records) = self.offset_records(commit, scope, expire_timestamp, step)?;
        if records.is_empty() {
            // With a record, its replay makes the group.
            self.group_for_offsets(commit.group_id);
        }
        step.append_all(records);
        self.keep_classic_session(commit.group_id, commit.committer.member_id, step);
        Ok(codes)
    }

    /// Has offsets committed when the transaction of the producer commits. Gives a code for each partition, over all
    /// topics; an error is of the request as a whole.
    pub fn commit_transactional_offsets(
        &mut self,
        commit: &OffsetCommit<'_>,
        producer: TransactionalProducer,
        step: &mut Step<'_>,
    ) -> Result<Vec<ErrorCode>, ApiError> {
        // What only members of the consumer protocol understand is told in older words.
        let in_older_words = |error: ApiError| match error.code {
            ErrorCode::StaleMemberEpoch => ApiError::bare(ErrorCode::IllegalGeneration),
            _ => error,
        };
        let scope = self.validate_offset_commit(commit).map_err(in_older_words)?;
        let (codes, records) = self.offset_records(commit, scope, -1, step).map_err(in_older_words)?;
        if records.is_empty() {
            self.group_for_offsets(commit.group_id);
        } else {
            step.within_transaction(producer);
        }
        step.append_all(records);
        Ok(codes)
    }

    fn validate_offset_commit(&self, commit: &OffsetCommit<'_>) -> Result<CommitScope, ApiError> {
        let committer = &commit.committer;
        match self.groups.get(commit.group_id) {
            Some(group) => group.validate_offset_commit(committer),
            // Whoever is no member, the admin client for instance, makes a group by committing.
            None if committer.generation_id_or_member_epoch < 0 => Ok(CommitScope::AnyPartition),
            // v9+: KIP-848.
            None if committer.api_version >= 9 && !committer.transactional => {
                Err(ApiError::new(ErrorCode::GroupIdNotFound, format!("Group {} not found.", commit.group_id)))
            }
            None => Err(ApiError::bare(ErrorCode::IllegalGeneration)),
        }
    }

    /// What is to be said of each partition, and the records of those that are committed.
    fn offset_records(
        &self,
        commit: &OffsetCommit<'_>,
        scope: CommitScope,
        expire_timestamp: i64,
        step: &Step<'_>,
    ) -> Result<(Vec<ErrorCode>, Vec<GroupRecord>), ApiError> {
        let committer = &commit.committer;
        let count = commit.topics.iter().map(|topic| topic.partitions.len()).sum();
        let mut codes = Vec::with_capacity(count);
        let mut records = Vec::with_capacity(count.min(1_000));
        let mut size = 0;
        for topic in &commit.topics {
            let topic_id = if committer.transactional {
                step.image.topic(topic.name).map_or(TopicId::ZERO, |topic| topic.id)
            } else {
                topic.topic_id
            };
            if committer.transactional && scope == CommitScope::EachPartition && topic_id == TopicId::ZERO {
                return Err(ApiError::bare(ErrorCode::IllegalGeneration));
            }
            for partition in &topic.partitions {
                let metadata = partition.committed_metadata.as_deref().unwrap_or_default();
                if is_longer_than(metadata, step.config.offset_metadata_max_bytes) {
                    codes.push(ErrorCode::OffsetMetadataTooLarge);
                    continue;
                }
                if scope == CommitScope::EachPartition
                    && let Some(group) = self.groups.get(commit.group_id)
                {
                    group.validate_partition_commit(committer, topic.name, topic_id, partition.partition)?;
                }
                size += SMALLEST_RECORD + commit.group_id.len() + topic.name.len() + metadata.len();
                if step.batch_limit.is_some_and(|limit| size > limit) {
                    return Err(ApiError::bare(ErrorCode::UnknownServerError));
                }
                codes.push(ErrorCode::None);
                let key = OffsetCommitKey {
                    group: commit.group_id.to_owned(),
                    topic: topic.name.to_owned(),
                    partition: partition.partition.0,
                };
                let value = OffsetCommitValue {
                    offset: partition.committed_offset.0,
                    leader_epoch: partition.committed_leader_epoch.0,
                    metadata: metadata.to_owned(),
                    commit_timestamp: step.now_ms,
                    expire_timestamp,
                    topic_id: if committer.transactional { TopicId::ZERO.0 } else { topic_id.0 },
                };
                records.push(GroupRecord::OffsetCommit(key, Some(value)));
            }
        }
        Ok((codes, records))
    }
}

/// Whether the text has more than so many of Java's characters: `offset.metadata.max.bytes` counts those, not bytes.
fn is_longer_than(text: &str, limit: i32) -> bool {
    let limit = usize::try_from(limit).unwrap_or(0);
    text.len() > limit && text.encode_utf16().count() > limit
}
