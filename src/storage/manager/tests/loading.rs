//! What a start makes of what lies in the directories.

use super::*;

#[test]
fn after_a_crash_the_logs_are_recovered() {
    let node = Node::new();
    let (manager, _) = node.start();
    let log = manager.get_or_create(&partition("t", 0), new_log(TopicId::random())).unwrap();
    append(&log, 7);
    drop(log);
    drop(manager);
    let (manager, report) = node.start();
    assert_eq!((report.loaded, report.unclean), (1, vec![node.path("a")]));
    assert_eq!(manager.get(&partition("t", 0)).unwrap().log_end_offset(), Offset(7));
    // All was recovered, so this end is a clean one.
    manager.shutdown(-1, &BTreeMap::new());
    assert!(node.path("a").join(CLEAN_SHUTDOWN).exists());
    assert_eq!(node.open().previous_broker_epoch(), Some(-1));
}

/// A start that fails before the logs are loaded, because a port is taken for example.
#[test]
fn a_start_that_comes_to_nothing_changes_nothing() {
    let node = Node::new();
    let (manager, _) = node.start();
    let log = manager.get_or_create(&partition("t", 0), new_log(TopicId::random())).unwrap();
    append(&log, 7);
    log.advance_log_start_offset(Offset(3)).unwrap();
    drop(log);
    manager.shutdown(9, &[(partition("t", 0), Offset(7))].into());
    let before = [CLEAN_SHUTDOWN, RECOVERY_POINTS, LOG_START_OFFSETS, HIGH_WATERMARKS]
        .map(|name| node.text(&format!("a/{name}")));
    let manager = node.open();
    manager.checkpoint_recovery_points();
    manager.checkpoint_log_start_offsets();
    manager.checkpoint_high_watermarks(&BTreeMap::new());
    manager.shutdown(-1, &BTreeMap::new());
    manager.checkpoint_log_start_offsets();
    let after = [CLEAN_SHUTDOWN, RECOVERY_POINTS, LOG_START_OFFSETS, HIGH_WATERMARKS]
        .map(|name| node.text(&format!("a/{name}")));
    assert_eq!(before, after);
}

#[test]
fn what_is_no_log_of_this_node_does_not_stop_the_start() {
    let node = Node::new();
    let (manager, _) = node.start();
    let (mine, gone) = (TopicId::random(), TopicId::random());
    manager.get_or_create(&partition("mine-too", 0), NewLog { directory: Some(node.ids[0]), ..new_log(mine) }).unwrap();
    manager.get_or_create(&partition("gone", 0), NewLog { directory: Some(node.ids[0]), ..new_log(gone) }).unwrap();
    manager.shutdown(1, &BTreeMap::new());
    let unique = "0123456789abcdef0123456789abcdef";
    for name in [
        "lost+found",
        "no-partition",
        "remote-log-index-cache",
        "__cluster_metadata-0",
        "empty-0",
        &format!("deleted-0.{unique}-delete"),
        &format!("stray-0.{unique}-stray"),
        &format!("moving-0.{unique}-future"),
    ] {
        fs::create_dir(node.path("a").join(name)).unwrap();
    }
    fs::write(node.path("a/file-0"), "not a directory").unwrap();
    fs::create_dir(node.path("a/damaged-7")).unwrap();
    fs::write(node.path("a/damaged-7/partition.metadata"), "\0\0").unwrap();

    let manager = node.open();
    let report = manager.load(&|_, topic_id| (topic_id == Some(mine)).then(hosted), Arc::new(|_| {}));
    assert_eq!(report.loaded, 1);
    let mut foreign = report.foreign;
    foreign.sort();
    assert_eq!(foreign, [node.path("a/lost+found"), node.path("a/no-partition")]);
    assert_eq!(report.strays.len(), 3);
    let names = node.files("a");
    for topic in ["gone-0.", "empty-0.", "damaged-7."] {
        assert!(names.iter().any(|name| name.starts_with(topic) && name.ends_with("-stray")), "{names:?}");
    }
    assert!(!names.iter().any(|name| ["gone-0", "empty-0", "damaged-7"].contains(&name.as_str())), "{names:?}");
    assert!(manager.get(&partition("mine-too", 0)).is_ok());
    assert!(node.failures.lock().is_empty());

    node.background.run_pending(Duration::from_secs(59));
    assert!(node.path(&format!("a/deleted-0.{unique}-delete")).exists());
    node.background.run_pending(Duration::from_secs(2));
    assert!(!node.path(&format!("a/deleted-0.{unique}-delete")).exists());
    // Nothing was in it.
    assert!(!node.files("a").iter().any(|name| name.starts_with("moving-0.")));
}

