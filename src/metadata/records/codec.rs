//! The primitives of Kafka's record schemas, and the frame around a record of the metadata log.
//!
//! Schemas have two forms. In flexible versions lengths and counts are unsigned varints of n + 1 (0: null) and every
//! struct ends in a buffer of tagged fields; in older ones a string's length is an int16 (-1: null), an array's and
//! bytes' an int32, and there are no tags. [`Reader`] and [`Writer`] are told which form they are in.
//!
//! Reading never panics and allocates in proportion to the bytes that are there.
//!
//! ```text
//! frame of a metadata record        unsigned varints
//!   frame version   1
//!   record type     number of the record
//!   version         version of the body
//!   body            to the end
//! ```

use std::ops::RangeInclusive;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use bytes::Bytes;
use serde_json::Value;
use uuid::Uuid;

use crate::types::{BrokerId, DirectoryId, LeaderEpoch, PartitionId, TopicId};

/// Why bytes are not the record they should be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    #[error("the record ends too early")]
    Truncated,
    #[error("the record ends too early: {size} bytes should follow, and {left} do")]
    TruncatedBytes { size: usize, left: usize },
    #[error("{count} elements cannot be in the {left} bytes that are left")]
    TooManyElements { count: usize, left: usize },
    /// With what fits in the type.
    #[error("a varint is longer than its type")]
    LongVarint(u32),
    #[error("{field} is null, which it must not be")]
    Null { field: &'static str },
    #[error("a string is not UTF-8")]
    NotUtf8,
    #[error("{0} bytes are left over at the end of the record")]
    LeftOver(usize),
    #[error("a tagged field says {said} bytes and holds {held}")]
    TaggedFieldSize { said: usize, held: usize },
    #[error("frame version {0} is not known, only 1")]
    UnknownFrame(u32),
    #[error("record type {0} is not known")]
    UnknownType(u32),
    #[error("{record} version {version} is not known")]
    UnknownVersion { record: &'static str, version: u32 },
}

/// Why a record cannot be written at a version.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EncodeError {
    #[error("{field} is set, which version {version} cannot say")]
    FieldNotInVersion { field: &'static str, version: i16 },
    #[error("{field} is null, which version {version} cannot say")]
    Null { field: &'static str, version: i16 },
    #[error("{record} has no version {version}")]
    UnknownVersion { record: &'static str, version: i16 },
}

/// What Kafka's tools print of a value.
pub trait ToJson {
    fn to_json(&self, version: i16) -> Value;
}

macro_rules! json_number {
    ($($type:ty)*) => {
        $(impl ToJson for $type {
            fn to_json(&self, _version: i16) -> Value {
                Value::from(*self)
            }
        })*
    };
}

json_number!(bool i8 i16 u16 i32 u32 i64 f64);

macro_rules! json_text {
    ($($type:ty)*) => {
        $(impl ToJson for $type {
            fn to_json(&self, _version: i16) -> Value {
                Value::from(self.to_string())
            }
        })*
    };
}

json_text!(String TopicId DirectoryId);

macro_rules! json_inner {
    ($($type:ty)*) => {
        $(impl ToJson for $type {
            fn to_json(&self, _version: i16) -> Value {
                Value::from(self.0)
            }
        })*
    };
}

json_inner!(BrokerId PartitionId LeaderEpoch);

impl ToJson for Uuid {
    fn to_json(&self, _version: i16) -> Value {
        Value::from(URL_SAFE_NO_PAD.encode(self.as_bytes()))
    }
}

impl ToJson for Bytes {
    fn to_json(&self, _version: i16) -> Value {
        Value::from(STANDARD.encode(self))
    }
}

impl<T: ToJson> ToJson for Vec<T> {
    fn to_json(&self, version: i16) -> Value {
        self.iter().map(|value| value.to_json(version)).collect()
    }
}

impl<T: ToJson> ToJson for Option<T> {
    fn to_json(&self, version: i16) -> Value {
        self.as_ref().map_or(Value::Null, |value| value.to_json(version))
    }
}

/// A record of a schema: where its bytes come from and go to.
pub trait Record: Sized {
    /// Its number (`apiKey` in the schema).
    const TYPE: u32;
    const NAME: &'static str;
    const VERSIONS: RangeInclusive<i16>;
    /// The first flexible version.
    const FLEXIBLE_FROM: i16;

    /// Reads the fields; [`Record::decode`] is what callers want.
    fn read(reader: &mut Reader<'_>, version: i16) -> Result<Self, DecodeError>;

    /// Writes the fields; [`Record::encode`] is what callers want.
    fn write(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError>;

    /// Reads a body that must end where the record does.
    fn decode(body: &[u8], version: i16) -> Result<Self, DecodeError> {
        if !Self::VERSIONS.contains(&version) {
            return Err(DecodeError::UnknownVersion { record: Self::NAME, version: version.max(0) as u32 });
        }
        let mut reader = Reader { bytes: body, flexible: version >= Self::FLEXIBLE_FROM };
        let record = Self::read(&mut reader, version)?;
        match reader.bytes.len() {
            0 => Ok(record),
            left => Err(DecodeError::LeftOver(left)),
        }
    }

    /// Reads a body that may be followed by more, which is ignored: so Kafka reads coordinators' records.
    fn decode_leading(body: &[u8], version: i16) -> Result<Self, DecodeError> {
        if !Self::VERSIONS.contains(&version) {
            return Err(DecodeError::UnknownVersion { record: Self::NAME, version: version.max(0) as u32 });
        }
        Self::read(&mut Reader { bytes: body, flexible: version >= Self::FLEXIBLE_FROM }, version)
    }

    /// Appends the body.
    fn encode(&self, version: i16, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        if !Self::VERSIONS.contains(&version) {
            return Err(EncodeError::UnknownVersion { record: Self::NAME, version });
        }
        let mut writer = Writer { out: std::mem::take(out), flexible: version >= Self::FLEXIBLE_FROM };
        let written = self.write(&mut writer, version);
        *out = writer.out;
        written
    }
}

/// Splits an int16 off the front: the number of a coordinator record's key, the version of its value.
pub fn prefixed(bytes: &[u8]) -> Result<(i16, &[u8]), DecodeError> {
    let (head, rest) = bytes.split_first_chunk().ok_or(DecodeError::Truncated)?;
    Ok((i16::from_be_bytes(*head), rest))
}

/// What a committed offset takes, its key and its value: most have room in it without growing on the way.
const USUAL_LENGTH: usize = 96;

/// A coordinator's record as it stands in the log: the key behind its number, the value behind its version.
pub fn encode_pair<K: Record, V: Record>(
    key: &K,
    value: Option<&V>,
    version: i16,
) -> Result<(Vec<u8>, Option<Vec<u8>>), EncodeError> {
    let beginning_with = |prefix: [u8; 2]| {
        let mut bytes = Vec::with_capacity(USUAL_LENGTH);
        bytes.extend_from_slice(&prefix);
        bytes
    };
    let mut key_bytes = beginning_with((K::TYPE as u16).to_be_bytes());
    key.encode(0, &mut key_bytes)?;
    let value_bytes = value.map(|value| {
        let mut bytes = beginning_with(version.to_be_bytes());
        value.encode(version, &mut bytes).map(|()| bytes)
    });
    Ok((key_bytes, value_bytes.transpose()?))
}

/// Reads primitives off the front of a slice.
pub struct Reader<'a> {
    bytes: &'a [u8],
    flexible: bool,
}

impl<'a> Reader<'a> {
    /// A reader in the flexible form.
    pub fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader { bytes, flexible: true }
    }

    /// A reader in the old form.
    pub fn inflexible(bytes: &'a [u8]) -> Reader<'a> {
        Reader { bytes, flexible: false }
    }

    /// What is not read yet.
    pub fn rest(&self) -> &'a [u8] {
        self.bytes
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8], DecodeError> {
        let left = self.bytes.len();
        let split = self.bytes.split_at_checked(count);
        let (head, tail) = split.ok_or(DecodeError::TruncatedBytes { size: count, left })?;
        self.bytes = tail;
        Ok(head)
    }

    fn fixed<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let (head, tail) = self.bytes.split_first_chunk().ok_or(DecodeError::Truncated)?;
        self.bytes = tail;
        Ok(*head)
    }

    pub fn bool(&mut self) -> Result<bool, DecodeError> {
        Ok(self.i8()? != 0)
    }

    pub fn i8(&mut self) -> Result<i8, DecodeError> {
        Ok(i8::from_be_bytes(self.fixed()?))
    }

    pub fn i16(&mut self) -> Result<i16, DecodeError> {
        Ok(i16::from_be_bytes(self.fixed()?))
    }

    pub fn u16(&mut self) -> Result<u16, DecodeError> {
        Ok(u16::from_be_bytes(self.fixed()?))
    }

    pub fn i32(&mut self) -> Result<i32, DecodeError> {
        Ok(i32::from_be_bytes(self.fixed()?))
    }

    pub fn u32(&mut self) -> Result<u32, DecodeError> {
        Ok(u32::from_be_bytes(self.fixed()?))
    }

    pub fn i64(&mut self) -> Result<i64, DecodeError> {
        Ok(i64::from_be_bytes(self.fixed()?))
    }

    pub fn f64(&mut self) -> Result<f64, DecodeError> {
        Ok(f64::from_be_bytes(self.fixed()?))
    }

    pub fn uuid(&mut self) -> Result<Uuid, DecodeError> {
        Ok(Uuid::from_bytes(self.fixed()?))
    }

    pub fn unsigned_varint(&mut self) -> Result<u32, DecodeError> {
        let mut value = 0u32;
        for shift in (0..28).step_by(7) {
            let byte = self.fixed::<1>()?[0];
            value |= u32::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        // The fifth byte has room for four bits only.
        let byte = self.fixed::<1>()?[0];
        value |= u32::from(byte) << 28;
        if byte > 0x0f { Err(DecodeError::LongVarint(value)) } else { Ok(value) }
    }

    /// A length or count; `short` when the old form has it as an int16.
    fn length(&mut self, short: bool) -> Result<Option<usize>, DecodeError> {
        if self.flexible {
            return Ok((self.unsigned_varint()? as usize).checked_sub(1));
        }
        let length = if short { i32::from(self.i16()?) } else { self.i32()? };
        Ok(usize::try_from(length).ok())
    }

    pub fn nullable_string(&mut self) -> Result<Option<String>, DecodeError> {
        let Some(length) = self.length(true)? else { return Ok(None) };
        let text = std::str::from_utf8(self.take(length)?).map_err(|_| DecodeError::NotUtf8)?;
        Ok(Some(text.to_owned()))
    }

    /// `field` is told if it is null, here and below.
    pub fn string(&mut self, field: &'static str) -> Result<String, DecodeError> {
        self.nullable_string()?.ok_or(DecodeError::Null { field })
    }

    pub fn nullable_bytes(&mut self) -> Result<Option<Bytes>, DecodeError> {
        let Some(length) = self.length(false)? else { return Ok(None) };
        Ok(Some(Bytes::copy_from_slice(self.take(length)?)))
    }

    pub fn bytes(&mut self, field: &'static str) -> Result<Bytes, DecodeError> {
        self.nullable_bytes()?.ok_or(DecodeError::Null { field })
    }

    pub fn nullable_array<T>(
        &mut self,
        mut element: impl FnMut(&mut Reader<'a>) -> Result<T, DecodeError>,
    ) -> Result<Option<Vec<T>>, DecodeError> {
        let Some(count) = self.length(false)? else { return Ok(None) };
        // No element is empty, so a count beyond the bytes left is a lie; and what is reserved is bounded by them.
        if count > self.bytes.len() {
            return Err(DecodeError::TooManyElements { count, left: self.bytes.len() });
        }
        let mut elements = Vec::with_capacity(count.min(self.bytes.len() / size_of::<T>().max(1) + 1));
        for _ in 0..count {
            elements.push(element(self)?);
        }
        Ok(Some(elements))
    }

    pub fn array<T>(
        &mut self,
        field: &'static str,
        element: impl FnMut(&mut Reader<'a>) -> Result<T, DecodeError>,
    ) -> Result<Vec<T>, DecodeError> {
        self.nullable_array(element)?.ok_or(DecodeError::Null { field })
    }

    /// A struct that may be null: a byte says so, negative for null.
    pub fn nullable_struct<T>(
        &mut self,
        read: impl FnOnce(&mut Reader<'a>) -> Result<T, DecodeError>,
    ) -> Result<Option<T>, DecodeError> {
        if self.i8()? < 0 { Ok(None) } else { read(self).map(Some) }
    }

    /// The same as a tagged field: there a varint says so, 0 for null.
    pub fn nullable_tagged_struct<T>(
        &mut self,
        read: impl FnOnce(&mut Reader<'a>) -> Result<T, DecodeError>,
    ) -> Result<Option<T>, DecodeError> {
        if self.unsigned_varint()? == 0 { Ok(None) } else { read(self).map(Some) }
    }

    /// The buffer of tagged fields. `known` reads the field of a tag and says whether it knew it; what it does not
    /// know is skipped.
    pub fn tagged_fields(
        &mut self,
        mut known: impl FnMut(&mut Reader<'a>, u32) -> Result<bool, DecodeError>,
    ) -> Result<(), DecodeError> {
        for _ in 0..self.unsigned_varint()? {
            let tag = self.unsigned_varint()?;
            let size = self.unsigned_varint()? as usize;
            let mut field = Reader { bytes: self.take(size)?, flexible: true };
            if known(&mut field, tag)? && !field.bytes.is_empty() {
                return Err(DecodeError::TaggedFieldSize { said: size, held: size - field.bytes.len() });
            }
        }
        Ok(())
    }
}

/// Appends primitives.
pub struct Writer {
    out: Vec<u8>,
    flexible: bool,
}

/// Tagged fields on their way into a [`Writer`], in ascending order of tags.
pub struct Tags {
    count: u32,
    fields: Writer,
}

impl Writer {
    /// A writer in the flexible form.
    pub fn new() -> Writer {
        Writer { out: Vec::new(), flexible: true }
    }

    pub fn into_bytes(self) -> Vec<u8> {
        self.out
    }

    pub fn bool(&mut self, value: bool) {
        self.out.push(u8::from(value));
    }

    pub fn i8(&mut self, value: i8) {
        self.out.extend_from_slice(&value.to_be_bytes());
    }

    pub fn i16(&mut self, value: i16) {
        self.out.extend_from_slice(&value.to_be_bytes());
    }

    pub fn u16(&mut self, value: u16) {
        self.out.extend_from_slice(&value.to_be_bytes());
    }

    pub fn i32(&mut self, value: i32) {
        self.out.extend_from_slice(&value.to_be_bytes());
    }

    pub fn u32(&mut self, value: u32) {
        self.out.extend_from_slice(&value.to_be_bytes());
    }

    pub fn i64(&mut self, value: i64) {
        self.out.extend_from_slice(&value.to_be_bytes());
    }

    pub fn f64(&mut self, value: f64) {
        self.out.extend_from_slice(&value.to_be_bytes());
    }

    pub fn uuid(&mut self, value: Uuid) {
        self.out.extend_from_slice(value.as_bytes());
    }

    pub fn unsigned_varint(&mut self, mut value: u32) {
        while value >= 0x80 {
            self.out.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.out.push(value as u8);
    }

    fn length(&mut self, length: usize, short: bool) {
        if self.flexible {
            self.unsigned_varint(u32::try_from(length + 1).expect("a field of 4 GiB is never built"));
        } else if short {
            // Names, keys and values that arrive in requests are bounded by the same int16.
            self.i16(i16::try_from(length).expect("a string beyond 32 KiB is never built for the old form"));
        } else {
            self.i32(i32::try_from(length).expect("a field of 2 GiB is never built"));
        }
    }

    pub fn string(&mut self, value: &str) {
        self.length(value.len(), true);
        self.out.extend_from_slice(value.as_bytes());
    }

    pub fn null_string(&mut self) {
        if self.flexible { self.unsigned_varint(0) } else { self.i16(-1) }
    }

    pub fn bytes(&mut self, value: &Bytes) {
        self.length(value.len(), false);
        self.out.extend_from_slice(value);
    }

    pub fn null_bytes(&mut self) {
        if self.flexible { self.unsigned_varint(0) } else { self.i32(-1) }
    }

    pub fn array<T>(
        &mut self,
        values: &[T],
        mut element: impl FnMut(&mut Writer, &T) -> Result<(), EncodeError>,
    ) -> Result<(), EncodeError> {
        self.length(values.len(), false);
        values.iter().try_for_each(|value| element(self, value))
    }

    pub fn null_array(&mut self) {
        if self.flexible { self.unsigned_varint(0) } else { self.i32(-1) }
    }

    pub fn no_tagged_fields(&mut self) {
        self.unsigned_varint(0);
    }

    /// Starts a buffer of tagged fields.
    pub fn tags(&self) -> Tags {
        Tags { count: 0, fields: Writer::new() }
    }

    pub fn tagged_fields(&mut self, tags: Tags) {
        self.unsigned_varint(tags.count);
        self.out.extend_from_slice(&tags.fields.out);
    }
}

impl Default for Writer {
    fn default() -> Self {
        Writer::new()
    }
}

impl Tags {
    pub fn field(
        &mut self,
        tag: u32,
        write: impl FnOnce(&mut Writer) -> Result<(), EncodeError>,
    ) -> Result<(), EncodeError> {
        let mut field = Writer::new();
        write(&mut field)?;
        self.count += 1;
        self.fields.unsigned_varint(tag);
        self.fields.unsigned_varint(field.out.len() as u32);
        self.fields.out.extend_from_slice(&field.out);
        Ok(())
    }
}

/// Values at random, for tests of generated codecs.
#[cfg(test)]
pub mod sample {
    use rand::RngExt as _;
    use rand::rngs::StdRng;

    use super::*;

    pub trait Sample: Sized {
        /// A value that a version can say.
        fn sample(random: &mut StdRng, version: i16) -> Self;
    }

    macro_rules! sample_random {
        ($($type:ty)*) => {
            $(impl Sample for $type {
                fn sample(random: &mut StdRng, _version: i16) -> $type {
                    random.random()
                }
            })*
        };
    }

    sample_random!(bool i8 i16 u16 i32 u32 i64 f64);

    macro_rules! sample_inner {
        ($($type:ident)*) => {
            $(impl Sample for $type {
                fn sample(random: &mut StdRng, version: i16) -> $type {
                    $type(Sample::sample(random, version))
                }
            })*
        };
    }

    sample_inner!(BrokerId PartitionId LeaderEpoch TopicId DirectoryId);

    impl Sample for Uuid {
        fn sample(random: &mut StdRng, _version: i16) -> Uuid {
            Uuid::from_u128(random.random())
        }
    }

    impl Sample for String {
        fn sample(random: &mut StdRng, _version: i16) -> String {
            (0..random.random_range(0..200)).map(|_| random.random_range('a'..'\u{3ff}')).collect()
        }
    }

    impl Sample for Bytes {
        fn sample(random: &mut StdRng, _version: i16) -> Bytes {
            (0..random.random_range(0..200)).map(|_| random.random::<u8>()).collect()
        }
    }

    impl<T: Sample> Sample for Vec<T> {
        fn sample(random: &mut StdRng, version: i16) -> Vec<T> {
            (0..random.random_range(0..4)).map(|_| T::sample(random, version)).collect()
        }
    }

    impl<T: Sample> Sample for Option<T> {
        fn sample(random: &mut StdRng, version: i16) -> Option<T> {
            random.random::<bool>().then(|| T::sample(random, version))
        }
    }
}
