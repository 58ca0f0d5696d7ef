//! `kafka-storage`: formats log directories, says what is in them, makes up ids. As Kafka's tool of the same name.
//!
//! A broker formats what is new by itself; this is for scripts that do it first, and for directories that Apache Kafka is
//! to start on. Any word will do for a cluster's id, as in Kafka.

mod format;
mod scram;

use std::collections::BTreeMap;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use super::kafka::argparse::{Argument, Arguments, Command, End, Exclusive, Grammar, terse};
use super::kafka::console::{complain, say};
use super::kafka::feature_levels::{say_defaults, say_needs};
use crate::client::Error;
use crate::clock::{Clock as _, SystemClock};
use crate::config::{BrokerConfig, java};
use crate::storage::disk::RealDisk;
use crate::storage::meta_properties::{self, MetaProperties, MetaPropertiesVersion, random_cluster_id};
use format::Format;

const CONFIG: Argument = Argument::new(&["--config", "-c"], "The configuration file of the broker.").required();
const RELEASE: Argument = Argument::new(&["--release-version", "-r"], "The release; without, the latest.");

static GRAMMAR: Grammar = Grammar {
    program: "kafka-storage",
    about: "The Kafka storage tool.",
    commands: &[
        Command {
            name: "info",
            help: "Tell what is in the log directories of this node.",
            arguments: &[CONFIG],
            ..Command::EMPTY
        },
        Command {
            name: "format",
            help: "Format the log directories of this node.",
            arguments: &[
                CONFIG,
                Argument::new(&["--cluster-id", "-t"], "The id of the cluster.").required(),
                Argument::new(
                    &["--add-scram", "-S"],
                    "A credential to begin with, as SCRAM-SHA-256=[name=alice,password=secret].",
                )
                .append(),
                Argument::flag(
                    &["--ignore-formatted", "-g"],
                    "Skip directories that are formatted already, rather than fail.",
                ),
                RELEASE,
                Argument::new(&["--feature", "-f"], "The level of a feature, as feature=level.").append(),
                Argument::flag(&["--standalone", "-s"], "This controller is the only voter of a dynamic quorum."),
                Argument::flag(
                    &["--no-initial-controllers", "-N"],
                    "The quorum is dynamic; its voters are not named here.",
                ),
                Argument::new(
                    &["--initial-controllers", "-I"],
                    "The voters of a dynamic quorum, as id@host:port:directory with commas between them.",
                ),
            ],
            exclusive: &[Exclusive {
                required: false,
                names: &["standalone", "no-initial-controllers", "initial-controllers"],
            }],
            ..Command::EMPTY
        },
        Command {
            name: "version-mapping",
            help: "Tell the levels of the features in a release.",
            arguments: &[RELEASE],
            ..Command::EMPTY
        },
        Command {
            name: "feature-dependencies",
            help: "Tell which levels of other features a level of a feature needs.",
            arguments: &[Argument::new(&["--feature", "-f"], "A feature, as feature=level.").append().required()],
            ..Command::EMPTY
        },
        Command { name: "random-uuid", help: "Print a random id.", ..Command::EMPTY },
    ],
    ..Grammar::EMPTY
};

/// Why nothing was done, or not all.
#[derive(Debug)]
enum Failure {
    /// It is told as it is.
    Terse(String),
    /// In Kafka's tool, an exception ends the program.
    Uncaught(Error),
}

impl Failure {
    fn told(error: Error) -> Failure {
        Failure::Terse(error.message().to_owned())
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::Uncaught(error)
    }
}

/// Returns the exit code.
pub fn run(words: &[String]) -> u8 {
    let arguments = match Arguments::parse(&GRAMMAR, words) {
        Ok(arguments) => arguments,
        Err(end @ End::Help(_)) => return end.report(0),
        Err(end) => return end.report(1),
    };
    match act(&arguments) {
        Ok(code) => code,
        Err(Failure::Terse(message)) => {
            complain!("{message}");
            1
        }
        Err(Failure::Uncaught(error)) => {
            complain!("Exception in thread \"main\" {}", error.trace());
            1
        }
    }
}

