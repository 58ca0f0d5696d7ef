//! Quotas, and SCRAM credentials of users.

use std::collections::BTreeMap;

use kafka_protocol::messages::alter_client_quotas_request::{EntityData, EntryData, OpData};
use kafka_protocol::messages::alter_user_scram_credentials_request::ScramCredentialDeletion;
use kafka_protocol::messages::describe_client_quotas_request::ComponentData;
use kafka_protocol::messages::describe_client_quotas_response::EntryData as DescribedEntry;
use kafka_protocol::messages::describe_user_scram_credentials_request::UserName;
use kafka_protocol::messages::{
    AlterClientQuotasRequest, AlterUserScramCredentialsRequest, DescribeClientQuotasRequest,
    DescribeUserScramCredentialsRequest,
};
use kafka_protocol::protocol::StrBytes;

use super::alter::invalid_config;
use super::{Entities, EntityType};
use crate::cli::kafka::say;
use crate::client::topics::text;
use crate::client::{Client, Error, Target};
use crate::config::java;

/// The protocol's name of a type, and how the tool calls it.
fn names(entity: EntityType) -> (&'static str, &'static str) {
    match entity {
        EntityType::Users => ("user", "user-principal"),
        EntityType::Clients => ("client-id", "client-id"),
        _ => ("ip", "ip"),
    }
}

async fn find(client: &Client, entities: &Entities) -> Result<Vec<DescribedEntry>, Error> {
    if entities.names.len() > entities.types.len() {
        return Err(Error::illegal_argument("More entity names specified than entity types"));
    }
    let component = |(at, &entity): (usize, &EntityType)| {
        let component = ComponentData::default().with_entity_type(StrBytes::from_static_str(names(entity).0));
        match entities.names.get(at).map(String::as_str) {
            Some("") => component.with_match_type(1).with_match(None),
            Some(name) => component.with_match_type(0).with_match(Some(text(name))),
            None => component.with_match_type(2).with_match(None),
        }
    };
    let components = entities.types.iter().enumerate().map(component).collect();
    let request = DescribeClientQuotasRequest::default().with_components(components).with_strict(true);
    let described = client
        .retry("describeClientQuotas", async || {
            let response = client.send(&Target::Any, &request).await?;
            Error::check(response.error_code, response.error_message.as_deref()).map_err(Error::for_good)?;
            Ok(response.entries.unwrap_or_default())
        })
        .await;
    described.map_err(Error::in_execution)
}

/// Prints the quotas of what is meant.
pub async fn describe(client: &Client, entities: &Entities) -> Result<(), Error> {
    for entry in find(client, entities).await? {
        let types = [EntityType::Users, EntityType::Clients, EntityType::Ips].map(names);
        let of = types.iter().filter_map(|(kind, called)| {
            let part = entry.entity.iter().find(|part| *part.entity_type == **kind)?;
            Some(match part.entity_name.as_deref() {
                Some(name) => format!("{called} '{name}'"),
                None => format!("the default {called}"),
            })
        });
        let of: Vec<String> = of.collect();
        let mut values: Vec<(String, f64)> =
            entry.values.iter().map(|value| (value.key.to_string(), value.value)).collect();
        let table = java::grown_table(values.len());
        values.sort_by_key(|(key, _)| java::bucket(java::string_hash(key), table));
        let values: Vec<String> =
            values.iter().map(|(key, value)| format!("{key}={}", java::double_text(*value))).collect();
        say!("Quota configs for {} are {}", of.join(", "), values.join(", "));
    }
    Ok(())
}

