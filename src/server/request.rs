//! What becomes of a request that is refused as a whole: an answer that says so everywhere, or the end of its
//! connection.

use kafka_protocol::protocol::Request;
use thiserror::Error;

use crate::controller::ControllerError;
use crate::net::{CloseReason, Response};
use crate::protocol::messages::EncodeError;
use crate::protocol::{ApiError, DecodeError};

/// A request that can be refused as a whole.
pub trait FailableRequest: Request {
    /// The answer of a refused request: the error stands wherever the answer has a place for one, for each topic or
    /// resource that was asked for, as Kafka's `getErrorResponse` has it.
    fn error_response(&self, error: &ApiError, version: i16) -> Self::Response;
}

/// Why a request as a whole is not answered as it wants. All but [`RequestError::Failed`] end the connection that it
/// came by, as in Kafka.
#[derive(Debug, Error)]
pub enum RequestError {
    /// To be answered with [`FailableRequest::error_response`]: see `Call::answer`.
    #[error("the request failed: {0}")]
    Failed(ApiError),
    /// The client's doing.
    #[error("malformed request: {0}")]
    Decode(#[from] DecodeError),
    /// A request that Kafka, too, gives no answer to.
    #[error("{0}")]
    Refused(&'static str),
    /// Ours.
    #[error("the response could not be written: {0}")]
    Encode(#[from] EncodeError),
    /// The controller, which is part of this process, is gone.
    #[error(transparent)]
    Controller(#[from] ControllerError),
    /// The broker is going down.
    #[error("the broker is shutting down")]
    Cancelled,
}

impl RequestError {
    /// The reason in the words of the log.
    pub fn close_reason(&self) -> CloseReason {
        if let RequestError::Encode(error) = self {
            tracing::error!(%error, "a response could not be written");
        }
        CloseReason::new(self.to_string())
    }

    /// No bytes, and the end of the connection.
    pub fn into_response(self) -> Response {
        Response::empty().then_close(self.close_reason())
    }
}
