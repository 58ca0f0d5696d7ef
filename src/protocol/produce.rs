//! Produce (key 0), by hand: the request keeps its records as slices of the frame, and takes two allocations however
//! many partitions it has.
//!
//! ```text
//! request   transactional_id nullable string · acks i16 · timeout_ms i32
//!           [topics: name string (v13+: topic_id uuid)
//!            [partitions: index i32 · records nullable bytes]]
//! response  [topics: name string (v13+: topic_id uuid)
//!            [partitions: index i32 · error_code i16 · base_offset i64 · log_append_time_ms i64
//!             · v5+: log_start_offset i64
//!             · v8+: [record_errors: batch_index i32 · message nullable string] · error_message nullable string
//!             · v10+: tag 0 current_leader (leader_id i32 · leader_epoch i32)]]
//!           throttle_time_ms i32
//!           v10+: tag 0 [node_endpoints: node_id i32 · host string · port i32 · rack nullable string]
//! ```
//! Flexible from v9 (KIP-482). v4 tells KAFKA_STORAGE_ERROR apart, v6 moves throttling to the client (KIP-219), v7
//! allows zstd (KIP-110), v8 has KIP-467's record errors, v10 KIP-951's leader hints, v12 KIP-890's implicit
//! AddPartitionsToTxn, v13 topic ids (KIP-516).

use std::ops::Range;

use bytes::{Bytes, BytesMut};
use kafka_protocol::protocol::StrBytes;

use super::errors::ErrorCode;
use super::frame;
use super::header::RequestHeader;
use super::leader::write_node_endpoints;
use super::messages::EncodeError;
use super::versions::ApiKey;
use super::wire::{DecodeError, Reader, Writer};
use crate::types::{Offset, PartitionId, TopicId};

pub use super::leader::{LeaderIdAndEpoch, NodeEndpoint};

/// First version that names topics by their id.
pub const FIRST_TOPIC_ID_VERSION: i16 = 13;

/// A Produce request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProduceRequest {
    pub transactional_id: Option<StrBytes>,
    /// -1: all in-sync replicas, 0: no answer wanted, 1: the leader. Not checked here.
    pub acks: i16,
    pub timeout_ms: i32,
    topics: Vec<ProduceTopic>,
    partitions: Vec<ProducePartition>,
}

/// A topic of a Produce request: by name up to v12 (the id is zero), by id from v13 (the name is empty).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProduceTopic {
    pub name: StrBytes,
    pub topic_id: TopicId,
    partitions: Range<usize>,
}

/// A partition of a Produce request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProducePartition {
    pub partition: PartitionId,
    /// Record batches, not looked at; a slice of the request's frame.
    pub records: Option<Bytes>,
}

impl ProduceRequest {
    /// Reads a body of version 3..=13. Bytes left over stay in `body`.
    pub fn decode(body: &mut Bytes, version: i16) -> Result<ProduceRequest, DecodeError> {
        let mut reader = Reader::new(body, ApiKey::Produce.is_flexible(version));
        let transactional_id = reader.nullable_string("transactional_id")?;
        let acks = reader.i16()?;
        let timeout_ms = reader.i32()?;
        let topic_count = reader.count("topic_data", 2)?;
        let mut topics = Vec::with_capacity(topic_count);
        let mut partitions = Vec::new();
        for _ in 0..topic_count {
            let (name, topic_id) = if version >= FIRST_TOPIC_ID_VERSION {
                (StrBytes::new(), TopicId(reader.uuid()?))
            } else {
                (reader.string("name")?, TopicId::ZERO)
            };
            let partition_count = reader.count("partition_data", 5)?;
            partitions.reserve(partition_count);
            let first = partitions.len();
            for _ in 0..partition_count {
                let partition = PartitionId(reader.i32()?);
                let records = reader.nullable_bytes()?;
                reader.unknown_tagged_fields()?;
                partitions.push(ProducePartition { partition, records });
            }
            reader.unknown_tagged_fields()?;
            topics.push(ProduceTopic { name, topic_id, partitions: first..partitions.len() });
        }
        reader.unknown_tagged_fields()?;
        Ok(ProduceRequest { transactional_id, acks, timeout_ms, topics, partitions })
    }

    /// The topics in the order of the request, each with its partitions.
    pub fn topics(&self) -> impl ExactSizeIterator<Item = (&ProduceTopic, &[ProducePartition])> {
        self.topics.iter().map(|topic| (topic, &self.partitions[topic.partitions.clone()]))
    }

    /// How many partitions the request has, over all topics.
    pub fn partition_count(&self) -> usize {
        self.partitions.len()
    }

