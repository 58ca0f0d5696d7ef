//! The header of a v2 record batch: a checked view over bytes that hold one, and an owned copy that can be patched.
//!
//! | at | size | field |
//! |---|---|---|
//! | 0 | 8 | base offset |
//! | 8 | 4 | length of all that follows this field |
//! | 12 | 4 | partition leader epoch |
//! | 16 | 1 | magic: 2 |
//! | 17 | 4 | CRC-32C of everything from the attributes to the end |
//! | 21 | 2 | attributes: codec in bits 0..2, 3 LogAppendTime, 4 transactional, 5 control, 6 delete horizon in the base timestamp |
//! | 23 | 4 | last offset delta |
//! | 27 | 8 | base timestamp |
//! | 35 | 8 | max timestamp |
//! | 43 | 8 | producer id |
//! | 51 | 2 | producer epoch |
//! | 53 | 4 | base sequence |
//! | 57 | 4 | count of records |
//! | 61 | | records, compressed as one if a codec is set |
//!
//! Base offset, leader epoch and magic are outside of the CRC: the first two are assigned without a new one, and a
//! damaged magic is only seen by looking at it. A view guarantees size and magic; every other field is as untrusted as
//! the bytes it came from, so arithmetic on them wraps as Java's does.

use crate::record::compression::{Codec, UnknownCodec};
use crate::types::{LeaderEpoch, Offset, ProducerEpoch, ProducerId};

/// Bytes of a batch before its records.
pub const HEADER_SIZE: usize = 61;
/// Base offset and length: what the length field does not count.
pub const LOG_OVERHEAD: usize = 12;
/// The magic of the only format that is written.
pub const MAGIC: i8 = 2;
/// "No timestamp", in records and in headers.
pub const NO_TIMESTAMP: i64 = -1;
/// The base sequence of a batch that no idempotent producer wrote.
pub const NO_SEQUENCE: i32 = -1;

const BASE_OFFSET: usize = 0;
const LENGTH: usize = 8;
const LEADER_EPOCH: usize = 12;
const MAGIC_AT: usize = 16;
const CRC: usize = 17;
const ATTRIBUTES: usize = 21;
const LAST_OFFSET_DELTA: usize = 23;
const BASE_TIMESTAMP: usize = 27;
const MAX_TIMESTAMP: usize = 35;
const PRODUCER_ID: usize = 43;
const PRODUCER_EPOCH: usize = 51;
const BASE_SEQUENCE: usize = 53;
const RECORD_COUNT: usize = 57;

/// The length that the smallest message of any format has (v0); less is nonsense.
const MIN_LENGTH: i32 = 14;
/// Up to and with the magic.
const SIZE_UP_TO_MAGIC: usize = 17;

pub(crate) const CODEC_MASK: i16 = 0x07;
pub(crate) const TIMESTAMP_TYPE_BIT: i16 = 0x08;
pub(crate) const TRANSACTIONAL_BIT: i16 = 0x10;
pub(crate) const CONTROL_BIT: i16 = 0x20;
pub(crate) const DELETE_HORIZON_BIT: i16 = 0x40;

/// Whose clock a batch's timestamps are of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum TimestampType {
    /// The producer set the timestamp of each record.
    #[default]
    CreateTime,
    /// The broker's time of append, in the header's max timestamp, counts for all records.
    LogAppendTime,
}

/// Why bytes are not a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BatchError {
    /// The bytes end before the batch does; `needed` counts from the batch's start, as far as it can be told.
    #[error("record batch of at least {needed} bytes is cut off after {available}")]
    Incomplete { needed: usize, available: usize },
    #[error("Record size {0} is less than the minimum record overhead ({MIN_LENGTH})")]
    LengthTooSmall(i32),
    #[error("Invalid magic found in record: {0}")]
    InvalidMagic(i8),
    /// A message set of format v0 or v1. `size` bytes lead to whatever follows it.
    #[error("message format v{magic} is no longer supported")]
    OldFormat { magic: i8, size: usize },
    /// A length that, with what it does not count, leaves the range of 32 bits.
    #[error("record batch of length {0} is larger than 2 GiB")]
    LengthTooLarge(i32),
    #[error("Record batch is corrupt (the size {0} is smaller than the minimum allowed overhead {HEADER_SIZE})")]
    SmallerThanHeader(usize),
}

