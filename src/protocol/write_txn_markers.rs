//! The request of WriteTxnMarkers (key 27), by hand: the crate's schema ends at v1.
//!
//! ```text
//! [markers: producer_id i64 · producer_epoch i16 · transaction_result bool (true: commit)
//!  · [topics: name string · [partition_indexes i32]] · coordinator_epoch i32 · v2+: transaction_version i8]
//! ```
//! Flexible in all versions. v2 says in which protocol the transaction was (KIP-1228).

use bytes::Bytes;
use kafka_protocol::protocol::StrBytes;

use super::versions::ApiKey;
use super::wire::{DecodeError, Reader};
use crate::types::{PartitionId, ProducerEpoch, ProducerId};

/// How one producer's transaction ends, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WritableTxnMarker {
    pub producer_id: ProducerId,
    pub producer_epoch: ProducerEpoch,
    pub committed: bool,
    pub topics: Vec<(StrBytes, Vec<PartitionId>)>,
    pub coordinator_epoch: i32,
    /// 0 before v2.
    pub transaction_version: i8,
}

/// Reads a body of version 1 or 2. Bytes left over stay in `body`.
pub fn decode(body: &mut Bytes, version: i16) -> Result<Vec<WritableTxnMarker>, DecodeError> {
    let mut reader = Reader::new(body, ApiKey::WriteTxnMarkers.is_flexible(version)).with_bounded_entries();
    let count = reader.count("markers", 17)?;
    let mut markers = Vec::with_capacity(count);
    for _ in 0..count {
        let producer_id = ProducerId(reader.i64()?);
        let producer_epoch = ProducerEpoch(reader.i16()?);
        let committed = reader.i8()? != 0;
        let topic_count = reader.count("topics", 3)?;
        let mut topics = Vec::with_capacity(topic_count);
        for _ in 0..topic_count {
            let name = reader.string("name")?;
            let partition_count = reader.count("partition_indexes", 4)?;
            let mut partitions = Vec::with_capacity(partition_count);
            for _ in 0..partition_count {
                partitions.push(PartitionId(reader.i32()?));
            }
            reader.unknown_tagged_fields()?;
            topics.push((name, partitions));
        }
        let coordinator_epoch = reader.i32()?;
        // v2+: KIP-1228.
        let transaction_version = if version >= 2 { reader.i8()? } else { 0 };
        reader.unknown_tagged_fields()?;
        markers.push(WritableTxnMarker {
            producer_id,
            producer_epoch,
            committed,
            topics,
            coordinator_epoch,
            transaction_version,
        });
    }
    reader.unknown_tagged_fields()?;
    Ok(markers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_versions_are_read_and_damage_is_an_error() {
        let mut v1 = vec![2];
        v1.extend(7i64.to_be_bytes());
        v1.extend([0, 3, 1, 2, 2, b't', 2, 0, 0, 0, 5, 0]);
        v1.extend([0, 0, 0, 9]);
        let mut v2 = v1.clone();
        v1.extend([0, 0]);
        v2.extend([2, 0, 0]);
        let marker = WritableTxnMarker {
            producer_id: ProducerId(7),
            producer_epoch: ProducerEpoch(3),
            committed: true,
            topics: vec![(StrBytes::from_static_str("t"), vec![PartitionId(5)])],
            coordinator_epoch: 9,
            transaction_version: 0,
        };
        assert_eq!(decode(&mut v1.clone().into(), 1), Ok(vec![marker.clone()]));
        assert_eq!(decode(&mut v2.clone().into(), 2), Ok(vec![WritableTxnMarker { transaction_version: 2, ..marker }]));
        for (bytes, version) in [(v1, 1), (v2, 2)] {
            for end in 0..bytes.len() {
                assert!(decode(&mut bytes[..end].to_vec().into(), version).is_err(), "{end} bytes of v{version}");
            }
        }
    }
}
