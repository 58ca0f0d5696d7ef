//! JSON in the text form of Kafka's tools.

use std::fmt::Write as _;

use serde_json::Value;

use crate::config::double_text;

/// The text of a value, without any space.
pub(in crate::cli) fn text(value: &Value) -> String {
    let mut text = String::new();
    write(&mut text, value);
    text
}

/// Values come from records, which nest a few levels deep.
fn write(out: &mut String, value: &Value) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
        Value::Number(number) => match number.as_f64() {
            Some(value) if number.is_f64() => out.push_str(&double_text(value)),
            _ => write!(out, "{number}").expect("a string takes everything"),
        },
        Value::String(text) => write_string(out, text),
        Value::Array(elements) => {
            out.push('[');
            for (n, element) in elements.iter().enumerate() {
                if n > 0 {
                    out.push(',');
                }
                write(out, element);
            }
            out.push(']');
        }
        Value::Object(fields) => {
            out.push('{');
            for (n, (name, value)) in fields.iter().enumerate() {
                if n > 0 {
                    out.push(',');
                }
                write_string(out, name);
                out.push(':');
                write(out, value);
            }
            out.push('}');
        }
    }
}

fn write_string(out: &mut String, text: &str) {
    out.push('"');
    for char in text.chars() {
        match char {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\0'..='\u{1f}' => write!(out, "\\u{:04X}", char as u32).expect("a string takes everything"),
            char => out.push(char),
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn is_what_kafka_prints() {
        let value = json!({"b": "\u{1f}\"\\/\n\u{7f}ü", "a": [1, -1, null, true], "c": 1.048576e7, "d": 50.0});
        let expected = "{\"b\":\"\\u001F\\\"\\\\/\\n\u{7f}ü\",\"a\":[1,-1,null,true],\"c\":1.048576E7,\"d\":50.0}";
        assert_eq!(text(&value), expected);
    }
}
