//! Round trips against the `kafka-protocol` crate, which has its own idea of the same bytes, and the holes in frames.

use bytes::{Bytes, BytesMut};
use kafka_protocol::messages as kafka;
use kafka_protocol::messages::fetch_request as theirs;
use kafka_protocol::protocol::{Decodable, Encodable, StrBytes};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use super::response::INLINE_RECORDS;
use super::*;
use crate::protocol::frame::{Chunk, Frame};
use crate::protocol::messages::EncodeError;
use crate::protocol::wire::DecodeError;
use crate::protocol::{ApiKey, ErrorCode, RequestHeader};
use crate::types::{BrokerId, LeaderEpoch, Offset, PartitionId, ProducerId, TopicId};

fn text() -> impl Strategy<Value = StrBytes> {
    "[a-zé._-]{0,150}".prop_map(StrBytes::from_string)
}

fn topic_id() -> impl Strategy<Value = TopicId> {
    any::<u128>().prop_map(|id| TopicId(uuid::Uuid::from_u128(id)))
}

/// A partition with what the version has.
fn request_partition(version: i16) -> impl Strategy<Value = theirs::FetchPartition> {
    (any::<[i32; 4]>(), any::<[i64; 3]>(), topic_id()).prop_map(move |(numbers, offsets, directory)| {
        let mut partition = theirs::FetchPartition::default()
            .with_partition(numbers[0])
            .with_fetch_offset(offsets[0])
            .with_partition_max_bytes(numbers[1]);
        if version >= 5 {
            partition.log_start_offset = offsets[1];
        }
        if version >= 9 {
            partition.current_leader_epoch = numbers[2];
        }
        if version >= 12 {
            partition.last_fetched_epoch = numbers[3];
        }
        if version >= 17 {
            partition.replica_directory_id = directory.0;
        }
        if version >= 18 {
            partition.high_watermark = offsets[2];
        }
        partition
    })
}

fn request(version: i16) -> impl Strategy<Value = kafka::FetchRequest> {
    let topic = (text(), topic_id(), vec(request_partition(version), 0..4)).prop_map(move |(name, id, partitions)| {
        let topic = theirs::FetchTopic::default().with_partitions(partitions);
        if version >= FIRST_TOPIC_ID_VERSION { topic.with_topic_id(id.0) } else { topic.with_topic(name.into()) }
    });
    let forgotten = (text(), topic_id(), vec(any::<i32>(), 0..4)).prop_map(move |(name, id, partitions)| {
        let topic = theirs::ForgottenTopic::default().with_partitions(partitions);
        if version >= FIRST_TOPIC_ID_VERSION { topic.with_topic_id(id.0) } else { topic.with_topic(name.into()) }
    });
    (any::<[i32; 6]>(), any::<(i8, i64)>(), option::of(text()), text(), vec(topic, 0..4), vec(forgotten, 0..3))
        .prop_map(move |(numbers, (isolation_level, epoch), cluster_id, rack_id, topics, forgotten)| {
            let mut request = kafka::FetchRequest::default()
                .with_max_wait_ms(numbers[0])
                .with_min_bytes(numbers[1])
                .with_max_bytes(numbers[2])
                .with_isolation_level(isolation_level)
                .with_topics(topics);
            if version >= 7 {
                request.session_id = numbers[3];
                request.session_epoch = numbers[4];
                request.forgotten_topics_data = forgotten;
            }
            if version >= 11 {
                request.rack_id = rack_id;
            }
            if version >= 12 {
                request.cluster_id = cluster_id;
            }
            if version >= 15 {
                request.replica_state.replica_id = numbers[5].into();
                request.replica_state.replica_epoch = epoch;
            } else {
                request.replica_id = numbers[5].into();
            }
            request
        })
}

/// Records of a partition; `File` holds the bytes that its slice stands for.
fn records() -> impl Strategy<Value = FetchRecords<Bytes>> {
    let bytes = || vec(any::<u8>(), 0..1200).prop_map(Bytes::from);
    prop_oneof![
        Just(FetchRecords::Empty),
        bytes().prop_map(FetchRecords::Bytes),
        bytes().prop_map(|slice| FetchRecords::File { length: slice.len(), slice }),
    ]
}

