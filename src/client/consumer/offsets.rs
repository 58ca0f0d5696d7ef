//! Positions: committed ones, and those that are looked up.

use std::collections::BTreeMap;

use kafka_protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use kafka_protocol::messages::offset_commit_request::{OffsetCommitRequestPartition, OffsetCommitRequestTopic};
use kafka_protocol::messages::offset_fetch_request::{
    OffsetFetchRequestGroup, OffsetFetchRequestTopic, OffsetFetchRequestTopics,
};
use kafka_protocol::messages::{
    BrokerId, GroupId, ListOffsetsRequest, OffsetCommitRequest, OffsetFetchRequest, TopicName,
};

use super::shared::Shared;
use super::{Position, TopicPartition};
use crate::client::cluster::Target;
use crate::client::error::{Error, Result};
use crate::client::topics::text;

/// Topics have names up to here, and ids behind it, in OffsetCommit and in OffsetFetch.
const LAST_WITH_NAMES: i16 = 9;
const FIRST_WITH_GROUPS: i16 = 8;

/// Partitions by topic.
fn by_topic<'p>(places: impl IntoIterator<Item = &'p TopicPartition>) -> BTreeMap<&'p str, Vec<i32>> {
    let mut topics: BTreeMap<&str, Vec<i32>> = BTreeMap::new();
    for (topic, partition) in places {
        topics.entry(topic).or_default().push(*partition);
    }
    topics
}

/// Commits the positions of all that is assigned. Returns what was committed.
pub async fn commit(shared: &Shared) -> Result<BTreeMap<TopicPartition, i64>> {
    let offsets: BTreeMap<TopicPartition, i64> = {
        let positions = shared.positions.borrow();
        positions
            .iter()
            .filter(|(_, position)| position.offset >= 0)
            .map(|(place, position)| (place.clone(), position.offset))
            .collect()
    };
    if offsets.is_empty() {
        return Ok(offsets);
    }
    let topics = by_topic(offsets.keys()).into_iter().map(|(topic, partitions)| {
        let partitions = partitions.into_iter().map(|partition| {
            OffsetCommitRequestPartition::default()
                .with_partition_index(partition)
                .with_committed_offset(offsets[&(topic.into(), partition)])
                .with_committed_leader_epoch(-1)
                .with_committed_metadata(Some(text("")))
        });
        OffsetCommitRequestTopic::default().with_name(TopicName(text(topic))).with_partitions(partitions.collect())
    });
    let (member_id, generation) = shared.member.borrow().clone();
    let request = OffsetCommitRequest::default()
        .with_group_id(GroupId(text(shared.group_id())))
        .with_generation_id_or_member_epoch(generation)
        .with_member_id(text(&member_id))
        .with_group_instance_id(shared.config.group_instance_id.as_deref().map(text))
        .with_topics(topics.collect());
    let answer = shared.client.send_at_most(&shared.coordinator(), &request, LAST_WITH_NAMES).await?;
    for partition in answer.topics.iter().flat_map(|topic| &topic.partitions) {
        Error::check(partition.error_code, None::<String>)?;
    }
    Ok(offsets)
}

/// What the group has committed of these partitions; -1 for nothing.
pub async fn committed(shared: &Shared, places: &[TopicPartition]) -> Result<BTreeMap<TopicPartition, i64>> {
    let topics = by_topic(places);
    let target = shared.coordinator();
    let connection = shared.client.connection(&target).await?;
    let version = connection.versions.common::<OffsetFetchRequest>(LAST_WITH_NAMES)?;
    let mut request = OffsetFetchRequest::default().with_require_stable(shared.config.read_committed);
    if version >= FIRST_WITH_GROUPS {
        let (member_id, epoch) = shared.member.borrow().clone();
        let topics = topics.into_iter().map(|(topic, partitions)| {
            OffsetFetchRequestTopics::default().with_name(TopicName(text(topic))).with_partition_indexes(partitions)
        });
        let next_generation = shared.config.group_protocol == super::GroupProtocol::Consumer;
        let mut group = OffsetFetchRequestGroup::default()
            .with_group_id(GroupId(text(shared.group_id())))
            .with_member_epoch(-1)
            .with_topics(Some(topics.collect()));
        if next_generation && version >= LAST_WITH_NAMES {
            group = group.with_member_id(Some(text(&member_id))).with_member_epoch(epoch);
        }
        request = request.with_groups(vec![group]);
    } else {
        let topics = topics.into_iter().map(|(topic, partitions)| {
            OffsetFetchRequestTopic::default().with_name(TopicName(text(topic))).with_partition_indexes(partitions)
        });
        request = request.with_group_id(GroupId(text(shared.group_id()))).with_topics(Some(topics.collect()));
    }
    let answer = shared.client.send_at_most(&target, &request, LAST_WITH_NAMES).await?;
    Error::check(answer.error_code, None::<String>)?;
    let mut offsets = BTreeMap::new();
    for group in &answer.groups {
        Error::check(group.error_code, None::<String>)?;
        for topic in &group.topics {
            for partition in &topic.partitions {
                Error::check(partition.error_code, None::<String>)?;
                offsets.insert((topic.name.as_str().into(), partition.partition_index), partition.committed_offset);
            }
        }
    }
    for topic in &answer.topics {
        for partition in &topic.partitions {
            Error::check(partition.error_code, None::<String>)?;
            offsets.insert((topic.name.as_str().into(), partition.partition_index), partition.committed_offset);
        }
    }
    Ok(offsets)
}

/// Finds the leaders, and asks them for the positions that are still `EARLIEST` or `LATEST`.
pub async fn look_up(shared: &Shared) -> Result<()> {
    shared.learn_leaders().await?;
    let mut wanted: BTreeMap<i32, Vec<(TopicPartition, i64)>> = BTreeMap::new();
    {
        let leaders = shared.leaders.borrow();
        for (place, position) in shared.positions.borrow().iter().filter(|(_, position)| position.offset < 0) {
            if let Some(&leader) = leaders.get(place) {
                wanted.entry(leader).or_default().push((place.clone(), position.offset));
            }
        }
    }
    for (leader, places) in wanted {
        let topics = by_topic(places.iter().map(|(place, _)| place)).into_iter().map(|(topic, partitions)| {
            let partitions = partitions.into_iter().map(|partition| {
                let at = places.iter().find(|((name, index), _)| &**name == topic && *index == partition);
                ListOffsetsPartition::default()
                    .with_partition_index(partition)
                    .with_current_leader_epoch(-1)
                    .with_timestamp(at.map_or(super::LATEST, |(_, position)| *position))
            });
            ListOffsetsTopic::default().with_name(TopicName(text(topic))).with_partitions(partitions.collect())
        });
        let request = ListOffsetsRequest::default()
            .with_replica_id(BrokerId(-1))
            .with_isolation_level(i8::from(shared.config.read_committed))
            .with_topics(topics.collect())
            .with_timeout_ms(shared.config.client.request_timeout_ms());
        let answer = shared.client.send(&Target::Node(leader), &request).await?;
        for topic in &answer.topics {
            for partition in &topic.partitions {
                Error::check(partition.error_code, None::<String>)?;
                let place: TopicPartition = (topic.name.as_str().into(), partition.partition_index);
                let mut positions = shared.positions.borrow_mut();
                if let Some(position) = positions.get_mut(&place).filter(|position| position.offset < 0) {
                    *position = Position { offset: partition.offset, fetched: partition.offset };
                }
            }
        }
    }
    Ok(())
}
