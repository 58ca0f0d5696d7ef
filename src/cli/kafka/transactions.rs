//! `kafka-transactions`: what transactional producers are at, and an end to transactions that hang.

use std::collections::HashMap;

use super::argparse::{Argument, Arguments, Command, Grammar, Kind, Section};
use super::{complain, table, uncaught_in_main};
use crate::client::partitions::hash_map_order;
use crate::client::transactions::{self, Abort, Filter, Producer};
use crate::client::{Client, ClientConfig, Error, block_on, config, epoch_ms, topics};
use crate::config::java;
use crate::protocol::ErrorCode;
use crate::types::TopicPartition;

/// Topics that are described at a time, and partitions.
const BATCH: usize = 500;
/// Partitions of an answer to DescribeTopicPartitions.
const PARTITIONS_AT_ONCE: i32 = 2000;

static GRAMMAR: Grammar = Grammar {
    program: "kafka-transactions.sh",
    about: "Tells what the transactional producers of a cluster are at, finds transactions that hang, and ends them.",
    arguments: &[
        Argument::version(&["-v", "--version"]),
        Argument::new(&["--command-config"], "A properties file with settings of the client.").metavar("FILE"),
        Argument::new(&["--bootstrap-server"], "The brokers to connect to, with commas between.")
            .metavar("host:port")
            .required(),
    ],
    commands: &[
        Command {
            name: "list",
            help: "List the transactional ids.",
            arguments: &[
                Argument::new(&["--duration-filter"], "Only those whose transaction lasts longer, in ms; all if < 0.")
                    .of(Kind::Long),
                Argument::new(&["--transactional-id-pattern"], "Only those that match this regular expression."),
            ],
            ..Command::EMPTY
        },
        Command {
            name: "describe",
            help: "Describe a transactional id.",
            about: "Describe a transactional id.",
            arguments: &[Argument::new(&["--transactional-id"], "The transactional id.").required()],
            ..Command::EMPTY
        },
        Command {
            name: "describe-producers",
            help: "Describe the producers that a partition remembers.",
            arguments: &[
                Argument::new(&["--broker-id"], "The replica to ask. Without, the leader.").of(Kind::Integer),
                TOPIC.required(),
                PARTITION.required(),
            ],
            ..Command::EMPTY
        },
        Command {
            name: "abort",
            help: "Abort a transaction that hangs.",
            arguments: &[
                TOPIC.required(),
                PARTITION.required(),
                Argument::new(&["--start-offset"], "The offset where the transaction begins.").of(Kind::Long),
                Argument::new(&["--producer-id"], "The producer's id.").of(Kind::Long),
                Argument::new(&["--producer-epoch"], "The producer's epoch.").of(Kind::Short),
                Argument::new(&["--coordinator-epoch"], "The coordinator's epoch.").of(Kind::Integer),
            ],
            sections: &[
                Section {
                    title: "Brokers on versions 3.0 and above",
                    about: "Only where the transaction begins has to be told.",
                    names: &["start-offset"],
                },
                Section {
                    title: "Brokers on versions older than 3.0",
                    about: "All of these are needed.",
                    names: &["producer-id", "producer-epoch", "coordinator-epoch"],
                },
            ],
            ..Command::EMPTY
        },
        Command {
            name: "find-hanging",
            help: "Find transactions that hang.",
            arguments: &[
                Argument::new(&["--broker-id"], "The broker whose partitions to look at.").of(Kind::Integer),
                Argument::new(
                    &["--max-transaction-timeout"],
                    "How old a transaction must be, in minutes; 15 if not said.",
                )
                .of(Kind::Integer)
                .default("15"),
                TOPIC,
                PARTITION,
            ],
            ..Command::EMPTY
        },
        Command {
            name: "forceTerminateTransaction",
            help: "End the transaction of a transactional id.",
            about: "End the transaction of a transactional id.",
            arguments: &[Argument::new(&["--transactionalId"], "The transactional id.").required()],
            ..Command::EMPTY
        },
    ],
    titled: Some(("commands", "COMMAND")),
    ..Grammar::EMPTY
};

