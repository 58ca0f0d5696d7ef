//! Begins, verifies and cancels reassignments.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use kafka_protocol::messages::alter_partition_reassignments_request::{ReassignablePartition, ReassignableTopic};
use kafka_protocol::messages::alter_replica_log_dirs_request::{AlterReplicaLogDir, AlterReplicaLogDirTopic};
use kafka_protocol::messages::describe_log_dirs_request::DescribableLogDirTopic;
use kafka_protocol::messages::{
    AlterPartitionReassignmentsRequest, AlterReplicaLogDirsRequest, BrokerId, DescribeLogDirsRequest,
};
use tokio::time::{Instant, sleep};

use super::plan::{self, Plan};
use super::throttles::Moves;
use super::{Directories, Replica, commas, failed, replica_text, throttles};
use crate::cli::kafka::argparse::terse;
use crate::cli::kafka::say;
use crate::client::text;
use crate::client::topics;
use crate::client::{Client, Error, Target};
use crate::protocol::ErrorCode;
use crate::types::TopicPartition;

/// By partition.
pub type Assignment = BTreeMap<TopicPartition, Vec<i32>>;

fn unknown(message: String) -> Error {
    Error::of(ErrorCode::UnknownTopicOrPartition.code(), Some(message)).for_good().in_execution()
}

/// The replicas of all partitions of these topics.
pub async fn current(client: &Client, names: &[String]) -> Result<Assignment, Error> {
    let mut assignment = Assignment::new();
    for name in names {
        // One by one, to tell which is missing.
        let described =
            topics::describe(client, std::slice::from_ref(name), 2000).await.map_err(|error| {
                match error.is(ErrorCode::UnknownTopicOrPartition) {
                    true => unknown(format!("Topic {name} not found.")),
                    false => error.in_execution(),
                }
            })?;
        for topic in described {
            for partition in topic.partitions {
                assignment.insert(TopicPartition::new(topic.name.as_str(), partition.index), partition.replicas);
            }
        }
    }
    Ok(assignment)
}

/// Where replicas are, on the brokers that have them.
async fn describe_directories(client: &Client, replicas: &BTreeSet<Replica>) -> Result<Directories, Error> {
    let mut found = Directories::new();
    let brokers: BTreeSet<i32> = replicas.iter().map(|(broker, _, _)| *broker).collect();
    for broker in brokers {
        let mut asked: BTreeMap<&str, Vec<i32>> = BTreeMap::new();
        for (_, topic, partition) in replicas.iter().filter(|(on, _, _)| *on == broker) {
            asked.entry(topic).or_default().push(*partition);
        }
        let asked = asked.into_iter().map(|(topic, partitions)| {
            DescribableLogDirTopic::default().with_topic(text(topic).into()).with_partitions(partitions)
        });
        let request = DescribeLogDirsRequest::default().with_topics(Some(asked.collect()));
        let target = Target::Node(broker);
        let response = client.call("describeReplicaLogDirs", &target, &request).await.map_err(Error::in_execution)?;
        Error::check(response.error_code, None::<String>).map_err(Error::in_execution)?;
        for directory in response.results.iter().filter(|directory| directory.error_code == 0) {
            for topic in &directory.topics {
                for partition in &topic.partitions {
                    let place = found.entry((broker, topic.name.to_string(), partition.partition_index)).or_default();
                    let path = Some(directory.log_dir.to_string());
                    if partition.is_future_key {
                        place.1 = path;
                    } else {
                        place.0 = path;
                    }
                }
            }
        }
    }
    Ok(found)
}

/// The directory of each replica of an assignment that has one.
pub async fn directories_of(client: &Client, assignment: &Assignment) -> Result<BTreeMap<Replica, String>, Error> {
    let live: Vec<i32> = client.nodes().await.map_err(Error::in_execution)?.iter().map(|node| node.id).collect();
    let replicas = assignment.iter().flat_map(|(partition, replicas)| {
        replicas.iter().map(|&broker| (broker, partition.topic.to_string(), partition.partition.0))
    });
    let replicas = replicas.filter(|(broker, _, _)| live.contains(broker)).collect();
    let found = describe_directories(client, &replicas).await?;
    Ok(found.into_iter().filter_map(|(replica, (current, _))| Some((replica, current?))).collect())
}

// --- execute ------------------------------------------------------------------------------------------------------

/// How a reassignment is to be done.
pub struct Execution {
    pub additional: bool,
    /// Bytes per second; none if negative.
    pub throttle: i64,
    pub directories_throttle: i64,
    pub timeout_ms: i64,
    pub may_change_replication_factor: bool,
}

