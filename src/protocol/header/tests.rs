//! Headers of every length and kind.

use super::*;
use crate::protocol::versions::SERVED;

fn frame(api_key: i16, api_version: i16, rest: &[u8]) -> Bytes {
    [&api_key.to_be_bytes(), &api_version.to_be_bytes(), rest].concat().into()
}

/// Metadata v9 of client "me", with nothing after the header.
fn metadata() -> Bytes {
    frame(3, 9, b"\x00\x00\x00\x07\x00\x02me\x00")
}

#[test]
fn every_prefix_of_a_header_is_refused() {
    let whole = metadata();
    for length in 0..whole.len() {
        let refused = RequestHeader::decode(&mut whole.slice(..length));
        assert!(matches!(refused, Err(HeaderError::Malformed(DecodeError::Truncated { .. }))), "{length}: {refused:?}");
    }
    let header = RequestHeader::decode(&mut whole.clone()).unwrap();
    assert_eq!((header.api_key, header.api_version), (ApiKey::Metadata, 9));
    assert_eq!((header.correlation_id, header.client_id()), (7, "me"));
}

#[test]
fn the_body_is_left() {
    let mut frame = [&metadata()[..], b"body"].concat().into();
    RequestHeader::decode(&mut frame).unwrap();
    assert_eq!(frame, "body");
}

#[test]
fn a_negative_client_id_length_is_null_and_odd_text_is_replaced() {
    for length in [b"\xff\xff", b"\xff\xfe", b"\x80\x00"] {
        let rest = [&b"\x00\x00\x00\x07"[..], length].concat();
        let header = RequestHeader::decode(&mut frame(3, 0, &rest)).unwrap();
        assert_eq!(header.client_id, None);
        assert_eq!(header.client_id(), "");
    }
    let header = RequestHeader::decode(&mut frame(3, 0, b"\x00\x00\x00\x07\x00\x02a\xff")).unwrap();
    assert_eq!(header.client_id(), "a\u{fffd}");
}

#[test]
fn tagged_fields_of_the_header_are_passed_over() {
    let mut frame = frame(3, 9, b"\x00\x00\x00\x07\xff\xff\x02\x00\x01x\x05\x00body");
    RequestHeader::decode(&mut frame).unwrap();
    assert_eq!(frame, "body");
}

#[test]
fn what_is_not_served_is_refused() {
    let rest = b"\x00\x00\x00\x07\xff\xff\x00";
    let refused = |key, version| RequestHeader::decode(&mut frame(key, version, rest)).unwrap_err();
    assert_eq!(refused(-1, 0), HeaderError::UnknownApiKey { api_key: -1 });
    assert_eq!(refused(93, 0), HeaderError::UnknownApiKey { api_key: 93 });
    assert_eq!(refused(4, 0), HeaderError::NotServed { api_key: ApiKey::LeaderAndIsr });
    for served in SERVED.iter().filter(|served| served.api_key != ApiKey::ApiVersions) {
        let api_key = served.api_key;
        for api_version in [i16::MIN, -1, served.first_accepted - 1, served.max_version + 1, i16::MAX] {
            assert_eq!(refused(api_key.key(), api_version), HeaderError::UnsupportedVersion { api_key, api_version });
        }
        for api_version in served.first_accepted..=served.max_version {
            RequestHeader::decode(&mut frame(api_key.key(), api_version, rest)).unwrap();
        }
    }
}

#[test]
fn produce_below_3_is_advertised_and_refused() {
    assert_eq!(ApiKey::Produce.served().unwrap().min_version, 0);
    let refused = RequestHeader::decode(&mut frame(0, 2, b"\x00\x00\x00\x07\xff\xff"));
    assert_eq!(refused, Err(HeaderError::UnsupportedVersion { api_key: ApiKey::Produce, api_version: 2 }));
}

#[test]
fn api_versions_is_let_in_at_every_version() {
    for (version, unsupported) in [(0, false), (4, false), (5, true), (i16::MAX, true), (-1, true)] {
        let header = RequestHeader::decode(&mut frame(18, version, b"\x00\x00\x00\x07\xff\xff\x00")).unwrap();
        assert_eq!(header.is_unsupported_api_versions(), unsupported, "v{version}");
        assert_eq!(header.response_version(), if unsupported { 0 } else { version });
        let mut response = BytesMut::new();
        header.put_response_header(&mut response);
        assert_eq!(&response[..], b"\x00\x00\x00\x07", "v{version}");
    }
    // Without the tag byte that belongs to the header from v3 on, as Kafka sees it.
    assert!(RequestHeader::decode(&mut frame(18, 5, b"\x00\x00\x00\x07\xff\xff")).is_err());
}

#[test]
fn the_response_header_has_tagged_fields_in_flexible_versions() {
    for (version, expected) in [(8, &b"\x00\x00\x00\x07"[..]), (9, b"\x00\x00\x00\x07\x00")] {
        let header = RequestHeader::decode(&mut frame(3, version, b"\x00\x00\x00\x07\xff\xff\x00")).unwrap();
        let mut response = BytesMut::new();
        header.put_response_header(&mut response);
        assert_eq!(response, expected);
    }
}
