//! Groups that change their protocol, and classic members in consumer groups.

use bytes::Bytes;
use kafka_protocol::messages::join_group_request::JoinGroupRequestProtocol;
use kafka_protocol::messages::leave_group_request::MemberIdentity;
use kafka_protocol::messages::sync_group_request::SyncGroupRequestAssignment;
use kafka_protocol::messages::{HeartbeatRequest, JoinGroupRequest, LeaveGroupRequest, SyncGroupRequest};

use super::*;
use crate::coordinator::group::DeferredReply;
use crate::coordinator::group::consumer_protocol::{Assignment, Subscription};
use crate::coordinator::shard::ReplyTo;
use crate::protocol::ErrorCode;
use crate::types::TopicName;

const DELAY: (&str, &str) = ("group.initial.rebalance.delay.ms", "0");

fn text(text: &str) -> StrBytes {
    StrBytes::from_string(text.to_owned())
}

fn group() -> GroupId {
    GroupId(text("g"))
}

fn subscription(topics: &[&str], owned: &[i32]) -> Bytes {
    let owned_partitions = match owned {
        [] => Vec::new(),
        owned => vec![(TopicName::from(topics[0]), owned.iter().copied().map(PartitionId).collect())],
    };
    let topics = topics.iter().map(|topic| TopicName::from(*topic)).collect();
    Subscription { topics, user_data: None, owned_partitions, generation_id: -1, rack_id: None }.encode(1)
}

/// JoinGroup of a member that reads `orders`; the id of a new one is ``.
fn join(kit: &mut Kit, member_id: &str, instance_id: Option<&str>, owned: &[i32]) -> String {
    let protocol =
        JoinGroupRequestProtocol::default().with_name(text("range")).with_metadata(subscription(&["orders"], owned));
    let request = JoinGroupRequest::default()
        .with_group_id(group())
        .with_member_id(text(member_id))
        .with_group_instance_id(instance_id.map(text))
        .with_session_timeout_ms(10_000)
        .with_rebalance_timeout_ms(5_000)
        .with_protocol_type(text("consumer"))
        .with_protocols(vec![protocol]);
    let context = RequestContext { api_version: 3, ..context() };
    kit.harness.step(|shard, step| shard.join_group(step, &context, request, ReplyTo(1))).unwrap();
    kit.pass(0);
    match kit.harness.replies.pop() {
        Some((_, Ok(DeferredReply::Join(response)))) if response.error_code == 0 => {
            format!("{} generation {}", &*response.member_id, response.generation_id)
        }
        Some((_, Ok(DeferredReply::Join(response)))) => name(response.error_code),
        other => format!("{other:?}"),
    }
}

fn sync(kit: &mut Kit, member_id: &str, generation_id: i32, assignments: &[(&str, &[i32])]) -> String {
    let assignments = assignments.iter().map(|(member_id, partitions)| {
        let partitions = partitions.iter().copied().map(PartitionId).collect();
        let assignment = Assignment { partitions: vec![(TopicName::from("orders"), partitions)], user_data: None };
        SyncGroupRequestAssignment::default()
            .with_member_id(text(member_id))
            .with_assignment(assignment.encode(1).unwrap())
    });
    let request = SyncGroupRequest::default()
        .with_group_id(group())
        .with_member_id(text(member_id))
        .with_generation_id(generation_id)
        .with_assignments(assignments.collect());
    kit.harness.step(|shard, step| shard.sync_group(step, request, ReplyTo(2))).unwrap();
    match kit.harness.replies.pop() {
        Some((_, Ok(DeferredReply::Sync(response)))) if response.error_code == 0 => {
            let assignment = Assignment::decode(&response.assignment).unwrap();
            let topics = assignment.partitions.iter().map(|(topic, partitions)| {
                partitions.iter().fold(topic.to_string(), |text, partition| format!("{text} {partition}"))
            });
            topics.collect::<Vec<_>>().join(", ")
        }
        Some((_, Ok(DeferredReply::Sync(response)))) => name(response.error_code),
        other => format!("{other:?}"),
    }
}

