//! Control records: what brokers write between the records of clients. They stand in batches with the control bit.
//!
//! The key is a version (0) and a type, two bytes each. Values:
//!
//! | type | record | value |
//! |---|---|---|
//! | 0, 1 | abort, commit | version (0), coordinator epoch (4 bytes) |
//! | 2 | leader change | `LeaderChangeMessage` |
//! | 3, 4 | snapshot header, footer | `SnapshotHeaderRecord`, `SnapshotFooterRecord` |
//! | 5 | `kraft.version` | `KRaftVersionRecord` |
//! | 6 | voters | `VotersRecord` |
//!
//! Those of 2 to 6 are flexible messages whose first field is their version. Kafka 4.3 writes and reads all of them in
//! version 0; a leader change of version 1 adds a directory id to each voter and is read here.

use crate::types::{BrokerId, DirectoryId};
use uuid::Uuid;

/// The type in a control record's key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ControlRecordType {
    Abort,
    Commit,
    LeaderChange,
    SnapshotHeader,
    SnapshotFooter,
    KRaftVersion,
    KRaftVoters,
    /// Of a newer broker; to be ignored.
    Unknown(i16),
}

impl ControlRecordType {
    /// Reads the key of a control record. A newer version of keys is read as version 0.
    pub fn parse(key: &[u8]) -> Result<ControlRecordType, ControlRecordError> {
        let mut reader = Reader { bytes: key };
        let version = reader.i16()?;
        if version < 0 {
            return Err(ControlRecordError::NegativeVersion(version));
        }
        Ok(ControlRecordType::from_id(reader.i16()?))
    }

    pub fn from_id(id: i16) -> ControlRecordType {
        match id {
            0 => ControlRecordType::Abort,
            1 => ControlRecordType::Commit,
            2 => ControlRecordType::LeaderChange,
            3 => ControlRecordType::SnapshotHeader,
            4 => ControlRecordType::SnapshotFooter,
            5 => ControlRecordType::KRaftVersion,
            6 => ControlRecordType::KRaftVoters,
            id => ControlRecordType::Unknown(id),
        }
    }

    pub fn id(self) -> i16 {
        match self {
            ControlRecordType::Abort => 0,
            ControlRecordType::Commit => 1,
            ControlRecordType::LeaderChange => 2,
            ControlRecordType::SnapshotHeader => 3,
            ControlRecordType::SnapshotFooter => 4,
            ControlRecordType::KRaftVersion => 5,
            ControlRecordType::KRaftVoters => 6,
            ControlRecordType::Unknown(id) => id,
        }
    }

    /// The key of a control record of this type.
    pub fn key(self) -> [u8; 4] {
        let id = self.id().to_be_bytes();
        [0, 0, id[0], id[1]]
    }
}

/// A control record, key and value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ControlRecord {
    /// Ends a transaction in this partition (KIP-98).
    EndTxn(EndTxnMarker),
    /// The first record of a quorum leader's epoch (KIP-595).
    LeaderChange(LeaderChange),
    /// The first record of a snapshot (KIP-630).
    SnapshotHeader { last_contained_log_timestamp: i64 },
    /// The last record of a snapshot.
    SnapshotFooter,
    /// Finalizes `kraft.version` (KIP-853).
    KRaftVersion { kraft_version: i16 },
    /// The voters from here on (KIP-853).
    KRaftVoters(Vec<Voter>),
    /// Of a newer broker; to be ignored.
    Unknown { id: i16, value: Vec<u8> },
}

/// How a transaction ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndTxnMarker {
    pub committed: bool,
    /// Epoch of the transaction coordinator that decided.
    pub coordinator_epoch: i32,
}

impl EndTxnMarker {
    /// Reads the value of a marker whose key says `committed`.
    pub fn parse(committed: bool, value: &[u8]) -> Result<EndTxnMarker, ControlRecordError> {
        let mut reader = Reader { bytes: value };
        let version = reader.i16()?;
        if version < 0 {
            return Err(ControlRecordError::NegativeVersion(version));
        }
        Ok(EndTxnMarker { committed, coordinator_epoch: reader.i32()? })
    }
}

/// Who leads the quorum, and who voted for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaderChange {
    pub leader_id: BrokerId,
    pub voters: Vec<BrokerId>,
    pub granting_voters: Vec<BrokerId>,
}

/// A voter of the metadata quorum, as the voters record describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Voter {
    pub id: BrokerId,
    pub directory_id: DirectoryId,
    pub endpoints: Vec<VoterEndpoint>,
    pub min_kraft_version: i16,
    pub max_kraft_version: i16,
}

/// Where a voter listens; the name is that of the listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VoterEndpoint {
    pub name: String,
    pub host: String,
    pub port: u16,
}

