//! Round trips against the `kafka-protocol` crate, which has its own idea of the same bytes.

use kafka_protocol::messages as kafka;
use kafka_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
use kafka_protocol::protocol::{Decodable, Encodable};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use super::*;
use crate::types::{BrokerId, LeaderEpoch};

fn text() -> impl Strategy<Value = StrBytes> {
    "[a-zé._-]{0,150}".prop_map(StrBytes::from_string)
}

fn topic_id() -> impl Strategy<Value = TopicId> {
    any::<u128>().prop_map(|id| TopicId(uuid::Uuid::from_u128(id)))
}

fn error_code() -> impl Strategy<Value = ErrorCode> {
    (0..ErrorCode::ALL.len()).prop_map(|index| ErrorCode::ALL[index])
}

fn request(version: i16) -> impl Strategy<Value = kafka::ProduceRequest> {
    let partition = (any::<i32>(), option::of(vec(any::<u8>(), 0..300))).prop_map(|(index, records)| {
        PartitionProduceData::default().with_index(index).with_records(records.map(Bytes::from))
    });
    let topic = (text(), topic_id(), vec(partition, 0..4)).prop_map(move |(name, id, partitions)| {
        let topic = TopicProduceData::default().with_partition_data(partitions);
        if version >= FIRST_TOPIC_ID_VERSION { topic.with_topic_id(id.0) } else { topic.with_name(name.into()) }
    });
    (option::of(text()), any::<i16>(), any::<i32>(), vec(topic, 0..4)).prop_map(|(id, acks, timeout_ms, topics)| {
        kafka::ProduceRequest::default()
            .with_transactional_id(id.map(Into::into))
            .with_acks(acks)
            .with_timeout_ms(timeout_ms)
            .with_topic_data(topics)
    })
}

fn response() -> impl Strategy<Value = ProduceResponse> {
    let record_error =
        (any::<i32>(), option::of(text())).prop_map(|(batch_index, message)| RecordError { batch_index, message });
    let leader = (any::<i32>(), any::<i32>())
        .prop_map(|(id, epoch)| LeaderIdAndEpoch { leader_id: BrokerId(id), leader_epoch: LeaderEpoch(epoch) });
    let partition = (
        (any::<i32>(), error_code(), any::<[i64; 3]>()),
        (vec(record_error, 0..3), option::of(text()), option::of(leader)),
    )
        .prop_map(|((index, error_code, offsets), (record_errors, error_message, current_leader))| {
            ProduceResponsePartition {
                partition: PartitionId(index),
                error_code,
                base_offset: Offset(offsets[0]),
                log_append_time_ms: offsets[1],
                log_start_offset: Offset(offsets[2]),
                record_errors,
                error_message,
                current_leader,
            }
        });
    let topic = (text(), topic_id(), vec(partition, 0..4))
        .prop_map(|(name, topic_id, partitions)| ProduceResponseTopic { name, topic_id, partitions });
    let endpoint = (any::<i32>(), text(), any::<i32>(), option::of(text()))
        .prop_map(|(id, host, port, rack)| NodeEndpoint { node_id: BrokerId(id), host, port, rack });
    (vec(topic, 0..4), any::<i32>(), vec(endpoint, 0..3)).prop_map(|(topics, throttle_time_ms, node_endpoints)| {
        ProduceResponse { topics, throttle_time_ms, node_endpoints }
    })
}

fn header(version: i16) -> RequestHeader {
    RequestHeader { api_key: ApiKey::Produce, api_version: version, correlation_id: 9, client_id: None }
}

/// Compares field by field; what the version has no room for is at the crate's default.
fn assert_same(ours: &ProduceResponse, theirs: &kafka::ProduceResponse, version: i16) {
    assert_eq!(theirs.throttle_time_ms, ours.throttle_time_ms);
    assert_eq!(theirs.responses.len(), ours.topics.len());
    for (ours, theirs) in ours.topics.iter().zip(&theirs.responses) {
        if version >= FIRST_TOPIC_ID_VERSION {
            assert_eq!(theirs.topic_id, ours.topic_id.0);
        } else {
            assert_eq!(*theirs.name, *ours.name);
        }
        assert_eq!(theirs.partition_responses.len(), ours.partitions.len());
        for (ours, theirs) in ours.partitions.iter().zip(&theirs.partition_responses) {
            assert_eq!((theirs.index, theirs.error_code), (ours.partition.0, ours.error_code.code()));
            assert_eq!((theirs.base_offset, theirs.log_append_time_ms), (ours.base_offset.0, ours.log_append_time_ms));
            assert_eq!(theirs.log_start_offset, if version >= 5 { ours.log_start_offset.0 } else { -1 });
            if version >= 8 {
                assert_eq!(theirs.error_message, ours.error_message);
                let errors = theirs.record_errors.iter().map(|e| (e.batch_index, e.batch_index_error_message.clone()));
                assert!(errors.eq(ours.record_errors.iter().map(|error| (error.batch_index, error.message.clone()))));
            }
            let leader = ours
                .current_leader
                .filter(|_| version >= 10)
                .map_or((-1, -1), |leader| (leader.leader_id.0, leader.leader_epoch.0));
            assert_eq!((*theirs.current_leader.leader_id, theirs.current_leader.leader_epoch), leader);
        }
    }
    let endpoints = theirs.node_endpoints.iter().map(|e| (*e.node_id, e.host.clone(), e.port, e.rack.clone()));
    let ours = ours.node_endpoints.iter().filter(|_| version >= 10);
    assert!(endpoints.eq(ours.map(|e| (e.node_id.0, e.host.clone(), e.port, e.rack.clone()))));
}

