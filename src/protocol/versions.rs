//! THE table of what this broker serves, and nothing else says it: what ApiVersions advertises, which requests are
//! let in, and which header a message has all follow from here. Serving one more API is one more line in [`SERVED`],
//! and its handler.
//!
//! Beside it stands the list of every API key that Kafka 4.3.1 knows, with the first version in which its messages are
//! "flexible" (KIP-482: compact lengths, tagged fields, and headers that carry tagged fields too).

use std::fmt;

/// First flexible version of an API whose messages never became flexible.
const NEVER: i16 = i16::MAX;

macro_rules! api_keys {
    ($($name:ident = $key:literal, $first_flexible:expr;)*) => {
        /// An API of Kafka 4.3.1, served here or not.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(i16)]
        pub enum ApiKey {
            $($name = $key,)*
        }

        impl ApiKey {
            /// Every API, in ascending order of its key.
            pub const ALL: &'static [ApiKey] = &[$(ApiKey::$name,)*];

            /// The API of this number; `None` for one that Kafka 4.3.1 does not know.
            pub const fn from_key(key: i16) -> Option<ApiKey> {
                match key {
                    $($key => Some(ApiKey::$name),)*
                    _ => None,
                }
            }

            /// Kafka's name of the API.
            pub const fn name(self) -> &'static str {
                match self {
                    $(ApiKey::$name => stringify!($name),)*
                }
            }

            /// The first version whose messages are flexible (KIP-482).
            const fn first_flexible(self) -> i16 {
                match self {
                    $(ApiKey::$name => $first_flexible,)*
                }
            }
        }
    };
}

api_keys! {
    Produce = 0, 9;
    Fetch = 1, 12;
    ListOffsets = 2, 6;
    Metadata = 3, 9;
    LeaderAndIsr = 4, NEVER;
    StopReplica = 5, NEVER;
    UpdateMetadata = 6, NEVER;
    ControlledShutdown = 7, NEVER;
    OffsetCommit = 8, 8;
    OffsetFetch = 9, 6;
    FindCoordinator = 10, 3;
    JoinGroup = 11, 6;
    Heartbeat = 12, 4;
    LeaveGroup = 13, 4;
    SyncGroup = 14, 4;
    DescribeGroups = 15, 5;
    ListGroups = 16, 3;
    SaslHandshake = 17, NEVER;
    ApiVersions = 18, 3;
    CreateTopics = 19, 5;
    DeleteTopics = 20, 4;
    DeleteRecords = 21, 2;
    InitProducerId = 22, 2;
    OffsetForLeaderEpoch = 23, 4;
    AddPartitionsToTxn = 24, 3;
    AddOffsetsToTxn = 25, 3;
    EndTxn = 26, 3;
    WriteTxnMarkers = 27, 1;
    TxnOffsetCommit = 28, 3;
    DescribeAcls = 29, 2;
    CreateAcls = 30, 2;
    DeleteAcls = 31, 2;
    DescribeConfigs = 32, 4;
    AlterConfigs = 33, 2;
    AlterReplicaLogDirs = 34, 2;
    DescribeLogDirs = 35, 2;
    SaslAuthenticate = 36, 2;
    CreatePartitions = 37, 2;
    CreateDelegationToken = 38, 2;
    RenewDelegationToken = 39, 2;
    ExpireDelegationToken = 40, 2;
    DescribeDelegationToken = 41, 2;
    DeleteGroups = 42, 2;
    ElectLeaders = 43, 2;
    IncrementalAlterConfigs = 44, 1;
    AlterPartitionReassignments = 45, 0;
    ListPartitionReassignments = 46, 0;
    OffsetDelete = 47, NEVER;
    DescribeClientQuotas = 48, 1;
    AlterClientQuotas = 49, 1;
    DescribeUserScramCredentials = 50, 0;
    AlterUserScramCredentials = 51, 0;
    Vote = 52, 0;
    BeginQuorumEpoch = 53, 1;
    EndQuorumEpoch = 54, 1;
    DescribeQuorum = 55, 0;
    AlterPartition = 56, 2;
    UpdateFeatures = 57, 0;
    Envelope = 58, 0;
    FetchSnapshot = 59, 0;
    DescribeCluster = 60, 0;
    DescribeProducers = 61, 0;
    BrokerRegistration = 62, 0;
    BrokerHeartbeat = 63, 0;
    UnregisterBroker = 64, 0;
    DescribeTransactions = 65, 0;
    ListTransactions = 66, 0;
    AllocateProducerIds = 67, 0;
    ConsumerGroupHeartbeat = 68, 0;
    ConsumerGroupDescribe = 69, 0;
    ControllerRegistration = 70, 0;
    GetTelemetrySubscriptions = 71, 0;
    PushTelemetry = 72, 0;
    AssignReplicasToDirs = 73, 0;
    ListConfigResources = 74, 0;
    DescribeTopicPartitions = 75, 0;
    ShareGroupHeartbeat = 76, 1;
    ShareGroupDescribe = 77, 1;
    ShareFetch = 78, 1;
    ShareAcknowledge = 79, 1;
    AddRaftVoter = 80, 0;
    RemoveRaftVoter = 81, 0;
    UpdateRaftVoter = 82, 0;
    InitializeShareGroupState = 83, 0;
    ReadShareGroupState = 84, 0;
    WriteShareGroupState = 85, 0;
    DeleteShareGroupState = 86, 0;
    ReadShareGroupStateSummary = 87, 0;
    StreamsGroupHeartbeat = 88, 0;
    StreamsGroupDescribe = 89, 0;
    DescribeShareGroupOffsets = 90, 0;
    AlterShareGroupOffsets = 91, 0;
    DeleteShareGroupOffsets = 92, 0;
}

