//! Prints settings.

use std::collections::BTreeSet;

use kafka_protocol::messages::describe_configs_response::DescribeConfigsResourceResult;
use kafka_protocol::messages::{ListConfigResourcesRequest, ListGroupsRequest};

use super::{Entities, EntityType, quotas};
use crate::cli::kafka::options::Options;
use crate::cli::kafka::say;
use crate::client::configs::{self, Resource, ResourceType};
use crate::client::{Client, Error, Target, topics};
use crate::config::java;
use crate::metadata::topic_name;
use crate::protocol::ErrorCode;

pub async fn describe(client: &Client, options: &Options, entities: &Entities) -> Result<(), Error> {
    let entity = entities.types[0];
    match entity {
        EntityType::Users | EntityType::Clients => {
            quotas::describe(client, entities).await?;
            // Credentials are of users alone, and of users with names.
            let clients = entities.types.contains(&EntityType::Clients);
            if !clients && !entities.names.iter().any(String::is_empty) {
                quotas::describe_credentials(client, &entities.names).await?;
            }
            Ok(())
        }
        EntityType::Ips => quotas::describe(client, entities).await,
        _ => resources(client, entity, entities.names.first().map(String::as_str), options.has("all")).await,
    }
}

async fn resources(client: &Client, entity: EntityType, name: Option<&str>, all: bool) -> Result<(), Error> {
    let names = match name {
        Some(name) => {
            if !all && !exists(client, entity, name).await? {
                say!("The {} '{name}' doesn't exist and doesn't have dynamic config.", entity.singular());
                return Ok(());
            }
            vec![name.to_owned()]
        }
        None => every(client, entity).await?,
    };
    for name in names {
        if name.is_empty() {
            say!("Default configs for {} in the cluster are:", entity.name());
        } else {
            let which = if all { "All" } else { "Dynamic" };
            say!("{which} configs for {} {name} are:", entity.singular());
        }
        for setting in settings(client, entity, &name, true, all).await? {
            let synonyms: Vec<String> = setting
                .synonyms
                .iter()
                .map(|synonym| {
                    format!(
                        "{}:{}={}",
                        source(synonym.source),
                        &*synonym.name,
                        synonym.value.as_deref().unwrap_or("null")
                    )
                })
                .collect();
            say!(
                "  {}={} sensitive={} synonyms={{{}}}",
                &*setting.name,
                setting.value.as_deref().unwrap_or("null"),
                setting.is_sensitive,
                synonyms.join(", ")
            );
        }
    }
    Ok(())
}

/// The settings of one entity, ascending by key; without `all`, those that were set for it while running.
pub async fn settings(
    client: &Client,
    entity: EntityType,
    name: &str,
    synonyms: bool,
    all: bool,
) -> Result<Vec<DescribeConfigsResourceResult>, Error> {
    check_name(entity, name)?;
    let (kind, source) = match entity {
        EntityType::Brokers => (ResourceType::Broker, Some(if name.is_empty() { 3 } else { 2 })),
        EntityType::BrokerLoggers => (ResourceType::BrokerLogger, None),
        EntityType::ClientMetrics => (ResourceType::ClientMetrics, Some(7)),
        EntityType::Groups => (ResourceType::Group, Some(8)),
        _ => (ResourceType::Topic, Some(1)),
    };
    let described =
        configs::describe(client, &[Resource::new(kind, name)], synonyms).await.map_err(Error::in_execution)?;
    let mut settings = Vec::new();
    for described in described {
        settings.extend(described.map_err(Error::in_execution)?);
    }
    settings.retain(|setting| all || source.is_none_or(|source| setting.config_source == source));
    settings.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(settings)
}

fn check_name(entity: EntityType, name: &str) -> Result<(), Error> {
    if name.is_empty() {
        return Ok(());
    }
    match entity {
        EntityType::Topics => topic_name::validate(name)
            .map_err(|error| Error::of(ErrorCode::InvalidTopicException.code(), Some(error.to_string()))),
        EntityType::Brokers | EntityType::BrokerLoggers => match java::parse_integer::<i32>(name) {
            Some(_) => Ok(()),
            None => Err(Error::illegal_argument(format!(
                "The entity name for {} must be a valid integer broker id, found: {name}",
                entity.name()
            ))),
        },
        _ => Ok(()),
    }
}

