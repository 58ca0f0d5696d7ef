//! The command line: what `ottla` is told, and what it tells back by its exit code.
//!
//! The outermost layer; only `main` calls it. 0: ended as asked. 1: could not start or could not go on, the reason
//! is the last line on standard error. 2: the arguments make no sense.

mod container;
mod dump_log;
mod health;
pub mod kafka;
mod node;
mod ready_file;
mod server;
mod server_script;
mod settings;
mod signals;
mod storage_tool;
mod verify_log;
mod zookeeper;

use std::io::{self, Write as _};
use std::path::PathBuf;

use clap::{Parser, Subcommand};

pub use container::ContainerArguments;
pub use dump_log::DumpLogArguments;
pub use health::HealthArguments;
pub use node::start;
pub use server::{NodeFailure, RunningNode, run};
pub use verify_log::VerifyLogArguments;

const ENVIRONMENT: &str = "\
Environment:
  OTTLA_LOG  What is logged: error, warn, info (the default), debug or trace, also for a module alone, as in
             OTTLA_LOG=info,ottla::coordinator=debug";

/// A broker that speaks Kafka's wire protocol.
///
/// Without arguments it serves on port 9092 and keeps its data in ./ottla-data.
#[derive(Clone, Debug, Default, Parser)]
#[command(name = "ottla", version, args_conflicts_with_subcommands = true, after_help = ENVIRONMENT)]
pub struct Arguments {
    #[command(subcommand)]
    pub tool: Option<Tool>,

    /// Kafka's server.properties
    #[arg(value_name = "SERVER_PROPERTIES")]
    pub properties: Option<PathBuf>,

    /// Overrides a setting of the file; may be given many times
    #[arg(long = "override", value_name = "KEY=VALUE", value_parser = settings::parse_override)]
    pub overrides: Vec<(String, String)>,

    /// Keeps the data in a temporary directory, which is removed at the end
    #[arg(long)]
    pub ephemeral: bool,

    /// Once it serves, writes the address of each client listener to this file, as host:port in a line of its own
    #[arg(long, value_name = "PATH")]
    pub ready_file: Option<PathBuf>,
}

impl Arguments {
    /// Reads the process's own; does not return if they make no sense, or only ask for help or version.
    pub fn of_process() -> Arguments {
        // What a container's health check runs every second is spared the grammar of all the rest.
        if std::env::args_os().skip(1).eq(["health"]) {
            return Arguments { tool: Some(Tool::Health(HealthArguments::default())), ..Arguments::default() };
        }
        Arguments::parse()
    }
}

/// What `ottla` can do instead of serving.
#[derive(Clone, Debug, Subcommand)]
pub enum Tool {
    Container(ContainerArguments),
    DumpLog(DumpLogArguments),
    Health(HealthArguments),
    VerifyLog(VerifyLogArguments),
}

impl Tool {
    /// Runs to its end; returns the process's exit code.
    pub fn run(&self) -> u8 {
        match self {
            Tool::Container(arguments) => container::run(arguments),
            Tool::DumpLog(arguments) => dump_log::run(arguments),
            Tool::Health(arguments) => health::run(arguments),
            Tool::VerifyLog(arguments) => verify_log::run(arguments),
        }
    }
}

/// Says on standard error why nothing runs; returns the exit code for that.
fn refuse(reasons: &[String]) -> u8 {
    for reason in reasons {
        // Nobody may be there to read it.
        let _ = writeln!(io::stderr(), "ottla: {reason}");
    }
    1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(arguments: &[&str]) -> Result<Arguments, clap::Error> {
        Arguments::try_parse_from([&["ottla"], arguments].concat())
    }

    #[test]
    fn takes_kafkas_arguments_in_any_order() {
        let arguments =
            parse(&["--override", "a=b", "server.properties", "--override", "c.d= e=f ", "--override=g="]).unwrap();
        assert_eq!(arguments.properties.unwrap().to_str(), Some("server.properties"));
        let own = |(key, value): (&str, &str)| (key.to_owned(), value.to_owned());
        assert_eq!(arguments.overrides, [("a", "b"), ("c.d", " e=f "), ("g", "")].map(own));
        assert!(parse(&["--override", "no value"]).is_err());
        assert!(parse(&["--override", "=b"]).is_err());
        assert!(parse(&["a.properties", "b.properties"]).is_err());
    }

    #[test]
    fn the_command_is_well_formed() {
        use clap::CommandFactory as _;
        Arguments::command().debug_assert();
    }
}
