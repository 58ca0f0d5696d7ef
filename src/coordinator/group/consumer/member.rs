//! A member of a consumer group: who it is, what it subscribes to, and how far it is with its partitions.
//!
//! Members are values: a change makes another one, which takes the place of the old one once its records are in the log.
//!
//! | state | means | leaves it when |
//! |---|---|---|
//! | Stable | has what its epoch's target gave it | there is a newer target |
//! | UnrevokedPartitions | must give partitions up; stays in its old epoch | it no longer reports them, or is fenced for taking too long |
//! | UnreleasedPartitions | is in the target's epoch, but waits for partitions of other members | these are free, or there is a newer target |
//! | Unknown | read from the log of a newer broker | it rejoins |

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::coordinator::group::records::{
    ClassicMemberMetadata, ConsumerGroupCurrentMemberAssignmentTopicPartitions as TopicPartitions,
    ConsumerGroupCurrentMemberAssignmentValue, ConsumerGroupMemberMetadataValue,
};
use crate::types::{PartitionId, TopicId, TopicName};

/// Member epoch of a member that leaves, and of one that is about to be removed.
pub const LEAVE_GROUP_MEMBER_EPOCH: i32 = -1;
/// Member epoch of a static member that left and may come back.
pub const LEAVE_GROUP_STATIC_MEMBER_EPOCH: i32 = -2;

/// Partitions by topic, each with the epoch in which the member got it. No topic is without partitions.
pub type PartitionsWithEpochs = BTreeMap<TopicId, BTreeMap<PartitionId, i32>>;

/// See the module.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum MemberState {
    #[default]
    Stable,
    UnrevokedPartitions,
    UnreleasedPartitions,
    Unknown,
}

impl MemberState {
    /// As records say it.
    pub fn code(self) -> i8 {
        match self {
            MemberState::Stable => 0,
            MemberState::UnrevokedPartitions => 1,
            MemberState::UnreleasedPartitions => 2,
            MemberState::Unknown => 127,
        }
    }

    pub fn from_code(code: i8) -> MemberState {
        match code {
            0 => MemberState::Stable,
            1 => MemberState::UnrevokedPartitions,
            2 => MemberState::UnreleasedPartitions,
            _ => MemberState::Unknown,
        }
    }
}

/// See the module.
#[derive(Clone, Debug, PartialEq)]
pub struct ConsumerGroupMember {
    pub member_id: Arc<str>,
    pub member_epoch: i32,
    pub previous_member_epoch: i32,
    pub state: MemberState,
    /// `group.instance.id` of a static member (KIP-345).
    pub instance_id: Option<Arc<str>>,
    pub rack_id: Option<Arc<str>>,
    /// How long it may take to give partitions up.
    pub rebalance_timeout_ms: i32,
    pub client_id: Arc<str>,
    pub client_host: Arc<str>,
    pub subscribed_topic_names: Arc<BTreeSet<TopicName>>,
    /// `Some("")`, or `None` in some logs: no regular expression.
    pub subscribed_topic_regex: Option<Arc<str>>,
    /// The server-side assignor that it votes for.
    pub server_assignor: Option<Arc<str>>,
    /// What it owns, or is about to.
    pub assigned: Arc<PartitionsWithEpochs>,
    /// What it must give up, and still owns.
    pub pending_revocation: Arc<PartitionsWithEpochs>,
    /// Of a member that speaks the classic protocol.
    pub classic: Option<Arc<ClassicMemberMetadata>>,
}

impl ConsumerGroupMember {
    /// A member of which nothing is known.
    pub fn new(member_id: Arc<str>) -> ConsumerGroupMember {
        let nothing: Arc<str> = Arc::from("");
        ConsumerGroupMember {
            member_id,
            member_epoch: 0,
            previous_member_epoch: -1,
            state: MemberState::Stable,
            instance_id: None,
            rack_id: None,
            rebalance_timeout_ms: -1,
            client_id: Arc::clone(&nothing),
            client_host: Arc::clone(&nothing),
            subscribed_topic_names: Arc::default(),
            subscribed_topic_regex: Some(nothing),
            server_assignor: None,
            assigned: Arc::default(),
            pending_revocation: Arc::default(),
            classic: None,
        }
    }

