//! The dump of message formats v0 and v1, which only a log that came a long way with Kafka still has.

use std::path::Path;

use bytes::Bytes;

use crate::cli::dump_log::batches::FoundBatch;
use crate::cli::dump_log::decoder::Decoder;
use crate::cli::dump_log::log::size;
use crate::cli::dump_log::{Dump, DumpError, RECORD_INDENT};
use crate::record::compression::{Codec, decompress};

/// More than the messages compressed into one may be: Kafka would need as much memory.
const MAX_OLD_MESSAGES: usize = 1 << 30;

/// What every message of an old format begins with: offset, length, CRC-32 and magic. Then v0 has attributes, v1 attributes
/// and a timestamp; then come key and value, each behind its size of four bytes.
struct OldMessage<'a> {
    offset: i64,
    magic: i8,
    crc: u32,
    is_valid: bool,
    attributes: i8,
    timestamp: i64,
    /// Key and value.
    fields: &'a [u8],
}

/// Key and value of a message.
type Fields<'a> = (Option<&'a [u8]>, Option<&'a [u8]>);

/// Magic and attributes.
const OLD_ATTRIBUTES: usize = 17;
const OLD_CRC_START: usize = 16;
const OLD_TIMESTAMP_BIT: i8 = 0x08;

impl<'a> OldMessage<'a> {
    /// `bytes` are all of the message.
    fn parse(bytes: &'a [u8]) -> Result<OldMessage<'a>, String> {
        let (header, mut rest) = bytes.split_first_chunk::<18>().ok_or_else(cut_off)?;
        let magic = header[16] as i8;
        let mut timestamp = -1;
        if magic > 0 {
            let (stored, behind) = rest.split_first_chunk().ok_or_else(cut_off)?;
            (timestamp, rest) = (i64::from_be_bytes(*stored), behind);
        }
        let mut sum = flate2::Crc::new();
        sum.update(&bytes[OLD_CRC_START..]);
        let crc = u32::from_be_bytes(header[12..16].try_into().expect("four bytes"));
        Ok(OldMessage {
            offset: i64::from_be_bytes(header[..8].try_into().expect("eight bytes")),
            magic,
            crc,
            is_valid: sum.sum() == crc,
            attributes: header[OLD_ATTRIBUTES] as i8,
            timestamp,
            fields: rest,
        })
    }

    fn key_and_value(&self) -> Result<Fields<'a>, String> {
        let mut rest = self.fields;
        let mut field = || -> Result<Option<&'a [u8]>, String> {
            let (size, behind) = rest.split_first_chunk().ok_or_else(cut_off)?;
            let Ok(size) = usize::try_from(i32::from_be_bytes(*size)) else {
                rest = behind;
                return Ok(None);
            };
            let (field, behind) = behind.split_at_checked(size).ok_or_else(cut_off)?;
            rest = behind;
            Ok(Some(field))
        };
        Ok((field()?, field()?))
    }

    fn timestamp_type(&self) -> &'static str {
        match self.magic {
            0 => "NoTimestampType",
            _ if self.attributes & OLD_TIMESTAMP_BIT == 0 => "CreateTime",
            _ => "LogAppendTime",
        }
    }

    fn codec(&self) -> Result<Codec, String> {
        Codec::from_id((self.attributes & 0x07) as u8).map_err(|error| error.to_string())
    }
}

fn cut_off() -> String {
    "a message of an old format is cut off".to_owned()
}

/// The largest timestamp in a message set of an old format.
pub(super) fn old_timestamp(path: &Path, batch: &FoundBatch<'_>) -> Result<i64, DumpError> {
    OldMessage::parse(batch.bytes).map(|message| message.timestamp).map_err(|reason| DumpError::damaged(path, reason))
}

/// The messages that a compressed message holds, with their offsets.
fn inner_messages(wrapper: &OldMessage<'_>) -> Result<Vec<u8>, String> {
    let codec = wrapper.codec()?;
    // It came with the format that followed.
    if codec == Codec::Zstd {
        return Err(format!("{codec} in a message of an old format"));
    }
    let value = wrapper.key_and_value()?.1.ok_or("a compressed message has no value")?;
    let value = Bytes::copy_from_slice(value);
    let limit = MAX_OLD_MESSAGES;
    Ok(decompress(codec, &value, limit).map_err(|error| error.to_string())?.to_vec())
}

