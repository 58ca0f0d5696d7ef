//! Round trips, up to v9 against the `kafka-protocol` crate too, which has its own idea of the same bytes.

use kafka_protocol::messages as kafka;
use kafka_protocol::protocol::{Decodable, Encodable};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use super::*;

fn text() -> impl Strategy<Value = StrBytes> {
    "[a-zé._-]{0,150}".prop_map(StrBytes::from_string)
}

fn topic_id() -> impl Strategy<Value = TopicId> {
    any::<u128>().prop_map(|id| TopicId(uuid::Uuid::from_u128(id)))
}

/// Name and id as the version has them.
fn named(version: i16) -> impl Strategy<Value = (StrBytes, TopicId)> {
    let by_id = version >= FIRST_TOPIC_ID_VERSION;
    (text(), topic_id()).prop_map(move |(name, id)| if by_id { (StrBytes::new(), id) } else { (name, TopicId::ZERO) })
}

fn request(version: i16) -> impl Strategy<Value = OffsetFetchRequest> {
    let topic = (named(version), vec(any::<i32>().prop_map(PartitionId), 0..6))
        .prop_map(|((name, topic_id), partitions)| OffsetFetchTopic { name, topic_id, partitions });
    let group = (text(), option::of(text()), any::<i32>(), option::of(vec(topic, 0..4))).prop_map(
        move |(group_id, member_id, member_epoch, topics)| OffsetFetchGroup {
            group_id,
            member_id: member_id.filter(|_| version >= 9),
            member_epoch: if version >= 9 { member_epoch } else { -1 },
            topics: if version >= FIRST_GROUP_ERROR_VERSION { topics } else { Some(topics.unwrap_or_default()) },
        },
    );
    let groups = if version >= FIRST_BATCH_VERSION { 0..4 } else { 1..2 };
    (vec(group, groups), any::<bool>())
        .prop_map(move |(groups, stable)| OffsetFetchRequest { groups, require_stable: stable && version >= 7 })
}

fn response(version: i16) -> impl Strategy<Value = OffsetFetchResponse> {
    let code = || (0..ErrorCode::ALL.len()).prop_map(|index| ErrorCode::ALL[index]);
    let partition = (any::<i32>(), any::<i64>(), any::<i32>(), option::of(text()), code()).prop_map(
        move |(index, offset, epoch, metadata, error_code)| OffsetFetchResponsePartition {
            partition: PartitionId(index),
            committed_offset: Offset(offset),
            committed_leader_epoch: if version >= 5 { LeaderEpoch(epoch) } else { LeaderEpoch::UNKNOWN },
            metadata,
            error_code,
        },
    );
    let topic = (named(version), vec(partition, 0..4))
        .prop_map(|((name, topic_id), partitions)| OffsetFetchResponseTopic { name, topic_id, partitions });
    let group = (text(), vec(topic, 0..4), code()).prop_map(move |(group_id, topics, error_code)| {
        let batched = version >= FIRST_BATCH_VERSION;
        OffsetFetchResponseGroup {
            group_id: if batched { group_id } else { StrBytes::new() },
            topics,
            error_code: if version >= FIRST_GROUP_ERROR_VERSION { error_code } else { ErrorCode::None },
        }
    });
    let groups = if version >= FIRST_BATCH_VERSION { 0..4 } else { 1..2 };
    (any::<i32>(), vec(group, groups)).prop_map(move |(throttle, groups)| OffsetFetchResponse {
        throttle_time_ms: if version >= 3 { throttle } else { 0 },
        groups,
    })
}

fn header(version: i16) -> RequestHeader {
    RequestHeader { api_key: ApiKey::OffsetFetch, api_version: version, correlation_id: 9, client_id: None }
}

/// What the crate read, in our structs.
fn from_crate(theirs: kafka::OffsetFetchResponse, version: i16) -> OffsetFetchResponse {
    let code = |code| ErrorCode::from_code(code).unwrap();
    let groups = if version >= FIRST_BATCH_VERSION {
        let groups = theirs.groups.into_iter();
        groups
            .map(|group| OffsetFetchResponseGroup {
                group_id: group.group_id.0,
                topics: group
                    .topics
                    .into_iter()
                    .map(|topic| OffsetFetchResponseTopic {
                        name: topic.name.0,
                        topic_id: TopicId::ZERO,
                        partitions: topic
                            .partitions
                            .into_iter()
                            .map(|partition| OffsetFetchResponsePartition {
                                partition: PartitionId(partition.partition_index),
                                committed_offset: Offset(partition.committed_offset),
                                committed_leader_epoch: LeaderEpoch(partition.committed_leader_epoch),
                                metadata: partition.metadata,
                                error_code: code(partition.error_code),
                            })
                            .collect(),
                    })
                    .collect(),
                error_code: code(group.error_code),
            })
            .collect()
    } else {
        let topics = theirs.topics.into_iter();
        let topics = topics.map(|topic| OffsetFetchResponseTopic {
            name: topic.name.0,
            topic_id: TopicId::ZERO,
            partitions: topic
                .partitions
                .into_iter()
                .map(|partition| OffsetFetchResponsePartition {
                    partition: PartitionId(partition.partition_index),
                    committed_offset: Offset(partition.committed_offset),
                    committed_leader_epoch: LeaderEpoch(partition.committed_leader_epoch),
                    metadata: partition.metadata,
                    error_code: code(partition.error_code),
                })
                .collect(),
        });
        let (topics, error_code) = (topics.collect(), code(theirs.error_code));
        vec![OffsetFetchResponseGroup { group_id: StrBytes::new(), topics, error_code }]
    };
    OffsetFetchResponse { throttle_time_ms: theirs.throttle_time_ms, groups }
}

