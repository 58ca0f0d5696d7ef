//! The protocol that consumers embed in the classic group protocol: what a member subscribes to, inside JoinGroup, and what it is
//! assigned, inside SyncGroup.
//!
//! The broker reads it to know the topics of a classic group, and when a group moves between the classic and the consumer protocol
//! while it is in use (KIP-848); otherwise these are opaque bytes of the clients.
//!
//! ```text
//! Subscription                                  Assignment
//!   version           int16                       version       int16
//!   topics            [string]                    partitions    [topic string, [int32]]
//!   user data         nullable bytes              user data     nullable bytes
//!   owned partitions  [topic string, [int32]] v1+
//!   generation        int32                   v2+
//!   rack              nullable string         v3+
//! ```
//!
//! Versions only ever add fields at the end. So a version above 3 is read as 3, whatever follows the known fields is ignored, and the
//! topics of any version can be read as version 0. Reading allocates no more than the bytes that are there.

use std::collections::BTreeSet;

use bytes::{Bytes, BytesMut};
use kafka_protocol::protocol::StrBytes;

use crate::protocol::wire::{DecodeError, Reader, Writer, text};
use crate::types::{PartitionId, TopicName};

/// The protocol type of groups that use this protocol.
pub const PROTOCOL_TYPE: &str = "consumer";

/// The newest version that is known.
pub const HIGHEST_VERSION: i16 = 3;

/// Partitions by topic, in the order of the bytes. No topic comes twice.
pub type PartitionsByName = Vec<(TopicName, Vec<PartitionId>)>;

/// What a member wants and has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subscription {
    pub topics: Vec<TopicName>,
    /// For the assignor of the group's leader.
    pub user_data: Option<Bytes>,
    /// Empty below version 1.
    pub owned_partitions: PartitionsByName,
    /// The generation in which it came to own them; -1: not known, as below version 2.
    pub generation_id: i32,
    pub rack_id: Option<StrBytes>,
}

/// What a member is assigned.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Assignment {
    pub partitions: PartitionsByName,
    /// From the assignor of the group's leader.
    pub user_data: Option<Bytes>,
}

/// Why bytes are not of this protocol.
///
/// Kafka foresees the first kind only, and fails with UNKNOWN_SERVER_ERROR for the second.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConsumerProtocolError {
    /// Kafka's SchemaException, by its text.
    #[error("{0}")]
    Schema(String),
    #[error("{0}")]
    Malformed(DecodeError),
}

type Result<T> = std::result::Result<T, ConsumerProtocolError>;

/// What is read: Kafka's errors name it.
#[derive(Clone, Copy)]
enum Part {
    Subscription,
    Assignment,
}

impl Part {
    fn name(self) -> &'static str {
        match self {
            Part::Subscription => "subscription",
            Part::Assignment => "assignment",
        }
    }
}

/// The version that bytes of either kind begin with. It may be one that does not exist.
pub fn version(bytes: &Bytes) -> Result<i16> {
    let mut bytes = bytes.clone();
    Reader::new(&mut bytes, false).i16().map_err(|_| underflow("header"))
}

impl Subscription {
    /// Reads a member's metadata in a JoinGroup.
    pub fn decode(bytes: &Bytes) -> Result<Subscription> {
        Subscription::decode_as(bytes, HIGHEST_VERSION)
    }

    /// Reads no more than the topics and the user data, which all versions begin with.
    pub fn decode_topics(bytes: &Bytes) -> Result<Vec<TopicName>> {
        Ok(Subscription::decode_as(bytes, 0)?.topics)
    }

