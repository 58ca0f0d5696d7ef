//! What the console consumer prints of a record: Kafka's formatters, by the names of their classes.

use std::collections::BTreeMap;

use serde_json::json;

use crate::cli::dump_log::json_text;
use crate::client::{Consumed, Error};
use crate::config::double_text;
use crate::coordinator::group::records::GroupRecord;
use crate::coordinator::share::records::ShareRecord;
use crate::coordinator::transaction::records::TransactionRecord;
use crate::metadata::records::DecodeError;
use crate::record::batch::TimestampType;

const PACKAGE: &str = "org.apache.kafka.tools.consumer.";
const SERIALIZATION: &str = "org.apache.kafka.common.serialization.";
pub const DEFAULT: &str = "org.apache.kafka.tools.consumer.DefaultMessageFormatter";

/// The kinds of records that a formatter shows, by the numbers in their keys.
const OFFSETS: &[i16] = &[0, 1];
const GROUP_METADATA: &[i16] = &[2];
const TRANSACTIONS: &[i16] = &[0];
const SHARE_STATE: &[i16] = &[0, 1];

#[derive(Debug)]
pub enum Formatter {
    Default(Box<DefaultFormatter>),
    Nothing,
    Offsets,
    GroupMetadata,
    TransactionLog,
    ShareGroup,
}

impl Formatter {
    /// By the name of its class. An error is what Java says when there is none.
    pub fn of_class(class: &str, properties: &BTreeMap<String, String>) -> Result<Formatter, Error> {
        let not_found = || Error::new("java.lang.ClassNotFoundException", class);
        Ok(match class.strip_prefix(PACKAGE).ok_or_else(not_found)? {
            "DefaultMessageFormatter" | "LoggingMessageFormatter" => {
                Formatter::Default(Box::new(DefaultFormatter::new(properties)))
            }
            "NoOpMessageFormatter" => Formatter::Nothing,
            "OffsetsMessageFormatter" => Formatter::Offsets,
            "GroupMetadataMessageFormatter" => Formatter::GroupMetadata,
            "TransactionLogMessageFormatter" => Formatter::TransactionLog,
            "ShareGroupMessageFormatter" => Formatter::ShareGroup,
            _ => return Err(not_found()),
        })
    }

    /// Appends what is printed of a record.
    pub fn write(&self, record: &Consumed, out: &mut Vec<u8>) -> Result<(), Error> {
        let unreadable = |reason: String| {
            let cause = Error::new("java.lang.RuntimeException", &*reason);
            let message = format!("Could not read record at offset {} due to: {reason}", record.offset);
            Error::new("java.lang.RuntimeException", message).caused_by(cause)
        };
        let decodes = !matches!(self, Formatter::Default(_) | Formatter::Nothing);
        if decodes && record.key.as_ref().is_some_and(|key| key.len() < 2) {
            return Err(unreadable("Could not read version from key's buffer.".to_owned()));
        }
        let (allowed, decoded) = match (self, record.key.as_deref()) {
            (Formatter::Default(formatter), _) => return formatter.write(record, out),
            (Formatter::Nothing, _) | (_, None) => return Ok(()),
            (Formatter::Offsets, Some(key)) => (OFFSETS, of_group(key, record)),
            (Formatter::GroupMetadata, Some(key)) => (GROUP_METADATA, of_group(key, record)),
            (Formatter::TransactionLog, Some(key)) => {
                let decoded = TransactionRecord::decode(key, record.value.as_deref());
                (TRANSACTIONS, decoded.map(|(record, version)| (record.to_json(version), version)))
            }
            (Formatter::ShareGroup, Some(key)) => {
                let decoded = ShareRecord::decode(key, record.value.as_deref());
                (SHARE_STATE, decoded.map(|(record, version)| (record.to_json(version), version)))
            }
        };
        let ((key, value), version) = match decoded {
            Ok(decoded) => decoded,
            Err(DecodeError::UnknownType(_)) => return Ok(()),
            Err(error) => return Err(unreadable(error.to_string())),
        };
        let kind = record.key.as_deref().and_then(|key| key.first_chunk()).map_or(-1, |kind| i16::from_be_bytes(*kind));
        if allowed.contains(&kind) {
            let value = value.map_or(serde_json::Value::Null, |value| json!({"version": version, "data": value}));
            out.extend(json_text(&json!({"key": {"type": kind, "data": key}, "value": value})).into_bytes());
        }
        Ok(())
    }
}

/// Key and value, and the version of the value.
type Decoded = ((serde_json::Value, Option<serde_json::Value>), i16);

fn of_group(key: &[u8], record: &Consumed) -> Result<Decoded, DecodeError> {
    GroupRecord::decode(key, record.value.as_deref()).map(|(record, version)| (record.to_json(version), version))
}

