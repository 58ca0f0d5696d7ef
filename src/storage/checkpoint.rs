//! The small text files that say how far a log directory is: Kafka's checkpoint format, and the clean-shutdown marker.
//!
//! A checkpoint is a version line (`0`), a line with the number of entries, and a line per entry with its fields
//! separated by blanks. In a directory's root lie those with an offset per partition (`topic partition offset`):
//! recovery points, high watermarks, log start offsets, and how far compaction came. Leader epochs use the same format.
//!
//! All are replaced in one step, so a crash leaves the old or the new content. A damaged one is reported and then taken
//! as absent, never a reason not to start: each is an optimisation or has a safe default.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use thiserror::Error;
use tracing::{debug, warn};

use crate::storage::disk::{Disk, EntryKind, concerns_file};
use crate::storage::known_bugs::{self, KnownBug};
use crate::types::{Offset, TopicPartition};

/// Up to where a log's bytes are known to be on disk: recovery starts there.
pub const RECOVERY_POINTS: &str = "recovery-point-offset-checkpoint";
/// High watermarks.
pub const HIGH_WATERMARKS: &str = "replication-offset-checkpoint";
/// Where logs start, if that is not the start of their first segment.
pub const LOG_START_OFFSETS: &str = "log-start-offset-checkpoint";
/// Up to where compaction has come.
pub const CLEANER_OFFSETS: &str = "cleaner-offset-checkpoint";
/// See [`CleanShutdownFile`].
pub const CLEAN_SHUTDOWN: &str = ".kafka_cleanshutdown";

const VERSION: i32 = 0;

/// A line has at most 249 bytes of topic name and two numbers, so that this is room for a million partitions.
const MAX_SIZE: usize = 256 << 20;

/// Why the text of a checkpoint cannot be used.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum CheckpointError {
    #[error("not UTF-8")]
    NotText,
    #[error("unknown version {0:?}")]
    UnknownVersion(String),
    #[error("malformed line {0:?}")]
    MalformedLine(String),
    #[error("{expected} entries expected, {found} found")]
    WrongCount { expected: usize, found: usize },
}

/// The text of a checkpoint with these entries.
pub fn encode(lines: impl ExactSizeIterator<Item = String>) -> String {
    let mut text = format!("{VERSION}\n{}\n", lines.len());
    for line in lines {
        text.push_str(&line);
        text.push('\n');
    }
    text
}

/// The entries of a checkpoint; `parse` makes one of the fields of its line. An empty file has none, as Kafka makes the
/// file before it writes it.
pub fn decode<T>(text: &str, parse: impl Fn(&[&str]) -> Option<T>) -> Result<Vec<T>, CheckpointError> {
    let mut lines = text.lines();
    match lines.next().map(|line| (line, line.parse::<i32>())) {
        None => return Ok(Vec::new()),
        Some((_, Ok(VERSION))) => {}
        Some((line, _)) => return Err(CheckpointError::UnknownVersion(excerpt(line))),
    }
    let Some(count) = lines.next() else { return Ok(Vec::new()) };
    let expected = count.parse::<u32>().map_err(|_| CheckpointError::MalformedLine(excerpt(count)))? as usize;
    let entries = lines
        .map(|line| {
            let fields: Vec<&str> = line.split_ascii_whitespace().collect();
            parse(&fields).ok_or_else(|| CheckpointError::MalformedLine(excerpt(line)))
        })
        .collect::<Result<Vec<T>, CheckpointError>>()?;
    match entries.len() == expected {
        true => Ok(entries),
        false => Err(CheckpointError::WrongCount { expected, found: entries.len() }),
    }
}

fn excerpt(line: &str) -> String {
    line.chars().take(80).collect()
}

/// Reads a checkpoint file. `None` if there is none, or if it is damaged, which is reported. Only a disk that fails is
/// an error.
pub fn read<T>(
    disk: &dyn Disk,
    path: &Path,
    decode: impl Fn(&str) -> Result<T, CheckpointError>,
) -> io::Result<Option<T>> {
    let bytes = match disk.read_file(path, MAX_SIZE) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) if error.kind() == io::ErrorKind::InvalidData => {
            warn!(path = %path.display(), %error, "checkpoint is damaged and taken as absent");
            return Ok(None);
        }
        Err(error) => return Err(error),
    };
    match str::from_utf8(&bytes).map_err(|_| CheckpointError::NotText).and_then(decode) {
        Ok(content) => Ok(Some(content)),
        Err(error) => {
            warn!(path = %path.display(), %error, "checkpoint is damaged and taken as absent");
            Ok(None)
        }
    }
}

