//! Topics as a cluster describes them.

use std::collections::{BTreeMap, HashMap};

use kafka_protocol::messages::create_topics_request::CreatableTopic;
use kafka_protocol::messages::describe_topic_partitions_request::{Cursor, TopicRequest};
use kafka_protocol::messages::list_partition_reassignments_request::ListPartitionReassignmentsTopics;
use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::{
    BrokerId, CreateTopicsRequest, DescribeTopicPartitionsRequest, ListPartitionReassignmentsRequest, MetadataRequest,
    MetadataResponse,
};

use super::cluster::{Client, Target};
use super::error::{Error, Result};
use super::text;
use crate::config::java;
use crate::protocol::ErrorCode;
use crate::types::TopicId;

/// A topic in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listing {
    pub name: String,
    pub id: TopicId,
    pub is_internal: bool,
}

/// One partition of a topic.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Partition {
    pub index: i32,
    pub leader: Option<i32>,
    pub leader_epoch: i32,
    pub replicas: Vec<i32>,
    pub isr: Vec<i32>,
    /// `None` where the cluster does not say.
    pub elr: Option<Vec<i32>>,
    pub last_known_elr: Option<Vec<i32>>,
}

impl Partition {
    fn new(index: i32, leader: (BrokerId, i32), replicas: &[BrokerId], isr: &[BrokerId]) -> Partition {
        let (BrokerId(leader), leader_epoch) = leader;
        Partition {
            index,
            leader: (leader >= 0).then_some(leader),
            leader_epoch,
            replicas: ids(replicas),
            isr: ids(isr),
            ..Partition::default()
        }
    }
}

/// A topic with its partitions, ascending.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description {
    pub name: String,
    pub id: TopicId,
    pub is_internal: bool,
    pub partitions: Vec<Partition>,
}

/// A partition whose replicas are being changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reassignment {
    pub replicas: Vec<i32>,
    pub adding: Vec<i32>,
    pub removing: Vec<i32>,
}

/// By topic and partition.
pub type Reassignments = BTreeMap<(String, i32), Reassignment>;

fn ids(brokers: &[BrokerId]) -> Vec<i32> {
    brokers.iter().map(|id| id.0).collect()
}

/// All topics, ascending by name.
pub async fn list(client: &Client, internal: bool) -> Result<Vec<Listing>> {
    let request = MetadataRequest::default().with_topics(None);
    let response: MetadataResponse = client.call("listTopics", &Target::Any, &request).await?;
    let topics = response.topics.iter().filter(|topic| internal || !topic.is_internal).filter_map(|topic| {
        let name = topic.name.as_ref()?.to_string();
        Some(Listing { name, id: TopicId(topic.topic_id), is_internal: topic.is_internal })
    });
    let mut topics: Vec<Listing> = topics.collect();
    topics.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(topics)
}

/// These topics, in the order in which Java's clients hand them out; an unknown one is an error. `at_once` bounds how
/// many partitions one answer has.
pub async fn describe(client: &Client, names: &[String], at_once: i32) -> Result<Vec<Description>> {
    let described = client.retry("describeTopicPartitions", async || describe_once(client, names, at_once).await).await;
    let topics = match described {
        // Clusters before Kafka 3.8 do not know that API.
        Err(error) if error.is(ErrorCode::UnsupportedVersion) => describe_by_metadata(client, names).await?,
        described => described?,
    };
    let mut order: Vec<&str> = topics.iter().map(|topic| topic.name.as_str()).collect();
    hash_map_order(&mut order);
    let place: HashMap<String, usize> = order.iter().enumerate().map(|(at, name)| ((*name).to_owned(), at)).collect();
    let mut topics = topics;
    topics.sort_by_key(|topic| place[&topic.name]);
    Ok(topics)
}

/// Asks once for these topics, ascending by name.
pub async fn describe_once(client: &Client, names: &[String], at_once: i32) -> Result<Vec<Description>> {
    let mut sorted: Vec<&String> = names.iter().collect();
    sorted.sort();
    let topics: Vec<TopicRequest> =
        sorted.iter().map(|name| TopicRequest::default().with_name(text(name).into())).collect();
    let mut described: Vec<Description> = Vec::new();
    let mut cursor: Option<Cursor> = None;
    loop {
        let from = cursor.as_ref().map(|cursor| cursor.topic_name.to_string());
        let asked = topics.iter().filter(|topic| from.as_deref().is_none_or(|from| topic.name.as_str() >= from));
        let request = DescribeTopicPartitionsRequest::default()
            .with_topics(asked.cloned().collect())
            .with_response_partition_limit(at_once)
            .with_cursor(cursor.take());
        let response = client.send(&Target::Any, &request).await?;
        for topic in response.topics {
            let name = topic.name.map(|name| name.to_string()).unwrap_or_default();
            Error::check(topic.error_code, None::<String>).map_err(Error::for_good)?;
            let partitions = topic.partitions.iter().map(|of| Partition {
                elr: of.eligible_leader_replicas.as_deref().map(ids),
                last_known_elr: of.last_known_elr.as_deref().map(ids),
                ..Partition::new(of.partition_index, (of.leader_id, of.leader_epoch), &of.replica_nodes, &of.isr_nodes)
            });
            match described.last_mut() {
                Some(last) if last.name == name => last.partitions.extend(partitions),
                _ => described.push(Description {
                    name,
                    id: TopicId(topic.topic_id),
                    is_internal: topic.is_internal,
                    partitions: partitions.collect(),
                }),
            }
        }
        let Some(next) = response.next_cursor else { break };
        cursor = Some(Cursor::default().with_topic_name(next.topic_name).with_partition_index(next.partition_index));
    }
    described.iter_mut().for_each(|topic| topic.partitions.sort_by_key(|partition| partition.index));
    Ok(described)
}