/// Prints key, value and the rest as text.
#[derive(Debug)]
pub struct DefaultFormatter {
    timestamp: bool,
    key: bool,
    value: bool,
    partition: bool,
    offset: bool,
    delivery: bool,
    epoch: bool,
    headers: bool,
    key_separator: String,
    line_separator: String,
    headers_separator: String,
    null_literal: String,
    key_deserializer: Option<Deserializer>,
    value_deserializer: Option<Deserializer>,
    headers_deserializer: Option<Deserializer>,
}

impl DefaultFormatter {
    fn new(properties: &BTreeMap<String, String>) -> DefaultFormatter {
        let is = |key: &str, default: bool| {
            properties.get(key).map_or(default, |text| text.trim().eq_ignore_ascii_case("true"))
        };
        let text = |key: &str, default: &str| properties.get(key).map_or(default, String::as_str).to_owned();
        let deserializer = |key: &str| {
            let class = properties.get(key)?;
            let found = Deserializer::of_class(class);
            if found.is_none() {
                crate::client::log::write_failure(
                    crate::client::log::Level::Error,
                    DEFAULT,
                    format_args!("Unable to instantiate a deserializer from {class}"),
                    &Error::new("java.lang.ClassNotFoundException", class),
                );
            }
            found
        };
        DefaultFormatter {
            timestamp: is("print.timestamp", false),
            key: is("print.key", false),
            value: is("print.value", true),
            partition: is("print.partition", false),
            offset: is("print.offset", false),
            delivery: is("print.delivery", false),
            epoch: is("print.epoch", false),
            headers: is("print.headers", false),
            key_separator: text("key.separator", "\t"),
            line_separator: text("line.separator", "\n"),
            headers_separator: text("headers.separator", ","),
            null_literal: text("null.literal", "null"),
            key_deserializer: deserializer("key.deserializer"),
            value_deserializer: deserializer("value.deserializer"),
            headers_deserializer: deserializer("headers.deserializer"),
        }
    }

    fn write(&self, record: &Consumed, out: &mut Vec<u8>) -> Result<(), Error> {
        // What is printed, in its order; the value ends the line itself.
        let mut columns: Vec<Vec<u8>> = Vec::new();
        if self.timestamp {
            columns.push(match record.timestamp {
                (TimestampType::CreateTime, at) => format!("CreateTime:{at}").into_bytes(),
                (TimestampType::LogAppendTime, at) => format!("LogAppendTime:{at}").into_bytes(),
            });
        }
        if self.partition {
            columns.push(format!("Partition:{}", record.partition).into_bytes());
        }
        if self.offset {
            columns.push(format!("Offset:{}", record.offset).into_bytes());
        }
        // Kafka's console consumer does not hand these two to the formatter.
        if self.delivery {
            columns.push(b"Delivery:NOT_PRESENT".to_vec());
        }
        if self.epoch {
            columns.push(b"Epoch:NOT_PRESENT".to_vec());
        }
        if self.headers {
            columns.push(self.headers(record)?);
        }
        if self.key {
            columns.push(self.text(self.key_deserializer, record.key.as_deref())?);
        }
        if self.value {
            columns.push(self.text(self.value_deserializer, record.value.as_deref())?);
        }
        if !columns.is_empty() {
            out.extend(columns.join(self.key_separator.as_bytes()));
            out.extend(self.line_separator.as_bytes());
        }
        Ok(())
    }

    fn headers(&self, record: &Consumed) -> Result<Vec<u8>, Error> {
        if record.headers.is_empty() {
            return Ok(b"NO_HEADERS".to_vec());
        }
        let mut headers = Vec::new();
        for (name, value) in &record.headers {
            let mut header = format!("{name}:").into_bytes();
            header.extend(self.text(self.headers_deserializer, value.as_deref())?);
            headers.push(header);
        }
        Ok(headers.join(self.headers_separator.as_bytes()))
    }

    fn text(&self, deserializer: Option<Deserializer>, bytes: Option<&[u8]>) -> Result<Vec<u8>, Error> {
        let bytes = bytes.unwrap_or(self.null_literal.as_bytes());
        match deserializer {
            None => Ok(bytes.to_vec()),
            Some(deserializer) => deserializer.text(bytes).map(String::into_bytes),
        }
    }
}

/// Kafka's deserializers, in so far as their texts mean something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Deserializer {
    Text,
    Bytes,
    Boolean,
    Short,
    Integer,
    Long,
    Float,
    Double,
    Uuid,
}

impl Deserializer {
    fn of_class(class: &str) -> Option<Deserializer> {
        Some(match class.trim().strip_prefix(SERIALIZATION)? {
            "StringDeserializer" => Deserializer::Text,
            "BytesDeserializer" => Deserializer::Bytes,
            "BooleanDeserializer" => Deserializer::Boolean,
            "ShortDeserializer" => Deserializer::Short,
            "IntegerDeserializer" => Deserializer::Integer,
            "LongDeserializer" => Deserializer::Long,
            "FloatDeserializer" => Deserializer::Float,
            "DoubleDeserializer" => Deserializer::Double,
            "UUIDDeserializer" => Deserializer::Uuid,
            _ => return None,
        })
    }

