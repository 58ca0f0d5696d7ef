//! Who leads a partition instead, told to a client that asked the wrong broker (KIP-951).

use kafka_protocol::protocol::StrBytes;

use crate::metadata::image::{BrokerRegistration, MetadataImage};
use crate::protocol::produce::{LeaderIdAndEpoch, NodeEndpoint};
use crate::server::advertised::Address;
use crate::types::{BrokerId, PartitionId, TopicId};

/// Collects the hints of one response, and the addresses that go with them.
pub struct LeaderHints<'a> {
    image: &'a MetadataImage,
    wanted: bool,
    leaders: Vec<BrokerId>,
}

impl<'a> LeaderHints<'a> {
    /// `wanted`: the version of the response has a place for them.
    pub fn new(image: &'a MetadataImage, wanted: bool) -> LeaderHints<'a> {
        LeaderHints { image, wanted, leaders: Vec::new() }
    }

    /// The leader of a partition, if the metadata knows the partition.
    pub fn of(&mut self, topic: &str, topic_id: TopicId, partition: PartitionId) -> Option<LeaderIdAndEpoch> {
        if !self.wanted {
            return None;
        }
        let topic = if topic_id == TopicId::ZERO { self.image.topic(topic) } else { self.image.topic_by_id(topic_id) }?;
        let registration = topic.partition(partition)?;
        if let Some(leader) = registration.leader
            && !self.leaders.contains(&leader)
        {
            self.leaders.push(leader);
        }
        Some(LeaderIdAndEpoch {
            leader_id: registration.leader.unwrap_or(BrokerId(-1)),
            leader_epoch: registration.leader_epoch,
        })
    }

    /// Where the leaders that were named are reached by the client, as `address` says of each.
    pub fn into_endpoints(self, address: impl Fn(&BrokerRegistration) -> Option<Address>) -> Vec<NodeEndpoint> {
        let endpoint = |id: &BrokerId| {
            let broker = self.image.broker(*id)?;
            let Address { host, port } = address(broker)?;
            Some(NodeEndpoint {
                node_id: *id,
                host: StrBytes::from_string(host),
                port: i32::from(port),
                rack: broker.rack.clone().map(StrBytes::from_string),
            })
        };
        self.leaders.iter().filter_map(endpoint).collect()
    }
}
