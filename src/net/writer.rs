//! Sends responses: what is in memory by vectored writes, pieces of the log by `sendfile` or through a pooled buffer.
//!
//! A piece of the log of [`SENDFILE_FROM`] bytes or more goes from the page cache to the socket by `sendfile`, right
//! behind its header, which is sent with `MSG_MORE` so that both leave in full packets. Smaller ones are read into a
//! buffer and leave together with what is around them in one call. Either happens only when the bytes are in the page
//! cache. If they are not, a thread of the blocking pool brings them there first: the connection's own thread never
//! waits for a disk.
//!
//! A file that has become shorter than the response says (a truncation) ends the connection. No other bytes are ever
//! sent in the place of those.

use std::collections::VecDeque;
use std::future::Future as _;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::{Buf as _, Bytes};
use rustix::net::{SendAncillaryBuffer, SendFlags};
use tokio::io::Interest;
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

use super::buffer_pool::{BUFFER_SIZE, BufferPool};
use super::response::{CloseReason, Response};
use crate::protocol::frame::Chunk;
use crate::storage::slice::LogSlice;

/// Pieces of the log from this size on are sent by `sendfile`.
const SENDFILE_FROM: usize = 32 << 10;
/// How much `sendfile` sends between two looks at whether the rest is in memory, and how much a read ahead reads.
const WINDOW: usize = 1 << 20;
/// Slices in one vectored write.
const MAX_SLICES: usize = 64;

/// A piece of what is to be sent.
enum Piece {
    /// The length before a frame, and how much of it is sent.
    Prefix([u8; 4], u8),
    Bytes(Bytes),
    /// A piece of the log; never empty.
    File(LogSlice),
    /// What was a piece of the log, now in the staging buffer.
    Staged {
        start: usize,
        end: usize,
    },
    /// The end of a response.
    End(Option<CloseReason>),
}

/// The responses of one connection that are ready to leave, in order.
pub(super) struct ResponseWriter {
    pieces: VecDeque<Piece>,
    /// How many [`Piece::End`] are among `pieces`.
    responses: usize,
    /// Bytes of all [`Piece::Bytes`].
    memory: usize,
    /// There only while there are pieces of the log to send.
    log: Option<Box<LogReads>>,
    pool: Arc<BufferPool>,
    /// For the pool.
    hint: u64,
}

/// How the pieces of the log come into memory.
#[derive(Default)]
struct LogReads {
    /// A pooled buffer into which small pieces are read one after the other; empty until it is needed.
    staging: Vec<u8>,
    staging_used: usize,
    /// How many [`Piece::Staged`] there are.
    staged: usize,
    read_ahead: Option<JoinHandle<io::Result<()>>>,
    /// So many bytes of the next pieces are taken to be in the page cache: they were just read, or found there.
    trusted: usize,
}

/// Why nothing more can be sent.
pub(super) enum WriteEnd {
    /// A response said that the connection ends behind it.
    Close(CloseReason),
    Socket(io::Error),
    /// A piece of the log could not be read.
    Log(io::Error),
}

impl ResponseWriter {
    pub(super) fn new(pool: Arc<BufferPool>, hint: u64) -> ResponseWriter {
        ResponseWriter { pieces: VecDeque::new(), responses: 0, memory: 0, log: None, pool, hint }
    }

    /// How many responses have not left yet.
    pub(super) fn len(&self) -> usize {
        self.responses
    }

    /// Bytes that these responses hold in memory.
    pub(super) fn memory(&self) -> usize {
        self.memory
    }

    /// Adds a response behind the others.
    pub(super) fn push(&mut self, response: Response) {
        let length = response.len();
        if length > 0 {
            let length = i32::try_from(length).expect("a frame fits its length");
            self.pieces.push_back(Piece::Prefix(length.to_be_bytes(), 0));
        }
        for chunk in response.head.map(Chunk::Bytes).into_iter().chain(response.tail) {
            match chunk {
                chunk if chunk.is_empty() => {}
                Chunk::Bytes(bytes) => {
                    self.memory += bytes.len();
                    self.pieces.push_back(Piece::Bytes(bytes));
                }
                Chunk::File { slice, length } => {
                    assert!(slice.len() >= length, "the chunk is no longer than its slice");
                    self.pieces.push_back(Piece::File(slice.truncated(length)));
                }
            }
        }
        if length > 0 || response.then_close.is_some() {
            self.pieces.push_back(Piece::End(response.then_close));
            self.responses += 1;
        }
    }

