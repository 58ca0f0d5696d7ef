//! Errors of transactions in the words that older clients know.

use crate::protocol::ErrorCode;

/// Clients of before KIP-588 (`older`) do not know PRODUCER_FENCED.
pub fn before_fencing(error: ErrorCode, older: bool) -> ErrorCode {
    match error {
        ErrorCode::ProducerFenced if older => ErrorCode::InvalidProducerEpoch,
        error => error,
    }
}
