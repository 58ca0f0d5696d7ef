//! How fast connections come, against `max.connection.creation.rate`.
//!
//! Kafka's measure: they are counted in samples of a second, of which those of the last eleven seconds tell, so a burst of
//! ten seconds' worth is let in at once. The samples stay when the limit changes.

use std::collections::VecDeque;
use std::time::Duration;

/// `quota.window.size.seconds`: how long a sample is, and the longest that a connection waits.
const SAMPLE: Duration = Duration::from_secs(1);
/// `quota.window.num`
const SAMPLES: u32 = 11;

/// The connections of a listener, or of all.
#[derive(Debug)]
pub(super) struct ConnectionRate {
    /// Connections in a second.
    pub(super) limit: u32,
    samples: VecDeque<Sample>,
}

#[derive(Debug)]
struct Sample {
    began: Duration,
    /// When the last of its connections came.
    last: Duration,
    connections: u32,
}

impl ConnectionRate {
    pub(super) fn new(limit: u32) -> ConnectionRate {
        ConnectionRate { limit, samples: VecDeque::new() }
    }

    /// Counts a new connection; returns how long it has to wait.
    pub(super) fn count(&mut self, now: Duration) -> Duration {
        match self.samples.back_mut() {
            Some(sample) if now.saturating_sub(sample.began) < SAMPLE => {
                sample.connections += 1;
                sample.last = now;
            }
            _ => self.samples.push_back(Sample { began: now, last: now, connections: 1 }),
        }
        // So there are a dozen at most.
        self.samples.retain(|sample| now.saturating_sub(sample.last) < SAMPLE * SAMPLES);
        let connections: u32 = self.samples.iter().map(|sample| sample.connections).sum();
        let elapsed = self.samples.front().map_or(Duration::ZERO, |oldest| now.saturating_sub(oldest.began));
        // A measure that has just begun counts as one of ten whole samples.
        let missing = u64::from(SAMPLES - 1).saturating_sub(elapsed.as_secs());
        let window = elapsed + SAMPLE * missing as u32;
        let due = match self.limit {
            0 => Duration::MAX,
            limit => Duration::from_secs_f64(f64::from(connections) / f64::from(limit)),
        };
        due.saturating_sub(window).min(SAMPLE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn a_burst_is_let_in_and_what_follows_is_slowed_down() {
        let mut rate = ConnectionRate::new(2);
        let mut now = ms(5000);
        for _ in 0..20 {
            assert_eq!(rate.count(now), Duration::ZERO);
        }
        assert_eq!(rate.count(now), ms(500));
        let mut let_in = 0;
        while now < ms(65_000) {
            now += rate.count(now);
            let_in += 1;
        }
        assert!((110..=120).contains(&let_in), "{let_in} in a minute");
        // Eleven seconds later all is forgotten.
        now += ms(11_500);
        for _ in 0..20 {
            assert_eq!(rate.count(now), Duration::ZERO);
        }
        assert_eq!(rate.count(now), ms(500));
    }

    #[test]
    fn nobody_waits_longer_than_a_second() {
        let mut rate = ConnectionRate::new(0);
        assert_eq!(rate.count(ms(0)), ms(1000));
        let mut rate = ConnectionRate::new(1);
        let waits: Vec<Duration> = (0..100).map(|_| rate.count(ms(0))).collect();
        assert_eq!(waits[9], Duration::ZERO);
        assert!(waits[10..].iter().all(|wait| *wait == ms(1000)));
    }

    #[test]
    fn a_new_limit_counts_those_that_came_before() {
        let mut rate = ConnectionRate::new(1000);
        for _ in 0..50 {
            assert_eq!(rate.count(ms(0)), Duration::ZERO);
        }
        rate.limit = 1;
        assert_eq!(rate.count(ms(100)), ms(1000));
        rate.limit = 100;
        assert_eq!(rate.count(ms(200)), Duration::ZERO);
        rate.limit = 1;
        assert_eq!(rate.count(ms(11_300)), Duration::ZERO);
    }
}
