//! OffsetFetch (key 9), by hand: the crate's schemas end at v9, and have other structs for one group than for several.
//!
//! ```text
//! request   v1..7: group_id string · [topics (v2+: nullable): name string · [partition_indexes i32]]
//!           v8+: [groups: group_id string · v9+: member_id nullable string · member_epoch i32
//!                 [topics, nullable: name string (v10+: topic_id uuid) · [partition_indexes i32]]]
//!           v7+: require_stable bool
//! response  v3+: throttle_time_ms i32
//!           v1..7: TOPICS · v2+: error_code i16
//!           v8+: [groups: group_id string · TOPICS · error_code i16]
//! TOPICS    [topics: name string (v10+: topic_id uuid)
//!            [partitions: partition_index i32 · committed_offset i64 · v5+: committed_leader_epoch i32
//!             · metadata nullable string · error_code i16]]
//! ```
//! Flexible from v6 (KIP-482). From v2 no topics means all, and errors of the whole group have a place; v5 has leader
//! epochs (KIP-320), v7 `require_stable` (KIP-447), v8 several groups (KIP-709), v9 member epochs and v10 topic ids
//! (KIP-848).

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
/// First version that asks for several groups.
pub const FIRST_BATCH_VERSION: i16 = 8;
/// First version that has a place for an error of the group, and asks for all topics by naming none.
pub const FIRST_GROUP_ERROR_VERSION: i16 = 2;

/// An OffsetFetch request. Before v8 it has one group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OffsetFetchRequest {
    pub groups: Vec<OffsetFetchGroup>,
    /// Offsets that a transaction is about to change are not wanted.
    pub require_stable: bool,
}

/// A group of an OffsetFetch request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OffsetFetchGroup {
    pub group_id: StrBytes,
    pub member_id: Option<StrBytes>,
    /// -1: none.
    pub member_epoch: i32,
    /// `None`: all that the group has committed.
    pub topics: Option<Vec<OffsetFetchTopic>>,
}

/// A topic of an OffsetFetch request: by name up to v9 (the id is zero), by id from v10 (the name is empty).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OffsetFetchTopic {
    pub name: StrBytes,
    pub topic_id: TopicId,
    pub partitions: Vec<PartitionId>,
}

impl Default for OffsetFetchGroup {
    fn default() -> OffsetFetchGroup {
        OffsetFetchGroup { group_id: StrBytes::new(), member_id: None, member_epoch: -1, topics: None }
    }
}

impl OffsetFetchRequest {
    /// Reads a body of version 1..=10. Bytes left over stay in `body`.
    pub fn decode(body: &mut Bytes, version: i16) -> Result<OffsetFetchRequest, DecodeError> {
        let mut reader = Reader::new(body, ApiKey::OffsetFetch.is_flexible(version)).with_bounded_entries();
        let mut request = OffsetFetchRequest::default();
        if version >= FIRST_BATCH_VERSION {
            let count = reader.count("groups", 3)?;
            request.groups.reserve(count);
            for _ in 0..count {
                request.groups.push(OffsetFetchGroup::decode(&mut reader, version)?);
                reader.unknown_tagged_fields()?;
            }
        } else {
            request.groups.push(OffsetFetchGroup::decode(&mut reader, version)?);
        }
        // v7+: KIP-447.
        if version >= 7 {
            request.require_stable = reader.u8()? != 0;
        }
        reader.unknown_tagged_fields()?;
        Ok(request)
    }

    /// Writes the body, as a client does. Before v8, the first group alone counts.
    pub fn encode(&self, version: i16) -> Bytes {
        let mut writer = Writer::new(BytesMut::new(), ApiKey::OffsetFetch.is_flexible(version));
        if version >= FIRST_BATCH_VERSION {
            writer.length(Some(self.groups.len()));
            for group in &self.groups {
                group.write(&mut writer, version);
                writer.no_tagged_fields();
            }
        } else if let Some(group) = self.groups.first() {
            group.write(&mut writer, version);
        }
        if version >= 7 {
            writer.bool(self.require_stable);
        }
        writer.no_tagged_fields();
        writer.bytes.freeze()
    }
}

