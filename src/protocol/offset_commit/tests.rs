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

fn error_code() -> impl Strategy<Value = ErrorCode> {
    (0..ErrorCode::ALL.len()).prop_map(|index| ErrorCode::ALL[index])
}

fn request(version: i16) -> impl Strategy<Value = OffsetCommitRequest> {
    let partition = (any::<i32>(), any::<i64>(), any::<i32>(), option::of(text())).prop_map(
        move |(index, offset, epoch, committed_metadata)| OffsetCommitPartition {
            partition: PartitionId(index),
            committed_offset: Offset(offset),
            committed_leader_epoch: if version >= 6 { LeaderEpoch(epoch) } else { LeaderEpoch::UNKNOWN },
            committed_metadata,
        },
    );
    let topic = (text(), topic_id(), vec(partition, 0..5));
    let member = (text(), any::<i32>(), text(), option::of(text()), any::<i64>());
    (member, vec(topic, 0..4)).prop_map(move |((group_id, generation, member_id, instance_id, retention), topics)| {
        let mut request = OffsetCommitRequest {
            group_id,
            generation_id_or_member_epoch: generation,
            member_id,
            group_instance_id: instance_id.filter(|_| version >= 7),
            retention_time_ms: if version <= 4 { retention } else { DEFAULT_RETENTION_TIME_MS },
            ..OffsetCommitRequest::default()
        };
        for (name, id, partitions) in topics {
            let by_id = version >= FIRST_TOPIC_ID_VERSION;
            let (name, id) = if by_id { (StrBytes::new(), id) } else { (name, TopicId::ZERO) };
            request.push_topic(name, id, partitions);
        }
        request
    })
}

fn header(version: i16) -> RequestHeader {
    RequestHeader { api_key: ApiKey::OffsetCommit, api_version: version, correlation_id: 9, client_id: None }
}

proptest! {
    #[test]
    fn requests_round_trip((version, request) in (2..=10i16).prop_flat_map(|version| (Just(version), request(version)))) {
        let written = request.encode(version);
        let mut body = BytesMut::from(&written[..]);
        body.extend_from_slice(b"left over");
        let mut body = body.freeze();
        prop_assert_eq!(OffsetCommitRequest::decode(&mut body, version), Ok(request.clone()));
        prop_assert_eq!(&body, "left over");
        for end in (0..written.len()).step_by(7) {
            prop_assert!(OffsetCommitRequest::decode(&mut written.slice(..end), version).is_err());
        }
        if version < FIRST_TOPIC_ID_VERSION {
            let theirs = kafka::OffsetCommitRequest::decode(&mut written.clone(), version).unwrap();
            prop_assert_eq!(&*theirs.group_id, &request.group_id);
            prop_assert_eq!(theirs.generation_id_or_member_epoch, request.generation_id_or_member_epoch);
            prop_assert_eq!(theirs.retention_time_ms, request.retention_time_ms);
            prop_assert_eq!(&theirs.group_instance_id, &request.group_instance_id);
            let mut again = BytesMut::new();
            theirs.encode(&mut again, version).unwrap();
            prop_assert_eq!(again, written);
        }
    }

    #[test]
    fn responses_are_written_as_the_crate_reads_them(
        version in 2..=10i16,
        throttle_time_ms in any::<i32>(),
        topics in vec((text(), topic_id(), vec((any::<i32>(), error_code()), 0..5)), 0..4),
    ) {
        let topics = topics.into_iter().map(|(name, topic_id, partitions)| OffsetCommitResponseTopic {
            name,
            topic_id,
            partitions: partitions.into_iter().map(|(index, code)| (PartitionId(index), code)).collect(),
        });
        let ours = OffsetCommitResponse { throttle_time_ms, topics: topics.collect() };
        let frame = ours.encode(&header(version)).unwrap();
        let mut body = frame.slice(if version >= 8 { 5.. } else { 4.. });
        if version < FIRST_TOPIC_ID_VERSION {
            let theirs = kafka::OffsetCommitResponse::decode(&mut body, version).unwrap();
            prop_assert_eq!(body.len(), 0);
            prop_assert_eq!(theirs.throttle_time_ms, if version >= 3 { throttle_time_ms } else { 0 });
            prop_assert_eq!(theirs.topics.len(), ours.topics.len());
            for (theirs, ours) in theirs.topics.iter().zip(&ours.topics) {
                prop_assert_eq!(&*theirs.name, &ours.name);
                let theirs: Vec<_> = theirs.partitions.iter().map(|p| (p.partition_index, p.error_code)).collect();
                let ours: Vec<_> = ours.partitions.iter().map(|(p, code)| (p.0, code.code())).collect();
                prop_assert_eq!(theirs, ours);
            }
        } else {
            let mut expected = 4 + 1 + 1;
            for topic in &ours.topics {
                let id = topic.topic_id.0.as_bytes();
                prop_assert!(frame.windows(16).any(|window| window == id));
                expected += 16 + 1 + topic.partitions.len() * 7 + 1;
            }
            prop_assert_eq!(body.len(), expected);
        }
    }

    #[test]
    fn any_bytes_are_read_or_refused(version in 2..=10i16, bytes in vec(any::<u8>(), 0..200)) {
        let _ = OffsetCommitRequest::decode(&mut Bytes::from(bytes), version);
    }
}

#[test]
fn counts_beyond_the_frame_are_refused_before_anything_is_allocated() {
    // Group "", epoch 0, member "", no instance, then 2^31 - 2 topics.
    let mut body = Bytes::from_static(b"\x01\x00\x00\x00\x00\x01\x00\xff\xff\xff\xff\x07");
    assert_eq!(
        OffsetCommitRequest::decode(&mut body, 9),
        Err(DecodeError::Count { field: "topics", count: 0x7fff_fffe })
    );
    // As many topics as bytes, more than a request may have.
    let mut body = BytesMut::from(&b"\x01\x00\x00\x00\x00\x01\x00\x81\x80\x80\x01"[..]);
    body.resize(body.len() + 7 * (1 << 20), 0);
    let refused = OffsetCommitRequest::decode(&mut body.freeze(), 9);
    assert_eq!(refused, Err(DecodeError::Entries { limit: 1 << 20 }));
}