const TOPIC: Argument = Argument::new(&["--topic"], "The topic.");
const PARTITION: Argument = Argument::new(&["--partition"], "The partition.").of(Kind::Integer);

/// Why the tool ends with an exit code.
enum Failure {
    /// It has a word for it.
    Told(String),
    Uncaught(Error),
}

pub fn run(words: &[String]) -> u8 {
    let arguments = match Arguments::parse(&GRAMMAR, words) {
        Ok(arguments) => arguments,
        Err(end) => return end.report(1),
    };
    match client(&arguments).and_then(|client| block_on(act(&client, &arguments))) {
        Ok(()) => 0,
        Err(Failure::Told(message)) => {
            complain!("{message}");
            1
        }
        Err(Failure::Uncaught(error)) => uncaught_in_main(&error),
    }
}

/// What could not be done, and why.
fn failed(what: impl std::fmt::Display) -> impl FnOnce(Error) -> Failure {
    move |error| Failure::Told(format!("{what}: {}. Enable debug logging for additional detail.", error.message()))
}

fn told(message: &str) -> Failure {
    Failure::Told(message.to_owned())
}

fn client(arguments: &Arguments) -> Result<Client, Failure> {
    let mut given = config::read_properties_of(arguments.value("command-config"))
        .map_err(failed("Failed to load admin client properties"))?;
    let servers = arguments.value("bootstrap-server").unwrap_or_default();
    given.insert(config::BOOTSTRAP_SERVERS.to_owned(), servers.to_owned());
    Ok(Client::new(ClientConfig::admin(given).map_err(Failure::Uncaught)?))
}

async fn act(client: &Client, arguments: &Arguments) -> Result<(), Failure> {
    match arguments.command() {
        "list" => list(client, arguments).await,
        "describe" => describe(client, arguments).await,
        "describe-producers" => describe_producers(client, arguments).await,
        "abort" => abort(client, arguments).await,
        "find-hanging" => find_hanging(client, arguments).await,
        _ => {
            let id = arguments.value("transactionalId").unwrap_or_default();
            let terminated = transactions::force_terminate(client, id).await;
            terminated.map_err(failed(format_args!("Failed to force terminate transactionalId `{id}`")))
        }
    }
}

async fn list(client: &Client, arguments: &Arguments) -> Result<(), Failure> {
    let filter = Filter {
        duration_ms: arguments.long("duration-filter"),
        pattern: arguments.value("transactional-id-pattern"),
        ..Filter::default()
    };
    let listed = transactions::list(client, filter).await.map_err(failed("Failed to list transactions"))?;
    let rows: Vec<_> = listed
        .into_iter()
        .map(|listing| {
            [listing.transactional_id, listing.coordinator.to_string(), listing.producer_id.to_string(), listing.state]
        })
        .collect();
    table::print(["TransactionalId", "Coordinator", "ProducerId", "TransactionState"], &rows);
    Ok(())
}

async fn describe(client: &Client, arguments: &Arguments) -> Result<(), Failure> {
    let id = arguments.value("transactional-id").unwrap_or_default();
    let described = transactions::describe(client, id).await;
    let mut described =
        described.map_err(failed(format_args!("Failed to describe transaction state of transactional-id `{id}`")))?;
    let (start, duration) = match described.start_time_ms {
        Some(start) => (start.to_string(), (epoch_ms() - start).to_string()),
        None => ("None".to_owned(), "None".to_owned()),
    };
    hash_map_order(&mut described.partitions);
    let partitions: Vec<String> = described.partitions.iter().map(ToString::to_string).collect();
    let row = [
        described.coordinator.to_string(),
        id.to_owned(),
        described.producer_id.to_string(),
        described.producer_epoch.to_string(),
        described.state,
        described.timeout_ms.to_string(),
        start,
        duration,
        partitions.join(","),
    ];
    let headers = [
        "CoordinatorId",
        "TransactionalId",
        "ProducerId",
        "ProducerEpoch",
        "TransactionState",
        "TransactionTimeoutMs",
        "CurrentTransactionStartTimeMs",
        "TransactionDurationMs",
        "TopicPartitions",
    ];
    table::print(headers, &[row]);
    Ok(())
}

