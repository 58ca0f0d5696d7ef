//! `kafka-log-dirs`: what brokers have in their log directories.

use kafka_protocol::messages::DescribeLogDirsRequest;
use kafka_protocol::messages::describe_log_dirs_response::DescribeLogDirsResult;
use serde_json::Value;

use super::argparse::{TERSE, terse};
use super::options::{Options, Spec};
use super::{Stop, complain, conclude, json, say, uncaught};
use crate::client::error::exception_class;
use crate::client::partitions::hash_map_order;
use crate::client::{Client, Error, Target, block_on};
use crate::config::java;
use crate::protocol::ErrorCode;
use crate::types::TopicPartition;

const OPTIONS: &[Spec] = &[
    Spec::with_argument(
        "bootstrap-server",
        "The server(s) to use for bootstrapping",
        "REQUIRED: The broker to connect to.",
    ),
    Spec::with_argument(
        "command-config",
        "Admin client property file",
        "A properties file with settings of the client.",
    ),
    Spec::flag("describe", "Describe the log directories of brokers."),
    Spec::with_argument("topic-list", "Topic list", "Only these topics, with commas between them.").default(&[""]),
    Spec::with_argument("broker-list", "Broker list", "Only these brokers, with commas between them.").default(&[""]),
];

pub fn run(words: &[String]) -> u8 {
    let ended = Options::parse(OPTIONS, words).map_err(Stop::from).and_then(|options| {
        options.help_or_version("This tool helps to query log directory usage on the specified brokers.")?;
        options.require(&["bootstrap-server", "describe"])?;
        let mut config = options.client_config()?;
        if config.get("client.id").is_none() {
            config.client_id = "log-dirs-tool".to_owned();
        }
        Ok(block_on(describe(&Client::new(config), &options))?)
    });
    conclude(ended, |error| if error.class == TERSE { complain!("{}", error.message()) } else { uncaught(error) })
}

async fn describe(client: &Client, options: &Options) -> Result<(), Error> {
    let topics: Vec<&str> = options.text("topic-list")?.split(',').filter(|topic| !topic.is_empty()).collect();
    let live: Vec<i32> = client.nodes().await.map_err(Error::in_execution)?.iter().map(|node| node.id).collect();
    let number = |text: &str| {
        let fault = || Error::new("java.lang.NumberFormatException", format!("For input string: \"{text}\""));
        java::parse_integer::<i32>(text).ok_or_else(fault)
    };
    let wanted = options.text("broker-list")?.split(',').filter(|id| !id.is_empty());
    let mut wanted = wanted.map(number).collect::<Result<Vec<i32>, Error>>()?;
    wanted.sort_unstable();
    wanted.dedup();
    let list = |ids: &[i32]| ids.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
    let strangers: Vec<i32> = wanted.iter().copied().filter(|id| !live.contains(id)).collect();
    if !strangers.is_empty() {
        return Err(terse(format!(
            "ERROR: The given brokers do not exist from --broker-list: {}. Current existent brokers: {}",
            list(&strangers),
            list(&live)
        )));
    }
    let brokers = if wanted.is_empty() { live } else { wanted };
    say!("Querying brokers for log directories information");
    let request = DescribeLogDirsRequest::default().with_topics(None);
    let mut described = Vec::new();
    for &broker in &brokers {
        let response =
            client.call("describeLogDirs", &Target::Node(broker), &request).await.map_err(Error::in_execution)?;
        Error::check(response.error_code, None::<String>).map_err(Error::in_execution)?;
        let mut directories = response.results;
        java::sort_by_hash(&mut directories, 16, |one| java::string_hash(&one.log_dir));
        let directories = directories.iter().map(|directory| print_directory(directory, &topics));
        described.push(json::hash_map([("broker", broker.into()), ("logDirs", directories.collect())]));
    }
    say!("Received log directory information from brokers {}", list(&brokers));
    say!("{}", json::hash_map([("version", 1.into()), ("brokers", Value::Array(described))]));
    Ok(())
}

fn print_directory(directory: &DescribeLogDirsResult, topics: &[&str]) -> Value {
    let error = ErrorCode::from_code(directory.error_code).unwrap_or(ErrorCode::UnknownServerError);
    let error = if error.is_error() { Value::from(exception_class(error)) } else { Value::Null };
    let mut order = Vec::new();
    let mut entries = std::collections::HashMap::new();
    for topic in directory.topics.iter().filter(|topic| topics.is_empty() || topics.contains(&topic.name.as_str())) {
        for partition in &topic.partitions {
            let name = TopicPartition::new(topic.name.as_str(), partition.partition_index);
            entries.insert(
                name.clone(),
                json::hash_map([
                    ("partition", name.to_string().into()),
                    ("size", partition.partition_size.into()),
                    ("offsetLag", partition.offset_lag.into()),
                    ("isFuture", partition.is_future_key.into()),
                ]),
            );
            order.push(name);
        }
    }
    hash_map_order(&mut order);
    let partitions: Vec<Value> = order.iter().filter_map(|name| entries.remove(name)).collect();
    json::hash_map([("logDir", directory.log_dir.as_str().into()), ("error", error), ("partitions", partitions.into())])
}
