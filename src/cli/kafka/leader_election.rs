//! `kafka-leader-election`: elects leaders of partitions anew.

use std::collections::BTreeMap;

use kafka_protocol::messages::ElectLeadersRequest;
use kafka_protocol::messages::elect_leaders_request::TopicPartitions;
use serde_json::Value;

use super::options::{Kind, Options, Spec, cannot_parse};
use super::{Stop, conclude, json, say, uncaught};
use crate::client::partitions::hash_map_order;
use crate::client::text;
use crate::client::{Client, ClientConfig, Error, Target, block_on, config};
use crate::protocol::ErrorCode;
use crate::types::TopicPartition;

const ABOUT: &str = "This tool attempts to elect a new leader for a set of topic partitions. The type of elections supported are preferred replicas and unclean replicas.";
const FAILED: &str = "org.apache.kafka.tools.AdminCommandFailedException";

const OPTIONS: &[Spec] = &[
    Spec::with_argument(
        "bootstrap-server",
        "host:port",
        "The brokers to connect to, with commas between them. REQUIRED.",
    ),
    Spec::with_argument("admin.config", "config file", "(DEPRECATED) As --command-config."),
    Spec::with_argument("command-config", "Config file", "A properties file with settings of the client."),
    Spec::with_argument(
        "path-to-json-file",
        "Path to JSON file",
        "A JSON file with partitions:\n{\"partitions\":\n\t[{\"topic\": \"foo\", \"partition\": 1}]\n}\nNot with --all-topic-partitions or --topic.",
    ),
    Spec::with_argument("topic", "topic name", "The topic. Not with --path-to-json-file or --all-topic-partitions."),
    Spec::with_argument("partition", "partition id", "The partition. REQUIRED with --topic.").of(Kind::Integer),
    Spec::flag(
        "all-topic-partitions",
        "All partitions that such an election can be held for. Not with --topic or --path-to-json-file.",
    ),
    Spec::with_argument(
        "election-type",
        "election type",
        "\"preferred\": the first replica is to lead, where it does not. \"unclean\": a replica that is not in sync may lead, where nobody does. REQUIRED.",
    ).of(Kind::OneOf("[PREFERRED,UNCLEAN]")),
];

pub fn run(words: &[String]) -> u8 {
    let ended = Options::parse(OPTIONS, words).map_err(Stop::from).and_then(|options| {
        options.help_or_version(ABOUT)?;
        check(&options)?;
        Ok(act(&options)?)
    });
    conclude(ended, uncaught)
}

fn failed(message: impl Into<String>) -> Error {
    Error::new(FAILED, message)
}

fn check(options: &Options) -> Result<(), Stop> {
    let missing: Vec<&str> =
        ["bootstrap-server", "election-type"].into_iter().filter(|name| !options.has(name)).collect();
    if !missing.is_empty() {
        return Err(failed(format!("Missing required option(s): {}", missing.join(", "))).into());
    }
    options.exclude("admin.config", &["command-config"])?;
    let exclusive = ["topic", "all-topic-partitions", "path-to-json-file"];
    if exclusive.iter().filter(|name| options.has(name)).count() != 1 {
        let message = format!("One and only one of the following options is required: {}", exclusive.join(", "));
        return Err(failed(message).into());
    }
    match (options.has("topic"), options.has("partition")) {
        (true, false) => Err(failed("Missing required option(s): partition").into()),
        (false, true) => Err(failed("Option partition is only allowed if topic is used").into()),
        _ => Ok(()),
    }
}

fn act(options: &Options) -> Result<(), Error> {
    let kind = options.text("election-type")?;
    let (kind, name) = match kind.to_lowercase().as_str() {
        "preferred" => (0, "PREFERRED"),
        "unclean" => (1, "UNCLEAN"),
        _ => {
            let reason = format!("Value [{kind}] is not one of [[PREFERRED,UNCLEAN]]");
            return Err(cannot_parse(kind, "election-type")
                .caused_by(Error::new("joptsimple.ValueConversionException", reason)));
        }
    };
    let partitions = if let Some(path) = options.value("path-to-json-file")? {
        Some(read(&json::read_file(path)?)?)
    } else if let (Some(topic), Some(partition)) = (options.value("topic")?, options.integer("partition")?) {
        Some(vec![TopicPartition::new(topic, partition)])
    } else {
        None
    };
    let mut file = options.value("command-config")?;
    if options.has("admin.config") {
        say!(
            "Option --admin.config has been deprecated and will be removed in a future version. Use --command-config instead."
        );
        file = options.value("admin.config")?;
    }
    let mut given = config::read_properties_of(file)?;
    given.insert(config::BOOTSTRAP_SERVERS.to_owned(), options.text("bootstrap-server")?.to_owned());
    for (key, ms) in [("default.api.timeout.ms", "30000"), ("request.timeout.ms", "15000")] {
        given.entry(key.to_owned()).or_insert_with(|| ms.to_owned());
    }
    let client = Client::new(ClientConfig::admin(given)?);
    block_on(elect(&client, kind, name, partitions))
}

