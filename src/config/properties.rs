//! The text of a properties file, read as `java.util.Properties.load` reads it; and how a value is written there.
//!
//! Bytes are Latin-1. `#` and `!` begin comments; `=`, `:` or white space divide key from value; a backslash escapes
//! the next character (`\t`, `\n`, `\r`, `\f`, `\uXXXX` have their meaning), and at the end of a line joins it with
//! the next one, whose indentation is dropped. A later key wins.

use std::collections::BTreeMap;
use std::fmt::Write as _;

/// The only way in which a properties file can be wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("malformed \\uXXXX escape in the entry that begins on line {line}")]
pub struct PropertiesError {
    pub line: usize,
}

/// Reads a properties file.
pub fn parse(bytes: &[u8]) -> Result<BTreeMap<String, String>, PropertiesError> {
    let mut entries = BTreeMap::new();
    let mut lines = LogicalLines { bytes, position: 0, line: 1 };
    while let Some((line, text)) = lines.next() {
        let (key, value) = split(&text);
        let convert = |part| unescape(part).ok_or(PropertiesError { line });
        entries.insert(convert(key)?, convert(value)?);
    }
    Ok(entries)
}

/// Escapes a value as `java.util.Properties.store` does.
pub fn escape(value: &str) -> String {
    let mut escaped = String::with_capacity(value.len());
    for (index, unit) in value.encode_utf16().enumerate() {
        match u8::try_from(unit) {
            Ok(b' ') if index == 0 => escaped.push_str("\\ "),
            Ok(b'\t') => escaped.push_str("\\t"),
            Ok(b'\n') => escaped.push_str("\\n"),
            Ok(b'\r') => escaped.push_str("\\r"),
            Ok(b'\x0C') => escaped.push_str("\\f"),
            Ok(byte @ (b'\\' | b'=' | b':' | b'#' | b'!')) => escaped.extend(['\\', byte as char]),
            Ok(byte @ b' '..=b'~') => escaped.push(byte as char),
            _ => write!(escaped, "\\u{unit:04X}").expect("writing to a string succeeds"),
        }
    }
    escaped
}

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\x0C')
}

/// Joins continued lines and leaves out blank ones and comments.
struct LogicalLines<'a> {
    bytes: &'a [u8],
    position: usize,
    line: usize,
}

impl LogicalLines<'_> {
    /// Takes one byte; the second byte of `\r\n` is taken with the first.
    fn take(&mut self) -> Option<u8> {
        let byte = *self.bytes.get(self.position)?;
        self.position += 1;
        if byte == b'\r' && self.bytes.get(self.position) == Some(&b'\n') {
            self.position += 1;
        }
        if matches!(byte, b'\r' | b'\n') {
            self.line += 1;
        }
        Some(byte)
    }

    /// The next entry, still escaped, and the number of its first line.
    fn next(&mut self) -> Option<(usize, Vec<u8>)> {
        let mut text: Vec<u8> = Vec::new();
        let mut begin = self.line;
        let (mut skip_blanks, mut continued, mut escaped) = (true, false, false);
        while let Some(byte) = self.take() {
            let ends_line = matches!(byte, b'\r' | b'\n');
            if skip_blanks {
                if is_blank(byte) || (!continued && ends_line) {
                    continue;
                }
                (skip_blanks, continued) = (false, false);
            }
            if text.is_empty() {
                begin = if ends_line { self.line } else { self.line.max(begin) };
                if matches!(byte, b'#' | b'!') {
                    while !matches!(self.take(), None | Some(b'\r' | b'\n')) {}
                    skip_blanks = true;
                    continue;
                }
            }
            if !ends_line {
                text.push(byte);
                escaped = byte == b'\\' && !escaped;
            } else if text.is_empty() {
                skip_blanks = true;
            } else if escaped {
                text.pop();
                if self.position == self.bytes.len() {
                    return Some((begin, text));
                }
                (skip_blanks, continued, escaped) = (true, true, false);
            } else {
                return Some((begin, text));
            }
        }
        if text.is_empty() {
            return None;
        }
        if escaped {
            text.pop();
        }
        Some((begin, text))
    }
}

