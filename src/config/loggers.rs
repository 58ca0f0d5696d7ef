//! Changes of the levels of a broker's loggers, as IncrementalAlterConfigs asks for them (KIP-412).
//!
//! They are no settings: nothing is written, and they are gone with the process. Decided here, done by the caller.

use super::alter::{APPEND, AlterError, Alteration, DELETE, SET, check_alterations};
use super::java;
use crate::telemetry::{LogLevel, ROOT_LOGGER};
use crate::types::BrokerId;

/// A logger and its new level, or `None` to take away the one it has.
pub type LevelChange<'a> = (&'a str, Option<LogLevel>);

/// Decides on changes for the broker `name`. `exists` knows the loggers of `this_broker`.
pub fn alter<'a>(
    name: &str,
    this_broker: BrokerId,
    exists: impl Fn(&str) -> bool,
    alterations: &[Alteration<'a>],
) -> Result<Vec<LevelChange<'a>>, AlterError> {
    check_alterations(alterations)?;
    check_broker_name(name, this_broker)?;
    alterations.iter().map(|alteration| level_change(alteration, &exists)).collect()
}

fn level_change<'a>(
    alteration: &Alteration<'a>,
    exists: &impl Fn(&str) -> bool,
) -> Result<LevelChange<'a>, AlterError> {
    let Alteration { name: logger, operation, value } = *alteration;
    if !(operation == SET || operation == DELETE) {
        let operation = if operation == APPEND { "APPEND" } else { "SUBTRACT" };
        let text = format!("{operation} operation is not allowed for the BROKER_LOGGER resource");
        return Err(AlterError::InvalidRequest(text));
    }
    if !exists(logger) {
        return Err(AlterError::InvalidConfig(format!("Logger {logger} does not exist!")));
    }
    match value.filter(|_| operation == SET) {
        Some(value) => match LogLevel::SETTABLE.iter().find(|level| level.name() == value) {
            Some(level) => Ok((logger, Some(*level))),
            None => Err(AlterError::InvalidConfig(format!(
                "Cannot set the log level of {logger} to {value} as it is not a supported log level. Valid log levels are {}",
                LogLevel::SETTABLE.map(LogLevel::name).join(", ")
            ))),
        },
        None if logger == ROOT_LOGGER => Err(AlterError::InvalidRequest(format!(
            "Removing the log level of the {ROOT_LOGGER} logger is not allowed"
        ))),
        None => Ok((logger, None)),
    }
}

fn check_broker_name(name: &str, this_broker: BrokerId) -> Result<(), AlterError> {
    match java::parse_integer::<i32>(name) {
        None => Err(AlterError::InvalidRequest(format!("Node id must be an integer, but it is: {name}"))),
        Some(id) if id != this_broker.0 => {
            Err(AlterError::InvalidRequest(format!("Unexpected node id. Expected {this_broker}, but received {id}")))
        }
        Some(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(name: &'static str, operation: i8, value: Option<&'static str>) -> Result<Option<LogLevel>, AlterError> {
        let alteration = Alteration { name, operation, value };
        let exists = |logger: &str| ["root", "a.b"].contains(&logger);
        let changes = alter("1", BrokerId(1), exists, &[alteration])?;
        assert_eq!((changes.len(), changes[0].0), (1, name));
        Ok(changes[0].1)
    }

    #[test]
    fn sets_and_takes_away() {
        assert_eq!(one("a.b", SET, Some("DEBUG")), Ok(Some(LogLevel::Debug)));
        assert_eq!(one("root", SET, Some("FATAL")), Ok(Some(LogLevel::Fatal)));
        assert_eq!(one("a.b", DELETE, None), Ok(None));
        assert_eq!(one("a.b", DELETE, Some("DEBUG")), Ok(None));
    }

    #[test]
    fn refuses_in_kafkas_words() {
        let text = |name, operation, value| match one(name, operation, value) {
            Err(AlterError::InvalidConfig(text)) => format!("config: {text}"),
            Err(AlterError::InvalidRequest(text)) => format!("request: {text}"),
            Ok(level) => panic!("{level:?}"),
        };
        assert_eq!(text("x", SET, Some("DEBUG")), "config: Logger x does not exist!");
        assert_eq!(text("x", DELETE, None), "config: Logger x does not exist!");
        assert_eq!(
            text("x", 2, Some("DEBUG")),
            "request: APPEND operation is not allowed for the BROKER_LOGGER resource"
        );
        assert_eq!(text("root", DELETE, None), "request: Removing the log level of the root logger is not allowed");
        assert_eq!(text("a.b", SET, None), "request: Null value not supported for : a.b");
        let levels = "Valid log levels are DEBUG, ERROR, FATAL, INFO, TRACE, WARN";
        for level in ["debug", "OFF", ""] {
            let unsupported = format!(
                "config: Cannot set the log level of a.b to {level} as it is not a supported log level. {levels}"
            );
            assert_eq!(text("a.b", SET, Some(level)), unsupported);
        }
        let of = |name| alter(name, BrokerId(1), |_| true, &[]).unwrap_err().to_string();
        assert_eq!(of("2"), "Unexpected node id. Expected 1, but received 2");
        assert_eq!(of(""), "Node id must be an integer, but it is: ");
    }
}