    /// Reads the fields of the version that the bytes begin with, up to those of `highest`.
    fn decode_as(bytes: &Bytes, highest: i16) -> Result<Subscription> {
        let part = Part::Subscription;
        let written = version(bytes)?;
        // The version plays no part when only the first one's fields are read.
        let version = if highest == 0 { 0 } else { supported(written, part)? };
        let mut bytes = bytes.slice(2..);
        let mut fields = Fields { reader: Reader::new(&mut bytes, false), part };

        let count = fields.count("topics")?;
        let mut topics = Vec::with_capacity(count.min(fields.reader.remaining() / 2));
        for _ in 0..count {
            topics.push(fields.topic_name("topics element")?);
        }
        let user_data = fields.nullable_bytes()?;
        let owned_partitions = if version >= 1 { fields.partitions("ownedPartitions")? } else { Vec::new() };
        let generation_id = if version >= 2 { fields.i32()? } else { -1 };
        let rack_id = if version >= 3 { fields.nullable_string()? } else { None };
        // An empty rack is none: Kafka's broker and consumer agree on it.
        let rack_id = rack_id.filter(|rack| !rack.is_empty());
        Ok(Subscription { topics, user_data, owned_partitions, generation_id, rack_id })
    }

    /// Writes it, as consumers do. Fields that the version does not have are left out.
    ///
    /// # Panics
    /// For a version that does not exist.
    #[cfg(test)]
    pub fn encode(&self, version: i16) -> Bytes {
        assert!((0..=HIGHEST_VERSION).contains(&version), "subscriptions have no version {version}");
        let mut writer = Writer::new(BytesMut::new(), false);
        writer.i16(version);
        writer.length(Some(self.topics.len()));
        for topic in &self.topics {
            writer.string(topic);
        }
        write_bytes(&mut writer, self.user_data.as_ref());
        if version >= 1 {
            write_partitions(&mut writer, &self.owned_partitions);
        }
        if version >= 2 {
            writer.i32(self.generation_id);
        }
        if version >= 3 {
            writer.nullable_string(self.rack_id.as_deref());
        }
        writer.bytes.freeze()
    }
}

impl Assignment {
    /// Reads a member's assignment in a SyncGroup.
    pub fn decode(bytes: &Bytes) -> Result<Assignment> {
        let part = Part::Assignment;
        supported(version(bytes)?, part)?;
        let mut bytes = bytes.slice(2..);
        let mut fields = Fields { reader: Reader::new(&mut bytes, false), part };
        Ok(Assignment { partitions: fields.partitions("assignedPartitions")?, user_data: fields.nullable_bytes()? })
    }

    /// Writes it for a member that asked in `version` (that of its [`Subscription`]), which may be newer than what is known.
    pub fn encode(&self, version: i16) -> Result<Bytes> {
        let mut writer = Writer::new(BytesMut::new(), false);
        writer.i16(supported(version, Part::Assignment)?);
        write_partitions(&mut writer, &self.partitions);
        write_bytes(&mut writer, self.user_data.as_ref());
        Ok(writer.bytes.freeze())
    }
}

/// The version to read or write in: a newer one than is known is taken for the newest known.
fn supported(version: i16, part: Part) -> Result<i16> {
    if version < 0 {
        return Err(ConsumerProtocolError::Schema(format!("Unsupported {} version: {version}", part.name())));
    }
    Ok(version.min(HIGHEST_VERSION))
}

fn underflow(what: &str) -> ConsumerProtocolError {
    ConsumerProtocolError::Schema(format!("Buffer underflow while parsing consumer protocol's {what}"))
}

/// Reads fields with Kafka's kinds of error: numbers that are cut short are an underflow, anything else is malformed.
struct Fields<'a> {
    reader: Reader<'a>,
    part: Part,
}

