//! What one group goes through: joins, rebalances, leaves.

use super::*;

#[test]
fn the_first_member_gets_everything_in_epoch_2() {
    let mut kit = Kit::new(&[("orders", 3)]);
    assert_eq!(kit.beat(Beat::join("m", &["orders"])), "epoch 2: orders 0 1 2");
    assert_eq!(
        kit.written(),
        ["member m orders", "group 2", "target m orders 0 1 2", "target 2", "current m 2<0 Stable orders 0 1 2"]
    );
    assert_eq!(kit.state(), "consumer Stable");
    // A heartbeat that changes nothing writes nothing, and says nothing of the assignment.
    assert_eq!(kit.beat(Beat::at("m", 2)), "epoch 2");
    assert_eq!(kit.beat(Beat::at("m", 2).names(&["orders"])), "epoch 2");
    // One that says everything is told everything.
    let full = Beat::at("m", 2).names(&["orders"]).owns("orders 0 1 2").rebalance_timeout(30_000);
    assert_eq!(kit.beat(full), "epoch 2: orders 0 1 2");
    assert_eq!(kit.beat(Beat::join("m", &["orders"])), "epoch 2: orders 0 1 2");
    assert_eq!(kit.written(), [] as [&str; 0]);
}

#[test]
fn partitions_move_only_after_they_are_given_up() {
    let mut kit = Kit::new(&[("orders", 4)]);
    kit.beat(Beat::join("a", &["orders"]));
    kit.written();
    // Within the assignment interval (1 s) a second member is in the group, and waits for a target.
    assert_eq!(kit.beat(Beat::join("b", &["orders"])), "epoch 2: nothing");
    assert_eq!(kit.written(), ["member b orders", "group 3", "current b 2<0 Stable nothing"]);
    assert_eq!(kit.state(), "consumer Assigning");
    kit.pass(1000);
    // Then whoever comes first has it computed. What b is to get is still a's.
    assert_eq!(kit.beat(Beat::at("b", 2)), "epoch 3");
    assert_eq!(
        kit.written(),
        ["target a orders 0 1", "target b orders 2 3", "target 3", "current b 3<2 UnreleasedPartitions nothing"]
    );
    assert_eq!(kit.state(), "consumer Reconciling");
    // a is told to give up, and stays in its epoch until it has.
    assert_eq!(kit.beat(Beat::at("a", 2)), "epoch 2: orders 0 1");
    assert_eq!(kit.written(), ["current a 2<2 UnrevokedPartitions orders 0 1 - orders 2 3"]);
    assert_eq!(kit.describe(), ["a 2: orders 0 1 2 3", "b 3: nothing"]);
    assert_eq!(kit.beat(Beat::at("a", 2)), "epoch 2");
    assert_eq!(kit.beat(Beat::at("a", 2).owns("orders 0 1 3")), "epoch 2");
    assert_eq!(kit.beat(Beat::at("b", 3)), "epoch 3");
    assert_eq!(kit.written(), ["current b 3<3 UnreleasedPartitions nothing"]);
    assert_eq!(kit.beat(Beat::at("a", 2).owns("orders 0 1")), "epoch 3");
    assert_eq!(kit.beat(Beat::at("b", 3)), "epoch 3: orders 2 3");
    assert_eq!(kit.written(), ["current a 3<2 Stable orders 0 1", "current b 3<3 Stable orders 2 3"]);
    assert_eq!(kit.state(), "consumer Stable");
}

#[test]
fn a_lost_answer_is_made_up_for() {
    let mut kit = Kit::new(&[("orders", 4)]);
    kit.beat(Beat::join("a", &["orders"]));
    kit.pass(1000);
    kit.beat(Beat::join("b", &["orders"]));
    kit.beat(Beat::at("a", 2));
    // The answer with epoch 3 is lost; what a says it owns fits it.
    assert_eq!(kit.beat(Beat::at("a", 2).owns("orders 0 1")), "epoch 3");
    assert_eq!(kit.beat(Beat::at("a", 2).owns("orders 0")), "epoch 3");
    // Otherwise it is fenced.
    let fenced = "FENCED_MEMBER_EPOCH: The consumer group member has a smaller member epoch (2) than the one known by \
                  the group coordinator (3). The member must abandon all its partitions and rejoin.";
    assert_eq!(kit.beat(Beat::at("a", 2).owns("orders 0 3")), fenced);
    assert_eq!(kit.beat(Beat::at("a", 2)), fenced);
    assert_eq!(kit.beat(Beat::at("a", 4)), fenced.replace("smaller", "greater").replace("(2)", "(4)"));
    // It rejoins, and goes on.
    assert_eq!(kit.beat(Beat::join("a", &["orders"])), "epoch 3: orders 0 1");
}

