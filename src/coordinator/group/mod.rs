//! The group coordinator's shard: the groups and committed offsets of one partition of `__consumer_offsets`.
//!
//! Owns the state; what is decided about it is in the modules below, each an `impl` of [`GroupShard`]: [`classic`]
//! (JoinGroup, SyncGroup, Heartbeat, LeaveGroup), [`consumer`] (KIP-848), [`offsets`]. Pure: see
//! [`crate::coordinator::shard`].

pub mod admin;
pub mod assignor;
pub mod classic;
pub mod consumer;
pub mod consumer_protocol;
pub mod coordinator;
mod dispatch;
pub mod offsets;
pub mod records;
#[cfg(test)]
mod simulation;
pub mod subscription_regex;

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use kafka_protocol::messages::{JoinGroupResponse, SyncGroupResponse};
use kafka_protocol::protocol::StrBytes;
use tracing::error;

use self::consumer::ConsumerGroups;
pub use self::dispatch::{CommitScope, Committer, Group, GroupType, RetentionStart};
use self::offsets::Offsets;
use self::records::{DecodeError, GroupRecord};
use super::shard::{CoordinatorError, CoordinatorRecord, CoordinatorShard, RecordOrigin};
use super::timers::Timers;
use crate::metadata::image::MetadataDelta;
use crate::types::ProducerId;

/// A step of this shard.
pub type Step<'a> = super::shard::Step<'a, GroupShard>;

/// Who asks.
#[derive(Clone, Debug)]
pub struct RequestContext {
    pub api_version: i16,
    /// Of the request's header; empty if there is none.
    pub client_id: String,
    /// As Kafka shows it: `/127.0.0.1`.
    pub client_host: String,
}

/// What a timer is for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum GroupTimer {
    Classic(classic::ClassicTimer),
    Consumer(consumer::ConsumerTimer),
    /// Looks for offsets and groups that have expired (`offsets.retention.check.interval.ms`).
    Expiration,
}

/// What takes effect in the place of a step's records.
#[derive(Debug)]
pub enum Continuation {
    Classic(classic::Continuation),
    Consumer(consumer::Continuation),
}

impl From<classic::Continuation> for Continuation {
    fn from(continuation: classic::Continuation) -> Continuation {
        Continuation::Classic(continuation)
    }
}

impl From<consumer::Continuation> for Continuation {
    fn from(continuation: consumer::Continuation) -> Continuation {
        Continuation::Consumer(continuation)
    }
}

/// Answers that may come long after their requests.
#[derive(Debug)]
pub enum DeferredReply {
    Join(JoinGroupResponse),
    Sync(SyncGroupResponse),
}

/// See the module.
#[derive(Debug, Default)]
pub struct GroupShard {
    groups: BTreeMap<Arc<str>, Group>,
    offsets: Offsets,
    timers: Timers<GroupTimer>,
    consumer_groups: ConsumerGroups,
}

impl CoordinatorRecord for GroupRecord {
    fn to_bytes(&self) -> (Vec<u8>, Option<Vec<u8>>) {
        self.encode(self.value_version()).expect("a record is made for the version that it is written in")
    }

    fn from_bytes(key: &[u8], value: Option<&[u8]>) -> Result<Option<GroupRecord>, String> {
        match GroupRecord::decode(key, value) {
            Ok((record, _)) => Ok(Some(record)),
            Err(DecodeError::UnknownType(_)) => Ok(None),
            Err(error) => Err(error.to_string()),
        }
    }
}

impl CoordinatorShard for GroupShard {
    type Record = GroupRecord;
    type Deferred = DeferredReply;
    type Continuation = Continuation;
    type Effect = Infallible;

