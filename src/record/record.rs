//! The records inside of a batch: reading them from bytes, all at once or as a stream, and writing them.
//!
//! | field | form |
//! |---|---|
//! | size of all that follows | zigzag varint |
//! | attributes, unused | 1 byte |
//! | timestamp minus the batch's base timestamp | zigzag varint, 64 bit |
//! | offset minus the batch's base offset | zigzag varint |
//! | key, value | size as zigzag varint (negative: null), bytes |
//! | count of headers | zigzag varint |
//! | each: name, value | as key and value; the name is never null |
//!
//! No size and no count is believed: nothing is allocated for a record, and each step is checked against the bytes
//! there are. [`Records`] is strict about everything. [`RecordStream::next_skim`] is the check that Kafka's broker makes
//! of compressed batches: it goes by the fields and ignores the size in front of them.

use crate::record::batch::{BatchHeader, RecordBatch, TimestampType};
use crate::record::compression::{Codec, CompressionError, Decompressor};
use crate::types::Offset;

/// A broker of Kafka allocates a record before it is decompressed, and its heap is of this size by default.
const MAX_RECORD_SIZE: i32 = 1 << 30;

/// One record; its parts lie in the bytes it was read from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    pub offset: Offset,
    /// As a consumer sees it: the time of append in batches that have one.
    pub timestamp: i64,
    pub key: Option<&'a [u8]>,
    pub value: Option<&'a [u8]>,
    pub headers: Headers<'a>,
}

/// A header of a record. The name ought to be UTF-8; nobody checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header<'a> {
    pub key: &'a [u8],
    pub value: Option<&'a [u8]>,
}

/// The headers of a record, in their order, which may repeat names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Headers<'a> {
    bytes: &'a [u8],
    count: usize,
}

impl<'a> Headers<'a> {
    pub fn len(&self) -> usize {
        self.count
    }

    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    pub fn iter(&self) -> impl Iterator<Item = Header<'a>> + use<'a> {
        let mut cursor = Cursor { bytes: self.bytes };
        (0..self.count).map_while(move |_| cursor.header().ok())
    }
}

/// Why the bytes of a batch are not the records that its header promises.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordsError {
    #[error("Found invalid record count {0} in magic v2 batch")]
    NegativeCount(i32),
    /// The size in front of a record has more than five bytes. Told apart because Kafka stumbles over it.
    #[error("the size of a record is not a number")]
    EndlessSize,
    /// The size in front of a record, in compressed data, is beyond what Kafka could hold. Told apart for the same reason.
    #[error("a record of {0} bytes cannot be held in memory")]
    ImpossibleSize(i32),
    #[error("a number in a record has too many bytes")]
    EndlessNumber,
    #[error("the batch ends within a record")]
    Incomplete,
    #[error("Invalid record size: expected to read {expected} bytes in record payload, but instead read {read}")]
    SizeMismatch { expected: i32, read: usize },
    #[error("Found invalid number of record headers {0}")]
    HeaderCount(i32),
    #[error("Invalid negative header key size {0}")]
    NegativeHeaderKeySize(i32),
    #[error("Incorrect declared batch size, records still remaining in file")]
    BytesBehindLastRecord,
}

/// What the fields of a record count from.
#[derive(Clone, Copy, Debug)]
struct Base {
    offset: i64,
    timestamp: i64,
    log_append_time: Option<i64>,
}

impl Base {
    fn timestamp(&self, delta: i64) -> i64 {
        self.log_append_time.unwrap_or(self.timestamp.wrapping_add(delta))
    }

    fn offset(&self, delta: i32) -> Offset {
        Offset(self.offset.wrapping_add(i64::from(delta)))
    }
}

impl From<&BatchHeader> for Base {
    fn from(header: &BatchHeader) -> Base {
        Base {
            offset: header.base_offset().0,
            timestamp: header.base_timestamp(),
            log_append_time: match header.timestamp_type() {
                TimestampType::CreateTime => None,
                TimestampType::LogAppendTime => Some(header.max_timestamp()),
            },
        }
    }
}

/// The records of a batch whose records section is not, or no longer, compressed. Ends after the first error.
#[derive(Clone, Debug)]
pub struct Records<'a> {
    cursor: Cursor<'a>,
    base: Base,
    left: i32,
}

