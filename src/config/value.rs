//! Values of settings: their types, how text becomes a value and how a value is printed again.

use std::fmt;

use super::java;

/// A setting was refused; the text is the one that Kafka's `ConfigException` carries.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ConfigError(pub String);

impl ConfigError {
    /// The usual form: value, key and what is wrong with it.
    pub(super) fn invalid(name: &str, value: impl fmt::Display, reason: &str) -> ConfigError {
        ConfigError(format!("Invalid value {value} for configuration {name}: {reason}"))
    }
}

/// Type of a key's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConfigType {
    Boolean,
    String,
    Int,
    Short,
    Long,
    Double,
    List,
    Class,
    Password,
}

impl ConfigType {
    /// The type's number in a description; 0 stands for a key of unknown type.
    pub fn id(self) -> i8 {
        match self {
            ConfigType::Boolean => 1,
            ConfigType::String => 2,
            ConfigType::Int => 3,
            ConfigType::Short => 4,
            ConfigType::Long => 5,
            ConfigType::Double => 6,
            ConfigType::List => 7,
            ConfigType::Class => 8,
            ConfigType::Password => 9,
        }
    }

    pub(super) fn parse(text: &str) -> Option<ConfigType> {
        Some(match text {
            "BOOLEAN" => ConfigType::Boolean,
            "STRING" => ConfigType::String,
            "INT" => ConfigType::Int,
            "SHORT" => ConfigType::Short,
            "LONG" => ConfigType::Long,
            "DOUBLE" => ConfigType::Double,
            "LIST" => ConfigType::List,
            "CLASS" => ConfigType::Class,
            "PASSWORD" => ConfigType::Password,
            _ => return None,
        })
    }
}

impl fmt::Display for ConfigType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ConfigType::Boolean => "BOOLEAN",
            ConfigType::String => "STRING",
            ConfigType::Int => "INT",
            ConfigType::Short => "SHORT",
            ConfigType::Long => "LONG",
            ConfigType::Double => "DOUBLE",
            ConfigType::List => "LIST",
            ConfigType::Class => "CLASS",
            ConfigType::Password => "PASSWORD",
        })
    }
}

/// A value of one of the types.
#[derive(Clone, PartialEq)]
pub enum ConfigValue {
    Boolean(bool),
    String(String),
    Int(i32),
    Short(i16),
    Long(i64),
    Double(f64),
    List(Vec<String>),
    /// The name of a Java class. There are none here, so it is never looked up.
    Class(String),
    Password(String),
}

impl ConfigValue {
    /// Reads `text` as a value of `config_type`; `name` is for the message.
    pub fn parse(name: &str, text: &str, config_type: ConfigType) -> Result<ConfigValue, ConfigError> {
        let trimmed = java::trim(text);
        let not_a_number = || ConfigError::invalid(name, text, &format!("Not a number of type {config_type}"));
        Ok(match config_type {
            ConfigType::Boolean if trimmed.eq_ignore_ascii_case("true") => ConfigValue::Boolean(true),
            ConfigType::Boolean if trimmed.eq_ignore_ascii_case("false") => ConfigValue::Boolean(false),
            ConfigType::Boolean => {
                return Err(ConfigError::invalid(name, text, "Expected value to be either true or false"));
            }
            ConfigType::String => ConfigValue::String(trimmed.to_owned()),
            ConfigType::Int => ConfigValue::Int(java::parse_integer(trimmed).ok_or_else(not_a_number)?),
            ConfigType::Short => ConfigValue::Short(java::parse_integer(trimmed).ok_or_else(not_a_number)?),
            ConfigType::Long => ConfigValue::Long(java::parse_integer(trimmed).ok_or_else(not_a_number)?),
            ConfigType::Double => ConfigValue::Double(java::parse_double(trimmed).ok_or_else(not_a_number)?),
            ConfigType::List if trimmed.is_empty() => ConfigValue::List(Vec::new()),
            ConfigType::List => ConfigValue::List(java::split_commas(trimmed).map(str::to_owned).collect()),
            ConfigType::Class => ConfigValue::Class(trimmed.to_owned()),
            ConfigType::Password => ConfigValue::Password(trimmed.to_owned()),
        })
    }

    /// The text under which the value is described; a password is hidden.
    pub fn to_text(&self) -> String {
        match self {
            ConfigValue::Boolean(value) => value.to_string(),
            ConfigValue::Int(value) => value.to_string(),
            ConfigValue::Short(value) => value.to_string(),
            ConfigValue::Long(value) => value.to_string(),
            ConfigValue::Double(value) => java::double_text(*value),
            ConfigValue::List(items) => items.join(","),
            ConfigValue::String(text) | ConfigValue::Class(text) => text.clone(),
            ConfigValue::Password(_) => "[hidden]".to_owned(),
        }
    }

    pub(super) fn as_number(&self) -> Option<f64> {
        match self {
            ConfigValue::Int(value) => Some((*value).into()),
            ConfigValue::Short(value) => Some((*value).into()),
            ConfigValue::Long(value) => Some(*value as f64),
            ConfigValue::Double(value) => Some(*value),
            _ => None,
        }
    }
}

/// As messages quote a value: a list in brackets.
impl fmt::Display for ConfigValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ConfigValue::List(items) => f.write_str(&java::list_text(items)),
            ConfigValue::Class(name) => write!(f, "class {name}"),
            _ => f.write_str(&self.to_text()),
        }
    }
}

/// Never shows a password.
impl fmt::Debug for ConfigValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