proptest! {
    #[test]
    fn requests_are_read_as_the_crate_writes_them((version, theirs) in (3..=13i16).prop_flat_map(|version| (Just(version), request(version)))) {
        let mut body = BytesMut::new();
        theirs.encode(&mut body, version).unwrap();
        body.extend_from_slice(b"left over");
        let mut body = body.freeze();
        let frame = body.as_ptr_range();
        let ours = ProduceRequest::decode(&mut body, version).unwrap();
        prop_assert_eq!(&body, "left over");
        prop_assert_eq!(ours.transactional_id.as_deref(), theirs.transactional_id.as_deref().map(|id| &**id));
        prop_assert_eq!((ours.acks, ours.timeout_ms), (theirs.acks, theirs.timeout_ms));
        prop_assert_eq!(ours.topics().len(), theirs.topic_data.len());
        prop_assert_eq!(ours.partition_count(), theirs.topic_data.iter().map(|topic| topic.partition_data.len()).sum::<usize>());
        for ((ours, partitions), theirs) in ours.topics().zip(&theirs.topic_data) {
            prop_assert_eq!((&*ours.name, ours.topic_id.0), (&**theirs.name, theirs.topic_id));
            prop_assert_eq!(partitions.len(), theirs.partition_data.len());
            for (ours, theirs) in partitions.iter().zip(&theirs.partition_data) {
                prop_assert_eq!((ours.partition.0, &ours.records), (theirs.index, &theirs.records));
                // Records are slices of the frame.
                prop_assert!(ours.records.iter().all(|records| records.is_empty() || frame.contains(&records.as_ptr())));
            }
        }
    }

    #[test]
    fn responses_are_written_as_the_crate_reads_them(ours in response(), version in 3..=13i16) {
        let header = header(version);
        let mut frame = ours.encode(&header).unwrap();
        let mut expected = BytesMut::new();
        header.put_response_header(&mut expected);
        prop_assert_eq!(frame.split_to(expected.len()), expected);
        let theirs = kafka::ProduceResponse::decode(&mut frame, version).unwrap();
        prop_assert_eq!(frame.len(), 0);
        assert_same(&ours, &theirs, version);
    }

    #[test]
    fn random_bytes_never_panic(bytes in vec(any::<u8>(), 0..200), version in 3..=13i16) {
        let _ = ProduceRequest::decode(&mut Bytes::from(bytes), version);
    }
}

#[test]
fn counts_are_held_to_the_bytes_that_are_there() {
    for (version, body) in [
        (9, &b"\x00\x00\x00\x00\x00\x00\x00\xff\xff\xff\xff\x07"[..]),
        (3, b"\xff\xff\x00\x01\x00\x00\x00\x00\x7f\xff\xff\xff"),
    ] {
        let refused = ProduceRequest::decode(&mut Bytes::from_static(body), version);
        assert!(matches!(refused, Err(DecodeError::Count { field: "topic_data", .. })), "{refused:?}");
    }
}

#[test]
fn null_records_are_told_from_empty_ones() {
    let request = |length: &[u8]| {
        let start = b"\xff\xff\x00\x01\x00\x00\x00\x00\x00\x00\x00\x01\x00\x01t\x00\x00\x00\x01\x00\x00\x00\x00";
        ProduceRequest::decode(&mut [&start[..], length].concat().into(), 3).unwrap()
    };
    assert_eq!(request(b"\x00\x00\x00\x00").partitions[0].records, Some(Bytes::new()));
    assert_eq!(request(b"\xff\xff\xff\xff").partitions[0].records, None);
}

#[test]
fn a_message_longer_than_a_string_may_be_is_cut_at_a_character() {
    let mut partition = ProduceResponsePartition::error(PartitionId(0), ErrorCode::InvalidRecord);
    partition.error_message = Some(StrBytes::from_string("é".repeat(20_000)));
    let topic = ProduceResponseTopic {
        name: StrBytes::from_static_str("t"),
        partitions: vec![partition],
        ..Default::default()
    };
    let response = ProduceResponse { topics: vec![topic], ..Default::default() };
    for version in [8, 9] {
        let header = header(version);
        let mut frame = response.encode(&header).unwrap();
        let _ = frame.split_to(if version >= 9 { 5 } else { 4 });
        let theirs = kafka::ProduceResponse::decode(&mut frame, version).unwrap();
        let message = theirs.responses[0].partition_responses[0].error_message.as_deref().unwrap();
        assert_eq!(message, "é".repeat(16_383));
    }
}