fn act(arguments: &Arguments) -> Result<u8, Failure> {
    match arguments.command() {
        "random-uuid" => say!("{}", random_cluster_id()),
        "version-mapping" => say_defaults(arguments.value("release-version")).map_err(Failure::told)?,
        "feature-dependencies" => dependencies(arguments)?,
        "info" => return Ok(info(&load(arguments)?.0)),
        _ => {
            let (config, unstable) = load(arguments)?;
            let format = Format { config: &config, unstable, arguments, now_ms: SystemClock::new().now_ms() };
            format.run(&*RealDisk::new(), &mut |line| say!("{line}"))?;
        }
    }
    Ok(0)
}

/// The configuration, and whether it allows what is not in production yet.
fn load(arguments: &Arguments) -> Result<(BrokerConfig, bool), Failure> {
    let file = Path::new(arguments.value("config").unwrap_or_default());
    let given: BTreeMap<String, String> = crate::client::config::read_properties(file)?;
    let unstable = given.get("unstable.feature.versions.enable").is_some_and(|text| text.trim() == "true");
    let loaded = BrokerConfig::load(given)
        .map_err(|problems| Failure::Terse(problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")))?;
    Ok((loaded.config, unstable))
}

/// All directories, in their order.
fn directories(config: &BrokerConfig) -> Vec<PathBuf> {
    let mut directories = config.log_dirs.clone();
    directories.push(config.metadata_log_dir.clone());
    directories.sort();
    directories.dedup();
    directories
}

fn dependencies(arguments: &Arguments) -> Result<(), Failure> {
    for text in arguments.values("feature") {
        let (name, level) = text.split_once('=').ok_or_else(|| {
            Failure::Terse(format!(
                "Invalid feature format: {text}. Expected format: 'feature=version' (e.g. 'group.version=1')"
            ))
        })?;
        let (name, level_text) = (java::trim(name), java::trim(level));
        let level: i16 = java::parse_integer(level_text)
            .ok_or_else(|| Failure::Terse(format!("Invalid version format: {level_text} for feature {name}")))?;
        let unsupported = || terse(format!("Feature level {level} is not supported for feature {name}"));
        say_needs(name, level, unsupported).map_err(Failure::told)?;
    }
    Ok(())
}

fn info(config: &BrokerConfig) -> u8 {
    let (mut found, mut problems) = (Vec::new(), Vec::new());
    let mut metadata: Option<MetaProperties> = None;
    for dir in directories(config) {
        let shown = dir.display();
        if !dir.is_dir() {
            let what = if dir.exists() { "is not a directory" } else { "does not exist" };
            problems.push(format!("{shown} {what}"));
            continue;
        }
        found.push(shown.to_string());
        match MetaProperties::read(&*RealDisk::new(), &dir) {
            Ok(None) => problems.push(format!("{shown} is not formatted.")),
            Ok(Some(own)) => match &metadata {
                Some(first) if first.cluster_id != own.cluster_id => {
                    problems.push("Mismatched cluster IDs between storage directories.".to_owned());
                }
                Some(first) if first.node_id != own.node_id => {
                    problems.push("Mismatched node IDs between storage directories.".to_owned());
                }
                Some(_) => {}
                None => metadata = Some(own),
            },
            Err(error) => {
                problems.push(format!("Error loading {}: {error}", dir.join(meta_properties::FILE_NAME).display()));
            }
        }
    }
    if metadata.as_ref().is_some_and(|metadata| metadata.version == MetaPropertiesVersion::V0) {
        problems.push(
            "The kafka configuration file appears to be for a cluster in KRaft mode, but the directories are formatted for legacy mode."
                .to_owned(),
        );
    }
    let mut out = list(["Found log directory", "Found log directories"], &found);
    if let Some(metadata) = &metadata {
        let text = metadata.encode(0);
        let entries: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
        out += &format!("Found metadata: {{{}}}\n\n", entries.join(", "));
    }
    out += &list(["Found problem", "Found problems"], &problems);
    let _ = io::stdout().write_all(out.as_bytes());
    u8::from(!problems.is_empty())
}

/// Entries below their title, which is the first for one and the second for more.
fn list(titles: [&str; 2], entries: &[String]) -> String {
    if entries.is_empty() {
        return String::new();
    }
    let lines: Vec<String> = entries.iter().map(|entry| format!("  {entry}\n")).collect();
    format!("{}:\n{}\n", titles[usize::from(entries.len() > 1)], lines.concat())
}

#[cfg(test)]
mod tests;
