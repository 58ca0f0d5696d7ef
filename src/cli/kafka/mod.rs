//! Kafka's command line tools, in this one program: it is the tool that it is called as.
//!
//! ```text
//! kafka-topics --list …           by a link of that name to the program, with or without `.sh`
//! ottla kafka-topics --list …     by the first argument
//! ```
//!
//! The tools take Kafka's options and print Kafka's output: for both, Apache Kafka 4.3.1 is the specification, but for
//! stack traces, of which only the heads are printed, and for the descriptions in the usages. They talk to a broker by
//! [`client`](crate::client) and touch nothing of the broker in this program, so that a health check that calls one
//! every second costs nothing.
//!
//! One more tool is one more line in [`TOOLS`], and a file like `topics.rs`.

pub mod argparse;
mod broker_api_versions;
mod cluster;
mod configs;
pub mod console;
mod console_consumer;
mod console_producer;
mod consumer_groups;
mod consumer_perf_test;
mod delete_records;
mod dump_log;
mod e2e_latency;
pub mod feature_levels;
mod features;
mod get_offsets;
mod groups;
mod json;
mod leader_election;
mod line_reader;
mod log_dirs;
mod message_formatter;
mod metadata_quorum;
mod missing;
pub mod options;
mod producer_perf_test;
mod reassign_partitions;
mod table;
mod topic_filter;
mod topics;
mod transactions;
mod verifiable_consumer;
mod verifiable_producer;

use std::ffi::OsStr;
use std::path::Path;

use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

use super::{server_script, storage_tool, zookeeper};
use crate::client::{ClientConfig, Error, config};
use console::{complain, say};
use missing::{MISSING_TOOLS, UNKNOWN_TOOL};

/// The release of Apache Kafka whose tools these are.
const KAFKA_VERSION: &str = "4.3.1";
/// The commit that it was made from, as some tools tell it.
const KAFKA_COMMIT: &str = "26b251a451ce941d";

/// A tool of Kafka's.
pub struct Tool {
    /// The name of Kafka's script, without `.sh`.
    pub name: &'static str,
    /// Takes the arguments, returns the exit code.
    pub run: fn(&[String]) -> u8,
}

/// All of them.
pub const TOOLS: &[Tool] = &[
    Tool { name: "kafka-broker-api-versions", run: broker_api_versions::run },
    Tool { name: "kafka-cluster", run: cluster::run },
    Tool { name: "kafka-configs", run: configs::run },
    Tool { name: "kafka-console-consumer", run: console_consumer::run },
    Tool { name: "kafka-console-producer", run: console_producer::run },
    Tool { name: "kafka-consumer-groups", run: consumer_groups::run },
    Tool { name: "kafka-consumer-perf-test", run: consumer_perf_test::run },
    Tool { name: "kafka-delete-records", run: delete_records::run },
    Tool { name: "kafka-dump-log", run: dump_log::run },
    Tool { name: "kafka-e2e-latency", run: e2e_latency::run },
    Tool { name: "kafka-features", run: features::run },
    Tool { name: "kafka-get-offsets", run: get_offsets::run },
    Tool { name: "kafka-groups", run: groups::run },
    Tool { name: "kafka-leader-election", run: leader_election::run },
    Tool { name: "kafka-log-dirs", run: log_dirs::run },
    Tool { name: "kafka-metadata-quorum", run: metadata_quorum::run },
    Tool { name: "kafka-producer-perf-test", run: producer_perf_test::run },
    Tool { name: "kafka-reassign-partitions", run: reassign_partitions::run },
    Tool { name: "kafka-topics", run: topics::run },
    Tool { name: "kafka-transactions", run: transactions::run },
    Tool { name: "kafka-verifiable-consumer", run: verifiable_consumer::run },
    Tool { name: "kafka-verifiable-producer", run: verifiable_producer::run },
];

/// Those that work on this machine's processes and files rather than with a broker.
const LOCAL_TOOLS: &[Tool] = &[
    Tool { name: "kafka-server-start", run: server_script::start_server },
    Tool { name: "kafka-server-stop", run: server_script::stop_server },
    Tool { name: "kafka-storage", run: storage_tool::run },
    Tool { name: "zookeeper-server-start", run: zookeeper::start },
    Tool { name: "zookeeper-server-stop", run: zookeeper::stop },
];

/// The tool that a process is to be: by the name it was called by, else by its first argument. With its arguments.
pub fn called(mut arguments: impl Iterator<Item = std::ffi::OsString>) -> Option<(&'static Tool, Vec<String>)> {
    let own_name = arguments.next()?;
    if let Some(tool) = find(&own_name) {
        return Some((tool, options::words(arguments)));
    }
    let tool = find(&arguments.next()?)?;
    Some((tool, options::words(arguments)))
}

/// By the last part of a path.
fn find(path: &OsStr) -> Option<&'static Tool> {
    let name = Path::new(path).file_name()?.to_str()?;
    let name = name.strip_suffix(".sh").unwrap_or(name);
    let known = TOOLS.iter().chain(LOCAL_TOOLS).chain(MISSING_TOOLS).find(|tool| tool.name == name);
    // A program that is called like a tool must not take itself for the broker.
    known.or_else(|| {
        (name.starts_with("kafka-") && !path.as_encoded_bytes().ends_with(b".properties")).then_some(&UNKNOWN_TOOL)
    })
}

