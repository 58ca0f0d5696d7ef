//! Subscriptions by regular expression.

use super::*;
use crate::coordinator::group::consumer::regexes::RegexLook;
use crate::coordinator::shard::CoordinatorError;

fn join(member_id: &str, regex: &str) -> Beat {
    Beat { topics: None, ..Beat::join(member_id, &[]) }.regex(regex)
}

#[test]
fn an_expression_is_looked_at_after_its_member_joined() {
    let mut kit = Kit::new(&[("orders", 1), ("old-orders", 1), ("users", 1)]);
    assert_eq!(kit.beat(join("m", "orders|us.*")), "epoch 1: nothing");
    assert_eq!(
        kit.written(),
        ["member m ~orders|us.*", "current m 1<0 Stable nothing", "regex orders|us.* = orders users", "group 2"]
    );
    assert_eq!(kit.beat(Beat::at("m", 1)), "epoch 2: orders 0, users 0");
    assert_eq!(kit.written(), ["target m orders 0, users 0", "target 2", "current m 2<1 Stable orders 0, users 0"]);
    // The expression is not new to the group: the second member is assigned at once.
    kit.pass(1000);
    assert_eq!(kit.beat(join("n", "orders|us.*")), "epoch 3: nothing");
    assert_eq!(
        kit.written(),
        [
            "member n ~orders|us.*",
            "group 3",
            "target m orders 0",
            "target n users 0",
            "target 3",
            "current n 3<0 UnreleasedPartitions nothing",
        ]
    );
}

#[test]
fn new_topics_are_found_ten_seconds_later_at_the_earliest() {
    let mut kit = Kit::new(&[("a1", 1)]);
    kit.beat(join("m", "a.*"));
    kit.beat(Beat::at("m", 1));
    kit.create_topic("a2", 1);
    kit.pass(9_000);
    kit.written();
    assert_eq!(kit.beat(Beat::at("m", 2)), "epoch 2");
    assert_eq!(kit.written(), [] as [&str; 0]);
    kit.pass(1_001);
    assert_eq!(kit.beat(Beat::at("m", 2)), "epoch 2");
    assert_eq!(kit.written(), ["regex a.* = a1 a2", "group 3"]);
    assert_eq!(kit.beat(Beat::at("m", 2)), "epoch 3: a1 0, a2 0");
    // One that it does not match makes it look, and that is all.
    kit.create_topic("b", 1);
    kit.pass(11_000);
    kit.written();
    kit.beat(Beat::at("m", 3));
    assert_eq!(kit.written(), ["regex a.* = a1 a2"]);
    // A topic that is gone is taken away by the topics' hash; the expression forgets it at the next look.
    kit.delete_topic("a2");
    assert_eq!(kit.beat(Beat::at("m", 3)), "epoch 3: a1 0");
    assert_eq!(
        kit.written(),
        ["group 4", "target m a1 0", "target 4", "current m 3<3 UnrevokedPartitions a1 0 - (gone) 0"]
    );
    kit.beat(Beat::at("m", 3).owns("a1 0"));
    kit.written();
    for _ in 0..60 {
        kit.pass(10_001);
        kit.beat(Beat::at("m", 4));
    }
    assert_eq!(kit.written(), ["regex a.* = a1", "group 5", "target 5", "current m 5<4 Stable a1 0"][..2]);
}

#[test]
fn the_last_to_use_an_expression_takes_it_away() {
    let mut kit = Kit::with(&[("a", 1), ("b", 1)], &[("group.consumer.assignment.interval.ms", "0")]);
    kit.beat(join("m", "a"));
    kit.beat(Beat::at("m", 1));
    kit.beat(join("n", "a"));
    kit.written();
    // Ten seconds have not passed: the new expression waits, and the member gives up what the old one matched.
    assert_eq!(kit.beat(Beat::at("n", 3).regex("b")), "epoch 3");
    assert_eq!(kit.written(), ["member n ~b"]);
    kit.pass(10_001);
    kit.beat(Beat::at("n", 3));
    assert_eq!(kit.written(), ["regex a = a", "regex b = b", "group 4"]);
    assert_eq!(kit.beat(Beat::at("n", 3)), "epoch 4: b 0");
    kit.written();
    // Away with it, by name from here on.
    assert_eq!(kit.beat(Beat::at("n", 4).regex("").names(&["b"])), "epoch 5");
    assert_eq!(kit.written()[..3], ["member n b", "x regex b", "group 5"]);
    kit.beat(Beat::at("m", -1));
    assert_eq!(kit.written(), ["x current m", "x target m", "x member m", "x regex a", "group 6"]);
    assert!(kit.group().resolved_regexes().is_empty());
}

