//! Time, as one of the three seams between the real and the simulated world.
//!
//! Whoever decides by time gets a [`Clock`] handed in; nobody asks the system directly.

use std::fmt;
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

fn system_now_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |elapsed| elapsed.as_millis() as i64)
}

impl Clock for SystemClock {
    fn now_ms(&self) -> i64 {
        system_now_ms()
    }

    fn monotonic(&self) -> Duration {
        self.origin.elapsed()
    }
}

/// A moment as the calendar and the clocks of UTC have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DateTime {
    pub year: i64,
    /// From 1 on, as the day.
    pub month: i64,
    pub day: i64,
    /// 0: Sunday.
    pub weekday: i64,
    pub hour: i64,
    pub minute: i64,
    pub second: i64,
    pub ms: i64,
}

impl DateTime {
    /// The system's, for the lines of a log.
    pub fn now() -> DateTime {
        DateTime::utc(system_now_ms())
    }

    /// Of milliseconds since 1970; what is before that is taken for its beginning.
    pub fn utc(ms: i64) -> DateTime {
        let ms = ms.max(0);
        let seconds = ms / 1000;
        let days = seconds / 86_400;
        // Years are counted from March of year 0, so that a leap day is the last of its year; 400 of them have 146,097 days.
        let shifted = days + 719_468;
        let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
        let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let month_from_march = (5 * day_of_year + 2) / 153;
        let month = (month_from_march + 2) % 12 + 1;
        DateTime {
            year: era * 400 + year_of_era + i64::from(month <= 2),
            month,
            day: day_of_year - (153 * month_from_march + 2) / 5 + 1,
            // 1970 began on a Thursday.
            weekday: (days + 4) % 7,
            hour: seconds / 3600 % 24,
            minute: seconds / 60 % 60,
            second: seconds % 60,
            ms: ms % 1000,
        }
    }
}

/// `2026-01-31 23:59:59,123`, as log4j writes it.
impl fmt::Display for DateTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let DateTime { year, month, day, hour, minute, second, ms, .. } = self;
        write!(f, "{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02},{ms:03}")
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_written_as_log4j_writes_them() {
        let at = |ms| DateTime::utc(ms).to_string();
        assert_eq!(at(0), "1970-01-01 00:00:00,000");
        assert_eq!(at(951_782_399_999), "2000-02-28 23:59:59,999");
        assert_eq!(at(951_782_400_007), "2000-02-29 00:00:00,007");
        assert_eq!(at(1_796_083_199_999), "2026-11-30 23:59:59,999");
        assert_eq!(at(4_107_542_400_000), "2100-03-01 00:00:00,000");
        assert_eq!(at(i64::MIN), at(0));
        DateTime::utc(i64::MAX);
    }
}
