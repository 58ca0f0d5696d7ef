//! `kafka-metadata-quorum`: who keeps the metadata log, and how far.

use std::collections::BTreeMap;
use std::path::Path;

use kafka_protocol::messages::add_raft_voter_request::Listener;
use kafka_protocol::messages::describe_quorum_request::{PartitionData, TopicData};
use kafka_protocol::messages::describe_quorum_response::{DescribeQuorumResponse, Node, ReplicaState};
use kafka_protocol::messages::{AddRaftVoterRequest, DescribeQuorumRequest, RemoveRaftVoterRequest};

use super::argparse::{Argument, Arguments, Command, Exclusive, Grammar, Kind, TERSE, terse};
use super::{admin_config, complain, say, table, uncaught};
use crate::client::text;
use crate::client::{Client, Error, Target, block_on, config, description, epoch_ms};
use crate::config::{java, properties};
use crate::types::DirectoryId;

static GRAMMAR: Grammar = Grammar {
    program: "kafka-metadata-quorum",
    about: "This tool describes kraft metadata quorum status.",
    arguments: &[
        Argument::new(&["--bootstrap-server"], "The brokers to connect to, host:port with commas between."),
        Argument::new(&["--bootstrap-controller"], "The controllers to connect to, host:port with commas between."),
        Argument::new(
            &["--command-config"],
            "A properties file with settings of the client; for add-controller, also of the controller.",
        ),
    ],
    exclusive: &[Exclusive { required: true, names: &["bootstrap-server", "bootstrap-controller"] }],
    commands: &[
        Command {
            name: "describe",
            help: "Describe the quorum.",
            arguments: &[
                Argument::flag(&["--status"], "The quorum in short."),
                Argument::flag(&["--replication"], "How far each replica is."),
                Argument::flag(&["--human-readable"], "With --replication: times as how long ago they were."),
            ],
            exclusive: &[],
            ..Command::EMPTY
        },
        Command {
            name: "add-controller",
            help: "Add a controller.",
            arguments: &[Argument::flag(&["--dry-run"], "Only tell what would be done.")],
            exclusive: &[],
            ..Command::EMPTY
        },
        Command {
            name: "remove-controller",
            help: "Remove a controller.",
            arguments: &[
                Argument::new(&["--controller-id", "-i"], "The id of the controller.").of(Kind::Integer).required(),
                Argument::new(&["--controller-directory-id", "-d"], "The id of its directory.").required(),
                Argument::flag(&["--dry-run"], "Only tell what would be done."),
            ],
            exclusive: &[],
            ..Command::EMPTY
        },
    ],
    ..Grammar::EMPTY
};

pub fn run(words: &[String]) -> u8 {
    let arguments = match Arguments::parse(&GRAMMAR, words) {
        Ok(arguments) => arguments,
        Err(end) => return end.report(0),
    };
    match act(&arguments) {
        Ok(()) => 0,
        Err(error) if error.class == TERSE => {
            complain!("{}", error.message());
            1
        }
        Err(error) => {
            uncaught(&error);
            1
        }
    }
}

fn act(arguments: &Arguments) -> Result<(), Error> {
    let file = arguments.value("command-config");
    if let Some(path) = file
        && !Path::new(path).exists()
    {
        return Err(terse(format!("Properties file {path} does not exists!")));
    }
    let config = admin_config(file, arguments.value("bootstrap-server"), arguments.value("bootstrap-controller"))?;
    let client = Client::new(config);
    match arguments.command() {
        "describe" => match ["status", "replication", "human-readable"].map(|name| arguments.has(name)) {
            [true, true, _] => {
                Err(terse("Only one of --status or --replication should be specified with describe sub-command"))
            }
            [false, true, readable] => block_on(replication(&client, readable)),
            [true, false, true] => Err(terse("The option --human-readable is only supported along with --replication")),
            [true, false, false] => block_on(status(&client)),
            [false, false, _] => {
                Err(terse("One of --status or --replication must be specified with describe sub-command"))
            }
        },
        "add-controller" => {
            let file = file.ok_or_else(|| {
                terse("You must supply the configuration file of the controller you are adding when using add-controller.")
            })?;
            let controller = Controller::read(&config::read_properties(Path::new(file))?)?;
            block_on(add(&client, &controller, arguments.has("dry-run")))
        }
        _ => block_on(remove(&client, arguments)),
    }
}

