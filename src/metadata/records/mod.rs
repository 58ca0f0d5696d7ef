//! The records of the metadata log (KIP-631) and their bytes.
//!
//! Structs and codecs are generated from Kafka's schemas. A record whose type or version is not known is an error that
//! names it: metadata that is not understood must not be skipped.

pub mod codec;
mod generated;
#[cfg(test)]
mod samples;

pub use codec::{DecodeError, EncodeError, Record};
use codec::{Reader, Writer};
pub use generated::*;

/// The only frame version there is.
const FRAME_VERSION: u32 = 1;

/// A record at the version in which it is written.
#[derive(Clone, Debug, PartialEq)]
pub struct VersionedRecord {
    pub record: MetadataRecord,
    pub version: i16,
}

impl VersionedRecord {
    /// A record in its lowest version, which is the only one of most.
    pub fn lowest(record: impl Into<MetadataRecord>) -> VersionedRecord {
        let record = record.into();
        VersionedRecord { version: *record.versions().start(), record }
    }

    pub fn at(version: i16, record: impl Into<MetadataRecord>) -> VersionedRecord {
        VersionedRecord { record: record.into(), version }
    }

    /// Reads a record's value in the log: frame and body.
    pub fn decode(value: &[u8]) -> Result<VersionedRecord, DecodeError> {
        let mut reader = Reader::new(value);
        let frame = reader.unsigned_varint()?;
        if frame != FRAME_VERSION {
            return Err(DecodeError::UnknownFrame(frame));
        }
        let record_type = reader.unsigned_varint()?;
        let said = reader.unsigned_varint()?;
        // No record has that many versions; it reads as unknown.
        let version = i16::try_from(said).unwrap_or(i16::MAX);
        let record = MetadataRecord::read_body(reader.rest(), record_type, version)?;
        Ok(VersionedRecord { record, version })
    }

    /// The record's value in the log.
    ///
    /// # Panics
    /// If the record holds what its version cannot say: whoever made it chose the version for what it holds.
    pub fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::new();
        writer.unsigned_varint(FRAME_VERSION);
        writer.unsigned_varint(self.record.record_type());
        writer.unsigned_varint(self.version as u32);
        let mut value = writer.into_bytes();
        if let Err(error) = self.record.write_body(self.version, &mut value) {
            panic!("{} was made for the wrong version: {error}", self.record.name());
        }
        value
    }
}

#[cfg(test)]
mod tests;
