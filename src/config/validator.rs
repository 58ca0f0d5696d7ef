//! What a key's value may be beyond its type. The table names one of these for each key that is so limited.

use std::fmt;

use super::endpoint::{is_valid_host, split_host_port};
use super::java;
use super::value::{ConfigError, ConfigValue};

/// A limit on values. `Display` says what is allowed, as Kafka's documentation does.
#[derive(Clone, Debug, PartialEq)]
pub enum Validator {
    Any,
    /// Both ends belong to the range. The texts are kept for the messages.
    Range {
        min: Option<f64>,
        min_text: String,
        max: Option<f64>,
        max_text: String,
    },
    OneOf(Vec<String>),
    /// In upper case.
    OneOfAnyCase(Vec<String>),
    /// No empty items; `of` empty: any. Doubles were taken away before.
    List {
        empty: bool,
        null: bool,
        of: Vec<String>,
    },
    NonEmptyString,
    NonNull,
    GzipLevel,
    QuorumVoters,
    BootstrapServers,
    ThrottledReplicas,
    ShareAutoOffsetReset,
}

impl Validator {
    /// Reads the table's notation.
    pub(super) fn parse(text: &str) -> Option<Validator> {
        let mut words = text.split(' ');
        let alternatives = |text: &str| -> Vec<String> {
            text.split('|').filter(|item| !item.is_empty()).map(str::to_owned).collect()
        };
        Some(match words.next()? {
            "" => Validator::Any,
            "range" => {
                let mut bound = || -> Option<(Option<f64>, String)> {
                    match words.next()? {
                        "-" => Some((None, String::new())),
                        number => Some((Some(number.parse().ok()?), number.to_owned())),
                    }
                };
                let ((min, min_text), (max, max_text)) = (bound()?, bound()?);
                Validator::Range { min, min_text, max, max_text }
            }
            "one-of" => Validator::OneOf(alternatives(words.next()?)),
            "one-of-any-case" => Validator::OneOfAnyCase(alternatives(words.next()?)),
            "list" => {
                let empty = words.next()? == "empty";
                let null = words.next()? == "null";
                Validator::List { empty, null, of: alternatives(words.next()?) }
            }
            "nonempty-string" => Validator::NonEmptyString,
            "nonnull" => Validator::NonNull,
            "gzip-level" => Validator::GzipLevel,
            "quorum-voters" => Validator::QuorumVoters,
            "bootstrap-servers" => Validator::BootstrapServers,
            "throttled-replicas" => Validator::ThrottledReplicas,
            "share-auto-offset-reset" => Validator::ShareAutoOffsetReset,
            _ => return None,
        })
    }

    /// Checks a value, `None` being Java's null.
    pub fn check(&self, name: &str, value: Option<&ConfigValue>) -> Result<(), ConfigError> {
        match (self, value) {
            (Validator::Any, _) => Ok(()),
            (Validator::Range { .. } | Validator::GzipLevel, None) => {
                Err(ConfigError::invalid(name, "null", "Value must be non-null"))
            }
            (Validator::Range { min, min_text, max, max_text }, Some(value)) => {
                let number = value.as_number();
                if min.zip(number).is_some_and(|(min, number)| number < min) {
                    return Err(ConfigError::invalid(name, value, &format!("Value must be at least {min_text}")));
                }
                if max.zip(number).is_some_and(|(max, number)| number > max) {
                    return Err(ConfigError::invalid(name, value, &format!("Value must be no more than {max_text}")));
                }
                Ok(())
            }
            (Validator::GzipLevel, Some(ConfigValue::Int(-1 | 1..=9))) => Ok(()),
            (Validator::GzipLevel, Some(value)) => {
                Err(ConfigError::invalid(name, value, "Value must be between 1 and 9 or equal to -1"))
            }
            (Validator::OneOf(allowed), value) => match value {
                Some(ConfigValue::String(text)) if allowed.contains(text) => Ok(()),
                value => Err(ConfigError::invalid(
                    name,
                    quoted(value),
                    &format!("String must be one of: {}", allowed.join(", ")),
                )),
            },
            (Validator::OneOfAnyCase(allowed), value) => match value {
                Some(ConfigValue::String(text)) if allowed.contains(&text.to_uppercase()) => Ok(()),
                value => Err(ConfigError::invalid(
                    name,
                    quoted(value),
                    &format!("String must be one of (case insensitive): {}", allowed.join(", ")),
                )),
            },
            (Validator::List { null: true, .. }, None) => Ok(()),
            (Validator::List { .. }, None) => {
                Err(ConfigError(format!("Configuration '{name}' values must not be null.")))
            }
            (Validator::List { empty, of, .. }, Some(value)) => check_list(name, value, *empty, of),
            (Validator::NonEmptyString, Some(ConfigValue::String(text))) if text.is_empty() => {
                Err(ConfigError::invalid(name, text, "String must be non-empty"))
            }
            (Validator::NonEmptyString, _) | (Validator::NonNull, Some(_)) => Ok(()),
            (Validator::NonNull, None) => Err(ConfigError::invalid(name, "null", "entry must be non null")),
            (Validator::QuorumVoters | Validator::BootstrapServers, None) => {
                Err(ConfigError(format!("Invalid value null for configuration {name}")))
            }
            (Validator::QuorumVoters, Some(value)) => {
                items(value).iter().try_for_each(|voter| parse_voter(voter).map(|_| ()))
            }
            (Validator::BootstrapServers, Some(value)) => {
                items(value).iter().try_for_each(|server| parse_bootstrap_server(server).map(|_| ()))
            }
            (Validator::ThrottledReplicas, value) => check_throttled_replicas(name, value),
            (Validator::ShareAutoOffsetReset, value) => check_share_auto_offset_reset(name, value),
        }
    }
}

