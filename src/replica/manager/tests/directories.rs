//! Log directories that fail, are missing or have no room, and the partitions that lie in them.

use super::*;
use crate::telemetry::LogCapture;

#[test]
fn a_directory_that_fails_takes_its_partitions_offline_and_no_others() {
    let mut node = Node::new();
    let mut records = vec![topic("t", 1)];
    records.extend((0..4).map(|n| partition(1, n)));
    node.apply(records);
    let failing: Vec<i32> =
        (0..4).filter(|n| node.dir_of("t", *n).unwrap().starts_with(node.root.path().join("a"))).collect();
    assert_eq!(failing.len(), 2);
    let held: Vec<_> = (0..4).map(|n| node.partition("t", n).unwrap()).collect();

    append(&held[failing[0] as usize], 10).unwrap();
    node.fail("t", failing[0]);
    for n in 0..4 {
        match append(&held[n as usize], 10) {
            Err(PartitionAppendError::Leader(LeaderError::Offline)) => assert!(failing.contains(&n)),
            other => assert!(!failing.contains(&n) && other.is_ok(), "{n}: {other:?}"),
        }
        // The look-up still gives it: it is the partition that says so.
        assert!(Arc::ptr_eq(&node.partition("t", n).unwrap(), &held[n as usize]));
    }
    // What the controller then decides cannot bring it back; new ones go where there is room.
    node.apply(vec![topic("u", 2), partition(2, 0), partition(1, 4)]);
    for (topic, n) in [("u", 0), ("t", 4)] {
        assert!(node.dir_of(topic, n).unwrap().starts_with(node.root.path().join("b")));
        append(&node.partition(topic, n).unwrap(), 10).unwrap();
    }
    // Its topic can be deleted, and be made anew, in spite of it.
    node.apply(vec![RemoveTopicRecord { topic_id: id(1) }.into()]);
    node.apply(vec![topic("t", 3), partition(3, 0)]);
    append(&node.partition("t", 0).unwrap(), 10).unwrap();
}

/// One that failed while partitions came told those alone that were here before: the others went on taking records in a
/// directory that was given up.
#[test]
fn a_directory_that_fails_while_partitions_come_takes_them_offline_too() {
    let mut node = Node::new();
    let (logs, a, failed) = (node.logs.clone(), node.root.path().join("a"), AtomicBool::new(false));
    // At the first epoch of one of them, when there are logs for all.
    node.faults.before(move |call, path| {
        let is_of_epochs = call == Call::Sync && path.to_string_lossy().contains("leader-epoch-checkpoint");
        if !is_of_epochs || !path.starts_with(&a) || failed.swap(true, Ordering::Relaxed) {
            return Ok(());
        }
        while logs.logs().len() < 6 {
            std::thread::yield_now();
        }
        Err(std::io::Error::from_raw_os_error(libc::EIO))
    });
    let mut records = vec![topic("t", 1)];
    records.extend((0..6).map(|n| partition(1, n)));
    node.apply(records);
    let is_here = |n| node.dir_of("t", n).is_some();
    assert_eq!((0..6).filter(|n| is_here(*n)).count(), 3);
    for n in 0..6 {
        match append(&node.partition("t", n).unwrap(), 10) {
            Err(PartitionAppendError::Leader(LeaderError::Offline)) => assert!(!is_here(n)),
            other => assert!(is_here(n) && other.is_ok(), "{n}: {other:?}"),
        }
    }
}

#[test]
fn what_lies_where_is_told() {
    let mut node = Node::new();
    node.apply(vec![topic("t", 1), partition(1, 0), partition(1, 1), partition(1, 2)]);
    for n in 0..3 {
        for _ in 0..=n {
            append(&node.partition("t", n).unwrap(), 100).unwrap();
        }
    }
    let described = node.replicas.describe_log_dirs(None);
    let all: Vec<_> = described.iter().flat_map(|dir| dir.online.as_ref().unwrap().replicas.clone()).collect();
    assert_eq!(all.len(), 3);
    for replica in &all {
        let log = node.logs.get(&replica.topic_partition).unwrap();
        assert_eq!((replica.size, replica.offset_lag, replica.is_future), (log.size(), 0, false));
        assert!(log.size() > 0);
    }
    let wanted = std::collections::HashSet::from([TopicPartition::new("t", 1), TopicPartition::new("u", 0)]);
    let some = node.replicas.describe_log_dirs(Some(&wanted));
    assert_eq!(some.iter().map(|dir| dir.online.as_ref().unwrap().replicas.len()).sum::<usize>(), 1);
    node.faults.syncs_fail.store(true, Ordering::Relaxed);
    node.logs.get(&TopicPartition::new("t", 0)).unwrap().flush(Offset(1)).unwrap_err();
    let online = node.replicas.describe_log_dirs(None).iter().filter(|dir| dir.online.is_some()).count();
    assert_eq!(online, 1);
}

#[test]
fn without_a_directory_to_lie_in_a_partition_is_offline() {
    let mut node = Node::new();
    node.apply(vec![topic("t", 1), partition(1, 0), partition(1, 1)]);
    for n in 0..2 {
        append(&node.partition("t", n).unwrap(), 10).unwrap();
        node.fail("t", n);
    }
    node.apply(vec![topic("u", 2), partition(2, 0)]);
    assert_eq!(node.partition("u", 0).map(drop), Err(LookupError::Offline));
    assert_eq!(node.replicas.high_watermarks().len(), 2, "those that were online once");
}

