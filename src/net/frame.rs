//! Frames: cuts what comes out of a socket into requests.
//!
//! A frame is four bytes of length (big-endian, signed) and that many bytes. Bytes are read into pooled buffers and
//! frames are slices of them, with three exceptions:
//! - a small frame is copied to memory of its own, so that a request that keeps a piece of it keeps no whole buffer;
//! - a frame larger than a buffer is gathered in memory of its own, which grows as its bytes arrive: what a peer
//!   announces costs nothing until it is sent;
//! - the beginning of a frame that makes the connection wait is put aside in as much memory as it needs, and its buffer
//!   given back.

use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::{Buf, BufMut, Bytes, BytesMut};
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncReadExt};

use super::buffer_pool::{BUFFER_SIZE, BufferPool};

/// Bytes of a frame's length.
const PREFIX: usize = 4;
/// Frames below this are copied out of the buffer.
const COPY_BELOW: usize = 4 << 10;
/// Up to this much of an unfinished frame is put aside when the connection waits.
const PUT_ASIDE: usize = 16 << 10;
/// With less room than this left in a buffer, reading goes on in another.
const ROOM: usize = 64 << 10;
/// First allocation for a large frame of a peer that has proven itself; most large produce requests fit.
const PROVEN_ALLOCATION: usize = 2 << 20;
/// Longest first frame of a connection, except for Produce.
const UNPROVEN_LIMIT: usize = 1 << 20;
const PRODUCE: i16 = 0;

/// Why no more frames can be read. Kafka closes the connection in all of these cases.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(super) enum FrameError {
    #[error("invalid frame size {0}")]
    Negative(i32),
    #[error("an empty frame")]
    Empty,
    #[error("frame of {size} bytes is larger than {limit}")]
    TooLarge { size: usize, limit: usize },
}

/// Where the bytes of the connection are.
enum Held {
    Nothing,
    /// Up to [`PUT_ASIDE`] bytes, in just the memory they need.
    Aside(Box<[u8]>),
    Buffer(BytesMut),
    Large(Box<LargeFrame>),
}

/// A frame that does not fit a buffer, as far as it has arrived.
struct LargeFrame {
    bytes: Vec<u8>,
    size: usize,
}

/// Reads the frames of one connection.
pub(super) struct FrameReader {
    held: Held,
    pool: Arc<BufferPool>,
    /// For the pool.
    hint: u64,
    /// `socket.request.max.bytes`
    limit: usize,
    /// Whether a request of this peer was valid.
    proven: bool,
}

impl FrameReader {
    pub(super) fn new(pool: Arc<BufferPool>, hint: u64, limit: usize) -> FrameReader {
        FrameReader { held: Held::Nothing, pool, hint, limit, proven: false }
    }

    /// The peer has sent a valid request: from now on the configured limit holds for all its frames.
    pub(super) fn prove(&mut self) {
        self.proven = true;
    }

    /// Whether there is no room for more bytes before frames are taken.
    pub(super) fn is_full(&self) -> bool {
        matches!(&self.held, Held::Buffer(buffer) if buffer.len() >= BUFFER_SIZE)
    }

    /// Whether no byte is held.
    pub(super) fn is_empty(&self) -> bool {
        match &self.held {
            Held::Nothing => true,
            Held::Aside(_) | Held::Large(_) => false,
            Held::Buffer(buffer) => buffer.is_empty(),
        }
    }

