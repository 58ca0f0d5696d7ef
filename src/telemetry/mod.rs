//! What the broker says of itself: its log, in the form of Kafka's.
//!
//! `[2026-11-29 16:00:00,123] INFO message field=value (module)`, one line per event on standard output, times in UTC.
//! `OTTLA_LOG`, or else `RUST_LOG`, says what is let through (`debug`, `warn,ottla::net=trace`); by default everything
//! from INFO on. [`log_levels`] and [`set_log_level`] change that while the broker runs. Panics are logged as ERROR.
//!
//! Any layer may log through `tracing`; only `main` calls [`init`] or [`init_with`]. Tests see what is logged by [`LogCapture`].

mod levels;

use std::fmt::{self, Write as _};
use std::sync::Arc;

use parking_lot::Mutex;
use thiserror::Error;
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::subscriber::DefaultGuard;
use tracing::{Event, Level, Subscriber, error};
use tracing_subscriber::filter::{ParseError, Targets};
use tracing_subscriber::fmt::format::{FormatEvent, FormatFields, Writer};
use tracing_subscriber::fmt::{FmtContext, MakeWriter};
use tracing_subscriber::layer::{Context, SubscriberExt as _};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{Layer, Registry};

use crate::clock::DateTime;
use levels::LogLevels;
pub use levels::{LogLevel, ROOT_LOGGER, log_levels, set_log_level};

/// The environment variables that say what is logged, the first that is set wins.
const VARIABLES: [&str; 2] = ["OTTLA_LOG", "RUST_LOG"];

/// The log cannot be set up.
#[derive(Debug, Error)]
pub enum TelemetryError {
    #[error("{variable}: {source}")]
    Filter { variable: &'static str, source: ParseError },
    #[error("{variable}: {word}: no level (error, warn, info, debug, trace, off), and no module of this program")]
    Word { variable: &'static str, word: String },
    #[error("the log is set up already")]
    Twice,
}

/// Sends the log of the whole process to standard output.
pub fn init() -> Result<(), TelemetryError> {
    init_with("")
}

/// The same; `otherwise` says what is logged, in the same words, if the environment variables do not.
pub fn init_with(otherwise: &str) -> Result<(), TelemetryError> {
    let levels = levels(|variable| std::env::var(variable).ok(), otherwise)?;
    subscriber(std::io::stdout, levels).try_init().map_err(|_| TelemetryError::Twice)?;
    std::panic::set_hook(Box::new(|panic| error!("{panic}")));
    Ok(())
}

/// A line as the log has it, for what is to be printed whatever the log lets through.
pub fn info_line(message: &str, logger: &str) -> String {
    format!("[{}] {} {message} ({logger})\n", DateTime::now(), Level::INFO)
}

fn subscriber<W>(writer: W, levels: LogLevels) -> impl Subscriber + Send + Sync + for<'a> LookupSpan<'a>
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let layer = tracing_subscriber::fmt::layer()
        .event_format(KafkaFormat)
        .with_ansi(false)
        .log_internal_errors(false)
        .with_writer(writer);
    tracing_subscriber::registry().with(levels).with(layer)
}

fn levels(variable: impl Fn(&str) -> Option<String>, otherwise: &str) -> Result<LogLevels, TelemetryError> {
    let set = VARIABLES.iter().find_map(|name| Some((*name, variable(name).filter(|value| !value.is_empty())?)));
    let (variable, value) = set.as_ref().map_or((VARIABLES[0], otherwise), |(name, value)| (*name, value.as_str()));
    let directives: Targets = match value {
        "" => Targets::new(),
        value => value.parse().map_err(|source| TelemetryError::Filter { variable, source })?,
    };
    // `RUST_LOG` may be meant for other programs.
    if variable == VARIABLES[0]
        && let Some(word) = value.split(',').map(str::trim).find(|word| is_misspelt(word))
    {
        return Err(TelemetryError::Word { variable, word: word.to_owned() });
    }
    Ok(LogLevels::new(&directives))
}

/// Whether it would let through all that a module says which is not there.
fn is_misspelt(word: &str) -> bool {
    let own = env!("CARGO_PKG_NAME");
    let is_own = word.strip_prefix(own).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"));
    !word.is_empty() && !word.contains('=') && !is_own && word.parse::<LevelFilter>().is_err()
}

/// One line per event, as Kafka's log4j pattern `[%d] %p %m (%c)%n` writes it.
struct KafkaFormat;

impl<S, N> FormatEvent<S, N> for KafkaFormat
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, _: &FmtContext<'_, S, N>, mut writer: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let metadata = event.metadata();
        let text = EventText::of(event);
        writeln!(writer, "[{}] {} {text} ({})", DateTime::now(), metadata.level(), metadata.target())
    }
}

/// An event's message and fields.
#[derive(Default)]
struct EventText {
    message: String,
    /// Each as ` name=value`.
    fields: String,
}

