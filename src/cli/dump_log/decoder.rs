//! How keys and values of records are printed.

use std::fmt::Write as _;

use bytes::Bytes;
use serde_json::json;

use crate::cli::dump_log::coordinator::{self, Family};
use crate::cli::dump_log::json;
use crate::metadata::records::codec::Reader;
use crate::metadata::records::{DecodeError, VersionedRecord};

/// What Kafka takes if no class is named.
pub const DEFAULT_CLASS: &str = "org.apache.kafka.tools.api.StringDecoder";

/// The decoders that come with Kafka.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PlainDecoder {
    /// Text; what is no UTF-8 is replaced.
    #[default]
    String,
    Integer,
    Long,
    /// Bytes, in hexadecimal. (Kafka prints the address of an array.)
    Default,
}

impl PlainDecoder {
    pub fn of_class(name: &str) -> Result<PlainDecoder, String> {
        match name.strip_prefix("org.apache.kafka.tools.api.") {
            Some("StringDecoder") => Ok(PlainDecoder::String),
            Some("IntegerDecoder") => Ok(PlainDecoder::Integer),
            Some("LongDecoder") => Ok(PlainDecoder::Long),
            Some("DefaultDecoder") => Ok(PlainDecoder::Default),
            _ => Err("classes cannot be loaded; there are org.apache.kafka.tools.api.StringDecoder, IntegerDecoder, \
                      LongDecoder and DefaultDecoder"
                .to_owned()),
        }
    }

    fn decode(self, bytes: &[u8]) -> Result<String, String> {
        let short = |size| format!("{} bytes are too few for a number of {size}", bytes.len());
        match self {
            PlainDecoder::String => Ok(java_text(bytes)),
            PlainDecoder::Integer => {
                let first = bytes.first_chunk().ok_or_else(|| short(4))?;
                Ok(i32::from_be_bytes(*first).to_string())
            }
            PlainDecoder::Long => {
                let first = bytes.first_chunk().ok_or_else(|| short(8))?;
                Ok(i64::from_be_bytes(*first).to_string())
            }
            PlainDecoder::Default => Ok(bytes.iter().fold(String::new(), |mut text, byte| {
                let _ = write!(text, "{byte:02x}");
                text
            })),
        }
    }
}

/// What the records are taken for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decoder {
    Plain { key: PlainDecoder, value: PlainDecoder },
    ClusterMetadata,
    Offsets,
    Transactions,
    ShareGroupState,
}

/// What is printed of a record; `None`: nothing, not even the word in front of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Contents {
    pub key: Option<String>,
    pub value: Option<String>,
}

impl Decoder {
    /// `Err`: why the dump cannot go on.
    pub(super) fn decode(self, offset: i64, key: Option<&[u8]>, value: Option<&[u8]>) -> Result<Contents, String> {
        let family = match self {
            Decoder::Plain { key: keys, value: values } => {
                let key = key.map(|key| keys.decode(key)).transpose()?;
                return Ok(Contents { key, value: value.map(|value| values.decode(value)).transpose()? });
            }
            Decoder::ClusterMetadata => {
                return Ok(Contents { key: None, value: Some(metadata_record(offset, value)) });
            }
            Decoder::Offsets => Family::Group,
            Decoder::Transactions => Family::Transaction,
            Decoder::ShareGroupState => Family::Share,
        };
        match key {
            Some(key) => Ok(coordinator::decode(family, offset, key, value.map(Bytes::copy_from_slice))),
            None => Err(format!(
                "Failed to decode message at offset {offset} using the specified decoder (message had a missing key)"
            )),
        }
    }
}

fn metadata_record(offset: i64, value: Option<&[u8]>) -> String {
    // Without a value there is nothing to begin with, either.
    let value = value.unwrap_or_default();
    match VersionedRecord::decode(value).map_err(|error| metadata_fault(value, &error)) {
        Ok(decoded) => json::text(&json!({
            "type": upper_snake(decoded.record.name()),
            "version": decoded.version,
            "data": decoded.record.to_json(decoded.version),
        })),
        Err(reason) => format!("Error at {offset}, skipping. {reason}"),
    }
}

