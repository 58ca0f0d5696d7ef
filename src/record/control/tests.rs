//! Control records there and back, and cut off.

use super::*;

fn round_trip(record: ControlRecord) {
    assert_eq!(ControlRecord::parse(&record.key(), &record.value()), Ok(record));
}

fn voter(id: i32) -> Voter {
    let endpoint = |name: &str, port| VoterEndpoint { name: name.to_owned(), host: "ho\u{df}t".to_owned(), port };
    Voter {
        id: BrokerId(id),
        directory_id: DirectoryId::random(),
        endpoints: vec![endpoint("CONTROLLER", 9093), endpoint(&"x".repeat(200), 65535)],
        min_kraft_version: 0,
        max_kraft_version: 1,
    }
}

#[test]
fn records_read_back() {
    for committed in [true, false] {
        round_trip(ControlRecord::EndTxn(EndTxnMarker { committed, coordinator_epoch: -7 }));
    }
    round_trip(ControlRecord::LeaderChange(LeaderChange {
        leader_id: BrokerId(1),
        voters: vec![BrokerId(1), BrokerId(2), BrokerId(3000)],
        granting_voters: vec![],
    }));
    round_trip(ControlRecord::SnapshotHeader { last_contained_log_timestamp: i64::MIN });
    round_trip(ControlRecord::SnapshotFooter);
    round_trip(ControlRecord::KRaftVersion { kraft_version: 1 });
    round_trip(ControlRecord::KRaftVoters((0..200).map(voter).collect()));
    round_trip(ControlRecord::Unknown { id: 99, value: vec![1, 2, 3] });
}

/// KIP-853 gave the voters of a leader change a directory id, in a version that nobody writes yet.
#[test]
fn a_leader_change_of_version_1_is_read() {
    let mut value = vec![0, 1, 0, 0, 0, 7, 2, 0, 0, 0, 7];
    value.extend([0xab; 16]);
    value.extend([0, 1, 0]);
    let change = LeaderChange { leader_id: BrokerId(7), voters: vec![BrokerId(7)], granting_voters: vec![] };
    let key = ControlRecordType::LeaderChange.key();
    assert_eq!(ControlRecord::parse(&key, &value), Ok(ControlRecord::LeaderChange(change)));
}

#[test]
fn unknown_tagged_fields_are_passed_over() {
    let mut value = ControlRecord::KRaftVersion { kraft_version: 1 }.value();
    value.pop();
    value.extend([1, 9, 3, 1, 2, 3]);
    let key = ControlRecordType::KRaftVersion.key();
    assert_eq!(ControlRecord::parse(&key, &value), Ok(ControlRecord::KRaftVersion { kraft_version: 1 }));
}

#[test]
fn what_is_cut_off_or_impossible_is_an_error() {
    for record in [
        ControlRecord::EndTxn(EndTxnMarker { committed: true, coordinator_epoch: 1 }),
        ControlRecord::KRaftVoters(vec![voter(1)]),
    ] {
        let value = record.value();
        // The tagged fields of the message itself are not read.
        for size in 0..value.len() - 1 {
            assert_eq!(ControlRecord::parse(&record.key(), &value[..size]), Err(ControlRecordError::Incomplete));
        }
    }
    assert_eq!(ControlRecordType::parse(&[0, 0, 0]), Err(ControlRecordError::Incomplete));
    assert_eq!(ControlRecordType::parse(&[0xff, 0xff, 0, 0]), Err(ControlRecordError::NegativeVersion(-1)));
    assert_eq!(ControlRecordType::parse(&[0, 9, 0, 1, 5]), Ok(ControlRecordType::Commit));
    let voters = ControlRecordType::KRaftVoters.key();
    for count in [&[0xff, 0xff, 0xff, 0xff, 0x0f][..], &[0xff, 0xff, 0xff, 0xff, 0x7f]] {
        assert_eq!(ControlRecord::parse(&voters, &[&[0, 0], count].concat()), Err(ControlRecordError::Incomplete));
    }
    assert_eq!(ControlRecord::parse(&voters, &[0, 0, 0]), Err(ControlRecordError::InvalidSize));
    assert_eq!(
        ControlRecord::parse(&voters, &[0, 0, 0xff, 0xff, 0xff, 0xff, 0xff]),
        Err(ControlRecordError::InvalidSize)
    );
}
