//! `kafka-delete-records`: takes the beginning of partitions away.

use std::collections::BTreeMap;

use kafka_protocol::messages::DeleteRecordsRequest;
use kafka_protocol::messages::delete_records_request::{DeleteRecordsPartition, DeleteRecordsTopic};
use serde_json::Value;

use super::options::{Options, Spec};
use super::{Stop, conclude, json, say, uncaught};
use crate::client::partitions::{at_leaders, hash_map_order};
use crate::client::text;
use crate::client::{Client, Error, Target, block_on};
use crate::types::TopicPartition;

const OPTIONS: &[Spec] = &[
    Spec::with_argument(
        "bootstrap-server",
        "server(s) to use for bootstrapping",
        "REQUIRED: The broker to connect to.",
    ),
    Spec::with_argument(
        "offset-json-file",
        "Offset json file path",
        "REQUIRED: A JSON file with an offset for each partition:\n{\"partitions\":\n  [{\"topic\": \"foo\", \"partition\": 1, \"offset\": 1}],\n \"version\":1\n}",
    ),
    Spec::with_argument(
        "command-config",
        "command config property file path",
        "A properties file with settings of the client.",
    ),
];

pub fn run(words: &[String]) -> u8 {
    let ended = Options::parse(OPTIONS, words).map_err(Stop::from).and_then(|options| {
        options.help_or_version(
            "This tool helps to delete records of the given partitions down to the specified offset.",
        )?;
        options.require(&["bootstrap-server", "offset-json-file"])?;
        let client = Client::new(options.client_config()?);
        let file = json::read_file(options.text("offset-json-file")?)?;
        Ok(block_on(delete(&client, &read(&file)?))?)
    });
    conclude(ended, uncaught)
}

/// The offset before which each partition is to end.
fn read(file: &str) -> Result<BTreeMap<TopicPartition, i64>, Error> {
    let value: Value = serde_json::from_str(file).map_err(|_| json::fault("The input string is not a valid JSON"))?;
    json::version_1(&value)?;
    let partitions = value.get("partitions").ok_or_else(|| json::fault("Missing partitions field"))?;
    let mut offsets = BTreeMap::new();
    let mut duplicates = Vec::new();
    for entry in json::array(partitions)? {
        let partition = TopicPartition::new(json::text(entry, "topic")?, json::integer(entry, "partition")?);
        if offsets.insert(partition.clone(), json::long(entry, "offset")?).is_some() && !duplicates.contains(&partition)
        {
            duplicates.push(partition);
        }
    }
    if duplicates.is_empty() {
        return Ok(offsets);
    }
    hash_map_order(&mut duplicates);
    let duplicates: Vec<String> = duplicates.iter().map(ToString::to_string).collect();
    Err(Error::new(
        "org.apache.kafka.tools.AdminCommandFailedException",
        format!("Offset json file contains duplicate topic partitions: {}", duplicates.join(",")),
    ))
}

async fn delete(client: &Client, offsets: &BTreeMap<TopicPartition, i64>) -> Result<(), Error> {
    say!("Executing records delete operation");
    let mut partitions: Vec<TopicPartition> = offsets.keys().cloned().collect();
    hash_map_order(&mut partitions);
    let mut outcomes = at_leaders(client, "deleteRecords", &partitions, async |leader, partitions| {
        let mut topics: BTreeMap<&str, Vec<DeleteRecordsPartition>> = BTreeMap::new();
        for partition in partitions {
            let entry = DeleteRecordsPartition::default()
                .with_partition_index(partition.partition.0)
                .with_offset(offsets[partition]);
            topics.entry(&partition.topic).or_default().push(entry);
        }
        let topics = topics.into_iter().map(|(topic, partitions)| {
            DeleteRecordsTopic::default().with_name(text(topic).into()).with_partitions(partitions)
        });
        let request = DeleteRecordsRequest::default()
            .with_topics(topics.collect())
            .with_timeout_ms(client.config.request_timeout_ms());
        let response = client.send(&Target::Node(leader), &request).await?;
        let mut answers = Vec::new();
        for topic in response.topics {
            for partition in topic.partitions {
                let outcome = Error::check(partition.error_code, None::<String>).map(|()| partition.low_watermark);
                let name = TopicPartition::new(topic.name.as_str(), partition.partition_index);
                if let Err(error) = &outcome
                    && !error.is_retriable()
                {
                    tell_unexpected(client, &name, error);
                }
                answers.push((name, outcome));
            }
        }
        Ok(answers)
    })
    .await;
    say!("Records delete operation completed:");
    for partition in partitions {
        match outcomes.remove(&partition) {
            Some(Ok(low_watermark)) => say!("partition: {partition}\tlow_watermark: {low_watermark}"),
            Some(Err(error)) => say!("partition: {partition}\terror: {}", error.in_execution().message()),
            None => {}
        }
    }
    Ok(())
}

fn tell_unexpected(client: &Client, partition: &TopicPartition, error: &Error) {
    let name = error.code_name();
    client.log_failure(
        "DeleteRecordsHandler",
        format_args!("DeleteRecords request for topic partition {partition} failed due to an unexpected error {name}"),
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_says_each_partition_once() {
        let offsets = read(r#"{"partitions": [{"topic": "a", "partition": 1, "offset": 5}], "version": 1}"#).unwrap();
        assert_eq!(offsets, BTreeMap::from([(TopicPartition::new("a", 1), 5)]));
        let message = |file| read(file).unwrap_err().message().to_owned();
        assert_eq!(message("{"), "The input string is not a valid JSON");
        assert_eq!(message("{}"), "Missing partitions field");
        assert_eq!(message(r#"{"version": 2}"#), "Not supported version field value 2");
        assert_eq!(
            message(
                r#"{"partitions": [{"topic": "a", "partition": 1, "offset": 5}, {"topic": "a", "partition": 1, "offset": 6}]}"#
            ),
            "Offset json file contains duplicate topic partitions: a-1"
        );
        assert!(read(r#"{"partitions": [{"topic": 1}]}"#).is_err());
    }
}
