//! `Throttler`: holds threads that copy records together to a rate: those of the cleaner (`log.cleaner.io.max.bytes.per.second`),
//! those that move replicas (`replica.alter.log.dirs.io.max.bytes.per.second`).
//!
//! A bucket that leaks at that rate: what was read and written is poured in, and whoever finds it too full waits until
//! it has leaked. A change of the rate holds at once, also for those that wait.

use std::time::Duration;

use parking_lot::Mutex;

/// Debts below this are not worth a wait.
const TOLERANCE: Duration = Duration::from_millis(100);

/// See the module's documentation. Times are those of a monotonic clock.
pub struct Throttler {
    state: Mutex<State>,
}

struct State {
    bytes_per_second: f64,
    /// Bytes that were moved ahead of the rate.
    debt: f64,
    leaked_at: Duration,
}

impl Throttler {
    pub fn new(bytes_per_second: f64, now: Duration) -> Throttler {
        Throttler { state: Mutex::new(State { bytes_per_second, debt: 0.0, leaked_at: now }) }
    }

    pub fn set_rate(&self, bytes_per_second: f64, now: Duration) {
        let mut state = self.state.lock();
        state.leak(now);
        state.bytes_per_second = bytes_per_second;
    }

    /// So many bytes were read or written.
    pub fn observe(&self, bytes: usize, now: Duration) {
        let mut state = self.state.lock();
        state.leak(now);
        state.debt += bytes as f64;
    }

    /// How long to wait before going on; `None`: not at all. To be asked again after waiting.
    pub fn delay(&self, now: Duration) -> Option<Duration> {
        let mut state = self.state.lock();
        state.leak(now);
        if state.debt == 0.0 {
            return None;
        }
        let delay = Duration::try_from_secs_f64(state.debt / state.bytes_per_second).unwrap_or(Duration::MAX);
        (delay >= TOLERANCE).then_some(delay)
    }
}

impl State {
    fn leak(&mut self, now: Duration) {
        let elapsed = now.saturating_sub(self.leaked_at).as_secs_f64();
        self.debt = (self.debt - elapsed * self.bytes_per_second).max(0.0);
        self.leaked_at = self.leaked_at.max(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Moves `chunks` chunks as fast as it may; returns how long that took.
    fn run(throttler: &Throttler, mut now: Duration, chunk: usize, chunks: usize) -> Duration {
        let began = now;
        for _ in 0..chunks {
            throttler.observe(chunk, now);
            while let Some(delay) = throttler.delay(now) {
                now += delay.min(Duration::from_millis(100));
            }
            now += Duration::from_millis(1);
        }
        now - began
    }

    #[test]
    fn keeps_to_the_rate() {
        let throttler = Throttler::new(1_000_000.0, Duration::from_secs(5));
        let took = run(&throttler, Duration::from_secs(5), 50_000, 200);
        assert!((9.8..10.2).contains(&took.as_secs_f64()), "{took:?}");
    }

    #[test]
    fn no_limit_means_no_waiting() {
        let throttler = Throttler::new(f64::MAX, Duration::ZERO);
        assert_eq!(run(&throttler, Duration::ZERO, 1 << 30, 100), Duration::from_millis(100));
    }

    #[test]
    fn a_faster_rate_shortens_a_wait() {
        let throttler = Throttler::new(1_000.0, Duration::ZERO);
        throttler.observe(10_000, Duration::ZERO);
        assert_eq!(throttler.delay(Duration::ZERO), Some(Duration::from_secs(10)));
        throttler.set_rate(100_000.0, Duration::from_secs(1));
        assert_eq!(throttler.delay(Duration::from_secs(1)), None);
    }

    #[test]
    fn a_rate_of_nothing_waits_for_ever() {
        let throttler = Throttler::new(0.0, Duration::ZERO);
        assert_eq!(throttler.delay(Duration::ZERO), None);
        throttler.observe(1, Duration::ZERO);
        assert_eq!(throttler.delay(Duration::from_secs(1000)), Some(Duration::MAX));
    }
}
