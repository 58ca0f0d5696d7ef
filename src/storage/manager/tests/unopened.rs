//! Logs that are offline alone, for want of a file and not of a disk.

use super::*;
use crate::storage::log::ChangeError;
use crate::telemetry::LogCapture;

/// Logs `t-0` and `t-1` in the directory `a`, of 5 records each.
fn two_logs(node: &Node) -> Arc<LogManager> {
    let (manager, _) = node.start();
    for n in 0..2 {
        let new = NewLog { directory: Some(node.ids[0]), ..new_log(hosted().topic_id) };
        append(&manager.get_or_create(&partition("t", n), new).unwrap(), 5);
    }
    manager
}

/// A file that stood in the way of the next segment took the directory offline, and a node with one directory down.
#[test]
fn a_log_that_fails_for_a_file_of_its_own_is_offline_alone() {
    let node = Node::new();
    let manager = two_logs(&node);
    let log = manager.get(&partition("t", 0)).unwrap();
    log.flush(Offset(5)).unwrap();
    fs::create_dir(node.path("a/t-0/00000000000000000005.log")).unwrap();
    assert!(matches!(log.roll(), Err(ChangeError::Io(_))));
    assert_eq!(manager.get(&partition("t", 0)).err(), Some(LogLookupError::Offline));
    let again = manager.get_or_create(&partition("t", 0), new_log(hosted().topic_id));
    assert!(matches!(again, Err(CreateError::Unopened(_))));
    append(&manager.get(&partition("t", 1)).unwrap(), 5);
    assert!(node.failures.lock().is_empty() && !manager.has_offline_dirs());

    // What is known of it is kept, and the next start looks at it as after a crash.
    let high_watermarks: BTreeMap<_, _> = [(partition("t", 0), Offset(4)), (partition("t", 1), Offset(10))].into();
    manager.checkpoint_recovery_points();
    manager.shutdown(5, &high_watermarks);
    drop(log);
    assert_eq!(node.text(&format!("a/{HIGH_WATERMARKS}")), "0\n2\nt 0 4\nt 1 10\n");
    assert_eq!(node.text(&format!("a/{RECOVERY_POINTS}")), "0\n2\nt 0 5\nt 1 10\n");
    assert!(!node.path("a").join(CLEAN_SHUTDOWN).exists() && node.path("b").join(CLEAN_SHUTDOWN).exists());

    let node = node.reborn();
    let (manager, report) = node.start();
    assert_eq!(report.unopened, [partition("t", 0)]);
    manager.shutdown(5, &high_watermarks);
    assert_eq!(node.text(&format!("a/{HIGH_WATERMARKS}")), "0\n2\nt 0 4\nt 1 10\n");
    fs::remove_dir(node.path("a/t-0/00000000000000000005.log")).unwrap();
    let node = node.reborn();
    let (manager, report) = node.start();
    assert_eq!(report.unopened, []);
    assert_eq!(manager.get(&partition("t", 0)).unwrap().log_end_offset(), Offset(5));
    manager.shutdown(5, &high_watermarks);
    assert!(node.path("a").join(CLEAN_SHUTDOWN).exists());
}

#[test]
fn a_topic_whose_log_cannot_be_opened_can_be_deleted_and_made_again() {
    let node = Node::new();
    two_logs(&node).shutdown(5, &BTreeMap::new());
    fs::remove_file(node.path("a/t-0/00000000000000000000.log")).unwrap();
    fs::create_dir(node.path("a/t-0/00000000000000000000.log")).unwrap();
    let node = node.reborn();
    let (manager, _) = node.start();
    assert_eq!(manager.delete(&[partition("t", 0)]), []);
    assert_eq!(manager.get(&partition("t", 0)).err(), Some(LogLookupError::Unknown));
    node.background.run_pending(Duration::from_secs(100));
    let new = NewLog { directory: Some(node.ids[0]), ..new_log(TopicId::random()) };
    assert_eq!(manager.get_or_create(&partition("t", 0), new).unwrap().log_end_offset(), Offset(0));
    assert!(!node.files("a").iter().any(|name| name.ends_with("-delete")));
    assert_eq!(node.text(&format!("a/{RECOVERY_POINTS}")), "0\n1\nt 1 5\n");
}

/// Of two logs of a partition, which a move has left, one cannot be opened: it may be the one that goes further.
#[test]
fn the_other_log_of_a_partition_does_not_take_the_place_of_one_that_cannot_be_opened() {
    let node = Node::new();
    two_logs(&node).shutdown(5, &BTreeMap::new());
    fs::create_dir(node.path("b/t-0")).unwrap();
    for name in node.files("a/t-0") {
        fs::copy(node.path("a/t-0").join(&name), node.path("b/t-0").join(&name)).unwrap();
    }
    fs::rename(node.path("a/t-0/00000000000000000000.log"), node.path("kept")).unwrap();
    fs::create_dir(node.path("a/t-0/00000000000000000000.log")).unwrap();
    let node = node.reborn();
    let (manager, report) = node.start();
    assert_eq!(report.unopened, [partition("t", 0)]);
    assert_eq!(manager.get(&partition("t", 0)).err(), Some(LogLookupError::Offline));
    assert_eq!(manager.get(&partition("t", 1)).unwrap().log_end_offset(), Offset(5));
    manager.shutdown(5, &BTreeMap::new());
    fs::remove_dir(node.path("a/t-0/00000000000000000000.log")).unwrap();
    fs::rename(node.path("kept"), node.path("a/t-0/00000000000000000000.log")).unwrap();
    let node = node.reborn();
    let (manager, report) = node.start();
    assert_eq!(report.unopened, []);
    assert_eq!(manager.get(&partition("t", 0)).unwrap().log_end_offset(), Offset(5));
}

