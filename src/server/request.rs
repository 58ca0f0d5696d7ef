//! Why a request gets no answer of its API, and what then becomes of its connection.

use thiserror::Error;

use crate::controller::ControllerError;
use crate::net::{CloseReason, Response};
use crate::protocol::DecodeError;
use crate::protocol::messages::EncodeError;

/// Ends the connection that the request came by, as Kafka does.
#[derive(Debug, Error)]
pub enum RequestError {
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
