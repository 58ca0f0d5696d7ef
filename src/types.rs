//! Kafka's identifiers as types, so that an offset cannot be passed where an epoch is meant.
//!
//! Every layer may use this module; it uses none.

use std::fmt;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use uuid::Uuid;

macro_rules! number {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub $inner);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

number! {
    /// Position of a record in a partition's log, counted from 0.
    Offset(i64)
}
number! {
    /// Counts the leaderships of a partition (KIP-101). -1: unknown.
    LeaderEpoch(i32)
}
number! {
    /// `node.id` of a broker or controller.
    BrokerId(i32)
}
number! {
    /// Index of a partition within its topic.
    PartitionId(i32)
}
number! {
    /// Identifies an idempotent or transactional producer (KIP-98). -1: none.
    ProducerId(i64)
}
number! {
    /// Fences the earlier instances of a producer id (KIP-98, KIP-360). -1: none.
    ProducerEpoch(i16)
}

impl Offset {
    /// The offset `count` records further.
    pub fn plus(self, count: i64) -> Offset {
        Offset(self.0 + count)
    }
}

impl LeaderEpoch {
    /// "Not known", as the wire says it.
    pub const UNKNOWN: LeaderEpoch = LeaderEpoch(-1);
}

impl ProducerId {
    /// A batch that no idempotent producer wrote.
    pub const NONE: ProducerId = ProducerId(-1);
}

impl ProducerEpoch {
    /// The epoch beside [`ProducerId::NONE`].
    pub const NONE: ProducerEpoch = ProducerEpoch(-1);
}

macro_rules! identifier {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        pub struct $name(pub Uuid);

        impl $name {
            /// The all-zero id, which the protocol uses for "none".
            pub const ZERO: $name = $name(Uuid::nil());

            /// A random id whose text does not start with `-` (Kafka's tools would take it for an option).
            pub fn random() -> $name {
                loop {
                    let id = $name(Uuid::new_v4());
                    if !id.to_string().starts_with('-') {
                        return id;
                    }
                }
            }

            /// Reads Kafka's text form: unpadded URL-safe base64 of the 16 bytes.
            pub fn parse(text: &str) -> Option<$name> {
                let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
                Some($name(Uuid::from_bytes(bytes.try_into().ok()?)))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&URL_SAFE_NO_PAD.encode(self.0.as_bytes()))
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }
    };
}

identifier! {
    /// Identity of a topic that survives its name (KIP-516).
    TopicId
}
identifier! {
    /// Identity of a log directory (KIP-858).
    DirectoryId
}

impl TopicId {
    /// The id of `__cluster_metadata`, fixed by KIP-595.
    pub const METADATA: TopicId = TopicId(Uuid::from_u128(1));
}

impl DirectoryId {
    /// A replica whose directory is not assigned yet (KIP-858).
    pub const UNASSIGNED: DirectoryId = DirectoryId(Uuid::nil());
    /// A replica in a directory that was lost (KIP-858).
    pub const LOST: DirectoryId = DirectoryId(Uuid::from_u128(1));
    /// A replica from before directories had ids (KIP-858).
    pub const MIGRATING: DirectoryId = DirectoryId(Uuid::from_u128(2));

    /// Whether it is no directory's, but one of the ids that KIP-858 sets apart.
    pub fn is_reserved(self) -> bool {
        self.0.as_u128() < 100
    }
}

/// A topic's name; cheap to clone.
pub type TopicName = Arc<str>;

/// A partition by its topic's name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TopicPartition {
    pub topic: TopicName,
    pub partition: PartitionId,
}

impl TopicPartition {
    pub fn new(topic: impl Into<TopicName>, partition: i32) -> TopicPartition {
        TopicPartition { topic: topic.into(), partition: PartitionId(partition) }
    }
}

impl fmt::Display for TopicPartition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.topic, self.partition)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_have_kafkas_text_form() {
        let text = "I0Tif0YuRcapFPbiVLPaZA";
        assert_eq!(TopicId::parse(text).unwrap().to_string(), text);
        assert_eq!(TopicId::METADATA.to_string(), "AAAAAAAAAAAAAAAAAAAAAQ");
        assert_eq!(TopicId::parse("short"), None);
    }
}
