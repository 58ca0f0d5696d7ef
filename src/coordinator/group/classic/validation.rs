//! What a classic group allows those who ask by other requests.

use tracing::info;

use super::group::ClassicGroup;
use super::state::ClassicGroupState;
use crate::coordinator::group::records::GroupRecord;
use crate::coordinator::group::{Committer, RetentionStart};
use crate::protocol::{ApiError, ErrorCode};

impl ClassicGroup {
    /// Whether there is such a member, and if an instance id is given, that it is the one that has it now.
    pub(super) fn validate_member(
        &self,
        member_id: &str,
        group_instance_id: Option<&str>,
        operation: &str,
    ) -> Result<(), ErrorCode> {
        if let Some(group_instance_id) = group_instance_id {
            let existing = self.static_member_id(group_instance_id).ok_or(ErrorCode::UnknownMemberId)?;
            if &**existing != member_id {
                info!(group_id = %self.group_id(), %group_instance_id, %member_id, %existing, operation,
                    "a static member is fenced by another with its instance id");
                return Err(ErrorCode::FencedInstanceId);
            }
        }
        self.member(member_id).map(|_| ()).ok_or(ErrorCode::UnknownMemberId)
    }

    pub fn validate_offset_commit(&self, committer: &Committer<'_>) -> Result<(), ApiError> {
        self.check_committer(committer).map_err(ApiError::bare)
    }

    fn check_committer(&self, committer: &Committer<'_>) -> Result<(), ErrorCode> {
        let generation_id = committer.generation_id_or_member_epoch;
        if generation_id < 0 && self.is_empty() {
            // An admin client, or a consumer that assigns itself its partitions.
            return Ok(());
        }
        if generation_id >= 0 || !committer.member_id.is_empty() || committer.group_instance_id.is_some() {
            self.validate_member(committer.member_id, committer.group_instance_id, "offset commit")?;
            if generation_id != self.generation_id() {
                return Err(ErrorCode::IllegalGeneration);
            }
        } else if !committer.transactional && !self.is_empty() {
            // Older transactional commits say neither member nor generation; others must not interfere with members.
            return Err(ErrorCode::UnknownMemberId);
        }
        if !committer.transactional && self.state() == ClassicGroupState::CompletingRebalance {
            // The member knows the new generation, but not its assignment: it has nothing to commit for yet.
            return Err(ErrorCode::RebalanceInProgress);
        }
        Ok(())
    }

    /// Offsets may go if their topic is not consumed, which only groups of consumers say.
    pub fn validate_offset_delete(&self) -> Result<(), ApiError> {
        match self.is_empty() || self.uses_consumer_group_protocol() {
            true => Ok(()),
            false => Err(ApiError::with_default_message(ErrorCode::NonEmptyGroup)),
        }
    }

    pub fn validate_delete_group(&self) -> Result<(), ApiError> {
        match self.is_empty() {
            true => Ok(()),
            false => Err(ApiError::with_default_message(ErrorCode::NonEmptyGroup)),
        }
    }

    /// From when on the retention of the group's offsets counts. `None`: they do not expire as the group is now.
    pub fn retention_start(&self) -> Option<RetentionStart> {
        if self.protocol_type().is_empty() {
            return Some(RetentionStart::Commit);
        }
        if self.is_empty() {
            // Old records do not say when the group became empty.
            return Some(self.current_state_timestamp().map_or(RetentionStart::Commit, RetentionStart::GroupEmpty));
        }
        let topics_known = self.uses_consumer_group_protocol() && self.subscribed_topics().is_some();
        (topics_known && self.state() == ClassicGroupState::Stable).then_some(RetentionStart::Commit)
    }

    /// The records that remove the group, without its offsets.
    pub fn tombstone_records(&self) -> Vec<GroupRecord> {
        vec![super::records::tombstone(self.group_id())]
    }
}
