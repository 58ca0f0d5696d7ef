//! What a decision consists of: records to append, all or none of them, and the response that is true once they are.

use kafka_protocol::protocol::StrBytes;

use crate::metadata::records::VersionedRecord;
use crate::protocol::errors::ErrorCode;

/// Records that one request may at most bring about, as in Kafka: they are appended as one batch.
pub const MAX_RECORDS_PER_REQUEST: usize = 10_000;

/// Records and the response to give when they are appended.
#[derive(Debug)]
pub struct Decision<R> {
    pub records: Vec<VersionedRecord>,
    pub response: R,
}

impl<R> Decision<R> {
    /// An answer that changes nothing.
    pub fn answer(response: R) -> Decision<R> {
        Decision { records: Vec::new(), response }
    }
}

/// An error as a response says it. Without a message, clients show the code's own text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiError {
    pub code: ErrorCode,
    pub message: Option<String>,
}

impl std::fmt::Display for ApiError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.code.name(), self.message.as_deref().unwrap_or(self.code.message()))
    }
}

impl ApiError {
    pub fn new(code: ErrorCode, message: impl Into<String>) -> ApiError {
        ApiError { code, message: Some(message.into()) }
    }

    /// An error that says nothing beyond its code.
    pub fn bare(code: ErrorCode) -> ApiError {
        ApiError { code, message: None }
    }

    /// An error whose message is the code's own text.
    pub fn with_default_message(code: ErrorCode) -> ApiError {
        ApiError::new(code, code.message())
    }

    /// The refusal of a request that would bring about too many records.
    pub fn too_many_records() -> ApiError {
        ApiError::new(ErrorCode::PolicyViolation, "Unable to perform excessively large batch operation.")
    }

    pub(super) fn wire_message(&self) -> Option<StrBytes> {
        self.message.clone().map(StrBytes::from_string)
    }
}
