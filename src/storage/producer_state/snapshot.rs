//! The `.snapshot` files of a partition: the producers as they were at an offset of the log.
//!
//! | at | size | field |
//! |---|---|---|
//! | 0 | 2 | version: 1 |
//! | 2 | 4 | CRC-32C of all that follows |
//! | 6 | 4 | number of entries |
//! | 10 | 46 each | producer id (8), epoch (2), last sequence (4), last offset (8), offset delta (4), timestamp (8), coordinator epoch (4), first offset of the open transaction (8) |
//!
//! All big-endian; -1 stands for "none". Only the last batch of a producer is kept. Bytes behind the last entry
//! count for the CRC and are otherwise ignored, as in Kafka.

use std::io;

use thiserror::Error;

use super::entry::{BatchMetadata, ProducerStateEntry};
use crate::storage::disk::DiskFile;
use crate::types::{Offset, ProducerEpoch, ProducerId};

const VERSION: i16 = 1;
const CRC_OFFSET: usize = 2;
const ENTRIES_OFFSET: usize = 6;
const HEADER_SIZE: usize = 10;
const ENTRY_SIZE: usize = 46;

/// A snapshot has 46 bytes for each producer, so this is far beyond what a broker can hold.
pub const MAX_SIZE: usize = 1 << 30;

/// Why a snapshot cannot be used. The state before it is loaded then, and the log read from there.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum CorruptSnapshot {
    #[error("unknown snapshot version {0}")]
    UnknownVersion(i16),
    #[error("{size} bytes cannot hold {count} entries")]
    WrongSize { size: usize, count: i32 },
    #[error("stored checksum {stored:#010x} differs from {computed:#010x}")]
    WrongChecksum { stored: u32, computed: u32 },
    #[error("{0} bytes are too few for a snapshot")]
    TooShort(usize),
    #[error("the file is too long for a snapshot")]
    TooLong,
    #[error("there is something else of its name")]
    NotAFile,
    #[error("the file is gone")]
    Missing,
}

/// The bytes of a snapshot with these producers, in this order.
pub fn encode<'a>(entries: impl ExactSizeIterator<Item = &'a ProducerStateEntry>) -> Vec<u8> {
    let count = i32::try_from(entries.len()).expect("a partition has fewer than 2^31 producers in memory");
    let mut bytes = Vec::with_capacity(HEADER_SIZE + entries.len() * ENTRY_SIZE);
    bytes.extend_from_slice(&VERSION.to_be_bytes());
    bytes.extend_from_slice(&[0; 4]);
    bytes.extend_from_slice(&count.to_be_bytes());
    for entry in entries {
        bytes.extend_from_slice(&entry.producer_id.0.to_be_bytes());
        bytes.extend_from_slice(&entry.producer_epoch.0.to_be_bytes());
        bytes.extend_from_slice(&entry.last_sequence().to_be_bytes());
        bytes.extend_from_slice(&entry.last_data_offset().0.to_be_bytes());
        bytes.extend_from_slice(&entry.last_offset_delta().to_be_bytes());
        bytes.extend_from_slice(&entry.last_timestamp.to_be_bytes());
        bytes.extend_from_slice(&entry.coordinator_epoch.to_be_bytes());
        bytes.extend_from_slice(&entry.current_txn_first_offset.unwrap_or(Offset(-1)).0.to_be_bytes());
    }
    let crc = crc32c::crc32c(&bytes[ENTRIES_OFFSET..]);
    bytes[CRC_OFFSET..ENTRIES_OFFSET].copy_from_slice(&crc.to_be_bytes());
    bytes
}

/// The producers in a snapshot, in the order they are written there.
pub fn decode(bytes: &[u8]) -> Result<Vec<ProducerStateEntry>, CorruptSnapshot> {
    let header = Header::parse(bytes, bytes.len())?;
    header.check(crc32c::crc32c(&bytes[ENTRIES_OFFSET..]))?;
    Ok(decode_entries(&bytes[HEADER_SIZE..][..header.entries * ENTRY_SIZE]))
}

