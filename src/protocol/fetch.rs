//! Fetch (key 1), by hand: the request is read in a few allocations however many partitions it has, and the records of
//! the response are spliced in between its bytes, as [`Frame`]'s chunks, without being copied or even read.
//!
//! ```text
//! request   v4..14: replica_id i32 · max_wait_ms i32 · min_bytes i32 · max_bytes i32 · isolation_level i8
//!           v7+: session_id i32 · session_epoch i32
//!           [topics: topic string (v13+: topic_id uuid)
//!            [partitions: partition i32 · v9+: current_leader_epoch i32 · fetch_offset i64
//!             · v12+: last_fetched_epoch i32 · v5+: log_start_offset i64 · partition_max_bytes i32
//!             · v17+: tag 0 replica_directory_id uuid · v18+: tag 1 high_watermark i64]]
//!           v7+: [forgotten_topics_data: topic string (v13+: topic_id uuid) · [partitions i32]]
//!           v11+: rack_id string
//!           v12+: tag 0 cluster_id nullable string · v15+: tag 1 replica_state (replica_id i32 · replica_epoch i64)
//! response  throttle_time_ms i32 · v7+: error_code i16 · session_id i32
//!           [responses: topic string (v13+: topic_id uuid)
//!            [partitions: partition_index i32 · error_code i16 · high_watermark i64 · last_stable_offset i64
//!             · v5+: log_start_offset i64 · [aborted_transactions: producer_id i64 · first_offset i64]
//!             · v11+: preferred_read_replica i32 · records bytes
//!             · v12+: tag 0 diverging_epoch (epoch i32 · end_offset i64) · tag 1 current_leader (leader_id i32
//!               · leader_epoch i32) · tag 2 snapshot_id (end_offset i64 · epoch i32)]]
//!           v16+: tag 0 [node_endpoints: node_id i32 · host string · port i32 · rack nullable string]
//! ```
//! Flexible from v12 (KIP-482). v7 has sessions (KIP-227), v9 and v12 leader epochs (KIP-320, KIP-595), v11 fetching
//! from followers (KIP-392), v13 topic ids (KIP-516), v15 the replica's epoch (KIP-903), v16 leader hints (KIP-951),
//! v17 directory ids (KIP-853), v18 the follower's high watermark (KIP-1166).

use std::ops::Range;

use bytes::{Bytes, BytesMut};
use kafka_protocol::protocol::StrBytes;

use super::errors::ErrorCode;
use super::frame::{self, Chunk, Frame};
use super::header::RequestHeader;
use super::messages::EncodeError;
use super::produce::{LeaderIdAndEpoch, NodeEndpoint, write_node_endpoints};
use super::versions::ApiKey;
use super::wire::{DecodeError, Reader, Writer};
use crate::types::{BrokerId, DirectoryId, LeaderEpoch, Offset, PartitionId, ProducerId, TopicId};

/// First version that names topics by their id.
pub const FIRST_TOPIC_ID_VERSION: i16 = 13;

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

/// A Fetch response whose records may be pieces of files of type `F`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchResponse<F> {
    pub throttle_time_ms: i32,
    /// v7+: the error of the whole request.
    pub error_code: ErrorCode,
    /// v7+: 0 if there is no session.
    pub session_id: i32,
    pub topics: Vec<FetchResponseTopic<F>>,
    /// v16+ (KIP-951): where the leaders named in `current_leader` are.
    pub node_endpoints: Vec<NodeEndpoint>,
}

/// A topic of a Fetch response; name and id as the request had them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchResponseTopic<F> {
    pub name: StrBytes,
    pub topic_id: TopicId,
    pub partitions: Vec<FetchResponsePartition<F>>,
}

