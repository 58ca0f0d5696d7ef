//! Who may commit, fetch and delete the offsets of a consumer group.

use super::group::ConsumerGroup;
use super::member::ConsumerGroupMember;
use crate::coordinator::group::{CommitScope, Committer};
use crate::protocol::{ApiError, ErrorCode};
use crate::types::{PartitionId, TopicId};

/// `generation_id` of a commit that names no member.
const UNKNOWN_GENERATION_ID: i32 = -1;

impl ConsumerGroup {
    /// A commit is a member's, in its current epoch, or in an older one as far as it already had the partitions then
    /// (KIP-1251); or nobody's, while there are no members.
    pub fn validate_offset_commit(&self, committer: &Committer<'_>) -> Result<CommitScope, ApiError> {
        let epoch = committer.generation_id_or_member_epoch;
        if epoch < 0 && self.is_empty() {
            return Ok(CommitScope::AnyPartition);
        }
        let names_nobody =
            epoch == UNKNOWN_GENERATION_ID && committer.member_id.is_empty() && committer.group_instance_id.is_none();
        if committer.transactional && names_nobody {
            return Ok(CommitScope::AnyPartition);
        }
        let member = self.known_member(committer.member_id)?;
        if !committer.transactional && !member.uses_classic_protocol() && committer.api_version < 9 {
            return Err(ApiError::new(
                ErrorCode::UnsupportedVersion,
                "OffsetCommit version 9 or above must be used by members using the consumer group protocol",
            ));
        }
        if epoch == member.member_epoch {
            return Ok(CommitScope::AnyPartition);
        }
        if epoch > member.member_epoch {
            let (code, received) = stale(member);
            let known = member.member_epoch;
            let message = format!("Received {received} {epoch} is newer than current member epoch {known}.");
            return Err(ApiError::new(code, message));
        }
        Ok(CommitScope::EachPartition)
    }

    /// Whether a commit in an older epoch may name a partition: it must have been the member's in that epoch.
    pub fn validate_partition_commit(
        &self,
        committer: &Committer<'_>,
        topic: &str,
        topic_id: TopicId,
        partition: PartitionId,
    ) -> Result<(), ApiError> {
        let member = self.known_member(committer.member_id)?;
        let (code, received) = stale(member);
        let epoch = committer.generation_id_or_member_epoch;
        match member.partition_epoch(topic_id, partition) {
            None => {
                let message =
                    format!("Partition {topic}-{partition} is not assigned or pending revocation for member.");
                Err(ApiError::new(code, message))
            }
            Some(assigned_in) if epoch < assigned_in => {
                let message = format!(
                    "Received {received} {epoch} is older than assignment epoch {assigned_in} for partition \
                     {topic}-{partition}."
                );
                Err(ApiError::new(code, message))
            }
            Some(_) => Ok(()),
        }
    }

    /// `None` and an epoch below 0: the request names no member.
    pub fn validate_offset_fetch(&self, member_id: Option<&str>, member_epoch: i32) -> Result<(), ApiError> {
        if member_id.is_none() && member_epoch < 0 {
            return Ok(());
        }
        let Some(member_id) = member_id else {
            // An epoch and no member: Kafka fails within.
            return Err(ApiError::bare(ErrorCode::UnknownServerError));
        };
        let member = self.known_member(member_id)?;
        if member_epoch == member.member_epoch {
            return Ok(());
        }
        let (code, received) = stale(member);
        let known = member.member_epoch;
        let message =
            format!("The received {received} {member_epoch} does not match the expected member epoch {known}.");
        Err(ApiError::new(code, message))
    }

    pub fn validate_delete_group(&self) -> Result<(), ApiError> {
        if self.is_empty() { Ok(()) } else { Err(ApiError::with_default_message(ErrorCode::NonEmptyGroup)) }
    }

    /// A member that must be there.
    pub(super) fn known_member(&self, member_id: &str) -> Result<&std::sync::Arc<ConsumerGroupMember>, ApiError> {
        self.member(member_id).ok_or_else(|| {
            let message = format!("Member {member_id} is not a member of group {}.", self.group_id());
            ApiError::new(ErrorCode::UnknownMemberId, message)
        })
    }
}

/// How a member of either protocol is told that its epoch is wrong, and what it calls it.
fn stale(member: &ConsumerGroupMember) -> (ErrorCode, &'static str) {
    if member.uses_classic_protocol() {
        (ErrorCode::IllegalGeneration, "generation id")
    } else {
        (ErrorCode::StaleMemberEpoch, "member epoch")
    }
}
