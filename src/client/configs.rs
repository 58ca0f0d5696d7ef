//! Settings of topics, brokers and groups, as a cluster tells them.

use kafka_protocol::messages::describe_configs_request::DescribeConfigsResource;
use kafka_protocol::messages::describe_configs_response::{DescribeConfigsResourceResult, DescribeConfigsResult};
use kafka_protocol::messages::incremental_alter_configs_request::{AlterConfigsResource, AlterableConfig};
use kafka_protocol::messages::{DescribeConfigsRequest, DescribeConfigsResponse, IncrementalAlterConfigsRequest};
use kafka_protocol::protocol::StrBytes;

use super::cluster::{Client, Target};
use super::error::{Error, Result};

/// What has settings; the numbers are Kafka's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(i8)]
pub enum ResourceType {
    Topic = 2,
    Broker = 4,
    BrokerLogger = 8,
    ClientMetrics = 16,
    Group = 32,
}

/// One resource that has settings.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Resource {
    pub kind: ResourceType,
    /// Empty for the defaults of all brokers.
    pub name: String,
}

impl Resource {
    pub fn new(kind: ResourceType, name: impl Into<String>) -> Resource {
        Resource { kind, name: name.into() }
    }

    /// Settings of one broker are known to that broker alone.
    pub fn target(&self) -> Target {
        match (self.kind, self.name.parse()) {
            (ResourceType::Broker | ResourceType::BrokerLogger, Ok(id)) => Target::Node(id),
            _ => Target::Any,
        }
    }
}

/// Where a value comes from, as the protocol counts it.
pub const SOURCE_DYNAMIC_TOPIC: i8 = 1;
pub const SOURCE_DEFAULT: i8 = 5;

/// The settings of these resources, each with its own failure, in the order they were asked for.
pub async fn describe(
    client: &Client,
    resources: &[Resource],
    synonyms: bool,
) -> Result<Vec<Result<Vec<DescribeConfigsResourceResult>>>> {
    // Those of single brokers go to these, all others together to any.
    let mut targets: Vec<Target> = Vec::new();
    for resource in resources {
        if !targets.contains(&resource.target()) {
            targets.push(resource.target());
        }
    }
    let mut results: Vec<DescribeConfigsResult> = Vec::new();
    for target in targets {
        let asked = resources.iter().filter(|resource| resource.target() == target);
        let asked = asked.map(|resource| {
            DescribeConfigsResource::default()
                .with_resource_type(resource.kind as i8)
                .with_resource_name(StrBytes::from_string(resource.name.clone()))
                .with_configuration_keys(None)
        });
        let request = DescribeConfigsRequest::default().with_resources(asked.collect()).with_include_synonyms(synonyms);
        let response: DescribeConfigsResponse = client.call("describeConfigs", &target, &request).await?;
        results.extend(response.results);
    }
    let of = |resource: &Resource| {
        let result = results
            .iter()
            .position(|result| result.resource_type == resource.kind as i8 && *result.resource_name == *resource.name);
        let Some(result) = result.map(|index| results[index].clone()) else {
            return Err(Error::of(-1, Some("The broker response did not contain a result for the config resource")));
        };
        Error::check(result.error_code, result.error_message.as_deref())?;
        Ok(result.configs)
    };
    Ok(resources.iter().map(of).collect())
}

/// How a value is changed, as the protocol counts it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    Set(String),
    Delete,
}

/// Changes settings of several resources, each on its own; the first refusal is returned.
pub async fn alter(client: &Client, changes: &[(Resource, Vec<(String, Change)>)]) -> Result<()> {
    for (resource, changes) in changes {
        let configs = changes.iter().map(|(name, change)| {
            let config = AlterableConfig::default().with_name(StrBytes::from_string(name.clone()));
            match change {
                Change::Set(value) => {
                    config.with_config_operation(0).with_value(Some(StrBytes::from_string(value.clone())))
                }
                Change::Delete => config.with_config_operation(1).with_value(Some(StrBytes::default())),
            }
        });
        let altered = AlterConfigsResource::default()
            .with_resource_type(resource.kind as i8)
            .with_resource_name(StrBytes::from_string(resource.name.clone()))
            .with_configs(configs.collect());
        let request = IncrementalAlterConfigsRequest::default().with_resources(vec![altered]);
        client
            .retry("incrementalAlterConfigs", async || {
                let response = client.send(&resource.target(), &request).await?;
                let mut answers = response.responses.iter();
                answers.try_for_each(|answer| {
                    Error::check(answer.error_code, answer.error_message.as_deref()).map_err(Error::for_good)
                })
            })
            .await?;
    }
    Ok(())
}
