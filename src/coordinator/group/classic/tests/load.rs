//! Groups as records have them, Kafka's and damaged ones.

use bytes::Bytes;

use crate::config::BrokerConfig;
use crate::coordinator::group::classic::{ClassicGroup, ClassicGroupMember, ClassicGroupState, Protocol};
use crate::coordinator::group::consumer_protocol::Subscription;
use crate::coordinator::group::records::{GroupMetadataKey, GroupMetadataValue, GroupRecord, MemberMetadata};
use crate::coordinator::group::{Committer, Group, GroupShard, RetentionStart};
use crate::coordinator::shard::CoordinatorRecord as _;
use crate::coordinator::shard::harness::Harness;
use crate::metadata::image::MetadataImage;
use crate::protocol::ErrorCode;

fn member(id: &str, subscription: Bytes) -> MemberMetadata {
    MemberMetadata {
        member_id: id.to_owned(),
        client_id: "c".to_owned(),
        client_host: "/127.0.0.1".to_owned(),
        rebalance_timeout: 300_000,
        session_timeout: 45_000,
        subscription,
        assignment: Bytes::from_static(b"x"),
        ..MemberMetadata::default()
    }
}

fn subscription(topics: &[&str]) -> Bytes {
    let topics = topics.iter().map(|topic| (*topic).into()).collect();
    let owned_partitions = Vec::new();
    Subscription { topics, user_data: None, owned_partitions, generation_id: -1, rack_id: None }.encode(1)
}

fn value(members: Vec<MemberMetadata>) -> GroupMetadataValue {
    GroupMetadataValue {
        protocol_type: "consumer".to_owned(),
        generation: 7,
        protocol: Some("range".to_owned()),
        leader: members.first().map(|member| member.member_id.clone()),
        current_state_timestamp: 1_000,
        members,
    }
}

fn loaded(value: GroupMetadataValue) -> ClassicGroup {
    ClassicGroup::from_record("g".into(), value)
}

fn committer(generation_id: i32, member_id: &str) -> Committer<'_> {
    Committer {
        member_id,
        group_instance_id: None,
        generation_id_or_member_epoch: generation_id,
        transactional: false,
        api_version: 9,
    }
}

#[test]
fn a_record_with_members_is_a_stable_group_and_the_same_record_again() {
    let mut second = member("b", subscription(&["t", "u"]));
    second.group_instance_id = Some("i".to_owned());
    let value = value(vec![member("a", subscription(&["s"])), second]);
    let group = loaded(value.clone());
    assert_eq!((group.state(), group.generation_id(), group.leader_id()), (ClassicGroupState::Stable, 7, Some("a")));
    assert_eq!(group.static_member_id("i").map(|id| &**id), Some("b"));
    let topics: Vec<&str> = group.subscribed_topics().unwrap().iter().map(|topic| &**topic).collect();
    assert_eq!(topics, ["s", "t", "u"]);
    assert!(group.is_subscribed_to_topic("u") && !group.is_subscribed_to_topic("v"));
    let key = GroupMetadataKey { group: "g".to_owned() };
    assert_eq!(group.record(), GroupRecord::GroupMetadata(key, Some(value)));
    group.check_invariants();
}

#[test]
fn an_old_record_has_no_rebalance_timeout_and_no_time() {
    let mut of_old = member("a", subscription(&["t"]));
    of_old.rebalance_timeout = -1;
    let group = loaded(GroupMetadataValue { current_state_timestamp: -1, ..value(vec![of_old]) });
    assert_eq!(group.members().next().unwrap().rebalance_timeout_ms, 45_000);
    assert_eq!(group.current_state_timestamp(), None);
    let empty = loaded(GroupMetadataValue { current_state_timestamp: -1, ..value(vec![]) });
    assert_eq!(empty.retention_start(), Some(RetentionStart::Commit));
}

#[test]
fn retention_counts_from_when_the_group_was_left_or_from_each_commit() {
    assert_eq!(loaded(value(vec![])).retention_start(), Some(RetentionStart::GroupEmpty(1_000)));
    let consumers = |subscription| loaded(value(vec![member("a", subscription)]));
    assert_eq!(consumers(subscription(&["t"])).retention_start(), Some(RetentionStart::Commit));
    // Which topics these want is not known, so that nothing of theirs may expire.
    let unreadable = consumers(Bytes::from_static(b"\0"));
    assert_eq!(unreadable.retention_start(), None);
    assert!(unreadable.is_subscribed_to_topic("anything"));
    let others = GroupMetadataValue { protocol_type: "connect".to_owned(), ..value(vec![member("a", Bytes::new())]) };
    let others = loaded(others);
    assert_eq!(others.retention_start(), None);
    assert!(!others.is_subscribed_to_topic("t"));
    assert_eq!(ClassicGroup::simple("g".into()).retention_start(), Some(RetentionStart::Commit));
}

