//! Committed offsets: where the consumers of a group continue (OffsetCommit, OffsetFetch, OffsetDelete, and the part of
//! TxnOffsetCommit that is the group coordinator's).
//!
//! [`store`] holds them; what is asked and decided about them is in [`commit`], [`fetch`], [`delete`] and [`expire`].
//! A group without members that commits offsets is made by its first record: a "simple" classic group.

mod by_partition;
pub mod commit;
pub mod delete;
mod expire;
pub mod fetch;
mod small_map;
pub mod store;

use std::sync::Arc;

pub use self::store::Offsets;

use self::store::CommittedOffset;
use super::classic::ClassicGroup;
use super::records::*;
use super::{Group, GroupShard};
use crate::coordinator::shard::RecordOrigin;
use crate::types::PartitionId;

impl GroupShard {
    pub(super) fn replay_offset_commit(
        &mut self,
        key: OffsetCommitKey,
        value: Option<OffsetCommitValue>,
        origin: RecordOrigin,
    ) {
        let partition = PartitionId(key.partition);
        match value {
            Some(value) => {
                let group_id = self.group_for_offsets(&key.group);
                let offset = CommittedOffset::from_record(value, origin.offset);
                self.offsets.put(&group_id, &key.topic, partition, offset, origin.producer_id);
            }
            None => self.offsets.remove(&key.group, &key.topic, partition),
        }
    }

    pub(super) fn replay_legacy_offset_commit(
        &mut self,
        key: LegacyOffsetCommitKey,
        value: Option<LegacyOffsetCommitValue>,
        origin: RecordOrigin,
    ) {
        let key = OffsetCommitKey { group: key.group, topic: key.topic, partition: key.partition };
        let value = value.map(|value| OffsetCommitValue {
            offset: value.offset,
            metadata: value.metadata,
            commit_timestamp: value.commit_timestamp,
            ..OffsetCommitValue::default()
        });
        self.replay_offset_commit(key, value, origin);
    }

    /// The group of that id; a simple one if there is none.
    fn group_for_offsets(&mut self, group_id: &str) -> Arc<str> {
        match self.groups.get_key_value(group_id) {
            Some((group_id, _)) => group_id.clone(),
            None => {
                let group_id = Arc::<str>::from(group_id);
                let group = Group::Classic(Box::new(ClassicGroup::simple(group_id.clone())));
                self.groups.insert(group_id.clone(), group);
                group_id
            }
        }
    }
}

/// The record that removes an offset.
fn tombstone(group_id: &str, topic: &str, partition: PartitionId) -> GroupRecord {
    let key = OffsetCommitKey { group: group_id.to_owned(), topic: topic.to_owned(), partition: partition.0 };
    GroupRecord::OffsetCommit(key, None)
}

#[cfg(test)]
mod tests;
