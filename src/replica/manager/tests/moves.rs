//! Partitions that move between log directories while they serve.

use super::*;

/// Whatever came in the way of reading a log that was to be moved took the directory offline in which it served, with all
/// that lay there.
#[test]
fn a_log_that_cannot_be_copied_goes_on_unless_it_is_the_disk_that_fails() {
    use std::io::{Error, ErrorKind};
    let errors: [fn() -> Error; 5] = [
        || Error::from_raw_os_error(libc::EMFILE),
        || ErrorKind::NotFound.into(),
        || ErrorKind::UnexpectedEof.into(),
        || ErrorKind::InvalidData.into(),
        || Error::from_raw_os_error(libc::EIO),
    ];
    for error in errors {
        let mut node = Node::new();
        node.apply(vec![topic("t", 1), partition(1, 0)]);
        let moved = node.partition("t", 0).unwrap();
        append(&moved, 10).unwrap();
        let (name, b) = (moved.topic_partition(), node.root.path().join("b").to_str().unwrap().to_owned());
        let has_failed = Arc::new(AtomicBool::new(false));
        let (path, seen) = (node.dir_of("t", 0).unwrap(), has_failed.clone());
        node.faults.before(move |call, file| {
            if call == Call::Read && file.starts_with(&path) && !seen.swap(true, Ordering::SeqCst) {
                return Err(error());
            }
            Ok(())
        });
        node.replicas.alter_replica_log_dir(name, &b).unwrap();
        while !has_failed.load(Ordering::SeqCst) {
            std::thread::yield_now();
        }
        let directory = node.logs.directory_of(name);
        if is_disk_failure(&error()) {
            while node.logs.get(name).is_ok() {
                std::thread::yield_now();
            }
            continue;
        }
        // It has ended, or will in a moment, and can be sent again.
        while node.logs.directory_of(name) == directory {
            node.replicas.alter_replica_log_dir(name, &b).unwrap();
            append(&moved, 10).unwrap();
            std::thread::yield_now();
        }
        node.replicas.stop_moves();
        assert!(!node.logs.has_offline_dirs());
    }
}

/// A directory that failed while it took a partition over did not know it yet, so that nobody told the partition.
#[test]
fn a_directory_that_fails_while_a_partition_moves_there_takes_it_offline() {
    let mut node = Node::new();
    node.apply(vec![topic("t", 1), partition(1, 0)]);
    node.apply(vec![topic("u", 2), partition(2, 0)]);
    let moved = node.partition("t", 0).unwrap();
    append(&moved, 10).unwrap();
    let (b, log, failed) = (
        node.root.path().join("b"),
        node.logs.get(&TopicPartition::new("u", 0)).unwrap(),
        Arc::new(AtomicBool::new(false)),
    );
    let (path, seen) = (b.clone(), failed.clone());
    node.faults.before(move |call, dir| {
        if call == Call::SyncDir && *dir == path && path.join("t-0").exists() && !seen.swap(true, Ordering::SeqCst) {
            log.disk_failed(&std::io::Error::from_raw_os_error(libc::EIO));
        }
        Ok(())
    });
    node.replicas.alter_replica_log_dir(moved.topic_partition(), b.to_str().unwrap()).unwrap();
    while !failed.load(Ordering::SeqCst) {
        std::thread::yield_now();
    }
    node.replicas.stop_moves();
    assert_eq!(node.logs.get(moved.topic_partition()).err(), Some(LogLookupError::Offline));
    let refused = append(&moved, 10).unwrap_err();
    assert!(matches!(refused, PartitionAppendError::Leader(LeaderError::Offline)), "{refused}");
}

/// Moves go on while the partition serves, on threads of their own.
#[test]
fn a_partition_serves_while_it_moves() {
    let mut node = Node::new();
    node.apply(vec![topic("t", 1), partition(1, 0)]);
    let moved = node.partition("t", 0).unwrap();
    for _ in 0..200 {
        append(&moved, 1000).unwrap();
    }
    let name = TopicPartition::new("t", 0);
    let path_of = |node: &Node, at: usize| node.logs.log_dirs()[at].path.to_str().unwrap().to_owned();
    let directory = |node: &Node, at: usize| node.logs.log_dirs()[at].id;
    for round in 0..4 {
        let from = node.logs.directory_of(&name).unwrap();
        let to = usize::from(from == directory(&node, 0));
        node.replicas.alter_replica_log_dir(&name, &path_of(&node, to)).unwrap();
        let deadline = std::time::Instant::now() + Duration::from_secs(60);
        let mut appended = 0;
        while node.logs.directory_of(&name) == Some(from) {
            assert!(std::time::Instant::now() < deadline, "it does not move");
            append(&moved, 10).unwrap();
            appended += 1;
            // Nothing that was acknowledged may be missing, and nobody is refused.
            moved.delete_records(Some(Offset(round))).unwrap();
            moved.delete_old_segments(NOW_MS);
        }
        append(&moved, 10).unwrap();
        assert!(appended > 0);
        assert!(Arc::ptr_eq(&moved, &node.partition("t", 0).unwrap()));
        let end = moved.log_end_offset();
        assert_eq!((moved.high_watermark(), node.logs.get(&name).unwrap().log_end_offset()), (end, end));
        // The old one goes last of all.
        while node.logs.future(&name).is_some() || node.placed()[1 - to] > 0 {
            std::thread::yield_now();
        }
        assert_eq!(moved.log_start_offset(), Offset(round));
    }
    node.replicas.stop_moves();
    assert_eq!(node.placed().iter().sum::<usize>(), 1);
    // Of each of the new places the controller is to be told, the last one counts.
    let told = futures_util::FutureExt::now_or_never(node.replicas.assignments().take(9)).unwrap();
    let now = node.logs.directory_of(&name).unwrap();
    assert_eq!(told, [((id(1), PartitionId(0)), now)]);
    assert!(futures_util::FutureExt::now_or_never(node.replicas.assignments().take(9)).is_none());
}

