//! The lines that Kafka's tools log to standard error, in the pattern of its `tools-log4j2.yaml`.
//!
//! Times are UTC: a container has no other zone, and this program carries no table of zones. Warnings are kept back where
//! `OTTLA_LOG` lets through errors only.

use std::fmt;
use std::io::{self, Write as _};
use std::time::{SystemTime, UNIX_EPOCH};

use super::error::Error;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    Warn,
    Error,
}

/// Writes one event; `logger` is the Java class that logs it in Kafka.
pub fn write(level: Level, logger: &str, message: impl fmt::Display) {
    if !lets_through(std::env::var("OTTLA_LOG").as_deref().unwrap_or_default(), level) {
        return;
    }
    let level = match level {
        Level::Warn => "WARN",
        Level::Error => "ERROR",
    };
    // Nobody may be there to read it.
    let _ = writeln!(io::stderr(), "[{}] {level} {message} ({logger})", timestamp(SystemTime::now()));
}

/// Writes one event about a failure, whose trace stands behind it.
pub fn write_failure(level: Level, logger: &str, message: impl fmt::Display, error: &Error) {
    if lets_through(std::env::var("OTTLA_LOG").as_deref().unwrap_or_default(), level) {
        write(level, logger, message);
        let _ = writeln!(io::stderr(), "{}", error.trace());
    }
}

/// The cluster holds a topic's name to be none.
pub fn invalid_topic(role: &str, client_id: &str, group_id: Option<&str>, topic: &str) {
    let group = group_id.map(|group| format!(", groupId={group}")).unwrap_or_default();
    write(
        Level::Error,
        "org.apache.kafka.clients.Metadata",
        format_args!("[{role} clientId={client_id}{group}] Metadata response reported invalid topics [{topic}]"),
    );
}

/// By the level in the setting that is for no module alone.
fn lets_through(setting: &str, level: Level) -> bool {
    match setting.split(',').map(str::trim).find(|part| !part.is_empty() && !part.contains('=')) {
        Some(off) if off.eq_ignore_ascii_case("off") => false,
        Some(error) if error.eq_ignore_ascii_case("error") => level == Level::Error,
        _ => true,
    }
}

/// `2026-01-31 23:59:59,123`.
fn timestamp(at: SystemTime) -> String {
    let [year, month, day, hour, minute, second, ms] = utc(at);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02},{ms:03}")
}

/// Year, month, day, hour, minute, second, millisecond.
pub fn utc(at: SystemTime) -> [u64; 7] {
    let since = at.duration_since(UNIX_EPOCH).unwrap_or_default();
    let seconds = since.as_secs();
    let (year, month, day) = date(seconds / 86_400);
    [year, month, day, seconds / 3600 % 24, seconds / 60 % 60, seconds % 60, since.subsec_millis().into()]
}

/// The Gregorian date of a day since 1970.
fn date(days: u64) -> (u64, u64, u64) {
    // Years that begin in March have their leap day at the end.
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day_of_year - (153 * shifted + 2) / 5 + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn warnings_can_be_kept_back() {
        for setting in ["", "info", "ottla::net=error", "warn,ottla=off"] {
            assert!(lets_through(setting, Level::Warn), "{setting}");
        }
        assert!(!lets_through("ottla::net=debug,ERROR", Level::Warn));
        assert!(lets_through("error", Level::Error) && !lets_through("off", Level::Error));
    }

    #[test]
    fn times_are_written_as_log4j_writes_them() {
        let at = |ms| timestamp(UNIX_EPOCH + Duration::from_millis(ms));
        assert_eq!(at(0), "1970-01-01 00:00:00,000");
        assert_eq!(at(951_782_400_007), "2000-02-29 00:00:00,007");
        assert_eq!(at(1_796_083_199_999), "2026-11-30 23:59:59,999");
    }
}
