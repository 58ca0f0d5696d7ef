//! Snapshots of the metadata (KIP-630): files that stand for all records before an offset, so that the log's head can
//! go.
//!
//! A snapshot is a file `END_OFFSET-EPOCH.checkpoint` beside the segments: a SnapshotHeader control record, with dynamic
//! voters also KRaftVersion and KRaftVoters, then the records of an image, then a SnapshotFooter. It is complete or not
//! there: it is written under another name, flushed, and renamed. `bootstrap.checkpoint` in the root of a log directory
//! has the same form and holds the records a new cluster starts with.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use bytes::Bytes;

use super::batch::{BatchContents, BatchDecodeError, MetadataBatch, encode_control, encode_records};
use super::image::{MetadataImage, Provenance};
use super::records::VersionedRecord;
use super::replay::{Replay, ReplayError};
use crate::record::batch::{BatchError, RecordBatch, batches};
use crate::record::control::{ControlRecord, Voter};
use crate::storage::disk::{Disk, DiskFile, OpenMode, with_suffix};
use crate::types::{LeaderEpoch, Offset};

/// The records of a new cluster, in the root of the metadata log directory.
pub const BOOTSTRAP_FILE: &str = "bootstrap.checkpoint";

/// A batch of a snapshot is closed when it is this large.
const BATCH_SIZE: usize = 1 << 20;
/// Enough for the first batch of a snapshot.
const HEADER_READ_SIZE: usize = 64 << 10;
/// Larger files are not read: an image does not get there.
const MAX_SIZE: usize = 4 << 30;

/// Which records a snapshot stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SnapshotId {
    /// The first offset that is not contained.
    pub end_offset: Offset,
    /// Epoch of the last record contained.
    pub epoch: LeaderEpoch,
}

/// What the name of a file in the metadata log's directory says of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SnapshotFile {
    Complete(SnapshotId),
    /// Half written, or on its way out: to be removed.
    Leftover,
}

/// What a snapshot holds beside the image.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SnapshotQuorum {
    pub kraft_version: i16,
    pub voters: Option<Vec<Voter>>,
}

/// Why a snapshot cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    #[error("{path}: {source}")]
    Io { path: PathBuf, source: io::Error },
    #[error("{path}: {source}")]
    Batch { path: PathBuf, source: BatchError },
    #[error("{path}: {source}")]
    Decode { path: PathBuf, source: BatchDecodeError },
    #[error("{path}: {source}")]
    Replay { path: PathBuf, source: ReplayError },
    #[error("{path}: {reason}")]
    Incomplete { path: PathBuf, reason: &'static str },
}

impl fmt::Display for SnapshotId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:020}-{:010}", self.end_offset.0, self.epoch.0)
    }
}

impl SnapshotId {
    pub fn file_name(&self) -> String {
        format!("{self}.checkpoint")
    }
}

impl SnapshotFile {
    /// Reads a file's name; `None` if it is no snapshot's.
    pub fn parse(name: &str) -> Option<SnapshotFile> {
        if name.ends_with(".checkpoint.part") || name.ends_with(".checkpoint.deleted") {
            return Some(SnapshotFile::Leftover);
        }
        let (offset, epoch) = name.strip_suffix(".checkpoint")?.split_once('-')?;
        let number = |text: &str, width: usize| {
            let digits = text.len() == width && text.bytes().all(|byte| byte.is_ascii_digit());
            if digits { text.parse::<i64>().ok() } else { None }
        };
        let epoch = i32::try_from(number(epoch, 10)?).ok()?;
        let end_offset = Offset(number(offset, 20)?);
        Some(SnapshotFile::Complete(SnapshotId { end_offset, epoch: LeaderEpoch(epoch) }))
    }
}

