//! A reassignment as a JSON file says it.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{Replica, commas, failed};
use crate::cli::kafka::json;
use crate::client::Error;
use crate::client::partitions::hash_map_order;
use crate::types::TopicPartition;

/// In place of a directory: any.
const ANY: &str = "any";

/// What partitions are to have.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// The replicas of each partition, as they stand in the file.
    pub partitions: Vec<(TopicPartition, Vec<i32>)>,
    /// The directories of replicas that are to be in one.
    pub directories: BTreeMap<Replica, String>,
}

impl Plan {
    pub fn read(file: &str) -> Result<Plan, Error> {
        let value: Value = serde_json::from_str(file)
            .map_err(|error| json::fault(format!("com.fasterxml.jackson.core.JsonParseException: {error}")))?;
        json::version_1(&value)?;
        let mut plan = Plan::default();
        let Some(partitions) = value.get("partitions") else { return Ok(plan) };
        for entry in json::array(partitions)? {
            let partition = TopicPartition::new(json::text(entry, "topic")?, json::integer(entry, "partition")?);
            let replicas = json::integers(entry, "replicas")?;
            let directories = match entry.get("log_dirs") {
                Some(_) => json::texts(entry, "log_dirs")?,
                None => vec![ANY.to_owned(); replicas.len()],
            };
            if replicas.len() != directories.len() {
                return Err(failed(format!(
                    "Size of replicas list {replicas:?} is different from size of log dirs list [{}] for partition {partition}",
                    directories.join(", ")
                )));
            }
            for (&broker, directory) in replicas.iter().zip(directories) {
                if directory != ANY {
                    plan.directories.insert((broker, partition.topic.to_string(), partition.partition.0), directory);
                }
            }
            plan.partitions.push((partition, replicas));
        }
        Ok(plan)
    }

    /// Whether it can be executed at all.
    pub fn check(&self) -> Result<(), Error> {
        if self.partitions.is_empty() {
            return Err(failed("Partition reassignment list cannot be empty"));
        }
        if self.partitions.iter().any(|(_, replicas)| replicas.is_empty()) {
            return Err(failed("Partition replica list cannot be empty"));
        }
        let names: Vec<&TopicPartition> = self.partitions.iter().map(|(partition, _)| partition).collect();
        let twice = duplicates(&names);
        if !twice.is_empty() {
            return Err(failed(format!(
                "Partition reassignment contains duplicate topic partitions: {}",
                commas(twice)
            )));
        }
        let twice: Vec<String> = self
            .partitions
            .iter()
            .map(|(partition, replicas)| (partition, duplicates(replicas)))
            .filter(|(_, twice)| !twice.is_empty())
            .map(|(partition, twice)| format!("{partition} contains multiple entries for {}", commas(twice)))
            .collect();
        if !twice.is_empty() {
            return Err(failed(format!(
                "Partition replica lists may not contain duplicate entries: {}",
                twice.join(". ")
            )));
        }
        Ok(())
    }

    /// The topics, each once, ascending.
    pub fn topics(&self) -> Vec<String> {
        let mut topics: Vec<String> =
            self.partitions.iter().map(|(partition, _)| partition.topic.to_string()).collect();
        topics.sort();
        topics.dedup();
        topics
    }

    /// The partitions, ascending, with commas between them.
    pub fn partitions_text(&self) -> String {
        let mut sorted: Vec<&TopicPartition> = self.partitions.iter().map(|(partition, _)| partition).collect();
        sorted.sort();
        commas(sorted)
    }
}

/// What stands in a list more than once, each once.
pub fn duplicates<T: PartialEq + Clone>(items: &[T]) -> Vec<T> {
    let mut twice: Vec<T> = Vec::new();
    for (at, item) in items.iter().enumerate() {
        if items[..at].contains(item) && !twice.contains(item) {
            twice.push(item.clone());
        }
    }
    twice
}

/// A reassignment as such a file has it.
pub fn text(partitions: &BTreeMap<TopicPartition, Vec<i32>>, directories: &BTreeMap<Replica, String>) -> String {
    let each = |(partition, replicas): (&TopicPartition, &Vec<i32>)| {
        let directory = |&broker: &i32| {
            let replica = (broker, partition.topic.to_string(), partition.partition.0);
            directories.get(&replica).map_or(ANY, String::as_str)
        };
        json!({
            "topic": &*partition.topic,
            "partition": partition.partition.0,
            "replicas": replicas,
            "log_dirs": replicas.iter().map(directory).collect::<Vec<_>>(),
        })
    };
    json!({"version": 1, "partitions": partitions.iter().map(each).collect::<Vec<_>>()}).to_string()
}

/// Topics of a JSON file, `{"topics": [{"topic": "a"}], "version": 1}`.
pub fn read_topics(file: &str) -> Result<Vec<String>, Error> {
    let value: Value = serde_json::from_str(file).map_err(|_| json::fault("The input string is not a valid JSON"))?;
    json::version_1(&value)?;
    match value.get("topics") {
        Some(topics) => json::array(topics)?.iter().map(|entry| Ok(json::text(entry, "topic")?.to_owned())).collect(),
        None => Ok(Vec::new()),
    }
}

/// Partitions in the order of a Java map.
pub fn in_map_order<'p>(partitions: impl Iterator<Item = &'p TopicPartition>) -> Vec<TopicPartition> {
    let mut partitions: Vec<TopicPartition> = partitions.cloned().collect();
    partitions.sort();
    hash_map_order(&mut partitions);
    partitions
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(file: &str) -> String {
        Plan::read(file).and_then(|plan| plan.check()).unwrap_err().message().to_owned()
    }

    #[test]
    fn files_are_read_and_written() {
        let file =
            r#"{"version":1,"partitions":[{"topic":"a","partition":0,"replicas":[1,2],"log_dirs":["any","/d"]}]}"#;
        let plan = Plan::read(file).unwrap();
        assert_eq!(plan.partitions, [(TopicPartition::new("a", 0), vec![1, 2])]);
        assert_eq!(plan.directories, BTreeMap::from([((2, "a".to_owned(), 0), "/d".to_owned())]));
        assert_eq!(text(&plan.partitions.iter().cloned().collect(), &plan.directories), file);
        assert!(plan.check().is_ok());
        assert_eq!(read_topics(r#"{"topics": [{"topic": "a"}]}"#).unwrap(), ["a"]);
    }

    #[test]
    fn mistakes_are_told_as_kafka_tells_them() {
        assert_eq!(message("{}"), "Partition reassignment list cannot be empty");
        assert_eq!(message(r#"{"version": 7}"#), "Not supported version field value 7");
        let partition = |replicas: &str| format!(r#"{{"topic":"a","partition":0,"replicas":{replicas}}}"#);
        let plan = |partitions: &[String]| format!(r#"{{"partitions":[{}]}}"#, partitions.join(","));
        assert_eq!(message(&plan(&[partition("[]")])), "Partition replica list cannot be empty");
        assert_eq!(
            message(&plan(&[partition("[1]"), partition("[2]")])),
            "Partition reassignment contains duplicate topic partitions: a-0"
        );
        assert_eq!(
            message(&plan(&[partition("[1,1]")])),
            "Partition replica lists may not contain duplicate entries: a-0 contains multiple entries for 1"
        );
        assert_eq!(
            message(r#"{"partitions":[{"topic":"a","partition":0,"replicas":[1],"log_dirs":[]}]}"#),
            "Size of replicas list [1] is different from size of log dirs list [] for partition a-0"
        );
    }
}
