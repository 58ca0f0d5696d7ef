//! One rule each.

use super::*;

#[test]
fn requests_are_checked_in_kafkas_order() {
    let check = |change: fn(&mut ConsumerGroupHeartbeatRequest), version| {
        let mut request = Beat::join("m", &["orders"]).request(&MetadataImage::empty());
        change(&mut request);
        match validate_consumer_group_heartbeat(&request, version, &config(&[])) {
            Ok(()) => "fine".to_owned(),
            Err(error) => error.message.unwrap_or_default(),
        }
    };
    let text = StrBytes::from_static_str;
    assert_eq!(check(|_| {}, 1), "fine");
    assert_eq!(check(|request| request.member_id = StrBytes::default(), 0), "fine");
    assert_eq!(check(|request| request.member_id = StrBytes::from_static_str(" "), 1), "MemberId can't be empty.");
    assert_eq!(
        check(|request| (request.member_id, request.member_epoch) = (StrBytes::default(), -1), 0),
        "MemberId can't be empty."
    );
    assert_eq!(check(|request| request.group_id = GroupId::default(), 1), "GroupId can't be empty.");
    assert_eq!(check(|request| request.instance_id = Some(StrBytes::default()), 1), "InstanceId can't be empty.");
    assert_eq!(check(|request| request.rack_id = Some(StrBytes::default()), 1), "RackId can't be empty.");
    assert_eq!(
        check(|request| request.rebalance_timeout_ms = -1, 1),
        "RebalanceTimeoutMs must be provided in first request."
    );
    assert_eq!(check(|request| request.topic_partitions = None, 1), "TopicPartitions must be empty when (re-)joining.");
    assert_eq!(
        check(|request| request.subscribed_topic_names = None, 1),
        "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining."
    );
    assert_eq!(check(|request| request.member_epoch = -2, 1), "InstanceId can't be null.");
    assert_eq!(check(|request| request.member_epoch = -3, 1), "MemberEpoch is invalid.");
    let _ = text;
    assert_eq!(
        check(|request| request.server_assignor = Some(StrBytes::from_static_str("mine")), 1),
        "ServerAssignor mine is not supported. Supported assignors: uniform, range."
    );
}

#[test]
fn a_member_without_an_id_is_given_one() {
    let mut kit = Kit::new(&[("orders", 1)]);
    let request = Beat::join("", &["orders"]).request(&kit.harness.image);
    let answer = kit.harness.step(|shard, step| shard.consumer_group_heartbeat(&context(), &request, step));
    let response = answer.unwrap().unwrap();
    assert_eq!(response.member_id.as_deref(), Some("AAAAAAAAAAAAAAAAAAAAAQ"));
    assert_eq!(kit.describe(), ["AAAAAAAAAAAAAAAAAAAAAQ 2: orders 0"]);
    assert_eq!(kit.beat(Beat::at("AAAAAAAAAAAAAAAAAAAAAQ", 2)), "epoch 2");
}

#[test]
fn strangers_are_told_so() {
    let mut kit = Kit::new(&[("orders", 1)]);
    assert_eq!(kit.beat(Beat::at("m", 5)), "GROUP_ID_NOT_FOUND: Consumer group g not found.");
    assert_eq!(kit.beat(Beat::at("m", -1)), "GROUP_ID_NOT_FOUND: Group g not found.");
    kit.beat(Beat::join("a", &["orders"]));
    let unknown = "UNKNOWN_MEMBER_ID: Member m is not a member of group g.";
    assert_eq!(kit.beat(Beat::at("m", 2)), unknown);
    assert_eq!(kit.beat(Beat::at("m", -1)), unknown);
}

#[test]
fn a_group_has_room_for_so_many() {
    let mut kit = Kit::with(&[("orders", 1)], &[("group.consumer.max.size", "2")]);
    kit.beat(Beat::join("a", &["orders"]));
    kit.beat(Beat::join("b", &["orders"]));
    assert_eq!(
        kit.beat(Beat::join("c", &["orders"])),
        "GROUP_MAX_SIZE_REACHED: The consumer group has reached its maximum capacity of 2 members."
    );
    assert_eq!(kit.beat(Beat::join("b", &["orders"])), "epoch 2: nothing");
}

#[test]
fn settings_of_the_group_are_heeded() {
    let settings =
        [("group.consumer.min.session.timeout.ms", "1000"), ("group.consumer.min.heartbeat.interval.ms", "10")];
    let mut kit = Kit::with(&[("orders", 2)], &settings);
    assert_eq!(kit.send(Beat::join("a", &["orders"])).unwrap().heartbeat_interval_ms, 5000);
    kit.set_group("consumer.heartbeat.interval.ms", "500");
    kit.set_group("consumer.session.timeout.ms", "2000");
    kit.set_group("consumer.assignment.interval.ms", "0");
    assert_eq!(kit.send(Beat::at("a", 2)).unwrap().heartbeat_interval_ms, 500);
    // No interval: the second member has its target at once.
    assert_eq!(kit.beat(Beat::join("b", &["orders"])), "epoch 3: nothing");
    kit.pass(1999);
    assert_eq!(kit.describe().len(), 2);
    kit.pass(1);
    assert_eq!(kit.state(), "consumer Empty");
}

