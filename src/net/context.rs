//! What is known of a connection besides its bytes: who is at the other end, and which listener took it in.

use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};

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
}

impl ConnectionContext {
    pub fn new(id: u64, listener: Arc<ListenerInfo>, peer: SocketAddr, local: SocketAddr) -> ConnectionContext {
        ConnectionContext { id, listener, peer, local, client: OnceLock::new() }
    }

    /// Keeps what the client said of itself. Later calls change nothing.
    pub fn set_client(&self, client: ClientInformation) {
        let _ = self.client.set(Box::new(client));
    }

    /// What the client said of itself, if it did.
    pub fn client(&self) -> Option<&ClientInformation> {
        self.client.get().map(Box::as_ref)
    }

    /// Name of the principal (type `User`) that requests of this connection act as.
    pub fn principal_name(&self) -> &str {
        "ANONYMOUS"
    }
}

/// Kafka's form of a connection id, `local-peer-number`.
impl fmt::Display for ConnectionContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}-{}", self.local, self.peer, self.id)
    }
}