/// A topic is deleted and made again under its name. The new log must not start where the old one did.
/// A file of 50 bytes was lost, and with it all records were out of reach.
#[test]
fn a_log_that_lacks_its_topic_id_is_that_of_the_topic_of_its_name_where_nobody_else_has_it() {
    let id = TopicId::random();
    let lost = |text: Option<&str>| {
        let node = Node::new();
        let (manager, _) = node.start();
        let log = manager.get_or_create(&partition("t", 0), NewLog { directory: Some(node.ids[0]), ..new_log(id) });
        append(&log.unwrap(), 3);
        manager.shutdown(1, &BTreeMap::new());
        match text {
            Some(text) => fs::write(node.path("a/t-0/partition.metadata"), text).unwrap(),
            None => fs::remove_file(node.path("a/t-0/partition.metadata")).unwrap(),
        }
        node.reborn()
    };
    let hosted = HostedPartition { topic_id: id, ..hosted() };
    for text in [None, Some(""), Some("version: 0\ntopic_id: ?")] {
        let node = lost(text);
        let manager = node.open();
        let repairs: Arc<Mutex<Vec<String>>> = Arc::default();
        let told = repairs.clone();
        let events = move |event: LoadEvent<'_>| {
            if let LoadEvent::Loaded { report, .. } = event {
                told.lock().extend(report.repairs.iter().map(|repair| repair.file.clone()));
            }
        };
        let report =
            manager.load(&|_, id| id.is_none().then(|| hosted.clone()).or(Some(hosted.clone())), Arc::new(events));
        assert_eq!((report.loaded, report.strays), (1, vec![]));
        assert_eq!(manager.get(&partition("t", 0)).unwrap().log_end_offset(), Offset(3));
        assert_eq!(manager.topic_id(&partition("t", 0)), Some(id));
        assert_eq!(node.text("a/t-0/partition.metadata"), format!("version: 0\ntopic_id: {id}"));
        assert_eq!(*repairs.lock(), ["partition.metadata"]);
    }
    // Others have it; the log is of a later time than the topic, so of another one; the metadata does not know it.
    let others = HostedPartition { damage: DamagePolicy::CutOff, ..hosted.clone() };
    let newer = HostedPartition { leader_epoch: LeaderEpoch(-1), ..hosted.clone() };
    for assigned in [Some(others), Some(newer), None] {
        let node = lost(None);
        let manager = node.open();
        let report = manager.load(&|_, _| assigned.clone(), Arc::new(|_| {}));
        assert_eq!((report.loaded, report.strays.len()), (0, 1));
        assert!(report.strays[0].join("00000000000000000000.log").exists());
    }
}

#[test]
fn a_directory_that_cannot_be_used_does_not_stop_the_other() {
    let node = Node::new();
    fs::write(node.path("b"), "a file").unwrap();
    let (manager, _) = node.start();
    assert_eq!(node.failures.lock().len(), 1);
    assert_eq!(node.failures.lock()[0].dir, node.path("b"));
    assert!(manager.has_offline_dirs());
    let online: Vec<bool> = manager.log_dirs().iter().map(|dir| dir.is_online).collect();
    assert_eq!(online, [true, false]);
    assert!(manager.log_dirs()[0].space.unwrap().usable > 0);
    assert_eq!(manager.previous_broker_epoch(), None);

    // A log that was not made just now may lie in the directory that is offline.
    let old = NewLog { is_new: false, ..new_log(TopicId::random()) };
    assert!(matches!(manager.get_or_create(&partition("t", 0), old), Err(CreateError::Storage { .. })));
    manager.get_or_create(&partition("t", 1), new_log(TopicId::random())).unwrap();
    assert_eq!(manager.delete(&[partition("u", 0)]), [partition("u", 0)]);
    manager.shutdown(1, &BTreeMap::new());

    fs::rename(node.path("a"), node.path("c")).unwrap();
    fs::write(node.path("a"), "a file, too").unwrap();
    assert!(matches!(node.try_open(), Err(OpenError::NoneUsable(_))));
}

#[test]
fn logs_are_loaded_by_as_many_threads_as_are_set() {
    let node = Node::new();
    let (manager, _) = node.start();
    for n in 0..12 {
        manager.get_or_create(&partition("t", n), new_log(TopicId(uuid::Uuid::from_u128(7)))).unwrap();
    }
    manager.shutdown(-1, &BTreeMap::new());
    for threads in [1, 3] {
        let manager = node.open();
        manager.update(&BrokerConfig { num_recovery_threads_per_data_dir: threads, ..BrokerConfig::default() });
        let (at_once, most) = (AtomicUsize::new(0), Arc::new(AtomicUsize::new(0)));
        let seen = most.clone();
        manager.load(
            &|_, _| Some(hosted()),
            Arc::new(move |event| {
                if let LoadEvent::Loaded { .. } = event {
                    seen.fetch_max(at_once.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
                    std::thread::sleep(Duration::from_millis(50));
                    at_once.fetch_sub(1, Ordering::Relaxed);
                }
            }),
        );
        let most = most.load(Ordering::Relaxed);
        // Of two directories.
        assert_eq!(most > 2, threads > 1, "{threads}: {most}");
        manager.shutdown(-1, &BTreeMap::new());
    }
}
