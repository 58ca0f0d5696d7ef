//! lz4 frames as Kafka reads them: independent blocks only, nothing behind the end mark is looked at, the checksum of
//! the content is skipped, those of the header and of blocks are verified.
//!
//! | bytes | |
//! |---|---|
//! | 4 | magic `04 22 4d 18` |
//! | 1 | flags: version 1 in bits 6..7, 5 independent blocks, 4 block checksums, 3 content size, 2 content checksum |
//! | 1 | bits 4..6: largest block, 4 (64 KiB) to 7 (4 MiB) |
//! | 8 | content size, if the flag says so |
//! | 1 | second byte of the xxHash32 of the fields behind the magic |
//! | 4 + n (+ 4), repeated | little-endian length n, top bit set if stored as is; block; checksum if the flag says so |
//! | 4 | end mark: length 0 |

use super::{Codec, CompressionError};

const MAGIC: [u8; 4] = [0x04, 0x22, 0x4d, 0x18];
const STORED: u32 = 1 << 31;
/// Version 1, independent blocks; blocks of 64 KiB; the checksum of these two.
const DESCRIPTOR: [u8; 3] = [0x60, 0x40, 0x82];
const BLOCK_SIZE: usize = 64 * 1024;

pub(super) struct Decoder<'a> {
    rest: &'a [u8],
    max_block_size: usize,
    block_checksums: bool,
    content_checksum: bool,
    finished: bool,
}

