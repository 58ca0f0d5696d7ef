//! Builds record batches, with the fields that Kafka's own builder gives them.

use bytes::Bytes;

use crate::record::batch::{
    BatchHeader, CONTROL_BIT, DELETE_HORIZON_BIT, HEADER_SIZE, HeaderFields, NO_SEQUENCE, NO_TIMESTAMP,
    TIMESTAMP_TYPE_BIT, TRANSACTIONAL_BIT,
};
use crate::record::compression::{self, Codec};
use crate::record::control::ControlRecord;
use crate::record::record::{self, Header, Record};
use crate::types::{LeaderEpoch, Offset, ProducerEpoch, ProducerId};

/// Collects records and makes a batch of them.
#[derive(Clone, Debug)]
pub struct RecordBatchBuilder {
    codec: Codec,
    level: i32,
    base_offset: Offset,
    leader_epoch: LeaderEpoch,
    log_append_time_ms: Option<i64>,
    delete_horizon_ms: Option<i64>,
    producer_id: ProducerId,
    producer_epoch: ProducerEpoch,
    base_sequence: i32,
    transactional: bool,
    control: bool,
    /// Space for the header, then the records, not compressed.
    bytes: Vec<u8>,
    record_count: i32,
    last_offset: Option<Offset>,
    base_timestamp: Option<i64>,
    max_timestamp: i64,
}

impl RecordBatchBuilder {
    /// A batch that is neither compressed nor of a producer, with the timestamps of its records.
    pub fn new(base_offset: Offset) -> RecordBatchBuilder {
        RecordBatchBuilder {
            codec: Codec::None,
            level: 0,
            base_offset,
            leader_epoch: LeaderEpoch::UNKNOWN,
            log_append_time_ms: None,
            delete_horizon_ms: None,
            producer_id: ProducerId::NONE,
            producer_epoch: ProducerEpoch::NONE,
            base_sequence: NO_SEQUENCE,
            transactional: false,
            control: false,
            bytes: vec![0; HEADER_SIZE],
            record_count: 0,
            last_offset: None,
            base_timestamp: None,
            max_timestamp: NO_TIMESTAMP,
        }
    }

    pub fn compression(self, codec: Codec, level: i32) -> Self {
        Self { codec, level, ..self }
    }

    pub fn leader_epoch(self, leader_epoch: LeaderEpoch) -> Self {
        Self { leader_epoch, ..self }
    }

    /// Makes it a batch of [`TimestampType::LogAppendTime`](crate::record::batch::TimestampType).
    pub fn log_append_time_ms(self, time_ms: i64) -> Self {
        Self { log_append_time_ms: Some(time_ms), ..self }
    }

    /// See [`BatchHeader::delete_horizon_ms`]. To be set before records are appended.
    pub fn delete_horizon_ms(self, time_ms: i64) -> Self {
        assert_eq!(self.record_count, 0, "the horizon takes the place of the base timestamp");
        Self { delete_horizon_ms: Some(time_ms), base_timestamp: Some(time_ms), ..self }
    }

    pub fn producer(self, producer_id: ProducerId, producer_epoch: ProducerEpoch, base_sequence: i32) -> Self {
        Self { producer_id, producer_epoch, base_sequence, ..self }
    }

    pub fn transactional(self, transactional: bool) -> Self {
        Self { transactional, ..self }
    }

    pub fn control(self, control: bool) -> Self {
        Self { control, ..self }
    }

    /// Makes room for records of so many bytes in all.
    pub fn reserve(mut self, size: usize) -> Self {
        self.bytes.reserve(size);
        self
    }

    /// Appends a record at the next offset.
    pub fn append(&mut self, timestamp: i64, key: Option<&[u8]>, value: Option<&[u8]>, headers: &[Header<'_>]) {
        let offset = self.last_offset.map_or(self.base_offset, |last| last.plus(1));
        self.append_at(offset, timestamp, key, value, headers.iter().copied());
    }

    /// Appends a control record at the next offset.
    pub fn append_control(&mut self, timestamp: i64, record: &ControlRecord) {
        assert!(self.control, "control records stand in control batches");
        self.append(timestamp, Some(&record.key()), Some(&record.value()), &[]);
    }

    /// Appends a record at `offset`, which is beyond that of the record before.
    pub fn append_at<'h>(
        &mut self,
        offset: Offset,
        timestamp: i64,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        headers: impl ExactSizeIterator<Item = Header<'h>> + Clone,
    ) {
        assert!(self.last_offset.is_none_or(|last| last < offset), "offsets grow within a batch");
        let base_timestamp = *self.base_timestamp.get_or_insert(timestamp);
        let timestamp_delta = timestamp.wrapping_sub(base_timestamp);
        let offset_delta = self.offset_delta(offset);
        record::write(&mut self.bytes, timestamp_delta, offset_delta, key, value, headers);
        self.record_count += 1;
        self.last_offset = Some(offset);
        self.max_timestamp = self.max_timestamp.max(timestamp);
    }