/// Reads a snapshot of the metadata log in `dir`.
pub fn read(disk: &dyn Disk, dir: &Path, id: SnapshotId) -> Result<Replay, SnapshotError> {
    let path = dir.join(id.file_name());
    let mut replay = Replay::new(MetadataImage::empty());
    let mut log_time_ms = 0;
    for batch in read_batches(disk, &path)? {
        if let BatchContents::Control(records) = &batch.contents
            && let Some(ControlRecord::SnapshotHeader { last_contained_log_timestamp }) = records.first()
        {
            log_time_ms = *last_contained_log_timestamp;
        }
        replay.apply(&batch).map_err(|source| SnapshotError::Replay { path: path.clone(), source })?;
    }
    if replay.open_transaction().is_some() {
        return Err(SnapshotError::Incomplete { path, reason: "a transaction is not ended" });
    }
    replay.set_provenance(Provenance {
        offset: Offset(id.end_offset.0 - 1),
        epoch: id.epoch,
        last_contained_log_time_ms: log_time_ms,
    });
    Ok(replay)
}

/// Reads from a snapshot's header when the last record that it contains was appended.
pub fn read_log_time_ms(disk: &dyn Disk, dir: &Path, id: SnapshotId) -> Result<i64, SnapshotError> {
    let path = dir.join(id.file_name());
    // The first batch holds the header, and with dynamic voters a few hundred bytes for each.
    let mut bytes = vec![0; HEADER_READ_SIZE];
    let read = disk.open(&path, OpenMode::Read).and_then(|file| file.read_up_to(&mut bytes, 0));
    bytes.truncate(read.map_err(|source| SnapshotError::Io { path: path.clone(), source })?);
    let batch = RecordBatch::parse(&bytes).map_err(|source| SnapshotError::Batch { path: path.clone(), source })?;
    let batch = MetadataBatch::decode(&batch).map_err(|source| SnapshotError::Decode { path: path.clone(), source })?;
    match batch.contents {
        BatchContents::Control(records) => match records.first() {
            Some(ControlRecord::SnapshotHeader { last_contained_log_timestamp }) => Ok(*last_contained_log_timestamp),
            _ => Err(SnapshotError::Incomplete { path, reason: "it does not start with a header" }),
        },
        BatchContents::Records(_) => Err(SnapshotError::Incomplete { path, reason: "it does not start with a header" }),
    }
}

