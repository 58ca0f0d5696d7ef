//! What a hostile or careless peer may send, against the codec and the log's checks, in the process's own terms: it must not panic, and it
//! must not reserve or touch memory that the peer merely names.
//!
//! The frames are those that broke the `kafka-protocol` crate when it was fuzzed. This binary uses the broker's own
//! allocator; the tests measure the whole process, so they take turns.

use std::fs;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use kafka_protocol::messages as kafka;
use kafka_protocol::protocol::{Message, Request};
use ottla::protocol::fetch::FetchRequest;
use ottla::protocol::header::HeaderError;
use ottla::protocol::offset_commit::OffsetCommitRequest;
use ottla::protocol::offset_fetch::OffsetFetchRequest;
use ottla::protocol::produce::ProduceRequest;
use ottla::protocol::versions::SERVED;
use ottla::protocol::{ApiKey, DecodeError, RequestHeader, messages, schema, write_txn_markers};
use ottla::record::batch::TimestampType;
use ottla::record::compression::Codec;
use ottla::storage::validate::{AppendOrigin, TargetCompression, ValidationConfig, validate};
use ottla::types::{LeaderEpoch, TopicPartition};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const MIB: usize = 1 << 20;

/// What the allocator may reserve at once for its own purposes. The smallest bomb here is 70 times as large.
const RESERVED: usize = 2048 * MIB;

static TURN: Mutex<()> = Mutex::new(());

fn turn() -> MutexGuard<'static, ()> {
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Memory of the process in bytes: the most and the present, of what is reserved and of what is resident.
struct Memory {
    reserved: [usize; 2],
    resident: [usize; 2],
}

fn memory() -> Memory {
    let status = fs::read_to_string("/proc/self/status").expect("status");
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("a field");
        line.trim().trim_end_matches(" kB").parse::<usize>().expect("a number") * 1024
    };
    Memory { reserved: [field("VmPeak:"), field("VmSize:")], resident: [field("VmHWM:"), field("VmRSS:")] }
}

/// By how much more than `before` the process had at some time since, as far as that is known.
fn growth(before: [usize; 2], after: [usize; 2]) -> usize {
    let most = if after[0] > before[0] { after[0] } else { after[1] };
    most.saturating_sub(before[1])
}

/// Runs `work` and asserts what it added to the process, if only for a moment.
fn bounded<T>(reserved: usize, resident: usize, work: impl FnOnce() -> T) -> T {
    let before = memory();
    let result = work();
    let after = memory();
    let grown = [growth(before.reserved, after.reserved), growth(before.resident, after.resident)];
    assert!(grown[0] <= reserved && grown[1] <= resident, "{} and {} MiB more", grown[0] / MIB, grown[1] / MIB);
    result
}

fn unhex(text: &str) -> Bytes {
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).expect("hex")).collect()
}