fn read(file: &str) -> Result<Vec<TopicPartition>, Error> {
    let value: Value = serde_json::from_str(file).map_err(|_| json::fault("Replica election data is empty"))?;
    let partitions =
        value.get("partitions").ok_or_else(|| json::fault("Replica election data is missing \"partitions\" field"))?;
    let mut found = Vec::new();
    let mut duplicates = Vec::new();
    for entry in json::array(partitions)? {
        let partition = TopicPartition::new(json::text(entry, "topic")?, json::integer(entry, "partition")?);
        if !found.contains(&partition) {
            found.push(partition);
        } else if !duplicates.contains(&partition) {
            duplicates.push(partition);
        }
    }
    if duplicates.is_empty() {
        return Ok(found);
    }
    let duplicates: Vec<String> = duplicates.iter().map(ToString::to_string).collect();
    Err(json::fault(format!("Replica election data contains duplicate partitions: [{}]", duplicates.join(", "))))
}

async fn elect(client: &Client, kind: i8, name: &str, partitions: Option<Vec<TopicPartition>>) -> Result<(), Error> {
    let topics = partitions.map(|partitions| {
        let mut topics: BTreeMap<&str, Vec<i32>> = BTreeMap::new();
        partitions.iter().for_each(|partition| topics.entry(&partition.topic).or_default().push(partition.partition.0));
        let each =
            |(topic, partitions)| TopicPartitions::default().with_topic(text(topic).into()).with_partitions(partitions);
        topics.into_iter().map(each).collect()
    });
    let mut request = ElectLeadersRequest::default()
        .with_topic_partitions(topics)
        .with_timeout_ms(client.config.request_timeout_ms());
    let answered = async {
        let controller = client.connection(&Target::Controller).await?;
        // v1 knows kinds of elections.
        if controller.versions.common::<ElectLeadersRequest>(i16::MAX)? >= 1 {
            request.election_type = kind;
        } else if kind != 0 {
            return Err(Error::unsupported_version("API Version 0 only supports PREFERRED election type"));
        }
        client
            .retry("electLeaders", async || {
                let response = client.send(&Target::Controller, &request).await?;
                Error::check(response.error_code, None::<String>)?;
                Ok(response.replica_election_results)
            })
            .await
    };
    let results = answered.await.map_err(|error| {
        let told = |message: &str| {
            say!("{message}");
            failed(message)
        };
        match error.code {
            Some(ErrorCode::RequestTimedOut) => told("Timeout waiting for election results").caused_by(error),
            Some(ErrorCode::ClusterAuthorizationFailed) => told("Not authorized to perform leader election"),
            _ => {
                let cause = error.in_execution();
                Error::new("java.lang.RuntimeException", cause.to_string()).caused_by(cause)
            }
        }
    })?;
    let (mut succeeded, mut needless, mut failures) = (Vec::new(), Vec::new(), BTreeMap::new());
    for topic in results {
        for result in topic.partition_result {
            let partition = TopicPartition::new(topic.topic.as_str(), result.partition_id);
            match Error::check(result.error_code, result.error_message.as_deref()) {
                Ok(()) => succeeded.push(partition),
                Err(error) if error.is(ErrorCode::ElectionNotNeeded) => needless.push(partition),
                Err(error) => drop(failures.insert(partition, error)),
            }
        }
    }
    let list = |mut partitions: Vec<TopicPartition>| {
        hash_map_order(&mut partitions);
        partitions.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
    };
    if !succeeded.is_empty() {
        say!("Successfully completed leader election ({name}) for partitions {}", list(succeeded));
    }
    if !needless.is_empty() {
        say!("Valid replica already elected for partitions {}", list(needless));
    }
    if failures.is_empty() {
        return Ok(());
    }
    let mut order: Vec<TopicPartition> = failures.keys().cloned().collect();
    hash_map_order(&mut order);
    for partition in &order {
        say!("Error completing leader election ({name}) for partition: {partition}: {}", failures[partition]);
    }
    Err(failed(format!("{} replica(s) could not be elected", order.len())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(line: &str) -> String {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        match check(&Options::parse(OPTIONS, &words).unwrap()).unwrap_err() {
            Stop::Failed(error) => error.message().to_owned(),
            stop => panic!("{stop:?}"),
        }
    }

    #[test]
    fn mistakes_are_told_as_kafka_tells_them() {
        assert_eq!(message("--topic t"), "Missing required option(s): bootstrap-server, election-type");
        let server = "--bootstrap-server a:1 --election-type preferred";
        assert_eq!(
            message(server),
            "One and only one of the following options is required: topic, all-topic-partitions, path-to-json-file"
        );
        assert_eq!(message(&format!("{server} --topic t")), "Missing required option(s): partition");
        assert_eq!(
            message(&format!("{server} --all-topic-partitions --partition 1")),
            "Option partition is only allowed if topic is used"
        );
    }

    #[test]
    fn partitions_from_a_file() {
        let file = r#"{"partitions": [{"topic": "a", "partition": 1}, {"topic": "a", "partition": 2}]}"#;
        assert_eq!(read(file).unwrap(), [TopicPartition::new("a", 1), TopicPartition::new("a", 2)]);
        let twice = r#"{"partitions": [{"topic": "a", "partition": 1}, {"topic": "a", "partition": 1}]}"#;
        assert_eq!(read(twice).unwrap_err().message(), "Replica election data contains duplicate partitions: [a-1]");
        assert!(read("{}").is_err() && read("").is_err());
    }
}
