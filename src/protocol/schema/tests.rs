//! Odd bytes that Kafka reads, and lies that it does not.

use bytes::BytesMut;
use proptest::prelude::*;

use super::*;

fn take(api_key: ApiKey, version: i16, body: &[u8]) -> Result<(Bytes, usize), DecodeError> {
    let mut body = Bytes::copy_from_slice(body);
    take_body(api_key, version, &mut body).map(|taken| (taken, body.len()))
}

#[test]
fn the_table_is_sorted() {
    assert!(REQUESTS.is_sorted_by(|a, b| a.api_key < b.api_key));
    assert_eq!(REQUESTS.len(), ApiKey::ALL.len() - 6, "all but 4..7, Produce and Fetch");
}

#[test]
fn a_plain_body_is_passed_on_without_a_copy_and_what_follows_stays() {
    let mut body = Bytes::from_static(
        b"\x02\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02a\x00\x01\x00\x00rest",
    );
    let start = body.as_ptr();
    let taken = take_body(ApiKey::Metadata, 12, &mut body).unwrap();
    assert_eq!(taken.as_ptr(), start);
    assert_eq!(body, "rest");
}

#[test]
fn a_count_must_fit_what_is_there() {
    for (version, body) in [(1, &b"\x7f\xff\xff\xff"[..]), (12, b"\xff\xff\xff\xff\x07"), (1, b"\x00\x00\x00\x01")] {
        let refused = take(ApiKey::Metadata, version, body);
        assert!(matches!(refused, Err(DecodeError::Count { field: "topics", .. })), "{refused:?}");
    }
}

#[test]
fn a_null_is_one_however_it_is_written() {
    let plain = take(ApiKey::Metadata, 1, b"\xff\xff\xff\xff").unwrap();
    assert_eq!(take(ApiKey::Metadata, 1, b"\xff\xff\xff\xfe").unwrap(), plain);
    assert_eq!(take(ApiKey::Metadata, 1, b"\x80\x00\x00\x00").unwrap(), plain);
    let compact = take(ApiKey::Metadata, 12, b"\x00\x00\x00\x00").unwrap();
    assert_eq!(take(ApiKey::Metadata, 12, b"\xff\xff\xff\xff\x0f\x00\x00\x00").unwrap(), compact);
    assert_eq!(take(ApiKey::Metadata, 0, b"\xff\xff\xff\xff"), Err(DecodeError::Null { field: "topics" }));
}

#[test]
fn unknown_tags_are_left_out() {
    // Tag 5 with "xy", then tag 300, empty.
    let body = b"\x00\x00\x00\x02\x05\x02xy\xac\x02\x00!";
    assert_eq!(take(ApiKey::Metadata, 12, body).unwrap(), (Bytes::from_static(b"\x00\x00\x00\x00"), 1));
    // A negative number of tags.
    assert_eq!(take(ApiKey::Metadata, 12, b"\x00\x00\x00\xff\xff\xff\xff\x0f!").unwrap().1, 1);
    // More tags than bytes.
    assert!(take(ApiKey::Metadata, 12, b"\x00\x00\x00\xff\xff\xff\xff\x07").is_err());
}

#[test]
fn text_that_is_not_utf8_is_replaced() {
    let (taken, _) = take(ApiKey::Metadata, 1, b"\x00\x00\x00\x02\x00\x02a\xff\x00\x01b").unwrap();
    assert_eq!(taken, &b"\x00\x00\x00\x02\x00\x04a\xef\xbf\xbd\x00\x01b"[..]);
    let mut longest = BytesMut::from(&b"\x00\x00\x00\x01\x7f\xff"[..]);
    longest.extend_from_slice(&[0xff; MAX_STRING_LENGTH]);
    let (taken, left) = take(ApiKey::Metadata, 1, &longest).unwrap();
    assert_eq!((taken.len(), left), (6 + MAX_STRING_LENGTH / 3 * 3, 0));
}

#[test]
fn a_string_has_its_limit_in_flexible_versions_too() {
    // 32768 bytes of text.
    let mut body =
        BytesMut::from(&b"\x02\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x81\x80\x02"[..]);
    body.resize(body.len() + 40_000, b'x');
    assert_eq!(take(ApiKey::Metadata, 12, &body), Err(DecodeError::StringLength { field: "name", length: 32768 }));
}

#[test]
fn any_marker_that_is_not_negative_is_a_struct() {
    // DescribeTopicPartitions v0: no topics, limit 1, a cursor.
    let body = |marker: u8| [b"\x01\x00\x00\x00\x01", &[marker][..], b"\x02a\x00\x00\x00\x03\x00\x00"].concat();
    for marker in [0, 1, 2, 0x7f] {
        assert_eq!(take(ApiKey::DescribeTopicPartitions, 0, &body(marker)).unwrap(), (body(1).into(), 0));
    }
    assert_eq!(take(ApiKey::DescribeTopicPartitions, 0, b"\x01\x00\x00\x00\x01\xff\x00").unwrap().1, 0);
}

proptest! {
    #[test]
    fn random_bytes_never_panic_and_never_grow_beyond_bounds(
        request in 0..REQUESTS.len(),
        version in 0..16i16,
        body in prop_oneof![
            proptest::collection::vec(any::<u8>(), 0..200),
            proptest::collection::vec(prop_oneof![0..4u8, Just(0xff), Just(0x80)], 0..200),
        ],
    ) {
        let length = body.len();
        if let Ok((taken, left)) = take(REQUESTS[request].api_key, version, &body) {
            prop_assert!(left <= length);
            // Bad text grows to thrice its length at most.
            prop_assert!(taken.len() <= 3 * (length - left));
        }
    }
}
