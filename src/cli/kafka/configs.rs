//! `kafka-configs`: settings of topics, brokers, loggers, groups and metrics subscriptions; quotas and SCRAM
//! credentials of users, clients and addresses.

mod alter;
mod describe;
mod quotas;

use std::net::ToSocketAddrs as _;

use super::options::{Options, Spec};
use super::{Stop, complain, conclude};
use crate::client::{Client, Error, block_on};
use crate::config::java;
use crate::protocol::ErrorCode;

const ABOUT: &str = "This tool helps to manipulate and describe entity config for a topic, client, user, broker, ip, client-metrics or group";

const OPTIONS: &[Spec] = &[
    Spec::with_argument("bootstrap-server", "server to connect to", "The broker to connect to."),
    Spec::with_argument("bootstrap-controller", "controller to connect to", "The controller to connect to."),
    Spec::with_argument(
        "command-config",
        "command config property file",
        "A properties file with settings of the client.",
    ),
    Spec::flag("alter", "Change the settings of the entity."),
    Spec::flag("describe", "List the settings of the entity."),
    Spec::flag("all", "With --describe: all settings, not only those that were set while running."),
    Spec::with_argument(
        "entity-type",
        "",
        "What is meant: topics/clients/users/brokers/broker-loggers/ips/client-metrics/groups",
    ),
    Spec::with_argument(
        "entity-name",
        "",
        "Its name: topic, client id, user, broker id, address, metrics subscription, or group id.",
    ),
    Spec::flag("entity-default", "In place of a name: the default of all clients/users/brokers/ips."),
    Spec::with_argument(
        "add-config",
        "",
        "Settings to add, with commas between them; brackets keep commas in a value: 'k1=v1,k2=[v1,v2,v2],k3=v3'. Users and clients together mean the clients of that user.",
    ),
    Spec::with_argument("add-config-file", "", "A properties file with settings to add."),
    Spec::with_argument("delete-config", "", "Keys to remove: 'k1,k2'").separated_by(','),
    Spec::with_argument("topic", "", "The topic's name."),
    Spec::with_argument("client", "", "The client's id."),
    Spec::flag("client-defaults", "The defaults of all clients."),
    Spec::with_argument("user", "", "The user's principal name."),
    Spec::flag("user-defaults", "The defaults of all users."),
    Spec::with_argument("broker", "", "The broker's id."),
    Spec::flag("broker-defaults", "The defaults of all brokers."),
    Spec::with_argument("broker-logger", "", "The id of the broker whose loggers are meant."),
    Spec::flag("ip-defaults", "The defaults of all addresses."),
    Spec::with_argument("ip", "", "The address."),
    Spec::with_argument("group", "", "The group's id."),
    Spec::with_argument("client-metrics", "", "The name of the metrics subscription."),
];

/// What settings can be of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EntityType {
    Topics,
    Clients,
    Users,
    Brokers,
    Ips,
    ClientMetrics,
    Groups,
    BrokerLoggers,
}

impl EntityType {
    /// In Kafka's order.
    const ALL: [EntityType; 8] = [
        EntityType::Topics,
        EntityType::Clients,
        EntityType::Users,
        EntityType::Brokers,
        EntityType::Ips,
        EntityType::ClientMetrics,
        EntityType::Groups,
        EntityType::BrokerLoggers,
    ];

    fn name(self) -> &'static str {
        match self {
            EntityType::Topics => "topics",
            EntityType::Clients => "clients",
            EntityType::Users => "users",
            EntityType::Brokers => "brokers",
            EntityType::Ips => "ips",
            EntityType::ClientMetrics => "client-metrics",
            EntityType::Groups => "groups",
            EntityType::BrokerLoggers => "broker-loggers",
        }
    }

    /// As it is told of one of them: the name without its last letter.
    fn singular(self) -> &'static str {
        let name = self.name();
        &name[..name.len() - 1]
    }

    /// Types whose entities have a default.
    fn has_default(self) -> bool {
        matches!(self, EntityType::Users | EntityType::Clients | EntityType::Brokers | EntityType::Ips)
    }
}

/// The options that name one entity, and its type.
const FLAGS: [(&str, EntityType); 8] = [
    ("topic", EntityType::Topics),
    ("client", EntityType::Clients),
    ("user", EntityType::Users),
    ("broker", EntityType::Brokers),
    ("broker-logger", EntityType::BrokerLoggers),
    ("ip", EntityType::Ips),
    ("client-metrics", EntityType::ClientMetrics),
    ("group", EntityType::Groups),
];
const DEFAULT_FLAGS: [(&str, EntityType); 4] = [
    ("client-defaults", EntityType::Clients),
    ("user-defaults", EntityType::Users),
    ("broker-defaults", EntityType::Brokers),
    ("ip-defaults", EntityType::Ips),
];

/// What is meant: one type, or users and clients; with as many names, or none. An empty name is the default.
#[derive(Debug, PartialEq, Eq)]
struct Entities {
    types: Vec<EntityType>,
    names: Vec<String>,
}

pub fn run(words: &[String]) -> u8 {
    let ended = Options::parse(OPTIONS, words).map_err(Stop::from).and_then(|options| {
        options.help_or_version(ABOUT)?;
        let entities = check(&options)?;
        let client = Client::new(options.client_config()?);
        Ok(block_on(act(&client, &options, &entities))?)
    });
    conclude(ended, |error| {
        let terse = error.class.starts_with("joptsimple.")
            || error.class == "java.lang.IllegalArgumentException"
            || error.is(ErrorCode::InvalidConfig)
            || error.is(ErrorCode::InvalidTopicException)
            || error.is(ErrorCode::UnsupportedVersion);
        if terse {
            complain!("{}", error.message());
        } else {
            complain!("Error while executing config command with args '{}'", words.join(" "));
            complain!("{}", error.trace());
        }
    })
}

