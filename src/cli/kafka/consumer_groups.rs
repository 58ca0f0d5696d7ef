//! `kafka-consumer-groups`: lists groups, describes them, resets and deletes their offsets, deletes them.

mod describe;
mod reset;
mod time;

use super::options::{Kind, Options, Spec};
use super::{Stop, complain, conclude, say, uncaught, uncaught_in_main};
use crate::client::{Client, Error, block_on, groups};
use crate::types::TopicPartition;

const ABOUT: &str = "This tool helps to list all consumer groups, describe a consumer group, delete consumer group info, or reset consumer group offsets.";

const OPTIONS: &[Spec] = &[
    Spec::with_argument("bootstrap-server", "server to connect to", "REQUIRED: The brokers to connect to first."),
    Spec::with_argument("group", "consumer group", "The group. May be given many times."),
    Spec::with_argument(
        "topic",
        "topic",
        "A topic, or some of its partitions as topic:0,1,2. May be given many times.",
    ),
    Spec::flag("all-topics", "With --reset-offsets: all topics that the group has offsets of."),
    Spec::flag("list", "List the groups."),
    Spec::flag("describe", "Describe groups, with the offsets that are committed and the lag."),
    Spec::flag("all-groups", "All groups."),
    Spec::flag("delete", "Delete groups with all their offsets."),
    Spec::with_argument("timeout", "timeout (ms)", "How long anything may take.").of(Kind::Long).default(&["30000"]),
    Spec::with_argument(
        "command-config",
        "command config property file",
        "A properties file with settings of the client.",
    ),
    Spec::flag(
        "reset-offsets",
        "Commit other offsets for groups without members: --dry-run, the default, shows them; --execute commits them; --export prints them as CSV. Which ones say --to-datetime, --by-duration, --to-earliest, --to-latest, --shift-by, --from-file, --to-current, --to-offset; of what, --all-topics or --topic.",
    ),
    Spec::flag("delete-offsets", "Delete offsets of a group."),
    Spec::flag("dry-run", "Show what would be reset."),
    Spec::flag("execute", "Reset it."),
    Spec::flag("export", "Print what is reset as CSV."),
    Spec::with_argument("to-offset", "offset", "Reset to this offset.").of(Kind::Long),
    Spec::with_argument("from-file", "path to CSV file", "Reset to the offsets of a file that --export has made."),
    Spec::with_argument(
        "to-datetime",
        "datetime",
        "Reset to the first offset at a time or later, 'YYYY-MM-DDThh:mm:ss.sss'.",
    ),
    Spec::with_argument("by-duration", "duration", "The same, so long before now, 'PnDTnHnMnS'."),
    Spec::flag("to-earliest", "Reset to the first offset."),
    Spec::flag("to-latest", "Reset to the end."),
    Spec::flag("to-current", "Reset to what is committed."),
    Spec::with_argument("shift-by", "number-of-offsets", "Reset by so many, forward or back.").of(Kind::Long),
    Spec::flag("members", "With --describe: the members."),
    Spec::flag("verbose", "With --describe: more of it."),
    Spec::flag("offsets", "With --describe: offsets and lag; the default."),
    Spec::with_optional_argument(
        "state",
        "",
        "With --describe: the state. With --list: the states, or only groups in these.",
    ),
    Spec::with_optional_argument("type", "", "With --list: the types, or only groups of these."),
    Spec::with_argument("validate-regex", "regex", "Say whether the regular expression is a valid one."),
];

const ACTIONS: [&str; 6] = ["list", "describe", "delete", "reset-offsets", "delete-offsets", "validate-regex"];
const STATES: [&str; 7] =
    ["PreparingRebalance", "CompletingRebalance", "Stable", "Dead", "Empty", "Assigning", "Reconciling"];
const TYPES: [&str; 2] = ["Classic", "Consumer"];