/// Decodes the body of any request; only whether it could be is told.
fn decode_body(header: &RequestHeader, body: &mut Bytes) -> Result<(), DecodeError> {
    let version = header.api_version;
    match header.api_key {
        ApiKey::Produce => ProduceRequest::decode(body, version).map(drop),
        ApiKey::Fetch => FetchRequest::decode(body, version).map(drop),
        ApiKey::ListOffsets => messages::decode::<kafka::ListOffsetsRequest>(body, version).map(drop),
        ApiKey::Metadata => messages::decode::<kafka::MetadataRequest>(body, version).map(drop),
        ApiKey::OffsetCommit => OffsetCommitRequest::decode(body, version).map(drop),
        ApiKey::OffsetFetch => OffsetFetchRequest::decode(body, version).map(drop),
        ApiKey::FindCoordinator => messages::decode::<kafka::FindCoordinatorRequest>(body, version).map(drop),
        ApiKey::JoinGroup => messages::decode::<kafka::JoinGroupRequest>(body, version).map(drop),
        ApiKey::Heartbeat => messages::decode::<kafka::HeartbeatRequest>(body, version).map(drop),
        ApiKey::LeaveGroup => messages::decode::<kafka::LeaveGroupRequest>(body, version).map(drop),
        ApiKey::SyncGroup => messages::decode::<kafka::SyncGroupRequest>(body, version).map(drop),
        ApiKey::DescribeGroups => messages::decode::<kafka::DescribeGroupsRequest>(body, version).map(drop),
        ApiKey::ListGroups => messages::decode::<kafka::ListGroupsRequest>(body, version).map(drop),
        ApiKey::ConsumerGroupHeartbeat => {
            messages::decode::<kafka::ConsumerGroupHeartbeatRequest>(body, version).map(drop)
        }
        ApiKey::ConsumerGroupDescribe => {
            messages::decode::<kafka::ConsumerGroupDescribeRequest>(body, version).map(drop)
        }
        ApiKey::ApiVersions => messages::decode::<kafka::ApiVersionsRequest>(body, version).map(drop),
        ApiKey::CreateTopics => messages::decode::<kafka::CreateTopicsRequest>(body, version).map(drop),
        ApiKey::DeleteTopics => messages::decode::<kafka::DeleteTopicsRequest>(body, version).map(drop),
        ApiKey::DeleteRecords => messages::decode::<kafka::DeleteRecordsRequest>(body, version).map(drop),
        ApiKey::InitProducerId => messages::decode::<kafka::InitProducerIdRequest>(body, version).map(drop),
        ApiKey::OffsetForLeaderEpoch => messages::decode::<kafka::OffsetForLeaderEpochRequest>(body, version).map(drop),
        ApiKey::AddPartitionsToTxn => messages::decode::<kafka::AddPartitionsToTxnRequest>(body, version).map(drop),
        ApiKey::AddOffsetsToTxn => messages::decode::<kafka::AddOffsetsToTxnRequest>(body, version).map(drop),
        ApiKey::EndTxn => messages::decode::<kafka::EndTxnRequest>(body, version).map(drop),
        ApiKey::TxnOffsetCommit => messages::decode::<kafka::TxnOffsetCommitRequest>(body, version).map(drop),
        ApiKey::DescribeProducers => messages::decode::<kafka::DescribeProducersRequest>(body, version).map(drop),
        ApiKey::DescribeTransactions => messages::decode::<kafka::DescribeTransactionsRequest>(body, version).map(drop),
        ApiKey::ListTransactions => messages::decode::<kafka::ListTransactionsRequest>(body, version).map(drop),
        ApiKey::WriteTxnMarkers => write_txn_markers::decode(body, version).map(drop),
        ApiKey::AlterReplicaLogDirs => messages::decode::<kafka::AlterReplicaLogDirsRequest>(body, version).map(drop),
        ApiKey::DescribeLogDirs => messages::decode::<kafka::DescribeLogDirsRequest>(body, version).map(drop),
        ApiKey::DescribeConfigs => messages::decode::<kafka::DescribeConfigsRequest>(body, version).map(drop),
        ApiKey::AlterConfigs => messages::decode::<kafka::AlterConfigsRequest>(body, version).map(drop),
        ApiKey::CreatePartitions => messages::decode::<kafka::CreatePartitionsRequest>(body, version).map(drop),
        ApiKey::DeleteGroups => messages::decode::<kafka::DeleteGroupsRequest>(body, version).map(drop),
        ApiKey::OffsetDelete => messages::decode::<kafka::OffsetDeleteRequest>(body, version).map(drop),
        ApiKey::ListConfigResources => messages::decode::<kafka::ListConfigResourcesRequest>(body, version).map(drop),
        ApiKey::IncrementalAlterConfigs => {
            messages::decode::<kafka::IncrementalAlterConfigsRequest>(body, version).map(drop)
        }
        ApiKey::UpdateFeatures => messages::decode::<kafka::UpdateFeaturesRequest>(body, version).map(drop),
        ApiKey::DescribeCluster => messages::decode::<kafka::DescribeClusterRequest>(body, version).map(drop),
        ApiKey::DescribeTopicPartitions => {
            messages::decode::<kafka::DescribeTopicPartitionsRequest>(body, version).map(drop)
        }
        other => panic!("{other} is served and has no hazard test"),
    }
}

/// Each names 154 to 515 GB by a count of 4 or 5 bytes.
const COUNT_BOMBS: [&str; 5] = [
    "0003000100000000ffff7fffffff",
    "0003000c00000000ffff00ffffffff0f",
    "0000000900000000ffff0000ffff00000000ffffffff0f",
    "0000000300000000ffffffff0001000000007fffffff",
    "0009000900000000ffff00ffffffff0f",
];

#[test]
fn a_count_reserves_nothing() {
    let _turn = turn();
    for bomb in COUNT_BOMBS {
        let mut body = unhex(bomb);
        let header = RequestHeader::parse(&mut body).expect("a header");
        let refused = bounded(RESERVED, 8 * MIB, || match header.api_key.served() {
            Some(_) => decode_body(&header, &mut body.clone()),
            None => schema::take_body(header.api_key, header.api_version, &mut body.clone()).map(drop),
        });
        assert!(refused.is_err(), "{bomb}: {refused:?}");
    }
}

