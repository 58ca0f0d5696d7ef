//! `kafka-cluster`: the id of a cluster, its nodes, and the end of a broker's membership.

use kafka_protocol::messages::UnregisterBrokerRequest;

use super::argparse::{Argument, Arguments, Command, Exclusive, Grammar, Kind};
use super::{admin_config, say, uncaught};
use crate::client::{Client, Error, Target, block_on, description};
use crate::protocol::ErrorCode;

const CONNECTION: [Argument; 4] = [
    Argument::new(&["--bootstrap-server", "-b"], "The brokers to connect to, host:port with commas between."),
    Argument::new(&["--bootstrap-controller", "-C"], "The controllers to connect to, host:port with commas between."),
    Argument::new(&["--config"], "(DEPRECATED) As --command-config."),
    Argument::new(&["--command-config", "-c"], "A properties file with settings of the client."),
];
const ONE: &[Exclusive] = &[Exclusive { required: true, names: &["bootstrap-server", "bootstrap-controller"] }];

static GRAMMAR: Grammar = Grammar {
    program: "kafka-cluster",
    about: "The Kafka cluster tool.",
    arguments: &[],
    exclusive: &[],
    commands: &[
        Command {
            name: "cluster-id",
            help: "Tell the id of a cluster.",
            arguments: &CONNECTION,
            exclusive: ONE,
            ..Command::EMPTY
        },
        Command {
            name: "unregister",
            help: "Unregister a broker.",
            arguments: &[
                CONNECTION[0],
                CONNECTION[1],
                CONNECTION[2],
                CONNECTION[3],
                Argument::new(&["--id", "-i"], "The id of the broker.").of(Kind::Integer).required(),
            ],
            exclusive: ONE,
            ..Command::EMPTY
        },
        Command {
            name: "list-endpoints",
            help: "List the endpoints.",
            arguments: &[
                CONNECTION[0],
                CONNECTION[1],
                CONNECTION[2],
                CONNECTION[3],
                Argument::flag(&["--include-fenced-brokers"], "With fenced brokers."),
            ],
            exclusive: ONE,
            ..Command::EMPTY
        },
    ],
    ..Grammar::EMPTY
};

pub fn run(words: &[String]) -> u8 {
    let arguments = match Arguments::parse(&GRAMMAR, words) {
        Ok(arguments) => arguments,
        Err(end) => return end.report(1),
    };
    match act(&arguments) {
        Ok(()) => 0,
        Err(error) => {
            uncaught(&error);
            1
        }
    }
}

fn act(arguments: &Arguments) -> Result<(), Error> {
    if arguments.has("config") && arguments.has("command-config") {
        return Err(Error::new(
            "net.sourceforge.argparse4j.inf.ArgumentParserException",
            "--config and --command-config cannot be specified together.",
        ));
    }
    if arguments.has("config") {
        say!(
            "Option --config has been deprecated and will be removed in a future version. Use --command-config instead."
        );
    }
    let file = arguments.value("config").or(arguments.value("command-config"));
    let config = admin_config(file, arguments.value("bootstrap-server"), arguments.value("bootstrap-controller"))?;
    let controllers = config.controllers;
    let client = Client::new(config);
    match arguments.command() {
        "cluster-id" => block_on(cluster_id(&client)),
        "unregister" => block_on(unregister(&client, arguments.integer("id").unwrap_or_default())),
        _ => {
            let fenced = arguments.has("include-fenced-brokers");
            if fenced && controllers {
                return Err(Error::illegal_argument(
                    "The option --include-fenced-brokers is only supported with --bootstrap-server option",
                ));
            }
            block_on(list_endpoints(&client, fenced))
        }
    }
}

async fn cluster_id(client: &Client) -> Result<(), Error> {
    let cluster = description::describe(client, false).await.map_err(Error::in_execution)?;
    match cluster.cluster_id {
        Some(id) => say!("Cluster ID: {id}"),
        None => say!("No cluster ID found. The Kafka version is probably too old."),
    }
    Ok(())
}

async fn unregister(client: &Client, id: i32) -> Result<(), Error> {
    let request = UnregisterBrokerRequest::default().with_broker_id(id.into());
    let unregistered = client
        .retry("unregisterBroker", async || {
            let response = client.send(&Target::Any, &request).await?;
            Error::check(response.error_code, response.error_message.as_deref())
        })
        .await;
    match unregistered {
        Ok(()) => say!("Broker {id} is no longer registered."),
        Err(error) if error.is(ErrorCode::UnsupportedVersion) => {
            say!("The target cluster does not support the broker unregistration API.");
        }
        Err(error) => return Err(error.in_execution()),
    }
    Ok(())
}

async fn list_endpoints(client: &Client, fenced: bool) -> Result<(), Error> {
    let cluster = match description::describe(client, fenced).await {
        Err(error) if error.is(ErrorCode::UnsupportedVersion) => {
            say!("{}", error.message());
            return Ok(());
        }
        described => described.map_err(Error::in_execution)?,
    };
    let host_width = cluster.nodes.iter().map(|known| known.node.host.len()).max().unwrap_or(100);
    let rack_width =
        cluster.nodes.iter().filter_map(|known| known.node.rack.as_deref()).map(str::len).max().unwrap_or(10);
    let controllers = client.config.controllers;
    let line = |id: &str, host: &str, port: &str, rack: &str, state: &str, kind: &str| {
        let state = if controllers { String::new() } else { format!("{state:10} ") };
        say!("{id:10} {host:host_width$} {port:10} {rack:rack_width$} {state}{kind:15}");
    };
    line("ID", "HOST", "PORT", "RACK", "STATE", "ENDPOINT_TYPE");
    for known in &cluster.nodes {
        let node = &known.node;
        line(
            &node.id.to_string(),
            &node.host,
            &node.port.to_string(),
            node.rack.as_deref().unwrap_or("null"),
            if known.is_fenced { "fenced" } else { "unfenced" },
            if controllers { "controller" } else { "broker" },
        );
    }
    Ok(())
}
