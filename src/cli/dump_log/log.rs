//! The dump of a log file, or of a metadata snapshot, which has the same form.

use std::path::Path;

use serde_json::{Value, json};

use crate::cli::dump_log::batches::{FoundBatch, LogFile};
use crate::cli::dump_log::decoder::{Contents, Decoder, java_text};
use crate::cli::dump_log::{Dump, DumpError, RECORD_INDENT, base_offset, json};
use crate::metadata::snapshot::{BOOTSTRAP_FILE, SnapshotFile};
use crate::record::batch::{RecordBatch, TimestampType, increment_sequence};
use crate::record::compression::Codec;
use crate::record::control::{ControlRecord, ControlRecordType};
use crate::record::record::{Record, RecordStream};
use crate::types::BrokerId;

impl Dump<'_> {
    pub(super) fn log(&mut self, path: &Path, name: &str) -> Result<(), DumpError> {
        // Asked in Kafka's order, before anything is printed.
        let decoder = self.request.decoder()?;
        let max_bytes = self.request.max_bytes()?;
        if name.ends_with(".log") {
            writeln!(self.out, "Log starting offset: {}", base_offset(path, name)?)?;
        } else if name == BOOTSTRAP_FILE {
            writeln!(self.out, "KRaft bootstrap snapshot")?;
        } else {
            // One that was about to be deleted has a word more in its name.
            match SnapshotFile::parse(&name.replace("-delete.checkpoint", ".checkpoint")) {
                Some(SnapshotFile::Complete(id)) => {
                    writeln!(self.out, "Snapshot end offset: {}, epoch: {}", id.end_offset, id.epoch)?;
                }
                _ => return Err(DumpError::damaged(path, "its name does not say which snapshot it is")),
            }
        }
        let log = LogFile::open(&*self.disk, path)?;
        let size = u64::try_from(max_bytes);
        let size = size.map_err(|_| DumpError::damaged(path, format!("cannot read {max_bytes} bytes")))?;
        let mut batches = log.batches(0, size);
        let is_deep = self.request.deep_iteration || self.request.prints_contents;
        let mut last_offset = -1;
        while let Some(batch) = batches.next()? {
            if batch.magic < 2 {
                self.old_format(path, &batch, decoder, is_deep, &mut last_offset)?;
                continue;
            }
            let view = batch.view(path)?;
            self.batch(path, &batch, &view)?;
            if is_deep {
                self.records(path, &batch, &view, decoder, &mut last_offset)?;
            }
        }
        let trailing = log.len() - batches.position().min(log.len());
        if trailing > 0 && max_bytes == i32::MAX {
            writeln!(self.out, "Found {trailing} invalid bytes at the end of {name}")?;
        }
        Ok(())
    }

    fn batch(&mut self, path: &Path, batch: &FoundBatch<'_>, view: &RecordBatch<'_>) -> Result<(), DumpError> {
        write!(
            self.out,
            "baseOffset: {} lastOffset: {} count: {} baseSequence: {} lastSequence: {} producerId: {} producerEpoch: {} \
             partitionLeaderEpoch: {} isTransactional: {} isControl: {} deleteHorizonMs: {}",
            view.base_offset(),
            view.last_offset(),
            view.record_count(),
            view.base_sequence(),
            view.last_sequence(),
            view.producer_id(),
            view.producer_epoch(),
            view.partition_leader_epoch(),
            view.is_transactional(),
            view.is_control(),
            optional_long(view.delete_horizon_ms()),
        )?;
        let codec = view.codec();
        let codec = codec.map_err(|error| DumpError::damaged(path, format!("at {}: {error}", batch.position)))?;
        writeln!(
            self.out,
            " position: {} {}: {} size: {} magic: {} compresscodec: {codec} crc: {} isvalid: {}",
            batch.position,
            timestamp_type(view),
            view.max_timestamp(),
            batch.size,
            batch.magic,
            view.crc(),
            batch.has_header() && view.is_crc_valid(),
        )?;
        Ok(())
    }

    fn records(
        &mut self,
        path: &Path,
        batch: &FoundBatch<'_>,
        view: &RecordBatch<'_>,
        decoder: Decoder,
        last_offset: &mut i64,
    ) -> Result<(), DumpError> {
        let damaged =
            |reason: String| DumpError::damaged(path, format!("in the batch at {}: {reason}", batch.position));
        if !batch.has_header() {
            return Err(damaged(format!("its {} bytes are shorter than a header", batch.size)));
        }
        let codec = view.codec().map_err(|error| damaged(error.to_string()))?;
        // One record is in memory at a time, so that nothing needs to bound what a batch decompresses to.
        let header = view.to_header();
        let stream =
            || RecordStream::new(&header, codec, view.body(), u64::MAX).map_err(|error| damaged(error.to_string()));
        if codec != Codec::None {
            // Kafka has all of them in memory before it prints the first: of a damaged batch it prints none.
            let mut stream = stream()?;
            while stream.next_skim().map_err(|error| damaged(error.to_string()))?.is_some() {}
        }
        let mut stream = stream()?;
        let mut buffer = Vec::new();
        while let Some(record) = stream.next_record(&mut buffer).map_err(|error| damaged(error.to_string()))? {
            let offset = record.offset.0;
            if offset != last_offset.wrapping_add(1) {
                self.findings.gap(path, *last_offset, offset);
            }
            *last_offset = offset;
            let mut prefix = format!("{RECORD_INDENT} ");
            if !self.request.skip_record_metadata {
                self.record(view, &record)?;
                if view.is_control() {
                    let text = control(&record).map_err(damaged)?;
                    write!(self.out, " {text}")?;
                }
                prefix = " ".to_owned();
            }
            if self.request.prints_contents && !view.is_control() {
                let contents = decoder.decode(offset, record.key, record.value).map_err(damaged)?;
                self.contents(contents, prefix)?;
            }
            writeln!(self.out)?;
        }
        Ok(())
    }

    pub(super) fn contents(&mut self, contents: Contents, mut prefix: String) -> Result<(), DumpError> {
        if let Some(key) = contents.key {
            write!(self.out, "{prefix}key: {key}")?;
            prefix = " ".to_owned();
        }
        if let Some(payload) = contents.value {
            write!(self.out, "{prefix}payload: {payload}")?;
        }
        Ok(())
    }

    fn record(&mut self, view: &RecordBatch<'_>, record: &Record<'_>) -> Result<(), DumpError> {
        let base_sequence = view.base_sequence();
        let delta = record.offset.0.wrapping_sub(view.base_offset().0) as i32;
        let sequence = if base_sequence >= 0 { increment_sequence(base_sequence, delta) } else { -1 };
        write!(
            self.out,
            "{RECORD_INDENT} offset: {} {}: {} keySize: {} valueSize: {} sequence: {sequence} headerKeys: [",
            record.offset,
            timestamp_type(view),
            record.timestamp,
            size(record.key),
            size(record.value),
        )?;
        for (n, header) in record.headers.iter().enumerate() {
            let comma = if n > 0 { "," } else { "" };
            write!(self.out, "{comma}{}", java_text(header.key))?;
        }
        write!(self.out, "]")?;
        Ok(())
    }
}

