//! OffsetCommit and OffsetFetch, which are written by hand: their fields by name, both ways.

use bytes::Bytes;
use ottla::protocol::RequestHeader;
use ottla::protocol::offset_commit::{OffsetCommitRequest, OffsetCommitResponse, OffsetCommitResponseTopic};
use ottla::protocol::offset_fetch::{
    FIRST_BATCH_VERSION, OffsetFetchRequest, OffsetFetchResponse, OffsetFetchResponseGroup,
    OffsetFetchResponsePartition, OffsetFetchResponseTopic, OffsetFetchTopic,
};
use ottla::types::{LeaderEpoch, Offset, PartitionId};
use serde_json::{Value, json};

use super::hot::{entries, error_code, int, text, topic_id};

/// An OffsetCommit request as Kafka's converter prints it; fields that the version lacks are there too.
pub fn commit_request_json(request: &OffsetCommitRequest) -> Value {
    let topics: Vec<Value> = request
        .topics()
        .map(|(topic, partitions)| {
            let partitions: Vec<Value> = partitions
                .iter()
                .map(|partition| {
                    json!({
                        "partitionIndex": partition.partition.0,
                        "committedOffset": partition.committed_offset.0,
                        "committedLeaderEpoch": partition.committed_leader_epoch.0,
                        "committedMetadata": partition.committed_metadata.as_deref(),
                    })
                })
                .collect();
            json!({"name": &*topic.name, "topicId": topic.topic_id.to_string(), "partitions": partitions})
        })
        .collect();
    json!({
        "groupId": &*request.group_id,
        "generationIdOrMemberEpoch": request.generation_id_or_member_epoch,
        "memberId": &*request.member_id,
        "groupInstanceId": request.group_instance_id.as_deref(),
        "retentionTimeMs": request.retention_time_ms,
        "topics": topics,
    })
}

/// Builds the response that Kafka's JSON tells of and writes its frame.
pub fn encode_commit_response(json: &Value, header: &RequestHeader) -> Bytes {
    let topics = entries(&json["topics"], |topic| OffsetCommitResponseTopic {
        name: text(&topic["name"]).unwrap_or_default(),
        topic_id: topic_id(&topic["topicId"]),
        partitions: entries(&topic["partitions"], |partition| {
            (PartitionId(int(&partition["partitionIndex"]) as i32), error_code(&partition["errorCode"]))
        }),
    });
    let throttle_time_ms = json["throttleTimeMs"].as_i64().unwrap_or_default() as i32;
    OffsetCommitResponse { throttle_time_ms, topics }.encode(header).expect("an OffsetCommit response")
}

/// An OffsetFetch request as Kafka's converter prints it; fields that the version lacks are there too.
pub fn fetch_request_json(request: &OffsetFetchRequest, version: i16) -> Value {
    let topic = |topic: &OffsetFetchTopic| {
        let partitions: Vec<i32> = topic.partitions.iter().map(|partition| partition.0).collect();
        json!({"name": &*topic.name, "topicId": topic.topic_id.to_string(), "partitionIndexes": partitions})
    };
    let groups: Vec<Value> = request
        .groups
        .iter()
        .map(|group| {
            json!({
                "groupId": &*group.group_id,
                "memberId": group.member_id.as_deref(),
                "memberEpoch": group.member_epoch,
                "topics": group.topics.as_ref().map(|topics| topics.iter().map(topic).collect::<Vec<_>>()),
            })
        })
        .collect();
    if version >= FIRST_BATCH_VERSION {
        return json!({"groups": groups, "requireStable": request.require_stable});
    }
    let group = &groups[0];
    json!({"groupId": group["groupId"], "topics": group["topics"], "requireStable": request.require_stable})
}

/// Builds the response that Kafka's JSON tells of and writes its frame.
pub fn encode_fetch_response(json: &Value, header: &RequestHeader) -> Bytes {
    let group = |group: &Value| OffsetFetchResponseGroup {
        group_id: text(&group["groupId"]).unwrap_or_default(),
        topics: entries(&group["topics"], |topic| OffsetFetchResponseTopic {
            name: text(&topic["name"]).unwrap_or_default(),
            topic_id: topic_id(&topic["topicId"]),
            partitions: entries(&topic["partitions"], |partition| OffsetFetchResponsePartition {
                partition: PartitionId(int(&partition["partitionIndex"]) as i32),
                committed_offset: Offset(int(&partition["committedOffset"])),
                committed_leader_epoch: LeaderEpoch(partition["committedLeaderEpoch"].as_i64().unwrap_or(-1) as i32),
                metadata: text(&partition["metadata"]),
                error_code: error_code(&partition["errorCode"]),
            }),
        }),
        error_code: group.get("errorCode").map(error_code).unwrap_or_default(),
    };
    let groups =
        if header.api_version >= FIRST_BATCH_VERSION { entries(&json["groups"], group) } else { vec![group(json)] };
    let throttle_time_ms = json["throttleTimeMs"].as_i64().unwrap_or_default() as i32;
    OffsetFetchResponse { throttle_time_ms, groups }.encode(header).expect("an OffsetFetch response")
}
