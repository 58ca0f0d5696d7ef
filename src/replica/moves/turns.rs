//! `Turns`: the moves that wait for a turn, in their order, and those that have one now. None is there twice, so that no two
//! threads ever work at the same one.
//!
//! | event | the move waits, or has its turn | it is not known |
//! |---|---|---|
//! | it is asked for | nothing: it is under way | waits, behind the others |
//! | its turn ends, and it goes on | waits, behind the others | - |
//! | its turn ends, and so does it | is forgotten: it may be asked for again | - |
//! | all stop | is forgotten | is refused |

use std::collections::VecDeque;

/// See the module. `K` says which move it is.
pub(super) struct Turns<K, M> {
    waiting: VecDeque<(K, M)>,
    under_way: Vec<K>,
    stopped: bool,
}

impl<K, M> Default for Turns<K, M> {
    fn default() -> Self {
        Turns { waiting: VecDeque::new(), under_way: Vec::new(), stopped: false }
    }
}

impl<K: Clone + PartialEq, M> Turns<K, M> {
    /// A move is asked for. Returns whether it is a new one.
    pub fn add(&mut self, key: K, new: M) -> bool {
        let is_known = self.under_way.contains(&key) || self.waiting.iter().any(|(other, _)| *other == key);
        let is_new = !self.stopped && !is_known;
        if is_new {
            self.waiting.push_back((key, new));
        }
        is_new
    }

    /// The next one has its turn.
    pub fn begin(&mut self) -> Option<(K, M)> {
        let (key, next) = self.waiting.pop_front()?;
        self.under_way.push(key.clone());
        Some((key, next))
    }

    /// Its turn is over; `rest`: it goes on.
    pub fn end(&mut self, key: &K, rest: Option<M>) {
        self.under_way.retain(|other| other != key);
        if let Some(rest) = rest.filter(|_| !self.stopped) {
            self.waiting.push_back((key.clone(), rest));
        }
    }

    pub fn stop(&mut self) {
        self.stopped = true;
        self.waiting.clear();
    }

    pub fn is_stopped(&self) -> bool {
        self.stopped
    }

    /// How many there are, waiting or not.
    pub fn len(&self) -> usize {
        self.waiting.len() + self.under_way.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Plays events, one a word: `+x` asks for the move x, `next` begins a turn, `x.` ends x's turn and it goes on, `x!`
    /// ends it. Tells what came of each.
    fn play(turns: &mut Turns<char, ()>, events: &str) -> String {
        let told = events.split_whitespace().map(|event| match *event.chars().collect::<Vec<_>>() {
            ['+', key] => if turns.add(key, ()) { "new" } else { "known" }.to_owned(),
            [key, '.'] => {
                turns.end(&key, Some(()));
                turns.len().to_string()
            }
            [key, '!'] => {
                turns.end(&key, None);
                turns.len().to_string()
            }
            _ => turns.begin().map_or_else(|| "none".to_owned(), |(key, ())| key.to_string()),
        });
        told.collect::<Vec<_>>().join(" ")
    }

    /// A move that was asked for again during one of its turns got a second thread, which wrote the same copy.
    #[test]
    fn a_move_that_is_asked_for_again_is_under_way() {
        let mut turns = Turns::default();
        assert_eq!(play(&mut turns, "+a +a next +a next"), "new known a known none");
        assert_eq!(play(&mut turns, "a. +a next +a a! +a"), "1 known a known 0 new");
    }

    #[test]
    fn moves_take_turns() {
        let mut turns = Turns::default();
        assert_eq!(play(&mut turns, "+a +b +c next next a. next next b! c. next"), "new new new a b 3 c a 2 2 c");
    }

    #[test]
    fn what_is_stopped_takes_nothing_more() {
        let mut turns = Turns::default();
        assert_eq!(play(&mut turns, "+a +b next"), "new new a");
        turns.stop();
        assert_eq!(play(&mut turns, "next +c a. next"), "none known 0 none");
    }
}
