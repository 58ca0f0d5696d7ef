//! OffsetCommit (key 8), by hand: the crate's schemas end at v9, and every consumer sends it every few seconds.
//! The request takes two allocations however many partitions it has.
//!
//! ```text
//! request   group_id string · generation_id_or_member_epoch i32 · member_id string
//!           v7+: group_instance_id nullable string · v2..4: retention_time_ms i64
//!           [topics: name string (v10+: topic_id uuid)
//!            [partitions: partition_index i32 · committed_offset i64 · v6+: committed_leader_epoch i32
//!             · committed_metadata nullable string]]
//! response  v3+: throttle_time_ms i32
//!           [topics: name string (v10+: topic_id uuid) · [partitions: partition_index i32 · error_code i16]]
//! ```
//! Flexible from v8 (KIP-482). v5 leaves the retention to the broker (KIP-186), v6 has leader epochs (KIP-320), v7
//! static members (KIP-345), v9 member epochs and new errors (KIP-848), v10 topic ids (KIP-848).

use std::ops::Range;

use bytes::{Bytes, BytesMut};
use kafka_protocol::protocol::StrBytes;

use super::errors::ErrorCode;
use super::frame;
use super::header::RequestHeader;
use super::messages::EncodeError;
use super::versions::ApiKey;
use super::wire::{DecodeError, Reader, Writer};
use crate::types::{LeaderEpoch, Offset, PartitionId, TopicId};

/// First version that names topics by their id.
pub const FIRST_TOPIC_ID_VERSION: i16 = 10;

/// How [`OffsetCommitRequest::retention_time_ms`] says that the broker's setting counts.
pub const DEFAULT_RETENTION_TIME_MS: i64 = -1;

/// An OffsetCommit request. Fields that the version does not have are at their defaults.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OffsetCommitRequest {
    pub group_id: StrBytes,
    /// -1: the committer is no member.
    pub generation_id_or_member_epoch: i32,
    /// Empty: the committer is no member.
    pub member_id: StrBytes,
    pub group_instance_id: Option<StrBytes>,
    pub retention_time_ms: i64,
    topics: Vec<OffsetCommitTopic>,
    partitions: Vec<OffsetCommitPartition>,
}

/// A topic of an OffsetCommit request: by name up to v9 (the id is zero), by id from v10 (the name is empty).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OffsetCommitTopic {
    pub name: StrBytes,
    pub topic_id: TopicId,
    partitions: Range<usize>,
}

/// A partition of an OffsetCommit request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OffsetCommitPartition {
    pub partition: PartitionId,
    pub committed_offset: Offset,
    /// Unknown before v6.
    pub committed_leader_epoch: LeaderEpoch,
    pub committed_metadata: Option<StrBytes>,
}

impl Default for OffsetCommitRequest {
    fn default() -> OffsetCommitRequest {
        OffsetCommitRequest {
            group_id: StrBytes::new(),
            generation_id_or_member_epoch: -1,
            member_id: StrBytes::new(),
            group_instance_id: None,
            retention_time_ms: DEFAULT_RETENTION_TIME_MS,
            topics: Vec::new(),
            partitions: Vec::new(),
        }
    }
}

impl OffsetCommitRequest {
    /// Reads a body of version 2..=10. Bytes left over stay in `body`.
    pub fn decode(body: &mut Bytes, version: i16) -> Result<OffsetCommitRequest, DecodeError> {
        let mut reader = Reader::new(body, ApiKey::OffsetCommit.is_flexible(version)).with_bounded_entries();
        let mut request = OffsetCommitRequest {
            group_id: reader.string("group_id")?,
            generation_id_or_member_epoch: reader.i32()?,
            member_id: reader.string("member_id")?,
            ..OffsetCommitRequest::default()
        };
        // v7+: KIP-345.
        if version >= 7 {
            request.group_instance_id = reader.nullable_string("group_instance_id")?;
        }
        // Up to v4: KIP-186 leaves it to the broker.
        if version <= 4 {
            request.retention_time_ms = reader.i64()?;
        }
        let topic_count = reader.count("topics", 3)?;
        request.topics.reserve(topic_count);
        for _ in 0..topic_count {
            let topic = request.decode_topic(&mut reader, version)?;
            request.topics.push(topic);
        }
        reader.unknown_tagged_fields()?;
        Ok(request)
    }

