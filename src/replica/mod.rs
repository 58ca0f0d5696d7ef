//! The replicas on this broker: partitions, their high watermarks, and the requests that wait for them.
//!
//! Handlers and coordinators reach the disk only through here.

mod assignments;
mod late_transactions;
mod log_dirs;
mod manager;
mod moves;
mod partition;
mod ready_set;
mod waiters;
mod watchers;

pub use assignments::{Assignment, Assignments};
pub use log_dirs::{AlterLogDirError, LogDirDescription, LogDirReplica};
pub use manager::{LookupError, ReplicaManager, Settings, topic_config};
pub use partition::{
    Appended, DeleteRecordsError, FetchIsolation, LeaderError, OffsetSpec, Partition, PartitionAppendError,
    PartitionFetch, PartitionRead, PartitionReadError, RequiredAcks, TransactionMarker, VerifiedProducer, Watch,
};
pub use ready_set::ReadySet;
pub use waiters::Reached;

// What a partition's answers are made of, for the handlers, which do not reach past this layer.
pub use crate::storage::log::ChangeError;
pub use crate::storage::log::{
    AbortedTransaction, AppendContext, AppendError, AppendInfo, EpochEndOffset, ReadError, TimestampOffset, Wait,
};
pub use crate::storage::manager::MoveError;
pub use crate::storage::producer_state::{
    ProducerStateEntry, ProducerStateError, TransactionVersion, VerificationGuard,
};
pub use crate::storage::slice::LogSlice;
pub use crate::storage::validate::{RecordError, ValidateError};