async fn quorum(client: &Client) -> Result<DescribeQuorumResponse, Error> {
    let partition = PartitionData::default().with_partition_index(0);
    let topic =
        TopicData::default().with_topic_name(text("__cluster_metadata").into()).with_partitions(vec![partition]);
    let request = DescribeQuorumRequest::default().with_topics(vec![topic]);
    let target = if client.config.controllers { Target::Controller } else { Target::Any };
    let described = client
        .retry("describeMetadataQuorum", async || {
            let response = client.send(&target, &request).await?;
            Error::check(response.error_code, response.error_message.as_deref())?;
            match response.topics.first().and_then(|topic| topic.partitions.first()) {
                Some(partition) => {
                    Error::check(partition.error_code, partition.error_message.as_deref())?;
                    Ok(response)
                }
                None => Err(Error::of(-1, Some("The answer holds no partition of the metadata log"))),
            }
        })
        .await;
    described.map_err(Error::in_execution)
}

fn no_leader() -> Error {
    Error::new("java.util.NoSuchElementException", "No value present")
}

async fn status(client: &Client) -> Result<(), Error> {
    let cluster = description::describe(client, false).await.map_err(Error::in_execution)?;
    let response = quorum(client).await?;
    let quorum = &response.topics[0].partitions[0];
    let voters = &quorum.current_voters;
    let leader = voters.iter().find(|voter| voter.replica_id == quorum.leader_id).ok_or_else(no_leader)?;
    // The first of those that are least far.
    let last = voters.iter().min_by_key(|voter| voter.log_end_offset).ok_or_else(no_leader)?;
    let lag_ms = match (leader.last_caught_up_timestamp, last.last_caught_up_timestamp) {
        _ if leader.replica_id == last.replica_id => 0,
        (of_leader, of_last) if of_leader >= 0 && of_last >= 0 => of_leader - of_last,
        _ => -1,
    };
    say!("ClusterId:              {}", cluster.cluster_id.as_deref().unwrap_or("null"));
    say!("LeaderId:               {}", quorum.leader_id.0);
    say!("LeaderEpoch:            {}", quorum.leader_epoch);
    say!("HighWatermark:          {}", quorum.high_watermark);
    say!("MaxFollowerLag:         {}", leader.log_end_offset - last.log_end_offset);
    say!("MaxFollowerLagTimeMs:   {lag_ms}");
    say!("CurrentVoters:          {}", replicas(voters, &response.nodes));
    say!("CurrentObservers:       {}", replicas(&quorum.observers, &response.nodes));
    Ok(())
}

/// `[{"id": 1, "directoryId": "…", "endpoints": ["CONTROLLER://host:9093"]}]`.
fn replicas(replicas: &[ReplicaState], nodes: &[Node]) -> String {
    let each = |replica: &ReplicaState| {
        let mut text = format!("{{\"id\": {}", replica.replica_id.0);
        if !replica.replica_directory_id.is_nil() {
            text.push_str(&format!(", \"directoryId\": \"{}\"", DirectoryId(replica.replica_directory_id)));
        }
        let listeners = nodes.iter().find(|node| node.node_id == replica.replica_id).map(|node| &node.listeners);
        if let Some(listeners) = listeners.filter(|listeners| !listeners.is_empty()) {
            let endpoints = listeners
                .iter()
                .map(|listener| format!("\"{}\"", endpoint(&listener.name, &listener.host, listener.port)));
            text.push_str(&format!(", \"endpoints\": [{}]", endpoints.collect::<Vec<_>>().join(", ")));
        }
        text + "}"
    };
    format!("[{}]", replicas.iter().map(each).collect::<Vec<_>>().join(", "))
}

