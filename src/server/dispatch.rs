//! From a frame to a handler: reads the header, and lets in what the version table serves.

use std::sync::Arc;

use bytes::Bytes;
use tracing::trace;

use super::broker::Broker;
use super::handlers;
use crate::net::{CloseReason, ConnectionContext, Reply, RequestHandler};
use crate::protocol::RequestHeader;

/// The broker as the network layer sees it.
pub struct Dispatcher {
    broker: Arc<Broker>,
}

impl Dispatcher {
    pub fn new(broker: Arc<Broker>) -> Dispatcher {
        Dispatcher { broker }
    }
}

impl RequestHandler for Dispatcher {
    fn handle(&self, connection: &Arc<ConnectionContext>, mut frame: Bytes) -> Reply {
        let header = match RequestHeader::decode(&mut frame) {
            Ok(header) => header,
            Err(error) => return Reply::Close(CloseReason::new(error.to_string())),
        };
        trace!(%connection, api_key = %header.api_key, api_version = header.api_version,
            correlation_id = header.correlation_id, client = header.client_id(), "request");
        handlers::handle(&self.broker, connection, header, frame)
            .unwrap_or_else(|error| Reply::Close(error.close_reason()))
    }
}
