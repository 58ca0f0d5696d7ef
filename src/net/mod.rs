//! The wire: listeners, inbound connections, frames.
//!
//! A frame goes from the socket to a [`RequestHandler`] and its [`Reply`] back to the socket on one task; what a frame
//! says is not known in here. Implemented to the right of this layer, by the broker's dispatcher.

mod context;
mod handler;
mod response;

pub use context::{ClientInformation, ConnectionContext, ListenerInfo};
pub use handler::{Reply, RequestHandler};
pub use response::{Chunk, CloseReason, Response};