#[test]
fn a_count_deep_inside_reserves_nothing_either() {
    let _turn = turn();
    // For every version served: zeros, with a huge count at every place.
    for served in SERVED {
        for version in served.first_accepted..=served.max_version {
            let header =
                RequestHeader { api_key: served.api_key, api_version: version, correlation_id: 0, client_id: None };
            bounded(RESERVED, 8 * MIB, || {
                for at in 0..96 {
                    for filler in [0, 1, 2] {
                        for count in [&b"\x7f\xff\xff\xff"[..], b"\xff\xff\xff\xff\x07", b"\xff\xff\xff\xff\x0f"] {
                            let mut body = vec![filler; 128];
                            body[at..at + count.len()].copy_from_slice(count);
                            let _ = decode_body(&header, &mut body.into());
                        }
                    }
                }
            });
        }
    }
}

#[test]
fn a_frame_of_many_small_entries_takes_a_small_multiple_of_its_size() {
    let _turn = turn();
    // Metadata v1: a million empty names, 2 bytes each.
    let mut frame = unhex("0003000100000000ffff").to_vec();
    let names: u32 = 1_000_000;
    frame.extend_from_slice(&names.to_be_bytes());
    frame.resize(frame.len() + 2 * names as usize, 0);
    let mut body = Bytes::from(frame);
    let header = RequestHeader::decode(&mut body).expect("a header");
    let topics = bounded(RESERVED, 256 * MIB, || {
        messages::decode::<kafka::MetadataRequest>(&mut body, header.api_version).expect("a request").topics
    });
    assert_eq!(topics.map(|topics| topics.len()), Some(names as usize));
}

/// Entries of a few bytes became structs and answers of hundreds: 53 MB of DescribeConfigs took the broker three gigabytes.
#[test]
fn a_frame_of_too_many_entries_is_refused_before_it_takes_memory() {
    let _turn = turn();
    // DescribeConfigs v1: four million topics without a name.
    let entries: u32 = 4_000_000;
    let mut configs = entries.to_be_bytes().to_vec();
    configs.extend(b"\x02\0\0\0\0\0\0".repeat(entries as usize));
    // Metadata v12: no topics, and as many tagged fields.
    let mut metadata = b"\x01\0\0\x80\x92\xf4\x01".to_vec();
    metadata.extend(b"\x05\0".repeat(entries as usize));
    let mut bodies = [Bytes::from(configs), Bytes::from(metadata)];
    let refused = bounded(RESERVED, 128 * MIB, || {
        let [configs, metadata] = &mut bodies;
        [
            messages::decode::<kafka::DescribeConfigsRequest>(configs, 1).map(drop),
            messages::decode::<kafka::MetadataRequest>(metadata, 12).map(drop),
        ]
    });
    assert!(refused.iter().all(|refused| matches!(refused, Err(DecodeError::Entries { .. }))), "{refused:?}");
}

#[test]
fn a_peers_response_commits_nothing_by_its_counts() {
    let _turn = turn();
    // Metadata v12: throttle time, then 4 billion brokers. Nodes are trusted more than clients, so the crate sees this
    // unchecked; the allocator then reserves, which is why resident memory alone is bounded here.
    let mut body = unhex("00000000ffffffff0f");
    let refused = bounded(usize::MAX, 8 * MIB, || messages::decode_response::<kafka::MetadataRequest>(&mut body, 12));
    assert!(refused.is_err());
}

#[test]
fn a_frame_too_short_for_a_header_is_an_error() {
    for frame in ["", "00", "0003", "000300", "00030001", "0003000100000000ff"] {
        let refused = RequestHeader::decode(&mut unhex(frame));
        assert!(matches!(refused, Err(HeaderError::Malformed(DecodeError::Truncated { .. }))), "{frame}: {refused:?}");
    }
}

/// Whole v2 batches with a valid CRC, and what is wrong with each.
const BATCH_BOMBS: [(&str, &str); 4] = [
    (
        "2^31-1 records",
        "00000000000000000000003100000005020ed87f0400000000000000000000000000000000000000000000ffffffffffffffffffffffffffff7f\
         ffffff",
    ),
    (
        "2^31-1 headers",
        "00000000000000000000003c00000005022c5e546000000000000000000000000000000000000000000000ffffffffffffffffffffffffffff00\
         000001140000000100feffffff0f",
    ),
    (
        "4 GiB out of 86 bytes of snappy",
        "00000000000000000000004a0000000502fe539cc200020000000000000000000000000000000000000000ffffffffffffffffffffffffffff00\
         00000182534e4150505900000000010000000100000005ffffffff0f",
    ),
    (
        "a timestamp beyond 2^63",
        "00000000000000000000003900000005026a58e6930000000000007fffffffffffffff0000000000000000ffffffffffffffffffffffffffff00\
         0000010e00020001027800",
    ),
];

