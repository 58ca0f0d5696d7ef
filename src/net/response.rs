//! The answer to one request, as the pieces that go out one after the other.

use std::borrow::Cow;
use std::fmt;

use bytes::Bytes;

/// Why a connection is closed, for the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CloseReason(Cow<'static, str>);

impl CloseReason {
    pub fn new(text: impl Into<Cow<'static, str>>) -> CloseReason {
        CloseReason(text.into())
    }
}

impl fmt::Display for CloseReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A piece of a response.
#[derive(Debug)]
pub enum Chunk {
    Bytes(Bytes),
}

/// What follows the length of a response frame: its header, then its body. The connection writes the length.
#[derive(Debug, Default)]
pub struct Response {
    chunks: Vec<Chunk>,
    then_close: Option<CloseReason>,
}

impl Response {
    /// A response in pieces. None at all: nothing is sent, as for Produce with acks=0.
    pub fn new(chunks: Vec<Chunk>) -> Response {
        Response { chunks, then_close: None }
    }

    /// Nothing is sent.
    pub fn empty() -> Response {
        Response::default()
    }

    /// Ends the connection once this response has left.
    pub fn then_close(mut self, reason: CloseReason) -> Response {
        self.then_close = Some(reason);
        self
    }
}

impl Response {
    /// Whether anything is sent at all.
    pub fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }
}

impl From<Bytes> for Response {
    fn from(bytes: Bytes) -> Response {
        Response::new(vec![Chunk::Bytes(bytes)])
    }
}
