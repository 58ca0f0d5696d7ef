//! Frames that arrive in pieces: what is refused, and what memory they hold meanwhile.

use std::pin::Pin;

use futures_util::task::noop_waker;
use proptest::prelude::*;
use tokio::io::ReadBuf;

use super::*;

/// Gives the bytes it holds, at most so many at a time as the next of `steps` says.
struct Pieces {
    bytes: Vec<u8>,
    read: usize,
    steps: Vec<usize>,
    step: usize,
}

impl AsyncRead for Pieces {
    fn poll_read(mut self: Pin<&mut Self>, _: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let step = self.steps[self.step % self.steps.len()];
        self.step += 1;
        let end = self.bytes.len().min(self.read + step.min(into.remaining()));
        into.put_slice(&self.bytes[self.read..end]);
        self.read = end;
        Poll::Ready(Ok(()))
    }
}

fn reader(limit: usize) -> FrameReader {
    FrameReader::new(Arc::new(BufferPool::new(1)), 0, limit)
}

fn fill(reader: &mut FrameReader, source: &mut Pieces) -> usize {
    match reader.poll_fill(&mut Context::from_waker(&noop_waker()), source) {
        Poll::Ready(read) => read.unwrap(),
        Poll::Pending => panic!("the source is always ready"),
    }
}

fn framed(frames: &[Vec<u8>]) -> Vec<u8> {
    frames.iter().flat_map(|frame| [&(frame.len() as i32).to_be_bytes(), &frame[..]].concat()).collect()
}

/// Everything that `bytes` holds, or the error after it.
fn read_all(reader: &mut FrameReader, bytes: Vec<u8>, steps: &[usize], settle: bool) -> Result<Vec<Bytes>, FrameError> {
    let mut source = Pieces { bytes, read: 0, steps: steps.to_vec(), step: 0 };
    let mut frames = Vec::new();
    loop {
        while let Some(frame) = reader.next_frame()? {
            frames.push(frame);
        }
        if settle {
            reader.settle();
        }
        if fill(reader, &mut source) == 0 {
            return Ok(frames);
        }
    }
}

fn payload(length: usize, seed: u8) -> Vec<u8> {
    (0..length).map(|i| (i as u8).wrapping_mul(31).wrapping_add(seed)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn frames_come_out_as_they_went_in(
        lengths in prop::collection::vec(prop_oneof![1..20usize, 1..5000usize, 1..300_000usize, 250_000..270_000usize], 1..12),
        steps in prop::collection::vec(prop_oneof![1..10usize, 1..5000usize, 1..400_000usize], 1..10),
        settle: bool,
        proven: bool,
    ) {
        // Steps of a byte through megabytes would take long.
        let steps: Vec<usize> = steps.iter().copied().chain([100_000]).collect();
        let frames: Vec<Vec<u8>> = lengths.iter().enumerate().map(|(i, length)| payload(*length, i as u8)).collect();
        let mut reader = reader(100 << 20);
        if proven {
            reader.prove();
        }
        let read = read_all(&mut reader, framed(&frames), &steps, settle).unwrap();
        prop_assert_eq!(read, frames);
    }

    #[test]
    fn garbage_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..200), steps in prop::collection::vec(1..50usize, 1..4)) {
        let _ = read_all(&mut reader(1000), bytes, &steps, true);
    }
}

#[test]
fn sizes_that_kafka_refuses_are_refused_before_the_body() {
    let refused = |size: i32| read_all(&mut reader(1000), size.to_be_bytes().to_vec(), &[1], false).unwrap_err();
    assert_eq!(refused(-1), FrameError::Negative(-1));
    assert_eq!(refused(i32::MIN), FrameError::Negative(i32::MIN));
    assert_eq!(refused(0), FrameError::Empty);
    assert_eq!(refused(1001), FrameError::TooLarge { size: 1001, limit: 1000 });
    assert_eq!(refused(i32::MAX), FrameError::TooLarge { size: i32::MAX as usize, limit: 1000 });
    assert_eq!(read_all(&mut reader(1000), framed(&[payload(1000, 0)]), &[100], false).unwrap().len(), 1);
}

#[test]
fn the_first_frame_is_large_only_if_it_is_produce() {
    let mut metadata = payload(UNPROVEN_LIMIT + 1, 0);
    metadata[..2].copy_from_slice(&[0, 3]);
    let refused = FrameError::TooLarge { size: UNPROVEN_LIMIT + 1, limit: UNPROVEN_LIMIT };
    assert_eq!(read_all(&mut reader(100 << 20), framed(&[metadata.clone()]), &[1, 70_000], true), Err(refused));

    let mut produce = metadata.clone();
    produce[..2].copy_from_slice(&[0, 0]);
    assert_eq!(read_all(&mut reader(100 << 20), framed(&[produce.clone()]), &[1, 70_000], true).unwrap(), [produce]);

    let mut proven = reader(100 << 20);
    proven.prove();
    assert_eq!(read_all(&mut proven, framed(&[metadata.clone()]), &[1, 70_000], true).unwrap(), [metadata]);
}

#[test]
fn memory_grows_with_what_arrived_not_with_what_was_announced() {
    let mut reader = reader(100 << 20);
    let mut bytes = (100i32 << 20).to_be_bytes().to_vec();
    bytes.extend([0, 0]);
    bytes.extend(payload(3_000_000, 0));
    let mut source = Pieces { bytes, read: 0, steps: vec![50_000], step: 0 };
    while fill(&mut reader, &mut source) > 0 {
        assert_eq!(reader.next_frame(), Ok(None));
        let held = match &reader.held {
            Held::Large(large) => large.bytes.capacity(),
            _ => 0,
        };
        assert!(held <= 2 * source.read + ROOM, "{held} bytes for {} that came", source.read);
    }
}

#[test]
fn a_waiting_connection_holds_no_buffer() {
    let mut reader = reader(1 << 20);
    let frame = payload(10_000, 0);
    let mut bytes = framed(std::slice::from_ref(&frame));
    let rest = bytes.split_off(6000);
    let mut source = Pieces { bytes, read: 0, steps: vec![usize::MAX], step: 0 };
    fill(&mut reader, &mut source);
    assert_eq!(reader.next_frame(), Ok(None));
    assert_eq!(reader.pool.kept(), 0);
    reader.settle();
    assert!(matches!(&reader.held, Held::Aside(bytes) if bytes.len() == 6000));
    assert_eq!(reader.pool.kept(), 1);

    source.bytes.extend(rest);
    fill(&mut reader, &mut source);
    assert_eq!(reader.next_frame(), Ok(Some(frame.into())));
    reader.settle();
    assert!(matches!(reader.held, Held::Nothing));
    assert_eq!(reader.pool.kept(), 1);
}

#[test]
fn frames_put_aside_whole_are_still_there() {
    let frames = [payload(10, 1), payload(20, 2)];
    let mut reader = reader(1 << 20);
    let mut source = Pieces { bytes: framed(&frames), read: 0, steps: vec![usize::MAX], step: 0 };
    fill(&mut reader, &mut source);
    for frame in frames {
        reader.settle();
        assert_eq!(reader.next_frame(), Ok(Some(frame.into())));
    }
}

#[test]
fn a_small_frame_keeps_no_buffer_alive() {
    let mut reader = reader(1 << 20);
    let frames = read_all(&mut reader, framed(&[payload(100, 1)]), &[usize::MAX], true).unwrap();
    reader.settle();
    assert_eq!(reader.pool.kept(), 1, "the buffer came back while the frame lives");
    assert_eq!(frames, [payload(100, 1)]);
}
