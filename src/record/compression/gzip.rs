//! gzip (RFC 1952), as Java's `GZIPInputStream` reads it: members may follow each other, and bytes behind a member that
//! do not start another one are ignored.

use std::io::{Read, Write};

use flate2::Compression;
use flate2::bufread::GzDecoder;

use super::{Codec, CompressionError};

const CHUNK: usize = 16 * 1024;
/// A header and a trailer, and no deflate block: less cannot be a member.
const MIN_MEMBER: usize = 18;

pub(super) struct Decoder<'a> {
    /// None at the end of the data.
    member: Option<GzDecoder<&'a [u8]>>,
}

impl<'a> Decoder<'a> {
    pub(super) fn new(input: &'a [u8]) -> Result<Decoder<'a>, CompressionError> {
        let member = GzDecoder::new(input);
        if member.header().is_none() {
            return Err(CompressionError::corrupt(Codec::Gzip, "no valid header"));
        }
        Ok(Decoder { member: Some(member) })
    }

    pub(super) fn read(&mut self, output: &mut Vec<u8>) -> Result<(), CompressionError> {
        let start = output.len();
        while let Some(member) = &mut self.member {
            output.resize(start + CHUNK, 0);
            let read =
                member.read(&mut output[start..]).map_err(|error| CompressionError::corrupt(Codec::Gzip, error))?;
            output.truncate(start + read);
            if read > 0 {
                break;
            }
            let rest: &'a [u8] = member.get_ref();
            self.member = next_member(rest);
        }
        Ok(())
    }
}

fn next_member(rest: &[u8]) -> Option<GzDecoder<&[u8]>> {
    if rest.len() <= MIN_MEMBER {
        return None;
    }
    let member = GzDecoder::new(rest);
    member.header().is_some().then_some(member)
}

pub(super) fn compress(level: i32, input: &[u8], output: &mut Vec<u8>) {
    let level = match level {
        -1 => Compression::default(),
        level => Compression::new(level.clamp(1, 9) as u32),
    };
    let mut encoder = flate2::write::GzEncoder::new(output, level);
    encoder.write_all(input).and_then(|()| encoder.finish().map(drop)).expect("a vector takes all writes");
}
