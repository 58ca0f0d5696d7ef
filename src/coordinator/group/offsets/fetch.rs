//! OffsetFetch, as far as the group is concerned.

use kafka_protocol::protocol::StrBytes;

use super::super::{GroupShard, text};
use super::store::CommittedOffset;
use crate::protocol::offset_fetch::{
    OffsetFetchGroup, OffsetFetchResponsePartition, OffsetFetchResponseTopic, OffsetFetchTopic,
};
use crate::protocol::{ApiError, ErrorCode};
use crate::types::{PartitionId, TopicId};

/// Why offsets are not told.
#[derive(Debug, thiserror::Error)]
pub enum OffsetFetchError {
    #[error("{0}")]
    Refused(ApiError),
    /// A partition may be asked for any number of times, and be told with kilobytes of metadata each time.
    #[error("the answer would be larger than it may be")]
    TooLarge,
}

impl GroupShard {
    /// The offsets that the group has committed, of all topics if `group` says none. The topics have their names. The
    /// answer takes no more than about `max_bytes`.
    pub fn fetch_offsets(
        &self,
        group: &OffsetFetchGroup,
        require_stable: bool,
        max_bytes: usize,
    ) -> Result<Vec<OffsetFetchResponseTopic>, OffsetFetchError> {
        let found = self.groups.get(&*group.group_id);
        if let Some(found) = found {
            let valid = found.validate_offset_fetch(group.member_id.as_deref(), group.member_epoch);
            valid.map_err(OffsetFetchError::Refused)?;
        }
        let exists = found.is_some();
        Ok(match &group.topics {
            Some(topics) => {
                let mut bytes = 0;
                let mut fetched = Vec::with_capacity(topics.len());
                for topic in topics {
                    bytes += self.size_of_metadata(group, topic);
                    if bytes > max_bytes {
                        return Err(OffsetFetchError::TooLarge);
                    }
                    fetched.push(self.fetch_topic(group, topic, exists, require_stable));
                }
                fetched
            }
            None if exists => self.fetch_all(&group.group_id, require_stable),
            None => Vec::new(),
        })
    }

    /// What the metadata of the partitions that are asked for takes, each as often as it is.
    fn size_of_metadata(&self, group: &OffsetFetchGroup, topic: &OffsetFetchTopic) -> usize {
        let committed = self.offsets.of_group(&group.group_id).and_then(|topics| topics.get(&*topic.name));
        let sizes = topic.partitions.iter().filter_map(|partition| Some(committed?.get(partition)?.metadata().len()));
        sizes.sum()
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
