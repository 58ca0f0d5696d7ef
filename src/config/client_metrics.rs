//! The settings of a subscription to client metrics (KIP-714).

use super::alter::AlterError;
use super::dynamic::ConfigMap;
use super::java;
use super::keys::client_metrics_keys;

const MIN_INTERVAL_MS: i32 = 100;
const MAX_INTERVAL_MS: i32 = 3_600_000;

/// What a client can be chosen by.
const MATCHED: &[&str] = &[
    "client_instance_id",
    "client_id",
    "client_software_name",
    "client_software_version",
    "client_source_address",
    "client_source_port",
];

/// Checks all that is to be set of a subscription.
pub(super) fn check(name: &str, proposed: &ConfigMap) -> Result<(), AlterError> {
    if name.is_empty() {
        return Err(AlterError::InvalidRequest("Subscription name can't be empty".to_owned()));
    }
    let mut unknown: Vec<&str> =
        proposed.keys().map(String::as_str).filter(|key| !client_metrics_keys().contains(key)).collect();
    java::hash_order(&mut unknown, java::grown_table(proposed.len()));
    if let Some(key) = unknown.first() {
        return Err(AlterError::InvalidRequest(format!("Unknown client metrics configuration: {key}")));
    }
    let values = client_metrics_keys().parse(|key| proposed.get(key).map(String::as_str))?;
    let interval_ms = values.int("interval.ms");
    if !(MIN_INTERVAL_MS..=MAX_INTERVAL_MS).contains(&interval_ms) {
        return Err(AlterError::InvalidRequest(format!(
            "Invalid value {interval_ms} for interval.ms, interval must be between {MIN_INTERVAL_MS} and {MAX_INTERVAL_MS} \
             (1 hour)"
        )));
    }
    match values.list("match").iter().find(|pattern| !is_match(pattern)) {
        Some(pattern) => Err(AlterError::InvalidConfig(format!("Illegal client matching pattern: {pattern}"))),
        None => Ok(()),
    }
}

/// `attribute=regular expression`
fn is_match(pattern: &str) -> bool {
    // Java's split drops empty parts at the end
    let parts: Vec<&str> = pattern.trim_end_matches('=').split('=').collect();
    match parts[..] {
        [attribute, expression] => MATCHED.contains(&java::trim(attribute)) && is_expression(java::trim(expression)),
        _ => false,
    }
}

/// Whether the text has the form of a regular expression: brackets and escapes are complete, and what repeats has
/// something to repeat.
fn is_expression(text: &str) -> bool {
    let mut chars = text.chars().peekable();
    let (mut depth, mut repeatable, mut quantified) = (0, false, false);
    while let Some(c) = chars.next() {
        match c {
            '\\' if chars.next().is_none() => return false,
            '[' if !skip_class(&mut chars) => return false,
            '(' => {
                depth += 1;
                (repeatable, quantified) = (false, false);
                if chars.peek() == Some(&'?') {
                    chars.next();
                }
                continue;
            }
            ')' if depth == 0 => return false,
            ')' => depth -= 1,
            '|' => {
                (repeatable, quantified) = (false, false);
                continue;
            }
            '?' | '+' if quantified => {
                // makes the one before it lazy or possessive
                (repeatable, quantified) = (false, false);
                continue;
            }
            '*' | '+' | '?' | '{' => {
                if !repeatable || (c == '{' && !skip_counts(&mut chars)) {
                    return false;
                }
                (repeatable, quantified) = (false, true);
                continue;
            }
            _ => {}
        }
        (repeatable, quantified) = (true, false);
    }
    depth == 0
}

/// Takes a character class up to its end.
fn skip_class(chars: &mut std::iter::Peekable<std::str::Chars<'_>>) -> bool {
    let (mut depth, mut first) = (1, true);
    while let Some(c) = chars.next() {
        match c {
            '\\' if chars.next().is_none() => return false,
            '[' => depth += 1,
            '^' if first => continue,
            ']' if !first => depth -= 1,
            _ => {}
        }
        first = false;
        if depth == 0 {
            return true;
        }
    }
    false
}

/// Takes the rest of `{n}`, `{n,}` or `{n,m}`.
fn skip_counts(chars: &mut std::iter::Peekable<std::str::Chars<'_>>) -> bool {
    let counts: String = chars.by_ref().take_while(|c| *c != '}').collect();
    let (least, most) = counts.split_once(',').unwrap_or((&counts, ""));
    let is_number = |text: &str| text.chars().all(|c| c.is_ascii_digit());
    !least.is_empty() && is_number(least) && is_number(most)
}
