//! DescribeLogDirs (key 35): the response by hand, as the crate's schemas end at v4.
//!
//! ```text
//! response  throttle_time_ms i32 · v3+: error_code i16
//!           [results: error_code i16 · log_dir string
//!            [topics: name string
//!             [partitions: partition_index i32 · partition_size i64 · offset_lag i64 · is_future_key bool]]
//!            v4+: total_bytes i64 · usable_bytes i64 · v5+: is_cordoned bool]
//! ```
//! Flexible from v2 (KIP-482). v4 has the size of the volume (KIP-827), v5 whether a directory is cordoned (KIP-1066).

use bytes::{Bytes, BytesMut};

use super::frame;
use super::header::RequestHeader;
use super::messages::EncodeError;
use super::versions::ApiKey;
use super::wire::Writer;

/// How an answer says that a lag is not known.
pub const UNKNOWN_LAG: i64 = -1;
/// How an answer says that the size of a volume is not known.
pub const UNKNOWN_BYTES: i64 = -1;

/// A log directory in the response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogDirResult {
    pub error_code: i16,
    /// Absolute.
    pub log_dir: String,
    pub topics: Vec<LogDirTopic>,
    /// Of the volume.
    pub total_bytes: i64,
    pub usable_bytes: i64,
    pub is_cordoned: bool,
}

/// A topic in a log directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogDirTopic {
    pub name: String,
    pub partitions: Vec<LogDirPartition>,
}

/// A replica in a log directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogDirPartition {
    pub partition_index: i32,
    pub partition_size: i64,
    pub offset_lag: i64,
    pub is_future_key: bool,
}

/// The directories, as a response.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DescribeLogDirsResponse {
    pub throttle_time_ms: i32,
    /// Why there are no results at all.
    pub error_code: i16,
    pub results: Vec<LogDirResult>,
}

impl DescribeLogDirsResponse {
    /// Writes the frame, without its length, of the response to the request that `header` stood before.
    pub fn encode(&self, header: &RequestHeader) -> Result<Bytes, EncodeError> {
        let version = header.api_version;
        let mut buffer = BytesMut::with_capacity(64 + self.results.len() * 64);
        header.put_response_header(&mut buffer);
        let mut writer = Writer::new(buffer, ApiKey::DescribeLogDirs.is_flexible(version));
        writer.i32(self.throttle_time_ms);
        if version >= 3 {
            writer.i16(self.error_code);
        }
        writer.length(Some(self.results.len()));
        for result in &self.results {
            put_result(&mut writer, result, version);
        }
        writer.no_tagged_fields();
        if !frame::fits(writer.bytes.len()) {
            return Err(EncodeError::TooLong { api_key: ApiKey::DescribeLogDirs, version });
        }
        Ok(writer.bytes.freeze())
    }
}

fn put_result(writer: &mut Writer, result: &LogDirResult, version: i16) {
    writer.i16(result.error_code);
    writer.string(&result.log_dir);
    writer.length(Some(result.topics.len()));
    for topic in &result.topics {
        writer.string(&topic.name);
        writer.length(Some(topic.partitions.len()));
        for partition in &topic.partitions {
            writer.i32(partition.partition_index);
            writer.i64(partition.partition_size);
            writer.i64(partition.offset_lag);
            writer.bool(partition.is_future_key);
            writer.no_tagged_fields();
        }
        writer.no_tagged_fields();
    }
    // v4+: KIP-827.
    if version >= 4 {
        writer.i64(result.total_bytes);
        writer.i64(result.usable_bytes);
    }
    // v5+: KIP-1066.
    if version >= 5 {
        writer.bool(result.is_cordoned);
    }
    writer.no_tagged_fields();
}

#[cfg(test)]
mod tests {
    use bytes::Buf as _;
    use kafka_protocol::messages::DescribeLogDirsResponse as CrateResponse;
    use kafka_protocol::protocol::Decodable as _;

    use super::*;

    /// The crate knows all versions but the last one, which has one byte more for each directory.
    #[test]
    fn the_crate_reads_what_is_written() {
        let partition = |index| LogDirPartition {
            partition_index: index,
            partition_size: 77,
            offset_lag: 3,
            is_future_key: index == 1,
        };
        let topics = vec![LogDirTopic { name: "t".to_owned(), partitions: vec![partition(0), partition(1)] }];
        let results = vec![
            LogDirResult {
                error_code: 0,
                log_dir: "/a/b".to_owned(),
                topics,
                total_bytes: 1 << 40,
                usable_bytes: 5,
                is_cordoned: false,
            },
            LogDirResult {
                error_code: 56,
                log_dir: "/c".to_owned(),
                topics: Vec::new(),
                total_bytes: UNKNOWN_BYTES,
                usable_bytes: UNKNOWN_BYTES,
                is_cordoned: true,
            },
        ];
        let response = DescribeLogDirsResponse { results, ..DescribeLogDirsResponse::default() };
        let frame = |version| {
            let header = RequestHeader {
                api_key: ApiKey::DescribeLogDirs,
                api_version: version,
                correlation_id: 9,
                client_id: None,
            };
            response.encode(&header).unwrap()
        };
        for version in 1..=4 {
            let mut bytes = frame(version);
            bytes.advance(if version >= 2 { 5 } else { 4 });
            let read = CrateResponse::decode(&mut bytes, version).unwrap();
            assert!(bytes.is_empty());
            assert_eq!(read.results.len(), 2);
            assert_eq!((read.results[0].error_code, read.results[1].error_code), (0, 56));
            assert_eq!(&*read.results[0].log_dir, "/a/b");
            let partitions = &read.results[0].topics[0].partitions;
            assert_eq!(
                (partitions[1].partition_size, partitions[1].offset_lag, partitions[1].is_future_key),
                (77, 3, true)
            );
            let space = (read.results[0].total_bytes, read.results[0].usable_bytes);
            assert_eq!(space, if version >= 4 { (1 << 40, 5) } else { (-1, -1) });
        }
        assert_eq!(frame(5).len(), frame(4).len() + 2);
    }
}
