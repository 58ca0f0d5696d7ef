//! The server-side assignors of consumer groups (KIP-848): who of a group's members gets which partitions.
//!
//! An assignor is a pure function of the group's members, what they subscribe to and what they have; no clock, no randomness, no
//! state. It promises, for what it gives:
//! - a partition has one owner at most, and one exactly when anyone subscribes to its topic;
//! - nobody gets a partition of a topic that it does not subscribe to;
//! - the same input gives the same result, and it is the result of Kafka 4.3.1 (see `iteration_order` for how far that goes).
//!
//! A member whose partitions stay as they were gets the very same `Arc` back, so a large group costs what changes in it, and the
//! caller sees by `Arc::ptr_eq` (or by comparing) for which members a new target is to be recorded.

pub(super) mod iteration_order;
mod range;
mod uniform;

#[cfg(test)]
mod golden;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::types::{PartitionId, TopicId};

/// Partitions by topic. No topic has an empty set.
pub type TopicPartitions = BTreeMap<TopicId, BTreeSet<PartitionId>>;

/// The server-side assignors, by Kafka's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Assignor {
    /// Evenly over all topics together, and sticky.
    Uniform,
    /// Each topic in contiguous ranges, the same ranges for topics of the same size; not sticky.
    Range,
}

impl Assignor {
    /// All of them, in the order of `group.consumer.assignors`' default: the first is what a group without a preference gets.
    pub const ALL: [Assignor; 2] = [Assignor::Uniform, Assignor::Range];

    /// Kafka's name.
    pub fn name(self) -> &'static str {
        match self {
            Assignor::Uniform => "uniform",
            Assignor::Range => "range",
        }
    }

    /// The assignor of that name.
    pub fn parse(name: &str) -> Option<Assignor> {
        Assignor::ALL.into_iter().find(|assignor| assignor.name() == name)
    }

    /// Assigns the partitions of all subscribed topics. `partition_count` gives the number of partitions of a topic.
    ///
    /// The result names every member of `spec`.
    pub fn assign(
        self,
        spec: &GroupSpec,
        partition_count: &dyn Fn(TopicId) -> Option<usize>,
    ) -> Result<GroupAssignment, AssignError> {
        match self {
            Assignor::Uniform => uniform::assign(spec, partition_count),
            Assignor::Range => range::assign(spec, partition_count),
        }
    }
}

/// What a group's members subscribe to and have.
#[derive(Clone, Debug, Default)]
pub struct GroupSpec {
    /// By member id.
    pub members: BTreeMap<Arc<str>, MemberSpec>,
    pub subscription_type: SubscriptionType,
}

/// Whether all members subscribe to the same topics. Kafka tells it by the topics' names, before it leaves out topics that do not
/// exist, so a group may be heterogeneous though all its members have the same topic ids here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SubscriptionType {
    #[default]
    Homogeneous,
    Heterogeneous,
}

/// A member as the assignors see it.
#[derive(Clone, Debug, Default)]
pub struct MemberSpec {
    /// `group.instance.id` of a static member (KIP-345).
    pub instance_id: Option<Arc<str>>,
    /// The existing topics among those it subscribes to, by name or by regular expression.
    pub subscribed: Arc<BTreeSet<TopicId>>,
    /// Its target until now.
    pub assigned: Arc<TopicPartitions>,
}

/// The new targets, one for each member of the [`GroupSpec`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupAssignment {
    pub members: BTreeMap<Arc<str>, Arc<TopicPartitions>>,
}

/// Why there is no assignment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AssignError {
    #[error("Members are subscribed to topic {0} which doesn't exist in the topic metadata.")]
    UnknownTopic(TopicId),
}

/// `new`, or the old target itself when that says the same.
fn unless_equal(new: TopicPartitions, old: &Arc<TopicPartitions>) -> Arc<TopicPartitions> {
    if new == **old { Arc::clone(old) } else { Arc::new(new) }
}
