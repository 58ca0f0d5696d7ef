//! What a waiting fetch watches: one bit for each of its partitions, set when the partition has something new.
//!
//! A fetch session (KIP-227) keeps one [`ReadySet`] for its life and registers it with each of its partitions, so an
//! incremental fetch looks only at the partitions that changed, however many it subscribes to. A fetch outside a
//! session uses one for its own duration.
//!
//! Invariant: a bit is set after the change it tells of is visible, and a fetch takes the bits before it reads; so
//! a change is seen by that read or leaves its bit set for the next one, and no wake-up is lost.

use parking_lot::Mutex;
use tokio::sync::Notify;

/// Bits by slot, and the one task that may wait for them.
#[derive(Default)]
pub struct ReadySet {
    words: Mutex<Vec<u64>>,
    changed: Notify,
}

impl ReadySet {
    /// Marks the partition in `slot` as changed and wakes the waiting fetch.
    pub fn mark(&self, slot: usize) {
        self.mark_quietly(slot);
        self.wake();
    }

    /// Marks the partition in `slot` as changed; a waiting fetch sees it when it looks the next time.
    pub fn mark_quietly(&self, slot: usize) {
        let mut words = self.words.lock();
        let word = slot / 64;
        if words.len() <= word {
            words.resize(word + 1, 0);
        }
        words[word] |= 1 << (slot % 64);
    }

    /// Wakes the fetch that waits, or the next one that will.
    pub fn wake(&self) {
        self.changed.notify_one();
    }

    /// Takes all marked slots, in ascending order, and leaves none marked.
    pub fn take(&self) -> Vec<usize> {
        let mut slots = Vec::new();
        for (index, word) in self.words.lock().iter_mut().enumerate() {
            let mut bits = std::mem::take(word);
            while bits != 0 {
                slots.push(index * 64 + bits.trailing_zeros() as usize);
                bits &= bits - 1;
            }
        }
        slots
    }

    /// Waits until a slot was marked, or [`Self::wake`] called, since the last wait; returns at once if that was so.
    pub async fn changed(&self) {
        self.changed.notified().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_taken_once_and_in_order() {
        let ready = ReadySet::default();
        for slot in [70, 3, 64, 3] {
            ready.mark(slot);
        }
        assert_eq!(ready.take(), [3, 64, 70]);
        assert!(ready.take().is_empty());
    }

    #[tokio::test]
    async fn a_mark_before_the_wait_is_not_lost() {
        let ready = ReadySet::default();
        ready.mark(1);
        ready.changed().await;
        assert_eq!(ready.take(), [1]);
    }
}
