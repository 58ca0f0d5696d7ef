//! `SocketServer`: the listeners of this node, and everything that comes in by them.
//!
//! Ports are taken by [`SocketServer::bind`], so that port 0 is known before the node tells others where it is. But a
//! listener is only listened on from [`SocketServer::start`] on: whoever waits for a port to open knows then that the
//! broker serves.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener as StdListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use socket2::{Domain, Protocol, SockRef, Socket, Type};
use thiserror::Error;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};
use tracing::{debug, error, info};

use super::buffer_pool::BufferPool;
use super::connection::{Connection, ConnectionSettings};
use super::connection_quotas::{ConnectionQuotas, connection_limits};
use super::connections::Connections;
use super::context::{Command, ConnectionContext, ListenerInfo};
use super::handler::RequestHandler;
use super::host::look_up;
use crate::clock::Clock;
use crate::config::{BrokerConfig, Endpoint, SecurityProtocol};

/// Why a listener cannot be served.
#[derive(Debug, Error)]
pub enum BindError {
    #[error("listener {listener}: {source}")]
    Bind { listener: String, source: io::Error },
    #[error("listener {listener}: {source}; {HOST_OF_A_LISTENER}")]
    NotHere { listener: String, source: io::Error },
    #[error("listener {listener}: no address for host {host}: {source}; {HOST_OF_A_LISTENER}")]
    Resolve { listener: String, host: String, source: io::Error },
    /// Never serve openly what was meant to be closed.
    #[error("listener {listener}: {protocol} is not served yet")]
    Protocol { listener: String, protocol: SecurityProtocol },
    #[error("max.connections.per.ip.overrides: no address for host {host}: {source}")]
    Override { host: String, source: io::Error },
}

/// What is often put there instead is where clients reach the broker.
const HOST_OF_A_LISTENER: &str = "the host of a listener is a name or an address of this machine, or left out to listen on all of them; \
     where clients reach it is said by advertised.listeners";

/// A listener with its port.
struct Bound {
    info: Arc<ListenerInfo>,
    endpoint: Endpoint,
    /// Gone once it is listened on.
    socket: Option<Socket>,
}

/// What the tasks share.
struct Shared {
    clock: Arc<dyn Clock>,
    connections: Arc<Connections>,
    pool: Arc<BufferPool>,
    next_id: AtomicU64,
    backlog: i32,
    send_buffer: Option<usize>,
    max_frame: usize,
}

/// The listeners of this node and their connections.
pub struct SocketServer {
    shared: Arc<Shared>,
    listeners: Vec<Bound>,
    /// Acceptors, and the sweep over the connections.
    tasks: Vec<JoinHandle<()>>,
}

