//! The codec against itself, and against the logs and snapshots that Apache Kafka 4.3.1 wrote and what its own decoder
//! says of them.

use proptest::prelude::*;
use rand::SeedableRng as _;
use rand::rngs::StdRng;
use serde_json::Value;

use super::samples::one_of_each;
use super::*;
use crate::metadata::fixtures;
use crate::record::batch::batches;

proptest! {
    #[test]
    fn every_record_round_trips_at_every_version(seed in any::<u64>()) {
        for (version, record) in one_of_each(&mut StdRng::seed_from_u64(seed)) {
            let record = VersionedRecord { record, version };
            let bytes = record.encode();
            prop_assert_eq!(VersionedRecord::decode(&bytes), Ok(record));
            // Cut anywhere it is an error, never a panic and never another record.
            for end in (0..bytes.len()).step_by(7) {
                prop_assert!(VersionedRecord::decode(&bytes[..end]).is_err());
            }
            let longer = [&bytes[..], &[0]].concat();
            prop_assert_eq!(VersionedRecord::decode(&longer), Err(DecodeError::LeftOver(1)));
        }
    }

    #[test]
    fn damaged_records_never_panic(seed in any::<u64>(), hits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8)) {
        for (version, record) in one_of_each(&mut StdRng::seed_from_u64(seed)) {
            let mut bytes = VersionedRecord { record, version }.encode();
            for (at, value) in &hits {
                let at = at.index(bytes.len());
                bytes[at] = *value;
            }
            let _ = VersionedRecord::decode(&bytes);
        }
    }
}

/// Kafka's name of a record in the dumps, from the schema's: `TopicRecord` is `TOPIC_RECORD`.
fn dump_name(name: &str) -> String {
    let mut out = String::new();
    for letter in name.chars() {
        if letter.is_uppercase() && !out.is_empty() {
            out.push('_');
        }
        out.extend(letter.to_uppercase());
    }
    out
}

#[test]
fn reads_what_kafka_wrote_and_writes_the_same_bytes() {
    let mut seen = std::collections::BTreeSet::new();
    for name in fixtures::NAMES {
        let files = fixtures::files(name);
        let mut dumps = fixtures::dump(name);
        // Kafka's decoder was not run on this one.
        dumps.remove("bootstrap.checkpoint");
        assert!(!dumps.is_empty(), "{name}");
        for (path, dumped) in dumps {
            let bytes = &files[&path];
            let mut dumped = dumped.iter();
            for batch in batches(bytes) {
                let batch = batch.unwrap();
                for record in batch.uncompressed_records().unwrap() {
                    let record = record.unwrap();
                    let expected = dumped.next().unwrap_or_else(|| panic!("{name}/{path}: {}", record.offset));
                    assert_eq!(record.offset.0, expected.offset, "{name}/{path}");
                    if batch.is_control() {
                        assert_ne!(expected.control, "");
                        continue;
                    }
                    let value = record.value.unwrap();
                    let decoded = VersionedRecord::decode(value)
                        .unwrap_or_else(|error| panic!("{name}/{path}: {}: {error}", record.offset));
                    assert_eq!(decoded.encode(), value, "{name}/{path}: {}", record.offset);
                    let printed = serde_json::json!({
                        "type": dump_name(decoded.record.name()),
                        "version": decoded.version,
                        "data": decoded.record.to_json(decoded.version),
                    });
                    assert_eq!(printed, expected.json, "{name}/{path}: {}", record.offset);
                    seen.insert((decoded.record.name(), decoded.version));
                }
            }
            assert_eq!(dumped.next().map(|record| record.offset), None, "{name}/{path}");
        }
    }
    assert!(seen.len() >= 21, "{seen:?}");
}

#[test]
fn names_what_it_does_not_know() {
    let error = |bytes: &[u8]| VersionedRecord::decode(bytes).unwrap_err().to_string();
    assert_eq!(error(&[2, 2, 0]), "frame version 2 is not known, only 1");
    assert_eq!(error(&[1, 99, 0]), "record type 99 is not known");
    assert_eq!(error(&[1, 2, 1]), "TopicRecord version 1 is not known");
    assert_eq!(error(&[1, 2, 0xff, 0xff, 0x7f]), "TopicRecord version 32767 is not known");
    assert_eq!(error(&[1, 2]), "the record ends too early");
    assert_eq!(error(&[1, 0xff, 0xff, 0xff, 0xff, 0xff, 1]), "a varint is longer than its type");
    // A config of 4 billion bytes in a record of ten.
    assert_eq!(
        error(&[1, 4, 0, 4, 0xff, 0xff, 0xff, 0xff, 0x0f, 0]),
        "the record ends too early: 4294967294 bytes should follow, and 1 do"
    );
}

#[test]
fn a_field_that_a_version_lacks_is_an_error_and_no_loss() {
    let record = RegisterBrokerRecord { in_controlled_shutdown: true, ..RegisterBrokerRecord::default() };
    let error = record.encode(0, &mut Vec::new()).unwrap_err();
    assert_eq!(error, EncodeError::FieldNotInVersion { field: "InControlledShutdown", version: 0 });
    let error = record.encode(5, &mut Vec::new()).unwrap_err();
    assert_eq!(error, EncodeError::UnknownVersion { record: "RegisterBrokerRecord", version: 5 });
    assert_eq!(record.encode(1, &mut Vec::new()), Ok(()));
}

#[test]
fn tagged_fields_of_a_newer_kafka_are_skipped() {
    // A TopicRecord with a tagged field 7 of two bytes.
    let topic =
        VersionedRecord::lowest(TopicRecord { name: "a".to_owned(), topic_id: crate::types::TopicId::METADATA });
    let mut bytes = topic.encode();
    assert_eq!(bytes.pop(), Some(0));
    bytes.extend([1, 7, 2, 0xaa, 0xbb]);
    assert_eq!(VersionedRecord::decode(&bytes), Ok(topic));
    let last = bytes.len() - 3;
    bytes[last] = 3;
    assert_eq!(VersionedRecord::decode(&bytes), Err(DecodeError::TruncatedBytes { size: 3, left: 2 }));
}

#[test]
fn json_hides_what_is_not_set() {
    let change = PartitionChangeRecord { leader: crate::types::BrokerId(1), ..PartitionChangeRecord::default() };
    let expected: Value =
        serde_json::from_str(r#"{"partitionId":-1,"topicId":"AAAAAAAAAAAAAAAAAAAAAA","leader":1}"#).unwrap();
    assert_eq!(MetadataRecord::from(change).to_json(2), expected);
}
