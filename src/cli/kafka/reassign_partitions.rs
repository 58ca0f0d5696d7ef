//! `kafka-reassign-partitions`: moves replicas between brokers and between log directories.

mod generate;
mod moves;
mod plan;
mod throttles;

use std::collections::BTreeMap;

use super::argparse::TERSE;
use super::options::{Kind, Options, Spec};
use super::{Stop, conclude, json, say, uncaught_in_main};
use crate::client::{Client, Error, block_on};

const ABOUT: &str = "This tool helps to move topic partitions between replicas.";
const ACTIONS: [&str; 5] = ["generate", "execute", "verify", "cancel", "list"];

const OPTIONS: &[Spec] = &[
    Spec::flag(
        "verify",
        "Tell whether what --reassignment-json-file says has come to its end; if so, take throttles away.",
    ),
    Spec::flag("generate", "Propose a reassignment, without doing anything."),
    Spec::flag("execute", "Begin the reassignment that --reassignment-json-file says."),
    Spec::flag("cancel", "Cancel a reassignment."),
    Spec::flag("list", "List the reassignments that are under way."),
    Spec::with_optional_argument(
        "bootstrap-server",
        "Server(s) to use for bootstrapping",
        "The brokers to connect to.",
    ),
    Spec::with_argument(
        "command-config",
        "Admin client property file",
        "A properties file with settings of the client.",
    ),
    Spec::with_argument(
        "reassignment-json-file",
        "manual assignment json file path",
        "A JSON file with a reassignment:\n{\"partitions\":\n\t[{\"topic\": \"foo\",\n\t  \"partition\": 1,\n\t  \"replicas\": [1,2,3],\n\t  \"log_dirs\": [\"dir1\",\"dir2\",\"dir3\"] }],\n\"version\":1\n}\nlog_dirs may be left out; \"any\" is any directory.",
    ),
    Spec::with_argument(
        "topics-to-move-json-file",
        "topics to reassign json file path",
        "A JSON file with topics to move to --broker-list:\n{\"topics\":\n\t[{\"topic\": \"foo\"},{\"topic\": \"foo1\"}],\n\"version\":1\n}",
    ),
    Spec::with_argument("broker-list", "brokerlist", "The brokers to move to, with commas between them."),
    Spec::with_optional_argument(
        "bootstrap-controller",
        "bootstrap controller to connect to",
        "The controller to connect to, for --cancel and --list.",
    ),
    Spec::flag("disable-rack-aware", "Do not mind racks."),
    Spec::with_argument("throttle", "throttle", "Bytes per second between brokers, at most.")
        .of(Kind::Long)
        .default(&["-1"]),
    Spec::with_argument(
        "replica-alter-log-dirs-throttle",
        "replicaAlterLogDirsThrottle",
        "Bytes per second between directories of a broker, at most.",
    )
    .of(Kind::Long)
    .default(&["-1"]),
    Spec::with_argument("timeout", "timeout", "Milliseconds to wait until moves between directories begin.")
        .of(Kind::Long)
        .default(&["10000"]),
    Spec::flag("additional", "In addition to reassignments that are under way, or to change their throttle."),
    Spec::flag("preserve-throttles", "Leave throttles as they are."),
    Spec::flag("disallow-replication-factor-change", "Refuse a reassignment that changes the number of replicas."),
];

pub fn run(words: &[String]) -> u8 {
    let options = Options::parse(OPTIONS, words).map_err(Stop::from);
    let options = match options.and_then(|options| check(&options).map(|()| options)) {
        Ok(options) => options,
        // What is wrong with options nothing catches in Kafka's tool.
        Err(stop) => {
            return conclude(Err(stop), |error| {
                uncaught_in_main(error);
            });
        }
    };
    match act(&options) {
        Ok(()) => 0,
        Err(error) if error.class == TERSE => {
            say!("{}", error.message());
            1
        }
        Err(error) => {
            say!("Error: {}", error.message());
            say!("{}\n", error.trace());
            1
        }
    }
}

fn check(options: &Options) -> Result<(), Stop> {
    options.help_or_version(ABOUT)?;
    let actions: Vec<&str> = ACTIONS.into_iter().filter(|action| options.has(action)).collect();
    let [action] = actions[..] else {
        let all: Vec<String> = ACTIONS.iter().map(|action| format!("--{action}")).collect();
        return Err(options.usage(format!("Command must include exactly one action: {}", all.join(", "))));
    };
    let connection = match (options.has("bootstrap-server"), options.has("bootstrap-controller")) {
        (true, true) => {
            return Err(options.usage("Please don't specify both --bootstrap-server and --bootstrap-controller"));
        }
        (false, false) => {
            return Err(options.usage("Please specify either --bootstrap-server or --bootstrap-controller"));
        }
        (true, false) => "bootstrap-server",
        (false, true) => "bootstrap-controller",
    };
    let (required, permitted): (&[&str], &[&str]) = match action {
        "verify" => (&["reassignment-json-file"], &["bootstrap-server", "command-config", "preserve-throttles"]),
        "generate" => (
            &["topics-to-move-json-file", "broker-list"],
            &["bootstrap-server", "command-config", "disable-rack-aware"],
        ),
        "execute" => (
            &["reassignment-json-file"],
            &[
                "additional",
                "bootstrap-server",
                "command-config",
                "throttle",
                "replica-alter-log-dirs-throttle",
                "timeout",
                "disallow-replication-factor-change",
            ],
        ),
        "cancel" => (&["reassignment-json-file"], &["command-config", "preserve-throttles", "timeout"]),
        _ => (&[], &["command-config"]),
    };
    options.require(required)?;
    let also = if matches!(action, "cancel" | "list") { connection } else { "" };
    let fits = |name: &str| name == action || name == also || required.contains(&name) || permitted.contains(&name);
    match options.names().into_iter().find(|name| !fits(name)) {
        Some(other) => Err(options.usage(format!("Option \"[{other}]\" can't be used with action \"[{action}]\""))),
        None => Ok(()),
    }
}

