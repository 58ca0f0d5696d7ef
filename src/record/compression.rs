//! The compression codecs of record batches, in the dialects that Kafka's clients write and read.
//!
//! Decompression takes untrusted bytes and is bounded: [`Decompressor`] hands out one piece after the other and never
//! holds more than a block (snappy, lz4) or a window (gzip, zstd) of them, [`decompress`] collects them up to a limit.
//! What is accepted follows the Java libraries that Kafka uses, so that both brokers refuse the same batches.

mod gzip;
mod lz4;
mod snappy;
mod zstd;

use std::fmt;

use bytes::Bytes;

/// How the records section of a batch is compressed: bits 0..2 of its attributes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Codec {
    #[default]
    None,
    Gzip,
    Snappy,
    Lz4,
    Zstd,
}

/// A codec number that Kafka has not given out (5, 6 and 7).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("Unknown compression type id: {0}")]
pub struct UnknownCodec(pub u8);

impl Codec {
    pub const ALL: [Codec; 5] = [Codec::None, Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd];

    /// The codec of a batch's attribute bits.
    pub fn from_id(id: u8) -> Result<Codec, UnknownCodec> {
        match id {
            0 => Ok(Codec::None),
            1 => Ok(Codec::Gzip),
            2 => Ok(Codec::Snappy),
            3 => Ok(Codec::Lz4),
            4 => Ok(Codec::Zstd),
            _ => Err(UnknownCodec(id)),
        }
    }

    /// The number in a batch's attributes.
    pub fn id(self) -> u8 {
        match self {
            Codec::None => 0,
            Codec::Gzip => 1,
            Codec::Snappy => 2,
            Codec::Lz4 => 3,
            Codec::Zstd => 4,
        }
    }

    /// The name as settings and tools write it.
    pub fn name(self) -> &'static str {
        match self {
            Codec::None => "none",
            Codec::Gzip => "gzip",
            Codec::Snappy => "snappy",
            Codec::Lz4 => "lz4",
            Codec::Zstd => "zstd",
        }
    }

    /// The level that `compression.gzip.level` and its like default to; 0 where there are no levels.
    pub fn default_level(self) -> i32 {
        match self {
            Codec::None | Codec::Snappy => 0,
            Codec::Gzip => -1,
            Codec::Lz4 => 9,
            Codec::Zstd => 3,
        }
    }
}

impl fmt::Display for Codec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Why bytes could not be decompressed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CompressionError {
    #[error("{codec} data is corrupt: {reason}")]
    Corrupt { codec: Codec, reason: String },
    #[error("compressed data holds more than {limit} bytes")]
    TooLarge { limit: u64 },
}

impl CompressionError {
    fn corrupt(codec: Codec, reason: impl fmt::Display) -> CompressionError {
        CompressionError::Corrupt { codec, reason: reason.to_string() }
    }
}

/// Decompresses piece by piece, in memory that does not depend on how much comes out.
pub struct Decompressor<'a> {
    inner: Inner<'a>,
    produced: u64,
    limit: u64,
}

#[expect(clippy::large_enum_variant, reason = "one stands on the stack while a batch is read")]
enum Inner<'a> {
    None { rest: &'a [u8] },
    Gzip(gzip::Decoder<'a>),
    Snappy(snappy::Decoder<'a>),
    Lz4(lz4::Decoder<'a>),
    Zstd(zstd::Decoder<'a>),
}

impl<'a> Decompressor<'a> {
    /// Starts on `input`, which is all of the compressed data. What comes out in total may not exceed `limit`.
    pub fn new(codec: Codec, input: &'a [u8], limit: u64) -> Result<Decompressor<'a>, CompressionError> {
        let inner = match codec {
            Codec::None => Inner::None { rest: input },
            Codec::Gzip => Inner::Gzip(gzip::Decoder::new(input)?),
            Codec::Snappy => Inner::Snappy(snappy::Decoder::new(input)?),
            Codec::Lz4 => Inner::Lz4(lz4::Decoder::new(input)?),
            Codec::Zstd => Inner::Zstd(zstd::Decoder::new(input)?),
        };
        Ok(Decompressor { inner, produced: 0, limit })
    }

    /// Appends the next piece to `output` and returns its size: 0 at the end of the data, and from then on.
    pub fn read(&mut self, output: &mut Vec<u8>) -> Result<usize, CompressionError> {
        let start = output.len();
        match &mut self.inner {
            Inner::None { rest } => output.extend_from_slice(std::mem::take(rest)),
            Inner::Gzip(decoder) => decoder.read(output)?,
            Inner::Snappy(decoder) => decoder.read(output)?,
            Inner::Lz4(decoder) => decoder.read(output)?,
            Inner::Zstd(decoder) => decoder.read(output)?,
        };
        let size = output.len() - start;
        self.produced += size as u64;
        if self.produced > self.limit {
            return Err(CompressionError::TooLarge { limit: self.limit });
        }
        Ok(size)
    }
}

/// All of `input`, decompressed, if that is at most `limit` bytes.
pub fn decompress(codec: Codec, input: &Bytes, limit: usize) -> Result<Bytes, CompressionError> {
    if codec == Codec::None && input.len() <= limit {
        return Ok(input.clone());
    }
    let mut decompressor = Decompressor::new(codec, input, limit as u64)?;
    let mut output = Vec::new();
    while decompressor.read(&mut output)? > 0 {}
    Ok(output.into())
}

/// Appends `input`, compressed, to `output`. `level` means what the topic setting of the codec means; out of its range
/// it is the nearest that is in it.
pub fn compress(codec: Codec, level: i32, input: &[u8], output: &mut Vec<u8>) {
    match codec {
        Codec::None => output.extend_from_slice(input),
        Codec::Gzip => gzip::compress(level, input, output),
        Codec::Snappy => snappy::compress(input, output),
        Codec::Lz4 => lz4::compress(input, output),
        Codec::Zstd => zstd::compress(level, input, output),
    }
}

#[cfg(test)]
mod tests;
