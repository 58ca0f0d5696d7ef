//! What a leader checks in the one batch that it appends, and what it changes there: Kafka's `LogValidator`.
//!
//! A batch is walked through once, without an allocation unless a record is refused. It is rebuilt only if the topic
//! wants another codec. Some of what is refused as unreadable is what Kafka itself fails at; a client sees the same
//! error then.

use bytes::Bytes;

use super::{
    AppendOrigin, RecordError, TargetCompression, ValidateError, ValidatedBatch, ValidatedRecords, ValidationConfig,
    invalid,
};
use crate::record::batch::{self, BatchHeader, NO_TIMESTAMP, RecordBatch, TimestampType};
use crate::record::builder::RecordBatchBuilder;
use crate::record::compression::{Codec, CompressionError};
use crate::record::record::{Header, Record, RecordStream, RecordStreamError, Records, RecordsError};
use crate::types::{Offset, ProducerEpoch, ProducerId};

/// A batch may decompress to this much in any case, and to [`MAX_RATIO`] times its size.
const ALWAYS_DECOMPRESSED: u64 = 64 << 20;
/// A little more than gzip can. Only zstd and forgeries go beyond, and those would keep a thread busy for seconds.
const MAX_RATIO: u64 = 1100;
/// A rebuilt batch is held in memory uncompressed, so its ratio to `max.message.bytes` is smaller, and this the most.
const MAX_REBUILD_RATIO: u64 = 16;
const MAX_REBUILT: u64 = 512 << 20;
/// More refused records than this are counted, not listed.
const MAX_RECORD_ERRORS: usize = 10_000;

pub(super) fn validate_batch(
    records: Bytes,
    config: &ValidationConfig<'_>,
    now_ms: i64,
) -> Result<ValidatedRecords, ValidateError> {
    let mut batches = batch::batches(&records).map_while(Result::ok);
    let Some(batch) = batches.next() else {
        return Ok(accept(Vec::new(), NO_TIMESTAMP, config, now_ms));
    };
    if batches.next().is_some() {
        return Err(invalid("Compressed outer record has more than one batch".to_owned()));
    }
    let header = batch.to_header();
    let codec = header.codec().map_err(|error| ValidateError::Unreadable(error.to_string()))?;
    if config.origin == AppendOrigin::Client {
        check_client_batch(&header, config)?;
    }

    let mut checks = RecordChecks::new(&header, config, now_ms);
    let rebuilt = match config.compression {
        // Control records are stored as they come.
        TargetCompression::Codec { codec: target, level }
            if target != codec && !(codec == Codec::None && header.is_control()) =>
        {
            Some(Rebuild::new(&header, target, level, config, now_ms))
        }
        TargetCompression::Codec { .. } | TargetCompression::Producer => None,
    };
    let validated = match rebuilt {
        Some(rebuild) => rebuild_batch(&batch, codec, checks, rebuild, config)?,
        None => {
            walk(&batch, codec, &mut checks, config)?;
            checks.stamp(header, records.slice_ref(batch.body()))
        }
    };
    let max_timestamp = validated.header.max_timestamp();
    Ok(accept(vec![validated], max_timestamp, config, now_ms))
}

fn accept(
    batches: Vec<ValidatedBatch>,
    max_timestamp: i64,
    config: &ValidationConfig<'_>,
    now_ms: i64,
) -> ValidatedRecords {
    ValidatedRecords {
        size_in_bytes: batches.iter().map(ValidatedBatch::size_in_bytes).sum(),
        batches,
        as_given: None,
        max_timestamp,
        log_append_time_ms: (config.timestamp_type == TimestampType::LogAppendTime).then_some(now_ms),
    }
}