impl<'a> Records<'a> {
    /// `body` is the decompressed records section of the batch with this header.
    pub fn new(header: &BatchHeader, body: &'a [u8]) -> Records<'a> {
        Records { cursor: Cursor { bytes: body }, base: header.into(), left: header.record_count() }
    }

    /// The bytes behind the last record that was returned.
    pub fn rest(&self) -> &'a [u8] {
        self.cursor.bytes
    }

    fn read(&mut self) -> Result<Record<'a>, RecordsError> {
        if self.left < 0 {
            return Err(RecordsError::NegativeCount(self.left));
        }
        let record = self.cursor.record(&self.base)?;
        if self.left == 1 && !self.cursor.bytes.is_empty() {
            return Err(RecordsError::BytesBehindLastRecord);
        }
        Ok(record)
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Result<Record<'a>, RecordsError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.left == 0 {
            return None;
        }
        let record = self.read();
        self.left = if record.is_ok() { self.left - 1 } else { 0 };
        Some(record)
    }
}

impl<'a> RecordBatch<'a> {
    /// The records, if the batch is not compressed. See [`Records::new`] for one that was.
    pub fn uncompressed_records(&self) -> Option<Records<'a>> {
        matches!(self.codec(), Ok(Codec::None)).then(|| Records::new(&self.to_header(), self.body()))
    }
}

/// What a glance at a record tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordSkim {
    pub offset: Offset,
    pub timestamp: i64,
    /// Negative: no key.
    pub key_size: i32,
    /// Negative: no value.
    pub value_size: i32,
}

/// Why reading records out of compressed data failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordStreamError {
    #[error(transparent)]
    Records(#[from] RecordsError),
    #[error(transparent)]
    Compression(#[from] CompressionError),
}

/// The records of a batch, decompressed as they are read.
pub struct RecordStream<'a> {
    decompressor: Decompressor<'a>,
    /// What was decompressed and not read yet.
    chunk: Vec<u8>,
    at: usize,
    base: Base,
    left: i32,
}

impl<'a> RecordStream<'a> {
    /// `limit` is for all that comes out of the compression.
    pub fn new(header: &BatchHeader, codec: Codec, body: &'a [u8], limit: u64) -> Result<Self, RecordStreamError> {
        let decompressor = Decompressor::new(codec, body, limit)?;
        if header.record_count() < 0 {
            return Err(RecordsError::NegativeCount(header.record_count()).into());
        }
        Ok(RecordStream { decompressor, chunk: Vec::new(), at: 0, base: header.into(), left: header.record_count() })
    }

    /// Reads over the next record, field by field; None behind the last.
    pub fn next_skim(&mut self) -> Result<Option<RecordSkim>, RecordStreamError> {
        if self.left == 0 {
            return Ok(None);
        }
        let base = self.base;
        self.varint()?;
        self.byte()?;
        let timestamp = base.timestamp(self.varlong()?);
        let offset = base.offset(self.varint()?);
        let key_size = self.varint()?;
        self.skip(key_size)?;
        let value_size = self.varint()?;
        self.skip(value_size)?;
        let headers = self.varint()?;
        if headers < 0 {
            return Err(RecordsError::HeaderCount(headers).into());
        }
        for _ in 0..headers {
            let name_size = self.varint()?;
            if name_size < 0 {
                return Err(RecordsError::NegativeHeaderKeySize(name_size).into());
            }
            self.skip(name_size)?;
            let value_size = self.varint()?;
            self.skip(value_size)?;
        }
        self.finish_record()?;
        Ok(Some(RecordSkim { offset, timestamp, key_size, value_size }))
    }

