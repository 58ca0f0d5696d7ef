//! Tells the controller in which log directory replicas lie, where it does not know (KIP-858).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use kafka_protocol::messages::assign_replicas_to_dirs_request::{DirectoryData, PartitionData, TopicData};
use kafka_protocol::messages::{AssignReplicasToDirsRequest, BrokerId as WireBrokerId};
use tracing::{debug, warn};

use super::registration::Registration;
use crate::protocol::ErrorCode;
use crate::replica::{Assignment, Assignments};
use crate::server::broker::Broker;
use crate::types::{DirectoryId, PartitionId, TopicId};

/// As many as Kafka tells in one request.
const MAX_ASSIGNMENTS: usize = 2250;
const FIRST_BACKOFF: Duration = Duration::from_millis(100);
const LONGEST_BACKOFF: Duration = Duration::from_secs(10);

/// Tells what is known at a start, before the broker asks for leaderships: they hang on it.
pub(super) async fn report_known(broker: &Broker, registration: &Registration) {
    let left = tell_waiting(broker, registration).await;
    broker.replicas.assignments().give_back(left);
}

/// Replicas of which the controller is being told. Where that ends before it has answered, as it does when the node ends, they
/// are to be told again.
struct Telling<'a> {
    assignments: &'a Assignments,
    taken: Vec<Assignment>,
}

impl Drop for Telling<'_> {
    fn drop(&mut self) {
        if !self.taken.is_empty() {
            self.assignments.give_back(std::mem::take(&mut self.taken));
        }
    }
}

/// Never ends.
pub(super) async fn report(broker: Arc<Broker>, registration: Arc<Registration>) {
    let assignments: &Assignments = broker.replicas.assignments();
    let mut backoff = FIRST_BACKOFF;
    loop {
        let mut telling = Telling { assignments, taken: assignments.take(MAX_ASSIGNMENTS).await };
        telling.taken = tell(&broker, &registration, telling.taken.clone()).await;
        let left = telling.taken.len();
        if left == 0 {
            backoff = FIRST_BACKOFF;
            continue;
        }
        warn!(replicas = left, ?backoff, "the controller does not know the log directory of some replicas yet");
        tokio::time::sleep(backoff).await;
        backoff = (backoff * 2).min(LONGEST_BACKOFF);
    }
}

/// Tells what was not told yet, before the broker ends: if the directory of a replica fails until the next start, the
/// controller must know that it was there.
pub(super) async fn report_last(broker: &Broker, registration: &Registration) {
    let left = tell_waiting(broker, registration).await;
    if !left.is_empty() {
        warn!(replicas = left.len(), "the controller does not know the log directory of some replicas");
    }
}

/// Tells all that waits to be told. Returns those that are to be told again.
async fn tell_waiting(broker: &Broker, registration: &Registration) -> Vec<Assignment> {
    let mut left = Vec::new();
    loop {
        let taken = broker.replicas.assignments().take_waiting(MAX_ASSIGNMENTS);
        if taken.is_empty() {
            return left;
        }
        left.extend(tell(broker, registration, taken).await);
    }
}

/// Returns those that are to be told again.
async fn tell(broker: &Broker, registration: &Registration, taken: Vec<Assignment>) -> Vec<Assignment> {
    let mut by_directory: BTreeMap<DirectoryId, BTreeMap<TopicId, Vec<PartitionId>>> = BTreeMap::new();
    for ((topic_id, partition), directory) in &taken {
        by_directory.entry(*directory).or_default().entry(*topic_id).or_default().push(*partition);
    }
    let directories = by_directory.iter().map(|(directory, topics)| {
        let topics = topics.iter().map(|(topic_id, partitions)| {
            let index = |partition: &PartitionId| PartitionData::default().with_partition_index(partition.0);
            TopicData::default().with_topic_id(topic_id.0).with_partitions(partitions.iter().map(index).collect())
        });
        DirectoryData::default().with_id(directory.0).with_topics(topics.collect())
    });
    let request = AssignReplicasToDirsRequest::default()
        .with_broker_id(WireBrokerId(broker.config.node_id.0))
        .with_broker_epoch(registration.epoch())
        .with_directories(directories.collect());
    let response = match broker.controller.assign_replicas_to_dirs(request).await {
        Ok(response) if response.error_code == ErrorCode::None.code() => response,
        Ok(response) => {
            debug!(error_code = response.error_code, "the controller refuses to be told of log directories");
            return taken;
        }
        Err(_) => return taken,
    };
    let mut codes = BTreeMap::new();
    for topic in response.directories.iter().flat_map(|directory| &directory.topics) {
        for partition in &topic.partitions {
            let code = ErrorCode::from_code(partition.error_code);
            codes.insert((TopicId(topic.topic_id), PartitionId(partition.partition_index)), code);
        }
    }
    let is_settled = |(replica, _): &Assignment| {
        // Of a topic or an assignment that is gone nobody wants to know.
        let gone = [ErrorCode::UnknownTopicId, ErrorCode::UnknownTopicOrPartition, ErrorCode::NotLeaderOrFollower];
        let code = codes.get(replica).copied().flatten();
        code.is_some_and(|code| code == ErrorCode::None || gone.contains(&code))
    };
    taken.into_iter().filter(|assignment| !is_settled(assignment)).collect()
}
