//! One inbound connection: a task that reads frames, has them handled, and sends the replies.
//!
//! | state | reads | handles requests | sends | left when |
//! |---|---|---|---|---|
//! | open | yes | yes | yes | |
//! | crowded: too many replies due, or too many bytes of them unsent | until a buffer is full | no | yes | replies leave |
//! | in order: [`Reply::InOrder`] has not ended | until a buffer is full | no | yes | it ends |
//! | half closed: the peer sends no more | no | what it sent before | yes | all is sent, or [`HALF_CLOSED_GRACE`] is over |
//! | draining: the broker stops | no | no | yes | all is sent |
//! | closing: a reply ends the connection | no | no | up to that reply | it is sent |
//!
//! Kafka handles one request of a connection at a time and reads no further meanwhile. Here a request may be handled
//! while the reply to an earlier one waits, but only if that request has had its effect ([`Reply::Parked`]), so nobody
//! can tell the difference by what the requests did.
//!
//! The task's size is the price of an idle connection; so it is one plain struct that polls, not an `async fn`.
//!
//! [`Reply::InOrder`]: super::Reply::InOrder
//! [`Reply::Parked`]: super::Reply::Parked

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::net::TcpStream;
use tracing::debug;

use super::buffer_pool::BufferPool;
use super::connections::Registration;
use super::context::{Command, ConnectionContext};
use super::frame::FrameReader;
use super::handler::{Reply, RequestHandler};
use super::reply_queue::ReplyQueue;
use super::response::CloseReason;
use super::writer::{ResponseWriter, WriteEnd};

/// Replies that may be due on a connection; with more, it handles no requests.
const MAX_UNANSWERED: usize = 64;
/// Bytes of replies that a connection may hold in memory before it handles another request. So it holds at most this
/// and one reply.
const MAX_UNSENT: usize = 1 << 20;
/// Bytes of replies after which they are sent before more requests are handled.
const SEND_FROM: usize = 64 << 10;
/// After so much work, in bytes read and sent, the task lets others run.
const TURN: usize = 1 << 20;
/// What handling a request counts for at least.
const REQUEST_WORK: usize = 16 << 10;
/// A peer that has closed its side may just be waiting for its replies, as Kafka would let it, or be gone; there is no
/// telling until something is sent. After this time (that of `request.timeout.ms` in most clients) it is taken to be gone.
pub(super) const HALF_CLOSED_GRACE: Duration = Duration::from_secs(30);

/// What all connections of a listener have in common.
pub(super) struct ConnectionSettings {
    pub(super) handler: Arc<dyn RequestHandler>,
    pub(super) pool: Arc<BufferPool>,
    /// `socket.request.max.bytes`
    pub(super) max_frame: usize,
}

/// The task of one connection.
pub(super) struct Connection {
    stream: TcpStream,
    context: Arc<ConnectionContext>,
    settings: Arc<ConnectionSettings>,
    reader: FrameReader,
    replies: ReplyQueue,
    writer: ResponseWriter,
    /// Whether the task has run before.
    started: bool,
    /// Whether the peer sends no more.
    half_closed: bool,
    draining: bool,
    /// Counts the connection until it is gone.
    _registration: Registration,
}

impl Connection {
    pub(super) fn new(stream: TcpStream, registration: Registration, settings: Arc<ConnectionSettings>) -> Connection {
        let context = Arc::clone(registration.context());
        let pool = &settings.pool;
        Connection {
            reader: FrameReader::new(Arc::clone(pool), context.id, settings.max_frame),
            replies: ReplyQueue::new(),
            writer: ResponseWriter::new(Arc::clone(pool), context.id),
            stream,
            context,
            settings,
            started: false,
            half_closed: false,
            draining: false,
            _registration: registration,
        }
    }

    /// Does what there is to do. `Ready` when the connection is over.
    fn poll_run(&mut self, cx: &mut Context<'_>) -> Poll<CloseReason> {
        if !self.started {
            self.started = true;
            self.context.control.set_waker(cx.waker());
        }
        match self.context.control.command() {
            None => {}
            Some(Command::Drain) => self.draining = true,
            Some(Command::Idle) => return Poll::Ready(CloseReason::new("idle for connections.max.idle.ms")),
            Some(Command::Excess) => return Poll::Ready(CloseReason::new("more than max.connections")),
            Some(Command::PeerGone) => return Poll::Ready(CloseReason::new("the peer closed it, a reply was due")),
            Some(Command::Stop) => return Poll::Ready(CloseReason::new("the broker stops")),
        }
        match self.poll_turn(cx) {
            Ok(()) => {
                self.reader.settle();
                if self.context.control.take_rest() {
                    self.replies.shrink();
                    self.writer.shrink();
                }
                Poll::Pending
            }
            Err(reason) => Poll::Ready(reason),
        }
    }

