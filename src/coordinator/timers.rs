//! Timers of a state machine: what is due when. Pure: who holds them is told the time.
//!
//! A timer is known by its key; setting it again moves it. Memory follows the number of keys that are set.

use std::collections::{BTreeSet, HashMap};
use std::hash::Hash;
use std::time::Duration;

/// Timers by key. Times are those of [`Clock::monotonic`](crate::clock::Clock::monotonic).
#[derive(Debug)]
pub struct Timers<K> {
    deadlines: HashMap<K, Duration>,
    queue: BTreeSet<(Duration, K)>,
}

impl<K> Default for Timers<K> {
    fn default() -> Self {
        Timers { deadlines: HashMap::new(), queue: BTreeSet::new() }
    }
}

impl<K: Clone + Eq + Hash + Ord> Timers<K> {
    /// Sets the timer, or moves it.
    pub fn set(&mut self, key: K, deadline: Duration) {
        match self.deadlines.get_mut(&key) {
            Some(before) if *before == deadline => {}
            Some(before) => {
                let mut entry = (std::mem::replace(before, deadline), key);
                self.queue.remove(&entry);
                entry.0 = deadline;
                self.queue.insert(entry);
            }
            None => {
                self.deadlines.insert(key.clone(), deadline);
                self.queue.insert((deadline, key));
            }
        }
    }

    /// Sets the timer unless it is set.
    pub fn set_if_absent(&mut self, key: K, deadline: Duration) {
        if !self.deadlines.contains_key(&key) {
            self.set(key, deadline);
        }
    }

    pub fn cancel(&mut self, key: &K) {
        if let Some((key, deadline)) = self.deadlines.remove_entry(key) {
            self.queue.remove(&(deadline, key));
        }
    }

    pub fn deadline(&self, key: &K) -> Option<Duration> {
        self.deadlines.get(key).copied()
    }

    /// When the next one is due.
    pub fn next_deadline(&self) -> Option<Duration> {
        self.queue.first().map(|(deadline, _)| *deadline)
    }

    /// Takes a timer that is due, the longest due first.
    pub fn pop_due(&mut self, now: Duration) -> Option<K> {
        if self.next_deadline()? > now {
            return None;
        }
        let (_, key) = self.queue.pop_first()?;
        self.deadlines.remove(&key);
        Some(key)
    }

    pub fn len(&self) -> usize {
        self.queue.len()
    }

    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(count: u64) -> Duration {
        Duration::from_secs(count)
    }

    #[test]
    fn timers_fire_in_order_once_and_can_be_moved() {
        let mut timers = Timers::default();
        timers.set("a", seconds(5));
        timers.set("b", seconds(3));
        timers.set("c", seconds(4));
        timers.set("b", seconds(6));
        timers.cancel(&"c");
        timers.cancel(&"nobody");
        timers.set_if_absent("a", seconds(1));
        assert_eq!((timers.len(), timers.next_deadline()), (2, Some(seconds(5))));
        assert_eq!(timers.pop_due(seconds(4)), None);
        assert_eq!(timers.pop_due(seconds(9)), Some("a"));
        assert_eq!(timers.deadline(&"a"), None);
        assert_eq!(timers.pop_due(seconds(9)), Some("b"));
        assert_eq!(timers.pop_due(seconds(9)), None);
        assert!(timers.is_empty());
    }
}