/// Where a directory is empty that should hold logs, what the metadata knows of from before is not made anew.
#[test]
fn a_log_that_may_be_elsewhere_is_not_replaced() {
    for may_miss_logs in [true, false] {
        let mut node = Node::before_start(BTreeMap::new(), may_miss_logs);
        node.apply(vec![topic("t", 1), partition(1, 0)]);
        let expected = if may_miss_logs { Err(LookupError::Offline) } else { Ok(()) };
        assert_eq!(node.partition("t", 0).map(drop), expected);
        node.apply(vec![topic("u", 2), partition(2, 0), partition(1, 1)]);
        assert_eq!(node.partition("t", 0).map(drop), expected);
        for (topic, n) in [("u", 0), ("t", 1)] {
            append(&node.partition(topic, n).unwrap(), 10).unwrap();
        }
    }
}

/// Once there was room again, every partition of a topic that had lacked it was made anew, those too whose log was in a
/// directory that was missing: they were led from offset 0, and what they had held was given up.
#[test]
fn room_brings_back_what_lacked_it_and_nothing_else() {
    let lost = |may_miss_logs: bool| {
        let unusable: &[&str] = if may_miss_logs { &[] } else { &["b"] };
        Node::with_unusable(unusable, BTreeMap::new(), may_miss_logs)
    };
    for mut node in [lost(false), lost(true)] {
        let state = |node: &Node, topic, n| node.partition(topic, n).map(drop);
        // The metadata knows this one from before, and no directory that is here has it.
        node.apply(vec![topic("t", 1), partition(1, 0)]);
        node.faults.room.store(0, Ordering::Relaxed);
        node.apply(vec![
            partition(1, 1),
            partition(1, 2),
            topic("u", 2),
            partition(2, 0),
            topic("v", 3),
            partition(3, 0),
        ]);
        node.apply(vec![RemoveTopicRecord { topic_id: id(3) }.into()]);
        for _ in 0..2 {
            node.replicas.retry_for_room();
            for (topic, n) in [("t", 0), ("t", 1), ("t", 2), ("u", 0)] {
                assert_eq!(state(&node, topic, n), Err(LookupError::Offline));
            }
        }
        node.faults.room.store(-1, Ordering::Relaxed);
        for _ in 0..2 {
            node.replicas.retry_for_room();
            assert_eq!(state(&node, "t", 0), Err(LookupError::Offline));
            assert_eq!(state(&node, "v", 0), Err(LookupError::UnknownTopicOrPartition));
            for (topic, n) in [("t", 1), ("t", 2), ("u", 0)] {
                append(&node.partition(topic, n).unwrap(), 10).unwrap();
            }
        }
    }
    // What lacked room at the start, and is nowhere else, is made when there is some; but not once it may be elsewhere.
    for fails in [false, true] {
        let mut node = Node::before_start(BTreeMap::new(), false);
        node.faults.room.store(0, Ordering::Relaxed);
        node.apply(vec![topic("t", 1), partition(1, 0)]);
        node.faults.room.store(-1, Ordering::Relaxed);
        if fails {
            node.apply(vec![topic("u", 2), partition(2, 0)]);
            append(&node.partition("u", 0).unwrap(), 10).unwrap();
            node.fail("u", 0);
        }
        node.replicas.retry_for_room();
        let expected = if fails { Err(LookupError::Offline) } else { Ok(()) };
        assert_eq!(node.partition("t", 0).map(drop), expected);
    }
}

/// A partition for which there was no room, up to the next start and longer, was said to have lost its log.
#[test]
fn only_of_a_log_that_was_here_it_is_told_that_it_is_gone() {
    let noted = |offset| BTreeMap::from([(TopicPartition::new("t", 0), Offset(offset))]);
    for (high_watermarks, is_noted, leader_epoch, expected) in [
        (BTreeMap::new(), true, 0, false),
        (BTreeMap::new(), true, 5, false),
        (noted(7), true, 0, true),
        (noted(0), true, 5, true),
        // What was noted is lost as well.
        (BTreeMap::new(), false, 0, false),
        (BTreeMap::new(), false, 5, true),
    ] {
        let what = format!("{high_watermarks:?} {is_noted} {leader_epoch}");
        let mut node = Node::before_start(high_watermarks, false);
        if is_noted {
            node.logs.checkpoint_high_watermarks(&BTreeMap::new());
        }
        let capture = LogCapture::start();
        let told = || {
            let warnings = capture.take().into_iter().filter(|event| event.level <= tracing::Level::WARN);
            warnings.filter(|event| event.text.contains("is not there")).count()
        };
        let record = PartitionRecord {
            partition_id: PartitionId(0),
            topic_id: id(1),
            replicas: vec![BrokerId(1)],
            isr: vec![BrokerId(1)],
            leader: BrokerId(1),
            leader_epoch: LeaderEpoch(leader_epoch),
            ..PartitionRecord::default()
        };
        node.faults.renames_lack_room.store(true, Ordering::Relaxed);
        node.apply(vec![topic("t", 1), record.into()]);
        assert_eq!((node.partition("t", 0).map(drop), told()), (Err(LookupError::Offline), 0), "{what}");
        // The empty one takes its place when there is room.
        node.faults.renames_lack_room.store(false, Ordering::Relaxed);
        node.replicas.retry_for_room();
        node.replicas.retry_for_room();
        assert_eq!((node.partition("t", 0).map(drop), told()), (Ok(()), usize::from(expected)), "{what}");
        node.apply(vec![topic("new", 2), partition(2, 0)]);
        assert_eq!(told(), 0, "{what}");
    }
}