/// The partition that the arguments name.
fn partition(arguments: &Arguments) -> TopicPartition {
    let topic = arguments.value("topic").unwrap_or_default();
    TopicPartition::new(topic, arguments.integer("partition").unwrap_or_default())
}

async fn producers_of(
    client: &Client,
    partition: &TopicPartition,
    broker: Option<i32>,
) -> Result<Vec<Producer>, Error> {
    let mut outcomes = transactions::producers(client, std::slice::from_ref(partition), broker).await;
    outcomes.remove(partition).unwrap_or(Ok(Vec::new()))
}

async fn describe_producers(client: &Client, arguments: &Arguments) -> Result<(), Failure> {
    let (partition, broker) = (partition(arguments), arguments.integer("broker-id"));
    let producers = producers_of(client, &partition, broker).await.map_err(|error| {
        let asked = broker.map_or("leader".to_owned(), |broker| format!("broker {broker}"));
        failed(format_args!("Failed to describe producers for partition {partition} on {asked}"))(error)
    })?;
    let rows: Vec<_> = producers
        .iter()
        .map(|producer| {
            [
                producer.id.to_string(),
                producer.epoch.to_string(),
                producer.coordinator_epoch.unwrap_or(-1).to_string(),
                producer.last_sequence.to_string(),
                producer.last_timestamp.to_string(),
                producer.transaction_start.map_or("None".to_owned(), |offset| offset.to_string()),
            ]
        })
        .collect();
    let headers = [
        "ProducerId",
        "ProducerEpoch",
        "LatestCoordinatorEpoch",
        "LastSequence",
        "LastTimestamp",
        "CurrentTransactionStartOffset",
    ];
    table::print(headers, &rows);
    Ok(())
}

async fn abort(client: &Client, arguments: &Arguments) -> Result<(), Failure> {
    let partition = partition(arguments);
    let abort = match (arguments.long("start-offset"), arguments.long("producer-id")) {
        (None, None) => {
            return Err(told(
                "The transaction to abort must be identified either with --start-offset (for brokers on 3.0 or above) or with --producer-id, --producer-epoch, and --coordinator-epoch (for older brokers)",
            ));
        }
        (Some(start_offset), _) => beginning_at(client, partition, start_offset).await?,
        (None, Some(producer_id)) => {
            let missing = |name: &str| Failure::Told(format!("Missing required argument --{name}"));
            let producer_epoch = arguments.value("producer-epoch").and_then(java::parse_integer);
            let producer_epoch = producer_epoch.ok_or_else(|| missing("producer-epoch"))?;
            let coordinator_epoch =
                arguments.integer("coordinator-epoch").ok_or_else(|| missing("coordinator-epoch"))?;
            // A producer whose first transaction hangs has none yet: 0 is below that of every coordinator.
            Abort { partition, producer_id, producer_epoch, coordinator_epoch: coordinator_epoch.max(0) }
        }
    };
    let aborted = transactions::abort(client, &abort).await;
    aborted.map_err(failed(format_args!("Failed to abort transaction {abort}")))
}