fn heartbeat(kit: &mut Kit, member_id: &str, generation_id: i32) -> String {
    let request = HeartbeatRequest::default()
        .with_group_id(group())
        .with_member_id(text(member_id))
        .with_generation_id(generation_id);
    let response = kit.harness.step(|shard, step| shard.heartbeat(step, &request)).unwrap();
    name(response.error_code)
}

fn leave(kit: &mut Kit, member_id: &str) -> String {
    let member = MemberIdentity::default().with_member_id(text(member_id));
    let request = LeaveGroupRequest::default().with_group_id(group()).with_members(vec![member]);
    let response = kit.harness.step(|shard, step| shard.leave_group(step, request)).unwrap();
    match response.error_code {
        0 => name(response.members[0].error_code),
        code => name(code),
    }
}

fn name(code: i16) -> String {
    ErrorCode::from_code(code).expect("a code of Kafka").name().to_owned()
}

/// A classic group with one member, which has both partitions of `orders`.
fn classic(settings: &[(&str, &str)]) -> (Kit, String) {
    let mut all = vec![DELAY];
    all.extend(settings);
    let mut kit = Kit::with(&[("orders", 2)], &all);
    let joined = join(&mut kit, "", None, &[]);
    let member_id = joined.split(' ').next().unwrap().to_owned();
    assert_eq!(sync(&mut kit, &member_id, 1, &[(&member_id, &[0, 1])]), "orders 0 1");
    assert_eq!(kit.state(), "classic Stable");
    kit.written();
    (kit, member_id)
}

/// The records with the classic member's id, which is random, as `c`.
fn written(kit: &mut Kit, classic: &str) -> Vec<String> {
    kit.written().into_iter().map(|record| record.replace(classic, "c")).collect()
}

#[test]
fn a_live_group_moves_to_the_consumer_protocol_and_back() {
    let (mut kit, c) = classic(&[]);
    assert_eq!(kit.beat(Beat::join("m", &["orders"])), "epoch 2: nothing");
    assert_eq!(
        written(&mut kit, &c),
        [
            "x classic g of 0",
            "member c orders (classic)",
            "group 1",
            "target c orders 0 1",
            "target 1",
            "current c 1<1 Stable orders 0 1",
            "member m orders",
            "group 2",
            "target c orders 0",
            "target m orders 1",
            "target 2",
            "current m 2<0 UnreleasedPartitions nothing",
        ]
    );
    // The classic member is told to join, gives up, joins again, and is in the new epoch.
    assert_eq!(heartbeat(&mut kit, &c, 1), "REBALANCE_IN_PROGRESS");
    assert_eq!(join(&mut kit, &c, None, &[0, 1]), format!("{c} generation 1"));
    assert_eq!(written(&mut kit, &c)[1..], ["current c 1<1 UnrevokedPartitions orders 0 - orders 1"]);
    assert_eq!(sync(&mut kit, &c, 1, &[]), "orders 0");
    assert_eq!(heartbeat(&mut kit, &c, 1), "REBALANCE_IN_PROGRESS");
    assert_eq!(join(&mut kit, &c, None, &[0]), format!("{c} generation 2"));
    assert_eq!(sync(&mut kit, &c, 2, &[]), "orders 0");
    assert_eq!(heartbeat(&mut kit, &c, 2), "NONE");
    assert_eq!(heartbeat(&mut kit, &c, 1), "ILLEGAL_GENERATION");
    assert_eq!(heartbeat(&mut kit, "m", 2), "UNKNOWN_MEMBER_ID");
    assert_eq!(kit.beat(Beat::at("m", 2)), "epoch 2: orders 1");
    assert_eq!(kit.state(), "consumer Stable");
    kit.written();
    // The last member of the consumer protocol goes, and the group is a classic one that meets again.
    assert_eq!(kit.beat(Beat::at("m", -1)), "epoch -1");
    let downgrade = written(&mut kit, &c);
    let order: Vec<_> = ["current", "target", "member"]
        .into_iter()
        .flat_map(|kind| {
            let mut ids = [c.as_str(), "m"];
            ids.sort_unstable();
            let ids = ids.map(|id| format!("x {kind} {}", if id == c { "c" } else { id }));
            let epoch = (kind == "target").then(|| "x target".to_owned());
            ids.into_iter().chain(epoch)
        })
        .collect();
    let end = ["x partitions", "x group", "classic g of 1"].map(str::to_owned);
    assert_eq!(downgrade, order.into_iter().chain(end).collect::<Vec<_>>());
    assert_eq!(kit.state(), "classic PreparingRebalance");
    assert_eq!(heartbeat(&mut kit, &c, 2), "REBALANCE_IN_PROGRESS");
    assert_eq!(join(&mut kit, &c, None, &[0]), format!("{c} generation 3"));
    kit.harness.reload(GroupShard::default());
    assert_eq!(kit.state(), "classic Stable");
}