impl<'a> Decoder<'a> {
    pub(super) fn new(input: &'a [u8]) -> Result<Decoder<'a>, CompressionError> {
        if input.len() < 6 {
            return Err(corrupt("no whole frame header"));
        }
        let descriptor = input.strip_prefix(&MAGIC).ok_or_else(|| corrupt("not an lz4 frame"))?;
        let (flags, block_sizes) = (descriptor[0], descriptor[1]);
        if flags >> 6 != 1 || flags & 0b11 != 0 {
            return Err(corrupt("unknown version or flags"));
        }
        if flags & 0b10_0000 == 0 {
            return Err(corrupt("dependent blocks are not supported"));
        }
        if block_sizes & 0b1000_1111 != 0 || block_sizes >> 4 < 4 {
            return Err(corrupt("unknown block size"));
        }
        let size = if flags & 0b1000 != 0 { 10 } else { 2 };
        let (descriptor, rest) = descriptor.split_at_checked(size).ok_or_else(|| corrupt("no whole frame header"))?;
        let (checksum, rest) = rest.split_first().ok_or_else(|| corrupt("no whole frame header"))?;
        if *checksum != (xxhash32(descriptor) >> 8) as u8 {
            return Err(corrupt("wrong checksum of the frame header"));
        }
        Ok(Decoder {
            rest,
            max_block_size: 1 << (2 * (block_sizes >> 4) + 8),
            block_checksums: flags & 0b1_0000 != 0,
            content_checksum: flags & 0b100 != 0,
            finished: false,
        })
    }

    pub(super) fn read(&mut self, output: &mut Vec<u8>) -> Result<(), CompressionError> {
        if self.finished {
            return Ok(());
        }
        let word = self.next_word()?;
        let size = (word & !STORED) as usize;
        if size == 0 {
            self.finished = true;
            if self.content_checksum {
                self.next_word()?;
            }
            return Ok(());
        }
        if size > self.max_block_size {
            return Err(corrupt("a block is larger than the frame allows"));
        }
        let (block, rest) = self.rest.split_at_checked(size).ok_or_else(|| corrupt("a block is cut off"))?;
        self.rest = rest;
        let start = output.len();
        if word & STORED != 0 {
            output.extend_from_slice(block);
        } else {
            // 255 bytes is the most that one byte of input can stand for.
            output.resize(start + self.max_block_size.min(size.saturating_mul(255)), 0);
            let written = lz4_flex::block::decompress_into(block, &mut output[start..]).map_err(corrupt)?;
            output.truncate(start + written);
        }
        if self.block_checksums && self.next_word()? != xxhash32(block) {
            return Err(corrupt("wrong checksum of a block"));
        }
        // To Kafka, too, a block of nothing is the end.
        self.finished = output.len() == start;
        Ok(())
    }

    fn next_word(&mut self) -> Result<u32, CompressionError> {
        let (word, rest) = self.rest.split_first_chunk().ok_or_else(|| corrupt("the frame is cut off"))?;
        self.rest = rest;
        Ok(u32::from_le_bytes(*word))
    }
}

fn corrupt(reason: impl std::fmt::Display) -> CompressionError {
    CompressionError::corrupt(Codec::Lz4, reason)
}

pub(super) fn compress(input: &[u8], output: &mut Vec<u8>) {
    output.extend_from_slice(&MAGIC);
    output.extend_from_slice(&DESCRIPTOR);
    for block in input.chunks(BLOCK_SIZE) {
        let start = output.len() + 4;
        output.resize(start + lz4_flex::block::get_maximum_output_size(block.len()), 0);
        let mut written = lz4_flex::block::compress_into(block, &mut output[start..])
            .expect("the output has the size that lz4 asks for");
        let mut stored = 0;
        if written >= block.len() {
            written = block.len();
            stored = STORED;
            output[start..start + written].copy_from_slice(block);
        }
        output[start - 4..start].copy_from_slice(&(written as u32 | stored).to_le_bytes());
        output.truncate(start + written);
    }
    output.extend_from_slice(&0u32.to_le_bytes());
}

/// xxHash32 with seed 0.
fn xxhash32(input: &[u8]) -> u32 {
    const P1: u32 = 0x9E37_79B1;
    const P2: u32 = 0x85EB_CA77;
    const P3: u32 = 0xC2B2_AE3D;
    const P4: u32 = 0x27D4_EB2F;
    const P5: u32 = 0x1656_67B1;
    let word = |bytes: &[u8]| u32::from_le_bytes(bytes.try_into().expect("four bytes"));

    let stripes = input.chunks_exact(16);
    let tail = stripes.remainder();
    let mut hash = if input.len() >= 16 {
        let mut lanes = [P1.wrapping_add(P2), P2, 0, 0u32.wrapping_sub(P1)];
        for stripe in stripes {
            for (lane, bytes) in lanes.iter_mut().zip(stripe.chunks_exact(4)) {
                *lane = lane.wrapping_add(word(bytes).wrapping_mul(P2)).rotate_left(13).wrapping_mul(P1);
            }
        }
        let [a, b, c, d] = lanes;
        a.rotate_left(1).wrapping_add(b.rotate_left(7)).wrapping_add(c.rotate_left(12)).wrapping_add(d.rotate_left(18))
    } else {
        P5
    };
    hash = hash.wrapping_add(input.len() as u32);
    let words = tail.chunks_exact(4);
    let last = words.remainder();
    for bytes in words {
        hash = hash.wrapping_add(word(bytes).wrapping_mul(P3)).rotate_left(17).wrapping_mul(P4);
    }
    for byte in last {
        hash = hash.wrapping_add(u32::from(*byte).wrapping_mul(P5)).rotate_left(11).wrapping_mul(P1);
    }
    hash = (hash ^ (hash >> 15)).wrapping_mul(P2);
    hash = (hash ^ (hash >> 13)).wrapping_mul(P3);
    hash ^ (hash >> 16)
}

#[cfg(test)]
mod tests {
    use super::xxhash32;

    #[test]
    fn hash_is_xxhash32() {
        assert_eq!(xxhash32(b""), 0x02CC_5D05);
        assert_eq!(xxhash32(b"abc"), 0x32D1_53FF);
        assert_eq!(xxhash32(b"Nobody inspects the spammish repetition"), 0xE229_3B2F);
    }
}
