//! Committed offsets.

use super::records::*;
use super::{GroupShard, Step};
use crate::coordinator::shard::RecordOrigin;
use crate::metadata::image::MetadataDelta;
use crate::types::{ProducerEpoch, ProducerId};

#[derive(Debug, Default)]
pub struct Offsets {}

impl GroupShard {
    pub(super) fn replay_offset_commit(
        &mut self,
        _key: OffsetCommitKey,
        _value: Option<OffsetCommitValue>,
        _origin: RecordOrigin,
    ) {
    }

    pub(super) fn replay_legacy_offset_commit(
        &mut self,
        _key: LegacyOffsetCommitKey,
        _value: Option<LegacyOffsetCommitValue>,
        _origin: RecordOrigin,
    ) {
    }

    pub(super) fn replay_end_transaction_of_offsets(
        &mut self,
        _id: ProducerId,
        _epoch: ProducerEpoch,
        _committed: bool,
    ) {
    }

    pub(super) fn schedule_expiration(&mut self, _step: &mut Step<'_>) {}

    pub(super) fn expire(&mut self, _step: &mut Step<'_>) {}

    pub(super) fn on_topics_deleted(&mut self, _delta: &MetadataDelta, _step: &mut Step<'_>) {}
}
