//! Transcripts: a rule each. Groups with members are made by their records.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use kafka_protocol::protocol::StrBytes;
use uuid::Uuid;

use super::commit::{CommitTopic, OffsetCommit};
use super::delete::DeleteTopic;
use super::fetch::OffsetFetchError;
use crate::config::BrokerConfig;
use crate::coordinator::group::admin::ListFilter;
use crate::coordinator::group::records::*;
use crate::coordinator::group::{Committer, GroupShard};
use crate::coordinator::shard::harness::{Harness, START_MS};
use crate::coordinator::shard::{CoordinatorError, CoordinatorShard as _, RecordOrigin, TransactionalProducer};
use crate::metadata::image::{MetadataDelta, MetadataImage};
use crate::metadata::records::TopicRecord;
use crate::protocol::ErrorCode;
use crate::protocol::offset_commit::OffsetCommitPartition;
use crate::protocol::offset_fetch::{OffsetFetchGroup, OffsetFetchTopic};
use crate::types::{LeaderEpoch, Offset, PartitionId, ProducerEpoch, ProducerId, TopicId};

mod fixtures;
mod properties;

pub(super) const T: TopicId = TopicId(Uuid::from_u128(0x7));
const MINUTE: Duration = Duration::from_secs(60);

/// Which fields of a commit differ from the usual.
#[derive(Clone)]
pub(super) struct Commit<'a> {
    pub group: &'a str,
    pub member: &'a str,
    pub generation: i32,
    pub version: i16,
    pub retention_time_ms: i64,
    pub topic: &'a str,
    pub topic_id: TopicId,
    /// Partition, offset, metadata.
    pub partitions: Vec<(i32, i64, &'a str)>,
}