macro_rules! header_fields {
    ($($type:tt)+) => {
        impl $($type)+ {
            pub fn base_offset(&self) -> Offset {
                Offset(i64_at(self.header(), BASE_OFFSET))
            }

            /// Offset of the last record. Compaction may have removed that record; the offset stays.
            pub fn last_offset(&self) -> Offset {
                Offset(self.base_offset().0.wrapping_add(i64::from(self.last_offset_delta())))
            }

            /// Size of the whole batch, header included.
            pub fn size_in_bytes(&self) -> usize {
                LOG_OVERHEAD.saturating_add_signed(i32_at(self.header(), LENGTH) as isize)
            }

            pub fn partition_leader_epoch(&self) -> LeaderEpoch {
                LeaderEpoch(i32_at(self.header(), LEADER_EPOCH))
            }

            pub fn magic(&self) -> i8 {
                self.header()[MAGIC_AT] as i8
            }

            /// The CRC-32C as stored.
            pub fn crc(&self) -> u32 {
                i32_at(self.header(), CRC) as u32
            }

            pub fn attributes(&self) -> i16 {
                i16_at(self.header(), ATTRIBUTES)
            }

            pub fn codec(&self) -> Result<Codec, UnknownCodec> {
                Codec::from_id((self.attributes() & CODEC_MASK) as u8)
            }

            pub fn timestamp_type(&self) -> TimestampType {
                match self.attributes() & TIMESTAMP_TYPE_BIT {
                    0 => TimestampType::CreateTime,
                    _ => TimestampType::LogAppendTime,
                }
            }

            pub fn is_transactional(&self) -> bool {
                self.attributes() & TRANSACTIONAL_BIT != 0
            }

            pub fn is_control(&self) -> bool {
                self.attributes() & CONTROL_BIT != 0
            }

            /// When the tombstones and markers of the batch may be removed (KIP-534); compaction sets it.
            pub fn delete_horizon_ms(&self) -> Option<i64> {
                (self.attributes() & DELETE_HORIZON_BIT != 0).then(|| self.base_timestamp())
            }

            pub fn last_offset_delta(&self) -> i32 {
                i32_at(self.header(), LAST_OFFSET_DELTA)
            }

            /// What the timestamps of the records count from.
            pub fn base_timestamp(&self) -> i64 {
                i64_at(self.header(), BASE_TIMESTAMP)
            }

            pub fn max_timestamp(&self) -> i64 {
                i64_at(self.header(), MAX_TIMESTAMP)
            }

            pub fn producer_id(&self) -> ProducerId {
                ProducerId(i64_at(self.header(), PRODUCER_ID))
            }

            /// Whether an idempotent producer wrote the batch.
            pub fn has_producer_id(&self) -> bool {
                self.producer_id().0 > ProducerId::NONE.0
            }

            pub fn producer_epoch(&self) -> ProducerEpoch {
                ProducerEpoch(i16_at(self.header(), PRODUCER_EPOCH))
            }

            pub fn base_sequence(&self) -> i32 {
                i32_at(self.header(), BASE_SEQUENCE)
            }

            /// Sequence of the last record; after `i32::MAX` comes 0.
            pub fn last_sequence(&self) -> i32 {
                match self.base_sequence() {
                    NO_SEQUENCE => NO_SEQUENCE,
                    base => increment_sequence(base, self.last_offset_delta()),
                }
            }

            /// The count of records as the header says it, of any sign.
            pub fn record_count(&self) -> i32 {
                i32_at(self.header(), RECORD_COUNT)
            }
        }
    };
}

/// A view over the bytes of one batch: size fields and magic are checked, the CRC is not.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct RecordBatch<'a> {
    bytes: &'a [u8],
}

header_fields!(RecordBatch<'_>);

impl<'a> RecordBatch<'a> {
    /// The batch at the start of `bytes`; what follows it is left alone.
    pub fn parse(bytes: &'a [u8]) -> Result<RecordBatch<'a>, BatchError> {
        let size = batch_size(bytes)?;
        match bytes.get(..size) {
            None => Err(BatchError::Incomplete { needed: size, available: bytes.len() }),
            Some(bytes) if size < HEADER_SIZE => Err(BatchError::SmallerThanHeader(bytes.len())),
            Some(bytes) => Ok(RecordBatch { bytes }),
        }
    }

    /// All bytes of the batch.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The records section, compressed if the batch is.
    pub fn body(&self) -> &'a [u8] {
        &self.bytes[HEADER_SIZE..]
    }

    /// An owned copy of the header.
    pub fn to_header(&self) -> BatchHeader {
        BatchHeader(*self.header())
    }

    pub fn is_crc_valid(&self) -> bool {
        self.crc() == self.computed_crc()
    }

    /// The CRC-32C as it should be.
    pub fn computed_crc(&self) -> u32 {
        crc32c::crc32c(&self.bytes[ATTRIBUTES..])
    }

    fn header(&self) -> &'a [u8; HEADER_SIZE] {
        self.bytes.first_chunk().expect("parse has checked the size")
    }
}

