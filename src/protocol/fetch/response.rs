//! The Fetch response; its bytes are in the table of [`super`].

use bytes::{Bytes, BytesMut};
use kafka_protocol::protocol::StrBytes;

use super::FIRST_TOPIC_ID_VERSION;
use crate::protocol::errors::ErrorCode;
use crate::protocol::frame::{self, Chunk, Frame};
use crate::protocol::header::RequestHeader;
use crate::protocol::leader::{LeaderIdAndEpoch, NodeEndpoint, write_node_endpoints};
use crate::protocol::messages::EncodeError;
use crate::protocol::versions::ApiKey;
use crate::protocol::wire::Writer;
use crate::types::{BrokerId, LeaderEpoch, Offset, PartitionId, ProducerId, TopicId};

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
pub(super) const INLINE_RECORDS: usize = 512;

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
