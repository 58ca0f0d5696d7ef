//! Timers of a state machine: what is due when. Pure: who holds them is told the time.
//!
//! A timer is known by its key; setting it again moves it. Memory follows the number of keys that are set.

use std::collections::{BTreeSet, HashMap};
use std::hash::Hash;
use std::time::Duration;

/// Timers by key. Times are those of [`Clock::monotonic`](crate::clock::Clock::monotonic).
///
/// A timer that is moved to a later time, as with every heartbeat, stays where it is queued until that time comes, and
/// is queued anew then: far rarer than heartbeats are.
#[derive(Debug)]
pub struct Timers<K> {
    deadlines: HashMap<K, Deadline>,
    queue: BTreeSet<(Duration, K)>,
}

#[derive(Debug)]
struct Deadline {
    due: Duration,
    /// Its place in the queue: `due` or earlier.
    queued: Duration,
}

impl<K> Default for Timers<K> {
    fn default() -> Self {
        Timers { deadlines: HashMap::new(), queue: BTreeSet::new() }
    }
}

impl<K: Clone + Eq + Hash + Ord> Timers<K> {
    /// Sets the timer, or moves it.
    pub fn set(&mut self, key: K, due: Duration) {
        match self.deadlines.get_mut(&key) {
            Some(deadline) if deadline.queued <= due => deadline.due = due,
            Some(deadline) => {
                let mut entry = (deadline.queued, key);
                *deadline = Deadline { due, queued: due };
                self.queue.remove(&entry);
                entry.0 = due;
                self.queue.insert(entry);
            }
            None => {
                self.deadlines.insert(key.clone(), Deadline { due, queued: due });
                self.queue.insert((due, key));
            }
        }
    }

    /// Sets the timer unless it is set.
    pub fn set_if_absent(&mut self, key: K, due: Duration) {
        if !self.deadlines.contains_key(&key) {
            self.set(key, due);
        }
    }

    pub fn cancel(&mut self, key: &K) {
        if let Some((key, deadline)) = self.deadlines.remove_entry(key) {
            self.queue.remove(&(deadline.queued, key));
        }
    }

    pub fn deadline(&self, key: &K) -> Option<Duration> {
        self.deadlines.get(key).map(|deadline| deadline.due)
    }

    /// When to look for the next one that is due: then, or earlier.
    pub fn next_deadline(&self) -> Option<Duration> {
        self.queue.first().map(|(queued, _)| *queued)
    }

    /// Takes a timer that is due, the longest due first.
    pub fn pop_due(&mut self, now: Duration) -> Option<K> {
        while self.next_deadline()? <= now {
            let (queued, key) = self.queue.pop_first()?;
            let Some(deadline) = self.deadlines.get_mut(&key) else { continue };
            if deadline.due > queued {
                deadline.queued = deadline.due;
                self.queue.insert((deadline.due, key));
                continue;
            }
            self.deadlines.remove(&key);
            return Some(key);
        }
        None
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
        assert_eq!((timers.len(), timers.deadline(&"b")), (2, Some(seconds(6))));
        assert_eq!(timers.pop_due(seconds(4)), None);
        assert_eq!(timers.next_deadline(), Some(seconds(5)));
        assert_eq!(timers.pop_due(seconds(9)), Some("a"));
        assert_eq!(timers.deadline(&"a"), None);
        assert_eq!(timers.pop_due(seconds(9)), Some("b"));
        assert_eq!(timers.pop_due(seconds(9)), None);
        assert!(timers.is_empty());
    }

    #[test]
    fn a_timer_that_was_moved_away_fires_in_its_turn() {
        let mut timers = Timers::default();
        timers.set("moved", seconds(1));
        timers.set("moved", seconds(5));
        timers.set("other", seconds(4));
        timers.set("gone", seconds(2));
        timers.set("gone", seconds(3));
        timers.cancel(&"gone");
        timers.set("earlier", seconds(6));
        timers.set("earlier", seconds(8));
        timers.set("earlier", seconds(3));
        let fired: Vec<_> = std::iter::from_fn(|| timers.pop_due(seconds(9))).collect();
        assert_eq!(fired, ["earlier", "other", "moved"]);
        assert_eq!((timers.is_empty(), timers.next_deadline()), (true, None));
    }
}
