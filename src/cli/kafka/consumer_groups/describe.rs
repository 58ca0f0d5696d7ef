//! `--describe`: offsets and lag, members, or the state.

use std::collections::BTreeMap;

use super::{fault, print_error, wanted_groups};
use crate::cli::kafka::options::Options;
use crate::cli::kafka::{Stop, complain, say};
use crate::client::groups::{self, Committed, Description, Member};
use crate::client::offsets::{self, LATEST};
use crate::client::{Client, Error, partitions};
use crate::types::TopicPartition;

/// What stands for nothing.
const MISSING: &str = "-";

pub async fn run(client: &Client, options: &Options) -> Result<(), Stop> {
    let mut described = BTreeMap::new();
    for group in wanted_groups(client, options).await? {
        let description = groups::describe(client, &group).await.map_err(Error::in_execution)?;
        described.insert(group, description);
    }
    let verbose = options.has("verbose");
    for group in described.values() {
        if options.has("members") {
            print_members(group, verbose)?;
        } else if options.has("state") {
            print_state(group, verbose)?;
        } else {
            print_offsets(client, group, verbose).await?;
        }
    }
    Ok(())
}

/// Says what the state means; whether there is anything to show.
fn tell_state(group: &Description, rows: usize) -> Result<bool, Error> {
    match group.state.as_str() {
        "Dead" => print_error(&format!("Consumer group '{}' does not exist.", group.id)),
        "Empty" => complain!("\nConsumer group '{}' has no active members.", group.id),
        "PreparingRebalance" | "CompletingRebalance" | "Assigning" | "Reconciling" => {
            complain!("\nWarning: Consumer group '{}' is rebalancing.", group.id);
        }
        "Stable" => {}
        other => {
            return Err(fault(&format!("Expected a valid consumer group state, but found '{other}'.")));
        }
    }
    Ok(group.state != "Dead" && rows > 0)
}

/// A partition with whoever has it.
struct Row {
    partition: Option<TopicPartition>,
    committed: Option<Committed>,
    end: Option<i64>,
    consumer: String,
    host: String,
    client: String,
}

