//! Which directory a new log is made in.

use super::*;

#[test]
fn partitions_go_where_the_fewest_are() {
    let node = Node::new();
    let (manager, _) = node.start();
    let id = TopicId::random();
    for n in 0..4 {
        manager.get_or_create(&partition("t", n), new_log(id)).unwrap();
    }
    assert_eq!(manager.logs_in(node.ids[0]).len(), 2);
    assert_eq!(manager.logs_in(node.ids[1]).len(), 2);
    // Where the metadata wants it, as far as that is here.
    for n in 4..7 {
        manager.get_or_create(&partition("t", n), NewLog { directory: Some(node.ids[1]), ..new_log(id) }).unwrap();
        assert_eq!(manager.directory_of(&partition("t", n)), Some(node.ids[1]));
    }
    manager.get_or_create(&partition("t", 7), NewLog { directory: Some(DirectoryId::LOST), ..new_log(id) }).unwrap();
    assert_eq!(manager.directory_of(&partition("t", 7)), Some(node.ids[0]));
    assert_eq!(node.text("b/t-4/partition.metadata"), format!("version: 0\ntopic_id: {id}"));
}

#[test]
fn partitions_that_are_made_at_the_same_time_are_spread_as_well() {
    let node = Node::new();
    let (manager, _) = node.start();
    let id = TopicId::random();
    std::thread::scope(|scope| {
        for n in 0..16 {
            let manager = &manager;
            scope.spawn(move || manager.get_or_create(&partition("t", n), new_log(id)).unwrap());
        }
    });
    assert_eq!(node.ids.map(|dir| manager.logs_in(dir).len()), [8, 8]);
    // And it is known how many there are after a start, too.
    manager.shutdown(1, &BTreeMap::new());
    drop(manager);
    let (manager, _) = node.start();
    manager.delete(&manager.logs_in(node.ids[1]).into_keys().take(4).collect::<Vec<_>>());
    for n in 16..20 {
        manager.get_or_create(&partition("t", n), new_log(id)).unwrap();
        assert_eq!(manager.directory_of(&partition("t", n)), Some(node.ids[1]));
    }
}

#[test]
fn a_log_is_made_once_and_for_one_topic() {
    let node = Node::new();
    let (manager, _) = node.start();
    let (id, other_id) = (TopicId::random(), TopicId::random());
    let name = partition("t", 0);
    assert_eq!(manager.get(&name).err(), Some(LogLookupError::Unknown));
    let made: Vec<Arc<Log>> = std::thread::scope(|scope| {
        let threads: Vec<_> =
            (0..4).map(|_| scope.spawn(|| manager.get_or_create(&name, new_log(id)).unwrap())).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(made.iter().all(|log| Arc::ptr_eq(log, &made[0])));
    assert_eq!(manager.topic_id(&name), Some(id));
    assert!(matches!(
        manager.get_or_create(&name, new_log(other_id)),
        Err(CreateError::InconsistentTopicId { expected, found, .. }) if expected == other_id && found == id
    ));
    manager.shutdown(1, &BTreeMap::new());
    assert!(matches!(manager.get_or_create(&name, new_log(id)), Err(CreateError::Closed)));
}

#[test]
fn the_next_directory_is_tried_when_one_fails() {
    let node = Node::new();
    let (manager, _) = node.start();
    node.disk.fail_below(&node.path("a"));
    manager.get_or_create(&partition("t", 0), new_log(TopicId::random())).unwrap();
    assert_eq!(manager.directory_of(&partition("t", 0)), Some(node.ids[1]));
    assert_eq!(node.failures.lock().len(), 1);
    node.disk.fail_below(node.root.path());
    let error = manager.get_or_create(&partition("t", 1), new_log(TopicId::random())).err().unwrap();
    assert!(matches!(&error, CreateError::Storage { reason, .. } if reason.contains("Input/output error")), "{error}");
    assert_eq!(node.failures.lock()[1].online, 0);
    assert_eq!(manager.get(&partition("t", 0)).err(), Some(LogLookupError::Offline));
}

/// A log whose directory failed while it was made was given out as if it were well: it took records in a directory that
/// this node had given up.
#[test]
fn a_log_is_made_elsewhere_if_its_directory_fails_meanwhile() {
    for wanted in [None, Some(0)] {
        let node = Node::new();
        let (manager, _) = node.start();
        let id = TopicId::random();
        let in_a = manager.get_or_create(&partition("t", 0), new_log(id)).unwrap();
        manager.get_or_create(&partition("t", 1), new_log(id)).unwrap();
        let path = node.path("a/t-2");
        node.disk.before_open(move |opened| {
            if opened.starts_with(&path) {
                in_a.disk_failed(&io::Error::from_raw_os_error(libc::EIO));
            }
        });
        let directory = wanted.map(|at: usize| node.ids[at]);
        let made = manager.get_or_create(&partition("t", 2), NewLog { directory, ..new_log(id) });
        assert_eq!(node.failures.lock().iter().map(|failure| &failure.dir).collect::<Vec<_>>(), [&node.path("a")]);
        match wanted {
            None => {
                append(&made.unwrap(), 3);
                assert_eq!(manager.directory_of(&partition("t", 2)), Some(node.ids[1]));
            }
            Some(_) => {
                assert!(matches!(made, Err(CreateError::Storage { .. })));
                assert_eq!(manager.get(&partition("t", 2)).err(), Some(LogLookupError::Offline));
            }
        }
    }
}