/// The rules for the header of a batch that a client sent.
fn check_client_batch(header: &BatchHeader, config: &ValidationConfig<'_>) -> Result<(), ValidateError> {
    let partition = config.partition;
    let (first, last) = (header.base_offset().0, header.last_offset().0);
    let count_from_offsets = i64::from(header.last_offset_delta()) + 1;
    let count = header.record_count();
    if count_from_offsets <= 0 {
        return Err(invalid(format!(
            "Batch has an invalid offset range: [{first}, {last}] in topic partition {partition}"
        )));
    }
    if count <= 0 {
        return Err(invalid(format!(
            "Invalid reported count for record batch: {count} in topic partition {partition}"
        )));
    }
    if count_from_offsets != i64::from(count) {
        return Err(invalid(format!(
            "Inconsistent batch offset range [{first}, {last}] and count of records {count} in topic partition \
             {partition}"
        )));
    }
    if header.is_control() {
        return Err(invalid(format!(
            "Clients are not allowed to write control records in topic partition {partition}"
        )));
    }
    if header.has_producer_id() && header.base_sequence() < 0 {
        return Err(invalid(format!(
            "Invalid sequence number {} in record batch with producerId {} in topic partition {partition}",
            header.base_sequence(),
            header.producer_id()
        )));
    }
    Ok(())
}

/// Checks the records of a batch that will be stored with the body it has.
fn walk(
    batch: &RecordBatch<'_>,
    codec: Codec,
    checks: &mut RecordChecks<'_>,
    config: &ValidationConfig<'_>,
) -> Result<(), ValidateError> {
    let unreadable = |error| stream_error(error, config);
    if codec == Codec::None {
        for record in Records::new(&batch.to_header(), batch.body()) {
            checks.check_record(&record.map_err(|error| records_error(error, config))?);
        }
        return checks.finish();
    }
    let limit = ALWAYS_DECOMPRESSED.max(batch.body().len() as u64 * MAX_RATIO);
    let mut stream = RecordStream::new(&batch.to_header(), codec, batch.body(), limit).map_err(unreadable)?;
    let mut in_sequence = true;
    while let Some(record) = stream.next_skim().map_err(unreadable)? {
        in_sequence &= record.offset.0 == i64::from(checks.index);
        checks.check(record.offset, record.timestamp, record.key_size >= 0, || {
            format!(
                "PartialDefaultRecord(offset={}, timestamp={}, key={} bytes, value={} bytes)",
                record.offset, record.timestamp, record.key_size, record.value_size
            )
        });
    }
    checks.finish()?;
    if !in_sequence {
        // Kafka sets out to rebuild such a batch, and fails because it has skipped the keys.
        return Err(ValidateError::Unreadable(format!(
            "offsets in a compressed batch are not consecutive in topic partition {}",
            config.partition
        )));
    }
    Ok(())
}

/// Checks the records of a batch and writes them into a new one.
fn rebuild_batch(
    batch: &RecordBatch<'_>,
    codec: Codec,
    mut checks: RecordChecks<'_>,
    mut rebuild: Rebuild,
    config: &ValidationConfig<'_>,
) -> Result<ValidatedBatch, ValidateError> {
    let most = ALWAYS_DECOMPRESSED.max(config.max_message_bytes.max(0) as u64 * MAX_REBUILD_RATIO).min(MAX_REBUILT);
    if batch.body().len() as u64 > most {
        let error = CompressionError::TooLarge { limit: most };
        return Err(stream_error(error.into(), config));
    }
    if codec == Codec::None {
        for record in Records::new(&batch.to_header(), batch.body()) {
            let record = record.map_err(|error| records_error(error, config))?;
            checks.check_record(&record);
            rebuild.append(&record);
        }
    } else {
        let unreadable = |error| stream_error(error, config);
        let mut stream = RecordStream::new(&batch.to_header(), codec, batch.body(), most).map_err(unreadable)?;
        let mut buffer = Vec::new();
        while let Some(record) = stream.next_record(&mut buffer).map_err(unreadable)? {
            checks.check_record(&record);
            rebuild.append(&record);
        }
    }
    checks.finish()?;
    rebuild.finish(config)
}