async fn print_offsets(client: &Client, group: &Description, verbose: bool) -> Result<(), Error> {
    let committed = groups::committed(client, &group.id).await.map_err(Error::in_execution)?;
    let mut with_partitions: Vec<&Member> =
        group.members.iter().filter(|member| !member.assignment.is_empty()).collect();
    with_partitions.sort_by_key(|member| std::cmp::Reverse(member.assignment.len()));
    let assigned: Vec<&TopicPartition> = with_partitions.iter().flat_map(|member| &member.assignment).collect();
    let unassigned: Vec<TopicPartition> =
        committed.keys().filter(|partition| !assigned.contains(partition)).cloned().collect();
    let all: Vec<TopicPartition> = assigned.iter().copied().chain(&unassigned).cloned().collect();
    let ends = ends(client, &all).await?;
    let mut rows = Vec::new();
    let mut add = |partitions: &[TopicPartition], consumer: &str, host: &str, client: &str| {
        let mut sorted: Vec<&TopicPartition> = partitions.iter().collect();
        sorted.sort();
        rows.extend(sorted.into_iter().map(|partition| Row {
            partition: Some(partition.clone()),
            committed: committed.get(partition).copied(),
            end: ends.get(partition).copied(),
            consumer: consumer.to_owned(),
            host: host.to_owned(),
            client: client.to_owned(),
        }));
    };
    for member in with_partitions {
        add(&member.assignment, &member.id, &member.host, &member.client_id);
    }
    add(&unassigned, MISSING, MISSING, MISSING);
    if !tell_state(group, rows.len())? {
        return Ok(());
    }
    let longest = |least: usize, of: &dyn Fn(&Row) -> usize| rows.iter().map(of).max().unwrap_or(0).max(least);
    let widths = [
        group.id.len().max(15),
        longest(15, &|row| row.partition.as_ref().map_or(1, |partition| partition.topic.len())),
        longest(15, &|row| row.consumer.len()),
        longest(15, &|row| row.host.len()),
    ];
    let mut text = String::new();
    let mut line = |columns: [&str; 10]| {
        let [id, topic, partition, epoch, current, end, lag, consumer, host, client] = columns;
        let [id_width, topic_width, consumer_width, host_width] = widths;
        text.push_str(&format!("\n{id:<id_width$} {topic:<topic_width$} {partition:<10} "));
        if verbose {
            text.push_str(&format!("{epoch:<15} "));
        }
        text.push_str(&format!(
            "{current:<15} {end:<15} {lag:<15} {consumer:<consumer_width$} {host:<host_width$} {client}"
        ));
    };
    line([
        "GROUP",
        "TOPIC",
        "PARTITION",
        "LEADER-EPOCH",
        "CURRENT-OFFSET",
        "LOG-END-OFFSET",
        "LAG",
        "CONSUMER-ID",
        "HOST",
        "CLIENT-ID",
    ]);
    let or_missing = |number: Option<i64>| number.map_or(MISSING.to_owned(), |number| number.to_string());
    for row in &rows {
        let offset = row.committed.map(|committed| committed.offset);
        let lag = offset.zip(row.end).map(|(offset, end)| end - offset);
        line([
            &group.id,
            row.partition.as_ref().map_or(MISSING, |partition| &*partition.topic),
            &or_missing(row.partition.as_ref().map(|partition| partition.partition.0.into())),
            &or_missing(row.committed.and_then(|committed| committed.leader_epoch).map(i64::from)),
            &or_missing(offset),
            &or_missing(row.end),
            &or_missing(lag),
            &row.consumer,
            &row.host,
            &row.client,
        ]);
    }
    say!("{text}");
    Ok(())
}

/// Of the partitions that have a leader.
async fn ends(client: &Client, all: &[TopicPartition]) -> Result<BTreeMap<TopicPartition, i64>, Error> {
    if all.is_empty() {
        return Ok(BTreeMap::new());
    }
    let leaders = client.retry("describeTopics", async || partitions::leaders(client, all).await).await?;
    let led = leaders.into_iter().filter(|(_, leader)| leader.is_ok()).map(|(partition, _)| (partition, LATEST));
    let listed = offsets::list(client, &led.collect(), false).await;
    Ok(listed.into_iter().filter_map(|(partition, listed)| Some((partition, listed.ok()?.offset))).collect())
}

/// `a:0,1;b:2`
fn assignment(partitions: &[TopicPartition]) -> String {
    let mut topics: BTreeMap<&str, Vec<i32>> = BTreeMap::new();
    for partition in partitions {
        topics.entry(&partition.topic).or_default().push(partition.partition.0);
    }
    let topic = |(topic, mut partitions): (&str, Vec<i32>)| {
        partitions.sort_unstable();
        format!("{topic}:{}", partitions.iter().map(i32::to_string).collect::<Vec<_>>().join(","))
    };
    let mut texts: Vec<String> = topics.into_iter().map(topic).collect();
    texts.sort();
    if texts.is_empty() { MISSING.to_owned() } else { texts.join(";") }
}

