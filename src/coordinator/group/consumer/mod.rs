//! Consumer groups (KIP-848).

use super::records::*;
use super::{GroupShard, Step};
use crate::metadata::image::MetadataDelta;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ConsumerTimer {}

#[derive(Debug)]
pub struct ConsumerGroup {}

impl GroupShard {
    pub(super) fn replay_consumer_group_metadata(
        &mut self,
        _key: ConsumerGroupMetadataKey,
        _value: Option<ConsumerGroupMetadataValue>,
    ) {
    }

    pub(super) fn replay_consumer_group_partition_metadata(
        &mut self,
        _key: ConsumerGroupPartitionMetadataKey,
        _value: Option<ConsumerGroupPartitionMetadataValue>,
    ) {
    }

    pub(super) fn replay_consumer_group_member_metadata(
        &mut self,
        _key: ConsumerGroupMemberMetadataKey,
        _value: Option<ConsumerGroupMemberMetadataValue>,
    ) {
    }

    pub(super) fn replay_consumer_group_target_assignment_metadata(
        &mut self,
        _key: ConsumerGroupTargetAssignmentMetadataKey,
        _value: Option<ConsumerGroupTargetAssignmentMetadataValue>,
    ) {
    }

    pub(super) fn replay_consumer_group_target_assignment_member(
        &mut self,
        _key: ConsumerGroupTargetAssignmentMemberKey,
        _value: Option<ConsumerGroupTargetAssignmentMemberValue>,
    ) {
    }

    pub(super) fn replay_consumer_group_current_member_assignment(
        &mut self,
        _key: ConsumerGroupCurrentMemberAssignmentKey,
        _value: Option<ConsumerGroupCurrentMemberAssignmentValue>,
    ) {
    }

    pub(super) fn replay_consumer_group_regular_expression(
        &mut self,
        _key: ConsumerGroupRegularExpressionKey,
        _value: Option<ConsumerGroupRegularExpressionValue>,
    ) {
    }

    pub(super) fn on_loaded_consumer(&mut self, _step: &mut Step<'_>) {}

    pub(super) fn on_consumer_timer(&mut self, timer: ConsumerTimer, _step: &mut Step<'_>) {
        match timer {}
    }

    pub(super) fn on_metadata_consumer(&mut self, _delta: &MetadataDelta, _step: &mut Step<'_>) {}
}