async fn exists(client: &Client, entity: EntityType, name: &str) -> Result<bool, Error> {
    Ok(match entity {
        EntityType::Topics => {
            check_name(entity, name)?;
            let listed = topics::list(client, true).await.map_err(Error::in_execution)?;
            listed.iter().any(|topic| topic.name == name)
        }
        EntityType::Brokers | EntityType::BrokerLoggers => {
            let nodes = client.nodes().await.map_err(Error::in_execution)?;
            name.is_empty() || nodes.iter().any(|node| node.id.to_string() == name)
        }
        EntityType::Groups => {
            // Where nobody can tell which groups have settings, any may have some.
            groups(client).await?.contains(name)
                || with_settings(client, ResourceType::Group)
                    .await?
                    .is_none_or(|names| names.iter().any(|known| known == name))
        }
        _ => with_settings(client, ResourceType::ClientMetrics)
            .await?
            .is_some_and(|names| names.iter().any(|known| known == name)),
    })
}

/// All entities of a type.
async fn every(client: &Client, entity: EntityType) -> Result<Vec<String>, Error> {
    Ok(match entity {
        EntityType::Topics => {
            let listed = topics::list(client, true).await.map_err(Error::in_execution)?;
            let mut names: Vec<&str> = listed.iter().map(|topic| topic.name.as_str()).collect();
            java::in_hash_order(&mut names);
            names.into_iter().map(str::to_owned).collect()
        }
        EntityType::Groups => {
            let mut names = groups(client).await?;
            names.extend(with_settings(client, ResourceType::Group).await?.unwrap_or_default());
            names.into_iter().collect()
        }
        EntityType::ClientMetrics => with_settings(client, ResourceType::ClientMetrics).await?.unwrap_or_default(),
        _ => {
            let nodes = client.nodes().await.map_err(Error::in_execution)?;
            nodes.iter().map(|node| node.id.to_string()).chain([String::new()]).collect()
        }
    })
}

/// The groups of all brokers.
async fn groups(client: &Client) -> Result<BTreeSet<String>, Error> {
    let mut names = BTreeSet::new();
    for node in client.nodes().await.map_err(Error::in_execution)? {
        let target = Target::Node(node.id);
        let listed = client
            .retry("listGroups", async || {
                let response = client.send(&target, &ListGroupsRequest::default()).await?;
                Error::check(response.error_code, None::<String>)?;
                Ok(response)
            })
            .await;
        let listed = listed.map_err(Error::in_execution)?;
        names.extend(listed.groups.iter().map(|group| group.group_id.to_string()));
    }
    Ok(names)
}

/// The resources of a type that have settings; `None` where the cluster cannot tell.
async fn with_settings(client: &Client, kind: ResourceType) -> Result<Option<Vec<String>>, Error> {
    // v0 knows metrics subscriptions alone, and does not say so.
    let most = if kind == ResourceType::ClientMetrics { 0 } else { i16::MAX };
    let listed = client
        .retry("listConfigResources", async || {
            let connection = client.connection(&Target::Any).await?;
            if kind == ResourceType::Group && connection.versions.common::<ListConfigResourcesRequest>(i16::MAX)? < 1 {
                return Err(Error::unsupported_version("v0 ListConfigResources only supports CLIENT_METRICS"));
            }
            let mut request = ListConfigResourcesRequest::default();
            if most > 0 {
                request.resource_types = vec![kind as i8];
            }
            let response = client.send_at_most(&Target::Any, &request, most).await?;
            Error::check(response.error_code, None::<String>)?;
            Ok(response)
        })
        .await;
    match listed {
        Ok(response) => {
            Ok(Some(response.config_resources.iter().map(|resource| resource.resource_name.to_string()).collect()))
        }
        Err(error)
            if kind == ResourceType::Group
                && (error.is(ErrorCode::UnsupportedVersion) || error.is(ErrorCode::ClusterAuthorizationFailed)) =>
        {
            Ok(None)
        }
        Err(error) => Err(error.in_execution()),
    }
}

/// The name of where a value comes from.
fn source(id: i8) -> &'static str {
    match id {
        1 => "DYNAMIC_TOPIC_CONFIG",
        2 => "DYNAMIC_BROKER_CONFIG",
        3 => "DYNAMIC_DEFAULT_BROKER_CONFIG",
        4 => "STATIC_BROKER_CONFIG",
        5 => "DEFAULT_CONFIG",
        6 => "DYNAMIC_BROKER_LOGGER_CONFIG",
        7 => "DYNAMIC_CLIENT_METRICS_CONFIG",
        8 => "DYNAMIC_GROUP_CONFIG",
        _ => "UNKNOWN",
    }
}