    /// The regular expression, if there is one.
    pub fn regex(&self) -> Option<&Arc<str>> {
        self.subscribed_topic_regex.as_ref().filter(|regex| !regex.is_empty())
    }

    pub fn uses_classic_protocol(&self) -> bool {
        self.classic.is_some()
    }

    /// Whether it has all that the target of this epoch gives it.
    pub fn is_reconciled_to(&self, assignment_epoch: i32) -> bool {
        self.state == MemberState::Stable && self.member_epoch == assignment_epoch
    }

    /// The epoch in which it got a partition that it owns, be it about to be given up.
    pub fn partition_epoch(&self, topic: TopicId, partition: PartitionId) -> Option<i32> {
        let of = |partitions: &PartitionsWithEpochs| partitions.get(&topic)?.get(&partition).copied();
        of(&self.assigned).or_else(|| of(&self.pending_revocation))
    }

    /// The member in its next epoch.
    pub(super) fn set_epoch(&mut self, member_epoch: i32) {
        self.previous_member_epoch = std::mem::replace(&mut self.member_epoch, member_epoch);
    }

    pub(super) fn apply_metadata(&mut self, value: ConsumerGroupMemberMetadataValue) {
        let ConsumerGroupMemberMetadataValue {
            instance_id,
            rack_id,
            client_id,
            client_host,
            subscribed_topic_names,
            subscribed_topic_regex,
            rebalance_timeout_ms,
            server_assignor,
            classic_member_metadata,
        } = value;
        self.instance_id = instance_id.map(Arc::from);
        self.rack_id = rack_id.map(Arc::from);
        self.client_id = client_id.into();
        self.client_host = client_host.into();
        let same = self.subscribed_topic_names.iter().map(|name| &**name).eq(subscribed_topic_names.iter());
        if !same {
            self.subscribed_topic_names = Arc::new(subscribed_topic_names.into_iter().map(TopicName::from).collect());
        }
        self.subscribed_topic_regex = subscribed_topic_regex.map(Arc::from);
        self.rebalance_timeout_ms = rebalance_timeout_ms;
        self.server_assignor = server_assignor.map(Arc::from);
        self.classic = classic_member_metadata.map(Arc::new);
    }

    pub(super) fn apply_assignment(&mut self, value: &ConsumerGroupCurrentMemberAssignmentValue) {
        self.member_epoch = value.member_epoch;
        self.previous_member_epoch = value.previous_member_epoch;
        self.state = MemberState::from_code(value.state);
        self.assigned = Arc::new(partitions_from_record(&value.assigned_partitions, value.member_epoch));
        self.pending_revocation =
            Arc::new(partitions_from_record(&value.partitions_pending_revocation, value.member_epoch));
    }
}

/// Brokers before 4.3 do not write each partition's epoch: then it is the member's, and never negative.
fn partitions_from_record(topics: &[TopicPartitions], member_epoch: i32) -> PartitionsWithEpochs {
    let mut all = PartitionsWithEpochs::new();
    for topic in topics {
        let epochs = topic.assignment_epochs.as_deref().filter(|epochs| epochs.len() == topic.partitions.len());
        let partitions = topic.partitions.iter().enumerate().map(|(at, partition)| {
            let epoch = epochs.map_or(member_epoch.max(0), |epochs| epochs[at]);
            (PartitionId(*partition), epoch)
        });
        let partitions: BTreeMap<_, _> = partitions.collect();
        if !partitions.is_empty() {
            all.insert(topic.topic_id, partitions);
        }
    }
    all
}
