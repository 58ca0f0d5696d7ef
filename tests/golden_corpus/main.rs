//! Our codec against Kafka's, byte by byte and field by field.
//!
//! `tests/golden/corpus` is what 17 real clients and a real Apache Kafka 4.3.1 said to each other, with what Kafka's own
//! classes read from it beside it. `tests/golden/messages.jsonl.zst` has messages of every version of every API served,
//! made up by `scripts/golden-messages` and written by Kafka's classes. For each of them:
//! what we decode has the fields that Kafka's JSON has, and what we encode from it are the same bytes again.
//! `tests/golden/mutated.txt.zst` has damaged requests: what Kafka refuses we refuse, what it reads we read alike.
//!
//! An API that is added to the version table fails here until [`codec`] knows its types.

mod debug_tree;
mod golden;
mod hot;
mod offsets;

use bytes::{Buf as _, Bytes, BytesMut};
use debug_tree::{assert_matches, debug_tree};
use golden::{Exchange, Written, exchanges, mutated, written};
use kafka_protocol::messages as kafka;
use kafka_protocol::protocol::{Decodable, Request, StrBytes};
use ottla::protocol::describe_log_dirs::{DescribeLogDirsResponse, LogDirPartition, LogDirResult, LogDirTopic};
use ottla::protocol::fetch::FetchRequest;
use ottla::protocol::header::HeaderError;
use ottla::protocol::offset_commit::OffsetCommitRequest;
use ottla::protocol::offset_fetch::OffsetFetchRequest;
use ottla::protocol::produce::ProduceRequest;
use ottla::protocol::versions::SERVED;
use ottla::protocol::{
    ApiKey, DecodeError, RequestHeader, consumer_group_heartbeat, heartbeat, messages, schema, write_txn_markers,
};
use serde_json::{Value, json};

/// The checks of an API's request and response: the frame, its header (already off the frame's front), Kafka's JSON.
struct Codec {
    /// Leaves what the client sent after the body.
    request: fn(&Bytes, &RequestHeader, &mut Bytes, &Value),
    response: fn(&Bytes, &RequestHeader, Bytes, &Value),
    /// What a request's body says, as text; `None` if it is refused.
    read: fn(&mut Bytes, i16) -> Option<String>,
}

