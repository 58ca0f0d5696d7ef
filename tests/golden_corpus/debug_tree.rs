//! Reads what `#[derive(Debug)]` prints back into a tree, with the field names turned into Kafka's JSON names. So the
//! crate's structs can be compared with Kafka's JSON by name, field by field, without a mapping for each of them.

use std::iter::Peekable;
use std::str::Chars;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde_json::{Map, Value};

/// The tree of a value: structs are objects, `Some` is transparent, ids and bytes are the base64 that Kafka prints.
pub fn debug_tree(value: &impl std::fmt::Debug) -> Value {
    let text = format!("{value:?}");
    let mut parser = Parser { chars: text.chars().peekable() };
    let tree = parser.value();
    assert_eq!(parser.chars.next(), None, "the end of {text}");
    tree
}

/// Asserts that every field of Kafka's JSON is in the tree, and the same.
pub fn assert_matches(kafka: &Value, ours: &Value, path: &str) {
    match (kafka, ours) {
        (Value::Object(kafka), Value::Object(ours)) => {
            for (name, value) in kafka {
                let path = format!("{path}.{name}");
                let ours = ours.get(name).unwrap_or_else(|| panic!("{path} is not among {:?}", ours.keys()));
                assert_matches(value, ours, &path);
            }
        }
        (Value::Array(kafka), Value::Array(ours)) => {
            assert_eq!(kafka.len(), ours.len(), "entries of {path}");
            for (index, (kafka, ours)) in kafka.iter().zip(ours).enumerate() {
                assert_matches(kafka, ours, &format!("{path}[{index}]"));
            }
        }
        (Value::Number(kafka), Value::Number(ours)) if kafka.is_f64() || ours.is_f64() => {
            assert_eq!(kafka.as_f64(), ours.as_f64(), "{path}");
        }
        _ => assert_eq!(kafka, ours, "{path}"),
    }
}

struct Parser<'a> {
    chars: Peekable<Chars<'a>>,
}

impl Parser<'_> {
    fn space(&mut self) {
        while self.chars.next_if(|char| *char == ' ').is_some() {}
    }

    fn take(&mut self, expected: char) -> bool {
        self.space();
        self.chars.next_if_eq(&expected).is_some()
    }

    fn value(&mut self) -> Value {
        self.space();
        match self.chars.peek().copied() {
            Some('"') => Value::String(String::from_utf8(self.quoted()).expect("text is UTF-8")),
            Some('[') => Value::Array(self.list('[', ']')),
            Some('{') => self.map(),
            _ => self.token(),
        }
    }

    fn token(&mut self) -> Value {
        let mut token = String::new();
        while let Some(char) = self.chars.next_if(|char| char.is_ascii_alphanumeric() || "_-+.".contains(*char)) {
            token.push(char);
        }
        if let Ok(id) = token.parse::<uuid::Uuid>() {
            return Value::String(URL_SAFE_NO_PAD.encode(id.as_bytes()));
        }
        match token.as_str() {
            "None" => return Value::Null,
            "true" => return Value::Bool(true),
            "false" => return Value::Bool(false),
            "b" => return Value::String(STANDARD.encode(self.quoted())),
            _ => {}
        }
        if let Ok(number) = token.parse::<i64>() {
            return number.into();
        }
        if let Ok(number) = token.parse::<f64>() {
            return number.into();
        }
        self.space();
        match self.chars.peek() {
            Some('{') => self.structure(),
            Some('(') => {
                let mut values = self.list('(', ')');
                assert_eq!(values.len(), 1, "fields of {token}");
                values.remove(0)
            }
            other => panic!("{token:?} before {other:?}"),
        }
    }

    fn structure(&mut self) -> Value {
        assert!(self.take('{'));
        let mut fields = Map::new();
        while !self.take('}') {
            let mut name = String::new();
            while let Some(char) = self.chars.next_if(|char| *char != ':') {
                name.push(char);
            }
            assert!(self.take(':'), "a colon after {name}");
            fields.insert(lower_camel(&name), self.value());
            self.take(',');
        }
        Value::Object(fields)
    }

    /// Unknown tagged fields, which no golden message has.
    fn map(&mut self) -> Value {
        assert!(self.take('{') && self.take('}'), "an empty map");
        Value::Null
    }

    fn list(&mut self, open: char, close: char) -> Vec<Value> {
        assert!(self.take(open));
        let mut values = Vec::new();
        while !self.take(close) {
            values.push(self.value());
            self.take(',');
        }
        values
    }

    /// A string or byte string, with the escapes that Rust and the `bytes` crate print.
    fn quoted(&mut self) -> Vec<u8> {
        assert_eq!(self.chars.next(), Some('"'));
        let mut bytes = Vec::new();
        loop {
            let char = match self.chars.next().expect("a closing quote") {
                '"' => return bytes,
                '\\' => match self.chars.next().expect("an escaped character") {
                    'n' => '\n',
                    'r' => '\r',
                    't' => '\t',
                    '0' => '\0',
                    'x' => {
                        let hex: String = (0..2).filter_map(|_| self.chars.next()).collect();
                        bytes.push(u8::from_str_radix(&hex, 16).expect("two hex digits"));
                        continue;
                    }
                    'u' => {
                        let hex: String = self.chars.by_ref().skip(1).take_while(|char| *char != '}').collect();
                        let code = u32::from_str_radix(&hex, 16).expect("a code point");
                        char::from_u32(code).expect("a character")
                    }
                    other => other,
                },
                other => other,
            };
            bytes.extend_from_slice(char.encode_utf8(&mut [0; 4]).as_bytes());
        }
    }
}

fn lower_camel(snake: &str) -> String {
    let mut name = String::new();
    for word in snake.trim().split('_').filter(|word| !word.is_empty()) {
        if name.is_empty() {
            name.push_str(word);
        } else {
            name.push_str(&word[..1].to_uppercase());
            name.push_str(&word[1..]);
        }
    }
    name
}
