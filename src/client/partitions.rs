//! Requests that the leaders of partitions answer.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use kafka_protocol::messages::MetadataRequest;
use kafka_protocol::messages::metadata_request::MetadataRequestTopic;

use super::cluster::{Client, Target};
use super::error::{Error, Result};
use super::text;
use crate::config::java;
use crate::protocol::ErrorCode;
use crate::types::TopicPartition;

/// What became of each partition.
pub type Outcomes<R> = BTreeMap<TopicPartition, Result<R>>;

/// Asks the leader of each partition, and again where a partition's answer may change in a moment, until time is up.
/// `ask` is given a leader and partitions of its.
pub async fn at_leaders<R>(
    client: &Client,
    name: &str,
    partitions: &[TopicPartition],
    ask: impl AsyncFn(i32, &[TopicPartition]) -> Result<Vec<(TopicPartition, Result<R>)>>,
) -> Outcomes<R> {
    let locate = async |partitions: &[TopicPartition]| leaders(client, partitions).await;
    at_nodes(client, name, partitions, locate, ask).await
}

/// The same where one node is to answer for all of them.
pub async fn at_node<R>(
    client: &Client,
    name: &str,
    node: i32,
    partitions: &[TopicPartition],
    ask: impl AsyncFn(i32, &[TopicPartition]) -> Result<Vec<(TopicPartition, Result<R>)>>,
) -> Outcomes<R> {
    let locate = async |partitions: &[TopicPartition]| {
        Ok(partitions.iter().map(|partition| (partition.clone(), Ok(node))).collect())
    };
    at_nodes(client, name, partitions, locate, ask).await
}

async fn at_nodes<R>(
    client: &Client,
    name: &str,
    partitions: &[TopicPartition],
    locate: impl AsyncFn(&[TopicPartition]) -> Result<Vec<(TopicPartition, Result<i32>)>>,
    ask: impl AsyncFn(i32, &[TopicPartition]) -> Result<Vec<(TopicPartition, Result<R>)>>,
) -> Outcomes<R> {
    let outcomes: RefCell<Outcomes<R>> = RefCell::default();
    let unsettled = || -> Vec<TopicPartition> {
        let outcomes = outcomes.borrow();
        let pending = |partition: &&TopicPartition| match outcomes.get(*partition) {
            None => true,
            Some(outcome) => outcome.as_ref().is_err_and(Error::is_retriable),
        };
        partitions.iter().filter(pending).cloned().collect()
    };
    let attempted = client.retry(name, async || {
        let mut by_node: BTreeMap<i32, Vec<TopicPartition>> = BTreeMap::new();
        for (partition, node) in locate(&unsettled()).await? {
            match node {
                Ok(node) => by_node.entry(node).or_default().push(partition),
                Err(error) => drop(outcomes.borrow_mut().insert(partition, Err(error))),
            }
        }
        for (node, partitions) in by_node {
            let answer = ask(node, &partitions).await;
            let mut outcomes = outcomes.borrow_mut();
            match answer {
                Ok(answers) => {
                    let missing = || Error::new("org.apache.kafka.common.KafkaException", "The response has no answer");
                    outcomes.extend(partitions.into_iter().map(|partition| (partition, Err(missing()))));
                    outcomes.extend(answers);
                }
                Err(error) => outcomes.extend(partitions.into_iter().map(|partition| (partition, Err(error.clone())))),
            }
        }
        let outcomes = outcomes.borrow();
        let passing = outcomes.values().filter_map(|outcome| outcome.as_ref().err()).find(|error| error.is_retriable());
        passing.map_or(Ok(()), |error| Err(error.clone()))
    });
    if let Err(error) = attempted.await {
        for partition in unsettled() {
            outcomes.borrow_mut().insert(partition, Err(error.clone()));
        }
    }
    outcomes.into_inner()
}

/// The numbers of partitions, by topic.
pub fn by_topic<'p>(partitions: impl IntoIterator<Item = &'p TopicPartition>) -> BTreeMap<&'p str, Vec<i32>> {
    let mut topics: BTreeMap<&str, Vec<i32>> = BTreeMap::new();
    for partition in partitions {
        topics.entry(&partition.topic).or_default().push(partition.partition.0);
    }
    topics
}

/// The leader of each partition, as any broker knows it.
pub async fn leaders(client: &Client, partitions: &[TopicPartition]) -> Result<Vec<(TopicPartition, Result<i32>)>> {
    let topics: BTreeSet<&str> = partitions.iter().map(|partition| &*partition.topic).collect();
    let topics = topics.iter().map(|topic| MetadataRequestTopic::default().with_name(Some(text(topic).into())));
    let request = MetadataRequest::default().with_topics(Some(topics.collect())).with_allow_auto_topic_creation(false);
    let response = client.send(&Target::Any, &request).await?;
    let leader = |wanted: &TopicPartition| {
        let named = |name: &kafka_protocol::messages::TopicName| name.as_str() == &*wanted.topic;
        let topic = response.topics.iter().find(|topic| topic.name.as_ref().is_some_and(named));
        let unknown = || Error::of(ErrorCode::UnknownTopicOrPartition.code(), None::<String>);
        let topic = topic.ok_or_else(unknown)?;
        Error::check(topic.error_code, None::<String>)?;
        let partition = topic.partitions.iter().find(|partition| partition.partition_index == wanted.partition.0);
        let partition = partition.ok_or_else(unknown)?;
        match partition.leader_id.0 {
            leader if leader >= 0 => Ok(leader),
            _ => Err(Error::of(ErrorCode::LeaderNotAvailable.code(), None::<String>)),
        }
    };
    Ok(partitions.iter().map(|partition| (partition.clone(), leader(partition))).collect())
}

/// Sorts partitions as a Java `HashMap` lists them that they were put into one after the other.
pub fn hash_map_order(partitions: &mut [TopicPartition]) {
    let table = java::grown_table(partitions.len());
    java::sort_by_hash(partitions, table, |partition| {
        let hash = (31 + partition.partition.0 as u32).wrapping_mul(31);
        hash.wrapping_add(java::string_hash(&partition.topic))
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::ClientConfig;

    /// A tool that looked for such a partition's outcome ended by a panic.
    #[tokio::test]
    async fn a_partition_that_no_answer_tells_of_is_not_passed_over() {
        let given = [("bootstrap.servers".to_owned(), "a:1".to_owned())];
        let client = Client::new(ClientConfig::admin(given.into()).unwrap());
        let [told, missing] = [0, 1].map(|number| TopicPartition::new("t", number));
        let ask = async |_: i32, _: &[TopicPartition]| Ok(vec![(told.clone(), Ok(7))]);
        let outcomes = at_node(&client, "test", 1, &[told.clone(), missing.clone()], ask).await;
        assert_eq!(outcomes[&told], Ok(7));
        assert!(outcomes[&missing].is_err());
    }

    #[test]
    fn the_order_is_javas() {
        // As `new HashMap<TopicPartition, …>` of a Java 17 lists them.
        let mut partitions = [0, 1, 2, 3].map(|number| TopicPartition::new("t", number));
        hash_map_order(&mut partitions);
        // Hashes 1077, 1108, 1139, 1170: in 16 buckets 5, 4, 3, 2.
        assert_eq!(partitions.map(|partition| partition.partition.0), [3, 2, 1, 0]);
    }
}