    /// Appends `record` of a batch with the same base offset, whose timestamps count from `base_timestamp`; `encoded` is
    /// how it stands there.
    pub fn append_copy(&mut self, base_timestamp: i64, record: &Record<'_>, encoded: &[u8]) {
        if self.log_append_time_ms.is_some() || *self.base_timestamp.get_or_insert(record.timestamp) != base_timestamp {
            let headers: Vec<Header<'_>> = record.headers.iter().collect();
            return self.append_at(record.offset, record.timestamp, record.key, record.value, headers.into_iter());
        }
        assert!(self.last_offset.is_none_or(|last| last < record.offset), "offsets grow within a batch");
        self.bytes.extend_from_slice(encoded);
        self.record_count += 1;
        self.last_offset = Some(record.offset);
        self.max_timestamp = self.max_timestamp.max(record.timestamp);
    }

    /// Makes `offset` the last of the batch, though there is no record at it (any more).
    pub fn set_last_offset(&mut self, offset: Offset) {
        assert!(self.last_offset.is_none_or(|last| last <= offset), "no record lies behind the last offset");
        self.last_offset = Some(offset);
    }

    pub fn record_count(&self) -> i32 {
        self.record_count
    }

    pub fn is_empty(&self) -> bool {
        self.record_count == 0
    }

    /// Size of the batch if it were not compressed.
    pub fn size_in_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// The finished batch. There must be a record, or a last offset.
    pub fn build(mut self) -> Bytes {
        self.compress();
        let header = self.header(&self.bytes[HEADER_SIZE..]);
        self.bytes[..HEADER_SIZE].copy_from_slice(header.as_bytes());
        self.bytes.into()
    }

    /// The finished batch in two parts. There must be a record, or a last offset.
    pub fn build_parts(mut self) -> (BatchHeader, Bytes) {
        self.compress();
        let header = self.header(&self.bytes[HEADER_SIZE..]);
        (header, Bytes::from(self.bytes).split_off(HEADER_SIZE))
    }

    fn compress(&mut self) {
        if self.codec != Codec::None {
            let mut compressed = Vec::with_capacity(HEADER_SIZE + self.bytes.len() / 2);
            compressed.resize(HEADER_SIZE, 0);
            compression::compress(self.codec, self.level, &self.bytes[HEADER_SIZE..], &mut compressed);
            self.bytes = compressed;
        }
    }

    fn header(&self, body: &[u8]) -> BatchHeader {
        let last_offset = self.last_offset.expect("a batch has a record or at least a last offset");
        let mut attributes = i16::from(self.codec.id());
        for (bit, set) in [
            (TIMESTAMP_TYPE_BIT, self.log_append_time_ms.is_some()),
            (TRANSACTIONAL_BIT, self.transactional),
            (CONTROL_BIT, self.control),
            (DELETE_HORIZON_BIT, self.delete_horizon_ms.is_some()),
        ] {
            if set {
                attributes |= bit;
            }
        }
        let fields = HeaderFields {
            base_offset: self.base_offset,
            leader_epoch: self.leader_epoch,
            attributes,
            last_offset_delta: self.offset_delta(last_offset),
            base_timestamp: self.base_timestamp.unwrap_or(NO_TIMESTAMP),
            max_timestamp: self.log_append_time_ms.unwrap_or(self.max_timestamp),
            producer_id: self.producer_id,
            producer_epoch: self.producer_epoch,
            base_sequence: self.base_sequence,
            record_count: self.record_count,
        };
        BatchHeader::build(&fields, body)
    }

    fn offset_delta(&self, offset: Offset) -> i32 {
        i32::try_from(offset.0 - self.base_offset.0).expect("a batch spans less than 2^31 offsets")
    }
}

#[cfg(test)]
mod tests;
