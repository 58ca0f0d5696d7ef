//! Changes settings.

use std::collections::BTreeMap;

use super::{Entities, EntityType, describe, quotas};
use crate::cli::kafka::options::Options;
use crate::cli::kafka::say;
use crate::client::configs::{self, Change, Resource, ResourceType};
use crate::client::{Client, Error, config};
use crate::config::{java, keys};
use crate::protocol::ErrorCode;
use crate::security::scram::Mechanism;

pub async fn alter(client: &Client, options: &Options, entities: &Entities) -> Result<(), Error> {
    let (entity, name) = (entities.types[0], entities.names[0].as_str());
    let added = added(options)?;
    let deleted: Vec<String> = options.values("delete-config").iter().map(|key| java::trim(key).to_owned()).collect();
    match entity {
        EntityType::Topics => resource(client, ResourceType::Topic, name, added, deleted).await?,
        EntityType::ClientMetrics => resource(client, ResourceType::ClientMetrics, name, added, deleted).await?,
        EntityType::Groups => resource(client, ResourceType::Group, name, added, deleted).await?,
        EntityType::Brokers => {
            if !name.is_empty() && java::parse_integer::<i32>(name).is_none() {
                return Err(Error::illegal_argument(format!(
                    "The entity name for brokers must be a valid integer broker id, found: {name}"
                )));
            }
            resource(client, ResourceType::Broker, name, added, deleted).await?;
        }
        EntityType::BrokerLoggers => {
            let loggers = describe::settings(client, entity, name, false, false).await?;
            let known = |logger: &&String| !loggers.iter().any(|setting| *setting.name == ***logger);
            let unknown: Vec<&str> = deleted.iter().chain(added.keys()).filter(known).map(String::as_str).collect();
            if !unknown.is_empty() {
                return Err(invalid_config(format!("Invalid broker logger(s): {}", unknown.join(","))));
            }
            resource(client, ResourceType::BrokerLogger, name, added, deleted).await?;
        }
        EntityType::Users | EntityType::Clients => users_and_clients(client, entities, added, deleted).await?,
        EntityType::Ips => {
            let quota = |key: &&String| !keys::ip_quota_keys().contains(key);
            let unknown: Vec<&str> = added.keys().chain(&deleted).filter(quota).map(String::as_str).collect();
            if !unknown.is_empty() {
                return Err(Error::illegal_argument(format!(
                    "Only connection quota configs can be added for 'ips' using --bootstrap-server. Unexpected config names: {}",
                    unknown.join(",")
                )));
            }
            quotas::alter(client, entities, &added, &deleted).await?;
        }
    }
    if name.is_empty() {
        say!("Completed updating default config for {} in the cluster.", entity.name());
    } else {
        say!("Completed updating config for {} {name}.", entity.singular());
    }
    Ok(())
}

pub fn invalid_config(message: String) -> Error {
    Error::of(ErrorCode::InvalidConfig.code(), Some(message))
}

async fn resource(
    client: &Client,
    kind: ResourceType,
    name: &str,
    added: BTreeMap<String, String>,
    deleted: Vec<String>,
) -> Result<(), Error> {
    let deleted = deleted.into_iter().map(|key| (key, Change::Delete));
    let changes = deleted.chain(added.into_iter().map(|(key, value)| (key, Change::Set(value)))).collect();
    let altered = configs::alter(client, &[(Resource::new(kind, name), changes)]).await;
    altered.map_err(|error| {
        if error.is(ErrorCode::UnsupportedVersion) && kind != ResourceType::BrokerLogger {
            Error::unsupported_version(
                "The INCREMENTAL_ALTER_CONFIGS API is not supported by the cluster. The API is supported starting from version 2.3.0. You may want to use an older version of this tool to interact with your cluster, or upgrade your brokers to version 2.3.0 or newer to avoid this error.",
            )
        } else {
            error.in_execution()
        }
    })
}

/// What `--add-config` and `--add-config-file` say.
fn added(options: &Options) -> Result<BTreeMap<String, String>, Error> {
    let mut added = config::read_properties_of(options.value("add-config-file")?)?;
    if let Some(text) = options.value("add-config")? {
        added.extend(pairs(text)?);
    }
    let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '$' | '.' | '_' | '-');
    match added.keys().find(|key| !key.chars().all(legal)) {
        Some(key) => Err(Error::illegal_argument(format!("Invalid character found for config key: {key}"))),
        None => Ok(added),
    }
}

