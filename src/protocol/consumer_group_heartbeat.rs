//! ConsumerGroupHeartbeat (key 68), by hand: every member of a consumer group sends it every few seconds, and there is
//! little else to its cost than reading and writing it. The structs are the crate's.
//!
//! ```text
//! request   group_id string · member_id string · member_epoch i32 · instance_id nullable string · rack_id nullable string
//!           · rebalance_timeout_ms i32 · nullable [subscribed_topic_names: string]
//!           · v1+: subscribed_topic_regex nullable string · server_assignor nullable string
//!           · nullable [topic_partitions: topic_id uuid · [partitions: i32]]
//! response  throttle_time_ms i32 · error_code i16 · error_message nullable string · member_id nullable string
//!           · member_epoch i32 · heartbeat_interval_ms i32
//!           · assignment: i8, 1 before the struct, -1 where there is none
//!             [topic_partitions: topic_id uuid · [partitions: i32]]
//! ```
//! Flexible in all versions (KIP-848). v1 has regular expressions (KIP-1082).

use bytes::{Bytes, BytesMut};
use kafka_protocol::messages::consumer_group_heartbeat_request::TopicPartitions;
use kafka_protocol::messages::{ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse, GroupId, TopicName};

use super::frame;
use super::header::RequestHeader;
use super::messages::EncodeError;
use super::versions::ApiKey;
use super::wire::{DecodeError, Reader, Writer};

/// Reads a body of version 0 or 1. Bytes left over stay in `body`.
pub fn decode(body: &mut Bytes, version: i16) -> Result<ConsumerGroupHeartbeatRequest, DecodeError> {
    let mut reader = Reader::new(body, true).with_bounded_entries();
    let mut request = ConsumerGroupHeartbeatRequest::default();
    request.group_id = GroupId(reader.string("group_id")?);
    request.member_id = reader.string("member_id")?;
    request.member_epoch = reader.i32()?;
    request.instance_id = reader.nullable_string("instance_id")?;
    request.rack_id = reader.nullable_string("rack_id")?;
    request.rebalance_timeout_ms = reader.i32()?;
    if let Some(count) = reader.nullable_count("subscribed_topic_names", 1)? {
        let mut names = Vec::with_capacity(count);
        for _ in 0..count {
            names.push(TopicName(reader.string("subscribed_topic_names")?));
        }
        request.subscribed_topic_names = Some(names);
    }
    // v1+: KIP-1082.
    if version >= 1 {
        request.subscribed_topic_regex = reader.nullable_string("subscribed_topic_regex")?;
    }
    request.server_assignor = reader.nullable_string("server_assignor")?;
    if let Some(count) = reader.nullable_count("topic_partitions", 18)? {
        let mut topics = Vec::with_capacity(count);
        for _ in 0..count {
            topics.push(decode_topic(&mut reader)?);
        }
        request.topic_partitions = Some(topics);
    }
    reader.unknown_tagged_fields()?;
    Ok(request)
}

fn decode_topic(reader: &mut Reader<'_>) -> Result<TopicPartitions, DecodeError> {
    let topic_id = reader.uuid()?;
    let count = reader.count("partitions", 4)?;
    let mut partitions = Vec::with_capacity(count);
    for _ in 0..count {
        partitions.push(reader.i32()?);
    }
    reader.unknown_tagged_fields()?;
    Ok(TopicPartitions::default().with_topic_id(topic_id).with_partitions(partitions))
}

/// Writes the frame, without its length, of the response to the request that `header` stood before.
pub fn encode_response(
    header: &RequestHeader,
    response: &ConsumerGroupHeartbeatResponse,
) -> Result<Bytes, EncodeError> {
    let topics = response.assignment.as_ref().map_or(&[][..], |assignment| &assignment.topic_partitions);
    let partitions: usize = topics.iter().map(|topic| topic.partitions.len()).sum();
    let mut buffer = BytesMut::with_capacity(96 + topics.len() * 24 + partitions * 4);
    header.put_response_header(&mut buffer);
    let mut writer = Writer::new(buffer, true);
    writer.i32(response.throttle_time_ms);
    writer.i16(response.error_code);
    writer.nullable_string(response.error_message.as_deref());
    writer.nullable_string(response.member_id.as_deref());
    writer.i32(response.member_epoch);
    writer.i32(response.heartbeat_interval_ms);
    if response.assignment.is_some() {
        writer.i8(1);
        writer.length(Some(topics.len()));
        for topic in topics {
            writer.uuid(topic.topic_id);
            writer.length(Some(topic.partitions.len()));
            for partition in &topic.partitions {
                writer.i32(*partition);
            }
            writer.no_tagged_fields();
        }
        writer.no_tagged_fields();
    } else {
        writer.i8(-1);
    }
    writer.no_tagged_fields();
    if !frame::fits(writer.bytes.len()) {
        return Err(EncodeError::TooLong { api_key: ApiKey::ConsumerGroupHeartbeat, version: header.api_version });
    }
    Ok(writer.bytes.freeze())
}

#[cfg(test)]
mod tests {
    //! Both ways against the `kafka-protocol` crate, which has its own idea of the same bytes.

