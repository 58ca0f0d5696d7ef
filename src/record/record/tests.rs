//! Records that lie about their sizes and counts, and odd ones that are sound.

use super::*;
use crate::record::builder::RecordBatchBuilder;
use crate::record::compression;

/// The header of a batch of so many records.
fn header(count: i32) -> BatchHeader {
    let mut builder = RecordBatchBuilder::new(Offset(0));
    builder.append(1000, None, None, &[]);
    let mut header = *builder.build().first_chunk().unwrap();
    header[57..61].copy_from_slice(&count.to_be_bytes());
    BatchHeader::from_bytes(header).unwrap()
}

fn strict(count: i32, body: &[u8]) -> Result<usize, RecordsError> {
    Records::new(&header(count), body).try_fold(0, |read, record| record.map(|_| read + 1))
}

/// The same from compressed data: by the fields, and as strictly as above.
fn streamed(count: i32, body: &[u8]) -> [Result<usize, RecordStreamError>; 2] {
    let mut compressed = Vec::new();
    compression::compress(Codec::Lz4, 9, body, &mut compressed);
    let stream = || RecordStream::new(&header(count), Codec::Lz4, &compressed, 1 << 20);
    let skim = || {
        let mut stream = stream()?;
        let mut read = 0;
        while stream.next_skim()?.is_some() {
            read += 1;
        }
        Ok(read)
    };
    let read = || {
        let mut stream = stream()?;
        let mut read = 0;
        while stream.next_record(&mut Vec::new())?.is_some() {
            read += 1;
        }
        Ok(read)
    };
    [skim(), read()]
}

fn refused(count: i32, body: &[u8], error: RecordsError) {
    assert_eq!(strict(count, body), Err(error), "{body:x?}");
    for result in streamed(count, body) {
        assert!(matches!(result, Err(RecordStreamError::Records(_))), "{result:?} for {body:x?}");
    }
}

/// Size 8: attributes, timestamp, offset, key "k", value "v", no headers.
const RECORD: &[u8] = &[16, 0, 0, 0, 2, b'k', 2, b'v', 0];

#[test]
fn counts_are_checked_against_the_bytes() {
    assert_eq!(strict(1, RECORD), Ok(1));
    assert_eq!(streamed(1, RECORD), [Ok(1), Ok(1)]);
    assert_eq!(strict(0, RECORD), Ok(0));
    refused(2, RECORD, RecordsError::Incomplete);
    refused(i32::MAX, RECORD, RecordsError::Incomplete);
    refused(-1, RECORD, RecordsError::NegativeCount(-1));
    refused(1, &[RECORD, RECORD].concat(), RecordsError::BytesBehindLastRecord);
    for cut in 0..RECORD.len() {
        refused(1, &RECORD[..cut], RecordsError::Incomplete);
    }
}

#[test]
fn negative_sizes_are_null_but_for_names_of_headers() {
    let body = [12, 0, 0, 0, 3, 13, 0];
    let record = Records::new(&header(1), &body).next().unwrap().unwrap();
    assert_eq!((record.key, record.value), (None, None));
    refused(1, &[16, 0, 0, 0, 1, 1, 2, 1, 1], RecordsError::NegativeHeaderKeySize(-1));
    refused(1, &[12, 0, 0, 0, 1, 1, 1], RecordsError::HeaderCount(-1));
}

#[test]
fn a_count_of_headers_is_not_believed() {
    let body = [20, 0, 0, 0, 1, 1, 0xfe, 0xff, 0xff, 0xff, 0x0f];
    refused(1, &body, RecordsError::HeaderCount(i32::MAX));
}

#[test]
fn headers_keep_order_and_repetitions() {
    let headers = [("b", Some(&b"1"[..])), ("a", None), ("b", Some(b""))]
        .map(|(key, value)| Header { key: key.as_bytes(), value });
    let mut body = Vec::new();
    write(&mut body, 0, 0, None, None, headers.into_iter());
    let record = Records::new(&header(1), &body).next().unwrap().unwrap();
    assert_eq!(record.headers.iter().collect::<Vec<_>>(), headers);
    assert_eq!(record.headers.len(), 3);
}

#[test]
fn numbers_may_be_long_but_not_endless() {
    // Five bytes, of which Java lets the bits beyond 32 fall off.
    let long = |last: u8| [&[0x90, 0x80, 0x80, 0x80, last], &RECORD[1..]].concat();
    assert_eq!(strict(1, &long(0)), Ok(1));
    assert_eq!(strict(1, &long(0x70)), Ok(1));
    let six = [&[0x90, 0x80, 0x80, 0x80, 0x80, 0], &RECORD[1..]].concat();
    refused(1, &six, RecordsError::EndlessSize);
    let timestamp = |bytes: usize| {
        let size = 2 * (7 + bytes as u8);
        [&[size, 0], &vec![0x80; bytes - 1][..], &[0], &RECORD[3..]].concat()
    };
    assert_eq!(strict(1, &timestamp(10)), Ok(1));
    refused(1, &timestamp(11), RecordsError::EndlessNumber);
}

/// Kafka's broker does not compare the size of a compressed record with its fields, unless it rebuilds the batch.
#[test]
fn only_a_skim_ignores_the_size() {
    for size in [14, 18, 15] {
        let body = [&[size], &RECORD[1..]].concat();
        let [skim, read] = streamed(1, &body);
        assert_eq!(skim, Ok(1));
        assert!(read.is_err());
        assert!(matches!(strict(1, &body), Err(RecordsError::SizeMismatch { .. })));
    }
    // 2^31 - 1
    let body = [&[0xfe, 0xff, 0xff, 0xff, 0x0f], &RECORD[1..]].concat();
    let [skim, read] = streamed(1, &body);
    assert_eq!(skim, Ok(1));
    assert_eq!(read, Err(RecordsError::ImpossibleSize(i32::MAX).into()));
}

#[test]
fn timestamps_and_offsets_wrap_as_javas_do() {
    let mut bytes = *header(1).as_bytes();
    bytes[0..8].copy_from_slice(&i64::MAX.to_be_bytes());
    bytes[27..35].copy_from_slice(&i64::MAX.to_be_bytes());
    let header = BatchHeader::from_bytes(bytes).unwrap();
    let body = [16, 0, 2, 2, 2, b'k', 2, b'v', 0];
    let record = Records::new(&header, &body).next().unwrap().unwrap();
    assert_eq!((record.timestamp, record.offset), (i64::MIN, Offset(i64::MIN)));
}