#[test]
fn the_most_votes_choose_the_assignor() {
    let mut kit = Kit::with(&[("orders", 2), ("users", 2)], &[("group.consumer.assignment.interval.ms", "0")]);
    kit.beat(Beat::join("a", &["orders", "users"]).assignor("range"));
    assert_eq!(kit.group().assignor_name(&kit.harness.config), "range");
    kit.beat(Beat::join("b", &["orders", "users"]).assignor("uniform"));
    // A tie goes to uniform.
    assert_eq!(kit.group().assignor_name(&kit.harness.config), "uniform");
    kit.beat(Beat::join("c", &["orders", "users"]));
    kit.beat(Beat::at("b", 3).assignor("range"));
    kit.beat(Beat::at("c", -1));
    kit.written();
    kit.beat(Beat::at("a", 2));
    assert_eq!(
        kit.written().into_iter().filter(|record| record.starts_with("target ")).collect::<Vec<_>>(),
        ["target a orders 0, users 0", "target b orders 1, users 1", "target 5"]
    );
}

#[test]
fn a_static_member_finds_its_partitions_when_it_is_back() {
    let mut kit = Kit::new(&[("orders", 2)]);
    kit.beat(Beat::join("m1", &["orders"]).instance("i"));
    kit.written();
    // Until it has left, nobody else has its place.
    assert_eq!(
        kit.beat(Beat::join("m2", &["orders"]).instance("i")),
        "UNRELEASED_INSTANCE_ID: Static member m2 with instance id i cannot join the group because the instance id is \
         owned by m1 member."
    );
    assert_eq!(kit.beat(Beat::at("m1", -2).instance("i")), "epoch -2");
    assert_eq!(kit.written(), ["current m1 -2<0 Stable orders 0 1"]);
    assert_eq!(kit.state(), "consumer Reconciling");
    kit.pass(20_000);
    assert_eq!(kit.beat(Beat::join("m2", &["orders"]).instance("i")), "epoch 2: orders 0 1");
    assert_eq!(
        kit.written(),
        [
            "x current m1",
            "x target m1",
            "x member m1",
            "member m2 orders #i",
            "target m2 orders 0 1",
            "current m2 0<0 Stable orders 0 1",
            "current m2 2<0 Stable orders 0 1",
        ]
    );
    assert_eq!(kit.state(), "consumer Stable");
    // The one before is fenced.
    assert_eq!(
        kit.beat(Beat::at("m1", 2).instance("i")),
        "FENCED_INSTANCE_ID: Static member m1 with instance id i was fenced by member m2."
    );
    assert_eq!(kit.beat(Beat::at("m1", -2).instance("j")), "UNKNOWN_MEMBER_ID: Instance id j is unknown.");
    // Its session is over 45 seconds after it left for a while, too.
    kit.beat(Beat::at("m2", -2).instance("i"));
    kit.pass(45_000);
    assert_eq!(kit.state(), "consumer Empty");
}

#[test]
fn partitions_that_are_added_are_assigned() {
    let mut kit = Kit::new(&[("orders", 1)]);
    kit.beat(Beat::join("a", &["orders"]));
    kit.pass(1000);
    kit.beat(Beat::at("a", 2));
    kit.written();
    kit.add_partition("orders");
    assert_eq!(kit.beat(Beat::at("a", 2)), "epoch 3: orders 0 1");
    assert_eq!(kit.written(), ["group 3", "target a orders 0 1", "target 3", "current a 3<2 Stable orders 0 1"]);
    // A change that makes no difference to the group is none.
    kit.create_topic("users", 1);
    assert_eq!(kit.beat(Beat::at("a", 3)), "epoch 3");
    assert_eq!(kit.written(), [] as [&str; 0]);
}

#[test]
fn topics_come_and_go() {
    let mut kit = Kit::with(&[("orders", 1)], &[("group.consumer.assignment.interval.ms", "0")]);
    assert_eq!(kit.beat(Beat::join("a", &["orders", "users"])), "epoch 2: orders 0");
    kit.create_topic("users", 1);
    assert_eq!(kit.beat(Beat::at("a", 2)), "epoch 3: orders 0, users 0");
    kit.delete_topic("orders");
    assert_eq!(kit.beat(Beat::at("a", 3)), "epoch 3: users 0");
    assert_eq!(kit.beat(Beat::at("a", 3).owns("users 0")), "epoch 4");
    // A topic of the same name is another one.
    kit.create_topic("orders", 2);
    assert_eq!(kit.beat(Beat::at("a", 4)), "epoch 5: orders 0 1, users 0");
    assert_eq!(kit.state(), "consumer Stable");
}

