//! Proposes a reassignment.

use std::collections::BTreeMap;

use super::plan::{self, duplicates, in_map_order};
use super::{failed, moves};
use crate::cli::kafka::{json, say};
use crate::client::{Client, Error, Node};
use crate::config::java;
use crate::controller::placement::{Candidate, place_on};
use crate::types::{BrokerId, TopicPartition};

pub async fn generate(client: &Client, file: &str, brokers: &str, racks: bool) -> Result<(), Error> {
    let number = |text: &str| {
        let fault = || Error::new("java.lang.NumberFormatException", format!("For input string: \"{text}\""));
        java::parse_integer::<i32>(text).ok_or_else(fault)
    };
    let brokers = java::split(brokers, ',').into_iter().map(number).collect::<Result<Vec<i32>, Error>>()?;
    let twice = duplicates(&brokers);
    if !twice.is_empty() {
        return Err(failed(format!("Broker list contains duplicate entries: {twice:?}")));
    }
    let topics = plan::read_topics(file)?;
    let twice = duplicates(&topics);
    if !twice.is_empty() {
        return Err(failed(format!("List of topics to reassign contains duplicate entries: [{}]", twice.join(", "))));
    }
    let current = moves::current(client, &topics).await?;
    let directories = moves::directories_of(client, &current).await?;
    let nodes = usable(client, &brokers, racks).await?;
    let mut by_topic: BTreeMap<String, Vec<TopicPartition>> = BTreeMap::new();
    for partition in in_map_order(current.keys()) {
        by_topic.entry(partition.topic.to_string()).or_default().push(partition);
    }
    let mut proposed = BTreeMap::new();
    for (topic, partitions) in by_topic {
        let replicas = current[&partitions[0]].len() as i16;
        let candidates = nodes.iter().map(|node| Candidate {
            id: BrokerId(node.id),
            rack: node.rack.as_deref().filter(|_| racks),
            fenced: false,
        });
        let placed = place_on(candidates, partitions.len(), replicas, &mut rand::rng()).map_err(|error| {
            Error::new("org.apache.kafka.common.errors.InvalidReplicationFactorException", error.to_string())
        })?;
        for (number, replicas) in placed.into_iter().enumerate() {
            let replicas: Vec<i32> = replicas.iter().map(|id| id.0).collect();
            proposed.insert(TopicPartition::new(topic.as_str(), number as i32), replicas);
        }
    }
    say!("Current partition replica assignment\n{}\n", plan::text(&current, &directories));
    say!("Proposed partition reassignment configuration\n{}", plan::text(&proposed, &BTreeMap::new()));
    Ok(())
}

/// Those of the brokers that are there.
async fn usable(client: &Client, brokers: &[i32], racks: bool) -> Result<Vec<Node>, Error> {
    let mut nodes = client.nodes().await.map_err(Error::in_execution)?;
    nodes.retain(|node| brokers.contains(&node.id));
    let rackless = nodes.iter().filter(|node| node.rack.is_none()).count();
    if racks && rackless != 0 && rackless != nodes.len() {
        return Err(json::fault(
            "Not all brokers have rack information. Add --disable-rack-aware in command line to make replica assignment without rack information.",
        ));
    }
    Ok(nodes)
}