/// What was fetched of a partition. Fields that the version of the request does not have are left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchResponsePartition<F> {
    pub partition: PartitionId,
    pub error_code: ErrorCode,
    pub high_watermark: Offset,
    pub last_stable_offset: Offset,
    pub log_start_offset: Offset,
    /// `None` (null) to a reader of uncommitted records.
    pub aborted_transactions: Option<Vec<AbortedTransaction>>,
    /// v11+ (KIP-392): another replica to fetch from; -1: none.
    pub preferred_read_replica: BrokerId,
    pub records: FetchRecords<F>,
    /// v12+ (KIP-595): where the fetcher's log and the leader's part ways.
    pub diverging_epoch: Option<EpochEndOffset>,
    /// v12+ (KIP-595, KIP-951): who leads now.
    pub current_leader: Option<LeaderIdAndEpoch>,
    /// v12+ (KIP-630): the snapshot to fetch instead.
    pub snapshot_id: Option<SnapshotId>,
}

/// A transaction whose records a reader of committed records must drop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AbortedTransaction {
    pub producer_id: ProducerId,
    pub first_offset: Offset,
}

/// End of an epoch in the leader's log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EpochEndOffset {
    pub epoch: LeaderEpoch,
    pub end_offset: Offset,
}

/// Names a snapshot of the metadata log (KIP-630).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotId {
    pub end_offset: Offset,
    pub epoch: LeaderEpoch,
}

/// The records of a partition. There is no null: librdkafka refuses it, so nothing is said by empty bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum FetchRecords<F> {
    #[default]
    Empty,
    Bytes(Bytes),
    /// `length` bytes that the connection takes from `slice` itself.
    File {
        slice: F,
        length: usize,
    },
}

impl<F> FetchRecords<F> {
    /// Bytes of records.
    pub fn len(&self) -> usize {
        match self {
            FetchRecords::Empty => 0,
            FetchRecords::Bytes(bytes) => bytes.len(),
            FetchRecords::File { length, .. } => *length,
        }
    }

    /// Whether there are no records.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<F> FetchResponsePartition<F> {
    /// The answer to a partition of which nothing can be said.
    pub fn error(partition: PartitionId, error_code: ErrorCode) -> FetchResponsePartition<F> {
        FetchResponsePartition {
            partition,
            error_code,
            high_watermark: Offset(-1),
            last_stable_offset: Offset(-1),
            log_start_offset: Offset(-1),
            aborted_transactions: None,
            preferred_read_replica: BrokerId(-1),
            records: FetchRecords::Empty,
            diverging_epoch: None,
            current_leader: None,
            snapshot_id: None,
        }
    }
}

impl<F> Default for FetchResponse<F> {
    fn default() -> FetchResponse<F> {
        FetchResponse {
            throttle_time_ms: 0,
            error_code: ErrorCode::None,
            session_id: 0,
            topics: Vec::new(),
            node_endpoints: Vec::new(),
        }
    }
}

/// Records shorter than this are copied into the frame: one more piece to write would cost more.
const INLINE_RECORDS: usize = 512;

/// Bytes of a partition besides its records, generously, to size the buffer once.
const PARTITION_SIZE: usize = 64;

impl<F> FetchResponse<F> {
    /// Writes the frame, without its length, of the response to the request that `header` stood before, with the
    /// records spliced in.
    pub fn encode(self, header: &RequestHeader) -> Result<Frame<F>, EncodeError> {
        let version = header.api_version;
        let flexible = ApiKey::Fetch.is_flexible(version);
        let partitions: usize = self.topics.iter().map(|topic| topic.partitions.len()).sum();
        let mut buffer = BytesMut::with_capacity(64 + self.topics.len() * 64 + partitions * PARTITION_SIZE);
        header.put_response_header(&mut buffer);
        let mut encoder = Encoder { writer: Writer::new(buffer, flexible), version, holes: Vec::new() };
        encoder.response(self);
        encoder.finish().ok_or(EncodeError::TooLong { api_key: ApiKey::Fetch, version })
    }
}

/// Writes a response, and notes where its records belong.
struct Encoder<F> {
    writer: Writer,
    version: i16,
    /// Position in the writer's bytes, and what goes there.
    holes: Vec<(usize, Chunk<F>)>,
}