fn stream_error(error: RecordStreamError, config: &ValidationConfig<'_>) -> ValidateError {
    match error {
        RecordStreamError::Records(error @ RecordsError::ImpossibleSize(_)) => {
            ValidateError::Unreadable(format!("{error} in topic partition {}", config.partition))
        }
        RecordStreamError::Records(error) => invalid(format!("{error} in topic partition {}", config.partition)),
        RecordStreamError::Compression(error @ CompressionError::TooLarge { .. }) => {
            ValidateError::TooLarge(format!("{error} in topic partition {}", config.partition))
        }
        RecordStreamError::Compression(error @ CompressionError::Corrupt { .. }) => {
            ValidateError::Unreadable(format!("{error} in topic partition {}", config.partition))
        }
    }
}

fn records_error(error: RecordsError, config: &ValidationConfig<'_>) -> ValidateError {
    let message = format!("{error} in topic partition {}", config.partition);
    match error {
        RecordsError::EndlessSize | RecordsError::ImpossibleSize(_) => ValidateError::Unreadable(message),
        RecordsError::NegativeCount(_)
        | RecordsError::EndlessNumber
        | RecordsError::Incomplete
        | RecordsError::SizeMismatch { .. }
        | RecordsError::HeaderCount(_)
        | RecordsError::NegativeHeaderKeySize(_)
        | RecordsError::BytesBehindLastRecord => invalid(message),
    }
}

/// The rules for records, and what they add up to over a batch. All records are looked at before one is refused.
struct RecordChecks<'a> {
    config: &'a ValidationConfig<'a>,
    now_ms: i64,
    batch_timestamp_type: TimestampType,
    /// Of the next record.
    index: i32,
    max_timestamp: i64,
    errors: Vec<RecordError>,
    error_count: usize,
    timestamp_refused: bool,
}

impl<'a> RecordChecks<'a> {
    fn new(header: &BatchHeader, config: &'a ValidationConfig<'a>, now_ms: i64) -> RecordChecks<'a> {
        RecordChecks {
            config,
            now_ms,
            batch_timestamp_type: header.timestamp_type(),
            index: 0,
            max_timestamp: NO_TIMESTAMP,
            errors: Vec::new(),
            error_count: 0,
            timestamp_refused: false,
        }
    }

    fn check_record(&mut self, record: &Record<'_>) {
        self.check(record.offset, record.timestamp, record.key.is_some(), || {
            format!(
                "DefaultRecord(offset={}, timestamp={}, key={} bytes, value={} bytes)",
                record.offset,
                record.timestamp,
                record.key.map_or(0, <[u8]>::len),
                record.value.map_or(0, <[u8]>::len)
            )
        });
    }

    #[inline]
    fn check(&mut self, offset: Offset, timestamp: i64, has_key: bool, describe: impl FnOnce() -> String) {
        self.max_timestamp = self.max_timestamp.max(timestamp);
        if self.config.compacted && !has_key {
            self.refuse(format!(
                "Compacted topic cannot accept message without key in topic partition {}",
                self.config.partition
            ));
        } else if self.config.timestamp_type == TimestampType::CreateTime && timestamp != NO_TIMESTAMP {
            let age = self.now_ms.wrapping_sub(timestamp);
            let (before, after) = (self.config.timestamp_before_max_ms, self.config.timestamp_after_max_ms);
            if age > before || age.wrapping_neg() > after {
                self.timestamp_refused = true;
                self.refuse(format!(
                    "Timestamp {timestamp} of message with offset {offset} is out of range. The timestamp should be \
                     within [{}, {}]",
                    self.now_ms.wrapping_sub(before),
                    self.now_ms.wrapping_add(after)
                ));
            }
        } else if self.batch_timestamp_type == TimestampType::LogAppendTime {
            self.timestamp_refused = true;
            self.refuse(format!(
                "Invalid timestamp type in message {}. Producer should not set timestamp type to LogAppendTime.",
                describe()
            ));
        }
        self.index = self.index.wrapping_add(1);
    }

    #[cold]
    fn refuse(&mut self, message: String) {
        self.error_count += 1;
        if self.errors.len() < MAX_RECORD_ERRORS {
            self.errors.push(RecordError { batch_index: self.index, message });
        }
    }

    /// The error that the refused records make together.
    fn finish(&mut self) -> Result<(), ValidateError> {
        if self.error_count == 0 {
            return Ok(());
        }
        let record_errors = std::mem::take(&mut self.errors);
        if self.timestamp_refused {
            let message = "One or more records have been rejected due to invalid timestamp".to_owned();
            return Err(ValidateError::InvalidTimestamp { message, record_errors });
        }
        let first: Vec<String> = record_errors
            .iter()
            .take(3)
            .map(|error| format!("RecordError(batchIndex={}, message='{}')", error.batch_index, error.message))
            .collect();
        let message = format!(
            "One or more records have been rejected due to {} record errors in total, and only showing the first \
             three errors at most: [{}]",
            self.error_count,
            first.join(", ")
        );
        Err(ValidateError::InvalidRecord { message, record_errors })
    }

    /// The batch as it is stored, with the timestamps that its records and the topic ask for.
    fn stamp(self, mut header: BatchHeader, body: Bytes) -> ValidatedBatch {
        let max_timestamp = match self.config.timestamp_type {
            TimestampType::CreateTime => self.max_timestamp,
            TimestampType::LogAppendTime => self.now_ms,
        };
        header.set_max_timestamp(self.config.timestamp_type, max_timestamp, &body);
        ValidatedBatch { header, body }
    }
}

