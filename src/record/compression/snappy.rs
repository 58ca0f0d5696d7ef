//! snappy in the framing of the Java library (xerial), which Kafka's clients write, and as one bare block, which
//! librdkafka and others may write.
//!
//! | bytes | xerial stream |
//! |---|---|
//! | 8 | `82 53 4e 41 50 50 59 00` |
//! | 4 | version, 1 |
//! | 4 | oldest compatible version, 1 |
//! | 4 + n, repeated | length n, then a snappy block of that length |
//!
//! Streams may be concatenated. A tail of less than four bytes is ignored.

use super::{Codec, CompressionError};

const MAGIC: [u8; 8] = *b"\x82SNAPPY\0";
const HEADER_SIZE: usize = 16;
const BLOCK_SIZE: usize = 32 * 1024;

pub(super) struct Decoder<'a> {
    rest: &'a [u8],
    bare: bool,
}

impl<'a> Decoder<'a> {
    pub(super) fn new(input: &'a [u8]) -> Result<Decoder<'a>, CompressionError> {
        if input.is_empty() {
            return Err(corrupt("no data"));
        }
        match input.strip_prefix(&MAGIC) {
            Some(_) if input.len() >= HEADER_SIZE => Ok(Decoder { rest: &input[HEADER_SIZE..], bare: false }),
            _ => Ok(Decoder { rest: input, bare: true }),
        }
    }

    pub(super) fn read(&mut self, output: &mut Vec<u8>) -> Result<(), CompressionError> {
        let start = output.len();
        while output.len() == start {
            let block = if self.bare {
                Some(std::mem::take(&mut self.rest)).filter(|rest| !rest.is_empty())
            } else {
                self.next_block()?
            };
            match block {
                Some(block) => decompress(block, output)?,
                None => break,
            }
        }
        Ok(())
    }

    fn next_block(&mut self) -> Result<Option<&'a [u8]>, CompressionError> {
        loop {
            let Some((length, rest)) = self.rest.split_first_chunk::<4>() else {
                self.rest = &[];
                return Ok(None);
            };
            if length[..] == MAGIC[..4] {
                // Another stream, or something that only looks like one and ends the data.
                let header = self.rest.get(..HEADER_SIZE).ok_or_else(|| corrupt("a second header is cut off"))?;
                if !header.starts_with(&MAGIC) {
                    self.rest = &[];
                    return Ok(None);
                }
                if i32::from_be_bytes(header[8..12].try_into().expect("four bytes")) < 1 {
                    return Err(corrupt("version below 1"));
                }
                self.rest = &self.rest[HEADER_SIZE..];
                continue;
            }
            let length = i32::from_be_bytes(*length);
            let block = usize::try_from(length).ok().and_then(|length| rest.split_at_checked(length));
            let Some((block, rest)) = block else {
                return Err(corrupt("a block is longer than the data"));
            };
            self.rest = rest;
            return Ok(Some(block));
        }
    }
}

fn decompress(block: &[u8], output: &mut Vec<u8>) -> Result<(), CompressionError> {
    if block.is_empty() {
        return Err(corrupt("an empty block"));
    }
    let size = snap::raw::decompress_len(block).map_err(corrupt)?;
    if size > max_decompressed_size(block.len()) {
        return Err(corrupt("a block that says it is larger than it can be"));
    }
    let start = output.len();
    output.resize(start + size, 0);
    let written = snap::raw::Decoder::new().decompress(block, &mut output[start..]).map_err(corrupt)?;
    output.truncate(start + written);
    Ok(())
}

/// The densest element is a copy of 64 bytes in 3, so the size that a block announces can be checked before it is
/// allocated.
fn max_decompressed_size(block_size: usize) -> usize {
    block_size.saturating_mul(64) / 3 + 64
}

fn corrupt(reason: impl std::fmt::Display) -> CompressionError {
    CompressionError::corrupt(Codec::Snappy, reason)
}

pub(super) fn compress(input: &[u8], output: &mut Vec<u8>) {
    output.extend_from_slice(&MAGIC);
    output.extend_from_slice(&1i32.to_be_bytes());
    output.extend_from_slice(&1i32.to_be_bytes());
    let mut encoder = snap::raw::Encoder::new();
    for block in input.chunks(BLOCK_SIZE) {
        let start = output.len();
        output.resize(start + 4 + snap::raw::max_compress_len(block.len()), 0);
        let written =
            encoder.compress(block, &mut output[start + 4..]).expect("the output has the size that snappy asks for");
        output[start..start + 4].copy_from_slice(&(written as i32).to_be_bytes());
        output.truncate(start + 4 + written);
    }
}