impl ApiKey {
    /// The number on the wire.
    pub const fn key(self) -> i16 {
        self as i16
    }

    /// Whether messages of this version have compact lengths and tagged fields.
    pub const fn is_flexible(self, version: i16) -> bool {
        version >= self.first_flexible()
    }

    /// Version of the header before a request: 1, or 2 with tagged fields. (Header 0 had one user, which is gone.)
    pub const fn request_header_version(self, version: i16) -> i16 {
        if self.is_flexible(version) { 2 } else { 1 }
    }

    /// Version of the header before a response: 0, or 1 with tagged fields.
    ///
    /// ApiVersions stays at 0 for ever, so that a client can read the answer before it knows what the broker speaks
    /// (KIP-511).
    pub const fn response_header_version(self, version: i16) -> i16 {
        if self.is_flexible(version) && !matches!(self, ApiKey::ApiVersions) { 1 } else { 0 }
    }

    /// What this broker serves of the API; `None` if nothing.
    pub fn served(self) -> Option<&'static Served> {
        SERVED.binary_search_by_key(&self, |served| served.api_key).ok().map(|index| &SERVED[index])
    }
}

impl fmt::Display for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The versions in which an API is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Served {
    pub api_key: ApiKey,
    /// Lowest version advertised.
    pub min_version: i16,
    /// Highest version advertised.
    pub max_version: i16,
    /// Lowest version let in. Above `min_version` for Produce alone.
    pub first_accepted: i16,
}

const fn served(api_key: ApiKey, min_version: i16, max_version: i16) -> Served {
    Served { api_key, min_version, max_version, first_accepted: min_version }
}

impl Served {
    /// Advertises the versions below `version` and yet refuses them.
    const fn accepted_from(self, version: i16) -> Served {
        Served { first_accepted: version, ..self }
    }

    /// Whether a request of this version is let in.
    pub const fn accepts(&self, version: i16) -> bool {
        version >= self.first_accepted && version <= self.max_version
    }
}

