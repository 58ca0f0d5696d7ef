//! The broker as the command line runs it.

use super::server::{NodeFailure, RunningNode};
use crate::config::{BrokerConfig, Endpoint};
use crate::server::node::Node;

/// Starts the broker; on return it serves.
pub async fn start(config: BrokerConfig) -> Result<Node, NodeFailure> {
    Node::start(config).await.map_err(|error| NodeFailure(error.to_string()))
}

impl RunningNode for Node {
    fn endpoints(&self) -> Vec<Endpoint> {
        Node::endpoints(self).to_vec()
    }

    async fn failed(&self) -> NodeFailure {
        NodeFailure(Node::failed(self).await.to_string())
    }

    async fn shutdown(self) {
        Node::shutdown(self).await;
    }
}