/// Why a metadata record cannot be read, as Kafka says it: the three numbers in front of it are read first.
fn metadata_fault(value: &[u8], error: &DecodeError) -> String {
    let mut reader = Reader::new(value);
    let mut number = |what: &str| match reader.unsigned_varint() {
        Err(_) => Err(format!("Error while reading {what}")),
        // Kafka reads it as signed.
        Ok(number) if number.cast_signed() > i16::MAX.into() => Err(format!("Value for {what} was too large.")),
        Ok(number) => Ok(number as i16),
    };
    let read = number("frame version").and_then(|frame| match frame {
        0 => Err("Could not deserialize metadata record with frame version 0. Note that upgrades from the preview release of \
                  KRaft in 2.8 to newer versions are not supported."
            .to_owned()),
        1 => number("type").and_then(|kind| number("version").map(|_| kind)),
        frame => Err(format!(
            "Could not deserialize metadata record due to unknown frame version {frame}(only frame version 1 is supported)"
        )),
    });
    match (read, error) {
        (Err(reason), _) => reason,
        (Ok(kind), DecodeError::UnknownType(_)) => {
            format!("org.apache.kafka.common.errors.UnsupportedVersionException: Unknown metadata id {kind}")
        }
        (Ok(kind), DecodeError::LeftOver(bytes)) => format!("Found {bytes} byte(s) of garbage after {kind}"),
        (Ok(kind), _) => format!("Failed to deserialize record with type {kind}"),
    }
}

/// Bytes as text, as Java decodes them: what is no UTF-8 is replaced. Rust differs in one thing: Java takes an encoded
/// surrogate for one character that cannot be, Rust for two or three.
pub(super) fn java_text(bytes: &[u8]) -> String {
    let mut text = String::new();
    let mut rest = bytes;
    loop {
        let error = match std::str::from_utf8(rest) {
            Ok(valid) => return text + valid,
            Err(error) => error,
        };
        let (valid, invalid) = rest.split_at(error.valid_up_to());
        text.push_str(&String::from_utf8_lossy(valid));
        text.push(char::REPLACEMENT_CHARACTER);
        let skipped = match invalid {
            [0xed, 0xa0..=0xbf, 0x80..=0xbf, ..] => 3,
            [0xed, 0xa0..=0xbf, ..] => 2,
            _ => error.error_len().unwrap_or(invalid.len()),
        };
        rest = &invalid[skipped..];
    }
}

/// `NoOpRecord` as `NO_OP_RECORD`.
fn upper_snake(name: &str) -> String {
    let mut text = String::new();
    for (at, char) in name.char_indices() {
        if char.is_ascii_uppercase() && at > 0 {
            text.push('_');
        }
        text.push(char.to_ascii_uppercase());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kafkas_own_decoders_are_known_and_no_others() {
        let of = |name| PlainDecoder::of_class(name);
        assert_eq!(of(DEFAULT_CLASS), Ok(PlainDecoder::String));
        assert_eq!(of("org.apache.kafka.tools.api.LongDecoder"), Ok(PlainDecoder::Long));
        assert!(of("com.example.MyDecoder").is_err());
        // Their names until Kafka 4.0.
        assert!(of("kafka.serializer.StringDecoder").is_err());
        assert_eq!(PlainDecoder::Integer.decode(&[0, 0, 1, 0, 9]), Ok("256".to_owned()));
        assert_eq!(PlainDecoder::Long.decode(&[255; 8]), Ok("-1".to_owned()));
        assert!(PlainDecoder::Long.decode(&[255; 7]).is_err());
        assert_eq!(PlainDecoder::Default.decode(&[0, 255]), Ok("00ff".to_owned()));
        assert_eq!(PlainDecoder::String.decode(b"a\xffb"), Ok("a\u{fffd}b".to_owned()));
    }

    #[test]
    fn text_is_decoded_as_in_java() {
        for (bytes, text) in [
            (&b"plain"[..], "plain"),
            (b"a\xed\xa0\x80b", "a?b"),
            (b"\xed\xa0A", "?A"),
            (b"\xed\xbf", "?"),
            (b"\xed\x9f\xbf", "\u{d7ff}"),
            (b"\xe0\x80\x80", "???"),
            (b"\xe0\xa0A", "?A"),
            (b"\xf4\x90\x80\x80", "????"),
            (b"\xf0\x90\x80", "?"),
            (b"\xc3", "?"),
            (b"\x80\xff", "??"),
        ] {
            assert_eq!(java_text(bytes), text.replace('?', "\u{fffd}"), "{bytes:?}");
        }
    }

    #[test]
    fn types_have_kafkas_names() {
        assert_eq!(upper_snake("NoOpRecord"), "NO_OP_RECORD");
        assert_eq!(upper_snake("UserScramCredentialRecord"), "USER_SCRAM_CREDENTIAL_RECORD");
    }
}
