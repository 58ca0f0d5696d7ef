//! What a scan finds in sound and in damaged segments.

use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::record::builder::RecordBatchBuilder;
use crate::storage::disk::{OpenMode, RealDisk};

fn file(bytes: &[u8]) -> Arc<dyn DiskFile> {
    let dir = tempfile::tempdir().unwrap();
    let file = RealDisk::new().open(&dir.path().join("0.log"), OpenMode::Create).unwrap();
    file.write_all_at(bytes, 0).unwrap();
    file
}

fn batch(base: i64, count: usize, size: usize) -> Vec<u8> {
    let mut builder = RecordBatchBuilder::new(Offset(base));
    for n in 0..count {
        builder.append(base + n as i64, None, Some(&vec![n as u8; size]), &[]);
    }
    builder.build().to_vec()
}

/// A message of the formats before batches: offset, size, CRC, magic, attributes, timestamp, no key, value.
fn message(magic: u8, offset: i64, timestamp: i64, value: &[u8]) -> Vec<u8> {
    let mut body = vec![magic, 0];
    if magic == 1 {
        body.extend_from_slice(&timestamp.to_be_bytes());
    }
    body.extend_from_slice(&(-1i32).to_be_bytes());
    body.extend_from_slice(&(value.len() as i32).to_be_bytes());
    body.extend_from_slice(value);
    let mut crc = flate2::Crc::new();
    crc.update(&body);
    let mut message = offset.to_be_bytes().to_vec();
    message.extend_from_slice(&(body.len() as i32 + 4).to_be_bytes());
    message.extend_from_slice(&crc.sum().to_be_bytes());
    message.extend_from_slice(&body);
    message
}

/// Position, first and last offset of a batch.
type Found = (u64, i64, i64);

/// What was found, and how the walk ended.
fn walk_headers(file: &dyn DiskFile, from: Offset) -> (Vec<Found>, Result<(), ScanError>) {
    let end = file.file_len().unwrap();
    let mut scan = HeaderScan::new(file, from, 0, end, from, Wait::ForDisk);
    let mut found = Vec::new();
    loop {
        match scan.next() {
            Ok(Some((position, frame))) => found.push((position, frame.base_offset().0, frame.last_offset().0)),
            Ok(None) => return (found, Ok(())),
            Err(error) => return (found, Err(error)),
        }
    }
}