fn codec(api_key: ApiKey) -> Codec {
    match api_key {
        ApiKey::Produce => Codec {
            request: check_produce_request,
            response: check_produce_response,
            read: |body, version| ProduceRequest::decode(body, version).ok().map(|request| format!("{request:?}")),
        },
        ApiKey::Fetch => Codec {
            request: check_fetch_request,
            response: check_fetch_response,
            read: |body, version| FetchRequest::decode(body, version).ok().map(|request| format!("{request:?}")),
        },
        ApiKey::OffsetCommit => Codec {
            request: check_offset_commit_request,
            response: check_offset_commit_response,
            read: |body, version| OffsetCommitRequest::decode(body, version).ok().map(|request| format!("{request:?}")),
        },
        ApiKey::OffsetFetch => Codec {
            request: check_offset_fetch_request,
            response: check_offset_fetch_response,
            read: |body, version| OffsetFetchRequest::decode(body, version).ok().map(|request| format!("{request:?}")),
        },
        ApiKey::JoinGroup => of_crate::<kafka::JoinGroupRequest>(),
        ApiKey::Heartbeat => by_hand::<kafka::HeartbeatRequest>(),
        ApiKey::LeaveGroup => of_crate::<kafka::LeaveGroupRequest>(),
        ApiKey::SyncGroup => of_crate::<kafka::SyncGroupRequest>(),
        ApiKey::DescribeGroups => of_crate::<kafka::DescribeGroupsRequest>(),
        ApiKey::ListGroups => of_crate::<kafka::ListGroupsRequest>(),
        ApiKey::DeleteGroups => of_crate::<kafka::DeleteGroupsRequest>(),
        ApiKey::OffsetDelete => of_crate::<kafka::OffsetDeleteRequest>(),
        ApiKey::ConsumerGroupHeartbeat => by_hand::<kafka::ConsumerGroupHeartbeatRequest>(),
        ApiKey::ConsumerGroupDescribe => of_crate::<kafka::ConsumerGroupDescribeRequest>(),
        ApiKey::ListConfigResources => of_crate::<kafka::ListConfigResourcesRequest>(),
        ApiKey::AddPartitionsToTxn => of_crate::<kafka::AddPartitionsToTxnRequest>(),
        ApiKey::AddOffsetsToTxn => of_crate::<kafka::AddOffsetsToTxnRequest>(),
        ApiKey::EndTxn => of_crate::<kafka::EndTxnRequest>(),
        ApiKey::TxnOffsetCommit => of_crate::<kafka::TxnOffsetCommitRequest>(),
        ApiKey::DescribeProducers => of_crate::<kafka::DescribeProducersRequest>(),
        ApiKey::DescribeTransactions => of_crate::<kafka::DescribeTransactionsRequest>(),
        ApiKey::ListTransactions => of_crate::<kafka::ListTransactionsRequest>(),
        ApiKey::WriteTxnMarkers => Codec {
            request: check_write_txn_markers_request,
            response: check_response::<kafka::WriteTxnMarkersRequest>,
            read: |body, version| write_txn_markers::decode(body, version).ok().map(|markers| format!("{markers:?}")),
        },
        ApiKey::AlterReplicaLogDirs => of_crate::<kafka::AlterReplicaLogDirsRequest>(),
        ApiKey::DescribeLogDirs => {
            Codec { response: check_describe_log_dirs_response, ..of_crate::<kafka::DescribeLogDirsRequest>() }
        }
        ApiKey::ListOffsets => of_crate::<kafka::ListOffsetsRequest>(),
        ApiKey::Metadata => of_crate::<kafka::MetadataRequest>(),
        ApiKey::FindCoordinator => of_crate::<kafka::FindCoordinatorRequest>(),
        ApiKey::ApiVersions => of_crate::<kafka::ApiVersionsRequest>(),
        ApiKey::CreateTopics => of_crate::<kafka::CreateTopicsRequest>(),
        ApiKey::DeleteTopics => of_crate::<kafka::DeleteTopicsRequest>(),
        ApiKey::DeleteRecords => of_crate::<kafka::DeleteRecordsRequest>(),
        ApiKey::InitProducerId => of_crate::<kafka::InitProducerIdRequest>(),
        ApiKey::OffsetForLeaderEpoch => of_crate::<kafka::OffsetForLeaderEpochRequest>(),
        ApiKey::DescribeConfigs => of_crate::<kafka::DescribeConfigsRequest>(),
        ApiKey::AlterConfigs => of_crate::<kafka::AlterConfigsRequest>(),
        ApiKey::CreatePartitions => of_crate::<kafka::CreatePartitionsRequest>(),
        ApiKey::IncrementalAlterConfigs => of_crate::<kafka::IncrementalAlterConfigsRequest>(),
        ApiKey::UpdateFeatures => of_crate::<kafka::UpdateFeaturesRequest>(),
        ApiKey::DescribeCluster => of_crate::<kafka::DescribeClusterRequest>(),
        ApiKey::DescribeTopicPartitions => of_crate::<kafka::DescribeTopicPartitionsRequest>(),
        other => panic!("{other} is served and has no golden test"),
    }
}

fn of_crate<T>() -> Codec
where
    T: Request + std::fmt::Debug,
    T::Response: std::fmt::Debug,
{
    Codec {
        request: check_request::<T>,
        response: check_response::<T>,
        read: |body, version| messages::decode::<T>(body, version).ok().map(|request| format!("{request:?}")),
    }
}

/// The crate's structs, read and written by hand.
trait ByHand: Request + std::fmt::Debug {
    fn read(body: &mut Bytes, version: i16) -> Result<Self, DecodeError>;
    fn write_response(header: &RequestHeader, response: &Self::Response) -> Bytes;
}

impl ByHand for kafka::HeartbeatRequest {
    fn read(body: &mut Bytes, version: i16) -> Result<Self, DecodeError> {
        heartbeat::decode(body, version)
    }

    fn write_response(header: &RequestHeader, response: &kafka::HeartbeatResponse) -> Bytes {
        heartbeat::encode_response(header, response)
    }
}

impl ByHand for kafka::ConsumerGroupHeartbeatRequest {
    fn read(body: &mut Bytes, version: i16) -> Result<Self, DecodeError> {
        consumer_group_heartbeat::decode(body, version)
    }

    fn write_response(header: &RequestHeader, response: &kafka::ConsumerGroupHeartbeatResponse) -> Bytes {
        consumer_group_heartbeat::encode_response(header, response).expect("a response")
    }
}

