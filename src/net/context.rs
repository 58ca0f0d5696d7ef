//! What is known of a connection besides its bytes: who is at the other end, and which listener took it in. And the
//! word that the rest of this layer passes to its task.

use std::fmt;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::Waker;

use crate::config::SecurityProtocol;

/// The listener that a connection came in by; shared by all its connections.
#[derive(Debug, PartialEq, Eq)]
pub struct ListenerInfo {
    /// Upper case, as in `listeners`.
    pub name: String,
    pub security_protocol: SecurityProtocol,
}

/// The client's software as it named itself in ApiVersions (KIP-511).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientInformation {
    pub software_name: String,
    pub software_version: String,
}

/// One inbound connection. Lives as long as the connection, or longer in the reply of a request that outlives it.
#[derive(Debug)]
pub struct ConnectionContext {
    /// Unique among the connections of this process, never used again.
    pub id: u64,
    pub listener: Arc<ListenerInfo>,
    /// An IPv4 peer of an IPv6 socket stands here as IPv4.
    pub peer: SocketAddr,
    pub local: SocketAddr,
    client: OnceLock<Box<ClientInformation>>,
    at_work: AtomicBool,
    pub(super) control: Control,
}

impl ConnectionContext {
    pub fn new(id: u64, listener: Arc<ListenerInfo>, peer: SocketAddr, local: SocketAddr) -> ConnectionContext {
        ConnectionContext {
            id,
            listener,
            peer,
            local,
            client: OnceLock::new(),
            at_work: AtomicBool::new(false),
            control: Control::default(),
        }
    }

    /// Keeps what the client said of itself. Later calls change nothing.
    pub fn set_client(&self, client: ClientInformation) {
        let _ = self.client.set(Box::new(client));
    }

    /// Whether the client has asked for more than where to go; see [`ConnectionContext::set_at_work`].
    pub fn is_at_work(&self) -> bool {
        self.at_work.load(Ordering::Relaxed)
    }

    /// Notes that it has. True the first time.
    pub fn set_at_work(&self) -> bool {
        // Most of the time it is noted already; then the cache line is not written.
        !self.is_at_work() && !self.at_work.swap(true, Ordering::Relaxed)
    }

    /// What the client said of itself, if it did.
    pub fn client(&self) -> Option<&ClientInformation> {
        self.client.get().map(Box::as_ref)
    }
}

/// Kafka's form of a connection id, `local-peer-number`.
impl fmt::Display for ConnectionContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}-{}", self.local, self.peer, self.id)
    }
}

/// What a connection's task can be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Command {
    /// Handle no more requests, and end when the last is answered.
    Drain = 1,
    /// End now: nothing was heard of it for `connections.max.idle.ms`.
    Idle,
    /// End now: there are more connections than `max.connections`.
    Excess,
    /// End now: the peer closed its side long ago and a reply is still not there.
    PeerGone,
    /// End now: the broker stops.
    Stop,
}

/// Between a connection's task and those who look after all connections.
#[derive(Debug, Default)]
pub(super) struct Control {
    /// Set when bytes moved, cleared by whoever looks for idle connections.
    active: AtomicBool,
    /// Whether to free what is only needed while there is something to do.
    rest: AtomicBool,
    /// Whether the peer will send no more, while replies are still due.
    half_closed: AtomicBool,
    /// The highest [`Command`] so far; 0 for none.
    command: AtomicU8,
    waker: OnceLock<Waker>,
}

impl Control {
    /// To be called once, on the task itself.
    pub(super) fn set_waker(&self, waker: &Waker) {
        let _ = self.waker.set(waker.clone());
    }

    pub(super) fn mark_active(&self) {
        // Most of the time it is set already; then the cache line is not written.
        if !self.active.load(Ordering::Relaxed) {
            self.active.store(true, Ordering::Relaxed);
        }
    }

    pub(super) fn take_active(&self) -> bool {
        self.active.swap(false, Ordering::Relaxed)
    }

    /// Has the task free what it does not need while there is nothing to do.
    pub(super) fn tell_to_rest(&self) {
        self.rest.store(true, Ordering::Relaxed);
        self.wake();
    }

    pub(super) fn take_rest(&self) -> bool {
        self.rest.load(Ordering::Relaxed) && self.rest.swap(false, Ordering::Relaxed)
    }

    pub(super) fn mark_half_closed(&self) {
        self.half_closed.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_half_closed(&self) -> bool {
        self.half_closed.load(Ordering::Relaxed)
    }

    /// Tells the connection's task, unless it was told something stronger before.
    pub(super) fn tell(&self, command: Command) {
        self.command.fetch_max(command as u8, Ordering::SeqCst);
        self.wake();
    }

    fn wake(&self) {
        if let Some(waker) = self.waker.get() {
            waker.wake_by_ref();
        }
    }

    pub(super) fn command(&self) -> Option<Command> {
        match self.command.load(Ordering::SeqCst) {
            0 => None,
            1 => Some(Command::Drain),
            2 => Some(Command::Idle),
            3 => Some(Command::Excess),
            4 => Some(Command::PeerGone),
            _ => Some(Command::Stop),
        }
    }
}