/// Cuts messages off the front of bytes, in which offsets may be relative to that of the wrapper.
fn split_messages(bytes: &[u8]) -> Result<Vec<OldMessage<'_>>, String> {
    let mut messages = Vec::new();
    let mut rest = bytes;
    while let Some(header) = rest.first_chunk::<12>() {
        let length = i32::from_be_bytes(header[8..].try_into().expect("four bytes"));
        let size = usize::try_from(length).map_err(|_| "a message has a negative size".to_owned())? + 12;
        let (message, behind) =
            rest.split_at_checked(size).ok_or_else(|| "a compressed message is cut off".to_owned())?;
        let message = OldMessage::parse(message)?;
        if message.codec()? != Codec::None {
            return Err("a message within a compressed one is compressed, too".to_owned());
        }
        messages.push(message);
        rest = behind;
    }
    Ok(messages)
}

impl Dump<'_> {
    /// A message of format v0 or v1, or a compressed set of them.
    pub(super) fn old_format(
        &mut self,
        path: &Path,
        batch: &FoundBatch<'_>,
        decoder: Decoder,
        is_deep: bool,
        last_offset: &mut i64,
    ) -> Result<(), DumpError> {
        let damaged =
            |reason: String| DumpError::damaged(path, format!("in the batch at {}: {reason}", batch.position));
        if let Some(offset) = batch.bytes.first_chunk() {
            write!(self.out, "offset: {}", i64::from_be_bytes(*offset))?;
        }
        if batch.magic < 0 {
            return Err(damaged(format!("magic {} is that of no format", batch.magic)));
        }
        let wrapper = OldMessage::parse(batch.bytes).map_err(damaged)?;
        let codec = wrapper.codec().map_err(damaged)?;
        writeln!(
            self.out,
            " position: {} {}: {} size: {} magic: {} compresscodec: {codec} crc: {} isvalid: {}",
            batch.position,
            wrapper.timestamp_type(),
            wrapper.timestamp,
            batch.bytes.len(),
            wrapper.magic,
            wrapper.crc,
            wrapper.is_valid,
        )?;
        if !is_deep {
            return Ok(());
        }
        if codec == Codec::None {
            return self.old_message(path, &wrapper, (wrapper.offset, &wrapper), decoder, last_offset);
        }
        let bytes = inner_messages(&wrapper).map_err(damaged)?;
        let messages = split_messages(&bytes).map_err(damaged)?;
        if messages.is_empty() {
            return Err(damaged("a compressed message holds no messages".to_owned()));
        }
        // In v1 offsets count from that of the first message; the wrapper has the last one.
        let base = match messages.last() {
            Some(last) if wrapper.magic > 0 => wrapper.offset.wrapping_sub(last.offset),
            _ => 0,
        };
        for message in &messages {
            self.old_message(path, message, (base.wrapping_add(message.offset), &wrapper), decoder, last_offset)?;
        }
        Ok(())
    }

    fn old_message(
        &mut self,
        path: &Path,
        message: &OldMessage<'_>,
        (offset, wrapper): (i64, &OldMessage<'_>),
        decoder: Decoder,
        last_offset: &mut i64,
    ) -> Result<(), DumpError> {
        let (key, value) = message.key_and_value().map_err(|reason| DumpError::damaged(path, reason))?;
        if offset != last_offset.wrapping_add(1) {
            self.findings.gap(path, *last_offset, offset);
        }
        *last_offset = offset;
        let is_append_time = wrapper.timestamp_type() == "LogAppendTime";
        let timestamp = if is_append_time { wrapper.timestamp } else { message.timestamp };
        let mut prefix = format!("{RECORD_INDENT} ");
        if !self.request.skip_record_metadata {
            write!(
                self.out,
                "{RECORD_INDENT} offset: {offset} {}: {timestamp} keySize: {} valueSize: {} isValid: {} crc: {}",
                wrapper.timestamp_type(),
                size(key),
                size(value),
                message.is_valid,
                message.crc,
            )?;
            prefix = " ".to_owned();
        }
        if self.request.prints_contents {
            let contents = decoder.decode(offset, key, value);
            let contents = contents.map_err(|reason| DumpError::damaged(path, reason))?;
            self.contents(contents, prefix)?;
        }
        writeln!(self.out)?;
        Ok(())
    }
}