#[test]
fn a_group_allows_commits_of_its_members_and_of_nobody_when_it_is_empty() {
    let code = |group: &ClassicGroup, committer: Committer<'_>| {
        group.validate_offset_commit(&committer).err().map_or(ErrorCode::None, |error| error.code)
    };
    let group = loaded(value(vec![member("a", subscription(&["t"]))]));
    assert_eq!(code(&group, committer(7, "a")), ErrorCode::None);
    assert_eq!(code(&group, committer(6, "a")), ErrorCode::IllegalGeneration);
    assert_eq!(code(&group, committer(7, "b")), ErrorCode::UnknownMemberId);
    assert_eq!(code(&group, committer(-1, "")), ErrorCode::UnknownMemberId);
    assert_eq!(code(&group, Committer { transactional: true, ..committer(-1, "") }), ErrorCode::None);
    assert_eq!(code(&group, Committer { transactional: true, ..committer(-1, "a") }), ErrorCode::IllegalGeneration);
    let of_instance = Committer { group_instance_id: Some("i"), ..committer(7, "a") };
    assert_eq!(code(&group, of_instance), ErrorCode::UnknownMemberId);
    let empty = loaded(value(vec![]));
    assert_eq!(code(&empty, committer(-1, "anybody")), ErrorCode::None);
    assert_eq!(code(&empty, committer(7, "a")), ErrorCode::UnknownMemberId);
}

#[test]
fn what_may_be_deleted() {
    let code =
        |outcome: Result<(), crate::protocol::ApiError>| outcome.err().map_or(ErrorCode::None, |error| error.code);
    let consumers = loaded(value(vec![member("a", subscription(&["t"]))]));
    assert_eq!(code(consumers.validate_delete_group()), ErrorCode::NonEmptyGroup);
    assert_eq!(code(consumers.validate_offset_delete()), ErrorCode::None);
    let others = GroupMetadataValue { protocol_type: "connect".to_owned(), ..value(vec![member("a", Bytes::new())]) };
    assert_eq!(code(loaded(others).validate_offset_delete()), ErrorCode::NonEmptyGroup);
    let empty = loaded(value(vec![]));
    assert_eq!(code(empty.validate_delete_group()), ErrorCode::None);
    assert_eq!(code(empty.validate_offset_delete()), ErrorCode::None);
    assert_eq!(empty.tombstone_records(), [GroupRecord::GroupMetadata(GroupMetadataKey { group: "g".into() }, None)]);
}

/// Records that no broker writes: they are read, and the group they make can go on.
#[test]
fn damaged_records_make_groups_that_hold_together() {
    let mut twin = member("b", Bytes::new());
    twin.group_instance_id = Some("i".to_owned());
    let mut other_twin = member("c", Bytes::new());
    other_twin.group_instance_id = Some("i".to_owned());
    let unlikely = [
        GroupMetadataValue { leader: Some("nobody".to_owned()), ..value(vec![member("a", Bytes::new())]) },
        GroupMetadataValue { leader: None, ..value(vec![member("a", Bytes::new())]) },
        GroupMetadataValue { protocol: None, ..value(vec![member("a", Bytes::new())]) },
        GroupMetadataValue { protocol_type: String::new(), ..value(vec![member("a", Bytes::new())]) },
        value(vec![member("a", Bytes::new()), member("a", Bytes::new())]),
        value(vec![twin, other_twin]),
        GroupMetadataValue { generation: i32::MAX, ..value(vec![member("a", Bytes::new())]) },
        value(vec![MemberMetadata { session_timeout: -5, rebalance_timeout: i32::MIN, ..member("a", Bytes::new()) }]),
    ];
    for value in unlikely {
        let mut harness = Harness::new(GroupShard::default(), MetadataImage::empty(), BrokerConfig::default());
        let record = GroupRecord::GroupMetadata(GroupMetadataKey { group: "g".to_owned() }, Some(value));
        harness.log.push(record.to_bytes());
        harness.reload(GroupShard::default());
        let Some(Group::Classic(group)) = harness.shard.groups.get("g") else { panic!("no group") };
        group.check_invariants();
        harness.advance(std::time::Duration::from_secs(400));
        let Some(Group::Classic(group)) = harness.shard.groups.get("g") else { panic!("no group") };
        group.check_invariants();
        assert!(group.is_empty(), "{group:?}");
    }
}

#[test]
fn consumers_that_go_back_to_the_classic_protocol_are_a_stable_group() {
    let consumer = |id: &str, protocols: &[&str]| ClassicGroupMember {
        member_id: id.into(),
        group_instance_id: None,
        client_id: "c".to_owned(),
        client_host: "/127.0.0.1".to_owned(),
        rebalance_timeout_ms: 300_000,
        session_timeout_ms: 45_000,
        protocol_type: "consumer".to_owned(),
        protocols: protocols
            .iter()
            .map(|name| Protocol { name: (*name).into(), metadata: subscription(&["t"]) })
            .collect(),
        assignment: Bytes::new(),
        presence: Default::default(),
    };
    let members = [consumer("a", &["sticky", "range"]), consumer("b", &["range"])];
    let mut group = ClassicGroup::of_consumers("g".into(), 3, members, 5).unwrap();
    group.set_assignment("a", Bytes::from_static(b"all"));
    assert_eq!(
        (group.state(), group.generation_id(), group.protocol_name()),
        (ClassicGroupState::Stable, 3, Some("range"))
    );
    assert!(group.is_subscribed_to_topic("t") && !group.is_subscribed_to_topic("u"));
    group.check_invariants();

    let mut harness = Harness::new(GroupShard::default(), MetadataImage::empty(), BrokerConfig::default());
    harness.step(|shard, step| shard.insert_classic_group(group, step)).unwrap();
    harness.step(|shard, step| shard.prepare_classic_rebalance("g", || "downgraded".to_owned(), step)).unwrap();
    let Some(Group::Classic(group)) = harness.shard.groups.get("g") else { panic!("no group") };
    assert_eq!(group.state(), ClassicGroupState::PreparingRebalance);
    assert!(ClassicGroup::of_consumers("g".into(), 3, [consumer("a", &["x"]), consumer("b", &["y"])], 5).is_none());
}
