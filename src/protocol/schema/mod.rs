//! A first walk over a request's body by Kafka's own schema, before the `kafka-protocol` crate makes structs of it.
//!
//! The crate allocates for whatever count it reads, and is at some places stricter and at others laxer than Kafka. So
//! nothing reaches it unless every byte has been walked over here: every count is then known to be true. What Kafka
//! reads and the crate would not, or not the same way, is written anew in the one form that both read alike:
//!
//! | bytes | Kafka reads | here |
//! |---|---|---|
//! | a count or length below -1, where null is allowed | null | -1, or compact 0 |
//! | text that is not UTF-8 | U+FFFD for each bad sequence | that |
//! | a nullable struct whose marker is neither 1 nor negative | a struct | marker 1 |
//! | unknown tagged fields | skipped | left out |
//! | a negative number of tagged fields | none | 0 |
//!
//! Such bytes are rare; all others are passed on as they are, without a copy.

mod requests;

use std::ops::Range;

use bytes::Bytes;

use super::versions::ApiKey;
use super::wire::{DecodeError, MAX_ENTRIES, MAX_STRING_LENGTH, replace_malformed};

pub use requests::REQUESTS;

/// The layout of a request.
#[derive(Debug)]
pub struct RequestSchema {
    pub api_key: ApiKey,
    pub fields: &'static [Field],
}

/// A field of a struct.
#[derive(Debug)]
pub struct Field {
    pub name: &'static str,
    pub kind: Kind,
    /// Versions that have the field.
    pub versions: Versions,
    /// Versions in which it may be null.
    pub nullable: Versions,
    /// Its tag, and the versions in which it is tagged instead of standing in its place.
    pub tag: Option<(u32, Versions)>,
}

/// What a field is made of.
#[derive(Debug)]
pub enum Kind {
    /// So many bytes: numbers, booleans and ids.
    Fixed(usize),
    String,
    Bytes,
    Array(&'static Kind),
    Struct(&'static [Field]),
}

/// A range of versions, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Versions {
    pub first: i16,
    pub last: i16,
}

impl Versions {
    pub const fn contains(self, version: i16) -> bool {
        self.first <= version && version <= self.last
    }
}

const ALWAYS: Versions = since(0);
const NEVER: Versions = between(0, -1);

const fn since(first: i16) -> Versions {
    between(first, i16::MAX)
}

const fn between(first: i16, last: i16) -> Versions {
    Versions { first, last }
}

const fn request(api_key: ApiKey, fields: &'static [Field]) -> RequestSchema {
    RequestSchema { api_key, fields }
}

const fn field(name: &'static str, kind: Kind, versions: Versions) -> Field {
    Field { name, kind, versions, nullable: NEVER, tag: None }
}

impl Field {
    const fn nullable(mut self, versions: Versions) -> Field {
        self.nullable = versions;
        self
    }

    const fn tagged(mut self, tag: u32, versions: Versions) -> Field {
        self.tag = Some((tag, versions));
        self
    }

    fn stands_in_place(&self, version: i16) -> bool {
        self.versions.contains(version) && !self.tag.is_some_and(|(_, versions)| versions.contains(version))
    }
}

/// Takes a request's body off the front of `body`, in the form that the crate reads as Kafka reads what the client
/// sent. Bytes left over stay in `body`.
pub fn take_body(api_key: ApiKey, version: i16, body: &mut Bytes) -> Result<Bytes, DecodeError> {
    let schema = REQUESTS
        .binary_search_by_key(&api_key, |schema| schema.api_key)
        .map(|index| &REQUESTS[index])
        .map_err(|_| DecodeError::Version { version })?;
    let mut walk = Walk {
        bytes: body,
        position: 0,
        version,
        flexible: api_key.is_flexible(version),
        entries_left: MAX_ENTRIES,
        rewrites: Vec::new(),
    };
    walk.fields(schema.fields)?;
    let Walk { position, rewrites, .. } = walk;
    let taken = body.split_to(position);
    Ok(if rewrites.is_empty() { taken } else { rewrite(&taken, rewrites) })
}

/// Other bytes for some of the body's.
#[derive(Debug)]
struct Rewrite {
    range: Range<usize>,
    bytes: Vec<u8>,
}

fn rewrite(body: &[u8], mut rewrites: Vec<Rewrite>) -> Bytes {
    rewrites.sort_by_key(|rewrite| rewrite.range.start);
    let mut bytes = Vec::with_capacity(body.len());
    let mut copied = 0;
    for rewrite in &rewrites {
        bytes.extend_from_slice(&body[copied..rewrite.range.start]);
        bytes.extend_from_slice(&rewrite.bytes);
        copied = rewrite.range.end;
    }
    bytes.extend_from_slice(&body[copied..]);
    bytes.into()
}

/// How a length is written in messages that are not flexible.
#[derive(Clone, Copy)]
enum Width {
    Two,
    Four,
}

#[derive(Debug)]
struct Walk<'a> {
    bytes: &'a [u8],
    position: usize,
    version: i16,
    flexible: bool,
    /// Of [`MAX_ENTRIES`]
    entries_left: usize,
    rewrites: Vec<Rewrite>,
}

