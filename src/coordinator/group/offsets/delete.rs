//! OffsetDelete, DeleteGroups, and what becomes of the offsets of deleted topics.

use tracing::{debug, info};

use super::super::{GroupShard, Step};
use super::tombstone;
use crate::metadata::image::MetadataDelta;
use crate::protocol::{ApiError, ErrorCode};
use crate::types::PartitionId;

/// Partitions of a topic whose offsets are to be deleted.
#[derive(Debug)]
pub struct DeleteTopic<'a> {
    pub name: &'a str,
    pub partitions: Vec<PartitionId>,
}

impl GroupShard {
    /// Deletes offsets. Gives a code for each topic, which is that of all its partitions; an error is of the request as
    /// a whole.
    pub fn delete_offsets(
        &mut self,
        group_id: &str,
        topics: &[&DeleteTopic<'_>],
        step: &mut Step<'_>,
    ) -> Result<Vec<ErrorCode>, ApiError> {
        let group = self.groups.get(group_id).ok_or_else(|| group_not_found(group_id))?;
        group.validate_offset_delete()?;
        let mut codes = Vec::with_capacity(topics.len());
        for topic in topics {
            if group.is_subscribed_to_topic(topic.name) {
                codes.push(ErrorCode::GroupSubscribedToTopic);
                continue;
            }
            codes.push(ErrorCode::None);
            for partition in &topic.partitions {
                if self.offsets.get(group_id, topic.name, *partition).is_some()
                    || self.offsets.is_pending(group_id, topic.name, *partition)
                {
                    step.append(tombstone(group_id, topic.name, *partition));
                }
            }
        }
        Ok(codes)
    }

    /// Deletes a group with its offsets.
    pub fn delete_group(&mut self, group_id: &str, step: &mut Step<'_>) -> Result<(), ApiError> {
        let group = self.groups.get(group_id).ok_or_else(|| group_not_found(group_id))?;
        group.validate_delete_group()?;
        let partitions = self.offsets.partitions_of_group(group_id);
        debug!(%group_id, offsets = partitions.len(), "group deleted");
        // A group may have more offsets than fit in a batch. Its own tombstone comes last.
        step.allow_several_batches();
        for (topic, partition) in partitions {
            step.append(tombstone(group_id, &topic, partition));
        }
        step.append_all(group.tombstone_records());
        Ok(())
    }

    /// Offsets go with their topic.
    pub(in super::super) fn on_topics_deleted(&mut self, delta: &MetadataDelta, step: &mut Step<'_>) {
        let mut count = 0;
        for topic in delta.deleted_topics.values() {
            for (group_id, partition) in self.offsets.of_topic(&topic.name, topic.id) {
                step.append(tombstone(&group_id, &topic.name, partition));
                count += 1;
            }
        }
        if count > 0 {
            step.allow_several_batches();
            info!(count, "offsets of deleted topics removed");
        }
    }
}

fn group_not_found(group_id: &str) -> ApiError {
    ApiError::new(ErrorCode::GroupIdNotFound, format!("Group {group_id} not found."))
}