    /// Reads once. To be called when `source` is ready (a buffer is taken for it); must not be called when
    /// [`FrameReader::is_full`]. 0 bytes mean that the peer sends no more.
    pub(super) fn poll_fill<R>(&mut self, cx: &mut Context<'_>, source: &mut R) -> Poll<io::Result<usize>>
    where
        R: AsyncRead + Unpin,
    {
        match &mut self.held {
            Held::Large(large) => {
                large.grow(self.proven);
                let room = large.bytes.capacity().min(large.size) - large.bytes.len();
                pin!(source.read_buf(&mut (&mut large.bytes).limit(room))).poll(cx)
            }
            Held::Nothing | Held::Aside(_) | Held::Buffer(_) => {
                let buffer = self.buffer_with_room();
                let room = buffer.capacity() - buffer.len();
                pin!(source.read_buf(&mut buffer.limit(room))).poll(cx)
            }
        }
    }

    /// The buffer, with room for the frame that is arriving and for a good deal more.
    fn buffer_with_room(&mut self) -> &mut BytesMut {
        if !matches!(self.held, Held::Buffer(_)) {
            let mut buffer = self.pool.receive_buffer(self.hint);
            if let Held::Aside(bytes) = &self.held {
                buffer.put_slice(bytes);
            }
            self.held = Held::Buffer(buffer);
        }
        let Held::Buffer(buffer) = &mut self.held else { unreachable!("it was just made one") };
        let frame = announced_size(buffer).map_or(PREFIX, |size| PREFIX.saturating_add_signed(size as isize));
        let wanted = frame.max(buffer.len() + ROOM).min(BUFFER_SIZE);
        if buffer.capacity() < wanted && !buffer.try_reclaim(BUFFER_SIZE - buffer.len()) {
            let mut next = self.pool.receive_buffer(self.hint);
            next.put_slice(buffer);
            self.pool.give_receive_buffer(self.hint, std::mem::replace(buffer, next));
        }
        buffer
    }

    /// The next frame, without its length, if it is complete.
    pub(super) fn next_frame(&mut self) -> Result<Option<Bytes>, FrameError> {
        match &mut self.held {
            Held::Nothing => Ok(None),
            Held::Aside(bytes) => {
                let complete = announced_size(bytes).is_some_and(|size| bytes.len() >= PREFIX + size.max(0) as usize);
                if !complete {
                    return Ok(None);
                }
                self.buffer_with_room();
                self.next_frame()
            }
            Held::Large(large) if large.bytes.len() < large.size => Ok(None),
            Held::Large(large) => {
                let frame = Bytes::from(std::mem::take(&mut large.bytes));
                self.held = Held::Nothing;
                Ok(Some(frame))
            }
            Held::Buffer(buffer) => {
                let Some(size) = announced_size(buffer) else { return Ok(None) };
                let size = usize::try_from(size).map_err(|_| FrameError::Negative(size))?;
                if size == 0 {
                    return Err(FrameError::Empty);
                }
                if size > self.limit {
                    return Err(FrameError::TooLarge { size, limit: self.limit });
                }
                if size > UNPROVEN_LIMIT && !self.proven {
                    // The first two bytes are the API's key.
                    let Some(key) = buffer.get(PREFIX..PREFIX + 2) else { return Ok(None) };
                    if i16::from_be_bytes([key[0], key[1]]) != PRODUCE {
                        return Err(FrameError::TooLarge { size, limit: UNPROVEN_LIMIT });
                    }
                }
                if PREFIX + size > BUFFER_SIZE {
                    let large = LargeFrame::new(size, &buffer[PREFIX..], self.proven);
                    if let Held::Buffer(buffer) = std::mem::replace(&mut self.held, Held::Large(Box::new(large))) {
                        self.pool.give_receive_buffer(self.hint, buffer);
                    }
                    return Ok(None);
                }
                if buffer.len() < PREFIX + size {
                    return Ok(None);
                }
                buffer.advance(PREFIX);
                Ok(Some(if size < COPY_BELOW {
                    let frame = Bytes::copy_from_slice(&buffer[..size]);
                    buffer.advance(size);
                    frame
                } else {
                    buffer.split_to(size).freeze()
                }))
            }
        }
    }

    /// Gives back the buffer as far as possible, before the connection waits.
    pub(super) fn settle(&mut self) {
        if let Held::Buffer(buffer) = &mut self.held
            && buffer.len() <= PUT_ASIDE
        {
            let held = if buffer.is_empty() { Held::Nothing } else { Held::Aside(buffer[..].into()) };
            if let Held::Buffer(buffer) = std::mem::replace(&mut self.held, held) {
                self.pool.give_receive_buffer(self.hint, buffer);
            }
        }
    }
}

impl Drop for FrameReader {
    fn drop(&mut self) {
        if let Held::Buffer(buffer) = std::mem::replace(&mut self.held, Held::Nothing) {
            self.pool.give_receive_buffer(self.hint, buffer);
        }
    }
}

impl LargeFrame {
    fn new(size: usize, arrived: &[u8], proven: bool) -> LargeFrame {
        let first = if proven { PROVEN_ALLOCATION } else { 2 * arrived.len() };
        let mut bytes = Vec::with_capacity(first.max(arrived.len()).min(size));
        bytes.extend_from_slice(arrived);
        LargeFrame { bytes, size }
    }

    /// Makes room for more bytes: twice as many as have arrived, never more than the frame has.
    fn grow(&mut self, proven: bool) {
        if self.bytes.len() == self.bytes.capacity() {
            let least = if proven { PROVEN_ALLOCATION } else { ROOM };
            let capacity = (2 * self.bytes.len()).max(least).min(self.size);
            self.bytes.reserve_exact(capacity - self.bytes.len());
        }
    }
}

fn announced_size(bytes: &[u8]) -> Option<i32> {
    bytes.first_chunk().map(|size| i32::from_be_bytes(*size))
}

#[cfg(test)]
mod tests;