fn by_hand<T: ByHand>() -> Codec
where
    T::Response: std::fmt::Debug,
{
    Codec {
        request: |frame, header, body, json| {
            let request = T::read(body, header.api_version).expect("a request");
            check_read_request(&request, frame, header, body, json);
        },
        response: |frame, header, body, json| {
            check_response::<T>(frame, header, body.clone(), json);
            let response = messages::decode_response::<T>(&mut body.clone(), header.api_version).expect("a response");
            assert_eq!(T::write_response(header, &response), frame, "the bytes of the response");
        },
        read: |body, version| T::read(body, version).ok().map(|request| format!("{request:?}")),
    }
}

fn check_request<T: Request + std::fmt::Debug>(frame: &Bytes, header: &RequestHeader, body: &mut Bytes, json: &Value) {
    let request: T = messages::decode(body, header.api_version).expect("a request");
    check_read_request(&request, frame, header, body, json);
}

fn check_read_request<T: Request + std::fmt::Debug>(
    request: &T,
    frame: &Bytes,
    header: &RequestHeader,
    body: &Bytes,
    json: &Value,
) {
    assert_matches(json, &debug_tree(request), "request");
    let again =
        messages::encode_request(request, header.api_version, header.correlation_id, header.client_id.as_deref())
            .expect("the request again");
    if body.is_empty() {
        assert_eq!(again, frame, "the bytes of the request");
    }
}

fn check_response<T>(frame: &Bytes, header: &RequestHeader, mut body: Bytes, json: &Value)
where
    T: Request,
    T::Response: std::fmt::Debug,
{
    let response = messages::decode_response::<T>(&mut body, header.response_version()).expect("a response");
    assert_eq!(body.len(), 0, "bytes after the response");
    assert_matches(json, &debug_tree(&response), "response");
    let again = messages::encode_response(header, &response).expect("the response again");
    assert_eq!(again, frame, "the bytes of the response");
}

fn check_write_txn_markers_request(_: &Bytes, header: &RequestHeader, body: &mut Bytes, json: &Value) {
    let markers = write_txn_markers::decode(body, header.api_version).expect("a request");
    let markers = markers.iter().map(|marker| {
        let topics = marker.topics.iter().map(|(name, partitions)| {
            let partitions: Vec<i32> = partitions.iter().map(|partition| partition.0).collect();
            json!({ "name": name.as_str(), "partitionIndexes": partitions })
        });
        let mut tree = json!({
            "producerId": marker.producer_id.0,
            "producerEpoch": marker.producer_epoch.0,
            "transactionResult": marker.committed,
            "topics": topics.collect::<Vec<_>>(),
            "coordinatorEpoch": marker.coordinator_epoch,
        });
        if header.api_version >= 2 {
            tree["transactionVersion"] = json!(marker.transaction_version);
        }
        tree
    });
    assert_eq!(json, &json!({ "markers": markers.collect::<Vec<_>>() }), "the request");
}

fn check_produce_request(_: &Bytes, header: &RequestHeader, body: &mut Bytes, json: &Value) {
    let mut theirs = kafka::ProduceRequest::decode(&mut body.clone(), header.api_version).expect("by the crate");
    let request = ProduceRequest::decode(body, header.api_version).expect("a request");
    assert_matches(json, &hot::produce_request_json(&request), "request");
    let ours = request.topics().flat_map(|(_, partitions)| partitions).map(|partition| partition.records.clone());
    let theirs = theirs.topic_data.drain(..).flat_map(|topic| topic.partition_data).map(|partition| partition.records);
    assert!(ours.eq(theirs), "the records");
}

fn check_produce_response(frame: &Bytes, header: &RequestHeader, _: Bytes, json: &Value) {
    assert_eq!(hot::encode_produce_response(json, header), frame, "the bytes of the response");
}

fn check_fetch_request(_: &Bytes, header: &RequestHeader, body: &mut Bytes, json: &Value) {
    let request = FetchRequest::decode(body, header.api_version).expect("a request");
    assert_matches(json, &hot::fetch_request_json(&request), "request");
    assert!(request.topics().all(|(topic, _)| topic.name.is_empty() || hot::has_topic_names(header.api_version)));
}

fn check_fetch_response(frame: &Bytes, header: &RequestHeader, mut body: Bytes, json: &Value) {
    let theirs = kafka::FetchResponse::decode(&mut body, header.api_version).expect("by the crate");
    let partitions = theirs.responses.into_iter().flat_map(|topic| topic.partitions);
    let mut records = partitions.map(|partition| partition.records.unwrap_or_default());
    let ours = hot::encode_fetch_response(json, &mut records, header);
    assert_eq!(ours, frame, "the bytes of the response");
}