/// Begins to move `t-0` of a node to the other directory, and copies all of it.
fn copied(node: &Node) -> FutureLog {
    let name = TopicPartition::new("t", 0);
    let from = node.logs.directory_of(&name).unwrap();
    let to = node.logs.log_dirs().into_iter().find(|dir| dir.id != from).unwrap();
    let logs = node.logs.create_future(&name, to.path.to_str().unwrap()).unwrap().unwrap();
    while logs.future.copy_from(&logs.current).unwrap() > 0 {}
    logs
}

/// Retention, or whoever changes a log, may come just when the log has been handed over and the partition does not have
/// the new one yet. It took the old one, which refuses, for failed: the partition was offline until a restart.
#[test]
fn who_comes_to_a_log_that_was_handed_over_waits_for_the_new_one() {
    let mut node = Node::new();
    node.apply(vec![topic("t", 1), partition(1, 0)]);
    let moved = node.partition("t", 0).unwrap();
    for _ in 0..3 {
        append(&moved, 10).unwrap();
    }
    let logs = copied(&node);
    let (refused_in, refused) = std::sync::mpsc::channel();
    let changer = std::thread::scope(|scope| {
        let mut changer = None;
        let mut exchange = None;
        let exchanged = moved.replace_log(|_| {
            exchange = Some(node.logs.replace_with_future(moved.topic_partition(), &logs)?);
            changer = Some(scope.spawn(|| {
                moved.change(|log| {
                    log.advance_log_start_offset(Offset(2)).inspect_err(|error| {
                        refused_in.send(matches!(error, ChangeError::Moved)).unwrap();
                    })
                })
            }));
            // It has met the old one, and can only go on to the new one.
            assert!(refused.recv().unwrap());
            Ok::<_, HandoverError>(logs.future.clone())
        });
        exchanged.unwrap();
        node.logs.finish_exchange(exchange.unwrap());
        changer.unwrap().join().unwrap()
    });
    assert!(changer.unwrap());
    assert_eq!((moved.log_start_offset(), logs.current.log_start_offset()), (Offset(2), Offset(0)));
    // Once it is done, nobody who still holds the old one takes it for failed, either: what it had is durable.
    assert!(matches!(logs.current.delete_old_segments(NOW_MS, Offset(3)), Err(ChangeError::Moved)));
    assert!(logs.current.is_moved() && !logs.current.is_failed());
    logs.current.flush(Offset(3)).unwrap();
    logs.current.close().unwrap();
    logs.current.disk_failed(&std::io::Error::from_raw_os_error(5));
    assert_eq!(node.logs.log_dirs().iter().filter(|dir| dir.is_online).count(), 2);
    append(&moved, 10).unwrap();
    assert_eq!(moved.delete_records(Some(Offset(3))).unwrap(), Offset(3));
}

/// What is left of the log by then is in the new directory. The partition was offline until a restart.
#[test]
fn a_directory_that_fails_while_a_log_leaves_it_for_good_takes_nothing_with_it() {
    for is_told_late in [false, true] {
        let mut node = Node::new();
        node.apply(vec![topic("t", 1), partition(1, 0), partition(1, 1), partition(1, 2)]);
        let moved = node.partition("t", 0).unwrap();
        append(&moved, 10).unwrap();
        let name = moved.topic_partition().clone();
        let left = node.logs.directory_of(&name).unwrap();
        let other = (1..3).find(|n| node.logs.directory_of(&TopicPartition::new("t", *n)) == Some(left)).unwrap();
        append(&node.partition("t", other).unwrap(), 10).unwrap();
        let logs = copied(&node);
        let mut exchange = None;
        let exchanged = moved.replace_log(|_| {
            if !is_told_late {
                node.replicas.partition("t", PartitionId(0)).unwrap().set_offline();
            }
            exchange = Some(node.logs.replace_with_future(&name, &logs)?);
            node.fail("t", other);
            moved.follow_directory(&node.logs);
            Ok::<_, HandoverError>(logs.future.clone())
        });
        exchanged.unwrap();
        node.logs.finish_exchange(exchange.unwrap());
        node.replicas.set_offline(std::slice::from_ref(&name));
        assert_eq!(node.logs.log_dirs().iter().filter(|dir| dir.is_online).count(), 1);
        append(&node.partition("t", other).unwrap(), 10).unwrap_err();
        append(&moved, 10).unwrap();
        assert_eq!(node.logs.get(&name).unwrap().log_end_offset(), Offset(2));
    }
}
