//! Who leads a partition and where to find it, told to a client that asked the wrong broker (KIP-951): the part that
//! Produce and Fetch responses share.

use kafka_protocol::protocol::StrBytes;

use super::wire::Writer;
use crate::types::{BrokerId, LeaderEpoch};

/// The leader of a partition, told to a client that asked the wrong broker (KIP-951).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaderIdAndEpoch {
    pub leader_id: BrokerId,
    pub leader_epoch: LeaderEpoch,
}

/// Address of a broker (KIP-951).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeEndpoint {
    pub node_id: BrokerId,
    pub host: StrBytes,
    pub port: i32,
    pub rack: Option<StrBytes>,
}

impl LeaderIdAndEpoch {
    pub(in crate::protocol) fn write(self, writer: &mut Writer) {
        writer.i32(self.leader_id.0);
        writer.i32(self.leader_epoch.0);
        writer.no_tagged_fields();
    }
}

pub(super) fn write_node_endpoints(writer: &mut Writer, endpoints: &[NodeEndpoint]) {
    writer.length(Some(endpoints.len()));
    for endpoint in endpoints {
        writer.i32(endpoint.node_id.0);
        writer.string(&endpoint.host);
        writer.i32(endpoint.port);
        writer.nullable_string(endpoint.rack.as_deref());
        writer.no_tagged_fields();
    }
}