impl Fields<'_> {
    fn i16(&mut self) -> Result<i16> {
        self.reader.i16().map_err(|_| underflow(self.part.name()))
    }

    fn i32(&mut self) -> Result<i32> {
        self.reader.i32().map_err(|_| underflow(self.part.name()))
    }

    fn take(&mut self, length: usize) -> Result<Bytes> {
        self.reader.take(length).map_err(ConsumerProtocolError::Malformed)
    }

    /// The count of an array. There may still be fewer entries, so no more is to be allocated than the bytes left can hold.
    fn count(&mut self, field: &'static str) -> Result<usize> {
        let count = self.i32()?;
        match usize::try_from(count) {
            Err(_) => Err(ConsumerProtocolError::Malformed(DecodeError::Null { field })),
            Ok(count) if count > self.reader.remaining() => {
                Err(ConsumerProtocolError::Malformed(DecodeError::Count { field, count }))
            }
            Ok(count) => Ok(count),
        }
    }

    fn nullable_string(&mut self) -> Result<Option<StrBytes>> {
        let Ok(length) = usize::try_from(self.i16()?) else {
            return Ok(None);
        };
        Ok(Some(text(self.take(length)?)))
    }

    fn topic_name(&mut self, field: &'static str) -> Result<TopicName> {
        let name = self.nullable_string()?;
        name.map(|name| TopicName::from(&*name)).ok_or(ConsumerProtocolError::Malformed(DecodeError::Null { field }))
    }

    fn nullable_bytes(&mut self) -> Result<Option<Bytes>> {
        match usize::try_from(self.i32()?) {
            Ok(length) => Ok(Some(self.take(length)?)),
            Err(_) => Ok(None),
        }
    }

    /// Partitions by topic. Of a topic that comes twice the first counts, as in Kafka.
    fn partitions(&mut self, field: &'static str) -> Result<PartitionsByName> {
        let count = self.count(field)?;
        let mut partitions: PartitionsByName = Vec::new();
        let mut seen = BTreeSet::new();
        for _ in 0..count {
            let topic = self.topic_name("topic")?;
            let count = self.count("partitions")?;
            let mut of_topic = Vec::with_capacity(count.min(self.reader.remaining() / 4));
            for _ in 0..count {
                of_topic.push(PartitionId(self.i32()?));
            }
            if seen.insert(TopicName::clone(&topic)) {
                partitions.push((topic, of_topic));
            }
        }
        Ok(partitions)
    }
}

fn write_bytes(writer: &mut Writer, bytes: Option<&Bytes>) {
    writer.length(bytes.map(Bytes::len));
    writer.bytes.extend_from_slice(bytes.map_or(&[], |bytes| bytes));
}