pub async fn execute(client: &Client, plan: &Plan, how: &Execution) -> Result<(), Error> {
    let moving = topics::reassignments(client, None).await.map_err(Error::in_execution)?;
    if !how.additional && !moving.is_empty() {
        return Err(terse(
            "Cannot execute because there is an existing partition assignment.  Use --additional to override this and create a new partition assignment in addition to the existing one. The --additional flag can also be used to change the throttle by resubmitting the current reassignment.",
        ));
    }
    let live: Vec<i32> = client.nodes().await.map_err(Error::in_execution)?.iter().map(|node| node.id).collect();
    let brokers: BTreeSet<i32> = plan.partitions.iter().flat_map(|(_, replicas)| replicas.iter().copied()).collect();
    if let Some(stranger) = brokers.iter().find(|id| !live.contains(id)) {
        return Err(failed(format!("Unknown broker id {stranger}")));
    }
    let mut now = current(client, &plan.topics()).await?;
    now.retain(|partition, _| plan.partitions.iter().any(|(wanted, _)| wanted == partition));
    let missing =
        plan.partitions.iter().map(|(partition, _)| partition).filter(|partition| !now.contains_key(*partition));
    let missing: Vec<String> = plan::in_map_order(missing).iter().map(ToString::to_string).collect();
    if !missing.is_empty() {
        return Err(unknown(format!("Unable to find partition: {}", missing.join(", "))));
    }
    let directories = directories_of(client, &now).await?;
    say!("Current partition replica assignment\n\n{}\n", plan::text(&now, &directories));
    say!("Save this to use as the --reassignment-json-file option during rollback");
    if how.throttle >= 0 || how.directories_throttle >= 0 {
        say!(
            "Warning: You must run --verify periodically, until the reassignment completes, to ensure the throttle is removed."
        );
        if how.throttle >= 0 {
            throttles::set(client, &Moves::of(&moving, plan, &now)?, how.throttle).await?;
        }
        if how.directories_throttle >= 0 {
            let brokers: BTreeSet<i32> = plan.directories.keys().map(|(broker, _, _)| *broker).collect();
            let rate = how.directories_throttle;
            throttles::set_for_directories(client, &brokers, rate).await?;
        }
    }
    let wanted = plan.partitions.iter().map(|(partition, replicas)| (partition.clone(), Some(replicas.clone())));
    let errors = alter(client, wanted.collect(), how.may_change_replication_factor).await;
    if !errors.is_empty() {
        return Err(terse(format!("Error reassigning partition(s):\n{}", errors_text(&errors))));
    }
    let plural = if plan.partitions.len() == 1 { "" } else { "s" };
    say!("Successfully started partition reassignment{plural} for {}", plan.partitions_text());
    if !plan.directories.is_empty() {
        move_directories(client, plan.directories.clone(), how.timeout_ms).await?;
    }
    Ok(())
}

fn errors_text(errors: &BTreeMap<TopicPartition, Error>) -> String {
    let lines: Vec<String> =
        errors.iter().map(|(partition, error)| format!("{partition}: {}", error.message())).collect();
    lines.join("\n")
}

/// Reassigns each partition, or cancels that; returns what was refused.
async fn alter(
    client: &Client,
    wanted: BTreeMap<TopicPartition, Option<Vec<i32>>>,
    may_change_replication_factor: bool,
) -> BTreeMap<TopicPartition, Error> {
    let mut by_topic: BTreeMap<&str, Vec<ReassignablePartition>> = BTreeMap::new();
    for (partition, replicas) in &wanted {
        let replicas = replicas.as_ref().map(|replicas| replicas.iter().map(|&id| BrokerId(id)).collect());
        let entry =
            ReassignablePartition::default().with_partition_index(partition.partition.0).with_replicas(replicas);
        by_topic.entry(&partition.topic).or_default().push(entry);
    }
    let topics = by_topic.into_iter().map(|(topic, partitions)| {
        ReassignableTopic::default().with_name(text(topic).into()).with_partitions(partitions)
    });
    let request = AlterPartitionReassignmentsRequest::default()
        .with_timeout_ms(client.config.request_timeout_ms())
        .with_allow_replication_factor_change(may_change_replication_factor)
        .with_topics(topics.collect());
    let answered = client
        .retry("alterPartitionReassignments", async || {
            let controller = client.connection(&Target::Controller).await?;
            // v1: KIP-860.
            if !may_change_replication_factor
                && controller.versions.common::<AlterPartitionReassignmentsRequest>(i16::MAX)? < 1
            {
                return Err(Error::unsupported_version(
                    "The broker does not support the AllowReplicationFactorChange option for the AlterPartitionReassignments API. Consider re-sending the request without the option or updating the server version",
                ));
            }
            let response = client.send(&Target::Controller, &request).await?;
            Error::check(response.error_code, response.error_message.as_deref())?;
            Ok(response.responses)
        })
        .await;
    let mut errors = BTreeMap::new();
    match answered {
        Err(error) => errors.extend(wanted.into_keys().map(|partition| (partition, error.clone()))),
        Ok(topics) => {
            for topic in topics {
                for partition in topic.partitions {
                    if let Err(error) = Error::check(partition.error_code, partition.error_message.as_deref()) {
                        errors.insert(TopicPartition::new(topic.name.as_str(), partition.partition_index), error);
                    }
                }
            }
        }
    }
    errors
}

