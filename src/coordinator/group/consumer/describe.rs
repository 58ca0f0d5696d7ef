//! ConsumerGroupDescribe's view of a group.

use std::collections::BTreeMap;

use kafka_protocol::messages::consumer_group_describe_response::{Assignment, DescribedGroup, Member, TopicPartitions};
use kafka_protocol::messages::{GroupId, TopicName as WireTopicName};
use kafka_protocol::protocol::StrBytes;

use super::ConsumerGroup;
use super::member::ConsumerGroupMember;
use crate::config::BrokerConfig;
use crate::coordinator::group::{GroupShard, text};
use crate::metadata::image::MetadataImage;
use crate::protocol::ApiError;
use crate::types::{PartitionId, TopicId};

/// `member_type`s.
const CLASSIC_MEMBER: i8 = 0;
const CONSUMER_MEMBER: i8 = 1;

impl GroupShard {
    /// A consumer group with its members, or what is to be said instead.
    pub fn describe_consumer_group(
        &self,
        group_id: &str,
        image: &MetadataImage,
        config: &BrokerConfig,
    ) -> Result<DescribedGroup, ApiError> {
        self.consumer_group(group_id).map(|group| group.as_described_group(image, config))
    }
}

impl ConsumerGroup {
    pub fn as_described_group(&self, image: &MetadataImage, config: &BrokerConfig) -> DescribedGroup {
        DescribedGroup::default()
            .with_group_id(GroupId(text(self.group_id())))
            .with_assignor_name(StrBytes::from_string(self.assignor_name(config)))
            .with_group_epoch(self.group_epoch())
            .with_group_state(StrBytes::from_static_str(self.state_name()))
            .with_assignment_epoch(self.assignment_epoch())
            .with_members(self.members().map(|member| self.describe_member(member, image)).collect())
    }

    fn describe_member(&self, member: &ConsumerGroupMember, image: &MetadataImage) -> Member {
        // What it must give up is its own until it has.
        let mut owned: BTreeMap<TopicId, Vec<PartitionId>> = BTreeMap::new();
        for (topic, partitions) in member.assigned.iter().chain(member.pending_revocation.iter()) {
            owned.entry(*topic).or_default().extend(partitions.keys().copied());
        }
        let target = self.target_assignment(&member.member_id);
        let target = target.into_iter().flat_map(|target| target.iter());
        let names = member.subscribed_topic_names.iter().map(|name| WireTopicName(text(name))).collect();
        Member::default()
            .with_member_id(text(&member.member_id))
            .with_member_epoch(member.member_epoch)
            .with_instance_id(member.instance_id.as_deref().map(text))
            .with_rack_id(member.rack_id.as_deref().map(text))
            .with_client_id(text(&member.client_id))
            .with_client_host(text(&member.client_host))
            .with_subscribed_topic_names(names)
            .with_subscribed_topic_regex(member.subscribed_topic_regex.as_deref().map(text))
            .with_assignment(assignment(owned.iter().map(|(topic, partitions)| (topic, partitions.iter())), image))
            .with_target_assignment(assignment(target.map(|(topic, partitions)| (topic, partitions.iter())), image))
            .with_member_type(if member.uses_classic_protocol() { CLASSIC_MEMBER } else { CONSUMER_MEMBER })
    }
}

/// Partitions of topics that exist.
fn assignment<'a, P: Iterator<Item = &'a PartitionId>>(
    partitions: impl Iterator<Item = (&'a TopicId, P)>,
    image: &MetadataImage,
) -> Assignment {
    let topics = partitions.filter_map(|(topic_id, partitions)| {
        let topic = image.topic_by_id(*topic_id)?;
        Some(
            TopicPartitions::default()
                .with_topic_id(topic_id.0)
                .with_topic_name(WireTopicName(text(&topic.name)))
                .with_partitions(partitions.map(|partition| partition.0).collect()),
        )
    });
    Assignment::default().with_topic_partitions(topics.collect())
}
