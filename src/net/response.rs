//! The answer to one request, as the pieces that go out one after the other.

use std::borrow::Cow;
use std::fmt;

use bytes::Bytes;

use crate::protocol::frame::{Chunk, Frame};
use crate::storage::slice::LogSlice;

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

/// What follows the length of a response frame: its header, then its body. The connection writes the length.
#[derive(Debug, Default)]
pub struct Response {
    /// Most responses are just this; they need no vector.
    pub(super) head: Option<Bytes>,
    pub(super) tail: Vec<Chunk<LogSlice>>,
    pub(super) then_close: Option<CloseReason>,
}

impl Response {
    /// Nothing is sent, as for Produce with acks=0.
    pub fn empty() -> Response {
        Response::default()
    }

    /// Ends the connection once this response has left. Together with [`Response::empty`]: without an answer.
    pub fn then_close(mut self, reason: CloseReason) -> Response {
        self.then_close = Some(reason);
        self
    }

    /// Bytes on the wire without the length before them; 0 means that nothing is sent.
    pub fn len(&self) -> usize {
        self.head.as_ref().map_or(0, Bytes::len) + self.tail.iter().map(Chunk::len).sum::<usize>()
    }

    /// Whether nothing is sent.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes that the response holds in memory.
    pub(super) fn memory(&self) -> usize {
        let chunks = self.tail.iter().map(|chunk| match chunk {
            Chunk::Bytes(bytes) => bytes.len(),
            Chunk::File { .. } => 0,
        });
        self.head.as_ref().map_or(0, Bytes::len) + chunks.sum::<usize>()
    }
}

impl From<Bytes> for Response {
    fn from(bytes: Bytes) -> Response {
        Response { head: Some(bytes), ..Response::default() }
    }
}

impl From<Frame<LogSlice>> for Response {
    fn from(frame: Frame<LogSlice>) -> Response {
        Response { tail: frame.chunks, ..Response::default() }
    }
}
