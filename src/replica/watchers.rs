//! The fetches that watch a partition for news: appended records, a moved high watermark or log start offset, a new
//! leader epoch, its failure or deletion.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

use super::ready_set::ReadySet;

struct Watcher {
    id: u64,
    ready: Arc<ReadySet>,
    slot: usize,
}

#[derive(Default)]
struct Entries {
    next_id: u64,
    watchers: Vec<Watcher>,
}

/// The watchers of one partition.
#[derive(Default)]
pub struct Watchers {
    /// Beside the list, so that a change nobody watches costs one load.
    count: AtomicUsize,
    entries: Mutex<Entries>,
}

impl Watchers {
    /// From now on every change marks `slot` in `ready`, until the id that is returned is given to [`Self::remove`].
    pub fn add(&self, ready: Arc<ReadySet>, slot: usize) -> u64 {
        let mut entries = self.entries.lock();
        let id = entries.next_id;
        entries.next_id += 1;
        entries.watchers.push(Watcher { id, ready, slot });
        self.count.store(entries.watchers.len(), Ordering::SeqCst);
        id
    }

    pub fn remove(&self, id: u64) {
        let mut entries = self.entries.lock();
        if let Some(at) = entries.watchers.iter().position(|watcher| watcher.id == id) {
            entries.watchers.swap_remove(at);
        }
        self.count.store(entries.watchers.len(), Ordering::SeqCst);
    }

    /// Tells every watcher that the partition changed, and wakes those that wait. Called after the change is visible.
    pub fn notify(&self) {
        self.for_each(|watcher| watcher.ready.mark(watcher.slot));
    }

    /// Tells of a change that nobody is to be woken for.
    pub fn note(&self) {
        self.for_each(|watcher| watcher.ready.mark_quietly(watcher.slot));
    }

    fn for_each(&self, tell: impl Fn(&Watcher)) {
        if self.count.load(Ordering::SeqCst) > 0 {
            self.entries.lock().watchers.iter().for_each(tell);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_removed_watcher_hears_nothing() {
        let watchers = Watchers::default();
        let ready = Arc::new(ReadySet::default());
        let first = watchers.add(ready.clone(), 1);
        watchers.add(ready.clone(), 2);
        watchers.notify();
        assert_eq!(ready.take(), [1, 2]);
        watchers.remove(first);
        watchers.notify();
        assert_eq!(ready.take(), [2]);
    }
}
