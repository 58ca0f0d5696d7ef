//! `uniform`: all partitions of all topics together, spread evenly, and as few of them moved as that allows.
//!
//! A group whose members all subscribe to the same topics is the simple case, with quotas (`homogeneous`); otherwise partitions are moved
//! from members with many to members with few, topic by topic, until nothing improves (`heterogeneous`).

mod balancer;
mod heterogeneous;
mod homogeneous;

use super::{AssignError, GroupAssignment, GroupSpec, SubscriptionType};
use crate::types::TopicId;

pub(super) fn assign(
    spec: &GroupSpec,
    partition_count: &dyn Fn(TopicId) -> Option<usize>,
) -> Result<GroupAssignment, AssignError> {
    match spec.subscription_type {
        SubscriptionType::Homogeneous => homogeneous::assign(spec, partition_count),
        SubscriptionType::Heterogeneous => heterogeneous::assign(spec, partition_count),
    }
}
