//! `kafka-get-offsets`: the offsets of partitions, first, last, or at a time.

use std::collections::BTreeMap;

use super::argparse::{TERSE, terse};
use super::options::{Options, Spec};
use super::topic_filter::TopicFilter;
use super::{Stop, complain, conclude, say};
use crate::client::{Client, Error, block_on, offsets, topics};
use crate::config::java;
use crate::types::TopicPartition;

const ABOUT: &str = "An interactive shell for getting topic-partition offsets.";

const OPTIONS: &[Spec] = &[
    Spec::with_argument("bootstrap-server", "HOST1:PORT1,...,HOST3:PORT3", "REQUIRED. The servers to connect to."),
    Spec::with_argument("topic-partitions", "topic1:1,topic2:0-3,topic3,topic4:5-,topic5:-3", "The partitions, as patterns with commas between them: a regular expression for topics, then a colon and a number, a range without its end, or nothing for all."),
    Spec::with_argument("topic", "topic", "The topic; a regular expression. Without, all topics. Not with --topic-partitions."),
    Spec::with_argument("partitions", "partition ids", "The numbers of the partitions, with commas between them. Without, all. Not with --topic-partitions."),
    Spec::with_argument("time", "<timestamp> / -1 or latest / -2 or earliest / -3 or max-timestamp / -4 or earliest-local / -5 or latest-tiered / -6 or earliest-pending-upload", "The time: the offset is that of the first record that is not older. There is none if no record is so late.").default(&["latest"]),
    Spec::with_argument("command-config", "config file", "A properties file with settings of the client."),
    Spec::flag("exclude-internal-topics", "Without the topics that Kafka keeps for itself."),
];

pub fn run(words: &[String]) -> u8 {
    let ended = read(words).and_then(|options| Ok(block_on(get(&options))?));
    conclude(ended, |error| {
        complain!("Error occurred: {}", error.message());
        if error.class != TERSE {
            complain!("{}\n", error.trace());
        }
    })
}

fn read(words: &[String]) -> Result<Options, Stop> {
    let options = Options::parse(OPTIONS, words).map_err(|error| terse(error.message()))?;
    options.help_or_version(ABOUT)?;
    options.require(&["bootstrap-server"])?;
    let servers = options.text("bootstrap-server")?;
    if servers.trim().is_empty() {
        return Err(options.usage("Error while validating the bootstrap address\n"));
    }
    let valid = |server: &str| server.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u32>().is_ok());
    if !java::split(servers, ',').into_iter().all(valid) {
        return Err(options.usage("Please provide valid host:port like host1:9091,host2:9092\n"));
    }
    Ok(options)
}

async fn get(options: &Options) -> Result<(), Error> {
    if options.has("topic-partitions") && (options.has("topic") || options.has("partitions")) {
        return Err(terse("--topic-partitions cannot be used with --topic or --partitions"));
    }
    let timestamp = timestamp(options.text("time")?)?;
    let filter = match options.value("topic-partitions")? {
        Some(patterns) => java::split(patterns, ',').into_iter().map(rule).collect::<Result<Vec<_>, _>>()?,
        None => vec![Rule {
            topics: TopicFilter::new(options.value("topic")?.unwrap_or(".*"))?,
            partitions: Partitions::Listed(listed(options.text("partitions")?)?),
        }],
    };
    let mut config = options.client_config()?;
    config.client_id = "GetOffsetShell".to_owned();
    let client = Client::new(config);
    let names = topics::list(&client, !options.has("exclude-internal-topics")).await.map_err(Error::in_execution)?;
    let names: Vec<String> = names.into_iter().map(|topic| topic.name).collect();
    let names: Vec<String> =
        names.into_iter().filter(|name| filter.iter().any(|rule| rule.topics.matches(name))).collect();
    let described = match names.is_empty() {
        true => Vec::new(),
        false => topics::describe(&client, &names, 2000).await.map_err(Error::in_execution)?,
    };
    let mut wanted = BTreeMap::new();
    for topic in &described {
        for partition in &topic.partitions {
            if filter.iter().any(|rule| rule.topics.matches(&topic.name) && rule.partitions.contain(partition.index)) {
                wanted.insert(TopicPartition::new(topic.name.as_str(), partition.index), timestamp);
            }
        }
    }
    if wanted.is_empty() {
        return Err(terse("Could not match any topic-partitions with the specified filters"));
    }
    let found = offsets::list(&client, &wanted, false).await;
    let mut lines: Vec<(String, String)> = Vec::new();
    for (partition, listed) in found {
        match listed {
            Ok(listed) if listed.offset >= 0 => {
                lines.push((
                    partition.to_string(),
                    format!("{}:{}:{}", partition.topic, partition.partition, listed.offset),
                ));
            }
            Ok(_) => {}
            Err(error) => complain!(
                "Skip getting offsets for topic-partition {partition} due to error: {}",
                error.in_execution().message()
            ),
        }
    }
    lines.sort();
    lines.iter().for_each(|(_, line)| say!("{line}"));
    Ok(())
}

