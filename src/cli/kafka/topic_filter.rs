//! The patterns by which Kafka's tools choose topics.

use regex::bytes::{Regex, RegexBuilder};

use crate::client::Error;

/// A regular expression that a topic's whole name must match. Commas stand for `|`, and blanks and the quotes around
/// it mean nothing.
#[derive(Debug)]
pub struct TopicFilter(Regex);

impl TopicFilter {
    pub fn new(text: &str) -> Result<TopicFilter, Error> {
        let text = text.trim().replace(',', "|").replace(' ', "");
        let text = text.trim_matches(['"', '\'']);
        match RegexBuilder::new(&format!("^(?:{text})$")).unicode(false).build() {
            Ok(regex) => Ok(TopicFilter(regex)),
            Err(_) => Err(Error::new("java.lang.RuntimeException", format!("{text} is an invalid regex."))),
        }
    }

    pub fn matches(&self, topic: &str) -> bool {
        self.0.is_match(topic.as_bytes())
    }
}

/// Kafka's own topics, by name: of the two that a client may see.
pub fn is_internal(topic: &str) -> bool {
    matches!(topic, "__consumer_offsets" | "__transaction_state" | "__share_group_state")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_whole_name_must_match() {
        let matches = |filter, topic| TopicFilter::new(filter).unwrap().matches(topic);
        assert!(matches("a.b", "a-b") && !matches("a.b", "a.bc") && !matches("b", "ab"));
        assert!(matches("a, b", "b") && matches("\"a|b\"", "a") && matches(r"\w\d*", "x12"));
        assert!(!matches("a|b", "ab") && matches(".*", "anything"));
        assert_eq!(TopicFilter::new("[").unwrap_err().message(), "[ is an invalid regex.");
    }
}