fn check_offset_commit_request(frame: &Bytes, header: &RequestHeader, body: &mut Bytes, json: &Value) {
    let request = OffsetCommitRequest::decode(body, header.api_version).expect("a request");
    assert_matches(json, &offsets::commit_request_json(&request), "request");
    if body.is_empty() {
        assert!(frame.ends_with(&request.encode(header.api_version)), "the bytes of the request");
    }
}

fn check_offset_commit_response(frame: &Bytes, header: &RequestHeader, _: Bytes, json: &Value) {
    assert_eq!(offsets::encode_commit_response(json, header), frame, "the bytes of the response");
}

fn check_offset_fetch_request(frame: &Bytes, header: &RequestHeader, body: &mut Bytes, json: &Value) {
    let request = OffsetFetchRequest::decode(body, header.api_version).expect("a request");
    assert_matches(json, &offsets::fetch_request_json(&request, header.api_version), "request");
    if body.is_empty() {
        assert!(frame.ends_with(&request.encode(header.api_version)), "the bytes of the request");
    }
}

fn check_offset_fetch_response(frame: &Bytes, header: &RequestHeader, _: Bytes, json: &Value) {
    assert_eq!(offsets::encode_fetch_response(json, header), frame, "the bytes of the response");
}

fn check_describe_log_dirs_response(frame: &Bytes, header: &RequestHeader, _: Bytes, json: &Value) {
    let list = |json: &Value| json.as_array().expect("a list").clone();
    let int = |json: &Value| json.as_i64().unwrap_or(-1);
    let text = |json: &Value| json.as_str().expect("a text").to_owned();
    let results = list(&json["results"]).into_iter().map(|result| LogDirResult {
        error_code: int(&result["errorCode"]) as i16,
        log_dir: text(&result["logDir"]),
        topics: list(&result["topics"])
            .iter()
            .map(|topic| LogDirTopic {
                name: text(&topic["name"]),
                partitions: list(&topic["partitions"])
                    .iter()
                    .map(|partition| LogDirPartition {
                        partition_index: int(&partition["partitionIndex"]) as i32,
                        partition_size: int(&partition["partitionSize"]),
                        offset_lag: int(&partition["offsetLag"]),
                        is_future_key: partition["isFutureKey"].as_bool().expect("a bool"),
                    })
                    .collect(),
            })
            .collect(),
        total_bytes: int(&result["totalBytes"]),
        usable_bytes: int(&result["usableBytes"]),
        is_cordoned: result["isCordoned"].as_bool().unwrap_or(false),
    });
    let response = DescribeLogDirsResponse {
        throttle_time_ms: int(&json["throttleTimeMs"]) as i32,
        error_code: json["errorCode"].as_i64().unwrap_or(0) as i16,
        results: results.collect(),
    };
    assert_eq!(response.encode(header).expect("the response again"), frame, "the bytes of the response");
}

/// Runs a check and says where it failed.
fn at(place: &str, check: impl FnOnce() + std::panic::UnwindSafe) {
    if let Err(failure) = std::panic::catch_unwind(check) {
        eprintln!("at {place}");
        std::panic::resume_unwind(failure);
    }
}

fn header_json(header: &RequestHeader) -> Value {
    json!({
        "requestApiKey": header.api_key.key(),
        "requestApiVersion": header.api_version,
        "correlationId": header.correlation_id,
        "clientId": header.client_id.as_deref(),
    })
}

fn check_exchange(exchange: &Exchange) {
    let mut body = exchange.request.clone();
    let header = RequestHeader::parse(&mut body).expect("a header");
    assert_eq!((header.api_key, header.api_version), (exchange.api_key, exchange.version));
    assert_matches(&exchange.decoded["request_header"], &header_json(&header), "header");

    let served = RequestHeader::decode(&mut exchange.request.clone());
    match exchange.api_key.served() {
        None => assert_eq!(served, Err(HeaderError::NotServed { api_key: exchange.api_key })),
        Some(_) => assert_eq!(served.as_ref(), Ok(&header)),
    }
    if !matches!(exchange.api_key, ApiKey::Produce | ApiKey::Fetch) && !header.is_unsupported_api_versions() {
        let mut rest = body.clone();
        schema::take_body(header.api_key, header.api_version, &mut rest).expect("a body");
        assert_eq!(rest.len(), exchange.request_leftover(), "bytes left over");
    }
    if served.is_err() {
        return;
    }
    let codec = codec(exchange.api_key);
    if !header.is_unsupported_api_versions() {
        (codec.request)(&exchange.request, &header, &mut body, &exchange.decoded["request"]);
        assert_eq!(body.len(), exchange.request_leftover(), "bytes left over");
    }
    if let Some(response) = &exchange.response {
        let mut expected = BytesMut::new();
        header.put_response_header(&mut expected);
        assert!(response.starts_with(&expected), "the response's header");
        let mut body = response.clone();
        body.advance(expected.len());
        (codec.response)(response, &header, body, &exchange.decoded["response"]);
    }
}

