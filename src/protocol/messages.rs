//! Every message but those written by hand, by the structs and schemas of the `kafka-protocol` crate (Kafka 4.1's).
//!
//! This is the one door to that crate's codec. No request reaches it but through [`super::schema`], for it trusts the
//! counts that it reads. Its schemas lag Kafka 4.3's by a version here and there, see [`schema_version`].
//!
//! A response is written at the version of its request, and a field that this version does not have must be left at its
//! default or it cannot be written. Most are dropped silently where they do not exist; these are not:
//!
//! | response | field | versions |
//! |---|---|---|
//! | ListOffsets | partition's `leader_epoch` | 4+ |
//! | Metadata | topic's `name` null | 12+ |
//! | Metadata | topic's `topic_authorized_operations` | 8+ |
//! | Metadata | `cluster_authorized_operations` | 8-10 |
//! | FindCoordinator | `error_code`, `node_id`, `host`, `port` | 0-3 |
//! | FindCoordinator | `coordinators` | 4+ |
//! | DescribeGroups | group's `error_message` | 6+ |
//! | DescribeGroups | group's `authorized_operations` | 3+ |
//! | JoinGroup | `protocol_name` null | 7+ |
//! | JoinGroup | `skip_assignment` | 9+ |
//! | LeaveGroup | `members` | 3+ |
//! | AddPartitionsToTxn | `results_by_topic_v3_and_below` | 0-3 |
//! | AddPartitionsToTxn | `results_by_transaction` | 4+ |
//! | EndTxn | `producer_id`, `producer_epoch` | 5+ |
//! | DeleteTopics | topic's `name` null | 6+ |
//! | DescribeCluster | `endpoint_type` | 1+ |
//! | DescribeCluster | broker's `is_fenced` | 2+ |

use bytes::{BufMut, Bytes, BytesMut};
use kafka_protocol::protocol::{Decodable, Encodable, Request};
use thiserror::Error;

use super::frame;
use super::header::RequestHeader;
use super::schema;
use super::versions::ApiKey;
use super::wire::DecodeError;

/// Why a response could not be written: a defect of this broker, never the client's doing.
#[derive(Debug, Error)]
pub enum EncodeError {
    #[error("{api_key} response v{version} does not fit its schema: {reason}")]
    Schema { api_key: ApiKey, version: i16, reason: String },
    #[error("{api_key} response v{version} is longer than a frame can be")]
    TooLong { api_key: ApiKey, version: i16 },
}

/// The version of the crate's schema that lays a message out as `version` does in Kafka 4.3.
const fn schema_version(api_key: ApiKey, version: i16) -> i16 {
    match (api_key, version) {
        // v11 lets clients ask for timestamp -6 (KIP-1023); the layout is v10's.
        (ApiKey::ListOffsets, 11) => 10,
        // v5 has a field more in the response, which is written by hand (KIP-1066).
        (ApiKey::DescribeLogDirs, 5) => 4,
        // v2 changed the request, which is read by hand (KIP-1228).
        (ApiKey::WriteTxnMarkers, 2) => 1,
        _ => version,
    }
}

/// Reads a request's body. Bytes left over stay in `body`: they are legal, and worth a DEBUG line.
///
/// `version` is one that [`super::versions`] accepts.
pub fn decode<T: Request>(body: &mut Bytes, version: i16) -> Result<T, DecodeError> {
    let api_key = ApiKey::from_key(T::KEY).ok_or(DecodeError::Version { version })?;
    let mut walked = schema::take_body(api_key, version, body)?;
    let request = T::decode(&mut walked, schema_version(api_key, version))
        .map_err(|error| DecodeError::Malformed(error.to_string()))?;
    match walked.len() {
        0 => Ok(request),
        unread => Err(DecodeError::Malformed(format!("{unread} bytes of the body were not read"))),
    }
}

/// Writes the frame, without its length, of the response to the request that `header` stood before.
pub fn encode_response<T: Encodable>(header: &RequestHeader, response: &T) -> Result<Bytes, EncodeError> {
    let api_key = header.api_key;
    let version = header.response_version();
    let mut buffer = BytesMut::with_capacity(128);
    header.put_response_header(&mut buffer);
    put_body(buffer, api_key, version, response)
}

/// Writes the frame, without its length, of a request to another node.
pub fn encode_request<T: Request>(
    request: &T,
    version: i16,
    correlation_id: i32,
    client_id: Option<&str>,
) -> Result<Bytes, EncodeError> {
    let api_key = ApiKey::from_key(T::KEY).expect("the crate's APIs are Kafka's");
    let mut buffer = BytesMut::with_capacity(128);
    put_request_header(&mut buffer, api_key, version, correlation_id, client_id);
    put_body(buffer, api_key, version, request)
}

/// Completes a frame that has its header.
fn put_body<T: Encodable>(mut buffer: BytesMut, api_key: ApiKey, version: i16, body: &T) -> Result<Bytes, EncodeError> {
    body.encode(&mut buffer, schema_version(api_key, version)).map_err(|error| EncodeError::Schema {
        api_key,
        version,
        reason: error.to_string(),
    })?;
    if !frame::fits(buffer.len()) {
        return Err(EncodeError::TooLong { api_key, version });
    }
    Ok(buffer.freeze())
}

fn put_request_header(
    buffer: &mut BytesMut,
    api_key: ApiKey,
    version: i16,
    correlation_id: i32,
    client_id: Option<&str>,
) {
    buffer.put_i16(api_key.key());
    buffer.put_i16(version);
    buffer.put_i32(correlation_id);
    match client_id {
        Some(client_id) => {
            let client_id = &client_id[..client_id.floor_char_boundary(i16::MAX as usize)];
            buffer.put_i16(client_id.len() as i16);
            buffer.put_slice(client_id.as_bytes());
        }
        None => buffer.put_i16(-1),
    }
    if api_key.request_header_version(version) >= 2 {
        buffer.put_u8(0); // No tagged fields.
    }
}

/// Reads the body of another node's response to a request of type `T`.
///
/// Counts are not checked beforehand: only nodes of this cluster are asked anything.
pub fn decode_response<T: Request>(body: &mut Bytes, version: i16) -> Result<T::Response, DecodeError> {
    let api_key = ApiKey::from_key(T::KEY).ok_or(DecodeError::Version { version })?;
    T::Response::decode(body, schema_version(api_key, version))
        .map_err(|error| DecodeError::Malformed(error.to_string()))
}