impl SocketServer {
    /// Takes the ports of all `listeners`.
    pub async fn bind(config: &BrokerConfig, clock: Arc<dyn Clock>) -> Result<SocketServer, BindError> {
        let receive_buffer = usize::try_from(config.socket_receive_buffer_bytes).ok();
        let mut listeners = Vec::new();
        for endpoint in &config.listeners {
            listeners.push(Bound::new(endpoint, receive_buffer).await?);
        }
        let limits = connection_limits(config).await?;
        let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get());
        let shared = Shared {
            connections: Connections::new(limits),
            clock,
            pool: Arc::new(BufferPool::new(cores)),
            next_id: AtomicU64::new(0),
            backlog: config.socket_listen_backlog_size,
            send_buffer: usize::try_from(config.socket_send_buffer_bytes).ok(),
            max_frame: usize::try_from(config.socket_request_max_bytes).unwrap_or(0),
        };
        Ok(SocketServer { shared: Arc::new(shared), listeners, tasks: Vec::new() })
    }

    /// The listeners as configured, with the ports they got.
    pub fn endpoints(&self) -> impl Iterator<Item = &Endpoint> {
        self.listeners.iter().map(|bound| &bound.endpoint)
    }

    /// Begins to serve all listeners that are not served yet. To be called within the runtime.
    pub fn start(&mut self, handler: Arc<dyn RequestHandler>) -> Result<(), BindError> {
        self.start_some(handler, |_| true)
    }

    /// Begins to serve one listener, by its name. To be called within the runtime.
    pub fn start_listener(&mut self, name: &str, handler: Arc<dyn RequestHandler>) -> Result<(), BindError> {
        self.start_some(handler, |info| info.name == name)
    }

    fn start_some(
        &mut self,
        handler: Arc<dyn RequestHandler>,
        chosen: impl Fn(&ListenerInfo) -> bool,
    ) -> Result<(), BindError> {
        if self.tasks.is_empty() {
            self.tasks.push(tokio::spawn(sweep(Arc::clone(&self.shared))));
        }
        let settings = Arc::new(ConnectionSettings {
            handler,
            pool: Arc::clone(&self.shared.pool),
            max_frame: self.shared.max_frame,
        });
        for (index, bound) in self.listeners.iter_mut().enumerate() {
            if !chosen(&bound.info) {
                continue;
            }
            let Some(socket) = bound.socket.take() else { continue };
            let listen = || {
                socket.listen(self.shared.backlog)?;
                TcpListener::from_std(StdListener::from(socket))
            };
            let listener =
                listen().map_err(|source| BindError::Bind { listener: bound.endpoint.to_string(), source })?;
            info!(listener = %bound.endpoint, "awaiting connections");
            let acceptor = Acceptor {
                listener,
                index,
                info: Arc::clone(&bound.info),
                shared: Arc::clone(&self.shared),
                settings: Arc::clone(&settings),
            };
            self.tasks.push(tokio::spawn(acceptor.run()));
        }
        Ok(())
    }

    /// The limits on connections, to be changed while they come.
    pub fn quotas(&self, config: &BrokerConfig) -> ConnectionQuotas {
        ConnectionQuotas::new(Arc::clone(&self.shared.connections), config)
    }

    /// How many connections there are.
    pub fn connection_count(&self) -> usize {
        self.shared.connections.len()
    }

    /// Accepts and reads nothing more, lets the requests that are being handled be answered for at most `grace`, and
    /// closes all connections.
    pub async fn shutdown(self, grace: Duration) {
        for task in self.tasks {
            task.abort();
            // Its listener is closed then.
            let _ = task.await;
        }
        let connections = &self.shared.connections;
        connections.tell_all(Command::Drain);
        if timeout(grace, connections.wait_for_none()).await.is_err() {
            debug!(connections = connections.len(), "closing connections with replies still due");
            connections.tell_all(Command::Stop);
            connections.wait_for_none().await;
        }
    }
}

impl Bound {
    async fn new(endpoint: &Endpoint, receive_buffer: Option<usize>) -> Result<Bound, BindError> {
        let listener = || endpoint.to_string();
        match endpoint.security_protocol {
            SecurityProtocol::Plaintext => {}
            protocol @ (SecurityProtocol::Ssl | SecurityProtocol::SaslPlaintext | SecurityProtocol::SaslSsl) => {
                return Err(BindError::Protocol { listener: listener(), protocol });
            }
        }
        let bind_error = |source: io::Error| match source.kind() {
            io::ErrorKind::AddrNotAvailable => BindError::NotHere { listener: listener(), source },
            _ => BindError::Bind { listener: listener(), source },
        };
        let socket = if endpoint.host.trim().is_empty() {
            let everywhere = SocketAddr::from((Ipv6Addr::UNSPECIFIED, endpoint.port));
            bind(everywhere, receive_buffer).or_else(|error| {
                // A machine without IPv6.
                if matches!(error.kind(), io::ErrorKind::AddrNotAvailable | io::ErrorKind::Unsupported)
                    || error.raw_os_error() == Some(rustix::io::Errno::AFNOSUPPORT.raw_os_error())
                {
                    bind(SocketAddr::from((Ipv4Addr::UNSPECIFIED, endpoint.port)), receive_buffer)
                } else {
                    Err(error)
                }
            })
        } else {
            let ip = look_up(&endpoint.host, &format!("listener {endpoint}"))
                .await
                .map_err(|source| BindError::Resolve { listener: listener(), host: endpoint.host.clone(), source })?;
            bind(SocketAddr::from((ip, endpoint.port)), receive_buffer)
        };
        let socket = socket.map_err(bind_error)?;
        let address = socket.local_addr().map_err(bind_error)?;
        let port = address.as_socket().map_or(endpoint.port, |address| address.port());
        Ok(Bound {
            info: Arc::new(ListenerInfo {
                name: endpoint.listener_name.clone(),
                security_protocol: endpoint.security_protocol,
            }),
            endpoint: Endpoint { port, ..endpoint.clone() },
            socket: Some(socket),
        })
    }
}