async fn beginning_at(client: &Client, partition: TopicPartition, start_offset: i64) -> Result<Abort, Failure> {
    let producers = producers_of(client, &partition, None).await;
    let producers =
        producers.map_err(failed(format_args!("Failed to validate producer state for partition {partition}")))?;
    match producers.into_iter().find(|producer| producer.transaction_start == Some(start_offset)) {
        Some(producer) => Ok(Abort {
            partition,
            producer_id: producer.id,
            // As Java narrows it; no producer has a larger one.
            producer_epoch: producer.epoch as i16,
            coordinator_epoch: producer.coordinator_epoch.unwrap_or(0),
        }),
        None => Err(Failure::Told(format!(
            "Could not find any open transactions starting at offset {start_offset} on partition {partition}"
        ))),
    }
}

/// A transaction of a partition.
type Open = (TopicPartition, Producer);

async fn find_hanging(client: &Client, arguments: &Arguments) -> Result<(), Failure> {
    let (topic, broker) = (arguments.value("topic"), arguments.integer("broker-id"));
    if topic.is_none() && broker.is_none() {
        return Err(told(
            "The `find-hanging` command requires either --topic or --broker-id to limit the scope of the search",
        ));
    }
    if arguments.has("partition") && topic.is_none() {
        return Err(told("The --partition argument requires --topic to be provided"));
    }
    let max_ms = i64::from(arguments.integer("max-transaction-timeout").unwrap_or_default()) * 60_000;
    let partitions = match arguments.has("partition") {
        true => vec![partition(arguments)],
        false => partitions_to_search(client, topic, broker).await?,
    };
    let mut candidates = Vec::new();
    for batch in partitions.chunks(BATCH) {
        candidates.extend(open_longer(client, batch, broker, max_ms).await?);
    }
    let hanging = match candidates.is_empty() {
        true => Vec::new(),
        false => unknown_to_coordinators(client, candidates).await?,
    };
    let now = epoch_ms();
    let rows: Vec<_> = hanging
        .iter()
        .map(|(partition, producer)| {
            [
                partition.topic.to_string(),
                partition.partition.0.to_string(),
                producer.id.to_string(),
                producer.epoch.to_string(),
                producer.coordinator_epoch.unwrap_or(-1).to_string(),
                producer.transaction_start.unwrap_or(-1).to_string(),
                producer.last_timestamp.to_string(),
                (now.saturating_sub(producer.last_timestamp) / 60_000).to_string(),
            ]
        })
        .collect();
    let headers = [
        "Topic",
        "Partition",
        "ProducerId",
        "ProducerEpoch",
        "CoordinatorEpoch",
        "StartOffset",
        "LastTimestamp",
        "Duration(min)",
    ];
    table::print(headers, &rows);
    Ok(())
}

async fn partitions_to_search(
    client: &Client,
    topic: Option<&str>,
    broker: Option<i32>,
) -> Result<Vec<TopicPartition>, Failure> {
    let names: Vec<String> = match topic {
        Some(topic) => vec![topic.to_owned()],
        None => {
            let listed = topics::list(client, true).await.map_err(failed("Failed to list topics"))?;
            listed.into_iter().map(|topic| topic.name).collect()
        }
    };
    let mut partitions = Vec::new();
    for batch in names.chunks(BATCH) {
        let described = topics::describe(client, batch, PARTITIONS_AT_ONCE).await;
        for topic in described.map_err(failed(format_args!("Failed to describe {} topics", batch.len())))? {
            let of_broker = topic
                .partitions
                .iter()
                .filter(|partition| broker.is_none_or(|broker| partition.replicas.contains(&broker)));
            partitions.extend(of_broker.map(|partition| TopicPartition::new(topic.name.as_str(), partition.index)));
        }
    }
    Ok(partitions)
}

