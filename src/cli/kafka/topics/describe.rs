//! `kafka-topics --describe`.

use kafka_protocol::messages::describe_configs_response::DescribeConfigsResourceResult;

use super::{REPORTS, ensure_found, matching};
use crate::cli::kafka::options::Options;
use crate::cli::kafka::{say, uuid};
use crate::client::configs::{self, Resource, ResourceType};
use crate::client::topics::{self, Description, Partition, Reassignment, Reassignments};
use crate::client::{Client, Error};
use crate::config::java;
use crate::protocol::ErrorCode;
use crate::types::TopicId;

pub async fn describe(client: &Client, options: &Options) -> Result<(), Error> {
    let described = match topic_id(options)? {
        Some(id) => {
            let listed = topics::list(client, !options.has("exclude-internal")).await?;
            if listed.iter().any(|topic| topic.id == id) {
                topics::describe_ids(client, &[id]).await?
            } else if options.has("if-exists") {
                Vec::new()
            } else {
                return Err(Error::illegal_argument(format!("TopicId '{id}' does not exist as expected")));
            }
        }
        None => {
            let names = matching(client, options).await?;
            ensure_found(names.len(), options)?;
            let at_once = options.integer("partition-size-limit-per-response")?.unwrap_or(2000);
            if names.is_empty() { Vec::new() } else { topics::describe(client, &names, at_once).await? }
        }
    };
    let resources: Vec<Resource> =
        described.iter().map(|topic| Resource::new(ResourceType::Topic, &topic.name)).collect();
    let settings = if resources.is_empty() { Vec::new() } else { configs::describe(client, &resources, false).await? };
    let live: Vec<i32> = client.nodes().await?.iter().map(|node| node.id).collect();
    let reassignments = match topics::reassignments(client, Some(&described)).await {
        Err(error) if error.is(ErrorCode::UnsupportedVersion) || error.is(ErrorCode::ClusterAuthorizationFailed) => {
            Reassignments::new()
        }
        found => found?,
    };
    let report = Report::of(options);
    for (topic, settings) in described.iter().zip(settings) {
        let settings = settings?;
        let table = java::grown_table(settings.len());
        let mut set: Vec<&DescribeConfigsResourceResult> =
            settings.iter().filter(|setting| setting.config_source != configs::SOURCE_DEFAULT).collect();
        java::sort_by_hash(&mut set, table, |setting| java::string_hash(&setting.name));
        if report.topics && (!report.only_overridden || !set.is_empty()) {
            print_topic(topic, &set, &reassignments);
        }
        if !report.only_overridden {
            let min_isr = settings.iter().find(|setting| &*setting.name == "min.insync.replicas");
            let min_isr = min_isr.and_then(|setting| setting.value.as_deref()?.parse().ok()).unwrap_or(1);
            for partition in &topic.partitions {
                let reassignment = reassignments.get(&(topic.name.clone(), partition.index));
                if report.shows(partition, reassignment, min_isr, &live) {
                    print_partition(&topic.name, partition, reassignment);
                }
            }
        }
    }
    Ok(())
}

/// The id that is asked for; one of zeros is none.
fn topic_id(options: &Options) -> Result<Option<TopicId>, Error> {
    let Some(text) = options.value("topic-id")? else { return Ok(None) };
    let id = TopicId(uuid(text)?);
    Ok((id != TopicId::ZERO).then_some(id))
}

/// Which topics and partitions a description shows.
struct Report {
    /// No filter of partitions is on.
    topics: bool,
    only_overridden: bool,
    under_replicated: bool,
    unavailable: bool,
    under_min_isr: bool,
    at_min_isr: bool,
}

impl Report {
    fn of(options: &Options) -> Report {
        Report {
            topics: !REPORTS.iter().any(|report| options.has(report)),
            only_overridden: options.has("topics-with-overrides"),
            under_replicated: options.has("under-replicated-partitions"),
            unavailable: options.has("unavailable-partitions"),
            under_min_isr: options.has("under-min-isr-partitions"),
            at_min_isr: options.has("at-min-isr-partitions"),
        }
    }

    fn shows(&self, partition: &Partition, moving: Option<&Reassignment>, min_isr: usize, live: &[i32]) -> bool {
        let in_sync = partition.isr.len();
        let leads = partition.leader.is_some();
        self.topics
            || (self.under_replicated && replication_factor(partition, moving) > in_sync)
            || (self.unavailable && partition.leader.is_none_or(|leader| !live.contains(&leader)))
            || (self.under_min_isr && (!leads || in_sync < min_isr))
            || (self.at_min_isr && in_sync == min_isr)
    }
}

/// How many replicas a partition has once its reassignment, if there still is one, has come to its end.
fn replication_factor(partition: &Partition, moving: Option<&Reassignment>) -> usize {
    match moving {
        Some(moving)
            if partition.replicas.iter().any(|id| moving.adding.contains(id) || moving.removing.contains(id)) =>
        {
            moving.replicas.len().saturating_sub(moving.adding.len())
        }
        _ => partition.replicas.len(),
    }
}

fn print_topic(topic: &Description, set: &[&DescribeConfigsResourceResult], reassignments: &Reassignments) {
    let settings: Vec<String> = set
        .iter()
        .map(|setting| format!("{}={}", &*setting.name, setting.value.as_deref().unwrap_or("null")))
        .collect();
    let moving = reassignments.get(&(topic.name.clone(), 0));
    let replicas = topic.partitions.first().map_or(0, |first| replication_factor(first, moving));
    let id = if topic.id == TopicId::ZERO { String::new() } else { format!("\tTopicId: {}", topic.id) };
    say!(
        "Topic: {}{id}\tPartitionCount: {}\tReplicationFactor: {replicas}\tConfigs: {}",
        topic.name,
        topic.partitions.len(),
        settings.join(","),
    );
}

fn print_partition(topic: &str, partition: &Partition, moving: Option<&Reassignment>) {
    let list = |ids: &[i32]| ids.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
    let maybe = |ids: &Option<Vec<i32>>| ids.as_deref().map_or("N/A".to_owned(), list);
    let leader = partition.leader.map_or("none".to_owned(), |id| id.to_string());
    let moving = moving.map_or(String::new(), |moving| {
        format!("\tAdding Replicas: {}\tRemoving Replicas: {}", list(&moving.adding), list(&moving.removing))
    });
    say!(
        "\tTopic: {topic}\tPartition: {}\tLeader: {leader}\tReplicas: {}\tIsr: {}{moving}\tElr: {}\tLastKnownElr: {}",
        partition.index,
        list(&partition.replicas),
        list(&partition.isr),
        maybe(&partition.elr),
        maybe(&partition.last_known_elr),
    );
}