/// Makes a batch in another codec. What cannot be written is noted, and told once all records are checked.
struct Rebuild {
    builder: RecordBatchBuilder,
    problem: Option<&'static str>,
}

impl Rebuild {
    fn new(header: &BatchHeader, codec: Codec, level: i32, config: &ValidationConfig<'_>, now_ms: i64) -> Rebuild {
        let mut builder = RecordBatchBuilder::new(Offset(0))
            .compression(codec, level)
            .producer(header.producer_id(), header.producer_epoch(), header.base_sequence())
            .transactional(header.is_transactional());
        if config.timestamp_type == TimestampType::LogAppendTime {
            builder = builder.log_append_time_ms(now_ms);
        }
        let idempotent = header.producer_id() != ProducerId::NONE;
        let problem = if header.is_transactional() && !idempotent {
            Some("transactional records without a producer id")
        } else if idempotent && header.producer_epoch() == ProducerEpoch::NONE {
            Some("a producer id without an epoch")
        } else if idempotent && header.base_sequence() < 0 {
            Some("a producer id without a sequence")
        } else {
            None
        };
        Rebuild { builder, problem }
    }

    fn append(&mut self, record: &Record<'_>) {
        if record.timestamp < 0 && record.timestamp != NO_TIMESTAMP {
            self.problem = Some("a negative timestamp");
        }
        // Names of headers are text to Kafka: it decodes and encodes them here.
        let names: Vec<_> = record.headers.iter().map(|header| String::from_utf8_lossy(header.key)).collect();
        let headers: Vec<_> = record
            .headers
            .iter()
            .zip(&names)
            .map(|(header, name)| Header { key: name.as_bytes(), value: header.value })
            .collect();
        self.builder.append(record.timestamp, record.key, record.value, &headers);
    }

    fn finish(self, config: &ValidationConfig<'_>) -> Result<ValidatedBatch, ValidateError> {
        if let Some(problem) = self.problem {
            return Err(ValidateError::Unreadable(format!(
                "batch cannot be rebuilt in another compression, it has {problem}, in topic partition {}",
                config.partition
            )));
        }
        if self.builder.is_empty() {
            return Err(invalid(format!("Record batch has no records in topic partition {}", config.partition)));
        }
        let (header, body) = self.builder.build_parts();
        let batch = ValidatedBatch { header, body };
        let size = batch.size_in_bytes();
        if size > config.max_message_bytes.max(0) as usize {
            return Err(ValidateError::TooLarge(format!(
                "Message batch size is {size} bytes in append to partition {} which exceeds the maximum configured \
                 size of {}.",
                config.partition, config.max_message_bytes
            )));
        }
        Ok(batch)
    }
}