fn print_members(group: &Description, verbose: bool) -> Result<(), Error> {
    let shown = tell_state(group, group.members.len())?;
    let members = &group.members[..];
    let longest = |least: usize, of: &dyn Fn(&Member) -> usize| match shown {
        true => members.iter().map(of).max().unwrap_or(0).max(least),
        false => least,
    };
    let instance = |member: &Member| member.instance_id.clone().unwrap_or_default();
    let with_instance = shown && members.iter().any(|member| !instance(member).is_empty());
    let migrates = shown
        && members.iter().any(|member| member.upgraded == Some(true))
        && members.iter().any(|member| member.upgraded == Some(false));
    let group_width = if shown { group.id.len().max(15) } else { 15 };
    let id_width = longest(15, &|member| member.id.len());
    let instance_width = longest(17, &|member| instance(member).len());
    let host_width = longest(15, &|member| member.host.len());
    let client_width = longest(15, &|member| member.client_id.len());
    let current_width = longest(20, &|member| assignment(&member.assignment).len());
    let target_width = longest(20, &|member| assignment(&member.target).len());
    let line = |columns: [&str; 11]| {
        let [id, member, instance, host, client, count, epoch, current, target_epoch, target, upgraded] = columns;
        let mut line = format!("{id:<group_width$} {member:<id_width$} ");
        if with_instance {
            line.push_str(&format!("{instance:<instance_width$} "));
        }
        line.push_str(&format!("{host:<host_width$} {client:<client_width$} {count:<15} "));
        if verbose {
            line.push_str(&format!("{epoch:<15} {current:<current_width$} {target_epoch:<15} {target:<target_width$}"));
            if migrates {
                line.push_str(&format!(" {upgraded}"));
            }
        }
        say!("{line}");
    };
    say!();
    line([
        "GROUP",
        "CONSUMER-ID",
        "GROUP-INSTANCE-ID",
        "HOST",
        "CLIENT-ID",
        "#PARTITIONS",
        "CURRENT-EPOCH",
        "CURRENT-ASSIGNMENT",
        "TARGET-EPOCH",
        "TARGET-ASSIGNMENT",
        "UPGRADED",
    ]);
    let or_missing = |number: Option<i32>| number.map_or(MISSING.to_owned(), |number| number.to_string());
    for member in members {
        line([
            &group.id,
            &member.id,
            &instance(member),
            &member.host,
            &member.client_id,
            &member.assignment.len().to_string(),
            &or_missing(member.epoch),
            &assignment(&member.assignment),
            &or_missing(group.assignment_epoch),
            &assignment(&member.target),
            &member.upgraded.map_or(MISSING.to_owned(), |upgraded| upgraded.to_string()),
        ]);
    }
    Ok(())
}

fn print_state(group: &Description, verbose: bool) -> Result<(), Error> {
    if !tell_state(group, 1)? {
        return Ok(());
    }
    let node = &group.coordinator;
    let coordinator = format!("{}:{}  ({})", node.host, node.port, node.id);
    let (width, id_width) = (coordinator.len().max(25), group.id.len().max(15));
    let assignor = if group.assignor.is_empty() { MISSING } else { &group.assignor };
    let or_missing = |number: Option<i32>| number.map_or(MISSING.to_owned(), |number| number.to_string());
    let mut text = String::new();
    let mut line = |columns: [&str; 7]| {
        let [id, coordinator, assignor, state, epoch, target_epoch, members] = columns;
        text.push_str(&format!("\n{id:<id_width$} {coordinator:<width$} {assignor:<20} {state:<20} "));
        if verbose {
            text.push_str(&format!("{epoch:<15} {target_epoch:<25} "));
        }
        text.push_str(members);
    };
    line([
        "GROUP",
        "COORDINATOR (ID)",
        "ASSIGNMENT-STRATEGY",
        "STATE",
        "GROUP-EPOCH",
        "TARGET-ASSIGNMENT-EPOCH",
        "#MEMBERS",
    ]);
    line([
        &group.id,
        &coordinator,
        assignor,
        &group.state,
        &or_missing(group.epoch),
        &or_missing(group.assignment_epoch),
        &group.members.len().to_string(),
    ]);
    say!("{text}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn assignments_are_sorted() {
        let partitions = [("b", 1), ("a", 2), ("b", 0)].map(|(topic, partition)| TopicPartition::new(topic, partition));
        assert_eq!(assignment(&partitions), "a:2;b:0,1");
        assert_eq!(assignment(&[]), "-");
    }
}
