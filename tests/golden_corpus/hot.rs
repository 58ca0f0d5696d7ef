//! Produce and Fetch, which are written by hand: their fields by name, both ways.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use kafka_protocol::protocol::StrBytes;
use ottla::protocol::fetch::{
    AbortedTransaction, EpochEndOffset, FIRST_TOPIC_ID_VERSION, FetchRecords, FetchRequest, FetchResponse,
    FetchResponsePartition, FetchResponseTopic, SnapshotId,
};
use ottla::protocol::frame::Chunk;
use ottla::protocol::produce::{
    LeaderIdAndEpoch, NodeEndpoint, ProduceRequest, ProduceResponse, ProduceResponsePartition, ProduceResponseTopic,
    RecordError,
};
use ottla::protocol::{ErrorCode, RequestHeader};
use ottla::types::{BrokerId, LeaderEpoch, Offset, PartitionId, ProducerId, TopicId};
use serde_json::{Value, json};

/// A Produce request as Kafka's converter prints it; fields that the version lacks are there too.
pub fn produce_request_json(request: &ProduceRequest) -> Value {
    let topics: Vec<Value> = request
        .topics()
        .map(|(topic, partitions)| {
            let partitions: Vec<Value> = partitions
                .iter()
                .map(|partition| match &partition.records {
                    Some(records) => json!({"index": partition.partition.0, "recordsSizeInBytes": records.len()}),
                    None => json!({"index": partition.partition.0, "records": null, "recordsSizeInBytes": null}),
                })
                .collect();
            json!({"name": &*topic.name, "topicId": topic.topic_id.to_string(), "partitionData": partitions})
        })
        .collect();
    json!({
        "transactionalId": request.transactional_id.as_deref(),
        "acks": request.acks,
        "timeoutMs": request.timeout_ms,
        "topicData": topics,
    })
}

/// A Fetch request as Kafka's converter prints it; fields that the version lacks are there too.
pub fn fetch_request_json(request: &FetchRequest) -> Value {
    let topics: Vec<Value> = request
        .topics()
        .map(|(topic, partitions)| {
            let partitions: Vec<Value> = partitions
                .iter()
                .map(|partition| {
                    json!({
                        "partition": partition.partition.0,
                        "currentLeaderEpoch": partition.current_leader_epoch.0,
                        "fetchOffset": partition.fetch_offset.0,
                        "lastFetchedEpoch": partition.last_fetched_epoch.0,
                        "logStartOffset": partition.log_start_offset.0,
                        "partitionMaxBytes": partition.partition_max_bytes,
                        "replicaDirectoryId": partition.replica_directory_id.to_string(),
                        "highWatermark": partition.high_watermark.0,
                    })
                })
                .collect();
            json!({"topic": &*topic.name, "topicId": topic.topic_id.to_string(), "partitions": partitions})
        })
        .collect();
    let forgotten: Vec<Value> = request
        .forgotten_topics
        .iter()
        .map(|topic| {
            let partitions: Vec<i32> = topic.partitions.iter().map(|partition| partition.0).collect();
            json!({"topic": &*topic.name, "topicId": topic.topic_id.to_string(), "partitions": partitions})
        })
        .collect();
    json!({
        "clusterId": request.cluster_id.as_deref(),
        "replicaId": request.replica_id.0,
        "replicaState": {"replicaId": request.replica_id.0, "replicaEpoch": request.replica_epoch},
        "maxWaitMs": request.max_wait_ms,
        "minBytes": request.min_bytes,
        "maxBytes": request.max_bytes,
        "isolationLevel": request.isolation_level,
        "sessionId": request.session_id,
        "sessionEpoch": request.session_epoch,
        "topics": topics,
        "forgottenTopicsData": forgotten,
        "rackId": &*request.rack_id,
    })
}

/// Builds the response that Kafka's JSON tells of and writes its frame.
pub fn encode_produce_response(json: &Value, header: &RequestHeader) -> Bytes {
    let topics = entries(&json["responses"], |topic| ProduceResponseTopic {
        name: text(&topic["name"]).unwrap_or_default(),
        topic_id: topic_id(&topic["topicId"]),
        partitions: entries(&topic["partitionResponses"], |partition| ProduceResponsePartition {
            partition: PartitionId(int(&partition["index"]) as i32),
            error_code: error_code(&partition["errorCode"]),
            base_offset: Offset(int(&partition["baseOffset"])),
            log_append_time_ms: int(&partition["logAppendTimeMs"]),
            log_start_offset: Offset(partition["logStartOffset"].as_i64().unwrap_or(-1)),
            record_errors: entries(&partition["recordErrors"], |error| RecordError {
                batch_index: int(&error["batchIndex"]) as i32,
                message: text(&error["batchIndexErrorMessage"]),
            }),
            error_message: text(&partition["errorMessage"]),
            current_leader: current_leader(&partition["currentLeader"]),
        }),
    });
    let response = ProduceResponse {
        topics,
        throttle_time_ms: int(&json["throttleTimeMs"]) as i32,
        node_endpoints: node_endpoints(&json["nodeEndpoints"]),
    };
    response.encode(header).expect("a Produce response")
}