pub(super) fn commit<'a>(group: &'a str, partitions: &[(i32, i64, &'a str)]) -> Commit<'a> {
    Commit {
        group,
        member: "",
        generation: -1,
        version: 10,
        retention_time_ms: -1,
        topic: "t",
        topic_id: T,
        partitions: partitions.to_vec(),
    }
}

impl Commit<'_> {
    pub(super) fn run<T>(&self, transactional: bool, op: impl FnOnce(&OffsetCommit<'_>) -> T) -> T {
        let partitions: Vec<_> = self
            .partitions
            .iter()
            .map(|(partition, offset, metadata)| OffsetCommitPartition {
                partition: PartitionId(*partition),
                committed_offset: Offset(*offset),
                committed_leader_epoch: LeaderEpoch(3),
                committed_metadata: Some(StrBytes::from_string((*metadata).to_owned())),
            })
            .collect();
        op(&OffsetCommit {
            group_id: self.group,
            committer: Committer {
                member_id: self.member,
                group_instance_id: None,
                generation_id_or_member_epoch: self.generation,
                transactional,
                api_version: self.version,
            },
            retention_time_ms: self.retention_time_ms,
            topics: vec![CommitTopic {
                name: self.topic,
                topic_id: self.topic_id,
                partitions: partitions.iter().collect(),
            }],
        })
    }
}

fn image(topics: &[(&str, TopicId)]) -> MetadataImage {
    let mut image = MetadataImage::empty();
    for (name, topic_id) in topics {
        let record = TopicRecord { name: (*name).to_owned(), topic_id: *topic_id };
        image.apply(&record.into(), &mut MetadataDelta::default()).expect("a new topic");
    }
    image
}

fn harness() -> Harness<GroupShard> {
    Harness::new(GroupShard::default(), image(&[("t", T)]), BrokerConfig::default())
}

type Codes = Result<Vec<ErrorCode>, ErrorCode>;

fn run_commit(harness: &mut Harness<GroupShard>, commit: &Commit<'_>) -> Codes {
    let outcome = commit.run(false, |commit| harness.step(|shard, step| shard.commit_offsets(commit, step)));
    outcome.expect("appended").map_err(|error| error.code)
}

fn run_transactional(harness: &mut Harness<GroupShard>, commit: &Commit<'_>, producer: i64) -> Codes {
    let producer =
        TransactionalProducer { producer_id: ProducerId(producer), producer_epoch: ProducerEpoch(0), guard: None };
    let outcome = commit
        .run(true, |commit| harness.step(|shard, step| shard.commit_transactional_offsets(commit, producer, step)));
    outcome.expect("appended").map_err(|error| error.code)
}

fn end(harness: &mut Harness<GroupShard>, producer: i64, committed: bool) {
    harness.shard.replay_end_transaction(ProducerId(producer), committed);
}

/// Everything a group has, as text: `TOPIC PARTITION OFFSET METADATA`, or an error.
pub(super) fn fetched(shard: &GroupShard, group: &str, stable: bool) -> Result<Vec<String>, ErrorCode> {
    let all = OffsetFetchGroup { group_id: StrBytes::from_string(group.to_owned()), ..OffsetFetchGroup::default() };
    let topics = shard.fetch_offsets(&all, stable, usize::MAX).map_err(|error| match error {
        OffsetFetchError::Refused(error) => error.code,
        OffsetFetchError::TooLarge => unreachable!("there is no limit"),
    })?;
    let lines = topics.iter().flat_map(|topic| {
        topic.partitions.iter().map(|partition| match partition.error_code {
            ErrorCode::None => {
                let metadata = partition.metadata.as_deref().expect("never null");
                format!("{} {} {} {metadata}", topic.name, partition.partition, partition.committed_offset)
            }
            code => format!("{} {} {}", topic.name, partition.partition, code.name()),
        })
    });
    Ok(lines.map(|line| line.trim_end().to_owned()).collect())
}

fn groups(harness: &Harness<GroupShard>) -> Vec<String> {
    let listed = harness.shard.list_groups(&ListFilter::default());
    let line = |group: crate::coordinator::group::admin::ListedGroup| {
        format!("{} {} {} {}", group.group_id, group.protocol_type, group.state, group.group_type.name())
    };
    listed.into_iter().map(line).collect()
}

/// Puts a classic group's record into the log: of consumers with these members, all subscribed to `topic`.
fn classic_group(harness: &mut Harness<GroupShard>, group: &str, members: &[&str], topic: &str, empty_since_ms: i64) {
    let mut subscription = b"\0\0\0\0\0\x01".to_vec();
    subscription.extend((topic.len() as u16).to_be_bytes());
    subscription.extend(topic.as_bytes());
    subscription.extend(b"\xff\xff\xff\xff");
    let members = members.iter().map(|member| MemberMetadata {
        member_id: (*member).to_owned(),
        session_timeout: i32::MAX,
        rebalance_timeout: i32::MAX,
        subscription: Bytes::from(subscription.clone()),
        ..MemberMetadata::default()
    });
    let members: Vec<_> = members.collect();
    let value = GroupMetadataValue {
        protocol_type: "consumer".to_owned(),
        generation: 4,
        protocol: members.first().map(|_| "range".to_owned()),
        leader: members.first().map(|leader| leader.member_id.clone()),
        current_state_timestamp: empty_since_ms,
        members,
    };
    let record = GroupRecord::GroupMetadata(GroupMetadataKey { group: group.to_owned() }, Some(value));
    harness.step(|_, step| step.append(record)).expect("appended");
}

const OK: ErrorCode = ErrorCode::None;

#[test]
fn a_commit_of_nobody_makes_a_group_that_is_there_after_a_reload() {
    let mut harness = harness();
    assert_eq!(run_commit(&mut harness, &commit("g", &[(0, 5, "note"), (1, -7, "")])), Ok(vec![OK, OK]));
    let expected = ["t 0 5 note", "t 1 -7"];
    assert_eq!(fetched(&harness.shard, "g", true).unwrap(), expected);
    assert_eq!(groups(&harness), ["g  Empty classic"]);
    let GroupRecord::OffsetCommit(key, Some(value)) = harness.take_records().remove(0) else { panic!("a commit") };
    assert_eq!((&*key.group, &*key.topic, key.partition), ("g", "t", 0));
    assert_eq!((value.offset, value.leader_epoch, &*value.metadata), (5, 3, "note"));
    assert_eq!((value.commit_timestamp, value.expire_timestamp, value.topic_id), (START_MS, -1, T.0));
    harness.reload(GroupShard::default());
    assert_eq!(fetched(&harness.shard, "g", true).unwrap(), expected);
    assert_eq!(groups(&harness), ["g  Empty classic"]);
}

#[test]
fn nothing_is_kept_of_a_commit_that_is_not_in_the_log() {
    let mut harness = harness();
    harness.append_error = Some(CoordinatorError::NotCoordinator);
    let outcome = commit("g", &[(0, 5, "")])
        .run(false, |commit| harness.step(|shard, step| shard.commit_offsets(commit, step).map(|_| ())));
    assert_eq!(outcome, Err(CoordinatorError::NotCoordinator));
    assert_eq!(fetched(&harness.shard, "g", false).unwrap(), [""; 0]);
    assert_eq!(groups(&harness), [""; 0]);
}

#[test]
fn who_claims_to_be_a_member_of_no_group_is_refused_by_version() {
    let mut harness = harness();
    let of_member = Commit { member: "m", generation: 0, ..commit("g", &[(0, 1, "")]) };
    assert_eq!(run_commit(&mut harness, &of_member), Err(ErrorCode::GroupIdNotFound));
    let older = Commit { version: 8, ..of_member.clone() };
    assert_eq!(run_commit(&mut harness, &older), Err(ErrorCode::IllegalGeneration));
    assert_eq!(run_transactional(&mut harness, &of_member, 1), Err(ErrorCode::IllegalGeneration));
    assert_eq!(groups(&harness), [""; 0]);
}

#[test]
fn a_group_with_members_takes_commits_of_its_generation_alone() {
    let mut harness = harness();
    classic_group(&mut harness, "g", &["m"], "t", 0);
    let of = |member, generation| Commit { member, generation, ..commit("g", &[(0, 1, "")]) };
    assert_eq!(run_commit(&mut harness, &of("m", 4)), Ok(vec![OK]));
    assert_eq!(run_commit(&mut harness, &of("m", 3)), Err(ErrorCode::IllegalGeneration));
    assert_eq!(run_commit(&mut harness, &of("stranger", 4)), Err(ErrorCode::UnknownMemberId));
    assert_eq!(run_commit(&mut harness, &of("", -1)), Err(ErrorCode::UnknownMemberId));
    assert_eq!(run_transactional(&mut harness, &of("", -1), 1), Ok(vec![OK]), "old producers say no member");
}

#[test]
fn metadata_is_bounded_in_javas_characters() {
    let mut harness = harness();
    let (longest, too_long) = ("ü".repeat(4096), "ü".repeat(4097));
    let (pairs, too_many_pairs) = ("🙂".repeat(2048), "🙂".repeat(2049));
    let partitions = [(0, 1, &*longest), (1, 1, &*too_long), (2, 1, &*pairs), (3, 1, &*too_many_pairs)];
    let too_large = ErrorCode::OffsetMetadataTooLarge;
    assert_eq!(run_commit(&mut harness, &commit("g", &partitions)), Ok(vec![OK, too_large, OK, too_large]));
    assert_eq!(fetched(&harness.shard, "g", false).unwrap().len(), 2);
    // A group comes to be even if none of its offsets is taken.
    assert_eq!(run_commit(&mut harness, &commit("h", &[(0, 1, &*too_long)])), Ok(vec![too_large]));
    assert_eq!(groups(&harness), ["g  Empty classic", "h  Empty classic"]);
}

#[test]
fn offsets_are_fetched_by_partition_and_of_the_same_topic() {
    let mut harness = harness();
    run_commit(&mut harness, &commit("g", &[(0, 5, "note")])).unwrap();
    let ask = |topic: &'static str, topic_id| {
        let topic = OffsetFetchTopic {
            name: StrBytes::from_static_str(topic),
            topic_id,
            partitions: vec![PartitionId(1), PartitionId(0), PartitionId(0)],
        };
        let group = OffsetFetchGroup {
            group_id: StrBytes::from_static_str("g"),
            topics: Some(vec![topic]),
            ..OffsetFetchGroup::default()
        };
        let topics = harness.shard.fetch_offsets(&group, false, usize::MAX).expect("no error");
        topics[0].partitions.iter().map(|p| (p.partition.0, p.committed_offset.0)).collect::<Vec<_>>()
    };
    assert_eq!(ask("t", TopicId::ZERO), [(1, -1), (0, 5), (0, 5)]);
    assert_eq!(ask("t", T), [(1, -1), (0, 5), (0, 5)]);
    assert_eq!(ask("t", TopicId(Uuid::from_u128(8))), [(1, -1), (0, -1), (0, -1)], "the name is another topic's now");
    assert_eq!(ask("u", TopicId::ZERO), [(1, -1), (0, -1), (0, -1)]);
}

#[test]
fn a_transactions_offsets_count_once_it_commits() {
    let mut harness = harness();
    run_commit(&mut harness, &commit("g", &[(0, 1, ""), (1, 1, "")])).unwrap();
    run_transactional(&mut harness, &commit("g", &[(0, 2, ""), (2, 2, "")]), 1).unwrap();
    assert_eq!(fetched(&harness.shard, "g", false).unwrap(), ["t 0 1", "t 1 1"]);
    let unstable = ["t 0 UNSTABLE_OFFSET_COMMIT", "t 1 1"];
    assert_eq!(fetched(&harness.shard, "g", true).unwrap(), unstable);
    end(&mut harness, 2, true);
    assert_eq!(fetched(&harness.shard, "g", true).unwrap(), unstable, "another producer's marker");
    end(&mut harness, 1, true);
    assert_eq!(fetched(&harness.shard, "g", true).unwrap(), ["t 0 2", "t 1 1", "t 2 2"]);
    run_transactional(&mut harness, &commit("g", &[(0, 3, "")]), 1).unwrap();
    end(&mut harness, 1, false);
    assert_eq!(fetched(&harness.shard, "g", true).unwrap(), ["t 0 2", "t 1 1", "t 2 2"]);
}

#[test]
fn the_later_record_wins_over_a_transaction_that_ends_later() {
    let mut harness = harness();
    run_transactional(&mut harness, &commit("g", &[(0, 2, "")]), 1).unwrap();
    run_commit(&mut harness, &commit("g", &[(0, 1, "")])).unwrap();
    end(&mut harness, 1, true);
    assert_eq!(fetched(&harness.shard, "g", true).unwrap(), ["t 0 1"]);
}

#[test]
fn several_transactions_may_be_about_to_change_an_offset() {
    let mut harness = harness();
    run_transactional(&mut harness, &commit("g", &[(0, 1, "")]), 1).unwrap();
    run_transactional(&mut harness, &commit("g", &[(0, 2, "")]), 2).unwrap();
    end(&mut harness, 2, true);
    assert_eq!(fetched(&harness.shard, "g", true).unwrap(), ["t 0 UNSTABLE_OFFSET_COMMIT"]);
    end(&mut harness, 1, true);
    assert_eq!(fetched(&harness.shard, "g", true).unwrap(), ["t 0 2"]);
}

fn run_delete(harness: &mut Harness<GroupShard>, group: &str, partitions: &[i32]) -> Codes {
    let topic = DeleteTopic { name: "t", partitions: partitions.iter().copied().map(PartitionId).collect() };
    let outcome = harness.step(|shard, step| shard.delete_offsets(group, &[&topic], step));
    outcome.expect("appended").map_err(|error| error.code)
}

#[test]
fn offsets_are_deleted_with_what_is_pending() {
    let mut harness = harness();
    assert_eq!(run_delete(&mut harness, "g", &[0]), Err(ErrorCode::GroupIdNotFound));
    run_commit(&mut harness, &commit("g", &[(0, 1, ""), (1, 1, "")])).unwrap();
    run_transactional(&mut harness, &commit("g", &[(0, 2, ""), (2, 2, "")]), 1).unwrap();
    harness.take_records();
    assert_eq!(run_delete(&mut harness, "g", &[0, 2, 9]), Ok(vec![OK]));
    assert_eq!(harness.take_records().len(), 2, "a tombstone for each that is there");
    end(&mut harness, 1, true);
    assert_eq!(fetched(&harness.shard, "g", true).unwrap(), ["t 1 1"]);
    assert_eq!(groups(&harness), ["g  Empty classic"]);
}

#[test]
fn offsets_of_topics_in_use_are_not_deleted() {
    let mut harness = harness();
    classic_group(&mut harness, "g", &["m"], "t", 0);
    let of_member = Commit { member: "m", generation: 4, ..commit("g", &[(0, 1, "")]) };
    run_commit(&mut harness, &of_member).unwrap();
    assert_eq!(run_delete(&mut harness, "g", &[0]), Ok(vec![ErrorCode::GroupSubscribedToTopic]));
    classic_group(&mut harness, "h", &["m"], "other", 0);
    run_commit(&mut harness, &Commit { group: "h", ..of_member }).unwrap();
    assert_eq!(run_delete(&mut harness, "h", &[0]), Ok(vec![OK]));
    assert_eq!(fetched(&harness.shard, "h", true).unwrap(), [""; 0]);
}

fn delete_group(harness: &mut Harness<GroupShard>, group: &str) -> Result<(), ErrorCode> {
    let outcome = harness.step(|shard, step| shard.delete_group(group, step));
    outcome.expect("appended").map_err(|error| error.code)
}

#[test]
fn a_group_is_deleted_with_its_offsets_if_it_is_empty() {
    let mut harness = harness();
    assert_eq!(delete_group(&mut harness, "g"), Err(ErrorCode::GroupIdNotFound));
    classic_group(&mut harness, "g", &["m"], "t", 0);
    assert_eq!(delete_group(&mut harness, "g"), Err(ErrorCode::NonEmptyGroup));
    classic_group(&mut harness, "g", &[], "t", 0);
    run_commit(&mut harness, &commit("g", &[(0, 1, ""), (1, 1, "")])).unwrap();
    run_transactional(&mut harness, &commit("g", &[(0, 2, ""), (2, 2, "")]), 1).unwrap();
    harness.take_records();
    assert_eq!(delete_group(&mut harness, "g"), Ok(()));
    let records = harness.take_records();
    assert_eq!(records.len(), 4, "three offsets and the group: {records:?}");
    assert!(matches!(records.last(), Some(GroupRecord::GroupMetadata(_, None))));
    end(&mut harness, 1, true);
    assert_eq!(groups(&harness), [""; 0]);
    assert_eq!(fetched(&harness.shard, "g", true).unwrap(), [""; 0]);
    harness.reload(GroupShard::default());
    assert_eq!(groups(&harness), [""; 0]);
}

#[test]
fn offsets_of_a_simple_group_expire_by_their_commit_and_the_group_with_the_last() {
    let mut harness = harness();
    let retention = MINUTE * 10_080;
    run_commit(&mut harness, &commit("g", &[(0, 1, "")])).unwrap();
    harness.advance(MINUTE * 60);
    run_commit(&mut harness, &commit("g", &[(1, 1, "")])).unwrap();
    harness.advance(retention - MINUTE * 61);
    assert_eq!(fetched(&harness.shard, "g", true).unwrap(), ["t 0 1", "t 1 1"]);
    harness.advance(MINUTE * 11);
    assert_eq!(fetched(&harness.shard, "g", true).unwrap(), ["t 1 1"], "the check is every 10 minutes");
    assert_eq!(groups(&harness), ["g  Empty classic"]);
    harness.advance(MINUTE * 60);
    assert_eq!(groups(&harness), [""; 0]);
    harness.reload(GroupShard::default());
    assert_eq!(groups(&harness), [""; 0]);
}

#[test]
fn offsets_of_an_empty_group_expire_by_the_time_that_it_became_empty() {
    let mut harness = harness();
    run_commit(&mut harness, &commit("g", &[(0, 1, "")])).unwrap();
    harness.advance(MINUTE * 10_000);
    let now_ms = START_MS + harness.now.as_millis() as i64;
    classic_group(&mut harness, "g", &[], "t", now_ms);
    harness.advance(MINUTE * 10_000);
    assert_eq!(fetched(&harness.shard, "g", true).unwrap(), ["t 0 1"]);
    harness.advance(MINUTE * 100);
    assert_eq!(groups(&harness), [""; 0]);
}

#[test]
fn offsets_of_topics_in_use_do_not_expire() {
    let mut harness = harness();
    for (group, topic) in [("reads", "t"), ("reads no more", "other")] {
        classic_group(&mut harness, group, &["m"], topic, 0);
        run_commit(&mut harness, &Commit { member: "m", generation: 4, ..commit(group, &[(0, 1, "")]) }).unwrap();
    }
    harness.advance(MINUTE * 10_090);
    assert_eq!(fetched(&harness.shard, "reads", true).unwrap(), ["t 0 1"]);
    assert_eq!(fetched(&harness.shard, "reads no more", true).unwrap(), [""; 0]);
    assert_eq!(groups(&harness).len(), 2, "groups with members stay");
}

#[test]
fn a_committer_of_old_says_itself_how_long() {
    let mut harness = harness();
    let retention_time_ms = 25 * 60_000;
    let short = Commit { version: 4, retention_time_ms, ..commit("g", &[(0, 1, "")]) };
    run_commit(&mut harness, &short).unwrap();
    let [GroupRecord::OffsetCommit(_, Some(value))] = &harness.take_records()[..] else { panic!("a commit") };
    assert_eq!(value.expire_timestamp, START_MS + retention_time_ms);
    harness.reload(GroupShard::default());
    harness.advance(MINUTE * 21);
    assert_eq!(fetched(&harness.shard, "g", true).unwrap(), ["t 0 1"]);
    harness.advance(MINUTE * 10);
    assert_eq!(groups(&harness), [""; 0]);
}

#[test]
fn what_a_transaction_is_about_to_change_does_not_expire() {
    let mut harness = harness();
    run_commit(&mut harness, &commit("g", &[(0, 1, ""), (1, 1, "")])).unwrap();
    run_transactional(&mut harness, &commit("g", &[(0, 2, "")]), 1).unwrap();
    run_transactional(&mut harness, &commit("h", &[(0, 2, "")]), 1).unwrap();
    harness.advance(MINUTE * 10_090);
    assert_eq!(fetched(&harness.shard, "g", false).unwrap(), ["t 0 1"]);
    assert_eq!(groups(&harness).len(), 2);
    end(&mut harness, 1, false);
    harness.advance(MINUTE * 10);
    assert_eq!(groups(&harness), [""; 0], "both are gone: nothing is left of either");
}

#[test]
fn a_failed_expiration_is_tried_again() {
    let mut harness = harness();
    run_commit(&mut harness, &commit("g", &[(0, 1, "")])).unwrap();
    harness.append_error = Some(CoordinatorError::NotAvailable("too few replicas".to_owned()));
    harness.advance(MINUTE * 10_090);
    assert_eq!(fetched(&harness.shard, "g", true).unwrap(), ["t 0 1"]);
    harness.append_error = None;
    harness.advance(MINUTE * 10);
    assert_eq!(groups(&harness), [""; 0]);
}

#[test]
fn offsets_go_with_their_topic_and_not_with_another_of_its_name() {
    let mut harness = harness();
    let other = TopicId(Uuid::from_u128(8));
    run_commit(&mut harness, &commit("g", &[(0, 1, "")])).unwrap();
    run_commit(&mut harness, &Commit { topic_id: other, ..commit("g", &[(1, 1, "")]) }).unwrap();
    run_commit(&mut harness, &Commit { topic_id: TopicId::ZERO, ..commit("g", &[(2, 1, "")]) }).unwrap();
    run_commit(&mut harness, &Commit { topic: "u", ..commit("g", &[(3, 1, "")]) }).unwrap();
    // Transactional offsets do not say the topic's id.
    run_transactional(&mut harness, &commit("g", &[(4, 1, "")]), 1).unwrap();
    harness.set_image(image(&[("t", other)]));
    end(&mut harness, 1, true);
    assert_eq!(fetched(&harness.shard, "g", true).unwrap(), ["t 1 1", "u 3 1"]);
    harness.reload(GroupShard::default());
    assert_eq!(fetched(&harness.shard, "g", true).unwrap(), ["t 1 1", "u 3 1"]);
}

#[test]
fn offsets_of_kafka_before_0_9_are_read() {
    let mut shard = GroupShard::default();
    let key = LegacyOffsetCommitKey { group: "g".to_owned(), topic: "t".to_owned(), partition: 3 };
    let value = LegacyOffsetCommitValue { offset: 8, metadata: "old".to_owned(), commit_timestamp: 1 };
    let origin = RecordOrigin { offset: Offset(0), producer_id: ProducerId::NONE };
    shard.replay(GroupRecord::LegacyOffsetCommit(key.clone(), Some(value)), origin);
    assert_eq!(fetched(&shard, "g", true).unwrap(), ["t 3 8 old"]);
    shard.replay(GroupRecord::LegacyOffsetCommit(key, None), origin);
    assert_eq!(fetched(&shard, "g", true).unwrap(), [""; 0]);
}

#[test]
fn groups_are_listed_by_state_and_type_in_any_case() {
    let mut harness = harness();
    run_commit(&mut harness, &commit("simple", &[(0, 1, "")])).unwrap();
    classic_group(&mut harness, "stable", &["m"], "t", 0);
    let list = |states: &[&str], types: &[&str]| {
        let filter = ListFilter::new(states.iter().copied(), types.iter().copied());
        harness.shard.list_groups(&filter).into_iter().map(|group| group.group_id).collect::<Vec<_>>()
    };
    assert_eq!(list(&[], &[]), ["simple", "stable"]);
    assert_eq!(list(&[" sTaBle "], &[]), ["stable"]);
    assert_eq!(list(&["Stable", "Empty"], &["CLASSIC"]), ["simple", "stable"]);
    assert_eq!(list(&["no such state"], &[]), [""; 0]);
    assert_eq!(list(&[], &["consumer"]), [""; 0]);
    assert_eq!(list(&[], &["share"]), [""; 0], "a type that is not known is not no type");
}

#[test]
fn groups_are_described_as_their_version_has_it() {
    let mut harness = harness();
    classic_group(&mut harness, "g", &["m"], "t", 0);
    let described = harness.shard.describe_group("g", 6);
    assert_eq!(
        (&*described.group_state, &*described.protocol_type, &*described.protocol_data),
        ("Stable", "consumer", "range")
    );
    assert_eq!(described.members.len(), 1);
    assert!(!described.members[0].member_metadata.is_empty());
    let dead = harness.shard.describe_group("h", 6);
    assert_eq!((dead.error_code, &*dead.group_state), (ErrorCode::GroupIdNotFound.code(), "Dead"));
    assert_eq!(dead.error_message.as_deref(), Some("Group h not found."));
    let dead = harness.shard.describe_group("h", 5);
    assert_eq!((dead.error_code, dead.error_message, &*dead.group_state), (0, None, "Dead"));
}

/// A hostile client makes groups as fast as it can, and topics' names do not stay behind their offsets.
#[test]
fn names_of_topics_are_held_once_and_let_go() {
    let mut harness = harness();
    for group in 0..100 {
        run_commit(&mut harness, &commit(&format!("g{group}"), &[(0, 1, "")])).unwrap();
    }
    let names: Vec<Arc<str>> = (0..100)
        .map(|group| harness.shard.offsets.of_group(&format!("g{group}")).unwrap().iter().next().unwrap().0.clone())
        .collect();
    assert!(names.iter().all(|name| Arc::ptr_eq(name, &names[0])));
    let name = Arc::downgrade(&names[0]);
    drop(names);
    harness.advance(MINUTE * 10_100);
    assert_eq!(groups(&harness), [""; 0]);
    assert!(name.upgrade().is_none());
}

#[test]
fn a_partition_that_is_asked_for_again_and_again_is_not_told_without_end() {
    // A request of a megabyte made an answer of gigabytes.
    let mut harness = harness();
    run_commit(&mut harness, &commit("g", &[(0, 5, &"m".repeat(1_000))])).unwrap();
    let ask = |times: usize| {
        let topic = OffsetFetchTopic {
            name: StrBytes::from_static_str("t"),
            topic_id: T,
            partitions: vec![PartitionId(0); times],
        };
        let group = OffsetFetchGroup {
            group_id: StrBytes::from_static_str("g"),
            topics: Some(vec![topic]),
            ..OffsetFetchGroup::default()
        };
        harness.shard.fetch_offsets(&group, false, 10_000)
    };
    assert_eq!(ask(10).unwrap()[0].partitions.len(), 10);
    assert!(matches!(ask(11), Err(OffsetFetchError::TooLarge)));
}

#[test]
fn no_more_records_are_made_than_a_batch_can_hold() {
    // A request of a million partitions took half a gigabyte, to be refused at the end.
    let mut harness = harness();
    let ten: Vec<_> = (0..10).map(|partition| (partition, 5, "note")).collect();
    harness.batch_limit = Some(400);
    assert_eq!(run_commit(&mut harness, &commit("g", &ten)), Ok(vec![ErrorCode::None; 10]));
    harness.take_records();
    harness.batch_limit = Some(399);
    assert_eq!(run_commit(&mut harness, &commit("g", &ten)), Err(ErrorCode::UnknownServerError));
    assert!(harness.take_records().is_empty());
}
