//! `kafka-features`: the features of a cluster and their levels.

use std::collections::BTreeMap;

use kafka_protocol::messages::UpdateFeaturesRequest;
use kafka_protocol::messages::update_features_request::FeatureUpdateKey;

use super::argparse::{Argument, Arguments, Command, End, Exclusive, Grammar, Kind, terse};
use super::feature_levels::{FEATURES, name_and_level, release, say_defaults, say_needs};
use super::{admin_config, complain, say};
use crate::client::text;
use crate::client::{Client, Error, Target, block_on};
use crate::metadata::version::MetadataVersion;

const FEATURE: Argument = Argument::new(&["--feature"], "A feature, as feature=level.").append();
const UNSAFE: Argument = Argument::flag(&["--unsafe"], "Even if metadata is lost for ever.");
const DRY_RUN: Argument = Argument::flag(&["--dry-run"], "Only check it.");
const METADATA: Argument =
    Argument::new(&["--metadata"], "DEPRECATED: The level of metadata.version, for example 3.3-IV3.");
const RELEASE: Argument = Argument::new(&["--release-version"], "The release whose levels all features are to have.");

static GRAMMAR: Grammar = Grammar {
    program: "kafka-features",
    about: "This tool manages feature flags in Kafka.",
    arguments: &[
        Argument::new(&["--bootstrap-server"], "The brokers to connect to, host:port with commas between."),
        Argument::new(&["--bootstrap-controller"], "The controllers to connect to, host:port with commas between."),
        Argument::new(&["--command-config"], "A properties file with settings of the client."),
    ],
    exclusive: &[Exclusive { required: false, names: &["bootstrap-server", "bootstrap-controller"] }],
    commands: &[
        Command {
            name: "describe",
            help: "Describe the features and their levels.",
            arguments: &[Argument::new(&["--node-id"], "The node to ask. Without, any.").of(Kind::Integer)],
            exclusive: &[],
            ..Command::EMPTY
        },
        Command {
            name: "upgrade",
            help: "Raise levels of features.",
            arguments: &[METADATA, RELEASE, FEATURE, DRY_RUN],
            exclusive: &[],
            ..Command::EMPTY
        },
        Command {
            name: "downgrade",
            help: "Lower levels of features.",
            arguments: &[METADATA, RELEASE, FEATURE, UNSAFE, DRY_RUN],
            exclusive: &[],
            ..Command::EMPTY
        },
        Command {
            name: "disable",
            help: "Lower levels of features to zero.",
            arguments: &[Argument::new(&["--feature"], "A feature.").append(), UNSAFE, DRY_RUN],
            exclusive: &[],
            ..Command::EMPTY
        },
        Command {
            name: "version-mapping",
            help: "Tell the levels of the features in a release.",
            arguments: &[Argument::new(&["--release-version"], "The release. Without, the latest.")],
            exclusive: &[],
            ..Command::EMPTY
        },
        Command {
            name: "feature-dependencies",
            help: "Tell which levels of other features a level of a feature needs.",
            arguments: &[FEATURE.required()],
            exclusive: &[],
            ..Command::EMPTY
        },
    ],
    ..Grammar::EMPTY
};

pub fn run(words: &[String]) -> u8 {
    match Arguments::parse(&GRAMMAR, words).map_err(Failure::Command).and_then(|arguments| act(&arguments)) {
        Ok(()) => 0,
        Err(Failure::Command(end @ End::Help(_))) => end.report(0),
        Err(Failure::Command(end)) => {
            complain!("Command line error: {}. Type --help for help.", end.message());
            1
        }
        Err(Failure::Error(error)) => {
            complain!("{}", error.message());
            1
        }
    }
}

enum Failure {
    Command(End),
    Error(Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::Error(error)
    }
}

fn act(arguments: &Arguments) -> Result<(), Failure> {
    match arguments.command() {
        "version-mapping" => return Ok(say_defaults(arguments.value("release-version"))?),
        "feature-dependencies" => return Ok(dependencies(arguments)?),
        _ => {}
    }
    let (servers, controllers) = (arguments.value("bootstrap-server"), arguments.value("bootstrap-controller"));
    if servers.is_none() && controllers.is_none() {
        let missing = "You must specify either --bootstrap-controller or --bootstrap-server.";
        return Err(Failure::Command(arguments.fault(missing)));
    }
    let client = Client::new(admin_config(arguments.value("command-config"), servers, controllers)?);
    match arguments.command() {
        "describe" => block_on(describe(&client, arguments.integer("node-id")))?,
        "disable" => block_on(update(&client, arguments, disabled(arguments)?))?,
        _ => block_on(update(&client, arguments, changed(arguments)?))?,
    }
    Ok(())
}

/// The level as it is told: by the release for `metadata.version`.
fn level_text(feature: &str, level: i16) -> String {
    match MetadataVersion(level).name() {
        "unknown" if feature == "metadata.version" => format!("UNKNOWN {level}"),
        name if feature == "metadata.version" => name.to_owned(),
        _ => level.to_string(),
    }
}