#[test]
fn a_member_that_falls_silent_has_its_group_moved_too() {
    let (mut kit, c) = classic(&[]);
    kit.beat(Beat::join("m", &["orders"]));
    for _ in 0..9 {
        join(&mut kit, &c, None, &[0]);
        sync(&mut kit, &c, 2, &[]);
        kit.pass(5000);
    }
    assert_eq!(kit.state(), "classic PreparingRebalance");
}

#[test]
fn classic_members_have_their_own_timeouts() {
    let (mut kit, c) = classic(&[]);
    kit.beat(Beat::join("m", &["orders"]));
    // Its session is ten seconds; that it must join again within five counts from when it is told.
    assert_eq!(heartbeat(&mut kit, &c, 1), "REBALANCE_IN_PROGRESS");
    kit.pass(4999);
    assert_eq!(heartbeat(&mut kit, &c, 1), "REBALANCE_IN_PROGRESS");
    kit.pass(1);
    assert_eq!(kit.describe(), ["m 2: nothing"]);
    // One that joined must sync within its rebalance timeout.
    let joined = join(&mut kit, "d", None, &[]);
    assert_eq!(joined, "d generation 4");
    kit.pass(5000);
    assert_eq!(kit.describe(), ["m 2: nothing"]);
    // And heartbeat within its session.
    let joined = join(&mut kit, "e", None, &[]);
    let generation = joined.rsplit(' ').next().unwrap().parse().unwrap();
    sync(&mut kit, "e", generation, &[]);
    kit.pass(9999);
    assert_eq!(kit.describe().len(), 2);
    kit.pass(1);
    assert_eq!(kit.describe().len(), 1);
}

#[test]
fn a_static_classic_member_takes_the_place_of_one_of_the_consumer_protocol() {
    let (mut kit, c) = classic(&[]);
    kit.beat(Beat::join("m", &["orders"]).instance("i"));
    join(&mut kit, &c, None, &[0]);
    kit.beat(Beat::at("m", 2));
    kit.beat(Beat::at("m", 2));
    assert_eq!(kit.state(), "consumer Stable");
    kit.written();
    let joined = join(&mut kit, "", Some("i"), &[1]);
    let n = joined.split(' ').next().unwrap().to_owned();
    assert_eq!(joined, format!("{n} generation 2"));
    // Nothing changes hands, so nobody has to meet.
    assert_eq!(kit.state(), "classic Stable");
    assert_eq!(sync(&mut kit, &n, 2, &[]), "orders 1");
    assert_eq!(sync(&mut kit, &c, 2, &[]), "orders 0");
    kit.harness.reload(GroupShard::default());
    assert_eq!(kit.state(), "classic Stable");
    assert_eq!(heartbeat(&mut kit, &n, 2), "NONE");
}

#[test]
fn the_policy_is_heeded() {
    let (mut kit, _) = classic(&[("group.consumer.migration.policy", "Downgrade")]);
    assert_eq!(
        kit.beat(Beat::join("m", &["orders"])),
        "GROUP_ID_NOT_FOUND: Cannot upgrade classic group g to consumer group because online upgrade is disabled."
    );
    assert_eq!(kit.state(), "classic Stable");

    let (mut kit, c) = classic(&[("group.consumer.migration.policy", "upgrade")]);
    kit.beat(Beat::join("m", &["orders"]));
    assert_eq!(leave(&mut kit, "m"), "NONE");
    assert_eq!(kit.state(), "consumer Assigning");
    assert_eq!(leave(&mut kit, "m"), "UNKNOWN_MEMBER_ID");
    assert_eq!(leave(&mut kit, &c), "NONE");
    assert_eq!(kit.state(), "consumer Empty");

    let mut kit = Kit::with(&[("orders", 1)], &[DELAY, ("group.consumer.migration.policy", "disabled")]);
    kit.beat(Beat::join("m", &["orders"]));
    assert_eq!(join(&mut kit, "", None, &[]), "INCONSISTENT_GROUP_PROTOCOL");
    // Groups without members change all the same.
    kit.beat(Beat::at("m", -1));
    let joined = join(&mut kit, "", None, &[]);
    assert_eq!(kit.state(), "classic CompletingRebalance");
    leave(&mut kit, joined.split(' ').next().unwrap());
    assert_eq!(kit.beat(Beat::join("m", &["orders"])), "epoch 2: orders 0");
}

