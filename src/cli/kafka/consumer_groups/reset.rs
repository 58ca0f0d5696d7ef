//! `--reset-offsets`: other offsets for a group without members.

use std::collections::BTreeMap;

use super::time;
use super::{fault, print_error, wanted_groups, wrapped};
use crate::cli::kafka::options::{Options, no_number};
use crate::cli::kafka::{Stop, json, say};
use crate::client::log::{self, Level};
use crate::client::offsets::{self, EARLIEST, LATEST};
use crate::client::partitions::hash_map_order;
use crate::client::{Client, Error, epoch_ms, groups, topics};
use crate::protocol::ErrorCode;
use crate::types::TopicPartition;

/// Exactly one of these, or at most one of those.
pub const SCENARIOS: [&str; 8] =
    ["to-offset", "shift-by", "to-datetime", "by-duration", "to-earliest", "to-latest", "to-current", "from-file"];

type Offsets = BTreeMap<TopicPartition, i64>;

pub async fn run(client: &Client, options: &Options) -> Result<(), Stop> {
    let mut reset: Vec<(String, Offsets)> = Vec::new();
    for group in wanted_groups(client, options).await? {
        let state = match groups::describe(client, &group).await {
            Ok(described) => described.state,
            Err(error) if error.is(ErrorCode::GroupIdNotFound) => "Dead".to_owned(),
            Err(error) => return Err(error.in_execution().into()),
        };
        let offsets = match state.as_str() {
            "Empty" | "Dead" => of_group(client, options, &group).await?,
            _ => {
                print_error(&format!(
                    "Assignments can only be reset if the group '{group}' is inactive, but the current state is {state}."
                ));
                Offsets::new()
            }
        };
        reset.push((group, offsets));
    }
    if options.has("export") {
        let single = options.values("group").len() == 1;
        let mut lines = String::new();
        for (group, offsets) in &reset {
            for (partition, offset) in in_order(offsets) {
                if !single {
                    lines.push_str(&format!("{},", quoted(group)));
                }
                lines.push_str(&format!("{},{},{offset}\n", quoted(&partition.topic), partition.partition.0));
            }
        }
        say!("{lines}");
        return Ok(());
    }
    print(&reset);
    Ok(())
}

/// Kafka's writer of CSV looks at no more than so many characters, and quotes what is longer without looking.
const LOOKED_AT: usize = 24;
/// What sorts below this in ASCII is quoted.
const FIRST_SAFE: char = '-';

fn quoted(text: &str) -> String {
    match text.len() > LOOKED_AT || text.chars().any(|letter| letter < FIRST_SAFE) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.to_owned(),
    }
}

fn in_order(offsets: &Offsets) -> Vec<(TopicPartition, i64)> {
    let mut partitions: Vec<TopicPartition> = offsets.keys().cloned().collect();
    hash_map_order(&mut partitions);
    partitions.into_iter().map(|partition| (partition.clone(), offsets[&partition])).collect()
}

fn print(reset: &[(String, Offsets)]) {
    let group_width = reset.iter().map(|(group, _)| group.len()).max().unwrap_or(0).max(15);
    let topics = reset.iter().flat_map(|(_, offsets)| offsets.keys());
    let topic_width = topics.map(|partition| partition.topic.len()).max().unwrap_or(0).max(15);
    let mut text = String::new();
    if !reset.is_empty() {
        text.push_str(&format!("\n{:<group_width$} {:<topic_width$} {:<10} NEW-OFFSET", "GROUP", "TOPIC", "PARTITION"));
    }
    for (group, offsets) in reset {
        for (partition, offset) in in_order(offsets) {
            text.push_str(&format!(
                "\n{group:<group_width$} {:<topic_width$} {:<10} {offset}",
                &*partition.topic, partition.partition.0
            ));
        }
    }
    say!("{text}");
}

async fn of_group(client: &Client, options: &Options, group: &str) -> Result<Offsets, Stop> {
    let partitions = partitions_to_reset(client, options, group).await?;
    check_partitions(client, &partitions).await?;
    let prepared = prepare(client, options, group, &partitions).await?;
    if options.has("execute") && !options.has("dry-run") {
        groups::commit(client, group, &prepared).await?;
    }
    Ok(prepared)
}