pub fn run(words: &[String]) -> u8 {
    let options = match Options::parse(OPTIONS, words) {
        Ok(options) => options,
        Err(error) => return uncaught_in_main(&error),
    };
    let checked = check(&options);
    if let Err(Stop::Failed(error)) = &checked {
        return uncaught_in_main(error);
    }
    let ended = checked.and_then(|()| {
        if let Some(regex) = options.value("validate-regex")? {
            match regex::Regex::new(regex) {
                Ok(_) => say!("The regular expression `{regex}` is valid."),
                Err(error) => say!("The regular expression `{regex}` is invalid: {error}."),
            }
            return Ok(());
        }
        let mut client = Client::new(options.client_config().map_err(unreadable_settings)?);
        if let Some(ms) = options.long("timeout")?.and_then(|ms| u64::try_from(ms).ok()) {
            client.config.api_timeout = std::time::Duration::from_millis(ms);
        }
        block_on(act(&client, &options))
    });
    match ended {
        Err(Stop::Failed(error)) if error.class == "java.lang.IllegalArgumentException" => {
            conclude(Err(options.usage(error.message())), uncaught)
        }
        // Kafka's tool says so, and ends well all the same.
        Err(Stop::Failed(error)) => {
            print_error(&format!("Executing consumer group command failed due to {}", error.message()));
            complain!("{}", error.trace());
            0
        }
        ended => conclude(ended, uncaught),
    }
}

fn check(options: &Options) -> Result<(), Stop> {
    options.help_or_version(ABOUT)?;
    if !options.has("validate-regex") {
        options.require(&["bootstrap-server"])?;
    }
    let has = |name: &str| options.has(name);
    let takes_groups = |action: &str| match has(action) && !has("group") && !has("all-groups") {
        true => Err(options.usage(format!("Option [{action}] takes one of these options: [group], [all-groups]"))),
        false => Ok(()),
    };
    takes_groups("describe")?;
    if has("describe") {
        if ["members", "offsets", "state"].iter().filter(|name| has(name)).count() > 1 {
            return Err(
                options.usage("Option [describe] takes at most one of these options: [members], [offsets], [state]")
            );
        }
        if options.has_argument("state") {
            return Err(options.usage("Option [describe] does not take a value for [state]"));
        }
    }
    takes_groups("delete")?;
    if has("delete") && has("topic") {
        return Err(
            options.usage("The consumer does not support topic-specific offset deletion from a consumer group.")
        );
    }
    if has("delete-offsets") && !(has("group") && has("topic")) {
        return Err(options.usage("Option [delete-offsets] takes the following options: [group], [topic]"));
    }
    if has("reset-offsets") {
        if has("dry-run") && has("execute") {
            return Err(options.usage("Option [reset-offsets] only accepts one of [execute] and [dry-run]"));
        }
        if !has("dry-run") && !has("execute") {
            complain!(
                "WARN: No action will be performed as the --execute option is missing. In version 5.0, this command will require either --dry-run or --execute to be specified. You should add the --dry-run option explicitly if you are scripting this command and want to keep the current default behavior without prompting."
            );
        }
        takes_groups("reset-offsets")?;
        for scenario in reset::SCENARIOS {
            let others: Vec<&str> = reset::SCENARIOS.into_iter().filter(|other| *other != scenario).collect();
            options.exclude(scenario, &others)?;
        }
    }
    options.exclude("group", &["all-groups", "list"])?;
    options.exclude("topic", &["list", "describe"])?;
    for (option, actions) in [
        ("members", &["describe"][..]),
        ("verbose", &["describe"]),
        ("offsets", &["describe"]),
        ("state", &["describe", "list"]),
        ("type", &["list"]),
    ] {
        if has(option) && !actions.iter().any(|action| has(action)) {
            let message = format!("Option(s) [{option}] are unavailable given other options on the command line");
            return Err(Error::new("joptsimple.UnavailableOptionException", message).into());
        }
    }
    if ACTIONS.iter().filter(|action| has(action)).count() != 1 {
        let actions: Vec<String> = ACTIONS.iter().map(|action| format!("--{action}")).collect();
        return Err(options.usage(format!("Command must include exactly one action: {}", actions.join(", "))));
    }
    Ok(())
}

async fn act(client: &Client, options: &Options) -> Result<(), Stop> {
    if options.has("list") {
        list(client, options).await
    } else if options.has("describe") {
        describe::run(client, options).await
    } else if options.has("delete") {
        delete(client, options).await
    } else if options.has("reset-offsets") {
        reset::run(client, options).await
    } else {
        delete_offsets(client, options).await
    }
}