    fn decode_topic(&mut self, reader: &mut Reader<'_>, version: i16) -> Result<OffsetCommitTopic, DecodeError> {
        let (name, topic_id) = if version >= FIRST_TOPIC_ID_VERSION {
            (StrBytes::new(), TopicId(reader.uuid()?))
        } else {
            (reader.string("name")?, TopicId::ZERO)
        };
        let partition_count = reader.count("partitions", 13)?;
        self.partitions.reserve(partition_count);
        let first = self.partitions.len();
        for _ in 0..partition_count {
            self.partitions.push(OffsetCommitPartition {
                partition: PartitionId(reader.i32()?),
                committed_offset: Offset(reader.i64()?),
                // v6+: KIP-320.
                committed_leader_epoch: if version >= 6 { LeaderEpoch(reader.i32()?) } else { LeaderEpoch::UNKNOWN },
                committed_metadata: reader.nullable_string("committed_metadata")?,
            });
            reader.unknown_tagged_fields()?;
        }
        reader.unknown_tagged_fields()?;
        Ok(OffsetCommitTopic { name, topic_id, partitions: first..self.partitions.len() })
    }

    /// Writes the body, as a client does.
    pub fn encode(&self, version: i16) -> Bytes {
        let mut writer = Writer::new(BytesMut::new(), ApiKey::OffsetCommit.is_flexible(version));
        writer.string(&self.group_id);
        writer.i32(self.generation_id_or_member_epoch);
        writer.string(&self.member_id);
        if version >= 7 {
            writer.nullable_string(self.group_instance_id.as_deref());
        }
        if version <= 4 {
            writer.i64(self.retention_time_ms);
        }
        writer.length(Some(self.topics.len()));
        for (topic, partitions) in self.topics() {
            if version >= FIRST_TOPIC_ID_VERSION {
                writer.uuid(topic.topic_id.0);
            } else {
                writer.string(&topic.name);
            }
            writer.length(Some(partitions.len()));
            for partition in partitions {
                writer.i32(partition.partition.0);
                writer.i64(partition.committed_offset.0);
                if version >= 6 {
                    writer.i32(partition.committed_leader_epoch.0);
                }
                writer.nullable_string(partition.committed_metadata.as_deref());
                writer.no_tagged_fields();
            }
            writer.no_tagged_fields();
        }
        writer.no_tagged_fields();
        writer.bytes.freeze()
    }

    /// The topics in the order of the request, each with its partitions.
    pub fn topics(&self) -> impl ExactSizeIterator<Item = (&OffsetCommitTopic, &[OffsetCommitPartition])> {
        self.topics.iter().map(|topic| (topic, &self.partitions[topic.partitions.clone()]))
    }

    /// How many partitions the request has, over all topics.
    pub fn partition_count(&self) -> usize {
        self.partitions.len()
    }

    /// Adds a topic, as a client does.
    pub fn push_topic(
        &mut self,
        name: StrBytes,
        topic_id: TopicId,
        partitions: impl IntoIterator<Item = OffsetCommitPartition>,
    ) {
        let first = self.partitions.len();
        self.partitions.extend(partitions);
        self.topics.push(OffsetCommitTopic { name, topic_id, partitions: first..self.partitions.len() });
    }
}

/// An OffsetCommit response.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OffsetCommitResponse {
    pub throttle_time_ms: i32,
    pub topics: Vec<OffsetCommitResponseTopic>,
}

/// A topic of an OffsetCommit response; name and id as the request had them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OffsetCommitResponseTopic {
    pub name: StrBytes,
    pub topic_id: TopicId,
    pub partitions: Vec<(PartitionId, ErrorCode)>,
}

impl OffsetCommitResponse {
    /// Writes the frame, without its length, of the response to the request that `header` stood before.
    pub fn encode(&self, header: &RequestHeader) -> Result<Bytes, EncodeError> {
        let version = header.api_version;
        let partitions: usize = self.topics.iter().map(|topic| topic.partitions.len()).sum();
        let mut buffer = BytesMut::with_capacity(32 + self.topics.len() * 32 + partitions * 8);
        header.put_response_header(&mut buffer);
        let mut writer = Writer::new(buffer, ApiKey::OffsetCommit.is_flexible(version));
        // v3+: KIP-124.
        if version >= 3 {
            writer.i32(self.throttle_time_ms);
        }
        writer.length(Some(self.topics.len()));
        for topic in &self.topics {
            if version >= FIRST_TOPIC_ID_VERSION {
                writer.uuid(topic.topic_id.0);
            } else {
                writer.string(&topic.name);
            }
            writer.length(Some(topic.partitions.len()));
            for (partition, error_code) in &topic.partitions {
                writer.i32(partition.0);
                writer.i16(error_code.code());
                writer.no_tagged_fields();
            }
            writer.no_tagged_fields();
        }
        writer.no_tagged_fields();
        if !frame::fits(writer.bytes.len()) {
            return Err(EncodeError::TooLong { api_key: ApiKey::OffsetCommit, version });
        }
        Ok(writer.bytes.freeze())
    }
}

#[cfg(test)]
mod tests;