#[test]
fn what_real_clients_and_kafka_said() {
    let exchanges = exchanges();
    assert!(exchanges.len() > 1000, "{} exchanges", exchanges.len());
    for exchange in &exchanges {
        at(&exchange.place, || check_exchange(exchange));
    }
}

#[test]
fn what_clients_leave_over_is_no_error() {
    let exchanges = exchanges();
    let leftovers: Vec<_> = exchanges.iter().filter(|exchange| exchange.request_leftover() > 0).collect();
    assert!(leftovers.iter().any(|exchange| exchange.api_key == ApiKey::Metadata), "librdkafka's Metadata v13");
    for exchange in leftovers {
        let mut body = exchange.request.clone();
        let header = RequestHeader::parse(&mut body).expect("a header");
        schema::take_body(header.api_key, header.api_version, &mut body).expect("a body");
        assert_eq!(body.len(), exchange.request_leftover(), "{}", exchange.place);
    }
}

fn check_written(written: &Written) {
    let header = RequestHeader {
        api_key: written.api_key,
        api_version: written.version,
        correlation_id: 0x0102_0304,
        client_id: Some(StrBytes::from_static_str("golden")),
    };
    let mut frame = BytesMut::new();
    if written.is_request {
        frame.extend_from_slice(&written.api_key.key().to_be_bytes());
        frame.extend_from_slice(&written.version.to_be_bytes());
        frame.extend_from_slice(b"\x01\x02\x03\x04\x00\x06golden");
        if written.api_key.is_flexible(written.version) {
            frame.extend_from_slice(&[0]);
        }
    } else {
        header.put_response_header(&mut frame);
    }
    frame.extend_from_slice(&written.body);
    let frame = frame.freeze();
    let codec = codec(written.api_key);
    if written.is_request {
        let mut body = frame.clone();
        assert_eq!(RequestHeader::decode(&mut body).as_ref(), Ok(&header));
        (codec.request)(&frame, &header, &mut body, &written.json);
        assert_eq!(body.len(), 0, "bytes left over");
    } else {
        (codec.response)(&frame, &header, written.body.clone(), &written.json);
    }
}

#[test]
fn every_version_that_is_served_as_kafka_writes_it() {
    let written = written();
    for served in SERVED {
        for version in served.first_accepted..=served.max_version {
            let both = [true, false].map(|is_request| {
                let of_version = |message: &&Written| {
                    (message.api_key, message.version, message.is_request) == (served.api_key, version, is_request)
                };
                written.iter().filter(of_version).count()
            });
            assert!(both.iter().all(|count| *count >= 5), "{} v{version}: {both:?} messages", served.api_key);
        }
    }
    // There are messages of APIs to come.
    for message in written.iter().filter(|message| message.api_key.served().is_some()) {
        at(&message.place, || check_written(message));
    }
}

#[test]
fn damaged_requests_are_read_or_refused_as_kafka_does() {
    let mutated = mutated();
    assert!(mutated.iter().filter(|mutated| mutated.kafka.is_none()).count() > 1000);
    assert!(mutated.iter().filter(|mutated| mutated.kafka.is_some()).count() > 1000);
    for mutated in mutated {
        let read = codec(mutated.api_key).read;
        let mut body = mutated.body.clone();
        let ours = read(&mut body, mutated.version);
        match mutated.kafka {
            None => assert_eq!(ours, None, "{}", mutated.place),
            Some((unread, mut written)) => {
                assert_eq!(body.len(), unread, "{}: bytes left over", mutated.place);
                assert_eq!(ours, read(&mut written, mutated.version), "{}", mutated.place);
                assert!(ours.is_some() && written.is_empty(), "{}", mutated.place);
            }
        }
    }
}
