//! Heartbeat (key 12), by hand: every member of a classic group sends it every few seconds, and there is little else to
//! its cost than reading and writing it. The structs are the crate's.
//!
//! ```text
//! request   group_id string · generation_id i32 · member_id string · v3+: group_instance_id nullable string
//! response  v1+: throttle_time_ms i32 · error_code i16
//! ```
//! Flexible from v4 (KIP-482). v3 has static members (KIP-345).

use bytes::{Bytes, BytesMut};
use kafka_protocol::messages::{GroupId, HeartbeatRequest, HeartbeatResponse};

use super::header::RequestHeader;
use super::versions::ApiKey;
use super::wire::{DecodeError, Reader, Writer};

/// Reads a body of version 0..=4. Bytes left over stay in `body`.
pub fn decode(body: &mut Bytes, version: i16) -> Result<HeartbeatRequest, DecodeError> {
    let mut reader = Reader::new(body, ApiKey::Heartbeat.is_flexible(version));
    let mut request = HeartbeatRequest::default();
    request.group_id = GroupId(reader.string("group_id")?);
    request.generation_id = reader.i32()?;
    request.member_id = reader.string("member_id")?;
    // v3+: KIP-345.
    if version >= 3 {
        request.group_instance_id = reader.nullable_string("group_instance_id")?;
    }
    reader.unknown_tagged_fields()?;
    Ok(request)
}

/// Writes the frame, without its length, of the response to the request that `header` stood before.
pub fn encode_response(header: &RequestHeader, response: &HeartbeatResponse) -> Bytes {
    let version = header.api_version;
    let mut buffer = BytesMut::with_capacity(16);
    header.put_response_header(&mut buffer);
    let mut writer = Writer::new(buffer, ApiKey::Heartbeat.is_flexible(version));
    // v1+: KIP-124.
    if version >= 1 {
        writer.i32(response.throttle_time_ms);
    }
    writer.i16(response.error_code);
    writer.no_tagged_fields();
    writer.bytes.freeze()
}

#[cfg(test)]
mod tests {
    //! Both ways against the `kafka-protocol` crate, which has its own idea of the same bytes.

    use kafka_protocol::protocol::{Decodable, Encodable, StrBytes};
    use proptest::option;
    use proptest::prelude::*;

    use super::*;
    use crate::protocol::messages;

    fn text() -> impl Strategy<Value = StrBytes> {
        "[a-zé._-]{0,150}".prop_map(StrBytes::from_string)
    }

    proptest! {
        #[test]
        fn requests_are_read_as_the_crate_writes_them(
            version in 0..=4i16,
            group_id in text(),
            generation_id in any::<i32>(),
            member_id in text(),
            instance_id in option::of(text()),
        ) {
            let request = HeartbeatRequest::default()
                .with_group_id(GroupId(group_id))
                .with_generation_id(generation_id)
                .with_member_id(member_id)
                .with_group_instance_id(instance_id.filter(|_| version >= 3));
            let mut written = BytesMut::new();
            request.encode(&mut written, version).unwrap();
            let written = written.freeze();
            let mut body = Bytes::from([&written[..], b"left over"].concat());
            prop_assert_eq!(decode(&mut body, version), Ok(request));
            prop_assert_eq!(&body, "left over");
            for end in 0..written.len() {
                prop_assert!(decode(&mut written.slice(..end), version).is_err());
            }
        }

        #[test]
        fn any_bytes_are_read_as_the_crate_reads_them_or_refused(
            version in 0..=4i16,
            body in proptest::collection::vec(prop_oneof![0..6u8, Just(0xff), any::<u8>()], 0..60),
        ) {
            let (mut ours, mut theirs) = (Bytes::from(body.clone()), Bytes::from(body));
            let read = decode(&mut ours, version);
            let read_by_crate = messages::decode::<HeartbeatRequest>(&mut theirs, version);
            prop_assert_eq!(read.is_ok(), read_by_crate.is_ok());
            if let (Ok(read), Ok(read_by_crate)) = (read, read_by_crate) {
                prop_assert_eq!(read, read_by_crate);
                prop_assert_eq!(ours, theirs);
            }
        }

        #[test]
        fn responses_are_written_as_the_crate_reads_them(
            version in 0..=4i16,
            throttle_time_ms in any::<i32>(),
            error_code in any::<i16>(),
        ) {
            let throttle_time_ms = if version >= 1 { throttle_time_ms } else { 0 };
            let response =
                HeartbeatResponse::default().with_throttle_time_ms(throttle_time_ms).with_error_code(error_code);
            let header =
                RequestHeader { api_key: ApiKey::Heartbeat, api_version: version, correlation_id: 9, client_id: None };
            let frame = encode_response(&header, &response);
            prop_assert_eq!(&frame, &messages::encode_response(&header, &response).unwrap());
            let mut body = frame.slice(if version >= 4 { 5.. } else { 4.. });
            prop_assert_eq!(HeartbeatResponse::decode(&mut body, version).unwrap(), response);
        }
    }
}