    fn replay(&mut self, record: GroupRecord, origin: RecordOrigin) {
        match record {
            GroupRecord::OffsetCommit(key, value) => self.replay_offset_commit(key, value, origin),
            // Of Kafka before 0.9: Kafka reads them like the others.
            GroupRecord::LegacyOffsetCommit(key, value) => self.replay_legacy_offset_commit(key, value, origin),
            GroupRecord::GroupMetadata(key, value) => self.replay_group_metadata(key, value),
            GroupRecord::ConsumerGroupMetadata(key, value) => self.replay_consumer_group_metadata(key, value),
            GroupRecord::ConsumerGroupPartitionMetadata(key, value) => {
                self.replay_consumer_group_partition_metadata(key, value);
            }
            GroupRecord::ConsumerGroupMemberMetadata(key, value) => {
                self.replay_consumer_group_member_metadata(key, value);
            }
            GroupRecord::ConsumerGroupTargetAssignmentMetadata(key, value) => {
                self.replay_consumer_group_target_assignment_metadata(key, value);
            }
            GroupRecord::ConsumerGroupTargetAssignmentMember(key, value) => {
                self.replay_consumer_group_target_assignment_member(key, value);
            }
            GroupRecord::ConsumerGroupCurrentMemberAssignment(key, value) => {
                self.replay_consumer_group_current_member_assignment(key, value);
            }
            GroupRecord::ConsumerGroupRegularExpression(key, value) => {
                self.replay_consumer_group_regular_expression(key, value);
            }
            // Groups of other kinds are not coordinated here; their records stay in the log.
            GroupRecord::ShareGroupMemberMetadata(..)
            | GroupRecord::ShareGroupMetadata(..)
            | GroupRecord::ShareGroupTargetAssignmentMetadata(..)
            | GroupRecord::ShareGroupTargetAssignmentMember(..)
            | GroupRecord::ShareGroupCurrentMemberAssignment(..)
            | GroupRecord::ShareGroupStatePartitionMetadata(..)
            | GroupRecord::StreamsGroupMetadata(..)
            | GroupRecord::StreamsGroupMemberMetadata(..)
            | GroupRecord::StreamsGroupTargetAssignmentMetadata(..)
            | GroupRecord::StreamsGroupTargetAssignmentMember(..)
            | GroupRecord::StreamsGroupCurrentMemberAssignment(..)
            | GroupRecord::StreamsGroupTopology(..) => {}
        }
    }

    fn replay_end_transaction(&mut self, producer_id: ProducerId, committed: bool) {
        self.offsets.end_transaction(producer_id, committed);
    }

    fn on_loaded(&mut self, step: &mut Step<'_>) {
        self.on_loaded_classic(step);
        self.on_loaded_consumer(step);
        self.schedule_expiration(step);
    }

    fn on_append(&mut self, continuation: Continuation, appended: Result<(), CoordinatorError>, step: &mut Step<'_>) {
        match continuation {
            Continuation::Classic(continuation) => self.on_append_classic(continuation, appended, step),
            Continuation::Consumer(continuation) => self.on_append_consumer(continuation, appended, step),
        }
    }

    fn next_deadline(&self) -> Option<Duration> {
        self.timers.next_deadline()
    }

    fn on_timer(&mut self, step: &mut Step<'_>) {
        match self.timers.pop_due(step.now) {
            None => {}
            Some(GroupTimer::Classic(timer)) => self.on_classic_timer(timer, step),
            Some(GroupTimer::Consumer(timer)) => self.on_consumer_timer(timer, step),
            Some(GroupTimer::Expiration) => self.expire(step),
        }
    }

    fn on_metadata(&mut self, delta: &MetadataDelta, step: &mut Step<'_>) {
        self.on_metadata_consumer(delta, step);
        self.on_topics_deleted(delta, step);
    }
}

/// Text of a response.
fn text(text: &str) -> StrBytes {
    StrBytes::from_string(text.to_owned())
}

impl Group {
    /// The other protocol's group, with a word in the log if that is wrong: a record said so.
    fn unexpected(group_id: &str, record: &str) {
        error!(%group_id, record, "a record is of another kind than its group: passed over");
    }
}