impl OffsetFetchGroup {
    fn decode(reader: &mut Reader<'_>, version: i16) -> Result<OffsetFetchGroup, DecodeError> {
        let mut group = OffsetFetchGroup { group_id: reader.string("group_id")?, ..OffsetFetchGroup::default() };
        // v9+: KIP-848.
        if version >= 9 {
            group.member_id = reader.nullable_string("member_id")?;
            group.member_epoch = reader.i32()?;
        }
        let Some(count) = reader.nullable_count("topics", 3)? else {
            return match version {
                ..FIRST_GROUP_ERROR_VERSION => Err(DecodeError::Null { field: "topics" }),
                _ => Ok(group),
            };
        };
        let mut topics = Vec::with_capacity(count);
        for _ in 0..count {
            topics.push(OffsetFetchTopic::decode(reader, version)?);
        }
        group.topics = Some(topics);
        Ok(group)
    }

    fn write(&self, writer: &mut Writer, version: i16) {
        writer.string(&self.group_id);
        if version >= 9 {
            writer.nullable_string(self.member_id.as_deref());
            writer.i32(self.member_epoch);
        }
        writer.length(self.topics.as_ref().map(Vec::len));
        for topic in self.topics.iter().flatten() {
            if version >= FIRST_TOPIC_ID_VERSION {
                writer.uuid(topic.topic_id.0);
            } else {
                writer.string(&topic.name);
            }
            writer.length(Some(topic.partitions.len()));
            for partition in &topic.partitions {
                writer.i32(partition.0);
            }
            writer.no_tagged_fields();
        }
    }
}

impl OffsetFetchTopic {
    fn decode(reader: &mut Reader<'_>, version: i16) -> Result<OffsetFetchTopic, DecodeError> {
        let (name, topic_id) = if version >= FIRST_TOPIC_ID_VERSION {
            (StrBytes::new(), TopicId(reader.uuid()?))
        } else {
            (reader.string("name")?, TopicId::ZERO)
        };
        let count = reader.count("partition_indexes", 4)?;
        let mut partitions = Vec::with_capacity(count);
        for _ in 0..count {
            partitions.push(PartitionId(reader.i32()?));
        }
        reader.unknown_tagged_fields()?;
        Ok(OffsetFetchTopic { name, topic_id, partitions })
    }
}

/// An OffsetFetch response. Before v8, the first group is all it says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OffsetFetchResponse {
    pub throttle_time_ms: i32,
    pub groups: Vec<OffsetFetchResponseGroup>,
}

/// A group of an OffsetFetch response.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OffsetFetchResponseGroup {
    pub group_id: StrBytes,
    pub topics: Vec<OffsetFetchResponseTopic>,
    /// Has no place before v2.
    pub error_code: ErrorCode,
}

/// A topic of an OffsetFetch response.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OffsetFetchResponseTopic {
    pub name: StrBytes,
    pub topic_id: TopicId,
    pub partitions: Vec<OffsetFetchResponsePartition>,
}

/// A partition of an OffsetFetch response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OffsetFetchResponsePartition {
    pub partition: PartitionId,
    /// -1: none.
    pub committed_offset: Offset,
    pub committed_leader_epoch: LeaderEpoch,
    pub metadata: Option<StrBytes>,
    pub error_code: ErrorCode,
}

impl OffsetFetchResponsePartition {
    /// Without an offset: an error, or simply none committed.
    pub fn without_offset(partition: PartitionId, error_code: ErrorCode) -> OffsetFetchResponsePartition {
        OffsetFetchResponsePartition {
            partition,
            committed_offset: Offset(-1),
            committed_leader_epoch: LeaderEpoch::UNKNOWN,
            metadata: Some(StrBytes::new()),
            error_code,
        }
    }
}