fn response_partition() -> impl Strategy<Value = FetchResponsePartition<Bytes>> {
    let aborted = any::<(i64, i64)>().prop_map(|(producer_id, first_offset)| AbortedTransaction {
        producer_id: ProducerId(producer_id),
        first_offset: Offset(first_offset),
    });
    let pair = || option::of(any::<(i32, i64)>());
    (
        (any::<[i32; 2]>(), 0..ErrorCode::ALL.len(), any::<[i64; 3]>()),
        (option::of(vec(aborted, 0..4)), records(), pair(), option::of(any::<(i32, i32)>()), pair()),
    )
        .prop_map(|((numbers, error, offsets), (aborted_transactions, records, diverging, leader, snapshot))| {
            FetchResponsePartition {
                partition: PartitionId(numbers[0]),
                error_code: ErrorCode::ALL[error],
                high_watermark: Offset(offsets[0]),
                last_stable_offset: Offset(offsets[1]),
                log_start_offset: Offset(offsets[2]),
                aborted_transactions,
                preferred_read_replica: BrokerId(numbers[1]),
                records,
                diverging_epoch: diverging
                    .map(|(epoch, end)| EpochEndOffset { epoch: LeaderEpoch(epoch), end_offset: Offset(end) }),
                current_leader: leader
                    .map(|(id, epoch)| LeaderIdAndEpoch { leader_id: BrokerId(id), leader_epoch: LeaderEpoch(epoch) }),
                snapshot_id: snapshot
                    .map(|(epoch, end)| SnapshotId { end_offset: Offset(end), epoch: LeaderEpoch(epoch) }),
            }
        })
}

fn response() -> impl Strategy<Value = FetchResponse<Bytes>> {
    let topic = (text(), topic_id(), vec(response_partition(), 0..4))
        .prop_map(|(name, topic_id, partitions)| FetchResponseTopic { name, topic_id, partitions });
    let endpoint = (any::<i32>(), text(), any::<i32>(), option::of(text()))
        .prop_map(|(id, host, port, rack)| NodeEndpoint { node_id: BrokerId(id), host, port, rack });
    (any::<[i32; 2]>(), 0..ErrorCode::ALL.len(), vec(topic, 0..4), vec(endpoint, 0..3)).prop_map(
        |(numbers, error, topics, node_endpoints)| FetchResponse {
            throttle_time_ms: numbers[0],
            error_code: ErrorCode::ALL[error],
            session_id: numbers[1],
            topics,
            node_endpoints,
        },
    )
}

fn header(version: i16) -> RequestHeader {
    RequestHeader { api_key: ApiKey::Fetch, api_version: version, correlation_id: 9, client_id: None }
}

/// What goes on the wire, once the connection has filled the holes.
fn wire(frame: Frame<Bytes>) -> Bytes {
    let length = frame.len();
    let chunks = frame.chunks.into_iter().map(|chunk| match chunk {
        Chunk::Bytes(bytes) => bytes,
        Chunk::File { slice, length } => {
            assert_eq!(slice.len(), length);
            slice
        }
    });
    let chunks: Vec<Bytes> = chunks.collect();
    assert!(chunks.iter().all(|chunk| !chunk.is_empty()), "an empty chunk");
    let bytes = Bytes::from(chunks.concat());
    assert_eq!(bytes.len(), length);
    bytes
}

/// Reads a frame back by the crate.
fn by_the_crate(frame: Frame<Bytes>, version: i16) -> kafka::FetchResponse {
    let mut bytes = wire(frame);
    let mut expected = BytesMut::new();
    header(version).put_response_header(&mut expected);
    assert_eq!(bytes.split_to(expected.len()), expected);
    let response = kafka::FetchResponse::decode(&mut bytes, version).unwrap();
    assert_eq!(bytes.len(), 0);
    response
}

/// Compares field by field; what the version has no room for is at the crate's default.
fn assert_same(ours: &FetchResponse<Bytes>, theirs: &kafka::FetchResponse, version: i16) {
    assert_eq!(theirs.throttle_time_ms, ours.throttle_time_ms);
    let session = if version >= 7 { (ours.error_code.code(), ours.session_id) } else { (0, 0) };
    assert_eq!((theirs.error_code, theirs.session_id), session);
    assert_eq!(theirs.responses.len(), ours.topics.len());
    for (ours, theirs) in ours.topics.iter().zip(&theirs.responses) {
        if version >= FIRST_TOPIC_ID_VERSION {
            assert_eq!(theirs.topic_id, ours.topic_id.0);
        } else {
            assert_eq!(*theirs.topic, *ours.name);
        }
        assert_eq!(theirs.partitions.len(), ours.partitions.len());
        for (ours, theirs) in ours.partitions.iter().zip(&theirs.partitions) {
            assert_same_partition(ours, theirs, version);
        }
    }
    let endpoints = theirs.node_endpoints.iter().map(|e| (*e.node_id, e.host.clone(), e.port, e.rack.clone()));
    let ours = ours.node_endpoints.iter().filter(|_| version >= 16);
    assert!(endpoints.eq(ours.map(|e| (e.node_id.0, e.host.clone(), e.port, e.rack.clone()))));
}