#[test]
fn a_hostile_record_batch_is_refused_within_bounds() {
    let _turn = turn();
    let partition = TopicPartition::new("t", 0);
    for compression in [TargetCompression::Producer, TargetCompression::Codec { codec: Codec::Lz4, level: 9 }] {
        let config = ValidationConfig {
            partition: &partition,
            origin: AppendOrigin::Client,
            leader_epoch: LeaderEpoch(0),
            max_message_bytes: 1_048_588,
            timestamp_type: TimestampType::CreateTime,
            timestamp_before_max_ms: i64::MAX,
            timestamp_after_max_ms: 3_600_000,
            compression,
            compacted: false,
        };
        for (wrong, batch) in BATCH_BOMBS {
            let refused = bounded(RESERVED, 16 * MIB, || validate(unhex(batch), &config, 1_700_000_000_000));
            let error = refused.expect_err(wrong);
            assert!(!error.to_string().is_empty(), "{wrong}");
        }
    }
}

/// The versions in which the crate has an API.
fn crate_versions<T: Request>() -> (i16, i16) {
    let response = <T::Response as Message>::VERSIONS;
    (T::VERSIONS.min.max(response.min), T::VERSIONS.max.min(response.max))
}

#[test]
fn what_is_advertised_is_what_kafka_serves_and_not_what_the_crate_claims() {
    // The crate's ApiKey says 0..6 here, for a version that Kafka holds back as unstable.
    assert_eq!(ApiKey::InitProducerId.served().map(|served| served.max_version), Some(5));
    // Beyond the crate's last: the version is mapped to the same layout.
    assert_eq!(crate_versions::<kafka::ListOffsetsRequest>(), (1, 10));
    assert_eq!(ApiKey::ListOffsets.served().map(|served| served.max_version), Some(11));
    let mut body = unhex("ffffffff000100000000000000");
    messages::decode::<kafka::ListOffsetsRequest>(&mut body, 11).expect("ListOffsets v11");
}