impl OffsetFetchResponseTopic {
    /// About what it takes in the answer, in bytes.
    pub fn approximate_size(&self) -> usize {
        let metadata: usize =
            self.partitions.iter().filter_map(|partition| partition.metadata.as_ref()).map(|text| text.len()).sum();
        // Index, offset, epoch, error and lengths.
        self.name.len() + 16 + self.partitions.len() * 24 + metadata
    }

    /// The topic with the same error for each partition that was asked for.
    pub fn error(topic: &OffsetFetchTopic, error_code: ErrorCode) -> OffsetFetchResponseTopic {
        let partitions = topic.partitions.iter();
        OffsetFetchResponseTopic {
            name: topic.name.clone(),
            topic_id: topic.topic_id,
            partitions: partitions
                .map(|partition| OffsetFetchResponsePartition::without_offset(*partition, error_code))
                .collect(),
        }
    }
}

impl OffsetFetchResponseGroup {
    /// An error of the whole group, where the version has a place for it.
    pub fn error(group: &OffsetFetchGroup, error_code: ErrorCode, version: i16) -> OffsetFetchResponseGroup {
        let mut response = OffsetFetchResponseGroup { group_id: group.group_id.clone(), ..Default::default() };
        if version >= FIRST_GROUP_ERROR_VERSION {
            response.error_code = error_code;
        } else {
            let topics = group.topics.iter().flatten();
            response.topics = topics.map(|topic| OffsetFetchResponseTopic::error(topic, error_code)).collect();
        }
        response
    }

    fn write_topics(&self, writer: &mut Writer, version: i16) {
        writer.length(Some(self.topics.len()));
        for topic in &self.topics {
            if version >= FIRST_TOPIC_ID_VERSION {
                writer.uuid(topic.topic_id.0);
            } else {
                writer.string(&topic.name);
            }
            writer.length(Some(topic.partitions.len()));
            for partition in &topic.partitions {
                writer.i32(partition.partition.0);
                writer.i64(partition.committed_offset.0);
                // v5+: KIP-320.
                if version >= 5 {
                    writer.i32(partition.committed_leader_epoch.0);
                }
                writer.nullable_string(partition.metadata.as_deref());
                writer.i16(partition.error_code.code());
                writer.no_tagged_fields();
            }
            writer.no_tagged_fields();
        }
    }
}

impl OffsetFetchResponse {
    /// Writes the frame, without its length, of the response to the request that `header` stood before.
    pub fn encode(&self, header: &RequestHeader) -> Result<Bytes, EncodeError> {
        let version = header.api_version;
        let mut buffer = BytesMut::with_capacity(128);
        header.put_response_header(&mut buffer);
        let mut writer = Writer::new(buffer, ApiKey::OffsetFetch.is_flexible(version));
        // v3+: KIP-124.
        if version >= 3 {
            writer.i32(self.throttle_time_ms);
        }
        if version >= FIRST_BATCH_VERSION {
            writer.length(Some(self.groups.len()));
            for group in &self.groups {
                writer.string(&group.group_id);
                group.write_topics(&mut writer, version);
                writer.i16(group.error_code.code());
                writer.no_tagged_fields();
            }
        } else {
            let none = OffsetFetchResponseGroup::default();
            let group = self.groups.first().unwrap_or(&none);
            group.write_topics(&mut writer, version);
            if version >= FIRST_GROUP_ERROR_VERSION {
                writer.i16(group.error_code.code());
            }
        }
        writer.no_tagged_fields();
        if !frame::fits(writer.bytes.len()) {
            return Err(EncodeError::TooLong { api_key: ApiKey::OffsetFetch, version });
        }
        Ok(writer.bytes.freeze())
    }
}

#[cfg(test)]
mod tests;
