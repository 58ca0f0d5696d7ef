//! OffsetFetch, as far as the group is concerned.

use kafka_protocol::protocol::StrBytes;

use super::super::{GroupShard, text};
use super::store::CommittedOffset;
use crate::protocol::offset_fetch::{
    OffsetFetchGroup, OffsetFetchResponsePartition, OffsetFetchResponseTopic, OffsetFetchTopic,
};
use crate::protocol::{ApiError, ErrorCode};
use crate::types::{PartitionId, TopicId};

impl GroupShard {
    /// The offsets that the group has committed, of all topics if `group` says none. The topics have their names.
    pub fn fetch_offsets(
        &self,
        group: &OffsetFetchGroup,
        require_stable: bool,
    ) -> Result<Vec<OffsetFetchResponseTopic>, ApiError> {
        let found = self.groups.get(&*group.group_id);
        if let Some(found) = found {
            found.validate_offset_fetch(group.member_id.as_deref(), group.member_epoch)?;
        }
        let exists = found.is_some();
        Ok(match &group.topics {
            Some(topics) => topics.iter().map(|topic| self.fetch_topic(group, topic, exists, require_stable)).collect(),
            None if exists => self.fetch_all(&group.group_id, require_stable),
            None => Vec::new(),
        })
    }

    fn fetch_topic(
        &self,
        group: &OffsetFetchGroup,
        topic: &OffsetFetchTopic,
        exists: bool,
        require_stable: bool,
    ) -> OffsetFetchResponseTopic {
        let committed = self.offsets.of_group(&group.group_id).filter(|_| exists);
        let committed = committed.and_then(|topics| topics.get(&*topic.name));
        let answer = |partition: PartitionId| {
            if require_stable && self.offsets.is_pending(&group.group_id, &topic.name, partition) {
                return unstable(partition);
            }
            match committed.and_then(|partitions| partitions.get(&partition)) {
                Some(offset) if !offset.is_of_other_topic(topic.topic_id) => stable(partition, offset),
                _ => OffsetFetchResponsePartition::without_offset(partition, ErrorCode::None),
            }
        };
        OffsetFetchResponseTopic {
            name: topic.name.clone(),
            topic_id: topic.topic_id,
            partitions: topic.partitions.iter().map(|partition| answer(*partition)).collect(),
        }
    }

    /// Topics have no id here: who asks knows those that exist.
    fn fetch_all(&self, group_id: &str, require_stable: bool) -> Vec<OffsetFetchResponseTopic> {
        let topics = self.offsets.of_group(group_id).into_iter().flat_map(|topics| topics.iter());
        topics
            .map(|(topic, partitions)| {
                let answer = |partition: PartitionId, offset: &CommittedOffset| {
                    if require_stable && self.offsets.is_pending(group_id, topic, partition) {
                        unstable(partition)
                    } else {
                        stable(partition, offset)
                    }
                };
                OffsetFetchResponseTopic {
                    name: text(topic),
                    topic_id: TopicId::ZERO,
                    partitions: partitions.iter().map(|(partition, offset)| answer(*partition, offset)).collect(),
                }
            })
            .collect()
    }
}

fn unstable(partition: PartitionId) -> OffsetFetchResponsePartition {
    OffsetFetchResponsePartition::without_offset(partition, ErrorCode::UnstableOffsetCommit)
}

fn stable(partition: PartitionId, offset: &CommittedOffset) -> OffsetFetchResponsePartition {
    let metadata = offset.metadata();
    let metadata = if metadata.is_empty() { StrBytes::new() } else { text(metadata) };
    OffsetFetchResponsePartition {
        partition,
        committed_offset: offset.offset,
        committed_leader_epoch: offset.leader_epoch,
        metadata: Some(metadata),
        error_code: ErrorCode::None,
    }
}