/// The text of a checkpoint of offsets.
pub fn encode_offsets<'a>(offsets: impl ExactSizeIterator<Item = (&'a TopicPartition, Offset)>) -> String {
    encode(offsets.map(|(partition, offset)| format!("{} {} {offset}", partition.topic, partition.partition)))
}

/// The entries of a checkpoint of offsets, in their order.
pub fn decode_offsets(text: &str) -> Result<Vec<(TopicPartition, Offset)>, CheckpointError> {
    decode(text, |fields| {
        let [topic, partition, offset] = *fields else { return None };
        Some((TopicPartition::new(topic, partition.parse().ok()?), Offset(offset.parse().ok()?)))
    })
}

/// A file with an offset per partition, in the root of a log directory.
#[derive(Clone)]
pub struct OffsetCheckpointFile {
    disk: Arc<dyn Disk>,
    path: PathBuf,
}

impl OffsetCheckpointFile {
    /// `name` is one of this module's constants.
    pub fn new(disk: Arc<dyn Disk>, log_dir: &Path, name: &str) -> OffsetCheckpointFile {
        OffsetCheckpointFile { disk, path: log_dir.join(name) }
    }

    /// Empty if the file is missing or damaged.
    pub fn read(&self) -> io::Result<BTreeMap<TopicPartition, Offset>> {
        Ok(self.read_if_readable()?.unwrap_or_default())
    }

    /// `None` if the file is missing or damaged.
    pub fn read_if_readable(&self) -> io::Result<Option<BTreeMap<TopicPartition, Offset>>> {
        Ok(read(&*self.disk, &self.path, decode_offsets)?.map(|entries| entries.into_iter().collect()))
    }

    pub fn exists(&self) -> io::Result<bool> {
        self.disk.exists(&self.path)
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Replaces the content. Durable on return.
    pub fn write(&self, offsets: &BTreeMap<TopicPartition, Offset>) -> io::Result<()> {
        let text = encode_offsets(offsets.iter().map(|(partition, offset)| (partition, *offset)));
        self.disk.write_file_atomically(&self.path, text.as_bytes())
    }
}

/// The marker of a directory that was closed in order: `{"version":0,"brokerEpoch":N}`.
///
/// With it, logs are opened without looking at their records. The broker epoch in it lets the controller see that no
/// record was lost since that registration (KIP-966).
#[derive(Clone)]
pub struct CleanShutdownFile {
    disk: Arc<dyn Disk>,
    path: PathBuf,
}

impl CleanShutdownFile {
    pub fn new(disk: Arc<dyn Disk>, log_dir: &Path) -> CleanShutdownFile {
        CleanShutdownFile { disk, path: log_dir.join(CLEAN_SHUTDOWN) }
    }

    /// What is no file says nothing.
    pub fn exists(&self) -> io::Result<bool> {
        match self.disk.info(&self.path) {
            Ok(info) => Ok(info.kind == EntryKind::File),
            Err(error) if concerns_file(&error) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// The epoch the broker had; `None` if there is no marker or it does not say.
    pub fn read_broker_epoch(&self) -> Option<i64> {
        let bytes = self.disk.read_file(&self.path, 1 << 16).ok()?;
        let epoch = decode_broker_epoch(&bytes);
        if epoch.is_none() {
            debug!(path = %self.path.display(), "clean shutdown marker names no broker epoch");
        }
        epoch
    }

    /// Durable on return.
    pub fn write(&self, broker_epoch: i64) -> io::Result<()> {
        let file = self.disk.open_in_place(&self.path)?;
        file.set_len(0)?;
        file.write_all_at(encode_broker_epoch(broker_epoch).as_bytes(), 0)?;
        file.sync_data()?;
        self.disk.sync_dir(self.path.parent().unwrap_or(Path::new(".")))
    }

    /// Durable on return: a marker that comes back after a crash would hide what the crash tore.
    pub fn delete(&self) -> io::Result<()> {
        let removed = match self.disk.remove_if_exists(&self.path) {
            Err(error)
                if matches!(error.kind(), io::ErrorKind::IsADirectory | io::ErrorKind::PermissionDenied)
                    && !self.exists()? =>
            {
                // It is no marker, and stays until one is written.
                false
            }
            removed => removed?,
        };
        if removed && !known_bugs::is_back(KnownBug::MarkerRemovalNotSynced) {
            self.disk.sync_dir(self.path.parent().unwrap_or(Path::new(".")))?;
        }
        Ok(())
    }
}

fn encode_broker_epoch(broker_epoch: i64) -> String {
    format!(r#"{{"version":0,"brokerEpoch":{broker_epoch}}}"#)
}

fn decode_broker_epoch(bytes: &[u8]) -> Option<i64> {
    serde_json::from_slice::<serde_json::Value>(bytes).ok()?.get("brokerEpoch")?.as_i64()
}

#[cfg(test)]
mod tests;