/// What this broker serves, ascending by key.
pub const SERVED: &[Served] = &[
    // librdkafka before 2.11 takes a broker without Produce v0 for one that cannot compress (KAFKA-18659).
    served(ApiKey::Produce, 0, 13).accepted_from(3),
    served(ApiKey::Fetch, 4, 18),
    served(ApiKey::ListOffsets, 1, 11),
    served(ApiKey::Metadata, 0, 13),
    served(ApiKey::OffsetCommit, 2, 10),
    served(ApiKey::OffsetFetch, 1, 10),
    served(ApiKey::FindCoordinator, 0, 6),
    served(ApiKey::JoinGroup, 0, 9),
    served(ApiKey::Heartbeat, 0, 4),
    served(ApiKey::LeaveGroup, 0, 5),
    served(ApiKey::SyncGroup, 0, 5),
    served(ApiKey::DescribeGroups, 0, 6),
    served(ApiKey::ListGroups, 0, 5),
    served(ApiKey::ApiVersions, 0, 4),
    served(ApiKey::CreateTopics, 2, 7),
    served(ApiKey::DeleteTopics, 1, 6),
    served(ApiKey::DeleteRecords, 0, 2),
    served(ApiKey::InitProducerId, 0, 5),
    served(ApiKey::OffsetForLeaderEpoch, 2, 4),
    served(ApiKey::AddPartitionsToTxn, 0, 5),
    served(ApiKey::AddOffsetsToTxn, 0, 4),
    served(ApiKey::EndTxn, 0, 5),
    served(ApiKey::WriteTxnMarkers, 1, 2),
    served(ApiKey::TxnOffsetCommit, 0, 5),
    served(ApiKey::DescribeConfigs, 1, 4),
    served(ApiKey::AlterConfigs, 0, 2),
    served(ApiKey::AlterReplicaLogDirs, 1, 2),
    served(ApiKey::DescribeLogDirs, 1, 5),
    served(ApiKey::CreatePartitions, 0, 3),
    served(ApiKey::DeleteGroups, 0, 2),
    served(ApiKey::IncrementalAlterConfigs, 0, 1),
    served(ApiKey::OffsetDelete, 0, 0),
    served(ApiKey::UpdateFeatures, 0, 2),
    served(ApiKey::DescribeCluster, 0, 2),
    served(ApiKey::DescribeProducers, 0, 0),
    served(ApiKey::DescribeTransactions, 0, 0),
    served(ApiKey::ListTransactions, 0, 2),
    served(ApiKey::ConsumerGroupHeartbeat, 0, 1),
    served(ApiKey::ConsumerGroupDescribe, 0, 1),
    served(ApiKey::ListConfigResources, 0, 1),
    served(ApiKey::DescribeTopicPartitions, 0, 0),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_go_both_ways_and_leave_no_hole() {
        for (index, &api) in ApiKey::ALL.iter().enumerate() {
            assert_eq!(api.key(), index as i16, "{api}");
            assert_eq!(ApiKey::from_key(api.key()), Some(api));
        }
        assert_eq!(ApiKey::from_key(-1), None);
        assert_eq!(ApiKey::from_key(ApiKey::ALL.len() as i16), None);
    }

    #[test]
    fn the_table_is_sorted_and_its_ranges_are_ranges() {
        assert!(SERVED.is_sorted_by(|a, b| a.api_key < b.api_key));
        for served in SERVED {
            assert!(0 <= served.min_version && served.min_version <= served.first_accepted, "{}", served.api_key);
            assert!(served.first_accepted <= served.max_version, "{}", served.api_key);
            assert_eq!(served.api_key.served(), Some(served));
        }
        assert_eq!(ApiKey::ControlledShutdown.served(), None);
    }

    #[test]
    fn headers_follow_the_first_flexible_version() {
        assert_eq!(ApiKey::Metadata.request_header_version(8), 1);
        assert_eq!(ApiKey::Metadata.request_header_version(9), 2);
        assert_eq!(ApiKey::Metadata.response_header_version(8), 0);
        assert_eq!(ApiKey::Metadata.response_header_version(9), 1);
        assert_eq!(ApiKey::ApiVersions.request_header_version(4), 2);
        assert_eq!(ApiKey::ApiVersions.response_header_version(4), 0);
        assert_eq!(ApiKey::SaslHandshake.request_header_version(1), 1);
    }
}
