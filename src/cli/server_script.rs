//! `kafka-server-start` and `kafka-server-stop`, as Kafka's scripts take their arguments.
//!
//! What stops brokers does so only when it was told nothing that it does not understand: whoever asks it for help, or
//! mistypes an option, does not want every broker to end. Kafka's script ignores what it does not know.

use std::io::{self, Write as _};
use std::path::PathBuf;

use clap::Parser as _;
use rustix::process::{Pid, Signal, kill_process};

use super::health::OtherProcess;
use super::server::{Announcement, serve_with};
use super::{Arguments, health, refuse, settings, start};
use crate::storage::disk::RealDisk;
use crate::storage::meta_properties::MetaProperties;
use crate::telemetry;
use crate::types::BrokerId;

/// Options of the scripts that are for the Java machine, and how many values each takes.
const FOR_JAVA: &[(&str, usize)] = &[("-name", 1), ("-loggc", 0)];

const START_USAGE: &str =
    "USAGE: kafka-server-start [-name servicename] [-loggc] server.properties [--override property=value]*";

const STOP_USAGE: &str = "\
USAGE: kafka-server-stop [--node-id=ID] [--process-role=ROLES]
Has the brokers of this program that this user may signal end in good order: all of them, or those of a node id or of
process.roles. SIGNAL=INT, in the environment, sends another signal than TERM.";

/// The scripts' arguments without what is for the Java machine; why not, if they cannot be followed.
pub(super) fn without_java(arguments: &[String]) -> Result<Vec<String>, String> {
    let mut words = Vec::new();
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        if argument == "-daemon" {
            return Err("-daemon: it stays in the foreground; have the shell start it with &".to_owned());
        }
        match FOR_JAVA.iter().find(|(option, _)| option == argument) {
            Some((_, values)) => drop(rest.by_ref().take(*values).count()),
            None => words.push(argument.clone()),
        }
    }
    Ok(words)
}

/// Says how a script is to be called; returns its exit code.
pub(super) fn usage(text: &str) -> u8 {
    let _ = writeln!(io::stderr(), "{text}");
    1
}

/// `kafka-server-start server.properties [--override key=value]...`; returns the exit code.
pub fn start_server(arguments: &[String]) -> u8 {
    let words = match without_java(arguments) {
        Ok(words) => words,
        Err(reason) => return refuse(&[reason]),
    };
    let words = std::iter::once("kafka-server-start".to_owned()).chain(words);
    let arguments = match Arguments::try_parse_from(words) {
        Ok(arguments) if arguments.properties.is_some() && arguments.tool.is_none() => arguments,
        _ => return usage(START_USAGE),
    };
    if let Err(error) = telemetry::init() {
        return refuse(&[error.to_string()]);
    }
    match settings::read(&arguments, None) {
        Ok(given) => serve_with(given, None, Announcement::AsKafka, start),
        Err(reason) => refuse(&[reason]),
    }
}

/// Which brokers are to end.
#[derive(Debug, Default, PartialEq, Eq)]
struct Chosen {
    node_id: Option<String>,
    process_roles: Option<String>,
}

impl Chosen {
    /// `None` for options that there are not. Other words, as that for the properties file, mean nothing to Kafka's script
    /// either.
    fn parse(arguments: &[String]) -> Option<Chosen> {
        let mut chosen = Chosen::default();
        for argument in arguments {
            match argument.split_once('=') {
                Some(("--node-id", id)) => chosen.node_id = Some(id.to_owned()),
                Some(("--process-role", roles)) => chosen.process_roles = Some(roles.to_owned()),
                _ if argument.starts_with('-') => return None,
                _ => {}
            }
        }
        // Kafka's script takes an empty value for none.
        chosen.node_id = chosen.node_id.filter(|id| !id.is_empty());
        chosen.process_roles = chosen.process_roles.filter(|roles| !roles.is_empty());
        Some(chosen)
    }

    fn includes(&self, broker: &RunningBroker) -> bool {
        match (&self.node_id, &self.process_roles) {
            (Some(id), _) => broker.node_id().is_some_and(|own| own.to_string() == *id),
            // A node of one role does not start.
            (None, Some(roles)) => matches!(roles.as_str(), "broker,controller" | "controller,broker"),
            (None, None) => true,
        }
    }
}

/// A broker of this program.
#[derive(Debug)]
struct RunningBroker {
    process_id: i32,
    /// Those that it has locked.
    log_dirs: Vec<PathBuf>,
}

