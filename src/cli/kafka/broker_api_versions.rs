//! `kafka-broker-api-versions`: which versions of which APIs each broker speaks.

use kafka_protocol::messages::MetadataRequest;

use super::options::{Options, Spec};
use super::{Stop, conclude, say, uncaught};
use crate::client::connection::Versions;
use crate::client::{Client, Error, Node, Target, block_on};
use crate::protocol::ApiKey;

const OPTIONS: &[Spec] = &[
    Spec::with_argument(
        "command-config",
        "command config property file",
        "A properties file with settings of the client.",
    ),
    Spec::with_argument(
        "bootstrap-server",
        "server(s) to use for bootstrapping",
        "REQUIRED: The broker to connect to.",
    ),
];

pub fn run(words: &[String]) -> u8 {
    let ended = Options::parse(OPTIONS, words).map_err(Stop::from).and_then(|options| {
        options.help_or_version("This tool helps to retrieve broker version information.")?;
        options.require(&["bootstrap-server"])?;
        let mut config = options.client_config()?;
        config.client_id = "admin-1".to_owned();
        Ok(block_on(print(&Client::new(config), options.text("bootstrap-server")?))?)
    });
    conclude(ended, uncaught)
}

async fn print(client: &Client, servers: &str) -> Result<(), Error> {
    let metadata = client.send(&Target::Any, &MetadataRequest::default().with_topics(Some(Vec::new()))).await;
    let metadata = metadata.map_err(|error| {
        let servers: Vec<String> = servers
            .split(',')
            .enumerate()
            .map(|(at, server)| format!("{} (id: -{} rack: null isFenced: false)", server.trim(), at + 1))
            .collect();
        let message = format!("Request METADATA failed on brokers [{}]", servers.join(", "));
        Error::new("java.lang.RuntimeException", message).caused_by(error)
    })?;
    for broker in &metadata.brokers {
        let node = Node {
            id: broker.node_id.0,
            host: broker.host.to_string(),
            port: broker.port as u16,
            rack: broker.rack.as_deref().map(str::to_owned),
        };
        let name = format!(
            "{}:{} (id: {} rack: {} isFenced: false)",
            node.host,
            node.port,
            node.id,
            node.rack.as_deref().unwrap_or("null")
        );
        match client.connection(&Target::Node(node.id)).await {
            Ok(connection) => say!("{name} -> {}", table(&connection.versions)),
            Err(error) => say!("{name} -> ERROR: {}", error.in_execution().message()),
        }
    }
    Ok(())
}

/// One line for each API that the broker has or that a client of Kafka's knows, ascending by key.
fn table(versions: &Versions) -> String {
    let mut lines: Vec<(i16, String)> = Vec::new();
    for api in &versions.0.api_keys {
        let key = api.api_key;
        let range = match (api.min_version, api.max_version) {
            (lowest, highest) if lowest == highest => lowest.to_string(),
            (lowest, highest) => format!("{lowest} to {highest}"),
        };
        let line = match (ApiKey::from_key(key), of_client(key)) {
            (Some(known), Some((oldest, latest))) => {
                let usable = match () {
                    () if latest < api.min_version => "unusable: node too new".to_owned(),
                    () if api.max_version < oldest => "unusable: node too old".to_owned(),
                    () => format!("usable: {}", latest.min(api.max_version)),
                };
                format!("{}({key}): {range} [{usable}]", known.name())
            }
            (Some(known), None) => format!("{}({key}): {range} [usable: {}]", known.name(), api.max_version),
            (None, _) => format!("UNKNOWN({key}): {range}"),
        };
        lines.push((key, line));
    }
    for &(key, _, _) in CLIENT {
        if versions.of(key.key()).is_none() {
            lines.push((key.key(), format!("{}({}): UNSUPPORTED", key.name(), key.key())));
        }
    }
    lines.sort();
    let lines: Vec<String> = lines.into_iter().map(|(_, line)| line).collect();
    format!("(\n\t{}\n)", lines.join(",\n\t"))
}

fn of_client(key: i16) -> Option<(i16, i16)> {
    CLIENT.iter().find(|(known, _, _)| known.key() == key).map(|&(_, oldest, latest)| (oldest, latest))
}

