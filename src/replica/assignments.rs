//! `Assignments`: which replicas lie in another log directory than the metadata says, for whoever tells the controller
//! (KIP-858): new ones on a broker of several directories, and those that were moved.

use std::collections::BTreeMap;

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::types::{DirectoryId, PartitionId, TopicId};

/// A replica, and the directory in which it lies.
pub type Assignment = ((TopicId, PartitionId), DirectoryId);

/// See the module. Holds one entry for a replica, at most.
#[derive(Default)]
pub struct Assignments {
    waiting: Mutex<BTreeMap<(TopicId, PartitionId), DirectoryId>>,
    added: Notify,
}

impl Assignments {
    /// The controller is to be told of this.
    pub fn add(&self, topic_id: TopicId, partition: PartitionId, directory: DirectoryId) {
        self.waiting.lock().insert((topic_id, partition), directory);
        self.added.notify_one();
    }

    /// The controller did not take these: they are to be told again, unless something newer is.
    pub fn give_back(&self, assignments: Vec<Assignment>) {
        let mut waiting = self.waiting.lock();
        for (replica, directory) in assignments {
            waiting.entry(replica).or_insert(directory);
        }
        self.added.notify_one();
    }

    /// Waits until there are some, and takes up to `max` of them.
    pub async fn take(&self, max: usize) -> Vec<Assignment> {
        loop {
            let taken = self.take_waiting(max);
            if !taken.is_empty() {
                return taken;
            }
            self.added.notified().await;
        }
    }

    /// Takes up to `max` of those that wait now.
    pub fn take_waiting(&self, max: usize) -> Vec<Assignment> {
        let mut waiting = self.waiting.lock();
        let taken = (0..max).map_while(|_| waiting.pop_first()).collect();
        if !waiting.is_empty() {
            self.added.notify_one();
        }
        taken
    }
}