/// Has brokers move replicas between directories; a replica that is on its way to its broker is tried again.
async fn move_directories(
    client: &Client,
    mut pending: BTreeMap<Replica, String>,
    timeout_ms: i64,
) -> Result<(), Error> {
    let end = Instant::now() + Duration::from_millis(timeout_ms.max(0) as u64);
    loop {
        for replica in begin_moves(client, &pending).await? {
            if let Some(directory) = pending.remove(&replica) {
                let (broker, topic, partition) = &replica;
                // A blank before the end, as in Kafka.
                say!(
                    "Successfully started moving log directory to {directory} for replica {topic}-{partition} with broker {broker} "
                );
            }
        }
        if pending.is_empty() {
            return Ok(());
        }
        if Instant::now() >= end {
            let plural = if pending.len() == 1 { "" } else { "s" };
            return Err(terse(format!(
                "Timed out before log directory move{plural} could be started for: {}",
                commas(pending.keys().map(replica_text))
            )));
        }
        sleep(Duration::from_millis(100)).await;
    }
}

/// The replicas whose moves have begun.
async fn begin_moves(client: &Client, wanted: &BTreeMap<Replica, String>) -> Result<Vec<Replica>, Error> {
    let brokers: BTreeSet<i32> = wanted.keys().map(|(broker, _, _)| *broker).collect();
    let mut begun = Vec::new();
    for broker in brokers {
        let mut paths: BTreeMap<&str, BTreeMap<&str, Vec<i32>>> = BTreeMap::new();
        for ((_, topic, partition), path) in wanted.iter().filter(|((on, _, _), _)| *on == broker) {
            paths.entry(path).or_default().entry(topic).or_default().push(*partition);
        }
        let paths = paths.into_iter().map(|(path, topics)| {
            let topics = topics.into_iter().map(|(topic, partitions)| {
                AlterReplicaLogDirTopic::default().with_name(text(topic).into()).with_partitions(partitions)
            });
            AlterReplicaLogDir::default().with_path(text(path)).with_topics(topics.collect())
        });
        let request = AlterReplicaLogDirsRequest::default().with_dirs(paths.collect());
        let answered = client.call("alterReplicaLogDirs", &Target::Node(broker), &request).await;
        let response = answered.map_err(|error| failed("Failed to alter dir").caused_by(error.in_execution()))?;
        for topic in response.results {
            for partition in topic.partitions {
                let replica = (broker, topic.topic_name.to_string(), partition.partition_index);
                match Error::check(partition.error_code, None::<String>) {
                    Ok(()) => begun.push(replica),
                    Err(error) if error.is(ErrorCode::ReplicaNotAvailable) => {}
                    Err(error) => {
                        let message = format!("Failed to alter dir for {}", replica_text(&replica));
                        return Err(failed(message).caused_by(error.in_execution()));
                    }
                }
            }
        }
    }
    begun.sort();
    Ok(begun)
}

// --- verify and cancel --------------------------------------------------------------------------------------------

pub async fn verify(client: &Client, plan: &Plan, preserve_throttles: bool) -> Result<(), Error> {
    let moving = topics::reassignments(client, None).await.map_err(Error::in_execution)?;
    say!("Status of partition reassignment:");
    let mut wanted: Vec<&(TopicPartition, Vec<i32>)> = plan.partitions.iter().collect();
    wanted.sort();
    for (partition, target) in wanted {
        if moving.contains_key(&(partition.topic.to_string(), partition.partition.0)) {
            say!("Reassignment of partition {partition} is still in progress.");
            continue;
        }
        let now = match current(client, &[partition.topic.to_string()]).await {
            Ok(now) => now.get(partition).cloned().unwrap_or_default(),
            Err(error) if error.cause.as_ref().is_some_and(|cause| cause.is(ErrorCode::UnknownTopicOrPartition)) => {
                Vec::new()
            }
            Err(error) => return Err(error),
        };
        if now == *target {
            say!("Reassignment of partition {partition} is completed.");
        } else {
            say!(
                "There is no active reassignment of partition {partition}, but replica set is {} rather than {}.",
                commas(&now),
                commas(target)
            );
        }
    }
    let directories = describe_directories(client, &plan.directories.keys().cloned().collect()).await?;
    let mut lines = Vec::new();
    let mut moves = false;
    for (replica, target) in &plan.directories {
        let (line, under_way) = move_state(replica, target, directories.get(replica));
        lines.push(line);
        moves |= under_way;
    }
    say!("{}", lines.join("\n"));
    if moving.is_empty() && !moves && !preserve_throttles {
        throttles::clear(client, plan).await?;
    }
    Ok(())
}