/// The versions that the clients of Kafka 4.3.1 know of the APIs that brokers serve, oldest and latest.
const CLIENT: &[(ApiKey, i16, i16)] = &[
    (ApiKey::Produce, 0, 13),
    (ApiKey::Fetch, 4, 18),
    (ApiKey::ListOffsets, 1, 11),
    (ApiKey::Metadata, 0, 13),
    (ApiKey::OffsetCommit, 2, 10),
    (ApiKey::OffsetFetch, 1, 10),
    (ApiKey::FindCoordinator, 0, 6),
    (ApiKey::JoinGroup, 0, 9),
    (ApiKey::Heartbeat, 0, 4),
    (ApiKey::LeaveGroup, 0, 5),
    (ApiKey::SyncGroup, 0, 5),
    (ApiKey::DescribeGroups, 0, 6),
    (ApiKey::ListGroups, 0, 5),
    (ApiKey::SaslHandshake, 0, 1),
    (ApiKey::ApiVersions, 0, 4),
    (ApiKey::CreateTopics, 2, 7),
    (ApiKey::DeleteTopics, 1, 6),
    (ApiKey::DeleteRecords, 0, 2),
    (ApiKey::InitProducerId, 0, 6),
    (ApiKey::OffsetForLeaderEpoch, 2, 4),
    (ApiKey::AddPartitionsToTxn, 0, 5),
    (ApiKey::AddOffsetsToTxn, 0, 4),
    (ApiKey::EndTxn, 0, 5),
    (ApiKey::WriteTxnMarkers, 1, 2),
    (ApiKey::TxnOffsetCommit, 0, 5),
    (ApiKey::DescribeAcls, 1, 3),
    (ApiKey::CreateAcls, 1, 3),
    (ApiKey::DeleteAcls, 1, 3),
    (ApiKey::DescribeConfigs, 1, 4),
    (ApiKey::AlterConfigs, 0, 2),
    (ApiKey::AlterReplicaLogDirs, 1, 2),
    (ApiKey::DescribeLogDirs, 1, 5),
    (ApiKey::SaslAuthenticate, 0, 2),
    (ApiKey::CreatePartitions, 0, 3),
    (ApiKey::CreateDelegationToken, 1, 3),
    (ApiKey::RenewDelegationToken, 1, 2),
    (ApiKey::ExpireDelegationToken, 1, 2),
    (ApiKey::DescribeDelegationToken, 1, 3),
    (ApiKey::DeleteGroups, 0, 2),
    (ApiKey::ElectLeaders, 0, 2),
    (ApiKey::IncrementalAlterConfigs, 0, 1),
    (ApiKey::AlterPartitionReassignments, 0, 1),
    (ApiKey::ListPartitionReassignments, 0, 0),
    (ApiKey::OffsetDelete, 0, 0),
    (ApiKey::DescribeClientQuotas, 0, 1),
    (ApiKey::AlterClientQuotas, 0, 1),
    (ApiKey::DescribeUserScramCredentials, 0, 0),
    (ApiKey::AlterUserScramCredentials, 0, 0),
    (ApiKey::DescribeQuorum, 0, 2),
    (ApiKey::UpdateFeatures, 0, 2),
    (ApiKey::DescribeCluster, 0, 2),
    (ApiKey::DescribeProducers, 0, 0),
    (ApiKey::UnregisterBroker, 0, 0),
    (ApiKey::DescribeTransactions, 0, 0),
    (ApiKey::ListTransactions, 0, 2),
    (ApiKey::ConsumerGroupHeartbeat, 0, 1),
    (ApiKey::ConsumerGroupDescribe, 0, 1),
    (ApiKey::GetTelemetrySubscriptions, 0, 0),
    (ApiKey::PushTelemetry, 0, 0),
    (ApiKey::ListConfigResources, 0, 1),
    (ApiKey::DescribeTopicPartitions, 0, 0),
    (ApiKey::ShareGroupHeartbeat, 1, 1),
    (ApiKey::ShareGroupDescribe, 1, 1),
    (ApiKey::ShareFetch, 1, 2),
    (ApiKey::ShareAcknowledge, 1, 2),
    (ApiKey::AddRaftVoter, 0, 1),
    (ApiKey::RemoveRaftVoter, 0, 0),
    (ApiKey::InitializeShareGroupState, 0, 0),
    (ApiKey::ReadShareGroupState, 0, 0),
    (ApiKey::WriteShareGroupState, 0, 1),
    (ApiKey::DeleteShareGroupState, 0, 0),
    (ApiKey::ReadShareGroupStateSummary, 0, 1),
    (ApiKey::StreamsGroupHeartbeat, 0, 0),
    (ApiKey::StreamsGroupDescribe, 0, 0),
    (ApiKey::DescribeShareGroupOffsets, 0, 1),
    (ApiKey::AlterShareGroupOffsets, 0, 0),
    (ApiKey::DeleteShareGroupOffsets, 0, 0),
];

#[cfg(test)]
mod tests {
    use super::*;
    use kafka_protocol::messages::ApiVersionsResponse;
    use kafka_protocol::messages::api_versions_response::ApiVersion;

    #[test]
    fn versions_are_told_as_kafka_tells_them() {
        let api = |key, lowest, highest| {
            ApiVersion::default().with_api_key(key).with_min_version(lowest).with_max_version(highest)
        };
        let keys = vec![api(1, 4, 30), api(0, 0, 13), api(46, 0, 0), api(2, 90, 95), api(999, 1, 2)];
        let table = table(&Versions(ApiVersionsResponse::default().with_api_keys(keys)));
        let lines: Vec<&str> = table.lines().collect();
        assert_eq!(
            lines[..4],
            [
                "(",
                "\tProduce(0): 0 to 13 [usable: 13],",
                "\tFetch(1): 4 to 30 [usable: 18],",
                "\tListOffsets(2): 90 to 95 [unusable: node too new],",
            ]
        );
        assert!(lines.contains(&"\tListPartitionReassignments(46): 0 [usable: 0],"));
        assert!(lines.contains(&"\tPushTelemetry(72): UNSUPPORTED,"));
        assert_eq!(lines[lines.len() - 2..], ["\tUNKNOWN(999): 1 to 2", ")"]);
    }
}
