//! Which names a topic may have.
//!
//! A topic's name becomes part of a directory's name, and metric names turn `.` into `_`: so two names that differ in
//! these characters only collide.

use std::fmt;

/// Longer names do not fit into a directory's name with partition and suffixes.
pub const MAX_LENGTH: usize = 249;

/// The metadata log's own topic, which nobody may create.
pub const CLUSTER_METADATA: &str = "__cluster_metadata";

/// Why a name is not one. The text is Kafka's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InvalidTopicName<'a> {
    Empty,
    /// `.` or `..`
    Dots(&'a str),
    TooLong(&'a str),
    Characters(&'a str),
}

impl fmt::Display for InvalidTopicName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Topic name is invalid: ")?;
        match self {
            InvalidTopicName::Empty => f.write_str("the empty string is not allowed"),
            InvalidTopicName::Dots(name) => write!(f, "'{name}' is not allowed"),
            InvalidTopicName::TooLong(name) => {
                write!(f, "the length of '{name}' is longer than the max allowed length {MAX_LENGTH}")
            }
            InvalidTopicName::Characters(name) => {
                write!(f, "'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'")
            }
        }
    }
}

/// Checks a name in Kafka's order.
pub fn validate(name: &str) -> Result<(), InvalidTopicName<'_>> {
    if name.is_empty() {
        return Err(InvalidTopicName::Empty);
    }
    if name == "." || name == ".." {
        return Err(InvalidTopicName::Dots(name));
    }
    // Java counts UTF-16 units.
    if name.encode_utf16().count() > MAX_LENGTH {
        return Err(InvalidTopicName::TooLong(name));
    }
    if !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-')) {
        return Err(InvalidTopicName::Characters(name));
    }
    Ok(())
}

/// Whether the name can collide with another at all.
pub fn has_collision_chars(name: &str) -> bool {
    name.contains(['.', '_'])
}

/// Whether two names are one once `.` is read as `_`.
pub fn collide(one: &str, other: &str) -> bool {
    let unified = |byte| if byte == b'.' { b'_' } else { byte };
    one.len() == other.len() && one.bytes().map(unified).eq(other.bytes().map(unified))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refuses_with_kafkas_words() {
        let text = |name| validate(name).unwrap_err().to_string();
        assert_eq!(text(""), "Topic name is invalid: the empty string is not allowed");
        assert_eq!(text(".."), "Topic name is invalid: '..' is not allowed");
        assert_eq!(
            text("a b"),
            "Topic name is invalid: 'a b' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
        );
        assert!(text(&"x".repeat(250)).ends_with("is longer than the max allowed length 249"));
        assert_eq!(validate(&"x".repeat(249)), Ok(()));
        assert_eq!(validate("a.b_c-D9"), Ok(()));
    }

    #[test]
    fn collisions() {
        assert!(collide("a.b", "a_b"));
        assert!(!collide("a.b", "a-b"));
        assert!(!collide("a.b", "a.bc"));
        assert!(has_collision_chars("a_b") && !has_collision_chars("ab-c"));
    }
}
