//! The Fetch request; its bytes are in the table of [`super`].

use std::ops::Range;

use bytes::Bytes;
use kafka_protocol::protocol::StrBytes;

use super::FIRST_TOPIC_ID_VERSION;
use crate::protocol::versions::ApiKey;
use crate::protocol::wire::{DecodeError, Reader};
use crate::types::{BrokerId, DirectoryId, LeaderEpoch, Offset, PartitionId, TopicId};

/// A Fetch request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchRequest {
    /// v12+: the cluster the client means to talk to; for the quorum alone.
    pub cluster_id: Option<StrBytes>,
    /// The follower that fetches, or -1 for a consumer.
    pub replica_id: BrokerId,
    /// v15+ (KIP-903): the follower's registration epoch, or -1.
    pub replica_epoch: i64,
    pub max_wait_ms: i32,
    pub min_bytes: i32,
    pub max_bytes: i32,
    /// 0: read uncommitted, 1: read committed. Not checked here.
    pub isolation_level: i8,
    /// 0 in a request without a session, and before v7.
    pub session_id: i32,
    /// -1 in a request without a session, and before v7.
    pub session_epoch: i32,
    /// v7+: partitions that leave the session.
    pub forgotten_topics: Vec<ForgottenTopic>,
    /// v11+: the rack the consumer is in; else empty.
    pub rack_id: StrBytes,
    topics: Vec<FetchTopic>,
    partitions: Vec<FetchPartition>,
}

/// A topic of a Fetch request: by name up to v12 (the id is zero), by id from v13 (the name is empty).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FetchTopic {
    pub name: StrBytes,
    pub topic_id: TopicId,
    partitions: Range<usize>,
}

/// A partition of a Fetch request. Fields that the version does not have are at their defaults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FetchPartition {
    pub partition: PartitionId,
    /// -1: not known to the client.
    pub current_leader_epoch: LeaderEpoch,
    pub fetch_offset: Offset,
    /// v12+: epoch of the last record the fetcher has, for truncation; -1: none.
    pub last_fetched_epoch: LeaderEpoch,
    /// v5+: the follower's log start offset; -1 from a consumer.
    pub log_start_offset: Offset,
    pub partition_max_bytes: i32,
    /// v17+: the follower's log directory; zero from a consumer.
    pub replica_directory_id: DirectoryId,
    /// v18+: the high watermark the follower knows; `i64::MAX` from one that does not say.
    pub high_watermark: Offset,
}

/// Partitions of a topic that leave a fetch session (KIP-227).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ForgottenTopic {
    pub name: StrBytes,
    pub topic_id: TopicId,
    pub partitions: Vec<PartitionId>,
}

impl Default for FetchRequest {
    fn default() -> FetchRequest {
        FetchRequest {
            cluster_id: None,
            replica_id: BrokerId(-1),
            replica_epoch: -1,
            max_wait_ms: 0,
            min_bytes: 0,
            max_bytes: i32::MAX,
            isolation_level: 0,
            session_id: 0,
            session_epoch: -1,
            forgotten_topics: Vec::new(),
            rack_id: StrBytes::new(),
            topics: Vec::new(),
            partitions: Vec::new(),
        }
    }
}

impl Default for FetchPartition {
    fn default() -> FetchPartition {
        FetchPartition {
            partition: PartitionId(0),
            current_leader_epoch: LeaderEpoch::UNKNOWN,
            fetch_offset: Offset(0),
            last_fetched_epoch: LeaderEpoch::UNKNOWN,
            log_start_offset: Offset(-1),
            partition_max_bytes: 0,
            replica_directory_id: DirectoryId::UNASSIGNED,
            high_watermark: Offset(i64::MAX),
        }
    }
}