impl std::fmt::Debug for RecordBatch<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.to_header().fmt(f)
    }
}

/// What a header says, apart from what follows from the body.
pub(crate) struct HeaderFields {
    pub base_offset: Offset,
    pub leader_epoch: LeaderEpoch,
    pub attributes: i16,
    pub last_offset_delta: i32,
    pub base_timestamp: i64,
    pub max_timestamp: i64,
    pub producer_id: ProducerId,
    pub producer_epoch: ProducerEpoch,
    pub base_sequence: i32,
    pub record_count: i32,
}

/// An owned copy of a batch's header, to be patched and written in front of the batch's unchanged body.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct BatchHeader([u8; HEADER_SIZE]);

header_fields!(BatchHeader);

impl BatchHeader {
    /// The header in `bytes`. Only the magic and a length that covers the header are checked.
    pub fn from_bytes(bytes: [u8; HEADER_SIZE]) -> Result<BatchHeader, BatchError> {
        match batch_size(&bytes)? {
            size if size < HEADER_SIZE => Err(BatchError::SmallerThanHeader(size)),
            _ => Ok(BatchHeader(bytes)),
        }
    }

    pub fn as_bytes(&self) -> &[u8; HEADER_SIZE] {
        &self.0
    }

    /// Outside of the CRC.
    pub fn set_base_offset(&mut self, offset: Offset) {
        self.put(BASE_OFFSET, offset.0.to_be_bytes());
    }

    /// Outside of the CRC.
    pub fn set_partition_leader_epoch(&mut self, epoch: LeaderEpoch) {
        self.put(LEADER_EPOCH, epoch.0.to_be_bytes());
    }

    /// Sets the timestamp type and the max timestamp, and the CRC if that changed anything. `body` is what follows the
    /// header. As in Kafka, a change drops the attribute bits that have no meaning, and no change keeps them.
    pub fn set_max_timestamp(&mut self, timestamp_type: TimestampType, max_timestamp: i64, body: &[u8]) {
        if self.timestamp_type() == timestamp_type && self.max_timestamp() == max_timestamp {
            return;
        }
        let kept = CODEC_MASK | TRANSACTIONAL_BIT | CONTROL_BIT | DELETE_HORIZON_BIT;
        let bit = match timestamp_type {
            TimestampType::CreateTime => 0,
            TimestampType::LogAppendTime => TIMESTAMP_TYPE_BIT,
        };
        self.put(ATTRIBUTES, (self.attributes() & kept | bit).to_be_bytes());
        self.put(MAX_TIMESTAMP, max_timestamp.to_be_bytes());
        self.set_crc(body);
    }

    /// Computes the CRC of this header in front of `body`.
    pub(crate) fn set_crc(&mut self, body: &[u8]) {
        let crc = crc32c::crc32c_append(crc32c::crc32c(&self.0[ATTRIBUTES..]), body);
        self.put(CRC, crc.to_be_bytes());
    }

    /// The header of these fields in front of `body`.
    pub(crate) fn build(fields: &HeaderFields, body: &[u8]) -> BatchHeader {
        let size = i32::try_from(HEADER_SIZE + body.len()).expect("a batch is smaller than 2 GiB");
        let mut header = BatchHeader([0; HEADER_SIZE]);
        header.put(BASE_OFFSET, fields.base_offset.0.to_be_bytes());
        header.put(LENGTH, (size - LOG_OVERHEAD as i32).to_be_bytes());
        header.put(LEADER_EPOCH, fields.leader_epoch.0.to_be_bytes());
        header.put(MAGIC_AT, MAGIC.to_be_bytes());
        header.put(ATTRIBUTES, fields.attributes.to_be_bytes());
        header.put(LAST_OFFSET_DELTA, fields.last_offset_delta.to_be_bytes());
        header.put(BASE_TIMESTAMP, fields.base_timestamp.to_be_bytes());
        header.put(MAX_TIMESTAMP, fields.max_timestamp.to_be_bytes());
        header.put(PRODUCER_ID, fields.producer_id.0.to_be_bytes());
        header.put(PRODUCER_EPOCH, fields.producer_epoch.0.to_be_bytes());
        header.put(BASE_SEQUENCE, fields.base_sequence.to_be_bytes());
        header.put(RECORD_COUNT, fields.record_count.to_be_bytes());
        header.set_crc(body);
        header
    }