fn assert_same_partition(
    ours: &FetchResponsePartition<Bytes>,
    theirs: &kafka::fetch_response::PartitionData,
    version: i16,
) {
    assert_eq!((theirs.partition_index, theirs.error_code), (ours.partition.0, ours.error_code.code()));
    assert_eq!(theirs.high_watermark, ours.high_watermark.0);
    assert_eq!(theirs.last_stable_offset, ours.last_stable_offset.0);
    assert_eq!(theirs.log_start_offset, if version >= 5 { ours.log_start_offset.0 } else { -1 });
    assert_eq!(*theirs.preferred_read_replica, if version >= 11 { ours.preferred_read_replica.0 } else { -1 });
    let aborted = |transactions: &Vec<AbortedTransaction>| {
        transactions.iter().map(|t| (t.producer_id.0, t.first_offset.0)).collect::<Vec<_>>()
    };
    let their_aborted = theirs.aborted_transactions.as_ref();
    let their_aborted = their_aborted.map(|all| all.iter().map(|t| (*t.producer_id, t.first_offset)).collect());
    assert_eq!(their_aborted, ours.aborted_transactions.as_ref().map(aborted));
    let records = match &ours.records {
        FetchRecords::Empty => Bytes::new(),
        FetchRecords::Bytes(bytes) | FetchRecords::File { slice: bytes, .. } => bytes.clone(),
    };
    assert_eq!(theirs.records, Some(records), "empty records are not null");
    let flexible = version >= 12;
    let diverging = ours.diverging_epoch.filter(|_| flexible).map_or((-1, -1), |e| (e.epoch.0, e.end_offset.0));
    assert_eq!((theirs.diverging_epoch.epoch, theirs.diverging_epoch.end_offset), diverging);
    let leader = ours.current_leader.filter(|_| flexible).map_or((-1, -1), |l| (l.leader_id.0, l.leader_epoch.0));
    assert_eq!((*theirs.current_leader.leader_id, theirs.current_leader.leader_epoch), leader);
    let snapshot = ours.snapshot_id.filter(|_| flexible).map_or((-1, -1), |s| (s.end_offset.0, s.epoch.0));
    assert_eq!((theirs.snapshot_id.end_offset, theirs.snapshot_id.epoch), snapshot);
}