    fn text(self, bytes: &[u8]) -> Result<String, Error> {
        fn sized<const N: usize>(bytes: &[u8], name: &str) -> Result<[u8; N], Error> {
            bytes.try_into().map_err(|_| {
                Error::new(
                    "org.apache.kafka.common.errors.SerializationException",
                    format!("Size of data received by {name} is not {N}"),
                )
            })
        }
        Ok(match self {
            Deserializer::Text => String::from_utf8_lossy(bytes).into_owned(),
            Deserializer::Bytes => {
                let shown = |byte: &u8| match byte {
                    b' '..=b'~' if *byte != b'\\' => char::from(*byte).to_string(),
                    _ => format!("\\x{byte:02X}"),
                };
                bytes.iter().map(shown).collect()
            }
            Deserializer::Boolean => match bytes {
                [0] => "false".to_owned(),
                [1] => "true".to_owned(),
                _ => {
                    return Err(Error::new(
                        "org.apache.kafka.common.errors.SerializationException",
                        match bytes.len() {
                            1 => format!("Unexpected byte received by BooleanDeserializer: {}", bytes[0] as i8),
                            _ => "Size of data received by BooleanDeserializer is not 1".to_owned(),
                        },
                    ));
                }
            },
            Deserializer::Short => i16::from_be_bytes(sized(bytes, "ShortDeserializer")?).to_string(),
            Deserializer::Integer => i32::from_be_bytes(sized(bytes, "IntegerDeserializer")?).to_string(),
            Deserializer::Long => i64::from_be_bytes(sized(bytes, "LongDeserializer")?).to_string(),
            Deserializer::Float => f32::from_be_bytes(sized(bytes, "Deserializer")?).to_string(),
            Deserializer::Double => double_text(f64::from_be_bytes(sized(bytes, "Deserializer")?)),
            Deserializer::Uuid => {
                let text = String::from_utf8_lossy(bytes);
                uuid::Uuid::parse_str(&text)
                    .map_err(|_| {
                        Error::new(
                            "org.apache.kafka.common.errors.SerializationException",
                            format!("Error parsing data into UUID: {text}"),
                        )
                    })?
                    .to_string()
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> Consumed {
        Consumed {
            topic: "t".into(),
            partition: 3,
            offset: 7,
            timestamp: (TimestampType::CreateTime, 99),
            key: Some(b"k".to_vec()),
            value: Some(7i32.to_be_bytes().to_vec()),
            headers: vec![("h".to_owned(), Some(b"1".to_vec())), ("i".to_owned(), None)],
        }
    }

    fn print(properties: &[(&str, &str)], record: &Consumed) -> Result<String, Error> {
        let properties = properties.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect();
        let mut out = Vec::new();
        Formatter::of_class(DEFAULT, &properties)?.write(record, &mut out)?;
        Ok(String::from_utf8(out).unwrap())
    }

    #[test]
    fn everything_in_kafkas_order() {
        let all = ["timestamp", "partition", "offset", "delivery", "epoch", "headers", "key"]
            .map(|name| format!("print.{name}"));
        let mut properties: Vec<(&str, &str)> = all.iter().map(|name| (name.as_str(), "true")).collect();
        let integer = format!("{SERIALIZATION}IntegerDeserializer");
        properties.push(("value.deserializer", &integer));
        properties.push(("key.separator", "|"));
        properties.push(("null.literal", "NULL"));
        assert_eq!(
            print(&properties, &record()).unwrap(),
            "CreateTime:99|Partition:3|Offset:7|Delivery:NOT_PRESENT|Epoch:NOT_PRESENT|h:1,i:NULL|k|7\n"
        );
        let bare = Consumed { headers: Vec::new(), key: None, value: None, ..record() };
        assert_eq!(
            print(&[("print.headers", "true"), ("print.key", "true")], &bare).unwrap(),
            "NO_HEADERS\tnull\tnull\n"
        );
        assert_eq!(print(&[("print.value", "false")], &bare).unwrap(), "");
    }

    #[test]
    fn what_does_not_fit_is_told() {
        let long = format!("{SERIALIZATION}LongDeserializer");
        let error = print(&[("value.deserializer", &long)], &record()).unwrap_err();
        assert_eq!(error.message(), "Size of data received by LongDeserializer is not 8");
        assert!(Formatter::of_class("no.Such", &BTreeMap::new()).is_err());
        assert_eq!(Deserializer::Bytes.text(b"a\\\x00").unwrap(), "a\\x5C\\x00");
    }
}
