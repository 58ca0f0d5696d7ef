//! What a decision consists of: records to append, all or none of them, and the response that is true once they are.

use crate::metadata::records::VersionedRecord;
use crate::protocol::ErrorCode;
pub use crate::protocol::errors::ApiError;

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

impl ApiError {
    /// The refusal of a request that would bring about too many records.
    pub fn too_many_records() -> ApiError {
        ApiError::new(ErrorCode::PolicyViolation, "Unable to perform excessively large batch operation.")
    }
}
