//! Records of the coordinators' topics as JSON.

use bytes::Bytes;
use serde_json::{Value, json};

use crate::cli::dump_log::decoder::Contents;
use crate::cli::dump_log::json;
use crate::coordinator::group::records::GroupRecord;
use crate::coordinator::share::records::ShareRecord;
use crate::coordinator::transaction::records::TransactionRecord;
use crate::metadata::records::DecodeError;
use crate::metadata::records::codec::{Reader, ToJson as _};

/// Whose records they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Family {
    Group,
    Transaction,
    Share,
}

/// `protocolType` of consumers.
const CONSUMER_PROTOCOL: &str = "consumer";

pub(super) fn decode(family: Family, offset: i64, key: &[u8], value: Option<Bytes>) -> Contents {
    let is_tombstone = value.is_none();
    match decode_json(family, key, value.as_deref()) {
        Ok((number, key, value)) => Contents {
            key: Some(json::text(&json!({"type": number.to_string(), "data": key}))),
            value: match value {
                Some((version, value)) => Some(json::text(&json!({"version": version.to_string(), "data": value}))),
                None => is_tombstone.then(|| "<DELETE>".to_owned()),
            },
        },
        Err(error) => {
            let text = fault(family, offset, key, value.as_deref(), &error);
            Contents { key: Some(text), value: None }
        }
    }
}

/// What is said instead of a record that cannot be read.
fn fault(family: Family, offset: i64, key: &[u8], value: Option<&[u8]>, error: &DecodeError) -> String {
    let number = |bytes: &[u8]| bytes.first_chunk().map(|number| i16::from_be_bytes(*number));
    let unreadable = |version: i16, part: &str, error: &DecodeError| {
        format!("Could not read record with version {version} from {part}'s buffer due to: {}.", reason(error))
    };
    let version_missing = |part: &str| format!("Could not read version from {part}'s buffer.");
    let reason = match (number(key), decode_json(family, key, None)) {
        (None, _) => version_missing("key"),
        (Some(kind), Err(DecodeError::UnknownType(_))) => {
            return format!("Unknown record type {kind} at offset {offset}, skipping.");
        }
        (Some(kind), Err(error)) => unreadable(kind, "key", &error),
        // So it is the value.
        (Some(kind), Ok(_)) => match (number(value.unwrap_or_default()), error) {
            (None, _) => version_missing("value"),
            (Some(version), DecodeError::UnknownVersion { .. }) => {
                format!("Found an unknown record version {version} for {kind} type")
            }
            (Some(version), error) => unreadable(version, "value", error),
        },
    };
    format!("Error at offset {offset}, skipping. {reason}")
}

/// Why bytes are no record, in the words of Kafka's exceptions; where a number ends too early, theirs has none.
fn reason(error: &DecodeError) -> String {
    match error {
        DecodeError::Truncated => "null".to_owned(),
        DecodeError::TruncatedBytes { size, left } => {
            format!("Error reading byte array of {size} byte(s): only {left} byte(s) available")
        }
        DecodeError::TooManyElements { count, left } => {
            format!("Tried to allocate a collection of size {count}, but there are only {left} bytes remaining.")
        }
        DecodeError::LongVarint(value) => {
            format!("Varint is too long, the most significant bit in the 5th byte is set, converted value: {value:x}")
        }
        DecodeError::Null { field } => format!("non-nullable field {field} was serialized as null"),
        error => error.to_string(),
    }
}

/// The number of the kind of record, the key, and the value with its version.
type Decoded = (i16, Value, Option<(i16, Value)>);

fn decode_json(family: Family, key: &[u8], value: Option<&[u8]>) -> Result<Decoded, DecodeError> {
    let ((key_json, value_json), version) = match family {
        Family::Group => {
            let (record, version) = GroupRecord::decode(key, value)?;
            let (key, mut value) = record.to_json(version);
            if let (GroupRecord::GroupMetadata(..), Some(value)) = (&record, &mut value) {
                open_consumer_protocol(value);
            }
            ((key, value), version)
        }
        Family::Transaction => {
            let (record, version) = TransactionRecord::decode(key, value)?;
            (record.to_json(version), version)
        }
        Family::Share => {
            let (record, version) = ShareRecord::decode(key, value)?;
            (record.to_json(version), version)
        }
    };
    let number = i16::from_be_bytes(*key.first_chunk().ok_or(DecodeError::Truncated)?);
    Ok((number, key_json, value_json.map(|value| (version, value))))
}

/// In a group of consumers, what members subscribe to and what they are assigned is known: shows it instead of its
/// bytes. Bytes that are none of that stay.
fn open_consumer_protocol(group: &mut Value) {
    if group["protocolType"] != CONSUMER_PROTOCOL {
        return;
    }
    let Some(members) = group.get_mut("members").and_then(Value::as_array_mut) else {
        return;
    };
    for member in members {
        for (field, decode) in [("subscription", subscription as fn(&[u8]) -> _), ("assignment", assignment)] {
            let bytes = member.get(field).and_then(Value::as_str).and_then(|text| {
                use base64::Engine as _;
                base64::engine::general_purpose::STANDARD.decode(text).ok()
            });
            if let Some(Ok(decoded)) = bytes.map(|bytes| decode(&bytes)) {
                member[field] = decoded;
            }
        }
    }
}

/// `ConsumerProtocolSubscription`, behind its version.
fn subscription(bytes: &[u8]) -> Result<Value, DecodeError> {
    let mut reader = Reader::inflexible(bytes);
    let version = known(reader.i16()?)?;
    let mut value = json!({
        "topics": reader.array("topics", |reader| reader.string("topics element"))?,
        "userData": reader.nullable_bytes()?.to_json(version),
    });
    if version >= 1 {
        value["ownedPartitions"] = reader.array("ownedPartitions", topic_partitions)?.into();
    }
    if version >= 2 {
        value["generationId"] = reader.i32()?.into();
    }
    if version >= 3 {
        value["rackId"] = reader.nullable_string()?.into();
    }
    Ok(value)
}

/// `ConsumerProtocolAssignment`, behind its version.
fn assignment(bytes: &[u8]) -> Result<Value, DecodeError> {
    let mut reader = Reader::inflexible(bytes);
    let version = known(reader.i16()?)?;
    Ok(json!({
        "assignedPartitions": reader.array("assignedPartitions", topic_partitions)?,
        "userData": reader.nullable_bytes()?.to_json(version),
    }))
}

fn topic_partitions(reader: &mut Reader<'_>) -> Result<Value, DecodeError> {
    Ok(json!({"topic": reader.string("topic")?, "partitions": reader.array("partitions", Reader::i32)?}))
}

/// There are versions 0 to 3.
fn known(version: i16) -> Result<i16, DecodeError> {
    match version {
        0..=3 => Ok(version),
        _ => Err(DecodeError::UnknownVersion { record: "ConsumerProtocol", version: version.max(0) as u32 }),
    }
}
