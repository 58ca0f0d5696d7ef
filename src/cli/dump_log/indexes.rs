//! The dumps of a segment's indexes and of a producer snapshot.

use std::io::Write;
use std::path::{Path, PathBuf};

use crate::cli::dump_log::batches::LogFile;
use crate::cli::dump_log::log::optional_long;
use crate::cli::dump_log::old_format::old_timestamp;
use crate::cli::dump_log::{Dump, DumpError, base_offset};
use crate::record::record::RecordStream;
use crate::storage::producer_state::snapshot;
use crate::storage::txn_index::{self, AbortedTxn};
use crate::storage::{offset_index, time_index};

/// No index gets near that: Kafka maps it with an address of 31 bits.
const MAX_INDEX_SIZE: usize = i32::MAX as usize;

impl Dump<'_> {
    pub(super) fn offset_index(&mut self, path: &Path, name: &str) -> Result<(), DumpError> {
        let base_offset = base_offset(path, name)?;
        let log = LogFile::open(&*self.disk, &beside(path, name, "log"))?;
        let max_message_size = self.request.max_message_size()?;
        let bytes = self.read(path)?;
        let entries = bytes.chunks_exact(offset_index::ENTRY_SIZE).map(offset_index::stored_entry);
        // A crash leaves an index of zeros beside an empty log; Kafka gives up there, unless it need not look at the log.
        let zeros = || log.len() == 0 && entries.clone().all(|entry| entry == (0, 0));
        if entries.len() == 0 || (!self.request.index_sanity_check && zeros()) {
            writeln!(self.out, "{} is empty.", path.display())?;
            return Ok(());
        }
        if self.request.index_sanity_check {
            let last = entries.clone().next_back().map_or(0, |(relative, _)| base_offset.wrapping_add(relative.into()));
            if last < base_offset {
                let reason =
                    format!("its last offset is {last}, which is less than the base offset {base_offset}: corrupt");
                return Err(DumpError::damaged(path, reason));
            }
            return self.passed_sanity_check(path, bytes.len(), offset_index::ENTRY_SIZE);
        }
        for (n, (relative, position)) in entries.enumerate() {
            // Kafka fills the index of the active segment with zeros, which a crash leaves behind.
            if relative == 0 && n > 0 {
                return Ok(());
            }
            let offset = base_offset.wrapping_add(relative.into());
            let at = u64::try_from(position).ok().filter(|at| *at <= log.len());
            let damaged = |reason| DumpError::damaged(path, format!("entry {n} points to {position}, {reason}"));
            let at = at.ok_or_else(|| damaged("which is outside of the log"))?;
            let size = u64::try_from(max_message_size);
            let size = size.map_err(|_| damaged("and --max-message-size is negative"))?;
            let mut batches = log.batches(at, size);
            let found = batches.seek(i64::MIN)?;
            let found = found.ok_or_else(|| damaged("where no whole batch is, or none of --max-message-size"))?;
            if found != offset {
                self.findings.index_mismatch(path, offset, found);
            }
            if !self.request.verify_index_only {
                writeln!(self.out, "offset: {offset} position: {position}")?;
            }
        }
        Ok(())
    }

    pub(super) fn time_index(&mut self, path: &Path, name: &str) -> Result<(), DumpError> {
        let base_offset = base_offset(path, name)?;
        let log = LogFile::open(&*self.disk, &beside(path, name, "log"))?;
        let offset_index = self.read(&beside(path, name, "index"))?;
        let positions: Vec<(i32, i32)> = offset_index
            .chunks_exact(offset_index::ENTRY_SIZE)
            .map(offset_index::stored_entry)
            .enumerate()
            .take_while(|(n, (relative, _))| *n == 0 || *relative != 0)
            .map(|(_, entry)| entry)
            .collect();
        let bytes = self.read(path)?;
        let entries = bytes.chunks_exact(time_index::ENTRY_SIZE).map(time_index::stored_entry);
        if self.request.index_sanity_check {
            let first = entries.clone().next().map_or(-1, |(timestamp, _)| timestamp);
            if let Some((last, relative)) = entries.clone().next_back()
                && (last < first || relative < 0)
            {
                let reason = format!("its last entry, {last} at {relative}, cannot follow its first, {first}: corrupt");
                return Err(DumpError::damaged(path, reason));
            }
            return self.passed_sanity_check(path, bytes.len(), time_index::ENTRY_SIZE);
        }
        let mut previous = -1;
        for (n, (timestamp, relative)) in entries.enumerate() {
            if relative == 0 && n > 0 {
                return Ok(());
            }
            let offset = base_offset.wrapping_add(relative.into());
            let before = positions.partition_point(|(indexed, _)| *indexed <= relative);
            let position = before.checked_sub(1).map_or(0, |n| positions[n].1);
            let position = u64::try_from(position).ok().filter(|position| *position <= log.len());
            let position = position.ok_or_else(|| {
                DumpError::damaged(&beside(path, name, "index"), "an entry points outside of the log")
            })?;
            if n == 0 {
                // Kafka looks for each entry in all that follows in the log, which so must be in order.
                log.batches(position, i32::MAX as u64).pass()?;
            }
            self.check_timestamp(path, &log, position, (timestamp, offset), previous)?;
            if !self.request.verify_index_only {
                writeln!(self.out, "timestamp: {timestamp} offset: {offset}")?;
            }
            previous = timestamp;
        }
        Ok(())
    }

    /// Looks for the batch that an entry of the time index names, from `position` on.
    fn check_timestamp(
        &mut self,
        path: &Path,
        log: &LogFile,
        position: u64,
        (timestamp, offset): (i64, i64),
        previous: i64,
    ) -> Result<(), DumpError> {
        let mut batches = log.batches(position, i32::MAX as u64);
        let found = batches.seek(offset)?;
        if found != Some(offset) {
            self.findings.offset_not_found(path, offset, found.unwrap_or(-1));
            return Ok(());
        }
        let batch = batches.next()?.expect("it was just found");
        let max_timestamp = if batch.magic < 2 {
            old_timestamp(log.path(), &batch)?
        } else {
            let view = batch.view(log.path())?;
            let damaged = |reason: String| {
                DumpError::damaged(log.path(), format!("in the batch at {}: {reason}", batch.position))
            };
            let codec = view.codec().map_err(|error| damaged(error.to_string()))?;
            let stream = RecordStream::new(&view.to_header(), codec, view.body(), u64::MAX);
            let mut stream = stream.map_err(|error| damaged(error.to_string()))?;
            let mut max = -1;
            while let Some(record) = stream.next_skim().map_err(|error| damaged(error.to_string()))? {
                max = max.max(record.timestamp);
            }
            max
        };
        if max_timestamp != timestamp {
            self.findings.timestamp_mismatch(path, timestamp, max_timestamp);
        }
        if previous >= timestamp {
            self.findings.timestamp_out_of_order(path, timestamp, previous);
        }
        Ok(())
    }

    fn passed_sanity_check(&mut self, path: &Path, size: usize, entry_size: usize) -> Result<(), DumpError> {
        if !size.is_multiple_of(entry_size) {
            let reason = format!("{size} bytes are no whole number of entries of {entry_size}: corrupt");
            return Err(DumpError::damaged(path, reason));
        }
        writeln!(self.out, "{} passed sanity check.", path.display())?;
        Ok(())
    }

    /// What a crash left of an entry is passed over, as by a broker, which writes the next one there.
    pub(super) fn txn_index(&mut self, path: &Path, name: &str, err: &mut dyn Write) -> Result<(), DumpError> {
        base_offset(path, name)?;
        // A segment without aborted transactions has none.
        let bytes = if path.exists() { self.read(path)? } else { Vec::new() };
        let (entries, rest) = bytes.as_chunks::<{ txn_index::ENTRY_SIZE }>();
        // Kafka's tool takes the first byte of the version for all of it, and shows older ones than it knows.
        let version = |entry: &[u8; txn_index::ENTRY_SIZE]| entry[0] as i8;
        if let Some(entry) = entries.iter().find(|entry| version(entry) > 0) {
            let reason = format!("an aborted transaction is of version {}, which is not known", version(entry));
            return Err(DumpError::damaged(path, reason));
        }
        for entry in entries {
            let txn = AbortedTxn::stored(entry);
            writeln!(
                self.out,
                "version: {} producerId: {} firstOffset: {} lastOffset: {} lastStableOffset: {}",
                version(entry),
                txn.producer_id,
                txn.first_offset,
                txn.last_offset,
                txn.last_stable_offset,
            )?;
        }
        if !rest.is_empty() {
            self.out.flush()?;
            writeln!(err, "{}: it ends with {} bytes of an entry", path.display(), rest.len())?;
        }
        Ok(())
    }

    pub(super) fn producer_snapshot(&mut self, path: &Path, err: &mut dyn Write) -> Result<(), DumpError> {
        let entries = match snapshot::decode(&self.read(path)?) {
            Ok(entries) => entries,
            Err(error) => {
                self.out.flush()?;
                writeln!(err, "{}: {error}", path.display())?;
                return Ok(());
            }
        };
        for entry in entries {
            write!(
                self.out,
                "producerId: {} producerEpoch: {} coordinatorEpoch: {} currentTxnFirstOffset: {} lastTimestamp: {}",
                entry.producer_id,
                entry.producer_epoch,
                entry.coordinator_epoch,
                optional_long(entry.current_txn_first_offset.map(|offset| offset.0)),
                entry.last_timestamp,
            )?;
            if let Some(batch) = entry.batches().first() {
                write!(
                    self.out,
                    " firstSequence: {} lastSequence: {} lastOffset: {} offsetDelta: {} timestamp: {}",
                    batch.first_sequence(),
                    batch.last_sequence,
                    batch.last_offset,
                    batch.offset_delta,
                    batch.timestamp,
                )?;
            }
            writeln!(self.out)?;
        }
        Ok(())
    }

    fn read(&self, path: &Path) -> Result<Vec<u8>, DumpError> {
        self.disk.read_file(path, MAX_INDEX_SIZE).map_err(DumpError::reading(path))
    }
}

/// Another file of the segment that `path`, called `name`, is of.
fn beside(path: &Path, name: &str, extension: &str) -> PathBuf {
    let digits = name.split('.').next().unwrap_or_default();
    path.with_file_name(format!("{digits}.{extension}"))
}