impl fmt::Display for Validator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Validator::Any => Ok(()),
            Validator::Range { min_text, max_text, .. } => match (min_text.as_str(), max_text.as_str()) {
                (min, "") => write!(f, "[{min},...]"),
                ("", max) => write!(f, "[...,{max}]"),
                (min, max) => write!(f, "[{min},...,{max}]"),
            },
            Validator::OneOf(allowed) => f.write_str(&java::list_text(allowed)),
            Validator::OneOfAnyCase(allowed) => write!(f, "(case insensitive) {}", java::list_text(allowed)),
            Validator::List { of, .. } if of.is_empty() => Ok(()),
            Validator::List { of, .. } => f.write_str(&java::list_text(of)),
            Validator::NonEmptyString => f.write_str("non-empty string"),
            Validator::NonNull => f.write_str("non-null string"),
            Validator::GzipLevel => f.write_str("[1,...,9] or -1"),
            Validator::QuorumVoters | Validator::BootstrapServers => f.write_str("non-empty list"),
            Validator::ThrottledReplicas => f.write_str("[partitionId]:[brokerId],[partitionId]:[brokerId],..."),
            Validator::ShareAutoOffsetReset => f.write_str("[latest, earliest, by_duration:PnDTnHnMn.nS]"),
        }
    }
}

fn quoted(value: Option<&ConfigValue>) -> String {
    value.map_or_else(|| "null".to_owned(), ConfigValue::to_string)
}

fn items(value: &ConfigValue) -> &[String] {
    match value {
        ConfigValue::List(items) => items,
        _ => &[],
    }
}

fn check_list(name: &str, value: &ConfigValue, empty: bool, of: &[String]) -> Result<(), ConfigError> {
    let items = items(value);
    if items.is_empty() && !empty {
        let valid = if of.is_empty() { "any non-empty value".to_owned() } else { java::list_text(of) };
        return Err(ConfigError(format!("Configuration '{name}' must not be empty. Valid values include: {valid}")));
    }
    for item in items {
        if item.is_empty() {
            return Err(ConfigError(format!("Configuration '{name}' values must not be empty.")));
        }
        if !of.is_empty() && !of.contains(item) {
            return Err(ConfigError::invalid(name, item, &format!("String must be one of: {}", of.join(", "))));
        }
    }
    Ok(())
}

/// One entry of `controller.quorum.voters`: id, host, port.
pub(super) fn parse_voter(entry: &str) -> Result<(i32, String, u16), ConfigError> {
    const FORM: &str = "Each entry should be in the form `{id}@{host}:{port}`.";
    const KEY: &str = "controller.quorum.voters";
    // Java's split drops empty parts at the end
    let parts: Vec<&str> = entry.trim_end_matches('@').split('@').collect();
    let [id, address] = parts[..] else {
        return Err(ConfigError(format!("Invalid configuration value for {KEY}. {FORM}")));
    };
    let id = java::parse_integer(id)
        .ok_or_else(|| ConfigError(format!("Failed to parse voter ID as an integer from {id}")))?;
    let unparsed = |part: &str| {
        ConfigError(format!("Failed to parse host {part} from entry {entry} for the configuration {KEY}. {FORM}"))
    };
    let (host, port) = split_host_port(address).ok_or_else(|| unparsed("name"))?;
    if !is_valid_host(host) {
        return Err(unparsed("name"));
    }
    Ok((id, host.to_owned(), port.ok_or_else(|| unparsed("port"))?))
}

