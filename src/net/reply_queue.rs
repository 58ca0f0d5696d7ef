//! The replies that are due on a connection, in the order of their requests, as long as one of them is not there yet.

use std::collections::VecDeque;
use std::task::{Context, Poll};

use futures_util::future::BoxFuture;

use super::handler::Reply;
use super::response::Response;
use super::writer::ResponseWriter;

enum Pending {
    Ready(Response),
    Waiting(BoxFuture<'static, Response>),
}

/// Replies behind one that waits. Those before it are in the [`ResponseWriter`].
pub(super) struct ReplyQueue {
    replies: VecDeque<Pending>,
    /// Whether the last of `replies` must end before another request may be handled.
    in_order: bool,
    /// Bytes that the ready ones hold.
    memory: usize,
    /// Whether a reply was to close the connection: nothing comes after it.
    closing: bool,
}

impl ReplyQueue {
    pub(super) fn new() -> ReplyQueue {
        ReplyQueue { replies: VecDeque::new(), in_order: false, memory: 0, closing: false }
    }

    pub(super) fn len(&self) -> usize {
        self.replies.len()
    }

    /// Bytes that the replies here hold in memory.
    pub(super) fn memory(&self) -> usize {
        self.memory
    }

    /// Whether another request may be handled, as far as the order goes.
    pub(super) fn takes_requests(&self) -> bool {
        !self.in_order && !self.closing
    }

    /// Whether a reply was to close the connection.
    pub(super) fn is_closing(&self) -> bool {
        self.closing
    }

    /// Adds the reply to the latest request; one that may leave at once goes to the writer.
    pub(super) fn push(&mut self, reply: Reply, writer: &mut ResponseWriter) {
        assert!(self.takes_requests(), "no request is handled out of order");
        let pending = match reply {
            Reply::None => return,
            Reply::Now(response) => Pending::Ready(response),
            Reply::Close(reason) => Pending::Ready(Response::empty().then_close(reason)),
            Reply::Parked(response) => Pending::Waiting(response),
            Reply::InOrder(response) => {
                self.in_order = true;
                Pending::Waiting(response)
            }
        };
        match pending {
            Pending::Ready(response) => {
                self.closing |= response.then_close.is_some();
                if self.replies.is_empty() {
                    writer.push(response);
                } else {
                    self.memory += response.memory();
                    self.replies.push_back(Pending::Ready(response));
                }
            }
            waiting => self.replies.push_back(waiting),
        }
    }

    /// Moves the replies that have become ready to the writer, until that holds more than `memory` bytes.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>, writer: &mut ResponseWriter, memory: usize) {
        while writer.memory() <= memory
            && let Some(front) = self.replies.front_mut()
        {
            if let Pending::Waiting(waiting) = front {
                let Poll::Ready(response) = waiting.as_mut().poll(cx) else { break };
                self.closing |= response.then_close.is_some();
                self.replies.pop_front();
                if self.replies.is_empty() {
                    self.in_order = false;
                }
                writer.push(response);
            } else if let Some(Pending::Ready(response)) = self.replies.pop_front() {
                self.memory -= response.memory();
                writer.push(response);
            }
        }
        // The requests behind it wait for it to end, so it must not wait for its turn.
        if self.in_order
            && (self.replies.len() > 1 || writer.memory() > memory)
            && let Some(back) = self.replies.back_mut()
            && let Pending::Waiting(waiting) = back
            && let Poll::Ready(response) = waiting.as_mut().poll(cx)
        {
            self.in_order = false;
            self.closing |= response.then_close.is_some();
            self.memory += response.memory();
            *back = Pending::Ready(response);
        }
    }

    /// Frees what is not needed for the replies that are due.
    pub(super) fn shrink(&mut self) {
        self.replies.shrink_to_fit();
    }
}