/// What Kafka's tool prints of a failure.
fn print_error(message: &str) {
    say!("\nError: {message}");
}

/// As Java's runtime wraps an exception that nobody expects.
fn wrapped(error: Error) -> Error {
    Error::new("java.lang.RuntimeException", error.to_string()).caused_by(error)
}

fn unreadable_settings(error: Error) -> Error {
    if error.class.starts_with("java.nio.file.") { wrapped(error) } else { error }
}

fn fault(message: &str) -> Error {
    Error::new("java.lang.RuntimeException", message)
}

/// The groups that an action is for.
async fn wanted_groups(client: &Client, options: &Options) -> Result<Vec<String>, Error> {
    if options.has("all-groups") {
        return Ok(consumer_groups(client, &[], &TYPES).await?.into_iter().map(|group| group.id).collect());
    }
    Ok(options.values("group").into_iter().map(str::to_owned).collect())
}

async fn consumer_groups(client: &Client, states: &[&str], types: &[&str]) -> Result<Vec<groups::Listing>, Error> {
    let mut listed = groups::list(client, states, types).await.map_err(Error::in_execution)?;
    listed.retain(|group| matches!(group.protocol_type.as_str(), "" | "consumer"));
    Ok(listed)
}

/// The names of `known` that an argument has, in any case, with commas between them.
fn names(argument: Option<&str>, known: &'static [&'static str], what: &str) -> Result<Vec<&'static str>, Error> {
    let Some(text) = argument.filter(|text| !text.is_empty()) else { return Ok(Vec::new()) };
    let find = |name: &str| known.iter().copied().find(|known| known.eq_ignore_ascii_case(name.trim()));
    let found: Option<Vec<&str>> = text.split(',').map(find).collect();
    found.ok_or_else(|| {
        let valid = known.join(", ");
        match what {
            "state" => Error::illegal_argument(format!("Invalid state list '{text}'. Valid states are: {valid}")),
            _ => Error::illegal_argument(format!("Invalid types list '{text}'. Valid types are: {valid}")),
        }
    })
}

async fn list(client: &Client, options: &Options) -> Result<(), Stop> {
    let (with_type, with_state) = (options.has("type"), options.has("state"));
    if !with_type && !with_state {
        for group in consumer_groups(client, &[], &TYPES).await? {
            say!("{}", group.id);
        }
        return Ok(());
    }
    let types = names(options.value("type")?, &TYPES, "type")?;
    let states = names(options.value("state")?, &STATES, "state")?;
    let listed = consumer_groups(client, &states, &types).await?;
    let width = listed.iter().map(|group| group.id.len()).max().unwrap_or(0).max(15) + 10;
    let line = |id: &str, kind: &str, state: &str| {
        let mut line = format!("{id:<width$}");
        for column in [with_type.then_some(kind), with_state.then_some(state)].into_iter().flatten() {
            line.push_str(&format!(" {column:<20}"));
        }
        say!("{line}");
    };
    line("GROUP", "TYPE", "STATE");
    for group in &listed {
        line(&group.id, &group.kind, &group.state);
    }
    Ok(())
}

async fn delete(client: &Client, options: &Options) -> Result<(), Stop> {
    let (mut deleted, mut failed) = (Vec::new(), Vec::new());
    for group in wanted_groups(client, options).await? {
        match groups::delete(client, &group).await {
            Ok(()) => deleted.push(format!("'{group}'")),
            Err(error) => failed.push(format!("* Group '{group}' could not be deleted due to: {error}")),
        }
    }
    let deleted = deleted.join(", ");
    if failed.is_empty() {
        say!("Deletion of requested consumer groups ({deleted}) was successful.");
        return Ok(());
    }
    print_error("Deletion of some consumer groups failed:");
    failed.iter().for_each(|line| say!("{line}"));
    if !deleted.is_empty() {
        say!("\nThese consumer groups were deleted successfully: {deleted}");
    }
    Ok(())
}

