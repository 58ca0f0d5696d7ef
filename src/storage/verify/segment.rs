//! One segment: its batches, their records, and whether the indexes agree with them.

use std::io;

use crate::record::batch::{BatchHeader, NO_TIMESTAMP, RecordBatch};
use crate::record::control::ControlRecord;
use crate::record::record::RecordStream;
use crate::storage::disk::{DiskFile, OpenMode};
use crate::storage::file_name::{FileKind, FileName};
use crate::storage::leader_epochs;
use crate::storage::log::append::producer_batch;
use crate::storage::scan::{Frame, FullScan, ScanError};
use crate::storage::verify::indexes::{self, OffsetIndexCheck, TimeIndexCheck, TxnIndexCheck};
use crate::storage::verify::{DamagedStretch, Finding, LogCheck, MAX_FINDINGS, Remedy, SegmentFiles};
use crate::types::{LeaderEpoch, Offset};

/// The records of larger batches are not looked into, so that memory is bounded; nobody's limit is that high.
const MAX_BATCH_SIZE: usize = 256 << 20;
/// What the records of a batch may decompress to: more than anybody could produce or consume.
const MAX_DECOMPRESSED: u64 = 4 << 30;
/// How often the progress is told, in bytes.
const PROGRESS_BYTES: u64 = 4 << 20;

/// The indexes of the segment that is looked at.
struct Indexes {
    offsets: OffsetIndexCheck,
    times: TimeIndexCheck,
    aborted: TxnIndexCheck,
}

/// Buffers that are used for one batch after the other.
#[derive(Default)]
struct Buffers {
    batch: Vec<u8>,
    record: Vec<u8>,
}

