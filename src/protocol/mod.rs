//! Kafka's wire protocol: bytes to requests, responses to bytes. Nothing here reads a socket or decides an answer.
//!
//! - [`versions`]: the one table of what is served.
//! - [`errors`]: the error codes, and errors as responses tell them.
//! - [`header`]: request and response headers.
//! - [`messages`]: all messages but those written by hand, with the structs of the `kafka-protocol` crate.
//! - [`schema`]: the walk over a request's body that precedes the crate.
//! - [`produce`], [`fetch`]: written by hand, for these carry the records and must not copy them.
//! - [`leader`]: what both of them tell of the leader.
//! - [`offset_commit`], [`offset_fetch`]: by hand, for the crate lags Kafka by a version, and the first is hot.
//! - [`heartbeat`], [`consumer_group_heartbeat`]: by hand, for all members send these all the time; with the crate's structs.
//! - [`describe_log_dirs`], [`write_txn_markers`]: by hand, for the crate lags Kafka by a version.
//! - [`frame`]: an encoded response, which may have pieces of files between its bytes.
//! - [`wire`]: the primitive types that the hand-written codecs are made of.
//!
//! Everything a peer sends is checked against the bytes that are there; nothing it sends can panic or make this layer
//! allocate beyond a fixed multiple of the frame's own size. What Kafka accepts is accepted, leftover bytes after a
//! body among it: librdkafka and kafka-go send some.

pub mod consumer_group_heartbeat;
pub mod describe_log_dirs;
pub mod errors;
pub mod fetch;
pub mod frame;
pub mod header;
pub mod heartbeat;
pub mod leader;
pub mod messages;
pub mod offset_commit;
pub mod offset_fetch;
pub mod produce;
pub mod schema;
pub mod versions;
pub mod wire;
pub mod write_txn_markers;

pub use errors::{ApiError, ErrorCode};
pub use header::RequestHeader;
pub use versions::ApiKey;
pub use wire::DecodeError;
