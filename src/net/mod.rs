//! The wire: listeners, inbound connections, frames.
//!
//! A frame goes from the socket to a [`RequestHandler`] and its [`Reply`] back to the socket on one task; what a frame
//! says is not known in here. The handler is implemented to the right of this layer, by the broker's dispatcher.

mod buffer_pool;
mod connection;
mod connection_quotas;
mod connection_rate;
mod connections;
mod context;
mod frame;
mod handler;
mod host;
mod reply_queue;
mod response;
mod socket_server;
mod writer;

pub use connection_quotas::ConnectionQuotas;
pub use context::{ClientInformation, ConnectionContext, ListenerInfo};
pub use handler::{Reply, RequestHandler};
pub use host::look_up;
pub use response::{CloseReason, Response};
pub use socket_server::{BindError, SocketServer};