    fn header(&self) -> &[u8; HEADER_SIZE] {
        &self.0
    }

    fn put<const N: usize>(&mut self, at: usize, bytes: [u8; N]) {
        self.0[at..at + N].copy_from_slice(&bytes);
    }
}

impl std::fmt::Debug for BatchHeader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RecordBatch")
            .field("base_offset", &self.base_offset().0)
            .field("last_offset", &self.last_offset().0)
            .field("size", &self.size_in_bytes())
            .field("leader_epoch", &self.partition_leader_epoch().0)
            .field("attributes", &self.attributes())
            .field("records", &self.record_count())
            .field("max_timestamp", &self.max_timestamp())
            .field("producer_id", &self.producer_id().0)
            .field("producer_epoch", &self.producer_epoch().0)
            .field("base_sequence", &self.base_sequence())
            .finish()
    }
}

/// The batches that stand one after the other in `bytes`.
///
/// A batch cut off by the end of the bytes ends the iteration without an error, as a fetch may cut one; see
/// [`Batches::remaining`]. An error also ends it.
pub fn batches(bytes: &[u8]) -> Batches<'_> {
    Batches { rest: bytes, failed: false }
}

/// See [`batches`].
#[derive(Clone, Debug)]
pub struct Batches<'a> {
    rest: &'a [u8],
    failed: bool,
}

impl<'a> Batches<'a> {
    /// The bytes behind the last batch that was returned.
    pub fn remaining(&self) -> &'a [u8] {
        self.rest
    }
}

impl<'a> Iterator for Batches<'a> {
    type Item = Result<RecordBatch<'a>, BatchError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        match RecordBatch::parse(self.rest) {
            Ok(batch) => {
                self.rest = &self.rest[batch.bytes.len()..];
                Some(Ok(batch))
            }
            Err(BatchError::Incomplete { .. }) => None,
            Err(error) => {
                self.failed = true;
                Some(Err(error))
            }
        }
    }
}

/// `sequence + increment` in the producer's sequence space, where 0 follows `i32::MAX`.
pub fn increment_sequence(sequence: i32, increment: i32) -> i32 {
    if sequence > i32::MAX.wrapping_sub(increment) {
        increment.wrapping_sub(i32::MAX.wrapping_sub(sequence)).wrapping_sub(1)
    } else {
        sequence.wrapping_add(increment)
    }
}

/// `sequence - decrement` in the producer's sequence space.
pub fn decrement_sequence(sequence: i32, decrement: i32) -> i32 {
    if sequence < decrement {
        i32::MAX.wrapping_sub(decrement.wrapping_sub(sequence)).wrapping_add(1)
    } else {
        sequence.wrapping_sub(decrement)
    }
}

/// The size of the batch that starts here, checked in Kafka's order: first the length, then the magic.
fn batch_size(bytes: &[u8]) -> Result<usize, BatchError> {
    let incomplete = |needed| BatchError::Incomplete { needed, available: bytes.len() };
    if bytes.len() < LOG_OVERHEAD {
        return Err(incomplete(LOG_OVERHEAD));
    }
    let length = i32_at(bytes, LENGTH);
    if length < MIN_LENGTH {
        return Err(BatchError::LengthTooSmall(length));
    }
    if bytes.len() < SIZE_UP_TO_MAGIC {
        return Err(incomplete(SIZE_UP_TO_MAGIC));
    }
    let magic = bytes[MAGIC_AT] as i8;
    if !(0..=MAGIC).contains(&magic) {
        return Err(BatchError::InvalidMagic(magic));
    }
    if length > i32::MAX - LOG_OVERHEAD as i32 {
        return Err(BatchError::LengthTooLarge(length));
    }
    let size = LOG_OVERHEAD + length as usize;
    if magic == MAGIC {
        Ok(size)
    } else if bytes.len() < size {
        Err(incomplete(size))
    } else {
        Err(BatchError::OldFormat { magic, size })
    }
}

fn i16_at(bytes: &[u8], at: usize) -> i16 {
    i16::from_be_bytes(bytes[at..at + 2].try_into().expect("two bytes"))
}

fn i32_at(bytes: &[u8], at: usize) -> i32 {
    i32::from_be_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn i64_at(bytes: &[u8], at: usize) -> i64 {
    i64::from_be_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

#[cfg(test)]
mod tests;