async fn describe(client: &Client, node: Option<i32>) -> Result<(), Error> {
    let target = match node {
        Some(id) if id < 0 => {
            return Err(Error::illegal_argument(format!("Invalid node id {id}: must be non-negative.")));
        }
        Some(id) => Target::Node(id),
        None => Target::Any,
    };
    // What a node answers when it is connected to holds them.
    let connection = client.retry("describeFeatures", async || client.connection(&target).await);
    let connection = connection.await.map_err(Error::in_execution)?;
    let versions = &connection.versions.0;
    let mut supported: Vec<_> = versions.supported_features.iter().collect();
    supported.sort_by(|one, other| one.name.cmp(&other.name));
    let epoch = match versions.finalized_features_epoch {
        epoch if epoch >= 0 => epoch.to_string(),
        _ => "-".to_owned(),
    };
    for feature in supported {
        let finalized = versions.finalized_features.iter().find(|finalized| finalized.name == feature.name);
        let name = &*feature.name;
        say!(
            "Feature: {name:40}  SupportedMinVersion: {:15}  SupportedMaxVersion: {:15}  FinalizedVersionLevel: {:15}  Epoch: {epoch}",
            level_text(name, feature.min_version),
            level_text(name, feature.max_version),
            level_text(name, finalized.map_or(0, |finalized| finalized.max_version_level)),
        );
    }
    Ok(())
}

fn dependencies(arguments: &Arguments) -> Result<(), Error> {
    for text in arguments.values("feature") {
        let (name, level) = name_and_level(text)?;
        say_needs(name, level, || Error::illegal_argument(format!("No feature:{name} with feature level {level}")))?;
    }
    Ok(())
}

type Updates = BTreeMap<String, i16>;

fn add(updates: &mut Updates, name: &str, level: i16) -> Result<(), Error> {
    match updates.insert(name.to_owned(), level) {
        None => Ok(()),
        Some(_) => {
            Err(Error::new("java.lang.RuntimeException", format!("Feature {name} was specified more than once.")))
        }
    }
}

fn disabled(arguments: &Arguments) -> Result<Updates, Error> {
    let mut updates = Updates::new();
    for name in arguments.values("feature") {
        add(&mut updates, name, 0)?;
    }
    Ok(updates)
}

fn changed(arguments: &Arguments) -> Result<Updates, Error> {
    let mut updates = Updates::new();
    if let Some(text) = arguments.value("release-version") {
        if arguments.has("metadata") || arguments.has("feature") {
            return Err(terse("Can not specify `release-version` with other feature flags."));
        }
        let metadata = release(text, true)?;
        updates.insert("metadata.version".to_owned(), metadata);
        for feature in &FEATURES {
            let level = feature.default_at(metadata);
            // A feature is not upgraded to nothing.
            if arguments.command() != "upgrade" || level > 0 {
                updates.insert(feature.name.to_owned(), level);
            }
        }
        return Ok(updates);
    }
    if let Some(text) = arguments.value("metadata") {
        say!(" `metadata` flag is deprecated and may be removed in a future release.");
        updates.insert("metadata.version".to_owned(), release(text, true)?);
    }
    for text in arguments.values("feature") {
        let (name, level) = name_and_level(text)?;
        add(&mut updates, name, level)?;
    }
    Ok(updates)
}

async fn update(client: &Client, arguments: &Arguments, updates: Updates) -> Result<(), Error> {
    let action = arguments.command();
    if updates.is_empty() {
        return Err(terse(format!("You must specify at least one feature to {action}")));
    }
    let dry_run = arguments.has("dry-run");
    let kind = match action {
        "upgrade" => 1,
        _ if arguments.has("unsafe") => 3,
        _ => 2,
    };
    let keys = updates.iter().map(|(name, &level)| {
        FeatureUpdateKey::default().with_feature(text(name)).with_max_version_level(level).with_upgrade_type(kind)
    });
    let request = UpdateFeaturesRequest::default()
        .with_timeout_ms(client.config.request_timeout_ms())
        .with_feature_updates(keys.collect())
        .with_validate_only(dry_run);
    let answered = client
        .retry("updateFeatures", async || {
            let controller = client.connection(&Target::Controller).await?;
            if controller.versions.common::<UpdateFeaturesRequest>(i16::MAX)? < 1 {
                return Err(Error::unsupported_version(
                    "The controller does not know the kind of an update of features",
                ));
            }
            let response = client.send(&Target::Controller, &request).await?;
            Error::check(response.error_code, response.error_message.as_deref())?;
            Ok(response.results)
        })
        .await;
    let mut failures = 0;
    for (name, level) in &updates {
        let outcome = match &answered {
            Err(error) => Err(error.clone()),
            // Since v2 an answer without results is that all went well.
            Ok(results) => results
                .iter()
                .find(|result| *result.feature == **name)
                .map_or(Ok(()), |result| Error::check(result.error_code, result.error_message.as_deref())),
        };
        match outcome {
            Ok(()) => {
                let verb = if dry_run { "can be" } else { "was" };
                match action {
                    "disable" => say!("{name} {verb} disabled."),
                    _ => say!("{name} {verb} {action}d to {level}."),
                }
            }
            Err(error) => {
                failures += 1;
                let verb = if dry_run { "Can not" } else { "Could not" };
                match action {
                    "disable" => say!("{verb} disable {name}. {}", error.message()),
                    _ => say!("{verb} {action} {name} to {level}. {}", error.message()),
                }
            }
        }
    }
    match failures {
        0 => Ok(()),
        failures => Err(terse(format!("{failures} out of {} operation(s) failed.", updates.len()))),
    }
}