/// How a move between directories is told, and whether it is under way.
fn move_state(replica: &Replica, target: &str, place: Option<&(Option<String>, Option<String>)>) -> (String, bool) {
    let (broker, topic, partition) = replica;
    match place {
        None => (
            format!("Partition {topic}-{partition} cannot be found in any live log directory on broker {broker}."),
            false,
        ),
        Some((None, _)) => (
            format!(
                "Partition {topic}-{partition} is not found in any live log dir on broker {broker}. There is likely an offline log directory on the broker."
            ),
            false,
        ),
        Some((Some(current), None)) if current == target => {
            (format!("Reassignment of replica {} completed successfully.", replica_text(replica)), false)
        }
        Some((Some(current), None)) => (
            format!(
                "Partition {topic}-{partition} on broker {broker} is not being moved from log dir {current} to {target}."
            ),
            false,
        ),
        Some((Some(_), Some(future))) if future == target => {
            (format!("Reassignment of replica {} is still in progress.", replica_text(replica)), true)
        }
        Some((Some(_), Some(future))) => (
            format!(
                "Partition {topic}-{partition} on broker {broker} is being moved to log dir {future} instead of {target}."
            ),
            true,
        ),
    }
}

pub async fn cancel(client: &Client, plan: &Plan, preserve_throttles: bool, timeout_ms: i64) -> Result<(), Error> {
    let mut moving = topics::reassignments(client, None).await.map_err(Error::in_execution)?;
    moving.retain(|(topic, partition), moving| {
        let named = |wanted: &TopicPartition| *wanted.topic == **topic && wanted.partition.0 == *partition;
        plan.partitions.iter().any(|(wanted, _)| named(wanted))
            && !(moving.adding.is_empty() && moving.removing.is_empty())
    });
    let moving: Vec<TopicPartition> =
        moving.keys().map(|(topic, partition)| TopicPartition::new(topic.as_str(), *partition)).collect();
    if moving.is_empty() {
        say!("None of the specified partition reassignments are active.");
    } else {
        let wanted = moving.iter().map(|partition| (partition.clone(), None));
        let errors = alter(client, wanted.collect(), true).await;
        if !errors.is_empty() {
            let plural = if errors.len() == 1 { "" } else { "s" };
            return Err(terse(format!(
                "Error cancelling partition reassignment{plural} for:\n{}",
                errors_text(&errors)
            )));
        }
        let plural = if moving.len() == 1 { "" } else { "s" };
        say!("Successfully cancelled partition reassignment{plural} for: {}", commas(&moving));
    }
    let directories = describe_directories(client, &plan.directories.keys().cloned().collect()).await?;
    let back = directories.into_iter().filter_map(|(replica, place)| match place {
        (Some(current), Some(_)) if plan.directories.contains_key(&replica) => Some((replica, current)),
        _ => None,
    });
    let back: BTreeMap<Replica, String> = back.collect();
    if back.is_empty() {
        use std::io::Write as _;
        // Without the end of the line, as in Kafka.
        let _ = write!(std::io::stdout(), "None of the specified partition moves are active.");
    } else {
        move_directories(client, back, timeout_ms).await?;
    }
    if !preserve_throttles {
        throttles::clear(client, plan).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moves_have_states() {
        let replica = (1, "a".to_owned(), 0);
        let state = |current: Option<&str>, future: Option<&str>| {
            let place = (current.map(str::to_owned), future.map(str::to_owned));
            move_state(&replica, "/to", Some(&place))
        };
        assert_eq!(
            state(Some("/to"), None),
            ("Reassignment of replica a-0-1 completed successfully.".to_owned(), false)
        );
        assert_eq!(
            state(Some("/from"), Some("/to")),
            ("Reassignment of replica a-0-1 is still in progress.".to_owned(), true)
        );
        assert!(state(Some("/from"), Some("/other")).0.ends_with("is being moved to log dir /other instead of /to."));
        assert!(state(Some("/from"), None).0.ends_with("is not being moved from log dir /from to /to."));
        assert!(state(None, None).0.contains("offline log directory"));
        assert!(move_state(&replica, "/to", None).0.contains("cannot be found"));
    }
}
