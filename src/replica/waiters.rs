//! Producers that wait until an offset of their partition is reached: the high watermark, for acks=all.
//!
//! Kafka's purgatory, as far as a partition's own progress completes the wait. Waiters are woken in the order of
//! their offsets; one whose receiver is gone (its connection closed or it timed out) is dropped when it is passed.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::types::Offset;

/// How a wait ended, other than by a timeout of the waiter's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reached {
    /// The offset was reached.
    Yes,
    /// The partition can no longer reach it here: its log failed, or it was deleted or moved.
    Never,
}

struct Waiter {
    offset: Offset,
    sender: oneshot::Sender<Reached>,
}

impl PartialEq for Waiter {
    fn eq(&self, other: &Self) -> bool {
        self.offset == other.offset
    }
}
impl Eq for Waiter {}
impl PartialOrd for Waiter {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Waiter {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.offset.cmp(&other.offset)
    }
}

/// The waiters of one partition.
#[derive(Default)]
pub struct OffsetWaiters {
    /// Beside the heap, so that an append with nobody waiting costs one load.
    count: AtomicUsize,
    heap: Mutex<BinaryHeap<Reverse<Waiter>>>,
}

impl OffsetWaiters {
    /// Registers a wait for `offset`. The caller checks the offset again afterwards and calls [`Self::reached`] if it
    /// was reached in between.
    pub fn register(&self, offset: Offset) -> oneshot::Receiver<Reached> {
        let (sender, receiver) = oneshot::channel();
        let mut heap = self.heap.lock();
        heap.push(Reverse(Waiter { offset, sender }));
        self.count.store(heap.len(), Ordering::SeqCst);
        receiver
    }

    /// Wakes all that wait for `offset` or less.
    pub fn reached(&self, offset: Offset) {
        if self.count.load(Ordering::SeqCst) == 0 {
            return;
        }
        let mut heap = self.heap.lock();
        while heap.peek().is_some_and(|Reverse(waiter)| waiter.offset <= offset) {
            if let Some(Reverse(waiter)) = heap.pop() {
                // An error says that nobody waits any more, which is as good.
                let _ = waiter.sender.send(Reached::Yes);
            }
        }
        self.count.store(heap.len(), Ordering::SeqCst);
    }

    /// Ends every wait: what is waited for will not come.
    pub fn fail_all(&self) {
        let mut heap = self.heap.lock();
        for Reverse(waiter) in heap.drain() {
            let _ = waiter.sender.send(Reached::Never);
        }
        self.count.store(0, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiters_wake_at_their_offset_and_fail_together() {
        let waiters = OffsetWaiters::default();
        let mut ten = waiters.register(Offset(10));
        let mut five = waiters.register(Offset(5));
        let mut twenty = waiters.register(Offset(20));
        waiters.reached(Offset(10));
        assert_eq!(five.try_recv(), Ok(Reached::Yes));
        assert_eq!(ten.try_recv(), Ok(Reached::Yes));
        assert!(twenty.try_recv().is_err());
        waiters.fail_all();
        assert_eq!(twenty.try_recv(), Ok(Reached::Never));
    }
}