    /// Works until nothing can be done without waiting, or the turn is over; then the task is woken already.
    fn poll_turn(&mut self, cx: &mut Context<'_>) -> Result<(), CloseReason> {
        let mut turn = TURN;
        while turn > 0 {
            self.replies.poll(cx, &mut self.writer, MAX_UNSENT);
            let mut done = match self.writer.poll_write(cx, &self.stream, turn) {
                Poll::Ready(sent) => sent.map_err(write_end)?,
                Poll::Pending => 0,
            };
            if done > 0 {
                self.context.control.mark_active();
            }
            done += self.handle_frames(turn);
            if done == 0 {
                if self.is_over() {
                    return Err(self.over());
                }
                match self.poll_read(cx) {
                    Poll::Ready(read) => done += read?,
                    Poll::Pending => return Ok(()),
                }
            }
            turn = turn.saturating_sub(done);
        }
        cx.waker().wake_by_ref();
        Ok(())
    }

    /// Has the requests handled that have arrived, as far as they may be. Returns how much work that was.
    fn handle_frames(&mut self, turn: usize) -> usize {
        let mut work = 0;
        let mut unsent = 0;
        while work < turn && unsent < SEND_FROM && self.takes_requests() {
            let before = self.unsent();
            let reply = match self.reader.next_frame() {
                Ok(None) => break,
                Ok(Some(frame)) => {
                    work += frame.len().max(REQUEST_WORK);
                    self.settings.handler.handle(&self.context, frame)
                }
                Err(error) => {
                    work += REQUEST_WORK;
                    Reply::Close(CloseReason::new(error.to_string()))
                }
            };
            if !matches!(reply, Reply::Close(_)) {
                self.reader.prove();
            }
            self.replies.push(reply, &mut self.writer);
            unsent += self.unsent() - before;
        }
        work
    }

    fn takes_requests(&self) -> bool {
        !self.draining
            && self.replies.takes_requests()
            && self.replies.len() + self.writer.len() < MAX_UNANSWERED
            && self.unsent() < MAX_UNSENT
    }

    /// Bytes of replies held in memory.
    fn unsent(&self) -> usize {
        self.replies.memory() + self.writer.memory()
    }

    /// Reads once. Also when no request may be handled, to notice a peer that goes away.
    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<Result<usize, CloseReason>> {
        if self.half_closed || self.draining || self.replies.is_closing() || self.reader.is_full() {
            return Poll::Pending;
        }
        // Only when there is something to read, a buffer is taken for it.
        let read = match self.stream.poll_read_ready(cx) {
            Poll::Ready(Ok(())) => self.reader.poll_fill(cx, &mut self.stream),
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Pending => Poll::Pending,
        };
        match read {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Ok(0)) => {
                self.half_closed = true;
                self.context.control.mark_half_closed();
                // Not nothing: the turn goes on, to see whether this was all.
                Poll::Ready(Ok(1))
            }
            Poll::Ready(Ok(read)) => {
                self.context.control.mark_active();
                Poll::Ready(Ok(read))
            }
            Poll::Ready(Err(error)) => Poll::Ready(Err(socket_error(&error))),
        }
    }

    /// Whether nothing will come and nothing is to be sent any more.
    fn is_over(&self) -> bool {
        (self.half_closed || self.draining) && self.replies.len() == 0 && self.writer.len() == 0
    }

    fn over(&self) -> CloseReason {
        if self.draining {
            CloseReason::new("the broker stops")
        } else if self.reader.is_empty() {
            CloseReason::new("the peer closed it")
        } else {
            CloseReason::new("the peer closed it in the middle of a request")
        }
    }
}

impl Future for Connection {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let reason = std::task::ready!(self.poll_run(cx));
        let context = &self.context;
        let client = context.client();
        debug!(
            connection = %context,
            listener = context.listener.name,
            client = client.map(|client| client.software_name.as_str()),
            client_version = client.map(|client| client.software_version.as_str()),
            %reason,
            "connection closed"
        );
        Poll::Ready(())
    }
}

fn write_end(end: WriteEnd) -> CloseReason {
    match end {
        WriteEnd::Close(reason) => reason,
        WriteEnd::Socket(error) => socket_error(&error),
        WriteEnd::Log(error) => CloseReason::new(format!("a log could not be read for the reply: {error}")),
    }
}

fn socket_error(error: &io::Error) -> CloseReason {
    CloseReason::new(error.to_string())
}
