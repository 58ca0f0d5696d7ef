//! What stands before every message: the request header, read by hand, and the response header.
//!
//! ```text
//! request   api_key i16 · api_version i16 · correlation_id i32 · client_id nullable string (i16 length)
//!           v2: then tagged fields                      (the client id is never compact, not even in v2)
//! response  correlation_id i32
//!           v1: then tagged fields
//! ```
//!
//! A request whose header does not parse, or asks for what [`super::versions`] does not serve, closes its connection
//! unanswered, as in Kafka. One exception: ApiVersions is let in at every version, and answered in version 0 when the
//! client is newer than this broker (KIP-511).

use bytes::{BufMut, Bytes, BytesMut};
use kafka_protocol::protocol::StrBytes;
use thiserror::Error;

use super::versions::ApiKey;
use super::wire::{DecodeError, Reader};

/// The header of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestHeader {
    pub api_key: ApiKey,
    /// As the client wrote it: for ApiVersions alone, this may be a version that is not served.
    pub api_version: i16,
    /// Returned with the response.
    pub correlation_id: i32,
    /// Kafka treats `None` as the empty string.
    pub client_id: Option<StrBytes>,
}

/// Why a connection is closed upon a header.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum HeaderError {
    #[error("api key {api_key} does not exist")]
    UnknownApiKey { api_key: i16 },
    #[error("{api_key} is not served")]
    NotServed { api_key: ApiKey },
    #[error("{api_key} is not served at version {api_version}")]
    UnsupportedVersion { api_key: ApiKey, api_version: i16 },
    #[error("malformed request header: {0}")]
    Malformed(#[from] DecodeError),
}

impl RequestHeader {
    /// Reads the header off the front of a frame (without its length prefix) and leaves the body. The request is one
    /// that is served.
    pub fn decode(frame: &mut Bytes) -> Result<RequestHeader, HeaderError> {
        let header = RequestHeader::parse(frame)?;
        let RequestHeader { api_key, api_version, .. } = header;
        let served = api_key.served().ok_or(HeaderError::NotServed { api_key })?;
        if api_key != ApiKey::ApiVersions && !served.accepts(api_version) {
            return Err(HeaderError::UnsupportedVersion { api_key, api_version });
        }
        Ok(header)
    }

    /// Reads the header of any API that Kafka knows, served or not.
    pub fn parse(frame: &mut Bytes) -> Result<RequestHeader, HeaderError> {
        let mut reader = Reader::new(frame, false);
        let key = reader.i16()?;
        let api_version = reader.i16()?;
        let api_key = ApiKey::from_key(key).ok_or(HeaderError::UnknownApiKey { api_key: key })?;
        let correlation_id = reader.i32()?;
        let client_id = reader.nullable_string("client_id")?;
        if api_key.request_header_version(api_version) >= 2 {
            Reader::new(frame, true).unknown_tagged_fields()?;
        }
        Ok(RequestHeader { api_key, api_version, correlation_id, client_id })
    }

    /// The client's name for itself, empty if it gave none.
    pub fn client_id(&self) -> &str {
        self.client_id.as_deref().unwrap_or_default()
    }

    /// Whether this is an ApiVersions request of a version this broker does not know. Its body is not to be read, and
    /// the answer is UNSUPPORTED_VERSION, in version 0.
    pub fn is_unsupported_api_versions(&self) -> bool {
        self.api_key == ApiKey::ApiVersions
            && !self.api_key.served().is_some_and(|served| served.accepts(self.api_version))
    }

    /// The version the response is written in.
    pub fn response_version(&self) -> i16 {
        if self.is_unsupported_api_versions() { 0 } else { self.api_version }
    }

    /// Writes the header of the response to this request.
    pub fn put_response_header(&self, buffer: &mut BytesMut) {
        buffer.put_i32(self.correlation_id);
        if self.api_key.response_header_version(self.response_version()) >= 1 {
            buffer.put_u8(0); // No tagged fields.
        }
    }
}

#[cfg(test)]
mod tests;
