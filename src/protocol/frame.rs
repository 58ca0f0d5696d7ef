//! An encoded message on its way out: what follows the length of a frame, with holes for the records of a Fetch
//! response, which need never enter the process. The connection writes the length ([`Frame::len`]) before it.
//!
//! `F` is whatever names a piece of a file; this layer only needs to know how long it is.

use bytes::Bytes;

/// A piece of a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Chunk<F> {
    Bytes(Bytes),
    /// `length` bytes that the connection takes from `slice` itself, by `sendfile` or by reading them.
    File {
        slice: F,
        length: usize,
    },
}

impl<F> Chunk<F> {
    /// Bytes on the wire.
    pub fn len(&self) -> usize {
        match self {
            Chunk::Bytes(bytes) => bytes.len(),
            Chunk::File { length, .. } => *length,
        }
    }

    /// Whether nothing goes on the wire.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The pieces of a frame, in the order they are sent.
///
/// Invariant: their length together fits the `i32` that stands before the frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame<F> {
    pub chunks: Vec<Chunk<F>>,
}

impl<F> Frame<F> {
    /// Bytes on the wire, without the length that stands before them.
    pub fn len(&self) -> usize {
        self.chunks.iter().map(Chunk::len).sum()
    }

    /// Whether the frame has no byte at all.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<F> From<Bytes> for Frame<F> {
    fn from(bytes: Bytes) -> Frame<F> {
        Frame { chunks: vec![Chunk::Bytes(bytes)] }
    }
}

/// Whether `length` bytes can follow the length of a frame.
pub(super) fn fits(length: usize) -> bool {
    i32::try_from(length).is_ok()
}