impl FetchRequest {
    /// Reads a body of version 4..=18. Bytes left over stay in `body`.
    pub fn decode(body: &mut Bytes, version: i16) -> Result<FetchRequest, DecodeError> {
        let mut request = FetchRequest::default();
        let mut reader = Reader::new(body, ApiKey::Fetch.is_flexible(version));
        // v15+: in the tagged replica_state instead (KIP-903).
        if version <= 14 {
            request.replica_id = BrokerId(reader.i32()?);
        }
        request.max_wait_ms = reader.i32()?;
        request.min_bytes = reader.i32()?;
        request.max_bytes = reader.i32()?;
        request.isolation_level = reader.i8()?;
        // v7+: KIP-227.
        if version >= 7 {
            request.session_id = reader.i32()?;
            request.session_epoch = reader.i32()?;
        }
        request.decode_topics(&mut reader, version)?;
        if version >= 7 {
            request.forgotten_topics = ForgottenTopic::decode_all(&mut reader, version)?;
        }
        // v11+: KIP-392.
        if version >= 11 {
            request.rack_id = reader.string("rack_id")?;
        }
        reader.tagged_fields(|tag, reader| {
            match tag {
                0 => request.cluster_id = reader.nullable_string("cluster_id")?,
                // v15+: KIP-903.
                1 if version >= 15 => {
                    request.replica_id = BrokerId(reader.i32()?);
                    request.replica_epoch = reader.i64()?;
                    reader.unknown_tagged_fields()?;
                }
                1 => return Err(DecodeError::Tag { tag }),
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        Ok(request)
    }

    fn decode_topics(&mut self, reader: &mut Reader<'_>, version: i16) -> Result<(), DecodeError> {
        let topic_count = reader.count("topics", 2)?;
        self.topics.reserve(topic_count);
        for _ in 0..topic_count {
            let (name, topic_id) = decode_topic(reader, version)?;
            let partition_count = reader.count("partitions", 16)?;
            self.partitions.reserve(partition_count);
            let first = self.partitions.len();
            for _ in 0..partition_count {
                self.partitions.push(FetchPartition::decode(reader, version)?);
            }
            reader.unknown_tagged_fields()?;
            self.topics.push(FetchTopic { name, topic_id, partitions: first..self.partitions.len() });
        }
        Ok(())
    }

    /// The topics in the order of the request, each with its partitions.
    pub fn topics(&self) -> impl ExactSizeIterator<Item = (&FetchTopic, &[FetchPartition])> {
        self.topics.iter().map(|topic| (topic, &self.partitions[topic.partitions.clone()]))
    }

    /// How many partitions the request has, over all topics.
    pub fn partition_count(&self) -> usize {
        self.partitions.len()
    }

    /// Adds a topic, as a test or another producer of requests does.
    pub fn push_topic(&mut self, name: StrBytes, topic_id: TopicId, partitions: Vec<FetchPartition>) {
        let first = self.partitions.len();
        self.partitions.extend(partitions);
        self.topics.push(FetchTopic { name, topic_id, partitions: first..self.partitions.len() });
    }
}

fn decode_topic(reader: &mut Reader<'_>, version: i16) -> Result<(StrBytes, TopicId), DecodeError> {
    if version >= FIRST_TOPIC_ID_VERSION {
        Ok((StrBytes::new(), TopicId(reader.uuid()?)))
    } else {
        Ok((reader.string("topic")?, TopicId::ZERO))
    }
}

impl FetchPartition {
    fn decode(reader: &mut Reader<'_>, version: i16) -> Result<FetchPartition, DecodeError> {
        let mut partition = FetchPartition { partition: PartitionId(reader.i32()?), ..FetchPartition::default() };
        // v9+: KIP-320.
        if version >= 9 {
            partition.current_leader_epoch = LeaderEpoch(reader.i32()?);
        }
        partition.fetch_offset = Offset(reader.i64()?);
        // v12+: KIP-595.
        if version >= 12 {
            partition.last_fetched_epoch = LeaderEpoch(reader.i32()?);
        }
        // v5+: KIP-107.
        if version >= 5 {
            partition.log_start_offset = Offset(reader.i64()?);
        }
        partition.partition_max_bytes = reader.i32()?;
        reader.tagged_fields(|tag, reader| {
            match tag {
                // v17+: KIP-853.
                0 if version >= 17 => partition.replica_directory_id = DirectoryId(reader.uuid()?),
                // v18+: KIP-1166.
                1 if version >= 18 => partition.high_watermark = Offset(reader.i64()?),
                0 | 1 => return Err(DecodeError::Tag { tag }),
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        Ok(partition)
    }
}

impl ForgottenTopic {
    fn decode_all(reader: &mut Reader<'_>, version: i16) -> Result<Vec<ForgottenTopic>, DecodeError> {
        let count = reader.count("forgotten_topics_data", 2)?;
        let mut topics = Vec::with_capacity(count);
        for _ in 0..count {
            let (name, topic_id) = decode_topic(reader, version)?;
            let partition_count = reader.count("partitions", 4)?;
            let mut partitions = Vec::with_capacity(partition_count);
            for _ in 0..partition_count {
                partitions.push(PartitionId(reader.i32()?));
            }
            reader.unknown_tagged_fields()?;
            topics.push(ForgottenTopic { name, topic_id, partitions });
        }
        Ok(topics)
    }
}