/// `k1=v1,k2=[v2,v3]`.
fn pairs(text: &str) -> Result<Vec<(String, String)>, Error> {
    let mut pieces = split_outside(text, ',');
    while pieces.len() > 1 && pieces.last().is_some_and(|piece| piece.is_empty()) {
        pieces.pop();
    }
    let mut pairs = Vec::new();
    for piece in pieces {
        let [key, value] = split_outside(piece, '=')[..] else {
            return Err(Error::illegal_argument(
                "requirement failed: Invalid entity config: all configs to be added must be in the format \"key=val\" or  \"key=[val1,val2]\" to group values which contain commas.",
            ));
        };
        pairs.push((java::trim(key).to_owned(), java::trim(&value.replace(['[', ']'], "")).to_owned()));
    }
    Ok(pairs)
}

/// Splits where no bracket is open: where what follows has an opening one, or the end, before a closing one.
fn split_outside(text: &str, separator: char) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut begin = 0;
    for (at, _) in text.match_indices(separator) {
        let rest = &text[at + separator.len_utf8()..];
        if rest.find(['[', ']']).is_none_or(|bracket| rest[bracket..].starts_with('[')) {
            parts.push(&text[begin..at]);
            begin = at + separator.len_utf8();
        }
    }
    parts.push(&text[begin..]);
    parts
}

async fn users_and_clients(
    client: &Client,
    entities: &Entities,
    added: BTreeMap<String, String>,
    deleted: Vec<String>,
) -> Result<(), Error> {
    let quota = |key: &str| keys::client_quota_keys().contains(key);
    let credential = |key: &str| Mechanism::named(key).is_some();
    let list =
        |keys: Vec<&String>| format!("List({})", keys.into_iter().map(String::as_str).collect::<Vec<_>>().join(", "));
    let set =
        |keys: Vec<&String>| format!("Set({})", keys.into_iter().map(String::as_str).collect::<Vec<_>>().join(", "));
    if entities.types[0] == EntityType::Clients || entities.types.len() == 2 {
        let strange: Vec<&String> = added.keys().filter(|key| !quota(key)).collect();
        if !strange.is_empty() {
            return Err(Error::illegal_argument(format!(
                "Only quota configs can be added for 'clients' using --bootstrap-server. Unexpected config names: {}",
                set(strange)
            )));
        }
        let strange: Vec<&String> = deleted.iter().filter(|key| !quota(key)).collect();
        if !strange.is_empty() {
            return Err(Error::illegal_argument(format!(
                "Only quota configs can be deleted for 'clients' using --bootstrap-server. Unexpected config names: {}",
                list(strange)
            )));
        }
    } else {
        let strange: Vec<&String> = added.keys().filter(|key| !quota(key) && !credential(key)).collect();
        if !strange.is_empty() {
            return Err(Error::illegal_argument(format!(
                "Only quota and SCRAM credential configs can be added for 'users' using --bootstrap-server. Unexpected config names: {}",
                set(strange)
            )));
        }
        let strange: Vec<&String> = deleted.iter().filter(|key| !quota(key) && !credential(key)).collect();
        if !strange.is_empty() {
            return Err(Error::illegal_argument(format!(
                "Only quota and SCRAM credential configs can be deleted for 'users' using --bootstrap-server. Unexpected config names: {}",
                list(strange)
            )));
        }
        if added.keys().chain(&deleted).any(|key| credential(key)) {
            if entities.names.iter().any(String::is_empty) {
                return Err(Error::illegal_argument(
                    "The use of --entity-default or --user-defaults is not allowed with User SCRAM Credentials using --bootstrap-server.",
                ));
            }
            if added.keys().chain(&deleted).any(|key| quota(key)) {
                return Err(Error::illegal_argument(
                    "Cannot alter both quota and SCRAM credential configs simultaneously for 'users' using --bootstrap-server.",
                ));
            }
        }
    }
    if added.keys().chain(&deleted).any(|key| quota(key)) {
        quotas::alter(client, entities, &added, &deleted).await
    } else {
        quotas::alter_credentials(client, &entities.names[0], &added, &deleted).await
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn brackets_keep_commas() {
        let pairs = |text| {
            let pairs = super::pairs(text).unwrap();
            pairs.into_iter().map(|(key, value)| format!("{key}:{value}")).collect::<Vec<_>>()
        };
        assert_eq!(pairs("a=1, b = 2"), ["a:1", "b:2"]);
        assert_eq!(pairs("a=[1,2],b=3"), ["a:1,2", "b:3"]);
        assert_eq!(pairs("a=[k=v,password=x=y],b="), ["a:k=v,password=x=y", "b:"]);
        assert!(super::pairs("a").is_err() && super::pairs("a=b=c").is_err() && super::pairs("a=1,,b=2").is_err());
    }
}