    /// Reads the next record into `buffer`, as strictly as [`Records`] does; None behind the last.
    pub fn next_record<'b>(&mut self, buffer: &'b mut Vec<u8>) -> Result<Option<Record<'b>>, RecordStreamError> {
        if self.left == 0 {
            return Ok(None);
        }
        let size = self.varint()?;
        if size > MAX_RECORD_SIZE {
            return Err(RecordsError::ImpossibleSize(size).into());
        }
        let mut missing = usize::try_from(size).map_err(|_| RecordsError::SizeMismatch { expected: size, read: 0 })?;
        buffer.clear();
        while missing > 0 {
            let available = self.fill()?;
            let part = available.len().min(missing);
            buffer.extend_from_slice(&available[..part]);
            self.at += part;
            missing -= part;
        }
        let record = Cursor { bytes: buffer }.record_body(size, &self.base)?;
        self.finish_record()?;
        Ok(Some(record))
    }

    fn finish_record(&mut self) -> Result<(), RecordStreamError> {
        self.left -= 1;
        if self.left > 0 {
            return Ok(());
        }
        match self.fill() {
            Ok(_) => Err(RecordsError::BytesBehindLastRecord.into()),
            Err(RecordStreamError::Records(RecordsError::Incomplete)) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// What is decompressed and not read, at least one byte.
    fn fill(&mut self) -> Result<&[u8], RecordStreamError> {
        if self.at == self.chunk.len() {
            self.chunk.clear();
            self.at = 0;
            if self.decompressor.read(&mut self.chunk)? == 0 {
                return Err(RecordsError::Incomplete.into());
            }
        }
        Ok(&self.chunk[self.at..])
    }

    fn byte(&mut self) -> Result<u8, RecordStreamError> {
        let byte = self.fill()?[0];
        self.at += 1;
        Ok(byte)
    }

    fn skip(&mut self, size: i32) -> Result<(), RecordStreamError> {
        let mut missing = size.max(0) as usize;
        while missing > 0 {
            let part = self.fill()?.len().min(missing);
            self.at += part;
            missing -= part;
        }
        Ok(())
    }

    fn varint(&mut self) -> Result<i32, RecordStreamError> {
        read_varint(|| self.byte())
    }

    fn varlong(&mut self) -> Result<i64, RecordStreamError> {
        read_varlong(|| self.byte())
    }
}

/// Reads fields off the front of bytes.
#[derive(Clone, Copy, Debug)]
struct Cursor<'a> {
    bytes: &'a [u8],
}

impl<'a> Cursor<'a> {
    fn record(&mut self, base: &Base) -> Result<Record<'a>, RecordsError> {
        let size = self.varint().map_err(|error| match error {
            RecordsError::EndlessNumber => RecordsError::EndlessSize,
            error => error,
        })?;
        self.record_body(size, base)
    }

    /// A record behind its size.
    fn record_body(&mut self, size: i32, base: &Base) -> Result<Record<'a>, RecordsError> {
        let start = self.bytes.len();
        self.byte()?;
        let timestamp = base.timestamp(self.varlong()?);
        let offset = base.offset(self.varint()?);
        let key = self.nullable()?;
        let value = self.nullable()?;
        let headers = self.headers()?;
        let read = start - self.bytes.len();
        if usize::try_from(size) != Ok(read) {
            return Err(RecordsError::SizeMismatch { expected: size, read });
        }
        Ok(Record { offset, timestamp, key, value, headers })
    }

    fn headers(&mut self) -> Result<Headers<'a>, RecordsError> {
        let number = self.varint()?;
        // Each takes at least two bytes, but Kafka asks only for one.
        let count = usize::try_from(number).ok().filter(|count| *count <= self.bytes.len());
        let count = count.ok_or(RecordsError::HeaderCount(number))?;
        let bytes = self.bytes;
        for _ in 0..count {
            self.header()?;
        }
        Ok(Headers { bytes: &bytes[..bytes.len() - self.bytes.len()], count })
    }

    fn header(&mut self) -> Result<Header<'a>, RecordsError> {
        let key_size = self.varint()?;
        let key_length = usize::try_from(key_size).map_err(|_| RecordsError::NegativeHeaderKeySize(key_size))?;
        let key = self.take(key_length)?;
        let value = self.nullable()?;
        Ok(Header { key, value })
    }

    fn nullable(&mut self) -> Result<Option<&'a [u8]>, RecordsError> {
        match usize::try_from(self.varint()?) {
            Ok(size) => self.take(size).map(Some),
            Err(_) => Ok(None),
        }
    }

    fn take(&mut self, size: usize) -> Result<&'a [u8], RecordsError> {
        let (taken, rest) = self.bytes.split_at_checked(size).ok_or(RecordsError::Incomplete)?;
        self.bytes = rest;
        Ok(taken)
    }

    fn byte(&mut self) -> Result<u8, RecordsError> {
        let (byte, rest) = self.bytes.split_first().ok_or(RecordsError::Incomplete)?;
        self.bytes = rest;
        Ok(*byte)
    }

    fn varint(&mut self) -> Result<i32, RecordsError> {
        read_varint(|| self.byte())
    }

    fn varlong(&mut self) -> Result<i64, RecordsError> {
        read_varlong(|| self.byte())
    }
}