/// The transactions that are open for longer.
async fn open_longer(
    client: &Client,
    partitions: &[TopicPartition],
    broker: Option<i32>,
    max_ms: i64,
) -> Result<Vec<Open>, Failure> {
    let mut outcomes = transactions::producers(client, partitions, broker).await;
    let now = epoch_ms();
    let mut order: Vec<TopicPartition> = outcomes.keys().cloned().collect();
    hash_map_order(&mut order);
    let mut open = Vec::new();
    for partition in order {
        let producers = outcomes.remove(&partition).unwrap_or(Ok(Vec::new())).map_err(|error| {
            let broker = broker.map_or("Optional.empty".to_owned(), |broker| format!("Optional[{broker}]"));
            let what = format!("Failed to describe producers for {} partitions on broker {broker}", partitions.len());
            failed(what)(error)
        })?;
        let is_old = |producer: &Producer| {
            producer.transaction_start.is_some() && now.saturating_sub(producer.last_timestamp) > max_ms
        };
        open.extend(producers.into_iter().filter(is_old).map(|producer| (partition.clone(), producer)));
    }
    Ok(open)
}

/// Those transactions that no coordinator will end: its transactional id is unknown, or does not write to the partition.
async fn unknown_to_coordinators(client: &Client, candidates: Vec<Open>) -> Result<Vec<Open>, Failure> {
    let mut producer_ids: Vec<i64> = candidates.iter().map(|(_, producer)| producer.id).collect();
    producer_ids.sort_unstable();
    producer_ids.dedup();
    let filter = Filter { producer_ids: &producer_ids, ..Filter::default() };
    let what = format!("Failed to list transactions for {} producers", producer_ids.len());
    let listed = transactions::list(client, filter).await.map_err(failed(what))?;
    let ids: HashMap<i64, String> =
        listed.into_iter().map(|listing| (listing.producer_id, listing.transactional_id)).collect();
    let mut written: HashMap<i64, Vec<TopicPartition>> = HashMap::new();
    for (producer_id, id) in ids.iter().filter(|(producer_id, _)| producer_ids.binary_search(producer_id).is_ok()) {
        match transactions::describe(client, id).await {
            Ok(described) => drop(written.insert(*producer_id, described.partitions)),
            Err(error) if error.is(ErrorCode::TransactionalIdNotFound) => {}
            Err(error) => return Err(failed(format_args!("Failed to describe {} transactions", ids.len()))(error)),
        }
    }
    let mut hanging: Vec<Open> = candidates
        .into_iter()
        .filter(|(partition, producer)| written.get(&producer.id).is_none_or(|known| !known.contains(partition)))
        .collect();
    // They come by producer, as a Java `HashMap` has these.
    let buckets = java::grown_table(producer_ids.len());
    hanging.sort_by_key(|(_, producer)| producer.id);
    java::sort_by_hash(&mut hanging, buckets, |(_, producer)| long_hash(producer.id));
    Ok(hanging)
}

/// `Long.hashCode`.
fn long_hash(value: i64) -> u32 {
    (value ^ (value as u64 >> 32) as i64) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_hash_as_in_java() {
        assert_eq!([0, 4711, -1, 1 << 32].map(long_hash), [0, 4711, 0, 1]);
    }

    #[test]
    fn what_identifies_a_transaction() {
        // Nothing listens at port 1, and nothing is asked there.
        let told = |line: &str| {
            let line = format!("--bootstrap-server localhost:1 {line}");
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            let arguments = Arguments::parse(&GRAMMAR, &words).unwrap();
            match client(&arguments).and_then(|client| block_on(act(&client, &arguments))) {
                Err(Failure::Told(message)) => message,
                _ => panic!("{line} was to fail"),
            }
        };
        assert!(
            told("abort --topic t --partition 0").starts_with("The transaction to abort must be identified either")
        );
        assert_eq!(told("abort --topic t --partition 0 --producer-id 5"), "Missing required argument --producer-epoch");
        assert_eq!(
            told("abort --topic t --partition 0 --producer-id 5 --producer-epoch 1"),
            "Missing required argument --coordinator-epoch"
        );
        assert_eq!(
            told("find-hanging --broker-id 1 --partition 0"),
            "The --partition argument requires --topic to be provided"
        );
    }
}