/// Takes a port, without listening on it.
fn bind(address: SocketAddr, receive_buffer: Option<usize>) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_nonblocking(true)?;
    socket.set_reuse_address(true)?;
    if address.is_ipv6() {
        socket.set_only_v6(false)?;
    }
    // Connections inherit it, in time for the window that their handshake announces.
    if let Some(size) = receive_buffer {
        socket.set_recv_buffer_size(size)?;
    }
    socket.bind(&address.into())?;
    Ok(socket)
}

/// Looks for connections to close, and for buffers to free.
async fn sweep(shared: Arc<Shared>) {
    let mut ticks = interval(shared.connections.sweep_interval());
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        shared.connections.sweep(shared.clock.monotonic());
        shared.pool.trim();
    }
}

/// Accepts the connections of one listener.
struct Acceptor {
    listener: TcpListener,
    index: usize,
    info: Arc<ListenerInfo>,
    shared: Arc<Shared>,
    settings: Arc<ConnectionSettings>,
}

/// How long to wait when the system has nothing left to make a connection of, files mostly.
const EXHAUSTED_PAUSE: Duration = Duration::from_millis(100);
/// How often at most to say so.
const EXHAUSTED_LOG_INTERVAL: Duration = Duration::from_secs(10);

impl Acceptor {
    async fn run(self) {
        let mut said_at: Option<Duration> = None;
        loop {
            match self.listener.accept().await {
                Ok((stream, peer)) => self.take_in(stream, peer).await,
                Err(error) if is_exhausted(&error) => {
                    let now = self.shared.clock.monotonic();
                    if said_at.is_none_or(|at| now.saturating_sub(at) >= EXHAUSTED_LOG_INTERVAL) {
                        said_at = Some(now);
                        error!(listener = self.info.name, %error, "cannot accept connections");
                    }
                    sleep(EXHAUSTED_PAUSE).await;
                }
                // The connection's own: it was gone before it was accepted.
                Err(error) => debug!(listener = self.info.name, %error, "a connection could not be accepted"),
            }
        }
    }

    /// Waits until there may be another connection, and starts its task.
    async fn take_in(&self, stream: TcpStream, peer: SocketAddr) {
        let shared = &self.shared;
        let context = match self.configure(&stream, peer) {
            Ok(context) => Arc::new(context),
            Err(error) => {
                debug!(listener = self.info.name, %peer, %error, "a connection could not be set up");
                return;
            }
        };
        let wait = shared.connections.throttle(self.index, shared.clock.monotonic());
        if !wait.is_zero() {
            debug!(listener = self.info.name, ?wait, "more connections than max.connection.creation.rate");
            sleep(wait).await;
        }
        match shared.connections.admit(context, self.index, || shared.clock.monotonic()).await {
            Ok(registration) => {
                debug!(connection = %registration.context(), listener = self.info.name, "connection accepted");
                tokio::spawn(Connection::new(stream, registration, Arc::clone(&self.settings)));
            }
            Err(error) => info!(listener = self.info.name, reason = %error, "connection rejected"),
        }
    }

    fn configure(&self, stream: &TcpStream, peer: SocketAddr) -> io::Result<ConnectionContext> {
        stream.set_nodelay(true)?;
        let socket = SockRef::from(stream);
        socket.set_keepalive(true)?;
        if let Some(size) = self.shared.send_buffer {
            socket.set_send_buffer_size(size)?;
        }
        let local = stream.local_addr()?;
        let id = self.shared.next_id.fetch_add(1, Ordering::Relaxed);
        Ok(ConnectionContext::new(id, Arc::clone(&self.info), canonical(peer), canonical(local)))
    }
}

/// IPv4 in the form of IPv6 becomes IPv4.
fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

/// Whether accepting again at once would fail again.
fn is_exhausted(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let exhausted = [Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::NOMEM];
    exhausted.iter().any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
}

#[cfg(test)]
mod tests;