/// As [`decode`], of a file. The outer error is the disk's. Of a file of any length no more is held than what its checksum
/// has confirmed.
pub fn read(file: &dyn DiskFile) -> io::Result<Result<Vec<ProducerStateEntry>, CorruptSnapshot>> {
    let Some(size) = usize::try_from(file.file_len()?).ok().filter(|size| *size <= MAX_SIZE) else {
        return Ok(Err(CorruptSnapshot::TooLong));
    };
    let mut buffer = vec![0; size.min(64 << 10)];
    let header = &mut buffer[..size.min(HEADER_SIZE)];
    file.read_exact_at(header, 0)?;
    let header = match Header::parse(header, size) {
        Ok(header) => header,
        Err(error) => return Ok(Err(error)),
    };
    let (mut computed, mut position) = (0, ENTRIES_OFFSET);
    while position < size {
        let part = (size - position).min(buffer.len());
        file.read_exact_at(&mut buffer[..part], position as u64)?;
        computed = crc32c::crc32c_append(computed, &buffer[..part]);
        position += part;
    }
    if let Err(error) = header.check(computed) {
        return Ok(Err(error));
    }
    let mut entries = vec![0; header.entries * ENTRY_SIZE];
    file.read_exact_at(&mut entries, HEADER_SIZE as u64)?;
    Ok(Ok(decode_entries(&entries)))
}

struct Header {
    stored_crc: u32,
    entries: usize,
}

impl Header {
    /// Of a snapshot of `size` bytes that begins with `bytes`.
    fn parse(bytes: &[u8], size: usize) -> Result<Header, CorruptSnapshot> {
        let Some(header) = bytes.first_chunk::<HEADER_SIZE>() else {
            return Err(CorruptSnapshot::TooShort(size));
        };
        let version = i16::from_be_bytes([header[0], header[1]]);
        if version != VERSION {
            return Err(CorruptSnapshot::UnknownVersion(version));
        }
        let stored_crc = u32::from_be_bytes([header[2], header[3], header[4], header[5]]);
        let count = i32::from_be_bytes([header[6], header[7], header[8], header[9]]);
        let available = size.saturating_sub(HEADER_SIZE) / ENTRY_SIZE;
        match usize::try_from(count).ok().filter(|count| *count <= available) {
            Some(entries) => Ok(Header { stored_crc, entries }),
            None => Err(CorruptSnapshot::WrongSize { size, count }),
        }
    }

    fn check(&self, computed: u32) -> Result<(), CorruptSnapshot> {
        match self.stored_crc == computed {
            true => Ok(()),
            false => Err(CorruptSnapshot::WrongChecksum { stored: self.stored_crc, computed }),
        }
    }
}

fn decode_entries(bytes: &[u8]) -> Vec<ProducerStateEntry> {
    bytes.as_chunks::<ENTRY_SIZE>().0.iter().map(decode_entry).collect()
}

fn decode_entry(bytes: &[u8; ENTRY_SIZE]) -> ProducerStateEntry {
    let int = |at: usize| i32::from_be_bytes(bytes[at..at + 4].try_into().expect("4 bytes"));
    let long = |at: usize| i64::from_be_bytes(bytes[at..at + 8].try_into().expect("8 bytes"));
    let last_offset = long(14);
    let timestamp = long(26);
    let current_txn_first_offset = long(38);
    let mut entry = ProducerStateEntry::empty(ProducerId(long(0)));
    entry.producer_epoch = ProducerEpoch(i16::from_be_bytes([bytes[8], bytes[9]]));
    entry.coordinator_epoch = int(34);
    entry.last_timestamp = timestamp;
    entry.current_txn_first_offset = (current_txn_first_offset >= 0).then_some(Offset(current_txn_first_offset));
    if last_offset >= 0 {
        entry.remember(BatchMetadata {
            last_sequence: int(10),
            last_offset: Offset(last_offset),
            offset_delta: int(22),
            timestamp,
        });
    }
    entry
}