/// Creates a topic.
pub async fn create(client: &Client, topic: CreatableTopic) -> Result<()> {
    let name = topic.name.0.clone();
    let request =
        CreateTopicsRequest::default().with_topics(vec![topic]).with_timeout_ms(client.config.request_timeout_ms());
    client
        .retry("createTopics", async || {
            let response = client.send(&Target::Controller, &request).await?;
            let result = response.topics.iter().find(|topic| topic.name.0 == name).ok_or_else(|| {
                Error::new(
                    "org.apache.kafka.common.errors.ApiException",
                    format!("The controller response did not contain a result for topic {}", name.as_str()),
                )
            })?;
            answered(result.error_code, result.error_message.as_deref())
        })
        .await
}

/// Of what a controller answers, only that it is none any more is worth another try.
pub fn answered(code: i16, message: Option<&str>) -> Result<()> {
    Error::check(code, message)
        .map_err(|error| if error.is(ErrorCode::NotController) { error } else { error.for_good() })
}

async fn describe_by_metadata(client: &Client, names: &[String]) -> Result<Vec<Description>> {
    let topics = names.iter().map(|name| MetadataRequestTopic::default().with_name(Some(text(name).into())));
    let request = MetadataRequest::default().with_topics(Some(topics.collect())).with_allow_auto_topic_creation(false);
    let response = client.call("describeTopics", &Target::Any, &request).await?;
    described_by(response)
}

/// Topics by their ids.
pub async fn describe_ids(client: &Client, topic_ids: &[TopicId]) -> Result<Vec<Description>> {
    let topics = topic_ids.iter().map(|id| MetadataRequestTopic::default().with_name(None).with_topic_id(id.0));
    let request = MetadataRequest::default().with_topics(Some(topics.collect())).with_allow_auto_topic_creation(false);
    let response = client.call("describeTopicsWithIds", &Target::Any, &request).await?;
    described_by(response)
}

/// What Metadata tells of topics: less than DescribeTopicPartitions does.
pub fn described_by(response: MetadataResponse) -> Result<Vec<Description>> {
    let mut described = Vec::new();
    for topic in response.topics {
        Error::check(topic.error_code, None::<String>).map_err(Error::for_good)?;
        let partitions = topic.partitions.iter().map(|of| {
            Partition::new(of.partition_index, (of.leader_id, of.leader_epoch), &of.replica_nodes, &of.isr_nodes)
        });
        let mut partitions: Vec<Partition> = partitions.collect();
        partitions.sort_by_key(|partition| partition.index);
        described.push(Description {
            name: topic.name.map(|name| name.to_string()).unwrap_or_default(),
            id: TopicId(topic.topic_id),
            is_internal: topic.is_internal,
            partitions,
        });
    }
    Ok(described)
}

/// The reassignments that are under way, of these partitions or of all.
pub async fn reassignments(client: &Client, of: Option<&[Description]>) -> Result<Reassignments> {
    let topics = of.map(|topics| {
        let topic = |topic: &Description| {
            ListPartitionReassignmentsTopics::default()
                .with_name(text(&topic.name).into())
                .with_partition_indexes(topic.partitions.iter().map(|partition| partition.index).collect())
        };
        topics.iter().map(topic).collect()
    });
    let request = ListPartitionReassignmentsRequest::default()
        .with_timeout_ms(client.config.request_timeout_ms())
        .with_topics(topics);
    client
        .retry("listPartitionReassignments", async || {
            let response = client.send(&Target::Controller, &request).await?;
            Error::check(response.error_code, response.error_message.as_deref())?;
            let mut found = Reassignments::new();
            for topic in response.topics {
                for partition in topic.partitions {
                    let reassignment = Reassignment {
                        replicas: ids(&partition.replicas),
                        adding: ids(&partition.adding_replicas),
                        removing: ids(&partition.removing_replicas),
                    };
                    found.insert((topic.name.to_string(), partition.partition_index), reassignment);
                }
            }
            Ok(found)
        })
        .await
}

/// Sorts names as Java's admin client lists topics that it was asked for in ascending order: by two hash maps, one
/// copied from the other.
fn hash_map_order(names: &mut [&str]) {
    names.sort_unstable();
    let count = names.len();
    java::hash_order(names, java::sized_table(count));
    java::hash_order(names, java::copied_map(count));
    java::hash_order(names, java::sized_table(count));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As Java 17 lists them.
    #[test]
    fn topics_come_in_the_order_of_javas_maps() {
        let expected = ["topic-61018", "topic-72143", "topic-68383", "topic-9205", "topic-94303"];
        let mut names = expected;
        hash_map_order(&mut names);
        assert_eq!(names, expected);
    }
}