async fn partitions_to_reset(client: &Client, options: &Options, group: &str) -> Result<Vec<TopicPartition>, Stop> {
    if options.has("all-topics") {
        return Ok(groups::committed(client, group).await.map_err(Error::in_execution)?.into_keys().collect());
    }
    if options.has("topic") {
        return Ok(partitions_of(client, &options.values("topic")).await?);
    }
    if !options.has("from-file") {
        return Err(options.usage("One of the reset scopes should be defined: --all-topics, --topic."));
    }
    Ok(Vec::new())
}

/// `topic`, with all of its partitions, or `topic:0,1`.
pub async fn partitions_of(client: &Client, arguments: &[&str]) -> Result<Vec<TopicPartition>, Error> {
    let (named, whole): (Vec<&str>, Vec<&str>) = arguments.iter().partition(|argument| argument.contains(':'));
    let mut partitions = Vec::new();
    for argument in named {
        partitions.extend(parse(argument)?);
    }
    if !whole.is_empty() {
        let names: Vec<String> = whole.into_iter().map(str::to_owned).collect();
        for topic in topics::describe(client, &names, i32::MAX).await? {
            partitions.extend(
                topic.partitions.iter().map(|partition| TopicPartition::new(topic.name.as_str(), partition.index)),
            );
        }
    }
    Ok(partitions)
}

/// `topic:0,1`.
pub fn parse(argument: &str) -> Result<Vec<TopicPartition>, Error> {
    let parts: Vec<&str> = argument.split(':').collect();
    let [topic, partitions] = parts[..] else {
        return Err(Error::illegal_argument(format!(
            "Invalid topic arg '{argument}', expected topic name and partitions"
        )));
    };
    let parse = |partition: &str| match partition.parse() {
        Ok(number) => Ok(TopicPartition::new(topic, number)),
        Err(_) => Err(Error::illegal_argument(format!(
            "Invalid partition '{partition}' specified in topic arg '{argument}''"
        ))),
    };
    partitions.split(',').map(parse).collect()
}

async fn check_partitions(client: &Client, partitions: &[TopicPartition]) -> Result<(), Error> {
    let mut names: Vec<String> = partitions.iter().map(|partition| partition.topic.to_string()).collect();
    names.sort();
    names.dedup();
    if names.is_empty() {
        return Ok(());
    }
    let described = topics::describe(client, &names, i32::MAX).await.map_err(Error::in_execution)?;
    let leader_of = |wanted: &TopicPartition| {
        let topic = described.iter().find(|topic| *topic.name == *wanted.topic)?;
        Some(topic.partitions.iter().find(|partition| partition.index == wanted.partition.0)?.leader)
    };
    let named = |these: Vec<&TopicPartition>| these.iter().map(|these| these.to_string()).collect::<Vec<_>>().join(",");
    let unknown: Vec<_> = partitions.iter().filter(|partition| leader_of(partition).is_none()).collect();
    if !unknown.is_empty() {
        return Err(Error::of(
            ErrorCode::UnknownTopicOrPartition.code(),
            Some(format!("The partitions \"{}\" do not exist", named(unknown))),
        ));
    }
    let without: Vec<_> = partitions.iter().filter(|partition| leader_of(partition) == Some(None)).collect();
    if !without.is_empty() {
        return Err(Error::of(
            ErrorCode::LeaderNotAvailable.code(),
            Some(format!("The partitions \"{}\" have no leader", named(without))),
        ));
    }
    Ok(())
}