    /// Sends until everything is sent, the socket takes no more or about `budget` bytes are sent. `Ready` with the
    /// bytes sent, 0 if there was nothing to send; `Pending` if there was but none could be sent.
    pub(super) fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        stream: &TcpStream,
        budget: usize,
    ) -> Poll<Result<usize, WriteEnd>> {
        let mut sent = 0;
        while sent < budget {
            self.pop_ends()?;
            if self.pieces.is_empty() {
                self.settle();
                break;
            }
            match self.poll_write_some(cx, stream)? {
                Poll::Ready(bytes) => sent += bytes,
                Poll::Pending if sent == 0 => return Poll::Pending,
                Poll::Pending => break,
            }
        }
        Poll::Ready(Ok(sent))
    }

    /// Passes the ends of the responses that have left.
    fn pop_ends(&mut self) -> Result<(), WriteEnd> {
        while let Some(Piece::End(then_close)) = self.pieces.front_mut() {
            let then_close = then_close.take();
            self.pieces.pop_front();
            self.responses -= 1;
            if let Some(reason) = then_close {
                return Err(WriteEnd::Close(reason));
            }
        }
        Ok(())
    }

    /// Gives back what is not needed while there is nothing to send.
    fn settle(&mut self) {
        if let Some(log) = self.log.take()
            && !log.staging.is_empty()
        {
            self.pool.give_send_buffer(self.hint, log.staging);
        }
    }

    /// Frees what is not needed for what is still to be sent. To be called when nothing was sent for a while.
    pub(super) fn shrink(&mut self) {
        self.pieces.shrink_to_fit();
        // What was in the page cache then may have left it.
        if let Some(log) = &mut self.log
            && log.read_ahead.is_none()
        {
            log.trusted = 0;
        }
    }

    /// Sends once.
    fn poll_write_some(&mut self, cx: &mut Context<'_>, stream: &TcpStream) -> Poll<Result<usize, WriteEnd>> {
        loop {
            let log = self.log.as_deref_mut();
            if let Some(log) = log
                && let Some(read_ahead) = &mut log.read_ahead
            {
                let read = ready!(Pin::new(read_ahead).poll(cx));
                log.read_ahead = None;
                // The outer error is a panic of the reading thread, or the end of the runtime.
                read.map_err(io::Error::other).flatten().map_err(WriteEnd::Log)?;
            }
            let in_memory = match self.pieces.front() {
                Some(Piece::File(slice)) if goes_by_sendfile(slice) => {
                    let trusted = self.log.as_ref().map_or(0, |log| log.trusted);
                    let window = slice.clone().truncated(if trusted > 0 { trusted } else { WINDOW });
                    if trusted > 0 {
                        return self.poll_sendfile(cx, stream, &window);
                    }
                    if window.is_cached().map_err(WriteEnd::Log)? {
                        // The socket takes less than that at a time; one look is enough for all of it.
                        self.log.get_or_insert_default().trusted = window.len();
                        return self.poll_sendfile(cx, stream, &window);
                    }
                    false
                }
                _ => self.stage().map_err(WriteEnd::Log)?,
            };
            if in_memory {
                return self.poll_send_memory(cx, stream).map_err(WriteEnd::Socket);
            }
            self.start_read_ahead();
        }
    }

    /// Sends from `window`, the beginning of the piece in front.
    fn poll_sendfile(
        &mut self,
        cx: &mut Context<'_>,
        stream: &TcpStream,
        window: &LogSlice,
    ) -> Poll<Result<usize, WriteEnd>> {
        let Some(file) = window.fd() else { unreachable!("only slices with a descriptor come here") };
        let sent = ready!(poll_send(cx, stream, || {
            let mut position = window.position();
            rustix::fs::sendfile(stream, file, Some(&mut position), window.len())
        }));
        match sent {
            Ok(0) => Poll::Ready(Err(WriteEnd::Log(io::ErrorKind::UnexpectedEof.into()))),
            Ok(sent) => {
                self.advance(sent);
                Poll::Ready(Ok(sent))
            }
            // It may be the file's error as well as the socket's. The connection ends either way.
            Err(error) => {
                window.note_failure(&error);
                Poll::Ready(Err(WriteEnd::Socket(error)))
            }
        }
    }

    /// Reads the small pieces of the log among the next pieces into the staging buffer, as far as they are in the page
    /// cache and there is room. Returns whether the piece in front can now be sent from memory.
    fn stage(&mut self) -> io::Result<bool> {
        let mut at = 0;
        while at < self.pieces.len().min(MAX_SLICES) {
            let Piece::File(slice) = &mut self.pieces[at] else {
                at += 1;
                continue;
            };
            let log = self.log.get_or_insert_default();
            if log.staged == 0 {
                log.staging_used = 0;
            }
            let room = BUFFER_SIZE - log.staging_used;
            if goes_by_sendfile(slice) || room < slice.len().min(BUFFER_SIZE) {
                break;
            }
            if log.staging.is_empty() {
                log.staging = self.pool.send_buffer(self.hint);
            }
            let front = slice.clone().truncated(BUFFER_SIZE);
            let (start, end) = (log.staging_used, log.staging_used + front.len());
            if at == 0 && log.trusted > 0 {
                // It was in the page cache a moment ago. Should it have been pushed out again, this waits for the
                // disk; otherwise, with little memory, nothing would ever be sent.
                front.read(&mut log.staging[start..end])?;
            } else if !front.read_cached(&mut log.staging[start..end])? {
                break;
            }
            log.staging_used = end;
            log.staged += 1;
            slice.advance(front.len());
            if slice.is_empty() {
                self.pieces[at] = Piece::Staged { start, end };
            } else {
                self.pieces.insert(at, Piece::Staged { start, end });
            }
            at += 1;
        }
        Ok(!matches!(self.pieces.front(), Some(Piece::File(_))))
    }

    /// Has the next pieces of the log read by a thread that may wait for the disk.
    fn start_read_ahead(&mut self) {
        let mut left = WINDOW;
        let mut slices = Vec::new();
        for piece in &self.pieces {
            let Piece::File(slice) = piece else { continue };
            let slice = slice.clone().truncated(left);
            left -= slice.len();
            slices.push(slice);
            if left == 0 {
                break;
            }
        }
        let log = self.log.get_or_insert_default();
        log.trusted = WINDOW - left;
        log.read_ahead =
            Some(tokio::task::spawn_blocking(move || slices.iter().try_for_each(|slice| slice.read_ahead())));
    }

    /// Sends what is in memory from the front on, up to the next piece of the log.
    fn poll_send_memory(&mut self, cx: &mut Context<'_>, stream: &TcpStream) -> Poll<io::Result<usize>> {
        let mut slices = [IoSlice::new(&[]); MAX_SLICES];
        let mut count = 0;
        let mut flags = SendFlags::NOSIGNAL;
        let staging = self.log.as_ref().map_or(&[][..], |log| &log.staging);
        for piece in &self.pieces {
            let bytes = match piece {
                Piece::Prefix(prefix, sent) => &prefix[usize::from(*sent)..],
                Piece::Bytes(bytes) => bytes,
                Piece::Staged { start, end } => &staging[*start..*end],
                Piece::End(None) => continue,
                Piece::End(Some(_)) => break,
                Piece::File(_) => {
                    flags |= SendFlags::MORE;
                    break;
                }
            };
            slices[count] = IoSlice::new(bytes);
            count += 1;
            if count == MAX_SLICES {
                break;
            }
        }
        assert!(count > 0, "the caller sees to it that there is something to send");
        let sent = ready!(poll_send(cx, stream, || {
            rustix::net::sendmsg(stream, &slices[..count], &mut SendAncillaryBuffer::default(), flags)
        }))?;
        self.advance(sent);
        Poll::Ready(Ok(sent))
    }

    /// Takes away what was sent.
    fn advance(&mut self, mut sent: usize) {
        while sent > 0 {
            let front = self.pieces.front_mut().expect("no more is sent than there was");
            let (taken, finished) = match front {
                Piece::Prefix(prefix, done) => {
                    let taken = sent.min(prefix.len() - usize::from(*done));
                    *done += taken as u8;
                    (taken, usize::from(*done) == prefix.len())
                }
                Piece::Bytes(bytes) => {
                    let taken = sent.min(bytes.len());
                    bytes.advance(taken);
                    self.memory -= taken;
                    (taken, bytes.is_empty())
                }
                Piece::File(slice) => {
                    let taken = sent.min(slice.len());
                    if let Some(log) = &mut self.log {
                        log.distrust(taken);
                    }
                    slice.advance(taken);
                    (taken, slice.is_empty())
                }
                Piece::Staged { start, end } => {
                    let taken = sent.min(*end - *start);
                    *start += taken;
                    let log = self.log.as_mut().expect("it holds what is staged");
                    log.distrust(taken);
                    log.staged -= usize::from(start == end);
                    (taken, start == end)
                }
                Piece::End(_) => {
                    self.responses -= 1;
                    (0, true)
                }
            };
            sent -= taken;
            if finished {
                self.pieces.pop_front();
            }
        }
    }
}

impl LogReads {
    /// So many bytes of pieces of the log are sent.
    fn distrust(&mut self, sent: usize) {
        self.trusted = self.trusted.saturating_sub(sent);
    }
}

impl Drop for ResponseWriter {
    fn drop(&mut self) {
        self.settle();
    }
}

fn goes_by_sendfile(slice: &LogSlice) -> bool {
    slice.len() >= SENDFILE_FROM && slice.fd().is_some()
}

/// Runs `send` when the socket has room, until it says something else than that there is none.
fn poll_send(
    cx: &mut Context<'_>,
    stream: &TcpStream,
    mut send: impl FnMut() -> rustix::io::Result<usize>,
) -> Poll<io::Result<usize>> {
    loop {
        ready!(stream.poll_write_ready(cx))?;
        match stream.try_io(Interest::WRITABLE, || Ok(send()?)) {
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
            result => return Poll::Ready(result),
        }
    }
}