    /// Adds a topic, as a test or another producer of requests does.
    pub fn push_topic(&mut self, name: StrBytes, topic_id: TopicId, partitions: Vec<ProducePartition>) {
        let first = self.partitions.len();
        self.partitions.extend(partitions);
        self.topics.push(ProduceTopic { name, topic_id, partitions: first..self.partitions.len() });
    }
}

/// A Produce response.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProduceResponse {
    pub topics: Vec<ProduceResponseTopic>,
    pub throttle_time_ms: i32,
    /// v10+ (KIP-951): where the leaders named in `current_leader` are.
    pub node_endpoints: Vec<NodeEndpoint>,
}

/// A topic of a Produce response; name and id as the request had them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProduceResponseTopic {
    pub name: StrBytes,
    pub topic_id: TopicId,
    pub partitions: Vec<ProduceResponsePartition>,
}

/// The outcome for a partition. Fields that the version of the request does not have are left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProduceResponsePartition {
    pub partition: PartitionId,
    pub error_code: ErrorCode,
    /// Offset given to the first record; -1 upon an error.
    pub base_offset: Offset,
    /// The broker's time if the topic uses LogAppendTime, else -1.
    pub log_append_time_ms: i64,
    pub log_start_offset: Offset,
    /// v8+ (KIP-467): the records at fault.
    pub record_errors: Vec<RecordError>,
    pub error_message: Option<StrBytes>,
    /// v10+ (KIP-951): who leads now.
    pub current_leader: Option<LeaderIdAndEpoch>,
}

/// A record that was refused (KIP-467).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordError {
    /// Position of the record in its batch.
    pub batch_index: i32,
    pub message: Option<StrBytes>,
}

impl ProduceResponsePartition {
    /// The answer to a partition that nothing was appended to.
    pub fn error(partition: PartitionId, error_code: ErrorCode) -> ProduceResponsePartition {
        ProduceResponsePartition {
            partition,
            error_code,
            base_offset: Offset(-1),
            log_append_time_ms: -1,
            log_start_offset: Offset(-1),
            record_errors: Vec::new(),
            error_message: None,
            current_leader: None,
        }
    }
}

impl ProduceResponse {
    /// Writes the frame, without its length, of the response to the request that `header` stood before.
    pub fn encode(&self, header: &RequestHeader) -> Result<Bytes, EncodeError> {
        let version = header.api_version;
        let partitions: usize = self.topics.iter().map(|topic| topic.partitions.len()).sum();
        let mut buffer = BytesMut::with_capacity(64 + self.topics.len() * 32 + partitions * 48);
        header.put_response_header(&mut buffer);
        let mut writer = Writer::new(buffer, ApiKey::Produce.is_flexible(version));
        self.write(&mut writer, version);
        if !frame::fits(writer.bytes.len()) {
            return Err(EncodeError::TooLong { api_key: ApiKey::Produce, version });
        }
        Ok(writer.bytes.freeze())
    }

    fn write(&self, writer: &mut Writer, version: i16) {
        writer.length(Some(self.topics.len()));
        for topic in &self.topics {
            if version >= FIRST_TOPIC_ID_VERSION {
                writer.uuid(topic.topic_id.0);
            } else {
                writer.string(&topic.name);
            }
            writer.length(Some(topic.partitions.len()));
            for partition in &topic.partitions {
                partition.write(writer, version);
            }
            writer.no_tagged_fields();
        }
        writer.i32(self.throttle_time_ms);
        // v10+: KIP-951.
        if version >= 10 && !self.node_endpoints.is_empty() {
            writer.unsigned_varint(1);
            writer.tagged_field(0, |writer| write_node_endpoints(writer, &self.node_endpoints));
        } else {
            writer.no_tagged_fields();
        }
    }
}

impl ProduceResponsePartition {
    fn write(&self, writer: &mut Writer, version: i16) {
        writer.i32(self.partition.0);
        writer.i16(self.error_code.code());
        writer.i64(self.base_offset.0);
        writer.i64(self.log_append_time_ms);
        // v5+: KIP-107's log start offset.
        if version >= 5 {
            writer.i64(self.log_start_offset.0);
        }
        // v8+: KIP-467.
        if version >= 8 {
            writer.length(Some(self.record_errors.len()));
            for error in &self.record_errors {
                writer.i32(error.batch_index);
                writer.nullable_string(error.message.as_deref());
                writer.no_tagged_fields();
            }
            writer.nullable_string(self.error_message.as_deref());
        }
        // v10+: KIP-951.
        match self.current_leader {
            Some(leader) if version >= 10 => {
                writer.unsigned_varint(1);
                writer.tagged_field(0, |writer| leader.write(writer));
            }
            _ => writer.no_tagged_fields(),
        }
    }
}

#[cfg(test)]
mod tests;