async fn prepare(
    client: &Client,
    options: &Options,
    group: &str,
    partitions: &[TopicPartition],
) -> Result<Offsets, Stop> {
    if let Some(offset) = options.values("to-offset").first() {
        let offset: i64 = offset.parse().map_err(|_| no_number(offset, "to-offset"))?;
        return Ok(
            within_range(client, partitions.iter().map(|partition| (partition.clone(), offset)).collect()).await?
        );
    }
    if options.has("to-earliest") {
        return Ok(at(client, partitions, EARLIEST).await?);
    }
    if options.has("to-latest") {
        return Ok(at(client, partitions, LATEST).await?);
    }
    if let Some(shift) = options.long("shift-by")? {
        let committed = groups::committed(client, group).await.map_err(Error::in_execution)?;
        let shifted = partitions.iter().map(|partition| match committed.get(partition) {
            Some(current) => Ok((partition.clone(), current.offset.saturating_add(shift))),
            None => Err(Error::illegal_argument(format!(
                "Cannot shift offset for partition {partition} since there is no current committed offset"
            ))),
        });
        return Ok(within_range(client, shifted.collect::<Result<_, Error>>()?).await?);
    }
    if let Some(text) = options.values("to-datetime").first() {
        return Ok(at_time(client, partitions, time::date_time(text).map_err(wrapped)?).await?);
    }
    if let Some(text) = options.value("by-duration")? {
        return Ok(at_time(client, partitions, epoch_ms() - time::duration(text)?).await?);
    }
    if let Some(path) = options.values("from-file").first() {
        let text = json::read_file(path).map_err(wrapped)?;
        let plan = plan(&text, &options.values("group"))?;
        let Some(offsets) = plan.get(group) else {
            print_error(&format!("No reset plan for group {group} found"));
            return Ok(Offsets::new());
        };
        return Ok(within_range(client, offsets.clone()).await?);
    }
    if options.has("to-current") {
        let committed = groups::committed(client, group).await.map_err(Error::in_execution)?;
        let (known, unknown): (Vec<_>, Vec<_>) =
            partitions.iter().cloned().partition(|partition| committed.contains_key(partition));
        let mut offsets = at(client, &unknown, LATEST).await?;
        offsets.extend(known.into_iter().map(|partition| {
            let offset = committed[&partition].offset;
            (partition, offset)
        }));
        return Ok(offsets);
    }
    let scenarios: Vec<String> = SCENARIOS.iter().map(|name| format!("[{name}]")).collect();
    Err(options
        .usage(format!("Option '[reset-offsets]' requires one of the following scenarios: [{}]", scenarios.join(", "))))
}

async fn at(client: &Client, partitions: &[TopicPartition], timestamp: i64) -> Result<Offsets, Error> {
    let wanted = partitions.iter().map(|partition| (partition.clone(), timestamp)).collect();
    let listed = offsets::list(client, &wanted, false).await.into_iter();
    listed.map(|(partition, listed)| Ok((partition, listed.map_err(Error::in_execution)?.offset))).collect()
}

/// The first offset at a time or later, or the end.
async fn at_time(client: &Client, partitions: &[TopicPartition], timestamp: i64) -> Result<Offsets, Error> {
    let mut found = at(client, partitions, timestamp).await?;
    let mut empty: Vec<TopicPartition> =
        found.iter().filter(|(_, offset)| **offset < 0).map(|(partition, _)| partition.clone()).collect();
    hash_map_order(&mut empty);
    for partition in &empty {
        say!(
            "\nWarn: Partition {} from topic {} is empty. Falling back to latest known offset.",
            partition.partition.0,
            &*partition.topic
        );
    }
    found.extend(at(client, &empty, LATEST).await?);
    Ok(found)
}

/// Offsets that lie outside of the log become its start or its end.
async fn within_range(client: &Client, requested: Offsets) -> Result<Offsets, Error> {
    let partitions: Vec<TopicPartition> = requested.keys().cloned().collect();
    let (starts, ends) = (at(client, &partitions, EARLIEST).await?, at(client, &partitions, LATEST).await?);
    let warn = |offset: i64, what: &str, partition: &TopicPartition, bound: i64| {
        log::write(
            Level::Warn,
            "org.apache.kafka.tools.OffsetsUtils",
            format_args!(
                "New offset ({offset}) is {what} offset for topic partition {partition}. Value will be set to {bound}"
            ),
        );
        bound
    };
    Ok(requested
        .into_iter()
        .map(|(partition, offset)| {
            let (start, end) = (starts[&partition], ends[&partition]);
            let offset = if offset > end {
                warn(offset, "higher than latest", &partition, end)
            } else if offset < start {
                warn(offset, "lower than earliest", &partition, start)
            } else {
                offset
            };
            (partition, offset)
        })
        .collect())
}