/// Addresses with colons in brackets.
fn endpoint(listener: &str, host: &str, port: u16) -> String {
    let host = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
    format!("{listener}://{host}:{port}")
}

async fn replication(client: &Client, readable: bool) -> Result<(), Error> {
    let response = quorum(client).await?;
    let quorum = &response.topics[0].partitions[0];
    let is_leader = |voter: &&ReplicaState| voter.replica_id == quorum.leader_id;
    let leader = quorum.current_voters.iter().find(is_leader).ok_or_else(no_leader)?;
    let mut rows = Vec::new();
    let followers = quorum.current_voters.iter().filter(|voter| !is_leader(voter)).map(|voter| (voter, "Follower"));
    let observers = quorum.observers.iter().map(|observer| (observer, "Observer"));
    for (replica, status) in [(leader, "Leader")].into_iter().chain(followers).chain(observers) {
        rows.push([
            replica.replica_id.0.to_string(),
            DirectoryId(replica.replica_directory_id).to_string(),
            replica.log_end_offset.to_string(),
            (leader.log_end_offset - replica.log_end_offset).to_string(),
            time(replica.last_fetch_timestamp, "last fetch", readable)?,
            time(replica.last_caught_up_timestamp, "last caught up", readable)?,
            status.to_owned(),
        ]);
    }
    let headers =
        ["NodeId", "DirectoryId", "LogEndOffset", "Lag", "LastFetchTimestamp", "LastCaughtUpTimestamp", "Status"];
    table::print(headers, &rows);
    Ok(())
}

fn time(timestamp: i64, what: &str, readable: bool) -> Result<String, Error> {
    if timestamp < 0 || !readable {
        return Ok(timestamp.max(-1).to_string());
    }
    let now = epoch_ms();
    if timestamp == 0 || timestamp > now {
        return Err(Error::new(
            "org.apache.kafka.common.KafkaException",
            format!(
                "Error while computing relative time, possible drift in system clock.\nCurrent timestamp is {now}, {what} timestamp is {timestamp}"
            ),
        ));
    }
    Ok(format!("{} ms ago", now - timestamp))
}

/// A controller that is to join, from its own settings.
struct Controller {
    id: i32,
    directory_id: DirectoryId,
    /// Name, host and port.
    listeners: Vec<(String, String, u16)>,
}

