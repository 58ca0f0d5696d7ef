//! Who leads a partition instead, told to a client that asked the wrong broker (KIP-951).

use kafka_protocol::protocol::StrBytes;

use crate::metadata::image::MetadataImage;
use crate::protocol::produce::{LeaderIdAndEpoch, NodeEndpoint};
use crate::types::{BrokerId, PartitionId, TopicId};

/// Collects the hints of one response, and the addresses that go with them.
pub struct LeaderHints<'a> {
    image: &'a MetadataImage,
    listener: &'a str,
    wanted: bool,
    leaders: Vec<BrokerId>,
}

impl<'a> LeaderHints<'a> {
    /// `wanted`: the version of the response has a place for them.
    pub fn new(image: &'a MetadataImage, listener: &'a str, wanted: bool) -> LeaderHints<'a> {
        LeaderHints { image, listener, wanted, leaders: Vec::new() }
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

    /// Where the leaders that were named are reached, on the listener the client came by.
    pub fn into_endpoints(self) -> Vec<NodeEndpoint> {
        let endpoint = |id: &BrokerId| {
            let broker = self.image.broker(*id)?;
            let listener = broker.listener(self.listener)?;
            Some(NodeEndpoint {
                node_id: *id,
                host: StrBytes::from_string(listener.host.clone()),
                port: i32::from(listener.port),
                rack: broker.rack.clone().map(StrBytes::from_string),
            })
        };
        self.leaders.iter().filter_map(endpoint).collect()
    }
}