proptest! {
    #[test]
    fn requests_round_trip((version, request) in (1..=10i16).prop_flat_map(|version| (Just(version), request(version)))) {
        let written = request.encode(version);
        let mut body = BytesMut::from(&written[..]);
        body.extend_from_slice(b"left over");
        let mut body = body.freeze();
        prop_assert_eq!(OffsetFetchRequest::decode(&mut body, version), Ok(request.clone()));
        prop_assert_eq!(&body, "left over");
        for end in (0..written.len()).step_by(7) {
            prop_assert!(OffsetFetchRequest::decode(&mut written.slice(..end), version).is_err());
        }
        if version < FIRST_TOPIC_ID_VERSION {
            let theirs = kafka::OffsetFetchRequest::decode(&mut written.clone(), version).unwrap();
            let mut again = BytesMut::new();
            theirs.encode(&mut again, version).unwrap();
            prop_assert_eq!(again, written);
        }
    }

    #[test]
    fn responses_are_written_as_the_crate_reads_them(
        (version, ours) in (1..=9i16).prop_flat_map(|version| (Just(version), response(version)))
    ) {
        let frame = ours.encode(&header(version)).unwrap();
        let mut body = frame.slice(if version >= 6 { 5.. } else { 4.. });
        let theirs = kafka::OffsetFetchResponse::decode(&mut body, version).unwrap();
        prop_assert_eq!(body.len(), 0);
        prop_assert_eq!(from_crate(theirs, version), ours);
    }

    #[test]
    fn topics_have_ids_since_v10(ours in response(10)) {
        let by_id = ours.encode(&header(10)).unwrap();
        let by_name = ours.encode(&header(9)).unwrap();
        let topics: usize = ours.groups.iter().map(|group| group.topics.len()).sum();
        // An empty name takes a byte.
        prop_assert_eq!(by_id.len(), by_name.len() + topics * 15);
        for topic in ours.groups.iter().flat_map(|group| &group.topics) {
            prop_assert!(by_id.windows(16).any(|window| window == topic.topic_id.0.as_bytes()));
        }
    }

    #[test]
    fn any_bytes_are_read_or_refused(version in 1..=10i16, bytes in vec(any::<u8>(), 0..200)) {
        let _ = OffsetFetchRequest::decode(&mut Bytes::from(bytes), version);
    }
}

#[test]
fn no_topics_means_all_since_v2() {
    let asks_for_all = b"\x00\x01g\xff\xff\xff\xff";
    let refused = OffsetFetchRequest::decode(&mut Bytes::from_static(asks_for_all), 1);
    assert_eq!(refused, Err(DecodeError::Null { field: "topics" }));
    let read = OffsetFetchRequest::decode(&mut Bytes::from_static(asks_for_all), 2).unwrap();
    assert_eq!(read.groups[0].topics, None);
}

#[test]
fn an_error_of_the_group_stands_with_each_partition_in_v1() {
    let topic = OffsetFetchTopic { partitions: vec![PartitionId(4)], ..OffsetFetchTopic::default() };
    let group = OffsetFetchGroup { topics: Some(vec![topic]), ..OffsetFetchGroup::default() };
    let error = OffsetFetchResponseGroup::error(&group, ErrorCode::NotCoordinator, 1);
    assert_eq!(error.error_code, ErrorCode::None);
    let partition = OffsetFetchResponsePartition::without_offset(PartitionId(4), ErrorCode::NotCoordinator);
    assert_eq!(error.topics[0].partitions, [partition]);
    let error = OffsetFetchResponseGroup::error(&group, ErrorCode::NotCoordinator, 2);
    assert_eq!((error.error_code, error.topics.len()), (ErrorCode::NotCoordinator, 0));
}

#[test]
fn counts_beyond_the_frame_are_refused_before_anything_is_allocated() {
    let mut body = Bytes::from_static(b"\xff\xff\xff\xff\x0f");
    assert!(matches!(
        OffsetFetchRequest::decode(&mut body, 9),
        Err(DecodeError::Null { .. } | DecodeError::Count { .. })
    ));
    let mut body = Bytes::from_static(b"\xff\xff\xff\xff\x07");
    assert!(matches!(OffsetFetchRequest::decode(&mut body, 9), Err(DecodeError::Count { field: "groups", .. })));
}