/// Reads the records of `bootstrap.checkpoint` in `log_dir`, if it is there.
pub fn read_bootstrap(disk: &dyn Disk, log_dir: &Path) -> Result<Option<Vec<VersionedRecord>>, SnapshotError> {
    let path = log_dir.join(BOOTSTRAP_FILE);
    let batches = match read_batches(disk, &path) {
        Err(SnapshotError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => return Ok(None),
        batches => batches?,
    };
    let records = batches.into_iter().filter_map(|batch| match batch.contents {
        BatchContents::Control(_) => None,
        BatchContents::Records(records) => Some(records),
    });
    Ok(Some(records.flatten().collect()))
}

fn read_batches(disk: &dyn Disk, path: &Path) -> Result<Vec<MetadataBatch>, SnapshotError> {
    let path = || path.to_owned();
    let bytes = disk.read_file(&path(), MAX_SIZE).map_err(|source| SnapshotError::Io { path: path(), source })?;
    let mut decoded = Vec::new();
    let mut found = batches(&bytes);
    for batch in found.by_ref() {
        let batch = batch.map_err(|source| SnapshotError::Batch { path: path(), source })?;
        decoded.push(MetadataBatch::decode(&batch).map_err(|source| SnapshotError::Decode { path: path(), source })?);
    }
    let incomplete = |reason| Err(SnapshotError::Incomplete { path: path(), reason });
    if !found.remaining().is_empty() {
        return incomplete("the last batch is cut off");
    }
    let first = decoded.first().map(|batch| &batch.contents);
    if !matches!(first, Some(BatchContents::Control(records)) if matches!(records.first(), Some(ControlRecord::SnapshotHeader { .. })))
    {
        return incomplete("it does not start with a header");
    }
    let last = decoded.last().map(|batch| &batch.contents);
    if !matches!(last, Some(BatchContents::Control(records)) if records.last() == Some(&ControlRecord::SnapshotFooter))
    {
        return incomplete("it does not end with a footer");
    }
    Ok(decoded)
}

/// Writes a snapshot of `image` into the metadata log's directory; durable on return. Gives its size in bytes.
pub fn write(
    disk: &dyn Disk,
    dir: &Path,
    id: SnapshotId,
    image: &MetadataImage,
    quorum: &SnapshotQuorum,
    now_ms: i64,
) -> io::Result<u64> {
    let control = header(image.provenance.last_contained_log_time_ms, quorum);
    write_file(disk, &dir.join(id.file_name()), id.epoch, &control, image.to_records(), now_ms)
}

/// Writes the snapshot that a quorum of dynamic voters begins with: it holds them and nothing else. Durable on return.
pub fn write_first(disk: &dyn Disk, dir: &Path, quorum: &SnapshotQuorum, now_ms: i64) -> io::Result<()> {
    let id = SnapshotId { end_offset: Offset(0), epoch: LeaderEpoch(0) };
    let control = header(now_ms, quorum);
    write_file(disk, &dir.join(id.file_name()), id.epoch, &control, std::iter::empty(), now_ms).map(|_| ())
}

fn header(last_contained_log_timestamp: i64, quorum: &SnapshotQuorum) -> Vec<ControlRecord> {
    let mut control = vec![ControlRecord::SnapshotHeader { last_contained_log_timestamp }];
    if quorum.kraft_version > 0 {
        control.push(ControlRecord::KRaftVersion { kraft_version: quorum.kraft_version });
        control.extend(quorum.voters.clone().map(ControlRecord::KRaftVoters));
    }
    control
}

/// Writes `bootstrap.checkpoint` into `log_dir`; durable on return.
pub fn write_bootstrap(disk: &dyn Disk, log_dir: &Path, records: &[VersionedRecord], now_ms: i64) -> io::Result<()> {
    let header = [ControlRecord::SnapshotHeader { last_contained_log_timestamp: 0 }];
    let path = log_dir.join(BOOTSTRAP_FILE);
    write_file(disk, &path, LeaderEpoch(0), &header, records.iter().cloned(), now_ms).map(|_| ())
}

fn write_file(
    disk: &dyn Disk,
    path: &Path,
    epoch: LeaderEpoch,
    header: &[ControlRecord],
    records: impl Iterator<Item = VersionedRecord>,
    now_ms: i64,
) -> io::Result<u64> {
    let partial = with_suffix(path, ".part");
    let file = disk.open(&partial, OpenMode::Create)?;
    file.set_len(0)?;
    let mut out = SnapshotWriter { file: &*file, position: 0, next_offset: 0 };
    out.append(encode_control(out.offset(), epoch, now_ms, header), header.len())?;

    let mut pending = Vec::new();
    let mut pending_size = 0;
    for record in records {
        pending_size += record.encode().len();
        pending.push(record);
        if pending_size >= BATCH_SIZE {
            out.append(encode_records(out.offset(), epoch, now_ms, &pending), pending.len())?;
            pending.clear();
            pending_size = 0;
        }
    }
    if !pending.is_empty() {
        out.append(encode_records(out.offset(), epoch, now_ms, &pending), pending.len())?;
    }
    out.append(encode_control(out.offset(), epoch, now_ms, &[ControlRecord::SnapshotFooter]), 1)?;
    let size = out.position;
    file.sync_data()?;
    disk.rename(&partial, path)?;
    disk.sync_dir(path.parent().unwrap_or(Path::new(".")))?;
    Ok(size)
}

/// Batches one behind the other, with offsets counted from 0.
struct SnapshotWriter<'a> {
    file: &'a dyn DiskFile,
    position: u64,
    next_offset: i64,
}

impl SnapshotWriter<'_> {
    fn offset(&self) -> Offset {
        Offset(self.next_offset)
    }

    fn append(&mut self, batch: Bytes, records: usize) -> io::Result<()> {
        self.file.write_all_at(&batch, self.position)?;
        self.position += batch.len() as u64;
        self.next_offset += records as i64;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
