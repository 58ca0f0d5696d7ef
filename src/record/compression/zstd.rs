//! zstd frames (RFC 8878), one after the other. No data at all is the end of the records, not an error, as for Kafka.

use zstd::stream::raw::{InBuffer, Operation, OutBuffer};

use super::{Codec, CompressionError};

const CHUNK: usize = 16 * 1024;

pub(super) struct Decoder<'a> {
    context: zstd::stream::raw::Decoder<'static>,
    input: InBuffer<'a>,
    /// Whether the data may end here.
    frame_finished: bool,
}

impl<'a> Decoder<'a> {
    pub(super) fn new(input: &'a [u8]) -> Result<Decoder<'a>, CompressionError> {
        Ok(Decoder {
            context: zstd::stream::raw::Decoder::new().map_err(corrupt)?,
            frame_finished: input.is_empty(),
            input: InBuffer::around(input),
        })
    }

    pub(super) fn read(&mut self, output: &mut Vec<u8>) -> Result<(), CompressionError> {
        let start = output.len();
        loop {
            let had_input = self.input.pos() < self.input.src.len();
            if !had_input && self.frame_finished {
                return Ok(());
            }
            output.resize(start + CHUNK, 0);
            let mut buffer = OutBuffer::around(&mut output[start..]);
            let hint = self.context.run(&mut self.input, &mut buffer).map_err(corrupt)?;
            let written = buffer.pos();
            output.truncate(start + written);
            // Once a frame was whole, a beginning of another one is ignored.
            self.frame_finished |= hint == 0;
            if written > 0 {
                return Ok(());
            }
            if !had_input && !self.frame_finished {
                return Err(corrupt("the data is cut off"));
            }
        }
    }
}

fn corrupt(reason: impl std::fmt::Display) -> CompressionError {
    CompressionError::corrupt(Codec::Zstd, reason)
}

pub(super) fn compress(level: i32, input: &[u8], output: &mut Vec<u8>) {
    let levels = zstd::compression_level_range();
    let level = level.clamp(*levels.start(), *levels.end());
    zstd::stream::copy_encode(input, output, level).expect("a vector takes all writes");
}