#[test]
fn who_leaves_is_gone_with_all_its_records() {
    let mut kit = Kit::new(&[("orders", 2)]);
    kit.beat(Beat::join("a", &["orders"]));
    kit.pass(1000);
    kit.beat(Beat::join("b", &["orders"]));
    kit.written();
    assert_eq!(kit.beat(Beat::at("b", -1)), "epoch -1");
    assert_eq!(kit.written(), ["x current b", "x target b", "x member b", "group 4"]);
    kit.pass(1000);
    assert_eq!(kit.beat(Beat::at("a", 2)), "epoch 4");
    assert_eq!(kit.beat(Beat::at("a", -1)), "epoch -1");
    assert_eq!(kit.state(), "consumer Empty");
    assert_eq!(kit.harness.shard.timers.len(), 1, "only the look for what has expired is left");
    // Empty, it can be deleted, and forgets nothing of what it wrote.
    let tombstones = kit.group().tombstone_records();
    kit.written();
    kit.harness.step(|_, step| step.append_all(tombstones)).unwrap();
    assert_eq!(kit.written(), ["x target", "x partitions", "x group"]);
    assert_eq!(kit.state(), "none");
}

#[test]
fn a_silent_member_is_removed_after_its_session() {
    let mut kit = Kit::new(&[("orders", 2)]);
    kit.beat(Beat::join("a", &["orders"]));
    kit.pass(30_000);
    kit.beat(Beat::at("a", 2));
    kit.pass(44_999);
    kit.written();
    assert_eq!(kit.state(), "consumer Stable");
    kit.pass(1);
    assert_eq!(kit.written(), ["x current a", "x target a", "x member a", "group 3"]);
    assert_eq!(kit.state(), "consumer Empty");
    assert_eq!(kit.beat(Beat::at("a", 2)), "UNKNOWN_MEMBER_ID: Member a is not a member of group g.");
}

#[test]
fn a_member_that_does_not_give_up_is_removed() {
    let mut kit = Kit::new(&[("orders", 2)]);
    kit.beat(Beat::join("a", &["orders"]).rebalance_timeout(5000));
    kit.pass(1000);
    kit.beat(Beat::join("b", &["orders"]));
    kit.beat(Beat::at("a", 2));
    for _ in 0..4 {
        kit.pass(1000);
        assert_eq!(kit.beat(Beat::at("a", 2)), "epoch 2");
    }
    kit.written();
    kit.pass(1000);
    assert_eq!(kit.written(), ["x current a", "x target a", "x member a", "group 4"]);
    // One that does in time is not.
    kit.beat(Beat::join("a", &["orders"]).rebalance_timeout(5000));
    kit.pass(1000);
    kit.beat(Beat::at("b", 3));
    kit.beat(Beat::at("b", 3).owns("orders 1"));
    kit.pass(10_000);
    assert_eq!(kit.describe().len(), 2);
}

#[test]
fn a_removal_that_cannot_be_written_is_tried_again() {
    let mut kit = Kit::new(&[("orders", 2)]);
    kit.beat(Beat::join("a", &["orders"]));
    kit.harness.append_error =
        Some(crate::coordinator::shard::CoordinatorError::NotAvailable("no replicas".to_owned()));
    kit.pass(46_000);
    assert_eq!(kit.state(), "consumer Stable");
    kit.harness.append_error = None;
    kit.pass(500);
    assert_eq!(kit.state(), "consumer Empty");
}

#[test]
fn what_cannot_be_written_has_not_happened() {
    let mut kit = Kit::new(&[("orders", 2)]);
    let error = crate::coordinator::shard::CoordinatorError::NotAvailable("no replicas".to_owned());
    kit.harness.append_error = Some(error.clone());
    assert_eq!(kit.beat(Beat::join("a", &["orders"])), "COORDINATOR_NOT_AVAILABLE");
    assert_eq!(kit.state(), "none");
    kit.harness.append_error = None;
    kit.beat(Beat::join("a", &["orders"]));
    kit.pass(1000);
    kit.harness.append_error = Some(error);
    assert_eq!(kit.beat(Beat::at("a", 2).names(&["orders", "users"])), "COORDINATOR_NOT_AVAILABLE");
    kit.harness.append_error = None;
    kit.written();
    // The refresh that was noted for an epoch that never came is done again.
    assert_eq!(kit.beat(Beat::at("a", 2).names(&["orders", "users"])), "epoch 3");
    assert_eq!(kit.written(), ["member a orders users", "group 3", "target 3", "current a 3<2 Stable orders 0 1"]);
}

#[test]
fn another_subscription_takes_effect_at_once() {
    let mut kit = Kit::new(&[("orders", 2), ("users", 1)]);
    kit.beat(Beat::join("a", &["orders", "users"]));
    kit.written();
    // Within the assignment interval: the target still has both, the member must give one up all the same.
    assert_eq!(kit.beat(Beat::at("a", 2).names(&["users"])), "epoch 2: users 0");
    assert_eq!(kit.written(), ["member a users", "group 3", "current a 2<2 UnrevokedPartitions users 0 - orders 0 1"]);
    assert_eq!(kit.beat(Beat::at("a", 2).owns("users 0")), "epoch 2");
    assert_eq!(kit.written(), ["current a 2<2 Stable users 0"]);
    kit.pass(1000);
    assert_eq!(kit.beat(Beat::at("a", 2)), "epoch 3");
    assert_eq!(kit.written(), ["target a users 0", "target 3", "current a 3<2 Stable users 0"]);
}
