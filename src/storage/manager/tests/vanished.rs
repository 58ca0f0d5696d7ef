//! A log directory that is gone under a node that has files open in it: its volume was unmounted, or somebody emptied it. What was
//! made in its place was acknowledged, and lost with the next start, or kept that from coming about.

use super::*;

/// What finds it out.
type FindsOut = fn(&Node, &Arc<LogManager>, &Arc<Log>);

fn empty(dir: &Path) {
    for entry in fs::read_dir(dir).unwrap().map(Result::unwrap) {
        match entry.file_type().unwrap().is_dir() {
            true => fs::remove_dir_all(entry.path()).unwrap(),
            false => fs::remove_file(entry.path()).unwrap(),
        }
    }
}

#[test]
fn a_directory_that_vanishes_is_offline_as_soon_as_something_is_to_be_made_there() {
    let new_log: FindsOut = |node, manager, _| {
        let id = TopicId::random();
        for n in 0..4 {
            manager.get_or_create(&partition("new", n), super::new_log(id)).unwrap();
            assert_eq!(manager.directory_of(&partition("new", n)), Some(node.ids[1]));
        }
    };
    let checkpoint: FindsOut = |_, manager, _| manager.checkpoint_recovery_points();
    let roll: FindsOut = |_, _, log| drop(log.roll().unwrap_err());
    let move_there: FindsOut = |node, manager, _| {
        assert!(manager.create_future(&partition("t", 1), node.path("a").to_str().unwrap()).is_err());
    };
    for (n, finds_out) in [new_log, checkpoint, roll, move_there].into_iter().enumerate() {
        for is_removed in [false, true] {
            let node = Node::new();
            let (manager, _) = node.start();
            let id = TopicId::random();
            let [a, b] = [0, 1].map(|n| manager.get_or_create(&partition("t", n), super::new_log(id)).unwrap());
            append(&a, 3);
            append(&b, 3);
            let dir = node.path("a");
            empty(&dir);
            if is_removed {
                fs::remove_dir(&dir).unwrap();
            }
            finds_out(&node, &manager, &a);
            let failures: Vec<_> = node.failures.lock().iter().map(|failure| failure.dir.clone()).collect();
            assert_eq!(failures, [&*dir], "{n}");
            assert_eq!(manager.get(&partition("t", 0)).err(), Some(LogLookupError::Offline));
            append(&b, 1);
            manager.shutdown(1, &BTreeMap::new());
            let left = fs::read_dir(&dir).map_or(0, |entries| entries.count());
            assert_eq!(left, 0, "{n}: something was made where the directory was");
        }
    }
}

/// Somebody cleared away what looked like a stale lock.
#[test]
fn a_lock_file_that_is_gone_is_no_reason_to_give_up_a_directory() {
    let node = Node::new();
    for dir in ["a", "b"] {
        fs::create_dir(node.path(dir)).unwrap();
        fs::write(node.path(dir).join("meta.properties"), "version=1\n").unwrap();
    }
    let (manager, _) = node.start();
    fs::remove_file(node.path("a/.lock")).unwrap();
    manager.get_or_create(&partition("t", 0), new_log(TopicId::random())).unwrap();
    manager.checkpoint_recovery_points();
    assert_eq!(node.failures.lock().len(), 0);
    manager.shutdown(1, &BTreeMap::new());
}