async fn delete_offsets(client: &Client, options: &Options) -> Result<(), Stop> {
    let group = options.text("group")?;
    let mut rows: Vec<(TopicPartition, Option<String>)> = Vec::new();
    let mut partitions = Vec::new();
    for argument in options.values("topic") {
        match reset::partitions_of(client, &[argument]).await {
            Ok(found) => partitions.extend(found),
            Err(error) if argument.contains(':') => return Err(error.into()),
            Err(error) => rows.push((TopicPartition::new(argument, -1), Some(error.to_string()))),
        }
    }
    partitions.sort();
    partitions.dedup();
    let outcome = groups::delete_offsets(client, group, &partitions).await;
    use crate::protocol::ErrorCode::{
        GroupAuthorizationFailed, GroupIdNotFound, GroupSubscribedToTopic, InvalidGroupId, NonEmptyGroup,
        TopicAuthorizationFailed, UnknownTopicOrPartition,
    };
    let first = match &outcome {
        Ok(outcomes) => outcomes.values().find_map(|outcome| outcome.as_ref().err()),
        Err(error) => Some(error),
    };
    match first.map(|error| (error, error.code)) {
        None => say!("Request succeeded for deleting offsets from group {group}."),
        Some((error, Some(InvalidGroupId | GroupIdNotFound | GroupAuthorizationFailed | NonEmptyGroup))) => {
            print_error(error.code.map_or("", |code| code.message()));
        }
        Some((_, Some(GroupSubscribedToTopic | TopicAuthorizationFailed | UnknownTopicOrPartition))) => {
            print_error("Encountered some partition-level error, see the follow-up details.");
        }
        Some((error, code)) => {
            print_error(&format!(
                "Encountered some unknown error: {}",
                code.map_or(error.message(), |code| code.name())
            ));
        }
    }
    for partition in partitions {
        let error = match &outcome {
            Ok(outcomes) => outcomes.get(&partition).and_then(|outcome| outcome.as_ref().err()),
            Err(error) => Some(error),
        };
        // As the message of the exception around it.
        rows.push((partition, error.map(ToString::to_string)));
    }
    rows.sort_by_key(|(partition, _)| format!("{}{}", &*partition.topic, partition.partition.0));
    let width = rows.iter().map(|(partition, _)| partition.topic.len()).max().unwrap_or(0).max(15);
    let mut text = format!("\n{:<width$} {:<10} {:<15}", "TOPIC", "PARTITION", "STATUS");
    for (partition, error) in rows {
        let number = if partition.partition.0 < 0 { "-".to_owned() } else { partition.partition.0.to_string() };
        let status = error.map_or("Successful".to_owned(), |error| format!("Error: {error}"));
        text.push_str(&format!("\n{:<width$} {number:<10} {status:<15}", &*partition.topic));
    }
    say!("{text}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(line: &str) -> String {
        let options = Options::parse(OPTIONS, &line.split(' ').map(str::to_owned).collect::<Vec<_>>()).unwrap();
        match check(&options) {
            Ok(()) => String::new(),
            Err(Stop::Usage { message, .. }) => message,
            Err(other) => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_goes_together() {
        assert_eq!(checked("--bootstrap-server a:1 --list --state"), "");
        assert_eq!(checked("--list"), "Missing required argument \"[bootstrap-server]\"");
        let with = |line: &str| checked(&format!("--bootstrap-server a:1 {line}"));
        assert_eq!(with("--describe"), "Option [describe] takes one of these options: [group], [all-groups]");
        assert_eq!(with("--describe --group g --state x"), "Option [describe] does not take a value for [state]");
        assert_eq!(with("--describe --all-groups --members --verbose"), "");
        assert!(with("--group g").starts_with("Command must include exactly one action: --list, --describe"));
        assert_eq!(
            with("--reset-offsets --group g --dry-run --to-latest --to-offset 1"),
            "Option \"[to-offset]\" can't be used with option \"[to-latest]\""
        );
        assert_eq!(
            with("--delete-offsets --group g"),
            "Option [delete-offsets] takes the following options: [group], [topic]"
        );
    }

    #[test]
    fn states_and_types_are_read_in_any_case() {
        assert_eq!(names(Some("stable, EMPTY"), &STATES, "state").unwrap(), ["Stable", "Empty"]);
        assert_eq!(names(None, &STATES, "state").unwrap(), [""; 0]);
        assert!(names(Some("x"), &TYPES, "type").unwrap_err().message().starts_with("Invalid types list 'x'."));
    }
}