impl LogCheck<'_> {
    /// `limit`: where the records of what follows begin.
    pub(super) fn segment(
        &mut self,
        base_offset: Offset,
        files: SegmentFiles,
        is_last: bool,
        limit: Option<Offset>,
    ) -> io::Result<()> {
        let name = FileName::new(base_offset, FileKind::Log);
        let file = self.disk.open(&name.path_in(&self.params.dir), OpenMode::Read)?;
        let size = file.file_len()?;
        let (disk, dir) = (self.disk, &self.params.dir);
        let mut unreadable = Vec::new();
        // One that cannot be read is told, and the batches are looked at without it.
        let mut read = |kind, exists| {
            let name = FileName::new(base_offset, kind);
            let bytes = indexes::read(disk, dir, name, exists).unwrap_or_else(|error| {
                unreadable.push((name, error));
                Default::default()
            });
            (name, bytes)
        };
        let (name_of_offsets, bytes) = read(FileKind::OffsetIndex, files.offset_index);
        let offsets = OffsetIndexCheck::new(name_of_offsets, bytes, files.offset_index);
        let (name_of_times, bytes) = read(FileKind::TimeIndex, files.time_index);
        let times = TimeIndexCheck::new(name_of_times, bytes, files.time_index);
        let (name_of_aborted, bytes) = read(FileKind::TxnIndex, files.txn_index);
        let aborted = TxnIndexCheck::new(name_of_aborted, bytes);
        let mut indexes = Indexes { offsets, times, aborted };
        unreadable.iter().for_each(|(name, error)| self.unreadable(name, error));
        let mut buffers = Buffers::default();
        let mut scan = FullScan::new(&*file, base_offset, 0, size, base_offset).before(None, limit);
        let (mut told, mut damaged) = (0, 0);
        loop {
            match scan.next() {
                Ok(Some((position, frame))) => {
                    self.frame(name, &*file, position, &frame, &mut indexes, &mut buffers)?;
                    self.found.log_end_offset = self.found.log_end_offset.max(frame.last_offset().plus(1));
                }
                Ok(None) => break,
                Err(ScanError::Damaged { position, reason }) => {
                    let next = scan.skip_damage().map_err(ScanError::into_io)?;
                    let to = next.unwrap_or(size);
                    indexes.offsets.damage(position, to);
                    damaged += 1;
                    let is_followed = next.is_some();
                    self.found.damaged.push(DamagedStretch { base_offset, from: position, to, is_followed });
                    if damaged <= MAX_FINDINGS {
                        let what = format!("{} bytes are no records: {reason}", to - position);
                        let remedy = if is_followed || !is_last { Remedy::TakeOut } else { Remedy::CutOff };
                        self.found.findings.push(Finding::fault(name, position, what, remedy));
                    }
                    if next.is_none() {
                        break;
                    }
                }
                Err(error) => return Err(error.into_io()),
            }
            if scan.position() - told >= PROGRESS_BYTES {
                self.observer.read(scan.position() - told);
                told = scan.position();
            }
        }
        self.observer.read(size.saturating_sub(told));
        self.found.bytes += size;
        if damaged > MAX_FINDINGS {
            let what = format!("{} more stretches are no records", damaged - MAX_FINDINGS);
            self.found.findings.push(Finding::fault(name, None, what, Remedy::TakeOut));
        }
        let is_sealed = !is_last || self.params.was_closed;
        let wrong = [
            indexes.offsets.finish(size, damaged > 0),
            indexes.times.finish(size, is_sealed, damaged > 0),
            indexes.aborted.finish(damaged > 0),
        ];
        // Of what is no file, or cannot be read, that was said already.
        let wrong = wrong.into_iter().flatten().filter(|finding| !self.says(&finding.file));
        let wrong: Vec<Finding> = wrong.collect();
        self.found.findings.extend(wrong);
        Ok(())
    }

    fn frame(
        &mut self,
        name: FileName,
        file: &dyn DiskFile,
        position: u64,
        frame: &Frame,
        indexes: &mut Indexes,
        buffers: &mut Buffers,
    ) -> io::Result<()> {
        self.found.batches += 1;
        self.epoch(name, position, frame);
        indexes.offsets.batch(position, frame);
        indexes.times.batch(frame);
        let Frame::Batch(header) = frame else {
            // Nobody has written these for years; their checksum was right.
            return Ok(());
        };
        if frame.size() > MAX_BATCH_SIZE {
            let what = format!("the batch of {} bytes at {position} is too large to look into", frame.size());
            self.found.findings.push(Finding::note(name, what, Remedy::None));
            return Ok(());
        }
        buffers.batch.resize(frame.size(), 0);
        file.read_exact_at(&mut buffers.batch, position)?;
        let Ok(batch) = RecordBatch::parse(&buffers.batch) else {
            // It was one a moment ago.
            return Err(io::Error::new(io::ErrorKind::InvalidData, format!("{name} changes at {position}")));
        };
        match check_records(&batch, &mut buffers.record) {
            Ok(records) => {
                self.found.records += records;
                self.observer.batch(&batch);
            }
            Err(what) => {
                let what = format!("the batch from {} has a right checksum, but {what}", batch.base_offset());
                self.found.findings.push(Finding::fault(name, position, what, Remedy::None));
            }
        }
        self.producer(header, batch.body(), indexes);
        Ok(())
    }

    /// Leader epochs never fall, and the file of epochs knows them.
    fn epoch(&mut self, name: FileName, position: u64, frame: &Frame) {
        let epoch = frame.leader_epoch();
        if epoch.0 < 0 {
            return;
        }
        let before = self.found.last_epoch.replace(epoch);
        if before.is_some_and(|before| before > epoch) && !self.epochs_disagree {
            self.epochs_disagree = true;
            let before = before.unwrap_or(LeaderEpoch::UNKNOWN);
            let what = format!("leader epoch {epoch} at offset {} follows epoch {before}", frame.base_offset());
            self.found.findings.push(Finding::fault(name, position, what, Remedy::None));
        }
        // A batch that begins before the log does may be of an epoch that is forgotten.
        let is_before = frame.base_offset() < self.params.log_start_offset;
        if self.epochs.is_empty() || is_before || self.epochs_disagree {
            return;
        }
        let at = self.epochs.partition_point(|entry| entry.start_offset <= frame.base_offset());
        // Deleted records come back if a crash came before the checkpoint of log starts; their epochs do not.
        let Some(known) = at.checked_sub(1).map(|at| self.epochs[at].epoch) else {
            return;
        };
        if known != epoch {
            self.epochs_disagree = true;
            let what = format!("says epoch {known} for offset {}, the batch says {epoch}", frame.base_offset());
            self.found.findings.push(Finding::fault(leader_epochs::FILE_NAME, None, what, Remedy::Rebuild));
        }
    }

    /// Which transactions end where.
    fn producer(&mut self, header: &BatchHeader, body: &[u8], indexes: &mut Indexes) {
        let aborted = producer_batch(header, body).and_then(|batch| self.producers.replay(&batch));
        indexes.aborted.batch(header, body, aborted.as_ref(), self.params.log_start_offset);
    }
}

/// The number of records, or what is wrong with them.
fn check_records(batch: &RecordBatch<'_>, buffer: &mut Vec<u8>) -> Result<u64, String> {
    let codec = batch.codec().map_err(|error| error.to_string())?;
    let mut stream = RecordStream::new(&batch.to_header(), codec, batch.body(), MAX_DECOMPRESSED)
        .map_err(|error| error.to_string())?;
    let (mut count, mut max_timestamp, mut next) = (0, NO_TIMESTAMP, batch.base_offset());
    while let Some(record) = stream.next_record(buffer).map_err(|error| format!("record {count}: {error}"))? {
        if record.offset < next || record.offset > batch.last_offset() {
            return Err(format!("record {count} has offset {}", record.offset));
        }
        if batch.is_control() {
            let (key, value) = (record.key.unwrap_or_default(), record.value.unwrap_or_default());
            ControlRecord::parse(key, value).map_err(|error| error.to_string())?;
        }
        next = record.offset.plus(1);
        max_timestamp = max_timestamp.max(record.timestamp);
        count += 1;
    }
    // What is found by time is found by the header's.
    if count > 0 && max_timestamp > batch.max_timestamp() {
        return Err(format!("has timestamp {max_timestamp}, more than {}, its largest", batch.max_timestamp()));
    }
    Ok(count)
}