    use kafka_protocol::messages::consumer_group_heartbeat_response as response;
    use kafka_protocol::protocol::{Decodable, Encodable, StrBytes};
    use proptest::collection::vec;
    use proptest::option;
    use proptest::prelude::*;
    use uuid::Uuid;

    use super::*;
    use crate::protocol::messages;

    fn text() -> impl Strategy<Value = StrBytes> {
        "[a-zé._-]{0,150}".prop_map(StrBytes::from_string)
    }

    fn topics() -> impl Strategy<Value = Vec<(Uuid, Vec<i32>)>> {
        vec((any::<u128>().prop_map(Uuid::from_u128), vec(any::<i32>(), 0..5)), 0..4)
    }

    fn request(version: i16) -> impl Strategy<Value = ConsumerGroupHeartbeatRequest> {
        let ids = (text(), text(), any::<i32>(), option::of(text()), option::of(text()), any::<i32>());
        let wanted = (option::of(vec(text(), 0..4)), option::of(text()), option::of(text()), option::of(topics()));
        (ids, wanted).prop_map(move |(ids, (names, regex, assignor, owned))| {
            let owned = owned.map(|owned| {
                owned
                    .into_iter()
                    .map(|(id, partitions)| TopicPartitions::default().with_topic_id(id).with_partitions(partitions))
                    .collect()
            });
            ConsumerGroupHeartbeatRequest::default()
                .with_group_id(GroupId(ids.0))
                .with_member_id(ids.1)
                .with_member_epoch(ids.2)
                .with_instance_id(ids.3)
                .with_rack_id(ids.4)
                .with_rebalance_timeout_ms(ids.5)
                .with_subscribed_topic_names(names.map(|names| names.into_iter().map(TopicName).collect()))
                .with_subscribed_topic_regex(regex.filter(|_| version >= 1))
                .with_server_assignor(assignor)
                .with_topic_partitions(owned)
        })
    }

    proptest! {
        #[test]
        fn requests_are_read_as_the_crate_writes_them(
            (version, request) in (0..=1i16).prop_flat_map(|version| (Just(version), request(version))),
        ) {
            let mut written = BytesMut::new();
            request.encode(&mut written, version).unwrap();
            let written = written.freeze();
            let mut body = Bytes::from([&written[..], b"left over"].concat());
            prop_assert_eq!(decode(&mut body, version), Ok(request));
            prop_assert_eq!(&body, "left over");
            for end in (0..written.len()).step_by(7) {
                prop_assert!(decode(&mut written.slice(..end), version).is_err());
            }
        }

        #[test]
        fn any_bytes_are_read_as_the_crate_reads_them_or_refused(
            version in 0..=1i16,
            body in vec(prop_oneof![0..6u8, Just(0xff), any::<u8>()], 0..100),
        ) {
            let (mut ours, mut theirs) = (Bytes::from(body.clone()), Bytes::from(body));
            let read = decode(&mut ours, version);
            let read_by_crate = messages::decode::<ConsumerGroupHeartbeatRequest>(&mut theirs, version);
            prop_assert_eq!(read.is_ok(), read_by_crate.is_ok());
            if let (Ok(read), Ok(read_by_crate)) = (read, read_by_crate) {
                prop_assert_eq!(read, read_by_crate);
                prop_assert_eq!(ours, theirs);
            }
        }

        #[test]
        fn responses_are_written_as_the_crate_reads_them(
            version in 0..=1i16,
            numbers in (any::<i32>(), any::<i16>(), any::<i32>(), any::<i32>()),
            message in option::of(text()),
            member_id in option::of(text()),
            assignment in option::of(topics()),
        ) {
            let assignment = assignment.map(|topics| {
                let topics = topics.into_iter().map(|(id, partitions)| {
                    response::TopicPartitions::default().with_topic_id(id).with_partitions(partitions)
                });
                response::Assignment::default().with_topic_partitions(topics.collect())
            });
            let response = ConsumerGroupHeartbeatResponse::default()
                .with_throttle_time_ms(numbers.0)
                .with_error_code(numbers.1)
                .with_error_message(message)
                .with_member_id(member_id)
                .with_member_epoch(numbers.2)
                .with_heartbeat_interval_ms(numbers.3)
                .with_assignment(assignment);
            let header = RequestHeader {
                api_key: ApiKey::ConsumerGroupHeartbeat,
                api_version: version,
                correlation_id: 9,
                client_id: None,
            };
            let frame = encode_response(&header, &response).unwrap();
            prop_assert_eq!(&frame, &messages::encode_response(&header, &response).unwrap());
            let mut body = frame.slice(5..);
            prop_assert_eq!(ConsumerGroupHeartbeatResponse::decode(&mut body, version).unwrap(), response);
        }
    }

    #[test]
    fn counts_beyond_the_frame_are_refused_before_anything_is_allocated() {
        // Group and member "", epoch 0, no instance and rack, timeout 0, then 2^31 - 2 names.
        let mut body = Bytes::from_static(b"\x01\x01\0\0\0\0\0\0\0\0\0\0\xff\xff\xff\xff\x07");
        let count = 0x7fff_fffe;
        assert_eq!(decode(&mut body, 1), Err(DecodeError::Count { field: "subscribed_topic_names", count }));
    }
}