#[test]
fn what_is_no_expression_is_refused() {
    let mut kit = Kit::new(&[]);
    assert_eq!(
        kit.beat(join("m", "(")),
        "INVALID_REGULAR_EXPRESSION: SubscribedTopicRegex `(` is not a valid regular expression: missing closing )."
    );
    assert_eq!(kit.state(), "none");
    assert_eq!(kit.written(), [] as [&str; 0]);
}

#[test]
fn names_and_expressions_add_up() {
    let mut kit = Kit::new(&[("a", 1), ("b", 1)]);
    kit.beat(join("m", "a").names(&["b"]));
    assert_eq!(kit.group().subscribed_topics().keys().map(|name| &**name).collect::<Vec<_>>(), ["a", "b"]);
    kit.pass(1000);
    assert_eq!(kit.beat(Beat::at("m", 2)), "epoch 3: a 0, b 0");
}

#[test]
fn a_long_look_is_taken_in_several_steps() {
    // Hundreds of costly expressions in one group kept everybody else of the shard waiting for seconds.
    let mut kit = Kit::new(&[("a1", 1)]);
    let regex = |index: i32| format!("a1{}|x{index}", "(?i)".repeat(2_000));
    for index in 0..8 {
        kit.beat(join(&format!("m{index}"), &regex(index)));
    }
    kit.pass(11_000);
    kit.written();
    kit.beat(Beat::at("m0", 1));
    // A member that comes while it is taken is part of it, and one that goes is not.
    kit.beat(join("m8", &regex(8)));
    kit.beat(Beat::at("m4", -1));
    let looked_at = |kit: &mut Kit| {
        kit.written().iter().filter(|record| record.starts_with("regex ") && record.ends_with("= a1")).count()
    };
    assert_eq!(looked_at(&mut kit), 0);
    kit.pass(1);
    assert_eq!(looked_at(&mut kit), 0);
    kit.pass(1);
    assert_eq!(looked_at(&mut kit), 8);
}

#[test]
fn a_look_that_finds_too_much_is_given_up() {
    let mut kit = Kit::new(&[("a1", 1)]);
    kit.beat(join("m", "a.*"));
    kit.create_topic("a2", 1);
    kit.pass(11_000);
    kit.written();
    let Some(Group::Consumer(group)) = kit.harness.shard.groups.get_mut("g") else { unreachable!("it was joined") };
    group.put_regex_look(Box::new(RegexLook::nearly_full()));
    kit.beat(Beat::at("m", 1));
    assert!(kit.written().iter().all(|record| !record.starts_with("regex ")));
    kit.pass(11_000);
    kit.beat(Beat::at("m", 2));
    assert_eq!(kit.written()[0], "regex a.* = a1 a2");
}

#[test]
fn what_a_look_found_and_could_not_be_written_is_tried_again_after_a_while() {
    // The names of all topics that an expression matches stand in one batch, which may be larger than the log takes. The
    // look was repeated with every heartbeat then.
    let mut kit = Kit::new(&[("a1", 1)]);
    kit.beat(join("m", "a.*"));
    kit.beat(Beat::at("m", 1));
    kit.create_topic("a2", 1);
    kit.pass(11_000);
    kit.written();
    kit.harness.append_error = Some(CoordinatorError::Refused("too large".to_owned()));
    let looks = [(); 3].map(|()| {
        assert_eq!(kit.beat(Beat::at("m", 2)), "epoch 2");
        kit.pass(1_000);
        kit.group().unwritten_regex_look_ms()
    });
    assert!(looks[0].is_some());
    assert_eq!(looks, [looks[0]; 3]);
    kit.harness.append_error = None;
    kit.pass(7_001);
    kit.beat(Beat::at("m", 2));
    assert_eq!(kit.written(), ["regex a.* = a1 a2", "group 3"]);
}