/// One entry of `controller.quorum.bootstrap.servers`: host, port.
pub(super) fn parse_bootstrap_server(entry: &str) -> Result<(String, u16), ConfigError> {
    let unparsed = |part: &str| {
        ConfigError(format!(
            "Failed to parse host {part} from {entry} for the configuration controller.quorum.bootstrap.servers. \
             Each entry should be in the form \"{{host}}:{{port}}\""
        ))
    };
    let (host, port) = split_host_port(entry).ok_or_else(|| unparsed("name"))?;
    if !is_valid_host(host) {
        return Err(unparsed("name"));
    }
    Ok((host.to_owned(), port.ok_or_else(|| unparsed("port"))?))
}

fn check_throttled_replicas(name: &str, value: Option<&ConfigValue>) -> Result<(), ConfigError> {
    let Some(value) = value else {
        return Err(ConfigError::invalid(name, "null", &format!("{name} must be a List")));
    };
    let trimmed: Vec<&str> = items(value).iter().map(|item| java::trim(item)).collect();
    let is_replica = |item: &&str| {
        let number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        item.is_empty() || item.split_once(':').is_some_and(|(partition, broker)| number(partition) && number(broker))
    };
    if trimmed.iter().all(is_replica) || trimmed.concat() == "*" {
        return Ok(());
    }
    Err(ConfigError::invalid(
        name,
        value,
        &format!(
            "{name} must be the literal '*' or a list of replicas in the following format: \
             [partitionId]:[brokerId],[partitionId]:[brokerId],..."
        ),
    ))
}

fn check_share_auto_offset_reset(name: &str, value: Option<&ConfigValue>) -> Result<(), ConfigError> {
    let text = quoted(value);
    let valid = match text.strip_prefix("by_duration:") {
        Some(duration) => is_duration(duration),
        None => matches!(text.as_str(), "earliest" | "latest"),
    };
    if valid {
        return Ok(());
    }
    Err(ConfigError::invalid(
        name,
        &text,
        &format!(
            "Invalid value `{text}` for configuration {name}. The value must be either 'earliest', 'latest' or of the \
             format 'by_duration:<PnDTnHnMn.nS>'."
        ),
    ))
}

/// Whether the text is a non-negative ISO 8601 duration of days, hours, minutes and seconds. A unit may have a sign
/// of its own, and the sum counts.
fn is_duration(text: &str) -> bool {
    let upper = text.to_ascii_uppercase();
    let (sign, body) = match upper.strip_prefix('-') {
        Some(rest) => (-1.0, rest),
        None => (1.0, upper.strip_prefix('+').unwrap_or(&upper)),
    };
    let Some(body) = body.strip_prefix('P') else { return false };
    let (date, time) = match body.split_once('T') {
        Some((date, time)) => (date, Some(time)),
        None => (body, None),
    };
    if time.is_some_and(str::is_empty) || (date.is_empty() && time.is_none()) {
        return false;
    }
    let Some(days) = sum_units(date, &[('D', 86_400.0)]) else { return false };
    let Some(rest) = sum_units(time.unwrap_or(""), &[('H', 3600.0), ('M', 60.0), ('S', 1.0)]) else { return false };
    sign * (days + rest) >= 0.0
}

/// Sum in seconds of numbers that are each followed by one of `units`, in their order; only seconds may have a
/// fraction.
fn sum_units(text: &str, units: &[(char, f64)]) -> Option<f64> {
    let (mut sum, mut rest) = (0.0, text);
    for &(unit, seconds) in units {
        let Some((number, after)) = rest.split_once(unit) else { continue };
        let digits = number.strip_prefix(['+', '-']).unwrap_or(number);
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        let decimal = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
        if whole.is_empty() || !decimal(whole) || !decimal(fraction) || fraction.len() > 9 {
            return None;
        }
        if unit != 'S' && digits.contains('.') {
            return None;
        }
        sum += number.parse::<f64>().ok()? * seconds;
        rest = after;
    }
    rest.is_empty().then_some(sum)
}