impl EventText {
    fn of(event: &Event<'_>) -> EventText {
        let mut text = EventText::default();
        event.record(&mut text);
        text
    }
}

impl Visit for EventText {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        // Writing to a string cannot fail, but what is written may.
        let _ = match field.name() {
            "message" => write!(self.message, "{value:?}"),
            name => write!(self.fields, " {name}={value:?}"),
        };
    }
}

/// In one line, whatever the values are: what a peer sent must not pass for an event of its own.
impl fmt::Display for EventText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for character in self.message.chars().chain(self.fields.chars()) {
            if character.is_control() {
                write!(f, "{}", character.escape_default())?;
            } else {
                f.write_char(character)?;
            }
        }
        Ok(())
    }
}

/// An event that was logged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CapturedEvent {
    pub level: Level,
    /// The module.
    pub target: String,
    /// Message and fields, as in the log.
    pub text: String,
}

/// Keeps what the current thread logs, at any level, instead of writing it; until it is dropped. For tests.
pub struct LogCapture {
    events: Arc<Mutex<Vec<CapturedEvent>>>,
    _default: DefaultGuard,
}

impl LogCapture {
    pub fn start() -> LogCapture {
        let events = Arc::new(Mutex::new(Vec::new()));
        let layer = CaptureLayer(Arc::clone(&events));
        LogCapture { events, _default: tracing::subscriber::set_default(Registry::default().with(layer)) }
    }

    /// What was logged since the last call, or the start.
    pub fn take(&self) -> Vec<CapturedEvent> {
        std::mem::take(&mut self.events.lock())
    }
}

struct CaptureLayer(Arc<Mutex<Vec<CapturedEvent>>>);

impl<S: Subscriber> Layer<S> for CaptureLayer {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let metadata = event.metadata();
        self.0.lock().push(CapturedEvent {
            level: *metadata.level(),
            target: metadata.target().to_owned(),
            text: EventText::of(event).to_string(),
        });
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use tracing::{debug, info, warn};

    use super::*;

    #[derive(Clone, Default)]
    struct Written(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Written {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().extend(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn written(variables: &[(&str, &str)], log: impl FnOnce()) -> String {
        let variable = |name: &str| variables.iter().find(|(n, _)| *n == name).map(|(_, value)| (*value).to_owned());
        let written = Written::default();
        let writer = written.clone();
        let subscriber = subscriber(move || writer.clone(), levels(variable, "").unwrap());
        tracing::subscriber::with_default(subscriber, log);
        String::from_utf8(std::mem::take(&mut written.0.lock())).unwrap()
    }

    #[test]
    fn writes_lines_like_kafkas() {
        let line = written(&[], || info!(offset = 7, name = "a b", "log loaded"));
        let (time, rest) = line.split_at(25);
        assert_eq!(rest, " INFO log loaded offset=7 name=\"a b\" (ottla::telemetry::tests)\n");
        let shape: String = time.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
        assert_eq!(shape, "[0000-00-00 00:00:00,000]");
    }

    #[test]
    fn an_event_is_one_line() {
        let line = written(&[], || warn!(client = %"x\n[2026-11-29 16:00:00,123] INFO all is well\u{1b}[2J", "odd"));
        assert_eq!(line.lines().count(), 1);
        assert!(!line.contains('\u{1b}'));
    }

    #[test]
    fn the_environment_says_what_is_logged() {
        let log = || {
            debug!("details");
            warn!("trouble");
        };
        assert_eq!(written(&[], log).lines().count(), 1);
        assert_eq!(written(&[("RUST_LOG", "DEBUG")], log).lines().count(), 2);
        assert_eq!(written(&[("RUST_LOG", "debug"), ("OTTLA_LOG", "error")], log), "");
        assert_eq!(written(&[("OTTLA_LOG", "error,ottla::telemetry=debug")], log).lines().count(), 2);
        for (directives, is_right) in
            [("infoo", false), ("warn,ottla::net,hyper", false), ("Warn,ottla::net,hyper=debug,", true)]
        {
            let outcome = levels(|name| (name == "OTTLA_LOG").then(|| directives.to_owned()), "");
            assert_eq!(outcome.is_ok(), is_right, "{directives}");
            // Which is perhaps not for this program.
            assert!(levels(|name| (name == "RUST_LOG").then(|| directives.to_owned()), "").is_ok());
        }
        let error = levels(|name| (name == "OTTLA_LOG").then(|| "ottla=loud".to_owned()), "").err().unwrap();
        assert!(error.to_string().starts_with("OTTLA_LOG: "), "{error}");
    }

    #[test]
    fn captures_what_is_logged() {
        let capture = LogCapture::start();
        debug!(size = -1, "frame refused");
        let [event] = &capture.take()[..] else { panic!("one event") };
        assert_eq!((event.level, event.text.as_str()), (Level::DEBUG, "frame refused size=-1"));
        assert_eq!(event.target, "ottla::telemetry::tests");
        assert_eq!(capture.take(), []);
    }
}