#[test]
fn racks_are_part_of_what_a_group_sees_of_its_topics() {
    let mut kit = Kit::new(&[("orders", 1)]);
    kit.beat(Beat::join("a", &["orders"]));
    let hash = kit.group().metadata_hash();
    kit.register_broker(1, "r1");
    // Kafka looks at a topic only when the topic itself changes.
    assert_eq!(kit.beat(Beat::at("a", 2)), "epoch 2");
    kit.add_partition("orders");
    kit.beat(Beat::at("a", 2));
    assert_ne!(kit.group().metadata_hash(), hash);
}

#[test]
fn offsets_are_committed_by_members_in_their_epochs() {
    use crate::coordinator::group::{CommitScope, Committer};
    let mut kit = Kit::with(&[("orders", 2)], &[("group.consumer.assignment.interval.ms", "0")]);
    kit.beat(Beat::join("a", &["orders"]));
    kit.beat(Beat::join("b", &["orders"]));
    kit.beat(Beat::at("a", 2));
    kit.beat(Beat::at("a", 2).owns("orders 0"));
    kit.beat(Beat::at("b", 3));
    assert_eq!(kit.describe(), ["a 3: orders 0", "b 3: orders 1"]);
    let committer = |member_id, epoch| Committer {
        member_id,
        group_instance_id: None,
        generation_id_or_member_epoch: epoch,
        transactional: false,
        api_version: 9,
    };
    let group = kit.group();
    let said = |result: Result<CommitScope, ApiError>| result.map_err(|error| error.to_string());
    let whole = |committer: Committer<'_>| said(group.validate_offset_commit(&committer));
    assert_eq!(whole(committer("a", 3)), Ok(CommitScope::AnyPartition));
    assert_eq!(whole(committer("a", 2)), Ok(CommitScope::EachPartition));
    let fails = |committer, code: &str| {
        let error = group.validate_offset_commit(&committer).expect_err("is refused");
        assert_eq!(error.code.name(), code, "{error}");
    };
    fails(committer("a", 4), "STALE_MEMBER_EPOCH");
    fails(committer("c", 3), "UNKNOWN_MEMBER_ID");
    fails(committer("", -1), "UNKNOWN_MEMBER_ID");
    fails(Committer { api_version: 8, ..committer("a", 3) }, "UNSUPPORTED_VERSION");
    // Nobody's transactional commit is not looked at.
    assert_eq!(whole(Committer { transactional: true, ..committer("", -1) }), Ok(CommitScope::AnyPartition));
    // In an older epoch, what the member had then.
    let orders = kit.topic_id("orders");
    let one = |committer: Committer<'_>, partition| {
        let checked = group.validate_partition_commit(&committer, "orders", orders, PartitionId(partition));
        checked.map_err(|error| error.message.unwrap_or_default())
    };
    assert_eq!(one(committer("a", 2), 0), Ok(()));
    assert_eq!(
        one(committer("a", 2), 1),
        Err("Partition orders-1 is not assigned or pending revocation for member.".to_owned())
    );
    assert_eq!(
        one(committer("b", 2), 1),
        Err("Received member epoch 2 is older than assignment epoch 3 for partition orders-1.".to_owned())
    );
    // Offsets are fetched in the current epoch alone, and by whoever names no member.
    assert_eq!(group.validate_offset_fetch(None, -1), Ok(()));
    assert_eq!(group.validate_offset_fetch(Some("a"), 3), Ok(()));
    let stale = group.validate_offset_fetch(Some("a"), 2).unwrap_err();
    assert_eq!(
        stale.message.as_deref(),
        Some("The received member epoch 2 does not match the expected member epoch 3.")
    );
    assert!(group.validate_delete_group().is_err());
    kit.beat(Beat::at("a", -1));
    kit.beat(Beat::at("b", -1));
    assert_eq!(kit.group().validate_offset_commit(&committer("", -1)).ok(), Some(CommitScope::AnyPartition));
    assert!(kit.group().validate_delete_group().is_ok());
}

/// Found by walks beside Kafka: a member that joins wanting nothing begins no epoch, and was forgotten when the epoch that a leaver had
/// begun was assigned. The group counted as one whose members all want the same, so the new one got a part.
#[test]
fn who_wants_nothing_gets_nothing() {
    for assignor in ["uniform", "range"] {
        let settings = [("group.consumer.assignment.interval.ms", "0"), ("group.consumer.assignors", assignor)];
        let mut kit = Kit::with(&[("orders", 4)], &settings);
        kit.beat(Beat::join("a", &["orders"]));
        kit.beat(Beat::join("b", &["orders"]));
        kit.beat(Beat::at("b", -1));
        kit.beat(Beat::join("c", &[]));
        kit.beat(Beat::at("a", 2));
        assert_eq!(kit.describe(), ["a 4: orders 0 1 2 3", "c 4: nothing"], "{assignor}");
    }
}
