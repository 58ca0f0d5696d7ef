//! What is noted in the root of a directory, and when.

use super::*;

#[test]
fn a_clean_shutdown_leaves_checkpoints_and_markers() {
    let node = Node::new();
    let (manager, report) = node.start();
    assert_eq!(report.loaded, 0);
    assert_eq!(manager.previous_broker_epoch(), None);
    let id = TopicId::random();
    let log = manager.get_or_create(&partition("t", 0), new_log(id)).unwrap();
    append(&log, 7);
    let other = manager.get_or_create(&partition("u", 3), new_log(TopicId::random())).unwrap();
    append(&other, 5);
    assert!(other.advance_log_start_offset(Offset(2)).unwrap());
    assert!(!node.path("a").join(CLEAN_SHUTDOWN).exists());

    let high_watermarks: BTreeMap<_, _> =
        [(partition("t", 0), Offset(6)), (partition("u", 3), Offset(5)), (partition("elsewhere", 0), Offset(1))].into();
    drop((log, other));
    manager.shutdown(57, &high_watermarks);
    assert_eq!(node.text("a/.kafka_cleanshutdown"), r#"{"version":0,"brokerEpoch":57}"#);
    assert_eq!(node.text(&format!("a/{RECOVERY_POINTS}")), "0\n1\nt 0 7\n");
    assert_eq!(node.text(&format!("b/{RECOVERY_POINTS}")), "0\n1\nu 3 5\n");
    assert_eq!(node.text(&format!("b/{LOG_START_OFFSETS}")), "0\n1\nu 3 2\n");
    assert_eq!(node.text(&format!("a/{LOG_START_OFFSETS}")), "0\n0\n");
    assert_eq!(node.text(&format!("a/{HIGH_WATERMARKS}")), "0\n1\nt 0 6\n");

    // A start that dies while it loads must not be taken for a clean end.
    let manager = node.open();
    assert_eq!(manager.previous_broker_epoch(), Some(57));
    assert_eq!(manager.read_high_watermarks().get(&partition("t", 0)), Some(&Offset(6)));
    let events = Arc::new(Mutex::new(Vec::new()));
    let seen = events.clone();
    let report = manager.load(
        &|_, _| Some(hosted()),
        Arc::new(move |event| {
            if let LoadEvent::Loaded { partition, loaded, total, .. } = event {
                seen.lock().push((partition.clone(), loaded, total));
            }
        }),
    );
    assert_eq!((report.loaded, report.unclean), (2, vec![]));
    assert_eq!(events.lock().len(), 2);
    assert!(events.lock().iter().any(|(_, loaded, total)| (*loaded, *total) == (2, 2)));
    assert!(!node.path("a").join(CLEAN_SHUTDOWN).exists());
    assert_eq!(manager.get(&partition("t", 0)).unwrap().log_end_offset(), Offset(7));
    assert_eq!(manager.get(&partition("u", 3)).unwrap().log_start_offset(), Offset(2));
    assert_eq!(manager.topic_id(&partition("t", 0)), Some(id));
}

/// It was told of each time that it was read.
#[test]
fn a_checkpoint_that_cannot_be_read_is_replaced() {
    let node = Node::new();
    let (manager, _) = node.start();
    let log = manager
        .get_or_create(&partition("t", 0), NewLog { directory: Some(node.ids[0]), ..new_log(TopicId::random()) });
    append(&log.unwrap(), 3);
    manager.shutdown(1, &BTreeMap::new());
    let whole = node.text(&format!("a/{RECOVERY_POINTS}"));
    assert!(whole.contains("t 0 3"), "{whole}");
    fs::write(node.path(&format!("a/{RECOVERY_POINTS}")), "0\n5\nt 0 x\n").unwrap();
    let node = node.reborn();
    let (manager, _) = node.start();
    assert_eq!(manager.get(&partition("t", 0)).unwrap().log_end_offset(), Offset(3));
    assert_eq!(node.text(&format!("a/{RECOVERY_POINTS}")), whole);
}

/// That of a log that is not compacted stayed for ever, and `verify-log` called it a fault each time.
#[test]
fn what_is_noted_of_cleaning_behind_a_logs_end_is_forgotten() {
    for compact in [false, true] {
        let node = Node::new();
        let load = |manager: &Arc<LogManager>| {
            let cleanup_policy = CleanupPolicy { compact, delete: !compact };
            let config = Arc::new(TopicConfig { cleanup_policy, ..TopicConfig::default() });
            manager.load(&|_, _| Some(HostedPartition { config: config.clone(), ..hosted() }), Arc::new(|_| {}));
        };
        let manager = node.open();
        load(&manager);
        for n in 0..2 {
            append(&manager.get_or_create(&partition("t", n), new_log(hosted().topic_id)).unwrap(), 5);
        }
        manager.shutdown(1, &BTreeMap::new());
        let noted = [(partition("t", 0), Offset(i64::MAX)), (partition("t", 1), Offset(5))];
        for dir in ["a", "b"] {
            let file = OffsetCheckpointFile::new(node.disk.clone(), &node.path(dir), CLEANER_OFFSETS);
            let here = noted.iter().filter(|(partition, _)| node.path(dir).join(partition.to_string()).exists());
            file.write(&here.cloned().collect()).unwrap();
        }
        let manager = node.open();
        load(&manager);
        assert_eq!(manager.get(&partition("t", 0)).unwrap().cleaned_offset(), None);
        assert_eq!(manager.get(&partition("t", 1)).unwrap().cleaned_offset(), Some(Offset(5)));
        let left = [node.text(&format!("a/{CLEANER_OFFSETS}")), node.text(&format!("b/{CLEANER_OFFSETS}"))];
        assert!(left.contains(&"0\n0\n".to_owned()) && left.contains(&"0\n1\nt 1 5\n".to_owned()), "{left:?}");
    }
}

#[test]
fn a_deleted_log_leaves_no_offsets_behind() {
    let node = Node::new();
    let (manager, _) = node.start();
    let name = partition("t", 0);
    let log = manager.get_or_create(&name, new_log(TopicId::random())).unwrap();
    append(&log, 9);
    log.flush(Offset(9)).unwrap();
    assert!(log.advance_log_start_offset(Offset(4)).unwrap());
    manager.checkpoint_recovery_points();
    manager.checkpoint_log_start_offsets();
    assert_eq!(node.text(&format!("a/{LOG_START_OFFSETS}")), "0\n1\nt 0 4\n");
    drop(log);

    assert!(manager.delete(&[name.clone(), partition("unknown", 1)]).is_empty());
    assert_eq!(manager.get(&name).err(), Some(LogLookupError::Unknown));
    assert_eq!(node.text(&format!("a/{LOG_START_OFFSETS}")), "0\n0\n");
    assert_eq!(node.text(&format!("a/{RECOVERY_POINTS}")), "0\n0\n");
    assert!(node.files("a").iter().any(|name| name.starts_with("t-0.") && name.ends_with("-delete")));

    let log = manager.get_or_create(&name, new_log(TopicId::random())).unwrap();
    assert_eq!((log.log_start_offset(), log.log_end_offset()), (Offset(0), Offset(0)));
    node.background.run_pending(Duration::from_secs(61));
    let names = node.files("a");
    assert!(names.contains(&"t-0".into()) && !names.iter().any(|name| name.ends_with("-delete")), "{names:?}");
}

#[test]
fn the_jobs_flush_and_checkpoint() {
    let node = Node::new();
    let (manager, _) = node.start();
    let config = TopicConfig { flush_ms: 10, segment_bytes: 200, ..TopicConfig::default() };
    let new = NewLog { config: Arc::new(config), ..new_log(TopicId::random()) };
    let log = manager.get_or_create(&partition("t", 0), new).unwrap();
    (0..6).for_each(|_| append(&log, 5));
    manager.flush_dirty_logs(2_000_000);
    assert_eq!(log.recovery_point(), Offset(30));
    manager.checkpoint_recovery_points();
    assert_eq!(node.text(&format!("a/{RECOVERY_POINTS}")), "0\n1\nt 0 30\n");

    manager.checkpoint_high_watermarks(&[(partition("t", 0), Offset(30))].into());
    assert_eq!(manager.read_high_watermarks(), [(partition("t", 0), Offset(30))].into());
    manager.remove_expired_producers(2_000_000);
}

#[test]
fn unchanged_checkpoints_are_not_written_again() {
    let node = Node::new();
    let (manager, _) = node.start();
    manager.get_or_create(&partition("t", 0), new_log(TopicId::random())).unwrap();
    let path = node.path("a").join(RECOVERY_POINTS);
    manager.checkpoint_recovery_points();
    fs::write(&path, "as it was").unwrap();
    manager.checkpoint_recovery_points();
    assert_eq!(fs::read_to_string(&path).unwrap(), "as it was");
}

#[test]
fn a_log_that_cannot_be_closed_leaves_no_marker() {
    let node = Node::new();
    let (manager, _) = node.start();
    let log = manager.get_or_create(&partition("t", 0), new_log(TopicId::random())).unwrap();
    append(&log, 3);
    node.disk.fail_syncs_left.store(0, Ordering::SeqCst);
    manager.shutdown(5, &BTreeMap::new());
    node.disk.fail_syncs_left.store(i64::MAX, Ordering::SeqCst);
    assert!(!node.path("a").join(CLEAN_SHUTDOWN).exists());
}
