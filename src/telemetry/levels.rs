//! From which level on each logger is let through, and changes of that while the broker runs (KIP-412).
//!
//! A logger is a module, the target of an event. It has the level of its own, or else that of the nearest module around
//! it, or of the root. Its name is written with dots, as Kafka's are (`ottla.net.connection`): Kafka's tools refuse
//! colons. [`LogLevels`] is a layer of the subscriber and lives in it, so there is nothing to hand
//! around: [`log_levels`] and [`set_log_level`] ask the current subscriber, and a process or a test without this layer
//! has no loggers. What is set here is gone with the process, as in Kafka.

use std::collections::{BTreeMap, BTreeSet};

use parking_lot::RwLock;
use tracing::level_filters::LevelFilter;
use tracing::subscriber::Interest;
use tracing::{Metadata, Subscriber, dispatcher};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::Context;

/// What the outermost of all loggers is called.
pub const ROOT_LOGGER: &str = "root";

/// A level by its name in Kafka's log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogLevel {
    Off,
    /// Nothing is logged at this level here.
    Fatal,
    Error,
    Warn,
    Info,
    Debug,
    Trace,
}

impl LogLevel {
    /// The levels that can be asked for, in the order in which Kafka lists them.
    pub const SETTABLE: [LogLevel; 6] =
        [LogLevel::Debug, LogLevel::Error, LogLevel::Fatal, LogLevel::Info, LogLevel::Trace, LogLevel::Warn];

    pub const fn name(self) -> &'static str {
        match self {
            LogLevel::Off => "OFF",
            LogLevel::Fatal => "FATAL",
            LogLevel::Error => "ERROR",
            LogLevel::Warn => "WARN",
            LogLevel::Info => "INFO",
            LogLevel::Debug => "DEBUG",
            LogLevel::Trace => "TRACE",
        }
    }

    fn filter(self) -> LevelFilter {
        match self {
            LogLevel::Off | LogLevel::Fatal => LevelFilter::OFF,
            LogLevel::Error => LevelFilter::ERROR,
            LogLevel::Warn => LevelFilter::WARN,
            LogLevel::Info => LevelFilter::INFO,
            LogLevel::Debug => LevelFilter::DEBUG,
            LogLevel::Trace => LevelFilter::TRACE,
        }
    }
}

impl From<LevelFilter> for LogLevel {
    fn from(filter: LevelFilter) -> LogLevel {
        match filter {
            LevelFilter::OFF => LogLevel::Off,
            LevelFilter::ERROR => LogLevel::Error,
            LevelFilter::WARN => LogLevel::Warn,
            LevelFilter::INFO => LogLevel::Info,
            LevelFilter::DEBUG => LogLevel::Debug,
            LevelFilter::TRACE => LogLevel::Trace,
        }
    }
}

/// Every logger that the current subscriber has come upon, with all modules around it, and the level in force.
pub fn log_levels() -> BTreeMap<String, LogLevel> {
    dispatcher::get_default(|dispatch| dispatch.downcast_ref::<LogLevels>().map(LogLevels::all)).unwrap_or_default()
}

/// Gives a logger that [`log_levels`] names a level of its own, or takes it away. The root's cannot be taken away.
/// Returns whether it could be done.
pub fn set_log_level(logger: &str, level: Option<LogLevel>) -> bool {
    let done = dispatcher::get_default(|dispatch| match dispatch.downcast_ref::<LogLevels>() {
        Some(levels) => levels.set(logger, level),
        None => false,
    });
    // Not within the call above: the cache asks the subscriber, too.
    if done {
        tracing::callsite::rebuild_interest_cache();
    }
    done
}

/// The layer that lets events through.
pub(super) struct LogLevels {
    set: RwLock<Levels>,
    /// The targets of all events that the program has passed so far.
    seen: RwLock<BTreeSet<&'static str>>,
}

struct Levels {
    root: LogLevel,
    /// By the path of the module, `ottla::net::connection`.
    loggers: BTreeMap<String, LogLevel>,
}

impl LogLevels {
    /// What `directives` name, and the rest from INFO on.
    pub(super) fn new(directives: &Targets) -> LogLevels {
        let levels = Levels {
            root: directives.default_level().unwrap_or(LevelFilter::INFO).into(),
            loggers: directives.iter().map(|(target, filter)| (target.to_owned(), filter.into())).collect(),
        };
        LogLevels { set: RwLock::new(levels), seen: RwLock::default() }
    }