fn walk_fully(file: &dyn DiskFile, from: Offset) -> (Vec<Found>, Vec<u64>) {
    let mut scan = FullScan::new(file, from, 0, file.file_len().unwrap(), from);
    let (mut found, mut damaged) = (Vec::new(), Vec::new());
    loop {
        match scan.next() {
            Ok(Some((position, frame))) => found.push((position, frame.base_offset().0, frame.last_offset().0)),
            Ok(None) => return (found, damaged),
            Err(ScanError::Damaged { position, .. }) => {
                damaged.push(position);
                if scan.skip_damage().unwrap().is_none() {
                    return (found, damaged);
                }
            }
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn walks_over_batches_of_all_sizes() {
    let parts = [batch(5, 1, 10), batch(6, 3, 5000), batch(9, 2, 2_000_000), batch(20, 100, 0)];
    let file = file(&parts.concat());
    let mut position = 0;
    let expected: Vec<_> = [(5, 5), (6, 8), (9, 10), (20, 119)]
        .into_iter()
        .zip(&parts)
        .map(|((first, last), part)| {
            position += part.len() as u64;
            (position - part.len() as u64, first, last)
        })
        .collect();
    assert_eq!(walk_headers(&*file, Offset(5)).0, expected);
    assert_eq!(walk_fully(&*file, Offset(5)), (expected, vec![]));
}

#[test]
fn messages_of_old_formats_are_kept() {
    let messages = [message(0, 3, 0, b"a"), message(1, 4, 77, b"bc"), message(1, 9, 78, b""), batch(10, 1, 1)];
    let file = file(&messages.concat());
    let (found, damaged) = walk_fully(&*file, Offset(3));
    assert_eq!(found.iter().map(|batch| batch.2).collect::<Vec<_>>(), [3, 4, 9, 10]);
    assert!(damaged.is_empty());
    assert_eq!(walk_headers(&*file, Offset(3)).0, found);

    let mut scan = HeaderScan::new(&*file, Offset(3), 0, file.file_len().unwrap(), Offset(3), Wait::ForDisk);
    let frames: Vec<Frame> = std::iter::from_fn(|| scan.next().unwrap()).map(|(_, frame)| frame).collect();
    assert_eq!(frames.iter().map(|frame| frame.max_timestamp()).collect::<Vec<_>>(), [-1, 77, 78, 10]);
    assert!(matches!(frames[0], Frame::Old(_)) && matches!(frames[3], Frame::Batch(_)));
    assert_eq!(frames[1].leader_epoch(), LeaderEpoch::UNKNOWN);
}

#[test]
fn damage_is_found_and_passed_over() {
    let parts = [batch(0, 2, 100), batch(2, 2, 100), batch(4, 2, 100)];
    let second = parts[0].len();
    let third = (second + parts[1].len()) as u64;
    let whole = parts.concat();
    let damages: [(usize, &[u8]); 7] = [
        // Base offset, size too small and too large, magic, attributes, count, and the records.
        (0, &[0x7f]),
        (11, &[5]),
        (8, &[0x7f]),
        (16, &[7]),
        (22, &[1]),
        (60, &[9]),
        (150, b"other"),
    ];
    for (at, damage) in damages {
        let mut bytes = whole.clone();
        bytes[second + at..second + at + damage.len()].copy_from_slice(damage);
        let (found, damaged) = walk_fully(&*file(&bytes), Offset(0));
        assert_eq!(found, [(0, 0, 1), (third, 4, 5)], "at {at}");
        assert_eq!(damaged, [second as u64], "at {at}");
    }
    for (tail, kept) in [(vec![0; 300], 3), (b"garbage".to_vec(), 3), (whole[..40].to_vec(), 3)] {
        let (found, damaged) = walk_fully(&*file(&[&whole[..], &tail].concat()), Offset(0));
        assert_eq!((found.len(), damaged), (kept, vec![whole.len() as u64]));
    }
    // A batch that was stored as a value is none of the log's.
    let mut builder = RecordBatchBuilder::new(Offset(2));
    builder.append(0, None, Some(&batch(3, 1, 1)), &[]);
    let mut outer = builder.build().to_vec();
    let last = outer.len() - 1;
    outer[last] ^= 1;
    let (found, _) = walk_fully(&*file(&[&parts[0][..], &outer, &parts[2]].concat()), Offset(0));
    assert_eq!(found.iter().map(|batch| batch.1).collect::<Vec<_>>(), [0, 4]);
}

/// Counts the bytes that are read.
struct Counted {
    bytes: Vec<u8>,
    read: std::sync::atomic::AtomicU64,
}

impl DiskFile for Counted {
    fn file_len(&self) -> io::Result<u64> {
        Ok(self.bytes.len() as u64)
    }

    fn read_at(&self, buffer: &mut [u8], position: u64) -> io::Result<usize> {
        let rest = self.bytes.get(position as usize..).unwrap_or_default();
        let len = rest.len().min(buffer.len());
        buffer[..len].copy_from_slice(&rest[..len]);
        self.read.fetch_add(len as u64, std::sync::atomic::Ordering::Relaxed);
        Ok(len)
    }

    fn read_cached_at(&self, buffer: &mut [u8], position: u64) -> io::Result<Option<usize>> {
        self.read_at(buffer, position).map(Some)
    }

    fn write_vectored_at(&self, _buffers: &[io::IoSlice<'_>], _position: u64) -> io::Result<usize> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn sync_all(&self) -> io::Result<()> {
        Ok(())
    }

    fn set_len(&self, _len: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn set_modified(&self, _modified_ms: i64) -> io::Result<()> {
        Ok(())
    }
}

/// In a compacted log nearly every batch leaves offsets out, and those behind it are asked whether it lies. All of it was read
/// twice for that.
#[test]
fn what_stands_behind_a_batch_is_not_read_for_it_alone() {
    for (count, size) in [(20_000, 100), (400, 16_000), (12, 700_000)] {
        let bytes = (0..count).flat_map(|n| batch(n * 5, 1, size)).collect();
        let file = Counted { bytes, read: Default::default() };
        let (found, damaged) = walk_fully(&file, Offset(0));
        assert_eq!((found.len() as i64, damaged), (count, vec![]), "{size}");
        let (len, read) = (file.bytes.len(), file.read.into_inner());
        // Where a read ends the batch that it cuts is begun again.
        assert!(read < 2 * len as u64 && (size > 100_000 || read < len as u64 * 11 / 10), "{read} of {len}");
    }
}

proptest! {
    #[test]
    fn whatever_stands_there_ends(bytes in prop::collection::vec(any::<u8>(), 0..2000), magic in 0..4u8) {
        let mut bytes = bytes;
        bytes.iter_mut().skip(16).step_by(61).for_each(|byte| *byte = magic);
        let file = file(&bytes);
        drop(walk_headers(&*file, Offset(0)));
        drop(walk_fully(&*file, Offset(0)));
    }
}
