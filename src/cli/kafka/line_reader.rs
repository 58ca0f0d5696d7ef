//! Records from lines of text, as Kafka's `LineMessageReader` reads them for the console producer.

use std::collections::BTreeMap;

use crate::client::producer::Headers;
use crate::client::{Error, Outgoing};

/// Key, value and headers; the receipt is nothing yet.
type Parsed = Outgoing<()>;

/// How lines are taken apart.
#[derive(Debug)]
pub struct LineReader {
    parse_key: bool,
    parse_headers: bool,
    ignore_error: bool,
    key_separator: String,
    headers_delimiter: String,
    headers_separator: regex::Regex,
    headers_key_separator: String,
    null_marker: Option<String>,
    line_number: u64,
}

impl LineReader {
    /// From the reader's properties.
    pub fn new(properties: &BTreeMap<String, String>) -> Result<LineReader, Error> {
        let is_true = |key: &str| properties.get(key).is_some_and(|text| text.trim().eq_ignore_ascii_case("true"));
        let text = |key: &str, default: &str| properties.get(key).map_or(default, String::as_str).to_owned();
        let key_separator = text("key.separator", "\t");
        let headers_delimiter = text("headers.delimiter", "\t");
        let headers_separator = text("headers.separator", ",");
        let headers_key_separator = text("headers.key.separator", ":");
        let null_marker = properties.get("null.marker").cloned();
        let same = |one: &String, other: &String| one == other;
        let is_null = |text: &String| null_marker.as_ref() == Some(text);
        let clash = if same(&headers_delimiter, &headers_separator) {
            Some("headers.delimiter and headers.separator")
        } else if same(&headers_delimiter, &headers_key_separator) {
            Some("headers.delimiter and headers.key.separator")
        } else if same(&headers_separator, &headers_key_separator) {
            Some("headers.separator and headers.key.separator")
        } else if is_null(&key_separator) {
            Some("null.marker and key.separator")
        } else if is_null(&headers_separator) {
            Some("null.marker and headers.separator")
        } else if is_null(&headers_delimiter) {
            Some("null.marker and headers.delimiter")
        } else if is_null(&headers_key_separator) {
            Some("null.marker and headers.key.separator")
        } else {
            None
        };
        if let Some(clash) = clash {
            return Err(fault(format!("{clash} may not be equal")));
        }
        let headers_separator = regex::Regex::new(&headers_separator)
            .map_err(|error| Error::new("java.util.regex.PatternSyntaxException", error.to_string()))?;
        Ok(LineReader {
            parse_key: is_true("parse.key"),
            parse_headers: is_true("parse.headers"),
            ignore_error: is_true("ignore.error"),
            key_separator,
            headers_delimiter,
            headers_separator,
            headers_key_separator,
            null_marker,
            line_number: 0,
        })
    }

    /// The record that a line is. What is no UTF-8 is replaced, as Java does it.
    pub fn read(&mut self, line: &[u8]) -> Result<Parsed, Error> {
        self.line_number += 1;
        let line = String::from_utf8_lossy(line);
        let (headers, rest) =
            self.split(self.parse_headers, &line, &line, &self.headers_delimiter, "headers delimiter")?;
        let (key, value) = self.split(self.parse_key, &line, rest, &self.key_separator, "key separator")?;
        let headers = match headers {
            Some(headers) if !self.is_null(headers) => self.headers(headers)?,
            _ => Vec::new(),
        };
        Ok(Outgoing {
            key: key.and_then(|key| self.bytes(key)),
            value: self.bytes(value),
            headers,
            partition: None,
            timestamp: None,
            receipt: (),
        })
    }