/// Sets and removes quotas of one entity.
pub async fn alter(
    client: &Client,
    entities: &Entities,
    added: &BTreeMap<String, String>,
    deleted: &[String],
) -> Result<(), Error> {
    let old = find(client, entities).await?;
    let has = |key: &str| old.first().is_some_and(|entry| entry.values.iter().any(|value| &*value.key == key));
    let missing: Vec<&str> = deleted.iter().filter(|key| !has(key)).map(String::as_str).collect();
    if !missing.is_empty() {
        return Err(invalid_config(format!("Invalid config(s): {}", missing.join(","))));
    }
    let entity = entities.types.iter().zip(&entities.names).map(|(&entity, name)| {
        let name = Some(name.as_str()).filter(|name| !name.is_empty());
        EntityData::default()
            .with_entity_type(StrBytes::from_static_str(names(entity).0))
            .with_entity_name(name.map(text))
    });
    let mut ops = Vec::new();
    for (key, value) in added {
        let number: f64 = java::trim(value).parse().map_err(|_| {
            Error::illegal_argument(format!("Cannot parse quota configuration value for {key}: {value}"))
        })?;
        ops.push(OpData::default().with_key(text(key)).with_value(number));
    }
    ops.extend(deleted.iter().map(|key| OpData::default().with_key(text(key)).with_remove(true)));
    let entry = EntryData::default().with_entity(entity.collect()).with_ops(ops);
    let request = AlterClientQuotasRequest::default().with_entries(vec![entry]);
    let altered = client
        .retry("alterClientQuotas", async || {
            let response = client.send(&Target::Any, &request).await?;
            let mut entries = response.entries.iter();
            entries.try_for_each(|entry| {
                Error::check(entry.error_code, entry.error_message.as_deref()).map_err(Error::for_good)
            })
        })
        .await;
    altered.map_err(Error::in_execution)
}

/// The protocol's number of a SCRAM mechanism.
pub fn mechanism(name: &str) -> Option<i8> {
    match name {
        "SCRAM-SHA-256" => Some(1),
        "SCRAM-SHA-512" => Some(2),
        _ => None,
    }
}

/// Prints the SCRAM credentials of users; of all, if none is named.
pub async fn describe_credentials(client: &Client, users: &[String]) -> Result<(), Error> {
    let users =
        (!users.is_empty()).then(|| users.iter().map(|user| UserName::default().with_name(text(user))).collect());
    let request = DescribeUserScramCredentialsRequest::default().with_users(users);
    let described = client
        .retry("describeUserScramCredentials", async || {
            let response = client.send(&Target::Any, &request).await?;
            Error::check(response.error_code, response.error_message.as_deref()).map_err(Error::for_good)?;
            Ok(response.results)
        })
        .await;
    const NOT_FOUND: i16 = 91;
    for result in described.map_err(Error::in_execution)? {
        let user = &*result.user;
        match Error::check(result.error_code, result.error_message.as_deref()) {
            Ok(()) => {
                let credentials = result.credential_infos.iter().map(|info| {
                    let name = ["SCRAM-SHA-256", "SCRAM-SHA-512"]
                        .into_iter()
                        .find(|name| mechanism(name) == Some(info.mechanism));
                    format!("{}=iterations={}", name.unwrap_or("UNKNOWN"), info.iterations)
                });
                let credentials: Vec<String> = credentials.collect();
                say!("SCRAM credential configs for user-principal '{user}' are {}", credentials.join(", "));
            }
            // Such users are left out.
            Err(_) if result.error_code == NOT_FOUND => {}
            Err(error) => {
                let error = error.in_execution();
                say!(
                    "Error retrieving SCRAM credential configs for user-principal '{user}': ExecutionException: {}",
                    error.message()
                );
            }
        }
    }
    Ok(())
}

/// Removes SCRAM credentials of a user. To make some takes a derivation of keys that these tools do not have.
pub async fn alter_credentials(
    client: &Client,
    user: &str,
    added: &BTreeMap<String, String>,
    deleted: &[String],
) -> Result<(), Error> {
    let connection = client.connection(&Target::Any).await.map_err(Error::in_execution)?;
    connection.versions.common::<AlterUserScramCredentialsRequest>(i16::MAX).map_err(Error::in_execution)?;
    if !added.is_empty() {
        return Err(Error::illegal_argument(
            "These tools cannot add SCRAM credentials yet; use Apache Kafka's kafka-configs for that.",
        ));
    }
    let deletions = deleted.iter().filter_map(|key| {
        Some(ScramCredentialDeletion::default().with_name(text(user)).with_mechanism(mechanism(key)?))
    });
    let request = AlterUserScramCredentialsRequest::default().with_deletions(deletions.collect());
    let altered = client
        .retry("alterUserScramCredentials", async || {
            let response = client.send(&Target::Controller, &request).await?;
            let mut results = response.results.iter();
            results.try_for_each(|result| {
                Error::check(result.error_code, result.error_message.as_deref()).map_err(Error::for_good)
            })
        })
        .await;
    altered.map_err(Error::in_execution)
}
