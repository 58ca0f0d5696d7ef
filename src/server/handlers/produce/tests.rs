//! What is refused before anything is appended, and how acknowledgements that do not come are answered.

use super::*;
use crate::protocol::produce::ProducePartition;
use crate::record::builder::RecordBatchBuilder;
use crate::record::compression::Codec;
use crate::types::Offset;

fn build(builder: RecordBatchBuilder) -> Bytes {
    let mut builder = builder;
    builder.append(0, None, Some(b"value"), &[]);
    builder.build()
}

fn batch() -> Bytes {
    build(RecordBatchBuilder::new(Offset(0)))
}

/// A topic with its partitions, and what is sent to each.
type Topic = (&'static str, &'static [(i32, &'static [u8])]);

fn request(topics: &[Topic]) -> ProduceRequest {
    let mut request = ProduceRequest::default();
    for (name, partitions) in topics {
        let partitions = partitions.iter().map(|&(partition, records)| ProducePartition {
            partition: PartitionId(partition),
            records: Some(Bytes::from_static(records)),
        });
        request.push_topic(StrBytes::from_static_str(name), TopicId::ZERO, partitions.collect());
    }
    request
}

#[test]
fn each_partition_counts_once_with_the_last_of_its_records() {
    let entries = |topics: &[Topic]| -> Vec<String> {
        let Entries { topics, entries } = Entries::of(&request(topics));
        let show = |entry: &Entry| {
            let records = entry.records.as_ref().unwrap();
            format!("{}-{} {}", topics[entry.topic].name, entry.partition, String::from_utf8_lossy(records))
        };
        entries.iter().map(show).collect()
    };
    assert_eq!(entries(&[("t", &[(3, b"a")])]), ["t-3 a"]);
    assert_eq!(entries(&[("t", &[(3, b"a"), (1, b"b"), (3, b"c")])]), ["t-3 c", "t-1 b"]);
    let scattered: &[Topic] =
        &[("t", &[(0, b"a")]), ("u", &[(0, b"b")]), ("t", &[(1, b"c"), (0, b"d")]), ("empty", &[])];
    assert_eq!(entries(scattered), ["t-0 d", "u-0 b", "t-1 c"]);
    assert_eq!(Entries::of(&request(scattered)).topics.len(), 2, "and each topic once");
    assert!(entries(&[("empty", &[])]).is_empty());
}

#[test]
fn records_are_refused_by_the_version_that_sends_them() {
    let twice = [&batch()[..], &batch()].concat();
    let zstd = build(RecordBatchBuilder::new(Offset(0)).compression(Codec::Zstd, 3));
    let elsewhere = build(RecordBatchBuilder::new(Offset(7)));
    for (records, version, expected) in [
        (Some(batch()), 3, None),
        (Some(batch()), 13, None),
        (None, 9, Some(ErrorCode::InvalidRecord)),
        (Some(Bytes::new()), 9, Some(ErrorCode::InvalidRecord)),
        (Some(twice.into()), 9, Some(ErrorCode::InvalidRecord)),
        (Some(zstd.clone()), 6, Some(ErrorCode::UnsupportedCompressionType)),
        (Some(zstd), 7, None),
        // That is the log's to refuse.
        (Some(elsewhere), 9, None),
    ] {
        assert_eq!(check_records(version, records.clone()).err(), expected, "{records:?} in version {version}");
    }
}

/// What is wrong with one partition may be the whole request's.
#[test]
fn some_faults_are_those_of_all() {
    let refused = |records: Bytes, transactional_id: Option<&'static str>| {
        let mut request = request(&[("sound", &[(0, b"")])]);
        let partition = ProducePartition { partition: PartitionId(1), records: Some(records) };
        request.push_topic(StrBytes::from_static_str("t"), TopicId::ZERO, vec![partition]);
        request.transactional_id = transactional_id.map(StrBytes::from_static_str);
        transaction_of(&request, 9).err().map(|refusal| refusal.code)
    };
    assert_eq!(refused(batch(), None), None);
    let mut bad_magic = batch().to_vec();
    bad_magic[16] = 9;
    assert_eq!(refused(bad_magic.into(), None), Some(ErrorCode::CorruptMessage));
    let mut too_large = batch().to_vec();
    too_large[8..12].copy_from_slice(&i32::MAX.to_be_bytes());
    assert_eq!(refused(too_large.into(), None), Some(ErrorCode::UnknownServerError));
    let transactional = build(RecordBatchBuilder::new(Offset(0)).transactional(true));
    let of_nobody = Some(ErrorCode::TransactionalIdAuthorizationFailed);
    assert_eq!(refused(transactional.clone(), None), of_nobody);
    assert_eq!(refused(transactional, Some("id")), None);
}

/// The records are in the log, whatever became of the acknowledgement: the answer says where, as Kafka's does.
#[tokio::test]
async fn an_acknowledgement_that_does_not_come_is_an_error_with_an_offset() {
    let deadline = Instant::now() + Duration::from_millis(100);
    let partition = ProduceResponsePartition {
        base_offset: Offset(7),
        ..ProduceResponsePartition::error(PartitionId(2), ErrorCode::None)
    };
    let wait = async |wait| {
        let mut answer = Answer { topic: 0, partition: partition.clone(), wait };
        acknowledged(&mut answer, deadline).await;
        assert_eq!((answer.partition.base_offset, answer.partition.partition), (Offset(7), PartitionId(2)));
        answer.partition.error_code
    };
    assert_eq!(wait(None).await, ErrorCode::None);
    for (reached, expected) in [
        (Some(Reached::Yes), ErrorCode::None),
        (Some(Reached::Never), ErrorCode::NotLeaderOrFollower),
        (None, ErrorCode::NotLeaderOrFollower),
    ] {
        let (sender, receiver) = oneshot::channel();
        match reached {
            Some(reached) => sender.send(reached).unwrap(),
            None => drop(sender),
        }
        assert_eq!(wait(Some(receiver)).await, expected);
    }
    let (_sender, receiver) = oneshot::channel();
    assert_eq!(wait(Some(receiver)).await, ErrorCode::RequestTimedOut);
    assert!(Instant::now() >= deadline);
    // One behind it, whose turn comes when the time is over, is still told what has happened before.
    let (sender, receiver) = oneshot::channel();
    sender.send(Reached::Yes).unwrap();
    assert_eq!(wait(Some(receiver)).await, ErrorCode::None);
}