/// Why bytes are not a control record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ControlRecordError {
    #[error("control record is cut off")]
    Incomplete,
    #[error("Invalid version found for control record: {0}. May indicate data corruption")]
    NegativeVersion(i16),
    #[error("control record holds a size that cannot be")]
    InvalidSize,
    #[error("control record holds text that is not UTF-8")]
    NotUtf8,
}

impl ControlRecord {
    /// Reads a record of a control batch.
    pub fn parse(key: &[u8], value: &[u8]) -> Result<ControlRecord, ControlRecordError> {
        let mut reader = Reader { bytes: value };
        let mut flexible = |read: fn(&mut Reader<'_>, i16) -> Result<ControlRecord, ControlRecordError>| {
            let version = reader.i16()?;
            let record = read(&mut reader, version)?;
            reader.tagged_fields()?;
            Ok(record)
        };
        match ControlRecordType::parse(key)? {
            ControlRecordType::Abort => EndTxnMarker::parse(false, value).map(ControlRecord::EndTxn),
            ControlRecordType::Commit => EndTxnMarker::parse(true, value).map(ControlRecord::EndTxn),
            ControlRecordType::LeaderChange => flexible(|reader, version| {
                let voter = |reader: &mut Reader<'_>| {
                    let id = BrokerId(reader.i32()?);
                    if version >= 1 {
                        reader.uuid()?;
                    }
                    reader.tagged_fields()?;
                    Ok(id)
                };
                Ok(ControlRecord::LeaderChange(LeaderChange {
                    leader_id: BrokerId(reader.i32()?),
                    voters: reader.array(voter)?,
                    granting_voters: reader.array(voter)?,
                }))
            }),
            ControlRecordType::SnapshotHeader => {
                flexible(|reader, _| Ok(ControlRecord::SnapshotHeader { last_contained_log_timestamp: reader.i64()? }))
            }
            ControlRecordType::SnapshotFooter => flexible(|_, _| Ok(ControlRecord::SnapshotFooter)),
            ControlRecordType::KRaftVersion => {
                flexible(|reader, _| Ok(ControlRecord::KRaftVersion { kraft_version: reader.i16()? }))
            }
            ControlRecordType::KRaftVoters => {
                flexible(|reader, _| reader.array(Voter::read).map(ControlRecord::KRaftVoters))
            }
            ControlRecordType::Unknown(id) => Ok(ControlRecord::Unknown { id, value: value.to_vec() }),
        }
    }

    pub fn record_type(&self) -> ControlRecordType {
        match self {
            ControlRecord::EndTxn(marker) if marker.committed => ControlRecordType::Commit,
            ControlRecord::EndTxn(_) => ControlRecordType::Abort,
            ControlRecord::LeaderChange(_) => ControlRecordType::LeaderChange,
            ControlRecord::SnapshotHeader { .. } => ControlRecordType::SnapshotHeader,
            ControlRecord::SnapshotFooter => ControlRecordType::SnapshotFooter,
            ControlRecord::KRaftVersion { .. } => ControlRecordType::KRaftVersion,
            ControlRecord::KRaftVoters(_) => ControlRecordType::KRaftVoters,
            ControlRecord::Unknown { id, .. } => ControlRecordType::Unknown(*id),
        }
    }

    pub fn key(&self) -> [u8; 4] {
        self.record_type().key()
    }

    /// The value, in version 0.
    pub fn value(&self) -> Vec<u8> {
        let mut writer = Writer { bytes: vec![0, 0] };
        match self {
            ControlRecord::EndTxn(marker) => {
                writer.bytes.extend_from_slice(&marker.coordinator_epoch.to_be_bytes());
                return writer.bytes;
            }
            ControlRecord::LeaderChange(change) => {
                let voter = |writer: &mut Writer, id: &BrokerId| {
                    writer.bytes.extend_from_slice(&id.0.to_be_bytes());
                    writer.no_tagged_fields();
                };
                writer.bytes.extend_from_slice(&change.leader_id.0.to_be_bytes());
                writer.array(&change.voters, voter);
                writer.array(&change.granting_voters, voter);
            }
            ControlRecord::SnapshotHeader { last_contained_log_timestamp } => {
                writer.bytes.extend_from_slice(&last_contained_log_timestamp.to_be_bytes());
            }
            ControlRecord::SnapshotFooter => {}
            ControlRecord::KRaftVersion { kraft_version } => {
                writer.bytes.extend_from_slice(&kraft_version.to_be_bytes());
            }
            ControlRecord::KRaftVoters(voters) => writer.array(voters, |writer, voter| voter.write(writer)),
            ControlRecord::Unknown { value, .. } => return value.clone(),
        }
        writer.no_tagged_fields();
        writer.bytes
    }
}

