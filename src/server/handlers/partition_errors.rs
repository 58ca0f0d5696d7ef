//! Kafka's error codes for what keeps a partition from answering, as all APIs have them that ask partitions.
//!
//! What an API tells otherwise (older versions, Produce) stands in its handler.

use tracing::error;

use crate::protocol::ErrorCode;
use crate::replica::{LeaderError, LookupError, PartitionReadError, ReadError};

pub fn lookup_code(error: LookupError) -> ErrorCode {
    match error {
        LookupError::UnknownTopicId => ErrorCode::UnknownTopicId,
        LookupError::UnknownTopicOrPartition => ErrorCode::UnknownTopicOrPartition,
        LookupError::NotHere => ErrorCode::NotLeaderOrFollower,
        LookupError::Offline => ErrorCode::KafkaStorageError,
    }
}

pub fn leader_code(error: LeaderError) -> ErrorCode {
    match error {
        LeaderError::NotLeaderOrFollower => ErrorCode::NotLeaderOrFollower,
        LeaderError::FencedLeaderEpoch => ErrorCode::FencedLeaderEpoch,
        LeaderError::UnknownLeaderEpoch => ErrorCode::UnknownLeaderEpoch,
        LeaderError::Offline => ErrorCode::KafkaStorageError,
    }
}

pub fn read_code(error: &PartitionReadError) -> ErrorCode {
    match error {
        PartitionReadError::Leader(error) => leader_code(*error),
        PartitionReadError::Log(error) => match error {
            ReadError::OutOfRange { .. } => ErrorCode::OffsetOutOfRange,
            // As Kafka: the client is to see that this is not its own fault, and that a retry may not help.
            ReadError::Corrupt { .. } => ErrorCode::CorruptMessage,
            ReadError::Io(error) => {
                error!(%error, "reading the log failed");
                ErrorCode::KafkaStorageError
            }
            ReadError::WouldBlock => ErrorCode::UnknownServerError,
        },
        PartitionReadError::NegativeSize => ErrorCode::UnknownServerError,
    }
}
