//! `partition.metadata`: which topic a partition's directory belongs to, by the id that outlives its name (KIP-516).
//!
//! Two lines, `version: 0` and `topic_id: ID`, without a line end behind the last. The file is durable before the first
//! record is: a directory without it holds nothing that anybody was promised. Owns the text and its reading and
//! writing; what a missing or foreign id means is decided by [`crate::storage::manager`].

use std::io;
use std::path::Path;

use thiserror::Error;

use crate::storage::disk::Disk;
use crate::types::TopicId;

/// The file's name in a partition's directory.
pub const FILE_NAME: &str = "partition.metadata";

const VERSION: i32 = 0;
const MAX_SIZE: usize = 4096;

/// Why the topic of a directory is not known.
#[derive(Debug, Error)]
pub enum PartitionMetadataError {
    #[error("partition metadata is malformed: {0:?}")]
    Malformed(String),
    /// Something else stands there, or it is much too long.
    #[error("{0}")]
    NoSuchFile(String),
    #[error("partition metadata has unknown version {0}")]
    UnknownVersion(i32),
    #[error("partition metadata holds the reserved topic id {0}")]
    ReservedTopicId(TopicId),
    #[error(transparent)]
    Io(io::Error),
}

/// The text of the file.
pub fn encode(topic_id: TopicId) -> String {
    format!("version: {VERSION}\ntopic_id: {topic_id}")
}

/// The topic id in the text of the file. Later versions are read as this one, and lines behind the second ignored.
pub fn decode(bytes: &[u8]) -> Result<TopicId, PartitionMetadataError> {
    let malformed = || PartitionMetadataError::Malformed(String::from_utf8_lossy(&bytes[..bytes.len().min(80)]).into());
    let mut lines = str::from_utf8(bytes).map_err(|_| malformed())?.lines();
    let version: i32 = lines.next().and_then(value).and_then(|text| text.parse().ok()).ok_or_else(malformed)?;
    if version < VERSION {
        return Err(PartitionMetadataError::UnknownVersion(version));
    }
    let topic_id = lines.next().and_then(value).and_then(TopicId::parse).ok_or_else(malformed)?;
    match topic_id == TopicId::ZERO {
        true => Err(PartitionMetadataError::ReservedTopicId(topic_id)),
        false => Ok(topic_id),
    }
}

/// The second of exactly two words; the first is not looked at.
fn value(line: &str) -> Option<&str> {
    let mut words = line.split_ascii_whitespace();
    let (_, value) = (words.next()?, words.next()?);
    words.next().is_none().then_some(value)
}

/// The topic of the partition in `directory`; `None` if there is no file.
pub fn read(disk: &dyn Disk, directory: &Path) -> Result<Option<TopicId>, PartitionMetadataError> {
    match disk.read_file(&directory.join(FILE_NAME), MAX_SIZE) {
        Ok(bytes) => decode(&bytes).map(Some),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) if error.kind() == io::ErrorKind::InvalidData => {
            Err(PartitionMetadataError::NoSuchFile(error.to_string()))
        }
        Err(error) => Err(PartitionMetadataError::Io(error)),
    }
}

/// Notes the topic of the partition in `directory`. Durable on return.
pub fn write(disk: &dyn Disk, directory: &Path, topic_id: TopicId) -> io::Result<()> {
    disk.write_file_atomically(&directory.join(FILE_NAME), encode(topic_id).as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::disk::RealDisk;
    use crate::storage::golden;

    #[test]
    fn files_of_kafka_are_read_and_written_to_the_byte() {
        let files = golden::files(|name| name == FILE_NAME);
        assert!(files.len() > 40, "{} files", files.len());
        for (path, bytes) in files {
            let topic_id = decode(&bytes).unwrap_or_else(|error| panic!("{path}: {error}"));
            assert_eq!(encode(topic_id).as_bytes(), bytes, "{path}");
        }
        let metadata =
            golden::files(|name| name == FILE_NAME).into_iter().find(|(path, _)| path.contains("cluster_metadata"));
        assert_eq!(decode(&metadata.unwrap().1).unwrap(), TopicId::METADATA);
    }

    #[test]
    fn malformed_files_are_refused() {
        let id = "I0Tif0YuRcapFPbiVLPaZA";
        assert_eq!(decode(format!("version: 7\ntopic_id: {id}\nmore\n").as_bytes()).unwrap().to_string(), id);
        for text in [
            "",
            "version: 0",
            "version: 0\n",
            "version: x\n",
            "version: 0\ntopic_id: short",
            "\0\0\0",
            "version:0\ntopic_id:x",
        ] {
            assert!(matches!(decode(text.as_bytes()), Err(PartitionMetadataError::Malformed(_))), "{text:?}");
        }
        assert!(matches!(decode(b"version: -1\n"), Err(PartitionMetadataError::UnknownVersion(-1))));
        let zero = encode(TopicId::ZERO);
        assert!(matches!(decode(zero.as_bytes()), Err(PartitionMetadataError::ReservedTopicId(_))));
    }

    #[test]
    fn a_directory_keeps_its_topic() {
        let dir = tempfile::tempdir().unwrap();
        let disk = RealDisk::new();
        assert!(matches!(read(&*disk, dir.path()), Ok(None)));
        let id = TopicId::random();
        write(&*disk, dir.path(), id).unwrap();
        assert_eq!(read(&*disk, dir.path()).unwrap(), Some(id));
        std::fs::write(dir.path().join(FILE_NAME), vec![b' '; 5000]).unwrap();
        assert!(matches!(read(&*disk, dir.path()), Err(PartitionMetadataError::NoSuchFile(_))));
    }
}