impl Voter {
    fn read(reader: &mut Reader<'_>) -> Result<Voter, ControlRecordError> {
        let voter = Voter {
            id: BrokerId(reader.i32()?),
            directory_id: DirectoryId(reader.uuid()?),
            endpoints: reader.array(|reader| {
                let endpoint =
                    VoterEndpoint { name: reader.string()?, host: reader.string()?, port: reader.i16()? as u16 };
                reader.tagged_fields()?;
                Ok(endpoint)
            })?,
            min_kraft_version: reader.i16()?,
            max_kraft_version: reader.i16()?,
        };
        // Those of the feature, then those of the voter.
        reader.tagged_fields()?;
        reader.tagged_fields()?;
        Ok(voter)
    }

    fn write(&self, writer: &mut Writer) {
        writer.bytes.extend_from_slice(&self.id.0.to_be_bytes());
        writer.bytes.extend_from_slice(self.directory_id.0.as_bytes());
        writer.array(&self.endpoints, |writer, endpoint| {
            writer.string(&endpoint.name);
            writer.string(&endpoint.host);
            writer.bytes.extend_from_slice(&endpoint.port.to_be_bytes());
            writer.no_tagged_fields();
        });
        writer.bytes.extend_from_slice(&self.min_kraft_version.to_be_bytes());
        writer.bytes.extend_from_slice(&self.max_kraft_version.to_be_bytes());
        writer.no_tagged_fields();
        writer.no_tagged_fields();
    }
}

/// Reads the flexible encoding (KIP-482).
struct Reader<'a> {
    bytes: &'a [u8],
}

impl<'a> Reader<'a> {
    fn take(&mut self, size: usize) -> Result<&'a [u8], ControlRecordError> {
        let (taken, rest) = self.bytes.split_at_checked(size).ok_or(ControlRecordError::Incomplete)?;
        self.bytes = rest;
        Ok(taken)
    }

    fn fixed<const N: usize>(&mut self) -> Result<[u8; N], ControlRecordError> {
        self.take(N).map(|bytes| bytes.try_into().expect("as many bytes as were taken"))
    }

    fn i16(&mut self) -> Result<i16, ControlRecordError> {
        self.fixed().map(i16::from_be_bytes)
    }

    fn i32(&mut self) -> Result<i32, ControlRecordError> {
        self.fixed().map(i32::from_be_bytes)
    }

    fn i64(&mut self) -> Result<i64, ControlRecordError> {
        self.fixed().map(i64::from_be_bytes)
    }

    fn uuid(&mut self) -> Result<Uuid, ControlRecordError> {
        self.fixed().map(Uuid::from_bytes)
    }

    fn size(&mut self) -> Result<usize, ControlRecordError> {
        let mut size = 0u64;
        for shift in [0, 7, 14, 21, 28] {
            let [byte] = self.fixed()?;
            size |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return usize::try_from(size).map_err(|_| ControlRecordError::InvalidSize);
            }
        }
        Err(ControlRecordError::InvalidSize)
    }

    fn string(&mut self) -> Result<String, ControlRecordError> {
        let size = self.size()?.checked_sub(1).ok_or(ControlRecordError::InvalidSize)?;
        let bytes = self.take(size)?;
        std::str::from_utf8(bytes).map(str::to_owned).map_err(|_| ControlRecordError::NotUtf8)
    }

    fn array<T>(
        &mut self,
        mut element: impl FnMut(&mut Reader<'a>) -> Result<T, ControlRecordError>,
    ) -> Result<Vec<T>, ControlRecordError> {
        let count = self.size()?.checked_sub(1).ok_or(ControlRecordError::InvalidSize)?;
        // Grows as elements are found; the count is not believed.
        let mut elements = Vec::new();
        for _ in 0..count {
            elements.push(element(self)?);
        }
        Ok(elements)
    }

    fn tagged_fields(&mut self) -> Result<(), ControlRecordError> {
        for _ in 0..self.size()? {
            self.size()?;
            let size = self.size()?;
            self.take(size)?;
        }
        Ok(())
    }
}

/// Writes the flexible encoding.
struct Writer {
    bytes: Vec<u8>,
}

impl Writer {
    fn size(&mut self, mut size: usize) {
        while size >= 0x80 {
            self.bytes.push(size as u8 | 0x80);
            size >>= 7;
        }
        self.bytes.push(size as u8);
    }

    fn string(&mut self, text: &str) {
        self.size(text.len() + 1);
        self.bytes.extend_from_slice(text.as_bytes());
    }

    fn array<T>(&mut self, elements: &[T], mut element: impl FnMut(&mut Writer, &T)) {
        self.size(elements.len() + 1);
        for each in elements {
            element(self, each);
        }
    }

    fn no_tagged_fields(&mut self) {
        self.size(0);
    }
}

#[cfg(test)]
mod tests;