    /// What stands before the separator, and what behind it.
    fn split<'l>(
        &self,
        enabled: bool,
        line: &str,
        rest: &'l str,
        separator: &str,
        name: &str,
    ) -> Result<(Option<&'l str>, &'l str), Error> {
        match rest.split_once(separator) {
            _ if !enabled => Ok((None, rest)),
            Some((before, behind)) => Ok((Some(before), behind)),
            None if self.ignore_error => Ok((None, rest)),
            None => Err(fault(format!("No {name} found on line number {}: '{line}'", self.line_number))),
        }
    }

    fn headers(&self, text: &str) -> Result<Headers, Error> {
        let mut pairs: Vec<&str> = self.headers_separator.split(text).collect();
        // Java drops the empty ones at the end.
        while pairs.len() > 1 && pairs.last().is_some_and(|pair| pair.is_empty()) {
            pairs.pop();
        }
        let header = |pair: &str| match pair.split_once(&self.headers_key_separator) {
            Some((key, _)) if self.is_null(key) => {
                Err(fault(format!("Header keys should not be equal to the null marker '{key}' as they can't be null")))
            }
            Some((key, value)) => Ok((key.to_owned(), self.bytes(value))),
            None if self.ignore_error => Ok((pair.to_owned(), None)),
            None => Err(fault(format!(
                "No header key separator found in pair '{pair}' on line number {}",
                self.line_number
            ))),
        };
        pairs.into_iter().map(header).collect()
    }

    fn bytes(&self, text: &str) -> Option<Vec<u8>> {
        (!self.is_null(text)).then(|| text.as_bytes().to_vec())
    }

    fn is_null(&self, text: &str) -> bool {
        self.null_marker.as_deref() == Some(text)
    }
}

fn fault(message: String) -> Error {
    Error::new("org.apache.kafka.common.KafkaException", message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reader(properties: &[(&str, &str)]) -> Result<LineReader, Error> {
        LineReader::new(&properties.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect())
    }

    fn read(properties: &[(&str, &str)], line: &str) -> Result<(Option<String>, Option<String>, String), String> {
        let text = |bytes: Option<Vec<u8>>| bytes.map(|bytes| String::from_utf8(bytes).unwrap());
        let record = reader(properties).unwrap().read(line.as_bytes()).map_err(|error| error.message().to_owned())?;
        let headers =
            record.headers.into_iter().map(|(key, value)| format!("{key}={}", text(value).unwrap_or("null".into())));
        Ok((text(record.key), text(record.value), headers.collect::<Vec<_>>().join(" ")))
    }

    fn some(text: &str) -> Option<String> {
        Some(text.to_owned())
    }

    #[test]
    fn a_line_is_a_value() {
        assert_eq!(read(&[], "a\tb"), Ok((None, some("a\tb"), String::new())));
        assert_eq!(read(&[], ""), Ok((None, some(""), String::new())));
    }

    #[test]
    fn keys_and_headers_stand_before_it() {
        let key = ("parse.key", "true");
        assert_eq!(read(&[key], "k\tv\tw"), Ok((some("k"), some("v\tw"), String::new())));
        assert_eq!(read(&[key, ("key.separator", "::")], "k::v"), Ok((some("k"), some("v"), String::new())));
        assert_eq!(read(&[key], "kv"), Err("No key separator found on line number 1: 'kv'".to_owned()));
        assert_eq!(read(&[key, ("ignore.error", "TRUE")], "kv"), Ok((None, some("kv"), String::new())));
        let headers = ("parse.headers", "true");
        assert_eq!(read(&[headers, key], "a:1,b:2,\tk\tv"), Ok((some("k"), some("v"), "a=1 b=2".to_owned())));
        assert_eq!(
            read(&[headers], "a:1,b\tv"),
            Err("No header key separator found in pair 'b' on line number 1".to_owned())
        );
        assert_eq!(read(&[headers, ("ignore.error", "true")], "b\tv"), Ok((None, some("v"), "b=null".to_owned())));
    }

    #[test]
    fn a_marker_stands_for_null() {
        let all = [("parse.key", "true"), ("parse.headers", "true"), ("null.marker", "NULL")];
        assert_eq!(read(&all, "NULL\tNULL\tNULL"), Ok((None, None, String::new())));
        assert_eq!(read(&all, "a:NULL\tk\tv"), Ok((some("k"), some("v"), "a=null".to_owned())));
        assert!(read(&all, "NULL:1\tk\tv").is_err());
    }

    #[test]
    fn separators_differ() {
        let message = |properties: &[(&str, &str)]| reader(properties).unwrap_err().message().to_owned();
        assert_eq!(message(&[("headers.delimiter", ",")]), "headers.delimiter and headers.separator may not be equal");
        assert_eq!(message(&[("null.marker", "\t")]), "null.marker and key.separator may not be equal");
    }
}
