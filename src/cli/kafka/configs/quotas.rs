//! Quotas, and SCRAM credentials of users.

use std::collections::BTreeMap;

use kafka_protocol::messages::alter_client_quotas_request::{EntityData, EntryData, OpData};
use kafka_protocol::messages::alter_user_scram_credentials_request::{
    ScramCredentialDeletion, ScramCredentialUpsertion,
};
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
use crate::client::text;
use crate::client::{Client, Error, Target};
use crate::config::java;
use crate::protocol::ErrorCode;
use crate::security::scram::{self, Mechanism};

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
        java::sort_by_hash(&mut values, table, |(key, _)| java::string_hash(key));
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
                    let name = Mechanism::of_id(info.mechanism).map_or("UNKNOWN", Mechanism::name);
                    format!("{name}=iterations={}", info.iterations)
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

/// Sets and removes SCRAM credentials of a user.
pub async fn alter_credentials(
    client: &Client,
    user: &str,
    added: &BTreeMap<String, String>,
    deleted: &[String],
) -> Result<(), Error> {
    let wanted = added.iter().filter_map(|(name, value)| Some((Mechanism::named(name)?, value)));
    let wanted: Vec<(Mechanism, i32, String)> = wanted
        .map(|(mechanism, value)| credential(mechanism, value).map(|(count, password)| (mechanism, count, password)))
        .collect::<Result<_, Error>>()?;
    let deletions = deleted.iter().filter_map(|key| {
        Some(ScramCredentialDeletion::default().with_name(text(user)).with_mechanism(Mechanism::named(key)? as i8))
    });
    // A user of whom one change makes no sense is not changed at all.
    let without_password = wanted.iter().any(|(_, _, password)| password.is_empty());
    let request = match without_password {
        true => AlterUserScramCredentialsRequest::default(),
        false => AlterUserScramCredentialsRequest::default()
            .with_deletions(deletions.collect())
            .with_upsertions(wanted.into_iter().map(|wanted| upsertion(user, wanted)).collect()),
    };
    let altered = client
        .retry("alterUserScramCredentials", async || {
            let response = client.send(&Target::Controller, &request).await?;
            if without_password {
                let code = ErrorCode::UnacceptableCredential.code();
                return Err(Error::of(code, Some("Password must not be empty")).for_good());
            }
            let mut results = response.results.iter();
            results.try_for_each(|result| {
                Error::check(result.error_code, result.error_message.as_deref()).map_err(Error::for_good)
            })
        })
        .await;
    altered.map_err(Error::in_execution)
}

/// How often to hash, and the password, of `iterations=8192,password=secret`; the former may be missing.
fn credential(mechanism: Mechanism, value: &str) -> Result<(i32, String), Error> {
    let invalid = || Error::illegal_argument(format!("Invalid credential property {}={value}", mechanism.constant()));
    let (iterations, rest) = match value.strip_prefix("iterations=") {
        Some(rest) => rest.split_once(',').map(|(iterations, rest)| (Some(iterations), rest)).ok_or_else(invalid)?,
        None => (None, value),
    };
    // What stands for any text in Kafka's pattern does not stand for the end of a line.
    let password =
        rest.strip_prefix("password=").filter(|password| !password.contains(['\n', '\r'])).ok_or_else(invalid)?;
    let iterations = match iterations {
        None | Some("-1") => scram::DEFAULT_ITERATIONS,
        Some(text) if text.strip_prefix('-').unwrap_or(text).bytes().all(|byte| byte.is_ascii_digit()) => {
            text.parse().map_err(|_| {
                let radix = if text.len() > 9 { " under radix 10" } else { "" };
                Error::new("java.lang.NumberFormatException", format!("For input string: \"{text}\"{radix}"))
            })?
        }
        Some(_) => return Err(invalid()),
    };
    if iterations < scram::MIN_ITERATIONS {
        return Err(Error::illegal_argument(format!(
            "Iterations {iterations} is less than the minimum {} required for {}",
            scram::MIN_ITERATIONS,
            mechanism.name()
        )));
    }
    Ok((iterations, password.to_owned()))
}

fn upsertion(user: &str, (mechanism, iterations, password): (Mechanism, i32, String)) -> ScramCredentialUpsertion {
    let salt = scram::random_salt();
    // A broker refuses more iterations: there is no need to spend the time on them here.
    let made = iterations.min(scram::MAX_ITERATIONS + 1);
    let salted_password = mechanism.salted_password(password.as_bytes(), &salt, made);
    ScramCredentialUpsertion::default()
        .with_name(text(user))
        .with_mechanism(mechanism as i8)
        .with_iterations(iterations)
        .with_salt(salt.into())
        .with_salted_password(salted_password.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_have_iterations_and_a_password() {
        let of = |value: &str| credential(Mechanism::Sha256, value).map_err(|error| error.message().to_owned());
        assert_eq!(of("password=a,b=c"), Ok((4096, "a,b=c".to_owned())));
        assert_eq!(of("iterations=8192,password="), Ok((8192, String::new())));
        assert_eq!(of("iterations=-1,password=x"), Ok((4096, "x".to_owned())));
        for wrong in ["", "x", "iterations=8192", "iterations=x,password=y", "password=a\nb", "salt=a,password=b"] {
            assert_eq!(of(wrong), Err(format!("Invalid credential property SCRAM_SHA_256={wrong}")));
        }
        let few = "Iterations 100 is less than the minimum 4096 required for SCRAM-SHA-256";
        assert_eq!(of("iterations=100,password=x"), Err(few.to_owned()));
    }
}
