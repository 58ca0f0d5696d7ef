//! The patterns by which Kafka's tools choose topics.

use regex::bytes::{Regex, RegexBuilder};

use super::options::Options;
use crate::client::Error;
use crate::client::consumer::Subscription;

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

/// What `--include` and `--topic` have a consumer read.
pub fn subscription(options: &Options) -> Result<Subscription, Error> {
    Ok(match options.value("include")? {
        Some(pattern) => Subscription::Pattern(
            regex::Regex::new(&format!("^(?:{pattern})$"))
                .map_err(|error| Error::new("java.util.regex.PatternSyntaxException", error.to_string()))?,
        ),
        None => Subscription::Topics(vec![options.text("topic")?.to_owned()]),
    })
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
