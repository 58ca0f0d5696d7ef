//! JSON as Kafka's tools read it from files and print it.

use serde_json::{Map, Value};

use super::say;
use crate::client::{Error, epoch_ms};
use crate::config::java;

/// A fault of the tools' own.
pub fn fault(message: impl Into<String>) -> Error {
    Error::new("org.apache.kafka.tools.AdminOperationException", message)
}

fn mapping(message: String) -> Error {
    Error::new("com.fasterxml.jackson.databind.JsonMappingException", message)
}

pub fn read_file(path: &str) -> Result<String, Error> {
    std::fs::read_to_string(path).map_err(|error| {
        let cause = match error.kind() {
            std::io::ErrorKind::NotFound => Error::new("java.nio.file.NoSuchFileException", path),
            _ => Error::new("java.nio.file.FileSystemException", format!("{path}: {error}")),
        };
        Error::new("java.io.IOException", format!("Unable to read file {path}")).caused_by(cause)
    })
}

/// The one version that these files have. Without, it is that.
pub fn version_1(value: &Value) -> Result<(), Error> {
    if !value.is_object() {
        return Err(mapping(format!("Expected JSON object, received {value}")));
    }
    match value.get("version") {
        None => Ok(()),
        Some(_) => match integer(value, "version")? {
            1 => Ok(()),
            version => Err(fault(format!("Not supported version field value {version}"))),
        },
    }
}

pub fn array(value: &Value) -> Result<&Vec<Value>, Error> {
    value.as_array().ok_or_else(|| mapping(format!("Expected JSON array, received {value}")))
}

fn field<'v>(value: &'v Value, name: &str) -> Result<&'v Value, Error> {
    value.get(name).ok_or_else(|| mapping(format!("No such field exists: `{name}`")))
}

pub fn text<'v>(value: &'v Value, name: &str) -> Result<&'v str, Error> {
    let field = field(value, name)?;
    field.as_str().ok_or_else(|| mapping(format!("Expected `String` value, received {field}")))
}

pub fn long(value: &Value, name: &str) -> Result<i64, Error> {
    let field = field(value, name)?;
    field.as_i64().ok_or_else(|| mapping(format!("Expected `Long` value, received {field}")))
}

pub fn integer(value: &Value, name: &str) -> Result<i32, Error> {
    let field = field(value, name)?;
    let number = field.as_i64().and_then(|number| i32::try_from(number).ok());
    number.ok_or_else(|| mapping(format!("Expected `Integer` value, received {field}")))
}

pub fn integers(value: &Value, name: &str) -> Result<Vec<i32>, Error> {
    let each = |item: &Value| {
        let number = item.as_i64().and_then(|number| i32::try_from(number).ok());
        number.ok_or_else(|| mapping(format!("Expected `Integer` value, received {item}")))
    };
    array(field(value, name)?)?.iter().map(each).collect()
}

pub fn texts(value: &Value, name: &str) -> Result<Vec<String>, Error> {
    let each = |item: &Value| {
        item.as_str().map(str::to_owned).ok_or_else(|| mapping(format!("Expected `String` value, received {item}")))
    };
    array(field(value, name)?)?.iter().map(each).collect()
}

/// Prints a line of JSON for something that has happened now.
pub fn say_event(name: &str, members: Value) {
    let mut event = Map::new();
    event.insert("timestamp".to_owned(), epoch_ms().into());
    event.insert("name".to_owned(), name.into());
    if let Value::Object(members) = members {
        event.extend(members);
    }
    say!("{}", Value::Object(event));
}

/// An object with its members as a Java `HashMap` has them.
pub fn hash_map<const N: usize>(members: [(&str, Value); N]) -> Value {
    let mut names = members.each_ref().map(|(name, _)| *name);
    java::hash_order(&mut names, java::grown_table(N));
    let mut object = Map::new();
    for name in names {
        if let Some((_, value)) = members.iter().find(|(known, _)| *known == name) {
            object.insert(name.to_owned(), value.clone());
        }
    }
    Value::Object(object)
}
