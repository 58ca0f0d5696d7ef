//! The lines that Kafka's tools log to standard error, in the pattern of its `tools-log4j2.yaml`.
//!
//! Times are UTC: a container has no other zone, and this program carries no table of zones. Warnings are kept back where
//! `OTTLA_LOG` lets through errors only.

use std::fmt;
use std::io::{self, Write as _};

use super::error::Error;
use crate::clock::DateTime;

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
    let _ = writeln!(io::stderr(), "[{}] {level} {message} ({logger})", DateTime::now());
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_can_be_kept_back() {
        for setting in ["", "info", "ottla::net=error", "warn,ottla=off"] {
            assert!(lets_through(setting, Level::Warn), "{setting}");
        }
        assert!(!lets_through("ottla::net=debug,ERROR", Level::Warn));
        assert!(lets_through("error", Level::Error) && !lets_through("off", Level::Error));
    }
}