impl RunningBroker {
    /// All that this user may look into. A tool has no log directory, and what looks into one has no sockets.
    fn all() -> Vec<RunningBroker> {
        let broker = |process: OtherProcess| {
            let log_dirs: Vec<PathBuf> = process.log_dirs().collect();
            let serves = !log_dirs.is_empty() && process.sockets().next().is_some();
            serves.then_some(RunningBroker { process_id: process.id, log_dirs })
        };
        health::processes().into_iter().filter_map(broker).collect()
    }

    /// Whose log directories they are.
    fn node_id(&self) -> Option<BrokerId> {
        let disk = RealDisk::new();
        self.log_dirs.iter().find_map(|dir| MetaProperties::read(&*disk, dir).ok()??.node_id)
    }
}

/// `kafka-server-stop`: tells brokers of this program that this user may tell to end in good order.
pub fn stop_server(arguments: &[String]) -> u8 {
    let Some(chosen) = Chosen::parse(arguments) else { return usage(STOP_USAGE) };
    if chosen.node_id.is_some() && chosen.process_roles.is_some() {
        let _ = writeln!(
            io::stdout(),
            "When both node-id and process-role are provided, the value for node-id will take precedence"
        );
    }
    let brokers = RunningBroker::all();
    if brokers.is_empty() {
        return nothing_to_stop("kafka");
    }
    let (chosen, others): (Vec<_>, Vec<_>) = brokers.into_iter().partition(|broker| chosen.includes(broker));
    if chosen.is_empty() {
        // No failure to Kafka's script.
        let _ = writeln!(io::stderr(), "kafka-server-stop: none of {} brokers is that", others.len());
        return 0;
    }
    tell(chosen.iter().map(|broker| broker.process_id), "kafka")
}

/// Sends the signal that the environment asks for to these processes; returns the exit code.
pub(super) fn tell(processes: impl Iterator<Item = i32>, what: &str) -> u8 {
    let name = std::env::var("SIGNAL").unwrap_or_default();
    let Some(signal) = signal(&name) else {
        return refuse(&[format!("SIGNAL={name} is no signal that ends a server")]);
    };
    let told = processes.filter_map(Pid::from_raw).filter(|id| kill_process(*id, signal).is_ok());
    if told.count() == 0 { nothing_to_stop(what) } else { 0 }
}

pub(super) fn nothing_to_stop(what: &str) -> u8 {
    let _ = writeln!(io::stdout(), "No {what} server to stop");
    1
}

/// By name or number; TERM if none is given.
fn signal(name: &str) -> Option<Signal> {
    match name.strip_prefix("SIG").unwrap_or(name) {
        "" | "TERM" | "15" => Some(Signal::TERM),
        "HUP" | "1" => Some(Signal::HUP),
        "INT" | "2" => Some(Signal::INT),
        "QUIT" | "3" => Some(Signal::QUIT),
        "KILL" | "9" => Some(Signal::KILL),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    #[test]
    fn what_is_not_understood_stops_nothing() {
        for arguments in [&["--help"][..], &["-h"], &["--node-id", "1"], &["--process-role"], &["--nodeid=1"], &["-9"]]
        {
            assert_eq!(Chosen::parse(&words(arguments)), None, "{arguments:?}");
        }
        assert_eq!(Chosen::parse(&words(&["config/server.properties"])), Some(Chosen::default()));
        assert_eq!(Chosen::parse(&words(&["--node-id="])), Some(Chosen::default()));
    }

    #[test]
    fn brokers_are_chosen_by_node_or_roles() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("meta.properties"), "version=1\nnode.id=7\ncluster.id=x\n").unwrap();
        let broker = RunningBroker { process_id: 1, log_dirs: vec![dir.path().to_owned()] };
        let chosen = |arguments: &[&str]| Chosen::parse(&words(arguments)).unwrap().includes(&broker);
        assert!(chosen(&[]));
        assert!(chosen(&["--node-id=7"]));
        assert!(!chosen(&["--node-id=77"]));
        assert!(chosen(&["--process-role=broker,controller"]));
        assert!(!chosen(&["--process-role=broker"]));
        assert!(chosen(&["--process-role=broker", "--node-id=7"]));
    }

    #[test]
    fn signals_have_names_and_numbers() {
        assert_eq!(
            ["", "SIGTERM", "2", "KILL"].map(signal),
            [Signal::TERM, Signal::TERM, Signal::INT, Signal::KILL].map(Some)
        );
        assert_eq!(signal("USR1"), None);
    }

    #[test]
    fn what_is_for_java_is_passed_over() {
        let arguments = words(&["-name", "kafkaServer", "-loggc", "server.properties"]);
        assert_eq!(without_java(&arguments), Ok(words(&["server.properties"])));
        assert!(without_java(&words(&["-daemon", "server.properties"])).is_err());
    }
}
