//! The cluster as it describes itself.

use kafka_protocol::messages::{DescribeClusterRequest, MetadataRequest};

use super::cluster::{Client, Node, Target};
use super::error::{Error, Result};
use crate::protocol::ErrorCode;

/// A node in a description.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DescribedNode {
    pub node: Node,
    pub is_fenced: bool,
}

/// What a cluster says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Description {
    pub cluster_id: Option<String>,
    pub controller: Option<i32>,
    /// In the order of the answer.
    pub nodes: Vec<DescribedNode>,
}

/// Asks for it. Fenced brokers are only told if they are asked for.
pub async fn describe(client: &Client, fenced: bool) -> Result<Description> {
    let kind = if client.config.controllers { 2 } else { 1 };
    let request = DescribeClusterRequest::default().with_endpoint_type(kind).with_include_fenced_brokers(fenced);
    let described = client
        .retry("describeCluster", async || {
            let connection = client.connection(&Target::Any).await?;
            if fenced && connection.versions.common::<DescribeClusterRequest>(i16::MAX)? < 2 {
                return Err(Error::unsupported_version(
                    "Including fenced broker endpoints is not supported with version 1",
                ));
            }
            let response = client.send(&Target::Any, &request).await?;
            Error::check(response.error_code, response.error_message.as_deref())?;
            Ok(response)
        })
        .await;
    match described {
        Ok(response) => Ok(Description {
            cluster_id: Some(response.cluster_id.to_string()),
            controller: Some(response.controller_id.0).filter(|&id| id >= 0),
            nodes: response
                .brokers
                .iter()
                .map(|broker| DescribedNode { node: broker.into(), is_fenced: broker.is_fenced })
                .collect(),
        }),
        // Clusters before Kafka 2.8.
        Err(error) if error.is(ErrorCode::UnsupportedVersion) && !fenced => by_metadata(client).await,
        Err(error) => Err(error),
    }
}

async fn by_metadata(client: &Client) -> Result<Description> {
    let request = MetadataRequest::default().with_topics(Some(Vec::new()));
    let response = client.call("describeCluster", &Target::Any, &request).await?;
    let nodes = response.brokers.iter().map(|broker| DescribedNode { node: broker.into(), is_fenced: false });
    Ok(Description {
        cluster_id: response.cluster_id.as_deref().map(str::to_owned),
        controller: Some(response.controller_id.0).filter(|&id| id >= 0),
        nodes: nodes.collect(),
    })
}