impl Controller {
    fn read(settings: &BTreeMap<String, String>) -> Result<Controller, Error> {
        let file = "configuration file. Is this a valid controller configuration file?";
        let id = settings.get("node.id").ok_or_else(|| terse(format!("node.id not found in {file}")))?;
        let not_a_number = || Error::new("java.lang.NumberFormatException", format!("For input string: \"{id}\""));
        let id: i32 = java::parse_integer(id).ok_or_else(not_a_number)?;
        if id < 0 {
            return Err(terse(format!("node.id was negative in {file}")));
        }
        if !settings.get("process.roles").is_some_and(|roles| roles.contains("controller")) {
            return Err(terse(format!("process.roles did not contain 'controller' in {file}")));
        }
        let directory = match (settings.get("metadata.log.dir"), settings.get("log.dirs")) {
            (Some(directory), _) => directory.as_str(),
            (None, Some(directories)) => java::split(java::trim(directories), ',')[0],
            (None, None) => {
                return Err(terse(
                    "Neither metadata.log.dir nor log.dirs were found. Is this a valid controller configuration file?",
                ));
            }
        };
        let unreadable = || terse(format!("Unable to read meta.properties from {directory}"));
        let bytes = std::fs::read(Path::new(directory).join("meta.properties")).map_err(|_| unreadable())?;
        let meta = properties::parse(&bytes).map_err(|_| unreadable())?;
        let directory_id = meta.get("directory.id").and_then(|id| DirectoryId::parse(id));
        let directory_id = directory_id.ok_or_else(|| terse(format!("No directory id found in {directory}")))?;
        let names = settings.get("controller.listener.names").ok_or_else(|| {
            terse("controller.listener.names was not found. Is this a valid controller configuration file?")
        })?;
        let mut known: BTreeMap<String, (String, u16)> = BTreeMap::new();
        for key in ["listeners", "advertised.listeners"] {
            for listener in settings.get(key).map_or("", String::as_str).split(',').map(java::trim) {
                let Some((name, address)) = listener.split_once("://") else { continue };
                let Some((host, port)) = address.rsplit_once(':') else { continue };
                let Ok(port) = port.parse() else { continue };
                let host = host.trim_start_matches('[').trim_end_matches(']');
                known.insert(name.to_uppercase(), (host.to_owned(), port));
            }
        }
        let mut listeners = Vec::new();
        for name in names.split(',').map(|name| java::trim(name).to_uppercase()) {
            let (host, port) = known
                .get(&name)
                .ok_or_else(|| terse(format!("Cannot find information about controller listener name: {name}")))?;
            let host = if host.is_empty() { "localhost" } else { host };
            listeners.push((name, host.to_owned(), *port));
        }
        Ok(Controller { id, directory_id, listeners })
    }
}

async fn add(client: &Client, controller: &Controller, dry_run: bool) -> Result<(), Error> {
    if !dry_run {
        let listeners = controller
            .listeners
            .iter()
            .map(|(name, host, port)| Listener::default().with_name(text(name)).with_host(text(host)).with_port(*port));
        let request = AddRaftVoterRequest::default()
            .with_cluster_id(None)
            .with_timeout_ms(client.config.request_timeout_ms())
            .with_voter_id(controller.id)
            .with_voter_directory_id(controller.directory_id.0)
            .with_listeners(listeners.collect());
        let added = client.retry("addRaftVoter", async || {
            let response = client.send(&Target::Controller, &request).await?;
            Error::check(response.error_code, response.error_message.as_deref()).map_err(Error::for_good)
        });
        added.await.map_err(Error::in_execution)?;
    }
    let endpoints = controller.listeners.iter().map(|(name, host, port)| endpoint(name, host, *port));
    say!(
        "{} controller {} with directory id {} and endpoints: {}",
        if dry_run { "DRY RUN of adding" } else { "Added" },
        controller.id,
        controller.directory_id,
        endpoints.collect::<Vec<_>>().join(", ")
    );
    Ok(())
}

async fn remove(client: &Client, arguments: &Arguments) -> Result<(), Error> {
    let id = arguments.integer("controller-id").unwrap_or_default();
    let directory = arguments.value("controller-directory-id").unwrap_or_default();
    if id < 0 {
        return Err(terse(format!("Invalid negative --controller-id: {id}")));
    }
    let directory = super::uuid(directory)
        .map_err(|error| terse(format!("Failed to parse --controller-directory-id: {}", error.message())))?;
    let dry_run = arguments.has("dry-run");
    if !dry_run {
        let request = RemoveRaftVoterRequest::default()
            .with_cluster_id(None)
            .with_voter_id(id)
            .with_voter_directory_id(directory);
        let removed = client.retry("removeRaftVoter", async || {
            let response = client.send(&Target::Controller, &request).await?;
            Error::check(response.error_code, response.error_message.as_deref()).map_err(Error::for_good)
        });
        removed.await.map_err(Error::in_execution)?;
    }
    // Two blanks after the word, as in Kafka.
    let verb = if dry_run { "DRY RUN of removing " } else { "Removed " };
    say!("{verb} KRaft controller {id} with directory id {}", DirectoryId(directory));
    Ok(())
}