/// A file that `--export` has made: `topic,partition,offset`, with the group before it unless one group is asked for and
/// the first line says a partition's number at its place. Numbers that are missing at the end are 0.
fn plan(text: &str, groups: &[&str]) -> Result<BTreeMap<String, Offsets>, Error> {
    let mut plan: BTreeMap<String, Offsets> = BTreeMap::new();
    let lines: Vec<(&str, Vec<String>)> =
        text.lines().filter(|line| !line.is_empty()).map(|line| (line, fields(line))).collect();
    let without_group = lines.first().is_some_and(|(_, fields)| {
        let is_number = |at: usize| fields.get(at).is_none_or(|field| field.parse::<i64>().is_ok());
        fields.len() <= 3 && is_number(1) && is_number(2)
    });
    for (line, fields) in &lines {
        let wrong = || fault(&format!("not a line of a reset plan: {line}"));
        let (group, rest) = match (&fields[..], groups) {
            (rest, [group]) if without_group => ((*group).to_owned(), rest),
            ([group, rest @ ..], _) => (group.clone(), rest),
            _ => return Err(wrong()),
        };
        if rest.is_empty() || rest.len() > 3 {
            return Err(wrong());
        }
        let number = |at: usize| rest.get(at).map_or(Ok(0), |field| field.parse::<i64>().map_err(|_| wrong()));
        let partition = i32::try_from(number(1)?).map_err(|_| wrong())?;
        plan.entry(group).or_default().insert(TopicPartition::new(rest[0].as_str(), partition), number(2)?);
    }
    Ok(plan)
}

/// Of a line of CSV, where a field may stand in quotes.
fn fields(line: &str) -> Vec<String> {
    let (mut fields, mut field, mut quoted) = (Vec::new(), String::new(), false);
    let mut letters = line.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '"' if quoted && letters.next_if_eq(&'"').is_some() => field.push('"'),
            '"' => quoted = !quoted,
            ',' if !quoted => fields.push(std::mem::take(&mut field)),
            letter => field.push(letter),
        }
    }
    fields.push(field);
    fields.iter().map(|field| field.trim().to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn topics_with_partitions() {
        assert_eq!(parse("t:0,2").unwrap(), [TopicPartition::new("t", 0), TopicPartition::new("t", 2)]);
        assert_eq!(parse("t:x").unwrap_err().message(), "Invalid partition 'x' specified in topic arg 't:x''");
        assert_eq!(
            parse("t:1:2").unwrap_err().message(),
            "Invalid topic arg 't:1:2', expected topic name and partitions"
        );
    }

    #[test]
    fn quotes_stand_where_kafka_has_them() {
        assert_eq!(quoted("a-b.c_d"), "a-b.c_d");
        assert_eq!(quoted("a,b"), "\"a,b\"");
        assert_eq!(quoted("a\"b"), "\"a\"\"b\"");
        assert_eq!(quoted(&"x".repeat(25)), format!("\"{}\"", "x".repeat(25)));
    }

    #[test]
    fn plans_are_what_was_exported() {
        let t = TopicPartition::new("a,\"b", 1);
        let of_one = plan("\"a,\"\"b\",1,7\n", &["g"]).unwrap();
        assert_eq!(of_one["g"], Offsets::from([(t.clone(), 7)]));
        let of_many = plan("\"g\",\"a,\"\"b\",1,7\nh,t,0,1", &["g", "h"]).unwrap();
        assert_eq!(of_many["g"], Offsets::from([(t, 7)]));
        assert_eq!(of_many["h"], Offsets::from([(TopicPartition::new("t", 0), 1)]));
        assert_eq!(plan("t,2", &["g"]).unwrap()["g"], Offsets::from([(TopicPartition::new("t", 2), 0)]));
        assert!(plan("t,0,1\nt,x,1", &["g"]).is_err());
        assert!(plan("t,0,x", &["g"]).is_err());
    }
}
