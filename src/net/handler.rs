//! What a connection asks of the broker: an answer for each frame.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::BoxFuture;

use super::context::ConnectionContext;
use super::response::{CloseReason, Response};

/// Answers requests. Called on the connection's task, so it must not block.
pub trait RequestHandler: Send + Sync + 'static {
    /// Takes one request: `frame` is what follows the length, possibly empty.
    ///
    /// Requests of a connection come strictly in the order sent, each after the one before has returned (and, if that
    /// was [`Reply::InOrder`], ended). `frame` is a slice of a larger buffer when it is large itself: whatever outlives
    /// the request (group members' metadata, a long poll's topics) has to be copied out of it, or it pins that buffer.
    fn handle(&self, connection: &Arc<ConnectionContext>, frame: Bytes) -> Reply;
}

/// How a request is answered. Replies leave in the order of the requests, whatever their kind.
pub enum Reply {
    Now(Response),
    /// The request has had its effect; only the answer waits. Requests behind it may be handled meanwhile. Polled only
    /// when all replies before it have ended, and dropped unfinished when the peer goes away.
    Parked(BoxFuture<'static, Response>),
    /// No request behind it may be handled before this has ended. Polled at once, and dropped unfinished when the peer
    /// goes away.
    InOrder(BoxFuture<'static, Response>),
    /// There is no answer (Produce with acks=0).
    None,
    /// The connection ends once the replies before this have left.
    Close(CloseReason),
}

impl fmt::Debug for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reply::Now(response) => f.debug_tuple("Now").field(response).finish(),
            Reply::Parked(_) => f.write_str("Parked"),
            Reply::InOrder(_) => f.write_str("InOrder"),
            Reply::None => f.write_str("None"),
            Reply::Close(reason) => f.debug_tuple("Close").field(reason).finish(),
        }
    }
}