/// Builds the response that Kafka's JSON tells of and writes its frame. The records, of which the JSON has only the
/// size, are taken from `records` in their order; every second partition's stay outside the frame as a file's would.
pub fn encode_fetch_response(json: &Value, records: &mut impl Iterator<Item = Bytes>, header: &RequestHeader) -> Bytes {
    let mut turn = 0;
    let topics = entries(&json["responses"], |topic| FetchResponseTopic {
        name: text(&topic["topic"]).unwrap_or_default(),
        topic_id: topic_id(&topic["topicId"]),
        partitions: entries(&topic["partitions"], |partition| {
            turn += 1;
            let size = int(&partition["recordsSizeInBytes"]) as usize;
            let records = records.next().expect("records for each partition");
            assert_eq!(records.len(), size);
            FetchResponsePartition {
                partition: PartitionId(int(&partition["partitionIndex"]) as i32),
                error_code: error_code(&partition["errorCode"]),
                high_watermark: Offset(int(&partition["highWatermark"])),
                last_stable_offset: Offset(int(&partition["lastStableOffset"])),
                log_start_offset: Offset(partition["logStartOffset"].as_i64().unwrap_or(-1)),
                aborted_transactions: partition["abortedTransactions"].as_array().map(|_| {
                    entries(&partition["abortedTransactions"], |transaction| AbortedTransaction {
                        producer_id: ProducerId(int(&transaction["producerId"])),
                        first_offset: Offset(int(&transaction["firstOffset"])),
                    })
                }),
                preferred_read_replica: BrokerId(partition["preferredReadReplica"].as_i64().unwrap_or(-1) as i32),
                records: match turn % 2 {
                    _ if size == 0 => FetchRecords::Empty,
                    0 => FetchRecords::Bytes(records),
                    _ => FetchRecords::File { slice: records, length: size },
                },
                diverging_epoch: partition.get("divergingEpoch").map(|epoch| EpochEndOffset {
                    epoch: LeaderEpoch(int(&epoch["epoch"]) as i32),
                    end_offset: Offset(int(&epoch["endOffset"])),
                }),
                current_leader: current_leader(&partition["currentLeader"]),
                snapshot_id: partition.get("snapshotId").map(|snapshot| SnapshotId {
                    end_offset: Offset(int(&snapshot["endOffset"])),
                    epoch: LeaderEpoch(int(&snapshot["epoch"]) as i32),
                }),
            }
        }),
    });
    let response = FetchResponse {
        throttle_time_ms: int(&json["throttleTimeMs"]) as i32,
        error_code: json.get("errorCode").map_or(ErrorCode::None, error_code),
        session_id: json["sessionId"].as_i64().unwrap_or_default() as i32,
        topics,
        node_endpoints: node_endpoints(&json["nodeEndpoints"]),
    };
    let frame = response.encode(header).expect("a Fetch response");
    let length = frame.len();
    let mut bytes = Vec::new();
    for chunk in frame.chunks {
        assert!(!chunk.is_empty(), "an empty chunk");
        match chunk {
            Chunk::Bytes(chunk) => bytes.extend_from_slice(&chunk),
            Chunk::File { slice, length } => {
                assert_eq!(slice.len(), length);
                bytes.extend_from_slice(&slice);
            }
        }
    }
    assert_eq!(bytes.len(), length);
    bytes.into()
}

/// Whether this version of Fetch or Produce has topic names (and no ids).
pub fn has_topic_names(version: i16) -> bool {
    version < FIRST_TOPIC_ID_VERSION
}

pub fn entries<T>(value: &Value, mut entry: impl FnMut(&Value) -> T) -> Vec<T> {
    value.as_array().into_iter().flatten().map(&mut entry).collect()
}

pub fn int(value: &Value) -> i64 {
    value.as_i64().unwrap_or_else(|| panic!("a number: {value}"))
}

pub fn text(value: &Value) -> Option<StrBytes> {
    value.as_str().map(|text| StrBytes::from_string(text.to_owned()))
}

pub fn topic_id(value: &Value) -> TopicId {
    let Some(text) = value.as_str() else { return TopicId::ZERO };
    let bytes = URL_SAFE_NO_PAD.decode(text).expect("base64");
    TopicId(uuid::Uuid::from_slice(&bytes).expect("an id"))
}

pub fn error_code(value: &Value) -> ErrorCode {
    ErrorCode::from_code(int(value) as i16).expect("an error code")
}

fn current_leader(value: &Value) -> Option<LeaderIdAndEpoch> {
    value.is_object().then(|| LeaderIdAndEpoch {
        leader_id: BrokerId(int(&value["leaderId"]) as i32),
        leader_epoch: LeaderEpoch(int(&value["leaderEpoch"]) as i32),
    })
}

fn node_endpoints(value: &Value) -> Vec<NodeEndpoint> {
    entries(value, |endpoint| NodeEndpoint {
        node_id: BrokerId(int(&endpoint["nodeId"]) as i32),
        host: text(&endpoint["host"]).expect("a host"),
        port: int(&endpoint["port"]) as i32,
        rack: text(&endpoint["rack"]),
    })
}
