//! Subscriptions by regular expression (KIP-848): which topics a pattern names.
//!
//! The broker matches, so the syntax is the broker's: that of RE2/J, which Kafka uses. [`syntax`] reads it and writes it anew for the
//! `regex` crate, which has the same guarantee (time linear in the text) but another syntax. A pattern has to match the whole name of a
//! topic. Names of topics are ASCII, so that is all that is looked at.
//!
//! A pattern comes from a client. What it may cost is limited: [`MAX_PROGRAM_BYTES`] of memory, and nesting to
//! [`syntax::MAX_DEPTH`]. A pattern beyond that is refused; in Kafka it ends in an OutOfMemoryError.

mod classes;
mod syntax;

#[cfg(test)]
mod golden;

use std::collections::BTreeSet;
use std::sync::Arc;

use regex::{Regex, RegexBuilder};
use thiserror::Error;

use crate::types::TopicName;

/// What a compiled pattern may take. Patterns that people write take a few KiB.
const MAX_PROGRAM_BYTES: usize = 128 << 10;
/// What matching may keep of what it has found out.
const MAX_CACHE_BYTES: usize = 256 << 10;

/// A pattern that names topics.
#[derive(Clone, Debug)]
pub struct SubscriptionRegex {
    pattern: Arc<str>,
    regex: Regex,
}

/// What INVALID_REGULAR_EXPRESSION says.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("SubscribedTopicRegex `{pattern}` is not a valid regular expression: {reason}.")]
pub struct InvalidRegularExpression {
    pub pattern: Arc<str>,
    /// RE2/J's words.
    pub reason: &'static str,
}

impl SubscriptionRegex {
    pub fn compile(pattern: &str) -> Result<SubscriptionRegex, InvalidRegularExpression> {
        let invalid = |reason| InvalidRegularExpression { pattern: pattern.into(), reason };
        let translated = syntax::translate(pattern).map_err(invalid)?;
        let regex = RegexBuilder::new(&format!(r"\A(?:{translated})\z"))
            .unicode(false)
            .size_limit(MAX_PROGRAM_BYTES)
            .dfa_size_limit(MAX_CACHE_BYTES)
            // The crate compiles by recursion: this holds well within a thread's stack. A level of ours is up to five of these.
            .nest_limit(250)
            .build()
            // The translation is well-formed, so this is one that is too large.
            .map_err(|_| invalid("expression too large"))?;
        Ok(SubscriptionRegex { pattern: pattern.into(), regex })
    }

    /// As the client wrote it.
    pub fn pattern(&self) -> &Arc<str> {
        &self.pattern
    }

    pub fn is_match(&self, topic: &str) -> bool {
        self.regex.is_match(topic)
    }

    /// The topics among `names` that the pattern names.
    pub fn resolve<'a>(&self, names: impl IntoIterator<Item = &'a TopicName>) -> BTreeSet<TopicName> {
        names.into_iter().filter(|name| self.is_match(name)).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    fn reason(pattern: &str) -> &'static str {
        SubscriptionRegex::compile(pattern).expect_err(pattern).reason
    }

    #[test]
    fn the_whole_name_has_to_match() {
        let topics = ["orders", "orders-eu", "old.orders", "a\nb"].map(TopicName::from);
        let resolve = |pattern: &str| -> Vec<TopicName> {
            SubscriptionRegex::compile(pattern).unwrap().resolve(&topics).into_iter().collect()
        };
        assert_eq!(resolve("orders"), ["orders".into()]);
        assert_eq!(resolve("o|orders"), ["orders".into()]);
        assert_eq!(resolve("(?i)ORDERS.*"), ["orders".into(), "orders-eu".into()]);
        assert_eq!(resolve("^old[.].+$"), ["old.orders".into()]);
        assert_eq!(resolve("nothing"), [] as [TopicName; 0]);
    }

    #[test]
    fn an_error_is_told_in_kafkas_words() {
        let error = SubscriptionRegex::compile("[a").unwrap_err();
        assert_eq!(
            error.to_string(),
            "SubscribedTopicRegex `[a` is not a valid regular expression: missing closing ]."
        );
        // A group that is closed and never opened must not end the one that is put around the pattern.
        assert_eq!(reason("a)(?:b"), "regexp/syntax: internal error");
    }

    #[test]
    fn hostile_patterns_are_refused_in_bounded_time_and_memory() {
        let start = Instant::now();
        assert_eq!(reason("((a{1000}){1000}){1000}"), "expression too large");
        assert_eq!(reason("((((((x{30}){30}){30}){30}){30}){30}){30}"), "expression too large");
        assert_eq!(reason(&"(".repeat(30_000)), "expression nests too deeply");
        assert_eq!(reason(&"(?:".repeat(10_000)), "expression nests too deeply");
        assert_eq!(reason(&"[a".repeat(16_000)), "missing closing ]");
        assert_eq!(reason(&format!("{}{}", "(a".repeat(41), ")".repeat(41))), "expression nests too deeply");
        // These are large, and valid.
        let deep = format!("{}{}", "(a?|b".repeat(40), ")*c".repeat(40));
        let repeated = format!("a{}", "*(?i)".repeat(6000));
        for pattern in
            [&deep, &repeated, &"a?".repeat(5000), &"|".repeat(30_000), &"(?i)x".repeat(5000), "(a?){500}a{500}"]
        {
            match SubscriptionRegex::compile(pattern) {
                Ok(regex) => drop(regex.is_match(&"a".repeat(249))),
                Err(error) => assert_eq!(error.reason, "expression too large"),
            }
        }
        assert!(start.elapsed() < Duration::from_secs(30), "took {:?}", start.elapsed());
    }
}
