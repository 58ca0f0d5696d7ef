//! What may start beside a fetch that waits, and how what was read becomes an answer.

use super::*;
use crate::metadata::image::MetadataImage;
use crate::replica::{EpochEndOffset as LogEpochEnd, LeaderError};
use crate::server::fetch_session::FetchSessionCache;
use crate::types::{LeaderEpoch, Offset, PartitionId, TopicId};

/// Fifty connections with 64 fetches each, of ten thousand partitions and an endless wait, took two gigabytes.
#[test]
fn a_large_fetch_that_waits_lets_no_other_start() {
    let reply = |partitions| waiting(false, partitions, Box::pin(std::future::pending()));
    assert!(matches!(reply(MAX_PARKED_PARTITIONS), Reply::Parked(_)));
    assert!(matches!(reply(MAX_PARKED_PARTITIONS + 1), Reply::InOrder(_)));
}

/// The second of a session's requests that are pipelined begins where the first one ends.
#[test]
fn a_fetch_of_a_session_that_waits_lets_no_other_start() {
    assert!(matches!(waiting(true, 1, Box::pin(std::future::pending())), Reply::InOrder(_)));
}

fn read() -> PartitionRead {
    PartitionRead {
        records: LogSlice::empty(),
        high_watermark: Offset(9),
        last_stable_offset: Offset(8),
        log_start_offset: Offset(2),
        diverging_epoch: None,
        aborted_transactions: None,
        has_more: false,
    }
}

/// The answer of partition 0 of the topic `t` to a request of a version.
fn answer(result: Result<PartitionRead, Failure>, version: i16) -> FetchResponsePartition<LogSlice> {
    let mut request = FetchRequest::default();
    let partition = FetchPartition { partition: PartitionId(0), ..FetchPartition::default() };
    request.push_topic(StrBytes::from_static_str("t"), TopicId::ZERO, vec![partition]);
    let context = FetchSessionCache::new(0).begin(&request, false, 0).unwrap_or_else(|code| panic!("{code:?}"));
    let slots = context.slots().lock();
    let image = MetadataImage::empty();
    let mut hints = LeaderHints::new(&image, true);
    answer_partition(slots.get(0).unwrap(), Outcome { slot: 0, result }, version, &mut hints)
}

#[test]
fn errors_are_told_in_the_words_of_the_version() {
    let code = |failure: Failure, version| answer(Err(failure), version).error_code;
    let leader = |error: LeaderError| Failure::Read(PartitionReadError::Leader(error));
    let log = |error: ReadError| Failure::Read(PartitionReadError::Log(error));
    assert_eq!(code(Failure::Lookup(LookupError::UnknownTopicId), 13), ErrorCode::UnknownTopicId);
    assert_eq!(code(Failure::Lookup(LookupError::UnknownTopicOrPartition), 4), ErrorCode::UnknownTopicOrPartition);
    assert_eq!(code(Failure::InconsistentTopicId, 13), ErrorCode::InconsistentTopicId);
    assert_eq!(code(Failure::Lookup(LookupError::NotHere), 4), ErrorCode::NotLeaderOrFollower);
    assert_eq!(code(leader(LeaderError::NotLeaderOrFollower), 12), ErrorCode::NotLeaderOrFollower);
    assert_eq!(code(leader(LeaderError::FencedLeaderEpoch), 12), ErrorCode::FencedLeaderEpoch);
    assert_eq!(code(leader(LeaderError::UnknownLeaderEpoch), 12), ErrorCode::UnknownLeaderEpoch);
    assert_eq!(code(Failure::Read(PartitionReadError::NegativeSize), 12), ErrorCode::UnknownServerError);
    let out_of_range =
        || log(ReadError::OutOfRange { offset: Offset(1), log_start_offset: Offset(2), log_end_offset: Offset(9) });
    assert_eq!(code(out_of_range(), 4), ErrorCode::OffsetOutOfRange);
    // A failed disk is another broker's turn, to those who know no such error.
    let offline: [fn() -> Failure; 3] = [
        || Failure::Lookup(LookupError::Offline),
        || Failure::Read(PartitionReadError::Leader(LeaderError::Offline)),
        || Failure::Read(PartitionReadError::Log(ReadError::Io(std::io::Error::other("test")))),
    ];
    for offline in offline {
        assert_eq!(
            [5, 6].map(|version| code(offline(), version)),
            [ErrorCode::NotLeaderOrFollower, ErrorCode::KafkaStorageError,]
        );
    }
    // Nothing is said of offsets with an error.
    let refused = answer(Err(out_of_range()), 12);
    assert_eq!((refused.high_watermark, refused.log_start_offset), (Offset(-1), Offset(-1)));
    assert!(matches!(refused.records, FetchRecords::Empty));
}

#[test]
fn what_was_read_is_told_with_its_bounds() {
    let told = answer(Ok(read()), 12);
    assert_eq!((told.error_code, told.partition), (ErrorCode::None, PartitionId(0)));
    assert_eq!(
        (told.high_watermark, told.last_stable_offset, told.log_start_offset),
        (Offset(9), Offset(8), Offset(2))
    );
    assert!(told.aborted_transactions.is_none() && told.diverging_epoch.is_none());
    let end = LogEpochEnd { leader_epoch: LeaderEpoch(3), end_offset: Offset(5) };
    let diverging = answer(Ok(PartitionRead { diverging_epoch: Some(end), ..read() }), 12);
    assert_eq!(diverging.diverging_epoch, Some(EpochEndOffset { epoch: LeaderEpoch(3), end_offset: Offset(5) }));
}

/// Partitions that are not there come last, first those of unknown topic ids; the others keep their order.
#[test]
fn answers_come_in_kafkas_order() {
    let failed = |slot, failure| Outcome { slot, result: Err(failure) };
    let outcomes = vec![
        failed(0, Failure::Lookup(LookupError::UnknownTopicOrPartition)),
        Outcome { slot: 1, result: Ok(read()) },
        failed(2, Failure::Lookup(LookupError::UnknownTopicId)),
        failed(3, Failure::Read(PartitionReadError::NegativeSize)),
        // These were there when the request came.
        failed(4, Failure::Gone(LookupError::UnknownTopicOrPartition)),
        failed(5, Failure::Gone(LookupError::UnknownTopicId)),
        Outcome { slot: 6, result: Ok(read()) },
        failed(7, Failure::Lookup(LookupError::UnknownTopicOrPartition)),
    ];
    let order: Vec<usize> = in_order_of_answer(outcomes).iter().map(|outcome| outcome.slot).collect();
    assert_eq!(order, [1, 3, 4, 5, 6, 2, 0, 7]);
}

/// As Kafka groups them: by topic, as long as the topic stays the same.
#[test]
fn partitions_are_grouped_as_they_come() {
    let mut response = FetchResponse::default();
    for (topic, id, partition) in
        [("t", 0, 0), ("t", 0, 1), ("u", 0, 0), ("t", 0, 2), ("", 1, 0), ("", 2, 0), ("", 2, 1)]
    {
        let id = TopicId(uuid::Uuid::from_u128(id));
        push(&mut response, (topic.into(), id), FetchResponsePartition::error(PartitionId(partition), ErrorCode::None));
    }
    let groups: Vec<String> = response
        .topics
        .iter()
        .map(|topic| {
            let partitions: Vec<String> = topic.partitions.iter().map(|of| of.partition.to_string()).collect();
            format!("{}{} {}", topic.name, topic.topic_id.0.as_u128(), partitions.join(","))
        })
        .collect();
    assert_eq!(groups, ["t0 0,1", "u0 0", "t0 2", "1 0", "2 0,1"]);
}
