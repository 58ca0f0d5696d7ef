//! Time, as one of the three seams between the real and the simulated world.
//!
//! Whoever decides by time gets a [`Clock`] handed in; nobody asks the system directly.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Source of wall-clock and monotonic time.
pub trait Clock: Send + Sync {
    /// Milliseconds since 1970-01-01 UTC, as record timestamps count them.
    fn now_ms(&self) -> i64;

    /// Time since some fixed moment; never goes back.
    fn monotonic(&self) -> Duration;
}

/// The machine's clocks.
pub struct SystemClock {
    origin: Instant,
}

impl SystemClock {
    pub fn new() -> Arc<SystemClock> {
        Arc::new(SystemClock { origin: Instant::now() })
    }
}

impl Clock for SystemClock {
    fn now_ms(&self) -> i64 {
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |elapsed| elapsed.as_millis() as i64)
    }

    fn monotonic(&self) -> Duration {
        self.origin.elapsed()
    }
}

/// A clock that a test moves by hand.
pub struct ManualClock {
    now_ms: AtomicI64,
    start_ms: i64,
}

impl ManualClock {
    pub fn new(now_ms: i64) -> Arc<ManualClock> {
        Arc::new(ManualClock { now_ms: AtomicI64::new(now_ms), start_ms: now_ms })
    }

    pub fn advance(&self, by: Duration) {
        self.now_ms.fetch_add(by.as_millis() as i64, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now_ms(&self) -> i64 {
        self.now_ms.load(Ordering::SeqCst)
    }

    fn monotonic(&self) -> Duration {
        Duration::from_millis((self.now_ms() - self.start_ms).max(0) as u64)
    }
}
