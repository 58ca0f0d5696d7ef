//! What committed offsets and the admin APIs ask of a group, whichever protocol it speaks.
//!
//! Only dispatch stands here. The answers are in [`ClassicGroup`] and [`ConsumerGroup`], under the same names.

use super::classic::ClassicGroup;
use super::consumer::ConsumerGroup;
use super::records::GroupRecord;
use crate::protocol::ApiError;
use crate::types::{PartitionId, TopicId};

/// A group of any protocol.
#[derive(Debug)]
pub enum Group {
    Classic(Box<ClassicGroup>),
    Consumer(Box<ConsumerGroup>),
}

/// The protocol of a group, as ListGroups says it (KIP-848).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum GroupType {
    Classic,
    Consumer,
}

impl GroupType {
    /// Kafka's name.
    pub fn name(self) -> &'static str {
        match self {
            GroupType::Classic => "classic",
            GroupType::Consumer => "consumer",
        }
    }

    /// The type of that name, in any case.
    pub fn parse(name: &str) -> Option<GroupType> {
        [GroupType::Classic, GroupType::Consumer].into_iter().find(|group| group.name().eq_ignore_ascii_case(name))
    }
}

/// Who commits offsets.
#[derive(Clone, Copy, Debug)]
pub struct Committer<'a> {
    /// Empty: none.
    pub member_id: &'a str,
    pub group_instance_id: Option<&'a str>,
    /// Below 0: no member.
    pub generation_id_or_member_epoch: i32,
    /// TxnOffsetCommit.
    pub transactional: bool,
    pub api_version: i16,
}

/// What a group says of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommitScope {
    /// Any partition may be committed.
    AnyPartition,
    /// [`Group::validate_partition_commit`] is to be asked for each: the member's epoch is an older one.
    EachPartition,
}

/// From when on the retention of a group's offsets counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetentionStart {
    /// From each offset's commit.
    Commit,
    /// From this time, for all offsets: since then the group has been empty. Milliseconds since 1970.
    GroupEmpty(i64),
}

impl Group {
    pub fn group_type(&self) -> GroupType {
        match self {
            Group::Classic(_) => GroupType::Classic,
            Group::Consumer(_) => GroupType::Consumer,
        }
    }

    /// Kafka's name of the state the group is in: `Empty`, `Stable`, …
    pub fn state_name(&self) -> &'static str {
        match self {
            Group::Classic(group) => group.state_name(),
            Group::Consumer(group) => group.state_name(),
        }
    }

    /// Empty if the group has none yet, as one that only holds offsets.
    pub fn protocol_type(&self) -> &str {
        match self {
            Group::Classic(group) => group.protocol_type(),
            Group::Consumer(_) => "consumer",
        }
    }

    /// Whether the group's state is `Empty`.
    pub fn is_empty(&self) -> bool {
        match self {
            Group::Classic(group) => group.is_empty(),
            Group::Consumer(group) => group.is_empty(),
        }
    }

    /// Whether members consume the topic. A classic group that cannot know says what is safe.
    pub fn is_subscribed_to_topic(&self, topic: &str) -> bool {
        match self {
            Group::Classic(group) => group.is_subscribed_to_topic(topic),
            Group::Consumer(group) => group.is_subscribed_to_topic(topic),
        }
    }

    pub fn validate_offset_commit(&self, committer: &Committer<'_>) -> Result<CommitScope, ApiError> {
        match self {
            Group::Classic(group) => group.validate_offset_commit(committer).map(|()| CommitScope::AnyPartition),
            Group::Consumer(group) => group.validate_offset_commit(committer),
        }
    }

    /// Whether one partition may be committed, if [`Self::validate_offset_commit`] said to ask.
    pub fn validate_partition_commit(
        &self,
        committer: &Committer<'_>,
        topic: &str,
        topic_id: TopicId,
        partition: PartitionId,
    ) -> Result<(), ApiError> {
        match self {
            Group::Classic(_) => Ok(()),
            Group::Consumer(group) => group.validate_partition_commit(committer, topic, topic_id, partition),
        }
    }

    /// `member_id` and `member_epoch` are none and -1 if the request does not say them.
    pub fn validate_offset_fetch(&self, member_id: Option<&str>, member_epoch: i32) -> Result<(), ApiError> {
        match self {
            Group::Classic(_) => Ok(()),
            Group::Consumer(group) => group.validate_offset_fetch(member_id, member_epoch),
        }
    }

    pub fn validate_offset_delete(&self) -> Result<(), ApiError> {
        match self {
            Group::Classic(group) => group.validate_offset_delete(),
            Group::Consumer(_) => Ok(()),
        }
    }

    pub fn validate_delete_group(&self) -> Result<(), ApiError> {
        match self {
            Group::Classic(group) => group.validate_delete_group(),
            Group::Consumer(group) => group.validate_delete_group(),
        }
    }

    /// `None`: the group's offsets do not expire as it is now.
    pub fn retention_start(&self) -> Option<RetentionStart> {
        match self {
            Group::Classic(group) => group.retention_start(),
            Group::Consumer(_) => Some(RetentionStart::Commit),
        }
    }

    /// The records that remove the group, without its offsets.
    pub fn tombstone_records(&self) -> Vec<GroupRecord> {
        match self {
            Group::Classic(group) => group.tombstone_records(),
            Group::Consumer(group) => group.tombstone_records(),
        }
    }
}