proptest! {
    #[test]
    fn requests_are_read_as_the_crate_writes_them(
        (version, theirs) in (4..=18i16).prop_flat_map(|version| (Just(version), request(version)))
    ) {
        let mut body = BytesMut::new();
        theirs.encode(&mut body, version).unwrap();
        body.extend_from_slice(b"left over");
        let mut body = body.freeze();
        let ours = FetchRequest::decode(&mut body, version).unwrap();
        prop_assert_eq!(&body, "left over");

        prop_assert_eq!(&ours.cluster_id, &theirs.cluster_id);
        let replica = if version >= 15 {
            (*theirs.replica_state.replica_id, theirs.replica_state.replica_epoch)
        } else {
            (*theirs.replica_id, -1)
        };
        prop_assert_eq!((ours.replica_id.0, ours.replica_epoch), replica);
        prop_assert_eq!(
            (ours.max_wait_ms, ours.min_bytes, ours.max_bytes, ours.isolation_level),
            (theirs.max_wait_ms, theirs.min_bytes, theirs.max_bytes, theirs.isolation_level)
        );
        prop_assert_eq!((ours.session_id, ours.session_epoch), (theirs.session_id, theirs.session_epoch));
        prop_assert_eq!(&*ours.rack_id, &*theirs.rack_id);
        prop_assert_eq!(ours.topics().len(), theirs.topics.len());
        for ((ours, partitions), theirs) in ours.topics().zip(&theirs.topics) {
            prop_assert_eq!((&*ours.name, ours.topic_id.0), (&**theirs.topic, theirs.topic_id));
            prop_assert_eq!(partitions.len(), theirs.partitions.len());
            for (ours, theirs) in partitions.iter().zip(&theirs.partitions) {
                prop_assert_eq!(ours.partition.0, theirs.partition);
                prop_assert_eq!(ours.current_leader_epoch.0, theirs.current_leader_epoch);
                prop_assert_eq!(ours.fetch_offset.0, theirs.fetch_offset);
                prop_assert_eq!(ours.last_fetched_epoch.0, theirs.last_fetched_epoch);
                prop_assert_eq!(ours.log_start_offset.0, theirs.log_start_offset);
                prop_assert_eq!(ours.partition_max_bytes, theirs.partition_max_bytes);
                prop_assert_eq!(ours.replica_directory_id.0, theirs.replica_directory_id);
                prop_assert_eq!(ours.high_watermark.0, theirs.high_watermark);
            }
        }
        prop_assert_eq!(ours.forgotten_topics.len(), theirs.forgotten_topics_data.len());
        for (ours, theirs) in ours.forgotten_topics.iter().zip(&theirs.forgotten_topics_data) {
            prop_assert_eq!((&*ours.name, ours.topic_id.0), (&**theirs.topic, theirs.topic_id));
            prop_assert!(ours.partitions.iter().map(|partition| partition.0).eq(theirs.partitions.iter().copied()));
        }
    }

    #[test]
    fn responses_are_written_as_the_crate_reads_them(ours in response(), version in 4..=18i16) {
        let theirs = by_the_crate(ours.clone().encode(&header(version)).unwrap(), version);
        assert_same(&ours, &theirs, version);
    }

    #[test]
    fn random_bytes_never_panic(bytes in vec(any::<u8>(), 0..200), version in 4..=18i16) {
        let _ = FetchRequest::decode(&mut Bytes::from(bytes), version);
    }
}

#[test]
fn records_are_spliced_in_and_never_copied() {
    let big = Bytes::from(vec![7; INLINE_RECORDS]);
    let partition =
        |records| FetchResponsePartition { records, ..FetchResponsePartition::error(PartitionId(0), ErrorCode::None) };
    let response = FetchResponse {
        topics: vec![FetchResponseTopic {
            name: StrBytes::from_static_str("t"),
            topic_id: TopicId::ZERO,
            partitions: vec![
                partition(FetchRecords::Bytes(big.clone())),
                partition(FetchRecords::Empty),
                partition(FetchRecords::File { slice: "a file", length: 1 << 30 }),
            ],
        }],
        ..FetchResponse::default()
    };
    // v11: nothing follows the last records but what frames have after them.
    let frame = response.clone().encode(&header(11)).unwrap();
    let [Chunk::Bytes(_), Chunk::Bytes(spliced), Chunk::Bytes(_), Chunk::File { slice: "a file", length }] =
        &frame.chunks[..]
    else {
        panic!("{:?}", frame.chunks);
    };
    assert_eq!(spliced.as_ptr(), big.as_ptr());
    assert_eq!(*length, 1 << 30);
    assert!(frame.len() > 1 << 30);
    // v12: tagged fields follow.
    assert!(matches!(response.encode(&header(12)).unwrap().chunks.last(), Some(Chunk::Bytes(_))));
}

#[test]
fn a_frame_longer_than_its_length_can_say_is_an_error() {
    let partition = |length| FetchResponsePartition {
        records: FetchRecords::File { slice: (), length },
        ..FetchResponsePartition::error(PartitionId(0), ErrorCode::None)
    };
    let response = FetchResponse {
        topics: vec![FetchResponseTopic {
            name: StrBytes::new(),
            topic_id: TopicId::ZERO,
            partitions: vec![partition(i32::MAX as usize / 2), partition(i32::MAX as usize / 2)],
        }],
        ..FetchResponse::default()
    };
    let refused = response.encode(&header(18));
    assert!(matches!(refused, Err(EncodeError::TooLong { api_key: ApiKey::Fetch, version: 18 })));
}

#[test]
fn a_tag_of_a_later_version_is_refused() {
    // replica_state in v12.
    let body = b"\xff\xff\xff\xff\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01\x01\x01\x01\x01\x00";
    let refused = FetchRequest::decode(&mut Bytes::from_static(body), 12);
    assert_eq!(refused, Err(DecodeError::Tag { tag: 1 }));
}