/// Divides an entry into key and value, both still escaped.
fn split(text: &[u8]) -> (&[u8], &[u8]) {
    let mut escaped = false;
    let end = text
        .iter()
        .position(|&byte| {
            let divides = !escaped && (matches!(byte, b'=' | b':') || is_blank(byte));
            escaped = byte == b'\\' && !escaped;
            divides
        })
        .unwrap_or(text.len());
    let (key, mut value) = text.split_at(end);
    let mut divided = false;
    while let [first, rest @ ..] = value {
        if matches!(first, b'=' | b':') && !divided {
            divided = true;
        } else if !is_blank(*first) {
            break;
        }
        value = rest;
    }
    (key, value)
}

/// `None`: a `\u` without four hexadecimal digits.
fn unescape(text: &[u8]) -> Option<String> {
    // UTF-16, because an escape may be half of a pair
    let mut units: Vec<u16> = Vec::with_capacity(text.len());
    let mut bytes = text.iter();
    while let Some(&byte) = bytes.next() {
        if byte != b'\\' {
            units.push(byte.into());
            continue;
        }
        units.push(match bytes.next() {
            None => break,
            Some(b't') => '\t' as u16,
            Some(b'r') => '\r' as u16,
            Some(b'n') => '\n' as u16,
            Some(b'f') => '\x0C' as u16,
            Some(b'u') => {
                let (digits, rest) = bytes.as_slice().split_at_checked(4)?;
                bytes = rest.iter();
                let digit = |unit: u16, byte: &u8| Some(unit << 4 | (*byte as char).to_digit(16)? as u16);
                digits.iter().try_fold(0, digit)?
            }
            Some(&other) => other.into(),
        });
    }
    Some(String::from_utf16_lossy(&units))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Texts and what `java.util.Properties` of JDK 17 made of them: a line each, key and value escaped by `escape`.
    #[test]
    fn entries_are_those_that_java_reads() {
        let cases = include_str!("../../tests/golden/config/properties.tsv");
        for case in cases.lines().filter(|line| !line.starts_with('#')) {
            let mut fields = case.split('\t');
            let text = from_hex(fields.next().unwrap());
            let expected: Vec<&str> = fields.collect();
            let actual = match parse(&text) {
                Ok(entries) => {
                    entries.iter().map(|(key, value)| format!("{}={}", to_hex(key), to_hex(value))).collect()
                }
                Err(_) => vec!["malformed".to_owned()],
            };
            assert_eq!(actual, expected, "{:?}", String::from_utf8_lossy(&text));
        }
    }

    fn from_hex(hex: &str) -> Vec<u8> {
        (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
    }

    fn to_hex(text: &str) -> String {
        text.encode_utf16().map(|unit| format!("{unit:04x}")).collect()
    }

    #[test]
    fn a_malformed_escape_is_told_by_its_line() {
        assert_eq!(parse(b"# c\n\na=1\nb=\\u12"), Err(PropertiesError { line: 4 }));
    }

    proptest! {
        #[test]
        fn nothing_panics(bytes in proptest::collection::vec(prop_oneof![
            Just(b'\\'), Just(b'\n'), Just(b'\r'), Just(b' '), Just(b'='), Just(b':'), Just(b'#'), Just(b'u'), any::<u8>(),
        ], 0..80)) {
            let _ = parse(&bytes);
        }

        #[test]
        fn what_is_escaped_is_read_back(entries in proptest::collection::btree_map("[a-z= :#\\\\é€😀]{1,8}", "[ -~\t\n€😀]{0,12}", 0..5)) {
            let escape = |text: &str| -> String { text.encode_utf16().map(|unit| format!("\\u{unit:04x}")).collect() };
            let text: String = entries.iter().map(|(k, v)| format!("  {} : {}\r\n", escape(k), escape(v))).collect();
            prop_assert_eq!(parse(text.as_bytes()).unwrap(), entries);
        }
    }
}
