//! `kafka-groups`: the groups of a cluster, of whatever type.

use std::time::Duration;

use super::options::{Options, Spec};
use super::{Stop, conclude, say, uncaught};
use crate::client::groups::{self, Listing};
use crate::client::log::{self, Level};
use crate::client::{Client, Error, block_on, config};

const ABOUT: &str = "This tool helps to list groups of all types.";

const OPTIONS: &[Spec] = &[
    Spec::with_argument("bootstrap-server", "server to connect to", "REQUIRED: The brokers to connect to first.")
        .required(),
    Spec::with_argument(
        "command-config",
        "command config property file",
        "A properties file with settings of the client.",
    ),
    Spec::flag("list", "List the groups."),
    Spec::with_argument("group-type", "type", "Only groups of this type: 'classic', 'consumer', 'share', 'streams'."),
    Spec::with_argument("protocol", "protocol", "Only groups of this protocol type."),
    Spec::flag("consumer", "Only groups of consumers: of the type 'consumer', or of the protocol 'consumer' or none."),
    Spec::flag("share", "Only share groups."),
    Spec::flag("streams", "Only streams groups."),
];

const TYPES: [&str; 4] = ["Classic", "Consumer", "Share", "Streams"];

/// How long the answers may take.
const TIMEOUT: Duration = Duration::from_secs(30);

pub fn run(words: &[String]) -> u8 {
    let options = match Options::parse_or_usage(OPTIONS, words) {
        Ok(options) => options,
        Err(stop) => return conclude(Err(stop), uncaught),
    };
    if let Err(stop) = check(&options) {
        return conclude(Err(stop), uncaught);
    }
    match list(&options) {
        Ok(()) => 0,
        Err(error) => {
            say!("Error while executing groups command : {}", error.message());
            log::write(Level::Error, "org.apache.kafka.tools.GroupsCommand", format_args!("{}\n", error.trace()));
            1
        }
    }
}

fn check(options: &Options) -> Result<(), Stop> {
    options.help_or_version(ABOUT)?;
    if !options.has("list") {
        return Err(options.usage("Command must include exactly one action: --list."));
    }
    if options.has("group-type") && wanted_type(options)?.is_none() {
        return Err(Error::illegal_argument("--group-type must be a valid group type.").into());
    }
    let filters = ["consumer", "group-type", "protocol", "share", "streams"];
    for filter in ["consumer", "share", "streams"] {
        let others: Vec<&str> = filters.into_iter().filter(|other| *other != filter).collect();
        options.exclude(filter, &others)?;
    }
    // What is wrong with these is told otherwise than what the client says.
    config::read_properties_of(options.value("command-config")?)?;
    options.value("bootstrap-server")?;
    Ok(())
}

fn wanted_type(options: &Options) -> Result<Option<&'static str>, Error> {
    let Some(name) = options.value("group-type")? else { return Ok(None) };
    Ok(TYPES.into_iter().find(|known| known.eq_ignore_ascii_case(name)))
}

fn list(options: &Options) -> Result<(), Error> {
    let kind = wanted_type(options)?;
    let client = Client::new(options.client_config()?);
    let listed = block_on(async {
        let listed = tokio::time::timeout(TIMEOUT, groups::list(&client, &[], &[])).await;
        listed.unwrap_or_else(|_| Err(Error::new("java.util.concurrent.TimeoutException", "").bare()))
    })?;
    let protocol = options.value("protocol")?;
    let only = |name: &str| options.has(name);
    let wanted = |group: &&Listing| match (kind, protocol) {
        (Some(kind), protocol) => group.kind == kind && protocol.is_none_or(|protocol| group.protocol_type == protocol),
        (None, Some(protocol)) => group.protocol_type == protocol,
        (None, None) if only("consumer") => {
            matches!(group.protocol_type.as_str(), "" | "consumer") || group.kind == "Consumer"
        }
        (None, None) if only("share") => group.kind == "Share",
        (None, None) if only("streams") => group.kind == "Streams",
        (None, None) => true,
    };
    let rows: Vec<[&str; 3]> =
        listed.iter().filter(wanted).map(|group| [&*group.id, &*group.kind, &*group.protocol_type]).collect();
    let width = rows.iter().flatten().map(|cell| cell.chars().count()).max().unwrap_or(0).max(20);
    say!("{:<width$} {:<width$} {:<width$}", "GROUP", "TYPE", "PROTOCOL");
    for [id, kind, protocol] in rows {
        say!("{id:<width$} {kind:<width$} {protocol:<width$} ");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(line: &str) -> String {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        match check(&Options::parse(OPTIONS, &words).unwrap()) {
            Ok(()) => String::new(),
            Err(Stop::Usage { message, .. }) => message,
            Err(Stop::Failed(error)) => error.to_string(),
            Err(Stop::Version) => "version".to_owned(),
        }
    }

    #[test]
    fn what_goes_together() {
        let with = |line: &str| checked(&format!("--bootstrap-server a:1 {line}"));
        assert_eq!(with("--list --group-type SHARE --protocol x"), "");
        assert_eq!(with("--consumer"), "Command must include exactly one action: --list.");
        assert_eq!(
            with("--list --group-type x"),
            "java.lang.IllegalArgumentException: --group-type must be a valid group type."
        );
        assert_eq!(with("--list --streams --share"), "Option \"[share]\" can't be used with option \"[streams]\"");
    }
}