async fn act(client: &Client, options: &Options, entities: &Entities) -> Result<(), Error> {
    if options.has("alter") {
        if entities.types.len() != entities.names.len() {
            return Err(Error::illegal_argument("An entity name must be specified for every entity type"));
        }
        alter::alter(client, options, entities).await
    } else {
        describe::describe(client, options, entities).await
    }
}

fn check(options: &Options) -> Result<Entities, Stop> {
    let illegal = |message: String| Err(Stop::Failed(Error::illegal_argument(message)));
    if options.has("alter") == options.has("describe") {
        return Err(options.usage("Command must include exactly one action: --describe, --alter"));
    }
    options.exclude("describe", &["alter", "add-config", "delete-config"])?;
    let mut type_names: Vec<&str> = options.values("entity-type");
    let flags = FLAGS.iter().chain(&DEFAULT_FLAGS).filter(|(flag, _)| options.has(flag));
    type_names.extend(flags.map(|(_, entity)| entity.name()));
    let duplicates: Vec<&str> = type_names
        .iter()
        .enumerate()
        .filter(|(at, name)| type_names[..*at].contains(name))
        .map(|(_, name)| *name)
        .collect();
    if !duplicates.is_empty() {
        return illegal(format!("Duplicate entity type(s) specified: {}", duplicates.join(",")));
    }
    if !options.has("bootstrap-server") && !options.has("bootstrap-controller") {
        return illegal("Either --bootstrap-server or --bootstrap-controller must be specified.".to_owned());
    }
    let mut types = Vec::new();
    for name in &type_names {
        match EntityType::ALL.into_iter().find(|entity| entity.name() == *name) {
            Some(entity) => types.push(entity),
            None => {
                let all: Vec<&str> = EntityType::ALL.iter().map(|entity| entity.name()).collect();
                return illegal(format!(
                    "Invalid entity type {name}, the entity type must be one of {} with a --bootstrap-server or --bootstrap-controller argument",
                    all.join(", ")
                ));
            }
        }
    }
    let is = |entity: EntityType| types.contains(&entity);
    if types.is_empty() {
        return illegal("At least one entity type must be specified".to_owned());
    }
    if types.len() > 1 && !(types.len() == 2 && is(EntityType::Users) && is(EntityType::Clients)) {
        return illegal("Only 'users' and 'clients' entity types may be specified together".to_owned());
    }
    let general = ["entity-name", "entity-type", "entity-default"].iter().any(|option| options.has(option));
    if general && FLAGS.iter().chain(&DEFAULT_FLAGS).any(|(flag, _)| options.has(flag)) {
        return illegal(
            "--entity-{type,name,default} should not be used in conjunction with specific entity flags".to_owned(),
        );
    }
    let names = names(options)?;
    let has_name = names.iter().any(|name| !name.is_empty());
    let has_default = names.iter().any(String::is_empty);
    if options.has("bootstrap-server") && options.has("bootstrap-controller") {
        return illegal("Only one of --bootstrap-server or --bootstrap-controller can be specified".to_owned());
    }
    let first = types[0].name();
    if has_name && (is(EntityType::Brokers) || is(EntityType::BrokerLoggers)) {
        for option in ["entity-name", "broker", "broker-logger"] {
            let name = options.value(option)?.unwrap_or("0");
            if java::parse_integer::<i32>(name).is_none() {
                return illegal(format!(
                    "The entity name for {first} must be a valid integer broker id, but it is: {name}"
                ));
            }
        }
    }
    if has_name && is(EntityType::Ips) {
        for option in ["entity-name", "ip"] {
            if let Some(name) = options.value(option)?
                && (name, 0).to_socket_addrs().is_err()
            {
                return illegal(format!(
                    "The entity name for {first} must be a valid IP or resolvable host, but it is: {name}"
                ));
            }
        }
    }
    let defaultable = types.iter().any(|entity| entity.has_default());
    let all: Vec<&str> = types.iter().map(|entity| entity.name()).collect();
    let all = all.join(",");
    if options.has("describe") {
        if !defaultable && options.has("entity-default") {
            return illegal(format!("--entity-default must not be specified with --describe of {all}"));
        }
        if is(EntityType::BrokerLoggers) && !has_name {
            return illegal(format!("An entity name must be specified with --describe of {all}"));
        }
    } else {
        if defaultable && !has_name && !has_default {
            return illegal(
                "An entity-name or default entity must be specified with --alter of users, clients, brokers or ips"
                    .to_owned(),
            );
        }
        if !defaultable && !has_name {
            return illegal(format!("An entity name must be specified with --alter of {all}"));
        }
        if options.has("add-config") && options.has("add-config-file") {
            return illegal("Only one of --add-config or --add-config-file must be specified".to_owned());
        }
        if !["add-config", "add-config-file", "delete-config"].iter().any(|option| options.has(option)) {
            return illegal(
                "At least one of --add-config, --add-config-file, or --delete-config must be specified with --alter"
                    .to_owned(),
            );
        }
    }
    Ok(Entities { types, names })
}

/// The names, in the order of `--entity-name` and `--entity-default` on the command line, or those of the other flags.
fn names(options: &Options) -> Result<Vec<String>, Error> {
    let mut names: Vec<String> = options
        .in_order(&["entity-name", "entity-default"])
        .map(|(_, name)| name.unwrap_or_default().to_owned())
        .collect();
    for (flag, _) in FLAGS {
        if options.has(flag) {
            names.push(options.text(flag)?.to_owned());
        }
    }
    names.extend(DEFAULT_FLAGS.iter().filter(|(flag, _)| options.has(flag)).map(|_| String::new()));
    Ok(names)
}

#[cfg(test)]
mod tests;