/// The size of a key or value; -1: there is none.
pub(super) fn size(bytes: Option<&[u8]>) -> i64 {
    bytes.map_or(-1, |bytes| bytes.len() as i64)
}

/// As Java prints a number that may be missing.
pub(super) fn optional_long(value: Option<i64>) -> String {
    value.map_or("OptionalLong.empty".to_owned(), |value| format!("OptionalLong[{value}]"))
}

fn timestamp_type(view: &RecordBatch<'_>) -> &'static str {
    match view.timestamp_type() {
        TimestampType::CreateTime => "CreateTime",
        TimestampType::LogAppendTime => "LogAppendTime",
    }
}

/// What is printed of a control record.
fn control(record: &Record<'_>) -> Result<String, String> {
    let key = record.key.ok_or("a control record has no key")?;
    let kind = ControlRecordType::parse(key).map_err(|error| error.to_string())?;
    if let ControlRecordType::Unknown(id) = kind {
        return Ok(format!("controlType: UNKNOWN({id})"));
    }
    let value = record.value.ok_or("a control record has no value")?;
    let parsed = ControlRecord::parse(key, value).map_err(|error| error.to_string())?;
    let version = i16::from_be_bytes(*value.first_chunk().ok_or("a control record has no version")?);
    Ok(match parsed {
        ControlRecord::EndTxn(marker) => {
            let kind = if marker.committed { "COMMIT" } else { "ABORT" };
            format!("endTxnMarker: {kind} coordinatorEpoch: {}", marker.coordinator_epoch)
        }
        ControlRecord::LeaderChange(change) => {
            let voters = |ids: &[BrokerId]| -> Value { ids.iter().map(|id| json!({"voterId": id.0})).collect() };
            let value = json!({
                "version": version,
                "leaderId": change.leader_id.0,
                "voters": voters(&change.voters),
                "grantingVoters": voters(&change.granting_voters),
            });
            format!("LeaderChange: {}", json::text(&value))
        }
        ControlRecord::SnapshotHeader { last_contained_log_timestamp } => {
            let value = json!({"version": version, "lastContainedLogTimestamp": last_contained_log_timestamp});
            format!("SnapshotHeader {}", json::text(&value))
        }
        ControlRecord::SnapshotFooter => format!("SnapshotFooter {}", json::text(&json!({"version": version}))),
        ControlRecord::KRaftVersion { kraft_version } => {
            format!("KRaftVersion {}", json::text(&json!({"version": version, "kRaftVersion": kraft_version})))
        }
        ControlRecord::KRaftVoters(voters) => {
            let voters: Value = voters
                .iter()
                .map(|voter| {
                    let endpoints: Value = voter
                        .endpoints
                        .iter()
                        .map(|endpoint| json!({"name": endpoint.name, "host": endpoint.host, "port": endpoint.port}))
                        .collect();
                    json!({
                        "voterId": voter.id.0,
                        "voterDirectoryId": voter.directory_id.to_string(),
                        "endpoints": endpoints,
                        "kRaftVersionFeature": {
                            "minSupportedVersion": voter.min_kraft_version,
                            "maxSupportedVersion": voter.max_kraft_version,
                        },
                    })
                })
                .collect();
            format!("KRaftVoters {}", json::text(&json!({"version": version, "voters": voters})))
        }
        ControlRecord::Unknown { id, .. } => format!("controlType: UNKNOWN({id})"),
    })
}
