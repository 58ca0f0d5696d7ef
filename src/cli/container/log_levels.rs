//! What is logged, as the variables of Kafka's images have it: `KAFKA_LOG4J_ROOT_LOGLEVEL=DEBUG` and
//! `KAFKA_LOG4J_LOGGERS=kafka=WARN,kafka.controller=TRACE`.
//!
//! The broker's own variable, `OTTLA_LOG`, goes before both. A level that log4j does not have says nothing, and neither
//! does a logger of a Java class, as there are none here: both are warned of. `kafka` and `org.apache.kafka`, under which
//! all of Kafka's own are, stand for the whole broker. Pure.

use std::collections::BTreeMap;

use tracing::level_filters::LevelFilter;

use super::environment::Texts;

const ROOT: &str = "KAFKA_LOG4J_ROOT_LOGLEVEL";
const LOGGERS: &str = "KAFKA_LOG4J_LOGGERS";
const OPTIONS: &str = "KAFKA_LOG4J_OPTS";

/// What the variables come to.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct LogLevels {
    /// As `OTTLA_LOG` would say it; empty if nothing is said.
    pub directives: String,
    /// What is left out: one line each.
    pub warnings: Vec<String>,
}

/// Reads them.
pub(super) fn log_levels(environment: &Texts) -> LogLevels {
    let mut levels = LogLevels::default();
    let said = |name: &str| environment.get(name).map(|value| value.trim()).filter(|value| !value.is_empty());
    let mut directives = Vec::new();
    if let Some(text) = said(ROOT) {
        match level(text) {
            Some(level) => directives.push(level.to_string()),
            None => levels.warnings.push(format!("{ROOT}={text}: no such level; {KNOWN}")),
        }
    }
    let mut loggers: BTreeMap<String, LevelFilter> = BTreeMap::new();
    let mut of_java = Vec::new();
    for entry in said(LOGGERS).unwrap_or_default().split(',').map(str::trim).filter(|entry| !entry.is_empty()) {
        let (logger, text) = entry.split_once('=').unwrap_or((entry, ""));
        match (module(logger.trim()), level(text.trim())) {
            (_, None) => levels.warnings.push(format!("{LOGGERS}: {entry}: no such level; {KNOWN}")),
            (None, Some(_)) => of_java.push(logger.trim()),
            // Two of Kafka's names may stand for the same: then what either wants is logged.
            (Some(module), Some(level)) => {
                let told = loggers.entry(module).or_insert(level);
                *told = (*told).max(level);
            }
        }
    }
    directives.extend(loggers.iter().map(|(module, level)| format!("{module}={level}")));
    if !of_java.is_empty() {
        levels.warnings.push(format!(
            "{LOGGERS}: {}: loggers of Java classes, which are not here; a module's level is set by OTTLA_LOG=info,ottla::net=debug",
            of_java.join(", ")
        ));
    }
    if said(OPTIONS).is_some() {
        levels
            .warnings
            .push(format!("{OPTIONS}: not read, there is no log4j; {ROOT} or OTTLA_LOG says what is logged"));
    }
    levels.directives = directives.join(",");
    levels
}

const KNOWN: &str = "there are OFF, FATAL, ERROR, WARN, INFO, DEBUG, TRACE and ALL";

/// By log4j's name.
fn level(name: &str) -> Option<LevelFilter> {
    match name.to_ascii_uppercase().as_str() {
        // Nothing is logged at FATAL here.
        "OFF" | "FATAL" => Some(LevelFilter::OFF),
        "ERROR" => Some(LevelFilter::ERROR),
        "WARN" => Some(LevelFilter::WARN),
        "INFO" => Some(LevelFilter::INFO),
        "DEBUG" => Some(LevelFilter::DEBUG),
        "TRACE" | "ALL" => Some(LevelFilter::TRACE),
        _ => None,
    }
}

/// The module that a logger stands for. Ours are written with dots where Kafka's tools read them.
fn module(logger: &str) -> Option<String> {
    match logger {
        "kafka" | "org.apache.kafka" => Some("ottla".to_owned()),
        "ottla" => Some(logger.to_owned()),
        _ if logger.starts_with("ottla.") || logger.starts_with("ottla::") => Some(logger.replace('.', "::")),
        _ => None,
    }
}