fn act(options: &Options) -> Result<(), Error> {
    let mut config = options.client_config()?;
    if config.get("client.id").is_none() {
        config.client_id = "reassign-partitions-tool".to_owned();
    }
    let client = Client::new(config);
    let file = |name: &str| json::read_file(options.text(name)?);
    if options.has("verify") {
        let plan = plan::Plan::read(&file("reassignment-json-file")?)?;
        block_on(moves::verify(&client, &plan, options.has("preserve-throttles")))
    } else if options.has("generate") {
        let topics = file("topics-to-move-json-file")?;
        let racks = !options.has("disable-rack-aware");
        block_on(generate::generate(&client, &topics, options.text("broker-list")?, racks))
    } else if options.has("execute") {
        let plan = plan::Plan::read(&file("reassignment-json-file")?)?;
        plan.check()?;
        block_on(moves::execute(
            &client,
            &plan,
            &moves::Execution {
                additional: options.has("additional"),
                throttle: options.long("throttle")?.unwrap_or(-1),
                directories_throttle: options.long("replica-alter-log-dirs-throttle")?.unwrap_or(-1),
                timeout_ms: options.long("timeout")?.unwrap_or(10_000),
                may_change_replication_factor: !options.has("disallow-replication-factor-change"),
            },
        ))
    } else if options.has("cancel") {
        let plan = plan::Plan::read(&file("reassignment-json-file")?)?;
        let timeout_ms = options.long("timeout")?.unwrap_or(10_000);
        block_on(moves::cancel(&client, &plan, options.has("preserve-throttles"), timeout_ms))
    } else {
        block_on(list(&client))
    }
}

fn commas<T: ToString>(items: impl IntoIterator<Item = T>) -> String {
    items.into_iter().map(|item| item.to_string()).collect::<Vec<_>>().join(",")
}

async fn list(client: &Client) -> Result<(), Error> {
    let moving = crate::client::topics::reassignments(client, None).await.map_err(Error::in_execution)?;
    if moving.is_empty() {
        say!("No partition reassignments found.");
        return Ok(());
    }
    say!("Current partition reassignments:");
    for ((topic, partition), moving) in moving {
        let part = |name: &str, ids: &[i32]| match ids {
            [] => String::new(),
            ids => format!(" {name}: {}.", commas(ids)),
        };
        say!(
            "{topic}-{partition}: replicas: {}.{}{}",
            commas(&moving.replicas),
            part("adding", &moving.adding),
            part("removing", &moving.removing)
        );
    }
    Ok(())
}

/// A replica of a partition: broker, topic and partition, in the order in which they are told.
type Replica = (i32, String, i32);

/// Where replicas are, and where they are being moved to.
type Directories = BTreeMap<Replica, (Option<String>, Option<String>)>;

/// As Kafka prints a replica.
fn replica_text((broker, topic, partition): &Replica) -> String {
    format!("{topic}-{partition}-{broker}")
}

fn failed(message: impl Into<String>) -> Error {
    Error::new("org.apache.kafka.tools.AdminCommandFailedException", message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_belong_to_actions() {
        let message = |line: &str| {
            let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
            match check(&Options::parse(OPTIONS, &words).unwrap()) {
                Err(Stop::Usage { message, .. }) => message,
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(
            message("--bootstrap-server a:1"),
            "Command must include exactly one action: --generate, --execute, --verify, --cancel, --list"
        );
        assert_eq!(message("--list"), "Please specify either --bootstrap-server or --bootstrap-controller");
        assert_eq!(
            message("--bootstrap-server a:1 --list --broker-list 1"),
            "Option \"[broker-list]\" can't be used with action \"[list]\""
        );
        assert_eq!(
            message("--bootstrap-server a:1 --execute"),
            "Missing required argument \"[reassignment-json-file]\""
        );
        assert_eq!(
            message("--bootstrap-controller a:1 --verify --reassignment-json-file x"),
            "Option \"[bootstrap-controller]\" can't be used with action \"[verify]\""
        );
    }
}