impl Walk<'_> {
    fn fields(&mut self, fields: &'static [Field]) -> Result<(), DecodeError> {
        let version = self.version;
        for field in fields.iter().filter(|field| field.stands_in_place(version)) {
            self.value(field.name, &field.kind, field.nullable.contains(version))?;
        }
        if self.flexible { self.tagged_fields(fields) } else { Ok(()) }
    }

    fn value(&mut self, name: &'static str, kind: &'static Kind, nullable: bool) -> Result<(), DecodeError> {
        match kind {
            Kind::Fixed(length) => self.skip(*length),
            Kind::String => self.string(name, nullable),
            Kind::Bytes => match self.length(name, Width::Four, nullable)? {
                Some(length) => self.skip(length),
                None => Ok(()),
            },
            Kind::Array(entry) => match self.length(name, Width::Four, nullable)? {
                Some(count) => self.entries(name, entry, count),
                None => Ok(()),
            },
            Kind::Struct(fields) if nullable => self.nullable_struct(fields),
            Kind::Struct(fields) => self.fields(fields),
        }
    }

    fn entries(&mut self, name: &'static str, kind: &'static Kind, count: usize) -> Result<(), DecodeError> {
        if count > self.remaining() {
            return Err(DecodeError::Count { field: name, count });
        }
        self.spend_entries(count)?;
        match kind {
            Kind::Fixed(length) => self.skip(count * length),
            Kind::String | Kind::Bytes | Kind::Array(_) | Kind::Struct(_) => {
                (0..count).try_for_each(|_| self.value(name, kind, false))
            }
        }
    }

    fn string(&mut self, name: &'static str, nullable: bool) -> Result<(), DecodeError> {
        let start = self.position;
        let Some(length) = self.length(name, Width::Two, nullable)? else { return Ok(()) };
        if length > MAX_STRING_LENGTH {
            return Err(DecodeError::StringLength { field: name, length });
        }
        let text_start = self.position;
        self.skip(length)?;
        let bytes = self.bytes;
        let text = &bytes[text_start..self.position];
        if std::str::from_utf8(text).is_err() {
            let text = replace_malformed(text);
            // Replaced text may be thrice as long, more than a classic length can say.
            let text = &text[..text.floor_char_boundary(MAX_STRING_LENGTH)];
            let mut bytes = if self.flexible {
                unsigned_varint(text.len() as u32 + 1)
            } else {
                (text.len() as i16).to_be_bytes().to_vec()
            };
            bytes.extend_from_slice(text.as_bytes());
            self.rewrite(start, bytes);
        }
        Ok(())
    }

    /// A length or count; `None` is a null.
    fn length(&mut self, name: &'static str, width: Width, nullable: bool) -> Result<Option<usize>, DecodeError> {
        let start = self.position;
        let (length, null): (i32, &[u8]) = match width {
            _ if self.flexible => (self.unsigned_varint()?.wrapping_sub(1) as i32, &[0]),
            Width::Two => (i32::from(i16::from_be_bytes(self.array()?)), &[0xff; 2]),
            Width::Four => (i32::from_be_bytes(self.array()?), &[0xff; 4]),
        };
        match usize::try_from(length) {
            Ok(length) => Ok(Some(length)),
            Err(_) if !nullable => Err(DecodeError::Null { field: name }),
            Err(_) => {
                if length != -1 {
                    self.rewrite(start, null.to_vec());
                }
                Ok(None)
            }
        }
    }

    fn nullable_struct(&mut self, fields: &'static [Field]) -> Result<(), DecodeError> {
        let start = self.position;
        let [marker] = self.array()?;
        if (marker as i8) < 0 {
            return Ok(());
        }
        if marker != 1 {
            self.rewrite(start, vec![1]);
        }
        self.fields(fields)
    }

    fn tagged_fields(&mut self, fields: &'static [Field]) -> Result<(), DecodeError> {
        let start = self.position;
        let count = self.unsigned_varint()? as i32;
        let count_range = start..self.position;
        let mut kept = 0;
        for _ in 0..count {
            self.spend_entries(1)?;
            let start = self.position;
            let tag = self.unsigned_varint()?;
            let length = self.unsigned_varint()? as usize;
            let known = fields.iter().find_map(|field| match field.tag {
                Some((own, versions)) if own == tag => Some((field, versions)),
                _ => None,
            });
            match known {
                // The announced length counts for nothing here, as in Kafka and in the crate.
                Some((field, versions)) if versions.contains(self.version) => {
                    self.value(field.name, &field.kind, field.nullable.contains(self.version))?;
                    kept += 1;
                }
                Some(_) => return Err(DecodeError::Tag { tag }),
                None => {
                    self.skip(length)?;
                    self.rewrite(start, Vec::new());
                }
            }
        }
        if kept != count {
            self.rewrites.push(Rewrite { range: count_range, bytes: unsigned_varint(kept as u32) });
        }
        Ok(())
    }

    fn spend_entries(&mut self, count: usize) -> Result<(), DecodeError> {
        self.entries_left = self.entries_left.checked_sub(count).ok_or(DecodeError::Entries { limit: MAX_ENTRIES })?;
        Ok(())
    }

    fn remaining(&self) -> usize {
        self.bytes.len() - self.position
    }

    fn skip(&mut self, length: usize) -> Result<(), DecodeError> {
        match length.checked_sub(self.remaining()) {
            None | Some(0) => {
                self.position += length;
                Ok(())
            }
            Some(needed) => Err(DecodeError::Truncated { needed }),
        }
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let rest = &self.bytes[self.position..];
        let array = rest.first_chunk().ok_or_else(|| DecodeError::Truncated { needed: N - rest.len() })?;
        self.position += N;
        Ok(*array)
    }

    fn unsigned_varint(&mut self) -> Result<u32, DecodeError> {
        let mut value = 0;
        for shift in [0, 7, 14, 21, 28] {
            let [byte] = self.array()?;
            value |= u32::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(DecodeError::Varint)
    }

    /// Puts `bytes` in the place of what was read since `start`.
    fn rewrite(&mut self, start: usize, bytes: Vec<u8>) {
        self.rewrites.push(Rewrite { range: start..self.position, bytes });
    }
}

fn unsigned_varint(mut value: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
    bytes
}

#[cfg(test)]
mod tests;