    fn lets_through(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= self.set.read().of(metadata.target()).filter()
    }

    fn all(&self) -> BTreeMap<String, LogLevel> {
        let levels = self.set.read();
        let mut names: BTreeSet<&str> = levels.loggers.keys().map(String::as_str).collect();
        names.extend(self.seen.read().iter().flat_map(|target| with_ancestors(target)));
        let mut all: BTreeMap<String, LogLevel> =
            names.into_iter().map(|name| (name.replace("::", "."), levels.of(name))).collect();
        all.insert(ROOT_LOGGER.to_owned(), levels.root);
        all
    }

    fn set(&self, logger: &str, level: Option<LogLevel>) -> bool {
        if logger == ROOT_LOGGER {
            let Some(level) = level else { return false };
            self.set.write().root = level;
            return true;
        }
        if !self.all().contains_key(logger) {
            return false;
        }
        let module = logger.replace('.', "::");
        let mut levels = self.set.write();
        match level {
            Some(level) => levels.loggers.insert(module, level),
            None => levels.loggers.remove(&module),
        };
        true
    }
}

impl Levels {
    fn of(&self, target: &str) -> LogLevel {
        with_ancestors(target).find_map(|name| self.loggers.get(name)).copied().unwrap_or(self.root)
    }
}

/// A module path, and then those of the modules around it, outwards.
fn with_ancestors(target: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(target), |name| name.rsplit_once("::").map(|(parent, _)| parent))
}

impl<S: Subscriber> Layer<S> for LogLevels {
    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> Interest {
        self.seen.write().insert(metadata.target());
        if self.lets_through(metadata) { Interest::always() } else { Interest::never() }
    }

    fn enabled(&self, metadata: &Metadata<'_>, _: Context<'_, S>) -> bool {
        self.lets_through(metadata)
    }

    // No `max_level_hint`: with one, events below it would never be registered, and their loggers stay unknown.
}

#[cfg(test)]
mod tests {
    use tracing::subscriber::with_default;
    use tracing_subscriber::Registry;
    use tracing_subscriber::layer::SubscriberExt as _;

    use super::*;

    fn with_levels(directives: &str, test: impl FnOnce()) {
        let levels = LogLevels::new(&directives.parse().unwrap());
        with_default(Registry::default().with(levels), test);
    }

    #[test]
    fn a_logger_has_the_level_of_the_nearest_module_around_it() {
        with_levels("warn,a=debug,a::b::c=off", || {
            tracing::info!(target: "a::b::c::d", "seen");
            tracing::info!(target: "ab", "seen");
            let levels = log_levels();
            let level = |name: &str| levels.get(name).map(|level| level.name());
            assert_eq!(level("root"), Some("WARN"));
            assert_eq!(level("a"), Some("DEBUG"));
            assert_eq!(level("a.b"), Some("DEBUG"));
            assert_eq!(level("a.b.c.d"), Some("OFF"));
            assert_eq!(level("ab"), Some("WARN"));
            assert_eq!(level("x"), None);
        });
    }

    #[test]
    fn levels_change_for_events_that_were_passed_before() {
        with_levels("", || {
            let enabled = || tracing::enabled!(target: "m::n", tracing::Level::DEBUG);
            assert!(!enabled());
            assert!(set_log_level("m", Some(LogLevel::Trace)));
            assert!(enabled());
            assert!(set_log_level("m.n", Some(LogLevel::Fatal)));
            assert!(!enabled());
            assert_eq!(log_levels()["m.n"], LogLevel::Fatal);
            assert!(set_log_level("m.n", None));
            assert!(enabled());
            assert!(set_log_level("m", None));
            assert!(!enabled());
            assert!(set_log_level(ROOT_LOGGER, Some(LogLevel::Debug)));
            assert!(enabled());
        });
    }

    #[test]
    fn what_is_not_there_cannot_be_set() {
        with_levels("", || {
            assert!(!set_log_level("never.seen", Some(LogLevel::Info)));
            assert!(!set_log_level("never.seen", None));
            assert!(!set_log_level(ROOT_LOGGER, None));
        });
        // Another subscriber, or none.
        assert!(!set_log_level(ROOT_LOGGER, Some(LogLevel::Info)));
        assert!(log_levels().is_empty());
    }
}
