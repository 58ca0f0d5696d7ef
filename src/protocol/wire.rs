//! The primitive types of the wire (integers, strings, arrays, tagged fields), read from a frame without copying and
//! written to a buffer.
//!
//! The hand-written codecs ([`super::header`], [`super::produce`], [`super::fetch`] and others) are made of these. Reading checks
//! everything against the bytes that are there and allocates nothing by a count that the peer made up. What is
//! accepted is what Kafka accepts: any negative length is a null, any byte but 0 is true, text that is not UTF-8 gets
//! replacement characters.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use kafka_protocol::protocol::StrBytes;
use thiserror::Error;
use uuid::Uuid;

/// Why a message could not be read. The connection it came from is closed, as Kafka does.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum DecodeError {
    #[error("the message ends where {needed} more bytes are needed")]
    Truncated { needed: usize },
    #[error("a varint is longer than 5 bytes")]
    Varint,
    #[error("{field} is null")]
    Null { field: &'static str },
    #[error("{field} counts {count} entries, more than the bytes left can hold")]
    Count { field: &'static str, count: usize },
    #[error("the message has more than {limit} entries and tagged fields")]
    Entries { limit: usize },
    #[error("{field} is text of {length} bytes, more than a string may have")]
    StringLength { field: &'static str, length: usize },
    #[error("tagged field {tag} does not belong to this version")]
    Tag { tag: u32 },
    #[error("version {version} has no schema")]
    Version { version: i16 },
    /// The message did not fit its schema; the text is the codec's.
    #[error("{0}")]
    Malformed(String),
}

/// A result of reading.
pub type Result<T> = std::result::Result<T, DecodeError>;

/// The longest string, in bytes. Compact lengths could say more, but Kafka takes no more there either.
pub const MAX_STRING_LENGTH: usize = i16::MAX as usize;

/// Entries of arrays and tagged fields that all of a request may have. An entry of two bytes becomes a struct of a
/// hundred, and more in the answer; so it is this that bounds what a request costs, not its length. The largest clusters
/// have fewer partitions.
pub const MAX_ENTRIES: usize = 1 << 20;

/// Reads a message from the front to the back; the bytes read leave `bytes`.
#[derive(Debug)]
pub struct Reader<'a> {
    bytes: &'a mut Bytes,
    flexible: bool,
    /// Array entries that may still come.
    entries_left: usize,
}

impl<'a> Reader<'a> {
    /// A reader of a message whose version is flexible (KIP-482) or not.
    pub fn new(bytes: &'a mut Bytes, flexible: bool) -> Reader<'a> {
        Reader { bytes, flexible, entries_left: usize::MAX }
    }

    /// Refuses messages whose arrays have more than [`MAX_ENTRIES`] entries in all.
    pub fn with_bounded_entries(self) -> Reader<'a> {
        Reader { entries_left: MAX_ENTRIES, ..self }
    }

    /// Bytes not read yet.
    pub fn remaining(&self) -> usize {
        self.bytes.len()
    }

    fn need(&self, needed: usize) -> Result<()> {
        match self.bytes.len().checked_sub(needed) {
            Some(_) => Ok(()),
            None => Err(DecodeError::Truncated { needed: needed - self.bytes.len() }),
        }
    }

    pub fn u8(&mut self) -> Result<u8> {
        self.need(1)?;
        Ok(self.bytes.get_u8())
    }

    pub fn i8(&mut self) -> Result<i8> {
        self.need(1)?;
        Ok(self.bytes.get_i8())
    }

    pub fn i16(&mut self) -> Result<i16> {
        self.need(2)?;
        Ok(self.bytes.get_i16())
    }

    pub fn i32(&mut self) -> Result<i32> {
        self.need(4)?;
        Ok(self.bytes.get_i32())
    }

    pub fn i64(&mut self) -> Result<i64> {
        self.need(8)?;
        Ok(self.bytes.get_i64())
    }

    pub fn uuid(&mut self) -> Result<Uuid> {
        self.need(16)?;
        let mut id = [0; 16];
        self.bytes.copy_to_slice(&mut id);
        Ok(Uuid::from_bytes(id))
    }

    pub fn unsigned_varint(&mut self) -> Result<u32> {
        let mut value = 0;
        for shift in [0, 7, 14, 21, 28] {
            let byte = self.u8()?;
            value |= u32::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(DecodeError::Varint)
    }

    /// The next `length` bytes, sharing the frame's memory.
    pub fn take(&mut self, length: usize) -> Result<Bytes> {
        self.need(length)?;
        Ok(self.bytes.split_to(length))
    }

    /// A length: negative is a null. Flexible messages write it plus one as a varint, others as `width` bytes say.
    fn length(&mut self, narrow: bool) -> Result<Option<usize>> {
        let length = if self.flexible {
            self.unsigned_varint()?.wrapping_sub(1) as i32
        } else if narrow {
            i32::from(self.i16()?)
        } else {
            self.i32()?
        };
        Ok(usize::try_from(length).ok())
    }

    pub fn nullable_string(&mut self, field: &'static str) -> Result<Option<StrBytes>> {
        match self.length(true)? {
            Some(length) if length > MAX_STRING_LENGTH => Err(DecodeError::StringLength { field, length }),
            Some(length) => Ok(Some(text(self.take(length)?))),
            None => Ok(None),
        }
    }

    pub fn string(&mut self, field: &'static str) -> Result<StrBytes> {
        self.nullable_string(field)?.ok_or(DecodeError::Null { field })
    }

    pub fn nullable_bytes(&mut self) -> Result<Option<Bytes>> {
        match self.length(false)? {
            Some(length) => Ok(Some(self.take(length)?)),
            None => Ok(None),
        }
    }

    /// The count of an array whose entries take `entry_size` bytes or more each; bounded by what the frame can hold,
    /// so that it may be allocated for.
    pub fn count(&mut self, field: &'static str, entry_size: usize) -> Result<usize> {
        self.nullable_count(field, entry_size)?.ok_or(DecodeError::Null { field })
    }

    /// The count of an array that may be null, see [`Self::count`].
    pub fn nullable_count(&mut self, field: &'static str, entry_size: usize) -> Result<Option<usize>> {
        let Some(count) = self.length(false)? else { return Ok(None) };
        if count > self.remaining() / entry_size {
            return Err(DecodeError::Count { field, count });
        }
        self.entries_left = self.entries_left.checked_sub(count).ok_or(DecodeError::Entries { limit: MAX_ENTRIES })?;
        Ok(Some(count))
    }

    /// Passes over the tagged fields that end a struct. `known` is called with each tag and reads the value if it
    /// knows the tag, which it says by `true`. Messages that are not flexible have none.
    ///
    /// As in Kafka, the length announced counts for unknown tags only, and the last of several equal tags wins.
    pub fn tagged_fields(&mut self, mut known: impl FnMut(u32, &mut Reader<'_>) -> Result<bool>) -> Result<()> {
        if !self.flexible {
            return Ok(());
        }
        // A negative number of them is none, as in Kafka.
        let count = self.unsigned_varint()? as i32;
        for _ in 0..count {
            let tag = self.unsigned_varint()?;
            let length = self.unsigned_varint()? as usize;
            if !known(tag, self)? {
                self.take(length)?;
            }
        }
        Ok(())
    }

    /// Passes over tagged fields none of which is known.
    pub fn unknown_tagged_fields(&mut self) -> Result<()> {
        self.tagged_fields(|_, _| Ok(false))
    }
}

/// Text of a client; what is not UTF-8 in it is replaced.
pub fn text(bytes: Bytes) -> StrBytes {
    match StrBytes::from_utf8(bytes.clone()) {
        Ok(text) => text,
        Err(_) => StrBytes::from_string(replace_malformed(&bytes)),
    }
}

/// Reads bytes as Java reads UTF-8: U+FFFD stands for each piece that is none. That is what Rust does, but for an encoded
/// surrogate, which is one piece and not three.
pub(super) fn replace_malformed(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    // Of the surrogate that began just before.
    let mut bytes_to_come = 0;
    for chunk in bytes.utf8_chunks() {
        if !chunk.valid().is_empty() {
            bytes_to_come = 0;
        }
        text.push_str(chunk.valid());
        match chunk.invalid() {
            [] => {}
            [0x80..=0xbf] if bytes_to_come > 0 => bytes_to_come -= 1,
            invalid => {
                text.push(char::REPLACEMENT_CHARACTER);
                bytes_to_come = if invalid == [0xed] { 2 } else { 0 };
            }
        }
    }
    text
}

/// Writes a message from the front to the back.
///
/// Lengths are the broker's own and fit by construction: a frame is bounded by an `i32`, and text longer than a string
/// may be is cut (see [`Writer::nullable_string`]).
#[derive(Debug)]
pub struct Writer {
    pub bytes: BytesMut,
    flexible: bool,
}

impl Writer {
    /// A writer of a message whose version is flexible (KIP-482) or not, onto what `bytes` holds already.
    pub fn new(bytes: BytesMut, flexible: bool) -> Writer {
        Writer { bytes, flexible }
    }

    pub fn i8(&mut self, value: i8) {
        self.bytes.put_i8(value);
    }

    pub fn i16(&mut self, value: i16) {
        self.bytes.put_i16(value);
    }

    pub fn i32(&mut self, value: i32) {
        self.bytes.put_i32(value);
    }

    pub fn i64(&mut self, value: i64) {
        self.bytes.put_i64(value);
    }

    pub fn uuid(&mut self, value: Uuid) {
        self.bytes.put_slice(value.as_bytes());
    }

    pub fn unsigned_varint(&mut self, mut value: u32) {
        while value >= 0x80 {
            self.bytes.put_u8(value as u8 | 0x80);
            value >>= 7;
        }
        self.bytes.put_u8(value as u8);
    }

    /// The length of an array or of bytes; `None` is a null.
    pub fn length(&mut self, length: Option<usize>) {
        if self.flexible {
            self.unsigned_varint(length.map_or(0, |length| length as u32 + 1));
        } else {
            self.i32(length.map_or(-1, |length| length as i32));
        }
    }

    pub fn bool(&mut self, value: bool) {
        self.bytes.put_u8(value.into());
    }

    /// Text. What is longer than a string can be is cut there, at a character: half a message serves a person better
    /// than a closed connection.
    pub fn nullable_string(&mut self, value: Option<&str>) {
        let text = value.map(|text| &text[..text.floor_char_boundary(MAX_STRING_LENGTH)]);
        if self.flexible {
            self.length(text.map(str::len));
        } else {
            self.i16(text.map_or(-1, |text| text.len() as i16));
        }
        self.bytes.put_slice(text.unwrap_or_default().as_bytes());
    }

    pub fn string(&mut self, value: &str) {
        self.nullable_string(Some(value));
    }

    /// Ends a struct that has no tagged field to tell.
    pub fn no_tagged_fields(&mut self) {
        if self.flexible {
            self.bytes.put_u8(0);
        }
    }

    /// A tagged field: its tag, then the length of what `value` writes, then that.
    pub fn tagged_field(&mut self, tag: u32, value: impl FnOnce(&mut Writer)) {
        let mut inner = Writer::new(BytesMut::new(), self.flexible);
        value(&mut inner);
        self.unsigned_varint(tag);
        self.unsigned_varint(inner.bytes.len() as u32);
        self.bytes.put_slice(&inner.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn malformed_text_is_replaced_as_java_does() {
        let cases: [(&[u8], &str); 9] = [
            (b"a\x80b", "a\u{fffd}b"),
            (b"\xc0\xaf", "\u{fffd}\u{fffd}"),
            (b"\xed\xa0\x80", "\u{fffd}"),
            (b"\xed\xa0\x80\xed\xb0\x80\x80", "\u{fffd}\u{fffd}\u{fffd}"),
            (b"\xed\xa0x\x80", "\u{fffd}x\u{fffd}"),
            (b"\xed\xa0\xc3", "\u{fffd}\u{fffd}"),
            (b"\xed\x9f\xbf\xed\x9f", "\u{d7ff}\u{fffd}"),
            (b"\xf5\x80\x80\x80", "\u{fffd}\u{fffd}\u{fffd}\u{fffd}"),
            (b"\xf0\x9f\x98x", "\u{fffd}x"),
        ];
        for (bytes, text) in cases {
            assert_eq!(replace_malformed(bytes), text, "{bytes:x?}");
        }
    }
}
