//! How fast replicas may move: settings of the brokers and of the topics that take part.

use std::collections::{BTreeMap, BTreeSet};

use super::commas;
use super::moves::Assignment;
use super::plan::Plan;
use crate::cli::kafka::say;
use crate::client::configs::{self, Change, Resource, ResourceType};
use crate::client::topics::Reassignments;
use crate::client::{Client, Error};

const LEADER_RATE: &str = "leader.replication.throttled.rate";
const FOLLOWER_RATE: &str = "follower.replication.throttled.rate";
const DIRECTORIES_RATE: &str = "replica.alter.log.dirs.io.max.bytes.per.second";
const LEADER_REPLICAS: &str = "leader.replication.throttled.replicas";
const FOLLOWER_REPLICAS: &str = "follower.replication.throttled.replicas";

/// From which brokers to which each partition moves.
pub struct Moves(BTreeMap<String, PartitionMoves>);

/// By partition: the brokers it comes from, and those it goes to.
type PartitionMoves = BTreeMap<i32, (BTreeSet<i32>, BTreeSet<i32>)>;

impl Moves {
    pub fn of(moving: &Reassignments, plan: &Plan, now: &Assignment) -> Result<Moves, Error> {
        let mut moves = Moves(BTreeMap::new());
        for ((topic, partition), moving) in moving {
            let adding: BTreeSet<i32> = moving.adding.iter().copied().collect();
            let sources = moving.replicas.iter().copied().filter(|id| !adding.contains(id)).collect();
            moves.0.entry(topic.clone()).or_default().insert(*partition, (sources, adding));
        }
        for (partition, replicas) in &plan.partitions {
            let of_topic = moves.0.entry(partition.topic.to_string()).or_default();
            let sources: BTreeSet<i32> = match (of_topic.get(&partition.partition.0), now.get(partition)) {
                (Some((sources, _)), _) => sources.clone(),
                (None, Some(now)) => now.iter().copied().collect(),
                (None, None) => {
                    let message = format!("Trying to reassign a topic partition {partition} with 0 replicas");
                    return Err(Error::new("java.lang.RuntimeException", message));
                }
            };
            let destinations = replicas.iter().copied().filter(|id| !sources.contains(id)).collect();
            of_topic.insert(partition.partition.0, (sources, destinations));
        }
        Ok(moves)
    }

    /// `partition:broker` of each end of a move, as the topic's setting has them.
    fn throttled(partitions: &PartitionMoves, leaders: bool) -> String {
        let each = partitions.iter().flat_map(|(partition, (sources, destinations))| {
            let side = if leaders { sources } else { destinations };
            side.iter().map(move |broker| format!("{partition}:{broker}"))
        });
        each.collect::<BTreeSet<String>>().into_iter().collect::<Vec<_>>().join(",")
    }
}

/// Sets the throttle of a reassignment, on both ends of each move.
pub async fn set(client: &Client, moves: &Moves, rate: i64) -> Result<(), Error> {
    let topics: Vec<(Resource, Vec<(String, Change)>)> = moves
        .0
        .iter()
        .map(|(topic, partitions)| {
            let set = |key: &str, leaders| (key.to_owned(), Change::Set(Moves::throttled(partitions, leaders)));
            let changes = vec![set(LEADER_REPLICAS, true), set(FOLLOWER_REPLICAS, false)];
            (Resource::new(ResourceType::Topic, topic.as_str()), changes)
        })
        .collect();
    configs::alter(client, &topics).await.map_err(Error::in_execution)?;
    let ends = moves.0.values().flat_map(BTreeMap::values);
    let brokers = ends.flat_map(|(sources, destinations)| sources.iter().chain(destinations)).copied().collect();
    set_rates(client, &brokers, &[LEADER_RATE, FOLLOWER_RATE], rate).await?;
    say!("The inter-broker throttle limit was set to {rate} B/s");
    Ok(())
}

/// Sets the throttle of moves between directories.
pub async fn set_for_directories(client: &Client, brokers: &BTreeSet<i32>, rate: i64) -> Result<(), Error> {
    set_rates(client, brokers, &[DIRECTORIES_RATE], rate).await?;
    say!("The replica-alter-dir throttle limit was set to {rate} B/s");
    Ok(())
}

async fn set_rates(client: &Client, brokers: &BTreeSet<i32>, keys: &[&str], rate: i64) -> Result<(), Error> {
    let changes = |broker: &i32| {
        let set = |key: &&str| ((*key).to_owned(), Change::Set(rate.to_string()));
        (Resource::new(ResourceType::Broker, broker.to_string()), keys.iter().map(set).collect())
    };
    let changes: Vec<(Resource, Vec<(String, Change)>)> = brokers.iter().map(changes).collect();
    configs::alter(client, &changes).await.map_err(Error::in_execution)
}

/// Takes all throttles away: which brokers were sources nobody knows any more.
pub async fn clear(client: &Client, plan: &Plan) -> Result<(), Error> {
    let live = client.nodes().await.map_err(Error::in_execution)?;
    let mut brokers: BTreeSet<i32> = live.iter().map(|node| node.id).collect();
    brokers.extend(plan.partitions.iter().flat_map(|(_, replicas)| replicas.iter().copied()));
    let plural = if brokers.len() == 1 { "" } else { "s" };
    say!("Clearing broker-level throttles on broker{plural} {}", commas(&brokers));
    let delete = |keys: &[&str]| keys.iter().map(|key| ((*key).to_owned(), Change::Delete)).collect::<Vec<_>>();
    let rates = delete(&[LEADER_RATE, FOLLOWER_RATE, DIRECTORIES_RATE]);
    let changes = brokers.iter().map(|broker| (Resource::new(ResourceType::Broker, broker.to_string()), rates.clone()));
    configs::alter(client, &changes.collect::<Vec<_>>()).await.map_err(Error::in_execution)?;
    let topics = plan.topics();
    let plural = if topics.len() == 1 { "" } else { "s" };
    say!("Clearing topic-level throttles on topic{plural} {}", commas(&topics));
    let replicas = delete(&[LEADER_REPLICAS, FOLLOWER_REPLICAS]);
    let changes = topics.iter().map(|topic| (Resource::new(ResourceType::Topic, topic.as_str()), replicas.clone()));
    configs::alter(client, &changes.collect::<Vec<_>>()).await.map_err(Error::in_execution)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::topics::Reassignment;
    use crate::types::TopicPartition;

    #[test]
    fn both_ends_of_a_move_are_throttled() {
        let plan = Plan { partitions: vec![(TopicPartition::new("a", 0), vec![2, 3])], ..Plan::default() };
        let now = BTreeMap::from([(TopicPartition::new("a", 0), vec![1, 2])]);
        let adding = Reassignment { replicas: vec![1, 4], adding: vec![4], removing: vec![] };
        let moving = BTreeMap::from([(("a".to_owned(), 1), adding)]);
        let moves = Moves::of(&moving, &plan, &now).unwrap();
        assert_eq!(Moves::throttled(&moves.0["a"], true), "0:1,0:2,1:1");
        assert_eq!(Moves::throttled(&moves.0["a"], false), "0:3,1:4");
        assert!(Moves::of(&moving, &plan, &BTreeMap::new()).is_err());
    }
}