impl<F> Encoder<F> {
    fn response(&mut self, response: FetchResponse<F>) {
        self.writer.i32(response.throttle_time_ms);
        // v7+: KIP-227.
        if self.version >= 7 {
            self.writer.i16(response.error_code.code());
            self.writer.i32(response.session_id);
        }
        self.writer.length(Some(response.topics.len()));
        for topic in response.topics {
            if self.version >= FIRST_TOPIC_ID_VERSION {
                self.writer.uuid(topic.topic_id.0);
            } else {
                self.writer.string(&topic.name);
            }
            self.writer.length(Some(topic.partitions.len()));
            for partition in topic.partitions {
                self.partition(partition);
            }
            self.writer.no_tagged_fields();
        }
        // v16+: KIP-951.
        if self.version >= 16 && !response.node_endpoints.is_empty() {
            self.writer.unsigned_varint(1);
            self.writer.tagged_field(0, |writer| write_node_endpoints(writer, &response.node_endpoints));
        } else {
            self.writer.no_tagged_fields();
        }
    }

    fn partition(&mut self, partition: FetchResponsePartition<F>) {
        let writer = &mut self.writer;
        writer.i32(partition.partition.0);
        writer.i16(partition.error_code.code());
        writer.i64(partition.high_watermark.0);
        writer.i64(partition.last_stable_offset.0);
        // v5+: KIP-107.
        if self.version >= 5 {
            writer.i64(partition.log_start_offset.0);
        }
        writer.length(partition.aborted_transactions.as_ref().map(Vec::len));
        for transaction in partition.aborted_transactions.iter().flatten() {
            writer.i64(transaction.producer_id.0);
            writer.i64(transaction.first_offset.0);
            writer.no_tagged_fields();
        }
        // v11+: KIP-392.
        if self.version >= 11 {
            writer.i32(partition.preferred_read_replica.0);
        }
        writer.length(Some(partition.records.len()));
        let position = writer.bytes.len();
        match partition.records {
            FetchRecords::Empty => {}
            FetchRecords::Bytes(bytes) if bytes.len() < INLINE_RECORDS => writer.bytes.extend_from_slice(&bytes),
            FetchRecords::Bytes(bytes) => self.holes.push((position, Chunk::Bytes(bytes))),
            FetchRecords::File { length: 0, .. } => {}
            FetchRecords::File { slice, length } => self.holes.push((position, Chunk::File { slice, length })),
        }
        if self.version < 12 {
            return;
        }
        // v12+: KIP-595, KIP-630.
        let tags = u32::from(partition.diverging_epoch.is_some())
            + u32::from(partition.current_leader.is_some())
            + u32::from(partition.snapshot_id.is_some());
        writer.unsigned_varint(tags);
        if let Some(EpochEndOffset { epoch, end_offset }) = partition.diverging_epoch {
            writer.tagged_field(0, |writer| {
                writer.i32(epoch.0);
                writer.i64(end_offset.0);
                writer.no_tagged_fields();
            });
        }
        if let Some(leader) = partition.current_leader {
            writer.tagged_field(1, |writer| leader.write(writer));
        }
        if let Some(SnapshotId { end_offset, epoch }) = partition.snapshot_id {
            writer.tagged_field(2, |writer| {
                writer.i64(end_offset.0);
                writer.i32(epoch.0);
                writer.no_tagged_fields();
            });
        }
    }

    fn finish(self) -> Option<Frame<F>> {
        let bytes = self.writer.bytes.freeze();
        let elsewhere: usize = self.holes.iter().map(|(_, chunk)| chunk.len()).sum();
        if !frame::fits(bytes.len() + elsewhere) {
            return None;
        }
        let mut chunks = Vec::with_capacity(2 * self.holes.len() + 1);
        let mut written = 0;
        for (position, chunk) in self.holes {
            chunks.push(Chunk::Bytes(bytes.slice(written..position)));
            chunks.push(chunk);
            written = position;
        }
        if written < bytes.len() {
            chunks.push(Chunk::Bytes(bytes.slice(written..)));
        }
        Some(Frame { chunks })
    }
}

#[cfg(test)]
mod tests;