fn read_varint<E: From<RecordsError>>(next: impl FnMut() -> Result<u8, E>) -> Result<i32, E> {
    // As in Java, bits beyond the 32nd fall off.
    let value = read_unsigned(next, 5)? as u32;
    Ok((value >> 1) as i32 ^ -((value & 1) as i32))
}

fn read_varlong<E: From<RecordsError>>(next: impl FnMut() -> Result<u8, E>) -> Result<i64, E> {
    let value = read_unsigned(next, 10)?;
    Ok((value >> 1) as i64 ^ -((value & 1) as i64))
}

#[inline]
fn read_unsigned<E: From<RecordsError>>(mut next: impl FnMut() -> Result<u8, E>, max_bytes: u32) -> Result<u64, E> {
    let first = next()?;
    if first < 0x80 {
        return Ok(u64::from(first));
    }
    let mut value = u64::from(first & 0x7f);
    for index in 1..max_bytes {
        let byte = next()?;
        value |= u64::from(byte & 0x7f) << (7 * index);
        if byte < 0x80 {
            return Ok(value);
        }
    }
    Err(RecordsError::EndlessNumber.into())
}

/// Appends a record to `output`. `headers` are written as they are.
pub(crate) fn write<'h>(
    output: &mut Vec<u8>,
    timestamp_delta: i64,
    offset_delta: i32,
    key: Option<&[u8]>,
    value: Option<&[u8]>,
    headers: impl ExactSizeIterator<Item = Header<'h>> + Clone,
) {
    let nullable_size = |bytes: Option<&[u8]>| match bytes {
        Some(bytes) => varint_size(bytes.len() as i32) + bytes.len(),
        None => 1,
    };
    let size = 1
        + varlong_size(timestamp_delta)
        + varint_size(offset_delta)
        + nullable_size(key)
        + nullable_size(value)
        + varint_size(headers.len() as i32)
        + headers.clone().map(|header| nullable_size(Some(header.key)) + nullable_size(header.value)).sum::<usize>();
    let size = i32::try_from(size).expect("a record is smaller than 2 GiB");
    output.reserve(5 + size as usize);
    write_varint(output, size);
    output.push(0);
    write_varlong(output, timestamp_delta);
    write_varint(output, offset_delta);
    write_nullable(output, key);
    write_nullable(output, value);
    write_varint(output, headers.len() as i32);
    for header in headers {
        write_nullable(output, Some(header.key));
        write_nullable(output, header.value);
    }
}

fn write_nullable(output: &mut Vec<u8>, bytes: Option<&[u8]>) {
    match bytes {
        Some(bytes) => {
            write_varint(output, bytes.len() as i32);
            output.extend_from_slice(bytes);
        }
        None => write_varint(output, -1),
    }
}

fn write_varint(output: &mut Vec<u8>, value: i32) {
    write_unsigned(output, u64::from((value << 1 ^ value >> 31) as u32));
}

fn write_varlong(output: &mut Vec<u8>, value: i64) {
    write_unsigned(output, (value << 1 ^ value >> 63) as u64);
}

fn write_unsigned(output: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        output.push(value as u8 | 0x80);
        value >>= 7;
    }
    output.push(value as u8);
}

fn varint_size(value: i32) -> usize {
    unsigned_size(u64::from((value << 1 ^ value >> 31) as u32))
}

fn varlong_size(value: i64) -> usize {
    unsigned_size((value << 1 ^ value >> 63) as u64)
}

fn unsigned_size(value: u64) -> usize {
    (64 - (value | 1).leading_zeros() as usize).div_ceil(7)
}

#[cfg(test)]
mod tests;