/// A response that says all it can, but for the fields that this version must not have.
#[test]
fn responses_that_say_all_they_can_are_written_at_every_version() {
    let _turn = turn();
    let text = || "text".to_owned().into();
    for version in versions(ApiKey::ListOffsets) {
        let leader_epoch = if version >= 4 { 3 } else { -1 };
        let partition = kafka::list_offsets_response::ListOffsetsPartitionResponse::default()
            .with_error_code(1)
            .with_timestamp(2)
            .with_offset(3)
            .with_leader_epoch(leader_epoch);
        let topic = kafka::list_offsets_response::ListOffsetsTopicResponse::default().with_partitions(vec![partition]);
        let response = kafka::ListOffsetsResponse::default().with_throttle_time_ms(1).with_topics(vec![topic]);
        write(ApiKey::ListOffsets, version, &response);
    }
    for version in versions(ApiKey::Metadata) {
        let broker =
            kafka::metadata_response::MetadataResponseBroker::default().with_host(text()).with_rack(Some(text()));
        let partition = kafka::metadata_response::MetadataResponsePartition::default()
            .with_leader_epoch(3)
            .with_offline_replicas(vec![1.into()]);
        let mut topic = kafka::metadata_response::MetadataResponseTopic::default()
            .with_name(Some(kafka::TopicName(text())))
            .with_topic_id(uuid::Uuid::from_u128(7))
            .with_is_internal(true)
            .with_partitions(vec![partition]);
        let mut response = kafka::MetadataResponse::default()
            .with_throttle_time_ms(1)
            .with_brokers(vec![broker])
            .with_cluster_id(Some(text()))
            .with_controller_id(1.into())
            .with_error_code(1);
        if version >= 8 {
            topic.topic_authorized_operations = 5;
        }
        if (8..=10).contains(&version) {
            response.cluster_authorized_operations = 5;
        }
        write(ApiKey::Metadata, version, &response.with_topics(vec![topic]));
    }
    for version in versions(ApiKey::FindCoordinator) {
        let mut response = kafka::FindCoordinatorResponse::default().with_throttle_time_ms(1);
        if version >= 4 {
            let coordinator = kafka::find_coordinator_response::Coordinator::default()
                .with_key(text())
                .with_host(text())
                .with_error_message(Some(text()));
            response.coordinators = vec![coordinator];
        } else {
            response = response.with_error_message(Some(text())).with_host(text()).with_port(9);
        }
        write(ApiKey::FindCoordinator, version, &response);
    }
    for version in versions(ApiKey::ApiVersions) {
        let api = kafka::api_versions_response::ApiVersion::default().with_max_version(3);
        let supported = kafka::api_versions_response::SupportedFeatureKey::default().with_name(text());
        let finalized = kafka::api_versions_response::FinalizedFeatureKey::default().with_name(text());
        let response = kafka::ApiVersionsResponse::default()
            .with_throttle_time_ms(1)
            .with_api_keys(vec![api])
            .with_supported_features(vec![supported])
            .with_finalized_features_epoch(7)
            .with_finalized_features(vec![finalized])
            .with_zk_migration_ready(true);
        write(ApiKey::ApiVersions, version, &response);
    }
    for version in versions(ApiKey::CreateTopics) {
        let config = kafka::create_topics_response::CreatableTopicConfigs::default()
            .with_name(text())
            .with_value(Some(text()))
            .with_config_source(5);
        let topic = kafka::create_topics_response::CreatableTopicResult::default()
            .with_topic_id(uuid::Uuid::from_u128(7))
            .with_error_message(Some(text()))
            .with_topic_config_error_code(3)
            .with_num_partitions(3)
            .with_replication_factor(1)
            .with_configs(Some(vec![config]));
        let response = kafka::CreateTopicsResponse::default().with_throttle_time_ms(1).with_topics(vec![topic]);
        write(ApiKey::CreateTopics, version, &response);
    }
    for version in versions(ApiKey::DeleteTopics) {
        let topic = kafka::delete_topics_response::DeletableTopicResult::default()
            .with_name(Some(kafka::TopicName(text())))
            .with_topic_id(uuid::Uuid::from_u128(7))
            .with_error_message(Some(text()));
        let response = kafka::DeleteTopicsResponse::default().with_throttle_time_ms(1).with_responses(vec![topic]);
        write(ApiKey::DeleteTopics, version, &response);
    }
    for version in versions(ApiKey::DescribeConfigs) {
        let synonym = kafka::describe_configs_response::DescribeConfigsSynonym::default().with_name(text());
        let config = kafka::describe_configs_response::DescribeConfigsResourceResult::default()
            .with_name(text())
            .with_config_source(5)
            .with_synonyms(vec![synonym])
            .with_config_type(2)
            .with_documentation(Some(text()));
        let result = kafka::describe_configs_response::DescribeConfigsResult::default().with_configs(vec![config]);
        let response = kafka::DescribeConfigsResponse::default().with_throttle_time_ms(1).with_results(vec![result]);
        write(ApiKey::DescribeConfigs, version, &response);
    }
    for version in versions(ApiKey::CreatePartitions) {
        let result =
            kafka::create_partitions_response::CreatePartitionsTopicResult::default().with_error_message(Some(text()));
        let response = kafka::CreatePartitionsResponse::default().with_throttle_time_ms(1).with_results(vec![result]);
        write(ApiKey::CreatePartitions, version, &response);
    }
    for version in versions(ApiKey::UpdateFeatures) {
        // Left out where the version has no room for them.
        let result = kafka::update_features_response::UpdatableFeatureResult::default()
            .with_feature(text())
            .with_error_message(Some(text()));
        let response = kafka::UpdateFeaturesResponse::default()
            .with_throttle_time_ms(1)
            .with_error_message(Some(text()))
            .with_results(if version <= 1 { vec![result] } else { Vec::new() });
        write(ApiKey::UpdateFeatures, version, &response);
    }
    for version in versions(ApiKey::DescribeCluster) {
        let broker = kafka::describe_cluster_response::DescribeClusterBroker::default()
            .with_rack(Some(text()))
            .with_is_fenced(version >= 2);
        let response = kafka::DescribeClusterResponse::default()
            .with_throttle_time_ms(1)
            .with_error_message(Some(text()))
            .with_endpoint_type(if version >= 1 { 2 } else { 1 })
            .with_brokers(vec![broker])
            .with_cluster_authorized_operations(5);
        write(ApiKey::DescribeCluster, version, &response);
    }
}

fn versions(api_key: ApiKey) -> std::ops::RangeInclusive<i16> {
    let served = api_key.served().expect("an API that is served");
    served.first_accepted..=served.max_version
}

fn write(api_key: ApiKey, version: i16, response: &impl kafka_protocol::protocol::Encodable) {
    let header = RequestHeader { api_key, api_version: version, correlation_id: 0, client_id: None };
    messages::encode_response(&header, response).unwrap_or_else(|error| panic!("{error}"));
}