fn write_partitions(writer: &mut Writer, partitions: &PartitionsByName) {
    writer.length(Some(partitions.len()));
    for (topic, of_topic) in partitions {
        writer.string(topic);
        writer.length(Some(of_topic.len()));
        for partition in of_topic {
            writer.i32(partition.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn partitions(partitions: &[(&str, &[i32])]) -> PartitionsByName {
        let of_topic = |of_topic: &[i32]| of_topic.iter().copied().map(PartitionId).collect();
        partitions.iter().map(|&(topic, numbers)| (TopicName::from(topic), of_topic(numbers))).collect()
    }

    fn subscription() -> Subscription {
        Subscription {
            topics: vec!["a".into(), "b".into()],
            user_data: Some(Bytes::from_static(b"xy")),
            owned_partitions: partitions(&[("a", &[0, 7])]),
            generation_id: 5,
            rack_id: Some(StrBytes::from_static_str("r")),
        }
    }

    /// Bytes from readable hexadecimal.
    fn hex(text: &str) -> Bytes {
        let digits: Vec<u8> = text.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
        let pair = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
        digits.chunks(2).map(pair).collect()
    }

    #[test]
    fn bytes_are_kafkas() {
        let topics = "00000002 000161 000162 00000002 7879";
        let owned = "00000001 000161 00000002 00000000 00000007";
        for (version, bytes) in [
            (0, format!("0000 {topics}")),
            (1, format!("0001 {topics} {owned}")),
            (2, format!("0002 {topics} {owned} 00000005")),
            (3, format!("0003 {topics} {owned} 00000005 000172")),
        ] {
            assert_eq!(subscription().encode(version), hex(&bytes));
        }
        assert_eq!(Subscription::decode(&subscription().encode(3)), Ok(subscription()));
        let oldest = Subscription::decode(&subscription().encode(0)).unwrap();
        assert_eq!((oldest.generation_id, oldest.owned_partitions.len(), oldest.rack_id), (-1, 0, None));

        let assignment = Assignment { partitions: partitions(&[("a", &[3]), ("b", &[])]), user_data: None };
        let bytes = hex("0001 00000002 000161 00000001 00000003 000162 00000000 ffffffff");
        assert_eq!(assignment.encode(1), Ok(bytes.clone()));
        assert_eq!(Assignment::decode(&bytes), Ok(assignment));
    }

    #[test]
    fn newer_versions_are_read_as_the_newest_known() {
        let newer = [&hex("7fff")[..], &subscription().encode(3)[2..], b"more to come"].concat().into();
        assert_eq!(Subscription::decode(&newer), Ok(subscription()));
        assert_eq!(Subscription::decode_topics(&newer), Ok(subscription().topics));
        assert_eq!(&Assignment::default().encode(9).unwrap()[..2], [0, 3]);
    }

    #[test]
    fn errors_are_told_apart_as_kafka_does() {
        fn schema<T>(text: &str) -> Result<T> {
            Err(ConsumerProtocolError::Schema(text.to_string()))
        }
        assert_eq!(version(&hex("00")), Err(underflow("header")));
        assert_eq!(
            Subscription::decode(&hex("ffff 00000000 ffffffff")),
            schema("Unsupported subscription version: -1")
        );
        assert_eq!(Assignment::default().encode(-3), schema("Unsupported assignment version: -3"));
        // The version plays no part when only the topics are read.
        assert_eq!(Subscription::decode_topics(&hex("ffff 00000000 ffffffff")), Ok(Vec::new()));
        let underflow = schema("Buffer underflow while parsing consumer protocol's subscription");
        assert_eq!(Subscription::decode(&hex("0001 00000000 ffffffff 0000")), underflow);
        for malformed in ["0000 ffffffff", "0000 00000001 ffff 0000", "0000 7fffffff 0000", "0000 00000001 0009 61"] {
            let error = Subscription::decode(&hex(malformed)).unwrap_err();
            assert!(matches!(error, ConsumerProtocolError::Malformed(_)), "{malformed}: {error}");
        }
    }

    #[test]
    fn the_first_of_equal_topics_counts() {
        let bytes = hex("0000 00000002 000161 00000001 00000003 000161 00000001 00000004 ffffffff");
        assert_eq!(Assignment::decode(&bytes).unwrap().partitions, partitions(&[("a", &[3])]));
    }

    proptest! {
        #[test]
        fn damage_never_panics(hits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6), end: prop::sample::Index) {
            let mut bytes = subscription().encode(3).to_vec();
            for (at, byte) in hits {
                let at = at.index(bytes.len());
                bytes[at] = byte;
            }
            bytes.truncate(end.index(bytes.len() + 1));
            let bytes = Bytes::from(bytes);
            let _ = Subscription::decode(&bytes);
            let _ = Subscription::decode_topics(&bytes);
            let _ = Assignment::decode(&bytes);
        }

        #[test]
        fn what_is_written_is_read(
            topics in prop::collection::vec("[a-z]{0,9}", 0..5),
            owned in prop::collection::btree_map("[a-z]{0,9}", prop::collection::vec(any::<i32>(), 0..5), 0..5),
            user_data in prop::option::of(prop::collection::vec(any::<u8>(), 0..20)),
            generation_id in any::<i32>(),
            rack_id in prop::option::of("[a-z]{1,9}"),
        ) {
            let partitions: PartitionsByName = owned
                .into_iter()
                .map(|(topic, of_topic)| (topic.into(), of_topic.into_iter().map(PartitionId).collect()))
                .collect();
            let user_data = user_data.map(Bytes::from);
            let assignment = Assignment { partitions: partitions.clone(), user_data: user_data.clone() };
            prop_assert_eq!(Assignment::decode(&assignment.encode(3).unwrap()), Ok(assignment));
            let subscription = Subscription {
                topics: topics.into_iter().map(TopicName::from).collect(),
                user_data,
                owned_partitions: partitions,
                generation_id,
                rack_id: rack_id.map(StrBytes::from_string),
            };
            prop_assert_eq!(Subscription::decode(&subscription.encode(3)), Ok(subscription));
        }
    }
}
