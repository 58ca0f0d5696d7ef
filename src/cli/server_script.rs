//! `kafka-server-start` and `kafka-server-stop`, as Kafka's scripts take their arguments.

use std::io::{self, Write as _};

use clap::Parser as _;
use rustix::process::{Pid, Signal, kill_process};

use super::server::{Announcement, serve_with};
use super::{Arguments, health, refuse, settings, start};
use crate::telemetry;

/// Options of the script that are for the Java machine.
const FOR_JAVA: &[(&str, usize)] = &[("-name", 1), ("-loggc", 0)];

/// `kafka-server-start server.properties [--override key=value]...`; returns the exit code.
pub fn start_server(arguments: &[String]) -> u8 {
    let mut words = vec!["kafka-server-start".to_owned()];
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        if argument == "-daemon" {
            return refuse(&["-daemon: it stays in the foreground; have the shell start it with &".to_owned()]);
        }
        match FOR_JAVA.iter().find(|(option, _)| option == argument) {
            Some((_, values)) => drop(rest.by_ref().take(*values).count()),
            None => words.push(argument.clone()),
        }
    }
    let arguments = match Arguments::try_parse_from(&words) {
        Ok(arguments) if arguments.properties.is_some() && arguments.tool.is_none() => arguments,
        _ => {
            let usage =
                "USAGE: kafka-server-start [-name servicename] [-loggc] server.properties [--override property=value]*";
            let _ = writeln!(io::stderr(), "{usage}");
            return 1;
        }
    };
    if let Err(error) = telemetry::init() {
        return refuse(&[error.to_string()]);
    }
    match settings::read(&arguments, None) {
        Ok(given) => serve_with(given, None, Announcement::AsKafka, start),
        Err(reason) => refuse(&[reason]),
    }
}

/// `kafka-server-stop`: tells every broker of this program that this user may tell to end in good order.
pub fn stop_server(_: &[String]) -> u8 {
    let brokers = health::processes().into_iter().filter(|process| !process.sockets.is_empty());
    let told =
        brokers.filter_map(|process| Pid::from_raw(process.id)).filter(|id| kill_process(*id, Signal::TERM).is_ok());
    if told.count() == 0 {
        let _ = writeln!(io::stdout(), "No kafka server to stop");
        return 1;
    }
    0
}