/// What stands where the directory of a new log is to be made.
#[test]
fn a_name_that_is_taken_refuses_one_log_and_no_directory() {
    let node = Node::new();
    let manager = two_logs(&node);
    fs::write(node.path("a/u-0"), "somebody's").unwrap();
    let new = NewLog { directory: Some(node.ids[0]), ..new_log(TopicId::random()) };
    assert!(matches!(manager.get_or_create(&partition("u", 0), new), Err(CreateError::Storage { .. })));
    assert!(node.failures.lock().is_empty());
    assert!(manager.get(&partition("t", 0)).is_ok());
}

/// The node was killed, and the disk was full when it started again: a log that wants room for its recovery took the whole directory
/// offline, and a node with one directory did not start.
#[test]
fn what_cannot_be_opened_without_room_is_opened_when_there_is_some() {
    let mut waited = 0;
    for room in 0.. {
        let node = Node::new();
        let manager = two_logs(&node);
        manager.get(&partition("t", 0)).unwrap().roll().unwrap();
        drop(manager);
        // Each has something to be made anew.
        fs::remove_file(node.path("a/t-0/00000000000000000000.timeindex")).unwrap();
        fs::remove_file(node.path("a/t-1/00000000000000000000.index")).unwrap();
        let node = node.reborn();
        node.disk.room_left.store(room, Ordering::Relaxed);
        // Where not even what locks a directory can be opened there is nothing to be served.
        let Ok(manager) = node.try_open() else { continue };
        if manager.has_offline_dirs() {
            continue;
        }
        let report = manager.load(&|_, _| Some(hosted()), Arc::new(|_| {}));
        assert!(node.failures.lock().is_empty(), "{room}: {:?}", node.failures.lock());
        let new = || NewLog { directory: Some(node.ids[0]), is_new: false, ..new_log(hosted().topic_id) };
        for n in 0..2 {
            let is_open = !report.unopened.contains(&partition("t", n));
            assert_eq!(manager.get(&partition("t", n)).is_ok(), is_open);
            let again = manager.get_or_create(&partition("t", n), new());
            assert!(is_open && again.is_ok() || matches!(again, Err(CreateError::Full { .. })), "{room}");
        }
        waited += report.unopened.len();
        let was_full = node.disk.room_left.swap(i64::MAX, Ordering::Relaxed) < 0;
        node.clock.advance(Duration::from_secs(3));
        // What could do without, too, is told of nowhere.
        let has_regained = manager.look_for_room();
        assert!(has_regained || report.unopened.is_empty(), "{room}");
        for n in 0..2 {
            let log = manager.get_or_create(&partition("t", n), new()).unwrap();
            assert_eq!(log.log_end_offset(), Offset(5), "{room}");
            append(&log, 1);
        }
        manager.shutdown(5, &BTreeMap::new());
        let (manager, report) = node.reborn().start();
        assert_eq!((report.unopened, report.strays), (vec![], vec![]));
        for n in 0..2 {
            assert_eq!(manager.get(&partition("t", n)).unwrap().log_end_offset(), Offset(6), "{room}");
        }
        if !was_full {
            break;
        }
    }
    assert!(waited > 3, "{waited}");
}

/// A log that is not this node's, and no room for the name by which it would be set aside. A log of the same name must not begin in it.
#[test]
fn a_stray_log_that_cannot_be_renamed_waits_for_room() {
    for (code, told) in [
        (libc::ENOSPC, ["log directory is full", "log directory has room again"]),
        (libc::EDQUOT, ["log directory is full", "log directory has room again"]),
        // It waited for ever.
        (libc::EMFILE, ["no file can be opened", "files can be opened again"]),
        (libc::ENFILE, ["no file can be opened", "files can be opened again"]),
    ] {
        let node = Node::new();
        drop(two_logs(&node));
        let node = node.reborn();
        let capture = LogCapture::start();
        node.disk.renames_lack.store(code, Ordering::Relaxed);
        let manager = node.open();
        let assigned = |name: &TopicPartition, _| (*name != partition("t", 0)).then(hosted);
        let report = manager.load(&assigned, Arc::new(|_| {}));
        assert_eq!((report.strays, report.unopened), (vec![], vec![]));
        assert!(node.failures.lock().is_empty());
        assert_eq!(manager.get(&partition("t", 0)).err(), Some(LogLookupError::Unknown));
        append(&manager.get(&partition("t", 1)).unwrap(), 1);

        let new = || NewLog { directory: Some(node.ids[0]), ..new_log(TopicId(uuid::Uuid::from_u128(9))) };
        let made = manager.get_or_create(&partition("t", 0), new());
        assert!(matches!(made, Err(CreateError::Full { .. })));
        let before = node.files("a/t-0");
        assert!(before.contains(&"00000000000000000000.log".to_owned()));
        assert!(node.text("a/t-0/partition.metadata").contains("Bw"));
        assert!(!manager.look_for_room());
        node.disk.renames_lack.store(0, Ordering::Relaxed);
        node.clock.advance(Duration::from_secs(3));
        assert!(manager.look_for_room());
        let stray = node.files("a").into_iter().find(|name| name.ends_with("-stray")).unwrap();
        assert_eq!(node.files(&format!("a/{stray}")), before);
        assert_eq!(manager.get_or_create(&partition("t", 0), new()).unwrap().log_end_offset(), Offset(0));
        let events = capture.take();
        let count = |text: &str| events.iter().filter(|event| event.text.contains(text)).count();
        // That there is room again is told only where it was told that there was none: once for each directory, by whichever thread
        // found it first.
        let [none, again] = told.map(count);
        assert!(none <= 2 && again == 2, "{code}: {events:?}");
    }
}