/// Why a tool ends before it has done anything, or in its midst.
#[derive(Debug)]
pub enum Stop {
    /// The arguments make no sense, or help was asked for.
    Usage {
        message: String,
        usage: String,
    },
    Version,
    Failed(Error),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Stop {
        Stop::Failed(error)
    }
}

/// Says how a tool ended, as most of Kafka's do it; returns the exit code. `failed` says what a failure is to be told as.
fn conclude(ended: Result<(), Stop>, failed: impl FnOnce(&Error)) -> u8 {
    match ended {
        Ok(()) => 0,
        Err(Stop::Version) => {
            say!("{KAFKA_VERSION}");
            0
        }
        Err(Stop::Usage { message, usage }) => {
            complain!("{message}");
            // The table ends its last line itself.
            complain!("{}", usage.trim_end_matches('\n'));
            1
        }
        Err(Stop::Failed(error)) => {
            failed(&error);
            1
        }
    }
}

/// Prints the message and the stack trace of an exception that nothing in the tool has caught.
fn uncaught(error: &Error) {
    complain!("{}", error.message());
    complain!("{}\n", error.trace());
}

/// What the JVM prints of an exception that ends a program; returns the exit code.
fn uncaught_in_main(error: &Error) -> u8 {
    complain!("Exception in thread \"main\" {}", error.trace());
    1
}

/// An id as Kafka's tools read it: base64 for web addresses, of 16 bytes.
fn uuid(text: &str) -> Result<uuid::Uuid, Error> {
    if text.len() > 24 {
        let prefix = &text[..text.floor_char_boundary(24)];
        return Err(Error::illegal_argument(format!(
            "Input string with prefix `{prefix}` is too long to be decoded as a base64 UUID"
        )));
    }
    let lenient = GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::Indifferent);
    let bytes = GeneralPurpose::new(&alphabet::URL_SAFE, lenient)
        .decode(text)
        .map_err(|_| Error::illegal_argument(format!("Input string `{text}` is not base64")))?;
    uuid::Uuid::from_slice(&bytes).map_err(|_| {
        Error::illegal_argument(format!(
            "Input string `{text}` decoded as {} bytes, which is not equal to the expected 16 bytes of a base64-encoded UUID",
            bytes.len()
        ))
    })
}

/// The settings of a client, from a properties file and where to connect to. One of the two must be given.
fn admin_config(file: Option<&str>, servers: Option<&str>, controllers: Option<&str>) -> Result<ClientConfig, Error> {
    let mut given = config::read_properties_of(file)?;
    let (key, other, addresses) = match (servers, controllers) {
        (Some(servers), None) => (config::BOOTSTRAP_SERVERS, config::BOOTSTRAP_CONTROLLERS, servers),
        (None, Some(controllers)) => (config::BOOTSTRAP_CONTROLLERS, config::BOOTSTRAP_SERVERS, controllers),
        (Some(_), Some(_)) => {
            return Err(bootstrap_fault("You cannot specify both --bootstrap-controller and --bootstrap-server."));
        }
        (None, None) => {
            return Err(bootstrap_fault("You must specify either --bootstrap-controller or --bootstrap-server."));
        }
    };
    given.insert(key.to_owned(), addresses.to_owned());
    given.remove(other);
    ClientConfig::admin(given)
}

fn bootstrap_fault(message: &str) -> Error {
    Error::new("org.apache.kafka.server.util.CommandLineUtils$InitializeBootstrapException", message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(arguments: &[&str]) -> Option<(&'static str, Vec<String>)> {
        called(arguments.iter().map(std::ffi::OsString::from)).map(|(tool, words)| (tool.name, words))
    }

    #[test]
    fn a_tool_is_called_by_its_name() {
        let list = vec!["--list".to_owned()];
        assert_eq!(name(&["kafka-topics", "--list"]), Some(("kafka-topics", list.clone())));
        assert_eq!(name(&["/opt/kafka/bin/kafka-topics.sh", "--list"]), Some(("kafka-topics", list.clone())));
        assert_eq!(name(&["/usr/bin/ottla", "kafka-topics", "--list"]), Some(("kafka-topics", list.clone())));
        assert_eq!(name(&["ottla", "kafka-topics.sh", "--list"]), Some(("kafka-topics", list)));
        assert_eq!(name(&["ottla", "server.properties"]), None);
        assert_eq!(name(&["/usr/bin/kafka-metadata-shell"]), Some(("kafka-metadata-shell", vec![])));
        assert_eq!(name(&["/usr/bin/kafka-nonesuch"]), Some(("", vec![])));
        assert_eq!(name(&["ottla", "kafka-3.properties"]), None);
        assert_eq!(name(&["kafka-storage.sh", "random-uuid"]).unwrap().0, "kafka-storage");
        assert_eq!(name(&["ottla"]), None);
        assert_eq!(name(&[]), None);
    }
}