#[test]
fn what_cannot_be_carried_over_stays_classic() {
    let mut kit = Kit::with(&[("orders", 2)], &[DELAY]);
    let joined = join(&mut kit, "", None, &[]);
    let c = joined.split(' ').next().unwrap().to_owned();
    let assignment = Assignment { partitions: Vec::new(), user_data: Some(Bytes::from_static(b"mine")) };
    let assignment =
        SyncGroupRequestAssignment::default().with_member_id(text(&c)).with_assignment(assignment.encode(1).unwrap());
    let request = SyncGroupRequest::default()
        .with_group_id(group())
        .with_member_id(text(&c))
        .with_generation_id(1)
        .with_assignments(vec![assignment]);
    kit.harness.step(|shard, step| shard.sync_group(step, request, ReplyTo(2))).unwrap();
    assert!(
        kit.beat(Beat::join("m", &["orders"]))
            .starts_with("GROUP_ID_NOT_FOUND: Cannot upgrade classic group g to consumer group because an unsupported")
    );
    assert_eq!(kit.state(), "classic Stable");
    // Two members with the same partition: it would have two owners.
    let (mut kit, c) = classic(&[]);
    let request = |member_id: &str| {
        let protocol =
            JoinGroupRequestProtocol::default().with_name(text("range")).with_metadata(subscription(&["orders"], &[]));
        JoinGroupRequest::default()
            .with_group_id(group())
            .with_member_id(text(member_id))
            .with_session_timeout_ms(10_000)
            .with_rebalance_timeout_ms(5_000)
            .with_protocol_type(text("consumer"))
            .with_protocols(vec![protocol])
    };
    let context_3 = RequestContext { api_version: 3, ..context() };
    let new = request("");
    kit.harness.step(|shard, step| shard.join_group(step, &context_3, new, ReplyTo(3))).unwrap();
    let again = request(&c);
    kit.harness.step(|shard, step| shard.join_group(step, &context_3, again, ReplyTo(4))).unwrap();
    let ids: Vec<String> = kit
        .harness
        .replies
        .drain(..)
        .filter_map(|(_, reply)| match reply {
            Ok(DeferredReply::Join(response)) => Some(response.member_id.to_string()),
            _ => None,
        })
        .collect();
    assert_eq!(ids.len(), 2);
    sync(&mut kit, &ids[0], 2, &[(&ids[0], &[0]), (&ids[1], &[0])]);
    sync(&mut kit, &ids[1], 2, &[(&ids[0], &[0]), (&ids[1], &[0])]);
    assert_eq!(kit.state(), "classic Stable");
    assert_eq!(kit.beat(Beat::join("m", &["orders"])), "UNKNOWN_SERVER_ERROR");
    assert_eq!(kit.state(), "classic Stable");
}

#[test]
fn an_upgrade_that_cannot_be_written_has_not_happened() {
    let (mut kit, c) = classic(&[]);
    let error = crate::coordinator::shard::CoordinatorError::NotAvailable("no replicas".to_owned());
    kit.harness.append_error = Some(error.clone());
    assert_eq!(kit.beat(Beat::join("m", &["orders"])), "COORDINATOR_NOT_AVAILABLE");
    assert_eq!(kit.state(), "classic Stable");
    kit.harness.append_error = None;
    assert_eq!(heartbeat(&mut kit, &c, 1), "NONE");
    kit.beat(Beat::join("m", &["orders"]));
    kit.harness.append_error = Some(error);
    assert_eq!(kit.beat(Beat::at("m", -1)), "COORDINATOR_NOT_AVAILABLE");
    assert_eq!(kit.state(), "consumer Reconciling");
}