/// The time that is asked for, as the protocol has it.
fn timestamp(text: &str) -> Result<i64, Error> {
    Ok(match text {
        "earliest" => offsets::EARLIEST,
        "latest" => offsets::LATEST,
        "max-timestamp" => offsets::MAX_TIMESTAMP,
        "earliest-local" => offsets::EARLIEST_LOCAL,
        "latest-tiered" => offsets::LATEST_TIERED,
        "earliest-pending-upload" => offsets::EARLIEST_PENDING_UPLOAD,
        number => java::parse_integer(number).ok_or_else(|| {
            terse(format!(
                "Malformed time argument {number}. Please use -1 or latest / -2 or earliest / -3 or max-timestamp / -4 or earliest-local / -5 or latest-tiered / -6 or earliest-pending-upload, or a specified long format timestamp"
            ))
        })?,
    })
}

fn listed(text: &str) -> Result<Vec<i32>, Error> {
    if text.is_empty() {
        return Ok(Vec::new());
    }
    let numbers: Option<Vec<i32>> = java::split(text, ',').into_iter().map(java::parse_integer).collect();
    numbers.ok_or_else(|| {
        terse(format!("--partitions expects a comma separated list of numeric partition ids, but received: {text}"))
    })
}

/// Which partitions of which topics.
struct Rule {
    topics: TopicFilter,
    partitions: Partitions,
}

enum Partitions {
    /// None: all.
    Listed(Vec<i32>),
    /// Without the last.
    Range(i32, i32),
}

impl Partitions {
    fn contain(&self, partition: i32) -> bool {
        match self {
            Partitions::Listed(listed) => listed.is_empty() || listed.contains(&partition),
            Partitions::Range(first, end) => (*first..*end).contains(&partition),
        }
    }
}

/// `topic:1`, `topic:1-3`, `topic:1-`, `topic:-3`, `topic`, `:1`.
fn rule(text: &str) -> Result<Rule, Error> {
    let invalid = || {
        let cause = terse(format!("Invalid rule specification: {text}"));
        Error::new("java.lang.RuntimeException", cause.to_string()).caused_by(cause)
    };
    let (topic, partitions) = match text.split_once(':') {
        Some((topic, partitions)) => (topic, partitions),
        None => (text, ""),
    };
    let number = |text: &str, missing: i32| match text {
        "" => Ok(missing),
        digits if digits.bytes().all(|byte| byte.is_ascii_digit()) => digits
            .parse()
            .map_err(|_| Error::new("java.lang.NumberFormatException", format!("For input string: \"{digits}\""))),
        _ => Err(invalid()),
    };
    let partitions = match partitions.split_once('-') {
        Some((first, end)) => Partitions::Range(number(first, 0)?, number(end, i32::MAX)?),
        None if partitions.is_empty() => Partitions::Range(0, i32::MAX),
        None => Partitions::Listed(vec![number(partitions, 0)?]),
    };
    Ok(Rule { topics: TopicFilter::new(if topic.is_empty() { ".*" } else { topic })?, partitions })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_choose_partitions() {
        let chosen =
            |text: &str| (0..6).filter(|&number| rule(text).unwrap().partitions.contain(number)).collect::<Vec<_>>();
        assert_eq!(chosen("t:1"), [1]);
        assert_eq!(chosen("t:1-3"), [1, 2]);
        assert_eq!(chosen("t:4-"), [4, 5]);
        assert_eq!(chosen(":-2"), [0, 1]);
        assert_eq!(chosen("t"), [0, 1, 2, 3, 4, 5]);
        assert!(rule("t.*:1").unwrap().topics.matches("tx") && rule(":1").unwrap().topics.matches("x"));
        assert!(rule("t:x").is_err() && rule("t:1:2").is_err());
    }

    #[test]
    fn times_have_names() {
        assert_eq!(timestamp("max-timestamp").unwrap(), -3);
        assert_eq!(timestamp("1500000000000").unwrap(), 1_500_000_000_000);
        assert!(timestamp("now").unwrap_err().message().starts_with("Malformed time argument now. Please use -1"));
    }
}
